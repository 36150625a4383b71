/* data.h -- batches from token files; the samples of a step are a function of (seed, step).
 *
 * In:    token files of one kind and one tokenizer, mapped.
 * Out:   tokens and labels of a micro-batch; label -1: not a target.
 * Keeps: samples depend on the global batch, not on its split into ranks and micro-batches. */
#ifndef DIECAST_DATA_H
#define DIECAST_DATA_H

#include "runtime/data/bins.h"
#include "runtime/data/shuffle.h"
#include "runtime/files/safetensors.h"
#include "runtime/model/model.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct DataFile DataFile;
typedef struct DataSpan DataSpan;

/* A column of the files besides their tokens: one element per sample, or, if ragged, any number. */
typedef struct {
    const char *name;
    StDtype dtype;
    bool ragged;
    bool may;                    /* files may lack it */
} DataColumn;

typedef struct Data Data;
struct Data {
    int nfiles;
    DataFile *file;
    void (*check)(const Data *d);        /* EXIT_DATA if a file shrank; NULL: no files */
    int nspans;
    DataSpan *span;              /* maps samples (before bins) to records of files */
    int nsources;                /* the files, if DataShape.weight; 0: every sample once an epoch */
    DataSource *source;
    const char *kind;            /* packed, rows or bfd, as in the recipe; or the objective's own */
    const char *const *parts;    /* of DataShape */
    int nparts;                  /* 1 if parts is NULL */
    const DataColumn *columns;   /* of DataShape */
    int ncolumns;
    bool eval, rows;             /* rows: each document of the files is one row */
    Bins bins;                   /* bfd: the documents of each sample; else empty */
    int64_t base;                /* rows or windows of all files before the first one in use */
    int64_t n;                   /* samples */
    int64_t T, micro, accum, ranks, vocab;
    int64_t targets;             /* maximum per micro-batch; 0: as many as positions */
    int64_t G;                   /* samples per step: micro * accum * ranks; eval: micro * ranks */
    uint64_t seed;
    int64_t epoch;               /* whose permutation is in `order`; -1: none yet */
    int64_t step;                /* last step before which file sizes were checked; -1: none */
    int32_t *order;              /* (n) NULL for eval */
    int32_t *pass;               /* (n) as of mixture_order(); NULL without sources */
    char *tokenizer;             /* id of the tokenizer of all files; NULL: unknown */
    char *folder;                /* of the first file: may hold its tokenizer.json; NULL: no file */
    int64_t ids;                 /* number of ids of the tokenizer */
    int64_t mask_id, pad_id;     /* its mask and padding tokens; -1: none */
    int64_t eos;                 /* its end-of-text token; -1: none */
    bool finds_targets, whole;   /* of DataShape */
    bool divided;                /* the files mark the documents for validation */
};

/* Buffers for the inputs of one micro-batch, one pointer per row of inputs.def; NULL: the program
 * has no such input. */
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

/* How a model reads token files. */
typedef struct {
    const char *kind;            /* packed, rows or bfd, as in the recipe; with parts: the files' */
    int64_t T, vocab;            /* tokens of a sample, or of each part; number of ids */
    /* NULL-terminated: samples have these parts, columns of the files, read by data_part(). NULL:
     * only the part "tokens". */
    const char *const *parts;
    const DataColumn *columns;   /* for data_column(); ends with name NULL; or NULL: none */
    int64_t micro;               /* samples of a micro-batch of a rank; 0: the model's */
    int64_t targets;             /* maximum per micro-batch, all parts together; 0: no limit */
    /* True: the objective reads whole rows with data_row() and chooses its targets from all tokens
     * whose mask is 1. False: the target of each token is the token after it. */
    bool finds_targets;
    void (*fill_bins)(Data *d);          /* bfd: data_fill_bins; else NULL */
    int64_t (*takes)(int64_t may);       /* targets taken of `may` in a sample; NULL: all */
    /* Uses only the first `most` samples in file order (0: all). These n samples are divided into
     * parts: the first int(split[0] * n) are part 0, the next int(split[1] * n) part 1, and so on;
     * the samples left after the last nonzero share are the last part. `take` selects the part to
     * read. split[0] 0: there is no division. Files that mark documents for validation are divided
     * by their marks instead, and `most` then counts only the documents not marked. */
    int64_t most;
    double split[3];
    int take;
    bool whole;                  /* training: an epoch drops samples that do not fill a step */
    /* (files) training: sampling weight of each file; an epoch has as many samples as all files
     * together. `split` then divides each file separately, also for evaluation. NULL: every sample
     * once an epoch. */
    const double *weight;
} DataShape;

/* A sample as it is in its file: rows or packed. */
typedef struct {
    int64_t sample;              /* index among the samples of all files */
    /* 0, but for more copies of a sample in a step that takes more than there are, and in the
     * passes of an epoch over its source: another number for each, below 2^31 */
    int64_t repeat;
    const int32_t *token;        /* (n) each below vocab; valid until this thread's next row */
    const uint8_t *mask;         /* (n) or NULL: all 1 */
    int64_t n;                   /* at most T */
} DataRow;

/* Opens comma-separated token files. Checks that every id is below vocab, every row has a target
 * and fits T (EXIT_DATA with file and position), that no micro-batch can have more targets than the
 * model takes (EXIT_DATA with their number), and that kind, vocabulary and tokenizers match the
 * model and each other (EXIT_MISMATCH). */
void data_open(Data *d, const char *paths, const Model *m, const DataShape *of, uint64_t seed,
               bool eval);
/* Packs the documents of d into bins, which become its samples; a bin is of one source
 * (data_bins.c). */
void data_fill_bins(Data *d);
/* n samples of T positions that are in no token file: the objective reads them from `path` itself.
 * kind: a word for the fingerprint. Order and split among ranks: see data_samples(). EXIT_DATA: too
 * few or too many. */
void data_open_samples(Data *d, const char *kind, const char *path, int64_t n, int64_t T,
                       const Model *m, uint64_t seed, bool eval);
/* An evaluation of samples first .. first + n - 1 of d, which must outlive the view, in file order.
 * EXIT_DATA as data_open(). */
void data_view(Data *view, const Data *d, int64_t first, int64_t n, const Model *m,
               const DataShape *of);
/* Returns the batches per rank of an evaluation that has the samples of `steps` training steps,
 * for any gradient accumulation; at most all; steps 0: all. */
int64_t data_eval_batches(const Data *d, const Model *m, int64_t steps);
/* Returns the files of d, comma-separated as for data_open(); malloc'ed. */
char *data_paths(const Data *d);
/* EXIT_MISMATCH, with the gen pack command, unless id, that of the tokenizer.json `file`, is the
 * tokenizer of the files. */
void data_check_tokenizer(const Data *d, const char *id, const char *file);
/* EXIT_MISMATCH unless the token files `files` have the same tokenizer id and, unless unknown (-1),
 * the same end-of-text token. */
void data_check_same(const Data *d, const char *id, int64_t eos, const char *files);

/* Fills micro-batch `micro` of this rank in step `step` (0-based, over all epochs): B = the model's
 * micro rows of tokens and labels and, if the program has them, places and ends, target_rows and
 * target_of. The rest of a row after its last document is padding, a document of its own. The order
 * of an epoch is PyTorch's randperm (mt19937 seeded with seed + epoch, Fisher-Yates), or with
 * sources that of shuffle.h; the last step of an epoch is filled up from the start of the same
 * permutation. Evaluation: step is the batch and micro is 0; samples are in file order, for bfd in
 * bin order, which begins with the longest documents; rows after the last sample have no targets.
 * EXIT_DATA, with the position, if a file was changed since data_open() so that an id or a document
 * is out of bounds. */
void data_batch(Data *d, int64_t step, int64_t micro, Batch to);
/* Row `row` of the same micro-batch as it is in its file; false: padding at the end of an
 * evaluation. EXIT_DATA as above. Thread-safe once data_order() was called for the step. */
bool data_row(Data *d, int64_t step, int64_t micro, int64_t row, DataRow *to);
/* The same for the sample at `position`, 0..G-1, of the whole step, whichever rank has it. */
bool data_row_of_step(Data *d, int64_t step, int64_t position, DataRow *to);
/* Part `part` of the same samples, in the order of DataShape.parts; data_row() is part 0. */
bool data_part(Data *d, int64_t step, int64_t micro, int64_t row, int part, DataRow *to);
bool data_part_of_step(Data *d, int64_t step, int64_t position, int part, DataRow *to);
/* A sample by its index, 0..n-1, independent of steps. EXIT_DATA as above; thread-safe. */
void data_sample(const Data *d, int64_t sample, int part, DataRow *to);
/* Returns the *n elements of column `column` of DataShape.columns for sample DataRow.sample, mapped
 * from the file, which may change: check a copy. NULL: the file lacks an optional column.
 * Thread-safe. EXIT_DATA as above. */
const void *data_column(const Data *d, int column, int64_t sample, int64_t *n);
/* Returns the file of a sample, from 0, and sets its record in that file. */
int data_file_of(const Data *d, int64_t sample, int64_t *record);
/* Path of a file, and its metadata under a key; NULL: no such key. */
const char *data_path(const Data *d, int file);
const char *data_meta(const Data *d, int file, const char *key);
/* Adds the samples that `step` takes of each source to `taken`; call once per step, after
 * data_order(). */
void data_count(Data *d, int64_t step);
/* Prepares the order of the step's epoch and checks that no file shrank; functions that take a step
 * do so themselves. Not thread-safe. */
void data_order(Data *d, int64_t step);
/* The epoch of a step, from 0; of an evaluation always 0. */
int64_t data_epoch(const Data *d, int64_t step);
/* For a head that only computes rows with a target. of (n): the label of each position, replaced by
 * the index of its target in rows, or -1. rows, labels (most): position and label of each target in
 * order, -1 after the last. */
void data_gather(int32_t *of, int64_t n, int32_t *rows, int32_t *labels, int64_t most);
/* Targets of the whole step, all ranks and micro-batches; with finds_targets the tokens that may be
 * targets. */
int64_t data_targets(Data *d, int64_t step);
/* Tokens of the whole step without padding. */
int64_t data_tokens(Data *d, int64_t step);
/* Samples (not padding rows) of one micro-batch of this rank: B except at the end of an
 * evaluation. */
int64_t data_rows(const Data *d, int64_t step, int64_t micro);
/* Index of the first row of the micro-batch among the step's G samples. */
int64_t data_sample0(const Data *d, int64_t step, int64_t micro);
/* Fills tokens (rows) with arbitrary ids that depend on `first`, and target_of (rows) with
 * `targets` labels at evenly spaced positions, -1 elsewhere. */
void data_fill_any(int32_t *tokens, int32_t *target_of, int64_t rows, int64_t targets,
                   int64_t vocab, int64_t first);
/* Sets the key (4) of all random numbers of a micro-batch, as in inputs.def; independent of ranks
 * and micro-batches. sample0: data_sample0(). */
void data_noise(uint32_t *key, uint64_t seed, int64_t step, int64_t sample0);
/* Steps per epoch, at least 1; evaluation: batches per rank. */
int64_t data_steps_per_epoch(const Data *d);
/* Everything but the seed that determines the samples: files, tokenizer, kind, T. malloc'ed. */
char *data_fingerprint(const Data *d);
/* The same without data_special(), which files of earlier releases lack. malloc'ed. */
char *data_fingerprint_files(const Data *d);
/* The ids of special tokens that the files were packed with, as in TokenFile; "": not recorded. */
const char *data_special(const Data *d);
/* The tokenizer id in a fingerprint; malloc'ed. */
char *data_fingerprint_tokenizer(const char *fingerprint);
/* Writes the sample indices of the step in order, at most max, -1 after the last of an evaluation;
 * returns G. */
int64_t data_samples(Data *d, int64_t step, int64_t *out, int64_t max);

#endif
