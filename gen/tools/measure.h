/* measure.h -- memory, work and time estimates of a planned graph, for gen plan, info, list,
 * diff. */
#ifndef GEN_MEASURE_H
#define GEN_MEASURE_H

#include "gen/graph/ir.h"

typedef struct {
    int64_t parameters, trained;         /* elements of the model files' tensors */
    int64_t purpose[NPURPOSES];          /* bytes; storage shared by values counts once */
    int64_t divided[NPURPOSES];          /* of them, bytes of buffers with only the rank's shares */
    int64_t temporary[NPURPOSES];        /* of them, bytes that share memory over time */
    int64_t pinned;                      /* bytes in pinned memory of the host, in none of these */
    const Value **buffer;                /* one per storage, the largest first */
    int nbuffers;
} Holdings;
Holdings measure_holdings(const Graph *g);   /* of a rank, after plan */
int64_t buffer_bytes(const Value *v);    /* of all its slots */
/* Shares of a value, of SHARES (runtime/shares.h), that its buffer holds on a rank; 0: it is not
 * divided. */
int64_t value_shares(const Graph *g, const Value *v);

double program_bytes(const Program *p);  /* of memory that its calls read and write */
int program_calls(const Program *p);     /* of kernels */
bool schedule_updates(const Schedule *s);        /* true if it changes weights */

/* Work of one run of a schedule on a rank. */
typedef struct {
    /* at_peak: seconds if products ran at the target's peak and everything else took no time */
    double flops, bytes, at_peak;
} Work;
Work schedule_work(const Graph *g, const Schedule *s);
Work step_work(const Graph *g);          /* of the first schedule that changes weights */
bool graph_in_fp32(const Graph *g);       /* its precision */
double step_tokens(const Graph *g, Config *c);   /* positions of sequences, all ranks */

/* Bytes that a rank sends by one kind of collective, on average over the ranks; gen/lower/
 * collectives.def. */
typedef struct {
    const char *name;
    double within, between;      /* to ranks of its node, and of other nodes */
} Sent;
Sent op_sent(const Graph *g, const Program *p, const Op *op, int64_t nodes);
/* Sets *list to one entry a kind for one run of the schedule; returns their number. */
int schedule_sent(const Graph *g, const Schedule *s, int64_t nodes, Sent **list);
/* All kinds together; step_sent: of the first schedule that changes weights. */
Sent schedule_sent_sum(const Graph *g, const Schedule *s, int64_t nodes);
Sent step_sent(const Graph *g, Config *c);
int64_t nodes_of(Config *c);             /* of the recipe's cluster; 1 without */

/* ---- the cost model ---- */

/* Device of time estimates: a CARD row, or a CPU with its target's peak. */
typedef struct {
    const Card *card;                    /* NULL: a CPU */
    const char *name;                    /* for people */
    /* FLOP/s in the recipe's precision, bytes/s of memory and between ranks */
    double peak, bandwidth, link;
} Device;
Device device_of(const Graph *g, Config *c);
/* Seconds in which a rank sends the bytes of one run of the schedule at the speed of its links. */
double schedule_send_seconds(const Graph *g, const Schedule *s, Config *c);

/* Kinds of work, the rows of efficiency.def. */
#define EFFORTS(X) \
    X(product) X(attention_fwd) X(attention_bwd) X(pointwise) X(head) X(update)
#define EFFORT_ENUM(kind) EFFORT_##kind,
typedef enum { EFFORTS(EFFORT_ENUM) NEFFORTS } Effort;
extern const char *const effort_name[NEFFORTS];
/* Share of the peak, or of the bandwidth, that a kind reaches on a target. */
double effort_share(const Target *t, Effort kind);

/* Limits of the seconds of a step. blocks: the extra time of FLOP because the blocks of a kernel do
 * not fill the multiprocessors; measured: seconds of the lock file. */
#define LIMITS(X) \
    X(flop, "FLOP") X(bytes, "bytes") X(blocks, "blocks") X(launches, "launches") \
    X(ranks, "other ranks") X(measured, "measured")
#define LIMIT_ENUM(limit, text) LIMIT_##limit,
typedef enum { LIMITS(LIMIT_ENUM) NLIMITS } Limit;
extern const char *const limit_name[NLIMITS], *const limit_key[NLIMITS];   /* for people; JSON */

/* Shared memory that the driver reserves per block, bytes. */
enum { BLOCK_SHARED = 1024 };
/* How the blocks of a launch fill a GPU. */
typedef struct {
    double blocks;                       /* 0: unknown */
    int resident;                        /* blocks on a multiprocessor at a time */
    double use;                          /* share of the time in which the multiprocessors work */
} Fill;

/* The calls of a step of one kernel that make one value. */
typedef struct {
    const char *kernel, *result;         /* row of kernels.def; name, "" without one */
    double calls, launches;              /* launches: of kernels */
    double flops, bytes;
    double kind[NEFFORTS];               /* seconds of its kernels */
    double limit[NLIMITS];               /* all its seconds */
    double seconds;                      /* their sum */
    double share;                        /* attention: of the peak FLOP/s, on a full GPU */
    Fill fill[2];                        /* attention: launches over queries, and over keys */
} CostRow;
/* Kernel of the row that holds a program's waits for asynchronous collectives, by its name. */
#define COST_WAITS "(collectives)"

/* Time of a call: each of its products takes as long as its FLOP or its bytes do, whichever is
 * longer, or as the lock file says; everything else its bytes; and each launch its start.
 * Asynchronous collectives count by how much they are longer than their loop's kernels. All but
 * the rows are sums over them. */
typedef struct {
    CostRow *row;
    int nrows;
    double kind[NEFFORTS];               /* seconds of a step (schedules that change weights) */
    double kernels;                      /* their sum */
    double limit[NLIMITS];
    double step;                         /* kernels, launches, ranks */
    int measured;                        /* products and calls that the lock file has seconds of */
} Cost;
Cost step_cost(const Graph *g, Config *c);

/* Disk space of a run, bytes. */
typedef struct {
    int64_t checkpoint, kept;            /* of one checkpoint; number kept, 0: all */
    int64_t export, merged;              /* of an export; merged 0: no adapters */
} Disk;
Disk disk_of(const Graph *g, Config *c);

/* ---- the run ---- */

/* Default of a flag in programs of this recipe, as text. */
const char *run_value(const Graph *g, const char *name);
double run_number(const Graph *g, const char *name);
typedef struct {
    int64_t batch;                       /* samples of a step, all ranks */
    /* training and validation samples, at most (--max-samples); 0: unknown */
    int64_t samples, held;
    int64_t an_epoch, updates;           /* steps per epoch and in all, at most; 0: unknown */
    double epochs;                       /* 0: by --steps */
} Length;
Length run_length(const Graph *g, Config *c);

#endif
