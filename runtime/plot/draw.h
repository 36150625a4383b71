/* draw.h -- renders a figure to PNG.
 *
 * Keeps: the same figure gives the same bytes: it uses the font built into cairo. */
#ifndef DIECAST_DRAW_H
#define DIECAST_DRAW_H

#include "runtime/plot/cairo.h"
#include "runtime/plot/layout.h"

/* Atomically writes the figure to folder/name. Returns NULL, or a malloc'ed message. */
char *draw_figure(const Cairo *c, const Plot *p, const char *folder, const char *name);
/* Computes the positions of its elements. */
void draw_layout(const Cairo *c, const Plot *p, Layout *l);

#endif
