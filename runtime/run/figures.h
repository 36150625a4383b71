/* figures.h -- plots of a run, drawn from the files in its folder; rows in figures.def.
 *
 * Keeps: the same files give the same figures, at the end of training or later. Rank 0 only. */
#ifndef DIECAST_FIGURES_H
#define DIECAST_FIGURES_H

#include "runtime/model/model.h"
#include "runtime/plot/table.h"
#include "runtime/run/metrics.h"

/* Reads the file of a SOURCE row of the objective. */
typedef struct {
    const char *source;          /* its name */
    TableReader *read;
} FigureReader;

typedef struct {
    const char *out;             /* run folder */
    const Model *model;          /* its objective; its name starts the titles */
    const Metrics *metrics;
    const FigureReader *readers; /* one per SOURCE row of the objective, ends with source NULL;
                                    NULL: it has none */
} FiguresOf;

/* At the end of a run: draws every figure that has data and names them in one line. Errors never
 * end the program. */
void figures_end(const FiguresOf *of);
/* --plot: the same, but ends the program if no figure has data or one cannot be drawn. */
void figures_plot(const FiguresOf *of);
/* Like figures_end(), for the figures whose first panel reads `source`. */
void figures_source(const FiguresOf *of, const char *source);
/* The same for a figure of objective "-", e.g. "plots/regions*.png", from a table, which it
 * empties. star: replaces the * in the file name. */
void figures_table(const FiguresOf *of, const char *file, const char *star, Table *t);

#endif
