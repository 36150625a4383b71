/* process.c -- child processes, without a shell and with a time limit.
 *
 * Keeps: at its time limit, or when gen ends, a child is killed with its process group.
 * Method: one pipe for both output streams; SIGTERM, two seconds later SIGKILL. */
#define _GNU_SOURCE
#include "gen/tools/process.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { INPUT_MOST = 60000, OUTPUT_MOST = 16 << 20 };      /* bytes; a pipe buffers the input */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* In the child: never returns. why: the end of a pipe that closes when words[0] has been
 * started. */
static void become(char *const *words, const int in[2], const int out[2], int why, pid_t gen)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != gen)
        _exit(127);
    dup2(in[0], 0);
    dup2(out[1], 1);
    dup2(out[1], 2);
    execvp(words[0], words);
    int error = errno;
    if (write(why, &error, sizeof error) < 0)
        _exit(126);
    _exit(127);
}

/* Reads to the end of the stream; false: the time was over first. */
static bool read_all(int from, double end, Str *to)
{
    char piece[4096];
    for (;;) {
        double left = end - now();
        struct pollfd wait = {.fd = from, .events = POLLIN};
        int ready = left <= 0 ? 0 : poll(&wait, 1, left > 1e6 ? -1 : (int)(left * 1000) + 1);
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready <= 0)
            return false;
        ssize_t n = read(from, piece, sizeof piece);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return true;
        for (ssize_t i = 0; i < n; i++)
            if (!piece[i])
                piece[i] = '?';
        if (to->n < OUTPUT_MOST)
            str_print(to, "%.*s", (int)n, piece);
    }
}

/* Waits for the end of the process; false: the time was over first. */
static bool reap(pid_t pid, double end, int *status)
{
    for (;;) {
        pid_t ended = waitpid(pid, status, WNOHANG);
        if (ended == pid || (ended < 0 && errno != EINTR))
            return true;
        if (now() > end)
            return false;
        nanosleep(&(struct timespec){0, 2000000}, NULL);
    }
}

Ended process_run(char *const *words, const char *input, double seconds)
{
    int in[2], out[2], why[2], error = 0, status = 0;
    size_t n = input ? strlen(input) : 0;
    Ended e = {.code = -1, .text = ""};
    Str text = {0};
    if (n > INPUT_MOST)
        bug("%zu bytes for %s", n, words[0]);
    if (pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(why, O_CLOEXEC))
        err((Loc){0}, "cannot start %s: %s", words[0], strerror(errno));
    if (n && write(in[1], input, n) != (ssize_t)n)
        err((Loc){0}, "cannot write to %s: %s", words[0], strerror(errno));
    close(in[1]);
    fflush(stdout);
    pid_t gen = getpid(), pid = fork();
    if (pid < 0)
        err((Loc){0}, "cannot start %s: %s", words[0], strerror(errno));
    if (!pid)
        become(words, in, out, why[1], gen);
    close(in[0]);
    close(out[1]);
    close(why[1]);
    const double end = now() + seconds;
    bool started = read(why[0], &error, sizeof error) <= 0;
    e.late = started && !(read_all(out[0], end, &text) && reap(pid, end, &status));
    if (e.late) {
        kill(-pid, SIGTERM);
        if (!reap(pid, now() + 2, &status)) {
            kill(-pid, SIGKILL);
            reap(pid, now() + 60, &status);
        }
    } else if (!started)
        reap(pid, now() + 60, &status);
    close(out[0]);
    close(why[0]);
    e.text = text.n ? text.text : "";
    if (!started)
        e.text = text_print("cannot start %s: %s", words[0], strerror(error));
    else
        e.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return e;
}

/* ---- a folder of a moment ---- */

static char *folder;

static int remove_entry(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

static void remove_folder(void)
{
    nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

const char *scratch_folder(void)
{
    const char *temp = getenv("TMPDIR");
    if (folder)
        return folder;
    folder = text_print("%s/gen-XXXXXX", temp && *temp ? temp : "/tmp");
    if (!mkdtemp(folder))
        err((Loc){0}, "cannot make the folder %s: %s", folder, strerror(errno));
    atexit(remove_folder);
    return folder;
}

const char *program_find(const char *name)
{
    const char *const path = getenv("PATH");
    if (strchr(name, '/'))
        return access(name, X_OK) ? NULL : name;
    char *all = text_copy(path ? path : ""), *save = NULL;
    for (char *d = strtok_r(all, ":", &save); d; d = strtok_r(NULL, ":", &save)) {
        const char *file = text_print("%s/%s", d, name);
        struct stat st;
        if (!access(file, X_OK) && !stat(file, &st) && S_ISREG(st.st_mode))
            return file;
    }
    return NULL;
}
