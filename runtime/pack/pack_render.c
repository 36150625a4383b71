/* pack_render.c -- conversations as the chat_template of the model's folder renders them, and which
 * of its tokens the answers are.
 *
 * In:    messages as in pack_chat.c, and with calls of tools, their results, reasoning, and the
 *        tools of the row; a ChatTemplate.
 * Out:   the ids of transformers' apply_chat_template(); targets: its assistant mask where the
 *        template has {% generation %}.
 * Keeps: what the template does not read is an error that names it, not left out.
 * Method: without marks an answer begins where the prompt that asks for it ends, and ends where the
 *         conversation up to it does. Both must be in the text of the row: a template that renders
 *         them differently there is refused, with the message. */
#define _GNU_SOURCE
#include "runtime/pack/pack.h"

#include "runtime/base.h"
#include "runtime/files/json.h"
#include "runtime/files/names.h"
#include "runtime/jinja/jinja.h"

#include <stdlib.h>
#include <string.h>

struct ChatTemplate {
    JinjaTemplate *jinja;
    char *from;                  /* its file */
    char id[SHA256_HEX];         /* of all that determines its text, but the messages */
    cJSON *tokens;               /* {"bos_token": "<s>", ...} */
};

/* Keys of a message: checked by check_rendered() or linking calls and results; not shown to
 * templates; its reasoning. */
static const char quiet_keys[] = "role|content|tool_calls|tool_call_id|name|id|type|index";
static const char own_keys[] = "role|from|content|value|weight|train|masked";
static const char reasoning_keys[] = "reasoning_content|thinking|reasoning";

/* ---- the template ---------------------------------------------------------------------------- */

enum { CONFIG_MAX = 64 << 20, VARIABLES = 16 };

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

char *render_open(ChatTemplate **to, const char *tokenizer_path)
{
    const char *text = NULL, *from = NULL;
    *to = NULL;
    char *error = strcmp(tokenizer_path, "bytes") ? template_read(tokenizer_path, &text, &from)
                                                  : NULL;
    if (error || !text)
        return error;
    ChatTemplate *t = calloc(1, sizeof *t);
    if (!t)
        abort();
    error = jinja_parse(&t->jinja, text, strlen(text));
    if (error) {
        char *why = format("the chat_template in %s: %s", from, error);
        free(error);
        free(t);
        return why;
    }
    t->tokens = cJSON_CreateObject();
    t->from = format("%s", from);
    error = add_tokens(t->tokens, tokenizer_path, "tokenizer_config.json");
    error = error ? error : add_tokens(t->tokens, tokenizer_path, "special_tokens_map.json");
    Sha256 h;
    sha256_begin(&h);
    sha256_add(&h, text, strlen(text));
    for (const cJSON *m = t->tokens->child; m; m = m->next) {
        char *line = format("\n%s %s", m->string, m->valuestring);
        sha256_add(&h, line, strlen(line));
        free(line);
    }
    sha256_add(&h, JINJA_DATE, strlen(JINJA_DATE));
    sha256_text(&h, t->id);
    if (error)
        render_free(t);
    else
        *to = t;
    return error;
}

void render_free(ChatTemplate *t)
{
    if (!t)
        return;
    jinja_free(t->jinja);
    cJSON_Delete(t->tokens);
    free(t->from);
    free(t);
}

const char *render_id(const ChatTemplate *t) { return t->id; }

char *render_about(const ChatTemplate *t)
{
    return format("the chat_template in %s (%.12s)%s%s", t->from, t->id,
                  jinja_generates(t->jinja) ? ", answers by its generation marks" : "",
                  jinja_mentions(t->jinja, "strftime_now") ? ", with the date " JINJA_DATE : "");
}

/* ---- messages -------------------------------------------------------------------------------- */

typedef struct {
    const char *role;
    ChatTarget target;
    bool hidden;                 /* by weight or train */
    const cJSON *from;           /* as in the row */
} Turn;

typedef struct {
    const ChatTemplate *t;
    cJSON *messages, *tools;     /* as the template reads them; tools NULL: none */
    Turn *turn;                  /* (n) */
    int n;
    JinjaText text;              /* of all messages */
} Talk;

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
 * not know them. NULL and no *error: none. */
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

static char *read_message(Talk *talk, const cJSON *m, Turn *turn, RowOut *row)
{
    char *error = NULL;
    if (!cJSON_IsObject(m))
        return format("must be an object");
    if (sample_get(m, "masked"))
        return format("masked: not with a chat_template: exclude the whole message with \"train\": "
                      "false");
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
static char *check_results(const Talk *talk)
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

static char *read_tools(Talk *talk, const RowOut *row)
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
static void spare_results(const Talk *talk, int i)
{
    Turn *turn = &talk->turn[i];
    if (turn->target != TARGET_WHOLE)
        return;
    if (!strcmp(turn->role, "tool"))
        turn->target = TARGET_GIVEN;
    else if (!strcmp(turn->role, "assistant") && i && !strcmp(turn[-1].role, "tool"))
        turn->target = TARGET_ANSWER;
}

static char *read_talk(Talk *talk, const Rules *rules, const cJSON *messages, const cJSON *answer,
                       int given, RowOut *row)
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

/* Renders the first n messages; prompt: with the beginning of an answer. */
static char *render(const Talk *talk, int n, bool prompt, JinjaText *to)
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
    const JinjaInput in = {.variable = v, .n = count, .items = "messages"};
    char *error = jinja_render(talk->t->jinja, &in, to);
    if (last)
        last->next = rest;
    talk->messages->child = child;
    return error;
}

/* Replaces arguments that are JSON in a string by what they hold. */
static char *decode_arguments(const Talk *talk)
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
static char *check_keys(const Talk *talk)
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
static char *check_rendered(const Talk *talk)
{
    Talk marked = {.t = talk->t, .n = talk->n, .messages = cJSON_Duplicate(talk->messages, true),
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
    char *error = render(&marked, marked.n, false, &marked.text);
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

static char *render_all(Talk *talk)
{
    char *error = render(talk, talk->n, false, &talk->text);
    if (talk->text.decodes) {
        free(error);
        jinja_text_free(&talk->text);
        error = decode_arguments(talk);
        error = error ? error : render(talk, talk->n, false, &talk->text);
    }
    if (error && strncmp(error, "message ", 8)) {
        char *placed = format("the chat_template in %s: %s", talk->t->from, error);
        free(error);
        error = placed;
    }
    error = error ? error : check_rendered(talk);
    return error ? error : check_keys(talk);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

/* Finds the tokens of offsets in the text, which must not decrease. */
typedef struct {
    const Tokenizer *tok;
    const JinjaText *text;
    const Encoded *all;          /* ids of the text from `begin` on */
    size_t begin, base, ids;     /* of the text before `base`: number of ids */
    Encoded part;
} Places;

/* Sets *id to the number of ids that end at or before `offset`; inside: the next one has bytes on
 * both sides of it. */
static char *place(Places *p, size_t offset, size_t *id, bool *inside)
{
    const char *text = p->text->text;
    const int32_t *all = p->all->id + p->begin;
    const size_t n = p->all->n - p->begin;
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
    size_t width = 0;
    char *piece = tokenizer_decode(p->tok, all + p->ids, same, false, &width);
    free(piece);
    for (at += width; *id < n; ++*id, at += width) {
        piece = tokenizer_decode(p->tok, all + *id, 1, false, &width);
        free(piece);
        if (at + width > offset)
            break;
    }
    *inside = at < offset;
    return NULL;
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
static char *length_of(const Talk *talk, const Tokenizer *tok, int n, bool prompt, size_t *at)
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
    char *error = render(talk, n, prompt, &part);
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
        why = format("message %d: the chat_template renders it differently when others follow "
                     "(from byte %zu of the row on), so it would not be learned as it is said: "
                     "exclude it with \"train\": false, use --loss-on last, or a template that "
                     "marks answers with {%% generation %%}", n, same);
    }
    *at = same;
    jinja_text_free(&part);
    return why;
}

/* Marks an answer, or with its opening all of a message. */
static char *mark_message(const Talk *talk, int i, bool whole, uint8_t with, Places *p, Encoded *e,
                          RowOut *row)
{
    size_t from, to;
    char *error = length_of(talk, p->tok, i, !whole, &from);
    error = error ? error : length_of(talk, p->tok, i + 1, false, &to);
    return error ? error : mark(p, from, to, with, e, row);
}

/* Marks the answers that the template marks; a mark after the loop over messages, as around the end
 * of a text, is the last one's. */
static char *mark_spans(const Talk *talk, Places *p, Encoded *e, RowOut *row)
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

static char *mark_targets(const Talk *talk, const Rules *rules, const Tokenizer *tok, Encoded *e,
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
    encoded_free(&p.part);
    return error;
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

char *render_encode(const Rules *rules, const Tokenizer *tok, const cJSON *messages,
                    const cJSON *answer, int given, Encoded *e, RowOut *row)
{
    Talk talk = {.t = rules->render};
    const size_t begin = e->n;
    row->chat = row->rendered = true;
    char *error = read_talk(&talk, rules, messages, answer, given, row);
    error = error ? error : render_all(&talk);
    if (!error)
        error = encode_text(tok, talk.text.text, talk.text.n, false, false, e);
    if (!error)
        error = mark_targets(&talk, rules, tok, e, begin, row);
    row->bytes += (int64_t)talk.text.n;
    cJSON_Delete(talk.messages);
    cJSON_Delete(talk.tools);
    free(talk.turn);
    jinja_text_free(&talk.text);
    return error;
}
