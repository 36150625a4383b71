/* emit_toolchain.c -- toolchain files of an emitted folder: the script that compares a machine with
 * a lock, its rows, and the lock of the cluster that the folder is for. */
#include "gen/config/toolchain.h"
#include "gen/emit/emit.h"

#include <unistd.h>

static const char lock_name[] = "toolchain.lock.json";

void emit_toolchain(const char *cluster)
{
    static const char *const file[] = {"runtime/toolchain.def", "runtime/toolchain.sh"};
    for (int i = 0; i < 2; i++)
        if (!folder_has(file[i]))
            folder_put(file[i], template_source(file[i]), i == 1);
    const char *lock = cluster ? text_print("recipes/clusters/%s.lock.json", cluster) : NULL;
    if (lock && !access(text_print("%s/%s", gen_root(), lock), F_OK))
        folder_put(lock_name, template_source(lock), false);
}

void emit_toolchain_manifest(cJSON *manifest, const char *cluster, unsigned needs)
{
    if (cluster)
        cJSON_AddStringToObject(manifest, "cluster", cluster);
    cJSON_AddBoolToObject(manifest, "toolchain_locked", folder_has(lock_name));
    cJSON_AddItemToObject(manifest, "packages", toolchain_package_list(needs));
}
