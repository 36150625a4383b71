/* generation.h -- what a model that finds hidden tokens says behind a prompt, or in its gaps.
 *
 * In:    a program that tells the logits at places of several sequences (runtime/run/denoise.h). */
#ifndef DIECAST_GENERATION_H
#define DIECAST_GENERATION_H

#include "runtime/data/data.h"
#include "runtime/data/tokenizer.h"
#include "runtime/run/denoise.h"
#include "runtime/run/flags.h"

typedef struct {
    Denoising how;
    int64_t length;              /* tokens behind a prompt; 0: those that it hides itself */
} Generation;

/* EXIT_CONFIG where flags of generation do not go together; places, most: places and block of the Denoiser. */
void generation_check(const Flags *f, int64_t places, int64_t most);
/* What the flags ask for; mask: the model's token, -1: the tokenizer's. EXIT_CONFIG: flags that do
 * not go together, or no mask. flag: that asks, for messages. */
Generation generation_asked(const Denoiser *d, const Flags *f, const Tokenizer *t, int64_t mask,
                            const char *flag);
/* --generate TEXT: the text with its answer on standard output, or with --generate-chat the answer; --generate-file
 * FILE: of each line an object {"prompt", "answer"} or {"messages", "answer"}. By rank 0; the exit status. windows:
 * the model learned windows of texts, as whose first a prompt begins; else answers. folder: of the weights. */
int generation_print(const Denoiser *d, const Flags *f, int64_t mask, bool windows, const char *const folder[],
                     int nfolders);
/* A text behind a validation: what the model says behind the first eighth of a row, or where it
 * begins with tokens that are never hidden, behind these, at most half a row. Into the log and, in
 * the place of one of the same step or later, OUT/samples.jsonl. tokenizer: its file. All ranks call.
 * NULL, or a malloc'ed message. */
char *generation_sample(const Denoiser *d, const Flags *f, int64_t mask, const char *tokenizer,
                        const DataRow *row, int64_t step);

#endif
