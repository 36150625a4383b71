/* kept.h -- values of recomputed blocks that the forward pass keeps: kept.def. */
#ifndef KEPT_H
#define KEPT_H

enum { KEPT_WORDS = 6 };
/* Stores the words of memory.keep; returns their number, KEPT_WORDS. */
int kept_words(const char *word[KEPT_WORDS]);
/* The word for a value of a block, by its name in families.c; NULL: none. */
const char *kept_word(const char *name);

#endif
