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
    const char *value = row->value + (*row->value == '=');
    bool kept = *row->value != '=' && strspn(value, "0123456789") > 0;
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
    if (row->kind == FOREIGN_LINE) {
        char *flag = format("%s", row->ours);
        for (char *c = flag; *c; c++)
            *c = *c == '_' ? '-' : *c;
        want = format("write --%s %s (", flag, value);
    } else if (row->kind == FOREIGN_RECIPE)
        want = format("gen recipes/x.lua gpus=2 %s=%s", row->ours, value);
    else if (row->kind == FOREIGN_NONE)
        want = format("--%s: not supported: %s", row->name, row->note);
    int code = refused(text, &name, 1);
    must(code == EXIT_CONFIG && strstr(text, want) && strchr(text, '\n') == text + strlen(text) - 1,
          format("foreign %s: what to do", name), "code %d, want \"%s\": %s", code, want, text);
    if (row->kind != FOREIGN_RECIPE || !kept)
        return;
    refused(text, (char *[]){ name, "7" }, 2);
    must(strstr(text, format(" %s=7", row->ours)), format("foreign %s 7: the line to type", name),
          "%s", text);
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
    check(before == failures && aliases > 100, "foreign names", "%d of %d are aliases", aliases,
          foreign_rows);
    check(foreign_find("Learning-Rate") == foreign_find("learning_rate"), "names without case", "-");
    check(names_distance("abcd", "abdc") == 1 && names_distance("lr", "--lrr") == 3
          && names_distance("", "ab") == 2, "distance of names", "%d", names_distance("ab", "ba"));
    check(strcmp(foreign_word("precision", "No"), "fp32") == 0
          && strcmp(foreign_word("precision", "bf16"), "bf16") == 0, "words of values", "-");
}
