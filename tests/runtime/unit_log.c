/* unit_log.c -- history.jsonl and trainer_state.json: keys, roundings, a resumed run against a
 * straight one. */
#define _GNU_SOURCE
#include "unit.h"
#include "../../runtime/base.h"
#include "../../runtime/files/json.h"
#include "../../runtime/run/best.h"
#include "../../runtime/run/log.h"
#include "../../runtime/run/progress.h"
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STEPS = 25, EVERY = 4 };

static const Model model = { .recipe = "recipes/x.lua", .hash = "00112233445566778899",
    .generator = "diecast 0", .objective = "lm", .family = "gpt2", .precision = "fp32",
    .target = "cpu", .micro = 2, .accum = 3, .ranks = 1, .parameters = 1000,
    .trained = 1000, .planned_bytes = 1 << 20 };
static Flags flags;

/* As of an objective that reports a loss, how often it was right, a reward, counts, and what every third
 * step alone has. */
enum { LOSS, RIGHT, TARGETS, TOKENS, SELDOM, TIMES, STEP_ROWS };
enum { REWARD, FACTOR, SAMPLES, STATES, EVAL_ROWS };
static const Metric step_rows[] = {
    { .name = "loss", .kind = METRIC_MEAN, .per = TARGETS, .tag = "train/loss", .text = "loss %.4f" },
    { .name = "right", .kind = METRIC_MEAN, .per = TOKENS, .more = true, .tag = "train/right" },
    { .name = "targets", .kind = METRIC_COUNT },
    { .name = "tokens", .kind = METRIC_COUNT, .tag = "train/tokens" },
    { .name = "seldom", .kind = METRIC_MEAN, .per = TIMES, .tag = "train/seldom" },
    { .name = "times", .kind = METRIC_COUNT },
};
static const Metric eval_rows[] = {
    { .name = "reward", .kind = METRIC_MEAN, .per = SAMPLES, .more = true, .tag = "test/reward" },
    { .name = "factor", .kind = METRIC_EXP, .per = SAMPLES, .text = "factor %.3g" },
    { .name = "samples", .kind = METRIC_COUNT },
    { .name = "states", .kind = METRIC_COUNT },
};
static const Metrics metrics = { .step = step_rows, .nstep = STEP_ROWS, .eval = eval_rows,
    .neval = EVAL_ROWS, .step_work = TOKENS, .eval_work = STATES, .samples = SAMPLES,
    .decides = REWARD };

typedef struct { double value[STEP_ROWS], grad_norm, lr; } Step;

static Step step_of(int64_t step)
{
    const bool has = step % 3 == 0;
    return (Step){ { 5.0 + sin((double)step) / 3.0, (double)(step % 7) / 48, 40 + (double)step, 48,
                     has ? (double)step : 0, has },
                   1.0 / (double)step, 1e-3 * (double)step };
}

static void train(Log *l, int64_t from, int64_t to)
{
    static const double eval[] = { 2.5, 1.25, 10, 80 };
    for (int64_t s = from; s <= to; s++) {
        Step now = step_of(s);
        log_step(l, s, &(LogStep){ now.value, now.value, now.grad_norm, now.lr, NULL });
        if (s % 10 == 0)
            log_eval(l, s, &(LogEval){ .value = eval, .seconds = 0.5 });
    }
}

/* Sums become means and powers; a mean of nothing is none, of what a step minimises it is 0. */
static void check_values(void)
{
    double step[STEP_ROWS] = { 12, 6, 8, 24 }, none[STEP_ROWS] = { 3, 0, 0, 0 }, eval[] = { 10, 4, 2, 9 };
    metrics_values(step_rows, STEP_ROWS, step);
    metrics_values(step_rows, STEP_ROWS, none);
    metrics_values(eval_rows, EVAL_ROWS, eval);
    check(step[LOSS] == 1.5 && step[RIGHT] == 0.25 && step[TARGETS] == 8 && step[TOKENS] == 24,
          "metrics: means and counts", "%g %g", step[LOSS], step[RIGHT]);
    check(none[LOSS] == 0 && isnan(none[RIGHT]), "metrics: a mean of nothing", "%g %g", none[LOSS], none[RIGHT]);
    check(eval[REWARD] == 5 && eval[FACTOR] == exp(2), "metrics: a power", "%g", eval[FACTOR]);
}

/* Where best_save() looks for checkpoints; it is not called here. */
char *checkpoint_path(const char *out, int64_t step)
{
    return format("%s/checkpoint-%lld", out, (long long)step);
}

/* Enough is a reward of 5. */
static char *enough(const double *eval)
{
    return eval[REWARD] >= 5 ? format("a reward of %g (--most 5)", eval[REWARD]) : NULL;
}

/* The best of a reward is the most, of a loss the least; --patience counts what was not better; the
 * objective ends a run by the last validation, also one that a checkpoint has kept. */
static void check_best(void)
{
    static const double value[] = { 9, 3, 5, 4, 4.5, 5, NAN };     /* the first is of step 0 */
    static const Metrics less = { .eval = step_rows, .neval = STEP_ROWS, .decides = LOSS,
                                  .samples = TARGETS };
    Best most, least, ended, back;
    best_clear(&most, &metrics, NULL), best_clear(&least, &less, NULL);
    best_clear(&ended, &metrics, enough), best_clear(&back, &metrics, enough);
    char *early = NULL;
    for (int i = 0; i < 7; i++) {
        double eval[STEP_ROWS] = { [REWARD] = value[i] };
        best_see(&most, i, eval), best_see(&least, i, eval);
        if (!early) {
            best_see(&ended, i, eval);
            early = best_over(&ended, 0);
        }
    }
    char *why = best_over(&most, 4), *because = best_over(&least, 5);
    check(most.best.value == 5 && most.best.step == 2 && most.worse == 4 && !best_over(&most, 5)
          && !best_over(&most, 0) && why
          && strstr(why, "none of the last 4 validations was better than reward 5 at step 2"),
          "best: the most", "%s", why ? why : "none");
    check(least.best.value == 3 && least.worse == 5 && because
          && strstr(because, "none of the last 5 validations was better than loss 3.0000 at step 1"),
          "best: the least", "%s", because ? because : "none");
    check(early && ended.seen.step == 2 && strcmp(early, "a reward of 5 (--most 5)") == 0,
          "best: enough", "%s", early ? early : "none");
    cJSON *state = cJSON_CreateObject(), *trainer = cJSON_CreateObject();
    best_save(&ended, "out/.test/absent", 2, state, trainer);
    best_load(&back, "out/.test/absent", state);
    char *again = best_over(&back, 0);
    check(again && strcmp(early, again) == 0 && isnan(back.seen.value), "best: enough, from a checkpoint",
          "%s", again ? again : "none");
    free(why), free(because), free(early), free(again);
    cJSON_Delete(state), cJSON_Delete(trainer);
}

/* The best of a run in `out` whose checkpoint says `state`; of a reward. */
static Best best_of(const char *out, const char *state)
{
    Best b;
    cJSON *from = cJSON_Parse(state);
    best_clear(&b, &metrics, NULL);
    best_load(&b, out, from);
    cJSON_Delete(from);
    return b;
}

/* Its text in a checkpoint of step 9; malloc'ed. */
static char *saved_by(Best *b, const char *out)
{
    cJSON *state = cJSON_CreateObject(), *trainer = cJSON_CreateObject();
    cJSON_AddNullToObject(trainer, "best_metric");
    cJSON_AddNullToObject(trainer, "best_model_checkpoint");
    best_save(b, out, 9, state, trainer);
    cJSON_AddItemToObject(state, "trainer", trainer);
    char *text = cJSON_PrintUnformatted(state);
    cJSON_Delete(state);
    return text;
}

/* Values are compared with those of the same metric alone; a checkpoint that is gone stays the best. */
static void check_best_saved(void)
{
    char out[] = "/tmp/best.XXXXXX";
    if (!mkdtemp(out)) {
        check(false, "best: saved", "no folder");
        return;
    }
    static const char same[] = "{\"best_metric\":\"reward\",\"best\":5,\"best_step\":2,\"kept\":4,"
                               "\"kept_step\":3,\"worse\":1}",
                      older[] = "{\"best\":5,\"best_step\":2,\"kept\":4,\"kept_step\":3,\"worse\":1}";
    char *folder = format("%s/checkpoint-3", out);
    mkdir(folder, 0777);
    Best b = best_of(out, same), other = best_of(out, older);
    check(b.best.value == 5 && b.saved.step == 3 && b.worse == 1 && !b.reported, "best: of the same metric",
          "%g at %lld", b.best.value, (long long)b.saved.step);
    check(isnan(other.best.value) && isnan(other.saved.value) && other.worse == 0 && !other.reported,
          "best: of another metric", "%g, %lld worse", other.best.value, (long long)other.worse);
    char *there = saved_by(&b, out);
    check(strstr(there, "\"best_metric\":\"reward\"") &&
          strstr(there, "\"best_metric\":4,\"best_model_checkpoint\":\"/tmp"), "best: saved", "%s", there);
    rmdir(folder);
    char *gone = saved_by(&b, out);
    check(b.reported && b.saved.step == 3 && strstr(gone, "\"kept_step\":3") &&
          strstr(gone, "\"best_model_checkpoint\":null"), "best: removed by hand", "%s", gone);
    free(there), free(gone), free(folder);
    rmdir(out);
}

/* The history; what differs between runs, `"key": number, `, is cut out of it. */
static char *read_text(const char *folder)
{
    static const char *const timed[] = { "\"time\": ", "\"tokens_per_second\": ",
                                         "\"eval_states_per_second\": " };
    size_t n;
    char *path = format("%s/history.jsonl", folder), *error;
    char *text = file_read(path, 1 << 20, &n, &error);
    free(path);
    for (size_t i = 0; text && i < sizeof timed / sizeof *timed; i++)
        for (char *at = text; (at = strstr(at, timed[i]));) {
            const char *end = strstr(at, ", ");
            double value = strtod(at + strlen(timed[i]), NULL);
            if (!end || !(value >= 0) || (i == 0 && value < 1.7e9))
                return format("%s%.20g: no speed or time", timed[i], value);
            memmove(at, end + 2, strlen(end + 2) + 1);
        }
    return text ? text : error;
}

static void append(const char *folder, const char *text)
{
    char *path = format("%s/history.jsonl", folder);
    FILE *f = fopen(path, "a");
    fputs(text, f);
    fclose(f);
    free(path);
}

static char *folder_of(const char *scratch, const char *name)
{
    char *path = format("%s/%s", scratch, name);
    mkdir(path, 0700);
    return path;
}

/* The record of a training step against sums taken here. */
static void check_record(const char *text, int64_t step)
{
    double loss = 0, right = 0, seldom = 0, times = 0;
    for (int64_t s = step - EVERY + 1; s <= step; s++) {
        Step one = step_of(s);
        loss += one.value[LOSS];
        right += one.value[RIGHT];
        seldom += one.value[SELDOM], times += one.value[TIMES];
    }
    char *mark = format("\"epoch\": %.1f, \"step\": %lld}", (double)step / 10, (long long)step);
    const char *end = text;
    cJSON *r = NULL;
    while (!json_get(r, "loss") && (end = strstr(end, mark))) {
        const char *line = end++;
        while (line > text && line[-1] != '\n')
            line--;
        cJSON_Delete(r);
        r = cJSON_Parse(line);
    }
    static const char *const keys[] = { "loss", "right", "seldom", "grad_norm", "learning_rate",
                                        "num_tokens", "epoch", "step" };
    enum { KEYS = sizeof keys / sizeof *keys };
    double want[KEYS] = { loss / EVERY, right / EVERY, seldom / times, 1.0 / (double)step, 1e-3 * (double)step,
                      48.0 * (double)step, (double)step / 10, (double)step };
    bool good = r && cJSON_GetArraySize(r) == KEYS;
    for (int i = 0; i < KEYS && good; i++)
        good = json_get(r, keys[i])
            && fabs(json_get(r, keys[i])->valuedouble - want[i]) <= 1e-15 * fabs(want[i]);
    check(good, "record of a step: HF's keys, full precision", "%.300s", text);
    cJSON_Delete(r);
    free(mark);
}

static void check_state(const Log *l)
{
    /* transformers builds its TrainerState from these and fails on any other. */
    static const char *const keys[] = { "best_metric", "best_model_checkpoint", "epoch",
        "eval_steps", "global_step", "is_hyper_param_search", "is_local_process_zero",
        "is_world_process_zero", "log_history", "logging_steps", "max_steps",
        "num_input_tokens_seen", "num_train_epochs", "save_steps", "stateful_callbacks",
        "total_flos", "train_batch_size", "trial_name", "trial_params" };
    cJSON *s = log_state(l, 12);
    bool good = cJSON_GetArraySize(s) == 19;
    for (int i = 0; i < 19; i++)
        good = good && cJSON_HasObjectItem(s, keys[i]);
    const cJSON *loss = json_get(json_get(s, "log_history")->child, "loss");
    double times = loss ? loss->valuedouble * 1e4 : 0.5;
    check(good, "trainer_state: exactly HF's keys", "%d keys", cJSON_GetArraySize(s));
    check(fabs(times - round(times)) < 1e-9, "trainer_state: loss in 4 decimals", "%.17g", times);
    check(json_get(s, "global_step")->valuedouble == 12
          && json_get(s, "max_steps")->valuedouble == STEPS
          && json_get(s, "num_train_epochs")->valuedouble == 3
          && json_get(s, "train_batch_size")->valuedouble == 2
          && json_get(s, "epoch")->valuedouble == 1.2, "trainer_state: values", "wrong value");
    cJSON_Delete(s);
}

/* How log_open of a child ends: its exit code, or -1 when it hangs. */
static int opened(const char *folder, int64_t resumed)
{
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        Log l = { 0 };
        alarm(20);
        log_open(&l, folder, &model, &flags, &metrics, STEPS, 10, resumed);
        log_close(&l);
        _exit(EXIT_OK);
    }
    int status;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A history that is a link or a FIFO is refused, and nothing is written through a link. */
static void check_kinds(const char *scratch)
{
    char *folder = folder_of(scratch, "kinds"), *path = format("%s/history.jsonl", folder);
    char *temporary = format("%s.tmp", path), *other = format("%s/other", folder);
    FILE *f = fopen(other, "w");
    fputs("kept\n", f);
    fclose(f);
    for (int i = 0; i < 4; i++) {
        int made = i % 2 ? mkfifo(path, 0600) : symlink(other, path), code = opened(folder, i / 2 * 9);
        check(made == 0 && code == EXIT_IO, i % 2 ? "history a FIFO" : "history a link",
              "exit code %d, want %d, resumed %d", code, EXIT_IO, i / 2);
        unlink(path);
    }
    int made = symlink(other, temporary), code = opened(folder, 9);
    size_t n;
    char *error, *text = file_read(other, 100, &n, &error);
    check(made == 0 && code == EXIT_OK && text && strcmp(text, "kept\n") == 0,
          "history.jsonl.tmp a link", "exit code %d, %s", code, text);
}

/* Of a long run all records are in the file, and the last ones alone in memory and in trainer_state.json. */
static void check_long(const char *scratch)
{
    enum { MANY = 10 * (LOG_RECORDS + 500) };
    char *folder = folder_of(scratch, "long"), *path = format("%s/history.jsonl", folder);
    Log l = { 0 };
    log_open(&l, folder, &model, &flags, &metrics, MANY, 10, 0);
    train(&l, 1, MANY);
    cJSON *state = log_state(&l, MANY);
    const cJSON *list = json_get(state, "log_history");
    const double first = json_get(list->child, "step")->valuedouble,
                 last = json_get(list->child->prev, "step")->valuedouble;
    const int n = cJSON_GetArraySize(list);
    check(n == LOG_RECORDS && first > MANY / 2 && last == MANY && cJSON_GetArraySize(l.records) == LOG_RECORDS,
          "a long run: the last records", "%d in trainer_state.json, of steps %g to %g", n, first, last);
    cJSON_Delete(state);
    log_close(&l);
    FILE *f = fopen(path, "r");
    int lines = 0;
    for (int c; f && (c = getc(f)) != EOF;)
        lines += c == '\n';
    fclose(f);
    check(lines == MANY / 4 + MANY / 10, "a long run: all records are in the file", "%d lines", lines);
    free(folder), free(path);
}

/* n records of a loss each; where it began to rise, as a step of EVERY steps a record. */
static void check_rise(const char *what, const double *loss, int n, int64_t want)
{
    Log l = { .losses = calloc((size_t)n, sizeof *l.losses), .metrics = &metrics };
    for (int i = 0; i < n; i++)
        if (!isnan(loss[i]))
            l.losses[l.nlosses++] = (LogLoss){ loss[i], (double)(i + 1) * EVERY };
    double at = 0;
    int64_t got = log_before_rise(&l, &at);
    check(got == want && (got < 0 || at == loss[got / EVERY - 1]), what, "step %lld, loss %g",
          (long long)got, at);
    free(l.losses);
}

static void check_rises(void)
{
    static const double fell[] = { 5, 4, 3.5, 3.2, 3.0 }, rose[] = { 5, 4, 3, 2.5, 2.6, 9, 40, 1e5, NAN },
        noisy[] = { 3, 2, 2.2, 1.9, 2.1, 2.0, 2.2, 2.1, 30, 80, 1e9 }, first[] = { 2, 50, 1e4 };
    check_rise("no rise: the last record", fell, 5, 5 * EVERY);
    check_rise("where the loss began to rise", rose, 9, 5 * EVERY);
    check_rise("noise is no rise", noisy, 11, 8 * EVERY);
    check_rise("a loss that only rises", first, 3, EVERY);
    check_rise("no record", NULL, 0, -1);
}

static void check_clock(double seconds, const char *want)
{
    char got[32];
    progress_clock(got, seconds);
    check(strcmp(got, want) == 0, "time left", "%g s is %s, want %s", seconds, got, want);
}

static void check_number(double rate, const char *want)
{
    char got[32];
    progress_number(got, rate);
    check(strcmp(got, want) == 0, "rate", "%g is %s, want %s", rate, got, want);
}

/* Content of a terminal of so many columns; it never fills the last one, where some begin a new row. */
static void check_row(const Progress *p, int columns, const char *want)
{
    char *got = progress_row(p, columns);
    check(strcmp(got, want) == 0 && (int)strlen(got) < (columns > 1 ? columns : 1), "row of a terminal",
          "%d columns: \"%s\", want \"%s\"", columns, got, want);
    free(got);
}

static void check_progress(void)
{
    const double gib = 1 << 30;
    check_clock(0, "0:00:00"), check_clock(59.6, "0:01:00"), check_clock(3723, "1:02:03");
    check_clock(100 * 3600, "4 d 04:00"), check_clock(345599, "95:59:59"), check_clock(-1, "?");
    check_clock(NAN, "?"), check_clock(INFINITY, "?"), check_clock(1e300, "?");
    check_number(0.1234, "0.12"), check_number(12.34, "12.3"), check_number(1234.5, "1234");
    check_number(2.5e6, "2.50M"), check_number(NAN, "?"), check_number(-1, "?"), check_number(1e300, "?");
    DeviceUse gpu = {.busy = 87, .used = (int64_t)(61.2 * gib), .total = (int64_t)(79.6 * gib)};
    Progress p = {.step = 25, .total = 100, .metrics = "loss 2.3456  margin 0.10", .grad_norm = 1.5,
                  .lr = 2e-4, .rate = 1234, .unit = "tokens", .left = 75, .gpu = &gpu};
    check_row(&p, 200, "25/100 [#####...............]  loss 2.3456  margin 0.10  norm 1.5  lr 2.00e-04  "
              "1234 tokens/s  left 0:01:15  GPU 87 % 61.2/79.6 GiB");
    check_row(&p, 80, "25/100 [#....]  loss 2.3456  norm 1.5  lr 2.00e-04  1234 tokens/s  left 0:01:15");
    check_row(&p, 40, "25/100  loss 2.3456  left 0:01:15");
    check_row(&p, 20, "25/100  loss 2.3456");
    check_row(&p, 10, "25/100"), check_row(&p, 6, ""), check_row(&p, 0, ""), check_row(&p, -3, "");
    gpu.busy = -1, p.metrics = "", p.left = NAN, p.rate = INFINITY;
    check_row(&p, 80, "25/100 [##......]  norm 1.5  lr 2.00e-04  ? tokens/s  left ?  GPU 61.2/79.6 GiB");
    gpu.total = 0, p.step = 100;
    check_row(&p, 80, "100/100 [####################]  norm 1.5  lr 2.00e-04  ? tokens/s  left ?");
    gpu.busy = 5, p.metrics = "loss nan";
    char *line = progress_line(&p);
    check(strcmp(line, "step 100/100  loss nan  norm 1.5  lr 2.000e-04  ? tokens/s  left ?  GPU 5 %") == 0,
          "line of a step", "%s", line);
    free(line);
}

/* A caller that breaks a contract ends with the file, the line and the condition. */
static void check_contract(void)
{
    int ends[2], status = -1;
    char text[400] = "";
    if (pipe(ends))
        return;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        const Tensor t = { .rank = 1, .shape = { 4 } };
        float x[8] = { 0 };
        dup2(ends[1], 2);
        model_get(&t, (Array){.at = x}, 0, 5, x);
        _exit(0);
    }
    close(ends[1]);
    for (ssize_t n = 0, k; (k = read(ends[0], text + n, sizeof text - 1 - (size_t)n)) > 0;)
        n += k;
    close(ends[0]);
    waitpid(child, &status, 0);
    check(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_INTERNAL
          && strstr(text, "runtime/model/model.c:") && strstr(text, "broken contract: begin >= 0"),
          "a broken contract is named", "%s", text);
}

/* The disk is full, and the lines that wait already take all the memory they may. */
static void check_lost(const char *scratch)
{
    char *folder = folder_of(scratch, "lost");
    Log l = { 0 };
    log_open(&l, folder, &model, &flags, &metrics, STEPS, 10, 0);
    close(l.history);
    l.history = -1, l.tried = clock_seconds(), l.nlate = (size_t)1 << 26;
    log_record(&l, 1, cJSON_CreateObject());
    log_record(&l, 2, cJSON_CreateObject());
    check(l.lost == 2 && l.nrecords == 2, "records that find no room are counted", "%d", (int)l.lost);
    l.nlate = 0;
    log_close(&l);
    free(folder);
}

void test_log(const char *scratch)
{
    check_progress();
    check_rises();
    check_values();
    check_best();
    check_best_saved();
    char *argv[] = { (char[]){ "train" }, (char[]){ "--log-every=4" }, NULL };
    flags_parse(&flags, &(Made){ .words = "recipes/x.lua" }, NULL, 2, argv);
    char *a = folder_of(scratch, "straight"), *b = folder_of(scratch, "resumed");
    check_lost(scratch);
    check_contract();
    Log straight = { 0 }, killed = { 0 }, resumed = { 0 };
    Log again = { 0 }, more = { 0 };
    log_open(&straight, a, &model, &flags, &metrics, STEPS, 10, 0);
    train(&straight, 1, STEPS);
    char *want = read_text(a);
    check_record(want, 12);
    check_state(&straight);

    /* Saved after step 10, killed after step 17 within a record's line, resumed. */
    log_open(&killed, b, &model, &flags, &metrics, STEPS, 10, 0);
    train(&killed, 1, 10);
    cJSON *state = cJSON_CreateObject();
    log_save(&killed, state);
    char *text = cJSON_Print(state);             /* through text, as a checkpoint */
    train(&killed, 11, 17);
    log_close(&killed);
    append(b, "{\"loss\": 3.1, \"gra");
    cJSON *back = cJSON_Parse(text);
    char *error = log_load(&resumed, &metrics, back);
    check(!error, "log sums load", "%s", error ? error : "");
    log_open(&resumed, b, &model, &flags, &metrics, STEPS, 10, 10);
    train(&resumed, 11, STEPS);
    char *got = read_text(b);
    check(strcmp(got, want) == 0, "resumed history equals the straight one", "%.400s", got);
    check(resumed.all[LOSS] == straight.all[LOSS] && resumed.all[RIGHT] == straight.all[RIGHT]
          && resumed.all[TOKENS] == straight.all[TOKENS] && resumed.steps_all == STEPS,
          "resumed sums equal the straight ones", "%.17g", resumed.all[LOSS]);
    log_end(&resumed, STEPS, "no \"better\" loss");
    log_close(&resumed);
    free(got);
    got = read_text(b);
    cJSON *last = cJSON_Parse(strrchr(got, '{'));
    double mean = straight.all[LOSS] / STEPS;
    check(json_get(last, "train_runtime") && json_get(last, "train_samples_per_second")
          && json_get(last, "train_steps_per_second") && json_get(last, "total_flos")
          && strcmp(cJSON_GetStringValue(json_get(last, "early_stop")), "no \"better\" loss") == 0
          && json_get(last, "train_tokens_per_second")->valuedouble > 0
          && json_get(last, "train_loss")->valuedouble == mean, "closing record", "%.300s", got);

    /* The same where the disk failed before the save and until the kill: the checkpoint has the late records. Where it
     * was well again after the save, the file has them, too. */
    for (int well = 0; well < 2; well++) {
        char *c = folder_of(scratch, well ? "late_written" : "late");
        Log failing = { 0 }, after = { 0 };
        log_open(&failing, c, &model, &flags, &metrics, STEPS, 10, 0);
        train(&failing, 1, 3);
        char *path = failing.path;
        close(failing.history);
        failing.history = open("/dev/full", O_WRONLY);
        failing.path = "/dev/full/history.jsonl";
        train(&failing, 4, 10);
        if (!well)
            log_end(&failing, 10, "stopped");        /* a closing record goes when the run is continued */
        cJSON *held = cJSON_CreateObject();
        log_save(&failing, held);
        check(failing.nlate > 0 && json_get(json_get(held, "log"), "late"), "late records are saved", "%zu",
              failing.nlate);
        failing.path = path;
        if (well)
            log_close(&failing);
        error = log_load(&after, &metrics, held);
        check(!error, "late records load", "%s", error ? error : "");
        log_open(&after, c, &model, &flags, &metrics, STEPS, 10, 10);
        train(&after, 11, STEPS);
        char *whole = read_text(c);
        check(strcmp(whole, want) == 0, "no record of a failing disk is lost", "%.400s", whole);
        log_close(&after);
        free(whole), cJSON_Delete(held);
    }

    /* Started again with nothing left to do: everything stays. More steps: the closing one goes. */
    log_open(&again, b, &model, &flags, &metrics, STEPS, 10, STEPS);
    log_close(&again);
    char *same = read_text(b);
    check(strcmp(same, got) == 0, "nothing to do: the history stays", "%.300s", same);
    log_open(&more, b, &model, &flags, &metrics, STEPS + 5, 10, STEPS);
    free(got);
    got = read_text(b);
    check(strcmp(got, want) == 0, "closing record goes when a run is continued", "%.300s", got);
    log_close(&more);
    cJSON_DeleteItemFromObject(json_get(back, "log"), "right_all");
    error = log_load(&resumed, &metrics, back);
    check(error && strstr(error, "log.right_all"), "a missing sum is named", "%s",
          error ? error : "");

    Log nan = { 0 };
    log_open(&nan, a, &model, &flags, &metrics, 4, 0, 0);
    for (int64_t s = 1; s <= 4; s++)
        log_step(&nan, s, &(LogStep){ (double[STEP_ROWS]){ NAN, 0, 1, 1 },
            (double[STEP_ROWS]){ NAN, 0, 1, 1 }, INFINITY, 0, NULL });
    free(got);
    got = read_text(a);
    cJSON *r = json_parse(got, strlen(got) - 1, &error);
    check(r && cJSON_IsNull(json_get(r, "loss")) && !json_get(r, "targets"), "NaN is null", "%s",
          got);
    /* --nonfinite skip: means are over the other steps, also after a resume in between */
    Log skipped = { 0 };
    for (int64_t s = 5; s <= 6; s++)
        log_step(&nan, s, &(LogStep){ (double[STEP_ROWS]){ s == 5 ? NAN : 3, 1, 1, 1 },
            (double[STEP_ROWS]){ s == 5 ? NAN : 3, 1, 1, 1 }, 1, 0, NULL });
    cJSON *save = cJSON_CreateObject();
    log_save(&nan, save);
    char *words = cJSON_Print(save);
    cJSON_Delete(save);
    save = cJSON_Parse(words);
    error = log_load(&skipped, &metrics, save);
    check(!error && skipped.steps == 2 && skipped.known[LOSS] == 1 && skipped.sum[LOSS] == 3,
          "a step without a loss is saved", "%s", error ? error : words);
    log_end(&nan, 6, NULL);
    free(got);
    got = read_text(a);
    cJSON *end = cJSON_Parse(strrchr(got, '{'));
    check(json_get(end, "train_loss")->valuedouble == 3, "the mean loss leaves out NaN", "%s", got);
    cJSON_Delete(save), cJSON_Delete(end);
    free(words);
    log_banner(&(Banner){ .libraries = "cuBLASLt 13.1.0", .model = &model, .flags = &flags,
                          .threads = 2, .weights = "models/x" });
    flags.lr_scale = "linear";
    log_banner(&(Banner){ .libraries = "cuBLASLt 13.1.0", .model = &model, .flags = &flags,
                          .threads = 2, .weights = "models/x",
                          .lr_ranks = 4 });
    flags.lr_scale = "none";
    Model tuned = model;
    tuned.overrides = "gpus=2 batch.micro=1";
    tuned.adapter_json = "{}";
    tuned.model_fields = "model.kind=\"x\"\nlora.rank=4\nlora.alpha=8.0\n"
                         "lora.targets={\"q_proj\",\"v_proj\"}\nlora.rslora=false\n"
                         "lora.modules_to_save={}\n";
    Data eval = { .eval = true, .n = 100, .T = 8, .G = 10, .nfiles = 1, .kind = "packed" };
    flags.eval_batches = 3;
    log_banner(&(Banner){ .libraries = "cuBLASLt 13.1.0", .model = &tuned, .flags = &flags,
                          .threads = 1, .weights = "models/x",
                          .eval = &eval });
    flags.eval_batches = 30;
    log_banner(&(Banner){ .libraries = "cuBLASLt 13.1.0", .model = &model, .flags = &flags,
                          .threads = 1, .weights = "models/x",
                          .eval = &eval });
    check_kinds(scratch);
    check_long(scratch);
}
