/* json.h -- strict JSON in (RFC 8259 and a little more), Python's JSON out.
 *
 * In:    bytes of a file that may be hostile.
 * Out:   a cJSON tree, or a malloc'ed message; nothing here ends the program.
 * Keeps: numbers written as floats stay floats, integers beyond 2^53 keep their digits. */
#ifndef DIECAST_JSON_H
#define DIECAST_JSON_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { JSON_DEPTH = 64 };       /* deepest nesting of arrays and objects */
/* Set in cJSON.type of a number that the text wrote as a float; cJSON itself uses the bits
 * below. */
enum { JSON_FLOAT = 1 << 12 };

/* NULL when text is one JSON value in UTF-8 without byte order mark, at most JSON_DEPTH deep,
 * without duplicate keys, lone surrogates, \u0000, numbers that overflow a double or exceed 63
 * characters, or anything after it. Else a malloc'ed "line L, byte N: what". */
char *json_check(const char *text, size_t n);
/* json_check, then the tree, of a text that may begin with a byte order mark; NULL and a malloc'ed
 * *error when the text is refused. cJSON_Delete frees. */
cJSON *json_parse(const char *text, size_t n, char **error);
/* The member of an object with exactly this key, or NULL (also when obj is no object or NULL). */
cJSON *json_get(const cJSON *obj, const char *key);
/* Adds a number that is printed as Python prints a float (1.0, 1e-05). */
cJSON *json_add_float(cJSON *obj, const char *key, double value);
/* The text meant by the n bytes between the quotes of a string that json_check accepted; out has
 * room for n. */
size_t json_unescape(const char *raw, size_t n, char *out);
/* As Python's json.dumps(value, indent=2, sort_keys=True) and a newline; a number that is not
 * finite becomes null. false: the stream failed or the tree is deeper than JSON_DEPTH. */
bool json_write_hf(FILE *to, const cJSON *value);
/* As Python's json.dumps(value, indent=2) and a newline; an object whose members are no lists and no
 * objects, in their order. */
bool json_write_object(FILE *to, const cJSON *value);
/* One line on standard output, and frees the value; EXIT_INTERNAL without memory. */
void json_say(cJSON *value);
/* Python's repr of a finite double in at most 60 characters: the shortest text that reads back
 * equal. */
void json_float_text(double value, char text[64]);

/* The whole of a regular file of at most max bytes with a NUL behind it; else NULL and a
 * malloc'ed *error that begins with the path. *n excludes the NUL. */
char *file_read(const char *path, size_t max, size_t *n, char **error);
/* The same for a file of ours: see file_open() of base.h. */
char *file_read_own(const char *path, size_t max, size_t *n, char **error);

#endif
