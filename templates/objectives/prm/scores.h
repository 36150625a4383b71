/* scores.h -- scores of solutions: margins of their marks, aggregated. */
#ifndef SCORES_H
#define SCORES_H

#include "solutions.h"

/* The aggregate of a record's margins; rows: as Inputs.rows, its MARKS entries. */
double score_of(const float *margin, const int32_t *rows);

/* Computes io.margins for a batch of this rank. */
void score_batch(const Steps *s, int64_t batch);

/* A solution of the batch scored last, of this rank. */
typedef struct {
    StepsRow of;
    const float *margin;         /* of each mark */
    double score;
} Scored;

/* Solution b; false: there is none. */
bool scored(const Steps *s, int64_t batch, int64_t b, Scored *to);

/* For each solution, in the order of the files, MARKS margins and the score; malloc'ed. The same on
 * every rank. */
double *score_all(const Steps *s);

#endif
