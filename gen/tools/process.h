/* process.h -- child processes and scratch folders. */
#ifndef PROCESS_H
#define PROCESS_H

#include "gen/util.h"

typedef struct {
    int code;                /* exit status, or 128 + signal; -1: not started */
    bool late;               /* killed at the time limit */
    /* stdout and stderr, the first 16 MiB; if not started, the reason */
    const char *text;
} Ended;

/* Runs a program without a shell. words: the program, searched on PATH, and its arguments,
 * NULL-terminated; input: its stdin, at most 60,000 bytes, or NULL; seconds: time limit. */
Ended process_run(char *const *words, const char *input, double seconds);
/* Path of a program on PATH, or name itself if it is a path; NULL: not found. */
const char *program_find(const char *name);
const char *scratch_folder(void);          /* in TMPDIR, initially empty, removed at exit */

#endif
