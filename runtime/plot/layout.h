/* layout.h -- a figure of curves, and where everything of it stands: texts, axes, ticks, legends.
 *
 * Keeps: a pure function of the figure and of how wide texts are; texts overlap no other and no axes. */
#ifndef DIECAST_LAYOUT_H
#define DIECAST_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/plot/ticks.h"

enum { PLOT_CURVES = 6, PLOT_PANELS = 4, PLOT_TEXT = 96 };

typedef enum {
    PLOT_SOLID, PLOT_DASHED, PLOT_DASHDOT,   /* lines; a dot where there are few points */
    PLOT_THIN,                               /* a pale line, behind what others say */
    PLOT_STEPS,                              /* y from this x to the next */
    PLOT_RANGE,                              /* a dot at y in a bar from low to high */
    PLOT_STEMS,                              /* a stroke from 0 to y, where y is not 0 */
    PLOT_RULES                               /* a stroke up to the share y of the height of the axes */
} PlotStyle;

typedef struct {
    const char *label;           /* "": it is not in the legend */
    PlotStyle style;
    int64_t n;
    const double *x, *y;         /* (n); y NAN: no point of this curve, else not finite: a gap in it */
    const double *low, *high;    /* (n) around y, or NULL */
} PlotCurve;

typedef struct {
    char ylabel[PLOT_TEXT], xlabel[PLOT_TEXT];
    bool log;                    /* y on a log axis, where all is above 0 and spans much */
    bool zero;                   /* the axis has 0 on it */
    bool whole;                  /* x are whole numbers */
    int ncurves;
    PlotCurve curve[PLOT_CURVES];
    /* A second axis, above: what grows with x of the same n rows; NULL: none. */
    int64_t n;
    const double *x, *second;    /* (n) */
    char label[PLOT_TEXT];       /* of it */
    const char *const *name;     /* (names) of x = 1, 2 ... in the place of numbers; NULL: none */
    int64_t names;
} PlotPanel;

typedef struct {
    char title[PLOT_TEXT];
    int npanels;
    PlotPanel panel[PLOT_PANELS];
} Plot;

typedef struct { double x, y, w, h; } Box;       /* x, y: of the upper left corner */

typedef struct {
    Box box;                     /* what it takes */
    double base;                 /* y that the letters stand on */
    double size;
    bool bold;
    char text[PLOT_TEXT];
} LayoutLabel;

typedef struct {
    Box axes;
    Ticks x, y;
    int nsecond;
    double second[TICKS_MOST];   /* x of the ticks above, in the figure */
    Box sample[PLOT_CURVES];     /* of the legend; w is 0: none */
} LayoutPanel;

enum { LAYOUT_LABELS = 320 };

typedef struct {
    double w, h;
    int nlabels;
    LayoutLabel label[LAYOUT_LABELS];
    LayoutPanel panel[PLOT_PANELS];
} Layout;

/* How wide a text is. */
typedef struct {
    double (*width)(void *with, const char *text, double size, bool bold);
    void *with;
} LayoutMeasure;

/* Of figures with at least one panel, and panels with at least one point. */
void layout_figure(Layout *l, const Plot *p, const LayoutMeasure *m);
/* Where a point stands in the figure; NAN: nowhere. */
double layout_x(const LayoutPanel *p, double x);
double layout_y(const LayoutPanel *p, double y);
bool layout_drawn(double y);                     /* finite, and not beyond TICKS_LARGEST */

#endif
