/* emit.c -- contents of out/NAME: filled templates, kernels, runtime files and IR dumps.
 *
 * In:    the graph after plan, the source folders.   Out: files, through emit_folder.c.
 * Keeps: the same bytes on every run; every hole is filled once; numbers come from the graph. */
#define _GNU_SOURCE
#include "gen/config/objective.h"
#include "gen/config/toolchain.h"
#include "gen/emit/emit.h"
#include "gen/emit/lock.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/files/json.h"
#include "runtime/objectives/owners.h"
#include "runtime/ranks/comm.h"

/* ---- files ----------------------------------------------------------------------------------- */

#define FILL(path, ...) \
    template_fill(path, (Hole[]){__VA_ARGS__}, sizeof((Hole[]){__VA_ARGS__}) / sizeof(Hole))

/* Fills a template of the backend; holes that the template lacks are allowed. */
#define FILL_SOME(path, ...) \
    template_fill_some(path, (Hole[]){__VA_ARGS__}, sizeof((Hole[]){__VA_ARGS__}) / sizeof(Hole))

/* ---- the parts of the folder ----------------------------------------------------------------- */

static const char *recipe_of(const Graph *g)
{
    return recipe_name(g->setting[SETTING_recipe].text);
}

/* Returns the command-line overrides ` field=value ...`, quoted for a shell inside a comment. */
static char *overrides(const Graph *g)
{
    const GraphSetting *words = &g->setting[SETTING_overrides];
    Str s = {0};
    for (int i = 0; i < words->n; i++)
        str_print(&s, " %s", text_shell(text_comment(words->word[i])));
    return s.n ? s.text : "";
}

/* Returns the gen command that made the folder, quoted for a shell inside a comment. */
static char *command(const Graph *g)
{
    return text_print("gen %s%s", text_shell(text_comment(recipe_of(g))), overrides(g));
}

/* Returns the SHA-256 of the IR text after the last room, in hex. */
static char *ir_hash(const Graph *g)
{
    return sha256_hex(g->text, strlen(g->text));
}

static char *head(const Graph *g, const char *about)
{
    int groups = 0;
    for (int i = 0; i < g->nprograms; i++)
        groups += g->programs[i]->ngroups;
    return text_print(" *\n * %s.\n * Made by `%s`:\n * change the recipe, not this file.\n"
                      " * IR sha256 %.16s, %d kernel calls in %d programs, arena %s a rank.\n",
                      about, command(g), ir_hash(g), groups, g->nprograms,
                      text_bytes(g->arena_bytes));
}

/* Returns the #include lines for the kernels that the programs call. */
static char *kernel_includes(const Graph *g)
{
    int n;
    const char *const *file = emit_kernel_files(g, &n);
    Str s = {0};
    for (int i = 0; i < n; i++)
        str_print(&s, "#include \"kernels/%s/%s\"\n", g->target->backend, file[i]);
    return s.text;
}

static char *run_defaults(const Graph *g)
{
    const GraphSetting *flags = &g->setting[SETTING_flags];
    Str s = {0};
    for (int i = 0; i < flags->n; i++) {
        const char *word = flags->word[i], *equal = strchr(word, '=');
        str_print(&s, "    {%s, %s},\n", c_string(text_print("%.*s", (int)(equal - word), word)),
                  c_string(equal + 1));
    }
    return s.n ? s.text : "";
}

static void count_parameters(const Graph *g, int64_t *all, int64_t *trained)
{
    *all = *trained = 0;
    for (int i = 0; i < g->nvalues; i++)
        if (g->values[i]->kind == VK_PARAM) {
            int64_t n = value_parameters(g->values[i]);
            *all += n;
            *trained += g->values[i]->trained ? n : 0;
        }
}

/* Returns the cluster's name; NULL: the recipe has no cluster. */
static const char *cluster_of(const Graph *g)
{
    const char *lines = g->setting[SETTING_cluster].text;
    return lines ? cluster_value(lines, "name", 0) : NULL;
}

/* True if weights are updated inside the backward pass. */
static bool has_updates_in_backward(const Graph *g)
{
    for (int i = 0; i < g->nprograms; i++)
        if (g->programs[i]->role == ROLE_gradients && program_updates(g->programs[i]))
            return true;
    return false;
}

static char *recipe_h(const Graph *g)
{
    const GraphSetting *setting = g->setting;
    int64_t all, trained;
    count_parameters(g, &all, &trained);
    const char *adapter = setting[SETTING_adapter_json].text;
    Str s = {0};
    str_print(&s, "    .recipe = %s,\n    .name = %s,\n    .hash = \"%s\",\n",
              c_string(recipe_of(g)), c_string(setting[SETTING_name].text),
              setting[SETTING_hash].text);
    if (*overrides(g))
        str_print(&s, "    .overrides = %s,\n", c_string(overrides(g) + 1));
    if (setting[SETTING_order].text)
        str_print(&s, "    .order = \"%.64s\",\n", setting[SETTING_order].text);
    if (has_updates_in_backward(g))
        str_print(&s, "    .updates_in_backward = true,\n");
    str_print(&s, "    .generator = \"%s\",\n    .ir = \"%s\",\n    .kernels = \"%s\",\n",
              GEN_VERSION, ir_hash(g), folder_hash("kernels/"));
    str_print(&s,
              "    .objective = \"%s\",\n    .family = \"%s\",\n    .precision = \"%s\",\n    "
              ".target = \"%s\",\n",
              g->objective, g->family, setting[SETTING_precision].text, g->target->name);
    if (cluster_of(g))
        str_print(&s, "    .cluster = %s,\n", c_string(cluster_of(g)));
    str_print(&s, "    .model_fields =\n    %s,\n", c_string(setting[SETTING_model_fields].text));
    if (setting[SETTING_other_fields].text)
        str_print(&s, "    .other_fields =\n    %s,\n",
                  c_string(setting[SETTING_other_fields].text));
    str_print(&s, "    .config_json =\n    %s,\n", c_string(setting[SETTING_config_json].text));
    if (adapter)
        str_print(&s, "    .adapter_json =\n    %s,\n", c_string(adapter));
    str_print(&s, "    .micro = %s, .accum = %" PRId64 ", .ranks = %" PRId64 ", .longest = T,\n",
              ir_size(g, "S") ? "S" : "B", emit_micros(g), g->ranks);
    str_print(&s,
              "    .parameters = INT64_C(%" PRId64 "), .trained = INT64_C(%" PRId64
              "),\n    .planned_bytes = INT64_C(%" PRId64 "),\n",
              all, trained, g->arena_bytes);
    if (graph_snapshot_bytes(g))
        str_print(&s, "    .snapshot_bytes = INT64_C(%" PRId64 "),\n", graph_snapshot_bytes(g));
    return s.text;
}

/* Returns the calls that compile attention, and of the schedules that run once at start. */
static char *start_calls(const Graph *g)
{
    Str s = {0};
    str_print(&s, "%s", emit_attention_starts(g));
    for (int i = 0; i < g->nschedules; i++)
        if (schedule_at_start(g->schedules[i]))
            str_print(&s, "%s", emit_calls(g, g->schedules[i], emit_backend(g)->stream));
    return s.n ? s.text : "";
}

static bool is_captured(const Graph *g)
{
    for (int i = 0; i < g->nschedules; i++)
        if (g->schedules[i]->captured)
            return true;
    return false;
}

/* Returns the functions that the host calls, one per schedule. */
static char *step_functions(const Graph *g)
{
    const EmitBackend *b = emit_backend(g);
    const char *path = text_print("templates/%s/schedule.%s", b->name, b->suffix);
    Str s = {0};
    for (int i = 0; i < g->nschedules; i++) {
        const Schedule *c = g->schedules[i];
        if (schedule_at_start(c))
            continue;
        char *calls = emit_calls(g, c, c->captured ? b->argument : b->stream);
        str_print(&s, "%s%s", s.n ? "\n" : "",
                  FILL_SOME(path, {"NAME", c->name, false}, {"calls", calls, false},
                            {"counted", emit_counts(g) && schedule_communicates(c) ? "yes" : "",
                             false},
                            {"graph", c->captured ? "yes" : "", false}));
    }
    return s.text;
}

/* Returns the macro that gives the kernels the activation type; "": fp32. */
static char *activations(const char *precision)
{
    if (!strcmp(precision, "fp32"))
        return "";
    return text_print("#define ACT_%s 1        // activations and compute weights are %s\n",
                      !strcmp(precision, "bf16") ? "BF16" : "F16", precision);
}

/* True if a rank reads or writes its part of an array of all parts. */
static bool has_parts(const Graph *g)
{
    for (int i = 0; i < g->nvalues; i++)
        if (g->values[i]->part && !value_is_own_part(g->values[i]))
            return true;
    return false;
}

/* Numbers of the asynchronous collectives, those of a program from 0 on, as many for a value as it
 * has slots; "": there are none. */
static char *operations(const Graph *g)
{
    Str s = {0};
    for (int i = 0; i < g->nprograms; i++) {
        int n = 0;
        for (int k = 0; k < g->programs[i]->nops; k++) {
            const Op *op = &g->programs[i]->ops[k];
            if (op->kind != OP_gather_begin && op->kind != OP_scatter_begin)
                continue;
            char *name = text_print("%s_event", c_name(op->out[0].v->name));
            if (s.n && strstr(s.text, text_print(" %s =", name)))
                continue;
            str_print(&s, "    %s = %d,\n", name, n);
            n += (int)op->out[0].v->slots;
        }
        if (n > COMM_OPERATIONS)
            bug("%s has %d asynchronous collectives", g->programs[i]->name, n);
    }
    return !s.n ? "" : text_print("/* Asynchronous collectives: the event number of a "
                                  "value's first slot. */\nenum {\n%s};\n"
                                  "#define EVENT(name, l) (name##_event + (l) %% name##_slots)\n"
                                  "/* Tensor l of a value with fewer slots than layers. */\n"
                                  "#define SLOT(name, l) AT(name, (l) %% name##_slots)\n", s.text);
}

/* The macro of the bytes of pinned values; "" without any. */
static const char *host_bytes(const Graph *g)
{
    return !graph_pinned_bytes(g)
               ? "" : text_print("/* in pinned memory of the host, rows PLAN_HOST */\n"
                                 "#define HOST_BYTES INT64_C(%" PRId64 ")\n",
                                 graph_pinned_bytes(g));
}

/* Writes step.c, or step.cu on a GPU. */
static void write_step_source(const Graph *g)
{
    char *programs = emit_programs(g), *merges = emit_merges(g), *asynchronous = operations(g);
    const EmitBackend *b = emit_backend(g);
    const char *precision = g->setting[SETTING_precision].text;
    const char *name = text_print("step.%s", b->suffix);
    folder_put(name,
        FILL_SOME(text_print("templates/%s/%s", b->name, name),
             {"head", head(g, "Every matrix product and kernel call of a step, straight down"),
              false},
             {"precision", activations(precision), false},
             {"kernels", kernel_includes(g), false}, {"ranks", g->ranks > 1 ? "yes" : "", false},
             {"divided", has_parts(g) ? "yes" : "", false}, {"operations", asynchronous, false},
             {"asynchronous", *asynchronous ? "yes" : "", false},
             {"counted", emit_counts(g) ? "yes" : "", false},
             {"fp16", strcmp(precision, "fp16") ? "" : "yes", false},
             {"scalers", emit_scalers(g, "    io.%s = %s;\n"), false},
             {"start_scalers", emit_scalers(g, "    array_write(%s, start, sizeof start);\n"),
              false},
             {"graph", is_captured(g) ? "yes" : "", false},
             {"host", graph_pinned_bytes(g) ? "yes" : "", false},
             {"inputs", emit_inputs(g), false}, {"steps", step_functions(g), false},
             {"results", emit_results(g), false},
             {"products", emit_products(g), false},
             {"lora", ir_size(g, "R") ? "yes" : "", false},
             {"io", emit_io(g), false},
             {"merges",
              *merges ? text_print("static const Merge merges[] = {\n%s};\n\n", merges) : "",
              false},
             {"use_merges",
              *merges ? "    model.merges = merges;\n    model.nmerges = sizeof merges / sizeof "
                        "merges[0];\n"
                      : "",
              false},
             {"init", start_calls(g), false},
             {"measured_with",
              lock_cublaslt()
                  ? text_print("    gemm_measured_with(\"%s\", %s);\n", lock_cublaslt(),
                               strcmp(g->setting[SETTING_tune].text, "required") ? "false" : "true")
                  : "",
              false},
             {"programs", programs, false},
             {"describe", template_source("templates/products.c"), false}),
        false);
}

/* Writes step.h and the headers that the source includes. */
static void write_step_headers(const Graph *g)
{
    folder_put("tensors.h", FILL("templates/tensors.h", {"tensors", emit_tensors(g), false}),
               false);
    folder_put("step.h",
        FILL_SOME("templates/step.h", {"MICROS", text_print("%" PRId64, emit_micros(g)), false},
             {"scalers",
              emit_scalers(g, "    float *%s;               // reached by runtime/device.h: loss "
                              "scale, steps since it\n"
                              "                                 // changed\n"),
              false},
             {"inputs", emit_io_fields(g), false}, {"results", emit_result_fields(g), false},
             {"counted", emit_counts(g) ? "yes" : "", false},
             {"collectives", emit_collectives(g), false},
             {"steps", emit_prototypes(g), false}),
        false);
    folder_put("ops.h", FILL("templates/ops.h", {"rows", emit_ops(g), false}), false);
    folder_put("shape.h", FILL("templates/shape.h", {"constants", emit_shape(g), false},
                               {"numbers", emit_numbers(g), false}), false);
    folder_put("plan.h",
        FILL_SOME("templates/plan.h",
             {"head", head(g, "Addresses in the arena of all values of the programs"), false},
             {"rows", emit_plan(g), false},
             {"bytes", text_print("#define PLAN_BYTES INT64_C(%" PRId64 ")\n"
                         "/* values below this offset outlive a program */\n"
                         "#define PERSISTENT_BYTES INT64_C(%" PRId64 ")\n%s",
                         g->arena_bytes, g->persistent_bytes, host_bytes(g)),
              false},
             {"host", graph_pinned_bytes(g) ? "yes" : "", false}),
        false);
}

static const char *const metrics_of[] = {"step", "eval"};

/* Returns the enums of the metrics of a step and of a validation: STEP_loss, ... */
static char *metric_names(const Graph *g)
{
    Str s = {0};
    for (int k = 0; k < 2; k++) {
        const char *of = k ? "EVAL" : "STEP";
        str_print(&s, "enum {\n");
        for (int i = 0; i < nmetrics; i++)
            if (!strcmp(metric_row[i].objective, g->objective) &&
                !strcmp(metric_row[i].of, metrics_of[k]))
                str_print(&s, "    %s_%s,\n", of, metric_row[i].name);
        str_print(&s, "    %s_METRICS\n};\n", of);
    }
    return s.text;
}

/* Returns the rows of those metrics, in the order of the enums. */
static char *metric_rows(const Graph *g)
{
    const Objective *o = objective_find(g->objective);
    Str s = {0};
    bool shown = false;
    for (int k = 0; k < 2; k++) {
        const char *of = k ? "EVAL" : "STEP";
        str_print(&s, "static const Metric %s_metric[] = {\n", metrics_of[k]);
        for (int i = 0; i < nmetrics; i++) {
            const MetricRow *m = &metric_row[i];
            if (strcmp(m->objective, g->objective) || strcmp(m->of, metrics_of[k]))
                continue;
            shown |= k && !strcmp(m->name, o->decides) && *m->text;
            str_print(&s, "    {.name = \"%s\", .kind = METRIC_%s", m->name, m->kind);
            if (*m->per)
                str_print(&s, ", .per = %s_%s", of, m->per);
            str_print(&s, "%s%s", !strcmp(m->better, "more") ? ", .more = true" : "",
                      *m->tag || *m->text ? ",\n     " : "");
            if (*m->tag)
                str_print(&s, ".tag = %s", c_string(m->tag));
            if (*m->text)
                str_print(&s, "%s.text = %s", *m->tag ? ", " : "", c_string(m->text));
            str_print(&s, "},\n");
        }
        str_print(&s, "};\n");
    }
    if (!shown)
        bug("objective %s: %s decides which validation is the best, but has no text in the log",
            o->name, o->decides);
    bool tagged = false;
    for (int i = 0; i < ntags; i++)
        if (!strcmp(tag_row[i].objective, g->objective)) {
            str_print(&s, "%s    {%s, %s},\n", tagged ? "" : "static const MetricTag tags[] = {\n",
                      c_string(tag_row[i].key), c_string(tag_row[i].tag));
            tagged = true;
        }
    str_print(&s, "%sconst Metrics objective_metrics = {\n"
                  "    .step = step_metric, .nstep = STEP_METRICS, .eval = eval_metric, "
                  ".neval = EVAL_METRICS,\n"
                  "    .step_work = STEP_%s, .eval_work = EVAL_%s, .samples = EVAL_samples,\n"
                  "    .decides = EVAL_%s,\n%s};\n",
              tagged ? "    {NULL, NULL}\n};\n" : "", o->work, o->work, o->decides,
              tagged ? "    .tags = tags,\n" : "");
    return s.text;
}

/* Adds a hole per field of the objective: for mlm.select = "exact", whose values are fixed words,
 * @MLM_SELECT@ is exact and @UPPER_MLM_SELECT@ EXACT; free text becomes a C string. Returns the
 * number of holes. */
static int own_fields(const Graph *g, Hole *holes)
{
    int n = 0;
    const char *line = g->setting[SETTING_model_fields].text;
    for (size_t end; *line; line += end + (line[end] == '\n')) {
        size_t path = strcspn(line, "=");
        end = strcspn(line, "\n");
        if (!objective_owns(g->objective, line))
            continue;
        char *name = text_print("%.*s", (int)path, line);
        const int field = field_find(name);
        const char *value = line + path + 1, *at = value;
        FieldValue v = {0};
        if (field < 0 || value_parse(field_row[field].type, &at, &v) || at != line + end)
            bug("no value of a field: %.*s", (int)end, line);
        const FieldType type = field_row[field].type;
        char *text = type == FT_STRING   ? c_string(v.s)
                     : type == FT_CHOICE ? text_copy(v.s)
                                         : text_print("%.*s", (int)(line + end - value), value);
        for (char *p = name; *p; p++)
            *p = *p == '.' ? '_' : *p;
        holes[n++] = (Hole){text_capitals(name), text, false};
        if (type == FT_CHOICE)
            holes[n++] = (Hole){text_print("UPPER_%s", text_capitals(name)), text_capitals(text),
                                false};
    }
    return n;
}

/* A prefix of names in template conditions; `holds` evaluates one such name. */
typedef struct {
    const char *prefix;
    bool (*holds)(const void *of, const char *name);
    const void *of;
} Question;

enum { ASKED = 20, QUESTIONS = 3 };

/* Adds to the n holes one for each distinct name with the prefix in the conditions of a template,
 * with text if the condition holds. Returns the number of holes. */
static int asked(const char *path, const Question *q, Hole *holes, int n)
{
    const int most = n + ASKED;
    const char *prefix = q->prefix;
    for (const char *p = template_source(path); (p = strstr(p, text_print(" %s", prefix))); p++) {
        size_t length = strcspn(p + 1, "\n");
        const char *line = p;
        while (line[-1] != '\n')
            line--;
        line += strspn(line, " ");
        if ((strncmp(line, "//@ if ", 7) && strncmp(line, "//@ unless ", 11)) ||
            template_hole(holes, n, p + 1, length))
            continue;
        if (n == most)
            bug("%s asks for more than %d of %s", path, ASKED, prefix);
        char *name = text_print("%.*s", (int)length, p + 1);
        holes[n++] = (Hole){name, q->holds(q->of, name + strlen(prefix)) ? "yes" : "", false};
    }
    return n;
}

static bool has_set(const void *graph, const char *set)
{
    return ir_value(graph, text_print("adamw_args.%s", set)) != NULL;
}

static bool communicates(const void *graph, const char *schedule)
{
    const Graph *g = graph;
    for (int i = 0; i < g->nschedules; i++)
        if (!strcmp(g->schedules[i]->name, schedule))
            return schedule_communicates(g->schedules[i]);
    return false;
}

/* Returns true if the text of objective.c fills this member of objective_hooks. */
static bool has_hook(const void *objective_c, const char *hook)
{
    const char *hooks = strstr(objective_c, " objective_hooks = {");
    return strstr(hooks, text_print(".%s = ", hook)) != NULL;
}

/* Holes for a template, which may lack some of them. */
typedef struct {
    Question question[QUESTIONS];    /* prefix NULL: none */
    const Hole *hole;
    int n;
} Filler;

static char *fill(const Filler *with, const char *path)
{
    static const char common[] = "templates/objectives/common.c";    /* parts of other templates */
    int n = with->n;
    Hole *hole = arena_new((size_t)(n + 2 * QUESTIONS * ASKED) * sizeof *hole);
    memcpy(hole, with->hole, (size_t)n * sizeof *hole);
    for (int i = 0; i < QUESTIONS && with->question[i].prefix; i++) {
        n = asked(path, &with->question[i], hole, n);
        n = asked(common, &with->question[i], hole, n);
    }
    return template_fill_some(path, hole, n);
}

/* Adds the modules of a template: each header of `folder` that its text includes, with the source
 * of the same name, and recursively those that these include. */
static void put_modules(const Filler *with, const char *folder, const char *text)
{
    for (const char *p = text; (p = strstr(p, "#include \"")); p++) {
        const int stem = (int)strcspn(p + 10, ".\"/");
        for (int source = 0; source < 2; source++) {
            const char *name = text_print("%.*s.%c", stem, p + 10, "hc"[source]);
            const char *path = text_print("%s/%s", folder, name);
            if (p[10 + stem] != '.' || folder_has(name) ||
                access(text_print("%s/%s", gen_root(), path), R_OK))
                continue;
            char *module = fill(with, path);
            folder_put(name, module, false);
            put_modules(with, folder, module);
        }
    }
}

/* True if the objective has a row USES(objective, capability). */
static bool has_capability(const void *objective, const char *name)
{
    static const struct { const char *name; int owners; } row[] = {
#define CAPABILITY(name, doc) {#name, OWNERS_##name},
#include "runtime/objectives/capabilities.def"
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (!strcmp(row[i].name, name))
            return owners_include(row[i].owners, objective);
    bug("a template asks for the capability %s, which capabilities.def does not list", name);
}

/* Adds the host code of the objective and its modules; returns the text of objective.c. Conditions
 * may name any input, `//@ if target_rows`, a parameter group, `//@ if SET_meta`, or a schedule
 * with collectives, `//@ if communicates_eval`. */
static char *put_objective(const Graph *g)
{
    static const char *const inputs[] = {
#define INPUT(name, ...) #name,
#include "runtime/data/inputs.def"
#undef INPUT
    };
    enum { INPUTS = sizeof inputs / sizeof *inputs, OWN = 4 };
    Hole holes[OWN + INPUTS + 2 * NFIELDS] = {
        {"head", head(g, "What the host does for the programs of a step"), false},
        {"metrics", metric_rows(g), false},
        {"KIND", g->setting[SETTING_data_kind].text, false},
        {"batch", emit_batch(g), false}};
    for (int i = 0; i < INPUTS; i++)
        holes[OWN + i] = (Hole){inputs[i], ir_value(g, inputs[i]) ? "yes" : "", false};
    const Filler with = {{{"SET_", has_set, g}, {"uses_", has_capability, g->objective},
                          {"communicates_", communicates, g}}, holes,
                         OWN + INPUTS + own_fields(g, holes + OWN + INPUTS)};
    const char *folder = text_print("templates/objectives/%s", g->objective);
    char *text = fill(&with, text_print("%s.c", folder));
    folder_put("objective.c", text, false);
    put_modules(&with, folder, text);
    return text;
}

/* Adds the training loop with its modules, and the interface of the objective. Conditions may name
 * hooks and capabilities of the objective, as in `//@ if uses_tokens`. */
static void write_train(const Graph *g)
{
    const char *about =
        text_print("Flags, the loop, checkpoints; objective.c has what a step reads, step.%s what "
                   "is computed", emit_backend(g)->suffix);
    const char *objective = put_objective(g);
    const Hole train[] = {{"head", head(g, about), false},
                          {"defaults", run_defaults(g), false},
                          {"sets", emit_sets(g), false},
                          {"cudnn", graph_calls_cudnn(g) ? "yes" : "", false},
                          {"lora", ir_size(g, "R") ? "yes" : "", false},
                          {"checkpoint_async", graph_snapshot_bytes(g) ? "yes" : "", false}};
    const Hole header[] = {{"metrics", metric_names(g), false},
                           {"sets", emit_set_names(g), false}};
    const Question hooks = {"hook_", has_hook, objective},
                   uses = {"uses_", has_capability, g->objective};
    const Filler with = {{hooks, uses}, train, sizeof train / sizeof *train},
                 with_names = {{hooks, uses}, header, sizeof header / sizeof *header};
    char *text = fill(&with, "templates/train.c");
    folder_put("train.c", text, false);
    put_modules(&with, "templates/train", text);
    folder_put("objective.h", fill(&with_names, "templates/objective.h"), false);
}

unsigned emit_needs(const Graph *g)
{
    return toolchain_needs(g->target, g->ranks, false) |
           (graph_calls_cudnn(g) ? NEED_CUDNN_RUN : 0);
}

static void write_build(const Graph *g)
{
    const char *backend = g->target->backend, *name = g->setting[SETTING_name].text;
    const char *tuner = emit_backend(g)->tuner;
    if (*tuner) {
        const char *variants = emit_variants();
        folder_put(tuner,
            FILL(text_print("templates/%s/%s", backend, tuner), {"ARCH", g->target->arch, false},
                 {"GENERATOR", lock_generator(), false}, {"SOURCES", lock_kernels(), false},
                 {"variants", variants, false}, {"tuned", *variants ? "yes" : "", false},
                 {"tuned_tokens", strstr(variants, "TUNE_TOKEN") ? "yes" : "", false}),
            false);
    }
    char *objects = sources_put(g->objective, backend, g->setting[SETTING_precision].text,
                                g->ranks > 1);
    folder_put("recipe.h", FILL("templates/recipe.h", {"model", recipe_h(g), false}), false);
    emit_toolchain(cluster_of(g));
    char *ranks = text_print("%" PRId64, g->ranks);
    folder_put("Makefile",
        FILL_SOME(text_print("templates/%s/Makefile", backend), {"NAME", name, false},
             {"COMMAND", command(g), false},
             {"CFLAGS", g->target->cflags, false},
             {"PACKAGES", toolchain_package_words(emit_needs(g), false), false},
             {"NVIDIA_PACKAGES", toolchain_package_words(emit_needs(g), true), false},
             {"RANKS", ranks, false}, {"OBJECTS", objects, false},
             {"toolchain", template_source("templates/toolchain.mk"), false}),
        false);
    const char *machines = g->setting[SETTING_cluster].text;
    folder_put("run.sh", emit_run_sh(backend, name, recipe_of(g), g->ranks, machines), true);
    folder_put("train.slurm", emit_slurm(backend, name, g->ranks, machines), false);
}

/* Adds the untuned calls: products with cuBLASLt's first choice of algorithm, kernels with their
 * default variant. */
static void add_untuned(cJSON *manifest)
{
    const char *const *key;
    int n = lock_untuned(&key);
    cJSON *list = cJSON_AddArrayToObject(manifest, "untuned");
    for (int i = 0; i < n; i++)
        cJSON_AddItemToArray(list, cJSON_CreateString(key[i]));
}

static char *manifest(const Graph *g)
{
    const GraphSetting *words = &g->setting[SETTING_overrides];
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "recipe", recipe_of(g));
    cJSON *overrides = cJSON_AddArrayToObject(o, "overrides");
    for (int i = 0; i < words->n; i++)
        cJSON_AddItemToArray(overrides, cJSON_CreateString(words->word[i]));
    cJSON_AddStringToObject(o, "recipe_sha256", g->setting[SETTING_hash].text);
    cJSON_AddStringToObject(o, "generator", GEN_VERSION);
    cJSON_AddStringToObject(o, "ir_sha256", ir_hash(g));
    cJSON_AddStringToObject(o, "target", g->target->name);
    cJSON_AddStringToObject(o, "cflags", g->target->cflags);
    emit_toolchain_manifest(o, cluster_of(g), emit_needs(g));
    cJSON_AddStringToObject(o, "model_fields", g->setting[SETTING_model_fields].text);
    if (*emit_backend(g)->tuner)
        add_untuned(o);
    folder_list(o);
    return json_text(o);
}

const char *emit_required_flags(const Graph *g, const char *weights, const char *data)
{
    if (!weights && ir_size(g, "R"))
        weights = "FOLDER";
    return text_print("%s--data %s%s", weights ? text_print("--init-from %s ", weights) : "", data,
                      has_set(g, "meta") ? " --meta-data META.jsonl" : "");
}

static void write_readme(const Graph *g)
{
    int64_t all, trained;
    count_parameters(g, &all, &trained);
    char *model = text_print("%s, %s parameters, %s trained%s, %s", g->family, text_grouped(all),
                             text_grouped(trained), ir_size(g, "R") ? " (LoRA)" : "",
                             g->setting[SETTING_precision].text);
    char *batch = text_print(
        "%" PRId64 " x %" PRId64 " accumulated x %" PRId64 " rank%s, %" PRId64 " tokens each",
        ir_size(g, "B"), emit_micros(g), g->ranks, g->ranks == 1 ? "" : "s", ir_size(g, "T"));
    folder_put("README.md",
               FILL_SOME("templates/README.md", {"NAME", g->setting[SETTING_name].text, false},
                    {"COMMAND", command(g), false},
                    {"MODEL", model, false}, {"BATCH", batch, false},
                    {"TARGET", g->target->name, false},
                    {"STEP", text_print("step.%s", emit_backend(g)->suffix), false},
                    {"DATA", emit_required_flags(g, NULL, "FILE"), false},
                    {"RANDOM", ir_size(g, "R") ? "" : ", the default", false},
                    {"PACKAGES", toolchain_package_words(emit_needs(g), false), false},
                    {"NVIDIA_PACKAGES", toolchain_package_words(emit_needs(g), true), false},
                    {"backend", g->target->backend, false}),
               false);
}

/* Adds all files except manifest.json, which lists them. */
static void put_files(const Graph *g, bool locked)
{
    folder_begin();
    write_step_source(g);
    write_step_headers(g);
    if (locked)
        lock_require(g);
    write_train(g);
    write_build(g);
    folder_sources();
    folder_put("ir/plan.ir", g->text, false);
    folder_put("config.json", g->setting[SETTING_config_json].text, false);
    write_readme(g);
}

int emit_texts(const Graph *g, EmitFile **files)
{
    put_files(g, false);
    return folder_files(files);
}

void emit_run(const Graph *g, const char *outdir, bool force, bool locked)
{
    put_files(g, locked);
    folder_write(outdir, manifest(g), force);
}
