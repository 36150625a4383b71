/* ticks.h -- where an axis has ticks and how they are told, as people would choose them.
 *
 * Keeps: a pure function of its numbers. */
#ifndef DIECAST_TICKS_H
#define DIECAST_TICKS_H

#include <stdbool.h>

enum { TICKS_MOST = 16, TICKS_TEXT = 24 };

typedef struct {
    bool log;
    double lo, hi;               /* of the axis; lo < hi, of a log axis 0 < lo */
    int n;                       /* from 1 */
    double at[TICKS_MOST];       /* (n) ascending, lo to hi */
    char text[TICKS_MOST][TICKS_TEXT];   /* each another */
} Ticks;

/* Larger ones are not drawn: their differences would overflow. */
#define TICKS_LARGEST 1e100

typedef struct {
    int most;                    /* ticks: 2 to TICKS_MOST, with `ends` from 3 */
    bool log;
    bool whole;                  /* the values are whole numbers: so are the ticks */
    bool ends;                   /* the axis begins and ends with a tick */
} TicksWanted;

/* For values lo to hi, |each| at most TICKS_LARGEST, of a log axis above 0. Steps are 1, 2 or 5 times a power of
 * ten, or decades. Where lo and hi are all but equal, there is room on both sides of them. */
Ticks ticks_of(double lo, double hi, const TicksWanted *w);
/* Where a value stands on the axis: 0 at lo, 1 at hi. */
double ticks_place(const Ticks *t, double value);

#endif
