/* hints.c -- commands after a finished run, by the rows FINISHED of hints.def.
 *
 * Keeps: the commands work when pasted into a shell in the current folder. */
#define _GNU_SOURCE
#include "runtime/run/hints.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/files/folder.h"
#include "runtime/files/json.h"
#include "runtime/files/names.h"
#include "runtime/objectives/owners.h"
#include "runtime/run/failure.h"

char *hint_nonfinite(const Log *l, const char *out)
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
                      "older: start over with %s", loss, step, lower);
    char *path = checkpoint_path(out, from), *word = shell_word(path),
         *text = format("the loss was %.4g at step %" PRId64 " and rose after it; resume from the "
                        "checkpoint before: --resume %s, with %s", loss, step, word, lower);
    free(path), free(word);
    return text;
}

char *hint_checkpoint(const char *out)
{
    int n;
    int64_t *list = folder_steps(out, &n);
    char *path = n > 0 ? checkpoint_path(out, list[n - 1]) : NULL,
         *text = path ? format("the last checkpoint is %s; ", path)
                      : format("there is no checkpoint yet; ");
    free(list), free(path);
    return text;
}

/* ---- a finished run -------------------------------------------------------------------------- */

/* True if a known chat template is next to the tokenizer.json of one of the folders, or next to the
 * file given. */
static bool has_chat(const char *named, const char *last, const char *source)
{
    const char *slash = strrchr(named, '/');
    char *folder = format("%.*s", slash ? (int)(slash - named) : 0, named);
    const char *in[] = {last, source, *folder ? folder : NULL};
    bool found = false;
    for (int i = 0; i < 3 && !found; i++) {
        char *error = NULL, *jinja = folder_join(in[i] ? in[i] : "", "chat_template.jinja");
        size_t n;
        char *path = folder_join(in[i] ? in[i] : "", "tokenizer_config.json"),
             *text = in[i] && file_named(path) ? file_read(path, 1 << 24, &n, &error) : NULL;
        found = in[i] && (file_named(jinja) || (text && strstr(text, "\"chat_template\"")));
        free(error), free(jinja), free(path), free(text);
    }
    free(folder);
    return found;
}

static bool suits(const Model *m, const Checkpoints *c, const char *last, const char *needs)
{
    const size_t n = strlen(needs);
    if (!strncmp(needs, "--", 2)) {
        const int flag = flags_find(needs + 2);
        return flag >= 0 && flags_has(flag);
    }
    if (n && needs[n - 1] == '/') {
        char *path = format("%s/%.*s", c->out, (int)n - 1, needs);
        const bool there = folder_exists(path);
        free(path);
        return there;
    }
    return !n || (!strcmp(needs, "chat") ? has_chat(c->flags->tokenizer, last, c->source)
                                         : (m->nmerges > 0) == !strcmp(needs, "adapter"));
}

void hints_print(const Model *m, const Checkpoints *c, const Best *b, int64_t step,
                 const char *tokenizer)
{
    static const struct { int owners; const char *needs, *what, *command, *about; } rows[] = {
#define FINISHED(owners, ...) {OWNERS(owners), __VA_ARGS__},
#include "runtime/run/hints.def"
    };
    char *last = checkpoint_path(c->out, step);
    FailureHole hole[] = {{"program", failure_program()}, {"out", shell_word(c->out)},
                   {"tokenizer", format("%s", tokenizer)}};
    note("the weights are in %s", last);
    if (isfinite(b->saved.value) && b->saved.step != step) {
        char *best = checkpoint_path(c->out, b->saved.step), *path = shell_word(best),
             *text = best_text(b, &b->saved);
        if (best_is_saved(b, c->out))
            note("the best are in %s, %s: add --resume %s to use them", best, text, path);
        else
            note("the best, %s, were in %s, which was removed", text, best);
        free(best), free(path), free(text);
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!owners_include(rows[i].owners, m->objective) || !suits(m, c, last, rows[i].needs))
            continue;
        char *line = failure_filled(rows[i].command, hole, sizeof hole / sizeof *hole);
        note("  %-7s %s%s%s", rows[i].what, line, *rows[i].about ? "     " : "", rows[i].about);
        free(line);
    }
    for (size_t i = 0; i < sizeof hole / sizeof *hole; i++)
        free(hole[i].text);
    free(last);
}
