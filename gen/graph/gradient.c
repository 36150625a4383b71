/* gradient.c -- reverse-mode differentiation of a list of ops: one rule per row of ops.def.
 *
 * In:    forward ops, and gradients of their final values.
 * Out:   backward ops, appended; the gradient of a trained parameter goes to $grad.NAME.
 * Method: ops in reverse. A value used n times accumulates n contributions; contributions to inputs
 *         are dropped. For the array x and its gradient dx, the last contribution to x[l] goes to
 *         dx[l]. */
#include "gen/graph/bilevel.h"
#include "gen/graph/layers.h"
#include "gen/graph/nf4.h"

#include <string.h>

typedef struct {
    Ref value, gradient;
    int uses;                /* contributions still missing */
    bool known;              /* gradient holds the sum so far */
} Entry;

static struct {
    int n, nstreams;
    Entry entry[512];
    struct { Value *x, *dx; } stream[8];
    int skip;                /* op differentiated together with a later one; -1: none */
} tape;

void gradient_start(Build *b)
{
    (void)b;
    tape.n = tape.nstreams = 0;
    tape.skip = -1;
}

static Entry *entry_of(Ref r)
{
    for (int i = 0; i < tape.n; i++) {
        Entry *e = &tape.entry[i];
        if (e->value.v == r.v && e->value.index == r.index && e->value.k == r.k)
            return e;
    }
    if (tape.n == (int)(sizeof tape.entry / sizeof tape.entry[0]))
        bug("too many values on the tape");
    tape.entry[tape.n] = (Entry){.value = r};
    return &tape.entry[tape.n++];
}

void gradient_set(Ref value, Ref gradient)
{
    Entry *e = entry_of(value);
    e->gradient = gradient;
    e->known = true;
    e->uses = 0;
}

static Ref gradient_get(Ref value)
{
    Entry *e = entry_of(value);
    if (!e->known || e->uses)
        bug("gradient of %s is not complete", value.v->name);
    return e->gradient;
}

/* Returns the program's own gradient of a parameter, created on first use. */
static Value *own_gradient(Build *b, const Value *param)
{
    const char *name = text_print("%sgrad.%s", b->gradient_prefix, param->name);
    Value *v = ir_value(b->g, name);
    if (!v) {
        v = ir_new(b->g, VK_TEMP, PU_gradients, DT_F32, name, param->rank, param->dim, param->loc);
        v->count = param->count;
    }
    return v;
}

Value *gradient_of(Build *b, Value *param)
{
    return b->gradient_prefix ? own_gradient(b, param)
                              : build_state(b, "grad", param, PU_gradients);
}

/* Creates a temporary like a value, with another last dimension. */
static Ref like(Build *b, const char *name, Ref value, Dim columns)
{
    Dim d[5];
    memcpy(d, value.v->dim, sizeof d);
    d[value.v->rank - 1] = columns;
    return build_temp(b, name, value.v->dtype, value.v->rank, d);
}

static const char *without(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) ? name : name + strlen(prefix);
}

/* Name of a value without the prefixes of build_temp(). */
static const char *base_name(const Build *b, Ref value)
{
    const char *name = value.v->name;
    if (value.index == IX_LOOP && strchr(name, '.'))
        name = strchr(name, '.') + 1;
    return without(without(name, b->program_prefix ? b->program_prefix : ""), b->stack.name);
}

/* Creates a temporary with the shape of a parameter. */
static Ref of_shape(Build *b, const char *what, Ref param, Dtype dtype)
{
    return build_temp(b, text_print("%s.%s", what, base_name(b, param)), dtype, param.v->rank,
                      param.v->dim);
}

/* Location of the complete gradient of a value: for an element of a stream, in the gradient stream;
 * else a temporary with `columns`. */
static Ref whole(Build *b, Ref value, const char *suffix, Dim columns)
{
    for (int i = 0; i < tape.nstreams && !*suffix; i++)
        if (tape.stream[i].x == value.v)
            return (Ref){tape.stream[i].dx, value.index, value.k};
    return like(b, text_print("d%s%s", base_name(b, value), suffix), value, columns);
}

static Dim columns(Ref value) { return value.v->dim[value.v->rank - 1]; }

void gradient_stream(Value *x, Value *dx)
{
    if (tape.nstreams == (int)(sizeof tape.stream / sizeof tape.stream[0]))
        bug("too many streams");
    tape.stream[tape.nstreams].x = x;
    tape.stream[tape.nstreams++].dx = dx;
}

Ref gradient_room(Build *b, Ref value) { return whole(b, value, "", columns(value)); }

/* Location for another contribution to the gradient of value, or of its first columns. */
static Ref contribution_of(Build *b, Ref value, Dim some)
{
    Entry *e = entry_of(value);
    return whole(b, value, e->uses == 1 && !e->known ? "" : text_print(".part%d", e->uses), some);
}

static Ref contribution(Build *b, Ref value) { return contribution_of(b, value, columns(value)); }

static void contribute(Build *b, Ref value, Ref part)
{
    Entry *e = entry_of(value);
    if (--e->uses < 0)
        bug("too many contributions to the gradient of %s", value.v->name);
    if (e->known) {
        Ref sum = whole(b, value, e->uses ? text_print(".sum%d", e->uses) : "", columns(part));
        Op *op = build_op(b, OP_add);
        op_in(op, part), op_in(op, e->gradient);
        op_out(op, sum);
        part = sum;
    }
    e->gradient = part;
    e->known = true;
}

/* ---- rules: the op at ops[i] of the program is copied, since emitting moves the list --------- */

static Ref same_index(Ref like, Value *v) { return (Ref){v, like.index, like.k}; }

/* Makes the gradient of `param` an output of op; the caller sets beta. */
static void out_gradient(Build *b, Op *op, Ref param)
{
    op_out(op, same_index(param, gradient_of(b, param.v)));
}

/* True if the gradient of a parameter is needed; a pass with slopes needs none. */
static bool learns(const Build *b, Ref param) { return param.v->trained && !b->jvp; }

/* beta depends on the schedule: schedule_betas() sets it. */
static void beta(Op *op) { op_int(op, "beta", 0); }

static void copy_attrs(Op *to, const Op *from)
{
    memcpy(to->attr, from->attr, sizeof to->attr);
    to->nattr = from->nattr;
}

static void grad_none(Build *b, const Op *op, int i)
{
    (void)b, (void)i;
    bug("%s has no gradient", op_row[op->kind].name);
}

/* Gradient of the embedding. */
static void tokens_bwd(Build *b, const Op *fwd)
{
    Ref table = fwd->in[1], dy = gradient_get(fwd->out[0]), made = {0};
    if (table.v->kind == VK_TEMP)  /* computed by an op, whose gradient continues from fp32 sums */
        made = build_temp(b, text_print("d%s", base_name(b, table)), DT_F32, 2, table.v->dim);
    else if (!learns(b, table))
        return;
    bool pads = b->model.pad >= 0 && fwd->in[0].v == b->in.tokens;
    Op *op = build_op(b, OP_embed_bwd);
    op_in(op, dy), op_in(op, fwd->in[0]);
    if (made.v)
        op_out(op, made);
    else
        out_gradient(b, op, table);
    if (pads)
        op_int(op, "pad", b->model.pad);
    beta(op);
    if (made.v)
        contribute(b, table, made);
}

/* The replaced rows have no gradient to the embedding, which is frozen. */
static void grad_embed_row(Build *b, const Op *fwd, int i)
{
    (void)i;
    Ref dy = gradient_get(fwd->out[0]);
    if (learns(b, fwd->in[2])) {
        Op *op = build_op(b, OP_embed_row_bwd);
        op_in(op, dy), op_in(op, fwd->in[1]);
        out_gradient(b, op, fwd->in[2]);
        op_int(op, "token", op_attr(fwd, "token")->i);
        beta(op);
    }
    contribute(b, fwd->in[0], dy);
}

static void pos_bwd(Build *b, const Op *fwd, Ref wpe)
{
    if (!learns(b, wpe))
        return;
    Ref dy = gradient_get(fwd->out[0]);
    Op *op = build_op(b, OP_pos_bwd);
    op_in(op, dy);
    out_gradient(b, op, wpe);
    beta(op);
}

/* Gradient of the position table, by positions. */
static void positions_bwd(Build *b, const Op *fwd, Ref wpe, Ref places)
{
    if (!learns(b, wpe))
        return;
    Ref dy = gradient_get(fwd->out[0]);
    Op *op = build_op(b, OP_embed_bwd);
    op_in(op, dy), op_in(op, places);
    out_gradient(b, op, wpe);
    beta(op);
}

static void grad_embed(Build *b, const Op *fwd, int i)
{
    (void)i;
    tokens_bwd(b, fwd);
    if (fwd->nin > 3)
        positions_bwd(b, fwd, fwd->in[2], fwd->in[3]);
    else if (fwd->nin > 2)
        pos_bwd(b, fwd, fwd->in[2]);
}

static void grad_add_pos(Build *b, const Op *fwd, int i)
{
    (void)i;
    pos_bwd(b, fwd, fwd->in[1]);
    contribute(b, fwd->in[0], gradient_get(fwd->out[0]));
}

/* Inputs have no gradient. */
static void grad_cast(Build *b, const Op *fwd, int i)
{
    (void)b, (void)i;
    if (fwd->in[0].v->kind != VK_INPUT)
        bug("cast of %s, which has a gradient", fwd->in[0].v->name);
}

static void grad_transition_table(Build *b, const Op *fwd, int i)
{
    (void)i;
    Op *op = build_op(b, OP_transition_table_bwd);
    op_in(op, gradient_get(fwd->out[0]));
    for (int k = 0; k < fwd->nin; k++)
        out_gradient(b, op, fwd->in[k]);
    copy_attrs(op, fwd);
    beta(op);
}

static void grad_layernorm(Build *b, const Op *fwd, int i)
{
    (void)i;
    Ref x = fwd->in[0], w = fwd->in[1], mean = fwd->out[1], rstd = fwd->out[2],
        dy = gradient_get(fwd->out[0]);
    if (learns(b, w)) {
        Op *op = build_op(b, OP_layernorm_dw);
        op_in(op, dy), op_in(op, x), op_in(op, mean), op_in(op, rstd);
        out_gradient(b, op, w);
        out_gradient(b, op, fwd->in[2]);
        beta(op);
    }
    Ref dx = contribution(b, x);
    Op *op = build_op(b, OP_layernorm_dx);
    op_in(op, dy), op_in(op, x), op_in(op, w), op_in(op, mean), op_in(op, rstd);
    op_out(op, dx);
    contribute(b, x, dx);
}

/* True if weights count as 1 + w. */
static void copy_plus(Op *to, const Op *from)
{
    if (op_attr(from, "plus"))
        op_int(to, "plus", op_attr(from, "plus")->i);
}

static void grad_rmsnorm(Build *b, const Op *fwd, int i)
{
    (void)i;
    Ref x = fwd->in[0], w = fwd->in[1], rstd = fwd->out[1], dy = gradient_get(fwd->out[0]);
    if (learns(b, w)) {
        Op *op = build_op(b, OP_rmsnorm_dw);
        op_in(op, dy), op_in(op, x), op_in(op, rstd);
        out_gradient(b, op, w);
        beta(op);
        copy_plus(op, fwd);
    }
    Ref dx = contribution(b, x);
    Op *op = build_op(b, OP_rmsnorm_dx);
    op_in(op, dy), op_in(op, x), op_in(op, w), op_in(op, rstd);
    op_out(op, dx);
    copy_plus(op, fwd);
    contribute(b, x, dx);
}

static void copy_heads(Op *to, const Op *from)
{
    static const char *const key[] = {"heads", "kv", "dim"};
    for (int k = 0; k < 3; k++)
        op_int(to, key[k], op_attr(from, key[k])->i);
}

static void grad_qk_norm(Build *b, const Op *fwd, int i)
{
    (void)i;
    Ref x = fwd->in[0], w = fwd->in[1], rstd = fwd->out[1], dy = gradient_get(fwd->out[0]);
    if (learns(b, w)) {
        Op *op = build_op(b, OP_qk_norm_dw);
        op_in(op, dy), op_in(op, x), op_in(op, rstd);
        out_gradient(b, op, w);
        copy_heads(op, fwd);
        copy_plus(op, fwd);
        beta(op);
    }
    Ref dx = contribution(b, x);
    Op *op = build_op(b, OP_qk_norm_dx);
    op_in(op, dy), op_in(op, x), op_in(op, w), op_in(op, rstd);
    op_out(op, dx);
    copy_heads(op, fwd);
    copy_plus(op, fwd);
    contribute(b, x, dx);
}

static void linear_dw(Build *b, const Op *fwd, Ref dy)
{
    if (!learns(b, fwd->in[1]))
        return;
    Op *op = build_op(b, OP_linear_dw);
    op_in(op, dy), op_in(op, fwd->in[0]);
    out_gradient(b, op, fwd->in[1]);
    beta(op);
}

/* dx is not passed on to a frozen matrix. */
static void grad_dequant(Build *b, const Op *fwd, int i) { (void)b, (void)fwd, (void)i; }

static void linear_dx(Build *b, Ref dy, Ref w, Ref dx)
{
    w = nf4_again(b, w);
    Op *op = build_op(b, OP_linear_dx);
    op_in(op, dy), op_in(op, w);
    op_out(op, dx);
}

static void grad_linear(Build *b, const Op *fwd, int i)
{
    (void)i;
    Ref dy = gradient_get(fwd->out[0]), dx = contribution(b, fwd->in[0]);
    linear_dw(b, fwd, dy);
    linear_dx(b, dy, fwd->in[1], dx);
    contribute(b, fwd->in[0], dx);
}

static void grad_linear_bias(Build *b, const Op *fwd, int i)
{
    if (learns(b, fwd->in[2])) {
        Op *op = build_op(b, OP_bias_grad);
        op_in(op, gradient_get(fwd->out[0]));
        out_gradient(b, op, fwd->in[2]);
        beta(op);
    }
    grad_linear(b, fwd, i);
}

/* du by an op that reads dy once for it and for dB; none where lora_bwd computes both. */
static Ref adapter_du(Build *b, const Op *fwd, const char *name, Ref dy, Ref u, int64_t before)
{
    const Ref A = fwd->in[2], B = fwd->in[3];
    Op op = {.kind = OP_lora_dy};
    op_in(&op, dy), op_in(&op, u), op_in(&op, B);
    for (int i = 0; i < fwd->nattr; i++)
        if (op_takes(OP_lora_dy, fwd->attr[i].key))
            op.attr[op.nattr++] = fwd->attr[i];
    op_int(&op, "before", before);
    if (!adapter_reads_dy_once(b, &op))
        return (Ref){0};
    const Ref du = like(b, text_print("d%s.u", name), u, A.v->dim[0]);
    Op *own = build_op(b, OP_lora_dy);
    for (int k = 0; k < op.nin; k++)
        op_in(own, op.in[k]);
    op_out(own, du);
    out_gradient(b, own, B);
    copy_attrs(own, &op);
    beta(own);
    return du;
}

/* The last input and the first output of an op of fwd's backward pass, and fwd's attributes. */
static void end_adapter_op(Op *op, const Op *fwd, Ref out)
{
    if (fwd->nin > 4)        /* noise of the dropout */
        op_in(op, fwd->in[4]);
    op_out(op, out);
    copy_attrs(op, fwd);
}

static void adapter_da(Build *b, const Op *fwd, Ref du, Ref x)
{
    const Ref A = fwd->in[2];
    Op *op = build_op(b, OP_lora_da);
    op_in(op, du), op_in(op, x);
    end_adapter_op(op, fwd, same_index(A, gradient_of(b, A.v)));
    beta(op);
}

/* A layer y = w(x) with adapters, whose x and u the forward pass stored; the adapters accumulate
 * into the layer's gradients. */
static void with_adapters(Build *b, const Op *fwd, const Op *base, Ref x, Ref dy, Ref kept, Ref u)
{
    const Ref A = fwd->in[2], B = fwd->in[3];
    const char *name = base_name(b, base->out[0]);
    const Ref du = adapter_du(b, fwd, name, dy, u, kept.v == u.v ? columns(A).n : 0);
    Ref dx0 = like(b, text_print("d%s.base", name), x, columns(A));
    linear_dx(b, dy, base->in[1], dx0);
    Ref dx = contribution_of(b, x, columns(A));
    if (du.v) {
        adapter_da(b, fwd, du, kept);
        Op *op = build_op(b, OP_lora_dx);
        op_in(op, dx0), op_in(op, du), op_in(op, A);
        end_adapter_op(op, fwd, dx);
    } else {
        Op *op = build_op(b, OP_lora_bwd);
        op_in(op, dx0), op_in(op, dy), op_in(op, kept), op_in(op, u), op_in(op, A), op_in(op, B);
        end_adapter_op(op, fwd, dx);
        for (int k = 2; k < 4; k++)
            if (b->jvp)      /* not read */
                op_out(op, of_shape(b, "unread", fwd->in[k], DT_F32));
            else
                out_gradient(b, op, fwd->in[k]);
        beta(op);
    }
    contribute(b, x, dx);
}

/* The op of the layer itself is directly before. */
static void grad_lora(Build *b, const Op *fwd, int i)
{
    Op base = b->p->ops[i - 1];
    Ref x = fwd->in[1];
    if (base.out[0].v != fwd->in[0].v)
        bug("lora does not follow its linear layer");
    tape.skip = i - 1;
    entry_of(x)->uses--;     /* one contribution for both ops */
    with_adapters(b, fwd, &base, x, gradient_get(fwd->out[0]), x, fwd->out[1]);
}

/* The op of the layer itself is directly after. */
static void grad_lora_fold(Build *b, const Op *fwd, int i)
{
    Op base = b->p->ops[i + 1];
    Ref kept = fwd->out[0];
    if (base.in[0].v != kept.v)
        bug("lora_fold does not precede its linear layer");
    with_adapters(b, fwd, &base, fwd->in[0], gradient_get(base.out[0]), kept, kept);
}

static void grad_rope(Build *b, const Op *fwd, int i)
{
    (void)i;
    Ref dy = gradient_get(fwd->out[0]), dx = contribution(b, fwd->in[0]);
    Op *op = build_op(b, OP_rope_bwd);
    op_in(op, dy);
    for (int k = 1; k < fwd->nin; k++)
        op_in(op, fwd->in[k]);
    op_out(op, dx);
    copy_attrs(op, fwd);
    contribute(b, fwd->in[0], dx);
}

static void grad_margin(Build *b, const Op *fwd, int i)
{
    (void)i;
    Ref x = fwd->in[0], w = fwd->in[1], dd = gradient_get(fwd->out[0]);
    if (learns(b, w)) {
        Op *op = build_op(b, OP_margin_dw);
        op_in(op, dd), op_in(op, x);
        out_gradient(b, op, w), out_gradient(b, op, fwd->in[2]);
        beta(op);
    }
    Ref dx = contribution(b, x);
    Op *op = build_op(b, OP_margin_dx);
    op_in(op, dd), op_in(op, w);
    op_out(op, dx);
    contribute(b, x, dx);
}

static void grad_attention(Build *b, const Op *fwd, int i)
{
    (void)i;
    Ref dy = gradient_get(fwd->out[0]), dx = contribution(b, fwd->in[0]);
    Op *op = build_op(b, OP_attention_bwd);
    op_in(op, dy), op_in(op, fwd->in[0]), op_in(op, fwd->out[0]), op_in(op, fwd->out[1]);
    for (int k = 1; k < fwd->nin; k++)
        op_in(op, fwd->in[k]);
    op_out(op, dx);
    copy_attrs(op, fwd);
    contribute(b, fwd->in[0], dx);
}

static void pointwise(Build *b, const Op *fwd, int kind)
{
    Ref dy = gradient_get(fwd->out[0]), dx = contribution(b, fwd->in[0]);
    Op *op = build_op(b, kind);
    op_in(op, dy), op_in(op, fwd->in[0]);
    op_out(op, dx);
    contribute(b, fwd->in[0], dx);
}

static void grad_gelu(Build *b, const Op *fwd, int i) { (void)i; pointwise(b, fwd, OP_gelu_bwd); }
static void grad_relu(Build *b, const Op *fwd, int i) { (void)i; pointwise(b, fwd, OP_relu_bwd); }
static void grad_gelu_erf(Build *b, const Op *fwd, int i)
{
    (void)i;
    pointwise(b, fwd, OP_gelu_erf_bwd);
}

static void grad_swiglu(Build *b, const Op *fwd, int i)
{
    (void)i;
    pointwise(b, fwd, OP_swiglu_bwd);
}

static void grad_geglu(Build *b, const Op *fwd, int i)
{
    (void)i;
    pointwise(b, fwd, OP_geglu_bwd);
}

static void check_tiles(const Build *b)
{
    if (b->jvp)
        bug("tiles have no derivative along a gradient");
}

/* Adapters on frozen layers: the operands of fwd, and the gradients of the adapters. */
static void grad_ffn_lora(Build *b, const Op *fwd, int i)
{
    (void)i;
    check_tiles(b);
    const int last = fwd->nin - (op_attr(fwd, "bias") ? 2 : 0);
    Ref x = fwd->in[0], dy = gradient_get(fwd->out[0]), dx = contribution(b, x);
    Ref up = nf4_again(b, fwd->in[1]), down = nf4_again(b, fwd->in[2]);
    Op *op = build_op(b, OP_ffn_lora_bwd);
    op_in(op, dy), op_in(op, x), op_in(op, up), op_in(op, down);
    for (int k = 3; k < last; k++)
        op_in(op, fwd->in[k]);
    if (last < fwd->nin)
        op_in(op, fwd->in[last]);
    op_out(op, dx);
    for (int k = 3; k < last; k++)
        out_gradient(b, op, fwd->in[k]);
    copy_attrs(op, fwd);
    beta(op);
    contribute(b, x, dx);
}

/* The second bias's gradient is a sum of its own: that of dy. */
static void grad_ffn(Build *b, const Op *fwd, int i)
{
    (void)i;
    check_tiles(b);
    const bool bias = fwd->nin > 3;
    Ref x = fwd->in[0], dy = gradient_get(fwd->out[0]), dx = contribution(b, x);
    if (bias && learns(b, fwd->in[4])) {
        Op *op = build_op(b, OP_bias_grad);
        op_in(op, dy);
        out_gradient(b, op, fwd->in[4]);
        beta(op);
    }
    Ref up = nf4_again(b, fwd->in[1]), down = nf4_again(b, fwd->in[2]);
    Op *op = build_op(b, OP_ffn_bwd);
    op_in(op, dy), op_in(op, x), op_in(op, up), op_in(op, down);
    if (bias)
        op_in(op, fwd->in[3]);
    op_out(op, dx);
    copy_attrs(op, fwd);
    if (learns(b, fwd->in[1])) {
        for (int k = 1; k < (bias ? 4 : 3); k++)
            out_gradient(b, op, fwd->in[k]);
        op_int(op, "trained", 1);
        beta(op);
    }
    contribute(b, x, dx);
}

static void grad_scale(Build *b, const Op *fwd, int i)
{
    (void)i;
    Ref dy = gradient_get(fwd->out[0]), dx = contribution(b, fwd->in[0]);
    Op *op = build_op(b, OP_scale);
    op_in(op, dy);
    op_out(op, dx);
    copy_attrs(op, fwd);
    contribute(b, fwd->in[0], dx);
}

static void grad_add(Build *b, const Op *fwd, int i)
{
    (void)i;
    Ref dy = gradient_get(fwd->out[0]);
    contribute(b, fwd->in[0], dy);
    contribute(b, fwd->in[1], dy);
}

/* Applies the same dropout mask to the gradient. */
static void grad_dropout(Build *b, const Op *fwd, int i)
{
    (void)i;
    Ref dy = gradient_get(fwd->out[0]), dx = contribution(b, fwd->in[0]);
    Op *op = build_op(b, fwd->kind);
    op_in(op, dy);
    for (int k = 1; k < fwd->nin; k++)
        op_in(op, fwd->in[k]);
    op_out(op, dx);
    copy_attrs(op, fwd);
    contribute(b, fwd->in[0], dx);
}

/* Each row is gathered at most once, so the backward pass is a gather, too. */
static void grad_gather(Build *b, const Op *fwd, int i)
{
    (void)i;
    if (fwd->nin < 3)
        bug("gather: rows without an inverse have no gradient");
    Ref dy = gradient_get(fwd->out[0]), dx = contribution(b, fwd->in[0]);
    Op *op = build_op(b, OP_gather);
    op_in(op, dy), op_in(op, fwd->in[2]), op_in(op, fwd->in[1]);
    op_out(op, dx);
    contribute(b, fwd->in[0], dx);
}

/* ---- jvp: <dy, z> per sample; z: the op's output with v instead of its parameters ---------- */

/* v instead of a parameter, converted to its type. */
static Ref tangent_of(Build *b, Ref param)
{
    Ref v = same_index(param, gradient_of(b, param.v));
    if (param.v->dtype == DT_F32)
        return v;
    Ref y = of_shape(b, "v", param, param.v->dtype);
    Op *op = build_op(b, OP_tangent_cast);
    op_in(op, v), op_in(op, ref(b->jvp->tangent));
    op_out(op, y);
    return y;
}

/* Repeats the op with v instead of the parameters in[from..to) and, unless NULL, `first` as its
 * first operand; returns its result. */
static Ref with_tangent(Build *b, const Op *fwd, const char *name, Ref first, int from, int to)
{
    Ref in[8];
    for (int k = 0; k < fwd->nin; k++)
        in[k] = k >= from && k < to && fwd->in[k].v->kind == VK_PARAM ? tangent_of(b, fwd->in[k])
                                                                      : fwd->in[k];
    if (first.v)
        in[0] = first;
    Op *op = build_op(b, fwd->kind);
    int at = (int)(op - b->p->ops);
    for (int k = 0; k < fwd->nin; k++)
        op_in(op, in[k]);
    copy_attrs(op, fwd);
    for (int k = 0; k < fwd->nout; k++) {
        const char *called = k ? text_print("%s.%d", name, k) : name;
        op_out(&b->p->ops[at], like(b, called, fwd->out[k], columns(fwd->out[k])));
    }
    return b->p->ops[at].out[0];
}

/* First-order change of the op's result when its parameters move by v. */
static Ref moved_by(Build *b, const Op *fwd, Ref dy)
{
    const char *name = text_print("t_%s", base_name(b, fwd->out[0]));
    Ref none = {0};
    if (fwd->kind != OP_lora && fwd->kind != OP_add_pos && fwd->kind != OP_embed_row)
        return with_tangent(b, fwd, name, none, 0, fwd->nin);
    Ref zeros = like(b, text_print("%s.zeros", name), fwd->out[0], columns(fwd->out[0]));
    Op *op = build_op(b, OP_zeros);
    op_in(op, dy);
    op_out(op, zeros);
    if (fwd->kind != OP_lora)
        return with_tangent(b, fwd, name, zeros, 0, fwd->nin);
    Ref of_A = with_tangent(b, fwd, text_print("%s.a", name), zeros, 2, 3);
    return with_tangent(b, fwd, name, of_A, 3, 4);
}

static void add_jvp(Build *b, const Op *fwd)
{
    int params = 0, trained = 0;
    for (int k = 0; k < fwd->nin; k++)
        if (fwd->in[k].v->kind == VK_PARAM)
            params++, trained += fwd->in[k].v->trained;
    if (!trained)
        return;
    if (trained < params)
        err(fwd->loc,
            "%s: some of its parameters are trained and some are not, so there is no derivative "
            "along the gradient of all",
            op_row[fwd->kind].name);
    Ref dy = gradient_get(fwd->out[0]), z = moved_by(b, fwd, dy);
    Op *op = build_op(b, dy.v->dtype == b->model.act ? OP_jvp_dot : OP_jvp_dot_f32);
    op_in(op, dy), op_in(op, z), op_in(op, ref(b->jvp->tangent));
    op_out(op, build_input(b, b->jvp->jvp));
}

static void (*const rule[NOPS])(Build *, const Op *, int) = {
#define OP(name, operands, place, attrs, flops, bytes, grad, doc) grad_##grad,
#include "gen/graph/ops.def"
#undef OP
};

/* Returns the name of a stage up to its first comma, that is, without ", backward". */
static char *stage_name(const char *stage)
{
    return text_print("%.*s", (int)strcspn(stage, ","), stage);
}

void gradient_walk(Build *b, int first, int last)
{
    for (int i = first; i < last; i++)
        for (int j = 0; j < b->p->ops[i].nin; j++)
            if (b->p->ops[i].in[j].v->kind == VK_TEMP || b->p->ops[i].in[j].v->kind == VK_INPUT)
                entry_of(b->p->ops[i].in[j])->uses++;
    for (int i = last - 1; i >= first; i--) {
        Op fwd = b->p->ops[i];
        if (i == tape.skip || (i > first && b->p->ops[i - 1].kind == OP_lora_fold))
            continue;        /* differentiated together with its adapters */
        b->loc = fwd.loc;
        b->stage = fwd.stage ? text_print("%s, backward", stage_name(fwd.stage)) : NULL;
        if (b->jvp)
            add_jvp(b, &fwd);
        rule[fwd.kind](b, &fwd, i);
    }
}
