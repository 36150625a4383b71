/* masked_batch.c -- masks and pads rows of records into a micro-batch, by several threads. */
#include "runtime/data/masked_batch.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/data/workers.h"

const char *const masked_format[] = {[MASKED_pretrain] = "windows", [MASKED_sft] = "answers"};

void masked_suit(MaskedBatch *h, const Data *d, const char *files)
{
    const int64_t model_mask = h->rule.mask, mask = d->mask_id < 0 ? model_mask : d->mask_id;
    if (mask < 0)
        die(EXIT_MISMATCH, "%s: tokenizer %s has no mask token, such as [MASK]: gen pack with the "
            "tokenizer of a masked language model", files, d->tokenizer);
    if (model_mask >= 0 && mask != model_mask)
        die(EXIT_MISMATCH, "%s: the mask of tokenizer %s is token %lld, the model's is %lld: gen "
            "pack with the model's tokenizer", files, d->tokenizer, (long long)mask,
            (long long)model_mask);
    if (mask >= h->vocab)
        die(EXIT_MISMATCH, "%s: the mask is token %lld, the model has %lld tokens: gen %s "
            "model.vocab=%lld", files, (long long)mask, (long long)h->vocab,
            model_words(h->model, "model.vocab"), (long long)mask + 1);
    h->rule.mask = (int32_t)mask;
    h->rule.ids = (int32_t)d->ids;
    h->pad = d->pad_id < 0 ? 0 : (int32_t)d->pad_id;
    if (h->mode == MASKED_sft && d->eos < 0)
        die(EXIT_MISMATCH, "%s: tokenizer %s has no end-of-text token, from which a model learns "
            "to end its answers: gen pack with one that has it", files, d->tokenizer);
    h->end = (int32_t)d->eos;
}

void masked_check(const MaskedBatch *h, Data *d, const char *files)
{
    DataRow row;
    for (int64_t i = 0; i < d->n; i++) {
        data_sample(d, i, 0, &row);
        for (int64_t t = 0; t < row.n; t++)
            if (row.token[t] == h->rule.mask)
                die(EXIT_DATA, "%s: sample %lld has the mask, token %d, at position %lld: remove "
                    "it from the text", files, (long long)i, h->rule.mask, (long long)t);
    }
}

int64_t masked_divisor(const MaskedBatch *h, const MaskedCounts *c)
{
    return h->norm == MASKED_seq ? c->samples : h->norm == MASKED_tokens ? c->may : c->targets;
}

/* Returns the number of tokens of a row that may be masked. */
static int64_t answer(const DataRow *row)
{
    return mask_may(&(MaskSample){.may = row->mask, .n = row->n});
}

/* True if answers are extended to the longest of their micro-batch. Not in validation, where the
 * loss of a sample does not depend on the others. */
static bool fills_up(const MaskedBatch *h, const Data *d)
{
    return h->mode == MASKED_sft && !d->eval;
}

/* Returns the longest answer of a micro-batch whose first sample is `place` in the step. */
static int64_t longest(const MaskedBatch *h, Data *d, int64_t step, int64_t position)
{
    int64_t most = 0;
    DataRow row;
    for (int64_t g = position; fills_up(h, d) && g < position + d->micro; g++)
        if (data_row_of_step(d, step, g, &row) && answer(&row) > most)
            most = answer(&row);
    return most;
}

/* Every epoch masks other tokens of a row, and so does each copy of it in a step and each pass over
 * its source; every validation the same. */
static MaskSample sample_of(const MaskedBatch *h, const Data *d, int64_t step, const DataRow *row,
                            int64_t longest)
{
    int64_t most = d->eval ? h->T : mask_length(&h->rule, step, h->T),
            n = row->n < most ? row->n : most, room = h->T - n;
    int64_t more = fills_up(h, d) ? longest - answer(row) : 0;
    return (MaskSample){.stream = d->eval ? MASK_EVAL : MASK_TRAIN,
                        .epoch = d->eval ? h->draw : data_epoch(d, step), .sample = row->sample,
                        .repeat = row->repeat,
                        .token = row->token, .may = row->mask, .n = n,
                        .more = more < room ? more : room, .fill = h->end};
}

static MaskedCounts counts_of(const MaskSample *s, int64_t targets)
{
    return (MaskedCounts){targets, mask_may(s), 1, s->n + s->more};
}

static void add(MaskedCounts *all, MaskedCounts one)
{
    all->targets += one.targets;
    all->may += one.may;
    all->samples += one.samples;
    all->tokens += one.tokens;
}

MaskedCounts masked_count(const MaskedBatch *h, Data *d, int64_t step)
{
    MaskedCounts all = {0};
    int64_t most = 0;
    DataRow row;
    for (int64_t g = 0; g < d->G; g++) {
        if (g % d->micro == 0)
            most = longest(h, d, step, g);
        if (!data_row_of_step(d, step, g, &row))
            continue;
        MaskSample s = sample_of(h, d, step, &row, most);
        add(&all, counts_of(&s, mask_count(&h->rule, &s)));
    }
    return all;
}

void masked_pad(const MaskedBatch *h, const Batch *to, int64_t b, int64_t n)
{
    to->lengths[b] = (int32_t)n;
    for (int64_t t = n; t < h->T; t++) {
        to->tokens[b * h->T + t] = h->pad;
        to->target_of[b * h->T + t] = -1;
    }
    if (to->types)
        memset(to->types + b * h->T, 0, (size_t)h->T * sizeof *to->types);
}

/* Fills row b with a masked sample; NULL: with padding. */
static void fill_row(const MaskedBatch *h, const Batch *to, int64_t b, const MaskSample *s)
{
    h->row[b] = (MaskedRow){.share = 0};
    if (!s) {
        masked_pad(h, to, b, 0);
        return;
    }
    const int64_t n = s->n + s->more, may = mask_may(s);
    void *work = malloc((size_t)mask_work(n));
    if (!work)
        die(EXIT_INTERNAL, "out of memory for a row of %lld tokens", (long long)n);
    int64_t targets = mask_draw(&h->rule, s, to->tokens + b * h->T, to->target_of + b * h->T, work);
    free(work);
    h->row[b] = (MaskedRow){counts_of(s, targets), may ? mask_share(&h->rule, s, may) : 0};
    masked_pad(h, to, b, n);
}

/* Sets the rows of the head and their weights; returns the counts. */
static MaskedCounts gather(const MaskedBatch *h, const Batch *to, int64_t rows)
{
    MaskedCounts counts = {0};
    for (int64_t b = 0; b < rows; b++)
        add(&counts, h->row[b].has);
    if (counts.targets > h->most)
        die(EXIT_DATA, "%lld tokens of a micro-batch are masked, this program takes %lld: gen %s "
            "batch.targets=%lld", (long long)counts.targets, (long long)h->most,
            model_words(h->model, "batch.targets"), (long long)counts.targets);
    data_gather(to->target_of, rows * h->T, to->target_rows, to->labels, h->most);
    for (int64_t i = 0; to->weights && i < h->most; i++) {
        const MaskedRow *r = i < counts.targets ? &h->row[to->target_rows[i] / h->T] : NULL;
        double each = h->norm == MASKED_seq && r ? (double)r->has.may : 1;
        to->weights[i] = r ? (float)(1 / (r->share * each)) : 0;
    }
    return counts;
}

typedef struct {
    const MaskedBatch *h;
    Data *d;
    int64_t step, micro, longest;
} Fill;

static void fill_of_step(void *fill, int64_t b)
{
    const Fill *f = fill;
    const Batch to = f->h->at(f->micro);
    DataRow row;
    bool there = data_row(f->d, f->step, f->micro, b, &row);
    MaskSample s = {0};
    if (there)
        s = sample_of(f->h, f->d, f->step, &row, f->longest);
    fill_row(f->h, &to, b, there ? &s : NULL);
}

MaskedCounts masked_fill(const MaskedBatch *h, Data *d, int64_t step, int64_t micro)
{
    const Batch to = h->at(micro);
    data_order(d, step);
    workers_run(d->micro, fill_of_step,
                &(Fill){h, d, step, micro, longest(h, d, step, data_sample0(d, step, micro))});
    if (to.noise)
        data_noise(to.noise, h->rule.seed, step, data_sample0(d, step, micro));
    return gather(h, &to, d->micro);
}

MaskedCounts masked_fill_draws(const MaskedBatch *h, Data *d, int64_t sample, int64_t stride)
{
    const Batch to = h->at(0);
    MaskedBatch of = *h;
    DataRow row = {0};
    const bool there = sample < d->n;
    if (there)
        data_sample(d, sample, 0, &row);
    for (int64_t b = 0; b < d->micro; b++, of.draw += stride) {
        MaskSample s = sample_of(&of, d, 0, &row, 0);
        fill_row(&of, &to, b, there && of.draw < of.rule.draws ? &s : NULL);
    }
    return gather(&of, &to, d->micro);
}

MaskedCounts masked_fill_any(const MaskedBatch *h)
{
    const Model *m = h->model;
    const int64_t rows = m->micro * h->T, all = m->accum * m->ranks;
    for (int64_t micro = 0; micro < m->accum; micro++) {
        const Batch to = h->at(micro);
        data_fill_any(to.tokens, to.target_of, rows, h->most, h->vocab, micro * rows);
        for (int64_t b = 0; b < m->micro; b++)
            masked_pad(h, &to, b, h->T);
        data_gather(to.target_of, rows, to.target_rows, to.labels, h->most);
        for (int64_t i = 0; to.weights && i < h->most; i++)
            to.weights[i] = 1;
        if (to.noise)
            data_noise(to.noise, h->rule.seed, 0, micro * m->micro);
    }
    return (MaskedCounts){h->most * all, rows * all, m->micro * all, rows * all};
}
