/* lora.h -- LoRA adapters (Hu et al. 2021) in double, for the tests of every target.
 *
 * In:    x (rows, in), a (parts * rank, in), b: the parts' (width, rank); mask: see below.
 * Out:   u; y, dx, da and db, which are added to.
 * Keeps: include after the target's Lora. */
#ifndef DIECAST_KERNELS_REFERENCE_LORA_H
#define DIECAST_KERNELS_REFERENCE_LORA_H

/* mask (parts, rows, in): 0 or 1 / (1 - dropout). */
static inline void lora_fwd_ref(double *y, double *u, const double *x, const double *a,
                                const double *b, const double *mask, const Lora *l)
{
    for (int64_t p = 0; p < l->parts; b += l->width[p++] * l->rank)
        for (int64_t i = 0; i < l->rows; i++) {
            double *up = u + (i * l->parts + p) * l->rank;
            for (int64_t r = 0; r < l->rank; r++) {
                up[r] = 0;
                for (int64_t c = 0; c < l->in; c++)
                    up[r] += l->scale * x[i * l->in + c] * mask[(p * l->rows + i) * l->in + c] *
                             a[(p * l->rank + r) * l->in + c];
            }
            for (int64_t j = 0; j < l->width[p]; j++)
                for (int64_t r = 0; r < l->rank; r++)
                    y[i * l->out + l->col[p] + j] += up[r] * b[j * l->rank + r];
        }
}

static inline void lora_bwd_ref(double *dx, double *da, double *db, const double *dy,
                                const double *x, const double *u, const double *a, const double *b,
                                const double *mask, const Lora *l)
{
    int64_t above = 0;
    for (int64_t p = 0; p < l->parts; above += l->width[p++] * l->rank)
        for (int64_t i = 0; i < l->rows; i++)
            for (int64_t r = 0; r < l->rank; r++) {
                double du = 0;
                for (int64_t j = 0; j < l->width[p]; j++) {
                    double d = dy[i * l->out + l->col[p] + j];
                    du += l->scale * d * b[above + j * l->rank + r];
                    db[above + j * l->rank + r] += d * u[(i * l->parts + p) * l->rank + r];
                }
                for (int64_t c = 0; c < l->in; c++) {
                    double m = mask[(p * l->rows + i) * l->in + c];
                    dx[i * l->in + c] += du * a[(p * l->rank + r) * l->in + c] * m;
                    da[(p * l->rank + r) * l->in + c] += du * x[i * l->in + c] * m;
                }
            }
}

#endif
