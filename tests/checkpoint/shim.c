/* shim.c -- preloaded: makes the n-th fsync or rename of the process fail.
 *
 * In:    FAIL_FSYNC, FAIL_RENAME: "n" or "n-m" (calls n..m, counted from 1), as EIO. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <stdio.h>

static int due(const char *variable, int *calls)
{
    const char *text = getenv(variable);
    int from = 0, to = 0;
    if (!text)
        return 0;
    int n = sscanf(text, "%d-%d", &from, &to);
    if (n == 1)
        to = from;
    ++*calls;
    return *calls >= from && *calls <= to;
}

int fsync(int fd)
{
    static int calls;
    static int (*real)(int);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "fsync");
    if (due("FAIL_FSYNC", &calls)) {
        errno = EIO;
        return -1;
    }
    return real(fd);
}

int rename(const char *from, const char *to)
{
    static int calls;
    static int (*real)(const char *, const char *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "rename");
    if (due("FAIL_RENAME", &calls)) {
        errno = EIO;
        return -1;
    }
    return real(from, to);
}
