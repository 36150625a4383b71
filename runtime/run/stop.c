/* stop.c -- stop signals, OUT/DONE, fault files.
 *
 * Keeps: signal handlers set flags and call async-signal-safe functions only. */
#define _GNU_SOURCE
#include "runtime/run/stop.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base.h"
#include "runtime/files/folder.h"
#include "runtime/files/json.h"
#include "runtime/files/lock.h"

static volatile sig_atomic_t requested;            /* number of the first signal */
static volatile sig_atomic_t terminated;           /* a SIGTERM arrived, at last_term */
static struct timespec last_term;
static const char *fault_folder;
static int fault_restart;
static void (*hook_before)(int code);

static void on_signal(int signal)
{
    static const char text[] =
        "second SIGTERM: leaving at once; what came after the newest complete "
        "checkpoint is lost\n";
    struct timespec now;
    if (!requested)
        requested = signal;
    if (signal != SIGTERM)
        return;
    clock_gettime(CLOCK_MONOTONIC, &now);
    if (terminated && now.tv_sec - last_term.tv_sec <= 5) {
        ssize_t ignored = write(2, text, sizeof text - 1);
        (void)ignored;
        lock_release();
        sigset_t term;           /* killed by the signal itself: no exit code of ours means that
                                    nothing was saved */
        sigemptyset(&term);
        sigaddset(&term, SIGTERM);
        sigaction(SIGTERM, &(struct sigaction){ .sa_handler = SIG_DFL }, NULL);
        kill(getpid(), SIGTERM);
        pthread_sigmask(SIG_UNBLOCK, &term, NULL);
        return;
    }
    terminated = 1;
    last_term = now;
}

void stop_ignore(void)
{
    static const int ignored[] = { SIGHUP, SIGPIPE, SIGXFSZ };
    for (int i = 0; i < 3; i++)
        sigaction(ignored[i], &(struct sigaction){ .sa_handler = SIG_IGN }, NULL);
}

void stop_install(void)
{
    static const int flags[] = { SIGTERM, SIGINT, SIGUSR1 };
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < 3; i++)
        sigaction(flags[i], &action, NULL);
}

void stop_listen(void)
{
    struct sigaction action = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    sigemptyset(&action.sa_mask);
    sigaction(SIGUSR1, &action, NULL);
}

bool stop_requested(void)
{
    return requested != 0;
}

const char *stop_signal(void)
{
    return requested == SIGTERM ? "SIGTERM" : requested == SIGINT ? "SIGINT"
         : requested == SIGUSR1 ? "SIGUSR1" : "";
}

/* No sync: after a rank died, its launcher soon kills the others, which still have messages to
 * write. */
static char *write_fault(const char *name, const cJSON *fault)
{
    char *path = folder_join(fault_folder, name), *temp = format("%s.tmp", path), *error = NULL;
    char *text = folder_json_text(fault);
    size_t n = strlen(text);
    int fd = file_create(temp, &error);
    if (fd >= 0 && (!file_write(fd, text, n) || rename(temp, path)))
        error = format("%s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    if (error)
        unlink(temp);
    free(text);
    free(temp);
    free(path);
    return error;
}

void stop_report(int code)
{
    static const struct { int code; const char *restart, *meaning; } codes[] = {
#define EXIT_CODE(name, value, restart, meaning) { value, restart, meaning },
#include "runtime/exit_codes.def"
#undef EXIT_CODE
    };
    if (!fault_folder)
        return;
    cJSON *fault = cJSON_CreateObject();
    cJSON_AddNumberToObject(fault, "code", code);
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i].code == code) {
            cJSON_AddStringToObject(fault, "meaning", codes[i].meaning);
            cJSON_AddStringToObject(fault, "restart", codes[i].restart);
        }
    const char *start = getenv("DIECAST_START");
    if (start)
        cJSON_AddStringToObject(fault, "start", start);
    cJSON_AddNumberToObject(fault, "rank", world.rank);
    cJSON_AddStringToObject(fault, "host", world.host);
    cJSON_AddNumberToObject(fault, "step", (double)world.step);
    cJSON_AddStringToObject(fault, "signal", stop_signal());
    cJSON_AddStringToObject(fault, "what", die_text());
    char *name = format("fault.%d.%d.json", fault_restart, world.rank);
    char *error = write_fault(name, fault);
    if (error)
        warn("fault file not written: %s", error);
    free(error);
    free(name);
    cJSON_Delete(fault);
}

static void fault_and_die(int code)
{
    stop_report(code);
    if (hook_before)
        hook_before(code);
}

void stop_faults(const char *out, int restart)
{
    fault_folder = out;
    fault_restart = restart;
    hook_before = die_hook;
    die_hook = fault_and_die;
}

void stop_done(const char *out, int64_t step, const char *why)
{
    REQUIRE(world.rank == 0);
    cJSON *done = cJSON_CreateObject();
    cJSON_AddNumberToObject(done, "step", (double)step);
    if (why)
        cJSON_AddStringToObject(done, "why", why);
    char *text = folder_json_text(done), *error = folder_replace_text(out, "DONE", text);
    if (error)
        die(EXIT_IO, "%s", error);
    free(text);
    cJSON_Delete(done);
}

void stop_undone(const char *out)
{
    if (world.rank != 0)
        return;
    char *path = folder_join(out, "DONE"), *error = NULL;
    if (unlink(path) == 0)
        error = folder_sync(out);
    else if (errno != ENOENT)
        error = format("%s: remove: %s", path, strerror(errno));
    if (error)
        die(EXIT_IO, "%s", error);
    free(path);
}
