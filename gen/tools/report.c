/* report.c -- gen plan: what a rank will hold and do, before anything is built.
 *
 * In:    the graph after plan.   Out: a table for people. */
#include "gen/gen.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int64_t bytes_of(const Value *v) { return v->slots * v->stride; }

static int by_size(const void *a, const void *b)
{
    const Value *x = *(const Value *const *)a, *y = *(const Value *const *)b;
    int64_t d = bytes_of(y) - bytes_of(x);
    return d ? (d > 0) - (d < 0) : strcmp(x->name, y->name);
}

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

/* Bytes read and written by the calls of a program, each operand once a call; internal values stay
 * in registers. */
static double program_bytes(const Program *p)
{
    double bytes = 0;
    for (int i = 0; i < p->nops; i++) {
        const Op *op = &p->ops[i];
        for (int k = 0; k < op->nin + op->nout; k++) {
            Ref r = k < op->nin ? op->in[k] : op->out[k - op->nin];
            if (r.v->internal)
                continue;
            double turns = op->region           ? (double)p->region[op->region].count.n
                           : r.index == IX_NONE ? (double)r.v->slots
                                                : 1;
            bytes += (double)value_bytes(r.v) * turns;
        }
    }
    return bytes;
}

static bool updates(const Schedule *s)
{
    for (int i = 0; i < s->nitems; i++)
        if (s->item[i].program && s->item[i].program->role == ROLE_update)
            return true;
    return false;
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

/* Bytes that outlive programs and only this schedule's read or write. */
static int64_t held_alone(const Graph *g, const Schedule *s)
{
    int64_t bytes = 0;
    for (int i = 0; i < g->nvalues; i++) {
        const Value *v = g->values[i];
        bool own = false, others = v->internal || v->last != INT32_MAX;
        for (int k = 0; k < g->nprograms && !others; k++)
            if (has_value(g->programs[k], v))
                *(runs(s, g->programs[k]) ? &own : &others) = true;
        bytes += own && !others ? bytes_of(v) : 0;
    }
    return bytes;
}

/* What a schedule's programs use of the memory that is shared over time. */
static int64_t shared_top(const Graph *g, const Schedule *s)
{
    int64_t top = g->persistent_bytes;
    for (int i = 0; i < g->nvalues; i++) {
        const Value *v = g->values[i];
        int64_t end = v->offset + bytes_of(v);
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

/* At the target's peak. */
static double schedule_seconds(const Graph *g, const Schedule *s, double *flops, double *bytes)
{
    double peak = !strcmp(g->fact[FACT_precision].text, "fp32") ? g->target->peak_fp32
                                                                    : g->target->peak_bf16;
    *flops = *bytes = 0;
    for (int k = 0; k < s->nitems; k++)
        if (s->item[k].program) {
            *flops += (double)s->item[k].times * program_flops(s->item[k].program);
            *bytes += (double)s->item[k].times * program_bytes(s->item[k].program);
        }
    return *flops / peak;
}

double report_least_seconds(const Graph *g)
{
    double flops, bytes;
    for (int i = 0; i < g->nschedules; i++)
        if (updates(g->schedules[i]))
            return schedule_seconds(g, g->schedules[i], &flops, &bytes);
    return 0;
}

static void print_work(const Graph *g, FILE *to)
{
    fprintf(to, "\nwork of a rank                 calls     GFLOP        GB\n");
    for (int i = 0; i < g->nprograms; i++) {
        const Program *p = g->programs[i];
        int calls = 0;
        for (int k = 0; k < p->ngroups; k++)
            calls += p->groups[k].region ? (int)p->region[p->groups[k].region].count.n : 1;
        fprintf(to, "  %-26s %7d %9.3f %9.3f\n", p->name, calls, program_flops(p) / 1e9,
                program_bytes(p) / 1e9);
    }
    for (int i = 0; i < g->nschedules; i++) {
        const Schedule *s = g->schedules[i];
        double flops, bytes, seconds = schedule_seconds(g, s, &flops, &bytes);
        if (updates(s))
            fprintf(to, "  %-26s %7s %9.3f %9.3f   at least %.3g ms at the target's peak\n",
                    text_print("schedule %s", s->name), "", flops / 1e9, bytes / 1e9,
                    seconds * 1e3);
    }
}

/* Where several schedules update parameters: what each of them costs. */
static void print_schedules(const Graph *g, FILE *to)
{
    int n = 0;
    for (int i = 0; i < g->nschedules; i++)
        n += updates(g->schedules[i]);
    for (int i = 0; i < g->nschedules && n > 1; i++) {
        const Schedule *s = g->schedules[i];
        if (updates(s))
            fprintf(to, "  %-26s holds %s that no other reads; of the memory shared over time it uses %s\n",
                    text_print("schedule %s", s->name), text_bytes(held_alone(g, s)),
                    text_bytes(shared_top(g, s)));
    }
}

void report_plan(const Graph *g, Config *c, FILE *to)
{
    int64_t purpose[NPURPOSES] = {0}, parameters = 0, trained = 0;
    const Value **list = arena_new(sizeof *list * (size_t)g->nvalues);
    int n = 0;
    for (int i = 0; i < g->nvalues; i++) {
        const Value *v = g->values[i];
        if (v->kind == VK_PARAM) {
            int64_t elements = value_parameters(v);
            parameters += elements;
            trained += v->trained ? elements : 0;
        }
        if (v->internal)
            continue;
        bool shared = false;     /* counted once a storage */
        for (int j = 0; j < n && !shared; j++)
            shared = list[j]->offset == v->offset && bytes_of(list[j]) == bytes_of(v) &&
                     list[j]->first == v->first && list[j]->last == v->last;
        if (shared)
            continue;
        list[n++] = v;
        purpose[v->purpose] += bytes_of(v);
    }
    fprintf(to, "%s: %s, %s, target %s, %" PRId64 " rank%s\n", c->name, g->family,
            config_text(c, F_precision), g->target->name, g->ranks, g->ranks == 1 ? "" : "s");
    fprintf(to,
            "%" PRId64 " parameters, %" PRId64 " trained; %" PRId64 " sequences of %" PRId64
            " tokens a step\n\n",
            parameters, trained,
            ir_size(g, "B") * config_int(c, F_batch_accum) * g->ranks,
            config_int(c, F_seq_max));
    fprintf(to, "bytes of a rank, arena device\n");
    for (int i = 0; i < NPURPOSES; i++)
        if (purpose[i])
            fprintf(to, "  %-14s %12s\n", purpose_name[i], text_bytes(purpose[i]));
    fprintf(to, "  %-14s %12s   persistent %s, the rest shares memory over time\n", "arena (peak)",
            text_bytes(g->arena_bytes), text_bytes(g->persistent_bytes));
    fprintf(to, "  %-14s %12s   arena / bound = %.4f, placed %s\n\n", "lower bound",
            text_bytes(g->lower_bound), (double)g->arena_bytes / (double)g->lower_bound,
            g->plan_method);
    fprintf(to, "largest batch.micro that fits the target's %s: %" PRId64 "\n\n",
            fit_limit(g) == INT64_MAX ? "memory" : text_bytes(fit_limit(g)), fit_largest_micro(g, c));
    qsort(list, (size_t)n, sizeof *list, by_size);
    fprintf(to, "largest buffers\n");
    for (int i = 0; i < n && i < 10; i++)
        fprintf(to, "  %-22s %12s   %-26s %s\n", list[i]->name, text_bytes(bytes_of(list[i])),
                shape_of(list[i]), purpose_name[list[i]->purpose]);
    print_work(g, to);
    print_schedules(g, to);
}
