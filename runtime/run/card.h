/* card.h -- README.md of an exported folder, as the hub of Hugging Face reads it: what was trained, of what, how to
 * load.
 *
 * In:    the checkpoint that was loaded, or none.
 * Keeps: names of files and folders alone, no paths; no date: the same weights give the same text. */
#ifndef DIECAST_CARD_H
#define DIECAST_CARD_H

#include "runtime/run/checkpoint.h"

/* What a run was made of, for its checkpoints: names of the base and of the data, the base's licence. */
cJSON *card_sources(const Checkpoints *c);
/* adapter: of adapters alone; tokenizer: the file that goes along, "bytes", or NULL. malloc'ed. */
char *card_text(const Checkpoints *c, const Model *m, bool adapter, const char *tokenizer);

#endif
