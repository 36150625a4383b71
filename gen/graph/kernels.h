/* kernels.h -- kernels and their variants: the rows of kernels.def. */
#ifndef KERNELS_H
#define KERNELS_H

#include "gen/graph/ir.h"

typedef struct {
    const char *name;        /* of the C function */
    const char *backend;     /* cpu | cuda */
    const char *pattern;     /* op names in order, space-separated; "name+": one or more alike */
    const char *file;        /* kernels/BACKEND/FILE */
    const char *args;        /* arguments of the emitted call, see kernels.def */
    const char *inplace;     /* "o0=i2": the output may share that input's memory; "": none */
    const char *(*fits)(const Op *op);   /* returns NULL or why not */
    const char *doc;
} KernelRow;
extern const KernelRow kernel_row[];
extern const int nkernels;
int64_t kernel_workspace(int kernel, const Op *op);          /* bytes */
/* Elements of a slot of a state. On a GPU weights over the vocabulary, their gradients and what the
 * optimiser keeps of them have rows up to ce_width(V), as many as the head's products: only
 * those products read the rows after V, which stay 0. */
int64_t value_room(const Graph *g, const Value *v);

/* A VARIANT row of kernels.def. */
typedef struct {
    const char *name;
    bool (*fits)(const Op *op, int value);       /* true if worth measuring for this op */
    bool act;                /* fp32 results hold values rounded to the activation type */
    int n, value[8];         /* the default first */
} VariantRow;
extern const VariantRow variant_row[];
extern const int nvariants;
const VariantRow *variant_find(const char *name);
/* Name of a row in texts; "rmsnorm_fwd/2" for the second of that name and backend. */
const char *kernel_word(int row);
int kernel_find(const char *word, const char *backend);      /* -1: none */
/* True for a pattern "name+": one call for any number of equal ops, whose operands are adjacent in
 * memory, operand by operand, except those they share. */
bool kernel_repeats(const KernelRow *row);
/* Ops of a row without "+" that its pattern covers from ops[i] of the program on; 0: it does not
 * match there. */
int kernel_match(const Program *p, int i, const KernelRow *row);
/* Operand named by a word of the row: "i0", "1.o2" (of the group's op 1). */
Ref kernel_operand(const Program *p, const Group *group, const char *word);

#endif
