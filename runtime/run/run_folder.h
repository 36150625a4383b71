/* run_folder.h -- the files of a run folder: listed at the end, moved aside by --force.
 *
 * files: names in OUT written by the objective, or patterns ("ckpt-*"); ends with NULL; NULL: none.
 * Rank 0 only; other ranks do nothing. */
#ifndef DIECAST_RUN_FOLDER_H
#define DIECAST_RUN_FOLDER_H

/* Prints one line with the files present. log: this start's log file, relative to OUT. */
void run_folder_report(const char *out, const char *const *files, const char *log);
/* Moves the files of earlier runs to OUT/aside-N, the first free N, and reports it. EXIT_IO. */
void run_folder_set_aside(const char *out, const char *const *files);
/* Removes the aliases OUT/PREFIX<step> (prefix "ckpt-" or "checkpoints/step_") of checkpoints that
 * no longer exist as OUT/checkpoint-<step>. Returns NULL, or a malloc'ed message. */
char *run_folder_forget(const char *out, const char *prefix);

#endif
