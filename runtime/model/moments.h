/* moments.h -- moments in checkpoints: fp32, or in 8 bit with the largest magnitudes of their
 * blocks.
 *
 * In a file, the moment X.exp_avg of a tensor X is F32, or U8 (codes of runtime/dynamic_map.h, in
 * the order of X) with X.exp_avg.absmax F32: a magnitude for each block of the parameter that X has
 * elements of, in memory order. A block that two tensors share is in both. */
#ifndef DIECAST_MOMENTS_H
#define DIECAST_MOMENTS_H

#include "runtime/dynamic_map.h"
#include "runtime/model/model.h"
#include "runtime/files/safetensors.h"

/* "8bit" if a moment of the model is, else "fp32". */
const char *moments_type(const Model *m);
/* Bytes of the tensor's moments in a checkpoint. */
int64_t moments_bytes(const Tensor *t);

/* Loads a moment of every tensor that has it, from fp32 or 8 bit in the file: suffix "exp_avg" or
 * "exp_avg_sq". Adds the tensors read to *used. Ends the program with EXIT_MISMATCH if one is
 * missing or has another shape, with EXIT_DATA if magnitudes are NaN, Inf or negative. */
void moments_load(const StFile *file, const Model *m, const char *suffix, int *used);

#endif
