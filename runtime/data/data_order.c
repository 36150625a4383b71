/* data_order.c -- data order: how samples are divided among steps, ranks and micro-batches.
 *
 * Keeps: no state except the permutation of the current epoch; a resumed run re-reads nothing. */
#include "runtime/data/data_parts.h"

#include "runtime/base.h"

#include <stdlib.h>

/* ---- opening, fingerprint -------------------------------------------------------------------- */

Data data_divided(const char *kind, int64_t T, const Model *m, int64_t micro, uint64_t seed,
                  bool eval)
{
    int64_t accum = eval ? 1 : m->accum;
    micro = micro ? micro : m->micro;
    return (Data){.eval = eval, .kind = kind, .nparts = 1, .T = T, .micro = micro, .accum = accum,
                  .ranks = m->ranks, .G = micro * accum * m->ranks, .seed = seed, .epoch = -1,
                  .step = -1};
}

void data_check_count(const Data *d, const char *paths)
{
    if (d->n > DATA_SAMPLES_MAX)
        die(EXIT_DATA, "%s: %lld samples, at most %d are supported", paths, (long long)d->n,
            DATA_SAMPLES_MAX);
}

void data_start_order(Data *d)
{
    if (!d->eval)
        d->order = arena_alloc((int64_t)sizeof *d->order * d->n, "data order");
    if (d->nsources)
        d->pass = arena_alloc((int64_t)sizeof *d->pass * d->n, "passes of an epoch");
}

void data_open_samples(Data *d, const char *kind, const char *path, int64_t n, int64_t T,
                       const Model *m, uint64_t seed, bool eval)
{
    *d = data_divided(kind, T, m, 0, seed, eval);
    d->n = n;
    if (n <= 0)
        die(EXIT_DATA, "%s: has no samples", path);
    data_check_count(d, path);
    data_start_order(d);
}

const char *data_special(const Data *d)
{
    return d->tokenizer ? d->file[0].t.special : "";
}

static char *fingerprint(const Data *d, const char *special)
{
    char *text = format("%s T=%lld samples=%lld", d->kind, (long long)d->T, (long long)d->n);
    for (int k = 0; k < d->nsources; k++) {
        char *longer = format("%s%s%lld", text, k ? "," : " drawn=", (long long)d->source[k].drawn);
        free(text);
        text = longer;
    }
    if (d->tokenizer) {
        char *longer = format("%s tokenizer=%s", text, d->tokenizer);
        free(text);
        text = longer;
    }
    if (*special) {
        char *longer = format("%s special=%s", text, special);
        free(text);
        text = longer;
    }
    for (int k = 0; k < d->nfiles; k++) {
        const TokenFile *t = &d->file[k].t;
        char *longer = *t->fingerprint
            ? format("%s %s", text, t->fingerprint)
            : format("%s %s:%lld", text, t->sha256, (long long)t->part->n);
        free(text);
        text = longer;
    }
    return text;
}

char *data_fingerprint(const Data *d)
{
    return fingerprint(d, data_special(d));
}

char *data_fingerprint_files(const Data *d)
{
    return fingerprint(d, "");
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
        if (d->check)
            d->check(d);
        d->step = step;
    }
    if (d->eval || epoch == d->epoch)
        return;
    if (d->nsources)
        mixture_order(d->source, d->nsources, d->n, d->seed, epoch, d->order, d->pass);
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

int64_t data_repeat_at(Data *d, int64_t step, int64_t g)
{
    if (d->eval)
        return 0;
    data_order(d, step);
    const int64_t round = d->n < d->G ? g / d->n : 0,
                  at = (step % data_steps_per_epoch(d) * d->G + g) % d->n;
    return d->pass ? round * (d->n + 2) + d->pass[at] : round;
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

void data_count(Data *d, int64_t step)
{
    for (int64_t g = 0; d->nsources && g < d->G; g++) {
        const int64_t i = data_sample_at(d, step, g);
        for (int k = 0; k < d->nsources; k++)
            d->source[k].taken += i >= d->source[k].first &&
                                  i < d->source[k].first + d->source[k].n;
    }
}

void data_noise(uint32_t *key, uint64_t seed, int64_t step, int64_t sample0)
{
    key[0] = (uint32_t)seed;
    key[1] = (uint32_t)(seed >> 32);
    key[2] = (uint32_t)step;
    key[3] = (uint32_t)sample0;
}
