/* doctor.h -- findings of `gen doctor`, and the requirements of a recipe.
 *
 * Keeps: each fact is determined once and reported as a line and as JSON; nothing is written
 *        outside TMPDIR. */
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
    const char *todo;            /* remedy; NULL: none */
    const char *package;         /* package that provides it; NULL: none */
    unsigned blocks;             /* NEED_... that fail because of it */
    cJSON *facts;                /* an object */
} Finding;

/* Requirements of a recipe. */
typedef struct {
    const Config *config;
    /* a remedy if a rank has only `bytes` of memory */
    const char *(*remedy)(const Config *c, int64_t bytes);
    const char *recipe, *name;   /* as typed; of out/NAME */
    unsigned wants;              /* NEED_... */
    const Target *target;
    int ranks, nodes;            /* nodes of its cluster; 0: no cluster */
    const char *precision;
    int64_t rank_bytes;          /* planned bytes of a rank; 0: unknown */
    int64_t kept_bytes;          /* bytes of a checkpoint */
} Wanted;

typedef struct {
    const char *root;            /* prefix of /proc, /sys and /etc: "" except in tests */
    char *const *env;
    const Wanted *wanted;        /* NULL: no recipe */
    const char *section;         /* section of new findings */
    int n, cap;
    Finding *list;
    /* results that later parts use */
    int64_t memory, memory_free; /* bytes, of this machine or the container */
    int cpus;
    const char *cpu_flags;       /* " fpu vme ... " */
    const char *cc[8], *mpicc[8], *mpirun[8];     /* words, NULL-terminated; [0] NULL: not found */
    const char *cuda, *nvcc;     /* folder of the toolkit; NULL: none */
    const char *nvcc_version;
    bool nccl;                   /* can be linked */
    int ngpus;                   /* GPUs visible to programs */
    bool gpus_run;               /* the driver works */
    int64_t gpu_memory;          /* bytes of the smallest visible GPU */
    int capability[DOCTOR_GPUS]; /* compute capability of each, times 10 */
    int sees[DOCTOR_GPUS];       /* index of each on the machine */
} Doctor;

/* doctor_findings.c: adds a finding; the text is one line. */
Finding *doctor_add(Doctor *d, DoctorState state, const char *what, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
/* Add a fact for JSON. */
void doctor_number(Finding *f, const char *name, double value);
void doctor_fact(Finding *f, const char *name, const char *value);
/* True if the recipe needs one of these NEED_..., or without a recipe, if any program does. */
bool doctor_wants(const Doctor *d, unsigned blocks);
const char *doctor_env(const Doctor *d, const char *name);              /* NULL: not set */
int doctor_local_ranks(const Doctor *d);     /* of the recipe, on this machine */
/* Content of a small file of /proc, /sys or /etc below root, without the final newline; NULL: no
 * such file. */
char *doctor_read(const Doctor *d, const char *path);
/* Stores the sorted names in such a folder; returns their number. */
int doctor_names(const Doctor *d, const char *path, const char **name, int max);
/* First dotted number in a text, such as "12.2.0"; "": none. */
char *doctor_version(const char *text);
double doctor_scale(const Doctor *d);        /* DIECAST_TIMEOUT_SCALE, a factor of all timeouts */

/* doctor_system.c: distribution, kernel, CPU, memory; shared memory, limits, disks. */
void doctor_system(Doctor *d);
/* Bytes of memory of this machine, or of the container; *left, unless NULL: of these, free. */
int64_t doctor_memory(const Doctor *d, int64_t *left);
void doctor_limits(Doctor *d);
/* doctor_tools.c: compilers, libraries. */
void doctor_compilers(Doctor *d);
void doctor_libraries(Doctor *d);
/* doctor_gpus.c: driver, GPUs and their links. */
void doctor_gpus(Doctor *d);
/* doctor_network.c: InfiniBand, interfaces, the port; launcher variables. */
void doctor_network(Doctor *d);
void doctor_launch(Doctor *d);
/* family: AF_... */
typedef struct { const char *name; bool up, loopback; int family; } DoctorInterface;
/* Index of the interface that NCCL chooses, by its rule: the first named by NCCL_SOCKET_IFNAME;
 * else the first of ib*, then of all but docker, lo and virbr*, then of these. -1: none. */
int doctor_nccl_interface(const DoctorInterface *list, int n, const char *ifname);
/* doctor_cluster.c: requirements of the recipe's cluster. */
void doctor_cluster(Doctor *d, const Config *c);
/* doctor_start.c: builds and runs small programs: MPI; products, memory, copies and NCCL on
 * GPUs. */
void doctor_start(Doctor *d);

/* doctor_gpus.c: stores the indices of the GPUs that are visible by a value of
 * CUDA_VISIBLE_DEVICES; returns their number. uuid: of the machine's n GPUs. */
int doctor_visible(const char *text, const char *const *uuid, int n, int *sees, int max);

#endif
