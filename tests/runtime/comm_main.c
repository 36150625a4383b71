/* comm_main.c -- ranks under a real MPI: sums against a slow tree, broadcast, maximum, abort.
 *
 * In:    argv: ranks built for, mode (sums, abort, hang), local rank.  Out: "ok" or "bad"
 *        lines. */
#include "../../runtime/base.h"
#include "../../runtime/ranks/comm.h"
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Values of very different size, so that another order of the sum shows in the bits. */
static float value(int rank, int64_t i)
{
    return (float)(sin(0.37 * (double)i + rank) * pow(10.0, (double)((i + 3 * rank) % 13) - 6.0));
}

/* Pairs at distance 1, 2, 4 ... as a recursion: the largest power of two below n goes left. */
static float tree(int64_t i, int first, int n)
{
    int left = 1;
    if (n == 1)
        return value(first, i);
    while (left * 2 < n)
        left *= 2;
    return tree(i, first, left) + tree(i, first + left, n - left);
}

static double tree_double(int i, int first, int n)
{
    int left = 1;
    if (n == 1)
        return (double)value(first, i) * 1.0000000001;
    while (left * 2 < n)
        left *= 2;
    return tree_double(i, first, left) + tree_double(i, first + left, n - left);
}

static void report(const char *what, bool good)
{
    if (comm_max_int(!good) == 0) {
        if (world.rank == 0)
            printf("ok %s\n", what);
    } else if (world.rank == 0) {
        printf("bad %s\n", what);
    }
    fflush(stdout);
}

/* For comm_checks.h: doubles, whose sums round. */
static double number(int rank, int64_t i) { return (double)value(rank, i) * 1.0000000001; }

#include "comm_checks.h"

/* Element i of rank r's part; every byte of it counts. */
static uint64_t element(int r, int64_t i)
{
    return ((uint64_t)r * 1000003 + (uint64_t)i + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

/* Whole tensors from their parts: apart, in place, and two at once; nothing is written after them. */
static void gathers(void)
{
    enum { PART = 1009, RANKS_MAX = 8 };
    static unsigned char own[PART * 8], whole[2 * PART * RANKS_MAX * 8 + 1];
    bool good[3] = { true, true, true };
    for (size_t bytes = 1; bytes <= 8; bytes *= 2)
        for (int way = 0; way < 3; way++) {
            const int slots = 1 + (way == 2);
            const size_t part = PART * bytes, all = part * (size_t)world.size;
            memset(whole, 0xa5, sizeof whole);
            for (int64_t i = 0; i < PART; i++) {
                const uint64_t x = element(world.rank, i);
                memcpy(own + (size_t)i * bytes, &x, bytes);
            }
            for (int l = 0; way && l < slots; l++)
                memcpy(whole + (size_t)l * all + (size_t)world.rank * part, own, part);
            if (way == 2)
                comm_all_gather(whole, bytes, slots, PART * world.size);
            else
                comm_gather_parts(whole, way ? whole + (size_t)world.rank * part : own, bytes, PART);
            for (int l = 0; l < slots; l++)
                for (int64_t i = 0; i < PART * world.size; i++) {
                    const uint64_t x = element((int)(i / PART), i % PART);
                    good[way] &= !memcmp(whole + (size_t)l * all + (size_t)i * bytes, &x, bytes);
                }
            good[way] &= whole[(size_t)slots * all] == 0xa5;
        }
    report("gather of parts", good[0]);
    report("gather of parts in place", good[1]);
    report("gather of several tensors", good[2]);
}

static void sums(void)
{
    static const int64_t lengths[] = { 1, 2, 3, 1000, 300001 }, buckets[] = { 1, 7, 4096, 1 << 20 };
    bool good = true, naive = true;
    for (int a = 0; a < 5; a++)
        for (int b = a > 3 ? 2 : 0; b < 4; b++) {
            float *x = malloc((size_t)lengths[a] * sizeof *x);
            for (int64_t i = 0; i < lengths[a]; i++)
                x[i] = value(world.rank, i);
            comm_allreduce_sum(x, lengths[a], buckets[b]);
            for (int64_t i = 0; i < lengths[a]; i++) {
                float want = tree(i, 0, world.size), line = 0.0f;
                for (int r = world.size; r-- > 0;)
                    line += value(r, i);
                good = good && memcmp(&want, &x[i], sizeof want) == 0;
                naive = naive && memcmp(&line, &x[i], sizeof line) == 0;
            }
            free(x);
        }
    report("sum is the tree, bit for bit", good);
    if (world.size > 2)
        report("another order would show", !naive);
    double d[COMM_DOUBLES];
    good = true;
    for (int i = 0; i < COMM_DOUBLES; i++)
        d[i] = (double)value(world.rank, i) * 1.0000000001;
    comm_allreduce_double(d, COMM_DOUBLES);
    for (int i = 0; i < COMM_DOUBLES; i++)
        good = good && d[i] == tree_double(i, 0, world.size);
    report("sum of doubles", good);
    folds();
    report("maximum", comm_max_int(world.rank * 1000000000000) == (world.size - 1) * 1000000000000);
    char text[100000];
    memset(text, world.rank == world.size - 1 ? 'x' : '-', sizeof text);
    comm_broadcast(text, sizeof text, world.size - 1);
    report("broadcast", text[0] == 'x' && memcmp(text, text + 1, sizeof text - 1) == 0);
    gathered();
    gathers();
    comm_barrier();
    report("local ranks", world.local_rank >= 0 && world.local_rank < world.local_size);
}

int main(int argc, char **argv)
{
    signal(SIGTERM, SIG_IGN);        /* of a launcher that ends the others: they have a second to say why */
    comm_init(atoi(argv[1]), "recipes/x.lua", argc, argv);
    if (argc > 3)
        comm_check_local_rank(atoi(argv[3]));
    if (strcmp(argv[2], "sums") == 0)
        sums();
    if (strcmp(argv[2], "abort") == 0) {
        world.step = 12;
        if (world.rank == 1)
            die(EXIT_DATA, "this rank has bad data");
        comm_barrier();              /* the others wait here until they are aborted */
        comm_barrier();
    }
    if (strcmp(argv[2], "hang") == 0) {
        world.step = 12;
        comm_expect(1);
        while (world.rank == 1)
            pause();
        comm_barrier();
    }
    comm_finish();
    return 0;
}
