/* rendezvous_main.c -- one rank of a star. argv: rank, size, port, mode. Environment: HOST SECRET
 * SECRET_FILE RUN BUILD RESTART WRONG JOIN SILENCE (seconds).
 *
 * Modes: exchange (messages both ways, then leaves), hold (waits for ever), die (rank 1 ends with
 * EXIT_DATA), quit (rank 1 leaves with exit 0), stall (all beat, none gets further), behind (rank
 * 1 alone does not). Out: "joined HOSTS", "done". */
#define _GNU_SOURCE
#include "../../runtime/base.h"
#include "../../runtime/files/sha256.h"
#include "../../runtime/ranks/rendezvous.h"
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *env(const char *name, const char *other)
{
    const char *value = getenv(name);
    return value ? value : other;
}

static double seconds(const char *name, const char *other)
{
    return atof(env(name, other));
}

/* Many small messages and one large one; every rank checks what it gets. */
static void exchange(const RendezvousConfig *c)
{
    enum { LARGE = 3 << 20 };
    bool good = true;
    for (int64_t i = 0; i < 300; i++) {
        int64_t sum = i * c->rank, want = i * c->size * (c->size - 1) / 2, got;
        for (int r = 1; c->rank == 0 && r < c->size; r++) {
            rendezvous_receive(r, &got, sizeof got);
            sum += got;
        }
        for (int r = 1; c->rank == 0 && r < c->size; r++)
            rendezvous_send(r, &sum, sizeof sum);
        if (c->rank != 0) {
            rendezvous_send(0, &sum, sizeof sum);
            rendezvous_receive(0, &sum, sizeof sum);
        }
        good = good && sum == want;
    }
    char *large = malloc(LARGE);
    for (int i = 0; i < LARGE; i++)
        large[i] = (char)(i * 31 % 251);
    if (c->rank != 0) {
        rendezvous_send(0, large, LARGE);
        memset(large, 0, LARGE);
        rendezvous_receive(0, large, LARGE);
    }
    for (int r = 1; c->rank == 0 && r < c->size; r++) {
        rendezvous_receive(r, large, LARGE);
        rendezvous_send(r, large, LARGE);
    }
    for (int i = 0; i < LARGE; i++)
        good = good && large[i] == (char)(i * 31 % 251);
    free(large);
    rendezvous_leave();
    printf("%s\n", good ? "done" : "bad");
}

int main(int argc, char **argv)
{
    if (argc < 5)
        return 2;
    uint8_t id[RENDEZVOUS_ID];
    char byte;
    const char *mode = argv[4];
    RendezvousConfig c = { .rank = atoi(argv[1]), .size = atoi(argv[2]), .port = atoi(argv[3]),
                     .restart = atoi(env("RESTART", "0")), .one_host = !getenv("NODES"),
                     .host = env("HOST", "127.0.0.1"), .secret = getenv("SECRET"),
                     .secret_file = getenv("SECRET_FILE"), .wrong = getenv("WRONG"),
                     .join_seconds = seconds("JOIN", "20"),
                     .silence_seconds = seconds("SILENCE", "20") };
    sha256(env("RUN", ""), strlen(env("RUN", "")), c.run_id);
    sha256(env("BUILD", ""), strlen(env("BUILD", "")), c.build);
    world.rank = c.rank;
    world.size = c.size;
    snprintf(world.host, sizeof world.host, "h%d", c.rank);
    die_hook = rendezvous_abort;
    memset(id, c.rank == 0 ? 'i' : 0, sizeof id);
    rendezvous_join(&c, id);
    world.step = 7;
    printf("joined %c %s\n", id[RENDEZVOUS_ID - 1], rendezvous_host(c.size - 1));
    fflush(stdout);
    if (strcmp(mode, "exchange") == 0) {
        exchange(&c);
        return 0;
    }
    if (strcmp(mode, "die") == 0 && c.rank == 1)
        die(EXIT_DATA, "line 3 of the data is damaged");
    if (strcmp(mode, "quit") == 0 && c.rank == 1)
        _exit(0);
    if (strcmp(mode, "stall") == 0 || strcmp(mode, "behind") == 0)
        for (int i = 0; i < (c.rank == 1 && *mode == 'b' ? 1 : 4); i++)
            rendezvous_progress(7, 1.5);
    rendezvous_receive(c.rank == 0 ? 1 : 0, &byte, 1);
    return 1;
}
