/* library.h -- a library and its versions. */
#ifndef DIECAST_LIBRARY_H
#define DIECAST_LIBRARY_H

/* A library: its version when the program was built and now; NULL: it does not say. */
typedef struct {
    const char *name;
    const char *built, *loaded;  /* loaded lasts until the next call of the same function */
} LibraryVersion;

enum { LIBRARY_VERSIONS = 16 };

/* Macros of numbers as a text, "2.6" and "2.6.3". */
#define VERSION_TEXT_(x) #x
#define VERSION_TEXT(x) VERSION_TEXT_(x)
#define VERSION_2(a, b) VERSION_TEXT(a) "." VERSION_TEXT(b)
#define VERSION_3(a, b, c) VERSION_2(a, b) "." VERSION_TEXT(c)

#endif
