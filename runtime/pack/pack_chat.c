/* pack_chat.c -- conversations as the model's chat template writes them, turn by turn.
 *
 * In:    messages; the format from chats.def, found by name, by the hash of the chat_template beside
 *        the tokenizer or, without one, by added tokens.
 * Out:   ids of the rendered text, and which of them are targets.
 * Method: a turn begins and ends with added tokens, so turns tokenise on their own. */
#define _GNU_SOURCE
#include "runtime/pack/pack.h"

#include "runtime/base.h"
#include "runtime/files/json.h"
#include "runtime/files/sha256.h"

#include <stdlib.h>
#include <string.h>

enum { TEMPLATE_MAX = 16 << 20 };

static const Chat chats[] = {
#define CHAT(...) {__VA_ARGS__},
#define TEMPLATE(...)
#include "runtime/pack/chats.def"
#undef CHAT
#undef TEMPLATE
};
enum { NCHATS = sizeof chats / sizeof *chats };

static const struct {
    const char *sha256, *chat;
} known[] = {
#define CHAT(...)
#define TEMPLATE(...) {__VA_ARGS__},
#include "runtime/pack/chats.def"
#undef CHAT
#undef TEMPLATE
};

/* ---- which format ---------------------------------------------------------------------------- */

char *chat_names(void)
{
    char *all = format("%s", chats[0].name);
    for (int i = 1; i < NCHATS; i++) {
        char *longer = format("%s, %s", all, chats[i].name);
        free(all);
        all = longer;
    }
    return all;
}

static const Chat *chat_named(const char *name)
{
    for (int i = 0; i < NCHATS; i++)
        if (!strcmp(chats[i].name, name))
            return &chats[i];
    return NULL;
}

static bool has_tokens(const Chat *c, const Tokenizer *tok)
{
    return tokenizer_added(tok, c->open) >= 0 && tokenizer_added(tok, c->close) >= 0 &&
           (!*c->begin || tokenizer_added(tok, c->begin) >= 0);
}

/* An opening token that takes white space to its left along would reach into the turn before. */
static char *check_border(const Chat *c, const Tokenizer *tok)
{
    char *end = format("%s%s", c->close, c->tail), *both = format("%s%s", end, c->open);
    int32_t *ids;
    size_t n, m;
    char *error = tokenizer_encode(tok, both, strlen(both), false, &ids, &n);
    if (!error) {
        free(ids);
        error = tokenizer_encode(tok, end, strlen(end), false, &ids, &m);
    }
    if (!error) {
        free(ids);
        if (n != m + 1)
            error = format("%s swallows the white space beside it: turns cannot be told apart",
                           c->open);
    }
    free(end);
    free(both);
    return error;
}

/* As Jinja reads a source: line ends become LF, and the last one is dropped. In hex. */
static void template_hash(const char *text, char hex[SHA256_HEX])
{
    size_t n = 0;
    char *plain = malloc(strlen(text) + 1);
    for (const char *s = text; *s; s++) {
        plain[n++] = *s == '\r' ? '\n' : *s;
        if (*s == '\r' && s[1] == '\n')
            s++;
    }
    n -= n && plain[n - 1] == '\n';
    Sha256 h;
    sha256_begin(&h);
    sha256_add(&h, plain, n);
    sha256_text(&h, hex);
    free(plain);
}

/* The template named "default" of a list of named ones. */
static char *default_template(const cJSON *list, const char *path, const char **text)
{
    char *names = NULL;
    for (const cJSON *i = list->child; i; i = i->next) {
        const cJSON *name = json_get(i, "name"), *body = json_get(i, "template");
        if (!cJSON_IsString(name) || !cJSON_IsString(body))
            return format("%s: chat_template: want {\"name\", \"template\"} in its list", path);
        char *longer = format("%s%s%.40s", names ? names : "", names ? ", " : "",
                              name->valuestring);
        free(names);
        names = longer;
        if (!strcmp(name->valuestring, "default")) {
            *text = body->valuestring;
            return NULL;
        }
    }
    return format("%s: chat_template has none named default (%s): say --chat NAME with the format "
                  "to use (%s)", path, names ? names : "none at all", chat_names());
}

/* The chat template in the tokenizer's folder as transformers finds it, *text NULL: there is none.
 * *from: the file. */
static char *template_read(const char *tokenizer_path, const char **text, const char **from)
{
    const char *slash = strrchr(tokenizer_path, '/');
    int folder = slash ? (int)(slash + 1 - tokenizer_path) : 0;
    const char *jinja = format("%.*schat_template.jinja", folder, tokenizer_path);
    const char *config = format("%.*stokenizer_config.json", folder, tokenizer_path);
    size_t n;
    char *error = NULL, *got;
    *text = NULL;
    *from = file_named(jinja) ? jinja : config;
    if (*from == config && !file_named(config))
        return NULL;
    got = file_read(*from, TEMPLATE_MAX, &n, &error);
    if (!got)
        return error;
    if (*from == jinja) {
        *text = got;
        return NULL;
    }
    cJSON *json = json_parse(got, n, &error);
    free(got);
    if (!json)
        return format("%s: %s", config, error);
    const cJSON *v = json_get(json, "chat_template");
    if (cJSON_IsString(v))
        *text = v->valuestring;
    else if (cJSON_IsArray(v))
        error = default_template(v, config, text);
    else if (v && !cJSON_IsNull(v))
        error = format("%s: chat_template: want a string or a list", config);
    if (*text)
        *text = format("%s", *text);
    cJSON_Delete(json);
    return error;
}

/* Templates begin with bos_token, whatever it is: the format that is like c but for that. */
static const Chat *with_bos(const Chat *c, const Tokenizer *tok)
{
    for (int i = 0; i < NCHATS && *c->begin; i++) {
        const Chat *o = &chats[i];
        if (*o->begin && tokenizer_bos(tok) >= 0 && tokenizer_added(tok, o->begin) == tokenizer_bos(tok) &&
            !strcmp(o->open, c->open) && !strcmp(o->header_end, c->header_end) &&
            !strcmp(o->close, c->close) && !strcmp(o->tail, c->tail) && o->trim == c->trim &&
            o->preamble == c->preamble && o->system == c->system)
            return o;
    }
    return c;
}

char *chat_choose(const Chat **to, char **why, const Tokenizer *tok,
                  const char *tokenizer_path, const char *name)
{
    const char *text = NULL, *from = NULL;
    char *error = NULL;
    const Chat *chat = NULL;
    *why = NULL;
    if (name) {
        chat = chat_named(name);
        *why = format("--chat");
        if (!chat)
            return format("want one of %s, got %s", chat_names(), name);
    } else if (strcmp(tokenizer_path, "bytes")) {
        error = template_read(tokenizer_path, &text, &from);
        *why = format("the chat_template in %s", from);
    }
    if (error)
        return error;
    if (text) {
        char hash[SHA256_HEX];
        template_hash(text, hash);
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            if (!strcmp(known[i].sha256, hash))
                chat = chat_named(known[i].chat);
        if (!chat)
            return format("the chat_template in %s is none of the known ones: if one of the "
                          "formats %s writes the same, say --chat NAME and look at the rows with "
                          "--show 3", from, chat_names());
        chat = with_bos(chat, tok);
        if (*chat->begin && tokenizer_bos(tok) != tokenizer_added(tok, chat->begin))
            return format("the chat_template in %s begins with bos_token, which wants to be %s in "
                          "tokenizer_config.json", from, chat->begin);
    }
    for (int i = 0; !chat && i < NCHATS; i++)
        if (has_tokens(&chats[i], tok)) {
            chat = &chats[i];
            free(*why);
            *why = format("the tokenizer's added tokens: there is no chat_template beside it");
        }
    if (!chat)
        return format("messages want a tokenizer with chat tokens (<|im_start|> or "
                      "<|start_header_id|>)");
    if (!has_tokens(chat, tok))
        return format("the chat format %s wants the added tokens %s%s%s and %s, which this "
                      "tokenizer lacks", chat->name, chat->begin, *chat->begin ? ", " : "",
                      chat->open, chat->close);
    *to = chat;
    return check_border(chat, tok);
}

bool chat_by_tokens(const Chat **to, char **why, const Tokenizer *tok)
{
    const Chat *found = NULL;
    for (int i = 0; i < NCHATS; i++) {
        const Chat *c = &chats[i];
        if (!has_tokens(c, tok))
            continue;
        found = found ? found : c;
        if (strcmp(c->open, found->open) || c->trim != found->trim || c->preamble != found->preamble)
            return false;        /* they write the same turns in several ways */
    }
    char *error = found ? check_border(found, tok) : format("none");
    free(error);
    if (error)
        return false;
    free(*why);
    *why = format("the tokenizer's added tokens: the chat_template beside it is not known");
    *to = found;
    return true;
}

/* ---- turns ----------------------------------------------------------------------------------- */

/* Bytes of the white space character (as Python's str.strip sees it) at s, 0: none. */
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

static void trim(const char **text, size_t *n)
{
    const char *s = *text, *end;
    for (size_t k; (k = space_length(s)); s += k)
        ;
    end = s;
    for (const char *t = s; *t;) {
        size_t k = space_length(t);
        t += k ? k : 1;
        if (!k)
            end = t;
    }
    *text = s;
    *n = (size_t)(end - s);
}

typedef enum { TURN_GIVEN, TURN_ANSWER, TURN_WHOLE } Turn;   /* targets: none, behind the header */

/* One turn appended; masked: spans of its content, or NULL. Only the border between header and content is inside one piece of the
 * tokenizer; there the header alone is counted, as the generation prompt would be. */
static char *turn_put(const Rules *rules, const Tokenizer *tok, const char *role,
                      const char *content, const cJSON *masked, Turn turn, bool first, Encoded *e,
                      RowOut *row)
{
    const Chat *c = rules->chat;
    const char *string = content;
    size_t ncontent = strlen(content), n, head = 0, at = e->n, from;
    if (c->trim)
        trim(&content, &ncontent);
    const char *preamble = first && c->preamble && !strcmp(role, "system") ? c->preamble : "";
    char *text = malloc(ncontent + 512), *error = NULL;
    n = (size_t)sprintf(text, "%s%s%s%s", first ? c->begin : "", c->open, role, c->header_end);
    if (turn == TURN_ANSWER) {
        error = encode_text(tok, text, n, false, false, e);
        head = e->n - at;
    }
    n += (size_t)sprintf(text + n, "%s", preamble);
    memcpy(text + n, content, ncontent);
    from = n;
    n += ncontent;
    n += (size_t)sprintf(text + n, "%s%s", c->close, c->tail);
    size_t whole = e->n;         /* the turn follows its header alone, which goes away again */
    if (!error)
        error = encode_text(tok, text, n, false, turn != TURN_GIVEN, e);
    if (!error && head) {
        size_t count = e->n - whole;
        row->not_prefix |= head > count ||
                           memcmp(e->id + at, e->id + whole, head * sizeof *e->id);
        memmove(e->id + at, e->id + whole, count * sizeof *e->id);
        e->n = at + count;
        memset(e->target + at, 1, count);
        memset(e->target + at, 0, head < count ? head : count);
    }
    if (!error)
        error = spans_hide(tok, masked, &(Spanned){text, string, from, (size_t)(content - string), ncontent},
                           false, at, e, row);
    free(text);
    return error;
}

/* Key of a message under one of two names, or NULL. */
static const char *message_text(const cJSON *m, const char *key, const char *other, char **error)
{
    const cJSON *v = json_get(m, key), *w = json_get(m, other);
    if (v && w)
        *error = format("a message has both %s and %s", key, other);
    else if (!cJSON_IsString(v ? v : w))
        *error = format("%s: want a string", w ? other : key);
    return *error ? NULL : (v ? v : w)->valuestring;
}

/* The role by any of its names; sets *error when it is none. */
static const char *message_role(const cJSON *m, char **error)
{
    static const struct { const char *is, *role; } names[] = {
        {"system", "system"}, {"user", "user"}, {"assistant", "assistant"},
        {"human", "user"}, {"gpt", "assistant"},        /* ShareGPT */
    };
    static const char *const tools[] = {"tool_calls", "function_call"};
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++) {
        const cJSON *v = json_get(m, tools[i]);
        if (v && !cJSON_IsNull(v) && !(cJSON_IsArray(v) && !v->child))
            *error = format("%s: calls of tools are not supported", tools[i]);
    }
    const char *role = *error ? NULL : message_text(m, "role", "from", error);
    for (size_t i = 0; role && i < sizeof names / sizeof *names; i++)
        if (!strcmp(role, names[i].is))
            return names[i].role;
    if (role)
        *error = format("role: want system, user or assistant (human and gpt are taken for the "
                        "latter two), got \"%.40s\"", role);
    return NULL;
}

char *chat_encode(const Rules *rules, const Tokenizer *tok, const cJSON *messages,
                  const cJSON *answer, int given, Encoded *e, RowOut *row)
{
    char *error = NULL;
    int i = 0;
    if (!rules->chat)
        return format("%s", rules->no_chat);
    const Chat *c = rules->chat;
    row->chat = true;
    for (const cJSON *list = messages; list && !error; list = list == messages ? answer : NULL) {
        for (const cJSON *m = list->child; m && !error; m = m->next, i++) {
            const char *role = message_role(m, &error);
            const char *content = role ? message_text(m, "content", "value", &error) : NULL;
            if (error)
                break;
            bool assistant = !strcmp(role, "assistant"), first = !i;
            Turn turn = TURN_GIVEN;
            if (rules->loss == LOSS_ALL)
                turn = TURN_WHOLE;
            else if (rules->loss == LOSS_ASSISTANT)
                turn = assistant ? TURN_ANSWER : TURN_GIVEN;
            else if (i == given && !assistant)
                error = format("messages: the answer wants the role assistant, got \"%.40s\"",
                               role);
            else if (i >= given)
                turn = i > given ? TURN_WHOLE : TURN_ANSWER;
            else
                row->more_answers |= assistant;
            if (!error && first && c->system && strcmp(role, "system")) {
                error = turn_put(rules, tok, "system", c->system, NULL,
                                 turn == TURN_WHOLE ? TURN_WHOLE : TURN_GIVEN, true, e, row);
                first = false;
            }
            size_t at = e->n;
            bool hidden = false;
            if (!error)
                error = spans_message(m, &hidden);
            if (!error)
                error = turn_put(rules, tok, role, content, json_get(m, "masked"), turn, first, e, row);
            if (hidden)
                spans_all(e, at);
            row->bytes += (int64_t)strlen(content);
        }
    }
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
