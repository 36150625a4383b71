/* record_weights.h -- learned weights of the training records. */
#ifndef RECORD_WEIGHTS_H
#define RECORD_WEIGHTS_H

#include "solutions.h"

/* Files in OUT: all weights, and the records with the smallest ones. */
extern const char weights_file[], suspects_file[];

/* The index of a record's learned entry in a step; -1: it has weight 1, as in the cold start. */
int32_t entry_of(const StepsRow *r, int64_t step);
//@ if meta_tokens
//@ unless PRM_WEIGHTS=net
/* Sets the metrics of a step that summarise all weights. read: read them from the model again. */
void record_weights_report(bool read, double *sum);
//@ end
//@ end
/* Writes both files, on rank 0; NULL or a malloc'ed message. */
char *record_weights_write(void);
/* After record_weights_write(): notes the records with the smallest weights. */
void record_weights_say_suspects(void);

#endif
