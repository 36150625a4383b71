/* prompts.h -- prompts from a file or standard input: plain texts or chat messages; and how a run
 * writes conversations. */
#ifndef DIECAST_PROMPTS_H
#define DIECAST_PROMPTS_H

#include "runtime/pack/pack.h"
#include "runtime/run/flags.h"
#include <cjson/cJSON.h>
#include <stdint.h>

/* A text, or messages with roles. */
typedef struct {
    char *text;                  /* NULL: messages are set */
    cJSON *messages, *tools;     /* array of messages, and the tools that they may call, or NULL */
    int64_t line;                /* line number in the file */
} Prompt;

/* Reads one prompt per line: plain text; or, in .jsonl, .ndjson and .json, and in other input but
 * .txt that starts with {, an object with "prompt" or "messages", and for these "tools". Another
 * key with a value is an error, unless it is metadata (keys.def) or in `ignored`, a list with
 * commas. Skips empty lines. Collective; every rank gets the same, rank 0 reads standard input
 * ("-"). Returns *n >= 1 prompts; free with prompts_free(). flag: the flag that named the file.
 * EXIT_CONFIG: no such file; EXIT_DATA: an invalid line, by its number. */
Prompt *prompts_read(const char *flag, const char *path, const char *ignored, int64_t *n);
void prompts_free(Prompt *all, int64_t n);
/* How conversations are written, as in gen pack: by a format of chats.def, by a chat_template, or
 * by the first where it can and else by the second. */
typedef struct {
    const Chat *chat;            /* NULL: the template writes all */
    ChatTemplate *render;        /* NULL: no_render says why; malloc'ed */
    char *no_render;
} ChatStyle;

/* Returns the style of --chat-format, of the training data, or of the folder of the tokenizer;
 * EXIT_CONFIG if there is none. folder: of the weights; flag: the requesting flag. */
ChatStyle *style_open(const char *flag, const Flags *f, const Tokenizer *t,
                      const char *const folder[], int nfolders);
void style_free(ChatStyle *s);   /* NULL is allowed */
/* To be called if no prompt has messages: ends the program if flags of a style are given, unless
 * they may be those of --data. */
void style_unused(const char *flag, const Flags *f);
/* Appends the ids of messages up to where their answer begins. tools: NULL: none. */
char *style_prompt(const ChatStyle *s, const Tokenizer *tok, const cJSON *messages,
                   const cJSON *tools, Encoded *e);
/* True if id ends an answer. */
bool style_ends(const ChatStyle *s, const Tokenizer *tok, int32_t id);

#endif
