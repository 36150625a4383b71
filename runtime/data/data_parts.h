/* data_parts.h -- what data.c (opening), data_samples.c (which samples a step has) and data_batch.c (their tokens)
 * share: files, and the pieces that samples are made of. */
#ifndef DIECAST_DATA_PARTS_H
#define DIECAST_DATA_PARTS_H

#include "runtime/data/data.h"
#include "runtime/data/tokenfile.h"

enum { COLUMNS = 8 };            /* most that are asked for */

struct DataFile {
    TokenFile t;
    const Column *column[COLUMNS];
    int64_t n;                   /* pieces */
    int64_t skip;                /* pieces that do not count, before them */
};

/* Consecutive pieces of a file. */
struct DataSpan {
    int file;
    int64_t first, n;            /* pieces of the spans before; of this one */
    int64_t skip;                /* pieces of the file before it */
};

/* Tokens that stand together in a sample, a window or a document: `have` of them are inputs; one
 * more follows them when `next`. */
typedef struct {
    const TokenFile *file;
    const TokenPart *part;
    int64_t index, begin;        /* of the piece and of its first token in the file */
    const int32_t *token;
    const uint8_t *mask;         /* or NULL: every token is a target */
    int64_t have;
    bool next;
    int32_t pad;
} DataPiece;

/* Piece i of the files that d is of; of samples with parts, its part. EXIT_DATA: its file was changed. */
DataPiece data_piece_at(const Data *d, int64_t i, int part);
/* The pieces of sample i are data_piece(d, i, 0) .. data_piece(d, i, data_pieces(d, i) - 1): the documents of
 * a bin, or the parts. */
int64_t data_pieces(const Data *d, int64_t i);
DataPiece data_piece(const Data *d, int64_t i, int64_t k);
int64_t data_piece_targets(const DataPiece *s);
/* Tokens that an objective may choose as its targets. */
int64_t data_piece_choices(const DataPiece *s);
/* Targets of sample i; where the objective finds them itself, the tokens that may be. */
int64_t data_sample_targets(const Data *d, int64_t i);
/* The sample at place g of step's G; -1: a padding row of an evaluation. */
int64_t data_sample_at(Data *d, int64_t step, int64_t g);

#endif
