/* baseline.h -- baseline of the initial weights: metrics and answers before training, and reference
 * log-probabilities. They are cached in OUT/.reference_cache. */
#ifndef BASELINE_H
#define BASELINE_H

#include <cjson/cJSON.h>

#include "pairs.h"

/* start.json: metrics of each split ("before") and answers to its first records ("answers").
 * NULL on ranks other than 0. */
extern cJSON *baseline;

/* The hook `loaded`. */
bool baseline_loaded(const Flags *f, const WeightFolders folder, bool first);
/* Seconds since then. */
double baseline_seconds(void);

#endif
