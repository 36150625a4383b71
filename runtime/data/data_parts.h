/* data_parts.h -- internals shared by data.c (opening token files), data_order.c (samples of a
 * step) and data_batch.c (their tokens). */
#ifndef DIECAST_DATA_PARTS_H
#define DIECAST_DATA_PARTS_H

#include "runtime/data/data.h"
#include "runtime/data/tokenfile.h"

enum { COLUMNS = 8 };            /* maximum number of DataShape.columns */

struct DataFile {
    TokenFile t;
    const Column *column[COLUMNS];
    int64_t n;                   /* pieces in use */
    int64_t skip;                /* pieces before them, not in use */
};

/* A run of consecutive pieces of a file. */
struct DataSpan {
    int file;
    int64_t first, n;            /* pieces of all spans before this one; pieces of this one */
    int64_t skip;                /* pieces of the file before this one */
};

/* A document or window in a sample: `have` tokens are inputs; with `next` one more token follows
 * them. */
typedef struct {
    const TokenFile *file;
    const TokenPart *part;
    int64_t index, begin;        /* index of the piece, and of its first token in the file */
    const int32_t *token;
    const uint8_t *mask;         /* or NULL: every token is a target */
    int64_t have;
    bool next;
    int32_t pad;
} DataPiece;

/* Piece i of the files; with parts, the given part of sample i. EXIT_DATA: its file was changed. */
DataPiece data_piece_at(const Data *d, int64_t i, int part);
int64_t data_piece_targets(const DataPiece *s);
/* Tokens that an objective may choose as targets. */
int64_t data_piece_choices(const DataPiece *s);
/* Targets of sample i; with finds_targets the tokens that may be targets. */
int64_t data_sample_targets(const Data *d, int64_t i);
/* Sample g of the step's G; -1: a padding row of an evaluation. */
int64_t data_sample_at(Data *d, int64_t step, int64_t g);
/* DataRow.repeat of that sample. */
int64_t data_repeat_at(Data *d, int64_t step, int64_t g);

/* Returns a Data without samples: how a step is divided. micro 0: the model's. */
Data data_divided(const char *kind, int64_t T, const Model *m, int64_t micro, uint64_t seed,
                  bool eval);
void data_check_count(const Data *d, const char *paths);     /* EXIT_DATA: too many samples */
void data_start_order(Data *d);                              /* allocates that of d->n samples */

#endif
