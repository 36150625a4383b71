/* hf.h -- Hugging Face model folders and PEFT adapter folders, in and out.
 *
 * In:    folders that may be hostile: checked before use, read in pieces of a few MiB.
 * Keeps: one line and an exit code: 80 no such folder or an output folder that is not ours to
 *        replace, 83 a sound folder of another model, 88 a damaged one (truncated, not JSON, NaN),
 *        90 an output that cannot be written, or a machine that fails. */
#ifndef DIECAST_HF_H
#define DIECAST_HF_H

#include <cjson/cJSON.h>

#include "runtime/model/model.h"

/* Larger models are written as shards of at most this many bytes. */
#define HF_SHARD_BYTES UINT64_C(50000000000)

/* Model folder -> weights and fp32 copies of every tensor outside the adapter. A tensor that the
 * adapter file holds as a whole (a trained head) begins as the folder's tensor of that name when
 * there is one, or as the embedding when config.json ties them. */
void hf_load(Model *m, const char *folder, bool allow_nonfinite);
/* The same without reading the weights: returns where their names, shapes and config.json are this model's; adapter:
 * where the folder is one of PEFT. */
void hf_check(Model *m, const char *folder, bool adapter);
/* A note where the folder's padding is another token than this model's, so that transformers would train the
 * embedding in another way; all weights are trained. */
void hf_tell_padding(const Model *m, const char *folder);
/* What a folder is to hold. */
typedef struct {
    /* hf_save: a folder whose config.json (when it describes this model) is copied with the changed keys patched and
     * whose tokenizer files are copied; hf_save_adapter: the base, recorded as base_model_name_or_path, where NULL
     * keeps the recipe's. Or NULL. */
    const char *source;
    bool merged;                 /* hf_save: weight + scale * b a of every LoRA pair, in fp32, rounded once */
    /* fp32, bf16 or fp16: all weights as that, rounded once, to nearest even, from their fp32 copies where there are
     * any; EXIT_CONFIG where fp16 is too small. NULL: as they are, those of an adapter fp32. */
    const char *dtype;
    const char *card;            /* README.md, to which a line with its sum is added; or NULL */
    const char *tokenizer;       /* file of a tokenizer that goes along; or NULL */
    /* called with `with` after all other files are written: NULL, or a malloc'ed message; or NULL */
    char *(*complete)(const char *folder, const void *with);
    const void *with;
} HfHow;

/* Weights -> a model folder that appears whole or not at all. An existing folder is replaced only when it holds
 * nothing but files of such a folder, with a README.md only as it was written here, and is not the source. Rank 0
 * only. */
void hf_save(const Model *m, const char *folder, const HfHow *how);

/* PEFT adapter folder: r, alpha, target modules, rslora must be those of the binary. */
void hf_load_adapter(Model *m, const char *folder, bool allow_nonfinite);
void hf_save_adapter(const Model *m, const char *folder, const HfHow *how);

/* The files of hf_save and hf_save_adapter into a folder that exists, for callers with a commit of their own. NULL,
 * or a malloc'ed message; manifest: see folder.h, may be NULL. */
char *hf_write_model(const Model *m, const char *folder, const HfHow *how, uint64_t shard_bytes, cJSON *manifest);
/* The weights alone, LoRA pairs merged, as one file of any name. */
char *hf_write_weights(const Model *m, const char *folder, const char *file);
char *hf_write_adapter(const Model *m, const char *folder, const HfHow *how, cJSON *manifest);

#endif
