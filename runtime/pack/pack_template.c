/* pack_template.c -- chat formats: the table of chats.def, the choice of one, and a format as a
 * template.
 *
 * In:    a name; or the chat_template next to the tokenizer, recognised by its hash; or without one
 *        the added tokens.
 * Out:   a row of chats.def; a Jinja template with which transformers renders the text of
 *        pack_chat.c.
 * Keeps: the text of templates never changes: folders with one are recognised by its hash. */
#define _GNU_SOURCE
#include "runtime/pack/pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/files/json.h"
#include "runtime/files/names.h"
#include "runtime/files/sha256.h"
#include "runtime/files/utf8.h"

/* ---- the table ------------------------------------------------------------------------------- */

enum { TEMPLATE_MAX = 16 << 20, TOKEN_MAX = 64 };

static const Chat chats[] = {
#define HEADED(before, after, close, trim)                                                     \
    .system = {before "system" after, close, trim}, .user = {before "user" after, close, trim}, \
    .answer = {before "assistant" after, close, trim}
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
    bool dated;                  /* it renders today's date */
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

static char *chat_names(void)
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

/* Reads the word at *at and advances *at past it; false: no more words. */
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
    return format("must be one of %s, got %s%s%s%s", chat_names(), name,
                  near ? ": did you mean " : "", near ? near : "", near ? "?" : "");
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
static char *tokens_text(const Chat *c)
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

bool chat_begins_token(const Chat *c, const char *text)
{
    char token[TOKEN_MAX];
    for (const char *at = c->tokens; text && next_token(&at, token);)
        if (!strncmp(text, token, strlen(token)))
            return true;
    return false;
}

/* Refuses an opening token that strips white space to its left: it would change the turn before. */
static char *check_border(const Chat *c, const Tokenizer *tok)
{
    const ChatTurn *const follow[][2] = {{&c->user, &c->answer}, {&c->answer, &c->user}};
    char *error = NULL;
    for (int i = 0; i < 2 && !error; i++) {
        const char *end = follow[i][0]->close, *open = follow[i][1]->open;
        if (!end || !chat_begins_token(c, open))
            continue;
        const size_t n = strlen(end);
        char *both = format("%s%s", end, open);
        Encoded apart = {0}, joined = {0};
        error = encode_text(tok, both, n, false, false, &apart);
        error = error ? error : encode_text(tok, both + n, strlen(open), false, false, &apart);
        error = error ? error : encode_text(tok, both, strlen(both), false, false, &joined);
        if (!error &&
            (apart.n != joined.n || memcmp(apart.id, joined.id, joined.n * sizeof *joined.id)))
            error = format("%s strips the white space before it: turns cannot be separated", open);
        encoded_free(&apart), encoded_free(&joined);
        free(both);
    }
    return error;
}

/* Hashes a template as Jinja reads it: line ends become LF, and the last one is dropped. */
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

/* Finds the template named "default" in a list. */
static char *default_template(const cJSON *list, const char *path, const char **text)
{
    char *names = NULL;
    for (const cJSON *i = list->child; i; i = i->next) {
        const cJSON *name = json_get(i, "name"), *body = json_get(i, "template");
        if (!cJSON_IsString(name) || !cJSON_IsString(body))
            return format("%s: chat_template: each item of its list must be {\"name\", "
                          "\"template\"}", path);
        char *longer = format("%s%s%.40s", names ? names : "", names ? ", " : "",
                              name->valuestring);
        free(names);
        names = longer;
        if (!strcmp(name->valuestring, "default")) {
            *text = body->valuestring;
            return NULL;
        }
    }
    return format("%s: chat_template has none named default (%s): give the format with --chat NAME "
                  "(%s)", path, names ? names : "it is empty", chat_names());
}

char *template_read(const char *tokenizer_path, const char **text, const char **from)
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
        const size_t mark = utf8_mark(got, n);
        *text = memmove(got, got + mark, n - mark + 1);
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
        error = format("%s: chat_template: must be a string or a list", config);
    if (*text)
        *text = format("%s", *text);
    cJSON_Delete(json);
    return error;
}

/* True if the template is the one that our export writes for the format. */
static bool is_own(const Chat *c, const char *hash)
{
    char *text = chat_template(c), generated_hash[SHA256_HEX] = "";
    if (text)
        template_hash(text, generated_hash);
    free(text);
    return !strcmp(generated_hash, hash);
}

/* Finds the format of a template. If several differ only in bos_token, the tokenizer's decides. */
static char *chat_of(const Chat **to, const char *text, const char *from, const Tokenizer *tok)
{
    char hash[SHA256_HEX], *want = NULL;
    template_hash(text, hash);
    for (int i = 0; i < NKNOWN && !*to; i++) {
        if (strcmp(known[i].sha256, hash))
            continue;
        if (known[i].dated)
            return format("the chat_template in %s renders today's date, so token files would "
                          "differ from day to day: --chat %s renders the same with a fixed date",
                          from, known[i].chat);
        const Chat *c = chat_named(known[i].chat);
        const bool bos = !c->bos || tokenizer_added(tok, c->bos) == tokenizer_bos(tok),
                   eos = !c->eos || tokenizer_added(tok, c->eos) == tokenizer_eos(tok);
        if (bos && eos)
            *to = c;
        else if (!want)
            want = format("the chat_template in %s renders %s, which must be %s in "
                          "tokenizer_config.json", from, bos ? "eos_token" : "bos_token",
                          bos ? c->eos : c->bos);
    }
    for (int i = 0; i < NCHATS && !*to && !want; i++)
        *to = is_own(&chats[i], hash) ? &chats[i] : NULL;
    if (*to) {
        free(want);
        return NULL;
    }
    return want ? want : format("the chat_template in %s is not known: if one of the formats %s "
                                "renders the same, give --chat NAME and check rows with --show 3",
                                from, chat_names());
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
            *why = format("the tokenizer's added tokens, as it has no chat_template");
        }
    if (!chat)
        return format("messages need a tokenizer with chat tokens (<|im_start|> or "
                      "<|start_header_id|>)");
    if (!has_tokens(chat, tok))
        return format("the chat format %s needs the added tokens %s, which this tokenizer lacks",
                      chat->name, tokens_text(chat));
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
            return false;        /* they render the same turns differently */
    }
    char *error = found ? check_border(found, tok) : format("none");
    free(error);
    if (error)
        return false;
    free(*why);
    *why = format("the tokenizer's added tokens, as its chat_template is not known");
    *to = found;
    return true;
}

bool chat_ends(const Chat *chat, const Tokenizer *tok, int32_t id)
{
    char token[TOKEN_MAX];
    for (const char *at = chat->tokens; chat->answer.close && next_token(&at, token);)
        if (strstr(chat->answer.close, token) && tokenizer_added(tok, token) == id)
            return true;
    return tokenizer_ends(tok, id);
}

/* ---- template -------------------------------------------------------------------------------- */

/* Writes a text as a Jinja string. */
static void put_text(FILE *to, const char *text)
{
    putc('\'', to);
    for (const char *s = text ? text : ""; *s; s++)
        if (*s == '\n')
            fputs("\\n", to);
        else
            fprintf(to, "%s%c", *s == '\'' || *s == '\\' ? "\\" : "", *s);
    putc('\'', to);
}

static void put_output(FILE *to, const char *text)
{
    fputs("{{- ", to);
    put_text(to, text);
    fputs(" }}\n", to);
}

/* Writes a turn: opening, `inner` (or NULL), the value, close. */
static void put_turn(FILE *to, const ChatTurn *turn, const char *inner, const char *value)
{
    fputs("{{- ", to);
    put_text(to, turn->open);
    if (inner) {
        fputs(" + ", to);
        put_text(to, inner);
    }
    fprintf(to, " + %s%s + ", value, turn->trim != TRIM_NOT ? " | trim" : "");
    put_text(to, turn->close);
    fputs(" }}\n", to);
}

/* Sets `system` to a system message that comes first, else to the format's own, and `turns` to the
 * messages after it. */
static void put_system(FILE *to, const Chat *c)
{
    fputs("{%- if messages[0]['role'] == 'system' %}\n"
          "    {%- set system = messages[0]['content'] if messages[0]['content'] is string else "
          "messages[0]['content'] | map(attribute='text') | join('') %}\n"
          "    {%- set turns = messages[1:] %}\n{%- else %}\n    {%- set system = ", to);
    if (c->says)
        put_text(to, c->says);
    else
        fputs("none", to);
    fputs(" %}\n    {%- set turns = messages %}\n{%- endif %}\n", to);
    if (c->alternate && c->system_in == SYSTEM_NOWHERE)
        fprintf(to, "{%%- if system is not none %%}\n    {{- raise_exception('the chat format %s "
                    "has no place for a system message') }}\n{%%- endif %%}\n", c->name);
    if (c->begin)
        put_output(to, c->begin);
    if (c->system_in != SYSTEM_TURN)
        return;
    fputs("{%- if system is not none %}\n    ", to);
    put_turn(to, &c->system, c->preamble, "system");
    fputs("{%- endif %}\n", to);
}

/* Writes the user's turn, which may contain the system message. */
static void put_user(FILE *to, const Chat *c)
{
    const bool folds = c->system_in == SYSTEM_FIRST || c->system_in == SYSTEM_LAST;
    if (folds) {
        fprintf(to, "        {%%- if system is not none and loop.index0 == %s %%}\n"
                    "            {{- ",
                c->system_in == SYSTEM_FIRST ? "0" : "(turns | length - 1) // 2 * 2");
        put_text(to, c->user.open);
        fputs(" + (", to);
        put_text(to, c->system.open);
        fprintf(to, " + system%s + ", c->system.trim != TRIM_NOT ? " | trim" : "");
        put_text(to, c->system.close);
        fprintf(to, " + content%s)%s + ", c->user.trim == TRIM_CONTENT ? " | trim" : "",
                c->user.trim == TRIM_ALL ? " | trim" : "");
        put_text(to, c->user.close);
        fputs(" }}\n        {%- else %}\n    ", to);
    }
    fputs("        ", to);
    put_turn(to, &c->user, NULL, "content");
    if (folds)
        fputs("        {%- endif %}\n", to);
}

static void put_turns(FILE *to, const Chat *c)
{
    fputs("{%- for message in turns %}\n    {%- set content = message['content'] "
          "if message['content'] is string else "
          "message['content'] | map(attribute='text') | join('') %}\n", to);
    if (c->alternate)
        fprintf(to, "    {%%- if (message['role'] == 'user') != (loop.index0 %% 2 == 0) %%}\n"
                    "        {{- raise_exception('the chat format %s wants user and assistant in "
                    "turn, the user first') }}\n    {%%- endif %%}\n", c->name);
    fputs("    {%- if message['role'] == 'user' %}\n", to);
    put_user(to, c);
    fputs("    {%- elif message['role'] == 'assistant' %}\n        ", to);
    put_turn(to, &c->answer, c->lead, "content");
    if (!c->alternate) {
        fputs("    {%- elif message['role'] == 'system' %}\n        ", to);
        put_turn(to, &c->system, NULL, "content");
    }
    fputs("    {%- else %}\n        {{- raise_exception('the role ' + message['role'] + "
          "' has no place in ", to);
    fprintf(to, "the chat format %s') }}\n    {%%- endif %%}\n{%%- endfor %%}\n", c->name);
}

char *chat_template(const Chat *c)
{
    size_t n;
    char *text = NULL;
    if (c->thinks)
        return NULL;
    FILE *to = open_memstream(&text, &n);
    if (!to)
        abort();
    fprintf(to, "{#- the chat format %s, written by diecast #}\n", c->name);
    put_system(to, c);
    put_turns(to, c);
    fputs("{%- if add_generation_prompt %}\n    ", to);
    put_output(to, c->answer.open);
    if (c->end) {
        fputs("{%- else %}\n    ", to);
        put_output(to, c->end);
    }
    fputs("{%- endif %}\n", to);
    fclose(to);
    return text;
}
