/* unwatched.h -- the references (those of products aside) and the sizes of their terms: functions of the host alone.
 * The simulator, which looks at what instrumented code touches, need not follow them; they took most of the time of the
 * tests. */
#ifndef DIECAST_TESTS_CUDA_UNWATCHED_H
#define DIECAST_TESTS_CUDA_UNWATCHED_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#ifndef __CUDACC__
#define UNWATCHED __attribute__((no_sanitize("thread")))
#define inline UNWATCHED inline
#else
#define UNWATCHED
#endif
#include "../../kernels/reference/activation.h"
#include "../../kernels/reference/adamw.h"
#include "../../kernels/reference/attention.h"
#include "../../kernels/reference/ce.h"
#include "../../kernels/reference/dropout.h"
#include "../../kernels/reference/embed.h"
#include "../../kernels/reference/gather.h"
#include "../../kernels/reference/layernorm.h"
#include "../../kernels/reference/linear.h"
#include "../../kernels/reference/pointwise.h"
#include "../../kernels/reference/qk_norm.h"
#include "../../kernels/reference/rmsnorm.h"
#include "../../kernels/reference/rope.h"
#include "../kernels/terms.h"
#ifdef ALSO_UNWATCHED
#include ALSO_UNWATCHED
#endif
#ifndef __CUDACC__
#undef inline
#endif

#endif
