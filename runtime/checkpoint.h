/* checkpoint.h -- OUT/checkpoint-<step>/: everything that the next step depends on, readable by Hugging Face and PEFT.
 *
 * Keeps: a folder with that name is complete, or damage shows when it is verified; the newest valid one survives every
 *        kill, full disk and failed write.
 * Method: write into .tmp, fsync, files.json with sizes and checksums last, rename, fsync the parent. */
#ifndef DIECAST_CHECKPOINT_H
#define DIECAST_CHECKPOINT_H

#include <cjson/cJSON.h>

#include "model.h"

typedef struct {
    /* By the caller, before checkpoint_start. */
    const char *out;         /* run folder, exists and is locked */
    const char *source;      /* folder whose config.json and tokenizer files go along; NULL: none */
    const char *base;        /* LoRA: where the frozen weights came from; NULL: random */
    int keep;                /* checkpoints kept, at least 2; 0: all */
    bool allow_inexact, exact;
    /* By the functions below. */
    char *found;             /* folder to resume from, or NULL */
    int64_t step;            /* its step */
    cJSON *state;            /* its train_state.json; lives as long as this struct */
    int failures;            /* saves in a row that failed */
} Checkpoints;

/* Removes what killed runs left behind, proves that OUT can be written and has room for a checkpoint (90 else). All
 * ranks. */
void checkpoint_start(Checkpoints *c, const Model *m);

/* Looks for the checkpoint to resume from and verifies every byte of it; all ranks get the same answer.
 * which: NULL: the newest valid one of OUT, if any; "last": the same, 89 when there is none; else a folder, 89 when it is
 * not valid. A damaged checkpoint of OUT is named, renamed to .corrupt, and the one before is tried; when OUT had
 * checkpoints and none is left: 89. Another model: 83 naming the first field. true: found, step, state are set. */
bool checkpoint_find(Checkpoints *c, const Model *m, const char *which);

/* Run flags: for every member of the found state's "flags", unless `given` has a member of that name, flags gets the
 * checkpoint's value; if given and different, rank 0 says CHANGED ON RESUME. flags and given are plain objects. */
void checkpoint_flags(const Checkpoints *c, cJSON *flags, const cJSON *given);

/* What must agree: global batch and data fingerprint (83 unless allow_inexact), layout (one line INEXACT RESUME naming
 * the fields, or 83 with exact). `layout`: the caller's own fields beside ranks, micro, accum, recipe and generator,
 * compared with the found state's "layout"; may be NULL. */
void checkpoint_agree(const Checkpoints *c, const Model *m, const char *fingerprint, const cJSON *layout);

/* Weights, fp32 copies and moments of the found checkpoint into the model. The base of a LoRA model is not in the
 * checkpoint: load it first; another base than the recorded one is 83. */
void checkpoint_load(const Checkpoints *c, Model *m);

/* Saves; rank 0 only (on the others it does nothing and returns true). state: object with everything of the caller that
 * influences the next step, at least "flags" {}, "data" (fingerprint), "layout" {}; this adds the model's part. trainer:
 * trainer_state.json; its best_model_checkpoint is never removed. Neither is changed or kept.
 * false: not saved, training may go on; the third failure in a row ends the run with 90. */
bool checkpoint_save(Checkpoints *c, const Model *m, int64_t step, const cJSON *state, const cJSON *trainer);

/* NULL when the folder is a complete and undamaged checkpoint, else a malloc'ed "FILE: rule: found". */
char *checkpoint_verify(const char *folder);

#endif
