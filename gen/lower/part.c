/* part.c -- who holds what: placements, and collectives where a reader needs another one.
 *
 * In:    groups.   Out: placements; collective groups between groups.   Verified by check_part().
 * Keeps: every rank runs the same sequence of collectives; one rank needs none.
 * Method: sequences are divided over ranks (shard 0 of the batch); weights are whole on each rank
 *         (rep), so sums over sequences are parts of the whole (partial) until an all-reduce. */
#include "gen/gen.h"

#include <string.h>

static Placement placement(const Graph *g, const Value *v)
{
    if (g->ranks == 1 || v->kind == VK_PARAM)
        return PL_REP;
    if (value_is_gradient(v) || !strcmp(v->name, "loss"))
        return PL_PARTIAL;   /* sums over this rank's sequences */
    bool batched = !strcmp(v->dim[0].sym, "B") || !strcmp(v->dim[0].sym, "N");
    return batched ? PL_SHARD : PL_REP;
}

static const Op *op_named(const Program *p, int kind)
{
    for (int i = 0; i < p->nops; i++)
        if (p->ops[i].kind == kind)
            return &p->ops[i];
    return NULL;
}

static int row_of(const Graph *g, int kind)
{
    for (int i = 0; i < nkernels; i++)
        if (!strcmp(kernel_row[i].pattern, op_row[kind].name) &&
            !strcmp(kernel_row[i].backend, g->target->backend))
            return i;
    bug("target %s has no %s", g->target->name, op_row[kind].name);
}

/* A group of one op before group `at`. */
static void insert_group(const Graph *g, Program *p, int at, Op op)
{
    int first = at < p->ngroups ? p->groups[at].first_op : p->nops;
    ir_op(p, op.kind, op.region, op.loc);            /* makes room */
    memmove(&p->ops[first + 1], &p->ops[first], sizeof(Op) * (size_t)(p->nops - 1 - first));
    Group *groups = arena_new(sizeof(Group) * (size_t)(p->ngroups + 1));
    memcpy(groups, p->groups, sizeof(Group) * (size_t)at);
    memcpy(groups + at + 1, p->groups + at, sizeof(Group) * (size_t)(p->ngroups - at));
    groups[at] = (Group){.kernel = row_of(g, op.kind), .first_op = first, .nops = 1,
                         .region = op.region};
    p->groups = groups;
    p->ngroups++;
    for (int i = at + 1; i < p->ngroups; i++)
        p->groups[i].first_op++;
    for (int i = first + 1; i < p->nops; i++)
        p->ops[i].group++;
    op.group = at;
    p->ops[first] = op;
}

/* ---- sums beside the backward pass ----------------------------------------------------------- */

enum { EARLY_BYTES = 1 << 20 };      /* smaller messages cost more than they hide */

/* A gradient that has one slice a layer, written in the backward region. */
static bool sums_early(const Graph *g, const Value *v)
{
    const char *overlap = config_text(g->cfg, F_comm_overlap);
    if (!value_is_gradient(v) || !v->count || strcmp(g->target->backend, "cuda") ||
        !strcmp(overlap, "none"))
        return false;
    return !strcmp(overlap, "all") || value_bytes(v) >= EARLY_BYTES;
}

/* The group of the program behind which nothing writes v any more; -1: none does. */
static int last_writer(const Program *p, const Value *v)
{
    for (int i = p->nops - 1; i >= 0; i--)
        for (int k = 0; k < p->ops[i].nout; k++)
            if (p->ops[i].out[k].v == v)
                return p->ops[i].group;
    return -1;
}

/* Gradients that are summed early stand behind the others: each kind lies side by side. */
static void order_gradients(Graph *g)
{
    Value **sorted = arena_new(sizeof *sorted * (size_t)g->nvalues);
    int n = 0, next = 0;
    for (int early = 0; early < 2; early++)
        for (int i = 0; i < g->nvalues; i++)
            if (value_is_gradient(g->values[i]) && sums_early(g, g->values[i]) == early)
                sorted[n++] = g->values[i];
    for (int i = 0; i < g->nvalues; i++)
        if (value_is_gradient(g->values[i]))
            g->values[i] = sorted[next++];
}

static void insert_early(Graph *g, Program *micro)
{
    for (int i = 0; i < g->nvalues; i++) {
        Value *v = g->values[i];
        int at = sums_early(g, v) ? last_writer(micro, v) : -1;
        if (at < 0)
            continue;
        Op op = {.kind = OP_allreduce_layer, .region = micro->groups[at].region,
                 .loc = config_loc(g->cfg, F_comm_overlap)};
        op_in(&op, ref_loop(v, 0)), op_out(&op, ref_loop(v, 0));
        op_int(&op, "last", 1);
        insert_group(g, micro, at + 1, op);
    }
}

/* ---- sums behind it -------------------------------------------------------------------------- */

/* Before the first op that reads whole gradients stand the sums over ranks: one of all gradients
 * that were not summed early, which lie side by side, and the end of those that were. The message
 * size is constant, since it may decide the order of additions. */
static void insert_allreduce(Graph *g, Program *p)
{
    const Op norm = *op_named(p, OP_grad_norm);
    Op rest = {.kind = OP_allreduce, .loc = config_loc(g->cfg, F_comm_bucket_mib)},
       join = {.kind = OP_allreduce_join, .loc = config_loc(g->cfg, F_comm_overlap)};
    for (int i = 0; i < norm.nin; i++) {
        Op *op = sums_early(g, norm.in[i].v) ? &join : &rest;
        op_in(op, norm.in[i]), op_out(op, norm.in[i]);
    }
    op_int(&rest, "bucket", config_int(g->cfg, F_comm_bucket_mib) * (1 << 20) / 4);
    if (join.nin)
        insert_group(g, p, 0, join);
    if (rest.nin)
        insert_group(g, p, 0, rest);
}

void part_run(Graph *g)
{
    for (int i = 0; i < g->nvalues; i++) {
        g->values[i]->place = placement(g, g->values[i]);
        g->values[i]->axis = 0;
    }
    /* read even where one rank has no use for them */
    config_int(g->cfg, F_comm_bucket_mib);
    config_text(g->cfg, F_comm_overlap);
    if (g->ranks > 1)
        order_gradients(g);
    for (int i = 0; i < g->nprograms && g->ranks > 1; i++) {
        if (!strcmp(g->programs[i]->name, "micro"))
            insert_early(g, g->programs[i]);
        if (op_named(g->programs[i], OP_grad_norm))
            insert_allreduce(g, g->programs[i]);
    }
    g->room = "part";
}

static bool lists(const Ref *list, int n, const Value *v)
{
    for (int i = 0; i < n; i++)
        if (list[i].v == v)
            return true;
    return false;
}

/* A gradient that the norm or the update reads was summed over ranks after its last write; other
 * partial values are the host's. */
static void check_summed(const Graph *g, const Value *v)
{
    bool summed = false, begun = false;
    for (int i = 0; i < g->nprograms; i++)
        for (int j = 0; j < g->programs[i]->nops; j++) {
            const Op *op = &g->programs[i]->ops[j];
            bool whole =
                op->kind == OP_grad_norm || op->kind == OP_adamw || op->kind == OP_adamw_mixed;
            if (whole && !summed && lists(op->in, op->nin, v))
                bug("%s reads %s before it is summed over ranks", op_row[op->kind].name, v->name);
            if (!lists(op->out, op->nout, v) || op->kind == OP_zero)
                continue;
            summed = op->kind == OP_allreduce || (op->kind == OP_allreduce_join && begun);
            begun = op->kind == OP_allreduce_layer;
        }
}

void check_part(const Graph *g)
{
    for (int i = 0; i < g->nvalues; i++) {
        const Value *v = g->values[i];
        if (v->place == PL_NONE || (g->ranks == 1 && v->place != PL_REP))
            bug("%s has no placement", v->name);
        if (g->ranks > 1 && value_is_gradient(v) && v->place != PL_PARTIAL)
            bug("%s is not partial", v->name);
        if (v->place == PL_PARTIAL)
            check_summed(g, v);
    }
}
