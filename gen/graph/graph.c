/* graph.c -- the programs of a recipe: before training, and the parts that objectives share.
 *
 * In:    Config.   Out: values and programs of ops.   Verified by check_graph().
 * Keeps: constant shapes and dtypes; a temporary is defined once and before its uses; every trained
 *        parameter has one gradient and one update; equal layers are one repeat region.
 * Method: families.c writes a forward pass, gradient.c its backward pass; the objective's file puts
 *         them together. */
#include "gen/graph/graph.h"

#include <inttypes.h>
#include <string.h>

/* ---- values ---------------------------------------------------------------------------------- */

Ref build_temp(Build *b, const char *name, Dtype dt, int rank, const Dim *d)
{
    static const char *const prefix[] = {"b.", "r.", "e.", "d."};
    const char *p = b->mode != MODE_TRAIN || b->region ? prefix[b->mode] : "";
    Value *v =
        ir_new(b->g, VK_TEMP, PU_activations, dt, text_print("%s%s", p, name), rank, d, b->loc);
    if (!b->region)
        return ref(v);
    v->count = b->L;
    return ref_loop(v, 0);
}

Op *build_op(Build *b, int kind) { return ir_op(b->p, kind, b->region, b->loc); }

Value *build_state(Build *b, const char *prefix, const Value *param, Purpose purpose)
{
    const char *name = text_print("%s.%s", prefix, param->name);
    Value *v = ir_value(b->g, name);
    if (!v) {
        v = ir_new(b->g, VK_STATE, purpose, DT_F32, name, param->rank, param->dim, param->loc);
        v->count = param->count;
        v->slots = param->slots;
        v->of = param->name;
    }
    return v;
}

Value *build_step_input(Build *b, const char *name, Dtype dt, int rank, Dim d0, Dim d1)
{
    Dim d[2] = {d0, d1};
    Value *v = ir_new(b->g, VK_INPUT, PU_inputs, dt, name, rank, d, b->loc);
    v->place = PL_REP;
    return v;
}

Value *build_micro_input(Build *b, const char *name, Dtype dt, int rank, Dim d0, Dim d1)
{
    Value *v = build_step_input(b, name, dt, rank, d0, d1);
    int64_t accum = config_int(b->c, F_batch_accum);
    if (accum > 1)
        v->count = v->slots = accum;
    if (b->g->ranks > 1)
        v->place = PL_SHARD;         /* each rank has its own samples */
    return v;
}

Ref build_input(const Build *b, Value *v)
{
    if (!v->count)
        return ref(v);
    return b->mode <= MODE_AGAIN ? ref_micro(v) : ref_at(v, 0);
}

Value *build_kept(Build *b, const char *name, Purpose purpose, Dtype dt, int rank, Dim d0, Dim d1)
{
    Dim d[2] = {d0, d1};
    return ir_new(b->g, VK_STATE, purpose, dt, name, rank, d, b->loc);
}

/* The residual stream of a pass, one element a layer boundary: x[0] .. x[L]. */
static Value *stream(Build *b, const char *name)
{
    Dim d[3] = {dim(b->B, "B"), dim(b->T, "T"), dim(b->C, "C")};
    if (b->mode == MODE_DECODE)
        d[0] = d[1] = dim(1, "1");
    Value *v = ir_new(b->g, VK_TEMP, PU_activations, b->act, name, 3, d, b->loc);
    v->count = b->L + 1;
    return v;
}

/* ---- programs -------------------------------------------------------------------------------- */

static void make_rope(Build *b)
{
    Config *c = b->c;
    const char *scaling = config_text(c, F_model_rope_scaling);
    b->loc = config_loc(c, F_model_rope_theta);
    Dim T = dim(b->T, "T"), half = dim(b->D / 2, "D/2");
    b->cos = build_kept(b, "rope.cos", PU_activations, DT_F32, 2, T, half);
    b->sin = build_kept(b, "rope.sin", PU_activations, DT_F32, 2, T, half);
    b->p = ir_program(b->g, "init", "once at start: tables that the layers read");
    bool llama3 = !strcmp(scaling, "llama3");
    Op *op = build_op(b, llama3 ? OP_rope_table_llama3 : OP_rope_table);
    op_out(op, ref(b->cos)), op_out(op, ref(b->sin));
    op_float(op, "theta", config_float(c, F_model_rope_theta));
    if (llama3) {
        op_float(op, "factor", config_float(c, F_model_rope_factor));
        op_float(op, "low", config_float(c, F_model_rope_low_freq_factor));
        op_float(op, "high", config_float(c, F_model_rope_high_freq_factor));
        op_int(op, "original", config_int(c, F_model_rope_original_positions));
    }
}

/* ---- what objectives build of ---------------------------------------------------------------- */

void loss_inputs(Build *b)
{
    Dim one = dim(1, "1"), none = dim(0, "");
    b->scale = build_step_input(b, "scale", DT_F32, 1, one, none);
    b->noise = build_micro_input(b, "noise", DT_U32, 1, dim(4, "4"), none);
    if (b->act == DT_F16)
        b->scaler = build_kept(b, "scaler", PU_optimiser, DT_F32, 1, dim(2, "2"), none);
    build_kept(b, "loss", PU_activations, DT_F64, 1, one, none);
}

Ref loss_rows(Build *b, Ref y) { return build_temp(b, "losses", DT_F32, y.v->rank - 1, y.v->dim); }

void loss_sum(Build *b, Ref losses)
{
    Op *op = build_op(b, OP_loss_sum);
    op_in(op, losses);
    op_out(op, ref(ir_value(b->g, "loss")));
}

Ref loss_scale(Build *b)
{
    if (b->act != DT_F16)
        return ref(b->scale);
    Dim one = dim(1, "1");
    Ref scaled = build_temp(b, "scaled", DT_F32, 1, &one);
    Op *op = build_op(b, OP_scale_loss);
    op_in(op, ref(b->scale)), op_in(op, ref(b->scaler));
    op_out(op, scaled);
    return scaled;
}

Pass pass_only(Build *b, const char *name) { return (Pass){.x = stream(b, name)}; }

Pass pass_trained(Build *b) { return (Pass){.x = stream(b, "x"), .dx = stream(b, "dx")}; }

Ref pass_forward(Build *b, Pass *p)
{
    b->x = ref_at(p->x, 0);
    family_embed(b);
    b->region = ir_region(b->p, b->L, false);
    b->x = ref_loop(p->x, 0);
    family_block(b);
    b->region = 0;
    b->x = ref_at(p->x, b->L);
    p->first = b->block_first, p->last = b->block_last;
    return family_norm(b);
}

void pass_backward(Build *b, const Pass *p, int end)
{
    gradient_walk(b, p->last, end);
    int first = p->first, last = p->last;
    Ref out = ref_loop(p->x, 1);
    b->region = ir_region(b->p, b->L, true);
    if (!strcmp(config_text(b->c, F_memory_recompute), "block")) {
        b->mode = MODE_AGAIN;
        b->x = ref_loop(p->x, 0);
        family_block(b);
        first = b->block_first, last = b->block_last;
        out = b->x;          /* x[l+1] is there already: the sum that makes it is dead */
        b->mode = MODE_TRAIN;
    }
    gradient_set(out, ref_loop(p->dx, 1));
    gradient_walk(b, first, last);
    b->region = 0;
    gradient_set(ref_at(p->x, 0), ref_at(p->dx, 0));
    gradient_walk(b, 0, p->first);
}

void program_micro(Build *b)
{
    b->mode = MODE_TRAIN;
    bool adds = config_int(b->c, F_batch_accum) > 1;
    b->p = ir_program(
        b->g, "micro",
        adds ? "forward and backward of a micro-batch; adds to the gradients and to the loss"
             : "forward and backward; sets the gradients, adds to the loss");
    gradient_start(b);
}

void program_begin(Build *b)
{
    if (config_int(b->c, F_batch_accum) == 1)
        return;
    b->p = ir_program(b->g, "begin",
                      "start of a step: gradients that micro-batches add to are cleared");
    b->loc = config_loc(b->c, F_batch_accum);
    Op *op = build_op(b, OP_zero);
    for (int i = 0; i < b->g->nvalues; i++)
        if (value_is_gradient(b->g->values[i]))
            op_out(op, ref(b->g->values[i]));
}

void program_reduce(Build *b)
{
    b->p = ir_program(b->g, "reduce", "after the last micro-batch: the norm of the whole gradient");
    b->loc = config_loc(b->c, F_optim_decay_rule);
    Value *norm = build_kept(b, "total_norm", PU_optimiser, DT_F32, 1, dim(1, "1"), dim(0, ""));
    Op *op = build_op(b, OP_grad_norm);
    for (int i = 0; i < b->g->nvalues; i++)
        if (value_is_gradient(b->g->values[i]))
            op_in(op, ref(b->g->values[i]));
    op_out(op, ref(norm));
    b->hyper = build_step_input(b, "hyper", DT_F32, 1, b->act == DT_F16 ? dim(9, "9") : dim(8, "8"),
                     dim(0, ""));
    if (b->act == DT_F16) {
        op = build_op(b, OP_scaler_update);
        op_out(op, ref(norm)), op_out(op, ref(b->scaler)), op_out(op, ref(b->hyper));
    }
}

void program_update(Build *b)
{
    b->p = ir_program(b->g, "update", "clip and AdamW, one call a parameter");
    b->loc = config_loc(b->c, F_optim_decay_rule);
    Value *hyper = b->hyper, *norm = ir_value(b->g, "total_norm");
    int n = b->g->nvalues;
    for (int i = 0; i < n; i++) {
        Value *w = b->g->values[i];
        if (w->kind != VK_PARAM || !w->trained)
            continue;
        bool mixed = w->dtype != DT_F32;
        Value *master = mixed ? build_state(b, "master", w, PU_optimiser) : NULL;
        Value *m = build_state(b, "m", w, PU_optimiser), *v = build_state(b, "v", w, PU_optimiser);
        Op *op = build_op(b, mixed ? OP_adamw_mixed : OP_adamw);
        op_in(op, ref(gradient_of(b, w))), op_in(op, ref(hyper)), op_in(op, ref(norm));
        op_out(op, ref(w));
        if (mixed)
            op_out(op, ref(master));
        op_out(op, ref(m)), op_out(op, ref(v));
        op_int(op, "decay", w->decay);
    }
}

/* ---- after building -------------------------------------------------------------------------- */

static bool is_used(const Graph *g, const Value *v)
{
    for (int i = 0; i < g->nprograms; i++)
        for (int j = 0; j < g->programs[i]->nops; j++)
            for (int k = 0; k < g->programs[i]->ops[j].nin; k++)
                if (g->programs[i]->ops[j].in[k].v == v)
                    return true;
    return false;
}

static bool is_dead(const Graph *g, const Op *op)
{
    for (int i = 0; i < op->nout; i++)
        if (op->out[i].v->kind != VK_TEMP || is_used(g, op->out[i].v))
            return false;
    return true;
}

/* Ops whose results nobody reads go, and the values that nobody names any more. */
static void remove_dead(Graph *g)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (int i = 0; i < g->nprograms; i++) {
            Program *p = g->programs[i];
            for (int j = p->nops - 1; j >= 0; j--)
                if (is_dead(g, &p->ops[j])) {
                    memmove(&p->ops[j], &p->ops[j + 1], sizeof(Op) * (size_t)(p->nops - j - 1));
                    p->nops--;
                    changed = true;
                }
        }
    }
    int kept = 0;
    for (int i = 0; i < g->nvalues; i++) {
        Value *v = g->values[i];
        bool named = is_used(g, v);
        for (int j = 0; j < g->nprograms && !named; j++)
            for (int k = 0; k < g->programs[j]->nops && !named; k++)
                for (int o = 0; o < g->programs[j]->ops[k].nout; o++)
                    named |= g->programs[j]->ops[k].out[o].v == v;
        if (named || v->kind == VK_PARAM)
            g->values[kept++] = v;
    }
    g->nvalues = kept;
}

/* An array of one tensor a layer needs one slot when all of its uses are in one region: no block
 * writes element l + 1 before its last use of element l, or check_plan refuses. */
static void set_slots(Graph *g)
{
    for (int i = 0; i < g->nvalues; i++) {
        Value *v = g->values[i];
        if (v->kind != VK_TEMP || !v->count)
            continue;
        int region = 0, regions = 0;
        for (int j = 0; j < g->nprograms; j++)
            for (int k = 0; k < g->programs[j]->nops; k++) {
                const Op *op = &g->programs[j]->ops[k];
                for (int n = 0; n < op->nin + op->nout; n++)
                    if ((n < op->nin ? op->in[n] : op->out[n - op->nin]).v == v && op->region &&
                        op->region != region) {
                        region = op->region;
                        regions++;
                    }
            }
        v->slots = regions > 1 ? v->count : 1;
    }
}

/* What the recipe wants folded can be. */
static void check_fold(const Build *b)
{
    bool folded = strcmp(config_text(b->c, F_lora_fold), "all") != 0;
    for (int i = 0; i < b->g->nprograms; i++)
        for (int k = 0; k < b->g->programs[i]->nops; k++) {
            int kind = b->g->programs[i]->ops[k].kind;
            folded |= kind == OP_lora_fold || kind == OP_lora_fold_dropout;
        }
    if (!folded)
        err(config_loc(b->c, F_lora_fold),
            "lora.fold: \"all\" wants adapters of a layer behind a norm, lora.targets names none; "
            "leave it out");
}

/* What an objective's file builds its programs with. */
static void (*builder_of(const char *name))(Build *b)
{
    static const struct {
        const char *name;
        void (*build)(Build *b);
    } objectives[] = {
#define OBJECTIVE(name, about) {#name, name##_build},
#include "gen/config/objectives.def"
#undef OBJECTIVE
    };
    for (size_t i = 0; i < sizeof objectives / sizeof objectives[0]; i++)
        if (!strcmp(objectives[i].name, name))
            return objectives[i].build;
    bug("no objective %s", name);
}

Graph *graph_build(Config *c)
{
    Graph *g = arena_new(sizeof *g);
    g->cfg = c;
    g->room = "graph";
    g->objective = config_text(c, F_objective);
    g->family = config_text(c, F_model_family);
    g->target = target_find(config_text(c, F_target));
    g->ranks = config_int(c, F_gpus);
    Build b = {.g = g, .c = c, .mode = MODE_TRAIN};
    family_shapes(&b);
    if (!b.family->positions)
        make_rope(&b);
    b.loc = config_loc(c, F_batch_micro);
    builder_of(g->objective)(&b);
    check_fold(&b);
    remove_dead(g);
    set_slots(g);
    return g;
}

/* ---- the contract ---------------------------------------------------------------------------- */

static int count_updates(const Graph *g, const Value *param, const Value *gradient)
{
    int n = 0;
    for (int i = 0; i < g->nprograms; i++)
        for (int j = 0; j < g->programs[i]->nops; j++) {
            const Op *op = &g->programs[i]->ops[j];
            if ((op->kind != OP_adamw && op->kind != OP_adamw_mixed) || op->out[0].v != param)
                continue;
            if (op->in[0].v != gradient)
                bug("%s is updated by %s", param->name, op->in[0].v->name);
            n++;
        }
    return n;
}

static void check_op(const Program *p, const Op *op)
{
    const OpRow *row = &op_row[op->kind];
    if ((row->nin >= 0 && row->nin != op->nin) || (row->nout >= 0 && row->nout != op->nout))
        bug("%s in %s: %d operands in, %d out", row->name, p->name, op->nin, op->nout);
    if (op->region < 0 || op->region > p->nregions)
        bug("%s in %s: no region %d", row->name, p->name, op->region);
    for (int i = 0; i < op->nin + op->nout; i++) {
        Ref r = i < op->nin ? op->in[i] : op->out[i - op->nin];
        if (r.index == IX_LOOP && !op->region)
            bug("%s in %s: %s[l] outside a region", row->name, p->name, r.v->name);
        int64_t last = r.index == IX_LOOP ? p->region[op->region].count - 1 + r.k : r.k;
        if (r.index != IX_NONE && (r.k < 0 || last >= r.v->count))
            bug("%s in %s: index of %s beyond its %" PRId64 " elements", row->name, p->name,
                r.v->name, r.v->count);
    }
}

/* Each temporary is written before it is read; an array element [l+1] may come from the last
 * turn. */
static void check_order(const Program *p)
{
    for (int i = 0; i < p->nops; i++)
        for (int k = 0; k < p->ops[i].nin; k++) {
            const Value *v = p->ops[i].in[k].v;
            bool defined = v->kind != VK_TEMP;
            for (int j = 0; j < i && !defined; j++)
                for (int o = 0; o < p->ops[j].nout; o++)
                    defined |= p->ops[j].out[o].v == v;
            if (!defined)
                bug("%s in %s reads %s before it is written", op_row[p->ops[i].kind].name, p->name,
                    v->name);
        }
}

/* Elements of its value that an output means over all turns: first to last. */
static void elements_of(const Program *p, const Op *op, Ref r, int64_t *first, int64_t *last)
{
    *first = r.index == IX_NONE ? 0 : r.k;
    *last = r.index == IX_LOOP ? r.k + p->region[op->region].count - 1 : *first;
}

/* No element of a temporary is written by two ops. */
static void check_once(const Graph *g, const Value *v)
{
    int64_t first[8], last[8];
    int n = 0;
    for (int i = 0; i < g->nprograms; i++)
        for (int j = 0; j < g->programs[i]->nops; j++)
            for (int k = 0; k < g->programs[i]->ops[j].nout; k++) {
                const Op *op = &g->programs[i]->ops[j];
                if (op->out[k].v != v)
                    continue;
                elements_of(g->programs[i], op, op->out[k], &first[n], &last[n]);
                for (int m = 0; m < n; m++)
                    if (first[m] <= last[n] && first[n] <= last[m])
                        bug("%s is defined twice", v->name);
                if (++n == 8)
                    bug("%s is defined in parts", v->name);
            }
    if (!n)
        bug("%s is never defined", v->name);
}

/* The first write of a step overwrites, those behind it add; after a program that clears gradients
 * all of them add. */
static void check_gradient(const Graph *g, const Value *param)
{
    const Value *grad = ir_value(g, text_print("grad.%s", param->name));
    if (!grad)
        bug("%s has no gradient", param->name);
    if (count_updates(g, param, grad) != 1)
        bug("%s is updated %d times", param->name, count_updates(g, param, grad));
    bool clears = false, cleared = false, normed = false;
    int writes = 0;
    for (int i = 0; i < g->nprograms; i++)
        for (int j = 0; j < g->programs[i]->nops; j++) {
            const Op *op = &g->programs[i]->ops[j];
            clears |= op->kind == OP_zero;
            for (int k = 0; k < op->nout; k++)
                cleared |= op->kind == OP_zero && op->out[k].v == grad;
            for (int k = 0; k < op->nin; k++)
                normed |= op->kind == OP_grad_norm && op->in[k].v == grad;
        }
    for (int i = 0; i < g->nprograms; i++)
        for (int j = 0; j < g->programs[i]->nops; j++)
            for (int k = 0; k < g->programs[i]->ops[j].nout; k++) {
                const Op *op = &g->programs[i]->ops[j];
                const Attr *beta = op_attr(op, "beta");
                if (op->out[k].v != grad || !beta)
                    continue;
                if (beta->i != (clears || writes > 0))
                    bug("write %d of %s has beta %" PRId64, writes, grad->name, beta->i);
                writes++;
            }
    if (!writes)
        bug("%s is never written", grad->name);
    if (clears != cleared)
        bug("%s is not cleared", grad->name);
    if (!normed)
        bug("%s is not in the norm", grad->name);
}

void check_graph(const Graph *g)
{
    for (int i = 0; i < g->nprograms; i++) {
        for (int j = 0; j < g->programs[i]->nops; j++)
            check_op(g->programs[i], &g->programs[i]->ops[j]);
        check_order(g->programs[i]);
    }
    for (int i = 0; i < g->nvalues; i++) {
        const Value *v = g->values[i];
        if (value_elements(v) <= 0)
            bug("%s has no elements", v->name);
        if (v->kind == VK_TEMP)
            check_once(g, v);
        if (v->kind != VK_PARAM)
            continue;
        if (v->trained)
            check_gradient(g, v);
        else if (count_updates(g, v, NULL))
            bug("%s is frozen, but updated", v->name);
        int64_t rows = 0;
        for (int j = 0; j < v->npieces; rows += v->piece[j++].rows)
            if (v->piece[j].row0 != rows || (v->rank == 2 && v->piece[j].cols > v->dim[1].n))
                bug("tensors of %s do not lie side by side", v->name);
        if (rows != v->dim[0].n)
            bug("tensors of %s have %" PRId64 " of %" PRId64 " rows", v->name, rows, v->dim[0].n);
    }
}
