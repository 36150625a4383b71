/* standalone.h -- the plan of a standalone program: lines for people, keys for JSON. */
#ifndef STANDALONE_H
#define STANDALONE_H

#include "gen/util.h"

/* A figure of a standalone program: a line of `gen plan`, a key of `gen plan --json`, or both. */
typedef struct {
    const char *label, *line;    /* NULL: only in JSON */
    const char *key;             /* NULL: only for people */
    enum { FIGURE_INT, FIGURE_FLOAT, FIGURE_TEXT } kind;
    int64_t i;
    double f;
    const char *text;            /* NULL: null in JSON */
} Figure;

typedef struct {
    int n;
    Figure figure[32];
} Figures;

/* Append a figure: a line of `gen plan`, or a member of its JSON. The texts are not copied. */
void figure_line(Figures *f, const char *label, const char *line);
void figure_int(Figures *f, const char *key, int64_t i);
void figure_float(Figures *f, const char *key, double value);
void figure_text(Figures *f, const char *key, const char *text);

#endif
