/* emit_folder.c -- writes out/NAME: compares with the existing folder, removes, replaces.
 *
 * In:    files by name and text.   Out: those that changed, manifest.json.
 * Keeps: files that gen did not write; runs of another model prevent writing, unless forced.
 * Method: all files are known before the first is written; manifest.json is written before them and
 *         lists them, so that their owner is known even if gen is killed in between. */
#define _GNU_SOURCE
#include "gen/emit/emit.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/files/json.h"
#include "runtime/files/folder.h"

enum { FILES = 1000, RUNS = 64, MAX_JSON = 1 << 28 };

static struct { const char *name, *text, *hash; bool executable; } file[FILES];
static int nfiles;

void folder_begin(void)
{
    nfiles = 0;
}

void folder_put(const char *name, const char *text, bool executable)
{
    if (nfiles == FILES)
        bug("too many emitted files");
    file[nfiles].name = text_copy(name);
    file[nfiles].text = text;
    file[nfiles].hash = sha256_hex(text, strlen(text));
    file[nfiles++].executable = executable;
}

bool folder_has(const char *name)
{
    for (int i = 0; i < nfiles; i++)
        if (!strcmp(file[i].name, name))
            return true;
    return false;
}

int folder_files(EmitFile **files)
{
    *files = arena_new((size_t)nfiles * sizeof **files + 1);
    for (int i = 0; i < nfiles; i++)
        (*files)[i] = (EmitFile){file[i].name, file[i].text};
    return nfiles;
}

char *folder_hash(const char *prefix)
{
    Str s = {0};
    for (int i = 0; i < nfiles; i++)
        if (!strncmp(file[i].name, prefix, strlen(prefix)))
            str_print(&s, "%s %s\n", file[i].name, file[i].hash);
    return sha256_hex(s.text, s.n);
}

/* Returns true for files that make reads: sources and the Makefile. */
static bool is_source(const char *name)
{
    static const char *const end[] = {".c", ".cu", ".cuh", ".h", ".def"};
    const char *dot = strrchr(name, '.');
    for (size_t i = 0; dot && i < sizeof end / sizeof *end; i++)
        if (!strcmp(dot, end[i]))
            return true;
    return !strcmp(name, "Makefile");
}

static const char *sources_sha256;           /* of folder_sources() */

void folder_sources(void)
{
    Str s = {0};
    for (int i = 0; i < nfiles; i++)
        if (is_source(file[i].name))
            str_print(&s, "%s %s\n", file[i].name, file[i].hash);
    sources_sha256 = sha256_hex(s.text, s.n);
    Hole hash = {"HASH", sources_sha256, false};
    folder_put("sources.h", template_fill("templates/sources.h", &hash, 1), false);
}

void folder_list(cJSON *manifest)
{
    cJSON_AddStringToObject(manifest, "sources_sha256", sources_sha256);
    cJSON *files = cJSON_AddObjectToObject(manifest, "files");
    for (int i = 0; i < nfiles; i++)
        cJSON_AddStringToObject(files, file[i].name, file[i].hash);
}

/* Returns the parsed file; NULL: it is missing or is not JSON. */
static cJSON *read_json(const char *path)
{
    size_t n;
    char *text = file_text(path, MAX_JSON, &n), *error = NULL;
    cJSON *json = text ? json_parse(text, n, &error) : NULL;
    free(error);
    return json;
}

char *emit_project(const char *dir)
{
    char *real = realpath(dir, NULL);
    for (int i = 0; real && i < 2; i++) {
        char *slash = strrchr(real, '/');
        if (i && strcmp(slash ? slash + 1 : "", "out"))
            break;
        if (slash)
            slash[slash == real] = 0;
    }
    return real;
}

const char *emit_recipe(const char *project, const char *given, char **looked)
{
    char *here = realpath(".", NULL);
    const char *root = here && strcmp(gen_root(), here) ? gen_root() : NULL;
    const char *folder[] = {project && here && strcmp(project, here) ? project : NULL, here,
                            root && project && !strcmp(root, project) ? NULL : root};
    Str s = {0};
    if (*given == '/')
        return given;
    for (size_t i = 0; i < sizeof folder / sizeof *folder; i++)
        for (int below = 0; folder[i] && below < 2; below++) {
            const char *name = below ? text_print("recipes/%s", given) : given;
            const char *path = folder[i] == here ? name : text_print("%s/%s", folder[i], name);
            if (!access(path, R_OK))
                return path;
            if (!below)
                str_print(&s, "%s%s", s.n ? ", " : "", folder[i]);
        }
    *looked = s.text;
    return NULL;
}

int emit_again(const char *dir, const char **recipe, char ***override)
{
    const char *path = text_print("%s/manifest.json", dir);
    cJSON *old = read_json(path), *words = json_get(old, "overrides"), *word;
    *recipe = cJSON_GetStringValue(json_get(old, "recipe"));
    bool good = *recipe && cJSON_IsArray(words);
    cJSON_ArrayForEach(word, words)
        good = good && cJSON_IsString(word);
    if (!good)
        err((Loc){path, 0}, "does not name the recipe of this folder; name it");
    char *looked;
    const char *found = emit_recipe(emit_project(dir), *recipe, &looked);
    if (!found)
        err((Loc){path, 0}, "made from %s, which is in none of %s; name it: gen PATH/%s --locked "
                            "-o %s, with the words of \"overrides\"", *recipe, looked, *recipe,
                            text_shell(dir));
    fprintf(stderr, "gen: %s: made from %s; using %s\n", dir, *recipe,
            found == *recipe ? text_print("%s in %s", found, realpath(".", NULL)) : found);
    *recipe = found;
    int n = 0;
    *override = arena_new((size_t)cJSON_GetArraySize(words) * sizeof **override + 1);
    cJSON_ArrayForEach(word, words)
        (*override)[n++] = word->valuestring;
    return n;
}

/* ---- what is in the way ---------------------------------------------------------------------- */

static void check_strangers(const char *dir, const cJSON *old)
{
    Str s = {0};
    struct stat st;
    for (int i = 0; i <= nfiles; i++) {
        const char *name = i < nfiles ? file[i].name : "manifest.json";
        bool ours = i < nfiles ? json_get(json_get(old, "files"), name) != NULL : old != NULL;
        if (!ours && !lstat(text_print("%s/%s", dir, name), &st))
            str_print(&s, "%s%s", s.n ? ", " : "", name);
    }
    if (s.n)
        err((Loc){dir, 0}, "holds files that gen did not write and would replace: %s; name another "
            "folder with -o, or --force", s.text);
}

/* Returns N of checkpoint-N; -1: another name. */
static int64_t checkpoint_step(const char *name)
{
    static const char prefix[] = "checkpoint-";
    if (strncmp(name, prefix, sizeof prefix - 1))
        return -1;
    name += sizeof prefix - 1;
    size_t digits = strspn(name, "0123456789");
    return digits && digits < 16 && !name[digits] ? atoll(name) : -1;
}

/* Returns the newest checkpoint in a folder, or NULL. */
static char *newest_checkpoint(const char *run)
{
    DIR *d = opendir(run);
    int64_t best = -1;
    for (struct dirent *e; d && (e = readdir(d));) {
        int64_t step = checkpoint_step(e->d_name);
        best = step > best ? step : best;
    }
    if (d)
        closedir(d);
    return best < 0 ? NULL : text_print("%s/checkpoint-%lld", run, (long long)best);
}

/* Returns the line `field=value` of the text with the same field as `line`, or NULL. */
static char *line_like(const char *text, const char *line)
{
    size_t n = strcspn(line, "=") + 1;
    for (const char *p = text; *p; p += strcspn(p, "\n"), p += *p == '\n')
        if (!strncmp(p, line, n))
            return text_print("%.*s", (int)strcspn(p, "\n"), p);
    return NULL;
}

/* Appends the lines of a that are not in b. */
static void add_differences(Str *s, const char *a, const char *b, bool both)
{
    for (const char *p = a; *p; p += strcspn(p, "\n"), p += *p == '\n') {
        char *line = text_print("%.*s", (int)strcspn(p, "\n"), p), *other = line_like(b, line);
        int n = (int)strcspn(line, "=");
        if (other ? both && strcmp(line, other) : true)
            str_print(s, "%s%.*s is %s in them, %s in the recipe", s->n ? "; " : "", n, line,
                      both ? line + n + 1 : "unknown",
                      !both ? line + n + 1 : other ? other + n + 1 : "unknown");
    }
}

/* Returns the fields that a run shares with the program that resumes it; NULL: not recorded. */
static const char *fields_of(const cJSON *json)
{
    const char *lines = cJSON_GetStringValue(json_get(json, "model_fields"));
    return lines ? renamed_lines(lines) : NULL;
}

/* Returns true if a program is running in the folder, or was killed there. */
static bool is_locked(const char *run)
{
    return !access(text_print("%s/run.lock", run), F_OK);
}

/* before: the fields of the existing program. */
static void check_run(const char *run, const char *before, const char *now)
{
    char *checkpoint = newest_checkpoint(run);
    cJSON *state = checkpoint ? read_json(text_print("%s/train_state.json", checkpoint)) : NULL;
    const char *fields = fields_of(state) ? fields_of(state) : before;
    Str s = {0};
    if (fields) {
        add_differences(&s, fields, now, true);
        add_differences(&s, now, fields, false);
    }
    if (s.n)
        err((Loc){checkpoint ? checkpoint : run, 0}, "a run of another model%s: %s; emit into "
            "another folder (name=..., -o), move the runs away, or use --force, after which they "
            "cannot resume",
            checkpoint ? "" : " works there, or was killed (run.lock)", s.text);
}

/* Ends gen if the folder is not of gen and holds something other than runs, such as a home
 * folder. */
static void check_empty(const char *dir)
{
    struct dirent **list;
    int n = scandir(dir, &list, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        const char *name = list[i]->d_name, *path = text_print("%s/%s", dir, name);
        if (strcmp(name, ".") && strcmp(name, "..") && checkpoint_step(name) < 0 &&
            !(folder_exists(path) && newest_checkpoint(path)))
            err((Loc){dir, 0}, "holds %s, but no manifest.json of gen: name a new or empty folder "
                "with -o, or --force", text_shown(name));
    }
}

/* Ends gen unless the runs in the folder can resume with the program to be written. */
static void check_runs(const char *dir, const cJSON *old, const char *now)
{
    struct dirent **list;
    const char *before = fields_of(old);
    if (before && !strcmp(before, now))
        return;
    int n = scandir(dir, &list, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        const char *name = list[i]->d_name;
        char *path = !strcmp(name, ".") ? text_copy(dir) : text_print("%s/%s", dir, name);
        if (strcmp(name, "..") && folder_exists(path) &&
            (newest_checkpoint(path) || is_locked(path)))
            check_run(path, before, now);
        free(list[i]);
    }
    if (n >= 0)
        free(list);
}

/* ---- what goes ------------------------------------------------------------------------------- */

/* Removes a file, then the folders above it that are empty, up to dir. */
static void remove_file(const char *dir, const char *name)
{
    char *part = text_copy(name);
    unlink(text_print("%s/%s", dir, name));
    for (char *slash; (slash = strrchr(part, '/'));) {
        *slash = 0;
        if (rmdir(text_print("%s/%s", dir, part)))
            break;
    }
}

/* Removes the objects that the Makefile makes of a source: in .obj/, in older folders next to the
 * source. */
static void remove_objects(const char *dir, const char *name, bool is_old)
{
    const char *dot = strrchr(name, '.');
    if (!dot || (strcmp(dot, ".c") && strcmp(dot, ".cu")))
        return;
    for (int i = 0; i < 2; i++)
        unlink(text_print("%s/%s%.*s.%s", dir, is_old ? "" : ".obj/", (int)(dot - name), name,
                          i ? "d" : "o"));
}

static void remove_stale(const char *dir, const cJSON *old)
{
    bool before_obj = old && !fields_of(old);
    const cJSON *entry;
    cJSON_ArrayForEach(entry, json_get(old, "files")) {
        const char *name = entry->string, *hash = cJSON_GetStringValue(entry);
        if (!name || !*name || *name == '/' || strstr(name, ".."))
            continue;
        if (before_obj)
            remove_objects(dir, name, true);
        if (folder_has(name))
            continue;
        size_t n;
        char *path = text_print("%s/%s", dir, name), *text = file_text(path, 1 << 26, &n);
        if (text && hash && strcmp(sha256_hex(text, n), hash))
            printf("%s: no longer part of the program, but changed since gen wrote it: kept\n",
                   path);
        else if (text)
            remove_file(dir, name);
        remove_objects(dir, name, false);
    }
}

void folder_write(const char *dir, const char *manifest, bool force)
{
    char *path = text_print("%s/manifest.json", dir);
    cJSON *old = read_json(path), *fresh = json_parse(manifest, strlen(manifest), &(char *){NULL});
    if (!cJSON_IsObject(json_get(old, "files")))
        old = NULL;
    if (!force) {
        check_strangers(dir, old);
        if (!old)
            check_empty(dir);
        check_runs(dir, old, fields_of(fresh));
    }
    remove_stale(dir, old);
    file_write_if_changed(path, manifest, strlen(manifest), false);
    for (int i = 0; i < nfiles; i++)
        file_write_if_changed(text_print("%s/%s", dir, file[i].name), file[i].text,
                              strlen(file[i].text), file[i].executable);
}
