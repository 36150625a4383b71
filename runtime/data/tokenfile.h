/* tokenfile.h -- a packed corpus: the safetensors file that `gen pack` writes and the binary maps.
 *
 * In:    tokens I32 [N]; doc_offsets I64 [D+1] (start of each document, last = N); kind "rows" may
 *        have mask U8 [N], 1 where the token is a target. Metadata: the fields of TokenFile.
 * Keeps: everything is checked at open but the ids, which tokenfile_check_ids looks at once. A file
 *        cut short while it is mapped ends the program with EXIT_DATA, wherever it is read. */
#ifndef DIECAST_TOKENFILE_H
#define DIECAST_TOKENFILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TOKENFILE_FORMAT "diecast-tokens-1"

typedef struct TokenFile {
    const int32_t *tokens;       /* (ntokens) */
    const uint8_t *mask;         /* (ntokens), or NULL: every token is a target */
    const int64_t *doc;          /* (ndocs + 1), ascending from 0 to ntokens, no document empty */
    int64_t ntokens, ndocs;
    /* of the tokenizer: how many ids, and which ends a text, stands for a hidden one, for none at
     * all; -1: it has none. Metadata mask_id and pad_id are left out where there is none. */
    int64_t vocab, eos, mask_id, pad_id;
    int64_t max_length;          /* rows: longest allowed; 0 for packed */
    /* "packed": documents to be joined and cut; "rows": one document a row */
    char kind[8];
    char tokenizer[64];          /* tokenizer_id */
    char sha256[65];             /* of the source bytes, one file after the other */
    /* of all that decides what the records are: sources, tokenizer, rules; "" in older files */
    char fingerprint[65];
    char *path;
    void *map_;
    size_t map_bytes_;
    dev_t device_;
    ino_t inode_;
    struct TokenFile *next_;     /* of all that are open: it stays where it is until the close */
} TokenFile;

/* NULL, or a malloc'ed "FILE: rule: found"; after an error *f needs no close. */
char *tokenfile_open(TokenFile *f, const char *path);
/* Every id in [0, vocab): NULL, or a message with the position of the first that is not. */
char *tokenfile_check_ids(const TokenFile *f, int64_t vocab);
/* The same for n ids that were copied from tokens[first] on, where the file may have changed since
 * it was opened; dies with EXIT_DATA. */
void tokenfile_check_copy(const TokenFile *f, int64_t vocab, int64_t first, const int32_t *ids,
                          int64_t n);
/* EXIT_DATA when the file is shorter than at open: the rest of its last page would read as 0. */
void tokenfile_check_size(const TokenFile *f);
/* EXIT_DATA: what stands at tensor[i] is no longer what was checked at open. */
void tokenfile_changed(const TokenFile *f, const char *tensor, int64_t i)
    __attribute__((noreturn));
void tokenfile_close(TokenFile *f);

#endif
