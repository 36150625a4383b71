/* wordpiece.c -- WordLevel and WordPiece, as Hugging Face tokenizers computes them.
 *
 * Method: a word is looked up in a copy; the continuation prefix overwrites the characters before
 *         the rest of the word. */
#define _GNU_SOURCE
#include "runtime/data/wordpiece.h"

#include "runtime/base.h"
#include "runtime/files/json.h"
#include "runtime/files/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { PREFIX_MAX = 64 };

struct Wordpiece {
    Tokens tokens;
    int32_t unknown;
    bool parts;                  /* WordPiece */
    char *prefix;                /* continuation prefix, e.g. ## */
    size_t nprefix;
    int64_t max_chars;           /* longer words are unknown */
    bool twin;                   /* another Wordpiece owns everything above */
    char *word;                  /* space for the prefix, then the word */
    size_t cap;
};

/* Loads the settings that only WordPiece has. */
static char *load_parts(Wordpiece *w, const cJSON *model)
{
    const cJSON *prefix = json_get(model, "continuing_subword_prefix");
    const cJSON *most = json_get(model, "max_input_chars_per_word");
    if (!cJSON_IsString(prefix) || strlen(prefix->valuestring) > PREFIX_MAX)
        return format("model.continuing_subword_prefix: must be a text of at most %d bytes",
                      PREFIX_MAX);
    if (tokens_json_id(most) < 0)
        return format("model.max_input_chars_per_word: must be an integer from 0 to 2^31-2");
    w->parts = true;
    w->prefix = strdup(prefix->valuestring);
    w->nprefix = strlen(w->prefix);
    w->max_chars = tokens_json_id(most);
    return NULL;
}

char *wordpiece_load(Wordpiece **to, const cJSON *model, bool parts)
{
    Wordpiece *w = calloc(1, sizeof *w);
    const cJSON *unknown = json_get(model, "unk_token");
    char *error = tokens_load(&w->tokens, json_get(model, "vocab"), NULL);
    if (!error && !cJSON_IsString(unknown))
        error = format("model.unk_token: must be the token of unknown words");
    w->unknown = -1;
    if (!error && (*unknown->valuestring || parts)) {
        w->unknown = tokens_id(&w->tokens, unknown->valuestring, strlen(unknown->valuestring),
                               false);
        if (w->unknown < 0)
            error = format("model.unk_token: %.60s is not in the vocabulary",
                           unknown->valuestring);
    }
    if (!error && parts)
        error = load_parts(w, model);
    if (error)
        wordpiece_free(w);
    else
        *to = w;
    return error;
}

const Tokens *wordpiece_tokens(const Wordpiece *w)
{
    return &w->tokens;
}

int wordpiece_unknown(const Wordpiece *w)
{
    return w->unknown;
}

static bool too_long(const Wordpiece *w, const char *word, size_t n)
{
    int64_t chars = 0;
    for (size_t i = 0; i < n && (int64_t)n > w->max_chars; i++)
        chars += ((unsigned char)word[i] & 0xc0) != 0x80;
    return chars > w->max_chars;
}

/* Appends the ids of a word's parts; false: it cannot be split, and what was appended is
 * incomplete. */
static bool take_apart(Wordpiece *w, size_t n, Ids *to)
{
    char *word = w->word + w->nprefix;
    for (size_t start = 0; start < n;) {
        size_t before = start ? w->nprefix : 0, end = n, longest = w->tokens.longest;
        char *from = word + start - before;
        memcpy(from, w->prefix, before);
        if (n - start + before > longest)
            end = start + (before < longest ? longest - before : 0);
        while (end < n && end > start && ((unsigned char)word[end] & 0xc0) == 0x80)
            end--;
        int32_t id = -1;
        for (; end > start; end = utf8_before(word, end))
            if ((id = tokens_id(&w->tokens, from, before + end - start, false)) >= 0)
                break;
        if (id < 0)
            return false;
        ids_put(to, &id, 1);
        start = end;
    }
    return true;
}

char *wordpiece_encode(Wordpiece *w, const char *word, size_t n, Ids *to)
{
    size_t begin = to->n;
    int32_t id = w->parts && too_long(w, word, n) ? w->unknown
                                                 : tokens_id(&w->tokens, word, n, false);
    if (id < 0 && w->parts) {
        if (w->cap < w->nprefix + n) {
            w->cap = 2 * (w->nprefix + n);
            free(w->word);
            w->word = malloc(w->cap);
            if (!w->word)
                abort();
        }
        memcpy(w->word + w->nprefix, word, n);
        if (take_apart(w, n, to))
            return NULL;
        to->n = begin;
    }
    if (id < 0 && w->unknown < 0 && n == 1 && (unsigned char)*word < ' ')
        return format("the control character %d is not in the vocabulary, which has no unknown "
                      "token", *word);
    if (id < 0 && w->unknown < 0)
        return format("\"%.*s\" is not in the vocabulary, which has no unknown token",
                      n < 60 ? (int)n : 60, word);
    ids_put(to, id < 0 ? &w->unknown : &id, 1);
    return NULL;
}

Wordpiece *wordpiece_twin(const Wordpiece *w)
{
    Wordpiece *twin = malloc(sizeof *twin);
    if (!twin)
        abort();
    *twin = *w;
    twin->twin = true;
    twin->word = NULL;
    twin->cap = 0;
    return twin;
}

void wordpiece_free(Wordpiece *w)
{
    if (!w)
        return;
    free(w->word);
    if (!w->twin) {
        tokens_free(&w->tokens);
        free(w->prefix);
    }
    free(w);
}
