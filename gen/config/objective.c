/* objective.c -- the rows of runtime/objectives as tables. */
#include "gen/config/objective.h"

#include <string.h>

#define OBJECTIVE(name, about, kinds, head, work, decides) \
    {#name, about, kinds, #head, #work, #decides, false},
#define STANDALONE(name, about) {#name, about, "", "", "", "", true},
static const Objective row[] = {
#include "runtime/objectives/rows.def"
};

#define METRIC(objective, of, name, kind, per, better, tag, text) \
    {#objective, #of, #name, #kind, #per, #better, tag, text},
const MetricRow metric_row[] = {
#include "runtime/objectives/rows.def"
};
const int nmetrics = (int)(sizeof metric_row / sizeof *metric_row);

#define TAG(objective, key, tag) {#objective, #key, tag},
const TagRow tag_row[] = {
#include "runtime/objectives/rows.def"
};
const int ntags = (int)(sizeof tag_row / sizeof *tag_row);

const char *objective_default(const char *name, const char *flag)
{
    static const struct {
        const char *objective, *flag, *value;
    } list[] = {
#define DEFAULT(objective, flag, value) {#objective, #flag, value},
#include "runtime/objectives/rows.def"
        {"", "", ""}
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (!strcmp(list[i].objective, name) && !strcmp(list[i].flag, flag))
            return list[i].value;
    return NULL;
}

int64_t objective_sequences(const Config *c)
{
    static const struct {
        const char *objective;
        int64_t sequences;
        int one;
    } list[] = {
#define SAMPLE(objective, sequences, one) {#objective, sequences, F_##one},
#include "runtime/objectives/rows.def"
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (!strcmp(list[i].objective, c->v[F_objective].s))
            return c->v[list[i].one].i ? 1 : list[i].sequences;
    return 1;
}

int64_t objective_steps_a_turn(const Config *c, const char *schedule)
{
    static const struct {
        const char *objective, *schedule;
        int steps;
    } list[] = {
#define RARER(objective, schedule, field) {#objective, #schedule, F_##field},
#include "runtime/objectives/rows.def"
    };
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (!strcmp(list[i].objective, c->v[F_objective].s) && !strcmp(list[i].schedule, schedule))
            return c->v[list[i].steps].i;
    return 1;
}

bool objective_owns(const char *name, const char *path)
{
    const size_t n = strcspn(path, "."), k = strlen(name);
    return path[n] == '.' && k >= n && !strncmp(name + k - n, path, n) &&
           (k == n || name[k - n - 1] == '_');
}

int objective_count(void)
{
    return (int)(sizeof row / sizeof *row);
}

const Objective *objective_row(int i)
{
    return &row[i];
}

const char *objective_for(const char *kind)
{
    for (int i = 0; i < objective_count(); i++)
        if (names_listed(row[i].kinds, kind))
            return text_print(" (objective=%s trains on %s)", row[i].name, kind);
    return "";
}

const Objective *objective_find(const char *name)
{
    for (int i = 0; i < objective_count(); i++)
        if (!strcmp(row[i].name, name))
            return &row[i];
    bug("no objective %s", name);
}
