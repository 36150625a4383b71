/* flags_help.c -- --help: flags by section, with defaults and names of other trainers. */
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/files/names.h"
#include "runtime/run/flags_rows.h"

enum { HELP_ALIASES = 2, HELP_COLUMNS = 100 };     /* HELP_ALIASES: shown per flag, at most */

/* Prints text from column `indent` on, further lines from column 6; breaks at blanks and after
 * bars. */
static void wrapped(FILE *to, int indent, const char *text)
{
    int column = fprintf(to, "%*s", indent, "");
    for (const char *blank = ""; *text; text += strspn(text, " ")) {
        int n = (int)strcspn(text, " |");
        n += text[n] == '|';
        if (column > 6 && column + n >= HELP_COLUMNS) {
            column = fprintf(to, "\n%*s", 6, "") - 1;
            blank = "";
        }
        column += fprintf(to, "%s%.*s", blank, n, text);
        text += n;
        blank = *text == ' ' ? " " : "";
    }
    fputc('\n', to);
}

/* Returns the names of other trainers for flag i, "; also --a, --b" or ""; malloc'ed. */
static char *aliases(int i)
{
    char *text = format("%s", "");
    for (int k = 0, shown = 0; k < alias_rows && shown < HELP_ALIASES; k++) {
        const Alias *row = &alias_row[k];
        if (row->kind != ALIAS_FLAG || strcmp(row->ours, flags_row[i].name))
            continue;
        char *longer = format("%s%s--%s", text, shown++ ? ", " : "; also ", row->name);
        free(text);
        text = longer;
    }
    return text;
}

static void help_flag(FILE *to, const Flags *f, int i)
{
    const FlagRow *r = &flags_row[i];
    const char *metavar = r->metavar + (*r->metavar == '|'), *doc = flags_doc(i);
    const int64_t count = r->type == TYPE_INT ? *(const int64_t *)((const char *)f + r->offset) : 0;
    const bool unset = r->type == TYPE_INT && count < r->ilo;
    char name[64], *value = flags_text(f, i), *also = aliases(i);
    const bool shown = r->type != TYPE_BOOL && *value && !unset;
    flags_spell(name, r->name);
    char *head = format("--%s%s%s", name, *metavar ? " " : "", metavar);
    char *text = format("%.*s%s%s%s%s", f->verbose ? (int)strlen(doc) : flags_summary(i), doc,
                        shown ? " [" : "", shown ? value : "", shown ? "]" : "", also);
    wrapped(to, 2, head);
    wrapped(to, 6, text);
    free(value), free(also), free(head), free(text);
}

/* Prints the title of a section before its first flag, then the flag; skips flags of other
 * programs. */
static void help_line(FILE *to, const Flags *f, const char **title, int i)
{
    if (!flags_has(i))
        return;
    if (*title)
        fprintf(to, "\n%s\n", *title);
    *title = NULL;
    help_flag(to, f, i);
}

void flags_help(FILE *to, const char *program, const Flags *f)
{
    fprintf(to, "usage: %s [--flag value]...    [...]: this program's default%s\n", program,
            f->verbose ? "" : "; --help --verbose: details");
    const char *title = NULL;    /* not yet printed */
#define SECTION(text) title = text;
#define FLAG(name, ...) help_line(to, f, &title, FLAG_##name);
#include "runtime/run/flags.def"
}
