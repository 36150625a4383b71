/* model.h -- what the runtime knows of the model that this binary was built for: tables emitted into tensors.h.
 *
 * Keeps: the same tensor has the same name here, in Hugging Face files, in checkpoints and in messages. */
#ifndef DIECAST_MODEL_H
#define DIECAST_MODEL_H

#include <stdbool.h>
#include <stdint.h>

typedef enum { EL_F32, EL_BF16, EL_F16 } ElementType;          /* of a weight in memory */
typedef enum { INIT_ZEROS, INIT_ONES, INIT_NORMAL, INIT_UNIFORM } InitKind;

/* One tensor of a Hugging Face or PEFT file, or, with layers > 0 and a %d in the name, the same tensor of every layer.
 * In memory it is `rows` consecutive rows of a parameter that may hold several tensors (q, k and v, say): elements
 * first + l * stride ... of each of the arrays below, which all have the same layout. */
typedef struct {
    const char *name;        /* file's name, with %d for the layer when layers > 0 */
    int layers;
    int rank;
    int64_t shape[4];        /* as in memory: (out, in) */
    bool transposed;         /* the file holds (in, out), e.g. GPT-2's Conv1D */
    bool adapter;            /* lives in the PEFT adapter file, not in the model file */
    bool added;              /* a model's folder may be without all that are: they keep their first values */
    bool grown;              /* a model's folder may be without the last row: then it is the mean of the others */
    bool aside;              /* of the training, not of the model: in checkpoints alone, fp32 */
    bool trained, decay;
    const char *set;         /* of the parameters that are updated together; NULL: "model" */
    InitKind init;
    float init_arg;          /* standard deviation of normal, bound of uniform */
    int64_t first, stride;   /* in elements */
    int64_t pitch;           /* elements from row to row in memory; 0: rows lie side by side */
    ElementType type;        /* of weight */
    void *weight;            /* what the kernels read */
    float *master;           /* fp32 copy that is trained; NULL when weight itself is fp32 or frozen */
    float *exp_avg, *exp_avg_sq, *grad;   /* NULL when frozen */
    void *start;             /* of type: weight as the run began with it; NULL: no program reads it */
} Tensor;

/* A LoRA pair and the weight it adds to: weight + scale * b a, b (out, r), a (r, in), weight (out, in) in memory. The
 * names are those of tensors, with %d for the layer when layers > 0. */
typedef struct {
    const char *weight, *a, *b;
    int layers;
    float scale;             /* alpha / r, or alpha / sqrt(r) */
} Merge;

/* Ids that the records tell of, for config.json; -1: they do not. */
typedef struct {
    int64_t mask, pad;
} SpecialTokens;

/* What the objective adds to a base model that may lack it. */
typedef struct {
    const char *token;       /* text of the last row's token, which the base's tokenizer lacks; NULL: none */
    const char *layers;      /* prefix of the tensors of layers that are read from the base; NULL: none */
    const char *field;       /* which, set to true, adds and trains these layers instead */
    const char *mark;            /* the token that scores are read at; NULL: it has no score head */
    const char *system;          /* of mark: what the model is told before the problem; "": nothing */
} Additions;

typedef struct {
    const char *recipe;      /* "recipes/x.lua" */
    const char *name, *hash; /* of the recipe; hash is hex sha256 */
    const char *overrides;   /* fields that gen's command line set: "gpus=2 batch.micro=2"; NULL: none */
    const char *generator;   /* version of gen */
    const char *cluster;     /* the recipe's; NULL: none */
    const char *ir, *kernels;  /* hex sha256 of the planned programs, and of the kernels' files */
    const char *objective, *family, *precision, *target;
    const char *model_fields;  /* "model.hidden=64\n..." every field that must agree on resume, one a line */
    const char *other_fields;  /* the recipe's other fields; a field with several lines has any of their values */
    const char *config_json; /* config.json of this model as Hugging Face writes it */
    const char *adapter_json;  /* adapter_config.json, or NULL without LoRA */
    const SpecialTokens *special;  /* go before those of config.json; NULL: nobody has told */
    const Additions *additions;  /* NULL: none */
    int64_t micro, accum, ranks;
    int64_t longest;         /* tokens of a sequence, at most */
    int64_t parameters, trained;          /* elements; a tied tensor once */
    int64_t planned_bytes;
    int ntensors;
    Tensor *tensors;         /* one an actual tensor (layers expanded by model_expand) */
    int nmerges;             /* 0 without LoRA */
    const Merge *merges;
} Model;

/* Expands rows with layers > 0 into one Tensor a layer (names filled in, layers = 0). rows stay untouched; the list is
 * malloc'ed once at start and lives until exit. */
Tensor *model_expand(const Tensor *rows, int nrows, int *ntensors);
/* Random initialisation from (seed, name): Philox keyed by seed and a hash of the tensor's name, so that neither order
 * nor layout matters. Fills weight and master. */
void model_init(Model *m, uint64_t seed);
/* A row that is trained beside adapters, PEFT's trainable token: the tensor whose last row it stands for; NULL: t is
 * none. */
const Tensor *model_row_of(const Model *m, const Tensor *t);
/* Such rows <- the rows that they stand for: with the weights that adapters begin with. */
void model_take_rows(const Model *m);
/* The last row of t <- the mean of the others. */
void model_grow(const Tensor *t);
/* start <- weight, where there is one: with the weights that the run begins with. */
void model_keep_start(const Model *m);
/* weight <- master, rounded once (16-bit recipes), for every tensor that has a master. */
void model_round(Model *m);
/* Number of NaN or Inf weights; *where = the first tensor that has one. */
int64_t model_nonfinite(const Model *m, const char **where);
/* crc32c over name and values (fp32 copies where there are any) of all tensors in order of name: equal on every world
 * size. */
uint32_t model_crc(const Model *m);
/* The same over the tensors of the model outside the adapter only: the identity of the base of a LoRA run. */
uint32_t model_base_crc(const Model *m);
/* crc32c over every byte of what training changes, weights, their fp32 copies and moments: equal on ranks that are
 * replicas. */
uint32_t model_state_crc(const Model *m);

/* The words after `gen` that make this program with other values of fields, a list "a|b|c" of what is left out:
 * "recipes/x.lua precision=bf16". malloc'ed. */
char *model_words(const Model *m, const char *fields);
int64_t model_elements(const Tensor *t);
/* Rows of the embedding when the recipe adds the last one to those of the base; 0: it adds none. */
int64_t model_rows_grown(const Model *m);
/* The tensor with that name, or the one that a PEFT adapter stores whole under "base_model.model.NAME". O(n).
 * Ends the program with the name where the model has no such tensor; never NULL. */
const Tensor *model_need(const Model *m, const char *name);
/* "base_model.model.lm_head.weight" -> "lm_head.weight"; other names unchanged. */
const char *model_base_name(const char *name);
/* Elements begin .. begin+n-1 of a tensor, in the order of its file (which may be transposed), out of and into one of
 * its arrays. array: t->weight with t->type, or an fp32 array with EL_F32. Any thread. */
void model_get(const Tensor *t, const void *array, ElementType type, int64_t begin, int64_t n, float *to);
void model_put(const Tensor *t, void *array, ElementType type, int64_t begin, int64_t n, const float *from);

#endif
