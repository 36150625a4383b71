/* show.c -- sample rows of the first steps (--show).
 *
 * In:    inputs of a step, filled by the objective. Out: standard output. */
#include "runtime/run/show.h"

#include <stdlib.h>

#include "runtime/base.h"

void show_steps(const ShowOf *of, Data *d, int64_t rows, const TokenText *by)
{
    int64_t shown = 0;
    for (int64_t step = 0; shown < rows; step++) {
        of->fill(d, step);
        for (int64_t micro = 0; micro < d->accum; micro++)
            for (int64_t row = 0; shown < rows; row++) {
                ShownRow r = {.n = 0};
                if (!of->row(d, step, micro, row, &r))
                    break;
                int64_t targets = 0;
                for (int64_t i = 0; i < r.n; i++)
                    targets += r.target ? r.target[i] : i > 0;
                char *part = d->accum > 1 ? format(" micro-batch %lld", (long long)micro + 1)
                                          : format("%s", ""),
                     *title = format("step %lld%s row %lld: %s%s%lld token%s, %lld target%s",
                                     (long long)step + 1, part, (long long)row + 1, r.about,
                                     *r.about ? ", " : "", (long long)r.n, r.n == 1 ? "" : "s",
                                     (long long)targets, targets == 1 ? "" : "s");
                if (world.rank == 0)
                    show_row(by, title, &r);
                free(part), free(title);
                shown++;
            }
    }
}

/* Returns the label of a position, or of the one after it; negative: none. */
static int32_t label_at(const Batch *at, int64_t position)
{
    if (!at->target_of)
        return at->labels[position];
    int32_t k = at->target_of[position];
    return k < 0 ? -1 : at->labels[k];
}

/* Returns the loss weight of a label. */
static float weight_at(const Batch *at, int64_t position)
{
    return at->weights[at->target_of ? at->target_of[position] : position];
}

/* Returns the position after the last token. */
static int64_t tokens_end(const Batch *at, int64_t first, int64_t T)
{
    int64_t n = 0;
    for (int64_t t = 0; t < T; t++)
        if (label_at(at, first + t) >= 0)
            n = at->doc_ends[first + t];
    return n;
}

void show_labels(ShownRow *to, const Batch *at, int64_t row, int64_t n, int64_t T, bool next)
{
    static int32_t *token, *label;
    static uint8_t *target, *ends;
    static float *weight;
    const int64_t first = row * T;
    if (!token) {
        token = calloc((size_t)T + 1, sizeof *token), label = calloc((size_t)T + 1, sizeof *label);
        target = calloc((size_t)T + 1, 1), ends = calloc((size_t)T + 1, 1);
        weight = calloc((size_t)T + 1, sizeof *weight);
    }
    if (!token || !label || !target || !ends || !weight)
        die(EXIT_INTERNAL, "out of memory for a row of %lld tokens", (long long)T);
    n = n < 0 ? tokens_end(at, first, T) : n;
    to->n = n + (next && n > 0 && label_at(at, first + n - 1) >= 0);
    to->padding = T - n;
    for (int64_t i = 0; i < to->n; i++) {
        label[i] = !next ? label_at(at, first + i) : i ? label_at(at, first + i - 1) : -1;
        token[i] = i < n ? at->tokens[first + i] : label[i];
        target[i] = label[i] >= 0;
        weight[i] = at->weights && target[i] ? weight_at(at, first + i - next) : 1;
        ends[i] = at->doc_ends && i < n && at->doc_ends[first + i] == i + 1;
    }
    to->token = token, to->label = label, to->target = target;
    to->ends = at->doc_ends ? ends : NULL;
    to->weight = at->weights ? weight : NULL;
}
