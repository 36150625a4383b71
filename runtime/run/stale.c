/* stale.c -- check that a program was built from the sources next to it. */
#define _GNU_SOURCE
#include "runtime/run/stale.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base.h"
#include "runtime/files/folder.h"
#include "runtime/files/json.h"
#include "runtime/run/failure.h"

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
