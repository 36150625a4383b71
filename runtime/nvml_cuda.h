/* nvml_cuda.h -- what NVIDIA's management library says of the GPUs of this machine.
 *
 * Keeps: the library comes with the driver and is opened at run time, so that a program starts without
 *        it. An answer that cannot be true counts as none. One thread calls.
 * The GPUs are all that the machine has, by whatever number CUDA_VISIBLE_DEVICES gives them. */
#ifndef DIECAST_NVML_CUDA_H
#define DIECAST_NVML_CUDA_H

#include <stdbool.h>
#include <stdint.h>

/* A GPU; NULL: there is none, or it cannot be asked. */
typedef struct nvmlDevice_st *NvmlDevice;

typedef struct {
    char name[96];               /* "NVIDIA H200"; "" : not said, as below */
    char uuid[96];               /* "GPU-8a2c..." */
    char bus[32];                /* "00000000:C1:00.0" */
    int major, minor;            /* compute capability; 0: not said */
} NvmlAbout;

typedef struct {
    double busy;                 /* percent of the last moment; negative: not said */
    int64_t used, total;         /* bytes of its memory, by whomever; total 0: not said */
} NvmlUse;

/* Opens the library, the first time; later calls answer alike. NULL: it is there and has a driver, or why not:
 * a text that names the library. */
const char *nvml_open(void);
/* The driver's version, "550.54.15"; "": not said. From here on nvml_open() has returned NULL. */
const char *nvml_driver(void);
int nvml_count(void);
NvmlDevice nvml_device(int i);
/* By "0000:c1:00.0", as cudaDeviceGetPCIBusId writes it. */
NvmlDevice nvml_at(const char *bus);
void nvml_about(NvmlDevice device, NvmlAbout *to);
void nvml_use(NvmlDevice device, NvmlUse *to);
/* A function of the library that only gen asks; NULL: this version has none of that name. */
void *nvml_function(const char *name);

#endif
