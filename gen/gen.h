/* gen.h -- the one header of gen: types, then the prototypes of each room in the order of the data.
 *
 * recipe.c -> config.c -> graph.c -> fuse.c -> part.c -> plan.c -> emit.c, as main.c calls them.
 * Memory: everything is allocated from one arena and never freed; gen is short-lived. */
#ifndef GEN_H
#define GEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "runtime/files/names.h"

#define GEN_VERSION "diecast 0.1"     /* in manifests, checkpoints and --version */

/* ---- util.c: memory, text, errors ------------------------------------------------------------ */

typedef struct {
    const char *file;    /* as typed by the user; NULL: the command line or a default */
    int line;            /* 1-based; 0: no line */
} Loc;

/* A text that grows; text is always NUL-terminated after the first print. */
typedef struct {
    char *text;
    size_t n, cap;
} Str;

void *arena_new(size_t bytes);                        /* zeroed; lives until exit */
/* copy of old in a larger zeroed block */
void *arena_grow(void *old, size_t old_bytes, size_t new_bytes);
char *text_copy(const char *s);
char *text_print(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void str_print(Str *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int text_order(const void *a, const void *b);         /* for qsort over const char * */
char *text_bytes(int64_t bytes);                      /* "151.2 MiB" */
char *text_seconds(double s);                         /* "3.4 ms", "12 h", "5 days" */
char *text_grouped(int64_t n);                         /* "1,000,000", n >= 0 */
#define TEXT_OF_NUMBER(n) #n
#define TEXT_OF(number) TEXT_OF_NUMBER(number)         /* of a macro */
/* by names_distance(), or NULL: none is near */
const char *text_nearest(const char *name, const char *const *names, int n);
/* true: written */
bool file_write_if_changed(const char *path, const char *text, size_t n, bool executable);
char *file_text(const char *path, size_t max, size_t *n);  /* NULL and errno on failure */
/* folder that holds templates/, kernels/ ...; from /proc/self/exe */
const char *gen_root(void);
char *sha256_hex(const void *data, size_t n);

/* The user's mistakes. err() collects nothing: it prints `file:line: message` and exits 1.
 * err_add() prints one of several and err_flush() exits 1 if any was added, so that a recipe's
 * mistakes are shown together (at most 20). */
void err(Loc loc, const char *fmt, ...) __attribute__((format(printf, 2, 3), noreturn));
void err_add(Loc loc, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void err_flush(void);
/* Is told the mistakes that end the program, before it ends with the status. */
void err_tell(void (*tell)(int n, const Loc *loc, const char *const *text, int status));
/* text of a file, so that errors show the line */
void err_source(const char *file, const char *text);
/* Our mistakes: names the place in gen and the last good dump, then aborts. */
void bug_at(const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4), noreturn));
#define bug(...) bug_at(__FILE__, __LINE__, __VA_ARGS__)
void bug_after(const char *room, const char *recipe);  /* the last room whose check passed */
/* From here on what bug() finds is a mistake in the text of a room that the user gave: err() of this file, at the line
 * that defines what the message names. Both outlive the program. */
void bug_in_text(const char *file, const char *text);

/* ---- find.c: a word of the command line -> the path of a recipe -------------------------------- */

/* A file as it is; else recipes/NAME.lua, with a line on stderr. What is no recipe ends the program. */
const char *recipe_find(const char *word);
bool recipe_known(const char *word);                  /* recipe_find would return */
enum { MAX_RECIPES = 500 };
int recipe_names(const char **name, int max);         /* of the project, without .lua; sorted */

/* ---- configure.c: gen config ---------------------------------------------------------------------- */

int configure_main(int argc, char **argv);

/* ---- process.c: other programs, a folder of a moment --------------------------------------------- */

typedef struct {
    int code;                /* its exit status, 128 + its signal; -1: it could not be started */
    bool late;               /* it took longer, and was ended */
    const char *text;        /* what it wrote to stdout and stderr, the first 16 MiB; why it was not started */
} Ended;

/* words: the program as on PATH and its arguments, NULL behind them; input: what it reads, at most 60,000 bytes, or
 * NULL. No shell comes between. */
Ended process_run(char *const *words, const char *input, double seconds);
const char *program_find(const char *name);           /* on PATH, or itself if it is a path; NULL: not there */
const char *scratch_folder(void);                     /* in TMPDIR, empty at first, gone at exit */

/* ---- foreign.c: names of other trainers (runtime/files/foreign.def) in words of ours ----------------- */

/* "here it is run.lr", or why there is nothing like it. */
const char *foreign_say(const Foreign *row);
/* The same in a recipe; given: the value of their name. */
const char *foreign_written(const Foreign *row, const char *given);
/* The same with what is to be typed behind gen's recipe. given: the value of their name, or NULL. */
const char *foreign_typed(const Foreign *row, const char *given);

/* ---- settings.c: settings files of other trainers ------------------------------------------------ */

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

/* The table of a file in YAML, JSON, TOML or Python. A file that cannot be read ends the program with its line. */
Setting *settings_read(const char *path, const char *language, const char *text, size_t n);

const char *setting_shown(const Setting *s);  /* the value in one line, for messages */

/* ---- foreign_file.c: such a file as a recipe ----------------------------------------------------- */

/* Refuses a settings file with what it would be as a recipe. */
void foreign_file(const char *path, const char *language, const char *text, size_t n)
    __attribute__((noreturn));

/* ---- quote.c: texts of the user in what is emitted ------------------------------------------- */

char *c_string(const char *text);            /* a C string literal, one line of text a line */
/* for comments of C, shell and make: what could end or continue one becomes ? */
char *text_comment(const char *text);
char *text_shell(const char *text);          /* one word of a shell, quoted if it has to be */
char *text_shown(const char *text);          /* "in quotes", for messages */
/* Ends the program unless what stands for one path that is safe to go into Makefiles and scripts. */
void path_check(const char *what, const char *path);
void path_check_at(Loc loc, const char *what, const char *path);

/* ---- source.c: where the keys of a Lua table stand ------------------------------------------- */

typedef struct {
    const char *key;         /* NULL: the next item of the list part */
    int line;
} CtorField;

/* One table constructor { ... } of a Lua source. */
typedef struct {
    int line;                /* of the { */
    int n, cap;
    CtorField *field;        /* in the order of the source */
} Ctor;

typedef struct {
    const char *file;
    int nctors, capctors;
    Ctor **ctor;             /* in the order of their { */
    /* the text with (__place(I,{ ... })) for constructor I; __place: what the chunk is called with */
    Str marked;
    int return_line;         /* of the last return; 1: none */
    int nsets, capsets;
    CtorField *set;          /* assignments outside constructors: the last name before `=` */
} Source;

/* adds an error for a key set twice */
Source *source_scan(const char *file, const char *text, size_t n);

/* ---- recipe.c: Lua file -> plain values ------------------------------------------------------ */

typedef enum { RV_NIL, RV_BOOL, RV_INT, RV_FLOAT, RV_STRING, RV_TABLE, RV_OTHER } RvalKind;

typedef struct Rval Rval;
struct Rval {
    RvalKind kind;
    bool b;
    int64_t i;
    double f;
    const char *s;           /* RV_STRING: NUL-terminated (a string with NUL inside is refused);
                                RV_OTHER: the Lua type's name */
    /* RV_TABLE: named entries, in the order of the source where known, else by name */
    int nkeys;
    const char **key;
    Rval **value;
    int nitems;              /* RV_TABLE: list part 1..n; holes are refused */
    Rval **item;
    Loc loc;
};

/* Runs the recipe in a closed Lua (no io, os, clock, random; instruction, memory and CPU limits).
 * Overrides are "field.path=value" words of the command line, set over the table with loc.file =
 * NULL. User errors end the program. */
Rval *recipe_load(const char *path, char **override, int noverrides);
/* The target that stood in the table in which this memory.limit_gib was first set; NULL: none. */
const char *recipe_beside(Loc place, double gib);
/* told.c: what emitted files call a recipe's file that messages call `shown`: its path from gen's root, else name
 * (NULL: its file name). path NULL: name, wherever the file is. */
void recipe_tell(const char *shown, const char *path, const char *name);
const char *recipe_told(const char *path);                  /* path itself where nothing was told of it */
struct lua_State;
/* environment.c: a fresh table of globals */
void environment_push(struct lua_State *L);
void recipe_override(Rval *recipe, const char *word);      /* override.c: "a.b=value" */

/* ---- fields.c, config.c: values -> Config ---------------------------------------------------- */

enum {
#define FIELD(id, path, type, def, lo, hi, choices, unit, doc) F_##id,
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
    bool cluster;            /* it has one */
    const char *chosen;      /* the NAME of cluster=NAME on the command line, "" of cluster=; NULL: not there */
} Config;

/* A row of fields.def. */
typedef struct {
    const char *path;
    FieldType type;
    const char *def;         /* as in the row: "" required, "?" filled by config_derive() */
    double lo, hi;
    const char *choices;     /* "a|b|c"; of target: the names of targets.def */
    const char *unit, *doc;
} FieldRow;
extern const FieldRow field_row[NFIELDS];
int field_find(const char *path);                           /* of a path or another spelling of it; -1: none */
const char *field_choices(int field);
const char *field_default_word(int field);                  /* of a word or text; without quotes */

/* A row of runtime/run/flags.def. */
typedef struct {
    const char *name;
    FieldType type;          /* FT_BOOL, FT_INT, FT_FLOAT, FT_STRING, FT_EVERY */
    double lo, hi;
    const char *value;       /* its name in the help, or words between bars */
    int recipe;              /* 0: not to be set by a recipe */
    const char *doc;
} RunFlag;
extern const RunFlag run_flag[];
extern const int nrun_flags;
/* Objectives whose recipes have a field, whose programs a flag: between bars; NULL: all. */
const char *field_objectives(int field);
/* What it does: its own text, and behind it those of objectives. */
const char *run_flag_doc(int flag);
const char *run_flag_objectives(int flag);
/* Whether programs of the objective have the flag. */
bool run_flag_applies(int flag, const char *objective);
bool field_applies(const Config *c, int field);
/* Whether only models of some families have the field. */
bool field_of_families(int field);
bool field_of_cluster(int field);
/* Why recipes of this objective cannot set it; NULL: they can. */
const char *field_fixed(const Config *c, int field);
int run_flag_find(const char *name);                        /* -1: none */
bool run_flag_words(int flag);                              /* its value is one of words */
/* Whether word is one of "a|b|c"; its index goes to *at. */
bool choice_find(const char *choices, const char *word, int64_t *at);
char *value_print(FieldType type, const FieldValue *v);     /* in Lua's spelling */
/* Reads one value in that spelling; NULL: done, *text behind it; else what was wanted. */
const char *value_parse(FieldType type, const char **text, FieldValue *v);
/* "an integer from 1 to 8": what a value may be; choices: of FT_CHOICE */
char *range_print(FieldType type, double lo, double hi, const char *choices);

/* types and ranges, then config_derive() */
Config *config_fill(Rval *recipe, const char *path);
/* defaults that follow from other fields */
void config_derive(Config *c);
/* The same recipe in another precision; NULL: its target, or what it says of differences, takes none of that. */
Config *config_in_precision(const Config *c, const char *precision);
const char *config_name(const Config *c);                   /* of the recipe, else its file's */
void check_config(Config *c);                               /* rules between fields */
/* Every reader goes through these, so that a field nobody reads is found (config_unread, used by
 * the tests). */
int64_t config_int(Config *c, int field);
double config_float(Config *c, int field);
bool config_bool(Config *c, int field);
const char *config_text(Config *c, int field);
bool config_is(Config *c, int field, const char *word);      /* whether that is its text */
bool config_listed(Config *c, int field, const char *word);  /* of FT_LIST */
void config_touch(int field);                               /* it is read by config itself */
Loc config_loc(Config *c, int field);
const char *config_hash(const Config *c);                   /* of the canonical text */
/* The fields and flags that the command line set, words field=value; how many. */
int config_overrides(const Config *c, char ***words);
/* one `field = value   # file:line` a line */
const char *config_print(Config *c);
Config *config_parse(const char *text, const char *file);   /* print(parse(x)) == x */
void config_fields(FILE *to);                               /* gen fields */
/* gen explain FIELD; unknown: nearest name, exit 1 */
void config_explain(FILE *to, const char *field);
/* What a word means: a field, a flag of the programs, a group of fields, or, by *row, another trainer's name. at has
 * room for NFIELDS + nrun_flags; i below NFIELDS: field i, else flag i - NFIELDS. How many; none: exit 1. */
int config_find(const char *word, int *at, const Foreign **row);
/* a set field that no room has read, or NULL */
const char *config_unread(Config *c);

/* A GPU by its name. */
typedef struct {
    const char *name, *target;
    int64_t memory;          /* bytes a rank may plan with, reserve and all */
    double gib;              /* the same as memory.limit_gib says it */
    const char *about;
    /* for estimates only: FLOP/s, bytes/s of its memory, and between the GPUs of a node */
    double peak_fp32, peak_bf16, bandwidth, link;
} Card;

/* card.c: the GPU that a recipe names. Before defaults, in place of target and memory.limit_gib, which it sets. */
void card_fill(Config *c);
const Card *config_card(const Config *c);                   /* NULL: it names none */
/* v: the card of that name, or none. What is wrong; NULL: nothing. */
const char *card_take(const char *name, FieldValue *v);
char *card_fault(const char *name);                         /* for messages: why that is no card; NULL: it is one */

/* cluster.c: the machines of a recipe's cluster. Before defaults: the target of its card; number of ranks, memory and
 * run folder that follow. Contradictions are errors. */
void cluster_target(Config *c);
void cluster_fill(Config *c, const char *name);
void check_cluster(const Config *c);
int64_t cluster_gpus(const Config *c);                      /* of all its nodes */
Config *config_of_cluster(const char *path);                /* configure.c: the fields of such a file, checked */
/* What later rooms need of it, lines NAME=VALUE, of lists one a word; NULL: there is none. */
char *cluster_lines(Config *c);
/* Of such lines: why one of them is refused; NULL: all are good. */
char *cluster_fault(const char *lines);
/* The k-th value of a name; NULL: there are no more. */
char *cluster_value(const char *lines, const char *name, int k);

/* ---- objectives.def -------------------------------------------------------------------------- */

typedef struct {
    const char *name;        /* value of the field objective */
    const char *about;
    const char *kinds;       /* values of data.kind, between bars; "": no token files */
    const char *head;        /* what it puts on a model: for family_class() */
    const char *work;        /* the count whose rate is told */
    const char *decides;     /* the metric that says which validation is the best */
    bool whole;              /* without a model of layers: templates/programs/NAME/ is its program */
} Objective;

const Objective *objective_find(const char *name);
/* The default of a run-time flag in recipes of the objective, as text; NULL: it has none of its own. */
const char *objective_default(const char *name, const char *flag);
/* How many sequences a sample is. */
int64_t objective_sequences(const Config *c);
/* batch.texts, or its default beside the other fields. */
int64_t config_texts(const Config *c);
/* Steps from a turn of a schedule to its next. */
int64_t objective_steps_a_turn(const Config *c, const char *schedule);
/* Whether a field is called after the objective, as mlm.share is: its host knows it. */
bool objective_owns(const char *name, const char *path);
int objective_count(void);
const Objective *objective_row(int i);

/* Words as in the row; what they mean in a program: runtime/run/metrics.h. */
typedef struct {
    const char *objective, *of, *name, *kind, *per, *better, *tag, *text;
} MetricRow;
extern const MetricRow metric_row[];
extern const int nmetrics;
typedef struct {
    const char *objective, *key, *tag;
} TagRow;
extern const TagRow tag_row[];
extern const int ntags;

/* ---- targets.def, cards.def ------------------------------------------------------------------ */

typedef struct {
    const char *name;        /* value of the field target */
    const char *backend;     /* cpu | cuda */
    const char *about;
    int64_t memory;          /* bytes a rank may plan with; 0: ask for the field memory.limit_gib */
    int64_t reserve;         /* bytes kept back for the driver, libraries and the stack */
    int align;               /* of every planned buffer, bytes */
    double peak_fp32, peak_bf16;   /* FLOP/s of one rank's device, for estimates only */
    const char *cflags;      /* of the compiler that builds the kernels */
    /* cuda only */
    const char *arch;        /* "sm_90a" */
    int capability;          /* 10 * major + minor of the cards it runs on */
    int sms;                 /* multiprocessors of the card that the row is for */
    int shared_block;        /* bytes a block may have, opted in */
    int shared_sm, threads_sm, registers_sm;   /* of a multiprocessor */
    const char *toolkit;     /* "12.8": the first CUDA toolkit whose nvcc knows it */
} Target;

const Target *target_find(const char *name);
int target_count(void);
const Target *target_row(int i);

/* What estimates take for all targets of a backend. */
typedef struct {
    const char *name;
    double bandwidth, link;  /* bytes/s of memory, cuda: 0, a card's; between ranks, cuda: over PCIe 4 */
    double start, meet;      /* seconds until a kernel begins, and a sum over ranks */
} Backend;
const Backend *target_backend(const Target *t);

int card_count(void);
const Card *card_row(int i);
const Card *card_find(const char *name);         /* however its name is spaced; NULL: none */
const Card *card_near(const char *name);         /* of a name that is none: what it may mean; NULL: nothing */

/* ---- families.def: how families of models are put together ----------------------------------- */

enum { BIAS_QKV = 1, BIAS_O = 2, BIAS_ATTENTION = BIAS_QKV | BIAS_O, BIAS_FFN = 4, BIAS_DENSE = 8,
       BIAS_HEAD = 16 };

/* A row. Paths are module paths of the Hugging Face class, %d the layer; with %h, the head, of a
 * module for each head. */
typedef struct {
    const char *name, *about;
    const char *first, *block, *last;    /* steps, see families.def */
    const char *norm, *activation;       /* ops */
    const char *eps;         /* default of model.norm_eps */
    const char *eps_e;       /* of norm_e; NULL: as of all norms */
    bool norm_plus;          /* norms multiply by 1 + their weight, which begins at 0 */
    bool rotary;             /* q and k are rotated by their places */
    bool layered;            /* by frequencies of their own in layers whose attention slides: model.full_every */
    int biases;              /* linear layers that have one: BIAS_... */
    bool bias_chosen;        /* model.attention_bias adds BIAS_ATTENTION */
    bool transposed;         /* linear weights of blocks are stored (in, out) */
    bool tied;               /* default of model.tied */
    bool tied_fixed;         /* and its only value */
    /* model.pad names a token whose row learns nothing where it stands: always, or where the recipe has one */
    bool padded, pad_chosen;
    bool whole_heads;        /* heads * head_dim is hidden, keys and values have as many */
    int ffn;                 /* default of model.ffn: so many times hidden; 0: it has to be set */
    /* init std of residual projections is divided by sqrt(residual_init * layers); 0: not */
    double residual_init;
    bool torch_init;         /* matrices, biases and tables start as those of PyTorch's modules do */
    bool torch_attention;    /* and those of attention as MultiheadAttention's */
    double places_std;       /* of the table of places, with torch_init; 0: as other tables */
    bool hidden_drop;        /* model.dropout drops inside the feed-forward part, too */
    bool embedding_kept;     /* and not behind the embedding */
    int type_rows;           /* of the table of token types */
    const char *tokens, *places, *types, *norm_e, *norm1, *norm2, *norm_o, *norm_d, *dense, *norm_f, *head;
    const char *head_bias;               /* NULL: beside the head's weight */
    const char *q, *k, *v, *o;           /* k == NULL: q names one module that holds all three */
    const char *q_norm, *k_norm;         /* rmsnorm of each head before it is rotated; NULL: none */
    const char *gate, *up, *down;        /* gate: of activations that take a pair */
} Family;

/* Of a family with one head: the class of config.json, task_type of PEFT, "": none. */
typedef struct { const char *class, *task; } FamilyClass;

int family_count(void);
const Family *family_row(int i);
const Family *family_find(const char *name);
const FamilyClass *family_class(const char *name, const char *head);    /* NULL: it has none */
/* The head of its class of that name, else of its first; NULL: it has none. */
const char *family_class_head(const char *name, const char *class);
/* "LlamaForCausalLM, LlamaForProcessRewardModel" */
const char *family_classes(const char *name);
/* Whether its config.json says that field. */
bool family_writes(const Family *f, const char *path);
const char *family_leaf(const char *path);                  /* the last name of a path */
/* Modules as PEFT names them, each once; how many: linear layers but the head, those of them that get
 * adapters by default, and embedding and head. */
#define FAMILY_LEAVES 9
/* PEFT's rule: whether a word is the whole path of a module, or its end after a dot ("q_proj", "intermediate.dense").
 * Whether it is of a linear layer of the family. */
bool family_names(const char *word, const char *path);
bool family_has_linear(const Family *f, const char *word);
int family_linears(const Family *f, const char *leaf[FAMILY_LEAVES]);
int family_default_targets(const Family *f, const char *leaf[FAMILY_LEAVES]);
int family_steps(const Family *f, const char *word);        /* how many of that name a block has */
int family_tables(const Family *f, const char *leaf[FAMILY_LEAVES]);
/* What follows of it for the other fields of model. and lora.: of explain and the reference. */
char *family_defaults(const Family *f);

/* ---- ir_parts.c, ir.c, ir_read.c: what graph, fuse, part and plan work on -------------------- */

typedef enum { DT_F32, DT_BF16, DT_F16, DT_F64, DT_I32, DT_U32, DT_U8, NDTYPES } Dtype;
extern const char *const dtype_name[NDTYPES];
extern const int dtype_bytes[NDTYPES];

typedef struct {
    int64_t n;
    /* how a reader would write it: "B", "3*C"; printed beside the number */
    const char *sym;
} Dim;

typedef enum {
    VK_PARAM,                /* a weight; trained or frozen */
    /* outlives a program: gradient, moment, master copy, table, running sum */
    VK_STATE,
    VK_INPUT,                /* written by the host before the program runs */
    VK_TEMP                  /* defined and used inside one program */
} ValueKind;
extern const char *const value_kind_name[];

#define PURPOSES(X) \
    X(weights) X(gradients) X(optimiser) X(activations) X(workspace) X(communication) X(inputs)
#define PURPOSE_ENUM(p) PU_##p,
typedef enum { PURPOSES(PURPOSE_ENUM) NPURPOSES } Purpose;
extern const char *const purpose_name[NPURPOSES];

/* Among the ranks: the same on all of them; each its own slice; each a summand of the whole. */
typedef enum {
    PL_NONE,                 /* before part */
    PL_REP,
    PL_SHARD,
    PL_PARTIAL,
    PL_BEGUN                 /* of no value: a partial one while a collective makes it whole */
} Placement;
extern const char *const placement_name[];

/* One tensor of a Hugging Face or PEFT file that lives in rows row0 .. row0+rows-1 of a
 * parameter. */
typedef struct {
    const char *name;        /* file's name, "%d" stands for the layer */
    int64_t row0, rows;
    int64_t cols;            /* of each row, from its begin; 0: all (out, in); out alone has none */
    bool transposed;         /* the file holds (in, out), we hold (out, in) */
} Piece;

typedef struct Value Value;
struct Value {
    const char *name;        /* "b.n1": unique; without sigil */
    ValueKind kind;
    Purpose purpose;
    Dtype dtype;
    int rank;
    Dim dim[5];
    int64_t count;           /* 0: one tensor; n: an array [0..n-1], one a layer */
    int64_t slots;           /* tensors really stored: element i lives in slot i % slots */
    Loc loc;
    /* of the parameters that are updated together: they, what belongs to them, their norm, `hyper`
     * and loss scale; NULL: the set "model", often the only one */
    const char *set;
    /* parameters */
    bool trained, decay, adapter;
    bool added;              /* trained, and a model that is taken in may be without it: then as `init` says */
    bool grown;              /* its last row: a model that is taken in may be without it: then the mean of the others */
    bool aside;              /* of the training, not of the model: its pieces are in checkpoints alone; fp32 */
    const char *init;        /* "normal", "uniform", "ones", "zeros" */
    double std;              /* of normal; bound of uniform */
    int npieces;
    Piece *piece;
    const char *of;          /* gradient, moment, master: the parameter's name */
    bool early;              /* gradient: summed over ranks behind its layer, beside the backward pass */
    /* after part */
    Placement place;
    int axis;                /* PL_SHARD: the sharded axis */
    /* after plan */
    const char *arena;       /* "device" */
    int storage;             /* within plan: values that share one have equal slots and stride */
    int64_t offset, stride;  /* bytes; stride between slots */
    int first, last;         /* positions at which it is alive, both inclusive */
    bool internal;           /* inside one group: never stored */
};

/* A use or definition of a value: %x, %x[3], %x[l], %x[l+1]; %x[m]: that of the micro-batch. */
typedef enum { IX_NONE, IX_CONST, IX_LOOP, IX_MICRO } IndexKind;
typedef struct {
    Value *v;
    IndexKind index;
    int64_t k;               /* the constant, or what is added to l */
} Ref;

enum {
#define OP(name, operands, place, attrs, flops, grad, doc) OP_##name,
#include "gen/graph/ops.def"
#undef OP
    NOPS
};

typedef struct {
    const char *key;
    enum { ATTR_INT, ATTR_FLOAT, ATTR_WORD } type;
    int64_t i;
    double f;
    const char *word;
} Attr;

typedef struct Op Op;
struct Op {
    int kind;                /* OP_... */
    int nin, nout, nattr;
    int capin, capout;
    Ref *in, *out;           /* grown by op_in() and op_out() */
    Attr attr[14];
    int region;              /* 0: straight line; else the repeat region it belongs to */
    int group;               /* after fuse: index of its group */
    const char *stage;       /* of the model: "attention", "head, backward"; NULL: none */
    Loc loc;
};

/* Equal layers: the ops of a region run for l = 0..count-1, or backwards. Regions do not nest. */
typedef struct {
    Dim count;
    bool reverse;
} Region;

typedef struct {
    int kernel;              /* row of kernels.def */
    int first_op, nops;      /* ops[first_op ..] of the program */
    int region;
    int64_t workspace;       /* bytes asked for by the row */
    Value *ws;               /* after plan: where it lives; NULL when 0 */
    int pos;                 /* after plan: position in time, its number in the texts */
} Group;

/* What a program does for a step, for the rooms that tell programs apart; check_schedules() holds
 * each to its own ops. */
#define ROLES(X) \
    X(tables)                /* once at start: what the others look up */ \
    X(clear)                 /* sets gradients to zero */ \
    X(gradients)             /* forward and backward: writes gradients */ \
    X(reduce)                /* makes one number of whole gradients */ \
    X(update)                /* changes weights */ \
    X(forward)               /* results only */
#define ROLE_ENUM(r) ROLE_##r,
typedef enum { ROLES(ROLE_ENUM) NROLES } Role;
extern const char *const role_name[NROLES];

typedef struct {
    const char *name;        /* "micro": the function is run_micro() */
    const char *about;       /* one line for readers of step.c */
    Role role;
    int nops, capops;
    Op *ops;
    int nregions;            /* regions are 1..nregions */
    Region *region;          /* [0] stands for none */
    int ngroups;
    Group *groups;
} Program;

/* What a schedule does, one after the other. */
typedef struct {
    Program *program;        /* NULL: the value is set to zero */
    Value *clears;
    int64_t times;           /* turns of the program */
} Item;

/* The host calls a schedule as a whole, as step_NAME(); one of tables is a part of step_open(). The
 * order of a step stands here and nowhere else. */
typedef struct {
    const char *name, *about;
    int nitems, nresults;
    Item *item;
    Value **result;          /* what the host reads behind it */
    bool captured;           /* on a GPU: one graph, launched as a whole */
} Schedule;

/* What later rooms need of a recipe besides its programs: rows of facts.def. */
enum {
#define FACT(kind, name, field, doc) FACT_##name,
#include "gen/graph/facts.def"
#undef FACT
    NFACTS
};
typedef enum { FACT_IS_TEXT, FACT_IS_CHOICE, FACT_IS_INT, FACT_IS_WORDS, FACT_IS_LINES } FactKind;
typedef struct {
    const char *name;
    FactKind kind;
    int field;               /* of fields.def, or -1 */
} FactRow;
extern const FactRow fact_row[NFACTS];

typedef struct {
    const char *text;        /* NULL: lines that are missing */
    int64_t i;
    int n;
    char **word;
    Loc loc;
} Fact;

/* A number that symbols of dimensions and C have by name. */
typedef struct {
    const char *name;        /* "B" */
    int64_t n;
    const char *about;
} Size;

typedef struct {
    const char *room;        /* the last room that ran: "graph", "fuse", "part", "plan" */
    const char *objective, *family;
    const Target *target;
    int64_t ranks;
    Fact fact[NFACTS];
    int nsizes;
    Size *size;
    int nvalues, capvalues;
    Value **values;
    int nprograms, nschedules;
    Program **programs;
    Schedule **schedules;
    /* after plan */
    int64_t arena_bytes, lower_bound, persistent_bytes;
    const char *plan_method;
    const char *text;        /* of the last room, for out/NAME/ir */
} Graph;

Value *ir_value(const Graph *g, const char *name);           /* by name, or NULL */
Value *ir_new(Graph *g, ValueKind kind, Purpose purpose, Dtype dt, const char *name, int rank,
              const Dim *dim, Loc loc);
Ref ref(Value *v);                                           /* %v */
Ref ref_at(Value *v, int64_t k);                             /* %v[k] */
Ref ref_loop(Value *v, int64_t k);                           /* %v[l+k] */
Ref ref_micro(Value *v);                                     /* %v[m] */
int64_t value_elements(const Value *v);                      /* of one slot */
int64_t value_bytes(const Value *v);                         /* of one slot, not rounded */
int64_t piece_columns(const Value *v, const Piece *piece);  /* of a matrix */
int64_t value_parameters(const Value *v);       /* elements of the model files' tensors; 0 of one aside */
bool value_is_gradient(const Value *v);                     /* of a parameter */
const char *value_set(const Value *v);                      /* "model" or another */
bool value_same_set(const Value *v, const Value *w);
Program *ir_program(Graph *g, const char *name, Role role, const char *about);
void ir_size_add(Graph *g, const char *name, int64_t n, const char *about);
int64_t ir_size(const Graph *g, const char *name);           /* 0: there is none */
/* room for one more behind the n pointers of a list */
void *ir_one_more(void *list, int n);
/* model_files.c: as Hugging Face prints it; deletes json */
struct cJSON;
char *json_text(struct cJSON *json);
/* facts.c */
const char *attr_symbol(const char *key);                    /* attributes that are a size, or NULL */
/* What contradicts the sizes or the precision, or NULL. */
char *size_fault_value(const Graph *g, const Value *v);
char *size_fault_op(const Graph *g, const Program *p, const Op *op);
/* What model_fields, config_json or adapter_json (*fact) says otherwise than the sizes, or NULL. */
char *model_fault(const Graph *g, int *fact);
/* order.c */
Schedule *ir_schedule(Graph *g, const char *name, const char *about);
void schedule_run(Schedule *s, Program *p, int64_t times);   /* appended, like these */
void schedule_clear(Schedule *s, Value *v);
void schedule_result(Schedule *s, Value *v);
bool schedule_at_start(const Schedule *s);                   /* of tables */
/* How often a schedule that has the program repeats it; 1: none does */
int64_t program_times(const Graph *g, const Program *p);
/* Micro-batches of what it reads, 1: it does not read micro-batches by number */
int64_t program_micros(const Program *p);
int ir_region(Program *p, Dim count, bool reverse);
/* The region whose turns v[l] is for; NULL: none of the program's. */
const Region *ir_region_of(const Program *p, const Value *v);
Op *ir_op(Program *p, int kind, int region, Loc loc);        /* appended */
void op_in(Op *op, Ref r);
void op_out(Op *op, Ref r);
void op_int(Op *op, const char *key, int64_t i);
void op_float(Op *op, const char *key, double f);
void op_word(Op *op, const char *key, const char *word);
const Attr *op_attr(const Op *op, const char *key);          /* or NULL */
char *attr_text(const Attr *a);                              /* its value */
char *text_float(double f);                                  /* 1.0, 0.125, 1e-05 */
char *ir_print(const Graph *g);
/* user errors end the program with file:line */
Graph *ir_parse(const char *text, const char *file);
/* The number of a group in the texts: groups are counted through all programs. */
int group_number(const Graph *g, const Program *p, int index);

typedef struct {
    const char *name;
    const char *operands, *place, *attrs;    /* as ops.def describes them */
    double (*flops)(const Op *op);
    const char *doc;
} OpRow;
extern const OpRow op_row[NOPS];
int op_find(const char *name);                               /* NOPS: none */
double program_flops(const Program *p);                      /* of one turn */

/* A row of inputs.def: what the host writes. */
typedef struct {
    const char *name;
    Dtype dtype;
    const char *dims;        /* "B,T" */
    bool micro;              /* a tensor for each micro-batch of a step */
    bool sharded;            /* each rank has its own, else all the same */
    const char *doc;
    bool of_set;             /* a tensor for each set of parameters: "hyper", "hyper.NAME" */
} InputRow;
/* The row of an input of that name; or NULL. */
const InputRow *input_row(const char *name);

/* ---- rules.c: the op as its row of ops.def wants it ------------------------------------------ */

bool op_takes(int kind, const char *key);                    /* an attribute of that name */
/* NULL, or what is wrong with an op of the program: number, types and dimensions of its operands,
 * its attributes, its region, what its indices reach. */
char *op_fault(const Program *p, const Op *op);
void check_ops(const Graph *g);                              /* of all programs, after every room */

/* ---- kernels.c: kernels.def ------------------------------------------------------------------- */

typedef struct {
    const char *name;        /* of the C function */
    const char *backend;     /* cpu | cuda */
    const char *pattern;     /* op names in order, space-separated; "name+": one or more alike */
    const char *file;        /* kernels/BACKEND/FILE */
    const char *args;        /* what the emitted call passes, see kernels.def */
    const char *inplace;     /* "o0=i2": that output may take the place of that input; "" none */
    const char *(*fits)(const Graph *g, const Op *op);      /* NULL: always; else NULL or why not */
    const char *doc;
} KernelRow;
extern const KernelRow kernel_row[];
extern const int nkernels;
int64_t kernel_workspace(int kernel, const Op *op);          /* bytes */

/* A row VARIANT of kernels.def. */
typedef struct {
    const char *name;
    bool (*fits)(const Op *op, int value);       /* whether it is worth measuring for this op */
    bool act;                /* fp32 results hold what was rounded to the type of activations */
    int n, value[8];         /* the default first */
} VariantRow;
extern const VariantRow variant_row[];
extern const int nvariants;
const VariantRow *variant_find(const char *name);
/* A row in texts: its name, for the second row of that name and backend "rmsnorm_fwd/2". */
const char *kernel_word(int row);
int kernel_find(const char *word, const char *backend);      /* -1: there is none */
/* One call for as many ops alike as there are, "name+": what they read or write lies side by side,
 * operand by operand, but for what all of them share. */
bool kernel_repeats(const KernelRow *row);
/* "i0", "1.o2": the operand of the group's op that a word of its row names. */
Ref kernel_operand(const Program *p, const Group *group, const char *word);

/* ---- the rooms ------------------------------------------------------------------------------- */

Graph *graph_build(Config *c);
void check_graph(const Graph *g);

void fuse_run(Graph *g);
void check_fuse(const Graph *g);
void part_run(Graph *g);
void check_part(const Graph *g);
void plan_run(Graph *g);
void check_plan(const Graph *g);
/* ends the program when the plan exceeds the target */
/* c: to look for recipes near it that fit; NULL: there is none */
void fit_check(const Graph *g, Config *c);
int64_t fit_limit(const Graph *g);
Graph *fit_planned(Config *c);               /* the rooms up to plan, whether it fits or not */
int64_t fit_largest_micro(const Graph *g, Config *c);
/* force: over runs of another model and files that gen did not write; locked: lock_require() */
void emit_run(const Graph *g, const char *outdir, bool force, bool locked);
/* The files of a folder, manifest.json aside, in memory alone; how many. */
typedef struct { const char *name, *text; } EmitFile;
int emit_texts(const Graph *g, EmitFile **files);
/* the recipe of which a folder was made and the words that went before it; how many */
int emit_again(const char *dir, const char **recipe, char ***override);
/* The project of a folder that gen wrote: the folder above out/NAME, or above another. */
char *emit_project(const char *dir);
/* The recipe's file that emitted files call `told`: in the project, here or below gen's root, or in the folder
 * recipes/ of these. NULL: *looked says where it is not. project: NULL where there is none. */
const char *emit_recipe(const char *project, const char *told, char **looked);

/* The folder of a recipe whose objective is whole: these have no rooms behind config. */
void whole_emit(Config *c, const char *outdir, bool force);

/* ---- commands.c: commands.def ----------------------------------------------------------------- */

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

/* ---- commands beside the rooms --------------------------------------------------------------- */

void report_plan(const Graph *g, Config *c, FILE *to);                  /* gen plan */
void report_info(const Graph *g, Config *c, FILE *to);        /* gen info */
/* Of a recipe whose objective is whole: both, which differ by the commands. */
void report_whole(Config *c, bool commands, FILE *to);
/* gen diff; 0: the same, 1: not. */
int diff_run(Graph *ga, Config *ca, Graph *gb, Config *cb, FILE *to);
/* gen diff --base FILE: what a change of a recipe costs, g NULL: its objective is whole. file: of gen plan --json, or
 * "none". allow: bytes of a rank that it may cost more, "any", or NULL; 0: no more than that, or without it: the
 * same. */
int cost_run(const Graph *g, Config *c, const char *file, const char *allow, FILE *to);
/* gen completion bash, gen man PAGE, gen reference PAGE; the exit status. */
int completion_main(int argc, char **argv);
int reference_main(int argc, char **argv);
/* gen fields; of a word gen explain */
void report_fields(const char *word, FILE *to);
/* gen list: a section or none, and what recipes have to have, FIELD=VALUE. */
void report_list(int n, char **word, FILE *to);
int list_sections(const char **name, int max);               /* how many */
int list_paths(const char **path, int max);                  /* of gen list's recipes, seen from here; how many */
/* Those of the recipes that have all these FIELD=VALUE, in their order, with their configs; how many. */
int list_passing(int nwords, char **word, const char **path, Config **c, int n);
int64_t bytes_of(const char *what, const char *text);        /* 24GiB, 900MiB, 80GB; what: of whose mistake */
struct cJSON;
void list_rows(const char *section, struct cJSON *list);      /* appended, as --json has them */
/* gen new: the target of models with as many million parameters and more, below it is cpu; the rank of adapters. */
#define NEW_MILLIONS 100
#define NEW_TARGET "sm_80"
#define NEW_RANK 16
int new_main(int argc, char **argv);                         /* gen new */
/* Whether the words behind `gen plan` mean a model's folder, and the plan of one. */
bool new_is_folder(int argc, char **argv);
int new_plan_main(int argc, char **argv);

/* ---- lock.c: algorithms of matrix products and variants of kernels that were measured -------- */

/* An algorithm as Gemm.algo and Gemm.raw take it; algo NULL: not tuned, raw NULL: an older row. */
typedef struct { const char *algo, *raw; } LockedAlgo;
/* Arguments as of gemm_key(). Remembers what was asked. */
LockedAlgo lock_gemm_algo(const Graph *g, const char *form, const char *in, const char *out,
                          int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb, int64_t ldc,
                          const char *epilogue, int beta, int64_t offset);
/* The same for a kernel's call: key names it, its types and dimensions; a number, or NULL. */
const char *lock_variant(const Graph *g, const char *key);
const char *lock_cublaslt(void);                             /* version measured with, or NULL */
/* what was asked and has no row: keys, sorted */
int lock_untuned(const char *const **key);
void lock_renew(const Graph *g);                             /* before the graph of another recipe */
void lock_note(void);                                        /* one line, if there is a file */
/* Ends the program when something that was asked has no row. */
void lock_require(const Graph *g);
char *lock_path(const Graph *g);
char *lock_generator(void);
char *lock_kernels(void);                                    /* hash of kernels/cuda */
/* rows of one card, as the tuner prints them, into the lock file; from: for messages */
void lock_write(const Graph *g, const char *section, const char *from);

/* ---- more commands --------------------------------------------------------------------------- */

/* gen tune; the exit status. rows: a file of what the tuner printed, or NULL: build and run it */
int tune_run(const Graph *g, const char *out, const char *rows);
/* gen check; the exit status */
int check_kernels(const Graph *g, bool insist, bool by_nvcc);
/* The same of a target without CUDA kernels. */
void check_nothing(const char *recipe, const Target *t);
const char *check_nvrtc(void);                               /* its version, or NULL: not here */
/* gen doctor, of a recipe (g NULL: one whose objective is whole) or of the machine alone (c NULL); the exit status */
int doctor_run(const Graph *g, Config *c, bool json);
int dist_main(int argc, char **argv);                        /* gen dist */
int ci_main(int argc, char **argv);                          /* gen ci */
int packing_main(int argc, char **argv);                     /* gen pack-buffers */
int pack_main(int argc, char **argv);                        /* gen pack */

#endif
