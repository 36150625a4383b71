/* moment_types.c -- selection and layout of 8-bit moments (optim.moments).
 *
 * In:    the programs that read the parameters.
 * Method: blocks of DYNAMIC_BLOCK elements of each tensor, a byte an element and the largest
 *         magnitude of each block: runtime/dynamic_map.h. Tensors of less than QUANTISE_LEAST
 *         elements and embeddings stay fp32, as in transformers' Trainer, and so does state outside
 *         the model. */
#include "gen/graph/graph.h"

#include <inttypes.h>

#include "runtime/dynamic_map.h"

/* True if the op looks rows of w up by token, position or type. */
static bool looks_up(const Op *op, const Value *w)
{
    if (op->kind != OP_embed && op->kind != OP_embed_row && op->kind != OP_add_pos)
        return false;
    for (int k = 0; k < op->nin; k++)
        if (op->in[k].v == w)
            return true;
    return false;
}

static bool is_embedding(const Graph *g, const Value *w)
{
    for (int i = 0; i < g->nprograms; i++)
        for (int k = 0; k < g->programs[i]->nops; k++)
            if (looks_up(&g->programs[i]->ops[k], w))
                return true;
    return false;
}

bool moments_are_8bit(const Build *b, const Value *param)
{
    return config_is(b->c, F_optim_moments, "8bit") && !param->not_in_model &&
           value_elements(param) >= QUANTISE_LEAST && !is_embedding(b->g, param);
}

static int64_t tensors_of(const Value *v) { return v->count ? v->count : 1; }

Value *build_absmax(Build *b, const Value *moment)
{
    const char *name = text_print("absmax.%s", moment->name);
    const int64_t n = tensors_of(moment),
                  blocks = DYNAMIC_BLOCKS(value_elements(moment));
    Value *v = ir_value(b->g, name);
    if (v)
        return v;
    v = build_persistent(b, name, PU_optimiser, DT_F32, 2,
                         dim(n, text_print("%" PRId64, n)),
                         dim(blocks, text_print("%" PRId64, blocks)));
    v->of = moment->name;
    v->set = moment->set;
    return v;
}

void check_moments(const Build *b)
{
    for (int i = 0; i < b->g->nvalues; i++)
        if (b->g->values[i]->dtype == DT_U8)
            return;
    if (config_is(b->c, F_optim_moments, "8bit"))
        err(config_loc(b->c, F_optim_moments),
            "optim.moments: no trained matrix but embeddings has %d elements or more, so all "
            "moments would be fp32; leave it out", QUANTISE_LEAST);
}
