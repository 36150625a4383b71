/* launch.c -- reads the variables of launchers.def.
 *
 * In:    an environment.  Out: Launch, or a message naming variable and value.
 * Keeps: strict numbers; lists expand to at most a given count; recursion at most NESTING. */
#include "runtime/ranks/launch.h"
#include "runtime/base.h"
#include "runtime/files/names.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN = 60, NAME = 256, NESTING = 4, DIGITS = 9 };

const Launcher launcher_row[LAUNCHERS] = {
#define LAUNCHER(...) { __VA_ARGS__ },
#include "runtime/ranks/launchers.def"
};
const Engine engine_row[ENGINES] = {
#define ENGINE(...) { __VA_ARGS__ },
#include "runtime/ranks/launchers.def"
};
enum { TORCHRUN = 0, SLURM = LAUNCHERS - 1 };

static const char *value_of(char *const *env, const char *name)
{
    size_t n = strlen(name);
    for (; n && *env; env++)
        if (!strncmp(*env, name, n) && (*env)[n] == '=')
            return *env + n + 1;
    return NULL;
}

/* `NAME=value: what`, the value cut and without control characters. */
static char *refuse(const char *name, const char *value, const char *what)
{
    char shown[SHOWN + 4];
    size_t n = strlen(value);
    for (size_t i = 0; i <= n && i < SHOWN; i++)
        shown[i] = value[i] && !isprint((unsigned char)value[i]) ? '?' : value[i];
    if (n >= SHOWN)
        strcpy(shown + SHOWN, "...");
    return format("%s=%s: %s", name, shown, what);
}

/* Refuses a variable DIECAST_... that environment.def does not have; those of the tests' simulator
 * are not the program's. */
static char *unknown_variable(char *const *env)
{
    static const char ours[] = "DIECAST_", simulator[] = "SIM_";
    static const char *const known[] = {
#define VARIABLE(name, who, about, without) name,
#include "runtime/environment.def"
    };
    for (; *env; env++) {
        char name[NAME];
        const char *near = NULL;
        bool is_known = strncmp(*env, ours, sizeof ours - 1) != 0 ||
                        !strncmp(*env + sizeof ours - 1, simulator, sizeof simulator - 1);
        int least = 3;           /* one more than the typing errors that are forgiven */
        if (is_known)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)strcspn(*env, "="), *env);
        for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
            const int distance = names_distance(name, known[i]);
            is_known |= distance == 0;
            if (distance < least)
                near = known[i], least = distance;
        }
        if (!is_known)
            return format("%.*s: no such variable%s%s; unset it", SHOWN, name,
                          near ? ", did you mean " : "", near ? near : "");
    }
    return NULL;
}

/* A variable that must be an integer in lo..hi; absent leaves *out alone. */
static char *integer(char *const *env, const char *name, int lo, int hi, int *out)
{
    const char *text = value_of(env, name);
    if (!text)
        return NULL;
    size_t n = strspn(text, "0123456789");
    long v = n && n <= DIGITS ? strtol(text, NULL, 10) : -1;
    if (text[n] || v < lo || v > hi) {
        char want[64];
        snprintf(want, sizeof want, "want an integer from %d to %d", lo, hi);
        return refuse(name, text, want);
    }
    *out = (int)v;
    return NULL;
}

/* The digits at *at, at most DIGITS of them; -1 if there are none or more. */
static long number(const char **at, int *width)
{
    size_t n = strspn(*at, "0123456789");
    long v = n && n <= DIGITS ? strtol(*at, NULL, 10) : -1;
    *at += n;
    *width = (int)n;
    return v;
}

char *launch_expand_counts(const char *list, int max, int *counts, int *n)
{
    int width;
    *n = 0;
    for (const char *at = list;; at++) {
        long count = number(&at, &width), times = 1;
        if (count > LAUNCH_MAX)
            count = -1;
        if (count > 0 && !strncmp(at, "(x", 2)) {
            at += 2;
            times = number(&at, &width);
            if (*at++ != ')')
                times = -1;
        }
        if (count <= 0 || times <= 0 || (*at && *at != ','))
            return refuse("task list", list, "want counts such as 2(x3),1");
        if (times > max - *n)
            return refuse("task list", list, "more nodes than tasks");
        while (times--)
            counts[(*n)++] = (int)count;
        if (!*at)
            return NULL;
    }
}

typedef struct {
    const char *list;            /* for messages */
    int max, n;
    void (*host)(void *arg, const char *name);
    void *arg;
} Expansion;

/* name: the part expanded so far; rest: up to end, may contain brackets. */
static char *expand_item(Expansion *x, const char *name, const char *rest, const char *end,
                         int depth)
{
    char next[NAME];
    size_t have = strlen(name), plain = 0;
    while (rest + plain < end
           && (isalnum((unsigned char)rest[plain]) || strchr("._-", rest[plain])))
        plain++;
    if (have + plain + DIGITS >= sizeof next || depth > NESTING)
        return refuse("host list", x->list, "a name is too long");
    memcpy(next, name, have);
    memcpy(next + have, rest, plain);
    next[have + plain] = '\0';
    rest += plain;
    if (rest == end) {
        if (!*next)
            return refuse("host list", x->list, "an empty name");
        if (x->n == x->max)
            return refuse("host list", x->list, "more hosts than tasks");
        x->n++;
        x->host(x->arg, next);
        return NULL;
    }
    if (*rest != '[')
        return refuse("host list", x->list, "want names such as n[01-03,7],login");
    const char *at = rest + 1, *close = memchr(rest, ']', (size_t)(end - rest));
    while (close && at <= close) {
        int width, ignored;
        long lo = number(&at, &width), hi = lo;
        if (*at == '-') {
            at++;
            hi = number(&at, &ignored);
        }
        if (lo < 0 || hi < lo || (*at != ',' && at != close))
            break;
        for (long v = lo; v <= hi; v++) {
            snprintf(next + have + plain, sizeof next - have - plain, "%0*ld", width, v);
            char *error = expand_item(x, next, close + 1, end, depth + 1);
            if (error)
                return error;
        }
        if (at++ == close)
            return NULL;
    }
    return refuse("host list", x->list, "want ranges such as [01-03,7]");
}

char *launch_expand_hosts(const char *list, int max, void (*host)(void *arg, const char *name),
                          void *arg, int *n)
{
    Expansion x = { list, max, 0, host, arg };
    for (const char *at = list;; at++) {
        const char *end = at;
        for (bool inside = false; *end && (inside || *end != ','); end++)
            inside = *end == '[' || (inside && *end != ']');
        char *error = expand_item(&x, "", at, end, 0);
        *n = x.n;
        if (error || !*end)
            return error;
        at = end;
    }
}

/* Reads the variables of row r; *found: some are set. */
static char *read_source(char *const *env, const Launcher *r, Launch *l, bool *found)
{
    const char *rank = value_of(env, r->rank) ? r->rank : r->other_rank;
    *found = value_of(env, rank) && value_of(env, r->size);
    if (!*found)
        return NULL;
    *l = (Launch){ .source = r->name, .local_rank = -1, .local_size = -1 };
    char *error = integer(env, r->size, 1, LAUNCH_MAX, &l->size);
    if (!error && !integer(env, rank, l->size, LAUNCH_MAX, &l->rank))
        l->extra = true;
    if (!error)
        error = integer(env, rank, 0, l->size - 1, &l->rank);
    if (!error)
        error = integer(env, r->local_size, 1, l->size, &l->local_size);
    if (!error)
        error = integer(env, r->local_rank, 0, (l->local_size > 0 ? l->local_size : l->size) - 1,
                        &l->local_rank);
    return error;
}

static void keep_first(void *arg, const char *name)
{
    Launch *l = arg;
    if (!l->first_host[0])
        snprintf(l->first_host, sizeof l->first_host, "%s", name);
}

/* Reads the step's lists, tasks of this node and first host; they must be consistent with each
 * other and with the size. */
static char *read_slurm_lists(char *const *env, Launch *l)
{
    const char *tasks = value_of(env, "SLURM_STEP_TASKS_PER_NODE");
    const char *nodes = value_of(env, "SLURM_STEP_NODELIST");
    int ncounts = 0, nhosts = 0, node = -1;
    char *error = NULL;
    if (tasks) {
        int *counts = calloc((size_t)l->size, sizeof *counts);
        if (!counts)
            return format("no memory for %d tasks", l->size);
        error = launch_expand_counts(tasks, l->size, counts, &ncounts);
        int64_t sum = 0;
        for (int i = 0; i < ncounts; i++)
            sum += counts[i];
        if (!error && sum != l->size)
            error = refuse("SLURM_STEP_TASKS_PER_NODE", tasks, "does not add up to "
                           "SLURM_STEP_NUM_TASKS");
        if (!error)
            error = integer(env, "SLURM_NODEID", 0, ncounts - 1, &node);
        if (!error && node >= 0)
            l->local_size = counts[node];
        free(counts);
    }
    if (!error && nodes)
        error = launch_expand_hosts(nodes, l->size, keep_first, l, &nhosts);
    if (!error && ncounts && nhosts && ncounts != nhosts)
        error = refuse("SLURM_STEP_NODELIST", nodes, "other number of nodes than "
                       "SLURM_STEP_TASKS_PER_NODE");
    if (!error && l->local_size > 0 && l->local_rank >= l->local_size)
        error = refuse("SLURM_LOCALID", value_of(env, "SLURM_LOCALID"), "not below the number of "
                       "tasks on this node");
    return error;
}

static char *lone_variable(char *const *env)
{
    const char *rank = value_of(env, "RANK"), *size = value_of(env, "WORLD_SIZE");
    if (rank)
        return refuse("RANK", rank, "set without WORLD_SIZE");
    return size ? refuse("WORLD_SIZE", size, "set without RANK") : NULL;
}

/* Returns the first of torchrun's variables that contradicts a value that l has; or
 * NULL. */
static char *odd_variable(char *const *env, const Launch *l)
{
    const Launcher *r = &launcher_row[TORCHRUN];
    const struct { const char *name; int value; } known[] = {
        { r->rank, l->rank }, { r->size, l->size }, { r->local_rank, l->local_rank },
        { r->local_size, l->local_size } };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        int said = known[i].value;
        char *error = integer(env, known[i].name, 0, LAUNCH_MAX, &said);
        if (!error && known[i].value >= 0 && said != known[i].value)
            error = format("%s=%d, but launcher %s says %d: unset it", known[i].name, said,
                           l->source, known[i].value);
        if (error)
            return error;
    }
    return NULL;
}

/* Machines of a run by the variables of engines; ..._of: the variable, or NULL. */
typedef struct {
    const char *nodes_of, *node_of, *address_of, *address, *port_of, *hosts_of;
    int nodes, node, port;
    const Engine *engine;            /* that gives nodes */
    bool one_rank;                   /* it starts one rank on a machine */
} Machines;

/* A number of machines; torchrun's range of an elastic run must be one number. */
static char *node_count(char *const *env, const char *name, int *n)
{
    const char *text = value_of(env, name), *colon = text ? strchr(text, ':') : NULL;
    const size_t lo = colon ? (size_t)(colon - text) : 0;
    if (!lo || strlen(colon + 1) != lo || strncmp(text, colon + 1, lo))
        return integer(env, name, 1, LAUNCH_MAX, n);
    char *one = format("%s=%s", name, colon + 1);
    char *error = integer((char *const[]){ one, NULL }, name, 1, LAUNCH_MAX, n);
    free(one);
    return error;
}

static char *differ(const char *a, int x, const char *b, int y)
{
    return format("%s=%d, but %s=%d: they must be equal; unset the one that is wrong", a, x, b, y);
}

/* Reads a number that several engines may give: *of is the variable of *value. */
static char *shared(char *const *env, const char *name, int lo, const char **of, int *value)
{
    int said = lo;
    if (!value_of(env, name))
        return NULL;
    char *error = lo ? node_count(env, name, &said) : integer(env, name, 0, LAUNCH_MAX, &said);
    if (!error && *of && said != *value)
        return differ(*of, *value, name, said);
    if (!error && !*of) {
        *of = name;
        *value = said;
    }
    return error;
}

/* Reads the address and the port of rank 0. */
static char *read_master(char *const *env, const Engine *e, Machines *m)
{
    const char *address = value_of(env, e->address), *hosts = value_of(env, e->hosts);
    int port = 0;
    char *error = launch_port_of(env, e->port, &port);
    if (!error && address && m->address && strcmp(address, m->address))
        return format("%s=%.60s, but %s=%.60s: they must be equal; unset the one that is wrong",
                      m->address_of, m->address, e->address, address);
    if (!error && port && m->port && port != m->port)
        return differ(m->port_of, m->port, e->port, port);
    if (address && !m->address) {
        m->address_of = e->address;
        m->address = address;
    }
    if (port && !m->port) {
        m->port_of = e->port;
        m->port = port;
    }
    if (hosts && !m->hosts_of)
        m->hosts_of = e->hosts;
    return error;
}

/* True if the engine starts one rank on a machine: by their number, or because it has one GPU. */
static char *read_ranks(char *const *env, const Engine *e, bool *one)
{
    static const char *const words[] = { "auto", "gpu", "cpu" };
    const char *ranks = value_of(env, e->ranks);
    int n = 0;
    for (size_t i = 0; ranks && i < sizeof words / sizeof *words; i++)
        if (!strcmp(ranks, words[i]))
            return NULL;
    char *error = integer(env, e->ranks, 1, LAUNCH_MAX, &n);
    if (!error && !ranks)
        error = integer(env, e->gpus, 0, LAUNCH_MAX, &n);
    *one = n == 1;
    return error;
}

/* Without a launcher: reads the variables of engines, which start one command on each machine. This
 * process is a rank if there is one on each machine; otherwise each would be a run of its own. */
static char *read_engines(char *const *env, Launch *l)
{
    Machines m = { .nodes = 1 };
    char *error = NULL;
    for (int i = 0; i < ENGINES && !error; i++) {
        const Engine *e = &engine_row[i];
        if (*e->only && !value_of(env, e->only))
            continue;
        error = shared(env, e->nodes, 1, &m.nodes_of, &m.nodes);
        if (!error)
            error = shared(env, e->node, 0, &m.node_of, &m.node);
        if (!error)
            error = read_ranks(env, e, &m.one_rank);
        if (!error)
            error = read_master(env, e, &m);
        if (m.one_rank && !m.engine)
            m.engine = e;
    }
    if (error)
        return error;
    const char *several = m.nodes > 1 ? m.nodes_of : m.node ? m.node_of : NULL;
    if (!several)
        return NULL;
    if (m.nodes == 1 || !m.engine || !m.node_of)
        return refuse(several, value_of(env, several), "several nodes, but no launcher says which "
                      "rank this is: start run.sh, next to this program, or unset it");
    if (m.node >= m.nodes)
        return format("%s=%d: must be below %s=%d", m.node_of, m.node, m.nodes_of, m.nodes);
    const char *address = m.address ? m.address : m.hosts_of ? value_of(env, m.hosts_of) : "";
    *l = (Launch){ .rank = m.node, .size = m.nodes, .local_size = 1, .source = m.engine->name };
    snprintf(l->first_host, sizeof l->first_host, "%.*s", (int)strcspn(address, "\n"), address);
    return NULL;
}

/* more has the same rank and size as l; copies its values of the node into l. */
static char *merge_local(Launch *l, const Launch *more)
{
    if (l->local_rank >= 0 && more->local_rank >= 0 && l->local_rank != more->local_rank)
        return format("%s says local rank %d, %s says %d: unset the variables of one", l->source,
                      l->local_rank, more->source, more->local_rank);
    if (l->local_size >= 0 && more->local_size >= 0 && l->local_size != more->local_size)
        return format("%s says %d rank%s on this node, %s says %d: unset the variables of one",
                      l->source, l->local_size, l->local_size == 1 ? "" : "s", more->source,
                      more->local_size);
    l->local_rank = l->local_rank >= 0 ? l->local_rank : more->local_rank;
    l->local_size = l->local_size >= 0 ? l->local_size : more->local_size;
    if (!l->first_host[0])
        memcpy(l->first_host, more->first_host, sizeof l->first_host);
    return NULL;
}

char *launch_command(const Launch *l, int n, const char *program, bool torchrun)
{
    for (int i = 0; i < LAUNCHERS; i++)
        if (!strcmp(launcher_row[i].name, l->source) && (i != TORCHRUN || torchrun))
            return format(launcher_row[i].command, n, program);
    return NULL;
}

char *launch_precision_refused(const char *precision, const char *target)
{
    if (!names_listed(PRECISION_NAMES, precision))
        return format("no program has it, only " PRECISION_NAMES);
    if (strcmp(precision, "fp16") || strncmp(target, "cpu", 3))
        return NULL;
    return format("fp16 needs a GPU, and this program is for target=%s; bf16 or fp32", target);
}

const char *launch_precision_conflict(char *const *env, const char *precision)
{
    const char *said = value_of(env, "ACCELERATE_MIXED_PRECISION");
    return said && strcmp(said, "no") && strcmp(said, precision) ? said : NULL;
}

char *launch_port_of(char *const *env, const char *name, int *port)
{
    const char *text = value_of(env, name);
    if (!text)
        return NULL;
    size_t n = strspn(text, "0123456789");
    long said = n > 0 && n < 6 && !text[n] ? strtol(text, NULL, 10) : -1;
    if (said < 1 || said > 65534)
        return refuse(name, text, "want a port from 1 to 65534");
    *port = (int)said;
    return NULL;
}

char *launch_scale(char *const *env, double *scale)
{
    const char *text = value_of(env, "DIECAST_TIMEOUT_SCALE");
    char *end = NULL;
    const double value = text ? strtod(text, &end) : 1;
    const bool good = !text || (end != text && !*end && value >= 0.001 && value <= 1000);
    *scale = good ? value : 1;
    return good ? NULL : refuse("DIECAST_TIMEOUT_SCALE", text, "want a number from 0.001 to 1000");
}

char *launch_port(char *const *env, int *port, bool *agent)
{
    const char *elastic = value_of(env, "TORCHELASTIC_USE_AGENT_STORE");
    int own = -1, master = -1;
    char *error = launch_port_of(env, "DIECAST_PORT", &own);
    for (int i = 0; i < ENGINES && !error && master < 0; i++)
        error = launch_port_of(env, engine_row[i].port, &master);
    *agent = own < 0 && master > 0 && elastic && !strcmp(elastic, "True");
    *port = own > 0 ? own : master > 0 ? master + *agent : 29500;
    return error;
}

char *launch_resolve(char *const *env, Launch *out)
{
    bool any = false;
    *out = (Launch){ .size = 1, .local_size = 1, .source = "none" };
    char *error = unknown_variable(env);
    if (error)
        return error;
    for (int i = 0; i < LAUNCHERS; i++) {
        Launch l;
        bool found;
        error = read_source(env, &launcher_row[i], &l, &found);
        if (!error && found && i == SLURM)
            error = read_slurm_lists(env, &l);
        if (error) {
            if (l.extra && !any)
                *out = l;
            return error;
        }
        if (!found || (any && i == SLURM && l.local_size == 1))
            continue;
        if (any && (l.size != out->size || l.rank != out->rank))
            return format("%s says rank %d of %d, %s says rank %d of %d: unset the variables "
                          "of one", out->source, out->rank, out->size, l.source, l.rank, l.size);
        error = any ? merge_local(out, &l) : NULL;
        if (error)
            return error;
        if (!any)
            *out = l;
        any = true;
    }
    error = any ? NULL : lone_variable(env);
    if (!error && strcmp(out->source, launcher_row[TORCHRUN].name))
        error = odd_variable(env, out);
    if (!error && !any)
        error = read_engines(env, out);
    if (error)
        return error;
    const char *master = value_of(env, "MASTER_ADDR");
    if (master && !out->first_host[0])
        snprintf(out->first_host, sizeof out->first_host, "%s", master);
    error = integer(env, "SLURM_RESTART_COUNT", 0, LAUNCH_MAX, &out->restart);
    return error ? error : integer(env, "TORCHELASTIC_RESTART_COUNT", 0, LAUNCH_MAX, &out->restart);
}
