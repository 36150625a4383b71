/* libraries_cuda.c -- versions of CUDA, cuBLASLt and NCCL in CUDA programs. */
#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <stdio.h>

#include "runtime/libraries.h"
#include "runtime/libraries_text.h"

#if DIECAST_RANKS > 1
#include <nccl.h>
#endif

static char text[8][64];

/* Returns a version number as text: 13000 is 13.0; with three parts 130100 is 13.1.0 and 22809
 * 2.28.9; 0: unknown. */
static const char *number(int at, long long v, long long unit)
{
    if (v <= 0)
        return NULL;
    if (unit == 1000)
        snprintf(text[at], sizeof text[at], "%lld.%lld", v / 1000, v % 1000 / 10);
    else
        snprintf(text[at], sizeof text[at], "%lld.%lld.%lld", v / unit, v % unit / 100, v % 100);
    return text[at];
}

int libraries_of_model(LibraryVersion *list)
{
    int n = libraries_of_text(list), runtime = 0, driver = 0;
    if (cudaRuntimeGetVersion(&runtime) != cudaSuccess)
        runtime = 0;
    if (cudaDriverGetVersion(&driver) != cudaSuccess)
        driver = 0;
    list[n++] = (LibraryVersion){"CUDA runtime", number(0, CUDART_VERSION, 1000),
                                 number(1, runtime, 1000), false};
    list[n++] = (LibraryVersion){"CUDA driver", NULL, number(2, driver, 1000), false};
    list[n++] = (LibraryVersion){"cuBLASLt", number(3, CUBLAS_VERSION, 10000),
                                 number(4, (long long)cublasLtGetVersion(), 10000), true};
#if DIECAST_RANKS > 1
    int nccl = 0;
    if (ncclGetVersion(&nccl) != ncclSuccess)
        nccl = 0;
    list[n++] = (LibraryVersion){"NCCL", number(5, NCCL_VERSION_CODE, 10000),
                                 number(6, nccl, 10000), false};
#endif
    return n;
}
