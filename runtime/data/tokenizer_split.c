/* tokenizer_split.c -- the pre-tokeniser: splits normalised text into pieces for the model.
 *
 * In:     `pre_tokenizer` of a tokenizer.json.
 * Keeps:  patterns come from a table, or are simple ones (tokenizer_replace.c).
 * Method: each step passes its pieces to the next as it finds them, the last one to the model. */
#define _GNU_SOURCE
#include "runtime/data/tokenizer_parts.h"

#include "runtime/base.h"
#include "runtime/files/json.h"
#include "runtime/files/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { SPLITS_MAX = sizeof ((Tokenizer *)0)->split / sizeof (Split) };

/* Split patterns as spelled in files, and for PCRE2 with UCP, where \s must be spelled out as
 * White_Space (PCRE2's \s includes U+180E). */
#define SPACE "\\p{White_Space}"
#define WORDS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define MARKS "| ?[^" "\\s" "\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define MARKS_PCRE "| ?[^" SPACE "\\p{L}\\p{N}]+[\\r\\n]*|" SPACE "*[\\r\\n]+|" SPACE \
                   "+(?!\\P{White_Space})|" SPACE "+"
#define CASED_FILE(begins, ends) \
    "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]" begins \
    "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]" ends
#define CASED CASED_FILE("*", "+") "|" CASED_FILE("+", "*") "|\\p{N}"
#define SLASHED "| ?[^" "\\s" "\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define SLASHED_PCRE "| ?[^" SPACE "\\p{L}\\p{N}]+[\\r\\n/]*|" SPACE "*[\\r\\n]+|" SPACE \
                     "+(?!\\P{White_Space})|" SPACE "+"
#define LING_WORDS "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}| ?[^"
#define LING LING_WORDS "\\s" "\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+"
#define LING_PCRE LING_WORDS SPACE "\\p{L}\\p{N}]++[\\r\\n]*|" SPACE "*[\\r\\n]|" SPACE \
                  "+(?!\\P{White_Space})|" SPACE "+"
static const struct {
    const char *name, *file, *pcre;
    char joins;                  /* one that belongs to a line feed before it */
} patterns[] = {
    {"GPT-2", "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
     "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^" SPACE "\\p{L}\\p{N}]+|" SPACE
     "+(?!\\P{White_Space})|" SPACE "+", 0},
    {"Llama-3", WORDS "\\p{N}{1,3}" MARKS, WORDS "\\p{N}{1,3}" MARKS_PCRE, 0},
    {"Qwen2", WORDS "\\p{N}" MARKS, WORDS "\\p{N}" MARKS_PCRE, 0},
    {"Tekken", CASED SLASHED, CASED SLASHED_PCRE, '/'},
    {"Ling", LING, LING_PCRE, 0},      /* LLaDA's, too */
};
/* Pattern of the pre-tokeniser Whitespace: runs of \w of the Rust regex crate, or of characters
 * that are neither \w nor White_Space. */
static const char word_pattern[] =
    WORD_CLASS "+|[^\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}" SPACE "]+";

/* ---- encoding -------------------------------------------------------------------------------- */

/* A text that step k splits. */
typedef struct {
    const Tokenizer *t;
    int k;
    const char *text;
    bool begins;                 /* the text begins where the whole does */
    Ids *to;
    char *error;
    bool waits, found;           /* a part that the next one may join, and whether it was found */
    size_t from, end;
} Cutting;

static char *encode_step(const Tokenizer *t, int k, const char *text, size_t n, bool first,
                         Ids *to);

static void hand_on(Cutting *c, size_t from, size_t end)
{
    if (!c->error && end > from)
        c->error = encode_step(c->t, c->k + 1, c->text + from, end - from, c->begins && !from,
                               c->to);
}

static void hand_on_waiting(Cutting *c)
{
    if (c->waits)
        hand_on(c, c->from, c->end);
    c->waits = false;
}

/* Receives the next part of the text; parts come in order and cover the text. */
static void part(Cutting *c, size_t from, size_t end, bool found)
{
    const Split *s = &c->t->split[c->k];
    if (from == end)
        return;
    found = found != s->invert;
    bool joins = c->waits && (s->keep == KEEP_CONTIGUOUS ? c->found == found : c->found != found);
    if (s->keep == KEEP_ISOLATED || (s->keep == KEEP_REMOVED && !found)) {
        hand_on(c, from, end);
    } else if (joins) {
        c->end = end;
        if (s->keep != KEEP_CONTIGUOUS)
            hand_on_waiting(c);
    } else if (s->keep != KEEP_REMOVED) {
        hand_on_waiting(c);
        c->waits = s->keep == KEEP_CONTIGUOUS || found == (s->keep == KEEP_WITH_NEXT);
        c->found = found;
        c->from = from;
        c->end = end;
        if (!c->waits)
            hand_on(c, from, end);
    }
}

/* Finds the first match of the pattern at or after `at`; false: none, or an error. */
static bool find_pattern(Cutting *c, size_t n, size_t at, size_t *from, size_t *end)
{
    const Tokenizer *t = c->t;
    const pcre2_code *pattern = t->split[c->k].pattern;
    int rc = pcre2_match(pattern, (PCRE2_SPTR)c->text, n, at, PCRE2_NO_UTF_CHECK, t->match,
                         t->limits);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
        rc = pcre2_match(pattern, (PCRE2_SPTR)c->text, n, at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                         t->match, t->limits);
    if (rc > 0) {
        *from = pcre2_get_ovector_pointer(t->match)[0];
        *end = pcre2_get_ovector_pointer(t->match)[1];
        return *end > *from;
    }
    if (rc != PCRE2_ERROR_NOMATCH)
        c->error = format("split pattern: PCRE2 error %d at byte %zu", rc, at);
    return false;
}

/* The same for the other kinds. */
static bool find_other(const Cutting *c, size_t n, size_t at, size_t *from, size_t *end)
{
    const Split *s = &c->t->split[c->k];
    if (s->find == FIND_TEXT || s->find == FIND_META) {
        const char *there = memmem(c->text + at, n - at, s->text, s->ntext);
        *from = there ? (size_t)(there - c->text) : n;
        *end = *from + s->ntext;
        return there != NULL;
    }
    for (size_t i = at; i < n;) {
        int len = utf8_length_at(c->text, n, i);
        uint32_t value = utf8_value(c->text + i, len);
        if (s->find == FIND_CHARACTER ||
            (s->find == FIND_SPACE ? utf8_is_space(value) : char_is_punctuation(value))) {
            *from = i;
            *end = i + (size_t)len;
            return true;
        }
        i += (size_t)len;
    }
    return false;
}

static char *encode_piece(const Tokenizer *t, const char *text, size_t n, Ids *to)
{
    if (t->each)
        return t->each(t->user, text, n), NULL;
    return t->bpe     ? bpe_encode(t->bpe, text, n, to)
         : t->unigram ? unigram_encode(t->unigram, text, n, to)
                      : wordpiece_encode(t->words, text, n, to);
}

/* Splits the text by step k and passes the parts on. */
static char *cut(const Tokenizer *t, int k, const char *text, size_t n, bool first, Ids *to)
{
    Cutting c = {.t = t, .k = k, .text = text, .begins = first, .to = to};
    for (size_t at = 0, from, end; at < n && !c.error; at = end) {
        bool found = t->split[k].find == FIND_PATTERN ? find_pattern(&c, n, at, &from, &end)
                                                      : find_other(&c, n, at, &from, &end);
        if (!found)
            from = end = n;
        if (c.error)
            break;
        part(&c, at, from, false);
        part(&c, from, end, true);
    }
    hand_on_waiting(&c);
    return c.error;
}

/* Metaspace: returns the text with its mark for spaces, and the mark prepended. */
static char *mark_spaces(const Split *s, const char *text, size_t n, bool first, size_t *nout)
{
    size_t spaces = 0;
    for (const char *p = text; (p = memchr(p, ' ', (size_t)(text + n - p))); p++)
        spaces++;
    char *out = malloc(n + (spaces + 1) * s->ntext + 1);
    if (!out)
        abort();
    const bool there = *text == ' ' || (n >= s->ntext && !memcmp(text, s->text, s->ntext));
    *nout = 0;
    if (!there && (s->prepend == PREPEND_ALWAYS || (s->prepend == PREPEND_FIRST && first))) {
        memcpy(out, s->text, s->ntext);
        *nout = s->ntext;
    }
    for (size_t i = 0; i < n; i++)
        if (text[i] == ' ') {
            memcpy(out + *nout, s->text, s->ntext);
            *nout += s->ntext;
        } else {
            out[(*nout)++] = text[i];
        }
    return out;
}

/* Applies step k and those after it to the text with a space prepended. */
static char *encode_spaced(const Tokenizer *t, int k, const char *text, size_t n, bool first,
                           Ids *to)
{
    if (*text == ' ')
        return encode_step(t, k, text, n, first, to);
    char *spaced = malloc(n + 1);
    if (!spaced)
        abort();
    *spaced = ' ';
    memcpy(spaced + 1, text, n);
    char *error = encode_step(t, k, spaced, n + 1, first, to);
    free(spaced);
    return error;
}

static char *encode_step(const Tokenizer *t, int k, const char *text, size_t n, bool first, Ids *to)
{
    if (k == t->nsplits)
        return encode_piece(t, text, n, to);
    const Split *s = &t->split[k];
    if (s->find == FIND_NOTHING)
        return encode_spaced(t, k + 1, text, n, first, to);
    if (s->find != FIND_META)
        return cut(t, k, text, n, first, to);
    size_t len;
    char *marked = mark_spaces(s, text, n, first, &len);
    char *error = s->split ? cut(t, k, marked, len, first, to)
                           : encode_step(t, k + 1, marked, len, first, to);
    free(marked);
    return error;
}

char *split_encode(const Tokenizer *t, const char *text, size_t n, bool first, Ids *to)
{
    return encode_step(t, 0, text, n, first, to);
}

void split_free(Tokenizer *t)
{
    for (int i = 0; i < t->nsplits; i++) {
        pcre2_code_free(t->split[i].pattern);
        free(t->split[i].text);
    }
}

/* ---- the file -------------------------------------------------------------------------------- */

static char *split_put(Tokenizer *t, Split s)
{
    if (t->nsplits == SPLITS_MAX) {
        pcre2_code_free(s.pattern);
        free(s.text);
        return format("pre_tokenizer: more than %d steps", SPLITS_MAX);
    }
    t->split[t->nsplits++] = s;
    return NULL;
}

static char *pattern_put(Tokenizer *t, const char *name, const char *pcre, Split s)
{
    int error;
    PCRE2_SIZE at;
    s.find = FIND_PATTERN;
    s.pattern = pcre2_compile((PCRE2_SPTR)pcre, PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP,
                              &error, &at, NULL);
    if (!s.pattern)
        return format("PCRE2 10.40 or later is needed: %s pattern: error %d at %zu", name, error,
                      at);
    pcre2_jit_compile(s.pattern, PCRE2_JIT_COMPLETE);   /* without JIT it is only slower */
    return split_put(t, s);
}

/* Returns the built-in pattern with the spelling `regex`. */
static char *known_put(Tokenizer *t, const char *regex, Split s)
{
    s.known = s.keep == KEEP_ISOLATED && !s.invert;
    if (!strcmp(TOKENIZER_CHARACTERS, regex)) {
        s.find = FIND_CHARACTER;
        return split_put(t, s);
    }
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        if (!strcmp(patterns[i].file, regex)) {
            t->lstrip_first[(unsigned char)patterns[i].joins] |= patterns[i].joins != 0;
            return pattern_put(t, patterns[i].name, patterns[i].pcre, s);
        }
    }
    char *pcre = pattern_simple(regex);
    if (!pcre)
        return format("pre_tokenizer: unknown split pattern %.120s", regex);
    s.known = false;
    char *error = pattern_put(t, "simple", pcre, s);
    free(pcre);
    return error;
}

/* `behavior`; absent: otherwise. */
static char *keep_of(const cJSON *p, Keep otherwise, Keep *keep)
{
    static const char *const name[] = {"Isolated", "Removed", "Contiguous", "MergedWithPrevious",
                                       "MergedWithNext"};
    const cJSON *given = json_get(p, "behavior");
    *keep = otherwise;
    if (!given)
        return NULL;
    for (int i = 0; i < 5; i++)
        if (!strcmp(json_word(given), name[i])) {
            *keep = (Keep)i;
            return NULL;
        }
    return format("pre_tokenizer: behavior: must be Isolated, Removed, Contiguous, "
                  "MergedWithPrevious or MergedWithNext, got %.40s", json_word(given));
}

/* add_prefix_space adds a space before each piece of the steps before it. */
static char *byte_level_load(Tokenizer *t, const cJSON *p)
{
    const cJSON *regex = json_get(p, "use_regex");
    char *error = NULL;
    t->byte_level = true;
    if (cJSON_IsTrue(json_get(p, "add_prefix_space")))
        error = split_put(t, (Split){.find = FIND_NOTHING});
    if (!error && (!regex || cJSON_IsTrue(regex)))
        error = known_put(t, patterns[0].file, (Split){.keep = KEEP_ISOLATED});
    return error;
}

/* Runs of characters of the categories Nd, Nl and No, or each of them. */
static char *digits_load(Tokenizer *t, const cJSON *p)
{
    const cJSON *each = json_get(p, "individual_digits");
    if (!cJSON_IsBool(each))
        return format("pre_tokenizer: Digits: individual_digits: must be true or false");
    const Keep keep = cJSON_IsTrue(each) ? KEEP_ISOLATED : KEEP_CONTIGUOUS;
    return pattern_put(t, "Digits", "\\p{N}", (Split){.keep = keep, .digits = true});
}

static char *find_load(Tokenizer *t, const cJSON *p)
{
    const cJSON *pattern = json_get(p, "pattern");
    const char *regex = cJSON_GetStringValue(json_get(pattern, "Regex"));
    const char *text = cJSON_GetStringValue(json_get(pattern, "String"));
    Split s = {.find = FIND_TEXT, .invert = cJSON_IsTrue(json_get(p, "invert"))};
    char *error = keep_of(p, KEEP_ISOLATED, &s.keep);
    if (error)
        return error;
    if (regex)
        return known_put(t, regex, s);
    if (!text || !*text)
        return format("pre_tokenizer: Split: the pattern must be a Regex or a String, not empty");
    s.text = strdup(text);
    s.ntext = strlen(text);
    return split_put(t, s);
}

/* Metaspace; older files have add_prefix_space. */
static char *metaspace_load(Tokenizer *t, const cJSON *p)
{
    const cJSON *old = json_get(p, "add_prefix_space"), *given = json_get(p, "prepend_scheme");
    Split s = {.find = FIND_META, .keep = KEEP_WITH_NEXT,
               .split = !cJSON_IsFalse(json_get(p, "split"))};
    char *error = metaspace_mark(p, "pre_tokenizer", &s.text);
    const char *scheme = !given ? cJSON_IsFalse(old) ? "never" : "always" : json_word(given);
    if (error)
        return error;
    s.ntext = strlen(s.text);
    s.prepend = !strcmp(scheme, "always") ? PREPEND_ALWAYS
              : !strcmp(scheme, "first") ? PREPEND_FIRST : PREPEND_NEVER;
    if (s.prepend == PREPEND_NEVER && strcmp(scheme, "never"))
        error = format("pre_tokenizer: Metaspace: prepend_scheme: must be always, first or never, "
                       "got %.40s", scheme);
    else if (s.prepend != PREPEND_NEVER && cJSON_IsFalse(old))
        error = format("pre_tokenizer: Metaspace: add_prefix_space is false, prepend_scheme is %s: "
                       "leave one out", scheme);
    if (!error)
        return split_put(t, s);
    free(s.text);
    return error;
}

/* Loads a pre-tokeniser, or one step of a Sequence. */
static char *step_load(Tokenizer *t, const cJSON *p)
{
    const char *type = json_word(json_get(p, "type"));
    Split space = {.find = FIND_SPACE, .keep = KEEP_REMOVED, .spaces = true};
    Split words = {.keep = KEEP_REMOVED, .invert = true, .spaces = true};
    Split marks = {.find = FIND_PUNCTUATION};
    if (t->byte_level)
        return format("pre_tokenizer: %.40s after ByteLevel, which must be the last", type);
    if (!strcmp(type, "ByteLevel"))
        return byte_level_load(t, p);
    if (!strcmp(type, "Split"))
        return find_load(t, p);
    if (!strcmp(type, "Digits"))
        return digits_load(t, p);
    if (!strcmp(type, "Metaspace"))
        return metaspace_load(t, p);
    if (!strcmp(type, "Whitespace"))
        return pattern_put(t, type, word_pattern, words);
    if (!strcmp(type, "WhitespaceSplit"))
        return split_put(t, space);
    if (!strcmp(type, "BertPreTokenizer")) {
        char *error = split_put(t, space);
        return error ? error : split_put(t, marks);
    }
    if (!strcmp(type, "Punctuation")) {
        char *error = keep_of(p, KEEP_ISOLATED, &marks.keep);
        return error ? error : split_put(t, marks);
    }
    const cJSON *list = json_get(p, "pretokenizers");
    if (strcmp(type, "Sequence") || !cJSON_IsArray(list))
        return format("pre_tokenizer: must be ByteLevel, Split, Digits, Metaspace, Whitespace, "
                      "WhitespaceSplit, BertPreTokenizer, Punctuation or a Sequence of them, "
                      "got %.40s", type);
    char *error = NULL;
    for (const cJSON *i = list->child; i && !error; i = i->next)
        error = step_load(t, i);
    return error;
}

bool split_is_byte_level(const cJSON *p)
{
    const cJSON *list = json_get(p, "pretokenizers");
    for (const cJSON *i = cJSON_IsArray(list) ? list->child : NULL; i; i = i->next)
        if (split_is_byte_level(i))
            return true;
    return !strcmp(json_word(json_get(p, "type")), "ByteLevel");
}

char *split_load(Tokenizer *t, const cJSON *p)
{
    if (!p || cJSON_IsNull(p))
        return NULL;
    char *error = step_load(t, p);
    if (!error && !t->bpe && t->byte_level)
        return format("pre_tokenizer: ByteLevel goes with model BPE");
    return error;
}
