/* standalone_report.c -- `gen plan` and `gen info` for standalone programs.
 *
 * In:    Config.
 * Out:   text or JSON. */
#include "gen/graph/objectives.h"
#include "gen/tools/answer.h"
#include "gen/tools/tools.h"

static void line(FILE *to, const char *what, const char *text)
{
    fprintf(to, "  %-10s %s\n", what, text);
}

static Figures figures_of(Config *c)
{
    Figures f = {0};
    objective_parts(config_text(c, F_objective))->plan(c, &f);
    return f;
}

/* Arguments of gen. */
static const char *words_of(const Config *c)
{
    char **word;
    Str s = {0};
    str_print(&s, "%s", text_shell(c->recipe));
    for (int i = 0, n = config_overrides(c, &word); i < n; i++)
        str_print(&s, " %s", text_shell(word[i]));
    return s.text;
}

cJSON *standalone_object(Config *c)
{
    cJSON *o = answer_new();
    answer_recipe(o, NULL, c);
    const Figures f = figures_of(c);
    for (const Figure *p = f.figure; p < f.figure + f.n; p++)
        if (p->key && p->kind == FIGURE_INT)
            answer_int(o, p->key, p->i);
        else if (p->key && p->kind == FIGURE_FLOAT)
            answer_float(o, p->key, p->f);
        else if (p->key)
            answer_text(o, p->key, p->text);
    return o;
}

void report_standalone(Config *c, bool commands, FILE *to)
{
    const Objective *o = objective_find(config_text(c, F_objective));
    const Target *t = target_find(config_text(c, F_target));
    if (answer_wanted()) {
        cJSON *answer = standalone_object(c);
        if (commands) {
            answer_run_files(answer, o);
            answer_commands(answer, words_of(c), text_print("out/%s", c->name));
        }
        answer_print(answer);
        return;
    }
    fprintf(to, "%s%s%s\n", c->name, *c->v[F_about].s ? ": " : "", c->v[F_about].s);
    line(to, "objective", text_print("%s: %s", o->name, o->about));
    line(to, "target", text_print("%s (%s), one process", t->name, t->about));
    const Figures f = figures_of(c);
    for (const Figure *p = f.figure; p < f.figure + f.n; p++)
        if (p->label)
            line(to, p->label, p->line);
    if (!commands)
        return;
    const char *out = text_print("out/%s", c->name);
    fprintf(to, "\n  gen %s && make -C %s\n  %s\n      --help has every flag\n", words_of(c),
            text_shell(out), text_shell(text_print("%s/run.sh", out)));
}
