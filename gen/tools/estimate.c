/* estimate.c -- how long a step takes: the cost model; see measure.h.
 *
 * In:    the graph after plan, efficiency.def, cards.def, measured seconds of the lock file.
 * Method: the kernels of a call one after the other, each limited by FLOP or by bytes. */
#include "gen/config/objective.h"
#include "gen/emit/emit.h"
#include "gen/tools/measure.h"

#include <math.h>
#include <string.h>

/* ---- the device ------------------------------------------------------------------------------ */

/* Finds a card by the driver's name, "NVIDIA H200", or gen's; NULL: unknown. */
static const Card *card_named(const Target *t, const char *name)
{
    const Card *found = card_find(!strncmp(name, "NVIDIA ", 7) ? name + 7 : name);
    return found && !strcmp(found->target, t->name) ? found : NULL;
}

/* The card that the recipe, its lock file's section or its cluster names; else of the target's the
 * smallest with the memory that the recipe plans with. */
static const Card *card_of(const Graph *g, Config *c)
{
    const char *name = config_text(c, F_tune_card);
    if (!*name && c->cluster)
        name = c->v[F_cluster_card].s;
    const Card *named = config_card(c), *best = NULL, *largest = NULL;
    if (!named && *name)
        named = card_named(g->target, name);
    int64_t limit = g->setting[SETTING_memory].i, memory = limit ? limit : g->target->memory;
    for (int i = 0; i < card_count(); i++) {
        const Card *k = card_row(i);
        if (strcmp(k->target, g->target->name))
            continue;
        if (!largest || k->memory > largest->memory)
            largest = k;
        if (k->memory >= memory && (!best || k->memory < best->memory))
            best = k;
    }
    return named ? named : best ? best : largest;
}

Device device_of(const Graph *g, Config *c)
{
    bool fp32 = graph_in_fp32(g);
    const Backend *b = target_backend(g->target);
    if (strcmp(g->target->backend, "cuda"))
        return (Device){NULL, "a CPU", fp32 ? g->target->peak_fp32 : g->target->peak_bf16,
                        b->bandwidth, b->link};
    const Card *k = card_of(g, c);
    const bool slower = c->cluster && !strcmp(c->v[F_cluster_link].s, "pcie") && k->link > b->link;
    return (Device){k, k->about, fp32 ? k->peak_fp32 : k->peak_bf16, k->bandwidth,
                    slower ? b->link : k->link};
}

/* ---- efficiencies ---------------------------------------------------------------------------- */

#define EFFORT_NAME(kind) #kind,
const char *const effort_name[NEFFORTS] = {EFFORTS(EFFORT_NAME)};

typedef struct { Effort kind; const char *device; double value; } EfficiencyRow;
static const EfficiencyRow efficiency_row[] = {
#define EFFICIENCY(kind, device, share) {EFFORT_##kind, #device, share},
#include "gen/tools/efficiency.def"
};
static const EfficiencyRow start_row[] = {
#define START(device, steps) {EFFORT_product, #device, steps},
#include "gen/tools/efficiency.def"
};
static const struct { const char *backend; double m, n, share; } tile_row[] = {
#define TILE(backend, m, n, share) {#backend, m, n, share},
#include "gen/tools/efficiency.def"
};
enum { EFFICIENCIES = sizeof efficiency_row / sizeof *efficiency_row,
       STARTS = sizeof start_row / sizeof *start_row,
       TILES = sizeof tile_row / sizeof *tile_row };

/* Value of the target's row of a kind, else of its backend's. */
static double value_of(const EfficiencyRow *row, int n, const Target *t, Effort kind)
{
    double value = 0;
    for (int i = 0; i < n; i++) {
        if (row[i].kind != kind)
            continue;
        if (!strcmp(row[i].device, t->name))
            return row[i].value;
        if (!strcmp(row[i].device, t->backend))
            value = row[i].value;
    }
    if (value == 0)
        bug("efficiency.def: no row %s for %s", effort_name[kind], t->name);
    return value;
}

double effort_share(const Target *t, Effort kind)
{
    return value_of(efficiency_row, EFFICIENCIES, t, kind);
}

/* Parts that a product may be divided into along k, each at least so long. */
enum { MOST_SPLITS = 16, LEAST_SPLIT = 512 };

double product_share(const Target *t, double m, double n, double k)
{
    const double sms = t->sms ? t->sms : 1, start = value_of(start_row, STARTS, t, EFFORT_product);
    double best = 0;
    for (int i = 0; i < TILES; i++)
        for (int split = 1; split <= MOST_SPLITS; split *= 2) {
            if (strcmp(tile_row[i].backend, t->backend) || (split > 1 && k / split < LEAST_SPLIT))
                continue;
            const double tile = tile_row[i].m * tile_row[i].n,
                         blocks = ceil(m / tile_row[i].m) * ceil(n / tile_row[i].n) * split,
                         turns = t->sms ? ceil(blocks / sms) * sms : blocks,
                         share = tile_row[i].share * (m * n * split / tile / turns) * k /
                                 (k + split * start);
            best = share > best ? share : best;
        }
    return effort_share(t, EFFORT_product) * best;
}

/* Keys or queries that a block of attention owns: kernels/cuda/attention.cuh. */
enum { ATTENTION_BLOCK = 128 };

/* Share of the multiprocessors' time in which they work, with blocks for B sequences of T positions
 * and so many heads. The blocks begin in the order of their positions, so that under a causal mask
 * the longest, twice the mean, may begin last: half of one is waited for. */
static double blocks_share(const Target *t, double B, double T, double heads)
{
    if (!t->sms)
        return 1;
    const double blocks = B * heads * ceil(T / ATTENTION_BLOCK), mean = blocks / 2 / t->sms;
    return mean / (mean + 0.5);
}

/* Share of the peak that an attention op reaches. */
static double attention_share(const Target *t, const Op *op, Effort kind)
{
    const Value *x = op->in[kind == EFFORT_attention_bwd ? 1 : 0].v;
    const double B = (double)x->dim[0].n, T = (double)x->dim[1].n,
                 queries = blocks_share(t, B, T, (double)op_attr(op, "heads")->i),
                 keys = blocks_share(t, B, T, (double)op_attr(op, "kv")->i);
    /* three of seven products in blocks of queries, four in blocks of keys */
    return effort_share(t, kind) *
           (kind == EFFORT_attention_fwd ? queries : 1 / (3 / 7.0 / queries + 4 / 7.0 / keys));
}

/* ---- a call ---------------------------------------------------------------------------------- */

static double longer(double a, double b) { return a > b ? a : b; }
static double turns_of(const Program *p, const Op *op) { return (double)op_turns(p, op); }

static Effort kind_of(const Op *op)
{
    return op->kind == OP_attention       ? EFFORT_attention_fwd
           : op->kind == OP_attention_bwd ? EFFORT_attention_bwd
           : op_is_update(op->kind)       ? EFFORT_update
           : op_attr(op, "chunk")         ? EFFORT_head
                                          : EFFORT_pointwise;
}

/* Bytes of a product's operands. */
static double product_bytes(const Product *x, int act)
{
    const double m = (double)x->m.n, n = (double)x->n.n, k = (double)x->k.n;
    return act * (m * k + k * n) + (x->f32 ? 4 : act) * m * n * (x->adds ? 2 : 1);
}

/* What is added up for a call. */
typedef struct {
    const Graph *g;
    const Device *d;
    Cost *cost;
    double often;                        /* times that the call counts */
} Sum;

static double spend(const Sum *s, Effort kind, double seconds)
{
    s->cost->kind[kind] += s->often * seconds;
    return seconds;
}

/* Seconds that moving so many bytes takes. */
static double moving(const Sum *s, Effort kind, double bytes)
{
    const Effort as = kind < EFFORT_pointwise ? EFFORT_pointwise : kind;
    return bytes / (effort_share(s->g->target, as) * s->d->bandwidth);
}

/* Seconds of one of a call's products; `bytes`: of all that moves with it. */
static double product_time(const Sum *s, const Product *x, double bytes)
{
    const double m = (double)x->m.n, n = (double)x->n.n, k = (double)x->k.n,
                 locked = product_seconds(s->g, x);
    s->cost->measured += locked > 0;
    return locked > 0 ? locked
                      : longer(2 * m * n * k / (product_share(s->g->target, m, n, k) * s->d->peak),
                               moving(s, EFFORT_product, bytes));
}

typedef struct { double kernels, starts; } Time;

/* How often a call repeats its products: for chunks of rows, two heads or parts, until they are all
 * of its FLOP. Those of a head have padded columns besides: whole thirds a chunk (gradients of two
 * heads share one of three products). */
static double repeats(const Op *op, double flops, double all)
{
    const Attr *chunk = op_attr(op, "chunk");
    if (!chunk)
        return longer(1, flops / all);
    const Value *x = op->in[0].v;
    const double chunks = (double)value_elements(x) / (double)x->dim[x->rank - 1].n /
                          (double)chunk->i;
    return chunks * longer(1, floor(3 * flops / (all * chunks) + 0.5) / 3);
}

/* A call with products; what else it moves, it moves between them. */
static Time products_time(const Sum *s, const Op *op, const Product *list, int n, double flops,
                          double bytes)
{
    const Effort kind = kind_of(op);
    const int act = graph_in_fp32(s->g) ? 4 : 2;
    double all = 0, seconds = 0, rest = bytes;
    for (int i = 0; i < n; i++)
        all += 2.0 * (double)list[i].m.n * (double)list[i].n.n * (double)list[i].k.n;
    const double times = repeats(op, flops, all);
    const bool alone = n == 1 && times < 1.5;
    for (int i = 0; i < n; i++) {
        const double own = alone ? bytes : product_bytes(&list[i], act);
        seconds += product_time(s, &list[i], own);
        rest -= times * own;
    }
    seconds *= times;
    spend(s, EFFORT_product, seconds);
    if (rest > 0)
        seconds += spend(s, kind, moving(s, kind, rest));
    return (Time){seconds, times * (n + (rest > 0 && kind == EFFORT_head))};
}

/* A call of a group: seconds of its kernels, and how many it launches. */
static Time group_time(const Sum *s, const Program *p, const Group *group)
{
    Product list[MOST_PRODUCTS];
    const Op *op = &p->ops[group->first_op];
    const int n = group_products(s->g, p, group, list);
    const Effort kind = kind_of(op);
    const double bytes = group_bytes(p, group);
    double flops = 0;
    for (int i = 0; i < group->nops; i++)
        flops = longer(flops, op_flops(&op[i]));
    const double locked = group_seconds(s->g, p, group);
    s->cost->measured += locked > 0;
    if (locked > 0)
        return (Time){spend(s, kind, locked), 0};
    if (n)
        return products_time(s, op, list, n, flops, bytes);
    const bool attention = kind == EFFORT_attention_fwd || kind == EFFORT_attention_bwd;
    const double share = attention ? attention_share(s->g->target, op, kind)
                                   : effort_share(s->g->target, EFFORT_product);
    return (Time){spend(s, kind, longer(flops / (share * s->d->peak), moving(s, kind, bytes))),
                  kind == EFFORT_attention_bwd ? 2 : 1};
}

/* ---- a step ---------------------------------------------------------------------------------- */

/* True for a collective that overlaps with the kernels of its loop. */
static bool is_asynchronous(int kind)
{
    return kind == OP_gather_begin || kind == OP_scatter_begin || kind == OP_allreduce_layer;
}

/* Seconds of a collective in all turns of its loop. */
static double collective_time(const Sum *s, const Program *p, const Op *op)
{
    const Sent sent = op_sent(s->g, p, op, 1);
    return sent.within > 0 ? turns_of(p, op) * target_backend(s->g->target)->meet +
                                 sent.within / s->d->link
                           : 0;
}

/* Adds `times` runs of a program, often times. Those of its collectives that only sum the last
 * micro-batch count once. */
static void add_program(Cost *cost, const Graph *g, const Program *p, const Device *d, double often,
                        double times)
{
    const size_t bytes = sizeof(double) * (size_t)(p->nregions + 1);
    double *kernels = arena_new(bytes), *overlapped = arena_new(bytes), *last = arena_new(bytes);
    for (int i = 0; i < p->ngroups; i++) {
        const Group *group = &p->groups[i];
        const Op *op = &p->ops[group->first_op];
        const Sum s = {g, d, cost, often * times * turns_of(p, op)};
        if (g->ranks > 1 && op_is_collective(op->kind)) {
            const double seconds = collective_time(&s, p, op);
            if (is_asynchronous(op->kind))
                (op_attr(op, "last") ? last : overlapped)[group->region] += seconds;
            else
                cost->ranks += often * times * seconds;
            continue;
        }
        const Time t = group_time(&s, p, group);
        const double start = t.starts * target_backend(g->target)->start;
        cost->starts += s.often * start;
        kernels[group->region] += turns_of(p, op) * (t.kernels + start);
    }
    for (int i = 0; i <= p->nregions; i++) {
        const double more = longer(0, overlapped[i] - kernels[i]);
        cost->ranks +=
            often * (times * more + longer(0, overlapped[i] + last[i] - kernels[i]) - more);
    }
}

double schedule_send_seconds(const Graph *g, const Schedule *s, Config *c)
{
    const Sent sent = schedule_sent_sum(g, s, nodes_of(c));
    return (sent.within + sent.between) / device_of(g, c).link;
}

Cost step_cost(const Graph *g, Config *c)
{
    const Device d = device_of(g, c);
    Cost cost = {0};
    for (int i = 0; i < g->nschedules; i++) {
        const Schedule *s = g->schedules[i];
        const double often = 1 / (double)objective_steps_a_turn(c, s->name);
        for (int k = 0; schedule_updates(s) && k < s->nitems; k++)
            if (s->item[k].program)
                add_program(&cost, g, s->item[k].program, &d, often, (double)s->item[k].times);
    }
    for (int i = 0; i < NEFFORTS; i++)
        cost.kernels += cost.kind[i];
    cost.step = cost.kernels + cost.starts + cost.ranks;
    return cost;
}
