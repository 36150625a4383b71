/* fit_search.h -- the search for settings with which a recipe fits a memory limit. */
#ifndef GEN_FIT_SEARCH_H
#define GEN_FIT_SEARCH_H

#include "gen/config/config.h"
#include "gen/graph/ir.h"

/* A plan with words set over the recipe. */
typedef struct {
    char **word;                 /* to add to what was asked; a value of the recipe needs none */
    int nwords;
    unsigned lost;               /* what the words lose, a bit a row of fit.def */
    bool exact;                  /* the words give the bits that the recipe gives */
    bool fits;
    int64_t device, limit;       /* bytes of a rank, planned and available */
    int64_t persistent;          /* of device */
    int64_t host;                /* bytes of a machine in pinned memory */
    double sent;                 /* bytes of a rank and step */
    double step;                 /* estimated seconds */
    double tokens;               /* a second, all ranks */
    const char *kept;            /* choice of memory.recompute = "auto"; NULL: none */
    int order;                   /* in which it was planned */
} FitPlan;

/* What is asked. */
typedef struct FitAsk {
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

typedef struct {
    Config *config;              /* of the recipe; without `place` if that needs other words */
    int64_t samples, ranks;      /* of an update; GPUs or processes */
    const FitPlan **row;         /* those that fit and that no other surpasses, best first */
    int nrows;
    const FitPlan **all;         /* all that fit, best first */
    int nall;
    const FitPlan **over;        /* those that do not, nearest first; every one loses another set */
    int nover;
    const FitPlan *next;         /* the fastest that does not fit and loses no more than row 0 */
    int plans;                   /* that were made */
} FitTable;

/* Ends the program if the recipe accepts no words with what is asked. */
FitTable fit_search(const FitAsk *ask);
/* The smallest card on which the words of a plan fit; NULL: none, or target is a CPU. */
const Card *fit_card(const FitAsk *ask, const FitPlan *plan);
/* "fp32 moments, clipping"; "": nothing. */
char *fit_lost(const FitPlan *p);
char *fit_words(const FitPlan *p);       /* with a blank before each; "": none */
/* Stores all words of a plan, each field once: the user's, those of the place, and its own, which
 * take the place of the others; returns their number. */
int fit_all_words(const FitAsk *ask, const FitPlan *p, char ***words);
/* The question for a recipe and FIELD=VALUE words. */
FitAsk fit_ask(const char *path, char **word, int n);
/* Sets `word` and `place` to the user's words, `host` to any; `place` has room for FIT_ROOM
 * more. */
enum { FIT_ROOM = 8 };
void fit_ask_words(FitAsk *ask, char **word, int n);
/* The recipe with the user's words; with the place, too, if it does not accept them without
 * (memory.zero needs gpus). Ends the program if it does not accept them at all. */
Config *fit_config(const FitAsk *ask);
/* Samples of an update. */
int64_t fit_samples(const Config *c);
/* Ranks that are asked for, else those of the config. */
int64_t fit_ranks(const FitAsk *ask, const Config *c);

#endif
