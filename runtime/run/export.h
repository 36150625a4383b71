/* export.h -- Hugging Face and PEFT folders of models that read texts. */
#ifndef DIECAST_EXPORT_H
#define DIECAST_EXPORT_H

#include "runtime/run/checkpoint.h"

/* Runs --export and --merge-lora on rank 0. */
void export_text(const Checkpoints *c, Model *m);
/* At the end of a run, exports the last checkpoint, c's, for transformers or PEFT into `folder`,
 * creating its parents. The tokenizer is copied from c->source, else the file `tokenizer` (or
 * NULL). EXIT_IO. Rank 0 only. */
void export_write(const Checkpoints *c, Model *m, const char *folder, const char *tokenizer);
/* Corrects the tokenizer files copied to a new checkpoint as an export does, so that they give the
 * ids of the training; silently, and without the ends of generation_config.json. state: of
 * checkpoint_save(). Returns NULL or a malloc'ed message. */
char *export_checkpoint(const char *folder, const Model *m, const cJSON *state);
/* Returns a message if AutoTokenizer of transformers 5 gives other ids than this tokenizer.json (or
 * NULL, "bytes") next to a model of this type, malloc'ed; else NULL. */
char *export_reads_otherwise(const Model *m, const char *tokenizer);
/* Returns a message if eos_token_id of the recipe, which config.json of a model from random weights
 * has, ends no text by this tokenizer (a file, "bytes" or NULL), malloc'ed; else NULL. */
char *export_ends_otherwise(const Model *m, const char *tokenizer);

#endif
