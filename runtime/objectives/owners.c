/* owners.c -- sets of objectives, from the rows OBJECTIVE, WHOLE and USES. */
#include "runtime/objectives/owners.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *objective;
    int owners;
} row[] = {
#define OBJECTIVE(name, ...) {#name, OWNERS_##name},
#define STANDALONE(name, ...) {#name, OWNERS_##name},
#define USES(objective, capability) {#objective, OWNERS_##capability},
#include "runtime/objectives/rows.def"
};
enum { ROWS = sizeof row / sizeof *row };

bool owners_include(int owners, const char *objective)
{
    for (int i = 0; i < ROWS && owners != OWNERS_all; i++)
        if (row[i].owners == owners && !strcmp(row[i].objective, objective))
            return true;
    return owners == OWNERS_all;
}

const char *owners_text(int owners)
{
    static char text[OWNERS_COUNT][160];
    size_t n = 0;
    for (int i = 0; i < ROWS && owners != OWNERS_all && n < sizeof *text; i++)
        if (row[i].owners == owners)
            n += (size_t)snprintf(text[owners] + n, sizeof *text - n, "%s%s", n ? "|" : "",
                                  row[i].objective);
    return owners == OWNERS_all ? NULL : text[owners];
}

const char *owners_of_left_out(const char *flag)
{
    static const struct { const char *objective, *flags; } list[] = {
#define FLAGS_OF(objective, flags) {#objective, flags},
#include "runtime/objectives/rows.def"
        {NULL, NULL}
    };
    const size_t n = strlen(flag);
    for (int i = 0; list[i].objective; i++)
        for (const char *p = list[i].flags; *p; p += *p == '|') {
            size_t k = 0;
            while (k < n && (p[k] == flag[k] || (p[k] == '_' && flag[k] == '-')))
                k++;
            if (k == n && (!p[k] || p[k] == '|'))
                return list[i].objective;
            p += strcspn(p, "|");
        }
    return NULL;
}
