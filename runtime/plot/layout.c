/* layout.c -- places elements from the outside in: figure, panels, texts around the axes, axes.
 *
 * Method: as many ticks as fit, at steps of 1, 2, 5 and decades, with labels in k, M, G, T or a
 *         power of ten; the legend is above the axes, where no curve is. */
#define _GNU_SOURCE
#include "runtime/plot/layout.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "runtime/base.h"

/* ---- texts ----------------------------------------------------------------------------------- */

/* Decimal exponent of x, x > 0: that of 0.001 is -3. */
static int power(double x)
{
    return (int)floor(log10(x) + 1e-9);
}

/* Decimals needed for numbers that differ by `step`. */
static int decimals(double step)
{
    const int p = power(step);
    return p < 0 ? -p : 0;
}

/* Formats a number on an axis with largest value `most` and smallest difference `step`. */
static void tell(char to[TICKS_TEXT], double value, double most, double step)
{
    static const char *const unit[] = {"", "k", "M", "G", "T"};
    if (fabs(value) < step * 1e-6) {
        snprintf(to, TICKS_TEXT, "0");
        return;
    }
    const int p = power(most);
    if (p >= 15 || p < -3) {
        const double whole = pow(10, p);
        snprintf(to, TICKS_TEXT, "%.*fe%d", decimals(step / whole), value / whole, p);
        return;
    }
    const int k = p < 4 ? 0 : p / 3;
    const double whole = pow(1000, k);
    snprintf(to, TICKS_TEXT, "%.*f%s", decimals(step / whole), value / whole, unit[k]);
}

/* ---- a linear axis --------------------------------------------------------------------------- */

/* Returns the smallest of 1, 2, 5, 10 ... that gives at most `most` ticks from lo to hi. */
static double step_of(double lo, double hi, const TicksWanted *w)
{
    static const int factor[] = {1, 2, 5};
    for (int p = power((hi - lo) / w->most);; p++)
        for (int i = 0; i < 3; i++) {
            const double step = factor[i] * pow(10, p),
                         first = w->ends ? floor(lo / step + 1e-9) : ceil(lo / step - 1e-9),
                         last = w->ends ? ceil(hi / step - 1e-9) : floor(hi / step + 1e-9);
            if (last - first < w->most && (!w->whole || step >= 1))
                return step;
        }
}

static Ticks linear(double lo, double hi, const TicksWanted *w)
{
    Ticks t = {.lo = lo, .hi = hi};
    const double size = fmax(fabs(lo), fabs(hi));
    if (hi - lo <= 1e-6 * size || hi - lo < 1e-300) {     /* nearly equal */
        const double room = w->whole ? 1 : size > 1e-200 ? 0.05 * size : 1;
        t.lo = lo - room, t.hi = hi + room;
    }
    const double step = step_of(t.lo, t.hi, w);
    /* an axis that starts slightly below 0 has no tick there */
    const bool zero = w->ends && t.lo < 0 && -t.lo < step / 4 && t.hi > step;
    const int64_t first = (int64_t)(w->ends && !zero ? floor(t.lo / step + 1e-9)
                                                     : ceil(t.lo / step - 1e-9)),
                  last = (int64_t)(w->ends ? ceil(t.hi / step - 1e-9) : floor(t.hi / step + 1e-9));
    for (int64_t i = first; i <= last && t.n < TICKS_MOST; i++)
        t.at[t.n++] = (double)i * step;
    if (!t.n)                    /* integers, none of which is inside */
        t.at[t.n++] = t.lo = floor(lo);
    t.lo = fmin(t.lo, t.at[0]), t.hi = fmax(t.hi, t.at[t.n - 1]);
    for (int i = 0; i < t.n; i++)
        tell(t.text[i], t.at[i], fmax(fabs(t.at[0]), fabs(t.at[t.n - 1])), step);
    return t;
}

/* ---- a log axis ------------------------------------------------------------------------------ */

/* 1, 2, 5, 10, 20 ... by index; index 0 is 1. */
static double mark(int i)
{
    static const int factor[] = {1, 2, 5};
    const int k = (i % 3 + 3) % 3;
    return factor[k] * pow(10, (i - k) / 3);
}

static Ticks logarithmic(double lo, double hi, const TicksWanted *w)
{
    Ticks t = {.log = true};
    const int below = 3 * power(lo), above = 3 * (power(hi) + 1);
    int first = below, last = above, by = 1;
    while (mark(first + 1) <= lo * (1 + 1e-9))
        first++;
    while (last > first + 1 && mark(last - 1) >= hi * (1 - 1e-9))
        last--;
    if (last - first >= w->most) {           /* decades, or every few of them */
        first = below, last = mark(above - 3) >= hi * (1 - 1e-9) ? above - 3 : above;
        for (by = 3; (last - first) / by >= w->most; by += 3)
            ;
    }
    t.lo = mark(first), t.hi = fmax(mark(last), hi);
    for (int i = first; i <= last; i += by) {
        t.at[t.n] = mark(i);
        tell(t.text[t.n], t.at[t.n], t.at[t.n], pow(10, power(t.at[t.n])));
        t.n++;
    }
    return t;
}

Ticks ticks_of(double lo, double hi, const TicksWanted *w)
{
    REQUIRE(fabs(lo) <= TICKS_LARGEST && fabs(hi) <= TICKS_LARGEST && (!w->log || lo > 0));
    return w->log ? logarithmic(lo, hi, w) : linear(lo, hi, w);
}

/* Position of a value on the axis: 0 at lo, 1 at hi. */
static double ticks_place(const Ticks *t, double value)
{
    return t->log ? log(value / t->lo) / log(t->hi / t->lo) : (value - t->lo) / (t->hi - t->lo);
}

enum {
    MARGIN = 24, TITLE = 18, HEAD = 14, TEXT = 12, GAP = 8,
    ONE_W = 800, ONE_H = 480,    /* size of a figure with one panel; of each of several panels */
    MORE_W = 560, MORE_H = 360,
    SAMPLE = 28                  /* width of a legend sample */
};

/* Log axis if the largest |y| is at least this many times the smallest. */
static const double DECADES = 50;

bool layout_drawn(double y)
{
    return isfinite(y) && fabs(y) <= TICKS_LARGEST;
}

/* ---- data ranges ----------------------------------------------------------------------------- */

typedef struct { double lo, hi; } Span;

static void reach(Span *s, double v)
{
    if (layout_drawn(v)) {
        s->lo = v < s->lo ? v : s->lo;
        s->hi = v > s->hi ? v : s->hi;
    }
}

static bool shown(const PlotCurve *c, int64_t i)
{
    return layout_drawn(c->x[i]) && layout_drawn(c->y[i]);
}

static void spans(const PlotPanel *p, Span *x, Span *y)
{
    *x = *y = (Span){INFINITY, -INFINITY};
    for (int k = 0; k < p->ncurves; k++) {
        const PlotCurve *c = &p->curve[k];
        for (int64_t i = 0; i < c->n; i++) {
            if (!shown(c, i))
                continue;
            reach(x, c->x[i]);
            if (c->style == PLOT_RULES)
                continue;
            reach(y, c->y[i]);
            if (c->low)
                reach(y, c->low[i]), reach(y, c->high[i]);
        }
    }
    if (p->zero)
        reach(y, 0);
    if (y->lo > y->hi)           /* only rules */
        *y = (Span){0, 1};
    if (x->lo > 0 && x->lo < 0.1 * x->hi)
        x->lo = 0;
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* Keeps the characters of the program's font and truncates long text. */
static void plain(char to[PLOT_TEXT], const char *text)
{
    size_t n = 0;
    for (; *text && n + 1 < PLOT_TEXT; text++)
        if (((unsigned char)*text & 0xc0) != 0x80)       /* a multi-byte character counts once */
            to[n++] = *text >= ' ' && *text <= '~' ? *text : '?';
    to[n] = '\0';
}

/* Truncates text wider than w, ending it in "..". */
static double fit(const LayoutMeasure *m, char text[PLOT_TEXT], double size, bool bold, double most)
{
    double w = m->width(m->with, text, size, bold);
    for (size_t n = strlen(text); w > most && n > 3; n--) {
        strcpy(text + n - 3, "..");
        w = m->width(m->with, text, size, bold);
    }
    return w;
}

/* Adds a text starting at x on the baseline. */
static void put(Layout *l, const LayoutMeasure *m, double x, double base, double size, bool bold,
                const char *text, double most)
{
    LayoutLabel *to = &l->label[l->nlabels];
    if (l->nlabels == LAYOUT_LABELS || !*text)
        return;
    plain(to->text, text);
    const double w = fit(m, to->text, size, bold, most);
    to->box = (Box){x, base - 0.8 * size, w, size};
    to->base = base, to->size = size, to->bold = bold;
    l->nlabels++;
}

static double wide(const LayoutMeasure *m, const char *text)
{
    return m->width(m->with, text, TEXT, false);
}

static double widest(const LayoutMeasure *m, const Ticks *t)
{
    double w = 0;
    for (int i = 0; i < t->n; i++)
        w = fmax(w, wide(m, t->text[i]));
    return w;
}

/* ---- ticks ----------------------------------------------------------------------------------- */

/* True if texts centred at these positions do not touch. */
static bool apart(const LayoutMeasure *m, const Ticks *t, const double *at)
{
    for (int i = 1; i < t->n; i++)
        if (at[i] - at[i - 1] < (wide(m, t->text[i]) + wide(m, t->text[i - 1])) / 2 + 2 * GAP)
            return false;
    return true;
}

static void names(Ticks *t, const PlotPanel *p)
{
    for (int i = 0; i < t->n; i++) {
        const int64_t k = (int64_t)t->at[i] - 1;
        char text[PLOT_TEXT];
        plain(text, k >= 0 && k < p->names ? p->name[k] : "");
        snprintf(t->text[i], TICKS_TEXT, "%.*s%s", TICKS_TEXT - 3, text,
                 strlen(text) > TICKS_TEXT - 3 ? ".." : "");
    }
}

static Ticks x_ticks(const LayoutMeasure *m, const PlotPanel *p, Span x, double w)
{
    Ticks t = {.n = 0};
    double room = (x.hi - x.lo) * 0.02;
    if (p->name)
        room = 0.5;
    for (int most = 10; most >= 2; most--) {
        double at[TICKS_MOST];
        t = ticks_of(x.lo, x.hi, &(TicksWanted){.most = most, .whole = p->whole});
        if (t.lo == x.lo && t.lo != 0)
            t.lo -= room;
        if (t.hi == x.hi)
            t.hi += room;
        if (p->name)
            names(&t, p);
        for (int i = 0; i < t.n; i++)
            at[i] = ticks_place(&t, t.at[i]) * w;
        if (apart(m, &t, at))
            return t;
    }
    t.n = 1;
    return t;
}

static Ticks y_ticks(const PlotPanel *p, Span y, double h)
{
    const int most = (int)fmin(9, fmax(3, h / 42));
    const bool log = p->log && y.lo > 0 && y.hi >= DECADES * y.lo;
    return ticks_of(y.lo, y.hi, &(TicksWanted){.most = most, .log = log, .ends = true});
}

/* Position of a value of the second axis, interpolated between rows; NAN: none. */
static double first_of(const PlotPanel *p, double second)
{
    for (int64_t i = 1; i < p->n; i++) {
        const double a = p->second[i - 1], b = p->second[i];
        if (layout_drawn(a) && layout_drawn(b) && a < b && second >= a && second <= b)
            return p->x[i - 1] + (second - a) / (b - a) * (p->x[i] - p->x[i - 1]);
    }
    return NAN;
}

static void second_ticks(Layout *l, const LayoutMeasure *m, const PlotPanel *p, LayoutPanel *to,
                         double base)
{
    Span s = {INFINITY, -INFINITY};
    for (int64_t i = 0; i < p->n; i++)
        reach(&s, p->second[i]);
    for (int most = 8; s.lo < s.hi && most >= 2; most--) {
        Ticks t = ticks_of(s.lo, s.hi, &(TicksWanted){.most = most});
        int n = 0;
        for (int i = 0; i < t.n; i++) {
            const double x = layout_x(to, first_of(p, t.at[i]));
            if (x >= to->axes.x && x <= to->axes.x + to->axes.w) {
                to->second[n] = x;
                memmove(t.text[n++], t.text[i], TICKS_TEXT);
            }
        }
        t.n = n;
        if (!apart(m, &t, to->second))
            continue;
        to->nsecond = n;
        for (int i = 0; i < n; i++)
            put(l, m, to->second[i] - wide(m, t.text[i]) / 2, base, TEXT, false, t.text[i],
                INFINITY);
        return;
    }
}

/* ---- a panel --------------------------------------------------------------------------------- */

/* Places the legend, to the right of the y label if there is room, else below it. Returns the
 * position of the next row. */
static double legend(Layout *l, const LayoutMeasure *m, const PlotPanel *p, LayoutPanel *to, Box in)
{
    double all = 0, w[PLOT_CURVES] = {0}, x, base = in.y + HEAD;
    for (int k = 0; k < p->ncurves; k++)
        if (*p->curve[k].label)
            all += w[k] = SAMPLE + GAP + wide(m, p->curve[k].label) + 2 * GAP;
    const double head = m->width(m->with, p->ylabel, HEAD, true);
    put(l, m, in.x, base, HEAD, true, p->ylabel, in.w);
    if (all == 0)
        return base + GAP;
    x = in.x + in.w - all;
    if (x < in.x + head + 3 * GAP)
        x = in.x, base += HEAD + GAP;
    for (int k = 0; k < p->ncurves; k++) {
        if (w[k] == 0)
            continue;
        if (x > in.x && x + w[k] > in.x + in.w + 2 * GAP + 1)
            x = in.x, base += TEXT + GAP;
        to->sample[k] = (Box){x, base - 0.8 * TEXT, SAMPLE, TEXT};
        put(l, m, x + SAMPLE + GAP, base, TEXT, false, p->curve[k].label, in.w);
        x += w[k];
    }
    return base + GAP;
}

static void panel(Layout *l, const LayoutMeasure *m, const PlotPanel *p, LayoutPanel *to, Box in)
{
    Span x, y;
    spans(p, &x, &y);
    double top = legend(l, m, p, to, in);
    const double head = top;
    if (p->second)
        top += 2 * (TEXT + GAP) + TEXT / 3;
    const double bottom = in.y + in.h - 2 * (TEXT + GAP);
    to->axes = (Box){.y = top + GAP, .h = bottom - top - GAP};
    to->y = y_ticks(p, y, to->axes.h);
    const double left = fmax(30, widest(m, &to->y) + GAP);
    to->x = x_ticks(m, p, x, in.w - left - 20);
    const double half = wide(m, to->x.text[to->x.n - 1]) / 2,
                 before = fmax(left, wide(m, to->x.text[0]) / 2);
    to->axes.x = in.x + before;
    to->axes.w = in.w - before - fmax(20, half);
    for (int i = 0; i < to->y.n; i++)
        put(l, m, to->axes.x - GAP - wide(m, to->y.text[i]), layout_y(to, to->y.at[i]) + 0.3 * TEXT,
            TEXT, false, to->y.text[i], INFINITY);
    for (int i = 0; i < to->x.n; i++)
        put(l, m, layout_x(to, to->x.at[i]) - wide(m, to->x.text[i]) / 2, bottom + TEXT + GAP, TEXT,
            false, to->x.text[i], INFINITY);
    const double middle = to->axes.x + to->axes.w / 2;
    put(l, m, middle - wide(m, p->xlabel) / 2, bottom + 2 * (TEXT + GAP), TEXT, false, p->xlabel,
        in.w);
    if (!p->second)
        return;
    put(l, m, middle - wide(m, p->label) / 2, head + TEXT, TEXT, false, p->label, in.w);
    second_ticks(l, m, p, to, head + 2 * TEXT + GAP);
}

void layout_figure(Layout *l, const Plot *p, const LayoutMeasure *m)
{
    const int columns = p->npanels > 1 ? 2 : 1, rows = (p->npanels + 1) / 2;
    const double w = columns > 1 ? MORE_W : ONE_W, h = columns > 1 ? MORE_H : ONE_H,
                 top = MARGIN + TITLE + MARGIN;
    REQUIRE(p->npanels >= 1);
    memset(l, 0, sizeof *l);
    l->w = columns * (w + MARGIN) + MARGIN, l->h = top + rows * (h + MARGIN);
    put(l, m, MARGIN, MARGIN + TITLE, TITLE, true, p->title, l->w - 2 * MARGIN);
    for (int i = 0; i < p->npanels; i++)
        panel(l, m, &p->panel[i], &l->panel[i],
              (Box){MARGIN + i % 2 * (w + MARGIN), top + i / 2 * (h + MARGIN), w, h});
}

double layout_x(const LayoutPanel *p, double x)
{
    return p->axes.x + p->axes.w * ticks_place(&p->x, x);
}

double layout_y(const LayoutPanel *p, double y)
{
    return !layout_drawn(y) || (p->y.log && y <= 0)
               ? NAN
               : p->axes.y + p->axes.h * (1 - ticks_place(&p->y, y));
}
