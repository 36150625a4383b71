/* family.h -- model families: the rows of families.def. */
#ifndef FAMILY_H
#define FAMILY_H

#include "gen/util.h"

enum { BIAS_QKV = 1, BIAS_O = 2, BIAS_ATTENTION = BIAS_QKV | BIAS_O, BIAS_FFN = 4, BIAS_DENSE = 8,
       BIAS_HEAD = 16 };

/* A row. Paths are module paths of the Hugging Face class; %d is the layer, %h the head, in
 * families with one module per head. */
typedef struct {
    const char *name, *about;
    const char *first, *block, *last;    /* steps, see families.def */
    const char *norm, *activation;       /* ops */
    const char *eps;         /* default of model.norm_eps */
    const char *eps_e;       /* default for norm_e; NULL: that of all norms */
    bool norm_plus;          /* norms multiply by 1 + weight, and weight starts at 0 */
    bool rotary;             /* rotary position embedding of q and k */
    bool layered;  /* sliding-window layers have their own rotary frequencies: model.full_every */
    int biases;              /* linear layers with a bias: BIAS_... */
    bool bias_chosen;        /* model.attention_bias adds BIAS_ATTENTION */
    bool transposed;         /* linear weights of blocks are stored (in, out) */
    bool tied;               /* default of model.tied */
    bool tied_fixed;         /* and its only value */
    /* model.pad names a token whose embedding row is not trained: always, or only if the recipe
     * sets it */
    bool padded, pad_chosen;
    bool whole_heads;        /* heads * head_dim == hidden, and kv_heads == heads */
    int ffn;                 /* default of model.ffn as a multiple of hidden; 0: required */
    /* divides the init std of residual projections by sqrt(residual_init * layers); 0: no
     * scaling */
    double residual_init;
    bool torch_init;         /* PyTorch's default initialisation of matrices, biases and tables */
    bool torch_attention;    /* that of MultiheadAttention for attention */
    double positions_std;  /* init std of the position table, with torch_init; 0: as other tables */
    bool hidden_drop;        /* model.dropout also applies inside the feed-forward part */
    bool embedding_kept;     /* model.dropout does not apply to the embedding */
    int type_rows;           /* rows of the token-type table */
    const char *tokens, *positions, *types, *norm_e, *norm1, *norm2, *norm_o, *norm_d, *dense,
        *norm_f,
        *head;
    const char *head_bias;               /* NULL: in the same module as the head's weight */
    const char *q, *k, *v, *o;           /* k == NULL: q is one module that holds all three */
    const char *q_norm, *k_norm;         /* RMSNorm of each head before rotation; NULL: none */
    const char *gate, *up, *down;        /* gate: for gated activations */
} Family;

/* A family with a given head: class name in config.json, PEFT's task_type ("": none). */
typedef struct { const char *class, *task; } FamilyClass;

int family_count(void);
const Family *family_row(int i);                 /* 0 .. family_count() - 1 */
const Family *family_find(const char *name);     /* bug() if there is none */
bool family_takes_adapters(const Family *f);     /* not with a module per attention head */
const FamilyClass *family_class(const char *name, const char *head);    /* NULL: no such class */
/* The head of the family's class of that name, or of its first class if there is none; NULL: it has
 * no class. */
const char *family_class_head(const char *name, const char *class);
/* All classes, "LlamaForCausalLM, LlamaForProcessRewardModel". */
const char *family_classes(const char *name);
/* True if the family's config.json holds the field. */
bool family_writes(const Family *f, const char *path);
const char *family_leaf(const char *path);                  /* the last name of a path */
/* PEFT's rule: true if word is the whole path of a module, or its end after a dot ("q_proj",
 * "intermediate.dense"). */
bool family_names(const char *word, const char *path);
/* True if word names a linear layer of the family by that rule. */
bool family_has_linear(const Family *f, const char *word);
#define FAMILY_LEAVES 9
/* PEFT's module names, each once; return their number: the linear layers without the head, those of
 * them with adapters by default, and embedding and head. */
int family_linears(const Family *f, const char *leaf[FAMILY_LEAVES]);
int family_default_targets(const Family *f, const char *leaf[FAMILY_LEAVES]);
int family_tables(const Family *f, const char *leaf[FAMILY_LEAVES]);
int family_steps(const Family *f, const char *word);  /* number of steps of that name in a block */
/* The defaults of model. and lora. fields that follow from the family, for gen explain and the
 * reference. */
char *family_defaults(const Family *f);

#endif
