/* rules.c -- rules of tokenizers: special tokens, spaces, ends of text, bytes, long pieces. */
#define _GNU_SOURCE
#include "tests.h"
#include "../../runtime/base.h"
#include "../../runtime/data/tokenizer.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A space before texts: classes of transformers that obey tokenizer_config.json, and those that do not. */
static void check_companions_prefix(void)
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
        char *error = tokenizer_load(&t, tokenizer), *why = NULL, *companions[3];
        int end = error ? 0 : tokenizer_added(t, "<|endoftext|>");
        tokenizer_free(t);
        for (int k = 0; k < 3; k++) {
            companions[k] = format("%s/%s.json", folder, file[k]);
            FILE *to = text[k] ? fopen(companions[k], "w") : NULL;
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
            why = error && strstr(error, cases[i].error)
                      ? t ? format("refused, but a tokenizer is returned") : NULL
                  : error ? error
                          : format("accepted");
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
            unlink(companions[k]);
        if (!error)
            tokenizer_free(t);
    }
    unlink(path);
    rmdir(folder);
    free(folder);
}

void check_rules(void)
{
    check_companions_prefix();
    check_ends("tests/tokenizer/qwen2/tokenizer.json");
    check_specials();
    check_normalized_end();
    check_space();
    check_bytes();
    check_bytes_file();
    check_long();
}
