/* process.h -- child processes and scratch folders. */
#ifndef PROCESS_H
#define PROCESS_H

#include "gen/util.h"

typedef struct {
    int code;                /* its exit status, 128 + its signal; -1: it could not be started */
    bool late;               /* it took longer, and was ended */
    const char *text;        /* what it wrote to stdout and stderr, the first 16 MiB; why it was not started */
} Ended;

/* words: the program as on PATH and its arguments, NULL behind them; input: what it reads, at most 60,000 bytes, or
 * NULL. No shell comes between. */
Ended process_run(char *const *words, const char *input, double seconds);
const char *program_find(const char *name);           /* on PATH, or itself if it is a path; NULL: not there */
const char *scratch_folder(void);                     /* in TMPDIR, empty at first, gone at exit */

#endif
