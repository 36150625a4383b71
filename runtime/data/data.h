/* data.h -- batches from token files: the samples of a step are a function of (seed, step).
 *
 * In:    token files of one kind and one tokenizer, mapped.
 * Out:   tokens and labels of a micro-batch; label -1 is no target.
 * Keeps: they depend on the global batch, not on how ranks and micro-batches split it. */
#ifndef DIECAST_DATA_H
#define DIECAST_DATA_H

#include "runtime/data/bins.h"
#include "runtime/data/mixture.h"
#include "runtime/data/permutation.h"
#include "runtime/files/safetensors.h"
#include "runtime/model/model.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct DataFile DataFile;
typedef struct DataSpan DataSpan;

/* A column of the files beside their tokens: of each sample one element, or, ragged, some or none. */
typedef struct {
    const char *name;
    StDtype dtype;
    bool ragged;
    bool may;                    /* files may lack it */
} DataColumn;

typedef struct {
    int nfiles;
    DataFile *file;
    int nspans;
    DataSpan *span;              /* which records of which file samples are, before bins */
    int nsources;                /* of DataShape.weight: the files, in their order; 0: all samples once an epoch */
    DataSource *source;
    const char *kind;            /* packed, rows or bfd, as in the recipe; or the objective's own */
    const char *const *parts;    /* of DataShape */
    int nparts;                  /* 1 where that is NULL */
    const DataColumn *columns;   /* of DataShape */
    int ncolumns;
    bool eval, rows;             /* rows: the files hold documents a row each */
    Bins bins;                   /* bfd: the documents of each sample; else none */
    int64_t base;                /* rows or windows of all files before the first that counts */
    int64_t n;                   /* samples */
    int64_t T, micro, accum, ranks, vocab;
    int64_t targets;             /* most of a micro-batch; 0: as many as there are places */
    int64_t G;                   /* samples a step: micro * accum * ranks; eval: micro * ranks */
    uint64_t seed;
    int64_t epoch;               /* whose permutation `order` is; -1 none yet */
    int64_t step;                /* before which the files were looked at; -1: none yet */
    int32_t *order;              /* n entries; NULL for eval */
    int32_t *list;               /* n entries where there are sources; else NULL */
    char *tokenizer;             /* id of the tokenizer all files were made with; NULL: not known */
    char *folder;                /* of the first file: its tokenizer.json may lie there; NULL: no file */
    int64_t ids;                 /* how many it has */
    int64_t mask_id, pad_id;     /* of a token that is hidden, of none; -1: it has none */
    int64_t eos;                 /* of the end of a text; -1: it has none */
    bool own_targets, whole;     /* of DataShape */
    bool divided;                /* the files say which of their documents are to validate on */
} Data;

/* Where the inputs of one micro-batch stand, a pointer a row of inputs.def; NULL: the program has no
 * such input. */
typedef struct {
#define BATCH_i32 int32_t
#define BATCH_u32 uint32_t
#define BATCH_f32 float
#define BATCH_micro(name, dtype) BATCH_##dtype *name;
#define BATCH_step(name, dtype)
#define BATCH_set(name, dtype)
#define INPUT(name, dtype, dims, each, place, doc) BATCH_##each(name, dtype)
#include "runtime/data/inputs.def"
#undef INPUT
} Batch;

/* What a model takes of token files. */
typedef struct {
    const char *kind;            /* packed, rows or bfd, as in the recipe; with parts, that of the files */
    int64_t T, vocab;            /* tokens of a sample, or of each part; how many ids there are */
    /* Behind the last one NULL: samples have these parts, columns of the files, which the objective
     * takes by data_part(). NULL: the one part "tokens". */
    const char *const *parts;
    const DataColumn *columns;   /* that files have, for data_column(); behind the last one name NULL; or NULL */
    int64_t micro;               /* samples of a micro-batch of a rank; 0: the model's */
    int64_t targets;             /* most of a micro-batch, of all parts together; 0: any number */
    /* The objective takes rows as they are, by data_row(), and finds targets itself among all tokens
     * whose mask is 1; else a target is what follows a token. */
    bool own_targets;
    int64_t (*takes)(int64_t may);       /* of so many in a sample, where that is less; NULL: all */
    /* Of all samples in the order of the files the first `most` (0: all) count. Of these, n, the first
     * int(split[0] * n) are part 0, the next int(split[1] * n) part 1, ..., and what is left behind
     * the last share that is not 0 is the last part; `take` says which is meant. split[0] 0: all. Files that
     * say which documents are to validate on are divided so, and `most` is of the others. */
    int64_t most;
    double split[3];
    int take;
    bool whole;                  /* training: an epoch leaves out what does not fill a step */
    /* (files) Training: what of an epoch, which has as many samples as all files together, is drawn from each, in
     * proportion; `split` divides each file by itself then, also for an evaluation. NULL: all samples once. */
    const double *weight;
} DataShape;

/* A sample as it stands in its file: rows or packed. */
typedef struct {
    int64_t sample;              /* its index among those of all files */
    const int32_t *token;        /* (n) each below vocab; until the thread's next one of this part */
    const uint8_t *mask;         /* (n) or NULL: all 1 */
    int64_t n;                   /* at most T */
} DataRow;

/* Opens comma-separated token files; checks every id, that every row has a target and fits T
 * (EXIT_DATA, naming file and place), that no micro-batch can have more targets than the model
 * takes (EXIT_DATA, with their number), and that kind, vocabulary and tokenizers suit the model and
 * each other (EXIT_MISMATCH). */
void data_open(Data *d, const char *paths, const Model *m, const DataShape *of, uint64_t seed,
               bool eval);
/* n samples of T places that stand in no token file: `kind`, a word, tells them from others, `path` is
 * where the objective has them from, who reads them himself; their order and division among ranks are
 * as of all, see data_samples(). EXIT_DATA: too few or too many. */
void data_open_own(Data *d, const char *kind, const char *path, int64_t n, int64_t T,
                   const Model *m, uint64_t seed, bool eval);
/* Samples first .. first + n - 1 of the files of d, which has to outlive it, in their order: an
 * evaluation of them. EXIT_DATA as data_open(). */
void data_view(Data *view, const Data *d, int64_t first, int64_t n, const Model *m,
               const DataShape *of);
/* Batches of a rank, of an evaluation, that have the samples of so many steps, so that gradient accumulation changes
 * nothing; at most all; steps 0: all. */
int64_t data_eval_batches(const Data *d, const Model *m, int64_t steps);
/* The files of d, as data_open() takes them, for another part of them; malloc'ed. */
char *data_paths(const Data *d);
/* EXIT_MISMATCH unless id, that of the file tokenizer.json, is the tokenizer the files were made
 * with; says how to pack them. */
void data_check_tokenizer(const Data *d, const char *id, const char *file);
/* The same for other token files. */
void data_check_same(const Data *d, const char *id, const char *files);

/* Micro-batch `micro` of this rank in step `step` (0-based, over all epochs): B = model's micro
 * rows of tokens, labels, and where they are there places and ends, target_rows and target_of.
 * What follows the last document of a row is padding and a document of its own. The order of an
 * epoch is mt19937 seeded with seed + epoch and Fisher-Yates, as PyTorch's randperm, where there are
 * sources of what mixture.h draws; the last step of an epoch is filled up from the start of the same permutation.
 * Evaluation: step is the batch, in file order, of bfd in that of the bins, which begins with the longest documents;
 * micro 0; rows beyond the last sample have no targets. A file that was changed since data_open, so that an
 * id or a document is out of its bounds: EXIT_DATA, naming the place. */
void data_batch(Data *d, int64_t step, int64_t micro, Batch to);
/* Row `row` of the same micro-batch as it stands in its file; false: there is none, it is padding at
 * the end of an evaluation. EXIT_DATA as above. Any thread, once data_order() was called for the
 * step. */
bool data_row(Data *d, int64_t step, int64_t micro, int64_t row, DataRow *to);
/* The same at place 0..G-1 of the whole step, of whatever rank. */
bool data_row_of_step(Data *d, int64_t step, int64_t place, DataRow *to);
/* Part `part` of the same samples, by the order of DataShape.parts; data_row() is part 0. */
bool data_part(Data *d, int64_t step, int64_t micro, int64_t row, int part, DataRow *to);
bool data_part_of_step(Data *d, int64_t step, int64_t place, int part, DataRow *to);
/* Of a sample by its index, whatever step it is of. EXIT_DATA as above; any thread. */
void data_sample(const Data *d, int64_t sample, int part, DataRow *to);
/* What sample `sample` of DataRow has in column `column` of DataShape.columns: *n elements as they stand in
 * the file, which may be changed meanwhile: whoever computes with them looks at what they copied. NULL: its
 * file lacks the column, which may be. Any thread. EXIT_DATA as above. */
const void *data_column(const Data *d, int column, int64_t sample, int64_t *n);
/* Which file a sample is of, from 0, and which of its records it is. */
int data_place(const Data *d, int64_t sample, int64_t *record);
/* Of a file: its path, what its metadata have under a key; NULL: nothing. */
const char *data_path(const Data *d, int file);
const char *data_meta(const Data *d, int file, const char *key);
/* Adds what `step` takes of each source to what was taken of it; call once a step, when its order is there. */
void data_count(Data *d, int64_t step);
/* Finds the order of the step's epoch and looks whether the files are still whole; whatever takes a
 * step does so itself. One thread. */
void data_order(Data *d, int64_t step);
/* The epoch of a step, from 0; of an evaluation 0: it does not change from one to the next. */
int64_t data_epoch(const Data *d, int64_t step);
/* For a head that sees only rows with a target. of (n): the label of each place, becomes the
 * target's index in rows or -1; rows, labels (most): place and label of each target in order, -1
 * beyond the last. */
void data_gather(int32_t *of, int64_t n, int32_t *rows, int32_t *labels, int64_t most);
/* Targets of the whole step, all ranks and micro-batches; where the objective finds them itself, the
 * tokens that may be. */
int64_t data_targets(Data *d, int64_t step);
/* Tokens of the whole step that are not padding. */
int64_t data_tokens(Data *d, int64_t step);
/* Real samples (not padding rows) of one micro-batch of this rank: B except at the end of an
 * evaluation. */
int64_t data_rows(const Data *d, int64_t step, int64_t micro);
/* Index of the micro-batch's first row within the step's G samples. */
int64_t data_sample0(const Data *d, int64_t step, int64_t micro);
/* Tokens of no meaning (rows), other ones for another `first`; evenly spread among them `targets` places
 * whose next is one, target_of (rows) -1 elsewhere. */
void data_fill_any(int32_t *tokens, int32_t *target_of, int64_t rows, int64_t targets, int64_t vocab,
                   int64_t first);
/* The key (4) of every random number of a micro-batch, as inputs.def has it; ranks and micro-batches
 * do not enter it. sample0: data_sample0(). */
void data_noise(uint32_t *key, uint64_t seed, int64_t step, int64_t sample0);
/* Steps of an epoch, from 1; evaluation: batches of a rank. */
int64_t data_steps_per_epoch(const Data *d);
/* What decides the samples besides the seed: files, tokenizer, kind, T. malloc'ed. */
char *data_fingerprint(const Data *d);
/* The tokenizer in a fingerprint; malloc'ed. */
char *data_fingerprint_tokenizer(const char *fingerprint);
/* Sample indices of the step in order, -1 beyond the last of an evaluation: at most max into out;
 * returns G. */
int64_t data_samples(Data *d, int64_t step, int64_t *out, int64_t max);
void data_close(Data *d);

#endif
