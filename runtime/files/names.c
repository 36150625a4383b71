/* names.c -- lookup in aliases.def, and the edit distance of two names.
 *
 * Method: Damerau-Levenshtein distance (optimal string alignment). */
#include "runtime/files/names.h"
#include <ctype.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const Alias alias_row[] = {
#define ALIAS(theirs, ours) { theirs, ALIAS_FLAG, ours, "", "" },
#define LINE(theirs, ours, value, why) { theirs, ALIAS_LINE, ours, value, why },
#define RECIPE(theirs, ours, value, note) { theirs, ALIAS_FIELD, ours, value, note },
#define MEANS(theirs, ours, value, note) { theirs, ALIAS_MEANS, ours, value, note },
#define SAY(theirs, note) { theirs, ALIAS_NOTE, "", "", note },
#define NONE(theirs, note) { theirs, ALIAS_NONE, "", "", note },
#define ALWAYS(theirs, value, note) { theirs, ALIAS_ALWAYS, "", value, note },
#include "runtime/files/aliases.def"
};
const int alias_rows = (int)(sizeof alias_row / sizeof *alias_row);

const AliasMeaning alias_meaning[] = {
#define WHEN(theirs, given, ours, value) { theirs, given, ours, value, false },
#define IMPLIED(theirs, given, ours, value) { theirs, given, ours, value, true },
#include "runtime/files/aliases.def"
};
const int alias_meanings = (int)(sizeof alias_meaning / sizeof *alias_meaning);

const AliasDenial alias_denial[] = {
#define UNLESS(theirs, given, ours, value) { theirs, given, ours, value },
#include "runtime/files/aliases.def"
};
const int alias_denials = (int)(sizeof alias_denial / sizeof *alias_denial);

const AliasNeed alias_need[] = {
#define NEEDS(ours, value, other, wanted) { ours, value, other, wanted },
#include "runtime/files/aliases.def"
};
const int alias_needs = (int)(sizeof alias_need / sizeof *alias_need);

static const struct {
    const char *ours, *theirs, *word;
} words[] = {
#define WORD(ours, theirs, word) { ours, theirs, word },
#define RENAMED_WORD(field, before, now) { field, before, now },
#include "runtime/files/aliases.def"
};

static const char *const per_node[] = {
#define PER_NODE(theirs) theirs,
#include "runtime/files/aliases.def"
};

static const struct { const char *ours, *value; } unset[] = {
#define UNSET(ours, value) { ours, value },
#include "runtime/files/aliases.def"
};

const Renamed renamed_row[] = {
#define RENAMED(before, now) { before, now },
#include "runtime/files/aliases.def"
};
const int renamed_rows = (int)(sizeof renamed_row / sizeof *renamed_row);

const RenamedWord renamed_word_row[] = {
#define RENAMED_WORD(field, before, now) { field, before, now },
#include "runtime/files/aliases.def"
    { "", "", "" }
};

enum { MAX_NAME = 64, EPOCHS_MAX = 1000000 };

static int letter(char c)
{
    return c == '-' ? '_' : tolower((unsigned char)c);
}

bool names_listed(const char *list, const char *word)
{
    size_t n = strlen(word), k;
    for (; *list; list += k + (list[k] == '|')) {
        k = strcspn(list, "|");
        if (k == n && n && !strncmp(list, word, n))
            return true;
    }
    return false;
}

bool names_same(const char *a, const char *b)
{
    while (*a && letter(*a) == letter(*b))
        a++, b++;
    return !*a && !*b;
}

long long names_epochs(const char *text, size_t *n)
{
    static const char word[] = "epoch";
    const bool counts = isdigit((unsigned char)*text);
    char *rest = (char *)(uintptr_t)text;
    long long k = counts ? strtoll(text, &rest, 10) : 1;
    for (size_t i = 0; word[i]; i++)
        if (letter(*rest++) != word[i])
            return 0;
    rest += counts && letter(*rest) == 's';
    *n = (size_t)(rest - text);
    return k > 0 && k <= EPOCHS_MAX ? k : 0;
}

const Alias *alias_find(const char *name)
{
    for (int i = 0; i < alias_rows; i++)
        if (names_same(alias_row[i].name, name))
            return &alias_row[i];
    return NULL;
}

const char *alias_word(const char *ours, const char *word)
{
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (names_same(words[i].ours, ours) && names_same(words[i].theirs, word))
            return words[i].word;
    return word;
}

bool alias_on(const char *given)
{
    return names_same(given, "true") || names_same(given, "yes") || names_same(given, "on") ||
           names_same(given, "1");
}

bool alias_given(const char *row_given, const char *given)
{
    return names_same(row_given, given) || !strcmp(row_given, "*")
           || (!strcmp(row_given, "true") && alias_on(given))
           || (!strcmp(row_given, "false") && alias_off(given));
}

bool alias_meant(const AliasMeaning *m, const char *name, const char *given)
{
    return names_same(m->name, name) && alias_given(m->given, given);
}

bool alias_met(const AliasNeed *need, const char *value)
{
    if (*need->wanted == '>')
        return value && strtod(value, NULL) > 0;
    return value && (names_same(value, need->wanted) ||
                     (isdigit((unsigned char)*value) && isdigit((unsigned char)*need->wanted) &&
                      strtod(value, NULL) == strtod(need->wanted, NULL)));
}

const char *alias_meaning_of(const Alias *row, const char *given)
{
    for (int i = 0; i < alias_meanings; i++) {
        const AliasMeaning *m = &alias_meaning[i];
        if (alias_meant(m, row->name, given) && (!*m->ours || !strcmp(m->ours, row->ours)))
            return m->value;
    }
    return NULL;
}

bool alias_share(const Alias *row, const char *given)
{
    const double example = strtod(row->value, NULL);
    return row->kind != ALIAS_LINE || example <= 0 || example >= 1 || strtod(given, NULL) < 1;
}

const char *alias_value(const Alias *row, const char *given)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.,+-/";
    if (row->kind == ALIAS_MEANS) {
        const char *value = alias_meaning_of(row, given ? given : "true");
        return value && *value && *value != '?' ? value + (*value == '+') : row->value;
    }
    const bool number = isdigit((unsigned char)*row->value);
    if (!given || !*given || given[strspn(given, plain)] || strlen(given) > MAX_NAME
        || (number && !isdigit((unsigned char)*given)) || !alias_share(row, given))
        return row->value;
    return names_same(given, "true") ? "true" : names_same(given, "false") ? "false" : given;
}

bool alias_needless(const Alias *row, const char *given)
{
    if (row->kind != ALIAS_MEANS || !given)
        return false;
    const char *value = alias_meaning_of(row, given);
    return value ? !*value : alias_off(given);
}

bool alias_off(const char *given)
{
    static const char *const off[] = { "false", "no", "none", "off" };
    for (size_t i = 0; given && i < sizeof off / sizeof *off; i++)
        if (names_same(off[i], given))
            return true;
    char *end;
    return given && *given && strtod(given, &end) == 0.0 && !*end && end != given;
}

bool alias_per_node(const char *name)
{
    for (size_t i = 0; i < sizeof per_node / sizeof *per_node; i++)
        if (names_same(per_node[i], name))
            return true;
    return false;
}

const char *alias_unset(const char *ours)
{
    for (size_t i = 0; i < sizeof unset / sizeof *unset; i++)
        if (names_same(unset[i].ours, ours))
            return unset[i].value;
    return NULL;
}

/* Length in bytes of the first word of a shell line quoted by shell_word(): '...' and \'. */
static size_t first_word(const char *line)
{
    bool quoted = false;
    size_t n = 0;
    for (; line[n] && (quoted || line[n] != ' '); n++)
        if (line[n] == '\'')
            quoted = !quoted;
        else if (line[n] == '\\' && !quoted && line[n + 1])
            n++;
    return n;
}

const char *renamed(const char *name)
{
    for (int i = 0; i < renamed_rows; i++)
        if (names_same(renamed_row[i].before, name))
            return renamed_row[i].now;
    return NULL;
}

const char *renamed_word(const char *field, const char *word)
{
    for (size_t i = 0; *renamed_word_row[i].field; i++)
        if (names_same(renamed_word_row[i].field, field) &&
            !strcmp(renamed_word_row[i].before, word))
            return renamed_word_row[i].now;
    return NULL;
}

const char *renamed_from(const char *now)
{
    for (int i = 0; i < renamed_rows; i++)
        if (!strcmp(renamed_row[i].now, now))
            return renamed_row[i].before;
    return NULL;
}

const char *renamed_word_from(const char *field, const char *now)
{
    for (size_t i = 0; *renamed_word_row[i].field; i++)
        if (!strcmp(renamed_word_row[i].field, field) && !strcmp(renamed_word_row[i].now, now))
            return renamed_word_row[i].before;
    return NULL;
}

/* Returns a malloc'ed copy of the first n bytes of text. */
static char *piece(const char *text, size_t n)
{
    char *copy = malloc(n + 1);
    if (!copy)
        abort();
    memcpy(copy, text, n);
    copy[n] = '\0';
    return copy;
}

char *renamed_lines(const char *lines)
{
    const size_t most = strlen(lines) + 1;
    size_t longest = 1, many = 1;
    for (int i = 0; i < renamed_rows; i++)
        longest = strlen(renamed_row[i].now) > longest ? strlen(renamed_row[i].now) : longest;
    for (const RenamedWord *w = renamed_word_row; *w->field; w++)
        longest = strlen(w->now) > longest ? strlen(w->now) : longest;
    for (const char *p = lines; (p = strchr(p, '\n')); p++)
        many++;
    char *all = piece("", 0), *end;
    all = realloc(all, most + 2 * many * longest);
    if (!all)
        abort();
    end = all;
    for (size_t n; *lines; lines += n + (lines[n] == '\n')) {
        n = strcspn(lines, "\n");
        const size_t path = strcspn(lines, "=\n");
        char *name = piece(lines, path), *value = piece(lines + path, n - path);
        const size_t k = strlen(value);
        const bool quoted = k > 2 && value[1] == '"' && value[k - 1] == '"';
        const char *now = renamed(name), *word = NULL;
        now = now ? now : name;
        if (quoted) {
            value[k - 1] = '\0';
            word = renamed_word(now, value + 2);
            value[k - 1] = '"';
        }
        end += word ? sprintf(end, "%s=\"%s\"", now, word) : sprintf(end, "%s%s", now, value);
        if (lines[n])
            *end++ = '\n';
        free(name), free(value);
    }
    *end = '\0';
    return all;
}

char *names_without(const char *line, const char *list)
{
    char *left = malloc(strlen(line) + 1), *end = left;
    if (!left)
        abort();
    for (size_t n; *line; line += n + (line[n] == ' ')) {
        n = first_word(line);
        const char *path = line + (*line == '\'');
        const size_t length = strcspn(path, "=");
        memcpy(end, path, length);
        end[path + length < line + n ? length : 0] = '\0';
        if (*end && names_listed(list, end))
            continue;
        memcpy(end, line, n);
        end += n;
        *end++ = ' ';
    }
    end -= end > left;
    *end = '\0';
    return left;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

int names_distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    int d[3][MAX_NAME + 1];
    if (n > MAX_NAME || m > MAX_NAME)
        return MAX_NAME + 1;
    for (size_t j = 0; j <= m; j++)
        d[0][j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int *now = d[i % 3], *up = d[(i + 2) % 3], *up2 = d[(i + 1) % 3];
        now[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int x = letter(a[i - 1]), y = letter(b[j - 1]);
            now[j] = least(least(now[j - 1], up[j]) + 1, up[j - 1] + (x != y));
            if (i > 1 && j > 1 && x == letter(b[j - 2]) && y == letter(a[i - 2]))
                now[j] = least(now[j], up2[j - 2] + 1);
        }
    }
    return d[n % 3][m];
}
