/* toolchain.h -- build and run-time dependencies of gen and its programs: rows of
 * runtime/toolchain.def, by the component that needs them. */
#ifndef GEN_TOOLCHAIN_H
#define GEN_TOOLCHAIN_H

#include <cjson/cJSON.h>

#include "gen/config/target.h"

/* Who cannot do without something: programs, while they are built or run. */
enum {
    NEED_GEN = 1, /* gen itself, while it is built */
    NEED_CPU_BUILD = 2,
    NEED_CPU_RUN = 4, /* of a CPU target */
    NEED_MODEL_BUILD = 8,
    NEED_MODEL_RUN = 16, /* with a model: tokenizers */
    NEED_DNNL_BUILD = 32,
    NEED_DNNL_RUN = 64, /* with a model, on a CPU */
    NEED_MPI_BUILD = 128,
    NEED_MPI_RUN = 256, /* on a CPU, several ranks */
    NEED_CUDA_BUILD = 512,
    NEED_CUDA_RUN = 1024,
    NEED_NCCL_BUILD = 2048,
    NEED_NCCL_RUN = 4096, /* on GPUs, several ranks */
    NEED_ALL_RUN = 8192,   /* every program */
    NEED_CUDNN_RUN = 16384, /* attention by cuDNN */
    NEED_BUILDS = NEED_CPU_BUILD | NEED_MODEL_BUILD | NEED_DNNL_BUILD | NEED_MPI_BUILD |
                  NEED_CUDA_BUILD | NEED_NCCL_BUILD
};

/* All that programs of a kind need. */
enum {
    NEED_CPU_ONE = NEED_CPU_BUILD | NEED_CPU_RUN | NEED_MODEL_BUILD | NEED_MODEL_RUN |
                   NEED_DNNL_BUILD | NEED_DNNL_RUN | NEED_ALL_RUN,
    NEED_CPU_MANY = NEED_CPU_ONE | NEED_MPI_BUILD | NEED_MPI_RUN,
    NEED_CUDA_ONE =
        NEED_CUDA_BUILD | NEED_CUDA_RUN | NEED_MODEL_BUILD | NEED_MODEL_RUN | NEED_ALL_RUN,
    NEED_CUDA_MANY = NEED_CUDA_ONE | NEED_NCCL_BUILD | NEED_NCCL_RUN,
    NEED_STANDALONE_ONE = NEED_CPU_BUILD | NEED_CPU_RUN | NEED_ALL_RUN
};

/* NEED_... of a program; standalone: its objective has no model of layers. */
unsigned toolchain_needs(const Target *t, int64_t ranks, bool standalone);
/* Names of the packages that bring what is needed, in the order of the rows, each once; how many.
 * nvidia: those that come from NVIDIA, else all others. */
enum { TOOLCHAIN_PACKAGES = 32 };
int toolchain_packages(unsigned needs, bool nvidia, const char *name[TOOLCHAIN_PACKAGES]);
/* The same with blanks between them; "": none. */
char *toolchain_package_words(unsigned needs, bool nvidia);
/* All of them, as a list. */
cJSON *toolchain_package_list(unsigned needs);

#endif
