/* part.c -- who holds what: a placement for every value, and collectives where a reader needs
 * another one.
 *
 * In:    groups.   Out: placements; collective groups between groups.   Verified by check_part().
 * Keeps: every rank runs the same sequence of collectives; one rank needs none.
 * Method: sequences are divided over ranks (shard 0 of the batch); weights are whole on each rank
 *         (rep), so what sums over sequences is a part of the whole (partial) until an all-reduce.
 *         */
#include "gen.h"

#include <string.h>

static Placement placement(const Graph *g, const Value *v)
{
    if (g->ranks == 1 || v->kind == VK_PARAM)
        return PL_REP;
    if (value_is_gradient(v) || !strcmp(v->name, "loss"))
        return PL_PARTIAL;   /* sums over this rank's sequences */
    bool batched = v->dim[0].sym[0] == 'B' && !v->dim[0].sym[1];
    return batched ? PL_SHARD : PL_REP;
}

static const Op *op_named(const Program *p, int kind)
{
    for (int i = 0; i < p->nops; i++)
        if (p->ops[i].kind == kind)
            return &p->ops[i];
    return NULL;
}

/* Before the first op that reads whole gradients stands one sum over ranks of all of them; they lie
 * side by side, and the message size is constant, since it decides the order of additions. */
static void insert_allreduce(Graph *g, Program *p)
{
    const Op norm = *op_named(p, OP_grad_norm);
    int kernel = -1;
    for (int i = 0; i < nkernels && kernel < 0; i++)
        if (!strcmp(kernel_row[i].pattern, "allreduce") &&
            !strcmp(kernel_row[i].backend, g->target->backend))
            kernel = i;
    if (kernel < 0)
        bug("target %s has no all-reduce", g->target->name);
    Op *op = ir_op(p, OP_allreduce, 0, config_loc(g->cfg, F_comm_bucket_mib));
    for (int i = 0; i < norm.nin; i++) {
        op_in(op, norm.in[i]);
        op_out(op, norm.in[i]);
    }
    op_int(op, "bucket", config_int(g->cfg, F_comm_bucket_mib) * (1 << 20) / 4);
    Op collective = *op;
    memmove(&p->ops[1], &p->ops[0], sizeof(Op) * (size_t)(p->nops - 1));
    p->ops[0] = collective;
    Group *groups = arena_new(sizeof(Group) * (size_t)(p->ngroups + 1));
    memcpy(groups + 1, p->groups, sizeof(Group) * (size_t)p->ngroups);
    groups[0] = (Group){.kernel = kernel, .first_op = 0, .nops = 1};
    p->groups = groups;
    p->ngroups++;
    for (int i = 1; i < p->ngroups; i++)
        p->groups[i].first_op++;
    p->ops[0].group = 0;
    for (int i = 1; i < p->nops; i++)
        p->ops[i].group++;
}

void part_run(Graph *g)
{
    for (int i = 0; i < g->nvalues; i++) {
        g->values[i]->place = placement(g, g->values[i]);
        g->values[i]->axis = 0;
    }
    config_int(g->cfg, F_comm_bucket_mib);       /* read even where one rank has no use for it */
    for (int i = 0; i < g->nprograms && g->ranks > 1; i++)
        if (op_named(g->programs[i], OP_grad_norm))
            insert_allreduce(g, g->programs[i]);
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
    bool summed = false;
    for (int i = 0; i < g->nprograms; i++)
        for (int j = 0; j < g->programs[i]->nops; j++) {
            const Op *op = &g->programs[i]->ops[j];
            bool whole =
                op->kind == OP_grad_norm || op->kind == OP_adamw || op->kind == OP_adamw_mixed;
            if (whole && !summed && lists(op->in, op->nin, v))
                bug("%s reads %s before it is summed over ranks", op_row[op->kind].name, v->name);
            if (lists(op->out, op->nout, v))
                summed = op->kind == OP_allreduce;
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
