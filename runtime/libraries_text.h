/* libraries_text.h -- versions of the libraries that read texts, PCRE2 and utf8proc, in every
 * program with a model; included by libraries_cpu.c and libraries_cuda.c. */
#ifndef DIECAST_LIBRARIES_TEXT_H
#define DIECAST_LIBRARIES_TEXT_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>
#include <utf8proc.h>

#include "runtime/library.h"

/* Adds them; returns their number. */
static int libraries_of_text(LibraryVersion *list)
{
    static char pcre2[64];
    pcre2_config(PCRE2_CONFIG_VERSION, pcre2);
    pcre2[strcspn(pcre2, " ")] = 0;              /* "10.42 2022-12-11" */
    list[0] = (LibraryVersion){"PCRE2", VERSION_2(PCRE2_MAJOR, PCRE2_MINOR), pcre2, false};
    list[1] = (LibraryVersion){
        "utf8proc",
        VERSION_3(UTF8PROC_VERSION_MAJOR, UTF8PROC_VERSION_MINOR, UTF8PROC_VERSION_PATCH),
        utf8proc_version(), false};
    return 2;
}

#endif
