/* masks.h -- the CPU's random numbers and dropout masks as cpu::, the witness of the GPU's. */
#ifndef DIECAST_TESTS_CUDA_MASKS_H
#define DIECAST_TESTS_CUDA_MASKS_H

#include <stdint.h>
#include <string.h>

/* Its pragmas are for other compilers. */
#define restrict __restrict__
#ifdef __CUDACC__
#pragma nv_diag_suppress 1675
#endif
namespace cpu {
#include "../../runtime/philox.h"
#include "../kernels/dropout_keep.h"
}
#undef restrict

#endif
