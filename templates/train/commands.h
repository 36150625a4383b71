/* commands.h -- commands other than training that every program has. */
#ifndef COMMANDS_H
#define COMMANDS_H

#include "training.h"

typedef struct {
    int flag;                    /* FLAG_..., which requests the command */
    int (*run)(Run *r);          /* returns the exit status */
    bool loads_weights;          /* those of a finished run, or of --init-from */
} Command;

extern const Command program_commands[];     /* ends with run NULL */

/* Loads the finished weights that the flags name. */
void load_finished(Run *r);
/* --dry-run: prints what a run would do and how each matrix product is computed. */
int dry_run(Run *r);
/* --plot: draws figures of a run, also while it trains; needs no device and no other ranks. */
int plot(Run *r);

#endif
