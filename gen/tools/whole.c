/* whole.c -- gen plan and gen info of recipes whose program stands whole in a template.
 *
 * In:    Config.   Out: a page for people, or JSON. */
#include "gen/tools/answer.h"
#include "runtime/darkroom.h"
#include "runtime/data/histories.h"

#include <inttypes.h>
#include <string.h>

static void line(FILE *to, const char *what, const char *text)
{
    fprintf(to, "  %-10s %s\n", what, text);
}

typedef struct {
    const char *env;
    int64_t tasks, streams, steps, each, updates, policy, value, history;    /* history: bytes of a task */
    double flop;                 /* in all, at most */
} Ppo;

static Ppo ppo_of(Config *c)
{
    Ppo p = {.env = config_text(c, F_ad_env), .streams = config_int(c, F_ppo_streams),
             .each = config_int(c, F_ppo_minibatch), .steps = HISTORIES_ROLLOUT * config_int(c, F_ppo_rollouts),
             .policy = 2 * 64 + 64 + 64 * 64 + 64 + 64 * DARKROOM_ACTIONS + DARKROOM_ACTIONS,
             .value = 2 * 64 + 64 + 64 * 64 + 64 + 64 + 1};
    p.tasks = darkroom_tasks(!strcmp(p.env, "permuted") ? DARKROOM_PERMUTED : DARKROOM_DARKROOM);
    p.updates = config_int(c, F_ppo_rollouts) * config_int(c, F_ppo_passes) * HISTORIES_ROLLOUT * p.streams / p.each;
    p.history = 8 * p.steps * p.streams;
    p.flop = 6 * (double)(p.tasks * p.updates * p.each * (p.policy + p.value));
    return p;
}

static void print_ppo(Config *c, FILE *to)
{
    const Ppo p = ppo_of(c);
    line(to, "tasks", text_print("%" PRId64 " of %s, each by itself, %" PRId64 " threads at most", p.tasks, p.env,
                                 p.tasks));
    line(to, "nets", text_print("tanh 2-64-64 of the policy and of values, %" PRId64 " and %" PRId64
                                " parameters in fp32", p.policy, p.value));
    line(to, "a task", text_print("%" PRId64 " steps of each of %" PRId64 " streams, %" PRId64 " in all; %" PRId64
                                  " updates by %" PRId64 " samples", p.steps, p.streams, p.steps * p.streams, p.updates,
                                  p.each));
    line(to, "in all", text_print("%" PRId64 " updates, of 2 forward and 4 backward FLOP a parameter and sample at "
                                  "most %.3g TFLOP", p.tasks * p.updates, 1e-12 * p.flop));
    line(to, "histories", text_print("%s, of which a task is %s", text_bytes(p.history * p.tasks),
                                     text_bytes(p.history)));
    line(to, "time", "not estimated: nets this small wait for calls, not for products");
}

static void answer_ppo(Config *c, cJSON *o)
{
    const Ppo p = ppo_of(c);
    answer_text(o, "environment", p.env);
    answer_int(o, "tasks", p.tasks);
    answer_int(o, "streams", p.streams);
    answer_int(o, "steps", p.steps);
    answer_int(o, "parameters_policy", p.policy);
    answer_int(o, "parameters_value", p.value);
    answer_int(o, "parameters", p.policy + p.value);
    answer_int(o, "updates", p.tasks * p.updates);
    answer_float(o, "flop", p.flop);
    answer_int(o, "histories_bytes", p.history * p.tasks);
    answer_text(o, "estimate", NULL);
}

/* Behind gen. */
static const char *words_of(const Config *c)
{
    char **word;
    Str s = {0};
    str_print(&s, "%s", text_shell(c->recipe));
    for (int i = 0, n = config_overrides(c, &word); i < n; i++)
        str_print(&s, " %s", text_shell(word[i]));
    return s.text;
}

static const struct {
    const char *objective;
    void (*print)(Config *c, FILE *to);
    void (*answer)(Config *c, cJSON *o);
} row[] = {{"ppo", print_ppo, answer_ppo}};

cJSON *whole_object(Config *c)
{
    cJSON *o = answer_new();
    answer_recipe(o, NULL, c);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (!strcmp(row[i].objective, config_text(c, F_objective)))
            row[i].answer(c, o);
    return o;
}

void report_whole(Config *c, bool commands, FILE *to)
{
    const Objective *o = objective_find(config_text(c, F_objective));
    const Target *t = target_find(config_text(c, F_target));
    if (answer_wanted()) {
        cJSON *answer = whole_object(c);
        if (commands) {
            answer_leaves(answer, o);
            answer_commands(answer, words_of(c), text_print("out/%s", c->name));
        }
        answer_print(answer);
        return;
    }
    fprintf(to, "%s%s%s\n", c->name, *c->v[F_about].s ? ": " : "", c->v[F_about].s);
    line(to, "objective", text_print("%s: %s", o->name, o->about));
    line(to, "target", text_print("%s (%s), one process", t->name, t->about));
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (!strcmp(row[i].objective, o->name))
            row[i].print(c, to);
    if (!commands)
        return;
    const char *out = text_print("out/%s", c->name);
    fprintf(to, "\n  gen %s && make -C %s\n  %s\n      --help has every flag\n", words_of(c), text_shell(out),
            text_shell(text_print("%s/run.sh", out)));
}
