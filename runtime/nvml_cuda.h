/* nvml_cuda.h -- GPU status from NVIDIA's management library (NVML).
 *
 * Keeps: the library comes with the driver and is opened at run time, so that programs start
 *        without it. Impossible answers count as none. One thread calls. Covers all GPUs of the
 *        machine, also those that CUDA_VISIBLE_DEVICES hides. */
#ifndef DIECAST_NVML_CUDA_H
#define DIECAST_NVML_CUDA_H

#include <stdbool.h>
#include <stdint.h>

/* A GPU. NULL: none, or no answer. */
typedef struct nvmlDevice_st *NvmlDevice;

typedef struct {
    char name[96];               /* "NVIDIA H200"; "" : unknown, as below */
    char uuid[96];               /* "GPU-8a2c..." */
    char bus[32];                /* "00000000:C1:00.0" */
    int major, minor;            /* compute capability; 0: unknown */
} NvmlAbout;

typedef struct {
    double busy;                 /* current load in percent; negative: unknown */
    int64_t used, total;         /* bytes of its memory in use by all processes, and in total; total
                                    0: unknown */
} NvmlUse;

/* Opens the library at the first call; later calls return the same. NULL: success; otherwise the
 * reason, with the name of the library. */
const char *nvml_open(void);
/* Returns the driver's version, "550.54.15"; "": unknown. Call this and the following functions
 * only after nvml_open() has returned NULL. */
const char *nvml_driver(void);
int nvml_count(void);
NvmlDevice nvml_device(int i);
/* Finds a GPU by "0000:c1:00.0", as cudaDeviceGetPCIBusId() writes it. */
NvmlDevice nvml_at(const char *bus);
void nvml_about(NvmlDevice device, NvmlAbout *to);
void nvml_use(NvmlDevice device, NvmlUse *to);
/* Returns a function of the library, for gen only; NULL: this version lacks it. */
void *nvml_function(const char *name);

#endif
