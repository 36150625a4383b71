/* jinja_parts.h -- values and nodes, shared by the files of the Jinja renderer.
 *
 * Lowest first: jinja_memory.c (memory, errors, limits), jinja_lex.c (source to lexemes),
 * jinja_value.c (values and their text), jinja_args.c (arguments), jinja_text.c,
 * jinja_lists.c, jinja_tests.c and jinja_functions.c (the rows of jinja.def), jinja_calls.c (their
 * tables; attributes and items), the parser (lexemes to nodes: jinja_grammar.h), jinja_eval.c
 * (nodes to text). */
#ifndef DIECAST_JINJA_PARTS_H
#define DIECAST_JINJA_PARTS_H

#include "runtime/jinja/jinja.h"

#include <setjmp.h>
#include <stdint.h>

/* ---- memory, freed as a whole ---------------------------------------------------------------- */

typedef struct ArenaBlock ArenaBlock;

typedef struct {
    ArenaBlock *block;
    size_t used;                 /* bytes of all blocks */
} Arena;

void *arena_take(Arena *a, size_t n);    /* zeroed, aligned; NULL: out of memory */
void arena_free(Arena *a);

/* ---- lexemes --------------------------------------------------------------------------------- */

typedef enum {
    LEX_TEXT, LEX_BLOCK, LEX_BLOCK_END, LEX_OUTPUT, LEX_OUTPUT_END, LEX_NAME, LEX_STRING, LEX_INT,
    LEX_FLOAT, LEX_OPERATOR, LEX_EOF
} LexKind;

/* In the template's normalised source; a string without its quotes. */
typedef struct {
    LexKind kind;
    int line;
    const char *at;              /* (n) */
    size_t n;
} Lexeme;

/* ---- values ---------------------------------------------------------------------------------- */

typedef enum {
    JV_MISSING,                  /* an argument that was not given */
    JV_UNDEFINED, JV_NONE, JV_BOOL, JV_INT, JV_BIG, JV_FLOAT, JV_STRING, JV_LIST, JV_DICT, JV_SPACE,
    JV_LOOP, JV_MACRO, JV_METHOD, JV_FUNCTION
} ValueKind;

/* The Python type of a list. LIST_ONCE, a generator, can be read once and is always true. */
typedef enum { LIST_LIST, LIST_TUPLE, LIST_VIEW, LIST_RANGE, LIST_ONCE } ListKind;

enum { STRING_SAFE = 1, STRING_ENCODED = 2 };

typedef struct Value Value;
typedef struct Node Node;
typedef struct Env Env;
typedef struct Callable Callable;
typedef struct Run Run;

typedef struct {
    ListKind kind;
    bool read;                   /* of LIST_ONCE */
    int n;
    Value *item;                 /* (n) */
} List;

/* The members of an object, or the variables of a namespace, in order. */
typedef struct {
    const char *key;             /* (nkey) */
    size_t nkey;
    Value *value;
    cJSON *from;                 /* of the data; NULL: of the template */
} Member;

typedef struct {
    int n, cap, item;            /* item: see JinjaSpan */
    Member *member;
} Dict;

typedef struct {
    int at;                      /* index of the current item */
    const List *list;
    Value *changed;              /* the last value of loop.changed(); NULL: none */
} Loop;

typedef struct {
    const Node *node;
    Env *env;                    /* where it was defined */
} Macro;

struct Value {
    ValueKind kind;
    unsigned flags;              /* of a string: STRING_... */
    union {
        bool yes;
        int64_t integer;
        double real;
        struct {
            const char *s;       /* (n) of a string; the digits of BIG; the name of UNDEFINED */
            size_t n;
        };
        List *list;
        Dict *dict;              /* also of SPACE */
        Loop *loop;
        const Macro *macro;
        struct {
            const Callable *call;    /* of METHOD and FUNCTION */
            Value *self;
        };
    };
};

/* ---- nodes ----------------------------------------------------------------------------------- */

typedef enum {
    /* statements */
    N_TEXT, N_OUTPUT, N_IF, N_FOR, N_SET, N_SET_BLOCK, N_MACRO, N_GENERATION, N_FILTER_BLOCK,
    N_BREAK, N_CONTINUE,
    /* expressions */
    N_CONST, N_NAME, N_LIST, N_TUPLE, N_DICT, N_ATTRIBUTE, N_ITEM, N_SLICE, N_CALL, N_FILTER,
    N_TEST, N_NOT, N_NEGATE, N_PLUS, N_BINARY, N_COMPARE, N_AND, N_OR, N_CONDITION, N_CONCAT,
    /* an argument or a member with a name */
    N_NAMED
} NodeKind;

struct Node {
    NodeKind kind;
    int line;
    int op;                      /* of BINARY, COMPARE: an operator */
    const char *name;            /* interned: equal names have equal pointers */
    Value value;                 /* of CONST, TEXT */
    const Callable *call;        /* of FILTER, TEST */
    Node *a, *b, *c, *d;         /* operands */
    Node *list;                  /* items, arguments, statements; linked by next */
    Node *next;
};

typedef enum {
    OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_FLOOR, OP_MOD, OP_POW, OP_EQ, OP_NE, OP_LT, OP_LE, OP_GT,
    OP_GE, OP_IN, OP_NOT_IN
} Operator;

struct JinjaTemplate {
    Arena arena;
    char *source;                /* (nsource) line ends are LF */
    size_t nsource;
    Lexeme *lexeme;              /* (nlexemes) freed after parsing */
    int nlexemes, at, depth, nodes;
    int loops;                   /* around the statement being parsed, within its macro */
    const char **name;           /* (nnames) interned */
    int nnames, capnames;
    Node *body;
    bool generates;
    jmp_buf fail;                /* while it is parsed */
    char *error;
};

bool is_space(uint32_t c);                             /* Python's str.isspace */
void template_lex(JinjaTemplate *t);                   /* jinja_lex.c */
_Noreturn void template_fail(JinjaTemplate *t, int line, const char *why, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- a rendering ----------------------------------------------------------------------------- */

/* A scope: variables of a loop's body, of a macro, or of the template. */
typedef struct Var {
    const char *name;            /* interned */
    Value value;
    struct Var *next;
} Var;

struct Env {
    Env *up;
    Var *var;
    const Dict *item;            /* the value of its loop, if that is an item of JinjaInput.items */
};

/* jinja_calls.c, for filters such as map(), which are in its tables and read them. */
typedef struct {
    const Callable *(*filter)(const char *name), *(*test)(const char *name);
    Value (*item)(Run *r, const Value *v, const Value *key);
} CallTables;

struct Run {
    const JinjaTemplate *t;
    const CallTables *by;
    Arena arena;
    size_t steps, limit;
    int depth, nest, line, captures;
    char *out;                   /* (nout) */
    size_t nout, capout;
    JinjaSpan *span;
    int nspans, capspans;
    bool decodes;
    jmp_buf fail;
    char *error;
};

/* Ends the rendering with a message that has the line of the template. */
_Noreturn void run_fail(Run *r, const char *why, ...) __attribute__((format(printf, 2, 3)));
void *run_take(Run *r, size_t n);              /* memory until the end of the rendering */
void run_steps(Run *r, size_t bytes);          /* counts work in proportion to some bytes */
void run_put(Run *r, const char *s, size_t n); /* appends to the text */

/* ---- jinja_value.c --------------------------------------------------------------------------- */

extern const char *const jv_name[];            /* kinds as Python names them */

Value jv_bool(bool yes);
Value jv_int(int64_t i);
Value jv_string(const char *s, size_t n);      /* borrowed */
Value jv_literal(const char *s);
Value jv_undefined(const char *name);          /* name: for messages; borrowed */
Value jv_list(Run *r, ListKind kind, int n);   /* items are JV_MISSING */
Value jv_json(Run *r, cJSON *json);
Value jv_dict(Run *r);                         /* empty */
bool jv_true(const Value *v);                  /* Python's bool(v) and a == b */
bool jv_equal(Run *r, const Value *a, const Value *b);
int jv_order(Run *r, const Value *a, const Value *b);  /* -1, 0, 1; fails if Python does */
bool jv_number(const Value *v, double *to);    /* also of a bool */
bool jv_contains(Run *r, const Value *in, const Value *what);
Value jv_iterate(Run *r, const Value *v);      /* a list of the items; fails if there are none */
void list_add(Run *r, List *l, int *cap, Value v);     /* appends to a list of *cap places */
Value list_copied(Run *r, const Value *v, ListKind kind);      /* a list that may be changed */
Value *dict_find(Dict *d, const char *key, size_t n, cJSON **from);
/* Replaces or appends a member. key stays the caller's; from: its JSON, NULL: none. */
void dict_set(Run *r, Dict *d, const char *key, size_t n, Value v, cJSON *from);
void dict_read(Dict *d);                       /* marks all its members as read */
int64_t string_length(const char *s, size_t n);    /* in characters */
size_t string_offset(const char *s, size_t n, int64_t at);   /* of a character, in bytes */
/* Strips characters of `chars` (NULL: white space) on the left and the right. */
Value string_strip(Value v, const Value *chars, bool left, bool right);
/* Texts as str() and repr() write them; the result is in the arena. */
Value jv_text(Run *r, const Value *v);

typedef struct {
    bool ascii, sorted;
    int indent;                  /* -1: one line */
    Value item, key;             /* separators */
} JsonStyle;

/* The value as JSON text; fails for values that JSON does not have. */
Value jv_dumps(Run *r, const Value *v, const JsonStyle *style);
_Noreturn void fail_undefined(Run *r, const Value *v);

/* ---- jinja_calls.c --------------------------------------------------------------------------- */

enum { CALL_PARAMS = 4, CALL_ARGS = 64 };

typedef struct {
    int n, nnamed;
    Value value[CALL_ARGS];
    struct { const char *name; Value value; } named[CALL_ARGS];
} Args;

/* arg: (CALL_PARAMS) the arguments in the order of Callable.params. */
typedef Value CallCode(Run *r, Value *self, Value *arg, const Args *raw);

/* A row of jinja.def. */
struct Callable {
    const char *name;
    const char *params;          /* names, separated by bars; "...": it reads raw */
    CallCode *code;              /* NULL: a method of Python that is not supported */
    ValueKind of;                /* methods: of values of this kind */
};

/* The row of jinja.def; NULL: none. */
const Callable *filter_find(const char *name);
const Callable *test_find(const char *name);
const Callable *function_find(const char *name);
Value call_code(Run *r, const Callable *c, Value *self, const Args *args);    /* jinja_args.c */

/* v.name and v[key]: undefined if v has no such member; fail if v is undefined. */
Value value_attribute(Run *r, const Value *v, const char *name, size_t n);
Value value_item(Run *r, const Value *v, const Value *key);

#endif
