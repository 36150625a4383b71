/* part.c -- who holds what: placements, and collectives where a reader needs another one.
 *
 * In:    groups; the placements of inputs.   Out: those of all values; collectives between groups.
 * Keeps: every rank runs the same sequence of collectives; one rank needs none.
 * Method: ops.def gives the placements that an op reads and writes, part.def the collective that
 *         makes another one; the schedules are run on placements until all readers have theirs. */
#include "gen/graph/kernels.h"
#include "gen/lower/lower.h"

#include <inttypes.h>
#include <string.h>

static const char *const state_name[] = {"placed nowhere", "whole on every rank", "divided",
                                         "partial", "in parts", "being summed",
                                         "being summed in parts", "being gathered"};

typedef enum { WHEN_read, WHEN_early, WHEN_written, WHEN_into, WHEN_ahead } When;

/* A row MOVE of part.def. */
typedef struct {
    Purpose purpose;
    Placement from, to;
    int op;
    When when;
    int setting;                /* the recipe field whose line the op carries */
} Move;

static const Move moves[] = {
#define REST(purpose, whole, gathered, divided, doc)
#define MOVE(purpose, from, to, op, when, field, doc) \
    {PU_##purpose, PL_##from, PL_##to, OP_##op, WHEN_##when, SETTING_##field},
#include "gen/lower/part.def"
#undef REST
#undef MOVE
};
enum { MOVES = sizeof moves / sizeof moves[0] };

static Placement at_rest(const Value *v)
{
    static const Placement rest[NPURPOSES][3] = {
#define REST(purpose, whole, gathered, divided, doc) \
    [PU_##purpose] = {PL_##whole, PL_##gathered, PL_##divided},
#define MOVE(purpose, from, to, op, when, field, doc)
#include "gen/lower/part.def"
#undef REST
#undef MOVE
    };
    return v->kind == VK_TEMP ? PL_NONE : rest[v->purpose][!v->part ? 0 : v->gathered ? 1 : 2];
}

/* ---- the column place of ops.def ------------------------------------------------------------- */

/* Returns the letter of the op's operand k; the last one is that of all operands after it, too. */
static char letter(const Op *op, bool out, int k)
{
    static struct { const char *text; int n; } sides[NOPS][2];
    if (!sides[op->kind][out].text) {
        const char *text = op_row[op->kind].place;
        text = out ? strchr(text, '>') + 1 : text;
        sides[op->kind][out].text = text;
        sides[op->kind][out].n = (int)strcspn(text, "-");
    }
    const int n = sides[op->kind][out].n, at = op_row_operand(op, out, k);
    return sides[op->kind][out].text[at < n ? at : n - 1];
}

/* How the op's rows are placed, or the sums that it is linear in. */
static Placement rows_of(const Op *op)
{
    for (int k = 0; k < op->nin; k++) {
        const char c = letter(op, false, k);
        if (c == 'r' || c == 'l')
            return op->in[k].v->place;
    }
    return PL_REP;
}

static Placement meaning(char letter, const Op *op, const Value *v)
{
    Placement rows = rows_of(op);
    switch (letter) {
    case 'w': return PL_REP;
    case 'r': case 'l': return rows;
    case 's': return rows == PL_SHARD ? PL_PARTIAL : rows;
    case '0': case 'f': return v->place;
    case 'e': case 'o': return v->part ? PL_PARTS : PL_REP;
    case 'p': return PL_PARTIAL;
    case 'd': return PL_PARTS;
    case 'b': return PL_BEGUN;
    case 't': return PL_SCATTERING;
    case 'g': return PL_GATHERING;
    }
    bug("ops.def: %s has the place %s", op_row[op->kind].name, op_row[op->kind].place);
}

/* A value that part.def does not place has the placement of the first op that writes it. */
static void place_values(Graph *g)
{
    for (int i = 0; i < g->nvalues; i++)
        if (g->values[i]->kind != VK_INPUT)
            g->values[i]->place = at_rest(g->values[i]);
    for (int i = 0; i < g->nprograms; i++)
        for (int j = 0; j < g->programs[i]->nops; j++) {
            const Op *op = &g->programs[i]->ops[j];
            for (int k = 0; k < op->nout; k++) {
                Value *v = op->out[k].v;
                if (!v->place)
                    v->place = meaning(letter(op, true, k), op, v);
            }
        }
}

/* ---- running the programs on placements ------------------------------------------------------ */

/* An op's use of an operand, the same in every turn. */
typedef struct {
    unsigned char place;     /* required of an input, result of an output */
    bool adds;               /* the output is a sum that it adds to */
    bool stuck;              /* no collective brings the output back to where it rests */
} Operand;

/* Properties of an op that hold in every turn. */
typedef struct {
    Operand *in, *out;
    bool last, may_skip;     /* has the attribute `last`, `if` */
} Step;

/* The placement of every element of every value at a point of the run; the first error. */
typedef struct {
    const Graph *g;
    unsigned char **now;     /* [value][element] */
    bool *moves;             /* [value]: an op begins to move it */
    Step **step;             /* [program][op] of the graph */
    Program *p;              /* NULL: none */
    const Op *op;
    const Value *v;
    const char *does;        /* "reads" */
    Placement found, wanted;
} Run;

static unsigned char *elements_of(const Run *r, const Value *v)
{
    return r->now[v->index];
}

/* The elements that a reference means in turn l: first to last. */
static int64_t first_of(Ref x, int64_t l)
{
    return x.index == IX_LOOP ? l + x.k : x.index == IX_CONST ? x.k : 0;
}

static int64_t last_of(Ref x, int64_t l)
{
    bool all = x.index == IX_NONE || x.index == IX_MICRO;
    return all && x.v->count ? x.v->count - 1 : first_of(x, l);
}

/* A rank that holds the whole value also holds its part. */
static bool satisfies(Placement found, Placement wanted)
{
    return found == wanted || (wanted == PL_PARTS && found == PL_REP);
}

/* True if all of x has the required placement; else records the error. */
static bool is_at(Run *r, Program *p, const Op *op, Ref x, int64_t l, const char *does,
                  Placement wanted)
{
    const unsigned char *now = elements_of(r, x.v);
    for (int64_t i = first_of(x, l); i <= last_of(x, l); i++)
        if (!satisfies(now[i], wanted)) {
            r->p = p, r->op = op, r->v = x.v, r->does = does;
            r->found = now[i], r->wanted = wanted;
            return false;
        }
    return true;
}

static bool is_moving(Placement place) { return place >= PL_BEGUN; }

/* The placement of another element of v in the slot of element i, if it is being moved; PL_NONE:
 * none is. */
static Placement moving_in_slot(const Run *r, const Value *v, int64_t i)
{
    const unsigned char *now = elements_of(r, v);
    if (v->kind != VK_TEMP || !r->moves[v->index])
        return PL_NONE;
    for (int64_t k = i % v->slots; k < v->count; k += v->slots)
        if (k != i && is_moving(now[k]))
            return now[k];
    return PL_NONE;
}

/* The collective that brings v back to where it rests after an op left it at `made`; NULL: none
 * does. */
static const Move *move_back(const Value *v, Placement made)
{
    for (const Move *move = moves; move < moves + MOVES; move++)
        if (move->when == WHEN_written && move->purpose == v->purpose && move->from == made &&
            move->to == v->place)
            return move;
    return NULL;
}

static Step step_of(const Op *op)
{
    const Attr *beta = op_attr(op, "beta");
    const Placement rows = rows_of(op);
    const bool collective = op_is_collective(op->kind);
    Step s = {.in = arena_new(sizeof *s.in * (size_t)(op->nin + op->nout)),
              .last = op_attr(op, "last"), .may_skip = op_attr(op, "if")};
    s.out = s.in + op->nin;
    for (int k = 0; k < op->nin; k++) {
        const char c = letter(op, false, k);
        s.in[k].place = c == 'r' && rows == PL_PARTIAL ? PL_REP : meaning(c, op, op->in[k].v);
    }
    for (int k = 0; k < op->nout; k++) {
        const Value *v = op->out[k].v;
        const char c = letter(op, true, k);
        const Placement made = meaning(c, op, v);
        s.out[k] = (Operand){
            .place = made,
            .adds = !collective && c != '0' && !(beta && !beta->i) && v->kind != VK_TEMP,
            .stuck = !collective && made != v->place && !move_back(v, made)};
    }
    return s;
}

static void run_op(Run *r, Program *p, const Op *op, const Step *s, int64_t l)
{
    for (int k = 0; k < op->nin; k++)
        if (!is_at(r, p, op, op->in[k], l, "reads", s->in[k].place))
            return;
    for (int k = 0; k < op->nout; k++) {
        const Ref x = op->out[k];
        const Placement made = s->out[k].place;
        if (s->out[k].stuck) {
            r->p = p, r->op = op, r->v = x.v, r->does = "writes";
            r->found = x.v->place, r->wanted = made;
            return;
        }
        if (s->out[k].adds && !is_at(r, p, op, x, l, "adds to", made))
            return;
        const Placement moving = moving_in_slot(r, x.v, first_of(x, l));
        if (moving) {
            r->p = p, r->op = op, r->v = x.v, r->does = "writes over a tensor of";
            r->found = moving, r->wanted = x.v->place;
            return;
        }
        memset(elements_of(r, x.v) + first_of(x, l), made,
               (size_t)(last_of(x, l) - first_of(x, l) + 1));
    }
}

/* No temporary is being moved when its program ends. */
static void end_program(Run *r, Program *p)
{
    for (int i = 0; i < r->g->nvalues && !r->p; i++) {
        const Value *v = r->g->values[i];
        const int64_t n = v->kind == VK_TEMP && r->moves[i] ? v->count ? v->count : 1 : 0;
        for (int64_t k = 0; k < n; k++)
            if (is_moving(r->now[i][k])) {
                r->p = p, r->op = &p->ops[p->nops - 1], r->v = v, r->does = "leaves";
                r->found = r->now[i][k], r->wanted = v->place;
            }
    }
}

/* last: of the turns that a schedule gives it. */
static void run_program(Run *r, Program *p, const Step *step, bool last)
{
    for (int i = 0, next; i < p->nops; i = next) {
        int region = p->ops[i].region;
        for (next = i + 1; region && next < p->nops && p->ops[next].region == region; next++)
            ;
        int64_t turns = region ? p->region[region].count.n : 1;
        for (int64_t t = 0; t < turns; t++)
            for (int j = i; j < next; j++) {
                const int64_t l = region && p->region[region].reverse ? turns - 1 - t : t;
                if ((step[j].last && !last) ||
                    (step[j].may_skip && !op_runs(p, &p->ops[j], l, turns)))
                    continue;
                run_op(r, p, &p->ops[j], &step[j], l);
                if (r->p)
                    return;
            }
    }
    end_program(r, p);
}

static void set_steps(Run *r)
{
    const Graph *g = r->g;
    r->moves = arena_new(sizeof *r->moves * (size_t)g->nvalues);
    r->step = arena_new(sizeof *r->step * (size_t)g->nprograms);
    for (int i = 0; i < g->nprograms; i++) {
        const Program *p = g->programs[i];
        r->step[i] = arena_new(sizeof **r->step * (size_t)p->nops);
        for (int j = 0; j < p->nops; j++) {
            const Step s = r->step[i][j] = step_of(&p->ops[j]);
            for (int k = 0; k < p->ops[j].nout; k++)
                r->moves[p->ops[j].out[k].v->index] |= is_moving(s.out[k].place);
        }
    }
}

static const Step *steps_of(const Run *r, const Program *p)
{
    int i = 0;
    while (r->g->programs[i] != p)
        i++;
    return r->step[i];
}

/* Runs each schedule twice, the second time from the state after the first: two turns suffice. */
static Run run_placements(const Graph *g)
{
    Run r = {.g = g, .now = arena_new(sizeof *r.now * (size_t)g->nvalues)};
    for (int i = 0; i < g->nvalues; i++) {
        size_t n = g->values[i]->count ? (size_t)g->values[i]->count : 1;
        g->values[i]->index = i;
        memset(r.now[i] = arena_new(n), g->values[i]->place, n);
    }
    set_steps(&r);
    for (int i = 0; i < 2 * g->nschedules; i++) {
        const Schedule *s = g->schedules[i / 2];
        for (int k = 0; k < s->nitems; k++) {
            const Value *zero = s->item[k].clears;
            int turns = s->item[k].times > 1 ? 2 : 1;
            if (zero)
                memset(elements_of(&r, zero), zero->place, zero->count ? (size_t)zero->count : 1);
            for (int turn = 0; turn < turns && s->item[k].program && !r.p; turn++)
                run_program(&r, s->item[k].program, steps_of(&r, s->item[k].program),
                            turn == turns - 1);
        }
    }
    return r;
}

/* ---- collectives ----------------------------------------------------------------------------- */

static int row_of(const Graph *g, const Op *op)
{
    for (int i = 0; i < nkernels; i++)
        if (!strcmp(kernel_row[i].pattern, op_row[op->kind].name) &&
            !strcmp(kernel_row[i].backend, g->target->backend) && !kernel_row[i].fits(op))
            return i;
    bug("target %s has no %s", g->target->name, op_row[op->kind].name);
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
    groups[at] = (Group){.kernel = row_of(g, &op), .first_op = first, .nops = 1,
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

static Op collective(const Graph *g, const Move *move)
{
    Op op = {.kind = move->op, .loc = g->setting[move->setting].loc};
    if (op_takes(move->op, "bucket"))            /* may decide the order of additions: constant */
        op_int(&op, "bucket", g->setting[SETTING_comm_bucket_mib].i * (1 << 20) / 4);
    if (op_takes(move->op, "last"))
        op_int(&op, "last", 1);
    return op;
}

/* Returns the last group of the program that sums into v; -1: none does. */
static int last_writer(const Program *p, const Value *v)
{
    for (int i = p->nops - 1; i >= 0; i--)
        for (int k = 0; k < p->ops[i].nout; k++)
            if (p->ops[i].out[k].v == v && letter(&p->ops[i], true, k) == 's')
                return p->ops[i].group;
    return -1;
}

/* The last program of a schedule that sums into v; NULL: none does. */
static Program *last_program(const Schedule *s, const Value *v)
{
    for (int i = s->nitems - 1; i >= 0; i--)
        if (s->item[i].program && last_writer(s->item[i].program, v) >= 0)
            return s->item[i].program;
    return NULL;
}

static bool runs(const Schedule *s, const Program *p)
{
    for (int i = 0; i < s->nitems; i++)
        if (s->item[i].program == p)
            return true;
    return false;
}

/* True if each schedule that sums into v has a program after which its sum can begin: one that is
 * the last to do so in every schedule that runs it. */
static bool begins_early(const Graph *g, const Value *v)
{
    for (int i = 0; i < g->nschedules; i++) {
        const Program *last = last_program(g->schedules[i], v);
        for (int k = 0; last && k < g->nschedules; k++)
            if (runs(g->schedules[k], last) && last_program(g->schedules[k], v) != last)
                return false;
    }
    return true;
}

/* True if p is the last program of a schedule that sums into v. */
static bool is_last(const Graph *g, const Program *p, const Value *v)
{
    for (int i = 0; i < g->nschedules; i++)
        if (last_program(g->schedules[i], v) == p)
            return true;
    return false;
}

static void insert_early(Graph *g, const Move *move)
{
    for (int i = 0; i < g->nvalues; i++) {
        Value *v = g->values[i];
        if (v->purpose != move->purpose || v->place != move->from || !v->early ||
            !v->part != (move->to == PL_BEGUN) || !begins_early(g, v))
            continue;
        for (int j = 0; j < g->nprograms; j++) {
            Program *p = g->programs[j];
            int at = last_writer(p, v);
            if (at < 0 || !is_last(g, p, v))
                continue;
            Op op = collective(g, move);
            op.region = p->groups[at].region;
            op.stage = p->ops[p->groups[at].first_op].stage;
            op_in(&op, ref_loop(v, 0)), op_out(&op, ref_loop(v, 0));
            insert_group(g, p, at + 1, op);
        }
    }
}

/* Adds to the list the operands of the op that the row moves to the placement the op requires. */
static int add_moved(const Run *r, const Move *move, const Op *op, Value **list, int n)
{
    for (int k = 0; k < op->nin; k++) {
        Value *v = op->in[k].v;
        if (v->purpose == move->purpose && elements_of(r, v)[0] == move->from &&
            meaning(letter(op, false, k), op, v) == move->to)
            list[n++] = v;
    }
    return n;
}

/* Inserts, before the op that found a temporary, or an element of it, in another placement than it
 * requires, the collective that moves it. False: no row does, or the value outlives the program. */
static bool insert_move_within(Graph *g, const Run *r)
{
    for (const Move *move = moves; move < moves + MOVES; move++) {
        if (move->when != WHEN_read || move->to != r->wanted || move->from != r->found ||
            move->purpose != r->v->purpose || r->v->kind != VK_TEMP)
            continue;
        Op op = collective(g, move);
        for (int k = 0; k < r->op->nin; k++)
            if (r->op->in[k].v == r->v)
                op_in(&op, r->op->in[k]), op_out(&op, r->op->in[k]);
        const Attr *when = op_attr(r->op, "if");
        if (when && op_takes(move->op, "if"))
            op_word(&op, "if", when->word);
        op.region = r->op->region;
        op.stage = r->op->stage;
        insert_group(g, r->p, r->op->group, op);
        return true;
    }
    return false;
}

/* True if no other gradient lies between them: the plan keeps their order. */
static bool are_adjacent(const Graph *g, const Value *v, const Value *w)
{
    int i = 0;
    while (g->values[i] != v)
        i++;
    for (i++; i < g->nvalues && !value_is_gradient(g->values[i]); i++)
        ;
    return i < g->nvalues && g->values[i] == w;
}

/* Inserts, before the op that found a value in another placement than it requires, the collectives
 * that move all such operands of it and of the ops of its kind after it: one for a row's contiguous
 * values, or one a value. False: no row does. */
static bool insert_moves(Graph *g, const Run *r)
{
    if (r->op->region || r->v->kind == VK_TEMP)
        return insert_move_within(g, r);
    Program *p = r->p;
    const int first = (int)(r->op - p->ops), kind = r->op->kind;
    int at = r->op->group;
    bool found = false;
    for (const Move *move = moves; move < moves + MOVES; move++) {
        if (move->when != WHEN_read || move->to != r->wanted)
            continue;
        Value **list = arena_new(sizeof *list * (size_t)g->nvalues);
        int n = 0;
        for (int i = first; i < p->nops && p->ops[i].kind == kind && !p->ops[i].region; i++)
            n = add_moved(r, move, &p->ops[i], list, n);
        Op op = collective(g, move);
        for (int i = 0; i < n; i++) {
            op_in(&op, ref(list[i])), op_out(&op, ref(list[i]));
            if (i < n - 1 && op_takes_list(move->op) && are_adjacent(g, list[i], list[i + 1]))
                continue;
            insert_group(g, p, at++, op);
            op = collective(g, move);
        }
        found |= n > 0;
        if (n)
            break;               /* the ops have moved */
    }
    return found;
}

/* After each op that leaves a value elsewhere than at rest. */
static void insert_written(Graph *g)
{
    for (int i = 0; i < g->nprograms; i++) {
        Program *p = g->programs[i];
        for (int at = 0; at < p->ngroups; at++) {
            const Group group = p->groups[at];
            for (int j = group.first_op; j < group.first_op + group.nops; j++)
                for (int k = 0; k < p->ops[j].nout; k++) {
                    Value *v = p->ops[j].out[k].v;
                    const Placement made = meaning(letter(&p->ops[j], true, k), &p->ops[j], v);
                    const Move *move = op_is_collective(p->ops[j].kind) || made == v->place
                                           ? NULL
                                           : move_back(v, made);
                    if (!move)
                        continue;
                    Op op = collective(g, move);
                    op_in(&op, ref(v)), op_out(&op, ref(v));
                    insert_group(g, p, ++at, op);
                }
        }
    }
}

/* ---- divided weights ------------------------------------------------------------------------- */

/* True if the op requires all of x, or makes it. */
static bool wants_whole(const Op *op, const Value *x)
{
    for (int k = 0; k < op->nin + op->nout; k++) {
        const bool out = k >= op->nin;
        const int i = out ? k - op->nin : k;
        if ((out ? op->out[i] : op->in[i]).v == x && letter(op, out, i) == 'w')
            return true;
    }
    return false;
}

static void replace(Op *op, const Value *x, Value *full)
{
    for (int k = 0; k < op->nin; k++)
        if (op->in[k].v == x)
            op->in[k].v = full;
    for (int k = 0; k < op->nout; k++)
        if (op->out[k].v == x)
            op->out[k].v = full;
}

/* The first group from `from` on that reads v; -1: none. */
static int next_reader(const Program *p, const Value *v, int from)
{
    for (int j = 0; j < p->nops; j++)
        for (int k = 0; k < p->ops[j].nin && p->ops[j].group >= from; k++)
            if (p->ops[j].in[k].v == v)
                return p->ops[j].group;
    return -1;
}

/* The collective of divided weights in that case. */
static const Move *weights_move(When when)
{
    for (const Move *move = moves; move < moves + MOVES; move++)
        if (move->purpose == PU_weights && move->when == when)
            return move;
    bug("part.def has no such collective of weights");
}

/* Before group `at`, in its loop if the operands are a layer's; when: attribute `if`, or NULL. */
static void insert_gather(const Graph *g, Program *p, int at, When row, Ref from, Ref to,
                          const char *when)
{
    Op op = collective(g, weights_move(row));
    op_in(&op, from), op_out(&op, to);
    op.region = to.index == IX_LOOP ? p->groups[at].region : 0;
    op.stage = p->ops[p->groups[at].first_op].stage;
    if (when)
        op_word(&op, "if", when);
    insert_group(g, p, at, op);
}

/* The first group of the loop of group `at`. */
static int loop_begin(const Program *p, int at)
{
    while (at && p->groups[at - 1].region == p->groups[at].region)
        at--;
    return at;
}

static int loop_end(const Program *p, int at)
{
    while (at + 1 < p->ngroups && p->groups[at + 1].region == p->groups[at].region)
        at++;
    return at;
}

static bool is_gather(const Op *op)
{
    return op->kind == OP_gather_begin || op->kind == OP_all_gather;
}

/* The first group from `at` on that is no gather of that region, nor begins one. */
static int after_gathers(const Program *p, int at, int region)
{
    while (at < p->ngroups && p->groups[at].region == region &&
           is_gather(&p->ops[p->groups[at].first_op]))
        at++;
    return at;
}

/* Has full[l] gathered from x[l] before group `at`, the first that reads it in a loop; ahead: in
 * the turn before, of the first turn before group `start`. kept: the loop before has left what the
 * first turn reads. Returns the last group of the loop. */
static int gather_in_loop(const Graph *g, Program *p, int at, Value *x, Value *full, bool kept,
                          int start)
{
    const char *when = kept ? "later" : NULL;
    const int region = p->groups[at].region;
    const Region *loop = &p->region[region];
    const int64_t next = loop->reverse ? -1 : 1, first = loop->reverse ? loop->count.n - 1 : 0;
    if (!x->early) {
        insert_gather(g, p, at, WHEN_into, ref_loop(x, 0), ref_loop(full, 0), when);
        return loop_end(p, at);
    }
    insert_gather(g, p, at, WHEN_read, ref_loop(full, 0), ref_loop(full, 0), when);
    insert_gather(g, p, after_gathers(p, loop_begin(p, at), region), WHEN_ahead, ref_loop(x, next),
                  ref_loop(full, next), "inside");
    if (!kept)
        insert_gather(g, p, after_gathers(p, start, 0), WHEN_ahead, ref_at(x, first),
                      ref_at(full, first), NULL);
    return loop_end(p, next_reader(p, full, at));
}

/* A temporary of the program with all of x, which its ops read in place of x. */
static void gather_weight(Graph *g, Program *p, Value *x)
{
    Value *full = ir_new(g, VK_TEMP, x->purpose, x->dtype,
                         text_print("%s.full.%s", p->name, x->name), x->rank, x->dim, x->loc);
    full->of = x->name;
    full->count = x->count;
    full->slots = x->early ? 2 : 1;
    full->part = x->part;
    full->place = PL_REP;
    for (int j = 0; j < p->nops; j++)
        if (wants_whole(&p->ops[j], x))
            replace(&p->ops[j], x, full);
    int before = 0;
    for (int at = 0; (at = next_reader(p, full, at)) >= 0; at++) {
        const int region = p->groups[at].region;
        const Region *loop = &p->region[region], *last = &p->region[before];
        if (!region != !x->count)
            bug("%s of %s reads %s outside of the loop over its layers",
                kernel_row[p->groups[at].kernel].name, p->name, x->name);
        if (!region) {
            insert_gather(g, p, at, WHEN_into, ref(x), ref(full), NULL);
            return;
        }
        const bool kept = before && loop->reverse && !last->reverse &&
                          loop->count.n == last->count.n;
        at = gather_in_loop(g, p, at, x, full, kept, before ? loop_begin(p, at) : 0);
        before = region;
    }
}

static void insert_gathers(Graph *g)
{
    const int nvalues = g->nvalues;
    for (int i = 0; i < g->nprograms; i++)
        for (int k = 0; k < nvalues; k++) {
            Value *x = g->values[k];
            bool wanted = false;
            for (int j = 0; x->purpose == PU_weights && x->place == PL_PARTS && !wanted &&
                            j < g->programs[i]->nops; j++)
                wanted = wants_whole(&g->programs[i]->ops[j], x);
            if (wanted)
                gather_weight(g, g->programs[i], x);
        }
}

static char *fault(const Run *r)
{
    return text_print("%s in %s %s %s, which is %s; want: %s", op_row[r->op->kind].name,
                      r->p->name, r->does, r->v->name, state_name[r->found],
                      state_name[r->wanted]);
}

void part_run(Graph *g)
{
    place_values(g);
    for (const Move *move = moves; move < moves + MOVES; move++)
        if (move->when == WHEN_early)
            insert_early(g, move);
    insert_written(g);
    insert_gathers(g);
    for (Run r = run_placements(g); r.p; r = run_placements(g))
        if (strcmp(r.does, "reads") || !insert_moves(g, &r))
            bug("%s", fault(&r));
    g->room = "part";
}

/* Operands of the letter e are all whole, or all divided in the same way. */
static void check_elementwise(const Program *p, const Op *op)
{
    const Value *first = NULL;
    for (int k = 0; k < op->nin + op->nout; k++) {
        const bool out = k >= op->nin;
        const Value *v = out ? op->out[k - op->nin].v : op->in[k].v;
        if (letter(op, out, out ? k - op->nin : k) != 'e')
            continue;
        first = first ? first : v;
        if (v->part != first->part)
            bug("%s in %s: %s and %s are divided in other ways", op_row[op->kind].name, p->name,
                first->name, v->name);
    }
}

/* Inputs of a sum over ranks must differ between ranks. */
static void check_folded(const Graph *g, const Op *op)
{
    for (int k = 0; k < op->nin; k++)
        if (letter(op, false, k) == 'f' && g->ranks > 1 && op->in[k].v->place != PL_PARTIAL)
            bug("%s adds %s, which is %s", op_row[op->kind].name, op->in[k].v->name,
                state_name[op->in[k].v->place]);
}

void check_part(const Graph *g)
{
    check_ops(g);
    for (int i = 0; i < g->nprograms; i++)
        for (int j = 0; j < g->programs[i]->nops; j++)
            check_elementwise(g->programs[i], &g->programs[i]->ops[j]),
                check_folded(g, &g->programs[i]->ops[j]);
    for (int i = 0; i < g->nvalues; i++) {
        const Value *v = g->values[i];
        if (v->place == PL_NONE || (g->ranks == 1 && v->place != PL_REP))
            bug("%s has no placement", v->name);
        if (v->kind != VK_INPUT && at_rest(v) && v->place != at_rest(v))
            bug("%s is %s between programs; want: %s", v->name, state_name[v->place],
                state_name[at_rest(v)]);
        if (v->place == PL_SHARD && v->axis)         /* rows are what ops have apart */
            bug("%s is divided along axis %d", v->name, v->axis);
        const Value *moment = absmax_moment(g, v);
        if (moment && v->part != absmax_part(moment))
            bug("%s is divided otherwise than %s", v->name, moment->name);
        if (v->part && (g->ranks == 1 || v->part * g->ranks < value_elements(v)))
            bug("%s: %" PRId64 " ranks with parts of %" PRId64 " elements", v->name, g->ranks,
                v->part);
    }
    Run r = run_placements(g);
    if (r.p)
        bug("%s", fault(&r));
}
