/* ppo.c -- proximal policy optimisation: rules of its fields, and figures of its plan.
 *
 * A standalone program: templates/programs/ppo/ holds all of it; no graph is built.
 * Source: Schulman et al. 2017, Proximal policy optimization algorithms. */
#include "gen/graph/objectives.h"

#include <inttypes.h>
#include <string.h>

#include "runtime/darkroom.h"
#include "runtime/data/histories.h"
#include "runtime/ppo.h"

static void check(const Config *c)
{
    const int64_t samples = HISTORIES_ROLLOUT * c->v[F_ppo_streams].i,
                  each = c->v[F_ppo_minibatch].i;
    if (samples % each)
        err_add(rule_loc(c, F_ppo_minibatch, F_ppo_streams),
                "ppo.minibatch: a rollout has %d steps x %" PRId64 " streams = %" PRId64
                " samples, not a whole number of minibatches of %" PRId64
                "; try ppo.minibatch = %" PRId64,
                HISTORIES_ROLLOUT, c->v[F_ppo_streams].i, samples, each,
                near_divisor(samples, each));
}

static void plan(Config *c, Figures *f)
{
    enum { POLICY = PPO_PARAMETERS(DARKROOM_ACTIONS), VALUE = PPO_PARAMETERS(1) };
    const char *env = config_text(c, F_ad_env);
    const int64_t tasks = darkroom_tasks(!strcmp(env, "permuted") ? DARKROOM_PERMUTED
                                                                  : DARKROOM_DARKROOM),
                  streams = config_int(c, F_ppo_streams), each = config_int(c, F_ppo_minibatch),
                  rollouts = config_int(c, F_ppo_rollouts), steps = HISTORIES_ROLLOUT * rollouts,
                  updates =
                      rollouts * config_int(c, F_ppo_passes) * HISTORIES_ROLLOUT * streams / each,
                  history = 8 * steps * streams; /* bytes of a task */
    /* per parameter and sample two FLOP forward, four backward */
    const double flop = 6 * (double)(tasks * updates * each * (POLICY + VALUE));

    figure_line(f, "tasks",
                text_print("%" PRId64 " of %s, each by itself, %" PRId64 " threads at most", tasks,
                           env, tasks));
    figure_line(f, "nets",
                text_print("tanh %d-%d-%d of the policy and of values, %d and %d parameters in "
                           "fp32",
                           PPO_INPUTS, PPO_HIDDEN, PPO_HIDDEN, POLICY, VALUE));
    figure_line(f, "a task",
                text_print("%" PRId64 " steps of each of %" PRId64 " streams, %" PRId64
                           " in all; %" PRId64 " updates by %" PRId64 " samples",
                           steps, streams, steps * streams, updates, each));
    figure_line(f, "in all",
                text_print("%" PRId64 " updates, of 2 forward and 4 backward FLOP a parameter and "
                                      "sample at most %.3g TFLOP",
                           tasks * updates, 1e-12 * flop));
    figure_line(f, "histories", text_print("%s, of which a task is %s", text_bytes(history * tasks),
                                           text_bytes(history)));
    figure_line(f, "time", "not estimated: nets this small wait for calls, not for products");

    figure_text(f, "environment", env);
    figure_int(f, "tasks", tasks);
    figure_int(f, "streams", streams);
    figure_int(f, "steps", steps);
    figure_int(f, "parameters_policy", POLICY);
    figure_int(f, "parameters_value", VALUE);
    figure_int(f, "parameters", POLICY + VALUE);
    figure_int(f, "updates", tasks * updates);
    figure_float(f, "flop", flop);
    figure_int(f, "histories_bytes", history * tasks);
    figure_text(f, "estimate", NULL);
}

const ObjectiveParts ppo_parts = {.rules = {.check = check}, .plan = plan};
