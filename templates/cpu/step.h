/* step.h -- what train.c needs of step.c. */
#ifndef STEP_H
#define STEP_H

#include <stdint.h>

#include "runtime/model.h"

/* What the host writes before a program and reads after it; pointers into the arena, NULL where the
 * recipe has no use. */
typedef struct {
    int32_t *tokens, *labels;    // (B, T); label < 0: no target
    float *scale;                // 1 / targets of the whole step, all ranks
    uint32_t *noise;             // seed low, seed high, step, first sample's index in the step
    float *hyper;                // lr, beta1, beta2, eps, weight decay, 1 - beta1^t, 1 - beta2^t,
                                 // clip (0: none)
    double *loss;                // running sum of this rank's target losses
    float *norm;                 // of the whole gradient, before clipping
    int32_t *token, *place;      // decode: one token and its position
    float *logits;               // (V)
} StepIO;

extern StepIO io;
extern Model model;

/* Takes the arena, makes the matrix products and fills io and model. Once, before anything else. */
void step_open(void);

//@ prototypes

#endif
