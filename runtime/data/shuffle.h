/* shuffle.h -- order of an epoch: PyTorch's random permutation; weighted sampling from several
 * sources, e.g. files.
 *
 * In:    the samples and the weight of each source.
 * Out:   samples per epoch of each source; the order of an epoch.
 * Keeps: an epoch is a function of (seed, epoch). A source is read in endless passes, each a new
 *        permutation of all its samples; an epoch continues where the previous one stopped, so no
 *        sample comes twice before all came once. */
#ifndef DIECAST_SHUFFLE_H
#define DIECAST_SHUFFLE_H

#include <stdint.h>

enum { DATA_SAMPLES_MAX = 214748364 };   /* 2^32 / 20: above it randperm uses another method */

/* Sets p[0..n-1] to torch.randperm(n) after manual_seed(seed); n <= DATA_SAMPLES_MAX. PyTorch, too,
 * shuffles with the lowest 32 bits of a seed. */
void data_permutation(int32_t *p, int64_t n, uint32_t seed);

typedef struct {
    double weight;               /* at least 0 */
    int64_t first, n;            /* its samples among all */
    int64_t drawn;               /* samples per epoch; set by mixture_share() */
    int64_t taken;               /* samples of all steps so far; updated by the caller */
} DataSource;

/* Sets drawn: `all` samples in proportion to the weights, whose sum must be above 0. The largest
 * remainders are rounded up, the first of equals. */
void mixture_share(DataSource *source, int sources, int64_t all);
/* order: (all) samples of epoch `epoch`, from 0. pass: (all) the pass over its source that each is
 * of, counted from the first one in this epoch. */
void mixture_order(const DataSource *source, int sources, int64_t all, uint64_t seed, int64_t epoch,
                   int32_t *order, int32_t *pass);

#endif
