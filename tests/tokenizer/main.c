/* main.c -- checks the tokenizer against recorded ids of Hugging Face tokenizers and against rules.
 *
 * In:    folders with tokenizer.json and expected.json (tests/oracle/tokenizer_ids.py).
 * Out:   one line a test; exit 1 if one failed. */
#define _GNU_SOURCE
#include "../../runtime/base.h"
#include "../../runtime/files/json.h"
#include "../../runtime/data/tokenizer.h"
#include "../../runtime/data/words.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int failed;
static size_t cuts;             /* that were tried in the recorded texts */

static void verdict(const char *name, const char *why)
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
static void check_beside(const char *path, const char *folder)
{
    size_t n;
    char *error, *text = file_read(path, 1 << 28, &n, &error), *plain = NULL;
    cJSON *json = text ? json_parse(text, n, &error) : NULL;
    const cJSON *row = json ? json_get(json, "beside")->child : NULL;
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

/* ---- files that must be refused, and why ----------------------------------------------------- */

#define FILE_OF(model, rest) \
    "{\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"model\":{" model "}" rest "}"
#define AB "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]"

#define BPE(model, rest) "{\"model\":{" model "}" rest "}"
#define UNIGRAM(vocab, rest) "{\"model\":{\"type\":\"Unigram\",\"vocab\":" vocab "}" rest "}"
#define META ",\"pre_tokenizer\":{\"type\":\"Metaspace\",\"replacement\":\"_\""
#define REPLACE(pattern) \
    BPE(AB, ",\"normalizer\":{\"type\":\"Replace\",\"content\":\"b\",\"pattern\":" pattern "}")
#define UNK(token) "\"unk_token\":\"" token "\""
#define WORDS(model, rest) "{\"model\":{\"type\":\"WordLevel\"," model "}" rest "}"

static const struct {
    const char *name, *json, *why;
} refused[] = {
    {"empty vocabulary", FILE_OF("\"vocab\":{},\"merges\":[]", ""),
     "model.vocab: must be a non-empty object of token: id"},
    {"negative id", FILE_OF("\"vocab\":{\"a\":-1},\"merges\":[]", ""),
     "model.vocab: a: must be an id from 0 to 2^31-2"},
    {"id of 2^31", FILE_OF("\"vocab\":{\"a\":2147483648},\"merges\":[]", ""),
     "model.vocab: a: must be an id from 0 to 2^31-2"},
    {"fraction as id", FILE_OF("\"vocab\":{\"a\":1.0},\"merges\":[]", ""),
     "model.vocab: a: must be an id from 0 to 2^31-2"},
    {"id twice", FILE_OF("\"vocab\":{\"a\":1,\"b\":1},\"merges\":[]", ""),
     "model.vocab: id 1 belongs to two tokens"},
    {"token twice", FILE_OF("\"vocab\":{\"a\":1,\"\\u0061\":2},\"merges\":[]", ""),
     "key given twice"},
    {"merge of absent token", FILE_OF("\"vocab\":{\"a\":0},\"merges\":[\"a b\"]", ""),
     "model.merges[0]: the right token is not in the vocabulary"},
    {"merge with absent result",
     FILE_OF("\"vocab\":{\"a\":0,\"b\":1},\"merges\":[[\"a\",\"b\"]]", ""),
     "model.merges[0]: the result is not in the vocabulary"},
    {"merge of three", FILE_OF("\"vocab\":{\"a\":0},\"merges\":[\"a b c\"]", ""),
     "model.merges[0]: must be two tokens"},
    {"merges missing", FILE_OF("\"type\":\"BPE\",\"vocab\":{\"a\":0}", ""), "model.merges: must be a list"},
    {"no type, no keys", FILE_OF("\"vocab\":{\"a\":0}", ""), "its keys match none of BPE"},
    {"no type, no list", FILE_OF("\"vocab\":{\"a\":0},\"merges\":null", ""), "model: has no type, and its keys"},
    {"a type that is null", FILE_OF(AB ",\"type\":null", ""),
     "model.type: must be BPE, Unigram, WordPiece or WordLevel, got null"},
    {"Digits without its word", BPE(AB, ",\"pre_tokenizer\":{\"type\":\"Digits\"}"),
     "pre_tokenizer: Digits: individual_digits: must be true or false"},
    {"dropout", FILE_OF(AB ",\"dropout\":0.1", ""),
     "model.dropout: ids would differ from one run to the next; set it to null"},
    {"byte_fallback", FILE_OF(AB ",\"byte_fallback\":true", ""),
     "model.byte_fallback: not supported for byte-level BPE"},
    {"prefix", FILE_OF(AB ",\"continuing_subword_prefix\":\"##\"", ""),
     "model.continuing_subword_prefix: not supported for BPE"},
    {"suffix", BPE(AB ",\"end_of_word_suffix\":\"</w>\"", ""),
     "model.end_of_word_suffix: not supported for BPE"},
    {"another model", FILE_OF(AB ",\"type\":\"Other\"", ""),
     "model.type: must be BPE, Unigram, WordPiece or WordLevel, got Other"},
    {"Unigram with a vocabulary of BPE", FILE_OF(AB ",\"type\":\"Unigram\"", ""),
     "model.vocab: must be a non-empty list of [token, score]"},
    {"Unigram without a score", UNIGRAM("[[\"a\",-1],[\"b\"]]", ""),
     "model.vocab[1]: must be [token, score]"},
    {"Unigram: token twice", UNIGRAM("[[\"a\",-1],[\"b\",-1],[\"a\",-2]]", ""),
     "model.vocab[0]: a given twice"},
    {"Unigram: empty token", UNIGRAM("[[\"a\",-1],[\"\",-1]]", ""), "model.vocab: id 1: empty token"},
    {"Unigram: unknown beyond", UNIGRAM("[[\"a\",-1]],\"unk_id\":1", ""),
     "model.unk_id: must be an id below 1"},
    {"Unigram at random", UNIGRAM("[[\"a\",-1]],\"alpha\":0.1", ""),
     "model.alpha: ids would differ from one run to the next"},
    {"Unigram after ByteLevel",
     UNIGRAM("[[\"a\",-1]]", ",\"pre_tokenizer\":{\"type\":\"ByteLevel\"}"),
     "pre_tokenizer: ByteLevel goes with model BPE"},
    {"bytes before a split",
     "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"ByteLevel\",\"use_regex"
     "\":false},{\"type\":\"Whitespace\"}]},\"model\":{" AB "}}",
     "pre_tokenizer: Whitespace after ByteLevel, which must be the last"},
    {"words without unknown", WORDS("\"vocab\":{\"a\":0}", ""), "model.unk_token: must be the token of"},
    {"words' absent unknown", WORDS(UNK("?") ",\"vocab\":{\"a\":0}", ""),
     "model.unk_token: ? is not in the vocabulary"},
    {"words: id twice", WORDS(UNK("a") ",\"vocab\":{\"a\":1,\"b\":1}", ""),
     "model.vocab: id 1 belongs to two tokens"},
    {"words: huge id", WORDS(UNK("a") ",\"vocab\":{\"a\":4294967296}", ""),
     "model.vocab: a: must be an id from 0 to 2^31-2"},
    {"words: empty token", WORDS(UNK("a") ",\"vocab\":{\"a\":0,\"\":7}", ""),
     "model.vocab: id 7: empty token"},
    {"words: no vocabulary", WORDS(UNK("a"), ""), "model.vocab: must be a non-empty object of token: id"},
    {"parts without prefix",
     "{\"model\":{\"type\":\"WordPiece\"," UNK("a") ",\"vocab\":{\"a\":0}}}",
     "model.continuing_subword_prefix: must be a text"},
    {"parts without a longest word",
     "{\"model\":{\"type\":\"WordPiece\"," UNK("a") ",\"vocab\":{\"a\":0},"
     "\"continuing_subword_prefix\":\"##\"}}", "model.max_input_chars_per_word: must be an integer"},
    {"words after ByteLevel",
     WORDS(UNK("a") ",\"vocab\":{\"a\":0}", ",\"pre_tokenizer\":{\"type\":\"ByteLevel\"}"),
     "pre_tokenizer: ByteLevel goes with model BPE"},
    {"words' decoder",
     WORDS(UNK("a") ",\"vocab\":{\"a\":0}", ",\"decoder\":{\"type\":\"ByteLevel\"}"),
     "decoder: must be WordPiece, Fuse, ByteFallback, Replace, Strip, Metaspace or a Sequence of them, "
     "got ByteLevel"},
    {"a token that normalises to nothing",
     WORDS(UNK("a") ",\"vocab\":{\"a\":0}", ",\"normalizer\":{\"type\":\"StripAccents\"},"
           "\"added_tokens\":[{\"id\":1,\"content\":\"\\u0301\",\"normalized\":true}]"),
     "is empty when normalised"},
    {"an empty Split",
     WORDS(UNK("a") ",\"vocab\":{\"a\":0}", ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":"
           "{\"String\":\"\"},\"behavior\":\"Isolated\",\"invert\":false}"),
     "pre_tokenizer: Split: the pattern must be a Regex or a String, not empty"},
    {"an unknown behavior",
     WORDS(UNK("a") ",\"vocab\":{\"a\":0}", ",\"pre_tokenizer\":{\"type\":\"Punctuation\","
           "\"behavior\":\"isolated\"}"), "pre_tokenizer: behavior: must be Isolated, Removed"},
    {"BertNormalizer without a field",
     WORDS(UNK("a") ",\"vocab\":{\"a\":0}", ",\"normalizer\":{\"type\":\"BertNormalizer\"}"),
     "normalizer: BertNormalizer: clean_text: must be true or false"},
    {"absent unknown token", FILE_OF(AB ",\"unk_token\":\"?\"", ""),
     "model.unk_token: ? is not in the vocabulary"},
    {"added token under another id",
     FILE_OF(AB, ",\"added_tokens\":[{\"id\":7,\"content\":\"ab\"}]"),
         "added_tokens: ab: id 7, but the vocabulary gives it"},
    {"added token on a taken id", FILE_OF(AB, ",\"added_tokens\":[{\"id\":1,\"content\":\"x\"}]"),
     "added_tokens: x: id 1, but Hugging Face tokenizers numbers added tokens consecutively after the vocabulary (3 "
     "tokens) and gives it 3: change the id"},
    {"added token where the vocabulary has a gap",
     FILE_OF("\"vocab\":{\"a\":0,\"b\":2},\"merges\":[]", ",\"added_tokens\":[{\"id\":2,\"content\":\"x\"}]"),
     "added_tokens: x: id 2 is another token in the vocabulary"},
    {"added token after a gap", FILE_OF(AB, ",\"added_tokens\":[{\"id\":70000,\"content\":\"x\"}]"),
     "added_tokens: x: id 70000, but Hugging Face tokenizers numbers"},
    {"added id twice", FILE_OF(AB,
                               ",\"added_tokens\":[{\"id\":3,\"content\":\"x\"},{\"id\":3,\"content"
                               "\":\"y\"}]"), "added_tokens: y: id 3, but Hugging Face tokenizers numbers"},
    {"added token twice", FILE_OF(AB,
                               ",\"added_tokens\":[{\"id\":3,\"content\":\"x\"},{\"id\":4,\"content"
                               "\":\"x\"}]"), "added_tokens: x given twice"},
    {"empty added token", FILE_OF(AB, ",\"added_tokens\":[{\"id\":7,\"content\":\"\"}]"),
     "added_tokens[0]: needs an id from 0 to 2^31-2 and a content that is not empty"},
    {"unknown normalizer", FILE_OF(AB, ",\"normalizer\":{\"type\":\"Nmt\"}"),
     "BertNormalizer or a Sequence of them, got Nmt"},
    {"unknown normalizer in a Sequence",
     FILE_OF(AB, ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},"
                 "{\"type\":\"ByteLevel\"}]}"),
     "BertNormalizer or a Sequence of them, got ByteLevel"},
    {"Sequence of nothing", FILE_OF(AB, ",\"normalizer\":{\"type\":\"Sequence\"}"),
     "normalizer: Sequence: normalizers must be a list"},
    {"Prepend without a text", FILE_OF(AB, ",\"normalizer\":{\"type\":\"Prepend\"}"),
     "normalizer: Prepend: prepend must be a text"},
    {"Strip without sides", FILE_OF(AB, ",\"normalizer\":{\"type\":\"Strip\"}"),
     "normalizer: Strip: strip_left and strip_right must be"},
    {"a map of nothing",
     FILE_OF(AB, ",\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA\"}"),
     "precompiled_charsmap: must be base64"},
    {"a map that is none",
     FILE_OF(AB, ",\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"!\"}"),
     "precompiled_charsmap: must be base64"},
    {"bytes' decoder", FILE_OF(AB, ",\"decoder\":{\"type\":\"Metaspace\"}"),
     "decoder: must be ByteLevel, like the pre_tokenizer, got Metaspace"},
    {"unknown decoder", BPE(AB, ",\"decoder\":{\"type\":\"CTC\"}"),
     "Strip, Metaspace or a Sequence of them, got CTC"},
    {"Strip of two characters",
     BPE(AB, ",\"decoder\":{\"type\":\"Strip\",\"content\":\"ab\",\"start\":1,\"stop\":0}"),
     "decoder: Strip: needs a content of one character"},
    {"unknown post-processor", FILE_OF(AB, ",\"post_processor\":{\"type\":\"Roberta\"}"),
     "post_processor: must be ByteLevel, TemplateProcessing, BertProcessing or a Sequence of them, "
     "got Roberta"},
    {"template beyond the vocabulary",
     FILE_OF(AB,
             ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{"
             "\"id\":\"s\"}},{\"Sequence\":{\"id\":\"A\"}}],\"special_tokens\":{\"s\":{\"ids\":[99]"
             "}}}"), "post_processor: adds an id beyond the vocabulary"},
    {"unknown pattern",
     "{\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\",\"pattern\":"
     "{\"Regex\":\"(a+)+b\"},\"behavior\":\"Isolated\",\"invert\":false},{\"type\":\"ByteLevel\",\""
     "use_regex\":false}]},\"model\":{" AB "}}", "pre_tokenizer: unknown split pattern (a+)+b"},
    {"unknown pre-tokeniser", BPE(AB, ",\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}"),
     "BertPreTokenizer, Punctuation or a Sequence of them, got UnicodeScripts"},
    {"Metaspace without a mark", BPE(AB, ",\"pre_tokenizer\":{\"type\":\"Metaspace\"}"),
     "pre_tokenizer: Metaspace: the replacement must be one character"},
    {"Metaspace of another scheme", BPE(AB, META ",\"prepend_scheme\":\"last\"}"),
     "prepend_scheme: must be always, first or never, got last"},
    {"Metaspace that contradicts itself",
     BPE(AB, META ",\"prepend_scheme\":\"first\",\"add_prefix_space\":false}"),
     "add_prefix_space is false, prepend_scheme is first"},
    {"no model", "{}", "model: must be an object"},
    {"words without [SEP]", "{\"[UNK]\":0,\"[CLS]\":1,\"a\":2}",
     "a plain vocabulary, \"token\": id, without an id for [SEP]"},
    {"words with a text as id", "{\"[UNK]\":0,\"[CLS]\":1,\"[SEP]\":2,\"a\":\"b\"}",
     "model.vocab: a: must be an id"},
    {"plain words: id twice", "{\"[UNK]\":0,\"[CLS]\":1,\"[SEP]\":2,\"a\":2}",
     "model.vocab: id 2 belongs to two tokens"},
    {"a Replace of nothing", REPLACE("{\"String\":\"\"}"),
     "normalizer: Replace: needs a content, and a pattern"},
    {"a Replace that finds nothing anywhere", REPLACE("{\"Regex\":\"a*\"}"),
     "normalizer: Replace: pattern a*: must be a String, or a Regex of characters"},
    {"a Replace by groups", REPLACE("{\"Regex\":\"(a)\"}"), "normalizer: Replace: pattern (a): must be"},
    {"a Replace that looks back", REPLACE("{\"Regex\":\"\\\\Ka\"}"), "normalizer: Replace: pattern \\Ka"},
    {"a Replace that repeats twice", REPLACE("{\"Regex\":\"a+?\"}"), "normalizer: Replace: pattern a+?"},
    {"a Replace by a range", REPLACE("{\"Regex\":\"[a-z]\"}"), "normalizer: Replace: pattern [a-z]"},
    {"no JSON", "{", "expected a key in quotes"},
};

static void check_refused(void)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        Tokenizer *t = NULL;
        char *error = tokenizer_parse(&t, refused[i].json, strlen(refused[i].json), NULL, 0);
        const char *why = !error ? "accepted" : strstr(error, refused[i].why) ? NULL : error;
        verdict(format("refuses: %s", refused[i].name), why);
        free(error);
        tokenizer_free(t);
    }
    Tokenizer *t = NULL;
    static const char plain[] = FILE_OF(AB, "");
    char *error = tokenizer_parse(&t, plain, sizeof plain - 1, NULL, 0);
    int32_t *ids;
    size_t n;
    if (!error)
        error = tokenizer_encode(t, "aab\xff", 4, false, &ids, &n);
    verdict("bad UTF-8 names its offset", error && !strcmp(error, "byte 3: not UTF-8")
            ? NULL : "other message");
    tokenizer_free(t);
}

/* Files next to a tokenizer that contradict it. */
static void check_beside_refused(void)
{
    static const char json[] = BPE(AB, ",\"added_tokens\":[{\"id\":3,\"content\":\"<e>\"}]");
    static const struct {
        const char *config, *why;
    } rows[] = {
        {"{\"added_tokens_decoder\":{\"9\":{\"content\":\"<x>\"}}}",
         "tokenizer_config.json: <x>: id 9, but Hugging Face tokenizers numbers added tokens consecutively after "
         "the vocabulary (3 tokens) and gives it 4"},
        {"{\"added_tokens_decoder\":{\"4\":{\"content\":\"<e>\"}}}",
         "<e>: id 4, but added_tokens in tokenizer.json gives it 3"},
        {"{\"added_tokens_decoder\":{\"4\":{\"content\":\"ab\"}}}", "ab: id 4, but the vocabulary gives it 2"},
        {"{\"added_tokens_decoder\":{\"x\":{\"content\":\"<x>\"}}}", "added_tokens_decoder: x: must be an id from 0"},
        {"{\"added_tokens_decoder\":{\"4\":{}}}", "added_tokens_decoder: 4: must be a text, or an object"},
        {"{\"added_tokens_decoder\":[]}", "added_tokens_decoder: must be an object of id: token"},
        {"{\"extra_special_tokens\":\"<x>\"}", "extra_special_tokens: must be a list of tokens, or an object"},
        {"{\"extra_special_tokens\":[3]}", "extra_special_tokens: must be a text, or an object"},
        {"{\"split_special_tokens\":true}", "split_special_tokens is true"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Tokenizer *t = NULL;
        char *error = tokenizer_parse(&t, json, sizeof json - 1, rows[i].config, strlen(rows[i].config));
        const char *why = !error ? "accepted" : strstr(error, rows[i].why) ? NULL : error;
        verdict(format("refuses next to it: %s", rows[i].config), why);
        free(error);
        tokenizer_free(t);
    }
}

/* A space before texts: classes of transformers that obey tokenizer_config.json, and those that do not. */
static void check_beside_prefix(void)
{
    static const char json[] = "{\"added_tokens\":[],\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":["
        "{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true,\"use_regex\":true}]},"
        "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"\u0120\":1},\"merges\":[]}}";
    static const struct {
        const char *class, *said;
        bool refused;
    } rows[] = {
        {"GPT2Tokenizer", "", true}, {"GPT2TokenizerFast", ",\"add_prefix_space\":false", true},
        {"GPT2Tokenizer", ",\"add_prefix_space\":true", false}, {"Qwen2Tokenizer", ",\"add_prefix_space\":false", true},
        {"Qwen2Tokenizer", "", false}, {"PreTrainedTokenizerFast", ",\"add_prefix_space\":false", false},
        {"GPT2TokenizerOfMine", "", false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        Tokenizer *t = NULL;
        char *config = format("{\"tokenizer_class\":\"%s\"%s}", rows[i].class, rows[i].said);
        char *error = tokenizer_parse(&t, json, sizeof json - 1, config, strlen(config));
        const bool stopped = error && strstr(error, "add_prefix_space is false for ");
        verdict(format("a space before texts: %s%s", rows[i].class, rows[i].said),
                stopped == rows[i].refused && stopped == !t ? NULL : error ? error : "accepted");
        free(error), free(config);
        tokenizer_free(t);
    }
}

/* Ids of mask, padding and special tokens. */
static void check_specials(void)
{
    static const char plain[] = FILE_OF(AB, ""), marked[] = FILE_OF(AB ",\"unk_token\":\"b\"",
        ",\"added_tokens\":[{\"id\":3,\"content\":\"[MASK]\"},{\"id\":4,\"content\":\"[PAD]\"},"
        "{\"id\":5,\"content\":\"<s>\",\"special\":true},{\"id\":6,\"content\":\"x\"},"
        "{\"id\":1,\"content\":\"b\",\"special\":true}],\"post_processor\":{\"type\":"
        "\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"q\"}},{\"Sequence\":{\"id\":"
        "\"A\"}}],\"special_tokens\":{\"q\":{\"ids\":[2]}}}");
    static const struct {
        const char *name, *json, *config;
        int mask, pad;
        const char *special;     /* a letter an id: s special, . not */
    } cases[] = {
        {"none", plain, NULL, -1, -1, "..."},
        {"by their usual names", marked, NULL, 3, 4, "..ssss."},
        {"named", marked, "{\"mask_token\":{\"content\":\"x\"},\"pad_token\":\"a\"}", 6, 0, "s.s..ss"},
        {"null", marked, "{\"mask_token\":null,\"eos_token\":\"x\"}", 3, 4, "..sssss"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Tokenizer *t = NULL;
        const char *config = cases[i].config;
        char *why = tokenizer_parse(&t, cases[i].json, strlen(cases[i].json), config,
                                    config ? strlen(config) : 0);
        if (!why && (tokenizer_mask(t) != cases[i].mask || tokenizer_pad(t) != cases[i].pad))
            why = format("mask %d, pad %d", tokenizer_mask(t), tokenizer_pad(t));
        for (int id = 0; !why && cases[i].special[id]; id++)
            if (tokenizer_special(t, id) != (cases[i].special[id] == 's'))
                why = format("id %d", id);
        if (!why && (tokenizer_special(t, -1) || tokenizer_special(t, 7)))
            why = "ids beyond";
        verdict(format("special tokens: %s", cases[i].name), why);
        tokenizer_free(t);
    }
}

/* An end of text that normalisation changes is not found after a text: its id has to be put there. */
static void check_normalized_end(void)
{
    static const char json[] = BPE(AB, ",\"normalizer\":{\"type\":\"Prepend\",\"prepend\":\"b\"},"
        "\"added_tokens\":[{\"id\":3,\"content\":\"e\",\"normalized\":true,\"special\":true}]");
    static const char config[] = "{\"eos_token\":\"e\"}";
    Tokenizer *t = NULL;
    char *why = tokenizer_parse(&t, json, sizeof json - 1, config, sizeof config - 1);
    if (!why && (tokenizer_eos(t) != 3 || tokenizer_eos_text(t)))
        why = "has a text";
    verdict("an end of text that normalisation changes has no text", why);
    tokenizer_free(t);
}

/* Added tokens one after the other that take the space around them; as Hugging Face tokenizers 0.23 has them, but for
 * the last, where a token ends inside the space that the one before took: it panics. */
static void check_space(void)
{
    static const struct {
        const char *takes, *text;
        size_t n;
        int32_t want[3];
    } cases[] = {
        {"\"lstrip\":true,\"rstrip\":true}", "\n\n\n\n\n", 1, {3}},
        {"\"rstrip\":true}", "\n\n\n\n\n", 2, {3, 3}},
        {"\"lstrip\":true}", "\n\n\n\n\n", 3, {3, 3, 1}},
        {"\"lstrip\":true},{\"id\":4,\"content\":\"a\\n\",\"rstrip\":true}", "a\n\n\n\n", 1, {4}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *json = format("{\"model\":{\"vocab\":{\"a\":0,\"\\n\":1,\" \":2},\"merges\":[]},\"added_tokens\":"
                            "[{\"id\":3,\"content\":\"\\n\\n\",%s]}", cases[i].takes);
        Tokenizer *t = NULL;
        int32_t *ids = NULL;
        size_t n = 0;
        char *why = tokenizer_parse(&t, json, strlen(json), NULL, 0);
        if (!why)
            why = tokenizer_encode(t, cases[i].text, strlen(cases[i].text), false, &ids, &n);
        if (!why && (n != cases[i].n || memcmp(ids, cases[i].want, n * sizeof *ids)))
            why = format("%zu ids", n);
        verdict(format("ends of line, two an added token: %s", cases[i].takes), why);
        free(ids);
        free(json);
        tokenizer_free(t);
    }
}

static void check_bytes(void)
{
    Tokenizer *t = NULL;
    char text[256], *why = tokenizer_load(&t, "bytes");
    int32_t *ids, end = 256;
    size_t n, nback;
    for (int i = 0; i < 256; i++)
        text[i] = (char)i;
    if (!why)
        why = tokenizer_encode(t, text, 256, true, &ids, &n);
    for (int i = 0; !why && i < 256; i++)
        if (n != 256 || ids[i] != i)
            why = format("byte %d", i);
    if (!why) {
        char *back = tokenizer_decode(t, ids, n, false, &nback);
        why = nback == 256 && !memcmp(back, text, 256) ? NULL : "decode";
    }
    verdict("byte vocabulary: every byte and back", why);
    char *back = tokenizer_decode(t, &end, 1, false, &nback);
    verdict("byte vocabulary: end of text", !strcmp(back, "<|endoftext|>") &&
            tokenizer_size(t) == 257 &&
            tokenizer_eos(t) == 256 && !strcmp(tokenizer_id(t), "bytes") ? NULL : "differs");
    tokenizer_free(t);
}

/* The file of the byte vocabulary, read as any other, gives the ids that the vocabulary gives. */
static void check_bytes_file(void)
{
    static const char text[] =
        "\t\n \x01\x7f~ a\xc2\x80\xc3\xa9\xc3\xbf\xd0\x96\xe4\xb8\xad\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf";
    char *file = tokenizer_bytes_file(), *why;
    Tokenizer *t = NULL;
    int32_t *ids;
    size_t n = 0;
    why = tokenizer_parse(&t, file, strlen(file), NULL, 0);
    if (!why)
        why = tokenizer_encode(t, text, sizeof text - 1, true, &ids, &n);
    for (size_t i = 0; !why && (i < n || n != sizeof text - 1); i++)
        if (n != sizeof text - 1 || ids[i] != (unsigned char)text[i])
            why = format("%zu ids, byte %zu", n, i);
    if (!why && (tokenizer_size(t) != 257 || tokenizer_added(t, "<|endoftext|>") != 256))
        why = format("size %d", tokenizer_size(t));
    verdict("byte vocabulary: its tokenizer.json", why);
    tokenizer_free(t);
    free(file);
}

/* Long pieces: the heap must neither be slow nor differ from repeated halving. */
static void check_long(void)
{
    static const char json[] = FILE_OF("\"vocab\":{\"a\":0,\"aa\":1,\"aaaa\":2},\"merges\":[\"a a\""
                                       ",\"aa aa\"]", "");
    enum { N = 1 << 20 };
    Tokenizer *t = NULL;
    char *text = malloc(N + 3), *why = tokenizer_parse(&t, json, sizeof json - 1, NULL, 0);
    int32_t *ids = NULL;
    size_t n = 0;
    const clock_t from = clock();        /* of this process, whoever else needs the processor */
    memset(text, 'a', N + 3);
    if (!why)
        why = tokenizer_encode(t, text, N + 3, false, &ids, &n);
    if (!why && (n != N / 4 + 2 || ids[0] != 2 || ids[n - 2] != 1 || ids[n - 1] != 0))
        why = format("%zu ids", n);
    const double took = (double)(clock() - from) / CLOCKS_PER_SEC;
    if (!why && took > 5)
        why = format("took %.1f s", took);
    verdict("a piece of a million letters", why);
    tokenizer_free(t);
    free(text);
    free(ids);
}

/* The end of text where a tokenizer_config.json, config.json or generation_config.json names it;
 * %d is the id of <|endoftext|>, which the others count from. */
static void check_ends(const char *tokenizer)
{
    static const struct {
        const char *name, *tokenizer_config, *config, *generation_config;
        int eos, also;           /* from <|endoftext|> on; -1: none */
        const char *error;
    } cases[] = {
        {"nobody", NULL, NULL, NULL, -1, -1, NULL},
        {"the tokenizer", "{\"eos_token\":\"<|im_end|>\"}", "{\"eos_token_id\":%d}", NULL, 2, -1,
         NULL},
        {"the tokenizer's is null", "{\"eos_token\":null}", "{\"eos_token_id\":%d}", NULL, 0, -1,
         NULL},
        {"config.json", NULL, "{\"eos_token_id\":%d}", "{\"eos_token_id\":5}", 0, -1, NULL},
        {"config.json's list", NULL, "{\"eos_token_id\":[%d,1]}", NULL, 0, 1, NULL},
        {"generation_config.json", NULL, "{\"eos_token_id\":null}", "{\"eos_token_id\":[%d,7]}",
         0, 7, NULL},
        {"an empty list", NULL, "{\"eos_token_id\":[]}", NULL, -1, -1, NULL},
        {"an id beyond", NULL, "{\"eos_token_id\":[%d,1000000]}", NULL, 0, -1,
         "/config.json: eos_token_id: must be ids below"},
        {"a text", NULL, "{\"eos_token_id\":\"%d\"}", NULL, 0, -1, "eos_token_id: must be ids below"},
        {"no JSON", NULL, NULL, "{\"eos_token_id\":%d", 0, -1, "/generation_config.json: line 1"},
    };
    const char *tmp = getenv("TMPDIR");
    char *folder = format("%s/tokenizer.XXXXXX", tmp ? tmp : "/tmp"), *whole = realpath(tokenizer, NULL);
    char *path = mkdtemp(folder) ? format("%s/tokenizer.json", folder) : NULL;
    if (!path || !whole || symlink(whole, path)) {
        verdict("end of text: scratch folder", "not made");
        return;
    }
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *const text[] = {cases[i].tokenizer_config, cases[i].config,
                                    cases[i].generation_config};
        static const char *const file[] = {"tokenizer_config", "config", "generation_config"};
        Tokenizer *t = NULL;
        char *error = tokenizer_load(&t, tokenizer), *why = NULL, *beside[3];
        int end = error ? 0 : tokenizer_added(t, "<|endoftext|>");
        tokenizer_free(t);
        for (int k = 0; k < 3; k++) {
            beside[k] = format("%s/%s.json", folder, file[k]);
            FILE *to = text[k] ? fopen(beside[k], "w") : NULL;
            const char *hole = text[k] ? strstr(text[k], "%d") : NULL;
            if (to && hole)
                fprintf(to, "%.*s%d%s", (int)(hole - text[k]), text[k], end, hole + 2);
            else if (to)
                fputs(text[k], to);
            if (to)
                fclose(to);
        }
        t = NULL;
        error = tokenizer_load(&t, path);
        int eos = cases[i].eos < 0 ? -1 : end + cases[i].eos;
        if (cases[i].error)
            why = error && strstr(error, cases[i].error) ? NULL : error ? error : format("accepted");
        else if (error)
            why = error;
        else if (tokenizer_eos(t) != eos)
            why = format("%d, want %d", tokenizer_eos(t), eos);
        else if (eos >= 0 && (!tokenizer_ends(t, eos) || !tokenizer_eos_text(t) ||
                              tokenizer_added(t, tokenizer_eos_text(t)) != eos))
            why = format("its text is %s", tokenizer_eos_text(t));
        else if (tokenizer_ends(t, 3) ||
                 (cases[i].also >= 0 && !tokenizer_ends(t, cases[i].also)))
            why = format("others end it");
        verdict(format("end of text: %s", cases[i].name), why);
        for (int k = 0; k < 3; k++)
            unlink(beside[k]);
        if (!error)
            tokenizer_free(t);
    }
    unlink(path);
    rmdir(folder);
    free(folder);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        check_folder(argv[i]);
    check_parts("tests/tokenizer/parts.json");
    check_beside("tests/tokenizer/beside.json", "out/.test/tokenizer/beside");
    check_beside_refused();
    check_beside_prefix();
    verdict("texts are cut where tokenisation cannot notice", cuts > 50 ? NULL : "hardly any cut");
    check_words();
    check_splits();
    check_refused();
    check_ends("tests/tokenizer/qwen2/tokenizer.json");
    check_specials();
    check_normalized_end();
    check_space();
    check_bytes();
    check_bytes_file();
    check_long();
    return failed;
}
