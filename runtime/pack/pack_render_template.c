/* pack_render_template.c -- the chat_template of a folder: its text, the special tokens and
 * variables that it writes, messages rendered by it, and the tokens that end its answers.
 *
 * In:    the folder of a tokenizer, or what a run recorded of its training data.
 * Keeps: a variable that the template does not read is an error. */
#define _GNU_SOURCE
#include "runtime/pack/pack_render.h"

#include "runtime/base.h"
#include "runtime/files/json.h"
#include "runtime/files/names.h"

#include <stdlib.h>
#include <string.h>

/* ---- the template ---------------------------------------------------------------------------- */

enum { CONFIG_MAX = 64 << 20, VARIABLES_MAX = 16 };

static const char *const token_names[] = {"bos_token", "eos_token", "unk_token", "sep_token",
                                          "pad_token", "cls_token", "mask_token"};

/* Adds the special tokens that a JSON file next to the tokenizer names and `to` lacks. */
static char *add_tokens(cJSON *to, const char *tokenizer_path, const char *name)
{
    const char *slash = strrchr(tokenizer_path, '/');
    char *path = format("%.*s%s", slash ? (int)(slash + 1 - tokenizer_path) : 0, tokenizer_path,
                        name), *error = NULL;
    size_t n;
    char *text = file_named(path) ? file_read(path, CONFIG_MAX, &n, &error) : NULL;
    cJSON *json = text ? json_parse(text, n, &error) : NULL;
    if (text && !json) {
        char *why = format("%s: %s", path, error);
        free(error);
        error = why;
    }
    for (size_t i = 0; json && i < sizeof token_names / sizeof *token_names; i++) {
        const cJSON *v = json_get(json, token_names[i]);
        const char *token = cJSON_GetStringValue(cJSON_IsObject(v) ? json_get(v, "content") : v);
        if (token && !json_get(to, token_names[i]))
            cJSON_AddStringToObject(to, token_names[i], token);
    }
    cJSON_Delete(json);
    free(text), free(path);
    return error;
}

/* Hashes all that determines its text, but the messages. */
static void set_id(ChatTemplate *t)
{
    Sha256 h;
    sha256_begin(&h);
    sha256_add(&h, t->text, strlen(t->text));
    for (const cJSON *m = t->tokens->child; m; m = m->next) {
        char *line = format("\n%s %s", m->string, m->valuestring);
        sha256_add(&h, line, strlen(line));
        free(line);
    }
    sha256_add(&h, JINJA_DATE, strlen(JINJA_DATE));
    for (const cJSON *m = t->given->child; m; m = m->next) {
        char *line = format("\n%s=%s", m->string, m->valuestring);
        sha256_add(&h, line, strlen(line));
        free(line);
    }
    sha256_text(&h, t->id);
}

/* ---- variables ------------------------------------------------------------------------------- */

/* Adds NAME=VALUE, where VALUE is JSON or else a text. */
static char *add_variable(ChatTemplate *t, const char *given)
{
    static const char *const python[] = {"True", "False", "None"};
    const char *equals = strchr(given, '='), *value = equals ? equals + 1 : "";
    char *name = format("%.*s", equals ? (int)(equals - given) : 0, given), *error = NULL;
    if (!*name)
        error = format("must be NAME=VALUE, such as enable_thinking=false, got \"%.60s\"", given);
    else if (names_listed("messages|tools|documents|add_generation_prompt", name))
        error = format("%s: comes from the rows", name);
    else if (!jinja_mentions(t->jinja, name))
        error = format("%.60s: the chat_template in %s does not read it", name, t->from);
    for (int i = 0; i < 3 && !error; i++)
        if (!strcmp(value, python[i]))
            error = format("%s: write true, false or null instead of Python's %s", name, value);
    if (!error && !json_get(t->variables, name) &&
        cJSON_GetArraySize(t->variables) == VARIABLES_MAX)
        error = format("more than %d variables", VARIABLES_MAX);
    if (!error) {
        char *why = NULL;
        cJSON *json = json_parse(value, strlen(value), &why);
        cJSON_DeleteItemFromObjectCaseSensitive(t->variables, name);
        cJSON_DeleteItemFromObjectCaseSensitive(t->given, name);
        cJSON_AddItemToObject(t->variables, name, json ? json : cJSON_CreateString(value));
        cJSON_AddStringToObject(t->given, name, value);
        free(why);
    }
    free(name);
    return error;
}

char *render_set(ChatTemplate *t, const char *const *variable)
{
    char *error = NULL;
    for (; variable && *variable && !error; variable++)
        error = add_variable(t, *variable);
    set_id(t);
    return error;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Takes the text of a template. */
static char *parse(ChatTemplate **to, char *text, const char *from)
{
    ChatTemplate *t = calloc(1, sizeof *t);
    if (!t)
        abort();
    *to = t;
    t->text = text;
    t->from = format("%s", from);
    t->tokens = cJSON_CreateObject();
    t->variables = cJSON_CreateObject(), t->given = cJSON_CreateObject();
    char *error = jinja_parse(&t->jinja, text, strlen(text));
    if (!error)
        return NULL;
    char *why = format("the chat_template in %s: %s", from, error);
    free(error);
    return why;
}

char *render_open(ChatTemplate **to, const char *tokenizer_path)
{
    const char *text = NULL, *from = NULL;
    *to = NULL;
    char *error = strcmp(tokenizer_path, "bytes") ? template_read(tokenizer_path, &text, &from)
                                                  : NULL;
    if (error || !text)
        return error;
    error = parse(to, format("%s", text), from);
    error = error ? error : add_tokens((*to)->tokens, tokenizer_path, "tokenizer_config.json");
    error = error ? error : add_tokens((*to)->tokens, tokenizer_path, "special_tokens_map.json");
    if (error) {
        render_free(*to);
        *to = NULL;
        return error;
    }
    set_id(*to);
    return NULL;
}

char *render_record(const ChatTemplate *t)
{
    cJSON *all = cJSON_CreateObject();
    cJSON_AddStringToObject(all, "template", t->text);
    cJSON_AddItemReferenceToObject(all, "tokens", t->tokens);
    cJSON_AddItemReferenceToObject(all, "variables", t->given);
    char *text = cJSON_PrintUnformatted(all);
    if (!text)
        abort();
    cJSON_Delete(all);
    return text;
}

char *render_recall(ChatTemplate **to, const char *record, const char *from)
{
    char *error = NULL;
    cJSON *all = json_parse(record, strlen(record), &error);
    const char *text = cJSON_GetStringValue(json_get(all, "template"));
    *to = NULL;
    if (!error && !text)
        error = format("%s: the recorded chat_template has no text", from);
    error = error ? error : parse(to, format("%s", text), from);
    const cJSON *tokens = json_get(all, "tokens"), *given = json_get(all, "variables");
    for (const cJSON *v = error || !tokens ? NULL : tokens->child; v; v = v->next)
        if (cJSON_IsString(v))
            cJSON_AddStringToObject((*to)->tokens, v->string, v->valuestring);
    for (const cJSON *v = error || !given ? NULL : given->child; v && !error; v = v->next) {
        char *one = format("%s=%s", v->string, cJSON_IsString(v) ? v->valuestring : "");
        error = add_variable(*to, one);
        free(one);
    }
    if (*to && error) {
        render_free(*to);
        *to = NULL;
    }
    if (*to)
        set_id(*to);
    cJSON_Delete(all);
    return error;
}

void render_free(ChatTemplate *t)
{
    if (!t)
        return;
    jinja_free(t->jinja);
    cJSON_Delete(t->tokens), cJSON_Delete(t->variables), cJSON_Delete(t->given);
    free(t->text), free(t->from);
    free(t);
}

const char *render_id(const ChatTemplate *t) { return t->id; }

const char *render_text(const ChatTemplate *t) { return t->text; }

const char *render_other_token(const ChatTemplate *t, const ChatTemplate *other)
{
    for (size_t i = 0; i < sizeof token_names / sizeof *token_names; i++) {
        const char *a = cJSON_GetStringValue(json_get(t->tokens, token_names[i])),
                   *b = cJSON_GetStringValue(json_get(other->tokens, token_names[i]));
        if (jinja_mentions(t->jinja, token_names[i]) && strcmp(a ? a : "", b ? b : ""))
            return token_names[i];
    }
    return NULL;
}

char *render_about(const ChatTemplate *t)
{
    char *given = format("%s", "");
    for (const cJSON *m = t->given->child; m; m = m->next) {
        char *longer = format("%s, with %s=%s", given, m->string, m->valuestring);
        free(given);
        given = longer;
    }
    char *text = format("the chat_template in %s (%.12s)%s%s%s", t->from, t->id,
                        jinja_generates(t->jinja) ? ", answers by its generation marks" : "",
                        jinja_mentions(t->jinja, "strftime_now") ? ", with the date " JINJA_DATE
                                                                 : "", given);
    free(given);
    return text;
}

/* ---- rendering ------------------------------------------------------------------------------- */

enum { VARIABLES = 32 };         /* of a rendering: its own, special tokens, those given by name */

char *talk_render(const RenderedTalk *talk, int n, bool prompt, JinjaText *to)
{
    JinjaVariable v[VARIABLES];
    cJSON yes = {.type = prompt ? cJSON_True : cJSON_False}, none = {.type = cJSON_NULL},
          *last = NULL, *rest = NULL, *child = talk->messages->child;
    int count = 0, i = 0;
    for (cJSON *m = child; m && i < n; m = m->next, i++)
        last = m;
    rest = last ? last->next : child;
    if (last)
        last->next = NULL;       /* for the time of this rendering */
    else
        talk->messages->child = NULL;
    v[count++] = (JinjaVariable){"messages", talk->messages};
    v[count++] = (JinjaVariable){"tools", talk->tools ? talk->tools : &none};
    v[count++] = (JinjaVariable){"documents", &none};
    v[count++] = (JinjaVariable){"add_generation_prompt", &yes};
    for (cJSON *m = talk->t->tokens->child; m; m = m->next)
        v[count++] = (JinjaVariable){m->string, m};
    for (cJSON *m = talk->t->variables->child; m; m = m->next)
        v[count++] = (JinjaVariable){m->string, m};   /* the last of a name counts */
    const JinjaInput in = {.variable = v, .n = count, .items = "messages"};
    char *error = jinja_render(talk->t->jinja, &in, to);
    if (last)
        last->next = rest;
    talk->messages->child = child;
    return error;
}

/* ---- the end of an answer -------------------------------------------------------------------- */

static const char probe_mark[] = "qzendzq";

/* Renders a question and an answer; returns the ids after the mark in the answer, malloc'ed. */
static int32_t *after_mark(const ChatTemplate *t, const Tokenizer *tok, const char *answer,
                           const char *tools, size_t *n)
{
    char *why = NULL, *row = format("[{\"role\":\"user\",\"content\":\"q\"},%s]", answer);
    RenderedTalk talk = {.t = t, .messages = json_parse(row, strlen(row), &why), .n = 2,
                         .tools = tools ? json_parse(tools, strlen(tools), &why) : NULL};
    char *error = talk_render(&talk, talk.n, false, &talk.text);
    const char *at = error ? NULL : strstr(talk.text.text, probe_mark);
    int32_t *ids = NULL;
    *n = 0;
    if (at)
        at += strlen(probe_mark);
    if (at)
        error = tokenizer_encode(tok, at, strlen(at), false, &ids, n);
    free(error), free(row), free(why);
    cJSON_Delete(talk.messages), cJSON_Delete(talk.tools);
    jinja_text_free(&talk.text);
    return ids;
}

void render_find_ends(ChatTemplate *t, const Tokenizer *tok)
{
    static const char said[] = "{\"role\":\"assistant\",\"content\":\"qzendzq\"}",
        called[] = "{\"role\":\"assistant\",\"content\":\"\",\"tool_calls\":[{\"id\":\"call00001\","
                   "\"type\":\"function\",\"function\":{\"name\":\"qzendzq\",\"arguments\":{}}}]}",
        tools[] = "[{\"type\":\"function\",\"function\":{\"name\":\"qz\",\"description\":\"q\","
                  "\"parameters\":{\"type\":\"object\",\"properties\":{}}}}]";
    size_t n, first = 0;
    t->nends = 0;
    int32_t *ids = after_mark(t, tok, said, NULL, &n);
    while (first < n && !tokenizer_special(tok, ids[first]))
        first++;
    bool last = first < n;       /* nothing but white space follows the end of an answer */
    if (last)
        t->end[t->nends++] = ids[first];
    for (size_t i = first + 1; i < n; i++)
        last = last && !tokenizer_special(tok, ids[i]);
    free(ids);
    ids = last ? after_mark(t, tok, called, tools, &n) : NULL;
    while (ids && n && !tokenizer_special(tok, ids[n - 1]))
        n--;
    if (ids && n && ids[n - 1] != t->end[0])
        t->end[t->nends++] = ids[n - 1];
    free(ids);
}

bool render_ends(const ChatTemplate *t, const Tokenizer *tok, int32_t id)
{
    for (int i = 0; i < t->nends; i++)
        if (t->end[i] == id)
            return true;
    return tokenizer_ends(tok, id);
}
