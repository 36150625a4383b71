/* steps.h -- step-labelled solutions: tokens with a mark after each step, soft labels of the marks,
 * an outcome, a domain, a name.
 *
 * In:    token files of kind "steps", as `gen pack` writes them; or "candidates", several answers
 *        per question.
 * Keeps: all values are checked at open, and again when a record is read. */
#ifndef DIECAST_STEPS_H
#define DIECAST_STEPS_H

#include "runtime/data/data.h"

enum { STEPS_MARKS = 15 };       /* maximum per record: after all but the last of 16 steps */

/* For DataShape, with finds_targets. */
extern const char *const steps_parts[];
extern const DataColumn steps_columns[], candidates_columns[];

typedef struct {
    int64_t sample;              /* as in DataRow */
    const int32_t *token;        /* (n) valid until this thread's next row */
    int64_t n;
    int nmarks;                  /* at least 1 */
    int32_t position[STEPS_MARKS];  /* (nmarks) positions of the marks in token, ascending */
    int nlabels;                 /* labels, of the first marks; 0: unlabelled */
    float label[STEPS_MARKS];    /* (nlabels) from 0 to 1 */
    float outcome;               /* of the whole solution: 1 right, 0 wrong */
    int domain;                  /* index in Steps.domain, -1: none */
    int noisy;                   /* 1 or 0: its labels are known to be noisy or not; -1: unknown */
    int64_t question;            /* candidates: index of the question among all files'; else -1 */
    int right;                   /* candidates: 1 or 0, -1: unknown; else -1 */
} StepsRow;

typedef struct {
    int ndomains;
    int32_t *domain;             /* (ndomains) of the file: index of each in Steps.domain */
    int64_t first, questions;    /* questions of the files before; of this one */
    const char *noisy;           /* metadata: per record '0', '1' or '-'; NULL: none */
    bool repeats_ids;            /* an earlier file has one of its ids, too */
} StepsFile;

typedef struct {
    Data *d;
    int64_t most;                /* maximum of marks of a record */
    int ndomains;                /* of all files */
    char **domain;               /* (ndomains) distinct, in byte order */
    StepsFile *file;             /* (d->nfiles) */
    int64_t questions;           /* of all files */
} Steps;

/* Checks all records of d, which must outlive s. most: marks that the program takes; labelled,
 * domains: every record must have labels, a domain. EXIT_DATA with file and record. */
void steps_open(Steps *s, Data *d, int64_t most, bool labelled, bool domains);
/* The row of data_row(); thread-safe. */
bool steps_row(const Steps *s, int64_t step, int64_t micro, int64_t row, StepsRow *to);
/* A sample by its index, independent of steps; thread-safe. */
void steps_sample(const Steps *s, int64_t sample, StepsRow *to);
/* The name of a record: its key id, else its line; after "2:" if it is of the second file, which
 * repeats ids of the first. malloc'ed */
char *steps_id(const Steps *s, int64_t sample);

#endif
