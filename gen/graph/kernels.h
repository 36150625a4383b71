/* kernels.h -- kernels and their variants: the rows of kernels.def. */
#ifndef KERNELS_H
#define KERNELS_H

#include "gen/graph/ir.h"

typedef struct {
    const char *name;        /* of the C function */
    const char *backend;     /* cpu | cuda */
    const char *pattern;     /* op names in order, space-separated; "name+": one or more alike */
    const char *file;        /* kernels/BACKEND/FILE */
    const char *args;        /* what the emitted call passes, see kernels.def */
    const char *inplace;     /* "o0=i2": that output may take the place of that input; "" none */
    const char *(*fits)(const Graph *g, const Op *op);      /* NULL: always; else NULL or why not */
    const char *doc;
} KernelRow;
extern const KernelRow kernel_row[];
extern const int nkernels;
int64_t kernel_workspace(int kernel, const Op *op);          /* bytes */

/* A row VARIANT of kernels.def. */
typedef struct {
    const char *name;
    bool (*fits)(const Op *op, int value);       /* whether it is worth measuring for this op */
    bool act;                /* fp32 results hold what was rounded to the type of activations */
    int n, value[8];         /* the default first */
} VariantRow;
extern const VariantRow variant_row[];
extern const int nvariants;
const VariantRow *variant_find(const char *name);
/* A row in texts: its name, for the second row of that name and backend "rmsnorm_fwd/2". */
const char *kernel_word(int row);
int kernel_find(const char *word, const char *backend);      /* -1: there is none */
/* One call for as many ops alike as there are, "name+": what they read or write lies side by side,
 * operand by operand, but for what all of them share. */
bool kernel_repeats(const KernelRow *row);
/* "i0", "1.o2": the operand of the group's op that a word of its row names. */
Ref kernel_operand(const Program *p, const Group *group, const char *word);

#endif
