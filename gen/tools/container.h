/* container.h -- Containerfiles. */
#ifndef GEN_CONTAINER_H
#define GEN_CONTAINER_H

#include "gen/config/target.h"

/* command: the command line as typed; words: its recipe and fields. name: NAME of out/NAME; NULL: a
 * container for gen. standalone: the objective is. cluster, snapshot: NULL: none. */
void container_print(const char *command, const char *words, const char *name, const Target *t,
                     int64_t ranks, bool standalone, const char *cluster, const char *snapshot,
                     FILE *to);

#endif
