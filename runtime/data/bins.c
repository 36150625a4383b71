/* bins.c -- bin packing of documents: best fit decreasing.
 *
 * Method: one queue of bins per amount of free space, and a bitmap of the queues that are not
 *         empty; documents are sorted by counting. */
#include "runtime/data/bins.h"

#include "runtime/base.h"

#include <stdlib.h>
#include <string.h>

/* Bins by free space, 0..T. */
typedef struct {
    int64_t words;               /* of `some` */
    uint64_t *some;              /* bit s: queue s has a bin */
    int32_t *head, *tail;        /* (T + 1) first and last bin of a queue */
    int32_t *next;               /* (bins) the next one in its queue */
} Spaces;

static void *take(int64_t n, size_t size)
{
    void *p = calloc(n ? (size_t)n : 1, size);
    if (!p)
        die(EXIT_INTERNAL, "out of memory for the bins of %lld documents", (long long)n);
    return p;
}

static void put(Spaces *s, int64_t space, int32_t bin)
{
    uint64_t *word = &s->some[space / 64], bit = UINT64_C(1) << space % 64;
    if (*word & bit)
        s->next[s->tail[space]] = bin;
    else
        s->head[space] = bin;
    s->tail[space] = bin;
    *word |= bit;
}

/* Returns the smallest free space of a bin that is at least `least`; -1: none. */
static int64_t smallest(const Spaces *s, int64_t least)
{
    uint64_t bits = s->some[least / 64] >> least % 64 << least % 64;
    for (int64_t w = least / 64; ; bits = s->some[w]) {
        if (bits)
            return w * 64 + __builtin_ctzll(bits);
        if (++w == s->words)
            return -1;
    }
}

static int32_t pop(Spaces *s, int64_t space)
{
    int32_t bin = s->head[space];
    if (bin == s->tail[space])
        s->some[space / 64] &= ~(UINT64_C(1) << space % 64);
    else
        s->head[space] = s->next[bin];
    return bin;
}

/* Returns the documents, longest first. */
static int32_t *by_length(const int32_t *length, int64_t n, int64_t T)
{
    int64_t *at = take(T + 2, sizeof *at);
    int32_t *order = take(n, sizeof *order);
    for (int64_t i = 0; i < n; i++)
        at[T - length[i] + 1]++;
    for (int64_t l = 0; l < T; l++)
        at[l + 1] += at[l];
    for (int64_t i = 0; i < n; i++)
        order[at[T - length[i]]++] = (int32_t)i;
    free(at);
    return order;
}

Bins bins_pack(const int32_t *length, int64_t documents, int64_t T)
{
    Bins b = { 0 };
    for (int64_t k = 0; k < documents; k++)
        REQUIRE(length[k] >= 1 && length[k] <= T);
    Spaces s = { .words = T / 64 + 1 };
    s.some = take(s.words, sizeof *s.some);
    s.head = take(T + 1, sizeof *s.head);
    s.tail = take(T + 1, sizeof *s.tail);
    s.next = take(documents, sizeof *s.next);
    int32_t *order = by_length(length, documents, T), *of = take(documents, sizeof *of);
    for (int64_t k = 0; k < documents; k++) {
        const int64_t need = length[order[k]], space = smallest(&s, need);
        of[k] = space < 0 ? (int32_t)b.n++ : pop(&s, space);
        put(&s, (space < 0 ? T : space) - need, of[k]);
    }
    b.first = take(b.n + 2, sizeof *b.first);
    b.doc = take(documents, sizeof *b.doc);
    for (int64_t k = 0; k < documents; k++)
        b.first[of[k] + 2]++;
    for (int64_t i = 1; i < b.n; i++)
        b.first[i + 1] += b.first[i];
    for (int64_t k = 0; k < documents; k++)
        b.doc[b.first[of[k] + 1]++] = order[k];
    free(s.some), free(s.head), free(s.tail), free(s.next), free(order), free(of);
    return b;
}

void bins_append(Bins *b, Bins *more, int64_t document)
{
    const int64_t had = b->n ? b->first[b->n] : 0, documents = more->first[more->n];
    Bins all = {.n = b->n + more->n};
    all.first = take(all.n + 2, sizeof *all.first);
    all.doc = take(had + documents, sizeof *all.doc);
    if (had)
        memcpy(all.doc, b->doc, (size_t)had * sizeof *all.doc);
    for (int64_t i = 0; i < b->n; i++)
        all.first[i] = b->first[i];
    for (int64_t i = 0; i <= more->n; i++)
        all.first[b->n + i] = had + more->first[i];
    for (int64_t k = 0; k < documents; k++)
        all.doc[had + k] = (int32_t)(document + more->doc[k]);
    bins_free(b);
    bins_free(more);
    *b = all;
}

void bins_free(Bins *b)
{
    free(b->doc);
    free(b->first);
    *b = (Bins){ 0 };
}
