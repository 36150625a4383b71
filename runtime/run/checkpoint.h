/* checkpoint.h -- checkpoint save and resume.
 *
 * OUT/checkpoint-<step>/ holds everything the next step depends on, in files that Hugging Face and
 * PEFT read.
 * Keeps: a folder of that name is complete, or verification detects the damage; the newest valid
 *        checkpoint survives any kill, full disk or failed write.
 * Method: write into .tmp, sync, write files.json with sizes and checksums last, rename, sync. */
#ifndef DIECAST_CHECKPOINT_H
#define DIECAST_CHECKPOINT_H

#include <cjson/cJSON.h>

#include "runtime/run/flags.h"
#include "runtime/model/model.h"

typedef struct {
    /* Set by the caller before checkpoint_start(); fingerprint and layout before
     * checkpoint_check_data(). */
    const char *out;         /* run folder: exists and is locked */
    const char *source;      /* folder whose config.json and tokenizer files are copied, or NULL */
    const char *tokenizer;   /* tokenizer file of the data, copied if source has none; or NULL */
    /* Corrects the copied tokenizer files in a new checkpoint folder. state: of checkpoint_save().
     * Returns NULL or a malloc'ed message. NULL: they stay as copied. */
    char *(*complete)(const char *folder, const Model *m, const cJSON *state);
    const char *base;        /* LoRA: folder of the frozen weights; NULL: initialised from the
                                seed */
    const Flags *flags;      /* resume, save_total_limit, exact, allow_inexact and the sticky
                                flags */
    const char *fingerprint; /* of the data */
    const cJSON *layout; /* settings that may change the bits, in addition to ranks, micro-batch,
                                accumulation, recipe and generator, which are added; or NULL */
    const char *advice;      /* advice when weights are NaN or Inf, or NULL */
    bool read_only;          /* OUT is not locked: read only, leave damaged checkpoints in place */
    /* Set by the functions below. */
    char *found;             /* checkpoint to resume from, or NULL */
    int64_t step;            /* its step */
    const cJSON *state;      /* the `state` given to checkpoint_save() */
    cJSON *file;             /* its train_state.json; owns state */
    int failures;            /* consecutive failed saves */
    char *why;               /* reason of the last failure */
    bool base_known;
    uint32_t base_crc, base_whole;       /* of model_base_crc() */
} Checkpoints;

/* Ends with EXIT_NO_CKPT if out, meant as a run folder, is itself a checkpoint. */
void checkpoint_out(const char *out);

/* Removes leftovers of killed runs and checks that OUT is writable and has room; exit 90 otherwise.
 * Any rank may call it; only rank 0 acts. */
void checkpoint_start(Checkpoints *c, const Model *m);

/* Finds the checkpoint for --resume and verifies every byte. Collective; same result on all ranks.
 * A damaged checkpoint in OUT is reported, renamed to .corrupt, and the one before it is tried.
 * Exit 89 if OUT had checkpoints and none is valid, also at every later start until --resume never;
 * or if --resume requires one. Exit 83 for another model, naming the first field that differs, or
 * for other parameter groups, naming the first tensor that moved. Returns true after setting found,
 * step and state. */
bool checkpoint_find(Checkpoints *c, const Model *m);

/* Sticky flags not on the command line take the checkpoint's values; those given with another value
 * are reported as CHANGED ON RESUME. Call only after checkpoint_find() returned true. Returns the
 * changes as malloc'ed text, or NULL. */
char *checkpoint_flags(const Checkpoints *c, Flags *f);
/* Sets the flags of flags_of_run() that were not given to the values of the checkpoint, if one was
 * found, and notes those that change. command: its flag. */
void checkpoint_flags_of_run(const Checkpoints *c, Flags *f, int command);
/* True if a checkpoint was found and recorded another value of this flag. */
bool checkpoint_changes(const Checkpoints *c, const Flags *f, int flag);

/* Requires the checkpoint's global batch and data (exit 83, unless --allow-inexact). Another layout
 * is reported in one line, INEXACT RESUME, or is exit 83 with --exact. */
void checkpoint_check_data(const Checkpoints *c, const Model *m);

/* Renames checkpoints in OUT newer than the one found to *.aside: this run abandons them, and the
 * next start must not resume from them. Rank 0 only; other ranks do nothing. */
void checkpoint_leave_newer(const Checkpoints *c);

/* Removes the oldest checkpoints in OUT beyond --save-total-limit, except those of these two steps;
 * warns if one cannot be removed. A save does so, too, but may be killed before. Rank 0 only; other
 * ranks do nothing. */
void checkpoint_remove_oldest(const Checkpoints *c, int64_t step, int64_t best);

/* Loads weights, fp32 master weights and optimizer moments. A LoRA base is not in the checkpoint:
 * load it first; exit 83 if it is not the recorded one. Collective. */
void checkpoint_load(Checkpoints *c, Model *m);

/* Computes base_crc, of the base of adapters, unless it is known. Collective. */
void checkpoint_know_base(Checkpoints *c, const Model *m);

/* After loading, before the first step: exit 83 naming the ranks whose weights, frozen ones
 * included, differ from the majority's, of divided weights those that they read from files.
 * Collective. */
void checkpoint_same_weights(Checkpoints *c, const Model *m);

/* Sets found, step, state and file to the checkpoint this run saved at `step`; leaves them
 * unchanged if it is missing. Rank 0 only; other ranks do nothing. */
void checkpoint_written(Checkpoints *c, int64_t step);

/* Saves a checkpoint. Collective: exit 94 naming the ranks whose weights or moments differ from the
 * majority's; then rank 0 writes (the others return true). state: everything else that influences
 * the next step. trainer: becomes trainer_state.json; its best_model_checkpoint is never removed.
 * Both stay the caller's, unchanged. Returns false if the save failed and training may go on; the
 * third failure in a row ends the run with 90. */
bool checkpoint_save(Checkpoints *c, const Model *m, int64_t step, const cJSON *state,
                     const cJSON *trainer);

/* The parts of checkpoint_save(). Collective: ends the job for replicas that differ. */
void checkpoint_check(Checkpoints *c, const Model *m, int64_t step);
/* Ends the job with EXIT_NONFINITE if weights are bad: NaN or Inf, the first in the tensor
 * `where`. */
void checkpoint_check_finite(const Checkpoints *c, int64_t bad, const char *where);
/* Returns train_state.json with the state of checkpoint_save(); free with cJSON_Delete(). */
cJSON *checkpoint_state(const Checkpoints *c, const Model *m, int64_t step, const cJSON *state);
/* On rank 0, in a gather if arrays are divided; else on any thread while c and the arrays of m do
 * not change: writes the checkpoint, a second time if that fails, and reads it back. all:
 * train_state.json. Returns NULL, or why it failed, malloc'ed. */
char *checkpoint_write(const Checkpoints *c, const Model *m, int64_t step, const cJSON *all,
                       const cJSON *trainer);
/* Counts failures in a row, of what checkpoint_write() returned, which it takes: returns false if
 * it is a failure; the third ends the run with 90. */
bool checkpoint_count(Checkpoints *c, int64_t step, char *error);
/* Returns the step of the checkpoint that trainer_state.json calls the best; -1: none. */
int64_t checkpoint_best_step(const cJSON *trainer);

/* Returns NULL for a complete, undamaged checkpoint, else a malloc'ed "FILE: rule: found". */
char *checkpoint_verify(const char *folder);

/* Returns all settings that may change the bits of a resumed run; free with cJSON_Delete. */
cJSON *checkpoint_layout(const Checkpoints *c, const Model *m);
/* Returns OUT/checkpoint-<step>, malloc'ed. */
char *checkpoint_path(const char *out, int64_t step);

#endif
