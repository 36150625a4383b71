/* pack_words.c -- the tokenizer `words`: a vocabulary counted from the data that is to be packed.
 *
 * Out:   tokenizer.json and tokenizer_hf.json, its twin for Hugging Face, beside the token file.
 * Keeps: a file with another vocabulary is not replaced: token files may need it. */
#define _GNU_SOURCE
#include "runtime/pack/pack.h"

#include "runtime/base.h"
#include "runtime/files/json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char *beside(const char *out, const char *name)
{
    const char *slash = strrchr(out, '/');
    return format("%.*s%s", slash ? (int)(slash + 1 - out) : 0, out, name);
}

/* NULL: nothing has the name, or what has it holds the text (*there). */
static char *check_file(const char *path, const char *text, bool *there)
{
    size_t n;
    char *error = NULL, *old = NULL;
    *there = false;
    if (file_named(path))
        old = file_read(path, 256 << 20, &n, &error);
    if (old && strcmp(old, text))
        error = format("%s is there already, with another vocabulary: --tokenizer %s packs with "
                       "it; for one of this data remove it, or name another folder with -o", path,
                       path);
    *there = old && !error;
    free(old);
    return error;
}

static char *write_file(const char *path, const char *text)
{
    char *temp = format("%s.part", path), *error = NULL;
    int fd = file_create(temp, &error);
    FILE *to = fd < 0 ? NULL : fdopen(fd, "w");
    bool good = to && fputs(text, to) >= 0;
    if (to && fclose(to))
        good = false;
    if (!error && (!good || rename(temp, path)))
        error = format("%s: %s", path, strerror(errno));
    if (error && fd >= 0)
        unlink(temp);
    free(temp);
    return error;
}

char *vocabulary_make(Vocabulary *v, const Words *counted, int64_t most, Tokenizer **tok)
{
    v->distinct = words_distinct(counted);
    words_vocabulary(counted, most, &v->plain, &v->twin);
    return tokenizer_parse(tok, v->plain, strlen(v->plain), NULL, 0);
}

char *vocabulary_write(const Vocabulary *v, const char *out)
{
    const char *const text[] = {v->plain, v->twin};
    char *path[] = {beside(out, "tokenizer.json"), beside(out, "tokenizer_hf.json")};
    bool there[2];
    char *error = check_file(path[0], text[0], &there[0]);
    if (!error)
        error = check_file(path[1], text[1], &there[1]);
    for (int i = 0; i < 2 && !error; i++)
        error = there[i] ? NULL : write_file(path[i], text[i]);
    free(path[0]);
    free(path[1]);
    return error;
}

void vocabulary_free(Vocabulary *v)
{
    free(v->plain);
    free(v->twin);
}
