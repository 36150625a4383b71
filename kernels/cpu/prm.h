/* prm.h -- losses of records whose steps have marks, and what each record counts.
 *
 * In:    d, rewards (S * marks) fp32 and rows (S * marks) int32, those of record i from i * marks:
 *        margin and label of each mark, its place, -1: it is none; table (K) fp32 and record (S)
 *        int32, its entry or -1; weights (S) fp32, NULL: 1.
 * Keeps: in double, records in order; what is stored is rounded to fp32. */
#ifndef DIECAST_KERNELS_PRM_H
#define DIECAST_KERNELS_PRM_H

#include "../../runtime/prm.h"
#include "types.h"

#ifdef KERNEL_REFERENCE
#include "../reference/prm.h"
#endif

/* weights (S) = act(table[record]), kind: PRM_LEAKY ...; 1 without an entry. */
static inline void prm_weights(float *restrict weights, const float *restrict table,
                               const int32_t *restrict record, int64_t S, int kind)
{
    for (int64_t i = 0; i < S; i++)
        weights[i] = record[i] < 0 ? 1 : (float)prm_activation(kind, table[record[i]]);
}

/* losses (S) */
static inline void prm_loss(float *restrict losses, const float *restrict d,
                            const float *restrict rewards, const int32_t *restrict rows, int64_t S,
                            int marks)
{
    for (int64_t i = 0; i < S; i++)
        losses[i] =
            (float)prm_record_loss(d + i * marks, rewards + i * marks, rows + i * marks, marks);
}

/* dd (S * marks): of scale[0] * weight * loss. */
static inline void prm_loss_bwd(float *restrict dd, const float *restrict d,
                                const float *restrict rewards, const int32_t *restrict rows,
                                const float *restrict scale, const float *restrict weights,
                                int64_t S, int marks)
{
    for (int64_t i = 0; i < S; i++) {
        const int n = prm_marks(rows + i * marks, marks);
        const double of_loss = (double)scale[0] * (weights ? weights[i] : 1);
        for (int64_t j = i * marks; j < (i + 1) * marks; j++)
            dd[j] = rows[j] < 0 ? 0 : (float)(of_loss * prm_record_slope(d[j], rewards[j], n));
    }
}

/* Adds to loss[0] and to stats, the entries of runtime/prm.h. */
static inline void prm_sums(double *loss, double *stats, const float *losses, const float *d,
                            const float *rewards, const int32_t *rows, const float *weights,
                            int64_t S, int marks)
{
    for (int64_t i = 0; i < S; i++) {
        const double weight = weights ? weights[i] : 1;
        loss[0] += weight * losses[i];
        prm_count(stats, d + i * marks, rewards + i * marks, rows + i * marks, marks, losses[i],
                  weight);
    }
}

#endif
