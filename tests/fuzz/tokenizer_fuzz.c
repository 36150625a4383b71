// link: base json crc32c tokenizer* bpe tokens wordpiece words chars -lcjson -lpcre2-8 -lutf8proc -lm
/* tokenizer_fuzz.c -- loads hostile tokenizer.json files; compares ids with slow encoders.
 *
 * In:     first byte 0xff: a tokenizer.json follows; else it chooses a tokenizer for the text.
 * Method: one slow encoder merges the lowest rank, leftmost, by scanning all pairs as strings; the
 *         other takes the longest part of a word by scanning the whole vocabulary. */
#define _GNU_SOURCE
#include "../../runtime/data/bpe.h"
#include "../../runtime/files/json.h"
#include "../../runtime/data/tokenizer.h"
#include "../../runtime/data/wordpiece.h"
#include "../../runtime/files/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WANT(x)                                                              \
    do {                                                                     \
        if (!(x)) {                                                          \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);          \
            abort();                                                         \
        }                                                                    \
    } while (0)
enum { NAMES = 17 };
static const char *const name[NAMES] = {"gpt2", "llama3", "added", "unknown", "qwen2", "bert", "cased",
                                        "level", "plain", "llama2", "joined", "mistral", "gemma",
                                        "t5", "xlmr", "unibytes", "tekken"};
static Tokenizer *tokenizer[NAMES];
static Bpe *model;               /* of gpt2 */
static char *left[1024], *right[1024];
static size_t nmerges;
static Wordpiece *wordpiece;     /* of cased: words of at most 12 characters */
static cJSON *parts;             /* its vocabulary */

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    char path[128], *error;
    size_t n;
    for (int i = 0; i < NAMES; i++) {
        snprintf(path, sizeof path, "tests/tokenizer/%s/tokenizer.json", name[i]);
        WANT(!tokenizer_load(&tokenizer[i], path));
    }
    char *text = file_read("tests/tokenizer/gpt2/tokenizer.json", 1 << 24, &n, &error);
    cJSON *json = json_parse(text, n, &error);
    WANT(json && !bpe_load(&model, json_get(json, "model"), true));
    const cJSON *merges = json_get(json_get(json, "model"), "merges");
    for (const cJSON *m = merges->child; m; m = m->next, nmerges++) {
        size_t k;
        left[nmerges] = calloc(1, 256);
        right[nmerges] = calloc(1, 256);
        WANT(bpe_unmap(m->child->valuestring, strlen(m->child->valuestring), left[nmerges], &k));
        WANT(bpe_unmap(m->child->next->valuestring, strlen(m->child->next->valuestring),
                       right[nmerges], &k));
    }
    text = file_read("tests/tokenizer/cased/tokenizer.json", 1 << 24, &n, &error);
    cJSON *cased = json_get(json_parse(text, n, &error), "model");
    WANT(cased && !wordpiece_load(&wordpiece, cased, true));
    parts = json_get(cased, "vocab");
    return 0;
}

/* The longest part of the vocabulary that word begins with, or NULL. */
static const cJSON *slow_part(const char *word, bool first)
{
    const cJSON *best = NULL;
    size_t longest = 0;
    for (const cJSON *i = parts->child; i; i = i->next) {
        bool on = !first && !strncmp(i->string, "##", 2);
        size_t n = strlen(i->string) - 2 * on;
        if ((first || on) && n > longest && !strncmp(word, i->string + 2 * on, n)) {
            best = i;
            longest = n;
        }
    }
    return best;
}

static void slow_parts_agree(const char *in, size_t n)
{
    char word[64] = "";
    int want[64], count = 0, chars = 0;
    if (!n || n > 60 || memchr(in, 0, n) || utf8_check(in, n) < n)
        return;
    memcpy(word, in, n);
    for (size_t i = 0; i < n; i++)
        chars += ((unsigned char)word[i] & 0xc0) != 0x80;
    for (size_t at = 0; at < n && count >= 0;) {
        const cJSON *part = chars > 12 ? NULL : slow_part(word + at, !at);
        if (part)
            at += strlen(part->string) - 2 * !!at;
        want[part ? count : 0] = part ? part->valueint : wordpiece_unknown(wordpiece);
        count = part ? count + 1 : -1;
    }
    count = count < 0 ? 1 : count;
    Ids ids = {0};
    WANT(!wordpiece_encode(wordpiece, word, n, &ids));
    WANT(ids.n == (size_t)count && !memcmp(ids.id, want, ids.n * sizeof *want));
    free(ids.id);
}

static void slow_agrees(const char *text, size_t n)
{
    char part[64][64];
    size_t count = 0;
    if (!n || n > 60 || memchr(text, 0, n))
        return;
    for (size_t i = 0; i < n; i++, count++) {
        part[count][0] = text[i];
        part[count][1] = 0;
    }
    /* a merge may enable one of lower rank: start over */
    for (size_t r = 0; r < nmerges; r++)
        for (size_t i = 0; i + 1 < count; i++)
            if (!strcmp(part[i], left[r]) && !strcmp(part[i + 1], right[r])) {
                strcat(part[i], part[i + 1]);
                memmove(part + i + 1, part + i + 2, (count - i - 2) * sizeof *part);
                count--;
                r = (size_t)-1;
                break;
            }
    Ids ids = {0};
    WANT(!bpe_encode(model, text, n, &ids) && ids.n == count);
    for (size_t i = 0; i < count; i++) {
        size_t len;
        const char *bytes = bpe_bytes(model, ids.id[i], &len);
        WANT(bytes && len == strlen(part[i]) && !memcmp(bytes, part[i], len));
    }
    free(ids.id);
}

static void encode_text(const Tokenizer *t, bool lossless, const char *text, size_t n)
{
    int32_t *ids;
    size_t count, nback;
    char *error = tokenizer_encode(t, text, n, true, &ids, &count);
    /* a hostile file may have no token for what is unknown */
    WANT(error || utf8_check(text, n) == n);
    WANT(!error || utf8_check(text, n) < n || strstr(error, "which has no unknown token"));
    for (size_t i = 0; !error && i < count; i++)
        WANT(ids[i] >= 0 && ids[i] < tokenizer_size(t));
    if (!error) {
        char *back = tokenizer_decode(t, ids, count, false, &nback);
        WANT(utf8_check(back, nback) == nback);
        if (lossless)
            WANT(nback == n && !memcmp(back, text, n));
        free(back);
        size_t cut = tokenizer_cut(t, text, n), nhead, ntail;
        if (cut) {
            int32_t *whole, *head, *tail;
            WANT(!tokenizer_encode(t, text, n, false, &whole, &count));
            WANT(!tokenizer_encode(t, text, cut, false, &head, &nhead));
            WANT(!tokenizer_encode(t, text + cut, n - cut, false, &tail, &ntail));
            WANT(count == nhead + ntail && !memcmp(whole, head, nhead * 4) &&
                 !memcmp(whole + nhead, tail, ntail * 4));
            free(whole);
            free(head);
            free(tail);
        }
    }
    free(ids);
    free(error);
}

int LLVMFuzzerTestOneInput(const uint8_t *in, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *in, size_t size)
{
    if (!size)
        return 0;
    const char *text = (const char *)in + 1;
    if (*in == 0xff) {
        Tokenizer *t = NULL;
        char *error = tokenizer_parse(&t, text, size - 1, NULL, 0);
        WANT(!error == !!t);
        if (t) {
            encode_text(t, false, "The king's  é 2024\n\n<x>ab", 27);
            encode_text(t, false, text, size - 1);
        }
        tokenizer_free(t);
        free(error);
        return 0;
    }
    int k = *in % NAMES;
    encode_text(tokenizer[k], k == 0, text, size - 1);
    slow_agrees(text, size - 1);
    slow_parts_agree(text, size - 1);
    return 0;
}
