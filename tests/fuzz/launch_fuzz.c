// link: launch names base
/* launch_fuzz.c -- launcher environments, a NAME=value a line, and Slurm lists: a valid place among
 * the ranks, or an error. */
#define _GNU_SOURCE
#include "../../runtime/ranks/launch.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { LINES = 64, MOST = 16 };

static void count(void *arg, const char *name)
{
    int *n = arg;
    if (!*name || strchr(name, '/') || strlen(name) > 255 || ++*n > MOST)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *rest = text, *env[LINES + 1], *word;
    int n = 0, counts[MOST], ncounts, nhosts, hosts = 0;
    memcpy(text, data, size);
    text[size] = '\0';
    free(launch_expand_hosts(text, MOST, count, &hosts, &nhosts));
    char *error = launch_expand_counts(text, MOST, counts, &ncounts);
    if (ncounts > MOST || nhosts != hosts)
        abort();
    for (int i = 0; !error && i < ncounts; i++)
        if (counts[i] < 1)
            abort();
    free(error);
    while (n < LINES && (word = strsep(&rest, "\n")))
        env[n++] = word;
    env[n] = NULL;
    Launch l;
    error = launch_resolve(env, &l);
    if (!error && (l.size < 1 || l.size > LAUNCH_MAX || l.rank < 0 || l.rank >= l.size
                   || l.local_size > l.size || l.local_rank < -1
                   || (l.local_size > 0 && l.local_rank >= l.local_size) || l.restart < 0))
        abort();
    free(error);
    free(text);
    return 0;
}
