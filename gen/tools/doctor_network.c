/* doctor_network.c -- gen doctor: InfiniBand, interface and port of ranks, launcher variables.
 *
 * In:    /sys/class/infiniband below a root, interfaces, the environment.
 * Out:   findings.
 * Keeps: no address leaves the machine; the port is free again afterwards. */
#define _GNU_SOURCE
#include "gen/tools/doctor.h"
#include "runtime/ranks/launch.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_INTERFACES = 256, MAX_DEVICES = 64 };

/* ---- NCCL's rule for interfaces -------------------------------------------------------------- */

/* Matches a name of a list a,b: a prefix, with = a whole name. */
static bool in_list(const char *list, bool exact, const char *name)
{
    for (const char *p = list; *p; p += strspn(p, ",")) {
        size_t n = strcspn(p, ",");
        if (n && !strncmp(p, name, n) && (!exact || !name[n]))
            return true;
        p += n;
    }
    return false;
}

/* Rule of NCCL_SOCKET_IFNAME: ^ inverts it, = means whole names. */
static bool matches(const char *rule, const char *name)
{
    bool other = *rule == '^';
    rule += other;
    bool exact = *rule == '=';
    rule += exact;
    return in_list(rule, exact, name) != other;
}

static int first_match(const DoctorInterface *list, int n, const char *rule)
{
    for (int i = 0; i < n; i++)
        if (list[i].up && matches(rule, list[i].name) &&
            (list[i].family == AF_INET || (list[i].family == AF_INET6 && !list[i].loopback)))
            return i;
    return -1;
}

int doctor_nccl_interface(const DoctorInterface *list, int n, const char *ifname)
{
    static const char *const rule[] = {"ib", "^docker,lo,virbr", "docker", "lo", "virbr"};
    int found = -1;
    if (ifname && *ifname)
        return first_match(list, n, ifname);
    for (size_t i = 0; i < sizeof rule / sizeof *rule && found < 0; i++)
        found = first_match(list, n, rule[i]);
    return found;
}

/* ---- devices and interfaces ------------------------------------------------------------------ */

/* Number of active ports; the first in *device, "mlx5_0". */
static int find_infiniband(Doctor *d, const char **device)
{
    static const char folder[] = "/sys/class/infiniband";
    const char *name[MAX_DEVICES], *port[MAX_DEVICES];
    int active = 0, n = doctor_names(d, folder, name, MAX_DEVICES);
    for (int i = 0; i < n; i++) {
        const char *ports = text_print("%s/%s/ports", folder, name[i]);
        for (int k = 0, m = doctor_names(d, ports, port, MAX_DEVICES); k < m; k++) {
            const char *state = doctor_read(d, text_print("%s/%s/state", ports, port[k]));
            const char *rate = doctor_read(d, text_print("%s/%s/rate", ports, port[k]));
            const char *layer = doctor_read(d, text_print("%s/%s/link_layer", ports, port[k]));
            bool up = state && strstr(state, "ACTIVE");
            Finding *f = doctor_add(d, up ? DOCTOR_OK : DOCTOR_WARNING, "InfiniBand",
                                    "%s port %s: %s, %s, %s", name[i], port[k],
                                    state ? state : "unknown state", rate ? rate : "unknown rate",
                                    layer ? layer : "unknown link");
            f->todo = "look at its cable and subnet manager, or leave it out: NCCL_IB_HCA=^DEVICE";
            doctor_fact(f, "device", name[i]);
            doctor_fact(f, "port", port[k]);
            doctor_fact(f, "port_state", state ? state : "");
            doctor_fact(f, "rate", rate ? rate : "");
            doctor_fact(f, "link_layer", layer ? layer : "");
            if (up && !active++)
                *device = name[i];
        }
    }
    void *verbs = n ? dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL) : NULL;
    if (!n)
        doctor_add(d, DOCTOR_OK, "InfiniBand", "no device");
    else if (!verbs)
        doctor_add(d, DOCTOR_WARNING, "InfiniBand",
                   "libibverbs.so.1 does not load: NCCL takes the network instead")->todo =
            "apt-get install libibverbs1 ibverbs-providers";
    if (verbs)
        dlclose(verbs);
    return n && verbs ? active : 0;
}

static int list_interfaces(struct ifaddrs *all, DoctorInterface *list, const struct ifaddrs **of)
{
    int n = 0;
    for (struct ifaddrs *a = all; a && n < MAX_INTERFACES; a = a->ifa_next) {
        if (!a->ifa_addr ||
            (a->ifa_addr->sa_family != AF_INET && a->ifa_addr->sa_family != AF_INET6))
            continue;
        of[n] = a;
        list[n++] =
            (DoctorInterface){a->ifa_name, (a->ifa_flags & IFF_UP) && (a->ifa_flags & IFF_RUNNING),
                              a->ifa_flags & IFF_LOOPBACK, a->ifa_addr->sa_family};
    }
    return n;
}

static void judge_interface(Doctor *d, int active, const char *device)
{
    DoctorInterface list[MAX_INTERFACES];
    const struct ifaddrs *of[MAX_INTERFACES];
    struct ifaddrs *all = NULL;
    char address[INET6_ADDRSTRLEN] = "";
    const char *off = doctor_env(d, "NCCL_IB_DISABLE"),
               *ifname = doctor_env(d, "NCCL_SOCKET_IFNAME");
    bool fabric = active && !(off && atoi(off));
    if (getifaddrs(&all))
        all = NULL;
    int i = doctor_nccl_interface(list, list_interfaces(all, list, of), ifname);
    if (i < 0) {
        Finding *f =
            doctor_add(d, DOCTOR_WARNING, "NCCL's way", "no interface that is up%s%s",
                       ifname ? " has the name of NCCL_SOCKET_IFNAME=" : "", ifname ? ifname : "");
        f->blocks = NEED_NCCL_RUN;
        f->todo =
            ifname ? "unset NCCL_SOCKET_IFNAME, or name one of `ip -brief addr`" : "bring one up";
    } else {
        const struct sockaddr *a = of[i]->ifa_addr;
        inet_ntop(a->sa_family,
                  a->sa_family == AF_INET
                      ? (const void *)&((const struct sockaddr_in *)a)->sin_addr
                      : (const void *)&((const struct sockaddr_in6 *)a)->sin6_addr,
                  address, sizeof address);
        Finding *f = doctor_add(d, DOCTOR_OK, "NCCL's way",
                                "ranks of several machines meet over %s (%s), data go over %s%s%s",
                                list[i].name, address, fabric ? device : list[i].name,
                                ifname ? "; NCCL_SOCKET_IFNAME=" : "",
                                ifname ? ifname : "");
        doctor_fact(f, "interface", list[i].name);
        doctor_fact(f, "address", address);
        doctor_fact(f, "data", fabric ? device : list[i].name);
    }
    if (all)
        freeifaddrs(all);
}

/* ---- the port -------------------------------------------------------------------------------- */

/* 0, or errno of listening on the port. */
static int try_port(int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1, why = 0;
    if (s < 0)
        return errno;
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(s, (struct sockaddr *)&a, sizeof a) || listen(s, 1))
        why = errno;
    close(s);
    return why;
}

static void judge_port(Doctor *d)
{
    int port = 0;
    bool agent = false;
    char *wrong = launch_port(d->env, &port, &agent);
    if (wrong) {
        Finding *f = doctor_add(d, DOCTOR_WARNING, "port", "%s", wrong);
        f->blocks = NEED_NCCL_RUN | NEED_MPI_RUN;
        f->todo = "unset it";
        return;
    }
    int why = try_port(port);
    Finding *f =
        doctor_add(d, why ? DOCTOR_WARNING : DOCTOR_OK, "port", "%d is %s%s", port,
                   why == EADDRINUSE ? "taken"
                   : why             ? strerror(why)
                                     : "free",
                   agent ? ", one more than MASTER_PORT, where torchrun's agent listens" : "");
    f->todo = "MASTER_PORT=ANOTHER for run.sh, DIECAST_PORT=ANOTHER for other launchers; on one "
              "machine run.sh finds a free one itself";
    doctor_number(f, "port", port);
    cJSON_AddBoolToObject(f->facts, "free", !why);
}

void doctor_network(Doctor *d)
{
    const char *device = "";
    int active = find_infiniband(d, &device);
    if (!*d->root)
        judge_interface(d, active, device);
    judge_port(d);
}

/* ---- launchers ------------------------------------------------------------------------------- */

/* True if NAME= matches a row of the table, or its prefix before a star. */
static bool is_shown(const char *entry)
{
    static const char *const row[] = {
#define VARIABLE(name) name,
#include "gen/tools/doctor.def"
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        size_t n = strcspn(row[i], "*");
        if (!strncmp(entry, row[i], n) && (row[i][n] == '*' || entry[n] == '='))
            return true;
    }
    return false;
}

static void show_variables(Doctor *d)
{
    int n = 0, shown = 0;
    while (d->env[n])
        n++;
    const char **sorted = arena_new((size_t)(n + 1) * sizeof *sorted);
    memcpy(sorted, d->env, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, text_order);
    for (int i = 0; i < n; i++) {
        const char *equal = strchr(sorted[i], '=');
        if (!equal || !is_shown(sorted[i]))
            continue;
        const char *name = text_print("%.*s", (int)(equal - sorted[i]), sorted[i]);
        const char *value =
            strcmp(name, "DIECAST_SECRET") ? text_print("%.200s", equal + 1) : "(set, not shown)";
        doctor_fact(doctor_add(d, DOCTOR_OK, name, "%s", *value ? value : "(empty)"), "value",
                    value);
        shown++;
    }
    if (!shown)
        doctor_add(d, DOCTOR_OK, "variables", "none of a launcher, of NCCL, OpenMP or ours is set");
}

/* True if run.sh reads and replaces this variable: nodes and node of an engine. */
static bool consumed(const char *variable)
{
    const char *name = text_print("%.*s", (int)strcspn(variable, "="), variable);
    for (const Engine *e = engine_row; e < engine_row + ENGINES; e++)
        if (!strcmp(e->nodes, name) || !strcmp(e->node, name))
            return true;
    return false;
}

/* The environment that run.sh passes on, without the variables that it consumes. */
static char *const *of_ranks(char *const *env)
{
    int n = 0, kept = 0;
    while (env[n])
        n++;
    char **left = arena_new((size_t)(n + 1) * sizeof *left);
    for (int i = 0; i < n; i++)
        if (!consumed(env[i]))
            left[kept++] = env[i];
    return left;
}

void doctor_launch(Doctor *d)
{
    Launch l;
    const Wanted *w = d->wanted;
    show_variables(d);
    char *wrong = launch_resolve(of_ranks(d->env), &l);
    Finding *f = doctor_add(d, wrong ? DOCTOR_WARNING : DOCTOR_OK, "launcher", "%s",
                            wrong ? wrong
                            : strcmp(l.source, "none")
                                ? text_print("%s: rank %d of %d", l.source, l.rank, l.size)
                                : "none: out/NAME/run.sh starts all ranks");
    f->todo = "unset it: programs refuse to start with it";
    f->blocks = wrong ? NEED_ALL_RUN : 0;
    if (w && !wrong && l.size != 1 && l.size != w->ranks) {
        f = doctor_add(d, DOCTOR_WARNING, "ranks", "%s says %d, the recipe %d", l.source, l.size,
                       w->ranks);
        f->todo = text_print("gpus=%d, or start as many", l.size);
        f->blocks = NEED_ALL_RUN;
    }
    if (doctor_env(d, "NCCL_COMM_ID")) {
        f = doctor_add(d, DOCTOR_WARNING, "NCCL_COMM_ID",
                       "programs refuse it: ranks meet by an id of their own");
        f->todo = "unset it";
        f->blocks = NEED_NCCL_RUN;
    }
    const char *other = w ? launch_precision_conflict(d->env, w->precision) : NULL;
    if (other) {
        f = doctor_add(d, DOCTOR_WARNING, "precision",
                       "ACCELERATE_MIXED_PRECISION=%s, but the recipe has %s", other, w->precision);
        const char *none = w->config && !field_applies(w->config, F_precision)
            ? "the program has no other" : launch_precision_refused(other, w->target->name);
        f->todo = none ? text_print("unset it: %s", none)
                       : text_print("unset it, or precision=%s", other);
        f->blocks = NEED_ALL_RUN;
    }
    double scale;
    char *refused = launch_scale(d->env, &scale);
    if (refused) {
        f = doctor_add(d, DOCTOR_WARNING, "times", "%s", refused);
        f->todo = "unset it: programs refuse to start with it";
        f->blocks = NEED_ALL_RUN;
    }
    if (doctor_env(d, "DIECAST_FAULT"))
        doctor_add(d, DOCTOR_WARNING, "DIECAST_FAULT", "programs will fail on purpose")->todo =
            "unset it";
}
