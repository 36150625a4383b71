/* vocabulary.h -- checks that data and weights have the same tokenizer. */
#ifndef DIECAST_VOCABULARY_H
#define DIECAST_VOCABULARY_H

#include <stdbool.h>

#include "runtime/data/data.h"
#include "runtime/data/tokenizer.h"

/* Finds the tokenizer of a folder's weights: its tokenizer.json (*file), or that of the data a
 * checkpoint was trained on (*file NULL). *file and *id are malloc'ed; false: unknown, e.g. folder
 * NULL. EXIT_DATA: unreadable files. */
bool vocabulary_of(const char *folder, char **file, char **id);
/* EXIT_MISMATCH unless the data (or NULL) was packed with the tokenizer of each folder. */
void vocabulary_check(const char *const folder[], int nfolders, const Data *data);
/* Loads the tokenizer `named`, or if that is "" the one of the first folder that has one.
 * EXIT_MISMATCH if named and folder differ, or it has more than vocab ids. flag: the flag that
 * needs it, for messages. */
Tokenizer *vocabulary_load(const char *flag, const char *named, const char *const folder[],
                           int nfolders, int64_t vocab);
/* Returns the tokenizer.json of the first folder that has one, malloc'ed; NULL: none. */
char *vocabulary_of_folder(const char *const folder[], int nfolders);
/* Returns the value of --tokenizer that encodes raw data like the data of the weights: a file or
 * "bytes", of the first folder that has one; malloc'ed; NULL: none. */
char *vocabulary_for_raw(const char *const folder[], int nfolders);
/* Adds a token with an id that the model has a row for to a folder's tokenizer.json; the
 * tokenizer's id stays the same, as with tokenizer_add(). Does nothing if there is no such file or
 * it has the token; prints a note if it cannot give the token this id. NULL, or a malloc'ed
 * message. */
char *vocabulary_add(const char *folder, const char *token, int64_t id);
/* Returns the folder of the data if its tokenizer.json is that of the data; else NULL. */
const char *vocabulary_folder(const Data *data);
/* Returns a tokenizer.json with that id: `named`, or of the first folder that has it; malloc'ed;
 * NULL: none. named may be "", a folder NULL. */
char *vocabulary_file(const char *id, const char *named, const char *const folder[], int nfolders);
/* Returns the tokenizer.json of the data: `named`, or the one next to them; malloc'ed; NULL:
 * unknown. */
char *vocabulary_of_records(const Data *d, const char *named);
/* Loads the tokenizer of the data, to print text: `named`, of the first folder that has it, or next
 * to the data; NULL: not found, with a note. */
Tokenizer *vocabulary_of_data(const Data *d, const char *named, const char *const folder[],
                              int nfolders);

/* Returns " --tokenizer FILE" if a command that reads texts with the weights of `last`, of the
 * model `source` (or NULL), needs it, else "". named: the value of --tokenizer, or "".
 * malloc'ed. */
char *vocabulary_flag(const char *named, const char *last, const char *source);

#endif
