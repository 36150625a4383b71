/* checkpoint.h -- OUT/checkpoint-<step>/: everything the next step depends on, in files that
 * Hugging Face and PEFT read.
 *
 * Keeps: a folder of that name is complete or its damage shows when it is verified; the newest
 *        valid one survives every kill, full disk and failed write.
 * Method: write into .tmp, sync, files.json with sizes and checksums last, rename, sync. */
#ifndef DIECAST_CHECKPOINT_H
#define DIECAST_CHECKPOINT_H

#include <cjson/cJSON.h>

#include "runtime/run/flags.h"
#include "runtime/model/model.h"

typedef struct {
    /* By the caller before checkpoint_start; fingerprint and layout before checkpoint_agree. */
    const char *out;         /* run folder: exists, is locked */
    const char *source;      /* folder whose config.json and tokenizer files go along; or NULL */
    const char *tokenizer;   /* file of the tokenizer that the data were made with, which goes along
                                where source has none; or NULL */
    const char *base;        /* LoRA: folder of the frozen weights; NULL: made from the seed */
    const Flags *flags;      /* resume, save_total_limit, exact, allow_inexact; sticky ones */
    const char *fingerprint; /* of the data */
    const cJSON *layout;     /* object of what may change the bits, beside ranks, micro-batch,
                                accumulation, recipe and generator, which are added; or NULL */
    const char *advice;      /* what to try when weights are NaN or Inf; or NULL */
    bool looks;              /* OUT is not locked: only read, leave damaged checkpoints as they are */
    /* By the functions below. */
    char *found;             /* folder to resume from, or NULL */
    int64_t step;            /* its step */
    const cJSON *state;      /* what checkpoint_save was given */
    cJSON *file;             /* its train_state.json; owns state */
    int failures;            /* saves in a row that failed */
    char *why;               /* the last of them */
    bool base_known;
    uint32_t base_crc;
} Checkpoints;

/* EXIT_NO_CKPT when out, a run folder to be, is a checkpoint itself. */
void checkpoint_out(const char *out);

/* Removes what killed runs left, proves that OUT can be written and has room (90 else). All ranks
 * may call; rank 0 acts. */
void checkpoint_start(Checkpoints *c, const Model *m);

/* Looks for the checkpoint that --resume means and verifies every byte of it; all ranks call and
 * get the same answer. A damaged one of OUT is named and renamed to .corrupt and the one before is
 * tried; 89 when none is left of those that OUT had, also at every later start until --resume never,
 * or when --resume insists. Another model: 83 naming the
 * first field; other sets of parameters: 83 naming the first tensor of another. true: found, step, state are set. */
bool checkpoint_find(Checkpoints *c, const Model *m);

/* Sticky flags take the checkpoint's values unless given on the command line; then, when they
 * differ, CHANGED ON RESUME is said. Only after checkpoint_find was true. Returns what differs,
 * malloc'ed, or NULL. */
char *checkpoint_flags(const Checkpoints *c, Flags *f);
/* Whether the flag has another value now than in the checkpoint found, if there is one. */
bool checkpoint_changes(const Checkpoints *c, const Flags *f, int flag);

/* Global batch and data must be the checkpoint's (83, unless --allow-inexact); another layout is
 * said in one line INEXACT RESUME, or is 83 with --exact. */
void checkpoint_agree(const Checkpoints *c, const Model *m);

/* Checkpoints of OUT beyond the step that was found are of a course that this run leaves: they get
 * the suffix .aside, else the next start would take them. Rank 0, others: nothing. */
void checkpoint_leave_newer(const Checkpoints *c);

/* Weights, fp32 copies and moments. A LoRA base is not in the checkpoint: it is loaded before, and
 * another one than the recorded is 83. All ranks. */
void checkpoint_load(Checkpoints *c, Model *m);

/* When the weights are loaded, before the first step: 83 naming the ranks whose weights, frozen ones
 * too, are not those of most. All ranks. */
void checkpoint_same_weights(Checkpoints *c, const Model *m);

/* found, step, state and file become those of the checkpoint that this run has saved last, with step
 * `step`; as they were where it is not there. Rank 0, others: nothing. */
void checkpoint_written(Checkpoints *c, int64_t step);

/* Saves; all ranks call, and end with 94 naming those whose weights or moments are not those of
 * most; then rank 0 writes (others: nothing, true). state: object, everything of the caller that
 * influences the next step. trainer: trainer_state.json; its best_model_checkpoint is never
 * removed. Neither is changed or kept. false: not saved and training may go on; the third failure
 * in a row ends the run with 90. */
bool checkpoint_save(Checkpoints *c, const Model *m, int64_t step, const cJSON *state,
                     const cJSON *trainer);

/* NULL: a complete, undamaged checkpoint; else a malloc'ed "FILE: rule: found". */
char *checkpoint_verify(const char *folder);

/* Everything that may change the bits of a resumed run; cJSON_Delete frees. */
cJSON *checkpoint_layout(const Checkpoints *c, const Model *m);
/* OUT/checkpoint-<step>, malloc'ed. */
char *checkpoint_path(const char *out, int64_t step);

#endif
