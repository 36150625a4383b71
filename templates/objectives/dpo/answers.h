/* answers.h -- text generated for the prompts of preference pairs, and the commands of finished
 * weights. */
#ifndef ANSWERS_H
#define ANSWERS_H

#include "pairs.h"
#include "runtime/run/answers.h"

/* --sample, --prompts, --chat, --answers, --perplexity. */
extern const ObjectiveCommand commands[];

/* Records of a split that example answers are generated for: the first ones. */
int64_t examples_of(Split s);
/* Generates with this tokenizer and the sampling flags. */
Answers answers_by(const Tokenizer *t);
/* The tokenizer of the records; the caller frees it. NULL, with a note that ends in `without`: it
 * was not found. */
Tokenizer *find_tokenizer(const Flags *f, const WeightFolders folder, const char *without);

#endif
