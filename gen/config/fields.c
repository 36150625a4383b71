/* fields.c -- the rows of fields.def and flags.def as tables; values as text.
 *
 * Keeps: numbers have the fewest digits that read back the same; no locale. */
#define _GNU_SOURCE
#include "gen/config/family.h"
#include "gen/config/objective.h"
#include "runtime/pack/format_names.h"

#include "runtime/objectives/owners.h"
#include "runtime/ranks/launch.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SCHEDULE(name, ...) "|" #name
static const char SCHEDULE_NAMES[] =       /* the same as in runtime/run/schedule.h */
#include "runtime/run/schedule.def"
    ;
#undef SCHEDULE

#define FIELD(id, path, type, def, lo, hi, choices, unit, bits, doc) \
    {path, FT_##type, def, lo, hi, choices, unit, BITS_##bits, doc},
const FieldRow field_row[NFIELDS] = {
#include "gen/config/fields.def"
};

#define FLAG(name, type, def, lo, hi, value, recipe, readers, doc) \
    {#name, FT_##type, (double)(lo), (double)(hi), value, (recipe) & 3, readers, doc},
const RunFlag run_flag[] = {
#include "runtime/run/flags.def"
};
const int nrun_flags = (int)(sizeof run_flag / sizeof *run_flag);

const char *const bits_name[] = {"same", "rounding", "method"};

Bits field_bits(const Config *c, int field)
{
    const bool of_ranks = field == F_gpus || field == F_memory_zero;
    return of_ranks && !strcmp(c->v[F_comm_order].s, "canonical") ? BITS_same
                                                                    : field_row[field].bits;
}

static const char *target_name(int i) { return target_row(i)->name; }
static const char *family_name(int i) { return family_row(i)->name; }
static const char *objective_name(int i) { return objective_row(i)->name; }
static int cards_and_none(void) { return card_count() + 1; }
static const char *card_name(int i) { return i ? card_row(i - 1)->name : "none"; }

/* Words of a choice that rows of other tables name: "a|b". */
static const char *words_of(int (*count)(void), const char *(*name)(int i))
{
    Str s = {0};
    for (int i = 0; i < count(); i++)
        str_print(&s, "%s%s", i ? "|" : "", name(i));
    return s.text;
}
static const char *target_words(void) { return words_of(target_count, target_name); }
static const char *family_words(void) { return words_of(family_count, family_name); }
static const char *objective_words(void) { return words_of(objective_count, objective_name); }
static const char *card_words(void) { return words_of(cards_and_none, card_name); }

/* The values of data.kind of all objectives. */
static const char *kind_words(void)
{
    Str s = {0};
    str_print(&s, "%s", "");
    for (int k = 0; k < objective_count(); k++)
        for (const char *p = objective_row(k)->kinds; *p; p += *p == '|') {
            const char *kind = text_print("%.*s", (int)strcspn(p, "|"), p);
            p += strlen(kind);
            if (!names_listed(s.text, kind))
                str_print(&s, "%s%s", *s.text ? "|" : "", kind);
        }
    return s.text;
}

const char *field_choices(int field)
{
    static struct {
        const char *mark;
        const char *(*make)(void);
        const char *words;               /* made once; not in the arena, which a fuzzer empties */
    } table[] = {{"@targets", target_words, NULL},
                 {"@families", family_words, NULL},
                 {"@objectives", objective_words, NULL},
                 {"@cards", card_words, NULL},
                 {"@kinds", kind_words, NULL}};
    const char *choices = field_row[field].choices;
    for (size_t k = 0; *choices == '@' && k < sizeof table / sizeof *table; k++)
        if (!strcmp(choices, table[k].mark))
            return table[k].words ? table[k].words : (table[k].words = strdup(table[k].make()));
    return choices;
}

const char *field_objectives(int field)
{
    static const int owners[NFIELDS] = {
#define NEEDS(id, capability) [F_##id] = OWNERS(capability),
#include "gen/config/fields.def"
#define FIELD(id, ...) [F_##id] = OWNERS(ME),
#include "runtime/objectives/rows.def"
    };
    return owners_text(owners[field]);
}

const char *run_flag_objectives(int flag)
{
    static const struct {
        const char *flag;
        int owners;
    } row[] = {
#define NEEDS(flag, capability) {#flag, OWNERS(capability)},
#include "runtime/run/flags.def"
#define FLAG(name, ...) {#name, OWNERS(ME)},
#include "runtime/objectives/rows.def"
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (!strcmp(row[i].flag, run_flag[flag].name))
            return owners_text(row[i].owners);
    return NULL;
}

const char *run_flag_doc(int flag)
{
    static const struct {
        const char *flag, *objective, *doc;
    } row[] = {
#define DOC(flag, objective, doc) {#flag, #objective, doc},
#include "runtime/run/flags.def"
    };
    const char *text = run_flag[flag].doc;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (!strcmp(row[i].flag, run_flag[flag].name))
            text = text_print("%s; of programs of %s: %s", text, row[i].objective, row[i].doc);
    return text;
}

bool run_flag_applies(int flag, const char *objective)
{
    static const char *const only[][2] = {
#define ONLY(objective, flags) {#objective, flags},
#include "runtime/run/flags.def"
        {NULL, NULL}};
    const char *of = run_flag_objectives(flag);
    for (int i = 0; only[i][0]; i++)
        if (!strcmp(only[i][0], objective))
            return names_listed(only[i][1], run_flag[flag].name);
    return !of || names_listed(of, objective);
}

bool field_of_families(int field)
{
    static const bool row[NFIELDS] = {
#define OF_FAMILIES(id) [F_##id] = true,
#include "gen/config/fields.def"
    };
    return row[field];
}

bool field_of_cluster(int field)
{
    return !strncmp(field_row[field].path, "cluster.", 8);
}

bool field_applies(const Config *c, int field)
{
    if (field_of_cluster(field))
        return c->cluster;
    const char *family = c->v[F_model_family].s;
    if (field_of_families(field) && family &&
        !family_writes(family_find(family), field_row[field].path))
        return false;
    const char *of = field_objectives(field), *objective = c->v[F_objective].s;
    if (!of && objective && objective_find(objective)->standalone)
        return field == F_name || field == F_about || field == F_target || field == F_objective;
    return !of || !objective || names_listed(of, objective);
}

const char *field_fixed(const Config *c, int field)
{
    static const struct {
        int field;
        const char *objective, *why;
    } row[] = {
#define FIXED(id, objective, why) {F_##id, #objective, why},
#include "gen/config/fields.def"
        {NFIELDS, "", ""}
    };
    for (size_t i = 0; row[i].field < NFIELDS && c->v[F_objective].s; i++)
        if (row[i].field == field && !strcmp(row[i].objective, c->v[F_objective].s))
            return row[i].why;
    return NULL;
}

int run_flag_find(const char *name)
{
    for (int i = 0; i < nrun_flags; i++)
        if (!strcmp(run_flag[i].name, name))
            return i;
    return -1;
}

int run_flag_typed(const char *argument)
{
    if (strncmp(argument, "--", 2))
        return -1;
    const char *name = text_print("%.*s", (int)strcspn(argument + 2, "="), argument + 2);
    name = renamed(name) ? renamed(name) : name;
    const Alias *row = alias_find(name);
    for (int i = 0; i < nrun_flags; i++)
        if (names_same(run_flag[i].name, name) ||
            (row && row->kind == ALIAS_FLAG && names_same(run_flag[i].name, row->ours)))
            return i;
    return -1;
}

bool run_flag_command(int flag)
{
    return names_listed(run_flag[flag].readers, run_flag[flag].name);
}

bool run_flag_words(int flag)
{
    const RunFlag *f = &run_flag[flag];
    return f->type == FT_STRING && strchr(f->value, '|')
           && !strpbrk(f->value, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
}

int field_find(const char *path)
{
    static const char *const other[][2] = {{"ranks", "gpus"}, {"tune", "tune.lock"}};
    for (size_t i = 0; i < sizeof other / sizeof *other; i++)
        if (!strcmp(other[i][0], path))
            path = other[i][1];
    for (int i = 0; i < NFIELDS; i++)
        if (!strcmp(field_row[i].path, path))
            return i;
    return -1;
}

bool choice_find(const char *choices, const char *word, int64_t *at)
{
    size_t n = strlen(word);
    *at = 0;
    for (const char *p = choices; *p; (*at)++) {
        size_t k = strcspn(p, "|");
        if (k && k == n && !strncmp(p, word, n))
            return true;
        p += k;
        p += *p == '|';
    }
    return false;
}

/* ---- one value in Lua's spelling ----------------------------------------------------------- */

static char *float_print(double f)
{
    if (isnan(f))
        return text_copy("nan");
    if (isinf(f))
        return text_copy(f < 0 ? "-inf" : "inf");
    char *s = NULL;
    for (int digits = 15; digits <= 17; digits++) {
        s = text_print("%.*g", digits, f);
        if (strtod(s, NULL) == f)
            break;
    }
    return strpbrk(s, ".e") ? s : text_print("%s.0", s);
}

static void quote(Str *s, const char *text)
{
    str_print(s, "\"");
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\')
            str_print(s, "\\%c", c);
        else if (c < ' ' || c == 127)
            str_print(s, "\\%03d", c);
        else
            str_print(s, "%c", c);
    }
    str_print(s, "\"");
}

char *value_print(FieldType type, const FieldValue *v)
{
    Str s = {0};
    switch (type) {
    case FT_EVERY:
        if (v->s)
            return text_copy(v->s);
        return text_print("%" PRId64, v->i);
    case FT_INT:
        return text_print("%" PRId64, v->i);
    case FT_FLOAT:
        return float_print(v->f);
    case FT_BOOL:
        return text_copy(v->i ? "true" : "false");
    case FT_STRING:
    case FT_CHOICE:
        quote(&s, v->s);
        return s.text;
    case FT_LIST:
        str_print(&s, "{");
        for (int i = 0; i < v->n; i++) {
            str_print(&s, i ? ", " : "");
            quote(&s, v->list[i]);
        }
        str_print(&s, "}");
        return s.text;
    }
    return NULL;
}

/* Parses a string to *out and moves *text past it. Returns NULL, or what was expected. */
static const char *parse_string(const char **text, const char **out)
{
    const char *p = *text;
    Str s = {0};
    str_print(&s, "%s", "");
    if (*p++ != '"')
        return "a string in double quotes";
    while (*p && *p != '"' && *p != '\n') {
        int c = (unsigned char)*p++;
        if (c == '\\' && (*p == '"' || *p == '\\'))
            c = *p++;
        else if (c == '\\') {
            char digit[4] = {0};
            memcpy(digit, p, strnlen(p, 3));
            c = strspn(digit, "0123456789") == 3 ? atoi(digit) : 0;
            if (c < 1 || c > 255)
                return "one of \\\" \\\\ \\ddd after a backslash";
            p += 3;
        }
        str_print(&s, "%c", c);
    }
    if (*p != '"')
        return "a closing quote";
    *text = p + 1;
    *out = s.text;
    return NULL;
}

static const char *parse_list(const char **text, FieldValue *v)
{
    const char *p = *text, *wrong;
    if (*p++ != '{')
        return "a list {\"a\", \"b\"}";
    while (*p != '}') {
        if (v->n) {
            if (strncmp(p, ", ", 2))
                return "a comma and a blank between items";
            p += 2;
        }
        size_t n = (size_t)v->n;
        if ((n & (n + 1)) == 0)             /* full at 0, 1, 3, 7 ... items */
            v->list = arena_grow(v->list, n * sizeof *v->list, (2 * n + 1) * sizeof *v->list);
        if ((wrong = parse_string(&p, &v->list[v->n])))
            return wrong;
        v->n++;
    }
    *text = p + 1;
    return NULL;
}

const char *value_parse(FieldType type, const char **text, FieldValue *v)
{
    char *end;
    size_t n;
    switch (type) {
    case FT_EVERY:
        if (names_epochs(*text, &n)) {
            v->s = text_print("%.*s", (int)n, *text);
            *text += n;
            return NULL;
        }
        /* fall through */
    case FT_INT:
        errno = 0;
        v->i = strtoll(*text, &end, 10);
        v->f = (double)v->i;
        if (end == *text || errno)
            return "an integer";
        *text = end;
        return NULL;
    case FT_FLOAT:
        v->f = strtod(*text, &end);
        if (end == *text || !isfinite(v->f))
            return "a number";
        *text = end;
        return NULL;
    case FT_BOOL:
        v->i = !strncmp(*text, "true", 4);
        if (!v->i && strncmp(*text, "false", 5))
            return "true or false";
        *text += v->i ? 4 : 5;
        return NULL;
    case FT_STRING:
    case FT_CHOICE:
        return parse_string(text, &v->s);
    case FT_LIST:
        return parse_list(text, v);
    }
    return "another type";
}

char *range_print(FieldType type, double lo, double hi, const char *choices)
{
    switch (type) {
    case FT_INT:
        return text_print("an integer from %.15g to %.15g", lo, hi);
    case FT_EVERY:
        return text_print("an integer from %.15g to %.15g, \"epoch\" or \"5epochs\"", lo, hi);
    case FT_FLOAT:
        return text_print("a number from %.15g to %.15g", lo, hi);
    case FT_BOOL:
        return text_copy("true or false");
    case FT_STRING:
        return text_copy("a string");
    case FT_CHOICE:
        return text_print("one of %s", choices);
    case FT_LIST:
        return text_copy("a list of strings");
    }
    return NULL;
}

const char *field_default_word(int field)
{
    const char *text = field_row[field].def;
    FieldValue v = {0};
    if (value_parse(field_row[field].type, &text, &v) || !v.s)
        bug("%s: default %s is no word", field_row[field].path, field_row[field].def);
    return v.s;
}
