/* initial_weights.h -- initial weights: from the seed, a model folder or a checkpoint.
 *
 * In:    Checkpoints with its flags, with or without a checkpoint found.
 * Keeps: nothing is loaded that was not requested; every rank has the same weights. */
#ifndef DIECAST_INITIAL_WEIGHTS_H
#define DIECAST_INITIAL_WEIGHTS_H

#include "runtime/run/checkpoint.h"

/* Returns the value of a flag that names a folder; NULL: nothing to load. */
const char *initial_folder(const char *value);
/* Chooses c->base and c->source. EXIT_CONFIG for adapters without a base model. */
void initial_choose(Checkpoints *c, const Model *m);
/* Returns the origin of the weights as text for the user; malloc'ed. */
char *initial_words(const Checkpoints *c, const Model *m);
/* Before or after initial_choose(): checks the folders that initial_load() would read, except a
 * checkpoint's; a model folder must match by config.json, tensor names and shapes, and its
 * weights must be finite. Ends the program otherwise. Loads no weights. */
void initial_check(const Checkpoints *c, Model *m);
/* Loads the initial weights, or those of the checkpoint if one was found. */
void initial_load(Checkpoints *c, Model *m);
/* Prints a note if a new run trains the embedding differently from transformers. */
void initial_note_padding(const Checkpoints *c, const Model *m);
/* Adds to a checkpoint's state the folders of the initial weights, whose checksum is "began". */
void initial_save_start(const Checkpoints *c, cJSON *state);
/* Loads the initial weights of the run whose checkpoint was found, from the folders of --init-from
 * and --adapter, else from those in its state. EXIT_CONFIG if a folder is missing; EXIT_MISMATCH
 * unless their checksum equals the recorded initial_mark(). */
void initial_load_first(const Checkpoints *c, Model *m);
/* The same after initial_load() of finished weights. folder: replaces the model folder, "none":
 * random weights, NULL: as above. flag: the requesting flag. EXIT_CONFIG if the weights belong to
 * no run. */
void initial_load_start(const char *flag, const char *folder);
/* Returns the mark (checksum) of the current weights, which a checkpoint's state keeps as "began";
 * malloc'ed. */
char *initial_mark(const Model *m);

/* For commands on finished weights: finds the checkpoint of the run folder, or takes the weights
 * named on the command line, then calls initial_choose(). A missing checkpoint is EXIT_NO_CKPT,
 * never a reason to take other weights. start: --init-from and --adapter next to a checkpoint name
 * its initial weights; else they are refused there (EXIT_CONFIG). */
void initial_finished(Checkpoints *c, const Flags *f, const Model *m, bool start);
/* Ends the program if a folder to write has the name of a checkpoint of the run folder. */
void initial_check_export(const Flags *f, const char *dir);
/* Runs --export on rank 0 for a model without a tokenizer and adapters; others:
 * runtime/run/export.h. */
void initial_export(const Checkpoints *c, Model *m);

#endif
