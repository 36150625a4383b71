/* mlm.c -- masked language modelling: predicts masked tokens from both sides.
 *
 * In:    hidden states (N, C) of the selected rows; every token attends to its whole text, not to
 *        padding.
 * Out:   the schedules train, eval and probe with their programs.
 * Keeps: templates/objectives/mlm.c lists what the host writes. */
#include "gen/graph/graph.h"

#include <inttypes.h>
#include <math.h>

/* The most that are chosen of a micro-batch of texts, each between two tokens that never are: of
 * exact ones all; of independent ones so many that more are not drawn in the life of a machine,
 * 8 standard deviations above their mean. */
static int64_t most_targets(Build *b)
{
    double share = config_float(b->c, F_mlm_share);
    int64_t words = b->in.T - 2, one = (int64_t)(share * (double)words);
    if (words < 1)
        err(config_loc(b->c, F_seq_max),
            "seq.max: must be 3 or more: a word and the tokens around it, got %" PRId64, b->in.T);
    if (config_is(b->c, F_mlm_select, "exact"))
        return b->in.B * (one > 1 ? one : 1);
    double all = (double)(b->in.B * words);
    double most = ceil(all * share + 8 * sqrt(all * share * (1 - share)));
    return most < all ? (int64_t)most : b->in.B * words;
}

static void make_inputs(Build *b)
{
    int64_t most = most_targets(b);
    b->added.targets = b->added.targets ? b->added.targets : most;
    b->in.tokens = input_new(b, "tokens");
    head_labels(b);
    b->in.mask = (Mask){"length", {input_new(b, "lengths")}};
    if (b->family->types)
        b->in.types = input_new(b, "types");
}

static void build(Build *b)
{
    make_inputs(b);
    loss_inputs(b);
    head_micro(b);
    schedule_train(b);
    head_eval(b);
    b->loc = config_loc(b->c, F_objective);
    size_add(b, "ASKED", 1, "positions whose logits the program probe computes");
    head_program_at(b, "probe", "row", "the logits of one position of micro-batch 0");
}

const ObjectiveParts mlm_parts = {.build = build};
