/* pack_turns.c -- system message and earlier turns of a row with a prompt.
 *
 * In:    "system", a string, and "history", a list of [question, answer], as in LLaMA-Factory.
 * Out:   messages before those of the prompt, which pack_chat.c renders. */
#include "runtime/pack/pack.h"

#include "runtime/base.h"
#include "runtime/files/json.h"

#include <string.h>

bool turns_any(const cJSON *json)
{
    return has_content(json_get(json, "system")) || has_content(json_get(json, "history"));
}

static const char *text_under(const cJSON *message, const char *key, const char *other)
{
    const char *text = cJSON_GetStringValue(json_get(message, key));
    return text ? text : cJSON_GetStringValue(json_get(message, other));
}

/* Returns the text of a system message at the beginning of a list; NULL: none. */
static const char *system_of(const cJSON *list)
{
    const char *role = list ? text_under(list->child, "role", "from") : NULL;
    if (!role || strcmp(role, "system"))
        return NULL;
    const char *text = text_under(list->child, "content", "value");
    return text ? text : "";
}

static char *add_history(const cJSON *history, cJSON *all)
{
    if (!cJSON_IsArray(history))
        return format("history: want a list of [question, answer]");
    for (const cJSON *pair = history->child; pair; pair = pair->next) {
        const char *question = cJSON_GetStringValue(cJSON_GetArrayItem(pair, 0)),
                   *answer = cJSON_GetStringValue(cJSON_GetArrayItem(pair, 1));
        if (!cJSON_IsArray(pair) || cJSON_GetArraySize(pair) != 2 || !question || !answer)
            return format("history: want a list of [question, answer], two strings each");
        cJSON_AddItemToArray(all, chat_turn("user", question));
        cJSON_AddItemToArray(all, chat_turn("assistant", answer));
    }
    return NULL;
}

static char *join(const cJSON *json, const cJSON *after, cJSON *all)
{
    const cJSON *system = json_get(json, "system"), *history = json_get(json, "history");
    const char *text = cJSON_GetStringValue(system), *first = system_of(after);
    if (has_content(system) && !text)
        return format("system: want a string");
    if (has_content(system) && first && strcmp(text, first))
        return format("system: the messages begin with another system message: remove one");
    const cJSON *rest = after->child;
    if (first) {
        cJSON_AddItemReferenceToArray(all, (cJSON *)(uintptr_t)rest);
        rest = rest->next;
    } else if (has_content(system)) {
        cJSON_AddItemToArray(all, chat_turn("system", text));
    }
    char *error = has_content(history) ? add_history(history, all) : NULL;
    for (; rest && !error; rest = rest->next)
        cJSON_AddItemReferenceToArray(all, (cJSON *)(uintptr_t)rest);
    return error;
}

char *turns_join(const Rules *rules, const cJSON *json, const cJSON *after, cJSON **all,
                 RowOut *row)
{
    const char *key = has_content(json_get(json, "system")) ? "system" : "history";
    *all = NULL;
    if (!turns_any(json))
        return NULL;
    row->stops = !rules->chat;
    if (row->stops)
        return format("%s: turns of a conversation need a chat format, but %s; --ignore-keys "
                      "system,history drops them", key, rules->no_chat);
    *all = cJSON_CreateArray();
    row->turns = true;
    return join(json, after, *all);
}

char *encode_turns(const Rules *rules, const Tokenizer *tok, const cJSON *json, const char *prompt,
                   Answered answer, Encoded *e, RowOut *row)
{
    cJSON *user = chat_list(chat_turn("user", prompt), NULL),
          *said = chat_list(chat_answer(answer), NULL), *all;
    char *error = turns_join(rules, json, user, &all, row);
    const cJSON *messages = all ? all : user;
    if (!error)
        error = chat_encode(rules, tok, messages, said, cJSON_GetArraySize(messages), e, row);
    cJSON_Delete(all), cJSON_Delete(user), cJSON_Delete(said);
    return error;
}
