/* prompts.h -- texts and conversations that a model is to go on with, from a file or standard input. */
#ifndef DIECAST_PROMPTS_H
#define DIECAST_PROMPTS_H

#include "runtime/pack/pack.h"
#include "runtime/run/flags.h"
#include <cjson/cJSON.h>
#include <stdint.h>

/* One of them: a text, or messages with roles. */
typedef struct {
    char *text;                  /* NULL: messages */
    cJSON *messages;             /* an array */
    int64_t line;                /* of the file */
} Prompt;

/* A text a line; of a file NAME.jsonl, and of standard input ("-") that begins with {, an object a line with
 * "prompt" or "messages". Empty lines are none. All ranks call and have the same; standard input is rank 0's. *n of
 * them, at least 1. EXIT_CONFIG: no such file; EXIT_DATA: a line that is none of that, by its number. flag: that
 * named the file. */
Prompt *prompts_read(const char *flag, const char *path, int64_t *n);
void prompts_free(Prompt *all, int64_t n);
/* The format of conversations that --chat-format names, that the run was trained on, or that stands beside the
 * tokenizer; EXIT_CONFIG. folder: of
 * the weights; flag: that wants it. */
const Chat *prompts_chat(const char *flag, const Flags *f, const Tokenizer *t, const char *const folder[],
                         int nfolders);

#endif
