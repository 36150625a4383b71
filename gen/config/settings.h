/* settings.h -- settings files of other trainers, in YAML, JSON, TOML or Python. */
#ifndef SETTINGS_H
#define SETTINGS_H

#include "gen/util.h"

/* ---- settings.c: a settings file as a table ------------------------------------------------ */

typedef enum {
    SETTING_NULL,            /* no value */
    SETTING_BOOL,            /* "true" or "false" */
    SETTING_NUMBER,          /* in decimal digits, without underscores */
    SETTING_TEXT,
    SETTING_LIST,
    SETTING_TABLE,
    SETTING_OTHER            /* an expression, or a line that is no assignment; of Python */
} SettingKind;

typedef struct Setting {
    const char *key;         /* "" of an item of a list */
    SettingKind kind;
    const char *text;        /* "" of NULL, LIST and TABLE */
    const char *typed;       /* of YAML the characters of the file; else NULL */
    int line;                /* of the key */
    struct Setting *first, *last, *next;     /* of LIST and TABLE: in the order of the file */
} Setting;

/* The table of a file in YAML, JSON, TOML or Python. A file that cannot be read ends the program
 * with its line. */
Setting *settings_read(const char *path, const char *language, const char *text, size_t n);

const char *setting_shown(const Setting *s);  /* the value in one line, for messages */

/* ---- settings_file.c: such a file as a recipe ----------------------------------------------- */

/* Refuses a settings file with what it would be as a recipe. */
void settings_file(const char *path, const char *language, const char *text, size_t n)
    __attribute__((noreturn));

#endif
