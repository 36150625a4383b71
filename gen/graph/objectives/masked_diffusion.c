/* masked_diffusion.c -- masked diffusion: predicts tokens masked at a random rate.
 *
 * In:    hidden states (N, C) of the masked rows; every token attends to its whole text, not to
 *        padding.
 * Out:   the schedules train, eval and generate with their programs.
 * Keeps: templates/objectives/masked_diffusion.c lists what the host writes. */
#include "gen/graph/graph.h"

#include <inttypes.h>
#include <string.h>

/* ---- rules between fields -------------------------------------------------------------------- */

static void defaults(Config *c)
{
    const int64_t T = c->v[F_seq_max].i;
    rule_fill_text(c, F_diffusion_random_length, strcmp(c->v[F_diffusion_mode].s, "sft") ? "0.01"
                   : "0");
    rule_fill_int(c, F_diffusion_block, T < 32 ? T : 32);
}

static void check(const Config *c)
{
    const int64_t T = c->v[F_seq_max].i;
    if (c->v[F_diffusion_block].i > T)
        err_add(c->v[F_diffusion_block].loc,
                "diffusion.block: %" PRId64 " is more than seq.max = %" PRId64
                "; try diffusion.block = %" PRId64, c->v[F_diffusion_block].i, T, T);
    rule_token(c, F_diffusion_mask, false);
}

static void check_fields(const Build *b)
{
    if (config_is(b->c, F_diffusion_mode, "sft") &&
        config_float(b->c, F_diffusion_random_length) > 0)
        err(config_loc(b->c, F_diffusion_random_length),
            "diffusion.random_length: must be 0 where diffusion.mode is sft, whose answers would "
            "be cut off, got "
            "%g",
            config_float(b->c, F_diffusion_random_length));
}

/* ---- programs -------------------------------------------------------------------------------- */

/* All tokens may be masked at once. */
static void make_inputs(Build *b)
{
    b->added.targets = b->added.targets ? b->added.targets : b->in.B * b->in.T;
    b->in.tokens = input_new(b, "tokens");
    head_labels(b);
    b->in.weights = input_new(b, "weights");
    b->in.mask = (Mask){"length", {input_new(b, "lengths")}};
    if (b->family->types)
        b->in.types = input_new(b, "types");
}

static void build(Build *b)
{
    check_fields(b);
    make_inputs(b);
    loss_inputs(b);
    head_micro(b);
    schedule_train(b);
    head_eval(b);
    /* one block per sequence: never (B, T, V) logits */
    b->loc = config_loc(b->c, F_diffusion_block);
    size_add(b, "ASKED", b->in.B * config_int(b->c, F_diffusion_block),
             "positions whose logits a step of generation computes");
    head_program_at(b, "generate", "asked",
                    "the logits of a block of each sequence of micro-batch 0");
}

const ObjectiveParts masked_diffusion_parts = {
    .rules = {.defaults = defaults, .check = check, .free_field = "diffusion.block"}, .build =
        build};
