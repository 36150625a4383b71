/* config.h -- the config room: recipe fields, run-time flags, and a recipe as typed values. */
#ifndef CONFIG_H
#define CONFIG_H

#include "gen/config/target.h"
#include "gen/recipe/recipe.h"
#include "runtime/files/names.h"

enum {
#define FIELD(id, path, type, def, lo, hi, choices, unit, bits, doc) F_##id,
#include "gen/config/fields.def"
    NFIELDS
};

typedef enum { FT_INT, FT_FLOAT, FT_BOOL, FT_STRING, FT_CHOICE, FT_LIST, FT_EVERY } FieldType;

typedef struct {
    bool set;                /* by the recipe or the command line, not by the default */
    int64_t i;               /* FT_INT, FT_BOOL, index of FT_CHOICE; FT_EVERY without s */
    double f;
    const char *s;           /* FT_STRING, the word of FT_CHOICE */
    int n;                   /* FT_LIST of strings */
    const char **list;
    Loc loc;
} FieldValue;

typedef struct {
    FieldValue v[NFIELDS];
    /* run = {...}: defaults of run-time flags, checked against runtime/run/flags.def */
    int nrun;
    const char **run_name, **run_value;
    Loc *run_loc;
    const char *recipe;      /* path as typed */
    const char *name;        /* of out/NAME */
    const char *hash;        /* sha256 of the canonical text of all fields: the recipe's identity */
    bool cluster;            /* the recipe has a cluster */
    const char *kept;        /* gen's choice for memory.recompute = "auto"; NULL: it did not */
    /* NAME of cluster=NAME on the command line, "" of cluster=; NULL: not given */
    const char *chosen;
} Config;

/* Bits of a run with another value of a field: column of fields.def. */
typedef enum { BITS_same, BITS_rounding, BITS_method } Bits;
extern const char *const bits_name[];    /* the words of that column */

/* A row of fields.def. */
typedef struct {
    const char *path;
    FieldType type;
    const char *def;         /* as in the row; "": required, "?": set by config_derive() */
    double lo, hi;
    const char *choices;     /* "a|b|c"; of target: the names of targets.def */
    const char *unit;
    Bits bits;
    const char *doc;
} FieldRow;
extern const FieldRow field_row[NFIELDS];
int field_find(const char *path);                           /* by path, in any spelling; -1: none */
const char *field_choices(int field);
/* The column bits, given the other fields: with comm.order = "canonical" ranks and what they divide
 * change no bits. */
Bits field_bits(const Config *c, int field);
const char *field_default_word(int field);  /* of a CHOICE or STRING field, without quotes */

/* A row of runtime/run/flags.def. */
typedef struct {
    const char *name;
    FieldType type;          /* FT_BOOL, FT_INT, FT_FLOAT, FT_STRING, FT_EVERY */
    double lo, hi;
    const char *value;       /* placeholder in the help, or choices between bars */
    int recipe;              /* 0: a recipe cannot set it */
    const char *readers;     /* commands that read it, between bars */
    const char *doc;
} RunFlag;
extern const RunFlag run_flag[];
extern const int nrun_flags;
/* Objectives whose recipes have the field, or whose programs have the flag, between bars; NULL:
 * all. */
const char *field_objectives(int field);
const char *run_flag_objectives(int flag);
/* Description of a flag, followed by those that objectives give it. */
const char *run_flag_doc(int flag);
/* True if programs of the objective have the flag. */
bool run_flag_applies(int flag, const char *objective);
bool field_applies(const Config *c, int field);
/* True if only some model families have the field. */
bool field_of_families(int field);
bool field_of_cluster(int field);
/* Why recipes of this objective cannot set the field; NULL: they can. */
const char *field_fixed(const Config *c, int field);
int run_flag_find(const char *name);                        /* -1: none */
/* The flag of a program's argument, "--NAME" or "--NAME=VALUE", by any of its names; -1: none. */
int run_flag_typed(const char *argument);
/* True if the program does what the flag says and exits, instead of training. */
bool run_flag_command(int flag);
bool run_flag_words(int flag);  /* its value is one of a list of words */
/* True if word is one of choices, "a|b|c"; stores its index in *at. */
bool choice_find(const char *choices, const char *word, int64_t *at);
char *value_print(FieldType type, const FieldValue *v);     /* in Lua's spelling */
/* Parses one value in Lua's spelling and moves *text past it. Returns NULL, or what was
 * expected. */
const char *value_parse(FieldType type, const char **text, FieldValue *v);
/* Allowed values in words, "an integer from 1 to 8"; choices: for FT_CHOICE. */
char *range_print(FieldType type, double lo, double hi, const char *choices);

/* Types and checks all fields, then calls config_derive(). */
Config *config_fill(Rval *recipe, const char *path);
/* Sets defaults that depend on other fields. */
void config_derive(Config *c);
/* Value of optim.master where the recipe leaves it open. */
const char *config_default_master(const Config *c);
const char *config_name(const Config *c);                   /* field name, else the file name */
void check_config(Config *c);                               /* rules between fields */
/* Rooms read fields only through these, so that config_all_read() finds fields without a reader. */
int64_t config_int(Config *c, int field);
double config_float(Config *c, int field);
bool config_bool(Config *c, int field);
const char *config_text(Config *c, int field);
bool config_is(Config *c, int field, const char *word);      /* true if its text is word */
bool config_listed(Config *c, int field, const char *word);  /* true if a list holds word */
Loc config_loc(Config *c, int field);
const char *config_hash(const Config *c);                   /* of the canonical text */
/* The same without the number of ranks and what follows from it, on which the bits of a run in
 * canonical order do not depend. */
const char *config_order_hash(const Config *c);
/* Stores the fields and flags set on the command line as words field=value; returns their
 * number. */
int config_overrides(const Config *c, char ***words);
/* Text with one line `field = value   # file:line` per field. */
const char *config_print(Config *c);
Config *config_parse(const char *text, const char *file);   /* print(parse(x)) == x */
void config_fields(FILE *to);                               /* gen fields */
/* gen explain FIELD; ends the program with the nearest name if there is none. */
void config_explain(FILE *to, const char *field);
/* Looks up a word: the name of a field, of a run-time flag or of a group of fields, or another
 * trainer's name for one, whose row is then stored in *row. Stores the matches in `at`, which must
 * have room for NFIELDS + nrun_flags entries: values below NFIELDS are fields, NFIELDS + i is flag
 * i. Returns the number of matches; exits with 1 if there are none. */
int config_find(const char *word, int *at, const Alias **row);
/* Ends gen if a set field was not read: after the graph is built, or the fields of a standalone
 * program are read. */
void config_all_read(const Config *c);

/* cards.c: sets target and memory.limit_gib from the field card, before defaults. */
void card_fill(Config *c);
const Card *config_card(const Config *c);                   /* NULL: none named */
/* Sets v to the card of that name, or none. Returns NULL or what is wrong. */
const char *card_take(const char *name, FieldValue *v);
char *card_fault(const char *name);        /* why it is not a card; NULL: it is */

/* cluster.c: sets the target from the cluster's card, and ranks, memory and run folder, before
 * defaults. Contradictions are errors. */
void cluster_target(Config *c);
void cluster_fill(Config *c, const char *name);
void check_cluster(const Config *c);
Config *config_of_cluster(const char *path);  /* configure.c: the fields of such a file, checked */
/* Cluster values for later rooms: lines NAME=VALUE, for lists one per word; NULL: no cluster. */
char *cluster_lines(Config *c);
/* Returns the error in such lines; NULL: they are valid. */
char *cluster_fault(const char *lines);
/* The k-th value of a name; NULL: no more. */
char *cluster_value(const char *lines, const char *name, int k);

#endif
