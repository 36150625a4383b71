/* config.c -- typed fields and run-time flags from a recipe's plain values.
 *
 * In:    the recipe's table; rows of fields.def and flags.def.
 * Out:   Config: every field set, typed and in range.
 * Keeps: file and line of every value; all mistakes of a recipe are reported together.
 * Rules between fields are in config_rules.c, text forms and help in config_text.c. */
#include "gen/config/alias.h"
#include "gen/config/objective.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_KEYS = NFIELDS + 200 };

static bool was_read[NFIELDS];

/* ---- tables -------------------------------------------------------------------------------- */

/* Key of field i in the table `section` ("": the recipe); NULL: not in that table. */
static const char *key_in(int i, const char *section)
{
    const char *path = field_row[i].path, *dot = strchr(path, '.');
    size_t n = strlen(section);
    if (!n)
        return dot ? NULL : path;
    return dot && (size_t)(dot - path) == n && !strncmp(path, section, n) ? dot + 1 : NULL;
}

static bool is_section(const char *key)
{
    for (int i = 0; i < NFIELDS; i++)
        if (key_in(i, key))
            return true;
    return !strcmp(key, "run");
}

/* Stores all keys of the table `section`, in the order of the rows; returns their number. */
static int keys_of(const char *section, const char **key)
{
    int n = 0;
    if (!strcmp(section, "run")) {
        for (int i = 0; i < nrun_flags; i++)
            if (run_flag[i].recipe)
                key[n++] = run_flag[i].name;
        return n;
    }
    for (int i = 0; i < NFIELDS; i++) {
        const char *k = key_in(i, section);
        if (!k && !*section) {
            k = text_print("%.*s", (int)strcspn(field_row[i].path, "."), field_row[i].path);
            if (n && !strcmp(key[n - 1], k))
                k = NULL;
        }
        if (k)
            key[n++] = k;
    }
    if (!*section)
        key[n++] = "run";
    return n;
}

static char *with_commas(const char *choices)
{
    Str s = {0};
    for (const char *p = choices + (*choices == '|'); *p; p++)
        str_print(&s, *p == '|' ? ", " : "%c", *p);
    return s.text;
}

/* ---- one value ----------------------------------------------------------------------------- */

static const char *show(const Rval *r)
{
    FieldValue v = {.i = r->kind == RV_BOOL ? r->b : r->i, .f = r->f, .s = r->s};
    switch (r->kind) {
    case RV_BOOL:
        return value_print(FT_BOOL, &v);
    case RV_INT:
        return value_print(FT_INT, &v);
    case RV_FLOAT:
        return value_print(FT_FLOAT, &v);
    case RV_STRING:
        if (strlen(r->s) > 60)
            v.s = text_print("%.57s...", r->s);
        return value_print(FT_STRING, &v);
    case RV_TABLE:
        return "a table";
    default:
        return r->kind == RV_NIL ? "nil" : text_print("a %s", r->s);
    }
}

/* Converts a number to v. Returns NULL, or what was expected. */
static const char *take_number(FieldType type, double lo, double hi, const Rval *r, FieldValue *v)
{
    bool number = r->kind == RV_INT || r->kind == RV_FLOAT;
    double f = r->kind == RV_INT ? (double)r->i : r->f;
    if (!number || !isfinite(f) || f < lo || f > hi)
        return range_print(type, lo, hi, NULL);
    if (type != FT_FLOAT && r->kind == RV_FLOAT && (f != floor(f) || fabs(f) > 9007199254740992.0))
        return range_print(type, lo, hi, NULL);
    v->i = r->kind == RV_INT ? r->i : type != FT_FLOAT ? (int64_t)f : 0;
    v->f = f;
    return NULL;
}

static const char *take_list(const char *ours, const Rval *r, FieldValue *v, const char **got)
{
    static const char wanted[] = "a list of strings such as {\"q_proj\", \"v_proj\"}";
    int n = 0;
    if (r->kind == RV_STRING) {
        v->list = arena_new((strlen(r->s) + 1) * sizeof *v->list);
        for (char *p = text_copy(r->s); *p; n++) {
            v->list[n] = p;
            p += r->loc.file ? strlen(p) : strcspn(p, ",");    /* f=a,b on the command line */
            if (*p)
                *p++ = 0;
        }
    } else if (r->kind == RV_TABLE && !r->nkeys) {
        v->list = arena_new(((size_t)r->nitems + 1) * sizeof *v->list);
        for (n = 0; n < r->nitems; n++) {
            if (r->item[n]->kind != RV_STRING) {
                *got = text_print("%s as item %d", show(r->item[n]), n + 1);
                return wanted;
            }
            v->list[n] = r->item[n]->s;
        }
    } else
        return wanted;
    for (int i = 0; i < n; i++)
        v->list[i] = alias_word(ours, v->list[i]);
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++)
            if (!strcmp(v->list[i], v->list[j])) {
                FieldValue one = {.s = v->list[i]};
                *got = text_print("%s twice", value_print(FT_STRING, &one));
                return "a list without repeats";
            }
    v->n = n;
    return NULL;
}

/* Converts a value to v. Returns NULL, or what was expected, and stores what was found in *got.
 * ours: the field or flag, whose WORD rows of aliases.def apply, too. */
static const char *take(const char *ours, FieldType type, double lo, double hi, const char *choices,
                        const Rval *r, FieldValue *v, const char **got)
{
    *got = show(r);
    const char *word = r->s ? r->s : *got;
    size_t n;
    switch (type) {
    case FT_EVERY:
        if (r->kind == RV_STRING && names_epochs(r->s, &n) && !r->s[n]) {
            v->s = r->s;
            return NULL;
        }
        /* fall through */
    case FT_INT:
    case FT_FLOAT:
        if (alias_word(ours, word) != word) {
            word = alias_word(ours, word);
            return value_parse(type, &word, v);
        }
        return take_number(type, lo, hi, r, v);
    case FT_BOOL:
        if (alias_word(ours, word) != word) {
            word = alias_word(ours, word);
            return value_parse(type, &word, v);
        }
        v->i = r->b;
        return r->kind == RV_BOOL ? NULL : "true or false";
    case FT_STRING:
        /* on the command line: the text as typed */
        v->s = r->s ? alias_word(ours, r->s) : NULL;
        return r->kind == RV_STRING || (r->s && r->kind != RV_OTHER) ? NULL : "a string";
    case FT_CHOICE:
        v->s = alias_word(ours, word);
        if ((r->kind == RV_STRING || v->s != word) && choice_find(choices, v->s, &v->i))
            return NULL;
        return text_print("one of %s", with_commas(choices));
    case FT_LIST:
        return take_list(ours, r, v, got);
    }
    return "another type";
}

/* ---- tables of the recipe ------------------------------------------------------------------ */

static const char *join(const char *section, const char *key)
{
    return *section ? text_print("%s.%s", section, key) : key;
}

/* Adds an error for an unknown key; r: its value. */
static void unknown_key(const Rval *r, const char *section, const char *key)
{
    Loc loc = r->loc;
    const char *path = join(section, key), *name[MAX_KEYS];
    int whole = strchr(key, '.') ? field_find(key) : -1;
    if (whole >= 0) {
        size_t n = strcspn(key, ".");
        err_add(loc, "%s: write it as %.*s = { %s = ... }", key, (int)n, key, key + n + 1);
        return;
    }
    const Alias *row = alias_find(key);
    if (row) {
        err_add(loc, "%s: unknown key; %s", path,
                loc.file ? alias_written(row, r->s ? r->s : show(r)) : alias_typed(row, r->s));
        return;
    }
    for (int i = 0; i < NFIELDS; i++) {
        const char *dot = strchr(field_row[i].path, '.');
        if (!strcmp(dot ? dot + 1 : field_row[i].path, key)) {
            err_add(loc, "%s: unknown key; did you mean \"%s\"?", path, field_row[i].path);
            return;
        }
    }
    int flag = run_flag_find(key);
    if (flag >= 0 && run_flag[flag].recipe) {
        err_add(loc, "%s: unknown key; did you mean \"run.%s\"?", path, key);
        return;
    }
    int n = keys_of(section, name);
    const char *near = text_nearest(key, name, n);
    if (near) {
        err_add(loc, "%s: unknown key; did you mean \"%s\"?", path, near);
        return;
    }
    for (int i = 0; i < alias_rows; i++)
        if (names_distance(key, alias_row[i].name) <= (int)(strlen(key) + 1) / 4) {
            err_add(loc, "%s: unknown key; did you mean \"%s\"? %s", path, alias_row[i].name,
                    alias_say(&alias_row[i]));
            return;
        }
    Str list = {0};
    for (int i = 0; i < n; i++)
        str_print(&list, "%s%s", i ? ", " : "", name[i]);
    err_add(loc, "%s: unknown key; there are: %s", path, list.text);
}

/* Hint for a card name, or for an architecture without a row; NULL: none. */
static const char *target_hint(const Rval *r)
{
    static const char *const before[] = {"v100", "t4", "p100", "p40", "k80", "rtx2080", "titan"};
    char card[32] = "", *end;
    if (r->kind != RV_STRING || strlen(r->s) >= sizeof card)
        return NULL;
    for (const char *p = r->s; *p; p++)
        if (!strchr(" -_", *p))
            card[strlen(card)] = (char)tolower((unsigned char)*p);
    long arch = strncmp(card, "sm", 2) ? 0 : strtol(card + 2, &end, 10);
    bool old = arch >= 10 && arch < 80;
    for (size_t i = 0; i < sizeof before / sizeof *before; i++)
        old = old || !strcmp(card, before[i]);
    if (old)
        return text_print(
            "%s is not supported: GPUs from Ampere on (sm_80); gen list names the targets", r->s);
    const Card *named = card_find(r->s);
    if (named)
        return text_print("\"%s\" is a card: use card = \"%s\", which sets target %s and "
                          "memory.limit_gib = %g (%s)",
                          r->s, named->name, named->target, named->gib, named->about);
    for (int i = 0; i < target_count(); i++) {
        const Target *t = target_row(i);
        Str about = {0};
        for (const char *p = t->about; *p; p++)
            if (!strchr(" -_", *p))
                str_print(&about, "%c", tolower((unsigned char)*p));
        const char *at = strlen(card) > 1 ? strstr(about.text, card) : NULL;
        if (at && !isalnum((unsigned char)at[strlen(card)]))
            return text_print("\"%s\" is a card; its target is %s (%s)", r->s, t->name, t->about);
        if (arch && arch == t->capability)
            return text_print("must be %s, got \"%s\"", t->name, r->s);
    }
    return NULL;
}

/* True for `field=` on the command line, which removes the recipe's value; texts and lists become
 * empty. */
static bool leaves_out(FieldType type, const Rval *r)
{
    return !r->loc.file && r->kind == RV_STRING && !*r->s && type != FT_STRING && type != FT_LIST;
}

static void fill_field(Config *c, int field, const Rval *r)
{
    const FieldRow *row = &field_row[field];
    FieldValue v = {.set = true, .loc = r->loc}, *old = &c->v[field];
    if (old->set && old->loc.file && r->loc.file) {
        err_add(r->loc, "%s: set twice, as gpus and as ranks, which are the same field", row->path);
        return;
    }
    if (old->set && r->loc.file)            /* the command line overrides it */
        return;
    if (leaves_out(row->type, r)) {
        old->set = false;
        return;
    }
    if (field == F_gpus && r->kind == RV_STRING && !strcmp(r->s, "all")) {
        *old = (FieldValue){.set = true, .s = r->s, .loc = r->loc};
        return;
    }
    if ((field == F_card || field == F_cluster_card) && r->s && r->kind != RV_OTHER) {
        const char *fault = card_take(r->s, &v);
        if (fault)
            err_add(r->loc, "%s: %s", row->path, fault);
        *old = v;                            /* set, but empty if the value was invalid */
        return;
    }
    const char *got, *wanted =
        take(row->path, row->type, row->lo, row->hi, field_choices(field), r, &v, &got);
    if (wanted && field == F_target && target_hint(r))
        err_add(r->loc, "target: %s", target_hint(r));
    else if (wanted)
        err_add(r->loc, "%s: must be %s, got %s", row->path, wanted, got);
    else
        *old = v;
    old->set = true;                        /* an invalid value is not a missing one */
}

static void fill_flag(Config *c, const char *key, const Rval *r)
{
    int i = run_flag_find(key);
    if (i < 0 && renamed(key)) {
        char *now = text_copy(renamed_name(key));
        for (char *p = now; (p = strchr(p, '-'));)
            *p = '_';
        key = now;
        i = run_flag_find(key);
    }
    if (i < 0) {
        unknown_key(r, "run", key);
        return;
    }
    const RunFlag *f = &run_flag[i];
    if (!f->recipe) {
        err_add(r->loc, "run.%s: a recipe cannot set it: give --%s to the program", key,
                key);
        return;
    }
    if (leaves_out(f->type, r))
        return;
    FieldValue v = {0};
    int64_t at;
    const char *got, *wanted = take(f->name, f->type, f->lo, f->hi, "", r, &v, &got);
    if (!wanted && run_flag_words(i) && !choice_find(f->value, v.s, &at))
        wanted = text_print("one of %s", with_commas(f->value));
    if (wanted) {
        err_add(r->loc, "run.%s: must be %s, got %s", key, wanted, got);
        return;
    }
    c->run_name[c->nrun] = f->name;
    c->run_loc[c->nrun] = r->loc;
    c->run_value[c->nrun++] = f->type == FT_STRING ? v.s : value_print(f->type, &v);
}

/* The cluster of the recipe, or its fields. true: that is all there is of it. */
static bool begin_cluster(Config *c, const Rval *t)
{
    c->chosen = t->loc.file && t->kind != RV_TABLE ? NULL : t->s;
    c->cluster = t->kind == RV_TABLE;
    if (t->kind == RV_STRING && *t->s)
        err_add(t->loc, "cluster: write cluster = use \"clusters/%s\"", t->s);
    return t->kind == RV_STRING;
}

static void fill_table(Config *c, const char *section, const Rval *t)
{
    if (!strcmp(section, "cluster") && begin_cluster(c, t))
        return;
    if (t->kind != RV_TABLE) {
        const Alias *row = alias_find(section);
        int flag = run_flag_find(section);
        err_add(t->loc, "%s: must be a table { field = value, ... }, got %s%s%s", section, show(t),
                row || flag >= 0 ? "; if one setting was meant: " : "",
                row         ? alias_written(row, t->s ? t->s : show(t))
                : flag >= 0 ? text_print("here it is run.%s", section)
                            : "");
        return;
    }
    if (t->nitems)
        err_add(t->item[0]->loc, "%s: must be field = value, got %s without a name",
                *section ? section : "the recipe", show(t->item[0]));
    for (int i = 0; i < t->nkeys; i++) {
        const char *key = t->key[i];
        const int field = field_find(join(section, key));
        const bool whole = field < 0 || t->value[i]->kind == RV_TABLE;  /* not tune = "required" */
        if (!strcmp(section, "run"))
            fill_flag(c, key, t->value[i]);
        else if (!*section && is_section(key) && whole)
            fill_table(c, key, t->value[i]);
        else if (field >= 0 && !strchr(key, '.'))
            fill_field(c, field, t->value[i]);
        else
            unknown_key(t->value[i], section, key);
    }
}

/* Position of a field that the recipe does not set: its table, or the recipe. */
static Loc default_place(const Rval *recipe, int field)
{
    for (int i = 0; i < recipe->nkeys; i++)
        if (key_in(field, recipe->key[i]))
            return recipe->value[i]->loc;
    return recipe->loc;
}

/* Adds the objective's own flag defaults that the recipe does not set. */
static void fill_run(Config *c, const Rval *recipe)
{
    const char *objective = c->v[F_objective].s, *text;
    for (int i = 0; objective && i < nrun_flags; i++) {
        bool set = false;
        for (int k = 0; k < c->nrun; k++)
            set = set || !strcmp(c->run_name[k], run_flag[i].name);
        if (set || !(text = objective_default(objective, run_flag[i].name)))
            continue;
        FieldValue v = {0};
        if (!run_flag[i].recipe || value_parse(run_flag[i].type, &text, &v) || *text)
            bug("objective %s: default of %s", objective, run_flag[i].name);
        c->run_name[c->nrun] = run_flag[i].name;
        c->run_loc[c->nrun] = default_place(recipe, F_objective);
        c->run_value[c->nrun++] =
            run_flag[i].type == FT_STRING ? v.s : value_print(run_flag[i].type, &v);
    }
}

/* Flags in the order of their rows, so that the same settings give the same text. */
static void sort_run(Config *c)
{
    for (int i = 1; i < c->nrun; i++)
        for (int j = i; j && run_flag_find(c->run_name[j - 1]) > run_flag_find(c->run_name[j]);
             j--) {
            const char *name = c->run_name[j], *value = c->run_value[j];
            Loc loc = c->run_loc[j];
            c->run_name[j] = c->run_name[j - 1];
            c->run_value[j] = c->run_value[j - 1];
            c->run_loc[j] = c->run_loc[j - 1];
            c->run_name[j - 1] = name;
            c->run_value[j - 1] = value;
            c->run_loc[j - 1] = loc;
        }
}

/* A memory limit applies to the target of the table that first set it, not to a target chosen by
 * the command line or a later table. */
static void drop_limit(Config *c)
{
    FieldValue *limit = &c->v[F_memory_limit_gib];
    const char *now = c->v[F_target].s, *limit_target = recipe_limit_target(limit->loc, limit->f);
    static const char *noted = "";           /* a note is for all configs of a recipe */
    if (!now || !limit_target || !strcmp(limit_target, now))
        return;
    const char *note = text_print(
        "gen: memory.limit_gib = %g was set for target %s (%s:%d) and is left out for %s; "
        "memory.limit_gib=N sets one\n",
        limit->f, limit_target, limit->loc.file, limit->loc.line, now);
    if (strcmp(note, noted))
        fputs(noted = note, stderr);
    *limit = (FieldValue){0};
}

/* lora.rank=0 on the command line removes the recipe's adapter fields. */
static void drop_adapters(Config *c)
{
    const FieldValue *rank = &c->v[F_lora_rank];
    for (int i = F_lora_rank + 1;
         rank->set && !rank->loc.file && !rank->i && i <= F_lora_modules_to_save; i++)
        if (c->v[i].set && c->v[i].loc.file)
            c->v[i] = (FieldValue){0};
}

/* ---- readers ------------------------------------------------------------------------------- */

static const FieldValue *read_field(const Config *c, int field, FieldType type)
{
    if (field < 0 || field >= NFIELDS)
        bug("no field %d", field);
    FieldType is = field_row[field].type;
    if (is != type && !(type == FT_STRING && is == FT_CHOICE))
        bug("%s is read as another type than its row says", field_row[field].path);
    was_read[field] = true;
    return &c->v[field];
}

int64_t config_int(Config *c, int field)
{
    return read_field(c, field, FT_INT)->i;
}

double config_float(Config *c, int field)
{
    return read_field(c, field, FT_FLOAT)->f;
}

bool config_bool(Config *c, int field)
{
    return read_field(c, field, FT_BOOL)->i != 0;
}

const char *config_text(Config *c, int field)
{
    return read_field(c, field, FT_STRING)->s;
}

bool config_is(Config *c, int field, const char *word)
{
    return !strcmp(config_text(c, field), word);
}

bool config_listed(Config *c, int field, const char *word)
{
    const FieldValue *v = read_field(c, field, FT_LIST);
    for (int i = 0; i < v->n; i++)
        if (!strcmp(v->list[i], word))
            return true;
    return false;
}

Loc config_loc(Config *c, int field)
{
    return c->v[field].loc;
}

void config_all_read(const Config *c)
{
    for (int i = 0; i < NFIELDS; i++)
        if (c->v[i].set && !was_read[i] && i != F_name && i != F_about && !field_of_cluster(i) &&
            /* used by the objective's host code */
            !objective_owns(c->v[F_objective].s, field_row[i].path))
            bug("the recipe sets %s, which no room reads", field_row[i].path);
}

/* ---- the room ------------------------------------------------------------------------------ */

Config *config_fill(Rval *recipe, const char *path)
{
    Config *c = arena_new(sizeof *c);
    c->recipe = path;
    c->run_name = arena_new((size_t)nrun_flags * sizeof *c->run_name);
    c->run_loc = arena_new((size_t)nrun_flags * sizeof *c->run_loc);
    c->run_value = arena_new((size_t)nrun_flags * sizeof *c->run_value);
    fill_table(c, "", recipe);
    card_fill(c);
    cluster_target(c);
    drop_limit(c);
    drop_adapters(c);
    cluster_fill(c, config_name(c));
    for (int i = 0; i < NFIELDS; i++) {
        const FieldRow *row = &field_row[i];
        if (c->v[i].set)
            continue;
        c->v[i].loc = default_place(recipe, i);
        const char *text = row->def;
        bool follows = i == F_batch_micro && c->v[F_batch_global].set;
        if (!*text && !follows && field_applies(c, i) && !field_fixed(c, i))
            err_add(c->v[i].loc, "%s: is required: %s", row->path, row->doc);
        else if (*text && *text != '?' && value_parse(row->type, &text, &c->v[i]))
            bug("default of %s: %s", row->path, row->def);
        if (row->type == FT_CHOICE && c->v[i].s)
            choice_find(field_choices(i), c->v[i].s, &c->v[i].i);
    }
    fill_run(c, recipe);
    sort_run(c);
    err_flush();
    was_read[F_batch_global] = true;     /* only by config_derive() */
    was_read[F_card] = true;             /* only by card_fill() */
    config_derive(c);
    c->hash = config_hash(c);
    return c;
}
