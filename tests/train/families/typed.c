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

static void typed_decode(Build *b)
{
    Value *tokens = b->tokens;
    b->mode = MODE_DECODE;
    b->loc = config_loc(b->c, F_seq_max);
    b->tokens = input_new(b, "token");
    b->place = input_new(b, "place");
    b->p = ir_program(b->g, "decode", ROLE_forward,
                      "one token at one place: the logits of the next");
    Pass pass = typed_only(b, "d.x");
    head_logits(b, pass_forward(b, &pass));
    b->tokens = tokens;
    schedule_alone(b, "the logits behind one token at its place", "logits");
}

#define head_decode typed_decode
#define pass_trained typed_trained
#define pass_only typed_only
#include "gen/graph/objectives/lm.c"
