/* order.c -- schedules: the order in which programs run, and what follows from it.
 *
 * In:    programs.
 * Out:   schedules, verified by check_schedules(); beta of each gradient write (overwrite or add).
 * Method: a value is followed through a schedule; a repeated program is visited twice. */
#include "gen/graph/graph.h"

#include <inttypes.h>
#include <string.h>

Schedule *ir_schedule(Graph *g, const char *name, const char *about)
{
    Schedule *s = arena_new(sizeof *s);
    s->name = text_copy(name);
    s->about = text_copy(about);
    g->schedules = ir_one_more(g->schedules, g->nschedules);
    return g->schedules[g->nschedules++] = s;
}

static void add_item(Schedule *s, Item item)
{
    s->item = arena_grow(s->item, sizeof item * (size_t)s->nitems,
                         sizeof item * (size_t)(s->nitems + 1));
    s->item[s->nitems++] = item;
}

void schedule_run(Schedule *s, Program *p, int64_t times) { add_item(s, (Item){p, NULL, times}); }
void schedule_clear(Schedule *s, Value *v) { add_item(s, (Item){NULL, v, 1}); }

void schedule_result(Schedule *s, Value *v)
{
    s->result = ir_one_more(s->result, s->nresults);
    s->result[s->nresults++] = v;
}

bool schedule_at_start(const Schedule *s)
{
    return s->nitems && s->item[0].program && s->item[0].program->role == ROLE_tables;
}

int64_t program_times(const Graph *g, const Program *p)
{
    for (int i = 0; i < g->nschedules; i++)
        for (int k = 0; k < g->schedules[i]->nitems; k++)
            if (g->schedules[i]->item[k].program == p)
                return g->schedules[i]->item[k].times;
    return 1;
}

/* True if the op updates a parameter by a gradient that only its program holds. */
static bool updates_within(const Op *op)
{
    return op->nin && op->nout && op->in[0].v->kind == VK_TEMP &&
           op->in[0].v->purpose == PU_gradients && op->out[0].v->kind == VK_PARAM;
}

bool program_updates(const Program *p)
{
    bool found = p->role == ROLE_update;
    for (int i = 0; i < p->nops; i++)
        found |= updates_within(&p->ops[i]);
    return found;
}

bool program_communicates(const Program *p)
{
    for (int i = 0; i < p->nops; i++)
        if (op_is_collective(p->ops[i].kind))
            return true;
    return false;
}

int64_t program_micros(const Program *p)
{
    for (int i = 0; i < p->nops; i++)
        for (int k = 0; k < p->ops[i].nin; k++)
            if (p->ops[i].in[k].index == IX_MICRO)
                return p->ops[i].in[k].v->count;
    return 1;
}

/* ---- following a value ----------------------------------------------------------------------- */

static bool lists(const Ref *list, int n, const Value *v)
{
    for (int i = 0; i < n; i++)
        if (list[i].v == v)
            return true;
    return false;
}

/* First and last element that the op's reference to v means over all turns of its loop. */
static void elements_of(const Program *p, const Op *op, const Value *v, int64_t *first,
                        int64_t *last)
{
    const int64_t most = v->count ? v->count - 1 : 0;
    *first = 0, *last = most;
    for (int k = 0; k < op->nout; k++) {
        const Ref r = op->out[k];
        if (r.v != v || (r.index != IX_CONST && r.index != IX_LOOP))
            continue;
        *first = r.k > 0 ? r.k : 0;
        *last = r.index == IX_CONST ? r.k : p->region[op->region].count.n - 1 + r.k;
        *last = *last < most ? *last : most;
    }
}

/* True if an op before op `at` writes an element of v that this one writes, too. */
static bool writes_again(const Program *p, int at, const Value *v)
{
    int64_t first, last, from, to;
    elements_of(p, &p->ops[at], v, &first, &last);
    for (int i = 0; i < at; i++) {
        if (!lists(p->ops[i].out, p->ops[i].nout, v))
            continue;
        elements_of(p, &p->ops[i], v, &from, &to);
        if (from <= last && first <= to)
            return true;
    }
    return false;
}

/* State of a value during a schedule. */
typedef struct {
    bool there;              /* written or cleared */
    bool used;               /* used as a complete gradient: the next write starts a new one */
} State;

/* Follows the value through one turn of a program. Returns NULL, or what is wrong. */
static char *follow_turn(Program *p, const Value *v, State *now, bool set)
{
    bool whole = p->role == ROLE_reduce || p->role == ROLE_update;
    const State before = *now;
    for (int i = 0; i < p->nops; i++) {
        Op *op = &p->ops[i];
        const char *name = op_row[op->kind].name;
        if (lists(op->in, op->nin, v)) {
            if (!now->there)
                return text_print("%s in %s reads %s before it is written", name, p->name, v->name);
            now->used |= whole;
        }
        if (!lists(op->out, op->nout, v))
            continue;
        const State *was = writes_again(p, i, v) ? now : &before;
        bool adds = was->there && !was->used;
        for (int k = 0; k < op->nattr; k++) {
            Attr *beta = &op->attr[k];
            if (strcmp(beta->key, "beta"))
                continue;
            if (set)
                beta->i = adds;
            if (beta->i != adds)
                return text_print("%s in %s %s %s, with beta %" PRId64, name, p->name,
                                  adds ? "comes after another write of" : "is the first write of",
                                  v->name, beta->i);
        }
        *now = (State){true, now->used && whole};
    }
    return NULL;
}

/* Follows v through a schedule; returns true if it was written. */
static bool follow(const Schedule *s, const Value *v, bool set)
{
    State now = {0};
    for (int i = 0; i < s->nitems; i++) {
        const Item *item = &s->item[i];
        if (item->clears == v)
            now = (State){true, false};
        for (int turn = 0; item->program && turn < 2 && turn < item->times; turn++) {
            char *fault = follow_turn(item->program, v, &now, set && !turn);
            if (fault)
                bug("schedule %s: %s", s->name, fault);
        }
    }
    return now.there;
}

/* Follows what a program alone writes, a micro-batch's gradient, through one turn. */
static void follow_program(Program *p, const Value *v, bool set)
{
    State now = {0};
    char *fault = follow_turn(p, v, &now, set);
    if (fault)
        bug("program %s: %s", p->name, fault);
}

static bool is_of_micro(const Value *v)
{
    return v->kind == VK_TEMP && v->purpose == PU_gradients;
}

void schedule_betas(Graph *g)
{
    for (int i = 0; i < g->nprograms; i++)
        for (int k = 0; k < g->nvalues; k++)
            if (is_of_micro(g->values[k]))
                follow_program(g->programs[i], g->values[k], true);
    for (int i = 0; i < g->nschedules; i++)
        for (int k = 0; k < g->nvalues; k++)
            if (value_is_gradient(g->values[k]))
                follow(g->schedules[i], g->values[k], true);
}

/* ---- the contract ---------------------------------------------------------------------------- */

/* Role of programs that have this op; NROLES: any. */
static Role role_of(const Op *op)
{
    if (op->kind == OP_zero)
        return ROLE_clear;
    if (updates_within(op) || (op->kind == OP_partial_norm && is_of_micro(op->in[0].v)))
        return ROLE_gradients;   /* an update inside the backward pass, and its norm */
    if (op->kind == OP_grad_norm || op->kind == OP_grad_squares || op->kind == OP_partial_norm)
        return ROLE_reduce;
    if (op_is_update(op->kind))
        return ROLE_update;
    return op_attr(op, "beta") ? ROLE_gradients : NROLES;
}

bool schedule_clears(const Graph *g, const Value *v)
{
    for (int i = 0; i < g->nschedules; i++)
        for (int k = 0; k < g->schedules[i]->nitems; k++)
            if (g->schedules[i]->item[k].clears == v)
                return true;
    return false;
}

/* True if an op reads this element of a parameter in another turn of the loop that updates it, or
 * after the update. */
static bool reads_late(const Program *p, int update, Ref w, int i)
{
    const Op *op = &p->ops[i];
    const bool again = p->ops[update].region && op->region == p->ops[update].region;
    for (int k = 0; k < op->nin; k++) {
        const Ref r = op->in[k];
        if (r.v == w.v && (i > update || (again && (r.index != w.index || r.k != w.k))))
            return true;
    }
    return false;
}

/* Checks that nothing reads a weight that was updated inside the backward pass, until the schedule
 * ends, that its gradient was complete, and that it is updated once. */
static void check_updated(const Graph *g, const Program *p, int update, Ref w)
{
    const char *name = op_row[p->ops[update].kind].name;
    const Value *gradient = p->ops[update].in[0].v;
    for (int i = 0; i < p->nops; i++) {
        const Op *op = &p->ops[i];
        if (reads_late(p, update, w, i))
            bug("%s in %s reads %s after its %s", op_row[op->kind].name, p->name, w.v->name, name);
        if (i > update && lists(op->out, op->nout, gradient))
            bug("%s in %s writes %s after %s of %s", op_row[op->kind].name, p->name,
                gradient->name, name, w.v->name);
    }
    if (w.v->count && w.index != IX_LOOP && w.index != IX_NONE)
        bug("%s in %s updates a part of %s", name, p->name, w.v->name);
    for (int i = 0; i < g->nschedules; i++) {
        bool after = false;
        for (int k = 0; k < g->schedules[i]->nitems; k++) {
            const Item *item = &g->schedules[i]->item[k];
            for (int j = 0; item->program && after && j < item->program->nops; j++)
                if (lists(item->program->ops[j].in, item->program->ops[j].nin, w.v))
                    bug("%s of schedule %s reads %s, which %s has updated", item->program->name,
                        g->schedules[i]->name, w.v->name, p->name);
            if (item->program == p && item->times > 1)
                bug("%s updates %s in each of %" PRId64 " turns", p->name, w.v->name, item->times);
            after |= item->program == p;
        }
    }
}

static void check_updates(const Graph *g, const Program *p)
{
    for (int i = 0; i < p->nops; i++)
        if (updates_within(&p->ops[i]))
            check_updated(g, p, i, p->ops[i].out[0]);
}

/* Checks that a program's ops match its role, that it is in a schedule, and that every schedule
 * repeats it once per micro-batch it reads. */
static void check_program(const Graph *g, const Program *p)
{
    for (int i = 0; i < p->nops; i++) {
        Role role = role_of(&p->ops[i]);
        for (int k = 0; k < p->ops[i].nout; k++) {
            const Ref r = p->ops[i].out[k];
            if (schedule_clears(g, r.v) && r.v->count && r.index == IX_NONE)
                bug("%s in %s adds to %s, of which each micro-batch has one",
                    op_row[p->ops[i].kind].name, p->name, r.v->name);
        }
        if (p->ops[i].kind == OP_partial_norm && !schedule_clears(g, p->ops[i].out[1].v))
            bug("%s in %s adds to %s, which no schedule clears", op_row[p->ops[i].kind].name,
                p->name, p->ops[i].out[1].v->name);
        if (role != NROLES && role != p->role)
            bug("%s in %s, whose role is %s", op_row[p->ops[i].kind].name, p->name,
                role_name[p->role]);
    }
    int64_t times = program_times(g, p), count = program_micros(p);
    if (times != count)
        bug("%s occurs %" PRId64 " times in a schedule, but has %" PRId64 " micro-batches", p->name,
            times, count);
    bool stands = false;
    for (int i = 0; i < g->nschedules; i++)
        for (int k = 0; k < g->schedules[i]->nitems; k++) {
            const Item *item = &g->schedules[i]->item[k];
            if (item->program != p)
                continue;
            stands = true;
            if (item->times != times)
                bug("%s occurs %" PRId64 " and %" PRId64 " times in schedules", p->name, times,
                    item->times);
            if ((p->role == ROLE_tables) != schedule_at_start(g->schedules[i]))
                bug("%s of schedule %s: tables are made at start, by a schedule of their own",
                    p->name, g->schedules[i]->name);
        }
    if (!stands)
        bug("program %s is in no schedule", p->name);
}

/* Checks that results were written in the same schedule and not read before. */
void check_schedules(const Graph *g)
{
    for (int i = 0; i < g->nprograms; i++) {
        check_program(g, g->programs[i]);
        check_updates(g, g->programs[i]);
        for (int k = 0; k < g->nvalues; k++)
            if (is_of_micro(g->values[k]))
                follow_program(g->programs[i], g->values[k], false);
    }
    for (int i = 0; i < g->nschedules; i++) {
        const Schedule *s = g->schedules[i];
        if (s->captured && (strcmp(g->target->backend, "cuda") || schedule_at_start(s)))
            bug("schedule %s: only a GPU captures, and nothing that is done once", s->name);
        for (int k = 0; k < g->nvalues; k++)
            if (value_is_gradient(g->values[k]))
                follow(s, g->values[k], false);
        for (int k = 0; k < s->nresults; k++)
            if (!follow(s, s->result[k], false))
                bug("schedule %s does not write its result %s", s->name, s->result[k]->name);
    }
}
