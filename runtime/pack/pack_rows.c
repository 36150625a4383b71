/* pack_rows.c -- converts chunks of the input to ids and targets, by the rows of formats.def.
 *
 * In:    a Chunk: JSON rows, lines, or a stretch of a text; Rules.
 * Out:   Encoded; depends only on the chunk, so threads may work in any order.
 * Keeps: a malformed row is added to Encoded.bad while Rules.skip_bad allows; any other error ends
 *        the chunk, with its place and message in Encoded. */
#define _GNU_SOURCE
#include "runtime/pack/pack.h"

#include "runtime/base.h"
#include "runtime/files/json.h"
#include "runtime/files/names.h"

#include <stdlib.h>
#include <string.h>

/* ---- a sample -------------------------------------------------------------------------------- */

/* True if an object has one of the keys "a|b|c", by `least`: with any value, one that is not null,
 * or with content. */
typedef enum { HAS_CONTENT, HAS_VALUE, HAS_KEY, NHAS } Has;

static bool has_any(const cJSON *json, const char *keys, Has least)
{
    for (const cJSON *m = json->child; m; m = m->next)
        if ((least == HAS_KEY || (least == HAS_VALUE ? !cJSON_IsNull(m) : has_content(m))) &&
            names_listed(keys, m->string))
            return true;
    return false;
}

/* Returns the first format that fits the keys of an object; NULL: none. Keys without content count
 * only if no key has content. */
static const Format *format_by_keys(const cJSON *json)
{
    for (Has least = HAS_CONTENT; least < NHAS; least++)
        for (int i = 0; i < NFORMATS; i++)
            if (has_any(json, pack_format[i].has, least))
                return &pack_format[i];
    return NULL;
}

static char *want_keys(void)
{
    char *all = format("needs the keys ");
    for (int i = 0, left = 0; i < NFORMATS; i++) {
        const char *has = pack_format[i].has, *bar = strchr(has, '|');
        for (int k = left = 0; k < NFORMATS; k++)
            left += k > i && *pack_format[k].has;
        if (!*has)
            continue;
        char *longer = format("%s%.*s%s%s%s", all, bar ? (int)(bar - has) : (int)strlen(has), has,
                              bar ? " and " : "", bar ? bar + 1 : "",
                              left > 1 ? ", " : left ? ", or " : "");
        free(all);
        all = longer;
    }
    return all;
}

/* True if a row has all keys by which its format is recognised; else it is of another format. */
static bool has_keys(const Format *f, const cJSON *json)
{
    const char *list = *f->has ? f->has : f->reads & READS_TEXT ? f->uses : "";
    for (size_t n; *list; list += n + (list[n] == '|')) {
        char word[64];
        n = strcspn(list, "|");
        snprintf(word, sizeof word, "%.*s", (int)n, list);
        if (!json_get(json, word))
            return false;
    }
    return true;
}

/* Returns the error of a row that no format fits. */
static char *no_format(const cJSON *json)
{
    if (!cJSON_IsObject(json))
        return format("must be a JSON object, or a list of messages");
    if (has_any(json, "role|from", HAS_KEY))
        return format("a single message: a row must be a list of them, [{\"role\", \"content\"}, "
                      "...], or {\"messages\": [...]}");
    return want_keys();
}

/* Returns the code of a format; NULL: the program has none. */
static const FormatCode *code_of(const Rules *rules, Form form)
{
    const FormatCode *const *at = rules->formats;
    while (at && *at && (*at)->form != form)
        at++;
    return at ? *at : NULL;
}

static char *row_encode(const Rules *rules, const Tokenizer *tok, const Sample *s, Encoded *e,
                        RowOut *row)
{
    const bool object = !s->json || cJSON_IsObject(s->json);
    const Format *f = !object ? NULL : rules->format ? rules->format : format_by_keys(s->json);
    if (!f)
        return row->stops = true, no_format(s->json);
    row->form = (Form)(f - pack_format);
    const FormatCode *code = code_of(rules, row->form);
    const bool ready = code && (!code->records || !code->records->begin || rules->more);
    if (!ready && *f->elsewhere)
        return row->stops = true, format("%s: %s", f->has, f->elsewhere);
    if (!ready)
        return NULL;                     /* pack_kind() reports why */
    row->records = code->records;
    row->tools = s->json && f->kind <= KIND_PAIRS ? sample_get(s->json, "tools") : NULL;
    const int first = e->nrows;          /* of a sample with several rows */
    char *error = code->encode(rules, tok, s, e, row);
    for (int i = first; i <= e->nrows; i++)
        e->row[i].tools = NULL;
    if (!error && s->json && !e->row[first].drop)
        keys_note(f, s->json, e, first);
    if (error && s->json && !has_keys(f, s->json))
        e->row[e->nrows].stops = true;
    return error;
}

/* ---- chunks ---------------------------------------------------------------------------------- */

static void encode_stretch(const Rules *rules, const Tokenizer *tok, const Chunk *p, Encoded *e)
{
    const Form form = rules->format ? (Form)(rules->format - pack_format) : FORM_FILE;
    const FormatCode *code = code_of(rules, form);
    RowOut *row = encoded_row(e, form, code ? code->records : NULL, p->file, 0);
    char *error = code ? code->stretch(rules, tok, p, e) : NULL;
    if (error && p->offset) {
        e->error = format("in the text from byte %lld on: %s", (long long)p->offset, error);
        free(error);
    } else {
        e->error = error;
    }
    e->error_at = p->place;
    row->n = e->n - row->begin;
    row->bytes = (int64_t)p->n;
    e->nrows += !e->error;
}

/* True if "byte N: ..." means that an object or a list does not end in its n bytes. */
static bool ends_early(const char *error, const char *text, size_t n)
{
    return (*text == '{' || *text == '[') && strtoull(error + strlen("byte "), NULL, 10) >= n;
}

/* Encodes a JSON object, or a list, which is taken as the messages of an object. */
static char *encode_object(const Rules *rules, const Tokenizer *tok, const char *text, size_t n,
                           Encoded *e, RowOut *row)
{
    char *error = NULL;
    cJSON *json = json_parse(text, n, &error);
    if (is_messages(json)) {
        cJSON *list = json;
        json = cJSON_CreateObject();
        cJSON_AddItemToObject(json, "messages", list);
    }
    if (json) {
        keys_ignore(rules, json, row);
        error = row_encode(rules, tok, &(Sample){.json = json}, e, row);
    } else {
        /* its line number counts within this row, so it is dropped */
        char *what = strstr(error, "byte ");
        char *only = format("%s%s", what ? what : error, what && ends_early(what, text, n)
            ? "; a row of JSON Lines is one line: jq -c . FILE > ROWS.jsonl converts it" : "");
        free(error);
        error = only;
    }
    cJSON_Delete(json);
    return error;
}

static char *encode_line(const Rules *rules, const Tokenizer *tok, const char *text, size_t n,
                         Encoded *e, RowOut *row)
{
    const char *zero = memchr(text, 0, n);
    if (zero)
        return format("byte %lld is 0: binary data, not lines of text", (long long)(zero - text));
    return row_encode(rules, tok, &(Sample){.text = text, .n = n}, e, row);
}

/* Removes a row that failed: adds it to the malformed rows, or ends the chunk. Takes error. */
static void row_fails(const Rules *rules, const Chunk *p, int line, int first, char *error,
                      Encoded *e)
{
    const Location at = {p->place.file, line};
    const bool stops = e->row[e->nrows].stops;
    for (int k = first; k <= e->nrows; k++)
        row_free(&e->row[k]);
    e->nrows = first;
    e->n = e->row[first].begin;
    if (stops || !rules->skip_bad) {
        e->error = error;
        e->error_at = at;
        return;
    }
    e->bad = realloc(e->bad, (size_t)(e->nbad + 1) * sizeof *e->bad);
    if (!e->bad)
        abort();
    e->bad[e->nbad++] = (BadRow){.before = first, .at = at, .why = error};
}

void rows_encode(const Rules *rules, const Tokenizer *tok, const Chunk *p, Encoded *e)
{
    if (p->reads == READS_TEXT && (p->n || p->last))
        encode_stretch(rules, tok, p, e);
    for (int i = 0; i < p->nspans && !e->error && e->nbad <= rules->skip_bad; i++) {
        const Span *s = &p->span[i];
        const int first = e->nrows;
        RowOut *row = encoded_row(e, FORM_TEXT, NULL, p->file, s->line);
        char *error = (p->reads == READS_LINES ? encode_line : encode_object)(
            rules, tok, p->text + s->at, s->n, e, row);
        row = &e->row[e->nrows];         /* the last one, of a sample with several rows */
        row->n = e->n - row->begin;
        spans_done(e, row->begin);
        if (error)
            row_fails(rules, p, s->line, first, error, e);
        else
            e->nrows++;
    }
    if (!e->error && p->error) {
        e->error = format("%s", p->error);
        e->error_at = p->error_at;
    }
}
