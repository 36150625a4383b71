/* tune.c -- `gen tune`: builds out/NAME/tune, runs it on this GPU and stores its measurements.
 *
 * In:    the graph after plan.
 * Out:   RECIPE.lock.json; out/NAME with the chosen algorithms.
 * Keeps: sections of other cards; the old lock file if anything fails. */
#define _GNU_SOURCE
#include "gen/emit/emit.h"
#include "gen/emit/lock.h"
#include "gen/tools/tools.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

extern char **environ;

/* NULL if the driver reports a GPU; else why not. */
static const char *no_gpu(void)
{
    int (*init)(unsigned) = NULL, (*count)(int *) = NULL, n = 0;
    void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!driver)
        return "no driver (libcuda.so.1)";
    void *call[] = {dlsym(driver, "cuInit"), dlsym(driver, "cuDeviceGetCount")};
    memcpy(&init, &call[0], sizeof init);
    memcpy(&count, &call[1], sizeof count);
    if (!init || !count || init(0) || count(&n) || !n)
        return "the driver finds no GPU";
    return NULL;
}

/* Runs a program; ends gen if it cannot be started or fails. to: file for its output; NULL:
 * stdout. */
static void run(char *const *words, const char *to)
{
    posix_spawn_file_actions_t files;
    pid_t pid;
    int status = 0;
    posix_spawn_file_actions_init(&files);
    if (to)
        posix_spawn_file_actions_addopen(&files, 1, to, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    fflush(stdout);
    int why = posix_spawnp(&pid, words[0], &files, NULL, words, environ);
    if (why)
        err((Loc){0}, "cannot start %s: %s", words[0], strerror(why));
    posix_spawn_file_actions_destroy(&files);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (status)
        err((Loc){0}, "%s %s failed; the lock file is as it was", words[0],
            words[1] ? words[1] : "");
}

int tune_run(const Graph *g, const char *out, const char *rows)
{
    if (!*emit_backend(g)->tuner)
        err((Loc){0}, "target %s has nothing to tune", g->target->name);
    const char *none = rows ? NULL : no_gpu();
    if (none)
        err((Loc){0},
            "nothing was tuned: %s; on a machine with the GPU: make -C %s tune && %s/tune > "
            "rows.json, then here: gen tune %s --rows rows.json",
            none, out, out, g->setting[SETTING_recipe].text);
    if (!rows) {
        char *tuner = text_print("%s/tune", out);
        emit_run(g, out, false, false);
        run((char *[]){"make", "-C", text_copy(out), "tune", NULL}, NULL);
        rows = text_print("%s/tune.json", out);
        run((char *[]){tuner, NULL}, rows);
    }
    const char *text = file_text(rows, 1 << 24, NULL);
    if (!text)
        err((Loc){0}, "cannot read %s: %s", rows, strerror(errno));
    lock_write(g, text, rows);
    emit_run(g, out, false, false);
    lock_note();
    return 0;
}
