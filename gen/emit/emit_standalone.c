/* emit_standalone.c -- out/NAME of a standalone recipe, from templates/programs/OBJECTIVE/.
 *
 * In:    Config.   Out: files, through emit_folder.c.
 * Keeps: only the files of the runtime and the kernels that the program uses. */
#define _GNU_SOURCE
#include "gen/config/toolchain.h"
#include "gen/config/objective.h"
#include "gen/emit/emit.h"
#include "gen/graph/graph.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/files/json.h"

/* ---- the folder ------------------------------------------------------------------------------ */

char *standalone_fields(Config *c)
{
    Str s = {0};
    config_text(c, F_target);                    /* named by the Makefile */
    for (int k = 0; k < 2 * NFIELDS; k++) {
        const int i = k % NFIELDS;
        const bool is_own = objective_owns(c->v[F_objective].s, field_row[i].path);
        if (!field_applies(c, i) || !field_objectives(i) || is_own != (k < NFIELDS))
            continue;
        const FieldType type = field_row[i].type;
        const FieldValue v = type == FT_INT     ? (FieldValue){.i = config_int(c, i)}
                             : type == FT_FLOAT ? (FieldValue){.f = config_float(c, i)}
                             : type == FT_BOOL  ? (FieldValue){.i = config_bool(c, i)}
                                                : (FieldValue){.s = config_text(c, i)};
        str_print(&s, "%s=%s\n", field_row[i].path,
                  type == FT_CHOICE ? v.s : value_print(type, &v));
    }
    return s.text;
}

/* Adds the hole @NAME_CLIP@ for NAME.clip = 0.2; for a word also @UPPER_NAME_CLIP@. Returns the
 * number of holes. */
static int field_holes(const char *fields, Hole *holes)
{
    int n = 0;
    for (const char *line = fields; *line; line += strcspn(line, "\n") + 1) {
        const size_t path = strcspn(line, "=");
        char *name = text_print("%.*s", (int)path, line);
        const bool word = field_row[field_find(name)].type == FT_CHOICE;
        char *value = text_print("%.*s", (int)(strcspn(line, "\n") - path - 1), line + path + 1);
        for (char *p = name; *p; p++)
            *p = *p == '.' ? '_' : *p;
        holes[n++] = (Hole){text_capitals(name), value, false};
        if (word)
            holes[n++] = (Hole){text_print("UPPER_%s", text_capitals(name)), text_capitals(value),
                                false};
    }
    return n;
}

static char *defaults(const Config *c)
{
    Str s = {0};
    for (int i = 0; i < c->nrun; i++)
        str_print(&s, "    {%s, %s},\n", c_string(c->run_name[i]), c_string(c->run_value[i]));
    return s.n ? s.text : "";
}

/* Returns the arguments of gen, quoted for a shell. */
static char *words(const Config *c)
{
    char **word;
    Str s = {0};
    str_print(&s, "%s", text_shell(text_comment(recipe_name(c->recipe))));
    for (int i = 0, n = config_overrides(c, &word); i < n; i++)
        str_print(&s, " %s", text_shell(text_comment(word[i])));
    return s.text;
}

static char *manifest(const Config *c, const char *fields, const char *cluster)
{
    char **word;
    const int n = config_overrides(c, &word);
    const Target *t = target_find(c->v[F_target].s);
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "recipe", recipe_name(c->recipe));
    cJSON *overrides = cJSON_AddArrayToObject(o, "overrides");
    for (int i = 0; i < n; i++)
        cJSON_AddItemToArray(overrides, cJSON_CreateString(word[i]));
    cJSON_AddStringToObject(o, "recipe_sha256", c->hash);
    cJSON_AddStringToObject(o, "generator", GEN_VERSION);
    cJSON_AddStringToObject(o, "target", t->name);
    cJSON_AddStringToObject(o, "cflags", t->cflags);
    emit_toolchain_manifest(o, cluster, toolchain_needs(t, 1, true));
    cJSON_AddStringToObject(o, "model_fields", fields);
    folder_list(o);
    return json_text(o);
}

void standalone_emit(Config *c, const char *outdir, bool force)
{
    const char *folder = text_print("templates/programs/%s", c->v[F_objective].s);
    const Target *target = target_find(c->v[F_target].s);
    char *fields = standalone_fields(c), *lines = cluster_lines(c);
    const char *cluster = lines ? cluster_value(lines, "name", 0) : NULL;
    struct dirent **list;
    const int n = scandir(text_print("%s/%s", gen_root(), folder), &list, NULL, alphasort);
    if (n < 0)
        err((Loc){folder, 0}, "cannot be read: %s", strerror(errno));
    enum { OWN = 14 };
    Hole hole[OWN + 2 * NFIELDS + 1] = {
        {"COMMAND", text_print("gen %s", words(c)), false},
        {"MADE", c_string(words(c)), false},
        {"RECIPE", c_string(recipe_name(c->recipe)), false},
        {"HASH", c_string(c->hash), false},
        {"GENERATOR", c_string(GEN_VERSION), false},
        {"NAME", c->name, false},
        {"CLUSTER", cluster ? c_string(cluster) : "NULL", false},
        {"CFLAGS", target->cflags, false},
        {"PACKAGES", toolchain_package_words(toolchain_needs(target, 1, true), false), false},
        {"TARGET", target->name, false},
        {"FIELDS", c_string(fields), false},
        {"ALL_FIELDS", c_string(other_fields(NULL, c)), false},
        {"toolchain", template_source("templates/toolchain.mk"), false},
        {"defaults", defaults(c), false}};
    const int holes = OWN + field_holes(fields, hole + OWN);
    folder_begin();
    for (int i = 0; i < n; i++) {
        const char *name = list[i]->d_name, *path = text_print("%s/%s", folder, name);
        if (name[0] != '.' && strcmp(name, "Makefile"))
            folder_put(name, template_fill_some(path, hole, holes), false);
    }
    char *objects = sources_put(c->v[F_objective].s, target->backend, "fp32", false);
    hole[holes] = (Hole){"OBJECTS", objects, false};
    const char *makefile = text_print("%s/Makefile", folder);
    folder_put("Makefile", template_fill_some(makefile, hole, holes + 1), false);
    folder_put("run.sh", emit_run_sh("cpu", c->name, recipe_name(c->recipe), 1, NULL), true);
    emit_toolchain(cluster);
    folder_sources();
    folder_write(outdir, manifest(c, fields, cluster), force);
}
