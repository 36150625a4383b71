/* logfile.h -- log files in OUT/logs/.
 *
 * Keeps: rank 0 writes; a full disk costs lines, never the run. */
#ifndef DIECAST_LOGFILE_H
#define DIECAST_LOGFILE_H

#include "runtime/model/model.h"

/* Copies rank 0's note(), warn() and die() lines to a file from now on, each with its time, after a
 * header with the command line. Default: appends to OUT/logs/training.log. With a pattern, one file
 * per start: in "logs/@_training_%Y.log", @ is the recipe's name and %Y etc. are strftime
 * conversions. Returns the path relative to OUT; NULL on other ranks. EXIT_IO if it cannot be
 * opened. */
char *logfile_open(const char *out, const Model *m, const char *pattern, int argc, char **argv);
/* Writes a closing table of GPUs, one line per GPU of all ranks; nothing without GPUs.
 * Collective. */
void logfile_devices(void);

#endif
