/* contexts.h -- what was lived so far, and which action comes next: sequences of transitions and
 * queries, cut from histories.
 *
 * In:    histories, a code of runtime/darkroom.h a step.
 * Keeps: samples are counted and found by their index; nothing is stored. Any thread. */
#ifndef DIECAST_CONTEXTS_H
#define DIECAST_CONTEXTS_H

#include <stdbool.h>
#include <stdint.h>

/* What a sample is, and what its queries are asked behind.
 * Plain: a window, n_transit steps of a history. Place t of it is the query of step t, behind the t
 * transitions before.
 * Compressed: a region, `region` steps, one behind the other. Place t is its query of step t, behind
 *     <c> the region before, whole </c>      of all regions but the first of a history
 *     <c> t transitions of its own
 * Its last place asks for its end: it is place `region`, the query of the step behind it, or with
 * `last` place region - 1, so that nobody asks for the region's last action. */
typedef struct {
    int env;                     /* of runtime/darkroom.h */
    bool compressed;             /* regions; else windows */
    bool all;                    /* a sample asks in all places; else in one */
    bool last;
    bool ragged;                 /* windows, one: a place drawn anew in each epoch; else the last */
    int64_t n_transit;           /* most tokens of a query and what it is asked behind */
    int64_t region;
} ContextRules;

/* Places of a sample. */
static inline int64_t contexts_places(const ContextRules *r)
{
    return r->compressed ? r->region + !r->last : r->n_transit;
}

/* Transitions of a region or window that its last place is asked behind. */
static inline int64_t contexts_known_(const ContextRules *r)
{
    return contexts_places(r) - 1;
}

/* Tokens before the transitions of a region or window, which are the `first` of a history. */
static inline int64_t contexts_ahead_(const ContextRules *r, bool first)
{
    return !r->compressed ? 0 : first ? 1 : r->region + 3;
}

/* Most tokens of a sample, with its queries; the generator's length of a sequence. */
static inline int64_t contexts_tokens(const ContextRules *r)
{
    const int64_t behind = contexts_ahead_(r, false) + contexts_known_(r), one = behind + 1;
    if (r->all)
        return behind + contexts_places(r);
    return one < r->n_transit ? one : r->n_transit;
}

/* A query and what it is asked behind. */
typedef struct {
    int64_t nbefore, nnow;
    const uint16_t *before;      /* (nbefore) the region before; nbefore 0: none, as of windows */
    const uint16_t *now;         /* (nnow) of the region or window */
    int state;                   /* of the query */
} ContextParts;

/* Its tokens, the query last; a token's place is its index. Of more than n_transit these stay: the
 * first, the query, and the newest. Returns how many, at most n_transit. */
int64_t contexts_lay(const ContextRules *r, const ContextParts *c, int32_t *to);

/* All samples of histories, in the order of history, window or region, place. */
typedef struct {
    ContextRules rules;
    const uint16_t *const *history;
    int64_t histories, steps;    /* of each */
    int64_t cuts;                /* windows or regions of a history */
    int64_t n;                   /* samples */
} Contexts;

/* history: stays the caller's. n is 0 where they are shorter than a window or region. */
void contexts_open(Contexts *c, const ContextRules *r, const uint16_t *const *history,
                   int64_t histories, int64_t steps);

/* Where a sample is: its history, the step that its window or region begins with, what is asked. */
typedef struct {
    int64_t history, first;
    int64_t place;               /* -1: all */
} ContextAt;

/* seed, epoch: of what is ragged. */
ContextAt contexts_at(const Contexts *c, int64_t sample, uint64_t seed, int64_t epoch);
/* How many tokens it has; of its queries those that ask for an action. */
int64_t contexts_length(const Contexts *c, const ContextAt *at);
int64_t contexts_actions(const Contexts *c, const ContextAt *at);

/* Types of what is asked for; type 1 would be the beginning of a region. */
enum { CONTEXT_ACTION = 0, CONTEXT_END = 2, CONTEXT_TYPES };

/* A sample's tokens, and its queries in the order of their places. */
typedef struct {
    int32_t *token, *place;      /* (contexts_tokens()) filled to n */
    int32_t *query;              /* (contexts_places()) which tokens they are; filled to queries */
    int32_t *action, *type;      /* of each: the action that was taken, -1: it asks for the end */
    int64_t n, queries;
} ContextRow;

/* With `all` the context of all queries is there once, they behind it: every token, queries too, has
 * before it the first tokens, as many as its place says. */
void contexts_row(const Contexts *c, const ContextAt *at, ContextRow *to);

#endif
