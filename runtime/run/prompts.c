/* prompts.c -- prompts from lines of text or JSON.
 *
 * In:    a file, which may be hostile. Out: prompts. */
#include "runtime/run/prompts.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* Reads "prompt" or "messages" of a row. Returns NULL, or a malloc'ed message. */
static char *take_row(const char *line, size_t n, Prompt *to)
{
    char *error = NULL;
    cJSON *row = json_parse(line, n, &error);
    if (!row)
        return error;
    const cJSON *text = json_get(row, "prompt"), *messages = json_get(row, "messages");
    if (!cJSON_IsObject(row) || !text == !messages)
        error = format("must be an object with either \"prompt\" or \"messages\"%s",
                       text ? ", got both" : "");
    else if (text && !cJSON_IsString(text))
        error = format("prompt: must be a text");
    else if (messages && (!cJSON_IsArray(messages) || !messages->child))
        error = format("messages: must be a list of {\"role\", \"content\"}");
    else if (text)
        to->text = format("%s", text->valuestring);
    else
        to->messages = cJSON_Duplicate(messages, true);
    cJSON_Delete(row);
    return error;
}

Prompt *prompts_read(const char *flag, const char *path, int64_t *n)
{
    const bool input = !strcmp(path, "-");
    const char *name = input ? "standard input" : path;
    size_t bytes, end = strlen(path);
    char *error = NULL,
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
    const bool json =
        input ? at[strspn(at, " \t\r\n")] == '{' : end > 6 && !strcmp(path + end - 6, ".jsonl");
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
            error = json ? take_row(at, length, &one) : NULL;
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
    free(all);
    if (!*n)
        die(EXIT_DATA, "%s: no prompts: write one per line", name);
    return prompt;
}

void prompts_free(Prompt *all, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        free(all[i].text);
        cJSON_Delete(all[i].messages);
    }
    free(all);
}

/* Returns the chat format of the training data of the first folder that records one, see
 * records_save(); malloc'ed; NULL: none does. */
static char *learned_chat(const char *const folder[], int nfolders)
{
    char *chat = NULL;
    for (int i = 0; i < nfolders && !chat; i++) {
        char *path = format("%s/train_state.json", folder[i] ? folder[i] : ""), *error = NULL;
        cJSON *all = folder[i] && file_named(path)
                         ? folder_read_json(folder[i], "train_state.json", 1 << 28, &error)
                         : NULL;
        const char *name = cJSON_GetStringValue(json_get(json_get(all, "state"), "chat"));
        if (error)
            die(EXIT_DATA, "%s", error);
        chat = name ? format("%s", name) : NULL;
        cJSON_Delete(all);
        free(path);
    }
    return chat;
}

const Chat *prompts_chat(const char *flag, const Flags *f, const Tokenizer *t,
                         const char *const folder[], int nfolders)
{
    const Chat *chat = NULL;
    char *why = NULL, *found = *f->tokenizer ? NULL : vocabulary_of_folder(folder, nfolders),
         *learned = *f->chat_format ? NULL : learned_chat(folder, nfolders),
         *error = chat_choose(&chat, &why, t,
                              *f->tokenizer ? f->tokenizer : found ? found : "bytes",
                              learned ? learned : *f->chat_format ? f->chat_format : NULL);
    if (error)
        die(EXIT_CONFIG, "%s: %s", flag, error);
    note("conversations as %s writes them: %s", chat->name,
         learned ? "those it was trained on" : why);
    free(why), free(found), free(learned);
    return chat;
}
