/* mixture.h -- what of an epoch each of several sources gives, when shares are asked for.
 *
 * In:    the samples and the weight of each source.
 * Out:   how many of an epoch it gives; the order of an epoch.
 * Keeps: an epoch is a function of (seed, epoch): a source's samples come in endless passes, each a new order of all
 *        of them, of which an epoch takes what the one before left; so none comes twice before all came once. */
#ifndef DIECAST_MIXTURE_H
#define DIECAST_MIXTURE_H

#include <stdint.h>

typedef struct {
    double weight;               /* at least 0 */
    int64_t first, n;            /* its samples among those of all */
    int64_t drawn;               /* of an epoch; by mixture_share() */
    int64_t taken;               /* in all steps so far; kept by who counts them */
} DataSource;

/* drawn: of `all` in proportion to the weights, whose sum is above 0, those with the largest remainders rounded up,
 * of equal ones the first. */
void mixture_share(DataSource *source, int sources, int64_t all);
/* order: (all) of epoch `epoch`, from 0. list: (all) of no meaning before and after. */
void mixture_order(const DataSource *source, int sources, int64_t all, uint64_t seed, int64_t epoch, int32_t *order,
                   int32_t *list);

#endif
