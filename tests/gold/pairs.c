/* pairs.c -- settings files of two keys that mean the same field or flag: every pair of names and values, both orders.
 *
 * Verdict: both orders give the same recipe and name the same keys, or give the same error; two explicit values are
 *          taken if they are one, else they are an error that names both words, both values and both lines.
 * Method:  util.c is included so that an error comes back here; a process for each field gives its memory back. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static jmp_buf refused;
#define exit(code) longjmp(refused, 1)
#include "../../gen/util.c"
#undef exit

#include "gen/config/config.h"
#include "gen/config/settings.h"

enum { NAMES = 200, TEXT = 1 << 16 };

typedef struct {
    const char *name, *value;
    bool plain;                  /* the name stands for the field, and no row speaks of the value */
} Word;

static char said[TEXT];

static void listen(int n, const Loc *loc, const char *const *text, int status)
{
    (void)loc, (void)status;
    said[0] = 0;
    for (int i = 0; i < n; i++)
        snprintf(said + strlen(said), sizeof said - strlen(said), "%s\n", text[i]);
}

static const char *answer(const char *yaml)
{
    nmistakes = 0;
    telling = false;
    if (!setjmp(refused))
        settings_file("x.yml", "YAML", yaml, strlen(yaml));
    return text_copy(said);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Its words in order, without lines; the recipe by itself before them. */
static const char *without_order(const char *text)
{
    static char *word[TEXT];
    const char *from = strstr(text, "return {"), *end = from ? strstr(from, "\n    }") : NULL;
    Str s = {0};
    size_t n = 0;
    str_print(&s, "%.*s\n", from ? (int)(end - from) : 0, from ? from : "");
    char *copy = text_copy(text), *save = NULL;
    for (char *p = strtok_r(copy, " ,\n():", &save); p; p = strtok_r(NULL, " ,\n():", &save))
        if (strcmp(p, "line") && p[strspn(p, "0123456789")])
            word[n++] = p;
    qsort(word, n, sizeof *word, by_text);
    for (size_t i = 0; i < n; i++)
        str_print(&s, " %s", word[i]);
    return s.text;
}

/* "objective: dpo\n" where only recipes of that objective have the field. */
static const char *before(int at)
{
    const char *owners = at < NFIELDS ? field_objectives(at) : run_flag_objectives(at - NFIELDS);
    return owners && at != F_objective ? text_print("objective: %.*s\n", (int)strcspn(owners, "|"), owners) : "";
}

static const char *file_of(int at, const Word *a, const Word *b)
{
    return text_print("%s%s: %s\n%s%s%s%s", before(at), a->name, a->value, b ? b->name : "", b ? ": " : "",
                      b ? b->value : "", b ? "\n" : "");
}

static bool is_carried(int at, const Word *w)
{
    const char *text = answer(file_of(at, w, NULL)), *rest = strstr(text, "not carried over:");
    return strstr(text, "return {") && !strstr(rest, text_print("\n    %s:", w->name));
}

static bool has_meaning(const char *name, const char *value)
{
    for (int i = 0; i < alias_meanings; i++)
        if (alias_meant(&alias_meaning[i], name, value))
            return true;
    return false;
}

/* Up to two values that the name itself carries over. */
static int plain_values(int at, const char *name, Word *to)
{
    static const char *const tried[] = {"0.25", "0.125", "2", "3", "true", "false", "a/b", "c/d"};
    const char *words = at < NFIELDS ? field_choices(at) : run_flag[at - NFIELDS].value;
    int n = 0;
    for (size_t i = 0; n < 2 && i < sizeof tried / sizeof *tried; i++) {
        to[n] = (Word){name, tried[i], true};
        n += !has_meaning(name, tried[i]) && is_carried(at, &to[n]);
    }
    for (size_t k; words && n < 2 && *words; words += k + (words[k] == '|')) {
        k = strcspn(words, "|");
        to[n] = (Word){name, text_print("%.*s", (int)k, words), true};
        n += k && !has_meaning(name, to[n].value) && is_carried(at, &to[n]);
    }
    return n;
}

/* All names and values that set a field or flag. */
static int words_of(int at, Word *to)
{
    const char *ours = at < NFIELDS ? field_row[at].path : run_flag[at - NFIELDS].name;
    int n = 0;
    for (int i = 0; i < alias_rows && n < NAMES - 2; i++)
        if (!strcmp(alias_row[i].ours, ours) && alias_row[i].kind != ALIAS_MEANS)
            n += plain_values(at, alias_row[i].name, to + n);
    for (int i = 0; i < alias_meanings && n < NAMES - 2; i++)
        if (!strcmp(alias_meaning[i].ours, ours))
            to[n++] = (Word){alias_meaning[i].name,
                             strcmp(alias_meaning[i].given, "*") ? alias_meaning[i].given : "2", false};
    return n;
}

static bool same_value(int at, const char *a, const char *b)
{
    const char *ours = at < NFIELDS ? field_row[at].path : run_flag[at - NFIELDS].name;
    return !strcmp(alias_word(ours, a), alias_word(ours, b));
}

/* DeepSpeed's name for all samples of an update, with its name for those of a micro-batch. */
static bool differ_together(const char *a, const char *b)
{
    return strstr(a, "train_micro_batch") && !strcmp(b, "train_batch_size");
}

static const char *wrong(int at, const Word *a, const Word *b)
{
    const char *one = answer(file_of(at, a, b)), *other = answer(file_of(at, b, a));
    const char *clash = strstr(one, " keep one of them");
    if (strcmp(without_order(one), without_order(other)))
        return "the orders differ";
    if (!a->plain || !b->plain)
        return NULL;
    if (same_value(at, a->value, b->value))
        return clash ? "one value twice is refused" : NULL;
    if (!clash)
        return "two values and no error";
    const int first = *before(at) ? 2 : 1;
    return strstr(one, text_print("%s: %s (line %d)", a->name, a->value, first))
                   && strstr(one, text_print("%s: %s (line %d)", b->name, b->value, first + 1))
               ? NULL
               : "the error does not name both words";
}

/* Pairs that were tried; a line for what is wrong goes to report. */
static int pairs_of(int at, FILE *report)
{
    Word word[NAMES];
    const int n = words_of(at, word);
    int tried = 0, bad = 0;
    for (int i = 0; i < n; i++)
        for (int k = i + 1; k < n; k++) {
            if (names_same(word[i].name, word[k].name) || differ_together(word[i].name, word[k].name))
                continue;
            const char *why = wrong(at, &word[i], &word[k]);
            tried++;
            if (why && bad++ < 3)
                fprintf(report, "not ok %s: %s with %s: %s: %s\n", word[i].name, word[i].value, word[k].name,
                        word[k].value, why);
        }
    return tried;
}

int main(void)
{
    int all = 0, failed = 0, out = dup(1);
    for (int at = 0; at < NFIELDS + nrun_flags; at++) {
        int ends[2], n = 0, status;
        if (pipe(ends))
            return 2;
        pid_t child = fork();
        if (child == 0) {
            FILE *report = fdopen(out, "w");
            err_on_end(listen);
            if (!freopen("/dev/null", "w", stderr))
                _exit(2);
            n = pairs_of(at, report);
            fflush(report);
            if (write(ends[1], &n, sizeof n) != sizeof n)
                _exit(2);
            _exit(0);
        }
        close(ends[1]);
        failed |= read(ends[0], &n, sizeof n) != sizeof n;
        close(ends[0]);
        waitpid(child, &status, 0);
        failed |= status != 0;
        all += n;
    }
    if (failed || all < 3000)
        printf("not ok %d pairs\n", all);
    return failed || all < 3000;
}
