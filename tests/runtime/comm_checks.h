/* comm_checks.h -- checks of host collectives that both runtimes' rank programs make.
 *
 * In:    number(rank, i): doubles whose sums round; report(): both of the file that includes it. */
#ifndef DIECAST_TESTS_COMM_CHECKS_H
#define DIECAST_TESTS_COMM_CHECKS_H

/* Sums of three micro-batches a rank, of 100 numbers: two rounds. */
static void folds(void)
{
    enum { MICROS = 3, COUNT = 100 };
    double part[MICROS * COUNT], sum[COUNT];
    bool good = true, naive = true;
    for (int i = 0; i < MICROS * COUNT; i++)
        part[i] = number(world.rank, i);
    for (int i = 0; i < COUNT; i++)
        sum[i] = i;
    comm_fold(part, MICROS, COUNT, sum);
    for (int i = 0; i < COUNT; i++) {
        double by_number = i, by_rank = i;
        for (int k = 0; k < MICROS; k++)
            for (int r = 0; r < world.size; r++)
                by_number += number(r, k * COUNT + i);
        for (int r = 0; r < world.size; r++)
            for (int k = 0; k < MICROS; k++)
                by_rank += number(r, k * COUNT + i);
        good = good && sum[i] == by_number;
        naive = naive && sum[i] == by_rank;
    }
    report("fold, in the order of micro-batches", good);
    report("a fold in another order would show", world.size == 1 || !naive);
}

/* Rank r sends 1000 r + 1 values, rank 2 none. */
static void gathered(void)
{
    enum { MOST = 100000 };
    static float own[MOST], all[8 * MOST];
    int64_t received[64] = { 0 };
    bool good = world.size <= 64;
    for (int r = 1; r < world.size; r++)
        received[r] = r == 2 ? 0 : 1000 * r + 1;
    for (int64_t i = 0; i < received[world.rank]; i++)
        own[i] = (float)(1e6 * world.rank + (double)i);
    comm_gather(own, received[world.rank], all, received);
    const float *at = all;
    for (int r = 1; r < world.size && world.rank == 0; r++)
        for (int64_t i = 0; i < received[r]; i++)
            good = good && *at++ == (float)(1e6 * r + (double)i);
    report("gather on rank 0", good && *at == 0);
}

#endif
