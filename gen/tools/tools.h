/* tools.h -- commands of gen other than generating a program. */
#ifndef TOOLS_H
#define TOOLS_H

#include "gen/graph/ir.h"

/* ---- find.c: recipes by name --------------------------------------------------------------- */

/* Returns word if it is a file; else recipes/NAME.lua, noted on stderr. Ends the program if there
 * is no such recipe. */
const char *recipe_find(const char *word);
bool recipe_known(const char *word);                  /* true if recipe_find() would return */
enum { MAX_RECIPES = 500 };
/* Stores the names of the project's recipes, without .lua, sorted; returns their number. */
int recipe_names(const char **name, int max);

/* ---- commands ------------------------------------------------------------------------------ */

int configure_main(int argc, char **argv);

void report_plan(const Graph *g, Config *c, FILE *to);                  /* gen plan */
/* gen plan --work: the modelled time of a step by kernel. */
void report_work(const Graph *g, Config *c, FILE *to);
void report_info(const Graph *g, Config *c, FILE *to);        /* gen info */
/* gen plan or gen info for a standalone objective. commands: also print the commands, as gen info
 * does. */
void report_standalone(Config *c, bool commands, FILE *to);
/* gen diff. Returns 0: equal, 1: different. */
int diff_run(Graph *ga, Config *ca, Graph *gb, Config *cb, FILE *to);
/* gen diff --base FILE: prints the cost of a recipe change. g: NULL for a standalone objective.
 * file: output of gen plan --json, or "none". allow: how many bytes per rank the change may add,
 * "any", or NULL. Returns 0 if the change is within that limit or, if allow is NULL, if nothing
 * changed; else 1. */
int cost_run(const Graph *g, Config *c, const char *file, const char *allow, FILE *to);
/* gen completion bash, gen reference PAGE. Return the exit status, as all ..._main() do. */
int completion_main(int argc, char **argv);
int reference_main(int argc, char **argv);
/* gen fields; with a word, gen explain */
void report_fields(const char *word, FILE *to);
/* gen list: a section or none, and FIELD=VALUE filters for recipes. */
void report_list(int n, char **word, FILE *to);
/* These store names or paths and return their number. */
int list_sections(const char **name, int max);
int list_paths(const char **path, int max);          /* recipes, relative to this folder */
/* Keeps in path the recipes that pass all filters, in order, with their configs. */
int list_passing(int nwords, char **word, const char **path, Config **c, int n);
/* Bytes of 24GiB, 900MiB, 80GB; what: prefix of the error. */
int64_t bytes_of(const char *what, const char *text);
struct cJSON;
void list_rows(const char *section, struct cJSON *list);      /* appends the rows of --json */
int new_main(int argc, char **argv);                         /* gen new */
/* True if the arguments of `gen plan` or `gen fit` name a model folder; the plan of one. */
bool new_is_folder(int argc, char **argv);
int new_plan_main(int argc, char **argv);
int new_fit_main(int argc, char **argv);                     /* gen fit of one */

/* gen tune. rows: file with output of the tuner; NULL: build and run it. Returns the exit
 * status. */
int tune_run(const Graph *g, const char *out, const char *rows);
/* gen check. cubins: folder for the kernels' machine code, or NULL. Returns the exit status. */
int check_kernels(const Graph *g, bool insist, bool by_nvcc, const char *cubins);
/* The same for a target without CUDA kernels. */
void check_nothing(const char *recipe, const Target *t);
const char *check_nvrtc(void);                               /* version of NVRTC; NULL: none */
/* gen doctor for a recipe (g NULL: standalone objective) or the machine alone (c NULL). Returns the
 * exit status. */
int doctor_run(const Graph *g, Config *c, bool json);
int dist_main(int argc, char **argv);                        /* gen dist */
int ci_main(int argc, char **argv);                          /* gen ci */
int pack_main(int argc, char **argv);                        /* gen pack */

#endif
