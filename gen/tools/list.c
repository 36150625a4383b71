/* list.c -- `gen list`: recipes, models, families, chat formats and other tables.
 *
 * In:    a section; for recipes, FIELD=VALUE filters.
 * Out:   lines NAME  DESCRIPTION, from the tables and the recipes' about fields; or JSON.
 * Keeps: recipes have paths that gen accepts in the current folder. */
#define _GNU_SOURCE
#include "gen/config/family.h"
#include "gen/lower/lower.h"
#include "gen/tools/kept_choice.h"
#include "gen/tools/answer.h"
#include "gen/tools/tools.h"

#include "runtime/pack/pack.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

/* Destination of a section: lines of text, or objects of a list. */
typedef struct {
    FILE *to;
    cJSON *list;                 /* NULL: text */
} Page;

/* Prints or appends a row; returns its object, NULL for text. */
static cJSON *row(const Page *p, int width, const char *name, const char *about)
{
    if (!p->list) {
        fprintf(p->to, "  %-*s  %s\n", width, name, about);
        return NULL;
    }
    cJSON *o = answer_item(p->list);
    answer_text(o, "name", name);
    answer_text(o, "about", about);
    return o;
}

/* ---- which recipes --------------------------------------------------------------------------- */

enum { MAX_FILTERS = 32 };
typedef struct {
    int nfields;
    struct { int field; FieldValue v; const char *text; } field[MAX_FILTERS];
    const char *adapter;         /* "lora", "none"; NULL: any */
    const Card *card;            /* that recipes fit once it is set; NULL: any */
    int64_t fits;                /* maximum bytes of a rank; 0: any */
    const char *all;             /* the words, for messages */
} Filter;

/* Names of filters that are not fields. */
static const char *const filter_word[] = {"adapter", "fits"};

static void unknown_filter(const char *word)
{
    const char *name[NFIELDS + 2];
    for (int i = 0; i < NFIELDS; i++)
        name[i] = field_row[i].path;
    memcpy(name + NFIELDS, filter_word, sizeof filter_word);
    const char *near = text_nearest(word, name, NFIELDS + 2);
    err((Loc){0},
        "list: %s: no field of recipes%s; gen fields lists them, and adapter=lora, adapter=none, "
        "fits=24GiB",
        word, near ? text_print("; did you mean %s?", near) : "");
}

int64_t bytes_of(const char *what, const char *text)
{
    static const struct { const char *name; double bytes; } unit[] = {
        {"GiB", 1073741824.0}, {"MiB", 1048576.0}, {"TiB", 1099511627776.0}, {"KiB", 1024.0},
        {"GB", 1e9}, {"MB", 1e6}, {"TB", 1e12}, {"B", 1}};
    char *end;
    const double n = strtod(text, &end);
    for (size_t i = 0; end != text && i < sizeof unit / sizeof *unit; i++)
        if (!strcasecmp(end, unit[i].name) && n > 0 && n * unit[i].bytes < 1e18)
            return (int64_t)(n * unit[i].bytes);
    err((Loc){0}, "%s: must be bytes per rank with a unit, such as 24GiB, got %s", what, text);
}

static void one_of(const char *what, const char *got, const char *words)
{
    int64_t at;
    if (choice_find(words, got, &at))
        return;
    const char *name[64];
    int n = 0;
    for (const char *p = words; *p && n < 64; p += strcspn(p, "|"), p += *p == '|')
        name[n++] = text_print("%.*s", (int)strcspn(p, "|"), p);
    const char *near = text_nearest(got, name, n);
    err((Loc){0}, "list: %s: must be one of %s, got %s%s", what, words, got,
        near ? text_print("; did you mean %s?", near) : "");
}

static void add_field(Filter *f, int field, const char *text)
{
    const FieldRow *r = &field_row[field];
    FieldValue v = {0};
    const char *p = text, *wrong = NULL;
    if (r->type == FT_CHOICE)
        one_of(r->path, text, field_choices(field));
    else if (r->type != FT_STRING && r->type != FT_LIST) {
        wrong = value_parse(r->type, &p, &v);
        double x = r->type == FT_FLOAT ? v.f : (double)v.i;
        if (wrong || *p || (r->type != FT_BOOL && (x < r->lo || x > r->hi)))
            err((Loc){0}, "list: %s: must be %s, got %s", r->path,
                range_print(r->type, r->lo, r->hi, ""), text);
    }
    if (f->nfields == MAX_FILTERS)
        err((Loc){0}, "list: more than %d words", MAX_FILTERS);
    f->field[f->nfields].field = field;
    f->field[f->nfields].v = v;
    f->field[f->nfields++].text = text;
}

static Filter filter_of(int n, char **word)
{
    Filter f = {0};
    Str all = {0};
    word = renamed_words(word, n);
    renamed_report();
    for (int i = 0; i < n; i++) {
        const char *equal = strchr(word[i], '=');
        char *name = text_print("%.*s", (int)(equal - word[i]), word[i]);
        const char *value = equal + 1;
        int field = field_find(name);
        if (!*value)
            err((Loc){0}, "list: %s: needs a value", word[i]);
        if (!strcmp(name, "adapter"))
            one_of(name, f.adapter = value, "lora|none");
        else if (!strcmp(name, "fits"))
            f.fits = bytes_of("list: fits", value);
        else if (field == F_card && card_fault(value))
            err((Loc){0}, "list: card: %s", card_fault(value));
        else if (field == F_card)
            f.card = card_find(value);
        else if (field >= 0)
            add_field(&f, field, value);
        else
            unknown_filter(name);
        str_print(&all, "%s%s", i ? " " : "", word[i]);
    }
    f.all = all.text;
    return f;
}

static char *joined(const FieldValue *v)
{
    Str s = {0};
    str_print(&s, "%s", "");
    for (int i = 0; i < v->n; i++)
        str_print(&s, "%s%s", i ? "," : "", v->list[i]);
    return s.text;
}

static bool has(const Config *c, int field, const FieldValue *want, const char *text)
{
    const FieldValue *v = &c->v[field];
    switch (field_row[field].type) {
    case FT_STRING:
    case FT_CHOICE:
        return v->s && !strcmp(v->s, text);
    case FT_LIST:
        return !strcmp(joined(v), text);
    case FT_FLOAT:
        return v->f == want->f;
    default:
        return v->i == want->i;
    }
}

static const char *adapter_of(const Config *c)
{
    return field_applies(c, F_lora_rank) && c->v[F_lora_rank].i > 0 ? "lora" : "none";
}

/* *bytes: planned bytes of a rank if computed, else 0. */
static bool passes(const Filter *f, Config *c, int64_t *bytes)
{
    *bytes = 0;
    for (int i = 0; i < f->nfields; i++)
        if (!field_applies(c, f->field[i].field) ||
            !has(c, f->field[i].field, &f->field[i].v, f->field[i].text))
            return false;
    if (f->adapter && strcmp(f->adapter, adapter_of(c)))
        return false;
    if (f->card && strcmp(f->card->target, c->v[F_target].s))
        return false;
    if (!f->card && !f->fits)
        return true;
    if (objective_find(c->v[F_objective].s)->standalone)
        return !f->card;
    choose_kept(c);
    *bytes = fit_planned(c)->arena_bytes;
    return (!f->fits || *bytes <= f->fits) &&
           (!f->card || *bytes <= f->card->memory - target_find(f->card->target)->reserve);
}

/* ---- the sections ---------------------------------------------------------------------------- */

/* Folder of the recipes, relative to this one. */
static const char *recipes_folder(void)
{
    struct stat here, root;
    bool at_root = !stat(".", &here) && !stat(gen_root(), &root) && here.st_ino == root.st_ino &&
                   here.st_dev == root.st_dev;
    return at_root ? "recipes" : text_print("%s/recipes", gen_root());
}

static void add_recipe(cJSON *o, Config *c, const char *path, int64_t bytes)
{
    bool whole = objective_find(c->v[F_objective].s)->standalone;
    answer_text(o, "path", path);
    answer_text(o, "objective", c->v[F_objective].s);
    answer_text(o, "target", c->v[F_target].s);
    answer_text(o, "family", whole ? NULL : c->v[F_model_family].s);
    answer_text(o, "precision", whole ? NULL : c->v[F_precision].s);
    answer_int(o, "gpus", whole ? 1 : c->v[F_gpus].i);
    answer_text(o, "adapter", adapter_of(c));
    if (bytes)
        answer_int(o, "device_bytes", bytes);
}

int list_paths(const char **path, int max)
{
    int n = recipe_names(path, max);
    if (n == 0)
        err((Loc){0}, "cannot read the folder %s", recipes_folder());
    for (int i = 0; i < n; i++)
        path[i] = text_print("%s/%s.lua", recipes_folder(), path[i]);
    return n;
}

int list_passing(int nwords, char **word, const char **path, Config **c, int n)
{
    const Filter f = filter_of(nwords, word);
    int kept = 0;
    for (int i = 0; i < n; i++) {
        int64_t bytes;
        Config *one = config_fill(recipe_load(path[i], NULL, 0), path[i]);
        check_config(one);
        if (!passes(&f, one, &bytes))
            continue;
        path[kept] = path[i];
        c[kept++] = one;
    }
    return kept;
}

static void list_recipes(const Page *p, const Filter *f)
{
    const char *folder = recipes_folder(), *name[MAX_RECIPES], *path[MAX_RECIPES];
    Config *c[MAX_RECIPES];
    int64_t bytes[MAX_RECIPES];
    int all = recipe_names(name, MAX_RECIPES), n = 0, width = 0;
    if (all == 0)
        err((Loc){0}, "cannot read the folder %s", folder);
    for (int i = 0; i < all; i++) {
        path[n] = text_print("%s/%s.lua", folder, name[i]);
        c[n] = config_fill(recipe_load(path[n], NULL, 0), path[n]);
        if (f->card && !objective_find(c[n]->v[F_objective].s)->standalone)
            c[n] = config_fill(recipe_load(path[n],
                                           (char *[]){text_print("card=%s", f->card->name)}, 1),
                               path[n]);
        if (!passes(f, c[n], &bytes[n]))
            continue;
        int len = (int)strlen(text_shell(path[n]));
        width = len > width ? len : width;
        name[n++] = name[i];
    }
    for (int i = 0; i < n; i++) {
        cJSON *o = row(p, width, p->list ? name[i] : text_shell(path[i]), c[i]->v[F_about].s);
        if (o)
            add_recipe(o, c[i], path[i], bytes[i]);
    }
    if (!n)
        fprintf(stderr, "gen: list: none of the %d recipes has %s\n", all, f->all);
}

/* Shapes, with the comment in the first line of each file. */
static void list_models(const Page *p)
{
    const char *folder = text_print("%s/models", recipes_folder());
    struct dirent **file;
    int n = scandir(folder, &file, NULL, alphasort);
    if (n < 0)
        err((Loc){0}, "cannot read the folder %s", folder);
    for (int i = 0; i < n; i++) {
        const char *name = file[i]->d_name, *dot = strrchr(name, '.');
        if (!dot || dot == name || strcmp(dot, ".lua"))
            continue;
        char *text = file_text(text_print("%s/%s", folder, name), 1 << 20, NULL);
        const char *about = text && !strncmp(text, "-- ", 3) ? text + 3 : "";
        row(p, 28, text_print("models/%.*s", (int)(dot - name), name),
            text_print("%.*s", (int)strcspn(about, "\n"), about));
        free(file[i]);
    }
    free(file);
}

static void list_families(const Page *p)
{
    for (int i = 0; i < family_count(); i++) {
        const Family *f = family_row(i);
        cJSON *o =
            row(p, 12, f->name,
                p->list ? f->about : text_print("%s: %s", f->about, family_classes(f->name)));
        if (o)
            answer_text(o, "classes", family_classes(f->name));
    }
}

static void list_chats(const Page *p)
{
    int n;
    for (int i = 0; chat_row(i, &n); i++) {
        cJSON *o =
            row(p, 18, chat_row(i, &n)->name,
                n ? text_print("known by %d template%s of models' folders", n, n == 1 ? "" : "s")
                  : "by --chat or the tokenizer's added tokens alone");
        if (o)
            answer_int(o, "templates", n);
    }
}

static void list_objectives(const Page *p)
{
    for (int i = 0; i < objective_count(); i++)
        row(p, 16, objective_row(i)->name, objective_row(i)->about);
}

/* Cards of a target, as text. */
static const char *cards_of(const Target *t)
{
    Str s = {0};
    for (int i = 0; i < card_count(); i++)
        if (!strcmp(card_row(i)->target, t->name))
            str_print(&s, "%s%s", s.n ? " " : "; cards ", card_row(i)->name);
    return s.n ? s.text : "";
}

static void list_targets(const Page *p)
{
    for (int i = 0; i < target_count(); i++) {
        const Target *t = target_row(i);
        cJSON *o = row(p, 10, t->name,
                       p->list ? t->about
                               : text_print("%s; plans with %s a rank%s", t->about,
                                            text_bytes(t->memory - t->reserve), cards_of(t)));
        if (!o)
            continue;
        answer_text(o, "backend", t->backend);
        answer_int(o, "device_bytes", t->memory - t->reserve);
        answer_float(o, "peak_fp32_flops", t->peak_fp32);
        answer_float(o, "peak_bf16_flops", t->peak_bf16);
        cJSON *cards = answer_list(o, "cards");
        for (int k = 0; k < card_count(); k++)
            if (!strcmp(card_row(k)->target, t->name))
                answer_word(cards, card_row(k)->name);
    }
}

static void list_cards(const Page *p)
{
    for (int i = 0; i < card_count(); i++) {
        const Card *c = card_row(i);
        const int64_t bytes = c->memory - target_find(c->target)->reserve;
        cJSON *o = row(p, 17, c->name,
                       p->list ? c->about
                               : text_print("%s; target %s, plans with %s", c->about, c->target,
                                            text_bytes(bytes)));
        if (!o)
            continue;
        answer_text(o, "target", c->target);
        answer_int(o, "device_bytes", bytes);
        answer_float(o, "peak_fp32_flops", c->peak_fp32);
        answer_float(o, "peak_bf16_flops", c->peak_bf16);
        answer_float(o, "bandwidth_bytes", c->bandwidth);
        answer_float(o, "link_bytes", c->link);
    }
}

/* Adds the cluster files of a folder whose names are new. */
static int add_clusters(const char *folder, const char **name, const char **path, int n, int max)
{
    struct dirent **file;
    const int all = scandir(folder, &file, NULL, alphasort);
    for (int i = 0; i < all; i++) {
        const char *dot = strrchr(file[i]->d_name, '.');
        char *base = dot ? text_print("%.*s", (int)(dot - file[i]->d_name), file[i]->d_name) : "";
        bool fresh = *base && !strcmp(dot, ".lua") && n < max;
        for (int k = 0; k < n; k++)
            fresh = fresh && strcmp(name[k], base);
        if (fresh)
            name[n] = base, path[n++] = text_print("%s/%s", folder, file[i]->d_name);
        free(file[i]);
    }
    if (all >= 0)
        free(file);
    return n;
}

/* Lists the files of recipes/clusters, here and in the project, with their line, nodes and GPUs as
 * the files give them. */
static void list_clusters(const Page *p)
{
    enum { MAX = 200 };
    const char *name[MAX], *path[MAX];
    int n = add_clusters("recipes/clusters", name, path, 0, MAX);
    n = add_clusters(text_print("%s/clusters", recipes_folder()), name, path, n, MAX);
    for (int i = 0; i < n; i++) {
        const Config *c = config_of_cluster(path[i]);
        const char *card = c->v[F_cluster_card].s;
        const long long nodes = (long long)c->v[F_cluster_nodes].i,
                        each = (long long)c->v[F_cluster_gpus_per_node].i;
        cJSON *o = row(p, 14, name[i],
                       p->list ? c->v[F_cluster_about].s
                               : text_print("%lld x %lld %s, %s%s%s", nodes, each,
                                            strcmp(card, "none") ? card : c->v[F_cluster_target].s,
                                            c->v[F_cluster_launcher].s,
                                            *c->v[F_cluster_about].s ? ": " : "",
                                            c->v[F_cluster_about].s));
        if (!o)
            continue;
        answer_text(o, "path", path[i]);
        answer_text(o, "target", c->v[F_cluster_target].s);
        answer_text(o, "card", strcmp(card, "none") ? card : NULL);
        answer_int(o, "nodes", nodes);
        answer_int(o, "gpus_per_node", each);
        answer_text(o, "launcher", c->v[F_cluster_launcher].s);
    }
}

static const struct { const char *name; void (*list)(const Page *p); } section_row[] = {
    {"recipes", NULL}, {"models", list_models}, {"families", list_families}, {"chats", list_chats},
    {"objectives", list_objectives}, {"targets", list_targets}, {"cards", list_cards},
    {"clusters", list_clusters}};
enum { SECTIONS = sizeof section_row / sizeof *section_row };

int list_sections(const char **name, int max)
{
    int n = 0;
    while (n < SECTIONS && n < max)
        name[n] = section_row[n].name, n++;
    return n;
}

void list_rows(const char *section, cJSON *list)
{
    const Page p = {.list = list};
    const Filter all = {0};
    for (int i = 0; i < SECTIONS; i++)
        if (strcmp(section, section_row[i].name))
            continue;
        else if (section_row[i].list)
            section_row[i].list(&p);
        else
            list_recipes(&p, &all);
}

static void check_section(const char *section)
{
    const char *name[SECTIONS];
    Str all = {0};
    list_sections(name, SECTIONS);
    for (int i = 0; i < SECTIONS; i++) {
        if (!strcmp(section, name[i]))
            return;
        str_print(&all, "%s%s", i == 0 ? "" : i == SECTIONS - 1 ? " or " : ", ", name[i]);
    }
    const char *near = text_nearest(section, name, SECTIONS);
    err((Loc){0}, "list: no section %s; %s", section,
        near ? text_print("did you mean %s?", near) : text_print("use %s", all.text));
}

void report_list(int n, char **word, FILE *to)
{
    const char *section = n && !strchr(word[0], '=') ? word[0] : NULL;
    char **filters = word + (section != NULL);
    n -= section != NULL;
    for (int i = 0; i < n; i++)
        if (!strchr(filters[i], '='))
            err((Loc){0}, "list: takes one section at most, and FIELD=VALUE words; got %s as well",
                filters[i]);
    if (section)
        check_section(section);
    if (!section && n)
        section = "recipes";
    const Filter f = filter_of(n, filters);
    if (n && strcmp(section, "recipes"))
        err((Loc){0}, "list %s: %s: words FIELD=VALUE choose recipes", section, filters[0]);
    cJSON *o = answer_wanted() ? answer_new() : NULL;
    for (int i = 0; i < SECTIONS; i++) {
        if (section && strcmp(section, section_row[i].name))
            continue;
        if (!section && !o)
            fprintf(to, "%s:\n", section_row[i].name);
        const Page p = {to, o ? answer_list(o, section_row[i].name) : NULL};
        if (section_row[i].list)
            section_row[i].list(&p);
        else
            list_recipes(&p, &f);
    }
    if (o)
        answer_print(o);
}
