/* kernels.c -- the rows of kernels.def as tables: kernels of each backend, and their workspaces.
 *
 * Keeps: workspace sizes use the formulas of the kernels themselves. */
#include "gen/graph/kernels.h"
#include "kernels/cpu/workspace.h"
#include "kernels/cuda/workspace.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static int64_t cols(Ref r) { return r.v->dim[r.v->rank - 1].n; }
static int64_t rows(Ref r) { return value_elements(r.v) / cols(r); }

/* ---- columns of kernels.def: fits ------------------------------------------------------------ */

static const char *fits_always(const Op *op) { (void)op; return NULL; }

/* cuBLASLt's GELU epilogues need 16-bit operands and, for the stored input, rows of 16 bytes; not
 * used for a single token. */
static const char *fits_gelu_epilogue(const Op *op)
{
    return op->in[0].v->dtype == DT_F32 ? "the epilogue needs 16-bit operands"
           : cols(op->out[0]) % 8    ? "the epilogue needs a multiple of 8 columns"
           : rows(op->out[0]) == 1      ? "the epilogue needs more than one row"
                                        : NULL;
}

/* cuBLASLt computes bias gradients along with weight gradients, but cannot add to them; 16-byte
 * rows as above. A library without an algorithm for this is detected at start, see gemm_init. */
static const char *fits_bgrad_epilogue(const Op *op)
{
    const Op *dw = op + 1;
    return op->in[0].v->dtype == DT_F32 ? "the epilogue needs 16-bit operands"
           : op_attr(op, "beta")->i || op_attr(dw, "beta")->i
               ? "the epilogue does not add to a gradient"
           : cols(dw->in[0]) % 8 || cols(dw->in[1]) % 8
               ? "the epilogue needs multiples of 8 columns"
               : NULL;
}

static const char *fits_whole_vectors(const Op *op)
{
    return cols(op->in[0]) % 8 ? "rows must be of whole vectors of 16 bytes" : NULL;
}

/* A product, op, whose rows go through the ops after it; out[0] of it has its columns. */
static const char *fits_by_rows(const Op *op)
{
    const int64_t n = cols(op->out[0]);
    return op->in[0].v->dtype != DT_F32 ? "rows of C are summed in fp32"
           : rows(op->out[0]) < GEMM_ROWS_M ? "C has few rows"
           : n > GEMM_ROWS_N || n * cols(op->in[0]) > GEMM_ROWS_B ? "C is not in cache by rows"
                                                                  : NULL;
}

static const char *fits_sums_by_rows(const Op *op)
{
    return rows(op->out[0]) % REDUCE_PARTS ? "blocks of rows are not equal" : fits_by_rows(op);
}

static const char *fits_head_size(const Op *op)
{
    int64_t d = op_attr(op, "dim")->i;
    if (d > 128 && op_attr(op, "dropout"))
        return "head_dim: must be at most 128 where probabilities are dropped; try "
               "model.attention_dropout = 0";
    return d > 256 || d % 2 ? "head_dim: must be an even number from 2 to 256" : NULL;
}

static const char *fits_cudnn(const Op *op)
{
    return op_attr(op, "cudnn") ? NULL : "kernels.attention is \"builtin\"";
}

static const char *fits_drops_head_size(const Op *op)
{
    return !op_attr(op, "dropout") ? "nothing is dropped"
           : !strcmp(op_attr(op, "mask")->word, "shared")
               ? "a shared prompt has no kernel that drops"
               : fits_head_size(op);
}

static const char *fits_undropped_head_size(const Op *op)
{
    const char *why = op_attr(op, "cudnn") ? "kernels.attention is \"cudnn\"" : fits_head_size(op);
    return why ? why : op_attr(op, "dropout") ? "probabilities are dropped" : NULL;
}

/* True if the norm at op, or after a sum, writes rows with room after their columns. */
static const char *fits_wide_rows(const Op *op)
{
    const Op *norm = op->kind == OP_add ? op + 1 : op;
    return cols(norm->out[0]) > cols(norm->in[0]) ? NULL : "rows lie side by side";
}

/* Of dropout, a residual sum and a norm: whole vectors, side by side. */
static const char *fits_dropped_norm(const Op *op)
{
    const char *why = fits_whole_vectors(op);
    return why ? why : fits_wide_rows(op + 1) ? NULL : "the norm leaves room after its rows";
}

/* The states of an update are divided over ranks. */
static const char *fits_divided(const Op *op)
{
    return op->out[0].v->part ? NULL : "every rank updates all of it";
}

static const char *fits_whole(const Op *op)
{
    return op->out[0].v->part               ? "each rank updates its part"
           : op->in[0].v->kind == VK_TEMP ? "its operands do not lie side by side"
                                          : NULL;
}

static const char *fits_in_place(const Op *op)
{
    return op->in[0].v == op->out[0].v ? NULL : "the parts lie elsewhere";
}

static const char *fits_lasting(const Op *op)
{
    return op->in[0].v->kind == VK_TEMP ? "only its program holds the gradient" : NULL;
}

/* Of a gradient that only its program holds. */
static const char *fits_temporary(const Op *op)
{
    return op->in[0].v->kind == VK_TEMP ? NULL : "the gradient outlives its program";
}

/* Neighbours may be updated as one value: a rounded element is drawn by its number in its own. */
static const char *fits_side_by_side(const Op *op)
{
    return op_attr(op, "number") ? "each element is drawn by its number" : fits_whole(op);
}

static const char *fits_together(const Op *op)
{
    return op_attr(op, "together") ? NULL : "each tensor has sums of its own";
}

static const char *fits_alone(const Op *op)
{
    return op_attr(op, "ranks")->i == 1 ? NULL : "other ranks have gradients too";
}

static const char *fits_folded(const Op *op)
{
    return op->in[2].v == op->in[3].v ? NULL : "u has rows of its own, apart from x";
}

static int64_t parts_of(const Op *op, const char *key)
{
    const Attr *a = op_attr(op, key);
    return a ? a->i : 0;
}

/* A vector of 16 bytes lies in one part of a row. */
static const char *fits_lora_dy(const Op *op)
{
    const int64_t rank = op_attr(op, "rank")->i, parts = op_attr(op, "parts")->i;
    int64_t all = rank | op_attr(op, "before")->i | cols(op->in[0]) | cols(op->in[1]);
    for (int i = 0; i < parts; i++)
        all |= parts_of(op, text_print("c%d", i)) | parts_of(op, text_print("w%d", i));
    return op->in[0].v->dtype == DT_F32 ? "products of tensor cores need 16-bit operands"
           : rank > CUDA_LORA_DY_RANK   ? "lora.rank is more than 32"
           : all % 8                    ? "columns are no multiples of 8"
                                        : NULL;
}

/* Adapters on both halves of a gated unit. */
static const char *fits_gated_lora(const Op *op)
{
    const Op *dy = op + 1;
    const int64_t F = cols(op->in[0]);
    const bool both = op_attr(dy, "parts")->i == 2 && !op_attr(dy, "c0")->i &&
                      op_attr(dy, "w0")->i == F && op_attr(dy, "c1")->i == F &&
                      op_attr(dy, "w1")->i == F;
    return dy->in[0].v != op->out[0].v ? "dy is another value"
           : !both                     ? "one half has no adapters"
                                       : fits_lora_dy(dy);
}

/* The same after the sum of an adapter of as many ranks, whose result only the gated unit reads. */
static const char *fits_gated_lora_dx(const Op *op)
{
    return op_attr(op, "dropout")                        ? "the adapter's input has dropout"
           : op[1].in[0].v != op->out[0].v               ? "the gated unit reads another value"
           : parts_of(op, "parts") != 1                  ? "another layer follows"
           : parts_of(op, "rank") != parts_of(op + 2, "rank") ? "ranks differ"
                                                         : fits_gated_lora(op + 1);
}

#define FILE_NAME(file, end) sizeof(file) > 1 ? file end : ""
#define ROW_cpu(name, pattern, file, args, inplace, fits, doc) \
    {#name, "cpu", pattern, FILE_NAME(file, ".h"), args, inplace, fits_##fits, doc},
#define ROW_cuda(name, pattern, file, args, inplace, fits, doc) \
    {#name, "cuda", pattern, FILE_NAME(file, ".cuh"), args, inplace, fits_##fits, doc},
#define ROW_both(...) ROW_cpu(__VA_ARGS__) ROW_cuda(__VA_ARGS__)
#define KERNEL(name, backend, pattern, file, args, inplace, fits, cpu, cuda, doc) \
    ROW_##backend(name, pattern, file, args, inplace, fits, doc)
const KernelRow kernel_row[] = {
#include "kernels/kernels.def"
};
#undef KERNEL
const int nkernels = sizeof kernel_row / sizeof kernel_row[0];

/* ---- columns of kernels.def: workspace, as the kernels themselves compute it ----------------- */

static int64_t size(Ref r, int axis) { return r.v->dim[axis].n; }
static int64_t bytes(Ref r) { return dtype_bytes[r.v->dtype]; }

static float dropout(const Op *op)
{
    const Attr *a = op_attr(op, "dropout");
    return a ? (float)a->f : 0;
}

/* Workspace of lora_dy.cuh, in bytes. */
static int64_t lora_dy_bytes(const Op *op)
{
    const int64_t rank = op_attr(op, "rank")->i;
    int64_t stripes = 0;
    for (int i = 0; i < op_attr(op, "parts")->i; i++)
        stripes += lora_dy_stripes(parts_of(op, text_print("w%d", i)), rank);
    return lora_dy_cuda_workspace(rows(op->in[0]), stripes, rows(op->in[2]), rank);
}

#define attr(key) (op_attr(op, #key)->i)

/* Workspace of lora.h for an op lora or lora_bwd, in bytes. */
static int64_t lora_bytes(const Op *op, Ref x, Ref y)
{
    return lora_workspace(rows(x), cols(x), cols(y), attr(rank), attr(parts), dropout(op),
                          bytes(x));
}

#define ATTENTION(pass, x) \
    attention_##pass##_workspace(size(x, 0), size(x, 1), attr(kv), attr(dim), bytes(x))
#define ATTENTION_CUDA(pass, x) \
    attention_##pass##_cuda_workspace(size(x, 0), size(x, 1), attr(heads), attr(kv), attr(dim), \
                                      bytes(x))
#define CE ce_workspace(attr(chunk), size(in[1], 0), bytes(in[0]))
#define CE_CUDA \
    ce_cuda_workspace(attr(chunk), size(in[1], 0), bytes(in[0]), \
                      op_attr(op, "act_logits") ? bytes(in[0]) : 4)
#define KL kl_workspace(attr(chunk), size(in[1], 0), bytes(in[0]))
#define KL_CUDA kl_cuda_workspace(attr(chunk), size(in[1], 0), bytes(in[0]))
#define FFN(pass, up) pass##_workspace(attr(tile), size(up, 0), attr(gates), bytes(in[0]))
#define FFN_LORA(pass, up) \
    pass##_workspace(attr(tile), size(up, 0), attr(gates), cols(in[0]), attr(rank), \
                     parts_of(op, "up_parts"), parts_of(op, "down_parts"), bytes(in[0]))
#define LORA(x, y) lora_bytes(op, x, y)
#define LORA_CUDA(x, a) \
    lora_cuda_workspace(rows(x), cols(a), attr(rank), attr(parts), dropout(op), bytes(x))

int64_t kernel_workspace(int kernel, const Op *op)
{
    const Ref *in = op->in, *out = op->out;
    int row = 0;
#define SIZE_cpu(cpu, cuda) if (row++ == kernel) return cpu;
#define SIZE_cuda(cpu, cuda) if (row++ == kernel) return cuda;
#define SIZE_both(cpu, cuda) SIZE_cpu(cpu, cuda) SIZE_cuda(cpu, cuda)
#define KERNEL(name, backend, pattern, file, args, inplace, fits, cpu, cuda, doc) \
    SIZE_##backend(cpu, cuda)
#include "kernels/kernels.def"
#undef KERNEL
    bug("no kernel %d", kernel);
}

int64_t value_room(const Graph *g, const Value *v)
{
    const bool wide = !strcmp(g->target->backend, "cuda") && v->rank == 2 &&
                      !strcmp(v->dim[0].sym, "V");
    return wide ? ce_width(v->dim[0].n) * v->dim[1].n : value_elements(v);
}

/* ---- VARIANT rows of kernels.def ------------------------------------------------------------- */

/* True if every part has rows. */
static bool fits_norm_parts(const Op *op, int parts) { return parts <= rows(op->in[1]); }

/* Tensor cores need head sizes that are multiples of 16; only these two masks were measured. */
static bool fits_attention_rows(const Op *op, int owned)
{
    (void)owned;
    const char *mask = op_attr(op, "mask")->word;
    return op->in[0].v->dtype != DT_F32 && attr(dim) % 16 == 0 &&
           (!strcmp(mask, "causal") || !strcmp(mask, "full"));
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
#define KERNEL(...)
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

const char *kernel_word(int row)
{
    int nth = 1;
    for (int i = 0; i < row; i++)
        nth += !strcmp(kernel_row[i].name, kernel_row[row].name) &&
               !strcmp(kernel_row[i].backend, kernel_row[row].backend);
    return nth == 1 ? kernel_row[row].name : text_print("%s/%d", kernel_row[row].name, nth);
}

int kernel_find(const char *word, const char *backend)
{
    for (int i = 0; i < nkernels; i++)
        if (!strcmp(kernel_row[i].backend, backend) && !strcmp(kernel_word(i), word))
            return i;
    return -1;
}

int kernel_match(const Program *p, int i, const KernelRow *row)
{
    const char *pattern = row->pattern;
    int n = 0;
    while (*pattern) {
        size_t len = strcspn(pattern, " ");
        if (i + n >= p->nops || p->ops[i + n].region != p->ops[i].region)
            return 0;
        const char *name = op_row[p->ops[i + n].kind].name;
        if (strlen(name) != len || strncmp(name, pattern, len))
            return 0;
        n++;
        pattern += len + (pattern[len] == ' ');
    }
    return n;
}

bool kernel_repeats(const KernelRow *row) { return row->pattern[strlen(row->pattern) - 1] == '+'; }

Ref kernel_operand(const Program *p, const Group *group, const char *word)
{
    const KernelRow *row = &kernel_row[group->kernel];
    int op = isdigit((unsigned char)word[0]) && word[1] == '.' ? word[0] - '0' : 0;
    const char *at = word[1] == '.' ? word + 2 : word;
    const Op *o = &p->ops[group->first_op + op];
    int k = op < group->nops ? op_operand(o, at[0] == 'o', atoi(at + 1)) : -1;
    if (k < 0 || (at[0] != 'i' && at[0] != 'o'))
        bug("kernels.def: %s has no operand %.8s", row->name, word);
    return at[0] == 'o' ? o->out[k] : o->in[k];
}
