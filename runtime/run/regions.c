/* regions.c -- a sign a step, or a stroke. */
#include "runtime/run/regions.h"

#include <inttypes.h>
#include <stdlib.h>

#include "runtime/base.h"
#include "runtime/darkroom.h"

enum { REGION = HISTORIES_ROLLOUT };

/* Steps first .. end - 1 of a stream. */
static void print_region(FILE *to, const uint16_t *code, int64_t first, int64_t end)
{
    fprintf(to, "%6" PRId64 "  <", first);
    for (int64_t t = first; t < end; t++)
        fprintf(to, "%s%c", t > first && t % DARKROOM_EPISODE == 0 ? "|" : "",
                darkroom_reward_of(code[t]) ? '1' : '.');
    fputs(end == first + REGION ? "> " : "", to);
    for (int64_t t = first, sum = 0; t < end; t++) {
        sum += darkroom_reward_of(code[t]);
        if ((t + 1) % DARKROOM_EPISODE == 0)
            fprintf(to, " %2" PRId64, sum), sum = 0;
    }
    fputc('\n', to);
}

/* Of an episode of these steps, over all streams. */
static double mean_return(const Histories *h, int task, int64_t first, int64_t end)
{
    double sum = 0;
    for (int s = 0; s < h->streams; s++)
        for (int64_t t = first; t < end; t++)
            sum += darkroom_reward_of(histories_of(h, task, s)[t]);
    return sum * DARKROOM_EPISODE / (double)(h->streams * (end - first));
}

void regions_print(FILE *to, const Histories *h, int task)
{
    for (int64_t first = 0; first < h->steps; first += REGION)
        print_region(to, histories_of(h, task, 0), first,
                     first + REGION < h->steps ? first + REGION : h->steps);
    fprintf(to, "%d streams, mean return:", h->streams);
    for (int64_t first = 0; first + REGION <= h->steps; first += REGION)
        fprintf(to, " %.2f", mean_return(h, task, first, first + REGION));
    fputc('\n', to);
}

void regions_draw(const FiguresOf *of, const Histories *h, int task)
{
    const uint16_t *code = histories_of(h, task, 0);
    Table t = {0};
    int sum = 0;
    for (int64_t i = 0; i < h->steps; i++) {
        const int64_t episode = i - i % DARKROOM_EPISODE;
        table_row(&t);
        table_put(&t, "step", (double)i);
        table_put(&t, "reward", darkroom_reward_of(code[i]));
        sum += darkroom_reward_of(code[i]);
        if (i % REGION == 0)
            table_put(&t, "begins", 1);
        if (i % REGION == REGION - 1)
            table_put(&t, "ends", 0.5);      /* half as high: the next one begins beside it */
        if (i != episode + DARKROOM_EPISODE - 1)
            continue;
        table_put(&t, "return", sum);
        table_put(&t, "mean", mean_return(h, task, episode, i + 1));
        sum = 0;
    }
    char *star = format("_%d", task);
    figures_table(of, "plots/regions*.png", star, &t);
    free(star);
    table_free(&t);
}
