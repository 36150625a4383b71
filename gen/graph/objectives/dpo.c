/* dpo.c -- direct preference optimisation: chosen against rejected answers, with a reference.
 *
 * In:    hidden states (N, C) of the answers' rows: answers 2i and 2i + 1 of a micro-batch are the
 *        chosen and the rejected one of pair i, each in a sequence after its prompt, or with
 *        dpo.shared_prompt both in one sequence after a single prompt.
 * Out:   the schedules train, eval, score and decode with their programs.
 * Method: the gradient of a row is linear in its answer's coefficient. With a frozen head, one pass
 *         gives the gradients of rows, which are then scaled; with a trained head, a pass for the
 *         losses precedes it. The per-row divergence (dpo.kl token) is not linear in it: its
 *         gradient is added. */
#include "gen/graph/graph.h"

#include <string.h>

#include "runtime/dpo.h"

static bool field_is(Build *b, int field, const char *word)
{
    return config_is(b->c, field, word);
}

/* ---- what contradicts itself --------------------------------------------------------------- */

static void check_fields(Build *b)
{
    const char *loss = config_text(b->c, F_dpo_loss);
    bool ipo = field_is(b, F_dpo_loss, "ipo"), lora = config_int(b->c, F_lora_rank) > 0;
    build_unused(b, F_dpo_penalty, strstr(loss, "dpop"),
           "only for dpo.loss = \"dpop\" and \"dpopshift\"");
    build_unused(b, F_dpo_shift, strstr(loss, "shift"),
           "only for dpo.loss = \"dposhift\" and \"dpopshift\"");
    build_unused(b, F_dpo_smoothing, !ipo, "has no effect while dpo.loss is \"ipo\"");
    build_unused(b, F_dpo_margin, !ipo,
           "has no effect while dpo.loss is \"ipo\", whose h is to be 1 / (2 beta)");
    build_unused(b, F_dpo_kl_weight, !field_is(b, F_dpo_kl, "none"),
                 "has no effect while dpo.kl is \"none\"");
    if (field_is(b, F_dpo_reference, "none") && !field_is(b, F_dpo_kl, "none"))
        err(config_loc(b->c, F_dpo_reference),
            "dpo.reference: dpo.kl = \"%s\" needs a reference; "
            "try dpo.kl = \"none\"", config_text(b->c, F_dpo_kl));
    if (field_is(b, F_dpo_kl, "token") && field_is(b, F_dpo_reference, "cache"))
        err(config_loc(b->c, b->c->v[F_dpo_reference].set ? F_dpo_reference : F_dpo_kl),
            "dpo.reference: a cache holds one value per answer, but dpo.kl = \"token\" needs the "
            "reference's distribution at every token; try dpo.reference = \"%s\"",
            lora ? "adapter_off" : "copy");
    if (config_bool(b->c, F_dpo_shared_prompt) && config_float(b->c, F_model_attention_dropout) > 0)
        err(config_loc(b->c, F_dpo_shared_prompt),
            "dpo.shared_prompt: attention over a shared prompt has no dropout, but "
            "model.attention_dropout is %g; try model.attention_dropout = 0",
            config_float(b->c, F_model_attention_dropout));
    if (!field_is(b, F_dpo_reference, "adapter_off"))
        return;
    if (!lora)
        err(config_loc(b->c, F_dpo_reference),
            "dpo.reference: \"adapter_off\" needs adapters: set lora.rank, for example 16, or try "
            "dpo.reference = \"cache\"");
    if (b->c->v[F_lora_modules_to_save].n)
        err(config_loc(b->c, F_dpo_reference),
            "dpo.reference: \"adapter_off\" is not the initial model when lora.modules_to_save "
            "trains parts of it; try dpo.reference = \"cache\"");
}

/* ---- the pieces of a program --------------------------------------------------------------- */

static bool by_token(Build *b) { return field_is(b, F_dpo_kl, "token"); }

/* Returns the reference's log-probabilities if the host provides them, else NULL. */
static Value *make_inputs(Build *b)
{
    b->added.targets = b->added.targets ? b->added.targets : b->in.B * b->in.T;
    size_add(b, "BOTH", 2 * config_int(b->c, F_batch_micro), "answers of a micro-batch");
    b->in.tokens = input_new(b, "tokens");
    head_labels(b);
    if (config_bool(b->c, F_dpo_shared_prompt)) {
        b->loc = config_loc(b->c, F_dpo_shared_prompt);
        b->in.positions = input_new(b, "positions");
        b->in.mask = (Mask){"shared", {input_new(b, "prompt_gaps")}};
        input_new(b, "answers");
    }
    b->loc = config_loc(b->c, F_dpo_reference);
    Value *known = field_is(b, F_dpo_reference, "cache") ? input_new(b, "reference") : NULL;
    b->loc = config_loc(b->c, F_objective);
    return known;
}

/* Hidden states of the answers' rows. */
static Ref answers(Build *b, Pass *pass)
{
    return pass_rows(b, pass, head_rows_read(b));
}

static Dim dim_both(const Build *b) { return dim(2 * config_int(b->c, F_batch_micro), "BOTH"); }

/* (BOTH) f32, or i32 */
static Ref an_answer(Build *b, const char *name, Dtype dtype)
{
    Dim d = dim_both(b);
    return build_temp(b, name, dtype, 1, &d);
}

/* (N) f32 */
static Ref a_row(Build *b, const char *name)
{
    Dim d = dim(b->added.N, "N");
    return build_temp(b, name, DT_F32, 1, &d);
}

/* Answer index of each row, from its position in (BOTH, T). */
static void row_answers(Build *b, Op *op)
{
    Value *answers = ir_value(b->g, "answers");
    op_in(op, build_input(b, answers ? answers : b->in.target_rows));
    op_int(op, "length", b->in.T);
}

/* Log-probabilities and target counts of the answers. */
typedef struct {
    Ref lp, counts;
} SeqLogp;

static void seq_logp_to(Build *b, Ref losses, const SeqLogp *to)
{
    b->loc = config_loc(b->c, F_dpo_logp);
    Op *op = build_op(b, OP_seq_logp);
    op_in(op, losses);
    row_answers(b, op);
    op_out(op, to->lp), op_out(op, to->counts);
    op_int(op, "mean", field_is(b, F_dpo_logp, "mean"));
}

static SeqLogp seq_logp(Build *b, Ref losses)
{
    SeqLogp t = {an_answer(b, "lp", DT_F32), an_answer(b, "counts", DT_I32)};
    seq_logp_to(b, losses, &t);
    return t;
}

/* From here to beside_end(), passes compute the reference. */
static void beside_begin(Build *b)
{
    b->pass_prefix = "ref.";
    b->adapters_off = field_is(b, F_dpo_reference, "adapter_off");
    b->started = !b->adapters_off;
}

static void beside_end(Build *b)
{
    b->pass_prefix = NULL;
    b->adapters_off = b->started = false;
}

/* The reference's hidden states of the answers' rows. */
static Ref reference_rows(Build *b)
{
    Pass pass = pass_only(b, b->mode == MODE_TRAIN ? "ref.x" : "e.ref.x");
    return answers(b, &pass);
}

/* The reference's log-probabilities, given or computed in the same program; v NULL: none. */
static Ref reference_of(Build *b, Value *known)
{
    if (known)
        return build_input(b, known);
    if (field_is(b, F_dpo_reference, "none"))
        return (Ref){0};
    beside_begin(b);
    Ref lp = seq_logp(b, head_losses(b, reference_rows(b), "losses")).lp;
    beside_end(b);
    return lp;
}

/* Adds to loss and stats; returns the derivative by each log-probability. from: the reference's; v
 * NULL: none. */
static Ref pairs(Build *b, SeqLogp t, Ref from)
{
    const char *loss = config_text(b->c, F_dpo_loss);
    Ref coef = an_answer(b, "coef", DT_F32);
    b->loc = config_loc(b->c, F_dpo_loss);
    double beta = config_float(b->c, F_dpo_beta);
    double penalty = config_float(b->c, F_dpo_penalty), shift = config_float(b->c, F_dpo_shift);
    double kl = config_float(b->c, F_dpo_kl_weight);
    Op *op = build_op(b, OP_dpo);
    op_in(op, t.lp), op_in(op, t.counts);
    if (from.v)
        op_in(op, from);
    op_out(op, coef), op_out(op, build_input(b, ir_value(b->g, "loss")));
    op_out(op, build_input(b, ir_value(b->g, "stats")));
    op_word(op, "loss", field_is(b, F_dpo_loss, "ipo") ? "ipo" : "sigmoid");
    op_float(op, "dpo_beta", beta);
    op_float(op, "smoothing", config_float(b->c, F_dpo_smoothing));
    op_float(op, "margin", config_float(b->c, F_dpo_margin));
    op_float(op, "shift", strstr(loss, "shift") ? shift : 1);
    op_float(op, "penalty", strstr(loss, "dpop") ? penalty : 0);
    op_float(op, "kl", field_is(b, F_dpo_kl, "seq") ? kl : 0);
    op_float(op, "reward", config_bool(b->c, F_dpo_reward_beta) ? beta : 1);
    return coef;
}

/* Loss weight of each row. */
static Ref row_weights(Build *b, Ref coef, Ref counts)
{
    Ref weights = a_row(b, "row_weights");
    Op *op = build_op(b, OP_seq_spread);
    op_in(op, coef), op_in(op, counts);
    row_answers(b, op);
    op_out(op, weights);
    op_int(op, "mean", field_is(b, F_dpo_logp, "mean"));
    return weights;
}

/* Divergence weight of each row: an answer's divergence is the mean over its rows. */
static Ref kl_weights(Build *b)
{
    Ref weights = a_row(b, "kl_weights");
    b->loc = config_loc(b->c, F_dpo_kl);
    Op *op = build_op(b, OP_seq_share);
    row_answers(b, op);
    op_out(op, weights);
    op_float(op, "weight", config_float(b->c, F_dpo_kl_weight));
    return weights;
}

/* dy (N, C): gradients of losses with weight 1, times their weights. */
static void scale_rows(Build *b, Ref dy, Ref each, Ref weights)
{
    Op *op = build_op(b, OP_scale_rows);
    op_in(op, each), op_in(op, weights);
    op_out(op, dy);
}

/* Rows y with those of the reference. */
typedef struct {
    Divergence d;
    Reference from;
    Ref weights, kl_weights;     /* weights of each row's loss and divergence */
} ByToken;

/* Adds to loss and stats. */
static ByToken pairs_by_token(Build *b, Ref y, bool gradients)
{
    ByToken t = {.kl_weights = kl_weights(b)};
    beside_begin(b);
    t.from.rows = reference_rows(b);
    t.from.head = ref(family_head(b));
    beside_end(b);
    t.d = head_divergence(b, y, t.from, t.kl_weights, gradients);
    loss_sum(b, t.d.kl);
    b->pass_prefix = "ref.";
    SeqLogp from = seq_logp(b, t.d.from), policy;
    b->pass_prefix = NULL;
    policy = seq_logp(b, t.d.losses);
    Ref coef = pairs(b, policy, from.lp);
    if (b->mode == MODE_TRAIN)
        t.weights = row_weights(b, coef, policy.counts);
    return t;
}

/* ---- programs ------------------------------------------------------------------------------ */

static void micro_by_token(Build *b, Ref y, Ref dy)
{
    const bool trained = family_head(b)->trained;
    ByToken t = pairs_by_token(b, y, !trained);
    if (trained) {
        head_divergence_gradient(b, y, dy, t.from, t.weights, t.kl_weights);
        return;
    }
    Ref of_losses = build_temp(b, "dy_losses", b->model.act, 2, y.v->dim);
    scale_rows(b, of_losses, t.d.dy, t.weights);
    Op *op = build_op(b, OP_add);
    op_in(op, of_losses), op_in(op, t.d.dkl);
    op_out(op, dy);
}

static void micro_by_answer(Build *b, Ref y, Ref dy, Value *known)
{
    const Ref none = {0};
    if (family_head(b)->trained) {
        SeqLogp t = seq_logp(b, head_losses(b, y, "losses"));
        Ref weights = row_weights(b, pairs(b, t, reference_of(b, known)), t.counts);
        head_losses_gradient(b, y, dy, weights, "weighted");
        return;
    }
    Ref each = build_temp(b, "dy_each", b->model.act, y.v->rank, y.v->dim);
    SeqLogp t = seq_logp(b, head_losses_gradient(b, y, each, none, "losses"));
    scale_rows(b, dy, each, row_weights(b, pairs(b, t, reference_of(b, known)), t.counts));
}

static void make_micro(Build *b, Value *known)
{
    program_micro(b);
    Pass pass = pass_trained(b);
    Ref y = answers(b, &pass), dy = gradient_room(b, y);
    int end = b->p->nops;
    if (by_token(b))
        micro_by_token(b, y, dy);
    else
        micro_by_answer(b, y, dy, known);
    gradient_set(y, dy);
    pass_backward(b, &pass, end);
}

static void make_eval(Build *b, Value *known)
{
    b->mode = MODE_EVAL;
    b->p = ir_program(b->g, "eval", ROLE_forward, "the losses of one micro-batch's pairs");
    Pass pass = pass_only(b, "e.x");
    Ref y = answers(b, &pass);
    if (by_token(b)) {
        pairs_by_token(b, y, false);
    } else {
        SeqLogp t = seq_logp(b, head_losses(b, y, "losses"));
        pairs(b, t, reference_of(b, known));
    }
    schedule_loss(b, "this rank's losses and stats of micro-batch 0");
}

static void make_score(Build *b)
{
    b->mode = MODE_SCORE;
    b->p = ir_program(b->g, "score", ROLE_forward, "the log-probability of each answer");
    Pass pass = pass_only(b, "s.x");
    Ref losses = head_losses(b, answers(b, &pass), "losses");
    Value *score = build_persistent(b, "score", PU_activations, DT_F32, 1, dim_both(b), dim(0, ""));
    seq_logp_to(b, losses, &(SeqLogp){ref(score), an_answer(b, "counts", DT_I32)});
    schedule_alone(b, "the log-probabilities of micro-batch 0's answers", "score");
}

static void build(Build *b)
{
    check_fields(b);
    Value *known = make_inputs(b);
    loss_inputs(b);
    build_sum(b, "stats", DPO_STATS);
    make_micro(b, known);
    schedule_train(b);
    make_eval(b, known);
    make_score(b);
    head_decode(b);
}

const ObjectiveParts dpo_parts = {.build = build};
