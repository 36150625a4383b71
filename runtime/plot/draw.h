/* draw.h -- a figure as PNG.
 *
 * Keeps: the same figure is the same bytes: the letters are those that cairo itself has. */
#ifndef DIECAST_DRAW_H
#define DIECAST_DRAW_H

#include "runtime/plot/cairo.h"
#include "runtime/plot/layout.h"

/* folder/name becomes the figure, at once. NULL, or a malloc'ed message. */
char *draw_figure(const Cairo *c, const Plot *p, const char *folder, const char *name);
/* Where everything stands in it. */
void draw_layout(const Cairo *c, const Plot *p, Layout *l);

#endif
