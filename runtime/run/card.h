/* card.h -- Hugging Face model card (README.md) of an exported folder.
 *
 * Contents: base model, training data, how to load.
 *
 * In:    the loaded checkpoint, or none.
 * Keeps: names of files and folders only, never paths, and no date: the same weights give the same
 *        text. */
#ifndef DIECAST_CARD_H
#define DIECAST_CARD_H

#include "runtime/run/checkpoint.h"

/* Returns the sources of a run for its checkpoints: names of base model and data, the base's
 * licence. The caller deletes it. */
cJSON *card_sources(const Checkpoints *c);
/* True if transformers generates text with this model and so reads generation_config.json. */
bool card_generates(const Model *m);
/* Returns the card's text, malloc'ed. adapter: the folder holds adapters only; tokenizer: the
 * exported tokenizer file, "bytes", or NULL; words: it is a word list (words.h); plain: only
 * PreTrainedTokenizerFast reads it as it is, not AutoTokenizer. */
char *card_text(const Checkpoints *c, const Model *m, bool adapter, const char *tokenizer,
                bool words, bool plain);

#endif
