/* dpo.h -- double-precision reference of preference losses, as the papers state them.
 *
 * In:    log-probabilities of the chosen and the rejected answer under policy and reference.
 * Out:   the loss of the pair; tests take gradients by finite differences. */
#ifndef DIECAST_KERNELS_REFERENCE_DPO_H
#define DIECAST_KERNELS_REFERENCE_DPO_H

typedef struct {
    int ipo;
    double beta, smoothing, margin, shift, penalty, kl;
} DpoRef;

static inline double dpo_ref(const DpoRef *r, double pc, double pr, double rc, double rr)
{
    const double short_of = rc - pc > 0 ? rc - pc : 0;
    const double h = (pc - rc) - r->shift * (pr - rr) - r->penalty * short_of;
    const double z = r->beta * h - r->margin;
    const double ipo = (h - 1 / (2 * r->beta)) * (h - 1 / (2 * r->beta));
    const double sigmoid = -(1 - r->smoothing) * __builtin_log(1 / (1 + __builtin_exp(-z))) -
                           r->smoothing * __builtin_log(1 / (1 + __builtin_exp(z)));
    return (r->ipo ? ipo : sigmoid) +
           r->kl * (__builtin_exp(rc) * (rc - pc) + __builtin_exp(rr) * (rr - pr));
}

#endif
