/* random.c -- compares ids and decoded texts with those that Hugging Face tokenizers makes.
 *
 * In:    what tests/oracle/tokenizer_random.py writes, on standard input; a path for what differs.
 * Out:   one line; exit 1 if something differed: the tokenizer.json is kept there. */
#define _GNU_SOURCE
#include "../../runtime/base.h"
#include "../../runtime/data/tokenizer.h"

#include <stdlib.h>
#include <string.h>

enum { TOKENIZER = -1, MOST = 1 << 28 };

/* A length and that many units, with a NUL after them; NULL: the end. */
static char *take(size_t unit, uint32_t *n)
{
    if (fread(n, sizeof *n, 1, stdin) != 1 || *n == (uint32_t)TOKENIZER || *n > MOST)
        return NULL;
    char *out = calloc(*n + 1, unit);
    return out && fread(out, unit, *n, stdin) == *n ? out : NULL;
}

/* NULL, or how they differ. */
static char *differs(const Tokenizer *t, const char *text, uint32_t n, const int32_t *want, uint32_t nwant,
                     const char *decoded, uint32_t ndecoded)
{
    int32_t *ids;
    size_t nids, nback;
    char *error = tokenizer_encode(t, text, n, true, &ids, &nids);
    if (error)
        return error;
    size_t i = 0;
    while (i < nids && i < nwant && ids[i] == want[i])
        i++;
    if (nids != nwant || i < nids)
        error = format("%zu ids, want %u; the first that differs is number %zu: %d, want %d", nids, nwant, i,
                       i < nids ? ids[i] : -1, i < nwant ? want[i] : -1);
    char *back = tokenizer_decode(t, want, nwant, true, &nback);
    if (!error && (nback != ndecoded || memcmp(back, decoded, nback)))
        error = format("decoded to \"%s\", want \"%s\"", back, decoded);
    free(back);
    free(ids);
    return error;
}

int main(int argc, char **argv)
{
    Tokenizer *t = NULL;
    char *json = NULL, *error = argc == 2 ? NULL : format("want a path");
    uint32_t n, nids, nback, njson = 0;
    long texts = 0, tokenizers = 0;
    int kind;
    while (!error && (kind = fgetc(stdin)) != EOF) {
        ungetc(kind, stdin);
        uint32_t mark = 0;
        char *text = NULL;
        if (fread(&mark, sizeof mark, 1, stdin) != 1) {
            error = format("ends early");
        } else if (mark == (uint32_t)TOKENIZER) {
            tokenizer_free(t);
            free(json);
            t = NULL;
            json = take(1, &njson);
            error = json ? tokenizer_parse(&t, json, njson, NULL, 0) : format("ends early");
            tokenizers++;
        } else if (t && mark <= MOST) {
            n = mark;
            text = calloc(n + 1, 1);
            int32_t *ids = text && fread(text, 1, n, stdin) == n ? (int32_t *)(void *)take(4, &nids) : NULL;
            char *back = ids ? take(1, &nback) : NULL;
            error = back ? differs(t, text, n, ids, nids, back, nback) : format("ends early");
            texts++;
            free(ids);
            free(back);
        } else {
            error = format("begins with no tokenizer");
        }
        if (error && json) {
            FILE *to = fopen(argv[1], "w");
            if (to && fwrite(json, 1, njson, to) == njson)
                fclose(to);
            char *hex = calloc(1, text ? 2 * n + 1 : 1);
            for (uint32_t i = 0; text && i < n; i++)
                sprintf(hex + 2 * (size_t)i, "%02x", (unsigned char)text[i]);
            error = format("%s of %s: %s", hex, argv[1], error);
        }
        free(text);
    }
    if (!error && !texts)
        error = format("no texts");
    if (error)
        printf("not ok random texts: %s\n", error);
    else
        printf("ok random texts: %ld of %ld tokenizers\n", texts, tokenizers);
    return error != NULL;
}
