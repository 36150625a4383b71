/* kernels.c -- the rows of kernels.def as tables: what ops may become, where, and what it takes.
 *
 * Keeps: workspaces are as the kernels themselves compute them. */
#include "gen/gen.h"
#include "kernels/cpu/workspace.h"
#include "kernels/cuda/workspace.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static int64_t columns(Ref r) { return r.v->dim[r.v->rank - 1].n; }
static int64_t rows(Ref r) { return value_elements(r.v) / columns(r); }

/* ---- columns of kernels.def: fits ------------------------------------------------------------ */

static const char *fits_always(const Graph *g, const Op *op) { (void)g, (void)op; return NULL; }

/* cuBLASLt's epilogues with GELU are for 16-bit operands, and rows of 16 bytes in the one kept; a
 * single token is no shape to ask them for. */
static const char *fits_gelu_epilogue(const Graph *g, const Op *op)
{
    (void)g;
    return op->in[0].v->dtype == DT_F32 ? "the epilogue wants 16-bit operands"
           : columns(op->out[0]) % 8    ? "the epilogue wants a multiple of 8 columns"
           : rows(op->out[0]) == 1      ? "the epilogue wants more than one row"
                                        : NULL;
}

/* Products of gradients give that of a bias too, but do not add to it; 16-byte rows as above. A
 * library that has no algorithm for it is found at start, see gemm_init. */
static const char *fits_bgrad_epilogue(const Graph *g, const Op *op)
{
    (void)g;
    const Op *dw = op + 1;
    return op->in[0].v->dtype == DT_F32 ? "the epilogue wants 16-bit operands"
           : op_attr(op, "beta")->i || op_attr(dw, "beta")->i
               ? "the epilogue does not add to a gradient"
           : columns(dw->in[0]) % 8 || columns(dw->in[1]) % 8
               ? "the epilogue wants multiples of 8 columns"
               : NULL;
}

static const char *fits_head_size(const Graph *g, const Op *op)
{
    (void)g;
    int64_t d = op_attr(op, "dim")->i;
    return d > 128 || d % 2 ? "head_dim: want an even number from 2 to 128" : NULL;
}

/* The norm at op or behind a sum writes rows with room behind their columns. */
static const char *fits_wide_rows(const Graph *g, const Op *op)
{
    (void)g;
    const Op *norm = op->kind == OP_add ? op + 1 : op;
    return columns(norm->out[0]) > columns(norm->in[0]) ? NULL : "rows lie side by side";
}

/* A backward pass of adapters whose u stands in the rows of x. */
static const char *fits_folded(const Graph *g, const Op *op)
{
    (void)g;
    return op->in[2].v == op->in[3].v ? NULL : "u stands alone";
}

/* ---- columns of kernels.def: workspace, as the kernels themselves compute it ----------------- */

static int64_t act(Ref r) { return dtype_bytes[r.v->dtype]; }
static int64_t attr(const Op *op, const char *key) { return op_attr(op, key)->i; }

static int64_t workspace_none(const Op *op) { (void)op; return 0; }
static int64_t workspace_gemm(const Op *op) { (void)op; return GEMM_WORKSPACE; }
static int64_t workspace_layernorm(const Op *op)
{
    return layernorm_bwd_workspace(columns(op->in[1]));
}
static int64_t workspace_rmsnorm(const Op *op) { return rmsnorm_bwd_workspace(columns(op->in[1])); }
static int64_t workspace_bias_grad(const Op *op) { return bias_grad_workspace(columns(op->in[0])); }
static int64_t workspace_grad_norm(const Op *op) { (void)op; return grad_norm_workspace(); }

static int64_t workspace_attention(const Op *op)
{
    const Dim *d = op->in[0].v->dim;
    return attention_fwd_workspace(d[0].n, d[1].n, attr(op, "kv"), attr(op, "dim"), act(op->in[0]));
}

static int64_t workspace_attention_bwd(const Op *op)
{
    const Dim *d = op->in[1].v->dim;
    return attention_bwd_workspace(d[0].n, d[1].n, attr(op, "kv"), attr(op, "dim"), act(op->in[1]));
}

static int64_t workspace_attention_decode(const Op *op)
{
    return attention_decode_workspace(op->out[1].v->dim[1].n, attr(op, "heads"));
}

static int64_t workspace_ce(const Op *op)
{
    return ce_workspace(attr(op, "chunk"), op->in[1].v->dim[0].n, act(op->in[0]));
}

static int64_t lora_bytes(const Op *op, Ref x, Ref y)
{
    const Attr *dropout = op_attr(op, "dropout");
    return lora_workspace(rows(x), columns(x), columns(y), attr(op, "rank"), attr(op, "parts"),
                          dropout ? (float)dropout->f : 0, act(x));
}

static int64_t workspace_lora(const Op *op) { return lora_bytes(op, op->in[1], op->in[0]); }
static int64_t workspace_lora_bwd(const Op *op) { return lora_bytes(op, op->in[2], op->in[1]); }

static int64_t workspace_cuda_gemm(const Op *op) { (void)op; return CUDA_GEMM_WORKSPACE; }
static int64_t workspace_cuda_layernorm(const Op *op)
{
    return layernorm_bwd_cuda_workspace(columns(op->in[1]));
}
static int64_t workspace_cuda_rmsnorm(const Op *op)
{
    return rmsnorm_bwd_cuda_workspace(columns(op->in[1]));
}
static int64_t workspace_cuda_bias_grad(const Op *op)
{
    return bias_grad_cuda_workspace(columns(op->in[0]));
}
static int64_t workspace_cuda_linear_dw_bias(const Op *op)
{
    return linear_dw_bias_cuda_workspace(columns(op->in[0]));
}
static int64_t workspace_cuda_grad_norm(const Op *op) { (void)op; return grad_norm_cuda_workspace(); }
static int64_t workspace_cuda_embed_bwd(const Op *op)
{
    return embed_bwd_cuda_workspace(rows(op->in[0]), columns(op->in[0]));
}

static int64_t workspace_cuda_attention(const Op *op)
{
    const Dim *d = op->in[0].v->dim;
    return attention_fwd_cuda_workspace(d[0].n, d[1].n, attr(op, "heads"), attr(op, "kv"),
                                        attr(op, "dim"), act(op->in[0]));
}

static int64_t workspace_cuda_attention_bwd(const Op *op)
{
    const Dim *d = op->in[1].v->dim;
    return attention_bwd_cuda_workspace(d[0].n, d[1].n, attr(op, "heads"), attr(op, "kv"),
                                        attr(op, "dim"), act(op->in[1]));
}

static int64_t workspace_cuda_attention_decode(const Op *op)
{
    return attention_decode_cuda_workspace(op->out[1].v->dim[1].n, attr(op, "heads"));
}

static int64_t workspace_cuda_ce(const Op *op)
{
    return ce_cuda_workspace(attr(op, "chunk"), op->in[1].v->dim[0].n, act(op->in[0]));
}

static int64_t lora_cuda_bytes(const Op *op, Ref x, Ref a)
{
    const Attr *dropout = op_attr(op, "dropout");
    return lora_cuda_workspace(rows(x), columns(a), attr(op, "rank"), attr(op, "parts"),
                               dropout ? (float)dropout->f : 0, act(x));
}

static int64_t workspace_cuda_lora(const Op *op)
{
    return lora_cuda_bytes(op, op->in[1], op->in[2]);
}
static int64_t workspace_cuda_lora_fold(const Op *op)
{
    return lora_cuda_bytes(op, op->in[0], op->in[2]);
}
static int64_t workspace_cuda_lora_bwd(const Op *op)
{
    return lora_cuda_bytes(op, op->in[2], op->in[4]);
}

const KernelRow kernel_row[] = {
#define KERNEL(name, backend, pattern, file, args, inplace, fits, workspace, doc) \
    {#name, #backend, pattern, file, args, inplace, fits_##fits, workspace_##workspace, doc},
#include "kernels/kernels.def"
#undef KERNEL
};
const int nkernels = sizeof kernel_row / sizeof kernel_row[0];

/* ---- VARIANT rows of kernels.def ------------------------------------------------------------- */

/* Every part has rows. */
static bool fits_norm_parts(const Op *op, int parts) { return parts <= rows(op->in[1]); }

/* Tensor cores take heads of whole 16 elements. */
static bool fits_attention_rows(const Op *op, int owned)
{
    (void)owned;
    return op->in[0].v->dtype != DT_F32 && attr(op, "dim") % 16 == 0;
}

/* The head is (V, C). */
static bool fits_ce_threads(const Op *op, int threads)
{
    (void)threads;
    return op->in[1].v->dim[0].n > CUDA_CE_SHORT;
}

const VariantRow variant_row[] = {
#define ROUNDS_f32 false
#define ROUNDS_act true
#define KERNEL(name, backend, pattern, file, args, inplace, fits, workspace, doc)
#define VARIANT(name, fits, rounds, doc, ...) \
    {#name, fits_##fits, ROUNDS_##rounds, sizeof((int[]){__VA_ARGS__}) / sizeof(int), \
     {__VA_ARGS__}},
#include "kernels/kernels.def"
#undef KERNEL
};
const int nvariants = sizeof variant_row / sizeof variant_row[0];

const VariantRow *variant_find(const char *name)
{
    for (int i = 0; i < nvariants; i++)
        if (!strcmp(variant_row[i].name, name))
            return &variant_row[i];
    bug("kernels.def has no VARIANT %s", name);
}

/* ---- rows and their words -------------------------------------------------------------------- */

int kernel_find(const char *name)
{
    for (int i = 0; i < nkernels; i++)
        if (!strcmp(kernel_row[i].name, name))
            return i;
    return -1;
}

bool group_spans(const Group *group)
{
    const char *pattern = kernel_row[group->kernel].pattern;
    return pattern[strlen(pattern) - 1] == '+';
}

Ref kernel_operand(const Program *p, const Group *group, const char *word)
{
    const KernelRow *row = &kernel_row[group->kernel];
    int op = isdigit((unsigned char)word[0]) && word[1] == '.' ? word[0] - '0' : 0;
    const char *at = word[1] == '.' ? word + 2 : word;
    const Op *o = &p->ops[group->first_op + op];
    int k = atoi(at + 1);
    if (op >= group->nops || (at[0] != 'i' && at[0] != 'o') || k >= (at[0] == 'o' ? o->nout : o->nin))
        bug("kernels.def: %s has no operand %.8s", row->name, word);
    return at[0] == 'o' ? o->out[k] : o->in[k];
}
