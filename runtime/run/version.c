/* version.c -- --version --verbose and --version --json; whether a program was built from the
 * sources next to it; see version.h. */
#define _GNU_SOURCE
#include "runtime/run/version.h"

#include <cjson/cJSON.h>
#include <gnu/libc-version.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base.h"
#include "runtime/files/folder.h"
#include "runtime/files/json.h"

/* ---- --version ------------------------------------------------------------------------------- */

static int libraries(const Built *b, LibraryVersion *list)
{
    int n = 0;
    list[n++] = (LibraryVersion){"C library", VERSION_2(__GLIBC__, __GLIBC_MINOR__),
                                 gnu_get_libc_version(), false};
    list[n++] = (LibraryVersion){
        "cJSON", VERSION_3(CJSON_VERSION_MAJOR, CJSON_VERSION_MINOR, CJSON_VERSION_PATCH),
        cJSON_Version(), false};
    return b->libraries ? n + b->libraries(list + n) : n;
}

static void add(cJSON *o, const char *key, const char *text)
{
    if (text)
        cJSON_AddStringToObject(o, key, text);
    else
        cJSON_AddNullToObject(o, key);
}

static void print_json(const Built *b, const LibraryVersion *list, int n)
{
    cJSON *o = cJSON_CreateObject();
    const size_t name = strcspn(b->lock, " ");
    add(o, "name", b->name);
    add(o, "generator", b->generator);
    add(o, "recipe", b->recipe);
    add(o, "recipe_sha256", b->hash);
    add(o, "overrides", b->overrides);
    add(o, "objective", b->objective);
    add(o, "family", b->family);
    add(o, "precision", b->precision);
    add(o, "target", b->target);
    add(o, "cluster", b->cluster);
    cJSON_AddNumberToObject(o, "ranks", (double)b->ranks);
    add(o, "ir_sha256", b->ir);
    add(o, "kernels_sha256", b->kernels);
    add(o, "compiler", b->compiler);
    add(o, "kernel_compiler", b->kernel_compiler);
    add(o, "flags", b->flags);
    if (*b->lock) {
        cJSON *lock = cJSON_AddObjectToObject(o, "lock");
        char *cluster = strndup(b->lock, name);
        add(lock, "cluster", cluster);
        add(lock, "sum", b->lock + name + 1);
        free(cluster);
    } else
        add(o, "lock", NULL);
    cJSON *all = cJSON_AddObjectToObject(o, "libraries");
    for (int i = 0; i < n; i++) {
        cJSON *one = cJSON_AddObjectToObject(all, list[i].name);
        add(one, "built", list[i].built);
        add(one, "loaded", list[i].loaded);
    }
    char *text = cJSON_Print(o);
    if (!text)
        die(EXIT_INTERNAL, "out of memory for the version");
    puts(text);
    free(text);
    cJSON_Delete(o);
}

void version_more(const Built *b, bool json)
{
    LibraryVersion list[LIBRARY_VERSIONS];
    const int n = libraries(b, list);
    if (json) {
        print_json(b, list, n);
        return;
    }
    printf("cluster %s\nflags %s\n", b->cluster ? b->cluster : "none", b->flags);
    printf("lock %s\n", *b->lock ? b->lock : "none: built with the installed tools");
    for (int i = 0; i < n; i++)
        printf("library %s %s, loaded %s\n", list[i].name,
               list[i].built ? list[i].built : "of unknown version",
               list[i].loaded ? list[i].loaded : "of unknown version");
}

char *version_computes(const LibraryVersion *list, int n)
{
    char *words = format("%s", "");
    for (int i = 0; i < n; i++)
        if (list[i].computes) {
            char *longer = format("%s%s%s %s", words, *words ? ", " : "", list[i].name,
                                  list[i].loaded ? list[i].loaded : "missing");
            free(words);
            words = longer;
        }
    return words;
}

/* ---- sources --------------------------------------------------------------------------------- */

enum { MANIFEST = 1 << 24 };

/* Returns the folder of the program; "": unknown. */
static void program_folder(char folder[PATH_MAX])
{
    const ssize_t n = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    folder[n > 0 ? n : 0] = 0;
    char *slash = strrchr(folder, '/');
    *(slash ? slash : folder) = 0;
}

/* Returns the path relative to the working folder, if it is below that. */
static const char *seen_from_here(const char *folder)
{
    char here[PATH_MAX];
    const size_t n = getcwd(here, sizeof here) ? strlen(here) : 0;
    return n > 1 && !strncmp(folder, here, n) && folder[n] == '/' ? folder + n + 1 : folder;
}

void stale_check(const char *sources)
{
    char folder[PATH_MAX], *error = NULL;
    size_t n;
    program_folder(folder);
    char *path = folder_join(folder, "manifest.json"),
         *text = file_read(path, MANIFEST, &n, &error);
    free(error);
    cJSON *manifest = text ? json_parse(text, n, &error) : NULL;
    const char *written = cJSON_GetStringValue(json_get(manifest, "sources_sha256"));
    if (written && strcmp(written, sources)) {
        char *word = shell_word(seen_from_here(folder));
        die(EXIT_CONFIG,
            "the program was built before gen last rewrote its sources; rebuild it: make -C %s",
            word);
    }
    cJSON_Delete(manifest);
    free(path), free(text);
}
