/* log_history.h -- OUT/history.jsonl: appends records, waits out a full disk, rewinds at a resume.
 *
 * Keeps: the file holds complete lines only; lines that cannot be written yet wait in memory. Rank
 *        0 only. */
#ifndef DIECAST_LOG_HISTORY_H
#define DIECAST_LOG_HISTORY_H

#include "runtime/run/log.h"

/* Opens the file for l->path; resumed > 0: first reads the records up to that step back, and drops
 * all others. EXIT_IO if it cannot be written. */
void log_history_open(Log *l, int64_t resumed);
/* Adds a record to the most recent ones, whose oldest it may replace; takes ownership of it.
 * Appends it to the file as well; if that fails, later calls try again. */
void log_history_add(Log *l, cJSON *record);
/* Tries again to write the records that wait, if any. */
void log_history_retry(Log *l);
/* Writes what still waits and closes the file. EXIT_IO if that fails; records lost for lack of
 * memory only get a warning. */
void log_history_close(Log *l);
/* Prints a flat record as one line of JSON. */
void log_history_line(FILE *to, const cJSON *record);

#endif
