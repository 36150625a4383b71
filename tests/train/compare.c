/* compare.c -- compares what a run left behind with a reference, or with another run.
 *
 * In:    the command line: see usage(); BOUND is relative.
 * Out:   `ok NAME` or `not ok NAME: why` a line; exit status 1 when any failed.
 * Keeps: numbers that are missing, not finite or of another count are failures. */
#define _GNU_SOURCE
#include <glob.h>
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "../../runtime/files/json.h"
#include "../../runtime/files/safetensors.h"
#include "events.h"

static const char *prefix = "";
static int failed;

__attribute__((format(printf, 3, 4)))
static void verdict(bool good, const char *name, const char *why, ...)
{
    printf(good ? "ok %s %s" : "not ok %s %s: ", prefix, name);
    if (!good) {
        va_list args;
        va_start(args, why);
        vprintf(why, args);
        va_end(args);
        failed = 1;
    }
    putchar('\n');
}

static void quit(const char *what, const char *why)
{
    printf("not ok %s %s: %s\n", prefix, what, why);
    exit(1);
}

static cJSON *read_json(const char *path)
{
    size_t n;
    char *error, *text = file_read(path, 1 << 24, &n, &error);
    cJSON *json = text ? json_parse(text, n, &error) : NULL;
    if (!json)
        quit(path, error);
    free(text);
    return json;
}

/* history.jsonl as an array of records. */
static cJSON *read_history(const char *folder)
{
    char *path, *error, *text, *line;
    size_t n;
    if (asprintf(&path, "%s/history.jsonl", folder) < 0 ||
        !(text = file_read(path, 1 << 26, &n, &error)))
        quit("history", error);
    cJSON *all = cJSON_CreateArray();
    for (char *at = text; (line = strsep(&at, "\n")) && *line;) {
        cJSON *record = json_parse(line, strlen(line), &error);
        if (!record)
            quit(path, error);
        cJSON_AddItemToArray(all, record);
    }
    free(text);
    return all;
}

static double number(const cJSON *o, const char *key)
{
    const cJSON *x = json_get(o, key);
    return cJSON_IsNumber(x) ? x->valuedouble : NAN;
}

/* The first or the last record that has this key. */
static const cJSON *record_with(const cJSON *all, const char *key, bool last)
{
    const cJSON *found = NULL, *r;
    cJSON_ArrayForEach(r, all)
        if (json_get(r, key) && (last || !found))
            found = r;
    return found;
}

static bool near(double got, double want, double bound)
{
    return fabs(got - want) <= bound * fabs(want);
}

/* ---- tensors ---------------------------------------------------------------------------- */

static float *read_tensor(const StFile *f, const StTensor *t)
{
    size_t n = (size_t)st_elements(t);
    float *values = malloc(n * sizeof *values + 1);
    void *raw = malloc((size_t)(t->end - t->begin) + 1);
    char *error = st_read(f, t, raw, 0, t->end - t->begin);
    if (error || !st_to_float(values, raw, t->dtype, n))
        quit(t->name, error ? error : "not floating point");
    free(raw);
    return values;
}

static double largest(const float *x, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = fmax(most, fabs((double)x[i]));
    return most;
}

/* Greatest |a - b|; NAN when any is not finite. */
static double distance(const float *a, const float *b, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        double d = fabs((double)a[i] - (double)b[i]);
        if (!(d <= 1e30))
            return NAN;
        most = fmax(most, d);
    }
    return most;
}

static StFile open_tensors(const char *path)
{
    StFile f;
    char *error = st_open(&f, path);
    if (error)
        quit(path, error);
    return f;
}

/* NULL, or why tensor a of a run is not b of the reference, n elements each. */
typedef const char *Judge(const void *arg, const char *name, const float *a, const float *b,
                          int64_t n);

/* Calls judge for every tensor that both files hold with one shape; any other is a failure. */
static void compare_tensors(const char *got, const char *want, Judge *judge, const void *arg)
{
    StFile a = open_tensors(got), b = open_tensors(want);
    verdict(a.n == b.n, "number of tensors", "%d, want %d", a.n, b.n);
    char bad[512] = "";
    for (int i = 0; i < b.n && !*bad; i++) {
        const StTensor *y = &b.t[i], *x = st_find(&a, y->name);
        if (!x || x->rank != y->rank ||
            memcmp(x->shape, y->shape, sizeof x->shape[0] * (size_t)x->rank)) {
            snprintf(bad, sizeof bad, "%s is missing or of another shape", y->name);
            break;
        }
        float *p = read_tensor(&a, x), *q = read_tensor(&b, y);
        const char *why = judge(arg, y->name, p, q, st_elements(y));
        if (why)
            snprintf(bad, sizeof bad, "%s: %s", y->name, why);
        free(p), free(q);
    }
    verdict(!*bad, "weights", "%s", bad);
    st_close(&a), st_close(&b);
}

/* ---- a run against tests/train/ref ------------------------------------------------------- */

/* Correct fp32 programs sum in different orders. How far that leads from the fp64 run is the condition
 * of the case: an update of AdamW divides by the root of its second moment, so where a gradient is 0 but
 * for rounding (a key bias: softmax does not see it), noise becomes steps of the learning rate. Witnesses
 * are five runs in PyTorch: four in fp64 with every result rounded at random ("rounding", see
 * tests/oracle/rounding.py) and one in fp32 ("float32"). A bound is FACTOR times the largest drift among
 * them, and at least two roundings of the number itself, which files hold in fp32: five draws show the
 * scale of a distribution, not its largest value. */
enum { FACTOR = 4 };

static double witnessed(const cJSON *expect, const char *name)
{
    static const char *const by[] = {"rounding", "float32"};
    double most = 0;
    for (int i = 0; i < 2; i++) {
        const double drift = number(json_get(json_get(expect, by[i]), "final_max_abs_diff"), name);
        if (isnan(drift))
            quit(name, "expect.json has no drift of it: tests/oracle records it");
        most = fmax(most, drift);
    }
    return most;
}

static const char *judge_final(const void *expect, const char *name, const float *a,
                               const float *b, int64_t n)
{
    static char why[160];
    const double drift = witnessed(expect, name), off = distance(a, b, n);
    const double bound = fmax(FACTOR * drift, 0x1p-23 * largest(b, n));
    if (off <= bound)
        return NULL;
    snprintf(why, sizeof why, "off by %.3g, bound %.3g (witnesses are off by up to %.3g)", off, bound,
             drift);
    return why;
}

/* The largest relative drift of the run: a difference of single steps may cross 0. */
static double drift_of(const cJSON *expect, const char *key)
{
    const cJSON *single = json_get(json_get(expect, "float32"), key), *step;
    const cJSON *rounded = json_get(json_get(expect, "rounding"), key);
    double most = 0;
    int n = 0;
    cJSON_ArrayForEach(step, json_get(expect, "steps")) {
        const cJSON *x = cJSON_GetArrayItem(single, n), *r = cJSON_GetArrayItem(rounded, n++);
        const double want = number(step, key);
        if (!cJSON_IsNumber(x) || !cJSON_IsNumber(r))
            quit(key, "expect.json has no drift of a step: tests/oracle records it");
        most = fmax(most, fmax(fabs(x->valuedouble - want) / (want ? fabs(want) : 1), r->valuedouble));
    }
    return most;
}

/* Of gradients of a second parameter group, by how it learns. Differences of two losses near 0.7, 0.01 of a gradient
 * apart, have some 1e-5 of rounding for their own, which does not shrink with the difference: gradients by them are
 * measured by the largest of the run. Products of gradients are sums of both signs. */
static const struct { const char *hyper; double others; } rounding[] = {{"dot", 3e-5}, {"fd", 1e-4}};

static double largest_of(const cJSON *records, const char *key)
{
    double most = 0;
    const cJSON *r;
    cJSON_ArrayForEach(r, records)
        if (json_get(r, key))
            most = fmax(most, fabs(number(r, key)));
    return most;
}

/* All steps, or (begun) those that there are. bound 0: fp32, against the bounds above; else of the losses, gradients
 * being 10 times as rough. */
static void compare_steps(const cJSON *history, const cJSON *expect, double bound, bool begun)
{
    const cJSON *steps = json_get(expect, "steps");
    const cJSON *r, *want;
    const char *hyper = cJSON_GetStringValue(json_get(json_get(expect, "settings"), "hyper"));
    const int by = hyper && !strcmp(hyper, rounding[1].hyper);
    const double drift[2] = {bound ? 0 : drift_of(expect, "loss"), bound ? 0 : drift_of(expect, "grad_norm")};
    int n = 0;
    double worst[3] = {0}, tokens = 0;
    char bad[3][128] = {""};
    cJSON_ArrayForEach(r, history) {
        if (!json_get(r, "loss"))
            continue;
        want = cJSON_GetArrayItem(steps, n);
        if (!want || number(r, "step") != number(want, "step"))
            quit("steps", "another step than the reference's");
        static const char *const key[][2] = {
            {"loss", "loss"}, {"grad_norm", "grad_norm"}, {"learning_rate", "lr"}
        };
        for (int k = 0; k < 3; k++) {
            double x = number(r, key[k][0]), y = number(want, key[k][1]), allowed = bound;
            if (k == 2)
                allowed = 1e-7;          /* the same formula, in double or its fp32 form */
            else if (bound)
                allowed *= k ? 10 : 1;
            else
                allowed = fmax(FACTOR * drift[k], 0x1p-23);
            double off = y ? fabs(x - y) / fabs(y) : fabs(x);
            worst[k] = fmax(worst[k], off);
            if (!(off <= allowed) && !*bad[k])
                snprintf(bad[k], sizeof bad[k], "step %d: %.9g, want %.9g (off %.2g, bound %.2g)",
                         n + 1, x, y, off, allowed);
        }
        /* of other parameter groups than "model", and of what they are learned from */
        const struct { const char *begins; double fp32, rough; int of; } other[] = {
            {"meta_loss", 1e-5, 1, 0}, {"avg_aggregate_score", 1e-5, 1, 0},
            {"grad_norm_", rounding[by].others, 10, 1}, {"learning_rate_", 1e-7, 0, 2}
        };
        const cJSON *item;
        cJSON_ArrayForEach(item, want)
            for (size_t k = 0; k < sizeof other / sizeof *other; k++) {
                if (strncmp(item->string, other[k].begins, strlen(other[k].begins)))
                    continue;
                double x = number(r, item->string), y = item->valuedouble, allowed = other[k].rough * bound;
                allowed = allowed > 0 ? allowed : other[k].fp32;
                const bool differs = by && other[k].of == 1;
                if (!(fabs(x - y) <= allowed * (differs ? largest_of(steps, item->string) : fabs(y))) &&
                    !*bad[other[k].of])
                    snprintf(bad[other[k].of], sizeof bad[0], "step %d: %s %.9g, want %.9g", n + 1,
                             item->string, x, y);
            }
        n++;
        tokens = number(r, "num_tokens");
    }
    const int wanted = cJSON_GetArraySize(steps);
    verdict(begun ? n > 0 : n == wanted, "every step", "%d records, want %d", n, wanted);
    verdict(!*bad[0], "losses", "%s", bad[0]);
    verdict(!*bad[1], "gradient norms", "%s", bad[1]);
    verdict(!*bad[2], "learning rates", "%s", bad[2]);
    double targets = 0;
    for (int i = 0; i < n && i < wanted; i++)
        targets += number(cJSON_GetArrayItem(steps, i), "targets");
    const char *kind = cJSON_GetStringValue(json_get(json_get(expect, "settings"), "kind"));
    if (kind)                            /* records are of tokens */
        verdict(strcmp(kind, "packed") ? tokens > targets : tokens == targets, "tokens",
                "%.0f, the reference has %.0f targets", tokens, targets);
    fprintf(stderr, "%s: worst loss %.2g, norm %.2g, rate %.2g\n", prefix, worst[0], worst[1],
            worst[2]);
}

/* Of the weights at first, and unless `begun` of the last. */
static void compare_eval(const cJSON *history, const cJSON *expect, double bound, bool begun)
{
    static const char *const key[] = {"eval_loss", "eval_loss_token", "eval_accuracy"};
    for (int last = 0; last < (begun ? 1 : 2); last++)
        for (int k = 0; k < 3; k++) {
            const cJSON *want = json_get(expect, last ? "final" : "initial");
            double x = number(record_with(history, key[k], last), key[k]), y = number(want, key[k]);
            char name[64];
            if (k > 0 && !json_get(want, key[k]))
                continue;                /* not every case has it */
            snprintf(name, sizeof name, "%s %s", last ? "final" : "initial", key[k]);
            verdict(near(x, y, bound), name, "%.9g, want %.9g", x, y);
        }
}

/* reference CASE RUN [BOUND]: without BOUND fp32 to the last bits; with it losses, norms and
 * validation only. */
static void against_reference(char **arg, double bound)
{
    char *path, *final;
    if (asprintf(&path, "%s/expect.json", arg[0]) < 0)
        abort();
    cJSON *expect = read_json(path), *history = read_history(arg[1]);
    compare_steps(history, expect, bound, false);
    compare_eval(history, expect, bound ? bound : 1e-6, false);
    if (bound) {
        double first = number(record_with(history, "loss", false), "loss");
        double end = number(record_with(history, "loss", true), "loss");
        verdict(end < 0.9 * first, "the loss falls", "from %.4f to %.4f", first, end);
        return;
    }
    bool lora = cJSON_IsObject(json_get(json_get(expect, "settings"), "lora"));
    if (asprintf(&path, "%s/checkpoint-%d/%s.safetensors", arg[1],
                 cJSON_GetArraySize(json_get(expect, "steps")), lora ? "adapter_model" : "model") < 0 ||
        asprintf(&final, "%s/%s.safetensors", arg[0],
                 lora ? "adapter_final/adapter_model" : "final") < 0)
        abort();
    compare_tensors(path, final, judge_final, expect);
}

/* beginning CASE RUN [BOUND]: the steps that a short run took. */
static void beginning(char **arg, double bound)
{
    char *path;
    if (asprintf(&path, "%s/expect.json", arg[0]) < 0)
        abort();
    cJSON *expect = read_json(path), *history = read_history(arg[1]);
    compare_steps(history, expect, bound, true);
    compare_eval(history, expect, bound ? bound : 1e-6, true);
}

/* ---- a run against a run ------------------------------------------------------------------ */

static const char *judge_bound(const void *arg, const char *name, const float *a, const float *b,
                               int64_t n)
{
    static char why[160];
    double bound = *(const double *)arg * fmax(1e-3, largest(b, n)), off = distance(a, b, n);
    (void)name;
    if (off <= bound)
        return NULL;
    snprintf(why, sizeof why, "off by %.3g, bound %.3g", off, bound);
    return why;
}

/* weights FILE FILE BOUND: largest distance in a tensor over its largest value. */
static void tensors_near(char **arg, double bound)
{
    compare_tensors(arg[0], arg[1], judge_bound, &bound);
}

/* Times and speeds differ between runs. */
static bool timed(const char *key)
{
    return strstr(key, "runtime") || strstr(key, "per_second") || !strcmp(key, "time");
}

/* The one event file of a run. */
static EventFile *read_events(const char *folder)
{
    static EventFile file;
    glob_t found;
    size_t n;
    char *pattern, *error;
    if (asprintf(&pattern, "%s/runs/*/*", folder) < 0 || glob(pattern, 0, NULL, &found) || found.gl_pathc != 1)
        quit(folder, "want one event file below runs/");
    char *data = file_read(found.gl_pathv[0], 1 << 26, &n, &error);
    if (!data)
        quit("events", error);
    events_parse(&file, (const uint8_t *)data, n);
    globfree(&found);
    return &file;                /* its texts point into data */
}

/* It has the numbers of the history. */
static void check_events(const char *folder)
{
    cJSON *history = read_history(folder);
    EventFile *f = read_events(folder);
    if (!*f->bad)
        events_compare(f, history);
    verdict(!*f->bad, "events", "%s: %s", folder, f->bad);
    cJSON_Delete(history);
}

/* history RUN RUN BOUND: every number of every record; BOUND 0: the same bits. */
static void histories_near(char **arg, double bound)
{
    cJSON *a = read_history(arg[0]), *b = read_history(arg[1]);
    char bad[256] = "";
    if (cJSON_GetArraySize(a) != cJSON_GetArraySize(b) || !a->child)
        snprintf(bad, sizeof bad, "%d and %d records", cJSON_GetArraySize(a),
                 cJSON_GetArraySize(b));
    for (const cJSON *p = a->child, *q = b->child; p && q && !*bad; p = p->next, q = q->next) {
        const cJSON *x = p->child, *y = q->child;
        for (; x && y && !*bad; x = x->next, y = y->next)
            if (strcmp(x->string, y->string) ||
                (!timed(x->string) && !near(x->valuedouble, y->valuedouble, bound)))
                snprintf(bad, sizeof bad, "step %.0f: %s %.9g and %s %.9g", number(p, "step"),
                         x->string, x->valuedouble, y->string, y->valuedouble);
        if (!*bad && (x || y))
            snprintf(bad, sizeof bad, "step %.0f: other keys", number(p, "step"));
    }
    verdict(!*bad, "history", "%s", bad);
    check_events(arg[0]);
    check_events(arg[1]);
}

static const char *const common[] = {
    "recipe", "flags", "command", "train/epoch", "train/grad_norm", "train/total_flos", "train/train_loss",
    "train/train_runtime", "train/train_samples_per_second", "train/train_steps_per_second"};

static bool of_every(const char *tag)
{
    for (size_t i = 0; i < sizeof common / sizeof *common; i++)
        if (!strcmp(tag, common[i]))
            return true;
    return false;
}

/* tags RUN TAGS: the event file has the numbers of the history and texts under these names and no others, sorted and
 * between blanks, but for those of every run. */
static void tags_are(char **arg, double bound)
{
    char all[8192] = "";
    size_t found = 0;
    (void)bound;
    check_events(arg[0]);
    const EventFile *f = read_events(arg[0]);
    for (const char *least = ""; least;) {
        const char *next = NULL;
        for (int i = 0; i < f->n; i++)
            if ((f->value[i].scalar || f->value[i].text) && strcmp(f->value[i].tag, least) > 0 &&
                (!next || strcmp(f->value[i].tag, next) < 0))
                next = f->value[i].tag;
        least = next;
        if (next && of_every(next))
            found++;
        else if (next)
            snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", *all ? " " : "", least);
    }
    verdict(!strcmp(all, arg[1]) && found == sizeof common / sizeof *common, "tags",
            "%s and %zu of every run", all, found);
}

static const struct {
    const char *name;
    void (*run)(char **arg, double bound);
} commands[] = {
    {"reference", against_reference}, {"beginning", beginning}, {"weights", tensors_near},
    {"history", histories_near}, {"tags", tags_are}
};

static void usage(void)
{
    fputs("compare TEST reference|beginning CASE RUN [BOUND] | weights FILE FILE BOUND | "
          "history RUN RUN BOUND | tags RUN TAGS\n", stderr);
    exit(2);
}

int main(int argc, char **argv)
{
    if (argc < 5 || argc > 6)
        usage();
    prefix = argv[1];
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (!strcmp(commands[i].name, argv[2])) {
            commands[i].run(argv + 3, argc > 5 ? atof(argv[5]) : 0);
            return failed;
        }
    usage();
}
