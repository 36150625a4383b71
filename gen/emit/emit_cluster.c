/* emit_cluster.c -- cluster settings in run.sh and train.slurm.
 *
 * In:    the lines of the setting cluster, ranks.   Out: texts of holes.
 * Keeps: without a cluster the scripts mention none; every value consists of safe characters
 *        (cluster_fault()), none of which ends a quote, and is quoted as well. */
#include "gen/emit/emit.h"
#include "runtime/ranks/launch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *value(const char *lines, const char *name)
{
    const char *text = cluster_value(lines, name, 0);
    return text ? text : "";
}

/* Returns the values of a list, joined by a separator. */
static char *joined(const char *lines, const char *name, const char *between)
{
    Str s = {0};
    const char *text;
    str_print(&s, "%s", "");
    for (int k = 0; (text = cluster_value(lines, name, k)); k++)
        str_print(&s, "%s%s", k ? between : "", text);
    return s.text;
}

static int64_t nodes_of(const char *lines)
{
    return lines ? atoll(value(lines, "nodes")) : 1;
}

/* Adds an assignment NAME=VALUE that applies only if the environment does not set NAME. */
static void put_variable(Str *s, const char *name, const char *text)
{
    str_print(s, "[ -n \"${%s:-}\" ] || export %s='%s'\n", name, name, text);
}

/* Returns the variables that GPU programs read themselves. */
static char *variables(const char *lines)
{
    Str s = {0};
    const char *text;
    str_print(&s, "%s", "");
    if (*value(lines, "interface"))
        put_variable(&s, "NCCL_SOCKET_IFNAME", text_print("=%s", value(lines, "interface")));
    if (lines && !strcmp(value(lines, "network"), "ethernet") && nodes_of(lines) > 1)
        put_variable(&s, "NCCL_IB_DISABLE", "1");
    for (int k = 0; (text = cluster_value(lines, "nccl", k)); k++)
        put_variable(&s, text_print("%.*s", (int)strcspn(text, "="), text), strchr(text, '=') + 1);
    if (!s.n)
        return s.text;
    return text_print("# For NCCL, of the cluster %s.\n%s", value(lines, "name"), s.text);
}

static const char *or_none(const char *variable)
{
    return *variable ? variable : "-";
}

/* Returns the rows of launchers.def for run.sh, and the part of it that reads them. */
static char *engines(void)
{
    Str s = {0};
    str_print(&s, "engines=(\n");
    for (const Engine *e = engine_row + 1; e < engine_row + ENGINES; e++)
        str_print(&s, "    '%s %s %s %s %s %s %s %s'\n", or_none(e->only), or_none(e->nodes),
                  or_none(e->node), or_none(e->address), or_none(e->hosts), or_none(e->port),
                  or_none(e->ranks), or_none(e->gpus));
    str_print(&s, ")\nlaunchers=(\n");
    for (const Launcher *l = launcher_row; l < launcher_row + LAUNCHERS; l++)
        str_print(&s, "    '%s %s %s %s'\n", l->size, l->rank, or_none(l->other_rank),
                  or_none(l->local_size));
    str_print(&s, ")\n%s", template_source("templates/engines.sh"));
    return s.text;
}

char *emit_run_sh(const char *backend, const char *name, const char *recipe, int64_t ranks,
                  const char *lines)
{
    const bool gpu = !strcmp(backend, "cuda");
    const char *threads = value(lines, "cpus_per_task");
    Hole hole[] = {{"NAME", text_shell(name), false},
                   {"RECIPE", text_shell(recipe), false},
                   {"RANKS", text_print("%" PRId64, ranks), false},
                   {"NODES", text_print("%" PRId64, nodes_of(lines)), false},
                   {"HOSTS", text_shell(joined(lines, "hosts", ",")), false},
                   {"CLUSTER", text_shell(value(lines, "name")), false},
                   {"THREADS", strcmp(threads, "0") ? threads : "", false},
                   {"restarts", template_source("templates/restarts.sh"), false},
                   {"engines", engines(), false},
                   {"preflight", template_source("templates/preflight.sh"), false},
                   {"INTERFACE", text_shell(value(lines, "interface")), false}};
    if (gpu)
        hole[sizeof hole / sizeof *hole - 1] = (Hole){"variables", variables(lines), false};
    return template_fill(text_print("templates/%s/run.sh", backend), hole,
                         (int)(sizeof hole / sizeof *hole));
}

/* #SBATCH lines that only clusters have. */
static char *options(const char *lines)
{
    static const char *const row[][2] = {
        {"partition", "partition"}, {"account", "account"}, {"qos", "qos"},
        {"cpus_per_task", "cpus-per-task"}};
    Str s = {0};
    str_print(&s, "%s", "");
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const char *text = value(lines, row[i][0]);
        if (*text && strcmp(text, "0"))
            str_print(&s, "#SBATCH --%s=%s\n", row[i][1], text);
    }
    return s.text;
}

/* Returns the commands that a job runs before it starts the program. */
static char *before(const char *lines, bool gpu)
{
    Str s = {0};
    const char *text;
    str_print(&s, "%s", "");
    for (int k = 0; (text = cluster_value(lines, "modules", k)); k++)
        str_print(&s, "module load %s || exit\n", text_shell(text));
    if (gpu)
        str_print(&s, "%s", variables(lines));
    else if (*value(lines, "interface"))
        for (int i = 0; i < 2; i++)
            put_variable(&s, i ? "OMPI_MCA_oob_tcp_if_include" : "OMPI_MCA_btl_tcp_if_include",
                         value(lines, "interface"));
    return s.text;
}

char *emit_slurm(const char *backend, const char *name, int64_t ranks, const char *lines)
{
    const bool slurm = !strcmp(value(lines, "launcher"), "slurm");
    const int64_t nodes = nodes_of(lines);
    Str container = {0};
    const char *word;
    str_print(&container, "%s", "");
    for (int k = 0; (word = cluster_value(lines, "container", k)); k++)
        str_print(&container, "%s ", text_shell(word));
    Hole hole[] = {{"NAME", name, false},
                   {"RANKS", text_print("%" PRId64, ranks), false},
                   {"NODES", text_print("%" PRId64, nodes), false},
                   {"LOCAL", text_print("%" PRId64, ranks / nodes), false},
                   {"TIME", slurm ? value(lines, "time") : "24:00:00", false},
                   {"CONTAINER", container.text, false},
                   {"options", slurm ? options(lines) : "", false},
                   {"before", before(lines, !strcmp(backend, "cuda")), false}};
    return template_fill(text_print("templates/%s/train.slurm", backend), hole,
                         (int)(sizeof hole / sizeof *hole));
}
