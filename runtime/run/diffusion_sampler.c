/* diffusion_sampler.c -- block-wise masked-diffusion sampling, left to right.
 *
 * In:    logits of a block's positions, for all sequences of a batch. Out: tokens.
 * Keeps: a sequence does not depend on the others in its batch. */
#include "runtime/run/diffusion_sampler.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/data/workers.h"
#include "runtime/ranks/comm.h"

static void *room(int64_t n, size_t size)
{
    void *p = calloc((size_t)(n > 0 ? n : 1), size);
    if (!p)
        die(EXIT_INTERNAL, "out of memory for texts of %" PRId64 " elements", n);
    return p;
}

/* A batch in progress. */
typedef struct {
    const DiffusionSampler *d;
    const DiffusionSchedule *g;
    DiffusionText *text;        /* (n) */
    int64_t n;                   /* at most d->rows */
    uint8_t *hidden;             /* (rows, places): tokens at the start */
    int64_t first;               /* first position of the block, counting masked ones */
    int64_t step;                /* length of the block */
    UnmaskPick *pick;            /* (rows, block): positions of a sequence that are still masked */
    int64_t *left, *whole;       /* (rows): their number; their number at the start of the block */
    const float *logits;
} Batching;

/* Requests logits at the positions of the block that are still masked. */
static void ask(Batching *w)
{
    const DiffusionSampler *d = w->d;
    for (int64_t i = 0; i < d->rows * d->block; i++)
        d->at[i] = -1;
    for (int64_t b = 0; b < w->n; b++) {
        int64_t nth = 0, n = 0;
        for (int64_t t = 0; t < w->text[b].n; t++) {
            if (!w->hidden[b * d->positions + t])
                continue;
            bool of_block = nth >= w->first && nth < w->first + w->g->block;
            nth++;
            if (of_block && w->text[b].token[t] == w->g->rule.mask) {
                w->pick[b * d->block + n].position = t;
                d->at[b * d->block + n++] = (int32_t)(b * d->positions + t);
            }
        }
        w->left[b] = n;
    }
}

/* without: masks the prompts, too (guidance). */
static void put(const Batching *w, bool without)
{
    const DiffusionSampler *d = w->d;
    for (int64_t b = 0; b < d->rows; b++) {
        int64_t n = b < w->n ? w->text[b].n : 0;
        d->lengths[b] = (int32_t)n;
        for (int64_t t = 0; t < d->positions; t++) {
            bool hide = t >= n || (without && !w->hidden[b * d->positions + t]);
            d->tokens[b * d->positions + t] = hide ? w->g->rule.mask : w->text[b].token[t];
        }
    }
}

static const float *pass(const Batching *w, bool without, DiffusionCost *cost)
{
    put(w, without);
    if (w->d->collective)
        comm_any(true);          /* a rank without texts runs it, too: accompany() */
    double began = clock_seconds();
    const float *logits = w->d->logits();
    cost->inside += clock_seconds() - began;
    cost->passes++;
    return logits;
}

static void pick_one(void *user, int64_t i)
{
    Batching *w = user;
    const DiffusionSampler *d = w->d;
    const int64_t b = i / d->block, k = i % d->block;
    if (b >= w->n || k >= w->left[b])
        return;
    UnmaskAt at = {w->text[b].number, w->pick[i].position, w->step};
    w->pick[i] = unmask_pick(&w->g->rule, w->logits + i * d->vocab, d->vocab, at);
}

/* Returns the largest number of tokens that a sequence unmasks in this step. */
static int64_t shows(const Batching *w)
{
    int64_t most = 0;
    for (int64_t b = 0; b < w->n; b++) {
        int64_t share = unmask_share(w->whole[b], w->g->steps, w->step);
        most = share > most ? share : most;
    }
    return most;
}

/* Unmasks tokens of the block in one step. copy: scratch for logits. */
static void step_block(Batching *w, float *copy, DiffusionCost *cost)
{
    const DiffusionSampler *d = w->d;
    w->logits = pass(w, false, cost);
    if (w->g->guidance > 0) {
        const int64_t all = d->rows * d->block * d->vocab;
        memcpy(copy, w->logits, sizeof *copy * (size_t)all);
        unmask_guide(copy, pass(w, true, cost), all, w->g->guidance);
        w->logits = copy;
    }
    workers_run(d->rows * d->block, pick_one, w);
    for (int64_t b = 0; b < w->n; b++) {
        UnmaskPick *pick = w->pick + b * d->block;
        int64_t k = unmask_share(w->whole[b], w->g->steps, w->step);
        unmask_order(pick, w->left[b], k);
        for (int64_t i = 0; i < k; i++)
            w->text[b].token[pick[i].position] = pick[i].token;
        cost->tokens += k;
    }
}

/* Runs the passes of ranks that have texts left, on empty rows. */
static void accompany(const DiffusionSampler *d, const DiffusionSchedule *g)
{
    const Batching none = {.d = d, .g = g};
    for (int64_t i = 0; i < d->rows * d->block; i++)
        d->at[i] = -1;
    put(&none, false);
    while (comm_any(false))
        d->logits();
}

/* Samples at most d->rows texts. */
static void fill_batch(const DiffusionSampler *d, const DiffusionSchedule *g, DiffusionText *text,
                       int64_t n, float *copy, DiffusionCost *cost)
{
    Batching w = {.d = d, .g = g, .text = text, .n = n,
                  .hidden = room(d->rows * d->positions, sizeof *w.hidden),
                  .pick = room(d->rows * d->block, sizeof *w.pick),
                  .left = room(d->rows, sizeof *w.left), .whole = room(d->rows, sizeof *w.whole)};
    int64_t most = 0;
    for (int64_t b = 0; b < n; b++) {
        int64_t count = 0;
        for (int64_t t = 0; t < text[b].n; t++)
            count += w.hidden[b * d->positions + t] = text[b].token[t] == g->rule.mask;
        most = count > most ? count : most;
    }
    for (w.first = 0; w.first < most; w.first += g->block) {
        w.step = 0;
        ask(&w);
        memcpy(w.whole, w.left, sizeof *w.left * (size_t)n);
        for (; w.step < g->steps && shows(&w); w.step++) {
            ask(&w);
            step_block(&w, copy, cost);
        }
    }
    free(w.hidden), free(w.pick), free(w.left), free(w.whole);
}

void diffusion_sample(const DiffusionSampler *d, const DiffusionSchedule *g, DiffusionText *text,
                      int64_t n, DiffusionCost *cost)
{
    REQUIRE(d->rows > 0 && n >= 0 && g->block >= 1 && g->block <= d->block);
    for (int64_t i = 0; i < n; i++)
        REQUIRE(text[i].n >= 1 && text[i].n <= d->positions);
    double began = clock_seconds();
    float *copy = room(g->guidance > 0 ? d->rows * d->block * d->vocab : 0, sizeof *copy);
    for (int64_t i = 0; i < n; i += d->rows)
        fill_batch(d, g, text + i, n - i < d->rows ? n - i : d->rows, copy, cost);
    if (d->collective)
        accompany(d, g);
    free(copy);
    cost->seconds += clock_seconds() - began;
}
