/* pack_render_targets.c -- which tokens of a conversation rendered by a chat_template are targets.
 *
 * In:    a rendered conversation (pack_render.c) and its ids.
 * Out:   targets: the assistant mask of transformers where the template has {% generation %}.
 * Method: without marks an answer begins where the prompt that asks for it ends, and ends where the
 *         conversation up to it does. Both must be in the text of the row: a template that renders
 *         them differently there is refused, with the message. */
#include "runtime/pack/pack_render.h"

#include "runtime/base.h"
#include "runtime/files/json.h"
#include "runtime/files/utf8.h"

#include <stdlib.h>
#include <string.h>

/* ---- tokens ---------------------------------------------------------------------------------- */

/* Finds the tokens of offsets in the text; quickly, if they do not decrease. */
typedef struct {
    const Tokenizer *tok;
    const JinjaText *text;
    const Encoded *all;          /* ids of the text from `begin` on */
    size_t begin, base, ids;     /* of the text before `base`: number of ids */
    Encoded part;
} Places;

/* Sets *end to where the first `same` ids after p->base end: before `offset`, whose text alone has
 * others after them. Their own bytes may be others than those of the text: tokenizers normalise. */
static char *end_of(Places *p, size_t offset, size_t same, size_t *end)
{
    const char *text = p->text->text;
    const int32_t *all = p->all->id + p->begin + p->ids;
    char *error = NULL;
    for (*end = offset; *end > p->base && !error;) {
        *end = utf8_before(text, *end);
        p->part.n = 0;
        if (*end > p->base)
            error = encode_text(p->tok, text + p->base, *end - p->base, false, false, &p->part);
        if (p->part.n == same && (!same || !memcmp(all, p->part.id, same * sizeof *all)))
            break;
    }
    return error;
}

/* Sets *id to the number of ids that end at or before `offset`; inside: the next one has bytes on
 * both sides of it. */
static char *place(Places *p, size_t offset, size_t *id, bool *inside)
{
    const char *text = p->text->text;
    const int32_t *all = p->all->id + p->begin;
    const size_t n = p->all->n - p->begin;
    if (offset < p->base)
        p->base = p->ids = 0;
    const size_t cut = tokenizer_cut(p->tok, text + p->base, offset - p->base);
    char *error = NULL;
    p->part.n = 0;
    if (cut)
        error = encode_text(p->tok, text + p->base, cut, false, false, &p->part);
    if (!error && p->part.n && p->ids + p->part.n <= n &&
        !memcmp(all + p->ids, p->part.id, p->part.n * sizeof *all)) {
        p->base += cut;
        p->ids += p->part.n;
    }
    p->part.n = 0;
    if (!error && offset > p->base)
        error = encode_text(p->tok, text + p->base, offset - p->base, false, false, &p->part);
    if (error)
        return error;
    size_t same = 0, at = p->base;
    while (same < p->part.n && p->ids + same < n && all[p->ids + same] == p->part.id[same])
        same++;
    *inside = same < p->part.n;
    *id = p->ids + same;
    if (!*inside)
        return NULL;
    /* the bytes of the ids that differ say which of them has the offset */
    error = end_of(p, offset, same, &at);
    for (size_t width; !error && *id < n; ++*id, at += width) {
        char *piece = tokenizer_decode(p->tok, all + *id, 1, false, &width);
        free(piece);
        if (at + width > offset)
            break;
    }
    *inside = at < offset;
    return error;
}

/* Marks the tokens that have a byte of [from, to). */
static char *mark(Places *p, size_t from, size_t to, uint8_t with, Encoded *e, RowOut *row)
{
    size_t first, last;
    bool inside;
    char *error = NULL;
    if (from >= to)
        return NULL;
    error = place(p, from, &first, &inside);
    row->not_prefix |= !error && inside;
    error = error ? error : place(p, to, &last, &inside);
    for (size_t i = first; !error && i < last + inside && p->begin + i < e->n; i++)
        e->target[p->begin + i] = with;
    e->hides |= with == TARGET_HIDDEN;
    return error;
}

/* Excludes them, if they are targets. */
static char *mark_hidden(Places *p, size_t from, size_t to, Encoded *e)
{
    size_t first = 0, last = 0;
    bool inside = false;
    char *error = place(p, from, &first, &inside);
    error = error ? error : place(p, to, &last, &inside);
    for (size_t i = p->begin + first; !error && i < p->begin + last + inside && i < e->n; i++)
        e->target[i] = e->target[i] ? TARGET_HIDDEN : 0;
    e->hides = true;
    return error;
}

/* ---- answers --------------------------------------------------------------------------------- */

static size_t common(const JinjaText *a, const JinjaText *b)
{
    size_t n = 0;
    while (n < a->n && n < b->n && a->text[n] == b->text[n])
        n++;
    return n;
}

/* True if what `part` has after its first `same` bytes is white space or an added token that also
 * ends the whole: the end of any conversation. Moves *same to its beginning. */
static bool is_end(const Tokenizer *tok, const JinjaText *part, const JinjaText *whole,
                   size_t *same)
{
    const size_t tail = part->n - *same;
    if (strspn(part->text + *same, " \n") == tail && tail <= whole->n &&
        !memcmp(part->text + *same, whole->text + whole->n - tail, tail))
        return true;
    for (size_t back = 0; back <= *same && back < 64; back++) {
        const size_t at = *same - back, n = part->n - at;
        if (n > whole->n || memcmp(whole->text + whole->n - n, part->text + at, n))
            return false;
        if (tokenizer_added(tok, part->text + at) >= 0) {
            *same = at;
            return true;
        }
    }
    return false;
}

/* Sets *at to the length of the first n messages in the text of all; prompt: with the beginning of
 * the answer after them. */
static char *length_of(const RenderedTalk *talk, const Tokenizer *tok, int n, bool prompt,
                       size_t *at)
{
    JinjaText part;
    char *why = NULL;
    if (n == talk->n) {
        *at = talk->text.n;
        return NULL;
    }
    if (!n && !prompt) {
        *at = 0;
        return NULL;
    }
    char *error = talk_render(talk, n, prompt, &part);
    if (error) {
        why = format("message %d: its part of the text cannot be found: of the messages before it "
                     "alone the chat_template says: %s", n + 1, error);
        free(error);
        return why;
    }
    size_t same = common(&part, &talk->text);
    if (same < part.n && prompt && !n) {
        why = format("message 1: an answer to nothing, whose beginning cannot be found: the "
                     "chat_template begins another one");
    } else if (same < part.n && prompt) {    /* the answer begins otherwise than its prompt ends */
        size_t least;
        why = length_of(talk, tok, n, false, &least);
        if (!why && same < least)
            why = format("message %d: the chat_template renders the messages before this answer "
                         "differently to ask for it", n + 1);
    } else if (same < part.n && !is_end(tok, &part, &talk->text, &same)) {
        const bool answer = !strcmp(talk->turn[n - 1].role, "assistant");
        why = format("message %d: the chat_template renders it differently when others follow "
                     "(from byte %zu of the row on), so %s", n, same,
                     answer ? "the model would learn another form than that of a last answer: "
                              "--loss-on turns gives each turn a row that ends with its "
                              "answers; or exclude it with \"train\": false"
                            : "the answer after it cannot be found: use a template that marks "
                              "answers with {% generation %}");
    }
    *at = same;
    jinja_text_free(&part);
    return why;
}

/* Marks an answer, or with its opening all of a message. */
static char *mark_message(const RenderedTalk *talk, int i, bool whole, uint8_t with, Places *p,
                          Encoded *e, RowOut *row)
{
    size_t from, to;
    char *error = length_of(talk, p->tok, i, !whole, &from);
    error = error ? error : length_of(talk, p->tok, i + 1, false, &to);
    return error ? error : mark(p, from, to, with, e, row);
}

/* Marks the answers that the template marks; a mark after the loop over messages, as around the end
 * of a text, is the last one's. */
static char *mark_spans(const RenderedTalk *talk, Places *p, Encoded *e, RowOut *row)
{
    char *error = NULL;
    for (int k = 0; k < talk->text.nspans && !error; k++) {
        const JinjaSpan *s = &talk->text.span[k];
        const Turn *turn = &talk->turn[s->item < 0 ? talk->n - 1 : s->item];
        if (s->item < 0 && k && talk->text.span[k - 1].item != talk->n - 1)
            return format("the chat_template in %s marks text outside of a loop over messages: "
                          "which answer it is cannot be known", talk->t->from);
        if (turn->target != TARGET_GIVEN)
            error = mark(p, s->begin, s->end, turn->hidden ? TARGET_HIDDEN : 1, e, row);
    }
    return error;
}

/* ---- parts of an answer ---------------------------------------------------------------------- */

/* Finds byte `at` of the content of message i in the text: renders it with a word put there. False:
 * the text without the word is another one. */
static bool content_place(const RenderedTalk *talk, int i, const char *content, size_t at,
                          size_t *place)
{
    static const char word[] = "qzspanzq";
    const size_t n = sizeof word - 1;
    cJSON *messages = cJSON_Duplicate(talk->messages, true);
    RenderedTalk with = *talk;
    char *marked = format("%.*s%s%s", (int)at, content, word, content + at);
    with.messages = messages;
    cJSON_ReplaceItemInObjectCaseSensitive(cJSON_GetArrayItem(messages, i), "content",
                                           cJSON_CreateString(marked));
    char *error = talk_render(&with, with.n, false, &with.text);
    const char *found = error ? NULL : strstr(with.text.text, word);
    const size_t before = found ? (size_t)(found - with.text.text) : 0;
    const bool same = found && with.text.n == talk->text.n + n &&
                      !memcmp(with.text.text, talk->text.text, before) &&
                      !memcmp(found + n, talk->text.text + before, talk->text.n - before);
    *place = before;
    free(error), free(marked);
    jinja_text_free(&with.text);
    cJSON_Delete(messages);
    return same;
}

/* Excludes the spans "masked" of message i from the targets. White space at the ends of a span may
 * be what the template strips. */
static char *hide_spans(const RenderedTalk *talk, int i, Places *p, Encoded *e)
{
    static const char blanks[] = " \t\n\r";
    const cJSON *masked = talk->turn[i].masked, *m = cJSON_GetArrayItem(talk->messages, i);
    const char *content = cJSON_GetStringValue(json_get(m, "content"));
    if (masked && (!cJSON_IsArray(masked) || !content))
        return format("message %d: masked: %s", i + 1,
                      content ? "must be a list of [begin, end)" : "its content must be a string");
    for (const cJSON *span = masked ? masked->child : NULL; span; span = span->next) {
        size_t begin, end, from, to;
        char *error = spans_read(span, content, &begin, &end);
        if (error) {
            char *placed = format("message %d: %s", i + 1, error);
            free(error);
            return placed;
        }
        while (begin < end && strchr(blanks, content[begin]) &&
               !content_place(talk, i, content, begin, &from))
            begin++;
        while (begin < end && strchr(blanks, content[end - 1]) &&
               !content_place(talk, i, content, end, &to))
            end--;
        if (begin == end)
            continue;
        if (!content_place(talk, i, content, begin, &from) ||
            !content_place(talk, i, content, end, &to))
            return format("message %d: masked: the chat_template in %s does not render this part "
                          "of the content as it is", i + 1, talk->t->from);
        error = mark_hidden(p, from, to, e);
        if (error)
            return error;
    }
    return NULL;
}

char *talk_targets(const RenderedTalk *talk, const Rules *rules, const Tokenizer *tok, Encoded *e,
                   size_t begin, RowOut *row)
{
    Places p = {.tok = tok, .text = &talk->text, .all = e, .begin = begin};
    bool whole = false;
    char *error = NULL;
    for (int i = 0; i < talk->n; i++)
        whole |= talk->turn[i].target == TARGET_WHOLE;
    if (rules->loss == LOSS_ALL) {
        memset(e->target + begin, 1, e->n - begin);
        for (int i = 0; i < talk->n && !error; i++)
            if (talk->turn[i].hidden)
                error = mark_message(talk, i, true, TARGET_HIDDEN, &p, e, row);
    } else if (jinja_generates(talk->t->jinja) && !whole) {
        error = mark_spans(talk, &p, e, row);
    } else {
        for (int i = 0; i < talk->n && !error; i++)
            if (talk->turn[i].target != TARGET_GIVEN && !talk->turn[i].hidden)
                error = mark_message(talk, i, talk->turn[i].target == TARGET_WHOLE, 1, &p, e, row);
    }
    for (int i = 0; i < talk->n && !error; i++)
        if (talk->turn[i].target != TARGET_GIVEN)
            error = hide_spans(talk, i, &p, e);
    encoded_free(&p.part);
    return error;
}
