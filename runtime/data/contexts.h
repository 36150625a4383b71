/* contexts.h -- training sequences for algorithm distillation: past transitions plus a query,
 * labelled with the next action.
 *
 * In:    histories: one code of runtime/darkroom.h per step.
 * Keeps: samples are computed from their index; nothing is stored. Thread-safe. */
#ifndef DIECAST_CONTEXTS_H
#define DIECAST_CONTEXTS_H

#include <stdbool.h>
#include <stdint.h>

/* Samples and the context of their queries.
 * Plain: a sample is a window of n_transit steps. Position t is the query of step t, after the t
 *     transitions before it.
 * Compressed: a sample is a region of `region` steps; regions do not overlap. Position t is the
 *     query of step t, after
 *     <c> the whole previous region </c>     (not in the first region of a history)
 *     <c> t transitions of its own region
 * The last position asks for the end of the region: position `region`, the query of the step after
 * it; with `last`, position region - 1, so that the last action of a region is never asked for. */
typedef struct {
    int env;                     /* of runtime/darkroom.h */
    bool compressed;             /* regions; else windows */
    bool all;                    /* a sample has the queries of all positions; else of one */
    bool last;
    bool ragged;                 /* windows, one query: at a random position, drawn per epoch */
    int64_t n_transit;           /* maximum length in tokens of a query with its context */
    int64_t region;
} ContextRules;

/* Positions of a sample. */
static inline int64_t contexts_positions(const ContextRules *r)
{
    return r->compressed ? r->region + !r->last : r->n_transit;
}

/* Transitions of a region or window before its last position. */
static inline int64_t contexts_known_(const ContextRules *r)
{
    return contexts_positions(r) - 1;
}

/* Tokens before the transitions of a region or window; first: it is the first of a history. */
static inline int64_t contexts_ahead_(const ContextRules *r, bool first)
{
    return !r->compressed ? 0 : first ? 1 : r->region + 3;
}

/* Maximum length of a sample in tokens, queries included: the generator's sequence length. */
static inline int64_t contexts_tokens(const ContextRules *r)
{
    const int64_t context = contexts_ahead_(r, false) + contexts_known_(r), one = context + 1;
    if (r->all)
        return context + contexts_positions(r);
    return one < r->n_transit ? one : r->n_transit;
}

/* A query and its context. */
typedef struct {
    int64_t nbefore, nnow;
    const uint16_t *before;      /* (nbefore) the previous region; nbefore 0: none, e.g. windows */
    const uint16_t *now;         /* (nnow) transitions of the region or window */
    int state;                   /* of the query */
} ContextParts;

/* Writes the tokens, the query last; a token's position is its index. Keeps at most n_transit: the
 * first token, the query and the newest. Returns the number of tokens. */
int64_t contexts_lay(const ContextRules *r, const ContextParts *c, int32_t *to);

/* All samples of histories, ordered by history, window or region, position. */
typedef struct {
    ContextRules rules;
    const uint16_t *const *history;
    int64_t histories, steps;    /* of each */
    int64_t cuts;                /* windows or regions of a history */
    int64_t n;                   /* samples */
} Contexts;

/* Borrows history. n is 0 if the histories are shorter than a window or region. */
void contexts_open(Contexts *c, const ContextRules *r, const uint16_t *const *history,
                   int64_t histories, int64_t steps);

/* Location of a sample: history, first step of its window or region, position of its query. */
typedef struct {
    int64_t history, first;
    int64_t position;            /* -1: all */
} ContextAt;

/* seed, epoch: for ragged windows. */
ContextAt contexts_at(const Contexts *c, int64_t sample, uint64_t seed, int64_t epoch);
/* contexts_length(): tokens of a sample; contexts_actions(): its queries that ask for an action. */
int64_t contexts_length(const Contexts *c, const ContextAt *at);
int64_t contexts_actions(const Contexts *c, const ContextAt *at);

/* Types of queries; type 1 would be the beginning of a region. */
enum { CONTEXT_ACTION = 0, CONTEXT_END = 2, CONTEXT_TYPES };

/* A sample's tokens, and its queries by position. */
typedef struct {
    int32_t *token, *position;   /* (contexts_tokens()) token and position, filled to n */
    int32_t *query;              /* (contexts_positions()) index of each query; filled to queries */
    int32_t *action, *type;      /* of each query: the action taken, -1: it asks for the end */
    int64_t n, queries;
} ContextRow;

/* With `all`, the common context comes first and the queries after it: every token, also a query,
 * attends to the first tokens, as many as its position says. */
void contexts_row(const Contexts *c, const ContextAt *at, ContextRow *to);

#endif
