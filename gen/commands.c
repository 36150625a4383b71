/* commands.c -- the rows of commands.def as tables, and the help pages generated from them.
 *
 * Keeps: parsers look options up with command_option(), so one without a row is refused. */
#include "gen/commands.h"
#include "runtime/pack/pack.h"
#include "runtime/pack/format_steps.h"

#include <string.h>

const CommandRow command_row[] = {
#define COMMAND(word, function, words, takes, about) {word, words, takes, about},
#include "gen/commands.def"
};
const int ncommands = (int)(sizeof command_row / sizeof *command_row);

const OptionRow option_row[] = {
#define OPTION(commands, word, value, takes, about) {commands, word, value, takes, about},
#include "gen/commands.def"
};
const int noptions = (int)(sizeof option_row / sizeof *option_row);

enum { WIDTH = 100, LEFT = 24 };     /* columns of a page, and of its left part */

int command_find(const char *word)
{
    for (int i = 0; i < ncommands; i++)
        if (!strcmp(command_row[i].word, word))
            return i;
    return -1;
}

/* True if command is one of "a||b", where the empty word counts, too. */
static bool listed(const char *commands, const char *command)
{
    size_t n = strlen(command), k;
    for (const char *p = commands;; p += k + 1) {
        k = strcspn(p, "|");
        if (k == n && !strncmp(p, command, n))
            return true;
        if (!p[k])
            return false;
    }
}

const OptionRow *command_option(const char *command, const char *word)
{
    for (int i = 0; i < noptions; i++)
        if (listed(option_row[i].commands, command) && !strcmp(option_row[i].word, word))
            return &option_row[i];
    return NULL;
}

int command_option_words(const char *command, const char **word, int max)
{
    int n = 0;
    for (int i = 0; i < noptions && n < max; i++)
        if (listed(option_row[i].commands, command))
            word[n++] = option_row[i].word;
    return n;
}

void command_unknown_option(const char *command, const char *word)
{
    const char *name[64];
    const char *near = text_nearest(word, name, command_option_words(command, name, 64)),
               *blank = *command ? " " : "";
    if (near && !strcmp(near, "--"))
        near = NULL;
    err((Loc){0}, "%s%sunknown option %s; %s", command, *command ? ": " : "", word,
        near ? text_print("did you mean %s?", near)
             : text_print("gen %s%s--help lists them", command, blank));
}

/* "new, plan"; "" is RECIPE. */
static const char *owners(const OptionRow *o)
{
    Str s = {0};
    for (int i = 0; i < ncommands; i++)
        if (listed(o->commands, command_row[i].word))
            str_print(&s, "%s%s", s.n ? ", " : "",
                      *command_row[i].word ? command_row[i].word : "RECIPE");
    return s.text;
}

/* Bytes of text for one line of `room` columns: up to a newline or the last blank that fits, or all
 * of a longer word. */
static size_t line_of(const char *text, size_t room)
{
    size_t n = strcspn(text, "\n");
    if (n <= room)
        return n;
    for (size_t cut = room; cut; cut--)
        if (text[cut] == ' ')
            return cut;
    return strcspn(text, " \n");
}

char *text_columns(const char *left, const char *text)
{
    Str s = {0};
    int at = *left ? LEFT : 0, column = (int)strlen(left);
    str_print(&s, "%s", left);
    for (bool first = true; *text; first = false) {
        size_t n = line_of(text, (size_t)(WIDTH - at));
        if (first && column + (at ? 2 : 0) <= at)
            str_print(&s, "%*s", at - column, "");
        else
            str_print(&s, "\n%*s", at, "");
        str_print(&s, "%.*s", (int)n, text);
        text += n;
        text += *text == ' ' || *text == '\n';
    }
    str_print(&s, "\n");
    return s.text;
}

static const char *call_of(const CommandRow *c)
{
    return text_print("gen%s%s%s%s", *c->word ? " " : "", c->word, *c->words ? " " : "", c->words);
}

void command_options_print(const char *command, FILE *to)
{
    for (int i = 0; i < noptions; i++) {
        const OptionRow *o = &option_row[i];
        if (command ? listed(o->commands, command) : !listed(o->commands, "pack"))
            fputs(text_columns(text_print("  %s%s%s", o->word, *o->value ? " " : "", o->value),
                               command ? o->about : text_print("%s: %s", owners(o), o->about)), to);
    }
}

void command_help(int command, FILE *to)
{
    const CommandRow *c = &command_row[command];
    const char *any;
    fprintf(to, "usage: %s\n\n%s", call_of(c), text_columns("", c->about));
    if (command_option_words(c->word, &any, 1))
        fprintf(to, "\n");
    command_options_print(c->word, to);
}

void commands_help(FILE *to)
{
    fprintf(to, "gen writes the source of one training program from a recipe.\n\n");
    for (int i = 0; i < ncommands; i++)
        fputs(text_columns(text_print("  %s", call_of(&command_row[i])), command_row[i].about), to);
    fprintf(to, "\noptions (of pack: gen pack --help)\n");
    command_options_print(NULL, to);
    fprintf(to, "\nA recipe is a Lua file that returns a table; see README.md. FIELD=VALUE sets\n"
                "a field of the recipe; FIELD= removes it (or sets an empty text or list).\n");
}
