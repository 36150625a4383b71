/* container.h -- gen container. */
#ifndef GEN_CONTAINER_H
#define GEN_CONTAINER_H

#include "gen/config/target.h"

/* command, words: as typed, of this and of gen. name: of out/NAME; NULL: a container for gen. whole: its objective has
 * no model of layers. cluster, snapshot: NULL: none. */
void container_print(const char *command, const char *words, const char *name, const Target *t, int64_t ranks,
                     bool whole, const char *cluster, const char *snapshot, FILE *to);

#endif
