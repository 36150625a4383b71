/* lock.c -- OUT/run.lock.
 *
 * Keeps: a file of that name is always complete, synced and under flock(); it is this rank's while
 *        lock_fd is open.
 * Method: looked at first, so that a refusal leaves the folder as it is; then written as
 *         run.lock.XXXXXX and linked where there is none, or renamed over a stale one while its
 *         flock is held. Inodes show whether the name is still that of the opened file. */
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

enum { TRIES = 100 };                    /* polls of a lock that is changing hands, 50 ms apart */

/* State of an existing lock under flock(): held by a living process; held by none that this host's
 * kernel or the file server knows of; the file system has no flock(). */
typedef enum { HELD, FREE, UNKNOWN } Flock;
/* run.lock is missing, replaceable, or about to change. */
typedef enum { MISSING, STALE, CHANGING } State;

static int lock_fd = -1;
static char *lock_path;
static const char *prepared;             /* file prepared to become the lock */
static void (*hook_before)(int code);

/* Reads /proc/PID/what; "" if the process is gone. */
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

/* Returns a field of /proc/PID/stat, numbered as in proc(5), from 3 on; NULL if the process is
 * gone. */
static const char *stat_field(const char *stat, int field)
{
    const char *p = strrchr(stat, ')');
    for (int at = 2; p && at < field; at++)
        p = strchr(p + 1, ' ');
    return p ? p + 1 : NULL;
}

/* Start time of a process in clock ticks since boot, as text: detects a reused pid. "" if it is
 * gone. */
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

/* Boot id of the running kernel; "": unknown. */
static void boot_id(char id[64])
{
    const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? 0 : TEMP_FAILURE_RETRY(read(fd, id, 63));
    id[n > 0 ? n : 0] = 0;
    id[strcspn(id, "\n")] = 0;
    if (fd >= 0)
        close(fd);
}

/* The PID namespace of this process, as "pid:[4026531836]"; "": unknown. */
static void pid_namespace(char name[64])
{
    const ssize_t n = readlink("/proc/self/ns/pid", name, 63);
    name[n > 0 ? n : 0] = 0;
}

/* Variable with the id of a SkyPilot task: a managed job keeps it, and has ended the machines of
 * its earlier start before it recovers on others. */
static const char sky_job[] = "SKYPILOT_TASK_ID";

/* "" outside a job; torchrun names a job without a name "none". */
static const char *job_id(void)
{
    static const char *const names[] = {"SLURM_JOB_ID", "TORCHELASTIC_RUN_ID", sky_job};
    const char *job = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && (!job || !*job); i++)
        job = getenv(names[i]);
    return job && strcmp(job, "none") ? job : "";
}

static cJSON *describe(int restart)
{
    char host[64], boot[64], pids[64], start[32], since[32];
    host_name(host);
    boot_id(boot);
    pid_namespace(pids);
    start_of((long)getpid(), start);
    time_t now = time(NULL);
    struct tm tm;
    strftime(since, sizeof since, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &tm));
    cJSON *holder = cJSON_CreateObject();
    cJSON_AddStringToObject(holder, "host", host);
    cJSON_AddStringToObject(holder, "boot", boot);
    cJSON_AddStringToObject(holder, "pid_namespace", pids);
    cJSON_AddNumberToObject(holder, "pid", (double)getpid());
    cJSON_AddStringToObject(holder, "start", start);
    cJSON_AddStringToObject(holder, "since", since);
    cJSON_AddStringToObject(holder, "job", job_id());
    cJSON_AddNumberToObject(holder, "restart", restart);
    return holder;
}

static Flock try_lock(int fd)
{
    if (TEMP_FAILURE_RETRY(flock(fd, LOCK_EX | LOCK_NB)) == 0)
        return FREE;
    return errno == EWOULDBLOCK ? HELD : UNKNOWN;
}

static bool same_file(int fd, const char *path)
{
    struct stat s, t;
    return fstat(fd, &s) == 0 && lstat(path, &t) == 0 && s.st_ino == t.st_ino &&
           s.st_dev == t.st_dev;
}

/* Creates and locks a file with a unique name, malloc'ed: other starts remove the files of dead
 * ones, which they recognise by the missing flock(). */
static int create_locked(const char *out, char **name)
{
    for (;;) {
        *name = folder_join(out, "run.lock.XXXXXX");
        int fd = mkostemp(*name, O_CLOEXEC), looks = 0;
        if (fd < 0)
            die(EXIT_IO, "%s: the run folder cannot be written: %s", *name, strerror(errno));
        while (try_lock(fd) == HELD && looks++ < TRIES)
            usleep(10000);
        if (same_file(fd, *name))
            return fd;
        close(fd);
        free(*name);
    }
}

/* Writes the file that is to become run.lock; *name is malloc'ed. */
static int prepare(const char *out, int restart, char **name)
{
    int fd = create_locked(out, name);
    cJSON *holder = describe(restart);
    char *text = folder_json_text(holder);
    size_t n = strlen(text);
    fchmod(fd, 0644);                    /* others may read who holds it */
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
    ssize_t n = TEMP_FAILURE_RETRY(pread(fd, text, sizeof text, 0));
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
    return !strcmp(start, json_get(holder, "start")->valuestring);
}

/* True if gone; killed, while the kernel still takes the process apart (which holds its flock() a
 * little longer); or dead and not yet reaped by its parent. */
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
    const char *thread_line = strstr(text, "SigPnd:"), *process_line = strstr(text, "ShdPnd:");
    unsigned long long pending = (thread_line ? strtoull(thread_line + 7, NULL, 16) : 0) |
                                 (process_line ? strtoull(process_line + 7, NULL, 16) : 0);
    return pending >> (SIGKILL - 1) & 1;
}

/* True if run.lock has this value; locks of earlier versions lack "boot" and "pid_namespace". */
static bool names(const cJSON *holder, const char *key, const char *value)
{
    const char *text = cJSON_GetStringValue(json_get(holder, key));
    return text && *text && !strcmp(text, value);
}

/* Containers on one kernel may have different host names; a host keeps its name across boots. */
static bool on_this_host(const cJSON *holder)
{
    char host[64], boot[64];
    host_name(host);
    boot_id(boot);
    return names(holder, "host", host) || names(holder, "boot", boot);
}

/* True if the holder's pid refers to that process here. Earlier versions recorded only the host's
 * name. */
static bool sees_pid(const cJSON *holder)
{
    char host[64], boot[64], pids[64];
    host_name(host);
    boot_id(boot);
    pid_namespace(pids);
    if (!json_get(holder, "boot"))
        return names(holder, "host", host);
    return names(holder, "boot", boot) && names(holder, "pid_namespace", pids);
}

/* True if a lock with this content may be replaced without --break-lock. */
static bool stale(const cJSON *holder, Flock held, int restart)
{
    if (held == HELD)
        return false;
    if (held == FREE && (!holder || on_this_host(holder)))
        return true;
    if (!holder)
        return false;
    if (sees_pid(holder))
        return dying(holder);
    const char *job = json_get(holder, "job")->valuestring, *sky = getenv(sky_job);
    if (sky && !strcmp(job, sky))
        return *job;
    return *job && !strcmp(job, job_id()) && restart > json_get(holder, "restart")->valuedouble;
}

static void refuse(const char *out, const cJSON *holder, Flock held)
{
    const char *hint = held != HELD ? "once that run has ended, --break-lock takes over"
                       : holder && sees_pid(holder) && dying(holder)
                           ? "that process is gone, but other ranks of its run are alive: "
                             "end them first"
                           : "stop that run first; --break-lock does not take a live run's folder";
    if (!holder)
        die(EXIT_LOCKED, "%s: in use; run.lock does not name the process; %s", out, hint);
    const char *since = cJSON_GetStringValue(json_get(holder, "since"));
    const char *job = json_get(holder, "job")->valuestring;
    die(EXIT_LOCKED, "%s: in use by process %.0f on %.64s since %.32s%s%.64s; %s", out,
        json_get(holder, "pid")->valuedouble, json_get(holder, "host")->valuestring,
        since ? since : "?", *job ? ", job " : "", job, hint);
}

/* Opens a lock for writing, as flock() over NFS requires, or read-only if that is all that is
 * permitted. -1: errno and a malloc'ed *error. */
static int open_lock(char **error)
{
    int fd = file_open(lock_path, O_RDWR, error);
    if (fd < 0 && (errno == EACCES || errno == EROFS)) {
        free(*error);
        fd = file_open(lock_path, O_RDONLY, error);
    }
    return fd;
}

/* Opens the existing lock. -1: there is none, or it is not a file and --break-lock removes it. */
static int open_existing(bool break_lock)
{
    char *error = NULL;
    int fd = open_lock(&error), why = errno;
    bool no_file = fd < 0 && (why == ELOOP || why == ENXIO || why == EISDIR);
    if (no_file && break_lock && unlink(lock_path) == 0)
        note("%s: not a lock that diecast wrote, removed", lock_path);
    else if (fd < 0 && why != ENOENT)
        die(EXIT_IO, "%s%s", error, no_file ? "; remove it if no run works here" : "");
    free(error);
    return fd;
}

/* Inspects an existing lock once; ends the program if it may not be replaced. STALE: its
 * descriptor, under flock(), in *fd. wait: a dying holder may release it any moment, and an empty
 * lock may have been filled by now. */
static State look(const char *out, int restart, bool break_lock, bool wait, int *fd)
{
    *fd = open_existing(break_lock);
    if (*fd < 0)
        return MISSING;
    const Flock held = try_lock(*fd);
    cJSON *holder = holder_of(*fd);
    const bool gone = !same_file(*fd, lock_path);
    const bool leaving = wait && held == HELD && (!holder || (sees_pid(holder) && dying(holder)));
    if (!gone && !leaving) {
        if (!stale(holder, held, restart) && !(break_lock && held != HELD))
            refuse(out, holder, held);
        if (holder)
            note("%s: the lock of process %.0f on %s is stale, taken over", out,
                 json_get(holder, "pid")->valuedouble, json_get(holder, "host")->valuestring);
        cJSON_Delete(holder);
        return STALE;
    }
    cJSON_Delete(holder);
    close(*fd);
    if (!gone)
        usleep(50000);
    return CHANGING;
}

/* If there is no lock, installs ours. false: there is one. */
static bool take_new(const char *ours, int fd)
{
    int why = link(ours, lock_path) ? errno : 0;
    if (!why || same_file(fd, lock_path)) {      /* NFS may lose the reply */
        unlink(ours);
        return true;
    }
    if (why == EEXIST)
        return false;
    /* a file system without hard links */
    if (renameat2(AT_FDCWD, ours, AT_FDCWD, lock_path, RENAME_NOREPLACE) == 0)
        return true;
    /* nor with such renames, as a mounted bucket: of two starts at once the later one has it */
    if ((errno == EINVAL || errno == ENOSYS) && access(lock_path, F_OK) && errno == ENOENT)
        return rename(ours, lock_path) == 0;
    if (errno != EEXIST && access(lock_path, F_OK))
        die(EXIT_IO, "%s: link: %s", lock_path, strerror(why));
    return false;
}

/* Removes the files of starts that were killed before they got the lock. */
static void remove_leftovers(const char *out)
{
    DIR *dir = opendir(out);
    for (struct dirent *d; dir && (d = readdir(dir));) {
        if (strncmp(d->d_name, "run.lock.", 9) || strlen(d->d_name) != 15)
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
    char *error = folder_blocked(out);
    if (!error)
        error = folder_make_parents(out);
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

/* Takes rank 0's lock; returns its descriptor. */
static int take(const char *out, int restart, bool break_lock)
{
    char *ours = NULL;
    int fd = -1, old;
    for (int i = 0; i < 2 * TRIES; i++) {
        const State state = look(out, restart, break_lock, i < TRIES, &old);
        if (state == CHANGING)
            continue;
        if (fd < 0)
            fd = prepare(out, restart, &ours);
        prepared = ours;
        const bool taken = state == STALE ? rename(ours, lock_path) == 0 : take_new(ours, fd);
        if (state == STALE && !taken)
            die(EXIT_IO, "%s: rename: %s", lock_path, strerror(errno));
        if (state == STALE)
            close(old);
        if (!taken)
            continue;
        prepared = NULL;
        free(ours);
        return fd;
    }
    die(EXIT_LOCKED, "%s: other runs keep taking this folder", out);
}

static void wrap_die(void)
{
    hook_before = die_hook;
    die_hook = release_and_die;
}

void lock_take(const char *out, int restart, bool break_lock)
{
    if (world.rank != 0)
        return;
    make_folders(out);
    lock_path = folder_join(out, "run.lock");
    wrap_die();
    lock_fd = take(out, restart, break_lock);
    /* Shared from now on by all ranks; a process that took it in between has renamed its own file
     * over it. */
    if (world.size > 1 && TEMP_FAILURE_RETRY(flock(lock_fd, LOCK_SH)) == 0 &&
        !same_file(lock_fd, lock_path))
        die(EXIT_LOCKED, "%s: another run took this folder at the same moment", out);
    remove_leftovers(out);
}

void lock_share(const char *out)
{
    char *error = NULL;
    if (world.rank == 0)
        return;
    lock_path = folder_join(out, "run.lock");
    lock_fd = open_lock(&error);
    if (lock_fd >= 0 && TEMP_FAILURE_RETRY(flock(lock_fd, LOCK_SH | LOCK_NB))) {
        close(lock_fd);
        lock_fd = -1;
    }
    free(error);
    wrap_die();
}

void lock_release(void)
{
    if (lock_fd < 0)
        return;
    const Flock held = try_lock(lock_fd);      /* HELD: by another rank */
    if ((held == FREE || (held == UNKNOWN && world.rank == 0)) && same_file(lock_fd, lock_path))
        unlink(lock_path);
    close(lock_fd);
    lock_fd = -1;
}
