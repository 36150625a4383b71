/* objectives.c -- the table of objectives, from the rows of runtime/objectives. */
#include "gen/graph/objectives.h"

#include <string.h>

#define OBJECTIVE(name, ...) extern const ObjectiveParts name##_parts;
#define STANDALONE(name, ...) extern const ObjectiveParts name##_parts;
#include "runtime/objectives/rows.def"

const ObjectiveParts *objective_parts(const char *name)
{
    static const struct {
        const char *name;
        const ObjectiveParts *parts;
    } row[] = {
#define OBJECTIVE(name, ...) {#name, &name##_parts},
#define STANDALONE(name, ...) {#name, &name##_parts},
#include "runtime/objectives/rows.def"
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++)
        if (!strcmp(row[i].name, name))
            return row[i].parts;
    bug("no objective %s", name);
}

static const ObjectiveRules *rules_of(const char *objective)
{
    return &objective_parts(objective)->rules;
}

void objectives_install(void) { config_set_rules(rules_of); }
