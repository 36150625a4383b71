/* next.c -- what to do with a finished run, or with one that went wrong: the rows of next.def.
 *
 * Keeps: the commands work when they are pasted into a shell in the folder of now. */
#define _GNU_SOURCE
#include "runtime/run/next.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base.h"
#include "runtime/data/vocabulary.h"
#include "runtime/files/folder.h"
#include "runtime/files/json.h"
#include "runtime/files/names.h"

/* A word for a shell; malloc'ed. */
static char *quoted(const char *word)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                "_./-+=:,@%";
    if (*word && strspn(word, plain) == strlen(word))
        return format("%s", word);
    char *text = format("'");
    for (; *word; word++) {
        char *longer = *word == '\'' ? format("%s'\\''", text) : format("%s%c", text, *word);
        free(text);
        text = longer;
    }
    char *all = format("%s'", text);
    free(text);
    return all;
}

/* run.sh beside the program, or the program; from the folder of now when it is below that. */
static char *command_word(const char *program)
{
    char here[4096];
    const char *slash = strrchr(program, '/');
    char *script = slash ? format("%.*s/run.sh", (int)(slash - program), program) : NULL;
    const char *path = script && access(script, X_OK) == 0 ? script : program;
    size_t n = getcwd(here, sizeof here) ? strlen(here) : 0;
    if (n > 1 && !strncmp(path, here, n) && path[n] == '/')
        path += n + 1;
    char *word = quoted(path);
    free(script);
    return word;
}

/* --tokenizer FILE, where sampling will want it; malloc'ed. */
static char *tokenizer_words(const char *named, const char *last, const char *source)
{
    const char *folder[] = {last, source};
    char *file = NULL, *id = NULL;
    for (int i = 0; i < 2 && !id; i++)
        if (vocabulary_of(folder[i], &file, &id) && !*named && !file && strcmp(id, "bytes"))
            named = "FILE";      /* of this id; where it lies is not known here */
    char *word = quoted(named), *words = *named ? format(" --tokenizer %s", word) : format("%s", "");
    free(file), free(id), free(word);
    return words;
}

char *next_after_rise(const Log *l, const char *out)
{
    static const char *const lower = "a lower --lr or more --warmup";
    double loss;
    int n;
    int64_t step = log_before_rise(l, &loss), from = -1;
    int64_t *list = folder_steps(out, &n);
    for (int i = 0; i < n; i++)
        from = list[i] <= step ? list[i] : from;
    free(list);
    if (step < 0)
        return format("try %s", lower);
    if (from < 0)
        return format("the loss was %.4g at step %" PRId64 " and rose after it; no checkpoint is "
                      "from before: start anew with %s", loss, step, lower);
    return format("the loss was %.4g at step %" PRId64 " and rose after it; the checkpoint before: "
                  "--resume %s/checkpoint-%" PRId64 ", with %s", loss, step, out, from,
                  lower);
}

/* ---- the rows' words --------------------------------------------------------------------------- */

/* How the program was started. */
static int words;
static char **word;
static const char *folder;       /* the run folder; NULL: not known yet */
static void (*hook_before)(int code);

typedef struct {
    const char *name;
    char *text;                  /* malloc'ed */
} Hole;

/* A line with its holes filled; malloc'ed. */
static char *filled(const char *line, const Hole *hole, int n)
{
    char *text = format("%s", "");
    while (*line) {
        const size_t plain = strcspn(line, "{");
        const char *put = "";
        size_t taken = plain;
        for (int i = 0; i < n && line[plain]; i++)
            if (!strncmp(line + plain + 1, hole[i].name, strlen(hole[i].name)) &&
                line[plain + 1 + strlen(hole[i].name)] == '}') {
                put = hole[i].text;
                taken = plain + strlen(hole[i].name) + 2;
            }
        if (taken == plain && line[plain])
            taken = plain + 1;   /* a brace that is none */
        char *longer = format("%s%.*s%s", text, (int)plain, line, put);
        free(text);
        text = longer;
        line += taken;
    }
    return text;
}

/* The command once more, without --force and --resume, which would begin anew, and without `but`; malloc'ed. */
static char *again(const char *but)
{
    char *text = command_word(word[0]);
    for (int i = 1; i < words; i++) {
        const size_t n = strcspn(word[i], "=");
        if (!strcmp(word[i], "--force") || !strcmp(word[i], but))
            continue;
        if (n == 8 && !strncmp(word[i], "--resume", n)) {
            i += !word[i][n];
            continue;
        }
        char *one = quoted(word[i]), *longer = format("%s %s", text, one);
        free(one), free(text);
        text = longer;
    }
    return text;
}

/* What {again} does. */
static char *goes_on(void)
{
    int n = 0;
    int64_t *list = folder ? folder_steps(folder, &n) : NULL;
    char *text = n > 0 ? format("goes on from checkpoint-%" PRId64, list[n - 1])
                       : format("begins anew: there is no checkpoint");
    free(list);
    return text;
}

/* ---- a failure --------------------------------------------------------------------------------- */

static void say_failure(int code)
{
    static const struct { int code; const char *line; } rows[] = {
#define FAILED(code, line) {EXIT_##code, line},
#include "runtime/run/next.def"
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (rows[i].code != code)
            continue;
        Hole hole[] = {{"program", command_word(word[0])}, {"again", again("")}, {"on", goes_on()},
                       {"out", quoted(folder ? folder : "OUT")}};
        char *line = filled(rows[i].line, hole, sizeof hole / sizeof *hole);
        if (world.rank == 0)
            note("next: %s", line);
        else
            fprintf(stderr, "next: %s\n", line);
        free(line);
        for (size_t k = 0; k < sizeof hole / sizeof *hole; k++)
            free(hole[k].text);
    }
    if (hook_before)
        hook_before(code);
}

void next_of(int argc, char **argv, const char *out)
{
    words = argc, word = argv, folder = out;
    if (die_hook != say_failure)
        hook_before = die_hook;
    die_hook = say_failure;
}

void next_again(const char *but, const char *about)
{
    char *command = again(but);
    note("next: %s %s", command, about);
    free(command);
}

/* ---- a finished run ---------------------------------------------------------------------------- */

/* A chat template that is known lies beside a tokenizer.json in one of the folders, or beside the one named. */
static bool has_chat(const char *named, const char *last, const char *source)
{
    const char *slash = strrchr(named, '/');
    char *beside = format("%.*s", slash ? (int)(slash - named) : 0, named);
    const char *in[] = {last, source, *beside ? beside : NULL};
    bool found = false;
    for (int i = 0; i < 3 && !found; i++) {
        char *error = NULL, *jinja = folder_join(in[i] ? in[i] : "", "chat_template.jinja");
        size_t n;
        char *path = folder_join(in[i] ? in[i] : "", "tokenizer_config.json"),
             *text = in[i] && file_named(path) ? file_read(path, 1 << 24, &n, &error) : NULL;
        found = in[i] && (file_named(jinja) || (text && strstr(text, "\"chat_template\"")));
        free(error), free(jinja), free(path), free(text);
    }
    free(beside);
    return found;
}

static bool suits(const Model *m, const Checkpoints *c, const char *last, const char *wants)
{
    const size_t n = strlen(wants);
    if (!strncmp(wants, "--", 2)) {
        const int flag = flags_find(wants + 2);
        return flag >= 0 && flags_has(flag);
    }
    if (n && wants[n - 1] == '/') {
        char *path = format("%s/%.*s", c->out, (int)n - 1, wants);
        const bool there = folder_exists(path);
        free(path);
        return there;
    }
    return !n || (!strcmp(wants, "chat") ? has_chat(c->flags->tokenizer, last, c->source)
                                         : (m->nmerges > 0) == !strcmp(wants, "adapter"));
}

void next_say(const Model *m, const Checkpoints *c, const Best *b, int64_t step)
{
    static const struct { const char *objectives, *wants, *what, *command, *about; } rows[] = {
#define NEXT(...) {__VA_ARGS__},
#include "runtime/run/next.def"
    };
    char *last = checkpoint_path(c->out, step);
    Hole hole[] = {{"program", command_word(word[0])}, {"out", quoted(c->out)},
                   {"tokenizer", tokenizer_words(c->flags->tokenizer, last, c->source)}};
    note("the weights are in %s", last);
    if (isfinite(b->kept.value) && b->kept.step != step) {
        char *best = checkpoint_path(c->out, b->kept.step), *path = quoted(best);
        note("the best are in %s, validation %s %.4f: add --resume %s to use them", best,
             b->of->eval[b->of->decides].name, b->kept.value, path);
        free(best), free(path);
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if ((*rows[i].objectives && !names_listed(rows[i].objectives, m->objective)) ||
            !suits(m, c, last, rows[i].wants))
            continue;
        char *line = filled(rows[i].command, hole, sizeof hole / sizeof *hole);
        note("  %-7s %s%s%s", rows[i].what, line, *rows[i].about ? "     " : "", rows[i].about);
        free(line);
    }
    for (size_t i = 0; i < sizeof hole / sizeof *hole; i++)
        free(hole[i].text);
    free(last);
}
