/* incontext.h -- agents in darkroom whose weights stay as they are: what they have seen there is all
 * that they learn from.
 *
 * In:    a program that tells, for several sequences at once, the logits of the next action.
 * Keeps: an agent's course is the same whatever stands beside it in a batch and on whichever rank:
 *        its draws are Philox keyed by (seed; task, stream, step). */
#ifndef DIECAST_INCONTEXT_H
#define DIECAST_INCONTEXT_H

#include "runtime/data/contexts.h"
#include <stdbool.h>
#include <stdint.h>

/* A program over sequences that stand side by side. */
typedef struct {
    int64_t rows, places;        /* sequences, room of each */
    int64_t types;               /* logits of a row: those of the actions, then of so many kinds of token */
    int32_t *tokens, *at;        /* (rows, places): codes, places in their sequence; written before each call */
    int32_t *query;              /* (rows): which of (rows, places) it is read at, in ascending order */
    const float *(*logits)(void);     /* (rows, actions + types), until the next call */
} Actor;

typedef struct {
    /* Compressed: the context is the region that is being filled and the one before it, and the
     * model says when one is full. Else it is the newest transitions. n_transit: at most
     * Actor.places. */
    ContextRules rules;
    bool reset;                  /* the last transition of an episode leads to the start of the next */
    int64_t episodes;
    uint64_t seed;
    double temperature;          /* of the draws; 0: always the likeliest action */
    bool (*stopped)(void);       /* asked before each pass: whether to leave off; NULL: never */
} InContext;

typedef struct {
    int task;                    /* of darkroom.h */
    int64_t stream;              /* several with the same task differ in their draws */
    double *returns;             /* (episodes) of each */
    uint16_t *taken;             /* (episodes * DARKROOM_EPISODE) its transitions */
    int64_t turns, closed;       /* regions that were closed, steps of all of them */
} Agent;

/* What it took. */
typedef struct {
    int64_t steps, passes;       /* of the agents; through the model */
    double seconds, inside;      /* in all; of the passes alone */
} InContextCost;

/* The action that is drawn from softmax(logits / temperature); temperature 0: the likeliest. */
int incontext_draw(const float *logits, double temperature, uint64_t seed, int task, int64_t stream,
                   int64_t step);
/* n agents live through their episodes, a->rows at a time. Adds to *cost. False: `stopped` said so
 * before they were through, and their returns are of no use. */
bool incontext_run(const Actor *a, const InContext *how, Agent *agent, int64_t n,
                   InContextCost *cost);

#endif
