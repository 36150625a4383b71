/* json.h -- strict JSON parser (RFC 8259 and a few more checks), and a writer with Python's
 * formatting.
 *
 * In:    bytes of an untrusted file.
 * Out:   a cJSON tree, or a malloc'ed message; only json_say() ends the program.
 * Keeps: numbers written as floats stay floats, integers beyond 2^53 keep their digits. */
#ifndef DIECAST_JSON_H
#define DIECAST_JSON_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { JSON_DEPTH = 64 };       /* maximum nesting depth of arrays and objects */
/* Set in cJSON.type of a number written as a float; cJSON itself uses the lower bits. */
enum { JSON_FLOAT = 1 << 12 };

/* Returns NULL if text is one JSON value in UTF-8 without byte order mark, at most JSON_DEPTH deep,
 * without duplicate keys, lone surrogates, \u0000, numbers that overflow a double or exceed 63
 * characters, or trailing data. Else a malloc'ed "line L, byte N: what". */
char *json_check(const char *text, size_t n);
/* Checks and parses a text that may begin with a byte order mark; NULL and a malloc'ed *error if it
 * is refused. Free with cJSON_Delete. */
cJSON *json_parse(const char *text, size_t n, char **error);
/* Returns the member with exactly this key, or NULL (also if obj is NULL or not an object). */
cJSON *json_get(const cJSON *obj, const char *key);
/* Adds a number that is printed like a Python float (1.0, 1e-05). */
cJSON *json_add_float(cJSON *obj, const char *key, double value);
/* Decodes the n bytes between the quotes of a string accepted by json_check() into out, which has
 * room for n bytes; returns the decoded length. */
size_t json_unescape(const char *raw, size_t n, char *out);
/* Writes like Python's json.dumps(value, indent=2, sort_keys=True) plus a newline; a non-finite
 * number becomes null. Returns false if the stream failed or the tree is deeper than JSON_DEPTH. */
bool json_write_hf(FILE *to, const cJSON *value);
/* Writes like Python's json.dumps(value, indent=2) plus a newline: an object without nested arrays
 * or objects, members in their order. */
bool json_write_object(FILE *to, const cJSON *value);
/* Returns text as a JSON string, which Python reads, too; malloc'ed. */
char *json_quoted(const char *text);
/* Prints one line on standard output and deletes the value; EXIT_INTERNAL if out of memory. */
void json_say(cJSON *value);
/* Formats like Python's repr() of a finite double, in at most 60 characters: the shortest text that
 * reads back equal. */
void json_float_text(double value, char text[64]);

/* Reads a regular file of at most max bytes and appends a NUL; else returns NULL and a malloc'ed
 * *error that begins with the path. *n excludes the NUL. */
char *file_read(const char *path, size_t max, size_t *n, char **error);
/* The same for our own files: see file_open() in base.h. */
char *file_read_nofollow(const char *path, size_t max, size_t *n, char **error);

#endif
