/* prompts.h -- prompts from a file or standard input: plain texts or chat messages. */
#ifndef DIECAST_PROMPTS_H
#define DIECAST_PROMPTS_H

#include "runtime/pack/pack.h"
#include "runtime/run/flags.h"
#include <cjson/cJSON.h>
#include <stdint.h>

/* A text, or messages with roles. */
typedef struct {
    char *text;                  /* NULL: messages are set */
    cJSON *messages;             /* array of messages */
    int64_t line;                /* line number in the file */
} Prompt;

/* Reads one prompt per line: plain text; or, in NAME.jsonl and on standard input ("-") that starts
 * with {, an object with "prompt" or "messages". Skips empty lines. Collective; every rank gets the
 * same, rank 0 reads standard input. Returns *n >= 1 prompts; free with prompts_free(). flag: the
 * flag that named the file. EXIT_CONFIG: no such file; EXIT_DATA: an invalid line, by its
 * number. */
Prompt *prompts_read(const char *flag, const char *path, int64_t *n);
void prompts_free(Prompt *all, int64_t n);
/* Returns the chat format: that of --chat-format, of the training data, or of the template next to
 * the tokenizer; EXIT_CONFIG if there is none. folder: of the weights; flag: the requesting
 * flag. */
const Chat *prompts_chat(const char *flag, const Flags *f, const Tokenizer *t,
                         const char *const folder[], int nfolders);

#endif
