/* fit_ask.h -- the query of `gen fit`: a recipe, FIELD=VALUE words, and the hardware. */
#ifndef GEN_FIT_ASK_H
#define GEN_FIT_ASK_H

#include <stdbool.h>
#include <stdint.h>

#include "gen/config/config.h"

typedef struct {
    /* Returns the config with n words set over the recipe; errors as err(). */
    Config *(*make)(const void *of, char **word, int n);
    const void *of;
    char **word;                 /* FIELD=VALUE words of the user: those fields stay */
    int nwords;
    char **place;                /* words of card, gpus and memory.limit_gib, and defaults */
    int nplace;
    int64_t host;                /* bytes of pinned memory of a machine at most */
    bool exact;                  /* only words that give the bits of the recipe */
    int64_t samples;             /* of an update; 0: those of the recipe without `place` */
} FitAsk;

/* The question for a recipe and FIELD=VALUE words. */
FitAsk fit_ask(const char *path, char **word, int n);
/* Sets `word` and `place` to the user's words, `host` to any; `place` has room for FIT_ROOM
 * more. */
enum { FIT_ROOM = 8 };
void fit_ask_words(FitAsk *ask, char **word, int n);
/* Stores all words of a plan, each field once: the user's, those of the place, and its own, which
 * take the place of the others; returns their number. */
int fit_all_words(const FitAsk *ask, char *const *own, int nown, char ***words);
/* The recipe with the user's words; with the place, too, if it does not accept them without
 * (memory.zero needs gpus). Ends the program if it does not accept them at all. */
Config *fit_config(const FitAsk *ask);
/* The recipe with the user's words and the place; NULL: it does not accept them. */
Config *fit_placed(const FitAsk *ask);
/* Samples of an update. */
int64_t fit_samples(const Config *c);
/* Ranks that are asked for, else those of the config. */
int64_t fit_ranks(const FitAsk *ask, const Config *c);
/* Field of a word. */
const char *fit_field(const char *word);
/* Index of the word for a field; -1: none. */
int fit_word_index(char *const *word, int n, const char *name);

#endif
