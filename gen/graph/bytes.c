/* bytes.c -- bytes of memory that ops move: the column bytes of ops.def.
 *
 * Each function returns the bytes that a call reads from, and writes to, operand k: inputs first,
 * then outputs; k = nin + nout is its workspace, written once and read once. A kernel of several
 * launches reads an operand once per launch that needs it, as kernels/cuda does. Scratch of matrix
 * products and per-block sums do not count. Reports and estimates use these counts. */
#include "gen/graph/ir.h"

#include <string.h>

#include "kernels/cuda/workspace.h"

static double elements(Ref r) { return (double)value_elements(r.v); }
static double columns(Ref r) { return (double)r.v->dim[r.v->rank - 1].n; }
static double rows(Ref r) { return elements(r) / columns(r); }

static double attribute(const Op *op, const char *key)
{
    const Attr *a = op_attr(op, key);
    return a ? (double)a->i : 0;
}

static Ref operand(const Op *op, int k) { return k < op->nin ? op->in[k] : op->out[k - op->nin]; }
static bool is_output(const Op *op, int k) { return k >= op->nin && k < op->nin + op->nout; }

/* Letter of an operand in the column place. */
static char letter(const Op *op, int k)
{
    const char *in = op_row[op->kind].place, *out = strstr(in, "->") + 2;
    const bool of_out = k >= op->nin;
    const size_t n = of_out ? strlen(out) : (size_t)(out - 2 - in);
    const int row = op_row_operand(op, of_out, of_out ? k - op->nin : k);
    return (of_out ? out : in)[(size_t)row < n ? (size_t)row : n - 1];
}

/* Bytes of operand k, of all tensors that the call names; 0 beyond the last. */
static double size_of(const Op *op, int k)
{
    if (k >= op->nin + op->nout)
        return 0;
    const Ref r = operand(op, k);
    const double tensors = op->region || r.index != IX_NONE ? 1 : (double)r.v->slots;
    return tensors * elements(r) * dtype_bytes[r.v->dtype];
}

/* True if the call adds to output k, and so reads it: a gradient where beta is 1, running sums. */
static bool adds_to(const Op *op, int k)
{
    if (!is_output(op, k) || !strchr("sleow", letter(op, k)))
        return false;
    const Attr *beta = op_attr(op, "beta");
    return beta ? beta->i && operand(op, k).v->dtype == DT_F32
                : !op_takes(op->kind, "beta") && letter(op, k) == 's';
}

static double bytes_all(const Op *op, int k) { return (adds_to(op, k) ? 2 : 1) * size_of(op, k); }
static double bytes_none(const Op *op, int k) { (void)op, (void)k; return 0; }

/* Weights, moments and what else an update changes; of weights that a fp32 master is rounded to,
 * the old values are not read. */
static double bytes_update(const Op *op, int k)
{
    const Attr *master = op_attr(op, "master");
    const bool rounded = master && !strcmp(master->word, "fp32") && k == op->nin;
    return (is_output(op, k) && !rounded ? 2 : 1) * size_of(op, k);
}

/* Of a table the rows that are looked up. */
static double bytes_gather(const Op *op, int k)
{
    const double rows = size_of(op, op->nin), all = size_of(op, k);
    return k < op->nin && letter(op, k) == 'w' && all > rows ? rows : all;
}

/* Of a gradient the rows of tokens are added to; with beta 0 it is cleared before. */
static double bytes_scatter(const Op *op, int k)
{
    if (!is_output(op, k))
        return size_of(op, k);
    const double all = size_of(op, k), some = rows(op->in[0]) * columns(op->out[0]) *
                                              dtype_bytes[op->out[0].v->dtype];
    return (op_attr(op, "beta")->i ? 0 : all) + 2 * (some < all ? some : all);
}

/* x w^T and dy w: of the rows of w only the columns that x and dx have are read. */
static double columns_of(const Op *op, int k, Ref x)
{
    return size_of(op, k) * (k == 1 ? columns(x) / columns(op->in[1]) : 1);
}
static double bytes_linear(const Op *op, int k) { return columns_of(op, k, op->in[0]); }
static double bytes_linear_dx(const Op *op, int k) { return columns_of(op, k, op->out[0]); }

/* Column sums in CUDA_REDUCE_PARTS parts. */
static double bytes_sums(const Op *op, int k)
{
    double sums = 0;
    for (int i = op->nin; k == op->nin + op->nout && i < k; i++)
        sums += 2.0 * CUDA_REDUCE_PARTS * size_of(op, i);
    return sums + bytes_all(op, k);
}

/* Only q and k of rows (q | k | v). */
static double bytes_heads(const Op *op, int k)
{
    const double heads = attribute(op, "heads"), kv = attribute(op, "kv"),
                 all = (heads + 2 * kv) * attribute(op, "dim");
    const bool rows = k < op->nin + op->nout && columns(operand(op, k)) == all;
    return (rows ? (heads + kv) / (heads + 2 * kv) : 1) * bytes_all(op, k);
}

/* dq, then dk and dv: both read all but o; the first leaves row sums of do * o to the second. */
static double bytes_attention_bwd(const Op *op, int k)
{
    return k == op->nin + op->nout ? 2 * size_of(op, 3)
                                   : (is_output(op, k) || k == 2 ? 1 : 2) * size_of(op, k);
}

/* y0 + scale (x A^T) B^T, a part at a time, each with the dropped x in the workspace. */
static double bytes_lora(const Op *op, int k)
{
    const double parts = op_attr(op, "dropout") ? attribute(op, "parts") : 0;
    const int u = op->nin + 1, ws = op->nin + op->nout;
    return k == ws ? 2 * parts * size_of(op, 1)
                   : (k == 1 && parts ? parts : k == u ? 2 : 1) * size_of(op, k);
}

/* u after the columns of x, B after those of w. */
static double bytes_lora_fold(const Op *op, int k)
{
    const double parts = op_attr(op, "dropout") ? attribute(op, "parts") : 0,
                 in = columns(op->in[2]), all = columns(op->in[0]);
    const double read = k == 0 ? (parts ? parts : 1) * in / all : k == 1 ? 0 : 1;
    return k == op->nin + op->nout ? 2 * parts * size_of(op, 0) * in / all
                                   : (is_output(op, k) ? (all - in) / all : read) * size_of(op, k);
}

/* du = dy B in the workspace, which dA and dx read; dB reads dy again. */
static double bytes_lora_bwd(const Op *op, int k)
{
    const double parts = op_attr(op, "dropout") ? attribute(op, "parts") : 0,
                 in = columns(op->in[4]), ranks = attribute(op, "parts") * attribute(op, "rank"),
                 bytes = rows(op->in[2]) * dtype_bytes[op->in[2].v->dtype];
    return k == op->nin + op->nout ? 3 * bytes * ranks + 2 * parts * bytes * in
           : k == 1                ? 2 * size_of(op, k)
           : k == 2                ? (parts ? parts : 1) * bytes * in
           : k == 3                ? bytes * ranks
                                   : bytes_all(op, k);
}

/* The ranks' columns of rows x. */
static double ranks_of(const Op *op, Ref x)
{
    return attribute(op, "parts") * attribute(op, "rank") * rows(x) * dtype_bytes[x.v->dtype];
}

/* du of stripes of columns and db of shares of rows in the workspace. */
static double bytes_lora_dy(const Op *op, int k)
{
    const double rank = attribute(op, "rank"), widths = rows(op->in[2]);
    int64_t stripes = 0;
    for (int i = 0; i < (int)attribute(op, "parts"); i++)
        stripes += lora_dy_stripes((int64_t)attribute(op, text_print("w%d", i)), (int64_t)rank);
    return k == op->nin + op->nout
               ? 2 * (double)lora_dy_cuda_workspace((int64_t)rows(op->in[0]), stripes,
                                                    (int64_t)widths, (int64_t)rank)
           : k == 1 ? ranks_of(op, op->in[1])
                    : bytes_all(op, k);
}

/* With dropout a part at a time, each with the dropped x in the workspace. */
static double bytes_lora_da(const Op *op, int k)
{
    const double parts = op_attr(op, "dropout") ? attribute(op, "parts") : 0,
                 x = rows(op->in[1]) * columns(op->out[0]) * dtype_bytes[op->in[1].v->dtype];
    return k == op->nin + op->nout ? 2 * parts * x
           : k == 1                ? (parts ? parts : 1) * x
                                   : bytes_all(op, k);
}

/* Heads, a chunk of rows at a time: w is read for each, dw added to from the second one on. of_w:
 * how many products of a chunk read w; read: bytes of a logit that are read and written in the
 * workspace. */
static double in_chunks(const Op *op, int k, int of_w, int of_x, double logit)
{
    const double chunks = rows(op->in[0]) / attribute(op, "chunk");
    const bool sum = is_output(op, k) && letter(op, k) == 's';
    return k == op->nin + op->nout ? logit * rows(op->in[0]) * rows(op->in[1])
           : k == 0                ? of_x * size_of(op, k)
           : k == 1                ? of_w * chunks * size_of(op, k)
           : sum ? (2 * chunks - (attribute(op, "beta") ? 0 : 1)) * size_of(op, k)
                 : size_of(op, k);
}

/* Bytes of a logit. */
static double logit_bytes(const Op *op)
{
    return op_attr(op, "act_logits") ? dtype_bytes[op->in[0].v->dtype] : 4;
}

/* Logits, which the product writes and the softmax reads; hits and a bias also. */
static double bytes_ce(const Op *op, int k)
{
    const double hits = op->nout > 1 ? 1 : 0, bias = attribute(op, "bias") ? 2 : 0;
    return in_chunks(op, k, 1, 1, logit_bytes(op) * (2 + hits + bias));
}

/* The gradient of a logit needs it again: from memory if a warp reads the row, or if shared memory
 * has no room; CUDA_CE_HELD is that of sm_90. dx reads the gradient, dw too, and the bias's. */
static double bytes_ce_bwd(const Op *op, int k)
{
    const double V = rows(op->in[1]), logit = logit_bytes(op), held = CUDA_CE_HELD * 4 / logit,
                 again = V <= CUDA_CE_SHORT ? 1 : V <= held ? 0 : 1 - held / V;
    const int act = dtype_bytes[op->in[0].v->dtype], trained = op_attr(op, "trained") != NULL,
              bias = attribute(op, "bias") != 0, db = op->nout > 3 ? 1 : 0;
    return in_chunks(op, k, 2, 1 + trained,
                     logit * (2 + again + 2 * bias) + act * (2 + trained + db));
}

/* Feed-forward layers, a tile at a time: up is read by of_up products of each, down by one,
 * gradients are added to from the second one on. wide, act: how often the workspace's values of
 * that width are read and written. */
static double in_tiles(const Op *op, int k, int up, int of_up, double wide, double act)
{
    const double tiles = rows(op->in[0]) / attribute(op, "tile"), F = columns(op->in[up + 1]),
                 all = rows(op->in[0]) * dtype_bytes[op->in[0].v->dtype] * F;
    return k == op->nin + op->nout ? all * (wide * attribute(op, "gates") + act)
           : k == up               ? of_up * tiles * size_of(op, k)
           : k > up && k < op->nin ? tiles * size_of(op, k)
           : is_output(op, k) && letter(op, k) == 's'
               ? (2 * tiles - (attribute(op, "beta") ? 0 : 1)) * size_of(op, k)
               : size_of(op, k);
}

/* Each product writes a value that the next kernel reads. */
static double bytes_ffn(const Op *op, int k) { return in_tiles(op, k, 1, 1, 2, 2); }

/* The wide rows: written, read by the activation and its gradient, which writes theirs; dx reads
 * those, dw too, and the bias's. dy and x: by a product each, and by one of dw. */
static double bytes_ffn_bwd(const Op *op, int k)
{
    const int trained = op_attr(op, "trained") != NULL, db = op->nout > 3 ? 1 : 0;
    return (k < 2 ? 1 + trained : 1) *
           in_tiles(op, k, 2, 2, 4 + 2 * trained + db, 2 + 2 * trained);
}

/* Of frozen layers; act and its gradient both, which the second layer's adapter reads. */
static double bytes_ffn_lora_bwd(const Op *op, int k)
{
    return in_tiles(op, k, 2, 2, 4, op_attr(op, "down_parts") ? 5 : 2);
}

/* Two heads w and v (input 3) read by one product each, w also by those of gradients. */
static double of_two(const Op *op, int k, int of_w, int of_x, double logit)
{
    return in_chunks(op, k == 3 ? 1 : k, k == 3 ? 1 : of_w, of_x, logit);
}
static double bytes_kl(const Op *op, int k) { return of_two(op, k, 1, 1, 8 + 2 * 8); }
static double bytes_kl_dx(const Op *op, int k)
{
    return of_two(op, k, 3, 1, 8 + 3 * 8 + 4 * dtype_bytes[op->in[0].v->dtype]);
}
static double bytes_kl_bwd(const Op *op, int k)
{
    return of_two(op, k, 2, 2, 8 + 2 * 8 + 3 * dtype_bytes[op->in[0].v->dtype]);
}

static double (*const bytes_of[NOPS])(const Op *op, int k) = {
#define OP(name, operands, place, attrs, flops, bytes, grad, doc) bytes_##bytes,
#include "gen/graph/ops.def"
#undef OP
};

/* ---- ops and groups -------------------------------------------------------------------------- */

/* Bytes of an operand, counting outputs after inputs; of the workspace, operand nin + nout. */
static double op_bytes(const Op *op, int operand)
{
    const bool inside = operand < op->nin        ? op->in[operand].v->internal
                        : is_output(op, operand) ? op->out[operand - op->nin].v->internal
                                                 : false;
    return inside ? 0 : op_share(op) * bytes_of[op->kind](op, operand);
}

/* True if op k of the group or, of its inputs, one before `end` names the same. */
static bool names(const Op *op, int end, Ref r)
{
    for (int i = 0; i < end; i++) {
        const Ref x = operand(op, i);
        if (x.v == r.v && x.index == r.index && x.k == r.k)
            return true;
    }
    return false;
}

double group_bytes(const Program *p, const Group *group)
{
    const Op *op = &p->ops[group->first_op];
    double bytes = 0;
    for (int i = 0; i < group->nops; i++)
        for (int k = 0; k <= op[i].nin + op[i].nout; k++) {
            /* an earlier op of the group has read or made it: no new transfer */
            bool there = false;
            for (int j = 0; k < op[i].nin && j < i && !there; j++)
                there = names(&op[j], op[j].nin + op[j].nout, op[i].in[k]);
            bytes += there ? 0 : op_bytes(&op[i], k);
        }
    return bytes;
}
