/* work.c -- `gen plan --work`: the modelled time of a step, kernel by kernel.
 *
 * In:    the graph after plan; rows and sums of step_cost().
 * Out:   a table, or JSON. Nothing is measured here but the rows of a lock file. */
#include "gen/tools/answer.h"
#include "gen/tools/tools.h"

#include <stdlib.h>
#include <string.h>

static int by_seconds(const void *a, const void *b)
{
    const CostRow *x = a, *y = b;
    return x->seconds != y->seconds ? (x->seconds < y->seconds ? 1 : -1)
                                    : strcmp(x->kernel, y->kernel);
}

/* The resource that limits it. */
static Limit limit_of(const double *seconds)
{
    Limit most = 0;
    for (int i = 1; i < NLIMITS; i++)
        most = seconds[i] > seconds[most] ? (Limit)i : most;
    return most;
}

/* Share of all ranks' peak that the FLOP of a step are, recomputed ones too. */
static double utilisation(const Cost *cost, const Device *d)
{
    double flops = 0;
    for (int i = 0; i < cost->nrows; i++)
        flops += cost->row[i].flops;
    return flops / (cost->step * d->peak);
}

static void print_rows(const Cost *cost, FILE *to)
{
    fprintf(to, "%-24s %-20s %7s %11s %9s %9s %6s  %s\n", "kernel", "makes", "calls", "GFLOP", "GB",
            "ms", "share", "limited by");
    CostRow sum = {0};
    for (int i = 0; i < cost->nrows; i++) {
        const CostRow *row = &cost->row[i];
        fprintf(to, "%-24s %-20s %7.0f %11.3f %9.3f %9.3f %5.1f%%  %s\n", row->kernel, row->result,
                row->calls, row->flops / 1e9, row->bytes / 1e9, 1e3 * row->seconds,
                100 * row->seconds / cost->step, limit_name[limit_of(row->limit)]);
        sum.calls += row->calls, sum.flops += row->flops, sum.bytes += row->bytes;
        sum.seconds += row->seconds;
    }
    fprintf(to, "%-24s %-20s %7.0f %11.3f %9.3f %9.3f %5.1f%%  ", "all", "", sum.calls,
            sum.flops / 1e9, sum.bytes / 1e9, 1e3 * sum.seconds, 100 * sum.seconds / cost->step);
    const char *comma = "";
    for (int i = 0; i < NLIMITS; i++)
        if (cost->limit[i] >= 0.005 * cost->step) {
            fprintf(to, "%s%s %.0f %%", comma, limit_name[i], 100 * cost->limit[i] / cost->step);
            comma = ", ";
        }
    fprintf(to, "\n");
}

/* Blocks of attention's launches against the multiprocessors. */
static void print_fill(const Graph *g, const Cost *cost, FILE *to)
{
    static const char *const own[] = {"queries", "keys"};
    bool headed = false;
    for (int i = 0; i < cost->nrows; i++)
        for (int k = 0; k < 2; k++) {
            const CostRow *row = &cost->row[i];
            const Fill *fill = &row->fill[k];
            if (fill->blocks == 0)
                continue;
            if (!headed)
                fprintf(to, "\nattention on %d multiprocessors; blocks with the most scores begin "
                            "first\n", g->target->sms);
            headed = true;
            fprintf(to, "  %-22s %-20s %8.0f blocks of %-7s  %d a multiprocessor, used %.0f %%\n",
                    row->kernel, row->result, fill->blocks, own[k], fill->resident,
                    100 * fill->use);
        }
}

static void print_efficiencies(const Graph *g, const Cost *cost, FILE *to)
{
    fprintf(to, "\nefficiencies, with sources in gen/tools/efficiency.def\n"
                "  of the peak FLOP/s   product %.3g", effort_share(g->target, EFFORT_product));
    for (Effort kind = EFFORT_attention_fwd; kind <= EFFORT_attention_bwd; kind++)
        for (int i = 0; i < cost->nrows; i++)
            if (cost->row[i].share > 0 && cost->row[i].kind[kind] > 0) {
                fprintf(to, ", %s %.3g", effort_name[kind], cost->row[i].share);
                break;
            }
    fprintf(to, "; less where blocks do not fill the device\n  of the bytes/s      ");
    for (Effort kind = EFFORT_pointwise; kind < NEFFORTS; kind++)
        fprintf(to, "%s %s %.3g", kind == EFFORT_pointwise ? "" : ",", effort_name[kind],
                effort_share(g->target, kind));
    double launches = 0;
    for (int i = 0; i < cost->nrows; i++)
        launches += cost->row[i].launches;
    fprintf(to, "\n  a launch             %s, %.0f a step\n",
            text_seconds(target_backend(g->target)->start), launches);
}

static void work_print(const Graph *g, Config *c, const Cost *cost, FILE *to)
{
    const Device d = device_of(g, c);
    fprintf(to, "%s: a step of a rank as gen models it, %s\n", c->name,
            cost->measured ? text_print("with %d calls as measured", cost->measured)
                           : "nothing is measured");
    fprintf(to, "%s: %.3g TFLOP/s, %.4g GB/s\n\n", d.name, d.peak / 1e12, d.bandwidth / 1e9);
    print_rows(cost, to);
    fprintf(to, "\na step %s, %s tokens/s, %.1f %% of the peak FLOP/s (recomputed FLOP count)\n",
            text_seconds(cost->step), text_grouped((int64_t)(step_tokens(g, c) / cost->step)),
            100 * utilisation(cost, &d));
    print_fill(g, cost, to);
    print_efficiencies(g, cost, to);
}

/* ---- the same for programs ------------------------------------------------------------------- */

static void add_limits(cJSON *o, const double *seconds)
{
    cJSON *by = answer_object(o, "seconds_by_limit");
    for (int i = 0; i < NLIMITS; i++)
        answer_float(by, limit_key[i], seconds[i]);
}

static void work_answer(const Graph *g, Config *c, const Cost *cost)
{
    const Device d = device_of(g, c);
    cJSON *o = answer_new();
    answer_recipe(o, g, c);
    cJSON *work = answer_object(o, "work"), *list = answer_list(work, "rows");
    answer_bool(work, "modelled", true);
    answer_int(work, "measured_calls", cost->measured);
    answer_text(work, "device", d.name);
    answer_float(work, "step_seconds", cost->step);
    answer_float(work, "tokens_per_second", step_tokens(g, c) / cost->step);
    answer_float(work, "utilisation", utilisation(cost, &d));
    add_limits(work, cost->limit);
    for (int i = 0; i < cost->nrows; i++) {
        const CostRow *row = &cost->row[i];
        cJSON *item = answer_item(list);
        answer_text(item, "kernel", row->kernel);
        answer_text(item, "makes", row->result);
        answer_float(item, "calls", row->calls);
        answer_float(item, "launches", row->launches);
        answer_float(item, "flop", row->flops);
        answer_float(item, "bytes", row->bytes);
        answer_float(item, "seconds", row->seconds);
        answer_text(item, "limit", limit_key[limit_of(row->limit)]);
        add_limits(item, row->limit);
        cJSON *fills = answer_list(item, "fill");
        for (int k = 0; k < 2; k++)
            if (row->fill[k].blocks > 0) {
                cJSON *fill = answer_item(fills);
                answer_text(fill, "blocks_own", k ? "keys" : "queries");
                answer_float(fill, "blocks", row->fill[k].blocks);
                answer_int(fill, "blocks_resident", row->fill[k].resident);
                answer_float(fill, "use", row->fill[k].use);
            }
    }
    answer_print(o);
}

void report_work(const Graph *g, Config *c, FILE *to)
{
    const Cost cost = step_cost(g, c);
    qsort(cost.row, (size_t)cost.nrows, sizeof *cost.row, by_seconds);
    if (answer_wanted())
        work_answer(g, c, &cost);
    else
        work_print(g, c, &cost, to);
}
