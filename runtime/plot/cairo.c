/* cairo.c -- loads libcairo. */
#define _GNU_SOURCE
#include "runtime/plot/cairo.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <string.h>

#include "runtime/base.h"

const Cairo *cairo_open(char **error)
{
    static Cairo cairo;
    static bool opened;
    if (opened)
        return &cairo;
    void *library = dlopen("libcairo.so.2", RTLD_NOW | RTLD_LOCAL);
    const char *lacks = library ? NULL : "libcairo.so.2";
    void *found;
#define CAIRO_FUNCTION(name, returns, takes)                     \
    found = library ? dlsym(library, "cairo_" #name) : NULL;     \
    lacks = !lacks && !found ? "a newer libcairo.so.2" : lacks;  \
    memcpy(&cairo.name, &found, sizeof found);
    CAIRO_FUNCTIONS(CAIRO_FUNCTION)
#undef CAIRO_FUNCTION
    opened = !lacks;
    if (opened)
        return &cairo;
    if (library)
        dlclose(library);
    *error = format("%s is missing: install libcairo2 (apt-get install libcairo2)", lacks);
    return NULL;
}
