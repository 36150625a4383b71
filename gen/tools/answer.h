/* answer.h -- JSON output of commands (--json): one object on stdout, also on errors.
 *
 * Keeps: numbers are in base units (bytes, FLOP, seconds, counts), integers with all digits; texts
 *        are UTF-8, also of files that are not; absent values are null, empty lists []. */
#ifndef GEN_ANSWER_H
#define GEN_ANSWER_H

#include "gen/config/objective.h"
#include "gen/graph/ir.h"
#include "gen/tools/measure.h"

#include <cjson/cJSON.h>

/* After this call errors also print {"command", "error": {"message", "file", "line"},
 * "errors": [...], "exit_status"} on stdout, in addition to their lines on stderr. */
void answer_begin(const char *command);
bool answer_wanted(void);                    /* true after answer_begin() */

cJSON *answer_new(void);                     /* {"command": ...} */
void answer_int(cJSON *o, const char *key, int64_t n);
void answer_float(cJSON *o, const char *key, double x);
void answer_bool(cJSON *o, const char *key, bool b);
void answer_text(cJSON *o, const char *key, const char *text);       /* NULL: null */
cJSON *answer_object(cJSON *o, const char *key);
cJSON *answer_list(cJSON *o, const char *key);
cJSON *answer_item(cJSON *list);             /* appends an object */
void answer_word(cJSON *list, const char *text);
void answer_number(cJSON *list, int64_t n);
/* Adds the list of words in "a|b|c". */
void answer_words(cJSON *o, const char *key, const char *words);
/* Parts shared by several commands (report.c). g NULL: standalone objective. */
void answer_recipe(cJSON *o, const Graph *g, Config *c);
char *cluster_text(const Config *c);         /* the cluster in one line */
/* Cost of feed-forward tiles (memory.ffn_rows); NULL: there are none. */
char *tiles_text(const Graph *g);
void answer_memory(cJSON *o, const Graph *g, const Holdings *h);
cJSON *plan_object(const Graph *g, Config *c);       /* output of gen plan --json */
/* The same for a standalone objective (standalone_report.c). */
cJSON *standalone_object(Config *c);
/* Files of a run, and commands (info.c). recipe: the arguments of gen. */
void answer_run_files(cJSON *o, const Objective *of);
void answer_commands(cJSON *o, const char *recipe, const char *out);
/* Prints the object and a newline. */
void answer_print(cJSON *o);

#endif
