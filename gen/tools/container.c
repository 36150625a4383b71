/* container.c -- `gen container`: a Containerfile that builds and runs a recipe.
 *
 * In:    the recipe's target, ranks and cluster; package versions of the cluster's lock, else of
 *        this machine.
 * Out:   a Containerfile on stdout. */
#define _GNU_SOURCE
#include "gen/config/toolchain.h"
#include "gen/emit/emit.h"
#include "gen/tools/container.h"
#include "gen/tools/process.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/files/json.h"

enum { MOST = 1 << 20 };
static const double query_seconds = 60;

/* Lock of the cluster; NULL: none. */
static cJSON *read_lock(const char *cluster)
{
    const char *path =
        cluster ? text_print("%s/recipes/clusters/%s.lock.json", gen_root(), cluster) : NULL;
    if (!path || access(path, F_OK))
        return NULL;
    const char *const words[] = {text_print("%s/runtime/toolchain.sh", gen_root()), "show", path,
                                 NULL};
    Ended e = process_run((char *const *)words, NULL, query_seconds);
    if (e.code || e.late)
        err((Loc){0}, "%.*s", (int)strcspn(e.text, "\n"), e.text);
    size_t n;
    char *text = file_text(path, MOST, &n), *error = NULL;
    cJSON *o = text ? json_parse(text, n, &error) : NULL;
    if (!o)
        err((Loc){path, 0}, "%s", error ? error : "cannot be read");
    return o;
}

/* Pinned package such as "gcc=4:12.2.0-3"; NULL: version unknown. */
static const char *pinned(const cJSON *lock, const char *package)
{
    const size_t n = strlen(package);
    const cJSON *part;
    cJSON_ArrayForEach(part, json_get(lock, "parts")) {
        const char *pin = cJSON_GetStringValue(json_get(part, "package"));
        if (pin && !strncmp(pin, package, n) && pin[n] == '=')
            return pin;
    }
    if (!program_find("dpkg-query"))
        return NULL;
    const char *const words[] = {"dpkg-query", "-W", "-f", "${db:Status-Status} ${Version}",
                                 package,      NULL};
    Ended e = process_run((char *const *)words, NULL, query_seconds);
    static const char installed[] = "installed ";
    return !e.code && !e.late && !strncmp(e.text, installed, sizeof installed - 1)
               ? text_print("%s=%s", package, e.text + sizeof installed - 1)
               : NULL;
}

static char *pins(const cJSON *lock, unsigned needs)
{
    const char *name[TOOLCHAIN_PACKAGES];
    Str s = {0};
    for (int i = 0, n = toolchain_packages(needs, false, name); i < n; i++) {
        const char *pin = pinned(lock, name[i]);
        if (!pin)
            err((Loc){0},
                "container: no version of the package %s: it is not installed here, and no lock of "
                "a cluster names it (make lock-toolchain)",
                name[i]);
        str_print(&s, " \\\n    %s", text_shell(pin));
    }
    return s.text;
}

/* Image such as "debian:bookworm", of the lock or this machine. */
static const char *image(const cJSON *lock)
{
    const char *os = cJSON_GetStringValue(json_get(lock, "system"));
    if (!os) {
        const char *const words[] = {"sh", "-c",
                                     ". /etc/os-release && echo \"$ID $VERSION_CODENAME\"", NULL};
        Ended e = process_run((char *const *)words, NULL, query_seconds);
        os = e.code || e.late ? "unknown" : e.text;
    }
    const char *blank = strchr(os, ' ');
    if (!blank || (strncmp(os, "debian ", 7) && strncmp(os, "ubuntu ", 7)))
        err((Loc){0},
            "container: the system is %.*s, but only packages of Debian and Ubuntu are pinned",
            (int)strcspn(os, "\n"), os);
    return text_print("%.*s:%.*s", (int)(blank - os), os, (int)strcspn(blank + 1, "\n"),
                      blank + 1);
}

/* Line that takes packages from the archive of that time; "": from the image's sources. */
static char *sources(const char *date, const char *system)
{
    if (!date)
        return "";
    if (strlen(date) != 16 || date[8] != 'T' || date[15] != 'Z' ||
        strspn(date, "0123456789") != 8 || strspn(date + 9, "0123456789") != 6)
        err((Loc){0}, "container: --snapshot %s: must be a time such as 20261101T000000Z", date);
    if (strncmp(system, "debian:", 7))
        err((Loc){0}, "container: --snapshot: only Debian has an archive of snapshots; the system "
                      "is %s",
            system);
    const char *suite = system + 7;
    return text_print("RUN rm -f /etc/apt/sources.list.d/* && printf 'deb [check-valid-until=no] "
                      "http://snapshot.debian.org/archive/%%s/%s %%s main\\n' debian %s "
                      "debian-security %s-security >/etc/apt/sources.list\n",
                      date, suite, suite);
}

void container_print(const char *command, const char *words, Config *c, const Graph *g,
                     const char *snapshot, FILE *to)
{
    const char *name = c ? c->name : NULL;
    const Target *t = c ? target_find(config_text(c, F_target)) : NULL;
    const unsigned needs = g ? emit_needs(g) : c ? toolchain_needs(t, 1, true)
                                                 : NEED_GEN | NEED_CPU_MANY;
    char *lines = c ? cluster_lines(c) : NULL;
    const char *cluster = lines ? cluster_value(lines, "name", 0) : NULL;
    const bool cuda = t && strcmp(t->backend, "cpu");
    const bool sshd = lines && !cuda && atoll(cluster_value(lines, "nodes", 0)) > 1;
    cJSON *lock = read_lock(cluster);
    const char *system = image(lock);
    char *packages = pins(lock, needs);
    const char *about =
        name ? text_print("%s, built and run", name) : "gen, and CPU programs it writes";
    const char *pins_of = lock ? text_print("the lock of the cluster %s", cluster)
                               : "the machine that printed this";
    Hole hole[] = {
        {"ABOUT", about, true},
        {"COMMAND", command, true},
        {"WORDS", words, true},
        {"NAME", name ? name : "diecast", true},
        {"TAG", name ? name : "diecast", true},
        {"CONTEXT", name ? "out" : ".", true},
        {"DEVICES", cuda ? "--device nvidia.com/gpu=all " : "", true},
        {"PINS", pins_of, true},
        {"SYSTEM", system, true},
        {"PINNED", packages, true},
        {"LOCKED", lock ? " TOOLCHAIN=locked" : "", true},
        {"snapshot", sources(snapshot, system), false},
        {"recipe", name ? "yes" : "", true},
        {"sshd", sshd ? "yes" : "", true},
        {"cuda", cuda ? "yes" : "", true},
        {"nccl", needs & NEED_NCCL_RUN ? "yes" : "", true},
        {"cudnn", needs & NEED_CUDNN_RUN ? "yes" : "", true},
        {"CUDNN_IMAGE", needs & NEED_CUDNN_RUN ? "cudnn-" : "", true}};
    fputs(template_fill("templates/container/Containerfile", hole, sizeof hole / sizeof *hole), to);
}
