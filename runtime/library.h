/* library.h -- library versions, at build time and as loaded. */
#ifndef DIECAST_LIBRARY_H
#define DIECAST_LIBRARY_H

#include <stdbool.h>

/* A library with its versions at build time and now; NULL: unknown. */
typedef struct {
    const char *name;
    const char *built, *loaded;  /* loaded is valid until the next call of the same function */
    bool computes;               /* with another version, values may have other last bits */
} LibraryVersion;

enum { LIBRARY_VERSIONS = 16 };

/* Version texts "2.6" and "2.6.3" from macros of numbers. */
#define VERSION_TEXT_(x) #x
#define VERSION_TEXT(x) VERSION_TEXT_(x)
#define VERSION_2(a, b) VERSION_TEXT(a) "." VERSION_TEXT(b)
#define VERSION_3(a, b, c) VERSION_2(a, b) "." VERSION_TEXT(c)

#endif
