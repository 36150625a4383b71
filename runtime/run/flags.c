/* flags.c -- reads the command line by the rows of flags.def.
 *
 * In:    argv and the recipe's defaults.  Out: Flags, or one line and EXIT_CONFIG. */
#define _GNU_SOURCE
#include "runtime/run/flags.h"
#include "runtime/base.h"
#include "runtime/files/names.h"
#include "runtime/objectives/help_lines.h"
#include "runtime/objectives/owners.h"
#include "runtime/pack/format_names.h"
#include "runtime/run/schedule.h"
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum { TYPE_BOOL, TYPE_INT, TYPE_EVERY, TYPE_FLOAT, TYPE_STRING } FlagType;
#define IS_COUNT(type) (TYPE_##type == TYPE_INT || TYPE_##type == TYPE_EVERY)

typedef struct {
    const char *name;
    FlagType type;
    size_t offset;               /* in Flags */
    double lo, hi;               /* FLOAT */
    int64_t ilo, ihi;            /* INT, EVERY */
    const char *metavar;
    int recipe;
    bool own;                    /* of each rank */
    const char *doc, *value;     /* value: the default as written in the table */
} Row;

static const Row rows[FLAG_COUNT] = {
#define FLAG(name, type, value, lo, hi, metavar, recipe, doc)                                  \
    { #name, TYPE_##type, offsetof(Flags, name), (double)(lo), (double)(hi),                   \
      IS_COUNT(type) ? (int64_t)(lo) : 0, IS_COUNT(type) ? (int64_t)(hi) : 0,                  \
      metavar, (recipe) & 3, ((recipe) & 4) != 0, doc, #value },
#include "runtime/run/flags.def"
};

static const int owners[FLAG_COUNT] = {
#define NEEDS(flag, capability) [FLAG_##flag] = OWNERS(capability),
#include "runtime/run/flags.def"
#define FLAG(name, ...) [FLAG_##name] = OWNERS(ME),
#include "runtime/objectives/rows.def"
};

static const struct { int flag, owners; const char *others; } together[] = {
#define WITH(flag, owners, others) { FLAG_##flag, OWNERS(owners), others },
#include "runtime/run/flags.def"
};

static const char *const empty[FLAG_COUNT] = {
#define EMPTY(flag, word) [FLAG_##flag] = word,
#include "runtime/run/flags.def"
};

static const bool repeats[FLAG_COUNT] = {
#define MANY(flag) [FLAG_##flag] = true,
#include "runtime/run/flags.def"
};

/* Objectives whose programs have these flags alone. */
static const struct { const char *objective, *flags; } only[] = {
#define ONLY(objective, flags) { #objective, flags },
#include "runtime/run/flags.def"
    { NULL, NULL }
};

/* Texts of objectives in the place of a flag's own. */
static const struct { int flag; const char *objective, *doc; } docs[] = {
#define DOC(flag, objective, doc) { FLAG_##flag, #objective, doc },
#include "runtime/run/flags.def"
    { 0, NULL, NULL }
};

static const char *objective;    /* the objective; NULL: any */

static const char *doc_of(int i)
{
    for (size_t k = 0; objective && docs[k].objective; k++)
        if (docs[k].flag == i && !strcmp(docs[k].objective, objective))
            return docs[k].doc;
    return rows[i].doc;
}

void flags_of(const char *name)
{
    objective = name;
}

bool flags_has(int i)
{
    for (size_t k = 0; objective && only[k].objective; k++)
        if (!strcmp(only[k].objective, objective))
            return names_listed(only[k].flags, rows[i].name);
    return !objective || owners_include(owners[i], objective);
}

static char *strict_int(const Row *r, const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10), unit = *end == 'k' ? 1000 : *end == 'M' ? 1000000 : 1;
    if (unit > 1) {
        end++;
        v = v > INT64_MAX / unit || v < INT64_MIN / unit ? (errno = ERANGE, v) : v * unit;
    }
    bool digit = isdigit((unsigned char)text[*text == '-']);
    if (!digit || *end || errno || v < r->ilo || v > r->ihi)
        return format("want an integer from %lld to %lld%s, got \"%.60s\"", (long long)r->ilo,
                      (long long)r->ihi, r->type == TYPE_EVERY ? ", epoch, or 5epochs" : "", text);
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

static void spell(char to[64], const char *name)
{
    snprintf(to, 64, "%s", name);
    for (char *c = to; *c; c++)
        if (*c == '_')
            *c = '-';
}

/* Whether it is a flag of this program or of those of other objectives. */
static bool is_flag(const char *name)
{
    return flags_find(name) >= 0 || owners_of_left_out(name);
}

/* The name among ours and those of aliases.def that was probably meant; NULL: none is near. */
static const char *nearest(const char *name)
{
    int least = (int)(strlen(name) + 1) / 3 + 1;
    const char *near = NULL;
    for (int i = 0; i < FLAG_COUNT + foreign_rows; i++) {
        const char *have = i < FLAG_COUNT ? rows[i].name : foreign_row[i - FLAG_COUNT].name;
        int d = names_distance(name, have);
        if (d < least && (i >= FLAG_COUNT || flags_has(i)))
            near = have, least = d;
    }
    return near;
}

static void die_unknown(const char *what, const char *name)
{
    const char *near = nearest(name);
    char close[64], ours[64];
    if (!near)
        die(EXIT_CONFIG, "%s%.60s: no such flag (--help lists all)", what, name);
    spell(close, near);
    const Foreign *row = flags_find(near) < 0 ? foreign_find(near) : NULL;
    if (!row || !*row->ours)
        die(EXIT_CONFIG, "%s%.60s: no such flag; did you mean --%s? (--help lists all)", what, name,
            close);
    bool field = row->kind == FOREIGN_RECIPE || (row->kind == FOREIGN_MEANS && !is_flag(row->ours));
    spell(ours, row->ours);
    die(EXIT_CONFIG, "%s%.60s: no such flag; did you mean --%s, here %s%s? (--help lists all)", what,
        name, close, field ? "the recipe's " : "--", field ? row->ours : ours);
}

/* A name that means something else here than a flag. given: the value beside it, or NULL. */
static void die_foreign(const Foreign *row, const char *name, const char *given, const char *words)
{
    char ours[64];
    spell(ours, row->ours);
    switch (row->kind) {
    case FOREIGN_LINE:
    case FOREIGN_MEANS:
    case FOREIGN_RECIPE:
        if (is_flag(row->ours))
            die(EXIT_CONFIG, "--%s: write --%s %s (%s)", name, ours, foreign_value(row, given), row->note);
        die(EXIT_CONFIG, "--%s%s%.60s: fixed when the program is generated: gen %s %s=%s%s%s%s", name, given ? " " : "",
            given ? given : "", words, row->ours, foreign_value(row, given), *row->note ? " (" : "", row->note,
            *row->note ? ")" : "");
    case FOREIGN_NONE:
        die(EXIT_CONFIG, "--%s: not supported: %s", name, row->note);
    default:
        die(EXIT_CONFIG, "--%s: %s", name, row->note);
    }
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

static bool truth(const char *text)
{
    return text && (names_same(text, "true") || names_same(text, "false"));
}

/* What always holds: whether that is what is asked for by the word behind it, true where there is none.
 * Ends the program else. */
static bool holds(const Foreign *row, const char *name, const char *word)
{
    const char *asked = truth(word) ? word : "true";
    if (!names_same(asked, row->value))
        die(EXIT_CONFIG, "--%s %s: not supported: %s", name, asked, row->note);
    return true;
}

/* The command line being read; by: as which name each flag was given. */
typedef struct {
    Flags *f;
    const Made *made;
    int argc, i;
    char **argv;
    char by[FLAG_COUNT][64];
    Claims claims;               /* of what was fixed when the program was generated */
    struct { int flag, other; char *typed; } left[FLAG_COUNT];   /* values that another flag gives; other: -1 or one */
    int nleft;
} Line;

/* One more text of a flag that may be given several times. */
static void add_text(Flags *f, int k)
{
    const int64_t n = flags_many(f, k);
    f->many[k] = realloc(f->many[k], sizeof *f->many[k] * (size_t)(n + 2));
    if (!f->many[k])
        die(EXIT_INTERNAL, "out of memory for the command line");
    f->many[k][n] = flags_word(f, k);
    f->many[k][n + 1] = NULL;
}

/* Whose value is a list between commas: of two of them neither goes before the other. */
static bool is_list(int k)
{
    const size_t n = strlen(rows[k].metavar);
    return n > 4 && strcmp(rows[k].metavar + n - 4, ",...") == 0;
}

static void set(Line *l, int k, const char *name, const char *value)
{
    char *before = l->f->given[k] ? flags_text(l->f, k) : NULL;
    const bool none = !*value && empty[k];
    value = none ? empty[k] : value;
    char *error = flags_set(l->f, k, value);
    if (error)
        die(EXIT_CONFIG, "--%s: %s; it is: %s", name, error, doc_of(k));
    if (!*value && !none)
        die(EXIT_CONFIG, "--%s: is empty, want %s; a variable of the shell that is not set?", name,
            rows[k].metavar);
    char *now = flags_text(l->f, k);
    if (before && !names_same(l->by[k], name) && strcmp(before, now) != 0)
        die(EXIT_CONFIG, "--%s %s and --%s %s are the same flag: give one of them", l->by[k], before,
            name, now);
    if (before && is_list(k) && strcmp(before, now) != 0)
        die(EXIT_CONFIG, "--%s is there twice, %s and %s: give one list, --%s %s,%s", name, before, now, name, before,
            now);
    snprintf(l->by[k], sizeof l->by[k], "%s", name);
    l->f->given[k] = true;
    if (repeats[k])
        add_text(l->f, k);
    free(before);
    free(now);
}

/* What a flag without a value says: a BOOL true, one of [DIR=leaf] the leaf, for as long as the program
 * runs. NULL: it wants one. */
static const char *bare(const Row *r)
{
    const char *equal = strchr(r->metavar, '=');
    if (r->type == TYPE_BOOL)
        return "true";
    return *r->metavar == '[' ? format("%.*s", (int)strcspn(equal + 1, "]"), equal + 1) : NULL;
}

/* Ends the program unless it has flag k, -1 where it lacks even its row; ours: the flag's name, name: as typed. */
static void check_has(int k, const char *ours, const char *name)
{
    const char *other = k < 0 ? owners_of_left_out(ours) : NULL;
    if (other)
        die(EXIT_CONFIG, "--%s: of programs whose objective is %s; this one's is %s (--help lists "
            "all it has)", name, other, objective);
    if (k < 0)
        return;
    if (!flags_has(k) && !owners[k])
        die(EXIT_CONFIG, "--%s: programs whose objective is %s have no such flag (--help lists all they have)", name,
            objective);
    if (!flags_has(k))
        die(EXIT_CONFIG, "--%s: of programs whose objective is %s; this one's is %s (--help lists "
            "all it has)", name, owners_text(owners[k]), objective);
}

/* The value of a flag that is switched off by another name; NULL: none is known. */
static const char *switched_off(int k, const Foreign *row)
{
    const char *on = foreign_meaning_of(row, "true");
    if (rows[k].type != TYPE_BOOL || !on)
        return foreign_unset(row->ours);
    return names_same(on, "true") ? "false" : "true";
}

/* A name whose value means one of a flag. value: in the flag's own word, or NULL. */
static void take_meaning(Line *l, const Foreign *row, const char *name, const char *value)
{
    const char *next = l->i + 1 < l->argc && strncmp(l->argv[l->i + 1], "--", 2) ? l->argv[l->i + 1] : NULL;
    const char *given = value ? value : next;
    const bool alone = foreign_meaning_of(row, "true") != NULL,
               known = given && (foreign_on(given) || foreign_off(given) || foreign_meaning_of(row, given));
    l->i += !value && next && (known || !alone);
    given = known || !alone || value ? given : "true";
    const char *means = given ? foreign_meaning_of(row, given) : NULL;
    const int k = flags_find(row->ours);
    check_has(k, row->ours, name);
    if (!means && foreign_off(given))
        means = switched_off(k, row);
    if (!means)
        die_foreign(row, name, given, l->made->words);
    if (*means == '?') {
        l->left[l->nleft].flag = k;
        l->left[l->nleft].other = means[1] ? flags_find(means + 1) : -1;
        l->left[l->nleft].typed = format("--%s %s", name, given);
        l->nleft += l->nleft < FLAG_COUNT - 1;
    } else if (*means)
        set(l, k, name, means);
    for (int i = 0; i < foreign_meanings; i++) {
        const ForeignMeaning *m = &foreign_meaning[i];
        const int also = flags_find(m->ours);
        if (also >= 0 && also != k && !m->implied && foreign_meant(m, row->name, given))
            set(l, also, name, m->value);
    }
}

/* What names left to another flag was given, is the default or is what a third one says. */
static void check_left(Line *l)
{
    Flags *f = l->f;
    for (int i = 0; i < l->nleft; i++) {
        const int k = l->left[i].flag, other = l->left[i].other;
        int64_t *at = (int64_t *)((char *)f + rows[k].offset);
        if (*at <= 0 && !f->given[k] && other >= 0 && f->given[other]) {
            *at = *(int64_t *)((char *)f + rows[other].offset);
            f->given[k] = true;
        }
        if (*at <= 0)
            die(EXIT_CONFIG, "%s: %s N says how many", l->left[i].typed, flags_spelt(k));
        free(l->left[i].typed);
    }
}

/* A share of a whole, as the flag of the row takes it. */
static bool is_share(const Foreign *row, const char *given)
{
    char *end;
    return row->kind == FOREIGN_LINE && given && strtod(row->value, NULL) > 0 && strtod(given, &end) < 1 &&
           end != given && !*end;
}

/* The words behind a flag whose value is a list, with commas between them: as shells expand a pattern. */
static const char *listed(Line *l, const char *first)
{
    char *list = format("%s", first);
    while (l->i + 1 < l->argc && (*l->argv[l->i + 1] != '-' || !l->argv[l->i + 1][1])) {
        char *longer = format("%s,%s", list, l->argv[++l->i]);
        free(list);
        list = longer;
    }
    return list;
}

/* argv[i] is a flag: its value is in the same word or the next. */
static void take(Line *l)
{
    const char *word = l->argv[l->i] + 2, *equal = strchr(word, '='), *value;
    const char *next = l->i + 1 < l->argc ? l->argv[l->i + 1] : NULL, *own = equal ? equal + 1 : NULL;
    char name[64];
    size_t n = equal ? (size_t)(equal - word) : strlen(word);
    snprintf(name, sizeof name, "%.*s", (int)(n < 63 ? n : 63), word);
    if (renamed(name))
        snprintf(name, sizeof name, "%s", renamed(name));
    int k = flags_find(name);
    if (k < 0) {
        check_has(k, name, name);
        const Foreign *row = foreign_find(name);
        const char *given = equal ? own : next && strncmp(next, "--", 2) ? next : NULL;
        if (!row && !strchr(name, '.'))
            die_unknown("--", name);
        if (built_is(row, name)) {
            const int words = built_take(&l->claims, l->made, row, name, own, l->argc - l->i - 1,
                                         l->argv + l->i + 1);
            if (words < 0)
                die_foreign(row, name, given, l->made->words);
            l->i += words;
            return;
        }
        if (row->kind == FOREIGN_MEANS) {
            take_meaning(l, row, name, own);
            return;
        }
        if (row->kind == FOREIGN_ALWAYS && holds(row, name, equal ? own : next)) {
            l->i += !equal && truth(next);
            return;
        }
        if (row->kind != FOREIGN_ALIAS && !is_share(row, given))
            die_foreign(row, name, given, l->made->words);
        k = flags_find(row->ours);
        check_has(k, row->ours, name);
    }
    check_has(k, name, name);
    /* true, false, what stands for them elsewhere; behind a name from elsewhere any word is meant as its value */
    const bool answers = next && (truth(foreign_word(rows[k].name, next)) ||
                                  (!names_same(name, rows[k].name) && *next != '-'));
    const bool alone = rows[k].type == TYPE_BOOL ? !answers : !next || !strncmp(next, "--", 2);
    value = equal ? own : alone ? bare(&rows[k]) : NULL;
    if (!value && next) {
        l->i++;
        value = is_list(k) ? listed(l, next) : next;
    }
    if (!value)
        die(EXIT_CONFIG, "--%s: wants a value: %s", name, rows[k].metavar);
    set(l, k, name, value);
}

/* Words before the first flag, as flags: argv of the same length. What they stand for is of the objective. */
static char **positions(int argc, char **argv)
{
    static const struct { const char *objective, *names; } row[] = {
#define POSITIONS(objective, names) { #objective, names },
#include "runtime/objectives/rows.def"
        { NULL, NULL }
    };
    const char *name = "";
    for (size_t i = 0; objective && row[i].objective; i++)
        name = strcmp(row[i].objective, objective) ? name : row[i].names;
    int first = 1;               /* behind what run.sh asks for the run's folder */
    while (first < argc && (!strcmp(argv[first], "--where") || !strcmp(argv[first], "--verbose")))
        first++;
    if (first >= argc || strpbrk(argv[first], "./="))
        return argv;
    char **words = calloc((size_t)argc + 1, sizeof *words);
    if (!words)
        die(EXIT_INTERNAL, "out of memory for the command line");
    memcpy(words, argv, (size_t)argc * sizeof *words);
    for (int i = first; i < argc && *argv[i] && *argv[i] != '-' && *name; i++) {
        words[i] = format("--%.*s=%s", (int)strcspn(name, "|"), name, argv[i]);
        name += strcspn(name, "|");
        name += *name == '|';
    }
    return words;
}

/* Whether a word of the command line is the flag of this name. */
static bool gives(const char *word, const char *name)
{
    char given[64];
    if (strncmp(word, "--", 2) != 0)
        return false;
    snprintf(given, sizeof given, "%.*s", (int)strcspn(word + 2, "="), word + 2);
    return names_same(given, name);
}

/* Notes the flags that are given by names of earlier releases; beside today's name such a one is refused. */
static void note_renamed(Flags *f, int argc, char *const *argv)
{
    for (int k = 0; k < renamed_rows; k++) {
        const Renamed *r = &renamed_row[k];
        bool before = false, now = false;
        for (int i = 1; i < argc; i++)
            before = before || gives(argv[i], r->before), now = now || gives(argv[i], r->now);
        if (before && now)
            die(EXIT_CONFIG, "--%s and --%s are one setting, by its old name and its new one: leave out --%s",
                r->before, r->now, r->before);
        if (!before)
            continue;
        char *longer = format("%s%s--%s is now --%s", f->renamed ? f->renamed : "renamed: ", f->renamed ? ", " : "",
                              r->before, r->now);
        free(f->renamed);
        f->renamed = longer;
    }
}

/* A word that does not begin with --: what was probably meant. */
static void die_stray(const char *word)
{
    char name[64], flag[64];
    const char *bare = word + strspn(word, "-");
    size_t n = strcspn(bare, "=");
    snprintf(name, sizeof name, "%.*s", (int)(n < 63 ? n : 63), bare);
    int k = flags_find(name);
    if (k < 0)
        die(EXIT_CONFIG, "%.60s: no flag (write --name value; --help lists all)", word);
    spell(flag, name);
    die(EXIT_CONFIG, "%.60s: no flag; write --%s %.60s", word, flag,
        bare[n] ? bare + n + 1 : rows[k].metavar);
}

const char *flags_name(int i)
{
    return rows[i].name;
}

char *flags_spelt(int i)
{
    char name[64];
    spell(name, rows[i].name);
    return format("--%s", name);
}

bool flags_on(const Flags *f, int i)
{
    const void *at = (const char *)f + rows[i].offset;
    switch (rows[i].type) {
    case TYPE_BOOL:
        return *(const bool *)at;
    case TYPE_INT:
    case TYPE_EVERY:
        return strtoll(rows[i].value, NULL, 10) < rows[i].ilo ? *(const int64_t *)at >= rows[i].ilo
                                                              : *(const int64_t *)at != 0;
    case TYPE_FLOAT:
        return *(const double *)at != 0;
    case TYPE_STRING:
        return **(const char *const *)at;
    }
    return false;
}

double flags_number(const Flags *f, int i)
{
    return *(const double *)((const char *)f + rows[i].offset);
}

const char *flags_word(const Flags *f, int i)
{
    return *(const char *const *)((const char *)f + rows[i].offset);
}

int64_t flags_many(const Flags *f, int i)
{
    int64_t n = 0;
    while (f->many[i] && f->many[i][n])
        n++;
    return n;
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
    int64_t epochs;
    size_t n;
    text = foreign_word(r->name, text);
    switch (r->type) {
    case TYPE_EVERY:
        if ((epochs = names_epochs(text, &n)) && !text[n]) {
            *(int64_t *)at = -epochs;
            return NULL;
        }
        return strict_int(r, text, at);
    case TYPE_INT:
        return strict_int(r, text, at);
    case TYPE_FLOAT:
        return strict_float(r, text, at);
    case TYPE_BOOL:
        if (!truth(text))
            return format("want true or false, got \"%.60s\"", text);
        *(bool *)at = names_same(text, "true");
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
    case TYPE_EVERY:
        if (*(const int64_t *)at == -1)
            return format("epoch");
        if (*(const int64_t *)at < 0)
            return format("%lldepochs", -(long long)*(const int64_t *)at);
        return format("%lld", (long long)*(const int64_t *)at);
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
    for (int64_t k = flags_many(f, i) - 1; k > 0; k--) {
        char *longer = format("%s\n%s", f->many[i][k - 1], text);
        free(text);
        text = longer;
    }
    if (is_path(&rows[i], text))
        common = format("%s", *text ? "a path" : "not given");
    else
        common = format("%s%s", text, f->given[i] ? "" : " (default)");
    free(text);
    return common;
}

int64_t flags_steps(int64_t every, int64_t steps_per_epoch)
{
    return every < 0 ? -every * steps_per_epoch : every;
}

bool flags_due(int64_t every, int64_t from, int64_t step, int64_t steps_per_epoch)
{
    int64_t steps = flags_steps(every, steps_per_epoch);
    return steps && step >= from && (step - from) % steps == 0;
}

/* Refuses flag i, which was given, where none of `others` is on. */
static void check_together(const Flags *f, int i, const char *others)
{
    char *lacks = NULL;
    for (int k = 0; k < FLAG_COUNT; k++) {
        if (!flags_has(k) || !names_listed(others, rows[k].name))
            continue;
        if (f->given[k] || flags_on(f, k))
            return;
        char *name = flags_spelt(k), *longer = format("%s%s%s", lacks ? lacks : "", lacks ? " or " : "", name);
        free(name), free(lacks);
        lacks = longer;
    }
    if (lacks)
        die(EXIT_CONFIG, "%s: has no effect without %s", flags_spelt(i), lacks);
}

/* All rows WITH. */
static void check_effects(const Flags *f)
{
    for (size_t r = 0; r < sizeof together / sizeof *together; r++)
        if (f->given[together[r].flag] &&
            (together[r].owners == OWNERS_all || (objective && owners_include(together[r].owners, objective))))
            check_together(f, together[r].flag, together[r].others);
}

enum { HELP_ALIASES = 2, HELP_COLUMNS = 100 };     /* names of other trainers beside a flag */

/* From this column on, further lines from column 6; lines break at blanks and behind bars. */
static void wrapped(FILE *to, int indent, const char *text)
{
    int column = fprintf(to, "%*s", indent, "");
    for (const char *blank = ""; *text; text += strspn(text, " ")) {
        int n = (int)strcspn(text, " |");
        n += text[n] == '|';
        if (column > 6 && column + n >= HELP_COLUMNS) {
            column = fprintf(to, "\n%*s", 6, "") - 1;
            blank = "";
        }
        column += fprintf(to, "%s%.*s", blank, n, text);
        text += n;
        blank = *text == ' ' ? " " : "";
    }
    fputc('\n', to);
}

static void help_flag(FILE *to, const Flags *f, int i)
{
    const char *metavar = rows[i].metavar + (*rows[i].metavar == '|');
    char name[64], *value = flags_text(f, i), *doc;
    spell(name, rows[i].name);
    char *head = format("--%s%s%s", name, *metavar ? " " : "", metavar);
    const bool unasked = rows[i].type == TYPE_INT && *(const int64_t *)((const char *)f + rows[i].offset) < rows[i].ilo,
               says = rows[i].type != TYPE_BOOL && *value && !unasked;
    doc = says ? format("%s [%s]", doc_of(i), value) : format("%s", doc_of(i));
    for (int k = 0, shown = 0; k < foreign_rows && shown < HELP_ALIASES; k++)
        if (foreign_row[k].kind == FOREIGN_ALIAS && strcmp(foreign_row[k].ours, rows[i].name) == 0) {
            char *longer = format("%s%s--%s", doc, shown++ ? ", " : "; also ", foreign_row[k].name);
            free(doc);
            doc = longer;
        }
    wrapped(to, 2, head);
    wrapped(to, 6, doc);
    free(value), free(head), free(doc);
}

void flags_help(FILE *to, const char *program, const Flags *f)
{
    fprintf(to, "usage: %s [--flag value]...    [...]: this program's default\n", program);
    const char *title = NULL;    /* still to be written: no section without a flag */
    int n;
    const HelpLine *line = help_lines(&n);
    for (int i = 0; i < n; i++) {
        title = line[i].title ? line[i].title : title;
        if (line[i].title || !flags_has(line[i].flag))
            continue;
        if (title)
            fprintf(to, "\n%s\n", title);
        title = NULL;
        help_flag(to, f, line[i].flag);
    }
}

void flags_parse(Flags *f, const Made *made, const FlagDefault *defaults, int argc, char **argv)
{
    world.reads_flags = true;
    *f = (Flags){
#define FLAG(name, type, value, lo, hi, metavar, recipe, doc) .name = value,
#include "runtime/run/flags.def"
    };
    for (; defaults && defaults->name; defaults++) {
        int k = flags_find(defaults->name);
        if (k < 0 || !rows[k].recipe || !flags_has(k))
            die_unknown("recipe, run: ", defaults->name);
        char *error = flags_set(f, k, defaults->value);
        if (error)
            die(EXIT_CONFIG, "recipe, run.%s: %s", defaults->name, error);
    }
    argv = positions(argc, argv);
    note_renamed(f, argc, argv);
    Line l = { .f = f, .made = made, .argc = argc, .argv = argv };
    for (l.i = 1; l.i < argc; l.i++) {
        if (strcmp(argv[l.i], "-h") == 0)
            f->help = true;
        else if (strncmp(argv[l.i], "--", 2) == 0 && argv[l.i][2])
            take(&l);
        else
            die_stray(argv[l.i]);
    }
    if (!f->help)
        built_check(&l.claims, made);
    check_left(&l);
    free(l.claims.claim);
    check_effects(f);
    if (!*f->out)
        f->out = beside_program("run");
    if (f->given[FLAG_epochs] && !f->given[FLAG_steps])
        f->steps = 0, f->given[FLAG_steps] = true;   /* whatever the default or a run before says */
#define AS(flag, other, owner)                                                                 \
    if (!f->given[FLAG_##flag] && objective && !strcmp(#owner, objective) &&                   \
        !flags_on(f, FLAG_##flag))                                                             \
        f->flag = f->other;
#include "runtime/run/flags.def"
    world.reads_flags = false;
}
