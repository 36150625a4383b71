/* renamed.c -- field names of earlier releases.
 *
 * In:    rows RENAMED and RENAMED_WORD of runtime/files/aliases.def.
 * Out:   current names, and one line on stderr. */
#include "gen/recipe/recipe.h"
#include "runtime/files/names.h"

#include <stdio.h>
#include <string.h>

static char given[1024];         /* text for renamed_report() */
static bool reported;            /* it was printed */

static void add(const char *before, const char *now)
{
    const char *one = text_print("%s is now %s", before, now);
    const size_t n = strlen(given);
    if (!strstr(given, one))
        snprintf(given + n, sizeof given - n, "%s%s", n ? ", " : "", one);
}

/* True if path is in the group `before` and was renamed; *now: its current group. */
static bool moved(const char *before, const char *path, const char **now)
{
    const size_t n = strlen(before);
    if (strncmp(path, before, n) || path[n] != '.')
        return false;
    const char *today = renamed(path);
    const size_t k = today ? strcspn(today, ".") : 0;
    if (!today || (k == n && !strncmp(today, before, n)))
        return false;
    *now = text_print("%.*s", (int)k, today);
    return true;
}

const char *renamed_find(const char *name)
{
    const char *now = renamed(name);
    for (int i = 0; !now && !strchr(name, '.') && i < renamed_rows; i++)
        moved(name, renamed_row[i].before, &now);
    return now;
}

const char *renamed_name(const char *name)
{
    const char *now = renamed_find(name);
    if (!now)
        return name;
    add(name, now);
    return now;
}

const char *renamed_value(const char *field, const char *word)
{
    const char *now = renamed_word(field, word);
    if (!now)
        return word;
    add(text_print("%s = \"%s\"", field, word), text_print("\"%s\"", now));
    return now;
}

/* FIELD of a word FIELD=VALUE; NULL: not such a word. */
static char *field_of(const char *word)
{
    const size_t n = strcspn(word, "=");
    return word[n] ? text_print("%.*s", (int)n, word) : NULL;
}

static bool same_field(const char *a, const char *b)
{
    const char *one = field_of(a), *other = field_of(b);
    return one && other && !strcmp(strcmp(one, "tune") ? one : "tune.lock",
                                   strcmp(other, "tune") ? other : "tune.lock");
}

char **renamed_words(char **word, int n)
{
    char **now = arena_new(((size_t)n + 1) * sizeof *now);
    for (int i = 0; i < n; i++) {
        const char *field = field_of(word[i]), *today = field ? renamed_name(field) : NULL;
        now[i] = word[i];
        if (!field)
            continue;
        const char *value = word[i] + strlen(field) + 1;
        if (today != field || renamed_word(today, value))
            now[i] = text_print("%s=%s", today, renamed_value(today, value));
        for (int k = 0; k < i; k++)
            if (same_field(now[k], now[i]))
                err((Loc){0}, "%s and %s set the same field: leave one of them out", word[k],
                    word[i]);
    }
    return now;
}

void renamed_report(void)
{
    if (*given && !reported)
        fprintf(stderr, "gen: renamed: %s\n", given);
    reported = reported || *given;
}
