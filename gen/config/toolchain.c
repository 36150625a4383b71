/* toolchain.c -- build and run-time dependencies from runtime/toolchain.def; see toolchain.h. */
#include "gen/config/toolchain.h"

#include <string.h>

static const struct { unsigned needs; const char *package; } row[] = {
#define TOOL(name, variable, commands, version, least, blocks, package, why) {blocks, package},
#define LIBRARY(name, header, version, link, loads, major, cuda, builds, runs, package, why) \
    {(builds) | (runs), package},
#define LOADED(name, loads, cuda, runs, package, why) {runs, package},
#include "runtime/toolchain.def"
};

unsigned toolchain_needs(const Target *t, int64_t ranks, bool standalone)
{
    const bool many = ranks > 1;
    return standalone                   ? NEED_STANDALONE_ONE
           : !strcmp(t->backend, "cpu") ? (many ? NEED_CPU_MANY : NEED_CPU_ONE)
                                        : (many ? NEED_CUDA_MANY : NEED_CUDA_ONE);
}

int toolchain_packages(unsigned needs, bool nvidia, const char *name[TOOLCHAIN_PACKAGES])
{
    int n = 0;
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const bool theirs =
            !strncmp(row[i].package, "cuda-", 5) || !strncmp(row[i].package, "libnccl", 7) ||
            !strncmp(row[i].package, "libcudnn", 8);
        bool wanted = (row[i].needs & needs) && theirs == nvidia;
        for (int k = 0; k < n; k++)
            wanted = wanted && strcmp(name[k], row[i].package);
        if (wanted && n < TOOLCHAIN_PACKAGES)
            name[n++] = row[i].package;
    }
    return n;
}

char *toolchain_package_words(unsigned needs, bool nvidia)
{
    const char *name[TOOLCHAIN_PACKAGES];
    const int n = toolchain_packages(needs, nvidia, name);
    Str s = {0};
    str_print(&s, "%s", "");
    for (int i = 0; i < n; i++)
        str_print(&s, "%s%s", i ? " " : "", name[i]);
    return s.text;
}

cJSON *toolchain_package_list(unsigned needs)
{
    const char *name[TOOLCHAIN_PACKAGES];
    cJSON *list = cJSON_CreateArray();
    for (int nvidia = 0; nvidia < 2; nvidia++)
        for (int i = 0, n = toolchain_packages(needs, nvidia, name); i < n; i++)
            cJSON_AddItemToArray(list, cJSON_CreateString(name[i]));
    return list;
}
