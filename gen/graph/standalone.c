/* standalone.c -- figures of a standalone program, in the order of the report. */
#include "gen/graph/standalone.h"

static Figure *add(Figures *f)
{
    if (f->n == (int)(sizeof f->figure / sizeof *f->figure))
        bug("more than %d figures", f->n);
    return &f->figure[f->n++];
}

void figure_line(Figures *f, const char *label, const char *line)
{
    *add(f) = (Figure){.label = label, .line = line};
}

void figure_int(Figures *f, const char *key, int64_t i)
{
    *add(f) = (Figure){.key = key, .kind = FIGURE_INT, .i = i};
}

void figure_float(Figures *f, const char *key, double value)
{
    *add(f) = (Figure){.key = key, .kind = FIGURE_FLOAT, .f = value};
}

void figure_text(Figures *f, const char *key, const char *text)
{
    *add(f) = (Figure){.key = key, .kind = FIGURE_TEXT, .text = text};
}
