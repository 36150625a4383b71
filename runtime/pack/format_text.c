/* format_text.c -- documents: {"text": "..."}, or a whole file.
 *
 * Out:   the ids of the text and the end-of-text token, all of them targets. */
#include "runtime/pack/pack.h"

#include "runtime/base.h"
#include "runtime/files/json.h"

#include <string.h>

/* True if only answers are targets, which a text does not have. */
static bool wants_answers(const Rules *rules)
{
    return rules->loss != LOSS_DEFAULT && rules->loss != LOSS_ALL;
}

static char *encode(const Rules *rules, const Tokenizer *tok, const Sample *s, Encoded *e,
                    RowOut *row)
{
    char *error = NULL;
    const char *text = sample_string(s, "text", &error);
    if (error)
        return error;
    row->bytes = (int64_t)strlen(text);
    row->stops = wants_answers(rules);
    if (row->stops)
        return format("--loss-on %s: a text has no answers, all its tokens are targets: omit it, "
                      "or use --loss-on all", loss_name[rules->loss]);
    return row->bytes ? encode_ended(tok, text, (size_t)row->bytes, true, e)
                      : format("text: empty");
}

static char *stretch(const Rules *rules, const Tokenizer *tok, const Chunk *p, Encoded *e)
{
    size_t nprefix, nsuffix;
    const int32_t *prefix = tokenizer_prefix(tok, &nprefix);
    const int32_t *suffix = tokenizer_suffix(tok, &nsuffix);
    char *error = NULL;
    if (wants_answers(rules))
        return format("--loss-on: a text has no answers, all its tokens are targets: omit it, "
                      "or use --loss-on all");
    if (p->first)
        encoded_put(e, prefix, nprefix, true);
    error = p->last ? encode_ended(tok, p->text, p->n, false, e)
                    : encode_text(tok, p->text, p->n, false, true, e);
    if (!error && p->last)
        encoded_put(e, suffix, nsuffix, true);
    return error;
}

const FormatCode text_format = {.form = FORM_TEXT, .encode = encode},
                 file_format = {.form = FORM_FILE, .stretch = stretch};
