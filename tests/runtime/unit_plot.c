/* unit_plot.c -- figures: ticks, places, tables of damaged files, pictures read back by cairo. */
#define _GNU_SOURCE
#include "unit.h"
#include "../../runtime/base.h"
#include "../../runtime/plot/draw.h"
#include "../../runtime/plot/png.h"
#include "../../runtime/plot/table.h"
#include <dlfcn.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static uint32_t drawn_bits = 1;

static double pick(void)         /* 0 to 1 */
{
    drawn_bits = drawn_bits * 1664525 + 1013904223;
    return (drawn_bits >> 8) / 16777216.0;
}

/* ---- ticks ----------------------------------------------------------------------------------- */

/* Value of a tick's text. */
static double said(const char *text)
{
    static const char units[] = "kMGT";
    char *end;
    double v = strtod(text, &end);
    const char *unit = *end ? strchr(units, *end) : NULL;
    for (long k = unit ? unit - units + 1 : 0; k; k--)
        v *= 1000;
    return (unit ? end[1] : *end) ? NAN : v;
}

/* 1, 2 or 5 times a power of ten */
static bool choosable(double step)
{
    const double mantissa = step / pow(10, floor(log10(step) + 1e-9));
    return fabs(mantissa - 1) < 1e-6 || fabs(mantissa - 2) < 1e-6 || fabs(mantissa - 5) < 1e-6;
}

/* NULL, or what is wrong with ticks for lo to hi. */
static const char *wrong_ticks(const Ticks *t, double lo, double hi, const TicksWanted *w)
{
    const double step = t->n > 1 ? t->at[1] - t->at[0] : 0;
    if (t->n < 1 || t->n > w->most || !(t->lo < t->hi))
        return "their number";
    if (t->lo > lo || t->hi < hi)
        return "the axis is too short";
    const bool zero = t->at[0] == 0 && t->lo < 0 && -t->lo < step / 4;
    if (w->ends && !t->log && ((t->at[0] != t->lo && !zero) || t->at[t->n - 1] != t->hi))
        return "the axis has no tick at its end";
    if (!w->log && t->n > 1 && !choosable(step))
        return "the step";
    for (int i = 0; i < t->n; i++) {
        if (t->at[i] < t->lo || t->at[i] > t->hi || (i && t->at[i] <= t->at[i - 1]))
            return "their order";
        if (w->whole && fabs(t->at[i] - nearbyint(t->at[i])) > 1e-9)
            return "no whole number";
        if (w->log && !choosable(t->at[i]))
            return "a value of a log axis";
        if (i && !strcmp(t->text[i], t->text[i - 1]))
            return "two texts are the same";
        if (!(fabs(said(t->text[i]) - t->at[i]) <= 1e-6 * fmax(step, w->log ? t->at[i] : 0) + 1e-300) && t->n > 1)
            return "a text";
        if (!w->log && i && fabs(t->at[i] - t->at[i - 1] - step) > 1e-6 * step)
            return "steps differ";
    }
    return NULL;
}

static void test_ticks(void)
{
    static const struct { double lo, hi; TicksWanted w; const char *texts; } known[] = {
        {0, 100, {.most = 6}, "0 20 40 60 80 100"}, {0, 1000, {.most = 3}, "0 500 1000"},
        {0, 100000, {.most = 6}, "0 20k 40k 60k 80k 100k"}, {1, 3, {.most = 9, .whole = true}, "1 2 3"},
        {0, 5.2e-5, {.most = 4, .ends = true}, "0 2e-5 4e-5 6e-5"},
        {0, 2.5e6, {.most = 6}, "0 0.5M 1.0M 1.5M 2.0M 2.5M"},
        {-0.31, 0.2, {.most = 4, .ends = true}, "-0.4 -0.2 0 0.2"},
        {-0.02, 9, {.most = 4, .ends = true}, "0 5 10"}, {-1.3, 9, {.most = 4, .ends = true}, "-5 0 5 10"},
        {0.688, 0.694, {.most = 4, .ends = true}, "0.688 0.690 0.692 0.694"},
        {7, 7, {.most = 5, .whole = true}, "6 7 8"}, {0, 0, {.most = 3}, "-1 0 1"},
        {0.02, 30, {.most = 9, .log = true}, "0.01 0.1 1 10 100"}, {2, 30, {.most = 9, .log = true}, "2 5 10 20 50"},
        {1e-9, 1e9, {.most = 5, .log = true}, "1e-9 1e-5 0.1 1000 10M"},
        {3e3, 2e4, {.most = 9, .log = true}, "2000 5000 10k 20k"}, {0, 3e18, {.most = 4}, "0 1e18 2e18 3e18"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const Ticks t = ticks_of(known[i].lo, known[i].hi, &known[i].w);
        char all[512] = "", *name = format("ticks from %g to %g: %s", known[i].lo, known[i].hi, known[i].texts);
        for (int k = 0; k < t.n; k++)
            strcat(strcat(all, k ? " " : ""), t.text[k]);
        check(!strcmp(all, known[i].texts), name, "%s", all);
        free(name);
    }
    int bad = 0;
    char first[200] = "";
    for (int i = 0; i < 40000; i++) {
        const TicksWanted w = {.most = 3 + (int)(pick() * (TICKS_MOST - 3)), .log = i % 3 == 0, .whole = i % 3 == 1,
                               .ends = i % 2};
        const double size = pow(10, w.whole ? pick() * 12 : (pick() - 0.5) * 180);
        double lo = size * (w.log ? 0.01 + pick() : 2 * pick() - 1),
               hi = w.log ? lo * pow(10, pick() * 12 * pick()) : lo + size * pow(10, -7 * pick());
        if (w.whole)
            lo = floor(lo), hi = ceil(hi);
        const Ticks t = ticks_of(lo, hi, &w);
        const char *what = wrong_ticks(&t, lo, hi, &w);
        if (what && !bad++)
            snprintf(first, sizeof first, "%.17g to %.17g, at most %d%s%s: %s: %s, %s ...", lo, hi, w.most,
                     w.log ? ", log" : "", w.whole ? ", whole" : "", what, t.text[0], t.n > 1 ? t.text[1] : "");
    }
    check(!bad, "ticks of 40000 axes are what people would choose", "%d are not: %s", bad, first);
}

/* ---- places ---------------------------------------------------------------------------------- */

enum { MANY = 10000 };
static double x_of[MANY], y_of[MANY], z_of[MANY];

static double fixed_width(void *with, const char *text, double size, bool bold)
{
    (void)with;
    return (bold ? 0.65 : 0.6) * size * (double)strlen(text);
}

static bool overlap(const Box *a, const Box *b)
{
    return a->x < b->x + b->w && b->x < a->x + a->w && a->y < b->y + b->h && b->y < a->y + a->h;
}

/* NULL, or what is wrong with a layout; static. */
static const char *wrong_layout(const Layout *l, const Plot *p)
{
    static char text[300];
    const Box all = {0, 0, l->w, l->h};
    for (int i = 0; i < l->nlabels; i++) {
        const LayoutLabel *a = &l->label[i];
        if (a->box.x < all.x || a->box.y < all.y || a->box.x + a->box.w > all.w || a->box.y + a->box.h > all.h)
            return snprintf(text, sizeof text, "\"%s\" is outside", a->text), text;
        for (int k = 0; k < i; k++)
            if (overlap(&a->box, &l->label[k].box))
                return snprintf(text, sizeof text, "\"%s\" and \"%s\" overlap", a->text, l->label[k].text), text;
        for (int k = 0; k < p->npanels; k++)
            if (overlap(&a->box, &l->panel[k].axes))
                return snprintf(text, sizeof text, "\"%s\" is in the axes", a->text), text;
    }
    for (int k = 0; k < p->npanels; k++) {
        const LayoutPanel *in = &l->panel[k];
        if (in->axes.w < 200 || in->axes.h < 100)
            return "axes are small";
        for (int c = 0; c < p->panel[k].ncurves; c++)
            for (int64_t i = 0; i < p->panel[k].curve[c].n; i++) {
                const PlotCurve *of = &p->panel[k].curve[c];
                const double y = of->y[i], at = layout_y(in, y), x = layout_x(in, of->x[i]);
                if (layout_drawn(y) && !(at >= in->axes.y - 1e-6 && at <= in->axes.y + in->axes.h + 1e-6 &&
                                         x >= in->axes.x - 1e-6 && x <= in->axes.x + in->axes.w + 1e-6))
                    return snprintf(text, sizeof text, "%g is drawn at %g, %g", y, x, at), text;
            }
    }
    return NULL;
}

/* n points of a kind, in panels that differ. */
static Plot plot_of(int kind, int64_t n)
{
    static const char *const names[] = {"algebra", "a domain with a long name", "c", "\xc3\xa9t\xc3\xa9"};
    static const double base[] = {3, 0, 1e-8, -2e9, 1e90, 5e12};
    for (int64_t i = 0; i < n; i++) {
        x_of[i] = (double)(10 * (i + 1));
        y_of[i] = kind == 0 ? 2 + 9 * exp(-(double)i / 900) + 0.3 * pick()
                : kind == 1 ? 7.25
                : kind == 2 ? (i % 3 ? pow(10, 10 * pick() - 8) : i % 2 ? NAN : INFINITY)
                : kind == 3 ? 100 * pick() - 50
                            : base[(size_t)kind % 6] * (1 + pick());
        z_of[i] = 0.9 * y_of[i];
    }
    Plot p = {.title = "a_run: training, and so on", .npanels = 4};
    for (int k = 0; k < 4; k++) {
        p.panel[k] = (PlotPanel){.ylabel = "loss", .xlabel = "step", .log = k == 1, .zero = k == 2, .whole = k != 3,
                                 .ncurves = 2};
        p.panel[k].curve[0] = (PlotCurve){"training", PLOT_SOLID, n, x_of, y_of, NULL, NULL};
        p.panel[k].curve[1] = (PlotCurve){"validation, of a long name that takes its room", PLOT_DASHDOT, n, x_of, z_of,
                                          NULL, NULL};
    }
    p.panel[0].second = x_of, p.panel[0].x = x_of, p.panel[0].n = n;
    strcpy(p.panel[0].label, "tokens seen");
    for (int c = 2; c < PLOT_CURVES; c++)
        p.panel[3].curve[c] = p.panel[3].curve[1];
    p.panel[3].ncurves = PLOT_CURVES;
    if (n <= 4)
        p.panel[3].name = names, p.panel[3].names = n;
    for (int64_t i = 0; i < n && n <= 4; i++)
        x_of[i] = (double)i + 1;
    return p;
}

static void test_layout(void)
{
    static const int64_t points[] = {1, 2, 4, 61, MANY};
    static Layout l;
    for (int kind = 0; kind < 10; kind++)
        for (size_t i = 0; i < sizeof points / sizeof *points; i++)
            for (int panels = 1; panels <= 4; panels += 3) {
                Plot p = plot_of(kind, points[i]);
                if (kind == 2 && points[i] == 1)         /* nothing to be seen */
                    continue;
                p.npanels = panels;
                layout_figure(&l, &p, &(LayoutMeasure){fixed_width, NULL});
                char *name = format("texts apart, curves inside: kind %d, %lld points, %d panels", kind,
                                    (long long)points[i], panels);
                const char *wrong = wrong_layout(&l, &p);
                check(!wrong, name, "%s", wrong ? wrong : "");
                free(name);
            }
}

/* ---- pictures -------------------------------------------------------------------------------- */

/* Cairo's own reader of PNG, as the witness. */
static struct {
    CairoSurface *(*read)(const char *path);
    int (*status)(CairoSurface *), (*width)(CairoSurface *), (*height)(CairoSurface *);
} witness;

static bool open_witness(void)
{
    void *library = dlopen("libcairo.so.2", RTLD_NOW), *found[] = {
        library ? dlsym(library, "cairo_image_surface_create_from_png") : NULL,
        library ? dlsym(library, "cairo_surface_status") : NULL,
        library ? dlsym(library, "cairo_image_surface_get_width") : NULL,
        library ? dlsym(library, "cairo_image_surface_get_height") : NULL};
    memcpy(&witness, found, sizeof witness);
    return found[0] && found[1] && found[2] && found[3];
}

typedef struct { int w, h; uint32_t *pixel; } Picture;

static Picture picture_of(const Cairo *c, const char *path)
{
    CairoSurface *s = witness.read(path);
    Picture p = {0, 0, NULL};
    if (witness.status(s) == 0) {
        p = (Picture){witness.width(s), witness.height(s), NULL};
        const int stride = c->image_surface_get_stride(s) / 4;
        p.pixel = malloc(sizeof *p.pixel * (size_t)(p.w * p.h));
        for (int y = 0; y < p.h; y++)
            for (int x = 0; x < p.w; x++)
                p.pixel[y * p.w + x] = ((const uint32_t *)c->image_surface_get_data(s))[y * stride + x] & 0xffffff;
    }
    c->surface_destroy(s);
    return p;
}

static void test_png(const Cairo *c, const char *scratch)
{
    static const char *const names[] = {"one colour", "noise", "runs of all lengths"};
    enum { W = 301, H = 97 };
    static uint32_t pixel[W * H];
    for (int kind = 0; kind < 3; kind++) {
        uint32_t colour = 0;
        for (int i = 0, left = 0, run = 0; i < W * H; i++) {
            if (kind == 2 && left-- == 0)
                left = ++run, colour = (uint32_t)(pick() * 256) * 0x10101u;
            pixel[i] = kind == 0 ? 0xffffff : kind == 1 ? (uint32_t)(pick() * 0x1000000) : colour;
        }
        size_t n;
        char *path = format("%s/small.png", scratch), *name = format("a PNG of %s, read by another", names[kind]);
        unsigned char *png = png_encode(pixel, W, H, W, &n);
        FILE *to = fopen(path, "wb");
        check(to && fwrite(png, 1, n, to) == n && fclose(to) == 0, "a PNG is written", "%s", path);
        Picture p = picture_of(c, path);
        check(p.w == W && p.h == H && !memcmp(p.pixel, pixel, sizeof pixel), name, "%d x %d", p.w, p.h);
        free(p.pixel), free(png), free(path), free(name);
    }
}

/* Of a figure of one blue curve: how far its pixels reach in the picture. */
static Box reach_of(const Picture *p)
{
    double x0 = p->w, y0 = p->h, x1 = -1, y1 = -1;
    for (int y = 0; y < p->h; y++)
        for (int x = 0; x < p->w; x++)
            if ((p->pixel[y * p->w + x] & 255) > (p->pixel[y * p->w + x] >> 16) + 40) {
                x0 = fmin(x0, x), x1 = fmax(x1, x + 1);
                y0 = fmin(y0, y), y1 = fmax(y1, y + 1);
            }
    return (Box){x0, y0, x1 - x0, y1 - y0};
}

static void test_picture(const Cairo *c, const char *scratch)
{
    static Layout l;
    char *path = format("%s/figure.png", scratch), *error;
    for (int kind = 0; kind < 5; kind++) {
        Plot p = plot_of(kind, MANY);
        if (kind == 4) {                 /* 9999 points alike, and one */
            for (int i = 0; i < MANY; i++)
                y_of[i] = 0;
            y_of[5000] = 8;
        }
        p.npanels = p.panel[0].ncurves = 1;
        p.panel[0].curve[0].label = "";
        p.panel[0].second = NULL;
        draw_layout(c, &p, &l);
        char *first_error = draw_figure(c, &p, scratch, "again.png"), *again = format("%s/again.png", scratch);
        error = draw_figure(c, &p, scratch, "figure.png");
        char *name = format("kind %d: a picture of the figure's size", kind);
        Picture is = picture_of(c, path), other = picture_of(c, again);
        check(!error && !first_error && is.w == (int)ceil(l.w) && is.h == (int)ceil(l.h), name, "%s",
              error ? error : "another size");
        free(name);
        check(is.w == other.w && !memcmp(is.pixel, other.pixel, sizeof *is.pixel * (size_t)(is.w * is.h)),
              "the same figure, the same pixels", "they differ");
        const Box r = reach_of(&is), a = l.panel[0].axes;
        name = format("kind %d: the curve is inside its axes", kind);
        check(r.w > 0 && r.x >= a.x - 3 && r.y >= a.y - 3 && r.x + r.w <= a.x + a.w + 3 && r.y + r.h <= a.y + a.h + 3,
              name, "%g %g, %g x %g in %g %g, %g x %g", r.x, r.y, r.w, r.h, a.x, a.y, a.w, a.h);
        free(name);
        if (kind == 4)
            check(r.y <= layout_y(&l.panel[0], 8) + 3, "the one point that is another is drawn", "up to %g", r.y);
        free(is.pixel), free(other.pixel), free(again), free(error), free(first_error);
    }
    free(path);
}

/* ---- files ----------------------------------------------------------------------------------- */

static void write_file(const char *path, const void *from, size_t n)
{
    FILE *to = fopen(path, "wb");
    check(to && fwrite(from, 1, n, to) == n && fclose(to) == 0, "a file is written", "%s", path);
}

static void test_tables(const char *scratch)
{
    static const char lines[] = "{\"step\": 1, \"loss\": 2.5}\nnonsense\n"
                                "{\"step\": 2, \"loss\": null, \"more\": \"x\"}\n"
                                "[1]\n{\"step\": 3, \"loss\": 1e400}\n{\"step\": 4, \"eval\": -1}\n{\"step\": 5, \"lo";
    char *path = format("%s/history.jsonl", scratch), *link = format("%s/link.jsonl", scratch), *error;
    Table t = {0};
    write_file(path, lines, strlen(lines));
    error = table_lines(&t, path);
    const double *loss = table_column(&t, "loss"), *step = table_column(&t, "step");
    check(!error && t.n == 3 && t.bad == 3 && t.bad_line == 2 && loss && step && loss[0] == 2.5 && isinf(loss[1]) &&
              isnan(loss[2]) && step[2] == 4,
          "a damaged history: its records, and how many lines are none", "%s: %lld rows, %lld bad from %lld",
          error ? error : "", (long long)t.n, (long long)t.bad, (long long)t.bad_line);
    table_free(&t), free(error);

    check(symlink("history.jsonl", link) == 0 && (error = table_lines(&t, link)) && t.n == 0,
          "a history that is a symbolic link is not read", "%lld rows", (long long)t.n);
    table_free(&t), free(error);
    unlink(path);
    error = table_lines(&t, path);
    check(!error && t.n == 0, "no history: no rows", "%s", error ? error : "rows");
    table_free(&t), free(error);

    static const struct { const char *text; int64_t rows, bad; bool refused; } tables[] = {
        {"epoch,loss\n0,1\n1,2\n", 2, 0, false}, {"epoch,loss\n0,1\n1\n2,3,4\n,5\n", 2, 2, false},
        {"epoch,loss\n0,x\n1,nan\n", 1, 1, false}, {"", 0, 0, false}, {"epoch,epoch\n1,2\n", 0, 0, true}};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        write_file(path, tables[i].text, strlen(tables[i].text));
        error = table_csv(&t, path);
        char *name = format("table %zu of numbers between commas", i + 1);
        check(!error == !tables[i].refused && t.n == tables[i].rows && t.bad == tables[i].bad, name,
              "%s: %lld rows, %lld bad", error ? error : "", (long long)t.n, (long long)t.bad);
        free(name);
        table_free(&t), free(error);
    }

    static const char *const shapes[] = {"(2, 3)", "(3, 3)", "(6,)", "(2, 3, 1)", "(99999999, 99999999)", "(-2, -3)",
                                        "(0, 0)"};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        unsigned char npy[10 + 118 + 48];
        static const double of[6] = {1, 2, 3, 3, 6, 9};
        memset(npy, ' ', sizeof npy);
        memcpy(npy, "\x93NUMPY\x01\x00\x76\x00", 10);
        char *head = format("{'descr': '<f8', 'fortran_order': False, 'shape': %s, }", shapes[i]);
        memcpy(npy + 10, head, strlen(head));
        memcpy(npy + 128, of, sizeof of);
        write_file(path, npy, sizeof npy);
        error = table_returns(&t, path);
        char *name = format("returns of shape %s", shapes[i]);
        const double *mean = table_column(&t, "mean"), *high = table_column(&t, "high");
        check(i == 0 ? !error && t.n == 3 && mean[1] == 4 && high[2] == 9 : error && t.n == 0, name, "%s, %lld rows",
              error ? error : "taken", (long long)t.n);
        free(name), free(head), free(error);
        table_free(&t);
    }

    static const char records[] = "[{\"id\": \"1\", \"domain\": \"b\", \"noisy\": true, \"weight\": 0.5},"
                                  "{\"id\": \"2\", \"domain\": \"a\", \"noisy\": false, \"weight\": 1.5}, 3,"
                                  "{\"id\": \"3\", \"domain\": \"b\", \"noisy\": true, \"weight\": 1.0},"
                                  "{\"weight\": \"x\"}]";
    write_file(path, records, strlen(records));
    error = table_weights(&t, path);
    const double *noisy = table_column(&t, "noisy"), *weight = table_column(&t, "weight");
    check(!error && noisy && weight && weight[0] == 0.5 && noisy[0] == 50 && weight[t.n - 1] == 1.5 &&
              !table_column(&t, "all"), "weights of records, of 100 noisy ones", "%s", error ? error : "other numbers");
    table_free(&t), free(error);
    error = table_domains(&t, path);
    check(!error && t.n == 2 && t.names == 2 && !strcmp(t.name[1], "b") && table_column(&t, "mean")[1] == 0.75 &&
              table_column(&t, "low")[1] == 0.5, "weights by domain", "%s", error ? error : "other numbers");
    table_free(&t), free(error);
    write_file(path, "{", 1);
    check((error = table_weights(&t, path)) && !t.n, "weights that are no JSON", "taken");
    table_free(&t), free(error);
    unlink(path), unlink(link);
    free(path), free(link);
}

void test_plot(const char *scratch)
{
    test_ticks();
    test_layout();
    test_tables(scratch);
    char *error = NULL;
    const Cairo *c = cairo_open(&error);
    check(c && open_witness(), "libcairo is there", "%s", error ? error : "it reads no PNG");
    if (c) {
        test_png(c, scratch);
        test_picture(c, scratch);
    }
    free(error);
}
