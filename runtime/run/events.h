/* events.h -- TensorBoard event file of a run (OUT/runs/NAME/), derived from its history.
 *
 * In:    records of history.jsonl, OUT/samples.jsonl, the recipe and the flags.
 * Keeps: history.jsonl is the source of truth: each start rewrites the event file from the records
 *        it kept, then appends each new record at once. A full disk costs the event file, never the
 *        run. Rank 0 only. */
#ifndef DIECAST_EVENTS_H
#define DIECAST_EVENTS_H

#include "runtime/model/model.h"
#include "runtime/run/flags.h"
#include "runtime/run/metrics.h"
#include <cjson/cJSON.h>

typedef struct {
    const Model *model;
    const Flags *flags;
    const Metrics *metrics;
    const cJSON *records;        /* array: most recent records of the history */
    char *command;               /* command line of this start */
    char *folder, *path;         /* path: of the event file; NULL: none is written */
    int fd;                      /* -1: the file must be rewritten */
    double start_time;           /* start time, seconds since 1970 */
    double step;                 /* step this start resumes from */
    double best;                 /* best validation in the file; NAN: none */
    double sampled;              /* step of the last text sample in the file; -1: none */
    double tried;                /* clock at the last failed write */
} Events;                        /* all zero before the first call */

/* Writes the records of OUT/history.jsonl to a new file in OUT/runs/NAME and removes the files of
 * earlier starts. EXIT_IO if the folder cannot be created or contains no file of ours. The pointers
 * stay the caller's. */
void events_open(Events *e, const char *name, const Model *m, const Flags *f, const Metrics *of,
                 const cJSON *records, int argc, char **argv);
/* Appends the newest record of the history. complete: OUT/history.jsonl contains it and all
 * before it. */
void events_add(Events *e, const cJSON *record, bool complete);
/* Appends the texts of OUT/samples.jsonl that are not in the file yet. */
void events_samples(Events *e);
void events_close(Events *e);

#endif
