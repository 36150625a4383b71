/* ticks.c -- steps of 1, 2, 5 and decades; labels with k, M, G, T or a power of ten. */
#define _GNU_SOURCE
#include "runtime/plot/ticks.h"

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

double ticks_place(const Ticks *t, double value)
{
    return t->log ? log(value / t->lo) / log(t->hi / t->lo) : (value - t->lo) / (t->hi - t->lo);
}
