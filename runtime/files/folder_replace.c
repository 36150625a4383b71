/* folder_replace.c -- atomic replacement of folders, and of files that are written in pieces. */
#define _GNU_SOURCE
#include "runtime/files/folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base.h"

static char *failed(const char *path, const char *what)
{
    return format("%s: %s: %s", path, what, strerror(errno));
}

char *folder_replace(const char *path, char *(*write)(const char *temp, void *with), void *with)
{
    char *temp = format("%s.tmp", path), *error = folder_make_parents(path);
    if (!error && folder_exists(temp))
        error = folder_remove(temp);
    if (!error)
        error = folder_make(temp);
    if (!error)
        error = write(temp, with);
    if (!error)
        error = folder_commit(temp, path);
    if (error && folder_exists(temp))
        free(folder_remove(temp));
    free(temp);
    return error;
}

/* Links or copies one file of `from` into `to`. */
static char *link_file(const char *from, const char *to, const char *name)
{
    char *source = folder_join(from, name), *path = folder_join(to, name), *error = NULL;
    if (link(source, path))
        error = errno == EEXIST || errno == ENOENT ? failed(path, "link")
                                                   : folder_copy(from, to, name, NULL);
    free(source), free(path);
    return error;
}

static char *link_files(const char *temp, void *with)
{
    const char *from = with;
    char *error = NULL;
    DIR *dir = opendir(from);
    if (!dir)
        return failed(from, "open");
    for (struct dirent *d; !error && (errno = 0, d = readdir(dir));)
        if (strcmp(d->d_name, ".") && strcmp(d->d_name, ".."))
            error = link_file(from, temp, d->d_name);
    if (!error && errno)
        error = failed(from, "read");
    closedir(dir);
    return error;
}

char *folder_link(const char *from, const char *to)
{
    return folder_replace(to, link_files, (void *)(uintptr_t)from);
}

char *folder_replace_file(const char *folder, const char *name,
                          char *(*write)(FILE *to, const void *with), const void *with)
{
    char *path = folder_join(folder, name), *temp = format("%s.tmp", path);
    char *why = NULL, *error = NULL;
    int fd = file_create(temp, &error);
    FILE *to = fd < 0 ? NULL : fdopen(fd, "w");
    if (fd >= 0 && !to) {
        error = failed(path, "open");
        close(fd);
    }
    if (to) {
        why = write(to, with);
        if (why)
            error = format("%s: %s", path, why);
        else if (fflush(to) || fsync(fd))
            error = failed(path, "write");
        if (fclose(to) && !error)
            error = failed(path, "close");
        if (error)
            unlink(temp);
    }
    if (!error)
        error = folder_commit_file(folder, temp, name);
    free(why), free(temp), free(path);
    return error;
}
