/* data_samples.c -- data order: the samples of a step, and their pieces.
 *
 * Keeps: no state except the permutation of the current epoch; a resumed run re-reads nothing.
 * Method: sample i of a packed file is tokens [i T, i T + T], of rows document i, of bfd the
 *         documents of bin i; where samples have parts, they have them apart. */
#include "runtime/data/data_parts.h"

#include "runtime/base.h"

/* ---- pieces ---------------------------------------------------------------------------------- */

int data_file_of(const Data *d, int64_t sample, int64_t *record)
{
    const int64_t i = sample + d->base;
    int lo = 0, hi = d->nspans - 1;      /* the last span whose first <= i */
    while (lo < hi) {
        int mid = (lo + hi + 1) / 2;
        if (d->span[mid].first <= i)
            lo = mid;
        else
            hi = mid - 1;
    }
    *record = i + d->span[lo].skip - d->span[lo].first;
    return d->span[lo].file;
}

DataPiece data_piece_at(const Data *d, int64_t i, int part)
{
    const DataFile *f = &d->file[data_file_of(d, i, &i)];
    const TokenPart *p = &f->t.part[part];
    int64_t begin = i * d->T, end = begin + d->T;
    if (d->rows) {
        begin = p->doc[i];
        end = p->doc[i + 1];
        if (begin < 0 || end <= begin || end > p->n || end - begin > d->T)
            recordfile_changed(&f->t.records, p->offsets, i + 1);
    }
    return (DataPiece){
        .file = &f->t,
        .part = p,
        .index = i,
        .begin = begin,
        .token = p->tokens + begin,
        .mask = p->mask ? p->mask + begin : NULL,
        .have = end - begin,
        .next = !d->rows,
        .pad = f->t.eos >= 0 ? (int32_t)f->t.eos : 0,
    };
}

int64_t data_pieces(const Data *d, int64_t i)
{
    return d->bins.n ? d->bins.first[i + 1] - d->bins.first[i] : d->nparts;
}

DataPiece data_piece(const Data *d, int64_t i, int64_t k)
{
    return d->bins.n ? data_piece_at(d, d->bins.doc[d->bins.first[i] + k], 0)
                     : data_piece_at(d, i, (int)k);
}

int64_t data_piece_targets(const DataPiece *s)
{
    int64_t last = s->have + s->next - 1, n = 0;     /* labels 0 .. last-1 exist */
    if (!s->mask)
        return last;
    for (int64_t t = 0; t < last; t++)
        n += s->mask[t + 1] != 0;
    return n;
}

int64_t data_piece_choices(const DataPiece *s)
{
    int64_t n = 0;
    for (int64_t t = 0; s->mask && t < s->have; t++)
        n += s->mask[t] != 0;
    return s->mask ? n : s->have;
}

int64_t data_sample_targets(const Data *d, int64_t i)
{
    int64_t n = 0;
    for (int64_t k = 0; k < data_pieces(d, i); k++) {
        DataPiece s = data_piece(d, i, k);
        n += d->finds_targets ? data_piece_choices(&s) : data_piece_targets(&s);
    }
    return n;
}

static int64_t sample_tokens(const Data *d, int64_t i)
{
    int64_t n = 0;
    for (int64_t k = 0; k < data_pieces(d, i); k++)
        n += data_piece(d, i, k).have;
    return n;
}

/* ---- steps ----------------------------------------------------------------------------------- */

int64_t data_steps_per_epoch(const Data *d)
{
    return d->whole && !d->eval ? d->n / d->G : (d->n + d->G - 1) / d->G;
}

int64_t data_epoch(const Data *d, int64_t step)
{
    return d->eval ? 0 : step / data_steps_per_epoch(d);
}

void data_order(Data *d, int64_t step)
{
    int64_t epoch = data_epoch(d, step);
    if (step != d->step) {
        for (int k = 0; k < d->nfiles; k++)
            recordfile_check_size(&d->file[k].t.records);
        d->step = step;
    }
    if (d->eval || epoch == d->epoch)
        return;
    if (d->nsources)
        mixture_order(d->source, d->nsources, d->n, d->seed, epoch, d->order, d->list);
    else
        data_permutation(d->order, d->n, (uint32_t)(d->seed + (uint64_t)epoch));
    d->epoch = epoch;
}

int64_t data_sample_at(Data *d, int64_t step, int64_t g)
{
    data_order(d, step);
    if (d->eval) {
        int64_t i = step * d->G + g;
        return i < d->n ? i : -1;
    }
    return d->order[(step % data_steps_per_epoch(d) * d->G + g) % d->n];
}

int64_t data_samples(Data *d, int64_t step, int64_t *out, int64_t max)
{
    for (int64_t g = 0; g < d->G && g < max; g++)
        out[g] = data_sample_at(d, step, g);
    return d->G;
}

int64_t data_sample0(const Data *d, int64_t step, int64_t micro)
{
    (void)step;
    return (micro * d->ranks + world.rank) * d->micro;
}

int64_t data_rows(const Data *d, int64_t step, int64_t micro)
{
    int64_t left = d->eval ? d->n - step * d->G - data_sample0(d, step, micro) : d->micro;
    return left < 0 ? 0 : left < d->micro ? left : d->micro;
}

int64_t data_eval_batches(const Data *d, const Model *m, int64_t steps)
{
    const int64_t all = data_steps_per_epoch(d);
    return steps > 0 && steps < (all + m->accum - 1) / m->accum ? steps * m->accum : all;
}

/* Returns the sum of `count` over the samples of a step; padding rows (-1) count nothing. */
static int64_t sum_of_step(Data *d, int64_t step, int64_t (*count)(const Data *d, int64_t i))
{
    int64_t n = 0;
    for (int64_t g = 0; g < d->G; g++) {
        const int64_t i = data_sample_at(d, step, g);
        n += i >= 0 ? count(d, i) : 0;
    }
    return n;
}

int64_t data_targets(Data *d, int64_t step) { return sum_of_step(d, step, data_sample_targets); }

int64_t data_tokens(Data *d, int64_t step) { return sum_of_step(d, step, sample_tokens); }

void data_count(Data *d, int64_t step)
{
    for (int64_t g = 0; d->nsources && g < d->G; g++) {
        const int64_t i = data_sample_at(d, step, g);
        for (int k = 0; k < d->nsources; k++)
            d->source[k].taken += i >= d->source[k].first &&
                                  i < d->source[k].first + d->source[k].n;
    }
}
