/* progress.h -- progress line, for logs and for the last row of a terminal.
 *
 * Keeps: the terminal's version fits its width; the most important fields come first. */
#ifndef DIECAST_PROGRESS_H
#define DIECAST_PROGRESS_H

#include "runtime/device.h"
#include <stdint.h>

typedef struct {
    int64_t step, total;
    const char *metrics;         /* "loss 2.3100  margin 0.12", separated by two spaces */
    double grad_norm, lr;
    double rate;                 /* throughput, units per second */
    const char *unit;            /* unit of the throughput: "tokens" */
    double left;                 /* remaining seconds; NAN: unknown */
    const DeviceUse *gpu;        /* NULL: no GPU readings */
} Progress;

/* Return malloc'ed text. columns: terminal width; the row is shorter than that. */
char *progress_line(const Progress *p);
char *progress_row(const Progress *p, int columns);
/* Returns the current width of the terminal on standard error; under a launcher that of the
 * session's terminal, else DIECAST_TERMINAL; 80 if unknown. */
int progress_columns(void);

/* "1:02:03", "5 d 04:05"; "?" if not finite, negative or longer than years. */
void progress_clock(char to[32], double seconds);
/* "0.25", "18.4", "1234", "1.23M"; "?" as above. */
void progress_number(char to[32], double rate);

#endif
