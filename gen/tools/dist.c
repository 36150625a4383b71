/* dist.c -- `gen dist`: an archive of an emitted folder, to build elsewhere.
 *
 * In:    the folder's manifest.json and the files that it lists.
 * Out:   a tar file.
 * Keeps: only files as gen wrote them; sorted names, no time, owner or machine, so that the archive
 *        is reproducible. */
#define _GNU_SOURCE
#include "gen/tools/process.h"
#include "gen/tools/tools.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <dirent.h>
#include <unistd.h>

#include "runtime/files/json.h"
#include "runtime/files/folder.h"

enum { MOST = 1 << 26, FOLDERS = 500 };
static const double tar_seconds = 600;

/* Folder of a word: out/NAME, or the word itself if it has a slash. */
static const char *find_folder(const char *word)
{
    const char *path = strchr(word, '/') ? word : text_print("out/%s", word);
    if (folder_exists(path))
        return path;
    const char *name[FOLDERS], *near = NULL;
    int n = 0;
    DIR *d = strchr(word, '/') ? NULL : opendir("out");
    for (struct dirent *e; d && n < FOLDERS && (e = readdir(d));)
        if (e->d_name[0] != '.' && !access(text_print("out/%s/manifest.json", e->d_name), R_OK))
            name[n++] = text_copy(e->d_name);
    if (d)
        closedir(d);
    qsort(name, (size_t)n, sizeof *name, text_order);
    near = text_nearest(word, name, n);
    err((Loc){0}, "dist: there is no folder %s%s", path,
        near ? text_print("; did you mean %s?", near) : "; gen RECIPE writes it");
}

static cJSON *read_manifest(const char *folder)
{
    size_t n;
    const char *path = text_print("%s/manifest.json", folder);
    char *text = file_text(path, MOST, &n), *error = NULL;
    if (!text)
        err((Loc){folder, 0}, errno == ENOENT ? "has no manifest.json: not a folder that gen wrote"
                                              : "manifest.json cannot be read");
    cJSON *o = json_parse(text, n, &error);
    if (!o || !cJSON_IsObject(json_get(o, "files")))
        err((Loc){path, 0}, "%s; run gen again", o ? "lists no files" : error);
    const char *by = cJSON_GetStringValue(json_get(o, "generator"));
    if (!by || strcmp(by, GEN_VERSION) || !cJSON_IsArray(json_get(o, "packages")))
        err((Loc){folder, 0}, "was written by an older gen (%s): run gen again",
            by ? by : "of no version");
    return o;
}

/* Lines with the folder's file names, sorted; ends the program if a file is not as gen wrote it. */
static char *check_files(const char *folder, const cJSON *files, int *count)
{
    const char **name = arena_new(((size_t)cJSON_GetArraySize(files) + 1) * sizeof *name);
    const cJSON *entry;
    Str bad = {0}, s = {0};
    int n = 0, wrong = 0;
    cJSON_ArrayForEach(entry, files) {
        const char *hash = cJSON_GetStringValue(entry), *why = NULL;
        size_t bytes;
        if (*entry->string == '/' || strstr(entry->string, "..") || strchr(entry->string, '\n'))
            err((Loc){text_print("%s/manifest.json", folder), 0},
                "lists %s, which is not a file name that gen writes", entry->string);
        char *text = file_text(text_print("%s/%s", folder, entry->string), MOST, &bytes);
        if (!text)
            why = "is missing";
        else if (!hash || strcmp(sha256_hex(text, bytes), hash))
            why = "was changed since gen wrote it";
        if (why && !wrong++)
            str_print(&bad, "%s %s", entry->string, why);
        name[n++] = entry->string;
    }
    if (wrong)
        err((Loc){folder, 0}, "%s%s: run gen again", bad.text,
            wrong > 1 ? text_print(", and %d more", wrong - 1) : "");
    name[n++] = "manifest.json";
    qsort(name, (size_t)n, sizeof *name, text_order);
    for (int i = 0; i < n; i++)
        str_print(&s, "%s\n", name[i]);
    *count = n;
    return s.text;
}

static void write_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    if (!f || fputs(text, f) < 0 || fclose(f))
        err((Loc){0}, "cannot write %s: %s", path, strerror(errno));
}

int dist_main(int argc, char **argv)
{
    const char *word = NULL, *to = NULL;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "-o")) {
            if (i + 1 == argc)
                err((Loc){0}, "-o: needs a file after it");
            to = argv[++i];
        } else if (*argv[i] == '-' || word)
            err((Loc){0}, "dist: %s: takes one folder, and -o FILE.tar", argv[i]);
        else
            word = argv[i];
    }
    if (!word)
        err((Loc){0}, "dist: needs the NAME of a folder out/NAME, or a folder");
    char *real = realpath(find_folder(word), NULL);
    if (!real)
        err((Loc){0}, "dist: %s: %s", word, strerror(errno));
    const char *folder = text_copy(real), *name = strrchr(folder, '/') + 1;
    free(real);
    int n;
    char *files = check_files(folder, json_get(read_manifest(folder), "files"), &n);
    const char *list = text_print("%s/list", scratch_folder());
    to = to ? to : text_print("%s.tar", folder);
    const char *part = text_print("%s.part", to);
    write_text(list, files);
    /* names in the archive begin with the folder's own; escape what has a meaning to tar */
    Str sign = {0};
    for (const char *p = name; *p; p++)
        str_print(&sign, strchr("&,\\", *p) ? "\\%c" : "%c", *p);
    const char *const words[] = {
        "tar", "--create", "--file", part, "--format=ustar", "--mtime=@0", "--owner=0", "--group=0",
        "--numeric-owner", "--mode=u=rwX,go=rX", "--no-recursion",
        text_print("--transform=s,^,%s/,", sign.text), "-C", folder, "--verbatim-files-from",
        "--files-from", list, NULL};
    unsetenv("TAR_OPTIONS");
    Ended e = process_run((char *const *)words, NULL, tar_seconds);
    struct stat st;
    if (e.code || e.late || stat(part, &st) || !file_commit(part, to)) {
        const char *why = *e.text ? e.text : strerror(errno);
        unlink(part);
        err((Loc){0}, "%s is not written: %.*s", to, (int)strcspn(why, "\n"), why);
    }
    printf("%s: %d files, %s; elsewhere: tar -xf it, then README.md in %s\n", to, n,
           text_bytes(st.st_size), name);
    return 0;
}
