/* cluster.c -- cluster fields: values derived from them, and checks.
 *
 * In:    the cluster.* fields of a recipe.
 * Out:   target, gpus, memory.limit_gib and run.out, unless the recipe sets them; lines for later
 *        rooms.
 * Keeps: values set by the recipe never change; text that reaches a script has only safe
 *        characters. */
#include "gen/config/objective.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define WORD "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

/* Fields whose text reaches shells and #SBATCH lines: allowed characters, allowed first characters,
 * maximum length. */
static const struct {
    int field;
    const char *of, *begins;
    size_t most;
    const char *want;
} text_row[] = {
    {F_cluster_name, WORD ".-", WORD, 64, "up to 64 letters, digits and _ . -"},
    {F_cluster_interface, WORD ".-", WORD, 15, "the name of one interface, such as eth0 or ib0"},
    {F_cluster_nccl, WORD ".,:^=+/-", "N", 200,
     "NCCL_NAME=VALUE of letters, digits and _ . , : ^ = + / -"},
    {F_cluster_hosts, WORD ".-", WORD, 200, "host names of letters, digits and _ . -"},
    {F_cluster_partition, WORD ".,+-", WORD, 200, "letters, digits and _ . , + -"},
    {F_cluster_account, WORD ".+-", WORD, 100, "letters, digits and _ . + -"},
    {F_cluster_qos, WORD ".,+-", WORD, 100, "letters, digits and _ . , + -"},
    {F_cluster_time, "0123456789:-", "0123456789", 20,
     "MINUTES, HH:MM:SS, DAYS-HH or DAYS-HH:MM:SS"},
    {F_cluster_modules, WORD ".+/-", WORD, 200,
     "names of modules of letters, digits and _ . + / -"},
    {F_cluster_container, WORD ".,:=@+/-", WORD "./-", 400,
     "words of letters, digits and _ . , : = @ + / -"},
    {F_cluster_scratch, WORD ".+/-", "/", 400,
     "an absolute path of letters, digits and _ . + / -, without \"..\""},
};
enum { DECODE_B = sizeof text_row / sizeof *text_row };

static int64_t int_of(const Config *c, int field)
{
    return c->v[field].set && c->v[field].i > 0 ? c->v[field].i : 1;
}

static int64_t all_gpus(const Config *c)
{
    return int_of(c, F_cluster_nodes) * int_of(c, F_cluster_gpus_per_node);
}

/* Card of the nodes; NULL: none, or the recipe is invalid. */
static const Card *card_of(const Config *c)
{
    const FieldValue *v = &c->v[F_cluster_card];
    return v->set && v->s ? card_find(v->s) : NULL;
}

/* Position of a derived value: never the command line, whose words are repeated elsewhere. */
static Loc follows(const Config *c, int field)
{
    Loc loc = c->v[field].loc;
    return loc.file ? loc : (Loc){c->recipe, 0};
}

static const char *name_of(const Config *c)
{
    if (c->v[F_cluster_name].set && c->v[F_cluster_name].s)
        return c->v[F_cluster_name].s;
    const char *file = c->recipe;
    for (int i = NFIELDS - 1; i >= 0; i--)
        if (field_of_cluster(i) && c->v[i].set && c->v[i].loc.file)
            file = c->v[i].loc.file;
    const char *slash = strrchr(file, '/'), *base = slash ? slash + 1 : file;
    const size_t n = strcspn(base, ".");
    return text_print("%.*s",
                      (int)(strchr(base, '.') ? strlen(base) - strlen(strrchr(base, '.')) : n),
                      base);
}

/* Target of the nodes; NULL: not given, or invalid. */
static const char *target_of(const Config *c)
{
    const Card *card = card_of(c);
    return c->v[F_cluster_target].set ? c->v[F_cluster_target].s : card ? card->target : NULL;
}

static bool same_kind(const char *a, const char *b)
{
    const Target *x = target_find(a), *y = target_find(b);
    return x == y || (!strcmp(x->backend, "cpu") && !strcmp(y->backend, "cpu"));
}

void cluster_target(Config *c)
{
    if (!c->cluster)
        return;
    const Card *card = card_of(c);
    const char *target = target_of(c);
    FieldValue *v = &c->v[F_target], *target_field = &c->v[F_cluster_target];
    const int from = target_field->set ? F_cluster_target : F_cluster_card;
    if (!c->v[F_cluster_card].set && !target_field->set)
        err_add(c->v[F_gpus].loc.file ? c->v[F_gpus].loc : (Loc){c->recipe, 0},
                "cluster.card: set the GPU of its nodes (gen list cards), or target = \"cpu\" for "
                "a cluster of CPUs");
    else if (target_field->set && target_field->s && card && strcmp(target_field->s, card->target))
        err_add(target_field->loc, "cluster.target: %s, but a %s is %s; leave it out",
                target_field->s, card->name,
                card->target);
    else if (target_field->set && target_field->s && !card && !c->v[F_cluster_card].set &&
             strcmp(target_find(target_field->s)->backend, "cpu"))
        err_add(target_field->loc,
                "cluster.target: %s needs cluster.card, which also sets the memory (gen list "
                "cards)",
                target_field->s);
    else if (!target && c->v[F_cluster_card].s && !target_field->set)
        err_add(c->v[F_cluster_card].loc,
                "cluster.card: none: for a cluster of CPUs also set target = \"cpu\"");
    else if (target && v->set && v->s && !same_kind(v->s, target))
        err_add(v->loc, "target: %s, but the nodes of cluster %s have %s%s; leave it out (target=)",
                v->s, name_of(c), card ? text_print("%s, which is ", card->name) : "", target);
    if (c->v[F_cluster_card].set && !c->v[F_cluster_card].s)
        v->set = true;                   /* to report this error, not a missing target */
    if (target && !v->set) {
        *v = (FieldValue){.set = true, .s = target, .loc = follows(c, from)};
        choice_find(field_choices(F_target), target, &v->i);
    }
}

/* GiB of a GPU, or of a CPU node; 0: the target's. */
static double memory_of(const Config *c)
{
    const Card *card = card_of(c);
    const FieldValue *memory = &c->v[F_cluster_memory_gib];
    return memory->set && memory->f > 0 ? memory->f : card ? card->gib : 0;
}

static void fill_ranks(Config *c)
{
    FieldValue *v = &c->v[F_gpus];
    const int64_t all = all_gpus(c);
    if (v->set && !v->s)
        return;
    *v = (FieldValue){.set = true, .i = all, .f = (double)all, .loc = follows(c, F_cluster_nodes)};
    if (v->f > field_row[F_gpus].hi)
        err_add(v->loc,
                "gpus: a cluster of %" PRId64 " is larger than the largest, %g; use fewer nodes",
                all, field_row[F_gpus].hi);
}

static void fill_memory(Config *c)
{
    FieldValue *v = &c->v[F_memory_limit_gib];
    const Target *t = target_find(c->v[F_target].s);
    const int64_t nodes = int_of(c, F_cluster_nodes);
    const bool cpu = !strcmp(t->backend, "cpu");
    if (!target_of(c) || !same_kind(t->name, target_of(c)))
        return;
    double gib = memory_of(c);
    if (cpu && gib > 0 && c->v[F_gpus].i >= nodes)
        gib /= (double)(c->v[F_gpus].i / nodes);
    if (!gib)
        return;
    if (v->set && v->f > gib)
        err_add(v->loc,
                "memory.limit_gib: %g, but %s of cluster %s has %.4g; leave it out "
                "(memory.limit_gib=)",
                v->f, cpu ? "a rank's share of a node" : "a card", name_of(c), gib);
    else if (!v->set && (int64_t)(gib * (1 << 30)) != t->memory)
        *v = (FieldValue){.set = true,
                          .f = gib,
                          .loc = follows(c, c->v[F_cluster_memory_gib].set ? F_cluster_memory_gib
                                                                           : F_cluster_card)};
}

static void fill_out(Config *c, const char *name)
{
    const FieldValue *v = &c->v[F_cluster_scratch];
    for (int i = 0; i < c->nrun; i++)
        if (!strcmp(c->run_name[i], "out"))
            return;
    if (!v->set || !v->s || !*v->s)
        return;
    c->run_name[c->nrun] = run_flag[run_flag_find("out")].name;
    c->run_loc[c->nrun] = follows(c, F_cluster_scratch);
    c->run_value[c->nrun++] = text_print("%s/%s", v->s, name);
}

/* Number of GPUs that the driver reports and CUDA_VISIBLE_DEVICES shows. */
static int64_t machine_gpus(void)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    DIR *d = opendir("/proc/driver/nvidia/gpus");
    int64_t there = 0, shown = visible && *visible ? 1 : 0;
    for (struct dirent *e; d && (e = readdir(d));)
        there += *e->d_name != '.';
    if (d)
        closedir(d);
    for (const char *p = visible; p && *p; p++)
        shown += *p == ',';
    return visible && shown < there ? shown : there;
}

/* Resolves gpus=all without a cluster. */
static void take_machine(const Config *c, FieldValue *gpus)
{
    const char *target = c->v[F_target].s;
    const int64_t n = target && strncmp(target, "sm_", 3) ? 0 : machine_gpus();
    if (n)
        *gpus = (FieldValue){.set = true, .i = n, .f = (double)n, .loc = gpus->loc};
    else
        err_add(gpus->loc,
                "gpus: all means the GPUs of the cluster, or else of this machine, whose driver "
                "shows none%s: add cluster=NAME (gen list clusters), or give a number",
                target && strncmp(target, "sm_", 3) ? " to a CPU program" : "");
}

void cluster_fill(Config *c, const char *name)
{
    FieldValue *gpus = &c->v[F_gpus];
    const bool all = gpus->set && gpus->s;
    if (!c->cluster && all) {
        take_machine(c, gpus);
        gpus->i = gpus->i ? gpus->i : 1;
    }
    if (!c->cluster)
        return;
    const Objective *o =
        c->v[F_objective].set && c->v[F_objective].s ? objective_find(c->v[F_objective].s) : NULL;
    if (o && o->standalone) {
        err_add(c->v[F_objective].loc,
                "cluster: programs of the objective %s run as one process on a CPU; leave it out%s",
                o->name, c->chosen ? "" : " (cluster=)");
        err_flush();
    }
    fill_ranks(c);
    if (c->v[F_target].s && c->v[F_target].set && target_find(c->v[F_target].s))
        fill_memory(c);
    fill_out(c, name);
    c->v[F_cluster_name].s = name_of(c);
    if (!c->v[F_cluster_target].set)
        c->v[F_cluster_target].s = target_of(c);
}

/* ---- rules ----------------------------------------------------------------------------------- */

/* Parses a number of one or more digits, such as "24" or "7". */
static bool number(const char **p, long most)
{
    const size_t n = strspn(*p, "0123456789");
    long v = 0;
    for (size_t i = 0; i < n && i < 6; i++)
        v = 10 * v + (*p)[i] - '0';
    *p += n;
    return n && n < 6 && v <= most;
}

/* True for a time limit of sbatch that is not zero. */
static bool is_time(const char *p)
{
    const char *from = p;
    bool good = number(&p, 99999);
    if (good && *p == '-') {
        p++;
        good = number(&p, 23);
        for (int i = 0; good && i < 2 && *p == ':'; i++)
            p++, good = number(&p, 59);
    } else {
        for (int i = 0; good && i < 2 && *p == ':'; i++)
            p++, good = number(&p, 59);
    }
    return good && !*p && strpbrk(from, "123456789");
}

static bool is_nccl(const char *s)
{
    const char *equal = strchr(s, '=');
    return equal && !strncmp(s, "NCCL_", 5) && equal > s + 5 && equal[1] &&
           strspn(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == (size_t)(equal - s);
}

/* True if the value is safe in a script, by that row of text_row. */
static bool is_safe(int row, const char *s)
{
    if (!*s || strspn(s, text_row[row].of) != strlen(s) || strlen(s) > text_row[row].most ||
        !strchr(text_row[row].begins, *s) || strstr(s, ".."))
        return false;
    const int field = text_row[row].field;
    return field == F_cluster_time ? is_time(s) : field == F_cluster_nccl ? is_nccl(s) : true;
}

static void check_text(const Config *c, int row)
{
    const int field = text_row[row].field;
    const FieldValue *v = &c->v[field];
    const bool list = field_row[field].type == FT_LIST;
    for (int i = 0; i < (list ? v->n : 1); i++) {
        const char *s = list ? v->list[i] : v->s;
        if (s && (list || *s) && !is_safe(row, s))
            err_add(v->loc, "%s: must be %s, got %s", field_row[field].path, text_row[row].want,
                    text_shown(s));
    }
}

static void check_nccl(const Config *c)
{
    static const struct {
        const char *name, *why;
    } taken[] = {
        {"NCCL_SOCKET_IFNAME", "is cluster.interface"},
        {"NCCL_IB_DISABLE",
         "is 1 with cluster.network = \"ethernet\", not set with \"infiniband\""},
        {"NCCL_COMM_ID", "stops every program: ranks meet by MASTER_ADDR"}};
    const FieldValue *v = &c->v[F_cluster_nccl];
    for (int i = 0; i < v->n; i++) {
        const size_t n = strcspn(v->list[i], "=");
        for (size_t k = 0; k < sizeof taken / sizeof *taken; k++)
            if (strlen(taken[k].name) == n && !strncmp(v->list[i], taken[k].name, n))
                err_add(v->loc, "cluster.nccl: %s %s; leave it out", taken[k].name, taken[k].why);
        for (int k = 0; k < i; k++)
            if (!strncmp(v->list[k], v->list[i], n + 1))
                err_add(v->loc, "cluster.nccl: %.*s is set twice", (int)n, v->list[i]);
    }
}

/* Adds an error for each of the fields that is set: other launchers, or CPUs, do not use them. */
static void refuse_fields(const Config *c, const int *field, int n, const char *why)
{
    for (int i = 0; i < n; i++)
        if (c->v[field[i]].set)
            err_add(c->v[field[i]].loc, "%s: %s; leave it out", field_row[field[i]].path, why);
}
#define REFUSE(c, why, ...) \
    refuse_fields(c, (const int[]){__VA_ARGS__}, (int)(sizeof(int[]){__VA_ARGS__} / sizeof(int)), \
                  why)

static void check_launcher(const Config *c)
{
    const char *launcher = c->v[F_cluster_launcher].s;
    const FieldValue *hosts = &c->v[F_cluster_hosts];
    const bool cpu = !strcmp(target_find(c->v[F_target].s)->backend, "cpu");
    if (strcmp(launcher, "slurm"))
        REFUSE(c, text_print("only for clusters whose launcher is slurm; here it is %s", launcher),
               F_cluster_partition, F_cluster_account, F_cluster_qos, F_cluster_time,
               F_cluster_modules, F_cluster_container);
    if (!strcmp(launcher, "slurm") || !strcmp(launcher, "torchrun"))
        REFUSE(c,
               text_print("only for clusters whose launcher is run.sh or mpirun; %s knows its "
                          "nodes",
                          launcher),
               F_cluster_hosts);
    if (cpu && !strcmp(launcher, "torchrun"))
        err_add(c->v[F_cluster_launcher].loc, "cluster.launcher: torchrun starts GPU programs; for "
                                              "CPUs use run.sh, mpirun or slurm");
    if (cpu)
        REFUSE(c, "only for clusters with GPUs", F_cluster_nccl, F_cluster_link);
    if (hosts->n && hosts->n != c->v[F_cluster_nodes].i)
        err_add(hosts->loc, "cluster.hosts: names %d machines, but cluster.nodes = %" PRId64,
                hosts->n, c->v[F_cluster_nodes].i);
}

void check_cluster(const Config *c)
{
    if (!c->cluster)
        return;
    const int64_t nodes = c->v[F_cluster_nodes].i, each = c->v[F_cluster_gpus_per_node].i,
                  ranks = c->v[F_gpus].i;
    const FieldValue *gpus = &c->v[F_gpus];
    for (int i = 0; i < DECODE_B; i++)
        check_text(c, i);
    check_nccl(c);
    check_launcher(c);
    if (ranks > nodes * each)
        err_add(gpus->loc,
                "gpus: %" PRId64 ", but cluster %s has %" PRId64 " nodes x %" PRId64 " = %" PRId64
                "; gpus=all uses all of them",
                ranks, c->v[F_cluster_name].s, nodes, each, nodes * each);
    else if (ranks % nodes)
        err_add(gpus->loc,
                "gpus: %" PRId64 " cannot be divided evenly among the %" PRId64
                " nodes of cluster %s; gpus=all uses all %" PRId64 ", cluster.nodes=1 one node",
                ranks, nodes, c->v[F_cluster_name].s, nodes * each);
}

/* ---- for later rooms ------------------------------------------------------------------------- */

/* Fields of cluster_lines(), without the prefix "cluster.". */
static const int line_field[] = {F_cluster_name,      F_cluster_nodes,         F_cluster_network,
                                 F_cluster_interface, F_cluster_nccl,          F_cluster_launcher,
                                 F_cluster_hosts,     F_cluster_cpus_per_task, F_cluster_partition,
                                 F_cluster_account,   F_cluster_qos,           F_cluster_time,
                                 F_cluster_modules,   F_cluster_container};
enum { LINES = sizeof line_field / sizeof *line_field, BEHIND = sizeof "cluster." - 1 };

char *cluster_lines(Config *c)
{
    Str s = {0};
    if (!c->cluster)
        return NULL;
    for (int i = 0; i < LINES; i++) {
        const int field = line_field[i];
        const FieldValue *v = &c->v[field];
        const char *name = field_row[field].path + BEHIND;
        if (field_row[field].type == FT_INT)
            str_print(&s, "%s%s=%" PRId64, s.n ? "\n" : "", name, v->i);
        else if (field_row[field].type != FT_LIST && v->s && *v->s)
            str_print(&s, "%s%s=%s", s.n ? "\n" : "", name, v->s);
        for (int k = 0; k < v->n; k++)
            str_print(&s, "%s%s=%s", s.n ? "\n" : "", name, v->list[k]);
    }
    return s.text;
}

char *cluster_value(const char *lines, const char *name, int k)
{
    const size_t n = strlen(name);
    for (const char *p = lines; p && *p; p += strcspn(p, "\n"), p += *p == '\n')
        if (!strncmp(p, name, n) && p[n] == '=' && !k--)
            return text_print("%.*s", (int)(strcspn(p, "\n") - n - 1), p + n + 1);
    return NULL;
}

/* Applies the rules of the field, because a room's text may have been edited. */
static bool is_good(int field, const char *value)
{
    const FieldRow *row = &field_row[field];
    FieldValue v = {0};
    const char *p = value;
    int64_t at;
    if (row->type == FT_INT)
        return !value_parse(FT_INT, &p, &v) && !*p && v.f >= row->lo && v.f <= row->hi;
    if (row->type == FT_CHOICE)
        return choice_find(field_choices(field), value, &at);
    for (int i = 0; i < DECODE_B; i++)
        if (text_row[i].field == field)
            return is_safe(i, value);
    return false;
}

char *cluster_fault(const char *lines)
{
    for (const char *p = lines; p && *p; p += strcspn(p, "\n"), p += *p == '\n') {
        char *line = text_print("%.*s", (int)strcspn(p, "\n"), p), *equal = strchr(line, '=');
        bool good = false;
        for (int i = 0; i < LINES && equal; i++) {
            const char *name = field_row[line_field[i]].path + BEHIND;
            if (strlen(name) == (size_t)(equal - line) && !strncmp(name, line, strlen(name)))
                good = is_good(line_field[i], equal + 1);
        }
        if (!good)
            return text_print("cluster: a line that no cluster has: %s", text_shown(line));
    }
    return lines && !cluster_value(lines, "nodes", 0) ? text_copy("cluster: no line nodes=N")
                                                      : NULL;
}
