/* vocabulary.h -- which tokenizer weights were trained with: ids mean nothing without it. */
#ifndef DIECAST_VOCABULARY_H
#define DIECAST_VOCABULARY_H

#include <stdbool.h>

#include "runtime/data/data.h"
#include "runtime/data/tokenizer.h"

/* The tokenizer of a folder's weights: its tokenizer.json (*file), or that of the data a checkpoint
 * was trained on (*file NULL). Both malloc'ed; false: the folder, which may be NULL, does not say.
 * EXIT_DATA: files that cannot be read. */
bool vocabulary_of(const char *folder, char **file, char **id);
/* EXIT_MISMATCH unless the data (which may be NULL) was packed with the tokenizer of each folder. */
void vocabulary_check(const char *const folder[], int nfolders, const Data *data);
/* The tokenizer named, or where that is "" the one beside the weights: of the first folder that
 * says. EXIT_MISMATCH when named and folder differ, or it has more than vocab ids. flag: that wants
 * it, for messages. */
Tokenizer *vocabulary_load(const char *flag, const char *named, const char *const folder[],
                           int nfolders, int64_t vocab);
/* The tokenizer.json of the first folder that has one, malloc'ed; NULL: none has. */
char *vocabulary_own(const char *const folder[], int nfolders);
/* What --tokenizer would say to encode raw data as those that the weights were trained on: the file, or
 * "bytes", of the first folder that says one; malloc'ed; NULL: none does. */
char *vocabulary_for_raw(const char *const folder[], int nfolders);
/* Adds a token to the tokenizer.json of a folder, with the id that the model has a row for; the tokenizer keeps its
 * identity, as with tokenizer_add(). Nothing happens where there is no such file or it has the token; one that cannot
 * give the token this id is left as it is, which is said. NULL, or a malloc'ed message. */
char *vocabulary_add(const char *folder, const char *token, int64_t id);
/* The folder of the data when its tokenizer.json is the one they were made with; else NULL. */
const char *vocabulary_beside(const Data *data);
/* Of a model whose mask is the tokenizer's. EXIT_MISMATCH where the data, which `files` names, tell of
 * another than the tokenizer.json beside them: texts would be generated and judged by that. */
void vocabulary_check_mask(const Data *data, const char *files);
/* EXIT_MISMATCH where config.json of a folder says another mask_token_id than the one that hides words in what the
 * model is given; mask -1: none does. */
void vocabulary_check_hidden(const char *const folder[], int nfolders, int mask, const Model *m);
/* A tokenizer.json of that id: the file named, or of the first folder that has it; malloc'ed; NULL:
 * there is none. Names may be "" and folders NULL. */
char *vocabulary_file(const char *id, const char *named, const char *const folder[], int nfolders);
/* The tokenizer that the data were made with: the file named, or the one beside them; malloc'ed; NULL: it is not
 * known where it lies. */
char *vocabulary_of_records(const Data *d, const char *named);
/* The tokenizer of the data, for people: of the file named, of the first folder that has it, or beside
 * the data; NULL: it is not there, which is said. */
Tokenizer *vocabulary_of_data(const Data *d, const char *named, const char *const folder[],
                              int nfolders);

#endif
