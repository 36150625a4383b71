/* run_folder.c -- files of a run folder.
 *
 * Keeps: foreign files are neither listed nor moved; no file is removed. */
#define _GNU_SOURCE
#include "runtime/run/run_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/files/folder.h"
#include "runtime/objectives/owners.h"

/* Kinds of files, see run_files.def. */
typedef enum { FOREIGN, CHECKPOINT, FAULT, CACHE, OTHER } Kind;

static Kind kind_of(const char *name, const char *const *files)
{
    static const struct { const char *name; int owners; Kind kind; } run_file[] = {
#define RUN_FILE(name, kind, owners, about) {name, OWNERS(owners), kind},
#include "runtime/run/run_files.def"
    };
    const char *rest;
    if (folder_step_of(name, &rest) >= 0)
        return CHECKPOINT;
    for (size_t i = 0; i < sizeof run_file / sizeof *run_file; i++) {
        const bool others = run_file[i].kind == CHECKPOINT || (run_file[i].kind == OTHER &&
                                                            run_file[i].owners != OWNERS_all);
        if (!others && fnmatch(run_file[i].name, name, 0) == 0)
            return run_file[i].kind;
    }
    for (; files && *files; files++)
        if (fnmatch(*files, name, 0) == 0)
            return OTHER;
    return FOREIGN;
}

/* Returns the sorted names in OUT; free() each. */
static int list(const char *out, struct dirent ***entry)
{
    int n = scandir(out, entry, NULL, alphasort);
    if (n < 0)
        die(EXIT_IO, "%s: open: %s", out, strerror(errno));
    return n;
}

static void append(char **text, const char *name, const char *suffix)
{
    char *longer = format("%s%s%s%s", *text, **text ? ", " : "", name, suffix);
    free(*text);
    *text = longer;
}

void run_folder_report(const char *out, const char *const *files, const char *log)
{
    struct dirent **entry;
    int n;
    if (world.rank != 0)
        return;
    int64_t *step = folder_steps(out, &n);
    char *text = format("%s", "");
    if (n > 0) {
        char *newest = format("checkpoint-%lld/", (long long)step[n - 1]),
             *of = n > 1 ? format(" (the newest of %d)", n) : format("%s", "");
        append(&text, newest, of);
        free(of);
        free(newest);
    }
    free(step);
    n = list(out, &entry);
    for (int i = 0; i < n; i++) {
        const char *name = entry[i]->d_name;
        char *path = folder_join(out, name);
        Kind kind = kind_of(name, files);
        if (!strcmp(name, "logs"))
            append(&text, log, "");
        else if (kind == CACHE || kind == OTHER)
            append(&text, name, folder_exists(path) ? "/" : "");
        free(path), free(entry[i]);
    }
    note("in %s are %s", out, text);
    free(entry), free(text);
}

/* Creates the first of aside-1, aside-2 ... that does not exist, and returns it; malloc'ed. */
static char *new_aside(const char *out)
{
    for (int k = 1;; k++) {
        char *path = format("%s/aside-%d", out, k), *error;
        if (file_named(path)) {
            free(path);
            continue;
        }
        if ((error = folder_make(path)))
            die(EXIT_IO, "%s", error);
        return path;
    }
}

void run_folder_set_aside(const char *out, const char *const *files)
{
    struct dirent **entry;
    char *to = NULL, *error;
    if (world.rank != 0)
        return;
    int n = list(out, &entry);
    for (int i = 0; i < n; i++) {
        const char *name = entry[i]->d_name;
        Kind kind = kind_of(name, files);
        if (kind == FOREIGN || kind == CACHE)
            continue;
        to = to ? to : new_aside(out);
        char *from = folder_join(out, name), *path = folder_join(to, name);
        if (rename(from, path))
            die(EXIT_IO, "%s: rename to %s: %s", from, path, strerror(errno));
        free(from), free(path);
    }
    while (n--)
        free(entry[n]);
    free(entry);
    if (!to)
        return;
    if ((error = folder_sync(to)) || (error = folder_sync(out)))
        die(EXIT_IO, "%s", error);
    note("--force: files of earlier runs in %s are now in %s", out, to);
    free(to);
}

char *run_folder_forget(const char *out, const char *prefix)
{
    const char *slash = strrchr(prefix, '/'), *first = slash ? slash + 1 : prefix;
    char *below = format("%.*s", slash ? (int)(slash - prefix) : 0, prefix),
         *in = slash ? folder_join(out, below) : format("%s", out), *error = NULL;
    struct dirent **entry;
    const int n = scandir(in, &entry, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        const char *run_file = entry[i]->d_name;
        char *end = NULL;
        const long long step = strncmp(run_file, first, strlen(first)) ? -1
                             : strtoll(run_file + strlen(first), &end, 10);
        char *path = folder_join(in, run_file), *of = format("%s/checkpoint-%lld", out, step);
        if (step >= 0 && !*end && end > run_file + strlen(first) && !folder_exists(of) && !error)
            error = folder_remove(path);
        free(path), free(of), free(entry[i]);
    }
    if (n >= 0)
        free(entry);
    free(below), free(in);
    return error;
}
