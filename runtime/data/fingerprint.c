/* fingerprint.c -- compares two data fingerprints word by word.
 *
 * In:    texts of data_fingerprint().  Out: one line for people. */
#define _GNU_SOURCE
#include "runtime/data/fingerprint.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"

/* A word of a fingerprint: KEY=VALUE or, key 0, one without a key. */
typedef struct {
    const char *at;
    int n, key;                  /* lengths; n 0: no word */
} Word;

static Word next_word(const char **from)
{
    const char *at = *from + strspn(*from, " ;");
    const int n = (int)strcspn(at, " ;");
    const char *equals = memchr(at, '=', (size_t)n);
    *from = at + n;
    return (Word){at, n, equals ? (int)(equals - at) : 0};
}

static bool same_text(const char *a, int na, const char *b, int nb)
{
    return na == nb && !memcmp(a, b, (size_t)na);
}

static bool is_special(Word w)
{
    return same_text(w.at, w.key, "special", 7);
}

/* For kinds with a hash, "histories:HASH/FILESxSTEPS": "histories 1x80 -> 1x72 (files x steps)" or
 * "other histories", malloc'ed. NULL: kinds without a hash. */
static char *hashed_change(Word a, Word b)
{
    const int name = (int)strcspn(a.at, ": ;");
    const char *from = memchr(a.at, '/', (size_t)a.n), *to = memchr(b.at, '/', (size_t)b.n);
    if (name >= a.n || name >= b.n || memcmp(a.at, b.at, (size_t)name + 1) || !from || !to)
        return NULL;
    const int na = (int)(a.at + a.n - from) - 1, nb = (int)(b.at + b.n - to) - 1;
    return same_text(from + 1, na, to + 1, nb)
        ? format("other %.*s", name, a.at)
        : format("%.*s %.*s -> %.*s (files x steps)", name, a.at, na, from + 1, nb, to + 1);
}

/* "samples 188 -> 190", "file 1 has different content"; malloc'ed. file 0: the kind of the
 * samples. */
static char *word_change(Word a, Word b, int file)
{
    static const char *const means[][2] = {{"T", "tokens of a sample"},
                                           {"drawn", "samples drawn from each file"},
                                           {"special", "ids of eos, mask, pad and bos"}};
    char *hashed = a.key || file ? NULL : hashed_change(a, b), *key = format("%.*s", a.key, a.at);
    const char *name = a.key ? key : "kind";
    const int skip = a.key ? a.key + 1 : 0;
    for (size_t i = 0; i < sizeof means / sizeof *means; i++)
        name = strcmp(key, means[i][0]) ? name : means[i][1];
    char *text = hashed           ? hashed
                 : !a.key && file ? format("file %d has different content", file)
                                  : format("%s %.*s -> %.*s", name, a.n - skip, a.at + skip,
                                           b.n - skip, b.at + skip);
    free(key);
    return text;
}

char *fingerprint_changes(const char *saved, const char *now)
{
    int file = -1;               /* the first word is the kind */
    const char *part = "";       /* separator before the next change */
    if (!strstr(saved, " samples=") || !strstr(now, " samples="))
        return NULL;
    char *list = format("%s", "");
    for (;;) {
        Word a = next_word(&saved), b = next_word(&now);
        if (is_special(a) && !is_special(b))
            a = next_word(&saved);
        else if (is_special(b) && !is_special(a))
            b = next_word(&now);
        if (!a.n && !b.n)
            return list;
        if (!a.n || !b.n || !same_text(a.at, a.key, b.at, b.key)) {
            free(list);
            return NULL;
        }
        const bool is_other = same_text(a.at, a.n, "beside", 6) &&
                              same_text(b.at, b.n, "beside", 6);
        file = is_other ? -1 : file + !a.key;
        if (is_other)
            part = *list ? "; records of other flags than --data: "
                         : "records of other flags than --data: ";
        if (same_text(a.at, a.n, b.at, b.n))
            continue;
        char *one = word_change(a, b, file), *longer = format("%s%s%s", list, part, one);
        free(one), free(list);
        list = longer, part = ", ";
    }
}
