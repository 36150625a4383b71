/* unit_events.c -- event files: the bytes of TensorBoard's own writer, and what a killed, resumed, damaged or full
 * run has of its history. */
#define _GNU_SOURCE
#include "unit.h"
#include "../../runtime/base.h"
#include "../../runtime/files/json.h"
#include "../../runtime/files/tfevents.h"
#include "../../runtime/run/log.h"
#include "../train/events.h"
#include <fcntl.h>
#include <glob.h>
#include <math.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Made by tests/oracle/events.py --vector with tensorboard 2.21.0. */
static const char recorded[] =
    "1800000000000000a37f4b220900001040fc54d9411a0d627261696e2e4576656e743a32338d2fe9100000000000000095fb"
    "fe180900001040fc54d94110ac023a0208016b3b88f19a0000000000000011c3204a0900001040fc54d9412a8e010a5c0a1c"
    "5f68706172616d735f2f73657373696f6e5f73746172745f696e666f4a3c0a3a0a0768706172616d73122f1a2d0a070a0161"
    "120220010a080a016212031a01780a0f0a026c72120911fca9f1d24d62503f2900001040fc54d9410a2e0a07636f6d6d616e"
    "6442190807120412020801420f2e2f747261696e202d2d6c7220c3a94a080a060a047465787447779e7a3b00000000000000"
    "1a23ac5c0900005040fc54d94110052a2e0a110a0a747261696e2f6c6f737315000020400a0f0a08747261696e2f6c721500"
    "0000000a080a0178150000c07f3af71b944c00000000000000f5d4a2a00900005042fc54d941108080808080202a3a0a380a"
    "1a5f68706172616d735f2f73657373696f6e5f656e645f696e666f4a1a0a180a0768706172616d73120d220b080111000060"
    "42fc54d941c88c3284";

static EventFile file;

/* ---- bytes ---- */

static void check_bytes(void)
{
    const double t = 1700000000.25;
    TfBytes f = {0}, s = {0}, settings = {0};
    tf_version(&f, t);
    tf_begin(&f, t, 300);
    tf_setting(&settings, "a", "true");
    tf_setting(&settings, "b", "x");
    tf_setting(&settings, "lr", "0.001");
    tf_session_start(&s, &settings, t);
    tf_text(&s, "command", "./train --lr \xc3\xa9");
    tf_summary(&f, t, 0, &s);
    tf_scalar(&s, "train/loss", 2.5);
    tf_scalar(&s, "train/lr", 0);
    tf_scalar(&s, "x", NAN);
    tf_summary(&f, t + 1, 5, &s);
    tf_summary(&f, t + 2, 6, &s);            /* empty */
    tf_session_end(&s, 1700000009.5);
    tf_summary(&f, t + 9, INT64_C(1) << 40, &s);
    char *hex = calloc(2 * f.n + 1, 1);
    for (size_t i = 0; i < f.n; i++)
        sprintf(hex + 2 * i, "%02x", f.data[i]);
    check(strcmp(hex, recorded) == 0, "events: the bytes of TensorBoard's own writer", "%s", hex);
    events_parse(&file, f.data, f.n);
    check(!*file.bad && file.n == 6 && file.value[2].value == 2.5f && isnan(file.value[4].value) &&
              file.value[5].step == INT64_C(1) << 40, "events: read back", "%s, %d values", file.bad, file.n);
    int missed = 0;
    for (size_t i = 0; i < f.n; i++) {
        f.data[i] ^= 0x10;
        events_parse(&file, f.data, f.n);
        missed += !*file.bad;
        f.data[i] ^= 0x10;
        events_parse(&file, f.data, i);
        missed += !*file.bad && file.events > 4;
    }
    check(missed == 0, "events: the reader of the tests sees damage", "%d of %zu bytes missed", missed, f.n);
    TfBytes odd = {0};
    tf_text(&odd, "t", "a\xff_\xc3|");
    check(odd.n && memmem(odd.data, odd.n, "a?_?|", 5), "events: what is no UTF-8", "%zu bytes", odd.n);
    free(hex), free(f.data), free(odd.data);
}

/* ---- names ---- */

enum { LOSS, RIGHT, TOKENS, STEP_ROWS };
enum { SCORE, SAMPLES, PLACES, EVAL_ROWS };
static const Metric step_rows[] = {
    {.name = "loss", .kind = METRIC_MEAN, .per = TOKENS, .tag = "weighted_loss"},
    {.name = "right", .kind = METRIC_MEAN, .per = TOKENS, .tag = "train/right"},
    {.name = "tokens", .kind = METRIC_COUNT, .tag = "train/tokens"},
};
static const Metric eval_rows[] = {
    {.name = "score", .kind = METRIC_MEAN, .per = SAMPLES, .more = true, .tag = "test/score"},
    {.name = "samples", .kind = METRIC_COUNT},
    {.name = "places", .kind = METRIC_COUNT},
};
static const MetricTag tags[] = {{"learning_rate", "inner_lr"}, {NULL, NULL}};
static const Metrics metrics = {.step = step_rows, .nstep = STEP_ROWS, .eval = eval_rows, .neval = EVAL_ROWS,
                                .step_work = TOKENS, .eval_work = PLACES, .samples = SAMPLES, .decides = SCORE,
                                .tags = tags};

static void check_tags(void)
{
    static const char *const want[][2] = {
        {"loss", "weighted_loss"}, {"num_tokens", "train/tokens"},
        {"eval_score", "test/score"}, {"eval_runtime", "test/runtime"}, {"best_score", "test/best_score"},
        {"learning_rate", "inner_lr"}, {"learning_rate_meta", "train/learning_rate_meta"},
        {"grad_norm", "train/grad_norm"},
        {"epoch_learning_rate", "epoch/learning_rate"}, {"epoch_loss", "epoch/loss"}, {"epoch", "train/epoch"},
        {"train_loss", "train/train_loss"}, {"tokens_per_second", "train/tokens_per_second"}};
    Metrics without = metrics;
    without.tags = NULL;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        char *tag = metrics_tag(&metrics, want[i][0]);
        check(strcmp(tag, want[i][1]) == 0, want[i][1], "%s", tag);
        free(tag);
    }
    char *tag = metrics_tag(&without, "learning_rate");
    check(!strcmp(tag, "train/learning_rate"), "the usual name of the rate", "%s", tag);
    free(tag);
}

/* Numbers of a checkpoint come back, NaN as well; one that its program did not count is reported by name. */
static void check_saved(void)
{
    const double was[STEP_ROWS] = {1.5, NAN, 7};
    double is[STEP_ROWS];
    cJSON *o = cJSON_CreateObject();
    metrics_save(step_rows, STEP_ROWS, was, o);
    char *error = metrics_load(step_rows, STEP_ROWS, is, o);
    check(!error && is[LOSS] == 1.5 && isnan(is[RIGHT]) && is[TOKENS] == 7, "metrics: saved and loaded", "%s",
          error ? error : "other numbers");
    static const struct { const char *to, *said; } other[] = {
        {NULL, "right is missing: saved by a program with other metrics"}, {"1", "right: must be a number or null"}};
    for (int i = 0; i < 2; i++) {
        cJSON_DeleteItemFromObject(o, "right");
        if (other[i].to)
            cJSON_AddStringToObject(o, "right", other[i].to);
        error = metrics_load(step_rows, STEP_ROWS, is, o);
        check(error && !strncmp(error, other[i].said, strlen(other[i].said)), other[i].said, "%s",
              error ? error : "taken");
        free(error);
    }
    cJSON_Delete(o);
}

/* ---- runs ---- */

static const Model model = {.recipe = "recipes/x.lua", .name = "x", .hash = "0011", .generator = "diecast 0",
                            .objective = "lm", .target = "cpu", .micro = 2, .accum = 3, .ranks = 1,
                            .model_fields = "model.hidden=64\nmodel.family=\"gpt2\"\nmodel.tied=true\nempty=\"\"\n"};
static Flags flags;
static char *argv[] = {(char[]){"train"}, (char[]){"--log-every=2"}, (char[]){"--lr"}, (char[]){"0.25"}, NULL};
enum { STEPS = 40, EVERY = 10 };

static void say_sample(int64_t step)
{
    char *path = format("%s/samples.jsonl", flags.out);
    FILE *f = fopen(path, "a");
    fprintf(f, "{\"step\": %lld, \"prompt\": \"Once\", \"answer\": \" upon %lld\"}\n", (long long)step,
            (long long)step);
    fclose(f);
    free(path);
}

static void begin(Log *l, int64_t resumed)
{
    *l = (Log){0};
    log_open(l, flags.out, &model, &flags, &metrics, STEPS, EVERY, resumed);
    log_events(l, "x", 4, argv);
}

static void go(Log *l, int64_t from, int64_t to)
{
    for (int64_t s = from; s <= to; s++) {
        const double loss = s == 8 ? NAN : 5.0 / (double)s,
                     value[] = {loss, s % 4 ? 0.5 : NAN, 48}, eval[] = {(double)(s * 7 % 30), 10, 100};
        log_step(l, s, &(LogStep){value, value, 1e39, 1e-3 * (double)s, NULL});
        if (s % EVERY == 0) {
            log_eval(l, s, &(LogEval){.value = eval, .seconds = 0.5});
            log_epoch(l, s, loss, 0.1);
            say_sample(s);
            events_samples(&l->events);
        }
    }
}

static char *events_path(void)
{
    glob_t found;
    char *pattern = format("%s/runs/x/*.diecast", flags.out), *path = NULL;
    if (glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc == 1)
        path = format("%s", found.gl_pathv[0]);
    globfree(&found);
    free(pattern);
    return path;
}

/* "" or why the one file of the run does not have what its history has. Texts point into what is never freed. */
static const char *differs(void)
{
    char *path = events_path(), *other = format("%s/history.jsonl", flags.out), *error;
    size_t n = 0, bytes = 0;
    char *data = path ? file_read(path, 1 << 26, &n, &error) : NULL, *text = file_read(other, 1 << 26, &bytes, &error);
    if (!data || !text)
        return "no file, or several";
    cJSON *all = cJSON_CreateArray();
    for (char *at = text, *line; (line = strsep(&at, "\n")) && *line;)
        cJSON_AddItemToArray(all, cJSON_Parse(line));
    events_parse(&file, (uint8_t *)data, n);
    if (!*file.bad)
        events_compare(&file, all);
    cJSON_Delete(all);
    free(path), free(other), free(text);
    return file.bad;
}

static void in_folder(const char *scratch, const char *name)
{
    char *out = format("%s/events-%s", scratch, name);
    mkdir(out, 0700);
    flags.out = out;
}

static bool says(const char *tag, int n, const char *text)
{
    const EventValue *v = events_text(&file, tag, n);
    return v && memmem(v->text, v->length, text, strlen(text));
}

static void check_whole(const char *scratch)
{
    Log l;
    in_folder(scratch, "whole");
    begin(&l, 0);
    check(!*differs(), "events: of a run that has just begun", "%s", file.bad);
    go(&l, 1, STEPS);
    check(!*differs(), "events: while it runs", "%s", file.bad);
    log_end(&l, STEPS, "enough");
    log_close(&l);
    check(!*differs(), "events: the numbers of the history", "%s", file.bad);
    check(says("recipe", 0, "recipes/x.lua, 0011") && says("recipe", 0, "    model.hidden=64\n") &&
              says("command", 0, "    train --log-every=2 --lr 0.25") && says("flags", 0, "| **`--lr`** | `0.25` |") &&
              says("sample", 0, "**Once** upon 10") && says("sample", 3, "**Once** upon 40") &&
              !events_text(&file, "sample", 4) && says("train/early_stop", 0, "enough"), "events: texts", "%d values",
          file.n);
    double best = 0;
    bool good = true;
    for (int i = 0; i < file.n; i++)
        if (!strcmp(file.value[i].tag, "test/score"))
            best = fmax(best, (double)file.value[i].value);
        else if (!strcmp(file.value[i].tag, "test/best_score"))
            good &= (double)file.value[i].value == best;
    check(good && best == 20, "events: the best validation so far", "%g", best);
    char *first = events_path();
    begin(&l, STEPS);                        /* nothing to do */
    log_close(&l);
    check(!*differs() && says("sample", 3, "upon 40") && !events_text(&file, "sample", 4),
          "events: of a run that is over", "%s", file.bad);
    free(first);
}

/* Killed at any moment of writing, then gone on with from a checkpoint: as the history. What was damaged or cut
 * does not stay, what others have put there does. */
static void check_killed(const char *scratch)
{
    int bad = 0, at = -1;
    char why[256] = "";
    in_folder(scratch, "killed");
    char *foreign = format("%s/runs/x/events.out.tfevents.1.other.2.0", flags.out), *path;
    for (int i = 0; i < 12; i++) {
        const int64_t resumed = (i + 1) / 2 * EVERY;     /* the child went on from there, or the step EVERY before */
        struct stat s = {0}, before = {0};
        path = events_path();
        if (path)
            stat(path, &before);
        free(path);
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            Log l;
            alarm(60);
            begin(&l, i / 2 * EVERY);
            go(&l, i / 2 * EVERY + 1, INT64_C(1) << 40);
        }
        for (int k = 0; k < 60000 && s.st_size < before.st_size + 4000 + 977 * i; k++, usleep(1000)) {
            path = events_path();
            s.st_size = 0;
            if (path)
                stat(path, &s);
            free(path);
        }
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        path = events_path();
        const int fd = path ? open(path, O_RDWR) : -1;
        if (fd >= 0 && i % 3 == 1 && pwrite(fd, "\xff\xff\xff\xff", 4, s.st_size / 2) != 4)
            bad++;
        if (fd >= 0 && i % 3 == 2 && ftruncate(fd, s.st_size - 5 * i))
            bad++;
        close(fd);
        free(path);
        FILE *f = fopen(foreign, "w");
        fclose(f);
        Log l;
        begin(&l, resumed);
        go(&l, resumed + 1, resumed + 5);
        log_close(&l);
        bad += *differs() || access(foreign, F_OK) || events_text(&file, "sample", (int)resumed / EVERY);
        bad += resumed && !says("sample", (int)resumed / EVERY - 1, "upon");
        if (bad && at < 0)
            at = i, snprintf(why, sizeof why, "%s", file.bad);
    }
    check(!bad, "events: killed, damaged, resumed", "time %d of 12: %s", at, why);
    free(foreign);
}

/* A disk that is full for a while, as a limit on the size of files: the run goes on, and has all in the end. One that
 * stays full costs what no longer fits. */
static void check_full(const char *scratch)
{
    for (int stays = 0; stays < 2; stays++) {
        in_folder(scratch, stays ? "stays" : "full");
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            Log l;
            struct rlimit old, now;
            signal(SIGXFSZ, SIG_IGN);
            begin(&l, 0);
            go(&l, 1, 4);
            getrlimit(RLIMIT_FSIZE, &old);
            now = old;
            char *path = events_path();
            struct stat s;
            now.rlim_cur = stat(path, &s) ? 0 : (rlim_t)s.st_size + 100;
            setrlimit(RLIMIT_FSIZE, &now);
            go(&l, 5, 20);
            if (!stays)
                setrlimit(RLIMIT_FSIZE, &old);
            events_close(&l.events);
            setrlimit(RLIMIT_FSIZE, &old);
            log_close(&l);
            _exit(0);
        }
        int status;
        waitpid(pid, &status, 0);
        check(status == 0, stays ? "events: a disk that stays full ends no run" : "events: a full disk ends no run",
              "status %d", status);
        if (!stays)
            check(!*differs(), "events: all are there in the end", "%s", file.bad);
    }
}

/* A folder that cannot be created is reported before any step. */
static void check_refused(const char *scratch)
{
    in_folder(scratch, "refused");
    char *runs = format("%s/runs", flags.out);
    close(open(runs, O_CREAT | O_WRONLY, 0600));
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        Log l;
        begin(&l, 0);
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    check(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_IO, "events: runs is a file", "status %d", status);
    free(runs);
}

void test_events(const char *scratch)
{
    check_bytes();
    check_tags();
    check_saved();
    flags_parse(&flags, &(Made){ .words = "recipes/x.lua" }, NULL, 4, argv);
    check_whole(scratch);
    check_killed(scratch);
    check_full(scratch);
    check_refused(scratch);
}
