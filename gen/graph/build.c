/* build.c -- values and ops at the current position of a Build.
 *
 * Keeps: inside a region, a temporary is an array with one element per layer. */
#include "gen/graph/graph.h"

#include <inttypes.h>
#include <string.h>

bool build_in_block(const Build *b) { return b->region || b->last.at; }

Dim dim(int64_t n, const char *sym) { return (Dim){n, sym}; }

Dim dim_batch(const Build *b) { return dim(b->in.B, b->in.batch ? b->in.batch : "B"); }
Dim dim_hidden(const Build *b) { return dim(b->model.C, "C"); }
Dim dim_positions(const Build *b) { return dim(b->in.T, b->in.length ? b->in.length : "T"); }

Ref build_temp(Build *b, const char *name, Dtype dt, int rank, const Dim *d)
{
    static const char *const prefix[] = {"b.", "r.", "e.", "s.", "d."};
    const char *p = b->mode != MODE_TRAIN || b->region ? prefix[b->mode] : "",
               *pass = b->pass_prefix ? b->pass_prefix : b->program_prefix ? b->program_prefix : "",
               *last = b->last.at ? "last." : "";
    Value *v =
        ir_new(b->g, VK_TEMP, PU_activations, dt,
               text_print("%s%s%s%s%s", p, pass, b->stack.name, last, name), rank, d, b->loc);
    if (!b->region)
        return ref(v);
    v->count = b->p->region[b->region].count.n;
    return ref_loop(v, 0);
}

Ref build_rows(Build *b, Ref y, Rows rows)
{
    Dim d[2] = {rows.at->dim[0], y.v->dim[y.v->rank - 1]};
    if (rows.at->rank != 1)
        bug("%s: must be a list of positions", rows.at->name);
    Ref z = build_temp(b, text_print("%s.%s", family_leaf(y.v->name), rows.name), b->model.act, 2,
                       d);
    Op *op = build_op(b, OP_gather);
    op_in(op, y), op_in(op, build_input(b, rows.at));
    if (rows.inverse)
        op_in(op, build_input(b, rows.inverse));
    op_out(op, z);
    return z;
}

Ref build_use(const Build *b, Value *v)
{
    return !v->count ? ref(v) : b->region ? ref_loop(v, 0) : ref_at(v, v->count - 1);
}

Ref build_like(Build *b, const char *name, Ref x, Dim width)
{
    Dim d[5];
    memcpy(d, x.v->dim, sizeof d);
    d[x.v->rank - 1] = width;
    return build_temp(b, name, b->model.act, x.v->rank, d);
}

Op *build_op(Build *b, int kind)
{
    Op *op = ir_op(b->p, kind, b->region, b->loc);
    op->stage = b->stage;
    return op;
}

const char *set_word(const Build *b, const char *name)
{
    return b->set->name ? text_print("%s.%s", name, b->set->name) : name;
}

Value *build_state_as(Build *b, const char *prefix, const Value *param, Purpose purpose,
                      Dtype dtype)
{
    const char *name = text_print("%s.%s", prefix, param->name);
    Value *v = ir_value(b->g, name);
    if (!v) {
        v = ir_new(b->g, VK_STATE, purpose, dtype, name, param->rank, param->dim, param->loc);
        v->count = param->count;
        v->slots = param->slots;
        v->of = param->name;
        v->set = param->set;
    }
    return v;
}

Value *build_state(Build *b, const char *prefix, const Value *param, Purpose purpose)
{
    return build_state_as(b, prefix, param, purpose, DT_F32);
}

Value *build_start(Build *b, const Value *param)
{
    return build_state_as(b, "start", param, PU_weights, param->dtype);
}

Ref build_input(const Build *b, Value *v)
{
    if (!v->count)
        return ref(v);
    return b->mode <= MODE_AGAIN ? ref_micro(v) : ref_at(v, 0);
}

void build_unused(Build *b, int field, bool used, const char *why)
{
    if (b->c->v[field].set && !used)
        err(config_loc(b->c, field), "%s: %s; leave it out", field_row[field].path, why);
}

const Size *size_find(const Build *b, const char *sym)
{
    for (int i = 0; i < b->added.nsizes; i++)
        if (!strcmp(b->added.size[i].name, sym))
            return &b->added.size[i];
    return NULL;
}

Dim size_add(Build *b, const char *sym, int64_t n, const char *about)
{
    const Size *size = size_find(b, sym);
    if (size && size->n != n)
        bug("%s is %" PRId64 " and %" PRId64, sym, size->n, n);
    if (!size && b->added.nsizes == (int)(sizeof b->added.size / sizeof b->added.size[0]))
        bug("too many sizes");
    if (!size)
        b->added.size[b->added.nsizes++] = (Size){sym, n, about};
    return dim(n, sym);
}

Value *build_sum(Build *b, const char *name, int64_t n)
{
    if (b->added.nsums == (int)(sizeof b->added.sum / sizeof b->added.sum[0]))
        bug("too many sums");
    Dim d = dim(1, "1");
    if (n > 1)
        d = size_add(b, text_capitals(name), n, text_print("elements of %s", name));
    return b->added.sum[b->added.nsums++] = build_of_micro(b, name, d);
}

Value *build_of_micro(Build *b, const char *name, Dim d)
{
    Value *v = build_persistent(b, name, PU_activations, DT_F64, 1, d, dim(0, ""));
    const int64_t accum = config_int(b->c, F_batch_accum);
    if (accum > 1)
        v->count = v->slots = accum;
    return v;
}

Value *build_extra_param(Build *b, const char *name, Dim d0, Dim d1, const char *init, double bound)
{
    Dim d[2] = {d0, d1};
    Value *v = ir_new(b->g, VK_PARAM, PU_weights, DT_F32, name, d1.n ? 2 : 1, d, b->loc);
    v->set = b->set->name;
    v->slots = 1;
    v->trained = v->decay = v->not_in_model = true;
    v->init = init;
    v->std = bound;
    v->npieces = 1;
    v->piece = arena_new(sizeof(Piece));
    v->piece[0] = (Piece){v->name, 0, d0.n, 0, false};
    return v;
}

Value *build_persistent(Build *b, const char *name, Purpose purpose, Dtype dt, int rank, Dim d0,
                        Dim d1)
{
    Dim d[2] = {d0, d1};
    return ir_new(b->g, VK_STATE, purpose, dt, name, rank, d, b->loc);
}
