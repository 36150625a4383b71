/* job.h -- `gen launch`: job files for Kubernetes and SkyPilot. */
#ifndef GEN_JOB_H
#define GEN_JOB_H

#include <stdio.h>

#include "gen/config/config.h"
#include "gen/graph/ir.h"

enum {
#define JOB_WORD(word, ...) JOB_##word,
#include "gen/tools/job.def"
    JOB_WORDS
};
typedef struct {
    const char *engine;              /* kubernetes, skypilot */
    const char *word[JOB_WORDS];     /* values of the rows of job.def; NULL: not given */
    char **argument;                 /* of the program; NULL: none was given */
    int narguments;
} JobWords;

/* Takes the engine, the words of job.def and all that follows -- out of the arguments of a command,
 * argv[0] being its name. Ends the program if one of them is invalid. */
JobWords job_words(int *argc, char **argv);
/* Prints the file to `to`, and the names of its placeholders to stderr. command: the command line
 * as typed; words: its recipe and fields. Ends the program if arguments lack a flag that training
 * needs, or if g is NULL: programs of a standalone objective have one process. */
void job_print(const JobWords *w, const char *command, const char *words, Config *c, const Graph *g,
               FILE *to);

#endif
