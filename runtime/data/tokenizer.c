/* tokenizer.c -- loads a tokenizer.json and the files next to it.
 *
 * In:   a tokenizer.json with a model of tokenizer.h; unknown parts are refused by name.
 * Out:  a Tokenizer with the ids of Hugging Face tokenizers. */
#define _GNU_SOURCE
#include "runtime/data/tokenizer_parts.h"

#include "runtime/base.h"
#include "runtime/data/words.h"
#include "runtime/files/crc32c.h"
#include "runtime/files/json.h"
#include "runtime/files/utf8.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MATCH_LIMIT = 1 << 30, HEAP_LIMIT_KIB = 1 << 18 };

static char *prefixed(const char *what, char *error)
{
    char *full = error ? format("%s: %s", what, error) : NULL;
    free(error);
    return full;
}

/* Returns the id of a token of the model or an added one, or -1. */
static int id_of_token(const Tokenizer *t, const char *content)
{
    int id = tokenizer_added(t, content);
    return id >= 0 ? id : model_id(t, content);
}

/* Returns the type of a model without one, as files before tokenizers 0.9: the first row whose keys
 * it has, as in that package; NULL: none. */
static const char *model_type(const cJSON *model)
{
    static const struct {
        const char *name;
        bool list;               /* the vocabulary is one, else an object */
        const char *key[3];      /* other required keys */
    } row[] = {
        {"BPE", false, {"merges"}},
        {"WordPiece", false,
         {"unk_token", "continuing_subword_prefix", "max_input_chars_per_word"}},
        {"WordLevel", false, {"unk_token"}},
        {"Unigram", true, {NULL}},
    };
    const cJSON *type = json_get(model, "type"), *vocab = json_get(model, "vocab");
    if (type)
        return json_word(type);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        bool fits = row[i].list ? cJSON_IsArray(vocab) : cJSON_IsObject(vocab);
        for (int k = 0; k < 3 && row[i].key[k]; k++) {
            const cJSON *value = json_get(model, row[i].key[k]);
            fits = fits && value && !cJSON_IsNull(value);
        }
        if (fits)
            return row[i].name;
    }
    return NULL;
}

/* *more: see added_load(). */
static char *load_model(Tokenizer *t, const cJSON *json, const ConfigTokens *extra, char **more)
{
    const cJSON *model = json_get(json, "model");
    int error_code;
    PCRE2_SIZE at;
    if (!cJSON_IsObject(model))
        return format("model: must be an object");
    const char *name = model_type(model);
    const cJSON *splits = json_get(json, "pre_tokenizer");
    char *error;
    if (!name)
        error = format("model: has no type, and its keys match none of BPE (vocab, merges), "
                       "WordPiece (vocab, unk_token, continuing_subword_prefix, "
                       "max_input_chars_per_word), WordLevel (vocab, unk_token) and Unigram "
                       "(vocab, a list): add \"type\"");
    else if (!strcmp(name, "BPE"))
        error = bpe_load(&t->bpe, model, split_is_byte_level(splits));
    else if (!strcmp(name, "Unigram"))
        error = unigram_load(&t->unigram, model);
    else if (!strcmp(name, "WordPiece") || !strcmp(name, "WordLevel"))
        error = wordpiece_load(&t->words, model, !strcmp(name, "WordPiece"));
    else
        error = format("model.type: must be BPE, Unigram, WordPiece or WordLevel, got %.40s", name);
    if (error)
        return error;
    t->size = t->bpe ? bpe_size(t->bpe) : model_tokens(t)->size;
    t->word = pcre2_compile((PCRE2_SPTR)WORD_CLASS, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP,
                            &error_code, &at, NULL);
    t->match = pcre2_match_data_create(1, NULL);
    t->limits = pcre2_match_context_create(NULL);
    if (!t->word || !t->match || !t->limits)
        return format("PCRE2 10.40 or later is needed: error %d", error_code);
    pcre2_set_match_limit(t->limits, MATCH_LIMIT);
    pcre2_set_heap_limit(t->limits, HEAP_LIMIT_KIB);
    error = normal_load(t, json_get(json, "normalizer"));
    if (!error)
        error = split_load(t, splits);
    if (!error)
        error = decode_load(t, json_get(json, "decoder"));
    if (!error)
        error = added_load(t, json_get(json, "added_tokens"), extra, more);
    if (!error)
        error = specials_load(t, json_get(json, "post_processor"));
    for (size_t i = 0; !error && i < t->prefix.n + t->suffix.n; i++)
        if ((i < t->prefix.n ? t->prefix.id[i] : t->suffix.id[i - t->prefix.n]) >= t->size)
            error = format("post_processor: adds an id beyond the vocabulary");
    if (error)
        return error;
    cuts_find(t);
    t->mask = id_of_token(t, "[MASK]");
    t->pad = id_of_token(t, "[PAD]");
    t->bos = tokenizer_added(t, "[BOS]");
    t->eos = tokenizer_added(t, "[EOS]");
    t->eos_text = t->eos >= 0 ? strdup("[EOS]") : NULL;
    return NULL;
}

static void load_names(Tokenizer *t, const cJSON *config)
{
    const char *bos = config_token_name(config, "bos_token"), *eos =
        config_token_name(config, "eos_token");
    const char *mask = config_token_name(config, "mask_token"), *pad =
        config_token_name(config, "pad_token");
    t->bos = bos ? tokenizer_added(t, bos) : t->bos;
    t->eos = eos ? tokenizer_added(t, eos) : t->eos;
    t->mask = mask ? id_of_token(t, mask) : t->mask;
    t->pad = pad ? id_of_token(t, pad) : t->pad;
    if (eos) {
        free(t->eos_text);
        t->eos_text = t->eos >= 0 ? strdup(eos) : NULL;
    }
}

static char *put_end(Tokenizer *t, const cJSON *id)
{
    double value = cJSON_IsNumber(id) ? id->valuedouble : -1;
    if (!(value >= 0 && value < t->size && value == (int32_t)value))
        return format("eos_token_id: must be ids below %d, the tokenizer's size", t->size);
    ids_put(&t->ends, &(int32_t){(int32_t)value}, 1);
    return NULL;
}

/* Reads eos_token_id of a model: an id, or a list whose first id separates documents. */
static char *load_ends(Tokenizer *t, const char *text, size_t n)
{
    char *error;
    cJSON *json = json_parse(text, n, &error);
    const cJSON *ids = json_get(json, "eos_token_id");
    if (cJSON_IsArray(ids))
        for (const cJSON *id = ids->child; id && !error; id = id->next)
            error = put_end(t, id);
    else if (ids && !cJSON_IsNull(ids))
        error = put_end(t, ids);
    cJSON_Delete(json);
    return error;
}

/* If the tokenizer does not name its end-of-text token, takes that of its model. folder: "" or
 * ending in a slash. */
static char *find_eos(Tokenizer *t, const char *folder)
{
    static const char *const name[] = {"config.json", "generation_config.json"};
    char *error = NULL;
    for (int i = 0; i < 2 && !t->ends.n && !error; i++) {
        char *path = format("%s%s", folder, name[i]), *text;
        size_t n;
        if (file_named(path) && (text = file_read(path, TOKENIZER_BYTES, &n, &error))) {
            error = prefixed(path, load_ends(t, text, n));
            free(text);
        }
        free(path);
    }
    if (t->ends.n)
        t->eos = t->ends.id[0];
    for (int i = 0; i < t->nadded && t->ends.n; i++)
        if (t->added[i].id == t->eos && !t->eos_text)
            t->eos_text = strdup(t->added[i].content);
    return error;
}

/* more: tokens of the files next to it, see added_load(). In JSON text, quotes without a backslash
 * delimit keys and values, so no token's text looks like this. */
static char *id_of(const char *text, size_t n, const char *more)
{
    static const char key[] = "\"" TOKENIZER_EXTENDS "\": \"";
    const char *from = memmem(text, n, key, sizeof key - 1), *end = text + n;
    if (from) {
        from += sizeof key - 1;
        const char *quote = memchr(from, '"', (size_t)(end - from));
        if (quote && (size_t)(quote - from) < sizeof ((Tokenizer *)NULL)->id)
            return format("%.*s", (int)(quote - from), from);
    }
    const size_t mark = utf8_mark(text, n), nmore = strlen(more);
    text += mark, n -= mark;             /* copies of the file have none */
    return format("crc32c:%08x:%zu", crc32c(crc32c(0, text, n), more, nmore), n + nmore);
}

/* config: of the files next to it, or NULL. */
static char *parse(Tokenizer **to, const char *text, size_t n, const cJSON *config)
{
    char *error, *more = NULL;
    ConfigTokens extra = {0};
    cJSON *json = json_parse(text, n, &error);
    if (!json)
        return error;
    Tokenizer *t = calloc(1, sizeof *t);
    t->eos = t->bos = t->mask = t->pad = -1;
    if (words_plain(json)) {
        cJSON *layout = NULL;
        error = words_layout(json, &layout);
        cJSON_Delete(json);
        json = layout;
    }
    if (!error)
        error = prefixed("tokenizer_config.json", config_prefix_differs(config, json));
    if (!error)
        error = prefixed("tokenizer_config.json", config_tokens_read(config, &extra));
    if (!error)
        error = load_model(t, json, &extra, &more);
    free(extra.token);
    cJSON_Delete(json);
    if (error) {
        tokenizer_free(t);
    } else {
        char *id = id_of(text, n, more);
        snprintf(t->id, sizeof t->id, "%s", id);
        free(id);
        load_names(t, config);
        *to = t;
    }
    free(more);
    return error;
}

char *tokenizer_parse(Tokenizer **to, const char *text, size_t n, const char *config,
                      size_t nconfig)
{
    char *error = NULL;
    cJSON *extra = config ? json_parse(config, nconfig, &error) : NULL;
    if (error)
        return prefixed("tokenizer_config.json", error);
    error = parse(to, text, n, extra);
    cJSON_Delete(extra);
    return error;
}

static char *load_bytes(Tokenizer **to)
{
    Tokenizer *t = calloc(1, sizeof *t);
    *t = (Tokenizer){.bytes = true, .size = BYTES_EOS + 1, .eos = BYTES_EOS, .bos = -1,
                     .mask = -1, .pad = -1, .id = "bytes"};
    *to = t;
    return NULL;
}

char *tokenizer_load(Tokenizer **to, const char *path)
{
    if (!strcmp(path, "bytes"))
        return load_bytes(to);
    size_t n;
    struct stat is;
    if (stat(path, &is) && errno == ENOENT) {
        char *hint = path_hint(path), *missing = format("%s: %s%s", path, strerror(ENOENT), hint);
        free(hint);
        return missing;
    }
    if (stat(path, &is) == 0 && S_ISDIR(is.st_mode))
        return format("%s: a folder; name %s/tokenizer.json", path, path);
    char *error, *text = file_read(path, TOKENIZER_BYTES, &n, &error);
    cJSON *config = NULL;
    if (!text)
        return error;
    if (tokenizer_is_bytes(text, n)) {
        free(text);
        return load_bytes(to);
    }
    Tokenizer *t = NULL;
    error = tokenizer_config_read(path, &config);
    if (!error)
        error = prefixed(path, parse(&t, text, n, config));
    if (!error && t->eos < 0) {
        const char *slash = strrchr(path, '/');
        char *folder = format("%.*s", slash ? (int)(slash + 1 - path) : 0, path);
        error = find_eos(t, folder);
        free(folder);
    }
    if (error)
        tokenizer_free(t);
    else
        *to = t;
    free(text);
    cJSON_Delete(config);
    return error;
}

/* Includes what the files next to tokenizer.json add; if it cannot be loaded they add nothing. */
static char *id_beside(const char *text, size_t n, const cJSON *config)
{
    char *error = NULL, *id = id_of(text, n, "");
    cJSON *json = config ? json_parse(text, n, &error) : NULL;
    ConfigTokens extra = {0};
    Tokenizer *t = NULL;
    if (json)
        error = config_tokens_read(config, &extra);
    if (json && !error && config_tokens_differ(&extra, json_get(json, "added_tokens")))
        error = parse(&t, text, n, config);
    if (t) {
        free(id);
        id = strdup(t->id);
    }
    free(extra.token);
    tokenizer_free(t);
    cJSON_Delete(json);
    free(error);
    return id;
}

char *tokenizer_file_id(const char *path, char **id)
{
    size_t n;
    cJSON *config = NULL;
    char *error, *text = file_read(path, TOKENIZER_BYTES, &n, &error);
    if (text && tokenizer_is_bytes(text, n))
        *id = strdup("bytes");
    else if (text && !(error = tokenizer_config_read(path, &config)))
        *id = id_beside(text, n, config);
    cJSON_Delete(config);
    free(text);
    return error;
}

Tokenizer *tokenizer_twin(const Tokenizer *t)
{
    Tokenizer *twin = malloc(sizeof *twin);
    if (!twin)
        abort();
    *twin = *t;
    twin->twin = true;
    if (!t->bytes) {
        twin->bpe = t->bpe ? bpe_twin(t->bpe) : NULL;
        twin->words = t->words ? wordpiece_twin(t->words) : NULL;
        twin->unigram = t->unigram ? unigram_twin(t->unigram) : NULL;
        twin->match = pcre2_match_data_create(1, NULL);
        if (!twin->match)
            abort();
    }
    return twin;
}

void tokenizer_free(Tokenizer *t)
{
    if (!t)
        return;
    pcre2_match_data_free(t->match);
    bpe_free(t->bpe);
    wordpiece_free(t->words);
    unigram_free(t->unigram);
    if (t->twin) {
        free(t);
        return;
    }
    for (int i = 0; i < t->nadded; i++) {
        free(t->added[i].content);
        free(t->added[i].match);
    }
    free(t->added);
    free(t->raw.token);
    free(t->normal.token);
    free(t->prefix.id);
    free(t->suffix.id);
    free(t->eos_text);
    free(t->ends.id);
    normal_free(t);
    split_free(t);
    decode_free(t);
    pcre2_code_free(t->word);
    pcre2_code_free(t->cased);
    pcre2_code_free(t->ignorable);
    pcre2_match_context_free(t->limits);
    free(t);
}
