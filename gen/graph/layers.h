/* layers.h -- model parameters, linear layers and LoRA adapters. */
#ifndef LAYERS_H
#define LAYERS_H

#include "gen/graph/graph.h"

static inline Dim ref_columns(Ref x) { return x.v->dim[x.v->rank - 1]; }

/* Dropout rate of the current pass, from that field; 0 where nothing is dropped. */
double drop_share(const Build *b, int field);

/* Initialisation of a parameter. */
typedef struct {
    const char *init;
    double std;              /* of normal; bound of uniform */
    bool plain;              /* a bias, or a weight of PyTorch's LayerNorm */
} First;

/* By model.init_std, or as in PyTorch's modules, depending on the family. */
First first_as(const Build *b, const char *init, bool plain);
First first_weight(const Build *b, Dim in);
First first_bias(const Build *b, Dim in);
First first_table(const Build *b);
/* For q, k and v as one matrix, and for biases of attention. */
First first_qkv(const Build *b, Dim in, Dim out);
First first_bias_attention(const Build *b, Dim in);

/* A module of a model's files whose tensor is part of a parameter: path and number of rows. */
typedef struct { const char *path; int64_t rows; } Module;

/* "b.qkv.w" inside blocks, "norm_f.w" outside. */
const char *layer_name(const Build *b, const char *name, const char *suffix);
/* Returns the parameter that holds the tensors `suffix` of the modules, stacked by rows; created on
 * first use. Rank 2 if cols.n is not 0, else 1. If b->started, returns its initial weights. */
Value *layer_parameter(Build *b, const char *name, Dim rows, Dim cols, const Module *m,
                       int nmodules, const char *suffix, First first);
/* Returns the value that the current pass reads for a parameter: if b->started and it is trained,
 * its initial weights. */
Value *layer_read(Build *b, Value *v);
/* Makes it an adapter weight: trained, in the adapter's file, never transposed there. */
Value *layer_adapter(const Build *b, Value *v, const char *init, double std);

/* Columns of a layer's input and weight: `in`, plus the adapters' u and B if these are folded into
 * the layer's product. */
Dim dim_folded(const Build *b, Dim in, Dim out, const Module *m, int nmodules);
/* True if, by lora.fold, the op lora_dy becomes part of the program: it then reads the gradient of
 * an adapted layer's output once, instead of lora_bwd. */
bool adapter_reads_dy_once(const Build *b, const Op *dy);
/* y = x w^T (+ b) with the tensors of nmodules modules as one matrix, and their adapters, which are
 * folded into the product if the rows of x have the columns of dim_folded(). */
Ref layer_linear(Build *b, const char *name, Ref x, Dim in, Dim out, const Module *m, int nmodules,
                 bool bias);
/* The same with explicit initialisation. */
Ref layer_linear_from(Build *b, const char *name, Ref x, Dim in, Dim out, const Module *m,
                      int nmodules, bool bias, First first_w, First first_b);
/* The current layer's matrix (out, in), from NF4 where it is stored so; its bias, v NULL: it has
 * none; and its adapters: A of all parts, B of each after the other, added times scale to columns
 * column..column + width. */
typedef struct {
    Ref w, b, A, B;
    int parts;
    int64_t column[3], width[3];
    double scale;
} LayerUse;
/* The weights of such a layer for an op of the caller's. */
LayerUse layer_weights(Build *b, const char *name, Dim in, Dim out, const Module *m, int nmodules,
                       bool bias);

#endif
