/* help_lines.c -- order of flags in --help: that of flags.def, with each HELP_AFTER block moved to after its flag. */
#include "runtime/objectives/help_lines.h"

#include <stddef.h>

/* Numbers as those of flags.h. */
enum {
#define FLAG(name, ...) FLAG_##name,
#include "runtime/run/flags.def"
};

static const struct {
    HelpLine line;
    enum { LINE, AFTER, BACK } kind;
    int after;                   /* AFTER: the flag that the lines up to BACK follow */
} row[] = {
#define SECTION(title) {{title, -1}, LINE, -1},
#define FLAG(name, ...) {{NULL, FLAG_##name}, LINE, -1},
#define HELP_AFTER(flag) {{NULL, -1}, AFTER, FLAG_##flag},
#define HELP_BACK() {{NULL, -1}, BACK, -1},
#include "runtime/run/flags.def"
};
enum { ROWS = sizeof row / sizeof *row };

/* Number of lines in the block that begins at row i. */
static int lines_of(int i)
{
    int n = 0;
    while (row[i + 1 + n].kind == LINE)
        n++;
    return n;
}

/* Adds row i, then the blocks that follow its flag. */
static void add(HelpLine *lines, int *n, int i)
{
    const int flag = row[i].line.flag;
    lines[(*n)++] = row[i].line;
    for (int k = 0; k < ROWS; k++)
        for (int at = 1; row[k].kind == AFTER && row[k].after == flag && at <= lines_of(k); at++)
            add(lines, n, k + at);
}

const HelpLine *help_lines(int *n)
{
    static HelpLine lines[ROWS];
    *n = 0;
    for (int i = 0; i < ROWS; i++) {
        if (row[i].kind == LINE)
            add(lines, n, i);
        if (row[i].kind == AFTER)
            i += lines_of(i) + 1;
    }
    return lines;
}
