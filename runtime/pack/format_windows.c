/* format_windows.c -- overlapping windows of texts, one stride apart.
 *
 * Out:   rows: the begin-of-text token, if there is one, and the tokens of a window that fit; the
 *        last window of a text ends with it. A text shorter than a window is one row.
 * Keeps: memory for one window and one stretch of text. */
#define _GNU_SOURCE
#include "runtime/pack/pack.h"

#include "runtime/base.h"
#include "runtime/files/json.h"

#include <stdlib.h>
#include <string.h>

static char *encode(const Rules *rules, const Tokenizer *tok, const Sample *s, Encoded *e,
                     RowOut *row)
{
    char *error = NULL;
    const char *text = sample_string(s, "text", &error);
    (void)rules;
    if (error)
        return error;
    row->bytes = (int64_t)strlen(text);
    if (!row->bytes)
        row->drop = DROP_EMPTY;
    return row->bytes ? encode_text(tok, text, (size_t)row->bytes, false, true, e) : NULL;
}

static char *stretch(const Rules *rules, const Tokenizer *tok, const Chunk *p, Encoded *e)
{
    (void)rules;
    return encode_text(tok, p->text, p->n, false, true, e);
}

/* The current text. */
typedef struct {
    int32_t *id, *row;           /* (n) tokens of the text from `base` on; a window */
    uint8_t *target;             /* of a window: all 1 */
    int64_t base, n, cap;
    int64_t next, last;          /* beginnings of the next and the previous window; -1: none */
    int64_t ntokens;             /* of all texts */
} Windows;

static Windows *windows_of(Pack *p)
{
    if (!p->more)
        p->more = calloc(1, sizeof(Windows));
    if (!p->more)
        abort();
    return p->more;
}

static void grow(Windows *w, int64_t n, int64_t T)
{
    if (w->cap - w->n <= n) {
        w->cap = 2 * w->cap + n + 1;
        w->id = realloc(w->id, (size_t)w->cap * sizeof *w->id);
    }
    if (!w->row) {
        w->row = malloc((size_t)T * sizeof *w->row);
        w->target = malloc((size_t)T);
    }
    if (!w->id || !w->row || !w->target)
        abort();
    memset(w->target, 1, (size_t)T);
}

typedef void Each(void *user, const int32_t *id, const uint8_t *target, size_t n);

/* Emits the window of at most n tokens from position `at` of the text. */
static void emit(Pack *p, const Tokenizer *tok, int64_t at, int64_t n, bool held,
                 Each *each, void *user)
{
    Windows *w = p->more;
    const int32_t first = windows_first(tok);
    const int64_t before = first >= 0, most = p->max_length - before;
    n = n < most ? n : most;
    if (before)
        w->row[0] = first;
    memcpy(w->row + before, w->id + (at - w->base), (size_t)n * sizeof *w->row);
    each(user, w->row, w->target, (size_t)(before + n));
    pack_put(p, w->row, w->target, (size_t)(before + n), held);
    w->last = at;
}

/* Drops the tokens before all later windows. */
static void forget(Windows *w, int64_t T)
{
    int64_t end = w->base + w->n, keep = w->next < end - T ? w->next : end - T;
    if (keep <= w->base)
        return;
    w->n = end - keep;
    memmove(w->id, w->id + (keep - w->base), (size_t)w->n * sizeof *w->id);
    w->base = keep;
}

/* Returns " at byte N" of a document's file; "" for a row, which has a line; malloc'ed. */
static char *byte_of(const Chunk *from, const char *word)
{
    const char *at = from->reads == READS_TEXT ? memmem(from->text, from->n, word, strlen(word))
                                               : NULL;
    return at ? format(" at byte %lld", (long long)(from->offset + (at - from->text) + 1))
              : format("%s", "");
}

/* Fails and returns true if the text contains the mask token, spelled out. */
static bool has_mask(Pack *p, const Tokenizer *tok, const Chunk *from, const int32_t *id,
                     const RowOut *row)
{
    const int32_t mask = tokenizer_mask(tok);
    for (size_t i = 0, n; i < row->n && mask >= 0; i++)
        if (id[i] == mask) {
            char *word = tokenizer_decode(tok, &mask, 1, false, &n), *at = byte_of(from, word);
            pack_fail(p, EXIT_DATA, (Location){from->place.file, row->line},
                      format("the text contains the mask token %s%s (id %d): remove it", word, at,
                             mask));
            free(word), free(at);
            return true;
        }
    return false;
}

static void put_text(Pack *p, const Rules *rules, const Tokenizer *tok, const Chunk *from,
                     const int32_t *id, const RowOut *row, bool first, bool last, Each *each,
                     void *user)
{
    Windows *w = windows_of(p);
    const int64_t T = p->max_length;
    if (has_mask(p, tok, from, id, row))
        return;
    if (first)
        w->base = w->n = w->next = 0, w->last = -1;
    grow(w, (int64_t)row->n, T);
    if (row->n)
        memcpy(w->id + w->n, id, row->n * sizeof *id);
    w->n += (int64_t)row->n;
    w->ntokens += (int64_t)row->n;
    const int64_t end = w->base + w->n;
    for (; end - w->next >= T; w->next += rules->stride)
        emit(p, tok, w->next, T, from->held_out, each, user);
    if (last && end && (w->last < 0 || w->last + T < end))
        emit(p, tok, w->last < 0 ? 0 : end - T, w->last < 0 ? end : T, from->held_out, each, user);
    forget(w, T);
}

/* Hashes n. */
static uint64_t mixed(uint64_t n)
{
    n = (n ^ n >> 30) * 0xbf58476d1ce4e5b9u;
    n = (n ^ n >> 27) * 0x94d049bb133111ebu;
    return n ^ n >> 31;
}

/* Each window is chosen with probability (still to choose) / (still left). */
static void hold(Pack *p, double share)
{
    int64_t want = (int64_t)((double)p->ndocs * share + 1e-6);
    p->nheld_out = want;
    for (int64_t i = 0; i < p->ndocs; i++) {
        bool take = (int64_t)(mixed((uint64_t)i + 1) % (uint64_t)(p->ndocs - i)) < want;
        p->held_out[i] = take;
        want -= take;
    }
}

static void report(const Pack *p, const Rules *r, const Tokenizer *tok, FILE *to)
{
    const Windows *w = p->more;
    fprintf(to, "windows of %lld tokens, %lld apart, of %lld tokens of text, each after %s",
            (long long)p->max_length, (long long)r->stride, (long long)(w ? w->ntokens : 0),
            windows_first(tok) < 0 ? "no token: the tokenizer has no begin-of-text token" : "");
    if (windows_first(tok) >= 0)
        fprintf(to, "token %d", windows_first(tok));
    if (p->nheld_out)
        fprintf(to, "; %lld for training, %lld for validation: %s %g of %s",
                (long long)(p->ndocs - p->nheld_out), (long long)p->nheld_out,
                r->held_out == HELD_OUT_TAIL ? "the last" : "a random", r->share,
                r->held_out == HELD_OUT_TAIL ? "each text" : "them");
    fputc('\n', to);
}

static void free_windows(Pack *p)
{
    Windows *w = p->more;
    if (w)
        free(w->id), free(w->row), free(w->target);
    free(w);
}

static const RecordCode records = {
    .put_text = put_text, .hold = hold, .report = report, .free = free_windows};
const FormatCode windows_format = {
    .form = FORM_WINDOWS, .encode = encode, .stretch = stretch, .records = &records,
    .open_arrays = prepared_open};
