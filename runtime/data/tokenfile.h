/* tokenfile.h -- a packed corpus: record files of tokens, as `gen pack` writes them.
 *
 * In:    of kind "packed" and "rows" the column tokens (ragged I32) and perhaps mask (U8, as tokens),
 *        also as the older TOKENFILE_FORMAT; of other kinds parts: columns NAME (ragged I32), each
 *        perhaps with NAME.mask (U8, as NAME), all of them or, where metadata parts names some, these:
 *        then there may be others. Metadata: the fields of TokenFile.
 * Keeps: everything is checked at open but the ids and the checksums, which tokenfile_check_ids and
 *        tokenfile_check_sums look at once. */
#ifndef DIECAST_TOKENFILE_H
#define DIECAST_TOKENFILE_H

#include "runtime/data/recordfile.h"

enum { TOKENFILE_PARTS = 4 };

/* Of each document one text. */
typedef struct {
    const char *name;            /* of the column */
    const int32_t *tokens;       /* (n) */
    const uint8_t *mask;         /* (n), 1: the token is a target; or NULL: every one is */
    int64_t n;
    const int64_t *doc;          /* (ndocs + 1), ascending from 0 to n, no document empty */
    const char *offsets;         /* the name of the tensor doc */
} TokenPart;

typedef struct TokenFile {
    int nparts;                  /* 1 of packed and rows */
    TokenPart part[TOKENFILE_PARTS];
    int64_t ndocs;
    /* of the tokenizer: how many ids, and which ends a text, stands for a hidden one, for none at
     * all; -1: it has none. Metadata mask_id and pad_id are left out where there is none. */
    int64_t vocab, eos, mask_id, pad_id;
    int64_t train;               /* so many first documents are to train on, the others to validate
                                  * on; 0: it does not say. Metadata train, then */
    int64_t max_length;          /* longest allowed; 0 for packed */
    /* "packed": documents to be joined and cut; "rows": one document a row; another word: a document
     * has several parts, whose columns are there by name */
    char kind[16];
    char tokenizer[64];          /* tokenizer_id */
    char sha256[65];             /* of the source bytes, one file after the other */
    /* of all that decides what the records are: sources, tokenizer, rules; "" in older files */
    char fingerprint[65];
    bool own_targets;            /* the objective finds targets itself: metadata targets is own */
    const char *path;
    RecordFile records;
} TokenFile;

/* NULL, or a malloc'ed "FILE: rule: found"; after an error *f needs no close. */
char *tokenfile_open(TokenFile *f, const char *path);
/* Metadata crc32c, which older files lack: that the tensors are what was packed. NULL, or a message. */
char *tokenfile_check_sums(const TokenFile *f);
/* Every id in [0, vocab): NULL, or a message with the position of the first that is not. */
char *tokenfile_check_ids(const TokenFile *f, int64_t vocab);
/* The same for n ids that were copied from a part's tokens[first] on, where the file may have changed
 * since it was opened; dies with EXIT_DATA. */
void tokenfile_check_copy(const TokenFile *f, const TokenPart *part, int64_t vocab, int64_t first,
                          const int32_t *ids, int64_t n);
void tokenfile_close(TokenFile *f);

#endif
