/* format_answers.c -- prompts and answers for objectives that mask tokens of answers.
 *
 * In:    messages or conversations; or prompt with response, or with completion.
 * Out:   the ids of both; the targets of the formats with these keys may be masked. */
#define _GNU_SOURCE
#include "runtime/pack/pack.h"

#include "runtime/base.h"
#include "runtime/files/json.h"

#include <stdlib.h>

static char *encode(const Rules *rules, const Tokenizer *tok, const Sample *s, Encoded *e,
                     RowOut *row)
{
    const bool response = sample_get(s->json, "response") != NULL;
    char *error = NULL;
    if (has_content(json_get(s->json, "messages")) ||
        has_content(json_get(s->json, "conversations")))
        return format_messages(rules, tok, s, e, row);
    if (!sample_get(s->json, "prompt") || response == !!sample_get(s->json, "completion"))
        return row->stops = true, format("needs the keys messages, conversations, prompt and "
                                         "response, or prompt and completion");
    if (!response)
        return format_prompt(rules, tok, s, e, row);
    const char *p = sample_string(s, "prompt", &error);
    const Answered r = sample_answer(s, "response", &error);
    if (error)
        return error;
    return rules->chat || rules->render || turns_any(s->json)
               ? encode_turns(rules, tok, s->json, p, r, e, row)
               : encode_answered(rules, tok, p, r, e, row);
}

const FormatCode answers_format = {.form = FORM_ANSWERS, .encode = encode};
