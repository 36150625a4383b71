/* programs.c -- the parts of programs that objectives share: passes, losses, a step's other programs.
 *
 * In:    a Build at the program to be written.
 * Method: families.c writes a forward pass, gradient.c its backward pass. */
#include "gen/graph/graph.h"

#include <string.h>

/* The residual stream of a pass, one element a layer boundary: x[0] .. x[L]. */
static Value *stream(Build *b, const char *name)
{
    Dim d[3] = {dim(b->B, "B"), dim(b->T, "T"), dim(b->C, "C")};
    if (b->mode == MODE_DECODE)
        d[0] = d[1] = dim(1, "1");
    Value *v = ir_new(b->g, VK_TEMP, PU_activations, b->act, name, 3, d, b->loc);
    v->count = b->stack.layers.n + 1;
    return v;
}

void loss_inputs(Build *b)
{
    Dim one = dim(1, "1"), none = dim(0, "");
    b->scale = input_new(b, "scale");
    b->noise = input_new(b, "noise");
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

Pass pass_only(Build *b, const char *name)
{
    return (Pass){.family = b->family, .stack = b->stack, .x = stream(b, name)};
}

Pass pass_trained(Build *b)
{
    Pass p = pass_only(b, text_print("%sx", b->stack.name));
    p.dx = stream(b, text_print("%sdx", b->stack.name));
    gradient_stream(p.x, p.dx);
    return p;
}

Ref pass_forward(Build *b, Pass *p)
{
    Ref first = ref_at(p->x, 0);
    b->family = p->family;
    b->stack = p->stack;
    p->begin = b->p->nops;
    b->x = p->from.v ? p->from : first;
    family_first(b, first);
    b->region = ir_region(b->p, b->stack.layers, false);
    b->x = ref_loop(p->x, 0);
    family_block(b);
    b->region = 0;
    b->x = ref_at(p->x, b->stack.layers.n);
    p->first = b->block_first, p->last = b->block_last;
    return family_last(b);
}

void pass_backward(Build *b, const Pass *p, int end)
{
    b->family = p->family;
    b->stack = p->stack;
    gradient_walk(b, p->last, end);
    int first = p->first, last = p->last;
    Ref out = ref_loop(p->x, 1);
    b->region = ir_region(b->p, b->stack.layers, true);
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
    gradient_walk(b, p->begin, p->first);
}

void program_micro(Build *b)
{
    b->mode = MODE_TRAIN;
    bool adds = config_int(b->c, F_batch_accum) > 1;
    b->p = ir_program(
        b->g, "micro", ROLE_gradients,
        adds ? "forward and backward of a micro-batch; adds to the gradients and to the loss"
             : "forward and backward; sets the gradients, adds to the loss");
    gradient_start(b);
}

/* Gradients of a layer are summed over ranks while the next runs, where the message is worth it:
 * smaller ones cost more than they hide. */
enum { EARLY_BYTES = 1 << 20 };

static bool sums_early(Build *b, const Value *gradient)
{
    const char *overlap = config_text(b->c, F_comm_overlap);
    if (b->g->ranks == 1 || !gradient->count || strcmp(b->g->target->backend, "cuda") ||
        !strcmp(overlap, "none"))
        return false;
    return !strcmp(overlap, "all") || value_bytes(gradient) >= EARLY_BYTES;
}

/* What decides who is updated together: gradients that are summed early, weights that decay, types. */
static int update_rule(const Graph *g, const Value *gradient)
{
    const Value *w = ir_value(g, gradient->of);
    return 4 * gradient->early + 2 * !w->decay + (w->dtype != DT_F32);
}

/* Gradients of one rule stand side by side, in the order of their parameters: one call updates them.
 * Those that are summed early stand behind the others. */
static void order_gradients(Build *b)
{
    Graph *g = b->g;
    Value **sorted = arena_new(sizeof *sorted * (size_t)g->nvalues);
    int n = 0, next = 0;
    for (int rule = 0; rule < 8; rule++)
        for (int i = 0; i < g->nvalues; i++) {
            Value *gradient = ir_value(g, text_print("grad.%s", g->values[i]->name));
            if (gradient && rule == 0)
                gradient->early = sums_early(b, gradient);
            if (gradient && update_rule(g, gradient) == rule)
                sorted[n++] = gradient;
        }
    for (int i = 0; i < g->nvalues; i++)
        if (value_is_gradient(g->values[i]))
            g->values[i] = sorted[next++];
    if (n != next)
        bug("%d gradients of %d", n, next);
}

static void program_begin(Build *b)
{
    b->p = ir_program(b->g, "begin", ROLE_clear,
                      "start of a step: gradients that micro-batches add to are cleared");
    b->loc = config_loc(b->c, F_batch_accum);
    Op *op = build_op(b, OP_zero);
    for (int i = 0; i < b->g->nvalues; i++)
        if (value_is_gradient(b->g->values[i]))
            op_out(op, ref(b->g->values[i]));
}

static void program_reduce(Build *b)
{
    b->p = ir_program(b->g, "reduce", ROLE_reduce,
                      "after the last micro-batch: the norm of the whole gradient");
    b->loc = config_loc(b->c, F_optim_decay_rule);
    Value *norm = build_kept(b, "total_norm", PU_optimiser, DT_F32, 1, dim(1, "1"), dim(0, ""));
    Op *op = build_op(b, OP_grad_norm);
    for (int i = 0; i < b->g->nvalues; i++)
        if (value_is_gradient(b->g->values[i]))
            op_in(op, ref(b->g->values[i]));
    op_out(op, ref(norm));
    b->hyper = input_new(b, "hyper");
    if (b->act == DT_F16) {
        op = build_op(b, OP_scaler_update);
        op_out(op, ref(norm)), op_out(op, ref(b->scaler)), op_out(op, ref(b->hyper));
    }
}

static void program_update(Build *b)
{
    b->p = ir_program(b->g, "update", ROLE_update, "clip and AdamW, one call for all parameters of a rule");
    b->loc = config_loc(b->c, F_optim_decay_rule);
    Value *hyper = b->hyper, *norm = ir_value(b->g, "total_norm");
    int n = b->g->nvalues;
    for (int i = 0; i < n; i++) {
        if (!value_is_gradient(b->g->values[i]))
            continue;
        Value *w = ir_value(b->g, b->g->values[i]->of);
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

/* ---- schedules ------------------------------------------------------------------------------- */

/* Micro-batches that follow each other add to gradients that were cleared; a single one sets them. */
void schedule_train(Build *b)
{
    Schedule *s = ir_schedule(b->g, "train",
                              "an optimiser step; without effect if its norm is not finite");
    Value *loss = ir_value(b->g, "loss");
    int64_t accum = config_int(b->c, F_batch_accum);
    Program *micro = b->p;
    order_gradients(b);
    b->stage = NULL;
    schedule_clear(s, loss);
    if (accum > 1) {
        program_begin(b);
        schedule_run(s, b->p, 1);
    }
    schedule_run(s, micro, accum);
    program_reduce(b);
    schedule_run(s, b->p, 1);
    program_update(b);
    schedule_run(s, b->p, 1);
    schedule_result(s, loss);
    schedule_result(s, ir_value(b->g, "total_norm"));
    bool graph = config_bool(b->c, F_kernels_graph);
    s->captured = graph && !strcmp(b->g->target->backend, "cuda");
}

void schedule_alone(Build *b, const char *about, const char *result)
{
    Schedule *s = ir_schedule(b->g, b->p->name, about);
    schedule_run(s, b->p, 1);
    if (result)
        schedule_result(s, ir_value(b->g, result));
}

void schedule_loss(Build *b, const char *about)
{
    Schedule *s = ir_schedule(b->g, b->p->name, about);
    Value *loss = ir_value(b->g, "loss");
    schedule_clear(s, loss);
    schedule_run(s, b->p, 1);
    schedule_result(s, loss);
}
