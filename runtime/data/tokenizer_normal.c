/* tokenizer_normal.c -- the normaliser, e.g. Unicode normal forms and lower case.
 *
 * In:   `normalizer` of a tokenizer.json; well-formed UTF-8.
 * Out:  the text after all steps.
 * Keeps: the classes of characters (marks, punctuation) do not depend on a library's version. */
#define _GNU_SOURCE
#include "runtime/data/tokenizer_parts.h"

#include "runtime/base.h"
#include "runtime/files/json.h"
#include "runtime/files/utf8.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

enum { STEPS_MAX = sizeof ((Tokenizer *)0)->step / sizeof *((Tokenizer *)0)->step,
       CAPITAL_SIGMA = 0x3a3, FINAL_SIGMA = 0x3c2 };

/* ---- characters ------------------------------------------------------------------------------ */

typedef struct {
    uint32_t first, last;
} Range;

#define CONTROL(first, last)
#define ACCENT(first, last)
#define MARK(first, last)
#define PUNCTUATION(first, last)
#define WHOLE(first, last)
#define RANGE(first, last) {first, last},
#undef CONTROL
#define CONTROL RANGE
static const Range controls[] = {
#include "runtime/data/characters.def"
};
#undef CONTROL
#define CONTROL(first, last)
#undef ACCENT
#define ACCENT RANGE
static const Range accents[] = {
#include "runtime/data/characters.def"
};
#undef ACCENT
#define ACCENT(first, last)
#undef MARK
#define MARK RANGE
static const Range marks[] = {
#include "runtime/data/characters.def"
};
#undef MARK
#define MARK(first, last)
#undef PUNCTUATION
#define PUNCTUATION RANGE
static const Range punctuation[] = {
#include "runtime/data/characters.def"
};
#undef PUNCTUATION
#define PUNCTUATION(first, last)
#undef WHOLE
#define WHOLE RANGE
static const Range whole[] = {
#include "runtime/data/characters.def"
};

/* Characters that BertNormalizer surrounds by spaces, with upstream's slip at 0x2b820..0x2b91f. */
static const Range chinese[] = {
    {0x3400, 0x4dbf}, {0x4e00, 0x9fff}, {0xf900, 0xfaff}, {0x20000, 0x2a6df}, {0x2a700, 0x2b81f},
    {0x2b920, 0x2ceaf}, {0x2f800, 0x2fa1f},
};

static bool in_ranges(const Range *range, size_t n, uint32_t c)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (range[mid].last < c)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n && range[lo].first <= c;
}
#define IN(ranges, c) in_ranges(ranges, sizeof ranges / sizeof *ranges, c)

bool char_is_punctuation(uint32_t c)
{
    if (c < 0x80)
        return c && strchr("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", (int)c);
    return IN(punctuation, c);
}

bool char_is(const Tokenizer *t, const pcre2_code *which, const char *text, int len)
{
    return pcre2_match(which, (PCRE2_SPTR)text, (size_t)len, 0,
                       PCRE2_ANCHORED | PCRE2_NO_UTF_CHECK, t->match, NULL) > 0;
}

/* ---- the steps ------------------------------------------------------------------------------- */

static bool stays_whole(const char *text, size_t n, size_t at)
{
    return (unsigned char)text[at] < 0x80 ||
           IN(whole, utf8_value(text + at, utf8_length_at(text, n, at)));
}

/* Returns a normal form of text, malloc'ed; form: options of utf8proc. An ASCII character never
 * combines with the text before it, so the text may be cut there: only characters outside ASCII,
 * each with the one before it, go through the library. */
static char *compose(const char *text, size_t n, int form, size_t *nout)
{
    size_t cap = n + 64, from = 0;
    char *out = malloc(cap);
    *nout = 0;
    while (from < n) {
        size_t end = from;
        utf8proc_uint8_t *made = NULL;
        while (end < n && stays_whole(text, n, end))
            end += (size_t)utf8_length_at(text, n, end);
        size_t plain = end == n ? end : end - (end > from && (unsigned char)text[end - 1] < 0x80);
        size_t stop = end;
        while (stop < n && !stays_whole(text, n, stop))
            stop += (size_t)utf8_length_at(text, n, stop);
        utf8proc_ssize_t len = 0;
        if (stop > plain)
            len = utf8proc_map((const utf8proc_uint8_t *)text + plain,
                               (utf8proc_ssize_t)(stop - plain), &made, UTF8PROC_STABLE | form);
        if (len < 0)
            abort();             /* out of memory: the text is well-formed */
        size_t need = *nout + (plain - from) + (size_t)len + (n - stop);
        if (need > cap)
            out = realloc(out, cap = 2 * need);
        memcpy(out + *nout, text + from, plain - from);
        *nout += plain - from;
        if (len)
            memcpy(out + *nout, made, (size_t)len);
        *nout += (size_t)len;
        free(made);
        from = stop;
    }
    return out;
}

/* True if the capital sigma at text[at] ends a word: a cased character precedes it and none
 * follows, ignoring case-ignorable ones. */
static bool ends_word(const Tokenizer *t, const char *text, size_t n, size_t at)
{
    size_t before = at, after = at + 2;
    int len = 0;
    while (before) {
        size_t start = utf8_before(text, before);
        len = (int)(before - start);
        before = start;
        if (!char_is(t, t->ignorable, text + before, len))
            break;
        len = 0;
    }
    if (!len || !char_is(t, t->cased, text + before, len))
        return false;
    while (after < n && char_is(t, t->ignorable, text + after, utf8_length_at(text, n, after)))
        after += (size_t)utf8_length_at(text, n, after);
    return after == n || !char_is(t, t->cased, text + after, utf8_length_at(text, n, after));
}

/* Writes the replacement of character c at text[at] to out: up to 5 bytes. */
static size_t change(const Tokenizer *t, const NormalStep *step, uint32_t c, const char *text,
                     size_t n, size_t at, char *out)
{
    size_t len = 0;
    switch (step->kind) {
    case NORMAL_CLEAN:
        if (!c || c == 0xfffd || IN(controls, c))
            return 0;
        c = utf8_is_space(c) ? ' ' : c;
        break;
    case NORMAL_CHINESE:
        if (!IN(chinese, c))
            break;
        out[0] = ' ';
        len = 1 + utf8_put(out + 1, c);
        out[len] = ' ';
        return len + 1;
    case NORMAL_STRIP_ACCENTS:
        if (IN(accents, c))
            return 0;
        break;
    case NORMAL_STRIP_MARKS:
        if (IN(marks, c))
            return 0;
        break;
    case NORMAL_LOWERCASE:
        if (c == 0x130) {        /* the one whose small letter is two characters */
            memcpy(out, "i\u0307", 3);
            return 3;
        }
        c = c < 0x80 ? (c >= 'A' && c <= 'Z' ? c + 32 : c) : (uint32_t)utf8proc_tolower((int)c);
        break;
    case NORMAL_FINAL_SIGMA:
        if (c == CAPITAL_SIGMA && ends_word(t, text, n, at))
            c = FINAL_SIGMA;
        break;
    default:                     /* looks at more than a character */
        break;
    }
    return utf8_put(out, c);
}

/* True for a byte that the step certainly keeps, as most are. */
static bool stays(const NormalStep *step, unsigned char c)
{
    return c < 0x80 && (step->kind == NORMAL_CLEAN     ? c >= ' ' && c < 0x7f
                      : step->kind == NORMAL_LOWERCASE ? c < 'A' || c > 'Z' : true);
}

/* Applies the step to each character. *first: see normal_text(). */
static char *step_characters(const Tokenizer *t, const NormalStep *step, const char *text, size_t n,
                             size_t *nout, bool *first)
{
    char *out = malloc(2 * n + 8);       /* at most 3 bytes become 5, 2 become 3 */
    if (!out)
        abort();
    *nout = 0;
    for (size_t i = 0; i < n;) {
        if (stays(step, (unsigned char)text[i])) {
            out[(*nout)++] = text[i++];
            continue;
        }
        int len = utf8_length_at(text, n, i);
        *nout += change(t, step, utf8_value(text + i, len), text, n, i, out + *nout);
        *first = *first && *nout;
        i += (size_t)len;
    }
    return out;
}

/* As above, with `before` prepended. */
static char *copy_text(const char *before, size_t nbefore, const char *text, size_t n, size_t *nout)
{
    char *out = malloc(nbefore + n + 1);
    if (!out)
        abort();
    memcpy(out, before, nbefore);
    memcpy(out + nbefore, text, n);
    *nout = nbefore + n;
    return out;
}

static char *strip(const NormalStep *step, const char *text, size_t n, size_t *nout, bool *first)
{
    size_t from = 0;
    for (int len; step->left && from < n; from += (size_t)len) {
        len = utf8_length_at(text, n, from);
        if (!utf8_is_space(utf8_value(text + from, len)))
            break;
    }
    for (size_t before; step->right && n > from; n = before) {
        before = utf8_before(text, n);
        if (!utf8_is_space(utf8_value(text + before, (int)(n - before))))
            break;
    }
    *first = *first && !from;
    return copy_text("", 0, text + from, n - from, nout);
}

static char *replace(const Tokenizer *t, const NormalStep *step, const char *text, size_t n,
                     size_t *nout, bool *first)
{
    size_t begins;
    char *out = replace_text(&step->replace, t, text, n, nout, &begins);
    /* a replacement of several characters corresponds to the last of them */
    if (begins && (!step->replace.nput || begins > (size_t)utf8_length_at(text, n, 0)))
        *first = false;
    return out;
}

static char *step_text(const Tokenizer *t, const NormalStep *step, const char *text, size_t n,
                       size_t *nout, bool *first)
{
    switch (step->kind) {
    case NORMAL_NFC:
        return compose(text, n, UTF8PROC_COMPOSE, nout);
    case NORMAL_NFD:
        return compose(text, n, UTF8PROC_DECOMPOSE, nout);
    case NORMAL_NFKC:
        return compose(text, n, UTF8PROC_COMPOSE | UTF8PROC_COMPAT, nout);
    case NORMAL_NFKD:
        return compose(text, n, UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT, nout);
    case NORMAL_STRIP:
        return strip(step, text, n, nout, first);
    case NORMAL_PREPEND:
        return copy_text(step->replace.put, n ? step->replace.nput : 0, text, n, nout);
    case NORMAL_REPLACE:
        return replace(t, step, text, n, nout, first);
    case NORMAL_CHARSMAP:
        return charsmap_text(step->map, text, n, nout);
    default:
        return step_characters(t, step, text, n, nout, first);
    }
}

bool normal_changes(const Tokenizer *t, const char *text, size_t n)
{
    for (int i = 0; i < t->nsteps; i++)
        if (t->step[i].kind == NORMAL_CLEAN || t->step[i].kind == NORMAL_LOWERCASE ||
            t->step[i].kind >= NORMAL_STRIP)
            return true;
    for (size_t i = 0; t->nsteps && i < n; i++)
        if ((unsigned char)text[i] >= 0x80)
            return true;
    return false;
}

char *normal_text(const Tokenizer *t, const char *text, size_t n, size_t *nout, bool *first)
{
    char *made = NULL;
    *nout = n;
    for (int i = 0; i < t->nsteps; i++) {
        char *next = step_text(t, &t->step[i], made ? made : text, *nout, nout, first);
        free(made);
        made = next;
    }
    return made ? made : copy_text("", 0, text, n, nout);
}

void normal_free(Tokenizer *t)
{
    for (int i = 0; i < t->nsteps; i++) {
        replace_free(&t->step[i].replace);
        charsmap_free(t->step[i].map);
    }
}

/* ---- the file -------------------------------------------------------------------------------- */

static char *put(Tokenizer *t, NormalStep step)
{
    if (t->nsteps < STEPS_MAX) {
        t->step[t->nsteps++] = step;
        return NULL;
    }
    replace_free(&step.replace);
    charsmap_free(step.map);
    return format("normalizer: more than %d steps", STEPS_MAX);
}

static char *step_put(Tokenizer *t, int kind)
{
    return put(t, (NormalStep){.kind = kind});
}

/* Reads a boolean of a BertNormalizer; strip_accents may be null: the value of lowercase. */
static char *flag_of(const cJSON *n, const char *key, bool *on)
{
    const cJSON *v = json_get(n, key);
    *on = cJSON_IsTrue(v);
    return cJSON_IsBool(v) ? NULL : format("normalizer: BertNormalizer: %s: must be true or false",
                                           key);
}

static char *bert_load(Tokenizer *t, const cJSON *n)
{
    const cJSON *given = json_get(n, "strip_accents");
    bool clean, spaced, strip, lower = false;
    char *error = flag_of(n, "clean_text", &clean);
    if (!error)
        error = flag_of(n, "handle_chinese_chars", &spaced);
    if (!error)
        error = flag_of(n, "lowercase", &lower);
    strip = lower;
    if (!error && given && !cJSON_IsNull(given))
        error = flag_of(n, "strip_accents", &strip);
    if (!error && clean)
        error = step_put(t, NORMAL_CLEAN);
    if (!error && spaced)
        error = step_put(t, NORMAL_CHINESE);
    if (!error && strip)
        error = step_put(t, NORMAL_NFD);
    if (!error && strip)
        error = step_put(t, NORMAL_STRIP_ACCENTS);
    if (!error && lower)
        error = step_put(t, NORMAL_LOWERCASE);
    return error;
}

/* The Replace that words.h uses for a final sigma. */
static char *sigma_load(Tokenizer *t)
{
    static const char *const class[] = {"\\p{Cased}", "\\p{Case_Ignorable}"};
    for (int i = 0; i < 2; i++) {
        pcre2_code **to = i ? &t->ignorable : &t->cased;
        int code;
        PCRE2_SIZE at;
        if (!*to)
            *to = pcre2_compile((PCRE2_SPTR)class[i], PCRE2_ZERO_TERMINATED, PCRE2_UTF | PCRE2_UCP,
                                &code, &at, NULL);
        if (!*to)
            return format("PCRE2 10.40 or later is needed: error %d", code);
    }
    return step_put(t, NORMAL_FINAL_SIGMA);
}

static char *replace_step(Tokenizer *t, const cJSON *n)
{
    const char *regex = json_word(json_get(json_get(n, "pattern"), "Regex"));
    if (!strcmp(regex, NORMAL_SIGMA_REGEX) && !strcmp(json_word(json_get(n, "content")), "\u03c2"))
        return sigma_load(t);
    NormalStep step = {.kind = NORMAL_REPLACE};
    char *error = replace_load(&step.replace, "normalizer", n);
    if (!error)
        return put(t, step);
    replace_free(&step.replace);
    return error;
}

static char *prepend_step(Tokenizer *t, const cJSON *n)
{
    const char *text = cJSON_GetStringValue(json_get(n, "prepend"));
    if (!text)
        return format("normalizer: Prepend: prepend must be a text");
    return put(t, (NormalStep){.kind = NORMAL_PREPEND,
                               .replace = {.put = strdup(text), .nput = strlen(text)}});
}

static char *strip_step(Tokenizer *t, const cJSON *n)
{
    const cJSON *left = json_get(n, "strip_left"), *right = json_get(n, "strip_right");
    if (!cJSON_IsBool(left) || !cJSON_IsBool(right))
        return format("normalizer: Strip: strip_left and strip_right must be true or false");
    return put(t, (NormalStep){.kind = NORMAL_STRIP, .left = cJSON_IsTrue(left),
                               .right = cJSON_IsTrue(right)});
}

static char *charsmap_step(Tokenizer *t, const cJSON *n)
{
    const char *base64 = cJSON_GetStringValue(json_get(n, "precompiled_charsmap"));
    NormalStep step = {.kind = NORMAL_CHARSMAP};
    if (!base64)
        return format("normalizer: Precompiled: precompiled_charsmap must be a text");
    char *error = charsmap_load(&step.map, base64);
    return error ? error : put(t, step);
}

static char *sequence_load(Tokenizer *t, const cJSON *n)
{
    const cJSON *list = json_get(n, "normalizers");
    char *error = cJSON_IsArray(list) ? NULL
                : format("normalizer: Sequence: normalizers must be a list");
    for (const cJSON *i = error ? NULL : list->child; i && !error; i = i->next)
        error = normal_load(t, i);
    return error;
}

char *normal_load(Tokenizer *t, const cJSON *n)
{
    static const struct {
        const char *type;
        char *(*load)(Tokenizer *t, const cJSON *n);     /* NULL: the step says all */
        int kind;
    } types[] = {
        {"NFC", NULL, NORMAL_NFC}, {"NFD", NULL, NORMAL_NFD}, {"NFKC", NULL, NORMAL_NFKC},
        {"NFKD", NULL, NORMAL_NFKD}, {"Lowercase", NULL, NORMAL_LOWERCASE},
        {"StripAccents", NULL, NORMAL_STRIP_MARKS}, {"Strip", strip_step, 0},
        {"Prepend", prepend_step, 0}, {"Replace", replace_step, 0},
        {"Precompiled", charsmap_step, 0}, {"BertNormalizer", bert_load, 0},
        {"Sequence", sequence_load, 0},
    };
    if (!n || cJSON_IsNull(n))
        return NULL;
    const char *type = json_word(json_get(n, "type"));
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(type, types[i].type))
            return types[i].load ? types[i].load(t, n) : step_put(t, types[i].kind);
    return format("normalizer: must be NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, "
                  "Prepend, Replace, Precompiled, BertNormalizer or a Sequence of them, got %.40s",
                  type);
}
