/* answer.h -- what commands say with --json: one JSON object on stdout, also when they end with a mistake.
 *
 * Keeps: numbers are numbers in base units (bytes, FLOP, seconds, counts), integers with all their digits; a text is
 *        UTF-8 whatever the files hold; what there is none of is null, a list without items []. */
#ifndef GEN_ANSWER_H
#define GEN_ANSWER_H

#include "gen/config/objective.h"
#include "gen/graph/ir.h"
#include "gen/tools/measure.h"

#include <cjson/cJSON.h>

/* From here on mistakes end the program with {"command", "error": {"message", "file", "line"}, "errors": [...],
 * "exit_status"} on stdout, beside their lines on stderr. */
void answer_begin(const char *command);
bool answer_wanted(void);                    /* answer_begin() was called */

cJSON *answer_new(void);                     /* {"command": ...} */
void answer_int(cJSON *o, const char *key, int64_t n);
void answer_float(cJSON *o, const char *key, double x);
void answer_bool(cJSON *o, const char *key, bool b);
void answer_text(cJSON *o, const char *key, const char *text);       /* NULL: null */
cJSON *answer_object(cJSON *o, const char *key);
cJSON *answer_list(cJSON *o, const char *key);
cJSON *answer_item(cJSON *list);             /* a new object behind the others */
void answer_word(cJSON *list, const char *text);
void answer_number(cJSON *list, int64_t n);
/* A list of the words of "a|b|c". */
void answer_words(cJSON *o, const char *key, const char *words);
/* What several commands say of a recipe (report.c). g NULL: its objective is whole. */
void answer_recipe(cJSON *o, const Graph *g, Config *c);
void answer_cluster(cJSON *o, const Config *c);
char *cluster_said(const Config *c);         /* in a line */
void answer_memory(cJSON *o, const Graph *g, const Holdings *h);
cJSON *plan_object(const Graph *g, Config *c);       /* all that gen plan --json prints */
cJSON *standalone_object(Config *c);              /* the same where the objective is whole (standalone_report.c) */
/* What runs leave, and the commands (info.c). recipe: the words behind gen. */
void answer_leaves(cJSON *o, const Objective *of);
void answer_commands(cJSON *o, const char *recipe, const char *out);
/* Prints it and a newline; a stream that fails ends the program. */
void answer_print(cJSON *o);

#endif
