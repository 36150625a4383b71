/* ops.c -- the rows of ops.def; FLOPs of an op.
 *
 * A multiply-add counts as two FLOPs, softmax and other pointwise work as a few per element. These
 * counts serve reports and MFU; no result depends on them. */
#include "gen/graph/ir.h"

#include <string.h>

static double elements(Ref r) { return (double)value_elements(r.v); }
static double columns(Ref r) { return (double)r.v->dim[r.v->rank - 1].n; }
static double rows(Ref r) { return elements(r) / columns(r); }

static double attribute(const Op *op, const char *key)
{
    const Attr *a = op_attr(op, key);
    return !a ? 0 : a->type == ATTR_INT ? (double)a->i : a->f;
}

static double flops_zero(const Op *op) { (void)op; return 0; }
static double flops_pointwise(const Op *op) { return 8 * elements(op->in[0]); }
static double flops_norm(const Op *op) { return op->nin ? 6 * elements(op->in[0]) : 0; }
static double flops_linear(const Op *op) { return 2 * elements(op->in[0]) * columns(op->out[0]); }
static double flops_linear_dx(const Op *op) { return 2 * rows(op->in[0]) * elements(op->in[1]); }
static double flops_linear_dw(const Op *op) { return 2 * rows(op->in[0]) * elements(op->out[0]); }
static double flops_table(const Op *op) { return 2 * columns(op->in[0]) * elements(op->out[0]); }
static double flops_table_bwd(const Op *op)
{
    return 2 * columns(op->out[0]) * elements(op->in[0]);
}
static double flops_margin(const Op *op) { return 4 * elements(op->in[0]); }
static double flops_margin_dw(const Op *op) { return 2 * elements(op->in[1]); }
static double flops_ce(const Op *op) { return 2 * rows(op->in[0]) * elements(op->in[1]); }
static double flops_ce_bwd(const Op *op) { return (op_attr(op, "trained") ? 3 : 2) * flops_ce(op); }
/* A product with each matrix. */
static double flops_ffn(const Op *op)
{
    double matrices = 0;
    for (int k = 1; k < op->nin; k++)
        matrices += op->in[k].v->rank == 2 ? elements(op->in[k]) : 0;
    return 2 * rows(op->in[0]) * matrices;
}
/* The first layer's product again; then two products a layer, or dx alone. */
static double flops_ffn_bwd(const Op *op)
{
    const double own = op_attr(op, "trained") ? 2 : 1;
    return 2 * rows(op->in[0]) * ((own + 1) * elements(op->in[2]) + own * elements(op->in[3]));
}
/* Of each adapter two gradients of two products, and its own products again, but for the last. */
static double flops_ffn_lora_bwd(const Op *op)
{
    double matrices = 0;
    for (int k = 4; k < op->nin; k++)
        matrices += op->in[k].v->rank == 2 ? 3 * elements(op->in[k]) : 0;
    if (op_attr(op, "down_parts"))
        matrices -= elements(op->out[op->nout - 1]);
    return flops_ffn_bwd(op) + 2 * rows(op->in[0]) * matrices;
}
static double flops_kl(const Op *op) { return 2 * flops_ce(op); }
static double flops_kl_grad(const Op *op) { return 4 * flops_ce(op); }
static double flops_lora(const Op *op)
{
    return 2 * rows(op->in[1]) * (elements(op->in[2]) + elements(op->in[3]));
}
static double flops_lora_fold(const Op *op) { return 2 * rows(op->in[0]) * elements(op->in[2]); }
static double flops_lora_bwd(const Op *op)
{
    return 4 * rows(op->in[2]) * (elements(op->in[4]) + elements(op->in[5]));
}
static double flops_lora_dy(const Op *op) { return 4 * rows(op->in[0]) * elements(op->in[2]); }
static double flops_lora_da(const Op *op) { return 2 * rows(op->in[1]) * elements(op->out[0]); }
static double flops_lora_dx(const Op *op) { return 2 * rows(op->in[0]) * elements(op->in[2]); }
static double flops_update(const Op *op)
{
    const bool all = !op->region && op->in[0].index == IX_NONE;
    return 12 * elements(op->in[0]) * (all ? (double)op->in[0].v->slots : 1);
}

bool attention_is_whole(const Op *op)
{
    const char *mask = op_attr(op, "mask")->word;
    return !strcmp(mask, "full") || !strcmp(mask, "docs_full") || !strcmp(mask, "length");
}

/* (B, T, (H + 2 K) D); the sum of queries that are read, where not all are */
static double flops_attention(const Op *op)
{
    const Value *x = op->in[op->nout == 1].v;        /* the backward pass only has dqkv */
    double B = (double)x->dim[0].n, T = (double)x->dim[1].n;
    const double queries = op_attr(op, "read") ? attribute(op, "read") : B * T;
    return (attention_is_whole(op) ? 4 : 2) * queries * T * attribute(op, "heads") *
           attribute(op, "dim");
}

static double flops_attention_bwd(const Op *op) { return 2.5 * flops_attention(op); }

static double flops_attention_decode(const Op *op)
{
    const Value *keys = op->out[1].v;
    return 4 * elements(op->out[1]) / (double)keys->dim[1].n * attribute(op, "heads");
}

const OpRow op_row[NOPS] = {
#define OP(name, operands, place, attrs, flops, bytes, grad, doc) \
    {#name, operands, place, attrs, flops_##flops, doc},
#include "gen/graph/ops.def"
#undef OP
};

bool op_is_collective(int kind) { return strpbrk(op_row[kind].place, "pbdftg"); }

bool op_is_update(int kind) { return op_row[kind].flops == flops_update; }

int op_find(const char *name)
{
    int i = 0;
    while (i < NOPS && strcmp(op_row[i].name, name))
        i++;
    return i;
}

double op_share(const Op *op)
{
    const Value *v = op->nin ? op->in[0].v : NULL;
    if (!strchr("eo", *op_row[op->kind].place) || !v || !v->part)
        return 1;
    return v->part < value_elements(v) ? (double)v->part / (double)value_elements(v) : 1;
}

double op_flops(const Op *op) { return op_share(op) * op_row[op->kind].flops(op); }

double program_flops(const Program *p)
{
    double flops = 0;
    for (int i = 0; i < p->nops; i++)
        flops += op_flops(&p->ops[i]) *
                 (p->ops[i].region ? (double)p->region[p->ops[i].region].count.n : 1);
    return flops;
}
