/* graph.h -- construction of graphs: interface between the files of the graph room.
 *
 * build.c creates values and ops. With it, families.c and layers.c write a model's forward pass and
 * gradient.c its backward pass; programs.c and head.c have the parts from which a file of
 * objectives/ builds the programs of its objective. graph.c runs them. */
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
    MODE_DECODE              /* one token of each text, with a KV cache */
} Mode;

/* A stack of equal blocks. A model has one or more, each with its own residual stream. */
typedef struct {
    const char *name;        /* prefix of its values: "" or "top." */
    Dim layers;
    int64_t site;            /* first dropout site, for adapters and for other dropout */
} Stack;

/* A parameter group: has its own gradients, norm and input `adamw_args`. */
typedef struct {
    const char *name;        /* NULL: "model", which every graph has */
    /* loss scale (input); fp16: scale and steps since it last changed. Created on first use. */
    Value *scale, *scaler;
} Set;

/* Derivatives of per-sample losses along a gradient: bilevel.h. */
typedef struct Jvp Jvp;

/* Sizes of the model, options of its embedding and head, and values that every pass reads. */
typedef struct {
    int64_t C, H, K, D, F, V;
    Dtype act;               /* activations and compute weights */
    int64_t pad;             /* token whose embedding row gets no gradient; -1: none */
    /* The embedding has one row more than the imported model, its last. If the embedding is frozen,
     * this row is a separate parameter, trained along with adapters. */
    bool new_row;
    bool head_bias;          /* the head has a bias; initially as in the family */
    Value *cos, *sin;        /* tables of rotary embeddings; else NULL */
    Value *noise;            /* input: dropout seed and step */
} ModelShape;

/* Attention mask: value of the attribute in ops.def, and its inputs. */
typedef struct {
    const char *word;
    Value *input[2];
} Mask;
#define MASK_CAUSAL ((Mask){"causal", {NULL}})

/* Rows of a sequence's activations: input `at` of shape (n), indices into (B, T) or -1; `inverse`
 * of shape (B, T), the index in `at` or -1, which a backward pass needs, else NULL. name: of values
 * with these rows. */
typedef struct {
    const char *name;
    Value *at, *inverse;
} Rows;

/* Inputs of the current pass. A pass on other inputs saves and restores the struct. */
typedef struct {
    int64_t B, T;
    const char *batch, *length;   /* symbols of B and T; NULL: "B", "T" */
    Value *tokens;
    Value *types;            /* token types, if the family has a type table; else NULL */
    Value *features;         /* floats (B, T, X) instead of tokens; or NULL */
    Value *positions;        /* (B, T): positions of tokens, if not their indices in T; else NULL */
    Value *position;         /* decode: position of each text's token */
    Mask mask;
    Value *labels;
    /* if the number of targets is bounded: indices of the head's rows in (B, T), and the inverse;
     * else NULL */
    Value *target_rows, *target_of;
    Value *weights;          /* (B, T) or (N): loss weight of each row; NULL: 1 */
} PassInputs;

/* Additions of the objective to the model. */
typedef struct {
    /* Bound of the targets in a micro-batch: batch.targets, or if that is 0 the objective's own
     * bound; 0: every row has a target. */
    int64_t targets;
    int64_t N;               /* rows of a micro-batch that pass through the head */
    int nsizes;              /* size_add(): B, T, N and others */
    Size size[16];
    /* running sums of programs, the loss first: cleared before a schedule, and its results */
    int nsums;
    Value *sum[4];
    int nsets;
    Set sets[4];             /* parameter groups; [0]: "model" */
    const char *features_path;    /* module path of the linear layer of `features` */
    /* Writes the embedding table as a value of the current program, if tokens are not from a
     * vocabulary; NULL: the table is a parameter. */
    Ref (*table)(Build *b);
} Added;

/* A graph under construction, and the position of the next op. */
struct Build {
    Graph *g;
    Config *c;
    ModelShape model;
    PassInputs in;
    Added added;
    const Family *family;    /* family of the current blocks */
    Stack stack;
    Set *set;                /* current group, for new parameters, losses and set_...() */
    Program *p;
    Mode mode;
    /* Prefix of values of a pass without gradients and dropout, such as "ref."; NULL: the trained
     * pass. */
    const char *pass_prefix;
    /* Prefix of values of a further training pass in its own program, such as "meta."; NULL: the
     * first. */
    const char *program_prefix;
    Jvp *jvp;                /* the backward pass adds to these instead of gradients; or NULL */
    /* Gradients of parameters are temporaries of the program, PREFIXgrad.PARAM; NULL: $grad.PARAM,
     * which updates read. */
    const char *gradient_prefix;
    bool adapters_off;       /* layers ignore their adapters */
    bool started;            /* parameters are read with their initial values: build_start() */
    int region;              /* current repeat region; 0: none */
    Loc loc;                 /* recipe line of new ops */
    const char *stage;       /* stage of new ops; see Op */
    int sites;               /* dropout sites allocated so far in a block and after the blocks */
    int drops;               /* ops of the block with dropout so far */
    Ref x;                   /* input of the next step; outside of steps, the residual stream */
    Ref residual, to;        /* in a list of steps: operand of `add`; destination of the last */
    int adds;                /* `add` steps of the list so far */
    Rows last;               /* in the last layer, if it is apart: its rows after attention */
    int block_first, block_last;   /* ops of the last block: [first, last) */
    unsigned words_kept;     /* words of memory.keep with an effect: bit of their row in kept.def */
};

/* build.c */
Dim dim(int64_t n, const char *sym);
Dim dim_batch(const Build *b);             /* sequences of the current pass */
Dim dim_positions(const Build *b);         /* positions of the current pass */
Dim dim_hidden(const Build *b);            /* C */
/* Creates a temporary; inside a region, an array with one element per layer, used at [l]. */
Ref build_temp(Build *b, const char *name, Dtype dt, int rank, const Dim *d);
/* Creates an activation with the rows of x and that width. */
Ref build_like(Build *b, const char *name, Ref x, Dim width);
/* Returns these rows of y (B, T, C) as a value (n, C), zeros for index -1. */
Ref build_rows(Build *b, Ref y, Rows rows);
/* Reference to the current layer's element. */
Ref build_use(const Build *b, Value *v);
bool build_in_block(const Build *b);       /* new ops belong to a layer of the stack */
Op *build_op(Build *b, int kind);
/* Creates a state value that belongs to no parameter. */
Value *build_persistent(Build *b, const char *name, Purpose purpose, Dtype dt, int rank, Dim d0,
                        Dim d1);
/* Creates a trained parameter of b->set outside of the model, (d0) or (d0, d1): fp32 in every
 * precision, with weight decay, stored under its own name in checkpoints but in no model or adapter
 * folder. bound: of init "uniform". */
Value *build_extra_param(Build *b, const char *name, Dim d0, Dim d1, const char *init,
                         double bound);
/* Returns a value with the initial weights of a trained parameter, constant during the run; the
 * host fills it in model_keep_start(). */
Value *build_start(Build *b, const Value *param);
/* Returns the size n under the symbol sym, for dimensions of values and rows of inputs.def. The
 * emitted shape.h has it by that name, with `about` as its comment. A symbol has one size. */
Dim size_add(Build *b, const char *sym, int64_t n, const char *about);
const Size *size_find(const Build *b, const char *sym);   /* NULL: there is none */
/* Creates sums of a micro-batch, n doubles, like the loss: every schedule of losses clears them and
 * returns them to the host. n > 1: the size has the value's name in capitals. */
Value *build_sum(Build *b, const char *name, int64_t n);
/* Creates doubles of shape (d), which every micro-batch has apart: build_input(). */
Value *build_of_micro(Build *b, const char *name, Dim d);
/* Ends the program if the recipe sets the field although it has no effect (used is false). */
void build_unused(Build *b, int field, bool used, const char *why);
/* Name of a value or program of b->set: name, or name.SET. */
const char *set_word(const Build *b, const char *name);
/* Reference to the current micro-batch's input or sums. */
Ref build_input(const Build *b, Value *v);
/* inputs.c: creates the input of that row of inputs.def, for b->set if the row has one per
 * group. */
Value *input_new(Build *b, const char *name);
/* Returns the state PREFIX.PARAM of a parameter, created on first use. */
Value *build_state(Build *b, const char *prefix, const Value *param, Purpose purpose);
/* The same, of another type than fp32. */
Value *build_state_as(Build *b, const char *prefix, const Value *param, Purpose purpose,
                      Dtype dtype);

/* ---- moment_types.c: moments in 8 bit -------------------------------------------------------- */

/* True if the parameter's moments are stored in 8 bit. After all programs that read it. */
bool moments_are_8bit(const Build *b, const Value *param);
/* Returns the largest magnitudes of the blocks of an 8-bit moment, (tensors, blocks of a tensor),
 * created on first use. */
Value *build_absmax(Build *b, const Value *moment);
/* Ends the program if the recipe sets 8-bit moments, but none can be stored in 8 bit. */
void check_moments(const Build *b);

/* families.c */
void family_shapes(Build *b);              /* reads the model.* fields */
/* Writes the steps before the blocks, from b->x to `to`. */
void family_first(Build *b, Ref to);
/* Writes a block from x[l] to x[l+1], which becomes b->x; its ops are [block_first, block_last). */
void family_block(Build *b);
/* Writes the last block outside of the loop, from x[L-1] = b->x; after attention it computes only
 * `rows`. Returns them, (n, C). */
Ref family_last_block(Build *b, Rows rows);
Ref family_last(Build *b);                 /* steps from the last block to the head */
Value *family_head_bias(Build *b);         /* (V), or NULL without b->model.head_bias */
Value *family_head(Build *b);              /* (V, C): the tied embedding or the head's own weight */

/* layers.c: layers in addition to the family's. */
/* A linear layer: matrix (out, in) and bias. */
typedef struct { Value *w, *b; } Layer;
/* Creates parameters name.w and name.b with that module path, initialised to zeros or as in
 * PyTorch, U(-1/sqrt(in), 1/sqrt(in)). If trained, an imported model may lack them; with adapters
 * they are stored in the adapter's file. */
Layer layer_added(Build *b, const char *name, const char *path, Dim in, Dim out, bool zeros,
                  bool trained);
/* The same for n modules as one matrix, module i with width[i] of its `out` rows; initialised as in
 * PyTorch. */
Layer layer_modules(Build *b, const char *name, int n, const char *const *path,
                    const int64_t *width, Dim in, Dim out);
Ref layer_apply(Build *b, Layer layer, const char *name, Ref x);   /* x w^T + b, named `name` */
/* Creates a table (rows, C), initialised to N(0, std): `tensor` of the module of that path. */
Value *layer_rows(Build *b, const char *name, const char *path, const char *tensor, Dim rows,
                  double std);

/* gradient.c: the backward pass of ops of the current program. Set the gradients of its results
 * first. */
void gradient_start(Build *b);
/* The gradient of x[i] is dx[i], for every element i. */
void gradient_stream(Value *x, Value *dx);
/* Creates a value for the complete gradient of `value`, for gradient_set(). */
Ref gradient_room(Build *b, Ref value);
void gradient_set(Ref value, Ref gradient);
void gradient_walk(Build *b, int first, int last);     /* of ops [first, last), in reverse */
/* $grad.NAME, or that of b->gradient_prefix, created on first use */
Value *gradient_of(Build *b, Value *param);

/* keep.c: of a block, n ops from `block` on, which are repeated from `again` on, the ops after
 * read the values that memory.keep names from the former. */
void keep_values(Build *b, int block, int again, int n);
/* Ends the program if the recipe sets a word of memory.keep that keeps nothing. */
void check_kept(const Build *b);

/* order.c: sets beta of every gradient write: 1 if its schedule wrote or cleared the gradient
 * before, else 0. */
void schedule_betas(Graph *g);
void check_schedules(const Graph *g);

/* True if gradients are added micro-batch by micro-batch, on any number of ranks. */
bool is_canonical(const Build *b);
/* True if the gradient's tensors are large enough for shares (runtime/shares.h), and have them. */
bool gradient_has_shares(const Build *b, const Value *gradient);
/* True if sums of gradients are divided over ranks: memory.zero = 2 or 3. */
bool gradients_are_divided(const Build *b);
/* True if a layer's gradient is summed over ranks, or its divided weight gathered, while another
 * layer is computed: comm.overlap, on a GPU. */
bool is_overlapped(const Build *b, const Value *v);
/* fold.c: in canonical order, or if their sums are divided, has programs write each micro-batch's
 * gradients apart, and adds them to those of the update. After all programs exist. */
void fold_gradients(Build *b);
/* True if matrices of b->set are updated inside the backward pass (optim.when): those of the
 * model. */
bool updates_in_backward(const Build *b);
/* update_place.c: makes a temporary of each gradient of b->set that a program can complete and
 * whose parameter it can update, once all programs that write gradients of the group exist. */
void gradients_in_backward(Build *b);
/* The only program that writes v; NULL: there are several. */
Program *only_writer(const Graph *g, const Value *v);
/* The op after which the program may update the parameter of a gradient; -1: none, or a layer's
 * gradient would have to wait for the end of its loop. */
int update_place(const Graph *g, const Program *p, const Value *gradient);
/* backward_update.c: adds the updates of these parameters to the programs, after all of them
 * exist. */
void update_in_backward(Build *b);
/* programs.c: appends AdamW of the gradient, or of the element of it, and of its parameter; norm:
 * not finite if the update is to be left out. */
void update_op(Build *b, Ref gradient, Ref norm);
/* The sum of squares of the gradients of b->set that were updated inside the backward pass. */
Value *set_squares(Build *b);
/* Gives trained parameters, their gradients and states the layout that memory.zero requires, after
 * all of them exist; ends the program if nothing is large enough. */
void divide_states(Build *b);

/* ---- programs.c: building blocks of objectives ----------------------------------------------- */

/* A pass of the residual stream through a stack and the steps before and after it. With several
 * stacks there is one pass for each, created while b->family and b->stack are those of its stack;
 * `from` is the result of the stack below. */
typedef struct {
    const Family *family;    /* of the blocks and the steps around them */
    Stack stack;
    Dim loop;                /* blocks of the loop: all, or all but the last */
    Ref from;                /* input of the first step; v NULL: the batch */
    /* one element per layer boundary, without the last if the last layer is apart; dx NULL: no
     * backward pass */
    Value *x, *dx;
    int begin;               /* its first op in the program */
    int first, last;         /* ops of the block: [first, last) */
} Pass;
Pass pass_trained(Build *b);                       /* with gradients */
Pass pass_only(Build *b, const char *name);        /* without; name: of the stream */
Ref pass_forward(Build *b, Pass *p);               /* (B, T, C), after the steps `last` */
/* The same of some rows, (n, C); rows.at NULL: of all. The steps `last` work on each row alone, so
 * they compute only these rows; if last_layer_is_apart(), so do those after the last attention. */
Ref pass_rows(Build *b, Pass *p, Rows rows);
bool last_layer_is_apart(const Build *b);          /* kernels.last_layer */
/* Ends the program if the last layer is apart, but gradients are summed within the loop over all.
 * After all programs exist. */
void check_overlap(const Build *b);
/* Writes the backward pass of ops up to `end`, which computed the value of gradient_set() from the
 * result of pass_forward(). Of several stacks the upper one goes first; its `begin` is the end of
 * the next. */
void pass_backward(Build *b, const Pass *p, int end);
/* Its parts: the steps after the blocks, a block within a region, the steps before the blocks. */
void pass_backward_last(Build *b, const Pass *p, int end);
void pass_backward_block(Build *b, const Pass *p);
void pass_backward_first(Build *b, const Pass *p);

/* Adds a parameter group. Parameters created while b->set points to it belong to it. */
Set *set_add(Build *b, const char *name);

void program_micro(Build *b);                      /* begins it; the objective appends its ops */
/* Adds a schedule around the last program, which must write all gradients of one or more groups.
 * For each of these groups the schedule has the programs begin (only if micro-batches are
 * accumulated), reduce and update. Call this after all programs that write those gradients. */
void schedule_update(Build *b, const char *name, const char *about);
void schedule_train(Build *b);                     /* the same, as "train" */
/* Parts of a schedule that an objective composes itself, with ir_schedule(), schedule_clear() and
 * schedule_result() for its sums. */
/* Begins a program whose values have the prefix b->program_prefix. */
void program_prefixed(Build *b, const char *name, Role role, const char *about);
/* Appends the last program, one turn per micro-batch; clears the gradients it writes first. */
void schedule_turns(Build *b, Schedule *s);
/* Appends the programs reduce and update of a group, after all programs that write its gradients;
 * its gradient norm is a result. */
void schedule_set(Build *b, Schedule *s, Set *set);
void schedule_end(Build *b, Schedule *s);          /* complete: a GPU may capture it */
/* Gives the last program a schedule of its own, which the host calls to get `result`. */
void schedule_alone(Build *b, const char *about, const char *result);
/* As schedule_alone(), but returns the program's sums: the loss and those of build_sum(). */
void schedule_loss(Build *b, const char *about);

void loss_inputs(Build *b);                        /* b->model.noise, loss scale, loss sum */
Ref loss_rows(Build *b, Ref y);                    /* f32, one loss per row of y */
void rows_sum(Build *b, Ref rows, Value *sum);     /* adds to a sum of build_sum() */
void loss_sum(Build *b, Ref losses);               /* adds to the program's loss */
/* Factor of the losses before the backward pass of b->set. In fp16, where gradients would vanish,
 * it is adapted on the device, separately for each group (Micikevicius et al. 2018, section
 * 3.2). */
Ref loss_scale(Build *b);

/* The same for another factor than the group's input `scale`. */
Ref loss_scale_of(Build *b, Value *scale);

/* head.c: losses over the vocabulary. */
/* Creates b->in.labels, the targets of the b->added.N rows of the head and, unless these are all
 * rows, b->in.target_rows and b->in.target_of. */
void head_labels(Build *b);
/* The rows that have a target; .at NULL if their number is not bounded: all. */
Rows head_rows_read(const Build *b);
/* Complete programs of the rows with a target: head_micro()
 * forward and backward, head_eval() the loss of a micro-batch. */
void head_micro(Build *b);
void head_eval(Build *b);
/* Adds the cross-entropy of rows y with b->in.labels to the program's loss, weighted by
 * b->in.weights if set, with the head's bias if b->model.head_bias. */
void head_loss(Build *b, Ref y);
/* The same, with gradients dy and those of the head. */
void head_loss_gradient(Build *b, Ref y, Ref dy);
/* Returns the losses of rows y as a value of that name; does not add to the program's loss. */
Ref head_losses(Build *b, Ref y, const char *name);
/* The same, with gradients dy and those of the head; weights.v NULL: weight 1. */
Ref head_losses_gradient(Build *b, Ref y, Ref dy, Ref weights, const char *name);
/* Hidden states (N, C) of a reference model, and its head's weight. */
typedef struct {
    Ref rows, head;
} Reference;
/* For rows y and a reference, each (N) f32: losses of both, and weights times the KL divergence of
 * y's distribution over the vocabulary from the reference's. With `gradients` (frozen head) also
 * the gradients (N, C) of losses and kl. */
typedef struct {
    Ref losses, from, kl, dy, dkl;
} Divergence;
Divergence head_divergence(Build *b, Ref y, Reference from, Ref weights, bool gradients);
/* Computes dy and the head's gradient for coef (N) times the losses, plus kl. */
void head_divergence_gradient(Build *b, Ref y, Ref dy, Reference from, Ref coef, Ref weights);
/* Adds a program and schedule for generation: reads one token of each text at its position and
 * computes the logits of the next. */
void head_decode(Build *b);
void head_decode_of(Build *b, Ref (*last)(Build *b));  /* last: from the tokens to the head */
/* Adds a program and schedule of that name: logits of micro-batch 0 at the positions in `input`. */
void head_program_at(Build *b, const char *name, const char *input, const char *about);
/* Returns the number of logit rows computed at a time, a divisor of the head's rows: the largest
 * that fits and, if all B*T rows pass through the head, is less than all of them; all only if they
 * are few and no such divisor is at least 16. */
int64_t head_chunk(Build *b);

/* graph_settings.c, model_files.c: recipe values in the text of the IR. */
void settings_make(Graph *g, Config *c);
void sizes_make(Build *b);
void check_sizes(const Graph *g);
/* Returns a line field=value for each field that is not in model_fields(), except name, about and
 * cluster fields. A second line of a field is an equivalent value: of batch.global the product, of
 * lora.targets, whose first line may be in model_fields(), the list of all modules. g NULL: all
 * fields. */
char *other_fields(const Graph *g, const Config *c);
char *model_fields(const Config *c);               /* lines field=value */
char *model_config_json(const Graph *g, Config *c);
char *model_adapter_json(const Graph *g, Config *c);   /* NULL without LoRA */

/* graph.c: the graph of programs that `objective` builds. */
Graph *graph_of(Config *c, void (*objective)(Build *b));

#endif
