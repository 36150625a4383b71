/* family.h -- model families: the rows of families.def. */
#ifndef FAMILY_H
#define FAMILY_H

#include "gen/util.h"

enum { BIAS_QKV = 1, BIAS_O = 2, BIAS_ATTENTION = BIAS_QKV | BIAS_O, BIAS_FFN = 4, BIAS_DENSE = 8,
       BIAS_HEAD = 16 };

/* A row. Paths are module paths of the Hugging Face class, %d the layer; with %h, the head, of a
 * module for each head. */
typedef struct {
    const char *name, *about;
    const char *first, *block, *last;    /* steps, see families.def */
    const char *norm, *activation;       /* ops */
    const char *eps;         /* default of model.norm_eps */
    const char *eps_e;       /* of norm_e; NULL: as of all norms */
    bool norm_plus;          /* norms multiply by 1 + their weight, which begins at 0 */
    bool rotary;             /* q and k are rotated by their places */
    bool layered;            /* by frequencies of their own in layers whose attention slides: model.full_every */
    int biases;              /* linear layers that have one: BIAS_... */
    bool bias_chosen;        /* model.attention_bias adds BIAS_ATTENTION */
    bool transposed;         /* linear weights of blocks are stored (in, out) */
    bool tied;               /* default of model.tied */
    bool tied_fixed;         /* and its only value */
    /* model.pad names a token whose row learns nothing where it stands: always, or where the recipe has one */
    bool padded, pad_chosen;
    bool whole_heads;        /* heads * head_dim is hidden, keys and values have as many */
    int ffn;                 /* default of model.ffn: so many times hidden; 0: it has to be set */
    /* init std of residual projections is divided by sqrt(residual_init * layers); 0: not */
    double residual_init;
    bool torch_init;         /* matrices, biases and tables start as those of PyTorch's modules do */
    bool torch_attention;    /* and those of attention as MultiheadAttention's */
    double places_std;       /* of the table of places, with torch_init; 0: as other tables */
    bool hidden_drop;        /* model.dropout drops inside the feed-forward part, too */
    bool embedding_kept;     /* and not behind the embedding */
    int type_rows;           /* of the table of token types */
    const char *tokens, *places, *types, *norm_e, *norm1, *norm2, *norm_o, *norm_d, *dense, *norm_f, *head;
    const char *head_bias;               /* NULL: beside the head's weight */
    const char *q, *k, *v, *o;           /* k == NULL: q names one module that holds all three */
    const char *q_norm, *k_norm;         /* rmsnorm of each head before it is rotated; NULL: none */
    const char *gate, *up, *down;        /* gate: of activations that take a pair */
} Family;

/* Of a family with one head: the class of config.json, task_type of PEFT, "": none. */
typedef struct { const char *class, *task; } FamilyClass;

int family_count(void);
const Family *family_row(int i);
const Family *family_find(const char *name);
const FamilyClass *family_class(const char *name, const char *head);    /* NULL: it has none */
/* The head of its class of that name, else of its first; NULL: it has none. */
const char *family_class_head(const char *name, const char *class);
/* "LlamaForCausalLM, LlamaForProcessRewardModel" */
const char *family_classes(const char *name);
/* Whether its config.json says that field. */
bool family_writes(const Family *f, const char *path);
const char *family_leaf(const char *path);                  /* the last name of a path */
/* Modules as PEFT names them, each once; how many: linear layers but the head, those of them that get
 * adapters by default, and embedding and head. */
#define FAMILY_LEAVES 9
/* PEFT's rule: whether a word is the whole path of a module, or its end after a dot ("q_proj", "intermediate.dense").
 * Whether it is of a linear layer of the family. */
bool family_names(const char *word, const char *path);
bool family_has_linear(const Family *f, const char *word);
int family_linears(const Family *f, const char *leaf[FAMILY_LEAVES]);
int family_default_targets(const Family *f, const char *leaf[FAMILY_LEAVES]);
int family_steps(const Family *f, const char *word);        /* how many of that name a block has */
int family_tables(const Family *f, const char *leaf[FAMILY_LEAVES]);
/* What follows of it for the other fields of model. and lora.: of explain and the reference. */
char *family_defaults(const Family *f);

#endif
