/* tokenizer_decode.c -- ids back to text. */
#define _GNU_SOURCE
#include "runtime/data/tokenizer_parts.h"

#include "runtime/files/utf8.h"

#include <stdlib.h>
#include <string.h>

/* Each longest beginning of a character that goes wrong becomes one U+FFFD. */
static char *make_valid(char *text, size_t n, size_t *nout)
{
    if (utf8_check(text, n) == n) {
        *nout = n;
        return text;
    }
    char *out = malloc(3 * n + 1);
    *nout = 0;
    for (size_t i = 0; i < n;) {
        int bad, len = utf8_length(text + i, n - i, &bad);
        memcpy(out + *nout, len ? text + i : "\xef\xbf\xbd", len ? (size_t)len : 3);
        *nout += len ? (size_t)len : 3;
        i += len ? (size_t)len : (size_t)bad;
    }
    out[*nout] = 0;
    free(text);
    return out;
}

char *tokenizer_decode(const Tokenizer *t, const int32_t *ids, size_t n, bool skip_specials,
                       size_t *nbytes)
{
    static const char end[] = "<|endoftext|>";
    size_t cap = 8 * n + 64, len = 0;
    char *out = malloc(cap);
    for (size_t i = 0; i < n; i++) {
        const char *bytes = NULL;
        size_t k = 0;
        const Added *a = t->bytes ? NULL : added_of(t, ids[i]);
        char *unmapped = NULL, byte = (char)ids[i];
        if (t->bytes) {
            bytes = ids[i] == BYTES_EOS ? end : &byte;
            k = ids[i] == BYTES_EOS ? (skip_specials ? 0 : sizeof end - 1)
                                    : ids[i] >= 0 && ids[i] < 256;
        } else if (a && !(a->special && skip_specials)) {
            unmapped = malloc(a->nmatch + 1); /* upstream's decoder maps added tokens, too */
            bool mapped = bpe_unmap(a->match, a->nmatch, unmapped, &k);
            bytes = mapped ? unmapped : a->match;
            k = mapped ? k : a->nmatch;
        } else if (!a) {
            bytes = bpe_bytes(t->bpe, ids[i], &k);
        }
        if (cap - len <= k)
            out = realloc(out, cap = 2 * cap + k);
        if (k)
            memcpy(out + len, bytes, k);
        len += k;
        free(unmapped);
    }
    out[len] = 0;
    *nbytes = len;
    return t->bytes ? out : make_valid(out, len, nbytes);
}
