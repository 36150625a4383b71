/* tokenizer_decode.c -- ids back to text.
 *
 * Method: byte-level tokens are bytes; other tokens are a list of texts, which each step of the
 *         decoder transforms and which are joined at the end. */
#define _GNU_SOURCE
#include "runtime/data/tokenizer_parts.h"

#include "runtime/base.h"
#include "runtime/files/json.h"
#include "runtime/files/utf8.h"

#include <stdlib.h>
#include <string.h>

/* Each maximal invalid prefix of a character becomes one U+FFFD. */
static char *make_valid(char *text, size_t n, size_t *nout)
{
    if (utf8_check(text, n) == n) {
        *nout = n;
        return text;
    }
    char *out = malloc(3 * n + 1);
    *nout = 0;
    for (size_t i = 0; i < n;) {
        int bad, len = utf8_length(text + i, n - i, &bad);
        memcpy(out + *nout, len ? text + i : "\xef\xbf\xbd", len ? (size_t)len : 3);
        *nout += len ? (size_t)len : 3;
        i += len ? (size_t)len : (size_t)bad;
    }
    out[*nout] = 0;
    free(text);
    return out;
}

/* Replacements of cleanup in a token with the space before it. */
static const struct {
    const char *from, *to;
} cleaner[] = {
    {" .", "."}, {" ?", "?"}, {" !", "!"}, {" ,", ","}, {" ' ", "'"}, {" n't", "n't"},
    {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
};

/* Replaces all occurrences of `from` in s after `at` by `to`, which is not longer. */
static void replace(Out *s, size_t at, const char *from, const char *to)
{
    size_t nfrom = strlen(from), nto = strlen(to);
    for (char *p; (p = memmem(s->text + at, s->n - at, from, nfrom));) {
        size_t i = (size_t)(p - s->text);
        memcpy(p, to, nto);
        memmove(p + nto, p + nfrom, s->n - i - nfrom + 1);
        s->n -= nfrom - nto;
        at = i + nto;
    }
}

/* ---- steps ----------------------------------------------------------------------------------- */

enum { STEPS_MAX = sizeof ((Tokenizer *)0)->decode / sizeof (DecodeStep) };

/* A list of texts. */
typedef struct {
    Out all;
    size_t *end;                 /* of each */
    size_t n, cap;
} Texts;

static void end_text(Texts *to)
{
    if (to->n == to->cap) {
        to->cap = 2 * to->cap + 64;
        to->end = realloc(to->end, to->cap * sizeof *to->end);
        if (!to->end)
            abort();
    }
    to->end[to->n++] = to->all.n;
}

/* Appends a word, or a part of one. */
static void put_word(const DecodeStep *step, const char *text, size_t n, bool first, Out *to)
{
    const size_t off = strlen(step->text), begin = to->n;
    const bool joins = !first && n >= off && !memcmp(text, step->text, off);
    if (!first && !joins)
        out_put(to, " ", 1);
    out_put(to, text + (joins ? off : 0), n - (joins ? off : 0));
    for (size_t i = 0; step->cleanup && i < sizeof cleaner / sizeof *cleaner; i++)
        replace(to, begin, cleaner[i].from, cleaner[i].to);
}

static void put_stripped(const DecodeStep *step, const char *text, size_t n, Out *to)
{
    const size_t len = strlen(step->text);
    for (int i = 0; i < step->start && n >= len && !memcmp(text, step->text, len); i++) {
        text += len;
        n -= len;
    }
    for (int i = 0; i < step->stop && n >= len && !memcmp(text + n - len, step->text, len); i++)
        n -= len;
    out_put(to, text, n);
}

static void put_spaces(const DecodeStep *step, const char *text, size_t n, bool first, Out *to)
{
    const size_t len = strlen(step->text);
    const char *end = text + n;
    for (const char *p; (p = memmem(text, (size_t)(end - text), step->text, len)); text = p + len) {
        out_put(to, text, (size_t)(p - text));
        out_put(to, " ", !(first && step->put_there));
    }
    out_put(to, text, (size_t)(end - text));
}

static void put_replaced(const DecodeStep *step, const Tokenizer *t, const char *text, size_t n,
                         Out *to)
{
    size_t len, begins;
    char *made = replace_text(&step->replace, t, text, n, &len, &begins);
    out_put(to, made, len);
    free(made);
}

/* Returns the byte of a token such as <0xE4>; -1: another token. */
static int byte_of(const char *text, size_t n)
{
    char *end, hex[3] = "";
    if (n != 6 || memcmp(text, "<0x", 3) || text[5] != '>')
        return -1;
    memcpy(hex, text + 3, 2);
    const long value = strtol(hex, &end, 16);
    return strspn(hex, "0123456789abcdefABCDEF") == 2 ? (int)value : -1;
}

/* Turns the bytes collected in `to` after `from` into characters, or each into a U+FFFD. */
static void end_bytes(Texts *to, size_t from)
{
    const size_t n = to->all.n - from;
    if (n && utf8_check(to->all.text + from, n) == n) {
        end_text(to);
        return;
    }
    to->all.n = from;
    for (size_t i = 0; i < n; i++) {
        out_put(&to->all, "\xef\xbf\xbd", 3);
        end_text(to);
    }
}

static Texts take_step(const DecodeStep *step, const Tokenizer *t, const Texts *from)
{
    Texts to = {0};
    size_t bytes = 0;            /* DECODE_FALLBACK: where those begin that wait */
    out_put(&to.all, "", 0);
    for (size_t i = 0; i < from->n; i++) {
        const size_t begin = i ? from->end[i - 1] : 0, n = from->end[i] - begin;
        const char *text = from->all.text + begin;
        const int byte = step->kind == DECODE_FALLBACK ? byte_of(text, n) : -1;
        if (byte >= 0) {
            out_put(&to.all, &(char){(char)byte}, 1);
            continue;
        }
        switch (step->kind) {
        case DECODE_FALLBACK:
            end_bytes(&to, bytes);
            out_put(&to.all, text, n);
            bytes = to.all.n;
            break;
        case DECODE_WORDPIECE:
            put_word(step, text, n, !i, &to.all);
            break;
        case DECODE_STRIP:
            put_stripped(step, text, n, &to.all);
            break;
        case DECODE_METASPACE:
            put_spaces(step, text, n, !i, &to.all);
            break;
        case DECODE_REPLACE:
            put_replaced(step, t, text, n, &to.all);
            break;
        case DECODE_FUSE:
            out_put(&to.all, text, n);
            continue;
        }
        end_text(&to);
    }
    if (step->kind == DECODE_FALLBACK)
        end_bytes(&to, bytes);
    if (step->kind == DECODE_FUSE)
        end_text(&to);
    return to;
}

/* Appends an added token between bytes. */
static void put_mapped(const Added *a, Out *to)
{
    char *bytes = malloc(a->nmatch + 1);     /* upstream's decoder maps added tokens, too */
    size_t k;
    bool mapped = bpe_unmap(a->match, a->nmatch, bytes, &k);
    out_put(to, mapped ? bytes : a->match, mapped ? k : a->nmatch);
    free(bytes);
}

static void decode_bytes(const int32_t *ids, size_t n, bool skip_specials, Out *to)
{
    static const char end[] = "<|endoftext|>";
    for (size_t i = 0; i < n; i++)
        if (ids[i] == BYTES_EOS)
            out_put(to, end, skip_specials ? 0 : sizeof end - 1);
        else
            out_put(to, &(char){(char)ids[i]}, ids[i] >= 0 && ids[i] < 256);
}

static char *decode_texts(const Tokenizer *t, Texts texts, size_t *nbytes)
{
    for (int i = 0; i < t->ndecode; i++) {
        Texts next = take_step(&t->decode[i], t, &texts);
        free(texts.all.text);
        free(texts.end);
        texts = next;
    }
    free(texts.end);
    return make_valid(texts.all.text, texts.all.n, nbytes);
}

/* True if normalisation does not change it: upstream recognises specials by their decoded text. */
static bool is_plain(const Added *a)
{
    return strlen(a->content) == a->nmatch && !memcmp(a->content, a->match, a->nmatch);
}

char *tokenizer_decode(const Tokenizer *t, const int32_t *ids, size_t n, bool skip_specials,
                       size_t *nbytes)
{
    Texts texts = {0};
    Out *to = &texts.all;
    out_put(to, "", 0);
    if (t->bytes)
        decode_bytes(ids, n, skip_specials, to);
    for (size_t i = 0; i < n && !t->bytes; i++) {
        const Added *a = added_of(t, ids[i]);
        size_t k = 0;
        const char *text = a ? a->match : model_text(t, ids[i], &k);
        if (!text || (skip_specials && a && a->special && is_plain(a)))
            continue;
        if (t->spaced && texts.n)
            out_put(to, " ", 1);
        if (t->byte_level && a)
            put_mapped(a, to);
        else
            out_put(to, text, a ? a->nmatch : k);
        end_text(&texts);
    }
    if (!t->bytes)
        return decode_texts(t, texts, nbytes);
    *nbytes = to->n;
    return to->text;
}

/* ---- the file -------------------------------------------------------------------------------- */

static char *put_step(Tokenizer *t, DecodeStep step)
{
    if (t->ndecode == STEPS_MAX) {
        replace_free(&step.replace);
        free(step.text);
        return format("decoder: more than %d steps", STEPS_MAX);
    }
    t->decode[t->ndecode++] = step;
    return NULL;
}

static char *wordpiece_step(Tokenizer *t, const cJSON *d)
{
    const cJSON *prefix = json_get(d, "prefix"), *cleanup = json_get(d, "cleanup");
    if (!cJSON_IsString(prefix) || !cJSON_IsBool(cleanup))
        return format("decoder: WordPiece: needs a prefix, and cleanup true or false");
    return put_step(t, (DecodeStep){.kind = DECODE_WORDPIECE, .text = strdup(prefix->valuestring),
                                    .cleanup = cJSON_IsTrue(cleanup)});
}

static char *fuse_step(Tokenizer *t, const cJSON *d)
{
    (void)d;
    return put_step(t, (DecodeStep){.kind = DECODE_FUSE});
}

static char *fallback_step(Tokenizer *t, const cJSON *d)
{
    (void)d;
    return put_step(t, (DecodeStep){.kind = DECODE_FALLBACK});
}

static char *replace_step(Tokenizer *t, const cJSON *d)
{
    DecodeStep step = {.kind = DECODE_REPLACE};
    char *error = replace_load(&step.replace, "decoder", d);
    if (!error)
        return put_step(t, step);
    replace_free(&step.replace);
    return error;
}

static char *strip_step(Tokenizer *t, const cJSON *d)
{
    const char *content = cJSON_GetStringValue(json_get(d, "content"));
    const int start = tokens_json_id(json_get(d, "start")),
              stop = tokens_json_id(json_get(d, "stop"));
    if (!is_character(content) || start < 0 || stop < 0)
        return format("decoder: Strip: needs a content of one character, and start and stop "
                      "from 0");
    return put_step(t, (DecodeStep){.kind = DECODE_STRIP, .text = strdup(content), .start = start,
                                    .stop = stop});
}

static char *metaspace_step(Tokenizer *t, const cJSON *d)
{
    const cJSON *scheme = json_get(d, "prepend_scheme"), *old = json_get(d, "add_prefix_space");
    DecodeStep step = {.kind = DECODE_METASPACE};
    char *error = metaspace_mark(d, "decoder", &step.text);
    step.put_there = scheme ? strcmp(json_word(scheme), "never") : !cJSON_IsFalse(old);
    return error ? error : put_step(t, step);
}

static char *steps_load(Tokenizer *t, const cJSON *d);

static char *sequence_load(Tokenizer *t, const cJSON *d)
{
    const cJSON *list = json_get(d, "decoders");
    char *error = cJSON_IsArray(list) ? NULL
                : format("decoder: Sequence: decoders must be a list");
    for (const cJSON *i = error ? NULL : list->child; i && !error; i = i->next)
        error = steps_load(t, i);
    return error;
}

static char *steps_load(Tokenizer *t, const cJSON *d)
{
    static const struct {
        const char *type;
        char *(*load)(Tokenizer *t, const cJSON *d);
    } types[] = {
        {"WordPiece", wordpiece_step}, {"Fuse", fuse_step}, {"ByteFallback", fallback_step},
        {"Replace", replace_step}, {"Strip", strip_step}, {"Metaspace", metaspace_step},
        {"Sequence", sequence_load},
    };
    const char *type = json_word(json_get(d, "type"));
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(type, types[i].type))
            return types[i].load(t, d);
    return format("decoder: must be WordPiece, Fuse, ByteFallback, Replace, Strip, Metaspace or a "
                  "Sequence of them, got %.40s", type);
}

char *decode_load(Tokenizer *t, const cJSON *d)
{
    const bool none = !d || cJSON_IsNull(d);
    const char *type = json_word(json_get(d, "type"));
    t->spaced = none && !t->byte_level;
    if (none || (t->byte_level && !strcmp(type, "ByteLevel")))
        return NULL;
    if (t->byte_level)
        return format("decoder: must be ByteLevel, like the pre_tokenizer, got %.40s", type);
    return steps_load(t, d);
}

void decode_free(Tokenizer *t)
{
    for (int i = 0; i < t->ndecode; i++) {
        free(t->decode[i].text);
        replace_free(&t->decode[i].replace);
    }
}
