/* inject.c -- wrappers of system calls that can be made to fail.
 *
 * Keeps: calls made inside system libraries and on memory streams never fail. */
#define _GNU_SOURCE
#include "inject.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

Injected *injected;
static int wanted, why_, on_;

void inject(int n, int why, bool on)
{
    wanted = n, why_ = why, on_ = on;
    if (n)
        *injected = (Injected){0};
}

enum { OPENS = 1, CREATES = 2, READS = 4, WRITES = 8, SYNCS = 16, NAMES = 32, WAITS = 64, PARTS = 128 };

/* True if a call of these kinds can fail with the chosen errno. */
static bool may(int kinds)
{
    switch (why_) {
    case EMFILE: return kinds & OPENS;
    case ENOSPC: return kinds & (CREATES | WRITES | SYNCS);
    case EIO: return true;
    case EINTR: return kinds & (WAITS | PARTS);
    case INJECT_SHORT: return kinds & PARTS;
    default: return false;
    }
}

/* True if this call fails; sets errno. */
static bool fails(const char *name, int kinds)
{
    if (!wanted || !may(kinds))
        return false;
    const int n = __atomic_add_fetch(&injected->calls, 1, __ATOMIC_SEQ_CST);
    if (n != wanted && !(on_ && n > wanted))
        return false;
    if (!__atomic_fetch_add(&injected->failed, 1, __ATOMIC_SEQ_CST))
        snprintf(injected->name, sizeof injected->name, "%s", name);
    errno = why_ > 0 ? why_ : 0;
    return true;
}

#define WRAP(type, name, kinds, failure, declared, given)       \
    type __real_##name declared;                                \
    type __wrap_##name declared;                                \
    type __wrap_##name declared                                 \
    {                                                           \
        return fails(#name, kinds) ? (type)(failure) : __real_##name given; \
    }
WRAP(int, mkostemp, OPENS | CREATES, -1, (char *name, int flags), (name, flags))
WRAP(int, mkstemp, OPENS | CREATES, -1, (char *name), (name))
WRAP(DIR *, opendir, OPENS, NULL, (const char *path), (path))
WRAP(DIR *, fdopendir, 0, NULL, (int fd), (fd))
WRAP(struct dirent *, readdir, 0, NULL, (DIR *dir), (dir))
WRAP(int, scandir, OPENS, -1, (const char *path, struct dirent ***list, int (*filter)(const struct dirent *),
     int (*order)(const struct dirent **, const struct dirent **)), (path, list, filter, order))
WRAP(int, fsync, SYNCS, -1, (int fd), (fd))
WRAP(int, rename, NAMES | CREATES, -1, (const char *from, const char *to), (from, to))
WRAP(int, renameat2, NAMES | CREATES, -1, (int a, const char *from, int b, const char *to, unsigned flags),
     (a, from, b, to, flags))
WRAP(int, link, NAMES | CREATES, -1, (const char *from, const char *to), (from, to))
WRAP(int, mkdir, NAMES | CREATES, -1, (const char *path, mode_t mode), (path, mode))
WRAP(int, unlink, NAMES, -1, (const char *path), (path))
WRAP(int, unlinkat, NAMES, -1, (int fd, const char *path, int flags), (fd, path, flags))
WRAP(int, rmdir, NAMES, -1, (const char *path), (path))
WRAP(int, statvfs, 0, -1, (const char *path, struct statvfs *s), (path, s))
WRAP(int, fstat, 0, -1, (int fd, struct stat *s), (fd, s))
WRAP(int, fseek, WRITES, -1, (FILE *f, long at, int from), (f, at, from))

/* Calls that move bytes, possibly fewer than asked. */
#define MOVE(name, kinds, declared, given)                      \
    ssize_t __real_##name declared;                             \
    ssize_t __wrap_##name declared;                             \
    ssize_t __wrap_##name declared                              \
    {                                                           \
        if (fails(#name, kinds | PARTS)) {                      \
            if (why_ != INJECT_SHORT)                           \
                return -1;                                      \
            n = n > 1 ? n / 2 : n;                              \
        }                                                       \
        return __real_##name given;                             \
    }
MOVE(read, READS, (int fd, void *to, size_t n), (fd, to, n))
MOVE(pread, READS, (int fd, void *to, size_t n, off_t at), (fd, to, n, at))
MOVE(pwrite, WRITES, (int fd, const void *from, size_t n, off_t at), (fd, from, n, at))

/* Standard error always works, so that messages arrive. */
ssize_t __real_write(int fd, const void *from, size_t n);
ssize_t __wrap_write(int fd, const void *from, size_t n);
ssize_t __wrap_write(int fd, const void *from, size_t n)
{
    if (fd > 2 && fails("write", WRITES | PARTS)) {
        if (why_ != INJECT_SHORT)
            return -1;
        n = n > 1 ? n / 2 : n;
    }
    return __real_write(fd, from, n);
}

static mode_t mode_of(int flags, va_list ap)
{
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(ap, mode_t) : 0;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    const mode_t mode = mode_of(flags, ap);
    va_end(ap);
    const bool creates = flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE;
    return fails("open", OPENS | WAITS | (creates ? CREATES : 0)) ? -1 : __real_open(path, flags, mode);
}

/* As on Linux, the descriptor is closed even if close() fails. */
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
    const bool bad = fails("close", SYNCS);
    const int why = errno, result = __real_close(fd);
    errno = bad ? why : errno;
    return bad ? -1 : result;
}

void *__real_mmap(void *at, size_t n, int protection, int flags, int fd, off_t from);
void *__wrap_mmap(void *at, size_t n, int protection, int flags, int fd, off_t from);
void *__wrap_mmap(void *at, size_t n, int protection, int flags, int fd, off_t from)
{
    return fd >= 0 && fails("mmap", 0) ? MAP_FAILED : __real_mmap(at, n, protection, flags, fd, from);
}

/* ---- streams ----------------------------------------------------------------------------------- */

FILE *__real_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode);
FILE *__wrap_fopen(const char *path, const char *mode)
{
    return fails("fopen", OPENS | (*mode == 'r' ? 0 : CREATES)) ? NULL : __real_fopen(path, mode);
}

FILE *__real_fdopen(int fd, const char *mode);
FILE *__wrap_fdopen(int fd, const char *mode);
FILE *__wrap_fdopen(int fd, const char *mode)
{
    return fails("fdopen", 0) ? NULL : __real_fdopen(fd, mode);
}

/* Not a memory stream nor a standard one. */
static bool of_file(FILE *f)
{
    return fileno(f) > 2;
}

size_t __real_fwrite(const void *from, size_t size, size_t n, FILE *f);
size_t __wrap_fwrite(const void *from, size_t size, size_t n, FILE *f);
size_t __wrap_fwrite(const void *from, size_t size, size_t n, FILE *f)
{
    return n && of_file(f) && fails("fwrite", WRITES) ? 0 : __real_fwrite(from, size, n, f);
}

/* Sets the error flag of the stream, as a real failure does. */
size_t __real_fread(void *to, size_t size, size_t n, FILE *f);
size_t __wrap_fread(void *to, size_t size, size_t n, FILE *f);
size_t __wrap_fread(void *to, size_t size, size_t n, FILE *f)
{
    if (!n || !of_file(f) || !fails("fread", READS))
        return __real_fread(to, size, n, f);
    f->_flags |= 0x20;       /* _IO_ERR_SEEN of glibc: ferror() */
    return 0;
}

int __real_fflush(FILE *f);
int __wrap_fflush(FILE *f);
int __wrap_fflush(FILE *f)
{
    return f && of_file(f) && fails("fflush", WRITES) ? EOF : __real_fflush(f);
}

int __real_fclose(FILE *f);
int __wrap_fclose(FILE *f);
int __wrap_fclose(FILE *f)
{
    const bool bad = of_file(f) && fails("fclose", SYNCS);
    const int why = errno, result = __real_fclose(f);
    errno = bad ? why : errno;
    return bad ? EOF : result;
}
