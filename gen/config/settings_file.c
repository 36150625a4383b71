/* settings_file.c -- conversion of another trainer's settings file to a recipe.
 *
 * In:    the tree of settings.c; rows of runtime/files/aliases.def.
 * Out:   one message with the recipe.
 * Keeps: rows map values to values. Explicit values override implied ones; two explicit values that
 *        differ are an error. Every key of the file is in the recipe or listed after it.
 * Method: a walk over the tree names each value by its path and adds its claims to a list; for each
 *         field one claim is chosen, independent of the order of the file. */
#include "gen/config/alias.h"
#include "gen/config/objective.h"
#include "gen/config/settings.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* A value of the file, and the name for its lookup. */
typedef struct {
    const Setting *s;
    const char *path;            /* full, for messages */
    const char *name;            /* of aliases.def, or a field or flag of ours */
    bool taken;                  /* at least a part of it is in the recipe */
    bool needless;               /* always true here, or off and not supported here */
    const char *why;             /* why it is not carried over; NULL: unknown name */
} Key;

/* A value that a key gives a field or flag. */
typedef struct {
    int key;                     /* its number */
    int at;                      /* a field, or NFIELDS + flag */
    const char *lua;             /* NULL: another key has the value */
    bool adds;                   /* to a list */
    bool denies;                 /* the value is another one */
    int implied;                 /* 0: explicit; else a priority, larger ones win */
} Claim;

typedef struct {
    const char *path;
    Key *key;
    int nkeys, capkeys;
    Claim *claim;
    int nclaims, capclaims;
    const Setting *root;
    long nodes;
} File;

/* ---- values in Lua's spelling ---------------------------------------------------------------- */

static FieldType type_of(int at)
{
    return at < NFIELDS ? field_row[at].type : run_flag[at - NFIELDS].type;
}

static const char *path_of(int at)
{
    return at < NFIELDS ? field_row[at].path : text_print("run.%s", run_flag[at - NFIELDS].name);
}

static const char *bare_of(int at)
{
    return at < NFIELDS ? field_row[at].path : run_flag[at - NFIELDS].name;
}

static char *lua_number(int at, const char *p)
{
    const FieldType type = type_of(at);
    FieldValue v = {0};
    p += *p == '+';
    const char *end = p;
    if (!*p || p[strspn(p, "-+.0123456789eE")] || value_parse(type, &end, &v) || *end)
        return NULL;
    const double lo = at < NFIELDS ? field_row[at].lo : run_flag[at - NFIELDS].lo;
    const double hi = at < NFIELDS ? field_row[at].hi : run_flag[at - NFIELDS].hi;
    const double value = type == FT_FLOAT ? v.f : (double)v.i;
    return value < lo || value > hi ? NULL : text_copy(p);
}

static char *lua_list(const char *ours, const char *p)
{
    Str s = {0};
    for (size_t n; *p; p += n + (p[n] == ',')) {
        p += strspn(p, " ");
        n = strcspn(p, ",");
        if (!n)
            continue;
        FieldValue one = {.s = alias_word(ours, text_print("%.*s", (int)n, p))};
        str_print(&s, "%s%s", s.n ? ", " : "", value_print(FT_STRING, &one));
    }
    return s.n ? text_print("{ %s }", s.text) : NULL;
}

/* Value of a field or flag in Lua syntax; NULL: invalid. */
static char *lua_value(int at, const char *text)
{
    const char *ours = bare_of(at), *word = alias_word(ours, text);
    FieldValue v = {.s = word};
    size_t n;
    switch (type_of(at)) {
    case FT_EVERY:
        if (names_epochs(word, &n) && !word[n])
            return value_print(FT_STRING, &v);
        /* fall through */
    case FT_INT:
    case FT_FLOAT:
        return lua_number(at, word);
    case FT_BOOL:
        return names_same(word, "true") ? "true" : names_same(word, "false") ? "false" : NULL;
    case FT_LIST:
        return lua_list(ours, text);
    case FT_CHOICE:
        return choice_find(field_choices(at), word, &v.i) ? value_print(FT_STRING, &v) : NULL;
    default:
        if (at >= NFIELDS && run_flag_words(at - NFIELDS) &&
            !choice_find(run_flag[at - NFIELDS].value, word, &v.i))
            return NULL;
        return value_print(FT_STRING, &v);
    }
}

/* True if two values in Lua syntax are equal: 2e-4 and 0.0002. */
static bool same_lua(const char *a, const char *b)
{
    char *end_a, *end_b;
    if (!strcmp(a, b))
        return true;
    const double x = strtod(a, &end_a), y = strtod(b, &end_b);
    return end_a != a && end_b != b && !*end_a && !*end_b && x == y;
}

/* ---- keys ------------------------------------------------------------------------------------ */

static const struct { const char *path, *name; } path_row[] = {
#define PATH(path, name) {path, name},
#include "runtime/files/aliases.def"
};
static const char *const section_row[] = {
#define SECTION(path) path,
#include "runtime/files/aliases.def"
};
static const struct { const char *other, *name, *means; } beside_row[] = {
#define BESIDE(other, theirs, name) {other, theirs, name},
#include "runtime/files/aliases.def"
};
static const char *const nodes_row[] = {
#define NODES(theirs) theirs,
#include "runtime/files/aliases.def"
};
enum {
    PATHS = sizeof path_row / sizeof *path_row,
    SECTIONS = sizeof section_row / sizeof *section_row,
    BESIDES = sizeof beside_row / sizeof *beside_row,
    NODES_ROWS = sizeof nodes_row / sizeof *nodes_row
};

static bool named(const char *const *rows, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (names_same(rows[i], name))
            return true;
    return false;
}

/* True if a PATH row begins with this path and a dot. */
static bool has_paths(const char *path)
{
    const size_t n = strlen(path);
    for (int i = 0; i < PATHS; i++)
        if (strlen(path_row[i].path) > n && path_row[i].path[n] == '.'
            && names_same(text_print("%.*s", (int)n, path_row[i].path), path))
            return true;
    return false;
}

/* Field or flag of this name; -1: none. */
static int ours_find(const char *name)
{
    const int field = field_find(name),
              flag = run_flag_find(name + (strncmp(name, "run.", 4) ? 0 : 4));
    return field >= 0 ? field : flag >= 0 ? NFIELDS + flag : -1;
}

static const char *name_of(const char *full, const char *bare)
{
    for (int i = 0; i < PATHS; i++)
        if (names_same(path_row[i].path, full))
            return path_row[i].name;
    for (int i = 0; i < PATHS; i++)
        if (names_same(path_row[i].path, bare))
            return path_row[i].name;
    return ours_find(full) >= 0 ? full : bare;
}

/* Value at a path of the file; NULL: none. */
static const Setting *setting_at(const Setting *table, const char *path)
{
    const size_t n = strcspn(path, ".");
    for (const Setting *c = table->first; c && table->kind == SETTING_TABLE; c = c->next)
        if (names_same(c->key, text_print("%.*s", (int)n, path)))
            return path[n] ? setting_at(c, path + n + 1) : c;
    return NULL;
}

static void key_add(File *f, const Setting *s, const char *full, const char *name)
{
    if (f->nkeys == f->capkeys) {
        const size_t old = (size_t)f->capkeys * sizeof *f->key;
        f->capkeys = f->capkeys ? 2 * f->capkeys : 64;
        f->key = arena_grow(f->key, old, (size_t)f->capkeys * sizeof *f->key);
    }
    for (int i = 0; i < BESIDES; i++)
        if (names_same(beside_row[i].name, name) && setting_at(f->root, beside_row[i].other)) {
            name = beside_row[i].means;
            break;
        }
    f->key[f->nkeys++] = (Key){.s = s, .path = full, .name = name};
}

/* True if the members of a table are separate settings, not one value. */
static bool opens(const Setting *s, const char *full, const char *bare)
{
    if (!s->first || (s->kind != SETTING_TABLE && s->kind != SETTING_LIST))
        return false;
    if (has_paths(full) || has_paths(bare))
        return true;
    if (s->kind != SETTING_TABLE)
        return false;
    if (named(section_row, SECTIONS, full) || named(section_row, SECTIONS, bare))
        return true;
    for (const Setting *c = s->first; c; c = c->next)
        if (ours_find(text_print("%s.%s", full, c->key)) >= 0)
            return true;
    return !alias_find(bare);
}

static void walk(File *f, const Setting *table, const char *full, const char *bare)
{
    const bool section =
        !*full || named(section_row, SECTIONS, full) || named(section_row, SECTIONS, bare);
    int i = 0;
    for (const Setting *c = table->first; c; c = c->next, i++) {
        const char *key = table->kind == SETTING_LIST ? text_print("%d", i) : c->key;
        const char *path = *full ? text_print("%s.%s", full, key) : key;
        const char *name = section ? key : text_print("%s.%s", bare, key);
        if (opens(c, path, name))
            walk(f, c, path, name);
        else
            key_add(f, c, path, name_of(path, name));
    }
}

/* ---- what a key says ------------------------------------------------------------------------- */

static void claim_add(File *f, Claim c)
{
    if (f->nclaims == f->capclaims) {
        const size_t old = (size_t)f->capclaims * sizeof *f->claim;
        f->capclaims = f->capclaims ? 2 * f->capclaims : 64;
        f->claim = arena_grow(f->claim, old, (size_t)f->capclaims * sizeof *f->claim);
    }
    f->claim[f->nclaims++] = c;
}

/* Text of a scalar, or of a list of scalars joined by commas; NULL: none. */
static const char *given_text(const Setting *s)
{
    Str items = {0};
    if (s->kind == SETTING_TABLE || s->kind == SETTING_OTHER)
        return NULL;
    if (s->kind != SETTING_LIST)
        return s->text;
    for (const Setting *c = s->first; c; c = c->next) {
        if (c->kind > SETTING_TEXT || strchr(c->text, ','))
            return NULL;
        str_print(&items, "%s%s", items.n ? "," : "", c->text);
    }
    return items.n ? items.text : NULL;
}

/* True for null, "", [] and {}. */
static bool is_absent(const Setting *s)
{
    return s->kind == SETTING_NULL || (s->kind == SETTING_TEXT && !s->text[strspn(s->text, " \t")])
        || ((s->kind == SETTING_LIST || s->kind == SETTING_TABLE) && !s->first);
}

/* Adds the claims of WHEN and IMPLIED rows. covers: the field or flag that the name itself means,
 * -1: none. Returns true if they give it a value. */
static bool claim_meanings(File *f, int key, const char *given, int covers)
{
    bool matched = false;
    for (int i = 0; i < alias_meanings; i++) {
        const AliasMeaning *m = &alias_meaning[i];
        if (!alias_meant(m, f->key[key].name, given))
            continue;
        const int at = *m->ours ? ours_find(m->ours) : -1;
        if (at < 0)
            f->key[key].needless = true;
        else
            claim_add(f, (Claim){key, at,
                                 *m->value == '?' ? NULL
                                                  : lua_value(at, m->value + (*m->value == '+')),
                                 *m->value == '+', false, m->implied ? i + 1 : 0});
        matched = matched || at == covers || at < 0 || strcmp(m->given, "*");
    }
    return matched;
}

/* The value, multiplied by the number of nodes if the name is a count per node. */
static const char *of_all_nodes(const File *f, const char *name, const char *given)
{
    char *end;
    const long n = strtol(given, &end, 10);
    return f->nodes > 1 && alias_per_node(name) && !*end ? text_print("%ld", n * f->nodes)
                                                           : given;
}

/* Why a value is not carried over; row NULL: `at` is our own field or flag. */
static const char *reason(int at, const Alias *row, const char *given)
{
    if (row && !*row->ours)
        return alias_say(row);
    if (strstr(given, "${"))
        return "references to other keys are not resolved: write the value";
    if (!strcmp(given, "auto"))
        return "\"auto\" leaves the value to another program: write the value";
    if (at >= NFIELDS && !run_flag[at - NFIELDS].recipe)
        return text_print("only a flag of the training program: --%s",
                          run_flag[at - NFIELDS].name);
    if (row)
        return alias_say(row);
    if (at >= NFIELDS)
        return text_print("here %s is: %s", path_of(at), run_flag_doc(at - NFIELDS));
    const FieldRow *r = &field_row[at];
    const char *choices = field_choices(at);
    return text_print("here %s is %s", path_of(at),
                      range_print(r->type, r->lo, r->hi, choices ? choices : ""));
}

/* Adds the claims of UNLESS rows. */
static void claim_denials(File *f, int key, const char *given)
{
    for (int i = 0; i < alias_denials; i++) {
        const AliasDenial *d = &alias_denial[i];
        const int at = ours_find(d->ours);
        if (names_same(d->name, f->key[key].name) && alias_given(d->given, given))
            claim_add(f, (Claim){key, at, lua_value(at, d->value), false, true, 0});
    }
}

static void claim_value(File *f, int i)
{
    Key *k = &f->key[i];
    const char *given = given_text(k->s);
    const Alias *row = alias_find(k->name);
    const int at = row ? (*row->ours ? ours_find(row->ours) : -1) : ours_find(k->name);
    if (is_absent(k->s)) {
        k->needless = true;
        return;
    }
    if (k->s->kind == SETTING_TABLE) {
        const Setting *enabled = setting_at(k->s, "enabled");
        k->needless = row && enabled && alias_off(enabled->text);
    }
    if (given)
        claim_denials(f, i, given);
    if (given && claim_meanings(f, i, given, at))
        return;
    if (given && row && alias_off(given) &&
        (row->kind == ALIAS_NONE || row->kind == ALIAS_MEANS))
        k->needless = true;
    if (given && row && row->kind == ALIAS_ALWAYS)
        k->needless = names_same(given, row->value);
    const bool passes =
        row ? row->kind == ALIAS_FLAG || row->kind == ALIAS_LINE || row->kind == ALIAS_FIELD
            : at >= 0 && (at < NFIELDS || type_of(at) != FT_STRING || run_flag_words(at - NFIELDS));
    const char *lua = NULL;
    if (given && passes && !strstr(given, "${") && (at < NFIELDS || run_flag[at - NFIELDS].recipe)
        && (!row || alias_share(row, given)))
        lua = lua_value(at, of_all_nodes(f, k->name, given));
    if (lua)
        claim_add(f, (Claim){i, at, lua, false, false, 0});
    else if (k->s->kind == SETTING_OTHER && (row || at >= 0))
        k->why = "expressions are not evaluated: write the value";
    else if (row || at >= 0)
        k->why = reason(at, row, given ? given : "");
}

/* ---- which claim counts ---------------------------------------------------------------------- */

static int by_path(const void *a, const void *b)
{
    const Key *x = *(const Key *const *)a, *y = *(const Key *const *)b;
    const int order = strcmp(x->path, y->path);
    return order ? order : x->s->line - y->s->line;
}

static void two_values(const File *f, const Claim *a, const Claim *b)
{
    const Key *key[] = {&f->key[a->key], &f->key[b->key]};
    qsort(key, 2, sizeof *key, by_path);
    err_add((Loc){0},
            "%s: %s: %s (line %d) and %s: %s (line %d) set %s to different values: keep one of "
            "them",
            f->path, key[0]->path, setting_shown(key[0]->s), key[0]->s->line, key[1]->path,
            setting_shown(key[1]->s), key[1]->s->line, path_of(a->at));
}

/* Union of two lists of modules; all-linear includes all. */
static char *joined(const char *a, const char *b)
{
    static const char all[] = "\"all-linear\"";
    if (!a || strstr(b, all))
        return text_copy(b);
    if (strstr(a, all))
        return text_copy(a);
    Str s = {0};
    str_print(&s, "%.*s", (int)strlen(a) - 2, a);
    for (const char *p = strchr(b, '"'); p; p = strchr(p, '"')) {
        const char *end = strchr(p + 1, '"') + 1;
        const char *one = text_print("%.*s", (int)(end - p), p);
        if (!strstr(a, one))
            str_print(&s, ", %s", one);
        p = end;
    }
    str_print(&s, " }");
    return s.text;
}

/* Chosen value of a field or flag, NULL: none; marks the keys that it comes from. */
static const char *chosen(File *f, int at)
{
    const Claim *best = NULL, *left = NULL;
    const char *value = NULL;
    for (int i = 0; i < f->nclaims; i++) {
        const Claim *c = &f->claim[i];
        if (c->at != at || c->adds || c->denies)
            continue;
        if (!c->lua) {
            left = c;
            continue;
        }
        if (!best || (best->implied && (!c->implied || c->implied > best->implied)))
            best = c;
        else if (!best->implied && !c->implied && !same_lua(best->lua, c->lua))
            two_values(f, best, c);
    }
    if (best && left && same_lua(best->lua, "0"))
        two_values(f, left, best);
    for (int i = 0; best && !best->implied && i < f->nclaims; i++)
        if (f->claim[i].at == at && f->claim[i].denies && same_lua(f->claim[i].lua, best->lua))
            two_values(f, &f->claim[i], best);
    value = best ? best->lua : NULL;
    for (int i = 0; i < f->nclaims; i++) {
        const Claim *c = &f->claim[i];
        Key *k = &f->key[c->key];
        if (c->at != at || c->denies)
            continue;
        if (c->adds)
            value = joined(value, c->lua);
        k->taken = k->taken || c->adds || (best && c->lua && same_lua(c->lua, best->lua));
        if (!c->lua && best)
            k->taken = true;
        else if (!c->lua)
            k->why = text_print("needs %s, which no key of this file sets", path_of(at));
        if (c->lua && best && !k->taken && !k->why)
            k->why = text_print("%s overrides it", f->key[best->key].path);
    }
    return value;
}

/* Why the objective does not have the field. */
static const char *of_another(int at, const char *objective)
{
    const char *owners = at < NFIELDS ? field_objectives(at) : run_flag_objectives(at - NFIELDS);
    const bool applies = at < NFIELDS ? !owners || names_listed(owners, objective)
                                      : run_flag_applies(at - NFIELDS, objective);
    return applies ? NULL
                   : text_print("%s applies to the objective %s; this file trains %s", path_of(at),
                                owners ? owners : "of another program", objective);
}

static bool learns_from(const char *objective, const char *kind)
{
    return names_listed(objective_find(objective)->kinds, kind);
}

static bool is_only_claim(const File *f, int claim)
{
    for (int i = 0; i < f->nclaims; i++)
        if (i != claim && f->claim[i].key == f->claim[claim].key && !f->claim[i].denies)
            return false;
    return true;
}

/* Stores the values of fields and flags by number; NULL: not set. */
static void choose(File *f, const char **lua)
{
    const char *objective = chosen(f, F_objective), *word = field_default_word(F_objective);
    lua[F_objective] = objective;
    if (objective)
        word = text_print("%.*s", (int)strlen(objective) - 2, objective + 1);
    for (int at = 0; at < NFIELDS + nrun_flags; at++) {
        if (at == F_objective)
            continue;
        const char *value = chosen(f, at), *why = value ? of_another(at, word) : NULL;
        const char *kind = at == F_data_kind && value
                               ? text_print("%.*s", (int)strlen(value) - 2, value + 1)
                               : NULL;
        if (!why && kind && !learns_from(word, kind))
            why = text_print("the objective %s learns from %s", word, objective_find(word)->kinds);
        lua[at] = why ? NULL : value;
        for (int i = 0; why && i < f->nclaims; i++) {
            Key *k = &f->key[f->claim[i].key];
            if (f->claim[i].denies)
                continue;
            if (f->claim[i].at == at && !f->claim[i].implied) {
                k->taken = false;
                k->why = why;
            } else if (f->claim[i].at == at && is_only_claim(f, i)) {
                k->taken = false;
                k->needless = true;
            }
        }
    }
    err_flush();
}

/* ---- the message ----------------------------------------------------------------------------- */

static void print_section(Str *s, const char **lua, const char *section)
{
    size_t n = strlen(section), before = s->n;
    bool run = !strcmp(section, "run");
    for (int i = run ? NFIELDS : 0; i < (run ? NFIELDS + nrun_flags : NFIELDS); i++) {
        const char *path = bare_of(i), *dot = run ? NULL : strchr(path, '.');
        bool here =
            run || (n ? dot && (size_t)(dot - path) == n && !strncmp(path, section, n) : !dot);
        if (here && lua[i] && !n)
            str_print(s, "\n        %s = %s,", path, lua[i]);
        else if (here && lua[i])
            str_print(s, "%s%s = %s",
                      s->n > before ? ", " : text_print("\n        %s = { ", section),
                      dot ? dot + 1 : path, lua[i]);
    }
    if (n && s->n > before)
        str_print(s, " },");
}

/* Prints the recipe; *open: required fields that are missing. */
static void print_recipe(Str *s, Str *open, const File *f, const char **lua)
{
    str_print(s, " What can be carried over:\n    return {");
    print_section(s, lua, "");
    for (int i = 0; i < NFIELDS; i++) {
        const char *path = field_row[i].path, *dot = strchr(path, '.');
        size_t n = dot ? (size_t)(dot - path) : 0;
        bool wanted = !*field_row[i].def;
        if (n && (i == 0 || strncmp(field_row[i - 1].path, path, n + 1)))
            print_section(s, lua, text_print("%.*s", (int)n, path));
        for (int k = 0; k < f->nclaims; k++)
            wanted = wanted || (f->claim[k].at == i && !f->claim[k].lua && !f->claim[k].denies);
        if (wanted && !lua[i])
            str_print(open, "%s%s", open->n ? ", " : "", path);
    }
    print_section(s, lua, "run");
    str_print(s, "\n    }");
}

/* Prints the settings without which gen refuses this recipe. */
static void print_needs(Str *s, const char **lua)
{
    for (int i = 0; i < alias_needs; i++) {
        const AliasNeed *need = &alias_need[i];
        const int at = ours_find(need->ours), other = ours_find(need->other);
        const bool least = *need->wanted == '>';
        FieldValue is = {.s = need->value};
        if (!lua[at] || strcmp(lua[at], value_print(FT_STRING, &is)))
            continue;
        const char *set = lua[other], *bare = set ? set + (*set == '"') : NULL;
        const bool one = other == F_batch_accum && !set;            /* its default */
        if (one || alias_met(need, set ? text_print("%.*s", (int)strcspn(bare, "\""), bare) : NULL))
            continue;
        str_print(s, "\n%s = %s needs %s%s%s%s%s", path_of(at), lua[at], path_of(other),
                  least ? ", for example " : " = ", lua_value(other, need->wanted + least),
                  set ? "; here it is " : "", set ? set : "");
    }
}

static void print_rest(Str *s, const File *f)
{
    Str needless = {0}, why = {0}, unknown = {0};
    for (int i = 0; i < f->nkeys; i++) {
        const Key *k = &f->key[i];
        const char *path = text_comment(k->path);
        if (k->taken)
            continue;
        if (k->needless)
            str_print(&needless, "%s%s", needless.n ? ", " : "", path);
        else if (k->why)
            str_print(&why, "\n    %s: %s (line %d): %s", path, setting_shown(k->s), k->s->line,
                      k->why);
        else
            str_print(&unknown, "\n    %s%s%s (line %d): unknown here", path,
                      is_absent(k->s) ? "" : ": ", is_absent(k->s) ? "" : setting_shown(k->s),
                      k->s->line);
    }
    if (needless.n)
        str_print(s, "\nneeds no setting here: %s", needless.text);
    str_print(s, "\nnot carried over:%s%s%s", why.n ? why.text : "", unknown.n ? unknown.text : "",
              why.n || unknown.n ? "" : " nothing");
}

static long nodes_of(const Setting *root)
{
    for (int i = 0; i < NODES_ROWS; i++) {
        const Setting *s = setting_at(root, nodes_row[i]);
        const long n = s && s->kind == SETTING_NUMBER ? strtol(s->text, NULL, 10) : 1;
        if (n > 1)
            return n;
    }
    return 1;
}

void settings_file(const char *path, const char *language, const char *text, size_t n)
{
    File f = {.path = path};
    Str s = {0}, open = {0};
    const char **lua = arena_new(sizeof *lua * (size_t)(NFIELDS + nrun_flags));
    bool any = false;
    f.root = settings_read(path, language, text, n);
    f.nodes = nodes_of(f.root);
    walk(&f, f.root, "", "");
    for (int i = 0; i < f.nkeys; i++)
        claim_value(&f, i);
    choose(&f, lua);
    for (int i = 0; i < NFIELDS + nrun_flags; i++) {
        if (lua[i] && i == F_lora_rank && same_lua(lua[i], "0"))
            lua[i] = NULL;  /* the default; a line lora = { rank = 0 } would only confuse */
        any = any || lua[i];
    }
    str_print(&s, "%s", "");
    if (any)
        print_recipe(&s, &open, &f, lua);
    if (open.n)
        str_print(&s, "\nstill to be set: %s", open.text);
    print_needs(&s, lua);
    if (f.nkeys)
        print_rest(&s, &f);
    err((Loc){0},
        "%s is %s; a recipe is a Lua file that returns a table (gen list has some to start from, "
        "gen fields every field).%s",
        path, language, s.text);
}
