/* format_messages.c -- conversations: {"messages": [...]}, that list alone, or ShareGPT's
 * {"conversations": [...]}.
 *
 * Out:   the ids of pack_chat.c; the targets are the last answer, or those of --loss-on. */
#include "runtime/pack/pack.h"

#include "runtime/base.h"
#include "runtime/files/json.h"

char *format_messages(const Rules *rules, const Tokenizer *tok, const Sample *s, Encoded *e,
                      RowOut *row)
{
    const char *key = sample_get(s->json, "messages") ? "messages" : "conversations";
    const cJSON *list = json_get(s->json, key);
    cJSON *all = NULL;
    if (!cJSON_IsArray(list) || !list->child)
        return format("%s: want a list of {\"role\", \"content\"}, not empty", key);
    char *error = turns_join(rules, s->json, list, &all, row);
    const cJSON *messages = all ? all : list;
    if (!error)
        error = chat_encode(rules, tok, messages, NULL, cJSON_GetArraySize(messages) - 1, e, row);
    cJSON_Delete(all);
    return error;
}

const FormatCode messages_format = {.form = FORM_MESSAGES, .encode = format_messages},
                 sharegpt_format = {.form = FORM_SHAREGPT, .encode = format_messages};
