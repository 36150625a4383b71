/* nf4_weights.h -- weights in NF4: quantised as they are loaded, dequantised to be read.
 *
 * A tensor in NF4 has weight.type EL_NF4: its codes are bytes (first + i) / 2 of weight.at, its
 * blocks in Tensor.nf4. It is frozen, not transposed, and has rows side by side. Its codes may be
 * divided over ranks (Array.part, in codes); its blocks are whole. */
#ifndef DIECAST_NF4_WEIGHTS_H
#define DIECAST_NF4_WEIGHTS_H

#include "runtime/model/model.h"
#include "runtime/model/model_parts.h"

typedef struct Nf4Writer Nf4Writer;
struct HfWant;

/* The arrays of a tensor. */
typedef enum { NF4_CODES, NF4_ABSMAX, NF4_NESTED, NF4_OFFSET, NF4_ARRAYS } Nf4Array;

struct Nf4Access {
    /* Copies elements as products read them, rounded to nf4.computes. Of divided codes all, on rank
     * 0 of a gather, or with `own` those that this rank has, 0 for the rest. Thread-safe, but for
     * the gather. */
    void (*get)(const Tensor *t, int64_t begin, int64_t n, bool own, float *to);
    /* Continues crc over codes and blocks. */
    void (*crc)(PartsCrc *crc, const Tensor *t);
    /* Quantise a tensor. Every element is put once, in any order and by any thread; begin and n are
     * multiples of NF4_BLOCK. finish() quantises absmax and frees the writer. */
    Nf4Writer *(*writer)(const Tensor *t);
    void (*put)(Nf4Writer *w, int64_t begin, int64_t n, const float *from);
    void (*finish)(Nf4Writer *w);
    /* Returns the bytes that the tensor has in an array. */
    int64_t (*bytes)(const Tensor *t, Nf4Array which);
    /* Writes n of these bytes from `begin` on; of divided codes what this rank has. */
    void (*write)(const Tensor *t, Nf4Array which, int64_t begin, int64_t n, const void *from);
    /* Reads a weight that is quantised already: hf_nf4.h. */
    char *(*load)(const struct HfWant *w, bool store, int *code);
};

/* The codes of a tensor as a tensor of bytes, two codes each; its array is nf4_codes_array(). */
static inline Tensor nf4_codes_tensor(const Tensor *t)
{
    return (Tensor){.rank = 1, .shape = {model_elements(t) / 2}, .first = t->first / 2,
                    .stride = t->stride / 2, .array_of = t};
}

static inline Array nf4_codes_array(const Tensor *t)
{
    return (Array){.at = t->weight.at, .type = EL_U8, .part = t->weight.part / 2};
}

#endif
