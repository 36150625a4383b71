/* format_answers.c -- prompts and answers for objectives that hide tokens of the answers.
 *
 * In:    messages or conversations; or prompt with response, or with completion.
 * Out:   the ids of both; what may be hidden is what the formats of these keys predict. */
#define _GNU_SOURCE
#include "runtime/pack/pack.h"

#include "runtime/base.h"
#include "runtime/files/json.h"

#include <stdlib.h>

/* Two strings as a turn of the user and one of the assistant. */
static char *encode_turns(const Rules *rules, const Tokenizer *tok, const char *prompt,
                          Answered response, Encoded *e, RowOut *row)
{
    cJSON *asked = chat_list(chat_turn("user", prompt), NULL), *said = chat_list(chat_answer(response), NULL);
    char *error = chat_encode(rules, tok, asked, said, 1, e, row);
    cJSON_Delete(asked), cJSON_Delete(said);
    return error;
}

char *format_answers(const Rules *rules, const Tokenizer *tok, const Sample *s, Encoded *e,
                     RowOut *row)
{
    const bool response = json_get(s->json, "response");
    char *error = NULL;
    if (json_get(s->json, "messages") || json_get(s->json, "conversations"))
        return format_messages(rules, tok, s, e, row);
    if (!json_get(s->json, "prompt") || response == !!json_get(s->json, "completion"))
        return format("want the keys messages, conversations, prompt and response, or prompt and "
                      "completion");
    if (!response)
        return format_prompt(rules, tok, s, e, row);
    const char *p = sample_string(s, "prompt", &error);
    const Answered r = sample_answer(s, "response", &error);
    if (error)
        return error;
    return rules->chat ? encode_turns(rules, tok, p, r, e, row)
                       : encode_answered(rules, tok, p, r, e, row);
}
