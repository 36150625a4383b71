/* figures.h -- the figures of a run, from what its folder holds: the rows of figures.def.
 *
 * Keeps: at the end of training and long after it the same files become the same figures. Rank 0 alone. */
#ifndef DIECAST_FIGURES_H
#define DIECAST_FIGURES_H

#include "runtime/model/model.h"
#include "runtime/plot/table.h"
#include "runtime/run/metrics.h"

typedef struct {
    const char *out;             /* the run folder */
    const Model *model;          /* its objective, and its name, with which titles begin */
    const Metrics *metrics;
} FiguresOf;

/* At the end of a run: those that can be drawn are, and named in one line. Nothing of it ends the program. */
void figures_end(const FiguresOf *of);
/* --plot: the same, or the program ends: no figure can be drawn, or one could not be. */
void figures_asked(const FiguresOf *of);
/* The same as figures_end() of those whose first panel is of a source. */
void figures_source(const FiguresOf *of, const char *source);
/* Likewise a figure of objective "-", "plots/regions*.png" say, of a table, which becomes empty; `star`: in the place
 * of its *. */
void figures_table(const FiguresOf *of, const char *file, const char *star, Table *t);

#endif
