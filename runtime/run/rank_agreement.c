/* rank_agreement.c -- comparison of settings and data between rank 0 and every other rank.
 *
 * In:    names and values as text. Out: nothing, or the end of all ranks. */
#define _GNU_SOURCE
#include "runtime/run/rank_agreement.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/data/fingerprint.h"
#include "runtime/ranks/comm.h"

enum { MOST = FLAG_COUNT };

typedef struct {
    const char *what[MOST];
    char *value[MOST];           /* malloc'ed */
    int n;                       /* the same on all ranks */
    /* returns the difference between two values, malloc'ed; NULL: print their first different
     * words */
    char *(*changes)(const char *first, const char *mine);
} List;

static void add(List *l, const char *what, char *value)
{
    l->what[l->n] = what;
    l->value[l->n++] = value;
}

/* Returns --eval-data for eval_data; malloc'ed. */
static char *spelt(const char *name)
{
    char *text = format("--%s", name);
    for (char *c = text; *c; c++)
        *c = *c == '_' ? '-' : *c;
    return text;
}

/* Returns the values concatenated, each with its final zero. */
static char *packed(const List *l, size_t *bytes)
{
    *bytes = 0;
    for (int i = 0; i < l->n; i++)
        *bytes += strlen(l->value[i]) + 1;
    char *all = malloc(*bytes + 1);
    if (!all)
        die(EXIT_INTERNAL, "out of memory for %zu bytes to compare", *bytes);
    size_t at = 0;
    for (int i = 0; i < l->n; i++) {
        strcpy(all + at, l->value[i]);
        at += strlen(l->value[i]) + 1;
    }
    return all;
}

/* Returns the start of the first word in which a and b differ. */
static size_t first_word(const char *a, const char *b)
{
    size_t n = 0, word = 0;
    while (a[n] && a[n] == b[n])
        if (a[n++] == ' ')
            word = n;
    return word;
}

/* Returns NULL, or the first difference between rank 0's values and ours, malloc'ed. */
static char *difference(const List *l, const char *first)
{
    for (int i = 0; i < l->n; i++) {
        const char *mine = l->value[i];
        size_t word = first_word(first, mine);
        char *changes = l->changes && strcmp(first, mine) ? l->changes(first, mine) : NULL;
        if (changes && *changes)
            return format("%s differs between rank 0 and rank %d (%s): %.300s", l->what[i],
                          world.rank, world.host, changes);
        if (!changes && strcmp(first, mine))
            return format("%s is %.120s on rank 0, %.120s on rank %d (%s)", l->what[i],
                          first + word, mine + word, world.rank, world.host);
        free(changes);
        first += strlen(first) + 1;
    }
    return NULL;
}

/* Frees the values. */
static void compare(List *l, const char *cure)
{
    char message[500] = "";
    size_t bytes;
    char *first = packed(l, &bytes);
    comm_broadcast(&bytes, sizeof bytes, 0);
    first = realloc(first, bytes + 1);           /* of rank 0 */
    if (!first)
        die(EXIT_INTERNAL, "out of memory for %zu bytes to compare", bytes);
    comm_broadcast(first, bytes, 0);
    char *differs = difference(l, first);
    int lowest = world.size - (int)comm_max_int(differs ? world.size - world.rank : 0);
    if (lowest < world.size) {
        if (world.rank == lowest)
            snprintf(message, sizeof message, "%s", differs);
        comm_broadcast(message, sizeof message, lowest);
        if (world.rank != 0)
            comm_barrier();      /* rank 0 ends the job with the one line */
        die(EXIT_MISMATCH, "%s: %s", message, cure);
    }
    for (int i = 0; i < l->n; i++)
        free(l->value[i]);
    free(first);
}

void ranks_check_flags(const Flags *f)
{
    List l = { .n = 0 };
    if (world.size == 1)
        return;
    for (int i = 0; i < FLAG_COUNT; i++) {
        char *value = flags_common(f, i);
        if (value)
            add(&l, spelt(flags_name(i)), value);
    }
    compare(&l, "start all ranks with the same flags");
    for (int i = 0; i < l.n; i++)
        free((char *)l.what[i]);
}

void ranks_check_libraries(const LibraryVersion *list, int n)
{
    List l = { .n = 0 };
    if (world.size == 1)
        return;
    for (int i = 0; i < n; i++)
        if (list[i].computes)
            add(&l, list[i].name, format("%s", list[i].loaded ? list[i].loaded : "missing"));
    compare(&l, "load the same libraries on all machines");
}

void ranks_check_data(const Data *train, const Data *eval)
{
    List l = { .changes = fingerprint_changes };
    if (world.size == 1)
        return;
    if (train)
        add(&l, "--data", data_fingerprint(train));
    if (eval)
        add(&l, "--eval-data", data_fingerprint(eval));
    compare(&l, "every host needs the same files");
}
