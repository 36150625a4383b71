/* whole.c -- gen plan and gen info of recipes whose program stands whole in a template.
 *
 * In:    Config.   Out: a page for people. */
#include "gen/gen.h"
#include "runtime/darkroom.h"
#include "runtime/data/histories.h"

#include <inttypes.h>
#include <string.h>

static void line(FILE *to, const char *what, const char *text)
{
    fprintf(to, "  %-10s %s\n", what, text);
}

static void print_ppo(Config *c, FILE *to)
{
    const char *env = config_text(c, F_ad_env);
    const int kind = !strcmp(env, "permuted") ? DARKROOM_PERMUTED : DARKROOM_DARKROOM;
    const int64_t tasks = darkroom_tasks(kind), streams = config_int(c, F_ppo_streams),
                  steps = HISTORIES_ROLLOUT * config_int(c, F_ppo_rollouts), each = config_int(c, F_ppo_minibatch),
                  updates = config_int(c, F_ppo_rollouts) * config_int(c, F_ppo_passes) * HISTORIES_ROLLOUT * streams / each;
    const int64_t policy = 2 * 64 + 64 + 64 * 64 + 64 + 64 * DARKROOM_ACTIONS + DARKROOM_ACTIONS,
                  value = 2 * 64 + 64 + 64 * 64 + 64 + 64 + 1;
    line(to, "tasks", text_print("%" PRId64 " of %s, each by itself, %" PRId64 " threads at most", tasks, env, tasks));
    line(to, "nets", text_print("tanh 2-64-64 of the policy and of values, %" PRId64 " and %" PRId64
                                " parameters in fp32", policy, value));
    line(to, "a task", text_print("%" PRId64 " steps of each of %" PRId64 " streams, %" PRId64 " in all; %" PRId64
                                  " updates by %" PRId64 " samples", steps, streams, steps * streams, updates, each));
    line(to, "in all", text_print("%" PRId64 " updates, of 2 forward and 4 backward FLOP a parameter and sample at "
                                  "most %.3g TFLOP", tasks * updates,
                                  6e-12 * (double)(tasks * updates * each * (policy + value))));
    line(to, "histories", text_print("%s, of which a task is %s", text_bytes(8 * steps * streams * tasks),
                                     text_bytes(8 * steps * streams)));
}

void report_whole(Config *c, bool commands, FILE *to)
{
    static const struct { const char *objective; void (*print)(Config *c, FILE *to); } row[] = {
        {"ppo", print_ppo}};
    const Objective *o = objective_find(config_text(c, F_objective));
    const Target *t = target_find(config_text(c, F_target));
    fprintf(to, "%s%s%s\n", c->name, *c->v[F_about].s ? ": " : "", c->v[F_about].s);
    line(to, "objective", text_print("%s: %s", o->name, o->about));
    line(to, "target", text_print("%s (%s), one process", t->name, t->about));
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (!strcmp(row[i].objective, o->name))
            row[i].print(c, to);
    if (!commands)
        return;
    char **word;
    const char *out = text_print("out/%s", c->name);
    fprintf(to, "\n  gen %s", text_shell(c->recipe));
    for (int i = 0, n = config_overrides(c, &word); i < n; i++)
        fprintf(to, " %s", text_shell(word[i]));
    fprintf(to, " && make -C %s\n  %s\n      --help has every flag\n", text_shell(out),
            text_shell(text_print("%s/run.sh", out)));
}
