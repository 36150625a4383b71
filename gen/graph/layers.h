/* layers.h -- what families.c writes a model's steps with: parameters, linear layers, adapters. */
#ifndef LAYERS_H
#define LAYERS_H

#include "gen/graph/graph.h"

static inline Dim ref_columns(Ref x) { return x.v->dim[x.v->rank - 1]; }

/* Share dropped in the pass being written, by that field. */
double drop_share(const Build *b, int field);

/* What a parameter is before training. */
typedef struct {
    const char *init;
    double std;              /* of normal; bound of uniform */
    bool plain;              /* of PyTorch's LayerNorm, or a bias */
} First;

/* By model.init_std, or as PyTorch's modules begin, whichever the family says. */
First first_as(const Build *b, const char *init, bool plain);
First first_weight(const Build *b, Dim in);
First first_bias(const Build *b, Dim in);
First first_table(const Build *b);
/* q, k and v as one matrix, and the biases of attention. */
First first_qkv(const Build *b, Dim in, Dim out);
First first_bias_attention(const Build *b, Dim in);

/* Where tensors of a parameter stand in a model's files: module path, and its rows. */
typedef struct { const char *path; int64_t rows; } Module;

/* "b.qkv.w" inside blocks, "norm_f.w" outside. */
const char *layer_name(const Build *b, const char *name, const char *suffix);
/* A parameter of rank 1, or 2 with cols.n, that holds the tensors `suffix` of the modules, one below the
 * other; made at its first use. In a pass by the weights as they were at the start, what that reads. */
Value *layer_parameter(Build *b, const char *name, Dim rows, Dim cols, const Module *m, int nmodules,
                       const char *suffix, First first);
/* What the pass reads of a parameter that is there: in one by the weights as they were at the start the
 * kept values of a trained one. */
Value *layer_read(Build *b, Value *v);
/* Makes it an adapter's weight: trained, in the adapter's file, which never holds it transposed. */
Value *layer_adapter(const Build *b, Value *v, const char *init, double std);
/* As an op of the block being written reads it: this layer's. */
Ref layer_use(Value *v);

/* Columns of the rows of a layer's input and weight: `in`, and behind them room for the adapters' u and B
 * where these are folded into the layer's product. */
Dim dim_folded(const Build *b, Dim in, Dim out, const Module *m, int nmodules);
/* y = x w^T (+ b) with the tensors of nmodules modules as one matrix, and their adapters: folded into the
 * product where the rows of x have room for that. */
Ref layer_linear(Build *b, const char *name, Ref x, Dim in, Dim out, const Module *m, int nmodules, bool bias);
/* The same; what weight and bias are at first. */
Ref layer_linear_from(Build *b, const char *name, Ref x, Dim in, Dim out, const Module *m, int nmodules,
                      bool bias, First first_w, First first_b);

#endif
