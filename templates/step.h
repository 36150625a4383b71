/* step.h -- what train.c needs of the programs of a step. */
#ifndef STEP_H
#define STEP_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "runtime/model/model.h"

enum { MICROS = @MICROS@ };            // micro-batches of a step

/* What the host writes before a program and reads after it. Inputs of micro-batch k are at [k]; a
 * program of one micro-batch reads those of the first. */
typedef struct {
//@ inputs
    float *scaler;               // fp16, reached by runtime/device.h: loss scale, steps since it
                                 // changed
    double *loss;                // sum of this rank's target losses over the program
    float *norm;                 // of the whole gradient, before clipping
    float *logits;               // (V)
} StepIO;

extern const char *const step_tools;   // the compilers of the kernels
extern StepIO io;
extern Model model;

/* Takes the arena, makes the matrix products and fills io and model. Once, before anything else. */
void step_open(void);
/* One optimiser step from the inputs in io, begun: when it returns, they may be written again. A
 * norm that is not finite leaves the weights as they are. */
void step_train(void);
void step_wait(void);            // until io.loss and io.norm are those of the step
void step_eval(void);            // the loss of micro-batch 0
void step_decode(void);          // the logits behind io.token at io.place
/* A line a matrix product: its shape and the algorithm that computes it. */
void step_products(void (*say)(const char *line));

#ifdef __cplusplus
}
#endif

#endif
