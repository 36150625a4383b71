/* step.h -- what train.c needs of the programs of a step. */
#ifndef STEP_H
#define STEP_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "runtime/model/model.h"

/* What the host writes before a program and reads after it; NULL where the recipe has no use. */
typedef struct {
    int32_t *tokens, *labels;    // (B, T) of micro-batch 0, then of the others; label < 0: no target
    int32_t *places, *ends;      // (B, T): position in its document, place in the row behind the
                                 // document's last token
    int64_t tokens_stride;       // elements from a micro-batch to the next, of these; with
                                 // batch.targets not of labels
    // batch.targets: labels (N) are those of the places target_rows (N) of (B, T), -1 beyond the
    // last; target_of (B, T) is the inverse, -1 where there is no target
    int32_t *target_rows, *target_of;
    int64_t labels_stride;       // of labels and target_rows; target_of has that of tokens
    uint32_t *noise;             // of micro-batch 0: seed low, seed high, step, index in the step of
                                 // its first sample; then of the others
    int64_t noise_stride;
    float *scale;                // 1 / targets of the whole step, all ranks
    float *hyper;                // lr, beta1, beta2, eps, weight decay, 1 - beta1^t, 1 - beta2^t,
                                 // clip (0: none)
    float *scaler;               // fp16, reached by runtime/device.h: loss scale, steps since it
                                 // changed
    double *loss;                // sum of this rank's target losses over the program
    float *norm;                 // of the whole gradient, before clipping
    int32_t *token, *place;      // decode: one token and its position
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
