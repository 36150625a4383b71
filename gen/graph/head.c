/* head.c -- output head and losses over the vocabulary, in chunks of rows.
 *
 * In:    hidden states (B, T, C), the bound of targets, memory.loss_rows.
 * Keeps: no (B, T, V) value exists: head, loss and gradient are one op that works on a chunk of
 *        rows at a time. */
#include "gen/graph/graph.h"

#include <inttypes.h>
#include <string.h>

/* Bytes of logits that are held at a time: 256 MiB, on a GPU a 64th of its memory (each chunk reads
 * and writes the head's whole gradient). */
static int64_t logits_room(const Build *b)
{
    return !strcmp(b->g->target->backend, "cuda") ? b->g->target->memory / 64 : 256 << 20;
}

static bool has_short_logits(const Build *b)
{
    return config_is(b->c, F_kernels_logits, "16bit");
}

/* Bytes of a row of logits. */
static int64_t row_bytes(const Build *b) { return (has_short_logits(b) ? 2 : 4) * b->model.V; }

static int64_t most_rows(const Build *b)
{
    int64_t most = logits_room(b) / row_bytes(b);
    return most < 16 ? 16 : most;
}

int64_t head_chunk(Build *b)
{
    int64_t rows = b->added.N, most = most_rows(b),
            half = rows > 1 && !b->in.target_rows ? rows / 2 : rows;
    int64_t chunk = config_int(b->c, F_memory_loss_rows);
    if (!chunk) {
        for (chunk = half < most ? half : most; rows % chunk; chunk--)
            ;
        if (chunk < 16 && rows * row_bytes(b) <= logits_room(b))
            chunk = rows;
    }
    if (rows % chunk)
        err(config_loc(b->c, F_memory_loss_rows),
            "memory.loss_rows: must be a divisor of %s = %" PRId64 ", got %" PRId64,
            b->in.target_rows ? "batch.targets" : "batch.micro * seq.max", rows, chunk);
    return chunk;
}

/* Number of rows that pass through the head: all, or the bound of targets, rounded up to equal
 * chunks if gen chooses those. */
static int64_t head_rows(Build *b)
{
    int64_t rows = b->added.targets, most = most_rows(b);
    int64_t chunks = config_int(b->c, F_memory_loss_rows) ? 1 : (rows + most - 1) / most;
    return rows ? (rows + chunks - 1) / chunks * chunks : b->in.B * b->in.T;
}

void head_labels(Build *b)
{
    b->added.N = head_rows(b);
    size_add(b, "N", b->added.N, "rows of a micro-batch that go through the head");
    b->in.labels = input_new(b, "labels");
    if (!b->added.targets)
        return;
    b->in.target_rows = input_new(b, "target_rows");
    b->in.target_of = input_new(b, "target_of");
}

Rows head_rows_read(const Build *b) { return (Rows){"rows", b->in.target_rows, b->in.target_of}; }

/* Loss weights of rows, written by the host. */
static Ref given_weights(const Build *b)
{
    return b->in.weights ? build_input(b, b->in.weights) : (Ref){0};
}

/* Creates the op for losses of rows y with its inputs; the caller adds outputs. scale: of the
 * gradients; NULL: no gradients. weights.v NULL: none. */
static Op *head_op(Build *b, Ref y, int kind, const Ref *scale, Ref weights)
{
    Value *head = family_head(b), *bias = family_head_bias(b);
    b->loc = config_loc(b->c, F_objective);
    Op *op = build_op(b, kind);
    op_in(op, y), op_in(op, ref(head));
    if (bias)
        op_in(op, ref(bias));
    op_in(op, build_input(b, b->in.labels));
    if (scale)
        op_in(op, *scale);
    if (weights.v)
        op_in(op, weights);
    op_int(op, "chunk", head_chunk(b));
    if (bias)
        op_int(op, "bias", 1);
    if (has_short_logits(b))
        op_int(op, "act_logits", 1);
    return op;
}

Ref head_losses(Build *b, Ref y, const char *name)
{
    family_head(b);
    b->loc = config_loc(b->c, F_objective);
    Ref losses = build_temp(b, name, DT_F32, y.v->rank - 1, y.v->dim);
    op_out(head_op(b, y, OP_ce, NULL, given_weights(b)), losses);
    return losses;
}

void head_loss(Build *b, Ref y) { loss_sum(b, head_losses(b, y, "losses")); }

Ref head_losses_gradient(Build *b, Ref y, Ref dy, Ref weights, const char *name)
{
    Value *head = family_head(b), *bias = family_head_bias(b);
    b->loc = config_loc(b->c, F_objective);
    Ref losses = build_temp(b, name, DT_F32, y.v->rank - 1, y.v->dim), scale = loss_scale(b);
    Op *op = head_op(b, y, OP_ce_bwd, &scale, weights);
    op_out(op, losses), op_out(op, dy);
    if (head->trained) {
        op_out(op, ref(gradient_of(b, head)));
        if (bias)
            op_out(op, ref(gradient_of(b, bias)));
        op_int(op, "trained", 1), op_int(op, "beta", 0);
    }
    return losses;
}

/* Without the inputs that only gradients need. */
static Op *divergence_op(Build *b, int kind, Ref y, Reference from)
{
    if (family_head_bias(b))
        bug("kl: no kernel has a head with a bias");
    b->loc = config_loc(b->c, F_objective);
    Op *op = build_op(b, kind);
    op_in(op, y), op_in(op, ref(family_head(b)));
    op_in(op, from.rows), op_in(op, from.head);
    op_in(op, build_input(b, b->in.labels));
    op_int(op, "chunk", head_chunk(b));
    return op;
}

Divergence head_divergence(Build *b, Ref y, Reference from, Ref weights, bool gradients)
{
    Ref scale = loss_scale(b);
    Op *op = divergence_op(b, gradients ? OP_kl_dx : OP_kl, y, from);
    Divergence d = {
        .losses = build_temp(b, "losses", DT_F32, 1, y.v->dim),
        .from = build_temp(b, "ref.losses", DT_F32, 1, y.v->dim),
        .kl = build_temp(b, "kl", DT_F32, 1, y.v->dim)};
    if (gradients)
        op_in(op, scale);
    op_in(op, weights);
    op_out(op, d.losses), op_out(op, d.from), op_out(op, d.kl);
    if (gradients) {
        d.dy = build_temp(b, "dy_each", b->model.act, 2, y.v->dim);
        d.dkl = build_temp(b, "dy_kl", b->model.act, 2, y.v->dim);
        op_out(op, d.dy), op_out(op, d.dkl);
    }
    return d;
}

void head_divergence_gradient(Build *b, Ref y, Ref dy, Reference from, Ref coef, Ref weights)
{
    Ref scale = loss_scale(b);
    Op *op = divergence_op(b, OP_kl_bwd, y, from);
    op_in(op, scale), op_in(op, coef), op_in(op, weights);
    op_out(op, dy), op_out(op, ref(gradient_of(b, family_head(b))));
    op_int(op, "beta", 0);
}

void head_loss_gradient(Build *b, Ref y, Ref dy)
{
    loss_sum(b, head_losses_gradient(b, y, dy, given_weights(b), "losses"));
}

static Ref chosen(Build *b, Pass *pass)
{
    return pass_rows(b, pass, head_rows_read(b));
}

void head_micro(Build *b)
{
    program_micro(b);
    Pass pass = pass_trained(b);
    Ref y = chosen(b, &pass);
    Ref dy = gradient_room(b, y);
    int end = b->p->nops;
    head_loss_gradient(b, y, dy);
    gradient_set(y, dy);
    pass_backward(b, &pass, end);
}

void head_eval(Build *b)
{
    b->mode = MODE_EVAL;
    b->p = ir_program(b->g, "eval", ROLE_forward, "the loss of one micro-batch");
    Pass pass = pass_only(b, "e.x");
    Ref y = chosen(b, &pass);
    Value *right = build_sum(b, "right", 1);
    Ref losses = build_temp(b, "losses", DT_F32, y.v->rank - 1, y.v->dim),
        hits = build_temp(b, "hits", DT_F32, y.v->rank - 1, y.v->dim);
    Op *op = head_op(b, y, OP_ce, NULL, given_weights(b));
    op_out(op, losses), op_out(op, hits);
    loss_sum(b, losses);
    rows_sum(b, hits, right);
    schedule_loss(b, "this rank's losses and correct predictions of micro-batch 0");
}

/* Computes $logits (n, V) of rows y, (n, C) or in decode (n, 1, C), with the head's bias if
 * b->model.head_bias. */
static void add_logits(Build *b, Ref y)
{
    Value *head = family_head(b), *bias = family_head_bias(b);
    Value *logits =
        build_persistent(b, "logits", PU_activations, DT_F32, 2, y.v->dim[0], dim(b->model.V, "V"));
    Op *op = build_op(b, bias                ? OP_logits_bias
                         : y.v->rank == 2 ? OP_logits_rows
                                          : OP_logits);
    op_in(op, y), op_in(op, ref(head));
    if (bias)
        op_in(op, ref(bias));
    op_out(op, ref(logits));
}

void head_decode_of(Build *b, Ref (*last)(Build *b))
{
    const PassInputs in = b->in;
    b->mode = MODE_DECODE;
    b->loc = config_loc(b->c, F_batch_texts);
    size_add(b, "DECODE_B", config_int(b->c, F_batch_texts), "texts decoded at once");
    size_add(b, "DECODE_T", 1, "positions of a text in a decode step");
    b->in.tokens = input_new(b, "token");
    b->in.position = input_new(b, "position");
    b->p = ir_program(b->g, "decode", ROLE_forward,
                      "one token of each text: the logits of the next");
    add_logits(b, last(b));
    b->in = in;
    schedule_alone(b, "the logits of the token after one of each text", "logits");
}

static Ref one_pass(Build *b)
{
    Pass pass = pass_only(b, "d.x");
    return pass_forward(b, &pass);
}

void head_decode(Build *b) { head_decode_of(b, one_pass); }

void head_program_at(Build *b, const char *name, const char *input, const char *about)
{
    b->mode = MODE_SCORE;
    Value *positions = input_new(b, input);
    b->p = ir_program(b->g, name, ROLE_forward, about);
    Pass pass = pass_only(b, "s.x");
    add_logits(b, pass_rows(b, &pass, (Rows){input, positions, NULL}));
    schedule_alone(b, about, "logits");
}
