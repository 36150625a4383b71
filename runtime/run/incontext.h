/* incontext.h -- in-context reinforcement learning rollouts in darkroom.
 *
 * Weights are frozen; agents learn only from the transitions in their context.
 * In:    a program that computes action logits for a batch of sequences.
 * Keeps: an agent's trajectory does not depend on its batch or rank: its draws are Philox keyed by
 *        (seed; task, stream, step). */
#ifndef DIECAST_INCONTEXT_H
#define DIECAST_INCONTEXT_H

#include "runtime/data/contexts.h"
#include <stdbool.h>
#include <stdint.h>

/* The forward pass over a batch of sequences. */
typedef struct {
    int64_t rows, positions;     /* batch size, context length */
    int64_t types;               /* logits of a row after those of the actions: one per token
                                    type */
    int32_t *tokens, *at;        /* (rows, places): token codes, positions; written before each
                                    call */
    int32_t *query;              /* (rows): query index into (rows, places), ascending */
    bool collective;             /* all ranks call logits() equally often */
    const float *(*logits)(void);     /* (rows, actions + types), valid until the next call */
} Actor;

typedef struct {
    /* Compressed: the context is the region being filled and the previous one, and the model
     * decides when a region is full. Otherwise: the newest transitions. n_transit: at most
     * Actor.places. */
    ContextRules rules;
    bool reset;                  /* an episode's last transition leads to the next start state */
    int64_t episodes;
    uint64_t seed;
    double temperature;          /* sampling temperature; 0: greedy */
    bool (*stopped)(void);       /* polled before each pass; true: stop early; NULL: never */
} InContext;

typedef struct {
    int task;                    /* task number of darkroom.h */
    int64_t stream;              /* random stream: agents of the same task draw differently */
    double *returns;             /* (episodes) return of each episode */
    uint16_t *taken;             /* (episodes * DARKROOM_EPISODE) transitions */
    int64_t turns, closed;       /* regions closed, and their total length in steps */
} Agent;

/* Cost of the rollouts. */
typedef struct {
    int64_t steps, passes;       /* agent steps; forward passes */
    double seconds, inside;      /* total; in forward passes */
} InContextCost;

/* Returns an action drawn from softmax(logits / temperature); temperature 0: the argmax. */
int incontext_draw(const float *logits, double temperature, uint64_t seed, int task, int64_t stream,
                   int64_t step);
/* Runs all episodes of n agents, a->rows at a time, and adds to *cost. Returns false if `stopped`
 * ended it early; the returns are then incomplete. Collective if the actor is: until the agents of
 * all ranks are done, or one rank is stopped. */
bool incontext_run(const Actor *a, const InContext *how, Agent *agent, int64_t n,
                   InContextCost *cost);

#endif
