/* fit_rows.h -- the plans that `gen fit` shows, of all that were made. */
#ifndef GEN_FIT_ROWS_H
#define GEN_FIT_ROWS_H

#include "gen/tools/fit_space.h"

/* By how much a row must be faster than one that loses less. */
#define FIT_FASTER 1.05

typedef struct {
    Config *config;              /* of the recipe; without `place` if that needs other words */
    int64_t samples, ranks;      /* of an update; GPUs or processes */
    const FitPlan **row;         /* those that fit and that no other surpasses, best first */
    int nrows;
    const FitPlan **all;         /* all that fit, best first */
    int nall;
    const FitPlan **over;        /* those that do not, nearest first; every one loses another set */
    int nover;
    const FitPlan *next;         /* the fastest that does not fit and loses no more than row 0 */
    int plans;                   /* that were made */
} FitTable;

/* The table of the plans so far. */
FitTable fit_rows(const FitSpace *s);

#endif
