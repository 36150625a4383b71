/* fit_space.h -- the settings that `gen fit` may change, and the plan of a choice of them. */
#ifndef GEN_FIT_SPACE_H
#define GEN_FIT_SPACE_H

#include "gen/config/config.h"
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

enum {
    FIT_AXES = 16,
    FIT_SPLITS = 64,             /* of a rank's samples into micro-batches */
    FIT_AS_IS = -1               /* in the place of a row: the recipe's value */
};

/* Values of a field that may be tried, indices of rows of fit.def. */
typedef struct {
    int field;
    int n, row[8];
} FitAxis;

/* The row of each axis, and the index of the split. */
typedef struct {
    int row[FIT_AXES];
    int split;
} FitChoice;

/* All lists belong to the arena of gen. */
typedef struct {
    const FitAsk *ask;
    Config *base;                /* to whose values words are compared */
    FitAxis axis[FIT_AXES];
    int naxes;
    int losing[FIT_AXES], nlosing;   /* axes that lose something */
    int free[FIT_AXES], nfree;       /* those that do not, without the next three */
    int recompute, attention, tiles; /* FIT_AS_IS: the user has it */
    int divisions;               /* combinations of the free ones, from the most memory on */
    int64_t samples, ranks;      /* of an update */
    int64_t split[FIT_SPLITS];  /* values of batch.micro, ascending */
    int nsplits;                 /* 0: the user's batch stays */
    FitPlan **plan;              /* all, also those that gen refused: device 0 */
    FitChoice *choice;              /* of each */
    char **key;                  /* its words */
    int nplans, capplans, made;
} FitSpace;

/* The settings that may change for what is asked, without plans. */
FitSpace fit_space(const FitAsk *ask);
/* The plan of a choice, made once; NULL: the recipe does not accept its words. */
const FitPlan *fit_plan_of(FitSpace *s, const FitChoice *choice);
/* The choice whose plan it is. */
FitChoice fit_choice_of(const FitSpace *s, const FitPlan *p);
/* What a choice loses, as in FitPlan; a row whose words the recipe has already loses nothing. */
unsigned fit_lost_by(const FitSpace *s, const FitChoice *choice);
/* Order of sets of losses: that with the worst loss last. */
static inline int fit_by_lost(unsigned a, unsigned b) { return (a > b) - (a < b); }
/* Ends the program with the message of gen if it refuses the user's words as they are. */
void fit_require(const FitAsk *ask);
/* The smallest card on which the words of a plan fit; NULL: none, or target is a CPU. */
const Card *fit_card(const FitAsk *ask, const FitPlan *plan);
/* "fp32 moments, clipping"; "": nothing. */
char *fit_lost(const FitPlan *p);
char *fit_words(const FitPlan *p);       /* with a blank before each; "": none */

#endif
