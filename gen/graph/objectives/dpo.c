/* dpo.c -- the objective dpo: of two answers to a prompt the chosen one above the other, relative to
 * a reference.
 *
 * In:    a model's last hidden states, (N, C) of the answers' rows: sequences 2i and 2i + 1 of a
 *        micro-batch are the chosen and the rejected answer of pair i, each behind its prompt.
 * Out:   the schedules train, eval, score and decode with their programs.
 * Method: a row's gradient is linear in its answer's. A frozen head gives the rows' gradients in one
 *        pass, which are then scaled; a trained one has a pass for the losses before. */
#include "gen/graph/graph.h"

#include <string.h>

#include "runtime/dpo.h"

static Value *reference;         /* log-probabilities that the host knows; NULL: none */

static bool is(Build *b, int field, const char *word)
{
    return !strcmp(config_text(b->c, field), word);
}

/* ---- what contradicts itself --------------------------------------------------------------- */

static void check_fields(Build *b)
{
    const char *loss = config_text(b->c, F_dpo_loss);
    bool ipo = is(b, F_dpo_loss, "ipo"), lora = config_int(b->c, F_lora_rank) > 0;
    build_unused(b, F_dpo_penalty, strstr(loss, "dpop"),
           "of dpo.loss = \"dpop\" and \"dpopshift\" alone");
    build_unused(b, F_dpo_shift, strstr(loss, "shift"),
           "of dpo.loss = \"dposhift\" and \"dpopshift\" alone");
    build_unused(b, F_dpo_smoothing, !ipo, "has no effect while dpo.loss is \"ipo\"");
    build_unused(b, F_dpo_margin, !ipo,
           "has no effect while dpo.loss is \"ipo\", whose h is to be 1 / (2 beta)");
    build_unused(b, F_dpo_kl_weight, !is(b, F_dpo_kl, "none"), "has no effect while dpo.kl is \"none\"");
    if (is(b, F_dpo_reference, "none") && !is(b, F_dpo_kl, "none"))
        err(config_loc(b->c, F_dpo_reference),
            "dpo.reference: without one there is nothing for dpo.kl = \"%s\" to be measured by; "
            "try dpo.kl = \"none\"", config_text(b->c, F_dpo_kl));
    if (!is(b, F_dpo_reference, "adapter_off"))
        return;
    if (!lora)
        err(config_loc(b->c, F_dpo_reference),
            "dpo.reference: \"adapter_off\" wants adapters: set lora.rank, for example 16, or try "
            "dpo.reference = \"cache\"");
    if (b->c->v[F_lora_modules_to_save].n)
        err(config_loc(b->c, F_dpo_reference),
            "dpo.reference: \"adapter_off\" is not the first model where lora.modules_to_save trains "
            "some of it beside the adapters; try dpo.reference = \"cache\"");
}

/* ---- the pieces of a program --------------------------------------------------------------- */

static void make_inputs(Build *b)
{
    b->targets = b->targets ? b->targets : b->B * b->T;
    b->tokens = input_new(b, "tokens");
    head_labels(b);
    b->loc = config_loc(b->c, F_dpo_reference);
    reference = is(b, F_dpo_reference, "cache") ? input_new(b, "reference") : NULL;
    b->loc = config_loc(b->c, F_objective);
}

/* The rows of the answers. */
static Ref answers(Build *b, Pass *pass)
{
    return pass_last(b, head_gather(b, pass_blocks(b, pass)));
}

/* How a row belongs to its sequence. */
static void sequence_attrs(Build *b, Op *op)
{
    op_int(op, "length", b->T), op_int(op, "mean", is(b, F_dpo_logp, "mean"));
}

/* (B) f32, or i32 */
static Ref a_sequence(Build *b, const char *name, Dtype dtype)
{
    Dim d = dim(b->B, "B");
    return build_temp(b, name, dtype, 1, &d);
}

/* The log-probability of each sequence, and how many targets it has. */
static Ref log_probs(Build *b, Ref losses, Ref *counts)
{
    b->loc = config_loc(b->c, F_dpo_logp);
    Ref lp = a_sequence(b, "lp", DT_F32);
    *counts = a_sequence(b, "counts", DT_I32);
    Op *op = build_op(b, OP_seq_logp);
    op_in(op, losses), op_in(op, build_input(b, b->target_rows));
    op_out(op, lp), op_out(op, *counts);
    sequence_attrs(b, op);
    return lp;
}

/* Log-probabilities by the reference, computed beside those of the model; v NULL: there is none. */
static Ref reference_of(Build *b)
{
    if (reference)
        return build_input(b, reference);
    if (is(b, F_dpo_reference, "none"))
        return (Ref){0};
    b->beside = "ref.";
    b->adapters_off = is(b, F_dpo_reference, "adapter_off");
    b->started = !b->adapters_off;
    Pass pass = pass_only(b, b->mode == MODE_TRAIN ? "ref.x" : "e.ref.x");
    Ref counts, lp = log_probs(b, head_losses(b, answers(b, &pass), "losses"), &counts);
    b->beside = NULL;
    b->adapters_off = b->started = false;
    return lp;
}

/* Adds to loss and stats; what they change by each log-probability. */
static Ref pairs(Build *b, Ref lp, Ref counts)
{
    const char *loss = config_text(b->c, F_dpo_loss);
    Ref from = reference_of(b), coef = a_sequence(b, "coef", DT_F32);
    b->loc = config_loc(b->c, F_dpo_loss);
    double beta = config_float(b->c, F_dpo_beta);
    double penalty = config_float(b->c, F_dpo_penalty), shift = config_float(b->c, F_dpo_shift);
    double kl = config_float(b->c, F_dpo_kl_weight);
    Op *op = build_op(b, OP_dpo);
    op_in(op, lp), op_in(op, counts);
    if (from.v)
        op_in(op, from);
    op_out(op, coef), op_out(op, ref(ir_value(b->g, "loss")));
    op_out(op, ref(ir_value(b->g, "stats")));
    op_word(op, "loss", is(b, F_dpo_loss, "ipo") ? "ipo" : "sigmoid");
    op_float(op, "dpo_beta", beta);
    op_float(op, "smoothing", config_float(b->c, F_dpo_smoothing));
    op_float(op, "margin", config_float(b->c, F_dpo_margin));
    op_float(op, "shift", strstr(loss, "shift") ? shift : 1);
    op_float(op, "penalty", strstr(loss, "dpop") ? penalty : 0);
    op_float(op, "kl", is(b, F_dpo_kl, "none") ? 0 : kl);
    op_float(op, "reward", config_bool(b->c, F_dpo_reward_beta) ? beta : 1);
    return coef;
}

/* What each row's loss counts. */
static Ref row_weights(Build *b, Ref coef, Ref counts)
{
    Dim d = dim(b->N, "N");
    Ref weights = build_temp(b, "row_weights", DT_F32, 1, &d);
    Op *op = build_op(b, OP_seq_spread);
    op_in(op, coef), op_in(op, counts), op_in(op, build_input(b, b->target_rows));
    op_out(op, weights);
    sequence_attrs(b, op);
    return weights;
}

/* ---- programs ------------------------------------------------------------------------------ */

static void make_micro(Build *b)
{
    program_micro(b);
    Pass pass = pass_trained(b);
    Ref y = answers(b, &pass), dy = gradient_room(b, y), counts, none = {0};
    int end = b->p->nops;
    if (family_head(b)->trained) {
        Ref lp = log_probs(b, head_losses(b, y, "losses"), &counts);
        Ref weights = row_weights(b, pairs(b, lp, counts), counts);
        head_losses_gradient(b, y, dy, weights, "weighted");
    } else {
        Ref each = build_temp(b, "dy_each", b->act, y.v->rank, y.v->dim);
        Ref lp = log_probs(b, head_losses_gradient(b, y, each, none, "losses"), &counts);
        Ref weights = row_weights(b, pairs(b, lp, counts), counts);
        Op *op = build_op(b, OP_scale_rows);
        op_in(op, each), op_in(op, weights);
        op_out(op, dy);
    }
    gradient_set(y, dy);
    pass_backward(b, &pass, end);
}

static void make_eval(Build *b)
{
    b->mode = MODE_EVAL;
    b->p = ir_program(b->g, "eval", ROLE_forward, "the losses of one micro-batch's pairs");
    Pass pass = pass_only(b, "e.x");
    Ref counts, lp = log_probs(b, head_losses(b, answers(b, &pass), "losses"), &counts);
    pairs(b, lp, counts);
    schedule_loss(b, "this rank's losses of micro-batch 0, and its stats");
}

static void make_score(Build *b)
{
    b->mode = MODE_SCORE;
    b->p = ir_program(b->g, "score", ROLE_forward, "the log-probability of each sequence");
    Pass pass = pass_only(b, "s.x");
    Ref losses = head_losses(b, answers(b, &pass), "losses");
    b->loc = config_loc(b->c, F_dpo_logp);
    Value *score = build_kept(b, "score", PU_activations, DT_F32, 1, dim(b->B, "B"), dim(0, ""));
    Op *op = build_op(b, OP_seq_logp);
    op_in(op, losses), op_in(op, build_input(b, b->target_rows));
    op_out(op, ref(score)), op_out(op, a_sequence(b, "counts", DT_I32));
    sequence_attrs(b, op);
    schedule_alone(b, "the log-probabilities of micro-batch 0's sequences", "score");
}

void dpo_build(Build *b)
{
    check_fields(b);
    make_inputs(b);
    loss_inputs(b);
    build_sum(b, "stats", DPO_STATS);
    make_micro(b);
    schedule_train(b);
    make_eval(b);
    make_score(b);
    head_decode(b);
}
