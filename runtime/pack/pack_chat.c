/* pack_chat.c -- conversations as the model's chat template writes them, turn by turn.
 *
 * In:    messages; the format from chats.def, found by name, by the hash of the chat_template beside
 *        the tokenizer or, without one, by added tokens.
 * Out:   ids of the rendered text, and which of them are targets.
 * Method: the text of a row is written whole; from where a turn begins with an added token it is encoded
 *        on its own. An answer's targets are the ids behind as many as the text before it has. */
#define _GNU_SOURCE
#include "runtime/pack/pack.h"

#include "runtime/base.h"
#include "runtime/files/json.h"
#include "runtime/files/names.h"
#include "runtime/files/sha256.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEMPLATE_MAX = 16 << 20, TOKEN_MAX = 64 };

static const Chat chats[] = {
#define HEADED(before, behind, close, trim)                                                     \
    .system = {before "system" behind, close, trim}, .user = {before "user" behind, close, trim}, \
    .answer = {before "assistant" behind, close, trim}
#define CHAT(...) {__VA_ARGS__},
#define TEMPLATE(...)
#define DATED(...)
#include "runtime/pack/chats.def"
#undef CHAT
#undef TEMPLATE
#undef DATED
};
enum { NCHATS = sizeof chats / sizeof *chats };

static const struct {
    const char *sha256, *chat;
    bool dated;                  /* it writes today's date */
} known[] = {
#define CHAT(...)
#define TEMPLATE(...) {__VA_ARGS__, false},
#define DATED(...) {__VA_ARGS__, true},
#include "runtime/pack/chats.def"
#undef CHAT
#undef TEMPLATE
#undef DATED
};
enum { NKNOWN = sizeof known / sizeof *known };

/* ---- which format ---------------------------------------------------------------------------- */

const Chat *chat_row(int i, int *templates)
{
    *templates = 0;
    for (int k = 0; k < NKNOWN && i < NCHATS; k++)
        *templates += !known[k].dated && !strcmp(known[k].chat, chats[i].name);
    return i < NCHATS ? &chats[i] : NULL;
}

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

/* The word at *at, which goes behind it; false: there is no more. */
static bool next_token(const char **at, char token[TOKEN_MAX])
{
    *at += strspn(*at, " ");
    const size_t n = strcspn(*at, " ");
    snprintf(token, TOKEN_MAX, "%.*s", (int)n, *at);
    *at += n;
    return n;
}

static char *unknown_name(const char *name)
{
    const char *near = NULL;
    int least = (int)strlen(name) / 2 + 1;       /* letters */
    for (int i = 0; i < NCHATS; i++) {
        const int letters = names_distance(name, chats[i].name);
        near = letters < least ? chats[i].name : near;
        least = letters < least ? letters : least;
    }
    return format("want one of %s, got %s%s%s%s", chat_names(), name, near ? ": did you mean " : "",
                  near ? near : "", near ? "?" : "");
}

static bool has_tokens(const Chat *c, const Tokenizer *tok)
{
    char token[TOKEN_MAX];
    for (const char *at = c->tokens; next_token(&at, token);)
        if (tokenizer_added(tok, token) < 0)
            return false;
    return true;
}

/* "A, B and C" of the format's tokens; malloc'ed. */
static char *tokens_said(const Chat *c)
{
    char token[TOKEN_MAX], *all = NULL;
    for (const char *at = c->tokens; next_token(&at, token);) {
        char *longer = all ? format("%s%s%s", all, at[strspn(at, " ")] ? ", " : " and ", token)
                           : format("%s", token);
        free(all);
        all = longer;
    }
    return all;
}

/* Whether one of the format's tokens begins here: what follows is then encoded on its own. */
static bool begins_token(const Chat *c, const char *text)
{
    char token[TOKEN_MAX];
    for (const char *at = c->tokens; text && next_token(&at, token);)
        if (!strncmp(text, token, strlen(token)))
            return true;
    return false;
}

/* An opening token that takes white space to its left along would reach into the turn before. */
static char *check_border(const Chat *c, const Tokenizer *tok)
{
    const ChatTurn *const follow[][2] = {{&c->user, &c->answer}, {&c->answer, &c->user}};
    char *error = NULL;
    for (int i = 0; i < 2 && !error; i++) {
        const char *end = follow[i][0]->close, *open = follow[i][1]->open;
        if (!end || !begins_token(c, open))
            continue;
        const size_t n = strlen(end);
        char *both = format("%s%s", end, open);
        Encoded apart = {0}, joined = {0};
        error = encode_text(tok, both, n, false, false, &apart);
        error = error ? error : encode_text(tok, both + n, strlen(open), false, false, &apart);
        error = error ? error : encode_text(tok, both, strlen(both), false, false, &joined);
        if (!error && (apart.n != joined.n || memcmp(apart.id, joined.id, joined.n * sizeof *joined.id)))
            error = format("%s swallows the white space beside it: turns cannot be told apart", open);
        encoded_free(&apart), encoded_free(&joined);
        free(both);
    }
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

/* Whether the template is the one that an export of ours wrote for the format. */
static bool is_own(const Chat *c, const char *hash)
{
    char *text = chat_template(c), own[SHA256_HEX] = "";
    if (text)
        template_hash(text, own);
    free(text);
    return !strcmp(own, hash);
}

/* The format of a template. Several write bos_token with different tokens: then by the tokenizer's. */
static char *chat_of(const Chat **to, const char *text, const char *from, const Tokenizer *tok)
{
    char hash[SHA256_HEX], *want = NULL;
    template_hash(text, hash);
    for (int i = 0; i < NKNOWN && !*to; i++) {
        if (strcmp(known[i].sha256, hash))
            continue;
        if (known[i].dated)
            return format("the chat_template in %s writes the date of the day it runs on, and a token file that "
                          "changes with it is no use: --chat %s writes the same with a date that stays", from,
                          known[i].chat);
        const Chat *c = chat_named(known[i].chat);
        const bool bos = !c->bos || tokenizer_added(tok, c->bos) == tokenizer_bos(tok),
                   eos = !c->eos || tokenizer_added(tok, c->eos) == tokenizer_eos(tok);
        if (bos && eos)
            *to = c;
        else if (!want)
            want = format("the chat_template in %s writes %s, which wants to be %s in tokenizer_config.json",
                          from, bos ? "eos_token" : "bos_token", bos ? c->eos : c->bos);
    }
    for (int i = 0; i < NCHATS && !*to && !want; i++)
        *to = is_own(&chats[i], hash) ? &chats[i] : NULL;
    if (*to) {
        free(want);
        return NULL;
    }
    return want ? want : format("the chat_template in %s is none of the known ones: if one of the formats %s "
                                "writes the same, say --chat NAME and look at the rows with --show 3", from,
                                chat_names());
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
            return unknown_name(name);
    } else if (strcmp(tokenizer_path, "bytes")) {
        error = template_read(tokenizer_path, &text, &from);
        *why = format("the chat_template in %s", from);
    }
    if (error)
        return error;
    if (text && (error = chat_of(&chat, text, from, tok)))
        return error;
    for (int i = 0; !chat && i < NCHATS; i++)
        if (chats[i].by_tokens && has_tokens(&chats[i], tok)) {
            chat = &chats[i];
            free(*why);
            *why = format("the tokenizer's added tokens: there is no chat_template beside it");
        }
    if (!chat)
        return format("messages want a tokenizer with chat tokens (<|im_start|> or "
                      "<|start_header_id|>)");
    if (!has_tokens(chat, tok))
        return format("the chat format %s wants the added tokens %s, which this tokenizer lacks", chat->name,
                      tokens_said(chat));
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
        if (strcmp(c->answer.open, found->answer.open) || c->answer.trim != found->answer.trim ||
            c->preamble != found->preamble)
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

/* ---- what a conversation says ------------------------------------------------------------------ */

static const char *const role_name[] = {"system", "user", "assistant"};
typedef enum { ROLE_SYSTEM, ROLE_USER, ROLE_ANSWER } Role;
typedef enum { TURN_GIVEN, TURN_ANSWER, TURN_WHOLE } Turn;   /* targets: none, behind the opening, all */

/* A message, and where the text of the row has it. */
typedef struct {
    Role role;
    Turn turn;
    const char *content;         /* as the data have it: spans count in it */
    char *joined;                /* the same, of parts: to be freed */
    size_t skip;                 /* bytes of it that are reasoning */
    const char *reasoning;       /* (nreasoning) of an answer, in a format that thinks */
    size_t nreasoning;
    const cJSON *masked;         /* spans of it, or NULL */
    bool hidden, apart;          /* apart: its turn begins with a token: it is encoded on its own */
    size_t begin, head, from, behind;    /* in the text: the turn, its answer, its content; the turn's end */
    size_t cut, kept;            /* of the content: bytes left out before, bytes that stand at `from` */
} Said;

typedef struct {
    Said *said;                  /* (n) */
    int n;
    char *text;                  /* (ntext) */
    size_t ntext, cap;
} Talk;

/* The text of a list of parts, malloc'ed. Parts of other types, such as pictures, are no malformed row. */
static char *parts_text(const cJSON *parts, const char *key, RowOut *row, char **error)
{
    char *text = format("%s", "");
    int i = 1;
    for (const cJSON *p = parts->child; p && !*error; p = p->next, i++) {
        const char *type = cJSON_GetStringValue(json_get(p, "type")), *part = cJSON_GetStringValue(json_get(p, "text"));
        if (!type || strcmp(type, "text")) {
            row->stops = type != NULL;
            *error = format("%s: part %d is %s%.40s: want {\"type\": \"text\", \"text\"}, a text alone", key, i,
                            type ? "of the type " : "without a type", type ? type : "");
        } else if (!part) {
            *error = format("%s: part %d: text: want a string", key, i);
        }
        char *longer = format("%s%s", text, *error ? "" : part);
        free(text);
        text = longer;
    }
    return text;
}

/* Key of a message under one of two names, or NULL. */
static const char *message_text(const cJSON *m, const char *key, const char *other, char **error)
{
    const cJSON *v = sample_get(m, key), *w = sample_get(m, other);
    if (v && w)
        *error = format("a message has both %s and %s", key, other);
    else if (!cJSON_IsString(v ? v : w))
        *error = format("%s: want a string", w ? other : key);
    return *error ? NULL : (v ? v : w)->valuestring;
}

/* What a message says: a string, or a list of parts. */
static const char *message_content(const cJSON *m, Said *s, RowOut *row, char **error)
{
    const char *key = sample_get(m, "value") ? "value" : "content";
    const cJSON *parts = json_get(m, key);
    if (!cJSON_IsArray(parts) || (sample_get(m, "content") && sample_get(m, "value")))
        return message_text(m, "content", "value", error);
    return s->joined = parts_text(parts, key, row, error);
}

/* The role by any of its names. */
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
            error = format("%s: calls of tools are not supported", tools[i]);
    }
    row->stops = error != NULL;
    const char *role = error ? NULL : message_text(m, "role", "from", &error);
    for (size_t i = 0; role && i < sizeof names / sizeof *names; i++)
        if (!strcmp(role, names[i].is)) {
            *to = names[i].role;
            return NULL;
        }
    return error ? error : format("role: want system, user or assistant (human and gpt are taken for the "
                                  "latter two), got \"%.40s\"", role);
}

/* What of a message is to be predicted; it is the i-th. */
static char *message_turn(const Rules *rules, Said *s, int i, int given, RowOut *row)
{
    const bool answer = s->role == ROLE_ANSWER;
    s->turn = TURN_GIVEN;
    if (rules->loss == LOSS_ALL)
        s->turn = TURN_WHOLE;
    else if (rules->loss == LOSS_ASSISTANT)
        s->turn = answer ? TURN_ANSWER : TURN_GIVEN;
    else if (i == given && !answer)
        return format("messages: the answer wants the role assistant, got \"%s\"",
                      role_name[s->role]);
    else if (i >= given)
        s->turn = i > given ? TURN_WHOLE : TURN_ANSWER;
    else
        row->more_answers |= answer;
    return NULL;
}

/* A text without the line ends around it. */
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
    return !strncmp(text, begin, strlen(begin)) && n >= strlen(end) && !strcmp(text + n - strlen(end), end);
}

/* An answer's reasoning, as the template finds it: what the message has beside its content, or what of the
 * content is between <think> and </think>. */
static char *message_reasoning(const Chat *c, const cJSON *m, Said *s)
{
    const char *beside = cJSON_GetStringValue(json_get(m, "reasoning_content")), *last = NULL;
    if (!c->thinks)
        return beside && *beside ? format("reasoning_content: the chat format %s does not write it: say it in "
                                          "content, or leave it out", c->name) : NULL;
    if (s->role == ROLE_USER && is_tool_response(s->content))
        return format("<tool_response>: answers of tools are not supported");
    if (s->role != ROLE_ANSWER)
        return NULL;
    s->reasoning = beside ? beside : "";
    s->nreasoning = strlen(s->reasoning);
    for (const char *at = s->content; !beside && (at = strstr(at, "</think>")); at += 8)
        last = at;
    if (!last)
        return NULL;
    if (sample_get(m, "masked"))
        return format("masked: spans of an answer that has its reasoning in its content are not supported: say "
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

static char *message_read(const Rules *rules, const cJSON *m, int i, int given, Said *s, RowOut *row)
{
    char *error = message_role(m, &s->role, row);
    if (!error)
        s->content = message_content(m, s, row, &error);
    if (!error)
        error = message_turn(rules, s, i, given, row);
    if (!error)
        error = spans_message(m, &s->hidden);
    if (!error && (error = message_reasoning(rules->chat, m, s)))
        row->stops = true;       /* what the chat format does not write */
    if (error)
        return error;
    s->masked = sample_get(m, "masked");
    row->bytes += (int64_t)strlen(s->content);
    return NULL;
}

/* Whether the format can say what the messages do. */
static char *talk_check(const Chat *c, const Talk *t, RowOut *row)
{
    const int first = t->n && t->said->role == ROLE_SYSTEM;
    row->stops = c->alternate && first && c->system_in == SYSTEM_NOWHERE;
    if (row->stops)
        return format("the chat format %s has no place for a system message", c->name);
    if (first && c->system_in != SYSTEM_TURN && t->n == 1)
        return format("the chat format %s writes a system message into a user's turn, and there is none", c->name);
    for (int i = first; i < t->n && c->alternate; i++)
        if (t->said[i].role != ((i - first) % 2 ? ROLE_ANSWER : ROLE_USER))
            return format("message %d is the %s's: the chat format %s wants user and assistant in turn, the "
                          "user first%s", i + 1, role_name[t->said[i].role], c->name,
                          c->system_in == SYSTEM_NOWHERE ? "" : ", behind a system message or none");
    return NULL;
}

/* ---- its text ---------------------------------------------------------------------------------- */

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

static void trim_left(const char **text, size_t *n)
{
    for (size_t k; *n && (k = space_length(*text)); *text += k)
        *n -= k;
}

/* Bytes of a text, NUL-terminated, without the white space that ends it. */
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

static void put_content(Talk *t, Said *s, bool strip)
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

/* The reasoning before an answer. With none the block is what the prompt ends with that asks for an answer
 * without: it is not the answer's. */
static void put_reasoning(Talk *t, Said *s)
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

/* Whether an answer stands with its reasoning: earlier ones stand without, as the model reads them again, unless
 * they are to be predicted; and all where nobody asks. */
static bool shows_reasoning(const Talk *t, const Said *s)
{
    int asked = 0, later = 0;
    for (int i = 0; i < t->n; i++) {
        asked += t->said[i].role == ROLE_USER;
        later += t->said[i].role == ROLE_USER && &t->said[i] > s;
    }
    if (!s->reasoning || !asked)
        return false;
    return s->turn != TURN_GIVEN || (!later && (s + 1 == t->said + t->n || s->nreasoning));
}

/* One turn behind those that are there. folded: a system message that stands in the user's, or NULL. */
static void put_turn(const Chat *c, Talk *t, Said *s, Said *folded, bool first)
{
    const ChatTurn *turn = s->role == ROLE_SYSTEM ? &c->system : s->role == ROLE_USER ? &c->user : &c->answer;
    Said *opens = folded ? folded : s;
    opens->begin = opens->head = t->ntext;
    opens->apart = begins_token(c, turn->open);
    talk_string(t, first ? c->begin : NULL);
    talk_string(t, turn->open);
    if (folded) {
        talk_string(t, c->system.open);
        put_content(t, folded, c->system.trim != TRIM_NOT);
        talk_string(t, c->system.close);
        s->begin = folded->behind = t->ntext;
    }
    s->head = t->ntext;
    if (s->role == ROLE_ANSWER)
        talk_string(t, c->lead);
    if (shows_reasoning(t, s))
        put_reasoning(t, s);
    if (s->role == ROLE_SYSTEM && first)
        talk_string(t, c->preamble);
    put_content(t, s, turn->trim == TRIM_CONTENT || (turn->trim == TRIM_ALL && !folded));
    if (folded && turn->trim == TRIM_ALL) {      /* begins with what opens a system message */
        t->ntext = trimmed(t->text);
        t->text[t->ntext] = 0;
        s->kept = t->ntext > s->from ? t->ntext - s->from : 0;
        s->begin = s->head = s->from = s->from < t->ntext ? s->from : t->ntext;
        folded->behind = s->begin;
    }
    talk_string(t, turn->close);
    s->behind = t->ntext;
}

/* Which user's turn has the system message that is the first: its place among the messages; -1: none. */
static int fold_at(const Chat *c, const Talk *t)
{
    int at = -1;
    if (!t->n || t->said->role != ROLE_SYSTEM || (c->system_in != SYSTEM_FIRST && c->system_in != SYSTEM_LAST))
        return -1;
    for (int i = 1; i < t->n && (at < 0 || c->system_in == SYSTEM_LAST); i++)
        at = t->said[i].role == ROLE_USER ? i : at;
    return at;
}

static void talk_write(const Chat *c, Talk *t)
{
    const int fold = fold_at(c, t);
    for (int i = fold > 0; i < t->n; i++)
        put_turn(c, t, &t->said[i], i == fold ? t->said : NULL, i == (fold > 0));
    talk_string(t, c->end);
    t->said[t->n - 1].behind = t->ntext;
    if (fold > 1) {              /* said in the order of the text */
        const Said system = t->said[0];
        memmove(t->said, t->said + 1, (size_t)(fold - 1) * sizeof system);
        t->said[fold - 1] = system;
    }
}

/* ---- its tokens -------------------------------------------------------------------------------- */

/* The targets of one message, of a stretch of the text of which ids from `at` on are. */
static char *said_targets(const Tokenizer *tok, const Said *s, const char *text, size_t n, size_t begin,
                          size_t at, Encoded *e, RowOut *row)
{
    const size_t from = (s->turn == TURN_ANSWER ? s->head : s->begin) - begin, behind = s->behind - begin;
    size_t first = 0, last = e->n - at;
    RowOut whole = {0};          /* between two turns it does not matter which has the token of both */
    char *error = NULL;
    if (s->turn == TURN_GIVEN)
        return NULL;
    if (from)
        error = spans_count(tok, text, from, false, at, &first, e, s->turn == TURN_ANSWER ? row : &whole);
    if (!error && behind < n)
        error = spans_count(tok, text, behind, false, at, &last, e, &whole);
    for (size_t i = at + first; !error && i < at + last && i < e->n; i++)
        e->target[i] = s->hidden ? TARGET_HIDDEN : 1;
    e->hides |= s->hidden;
    return error;
}

static char *talk_encode(const Talk *t, const Tokenizer *tok, Encoded *e, RowOut *row)
{
    char *error = NULL;
    for (int i = 0, next; i < t->n && !error; i = next) {
        const size_t begin = i ? t->said[i].begin : 0, at = e->n;
        const char *text = t->text + begin;
        for (next = i + 1; next < t->n && !t->said[next].apart; next++)
            ;
        const size_t n = (next < t->n ? t->said[next].begin : t->ntext) - begin;
        error = encode_text(tok, text, n, false, false, e);
        for (int k = i; k < next && !error; k++)
            error = said_targets(tok, &t->said[k], text, n, begin, at, e, row);
        for (int k = i; k < next && !error; k++) {
            const Said *s = &t->said[k];
            error = spans_hide(tok, s->masked, &(Spanned){text, s->content, s->from - begin, s->cut, s->kept},
                               false, at, e, row);
        }
    }
    return error;
}

/* The messages of two lists, one after the other, as the rules take them; of those from `given` on targets. */
static char *talk_read(Talk *t, const Rules *rules, const cJSON *messages, const cJSON *answer, int given, RowOut *row)
{
    const Chat *c = rules->chat;
    char *error = NULL;
    int i = 0;
    t->said = calloc((size_t)(cJSON_GetArraySize(messages) + cJSON_GetArraySize(answer) + 2), sizeof *t->said);
    for (const cJSON *list = messages; list && !error; list = list == messages ? answer : NULL)
        for (const cJSON *m = list->child; m && !error; m = m->next, i++) {
            Said s = {0};
            error = message_read(rules, m, i, given, &s, row);
            if (!i && !error && c->says && s.role != ROLE_SYSTEM)
                t->said[t->n++] = (Said){.role = ROLE_SYSTEM, .content = c->says,
                                         .turn = s.turn == TURN_WHOLE ? TURN_WHOLE : TURN_GIVEN};
            t->said[t->n++] = s;
        }
    return error ? error : talk_check(c, t, row);
}

static void talk_free(Talk *t)
{
    for (int k = 0; k < t->n; k++)
        free(t->said[k].joined);
    free(t->said);
    free(t->text);
}

char *chat_encode(const Rules *rules, const Tokenizer *tok, const cJSON *messages,
                  const cJSON *answer, int given, Encoded *e, RowOut *row)
{
    Talk t = {0};
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
    return error;
}

char *chat_prompt(const Chat *chat, const Tokenizer *tok, const cJSON *messages, Encoded *e)
{
    Chat open = *chat;           /* the row goes on */
    open.end = NULL;
    const Rules rules = {.chat = &open, .loss = LOSS_LAST};
    RowOut row = {0};
    Talk t = {0};
    char *error = talk_read(&t, &rules, messages, NULL, INT_MAX, &row);
    if (!error && (!t.n || t.said[t.n - 1].role != ROLE_USER))
        error = format("messages: the last one is to be answered: want the role user");
    if (!error) {
        talk_write(&open, &t);
        Said *asks = &t.said[t.n++];
        *asks = (Said){.role = ROLE_ANSWER, .content = "", .begin = t.ntext,
                       .apart = begins_token(chat, chat->answer.open)};
        talk_string(&t, chat->answer.open);
        talk_string(&t, chat->thinks ? "<think>\n\n</think>\n\n" : NULL);
        error = talk_encode(&t, tok, e, &row);
    }
    talk_free(&t);
    return error;
}

bool chat_ends(const Chat *chat, const Tokenizer *tok, int32_t id)
{
    char token[TOKEN_MAX];
    for (const char *at = chat->tokens; chat->answer.close && next_token(&at, token);)
        if (strstr(chat->answer.close, token) && tokenizer_added(tok, token) == id)
            return true;
    return tokenizer_ends(tok, id);
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
