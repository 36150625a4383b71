/* apo.h -- anchored preference optimisation (APO-zero) of single answers: the loss of one answer.
 *
 * Source: D'Oosterlinck et al. 2024, equation 7; TRL's KTOTrainer, apo_zero_unpaired. */
#ifndef DIECAST_APO_H
#define DIECAST_APO_H

#ifndef __CUDACC_RTC__
#include <math.h>
#endif

/* A kernel's file says otherwise before it includes this one. */
#ifndef APO_FUNCTION
#define APO_FUNCTION static inline
#endif

/* Adds an answer's loss to loss[0]; stats: counts of desired answers and of the others, sums of their rewards
 * beta (lp - reference). Returns the derivative of the loss by lp, a log-probability in nats. */
APO_FUNCTION float apo_answer(double *loss, double *stats, double lp, double reference, bool desired, double beta)
{
    const double reward = beta * (lp - reference), p = 1 / (1 + exp(-reward));
    loss[0] += desired ? 1 - p : p;
    stats[desired ? 0 : 1] += 1;
    stats[desired ? 2 : 3] += reward;
    return (float)((desired ? -1 : 1) * beta * p * (1 - p));
}

#endif
