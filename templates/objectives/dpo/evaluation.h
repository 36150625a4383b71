/* evaluation.h -- metrics of preference pairs over splits of the records. */
#ifndef EVALUATION_H
#define EVALUATION_H

#include <cjson/cJSON.h>

#include "pairs.h"

/* This rank's sums of the STEP_METRICS of the last step, STEP_tokens aside. */
void step_sums(int64_t micro, double *sum);
/* This rank's sums of EVAL_METRICS over the first batches of d, at most all of them. */
void evaluate(Data *d, int64_t batches, double *sum);
/* Metrics of each split over all ranks, on as many batches as a validation has. */
void evaluate_splits(double value[SPLITS][EVAL_METRICS]);
/* Notes a line for each split; when: "before" or "after" training. */
void say_splits(const char *when, double value[SPLITS][EVAL_METRICS]);
/* The same as JSON, an object for each split; the caller deletes it. */
cJSON *splits_json(double value[SPLITS][EVAL_METRICS]);

#endif
