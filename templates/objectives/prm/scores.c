/* scores.c -- scores solutions in batches. */
#include "scores.h"

#include <stdlib.h>

#include "runtime/base.h"             // die()
#include "runtime/data/workers.h"     // data-loader threads
#include "runtime/prm.h"              // the aggregate
#include "runtime/ranks/comm.h"       // sums over ranks
#include "step.h"                     // io

double score_of(const float *margin, const int32_t *rows)
{
    return prm_aggregate(PRM_@UPPER_PRM_AGGREGATE@, margin, rows, MARKS);
}

static void fill_solution(void *fill, int64_t b)
{
    const Fill *f = fill;
    const Inputs inputs = inputs_at(0);
    StepsRow r;
    bool there = steps_row(f->s, f->step, 0, b, &r);
    set_record(&inputs, b, there ? &r : NULL, there ? r.nmarks : 0);
}

void score_batch(const Steps *s, int64_t batch)
{
    data_order(s->d, batch);
    workers_run(B, fill_solution, &(Fill){s, batch, 0});
    step_score();
    step_wait();
    comm_advance();
}

bool scored(const Steps *s, int64_t batch, int64_t b, Scored *to)
{
    if (!steps_row(s, batch, 0, b, &to->of))
        return false;
    to->margin = io.margins + b * MARKS;
    to->score = score_of(to->margin, inputs_at(0).rows + b * MARKS);
    return true;
}

double *score_all(const Steps *s)
{
    enum { WIDTH = MARKS + 1, PIECE = COMM_DOUBLES };
    const int64_t n = s->d->n, all = n * WIDTH;
    double *to = calloc((size_t)all, sizeof *to);
    Scored one;
    if (!to)
        die(EXIT_INTERNAL, "out of memory for the scores of %lld solutions", (long long)n);
    for (int64_t batch = 0; batch < data_steps_per_epoch(s->d); batch++) {
        score_batch(s, batch);
        for (int64_t b = 0; b < B; b++)
            if (scored(s, batch, b, &one)) {
                double *row = to + one.of.sample * WIDTH;
                row[MARKS] = one.score;
                for (int j = 0; j < one.of.nmarks; j++)
                    row[j] = one.margin[j];
            }
    }
    for (int64_t i = 0; i < all; i += PIECE)
        comm_allreduce_double(to + i, (int)(all - i < PIECE ? all - i : PIECE));
    return to;
}
