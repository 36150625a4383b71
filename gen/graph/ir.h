/* ir.h -- intermediate representation: values, operations, programs and schedules.
 *
 * The generator's stages are called rooms. The room graph builds the representation from the
 * recipe; the rooms fuse, part and plan extend it in this order; emit only reads it. */
#ifndef IR_H
#define IR_H

#include "gen/config/config.h"

typedef enum { DT_F32, DT_BF16, DT_F16, DT_F64, DT_I32, DT_U32, DT_U8, DT_I16, NDTYPES } Dtype;
extern const char *const dtype_name[NDTYPES];
extern const int dtype_bytes[NDTYPES];

typedef struct {
    int64_t n;
    /* symbolic form, printed next to the number: "B", "3*C" */
    const char *sym;
} Dim;

typedef enum {
    VK_PARAM,                /* a weight; trained or frozen */
    /* outlives a program: gradient, moment, master copy, table, running sum */
    VK_STATE,
    VK_INPUT,                /* written by the host before the program runs */
    VK_TEMP                  /* defined and used within one program */
} ValueKind;
extern const char *const value_kind_name[];

#define PURPOSES(X) \
    X(weights) X(gradients) X(optimiser) X(activations) X(workspace) X(communication) X(inputs)
#define PURPOSE_ENUM(p) PU_##p,
typedef enum { PURPOSES(PURPOSE_ENUM) NPURPOSES } Purpose;
extern const char *const purpose_name[NPURPOSES];

/* Distribution over the ranks: REP: the same on all; SHARD: a slice each; PARTIAL: a summand
 * each; PARTS: each rank's own part is right, see Value.part. The last three: the collective that
 * moves it is in progress; no value ends so. */
typedef enum {
    PL_NONE,                 /* before part */
    PL_REP,
    PL_SHARD,
    PL_PARTIAL,
    PL_PARTS,
    PL_BEGUN,                /* partial, being all-reduced */
    PL_SCATTERING,           /* partial, being reduce-scattered */
    PL_GATHERING             /* nowhere yet, being gathered */
} Placement;
extern const char *const placement_name[];

/* One tensor of a Hugging Face or PEFT file that lives in rows row0 .. row0+rows-1 of a
 * parameter. */
typedef struct {
    const char *name;        /* tensor name in the file, %d for the layer */
    int64_t row0, rows;
    int64_t cols;            /* leading columns of each row; 0: all (out, in); rank 1 has none */
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
    int64_t count;           /* 0: one tensor; n: an array [0..n-1], one per layer */
    int64_t slots;           /* tensors in memory: element i is in slot i % slots */
    Loc loc;
    /* parameter group of a parameter, of its state, and of the group's norm, `adamw_args` and loss
     * scale; NULL: "model", often the only group */
    const char *set;
    /* parameters */
    bool trained, decay, adapter;
    /* trained; if an imported model lacks it, initialised by `init` */
    bool optional_in_checkpoint;
    /* if an imported model lacks the last row, that is the mean of the others */
    bool extra_vocab_row;
    /* state of the training, not of the model: stored in checkpoints only; fp32 */
    bool not_in_model;
    const char *init;        /* "normal", "uniform", "ones", "zeros" */
    double std;              /* of normal; bound of uniform */
    int npieces;
    Piece *piece;
    /* gradient, moment, master, and what a program gathers of a divided weight: name of the
     * parameter */
    const char *of;
    bool early;              /* gradient: summed over ranks while the backward pass goes on */
    /* elements of each tensor that a rank owns when the value is divided, runtime/shares.h; 0: it
     * never is */
    int64_t part;
    /* divided: every rank has room for all parts; else for its own, and none for the others */
    bool gathered;
    bool pinned;             /* lies in pinned memory of the host, where kernels read it */
    /* after part */
    Placement place;
    int axis;                /* PL_SHARD: the sharded axis */
    int index;               /* within part: in Graph.values */
    /* after plan */
    const char *arena;       /* "device", "pinned" */
    int storage;             /* within plan: values with the same storage share slots and stride */
    int64_t offset, stride;  /* bytes; stride between slots */
    int first, last;         /* live range in positions, both inclusive */
    bool internal;           /* inside one group: never stored */
};

/* A use or definition of a value: %x, %x[3], %x[l], %x[l+1]; %x[m]: of the micro-batch. */
typedef enum { IX_NONE, IX_CONST, IX_LOOP, IX_MICRO } IndexKind;
typedef struct {
    Value *v;
    IndexKind index;
    int64_t k;               /* the constant, or the offset from l */
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
    int region;              /* repeat region; 0: none */
    int group;               /* after fuse: index of its group */
    const char *stage;       /* stage of the model: "attention", "head, backward"; NULL: none */
    Loc loc;
};

/* Repeat region of equal layers: its ops run for l = 0..count-1, or in reverse; never nested. */
typedef struct {
    Dim count;
    bool reverse;
} Region;

typedef struct {
    int kernel;              /* row of kernels.def */
    int first_op, nops;      /* ops[first_op ..] of the program */
    int region;
    int64_t workspace;       /* bytes, from the row */
    Value *ws;               /* after plan: the workspace; NULL if 0 bytes */
    int pos;                 /* after plan: position in time, its number in the texts */
} Group;

/* Role of a program in a step; check_schedules() verifies that its ops match. */
#define ROLES(X) \
    X(tables)                /* at start: computes lookup tables */ \
    X(clear)                 /* sets gradients to zero */ \
    X(gradients)             /* forward and backward: writes gradients */ \
    X(reduce)                /* reduces complete gradients to a number */ \
    X(update)                /* changes weights */ \
    X(forward)               /* results only */
#define ROLE_ENUM(r) ROLE_##r,
typedef enum { ROLES(ROLE_ENUM) NROLES } Role;
extern const char *const role_name[NROLES];

typedef struct {
    const char *name;        /* "micro": the function is run_micro() */
    const char *about;       /* one-line comment in step.c */
    Role role;
    int nops, capops;
    Op *ops;
    int nregions;            /* regions are 1..nregions */
    Region *region;          /* [0]: none */
    int ngroups;
    Group *groups;
} Program;

/* An entry of a schedule. */
typedef struct {
    Program *program;        /* NULL: sets `clears` to zero */
    Value *clears;
    int64_t times;           /* turns of the program */
} Item;

/* A sequence of programs that the host calls as step_NAME(), or for tables as part of step_open().
 * The order of a step is defined only here. */
typedef struct {
    const char *name, *about;
    int nitems, nresults;
    Item *item;
    Value **result;          /* values that the host reads afterwards */
    bool captured;           /* on a GPU: launched as one CUDA graph */
} Schedule;

/* Recipe values that later rooms need: rows of settings.def. */
enum {
#define SETTING(kind, name, field, doc) SETTING_##name,
#include "gen/graph/settings.def"
#undef SETTING
    NSETTINGS
};
typedef enum {
    SETTING_IS_TEXT,
    SETTING_IS_CHOICE,
    SETTING_IS_INT,
    SETTING_IS_WORDS,
    SETTING_IS_LINES
} SettingType;
typedef struct {
    const char *name;
    SettingType kind;
    int field;               /* of fields.def, or -1 */
} SettingRow;
extern const SettingRow setting_row[NSETTINGS];

typedef struct {
    const char *text;        /* NULL: optional lines that are absent */
    int64_t i;
    int n;
    char **word;
    Loc loc;
} GraphSetting;

/* A named number, used in symbols of dimensions and in C code. */
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
    Value **by_name;             /* a hash table of the values with open addressing; NULL: free */
    int capnames;                /* a power of two, at least twice nvalues */
    int nprograms, nschedules;
    Program **programs;
    Schedule **schedules;
    /* after plan */
    int64_t arena_bytes, lower_bound, persistent_bytes;
    const char *plan_method;
    const char *text;        /* of the last room, for out/NAME/ir */
} Graph;

Value *ir_value(const Graph *g, const char *name);           /* by name, or NULL */
void ir_index(Graph *g);         /* makes by_name again: after values were removed */
Value *ir_new(Graph *g, ValueKind kind, Purpose purpose, Dtype dt, const char *name, int rank,
              const Dim *dim, Loc loc);
Ref ref(Value *v);                                           /* %v */
Ref ref_at(Value *v, int64_t k);                             /* %v[k] */
Ref ref_loop(Value *v, int64_t k);                           /* %v[l+k] */
Ref ref_micro(Value *v);                                     /* %v[m] */
int64_t value_elements(const Value *v);                      /* of one slot */
int64_t value_bytes(const Value *v);                         /* of one slot, not rounded */
int64_t piece_columns(const Value *v, const Piece *piece);   /* of a matrix */
/* True for a parameter in NF4: nf4.h. Its last dimension counts bytes of two codes. */
bool value_is_nf4(const Value *v);
/* Elements in the model's files; 0 if not_in_model. */
int64_t value_parameters(const Value *v);
bool value_is_gradient(const Value *v);                     /* of a parameter, of an update */
/* True if v is the parameter, or, of a divided one, what a program gathers. */
bool value_is_weight(const Value *v, const Value *param);
int64_t graph_pinned_bytes(const Graph *g);                  /* after plan: of pinned values */
/* After plan: host bytes of rank 0 for a copy of all that a checkpoint stores (runtime/run/
 * snapshot.h); 0: training stops while one is written. */
int64_t graph_snapshot_bytes(const Graph *g);
/* After part: a rank stores its own part only. */
bool value_is_own_part(const Value *v);
/* Elements of a tensor whose moments may have 8 bit. */
enum { QUANTISE_LEAST = 4096 };
/* Returns the 8-bit moment whose largest magnitudes v holds, one for each block of a tensor; NULL:
 * v holds none. */
const Value *absmax_moment(const Graph *g, const Value *v);
/* Elements of the magnitudes that a rank owns, if it owns a part of the moment, else 0. They are
 * (tensors, blocks of its part), and room to spare. */
int64_t absmax_part(const Value *moment);
bool graph_calls_cudnn(const Graph *g);                      /* for attention */
const char *value_set(const Value *v);                      /* "model" or another */
bool value_same_set(const Value *v, const Value *w);
Program *ir_program(Graph *g, const char *name, Role role, const char *about);
void ir_size_add(Graph *g, const char *name, int64_t n, const char *about);
int64_t ir_size(const Graph *g, const char *name);           /* 0: there is none */
/* Returns the list of n pointers, grown by one. */
void *ir_one_more(void *list, int n);
/* model_files.c: JSON text as Hugging Face formats it; deletes json. */
struct cJSON;
char *json_text(struct cJSON *json);
/* graph_settings.c */
const char *attr_symbol(const char *key);  /* size symbol of an attribute; NULL: none */
/* Message if a value or op contradicts the sizes or the precision; else NULL. */
char *size_fault_value(const Graph *g, const Value *v);
char *size_fault_op(const Graph *g, const Program *p, const Op *op);
/* Message if model_fields, config_json or adapter_json (stored in *setting) contradicts the sizes;
 * else NULL. */
char *model_fault(const Graph *g, int *setting);
/* order.c */
Schedule *ir_schedule(Graph *g, const char *name, const char *about);
/* These append an entry or a result. */
void schedule_run(Schedule *s, Program *p, int64_t times);
void schedule_clear(Schedule *s, Value *v);
void schedule_result(Schedule *s, Value *v);
bool schedule_at_start(const Schedule *s);                   /* of tables */
/* True for sums, which a schedule clears: each micro-batch has its own. */
bool schedule_clears(const Graph *g, const Value *v);
/* Returns how many times the first schedule that contains the program runs it; 1 if no schedule
 * contains it. */
int64_t program_times(const Graph *g, const Program *p);
bool program_updates(const Program *p);                      /* it updates parameters */
bool program_communicates(const Program *p);                 /* after part: it has a collective */
/* Returns the number of micro-batches in the inputs that the program indexes by micro-batch
 * (%v[m]); 1 if it indexes none. */
int64_t program_micros(const Program *p);
int ir_region(Program *p, Dim count, bool reverse);
/* False if the op is left out in turn l of its region, of so many: attribute `if`. */
bool op_runs(const Program *p, const Op *op, int64_t l, int64_t turns);
int64_t op_turns(const Program *p, const Op *op);            /* in which it runs; 1 outside */
/* The region of the program that indexes v[l]; NULL: none. */
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
/* Errors end the program with file:line. */
Graph *ir_parse(const char *text, const char *file);
/* Number of a group in texts, counted over all programs. */
int group_number(const Graph *g, const Program *p, int index);

typedef struct {
    const char *name;
    const char *operands, *place, *attrs;    /* as ops.def describes them */
    double (*flops)(const Op *op);
    const char *doc;
} OpRow;
extern const OpRow op_row[NOPS];
int op_find(const char *name);                               /* NOPS: none */
/* Share of its elements that a rank works on: less than 1 if they are divided over the ranks. */
double op_share(const Op *op);
double op_flops(const Op *op);                               /* of a call on a rank */
/* False if the mask of an attention op leaves half of the scores, as for FLOP: causal ones and
 * limits do; documents count as one, lengths as full, holes as filled. */
bool attention_is_whole(const Op *op);
/* bytes.c */
/* Bytes that the calls of a group on a rank read from memory and write to it, without values that
 * stay inside. */
double group_bytes(const Program *p, const Group *group);
double program_flops(const Program *p);                      /* FLOPs of one turn */

/* A row of inputs.def: a value that the host writes. */
typedef struct {
    const char *name;
    Dtype dtype;
    const char *dims;        /* "B,T" */
    bool micro;              /* one tensor per micro-batch of a step */
    bool sharded;            /* each rank has its own; else the same on all */
    const char *doc;
    bool of_set;             /* one tensor per parameter group: "adamw_args", "adamw_args.NAME" */
} InputRow;
/* Row of the input of that name; NULL: none. */
const InputRow *input_row(const char *name);

/* ---- rules.c: checks of ops against their rows of ops.def ---------------------------------- */

bool op_is_collective(int kind);                             /* it moves values between ranks */
bool op_is_update(int kind);                                 /* of a parameter, by its gradient */
bool op_takes(int kind, const char *key);                    /* an attribute of that name */
bool op_takes_list(int kind);                                /* any number of inputs */
/* Index in the op's operands of operand k of its row, -1: absent; and the inverse. */
int op_operand(const Op *op, bool out, int k);
int op_row_operand(const Op *op, bool out, int k);
/* Checks number, types and dimensions of an op's operands, its attributes, region and indices.
 * Returns NULL or a message. */
char *op_fault(const Program *p, const Op *op);
void check_ops(const Graph *g);                              /* of all programs, after every room */

/* ---- graph.c ------------------------------------------------------------------------------- */

Graph *graph_build(Config *c);
void check_graph(const Graph *g);

#endif
