/* progress.h -- how far a run is, in one line: for logs, and for the foot of a terminal.
 *
 * Keeps: what goes to a terminal fits into a row of it, the most important first. */
#ifndef DIECAST_PROGRESS_H
#define DIECAST_PROGRESS_H

#include "runtime/device.h"
#include <stdint.h>

typedef struct {
    int64_t step, total;
    const char *metrics;         /* "loss 2.3100  margin 0.12", two blanks between them */
    double grad_norm, lr;
    double rate;                 /* of work, a second */
    const char *unit;            /* of it: "tokens" */
    double left;                 /* seconds; NAN: not known */
    const DeviceUse *gpu;        /* NULL: nothing is known of one */
} Progress;

/* Both malloc'ed. columns: of the terminal; the text is shorter. */
char *progress_line(const Progress *p);
char *progress_row(const Progress *p, int columns);
/* Of the terminal that standard error is, as wide as it is now; behind a launcher that of the session, else as
 * DIECAST_TERMINAL says; 80 where nothing says. */
int progress_columns(void);

/* "1:02:03", "5 d 04:05", "?" of what is not finite, below zero or beyond years. */
void progress_clock(char to[32], double seconds);
/* "0.25", "18.4", "1234", "1.23M"; "?" as above. */
void progress_number(char to[32], double rate);

#endif
