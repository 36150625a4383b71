/* format_messages.c -- {"messages": [...]} and ShareGPT's {"conversations": [...]}; a list by itself is the former.
 *
 * Out:   what pack_chat.c renders; the last answer is the target, or what --loss-on says. */
#include "runtime/pack/pack.h"

#include "runtime/base.h"
#include "runtime/files/json.h"

char *format_messages(const Rules *rules, const Tokenizer *tok, const Sample *s, Encoded *e,
                      RowOut *row)
{
    const char *key = json_get(s->json, "messages") ? "messages" : "conversations";
    const cJSON *list = json_get(s->json, key), *tools = json_get(s->json, "tools");
    const char *system = cJSON_GetStringValue(json_get(s->json, "system"));
    int n = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
    if (tools && !cJSON_IsNull(tools) && !(cJSON_IsArray(tools) && !tools->child))
        return format("tools: definitions of tools are not supported");
    if (system && *system)
        return format("system beside %s: say it as the first of them", key);
    return n ? chat_encode(rules, tok, list, NULL, n - 1, e, row)
             : format("%s: want a list of {\"role\", \"content\"}, not empty", key);
}
