/* hidden.c -- rows of records become rows of a micro-batch, side by side by threads. */
#include "runtime/data/hidden.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/data/workers.h"

void hidden_suit(Hidden *h, const Data *d, const char *files)
{
    if (d->mask_id < 0)
        die(EXIT_MISMATCH, "%s: tokenizer %s has no token that hides a word, such as [MASK]: gen "
            "pack with that of a masked language model", files, d->tokenizer);
    h->rule.mask = (int32_t)d->mask_id;
    h->rule.ids = (int32_t)d->ids;
    h->pad = d->pad_id < 0 ? 0 : (int32_t)d->pad_id;
}

/* Every epoch hides other words of a row, every validation the same. */
static MaskSample sample_of(const Data *d, int64_t step, const DataRow *row)
{
    return (MaskSample){.stream = d->eval ? MASKS_EVAL : MASKS_TRAIN,
                        .epoch = data_epoch(d, step), .sample = row->sample,
                        .token = row->token, .may = row->mask, .n = row->n};
}

static void add(HiddenCounts *all, const HiddenCounts *one)
{
    all->targets += one->targets;
    all->samples += one->samples;
    all->tokens += one->tokens;
}

HiddenCounts hidden_count(const Hidden *h, Data *d, int64_t step)
{
    HiddenCounts all = {0};
    DataRow row;
    for (int64_t g = 0; g < d->G; g++) {
        if (!data_row_of_step(d, step, g, &row))
            continue;
        MaskSample s = sample_of(d, step, &row);
        add(&all, &(HiddenCounts){masks_count(&h->rule, &s), 1, row.n});
    }
    return all;
}

void hidden_pad(const Hidden *h, const Batch *to, int64_t b, int64_t n)
{
    to->lengths[b] = (int32_t)n;
    for (int64_t t = n; t < h->T; t++) {
        to->tokens[b * h->T + t] = h->pad;
        to->target_of[b * h->T + t] = -1;
    }
    if (to->types)
        memset(to->types + b * h->T, 0, (size_t)h->T * sizeof *to->types);
}

typedef struct {
    const Hidden *h;
    Data *d;
    int64_t step, micro;
} Fill;

static void fill_row(void *fill, int64_t b)
{
    const Fill *f = fill;
    const Hidden *h = f->h;
    const Batch to = h->at(f->micro);
    DataRow row;
    h->row[b] = (HiddenCounts){0};
    if (!data_row(f->d, f->step, f->micro, b, &row)) {
        hidden_pad(h, &to, b, 0);
        return;
    }
    MaskSample s = sample_of(f->d, f->step, &row);
    void *work = malloc((size_t)masks_work(row.n));
    if (!work)
        die(EXIT_INTERNAL, "out of memory for a row of %lld tokens", (long long)row.n);
    int64_t targets =
        masks_draw(&h->rule, &s, to.tokens + b * h->T, to.target_of + b * h->T, work);
    free(work);
    h->row[b] = (HiddenCounts){targets, 1, row.n};
    hidden_pad(h, &to, b, row.n);
}

HiddenCounts hidden_fill(const Hidden *h, Data *d, int64_t step, int64_t micro)
{
    const Batch to = h->at(micro);
    HiddenCounts own = {0};
    data_order(d, step);
    workers_run(d->micro, fill_row, &(Fill){h, d, step, micro});
    for (int64_t b = 0; b < d->micro; b++)
        add(&own, &h->row[b]);
    if (own.targets > h->most)
        die(EXIT_DATA, "%lld words of a micro-batch are hidden, this binary takes %lld: gen %s "
            "batch.targets=%lld", (long long)own.targets, (long long)h->most,
            model_words(h->model, "batch.targets"), (long long)own.targets);
    data_gather(to.target_of, d->micro * h->T, to.target_rows, to.labels, h->most);
    if (to.noise)
        data_noise(to.noise, h->rule.seed, step, data_sample0(d, step, micro));
    return own;
}

/* A token of no meaning. */
static int32_t any_token(const Hidden *h, int64_t n)
{
    return (int32_t)((uint64_t)n * 2654435761u % (uint64_t)h->vocab);
}

HiddenCounts hidden_fill_any(const Hidden *h)
{
    const Model *m = h->model;
    const int64_t rows = m->micro * h->T, all = m->accum * m->ranks;
    for (int64_t micro = 0; micro < m->accum; micro++) {
        const Batch to = h->at(micro);
        for (int64_t i = 0; i < rows; i++) {
            bool target = (i + 1) * h->most / rows > i * h->most / rows;
            to.tokens[i] = any_token(h, micro * rows + i);
            to.target_of[i] = target ? any_token(h, micro * rows + i + 1) : -1;
        }
        for (int64_t b = 0; b < m->micro; b++)
            hidden_pad(h, &to, b, h->T);
        data_gather(to.target_of, rows, to.target_rows, to.labels, h->most);
        if (to.noise)
            data_noise(to.noise, h->rule.seed, 0, micro * m->micro);
    }
    return (HiddenCounts){h->most * all, m->micro * all, rows * all};
}
