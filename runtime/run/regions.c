/* regions.c -- learning histories as text and as a plot. */
#include "runtime/run/regions.h"

#include <inttypes.h>
#include <stdlib.h>

#include "runtime/base.h"
#include "runtime/darkroom.h"

static int64_t at_most(int64_t x, int64_t most)
{
    return x < most ? x : most;
}

/* Prints steps first .. end - 1 of the first stream. */
static void print_region(FILE *to, const RegionsOf *r, int64_t first, int64_t end)
{
    const uint16_t *code = histories_of(r->h, r->task, 0);
    fprintf(to, "%6" PRId64 "  <", first);
    for (int64_t t = first; t < end; t++)
        fprintf(to, "%s%c", t > first && t % DARKROOM_EPISODE == 0 ? "|" : "",
                darkroom_reward_of(code[t]) ? '1' : '.');
    fputs(end == first + r->region ? "> " : "", to);
    for (int64_t t = first - first % DARKROOM_EPISODE, sum = 0; t < end; t++) {
        sum += darkroom_reward_of(code[t]);
        if ((t + 1) % DARKROOM_EPISODE == 0)
            fprintf(to, " %2" PRId64, sum), sum = 0;
    }
    fputc('\n', to);
}

/* Returns the mean episode return in these steps, over all streams. */
static double mean_return(const RegionsOf *r, int64_t first, int64_t end)
{
    double sum = 0;
    for (int s = 0; s < r->streams; s++)
        for (int64_t t = first; t < end; t++)
            sum += darkroom_reward_of(histories_of(r->h, r->task, s)[t]);
    return sum * DARKROOM_EPISODE / (double)(r->streams * (end - first));
}

void regions_print(FILE *to, const RegionsOf *r)
{
    for (int64_t first = 0; first < r->steps; first += r->region)
        print_region(to, r, first, at_most(first + r->region, r->steps));
    fprintf(to, "%d streams, mean return:", r->streams);
    for (int64_t first = 0; first + r->region <= r->steps; first += r->region)
        fprintf(to, " %.2f", mean_return(r, first, first + r->region));
    fputc('\n', to);
}

void regions_draw(const FiguresOf *of, const RegionsOf *r)
{
    const uint16_t *code = histories_of(r->h, r->task, 0);
    Table t = {0};
    int sum = 0;
    for (int64_t i = 0; i < r->steps; i++) {
        const int64_t episode = i - i % DARKROOM_EPISODE;
        table_row(&t);
        table_put(&t, "step", (double)i);
        table_put(&t, "reward", darkroom_reward_of(code[i]));
        sum += darkroom_reward_of(code[i]);
        if (i % r->region == 0)
            table_put(&t, "begins", 1);
        if (i % r->region == r->region - 1)
            table_put(&t, "ends", 0.5);      /* half as high: the next one begins next to it */
        if (i != episode + DARKROOM_EPISODE - 1)
            continue;
        table_put(&t, "return", sum);
        table_put(&t, "mean", mean_return(r, episode, i + 1));
        sum = 0;
    }
    char *star = format("_%d", r->task);
    figures_table(of, "plots/regions*.png", star, &t);
    free(star);
    table_free(&t);
}
