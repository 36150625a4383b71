/* doctor.c -- `gen doctor [RECIPE]`: checks of this machine.
 *
 * In:    /proc, /sys, compilers, libraries, the driver, the environment; the recipe's requirements.
 * Out:   text or JSON; exit code 0: the recipe (without one: a CPU program of one process) builds
 *        and runs here, else 1. */
#define _GNU_SOURCE
#include "gen/tools/answer.h"
#include "gen/emit/emit.h"
#include "gen/tools/doctor.h"
#include "gen/tools/fit_table.h"
#include "gen/tools/measure.h"
#include "gen/tools/process.h"
#include "gen/tools/tools.h"

#include <stdlib.h>
#include <string.h>

extern char **environ;

static const char *const state_name[] = {"ok", "warning", "missing"};

/* ---- the end --------------------------------------------------------------------------------- */

/* True if a finding blocks one of these needs. */
static bool blocked(const Doctor *d, unsigned needs)
{
    for (int i = 0; i < d->n; i++)
        if (d->list[i].blocks & needs)
            return true;
    return false;
}

static const char *yes(bool y) { return y ? "yes" : "no"; }

static bool can_build(const Doctor *d, unsigned wants) { return !blocked(d, wants & NEED_BUILDS); }
static bool can_run(const Doctor *d, unsigned wants) { return !blocked(d, wants & ~NEED_BUILDS); }

/* A finding that the recipe does not need is not an error. */
static void forgive(Doctor *d)
{
    for (int i = 0; i < d->n; i++) {
        Finding *f = &d->list[i];
        if (f->state != DOCTOR_MISSING || doctor_wants(d, f->blocks) || !f->blocks)
            continue;
        f->state = DOCTOR_OK;
        f->text = text_print("%s; %s does without", f->text, d->wanted->name);
        f->todo = f->package = NULL;
    }
}

static bool on_debian(void) { return program_find("apt-get") != NULL; }

static const char *todo(const Finding *f)
{
    return f->todo || !f->package ? f->todo
           : on_debian()          ? text_print("apt-get install %s", f->package)
                                  : text_print("install what Debian calls %s", f->package);
}

/* Packages that would fix findings, each once. */
static int packages(const Doctor *d, const char **name, int max)
{
    int n = 0;
    for (int i = 0; i < d->n; i++) {
        const Finding *f = &d->list[i];
        bool seen = f->state == DOCTOR_OK || !f->package;
        for (int k = 0; k < n && !seen; k++)
            seen = !strcmp(name[k], f->package);
        if (!seen && n < max)
            name[n++] = f->package;
    }
    return n;
}

static const struct { const char *what; unsigned wants; } usual[] = {
    {"CPU programs, one process", NEED_CPU_ONE},
    {"CPU programs, several ranks", NEED_CPU_MANY},
    {"CUDA programs, one GPU", NEED_CUDA_ONE},
    {"CUDA programs, several GPUs", NEED_CUDA_MANY},
};
enum { USUAL = sizeof usual / sizeof *usual, MAX_PACKAGES = 32 };

static void print_summary(const Doctor *d, unsigned wants, FILE *to)
{
    const char *package[MAX_PACKAGES];
    int n = packages(d, package, MAX_PACKAGES);
    fputs("\nsummary\n", to);
    if (n) {
        fprintf(to, "  %s", on_debian() ? "apt-get install" : "packages, by their Debian names:");
        for (int i = 0; i < n; i++)
            fprintf(to, " %s", package[i]);
        fputs("\n", to);
    }
    for (int i = 0; i < USUAL && !d->wanted; i++)
        fprintf(to, "  %-28s builds here: %s, runs here: %s\n", usual[i].what,
                yes(can_build(d, usual[i].wants)), yes(can_run(d, usual[i].wants)));
    if (!d->wanted)
        return;
    for (int i = 0; i < d->n; i++)
        if (d->list[i].blocks & wants)
            fprintf(to, "  in the way: %s: %s\n", d->list[i].what, d->list[i].text);
    fprintf(to, "  %s: builds here: %s, runs here: %s\n", d->wanted->recipe,
            yes(can_build(d, wants)), yes(can_run(d, wants)));
}

static void print_lines(const Doctor *d, FILE *to)
{
    const char *section = "";
    for (int i = 0; i < d->n; i++) {
        const Finding *f = &d->list[i];
        const char *remedy = todo(f);
        if (strcmp(section, f->section))
            fprintf(to, "%s%s\n", *section ? "\n" : "", f->section);
        section = f->section;
        fprintf(to, "  %-8s %-16s %s%s%s\n", state_name[f->state], f->what, f->text,
                remedy && f->state != DOCTOR_OK ? ": " : "",
                remedy && f->state != DOCTOR_OK ? remedy : "");
    }
}

static cJSON *finding_json(const Finding *f)
{
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "state", state_name[f->state]);
    cJSON_AddStringToObject(o, "what", f->what);
    cJSON_AddStringToObject(o, "text", f->text);
    if (todo(f) && f->state != DOCTOR_OK)
        cJSON_AddStringToObject(o, "todo", todo(f));
    if (f->package && f->state != DOCTOR_OK)
        cJSON_AddStringToObject(o, "package", f->package);
    for (cJSON *fact = f->facts->child; fact; fact = fact->next)
        cJSON_AddItemToObject(o, fact->string, cJSON_Duplicate(fact, true));
    return o;
}

static void print_json(const Doctor *d, unsigned wants, FILE *to)
{
    cJSON *all = answer_new(), *sections = cJSON_CreateObject(), *list = NULL;
    const char *section = "", *package[MAX_PACKAGES];
    if (d->wanted)
        cJSON_AddStringToObject(all, "recipe", d->wanted->recipe);
    cJSON_AddBoolToObject(all, "builds", can_build(d, wants));
    cJSON_AddBoolToObject(all, "runs", can_run(d, wants));
    cJSON *kinds = d->wanted ? NULL : cJSON_AddArrayToObject(all, "kinds");
    for (int i = 0; i < USUAL && kinds; i++) {
        cJSON *o = cJSON_CreateObject();
        cJSON_AddStringToObject(o, "what", usual[i].what);
        cJSON_AddBoolToObject(o, "builds", can_build(d, usual[i].wants));
        cJSON_AddBoolToObject(o, "runs", can_run(d, usual[i].wants));
        cJSON_AddItemToArray(kinds, o);
    }
    cJSON_AddItemToObject(all, "packages",
                          cJSON_CreateStringArray(package, packages(d, package, MAX_PACKAGES)));
    cJSON_AddItemToObject(all, "sections", sections);
    for (int i = 0; i < d->n; i++) {
        const Finding *f = &d->list[i];
        if (strcmp(section, f->section))
            list = cJSON_AddArrayToObject(sections, f->section);
        section = f->section;
        cJSON_AddItemToArray(list, finding_json(f));
    }
    fputs(json_text(all), to);
}

/* ---- the command ----------------------------------------------------------------------------- */

static Wanted *wanted_of(const Graph *g, Config *c)
{
    Wanted *w = arena_new(sizeof *w);
    w->config = c;
    w->remedy = fit_remedy;
    w->recipe = c->recipe;
    w->name = c->name;
    w->target = target_find(config_text(c, F_target));
    w->ranks = g ? (int)g->ranks : 1;
    w->nodes = c->cluster ? (int)c->v[F_cluster_nodes].i : 0;
    w->precision = g ? config_text(c, F_precision) : "fp32";
    w->rank_bytes = g ? g->arena_bytes : 0;
    w->kept_bytes = g ? disk_of(g, c).checkpoint : 0;
    w->wants = g ? emit_needs(g) : toolchain_needs(w->target, 1, true);
    return w;
}

static void advise(Doctor *d)
{
    static const struct { int below; const char *text; } row[] = {
#define ADVICE(below, text) {below, text},
#include "gen/tools/doctor.def"
    };
    size_t i = 0;
    if (d->wanted)
        return;
    if (!d->gpu_memory) {
        doctor_add(d, DOCTOR_OK, "advice",
                   "no GPU: models of some million parameters train on a CPU (gen list "
                   "target=cpu); gen plan FOLDER --card NAME says what of a model fits which GPU");
        return;
    }
    while (row[i].below && d->gpu_memory >= (int64_t)row[i].below * 1000000000)
        i++;
    doctor_number(doctor_add(d, DOCTOR_OK, "advice", "%s", row[i].text), "gpu_memory_bytes",
                  (double)d->gpu_memory);
}

int doctor_run(const Graph *g, Config *c, bool json)
{
    Doctor d = {.root = "", .env = environ, .wanted = c ? wanted_of(g, c) : NULL};
    const unsigned wants = c ? d.wanted->wants : NEED_CPU_ONE;
    d.section = "system";
    doctor_system(&d);
    doctor_limits(&d);
    d.section = "compilers";
    doctor_compilers(&d);
    d.section = "libraries";
    doctor_libraries(&d);
    d.section = "GPUs";
    doctor_gpus(&d);
    advise(&d);
    d.section = "network";
    doctor_network(&d);
    d.section = "launch";
    doctor_launch(&d);
    d.section = "cluster";
    doctor_cluster(&d, c);
    d.section = "trials";
    doctor_start(&d);
    forgive(&d);
    if (json)
        print_json(&d, wants, stdout);
    else {
        print_lines(&d, stdout);
        print_summary(&d, wants, stdout);
    }
    return !(can_build(&d, wants) && can_run(&d, wants));
}
