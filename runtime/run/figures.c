/* figures.c -- figures of a run, by the rows of figures.def.
 *
 * In:    files of the run folder. Out: PNG files in it, and a line that names them. */
#define _GNU_SOURCE
#include "runtime/run/figures.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/files/folder.h"
#include "runtime/files/names.h"
#include "runtime/objectives/owners.h"
#include "runtime/plot/draw.h"

/* ---- the rows -------------------------------------------------------------------------------- */

enum {
#define SOURCE(name, file) SOURCE_##name,
#include "runtime/run/figures.def"
    SOURCES
};

static const struct {
    const char *name, *file;
} source[SOURCES] = {
#define SOURCE(name, file) {#name, file},
#include "runtime/run/figures.def"
};

enum { LOG = 1, ZERO = 2, WHOLE = 4 };
typedef enum {
    ROW_FIGURE,
    ROW_PANEL,
    ROW_SECOND,
    ROW_NAMES,
    ROW_CURVE,
    ROW_AROUND,
    ROW_GAP,
    ROW_END
} RowKind;

typedef struct {
    RowKind kind;
    const char *a, *b, *c, *label;
    int n;                       /* flags, style */
    int source, owners;
} Row;

static const Row rows[] = {
#define FIGURE(owners, file, title) {ROW_FIGURE, NULL, file, NULL, title, 0, 0, OWNERS(owners)},
#define PANEL(source, x, xlabel, ylabel, flags) \
    {ROW_PANEL, x, xlabel, NULL, ylabel, flags, SOURCE_##source, 0},
#define SECOND(column, label) {ROW_SECOND, column, NULL, NULL, label, 0, 0, 0},
#define NAMES() {ROW_NAMES, NULL, NULL, NULL, NULL, 0, 0, 0},
#define CURVE(y, label, style) {ROW_CURVE, y, NULL, NULL, label, PLOT_##style, 0, 0},
#define SPAN(y, low, high, label, style) {ROW_CURVE, y, low, high, label, PLOT_##style, 0, 0},
#define AROUND(y, error, label, style) {ROW_AROUND, y, error, NULL, label, PLOT_##style, 0, 0},
#define GAP(y, other, label) {ROW_GAP, y, other, NULL, label, PLOT_SOLID, 0, 0},
#include "runtime/run/figures.def"
    {ROW_END, NULL, NULL, NULL, NULL, 0, 0, 0}};

static bool is_figure(const Row *r)
{
    return r->kind == ROW_FIGURE || r->kind == ROW_END;
}

/* ---- a run folder ---------------------------------------------------------------------------- */

/* State while the figures of a folder are drawn. */
typedef struct {
    const FiguresOf *of;
    const Cairo *cairo;          /* NULL: not loaded yet */
    Table *table[SOURCES];       /* NULL: not read yet */
    const char *star;            /* of the figure */
    char *drawn;                 /* names of figures, with commas between */
    char *error;                 /* the first, malloc'ed; NULL: none */
    int code;                    /* with it: exit code of --plot */
    bool missing;                /* the library was loaded */
} Drawing;

/* Replaces the first `what` in *text, which is malloc'ed, by `by`. */
static char *with(const char *text, const char *what, const char *by)
{
    const char *at = strstr(text, what);
    return at ? format("%.*s%s%s", (int)(at - text), text, by, at + strlen(what))
              : format("%s", text);
}

/* Returns the text with @loss, @work and @best replaced by metrics; malloc'ed. */
static char *named(const FiguresOf *of, const char *text)
{
    const Metrics *m = of->metrics;
    const char *name[][2] = {{"@loss", m->step[0].name}, {"@work", m->step[m->step_work].name},
                             {"@best", m->eval[m->decides].name}};
    char *all = format("%s", text);
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        char *next = with(all, name[i][0], name[i][1]);
        free(all);
        all = next;
    }
    return all;
}

/* Takes ownership of error. */
static void fail(Drawing *d, int code, char *error)
{
    if (d->error) {
        free(error);
        return;
    }
    d->error = error;
    d->code = code;
}

static Table *new_table(void)
{
    Table *t = calloc(1, sizeof *t);
    if (!t)
        die(EXIT_INTERNAL, "out of memory for a table");
    return t;
}

static void drop(Drawing *d, int k)
{
    if (d->table[k]) {
        table_free(d->table[k]);
        free(d->table[k]);
    }
    d->table[k] = NULL;
}

/* Returns the objective's reader of a source, or that of the history; NULL: there is none. */
static TableReader *reader_of(const FiguresOf *of, int k)
{
    for (const FigureReader *r = of->readers; r && r->source; r++)
        if (!strcmp(r->source, source[k].name))
            return r->read;
    return k == SOURCE_history ? table_lines : NULL;
}

static Table *table_of(Drawing *d, int k)
{
    if (d->table[k])
        return d->table[k];
    Table *t = d->table[k] = new_table();
    TableReader *const read = reader_of(d->of, k);
    char *name = with(source[k].file, "*", d->star), *path = folder_join(d->of->out, name),
         *error = !*name ? NULL : read ? read(t, path) : format("%s: no reader", source[k].file);
    if (error)
        fail(d, EXIT_DATA, error);
    if (t->bad)
        warn("%s: line %" PRId64 "%s: not a record of numbers, left out of the figures", path,
             t->bad_line, t->bad > 1 ? " and others" : "");
    free(name), free(path);
    return t;
}

/* ---- from rows to a figure ------------------------------------------------------------------- */

static const double *column(const Drawing *d, const Table *t, const char *name)
{
    char *full = name ? named(d->of, name) : NULL;
    const double *v = full ? table_column(t, full) : NULL;
    free(full);
    return v;
}

/* Adds a column derived from two, the first of which is `name`: "NAME below". */
static const double *combine(Table *t, const char *name, const char *how, const double *a,
                             const double *b, double (*of)(double, double))
{
    char *both = format("%s %s", name, how);
    double *v = a && b ? table_make(t, both) : NULL;
    free(both);
    for (int64_t i = 0; v && i < t->n; i++)
        v[i] = of(a[i], b[i]);
    return v;
}

static double below(double y, double error) { return y - error; }
static double above(double y, double error) { return y + error; }
static double apart(double a, double b) { return fabs(a - b); }

static bool any_point(const PlotCurve *c)
{
    for (int64_t i = 0; i < c->n; i++)
        if (layout_drawn(c->x[i]) && layout_drawn(c->y[i]) &&
            !(c->style == PLOT_RULES && c->y[i] == 0))
            return true;
    return false;
}

static void add_curve(const Drawing *d, PlotPanel *p, Table *t, const double *x, const Row *r)
{
    PlotCurve c = {
        .label = r->label, .style = (PlotStyle)r->n, .n = t->n, .x = x, .y = column(d, t, r->a)};
    const double *other = column(d, t, r->b);
    if (r->kind == ROW_GAP)
        c.y = combine(t, r->a, "gap", c.y, other, apart);
    else if (r->kind == ROW_AROUND)
        c.low = combine(t, r->a, "below", c.y, other, below),
        c.high = combine(t, r->a, "above", c.y, other, above);
    else
        c.low = other, c.high = column(d, t, r->c);
    if (!c.low || !c.high)
        c.low = c.high = NULL;
    if (c.y && any_point(&c) && p->ncurves < PLOT_CURVES)
        p->curve[p->ncurves++] = c;
}

static void put(const Drawing *d, char to[PLOT_TEXT], const char *text)
{
    char *full = named(d->of, text);
    snprintf(to, PLOT_TEXT, "%s", full);
    free(full);
}

/* Lays out the panel of a row, with the rows below it; a panel without points is empty. */
static void build_panel(Drawing *d, PlotPanel *p, const Row *r)
{
    Table *t = table_of(d, r->source);
    const double *x = column(d, t, r->a);
    *p = (PlotPanel){.log = r->n & LOG, .zero = r->n & ZERO, .whole = r->n & WHOLE};
    put(d, p->xlabel, r->b);
    put(d, p->ylabel, r->label);
    for (r++; x && r->kind != ROW_PANEL && !is_figure(r); r++) {
        if (r->kind == ROW_SECOND) {
            p->second = column(d, t, r->a);
            p->x = x, p->n = t->n;
            put(d, p->label, r->label);
        } else if (r->kind == ROW_NAMES) {
            p->name = (const char *const *)t->name, p->names = t->names;
        } else {
            add_curve(d, p, t, x, r);
        }
    }
}

static void build(Drawing *d, Plot *p, const Row *r)
{
    char *star = format("%s", d->star), *between = *star ? " " : "";
    for (char *c = star; *c; c++)
        *c = *c == '_' ? ' ' : *c;
    *p = (Plot){.npanels = 0};
    snprintf(p->title, PLOT_TEXT, "%s: %s%s%s", d->of->model->name, r->label,
             *star == ' ' ? "" : between, star);
    free(star);
    for (r++; !is_figure(r); r++)
        if (r->kind == ROW_PANEL && p->npanels < PLOT_PANELS) {
            build_panel(d, &p->panel[p->npanels], r);
            p->npanels += p->panel[p->npanels].ncurves > 0;
        }
}

/* Draws a figure, with d->star for its *. */
static void draw(Drawing *d, const Row *r)
{
    Plot *p = malloc(sizeof *p);
    char *error = NULL, *file = with(r->b, "*", d->star), *path = folder_join(d->of->out, file);
    if (!p)
        die(EXIT_INTERNAL, "out of memory for a figure");
    build(d, p, r);
    if (p->npanels && !d->missing && !d->cairo && !(d->cairo = cairo_open(&error))) {
        d->missing = true;
        fail(d, EXIT_CONFIG, error);
    }
    if (p->npanels && d->cairo) {
        if (!(error = folder_make_below(d->of->out, path)))
            error = draw_figure(d->cairo, p, d->of->out, file);
        char *more =
            error ? NULL : format("%s%s%s", d->drawn ? d->drawn : "", d->drawn ? ", " : "", file);
        if (error) {
            fail(d, EXIT_IO, error);
        } else {
            free(d->drawn);
            d->drawn = more;
        }
    }
    free(p), free(file), free(path);
}

/* Draws a figure for each file that matches the pattern of its first source. */
static void draw_each(Drawing *d, const Row *r)
{
    const int k = r[1].source;
    struct dirent **entry;
    const int n = strchr(source[k].file, '*') ? scandir(d->of->out, &entry, NULL, alphasort) : -1;
    if (!strchr(source[k].file, '*')) {
        d->star = "";
        draw(d, r);
    }
    for (int i = 0; i < n; i++) {
        const char *name = entry[i]->d_name;
        if (fnmatch(source[k].file, name, 0) == 0) {
            const size_t before = strcspn(source[k].file, "*"),
                         stars = strlen(name) + 1 - strlen(source[k].file);
            char *star = format("%.*s", (int)stars, name + before);
            d->star = star;
            drop(d, k);
            draw(d, r);
            free(star);
        }
        free(entry[i]);
    }
    if (n >= 0)
        free(entry);
    drop(d, n < 0 ? SOURCE_given : k);
}

static void end(Drawing *d)
{
    for (int k = 0; k < SOURCES; k++)
        drop(d, k);
}

/* Draws the figures of one source, or SOURCES: of all. */
static void draw_all(Drawing *d, int only)
{
    const char *objective = d->of->model->objective;
    for (const Row *r = rows; r->kind != ROW_END; r++)
        if (r->kind == ROW_FIGURE && (only == SOURCES || r[1].source == only) &&
            owners_include(r->owners, objective))
            draw_each(d, r);
    end(d);
}

/* Reports the figures drawn, and why others were not. */
static void say(Drawing *d)
{
    if (d->drawn)
        note("figures in %s: %s", d->of->out, d->drawn);
    if (d->missing)
        note("no figures: %s; draw them later with --plot", d->error);
    else if (d->error)
        warn("a figure is not drawn: %s", d->error);
    free(d->drawn), free(d->error);
}

void figures_end(const FiguresOf *of)
{
    Drawing d = {.of = of};
    if (world.rank != 0)
        return;
    draw_all(&d, SOURCES);
    say(&d);
}

void figures_source(const FiguresOf *of, const char *name)
{
    Drawing d = {.of = of};
    for (int k = 0; k < SOURCES && world.rank == 0; k++)
        if (!strcmp(source[k].name, name))
            draw_all(&d, k);
    say(&d);
}

void figures_table(const FiguresOf *of, const char *file, const char *star, Table *t)
{
    Drawing d = {.of = of, .star = star};
    for (const Row *r = rows; r->kind != ROW_END && world.rank == 0; r++)
        if (r->kind == ROW_FIGURE && !strcmp(r->b, file)) {
            d.table[SOURCE_given] = new_table();
            *d.table[SOURCE_given] = *t;
            *t = (Table){0};
            draw(&d, r);
        }
    end(&d);
    say(&d);
}

void figures_plot(const FiguresOf *of)
{
    Drawing d = {.of = of};
    if (world.rank != 0)
        return;
    if (!folder_exists(of->out))
        die(EXIT_CONFIG, "--plot: %s: not a run folder; give one with --out DIR", of->out);
    draw_all(&d, SOURCES);
    if (d.drawn)
        note("figures in %s: %s", of->out, d.drawn);
    if (d.error)
        die(d.code, "--plot: %s", d.error);
    if (!d.drawn)
        die(EXIT_CONFIG,
            "--plot: %s has nothing to draw: needs a history.jsonl with at least one record "
            "(--log-every N); give another run folder with --out DIR",
            of->out);
    free(d.drawn);
}
