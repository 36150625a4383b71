/* main.c -- checks the tokenizer against recorded ids of Hugging Face tokenizers and against rules.
 *
 * In:    folders with tokenizer.json and expected.json (tests/oracle/tokenizer_ids.py).
 * Out:   one line a test; exit 1 if one failed. */
#define _GNU_SOURCE
#include "tests.h"
#include "../../runtime/base.h"
#include "../../runtime/files/json.h"
#include "../../runtime/data/tokenizer.h"
#include "../../runtime/data/words.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int failed;
static size_t cuts;             /* that were tried in the recorded texts */

void verdict(const char *name, const char *why)
{
    if (why)
        printf("not ok %s: %s\n", name, why);
    else
        printf("ok %s\n", name);
    failed |= why != NULL;
}

static char *from_hex(const cJSON *hex, size_t *n)
{
    const char *s = hex->valuestring;
    *n = strlen(s) / 2;
    char *out = malloc(*n + 1);
    for (size_t i = 0; i < *n; i++) {
        unsigned v = 0;
        sscanf(s + 2 * i, "%2x", &v);
        out[i] = (char)v;
    }
    out[*n] = 0;
    return out;
}

static char *ids_text(const int32_t *ids, size_t n)
{
    char *text = calloc(1, 12 * n + 8), *p = text;
    for (size_t i = 0; i < n && i < 60; i++)
        p += sprintf(p, "%d ", ids[i]);
    return text;
}

/* NULL, or how the ids of text differ from the recorded list. */
static char *differ(const Tokenizer *t, const char *text, size_t n, bool specials,
                    const cJSON *want)
{
    int32_t *ids;
    size_t count;
    char *error = tokenizer_encode(t, text, n, specials, &ids, &count);
    if (error)
        return error;
    size_t nwant = (size_t)cJSON_GetArraySize(want), k = 0;
    int32_t *list = calloc(nwant + 1, sizeof *list);
    for (const cJSON *i = want->child; i; i = i->next)
        list[k++] = i->valueint;
    if (count != nwant || memcmp(list, ids, count * sizeof *ids))
        error = format("want %s got %s", ids_text(list, nwant), ids_text(ids, count));
    free(list);
    free(ids);
    return error;
}

/* Encoding up to a cut and after it must give the ids of the whole, wherever the block ends. */
static char *cut_differs(const Tokenizer *t, const char *text, size_t n)
{
    int32_t *whole, *a, *b;
    size_t nw, na, nb, last = 0;
    char *why = NULL;
    tokenizer_encode(t, text, n, false, &whole, &nw);
    for (size_t k = 1; k <= n && !why; k++) {
        size_t cut = tokenizer_cut(t, text, k);
        if (!cut || cut == last)
            continue;
        last = cut;
        cuts++;
        tokenizer_encode(t, text, cut, false, &a, &na);
        tokenizer_encode(t, text + cut, n - cut, false, &b, &nb);
        if (nw != na + nb || memcmp(whole, a, na * sizeof *a) || memcmp(whole + na, b, nb * sizeof *b))
            why = format("cut at %zu of %zu changes the ids", cut, n);
        free(a);
        free(b);
    }
    free(whole);
    return why;
}

static char *check_case(const Tokenizer *t, const cJSON *c)
{
    size_t n, nwant, nback;
    char *text = from_hex(json_get(c, "text"), &n);
    const cJSON *ids = json_get(c, "ids"), *full = json_get(c, "special_ids");
    if (cJSON_IsNull(full))
        full = ids;
    char *error = differ(t, text, n, false, ids);
    if (!error)
        error = differ(t, text, n, true, full);
    if (!error)
        error = cut_differs(t, text, n);
    for (int skip = 0; skip < 2 && !error; skip++) {
        char *want = from_hex(json_get(c, skip ? "decoded_skip" : "decoded"), &nwant);
        int32_t *list;
        size_t count;
        tokenizer_encode(t, text, n, true, &list, &count);
        char *back = tokenizer_decode(t, list, count, skip, &nback);
        if (nback != nwant || memcmp(back, want, nwant))
            error = format("decode (skip %d): want \"%s\" got \"%s\"", skip, want, back);
        free(back);
        free(want);
        free(list);
    }
    free(text);
    return error;
}

typedef struct {
    const Tokenizer *t;
    const cJSON *cases;
    char *error;                 /* the first */
} Twin;

static void *check_twin(void *arg)
{
    Twin *w = arg;
    for (const cJSON *c = w->cases->child; c && !w->error; c = c->next) {
        size_t n;
        char *text = from_hex(json_get(c, "text"), &n);
        w->error = differ(w->t, text, n, false, json_get(c, "ids"));
        free(text);
    }
    return NULL;
}

static void check_folder(const char *folder)
{
    const char *name = strrchr(folder, '/') ? strrchr(folder, '/') + 1 : folder;
    char *path = format("%s/tokenizer.json", folder), *error = NULL;
    char *expected = format("%s/expected.json", folder);
    char *test = format("%s equals Hugging Face", name);
    size_t n, cases = 0, bad = 0;
    Tokenizer *t = NULL;
    error = tokenizer_load(&t, path);
    char *text = error ? NULL : file_read(expected, 1 << 28, &n, &error);
    cJSON *json = text ? json_parse(text, n, &error) : NULL;
    if (json) {
        Twin w = {tokenizer_twin(t), json_get(json, "cases"), NULL};
        pthread_t thread;
        pthread_create(&thread, NULL, check_twin, &w);
        for (const cJSON *c = w.cases->child; c; c = c->next, cases++) {
            char *why = check_case(t, c);
            bad += why != NULL;
            if (why && !error)
                error = format("case %zu (%s): %s", cases, json_get(c, "text")->valuestring, why);
        }
        if (!cases)
            error = format("no cases");
        pthread_join(thread, NULL);
        tokenizer_free((Tokenizer *)w.t);
        verdict(format("%s: a twin on another thread at the same time", name), w.error);
    }
    verdict(test, error);
    if (bad > 1)
        printf("# %zu of %zu cases differ\n", bad, cases);
}

/* Many small tokenizers, each with one part under test. */
static void check_parts(const char *path)
{
    size_t n;
    char *error, *text = file_read(path, 1 << 28, &n, &error);
    cJSON *json = text ? json_parse(text, n, &error) : NULL;
    const cJSON *part = json ? json_get(json, "parts")->child : NULL;
    if (!part)
        verdict("parts equal Hugging Face", error ? error : "no parts");
    for (; part; part = part->next) {
        char *file = cJSON_PrintUnformatted(json_get(part, "tokenizer"));
        Tokenizer *t = NULL;
        error = tokenizer_parse(&t, file, strlen(file), NULL, 0);
        for (const cJSON *c = json_get(part, "cases")->child; c && !error; c = c->next) {
            char *why = check_case(t, c);
            if (why)
                error = format("%s: %s", json_get(c, "text")->valuestring, why);
        }
        verdict(format("%s equals Hugging Face", json_get(part, "name")->valuestring), error);
        tokenizer_free(t);
        free(file);
    }
}

static void file_put(const char *folder, const char *name, const cJSON *json)
{
    char *path = format("%s/%s", folder, name), *text = cJSON_PrintUnformatted(json);
    FILE *to = fopen(path, "w");
    if (!to || fputs(text, to) < 0 || fclose(to))
        die(EXIT_IO, "%s: cannot be written", path);
    free(path), free(text);
}

/* Files next to tokenizer.json, removed by the names that one row has. */
static void files_remove(const char *folder, const cJSON *files)
{
    for (const cJSON *f = files->child; f; f = f->next) {
        char *path = format("%s/%s", folder, f->string);
        unlink(path);
        free(path);
    }
}

/* A tokenizer with the files of each row next to it. */
static void check_companions(const char *path, const char *folder)
{
    size_t n;
    char *error, *text = file_read(path, 1 << 28, &n, &error), *plain = NULL;
    cJSON *json = text ? json_parse(text, n, &error) : NULL;
    const cJSON *row = json ? json_get(json, "companions")->child : NULL;
    char *file = format("%s/tokenizer.json", folder);
    if (!row)
        verdict("files next to the tokenizer equal transformers", error ? error : "no rows");
    else
        file_put(folder, "tokenizer.json", json_get(json, "tokenizer"));
    for (; row; row = row->next) {
        const cJSON *files = json_get(row, "files"), *eos = json_get(row, "eos"), *pad = json_get(row, "pad");
        for (const cJSON *f = files->child; f; f = f->next)
            file_put(folder, f->string, f);
        Tokenizer *t = NULL;
        char *id = NULL;
        error = tokenizer_load(&t, file);
        for (const cJSON *c = json_get(row, "cases")->child; c && !error; c = c->next) {
            char *why = check_case(t, c);
            if (why)
                error = format("%s: %s", json_get(c, "text")->valuestring, why);
        }
        if (!error && (tokenizer_size(t) != json_get(row, "size")->valueint ||
                       tokenizer_eos(t) != (cJSON_IsNumber(eos) ? eos->valueint : -1) ||
                       tokenizer_pad(t) != (cJSON_IsNumber(pad) ? pad->valueint : -1)))
            error = format("size %d, eos %d, pad %d", tokenizer_size(t), tokenizer_eos(t), tokenizer_pad(t));
        if (!error && !(error = tokenizer_file_id(file, &id)) && strcmp(id, tokenizer_id(t)))
            error = format("id %s of the file, %s loaded", id, tokenizer_id(t));
        if (!plain && t)
            plain = strdup(tokenizer_id(t));
        /* records made before keep their tokenizer where no token is another */
        const char *name = json_get(row, "name")->valuestring;
        bool same = !error && tokenizer_size(t) == 300 && !strstr(name, " says what ") &&
                    !strstr(name, " of the vocabulary");
        if (!error && same != !strcmp(plain, tokenizer_id(t)))
            error = format("id %s", tokenizer_id(t));
        verdict(format("%s next to the tokenizer: equals transformers", name), error);
        files_remove(folder, files);
        tokenizer_free(t);
    }
}

/* NULL, or why text is not what the file holds. */
static char *file_differs(const char *path, const char *text)
{
    size_t n, i = 0;
    char *error, *want = file_read(path, 1 << 28, &n, &error);
    while (want && want[i] && want[i] == text[i])
        i++;
    return !want ? error : want[i] == text[i] ? NULL : format("%s: byte %zu differs", path, i);
}

/* A vocabulary counted from lines, of at most `most` words; NULL or what went wrong. */
static char *counted(const char *text, size_t n, int64_t most, char **plain, char **twin)
{
    Words *w = NULL;
    char *error = words_begin(&w);
    for (const char *p = text, *lf; p < text + n && !error; p = lf + 1) {
        lf = memchr(p, '\n', (size_t)(text + n - p));
        lf = lf ? lf : text + n;
        int32_t *ids;
        size_t nids;
        error = tokenizer_encode(words_counter(w), p, (size_t)(lf - p), false, &ids, &nids);
    }
    if (!error)
        words_vocabulary(w, most, plain, twin);
    words_free(w);
    return error;
}

static void check_words(void)
{
    size_t n, ntwin;
    char *error, *text = file_read("tests/tokenizer/plain/corpus.txt", 1 << 28, &n, &error);
    char *plain = NULL, *twin = NULL, *file, *whole = NULL;
    error = text ? counted(text, n, 200, &plain, &twin) : error;
    if (!error)
        error = file_differs("tests/tokenizer/plain/tokenizer.json", plain);
    verdict("words are counted as Python counts them", error);
    error = plain ? file_differs("tests/tokenizer/twin/tokenizer.json", twin) : error;
    verdict("their twin is what Hugging Face writes", error);
    Tokenizer *t = NULL;
    file = file_read("tests/tokenizer/plain/expected.json", 1 << 28, &ntwin, &error);
    cJSON *json = file ? json_parse(file, ntwin, &error) : NULL;
    if (json && twin)
        error = tokenizer_parse(&t, twin, strlen(twin), NULL, 0);
    for (const cJSON *c = json ? json_get(json, "cases")->child : NULL; c && !error; c = c->next)
        error = check_case(t, c);
    verdict("the twin gives the same ids", error);
    if (!error && (tokenizer_pad(t) != 0 || tokenizer_mask(t) != 4 || !tokenizer_special(t, 1) ||
                   !tokenizer_special(t, 2) || tokenizer_special(t, 3) || tokenizer_special(t, 5)))
        error = "others";
    verdict("words: [PAD], [CLS], [SEP] and [MASK] are special", error);
    tokenizer_free(t);
    static const char few[] = "b A\na B\xc3\xa9 c\tb";
    error = counted(few, sizeof few - 1, 10000, &plain, &whole);
    verdict("a small text has few words", error ? error : strcmp(plain,
            "{\n  \"[PAD]\": 0,\n  \"[CLS]\": 1,\n  \"[SEP]\": 2,\n  \"[UNK]\": 3,\n  "
            "\"[MASK]\": 4,\n  \"b\": 5,\n  \"a\": 6,\n  \"b\\u00e9\": 7,\n  \"c\": 8\n}\n")
            ? plain : NULL);
    error = counted("a\xff", 2, 10000, &plain, &whole);
    verdict("words: bad UTF-8 names its offset",
            error && !strcmp(error, "byte 1: not UTF-8") ? NULL : "other message");
}

/* ---- the split vectors: every expected piece is a token of its own, taken whole -------------- */

static const char *const alphabet_of[] = {[' '] = "\u0120", ['\n'] = "\u010a", ['\r'] = "\u010d",
                                          ['\t'] = "\u0109"};

static void check_split(const char *name, const char *pre_tokenizer, const char *const *pieces)
{
    static const char text[] = "Hello  world's IT'S 2024\n\n x  = 3;\r\n\t foo   ";
    char *vocab = format("{"), *want = strdup(""), *got = strdup("");
    const char *seen[64];
    int nseen = 0, order[64], n = 0;
    for (; pieces[n]; n++) {
        int k = 0;
        while (k < nseen && strcmp(seen[k], pieces[n]))
            k++;
        order[n] = k;
        if (k < nseen)
            continue;
        seen[nseen++] = pieces[n];
        char *out = strdup("");
        for (const char *p = pieces[n]; *p; p++)
            out = (unsigned char)*p < sizeof alphabet_of / sizeof *alphabet_of &&
                alphabet_of[(int)*p]
                ? format("%s%s", out, alphabet_of[(int)*p]) : format("%s%c", out, *p);
        vocab = format("%s%s\"%s\":%d", vocab, k ? "," : "", out, k);
    }
    char *json = format("{\"pre_tokenizer\":%s,\"model\":{\"type\":\"BPE\",\"ignore_merges\":true,"
                        "\"vocab\":%s},\"merges\":[]}}", pre_tokenizer, vocab);
    Tokenizer *t = NULL;
    int32_t *ids;
    size_t count = 0;
    char *error = tokenizer_parse(&t, json, strlen(json), NULL, 0);
    if (!error)
        error = tokenizer_encode(t, text, sizeof text - 1, false, &ids, &count);
    for (int i = 0; i < n; i++)
        want = format("%s%d ", want, order[i]);
    for (size_t i = 0; i < count; i++)
        got = format("%s%d ", got, ids[i]);
    if (!error && strcmp(want, got))
        error = format("want pieces %s got %s", want, got);
    verdict(format("split vector of %s", name), error);
    tokenizer_free(t);
}

#define SEQUENCE(number)                                                                          \
    "{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":{\"Regex\":"        \
    "\"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{N}]?\\\\p{L}+|\\\\p{N}" number       \
    "| ?[^\\\\s\\\\p{L}\\\\p{N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+\"},"     \
    "\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\",\"use_regex\":false}]}"

static void check_splits(void)
{
    static const char *const gpt2[] = {"Hello", " ", " world", "'s", " IT", "'", "S", " 2024",
                                       "\n\n", " x",
        " ", " =", " 3", ";", "\r\n\t", " foo", "   ", NULL};
    static const char *const qwen2[] = {"Hello", " ", " world", "'s", " IT", "'S", " ", "2", "0",
                                        "2", "4",
        "\n\n", " x", " ", " =", " ", "3", ";\r\n", "\t", " foo", "   ", NULL};
    static const char *const llama3[] = {"Hello", " ", " world", "'s", " IT", "'S", " ", "202", "4",
                                         "\n\n",
        " x", " ", " =", " ", "3", ";\r\n", "\t", " foo", "   ", NULL};
    check_split("GPT-2", "{\"type\":\"ByteLevel\"}", gpt2);
    check_split("Qwen2", SEQUENCE(""), qwen2);
    check_split("Llama-3", SEQUENCE("{1,3}"), llama3);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        check_folder(argv[i]);
    check_parts("tests/tokenizer/parts.json");
    check_companions("tests/tokenizer/companions.json", "out/.test/tokenizer/companions");
    verdict("texts are cut where tokenisation cannot notice", cuts > 50 ? NULL : "hardly any cut");
    check_words();
    check_splits();
    check_refusals();
    check_rules();
    return failed;
}
