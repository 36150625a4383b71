/* info.c -- `gen info NAME`: summary of a recipe: purpose, time, memory, commands.
 *
 * In:    the graph after plan.
 * Out:   text or JSON, with the same numbers. */
#include "gen/emit/emit.h"
#include "gen/lower/lower.h"
#include "gen/tools/answer.h"
#include "gen/tools/tools.h"

#include <inttypes.h>
#include <string.h>

#include "runtime/files/names.h"
#include "runtime/objectives/owners.h"

/* Figures of the summary. */
typedef struct {
    Holdings held;
    Length length;
    Device device;
    Cost cost;
    Disk disk;
    Work work;
    Sent sent;                   /* in a step */
    double tokens;               /* per step, all ranks */
    int64_t host;  /* host bytes of a rank, besides device memory; on a CPU they are the same */
    const char *recipe, *other, *out;        /* words after gen, without gpus=; the folder */
} Info;

static const struct { const char *name; int owners; const char *about; } run_file[] = {
#define RUN_FILE(name, kind, owners, about) {name, OWNERS(owners), about},
#include "runtime/run/run_files.def"
};
enum { LEAVES = sizeof run_file / sizeof *run_file };

static bool run_file_applies(int i, const Objective *o)
{
    return run_file[i].owners == OWNERS_all ? !o->standalone
                                            : owners_include(run_file[i].owners, o->name);
}

static Info info_of(const Graph *g, Config *c)
{
    Info n = {.held = measure_holdings(g),
              .length = run_length(g, c),
              .device = device_of(g, c),
              .cost = step_cost(g, c),
              .disk = disk_of(g, c),
              .work = step_work(g),
              .sent = step_sent(g, c),
              .tokens = step_tokens(g, c),
              .out = text_print("out/%s", c->name)};
    const GraphSetting *words = &g->setting[SETTING_overrides];
    Str recipe = {0}, other = {0};
    str_print(&recipe, "%s", text_shell(g->setting[SETTING_recipe].text));
    str_print(&other, "%s", recipe.text);
    for (int i = 0; i < words->n; i++) {
        str_print(&recipe, " %s", text_shell(words->word[i]));
        if (strncmp(words->word[i], "gpus=", 5))
            str_print(&other, " %s", text_shell(words->word[i]));
    }
    n.host = strcmp(g->target->backend, "cuda") ? g->arena_bytes
                                             : n.held.purpose[PU_inputs] + n.held.pinned;
    n.recipe = recipe.text;
    n.other = other.text;
    return n;
}

static void line(FILE *to, const char *what, const char *text)
{
    fprintf(to, "  %-10s %s\n", what, text);
}

static const char *plural(int64_t n)
{
    return n == 1 ? "" : "s";
}

static void print_model(const Graph *g, Config *c, const Info *n, FILE *to)
{
    Str s = {0};
    str_print(&s, "%s, %" PRId64 " layer%s of %" PRId64, g->family, config_int(c, F_model_layers),
              plural(config_int(c, F_model_layers)), config_int(c, F_model_hidden));
    if (field_applies(c, F_model_heads))
        str_print(&s, ", %" PRId64 " heads", config_int(c, F_model_heads));
    if (field_applies(c, F_model_vocab))
        str_print(&s, ", vocabulary %s", text_grouped(config_int(c, F_model_vocab)));
    line(to, "model", s.text);
    line(to, "parameters", text_print("%s, %s of them trained", text_grouped(n->held.parameters),
                                text_grouped(n->held.trained)));
}

static void print_length(const Graph *g, const Info *n, FILE *to)
{
    const Length *l = &n->length;
    const double most = run_number(g, "max_samples"), share = run_number(g, "eval_share");
    line(to, "samples",
         most > 0 ? text_print("the first %s of --data%s", text_grouped((int64_t)most),
                               share > 0 ? text_print(", %g of them to validate on", share) : "")
                  : "all of --data");
    const char *of =
        l->epochs ? text_print("%g epoch%s", l->epochs, l->epochs == 1 ? "" : "s") : "";
    if (!l->updates)
        line(to, "length", text_print("%s; the number of updates depends on the data", of));
    else
        line(to, "length",
             text_print("%s%s%s updates%s%s", of, *of ? ", " : "", text_grouped(l->updates),
                        *of ? " at most" : "",
                        l->epochs && l->an_epoch
                            ? text_print(", %s an epoch", text_grouped(l->an_epoch))
                            : ""));
}

/* "71 % products, 19 % attention": shares of a step of at least 1 %, the largest first. */
static char *kinds_text(const Cost *cost)
{
    static const struct { const char *name; Effort first, last; } part[] = {
        {"products", EFFORT_product, EFFORT_product},
        {"attention", EFFORT_attention_fwd, EFFORT_attention_bwd},
        {"elements", EFFORT_pointwise, EFFORT_pointwise},
        {"softmax", EFFORT_head, EFFORT_head},
        {"update", EFFORT_update, EFFORT_update}};
    enum { PARTS = sizeof part / sizeof *part + 2 };
    struct { const char *name; double share; } list[PARTS] = {
        {"launches", cost->limit[LIMIT_launches] / cost->step},
        {"other ranks", cost->limit[LIMIT_ranks] / cost->step}};
    Str s = {0};
    for (int i = 2; i < PARTS; i++) {
        list[i].name = part[i - 2].name;
        for (int k = (int)part[i - 2].first; k <= (int)part[i - 2].last; k++)
            list[i].share += cost->kind[k] / cost->step;
    }
    for (;;) {
        int most = 0;
        for (int i = 1; i < PARTS; i++)
            most = list[i].share > list[most].share ? i : most;
        if (list[most].share < 0.01)
            return s.text;
        str_print(&s, "%s%.0f %% %s", s.n ? ", " : "", 100 * list[most].share, list[most].name);
        list[most].share = 0;
    }
}

static void print_time(const Info *n, FILE *to)
{
    const Device *d = &n->device;
    const Length *l = &n->length;
    Str s = {0};
    str_print(&s, "about %s a step, %s tokens/s", text_seconds(n->cost.step),
              text_grouped((int64_t)(n->tokens / n->cost.step)));
    if (l->epochs && l->an_epoch)
        str_print(&s, "; %s an epoch", text_seconds(n->cost.step * (double)l->an_epoch));
    if (l->updates)
        str_print(&s, "; %s in all", text_seconds(n->cost.step * (double)l->updates));
    line(to, "time", s.text);
    line(to, "",
         text_print("estimated, %swithout validation: %s of %.3g TFLOP/s and %.4g GB/s "
                    "a rank,",
                    n->cost.measured ? text_print("%d calls as measured, ", n->cost.measured)
                                     : "not measured, ",
                    d->name, d->peak / 1e12, d->bandwidth / 1e9));
    line(to, "",
         text_print("%s; at the peak %s; --bench-steps 20 measures", kinds_text(&n->cost),
                    text_seconds(n->work.at_peak)));
}

static void print_bytes(const Graph *g, const Info *n, FILE *to)
{
    const bool cuda = !strcmp(g->target->backend, "cuda");
    Str s = {0};
    for (int i = 0; i < NPURPOSES; i++)
        if (n->held.purpose[i])
            str_print(&s, "%s%s %s", s.n ? ", " : "", purpose_name[i],
                      text_bytes(n->held.purpose[i]));
    line(to, cuda ? "device" : "memory",
         text_print("%s a rank, of %s", text_bytes(g->arena_bytes),
                    fit_limit(g) == INT64_MAX ? "what there is" : text_bytes(fit_limit(g))));
    line(to, "", text_print("%s;", s.text));
    const bool others = n->held.temporary[PU_weights] || n->held.temporary[PU_gradients];
    line(to, "", text_print("of these, activations%s workspace%s share memory over time",
                            others ? "," : " and",
                            others ? " and some of weights and gradients" : ""));
    if (tiles_text(g))
        line(to, "", tiles_text(g));
    const double sent = n->sent.within + n->sent.between;
    if (sent > 0)
        line(to, "sends",
             text_print("%s a rank and step%s", text_bytes((int64_t)sent),
                        n->sent.between > 0 ? text_print(", %s of them to other nodes",
                                                         text_bytes((int64_t)n->sent.between))
                                            : ""));
    if (cuda)
        line(to, "host",
             text_print("%s a rank for %sbatches in flight, not counting CUDA's libraries; records "
                        "are read on demand",
                        text_bytes(n->host), n->held.pinned ? "the embedding and " : ""));
    if (graph_snapshot_bytes(g))
        line(to, cuda ? "" : "host",
             text_print("%s of rank 0 for a copy from which a checkpoint is written",
                        text_bytes(graph_snapshot_bytes(g))));
    const Disk *d = &n->disk;
    line(to, "disk",
         d->kept ? text_print("%s: %" PRId64 " checkpoint%s of %s, and one while it is written",
                              text_bytes((d->kept + 1) * d->checkpoint), d->kept, plural(d->kept),
                              text_bytes(d->checkpoint))
                 : text_print("%s a checkpoint, all are kept", text_bytes(d->checkpoint)));
    for (int i = 0; i < LEAVES && d->kept; i++)
        if (run_file_applies(i, objective_find(g->objective)) && !strncmp(run_file[i].about,
                                                            "links to checkpoints", 20))
            line(to, "", text_print("more where %s names others, which stay", run_file[i].name));
    line(to, "",
         text_print("--export %s%s", text_bytes(d->export),
                    d->merged ? text_print(", --merge-lora %s", text_bytes(d->merged)) : ""));
}

static void print_run(const Graph *g, Config *c, const Info *n, FILE *to)
{
    const double warmup = run_number(g, "warmup");
    const char *scale = run_value(g, "lr_scale");
    const Card *card = config_card(c);
    line(to, "ranks",
         text_print("%" PRId64 " of %s (%s), %s", g->ranks, g->target->name,
                    card ? card->about : g->target->about, config_text(c, F_precision)));
    if (c->cluster)
        line(to, "cluster", cluster_text(c));
    line(to, "batch",
         text_print("%" PRId64 " x %" PRId64 " accumulated x %" PRId64 " rank%s = %" PRId64
                    " samples a step, of %" PRId64 " tokens at most",
                    config_int(c, F_batch_micro), config_int(c, F_batch_accum), g->ranks,
                    plural(g->ranks), n->length.batch, config_int(c, F_seq_max)));
    print_length(g, n, to);
    line(to, "rate",
         text_print("%s%s (%s%s), weight decay %s, clip %s", run_value(g, "lr"),
                    !strcmp(scale, "none") ? "" : text_print(" scaled by the ranks: %s", scale),
                    run_value(g, "schedule"),
                    warmup > 0 ? text_print(", warm-up %s", run_value(g, "warmup")) : "",
                    run_value(g, "weight_decay"), run_value(g, "clip")));
    print_time(n, to);
    print_bytes(g, n, to);
}

static void print_files(const Objective *o, const char *out, FILE *to)
{
    line(to, "files",
         text_print("%s: source, Makefile, run.sh, train.slurm; %s/run, or --out:", out, out));
    for (int i = 0; i < LEAVES; i++)
        if (run_file_applies(i, o))
            fprintf(to, "             %-26s %s\n", run_file[i].name, run_file[i].about);
}

/* Command that starts the program, by its cluster's launcher. */
static const char *start_of(const Config *c, const char *out)
{
    const char *launcher = c->cluster ? c->v[F_cluster_launcher].s : "";
    if (!strcmp(launcher, "slurm"))
        return text_print("sbatch %s", text_shell(text_print("%s/train.slurm", out)));
    if (!strcmp(launcher, "torchrun"))
        return text_print("torchrun --nnodes %lld --nproc-per-node %lld --no-python %s",
                          (long long)c->v[F_cluster_nodes].i,
                          (long long)(c->v[F_gpus].i / c->v[F_cluster_nodes].i),
                          text_shell(text_print("%s/train", out)));
    if (!strcmp(launcher, "mpirun"))
        return text_print("mpirun -n %lld %s", (long long)c->v[F_gpus].i,
                          text_shell(text_print("%s/train", out)));
    return text_shell(text_print("%s/run.sh", out));
}

static void info_print(const Graph *g, Config *c, FILE *to)
{
    const Objective *o = objective_find(g->objective);
    const Info n = info_of(g, c);
    fprintf(to, "%s%s%s\n", c->name, *c->v[F_about].s ? ": " : "", c->v[F_about].s);
    line(to, "objective", text_print("%s: %s", o->name, o->about));
    print_model(g, c, &n, to);
    print_run(g, c, &n, to);
    print_files(o, n.out, to);
    fprintf(to, "\n  gen %s && make -C %s\n  %s\n", n.recipe, text_shell(n.out),
            start_of(c, n.out));
    fprintf(to, "      with %s%s; --help has every flag\n", emit_required_flags(g, NULL, "FILE"),
            *run_value(g, "data") ? text_print(", by default %s", run_value(g, "data")) : "");
    fprintf(to, "  gen plan %s     the memory by buffers\n", n.recipe);
    fprintf(to, "  gen %s gpus=N     for another number of ranks\n", n.other);
}

/* ---- the same for programs ------------------------------------------------------------------- */

/* 0: unknown. */
static void add_known(cJSON *o, const char *key, int64_t n)
{
    if (n)
        answer_int(o, key, n);
    else
        answer_text(o, key, NULL);
}

static void add_shape(cJSON *o, Config *c)
{
    cJSON *shape = answer_object(o, "shape");
    for (int i = 0; i < NFIELDS; i++)
        if (!strncmp(field_row[i].path, "model.", 6) && field_applies(c, i) &&
            field_row[i].type == FT_INT)
            answer_int(shape, field_row[i].path + 6, c->v[i].i);
}

static void add_time(cJSON *o, const Info *n)
{
    cJSON *t = answer_object(o, "estimate");
    const Length *l = &n->length;
    answer_text(t, "device", n->device.name);
    answer_text(t, "card", n->device.card ? n->device.card->name : NULL);
    answer_float(t, "peak_flops", n->device.peak);
    answer_float(t, "bandwidth_bytes", n->device.bandwidth);
    answer_float(t, "step_seconds", n->cost.step);
    answer_float(t, "kernels_seconds", n->cost.kernels);
    cJSON *kinds = answer_object(t, "kind_seconds");
    for (int i = 0; i < NEFFORTS; i++)
        answer_float(kinds, effort_name[i], n->cost.kind[i]);
    answer_float(t, "starts_seconds", n->cost.limit[LIMIT_launches]);
    answer_float(t, "ranks_seconds", n->cost.limit[LIMIT_ranks]);
    answer_int(t, "measured_calls", n->cost.measured);
    answer_float(t, "step_seconds_at_peak", n->work.at_peak);
    answer_float(t, "tokens_per_second", n->tokens / n->cost.step);
    if (l->updates)
        answer_float(t, "run_seconds", n->cost.step * (double)l->updates);
    else
        answer_text(t, "run_seconds", NULL);
}

void answer_run_files(cJSON *o, const Objective *of)
{
    cJSON *list = answer_list(o, "run_files");
    for (int i = 0; i < LEAVES; i++)
        if (run_file_applies(i, of)) {
            cJSON *item = answer_item(list);
            answer_text(item, "name", run_file[i].name);
            answer_text(item, "about", run_file[i].about);
        }
}

void answer_commands(cJSON *o, const char *recipe, const char *out)
{
    cJSON *list = answer_list(o, "commands");
    answer_word(list, text_print("gen %s", recipe));
    answer_word(list, text_print("make -C %s", text_shell(out)));
    answer_word(list, text_shell(text_print("%s/run.sh", out)));
    answer_text(o, "folder", out);
}

static void info_answer(const Graph *g, Config *c)
{
    const Info n = info_of(g, c);
    const Length *l = &n.length;
    cJSON *o = answer_new(), *disk;
    answer_recipe(o, g, c);
    add_shape(o, c);
    answer_memory(o, g, &n.held);
    answer_int(o, "host_bytes", n.host);
    disk = answer_object(o, "disk");
    answer_int(disk, "checkpoint_bytes", n.disk.checkpoint);
    add_known(disk, "checkpoints_kept", n.disk.kept);
    answer_int(disk, "export_bytes", n.disk.export);
    add_known(disk, "merged_bytes", n.disk.merged);
    add_known(o, "samples", l->samples);
    add_known(o, "samples_held", l->held);
    answer_float(o, "epochs", l->epochs);
    add_known(o, "updates_an_epoch", l->epochs ? l->an_epoch : 0);
    add_known(o, "updates", l->updates);
    answer_float(o, "step_flop", n.work.flops);
    answer_float(o, "step_tokens", n.tokens);
    answer_float(o, "step_sent_bytes", n.sent.within + n.sent.between);
    answer_float(o, "step_sent_bytes_between", n.sent.between);
    add_time(o, &n);
    answer_run_files(o, objective_find(g->objective));
    answer_commands(o, n.recipe, n.out);
    answer_print(o);
}

void report_info(const Graph *g, Config *c, FILE *to)
{
    if (answer_wanted())
        info_answer(g, c);
    else
        info_print(g, c, to);
}
