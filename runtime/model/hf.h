/* hf.h -- Hugging Face model folders and PEFT adapter folders: import and export.
 *
 * In:    untrusted folders: validated before use, read in pieces of a few MiB.
 * Keeps: an error ends the program with one line and an exit code: 80 no such folder, or an output
 *        folder that is not ours to replace; 83 a valid folder of another model; 88 a damaged one
 *        (truncated, not JSON, NaN); 90 the output cannot be written, or an I/O failure. */
#ifndef DIECAST_HF_H
#define DIECAST_HF_H

#include <cjson/cJSON.h>

#include "runtime/model/model.h"

/* Shard size in bytes; larger models are split. */
#define HF_SHARD_BYTES UINT64_C(50000000000)

/* Loads a model folder into the weights and fp32 master weights of every tensor outside the
 * adapter. A tensor that the adapter file stores whole (a trained head) starts as the folder's
 * tensor of that name if there is one, or as the embedding if config.json ties them. */
void hf_load(Model *m, const char *folder, bool allow_nonfinite);
/* The same as model_init() and then hf_load(), but draws no values for tensors in the folder. */
void hf_init(Model *m, const char *folder, uint64_t seed, bool allow_nonfinite);
/* Checks the folder and all its weights as hf_load() does, without changing the model: returns if
 * it would load them. adapter: the folder is a PEFT adapter. */
void hf_check(Model *m, const char *folder, bool adapter, bool allow_nonfinite);
/* Prints a note if the folder's padding token differs from this model's: transformers would train
 * the embedding differently, as no gradient reaches the padding row. Only for full training. */
void hf_note_padding(const Model *m, const char *folder);
/* Options of an export. */
typedef struct {
    /* hf_save: folder whose config.json (if it describes this model) is copied with the changed
     * keys patched, and whose tokenizer files are copied. hf_save_adapter: base model recorded as
     * base_model_name_or_path; NULL keeps the recipe's. Or NULL. */
    const char *source;
    bool merged; /* hf_save: merge every LoRA pair, weight + scale * b a, in fp32, rounded
                                    once */
    /* fp32, bf16 or fp16: dtype of all weights, rounded once to nearest even, from the fp32 master
     * weights where they exist; EXIT_CONFIG if a value overflows fp16. NULL: as in memory, adapters
     * in fp32. */
    const char *dtype;
    const char *card;            /* text of README.md, to which a line with its checksum is added;
                                    or NULL */
    const char *tokenizer;       /* tokenizer file to copy, or NULL */
    /* Called with `with` after all other files are written; returns NULL or a malloc'ed message. Or
     * NULL. */
    char *(*complete)(const char *folder, const void *with);
    const void *with;
} HfHow;

/* Exports the weights to a model folder, atomically. Replaces an existing folder only if it holds
 * nothing but files of such a folder, its README.md only as written here, and it is not the source.
 * Rank 0 only. */
void hf_save(const Model *m, const char *folder, const HfHow *how);

/* Writes the files of hf_save() into an existing folder, for callers with their own commit. Returns
 * NULL, or a malloc'ed message. manifest: see folder.h; may be NULL. */
char *hf_write_model(const Model *m, const char *folder, const HfHow *how, uint64_t shard_bytes,
                     cJSON *manifest);
/* Writes only the weights, LoRA pairs merged, as one file of that name. */
char *hf_write_weights(const Model *m, const char *folder, const char *file);

/* hf_adapter.c: PEFT adapter folders. To load: r, alpha, target modules and rslora must equal those
 * of the program. To save: as hf_save(). */
void hf_load_adapter(Model *m, const char *folder, bool allow_nonfinite);
void hf_save_adapter(const Model *m, const char *folder, const HfHow *how);
/* The same functions, for code of all programs, through Model.adapter_folders. check: as load,
 * without changing the model. */
struct AdapterFolders {
    void (*load)(Model *m, const char *folder, bool allow_nonfinite);
    void (*check)(Model *m, const char *folder, bool allow_nonfinite);
    void (*save)(const Model *m, const char *folder, const HfHow *how);
    char *(*write)(const Model *m, const char *folder, const HfHow *how, cJSON *manifest);
};

#endif
