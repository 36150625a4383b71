/* typed.c -- the objective lm of a family whose tokens have types: here each one's place in its document. Takes the
 * place of lm.c, whose text it has. */
#include "gen/graph/graph.h"

static Pass typed_trained(Build *b)
{
    b->types = b->places;
    return pass_trained(b);
}

static Pass typed_only(Build *b, const char *name)
{
    b->types = b->mode == MODE_DECODE ? b->place : b->places;
    return pass_only(b, name);
}

#define pass_trained typed_trained
#define pass_only typed_only
#include "gen/graph/objectives/lm.c"
