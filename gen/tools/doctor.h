/* doctor.h -- what the parts of `gen doctor` share: findings, and who cannot do without what.
 *
 * Keeps: a fact is found once and told twice, as a line and as JSON; nothing outside TMPDIR is written. */
#ifndef DOCTOR_H
#define DOCTOR_H

#include "gen/config/config.h"
#include "gen/config/toolchain.h"

#include <cjson/cJSON.h>

enum { DOCTOR_GPUS = 64 };       /* of a machine */

typedef enum { DOCTOR_OK, DOCTOR_WARNING, DOCTOR_MISSING } DoctorState;

typedef struct {
    const char *section;
    DoctorState state;
    const char *what, *text;
    const char *todo;            /* what to do about it; NULL: nothing */
    const char *package;         /* that brings it; NULL: none does */
    unsigned blocks;             /* NEED_... that it stands in the way of */
    cJSON *facts;                /* an object */
} Finding;

/* What a recipe asks of the machine. */
typedef struct {
    const char *recipe, *name;   /* as typed; of out/NAME */
    unsigned wants;              /* NEED_... */
    const Target *target;
    int ranks, nodes;            /* nodes: of its cluster; 0: it has none */
    const char *precision;
    int64_t rank_bytes;          /* planned a rank; 0: not known */
    int64_t kept_bytes;          /* of a checkpoint */
} Wanted;

typedef struct {
    const char *root;            /* before /proc, /sys and /etc: "" but in tests */
    char *const *env;
    const Wanted *wanted;        /* NULL: no recipe */
    const char *section;         /* of findings from here on */
    int n, cap;
    Finding *list;
    /* what later parts ask of earlier ones */
    int64_t memory, memory_free; /* bytes, of this machine or the container */
    int cpus;
    const char *cpu_flags;       /* " fpu vme ... " */
    const char *cc[8], *mpicc[8], *mpirun[8];     /* words, NULL behind them; [0] NULL: not there */
    const char *cuda, *nvcc;     /* the toolkit's folder; NULL: none */
    const char *nvcc_version;
    bool nccl;                   /* can be linked */
    int ngpus;                   /* that programs see */
    bool gpus_run;               /* the driver answers */
    int64_t gpu_memory;          /* bytes of the smallest of them */
    int capability[DOCTOR_GPUS];          /* of each, times 10 */
    int sees[DOCTOR_GPUS];                  /* its number on the machine */
} Doctor;

/* doctor_findings.c. The text is one line. */
Finding *doctor_add(Doctor *d, DoctorState state, const char *what, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void doctor_number(Finding *f, const char *name, double value);          /* facts */
void doctor_fact(Finding *f, const char *name, const char *value);
/* What stands in the way of what is wanted, or would of a program if none is. */
bool doctor_wants(const Doctor *d, unsigned blocks);
const char *doctor_env(const Doctor *d, const char *name);              /* NULL: not set */
int doctor_local_ranks(const Doctor *d);     /* of the recipe, on this machine */
/* A small file of /proc, /sys or /etc below root, without the newline at its end; NULL: there is none. */
char *doctor_read(const Doctor *d, const char *path);
/* Names in such a folder, sorted; how many. */
int doctor_names(const Doctor *d, const char *path, const char **name, int max);
/* First number with points in a text, "12.2.0"; "" without. */
char *doctor_version(const char *text);
double doctor_scale(const Doctor *d);        /* DIECAST_TIMEOUT_SCALE: all times are multiplied */

/* doctor_system.c: distribution, kernel, CPU, memory; shared memory, limits, disks. */
void doctor_system(Doctor *d);
void doctor_limits(Doctor *d);
/* doctor_tools.c: compilers, libraries. */
void doctor_compilers(Doctor *d);
void doctor_libraries(Doctor *d);
/* doctor_gpus.c: what the driver says of GPUs and of what joins them. */
void doctor_gpus(Doctor *d);
/* doctor_network.c: InfiniBand, interfaces, the port, what launchers have set. */
void doctor_network(Doctor *d);
void doctor_launch(Doctor *d);
typedef struct { const char *name; bool up, loopback; int family; } DoctorInterface;      /* family: AF_... */
/* The first that NCCL takes, by its rule: what NCCL_SOCKET_IFNAME names; else ib*, all but docker, lo and virbr*, at
 * last these. -1: none. */
int doctor_nccl_interface(const DoctorInterface *list, int n, const char *ifname);
/* doctor_cluster.c: what the recipe's cluster wants of a node. */
void doctor_cluster(Doctor *d, const Config *c);
/* doctor_start.c: small programs, built and run here: MPI; products, memory, copies and NCCL of GPUs. */
void doctor_start(Doctor *d);

/* doctor_gpus.c, for its tests: the GPUs of the machine that a program sees by CUDA_VISIBLE_DEVICES; how many. uuid: of
 * the n GPUs there. */
int doctor_visible(const char *text, const char *const *uuid, int n, int *sees, int max);
/* link[a * n + b]: how far apart, 0 for the nearest. The k of n GPUs whose worst pair is nearest, then whose sum is
 * least, the first of equals; in `best`. n at most 16. */
void doctor_best_set(const int *link, int n, int k, int *best);

#endif
