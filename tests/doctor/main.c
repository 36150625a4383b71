/* main.c -- parts of gen doctor by themselves: main PART ROOT [WORDS].
 *
 * Out: findings as `STATE WHAT: TEXT [PACKAGE]`, or what a function returns. */
#define _GNU_SOURCE
#include "gen/graph/objectives.h"
#include "gen/tools/doctor.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

extern char **environ;

static void print(const Doctor *d)
{
    static const char *const state[] = {"ok", "warning", "missing"};
    for (int i = 0; i < d->n; i++) {
        const Finding *f = &d->list[i];
        printf("%s %s: %s%s%s%s\n", state[f->state], f->what, f->text, f->package && f->state ? " [" : "",
               f->package && f->state ? f->package : "", f->package && f->state ? "]" : "");
    }
}

/* NAME, or lo:NAME, or down:NAME, each an interface of IPv4. */
static int interface_of(int n, char **word)
{
    DoctorInterface list[16];
    const char *ifname = strcmp(word[0], "-") ? word[0] : NULL;
    for (int i = 1; i < n; i++) {
        const char *colon = strchr(word[i], ':');
        list[i - 1] = (DoctorInterface){colon ? colon + 1 : word[i], strncmp(word[i], "down", 4) != 0,
                                        !strncmp(word[i], "lo:", 3), AF_INET};
    }
    int i = doctor_nccl_interface(list, n - 1, ifname);
    return puts(i < 0 ? "none" : list[i].name), 0;
}

static int visible_of(int n, char **word)
{
    static const char *const uuid[] = {"GPU-aa11", "GPU-bb22", "GPU-cc33", "GPU-dd44"};
    int sees[8];
    (void)n;
    for (int i = 0, count = doctor_visible(strcmp(word[0], "-") ? word[0] : NULL, uuid, 4, sees, 8); i < count; i++)
        printf("%s%d", i ? " " : "", sees[i]);
    return puts(""), 0;
}

static int packages(void)
{
    static const char *const name[] = {
#define TOOL(name, variable, commands, version, least, blocks, package, why) package,
#define LIBRARY(name, header, version, link, loads, major, cuda, builds, runs, package, why) package,
#define LOADED(name, loads, cuda, runs, package, why) package,
#include "runtime/toolchain.def"
    };
    for (size_t i = 0; i < sizeof name / sizeof *name; i++)
        puts(name[i]);
    return 0;
}

static const char *remedy(const Config *c, int64_t bytes)
{
    return c ? "" : text_print("less than %s", text_bytes(bytes));
}

int main(int argc, char **argv)
{
    Doctor d = {.root = argc > 2 ? argv[2] : "", .env = environ, .section = "x", .cpus = 2, .cc = {"gcc"},
                .cpu_flags = "",
                .nvcc_version = "13.0"};
    const char *part = argc > 2 ? argv[1] : "";
    const Target *t = target_find(argc > 3 ? argv[3] : "cpu");
    Wanted w = {.recipe = "r.lua", .name = "r", .target = t, .ranks = 2,
                .precision = "bf16", .wants = NEED_CPU_RUN, .rank_bytes = INT64_C(5) << 30, .remedy = remedy};
    objectives_install();
    if (!strcmp(part, "interface"))
        return interface_of(argc - 3, argv + 3);
    if (!strcmp(part, "visible"))
        return visible_of(argc - 3, argv + 3);
    if (!strcmp(part, "packages"))
        return packages();
    d.wanted = argc > 3 ? &w : NULL;
    if (!strcmp(part, "system"))
        doctor_system(&d);
    else if (!strcmp(part, "limits"))
        doctor_limits(&d);
    else if (!strcmp(part, "libraries"))
        doctor_libraries(&d);
    else if (!strcmp(part, "gpus")) {
        w.ranks = argc > 4 ? atoi(argv[4]) : 1;
        doctor_gpus(&d);
    } else if (!strcmp(part, "network"))
        doctor_network(&d);
    else if (!strcmp(part, "launch"))
        doctor_launch(&d);
    else if (!strcmp(part, "cluster") && argc == 7) {        /* its file, GPUs, their capability and GiB */
        w.kept_bytes = INT64_C(1) << 20;
        d.wanted = &w;
        d.ngpus = atoi(argv[4]);
        d.capability[0] = atoi(argv[5]);
        d.gpu_memory = (int64_t)(atof(argv[6]) * (1 << 30));
        doctor_cluster(&d, config_of_cluster(argv[3]));
    }
    else
        return 2;
    print(&d);
    return 0;
}
