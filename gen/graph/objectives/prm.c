/* prm.c -- process reward model: step labels predicted at step marks, with learned record weights.
 *
 * In:    hidden states (N, C) of the marks: row b * M + j is mark j of record b.
 * Out:   the schedules train and score with their programs, and, unless every record has weight 1,
 *        meta, which updates the weights.
 * Keeps: templates/objectives/prm.c lists what the host writes. */
#include "gen/graph/bilevel.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "runtime/data/steps.h"
#include "runtime/prm.h"

/* ---- rules between fields -------------------------------------------------------------------- */

static void defaults(Config *c)
{
    const bool lora = c->v[F_lora_rank].i > 0, fp32 = !strcmp(c->v[F_precision].s, "fp32");
    const int64_t steps = c->v[F_prm_steps].i;
    rule_fill_text(c, F_prm_hypergradient, lora && fp32 ? "\"fd\"" : "\"dot\"");
    rule_fill_int(c, F_prm_train_head, !lora);
    rule_fill_int(c, F_meta_micro, c->v[F_batch_micro].i);
    rule_fill_int(c, F_prm_rewards, steps > 1 ? steps - 1 : 1);
}

static bool one_micro(const Config *c)
{
    const char *how = c->v[F_prm_hypergradient].s;
    return how && !strcmp(how, "lockstep");
}

/* ---- options of gen new ---------------------------------------------------------------------- */

static const char *new_token(const Config *c)
{
    return c->v[F_prm_new_mark].i
               ? text_print("%s is new: model.vocab has one row more than the base",
                            c->v[F_prm_mark].s)
               : NULL;
}

static const char *pack_options(const Config *c)
{
    return c->v[F_prm_new_mark].i
               ? text_print("--format steps --mark-id %" PRId64, c->v[F_model_vocab].i - 1)
               : NULL;
}

typedef struct {
    Build *b;
    int64_t marks;           /* M, the maximum of a record */
    Value *rewards, *record; /* inputs; record NULL: all weights are 1 */
    Value *domains;          /* input: entries in use; or NULL */
    Value *learned[4];       /* weight table, or weights and biases of both layers of the net */
    int nlearned;
    Value *judged;           /* of a net: the margins it was applied to; or NULL */
    Set *meta;               /* group trained on the meta records; or NULL */
} Prm;

static bool field_is(const Prm *prm, int field, const char *word)
{
    return config_is(prm->b->c, field, word);
}

/* ---- what contradicts itself --------------------------------------------------------------- */

/* The gradient of the meta records is complete after a single micro-batch, and is not scaled. */
static void check_lockstep(Prm *prm)
{
    Config *c = prm->b->c;
    const Loc loc = config_loc(c, F_prm_hypergradient);
    const int64_t accum = config_int(c, F_batch_accum);
    if (accum > 1)
        err(loc, "prm.hypergradient: \"lockstep\" multiplies with the gradient of one micro-batch, "
            "not of batch.accum = %" PRId64 "; set batch.accum = 1, or prm.hypergradient = \"dot\"",
            accum);
    if (prm->b->model.act == DT_F16)
        err(loc, "prm.hypergradient: fp16 is scaled by the norm of a whole gradient, which "
            "\"lockstep\" does not have; set precision = \"bf16\", or prm.hypergradient = \"dot\"");
    if (config_int(c, F_lora_rank))
        err(loc, "prm.hypergradient: \"lockstep\" saves the gradient of a whole model, that of "
            "adapters is small; set prm.hypergradient = \"dot\"");
    if (is_canonical(prm->b))
        err(loc, "prm.hypergradient: \"lockstep\" sums each layer over ranks in any order; set "
            "prm.hypergradient = \"dot\" with comm.order = \"canonical\"");
}

static void check_fields(Prm *prm)
{
    Build *b = prm->b;
    bool none = field_is(prm, F_prm_weights, "none"),
         instance = field_is(prm, F_prm_weights, "instance");
    int64_t steps = config_int(b->c, F_prm_steps), labels = config_int(b->c, F_prm_rewards);
    const char *unlearned = "has no effect while prm.weights is \"none\"";
    build_unused(b, F_prm_activation, instance, "only for prm.weights = \"instance\"");
    build_unused(b, F_prm_records, instance, "only for prm.weights = \"instance\"");
    build_unused(b, F_prm_domains, field_is(prm, F_prm_weights, "domain"),
                 "only for prm.weights = \"domain\"");
    build_unused(b, F_prm_hypergradient, !none, unlearned);
    build_unused(b, F_prm_unroll, !none, unlearned);
    build_unused(b, F_meta_micro, !none, unlearned);
    if (field_is(prm, F_prm_hypergradient, "fd") && b->model.act != DT_F32)
        err(config_loc(b->c, F_prm_hypergradient),
            "prm.hypergradient: \"fd\" moves parameters by about 1e-6, too little for the 16-bit "
            "copies that matrix products read; try prm.hypergradient = \"dot\", or precision = "
            "\"fp32\"");
    if (!none && updates_in_backward(b) && !field_is(prm, F_prm_hypergradient, "lockstep"))
        err(config_loc(b->c, F_optim_when),
            "optim.when: \"backward\" keeps no whole gradient, which prm.hypergradient = \"%s\" "
            "needs of the meta records; set prm.hypergradient = \"lockstep\"",
            config_text(b->c, F_prm_hypergradient));
    if (!none && config_int(b->c, F_memory_ffn_rows) && !field_is(prm, F_prm_hypergradient, "fd"))
        err(config_loc(b->c, F_memory_ffn_rows),
            "memory.ffn_rows: tiles have no derivative along the gradient, by which record weights "
            "are learned; leave it out, or set prm.hypergradient = \"fd\" in fp32");
    if (field_is(prm, F_prm_hypergradient, "lockstep"))
        check_lockstep(prm);
    if (!*config_text(b->c, F_prm_mark))
        err(config_loc(b->c, F_prm_mark),
            "prm.mark: must be a token, such as \"<extra_0>\", got none: scores are read at it");
    if (field_is(prm, F_prm_weights, "domain") && config_int(b->c, F_prm_domains) == 1)
        err(config_loc(b->c, F_prm_domains),
            "prm.domains: the weight of a domain is relative to the mean of all domains, so that "
            "of a single domain is always 1; set 2 or more, or prm.weights = \"none\"");
    if (steps == 1)
        err(config_loc(b->c, F_prm_steps), "prm.steps: must be 2 or more, of which all but the "
                                           "last have a mark, or 0 for any number from 2 to 16, "
                                           "got 1");
    build_unused(b, F_prm_rewards, steps,
                 "has no effect while prm.steps is 0: a record has a label for each of its marks");
    if (steps && labels < steps - 1)
        err(config_loc(b->c, F_prm_rewards),
            "prm.rewards: the %" PRId64 " marks of prm.steps = %" PRId64 " need a label each, got %"
            PRId64, steps - 1, steps, labels);
    if (prm->marks > b->in.T)
        err(config_loc(b->c, F_seq_max), "seq.max: %" PRId64 " tokens have no room for %" PRId64
            " marks", b->in.T, prm->marks);
}

/* ---- inputs and parameters ------------------------------------------------------------------ */

static void make_inputs(Prm *prm)
{
    Build *b = prm->b;
    b->model.new_row = config_bool(b->c, F_prm_new_mark);
    b->added.N = b->added.targets = b->in.B * prm->marks;
    size_add(b, "N", b->added.N, "marks of a micro-batch");
    b->in.tokens = input_new(b, "tokens");
    b->in.target_rows = input_new(b, "target_rows");
    b->in.target_of = input_new(b, "target_of");
    prm->rewards = input_new(b, "rewards");
    prm->record = prm->meta ? input_new(b, "record") : NULL;
    prm->domains = field_is(prm, F_prm_weights, "domain") ? input_new(b, "domains") : NULL;
}

static void learn(Prm *prm, const char *name, Dim rows, Dim columns, const char *init, double bound)
{
    prm->learned[prm->nlearned++] = build_extra_param(prm->b, name, rows, columns, init, bound);
}

/* Parameters trained on the meta records: a weight for each record or domain, initially 1; or a net
 * initialised as in PyTorch. */
static void make_learned(Prm *prm)
{
    Build *b = prm->b;
    prm->meta = field_is(prm, F_prm_weights, "none") ? NULL : set_add(b, "meta");
    if (!prm->meta)
        return;
    b->set = prm->meta;
    b->loc = config_loc(b->c, F_prm_weights);
    const Dim none = dim(0, ""), one = dim(1, "1");
    if (field_is(prm, F_prm_weights, "net")) {
        const double in = 1 / sqrt(PRM_NET_INPUTS), between = 1 / sqrt(PRM_NET_UNITS);
        Dim units = size_add(b, "NET_UNITS", PRM_NET_UNITS, "hidden units of the net of weights"),
            inputs = size_add(b, "NET_INPUTS", PRM_NET_INPUTS, "inputs of the net of weights");
        learn(prm, "weights.net.0.weight", units, inputs, "uniform", in);
        learn(prm, "weights.net.0.bias", units, none, "uniform", in);
        learn(prm, "weights.net.2.weight", one, units, "uniform", between);
        learn(prm, "weights.net.2.bias", one, none, "uniform", between);
    } else if (field_is(prm, F_prm_weights, "domain"))
        learn(prm, "weights.table",
              size_add(b, "DOMAINS", config_int(b->c, F_prm_domains), "domains, a weight each"),
              none, "zeros", 0);
    else
        learn(prm, "weights.table",
              size_add(b, "RECORDS", config_int(b->c, F_prm_records), "records, a weight each"),
              none, "ones", 0);
    b->set = b->added.sets;
    b->loc = config_loc(b->c, F_objective);
}

/* ---- the pieces of a program --------------------------------------------------------------- */

/* Score head: margin of the two logits of each mark, (N) fp32, or into `to`. */
static Ref margins(Prm *prm, Ref x, Value *to)
{
    Build *b = prm->b;
    b->stage = "head";
    b->loc = config_loc(b->c, F_objective);
    bool trained = config_bool(b->c, F_prm_train_head);
    Dim C = dim_hidden(b), N = x.v->dim[0];
    Layer in = layer_added(b, "score.in", "score.0", C, C, false, trained);
    Dim logits = size_add(b, "SCORE_LOGITS", 2, "logits of a mark, whose difference is its margin");
    Layer out = layer_added(b, "score.out", "score.2", C, logits, true, trained);
    Ref z = layer_apply(b, in, "score.z", x),
        h = build_temp(b, "score.h", b->model.act, 2, z.v->dim);
    Op *op = build_op(b, OP_relu);
    op_in(op, z);
    op_out(op, h);
    Ref d = to ? build_input(b, to) : build_temp(b, "margin", DT_F32, 1, &N);
    op = build_op(b, OP_margin);
    op_in(op, h), op_in(op, ref(out.w)), op_in(op, ref(out.b));
    op_out(op, d);
    return d;
}

static Ref scored(Prm *prm, Pass *pass, Value *to)
{
    Build *b = prm->b;
    return margins(prm, pass_rows(b, pass, head_rows_read(b)), to);
}

/* (B) f32 */
static Ref a_record(Build *b, const char *name)
{
    Dim d = dim_batch(b);
    return build_temp(b, name, DT_F32, 1, &d);
}

/* Operands of an op on marks: `first`, their labels and positions. */
static Op *on_marks(Prm *prm, int kind, Ref first, Ref d)
{
    Build *b = prm->b;
    Op *op = build_op(b, kind);
    if (first.v)
        op_in(op, first);
    op_in(op, d), op_in(op, build_input(b, prm->rewards));
    op_in(op, build_input(b, b->in.target_rows));
    op_int(op, "marks", prm->marks);
    return op;
}

/* Creates an op of record weights: operands of its gradient first, then those that determine the
 * weights. */
static Op *by_learned(Prm *prm, int table, int of_domains, int net, Ref jvp, Ref scale, Ref d)
{
    Build *b = prm->b;
    b->loc = config_loc(b->c, F_prm_weights);
    bool is_net = field_is(prm, F_prm_weights, "net");
    Op *op = build_op(b, is_net ? net : prm->domains ? of_domains : table);
    if (jvp.v)
        op_in(op, jvp), op_in(op, scale);
    if (is_net)
        op_in(op, d), op_in(op, build_input(b, b->in.target_rows)),
            op_in(op, build_input(b, prm->record));
    for (int i = 0; i < prm->nlearned; i++)
        op_in(op, ref(prm->learned[i]));
    if (prm->domains)
        op_in(op, ref(prm->domains));
    if (is_net)
        op_int(op, "marks", prm->marks);
    else
        op_in(op, build_input(b, prm->record));
    if (field_is(prm, F_prm_weights, "instance"))
        op_word(op, "activation", config_text(b->c, F_prm_activation));
    return op;
}

/* Weight of each record; v NULL: 1. */
static Ref weights_of(Prm *prm, Ref d)
{
    Build *b = prm->b;
    Ref none = {0};
    if (!prm->meta)
        return none;
    Ref weights = a_record(b, "weights");
    op_out(by_learned(prm, OP_prm_weights, OP_prm_domains, OP_prm_net, none, none, d), weights);
    return weights;
}

static Ref losses_of(Prm *prm, Ref d)
{
    Build *b = prm->b;
    b->loc = config_loc(b->c, F_objective);
    Ref losses = a_record(b, "losses");
    op_out(on_marks(prm, OP_prm_loss, (Ref){0}, d), losses);
    return losses;
}

/* Adds to loss and stats; returns the derivative by each margin, times the scale. */
static Ref weighted_loss(Prm *prm, Ref d)
{
    Build *b = prm->b;
    Ref weights = weights_of(prm, d), losses = losses_of(prm, d), scale = loss_scale(b);
    Op *op = on_marks(prm, OP_prm_sums, losses, d);
    if (weights.v)
        op_in(op, weights);
    op_out(op, build_input(b, ir_value(b->g, "loss")));
    op_out(op, build_input(b, ir_value(b->g, "stats")));
    Ref dd = build_temp(b, "dmargin", DT_F32, 1, d.v->dim);
    op = on_marks(prm, OP_prm_loss_bwd, (Ref){0}, d);
    op_in(op, scale);
    if (weights.v)
        op_in(op, weights);
    op_out(op, dd);
    return dd;
}

/* ---- programs ------------------------------------------------------------------------------ */

static void make_micro(Prm *prm)
{
    Build *b = prm->b;
    program_micro(b);
    Pass pass = pass_trained(b);
    Ref d = scored(prm, &pass, NULL);
    int end = b->p->nops;
    gradient_set(d, weighted_loss(prm, d));
    pass_backward(b, &pass, end);
}

/* ---- the upper level: what records count, learned of the meta records ------------------------ */

/* Gradient of record weights: a record's weight decreases, the more its loss grows along v. The net
 * reads the records' margins; with finite differences a separate pass computes them. */
static void weigh(Prm *prm, const Jvp *jvp)
{
    Build *b = prm->b;
    program_prefixed(b, "weigh", ROLE_gradients, "the gradient of the record weights");
    Ref d = {0};
    if (field_is(prm, F_prm_weights, "net")) {
        Pass pass = pass_only(b, "weigh.x");
        d = prm->judged ? build_input(b, prm->judged) : scored(prm, &pass, NULL);
    }
    b->loc = config_loc(b->c, F_prm_weights);
    b->set = prm->meta;
    Ref scale = loss_scale(b);
    Op *op = by_learned(prm, OP_prm_weights_bwd, OP_prm_domains_bwd, OP_prm_net_bwd,
                        jvp_of(b, jvp), scale, d);
    for (int i = 0; i < prm->nlearned; i++)
        op_out(op, ref(gradient_of(b, prm->learned[i])));
    op_int(op, "beta", 0);
    b->set = b->added.sets;
}

/* Makes the meta records the inputs of passes; returns their outcomes. */
static Value *meta_inputs(Prm *prm)
{
    Build *b = prm->b;
    b->loc = config_loc(b->c, F_meta_micro);
    b->in.B = config_int(b->c, F_meta_micro), b->in.batch = "META";
    size_add(b, "META", b->in.B, "meta records of a micro-batch");
    size_add(b, "METAN", b->in.B * prm->marks, "marks of meta records of a micro-batch");
    b->in.tokens = input_new(b, "meta_tokens");
    b->in.target_rows = input_new(b, "meta_rows");
    b->in.target_of = input_new(b, "meta_of");
    return input_new(b, "outcomes");
}

/* The meta records' losses: adds to their metrics; returns the derivative by each margin, times the
 * scale. */
static Ref outcome_losses(Prm *prm, Ref d, Value *outcomes, Value *scale, Value *stats)
{
    Build *b = prm->b;
    Ref dd = build_temp(b, "dmargin", DT_F32, 1, d.v->dim);
    b->loc = config_loc(b->c, F_prm_aggregate);
    Ref scaled = loss_scale_of(b, scale);
    Op *op = build_op(b, OP_prm_outcome);
    op_in(op, d), op_in(op, build_input(b, b->in.target_rows)), op_in(op, build_input(b, outcomes));
    op_in(op, scaled);
    op_out(op, dd), op_out(op, build_input(b, stats));
    op_int(op, "marks", prm->marks);
    op_word(op, "aggregate", config_text(b->c, F_prm_aggregate));
    return dd;
}

/* Forward and backward pass of the meta records, as inputs instead of the others. */
static void judge(Prm *prm, Value *scale, Value *stats)
{
    Build *b = prm->b;
    const PassInputs in = b->in;
    Value *outcomes = meta_inputs(prm);
    program_prefixed(b, "meta_micro", ROLE_gradients,
                    "forward and backward of meta records; adds to v, in the gradients' place");
    Pass pass = pass_trained(b);
    Ref d = scored(prm, &pass, NULL);
    int end = b->p->nops;
    gradient_set(d, outcome_losses(prm, d, outcomes, scale, stats));
    pass_backward(b, &pass, end);
    b->in = in;
}

/* Unweighted losses of the records, with moved parameters. */
static void hypergradient(Prm *prm, const Jvp *jvp)
{
    Build *b = prm->b;
    program_prefixed(b, "jvp", ROLE_forward, "losses of the records, parameters moved along v");
    Pass pass = pass_only(b, "jvp.x");
    jvp_losses(b, jvp, losses_of(prm, scored(prm, &pass, NULL)));
}

/* The margins of the step's records; a net keeps them for its own gradient. */
static Ref own_margins(Prm *prm, const Jvp *jvp, Pass *pass)
{
    Build *b = prm->b;
    if (field_is(prm, F_prm_weights, "net")) {
        prm->judged = build_persistent(b, "judged", PU_activations, DT_F32, 1, dim(b->added.N, "N"),
                                       dim(0, ""));
        prm->judged->count = jvp->jvp->count;
        prm->judged->slots = jvp->jvp->slots;
    }
    return scored(prm, pass, prm->judged);
}

/* Derivatives of their losses by each margin, unweighted, times the scale. */
static Ref own_losses(Prm *prm, Ref d)
{
    Build *b = prm->b;
    Ref dd = build_temp(b, "dmargin", DT_F32, 1, d.v->dim);
    b->loc = config_loc(b->c, F_objective);
    Ref scale = loss_scale(b);
    Op *op = on_marks(prm, OP_prm_loss_bwd, (Ref){0}, d);
    op_in(op, scale);
    op_out(op, dd);
    return dd;
}

/* Their backward pass, which only computes products with v. */
static void hypergradient_products(Prm *prm, Jvp *jvp)
{
    Build *b = prm->b;
    program_prefixed(b, "jvp", ROLE_gradients, "the derivative of each record's loss along v");
    b->jvp = jvp;
    Pass pass = pass_trained(b);
    Ref d = own_margins(prm, jvp, &pass);
    int end = b->p->nops;
    gradient_set(d, own_losses(prm, d));
    pass_backward(b, &pass, end);
}

/* Both at once: v of a layer is computed, multiplied and dropped. */
static void lockstep(Prm *prm, Jvp *jvp, Value *scale, Value *stats)
{
    Build *b = prm->b;
    const PassInputs in = b->in;
    LockstepSide meta, own;
    Value *outcomes = meta_inputs(prm);
    lockstep_begin(b, jvp, b->added.sets[0].scale);
    lockstep_side(b, &meta, "meta.");
    meta.pass = pass_trained(b);
    Ref d = scored(prm, &meta.pass, NULL);
    meta.end = b->p->nops;
    gradient_set(d, outcome_losses(prm, d, outcomes, scale, stats));
    b->in = in;
    lockstep_side(b, &own, "jvp.");
    own.pass = pass_trained(b);
    d = own_margins(prm, jvp, &own.pass);
    own.end = b->p->nops;
    gradient_set(d, own_losses(prm, d));
    lockstep_backward(b, jvp, &meta, &own);
}

static void schedule_meta(Prm *prm)
{
    Build *b = prm->b;
    b->loc = config_loc(b->c, F_meta_micro);
    Value *scale = input_new(b, "meta_scale"),
          *stats = build_of_micro(b, "meta_stats",
                                  size_add(b, "META_STATS", PRM_META_STATS,
                                           "elements of meta_stats"));
    Schedule *s = ir_schedule(b->g, "meta",
                              "an update of the record weights, from the step's records");
    Jvp *jvp = jvp_new(b, b->added.sets);
    prm->meta->scale = b->added.sets[0].scale;
    schedule_clear(s, stats);
    if (field_is(prm, F_prm_hypergradient, "lockstep")) {
        lockstep(prm, jvp, scale, stats);
        schedule_clear(s, jvp->jvp);
        schedule_turns(b, s);
    } else {
        judge(prm, scale, stats);
        schedule_turns(b, s);
        jvp_tangent(b, s, jvp);
    }
    if (field_is(prm, F_prm_hypergradient, "fd")) {
        hypergradient(prm, jvp);
        jvp_differences(b, s, jvp);
    } else if (field_is(prm, F_prm_hypergradient, "dot")) {
        hypergradient_products(prm, jvp);
        schedule_turns(b, s);
    }
    weigh(prm, jvp);
    schedule_turns(b, s);
    schedule_result(s, stats);
    schedule_set(b, s, prm->meta);
    schedule_end(b, s);
}

static void make_score(Prm *prm)
{
    Build *b = prm->b;
    b->mode = MODE_SCORE;
    b->p = ir_program(b->g, "score", ROLE_forward,
                      "the margin between the two logits of each mark");
    Pass pass = pass_only(b, "s.x");
    b->loc = config_loc(b->c, F_objective);
    Value *kept =
        build_persistent(b, "margins", PU_activations, DT_F32, 1, dim(b->added.N, "N"), dim(0, ""));
    scored(prm, &pass, kept);
    schedule_alone(b, "the margins of the marks of micro-batch 0", "margins");
}

static void build(Build *b)
{
    int64_t steps = config_int(b->c, F_prm_steps);
    Prm this = {.b = b, .marks = steps ? steps - 1 : STEPS_MARKS}, *prm = &this;
    check_fields(prm);
    make_learned(prm);
    make_inputs(prm);
    loss_inputs(b);
    build_sum(b, "stats", PRM_STATS);
    make_micro(prm);
    schedule_train(b);
    if (prm->meta)
        schedule_meta(prm);
    make_score(prm);
}

const ObjectiveParts prm_parts = {
    .rules = {.defaults = defaults, .one_micro = one_micro,
              .head_field = "prm.train_head", .new_token_field = "prm.new_mark",
              .token_field = "prm.mark",
              .new_token = new_token, .pack_options = pack_options},
    .build = build};
