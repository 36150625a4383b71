/* pack_chat.c -- renders and encodes conversations as the model's chat template does.
 *
 * In:    messages; a chat format (pack_template.c).
 * Out:   ids of the rendered text, and which of them are targets.
 * Method: the whole row is rendered, then split before each turn that begins with an added token,
 *         and encoded. An answer's targets begin after as many ids as the text before it has. */
#define _GNU_SOURCE
#include "runtime/pack/pack.h"

#include "runtime/base.h"
#include "runtime/files/json.h"
#include "runtime/files/names.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- messages -------------------------------------------------------------------------------- */

static const char *const role_name[] = {"system", "user", "assistant"};
typedef enum { ROLE_SYSTEM, ROLE_USER, ROLE_ANSWER } Role;

/* A message, and its position in the text of the row. */
typedef struct {
    Role role;
    ChatTarget turn;
    const char *content;         /* as in the data: spans refer to it */
    char *joined;                /* content joined from parts, to free */
    size_t skip;                 /* bytes of content that are reasoning */
    const char *reasoning;       /* (nreasoning) of an answer, in a format that thinks */
    size_t nreasoning;
    const cJSON *masked;         /* spans of content, or NULL */
    bool hidden;                 /* excluded from the targets */
    bool apart;                  /* its turn begins with a token and is encoded separately */
    size_t begin, head, from;    /* offsets in the text: of the turn, its answer, its content */
    size_t end;                  /* of the turn */
    size_t cut, kept;            /* of content: bytes stripped before `from`, bytes kept there */
} ChatMessage;

typedef struct {
    ChatMessage *message;        /* (n) */
    int n;
    char *text;                  /* (ntext) */
    size_t ntext, cap;
} Talk;

/* Returns a string of a message under one of two names, or NULL. */
static const char *message_text(const cJSON *m, const char *key, const char *other, char **error)
{
    const cJSON *v = sample_get(m, key), *w = sample_get(m, other);
    if (v && w)
        *error = format("a message has both %s and %s", key, other);
    else if (!cJSON_IsString(v ? v : w))
        *error = format("%s: must be a string", w ? other : key);
    return *error ? NULL : (v ? v : w)->valuestring;
}

/* Returns the content of a message: a string, or a list of parts. */
static const char *message_content(const cJSON *m, ChatMessage *s, RowOut *row, char **error)
{
    const char *key = sample_get(m, "value") ? "value" : "content";
    const cJSON *parts = json_get(m, key);
    if (!cJSON_IsArray(parts) || (sample_get(m, "content") && sample_get(m, "value")))
        return message_text(m, "content", "value", error);
    return s->joined = parts_text(parts, key, row, error);
}

/* Reads the role, by any of its names. */
static char *message_role(const cJSON *m, Role *to, RowOut *row)
{
    static const struct { const char *is; Role role; } names[] = {
        {"system", ROLE_SYSTEM}, {"user", ROLE_USER}, {"assistant", ROLE_ANSWER},
        {"human", ROLE_USER}, {"gpt", ROLE_ANSWER},     /* ShareGPT */
    };
    static const char *const tools[] = {"tool_calls", "function_call"};
    char *error = NULL;
    for (size_t i = 0; i < sizeof tools / sizeof *tools && !error; i++) {
        if (has_content(json_get(m, tools[i])))
            error = format("%s: tool calls are not supported by this chat format", tools[i]);
    }
    row->stops = error != NULL;
    const char *role = error ? NULL : message_text(m, "role", "from", &error);
    for (size_t i = 0; role && i < sizeof names / sizeof *names; i++)
        if (!strcmp(role, names[i].is)) {
            *to = names[i].role;
            return NULL;
        }
    return error ? error : format("role: must be system, user or assistant (or human and gpt for "
                                  "the latter two), got \"%.40s\"", role);
}

/* Strips line ends on both sides of a text. */
static void trim_lines(const char **text, size_t *n)
{
    for (; *n && **text == '\n'; ++*text)
        --*n;
    while (*n && (*text)[*n - 1] == '\n')
        --*n;
}

static bool is_tool_response(const char *text)
{
    static const char begin[] = "<tool_response>", end[] = "</tool_response>";
    const size_t n = strlen(text);
    return !strncmp(text, begin, strlen(begin)) && n >= strlen(end) &&
           !strcmp(text + n - strlen(end), end);
}

/* Finds an answer's reasoning as the template does: reasoning_content, or the part of the content
 * between <think> and </think>. */
static char *message_reasoning(const Chat *c, const cJSON *m, ChatMessage *s)
{
    const char *given = cJSON_GetStringValue(json_get(m, "reasoning_content")), *last = NULL;
    if (!c->thinks)
        return !given || !*given ? NULL
             : format("reasoning_content: the chat format %s does not render it: put it into "
                      "content, or remove it", c->name);
    if (s->role == ROLE_USER && is_tool_response(s->content))
        return format("<tool_response>: tool responses are not supported");
    if (s->role != ROLE_ANSWER)
        return NULL;
    s->reasoning = given ? given : "";
    s->nreasoning = strlen(s->reasoning);
    for (const char *at = s->content; !given && (at = strstr(at, "</think>")); at += 8)
        last = at;
    if (!last)
        return NULL;
    if (sample_get(m, "masked"))
        return format("masked: not supported for an answer with its reasoning in its content: use "
                      "reasoning_content");
    const char *begin = s->content, *end = strstr(begin, "</think>");
    for (const char *at = begin; (at = strstr(at, "<think>")) && at < end; at += 7)
        begin = at + 7;
    s->skip = (size_t)(last + 8 - s->content);
    s->skip += strspn(s->content + s->skip, "\n");
    s->reasoning = begin;
    s->nreasoning = (size_t)(end - begin);
    trim_lines(&s->reasoning, &s->nreasoning);
    return NULL;
}

static char *message_read(const Rules *rules, const cJSON *m, int i, int given, ChatMessage *s,
                          RowOut *row)
{
    char *error = message_role(m, &s->role, row);
    if (!error)
        s->content = message_content(m, s, row, &error);
    if (!error)
        error = chat_target(rules, role_name[s->role], i, given, &s->turn, row);
    if (!error)
        error = spans_message(m, &s->hidden);
    if (!error && (error = message_reasoning(rules->chat, m, s)))
        row->stops = true;       /* the chat format cannot render it */
    if (error)
        return error;
    s->masked = sample_get(m, "masked");
    row->bytes += (int64_t)strlen(s->content);
    return NULL;
}

/* Checks that the format can render the messages. */
static char *talk_check(const Chat *c, const Talk *t, RowOut *row)
{
    const int first = t->n && t->message->role == ROLE_SYSTEM;
    row->stops = c->alternate && first && c->system_in == SYSTEM_NOWHERE;
    if (row->stops)
        return format("the chat format %s has no system messages", c->name);
    if (first && c->system_in != SYSTEM_TURN && t->n == 1)
        return format("the chat format %s puts the system message into a user's turn, but there is "
                      "none", c->name);
    for (int i = first; i < t->n && c->alternate; i++)
        if (t->message[i].role != ((i - first) % 2 ? ROLE_ANSWER : ROLE_USER))
            return format("message %d is the %s's: in the chat format %s user and assistant "
                          "alternate, the user first%s",
                          i + 1, role_name[t->message[i].role], c->name,
                          c->system_in == SYSTEM_NOWHERE ? ""
                                                         : " after an optional system message");
    return NULL;
}

/* ---- text ------------------------------------------------------------------------------------ */

/* Length of the white-space character (of Python's str.strip) at s; 0: none. */
static size_t space_length(const char *s)
{
    static const char *const wide[] = {"\xc2\x85", "\xc2\xa0", "\xe1\x9a\x80", "\xe2\x80\x80",
        "\xe2\x80\x81", "\xe2\x80\x82", "\xe2\x80\x83", "\xe2\x80\x84", "\xe2\x80\x85",
        "\xe2\x80\x86", "\xe2\x80\x87", "\xe2\x80\x88", "\xe2\x80\x89", "\xe2\x80\x8a",
        "\xe2\x80\xa8", "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"};
    if (*s == ' ' || (*s >= '\t' && *s <= '\r') || (*s >= 0x1c && *s <= 0x1f))
        return 1;
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        if (!strncmp(s, wide[i], strlen(wide[i])))
            return strlen(wide[i]);
    return 0;
}

static void trim_left(const char **text, size_t *n)
{
    for (size_t k; *n && (k = space_length(*text)); *text += k)
        *n -= k;
}

/* Length of a NUL-terminated text without trailing white space. */
static size_t trimmed(const char *text)
{
    size_t end = 0;
    for (size_t i = 0; text[i];) {
        const size_t k = space_length(text + i);
        i += k ? k : 1;
        end = k ? end : i;
    }
    return end;
}

static void talk_put(Talk *t, const char *text, size_t n)
{
    if (t->cap - t->ntext <= n) {
        t->cap = 2 * (t->cap + n) + 256;
        t->text = realloc(t->text, t->cap);
        if (!t->text)
            abort();
    }
    memcpy(t->text + t->ntext, text, n);
    t->text[t->ntext += n] = 0;
}

static void talk_string(Talk *t, const char *text)
{
    talk_put(t, text ? text : "", text ? strlen(text) : 0);
}

static void put_content(Talk *t, ChatMessage *s, bool strip)
{
    const char *content = s->content + s->skip;
    size_t n = strlen(content);
    if (strip) {
        n = trimmed(content);
        trim_left(&content, &n);
    }
    s->from = t->ntext;
    s->cut = (size_t)(content - s->content);
    s->kept = n;
    talk_put(t, content, n);
}

/* Writes the reasoning before an answer. An empty block belongs to the prompt, which ends with it
 * to ask for an answer without reasoning. */
static void put_reasoning(Talk *t, ChatMessage *s)
{
    const char *text = s->reasoning;
    size_t n = s->nreasoning;
    trim_lines(&text, &n);
    talk_string(t, "<think>\n");
    talk_put(t, text, n);
    talk_string(t, "\n</think>\n\n");
    s->head = n ? s->head : t->ntext;
    s->skip += strspn(s->content + s->skip, "\n");
}

/* True if an answer is rendered with its reasoning: not if it is an earlier one, as the model reads
 * it later, unless it is a target; and not if there is no user's turn. */
static bool shows_reasoning(const Talk *t, const ChatMessage *s)
{
    int asked = 0, later = 0;
    for (int i = 0; i < t->n; i++) {
        asked += t->message[i].role == ROLE_USER;
        later += t->message[i].role == ROLE_USER && &t->message[i] > s;
    }
    if (!s->reasoning || !asked)
        return false;
    return s->turn != TARGET_GIVEN || (!later && (s + 1 == t->message + t->n || s->nreasoning));
}

/* Appends a turn. folded: a system message inside this user's turn, or NULL. */
static void put_turn(const Chat *c, Talk *t, ChatMessage *s, ChatMessage *folded, bool first)
{
    const ChatTurn *turn = s->role == ROLE_SYSTEM ? &c->system
                           : s->role == ROLE_USER ? &c->user
                                                  : &c->answer;
    ChatMessage *opens = folded ? folded : s;
    opens->begin = opens->head = t->ntext;
    opens->apart = chat_begins_token(c, turn->open);
    talk_string(t, first ? c->begin : NULL);
    talk_string(t, turn->open);
    if (folded) {
        talk_string(t, c->system.open);
        put_content(t, folded, c->system.trim != TRIM_NOT);
        talk_string(t, c->system.close);
        s->begin = folded->end = t->ntext;
    }
    s->head = t->ntext;
    if (s->role == ROLE_ANSWER)
        talk_string(t, c->lead);
    if (shows_reasoning(t, s))
        put_reasoning(t, s);
    if (s->role == ROLE_SYSTEM && first)
        talk_string(t, c->preamble);
    put_content(t, s, turn->trim == TRIM_CONTENT || (turn->trim == TRIM_ALL && !folded));
    if (folded && turn->trim == TRIM_ALL) {      /* begins with the opening of the system message */
        t->ntext = trimmed(t->text);
        t->text[t->ntext] = 0;
        s->kept = t->ntext > s->from ? t->ntext - s->from : 0;
        s->begin = s->head = s->from = s->from < t->ntext ? s->from : t->ntext;
        folded->end = s->begin;
    }
    talk_string(t, turn->close);
    s->end = t->ntext;
}

/* Returns the index of the user's turn that contains the system message; -1: none. */
static int fold_at(const Chat *c, const Talk *t)
{
    int at = -1;
    if (!t->n || t->message->role != ROLE_SYSTEM ||
        (c->system_in != SYSTEM_FIRST && c->system_in != SYSTEM_LAST))
        return -1;
    for (int i = 1; i < t->n && (at < 0 || c->system_in == SYSTEM_LAST); i++)
        at = t->message[i].role == ROLE_USER ? i : at;
    return at;
}

static void talk_write(const Chat *c, Talk *t)
{
    const int fold = fold_at(c, t);
    for (int i = fold > 0; i < t->n; i++)
        put_turn(c, t, &t->message[i], i == fold ? t->message : NULL, i == (fold > 0));
    talk_string(t, c->end);
    t->message[t->n - 1].end = t->ntext;
    if (fold > 1) {              /* sorts `message` by position in the text */
        const ChatMessage system = t->message[0];
        memmove(t->message, t->message + 1, (size_t)(fold - 1) * sizeof system);
        t->message[fold - 1] = system;
    }
}

/* ---- tokens ---------------------------------------------------------------------------------- */

/* Sets the targets of one message in text (n), a stretch whose ids begin at `at`. */
static char *message_targets(const Tokenizer *tok, const ChatMessage *s, const char *text, size_t n,
                          size_t begin, size_t at, Encoded *e, RowOut *row)
{
    const size_t from = (s->turn == TARGET_ANSWER ? s->head : s->begin) - begin,
                 end = s->end - begin;
    size_t first = 0, last = e->n - at;
    bool inside = false;         /* a token that joins two turns is a target if one of them is */
    char *error = NULL;
    if (s->turn == TARGET_GIVEN)
        return NULL;
    if (from)
        error = spans_count(tok, text, from, false, at, &first, &inside, e);
    row->not_prefix |= inside && s->turn == TARGET_ANSWER;
    row->joined |= inside;
    inside = false;
    if (!error && end < n)
        error = spans_count(tok, text, end, false, at, &last, &inside, e);
    row->joined |= inside;
    for (size_t i = at + first; !error && i < at + last + inside && i < e->n; i++)
        e->target[i] = s->hidden ? TARGET_HIDDEN : 1;
    e->hides |= s->hidden;
    return error;
}

static char *talk_encode(const Talk *t, const Tokenizer *tok, Encoded *e, RowOut *row)
{
    char *error = NULL;
    for (int i = 0, next; i < t->n && !error; i = next) {
        const size_t begin = i ? t->message[i].begin : 0, at = e->n;
        const char *text = t->text + begin;
        for (next = i + 1; next < t->n && !t->message[next].apart; next++)
            ;
        const size_t n = (next < t->n ? t->message[next].begin : t->ntext) - begin;
        error = encode_text(tok, text, n, false, false, e);
        for (int k = i; k < next && !error; k++)
            error = message_targets(tok, &t->message[k], text, n, begin, at, e, row);
        for (int k = i; k < next && !error; k++) {
            const ChatMessage *s = &t->message[k];
            const Spanned content = {text, s->content, s->from - begin, s->cut, s->kept};
            error = spans_hide(tok, s->masked, &content, false, at, e, row);
        }
    }
    return error;
}

/* Reads the messages of two lists by the rules; those from `given` on have targets. */
static char *talk_read(Talk *t, const Rules *rules, const cJSON *messages, const cJSON *answer,
                       int given, RowOut *row)
{
    const Chat *c = rules->chat;
    char *error = NULL;
    int i = 0;
    const int most = cJSON_GetArraySize(messages) + cJSON_GetArraySize(answer) + 2;
    t->message = calloc((size_t)most, sizeof *t->message);
    if (!t->message)
        abort();
    for (const cJSON *list = messages; list && !error; list = list == messages ? answer : NULL)
        for (const cJSON *m = list->child; m && !error; m = m->next, i++) {
            ChatMessage s = {0};
            error = message_read(rules, m, i, given, &s, row);
            if (!i && !error && c->says && s.role != ROLE_SYSTEM)
                t->message[t->n++] = (ChatMessage){
                    .role = ROLE_SYSTEM, .content = c->says,
                    .turn = s.turn == TARGET_WHOLE ? TARGET_WHOLE : TARGET_GIVEN};
            t->message[t->n++] = s;
        }
    return error ? error : talk_check(c, t, row);
}

static void talk_free(Talk *t)
{
    for (int k = 0; k < t->n; k++)
        free(t->message[k].joined);
    free(t->message);
    free(t->text);
}

/* True if the last message of a list is an answer without a text, a call or a thought. */
static bool ends_empty(const cJSON *messages)
{
    const cJSON *last = messages && messages->child ? messages->child->prev : NULL;
    bool answers = false;
    for (const cJSON *v = last ? last->child : NULL; v; v = v->next) {
        const bool role = !strcmp(v->string, "role") || !strcmp(v->string, "from");
        const char *text = cJSON_GetStringValue(v);
        if (role)
            answers = text && names_listed("assistant|gpt|model", text);
        else if (has_content(v))
            return false;
    }
    return answers;
}

char *chat_encode(const Rules *rules, const Tokenizer *tok, const cJSON *messages,
                  const cJSON *answer, int given, Encoded *e, RowOut *row)
{
    Talk t = {0};
    const bool needed = render_needed(messages, answer, row);
    row->empty |= ends_empty(answer ? answer : messages);
    if (rules->render && (needed || !rules->chat))
        return render_encode(rules, tok, messages, answer, given, e, row);
    row->stops = !rules->chat;
    if (row->stops)
        return format("%s", rules->no_chat);
    row->chat = true;
    char *error = talk_read(&t, rules, messages, answer, given, row);
    if (!error && t.n) {
        talk_write(rules->chat, &t);
        error = talk_encode(&t, tok, e, row);
    }
    talk_free(&t);
    if (error && needed && rules->no_render) {
        char *why = format("%s: %s", error, rules->no_render);
        free(error);
        error = why;
    }
    return error;
}

char *chat_prompt(const Chat *chat, const Tokenizer *tok, const cJSON *messages, Encoded *e)
{
    Chat open = *chat;           /* without the end of a row */
    open.end = NULL;
    const Rules rules = {.chat = &open, .loss = LOSS_LAST};
    RowOut row = {0};
    Talk t = {0};
    char *error = talk_read(&t, &rules, messages, NULL, INT_MAX, &row);
    if (!error && (!t.n || t.message[t.n - 1].role != ROLE_USER))
        error = format("messages: the last one must have the role user");
    if (!error) {
        talk_write(&open, &t);
        ChatMessage *asks = &t.message[t.n++];
        *asks = (ChatMessage){.role = ROLE_ANSWER, .content = "", .begin = t.ntext,
                       .apart = chat_begins_token(chat, chat->answer.open)};
        talk_string(&t, chat->answer.open);
        talk_string(&t, chat->thinks ? "<think>\n\n</think>\n\n" : NULL);
        error = talk_encode(&t, tok, e, &row);
    }
    talk_free(&t);
    return error;
}

cJSON *chat_turn(const char *role, const char *text)
{
    cJSON *m = cJSON_CreateObject();
    cJSON_AddStringToObject(m, "role", role);
    cJSON_AddStringToObject(m, "content", text);
    return m;
}

cJSON *chat_answer(Answered answer)
{
    cJSON *m = chat_turn("assistant", answer.text);
    if (answer.masked)
        cJSON_AddItemReferenceToObject(m, "masked", (cJSON *)(uintptr_t)answer.masked);
    return m;
}

cJSON *chat_list(cJSON *first, cJSON *second)
{
    cJSON *list = cJSON_CreateArray();
    cJSON_AddItemToArray(list, first);
    if (second)
        cJSON_AddItemToArray(list, second);
    return list;
}
