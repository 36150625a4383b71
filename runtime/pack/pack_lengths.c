/* pack_lengths.c -- histogram of text lengths, for the choice of max_length. */
#define _GNU_SOURCE
#include "runtime/pack/pack.h"

#include "runtime/base.h"

#include <stdlib.h>
#include <string.h>

void lengths_add(Lengths *l, size_t length)
{
    if (length >= l->cap) {
        size_t cap = 2 * length + 64;
        l->count = realloc(l->count, cap * sizeof *l->count);
        if (!l->count)
            abort();
        memset(l->count + l->cap, 0, (cap - l->cap) * sizeof *l->count);
        l->cap = cap;
    }
    l->count[length]++;
    l->n++;
    l->sum += (int64_t)length;
}

void lengths_free(Lengths *l)
{
    free(l->count);
    *l = (Lengths){0};
}

int64_t lengths_above(const Lengths *l, int64_t n)
{
    int64_t above = 0;
    for (size_t i = (size_t)n + 1; i < l->cap; i++)
        above += l->count[i];
    return above;
}

int64_t lengths_up_to(const Lengths *l, double share)
{
    int64_t below = 0, want = (int64_t)((double)l->n * share + 0.999999);
    size_t at = 0;
    REQUIRE(share >= 0 && share <= 1);
    want = want < 1 ? 1 : want;
    while (at < l->cap && (below += l->count[at]) < want)
        at++;
    return (int64_t)at;
}

char *lengths_text(const Lengths *l, const char *name)
{
    return format("%s %lld to %lld tokens, mean %.1f, half up to %lld, 95 of 100 up to %lld", name,
                  (long long)lengths_up_to(l, 0), (long long)lengths_up_to(l, 1),
                  (double)l->sum / (double)l->n, (long long)lengths_up_to(l, 0.5),
                  (long long)lengths_up_to(l, 0.95));
}
