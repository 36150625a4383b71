/* formats.h -- helpers and parts of the tests of file formats. */
#ifndef DIECAST_TESTS_FORMATS_H
#define DIECAST_TESTS_FORMATS_H

#include <stddef.h>

extern const char *scratch;      /* a folder */
/* Prints `ok NAME`, or `not ok NAME: WHY` if why is not NULL. */
void verdict(const char *name, const char *why);
char *place(const char *name);   /* path of a file in scratch; the caller frees it */
void spit(const char *path, const void *data, size_t n);

/* safetensors.c, with the files of tests/formats in the folder */
void check_safetensors(const char *folder);
/* tokenfile.c */
void check_tokenfiles(void);
/* Prints a token file, a document a line, * = target. Returns the exit code. */
int dump(const char *path);

#endif
