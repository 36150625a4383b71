/* histories.h -- learning histories of RL agents in darkroom, one file.
 *
 * In:    safetensors, untrusted: for each task g = 0, 1 ... the tensors g/states (T, streams, 2),
 *        g/actions (T, streams), g/rewards, g/next_states (T, streams, 2), g/dones and
 *        g/compress_markers, each U8 or I32.
 * Out:   the code of each transition (../darkroom.h).
 * Keeps: every step obeys the rules of the environment; an error names task, stream and step. */
#ifndef DIECAST_HISTORIES_H
#define DIECAST_HISTORIES_H

#include "runtime/files/sha256.h"

#include <stdbool.h>
#include <stdint.h>

/* Steps between two updates of a source policy; the first has marker 1, the last marker 2. */
enum { HISTORIES_ROLLOUT = 80 };

typedef struct {
    int env;                     /* DARKROOM_DARKROOM or DARKROOM_PERMUTED */
    bool resets;                 /* the last next state of an episode: the start (else reached) */
    int streams;                 /* use only the first ones, at most HISTORIES_MOST; 0: all */
    int64_t steps;               /* use only the first ones; 0: all */
} HistoriesWanted;

enum { HISTORIES_MOST = 1000000 };

typedef struct {
    int tasks, streams;
    int64_t steps;
    int file_streams;            /* in the file */
    int64_t file_steps;
    uint16_t *code;              /* (tasks, streams, steps) */
    char fingerprint[SHA256_HEX];        /* of HistoriesWanted and the codes */
} Histories;

/* Returns NULL, or a malloc'ed "FILE: rule: found"; after an error *h needs no close. */
char *histories_open(Histories *h, const char *path, const HistoriesWanted *wanted);
void histories_close(Histories *h);

/* The codes of one stream, (steps). */
static inline const uint16_t *histories_of(const Histories *h, int task, int stream)
{
    return h->code + (task * (int64_t)h->streams + stream) * h->steps;
}

/* True if a history, or any step of one, is in h. */
static inline bool histories_has(const Histories *h, const uint16_t *history)
{
    return history >= h->code && history < h->code + (int64_t)h->tasks * h->streams * h->steps;
}

/* The content of a file to write; all else follows from the actions. */
typedef struct {
    int env, streams;
    int64_t steps;               /* a multiple of HISTORIES_ROLLOUT */
    /* Returns the actions of a task, (steps, streams). Called in any order, also repeatedly. */
    const uint8_t *(*actions)(void *user, int task);
    void *user;
    const char *const *meta;     /* (nmeta, 2): key and value */
    int nmeta;
} HistoriesPlan;

/* Writes U8 tensors, with next states as reached. NULL, or a malloc'ed message: path is
 * unchanged. */
char *histories_write(const char *path, const HistoriesPlan *plan);

#endif
