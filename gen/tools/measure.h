/* measure.h -- numbers of a planned graph, which gen plan, info, list and diff print.
 *
 * In:    the graph after plan. */
#ifndef GEN_MEASURE_H
#define GEN_MEASURE_H

#include "gen/graph/ir.h"

typedef struct {
    int64_t parameters, trained;         /* elements of the model files' tensors */
    int64_t purpose[NPURPOSES];          /* bytes; a storage that several values share counts once */
    const Value **buffer;                /* one a storage, the largest first */
    int nbuffers;
} Holdings;
Holdings measure_holdings(const Graph *g);
int64_t buffer_bytes(const Value *v);    /* of all its slots */

double program_bytes(const Program *p);  /* read and written by its calls, each operand once a call */
int program_calls(const Program *p);     /* of kernels */
bool schedule_updates(const Schedule *s);        /* it changes weights */

/* Of a turn of a schedule, on a rank. */
typedef struct {
    double flops, bytes, at_peak;   /* at_peak: seconds if products ran at the target's peak and all else at once */
} Work;
Work schedule_work(const Graph *g, const Schedule *s);
Work step_work(const Graph *g);          /* of the first that changes weights */
double step_tokens(const Graph *g, Config *c);   /* places of sequences, all ranks */

/* ---- the cost model ---- */

/* The device that times are estimated for: a row CARD, or of a CPU target one of its peak. */
typedef struct {
    const Card *card;                    /* NULL: a CPU */
    const char *name;                    /* for people */
    double peak, bandwidth, link;        /* FLOP/s in the recipe's precision, bytes/s of memory and between ranks */
} Device;
Device device_of(const Graph *g, Config *c);

/* A kernel takes what its products take at COST_PEAK of the peak or its bytes at COST_BANDWIDTH of the bandwidth,
 * whichever is longer, and its start; sums over ranks take their bytes and as long to begin. */
#define COST_PEAK 0.6
#define COST_BANDWIDTH 0.8
typedef struct {
    double kernels, starts, ranks;       /* seconds of a step, of the schedules that change weights */
    double step;                         /* their sum */
} Cost;
Cost step_cost(const Graph *g, Config *c);

/* What a run leaves on disk, bytes. */
typedef struct {
    int64_t checkpoint, kept;            /* of one; how many stay, 0: all */
    int64_t export, merged;              /* as trained; merged 0: there are no adapters */
} Disk;
Disk disk_of(const Graph *g, Config *c);

/* ---- the run ---- */

/* The default of a flag in programs of this recipe, as text. */
const char *run_value(const Graph *g, const char *name);
double run_number(const Graph *g, const char *name);
typedef struct {
    int64_t batch;                       /* samples of a step, all ranks */
    int64_t samples, held;               /* at most, as --max-samples says: to train on, to validate on; 0: unknown */
    int64_t an_epoch, updates;           /* steps, at most; 0: unknown */
    double epochs;                       /* 0: --steps says */
} Length;
Length run_length(const Graph *g, Config *c);

#endif
