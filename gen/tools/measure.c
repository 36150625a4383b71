/* measure.c -- figures of a planned graph; see measure.h. */
#include "gen/config/objective.h"
#include "gen/tools/measure.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/shares.h"

/* ---- what it holds --------------------------------------------------------------------------- */

int64_t buffer_bytes(const Value *v) { return v->slots * v->stride; }

static int by_size(const void *a, const void *b)
{
    const Value *x = *(const Value *const *)a, *y = *(const Value *const *)b;
    int64_t d = buffer_bytes(y) - buffer_bytes(x);
    return d ? (d > 0) - (d < 0) : strcmp(x->name, y->name);
}

static bool same_storage(const Value *v, const Value *w)
{
    return v->offset == w->offset && buffer_bytes(v) == buffer_bytes(w) && v->first == w->first &&
           v->last == w->last;
}

int64_t value_shares(const Graph *g, const Value *v)
{
    return value_is_own_part(v) ? share_count(g->ranks) : 0;
}

Holdings measure_holdings(const Graph *g)
{
    Holdings h = {.buffer = arena_new(sizeof *h.buffer * (size_t)g->nvalues + 1)};
    for (int i = 0; i < g->nvalues; i++) {
        const Value *v = g->values[i];
        if (v->kind == VK_PARAM) {
            int64_t elements = value_parameters(v);
            h.parameters += elements;
            h.trained += v->trained ? elements : 0;
        }
        if (v->pinned) {
            h.pinned += buffer_bytes(v);
            continue;
        }
        bool counted = v->internal;
        for (int j = 0; j < h.nbuffers && !counted; j++)
            counted = same_storage(h.buffer[j], v);
        if (counted)
            continue;
        h.buffer[h.nbuffers++] = v;
        h.purpose[v->purpose] += buffer_bytes(v);
        h.divided[v->purpose] += value_shares(g, v) ? buffer_bytes(v) : 0;
        h.temporary[v->purpose] += v->last != INT32_MAX ? buffer_bytes(v) : 0;
    }
    qsort(h.buffer, (size_t)h.nbuffers, sizeof *h.buffer, by_size);
    return h;
}

/* ---- what it does ---------------------------------------------------------------------------- */

static double turns_of(const Program *p, const Op *op) { return (double)op_turns(p, op); }

double program_bytes(const Program *p)
{
    double bytes = 0;
    for (int i = 0; i < p->ngroups; i++)
        bytes += turns_of(p, &p->ops[p->groups[i].first_op]) * group_bytes(p, &p->groups[i]);
    return bytes;
}

int program_calls(const Program *p)
{
    int calls = 0;
    for (int k = 0; k < p->ngroups; k++)
        calls += (int)op_turns(p, &p->ops[p->groups[k].first_op]);
    return calls;
}

bool schedule_updates(const Schedule *s)
{
    for (int i = 0; i < s->nitems; i++)
        if (s->item[i].program && program_updates(s->item[i].program))
            return true;
    return false;
}

bool graph_in_fp32(const Graph *g)
{
    return !strcmp(g->setting[SETTING_precision].text, "fp32");
}

Work schedule_work(const Graph *g, const Schedule *s)
{
    Work w = {0};
    for (int k = 0; k < s->nitems; k++)
        if (s->item[k].program) {
            w.flops += (double)s->item[k].times * program_flops(s->item[k].program);
            w.bytes += (double)s->item[k].times * program_bytes(s->item[k].program);
        }
    w.at_peak = w.flops / (graph_in_fp32(g) ? g->target->peak_fp32 : g->target->peak_bf16);
    return w;
}

Work step_work(const Graph *g)
{
    for (int i = 0; i < g->nschedules; i++)
        if (schedule_updates(g->schedules[i]))
            return schedule_work(g, g->schedules[i]);
    return (Work){0};
}

double step_tokens(const Graph *g, Config *c)
{
    return (double)(config_int(c, F_batch_accum) * g->ranks * config_int(c, F_batch_micro) *
                    config_int(c, F_seq_max)) *
           (double)objective_sequences(c);
}

/* ---- what it sends --------------------------------------------------------------------------- */

typedef struct {
    int op;
    const char *backend, *name;
    int direct, ring;            /* passes */
} Collective;

static const Collective collective_row[] = {
#define COLLECTIVE(op, backend, name, direct, ring, doc) \
    {OP_##op, #backend, #name, direct, ring},
#include "gen/lower/collectives.def"
#undef COLLECTIVE
};
enum { COLLECTIVES = sizeof collective_row / sizeof *collective_row };

static const Collective *collective_of(const Graph *g, const Op *op)
{
    for (int i = 0; i < COLLECTIVES; i++)
        if (collective_row[i].op == op->kind &&
            !strcmp(collective_row[i].backend, g->target->backend))
            return &collective_row[i];
    bug("collectives.def: no row for %s on %s", op_row[op->kind].name, g->target->backend);
}

/* Bytes that a fold moves in all turns of its loop: every rank's parts, or all that it has. */
static double folded_bytes(const Graph *g, const Program *p, const Op *op)
{
    const Value *v = op->in[0].v;
    const int64_t parts = op->kind == OP_fold ? v->part * dtype_bytes[v->dtype] : value_bytes(v);
    return (op->region ? turns_of(p, op) : (double)v->slots) * (double)(g->ranks * parts);
}

/* Bytes that a collective moves in all turns of its loop: a layer's in each, else whole buffers. */
static double moved_bytes(const Graph *g, const Program *p, const Op *op)
{
    double bytes = 0;
    if (op->kind == OP_fold || op->kind == OP_fold_whole)
        return folded_bytes(g, p, op);
    for (int k = 0; k < op->nout; k++) {
        const Value *v = op->out[k].v;
        const int64_t tensor = v->part ? v->part * g->ranks * dtype_bytes[v->dtype]
                                       : value_bytes(v);
        bytes += op->region ? turns_of(p, op) * (double)tensor
                 : op->out[k].index == IX_CONST ? (double)tensor
                                                : (double)buffer_bytes(v);
    }
    return bytes;
}

Sent op_sent(const Graph *g, const Program *p, const Op *op, int64_t nodes)
{
    const Collective *c = collective_of(g, op);
    const double ranks = (double)g->ranks, n = (double)nodes,
                 pass = moved_bytes(g, p, op) * (ranks - 1) / ranks;
    /* shares of a pass that go to other nodes */
    const double ring = nodes > 1 ? n / ranks : 0,
                 direct = nodes > 1 ? (ranks - ranks / n) / (ranks - 1) : 0;
    const double between = pass * (c->direct * direct + c->ring * ring);
    return (Sent){c->name, pass * (c->direct + c->ring) - between, between};
}

static int add_sent(Sent *list, int n, Sent s)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(list[i].name, s.name)) {
            list[i].within += s.within;
            list[i].between += s.between;
            return n;
        }
    list[n] = s;
    return n + 1;
}

int64_t nodes_of(Config *c) { return c->cluster ? config_int(c, F_cluster_nodes) : 1; }

int schedule_sent(const Graph *g, const Schedule *s, int64_t nodes, Sent **list)
{
    int n = 0;
    *list = arena_new(sizeof **list * COLLECTIVES);
    for (int k = 0; k < s->nitems; k++) {
        const Program *p = s->item[k].program;
        for (int i = 0; p && i < p->nops; i++) {
            const Op *op = &p->ops[i];
            if (g->ranks == 1 || !op_is_collective(op->kind))
                continue;
            const double times = op_attr(op, "last") ? 1 : (double)s->item[k].times;
            Sent one = op_sent(g, p, op, nodes);
            one.within *= times, one.between *= times;
            n = add_sent(*list, n, one);
        }
    }
    return n;
}

Sent schedule_sent_sum(const Graph *g, const Schedule *s, int64_t nodes)
{
    Sent sum = {s->name, 0, 0}, *list;
    const int n = schedule_sent(g, s, nodes, &list);
    for (int k = 0; k < n; k++)
        sum.within += list[k].within, sum.between += list[k].between;
    return sum;
}

Sent step_sent(const Graph *g, Config *c)
{
    for (int i = 0; i < g->nschedules; i++)
        if (schedule_updates(g->schedules[i]))
            return schedule_sent_sum(g, g->schedules[i], nodes_of(c));
    return (Sent){"step", 0, 0};
}

/* ---- disk ------------------------------------------------------------------------------------ */

/* Bytes of an element of the parameter's state PREFIX.NAME; 0: it has none. */
static int64_t bytes_of_state(const Graph *g, const char *prefix, const Value *param)
{
    const Value *v = ir_value(g, text_print("%s.%s", prefix, param->name));
    return v ? dtype_bytes[v->dtype] : 0;
}

/* True if v holds the magnitudes of a moment of the parameter. */
static bool is_absmax_of(const Graph *g, const Value *v, const Value *param)
{
    const Value *moment = absmax_moment(g, v);
    return moment && !strcmp(moment->of, param->name);
}

Disk disk_of(const Graph *g, Config *c)
{
    Disk d = {.kept = (int64_t)run_number(g, "save_total_limit")};
    const bool adapters = config_int(c, F_lora_rank) > 0;
    d.kept = d.kept == 1 ? 2 : d.kept;
    for (int i = 0; i < g->nvalues; i++) {
        const Value *v = g->values[i];
        if (v->kind != VK_PARAM)
            continue;
        const int64_t n =
            v->not_in_model ? value_elements(v) * (v->count ? v->count : 1) : value_parameters(v);
        /* a base in NF4 is merged as it is computed with */
        const int64_t computed = config_is(c, F_precision, "fp32") ? 4 : 2,
                      stored = value_is_nf4(v) ? computed : dtype_bytes[v->dtype],
                      master = bytes_of_state(g, "master", v) + bytes_of_state(g, "remainder", v);
        if (v->adapter || v->not_in_model)
            d.checkpoint += 4 * n;
        else if (!adapters)
            d.checkpoint += (stored + master) * n;
        d.checkpoint += (bytes_of_state(g, "m", v) + bytes_of_state(g, "v", v)) * n;
        for (int k = 0; k < g->nvalues; k++)
            if (is_absmax_of(g, g->values[k], v))
                d.checkpoint += dtype_bytes[DT_F32] * value_elements(g->values[k]);
        if (v->not_in_model)
            continue;
        d.export += v->adapter ? 4 * n : adapters ? 0 : stored * n;
        d.merged += adapters && !v->adapter ? stored * n : 0;
    }
    return d;
}

/* ---- the run --------------------------------------------------------------------------------- */

const char *run_value(const Graph *g, const char *name)
{
    static const char *const row[][2] = {
#define FLAG(name, type, value, lo, hi, metavar, recipe, readers, doc) {#name, #value},
#include "runtime/run/flags.def"
    };
    const GraphSetting *flags = &g->setting[SETTING_flags];
    const char *text = "";
    size_t n = strlen(name);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (!strcmp(row[i][0], name))
            text = row[i][1];
    for (int i = 0; i < flags->n; i++)
        if (!strncmp(flags->word[i], name, n) && flags->word[i][n] == '=')
            text = flags->word[i] + n + 1;
    return *text == '"' ? text_print("%.*s", (int)strlen(text) - 2, text + 1) : text;
}

double run_number(const Graph *g, const char *name)
{
    return strtod(run_value(g, name), NULL);
}

Length run_length(const Graph *g, Config *c)
{
    const double most = run_number(g, "max_samples"), share = run_number(g, "eval_share");
    const int64_t given = (int64_t)run_number(g, "steps");
    Length l = {.batch = config_int(c, F_batch_micro) * config_int(c, F_batch_accum) * g->ranks};
    l.samples = (int64_t)(most * (1 - share) + 1e-6);
    l.held = (int64_t)most - l.samples;
    l.an_epoch = (l.samples + l.batch - 1) / l.batch;
    l.epochs = given ? 0 : run_number(g, "epochs");
    l.updates = given ? given : (int64_t)ceil(l.epochs * (double)l.an_epoch);
    return l;
}
