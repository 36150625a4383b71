/* info.c -- `gen info NAME`: what a recipe trains, how, what it takes, and the commands.
 *
 * In:    the graph after plan.   Out: a page for people. */
#include "gen/gen.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The default of a run-time flag in programs of this recipe, as text. */
static const char *run_value(const Graph *g, const char *name)
{
    static const char *const row[][2] = {
#define FLAG(name, type, value, lo, hi, metavar, recipe, doc) {#name, #value},
#include "runtime/run/flags.def"
    };
    const Fact *flags = &g->fact[FACT_flags];
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

static double run_number(const Graph *g, const char *name)
{
    return strtod(run_value(g, name), NULL);
}

static void line(FILE *to, const char *what, const char *text)
{
    fprintf(to, "  %-10s %s\n", what, text);
}

static const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

static void print_model(const Graph *g, Config *c, FILE *to)
{
    int64_t all = 0, trained = 0;
    for (int i = 0; i < g->nvalues; i++)
        if (g->values[i]->kind == VK_PARAM) {
            int64_t n = value_parameters(g->values[i]);
            all += n;
            trained += g->values[i]->trained ? n : 0;
        }
    Str s = {0};
    str_print(&s, "%s, %" PRId64 " layer%s of %" PRId64, g->family, config_int(c, F_model_layers),
              plural(config_int(c, F_model_layers)), config_int(c, F_model_hidden));
    if (field_applies(c, F_model_heads))
        str_print(&s, ", %" PRId64 " heads", config_int(c, F_model_heads));
    if (field_applies(c, F_model_vocab))
        str_print(&s, ", vocabulary %s", text_grouped(config_int(c, F_model_vocab)));
    line(to, "model", s.text);
    line(to, "parameters", text_print("%s, %s of them trained", text_grouped(all), text_grouped(trained)));
}

/* Samples of a step, all ranks. */
static int64_t global_batch(Config *c, const Graph *g)
{
    return config_int(c, F_batch_micro) * config_int(c, F_batch_accum) * g->ranks;
}

/* Steps of the run, as far as they are known before there are data; 0: they are not. */
static int64_t steps(const Graph *g, int64_t batch)
{
    double most = run_number(g, "max_samples"), share = run_number(g, "eval_share");
    int64_t given = (int64_t)run_number(g, "steps"), train = (int64_t)(most * (1 - share) + 1e-6);
    return given ? given
                 : (int64_t)ceil(run_number(g, "epochs") * (double)((train + batch - 1) / batch));
}

static void print_run(const Graph *g, Config *c, FILE *to)
{
    const int64_t batch = global_batch(c, g), length = steps(g, batch);
    const double most = run_number(g, "max_samples"), warmup = run_number(g, "warmup"),
                 share = run_number(g, "eval_share");
    const char *scale = run_value(g, "lr_scale");
    line(to, "ranks", text_print("%" PRId64 " of %s (%s), %s", g->ranks, g->target->name,
                                 g->target->about, config_text(c, F_precision)));
    line(to, "batch", text_print("%" PRId64 " x %" PRId64 " accumulated x %" PRId64 " rank%s = %" PRId64
                                 " samples a step, of %" PRId64 " tokens at most",
                                 config_int(c, F_batch_micro), config_int(c, F_batch_accum), g->ranks,
                                 plural(g->ranks), batch, config_int(c, F_seq_max)));
    line(to, "samples", most > 0 ? text_print("the first %s of --data%s", text_grouped((int64_t)most),
                                              share > 0 ? text_print(", %g of them to validate on", share)
                                                        : "")
                                 : "all of --data");
    double epochs = run_number(g, "epochs"), least = report_least_seconds(g);
    const char *of = run_number(g, "steps") > 0 ? ""
                                                : text_print("%g epoch%s", epochs, epochs == 1 ? "" : "s");
    line(to, "length", !length ? of : text_print("%s%s%s steps%s", of, *of ? ", " : "",
                                                 text_grouped(length), *of && most > 0 ? " at most" : ""));
    line(to, "rate", text_print("%s%s (%s%s), weight decay %s, clip %s", run_value(g, "lr"),
                                !strcmp(scale, "none") ? "" : text_print(" scaled by the ranks: %s", scale),
                                run_value(g, "schedule"),
                                warmup > 0 ? text_print(", warm-up %s", run_value(g, "warmup")) : "",
                                run_value(g, "weight_decay"), run_value(g, "clip")));
    line(to, "memory", text_print("%s a rank, of %s", text_bytes(g->arena_bytes),
                                  fit_limit(g) == INT64_MAX ? "what there is" : text_bytes(fit_limit(g))));
    double all = least * (double)length;
    line(to, "time", text_print("at least %.3g ms a step, at the target's peak%s; --bench-steps 20 measures",
                                least * 1e3, !length      ? ""
                                             : all < 3600 ? text_print(", %.2g s in all", all)
                                                          : text_print(", %.2g h in all", all / 3600)));
}

void report_info(const Graph *g, Config *c, FILE *to)
{
    const Objective *o = objective_find(g->objective);
    const Fact *words = &g->fact[FACT_overrides];
    Str recipe = {0}, other = {0};           /* without the ranks */
    str_print(&recipe, "%s", text_shell(g->fact[FACT_recipe].text));
    str_print(&other, "%s", recipe.text);
    for (int i = 0; i < words->n; i++) {
        str_print(&recipe, " %s", text_shell(words->word[i]));
        if (strncmp(words->word[i], "gpus=", 5))
            str_print(&other, " %s", text_shell(words->word[i]));
    }
    const char *out = text_print("out/%s", c->name);
    fprintf(to, "%s%s%s\n", c->name, *c->v[F_about].s ? ": " : "", c->v[F_about].s);
    line(to, "objective", text_print("%s: %s", o->name, o->about));
    print_model(g, c, to);
    print_run(g, c, to);
    fprintf(to, "\n  gen %s && make -C %s\n  %s\n", recipe.text, text_shell(out),
            text_shell(text_print("%s/run.sh", out)));
    fprintf(to, "      with --data FILE%s; --help has every flag\n",
            *run_value(g, "data") ? text_print(", by default %s", run_value(g, "data")) : "");
    fprintf(to, "  gen plan %s     the memory by buffers\n", recipe.text);
    fprintf(to, "  gen %s gpus=N     for other ranks\n", other.text);
}
