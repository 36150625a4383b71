/* tokenfile.h -- token files: a corpus as `gen pack` writes it.
 *
 * In:    a record file. Kinds "packed" and "rows" have the column tokens (ragged I32) and
 *        optionally mask (U8, as tokens), also in the older TOKENFILE_FORMAT. Other kinds have
 *        parts: columns NAME (ragged I32), each with an optional NAME.mask (U8, as NAME). Metadata
 *        "parts" lists them if there are other columns too. Metadata: the fields of TokenFile.
 * Keeps: everything is checked at open except ids and checksums: see tokenfile_check_ids() and
 *        tokenfile_check_sums(). */
#ifndef DIECAST_TOKENFILE_H
#define DIECAST_TOKENFILE_H

#include "runtime/data/recordfile.h"

enum { TOKENFILE_PARTS = 4 };

/* One token column; each document has one text in it. */
typedef struct {
    const char *name;            /* of the column */
    const int32_t *tokens;       /* (n) */
    const uint8_t *mask;         /* (n), 1: the token is a target; NULL: every token is */
    int64_t n;
    const int64_t *doc;          /* (ndocs + 1), ascending from 0 to n, no document empty */
    const char *offsets;         /* name of the tensor doc */
} TokenPart;

typedef struct TokenFile {
    int nparts;                  /* 1 for packed and rows */
    TokenPart part[TOKENFILE_PARTS];
    int64_t ndocs;
    /* The tokenizer's number of ids, and its end-of-text, mask and padding tokens; -1: none.
     * Metadata mask_id and pad_id are absent if there is none. */
    int64_t vocab, eos, mask_id, pad_id;
    int64_t train;               /* the first documents are for training, the others for validation;
                                  * 0: not divided (no metadata train) */
    int64_t max_length;          /* maximum length of a document; 0 for packed */
    /* "packed": documents to be joined and cut; "rows": one document a row; any other word: a
     * document has several parts, named columns */
    char kind[16];
    char tokenizer[64];          /* tokenizer_id */
    char sha256[65];             /* of the source files' bytes, concatenated */
    /* of everything that determines the records: sources, tokenizer, rules; "" in older files */
    char fingerprint[65];
    char special[64];            /* ids of eos, mask, pad, bos, with commas; "" in older files */
    bool finds_targets;          /* the objective chooses its targets: metadata targets is own */
    const char *path;
    RecordFile records;
} TokenFile;

/* Returns NULL, or a malloc'ed "FILE: rule: found"; after an error *f needs no close. */
char *tokenfile_open(TokenFile *f, const char *path);
/* Compares the tensors with metadata crc32c, which older files lack. NULL, or a message. */
char *tokenfile_check_sums(const TokenFile *f);
/* Checks that every id is in [0, vocab). NULL, or a message with the position of the first that is
 * not. */
char *tokenfile_check_ids(const TokenFile *f, int64_t vocab);
/* Checks n ids copied from tokens[first] of a part, as the file may have changed since it was
 * opened; EXIT_DATA if one is out of [0, vocab). */
void tokenfile_check_copy(const TokenFile *f, const TokenPart *part, int64_t vocab, int64_t first,
                          const int32_t *ids, int64_t n);
void tokenfile_close(TokenFile *f);

#endif
