/* target.c -- the rows of targets.def as a table. */
#include "gen/gen.h"

#include <string.h>

#define GIB(x) ((int64_t)((x) * 1073741824.0))
#define TARGET(name, backend, about, memory, reserve, align, fp32, bf16, cflags, ...) \
    {#name, backend, about, GIB(memory), GIB(reserve), align, fp32, bf16, cflags, __VA_ARGS__},
static const Target row[] = {
#include "gen/config/targets.def"
};
#undef TARGET

int target_count(void)
{
    return (int)(sizeof row / sizeof *row);
}

const Target *target_row(int i)
{
    return &row[i];
}

const Target *target_find(const char *name)
{
    for (int i = 0; i < target_count(); i++)
        if (!strcmp(row[i].name, name))
            return &row[i];
    return NULL;
}
