/* errors.c -- fault injection: every system call of packing, saving, loading, exporting and locking fails in turn.
 *
 * In:    errors SCRATCH MOST [CASE]: an empty folder; how many calls to fail per failure mode, evenly spaced, 0: all.
 * Out:   one line per case, `ok` or `not ok`.
 * Method: each run is a child process in which the n-th call fails, once or from then on. It passes if no sanitizer
 *         reports an error, every file under its final name is that of before or that of a successful run, and the run
 *         either succeeds or prints one line with the file, the errno and advice, and exits with the documented
 *         code. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../runtime/base.h"
#include "../../runtime/data/data.h"
#include "../../runtime/files/folder.h"
#include "../../runtime/files/json.h"
#include "../../runtime/files/lock.h"
#include "../../runtime/model/hf.h"
#include "../../runtime/pack/pack.h"
#include "../../runtime/run/checkpoint.h"
#include "../../runtime/run/failure.h"
#include "../../runtime/run/prepare.h"
#include "../../runtime/run/records.h"
#include "../../runtime/run/stop.h"
#include "fake.h"
#include "inject.h"

#define REF "tests/train/ref/"

int pack_main(int argc, char **argv);

static const char *scratch;
static char *raw, *novel;        /* a folder of rows of JSON; a file of plain text */
static char *vocabulary;         /* tokenizer.json of that text */
static char *llama_json, *qwen2_json;        /* config.json */
static Flags flags;
static int injecting;            /* the errno of this run */

/* ---- actions: each runs in a child, in the existing folder `out` -------------------------------- */

static void use_flags(const char *out, const char *tokenizer, const char *flag, const char *data)
{
    static const FlagDefault defaults[] = {{"lr", "0.25"}, {NULL, NULL}};
    const char *argv[] = {"errors", "--out", out, "--tokenizer", tokenizer, flag, data};
    flags_parse(&flags, &(Made){ .words = "recipes/x.lua" }, defaults, tokenizer ? 7 : 3, (char **)(uintptr_t)argv);
}

static Model *model_at(const char *kind, int64_t step)
{
    Model *m = fake_model(kind, strcmp(kind, "lora") ? llama_json : qwen2_json);
    fake_fill(m, step);
    return m;
}

/* --data of raw rows, as a program packs and opens it. */
static void pack_program(const char *out)
{
    const DataShape of = {.kind = "rows", .T = 64, .vocab = 257};
    const RecordRules rules = {.formats = pack_all_formats};
    Data train, eval;
    use_flags(out, "bytes", "--data", raw);
    records_open(&flags, model_at("llama", 1), &of, &rules, &train, &eval);
}

/* The same with a vocabulary of the data, and with some of them to validate on. */
static void pack_words(const char *out)
{
    const DataShape of = {.kind = "rows", .T = 8, .vocab = 20, .finds_targets = true, .split = {0.5}};
    const RecordRules rules = {.format = "windows", .formats = pack_all_formats, .held_out = HELD_OUT_RANDOM};
    Data train, eval;
    use_flags(out, "char", "--data", novel);
    records_open(&flags, model_at("llama", 1), &of, &rules, &train, &eval);
}

static void prepare(const char *out)
{
    use_flags(out, "char", "--prepare", novel);
    flags.given[FLAG_out] = true;
    prepare_texts(&flags, novel, &(Model){0}, pack_all_formats, 8, 20, -1);
}

/* With a tokenizer that goes with the arrays. */
static void prepare_with(const char *out)
{
    use_flags(out, vocabulary, "--prepare", novel);
    flags.given[FLAG_out] = true;
    prepare_texts(&flags, novel, &(Model){0}, pack_all_formats, 8, 20, -1);
}

/* gen pack of a text, with a vocabulary of it. */
static void pack_gen_words(const char *out)
{
    char *to = folder_join(out, "rows.safetensors");
    char *argv[] = {"pack", "--format", "corpus", "--tokenizer", "words", "-o", to, novel};
    freopen("/dev/null", "w", stdout);
    pack_main(8, argv);
}

/* gen pack, replacing an older file. */
static void pack_gen(const char *out)
{
    char *to = folder_join(out, "rows.safetensors"), *from = folder_join(raw, "a.jsonl");
    char *argv[] = {"pack", "-o", to, from};
    freopen("/dev/null", "w", stdout);
    pack_main(4, argv);
}

static void save_steps(const char *out, int64_t first, int64_t last)
{
    Checkpoints c = {.out = out, .flags = &flags, .fingerprint = "data-1", .source = REF "llama_tiny/model",
                     .tokenizer = "tests/tokenizer/level/tokenizer.json"};
    Model *m = model_at("llama", first);
    use_flags(out, NULL, NULL, NULL);
    checkpoint_start(&c, m);
    for (int64_t step = first; step <= last; step++) {
        cJSON *state = cJSON_CreateObject(), *trainer = cJSON_CreateObject();
        fake_fill(m, step);
        checkpoint_save(&c, m, step, state, trainer);
        cJSON_Delete(state), cJSON_Delete(trainer);
    }
}

static void save(const char *out)
{
    save_steps(out, 3, 5);
    stop_done(out, 5, NULL);
}

/* A checkpoint that cannot be read is not taken for a damaged one. */
static void resume(const char *out)
{
    Checkpoints c = {.out = out, .flags = &flags, .fingerprint = "data-1"};
    Model *m = model_at("llama", 9);
    use_flags(out, NULL, NULL, NULL);
    const bool found = checkpoint_find(&c, m);
    if ((!found || c.step != 2))
        die(EXIT_INTERNAL, "goes on from step %lld, want 2", found ? (long long)c.step : -1LL);
    if (found)
        checkpoint_load(&c, m);
}

/* Replaces an older export if there is one. */
static void export(const char *out)
{
    char *to = folder_join(out, "model");
    use_flags(out, NULL, NULL, NULL);
    hf_save(model_at("llama-bf16", 2), to, &(HfHow){.source = REF "llama_tiny/model", .card = "# A model\n",
                                                    .tokenizer = "tests/tokenizer/level/tokenizer.json"});
}

static void adapter(const char *out)
{
    char *to = folder_join(out, "adapter");
    use_flags(out, NULL, NULL, NULL);
    hf_save_adapter(model_at("lora", 2), to, &(HfHow){.card = "# An adapter\n"});
}

static void load(const char *out)
{
    use_flags(out, NULL, NULL, NULL);
    hf_load(model_at("llama", 9), REF "llama_tiny/model", false);
}

static void load_adapter(const char *out)
{
    Model *m = model_at("lora", 9);
    use_flags(out, NULL, NULL, NULL);
    hf_load(m, REF "qwen2_lora/model", false);
    hf_load_adapter(m, REF "qwen2_lora/adapter_final", false);
}

static void lock(const char *out)
{
    use_flags(out, NULL, NULL, NULL);
    lock_take(out, 0, false);
    lock_release();
}

/* ---- initial contents of `out` ----------------------------------------------------------------- */

static void text_into(const char *folder, const char *name, const char *text)
{
    char *error = folder_write_text(folder, name, text, NULL);
    if (error) {
        printf("not ok checkpoint/errors: %s\n", error);
        exit(1);
    }
}

static void packed_before(const char *out)
{
    char *to = folder_join(out, "rows.safetensors"), *from = folder_join(raw, "b.jsonl");
    char *argv[] = {"pack", "-o", to, from};
    freopen("/dev/null", "w", stdout);
    pack_main(4, argv);
}

static void saved_before(const char *out)
{
    save_steps(out, 1, 2);
}

static void exported_before(const char *out)
{
    char *to = folder_join(out, "model");
    hf_save(model_at("llama-bf16", 1), to, &(HfHow){.card = "# A model\n"});
}

static void adapter_before(const char *out)
{
    char *to = folder_join(out, "adapter");
    hf_save_adapter(model_at("lora", 1), to, &(HfHow){.card = "# An adapter\n"});
}

/* The lock of a dead process. */
static void locked_before(const char *out)
{
    char *text = format("{\"host\": \"%s\", \"job\": \"\", \"pid\": 2147483646, \"restart\": 0, \"since\": \"2024\", "
                        "\"start\": \"5\"}\n", world.host);
    text_into(out, "run.lock", text);
}

/* ---- checks ------------------------------------------------------------------------------------ */

static bool same_file(const char *a, const char *b)
{
    size_t n, m;
    char *error = NULL, *x = file_read(a, 1 << 28, &n, &error), *y = error ? NULL : file_read(b, 1 << 28, &m, &error);
    const bool same = x && y && n == m && memcmp(x, y, n) == 0;
    free(x), free(y), free(error);
    return same;
}

/* True if two folders hold the same files, byte for byte. */
static bool same_folder(const char *a, const char *b)
{
    struct dirent **in_a, **in_b;
    int n = scandir(a, &in_a, NULL, alphasort), m = scandir(b, &in_b, NULL, alphasort);
    bool same = n == m && n > 2;
    for (int i = 0; i < n && same; i++) {
        char *x = folder_join(a, in_a[i]->d_name), *y = folder_join(b, in_a[i]->d_name);
        same = *in_a[i]->d_name == '.' || same_file(x, y);
        free(x), free(y);
    }
    return same;
}

/* Returns what is wrong with `out`, or NULL. before, after: the folder without the action and with a successful one;
 * code: exit code of this run. */
typedef const char *Check(const char *out, const char *before, const char *after, int code);

/* The folder `name` equals that of `before` or of `after`. */
static const char *one_of_both(const char *out, const char *before, const char *after, int code, const char *name)
{
    char *got = folder_join(out, name), *old = folder_join(before, name), *new = folder_join(after, name);
    const bool is_new = same_folder(got, new), is_old = file_named(old) ? same_folder(got, old) : !file_named(got);
    free(got), free(old), free(new);
    return code == 0 && !is_new ? "the result is incomplete"
         : !is_new && !is_old ? "neither the old result nor the new one" : NULL;
}

/* A file below `out` that is neither the one of before nor the one of a successful run, or NULL. Not looked at: files
 * under another name than their final one, and those that name a process or a time. */
static const char *unfinished(const char *out, const char *before, const char *after)
{
    static const char *const other[] = {"*.tmp", "*.del", "packing-*", "fault.*.json", "run.lock", "run.lock.*",
                                        "probe.*", "trainer_state.json"};
    static char named[256];
    const char *wrong = NULL;
    DIR *dir = opendir(out);
    for (struct dirent *d; dir && !wrong && (d = readdir(dir));) {
        bool skip = !strcmp(d->d_name, ".") || !strcmp(d->d_name, "..");
        for (size_t i = 0; i < sizeof other / sizeof *other; i++)
            skip = skip || !fnmatch(other[i], d->d_name, 0);
        if (skip)
            continue;
        char *x = folder_join(out, d->d_name), *old = folder_join(before, d->d_name);
        char *new = folder_join(after, d->d_name);
        if (folder_exists(x)) {
            wrong = unfinished(x, old, new);
        } else if (!same_file(x, old) && !same_file(x, new)) {
            snprintf(named, sizeof named, "%s is incomplete under its final name", d->d_name);
            wrong = named;
        }
        free(x), free(old), free(new);
    }
    if (dir)
        closedir(dir);
    return wrong;
}

static Check check_arrays, check_export, check_adapter, check_cache, check_rows, check_saved, check_resumed, check_lock,
             check_none;

static const char *check_export(const char *out, const char *before, const char *after, int code)
{
    return one_of_both(out, before, after, code, "model");
}

static const char *check_adapter(const char *out, const char *before, const char *after, int code)
{
    return one_of_both(out, before, after, code, "adapter");
}

static const char *check_cache(const char *out, const char *before, const char *after, int code)
{
    char *a = folder_join(out, ".dataset_cache"), *b = folder_join(after, ".dataset_cache");
    const char *wrong = code == 0 ? "no result" : NULL;
    (void)before;
    DIR *dir = opendir(a);
    for (struct dirent *d; dir && (d = readdir(dir));) {
        char *x = folder_join(a, d->d_name), *y = folder_join(b, d->d_name);
        if (*d->d_name != '.' && strncmp(d->d_name, "packing-", 8))
            wrong = same_folder(x, y) ? NULL : "the packed file is incomplete";
        free(x), free(y);
    }
    if (dir)
        closedir(dir);
    free(a), free(b);
    return wrong;
}

static const char *check_rows(const char *out, const char *before, const char *after, int code)
{
    char *x = folder_join(out, "rows.safetensors"), *old = folder_join(before, "rows.safetensors");
    char *new = folder_join(after, "rows.safetensors");
    const bool is_new = same_file(x, new), is_old = file_named(old) ? same_file(x, old) : !file_named(x);
    free(x), free(old), free(new);
    return code == 0 && !is_new ? "the result is incomplete"
         : !is_new && !is_old ? "neither the old result nor the new one" : NULL;
}

/* Each array under its final name is complete. */
static const char *check_arrays(const char *out, const char *before, const char *after, int code)
{
    static const char *const names[] = {"train_data.npy", "val_data.npy", "metadata.json", "tokenizer.json"};
    const char *wrong = NULL;
    (void)before;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *x = folder_join(out, names[i]), *y = folder_join(after, names[i]);
        if (file_named(x) ? !same_file(x, y) : code == 0)
            wrong = "an array is incomplete";
        free(x), free(y);
    }
    return wrong;
}

static const char *check_saved(const char *out, const char *before, const char *after, int code)
{
    int n;
    (void)before, (void)after, (void)code;
    int64_t *step = folder_steps(out, &n);
    const char *wrong = n < 0 ? "the run folder is gone" : NULL;
    for (int i = 0; i < n; i++) {
        char *folder = checkpoint_path(out, step[i]), *error = checkpoint_verify(folder);
        if (error)
            wrong = "a checkpoint is incomplete";
        free(folder), free(error);
    }
    free(step);
    return wrong;
}

static const char *check_resumed(const char *out, const char *before, const char *after, int code)
{
    char *first = folder_join(out, "checkpoint-1"), *second = folder_join(out, "checkpoint-2");
    (void)before, (void)after, (void)code;
    const bool both = folder_exists(first) && folder_exists(second);
    free(first), free(second);
    return both ? NULL : "a sound checkpoint was put aside";
}

static const char *check_lock(const char *out, const char *before, const char *after, int code)
{
    char *path = folder_join(out, "run.lock");
    (void)before, (void)after;
    const bool there = file_named(path);
    free(path);
    /* with EIO the removal itself may have failed */
    return code == 0 && there && injecting != EIO ? "it is not released" : NULL;
}

static const char *check_none(const char *out, const char *before, const char *after, int code)
{
    (void)out, (void)before, (void)after, (void)code;
    return NULL;
}

/* ---- cases ------------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    void (*before)(const char *out), (*act)(const char *out);
    Check *check;
    int code;                    /* exit code of a failed run */
    int calls;                   /* at least so many can fail with EMFILE */
} cases[] = {
    {"pack", NULL, pack_program, check_cache, EXIT_IO, 10},
    {"pack-again", pack_program, pack_program, check_cache, EXIT_IO, 5},
    {"pack-words", NULL, pack_words, check_cache, EXIT_IO, 10},
    {"prepare", NULL, prepare, check_arrays, EXIT_IO, 10},
    {"prepare-with", NULL, prepare_with, check_arrays, EXIT_IO, 10},
    {"gen-pack-words", NULL, pack_gen_words, check_rows, 1, 5},
    {"gen-pack", packed_before, pack_gen, check_rows, 1, 5},
    {"save", saved_before, save, check_saved, EXIT_IO, 20},
    {"resume", saved_before, resume, check_resumed, EXIT_IO, 10},
    {"export", NULL, export, check_export, EXIT_IO, 5},
    {"export-again", exported_before, export, check_export, EXIT_IO, 5},
    {"adapter", adapter_before, adapter, check_adapter, EXIT_IO, 5},
    {"load", NULL, load, check_none, EXIT_IO, 2},
    {"load-adapter", NULL, load_adapter, check_none, EXIT_IO, 4},
    {"lock", NULL, lock, check_lock, EXIT_IO, 3},
    {"lock-stale", locked_before, lock, check_lock, EXIT_IO, 3},
};
enum { CASES = sizeof cases / sizeof *cases };

/* ---- a run ------------------------------------------------------------------------------------- */

static void remove_tree(const char *path)
{
    struct dirent **entry;
    int n = scandir(path, &entry, NULL, NULL);
    for (int i = 0; i < n; i++) {
        struct stat s;
        char *inner = folder_join(path, entry[i]->d_name);
        if (strcmp(entry[i]->d_name, ".") && strcmp(entry[i]->d_name, "..") && lstat(inner, &s) == 0) {
            if (S_ISDIR(s.st_mode))
                remove_tree(inner);
            else
                unlink(inner);
        }
        free(inner), free(entry[i]);
    }
    if (n >= 0)
        free(entry);
    rmdir(path);
}

/* Runs `act` in a child, standard error to the file `said`. Returns the wait status. */
static int run(void (*act)(const char *out), const char *out, const char *said, int n, int why, bool on)
{
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
        static char *argv[] = {"errors", NULL};
        const int fd = open(said, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        dup2(fd, 2), close(fd);
        close(0);
        open("/dev/null", O_RDONLY);
        failure_of(1, argv, out, NULL);
        stop_faults(out, 0);
        injecting = why;
        inject(n, why, on);
        act(out);
        inject(0, 0, false);
        exit(0);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    return status;
}

static void copy_tree(const char *from, const char *to)
{
    struct dirent **entry;
    const int n = scandir(from, &entry, NULL, NULL);
    mkdir(to, 0777);
    for (int i = 0; i < n; i++) {
        char *x = folder_join(from, entry[i]->d_name), *y = folder_join(to, entry[i]->d_name), *error = NULL;
        const bool inner = strcmp(entry[i]->d_name, ".") && strcmp(entry[i]->d_name, "..");
        size_t bytes;
        char *data = inner && !folder_exists(x) ? file_read(x, 1 << 28, &bytes, &error) : NULL;
        const int fd = data ? open(y, O_WRONLY | O_CREAT | O_TRUNC, 0666) : -1;
        if (inner && !data)
            copy_tree(x, y);
        else if (data && !(file_write(fd, data, bytes) && close(fd) == 0))
            exit(1);
        free(data), free(error), free(x), free(y), free(entry[i]);
    }
    free(entry);
}

/* Returns the fault in the output of a failed run; NULL: none. */
static const char *wrong_words(const char *text, int code, int why)
{
    const char *fault = strstr(text, code == 1 ? "/" : "rank 0 ("), *errno_text = strerror(why);
    const char *remedy = error_remedy(format("x: %s", errno_text));
    if (!fault)
        return "no message";
    char *line = format("%.*s", (int)strcspn(fault, "\n"), fault);
    if (code != 1 && strstr(fault + 1, "rank 0 ("))
        return "more than one message";
    if (!strstr(line, errno_text))
        return "the message does not name the errno";
    if (!strchr(line, '/'))
        return "the message names no file";
    if (!remedy || !strstr(text, remedy))
        return "no advice that fits the errno";
    for (; *text; text++)
        if ((*text < ' ' && *text != '\n') || *text == 127)
            return "control characters in the output";
    free(line);
    return NULL;
}

/* Prints one line: the injected failure, what is wrong, the output. */
static void report(const char *name, int n, int why, bool on, const char *wrong, const char *text)
{
    static char line[600];
    size_t at = 0;
    for (; *text && at < sizeof line - 1; text++)
        line[at++] = *text == '\n' ? '|' : *text;
    line[at] = 0;
    printf("not ok checkpoint/errors-%s: %s at call %d, %s%s: %s: %s\n", name,
           why == INJECT_SHORT ? "a short write" : strerror(why), n, injected->name, on ? " and all after it" : "",
           wrong, line);
}

/* A fault file is JSON with the message of the run. */
static const char *wrong_fault(const char *out, const char *text)
{
    char *path = folder_join(out, "fault.0.0.json"), *error = NULL;
    const bool there = file_named(path);
    free(path);
    cJSON *fault = there ? folder_read_nofollow(out, "fault.0.0.json", 1 << 20, &error) : NULL;
    const char *what = cJSON_GetStringValue(json_get(fault, "what"));
    const char *wrong = there && (!what || !strstr(text, what)) ? "the fault file differs from the message" : NULL;
    cJSON_Delete(fault);
    free(error);
    return wrong;
}

/* A run whose n-th call fails. Returns whether it passed. */
static bool one_call(int c, int n, int why, bool on, const char *before, const char *after)
{
    char *out = format("%s/out", scratch), *said = format("%s/said", scratch), *error = NULL;
    size_t bytes;
    remove_tree(out);
    copy_tree(before, out);
    const int status = run(cases[c].act, out, said, n, why, on);
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    char *text = file_read(said, 1 << 20, &bytes, &error);
    const char *wrong = NULL;
    if (!text || strlen(text) != bytes || strstr(text, "Sanitizer") || strstr(text, "runtime error"))
        wrong = "sanitizer report, or no output";
    else if (code != 0 && code != cases[c].code)
        wrong = "unexpected exit code";
    else if (code != 0 && (why == EINTR || why == INJECT_SHORT))
        wrong = "must succeed";
    else if (code != 0)
        wrong = wrong_words(text, code, why);
    injecting = why;
    if (!wrong)
        wrong = cases[c].check(out, before, after, code);
    if (!wrong)
        wrong = unfinished(out, before, after);
    if (!wrong && code == EXIT_IO)
        wrong = wrong_fault(out, text);
    if (wrong)
        report(cases[c].name, n, why, on, wrong, text ? text : "?");
    free(text), free(error), free(out), free(said);
    return !wrong;
}

/* All runs of a case with one failure mode. Returns the number that did not pass. */
static int all_calls(int c, int why, bool on, int most, const char *before, const char *after)
{
    int failures = !one_call(c, INT_MAX, why, on, before, after);
    const int calls = injected->calls, runs = most && most < calls ? most : calls;
    for (int i = 0; i < runs && failures < 5; i++)
        failures += !one_call(c, 1 + (int)((int64_t)i * calls / runs), why, on, before, after);
    if (why == EMFILE && calls < cases[c].calls) {
        printf("not ok checkpoint/errors-%s: only %d calls open something: no test\n", cases[c].name, calls);
        failures++;
    }
    return failures;
}

static bool test_case(int c, int most)
{
    static const struct { int why; bool on; } ways[] = {
        {EMFILE, true}, {EMFILE, false}, {ENOSPC, true}, {ENOSPC, false}, {EIO, true}, {EIO, false},
        {EINTR, false}, {INJECT_SHORT, true}, {INJECT_SHORT, false}};
    char *before = format("%s/%s-before", scratch, cases[c].name);
    char *after = format("%s/%s-after", scratch, cases[c].name), *said = format("%s/said", scratch);
    int failures = 0;
    mkdir(before, 0777);
    if (cases[c].before)
        failures += run(cases[c].before, before, said, 0, 0, false) != 0;
    copy_tree(before, after);
    failures += run(cases[c].act, after, said, 0, 0, false) != 0;
    if (failures)
        printf("not ok checkpoint/errors-%s: fails by itself\n", cases[c].name);
    for (size_t i = 0; i < sizeof ways / sizeof *ways && !failures; i++)
        failures += all_calls(c, ways[i].why, ways[i].on, most, before, after);
    if (!failures)
        printf("ok checkpoint/errors-%s\n", cases[c].name);
    return failures == 0;
}

int main(int argc, char **argv)
{
    bool good = true;
    if (argc < 3)
        return 2;
    scratch = argv[1];
    injected = mmap(NULL, sizeof *injected, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    gethostname(world.host, sizeof world.host - 1);
    size_t n;
    char *error = NULL;
    llama_json = file_read(REF "llama_tiny/model/config.json", 1 << 20, &n, &error);
    qwen2_json = file_read(REF "qwen2_lora/model/config.json", 1 << 20, &n, &error);
    raw = format("%s/raw", scratch);
    mkdir(raw, 0777);
    text_into(raw, "a.jsonl", "{\"prompt\": \"one \", \"completion\": \"two\"}\n"
                              "{\"prompt\": \"a \", \"completion\": \"b\"}\n");
    text_into(raw, "b.jsonl", "{\"prompt\": \"three \", \"completion\": \"four\"}\n");
    novel = format("%s/text.txt", scratch);
    text_into(scratch, "text.txt", "a bad cab had a bag, and a dad fed a bee. "
                                   "a fab cab, a bad dad, and a bag had a bee. "
                                   "a bad bag had a bee, and a fed dad had a cab. a dad had a fab bag, and a cab. ");
    char *made = format("%s/vocabulary", scratch), *said = format("%s/said", scratch);
    mkdir(made, 0777);
    if (run(prepare, made, said, 0, 0, false))
        printf("not ok checkpoint/errors: no vocabulary is made\n"), good = false;
    vocabulary = folder_join(made, "tokenizer.json");
    for (int c = 0; c < CASES; c++)
        if (argc < 4 || !strcmp(argv[3], cases[c].name))
            good = test_case(c, atoi(argv[2])) && good;
    return !good;
}
