/* export_files.h -- tokenizer, chat template and generation config of an exported folder.
 *
 * Keeps: a file of the base model changes only where it contradicts the training. */
#ifndef DIECAST_EXPORT_FILES_H
#define DIECAST_EXPORT_FILES_H

#include "runtime/model/model.h"

typedef struct {
    const Model *m;
    const char *chat;            /* chat format of the training data (chats.def), or NULL */
    const char *base;            /* folder of the adapter's base model, or NULL */
    bool adapter;
    bool trained;                /* the weights come from a checkpoint */
    bool bytes;                  /* write tokenizer.json of the byte vocabulary */
} ExportFiles;

/* True if the file is a word-list vocabulary (words.h), which transformers cannot read. */
bool export_words(const char *tokenizer);
/* Adds to a folder that has its weights and, if there is one, its tokenizer:
 *   tokenizer.json of the byte vocabulary; the added token in any tokenizer.json;
 *   tokenizer_hf.json, which transformers reads, next to a word-list vocabulary;
 *   tokenizer_class in tokenizer_config.json, if AutoTokenizer could not find one;
 *   chat_template.jinja of `chat`, unless the base's template means the same format;
 *   generation_config.json with every end-of-text id.
 * with: an ExportFiles. Returns NULL or a malloc'ed message. */
char *export_files_write(const char *folder, const void *with);

#endif
