/* fit_table.h -- `gen fit`. */
#ifndef GEN_FIT_TABLE_H
#define GEN_FIT_TABLE_H

#include <stdbool.h>

typedef struct {
    const char *gpus, *host_gib;         /* as typed; NULL: not given */
    bool exact, all;
} FitOptions;

/* Prints the table for a recipe and FIELD=VALUE words. Returns the exit status, 1: nothing fits. */
int fit_run(const char *recipe, char **word, int n, const FitOptions *o);

#endif
