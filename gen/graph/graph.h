/* graph.h -- inside the graph room: what its files share.
 *
 * With the words of build.c families.c writes a model's forward pass and gradient.c walks it
 * backwards; programs.c and head.c have the parts of programs, of which a file of objectives/
 * builds those of its objective; graph.c calls it. */
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
    int nsizes;              /* B, T, N and what the objective adds: for inputs.def */
    Dim size[8];
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

/* build.c */
Dim dim(int64_t n, const char *sym);
/* A fresh temporary (or, inside a region, an array of one a layer used at [l]). */
Ref build_temp(Build *b, const char *name, Dtype dt, int rank, const Dim *d);
Op *build_op(Build *b, int kind);
/* What outlives a program and belongs to no parameter. */
Value *build_kept(Build *b, const char *name, Purpose purpose, Dtype dt, int rank, Dim d0, Dim d1);
/* An input as the program reads it: that of its micro-batch. */
Ref build_input(const Build *b, Value *v);
/* inputs.c: what the host writes, as a row of inputs.def says. */
Value *input_new(Build *b, const char *name);
Value *input_of_row(Build *b, const InputRow *row);
/* What a row calls by that symbol; the emitted shape.h names it so too. */
void size_add(Build *b, const char *sym, int64_t n);
/* The parameter of that name; created at its first use. */
Value *build_state(Build *b, const char *prefix, const Value *param, Purpose purpose);

/* families.c */
const Family *family_find(const char *name);
void family_shapes(Build *b);              /* reads the model.* fields */
void family_embed(Build *b);
/* reads x[l], leaves x[l+1] in b->x; ops in block_first.. */
void family_block(Build *b);
Ref family_norm(Build *b);                 /* the final norm */
Value *family_head(Build *b);              /* (V, C): the tied embedding or the head's own weight */

/* gradient.c: appends the backward pass of ops [0, end) of the program, whose last values have the
 * gradients set before. */
void gradient_start(Build *b);
void gradient_set(Ref value, Ref gradient);
void gradient_walk(Build *b, int first, int last);     /* ops [last-1 .. first], straight line */
Value *gradient_of(Build *b, Value *param);             /* $grad.NAME; created at its first use */
/* beta of the next write into a gradient: 1 when something is there already. */
int gradient_beta(Build *b, Value *grad);

/* ---- programs.c: what objectives build of ---------------------------------------------------- */

/* One way of the residual stream through embedding, blocks and final norm. */
typedef struct {
    Value *x, *dx;           /* one element a layer boundary; dx NULL: no backward pass */
    int first, last;         /* ops of the block, in the program: [first, last) */
} Pass;
Pass pass_trained(Build *b);                       /* x and its gradient dx */
Pass pass_only(Build *b, const char *name);        /* of the stream */
Ref pass_forward(Build *b, Pass *p);               /* (B, T, C), behind the final norm */
/* Behind gradient_set() of a value that ops [.., end) made of what pass_forward() returned. */
void pass_backward(Build *b, const Pass *p, int end);

/* Programs that are alike in objectives. begin is there only where micro-batches are accumulated;
 * it, reduce and update come behind all that write gradients. */
void program_micro(Build *b);                      /* started; its ops are the objective's */
void program_begin(Build *b);
void program_reduce(Build *b);
void program_update(Build *b);

void loss_inputs(Build *b);                        /* b->scale, b->noise; the sum of the losses */
Ref loss_rows(Build *b, Ref y);                    /* one loss a row of y */
void loss_sum(Build *b, Ref losses);               /* adds them to the program's loss */
/* What the losses are multiplied with before the backward pass. fp16 gradients would vanish: their
 * scale is adapted on the device (Micikevicius et al. 2018, section 3.2). */
Ref loss_scale(Build *b);

/* head.c: losses over the vocabulary. */
/* b->labels, the target of each row that goes through the head, b->N; b->target_rows and
 * b->target_of, which rows those are, unless all do. */
void head_labels(Build *b);
/* The rows of y (B, T, C) that have a target, where the recipe bounds their number: (N, C). */
Ref head_gather(Build *b, Ref y);
/* Rows of logits computed at a time: a divisor of those that go through the head. Of all B*T the
 * largest proper one with room; all at once only when there is no such divisor of at least 16 and
 * they are few. With batch.targets the largest with room. */
int64_t head_chunk(Build *b);

/* objectives/NAME.c: inputs and programs. */
#define OBJECTIVE(name, about) void name##_build(Build *b);
#include "gen/config/objectives.def"
#undef OBJECTIVE

#endif
