/* head.c -- from the last hidden states to a loss over the vocabulary: which rows, how many at a time.
 *
 * In:    (B, T, C) of a model, the recipe's batch.targets and memory.loss_rows.
 * Keeps: no (B, T, V) value exists: the head, the loss and its gradient are one op, a chunk of rows
 *        at a time. */
#include "gen/graph/graph.h"

#include <inttypes.h>
#include <string.h>

/* Bytes of logits that are held at a time: 128 MiB, on a GPU a 64th of its memory (each chunk reads
 * and writes the head's whole gradient). */
static int64_t logits_room(const Build *b)
{
    return !strcmp(b->g->target->backend, "cuda") ? b->g->target->memory / 64 : 128 << 20;
}

static int64_t most_rows(const Build *b)
{
    int64_t most = logits_room(b) / (4 * b->V);
    return most < 16 ? 16 : most;
}

int64_t head_chunk(Build *b)
{
    int64_t rows = b->N, most = most_rows(b), half = rows > 1 && !b->target_rows ? rows / 2 : rows;
    int64_t chunk = config_int(b->c, F_memory_loss_rows);
    if (!chunk) {
        for (chunk = half < most ? half : most; rows % chunk; chunk--)
            ;
        if (chunk < 16 && rows * b->V * 4 <= logits_room(b))
            chunk = rows;
    }
    if (rows % chunk)
        err(config_loc(b->c, F_memory_loss_rows),
            "memory.loss_rows: want a divisor of %s = %" PRId64 ", got %" PRId64,
            b->target_rows ? "batch.targets" : "batch.micro * seq.max", rows, chunk);
    return chunk;
}

/* Rows that go through the head: all, or batch.targets of them, rounded up to equal chunks where
 * the generator chooses those. */
static int64_t head_rows(Build *b)
{
    int64_t rows = config_int(b->c, F_batch_targets), most = most_rows(b);
    int64_t chunks = config_int(b->c, F_memory_loss_rows) ? 1 : (rows + most - 1) / most;
    return rows ? (rows + chunks - 1) / chunks * chunks : b->B * b->T;
}

void head_labels(Build *b)
{
    b->N = head_rows(b);
    size_add(b, "N", b->N);
    b->labels = input_new(b, "labels");
    if (!config_int(b->c, F_batch_targets))
        return;
    b->target_rows = input_new(b, "target_rows");
    b->target_of = input_new(b, "target_of");
}

Ref head_gather(Build *b, Ref y)
{
    if (!b->target_rows)
        return y;
    b->loc = config_loc(b->c, F_batch_targets);
    Dim d[2] = {dim(b->N, "N"), dim(b->C, "C")};
    Ref rows = build_temp(b, "norm_f.rows", b->act, 2, d);
    Op *op = build_op(b, OP_gather);
    op_in(op, y), op_in(op, build_input(b, b->target_rows));
    op_in(op, build_input(b, b->target_of));
    op_out(op, rows);
    return rows;
}
