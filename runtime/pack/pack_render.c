/* pack_render.c -- conversations as the chat_template of the model's folder renders them.
 *
 * In:    messages as in pack_chat.c, and with calls of tools, their results, reasoning, and the
 *        tools of the row; a ChatTemplate.
 * Out:   the ids of transformers' apply_chat_template(); targets: pack_render_targets.c.
 * Keeps: what the template does not read is an error that names it, not left out. */
#define _GNU_SOURCE
#include "runtime/pack/pack_render.h"

#include "runtime/base.h"
#include "runtime/files/json.h"
#include "runtime/files/names.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* Keys of a message: checked by check_rendered() or linking calls and results; not shown to
 * templates; its reasoning. */
static const char quiet_keys[] = "role|content|tool_calls|tool_call_id|name|id|type|index";
static const char own_keys[] = "role|from|content|value|weight|train|masked";
static const char reasoning_keys[] = "reasoning_content|thinking|reasoning";

/* ---- messages -------------------------------------------------------------------------------- */

/* Parses a string that holds JSON. */
static cJSON *decoded(const cJSON *v, const char *what, char **error)
{
    char *why = NULL;
    cJSON *json = json_parse(v->valuestring, strlen(v->valuestring), &why);
    if (!json)
        *error = format("%s: a string that is no JSON: %s", what, why);
    free(why);
    return json;
}

static char *read_role(const cJSON *m, const char **to)
{
    static const struct { const char *is, *role; } names[] = {
        {"system", "system"}, {"user", "user"}, {"assistant", "assistant"}, {"tool", "tool"},
        {"developer", "developer"}, {"human", "user"}, {"gpt", "assistant"},
    };
    const cJSON *role = sample_get(m, "role"), *from = sample_get(m, "from");
    const char *text = cJSON_GetStringValue(role ? role : from);
    if (role && from)
        return format("a message has both role and from");
    if (!text)
        return format("role: must be a string");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(text, names[i].is)) {
            *to = names[i].role;
            return NULL;
        }
    return format("role: must be system, user, assistant, tool or developer (or human and gpt for "
                  "user and assistant), got \"%.40s\"", text);
}

/* Checks the calls of an answer; their arguments may be JSON in a string, as in OpenAI's logs. */
static char *check_calls(cJSON *calls, const char *role)
{
    if (strcmp(role, "assistant"))
        return format("tool_calls: only an answer has them, not the role %s", role);
    if (!cJSON_IsArray(calls))
        return format("tool_calls: must be a list");
    int i = 1;
    for (cJSON *call = calls->child; call; call = call->next, i++) {
        const cJSON *inner = json_get(call, "function"), *f = inner ? inner : call;
        cJSON *arguments = cJSON_GetObjectItemCaseSensitive(f, "arguments");
        if (!cJSON_IsObject(call) || !cJSON_IsString(json_get(f, "name")))
            return format("tool_calls: call %d must be {\"function\": {\"name\", \"arguments\"}}",
                          i);
        if (arguments && !cJSON_IsObject(arguments) && !cJSON_IsString(arguments))
            return format("tool_calls: call %d: arguments: must be an object", i);
        if (cJSON_IsString(arguments))
            arguments->type |= JINJA_ENCODED;
    }
    return NULL;
}

/* Returns the content of a message for the template: a copy; parts are joined if the template does
 * not read them. NULL and no *error: none. */
static cJSON *content_of(const ChatTemplate *t, const cJSON *m, RowOut *row, char **error)
{
    const cJSON *content = sample_get(m, "content"), *value = sample_get(m, "value"),
                *v = content ? content : value;
    if (content && value)
        *error = format("a message has both content and value");
    if (*error || !v)
        return NULL;
    if (cJSON_IsString(v))
        return cJSON_CreateString(v->valuestring);
    if (!cJSON_IsArray(v)) {
        *error = format("content: must be a string, or a list of {\"type\": \"text\", \"text\"}");
        return NULL;
    }
    char *joined = parts_text(v, "content", row, error);
    cJSON *copy = *error ? NULL : jinja_mentions(t->jinja, "text") ? cJSON_Duplicate(v, true)
                                                                   : cJSON_CreateString(joined);
    free(joined);
    return copy;
}

/* Gives reasoning the names under which templates read it, as transformers does. */
static void alias_reasoning(cJSON *to)
{
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    const cJSON *found = NULL;
    for (int i = 0; i < 3 && !found; i++)
        found = json_get(to, names[i]);
    if (!found)
        return;
    cJSON *copy = cJSON_Duplicate(found, true), *twin = cJSON_Duplicate(found, true);
    if (!json_get(to, "thinking"))
        cJSON_AddItemToObject(to, "thinking", twin);
    else
        cJSON_Delete(twin);
    if (!json_get(to, "reasoning_content"))
        cJSON_AddItemToObject(to, "reasoning_content", copy);
    else
        cJSON_Delete(copy);
}

static char *read_message(RenderedTalk *talk, const cJSON *m, Turn *turn, RowOut *row)
{
    char *error = NULL;
    if (!cJSON_IsObject(m))
        return format("must be an object");
    if (has_content(json_get(m, "function_call")))
        return format("function_call: write it as tool_calls");
    error = read_role(m, &turn->role);
    error = error ? error : spans_message(m, &turn->hidden);
    cJSON *to = cJSON_CreateObject(), *content = NULL;
    cJSON_AddItemToArray(talk->messages, to);
    if (!error)
        content = content_of(talk->t, m, row, &error);
    if (error)
        return error;
    turn->from = m;
    turn->masked = sample_get(m, "masked");
    cJSON_AddStringToObject(to, "role", turn->role);
    if (content)
        cJSON_AddItemToObject(to, "content", content);
    else if (!has_content(json_get(m, "tool_calls")))
        return format("content: must be a string; only an answer with tool_calls may have none");
    for (const cJSON *v = m->child; v; v = v->next)
        if (!cJSON_IsNull(v) && !names_listed(own_keys, v->string))
            cJSON_AddItemToObject(to, v->string, cJSON_Duplicate(v, true));
    alias_reasoning(to);
    cJSON *calls = cJSON_GetObjectItemCaseSensitive(to, "tool_calls");
    if (calls && !has_content(calls)) {
        cJSON_DeleteItemFromObjectCaseSensitive(to, "tool_calls");
        calls = NULL;
    }
    return calls ? check_calls(calls, turn->role) : NULL;
}

/* Every result that names its call must follow it. */
static char *check_results(const RenderedTalk *talk)
{
    int i = 1;
    for (const cJSON *m = talk->messages->child; m; m = m->next, i++) {
        const char *id = cJSON_GetStringValue(json_get(m, "tool_call_id"));
        bool found = !id, any = false;
        for (const cJSON *a = talk->messages->child; a != m && !found; a = a->next)
            for (const cJSON *c = a ? json_get(a, "tool_calls") : NULL, *call = c ? c->child : NULL;
                 call; call = call->next) {
                const char *of = cJSON_GetStringValue(json_get(call, "id"));
                any |= of != NULL;
                found |= of && !strcmp(of, id);
            }
        if (!found && any)
            return format("message %d: tool_call_id: no earlier call has the id \"%.40s\"", i, id);
    }
    return NULL;
}

static char *read_tools(RenderedTalk *talk, const RowOut *row)
{
    char *error = NULL;
    const cJSON *tools = row->tools;
    if (!has_content(tools))
        return NULL;
    talk->tools = cJSON_IsString(tools) ? decoded(tools, "tools", &error)
                                        : cJSON_Duplicate(tools, true);
    if (!error && !cJSON_IsArray(talk->tools))
        error = format("tools: must be a list of {\"type\": \"function\", \"function\": {...}}");
    for (const cJSON *tool = error ? NULL : talk->tools->child; tool && !error; tool = tool->next)
        if (!cJSON_IsObject(tool))
            error = format("tools: must be a list of objects");
    return error;
}

/* Within a completion, results of tools are no targets, nor is the opening of an answer to them. */
static void spare_results(const RenderedTalk *talk, int i)
{
    Turn *turn = &talk->turn[i];
    if (turn->target != TARGET_WHOLE)
        return;
    if (!strcmp(turn->role, "tool"))
        turn->target = TARGET_GIVEN;
    else if (!strcmp(turn->role, "assistant") && i && !strcmp(turn[-1].role, "tool"))
        turn->target = TARGET_ANSWER;
}

static char *read_talk(RenderedTalk *talk, const Rules *rules, const cJSON *messages,
                       const cJSON *answer, int given, RowOut *row)
{
    const int most = cJSON_GetArraySize(messages) + cJSON_GetArraySize(answer) + 1;
    char *error = read_tools(talk, row);
    talk->messages = cJSON_CreateArray();
    talk->turn = calloc((size_t)most, sizeof *talk->turn);
    if (!talk->turn)
        abort();
    for (const cJSON *list = messages; list && !error; list = list == messages ? answer : NULL)
        for (const cJSON *m = list->child; m && !error; m = m->next) {
            Turn *turn = &talk->turn[talk->n];
            error = read_message(talk, m, turn, row);
            if (!error)
                error = chat_target(rules, turn->role, talk->n, given, &turn->target, row);
            if (!error && rules->loss != LOSS_ALL)
                spare_results(talk, talk->n);
            talk->n++;
            if (error) {
                char *placed = format("message %d: %s", talk->n, error);
                free(error);
                error = placed;
            }
        }
    return error ? error : check_results(talk);
}

/* ---- text ------------------------------------------------------------------------------------ */

/* Replaces arguments that are JSON in a string by what they hold. */
static char *decode_arguments(const RenderedTalk *talk)
{
    char *error = NULL;
    int i = 1;
    for (const cJSON *m = talk->messages->child; m && !error; m = m->next, i++) {
        const cJSON *calls = json_get(m, "tool_calls");
        for (cJSON *call = calls ? calls->child : NULL; call && !error; call = call->next) {
            cJSON *inner = cJSON_GetObjectItemCaseSensitive(call, "function"),
                  *f = inner ? inner : call;
            const cJSON *arguments = json_get(f, "arguments");
            if (!cJSON_IsString(arguments))
                continue;
            char *what = format("message %d: arguments", i);
            cJSON *json = decoded(arguments, what, &error);
            if (json && !cJSON_IsObject(json))
                error = format("%s: must be an object", what);
            if (error)
                cJSON_Delete(json);
            else
                cJSON_ReplaceItemInObjectCaseSensitive(f, "arguments", json);
            free(what);
        }
    }
    return error;
}

static bool was_read(const cJSON *v) { return v && v->type & JINJA_READ; }

/* NULL, or the key of a message that the template has not read although it may mean something. */
static char *check_keys(const RenderedTalk *talk)
{
    int i = 1;
    for (const cJSON *m = talk->messages->child; m; m = m->next, i++) {
        bool reasoning = false;
        for (const cJSON *v = m->child; v; v = v->next)
            reasoning |= names_listed(reasoning_keys, v->string) && was_read(v);
        for (const cJSON *v = m->child; v; v = v->next) {
            if (was_read(v) || !has_content(v) || names_listed(quiet_keys, v->string) ||
                key_describes(v->string) || (reasoning && names_listed(reasoning_keys, v->string)))
                continue;
            return format("message %d: %.60s: the chat_template in %s does not read it from the "
                          "role %s; to pack without it: --ignore-keys %.60s", i, v->string,
                          talk->t->from, talk->turn[i - 1].role, v->string);
        }
    }
    return NULL;
}

enum { MARK_MAX = 32 };

/* A word that no template changes but in case; message 0: of the tools. */
static void mark_word(char to[MARK_MAX], int message, int call)
{
    snprintf(to, MARK_MAX, "qz%dz%dzq", message, call);
}

/* Appends the word to a string under a key of an object, or to the text of its last part. */
static void append_word(cJSON *object, const char *key, int message, int call)
{
    cJSON *v = cJSON_GetObjectItemCaseSensitive(object, key), *last = NULL;
    char word[MARK_MAX];
    for (cJSON *p = cJSON_IsArray(v) ? v->child : NULL; p; p = p->next)
        last = p;
    v = last ? cJSON_GetObjectItemCaseSensitive(last, "text") : v;
    if (!cJSON_IsString(v) || !*v->valuestring)
        return;
    mark_word(word, message, call);
    char *text = format("%s%s", v->valuestring, word);
    cJSON_SetValuestring(v, text);
    free(text);
}

static cJSON *called(cJSON *call)
{
    cJSON *f = cJSON_GetObjectItemCaseSensitive(call, "function");
    return f ? f : call;
}

static bool lacks(const JinjaText *text, const cJSON *object, const char *key, int message,
                  int call)
{
    char word[MARK_MAX];
    mark_word(word, message, call);
    return has_content(json_get(object, key)) && !strcasestr(text->text, word);
}

/* NULL, or what of the row is not in the text: a content, a call, a tool. They are rendered again,
 * each with a word that is looked for. A template that refuses the words is not checked. */
static char *check_rendered(const RenderedTalk *talk)
{
    RenderedTalk marked = {.t = talk->t, .n = talk->n, .prompt = talk->prompt,
                           .messages = cJSON_Duplicate(talk->messages, true),
                           .tools = cJSON_Duplicate(talk->tools, true)};
    char *why = NULL;
    int i = 1, k;
    for (cJSON *m = marked.messages->child; m; m = m->next, i++) {
        const cJSON *calls = json_get(m, "tool_calls");
        append_word(m, "content", i, 0);
        k = 1;
        for (cJSON *call = calls ? calls->child : NULL; call; call = call->next)
            append_word(called(call), "name", i, k++);
    }
    k = 1;
    for (cJSON *tool = marked.tools ? marked.tools->child : NULL; tool; tool = tool->next)
        append_word(called(tool), "name", 0, k++);
    char *error = talk_render(&marked, marked.n, marked.prompt, &marked.text);
    i = k = 1;
    for (cJSON *tool = error || !marked.tools ? NULL : marked.tools->child; tool && !why;
         tool = tool->next)
        if (lacks(&marked.text, called(tool), "name", 0, k++))
            why = format("tools: the chat_template in %s does not render tool %d", talk->t->from,
                         k - 1);
    for (cJSON *m = error ? NULL : marked.messages->child; m && !why; m = m->next, i++) {
        const cJSON *calls = json_get(m, "tool_calls");
        const char *role = talk->turn[i - 1].role;
        k = 1;
        if (lacks(&marked.text, m, "content", i, 0))
            why = format("message %d: the chat_template in %s does not render the content of this "
                         "%s message%s", i, talk->t->from, role, calls ? " with tool_calls" : "");
        for (cJSON *call = calls ? calls->child : NULL; call && !why; call = call->next)
            if (lacks(&marked.text, called(call), "name", i, k++))
                why = format("message %d: tool_calls: the chat_template in %s does not render call "
                             "%d", i, talk->t->from, k - 1);
    }
    free(error);
    cJSON_Delete(marked.messages), cJSON_Delete(marked.tools);
    jinja_text_free(&marked.text);
    return why;
}

static char *render_all(RenderedTalk *talk)
{
    char *error = talk_render(talk, talk->n, talk->prompt, &talk->text);
    if (talk->text.decodes) {
        free(error);
        jinja_text_free(&talk->text);
        error = decode_arguments(talk);
        error = error ? error : talk_render(talk, talk->n, talk->prompt, &talk->text);
    }
    if (error && strncmp(error, "message ", 8)) {
        char *placed = format("the chat_template in %s: %s", talk->t->from, error);
        free(error);
        error = placed;
    }
    error = error ? error : check_rendered(talk);
    return error ? error : check_keys(talk);
}

/* ---- a row ----------------------------------------------------------------------------------- */

bool render_needed(const cJSON *messages, const cJSON *answer, const RowOut *row)
{
    if (has_content(row->tools))
        return true;
    for (const cJSON *list = messages; list; list = list == messages ? answer : NULL)
        for (const cJSON *m = list->child; m; m = m->next) {
            const char *role = cJSON_GetStringValue(json_get(m, "role"));
            if (has_content(json_get(m, "tool_calls")) ||
                (role && names_listed("tool|developer", role)))
                return true;
        }
    return false;
}

static void talk_free(RenderedTalk *talk)
{
    cJSON_Delete(talk->messages);
    cJSON_Delete(talk->tools);
    free(talk->turn);
    jinja_text_free(&talk->text);
}

char *render_encode(const Rules *rules, const Tokenizer *tok, const cJSON *messages,
                    const cJSON *answer, int given, Encoded *e, RowOut *row)
{
    RenderedTalk talk = {.t = rules->render};
    const size_t begin = e->n;
    row->chat = row->rendered = true;
    char *error = read_talk(&talk, rules, messages, answer, given, row);
    error = error ? error : render_all(&talk);
    if (!error)
        error = encode_text(tok, talk.text.text, talk.text.n, false, false, e);
    if (!error)
        error = talk_targets(&talk, rules, tok, e, begin, row);
    row->bytes += (int64_t)talk.text.n;
    talk_free(&talk);
    return error;
}

char *render_prompt(const ChatTemplate *t, const Tokenizer *tok, const cJSON *messages,
                    const cJSON *tools, Encoded *e)
{
    RenderedTalk talk = {.t = t, .prompt = true};
    const Rules rules = {.loss = LOSS_LAST};
    RowOut row = {.tools = tools};
    char *error = read_talk(&talk, &rules, messages, NULL, INT_MAX, &row);
    if (!error && (!talk.n || !names_listed("user|tool", talk.turn[talk.n - 1].role)))
        error = format("messages: the last one must have the role user or tool");
    error = error ? error : render_all(&talk);
    if (!error)
        error = encode_text(tok, talk.text.text, talk.text.n, false, false, e);
    talk_free(&talk);
    return error;
}
