/* logfile.c -- log file of a start, and GPU status lines. */
#define _GNU_SOURCE
#include "runtime/run/logfile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base.h"
#include "runtime/device.h"
#include "runtime/files/folder.h"
#include "runtime/ranks/comm.h"

/* Returns the file name for a pattern: @ is the recipe's name, the rest is for strftime().
 * malloc'ed. */
static char *name_of(const Model *m, const char *pattern)
{
    char text[128] = "";
    time_t now = time(NULL);
    struct tm parts;
    if (!pattern || !localtime_r(&now, &parts) || !strftime(text, sizeof text, pattern, &parts))
        return format("logs/training.log");
    const int before = (int)strcspn(text, "@");
    return text[before] ? format("%.*s%s%s", before, text, m->name, text + before + 1)
                        : format("%s", text);
}

char *logfile_open(const char *out, const Model *m, const char *pattern, int argc, char **argv)
{
    if (world.rank != 0)
        return NULL;
    char *name = name_of(m, pattern), *path = folder_join(out, name),
         *error = folder_make_below(out, path), *words = format("%s", "");
    int fd = error ? -1 : file_open(path, O_WRONLY | O_CREAT | O_APPEND, &error);
    if (fd < 0)
        die(EXIT_IO, "%s", error);
    for (int i = 0; i < argc; i++) {
        char *longer = format("%s%s%s", words, i ? " " : "", argv[i]);
        free(words);
        words = longer;
    }
    note_to(fd);
    note_there("---- %s, process %ld: %s", m->name, (long)getpid(), words);
    free(path), free(words);
    return name;
}

/* Prints "NVIDIA H200, 63 % busy, 101.2 of 139.8 GiB in use", as far as it is known. */
static void describe(const DeviceUse *u, int rank, const char *host)
{
    const double gib = 1 << 30;
    char *busy = u->busy >= 0 ? format(", %.0f %% busy", u->busy) : format("%s", "");
    note("  GPU of rank %-4d %s (%s)%s, %.1f of %.1f GiB in use", rank, u->name, host, busy,
         (double)u->used / gib, (double)u->total / gib);
    free(busy);
}

void logfile_devices(void)
{
    struct {
        DeviceUse use;
        char host[sizeof world.host];
    } row;
    bool any = device_use(&row.use);
    if (comm_max_int(any) == 0)
        return;
    DeviceUse mine = row.use;
    for (int r = 0; r < world.size; r++) {
        row.use = mine;
        memcpy(row.host, world.host, sizeof row.host);
        comm_broadcast(&row, sizeof row, r);
        describe(&row.use, r, row.host);
    }
}
