/* typed.c -- the objective lm of a family whose tokens have types: here each one's place in its document. Takes the
 * place of lm.c, whose text it has. */
#include "gen/graph/graph.h"

static Pass typed_trained(Build *b)
{
    b->in.types = b->in.positions;
    return pass_trained(b);
}

static Pass typed_only(Build *b, const char *name)
{
    b->in.types = b->mode == MODE_DECODE ? b->in.position : b->in.positions;
    return pass_only(b, name);
}

static Ref typed_last(Build *b)
{
    Pass pass = typed_only(b, "d.x");
    return pass_forward(b, &pass);
}

static void typed_decode(Build *b) { head_decode_of(b, typed_last); }

#define head_decode typed_decode
#define pass_trained typed_trained
#define pass_only typed_only
#include "gen/graph/objectives/lm.c"
