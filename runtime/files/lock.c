/* lock.c -- OUT/run.lock.
 *
 * Keeps: under that name stands only a file that is filled, synced and locked by flock; it is ours
 *        exactly while lock_fd is open.
 * Method: written as run.lock.XXXXXX, then linked where there is none, or renamed over a stale one
 *         while its flock is held; inodes tell whether the name still means what was opened. */
#define _GNU_SOURCE
#include "runtime/files/lock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base.h"
#include "runtime/files/folder.h"
#include "runtime/files/json.h"

enum { TRIES = 100 };                    /* looks at a lock that changes hands, 50 ms apart */

/* What flock says of an existing lock: it lives on this host; nobody here holds it; the file system
 * has no flock. */
typedef enum { HELD, FREE, UNKNOWN } Flock;

static int lock_fd = -1;
static char *lock_path;
static const char *prepared;             /* the file that is to become the lock */
static void (*hook_before)(int code);

/* The text of /proc/PID/what; "" when the process is gone. */
static void proc_text(long pid, const char *what, char text[4096])
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/%s", pid, what);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, 4095);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = 0;
}

/* Field of /proc/PID/stat, counted as in proc(5), from 3 on; NULL when the process is gone. */
static const char *stat_field(const char *stat, int field)
{
    const char *p = strrchr(stat, ')');
    for (int at = 2; p && at < field; at++)
        p = strchr(p + 1, ' ');
    return p ? p + 1 : NULL;
}

/* Start of a process in clock ticks since boot, as text: tells a reused pid. "" when gone. */
static void start_of(long pid, char start[32])
{
    char stat[4096];
    proc_text(pid, "stat", stat);
    const char *p = stat_field(stat, 22);
    snprintf(start, 32, "%.*s", p ? (int)strcspn(p, " ") : 0, p ? p : "");
}

static void host_name(char host[64])
{
    if (gethostname(host, 63) != 0)
        strcpy(host, "?");
    host[63] = 0;
}

/* "" outside a job. torchrun calls a job without a name "none". */
static const char *job_id(void)
{
    const char *job = getenv("SLURM_JOB_ID");
    if (!job || !*job)
        job = getenv("TORCHELASTIC_RUN_ID");
    return job && strcmp(job, "none") != 0 ? job : "";
}

static cJSON *describe(int restart)
{
    char host[64], start[32], since[32];
    host_name(host);
    start_of((long)getpid(), start);
    time_t now = time(NULL);
    struct tm tm;
    strftime(since, sizeof since, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
    cJSON *holder = cJSON_CreateObject();
    cJSON_AddStringToObject(holder, "host", host);
    cJSON_AddNumberToObject(holder, "pid", (double)getpid());
    cJSON_AddStringToObject(holder, "start", start);
    cJSON_AddStringToObject(holder, "since", since);
    cJSON_AddStringToObject(holder, "job", job_id());
    cJSON_AddNumberToObject(holder, "restart", restart);
    return holder;
}

static bool same_file(int fd, const char *path)
{
    struct stat s, t;
    return fstat(fd, &s) == 0 && lstat(path, &t) == 0 && s.st_ino == t.st_ino &&
           s.st_dev == t.st_dev;
}

/* A new file under a name of its own, which is malloc'ed, and locked: one of a start that is over
 * is removed by others, who look for its flock. */
static int create_locked(const char *out, char **name)
{
    for (;;) {
        *name = folder_join(out, "run.lock.XXXXXX");
        int fd = mkostemp(*name, O_CLOEXEC), looks = 0;
        if (fd < 0)
            die(EXIT_IO, "%s: the run folder cannot be written: %s", *name, strerror(errno));
        while (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK && looks++ < TRIES)
            usleep(10000);
        if (same_file(fd, *name))
            return fd;
        close(fd);
        free(*name);
    }
}

/* What is to become run.lock; *name is malloc'ed. */
static int prepare(const char *out, int restart, char **name)
{
    int fd = create_locked(out, name);
    cJSON *holder = describe(restart);
    char *text = folder_json_text(holder);
    size_t n = strlen(text);
    fchmod(fd, 0644);                    /* for others to see who holds it */
    if (!file_write(fd, text, n) || fsync(fd)) {
        int why = errno;
        unlink(*name);
        die(EXIT_IO, "%s: write: %s", *name, strerror(why));
    }
    free(text);
    cJSON_Delete(holder);
    return fd;
}

static cJSON *holder_of(int fd)
{
    char text[4096];
    ssize_t n = pread(fd, text, sizeof text, 0);
    char *error = NULL;
    cJSON *holder = n > 0 ? json_parse(text, (size_t)n, &error) : NULL;
    free(error);
    if (cJSON_IsObject(holder) && cJSON_IsString(json_get(holder, "host")) &&
        cJSON_IsString(json_get(holder, "start")) && cJSON_IsString(json_get(holder, "job")) &&
        cJSON_IsNumber(json_get(holder, "pid")) && cJSON_IsNumber(json_get(holder, "restart")))
        return holder;
    cJSON_Delete(holder);
    return NULL;
}

static bool alive(const cJSON *holder)
{
    char start[32];
    double pid = json_get(holder, "pid")->valuedouble;
    if (!(pid >= 1 && pid < 0x1p31) || (kill((pid_t)pid, 0) != 0 && errno == ESRCH))
        return false;
    start_of((long)pid, start);
    return strcmp(start, json_get(holder, "start")->valuestring) == 0;
}

/* Gone, or killed and the kernel is still taking the process apart (it holds its flock a little
 * longer), or dead and not yet waited for by its parent. */
static bool dying(const cJSON *holder)
{
    enum { EXITING = 4 };                /* PF_EXITING of the kernel, field 9 */
    char text[4096];
    long pid = alive(holder) ? (long)json_get(holder, "pid")->valuedouble : 0;
    proc_text(pid, "stat", text);
    const char *state = stat_field(text, 3), *flags = stat_field(text, 9);
    if (pid == 0 || !state || !flags || *state == 'Z' || *state == 'X' ||
        strtoul(flags, NULL, 10) & EXITING)
        return true;
    proc_text(pid, "status", text);
    const char *own = strstr(text, "SigPnd:"), *shared = strstr(text, "ShdPnd:");
    unsigned long long pending = (own ? strtoull(own + 7, NULL, 16) : 0) |
                                 (shared ? strtoull(shared + 7, NULL, 16) : 0);
    return pending >> (SIGKILL - 1) & 1;
}

static bool on_this_host(const cJSON *holder)
{
    char host[64];
    host_name(host);
    return strcmp(host, json_get(holder, "host")->valuestring) == 0;
}

/* May a lock with this content be replaced, without --break-lock? */
static bool stale(const cJSON *holder, Flock held, int restart)
{
    if (held == HELD)
        return false;
    if (!holder || on_this_host(holder))
        return held == FREE || (holder && dying(holder));
    const char *job = json_get(holder, "job")->valuestring;
    return *job && strcmp(job, job_id()) == 0 && restart > json_get(holder, "restart")->valuedouble;
}

static void refuse(const char *out, const cJSON *holder, Flock held)
{
    const char *hint = held == HELD ? "stop that run first; --break-lock robs none that lives"
                                    : "when that run is gone, --break-lock takes the folder over";
    if (!holder)
        die(EXIT_LOCKED, "%s: in use, by whom run.lock does not say; %s", out, hint);
    const char *since = cJSON_GetStringValue(json_get(holder, "since"));
    const char *job = json_get(holder, "job")->valuestring;
    die(EXIT_LOCKED, "%s: in use by process %.0f on %.64s since %.32s%s%.64s; %s", out,
        json_get(holder, "pid")->valuedouble, json_get(holder, "host")->valuestring,
        since ? since : "?", *job ? ", job " : "", job, hint);
}

/* Opens the existing lock: for writing, as flock over NFS wants it, or for reading if that is all
 * that may be had. -1: it has just vanished, or it is no file and --break-lock removes it. */
static int open_existing(bool break_lock)
{
    char *error = NULL;
    int fd = file_open(lock_path, O_RDWR, &error);
    if (fd < 0 && (errno == EACCES || errno == EROFS)) {
        free(error);
        fd = file_open(lock_path, O_RDONLY, &error);
    }
    int why = errno;
    bool no_file = fd < 0 && (why == ELOOP || why == ENXIO || why == EISDIR);
    if (no_file && break_lock && unlink(lock_path) == 0)
        note("%s: not a lock of ours, removed", lock_path);
    else if (fd < 0 && why != ENOENT)
        die(EXIT_IO, "%s%s", error, no_file ? "; remove it if no run works here" : "");
    free(error);
    return fd;
}

/* One look at an existing lock: puts ours in its place, dies, or returns false when it has just
 * vanished or its holder is about to. wait: a lock whose holder cannot be told may be filled or
 * judged by others this moment. */
static bool take_existing(const char *out, const char *ours, int restart, bool break_lock, bool wait)
{
    int fd = open_existing(break_lock);
    if (fd < 0)
        return false;
    Flock held = flock(fd, LOCK_EX | LOCK_NB) == 0 ? FREE : errno == EWOULDBLOCK ? HELD : UNKNOWN;
    cJSON *holder = holder_of(fd);
    bool gone = !same_file(fd, lock_path);
    bool leaving = held == HELD && (holder ? on_this_host(holder) && dying(holder) : wait);
    if (!gone && !leaving) {
        if (!stale(holder, held, restart) && !(break_lock && held != HELD))
            refuse(out, holder, held);
        if (rename(ours, lock_path))
            die(EXIT_IO, "%s: rename: %s", lock_path, strerror(errno));
        if (holder)
            note("%s: the lock of process %.0f on %s is stale, taken over", out,
                 json_get(holder, "pid")->valuedouble, json_get(holder, "host")->valuestring);
    }
    cJSON_Delete(holder);
    close(fd);
    if (leaving && !gone)
        usleep(50000);
    return !gone && !leaving;
}

/* Where there is no lock, ours becomes it. false: there is one. */
static bool take_new(const char *ours, int fd)
{
    int why = link(ours, lock_path) ? errno : 0;
    if (!why || same_file(fd, lock_path)) {      /* NFS may lose the answer */
        unlink(ours);
        return true;
    }
    if (why == EEXIST)
        return false;
    /* a file system without hard links */
    if (renameat2(AT_FDCWD, ours, AT_FDCWD, lock_path, RENAME_NOREPLACE) == 0)
        return true;
    if (errno != EEXIST)
        die(EXIT_IO, "%s: link: %s", lock_path, strerror(why));
    return false;
}

/* Of starts that were killed before they had the lock. */
static void remove_leftovers(const char *out)
{
    DIR *dir = opendir(out);
    for (struct dirent *d; dir && (d = readdir(dir));) {
        if (strncmp(d->d_name, "run.lock.", 9) != 0 || strlen(d->d_name) != 15)
            continue;
        char *path = folder_join(out, d->d_name), *error = NULL;
        int fd = file_open(path, O_RDWR, &error);
        if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
            unlink(path);
        if (fd >= 0)
            close(fd);
        free(error);
        free(path);
    }
    if (dir)
        closedir(dir);
}

static void make_folders(const char *out)
{
    char *error = folder_make_parents(out);
    if (!error && mkdir(out, 0777) && errno != EEXIST)
        error = format("%s: mkdir: %s", out, strerror(errno));
    if (error)
        die(EXIT_IO, "%s", error);
}

static void release_and_die(int code)
{
    if (prepared)
        unlink(prepared);
    lock_release();
    if (hook_before)
        hook_before(code);
}

void lock_take(const char *out, int restart, bool break_lock)
{
    if (world.rank != 0)
        return;
    make_folders(out);
    lock_path = folder_join(out, "run.lock");
    char *ours;
    int fd = prepare(out, restart, &ours);
    hook_before = die_hook;
    die_hook = release_and_die;
    prepared = ours;
    for (int i = 0; !take_new(ours, fd) && !take_existing(out, ours, restart, break_lock, i < TRIES);
         i++)
        if (i > TRIES)
            die(EXIT_LOCKED, "%s: other runs keep taking this folder", out);
    prepared = NULL;
    free(ours);
    lock_fd = fd;
    remove_leftovers(out);
}

void lock_release(void)
{
    if (lock_fd < 0)
        return;
    if (same_file(lock_fd, lock_path))
        unlink(lock_path);
    close(lock_fd);
    lock_fd = -1;
}
