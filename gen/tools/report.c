/* report.c -- `gen plan`: memory and work of a rank.
 *
 * In:    the graph after plan.
 * Out:   a table, or JSON with every buffer. */
#include "gen/lower/lower.h"
#include "gen/tools/answer.h"
#include "gen/tools/measure.h"
#include "gen/tools/tools.h"

#include <inttypes.h>
#include <string.h>

#include "runtime/shares.h"

static char *shape_of(const Value *v)
{
    Str s = {0};
    if (v->count)
        str_print(&s, "%" PRId64 " x ", v->slots);
    str_print(&s, "%s[", dtype_name[v->dtype]);
    for (int i = 0; i < v->rank; i++)
        str_print(&s, "%s%" PRId64, i ? "," : "", v->dim[i].n);
    str_print(&s, "]");
    return s.text;
}

static bool has_value(const Program *p, const Value *v)
{
    for (int i = 0; i < p->nops; i++)
        for (int k = 0; k < p->ops[i].nin + p->ops[i].nout; k++)
            if ((k < p->ops[i].nin ? p->ops[i].in[k] : p->ops[i].out[k - p->ops[i].nin]).v == v)
                return true;
    return false;
}

static bool runs(const Schedule *s, const Program *p)
{
    for (int i = 0; i < s->nitems; i++)
        if (s->item[i].program == p)
            return true;
    return false;
}

/* Bytes of state that only this schedule reads or writes. */
static int64_t held_alone(const Graph *g, const Schedule *s)
{
    int64_t bytes = 0;
    for (int i = 0; i < g->nvalues; i++) {
        const Value *v = g->values[i];
        bool is_unshared = false, others = v->internal || v->last != INT32_MAX;
        for (int k = 0; k < g->nprograms && !others; k++)
            if (has_value(g->programs[k], v))
                *(runs(s, g->programs[k]) ? &is_unshared : &others) = true;
        bytes += is_unshared && !others ? buffer_bytes(v) : 0;
    }
    return bytes;
}

/* Peak of the shared memory in a schedule's programs. */
static int64_t shared_top(const Graph *g, const Schedule *s)
{
    int64_t top = g->persistent_bytes;
    for (int i = 0; i < g->nvalues; i++) {
        const Value *v = g->values[i];
        int64_t end = v->offset + buffer_bytes(v);
        if (v->internal || v->last == INT32_MAX || end <= top)
            continue;
        for (int k = 0; k < g->nprograms; k++) {
            const Program *p = g->programs[k];
            if (p->ngroups && runs(s, p) && v->first <= p->groups[p->ngroups - 1].pos &&
                v->last >= p->groups[0].pos)
                top = end;
        }
    }
    return top - g->persistent_bytes;
}

static void print_work(const Graph *g, FILE *to)
{
    fprintf(to, "\nwork of a rank                 calls     GFLOP        GB\n");
    for (int i = 0; i < g->nprograms; i++) {
        const Program *p = g->programs[i];
        fprintf(to, "  %-26s %7d %9.3f %9.3f\n", p->name, program_calls(p), program_flops(p) / 1e9,
                program_bytes(p) / 1e9);
    }
    for (int i = 0; i < g->nschedules; i++) {
        const Schedule *s = g->schedules[i];
        const Work w = schedule_work(g, s);
        if (schedule_updates(s))
            fprintf(to, "  %-26s %7s %9.3f %9.3f   at least %s at the target's peak\n",
                    text_print("schedule %s", s->name), "", w.flops / 1e9, w.bytes / 1e9,
                    text_seconds(w.at_peak));
    }
}

/* Bytes that a rank sends in each schedule. */
static void print_sent(const Graph *g, Config *c, FILE *to)
{
    bool headed = false;
    for (int i = 0; i < g->nschedules; i++) {
        const Schedule *s = g->schedules[i];
        Sent *list;
        const int n = schedule_sent(g, s, nodes_of(c), &list);
        for (int k = 0; k < n; k++, headed = true) {
            if (!headed)
                fprintf(to, "\n%-36s %14s %14s\n", "bytes that a rank sends", "within a node",
                        "between nodes");
            fprintf(to, "  %-14s %-18s %14s %14s\n", text_print("schedule %s", s->name),
                    list[k].name, text_bytes((int64_t)list[k].within),
                    text_bytes((int64_t)list[k].between));
        }
    }
}

/* Says what decoding costs if it gathers divided weights. */
static void print_decoding(const Graph *g, Config *c, FILE *to)
{
    for (int i = 0; i < g->nschedules; i++) {
        const Schedule *s = g->schedules[i];
        const Sent sent = schedule_sent_sum(g, s, nodes_of(c));
        const double bytes = sent.within + sent.between;
        if (!strcmp(s->name, "decode") && bytes > 0)
            fprintf(to, "  decoding receives %s a token: at least %s; to sample, export and build "
                        "with gpus=1\n", text_bytes((int64_t)bytes),
                    text_seconds(schedule_send_seconds(g, s, c)));
    }
}

/* Cost of each schedule that updates parameters, if there are several. */
static void print_schedules(const Graph *g, FILE *to)
{
    int n = 0;
    for (int i = 0; i < g->nschedules; i++)
        n += schedule_updates(g->schedules[i]);
    for (int i = 0; i < g->nschedules && n > 1; i++) {
        const Schedule *s = g->schedules[i];
        if (schedule_updates(s))
            fprintf(to,
                    "  %-26s holds %s that no other reads; of the memory shared over time it uses "
                    "%s\n",
                    text_print("schedule %s", s->name), text_bytes(held_alone(g, s)),
                    text_bytes(shared_top(g, s)));
    }
}

char *cluster_text(const Config *c)
{
    const char *card = c->v[F_cluster_card].s, *interface = c->v[F_cluster_interface].s;
    const long long nodes = (long long)c->v[F_cluster_nodes].i,
                    each = (long long)c->v[F_cluster_gpus_per_node].i;
    const bool cpu = !strcmp(card, "none");
    Str s = {0};
    str_print(&s, "%s: %lld node%s x %lld %s", c->v[F_cluster_name].s, nodes, nodes == 1 ? "" : "s",
              each, cpu ? each == 1 ? "rank" : "ranks" : card);
    if (!cpu && each > 1)
        str_print(&s, " on %s", c->v[F_cluster_link].s);
    if (nodes > 1)
        str_print(&s, ", %s%s%s", c->v[F_cluster_network].s, *interface ? " " : "", interface);
    str_print(&s, ", started by %s", c->v[F_cluster_launcher].s);
    return s.text;
}

char *tiles_text(const Graph *g)
{
    double flops = 0;
    int64_t tile = 0, tiles = 0;
    for (int i = 0; i < g->nprograms; i++)
        for (int k = 0; k < g->programs[i]->nops; k++) {
            const Op *op = &g->programs[i]->ops[k];
            if (op->kind != OP_ffn_bwd && op->kind != OP_ffn_lora_bwd)
                continue;
            const Value *x = op->in[1].v, *up = op->in[2].v;
            const int64_t rows = value_elements(x) / x->dim[x->rank - 1].n;
            tile = op_attr(op, "tile")->i;
            tiles = rows / tile;
            flops += 2.0 * (double)op_turns(g->programs[i], op) * (double)rows *
                     (double)value_elements(up);
        }
    return tile ? text_print("feed-forward layers: %" PRId64 " tile%s of %" PRId64 " rows; "
                             "backward, their first product again: %.3f GFLOP a micro-batch",
                             tiles, tiles == 1 ? "" : "s", tile, flops / 1e9)
                : NULL;
}

static void answer_cluster(cJSON *o, const Config *c)
{
    if (!c->cluster) {
        answer_text(o, "cluster", NULL);
        return;
    }
    cJSON *to = answer_object(o, "cluster");
    answer_text(to, "name", c->v[F_cluster_name].s);
    answer_text(to, "card", strcmp(c->v[F_cluster_card].s, "none") ? c->v[F_cluster_card].s : NULL);
    answer_int(to, "nodes", c->v[F_cluster_nodes].i);
    answer_int(to, "gpus_per_node", c->v[F_cluster_gpus_per_node].i);
    answer_text(to, "launcher", c->v[F_cluster_launcher].s);
}

static bool divides(const Holdings *h)
{
    int64_t bytes = 0;
    for (int i = 0; i < NPURPOSES; i++)
        bytes += h->divided[i];
    return bytes > 0;
}

/* Prints a table's title, with a column for shares where there are divided values. */
static void print_title(const Graph *g, const Holdings *h, const char *title, int width, FILE *to)
{
    if (divides(h))
        fprintf(to, "%-*s of %" PRId64 " ranks\n", width, title, g->ranks);
    else
        fprintf(to, "%s\n", title);
}

/* True if it is a moment of a parameter. */
static bool is_moment(const Value *v)
{
    return v->of && (!strcmp(v->name, text_print("m.%s", v->of)) ||
                     !strcmp(v->name, text_print("v.%s", v->of)));
}

/* Bytes of all states PREFIX.PARAM. */
static int64_t bytes_of_states(const Graph *g, const char *prefix)
{
    int64_t bytes = 0;
    for (int i = 0; i < g->nvalues; i++) {
        const Value *v = g->values[i];
        if (v->of && !strcmp(v->name, text_print("%s.%s", prefix, v->of)))
            bytes += buffer_bytes(v);
    }
    return bytes;
}

/* Returns "   moments 8bit 17.4 GiB (embedding fp32), master remainder 14.2 GiB"; "" if all weights
 * and moments are fp32. */
static const char *states_text(const Graph *g)
{
    int64_t moments = 0;
    bool quantised = false, wide = false;
    for (int i = 0; i < g->nvalues; i++) {
        const Value *v = g->values[i];
        if (is_moment(v) || absmax_moment(g, v))
            moments += buffer_bytes(v);
        if (is_moment(v))
            *(v->dtype == DT_U8 ? &quantised : &wide) |= value_elements(v) >= QUANTISE_LEAST;
    }
    const int64_t masters = bytes_of_states(g, "master"),
                  remainders = bytes_of_states(g, "remainder");
    if (!quantised && !masters && !remainders)
        return "";
    return text_print("   moments %s %s%s%s%s", quantised ? "8bit" : "fp32", text_bytes(moments),
                      quantised && wide ? " (embedding fp32)" : "",
                      remainders ? ", master remainder "
                      : masters  ? ", master fp32 "
                                 : "",
                      masters + remainders ? text_bytes(masters + remainders) : "");
}

static void print_purposes(const Graph *g, const Holdings *h, FILE *to)
{
    print_title(g, h, "bytes of a rank, arena device", 30, to);
    for (int i = 0; i < NPURPOSES; i++) {
        const int64_t over_time = h->temporary[i], rest = h->purpose[i] - h->divided[i] - over_time;
        if (h->purpose[i])
            fprintf(to, "  %-14s %12s", purpose_name[i], text_bytes(h->purpose[i]));
        if (h->divided[i])
            fprintf(to, "   %" PRId64 "/%d%s%s", share_count(g->ranks), SHARES,
                    rest ? text_print(", and %s whole", text_bytes(rest)) : "",
                    over_time ? text_print(", %s shared over time", text_bytes(over_time)) : "");
        fputs(i == PU_optimiser ? states_text(g) : "", to);
        fputs(h->purpose[i] ? "\n" : "", to);
    }
    if (h->pinned)
        fprintf(to, "  %-14s %12s   in pinned memory of the host, outside the arena\n", "embedding",
                text_bytes(h->pinned));
    if (graph_snapshot_bytes(g))
        fprintf(to, "  %-14s %12s   in host memory of rank 0, from which a checkpoint is written\n",
                "snapshot", text_bytes(graph_snapshot_bytes(g)));
}

/* Bytes of gradients that outlive a program. */
static int64_t whole_gradients(const Graph *g)
{
    int64_t bytes = 0;
    for (int i = 0; i < g->nvalues; i++)
        bytes += value_is_gradient(g->values[i]) ? buffer_bytes(g->values[i]) : 0;
    return bytes;
}

static void print_backward(const Graph *g, Config *c, FILE *to)
{
    if (!config_is(c, F_optim_when, "backward"))
        return;
    fprintf(to, "  updated inside the backward pass: only gradients of %s are whole, --clip is not "
                "there\n", text_bytes(whole_gradients(g)));
}

static void print_buffers(const Graph *g, const Holdings *h, FILE *to)
{
    print_title(g, h, "largest buffers", 80, to);
    for (int i = 0; i < h->nbuffers && i < 10; i++) {
        const Value *v = h->buffer[i];
        const int64_t shares = value_shares(g, v);
        fprintf(to, "  %-22s %12s   %-26s %*s", v->name, text_bytes(buffer_bytes(v)), shape_of(v),
                shares ? -14 : 0, purpose_name[v->purpose]);
        if (shares)
            fprintf(to, "%" PRId64 "/%d", shares, SHARES);
        fprintf(to, "\n");
    }
}

static void plan_print(const Graph *g, Config *c, FILE *to)
{
    const Holdings h = measure_holdings(g);
    const Card *card = config_card(c);
    fprintf(to, "%s: %s, %s, target %s%s, %" PRId64 " rank%s\n", c->name, g->family,
            config_text(c, F_precision), g->target->name,
            card ? text_print(", card %s", card->name) : "", g->ranks, g->ranks == 1 ? "" : "s");
    if (c->cluster)
        fprintf(to, "cluster %s\n", cluster_text(c));
    fprintf(to,
            "%s parameters, %s trained; %" PRId64 " sequences of %" PRId64 " tokens a step\n\n",
            text_grouped(h.parameters), text_grouped(h.trained),
            ir_size(g, "B") * config_int(c, F_batch_accum) * g->ranks, config_int(c, F_seq_max));
    print_purposes(g, &h, to);
    print_backward(g, c, to);
    fprintf(to, "  %-14s %12s   persistent %s, the rest shares memory over time\n", "arena (peak)",
            text_bytes(g->arena_bytes), text_bytes(g->persistent_bytes));
    fprintf(to, "  %-14s %12s   arena / bound = %.4f, placed %s\n\n", "lower bound",
            text_bytes(g->lower_bound), (double)g->arena_bytes / (double)g->lower_bound,
            g->plan_method);
    if (c->kept)
        fprintf(to, "memory.recompute=auto keeps %s\n\n", c->kept);
    if (tiles_text(g))
        fprintf(to, "%s\n\n", tiles_text(g));
    fprintf(to, "largest batch.micro that fits the target's %s: %" PRId64 "\n\n",
            fit_limit(g) == INT64_MAX ? "memory" : text_bytes(fit_limit(g)),
            fit_largest_micro(g, c));
    print_buffers(g, &h, to);
    print_work(g, to);
    print_schedules(g, to);
    print_sent(g, c, to);
    print_decoding(g, c, to);
}

/* ---- the same for programs ------------------------------------------------------------------- */

static void add_buffer(cJSON *list, const Graph *g, const Value *v)
{
    cJSON *o = answer_item(list), *shape;
    answer_text(o, "name", v->name);
    answer_int(o, "bytes", buffer_bytes(v));
    answer_text(o, "purpose", purpose_name[v->purpose]);
    answer_text(o, "kind", value_kind_name[v->kind]);
    answer_text(o, "dtype", dtype_name[v->dtype]);
    shape = answer_list(o, "shape");
    for (int i = 0; i < v->rank; i++)
        answer_number(shape, v->dim[i].n);
    answer_int(o, "copies", v->slots);
    if (value_shares(g, v))
        answer_int(o, "shares", value_shares(g, v));
    else
        answer_text(o, "shares", NULL);
    answer_text(o, "set", value_set(v));
    answer_int(o, "offset", v->offset);
    answer_bool(o, "persistent", v->last == INT32_MAX);
    if (v->last == INT32_MAX) {
        answer_text(o, "first", NULL);
        answer_text(o, "last", NULL);
    } else {
        answer_int(o, "first", v->first);
        answer_int(o, "last", v->last);
    }
}

static void add_sent(cJSON *o, const Graph *g, const Schedule *s, int64_t nodes)
{
    Sent *list;
    const int n = schedule_sent(g, s, nodes, &list);
    cJSON *sent = answer_object(o, "sent_bytes");
    for (int i = 0; i < n; i++) {
        cJSON *item = answer_object(sent, list[i].name);
        answer_float(item, "within_node", list[i].within);
        answer_float(item, "between_nodes", list[i].between);
    }
}

static void add_work(cJSON *o, const Graph *g, Config *c)
{
    cJSON *list = answer_list(o, "programs");
    for (int i = 0; i < g->nprograms; i++) {
        const Program *p = g->programs[i];
        cJSON *item = answer_item(list);
        answer_text(item, "name", p->name);
        answer_text(item, "role", role_name[p->role]);
        answer_int(item, "calls", program_calls(p));
        answer_float(item, "flop", program_flops(p));
        answer_float(item, "bytes", program_bytes(p));
    }
    list = answer_list(o, "schedules");
    for (int i = 0; i < g->nschedules; i++) {
        const Schedule *s = g->schedules[i];
        const Work w = schedule_work(g, s);
        cJSON *item = answer_item(list);
        answer_text(item, "name", s->name);
        answer_bool(item, "updates", schedule_updates(s));
        answer_float(item, "flop", w.flops);
        answer_float(item, "bytes", w.bytes);
        answer_float(item, "seconds_at_peak", w.at_peak);
        answer_int(item, "bytes_held_alone", held_alone(g, s));
        answer_int(item, "bytes_shared", shared_top(g, s));
        add_sent(item, g, s, nodes_of(c));
        answer_float(item, "seconds_to_send", schedule_send_seconds(g, s, c));
    }
}

void answer_recipe(cJSON *o, const Graph *g, Config *c)
{
    char **word;
    cJSON *list;
    answer_text(o, "name", c->name);
    answer_text(o, "about", c->v[F_about].s);
    answer_text(o, "recipe", c->recipe);
    list = answer_list(o, "overrides");
    for (int i = 0, n = config_overrides(c, &word); i < n; i++)
        answer_word(list, word[i]);
    answer_text(o, "objective", c->v[F_objective].s);
    answer_text(o, "target", c->v[F_target].s);
    answer_text(o, "card", config_card(c) ? config_card(c)->name : NULL);
    if (!g)
        return;
    answer_text(o, "family", g->family);
    answer_text(o, "precision", config_text(c, F_precision));
    answer_int(o, "ranks", g->ranks);
    answer_cluster(o, c);
    answer_int(o, "batch_micro", config_int(c, F_batch_micro));
    answer_int(o, "batch_accum", config_int(c, F_batch_accum));
    answer_int(o, "batch_global", run_length(g, c).batch);
    answer_int(o, "sequence_tokens", config_int(c, F_seq_max));
}

void answer_memory(cJSON *o, const Graph *g, const Holdings *h)
{
    answer_int(o, "parameters", h->parameters);
    answer_int(o, "parameters_trained", h->trained);
    answer_int(o, "device_bytes", g->arena_bytes);
    answer_int(o, "device_bytes_persistent", g->persistent_bytes);
    if (fit_limit(g) == INT64_MAX)
        answer_text(o, "device_bytes_limit", NULL);
    else
        answer_int(o, "device_bytes_limit", fit_limit(g));
    if (h->pinned)
        answer_int(o, "host_bytes_pinned", h->pinned);
    if (graph_snapshot_bytes(g))
        answer_int(o, "host_bytes_snapshot", graph_snapshot_bytes(g));
    cJSON *by = answer_object(o, "bytes_by_purpose");
    for (int i = 0; i < NPURPOSES; i++)
        answer_int(by, purpose_name[i], h->purpose[i]);
    by = answer_object(o, "bytes_divided_by_purpose");
    for (int i = 0; i < NPURPOSES; i++)
        answer_int(by, purpose_name[i], h->divided[i]);
}

cJSON *plan_object(const Graph *g, Config *c)
{
    cJSON *o = answer_new(), *list;
    answer_recipe(o, g, c);
    const Holdings h = measure_holdings(g);
    answer_memory(o, g, &h);
    answer_text(o, "updates", config_text(c, F_optim_when));
    answer_int(o, "bytes_of_whole_gradients", whole_gradients(g));
    answer_int(o, "device_bytes_bound", g->lower_bound);
    answer_text(o, "placed", g->plan_method);
    answer_int(o, "batch_micro_largest", fit_largest_micro(g, c));
    list = answer_list(o, "buffers");
    for (int i = 0; i < h.nbuffers; i++)
        add_buffer(list, g, h.buffer[i]);
    add_work(o, g, c);
    return o;
}

void report_plan(const Graph *g, Config *c, FILE *to)
{
    if (answer_wanted())
        answer_print(plan_object(g, c));
    else
        plan_print(g, c, to);
}
