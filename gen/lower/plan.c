/* plan.c -- gives every stored value a place in the arena.
 *
 * In:    groups after part.   Out: offset, stride and lifetime of each value; bytes of the arena.
 * Keeps: order of groups.  Verified by check_plan().
 * Method: time is the position of a group; values that an in-place kernel may merge share one
 *         storage, if running the programs on names shows that nothing overwritten is read later;
 *         packing.c then places the storages. */
#include "gen/graph/kernels.h"
#include "gen/lower/lower.h"
#include "gen/lower/packing.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- time ------------------------------------------------------------------------------------ */

typedef struct { int first, last; } Span;

static Span span_of(const Program *p, int region)
{
    Span s = {-1, -1};
    for (int i = 0; i < p->ngroups; i++)
        if (!region || p->groups[i].region == region) {
            s.first = s.first < 0 ? p->groups[i].pos : s.first;
            s.last = p->groups[i].pos;
        }
    return s;
}

static void widen(Value *v, Span s)
{
    if (v->first < 0 || s.first < v->first)
        v->first = s.first;
    if (s.last > v->last)
        v->last = s.last;
}

static Ref operand(const Op *op, int k) { return k < op->nin ? op->in[k] : op->out[k - op->nin]; }

static int program_uses(const Program *p, const Value *v)
{
    int n = 0;
    for (int j = 0; j < p->nops; j++)
        for (int k = 0; k < p->ops[j].nin + p->ops[j].nout; k++)
            n += operand(&p->ops[j], k).v == v;
    return n;
}

/* True if a schedule of more than one program clears v or returns it to the host. */
static bool is_of_schedule(const Schedule *s, const Value *v)
{
    int programs = 0;
    bool found = false;
    for (int i = 0; i < s->nitems; i++) {
        programs += s->item[i].program != NULL;
        found |= s->item[i].clears == v;
    }
    for (int i = 0; i < s->nresults; i++)
        found |= s->result[i] == v;
    return found && programs > 1;
}

/* True if v outlives its program: weights, gradients, moments, what the host writes before a step,
 * and state that several programs share, or that a schedule of several clears or returns. */
static bool is_persistent(const Graph *g, const Value *v)
{
    if (v->kind == VK_PARAM || v->kind == VK_INPUT ||
        (v->kind == VK_STATE && v->purpose != PU_activations))
        return true;
    int programs = 0;
    for (int i = 0; i < g->nprograms && v->kind == VK_STATE; i++)
        programs += program_uses(g->programs[i], v) > 0;
    for (int i = 0; i < g->nschedules && v->kind == VK_STATE && programs < 2; i++)
        programs += is_of_schedule(g->schedules[i], v);
    return programs > 1;
}

/* When an operand has to be alive: at the position of its group. But a value that one turn of
 * the loop writes and another reads, or that comes from outside the region, is live in the whole
 * region; inputs and a program's own state are live in the whole program. */
static Span life(const Program *p, const Op *op, Ref r)
{
    bool local = r.v->slots == 1 && r.index == IX_LOOP && !r.k;
    int at = p->groups[op->group].pos;
    if (r.v->kind != VK_TEMP)
        return span_of(p, 0);
    return op->region && !local ? span_of(p, op->region) : (Span){at, at};
}

static void set_life(Graph *g)
{
    int pos = 0;
    for (int i = 0; i < g->nprograms; i++) {
        Program *p = g->programs[i];
        for (int k = 0; k < p->ngroups; k++)
            p->groups[k].pos = pos++;
        for (int j = 0; j < p->nops; j++)
            for (int k = 0; k < p->ops[j].nin + p->ops[j].nout; k++) {
                Ref r = operand(&p->ops[j], k);
                widen(r.v, life(p, &p->ops[j], r));
            }
    }
}

/* ---- running the programs on names ----------------------------------------------------------- */

/* Bytes [begin, end) of a storage hold element i of v. */
typedef struct {
    int storage;
    int64_t begin, end;
    const Value *v;
    int64_t i;
} Owner;

typedef struct {
    Owner *owner;
    int n, cap;
    char *error;             /* the first error, or NULL */
} Memory;

enum { TURNS = 3 };          /* of a loop: layers are equal, so three turns suffice */

/* Element that a reference means in turn l. Constants are 0 or the number of layers. */
static int64_t element(const Program *p, Ref r, int64_t l)
{
    const Region *loop = r.index == IX_CONST && r.k ? ir_region_of(p, r.v) : NULL;
    if (r.index == IX_CONST)
        return loop && loop->count.n > TURNS ? r.k - loop->count.n + TURNS : r.k;
    return r.index == IX_LOOP ? l + r.k : 0;
}

static Owner place_of(const Value *v, int64_t i)
{
    int64_t begin = v->offset + i % v->slots * v->stride;
    return (Owner){v->storage, begin, begin + value_bytes(v), v, i};
}

static bool overlap(const Owner *a, const Owner *b)
{
    return a->storage == b->storage && a->begin < b->end && b->begin < a->end;
}

static void write_element(Memory *m, Owner w)
{
    for (int i = 0; i < m->n;)
        if (overlap(&m->owner[i], &w))
            m->owner[i] = m->owner[--m->n];
        else
            i++;
    if (m->n == m->cap) {
        size_t was = sizeof(Owner) * (size_t)m->cap;
        m->cap = m->cap ? 2 * m->cap : 256;
        m->owner = arena_grow(m->owner, was, sizeof(Owner) * (size_t)m->cap);
    }
    m->owner[m->n++] = w;
}

static bool holds(const Memory *m, Owner r)
{
    for (int i = 0; i < m->n; i++)
        if (m->owner[i].v == r.v && m->owner[i].i == r.i && m->owner[i].begin == r.begin)
            return true;
    return false;
}

/* True if kernels.def lets this output share this input's memory. */
static bool may_share(const Program *p, const Group *group, Ref out, Ref in)
{
    for (const char *w = kernel_row[group->kernel].inplace; *w;) {
        Ref o = kernel_operand(p, group, w);
        w = strchr(w, '=') + 1;
        Ref i = kernel_operand(p, group, w);
        if (o.v == out.v && i.v == in.v)
            return true;
        w += strcspn(w, " ");
        w += *w == ' ';
    }
    return false;
}

static void run_group(Memory *m, const Program *p, const Group *group, int64_t l, int64_t turns)
{
    if (!op_runs(p, &p->ops[group->first_op], l, turns))
        return;
    for (int j = 0; j < group->nops; j++) {
        const Op *op = &p->ops[group->first_op + j];
        for (int k = 0; k < op->nin && !m->error; k++) {
            const Value *v = op->in[k].v;
            if (v->kind == VK_TEMP && !v->internal &&
                !holds(m, place_of(v, element(p, op->in[k], l))))
                m->error = text_print("%s of %s reads %s, which is overwritten",
                                      kernel_row[group->kernel].name, p->name, v->name);
        }
        for (int k = 0; k < op->nout; k++) {
            if (op->out[k].v->kind != VK_TEMP || op->out[k].v->internal)
                continue;
            Owner w = place_of(op->out[k].v, element(p, op->out[k], l));
            /* a kernel may write any output before it has read every input */
            for (int i = 0; i < group->nops; i++)
                for (int n = 0; n < p->ops[group->first_op + i].nin; n++) {
                    Ref in = p->ops[group->first_op + i].in[n];
                    if (in.v->internal || in.v == op->out[k].v || in.v->kind != VK_TEMP)
                        continue;
                    Owner r = place_of(in.v, element(p, in, l));
                    if (overlap(&r, &w) && !may_share(p, group, op->out[k], in))
                        m->error = text_print("%s of %s writes %s over its input %s",
                                              kernel_row[group->kernel].name, p->name,
                                              op->out[k].v->name, in.v->name);
                }
            write_element(m, w);
        }
    }
}

/* Runs a program once with the values' present storages and offsets. NULL, or what fails. */
static char *run_program(const Program *p)
{
    Memory m = {0};
    for (int k = 0, next; k < p->ngroups && !m.error; k = next) {
        int region = p->groups[k].region;
        for (next = k + 1; region && next < p->ngroups && p->groups[next].region == region; next++)
            ;
        int64_t turns = region ? p->region[region].count.n : 1;
        turns = turns > TURNS ? TURNS : turns;
        for (int64_t t = 0; t < turns; t++)
            for (int q = k; q < next && !m.error; q++)
                run_group(&m, p, &p->groups[q],
                          region && p->region[region].reverse ? turns - 1 - t : t, turns);
    }
    return m.error;
}

static char *run_programs(const Graph *g)
{
    char *error = NULL;
    for (int i = 0; i < g->nprograms && !error; i++)
        error = run_program(g->programs[i]);
    return error;
}

/* ---- storages -------------------------------------------------------------------------------- */

/* Sums over all values, of at most 16 bytes an element, stay below 2^63. */
static const int64_t MAX_ELEMENTS = (int64_t)1 << 46;
enum { MAX_VALUES = 1 << 12 };

static bool stored(const Value *v) { return !v->internal; }

/* Elements of a slot, with its padding, which stays 0 as all gaps between persistent values do. A
 * divided value has room for the parts of all ranks, or for the rank's own. */
static int64_t room_elements(const Graph *g, const Value *v)
{
    if (v->part)
        return value_is_own_part(v) ? v->part : v->part * g->ranks;
    return is_persistent(g, v) || v->purpose == PU_gradients ? value_room(g, v) : value_elements(v);
}

static void set_storages(Graph *g)
{
    if (g->nvalues > MAX_VALUES)
        bug("%d values", g->nvalues);
    for (int i = 0; i < g->nvalues; i++) {
        Value *v = g->values[i];
        if (value_elements(v) > MAX_ELEMENTS / v->slots)
            err(v->loc, "%s has %" PRId64 " x %" PRId64 " elements: more than a plan can hold",
                v->name, v->slots, value_elements(v));
        /* counted in elements, so that weights, moments and gradients of any width have one
         * layout */
        int64_t unit = v->purpose == PU_workspace ? g->target->align : g->target->align / 2;
        v->storage = i;
        v->stride = (room_elements(g, v) + unit - 1) / unit * unit * dtype_bytes[v->dtype];
        v->arena = !stored(v) ? NULL : v->pinned ? "pinned" : "device";
    }
}

static void join(Graph *g, const Value *a, const Value *b)
{
    int64_t slots = a->slots > b->slots ? a->slots : b->slots;
    int64_t stride = a->stride > b->stride ? a->stride : b->stride;
    int from = b->storage, to = a->storage;
    for (int i = 0; i < g->nvalues; i++)
        if (g->values[i]->storage == from || g->values[i]->storage == to) {
            g->values[i]->storage = to;
            g->values[i]->slots = slots;
            g->values[i]->stride = stride;
        }
}

/* Joins an output with an input where the kernel allows it and the programs still run; a kernel
 * that takes one buffer for both (:=) requires it. */
static void merge_in_place(Graph *g)
{
    Value *saved = arena_new(sizeof(Value) * (size_t)g->nvalues);
    for (int i = 0; i < g->nprograms; i++)
        for (int k = 0; k < g->programs[i]->ngroups; k++) {
            const Program *p = g->programs[i];
            const Group *group = &p->groups[k];
            for (const char *w = kernel_row[group->kernel].inplace; *w;) {
                Ref out = kernel_operand(p, group, w);
                const char *equals = strchr(w, '=');
                Ref in = kernel_operand(p, group, equals + 1);
                bool must = equals[-1] == ':';
                w = equals + strcspn(equals, " ");
                w += *w == ' ';
                if (out.v->storage == in.v->storage)
                    continue;
                bool fit = out.v->kind == VK_TEMP && in.v->kind == VK_TEMP && stored(out.v) &&
                           stored(in.v) && value_bytes(out.v) == value_bytes(in.v) &&
                           (must || !out.v->count == !in.v->count);   /* may one share an array */
                for (int n = 0; n < g->nvalues; n++)
                    saved[n] = *g->values[n];
                if (fit)
                    join(g, in.v, out.v);
                /* both are of this program alone */
                char *error = fit ? run_program(p) : text_copy("they are not alike");
                if (!error)
                    continue;
                if (must)
                    bug("%s needs %s in the place of %s: %s", kernel_row[group->kernel].name,
                        out.v->name, in.v->name, error);
                for (int n = 0; n < g->nvalues; n++)
                    *g->values[n] = saved[n];
            }
        }
}

static int add_once(Value **order, int n, Value *v)
{
    for (int i = 0; i < n; i++)
        if (order[i] == v)
            return n;
    order[n] = v;
    return n + 1;
}

/* Every value once; those that must be contiguous for one call come first, in its order. Gradients
 * have that of the graph, one parameter group after the other. */
static Value **layout_order(const Graph *g)
{
    Value **order = arena_new(sizeof *order * (size_t)g->nvalues);
    int n = 0;
    for (int i = 0; i < g->nprograms; i++)
        for (int k = 0; k < g->programs[i]->ngroups; k++) {
            const Group *group = &g->programs[i]->groups[k];
            const Op *op = &g->programs[i]->ops[group->first_op];
            const bool in_row = kernel_repeats(&kernel_row[group->kernel]);
            for (int o = 0; in_row && o < op->nin + op->nout; o++)
                for (int j = 0; j < group->nops; j++)
                    if (!value_is_gradient(operand(&op[j], o).v))
                        n = add_once(order, n, operand(&op[j], o).v);
        }
    for (int i = 0; i < g->nvalues; i++)
        n = add_once(order, n, g->values[i]);
    return order;
}

/* Persistent values come first, one purpose after the other, so that the gradients of a group are
 * one block. Pinned ones have memory of their own. */
static int64_t place_persistent(const Graph *g)
{
    Value **order = layout_order(g);
    int64_t top = 0, pinned = 0;
    for (int purpose = 0; purpose < NPURPOSES; purpose++)
        for (int i = 0; i < g->nvalues; i++) {
            Value *v = order[i];
            if ((int)v->purpose != purpose || !is_persistent(g, v))
                continue;
            int64_t *end = v->pinned ? &pinned : &top;
            v->offset = *end = (*end + g->target->align - 1) / g->target->align * g->target->align;
            v->first = 0;
            v->last = INT32_MAX;
            *end += v->slots * v->stride;
        }
    return top;
}

static void place_others(Graph *g, int64_t base)
{
    PackBuffer *buffer = arena_new(sizeof(PackBuffer) * (size_t)g->nvalues);
    int *of = arena_new(sizeof(int) * (size_t)g->nvalues), n = 0;
    for (int i = 0; i < g->nvalues; i++) {
        Value *v = g->values[i];
        of[i] = -1;
        if (is_persistent(g, v) || !stored(v))
            continue;
        for (int j = 0; j < i && of[i] < 0; j++)
            if (of[j] >= 0 && g->values[j]->storage == v->storage)
                of[i] = of[j];
        if (of[i] < 0) {
            buffer[of[i] = n++] = (PackBuffer){.lower = v->first,
                                               .upper = v->last + 1,
                                               .size = v->slots * v->stride,
                                               .align = g->target->align,
                                               .offset = -1};
            continue;
        }
        PackBuffer *b = &buffer[of[i]];
        b->lower = v->first < b->lower ? v->first : b->lower;
        b->upper = v->last + 1 > b->upper ? v->last + 1 : b->upper;
    }
    PackResult result = packing_run(buffer, n, 0);
    const char *fault = packing_verify(buffer, n);
    if (fault)
        bug("packing: %s", fault);
    for (int i = 0; i < g->nvalues; i++)
        if (of[i] >= 0) {
            g->values[i]->offset = base + buffer[of[i]].offset;
            g->values[i]->first = (int)buffer[of[i]].lower;
            g->values[i]->last = (int)buffer[of[i]].upper - 1;
        }
    g->persistent_bytes = base;
    g->arena_bytes = base + result.peak;
    g->lower_bound = base + result.bound;
    g->plan_method = result.method;
}

/* The groups of one loop, or between two, share one workspace: their calls never overlap. */
static void add_workspaces(Graph *g)
{
    for (int i = 0; i < g->nprograms; i++) {
        const Program *p = g->programs[i];
        for (int k = 0, stretch = 0; k < p->ngroups; k++) {
            Group *group = &p->groups[k];
            stretch += k && group->region != group[-1].region;
            if (!group->workspace)
                continue;
            Dim d = {group->workspace, "bytes"};
            const char *name = text_print("ws.%s.%d", p->name, stretch);
            Value *ws = ir_value(g, name);
            if (!ws) {
                ws = ir_new(g, VK_TEMP, PU_workspace, DT_U8, name, 1, &d,
                            p->ops[group->first_op].loc);
                ws->place = PL_REP;
            }
            if (ws->dim[0].n < d.n)
                ws->dim[0].n = d.n;
            widen(group->ws = ws, (Span){group->pos, group->pos});
        }
    }
}

void plan_run(Graph *g)
{
    set_life(g);
    add_workspaces(g);
    set_storages(g);
    char *error = run_programs(g);
    if (error)
        bug("before any merge: %s", error);
    merge_in_place(g);
    place_others(g, place_persistent(g));
    for (int i = 0; i < g->nvalues; i++)
        g->values[i]->storage = 0;           /* all lie in the arena now */
    g->room = "plan";
}

static void check_life(const Graph *g, const Program *p, const Group *group)
{
    for (int j = 0; j < group->nops; j++) {
        const Op *op = &p->ops[group->first_op + j];
        for (int k = 0; k < op->nin + op->nout; k++) {
            const Value *v = operand(op, k).v;
            Span s = is_persistent(g, v) ? (Span){0, INT32_MAX} : life(p, op, operand(op, k));
            if (stored(v) && (v->first > s.first || v->last < s.last))
                bug("%s is used at %d..%d, but live at %d..%d", v->name, s.first, s.last, v->first,
                    v->last);
        }
    }
    const Value *ws = group->ws;
    if (group->workspace && (!ws || ws->first > group->pos || ws->last < group->pos ||
                             value_bytes(ws) < group->workspace))
        bug("group %d of %s lacks its workspace", (int)(group - p->groups), p->name);
}

/* Where one call covers several ops, each operand's values are contiguous in the order of the ops,
 * except those that the ops share. From one op to the next, all operands are the same number of
 * elements apart. */
static void check_span(const Program *p, const Group *group)
{
    const Op *op = &p->ops[group->first_op];
    for (int j = 1; kernel_repeats(&kernel_row[group->kernel]) && j < group->nops; j++) {
        int64_t apart = 0;
        for (int o = 0; o < op->nin + op->nout; o++) {
            const Value *v = operand(&op[j - 1], o).v, *w = operand(&op[j], o).v;
            int64_t elements = v->slots * v->stride / dtype_bytes[v->dtype];
            if (v == w)
                continue;
            if (w->offset != v->offset + v->slots * v->stride || (apart && elements != apart))
                bug("%s and %s do not lie side by side", v->name, w->name);
            apart = elements;
        }
    }
}

/* Where one call takes all gradients of an op from the first to the last, no other value is between
 * them. */
static void check_side(const Group *group, const Op *op)
{
    int64_t begin = INT64_MAX, end = 0, bytes = 0;
    const int n = op->nin ? op->nin : op->nout;
    for (int k = 0; k < n; k++) {
        const Value *v = operand(op, k).v;
        if (!value_is_gradient(v))
            continue;
        const int64_t all = v->slots * v->stride;
        begin = v->offset < begin ? v->offset : begin;
        end = v->offset + all > end ? v->offset + all : end;
        bytes += all;
    }
    if (strstr(kernel_row[group->kernel].args, "{side}") && bytes != end - begin)
        bug("gradients of %s do not lie side by side", kernel_row[group->kernel].name);
}

/* True for values that were merged in place. Values that one program leaves for another, and
 * workspaces, are never shared. */
static bool same_storage(const Value *v, const Value *w)
{
    return v->kind == VK_TEMP && w->kind == VK_TEMP && v->purpose != PU_workspace &&
           w->purpose != PU_workspace && v->offset == w->offset && v->slots == w->slots &&
           v->stride == w->stride;
}

static bool overlaps(const Value *v, const Value *w)
{
    return v->pinned == w->pinned && v->first <= w->last && w->first <= v->last &&
           v->offset < w->offset + w->slots * w->stride &&
           w->offset < v->offset + v->slots * v->stride;
}

/* Nothing that is needed is overwritten; offsets are aligned and inside the arena; what a kernel
 * treats as one block is contiguous. */
void check_plan(const Graph *g)
{
    check_ops(g);
    char *error = run_programs(g);
    if (error)
        bug("plan: %s", error);
    for (int i = 0; i < g->nprograms; i++)
        for (int k = 0; k < g->programs[i]->ngroups; k++)
            check_life(g, g->programs[i], &g->programs[i]->groups[k]),
                check_span(g->programs[i], &g->programs[i]->groups[k]),
                check_side(&g->programs[i]->groups[k],
                           &g->programs[i]->ops[g->programs[i]->groups[k].first_op]);
    const Value *before = NULL;
    for (int i = 0; i < g->nvalues; i++) {
        const Value *v = g->values[i];
        if (!stored(v))
            continue;
        if (v->offset < 0 || v->offset % g->target->align ||
            v->offset + v->slots * v->stride >
                (v->pinned ? graph_pinned_bytes(g) : g->arena_bytes))
            bug("%s is at %" PRId64 ", outside or not aligned", v->name, v->offset);
        if (room_elements(g, v) * dtype_bytes[v->dtype] > v->stride)
            bug("%s is larger than its slot", v->name);
        if (v->part && v->stride % (v->part * dtype_bytes[v->dtype]))
            bug("%s has a stride of other than whole parts", v->name);
        if (value_is_gradient(v)) {
            if (before && value_same_set(before, v) &&
                before->offset + before->slots * before->stride != v->offset)
                bug("gradients %s and %s do not lie side by side", before->name, v->name);
            before = v;
        }
        for (int j = 0; j < i; j++)
            if (stored(g->values[j]) && !same_storage(v, g->values[j]) && overlaps(v, g->values[j]))
                bug("%s and %s overlap", v->name, g->values[j]->name);
    }
}
