/* mdm.c -- the objective mdm: masked diffusion, tokens hidden at any rate from those that are seen.
 *
 * In:    a model's last hidden states, (N, C) of the rows that are hidden; every token meets all of
 *        its text, and no padding.
 * Out:   the schedules train, eval and generate with their programs.
 * Keeps: what the host writes is listed in templates/objectives/mdm.c. */
#include "gen/graph/graph.h"

static void check_fields(const Build *b)
{
    if (config_is(b->c, F_mdm_mode, "sft") && config_float(b->c, F_mdm_random_length) > 0)
        err(config_loc(b->c, F_mdm_random_length),
            "mdm.random_length: want 0 where mdm.mode is sft, whose answers would be cut off, got %g",
            config_float(b->c, F_mdm_random_length));
}

/* All tokens may be hidden at once. */
static void make_inputs(Build *b)
{
    b->targets = b->targets ? b->targets : b->B * b->T;
    b->tokens = input_new(b, "tokens");
    head_labels(b);
    b->weights = input_new(b, "weights");
    b->lengths = input_new(b, "lengths");
    if (b->family->types)
        b->types = input_new(b, "types");
}

void mdm_build(Build *b)
{
    check_fields(b);
    make_inputs(b);
    loss_inputs(b);
    head_micro(b);
    schedule_train(b);
    head_eval(b);
    /* of every sequence a block: never (B, T, V) logits */
    b->loc = config_loc(b->c, F_mdm_block);
    size_add(b, "ASKED", b->B * config_int(b->c, F_mdm_block));
    head_program_at(b, "generate", "asked", "the logits of a block of each sequence of micro-batch 0");
}
