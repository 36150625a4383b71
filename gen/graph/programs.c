/* programs.c -- parts of programs that objectives share: passes, losses, updates.
 *
 * In:    a Build at the program to be written.
 * Method: families.c writes a forward pass, gradient.c its backward pass. */
#include "gen/graph/graph.h"
#include "gen/graph/kernels.h"
#include "gen/graph/layers.h"
#include "runtime/shares.h"

#include <inttypes.h>
#include <string.h>

/* The residual stream of a pass, one element a layer boundary: x[0] .. x[L]. */
static Value *stream(Build *b, const char *name)
{
    Dim d[3] = {dim_batch(b), dim_positions(b), dim_hidden(b)};
    if (b->mode == MODE_DECODE)
        d[0] = b->in.position->dim[0], d[1] = b->in.position->dim[1];
    Value *v = ir_new(b->g, VK_TEMP, PU_activations, b->model.act, name, 3, d, b->loc);
    v->count = b->stack.layers.n + 1;
    return v;
}

/* ---- parameter groups ----------------------------------------------------------------------- */

enum { SETS = sizeof((Build *)0)->added.sets / sizeof(Set) };

Set *set_add(Build *b, const char *name)
{
    if (b->added.nsets == SETS)
        bug("more than %d parameter groups", SETS);
    for (int i = 0; i < b->added.nsets; i++)
        if (!strcmp(b->added.sets[i].name ? b->added.sets[i].name : "model", name))
            bug("set %s is added twice", name);
    b->added.sets[b->added.nsets].name = text_copy(name);
    return &b->added.sets[b->added.nsets++];
}

static const char *set_program_name(const Build *b, const char *name)
{
    return b->set->name ? text_print("%s_%s", name, b->set->name) : name;
}

/* Begins a program of b->set. */
static Program *set_program(Build *b, const char *name, Role role, const char *about)
{
    const char *set = b->set->name;
    return ir_program(b->g, set_program_name(b, name), role,
                      set ? text_print("%s, of parameter group %s", about, set) : about);
}

/* Creates a state value of b->set. */
static Value *set_kept(Build *b, const char *name, int64_t n)
{
    Value *v = build_persistent(b, set_word(b, name), PU_optimiser, DT_F32, 1,
                                dim(n, text_print("%" PRId64, n)), dim(0, ""));
    v->set = b->set->name;
    return v;
}

Value *set_squares(Build *b)
{
    Value *v = ir_value(b->g, set_word(b, "squares"));
    if (!v) {
        v = build_persistent(b, set_word(b, "squares"), PU_optimiser, DT_F64, 1, dim(1, "1"),
                             dim(0, ""));
        v->set = b->set->name;
    }
    return v;
}

static Value *set_scale(Build *b)
{
    if (!b->set->scale)
        b->set->scale = input_new(b, "scale");
    return b->set->scale;
}

/* in fp16; else NULL */
static Value *set_scaler(Build *b)
{
    if (b->model.act == DT_F16 && !b->set->scaler)
        b->set->scaler = set_kept(b, "scaler", 2);
    return b->set->scaler;
}

/* ---- losses ---------------------------------------------------------------------------------- */

void loss_inputs(Build *b)
{
    set_scale(b);
    b->model.noise = input_new(b, "noise");
    set_scaler(b);
    build_sum(b, "loss", 1);
}

Ref loss_rows(Build *b, Ref y) { return build_temp(b, "losses", DT_F32, y.v->rank - 1, y.v->dim); }

void rows_sum(Build *b, Ref rows, Value *sum)
{
    Op *op = build_op(b, OP_loss_sum);
    op_in(op, rows);
    op_out(op, build_input(b, sum));
}

void loss_sum(Build *b, Ref losses)
{
    rows_sum(b, losses, ir_value(b->g, "loss"));
}

Ref loss_scale_of(Build *b, Value *scale)
{
    Value *scaler = set_scaler(b);
    if (!scaler)
        return ref(scale);
    Dim one = dim(1, "1");
    const char *name = "scaled";
    for (int i = 0; i < b->p->nops; i++)
        if (b->p->ops[i].kind == OP_scale_loss)      /* with another scale */
            name = text_print("scaled.%s", scale->name);
    Ref scaled = build_temp(b, name, DT_F32, 1, &one);
    Op *op = build_op(b, OP_scale_loss);
    op_in(op, ref(scale)), op_in(op, ref(scaler));
    op_out(op, scaled);
    return scaled;
}

Ref loss_scale(Build *b) { return loss_scale_of(b, set_scale(b)); }

Pass pass_only(Build *b, const char *name)
{
    return (Pass){.family = b->family, .stack = b->stack, .loop = b->stack.layers,
                  .x = stream(b, name)};
}

Pass pass_trained(Build *b)
{
    const char *further = b->program_prefix ? b->program_prefix : "";
    Pass p = pass_only(b, text_print("%s%sx", further, b->stack.name));
    p.dx = stream(b, text_print("%s%sdx", further, b->stack.name));
    gradient_stream(p.x, p.dx);
    return p;
}

/* Up to the last block of the loop: (B, T, C). */
static Ref pass_blocks(Build *b, Pass *p)
{
    Ref first = ref_at(p->x, 0);
    b->family = p->family;
    b->stack = p->stack;
    p->begin = b->p->nops;
    b->x = p->from.v ? p->from : first;
    family_first(b, first);
    b->block_first = b->block_last = b->p->nops;
    if (p->loop.n) {
        b->region = ir_region(b->p, p->loop, false);
        b->x = ref_loop(p->x, 0);
        family_block(b);
        b->region = 0;
    }
    b->x = ref_at(p->x, p->loop.n);
    p->first = b->block_first, p->last = b->block_last;
    return b->x;
}

static Ref pass_last(Build *b, Ref x)
{
    b->x = x;
    return family_last(b);
}

Ref pass_forward(Build *b, Pass *p) { return pass_last(b, pass_blocks(b, p)); }

void pass_backward_last(Build *b, const Pass *p, int end)
{
    b->family = p->family;
    b->stack = p->stack;
    gradient_walk(b, p->last, end);
}

void pass_backward_block(Build *b, const Pass *p)
{
    int first = p->first, last = p->last;
    Ref out = ref_loop(p->x, 1);
    if (config_is(b->c, F_memory_recompute, "auto"))
        bug("memory.recompute is not chosen");
    if (config_is(b->c, F_memory_recompute, "block")) {
        b->mode = MODE_AGAIN;
        b->x = ref_loop(p->x, 0);
        family_block(b);
        first = b->block_first, last = b->block_last;
        out = b->x;          /* x[l+1] exists already: the sum that computes it is dead */
        b->mode = MODE_TRAIN;
    }
    gradient_set(out, ref_loop(p->dx, 1));
    gradient_walk(b, first, last);
    if (first != p->first)
        keep_values(b, p->first, first, last - first);
}

void pass_backward_first(Build *b, const Pass *p)
{
    gradient_set(ref_at(p->x, 0), ref_at(p->dx, 0));
    gradient_walk(b, p->begin, p->first);
}

void pass_backward(Build *b, const Pass *p, int end)
{
    pass_backward_last(b, p, end);
    if (p->loop.n) {
        b->region = ir_region(b->p, p->loop, true);
        pass_backward_block(b, p);
        b->region = 0;
    }
    pass_backward_first(b, p);
}

void program_micro(Build *b)
{
    b->mode = MODE_TRAIN;
    bool adds = config_int(b->c, F_batch_accum) > 1;
    b->p = ir_program(
        b->g, "micro", ROLE_gradients,
        updates_in_backward(b)
            ? "forward and backward; updates matrices, sets other gradients, adds to the loss"
        : adds ? "forward and backward of a micro-batch; adds to the gradients and to the loss"
               : "forward and backward; sets the gradients, adds to the loss");
    gradient_start(b);
}

void program_prefixed(Build *b, const char *name, Role role, const char *about)
{
    b->mode = MODE_TRAIN;
    b->p = ir_program(b->g, name, role, about);
    b->program_prefix = text_print("%s.", name);
    gradient_start(b);
}

/* Gradients of a layer are all-reduced while the next layer runs, if the message is large enough:
 * smaller ones cost more than the overlap saves. */
enum { EARLY_BYTES = 1 << 20 };

/* Values that are divided over the ranks: moments and masters of trained parameters from stage 1
 * on, sums of their gradients from 2, weights from 3. */
static int64_t zero_stage(const Build *b)
{
    return b->g->ranks > 1 ? config_int(b->c, F_memory_zero) : 0;
}

static bool divides(const Build *b) { return zero_stage(b) > 0; }

bool is_canonical(const Build *b) { return config_is(b->c, F_comm_order, "canonical"); }

/* ---- the last layer ------------------------------------------------------------------------ */

bool last_layer_is_apart(const Build *b) { return config_is(b->c, F_kernels_last_layer, "read"); }

/* Why the last layer has to stay in the loop over all, where its weights are gathered or its
 * gradients are used turn by turn, or why all its rows are needed; NULL: neither. */
static const char *needs_all_rows(const Build *b)
{
    return is_canonical(b)           ? "comm.order = \"canonical\" adds gradients layer by layer"
           : zero_stage(b) > 1       ? "memory.zero = 2 or 3 divides gradients layer by layer"
           : updates_in_backward(b)  ? "optim.when = \"backward\" updates layer by layer"
           : b->gradient_prefix      ? "the hypergradient in lockstep goes layer by layer"
           : b->family->layered      ? "layers of this family differ in their rotary table"
           : drop_share(b, F_lora_dropout) > 0 ? "lora.dropout draws masks for all rows"
                                               : NULL;
}

static void check_last_layer(const Build *b, Rows rows)
{
    const Loc loc = config_loc(b->c, F_kernels_last_layer);
    const char *why = needs_all_rows(b);
    if (why)
        err(loc, "kernels.last_layer: %s; leave \"read\" out", why);
    if (!rows.at || value_elements(rows.at) >= b->in.B * b->in.T)
        err(loc, "kernels.last_layer: \"read\" has no effect, since the head reads all %" PRId64
            " rows of a micro-batch; leave it out, or set a smaller bound, such as batch.targets",
            b->in.B * b->in.T);
}

void check_overlap(const Build *b)
{
    for (int i = 0; last_layer_is_apart(b) && i < b->g->nvalues; i++)
        if (value_is_gradient(b->g->values[i]) && is_overlapped(b, b->g->values[i]))
            err(config_loc(b->c, F_kernels_last_layer),
                "kernels.last_layer: \"read\" takes the last layer out of the loop in which "
                "gradients are summed over ranks; set comm.overlap = \"none\", or leave it out");
}

Ref pass_rows(Build *b, Pass *p, Rows rows)
{
    const bool few = rows.at && value_elements(rows.at) < b->in.B * b->in.T;
    if (last_layer_is_apart(b) && b->mode == MODE_TRAIN)
        check_last_layer(b, rows);
    if (!rows.at)
        return pass_forward(b, p);
    if (!few || !last_layer_is_apart(b)) {
        const Ref x = pass_blocks(b, p);
        b->loc = config_loc(b->c, F_batch_targets);
        b->stage = "head";
        return pass_last(b, build_rows(b, x, rows));
    }
    p->loop = size_add(b, "LOOP", b->stack.layers.n - 1, "layers before the last");
    p->x->count = b->stack.layers.n;
    if (p->dx)
        p->dx->count = p->x->count;
    b->x = pass_blocks(b, p);
    return pass_last(b, family_last_block(b, rows));
}

/* True if a parameter's tensors are large enough for shares, which ranks divide, and by which the
 * norm is added. In canonical order, a single rank has them too. */
static bool has_shares(const Build *b, const Value *param)
{
    return (divides(b) || is_canonical(b)) && value_room(b->g, param) >= SHARE_LEAST;
}

bool gradient_has_shares(const Build *b, const Value *gradient)
{
    return has_shares(b, ir_value(b->g, gradient->of));
}

/* Elements of a parameter's tensors that each rank owns; 0: every rank has all of them. */
static int64_t part_of(const Build *b, const Value *param)
{
    const int64_t share = share_elements(value_room(b->g, param));
    return divides(b) && has_shares(b, param) ? share_count(b->g->ranks) * share : 0;
}

/* True if the parameter's tensors and states are divided: if it is trained, or its weights are. */
static bool is_divided(const Build *b, const Value *param)
{
    return param->kind == VK_PARAM && !param->pinned && (param->trained || zero_stage(b) == 3);
}

/* True if stage 3 divides a weight. */
static bool has_large_weights(const Build *b)
{
    for (int i = 0; i < b->g->nvalues; i++) {
        const Value *v = b->g->values[i];
        if (v->kind == VK_PARAM && !v->pinned && part_of(b, v))
            return true;
    }
    return false;
}

void divide_states(Build *b)
{
    bool found = false;
    for (int i = 0; i < b->g->nvalues; i++) {
        Value *v = b->g->values[i];
        const Value *param = v->of ? ir_value(b->g, v->of) : v;
        const bool nf4_blocks = v != param && value_is_nf4(param);       /* are whole */
        if (is_divided(b, param) && !nf4_blocks)
            found |= (v->part = part_of(b, param)) > 0;
        if (absmax_moment(b->g, v))
            v->part = absmax_part(param);
        v->gathered |= v->part && v->purpose == PU_weights && zero_stage(b) < 3;
        v->early |= v->part && v->purpose == PU_weights && !v->gathered && is_overlapped(b, v);
    }
    if (divides(b) && !found && b->c->v[F_memory_zero].set)
        err(config_loc(b->c, F_memory_zero),
            "memory.zero: no %smatrix has %d elements or more, so there is nothing to divide; "
            "leave it out%s", zero_stage(b) < 3 ? "trained " : "", SHARE_LEAST,
            zero_stage(b) < 3 && has_large_weights(b)
                ? ", or set memory.zero = 3, which divides frozen weights, too" : "");
}

bool gradients_are_divided(const Build *b) { return zero_stage(b) > 1; }

bool is_overlapped(const Build *b, const Value *v)
{
    const char *overlap = config_text(b->c, F_comm_overlap);
    if (strcmp(b->g->target->backend, "cuda") || b->g->ranks == 1 || v->count < 2 ||
        !strcmp(overlap, "none") || is_canonical(b) || config_is(b->c, F_optim_when, "backward"))
        return false;
    return !strcmp(overlap, "all") || value_bytes(v) >= EARLY_BYTES;
}

/* True if the layers of a whole gradient are all-reduced early. */
static bool sums_early(const Build *b, const Value *gradient)
{
    return !part_of(b, ir_value(b->g, gradient->of)) && is_overlapped(b, gradient);
}

enum { RULES = 32 };

/* Returns the update rule of a gradient, by division, early summation, moments, weight decay and
 * type. Gradients with the same rule are updated together, except divided ones and those whose
 * moments have 8 bit. */
static int update_rule(const Build *b, const Value *gradient)
{
    const Value *w = ir_value(b->g, gradient->of);
    return 16 * has_shares(b, w) + 8 * gradient->early + 4 * moments_are_8bit(b, w) +
           2 * !w->decay + (w->dtype != DT_F32);
}

/* Orders gradients so that those of a group with the same rule are adjacent, in the order of their
 * parameters, and one call updates them. Those that are all-reduced at the end come first, then
 * those that are early, so that each of the two, and both together, are contiguous, then divided
 * ones. */
static void order_gradients(Build *b)
{
    Graph *g = b->g;
    struct { Value *v; int rule; } *gradient = arena_new(sizeof *gradient * (size_t)g->nvalues);
    Value **sorted = arena_new(sizeof *sorted * (size_t)g->nvalues);
    int gradients = 0, n = 0, next = 0;
    for (int i = 0; i < g->nvalues; i++) {       /* in the order of their parameters */
        Value *v = ir_value(g, text_print("grad.%s", g->values[i]->name));
        if (!v || !value_is_gradient(v))
            continue;
        v->early = sums_early(b, v);
        gradient[gradients].v = v;
        gradient[gradients++].rule = update_rule(b, v);
    }
    for (Set *set = b->added.sets; set < b->added.sets + b->added.nsets; set++)
        for (int rule = 0; rule < RULES; rule++)
            for (int i = 0; i < gradients; i++)
                if (gradient[i].v->set == set->name && gradient[i].rule == rule)
                    sorted[n++] = gradient[i].v;
    for (int i = 0; i < g->nvalues; i++)
        if (value_is_gradient(g->values[i]))
            g->values[i] = sorted[next++];
    if (n != next)
        bug("%d gradients of %d", n, next);
}

/* Next gradient of b->set after v, NULL: the first; returns NULL after the last. */
static Value *next_gradient(const Build *b, const Value *v)
{
    bool there = !v;
    for (int i = 0; i < b->g->nvalues; i++) {
        Value *w = b->g->values[i];
        if (there && value_is_gradient(w) && w->set == b->set->name)
            return w;
        there |= w == v;
    }
    return NULL;
}

/* One program, shared by all schedules. */
static Program *program_begin(Build *b)
{
    for (int i = 0; i < b->g->nprograms; i++)
        if (!strcmp(b->g->programs[i]->name, set_program_name(b, "begin")))
            return b->g->programs[i];
    b->p = set_program(b, "begin", ROLE_clear,
                       "start of a step: clears the gradients that micro-batches add to");
    b->loc = config_loc(b->c, F_batch_accum);
    Op *op = build_op(b, OP_zero);
    for (Value *v = NULL; (v = next_gradient(b, v));)
        op_out(op, ref(v));
    return b->p;
}

static void whole_norm(Build *b, Value *norm)
{
    Op *op = build_op(b, OP_grad_norm);
    for (Value *v = NULL; (v = next_gradient(b, v));)
        op_in(op, ref(v));
    op_out(op, ref(norm));
}

/* True if a gradient of b->set has shares. */
static bool set_has_shares(const Build *b)
{
    for (Value *v = NULL; (v = next_gradient(b, v));)
        if (gradient_has_shares(b, v))
            return true;
    return false;
}

static Op *add_squares(Build *b, Value *squares, int64_t column)
{
    Op *op = build_op(b, OP_grad_squares);
    op_out(op, ref(squares));
    op_int(op, "column", column);
    return op;
}

/* Norm of a group's gradients by shares: each rank adds the squares of its own, of every tensor
 * that has shares and of all others together, which are contiguous. */
static void shares_norm(Build *b, Value *norm)
{
    int64_t tensors = 0, whole = 0;
    for (Value *v = NULL; (v = next_gradient(b, v));)
        if (!gradient_has_shares(b, v))
            whole = 1;
        else
            tensors += v->count ? v->count : 1;
    const int64_t n = whole + tensors;
    const char *columns = b->set->name ? text_capitals(text_print("norm_columns_%s",
                                                                  b->set->name))
                                       : "NORM_COLUMNS";
    Value *squares = build_persistent(b, set_word(b, "squares"), PU_communication, DT_F64, 2,
                                      dim(SHARES, text_print("%d", SHARES)),
                                      size_add(b, columns, n, "sums of squares of each share"));
    squares->set = b->set->name;
    const int64_t own = share_count(b->g->ranks) * n;
    if (divides(b))
        squares->part = (own + SHARE_UNIT - 1) / SHARE_UNIT * SHARE_UNIT, squares->gathered = true;
    Op *op = whole ? add_squares(b, squares, 0) : NULL;
    if (whole)
        op_int(op, "together", 1);
    int64_t column = whole;
    for (Value *v = NULL; (v = next_gradient(b, v));)
        if (!gradient_has_shares(b, v))
            op_in(op, ref(v));
    for (Value *v = NULL; (v = next_gradient(b, v));) {
        if (!gradient_has_shares(b, v))
            continue;
        op_in(add_squares(b, squares, column), ref(v));
        column += v->count ? v->count : 1;
    }
    op = build_op(b, OP_squares_norm);
    op_in(op, ref(squares)), op_out(op, ref(norm));
}

/* Norm of a group some of whose gradients were updated inside the backward pass, which left the sum
 * of their squares. */
static void rest_norm(Build *b, Value *norm)
{
    Value *squares = set_squares(b);
    Dim one = dim(1, "1");
    Op *op = NULL;
    for (Value *v = NULL; (v = next_gradient(b, v));) {
        op = op ? op : build_op(b, OP_partial_norm);
        op_in(op, ref(v));
    }
    if (op) {
        Ref rest = build_temp(b, set_word(b, "rest_norm"), DT_F32, 1, &one);
        rest.v->set = b->set->name;
        op_out(op, rest), op_out(op, ref(squares));
    }
    op = build_op(b, OP_squares_root);
    op_in(op, ref(squares)), op_out(op, ref(norm));
}

/* Returns the norm. */
static Value *program_reduce(Build *b)
{
    b->p = set_program(b, "reduce", ROLE_reduce,
                       "after the last micro-batch: the norm of the gradient");
    b->loc = config_loc(b->c, F_optim_decay_rule);
    Value *norm = set_kept(b, "total_norm", 1);
    if (updates_in_backward(b))
        rest_norm(b, norm);
    else if (set_has_shares(b))
        shares_norm(b, norm);
    else
        whole_norm(b, norm);
    Value *adamw_args = input_new(b, "adamw_args"), *scaler = set_scaler(b);
    if (scaler) {
        Op *op = build_op(b, OP_scaler_update);
        op_out(op, ref(norm)), op_out(op, ref(scaler)), op_out(op, ref(adamw_args));
    }
    return norm;
}

/* Number of a parameter among all. */
static int64_t parameter_number(const Graph *g, const Value *param)
{
    int64_t n = 0;
    for (int i = 0; g->values[i] != param; i++)
        n += g->values[i]->kind == VK_PARAM;
    return n;
}

/* The same element as `like` of v. */
static Ref element(Ref like, Value *v) { return (Ref){v, like.index, like.k}; }

/* Adds the operands of a value of optim.master to the update of 16-bit weights w. */
static void add_master(Build *b, Op *op, Ref w, const char *how)
{
    const bool rounding = !strcmp(how, "none");
    op_word(op, "master", rounding ? "rounding" : how);
    if (rounding) {
        const char *name = set_word(b, "rounding");
        Value *key = ir_value(b->g, name);
        op_in(op, ref(key ? key : input_new(b, "rounding")));
        op_int(op, "number", parameter_number(b->g, w.v));
    } else if (!strcmp(how, "remainder"))
        op_out(op, element(w, build_state_as(b, "remainder", w.v, PU_optimiser, DT_I16)));
    else
        op_out(op, element(w, build_state(b, "master", w.v, PU_optimiser)));
}

void update_op(Build *b, Ref gradient, Ref norm)
{
    Value *w = ir_value(b->g, gradient.v->of),
          *adamw_args = ir_value(b->g, set_word(b, "adamw_args"));
    const bool mixed = w->dtype != DT_F32, quantised = moments_are_8bit(b, w);
    const Dtype type = quantised ? DT_U8 : DT_F32;
    const char *how = config_text(b->c, F_optim_master);
    Op *op = build_op(b, quantised ? mixed ? OP_adamw8_mixed : OP_adamw8
                                 : mixed ? OP_adamw_mixed : OP_adamw);
    op_in(op, gradient), op_in(op, ref(adamw_args)), op_in(op, norm);
    op_out(op, element(gradient, w));
    op_int(op, "decay", w->decay);
    if (mixed)
        add_master(b, op, element(gradient, w), how);
    Value *m = build_state_as(b, "m", w, PU_optimiser, type),
          *v = build_state_as(b, "v", w, PU_optimiser, type);
    op_out(op, element(gradient, m)), op_out(op, element(gradient, v));
    if (quantised)
        op_out(op, ref(build_absmax(b, m))), op_out(op, ref(build_absmax(b, v)));
}

static void program_update(Build *b)
{
    b->p = set_program(b, "update", ROLE_update,
                       updates_in_backward(b)
                           ? "AdamW of the parameters that the backward pass did not update"
                           : "clipping and AdamW");
    b->loc = config_loc(b->c, F_optim_decay_rule);
    Value *norm = ir_value(b->g, set_word(b, "total_norm"));
    for (Value *gradient = NULL; (gradient = next_gradient(b, gradient));)
        update_op(b, ref(gradient), ref(norm));
}

/* ---- schedules ------------------------------------------------------------------------------- */

static void clear_sums(const Build *b, Schedule *s)
{
    for (int i = 0; i < b->added.nsums; i++)
        schedule_clear(s, b->added.sum[i]);
}

static void give_sums(const Build *b, Schedule *s)
{
    for (int i = 0; i < b->added.nsums; i++)
        schedule_result(s, b->added.sum[i]);
}

/* True if the program writes gradients of b->set. */
static bool writes_set(const Build *b, const Program *p)
{
    for (int i = 0; i < p->nops; i++)
        for (int k = 0; k < p->ops[i].nout; k++) {
            const Value *v = p->ops[i].out[k].v;
            if (value_is_gradient(v) && v->set == b->set->name)
                return true;
        }
    return false;
}

/* Stores the groups whose gradients the program writes; returns their number. */
static int sets_written(Build *b, const Program *p, Set **set)
{
    Set *was = b->set;
    int n = 0;
    for (b->set = b->added.sets; b->set < b->added.sets + b->added.nsets; b->set++)
        if (writes_set(b, p))
            set[n++] = b->set;
    b->set = was;
    return n;
}

/* Several micro-batches add to cleared gradients; a single one overwrites them. */
void schedule_turns(Build *b, Schedule *s)
{
    Set *was = b->set, *set[SETS];
    Program *micro = b->p;
    int64_t turns = program_micros(micro);
    int n = turns > 1 || updates_in_backward(b) ? sets_written(b, micro, set) : 0;
    order_gradients(b);
    b->stage = NULL;
    for (int i = 0; i < n; i++) {
        b->set = set[i];
        if (updates_in_backward(b))
            schedule_clear(s, set_squares(b));
        else if (turns > 1)
            schedule_run(s, program_begin(b), 1);
    }
    schedule_run(s, micro, turns);
    b->set = was;
    b->p = micro;
    b->program_prefix = NULL;
    b->jvp = NULL;
}

void schedule_set(Build *b, Schedule *s, Set *set)
{
    Set *was = b->set;
    b->set = set;
    b->stage = NULL;
    order_gradients(b);
    if (updates_in_backward(b))
        gradients_in_backward(b);
    Value *norm = program_reduce(b);
    schedule_run(s, b->p, 1);
    if (next_gradient(b, NULL)) {
        program_update(b);
        schedule_run(s, b->p, 1);
    }
    schedule_result(s, norm);
    b->set = was;
}

void schedule_end(Build *b, Schedule *s)
{
    bool graph = config_bool(b->c, F_kernels_graph);
    s->captured = graph && !strcmp(b->g->target->backend, "cuda");
}

void schedule_update(Build *b, const char *name, const char *about)
{
    Schedule *s = ir_schedule(b->g, name, about);
    Set *set[SETS];
    int n = sets_written(b, b->p, set);
    clear_sums(b, s);
    give_sums(b, s);
    schedule_turns(b, s);
    for (int i = 0; i < n; i++)
        schedule_set(b, s, set[i]);
    schedule_end(b, s);
}

void schedule_train(Build *b)
{
    schedule_update(b, "train",
                    updates_in_backward(b)
                        ? "an optimiser step; a norm that is not finite skips its update"
                        : "an optimiser step; without effect if its norm is not finite");
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
    clear_sums(b, s);
    schedule_run(s, b->p, 1);
    give_sums(b, s);
}
