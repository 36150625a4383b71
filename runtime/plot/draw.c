/* draw.c -- loads libcairo; draws with it what layout.c has placed.
 *
 * Method: of the points in one pixel column it draws the first, lowest, highest and last, so that a
 *         curve of any length shows its extremes and is drawn quickly. */
#define _GNU_SOURCE
#include "runtime/plot/draw.h"

#include <dlfcn.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/files/folder.h"
#include "runtime/plot/cairo.h"
#include "runtime/plot/png.h"

/* ---- libcairo -------------------------------------------------------------------------------- */

const Cairo *cairo_open(char **error)
{
    static Cairo cairo;
    static bool opened;
    if (opened)
        return &cairo;
    void *library = dlopen("libcairo.so.2", RTLD_NOW | RTLD_LOCAL);
    const char *lacks = library ? NULL : "libcairo.so.2";
    void *found;
#define CAIRO_FUNCTION(name, returns, takes)                     \
    found = library ? dlsym(library, "cairo_" #name) : NULL;     \
    lacks = !lacks && !found ? "a newer libcairo.so.2" : lacks;  \
    memcpy(&cairo.name, &found, sizeof found);
    CAIRO_FUNCTIONS(CAIRO_FUNCTION)
#undef CAIRO_FUNCTION
    opened = !lacks;
    if (opened)
        return &cairo;
    if (library)
        dlclose(library);
    *error = format("%s is missing: install libcairo2 (apt-get install libcairo2)", lacks);
    return NULL;
}

/* ---- figures --------------------------------------------------------------------------------- */

/* Colour-blind safe palette: M. Okabe and K. Ito, Color Universal Design (2008). */
static const double colour[PLOT_CURVES][3] = {
    {0.00, 0.45, 0.70}, {0.84, 0.37, 0.00}, {0.00, 0.62, 0.45},
    {0.80, 0.47, 0.65}, {0.90, 0.62, 0.00}, {0.34, 0.71, 0.91}};
static const double black[3] = {0.10, 0.10, 0.10}, grey[3] = {0.88, 0.88, 0.88},
                    edge[3] = {0.45, 0.45, 0.45};
enum { FEW = 60 };               /* up to this many points are drawn as dots */

typedef struct {
    const Cairo *c;
    CairoPen *pen;
    const LayoutPanel *in;
} Draw;

static void pen(const Draw *d, const double rgb[3], double pale, double width)
{
    d->c->set_source_rgb(d->pen, rgb[0] + pale * (1 - rgb[0]), rgb[1] + pale * (1 - rgb[1]),
                         rgb[2] + pale * (1 - rgb[2]));
    d->c->set_line_width(d->pen, width);
}

static void stroke(const Draw *d, double x0, double y0, double x1, double y1)
{
    d->c->move_to(d->pen, x0, y0);
    d->c->line_to(d->pen, x1, y1);
    d->c->stroke(d->pen);
}

static void dot(const Draw *d, double x, double y, double r)
{
    d->c->new_path(d->pen);
    d->c->arc(d->pen, x, y, r, 0, 6.283185307179586);
    d->c->fill(d->pen);
}

/* ---- a curve --------------------------------------------------------------------------------- */

typedef struct { double x, y; } Point;

/* A line being drawn: what the current pixel column contains. */
typedef struct {
    const Draw *d;
    bool open;                   /* the line has begun */
    int64_t column, n;
    Point first, low, high, last;
    bool low_first;
    int64_t drawn;               /* points of the line */
} Line;

static void line_to(Line *l, Point p)
{
    (l->open ? l->d->c->line_to : l->d->c->move_to)(l->d->pen, p.x, p.y);
    l->open = true;
    l->drawn++;
}

static void end_column(Line *l)
{
    if (!l->n)
        return;
    line_to(l, l->first);
    if (l->n > 2) {
        line_to(l, l->low_first ? l->low : l->high);
        line_to(l, l->low_first ? l->high : l->low);
    }
    if (l->n > 1)
        line_to(l, l->last);
    l->n = 0;
}

static void add(Line *l, Point p)
{
    const int64_t column = (int64_t)floor(p.x);
    if (l->n && column != l->column)
        end_column(l);
    if (!l->n) {
        l->first = l->low = l->high = p;
        l->column = column;
    }
    if (p.y > l->low.y)
        l->low = p, l->low_first = false;
    if (p.y < l->high.y)
        l->high = p, l->low_first = true;
    l->last = p;
    l->n++;
}

/* Ends the line, at the last point or before a gap. A line of one point is a dot. */
static void end_line(Line *l)
{
    end_column(l);
    if (l->drawn == 1)
        dot(l->d, l->first.x, l->first.y, 2);
    else
        l->d->c->stroke(l->d->pen);
    l->open = false;
    l->drawn = 0;
}

static Point point(const Draw *d, const PlotCurve *c, int64_t i)
{
    const double x = layout_drawn(c->x[i]) ? layout_x(d->in, c->x[i]) : NAN;
    return (Point){x, layout_y(d->in, c->y[i])};
}

static bool there(Point p)
{
    return !isnan(p.x) && !isnan(p.y);
}

static void set_dash(const Draw *d, PlotStyle s)
{
    static const double dashed[] = {8, 4}, dashdot[] = {9, 4, 2, 4};
    d->c->set_dash(d->pen, s == PLOT_DASHDOT ? dashdot : dashed,
                   s == PLOT_DASHED ? 2 : s == PLOT_DASHDOT ? 4 : 0, 0);
}

static void line(const Draw *d, const PlotCurve *c)
{
    Line l = {.d = d};
    int64_t n = 0;
    for (int64_t i = 0; i < c->n; i++)
        n += there(point(d, c, i));
    if ((double)n > d->in->axes.w)
        d->c->set_line_width(d->pen, 1);
    set_dash(d, c->style);
    for (int64_t i = 0; i < c->n; i++) {
        const Point p = point(d, c, i);
        if (there(p))
            add(&l, p);
        else if (!isnan(c->y[i]) && (l.open || l.n))
            end_line(&l);
    }
    if (l.open || l.n)
        end_line(&l);
    d->c->set_dash(d->pen, NULL, 0, 0);
    for (int64_t i = 0; i < c->n && n <= FEW; i++)
        if (there(point(d, c, i)))
            dot(d, point(d, c, i).x, point(d, c, i).y, 3);
}

static void steps(const Draw *d, const PlotCurve *c)
{
    bool open = false;
    for (int64_t i = 0; i < c->n; i++) {
        const Point p = point(d, c, i);
        const double x = i + 1 < c->n ? layout_x(d->in, c->x[i + 1]) : p.x;
        if (!there(p) || isnan(x))
            continue;
        if (!open)
            d->c->move_to(d->pen, p.x, d->in->axes.y + d->in->axes.h);
        d->c->line_to(d->pen, p.x, p.y);
        d->c->line_to(d->pen, x, p.y);
        open = true;
    }
    d->c->stroke(d->pen);
}

/* Vertical lines at the points. */
static void strokes(const Draw *d, const PlotCurve *c)
{
    const Box a = d->in->axes;
    for (int64_t i = 0; i < c->n; i++) {
        const Point p = point(d, c, i);
        if (!there(p) || (c->y[i] == 0 && c->style != PLOT_RANGE))
            continue;
        if (c->style == PLOT_RULES)
            stroke(d, p.x, a.y + (1 - c->y[i]) * a.h, p.x, a.y + a.h);
        else if (c->style == PLOT_STEMS)
            stroke(d, p.x, layout_y(d->in, 0), p.x, p.y);
        if (c->style == PLOT_RANGE)
            dot(d, p.x, p.y, 4);
    }
}

/* Bars from low to high. */
static void bars(const Draw *d, const PlotCurve *c)
{
    for (int64_t i = 0; c->low && i < c->n; i++) {
        const Point p = point(d, c, i);
        const double low = layout_y(d->in, c->low[i]), high = layout_y(d->in, c->high[i]);
        if (there(p) && !isnan(low) && !isnan(high))
            stroke(d, p.x, low, p.x, high);
    }
}

static int is_pale(const PlotCurve *c)
{
    return c->style == PLOT_THIN || c->style == PLOT_STEMS;
}

static void curve(const Draw *d, const PlotCurve *c, int k)
{
    pen(d, colour[k], 0.3, 1);
    bars(d, c);
    pen(d, colour[k], is_pale(c) ? 0.6 : 0, is_pale(c) ? 1 : 1.6);
    if (c->style == PLOT_STEPS)
        steps(d, c);
    else if (c->style >= PLOT_RANGE)
        strokes(d, c);
    else
        line(d, c);
}

/* ---- a figure -------------------------------------------------------------------------------- */

static void grid(const Draw *d)
{
    const Box a = d->in->axes;
    const Ticks *x = &d->in->x, *y = &d->in->y;
    pen(d, grey, 0, 1);
    for (int i = 0; i < y->n; i++)
        stroke(d, a.x, layout_y(d->in, y->at[i]), a.x + a.w, layout_y(d->in, y->at[i]));
    for (int i = 0; i < x->n; i++)
        stroke(d, layout_x(d->in, x->at[i]), a.y, layout_x(d->in, x->at[i]), a.y + a.h);
    pen(d, edge, 0, 1);
    for (int i = 0; i < x->n; i++)
        stroke(d, layout_x(d->in, x->at[i]), a.y + a.h, layout_x(d->in, x->at[i]), a.y + a.h + 4);
    for (int i = 0; i < d->in->nsecond; i++)
        stroke(d, d->in->second[i], a.y - 4, d->in->second[i], a.y);
    if (d->in->nsecond)
        stroke(d, a.x, a.y, a.x + a.w, a.y);
    stroke(d, a.x, a.y, a.x, a.y + a.h);
    stroke(d, a.x, a.y + a.h, a.x + a.w, a.y + a.h);
}

/* Draws a curve's legend sample in its box. */
static void sample(const Draw *d, const PlotCurve *c, int k)
{
    const Box b = d->in->sample[k];
    const double y = b.y + b.h / 2;
    if (b.w == 0)
        return;
    pen(d, colour[k], is_pale(c) ? 0.6 : 0, 1.6);
    set_dash(d, c->style);
    if (c->style == PLOT_RULES || c->style == PLOT_STEMS)
        stroke(d, b.x + b.w / 2, b.y - 2, b.x + b.w / 2, b.y + b.h + 2);
    else
        stroke(d, b.x, y, b.x + b.w, y);
    d->c->set_dash(d->pen, NULL, 0, 0);
    if (c->style == PLOT_RANGE)
        dot(d, b.x + b.w / 2, y, 4);
}

static void select_font(const Cairo *c, CairoPen *to, double size, bool bold)
{
    c->select_font_face(to, "@cairo:", CAIRO_SLANT_NORMAL,
                        bold ? CAIRO_WEIGHT_BOLD : CAIRO_WEIGHT_NORMAL);
    c->set_font_size(to, size);
}

static void paint(const Draw *d, const Plot *p, const Layout *l)
{
    const Cairo *c = d->c;
    c->set_source_rgb(d->pen, 1, 1, 1);
    c->paint(d->pen);
    c->set_line_cap(d->pen, CAIRO_CAP_ROUND);
    c->set_line_join(d->pen, CAIRO_JOIN_ROUND);
    for (int i = 0; i < p->npanels; i++) {
        const Draw in = {c, d->pen, &l->panel[i]};
        grid(&in);
        for (int behind = 1; behind >= 0; behind--)
            for (int k = 0; k < p->panel[i].ncurves; k++)
                if (is_pale(&p->panel[i].curve[k]) == behind)
                    curve(&in, &p->panel[i].curve[k], k);
        for (int k = 0; k < p->panel[i].ncurves; k++)
            sample(&in, &p->panel[i].curve[k], k);
    }
    pen(d, black, 0, 1);
    for (int i = 0; i < l->nlabels; i++) {
        const LayoutLabel *t = &l->label[i];
        select_font(c, d->pen, t->size, t->bold);
        c->move_to(d->pen, t->box.x, t->base);
        c->show_text(d->pen, t->text);
    }
}

/* A cairo context for measuring text. */
typedef struct {
    const Cairo *c;
    CairoPen *pen;
} Ruler;

static double width(void *with, const char *text, double size, bool bold)
{
    const Ruler *r = with;
    CairoExtents e;
    select_font(r->c, r->pen, size, bold);
    r->c->text_extents(r->pen, text, &e);
    return e.x_advance;
}

void draw_layout(const Cairo *c, const Plot *p, Layout *l)
{
    CairoSurface *small = c->image_surface_create(CAIRO_FORMAT_RGB24, 1, 1);
    Ruler r = {c, c->create(small)};
    layout_figure(l, p, &(LayoutMeasure){width, &r});
    c->destroy(r.pen);
    c->surface_destroy(small);
}

char *draw_figure(const Cairo *c, const Plot *p, const char *folder, const char *name)
{
    Layout *l = malloc(sizeof *l);
    if (!l)
        return format("%s/%s: out of memory", folder, name);
    draw_layout(c, p, l);
    const int w = (int)ceil(l->w), h = (int)ceil(l->h);
    CairoSurface *all = c->image_surface_create(CAIRO_FORMAT_RGB24, w, h);
    const Draw d = {c, c->create(all), NULL};
    paint(&d, p, l);
    const int status = c->status(d.pen);
    char *error = !status ? NULL
                : format("%s/%s: cairo: %s", folder, name, c->status_to_string(status));
    if (!error) {
        size_t n;
        c->surface_flush(all);
        unsigned char *png = png_encode((const uint32_t *)c->image_surface_get_data(all), w, h,
                                        c->image_surface_get_stride(all) / 4, &n);
        error = folder_replace_bytes(folder, name, png, n);
        free(png);
    }
    c->destroy(d.pen);
    c->surface_destroy(all);
    free(l);
    return error;
}
