/* emit_toolchain.c -- what an emitted folder is built with: the script that compares a machine with a lock, and its
 * rows. */
#include "gen/emit/emit.h"

void emit_toolchain(void)
{
    static const char *const file[] = {"runtime/toolchain.def", "runtime/toolchain.sh"};
    for (int i = 0; i < 2; i++)
        if (!folder_has(file[i]))
            folder_put(file[i], template_source(file[i]), i == 1);
}
