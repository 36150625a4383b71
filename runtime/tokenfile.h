/* tokenfile.h -- a packed corpus: the safetensors file that `gen pack` writes and the binary maps.
 *
 * In:    tokens I32 [N]; doc_offsets I64 [D+1] (start of each document, last = N); kind "rows" may
 *        have mask U8 [N], 1 where the token is a target. Metadata: the fields of TokenFile.
 * Keeps: everything is checked at open but the ids, which tokenfile_check_ids looks at once. */
#ifndef DIECAST_TOKENFILE_H
#define DIECAST_TOKENFILE_H

#include <stddef.h>
#include <stdint.h>

#define TOKENFILE_FORMAT "diecast-tokens-1"

typedef struct {
    const int32_t *tokens;       /* (ntokens) */
    const uint8_t *mask;         /* (ntokens), or NULL: every token is a target */
    const int64_t *doc;          /* (ndocs + 1), ascending from 0 to ntokens, no document empty */
    int64_t ntokens, ndocs;
    int64_t vocab, eos;          /* of the tokenizer; eos -1: none */
    int64_t max_length;          /* rows: longest allowed; 0 for packed */
    /* "packed": documents to be joined and cut; "rows": one document a row */
    char kind[8];
    char tokenizer[64];          /* tokenizer_id */
    char sha256[65];             /* of the source bytes, one file after the other */
    char *path;
    void *map_;
    size_t map_bytes_;
} TokenFile;

/* NULL, or a malloc'ed "FILE: rule: found"; after an error *f needs no close. */
char *tokenfile_open(TokenFile *f, const char *path);
/* Every id in [0, vocab): NULL, or a message with the position of the first that is not. */
char *tokenfile_check_ids(const TokenFile *f, int64_t vocab);
void tokenfile_close(TokenFile *f);

#endif
