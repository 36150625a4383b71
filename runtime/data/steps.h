/* steps.h -- solutions in steps, as `gen pack` packs them: tokens with a mark behind steps, soft labels of
 * marks, whether the whole is right, a domain, a name.
 *
 * In:    token files of kind "steps"; or "candidates", several answers to a question each.
 * Keeps: all values are looked at when they are opened, and again in what is taken of them. */
#ifndef DIECAST_STEPS_H
#define DIECAST_STEPS_H

#include "runtime/data/data.h"

enum { STEPS_MARKS = 15 };       /* most of a record: behind all but the last of 16 steps */

/* For DataShape; with own_targets. */
extern const char *const steps_parts[];
extern const DataColumn steps_columns[], candidates_columns[];

typedef struct {
    int64_t sample;              /* as of DataRow */
    const int32_t *token;        /* (n) until the thread's next one */
    int64_t n;
    int nmarks;                  /* from 1 */
    int32_t place[STEPS_MARKS];  /* (nmarks) in token, ascending */
    int nlabels;                 /* of the first marks; 0: it is not labelled */
    float label[STEPS_MARKS];    /* (nlabels) from 0 to 1 */
    float outcome;               /* of the whole: 1 right, 0 wrong */
    int domain;                  /* in Steps.domain, -1: it has none */
    int noisy;                   /* 1 or 0, whether its labels are said to be noise; -1: nobody says */
    int64_t question;            /* candidates: which of the file's, from 0; else -1 */
    int right;                   /* candidates: 1 or 0, -1: not said; else -1 */
} StepsRow;

typedef struct {
    int ndomains;
    int32_t *domain;             /* (ndomains) of the file: each in Steps.domain */
    int64_t first, questions;    /* those of the files before; of this one, with and without candidates */
    const char *noisy;           /* metadata: a letter a record, "0", "1" or "-"; NULL: there is none */
} StepsFile;

typedef struct {
    Data *d;
    int64_t most;                /* marks of a record */
    int ndomains;                /* of all files */
    char **domain;               /* (ndomains) each another, by their bytes */
    StepsFile *file;             /* (d->nfiles) */
    int64_t questions;           /* of all files */
} Steps;

/* Looks at all records of d, which has to outlive s. most: marks that the program takes; labelled,
 * domains: every record has labels, a domain. EXIT_DATA, naming file and record. */
void steps_open(Steps *s, Data *d, int64_t most, bool labelled, bool domains);
/* As data_row(), data_row_of_step(); any thread, as they. */
bool steps_row(const Steps *s, int64_t step, int64_t micro, int64_t row, StepsRow *to);
bool steps_row_of_step(const Steps *s, int64_t step, int64_t place, StepsRow *to);
/* Of a sample by its index, whatever step it is of; any thread. */
void steps_sample(const Steps *s, int64_t sample, StepsRow *to);
/* The name of a record: its key id, else where it stood; malloc'ed. */
char *steps_id(const Steps *s, int64_t sample);
void steps_close(Steps *s);

#endif
