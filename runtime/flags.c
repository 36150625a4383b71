/* flags.c -- reads the command line by the rows of flags.def.
 *
 * In:    argv and the recipe's defaults.  Out: Flags, or one line and EXIT_CONFIG. */
#define _GNU_SOURCE
#include "flags.h"
#include "base.h"
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum { TYPE_BOOL, TYPE_INT, TYPE_FLOAT, TYPE_STRING } FlagType;

typedef struct {
    const char *name;
    FlagType type;
    size_t offset;               /* in Flags */
    double lo, hi;               /* FLOAT */
    int64_t ilo, ihi;            /* INT */
    const char *metavar;
    int recipe;
    bool own;                    /* of each rank */
    const char *doc, *value;     /* value: the default as written in the table */
} Row;

static const Row rows[FLAG_COUNT] = {
#define FLAG(name, type, value, lo, hi, metavar, recipe, doc)                                  \
    { #name, TYPE_##type, offsetof(Flags, name), (double)(lo), (double)(hi),                   \
      TYPE_##type == TYPE_INT ? (int64_t)(lo) : 0, TYPE_##type == TYPE_INT ? (int64_t)(hi) : 0, \
      metavar, (recipe) & 3, ((recipe) & 4) != 0, doc, #value },
#include "flags.def"
#undef FLAG
};

static char *strict_int(const Row *r, const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    bool digit = isdigit((unsigned char)text[*text == '-']);
    if (!digit || *end || errno || v < r->ilo || v > r->ihi)
        return format("want an integer from %lld to %lld, got \"%.60s\"", (long long)r->ilo,
                      (long long)r->ihi, text);
    *out = v;
    return NULL;
}

/* The shortest text that reads back to the same bits. */
static char *number_text(double x)
{
    for (int digits = 6; digits < 17; digits++) {
        char *text = format("%.*g", digits, x);
        if (strtod(text, NULL) == x)
            return text;
        free(text);
    }
    return format("%.17g", x);
}

static char *strict_float(const Row *r, const char *text, double *out)
{
    char *end;
    double v = strtod(text, &end);
    size_t plain = strspn(text, "+-.0123456789eE");      /* no hexadecimal, no inf, no nan */
    if (!*text || text[plain] || *end || !isfinite(v) || v < r->lo || v > r->hi) {
        char *lo = number_text(r->lo), *hi = number_text(r->hi);
        char *error = format("want a number from %s to %s, got \"%.60s\"", lo, hi, text);
        free(lo);
        free(hi);
        return error;
    }
    *out = v;
    return NULL;
}

/* The value column lists words ("none|sqrt|linear") rather than a placeholder. */
static bool has_choices(const Row *r)
{
    if (!strchr(r->metavar, '|'))
        return false;
    for (const char *c = r->metavar; *c; c++)
        if (isupper((unsigned char)*c))
            return false;
    return true;
}

static char *one_of(const Row *r, const char *text, const char **out)
{
    size_t n = strlen(text);
    for (const char *w = r->metavar; n && w && !strchr(text, '|'); w = strchr(w, '|')) {
        w += *w == '|';
        if (strncmp(w, text, n) == 0 && (w[n] == '|' || !w[n])) {
            *out = text;
            return NULL;
        }
    }
    return format("want one of %s, got \"%.60s\"", r->metavar + (*r->metavar == '|'), text);
}

static int distance(const char *a, const char *b)
{
    enum { LONGEST = 40 };
    int row[LONGEST + 1], na = (int)strlen(a), nb = (int)strlen(b);
    if (na > LONGEST || nb > LONGEST)
        return LONGEST;
    for (int j = 0; j <= nb; j++)
        row[j] = j;
    for (int i = 1; i <= na; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= nb; j++) {
            int best = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            best = row[j] + 1 < best ? row[j] + 1 : best;
            row[j] = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
        }
    }
    return row[nb];
}

static void spell(char to[64], const char *name)
{
    snprintf(to, 64, "%s", name);
    for (char *c = to; *c; c++)
        if (*c == '_')
            *c = '-';
}

static void die_unknown(const char *what, const char *name)
{
    int best = 0, least = INT_MAX;
    char given[64], near[64];
    spell(given, name);
    for (int i = 0; i < FLAG_COUNT; i++) {
        spell(near, rows[i].name);
        int d = distance(given, near);
        if (d < least)
            best = i, least = d;
    }
    spell(near, rows[best].name);
    die(EXIT_CONFIG, "%s%.60s: no such flag; nearest is --%s (--help lists all)", what, name, near);
}

/* run/ beside the program, for an empty --out. */
static const char *beside_program(const char *leaf)
{
    static char path[PATH_MAX + 16];
    ssize_t n = readlink("/proc/self/exe", path, PATH_MAX);
    while (n > 0 && path[n - 1] != '/')
        n--;
    snprintf(path + (n > 0 ? n : 0), 16, "%s", leaf);
    return path;
}

/* argv[*i] is a flag: its value is in the same word or the next; a bare BOOL is true. */
static void take(Flags *f, int argc, char **argv, int *i)
{
    const char *word = argv[*i] + 2, *equal = strchr(word, '='), *value;
    char name[64];
    size_t n = equal ? (size_t)(equal - word) : strlen(word);
    snprintf(name, sizeof name, "%.*s", (int)(n < 63 ? n : 63), word);
    int k = flags_find(name);
    if (k < 0)
        die_unknown("--", name);
    const char *next = *i + 1 < argc ? argv[*i + 1] : NULL;
    if (equal) {
        value = equal + 1;
    } else if (rows[k].type == TYPE_BOOL
               && !(next && (strcmp(next, "true") == 0 || strcmp(next, "false") == 0))) {
        value = "true";
    } else if (next) {
        value = next;
        ++*i;
    } else {
        die(EXIT_CONFIG, "--%s: wants a value: %s", name, rows[k].metavar);
    }
    char *error = flags_set(f, k, value);
    if (error)
        die(EXIT_CONFIG, "--%s: %s", name, error);
    if (!*value)
        die(EXIT_CONFIG, "--%s: is empty, want %s; a variable of the shell that is not set?", name,
            rows[k].metavar);
    f->given[k] = true;
}

const char *flags_name(int i)
{
    return rows[i].name;
}

bool flags_sticky(int i)
{
    return rows[i].recipe == 2;
}

int flags_find(const char *name)
{
    char want[64], have[64];
    spell(want, name);
    for (int i = 0; i < FLAG_COUNT; i++) {
        spell(have, rows[i].name);
        if (strcmp(want, have) == 0)
            return i;
    }
    return -1;
}

char *flags_set(Flags *f, int i, const char *text)
{
    const Row *r = &rows[i];
    void *at = (char *)f + r->offset;
    switch (r->type) {
    case TYPE_INT:
        return strict_int(r, text, at);
    case TYPE_FLOAT:
        return strict_float(r, text, at);
    case TYPE_BOOL:
        if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
            return format("want true or false, got \"%.60s\"", text);
        *(bool *)at = *text == 't';
        return NULL;
    case TYPE_STRING:
        if (has_choices(r))
            return one_of(r, text, at);
        *(const char **)at = text;
        return NULL;
    }
    return NULL;
}

char *flags_text(const Flags *f, int i)
{
    const void *at = (const char *)f + rows[i].offset;
    switch (rows[i].type) {
    case TYPE_BOOL:
        return format("%s", *(const bool *)at ? "true" : "false");
    case TYPE_INT:
        return format("%lld", (long long)*(const int64_t *)at);
    case TYPE_FLOAT:
        return number_text(*(const double *)at);
    case TYPE_STRING:
        return format("%s", *(const char *const *)at);
    }
    return NULL;
}

/* A path, and none of the words that may stand for one. */
static bool is_path(const Row *r, const char *text)
{
    const char *m = r->metavar, *word;
    if (!strstr(m, "FILE") && !strstr(m, "DIR") && !strstr(m, "PATH"))
        return false;
    char *error = one_of(r, text, &word);
    free(error);
    return error != NULL;
}

char *flags_common(const Flags *f, int i)
{
    if (rows[i].own)
        return NULL;
    char *text = flags_text(f, i), *common;
    if (is_path(&rows[i], text))
        common = format("%s", *text ? "a path" : "not given");
    else
        common = format("%s%s", text, f->given[i] ? "" : " (default)");
    free(text);
    return common;
}

/* Headings and flags in the order of the help. */
static const struct {
    const char *title;           /* NULL: a flag */
    int flag;
} help_line[] = {
#define SECTION(title) { title, -1 },
#define FLAG(name, type, value, lo, hi, metavar, recipe, doc) { NULL, FLAG_##name },
#include "flags.def"
#undef FLAG
};

static void help_flag(FILE *to, const Flags *f, int i)
{
    char name[64];
    spell(name, rows[i].name);
    const char *metavar = rows[i].metavar + (*rows[i].metavar == '|');
    fprintf(to, "  --%s%s%s", name, *metavar ? " " : "", metavar);
    char *value = flags_text(f, i);
    bool says = rows[i].type != TYPE_BOOL && *value;
    fprintf(to, "\n      %s%s%s%s\n", rows[i].doc, says ? " [" : "", says ? value : "",
            says ? "]" : "");
    free(value);
}

void flags_help(FILE *to, const char *program, const Flags *f)
{
    fprintf(to, "usage: %s [--flag value]...    [...]: this program's default\n", program);
    for (size_t i = 0; i < sizeof help_line / sizeof *help_line; i++)
        if (help_line[i].title)
            fprintf(to, "\n%s\n", help_line[i].title);
        else
            help_flag(to, f, help_line[i].flag);
}

void flags_parse(Flags *f, const FlagDefault *defaults, int argc, char **argv)
{
    *f = (Flags){
#define FLAG(name, type, value, lo, hi, metavar, recipe, doc) .name = value,
#include "flags.def"
#undef FLAG
    };
    for (; defaults && defaults->name; defaults++) {
        int k = flags_find(defaults->name);
        if (k < 0 || !rows[k].recipe)
            die_unknown("recipe, run: ", defaults->name);
        char *error = flags_set(f, k, defaults->value);
        if (error)
            die(EXIT_CONFIG, "recipe, run.%s: %s", defaults->name, error);
    }
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "-h") == 0)
            f->help = true;
        else if (strncmp(argv[i], "--", 2) == 0 && argv[i][2])
            take(f, argc, argv, &i);
        else
            die(EXIT_CONFIG, "%.60s: no flag (write --name value; --help lists all)", argv[i]);
    }
    if (!*f->out)
        f->out = beside_program("run");
}
