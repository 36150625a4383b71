/* export_files.h -- tokenizer, chat template and generation settings of an exported folder.
 *
 * Keeps: a file of the base is changed only where it contradicts what was trained. */
#ifndef DIECAST_EXPORT_FILES_H
#define DIECAST_EXPORT_FILES_H

#include "runtime/model/model.h"

typedef struct {
    const Model *m;
    const char *chat;            /* chat format of the training data (chats.def), or NULL */
    const char *base;            /* folder of an adapter's base, or NULL */
    bool adapter;
    bool trained;                /* the weights come from a checkpoint */
    bool bytes;                  /* write the byte vocabulary's tokenizer.json */
} ExportFiles;

/* Whether transformers generates text with this model, and so reads generation_config.json. */
bool export_generates(const Model *m);
/* Whether the file is a plain vocabulary of words (words.h), which transformers cannot read. */
bool export_words(const char *tokenizer);
/* Completes a folder that has its weights and its tokenizer, if there is one. Writes
 *   tokenizer.json of the byte vocabulary, and in any tokenizer.json the token that was added to the model;
 *   tokenizer_hf.json, which transformers reads, next to a vocabulary of words;
 *   tokenizer_class into tokenizer_config.json, if AutoTokenizer could not find one;
 *   chat_template.jinja of `chat`, unless the template of the base means the same format;
 *   generation_config.json with every id that ends a text.
 * with: an ExportFiles. Returns NULL or a malloc'ed message. */
char *export_files_write(const char *folder, const void *with);

#endif
