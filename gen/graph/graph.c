/* graph.c -- all programs of a recipe: those that run at start, and those of its objective.
 *
 * In:    Config.
 * Out:   values and programs of ops, verified by check_graph().
 * Keeps: constant shapes and dtypes; a temporary is defined once, before its uses; every trained
 *        parameter has one gradient and one update; equal layers form one repeat region.
 * Method: the objective's file combines the parts of programs.c. */
#include "gen/graph/graph.h"
#include "gen/graph/nf4.h"

#include <inttypes.h>
#include <string.h>

/* ---- programs -------------------------------------------------------------------------------- */

static void make_rope(Build *b)
{
    Config *c = b->c;
    b->loc = config_loc(c, F_model_rope_theta);
    bool layered = b->family->layered;
    Dim T = layered ? dim(2 * b->in.T, "2*T") : dim(b->in.T, "T"),
        half = dim(b->model.D / 2, "D/2");
    b->model.cos = build_persistent(b, "rope.cos", PU_activations, DT_F32, 2, T, half);
    b->model.sin = build_persistent(b, "rope.sin", PU_activations, DT_F32, 2, T, half);
    b->p = ir_program(b->g, "init", ROLE_tables, "once at the start: tables that the layers read");
    Op *op = build_op(b, OP_rope_table);
    op_out(op, ref(b->model.cos)), op_out(op, ref(b->model.sin));
    if (layered)
        op_int(op, "rows", b->in.T),
            op_float(op, "local", config_float(c, F_model_rope_local_theta));
    op_float(op, "theta", config_float(c, F_model_rope_theta));
    if (!layered && !config_is(c, F_model_rope_scaling, "none"))
        op_float(op, "factor", config_float(c, F_model_rope_factor));
    if (!layered && config_is(c, F_model_rope_scaling, "llama3")) {
        op_float(op, "low", config_float(c, F_model_rope_low_freq_factor));
        op_float(op, "high", config_float(c, F_model_rope_high_freq_factor));
        op_int(op, "original", config_int(c, F_model_rope_original_positions));
    }
    schedule_alone(b, "what the other programs look up", NULL);
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
        if (op->out[i].v->kind != VK_TEMP || op->out[i].v->purpose == PU_gradients ||
            is_used(g, op->out[i].v))
            return false;
    return true;
}

/* Removes ops whose results are not read, and values without uses. */
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
    ir_index(g);
}

/* An array with a tensor per layer needs only one slot if all uses are in one region: no block
 * writes element l + 1 before its last use of element l, which check_plan() verifies. */
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

/* Checks that the adapters that the recipe folds into weights can be folded. */
static void check_fold(const Build *b)
{
    bool folded = !config_is(b->c, F_lora_fold, "all");
    for (int i = 0; i < b->g->nprograms; i++)
        for (int k = 0; k < b->g->programs[i]->nops; k++) {
            const int kind = b->g->programs[i]->ops[k].kind;
            folded |= kind == OP_lora_fold || kind == OP_lora_dy;
        }
    if (!folded)
        err(config_loc(b->c, F_lora_fold),
            "lora.fold: \"all\" needs adapters on a layer after a norm, or of rank 8, 16, 24 or 32 "
            "in 16 bit; leave it out");
}

/* Checks that an embedding in the host's memory is frozen, and that ops read only rows of it. */
static void check_pinned(const Graph *g, Config *c)
{
    for (int i = 0; i < g->nvalues; i++)
        if (g->values[i]->pinned && g->values[i]->trained)
            err(config_loc(c, F_memory_embedding), "memory.embedding: \"host\" needs a frozen "
                "embedding, but %s trains it; leave it out",
                config_int(c, F_lora_rank) ? "lora.modules_to_save" : "this recipe");
    for (int i = 0; i < g->nprograms; i++)
        for (int k = 0; k < g->programs[i]->nops; k++)
            for (int j = 0; j < g->programs[i]->ops[k].nin; j++)
                if (g->programs[i]->ops[k].in[j].v->pinned &&
                    g->programs[i]->ops[k].kind != OP_embed)
                    err(config_loc(c, F_memory_embedding), "memory.embedding: \"host\" needs an "
                        "embedding of which only rows are read, but the head is the same matrix "
                        "(model.tied); leave it out");
}

Graph *graph_of(Config *c, void (*objective)(Build *b))
{
    Graph *g = arena_new(sizeof *g);
    g->room = "graph";
    g->objective = config_text(c, F_objective);
    g->family = config_text(c, F_model_family);
    g->target = target_find(config_text(c, F_target));
    g->ranks = config_int(c, F_gpus);
    Build b = {.g = g, .c = c, .mode = MODE_TRAIN, .in.mask = MASK_CAUSAL,
               .added.targets = config_int(c, F_batch_targets)};
    b.set = &b.added.sets[b.added.nsets++];
    family_shapes(&b);
    if (b.family->rotary)
        make_rope(&b);
    b.loc = config_loc(c, F_batch_micro);
    objective(&b);
    check_fold(&b);
    check_kept(&b);
    check_pinned(g, c);
    remove_dead(g);
    update_in_backward(&b);
    set_slots(g);
    check_moments(&b);
    check_overlap(&b);
    divide_states(&b);
    fold_gradients(&b);
    schedule_betas(g);
    sizes_make(&b);
    settings_make(g, c);
    return g;
}

Graph *graph_build(Config *c)
{
    Graph *g = graph_of(c, objective_parts(config_text(c, F_objective))->build);
    config_all_read(c);
    return g;
}

/* ---- the contract ---------------------------------------------------------------------------- */

static int count_updates(const Graph *g, const Value *param, const Value *gradient)
{
    int n = 0;
    for (int i = 0; i < g->nprograms; i++)
        for (int j = 0; j < g->programs[i]->nops; j++) {
            const Op *op = &g->programs[i]->ops[j];
            if (!op_is_update(op->kind) || op->out[0].v != param)
                continue;
            if (op->in[0].v != gradient)
                bug("%s is updated by %s", param->name, op->in[0].v->name);
            n++;
        }
    return n;
}

/* Checks that each temporary is written before it is read; an element [l+1] may come from the last
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

/* First and last element that an output writes over all turns. */
static void elements_of(const Program *p, const Op *op, Ref r, int64_t *first, int64_t *last)
{
    *first = r.index == IX_NONE ? 0 : r.k;
    *last = r.index == IX_LOOP ? r.k + p->region[op->region].count.n - 1 : *first;
}

/* Checks that no element of a temporary is written by two ops. Collectives, which part.c adds, do
 * not count: they move it, and those of a weight gather it for several loops. */
static void check_once(const Graph *g, const Value *v)
{
    int64_t first[8], last[8];
    int n = 0;
    bool defined = false;
    for (int i = 0; i < g->nprograms; i++)
        for (int j = 0; j < g->programs[i]->nops; j++)
            for (int k = 0; k < g->programs[i]->ops[j].nout; k++) {
                const Op *op = &g->programs[i]->ops[j];
                defined |= op->out[k].v == v;
                if (op->out[k].v != v || op_is_collective(op->kind))
                    continue;
                elements_of(g->programs[i], op, op->out[k], &first[n], &last[n]);
                for (int m = 0; m < n; m++)
                    if (first[m] <= last[n] && first[n] <= last[m])
                        bug("%s is defined twice", v->name);
                if (++n == 8)
                    bug("%s is defined in parts", v->name);
            }
    if (!defined)
        bug("%s is never defined", v->name);
}

/* Loss scale that the update of this gradient divides by; NULL: none. */
static const Value *scaler_undone(const Graph *g, const Value *gradient)
{
    for (int i = 0; i < g->nprograms; i++)
        for (int j = 0; j < g->programs[i]->nops; j++) {
            const Op *op = &g->programs[i]->ops[j];
            if (op->kind == OP_scaler_update && value_same_set(op->out[1].v, gradient))
                return op->out[1].v;
        }
    return NULL;
}

/* Checks that norms and updates stay within one parameter group and that gradients have their own
 * group's loss scale. */
static void check_sets(const Graph *g, const Program *p)
{
    const Value *scaler = NULL;
    for (int i = 0; i < p->nops; i++) {
        const Op *op = &p->ops[i];
        bool one = op->kind == OP_grad_norm || op->kind == OP_grad_squares ||
                   op->kind == OP_squares_norm || op->kind == OP_partial_norm ||
                   op->kind == OP_squares_root || op->kind == OP_scaler_update ||
                   op_is_update(op->kind);
        const Value *first = op->nin ? op->in[0].v : op->out[0].v;
        if (op->kind == OP_scale_loss)
            scaler = op->in[1].v;
        for (int k = 0; k < op->nin + op->nout; k++) {
            const Value *v = k < op->nin ? op->in[k].v : op->out[k - op->nin].v;
            if (one && !value_same_set(v, first))
                bug("%s in %s: %s is in the group %s, %s in %s", op_row[op->kind].name, p->name,
                    first->name, value_set(first), v->name, value_set(v));
            if (k >= op->nin && op_attr(op, "beta") && value_is_gradient(v) &&
                scaler_undone(g, v) != scaler)
                bug("%s writes %s of the group %s, but not with its loss scale", p->name, v->name,
                    value_set(v));
        }
    }
}

/* Checks that a trained parameter has a gradient that is written, is part of its group's norm and
 * updates it once. */
static void check_gradient(const Graph *g, const Value *param)
{
    const Value *grad = ir_value(g, text_print("grad.%s", param->name));
    if (!grad)
        bug("%s has no gradient", param->name);
    if (!value_same_set(param, grad))
        bug("%s is in the group %s, but %s in %s", param->name, value_set(param), grad->name,
            value_set(grad));
    if (count_updates(g, param, grad) != 1)
        bug("%s is updated %d times", param->name, count_updates(g, param, grad));
    bool normed = false, written = false;
    for (int i = 0; i < g->nprograms; i++)
        for (int j = 0; j < g->programs[i]->nops; j++) {
            const Op *op = &g->programs[i]->ops[j];
            for (int k = 0; k < op->nin; k++)
                normed |= (op->kind == OP_grad_norm || op->kind == OP_grad_squares ||
                           op->kind == OP_partial_norm) &&
                          op->in[k].v == grad;
            for (int k = 0; k < op->nout; k++)
                written |= op_attr(op, "beta") && op->out[k].v == grad;
        }
    if (!written)
        bug("%s is never written", grad->name);
    if (!normed)
        bug("%s is not in the norm", grad->name);
}

void check_graph(const Graph *g)
{
    check_ops(g);
    for (int i = 0; i < g->nprograms; i++) {
        check_order(g->programs[i]);
        check_sets(g, g->programs[i]);
    }
    check_schedules(g);
    check_sizes(g);
    nf4_check(g);
    for (int i = 0; i < g->nvalues; i++) {
        const Value *v = g->values[i];
        if (value_elements(v) <= 0)
            bug("%s has no elements", v->name);
        if (v->kind == VK_TEMP && v->purpose != PU_workspace && v->purpose != PU_gradients)
            check_once(g, v);
        if (v->kind != VK_PARAM)
            continue;
        if (v->not_in_model && (v->dtype != DT_F32 || v->adapter))
            bug("%s is outside the model: it must be fp32 and have no adapter", v->name);
        if (v->trained)
            check_gradient(g, v);
        else if (count_updates(g, v, NULL))
            bug("%s is frozen, but updated", v->name);
        int64_t rows = 0;
        for (int j = 0; j < v->npieces; rows += v->piece[j++].rows)
            if (v->piece[j].row0 != rows ||
                (v->rank == 2 && v->piece[j].cols > v->dim[1].n * (value_is_nf4(v) ? 2 : 1)))
                bug("tensors of %s are not contiguous", v->name);
        if (rows != v->dim[0].n)
            bug("tensors of %s have %" PRId64 " of %" PRId64 " rows", v->name, rows, v->dim[0].n);
    }
}
