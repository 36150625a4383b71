/* doctor_cluster.c -- gen doctor: this machine against the recipe's cluster.
 *
 * In:    the cluster.* fields and card, earlier findings.
 * Out:   findings; none if the recipe has neither cluster nor card. */
#define _GNU_SOURCE
#include "gen/tools/doctor.h"
#include "gen/tools/process.h"

#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

static void find_launcher(Doctor *d, const Config *c)
{
    static const char *const program[][2] = {{"slurm", "srun"},
                                             {"slurm", "sbatch"},
                                             {"torchrun", "torchrun"}};
    const char *launcher = c->v[F_cluster_launcher].s;
    for (size_t i = 0; i < sizeof program / sizeof *program; i++)
        if (!strcmp(program[i][0], launcher) && !program_find(program[i][1])) {
            Finding *f = doctor_add(d, DOCTOR_MISSING, "launcher", "%s: no %s on PATH", launcher,
                                    program[i][1]);
            f->todo = "look on a node of the cluster, or set cluster.launcher";
            f->blocks = NEED_ALL_RUN;
            return;
        }
    if (!strcmp(launcher, "mpirun") && !d->mpirun[0] && !program_find("mpirun"))
        doctor_add(d, DOCTOR_MISSING, "launcher", "mpirun: not on PATH")->blocks = NEED_ALL_RUN;
    else
        doctor_add(d, DOCTOR_OK, "launcher", "%s", launcher);
}

/* Cards of one architecture are distinguished by their memory. */
static void find_cards(Doctor *d, const Config *c)
{
    const Card *card = c->cluster ? card_find(c->v[F_cluster_card].s) : config_card(c);
    const int each = (int)(c->cluster ? c->v[F_cluster_gpus_per_node].i : c->v[F_gpus].i);
    if (!card)
        return;
    const double gib =
        c->cluster && c->v[F_cluster_memory_gib].f > 0 ? c->v[F_cluster_memory_gib].f : card->gib;
    const double have = (double)d->gpu_memory / (1 << 30);
    const int capability = target_find(card->target)->capability;
    Finding *f;
    if (!d->ngpus)
        f = doctor_add(d, DOCTOR_MISSING, "card", "%d x %s a node, here is no GPU", each,
                       card->name);
    else if (d->capability[0] != capability)
        f = doctor_add(d, DOCTOR_MISSING, "card", "%s is %s, the first GPU here sm_%d", card->name,
                       card->target, d->capability[0]);
    else if (d->gpu_memory && have < 0.98 * gib)
        f = doctor_add(d, DOCTOR_MISSING, "card",
                       "%s with %.4g GiB, the smallest GPU here has %.4g", card->name, gib, have);
    else if (c->cluster && d->ngpus != each)
        f = doctor_add(d, DOCTOR_WARNING, "card", "%d x %s a node, here are %d", each, card->name,
                       d->ngpus);
    else
        f = doctor_add(d, DOCTOR_OK, "card", "%d x %s", each, card->name);
    f->todo = f->state == DOCTOR_OK ? NULL
              : c->cluster
                  ? "cluster.card and cluster.gpus_per_node say what a node has; or is this none?"
                  : "run it where that card is, or set card to this machine's (gen list cards)";
    f->blocks = f->state == DOCTOR_MISSING ? NEED_CUDA_RUN : 0;
}

static void find_interface(Doctor *d, const Config *c)
{
    const char *name = c->v[F_cluster_interface].s, *all[256];
    const int n = doctor_names(d, "/sys/class/net", all, 256);
    bool there = false;
    Str s = {0};
    for (int i = 0; i < n; i++) {
        there = there || !strcmp(all[i], name);
        str_print(&s, "%s%s", i ? ", " : "", all[i]);
    }
    if (!*name)
        return;
    const char *state = doctor_read(d, text_print("/sys/class/net/%s/operstate", name));
    Finding *f = !there
                     ? doctor_add(d, DOCTOR_MISSING, "interface",
                                  "%s: none of that name; there are: %s", name, n ? s.text : "none")
                 : state && !strcmp(state, "down")
                     ? doctor_add(d, DOCTOR_MISSING, "interface", "%s is down", name)
                     : doctor_add(d, DOCTOR_OK, "interface", "%s", name);
    f->todo = "cluster.interface says which";
    f->blocks = f->state == DOCTOR_MISSING ? NEED_MPI_RUN | NEED_NCCL_RUN : 0;
    if (!strcmp(c->v[F_cluster_network].s, "infiniband") &&
        !doctor_names(d, "/sys/class/infiniband", all, 256))
        doctor_add(d, DOCTOR_WARNING, "InfiniBand", "no adapter here, the cluster has it")->todo =
            "cluster.network says what joins the nodes";
}

/* Checks the space for a checkpoint, the next one while it is written, and further files. */
static void find_scratch(Doctor *d, const Config *c)
{
    const char *path = c->v[F_cluster_scratch].s;
    struct statvfs s;
    if (!*path)
        return;
    const int64_t want = 2 * d->wanted->kept_bytes;
    Finding *f;
    if (statvfs(path, &s))
        f = doctor_add(d, DOCTOR_MISSING, "scratch", "%s: there is no such folder", path);
    else if (access(path, W_OK))
        f = doctor_add(d, DOCTOR_MISSING, "scratch", "%s: may not be written to", path);
    else if ((int64_t)(s.f_bavail * s.f_frsize) < want)
        f = doctor_add(d, DOCTOR_MISSING, "scratch", "%s: %s left, two checkpoints are %s", path,
                       text_bytes((int64_t)(s.f_bavail * s.f_frsize)), text_bytes(want));
    else
        f = doctor_add(d, DOCTOR_OK, "scratch", "%s: %s left", path,
                       text_bytes((int64_t)(s.f_bavail * s.f_frsize)));
    f->todo = "cluster.scratch says where run folders go; --out goes before it";
    f->blocks = f->state == DOCTOR_MISSING ? NEED_ALL_RUN : 0;
}

static void find_host(Doctor *d, const Config *c)
{
    const FieldValue *hosts = &c->v[F_cluster_hosts];
    char name[256] = "";
    bool here = false;
    gethostname(name, sizeof name - 1);
    const size_t n = strcspn(name, ".");
    for (int i = 0; i < hosts->n; i++)
        here = here || !strcmp(hosts->list[i], name) ||
               (strcspn(hosts->list[i], ".") == n && !strncmp(hosts->list[i], name, n));
    if (hosts->n && !here)
        doctor_add(d, DOCTOR_WARNING, "host", "%s is none of cluster.hosts", name)->todo =
            "run.sh then needs --node-rank and --master-addr";
    else if (hosts->n)
        doctor_add(d, DOCTOR_OK, "host", "%s", name);
}

void doctor_cluster(Doctor *d, const Config *c)
{
    if (c && !c->cluster)
        find_cards(d, c);
    if (!c || !c->cluster)
        return;
    find_launcher(d, c);
    find_cards(d, c);
    find_interface(d, c);
    find_host(d, c);
    find_scratch(d, c);
}
