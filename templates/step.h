/* step.h -- what train.c needs of the programs of a step. */
#ifndef STEP_H
#define STEP_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "runtime/model/model.h"
#include "runtime/run/profile.h"

enum { MICROS = @MICROS@ };            // micro-batches of a step

/* What the host writes before a program and reads after it. Inputs of micro-batch k are at [k]; a
 * program of one micro-batch reads those of the first. */
typedef struct {
//@ inputs
//@ scalers
//@ results
} StepIO;

extern const char *const step_tools;   // the compilers of the kernels
extern const ProfileOp step_ops[];     // every call of a kernel, by the number of its group in ir/
extern const int step_nops;
extern StepIO io;
extern Model model;

/* Takes the arena, makes the matrix products and fills io and model. Once, before anything else. */
void step_open(void);
/* These begin something with the inputs in io, which may be written again when they return. */
//@ steps
void step_wait(void);            // until the results in io are those of what was begun last
/* A line a matrix product: its shape and the algorithm that computes it. */
void step_products(void (*say)(const char *line));

#ifdef __cplusplus
}
#endif

#endif
