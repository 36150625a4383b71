/* comm.c -- rank and world size of this process; the functions of comm.h for a single rank.
 *
 * In:    the launcher's environment.  Out: world. */
#define _GNU_SOURCE
#include "runtime/ranks/comm.h"
#include "runtime/base.h"
#include "runtime/ranks/comm_parts.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern char **environ;
Launch comm_launch;

char *comm_wrong_size(int size, int64_t built_for, const char *words, const char *program,
                      bool torchrun)
{
    if (size == built_for)
        return NULL;
    const char *slash = strrchr(program, '/');
    int folder = slash ? (int)(slash - program) : 1;
    char *command = launch_command(&comm_launch, (int)built_for, program, torchrun);
    char *text = format("built for %lld rank%s, started as %d by launcher %s: start with "
                        "%.*s/run.sh%s%s, or build for %d: gen %s gpus=%d, then "
                        "the make that it names", (long long)built_for, built_for == 1 ? "" : "s",
                        size, comm_launch.source, folder, slash ? program : ".",
                        command ? " or " : "", command ? command : "", size, words, size);
    free(command);
    return text;
}

void comm_check_size(int size, int64_t built_for, const char *words, const char *program)
{
    char *wrong = comm_wrong_size(size, built_for, words, program, false);
    if (wrong)
        die(EXIT_MISMATCH, "%s", wrong);
}

void comm_resolve(void)
{
    char *error = comm_try_resolve();
    if (error)
        die(EXIT_CONFIG, "%s", error);
}

char *comm_try_resolve(void)
{
    char *error = launch_resolve(environ, &comm_launch);
    world.rank = comm_launch.rank;
    world.size = comm_launch.size;
    world.local_rank = comm_launch.local_rank;
    world.local_size = comm_launch.local_size;
    if (gethostname(world.host, sizeof world.host - 1) != 0)
        die(EXIT_CONFIG, "gethostname: %s", strerror(errno));
    return error;
}

const char *comm_launcher(void)
{
    return comm_launch.source;
}

int comm_restart(void)
{
    return comm_launch.restart;
}

void comm_check_local_rank(int64_t given)
{
    if (given >= 0 && given != world.local_rank)
        die(EXIT_CONFIG, "--local-rank %lld, but launcher %s says %d", (long long)given,
            comm_launch.source, world.local_rank);
}

#if DIECAST_RANKS == 1

void comm_init(int64_t built_for, const char *words, int argc, char **argv)
{
    comm_resolve();
    comm_check_size(comm_launch.size, built_for, words, argc > 0 ? argv[0] : "");
    world.local_rank = 0;
    world.local_size = 1;
}

const char *comm_library(void)
{
    return "none";
}

const char *comm_setting(int i, bool *chosen)
{
    (void)i, (void)chosen;
    return NULL;
}

void comm_advance(void)
{
}

void comm_expect(double seconds)
{
    (void)seconds;
}

void comm_fold(const double *part, int64_t n, int count, double *sum)
{
    fold_rows(part, n, count, sum);
}

void comm_allreduce_double(double *buf, int n)
{
    (void)buf, (void)n;
}

int64_t comm_max_int(int64_t value)
{
    return value;
}

void comm_broadcast(void *buf, size_t bytes, int root)
{
    (void)buf, (void)bytes, (void)root;
}

void comm_gather(const float *own, int64_t n, float *to, const int64_t *counts)
{
    (void)own, (void)n, (void)to, (void)counts;
}

void comm_barrier(void)
{
}

void comm_finish(void)
{
}

#else

/* Where a rank is: inside a program, or at a host collective after it. */
typedef struct {
    int64_t begun;               /* programs */
    char last[31];               /* name of the last one; "": none */
    bool begins;                 /* it begins now */
} Place;

static Place place, *all_places;
void (*comm_swap)(const void *own, void *all, size_t bytes);

void comm_count_programs(void)
{
    all_places = calloc((size_t)world.size, sizeof *all_places);
    if (!all_places)
        die(EXIT_CONFIG, "no memory for a table of %d ranks", world.size);
}

/* Returns "begins program 17, eval" or "has finished program 16, eval"; malloc'ed. */
static char *place_text(const Place *p)
{
    if (!p->begun)
        return format("has begun no program");
    return format("%s program %lld, %s", p->begins ? "begins" : "has finished",
                  (long long)p->begun, p->last);
}

void comm_compare_programs(void)
{
    int other = 1;
    if (!all_places)
        return;
    comm_swap(&place, all_places, sizeof place);
    while (other < world.size && !memcmp(&all_places[other], all_places, sizeof place))
        other++;
    if (other == world.size)
        return;
    if (world.rank != 0)         /* rank 0 ends the job with the one line */
        comm_swap(&place, all_places, sizeof place);
    die(EXIT_HANG, "rank %d %s, but rank 0 %s: they would wait for each other forever; the files "
        "that ranks read must be the same on every machine", other, place_text(&all_places[other]),
        place_text(&all_places[0]));
}

void comm_program(const char *name)
{
    place.begun++;
    place.begins = true;
    strncpy(place.last, name, sizeof place.last - 1);    /* zeros follow */
    comm_compare_programs();
    place.begins = false;
}

#endif
