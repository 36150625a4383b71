/* target.h -- target architectures and GPU cards: the rows of targets.def and cards.def. */
#ifndef TARGET_H
#define TARGET_H

#include "gen/util.h"

/* ---- targets.def --------------------------------------------------------------------------- */

typedef struct {
    const char *name;        /* value of the field target */
    const char *backend;     /* cpu | cuda */
    const char *about;
    int64_t memory;          /* bytes a rank may plan with; 0: ask for the field memory.limit_gib */
    int64_t reserve;         /* bytes kept back for the driver, libraries and the stack */
    int align;               /* of every planned buffer, bytes */
    double peak_fp32, peak_bf16;   /* FLOP/s of one rank's device, for estimates only */
    const char *cflags;      /* of the compiler that builds the kernels */
    /* cuda only */
    const char *arch;        /* "sm_90a" */
    int capability;          /* 10 * major + minor of the cards it runs on */
    int sms;                 /* multiprocessors of the card that the row is for */
    int shared_block;        /* bytes a block may have, opted in */
    int shared_sm, threads_sm, registers_sm;   /* of a multiprocessor */
    const char *toolkit;     /* "12.8": the first CUDA toolkit that supports it */
} Target;

const Target *target_find(const char *name);     /* NULL: none */
int target_count(void);
const Target *target_row(int i);                 /* 0 .. target_count() - 1 */

/* Assumptions of estimates for all targets of a backend. */
typedef struct {
    const char *name;
    /* bytes/s of memory, cuda: 0, a card's; between ranks, cuda: over PCIe 4 */
    double bandwidth, link;
    double start, meet;      /* seconds until a kernel begins, and a sum over ranks */
} Backend;
const Backend *target_backend(const Target *t);

/* ---- cards.def ----------------------------------------------------------------------------- */

/* A GPU by its name. */
typedef struct {
    const char *name, *target;
    int64_t memory;          /* bytes a rank may plan with, reserve and all */
    double gib;              /* the same as memory.limit_gib says it */
    const char *about;
    /* for estimates only: FLOP/s, bytes/s of its memory, and between the GPUs of a node */
    double peak_fp32, peak_bf16, bandwidth, link;
} Card;

int card_count(void);
const Card *card_row(int i);                        /* 0 .. card_count() - 1 */
const Card *card_find(const char *name);         /* however its name is spaced; NULL: none */
/* of a name that is none: what it may mean; NULL: nothing */
const Card *card_near(const char *name);

#endif
