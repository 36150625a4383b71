/* graph.h -- inside the graph room: what its three files share.
 *
 * graph.c lists the programs, families.c writes a model's forward pass, gradient.c walks it
 * backwards. */
#ifndef GRAPH_H
#define GRAPH_H

#include "gen/gen.h"

typedef enum {
    MODE_TRAIN,              /* forward pass whose values the backward pass may use */
    MODE_AGAIN,              /* a block's forward pass repeated inside the backward pass */
    MODE_EVAL,               /* loss only */
    MODE_DECODE              /* one token, keys and values cached */
} Mode;

/* How a family of models is put together; rows in families.c. Paths are module paths of the Hugging
 * Face class. */
typedef struct {
    const char *name;
    bool layernorm;          /* LayerNorm with bias, else RMSNorm */
    bool positions;          /* learned position embedding, else RoPE */
    bool gelu;               /* Linear-GELU-Linear, else SwiGLU */
    bool biases;             /* on every linear layer of a block */
    bool qkv_bias;           /* on q, k, v only */
    bool transposed;         /* linear weights stored (in, out) */
    /* init std of residual projections is divided by sqrt(residual_init * layers); 0: not */
    double residual_init;
    const char *embed, *place, *norm1, *norm2, *norm, *head;
    const char *q, *k, *v;   /* k == NULL: q names one module that holds all three */
    const char *o, *gate, *up, *down;   /* up == NULL: gate names the one up projection */
    const char *peft_class;  /* task_type of adapter_config.json */
} Family;

typedef struct {
    Graph *g;
    Config *c;
    Program *p;
    const Family *family;
    Mode mode;
    int region;              /* 0 or the repeat region ops go to */
    Loc loc;                 /* recipe line ops come from */
    int64_t B, T, L, C, H, K, D, F, V;
    int64_t N;               /* rows of a micro-batch that go through the head */
    Dtype act;               /* activations and compute weights */
    bool bias_qkv, bias_o;
    int sites;               /* dropout sites handed out in a block */
    Value *places, *ends;    /* data.kind bfd: of the documents; else NULL */
    Value *noise, *cos, *sin, *tokens, *labels, *scale, *place, *hyper;
    /* batch.targets: where in (B, T) the rows of the head stand, and the inverse; else NULL */
    Value *target_rows, *target_of;
    Value *scaler;           /* fp16: loss scale, steps since it last changed; else NULL */
    Ref x;                   /* the residual stream */
    int block_first, block_last;   /* ops of the block just written: [first, last) */
} Build;

Dim dim(int64_t n, const char *sym);
/* A fresh temporary (or, inside a region, an array of one a layer used at [l]). */
Ref build_temp(Build *b, const char *name, Dtype dt, int rank, const Dim *d);
Op *build_op(Build *b, int kind);
/* An input as the program reads it: that of its micro-batch. */
Ref build_input(const Build *b, Value *v);
/* The parameter of that name; created at its first use. */
Value *build_state(Build *b, const char *prefix, const Value *param, Purpose purpose);

const Family *family_find(const char *name);
void family_shapes(Build *b);              /* reads the model.* fields */
void family_embed(Build *b);
/* reads x[l], leaves x[l+1] in b->x; ops in block_first.. */
void family_block(Build *b);
Ref family_norm(Build *b);                 /* the final norm */
Value *family_head(Build *b);              /* (V, C): the tied embedding or the head's own weight */

/* Appends the backward pass of ops [0, end) of the program, whose last values have the gradients
 * set before. */
void gradient_start(Build *b);
void gradient_set(Ref value, Ref gradient);
void gradient_walk(Build *b, int first, int last);     /* ops [last-1 .. first], straight line */
Value *gradient_of(Build *b, Value *param);             /* $grad.NAME; created at its first use */
/* beta of the next write into a gradient: 1 when something is there already. */
int gradient_beta(Build *b, Value *grad);

#endif
