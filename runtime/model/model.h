/* model.h -- the built model: tensors, recipe and build facts, emitted into tensors.h.
 *
 * Keeps: a tensor has the same name here, in Hugging Face files, in checkpoints and in messages. */
#ifndef DIECAST_MODEL_H
#define DIECAST_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/files/safetensors.h"

/* Type of a weight or state in memory. EL_REMAINDER: fp32 master weights, stored as remainders of
 * the bf16 weights (split.h); EL_I16: the remainders as whole numbers; EL_U8: codes of
 * dynamic_map.h, as whole numbers; EL_NF4: two codes a byte (nf4_weights.h), not for the two
 * functions below. */
typedef enum { EL_F32, EL_BF16, EL_F16, EL_REMAINDER, EL_I16, EL_U8, EL_NF4 } ElementType;
static inline int64_t element_bytes(ElementType type)
{
    return type == EL_F32 ? 4 : type == EL_U8 ? 1 : 2;
}
/* Type of the stored elements. */
static inline StDtype element_dtype(ElementType type)
{
    static const StDtype of[] = {ST_F32, ST_BF16, ST_F16, ST_I16, ST_I16, ST_U8, ST_U8};
    return of[type];
}
typedef enum { INIT_ZEROS, INIT_ONES, INIT_NORMAL, INIT_UNIFORM } InitKind;

/* A parameter's weights or one of its states in memory. at NULL: there is none. */
typedef struct {
    void *at;
    ElementType type;
    /* 0: every rank has all of it. Else elements that a rank has of each stride of the undivided
     * array, which is ranks * part, from rank * part on; `at` is the first of them.
     * model_parts.h */
    int64_t part;
    /* EL_U8: the largest magnitude of each block of DYNAMIC_BLOCK elements; if the array is
     * divided, of this rank's part. A stride of the undivided array has `blocks` of them. */
    float *absmax;
    int64_t blocks;
} Array;

/* Elements of a tensor in an array that holds those of several: from `first` on; stride: elements
 * from one layer to the next. */
typedef struct {
    void *at;
    int64_t first, stride;
} BlockArray;

/* Access to weights in NF4: nf4_weights.h. Only programs with such weights have that code. */
typedef struct Nf4Access Nf4Access;
extern const Nf4Access nf4_access;

/* Scales of a weight in NF4 and access to its codes: runtime/nf4.h. */
typedef struct {
    const Nf4Access *access; /* &nf4_access, or NULL: the weight is not in NF4 */
    BlockArray absmax;       /* a byte for each block */
    BlockArray nested;       /* a float for each group */
    BlockArray offset;       /* a float */
    ElementType computes;    /* products read the dequantised weight in this type */
} Nf4Blocks;

/* One tensor of a Hugging Face or PEFT file; with layers > 0 and a %d in the name, that tensor of
 * every layer. In memory it is `rows` consecutive rows of a parameter that may hold several tensors
 * (such as q, k and v): elements first + l * stride ... of each of the arrays below. */
typedef struct Tensor Tensor;
struct Tensor {
    const char *name;        /* name in the file, with %d for the layer when layers > 0 */
    int layers;
    int rank;
    int64_t shape[4];        /* as in memory: (out, in) */
    bool transposed;         /* the file stores (in, out), e.g. GPT-2's Conv1D */
    bool adapter;            /* stored in the PEFT adapter file, not in the model file */
    bool optional_in_checkpoint;     /* may be missing from a model folder, with all such tensors:
                                        keeps its initial values then */
    bool extra_vocab_row;    /* a model folder may lack the last row; it becomes the others' mean */
    bool not_in_model;       /* training state, not part of the model: fp32, in checkpoints only */
    bool trained, decay;
    const char *set;         /* name of the parameter group; NULL: "model" */
    InitKind init;
    float init_arg;          /* standard deviation for normal, bound for uniform */
    int64_t first, stride;   /* in elements */
    int64_t pitch;           /* row stride in memory, in elements; 0: rows are contiguous */
    Array weight;            /* read by the kernels */
    Nf4Blocks nf4;
    Array master;            /* fp32 master weights, EL_F32 or EL_REMAINDER; none if weight itself
                                is fp32 or frozen, or rounded stochastically */
    Array exp_avg, exp_avg_sq;            /* fp32 or 8 bit; none if frozen */
    Array grad;              /* fp32; none if frozen */
    Array start;             /* initial weights of the run, if the objective needs them */
    const Tensor *array_of;  /* of absmax_tensor() and nf4_codes_tensor(): whose array it is */
};

/* A LoRA pair and the weight it adapts: weight + scale * b a, with b (out, r), a (r, in), weight
 * (out, in) in memory. Tensor names, with %d for the layer when layers > 0. */
typedef struct {
    const char *weight, *a, *b;
    int layers;
    float scale;             /* alpha / r, or alpha / sqrt(r) */
} Merge;

/* Special token ids from the records, for config.json; -1: not recorded. */
typedef struct {
    int64_t mask, pad;
} SpecialTokens;

/* Parts that the objective adds to a base model that lacks them. */
typedef struct {
    const char *token;       /* text of the token of the last row, which the base's tokenizer lacks;
                                NULL: none */
    const char *layers;      /* prefix of the tensors of layers that are read from the base; NULL:
                                none */
    const char *field;       /* recipe field that, if true, adds and trains these layers instead */
    const char *mark;            /* token at which scores are read; NULL: no score head */
    const char *system;          /* with mark: system prompt before the problem; "": none */
} Additions;

/* Reads and writes adapter folders: runtime/model/hf.h. Only programs with LoRA have that code. */
typedef struct AdapterFolders AdapterFolders;
extern const AdapterFolders hf_adapter_folders;

typedef struct {
    const char *recipe;      /* "recipes/x.lua" */
    const char *name, *hash; /* of the recipe; hash is hex SHA-256 */
    const char *overrides;   /* fields set on gen's command line: "gpus=2 batch.micro=2"; NULL:
                                none */
    const char *order;       /* hash of the recipe's fields that decide the bits in canonical order,
                                which any number of ranks has; NULL: fast order */
    bool updates_in_backward;  /* weights change inside the backward pass: optim.when */
    const char *generator;   /* version of gen */
    const char *cluster;     /* cluster of the recipe; NULL: none */
    const char *ir, *kernels;  /* hex SHA-256 of the planned programs, and of the kernel files */
    const char *objective, *family, *precision, *target;
    const char *model_fields;  /* "model.hidden=64\n...": fields that must match on resume, one per
                                  line */
    const char *other_fields;  /* the other recipe fields; a second line of a field is an
                                  equivalent value */
    const char *config_json; /* config.json of this model as Hugging Face writes it */
    const char *adapter_json;  /* adapter_config.json, or NULL without LoRA */
    const SpecialTokens *special;  /* override those of config.json; NULL: unknown */
    const Additions *additions;  /* NULL: none */
    int64_t micro, accum, ranks;
    int64_t longest;         /* maximum sequence length in tokens */
    int64_t parameters, trained;          /* in elements; a tied tensor counts once */
    int64_t planned_bytes;
    int64_t snapshot_bytes;  /* host memory of rank 0 for a copy of the checkpoint (snapshot.h);
                                0: none */
    int ntensors;
    Tensor *tensors;         /* one per actual tensor (layers expanded by model_expand()) */
    int nmerges;             /* 0 without LoRA */
    const Merge *merges;
    const AdapterFolders *adapter_folders; /* &hf_adapter_folders, or NULL without LoRA */
} Model;

/* Expands rows with layers > 0 into one Tensor per layer (names filled in, layers = 0). rows stay
 * unchanged; the returned array is malloc'ed once at start and lives until exit. */
Tensor *model_expand(const Tensor *rows, int nrows, int *ntensors);
/* Initialises weight and master at random by (seed, name): Philox keyed by seed and a hash of the
 * tensor's name, so neither order nor layout matters. */
void model_init(Model *m, uint64_t seed);
/* The same, but leaves the weights and masters of tensors i with except[i] as they are; NULL: none.
 * The caller writes those next. */
void model_init_except(Model *m, uint64_t seed, const bool *except);
/* For a row trained alongside adapters (PEFT's trainable token): returns the tensor whose last row
 * it replaces;
 * NULL: t is not such a row. */
const Tensor *model_row_of(const Model *m, const Tensor *t);
/* Copies the replaced rows into these rows: after loading the weights that adapters start from.
 * Collective if those are divided. */
void model_take_rows(const Model *m);
/* Sets the last row of t, a tensor of m, to the mean of the others. Collective if t is divided. */
void model_grow(const Model *m, const Tensor *t);
/* Copies weight to start, where it exists: after loading the initial weights. */
void model_keep_start(const Model *m);
/* Returns the number of NaN or Inf weights, of whole arrays those of rank 0; *where: the first
 * tensor that has one. Collective. */
int64_t model_nonfinite(const Model *m, const char **where);
/* Returns the number of NaN or Inf weights of a tensor that this rank counts: of its part, or on
 * rank 0 of the whole array. Any thread. */
int64_t model_nonfinite_here(const Tensor *t);
/* Returns the CRC-32C of names and values (fp32 master weights where they exist) of all tensors in
 * name order: independent of the number of ranks. Collective if arrays are divided. */
uint32_t model_crc(const Model *m);
/* The same over the tensors outside the adapter only: identifies the base of a LoRA run. *whole:
 * the checksum of those that this rank has whole, equal on replicas. */
uint32_t model_base_crc(const Model *m, uint32_t *whole);
/* Returns the CRC-32C of every byte that training changes, weights, fp32 master weights and
 * moments, except of divided parameters (parts_weights_crc()): equal on replicas. */
uint32_t model_state_crc(const Model *m);

/* Returns the arguments of `gen` for this program without the fields in the list "a|b|c", to be set
 * to other values: "recipes/x.lua precision=bf16"; malloc'ed. */
char *model_words(const Model *m, const char *fields);
static inline int64_t model_elements(const Tensor *t)
{
    int64_t n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= t->shape[i];
    return n;
}
/* Returns the embedding's row count if the recipe adds the last row to the base's; 0: it adds
 * none. */
int64_t model_extra_vocab_rows(const Model *m);
/* Returns the tensor with that name, or the one that a PEFT adapter stores whole as
 * "base_model.model.NAME". O(n). Never NULL: ends the program, naming it, if the model has no such
 * tensor. */
const Tensor *model_need(const Model *m, const char *name);
/* "base_model.model.lm_head.weight" -> "lm_head.weight"; other names unchanged. */
const char *model_base_name(const char *name);
/* True if every weight of the tensor is zero; reads its fp32 master copy if it has one. Collective
 * if that is divided. */
bool model_all_zeros(const Tensor *t);
/* Returns its most precise weights: the fp32 master weights if there are any. */
Array model_precise(const Tensor *t);
/* True if some weights are in NF4. */
bool model_has_nf4(const Model *m);
/* Returns the type in which products read the weight. */
ElementType model_computes(const Tensor *t);
/* Copy elements begin .. begin+n-1 of a tensor, in file order (which may be transposed), out of and
 * into one of its arrays. Thread-safe, but model_get() of a divided array: rank 0 may read that in
 * a gather. model_put() writes what this rank has of it; not for EL_REMAINDER, nor EL_NF4, which
 * nf4_weights.h writes. */
void model_get(const Tensor *t, Array array, int64_t begin, int64_t n, float *to);
void model_put(const Tensor *t, Array array, int64_t begin, int64_t n, const float *from);
/* model_get() on every rank. Collective if the array is divided. */
void model_get_everywhere(const Model *m, const Tensor *t, Array array, int64_t begin, int64_t n,
                          float *to);
/* model_put() of weights into all arrays that have them. */
void model_put_weights(const Tensor *t, int64_t begin, int64_t n, const float *from);
/* Adds their remainders to n bf16 weights. */
void model_join(float *weight, const float *remainder, int64_t n);
/* The array of 16-bit remainders as whole numbers; none if the tensor has no EL_REMAINDER. */
static inline Array model_remainder(const Tensor *t)
{
    return t->master.type == EL_REMAINDER ? (Array){t->master.at, EL_I16, t->master.part, NULL, 0}
                                          : (Array){0};
}

/* As model_get() of a divided array, but reads what this rank has of it; the rest becomes 0. In
 * memory order. */
void model_get_own(const Tensor *t, Array array, int64_t begin, int64_t n, float *to);

#endif
