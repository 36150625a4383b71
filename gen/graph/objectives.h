/* objectives.h -- the objectives of gen: rules, programs and plan of each, by name.
 *
 * An objective NAME is gen/graph/objectives/NAME.c, which defines NAME_parts. */
#ifndef OBJECTIVES_H
#define OBJECTIVES_H

#include "gen/config/rules.h"
#include "gen/graph/standalone.h"

typedef struct Build Build;

typedef struct {
    ObjectiveRules rules;
    void (*build)(Build *b);                    /* adds its programs to a graph; NULL: standalone */
    void (*plan)(Config *c, Figures *f);        /* of a standalone program, in order; else NULL */
} ObjectiveParts;

const ObjectiveParts *objective_parts(const char *name);
void objectives_install(void);                  /* gives config the rules of every objective */

#endif
