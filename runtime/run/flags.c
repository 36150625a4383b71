/* flags.c -- values of flags: text to value and back, by the rows of flags.def; --help: flags by
 * section, with defaults and names of other trainers. */
#define _GNU_SOURCE
#include "runtime/run/flags_rows.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/files/names.h"
#include "runtime/objectives/owners.h"
#include "runtime/pack/format_names.h"
#include "runtime/run/schedule.h"

#define IS_COUNT(type) (TYPE_##type == TYPE_INT || TYPE_##type == TYPE_EVERY)

/* ---- rows ------------------------------------------------------------------------------------ */

const FlagRow flags_row[FLAG_COUNT] = {
#define FLAG(name, type, value, lo, hi, metavar, recipe, readers, doc)                         \
    { #name, TYPE_##type, offsetof(Flags, name), (double)(lo), (double)(hi),                   \
      IS_COUNT(type) ? (int64_t)(lo) : 0, IS_COUNT(type) ? (int64_t)(hi) : 0,                  \
      metavar, (recipe) & 3, ((recipe) & 4) != 0, readers, doc, #value },
#include "runtime/run/flags.def"
};

const int flags_owner[FLAG_COUNT] = {
#define NEEDS(flag, capability) [FLAG_##flag] = OWNERS(capability),
#include "runtime/run/flags.def"
#define FLAG(name, ...) [FLAG_##name] = OWNERS(ME),
#include "runtime/objectives/rows.def"
};

/* All flags of an objective without a model of layers. */
static const struct { const char *objective, *flags; } only[] = {
#define ONLY(objective, flags) { #objective, flags },
#include "runtime/run/flags.def"
    { NULL, NULL }
};

/* Texts of objectives, instead of a flag's own. */
static const struct { int flag; const char *objective, *doc; } docs[] = {
#define DOC(flag, objective, doc) { FLAG_##flag, #objective, doc },
#include "runtime/run/flags.def"
    { 0, NULL, NULL }
};

static const bool repeats[FLAG_COUNT] = {
#define MANY(flag) [FLAG_##flag] = true,
#include "runtime/run/flags.def"
};

const char *flags_objective;

const char *flags_doc(int i)
{
    for (size_t k = 0; flags_objective && docs[k].objective; k++)
        if (docs[k].flag == i && !strcmp(docs[k].objective, flags_objective))
            return docs[k].doc;
    return flags_row[i].doc;
}

int flags_summary(int i)
{
    const char *doc = flags_doc(i), *end = strstr(doc, ". ");
    return (int)(end ? (size_t)(end - doc) : strlen(doc));
}

void flags_of(const char *name)
{
    flags_objective = name;
}

bool flags_has(int i)
{
    for (size_t k = 0; flags_objective && only[k].objective; k++)
        if (!strcmp(only[k].objective, flags_objective))
            return names_listed(only[k].flags, flags_row[i].name);
    return !flags_objective || owners_include(flags_owner[i], flags_objective);
}

static char *strict_int(const FlagRow *r, const char *text, int64_t *out)
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
        return format("must be an integer from %lld to %lld%s, got \"%.60s\"", (long long)r->ilo,
                      (long long)r->ihi, r->type == TYPE_EVERY ? ", epoch, or 5epochs" : "", text);
    *out = v;
    return NULL;
}

/* Returns the shortest text that reads back to the same bits; malloc'ed. */
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

static char *strict_float(const FlagRow *r, const char *text, double *out)
{
    char *end;
    errno = 0;
    double v = strtod(text, &end);
    size_t plain = strspn(text, "+-.0123456789eE");      /* no hexadecimal, no inf, no nan */
    if (!*text || text[plain] || *end || errno || !isfinite(v) || v < r->lo || v > r->hi) {
        char *lo = number_text(r->lo), *hi = number_text(r->hi);
        char *error = format("must be a number from %s to %s, got \"%.60s\"", lo, hi, text);
        free(lo);
        free(hi);
        return error;
    }
    *out = v;
    return NULL;
}

/* True if the placeholder is a list of words, "none|sqrt|linear". */
static bool has_choices(const FlagRow *r)
{
    if (!strchr(r->metavar, '|'))
        return false;
    for (const char *c = r->metavar; *c; c++)
        if (isupper((unsigned char)*c))
            return false;
    return true;
}

static char *one_of(const FlagRow *r, const char *text, const char **out)
{
    size_t n = strlen(text);
    for (const char *w = r->metavar; n && w && !strchr(text, '|'); w = strchr(w, '|')) {
        w += *w == '|';
        if (!strncmp(w, text, n) && (w[n] == '|' || !w[n])) {
            *out = text;
            return NULL;
        }
    }
    return format("must be one of %s, got \"%.60s\"", r->metavar + (*r->metavar == '|'), text);
}

void flags_spell(char to[64], const char *name)
{
    snprintf(to, 64, "%s", name);
    for (char *c = to; *c; c++)
        if (*c == '_')
            *c = '-';
}

bool flags_truth(const char *text)
{
    return text && (names_same(text, "true") || names_same(text, "false"));
}

const char *flags_name(int i)
{
    return flags_row[i].name;
}

char *flags_spelt(int i)
{
    char name[64];
    flags_spell(name, flags_row[i].name);
    return format("--%s", name);
}

bool flags_on(const Flags *f, int i)
{
    const void *at = (const char *)f + flags_row[i].offset;
    switch (flags_row[i].type) {
    case TYPE_BOOL:
        return *(const bool *)at;
    case TYPE_INT:
    case TYPE_EVERY:
        if (strtoll(flags_row[i].value, NULL, 10) < flags_row[i].ilo)
            return *(const int64_t *)at >= flags_row[i].ilo;
        return *(const int64_t *)at != 0;
    case TYPE_FLOAT:
        return *(const double *)at != 0;
    case TYPE_STRING:
        return **(const char *const *)at;
    }
    return false;
}

double flags_number(const Flags *f, int i)
{
    return *(const double *)((const char *)f + flags_row[i].offset);
}

const char *flags_word(const Flags *f, int i)
{
    return *(const char *const *)((const char *)f + flags_row[i].offset);
}

int64_t flags_many(const Flags *f, int i)
{
    int64_t n = 0;
    while (f->many[i] && f->many[i][n])
        n++;
    return n;
}

bool flags_repeats(int i)
{
    return repeats[i];
}

void flags_clear(Flags *f, int i)
{
    free(f->many[i]);
    f->many[i] = NULL;
}

void flags_add(Flags *f, int i, const char *text)
{
    const int64_t n = flags_many(f, i);
    f->many[i] = realloc(f->many[i], sizeof *f->many[i] * (size_t)(n + 2));
    if (!f->many[i])
        die(EXIT_INTERNAL, "out of memory for the values of --%s", flags_row[i].name);
    f->many[i][n] = text;
    f->many[i][n + 1] = NULL;
}

bool flags_sticky(int i)
{
    return flags_row[i].recipe == 2;
}

int flags_find(const char *name)
{
    char want[64], have[64];
    flags_spell(want, name);
    for (int i = 0; i < FLAG_COUNT; i++) {
        flags_spell(have, flags_row[i].name);
        if (!strcmp(want, have))
            return i;
    }
    return -1;
}

char *flags_set(Flags *f, int i, const char *text)
{
    const FlagRow *r = &flags_row[i];
    void *at = (char *)f + r->offset;
    int64_t epochs;
    size_t n;
    text = alias_word(r->name, text);
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
        if (!flags_truth(text))
            return format("must be true or false, got \"%.60s\"", text);
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

/* Returns the values of a MANY flag, "a, b"; malloc'ed. */
static char *values_of(const Flags *f, int i)
{
    char *text = format("%s", "");
    for (int64_t k = 0, n = flags_many(f, i); k < n; k++) {
        char *longer = format("%s%s%s", text, k ? ", " : "", f->many[i][k]);
        free(text);
        text = longer;
    }
    return text;
}

char *flags_text(const Flags *f, int i)
{
    const void *at = (const char *)f + flags_row[i].offset;
    switch (flags_row[i].type) {
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
        return repeats[i] ? values_of(f, i) : format("%s", *(const char *const *)at);
    }
    return NULL;
}

/* True if text is a path, not one of the words that the flag takes instead. */
static bool is_path(const FlagRow *r, const char *text)
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
    if (flags_row[i].differs)
        return NULL;
    char *text = flags_text(f, i), *common;
    if (is_path(&flags_row[i], text))
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

/* ---- --help ---------------------------------------------------------------------------------- */

enum { HELP_ALIASES = 2, HELP_COLUMNS = 100 };     /* HELP_ALIASES: shown per flag, at most */

/* Prints text from column `indent` on, further lines from column 6; breaks at blanks and after
 * bars. */
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

/* Returns the names of other trainers for flag i, "; also --a, --b" or ""; malloc'ed. */
static char *aliases(int i)
{
    char *text = format("%s", "");
    for (int k = 0, shown = 0; k < alias_rows && shown < HELP_ALIASES; k++) {
        const Alias *row = &alias_row[k];
        if (row->kind != ALIAS_FLAG || strcmp(row->ours, flags_row[i].name))
            continue;
        char *longer = format("%s%s--%s", text, shown++ ? ", " : "; also ", row->name);
        free(text);
        text = longer;
    }
    return text;
}

static void help_flag(FILE *to, const Flags *f, int i)
{
    const FlagRow *r = &flags_row[i];
    const char *metavar = r->metavar + (*r->metavar == '|'), *doc = flags_doc(i);
    const int64_t count = r->type == TYPE_INT ? *(const int64_t *)((const char *)f + r->offset) : 0;
    const bool unset = r->type == TYPE_INT && count < r->ilo;
    char name[64], *value = flags_text(f, i), *also = aliases(i);
    const bool shown = r->type != TYPE_BOOL && *value && !unset;
    flags_spell(name, r->name);
    char *head = format("--%s%s%s", name, *metavar ? " " : "", metavar);
    char *text = format("%.*s%s%s%s%s", f->verbose ? (int)strlen(doc) : flags_summary(i), doc,
                        shown ? " [" : "", shown ? value : "", shown ? "]" : "", also);
    wrapped(to, 2, head);
    wrapped(to, 6, text);
    free(value), free(also), free(head), free(text);
}

/* Prints the title of a section before its first flag, then the flag; skips flags of other
 * programs. */
static void help_line(FILE *to, const Flags *f, const char **title, int i)
{
    if (!flags_has(i))
        return;
    if (*title)
        fprintf(to, "\n%s\n", *title);
    *title = NULL;
    help_flag(to, f, i);
}

void flags_help(FILE *to, const char *program, const Flags *f)
{
    fprintf(to, "usage: %s [--flag value]...    [...]: this program's default%s\n", program,
            f->verbose ? "" : "; --help --verbose: details");
    const char *title = NULL;    /* not yet printed */
#define SECTION(text) title = text;
#define FLAG(name, ...) help_line(to, f, &title, FLAG_##name);
#include "runtime/run/flags.def"
}
