/* doctor_system.c -- gen doctor: distribution, kernel, CPU, memory; shared memory, limits, disks.
 *
 * In:    /proc, /sys and /etc below a root, getrlimit, statvfs.   Out: findings. */
#define _GNU_SOURCE
#include "gen/tools/doctor.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>

static const int64_t GIB = INT64_C(1) << 30;

/* ---- texts of the kernel ---- */

/* Returns the next value from *at on: the text after "key" and its separator, up to the end of the
 * line. NULL: no more. */
static char *next_value(const char **at, const char *key)
{
    size_t n = strlen(key);
    for (const char *p = *at; p && *p; p = strchr(p, '\n'), p = p ? p + 1 : NULL) {
        if (strncmp(p, key, n) || !strchr(" \t:=", p[n]))
            continue;
        p += n + strspn(p + n, " \t:=\"");
        size_t length = strcspn(p, "\"\n");
        *at = p + length;
        return text_print("%.*s", (int)length, p);
    }
    return NULL;
}

static char *value_of(const char *text, const char *key)
{
    return text ? next_value(&text, key) : NULL;
}

/* Bytes of a line such as "MemTotal: 123 kB"; -1: no such line. */
static int64_t kilobytes(const char *meminfo, const char *key)
{
    const char *value = value_of(meminfo, key);
    return value ? strtoll(value, NULL, 10) * 1024 : -1;
}

/* Number in a file; -1: none ("max"). */
static int64_t number_in(const Doctor *d, const char *path)
{
    char *text = doctor_read(d, path), *end;
    int64_t n = text ? strtoll(text, &end, 10) : -1;
    return text && end != text ? n : -1;
}

/* ---- CPU ---- */

static int different(char *const *text, int n)
{
    int count = 0;
    for (int i = 0; i < n; i++) {
        int k = 0;
        while (strcmp(text[k], text[i]))
            k++;
        count += k == i;
    }
    return count;
}

static bool has_flag(const Doctor *d, const char *flag)
{
    return strstr(d->cpu_flags, text_print(" %s ", flag)) != NULL;
}

enum { MAX_CPUS = 4096 };

static void find_cpu(Doctor *d)
{
    static const struct { const char *flag, *name; bool tested; } feature[] = {
#define FEATURE(flag, name, tested) {flag, name, tested},
#include "gen/tools/doctor.def"
    };
    const char *text = doctor_read(d, "/proc/cpuinfo"), *at = text ? text : "";
    const char *model = value_of(text, "model name"), *flags = value_of(text, "flags");
    char *core[MAX_CPUS], *socket[MAX_CPUS], *id;
    int threads = 0, cores = 0, sockets = 0;
    while (threads < MAX_CPUS && next_value(&at, "processor"))
        threads++;
    for (at = text ? text : ""; sockets < MAX_CPUS && (id = next_value(&at, "physical id"));) {
        socket[sockets] = id;
        id = next_value(&at, "core id");
        core[sockets] = text_print("%s.%s", socket[sockets], id ? id : "");
        sockets++;
    }
    cores = sockets ? different(core, sockets) : threads;
    sockets = sockets ? different(socket, sockets) : 1;
    cpu_set_t set;
    d->cpus = threads;
    if (!*d->root && !sched_getaffinity(0, sizeof set, &set))
        d->cpus = CPU_COUNT(&set);
    long long quota, period;
    const char *share = doctor_read(d, "/sys/fs/cgroup/cpu.max");
    if (share && sscanf(share, "%lld %lld", &quota, &period) == 2 && period > 0 && quota > 0 &&
        (quota + period - 1) / period < d->cpus)
        d->cpus = (int)((quota + period - 1) / period);
    d->cpu_flags = text_print(" %s ", flags ? flags : "");
    Finding *f = doctor_add(d, DOCTOR_OK, "CPU", "%s, %d socket%s, %d core%s, %d thread%s%s",
                            model ? model : "of unknown model", sockets, sockets == 1 ? "" : "s",
                            cores, cores == 1 ? "" : "s", threads, threads == 1 ? "" : "s",
                            d->cpus < threads ? text_print(", of which %d for us", d->cpus) : "");
    doctor_fact(f, "model", model ? model : "");
    doctor_number(f, "sockets", sockets);
    doctor_number(f, "cores", cores);
    doctor_number(f, "threads", threads);
    doctor_number(f, "threads_allowed", d->cpus);
    Str s = {0};
    str_print(&s, "%s", "");
    for (size_t i = 0; i < sizeof feature / sizeof *feature; i++)
        if (has_flag(d, feature[i].flag))
            str_print(&s, "%s%s%s", s.n ? ", " : "", feature[i].name,
                      feature[i].tested ? "" : " (never tested)");
    f = doctor_add(d, DOCTOR_OK, "instructions", "%s",
                   s.n ? s.text : "none of those that programs ask for");
    for (size_t i = 0; i < sizeof feature / sizeof *feature; i++)
        cJSON_AddBoolToObject(f->facts, feature[i].flag, has_flag(d, feature[i].flag));
}

/* True if this CPU has the instructions of the target's flags. */
static void judge_cpu(Doctor *d)
{
    static const struct { const char *word, *flags; } march[] = {
#define MARCH(word, flags) {word, flags},
#include "gen/tools/doctor.def"
    };
    const Target *t = d->wanted ? d->wanted->target : target_find("cpu");
    if (strcmp(t->backend, "cpu"))
        return;
    Str lacking = {0};
    for (size_t i = 0; i < sizeof march / sizeof *march; i++) {
        if (!strstr(t->cflags, march[i].word))
            continue;
        char *all = text_copy(march[i].flags), *save = NULL;
        for (char *flag = strtok_r(all, " ", &save); flag; flag = strtok_r(NULL, " ", &save))
            if (!has_flag(d, flag))
                str_print(&lacking, "%s%s", lacking.n ? " " : "", flag);
    }
    if (lacking.n) {
        Finding *f = doctor_add(d, DOCTOR_MISSING, "target", "%s is %s; this CPU is without %s",
                                t->name, t->about, lacking.text);
        f->blocks = NEED_CPU_RUN;
        f->todo = strcmp(t->name, "cpu") ? "target=cpu, where it has AVX2 and FMA"
                                         : "build and run on another machine";
    } else
        doctor_add(d, DOCTOR_OK, "target", "%s: %s", t->name, t->about);
    if (d->wanted && !strcmp(d->wanted->precision, "bf16") && !has_flag(d, "avx512_bf16") &&
        !has_flag(d, "amx_bf16"))
        doctor_add(d, DOCTOR_WARNING, "precision",
                   "bf16 is slow on this CPU, which has no instructions for it")
            ->todo = "precision=fp32";
}

/* ---- memory ---- */

int doctor_local_ranks(const Doctor *d)
{
    const char *nodes = doctor_env(d, "NNODES");
    int n = nodes ? atoi(nodes) : d->wanted->nodes;
    return n > 1 && d->wanted->ranks % n == 0 ? d->wanted->ranks / n : d->wanted->ranks;
}

static void judge_memory(Doctor *d)
{
    const Wanted *w = d->wanted;
    if (!w || !w->rank_bytes || strcmp(w->target->backend, "cpu"))
        return;
    int ranks = doctor_local_ranks(d);
    int64_t all = ranks * w->rank_bytes;
    DoctorState state = all > d->memory        ? DOCTOR_MISSING
                        : all > d->memory_free ? DOCTOR_WARNING
                                               : DOCTOR_OK;
    Finding *f = doctor_add(d, state, "memory planned", "%s for %d rank%s here, %s",
                            text_bytes(all), ranks, ranks == 1 ? "" : "s",
                            state == DOCTOR_OK ? "which is free"
                            : state == DOCTOR_WARNING
                                ? text_print("of which %s are free now", text_bytes(d->memory_free))
                                : text_print("more than the %s there are", text_bytes(d->memory)));
    doctor_number(f, "bytes", (double)all);
    f->todo = state == DOCTOR_MISSING ? w->remedy(w->config, d->memory / ranks)
                                      : "end other programs";
    f->blocks = state == DOCTOR_MISSING ? NEED_CPU_RUN : 0;
    if (ranks > d->cpus)
        doctor_add(d, DOCTOR_WARNING, "processes", "%d share %d CPUs: right, but slow", ranks,
                   d->cpus)
            ->todo = text_print("gpus=%d", d->cpus);
}

int64_t doctor_memory(const Doctor *d, int64_t *left)
{
    const char *text = doctor_read(d, "/proc/meminfo");
    const int64_t total = kilobytes(text, "MemTotal"), free = kilobytes(text, "MemAvailable");
    int64_t most = number_in(d, "/sys/fs/cgroup/memory.max"),
            used = number_in(d, "/sys/fs/cgroup/memory.current");
    if (most < 0) {
        most = number_in(d, "/sys/fs/cgroup/memory/memory.limit_in_bytes");
        used = number_in(d, "/sys/fs/cgroup/memory/memory.usage_in_bytes");
    }
    const bool limited = most >= 0 && most < total;
    if (left)
        *left = limited && used >= 0 && most - used < free ? most - used : free;
    return limited ? most : total;
}

static void find_memory(Doctor *d)
{
    const char *text = doctor_read(d, "/proc/meminfo"), *node[256];
    const int64_t total = kilobytes(text, "MemTotal");
    d->memory = doctor_memory(d, &d->memory_free);
    const bool limited = d->memory < total;
    Finding *f =
        doctor_add(d, DOCTOR_OK, "memory", "%s, %s free%s", text_bytes(d->memory),
                   text_bytes(d->memory_free),
                   limited ? text_print(" (this container's, of %s)", text_bytes(total)) : "");
    doctor_number(f, "bytes", (double)d->memory);
    doctor_number(f, "free_bytes", (double)d->memory_free);
    int64_t swap = kilobytes(text, "SwapTotal"), swap_left = kilobytes(text, "SwapFree");
    f = doctor_add(d, DOCTOR_OK, "swap", "%s",
                   swap > 0 ? text_print("%s, %s free", text_bytes(swap), text_bytes(swap_left))
                            : "none");
    doctor_number(f, "bytes", swap > 0 ? (double)swap : 0);
    int nodes = 0, n = doctor_names(d, "/sys/devices/system/node", node, 256);
    Str s = {0};
    for (int i = 0; i < n; i++)
        if (!strncmp(node[i], "node", 4) && node[i][4] >= '0' && node[i][4] <= '9') {
            const char *cpus =
                doctor_read(d, text_print("/sys/devices/system/node/%s/cpulist", node[i]));
            str_print(&s, "%sCPUs %s", nodes++ ? "; " : "", cpus && *cpus ? cpus : "none");
        }
    f = doctor_add(d, DOCTOR_OK, "NUMA", "%d node%s%s%s", nodes ? nodes : 1, nodes > 1 ? "s" : "",
                   nodes ? ": " : "", nodes ? s.text : "");
    doctor_number(f, "nodes", nodes ? nodes : 1);
    judge_memory(d);
}

void doctor_system(Doctor *d)
{
    struct utsname machine;
    const char *release = doctor_read(d, "/etc/os-release"),
               *name = value_of(release, "PRETTY_NAME");
    const char *kernel = doctor_read(d, "/proc/sys/kernel/osrelease");
    Finding *f = doctor_add(d, DOCTOR_OK, "distribution", "%s, kernel %s", name ? name : "unknown",
                            kernel ? kernel : "unknown");
    doctor_fact(f, "name", name ? name : "");
    doctor_fact(f, "kernel", kernel ? kernel : "");
    if (!*d->root && !uname(&machine) && strcmp(machine.machine, "x86_64"))
        doctor_add(d, DOCTOR_MISSING, "architecture", "%s; programs are for x86_64",
                   machine.machine)
            ->blocks = NEED_CPU_RUN | NEED_CUDA_RUN | NEED_CPU_BUILD | NEED_CUDA_BUILD;
    find_cpu(d);
    judge_cpu(d);
    find_memory(d);
}

/* ---- limits ---- */

static char *limit_text(rlim_t n, bool bytes)
{
    return n == RLIM_INFINITY ? text_copy("unlimited")
           : bytes            ? text_bytes((int64_t)n)
                              : text_print("%llu", (unsigned long long)n);
}

static void find_limits(Doctor *d)
{
    static const struct {
        const char *name;
        int resource;
        rlim_t least;
        bool bytes;
        const char *why, *todo;
    } row[] = {
#define LIMIT(name, resource, least, bytes, why, todo) {name, resource, least, bytes, why, todo},
#include "gen/tools/doctor.def"
    };
    struct rlimit l;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        if (getrlimit((__rlimit_resource_t)row[i].resource, &l))
            continue;
        bool scarce = l.rlim_cur != RLIM_INFINITY && l.rlim_cur < row[i].least;
        Finding *f =
            doctor_add(d, scarce ? DOCTOR_WARNING : DOCTOR_OK, row[i].name, "%s%s",
                       limit_text(l.rlim_cur, row[i].bytes),
                       scarce ? text_print(", less than %s: %s",
                                           limit_text(row[i].least, row[i].bytes), row[i].why)
                              : "");
        f->todo = row[i].todo;
        doctor_number(f, "limit", l.rlim_cur == RLIM_INFINITY ? -1 : (double)l.rlim_cur);
    }
    const char *device[1];
    if (getrlimit(RLIMIT_MEMLOCK, &l))
        return;
    bool fabric = doctor_names(d, "/sys/class/infiniband", device, 1),
         scarce = fabric && l.rlim_cur != RLIM_INFINITY;
    Finding *f = doctor_add(d, scarce ? DOCTOR_WARNING : DOCTOR_OK, "locked memory", "%s%s",
                            limit_text(l.rlim_cur, true),
                            scarce ? ": InfiniBand must lock its buffers" : "");
    f->todo = "ulimit -l unlimited (/etc/security/limits.conf)";
    doctor_number(f, "limit", l.rlim_cur == RLIM_INFINITY ? -1 : (double)l.rlim_cur);
}

/* Free bytes of the file system of a folder, or of its nearest existing parent. */
static bool room_in(const char *path, int64_t *left, int64_t *total)
{
    struct statvfs s;
    char *p = text_copy(path);
    while (statvfs(p, &s)) {
        char *slash = strrchr(p, '/');
        if (errno != ENOENT || !strcmp(p, ".") || slash == p)
            return false;
        if (slash)
            *slash = 0;
        else
            p = text_copy(".");
    }
    *left = (int64_t)(s.f_bavail * s.f_frsize);
    *total = (int64_t)(s.f_blocks * s.f_frsize);
    return true;
}

static void find_room(Doctor *d, const char *what, const char *path, int64_t least, const char *why,
                      const char *remedy, bool of_all)
{
    int64_t left, total;
    if (!room_in(path, &left, &total)) {
        doctor_add(d, DOCTOR_WARNING, what, "%s: %s", path, strerror(errno))->todo = remedy;
        return;
    }
    bool scarce = (of_all ? total : left) < least;
    Finding *f = doctor_add(d, scarce ? DOCTOR_WARNING : DOCTOR_OK, what, "%s free of %s in %s%s",
                            text_bytes(left), text_bytes(total), path,
                            scarce ? text_print(", less than %s: %s", text_bytes(least), why) : "");
    f->todo = remedy;
    doctor_fact(f, "path", path);
    doctor_number(f, "bytes", (double)total);
    doctor_number(f, "free_bytes", (double)left);
}

void doctor_limits(Doctor *d)
{
    const char *temp = doctor_env(d, "TMPDIR");
    /* a new checkpoint while the last still exists */
    const int64_t kept = d->wanted ? 2 * d->wanted->kept_bytes : 0;
    find_limits(d);
    find_room(d, "shared memory", text_print("%s/dev/shm", d->root), GIB / 2,
              "MPI and NCCL pass data between ranks there",
              "docker run --shm-size=8g, or mount -o remount,size=8g /dev/shm", true);
    find_room(d, "disk", "out", kept > GIB ? kept : GIB,
              kept > GIB ? "two checkpoints" : "programs and checkpoints",
              "another disk: -o FOLDER for the program, --out FOLDER for its runs", false);
    find_room(d, "TMPDIR", temp && *temp ? temp : "/tmp", GIB, "compilers write there",
              "TMPDIR=FOLDER elsewhere", false);
}
