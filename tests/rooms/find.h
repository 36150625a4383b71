/* find.h -- finding things in a graph that is to be damaged; one that finds nothing to damage exits with 2. */
#include "gen/graph/ir.h"

#include <string.h>
#include <unistd.h>

static Graph *g;             /* being damaged */

static void *found(void *p)
{
    if (!p)
        _exit(2);
    return p;
}

static Program *program(const char *name)
{
    for (int i = 0; i < g->nprograms; i++)
        if (!strcmp(g->programs[i]->name, name))
            return g->programs[i];
    return found(NULL);
}

static Op *op_of(const char *in, int kind)
{
    Program *p = program(in);
    for (int i = 0; i < p->nops; i++)
        if (p->ops[i].kind == kind)
            return &p->ops[i];
    return found(NULL);
}

static Value *value(const char *name) { return found(ir_value(g, name)); }
