/* new_ways.h -- ways to train a model folder, for `gen new` and `gen plan FOLDER`. */
#ifndef DIECAST_NEW_WAYS_H
#define DIECAST_NEW_WAYS_H

#include "gen/tools/fit_table.h"
#include "gen/tools/model_folder.h"
#include "gen/tools/new_data.h"

typedef struct {
    const char *file, *from, *target, *lora, *data;
    const Card *card;            /* of the word card=NAME; NULL: none */
    bool full, force;
    FitOptions fit;              /* of gen fit */
    int nwords;
    char **word;                 /* field=value */
} NewOptions;

/* A way to train: request to the planner, and its result. */
typedef struct {
    bool lora, recompute;
    int64_t tokens, samples;     /* of a sequence (0: set by the objective); of a micro-batch */
    Config *c;
    Graph *g;
    const char *differs;         /* why its program would refuse the folder; NULL: it accepts it */
} Way;

/* Inputs and choices shared by all ways to train. */
typedef struct {
    const ModelFolder *m;
    const NewOptions *o;
    const Target *target;
    const char *target_why, *precision, *precision_why;
    int64_t rank;                /* of adapters */
    int64_t tokens;              /* of a sequence, the longest to try; 0: set by the objective */
    int64_t parameters;
    const SampleLengths *data;   /* of --data; NULL: not given */
} Ask;

/* Value of the field on the command line; NULL: not given. */
const char *new_given(const NewOptions *o, const char *field);
/* True if recipes of the folder's objective cannot set the field. */
bool new_fixed(const ModelFolder *m, int field);
bool new_takes_adapters(const ModelFolder *m);
/* The longest sequence that a program of the model accepts. */
int64_t new_positions(const ModelFolder *m);
/* Target, precision and sequence length. Exits with a message if no program accepts the folder.
 * command: "new" or "plan", for messages. */
Ask new_ask(ModelFolder *m, const NewOptions *o, const char *command);
/* The recipe of a way to train. */
Config *new_config(const Ask *a, const Way *w);
/* Plans a way: sets w->c, w->g and w->differs. True if it fits the target's memory. */
bool new_fits(const Ask *a, Way *w);
/* The samples of an update in gen fit, if the user does not say; the most of a micro-batch that
 * new_choose() tries. */
enum { NEW_SAMPLES = 8 };
/* The first way that fits: all weights, then adapters; each as it is, then with recomputed blocks;
 * then shorter sequences. Of it the largest micro-batch. Exits with a message if none fits. */
Way new_choose(const Ask *a);

#endif
