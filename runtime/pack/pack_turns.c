/* pack_turns.c -- messages of a conversation, by formats and by templates: contents in parts, and
 * which messages are targets. */
#define _GNU_SOURCE
#include "runtime/pack/pack.h"

#include "runtime/base.h"
#include "runtime/files/json.h"

#include <stdlib.h>
#include <string.h>

char *parts_text(const cJSON *parts, const char *key, RowOut *row, char **error)
{
    char *text = format("%s", "");
    int i = 1;
    for (const cJSON *p = parts->child; p && !*error; p = p->next, i++) {
        const char *type = cJSON_GetStringValue(json_get(p, "type")),
                   *part = cJSON_GetStringValue(json_get(p, "text"));
        if (!type || strcmp(type, "text")) {
            row->stops = type != NULL;
            *error = format("%s: part %d is %s%.40s: only {\"type\": \"text\", \"text\"} is "
                            "supported", key, i, type ? "of the type " : "without a type",
                            type ? type : "");
        } else if (!part) {
            *error = format("%s: part %d: text: must be a string", key, i);
        }
        char *longer = format("%s%s", text, *error ? "" : part);
        free(text);
        text = longer;
    }
    return text;
}

char *chat_target(const Rules *rules, const char *role, int i, int given, ChatTarget *to,
                  RowOut *row)
{
    const bool answer = !strcmp(role, "assistant");
    *to = TARGET_GIVEN;
    if (rules->loss == LOSS_ALL)
        *to = TARGET_WHOLE;
    else if (rules->loss == LOSS_ASSISTANT)
        *to = answer ? TARGET_ANSWER : TARGET_GIVEN;
    else if (rules->loss == LOSS_TURNS)
        *to = answer && i >= given ? TARGET_ANSWER : TARGET_GIVEN;
    else if (i == given && !answer)
        return format("messages: the answer must have the role assistant, got \"%s\"", role);
    else if (i >= given)
        *to = i > given ? TARGET_WHOLE : TARGET_ANSWER;
    else
        row->more_answers |= answer;
    return NULL;
}
