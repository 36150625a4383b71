/* estimate.c -- how long a step takes: the cost model; see measure.h.
 *
 * In:    the graph after plan, efficiency.def, cards.def, measured seconds of the lock file.
 * Method: the kernels of a call one after the other, each limited by FLOP or by bytes. */
#include "gen/config/objective.h"
#include "gen/emit/emit.h"
#include "gen/tools/measure.h"
#include "kernels/cuda/workspace.h"

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
#define LIMIT_NAME(limit, text) text,
const char *const limit_name[NLIMITS] = {LIMITS(LIMIT_NAME)};
#define LIMIT_KEY(limit, text) #limit,
const char *const limit_key[NLIMITS] = {LIMITS(LIMIT_KEY)};

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
typedef struct { const char *kernel, *device; double head, share[2]; } AttentionRow;
static const AttentionRow attention_row[] = {
#define ATTENTION(kernel, device, head, forward, backward) \
    {#kernel, #device, head, {forward, backward}},
#include "gen/tools/efficiency.def"
};
enum { EFFICIENCIES = sizeof efficiency_row / sizeof *efficiency_row,
       STARTS = sizeof start_row / sizeof *start_row,
       TILES = sizeof tile_row / sizeof *tile_row,
       ATTENTIONS = sizeof attention_row / sizeof *attention_row };

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

/* Share of the peak that a product (m, n) over k reaches. */
static double product_share(const Target *t, double m, double n, double k)
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

static double longer(double a, double b) { return a > b ? a : b; }

/* ---- attention ------------------------------------------------------------------------------- */

/* Device of the rows of a kernel: the target if there are any, else its backend. */
static const char *attention_device(const Target *t, const char *kernel)
{
    for (int i = 0; i < ATTENTIONS; i++)
        if (!strcmp(attention_row[i].kernel, kernel) && !strcmp(attention_row[i].device, t->name))
            return t->name;
    return t->backend;
}

/* Share of the peak of a pass with heads of so many elements: on a line between the rows of
 * efficiency.def, beyond them that of the nearest. */
static double attention_share(const Target *t, const char *kernel, Effort kind, double head)
{
    const AttentionRow *below = NULL, *above = NULL;
    for (int i = 0; i < ATTENTIONS; i++) {
        const AttentionRow *row = &attention_row[i];
        if (strcmp(row->kernel, kernel) || strcmp(row->device, attention_device(t, kernel)))
            continue;
        if (row->head <= head && (!below || row->head > below->head))
            below = row;
        if (row->head >= head && (!above || row->head < above->head))
            above = row;
    }
    const int pass = kind == EFFORT_attention_bwd;
    const AttentionRow *from = below ? below : above, *to = above ? above : below;
    const double along = to->head > from->head ? (head - from->head) / (to->head - from->head) : 0;
    return from->share[pass] + along * (to->share[pass] - from->share[pass]);
}

/* Keys or queries that a block of attention owns: kernels/cuda/attention.cuh. */
enum { ATTENTION_BLOCK = CUDA_DKV_KEYS };

/* The blocks of `heads` heads, in all sequences of T positions; resident: blocks of a
 * multiprocessor. Scores are the unit of work. Under a causal mask the blocks that own the most
 * scores begin first, and at the end half of a shortest one is waited for. Scores that the mask
 * leaves out of the blocks on its diagonal are computed, too. */
static Fill fill_of(const Target *t, double heads, double T, int resident, bool causal)
{
    const double levels = ceil(T / ATTENTION_BLOCK), blocks = heads * levels,
                 slots = (double)t->sms * resident,
                 longest = levels * ATTENTION_BLOCK * ATTENTION_BLOCK,
                 mean = causal ? longest * (levels + 1) / (2 * levels) : longest,
                 scores = T * T / (causal ? 2 : 1) * heads,
                 end = causal ? longer(longest, blocks * mean / slots + longest / levels / 2)
                              : ceil(blocks / slots) * longest;
    return (Fill){blocks, resident, scores / (slots * end)};
}

/* Of at most so many blocks, those whose shared memory a multiprocessor has, too. */
static int blocks_resident(const Target *t, int most, int bytes)
{
    const int fit = t->shared_sm / (bytes + BLOCK_SHARED);
    return fit < most ? fit > 0 ? fit : 1 : most;
}

/* Sets the row's fill: of a launch whose blocks own queries, and of one whose blocks own keys. Ours
 * on tensor cores alone; of cuDNN's blocks it is assumed that they are as large and alone on a
 * multiprocessor. Returns the share of the multiprocessors' time in which they work. */
static double attention_fill(const Target *t, const Op *op, Effort kind, bool cudnn, Fill fill[2])
{
    const bool backward = kind == EFFORT_attention_bwd, causal = !attention_is_whole(op);
    const Value *x = op->in[backward ? 1 : 0].v;
    const int64_t B = x->dim[0].n, T = x->dim[1].n, H = op_attr(op, "heads")->i,
                  K = op_attr(op, "kv")->i, D = op_attr(op, "dim")->i,
                  bytes = dtype_bytes[x->dtype];
    if (!t->sms || (!cudnn && !attention_on_tensor_cores(D, bytes)))
        return 1;
    const bool narrow = CUDA_ATTENTION_NARROW(D);
    const int warps = CUDA_ATTENTION_WARPS(D),
              of_four = blocks_resident(t, warps / 4, CUDA_ATTENTION_SHARED(D)),
              dq = narrow ? of_four : warps / 8,
              dkv = narrow ? blocks_resident(t, warps / 4, CUDA_ATTENTION_DKV_SHARED(D))
                           : warps / 8;
    if (!backward || !cudnn)
        fill[0] = fill_of(t, (double)(B * H), (double)T, cudnn ? 1 : backward ? dq : of_four,
                          causal);
    if (backward)
        fill[1] = cudnn ? fill_of(t, (double)(B * H), (double)T, 1, causal)
                        : fill_of(t, (double)(B * K * attention_dkv_parts(B, T, H, K, D, bytes)),
                                  (double)T, dkv, causal);
    /* of ours, three of seven products in blocks of queries, four in blocks of keys */
    return !backward ? fill[0].use
           : cudnn   ? fill[1].use
                     : 1 / (3 / 7.0 / fill[0].use + 4 / 7.0 / fill[1].use);
}

/* ---- a call ---------------------------------------------------------------------------------- */

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

/* Sums over the products of a call. */
typedef struct {
    const Graph *g;
    const Device *d;
    Cost *cost;
    CostRow *row;                        /* that the call belongs to */
    double often;                        /* times that the call counts */
} Sum;

static double spend(const Sum *s, Effort kind, Limit limit, double seconds)
{
    s->row->kind[kind] += s->often * seconds;
    s->row->limit[limit] += s->often * seconds;
    return seconds;
}

/* Spends the seconds of work limited by FLOP or by bytes, whichever takes longer. share: of the
 * peak that its FLOP reach, `full` where blocks fill the device. */
static double spend_longer(const Sum *s, Effort kind, double flops, double full, double share,
                           double moving)
{
    const double seconds = flops / (share * s->d->peak), all = flops / (full * s->d->peak);
    if (moving > seconds)
        return spend(s, kind, LIMIT_bytes, moving);
    spend(s, kind, LIMIT_flop, all);
    spend(s, kind, LIMIT_blocks, seconds - all);
    return seconds;
}

/* Seconds that moving so many bytes takes. */
static double moving(const Sum *s, Effort kind, double bytes)
{
    const Effort as = kind < EFFORT_pointwise ? EFFORT_pointwise : kind;
    return bytes / (effort_share(s->g->target, as) * s->d->bandwidth);
}

/* Spends the seconds of one of a call's products, so many times; `bytes`: of all that moves with
 * it. */
static double product_time(const Sum *s, const Product *x, double bytes, double times)
{
    const double m = (double)x->m.n, n = (double)x->n.n, k = (double)x->k.n,
                 locked = product_seconds(s->g, x);
    s->cost->measured += locked > 0;
    return locked > 0 ? spend(s, EFFORT_product, LIMIT_measured, times * locked)
                      : spend_longer(s, EFFORT_product, times * 2 * m * n * k,
                                     effort_share(s->g->target, EFFORT_product),
                                     product_share(s->g->target, m, n, k),
                                     times * moving(s, EFFORT_product, bytes));
}

typedef struct { double kernels, starts; } Time;

/* How often a call repeats its products: for chunks of rows, two heads or parts, until they are all
 * of its FLOP. A head's products also have padded columns: whole thirds a chunk (gradients of two
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
        seconds += product_time(s, &list[i], own, times);
        rest -= times * own;
    }
    if (rest > 0)
        seconds += spend(s, kind, LIMIT_bytes, moving(s, kind, rest));
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
        return (Time){spend(s, kind, LIMIT_measured, locked), 0};
    if (n)
        return products_time(s, op, list, n, flops, bytes);
    double full = effort_share(s->g->target, EFFORT_product), share = full;
    if (kind == EFFORT_attention_fwd || kind == EFFORT_attention_bwd) {
        const bool cudnn = op_attr(op, "cudnn") != NULL;
        full = s->row->share = attention_share(s->g->target, cudnn ? "cudnn" : "builtin", kind,
                                               (double)op_attr(op, "dim")->i);
        share = full * attention_fill(s->g->target, op, kind, cudnn, s->row->fill);
    }
    return (Time){spend_longer(s, kind, flops, full, share, moving(s, kind, bytes)),
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

/* The row of a kernel and the value that its calls make. */
static CostRow *row_of(Cost *cost, const char *kernel, const char *result)
{
    int i = 0;
    while (i < cost->nrows &&
           (strcmp(cost->row[i].kernel, kernel) || strcmp(cost->row[i].result, result)))
        i++;
    cost->row[i].kernel = kernel;
    cost->row[i].result = result;
    cost->nrows += i == cost->nrows;
    return &cost->row[i];
}

/* Adds the calls of a group, without their time, to its row. */
static CostRow *count_calls(Cost *cost, const Program *p, const Group *group, double often)
{
    const Op *op = &p->ops[group->first_op], *makes = &op[group->nops - 1];
    CostRow *row = row_of(cost, kernel_row[group->kernel].name,
                          makes->nout ? makes->out[0].v->name : "");
    row->calls += often;
    row->bytes += often * group_bytes(p, group);
    for (int i = 0; i < group->nops; i++)
        row->flops += often * op_flops(&op[i]);
    return row;
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
        const double all = often * times * turns_of(p, op);
        const Sum s = {g, d, cost, count_calls(cost, p, group, all), all};
        if (g->ranks > 1 && op_is_collective(op->kind)) {
            const double seconds = collective_time(&s, p, op);
            if (is_asynchronous(op->kind))
                (op_attr(op, "last") ? last : overlapped)[group->region] += seconds;
            else
                s.row->limit[LIMIT_ranks] += often * times * seconds;
            continue;
        }
        const Time t = group_time(&s, p, group);
        const double start = t.starts * target_backend(g->target)->start;
        s.row->launches += s.often * t.starts;
        s.row->limit[LIMIT_launches] += s.often * start;
        kernels[group->region] += turns_of(p, op) * (t.kernels + start);
    }
    for (int i = 0; i <= p->nregions; i++) {
        const double more = longer(0, overlapped[i] - kernels[i]),
                     once = longer(0, overlapped[i] + last[i] - kernels[i]) - more;
        if (times * more + once > 0)
            row_of(cost, COST_WAITS, p->name)->limit[LIMIT_ranks] += often * (times * more + once);
    }
}

double schedule_send_seconds(const Graph *g, const Schedule *s, Config *c)
{
    const Sent sent = schedule_sent_sum(g, s, nodes_of(c));
    return (sent.within + sent.between) / device_of(g, c).link;
}

/* The sums of all rows. */
static void add_up(Cost *cost)
{
    for (int i = 0; i < cost->nrows; i++) {
        CostRow *row = &cost->row[i];
        for (int k = 0; k < NEFFORTS; k++)
            cost->kind[k] += row->kind[k];
        for (int k = 0; k < NLIMITS; k++) {
            row->seconds += row->limit[k];
            cost->limit[k] += row->limit[k];
        }
    }
    for (int i = 0; i < NEFFORTS; i++)
        cost->kernels += cost->kind[i];
    cost->step = cost->kernels + cost->limit[LIMIT_launches] + cost->limit[LIMIT_ranks];
}

Cost step_cost(const Graph *g, Config *c)
{
    const Device d = device_of(g, c);
    Cost cost = {0};
    int rows = 0;
    for (int i = 0; i < g->nprograms; i++)           /* one of COST_WAITS a program */
        rows += g->programs[i]->ngroups + 1;
    cost.row = arena_new(sizeof *cost.row * (size_t)rows);
    for (int i = 0; i < g->nschedules; i++) {
        const Schedule *s = g->schedules[i];
        const double often = 1 / (double)objective_steps_a_turn(c, s->name);
        for (int k = 0; schedule_updates(s) && k < s->nitems; k++)
            if (s->item[k].program)
                add_program(&cost, g, s->item[k].program, &d, often, (double)s->item[k].times);
    }
    add_up(&cost);
    return cost;
}
