/* ir.h -- the intermediate representation: values, operations, programs and schedules, which graph builds and
 * fuse, part and plan extend. */
#ifndef IR_H
#define IR_H

#include "gen/config/config.h"

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
    /* of the parameters that are updated together: they, what belongs to them, their norm, `adamw_args`
     * and loss scale; NULL: the set "model", often the only one */
    const char *set;
    /* parameters */
    bool trained, decay, adapter;
    bool optional_in_checkpoint;  /* trained, and a model that is taken in may be without it: then as `init` says */
    bool extra_vocab_row;  /* its last row: a model that is taken in may be without it: then the mean of the others */
    bool not_in_model;              /* of the training, not of the model: its pieces are in checkpoints alone; fp32 */
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
#define OP(name, operands, place, attrs, flops, bytes, grad, doc) OP_##name,
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

/* What later rooms need of a recipe besides its programs: rows of settings.def. */
enum {
#define SETTING(kind, name, field, doc) SETTING_##name,
#include "gen/graph/settings.def"
#undef SETTING
    NSETTINGS
};
typedef enum { SETTING_IS_TEXT, SETTING_IS_CHOICE, SETTING_IS_INT, SETTING_IS_WORDS, SETTING_IS_LINES } SettingType;
typedef struct {
    const char *name;
    SettingType kind;
    int field;               /* of fields.def, or -1 */
} SettingRow;
extern const SettingRow setting_row[NSETTINGS];

typedef struct {
    const char *text;        /* NULL: lines that are missing */
    int64_t i;
    int n;
    char **word;
    Loc loc;
} GraphSetting;

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
    GraphSetting setting[NSETTINGS];
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
/* graph_settings.c */
const char *attr_symbol(const char *key);                    /* attributes that are a size, or NULL */
/* What contradicts the sizes or the precision, or NULL. */
char *size_fault_value(const Graph *g, const Value *v);
char *size_fault_op(const Graph *g, const Program *p, const Op *op);
/* What model_fields, config_json or adapter_json (*setting) says otherwise than the sizes, or NULL. */
char *model_fault(const Graph *g, int *setting);
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
    double (*flops)(const Op *op), (*bytes)(const Op *op);
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
    bool of_set;             /* a tensor for each parameter group: "adamw_args", "adamw_args.NAME" */
} InputRow;
/* The row of an input of that name; or NULL. */
const InputRow *input_row(const char *name);

/* ---- rules.c: an op against its row of ops.def --------------------------------------------- */

bool op_is_collective(int kind);                             /* it moves values between ranks */
bool op_takes(int kind, const char *key);                    /* an attribute of that name */
/* Index among the op's operands of operand k of its row in ops.def, -1: the op leaves it out; and back. */
int op_operand(const Op *op, bool out, int k);
int op_row_operand(const Op *op, bool out, int k);
/* NULL, or what is wrong with an op of the program: number, types and dimensions of its operands,
 * its attributes, its region, what its indices reach. */
char *op_fault(const Program *p, const Op *op);
void check_ops(const Graph *g);                              /* of all programs, after every room */

/* ---- graph.c ------------------------------------------------------------------------------- */

Graph *graph_build(Config *c);
void check_graph(const Graph *g);

#endif
