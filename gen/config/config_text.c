/* config_text.c -- text form of Config, and the field reference.
 *
 * Keeps: print(parse(x)) == x. */
#define _GNU_SOURCE
#include "gen/config/config.h"
#include "gen/config/family.h"
#include "gen/config/alias.h"

#include <stdlib.h>
#include <string.h>

/* ---- the identity of a recipe -------------------------------------------------------------- */

/* The hash uses the original names of fields and words, so that a recipe keeps its hash when they
 * are renamed. */
static const char *name_in_hash(int field)
{
    const char *first = renamed_from(field_row[field].path);
    return field == F_tune_lock   ? "tune"
           : field == F_tune_card ? "card"
           : first                ? first
                                  : field_row[field].path;
}

static const char *value_in_hash(int field, const FieldValue *v)
{
    const char *first =
        field_row[field].type == FT_CHOICE ? renamed_word_from(field_row[field].path, v->s) : NULL;
    return first ? text_print("\"%s\"", first) : value_print(field_row[field].type, v);
}

/* True if the field was added to those that hashes are made of and has its default. */
static bool is_new(const Config *c, int field)
{
    static const bool added[NFIELDS] = {
#define ADDED(id) [F_##id] = true,
#include "gen/config/fields.def"
    };
    static const char *unset[NFIELDS];       /* as in field_choices(): printed once */
    const FieldType type = field_row[field].type;
    if (field == F_optim_master)
        return !strcmp(c->v[field].s, config_default_master(c));
    if (!added[field])
        return false;
    if (!unset[field]) {
        const char *text = field_row[field].def;
        FieldValue v = {0};
        value_parse(type, &text, &v);
        unset[field] = strdup(value_print(type, &v));
    }
    return !strcmp(value_print(type, &c->v[field]), unset[field]);
}

/* A card is part of a hash through the target and memory that it sets. */
static const char *hash_without(const Config *c, const bool left_out[NFIELDS])
{
    char *line[NFIELDS + 256];
    int n = 0;
    for (int i = 0; i < NFIELDS; i++)
        if (i != F_name && i != F_about && i != F_card && field_applies(c, i) &&
            !field_of_cluster(i) && !is_new(c, i) && !left_out[i])
            line[n++] = text_print("%s=%s\n", name_in_hash(i), value_in_hash(i, &c->v[i]));
    for (int i = 0; i < c->nrun; i++)
        line[n++] = text_print("run.%s=%s\n", c->run_name[i], c->run_value[i]);
    qsort(line, (size_t)n, sizeof *line, text_order);
    Str s = {0};
    for (int i = 0; i < n; i++)
        str_print(&s, "%s", line[i]);
    return sha256_hex(s.text, s.n);
}

const char *config_hash(const Config *c)
{
    static const bool none[NFIELDS] = {false};
    return hash_without(c, none);
}

const char *config_order_hash(const Config *c)
{
    static const bool of_ranks[NFIELDS] = {
        [F_gpus] = true, [F_batch_global] = true, [F_batch_accum] = true, [F_memory_zero] = true,
        [F_memory_limit_gib] = true, [F_comm_overlap] = true, [F_comm_bucket_mib] = true,
        [F_checkpoint_async] = true};
    return hash_without(c, of_ranks);
}

int config_overrides(const Config *c, char ***words)
{
    int n = 0;
    *words = arena_new((size_t)(NFIELDS + c->nrun + 1) * sizeof **words);
    if (c->chosen)
        (*words)[n++] = text_print("cluster=%s", c->chosen);
    for (int i = 0; i < NFIELDS; i++) {
        const FieldValue *v = &c->v[i];
        if (!v->set || v->loc.file)
            continue;
        Str s = {0};
        str_print(&s, "%s=", field_row[i].path);
        for (int k = 0; k < v->n; k++)
            str_print(&s, "%s%s", k ? "," : "", v->list[k]);
        if (field_row[i].type == FT_CHOICE || field_row[i].type == FT_STRING)
            str_print(&s, "%s", v->s);
        else if (field_row[i].type != FT_LIST)
            str_print(&s, "%s", value_print(field_row[i].type, v));
        (*words)[n++] = s.text;
    }
    for (int i = 0; i < c->nrun; i++)
        if (!c->run_loc[i].file)
            (*words)[n++] = text_print("run.%s=%s", c->run_name[i], c->run_value[i]);
    return n;
}

/* ---- the whole Config ---------------------------------------------------------------------- */

/* `# config  hash H  recipe PATH`, then `field = value  # place`, the place being FILE:LINE,
 * `default FILE:LINE` or `command line`. */
const char *config_print(Config *c)
{
    Str s = {0};
    str_print(&s, "# config  hash %s  recipe %s\n", c->hash, c->recipe);
    for (int i = 0; i < NFIELDS; i++) {
        const FieldValue *v = &c->v[i];
        if (!field_applies(c, i))
            continue;
        str_print(&s, "%s = %s  # ", field_row[i].path, value_print(field_row[i].type, v));
        if (v->loc.file)
            str_print(&s, "%s%s:%d\n", v->set ? "" : "default ", v->loc.file, v->loc.line);
        else
            str_print(&s, "command line\n");
    }
    for (int i = 0; i < c->nrun; i++) {
        FieldValue v = {.s = c->run_value[i]};
        bool string = run_flag[run_flag_find(c->run_name[i])].type == FT_STRING;
        str_print(&s, "run.%s = %s\n", c->run_name[i], string ? value_print(FT_STRING, &v) : v.s);
    }
    return s.text;
}

static void parse_place(const char *p, Loc here, FieldValue *v)
{
    v->set = true;
    if (!strcmp(p, "command line"))
        return;
    if (!strncmp(p, "default ", 8)) {
        v->set = false;
        p += 8;
    }
    const char *colon = strrchr(p, ':');
    if (!colon || colon == p || strspn(colon + 1, "0123456789") != strlen(colon + 1))
        err(here, "expected # FILE:LINE, # default FILE:LINE or # command line, got # %s", p);
    v->loc = (Loc){text_print("%.*s", (int)(colon - p), p), atoi(colon + 1)};
}

static void parse_run(Config *c, const char *name, const char *p, Loc here)
{
    int k = run_flag_find(name);
    if (k < 0 || c->nrun == nrun_flags)
        err(here, "run.%s: %s", name, k < 0 ? "no such flag" : "too many flags");
    FieldValue v = {0};
    const char *wrong = value_parse(run_flag[k].type, &p, &v);
    if (wrong || *p)
        err(here, "run.%s: expected %s, got %s", name, wrong ? wrong : "the end of the line", p);
    c->run_name[c->nrun] = run_flag[k].name;
    c->run_value[c->nrun++] = run_flag[k].type == FT_STRING ? v.s
                                                            : value_print(run_flag[k].type, &v);
}

static void parse_line(Config *c, const char *line, Loc here)
{
    const char *eq = strstr(line, " = ");
    if (!eq)
        err(here, "expected field = value  # place, got %s", line);
    char *path = text_print("%.*s", (int)(eq - line), line);
    const char *p = eq + 3;
    if (!strncmp(path, "run.", 4)) {
        parse_run(c, path + 4, p, here);
        return;
    }
    int i = field_find(path);
    if (i < 0)
        err(here, "%s: no such field", path);
    c->cluster = c->cluster || field_of_cluster(i);
    FieldValue v = {0};
    const char *wrong = value_parse(field_row[i].type, &p, &v);
    if (wrong || strncmp(p, "  # ", 4))
        err(here, "%s: expected %s, got %s", path, wrong ? wrong : "two blanks and # place", p);
    parse_place(p + 4, here, &v);
    const FieldRow *row = &field_row[i];
    bool number = row->type == FT_INT || (row->type == FT_FLOAT && v.set);
    if (number && (v.f < row->lo || v.f > row->hi))
        err(here, "%s: must be %s, got %s", path, range_print(row->type, row->lo, row->hi, ""),
            value_print(row->type, &v));
    if (row->type == FT_CHOICE && !choice_find(field_choices(i), v.s, &v.i))
        err(here, "%s: no such choice: \"%s\"", path, v.s);
    c->v[i] = v;
}

Config *config_parse(const char *text, const char *file)
{
    Config *c = arena_new(sizeof *c);
    c->run_name = arena_new((size_t)nrun_flags * sizeof *c->run_name);
    c->run_loc = arena_new((size_t)nrun_flags * sizeof *c->run_loc);
    c->run_value = arena_new((size_t)nrun_flags * sizeof *c->run_value);
    Loc here = {file, 0};
    for (const char *p = text; *p;) {
        here.line++;
        size_t n = strcspn(p, "\n");
        char *line = text_print("%.*s", (int)n, p);
        p += n + (p[n] == '\n');
        const char *recipe = strstr(line, "  recipe ");
        if (*line != '#')
            parse_line(c, line, here);
        else if (here.line == 1 && recipe)
            c->recipe = recipe + 9;
    }
    if (!c->recipe)
        err((Loc){file, 1}, "expected # config  hash H  recipe PATH");
    for (int i = 0; i < NFIELDS; i++)
        if (!c->v[i].s && !c->v[i].loc.file && !c->v[i].set && field_applies(c, i))
            err((Loc){file, here.line}, "%s: missing", field_row[i].path);
    c->name = c->v[F_name].s;
    c->hash = config_hash(c);
    return c;
}

/* ---- help ---------------------------------------------------------------------------------- */

char *family_defaults(const Family *f)
{
    const char *leaf[FAMILY_LEAVES];
    Str s = {0};
    str_print(&s, "norm_eps %s, tied %s, %s", f->eps, f->tied ? "true" : "false",
              f->rotary ? "rotary" : f->positions ? "learned positions" : "no positions");
    if (f->ffn)
        str_print(&s, ", ffn %d * hidden", f->ffn);
    if (f->bias_chosen)
        str_print(&s, ", attention_bias may be set");
    str_print(&s, "; modules");
    for (int i = 0, n = family_linears(f, leaf); i < n; i++)
        str_print(&s, " %s", leaf[i]);
    str_print(&s, ", by default");
    for (int i = 0, n = family_default_targets(f, leaf); i < n; i++)
        str_print(&s, " %s", leaf[i]);
    str_print(&s, "; tables");
    for (int i = 0, n = family_tables(f, leaf); i < n; i++)
        str_print(&s, " %s", leaf[i]);
    return s.text;
}

static void print_field(FILE *to, int i)
{
    const FieldRow *row = &field_row[i];
    fprintf(to, "%s: %s", row->path, range_print(row->type, row->lo, row->hi, field_choices(i)));
    if (*row->unit)
        fprintf(to, ", %s", row->unit);
    if (!*row->def)
        fprintf(to, "; required");
    else if (*row->def != '?')
        fprintf(to, "; default %s", row->def);
    if (field_objectives(i))
        fprintf(to, "; of the objective %s", field_objectives(i));
    if (row->bits != BITS_method)
        fprintf(to, row->bits == BITS_same ? "; any value trains the same bits"
                                           : "; values differ by rounding");
    fprintf(to, "\n    %s\n", row->doc);
    for (int k = 0; k < family_count() && i == F_model_family; k++)
        fprintf(to, "    %s: %s; %s\n", family_row(k)->name, family_row(k)->about,
                family_defaults(family_row(k)));
}

static void print_flag(FILE *to, const RunFlag *f)
{
    bool words = f->type == FT_STRING && strchr(f->value, '|');
    const char *of = run_flag_objectives((int)(f - run_flag));
    fprintf(to, "run.%s: %s%s\n    %s\n", f->name,
            words ? text_print("one of %s", f->value + (*f->value == '|'))
                  : range_print(f->type, f->lo, f->hi, ""),
            of ? text_print("; of the objective %s", of) : "", f->doc);
}

void config_fields(FILE *to)
{
    const char *section = "";
    for (int i = 0; i < NFIELDS; i++) {
        const char *path = field_row[i].path, *dot = strchr(path, '.');
        size_t n = dot ? (size_t)(dot - path) : 0;
        if (strlen(section) != n || strncmp(section, path, n)) {
            section = text_print("%.*s", (int)n, path);
            fputc('\n', to);
        }
        print_field(to, i);
    }
    fprintf(to, "\nDefaults of the program's flags, which keep their power over them: run "
                "= { lr = 1e-4, ... }\n\n");
    for (int i = 0; i < nrun_flags; i++)
        if (run_flag[i].recipe)
            print_flag(to, &run_flag[i]);
}

/* Stores the fields and flags of this name or group, as config_find() does; returns their
 * number. */
static int find_ours(const char *name, int *at)
{
    bool run = names_same(name, "run");
    size_t n = strlen(name);
    int found = 0;
    for (int i = 0; i < NFIELDS; i++) {
        const char *path = field_row[i].path, *dot = strchr(path, '.');
        bool group = dot && (size_t)(dot - path) == n && !strncmp(path, name, n);
        if (group || names_same(path, name))
            at[found++] = i;
    }
    bool any = found > 0;
    for (int i = 0; i < nrun_flags && (run || !any); i++) {
        const RunFlag *f = &run_flag[i];
        bool this = names_same(f->name, name) || names_same(text_print("run.%s", f->name), name);
        if (this || (run && f->recipe))
            at[found++] = NFIELDS + i;
        any = found > 0 && !run;
    }
    return found;
}

int config_find(const char *word, int *at, const Alias **row)
{
    const char **name = arena_new(sizeof *name * (size_t)(NFIELDS + nrun_flags + alias_rows));
    const char *bare = renamed_name(word + strspn(word, "-")), *dot = strrchr(bare, '.');
    int n = find_ours(bare, at);
    renamed_report();
    *row = NULL;
    if (n)
        return n;
    *row = alias_find(bare);
    *row = *row || !dot ? *row : alias_find(dot + 1);
    if (*row)
        return *(*row)->ours ? find_ours((*row)->ours, at) : 0;
    for (int i = 0; i < NFIELDS; i++)
        name[n++] = field_row[i].path;
    for (int i = 0; i < nrun_flags; i++)
        name[n++] = run_flag[i].recipe ? text_print("run.%s", run_flag[i].name) : run_flag[i].name;
    for (int i = 0; i < alias_rows; i++)
        name[n++] = alias_row[i].name;
    const char *near = text_nearest(bare, name, n);
    err((Loc){0}, "no field %s%s; `gen fields` lists them", word,
        near ? text_print("; did you mean \"%s\"?", near) : "");
}

void config_explain(FILE *to, const char *field)
{
    const Alias *row;
    int *at = arena_new(sizeof *at * (size_t)(NFIELDS + nrun_flags)),
        n = config_find(field, at, &row);
    if (row)
        fprintf(to, "%s: %s\n", row->name, alias_say(row));
    for (int i = 0; i < n; i++) {
        const RunFlag *f = at[i] < NFIELDS ? NULL : &run_flag[at[i] - NFIELDS];
        if (!f)
            print_field(to, at[i]);
        else if (f->recipe)
            print_flag(to, f);
        else
            fprintf(to, "--%s %s: a flag of the training program; recipes cannot set it\n    %s\n",
                    f->name, f->value, f->doc);
    }
}
