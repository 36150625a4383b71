/* commands.h -- commands and options of gen, and their help: the rows of commands.def. */
#ifndef GEN_COMMANDS_H
#define GEN_COMMANDS_H

#include "gen/util.h"

typedef struct {
    const char *word, *words, *takes, *about;        /* columns of the row */
} CommandRow;
extern const CommandRow command_row[];
extern const int ncommands;
int command_find(const char *word);                          /* -1: none */

typedef struct {
    const char *commands, *word, *value, *takes, *about;
} OptionRow;
extern const OptionRow option_row[];
extern const int noptions;
/* The option of a command ("": none was typed); NULL: it has no such option. */
const OptionRow *command_option(const char *command, const char *word);
/* Stores the words of a command's options; returns their number. */
int command_option_words(const char *command, const char **word, int max);
/* Ends the program, with the nearest option of the command. */
void command_unknown_option(const char *command, const char *word);
/* Prints a command's options; NULL: those of all commands except pack, with the commands. */
void command_options_print(const char *command, FILE *to);
void command_help(int command, FILE *to);                    /* gen COMMAND --help */
void commands_help(FILE *to);                                /* gen --help */
/* "left    text", with text wrapped in its own column; left "": in the whole line. */
char *text_columns(const char *left, const char *text);

/* gen new: models with at least this many million parameters get this target, smaller ones cpu;
 * default rank of adapters. */
#define NEW_MILLIONS 100
#define NEW_TARGET "sm_80"
#define NEW_RANK 16

#endif
