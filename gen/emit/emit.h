/* emit.h -- the emit room: a planned graph as the files of out/NAME.
 *
 * emit.c fills the templates (template.c) and emit_folder.c writes the folder. emit_step.c makes
 * the calls and tables of step.c or step.cu out of the parts in emit_words.c, emit_lora.c,
 * emit_sites.c and emit_variant.c, emit_schedules.c the functions that run them; emit_tune.c makes
 * the calls of tune.cu; emit_model.c makes the tables that map parameters to tensors of Hugging
 * Face files. */
#ifndef EMIT_H
#define EMIT_H

#include <cjson/cJSON.h>

#include "gen/graph/ir.h"
#include "gen/graph/kernels.h"

/* ---- the interface of the room ------------------------------------------------------------- */

/* Writes the files of g to outdir. force: replaces files that gen did not write, and writes even if
 * outdir holds runs of another model. locked: every tuned choice must be in the lock file; see
 * lock_require(). */
void emit_run(const Graph *g, const char *outdir, bool force, bool locked);
/* The flags without which the program does not train. weights: the value of --init-from; NULL:
 * FOLDER, if the program cannot start from random weights, else without this flag. */
const char *emit_required_flags(const Graph *g, const char *weights, const char *data);
/* Sets *files to the files that emit_run() would write, except manifest.json, without writing them.
 * Returns their number. */
typedef struct { const char *name, *text; } EmitFile;
int emit_texts(const Graph *g, EmitFile **files);
/* Reads from dir/manifest.json which recipe and overrides the folder was made with. Sets *recipe to
 * the recipe's file and *override to the override words, and returns the number of words. Prints
 * the recipe it takes on stderr. Ends the program if the manifest is unusable or the recipe is not
 * found. */
int emit_again(const char *dir, const char **recipe, char ***override);
/* Returns the project of a folder that gen wrote: the folder above out/ for out/NAME, else the
 * parent folder. NULL: dir does not exist. */
char *emit_project(const char *dir);
/* Returns the recipe file that emitted files call `name`: in the project (NULL: none), here or
 * below gen's root, or in the folder recipes/ of these. NULL: not found; *looked lists the places
 * searched. */
const char *emit_recipe(const char *project, const char *name, char **looked);

/* Reads the fields that a standalone program depends on. Returns them, without the target, as lines
 * field=value: its own, then those of its capabilities. */
char *standalone_fields(Config *c);
/* Writes the folder of a recipe with a standalone objective, which has no rooms after config. */
void standalone_emit(Config *c, const char *outdir, bool force);

/* ---- inside the room ----------------------------------------------------------------------- */

/* emit_folder.c: files are collected, then written at once */
void folder_begin(void);
void folder_put(const char *name, const char *text, bool executable);
bool folder_has(const char *name);
int folder_files(EmitFile **files);                /* all so far; how many */
char *folder_hash(const char *prefix);             /* of the files below it so far */
void folder_sources(void);                         /* after all sources: sources.h, their hash */
void folder_list(cJSON *manifest);                 /* adds that hash and those of all "files" */
/* Writes the collected files and the manifest. Unless force, ends the program before changing
 * anything if dir holds files that gen did not write and would replace, or runs of another model.
 * Removes files of an earlier emission that are not part of this one. */
void folder_write(const char *dir, const char *manifest, bool force);

/* template.c */
typedef struct { const char *name, *text; bool used; } Hole;
Hole *template_hole(Hole *holes, int n, const char *name, size_t length);  /* or NULL */
char *template_source(const char *path);           /* a file of the project, below its root */
/* Returns the template with its holes filled. Every hole of the template must be among the n given.
 * template_fill() also requires the template to use all n; template_fill_some() does not. */
char *template_fill(const char *path, Hole *holes, int n);
char *template_fill_some(const char *path, Hole *holes, int n);
/* Returns a single line with its @HOLES@ filled, without a newline. */
char *template_line(const char *line, Hole *holes, int n);

/* emit_sources.c */
/* Adds the files of runtime/ and kernels/ that the files collected so far use with this objective,
 * backend and precision. ranks: the program has more than one rank. Returns the object files of all
 * C sources for a Makefile, one per line, the program's own first. */
char *sources_put(const char *objective, const char *backend, const char *precision, bool ranks);

/* emit_words.c: names and numbers */
/* A row of backends.def. */
typedef struct {
    const char *name, *suffix, *tuner, *parameter, *argument, *stream, *object;
    const char *input, *result, *fetch;
    bool templates, lists_adapters, watched;
} EmitBackend;
const EmitBackend *emit_backend(const Graph *g);
char *c_name(const char *ir_name);                 /* "b.norm1.w" -> "b_norm1_w" */
const char *c_type(Dtype dt);                      /* "float" */
char *dim_product(const Dim *d, int n);            /* "B*T", "1" */
/* Prints text, breaking lines longer than COLUMNS after a comma and indenting the continuation. */
void print_wrapped(Str *s, const char *text);
/* Prints an enum constant of shape.h. */
void print_constant(Str *s, const char *name, int64_t n, const char *about);
char *dim_factor(Dim d);                           /* "C", "(3*C)" */
char *integer(int64_t n);                          /* as C has it */
char *comma(const char *word);                     /* ", WORD", or "" */
char *float_text(double f);                        /* "0.5f" */
enum { COLUMNS = 100 };                            /* of emitted text */

/* A kernel call of a program. */
typedef struct TunedCall TunedCall;
typedef struct {
    const Graph *g;
    const Program *p;
    const Group *group;
    TunedCall *tuned;        /* the tuner's call: operands are its pointers p[..]; else NULL */
} Call;
const Op *call_op(const Call *c, int i);           /* of the call's group */
/* Returns the C name of an argument that is an attribute: a size, or a row of
 * kernels/arguments.def. NULL: it has no name. */
const char *argument_name(const Graph *g, const Op *op, const char *attribute);
/* Returns that name, or the number as text. */
char *attribute_text(const Graph *g, const Op *op, const char *attribute);
typedef struct { const char *op, *stage, *attribute, *name, *doc; } Constant;
extern const Constant constant_row[];              /* arguments.def; ends with a name of NULL */
/* NULL: no op of the row has it, or they have several. */
const Attr *constant_value(const Graph *g, const Constant *row);
bool call_adds(const Call *c, const char *flags);  /* "add", or "beta" and the op's beta is 1 */
Dim call_measure(const Call *c, const char *word); /* {rows:i0} and its like, as number and text */

/* A matrix product: the fields of a Gemm initialiser and of a lock-file key. */
typedef struct {
    const char *form;                /* "NT" ... */
    Dim m, n, k;
    Dim lda, ldb, ldc;               /* n = 0: dense */
    bool bias, f32, adds;
    const char *epilogue;            /* none bias gelu dgelu bgrad */
    const char *scale;               /* "LORA_SCALE"; NULL: 1 */
    int64_t offset;
} Product;
char *product_text(const Graph *g, const Product *p);     /* an initialiser without its name */
/* Sets list to the products of a group's call, at most MOST_PRODUCTS, one for each Gemm; returns
 * their number. A kernel that goes through chunks of rows or parts repeats them. */
enum { MOST_PRODUCTS = 28, ADAPTER_PRODUCTS = 8 };        /* the latter: of one {lora} */
int group_products(const Graph *g, const Program *p, const Group *group, Product *list);
/* Measured seconds of a product, and of a call of a kernel with variants, from the lock file; 0: no
 * row applies. */
double product_seconds(const Graph *g, const Product *p);
double group_seconds(const Graph *g, const Program *p, const Group *group);
void objects_clear(void);                          /* before the calls of a graph */
/* Returns the layer of a weight, of its adapters or of its gradient, e.g. "qkv". */
char *weight_layer(const Call *c, const Value *v);
/* Returns the name of the Gemm or Lora with this label and initialiser, creating it on first use.
 * If a label has several initialisers, the later ones also carry the name of the program: mm_qkv,
 * mm_qkv_decode. */
const char *object_name(const Call *c, const char *label, const char *text, bool lora);
char *emit_products(const Graph *g);               /* Gemm and Lora objects, and lists of them */

/* emit_sites.c */
void print_sites(Str *s, const Graph *g);          /* rows of shape.h; none without dropout */
char *site_text(const Call *c, const Op *op);      /* "SITES * l + SITE_ATT", "NO_SITE" */

/* emit_lora.c */
/* The Lora of a word {lora}, "&lora_b_qkv"; "NULL": the layer has no adapters. */
char *lora_object(const Call *c, const char *word);
int lora_products(const Call *c, const char *word, Product *list);   /* see group_products() */

/* emit_io.c: inputs, by the rows of inputs.def */
int64_t emit_micros(const Graph *g);               /* micro-batches of a step */
char *emit_io_fields(const Graph *g);              /* members of StepIO */
/* fp16: returns `line` once per parameter group, with each %s replaced by the C name of the group's
 * loss scale; "" if there is none. */
char *emit_scalers(const Graph *g, const char *line);
char *emit_set_names(const Graph *g);              /* enum of parameter groups: SET_model ... */
char *emit_sets(const Graph *g);                   /* their rows, each a ParamGroupRow */
char *emit_io(const Graph *g);                     /* inputs: in the arena, or its pinned copy */
char *emit_batch(const Graph *g);                  /* members of a micro-batch's Batch */
char *emit_inputs(const Graph *g);                 /* the part of the arena with all inputs */

/* emit_variant.c */
/* A call of a kernel with variants: a choice among the values of `row`, at least two. */
struct TunedCall {
    const char *key;
    const VariantRow *row;
    int nvalues, value[8];
    int64_t depth;                   /* the largest of its dimensions: no sum has more terms */
    Call call;
    int n;                           /* operands, each once */
    struct { Ref r; bool out; } operand[16];
};
void variants_clear(void);                         /* before the calls of a graph */
int variants_list(TunedCall **list);               /* the calls added since then; returns their
                                                    * number */
char *variant_text(const Call *c, const char *word);
char *variant_operand(TunedCall *t, Ref r, bool out);

/* emit_step.c */
char *emit_shape(const Graph *g);                  /* enum constants of shape.h */
char *emit_numbers(const Graph *g);                /* its other numbers */
char *emit_plan(const Graph *g);                   /* rows of plan.h */
char *emit_programs(const Graph *g);               /* one function a program */
char *emit_ops(const Graph *g);                    /* rows of ops.h, by number of the group */
/* Dependencies of the program, as toolchain_needs(). */
unsigned emit_needs(const Graph *g);
/* Returns the calls that compile cuDNN's attention at start, one per pass and shape; "": none. */
char *emit_attention_starts(const Graph *g);
const char *const *emit_kernel_files(const Graph *g, int *n);   /* sorted, each once */
/* Prints a call, wrapped at 100 columns below its opening bracket. */
void call_print(Str *s, const Call *c, int indent);

/* emit_schedules.c */
/* Returns the calls of a schedule on a stream ("": the CPU), in order. */
char *emit_calls(const Graph *g, const Schedule *c, const char *stream);
bool schedule_communicates(const Schedule *c);     /* after part: it has a collective */
/* True if schedules that do not train have collectives, too: ranks compare how many they ran. */
bool emit_counts(const Graph *g);
char *emit_results(const Graph *g);                /* assignments of the results that the host
                                                    * reads */
char *emit_result_fields(const Graph *g);          /* members of StepIO */
char *emit_prototypes(const Graph *g);             /* of the functions of schedules */
char *emit_collectives(const Graph *g);            /* comment: schedules that communicate */

/* emit_tune.c */
/* To be called after emit_programs(). Returns the calls with variants for tune.cu; "": none. */
char *emit_variants(void);
/* Returns macros VARIANTS_family(X) for the kernel files: the default variant and the
 * alternatives. */
char *emit_variant_lists(void);

/* emit_toolchain.c: adds runtime/toolchain.sh, its rows and the lock of the cluster, if it has one,
 * and adds the build requirements to the manifest. cluster: its name or NULL; needs: NEED_... */
void emit_toolchain(const char *cluster);
void emit_toolchain_manifest(cJSON *manifest, const char *cluster, unsigned needs);

/* emit_model.c */
char *emit_tensors(const Graph *g);                /* rows of tensors.h */
char *emit_merges(const Graph *g);                 /* rows of merges, or "" */

/* emit_cluster.c: the scripts that start a program. lines: of the setting cluster, or NULL */
char *emit_run_sh(const char *backend, const char *name, const char *recipe, int64_t ranks,
                  const char *lines);
char *emit_slurm(const char *backend, const char *name, int64_t ranks, const char *lines);

#endif
