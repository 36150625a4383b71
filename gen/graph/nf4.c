/* nf4.c -- frozen matrices in NF4.
 *
 * In:    parameters of linear layers.
 * Out:   the same as codes, the states of their blocks, and ops that dequantise them.
 * Keeps: every product has a dequantised matrix of its own, so at most one of a layer exists; both
 *        of a feed-forward layer where memory.ffn_rows makes it one op. */
#include "gen/graph/nf4.h"

#include <inttypes.h>
#include <string.h>

#include "runtime/nf4.h"

bool nf4_is_base(const Build *b)
{
    return build_in_block(b) && config_is(b->c, F_lora_base, "nf4");
}

static Dim dim_number(int64_t n) { return dim(n, text_print("%" PRId64, n)); }

/* A state of the parameter's blocks. */
static void add_state(Build *b, const char *prefix, const Value *param, Dtype dtype, int64_t n)
{
    const Dim d = dim_number(n);
    Value *v = ir_new(b->g, VK_STATE, PU_weights, dtype, text_print("%s.%s", prefix, param->name),
                      1, &d, param->loc);
    v->count = param->count;
    v->slots = param->slots;
    v->of = param->name;
}

static void make_nf4(Build *b, Value *param, Dim in)
{
    const Loc loc = config_loc(b->c, F_lora_base);
    int64_t blocks = 0, groups = 0;
    for (int i = 0; i < param->npieces; i++) {
        Piece *piece = &param->piece[i];
        const int64_t n = piece->rows * in.n;
        if (in.n % 2 || n % NF4_BLOCK)
            err(loc, "lora.base: \"nf4\" needs an even number of columns and rows x columns to be "
                "a multiple of %d, but %s is %" PRId64 " x %" PRId64 "; set lora.base = \"same\"",
                NF4_BLOCK, piece->name, piece->rows, in.n);
        piece->cols = in.n;
        blocks += NF4_BLOCKS(n);
        groups += NF4_GROUPS(n);
    }
    param->dtype = DT_U8;
    param->dim[1] = dim(in.n / 2, text_print("%s/2", in.sym));
    add_state(b, "absmax", param, DT_U8, blocks);
    add_state(b, "nested", param, DT_F32, groups);
    add_state(b, "offset", param, DT_F32, param->npieces);
}

/* The state of the same layer as `param`. */
static Ref state_of(const Build *b, const char *prefix, Ref param)
{
    return (Ref){ir_value(b->g, text_print("%s.%s", prefix, param.v->name)), param.index, param.k};
}

static Ref dequant(Build *b, const char *name, Ref of, Dim wide)
{
    const Value *param = of.v;
    const Dim d[2] = {param->dim[0], wide};
    const Loc loc = b->loc;
    b->loc = config_loc(b->c, F_lora_base);
    Ref w = build_temp(b, name, b->model.act, 2, d);
    Op *op = build_op(b, OP_dequant);
    op_in(op, of), op_in(op, state_of(b, "absmax", of));
    op_in(op, state_of(b, "nested", of)), op_in(op, state_of(b, "offset", of));
    op_out(op, w);
    op_int(op, "parts", param->npieces);
    for (int i = 0; i < param->npieces; i++)
        op_int(op, text_print("w%d", i), param->piece[i].rows);
    b->loc = loc;
    return w;
}

Ref nf4_matrix(Build *b, const char *name, Value *param, Dim in, Dim wide)
{
    if (!value_is_nf4(param))
        make_nf4(b, param, in);
    return dequant(b, text_print("%s.nf4", name), build_use(b, param), wide);
}

/* The parameter from which ops of the program computed w; v NULL: none. */
static Ref source_of(const Program *p, Ref w)
{
    for (int i = p->nops - 1; i >= 0 && w.v->kind == VK_TEMP; i--) {
        const Op *op = &p->ops[i];
        if (op->kind == OP_lora_fold && op->out[1].v == w.v)
            w = op->in[1];
        else if (op->kind == OP_dequant && op->out[0].v == w.v)
            return op->in[0];
    }
    return (Ref){0};
}

Ref nf4_again(Build *b, Ref w)
{
    const Ref of = source_of(b->p, w);
    const Value *param = of.v;
    if (!param)
        return w;
    const char *name = param->name + strlen("b.") + strlen(b->stack.name);
    const Dim in = dim(2 * param->dim[1].n,
                       text_print("%.*s", (int)(strlen(param->dim[1].sym) - 2), param->dim[1].sym));
    return dequant(b, text_print("d%s", name), of, in);
}

/* ---- the contract ---------------------------------------------------------------------------- */

static void check_dequant(const Program *p, const Op *op)
{
    static const char *const rows[] = {"w0", "w1", "w2"}, *const prefix[] = {"absmax", "nested",
                                                                            "offset"};
    const Value *param = op->in[0].v;
    int64_t groups = 0;
    if (!value_is_nf4(param) || param->trained)
        bug("%s of %s dequantises %s, which is no frozen parameter in NF4", op_row[op->kind].name,
            p->name, param->name);
    for (int i = 0; i < 3; i++)
        if (strcmp(op->in[i + 1].v->name, text_print("%s.%s", prefix[i], param->name)))
            bug("%s of %s reads %s with %s", op_row[op->kind].name, p->name, param->name,
                op->in[i + 1].v->name);
    for (int i = 0; i < param->npieces; i++) {
        const Piece *piece = &param->piece[i];
        const Attr *a = op_attr(op, rows[i]);
        if (!a || a->i != piece->rows || piece->cols != 2 * param->dim[1].n)
            bug("%s of %s: tensor %d of %s has other rows or columns", op_row[op->kind].name,
                p->name, i, param->name);
        groups += NF4_GROUPS(piece->rows * piece->cols);
    }
    if (op->in[2].v->dim[0].n != groups)
        bug("%s has %" PRId64 " groups, not %" PRId64, param->name, op->in[2].v->dim[0].n, groups);
}

void nf4_check(const Graph *g)
{
    for (int i = 0; i < g->nprograms; i++)
        for (int k = 0; k < g->programs[i]->nops; k++)
            if (g->programs[i]->ops[k].kind == OP_dequant)
                check_dequant(g->programs[i], &g->programs[i]->ops[k]);
}
