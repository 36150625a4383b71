/* events.h -- OUT/runs/NAME/: what TensorBoard shows of a run, made of its history.
 *
 * In:    the records of history.jsonl, OUT/samples.jsonl, the recipe and the flags.
 * Keeps: history.jsonl is the fact: each start writes the file anew from the records that it has kept, each
 *        record follows as soon as it is made. A disk that takes no more costs the file, never the run. Rank 0. */
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
    const cJSON *records;        /* array: the last of the history */
    char *command;               /* the words of this start */
    char *folder, *path;         /* path: of the file; NULL: none is written */
    int fd;                      /* -1: the file has to be written anew */
    double began;                /* seconds since 1970, of this start */
    double step;                 /* that it goes on from */
    double best;                 /* of the validations in the file; NAN: none */
    double sampled;              /* the step of the last text in it; -1: none */
    double tried;                /* clock when it could not be written */
} Events;                        /* all zero before the first call */

/* The records of OUT/history.jsonl, into a file in OUT/runs/NAME; those of earlier starts go. EXIT_IO when the folder
 * cannot be made or holds none of ours. The pointers stay the caller's. */
void events_open(Events *e, const char *name, const Model *m, const Flags *f, const Metrics *of,
                 const cJSON *records, int argc, char **argv);
/* One more record, which is the last of the history. whole: OUT/history.jsonl has it, and all before. */
void events_add(Events *e, const cJSON *record, bool whole);
/* Texts of OUT/samples.jsonl that are not in the file yet. */
void events_samples(Events *e);
void events_close(Events *e);

#endif
