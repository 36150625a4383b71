/* shim.c -- preloaded: makes the n-th fsync or rename of the process fail, or kills it around a call.
 *
 * In:    FAIL_FSYNC, FAIL_RENAME: "n" or "n-m" (calls n..m, counted from 1), as EIO.
 *        NO_FLOCK: flock is not there, as on Lustre without its option.
 *        KILL_AT: n: SIGKILL at the n-th moment: before and after each call that changes a folder. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
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

/* A moment at which a kill would leave something else behind. */
static void moment(void)
{
    static int calls;
    if (due("KILL_AT", &calls))
        raise(SIGKILL);
}

/* A call that changes a folder, between two moments. */
#define CALL(name, declared, given)                         \
    int name declared                                       \
    {                                                       \
        static int(*real) declared;                         \
        if (!real)                                          \
            *(void **)&real = dlsym(RTLD_NEXT, #name);      \
        moment();                                           \
        int result = real given, why = errno;               \
        moment();                                           \
        errno = why;                                        \
        return result;                                      \
    }
CALL(mkostemp, (char *name, int flags), (name, flags))
static int (*real_flock)(int fd, int how);

int flock(int fd, int how)
{
    if (!real_flock)
        *(void **)&real_flock = dlsym(RTLD_NEXT, "flock");
    moment();
    int result = getenv("NO_FLOCK") ? -1 : real_flock(fd, how), why = getenv("NO_FLOCK") ? ENOSYS : errno;
    moment();
    errno = why;
    return result;
}
CALL(link, (const char *from, const char *to), (from, to))
CALL(unlink, (const char *path), (path))

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
    moment();
    int result = real(fd), why = errno;
    moment();
    errno = why;
    return result;
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
    moment();
    int result = real(from, to), why = errno;
    moment();
    errno = why;
    return result;
}
