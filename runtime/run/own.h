/* own.h -- what a run has in OUT: told at its end, moved out of the way by --force.
 *
 * files: names in OUT that the objective writes, or patterns of them ("ckpt-*"), behind the last NULL;
 * NULL: none. Rank 0, others: nothing. */
#ifndef DIECAST_OWN_H
#define DIECAST_OWN_H

/* A line with all that is there; log: the file of this start, below OUT. */
void own_say(const char *out, const char *const *files, const char *log);
/* What runs have left moves to OUT/aside-N, N the first that is free, and that is said. EXIT_IO. */
void own_aside(const char *out, const char *const *files);
/* Other names of checkpoints, OUT/PREFIX<step> (prefix "ckpt-", or "checkpoints/step_"), go where
 * OUT/checkpoint-<step> is gone. NULL, or a malloc'ed message. */
char *own_forget(const char *out, const char *prefix);

#endif
