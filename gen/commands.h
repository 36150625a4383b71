/* commands.h -- the command line: commands and options, and their help, from commands.def. */
#ifndef GEN_COMMANDS_H
#define GEN_COMMANDS_H

#include "gen/util.h"

typedef struct {
    const char *word, *words, *takes, *about;        /* as the row has them */
} CommandRow;
extern const CommandRow command_row[];
extern const int ncommands;
int command_find(const char *word);                          /* -1: none */

typedef struct {
    const char *commands, *word, *value, *takes, *about;
} OptionRow;
extern const OptionRow option_row[];
extern const int noptions;
/* Of the command of that word; NULL: it has no such option. */
const OptionRow *command_option(const char *command, const char *word);
/* The words of a command's options; how many. */
int command_option_words(const char *command, const char **word, int max);
/* Lines of its options; command NULL: of all commands but pack, with the commands. */
void command_options_print(const char *command, FILE *to);
void command_help(int command, FILE *to);                    /* gen COMMAND --help */
void commands_help(FILE *to);                                /* gen --help */
/* "left    text", the text wrapped in a column of its own; left empty: it has all of the line. */
char *text_columns(const char *left, const char *text);

/* gen new: the target of models with as many million parameters and more, below it is cpu; the rank of adapters. */
#define NEW_MILLIONS 100
#define NEW_TARGET "sm_80"
#define NEW_RANK 16

#endif
