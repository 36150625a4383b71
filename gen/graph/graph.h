/* graph.h -- inside the graph room: what its files share.
 *
 * With the words of build.c families.c and layers.c write a model's forward pass and gradient.c walks it
 * backwards; programs.c and head.c have the parts of programs, of which a file of objectives/
 * builds those of its objective; graph.c calls it. */
#ifndef GRAPH_H
#define GRAPH_H

#include "gen/config/family.h"
#include "gen/graph/ir.h"
#include "gen/graph/objectives.h"

typedef enum {
    MODE_TRAIN,              /* forward pass whose values the backward pass may use */
    MODE_AGAIN,              /* a block's forward pass repeated inside the backward pass */
    MODE_EVAL,               /* loss only */
    MODE_SCORE,              /* log-probabilities or logits only */
    MODE_DECODE              /* a token of each text, keys and values cached */
} Mode;

/* Equal blocks, one behind the other. A model has one or several, each with a stream of its own. */
typedef struct {
    const char *name;        /* part of its values' names: "" or "top." */
    Dim layers;
    int64_t site;            /* the first of its dropout sites, of adapters and of places alike */
} Stack;

/* Parameters that are updated together, by gradients, a norm and an input `adamw_args` of their own. */
typedef struct {
    const char *name;        /* NULL: "model", which every graph has */
    /* input; fp16: loss scale, steps since it last changed; made at their first use */
    Value *scale, *scaler;
} Set;

/* Derivatives of losses along a gradient, of a pass that computes them: bilevel.h. */
typedef struct Slopes Slopes;

/* The model: its sizes, the rules of its table and head, and what every pass reads. */
typedef struct {
    int64_t C, H, K, D, F, V;
    Dtype act;               /* activations and compute weights */
    int64_t pad;             /* the token whose row learns nothing where it is read; -1: none */
    /* The table of tokens has one row more than models that are taken in, its last; where the table is
     * frozen that row is a parameter of its own, trained beside adapters. */
    bool new_row;
    bool head_bias;          /* a parameter beside the head's weight; at first as the family has it */
    Value *cos, *sin;        /* tables of rotary embeddings; else NULL */
    Value *noise;            /* input: seed and step of what is dropped */
} ModelShape;

/* The attention mask: a word of ops.def, and the inputs that it takes. */
typedef struct {
    const char *word;
    Value *input[2];
} Mask;
#define MASK_CAUSAL ((Mask){"causal", {NULL}})

/* Inputs of the pass being written. A pass on other inputs saves the struct and puts it back. */
typedef struct {
    int64_t B, T;
    const char *batch, *length;   /* the symbols of B and T; NULL: "B", "T" */
    Value *tokens;
    Value *types;            /* of tokens, where the family has a table of them; decode: of the one */
    Value *features;         /* what rows are made of in place of tokens: floats (B, T, X); or NULL */
    Value *places;           /* (B, T): of tokens, where these are not their places in T; else NULL */
    Value *place;            /* decode: of each text's token */
    Mask mask;
    Value *labels;
    /* where their number is bounded: the rows of the head in (B, T), and the inverse; else NULL */
    Value *target_rows, *target_of;
    Value *weights;          /* (B, T) or (N): what each row's loss counts; NULL: 1 */
} PassInputs;

/* What the objective adds to the model. */
typedef struct {
    /* Most targets of a micro-batch, 0: all rows have one: batch.targets, or where that is 0 what
     * the objective knows of its own. */
    int64_t targets;
    int64_t N;               /* rows of a micro-batch that go through the head */
    int nsizes;              /* B, T, N and others: for inputs.def */
    Dim size[8];
    int nsums;               /* that programs add to, the loss first: cleared before a schedule, its results */
    Value *sum[4];
    int nsets;
    Set sets[4];             /* parameter sets; [0]: "model" */
    const char *features_path;    /* of the linear layer of `features` in weights' files */
    /* Where tokens are of no vocabulary: the table of their rows, a value that it makes in the program
     * being written; NULL: a parameter. */
    Ref (*table)(Build *b);
} Added;

/* A graph being built: its parts, and the place where the next op goes. */
struct Build {
    Graph *g;
    Config *c;
    ModelShape model;
    PassInputs in;
    Added added;
    const Family *family;    /* blocks are written for */
    Stack stack;
    Set *set;                /* parameters are made for, and losses and what begins with `set_` are of */
    Program *p;
    Mode mode;
    /* A pass beside the trained one, without gradients: what its values are called, "ref."; nothing is
     * dropped in it. NULL: it is the trained one. */
    const char *pass_prefix;
    /* One more training pass, in a program of its own: what its values are called, "meta.". NULL: the
     * first. */
    const char *program_prefix;
    Slopes *slopes;          /* its backward pass adds to these and writes no gradients; or NULL */
    bool adapters_off;       /* layers without their adapters */
    bool started;            /* trained parameters as the run began with them: build_start() */
    int region;              /* 0 or the repeat region ops go to */
    Loc loc;                 /* recipe line ops come from */
    const char *stage;       /* of the model, that ops belong to; see Op */
    int sites;               /* dropout sites handed out in a block, and behind the blocks */
    int drops;               /* places of a block that may drop, so far */
    Ref x;                   /* what the next step works on; outside: the residual stream */
    Ref kept, to;            /* of a list of steps: what `add` adds to; where the last result goes */
    int adds;                /* so far in the list */
    int block_first, block_last;   /* ops of the block just written: [first, last) */
};

/* build.c */
Dim dim(int64_t n, const char *sym);
Dim dim_batch(const Build *b);             /* sequences of the pass being written, and their places */
Dim dim_places(const Build *b);
Dim dim_hidden(const Build *b);            /* C */
/* A fresh temporary (or, inside a region, an array of one a layer used at [l]). */
Ref build_temp(Build *b, const char *name, Dtype dt, int rank, const Dim *d);
Ref build_like(Build *b, const char *name, Ref x, Dim width);   /* an activation with the rows of x */
Op *build_op(Build *b, int kind);
/* What outlives a program and belongs to no parameter. */
Value *build_kept(Build *b, const char *name, Purpose purpose, Dtype dt, int rank, Dim d0, Dim d1);
/* A trained parameter of b->set, (d0) or (d0, d1), that is no part of the model: fp32 whatever the precision, in
 * checkpoints under its own name, in no model's or adapter's folder; decays. bound: of init "uniform". */
Value *build_aside(Build *b, const char *name, Dim d0, Dim d1, const char *init, double bound);
/* The same values as a trained parameter has when the run begins, which stay: the host keeps them, by
 * model_keep_start(). */
Value *build_start(Build *b, const Value *param);
/* n doubles that programs add to, as the loss: each schedule of losses clears them and gives them to the
 * host. */
Value *build_sum(Build *b, const char *name, int64_t n);
/* A field that the recipe sets and that has no effect beside others is refused, not ignored. */
void build_unused(Build *b, int field, bool used, const char *why);
/* What the values and programs of b->set are called: name, name.SET. */
const char *set_word(const Build *b, const char *name);
/* An input as the program reads it: that of its micro-batch. */
Ref build_input(const Build *b, Value *v);
/* inputs.c: what the host writes, as a row of inputs.def says; one of b->set where the row has one
 * a set. */
Value *input_new(Build *b, const char *name);
Value *input_of_row(Build *b, const InputRow *row);
/* What a row calls by that symbol; the emitted shape.h names it so too. */
void size_add(Build *b, const char *sym, int64_t n);
/* The parameter of that name; created at its first use. */
Value *build_state(Build *b, const char *prefix, const Value *param, Purpose purpose);

/* families.c */
void family_shapes(Build *b);              /* reads the model.* fields */
/* The steps before the blocks, which read b->x and leave their result in `to`. */
void family_first(Build *b, Ref to);
/* reads x[l], leaves x[l+1] in b->x; ops in block_first.. */
void family_block(Build *b);
Ref family_last(Build *b);                 /* from the last block to what the head reads */
Value *family_head_bias(Build *b);         /* (V), or NULL without b->model.head_bias */
Value *family_head(Build *b);              /* (V, C): the tied embedding or the head's own weight */

/* layers.c: layers beside the family's own. */
/* A head that is no vocabulary's: a linear layer with a bias, of that path in weights' files. */
Ref layer_output(Build *b, Ref x, const char *path, Dim width);
/* A linear layer: its matrix (out, in) and its bias. */
typedef struct { Value *w, *b; } Layer;
/* Parameters name.w and name.b, of that path in weights' files. At first zeros, else as those of
 * PyTorch's modules: U(-1/sqrt(in), 1/sqrt(in)). One that is trained may be missing in a model that is
 * taken in; beside adapters it stands in their file. */
Layer layer_beside(Build *b, const char *name, const char *path, Dim in, Dim out, bool zeros, bool trained);
/* The same of n modules, one below the other: each `width` wide; as PyTorch's. */
Layer layer_modules(Build *b, const char *name, int n, const char *const *path, const int64_t *width, Dim in);
Ref layer_apply(Build *b, Layer layer, const char *name, Ref x);   /* x w^T + b, called `name` */
/* Rows (rows, C), at first N(0, std): `tensor` of the module of that path. */
Value *layer_rows(Build *b, const char *name, const char *path, const char *tensor, Dim rows, double std);

/* gradient.c: appends the backward pass of ops [0, end) of the program, whose last values have the
 * gradients set before. */
void gradient_start(Build *b);
/* Elements of the array x have their gradients in those of dx. */
void gradient_stream(Value *x, Value *dx);
/* Where the whole gradient of a value is to be left, for gradient_set(). */
Ref gradient_room(Build *b, Ref value);
void gradient_set(Ref value, Ref gradient);
void gradient_walk(Build *b, int first, int last);     /* ops [last-1 .. first], straight line */
Value *gradient_of(Build *b, Value *param);             /* $grad.NAME; created at its first use */

/* order.c: sets the beta of each write of a gradient, 1 where its schedule has written or cleared it
 * before */
void schedule_betas(Graph *g);
void check_schedules(const Graph *g);

/* ---- programs.c: what objectives build of ---------------------------------------------------- */

/* One way of the residual stream through a stack and what stands before and behind it. Of several
 * stacks each has a pass, made while b->family and b->stack are its own; `from` is what the one
 * below returned. */
typedef struct {
    const Family *family;    /* its blocks, and what stands before and behind them */
    Stack stack;
    Ref from;                /* what its first step reads; v NULL: that makes it of the batch */
    Value *x, *dx;           /* one element a layer boundary; dx NULL: no backward pass */
    int begin;               /* its first op in the program */
    int first, last;         /* ops of the block: [first, last) */
} Pass;
Pass pass_trained(Build *b);                       /* x and its gradient dx */
Pass pass_only(Build *b, const char *name);        /* of the stream */
Ref pass_forward(Build *b, Pass *p);               /* (B, T, C), behind the steps `last` */
/* Its two halves: (B, T, C) behind the last block, and from there; the steps `last` work on each row
 * alone, so that an objective may leave rows out between the two: pass_last(b, head_gather(b,
 * pass_blocks(b, &pass))). pass_backward() walks both and what stands between them. */
Ref pass_blocks(Build *b, Pass *p);
Ref pass_last(Build *b, Ref x);
/* Behind gradient_set() of a value that ops [.., end) made of what pass_forward() returned; a stack
 * above is walked before, and its `begin` is the end. */
void pass_backward(Build *b, const Pass *p, int end);

/* Another parameter group: those that are named first while it is b->set. */
Set *set_add(Build *b, const char *name);

void program_micro(Build *b);                      /* started; its ops are the objective's */
/* Around the program just written, which writes all gradients of some sets: a schedule with, for
 * each of these sets, the programs begin (where micro-batches are accumulated), reduce and update.
 * Behind all programs that write gradients of them. */
void schedule_update(Build *b, const char *name, const char *about);
void schedule_train(Build *b);                     /* the same, as "train" */
/* A schedule that an objective puts together itself: ir_schedule(), schedule_clear() and
 * schedule_result() of what its programs add to, and of these parts. */
void program_prefixed(Build *b, const char *name, Role role, const char *about);   /* see b->program_prefix */
/* The program just written, a turn a micro-batch; gradients that it writes are cleared before. */
void schedule_turns(Build *b, Schedule *s);
/* The programs reduce and update of a set, behind all programs that write its gradients; its norm is
 * a result. */
void schedule_set(Build *b, Schedule *s, Set *set);
void schedule_end(Build *b, Schedule *s);          /* whole: a GPU may capture it */
/* The program just written as a schedule of its own: what the host calls for its result. */
void schedule_alone(Build *b, const char *about, const char *result);
void schedule_loss(Build *b, const char *about);   /* the same for its sums: the loss, those of build_sum() */

void loss_inputs(Build *b);                        /* b->model.noise, the scale; the sum of the losses */
Ref loss_rows(Build *b, Ref y);                    /* one loss a row of y */
void rows_sum(Build *b, Ref rows, Value *sum);    /* adds numbers of rows to one of build_sum() */
void loss_sum(Build *b, Ref losses);               /* adds them to the program's loss */
/* What the losses are multiplied with before the backward pass, which writes gradients of b->set.
 * fp16 gradients would vanish: their scale is adapted on the device (Micikevicius et al. 2018,
 * section 3.2), a scale a set. */
Ref loss_scale(Build *b);

/* As loss_scale(), of another number than the set's input `scale`. */
Ref loss_scale_of(Build *b, Value *scale);

/* head.c: losses over the vocabulary. */
/* b->in.labels, the target of each row that goes through the head, b->added.N; b->in.target_rows and
 * b->in.target_of, which rows those are, unless all do. */
void head_labels(Build *b);
/* The rows of y (B, T, C) that have a target, where their number is bounded: (N, C); else y.
 * y: what a pass returned, or its half. */
Ref head_gather(Build *b, Ref y);
/* Whole programs over the rows that have a target, of which only those go on from the last block:
 * forward and backward; the loss of one micro-batch. */
void head_micro(Build *b);
void head_eval(Build *b);
/* The rows of y at places of (B, T), an input (n), called `what`: (n, C); no gradient. */
Ref head_at(Build *b, const char *what, Ref y, Value *places);
/* Cross-entropy of rows y with b->in.labels, in the program's loss; with b->in.weights, if set, a factor
 * each, and with the head's bias, if b->model.head_bias. */
void head_loss(Build *b, Ref y);
/* The same, dy, and the gradients of the head. */
void head_loss_gradient(Build *b, Ref y, Ref dy);
/* The losses of rows y, a value of that name; not in the program's loss. */
Ref head_losses(Build *b, Ref y, const char *name);
/* The same, dy, and the gradients of the head; weights.v NULL: each row counts 1. */
Ref head_losses_gradient(Build *b, Ref y, Ref dy, Ref weights, const char *name);
/* A reference's rows, (N, C) as y, and the weight of its head. */
typedef struct {
    Ref rows, head;
} Reference;
/* (N) f32 of rows y and of a reference's: the losses of both, and weights times the divergence of the
 * distribution of y from the reference's, over the vocabulary. With `gradients`, of a frozen head, (N, C)
 * of the losses and of kl. */
typedef struct {
    Ref losses, from, kl, dy, dkl;
} Divergence;
Divergence head_divergence(Build *b, Ref y, Reference from, Ref weights, bool gradients);
/* dy and the gradient of the head, of coef (N) times the losses and of kl. */
void head_divergence_gradient(Build *b, Ref y, Ref dy, Reference from, Ref coef, Ref weights);
/* Rows y, (n, C) or those of decode, (n, 1, C), to $logits, (n, V); with the head's bias, if b->model.head_bias. */
void head_logits(Build *b, Ref y);
/* A program and its schedule: a token of each of several texts at its place, the logits of the next. */
void head_decode(Build *b);
void head_decode_of(Build *b, Ref (*last)(Build *b));  /* what `last` makes of the tokens */
/* A program of that name and its schedule: the logits of micro-batch 0 at places that an input has. */
void head_program_at(Build *b, const char *name, const char *input, const char *about);
/* A program and its schedule: $log_probs, that of each row's label (0 without one), without
 * gradients; the program's loss is minus their sum. */
void head_score(Build *b);
/* Rows of logits computed at a time: a divisor of those that go through the head. Of all B*T the
 * largest proper one with room; all at once only when there is no such divisor of at least 16 and
 * they are few. Of a bounded number the largest with room. */
int64_t head_chunk(Build *b);

/* graph_settings.c, model_files.c: what the IR's text says of the recipe. */
void settings_make(Graph *g, Config *c);
void sizes_make(Build *b);
void check_sizes(const Graph *g);
/* A line field=value for each field that model_fields() leaves out, but name, about and those of the cluster. Then
 * further values that mean the same: of batch.global the product, of lora.targets every module. g NULL: all fields. */
char *other_fields(const Graph *g, const Config *c);
char *model_fields(const Config *c);               /* a line field=value each */
char *model_config_json(const Graph *g, Config *c);
char *model_adapter_json(const Graph *g, Config *c);   /* NULL without LoRA */

/* graph.c: the graph of programs that `objective` builds. */
Graph *graph_of(Config *c, void (*objective)(Build *b));

#endif
