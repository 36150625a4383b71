/* ticks.h -- axis ticks at round values, and their labels.
 *
 * Keeps: a pure function of its arguments. */
#ifndef DIECAST_TICKS_H
#define DIECAST_TICKS_H

#include <stdbool.h>

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
/* Position of a value on the axis: 0 at lo, 1 at hi. */
double ticks_place(const Ticks *t, double value);

#endif
