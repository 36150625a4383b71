/* help_lines.h -- sections and flags in the order of --help. */
#ifndef DIECAST_HELP_LINES_H
#define DIECAST_HELP_LINES_H

typedef struct {
    const char *title;           /* a section begins; NULL: a flag */
    int flag;                    /* its number, in the order of flags.def */
} HelpLine;

/* All of them, *n lines; the array stays. */
const HelpLine *help_lines(int *n);

#endif
