/* jinja.h -- the subset of Jinja that chat templates use, as transformers configures it: blocks
 * are trimmed, undefined names print nothing, tojson is json.dumps, {% generation %} is marked.
 *
 * In:    a template, and the values of its variables as JSON.
 * Out:   the rendered text, and the parts of it inside {% generation %}.
 * Keeps: a template is never trusted: its size and depth are bounded, and so are the steps, memory
 *        and text of a rendering. What is not supported is an error with its line and name, never
 *        another text. NULL means success, else a malloc'ed "line L: what". */
#ifndef DIECAST_JINJA_H
#define DIECAST_JINJA_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

/* The date of strftime_now(): fixed, so that the same rows always give the same tokens. Llama 3.1's
 * template has it as its default. */
#define JINJA_DATE "2024-07-26"

enum {
    JINJA_TEXT = 1 << 20,        /* bytes of a template */
    JINJA_NODES = 1 << 17,       /* its expressions and statements */
    JINJA_DEPTH = 200,           /* nesting of its source, of values, and of calls of macros */
    JINJA_NEST = 1000,           /* nesting of all that is being computed */
    JINJA_STEPS = 1 << 26,       /* of a rendering: operations, and 64 bytes of data each */
    JINJA_MEMORY = 256 << 20,    /* bytes of its values */
    JINJA_OUTPUT = 64 << 20,     /* bytes of its text */
    /* Bits of cJSON.type, above those of cJSON and JSON_FLOAT. READ: set when a rendering reads a
     * member of an object. ENCODED: set by the caller for a string that may be JSON itself. */
    JINJA_READ = 1 << 13,
    JINJA_ENCODED = 1 << 14
};

/* A parsed template; used by several threads at once. */
typedef struct JinjaTemplate JinjaTemplate;

/* Parses n bytes of UTF-8. Returns NULL, or a malloc'ed message; free *t with jinja_free(). */
char *jinja_parse(JinjaTemplate **t, const char *text, size_t n);
void jinja_free(JinjaTemplate *t);
/* True if a name is in the template: a variable, an attribute, or a string. */
bool jinja_mentions(const JinjaTemplate *t, const char *name);
bool jinja_generates(const JinjaTemplate *t);   /* it has {% generation %} */

typedef struct {
    const char *name;
    cJSON *json;                 /* borrowed; NULL: none */
} JinjaVariable;

/* A part of the text inside {% generation %}, in bytes; item: the innermost value of a loop around
 * it that is an item of the list JinjaInput.items, -1: none. */
typedef struct {
    size_t begin, end;
    int item;
} JinjaSpan;

typedef struct {
    const JinjaVariable *variable;   /* (n) */
    int n;
    const char *items;           /* name of the variable whose items spans name; NULL: none */
    size_t steps;                /* at most; 0: JINJA_STEPS */
} JinjaInput;

typedef struct {
    char *text;                  /* (n) malloc'ed, NUL-terminated */
    size_t n;
    JinjaSpan *span;             /* (nspans) malloc'ed, in order */
    int nspans;
    bool decodes;                /* a string with JINJA_ENCODED was used as if it were decoded */
} JinjaText;

/* Renders the template; fails also where it calls raise_exception(). `decodes` is also set on
 * failure; the rest of *to is then empty. */
char *jinja_render(const JinjaTemplate *t, const JinjaInput *in, JinjaText *to);
void jinja_text_free(JinjaText *text);

#endif
