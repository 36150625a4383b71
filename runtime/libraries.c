/* libraries.c -- versions of the libraries of programs with a model; see libraries.h. */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "runtime/libraries.h"

#include <pcre2.h>
#include <string.h>
#include <utf8proc.h>

int libraries_of_model(LibraryVersion *list)
{
    static char pcre2[64];
    int n = 0;
    pcre2_config(PCRE2_CONFIG_VERSION, pcre2);
    pcre2[strcspn(pcre2, " ")] = 0;              /* "10.42 2022-12-11" */
    list[n++] = (LibraryVersion){"PCRE2", VERSION_2(PCRE2_MAJOR, PCRE2_MINOR), pcre2};
    list[n++] = (LibraryVersion){
        "utf8proc",
        VERSION_3(UTF8PROC_VERSION_MAJOR, UTF8PROC_VERSION_MINOR, UTF8PROC_VERSION_PATCH),
        utf8proc_version()};
    return n + libraries_of_target(list + n);
}
