/* pack_vocabulary.c -- the tokenizers `words` and `char`, made from the data.
 *
 * Out:   tokenizer.json next to the token file; for words also tokenizer_hf.json, for Hugging Face;
 *        for characters also tokenizer_config.json.
 * Keeps: a file with another vocabulary is not replaced: token files may need it. */
#define _GNU_SOURCE
#include "runtime/pack/pack.h"

#include "runtime/base.h"
#include "runtime/data/chars.h"
#include "runtime/data/words.h"
#include "runtime/files/folder.h"
#include "runtime/files/json.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name, *file[VOCABULARY_FILES];
    int specials;
} kinds[] = {
    {"words", {"tokenizer.json", "tokenizer_hf.json"}, WORDS_SPECIALS},
    {"char", {"tokenizer.json", "tokenizer_config.json"}, CHARS_SPECIALS},
};
enum { WORDS };

static int kind_of(const char *name)     /* -1: none of these */
{
    for (int i = 0; i < (int)(sizeof kinds / sizeof *kinds); i++)
        if (!strcmp(kinds[i].name, name))
            return i;
    return -1;
}

bool vocabulary_made(const char *tokenizer)
{
    return kind_of(tokenizer) >= 0;
}

const char *const *vocabulary_files(const char *tokenizer)
{
    return kinds[kind_of(tokenizer)].file;
}

/* ---- counting -------------------------------------------------------------------------------- */

struct Counter {
    int kind;
    const WordsCode *code;       /* WORDS: of a format; else NULL */
    Words *words;
    Chars *chars;
};

char *counter_begin(Counter **to, const char *tokenizer, const FormatCode *const *formats)
{
    Counter *c = calloc(1, sizeof *c);
    if (!c)
        abort();
    c->kind = kind_of(tokenizer);
    for (; c->kind == WORDS && formats && *formats && !c->code; formats++)
        c->code = (*formats)->words;
    *to = c;
    return c->code           ? c->code->begin(&c->words)
         : c->kind == WORDS ? format("no format of this program is of words")
                            : chars_begin(&c->chars);
}

const Tokenizer *counter_tokenizer(const Counter *c)
{
    return c->code ? c->code->counter(c->words) : chars_counter(c->chars);
}

void counter_free(Counter *c)
{
    if (c->code)
        c->code->free(c->words);
    chars_free(c->chars);
    free(c);
}

char *vocabulary_make(Vocabulary *v, const Counter *c, int64_t most, Tokenizer **tok)
{
    v->kind = kinds[c->kind].name;
    v->specials = kinds[c->kind].specials;
    v->distinct = c->code ? c->code->distinct(c->words) : chars_distinct(c->chars);
    if (c->code)
        c->code->vocabulary(c->words, most, &v->text[0], &v->text[1]);
    else
        chars_vocabulary(c->chars, &v->text[0], &v->text[1]);
    return tokenizer_parse(tok, v->text[0], strlen(v->text[0]), NULL, 0);
}

/* ---- files ----------------------------------------------------------------------------------- */

static char *next_to(const char *out, const char *name)
{
    const char *slash = strrchr(out, '/');
    return format("%.*s%s", slash ? (int)(slash + 1 - out) : 0, out, name);
}

/* NULL if path does not exist, or is a file with this text (*there). */
static char *check_file(const char *path, const char *text, bool *there)
{
    size_t n;
    char *error = NULL, *old = NULL;
    *there = false;
    if (file_named(path))
        old = file_read(path, 256 << 20, &n, &error);
    if (old && strcmp(old, text))
        error = format("%s exists, with another vocabulary: --tokenizer %s packs with it; for one "
                       "of this data remove it, or name another folder with -o", path,
                       path);
    *there = old && !error;
    free(old);
    return error;
}

char *vocabulary_write(const Vocabulary *v, const char *out)
{
    const char *const *name = vocabulary_files(v->kind);
    const char *slash = strrchr(out, '/');
    char *folder = slash ? format("%.*s", slash > out ? (int)(slash - out) : 1, out) : format(".");
    char *path[VOCABULARY_FILES], *error = NULL;
    bool there[VOCABULARY_FILES];
    for (int i = 0; i < VOCABULARY_FILES; i++) {
        path[i] = next_to(out, name[i]);
        error = error ? error : check_file(path[i], v->text[i], &there[i]);
    }
    for (int i = 0; i < VOCABULARY_FILES; i++) {
        if (!error && !there[i])
            error = folder_replace_text(folder, name[i], v->text[i]);
        free(path[i]);
    }
    free(folder);
    return error;
}

void vocabulary_free(Vocabulary *v)
{
    for (int i = 0; i < VOCABULARY_FILES; i++)
        free(v->text[i]);
}
