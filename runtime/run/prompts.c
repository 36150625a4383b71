/* prompts.c -- prompts from lines of text or JSON, and the style of conversations.
 *
 * In:    a file, which may be hostile. Out: prompts. */
#define _GNU_SOURCE
#include "runtime/run/prompts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "runtime/base.h"
#include "runtime/data/vocabulary.h"
#include "runtime/files/folder.h"
#include "runtime/files/json.h"
#include "runtime/files/utf8.h"
#include "runtime/ranks/comm.h"

enum { PROMPTS_MAX = 1 << 28 };  /* bytes of a file */

static char *more_room(char *text, size_t n)
{
    char *more = realloc(text, n);
    if (!more)
        die(EXIT_INTERNAL, "out of memory for prompts of %zu bytes", n);
    return more;
}

/* Returns all of standard input, read by rank 0, on every rank. */
static char *read_input(const char *flag, size_t *n)
{
    enum { SECONDS = 7 * 24 * 3600 };        /* the user may take time to type */
    char *all = more_room(NULL, 1);
    uint64_t bytes = 0;
    comm_expect(SECONDS);
    for (size_t cap = 0, got = 1; world.rank == 0 && got && bytes <= PROMPTS_MAX; bytes += got) {
        if (cap - bytes < 4096)
            all = more_room(all, (cap = 2 * cap + 65536) + 1);
        got = fread(all + bytes, 1, cap - bytes, stdin);
    }
    comm_broadcast(&bytes, sizeof bytes, 0);
    if (bytes > PROMPTS_MAX)
        die(EXIT_DATA, "%s -: standard input is more than %d bytes", flag, PROMPTS_MAX);
    if (world.rank != 0)
        all = more_room(all, bytes + 1);
    comm_broadcast(all, bytes, 0);
    comm_expect(0);
    all[bytes] = 0;
    *n = bytes;
    return all;
}

/* Removes keys that --ignore-keys names; returns the first other key that no prompt has, NULL:
 * none. */
static const char *unread_key(cJSON *row, char *const *ignore, int nignore)
{
    RowOut out = {0};
    keys_ignore(&(Rules){.ignore = ignore, .nignore = nignore}, row, &out);
    return key_unread(row, "prompt|messages|tools");
}

/* Reads "prompt" or "messages" of a row. Returns NULL, or a malloc'ed message. */
static char *take_row(const char *line, size_t n, char *const *ignore, int nignore, Prompt *to)
{
    char *error = NULL;
    cJSON *row = json_parse(line, n, &error);
    if (!row) {                  /* its line number counts within this row */
        char *why = format("%s", error + strcspn(error, ",") + 2);
        free(error);
        return why;
    }
    const char *unread = cJSON_IsObject(row) ? unread_key(row, ignore, nignore) : NULL;
    const cJSON *text = sample_get(row, "prompt"), *messages = sample_get(row, "messages"),
                *tools = json_get(row, "tools");
    if (!cJSON_IsObject(row) || !text == !messages)
        error = format("must be an object with either \"prompt\" or \"messages\"%s",
                       text ? ", got both" : "");
    else if (unread)
        error = format("%.60s: prompts do not have this key; %s--ignore-keys %.60s leaves it out",
                       unread, !messages ? "" : "a variable of the chat_template is given with "
                       "--template-var NAME=VALUE; ", unread);
    else if (text && !cJSON_IsString(text))
        error = format("prompt: must be a text");
    else if (messages && (!cJSON_IsArray(messages) || !messages->child))
        error = format("messages: must be a list of {\"role\", \"content\"}");
    else if (text && has_content(tools))
        error = format("tools: need messages, not a prompt");
    else if (text)
        to->text = format("%s", text->valuestring);
    else
        to->messages = cJSON_Duplicate(messages, true);
    if (!error && has_content(tools))
        to->tools = cJSON_Duplicate(tools, true);
    cJSON_Delete(row);
    return error;
}

/* True if the input has JSON rows: by the name of a file, else by how it begins. */
static bool has_rows(const char *flag, const char *path, const char *text)
{
    static const char *const rows[] = {".jsonl", ".ndjson", ".json"};
    const char first = text[strspn(text, " \t\r\n")], *dot = strrchr(path, '.');
    for (size_t i = 0; dot && i < sizeof rows / sizeof *rows; i++) {
        if (strcasecmp(dot, rows[i]))
            continue;
        if (first == '[' && !strcasecmp(dot, ".json"))
            die(EXIT_DATA, "%s: is one list, %s takes a JSON object a line: jq -c '.[]' FILE > "
                           "PROMPTS.jsonl converts it", path, flag);
        return true;
    }
    return first == '{' && !(dot && !strcasecmp(dot, ".txt"));
}

Prompt *prompts_read(const char *flag, const char *path, const char *ignored, int64_t *n)
{
    const bool input = !strcmp(path, "-");
    const char *name = input ? "standard input" : path;
    size_t bytes;
    int nignore = 0;
    char *error = NULL, **ignore = *ignored ? split_names(ignored, &nignore) : NULL,
         *all = input ? read_input(flag, &bytes) : file_read(path, PROMPTS_MAX, &bytes, &error);
    Prompt *prompt = NULL;
    if (!all)
        die(EXIT_CONFIG, "%s: %s", flag, error);
    const char *nul = memchr(all, 0, bytes);
    char *at = all;
    if (utf16_mark(at, bytes))
        die(EXIT_DATA, "%s: is UTF-16, must be UTF-8: iconv -f UTF-16 -t UTF-8 FILE converts it",
            name);
    at += utf8_mark(at, bytes);
    const bool json = has_rows(flag, path, at);
    *n = 0;
    for (int64_t number = 1; at < all + bytes; number++) {
        size_t length = strcspn(at, "\n"), bad;
        Prompt one = {.line = number};
        if (nul && nul == at + length)
            die(EXIT_DATA, "%s:%" PRId64 ": holds a NUL character: not text", name, number);
        char *next = at + length + 1;
        at[length] = 0;
        length -= length && at[length - 1] == '\r';
        at[length] = 0;
        if ((bad = utf8_check(at, length)) < length)
            die(EXIT_DATA, "%s:%" PRId64 ": byte %zu is not UTF-8", name, number, bad + 1);
        if (at[strspn(at, " \t")]) {
            error = json ? take_row(at, length, ignore, nignore, &one) : NULL;
            if (error)
                die(EXIT_DATA, "%s:%" PRId64 ": %s", name, number, error);
            if (!json)
                one.text = format("%s", at);
            if (!(*n & (*n + 1)) &&
                !(prompt = realloc(prompt, sizeof *prompt * (size_t)(2 * *n + 2))))
                die(EXIT_INTERNAL, "out of memory for %s", name);
            prompt[(*n)++] = one;
        }
        at = next;
    }
    free(all), free(ignore);
    if (!*n)
        die(EXIT_DATA, "%s: no prompts: write one per line", name);
    return prompt;
}

void prompts_free(Prompt *all, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        free(all[i].text);
        cJSON_Delete(all[i].messages), cJSON_Delete(all[i].tools);
    }
    free(all);
}

/* ---- conversations --------------------------------------------------------------------------- */

/* The record of the training data (see records_save()) in the first folder that has one; NULL: none
 * has. Free with cJSON_Delete(). */
static cJSON *learned_style(const char *const folder[], int nfolders)
{
    cJSON *all = NULL;
    for (int i = 0; i < nfolders && !all; i++) {
        char *path = format("%s/train_state.json", folder[i] ? folder[i] : ""), *error = NULL;
        if (folder[i] && file_named(path))
            all = folder_read_json(folder[i], "train_state.json", 1 << 28, &error);
        if (error)
            die(EXIT_DATA, "%s", error);
        const cJSON *state = json_get(all, "state");
        if (all && !json_get(state, "chat") && !json_get(state, "chat_template")) {
            cJSON_Delete(all);
            all = NULL;
        }
        free(path);
    }
    return all;
}

/* Opens the format or template that --chat-format names. */
static char *open_named(ChatStyle *s, const char *name, const char *tokenizer, const Tokenizer *t,
                        char **why)
{
    if (strcmp(name, CHAT_TEMPLATE)) {
        s->no_render = format("--chat-format %s replaces the chat_template", name);
        return chat_choose(&s->chat, why, t, tokenizer, name);
    }
    char *error = render_open(&s->render, tokenizer);
    return error || s->render ? error
                              : format("the tokenizer's folder has no chat_template");
}

/* Opens those of the training data. A format by hand goes with the folder's template, for tools, if
 * that means the same format. */
static char *open_learned(ChatStyle *s, const cJSON *state, const char *tokenizer,
                          const Tokenizer *t, char **why)
{
    const char *name = cJSON_GetStringValue(json_get(state, "chat")),
               *record = cJSON_GetStringValue(json_get(state, "chat_template"));
    char *error = name ? chat_choose(&s->chat, why, t, tokenizer, name) : NULL;
    if (!error && record)
        return render_recall(&s->render, record, "the training data");
    const Chat *its = NULL;
    char *reason = NULL, *none = error ? NULL : chat_choose(&its, &reason, t, tokenizer, NULL);
    if (!error && !none && its == s->chat)
        error = render_open(&s->render, tokenizer);
    s->no_render = format("the training data had no tools, and their chat format %s has none",
                          name);
    free(reason), free(none);
    return error;
}

/* Opens those of the folder, as gen pack does. */
static char *open_folder(ChatStyle *s, const char *tokenizer, const Tokenizer *t, char **why)
{
    char *error = chat_choose(&s->chat, why, t, tokenizer, NULL),
         *fault = render_open(&s->render, tokenizer);
    if (error)
        s->chat = NULL;
    if (error && s->render) {
        free(error);
        error = NULL;
    } else if (error && fault) {
        free(error);
        return fault;
    }
    s->no_render = fault ? fault : format("the tokenizer's folder has no chat_template");
    return error;
}

/* Says how conversations are written. */
static void note_style(const ChatStyle *s, const char *why, const cJSON *learned)
{
    const char *name = cJSON_GetStringValue(json_get(learned, "chat"));
    char *about = s->render ? render_about(s->render) : NULL;
    if (s->chat)
        note("conversations as %s writes them: %s", s->chat->name, why);
    if (about && !s->chat)
        note("conversations as %s writes them", about);
    else if (about)
        note("with tools, as %s writes them", about);
    if (learned && (name ? !s->chat || strcmp(name, s->chat->name) : s->chat != NULL))
        note("the model was trained on conversations as %s writes them: without --chat-format it "
             "gets these", name ? name : "the chat_template of its data");
    free(about);
}

ChatStyle *style_open(const char *flag, const Flags *f, const Tokenizer *t,
                      const char *const folder[], int nfolders)
{
    ChatStyle *s = calloc(1, sizeof *s);
    if (!s)
        die(EXIT_INTERNAL, "out of memory for a chat format");
    char *why = NULL, *error,
         *found = *f->tokenizer ? NULL : vocabulary_of_folder(folder, nfolders);
    const char *tokenizer = *f->tokenizer ? f->tokenizer : found ? found : "bytes";
    cJSON *all = learned_style(folder, nfolders);
    const cJSON *learned = json_get(all, "state");
    if (*f->chat_format) {
        error = open_named(s, f->chat_format, tokenizer, t, &why);
    } else if (learned) {
        error = open_learned(s, learned, tokenizer, t, &why);
        free(why);
        why = format("those it was trained on");
    } else {
        error = open_folder(s, tokenizer, t, &why);
    }
    if (error)
        die(EXIT_CONFIG, "%s: %s%s", *f->chat_format ? "--chat-format" : flag, error,
            strcmp(flag, "--chat") ? "" : "; --sample TEXT continues a text without one");
    if (flags_many(f, FLAG_template_var)) {
        s->chat = NULL;
        error = s->render ? render_set(s->render, f->many[FLAG_template_var])
                          : format("%s", s->no_render);
        if (error)
            die(EXIT_CONFIG, "--template-var: %s", error);
    }
    if (s->render)
        render_find_ends(s->render, t);
    note_style(s, why, learned);
    cJSON_Delete(all);
    free(why), free(found);
    return s;
}

void style_free(ChatStyle *s)
{
    if (!s)
        return;
    render_free(s->render);
    free(s->no_render);
    free(s);
}

void style_unused(const char *flag, const Flags *f)
{
    const bool variable = f->given[FLAG_template_var] && !f->given[FLAG_data];
    if (f->given[FLAG_chat_format] || variable)
        die(EXIT_CONFIG, "%s has no effect: no prompt of %s has messages, and a text is continued "
                         "as it is", variable ? "--template-var" : "--chat-format", flag);
}

/* NULL, or the message and the key of it that formats by hand do not read; malloc'ed. */
static char *check_keys(const Chat *chat, const cJSON *messages)
{
    int i = 1;
    for (const cJSON *m = messages->child; m; m = m->next, i++) {
        const char *key = cJSON_IsObject(m) ? key_unread(m, NULL) : NULL;
        if (key)
            return format("message %d: %.60s: the chat format %s does not read this key; "
                          "--ignore-keys %.60s leaves it out", i, key, chat->name, key);
    }
    return NULL;
}

char *style_prompt(const ChatStyle *s, const Tokenizer *tok, const cJSON *messages,
                   const cJSON *tools, Encoded *e)
{
    const RowOut row = {.tools = tools};
    const bool needed = render_needed(messages, NULL, &row);
    if (s->render && (needed || !s->chat))
        return render_prompt(s->render, tok, messages, tools, e);
    if (needed)
        return format("tools, their calls and results need the model's own chat_template: %s",
                      s->no_render);
    char *error = check_keys(s->chat, messages);
    return error ? error : chat_prompt(s->chat, tok, messages, e);
}

bool style_ends(const ChatStyle *s, const Tokenizer *tok, int32_t id)
{
    return (s->chat && chat_ends(s->chat, tok, id)) ||
           (s->render && render_ends(s->render, tok, id)) || tokenizer_ends(tok, id);
}
