/* lock.c -- OUT/run.lock.
 *
 * Keeps: the file is ours exactly while lock_fd is open; its inode is checked after every flock,
 *        because the holder before may have removed it meanwhile. */
#define _GNU_SOURCE
#include "lock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base.h"
#include "folder.h"
#include "json.h"

enum { SETTLE = 5 };                     /* seconds that a creator may take to fill the file */

static int lock_fd = -1;
static char *lock_path;
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

static bool fill(int restart)
{
    cJSON *holder = describe(restart);
    char *text = folder_json_text(holder);
    size_t n = strlen(text);
    bool done = ftruncate(lock_fd, 0) == 0 && pwrite(lock_fd, text, n, 0) == (ssize_t)n &&
                fsync(lock_fd) == 0;
    free(text);
    cJSON_Delete(holder);
    return done;
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

/* May the lock of this holder be replaced? flock was had, or cannot be had here. */
static bool stale(int fd, const cJSON *holder, int restart, bool break_lock)
{
    if (!holder) {
        struct stat s;
        return fstat(fd, &s) == 0 && time(NULL) - s.st_mtime > SETTLE;
    }
    if (on_this_host(holder))
        return dying(holder);
    const char *job = json_get(holder, "job")->valuestring;
    bool later = *job && strcmp(job, job_id()) == 0 &&
                 restart > json_get(holder, "restart")->valuedouble;
    return later || break_lock;
}

static void refuse(const char *out, const cJSON *holder)
{
    if (!holder)
        die(EXIT_LOCKED, "%s: another run is just taking this folder", out);
    const char *since = cJSON_GetStringValue(json_get(holder, "since"));
    const char *job = json_get(holder, "job")->valuestring;
    die(EXIT_LOCKED, "%s: in use by process %.0f on %.64s since %.32s%s%.64s; when that run is gone "
        "from its host, --break-lock takes the folder over", out,
        json_get(holder, "pid")->valuedouble, json_get(holder, "host")->valuestring,
        since ? since : "?", *job ? ", job " : "", job);
}

/* One look at an existing lock: takes it, dies, or returns false when it has just vanished or its
 * holder is about to. */
static bool take_existing(const char *out, int restart, bool break_lock)
{
    int fd = open(lock_path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT)
        return false;
    if (fd < 0)
        die(EXIT_IO, "%s: open: %s", lock_path, strerror(errno));
    bool held = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    struct stat s, t;
    if (!held && (fstat(fd, &s) || stat(lock_path, &t) || s.st_ino != t.st_ino)) {
        close(fd);
        return false;
    }
    cJSON *holder = holder_of(fd);
    if (held && holder && on_this_host(holder) && dying(holder)) {
        cJSON_Delete(holder);
        close(fd);
        usleep(50000);
        return false;
    }
    if (held || !stale(fd, holder, restart, break_lock))
        refuse(out, holder);
    if (holder)
        note("%s: the lock of process %.0f on %s is stale, taken over", out,
             json_get(holder, "pid")->valuedouble, json_get(holder, "host")->valuestring);
    cJSON_Delete(holder);
    lock_fd = fd;
    return true;
}

static void make_folders(const char *out)
{
    char *path = strdup(out);
    for (char *p = path + 1; *p; p++)
        if (*p == '/') {
            *p = 0;
            mkdir(path, 0777);
            *p = '/';
        }
    if (mkdir(path, 0777) && errno != EEXIST)
        die(EXIT_IO, "%s: mkdir: %s", out, strerror(errno));
    free(path);
}

static void release_and_die(int code)
{
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
    for (int i = 0; lock_fd < 0; i++) {
        lock_fd = open(lock_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (lock_fd < 0 && errno != EEXIST)
            die(EXIT_IO, "%s: the run folder cannot be written: %s", lock_path, strerror(errno));
        if (lock_fd >= 0) {
            /* one that looks at the empty file holds it until it has refused itself */
            bool held = true;
            for (int k = 0; k < 500 && held; k++) {
                held = flock(lock_fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
                if (held)
                    usleep(10000);
            }
            if (held)
                refuse(out, NULL);
        } else if (!take_existing(out, restart, break_lock) && i > 100) {
            die(EXIT_LOCKED, "%s: other runs keep taking this folder", out);
        }
    }
    if (!fill(restart)) {
        int why = errno;
        lock_release();
        die(EXIT_IO, "%s: write: %s", lock_path, strerror(why));
    }
    hook_before = die_hook;
    die_hook = release_and_die;
}

void lock_release(void)
{
    if (lock_fd < 0)
        return;
    struct stat s, t;
    if (fstat(lock_fd, &s) == 0 && stat(lock_path, &t) == 0 && s.st_ino == t.st_ino)
        unlink(lock_path);
    close(lock_fd);
    lock_fd = -1;
}
