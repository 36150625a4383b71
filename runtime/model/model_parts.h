/* model_parts.h -- arrays of a tensor that are divided over ranks (Array.part).
 *
 * Each rank holds its part only. Rank 0 reads all elements through model_get(), between
 * parts_gather() and parts_gathered(), while the other ranks send what they hold. */
#ifndef DIECAST_MODEL_PARTS_H
#define DIECAST_MODEL_PARTS_H

#include "runtime/model/model.h"

bool parts_divided(const Model *m);      /* true if any array of the model is */

/* Collective. Returns true on rank 0, which may then read divided arrays and must call
 * parts_gathered(); on the other ranks it returns false after that call. */
bool parts_gather(const Model *m);
void parts_gathered(void);

/* Continues crc[r], for every rank r, over the weights that rank r updates and every rank has: the
 * same on all ranks. */
void parts_weights_crc(const Model *m, uint32_t *crc);
/* Returns the number of weights of this rank's parts that are not its fp32 master weights rounded;
 * -1: not all divided parameters have such master weights. */
int64_t parts_unrounded(const Model *m);

/* CRC-32C of bytes of which every rank has some and one rank has others; 0 at the start. */
typedef struct {
    uint32_t whole, own;     /* of the bytes that every rank has, and that this rank has; in place
                                of the others, zeros that do not count */
} PartsCrc;
/* Continue it over bytes that every rank has, that only this rank has, that another rank has. */
void parts_crc_whole(PartsCrc *c, const void *bytes, int64_t n);
void parts_crc_own(PartsCrc *c, const void *bytes, int64_t n);
void parts_crc_others(PartsCrc *c, int64_t n);
/* Continues it over the stored elements of a divided array, in memory order. */
void parts_crc_array(PartsCrc *c, const Tensor *t, Array array);
/* Returns the checksum of all bytes. Collective if arrays are divided. */
uint32_t parts_crc(const Model *m, const PartsCrc *c);

/* Order of a tensor's elements. */
typedef enum { ORDER_MEMORY, ORDER_FILE } ElementOrder;
/* As model_get() on rank 0 of a gather. Ends the program elsewhere. */
void parts_get(const Tensor *t, Array array, ElementOrder order, int64_t begin, int64_t n,
               float *to);
/* Reads what this rank holds of these elements; the others become 0. Thread-safe. */
void parts_own(const Tensor *t, Array array, ElementOrder order, int64_t begin, int64_t n,
               float *to);
/* Elements that this rank holds side by side: n from e on, in memory order; the first is element
 * `own` of the array on this rank. */
typedef struct {
    int64_t e, n, own;
} OwnElements;
/* Returns the first of them from e on; past the last, n 0 and in .e the number of elements. */
OwnElements parts_next(const Tensor *t, Array array, int64_t e);
/* Writes what this rank holds of these elements. Thread-safe. */
void parts_put(const Tensor *t, Array array, ElementOrder order, int64_t begin, int64_t n,
               const float *from);
/* Zeroes this rank's part of the whole array that the tensor is in. */
void parts_zero(const Tensor *t, Array array);

#endif
