/* unit_names.c -- every row of foreign.def as a word of a program's command line. */
#define _GNU_SOURCE
#include "unit.h"
#include "../../runtime/base.h"
#include "../../runtime/run/flags.h"
#include "../../runtime/files/names.h"
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORDS = 6, LINE = 4000 };

/* Parses the words in a process of its own; its line goes to text. Returns the exit code. */
static int refused(char text[LINE], char **words, int n)
{
    int ends[2], status = -1;
    char *argv[WORDS + 1] = { (char[]){ "train" } };
    memcpy(argv + 1, words, (size_t)n * sizeof *words);
    fflush(stdout);
    if (pipe(ends) != 0)
        return -1;
    pid_t child = fork();
    if (child == 0) {
        Flags f;
        dup2(ends[1], 2);
        flags_parse(&f, "recipes/x.lua gpus=2", NULL, n + 1, argv);
        _exit(0);
    }
    close(ends[1]);
    size_t got = 0;
    for (ssize_t k; got < LINE - 1 && (k = read(ends[0], text + got, LINE - 1 - got)) > 0;)
        got += (size_t)k;
    text[got] = '\0';
    close(ends[0]);
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* A line for what is wrong only: rows are many. */
#define must(good, ...) \
    do { \
        if (!(good)) \
            check(false, __VA_ARGS__); \
    } while (0)

/* Two values that flag k takes and that differ. */
static void two_values(int k, char **one, char **other)
{
    static char *const pairs[][2] = {
        { "3", "4" },     { "0.25", "0.5" }, { "cosine", "linear" },
        { "true", "false" }, { "text", "imdb" }, { "random", "low_confidence" } };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        Flags f = { 0 };
        char *a = flags_set(&f, k, pairs[i][0]), *b = flags_set(&f, k, pairs[i][1]);
        bool good = !a && !b;
        free(a), free(b);
        if (good) {
            *one = pairs[i][0];
            *other = pairs[i][1];
            return;
        }
    }
}

static void alias(const Foreign *row)
{
    int k = flags_find(row->ours);
    char *one = NULL, *other = NULL, text[LINE];
    must(k >= 0 && flags_find(row->name) < 0, format("foreign %s: a flag of ours", row->name), "%s",
          row->ours);
    if (k < 0)
        return;
    two_values(k, &one, &other);
    char *theirs = format("--%s", row->name), *ours = format("--%s", row->ours);
    for (char *c = theirs; *c; c++)
        *c = *c == '_' ? '-' : *c;
    Flags a, b, c;
    flags_parse(&a, "x", NULL, 3, (char *[]){ "train", theirs, one });
    flags_parse(&b, "x", NULL, 2, (char *[]){ "train", format("--%s=%s", row->name, one) });
    flags_parse(&c, "x", NULL, 5, (char *[]){ "train", ours, one, theirs, one });
    char *want = format("%s", flags_text(&c, k));
    bool same = a.given[k] && b.given[k] && strcmp(flags_text(&a, k), want) == 0
                && strcmp(flags_text(&b, k), want) == 0;
    must(same, format("foreign %s sets --%s", theirs, row->ours), "%s, %s", flags_text(&a, k),
          flags_text(&b, k));
    int code = refused(text, (char *[]){ ours, one, theirs, other }, 4);
    must(code == EXIT_CONFIG && strstr(text, "are the same flag"),
          format("foreign %s against --%s", theirs, row->ours), "code %d: %s", code, text);
}

/* Kinds that end the program, with the value 7 beside the name and with none. */
static void hint(const Foreign *row)
{
    char text[LINE], *name = format("--%s", row->name), *want = format("%s", row->note);
    const char *value = foreign_value(row, NULL);
    bool kept = row->kind == FOREIGN_RECIPE && strspn(value, "0123456789") > 0;
    bool of_flag = row->kind == FOREIGN_LINE || (row->kind == FOREIGN_MEANS && flags_find(row->ours) >= 0);
    if (row->kind == FOREIGN_ALWAYS) {
        bool yes = !strcmp(row->value, "true");
        Flags f, bare;
        flags_parse(&f, "x", NULL, 5, (char *[]){ "train", name, (char *)(yes ? "true" : "False"), "--lr", "0.5" });
        if (yes)
            flags_parse(&bare, "x", NULL, 4, (char *[]){ "train", name, "--lr", "0.5" });
        must(f.lr == 0.5 && (!yes || bare.lr == 0.5), format("foreign %s: what always holds", name), "%g", f.lr);
        int code = refused(text, (char *[]){ name, yes ? "false" : "true" }, 2);
        must(code == EXIT_CONFIG && strstr(text, row->note), format("foreign %s: what never holds", name),
             "code %d: %s", code, text);
        return;
    }
    if (of_flag) {
        char *flag = format("%s", row->ours);
        for (char *c = flag; *c; c++)
            *c = *c == '_' ? '-' : *c;
        want = format("write --%s %s (", flag, value);
    } else if (row->kind == FOREIGN_RECIPE || row->kind == FOREIGN_MEANS)
        want = format("gen recipes/x.lua gpus=2 %s=%s", row->ours, value);
    else if (row->kind == FOREIGN_NONE)
        want = format("--%s: not supported: %s", row->name, row->note);
    int code = refused(text, &name, 1);
    must(code == EXIT_CONFIG && strstr(text, want) && strchr(text, '\n') == text + strlen(text) - 1,
          format("foreign %s: what to do", name), "code %d, want \"%s\": %s", code, want, text);
    if (!kept)
        return;
    refused(text, (char *[]){ name, "7" }, 2);
    must(strstr(text, format(" %s=7", row->ours)), format("foreign %s 7: the line to type", name),
          "%s", text);
}

/* A value of theirs becomes ours, whatever the row says for others; what is off is to be left out. */
static void values(void)
{
    static const struct { const char *name, *given, *says; } row[] = {
        { "--finetuning_type", "full", "lora.rank=0" },
        { "--finetuning_type", "lora", "lora.rank=N" },
        { "--bf16", "yes", "precision=bf16" },
        { "--bf16", "false", "leave it out" },
        { "--fp16", "true", "precision=fp16" },
        { "--dtype", "float16", "precision=fp16" },
        { "--save_strategy", "no", "write --save-every 0" },
        { "--save_strategy", "steps", "write --save-every N" },
        { "--eval_strategy", "epoch", "write --eval-every epoch" },
        { "--val_set_size", "0.05", "write --eval-share 0.05" },
        { "--val_set_size", "200", "write --eval-share 0.1 (below 1" },
        { "--do_sample", "true", "leave it out; it is so unless --temperature" },
        { "--decay_lr", "False", "write --schedule constant" },
        { "--apply_lora_to_mlp", "true", "lora.targets=gate_proj,up_proj,down_proj" },
        { "--distributed_type", "MULTI_GPU", "gpus=N" },
        { "--num_processes", "8", "gpus=8" },
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char text[LINE];
        int code = refused(text, (char *[]){ (char *)row[i].name, (char *)row[i].given }, 2);
        must(code == EXIT_CONFIG && strstr(text, row[i].says), format("foreign %s %s", row[i].name, row[i].given),
             "want \"%s\": %s", row[i].says, text);
    }
}

void test_names(void)
{
    int before = failures, aliases = 0;
    for (int i = 0; i < foreign_rows; i++) {
        must(foreign_find(foreign_row[i].name) == &foreign_row[i],
              format("foreign %s: one row", foreign_row[i].name), "there are two");
        if (foreign_row[i].kind == FOREIGN_ALIAS)
            alias(&foreign_row[i]), aliases++;
        else
            hint(&foreign_row[i]);
    }
    values();
    check(before == failures && aliases > 100, "foreign names", "%d of %d are aliases", aliases,
          foreign_rows);
    check(foreign_find("Learning-Rate") == foreign_find("learning_rate"), "names without case", "-");
    check(names_distance("abcd", "abdc") == 1 && names_distance("lr", "--lrr") == 3
          && names_distance("", "ab") == 2, "distance of names", "%d", names_distance("ab", "ba"));
    check(strcmp(foreign_word("precision", "No"), "fp32") == 0
          && strcmp(foreign_word("precision", "bf16"), "bf16") == 0, "words of values", "-");
}
