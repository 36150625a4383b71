/* logfile.h -- OUT/logs/: what a run says, kept.
 *
 * Keeps: rank 0 writes; a full disk costs lines, never the run. */
#ifndef DIECAST_LOGFILE_H
#define DIECAST_LOGFILE_H

#include "runtime/model/model.h"
#include <stdbool.h>

/* From here on what note(), warn() and die() of rank 0 say goes there too, each line with its time:
 * a header with the command line first. OUT/logs/training.log, to which later starts add, or where
 * `dated` a file a start, NAME_training_YYYYmmdd_HHMMSS.log. EXIT_IO when it cannot be opened. Its
 * path below OUT; NULL on other ranks. */
char *logfile_open(const char *out, const Model *m, bool dated, int argc, char **argv);
/* A closing table of the GPUs of all ranks, a line each; without GPUs none. All ranks call. */
void logfile_devices(void);

#endif
