/* host_memory.c -- host memory that this process may still use.
 *
 * In:    proc/meminfo, proc/self/statm, proc/self/cgroup and the files that it names. */
#define _GNU_SOURCE
#include "runtime/host_memory.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base.h"

enum { LINE = 4096 };

/* Returns the number that follows `key` at the start of a line; INT64_MAX: none, or "max". */
static int64_t number_after(const char *root, const char *file, const char *key)
{
    char line[LINE], *path = format("%s/%s", root, file), *end;
    int64_t found = INT64_MAX;
    FILE *f = fopen(path, "re");
    while (f && found == INT64_MAX && fgets(line, sizeof line, f)) {
        const size_t n = strlen(key);
        const int64_t number = strncmp(line, key, n) ? 0 : strtoll(line + n, &end, 10);
        if (!strncmp(line, key, n) && end > line + n)
            found = number;
    }
    if (f)
        fclose(f);
    free(path);
    return found;
}

/* Names of a control group's files, of version 2 and 1. */
static const struct {
    const char *mount, *limit, *used, *active, *inactive;
} version[] = {
    {"sys/fs/cgroup", "memory.max", "memory.current", "active_file ", "inactive_file "},
    {"sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
     "total_active_file ", "total_inactive_file "}};

/* Returns what a group leaves; INT64_MAX: no limit. */
static int64_t left_in(const char *root, int v, const char *group)
{
    char *limit = format("%s%s/%s", version[v].mount, group, version[v].limit),
         *used = format("%s%s/%s", version[v].mount, group, version[v].used),
         *stat = format("%s%s/memory.stat", version[v].mount, group);
    const int64_t most = number_after(root, limit, ""), now = number_after(root, used, ""),
                  cache[] = {number_after(root, stat, version[v].active),
                             number_after(root, stat, version[v].inactive)};
    int64_t left = most == INT64_MAX || now == INT64_MAX ? INT64_MAX : most - now;
    for (int i = 0; i < 2 && left != INT64_MAX; i++)
        left += cache[i] == INT64_MAX ? 0 : cache[i];
    free(limit), free(used), free(stat);
    return left;
}

/* The least that this process's groups and those above leave. */
static int64_t left_in_groups(const char *root)
{
    char line[LINE], *path = format("%s/proc/self/cgroup", root);
    int64_t least = INT64_MAX;
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) {
        char *controllers = strchr(line, ':'), *group = controllers ? strchr(controllers + 1, ':')
                                                                    : NULL;
        if (!group)
            continue;
        *group++ = 0;
        group[strcspn(group, "\n")] = 0;
        const int v = controllers[1] ? 1 : 0;
        if (v && !strstr(controllers, "memory"))
            continue;
        for (char *slash = group + strlen(group); slash; slash = strrchr(group, '/')) {
            *slash = 0;
            const int64_t left = left_in(root, v, group);
            least = left < least ? left : least;
        }
    }
    if (f)
        fclose(f);
    free(path);
    return least;
}

/* Returns the bytes of arenas that are not in memory yet. */
static int64_t untouched(const char *root)
{
    long long all, resident;
    char *path = format("%s/proc/self/statm", root);
    FILE *f = fopen(path, "re");
    const bool known = f && fscanf(f, "%lld %lld", &all, &resident) == 2;
    if (f)
        fclose(f);
    free(path);
    const int64_t left = known ? arena_allocated() - resident * sysconf(_SC_PAGESIZE) : 0;
    return left > 0 ? left : 0;
}

int64_t host_memory_left(const char *root)
{
    const int64_t kib = number_after(root, "proc/meminfo", "MemAvailable:"),
                  groups = left_in_groups(root),
                  free_bytes = kib < INT64_MAX >> 10 ? kib << 10 : INT64_MAX,
                  left = free_bytes < groups ? free_bytes : groups;
    const int64_t reserved = left == INT64_MAX ? 0 : untouched(root);
    return left > reserved ? left - reserved : 0;
}
