/* doctor_start.c -- gen doctor: small test programs: OpenMP, two MPI ranks; products, memory,
 * copies and NCCL of the GPUs.
 *
 * In:    templates/doctor, the compilers that were found.
 * Out:   findings.
 * Keeps: programs are built in TMPDIR and removed when gen ends; those that hang are killed. */
#define _GNU_SOURCE
#include "gen/tools/doctor.h"
#include "gen/tools/process.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const double start_seconds = 10, build_seconds = 120, gpu_seconds = 120;

enum { WORDS = 64 + 2 * DOCTOR_GPUS };

typedef struct { const char *word[WORDS]; int n; } Command;

static void add(Command *c, const char *word)
{
    if (c->n < WORDS - 1)
        c->word[c->n++] = word;
}

static void add_all(Command *c, const char *const *word)
{
    for (int i = 0; word[i]; i++)
        add(c, word[i]);
}

static Ended run(const Doctor *d, const Command *c, double seconds)
{
    return process_run((char *const *)c->word, NULL, seconds * doctor_scale(d));
}

/* First line that reports an error. */
static char *outcome(const Ended *e, const char *late)
{
    const char *at = strstr(e->text, "rror");
    while (at && at > e->text && at[-1] != '\n')
        at--;
    at = at ? at : e->text + strspn(e->text, " \n");
    return e->late  ? text_copy(late)
           : *at    ? text_print("%.*s", (int)strcspn(at, "\r\n"), at)
                    : text_print("it ends with %d", e->code);
}

static Finding *bad(Doctor *d, const char *what, unsigned blocks, const char *text)
{
    Finding *f = doctor_add(d, DOCTOR_MISSING, what, "%s", text);
    f->blocks = blocks;
    return f;
}

/* ---- one process ---- */

static void try_openmp(Doctor *d)
{
    Command c = {.n = 0};
    if (!d->cc[0] || !doctor_wants(d, NEED_CPU_RUN))
        return;
    add(&c, text_print("%s/openmp", scratch_folder()));
    Ended e = run(d, &c, start_seconds);
    if (e.code || e.late)
        bad(d, "OpenMP", NEED_CPU_RUN,
            text_print("a small program does not run: %s", outcome(&e, "it does not end")))
            ->todo = "install libgomp1, look at LD_LIBRARY_PATH";
    else
        doctor_add(d, DOCTOR_OK, "OpenMP", "a small program, built and run");
}

/* ---- MPI ---- */

static void try_mpi(Doctor *d)
{
    Command c = {.n = 0};
    const char *program = text_print("%s/mpi", scratch_folder());
    if (!d->mpicc[0] || !d->mpirun[0] || !doctor_wants(d, NEED_MPI_RUN))
        return;
    add_all(&c, d->mpicc);
    add(&c, "-o");
    add(&c, program);
    add(&c, text_print("%s/templates/doctor/mpi.c", gen_root()));
    Ended e = run(d, &c, build_seconds);
    if (e.code || e.late) {
        bad(d, "MPI", NEED_MPI_BUILD | NEED_MPI_RUN,
            text_print("%s compiles no program: %s", d->mpicc[0], outcome(&e, "no answer")));
        return;
    }
    c.n = 0;
    memset(c.word, 0, sizeof c.word);
    add_all(&c, d->mpirun);
    add(&c, "--version");
    e = run(d, &c, start_seconds);
    c.word[--c.n] = NULL;
    add(&c, "-n");
    add(&c, "2");
    if (strstr(e.text, "Open MPI") || strstr(e.text, "OpenRTE")) {  /* as in run.sh */
        add(&c, "--bind-to");
        add(&c, "none");
        add(&c, "--oversubscribe");
        if (!getuid())
            add(&c, "--allow-run-as-root");
    }
    add(&c, program);
    e = run(d, &c, start_seconds);
    const char *line = strstr(e.text, "mpi ok 2 ");
    if (line && !e.code && !e.late)
        doctor_add(d, DOCTOR_OK, "MPI", "two ranks met and summed: %.*s",
                   (int)strcspn(line + 9, "\r\n"), line + 9);
    else
        bad(d, "MPI", NEED_MPI_RUN,
            text_print("two ranks do not connect: %s", outcome(&e, "they do not end")))
            ->todo = "MPICC and MPIRUN of one and the same MPI; a host name that resolves";
}

/* ---- GPUs ---- */

/* Adds findings from lines `WHAT GPU ok|bad TEXT`; answers[i]: number of results of GPU i. */
static void read_answers(Doctor *d, const char *text, int *answers)
{
    static const struct {
        const char *what, *name;
        unsigned blocks;
        const char *todo;
    } row[] = {{"device", "device", NEED_CUDA_RUN, "nvidia-smi says what is wrong with it"},
               {"product", "product", NEED_CUDA_RUN,
                "cuBLASLt of this toolkit and the driver do not go together"},
               {"memory", "memory", NEED_CUDA_RUN,
                "take another GPU; its memory may be damaged: nvidia-smi -q -d ECC"},
               {"copy", "copy", NEED_NCCL_RUN,
                "NCCL_P2P_DISABLE=1; turn ACS and the IOMMU off in the BIOS"},
               {"nccl", "NCCL", NEED_NCCL_RUN,
                "NCCL_DEBUG=INFO says more; /dev/shm, NCCL_SOCKET_IFNAME"}};
    char *all = text_copy(text), *save = NULL;
    for (char *line = strtok_r(all, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char what[16], gpu[40], state[8];
        int at = 0;
        if (sscanf(line, "%15s %39s %7s %n", what, gpu, state, &at) != 3 || !at)
            continue;
        for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
            if (strcmp(row[i].what, what))
                continue;
            bool good = !strcmp(state, "ok");
            int to, from = atoi(gpu);
            char *name = from < 0 || from >= d->ngpus ? gpu : text_print("%d", d->sees[from]);
            if (sscanf(gpu, "%d-%d", &from, &to) == 2 && from < d->ngpus && to < d->ngpus &&
                from >= 0 && to >= 0)
                name = text_print("%d to %d", d->sees[from], d->sees[to]);
            answers[i]++;
            if (good && !strcmp(what, "copy"))
                continue;                    /* one finding for all of them */
            Finding *f = doctor_add(d, good ? DOCTOR_OK : DOCTOR_MISSING,
                                    text_print("%s %s", row[i].name, name), "%s", line + at);
            f->blocks = good ? 0 : row[i].blocks;
            f->todo = row[i].todo;
        }
    }
}

static void try_gpus(Doctor *d)
{
    const bool nccl = d->nccl && d->ngpus > 1;
    const char *program = text_print("%s/gpu", scratch_folder());
    const int ranks = d->wanted ? doctor_local_ranks(d) : d->ngpus,
              gpus = ranks < d->ngpus ? ranks : d->ngpus;
    Command c = {.n = 0};
    int answers[5] = {0};
    if (!d->nvcc || !d->cuda || !gpus || !d->gpus_run || !doctor_wants(d, NEED_CUDA_RUN))
        return;
    add(&c, d->nvcc);
    add(&c, "-std=c++20");
    add(&c, "-O3");
    for (int i = 0; i < gpus; i++) {
        bool seen = false;
        for (int k = 0; k < i; k++)
            seen |= d->capability[k] == d->capability[i];
        if (!seen) {
            add(&c, "-gencode");
            add(&c, text_print("arch=compute_%d,code=sm_%d", d->capability[i], d->capability[i]));
        }
    }
    add(&c, text_print("-DDOCTOR_NCCL=%d", nccl));
    add(&c, "-o");
    add(&c, program);
    add(&c, text_print("%s/templates/doctor/gpu.cu", gen_root()));
    add(&c, text_print("-L%s/lib64", d->cuda));
    add(&c, "-lcublasLt");
    add(&c, "-lcudart");
    if (nccl)
        add(&c, "-lnccl");
    add(&c, "-Xlinker");
    add(&c, "-rpath");
    add(&c, "-Xlinker");
    add(&c, text_print("%s/lib64", d->cuda));
    Ended e = run(d, &c, build_seconds);
    if (e.code || e.late) {
        bad(d, "GPU program", NEED_CUDA_BUILD | NEED_CUDA_RUN,
            text_print("does not build: %s", outcome(&e, "no answer")));
        return;
    }
    c.n = 0;
    memset(c.word, 0, sizeof c.word);
    add(&c, program);
    add(&c, text_print("%d", gpus));
    e = run(d, &c, gpu_seconds);
    read_answers(d, e.text, answers);
    if (answers[3] == gpus * (gpus - 1) && gpus > 1)
        doctor_add(d, DOCTOR_OK, "copies", "each of %d GPUs to each other, every value compared",
                   gpus);
    for (int i = 0; i < 3; i++)
        if (answers[i] < gpus || e.late || e.code) {
            bad(d, "GPU program", NEED_CUDA_RUN,
                text_print("does not answer for all GPUs: %s", outcome(&e, "it does not end")))
                ->todo = "nvidia-smi";
            return;
        }
    if (nccl && answers[4] < gpus)
        bad(d, "NCCL", NEED_NCCL_RUN, "does not answer for all GPUs")->todo = "NCCL_DEBUG=INFO";
}

void doctor_start(Doctor *d)
{
    try_openmp(d);
    try_mpi(d);
    try_gpus(d);
}
