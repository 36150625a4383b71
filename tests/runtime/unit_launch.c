/* unit_launch.c -- every launcher's environment, contradictions, hostile values, Slurm's lists. */
#define _GNU_SOURCE
#include "unit.h"
#include "../../runtime/base.h"
#include "../../runtime/ranks/launch.h"
#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *name, *env;      /* env: NAME=value words separated by ; */
    const char *error;           /* NULL: accepted; else text the message must hold */
    int rank, size, local_rank, local_size;
    const char *source, *host;
} Case;

#define TORCH(rank, size) "RANK=" #rank ";WORLD_SIZE=" #size
#define STEP(rank, size) "SLURM_PROCID=" #rank ";SLURM_STEP_NUM_TASKS=" #size
#define PET(node, nodes) "PET_NODE_RANK=" #node ";PET_NNODES=" #nodes ";PET_MASTER_ADDR=h0"
#define SKY(node, nodes) "SKYPILOT_NODE_RANK=" #node ";SKYPILOT_NUM_NODES=" #nodes \
    ";SKYPILOT_NODE_IPS=10.0.0.4\n10.0.0.2\n10.0.0.9"
#define OMPI(rank, size) "OMPI_COMM_WORLD_RANK=" #rank ";OMPI_COMM_WORLD_SIZE=" #size

static const Case cases[] = {
    { "nothing set", "HOME=/", NULL, 0, 1, 0, 1, "none", "" },
    { "torchrun", TORCH(5, 8) ";LOCAL_RANK=1;LOCAL_WORLD_SIZE=4;MASTER_ADDR=h0;MASTER_PORT=29500",
      NULL, 5, 8, 1, 4, "torchrun", "h0" },
    { "torchrun by hand, without local variables", TORCH(1, 2), NULL, 1, 2, -1, -1, "torchrun",
      "" },
    { "Open MPI", OMPI(3, 4) ";OMPI_COMM_WORLD_LOCAL_RANK=1;OMPI_COMM_WORLD_LOCAL_SIZE=2", NULL, 3,
      4, 1, 2, "Open MPI", "" },
    { "Hydra", "PMI_RANK=1;PMI_SIZE=3;MPI_LOCALRANKID=1;MPI_LOCALNRANKS=3", NULL, 1, 3, 1, 3,
      "Hydra (MPICH, Intel MPI)", "" },
    { "Hydra in port mode", "PMI_ID=2;PMI_SIZE=3", NULL, 2, 3, -1, -1, "Hydra (MPICH, Intel MPI)",
      "" },
    { "MVAPICH", "MV2_COMM_WORLD_RANK=0;MV2_COMM_WORLD_SIZE=2;MV2_COMM_WORLD_LOCAL_RANK=0;"
      "MV2_COMM_WORLD_LOCAL_SIZE=2", NULL, 0, 2, 0, 2, "MVAPICH", "" },
    { "srun", STEP(4, 5) ";SLURM_LOCALID=0;SLURM_NODEID=2;SLURM_STEP_TASKS_PER_NODE=2(x2),1;"
      "SLURM_STEP_NODELIST=n[08-10]", NULL, 4, 5, 0, 1, "Slurm", "n08" },
    { "sbatch script without srun", "SLURM_PROCID=0;SLURM_LOCALID=0;SLURM_NTASKS=8", NULL, 0, 1, 0,
      1, "none", "" },
    { "srun --mpi=pmi2 agrees with itself", STEP(1, 2) ";PMI_RANK=1;PMI_SIZE=2", NULL, 1, 2, -1, -1,
      "Hydra (MPICH, Intel MPI)", "" },
    { "torchrun under srun, one task a node", TORCH(9, 16) ";LOCAL_RANK=1;LOCAL_WORLD_SIZE=8;"
      STEP(1, 2) ";SLURM_NODEID=1;SLURM_STEP_TASKS_PER_NODE=1(x2)", NULL, 9, 16, 1, 8, "torchrun",
      "" },
    { "two sources, two sizes", TORCH(0, 2) ";" OMPI(0, 4), "rank 0 of 2, Open MPI says rank 0 of",
      0, 0, 0, 0, 0, 0 },
    { "two sources, two ranks", OMPI(1, 4) ";PMI_RANK=2;PMI_SIZE=4", "rank 1 of 4", 0, 0, 0, 0,
      0, 0 },
    { "srun with several tasks against torchrun", TORCH(0, 2) ";" STEP(0, 4)
      ";SLURM_NODEID=0;SLURM_STEP_TASKS_PER_NODE=4", "torchrun says rank 0 of 2, Slurm says", 0, 0,
      0, 0, 0, 0 },
    { "rank not below size", TORCH(2, 2), "RANK=2: want an integer from 0 to 1", 0, 0, 0, 0, 0, 0 },
    { "rank a word", TORCH(abc, 2), "RANK=abc:", 0, 0, 0, 0, 0, 0 },
    { "rank negative", TORCH(-1, 2), "RANK=-1:", 0, 0, 0, 0, 0, 0 },
    { "rank with a sign", TORCH(+1, 2), "RANK=+1:", 0, 0, 0, 0, 0, 0 },
    { "rank as a float", TORCH(1e0, 2), "RANK=1e0:", 0, 0, 0, 0, 0, 0 },
    { "rank empty", TORCH(, 2), "RANK=:", 0, 0, 0, 0, 0, 0 },
    { "size 0", TORCH(0, 0), "WORLD_SIZE=0:", 0, 0, 0, 0, 0, 0 },
    { "size 1e9", TORCH(0, 1000000000), "WORLD_SIZE=1000000000:", 0, 0, 0, 0, 0, 0 },
    { "size beyond 64 bits", TORCH(0, 18446744073709551617), "WORLD_SIZE=18446744073709551617:",
      0, 0, 0, 0, 0, 0 },
    { "a variable that does not exist", "DIECAST_PROT=29501",
      "DIECAST_PROT: no such variable, did you mean DIECAST_PORT; unset it", 0, 0, 0, 0, 0, 0 },
    { "a variable like none", "DIECAST_HOME=x", "DIECAST_HOME: no such variable; unset it", 0, 0, 0, 0,
      0, 0 },
    { "variables of run.sh and of the simulator", "DIECAST_CONFIG=x;DIECAST_SIM_SM=9.0", NULL, 0, 1, 0, 1,
      "none", "" },
    { "rank alone", "RANK=0", "set without WORLD_SIZE", 0, 0, 0, 0, 0, 0 },
    { "size alone", "WORLD_SIZE=2", "set without RANK", 0, 0, 0, 0, 0, 0 },
    { "local rank not below local size", TORCH(3, 4) ";LOCAL_RANK=2;LOCAL_WORLD_SIZE=2",
      "LOCAL_RANK=2: want an integer from 0 to 1", 0, 0, 0, 0, 0, 0 },
    { "local size above size", TORCH(0, 2) ";LOCAL_WORLD_SIZE=3", "LOCAL_WORLD_SIZE=3", 0, 0, 0, 0,
      0, 0 },
    { "Slurm lists that do not add up", STEP(0, 4) ";SLURM_STEP_TASKS_PER_NODE=2,1", "add up", 0, 0,
      0, 0, 0, 0 },
    { "Slurm lists of two lengths", STEP(0, 4) ";SLURM_STEP_TASKS_PER_NODE=2(x2);"
      "SLURM_STEP_NODELIST=n[1-3]", "other number of nodes", 0, 0, 0, 0, 0, 0 },
    { "Slurm local id beyond the node", STEP(2, 3) ";SLURM_NODEID=1;SLURM_LOCALID=1;"
      "SLURM_STEP_TASKS_PER_NODE=2,1", "SLURM_LOCALID=1", 0, 0, 0, 0, 0, 0 },
    { "endless Slurm task list", STEP(0, 4) ";SLURM_STEP_TASKS_PER_NODE=2(x99999999)", "more nodes",
      0, 0, 0, 0, 0, 0 },
    { "endless Slurm host list", STEP(0, 4) ";SLURM_STEP_NODELIST=n[1-999999999]", "more hosts", 0,
      0, 0, 0, 0, 0 },
    { "several nodes without a launcher", "NNODES=2;NODE_RANK=0;MASTER_ADDR=h0;MASTER_PORT=1",
      "NNODES=2: several nodes, but no launcher", 0, 0, 0, 0, 0, 0 },
    { "the second node without a launcher", "NODE_RANK=1", "NODE_RANK=1: several nodes", 0, 0, 0, 0,
      0, 0 },
    { "a number of nodes that is none", "NNODES=1:2", "NNODES=1:2: want an integer from 1", 0, 0, 0,
      0, 0, 0 },
    { "one node without a launcher", "NNODES=1;NODE_RANK=0;MASTER_ADDR=h0", NULL, 0, 1, 0, 1,
      "none", "h0" },
    { "several nodes with a launcher", "NNODES=2;NODE_RANK=1;" OMPI(1, 2), NULL, 1, 2, -1, -1,
      "Open MPI", "" },
    { "one rank on each node of Kubeflow Trainer", PET(1, 2) ";PET_NPROC_PER_NODE=1", NULL, 1, 2, 0, 1,
      "Kubeflow Trainer", "h0" },
    { "elastic bounds that are equal", PET(0, 2:2) ";PET_NPROC_PER_NODE=1", NULL, 0, 2, 0, 1,
      "Kubeflow Trainer", "h0" },
    { "an elastic run", PET(0, 2:4) ";PET_NPROC_PER_NODE=1", "PET_NNODES=2:4: want an integer from 1",
      0, 0, 0, 0, 0, 0 },
    { "several ranks on each node of Kubeflow Trainer", PET(1, 2) ";PET_NPROC_PER_NODE=4",
      "PET_NNODES=2: several nodes, but no launcher says which rank this is: start run.sh", 0, 0, 0,
      0, 0, 0 },
    { "as many ranks as GPUs", PET(1, 2) ";PET_NPROC_PER_NODE=auto", "PET_NNODES=2: several nodes", 0,
      0, 0, 0, 0, 0 },
    { "ranks of a node that are no number", PET(1, 2) ";PET_NPROC_PER_NODE=many",
      "PET_NPROC_PER_NODE=many: want", 0, 0, 0, 0, 0, 0 },
    { "one node of Kubeflow Trainer", PET(0, 1) ";PET_NPROC_PER_NODE=4", NULL, 0, 1, 0, 1, "none",
      "" },
    { "a node too many", PET(2, 2) ";PET_NPROC_PER_NODE=1",
      "PET_NODE_RANK=2: must be below PET_NNODES=2", 0, 0, 0, 0, 0, 0 },
    { "no number of this node", "PET_NNODES=2;PET_NPROC_PER_NODE=1", "PET_NNODES=2: several nodes", 0,
      0, 0, 0, 0, 0 },
    { "a number of this node alone", "PET_NODE_RANK=1", "PET_NODE_RANK=1: several nodes", 0, 0, 0, 0,
      0, 0 },
    { "a bad port of rank 0", PET(1, 2) ";PET_NPROC_PER_NODE=1;PET_MASTER_PORT=x",
      "PET_MASTER_PORT=x: want a port", 0, 0, 0, 0, 0, 0 },
    { "one GPU on each node of SkyPilot", SKY(1, 3) ";SKYPILOT_NUM_GPUS_PER_NODE=1", NULL, 1, 3, 0, 1,
      "SkyPilot", "10.0.0.4" },
    { "several GPUs on each node of SkyPilot", SKY(1, 3) ";SKYPILOT_NUM_GPUS_PER_NODE=8",
      "SKYPILOT_NUM_NODES=3: several nodes", 0, 0, 0, 0, 0, 0 },
    { "one of the GPUs of one node", SKY(0, 1) ";SKYPILOT_NUM_GPUS_PER_NODE=8", NULL, 0, 1, 0, 1,
      "none", "" },
    { "two engines agree, and the user", PET(1, 3) ";PET_NPROC_PER_NODE=1;MASTER_ADDR=h0;NNODES=3;"
      SKY(1, 3), NULL, 1, 3, 0, 1, "Kubeflow Trainer", "h0" },
    { "two engines, two numbers of nodes", PET(1, 3) ";" SKY(1, 4),
      "PET_NNODES=3, but SKYPILOT_NUM_NODES=4: they must be equal; unset the one that is wrong", 0, 0,
      0, 0, 0, 0 },
    { "two engines, two numbers of this node", PET(1, 3) ";" SKY(2, 3),
      "PET_NODE_RANK=1, but SKYPILOT_NODE_RANK=2", 0, 0, 0, 0, 0, 0 },
    { "another number of nodes than the user's", "NNODES=2;" PET(1, 3), "NNODES=2, but PET_NNODES=3",
      0, 0, 0, 0, 0, 0 },
    { "another address than the user's", "MASTER_ADDR=h1;" PET(1, 3),
      "MASTER_ADDR=h1, but PET_MASTER_ADDR=h0", 0, 0, 0, 0, 0, 0 },
    { "another port than the user's", "MASTER_PORT=5;PET_MASTER_PORT=6;" PET(1, 3),
      "MASTER_PORT=5, but PET_MASTER_PORT=6", 0, 0, 0, 0, 0, 0 },
    { "torchrun under Kubeflow Trainer", PET(1, 2) ";PET_NPROC_PER_NODE=4;" TORCH(5, 8)
      ";LOCAL_RANK=1;LOCAL_WORLD_SIZE=4;MASTER_ADDR=h0", NULL, 5, 8, 1, 4, "torchrun", "h0" },
    { "local rank without a launcher", "LOCAL_RANK=1", "LOCAL_RANK=1, but launcher none says 0", 0,
      0, 0, 0, 0, 0 },
    { "two sources, two local ranks", TORCH(1, 2) ";LOCAL_RANK=0;" OMPI(1, 2)
      ";OMPI_COMM_WORLD_LOCAL_RANK=1", "torchrun says local rank 0, Open MPI says 1", 0, 0, 0, 0, 0,
      0 },
    { "two sources, two numbers of local ranks", TORCH(1, 2) ";LOCAL_WORLD_SIZE=1;" OMPI(1, 2)
      ";OMPI_COMM_WORLD_LOCAL_SIZE=2", "torchrun says 1 rank on this node, Open MPI says 2", 0, 0,
      0, 0, 0, 0 },
    { "a local rank with a launcher's", "LOCAL_RANK=0;" OMPI(1, 2)
      ";OMPI_COMM_WORLD_LOCAL_RANK=1", "LOCAL_RANK=0, but launcher Open MPI says 1", 0, 0, 0, 0, 0,
      0 },
    { "a rank with a launcher's", "RANK=0;" OMPI(1, 2), "RANK=0, but launcher Open MPI says 1", 0,
      0, 0, 0, 0, 0 },
    { "a size with a launcher's", "WORLD_SIZE=4;" OMPI(1, 2), "WORLD_SIZE=4, but launcher", 0, 0,
      0, 0, 0, 0 },
    { "the same with a launcher's", "RANK=1;" OMPI(1, 2), NULL, 1, 2, -1, -1, "Open MPI", "" },
    { "by hand, and the launcher knows the node", TORCH(1, 2) ";" OMPI(1, 2)
      ";OMPI_COMM_WORLD_LOCAL_RANK=1;OMPI_COMM_WORLD_LOCAL_SIZE=2", NULL, 1, 2, 1, 2, "torchrun",
      "" },
    { "restart count a word", TORCH(0, 1) ";TORCHELASTIC_RESTART_COUNT=x",
      "TORCHELASTIC_RESTART_COUNT=x", 0, 0, 0, 0, 0, 0 },
};

/* env as an array; the words live in `copy`. */
static void split(char *copy, char **env, int max)
{
    int n = 0;
    for (char *word; n < max - 1 && (word = strsep(&copy, ";"));)
        env[n++] = word;
    env[n] = NULL;
}

static void run_case(const Case *c)
{
    char *env[32], *copy = format("%s", c->env);
    Launch l;
    split(copy, env, 32);
    char *error = launch_resolve(env, &l);
    char *name = format("launch: %s", c->name);
    if (c->error || error)
        check(c->error && error && strstr(error, c->error), name, "want \"%s\", got \"%s\"",
              c->error ? c->error : "no error", error ? error : "no error");
    else
        check(l.rank == c->rank && l.size == c->size && l.local_rank == c->local_rank
              && l.local_size == c->local_size && strcmp(l.source, c->source) == 0
              && strcmp(l.first_host, c->host) == 0, name, "%s %d/%d local %d/%d host %s", l.source,
              l.rank, l.size, l.local_rank, l.local_size, l.first_host);
    free(error);
    free(name);
    free(copy);
}

static void join(void *arg, const char *name)
{
    char *text = arg;
    if (strlen(text) + strlen(name) < 200)
        strcat(strcat(text, *text ? " " : ""), name);
}

/* want NULL: refused. */
static void hosts(const char *list, int max, const char *want)
{
    char got[256] = "";
    int n;
    char *error = launch_expand_hosts(list, max, join, got, &n);
    char *name = format("host list %.40s", list);
    check(want ? !error && strcmp(got, want) == 0 : error && n <= max, name, "got \"%s\", %s", got,
          error ? error : "accepted");
    free(error);
    free(name);
}

static void counts(const char *list, const char *want)
{
    int c[8], n;
    char got[64] = "";
    char *error = launch_expand_counts(list, 8, c, &n);
    for (int i = 0; !error && i < n; i++)
        sprintf(got + strlen(got), "%s%d", i ? " " : "", c[i]);
    char *name = format("task list %.40s", list);
    check(want ? !error && strcmp(got, want) == 0 : error != NULL, name, "got \"%s\", %s", got,
          error ? error : "accepted");
    free(error);
    free(name);
}

void test_launch(void)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        run_case(&cases[i]);
    hosts("login", 9, "login");
    hosts("n[01-03,7],login", 9, "n01 n02 n03 n7 login");
    hosts("rack[1-2]n[9-10].local", 9, "rack1n9.local rack1n10.local rack2n9.local rack2n10.local");
    hosts("n[099-101]", 9, "n099 n100 n101");
    static const char *const bad[] = { "", ",", "a,", "n[", "n[]", "n[1", "n[1-", "n[2-1]",
        "n[[1]]",
        "n[1]]", "n]", "n[a]", "n[1-99999999999]", "n[1-999999999]", "a b", "../x", "n[1,]",
        "[1][2][3][4][5][6]", "n[1-3][1-4]" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        hosts(bad[i], 9, NULL);
    counts("4", "4");
    counts("2(x3),1", "2 2 2 1");
    static const char *const wrong[] = { "", "0", "2(x0)", "2(x", "2(3)", "x", "2,", "-1", "2(x9)",
        "2(x99999999)", "99999999999", "2(x3)1" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        counts(wrong[i], NULL);
    char *big = malloc(6000);
    memset(big, '\x1b', 5999);
    big[5999] = '\0';
    memcpy(big, "RANK=", 5);
    char *env[] = { big, (char[]){ "WORLD_SIZE=4" }, NULL };
    Launch l;
    char *error = launch_resolve(env, &l);
    check(error && strlen(error) < 200 && !strchr(error, '\x1b'), "launch: 4 KB of escape codes",
          "%s", error ? error : "accepted");
    free(error);
    free(big);
    char *extra[] = { (char[]){ "RANK=2" }, (char[]){ "WORLD_SIZE=2" }, NULL };
    error = launch_resolve(extra, &l);
    check(error && l.extra && l.rank == 2 && l.size == 2, "launch: a rank too many keeps its number",
          "rank %d of %d: %s", l.rank, l.size, error ? error : "accepted");
    free(error);
    char *ports[] = { (char[]){ "PET_MASTER_PORT=7" }, (char[]){ "MASTER_PORT=6" }, NULL };
    int port = 0;
    bool agent;
    error = launch_port(ports, &port, &agent);
    check(!error && port == 6, "launch: MASTER_PORT is asked before an engine's", "%d", port);
    ports[1] = NULL;
    error = launch_port(ports, &port, &agent);
    check(!error && port == 7, "launch: the port of an engine", "%d", port);
    char *mixed[] = { (char[]){ "ACCELERATE_MIXED_PRECISION=bf16" }, NULL };
    check(!launch_precision_conflict(mixed, "bf16") && !launch_precision_conflict(mixed + 1, "bf16")
          && launch_precision_conflict(mixed, "fp32"), "accelerate's precision", "wrong verdict");
    check(launch_precision_refused("fp8", "sm_90") && launch_precision_refused("fp16", "cpu_v4") &&
          !launch_precision_refused("fp16", "sm_80") && !launch_precision_refused("bf16", "cpu"),
          "a precision that no program of a target has", "wrong verdict");
}
