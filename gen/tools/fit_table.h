/* fit_table.h -- `gen fit`, and what gen says of a plan that does not fit. */
#ifndef GEN_FIT_TABLE_H
#define GEN_FIT_TABLE_H

#include "gen/config/config.h"
#include "gen/graph/ir.h"
#include "gen/tools/fit_ask.h"

typedef struct {
    const char *gpus, *host_gib;         /* as typed; NULL: not given */
    bool exact, all;
} FitOptions;

/* Prints the table for a recipe and FIELD=VALUE words. Returns the exit status; 1: nothing
 * fits. */
int fit_run(const char *recipe, char **word, int n, const FitOptions *o);
/* The same for a question, to whose `place` the options are added. command: of gen, to which a
 * row's words are added. */
int fit_answer(FitAsk *ask, const char *command, const FitOptions *o);

/* Ends the program if a plan does not fit, with the settings that do. c: its config; NULL: a text
 * of a room, for which there are none. */
void fit_refuse(const Graph *g, const Config *c);
/* Remedy for a rank with only `bytes` of memory: words with which the config's recipe fits. */
const char *fit_remedy(const Config *c, int64_t bytes);

#endif
