/* tokenizer_split.c -- the pre-tokeniser: normalised text to the pieces that the model sees.
 *
 * In:    `pre_tokenizer` of a tokenizer.json.
 * Keeps: patterns come from a table, not the file. */
#define _GNU_SOURCE
#include "runtime/data/tokenizer_parts.h"

#include "runtime/base.h"
#include "runtime/files/json.h"

#include <stdlib.h>
#include <string.h>

/* Split patterns as the files spell them, and as PCRE2 with UCP must be told so that \s is
 * White_Space (its own \s also takes U+180E). */
#define SPACE "\\p{White_Space}"
#define WORDS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define MARKS "| ?[^" "\\s" "\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define MARKS_PCRE "| ?[^" SPACE "\\p{L}\\p{N}]+[\\r\\n]*|" SPACE "*[\\r\\n]+|" SPACE \
                   "+(?!\\P{White_Space})|" SPACE "+"
static const struct {
    const char *name, *file, *pcre;
} patterns[] = {
    {"GPT-2", "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
     "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" SPACE "\\p{L}\\p{N}]+|" SPACE
     "+(?!\\P{White_Space})|" SPACE "+"},
    {"Llama-3", WORDS "\\p{N}{1,3}" MARKS, WORDS "\\p{N}{1,3}" MARKS_PCRE},
    {"Qwen2", WORDS "\\p{N}" MARKS, WORDS "\\p{N}" MARKS_PCRE},
};

char *split_encode(const Tokenizer *t, const char *text, size_t n, Ids *to)
{
    char *spaced = NULL, *error = NULL;
    if (t->add_prefix_space && *text != ' ') {
        spaced = malloc(n + 1);
        *spaced = ' ';
        memcpy(spaced + 1, text, n);
        text = spaced;
        n++;
    }
    for (size_t at = 0; at < n && !error;) {
        size_t from = at, end = n;
        if (t->split) {
            int rc = pcre2_match(t->split, (PCRE2_SPTR)text, n, at, PCRE2_NO_UTF_CHECK, t->match,
                                 t->limits);
            if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
                rc = pcre2_match(t->split, (PCRE2_SPTR)text, n, at,
                                 PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, t->match, t->limits);
            if (rc > 0) {
                from = pcre2_get_ovector_pointer(t->match)[0];
                end = pcre2_get_ovector_pointer(t->match)[1];
            } else if (rc != PCRE2_ERROR_NOMATCH) {
                error = format("split pattern: PCRE2 error %d at byte %zu", rc, at);
            }
        }
        if (!error && from > at)
            error = bpe_encode(t->bpe, text + at, from - at, to);
        if (!error && end > from)
            error = bpe_encode(t->bpe, text + from, end - from, to);
        at = end;
    }
    free(spaced);
    return error;
}

/* Compiles the built-in pattern that the file spells `regex`. */
static char *pattern_load(Tokenizer *t, const char *regex)
{
    int error;
    PCRE2_SIZE at;
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        if (strcmp(patterns[i].file, regex))
            continue;
        t->split = pcre2_compile((PCRE2_SPTR)patterns[i].pcre, PCRE2_ZERO_TERMINATED,
                                 PCRE2_UTF | PCRE2_UCP, &error, &at, NULL);
        if (!t->split)
            return format("PCRE2 10.40 or later is needed: %s pattern: error %d at %zu",
                          patterns[i].name, error, at);
        pcre2_jit_compile(t->split, PCRE2_JIT_COMPLETE);   /* without JIT it is only slower */
        return NULL;
    }
    return format("pre_tokenizer: unknown split pattern %.120s", regex);
}

static char *byte_level_load(Tokenizer *t, const cJSON *p, bool alone)
{
    const cJSON *regex = json_get(p, "use_regex");
    bool splits = !regex || cJSON_IsTrue(regex);
    bool space = cJSON_IsTrue(json_get(p, "add_prefix_space"));
    if (!alone && (splits || space))
        return format("pre_tokenizer: ByteLevel in a Sequence: want use_regex and "
                      "add_prefix_space false");
    t->add_prefix_space = space;
    return splits ? pattern_load(t, patterns[0].file) : NULL;
}

char *split_load(Tokenizer *t, const cJSON *p)
{
    const char *type = json_word(json_get(p, "type"));
    const cJSON *list = json_get(p, "pretokenizers");
    if (!strcmp(type, "ByteLevel"))
        return byte_level_load(t, p, true);
    if (strcmp(type, "Sequence") || cJSON_GetArraySize(list) != 2)
        return format("pre_tokenizer: want ByteLevel or Sequence of Split and ByteLevel, got %.40s",
                      type);
    const cJSON *split = list->child, *level = split->next;
    const cJSON *regex = json_get(json_get(split, "pattern"), "Regex");
    if (strcmp(json_word(json_get(split, "type")), "Split") ||
        strcmp(json_word(json_get(level, "type")), "ByteLevel"))
        return format("pre_tokenizer: Sequence: want Split and ByteLevel, got %.40s and %.40s",
                      json_word(json_get(split, "type")), json_word(json_get(level, "type")));
    if (strcmp(json_word(json_get(split, "behavior")), "Isolated") ||
        cJSON_IsTrue(json_get(split, "invert")) ||
        !cJSON_IsString(regex))
        return format("pre_tokenizer: Split: want a Regex, behavior Isolated, invert false");
    char *error = byte_level_load(t, level, false);
    return error ? error : pattern_load(t, regex->valuestring);
}
