/* layout.h -- layout of a line chart: positions of texts, axes, ticks and legends.
 *
 * Keeps: pure functions of their arguments, the figure and the text widths; no text overlaps
 *        another or an axis. */
#ifndef DIECAST_LAYOUT_H
#define DIECAST_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

/* ---- ticks at round values, and their labels ------------------------------------------------- */

enum { TICKS_MOST = 16, TICKS_TEXT = 24 };

typedef struct {
    bool log;
    double lo, hi;               /* axis range; lo < hi, on a log axis 0 < lo */
    int n;                       /* at least 1 */
    double at[TICKS_MOST];       /* (n) ascending, from lo to hi */
    char text[TICKS_MOST][TICKS_TEXT];   /* all different */
} Ticks;

/* Larger values are not drawn: their differences would overflow. */
#define TICKS_LARGEST 1e100

typedef struct {
    int most;                    /* maximum number of ticks: 2 to TICKS_MOST, from 3 with `ends` */
    bool log;
    bool whole;                  /* values are integers, and so are the ticks */
    bool ends;                   /* the axis starts and ends at a tick */
} TicksWanted;

/* For values lo to hi, |each| at most TICKS_LARGEST, positive on a log axis. Tick steps are 1, 2 or
 * 5 times a power of ten, or decades. If lo and hi are nearly equal, the axis extends on both
 * sides. */
Ticks ticks_of(double lo, double hi, const TicksWanted *w);

/* ---- figures --------------------------------------------------------------------------------- */

enum { PLOT_CURVES = 6, PLOT_PANELS = 4, PLOT_TEXT = 96 };

typedef enum {
    PLOT_SOLID, PLOT_DASHED, PLOT_DASHDOT,   /* lines; dots if there are few points */
    PLOT_THIN,                               /* a pale line, drawn behind the others */
    PLOT_STEPS,                              /* y holds until the next x */
    PLOT_RANGE,                              /* a dot at y with a bar from low to high */
    PLOT_STEMS,                              /* a vertical line from 0 to y, if y is not 0 */
    PLOT_RULES                               /* a vertical line up to the fraction y of the axis */
} PlotStyle;

typedef struct {
    const char *label;           /* "": not in the legend */
    PlotStyle style;
    int64_t n;
    const double *x, *y;         /* (n); y NAN: no point here; otherwise non-finite: a gap */
    const double *low, *high;    /* (n) range around y, or NULL */
} PlotCurve;

typedef struct {
    char ylabel[PLOT_TEXT], xlabel[PLOT_TEXT];
    bool log;                    /* log y axis, if all values are positive and span a wide range */
    bool zero;                   /* the axis includes 0 */
    bool whole;                  /* x values are integers */
    int ncurves;
    PlotCurve curve[PLOT_CURVES];
    /* A second x axis on top: a quantity that grows with x, n rows; NULL: none. */
    int64_t n;
    const double *x, *second;    /* (n) */
    char label[PLOT_TEXT];       /* label of the second axis */
    const char *const *name;     /* (names) tick labels for x = 1, 2 ...; NULL: numbers */
    int64_t names;
} PlotPanel;

typedef struct {
    char title[PLOT_TEXT];
    int npanels;
    PlotPanel panel[PLOT_PANELS];
} Plot;

typedef struct { double x, y, w, h; } Box;       /* x, y: upper left corner */

typedef struct {
    Box box;                     /* extent */
    double base;                 /* baseline y */
    double size;
    bool bold;
    char text[PLOT_TEXT];
} LayoutLabel;

typedef struct {
    Box axes;
    Ticks x, y;
    int nsecond;
    double second[TICKS_MOST];   /* x of the top ticks, in figure coordinates */
    Box sample[PLOT_CURVES];     /* legend samples; w is 0: none */
} LayoutPanel;

enum { LAYOUT_LABELS = 320 };

typedef struct {
    double w, h;
    int nlabels;
    LayoutLabel label[LAYOUT_LABELS];
    LayoutPanel panel[PLOT_PANELS];
} Layout;

/* Measures text width. */
typedef struct {
    double (*width)(void *with, const char *text, double size, bool bold);
    void *with;
} LayoutMeasure;

/* Requires at least one panel, and at least one point per panel. */
void layout_figure(Layout *l, const Plot *p, const LayoutMeasure *m);
/* Figure coordinates of a point; NAN: outside. */
double layout_x(const LayoutPanel *p, double x);
double layout_y(const LayoutPanel *p, double y);
/* True for a finite value of magnitude at most TICKS_LARGEST. */
bool layout_drawn(double y);

#endif
