/* fuse.c -- joins ops into groups, one kernel call each: rows of kernels/kernels.def.
 *
 * In:    programs of ops.   Out: groups; each op in exactly one.   Verified by check_fuse().
 * Keeps: the order of ops; values that only live inside a group are internal: never stored.
 * Method: at each op the longest pattern that matches the ops from there on, each connected to one
 *         before it; with kernels.fuse = false the shortest. */
#include "gen/graph/kernels.h"
#include "gen/lower/lower.h"

#include <string.h>

/* ---- matching -------------------------------------------------------------------------------- */

static bool same_attributes(const Op *a, const Op *b)
{
    for (int i = 0; i < a->nattr; i++) {
        const Attr *other = op_attr(b, a->attr[i].key);
        if (!other || other->i != a->attr[i].i || other->f != a->attr[i].f)
            return false;
    }
    return a->nattr == b->nattr;
}

/* Values of equal type, kind and set, so that one call can take those of both ops. */
static bool alike(const Op *a, const Op *b)
{
    bool same = a->kind == b->kind && a->region == b->region && a->nin == b->nin &&
                a->nout == b->nout && same_attributes(a, b);
    for (int i = 0; same && i < a->nin + a->nout; i++) {
        const Value *v = i < a->nin ? a->in[i].v : a->out[i - a->nin].v,
                    *w = i < b->nin ? b->in[i].v : b->out[i - b->nin].v;
        same = v->dtype == w->dtype && v->purpose == w->purpose && v->early == w->early &&
               !v->part == !w->part && value_same_set(v, w);
    }
    return same;
}

/* Ops of the row's pattern starting at ops[i] of the program; 0: it does not match. */
static int match(const Program *p, int i, const KernelRow *row)
{
    if (!kernel_repeats(row))
        return kernel_match(p, i, row);
    const char *name = op_row[p->ops[i].kind].name, *pattern = row->pattern;
    int n = 1;
    if (strlen(name) + 1 != strlen(pattern) || strncmp(name, pattern, strlen(name)))
        return 0;
    while (i + n < p->nops && alike(&p->ops[i], &p->ops[i + n]))
        n++;
    return n;
}

static bool shares_operand(const Op *a, const Op *b)
{
    for (int i = 0; i < a->nin + a->nout; i++) {
        const Value *v = i < a->nin ? a->in[i].v : a->out[i - a->nin].v;
        for (int j = 0; j < b->nin; j++)
            if (b->in[j].v == v)
                return true;
    }
    return false;
}

/* True if the row's call passes operand k of op i of its group; side: 'i' input, 'o' output. */
static bool passes(const KernelRow *row, int i, char side, int k)
{
    return strstr(row->args, text_print("{%d.%c%d}", i, side, k));
}

/* Readers of a value: ops of the group, and others. */
typedef struct { bool inside, outside; } Readers;

static Readers readers_of(const Graph *g, const Program *p, int first, int n, const Value *v)
{
    Readers found = {0};
    for (int j = 0; j < g->nprograms; j++)
        for (int k = 0; k < g->programs[j]->nops; k++)
            for (int i = 0; i < g->programs[j]->ops[k].nin; i++)
                if (g->programs[j]->ops[k].in[i].v == v) {
                    bool same = g->programs[j] == p && k >= first && k < first + n;
                    found.inside |= same;
                    found.outside |= !same;
                }
    return found;
}

/* True if no op outside the group reads the outputs that the call does not pass. */
static bool hides(const Graph *g, const Program *p, int first, int n, const KernelRow *row)
{
    for (int i = 0; i < n - 1; i++)
        for (int k = 0; k < p->ops[first + i].nout; k++)
            if (!passes(row, i, 'o', k) &&
                readers_of(g, p, first, n, p->ops[first + i].out[k].v).outside)
                return false;
    return true;
}

/* True if ops of different kinds depend on each other: each after the first reads a result of one
 * before it. */
static bool connected(const Program *p, int first, int n, const KernelRow *row)
{
    for (int i = 1; i < n; i++) {
        bool found = false;
        for (int j = 0; j < i; j++)
            found |= shares_operand(&p->ops[first + j], &p->ops[first + i]);
        if (!found)
            return false;
    }
    /* the operand of a sum that the call does not pass is the result before it */
    for (int i = 1; i < n; i++)
        for (int k = 0; k < 2 && p->ops[first + i].kind == OP_add; k++)
            if (!passes(row, i, 'i', k) &&
                p->ops[first + i].in[k].v != p->ops[first + i - 1].out[0].v)
                return false;
    return true;
}

static int choose(const Graph *g, const Program *p, int i, int *nops)
{
    int best = -1;
    const char *why = "no row of kernels.def has it";
    bool longest = g->setting[SETTING_kernels_fuse].i;
    *nops = 0;
    for (int k = 0; k < nkernels; k++) {
        int n = match(p, i, &kernel_row[k]);
        if (n && !longest && kernel_repeats(&kernel_row[k]))
            n = 1;
        if (n == 0 || (best >= 0 && (longest ? n <= *nops : n >= *nops)) ||
            strcmp(kernel_row[k].backend, g->target->backend) ||
            (!kernel_repeats(&kernel_row[k]) &&
             !(connected(p, i, n, &kernel_row[k]) && hides(g, p, i, n, &kernel_row[k]))))
            continue;
        const char *reason = kernel_row[k].fits(&p->ops[i]);
        if (reason) {
            why = reason;
            continue;
        }
        best = k;
        *nops = n;
    }
    if (best < 0)
        err(p->ops[i].loc, "no kernel of target %s fits op %s: %s", g->target->name,
            op_row[p->ops[i].kind].name, why);
    return best;
}

/* Marks the values that only this group writes and reads and that the call does not pass. */
static void mark_internal(const Graph *g, const Program *p, const Group *group)
{
    for (int i = 0; i < group->nops; i++)
        for (int o = 0; o < p->ops[group->first_op + i].nout; o++) {
            Value *v = p->ops[group->first_op + i].out[o].v;
            bool passed = passes(&kernel_row[group->kernel], i, 'o', o);
            const Readers by = readers_of(g, p, group->first_op, group->nops, v);
            v->internal = v->kind == VK_TEMP && group->nops > 1 && !passed && by.inside &&
                          !by.outside;
        }
}

void fuse_run(Graph *g)
{
    for (int i = 0; i < g->nprograms; i++) {
        Program *p = g->programs[i];
        p->groups = arena_new(sizeof(Group) * (size_t)(p->nops + 1));
        for (int first = 0, n; first < p->nops; first += n) {
            int kernel = choose(g, p, first, &n);
            Group *group = &p->groups[p->ngroups];
            *group = (Group){.kernel = kernel,
                             .first_op = first,
                             .nops = n,
                             .region = p->ops[first].region,
                             .workspace = kernel_workspace(kernel, &p->ops[first])};
            for (int k = 0; k < n; k++)
                p->ops[first + k].group = p->ngroups;
            p->ngroups++;
        }
    }
    for (int i = 0; i < g->nprograms; i++)
        for (int k = 0; k < g->programs[i]->ngroups; k++)
            mark_internal(g, g->programs[i], &g->programs[i]->groups[k]);
    g->room = "fuse";
}

void check_fuse(const Graph *g)
{
    check_ops(g);
    for (int i = 0; i < g->nprograms; i++) {
        const Program *p = g->programs[i];
        int next = 0;
        for (int k = 0; k < p->ngroups; k++) {
            const Group *group = &p->groups[k];
            if (group->first_op != next || group->nops < 1)
                bug("group %d of %s does not start at op %d", k, p->name, next);
            const KernelRow *row = &kernel_row[group->kernel];
            int n = match(p, next, row);
            if (group->nops > n || (group->nops < n && !kernel_repeats(row)))
                bug("group %d of %s is not what %s covers", k, p->name,
                    kernel_row[group->kernel].name);
            const char *why = kernel_row[group->kernel].fits(&p->ops[next]);
            if (why)
                bug("group %d of %s: %s: %s", k, p->name, kernel_row[group->kernel].name, why);
            if (group->workspace != kernel_workspace(group->kernel, &p->ops[next]))
                bug("group %d of %s has the wrong workspace", k, p->name);
            for (int j = 0; j < group->nops; j++, next++)
                if (p->ops[next].group != k || p->ops[next].region != group->region)
                    bug("op %d of %s is not in group %d", next, p->name, k);
        }
        if (next != p->nops)
            bug("%d ops of %s are in no group", p->nops - next, p->name);
    }
}
