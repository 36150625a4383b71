/* foreign.c -- settings of other trainers in words of ours: one name, or a file of them.
 *
 * In:    rows of runtime/files/foreign.def; a YAML, JSON or TOML text.   Out: what to write instead.
 * Keeps: a value is taken over only where ours means the same; everything else is named.
 * Method: keys with a plain value or a list of them, wherever they stand; no structure is read. */
#include "gen/gen.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- one name ------------------------------------------------------------------------------ */

/* In Lua's spelling for a field or flag of this type; NULL: no value of it. */
static char *lua_value(FieldType type, const char *ours, const char *text)
{
    FieldValue v = {.s = foreign_word(ours, text)};
    const char *p = v.s;
    Str s = {0};
    size_t n;
    switch (type) {
    case FT_EVERY:
        if (names_epochs(p, &n) && !p[n]) {
            v.s = p;
            return value_print(FT_STRING, &v);
        }
        /* fall through */
    case FT_INT:
    case FT_FLOAT:
        if (!*p || p[strspn(p, "-+.0123456789eE")] || value_parse(type, &p, &v) || *p)
            return NULL;
        return text_copy(v.s);
    case FT_BOOL:
        return names_same(p, "true") ? "true" : names_same(p, "false") ? "false" : NULL;
    case FT_LIST:
        for (const char *q = p; *q; q += q[strcspn(q, ",")] ? strcspn(q, ",") + 1 : strlen(q)) {
            FieldValue one = {.s = text_print("%.*s", (int)strcspn(q, ","), q)};
            str_print(&s, "%s%s", s.n ? ", " : "", value_print(FT_STRING, &one));
        }
        return s.n ? text_print("{ %s }", s.text) : NULL;
    case FT_CHOICE:
        return choice_find(field_choices(field_find(ours)), p, &v.i) ? value_print(FT_STRING, &v) : NULL;
    default:
        if (field_find(ours) < 0 && run_flag_words(run_flag_find(ours))
            && !choice_find(run_flag[run_flag_find(ours)].value, p, &v.i))
            return NULL;
        return value_print(FT_STRING, &v);
    }
}

static const char *noted(const Foreign *row)
{
    return *row->note ? text_print(" (%s)", row->note) : "";
}

const char *foreign_typed(const Foreign *row, const char *given)
{
    int flag = run_flag_find(row->ours);
    const char *value = given && !given[strcspn(given, " '\"\\")] && *given ? given : "VALUE";
    if (row->kind == FOREIGN_RECIPE && *row->value == '=' && foreign_off(given))
        return text_print("leave it out; here it is %s%s", row->ours, noted(row));
    if (row->kind == FOREIGN_RECIPE)
        return text_print("here it is the word %s=%s%s", row->ours, foreign_value(row, given),
                          noted(row));
    if (row->kind == FOREIGN_ALIAS && run_flag[flag].recipe)
        return text_print("here it is the word run.%s=%s%s", row->ours, value, noted(row));
    return foreign_say(row);
}

const char *foreign_say(const Foreign *row)
{
    int flag = run_flag_find(row->ours), field = field_find(row->ours);
    switch (row->kind) {
    case FOREIGN_ALIAS:
    case FOREIGN_LINE:
        return run_flag[flag].recipe
                   ? text_print("here it is run.%s%s", row->ours, noted(row))
                   : text_print("here it is the flag --%s of the training program%s", row->ours,
                                noted(row));
    case FOREIGN_RECIPE:
        if (*row->value != '=')
            return text_print("here it is %s%s", row->ours, noted(row));
        return text_print("here it is %s = %s%s", row->ours,
                          lua_value(field_row[field].type, row->ours, row->value + 1), noted(row));
    case FOREIGN_NONE:
        return text_print("not supported: %s", row->note);
    case FOREIGN_ALWAYS:
        return text_print("%s: leave it out", row->note);
    default:
        return row->note;
    }
}

/* ---- a file of them ------------------------------------------------------------------------ */

enum { MAX_PAIRS = 200 };

typedef struct {
    const char *key, *value;     /* value: a list as a,b,c; "": a table of its own */
} Pair;

typedef struct {
    const char *p;
    char comment;                /* '#', or 0: there are none */
    bool commas;                 /* JSON: a comma or brace ends a value */
} Scan;

static void skip(Scan *s, const char *what)
{
    s->p += strspn(s->p, what);
}

/* A quoted text, or everything up to the end of the value. */
static char *scalar(Scan *s, bool in_list)
{
    if (*s->p == '"' || *s->p == '\'') {
        const char quote[] = {*s->p++, '\n', 0};
        size_t n = strcspn(s->p, quote);
        char *text = text_print("%.*s", (int)n, s->p);
        s->p += n + (s->p[n] == quote[0]);
        return text;
    }
    size_t n = strcspn(s->p, in_list ? ",]\n" : s->commas ? ",}]\n" : "\n");
    for (size_t i = 1; s->comment && i < n; i++)
        if (s->p[i] == s->comment && isspace((unsigned char)s->p[i - 1]))
            n = i;
    const char *from = s->p;
    s->p += n;
    while (n && isspace((unsigned char)from[n - 1]))
        n--;
    return text_print("%.*s", (int)n, from);
}

static char *list(Scan *s)
{
    Str items = {0};
    str_print(&items, "%s", "");
    for (s->p++; *s->p && *s->p != ']';) {
        skip(s, " \t\r\n,");
        if (*s->p && *s->p != ']')
            str_print(&items, "%s%s", items.n ? "," : "", scalar(s, true));
    }
    s->p += *s->p == ']';
    return items.text;
}

/* YAML: the lines `- item` below a key. */
static char *dashes(Scan *s)
{
    Str items = {0};
    str_print(&items, "%s", "");
    for (const char *q = s->p; q += strspn(q, " \t\r\n"), q[0] == '-' && q[1] == ' '; q = s->p) {
        s->p = q + 1;
        skip(s, " \t");
        const char *item = scalar(s, false);
        if (strchr(item, ':'))               /* an item with keys of its own */
            break;
        str_print(&items, "%s%s", items.n ? "," : "", item);
    }
    return items.text;
}

static int pairs_of(const char *text, const char *language, Pair *pair)
{
    bool json = !strcmp(language, "JSON");
    Scan s = {text, json ? 0 : '#', json};
    char sign = strcmp(language, "TOML") ? ':' : '=';
    int n = 0;
    while (*s.p && n < MAX_PAIRS) {
        skip(&s, json ? " \t\r\n,{}[]" : " \t\r\n");
        if (!json && s.p[0] == '-' && s.p[1] == ' ')
            s.p += 2;
        const char *from = s.p;
        char quote = *s.p == '"' || *s.p == '\'' ? *s.p++ : 0;
        size_t k = 0;
        while (isalnum((unsigned char)s.p[k]) || (s.p[k] && strchr("_-.", s.p[k])))
            k++;
        const char *key = text_print("%.*s", (int)k, s.p);
        s.p += k + (quote && s.p[k] == quote);
        skip(&s, " \t");
        if (!k || *s.p != sign) {
            s.p = from;
            s.p += strcspn(s.p, json ? "\n,}" : "\n");
            continue;
        }
        s.p++;
        skip(&s, " \t");
        const char *value = json && *s.p == '{' ? "" : *s.p == '[' ? list(&s) : scalar(&s, false);
        if (!*value && sign == ':' && !json)
            value = dashes(&s);
        pair[n++] = (Pair){key, value};
    }
    return n;
}

/* What was taken over: of a field, or of a run flag behind them. */
typedef struct {
    const char *lua[NFIELDS + MAX_PAIRS];
    size_t when[NFIELDS + MAX_PAIRS];        /* that of a WHEN row: its number, from 1 */
    Str rest;                    /* a line for each of the others */
    Str unknown;                 /* names */
} Taken;

/* Takes what the WHEN rows of this name and value say, unless a later row was taken; returns whether there are any. */
static bool take_when(Taken *t, const char *key, const char *given)
{
    static const struct { const char *theirs, *given, *ours, *value; } row[] = {
#define WHEN(theirs, given, ours, value) {theirs, given, ours, value},
#include "runtime/files/foreign.def"
    };
    bool any = false;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        if (!names_same(row[i].theirs, key) || !names_same(row[i].given, given))
            continue;
        int field = field_find(row[i].ours), flag = run_flag_find(row[i].ours);
        int at = field >= 0 ? field : NFIELDS + flag;
        any = true;
        if (t->lua[at] && (!t->when[at] || t->when[at] > i + 1))
            continue;
        t->when[at] = i + 1;
        t->lua[at] = lua_value(field >= 0 ? field_row[field].type : run_flag[flag].type,
                               row[i].ours, row[i].value);
    }
    return any;
}

static void take_pair(Taken *t, const Pair *p)
{
    const char *dot = strrchr(p->key, '.'), *key = dot ? dot + 1 : p->key;
    if (take_when(t, key, p->value))
        return;
    const Foreign *row = foreign_find(key);
    int flag = run_flag_find(row && row->kind == FOREIGN_ALIAS ? row->ours : key);
    int field = row && row->kind == FOREIGN_RECIPE ? field_find(row->ours) : field_find(p->key);
    bool fixed = row && *row->value == '=';
    const char *value = NULL;
    if (!*p->value ? !row || (row->kind != FOREIGN_LINE && row->kind != FOREIGN_NONE)
                   : fixed && field >= 0 && foreign_off(p->value))
        return;
    if (field >= 0)
        value = lua_value(field_row[field].type, field_row[field].path,
                          fixed ? row->value + 1 : p->value);
    else if (flag >= 0 && run_flag[flag].recipe
             && (row ? row->kind == FOREIGN_ALIAS : run_flag[flag].type != FT_STRING))
        value = lua_value(run_flag[flag].type, run_flag[flag].name, p->value);
    int at = field >= 0 ? field : NFIELDS + flag;
    if (value && !t->lua[at])
        t->lua[at] = value;
    else if (row && !value && !foreign_off(p->value))
        str_print(&t->rest, "\n    %s: %s", key, foreign_say(row));
    else if (flag >= 0 && !value)            /* a text, of which only we know that we mean the same */
        str_print(&t->rest, "\n    %s: here run.%s is: %s", key, key, run_flag[flag].doc);
    else if (!row && !value)
        str_print(&t->unknown, "%s%s", t->unknown.n ? ", " : "", key);
}

static void print_section(Str *s, const Taken *t, const char *section)
{
    size_t n = strlen(section), before = s->n;
    bool run = !strcmp(section, "run");
    for (int i = run ? NFIELDS : 0; i < (run ? NFIELDS + nrun_flags : NFIELDS); i++) {
        const char *path = run ? run_flag[i - NFIELDS].name : field_row[i].path;
        const char *dot = run ? NULL : strchr(path, '.');
        bool here = run || (n ? dot && (size_t)(dot - path) == n && !strncmp(path, section, n)
                              : !dot);
        if (here && t->lua[i] && !n)
            str_print(s, "\n        %s = %s,", path, t->lua[i]);
        else if (here && t->lua[i])
            str_print(s, "%s%s = %s", s->n > before ? ", " : text_print("\n        %s = { ", section),
                      dot ? dot + 1 : path, t->lua[i]);
    }
    if (n && s->n > before)
        str_print(s, " },");
}

void foreign_file(const char *path, const char *language, const char *text)
{
    Pair pair[MAX_PAIRS];
    Taken t = {0};
    Str s = {0}, open = {0};
    for (int i = 0, n = pairs_of(text, language, pair); i < n; i++)
        take_pair(&t, &pair[i]);
    str_print(&s, " As far as the names are known:\n    return {");
    size_t empty = s.n;
    print_section(&s, &t, "");
    for (int i = 0; i < NFIELDS; i++) {
        const char *dot = strchr(field_row[i].path, '.');
        size_t n = dot ? (size_t)(dot - field_row[i].path) : 0;
        if (n && (i == 0 || strncmp(field_row[i - 1].path, field_row[i].path, n + 1)))
            print_section(&s, &t, text_print("%.*s", (int)n, field_row[i].path));
        if (!*field_row[i].def && !t.lua[i])
            str_print(&open, "%s%s", open.n ? ", " : "", field_row[i].path);
    }
    print_section(&s, &t, "run");
    bool any = s.n > empty;
    str_print(&s, "\n    }%s%s", open.n ? "\nstill to be set: " : "", open.n ? open.text : "");
    err((Loc){0},
        "%s is %s; a recipe is a Lua file that returns a table (gen list has some to start from, gen "
        "fields every field).%s%s%s%s%s",
        path, language, any ? s.text : "",
        t.rest.n ? "\nelse:" : "", t.rest.n ? t.rest.text : "", t.unknown.n ? "\nno names of this project: " : "",
        t.unknown.n ? t.unknown.text : "");
}
