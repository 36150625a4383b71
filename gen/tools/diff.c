/* diff.c -- `gen diff A B`: differences between two recipes and their effects.
 *
 * In:    two Configs with their graphs after plan; for standalone programs only the fields.
 * Out:   text or JSON; exit code 0: equal, 1: different.
 * Keeps: ignores recipe names and source positions; writes nothing to disk. */
#include "gen/commands.h"
#include "gen/emit/emit.h"
#include "gen/emit/lock.h"
#include "gen/tools/answer.h"
#include "gen/tools/tools.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    Config *c;
    const Graph *g;
    Holdings held;
    Work work;
    Cost cost;
    double tokens;
    EmitFile *file;
    int nfiles;
} Side;

/* Measures one side, and clears the recipe locations in its graph, so that they do not differ.
 * name: of the folder, for both sides. */
static Side side_of(Graph *g, Config *c, const char *name)
{
    if (!g)
        return (Side){.c = c};
    lock_renew(g);                       /* by the recipe's own path, which is removed below */
    Side s = {.g = g,
              .c = c,
              .held = measure_holdings(g),
              .work = step_work(g),
              .cost = step_cost(g, c),
              .tokens = step_tokens(g, c)};
    for (int i = 0; i < g->nvalues; i++)
        g->values[i]->loc = (Loc){0};
    for (int i = 0; i < g->nprograms; i++)
        for (int k = 0; k < g->programs[i]->nops; k++)
            g->programs[i]->ops[k].loc = (Loc){0};
    for (int i = 0; i < NSETTINGS; i++)
        g->setting[i].loc = (Loc){0};
    g->setting[SETTING_recipe].text = "@.lua";
    g->setting[SETTING_name].text = name;
    g->setting[SETTING_overrides].n = 0;
    g->text = ir_print(g);
    s.nfiles = emit_texts(g, &s.file);
    return s;
}

/* ---- what differs ---------------------------------------------------------------------------- */

static const char *value_of(const Config *c, int field)
{
    return field_applies(c, field) ? value_print(field_row[field].type, &c->v[field]) : "-";
}

static const char *flag_of(const Config *c, const char *name)
{
    for (int i = 0; i < c->nrun; i++)
        if (!strcmp(c->run_name[i], name))
            return c->run_value[i];
    return "-";
}

/* Stores fields and flags that differ: name, value in a, value in b; returns their number. */
static int fields_of(const Side *a, const Side *b, const char *(*row)[3])
{
    int n = 0;
    for (int i = 0; i < NFIELDS; i++) {
        const char *x = value_of(a->c, i), *y = value_of(b->c, i);
        if (i != F_name && i != F_about && strcmp(x, y))
            row[n][0] = field_row[i].path, row[n][1] = x, row[n++][2] = y;
    }
    for (int i = 0; i < nrun_flags; i++) {
        const char *x = flag_of(a->c, run_flag[i].name), *y = flag_of(b->c, run_flag[i].name);
        if (strcmp(x, y))
            row[n][0] = text_print("run.%s", run_flag[i].name), row[n][1] = x, row[n++][2] = y;
    }
    return n;
}

typedef struct { const char *name; double a, b; bool bytes; } Number;

static int numbers_of(const Side *a, const Side *b, Number *row)
{
    int n = 0;
    if (!a->g || !b->g)
        return 0;
    row[n++] =
        (Number){"parameters", (double)a->held.parameters, (double)b->held.parameters, false};
    row[n++] =
        (Number){"parameters_trained", (double)a->held.trained, (double)b->held.trained, false};
    for (int i = 0; i < NPURPOSES; i++)
        row[n++] = (Number){text_print("bytes_%s", purpose_name[i]), (double)a->held.purpose[i],
                            (double)b->held.purpose[i], true};
    row[n++] = (Number){"device_bytes", (double)a->g->arena_bytes, (double)b->g->arena_bytes, true};
    row[n++] = (Number){"checkpoint_bytes", (double)disk_of(a->g, a->c).checkpoint,
                        (double)disk_of(b->g, b->c).checkpoint, true};
    row[n++] = (Number){"step_flop", a->work.flops * (double)a->g->ranks,
                        b->work.flops * (double)b->g->ranks, false};
    const Sent x = step_sent(a->g, a->c), y = step_sent(b->g, b->c);
    row[n++] = (Number){"step_sent_bytes", x.within + x.between, y.within + y.between, true};
    row[n++] = (Number){"step_sent_bytes_between", x.between, y.between, true};
    row[n++] = (Number){"step_tokens", a->tokens, b->tokens, false};
    row[n++] = (Number){"token_flop", a->work.flops * (double)a->g->ranks / a->tokens,
                        b->work.flops * (double)b->g->ranks / b->tokens, false};
    row[n++] = (Number){"step_seconds_estimated", a->cost.step, b->cost.step, false};
    return n;
}

static const char *text_in(const Side *s, const char *name)
{
    for (int i = 0; i < s->nfiles; i++)
        if (!strcmp(s->file[i].name, name))
            return s->file[i].text;
    return NULL;
}

/* "changed", "only in A", "only in B"; NULL: the same. */
static const char *file_state(const Side *a, const Side *b, const char *name)
{
    const char *x = text_in(a, name), *y = text_in(b, name);
    return !y ? "only in A" : !x ? "only in B" : strcmp(x, y) ? "changed" : NULL;
}

/* Union of the names of both sides, sorted. */
static int files_of(const Side *a, const Side *b, const char **name)
{
    int n = 0;
    for (int i = 0; i < a->nfiles; i++)
        name[n++] = a->file[i].name;
    for (int i = 0; i < b->nfiles; i++)
        if (!text_in(a, b->file[i].name))
            name[n++] = b->file[i].name;
    qsort(name, (size_t)n, sizeof *name, text_order);
    return n;
}

/* ---- output -------------------------------------------------------------------------------- */

static const char *number_text(double x, bool bytes)
{
    return bytes                                  ? text_bytes((int64_t)x)
           : x == (double)(int64_t)x && x < 1e12 ? text_grouped((int64_t)x)
                                                  : text_print("%.4g", x);
}

static const char *side_name(const Config *c)
{
    char **word;
    Str s = {0};
    str_print(&s, "%s", c->recipe);
    for (int i = 0, n = config_overrides(c, &word); i < n; i++)
        str_print(&s, " %s", word[i]);
    return s.text;
}

static void print_files(const Side *a, const Side *b, const char **name, int n, FILE *to)
{
    static const char *const state[] = {"changed", "only in A", "only in B"};
    for (int k = 0; k < 3; k++) {
        Str s = {0};
        for (int i = 0; i < n; i++) {
            const char *is = file_state(a, b, name[i]);
            if (is && !strcmp(is, state[k]))
                str_print(&s, "%s%s", s.n ? " " : "", name[i]);
        }
        if (s.n)
            fputs(text_columns(text_print("  %s", state[k]), s.text), to);
    }
}

/* Results of a comparison. */
typedef struct {
    Side a, b;
    const char *(*field)[3];
    const char **name;           /* of files */
    Number number[NPURPOSES + 16];
    int nfields, nnumbers, nnames, changed;
    bool same;
} Diff;

static void diff_answer(const Diff *d)
{
    cJSON *o = answer_new(), *list;
    answer_text(o, "a", side_name(d->a.c));
    answer_text(o, "b", side_name(d->b.c));
    answer_bool(o, "same", d->same);
    list = answer_list(o, "fields");
    for (int i = 0; i < d->nfields; i++) {
        cJSON *item = answer_item(list);
        answer_text(item, "name", d->field[i][0]);
        answer_text(item, "a", strcmp(d->field[i][1], "-") ? d->field[i][1] : NULL);
        answer_text(item, "b", strcmp(d->field[i][2], "-") ? d->field[i][2] : NULL);
    }
    list = answer_object(o, "numbers");
    for (int i = 0; i < d->nnumbers; i++) {
        cJSON *item = answer_object(list, d->number[i].name);
        answer_float(item, "a", d->number[i].a);
        answer_float(item, "b", d->number[i].b);
    }
    list = answer_list(o, "files");
    for (int i = 0; i < d->nnames; i++)
        if (file_state(&d->a, &d->b, d->name[i])) {
            cJSON *item = answer_item(list);
            answer_text(item, "name", d->name[i]);
            answer_text(item, "state", file_state(&d->a, &d->b, d->name[i]));
        }
    answer_print(o);
}

static void diff_print(const Diff *d, FILE *to)
{
    fprintf(to, "A: %s\nB: %s\n", side_name(d->a.c), side_name(d->b.c));
    if (d->nfields)
        fprintf(to, "\n%-30s %s\n", "fields", "A -> B");
    for (int i = 0; i < d->nfields; i++)
        fprintf(to, "  %-28s %s -> %s\n", d->field[i][0], d->field[i][1], d->field[i][2]);
    if (!d->nnumbers)
        return;
    fprintf(to, "\n%-24s %16s %16s %10s\n", "numbers", "A", "B", "B / A");
    for (int i = 0; i < d->nnumbers; i++) {
        const Number *n = &d->number[i];
        if (n->a || n->b)
            fprintf(to, "  %-22s %16s %16s %10s\n", n->name, number_text(n->a, n->bytes),
                    number_text(n->b, n->bytes), n->a ? text_print("%.4g", n->b / n->a) : "-");
    }
    fprintf(to, "\nemitted files: %d of %d differ\n", d->changed, d->nnames);
    print_files(&d->a, &d->b, d->name, d->nnames, to);
}

int diff_run(Graph *ga, Config *ca, Graph *gb, Config *cb, FILE *to)
{
    Diff d = {.a = side_of(ga, ca, ca->name), .b = side_of(gb, cb, ca->name)};
    int numbers = 0;
    d.field = arena_new(sizeof *d.field * (size_t)(NFIELDS + nrun_flags));
    d.name = arena_new(sizeof *d.name * (size_t)(d.a.nfiles + d.b.nfiles) + 1);
    d.nfields = fields_of(&d.a, &d.b, d.field);
    d.nnumbers = numbers_of(&d.a, &d.b, d.number);
    d.nnames = d.nnumbers ? files_of(&d.a, &d.b, d.name) : 0;
    for (int i = 0; i < d.nnames; i++)
        d.changed += file_state(&d.a, &d.b, d.name[i]) != NULL;
    for (int i = 0; i < d.nnumbers; i++)
        numbers += d.number[i].a != d.number[i].b;
    d.same = !d.nfields && !numbers && !d.changed;
    if (answer_wanted())
        diff_answer(&d);
    else if (!d.same)
        diff_print(&d, to);
    return !d.same;
}
