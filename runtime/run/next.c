/* next.c -- what to do with a finished run, or with one that went wrong.
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

void next_say(const Model *m, const Checkpoints *c, const Best *b, const char *program,
              int64_t step)
{
    char *last = checkpoint_path(c->out, step), *command = command_word(program),
         *out = quoted(c->out), *tokenizer = tokenizer_words(c->flags->tokenizer, last, c->source);
    note("the weights are in %s", last);
    if (isfinite(b->kept.value) && b->kept.step != step) {
        char *best = checkpoint_path(c->out, b->kept.step), *path = quoted(best);
        note("the best are in %s, validation %s %.4f: add --resume %s to use them", best,
             b->of->eval[b->of->decides].name, b->kept.value, path);
        free(best), free(path);
    }
    if (flags_has(FLAG_sample))
        note("  sample  %s --out %s%s --sample \"A text\"", command, out, tokenizer);
    if (m->nmerges) {
        note("  export  %s --out %s --export %s-adapter     a PEFT adapter folder", command, out,
             out);
        note("  merge   %s --out %s --merge-lora %s-merged  base and adapter as one model", command,
             out, out);
    } else {
        note("  export  %s --out %s --export %s-model       a Hugging Face folder", command, out,
             out);
    }
    free(last), free(command), free(out), free(tokenizer);
}
