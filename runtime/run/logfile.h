/* logfile.h -- OUT/logs/: what a run says, kept.
 *
 * Keeps: rank 0 writes; a full disk costs lines, never the run. */
#ifndef DIECAST_LOGFILE_H
#define DIECAST_LOGFILE_H

#include "runtime/model/model.h"

/* From here on what note(), warn() and die() of rank 0 say goes there too, each line with its time:
 * a header with the command line first. OUT/logs/training.log, to which later starts add, or with a
 * pattern a file a start: "logs/@_training_%Y.log", @ is the recipe's name, %Y and the like the time's.
 * EXIT_IO when it cannot be opened. Its path below OUT; NULL on other ranks. */
char *logfile_open(const char *out, const Model *m, const char *pattern, int argc, char **argv);
/* A closing table of the GPUs of all ranks, a line each; without GPUs none. All ranks call. */
void logfile_devices(void);

#endif
