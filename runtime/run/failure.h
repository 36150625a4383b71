/* failure.h -- hints after a failure: what to do next, and the command line to repeat. */
#ifndef DIECAST_FAILURE_H
#define DIECAST_FAILURE_H

/* Enables hints: after a failure the matching line of hints.def is printed. argv as main() got it;
 * out: the run folder; again_does: the effect of repeating the command, NULL: it resumes from the
 * newest checkpoint in out. The pointers must stay valid; NULL: not known yet. Call again after
 * other code has set die_hook. */
void failure_of(int argc, char **argv, const char *out, const char *again_does);
/* Prints "next: COMMAND about" on rank 0: the command line without the argument `but` ("":
 * unchanged). */
void failure_again(const char *but, const char *about);

/* Returns the command line without one flag and its value, e.g. "--ignore-keys"; malloc'ed. After
 * failure_of(). */
char *failure_command(const char *but);

/* ---- parts of hint lines, after failure_of(); malloc'ed -------------------------------------- */

typedef struct {
    const char *name;            /* fills {name} */
    char *text;                  /* malloc'ed */
} FailureHole;

/* Returns the path of run.sh in the program's folder, or of the program; relative to the current
 * folder if below it. */
char *failure_program(void);
/* Returns a line of hints.def with its placeholders filled. */
char *failure_filled(const char *line, const FailureHole *hole, int n);

#endif
