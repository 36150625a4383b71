/* container.h -- Containerfiles. */
#ifndef GEN_CONTAINER_H
#define GEN_CONTAINER_H

#include <stdio.h>

#include "gen/config/config.h"
#include "gen/graph/ir.h"

/* command: the command line as typed; words: its recipe and fields. c: the recipe; NULL: container
 * of gen. g: its graph; NULL: the objective has none. snapshot: NULL: none. */
void container_print(const char *command, const char *words, Config *c, const Graph *g,
                     const char *snapshot, FILE *to);

#endif
