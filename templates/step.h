/* step.h -- interface of the programs of a training step. */
#ifndef STEP_H
#define STEP_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "runtime/model/model.h"
#include "runtime/run/profile.h"

enum { MICROS = @MICROS@ };            // micro-batches of a step

/* Inputs that the host writes before a program, and results that it reads after it. Inputs and sums
 * of micro-batch k are at [k]; a program of one micro-batch has those of the first. */
typedef struct {
//@ inputs
//@ scalers
//@ results
} StepIO;

extern const char *const step_tools;   // the compilers of the kernels
extern const ProfileOp step_ops[];     // kernel calls, indexed by the number of their group in ir/
extern const int step_nops;
extern StepIO io;
extern Model model;

/* Allocates the arena, creates the matrix products and fills io and model. Call it once, before
 * anything else. */
void step_open(void);
/* Each of these starts a program with the inputs in io, which may be overwritten when it
 * returns. */
//@ if counted
//@ collectives
 * All ranks start the same ones in the same order; a rank without work of its own, with empty
 * inputs. */
//@ end
//@ steps
void step_wait(void);            // waits until io holds the results of the program started last
/* Calls say() with one line per matrix product: its shape and algorithm. */
void step_products(void (*say)(const char *line));

#ifdef __cplusplus
}
#endif

#endif
