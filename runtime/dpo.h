/* dpo.h -- DPO loss of a pair, and its sums over pairs: entries of the result `stats`, all doubles.
 *
 * Source: Rafailov et al. 2023; IPO: Azar et al. 2023; DPOP: Pal et al. 2024. */
#ifndef DIECAST_DPO_H
#define DIECAST_DPO_H

#ifndef __CUDACC_RTC__
#include <math.h>
#endif

enum {
    DPO_PAIRS,              /* pairs in which both answers have a target */
    DPO_POLICY_CHOSEN,      /* log-probabilities of the answers */
    DPO_POLICY_REJECTED,
    DPO_REFERENCE_CHOSEN,
    DPO_REFERENCE_REJECTED,
    DPO_REWARD_CHOSEN,      /* policy less reference, possibly times beta */
    DPO_REWARD_REJECTED,
    DPO_ACCURATE,           /* pairs whose chosen reward is higher */
    DPO_STATS
};

enum { DPO_SIGMOID, DPO_IPO };

typedef struct {
    int loss;               /* DPO_SIGMOID or DPO_IPO */
    double beta;
    double smoothing;       /* label smoothing */
    double margin;          /* margin that beta * h has to exceed */
    double shift;           /* factor of the rejected answer's reward in h */
    double penalty;         /* reduces h for each nat that the chosen answer falls below the
                               reference */
    double kl;              /* weight of e^reference (reference - policy) of both answers */
    double reward;          /* factor of the rewards in `stats` */
} DpoRule;

/* Log-probabilities of both answers, by the policy and by the reference. */
typedef struct {
    double chosen, rejected, reference_chosen, reference_rejected;
} DpoPair;

/* A kernel file may define it otherwise before including this one. */
#ifndef DPO_FUNCTION
#define DPO_FUNCTION static inline
#endif

/* ln(1 + e^x) */
DPO_FUNCTION double dpo_softplus_(double x)
{
    return log1p(exp(x < 0 ? x : -x)) + (x > 0 ? x : 0);
}

DPO_FUNCTION double dpo_logistic_(double x)
{
    return x < 0 ? exp(x) / (1 + exp(x)) : 1 / (1 + exp(-x));
}

/* Returns the loss. coef: its derivatives by the log-probabilities of the chosen and the rejected
 * answer. h is the difference of their rewards, policy less reference. */
DPO_FUNCTION float dpo_pair(float coef[2], const DpoRule *rule, const DpoPair *p)
{
    const double below = p->reference_chosen - p->chosen;
    const double h = p->chosen - p->reference_chosen -
                     rule->shift * (p->rejected - p->reference_rejected) -
                     rule->penalty * (below > 0 ? below : 0);
    double loss, slope;
    if (rule->loss == DPO_IPO) {
        const double off = h - 1 / (2 * rule->beta);
        loss = off * off;
        slope = 2 * off;
    } else {
        const double z = rule->beta * h - rule->margin, e = rule->smoothing;
        loss = (1 - e) * dpo_softplus_(-z) + (e > 0 ? e * dpo_softplus_(z) : 0);
        slope = -rule->beta * ((1 - e) * dpo_logistic_(-z) - e * dpo_logistic_(z));
    }
    coef[0] = (float)(slope * (1 + (below > 0 ? rule->penalty : 0)));
    coef[1] = (float)(-slope * rule->shift);
    if (rule->kl > 0) {
        const double c = rule->kl * exp(p->reference_chosen);
        const double r = rule->kl * exp(p->reference_rejected);
        loss += c * below + r * (p->reference_rejected - p->rejected);
        coef[0] -= (float)c;
        coef[1] -= (float)r;
    }
    return (float)loss;
}

/* Adds a pair to the sums. */
DPO_FUNCTION void dpo_count(double stats[DPO_STATS], const DpoRule *rule, const DpoPair *p)
{
    const double chosen = p->chosen - p->reference_chosen,
                 rejected = p->rejected - p->reference_rejected;
    stats[DPO_PAIRS] += 1;
    stats[DPO_POLICY_CHOSEN] += p->chosen;
    stats[DPO_POLICY_REJECTED] += p->rejected;
    stats[DPO_REFERENCE_CHOSEN] += p->reference_chosen;
    stats[DPO_REFERENCE_REJECTED] += p->reference_rejected;
    stats[DPO_REWARD_CHOSEN] += rule->reward * chosen;
    stats[DPO_REWARD_REJECTED] += rule->reward * rejected;
    stats[DPO_ACCURATE] += chosen > rejected;
}

#endif
