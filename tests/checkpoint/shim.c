/* shim.c -- preloaded: makes the n-th fsync or rename of the process fail, or kills it around a call.
 *
 * In:    FAIL_FSYNC, FAIL_RENAME: "n" or "n-m" (calls n..m, counted from 1), as EIO.
 *        NO_FLOCK: flock is not there, as on Lustre without its option.
 *        BUCKET: no hard links and no flags of renameat2, as on a bucket mounted by rclone.
 *        KILL_AT: n: SIGKILL at the n-th moment: before and after each call that changes a folder.
 *        BAD_DISK: "FOLDER SEED MICROSECONDS ONE_IN": below this folder write, fsync and rename take up to so many
 *        microseconds, and one in so many fails, as EIO or ENOSPC; 0: none. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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

/* Of the call on fd, or else on path: waits; whether it is to fail, with errno. */
static int bad_disk(int fd, const char *path)
{
    static char folder[400];
    static unsigned slow, one_in;
    static unsigned long state;
    const char *text = getenv("BAD_DISK");
    char by_fd[32], name[4096];
    if (!text || (!*folder && sscanf(text, "%399s %lu %u %u", folder, &state, &slow, &one_in) != 4))
        return 0;
    if (!path) {
        snprintf(by_fd, sizeof by_fd, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(by_fd, name, sizeof name - 1);
        name[n > 0 ? n : 0] = 0;
        path = name;
    }
    const size_t n = strlen(folder);
    if (strncmp(path, folder, n) || (path[n] && path[n] != '/'))
        return 0;
    state = state * 6364136223846793005ul + 1442695040888963407ul;
    const unsigned draw = (unsigned)(state >> 33);
    if (slow)
        usleep(draw % slow);
    errno = draw & 1 ? EIO : ENOSPC;
    return one_in && draw / 2 % one_in == 0;
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

int link(const char *from, const char *to)
{
    static int (*real)(const char *, const char *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "link");
    moment();
    int result = getenv("BUCKET") ? -1 : real(from, to), why = getenv("BUCKET") ? EPERM : errno;
    moment();
    errno = why;
    return result;
}

int renameat2(int a, const char *from, int b, const char *to, unsigned flags)
{
    static int (*real)(int, const char *, int, const char *, unsigned);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "renameat2");
    moment();
    int result = getenv("BUCKET") ? -1 : real(a, from, b, to, flags), why = getenv("BUCKET") ? EINVAL : errno;
    moment();
    errno = why;
    return result;
}
CALL(unlink, (const char *path), (path))

int fsync(int fd)
{
    static int calls;
    static int (*real)(int);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "fsync");
    if (bad_disk(fd, NULL))
        return -1;
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
    if (bad_disk(-1, from))
        return -1;
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

#define WRITES(name, declared, given)                       \
    ssize_t name declared                                   \
    {                                                       \
        static ssize_t(*real) declared;                     \
        if (!real)                                          \
            *(void **)&real = dlsym(RTLD_NEXT, #name);      \
        return bad_disk(fd, NULL) ? -1 : real given;        \
    }
WRITES(write, (int fd, const void *from, size_t n), (fd, from, n))
WRITES(pwrite, (int fd, const void *from, size_t n, off_t at), (fd, from, n, at))
WRITES(pwrite64, (int fd, const void *from, size_t n, off64_t at), (fd, from, n, at))
