/* export_files.h -- tokenizer, chat template and generation settings of an exported folder.
 *
 * Keeps: what the source folder has stays as it is where it says the same. */
#ifndef DIECAST_EXPORT_FILES_H
#define DIECAST_EXPORT_FILES_H

#include "runtime/model/model.h"

typedef struct {
    const Model *m;
    const char *chat;            /* format of the conversations that were trained on; or NULL */
    const char *base;            /* of an adapter: the base's folder, or NULL */
    bool adapter;
    bool trained;                /* false: the weights are as they were loaded */
    bool bytes;                  /* the tokenizer is the byte vocabulary, which has no file yet */
} ExportFiles;

/* transformers generates text with this model: generation_config.json is read. */
bool export_generates(const Model *m);
/* Completes a folder that has its weights and, where there is one, its tokenizer: tokenizer.json of bytes; in
 * tokenizer_config.json a class, where AutoTokenizer could not find one; chat_template.jinja of `chat`, unless the
 * template that is there means the same; in generation_config.json the ids that end a text. NULL, or a malloc'ed
 * message. with: an ExportFiles. */
char *export_files_write(const char *folder, const void *with);

#endif
