/* permutation.h -- PyTorch's random permutation. */
#ifndef DIECAST_PERMUTATION_H
#define DIECAST_PERMUTATION_H

#include <stdint.h>

enum { DATA_SAMPLES_MAX = 214748364 };   /* 2^32 / 20: above it randperm uses another method */

/* Sets p[0..n-1] to torch.randperm(n) after manual_seed(seed); n <= DATA_SAMPLES_MAX. */
void data_permutation(int32_t *p, int64_t n, uint32_t seed);

#endif
