/* comm_rendezvous.c -- rendezvous code of both backends: joining, progress, time limits.
 *
 * In:    DIECAST_TIMEOUT_SCALE, the program's own file.
 * Keeps: every timeout is multiplied by the scale. */
#define _GNU_SOURCE
#include "runtime/ranks/comm_rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base.h"
#include "runtime/ranks/comm.h"
#include "runtime/ranks/comm_parts.h"
#include "runtime/files/sha256.h"

static const double silence_seconds = 20, step_least = 60, first_step = 600;
enum { STEPS = 31 };                 /* step durations from which the deadline is computed */

double comm_scale = 1;
static double expected;              /* set by comm_expect(); 0: a step's limit */
static struct {
    double seconds[STEPS];
    int n, next;
    int64_t step;                    /* the step being timed */
    double began;
} steps = { .step = -1 };

/* ---- deadlines ------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Time allowed for the current work without progress. */
static double allowed(void)
{
    double sorted[STEPS];
    if (expected > 0)
        return expected * comm_scale;
    if (steps.n == 0)
        return first_step * comm_scale;
    memcpy(sorted, steps.seconds, sizeof sorted);
    qsort(sorted, (size_t)steps.n, sizeof *sorted, ascending);
    return fmax(step_least, 20 * sorted[steps.n / 2]) * comm_scale;
}

void comm_progress(void)
{
    double now = clock_seconds();
    if (world.step != steps.step) {
        if (steps.step >= 0) {
            steps.seconds[steps.next] = now - steps.began;
            steps.next = (steps.next + 1) % STEPS;
            steps.n += steps.n < STEPS;
        }
        steps.step = world.step;
        steps.began = now;
    }
    rendezvous_progress(world.step, allowed());
}

void comm_set_expected(double seconds)
{
    expected = seconds;
}

void comm_read_scale(void)
{
    char *error = launch_scale(environ, &comm_scale);
    if (error)
        die(EXIT_CONFIG, "%s", error);
}

/* ---- startup --------------------------------------------------------------------------------- */

int comm_port(const char *name)
{
    int port = -1;
    char *error = launch_port_of(environ, name, &port);
    if (error)
        die(EXIT_CONFIG, "%s", error);
    return port;
}

static void hash_program(uint8_t digest[SHA256_BYTES])
{
    static char block[1 << 16];
    Sha256 h;
    ssize_t n = -1;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    sha256_begin(&h);
    while (fd >= 0 && (n = read(fd, block, sizeof block)) > 0)
        sha256_add(&h, block, (size_t)n);
    if (n < 0)
        die(EXIT_CONFIG, "/proc/self/exe: %s", strerror(errno));
    close(fd);
    sha256_end(&h, digest);
}

void comm_settings(RendezvousConfig *c)
{
    if (world.size > RENDEZVOUS_RANKS)
        die(EXIT_CONFIG, "%d ranks: at most %d are supported", world.size, RENDEZVOUS_RANKS);
    comm_read_scale();
    c->rank = world.rank;
    c->size = world.size;
    c->restart = comm_launch.restart;
    c->join_seconds = INIT_SECONDS * comm_scale;
    c->silence_seconds = silence_seconds * comm_scale;
    hash_program(c->build);
}
