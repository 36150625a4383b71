/* histories.h -- histories of darkroom: what a source policy did in each task while it learned, as one file.
 *
 * In:    safetensors; for each task g = 0, 1 ... the tensors g/states (T, streams, 2), g/actions (T, streams),
 *        g/rewards, g/next_states (T, streams, 2), g/dones and g/compress_markers, each U8 or I32. Hostile.
 * Out:   the code of each transition (../darkroom.h).
 * Keeps: every step is one that the rules allow, wherever it stands: an error names task, stream and step. */
#ifndef DIECAST_HISTORIES_H
#define DIECAST_HISTORIES_H

#include "runtime/files/sha256.h"

#include <stdbool.h>
#include <stdint.h>

/* Steps between two updates of a source policy, the first of which has marker 1, the last marker 2. */
enum { HISTORIES_ROLLOUT = 80 };

typedef struct {
    int env;                     /* DARKROOM_DARKROOM or DARKROOM_PERMUTED */
    bool resets;                 /* next state of the last step of an episode: the start; false: where the step led */
    int streams;                 /* the first so many, at most HISTORIES_MOST; 0: all */
    int64_t steps;               /* the first so many; 0: all */
} HistoriesWanted;

enum { HISTORIES_MOST = 1000000 };

typedef struct {
    int tasks, streams;
    int64_t steps;
    int file_streams;            /* how many the file has */
    int64_t file_steps;
    uint16_t *code;              /* (tasks, streams, steps) */
    char fingerprint[SHA256_HEX];        /* of what is wanted and the codes */
} Histories;

/* NULL, or a malloc'ed "FILE: rule: found"; after an error *h needs no close. */
char *histories_open(Histories *h, const char *path, const HistoriesWanted *wanted);
void histories_close(Histories *h);

/* Those of a stream, (steps). */
static inline const uint16_t *histories_of(const Histories *h, int task, int stream)
{
    return h->code + (task * (int64_t)h->streams + stream) * h->steps;
}

/* Whether a history, or any step of one, is of this file. */
static inline bool histories_has(const Histories *h, const uint16_t *history)
{
    return history >= h->code && history < h->code + (int64_t)h->tasks * h->streams * h->steps;
}

/* What is to be written: all steps follow from the actions. */
typedef struct {
    int env, streams;
    int64_t steps;               /* a multiple of HISTORIES_ROLLOUT */
    /* Of a task, (steps, streams); the tasks are asked for in any order, some more than once. */
    const uint8_t *(*actions)(void *user, int task);
    void *user;
    const char *const *meta;     /* (nmeta, 2): key and value */
    int nmeta;
} HistoriesPlan;

/* U8, next states where steps led. NULL, or a malloc'ed message: then path is as it was. */
char *histories_write(const char *path, const HistoriesPlan *plan);

#endif
