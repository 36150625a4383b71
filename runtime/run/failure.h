/* failure.h -- what a program says to do next where it failed, and its command once more. */
#ifndef DIECAST_FAILURE_H
#define DIECAST_FAILURE_H

/* How the program was started, argv as main() got it; its run folder; and what the command does once more, NULL: goes
 * on from the newest checkpoint of the folder. All stay; NULL: not known yet. From here on a failure is followed by
 * its line of next.def. Called again where something else has taken die_hook. */
void failure_of(int argc, char **argv, const char *out, const char *again_does);
/* "next: COMMAND about": the command once more without the word `but`, "": all of it. From rank 0. */
void failure_again(const char *but, const char *about);

/* The command once more without a flag and its value, as "--ignore-keys"; malloc'ed. Behind failure_of(). */
char *failure_command(const char *but);

/* ---- words of such lines, behind failure_of(); malloc'ed -------------------------------------------- */

typedef struct {
    const char *name;            /* of {name} */
    char *text;                  /* malloc'ed */
} FailureHole;

/* run.sh beside the program, or the program; from the folder of now when it is below that. */
char *failure_program(void);
/* A line of next.def with its holes filled. */
char *failure_filled(const char *line, const FailureHole *hole, int n);

#endif
