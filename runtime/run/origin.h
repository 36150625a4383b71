/* origin.h -- where a program's weights come from: the seed, a model folder, a checkpoint.
 *
 * In:    Checkpoints with its flags, found or not.
 * Keeps: nothing is taken that was not asked for; every rank has the same weights. */
#ifndef DIECAST_ORIGIN_H
#define DIECAST_ORIGIN_H

#include "runtime/run/checkpoint.h"

/* The value of a flag that names a folder; NULL: there is none to load. */
const char *origin_folder(const char *value);
/* Chooses what weights are laid on, c->base and c->source. EXIT_CONFIG where adapters have no
 * model. */
void origin_choose(Checkpoints *c, const Model *m);
/* Where they come from, for people; malloc'ed. */
char *origin_words(const Checkpoints *c, const Model *m);
/* Before origin_choose() or behind it: the folders that origin_load() would read, but for a checkpoint's, are there;
 * a model is this one by config.json, names and shapes. Others end the program. Reads no weights. */
void origin_check(const Checkpoints *c, Model *m);
/* Those to begin with, or where one was found those of the checkpoint. */
void origin_load(Checkpoints *c, Model *m);
/* Notes where the embedding of a run that begins is not trained as transformers would. */
void origin_tell_padding(const Checkpoints *c, const Model *m);
/* Into the state of a checkpoint: the folders of what the run began with, which "began" is the mark of. */
void origin_save_start(const Checkpoints *c, cJSON *state);
/* Those that the run began with whose checkpoint was found: of the folders that --init-from and --adapter
 * name, else of those that it has. EXIT_CONFIG: one is not there; EXIT_MISMATCH unless their checksum is what
 * origin_mark() said then. */
void origin_load_first(const Checkpoints *c, Model *m);
/* The same after origin_load() of finished weights; folder: in the place of the model's, "none": random
 * weights; NULL: as above. EXIT_CONFIG: they are of no run. flag: that wants it. */
void origin_load_start(const char *flag, const char *folder);
/* Of the weights of now, for what a checkpoint keeps, under "began". */
char *origin_mark(const Model *m);

/* For uses of finished weights: finds the checkpoint of the run folder, or takes what the command
 * line names in its place. A checkpoint that is not there is no reason to take other weights:
 * EXIT_NO_CKPT. start: beside a checkpoint --init-from and --adapter name what its run began with; else they
 * are refused there (EXIT_CONFIG). Then origin_choose(). */
void origin_finished(Checkpoints *c, const Flags *f, const Model *m, bool start);
/* --export, --merge-lora: from rank 0. */
void origin_export(const Checkpoints *c, Model *m);
/* What transformers or PEFT load, at the end of a run whose last checkpoint is c's: into `folder`, whose parents are
 * made; a tokenizer goes along from c->source, else the file `tokenizer`, or NULL. EXIT_IO. Rank 0 alone. */
void origin_write(const Checkpoints *c, Model *m, const char *folder, const char *tokenizer);

#endif
