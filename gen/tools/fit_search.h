/* fit_search.h -- the search for settings with which a recipe fits a memory limit. */
#ifndef GEN_FIT_SEARCH_H
#define GEN_FIT_SEARCH_H

#include "gen/config/config.h"
#include "gen/graph/ir.h"
#include "gen/tools/fit_ask.h"

/* A plan with words set over the recipe. */
typedef struct {
    char **word;                 /* to add to what was asked; a value of the recipe needs none */
    int nwords;
    unsigned lost;               /* losses, a bit per row of fit.def */
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

#endif
