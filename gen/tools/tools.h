/* tools.h -- the commands of gen beside the generation of a program. */
#ifndef TOOLS_H
#define TOOLS_H

#include "gen/graph/ir.h"

/* ---- find.c: a word of the command line -> the path of a recipe ---------------------------- */

/* A file as it is; else recipes/NAME.lua, with a line on stderr. What is no recipe ends the program. */
const char *recipe_find(const char *word);
bool recipe_known(const char *word);                  /* recipe_find would return */
enum { MAX_RECIPES = 500 };
int recipe_names(const char **name, int max);         /* of the project, without .lua; sorted */

/* ---- commands ------------------------------------------------------------------------------ */

int configure_main(int argc, char **argv);

void report_plan(const Graph *g, Config *c, FILE *to);                  /* gen plan */
void report_info(const Graph *g, Config *c, FILE *to);        /* gen info */
/* Of a recipe whose objective is whole: both, which differ by the commands. */
void report_standalone(Config *c, bool commands, FILE *to);
/* gen diff; 0: the same, 1: not. */
int diff_run(Graph *ga, Config *ca, Graph *gb, Config *cb, FILE *to);
/* gen diff --base FILE: what a change of a recipe costs, g NULL: its objective is whole. file: of gen plan --json, or
 * "none". allow: bytes of a rank that it may cost more, "any", or NULL; 0: no more than that, or without it: the
 * same. */
int cost_run(const Graph *g, Config *c, const char *file, const char *allow, FILE *to);
/* gen completion bash, gen man PAGE, gen reference PAGE; the exit status. */
int completion_main(int argc, char **argv);
int reference_main(int argc, char **argv);
/* gen fields; of a word gen explain */
void report_fields(const char *word, FILE *to);
/* gen list: a section or none, and what recipes have to have, FIELD=VALUE. */
void report_list(int n, char **word, FILE *to);
int list_sections(const char **name, int max);               /* how many */
int list_paths(const char **path, int max);                  /* of gen list's recipes, seen from here; how many */
/* Those of the recipes that have all these FIELD=VALUE, in their order, with their configs; how many. */
int list_passing(int nwords, char **word, const char **path, Config **c, int n);
int64_t bytes_of(const char *what, const char *text);        /* 24GiB, 900MiB, 80GB; what: of whose mistake */
struct cJSON;
void list_rows(const char *section, struct cJSON *list);      /* appended, as --json has them */
int new_main(int argc, char **argv);                         /* gen new */
/* Whether the words behind `gen plan` mean a model's folder, and the plan of one. */
bool new_is_folder(int argc, char **argv);
int new_plan_main(int argc, char **argv);

/* gen tune; the exit status. rows: a file of what the tuner printed, or NULL: build and run it */
int tune_run(const Graph *g, const char *out, const char *rows);
/* gen check; the exit status */
int check_kernels(const Graph *g, bool insist, bool by_nvcc);
/* The same of a target without CUDA kernels. */
void check_nothing(const char *recipe, const Target *t);
const char *check_nvrtc(void);                               /* its version, or NULL: not here */
/* gen doctor, of a recipe (g NULL: one whose objective is whole) or of the machine alone (c NULL); the exit status */
int doctor_run(const Graph *g, Config *c, bool json);
int dist_main(int argc, char **argv);                        /* gen dist */
int ci_main(int argc, char **argv);                          /* gen ci */
int packing_main(int argc, char **argv);                     /* gen pack-buffers */
int pack_main(int argc, char **argv);                        /* gen pack */

#endif
