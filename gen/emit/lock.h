/* lock.h -- lock files: tuned algorithms of matrix products and variants of kernels. */
#ifndef LOCK_H
#define LOCK_H

#include "gen/graph/ir.h"

/* An algorithm as Gemm.algo and Gemm.raw take it; algo NULL: not tuned, raw NULL: an older row. */
typedef struct { const char *algo, *raw; } LockedAlgo;
/* Arguments: see gemm_key(). Records the lookup. */
LockedAlgo lock_gemm_algo(const Graph *g, const char *form, const char *in, const char *out,
                          int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb, int64_t ldc,
                          const char *epilogue, int beta, int64_t offset);
/* Measured seconds of a product, and of a kernel by its key; 0: no row applies, or it does not say.
 * These record nothing. */
double lock_kernel_seconds(const Graph *g, const char *key);
double lock_gemm_seconds(const Graph *g, const char *form, const char *in, const char *out,
                         int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb, int64_t ldc,
                         const char *epilogue, int beta, int64_t offset);
/* Returns the variant of a kernel call as a number, or NULL. key: kernel, types and dimensions. */
const char *lock_variant(const Graph *g, const char *key);
const char *lock_cublaslt(void);                             /* version measured with, or NULL */
/* keys that were looked up and have no row, sorted */
int lock_untuned(const char *const **key);
void lock_renew(const Graph *g);     /* before the graph of another recipe */
void lock_note(void);                                        /* one line, if there is a file */
/* Ends the program if a looked-up key has no row. */
void lock_require(const Graph *g);
char *lock_path(const Graph *g);
char *lock_generator(void);
char *lock_kernels(void);                                    /* hash of kernels/cuda */
/* rows of one card, as the tuner prints them, into the lock file; from: for messages */
void lock_write(const Graph *g, const char *section, const char *from);

#endif
