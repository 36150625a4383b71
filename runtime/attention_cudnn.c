/* attention_cudnn.c -- builds cuDNN operation graphs of causal attention, compiles and runs them.
 *
 * Method: cuDNN recognises attention in a graph of products, pointwise operations and reductions,
 *         and runs the whole graph as one fused kernel. The gradient writes dq straight from its
 *         product, not through an fp32 sum in memory: on Hopper, cuDNN computes this form without
 *         atomics, with T x T scores per head in the workspace. */
#include "runtime/attention_cudnn.h"

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"

enum {
#define CUDNN(name, value) CUDNN_##name = value,
#include "runtime/cudnn.def"
#undef CUDNN
};

typedef struct CudnnHandle *Handle;
typedef void *Descriptor;

/* name without cudnn, parameters; each returns a status */
#define FUNCTIONS(F)                                                                              \
    F(Create, (Handle * to))                                                                      \
    F(SetStream, (Handle h, struct CUstream_st * s))                                              \
    F(BackendCreateDescriptor, (int kind, Descriptor *to))                                        \
    F(BackendDestroyDescriptor, (Descriptor d))                                                   \
    F(BackendFinalize, (Descriptor d))                                                            \
    F(BackendSetAttribute, (Descriptor d, int name, int type, int64_t n, const void *from))       \
    F(BackendGetAttribute,                                                                        \
      (Descriptor d, int name, int type, int64_t room, int64_t *n, void *to))                     \
    F(BackendExecute, (Handle h, Descriptor plan, Descriptor pack))

static struct {
#define F(name, parameters) int (*name) parameters;
    FUNCTIONS(F)
#undef F
    size_t (*GetVersion)(void);
    const char *(*GetErrorString)(int status);
    void (*GetLastErrorString)(char *to, size_t bytes);
    Handle handle;               /* of the current GPU; NULL: not created yet */
} cudnn;

/* Stores a function of the library. Returns false if this version lacks it. */
static bool find(void *library, const char *name, void *to)
{
    void *found = dlsym(library, name);
    memcpy(to, &found, sizeof found);
    return found;
}

const char *cudnn_open(void)
{
    static bool tried;
    static char why[300];
    if (tried)
        return *why ? why : NULL;
    tried = true;
    void *library = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        snprintf(why, sizeof why, "%.290s", dlerror());
        return why;
    }
    const char *lacks = NULL;
#define F(name, parameters)                           \
    if (!find(library, "cudnn" #name, &cudnn.name))   \
        lacks = "cudnn" #name;
    FUNCTIONS(F)
    F(GetVersion, ) F(GetErrorString, ) F(GetLastErrorString, )
#undef F
    if (lacks)
        snprintf(why, sizeof why, "libcudnn.so.9 has no %s: install a newer cuDNN 9", lacks);
    return lacks ? why : NULL;
}

int64_t cudnn_version(void)
{
    return (int64_t)cudnn.GetVersion();
}

LibraryVersion cudnn_library(void)
{
    static char version[32];
    const int v = cudnn_open() ? 0 : (int)cudnn_version();
    snprintf(version, sizeof version, "%d.%d.%d", v / 10000, v / 100 % 100, v % 100);
    return (LibraryVersion){"cuDNN", "9", v ? version : NULL, true};
}

/* ---- descriptors ----------------------------------------------------------------------------- */

/* Unique ids of the tensors that a run passes addresses of; ids of virtual tensors follow. */
enum { UID_Q = 1, UID_K, UID_V, UID_O, UID_LSE, UID_DO, UID_DQ, UID_DK, UID_DV, UID_DELTA,
       UID_SCALE, UID_LOW, UID_ONE, UID_VIRTUAL };
enum { MAX_OPS = 32, MAX_CONFIGS = 32 };

struct CudnnAttention {
    CudnnAttentionShape shape;
    bool is_backward;
    Descriptor plan;
    int64_t workspace;           /* bytes of cuDNN's own */
    float scale, low, one;       /* passed by value: cuDNN reads them at each run */
};

/* A graph under construction. After the first failure all calls do nothing. */
typedef struct {
    CudnnAttentionShape s;
    int type;                    /* CUDNN_DATA_ of q, k, v and o */
    int64_t next;                /* unique id of the next virtual tensor */
    Descriptor op[MAX_OPS];
    int nops;
    char *error;                 /* malloc'ed; NULL: none so far */
} Build;

/* Returns one line, malloc'ed: what failed, and cuDNN's last message. */
static char *failure(const char *what)
{
    char said[1000] = "";
    cudnn.GetLastErrorString(said, sizeof said);
    said[sizeof said - 1] = '\0';
    for (char *c = said; *c; c++)
        if (*c == '\n')
            *c = ' ';
    return format("%s: %s", what, said);
}

static char *call_failure(const char *call, int status)
{
    char what[100];
    snprintf(what, sizeof what, "%s: %s", call, cudnn.GetErrorString(status));
    return failure(what);
}

#define TRY(b, name, ...)                                          \
    do {                                                           \
        int status_ = (b)->error ? 0 : cudnn.name(__VA_ARGS__);    \
        if (status_)                                               \
            (b)->error = call_failure("cudnn" #name, status_);     \
    } while (0)

static Descriptor make(Build *b, int kind)
{
    Descriptor d = NULL;
    TRY(b, BackendCreateDescriptor, kind, &d);
    return d;
}

static void set(Build *b, Descriptor d, int name, int type, int64_t n, const void *from)
{
    TRY(b, BackendSetAttribute, d, name, type, n, from);
}

static void set_int(Build *b, Descriptor d, int name, int64_t v)
{
    set(b, d, name, CUDNN_TYPE_INT64, 1, &v);
}

static void set_enum(Build *b, Descriptor d, int name, int type, int v)
{
    set(b, d, name, type, 1, &v);
}

static void set_part(Build *b, Descriptor d, int name, Descriptor part)
{
    set(b, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part);
}

static Descriptor done(Build *b, Descriptor d)
{
    TRY(b, BackendFinalize, d);
    return d;
}

/* ---- tensors --------------------------------------------------------------------------------- */

typedef enum { IN_MEMORY, VIRTUAL, BY_VALUE } Place;

static Descriptor tensor(Build *b, int64_t id, int type, Place place, const int64_t size[4],
                         const int64_t stride[4])
{
    Descriptor d = make(b, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    bool is_virtual = place == VIRTUAL, by_value = place == BY_VALUE;
    set_enum(b, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
    set(b, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, size);
    set(b, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, stride);
    set_int(b, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
    set_int(b, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 16);
    set(b, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    set(b, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
    return done(b, d);
}

/* (B, heads, T, D) within rows of `row` elements per token */
static Descriptor heads(Build *b, int64_t id, int64_t n, int64_t row)
{
    return tensor(b, id, b->type, IN_MEMORY, (int64_t[]){b->s.B, n, b->s.T, b->s.D},
                  (int64_t[]){b->s.T * row, b->s.D, row, 1});
}

/* (B, heads, D, T): the transposed view of heads() */
static Descriptor heads_t(Build *b, int64_t id, int64_t n, int64_t row)
{
    return tensor(b, id, b->type, IN_MEMORY, (int64_t[]){b->s.B, n, b->s.D, b->s.T},
                  (int64_t[]){b->s.T * row, b->s.D, 1, row});
}

/* virtual (B, H, T, last), rows packed; last: T for scores, D, or 1 */
static Descriptor between(Build *b, int type, int64_t last)
{
    const int64_t T = b->s.T, H = b->s.H;
    return tensor(b, b->next++, type, VIRTUAL, (int64_t[]){b->s.B, H, T, last},
                  (int64_t[]){H * T * last, T * last, last, 1});
}

static Descriptor scores(Build *b)
{
    return between(b, CUDNN_DATA_FLOAT, b->s.T);
}

/* virtual scores transposed, (B, H, T of keys, T of queries), in the type of the products */
static Descriptor scores_t(Build *b)
{
    const int64_t T = b->s.T, H = b->s.H;
    return tensor(b, b->next++, b->type, VIRTUAL, (int64_t[]){b->s.B, H, T, T},
                  (int64_t[]){H * T * T, T * T, 1, T});
}

/* (B, H, T, 1) fp32 in memory */
static Descriptor rows(Build *b, int64_t id)
{
    const int64_t T = b->s.T, H = b->s.H;
    return tensor(b, id, CUDNN_DATA_FLOAT, IN_MEMORY, (int64_t[]){b->s.B, H, T, 1},
                  (int64_t[]){H * T, T, 1, 1});
}

static Descriptor number(Build *b, int64_t id)
{
    const int64_t one[4] = {1, 1, 1, 1};
    return tensor(b, id, CUDNN_DATA_FLOAT, BY_VALUE, one, one);
}

/* ---- operations: each adds itself to the graph and returns its result y ---------------------- */

static Descriptor add_op(Build *b, Descriptor op, Descriptor y)
{
    done(b, op);
    REQUIRE(b->nops < MAX_OPS);
    b->op[b->nops++] = op;
    return y;
}

/* y = mode(x, z), or z where t is false; axis: of GEN_INDEX; compute: CUDNN_DATA_ of the result */
static Descriptor pointwise_in(Build *b, int mode, int compute, int64_t axis, Descriptor x,
                               Descriptor z, Descriptor t, Descriptor y)
{
    Descriptor pw = make(b, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set_enum(b, pw, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
    set_enum(b, pw, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, compute);
    if (mode == CUDNN_POINTWISE_GEN_INDEX)
        set_int(b, pw, CUDNN_ATTR_POINTWISE_AXIS, axis);
    done(b, pw);
    Descriptor op = make(b, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_part(b, op, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, pw);
    set_part(b, op, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    set_part(b, op, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    if (z)
        set_part(b, op, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, z);
    if (t)
        set_part(b, op, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, t);
    return add_op(b, op, y);
}

static Descriptor pointwise(Build *b, int mode, Descriptor x, Descriptor z, Descriptor y)
{
    return pointwise_in(b, mode, CUDNN_DATA_FLOAT, 0, x, z, NULL, y);
}

/* y = x z, per head; K heads of z serve H of x */
static Descriptor product(Build *b, Descriptor x, Descriptor z, Descriptor y)
{
    Descriptor m = make(b, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set_enum(b, m, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    done(b, m);
    Descriptor op = make(b, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set_part(b, op, CUDNN_ATTR_OPERATION_MATMUL_ADESC, x);
    set_part(b, op, CUDNN_ATTR_OPERATION_MATMUL_BDESC, z);
    set_part(b, op, CUDNN_ATTR_OPERATION_MATMUL_CDESC, y);
    set_part(b, op, CUDNN_ATTR_OPERATION_MATMUL_DESC, m);
    return add_op(b, op, y);
}

/* y is x reduced along the axes where y has 1, or fewer heads. */
static Descriptor reduce(Build *b, int operator, Descriptor x, Descriptor y)
{
    Descriptor r = make(b, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    set_enum(b, r, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
    set_enum(b, r, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, operator);
    done(b, r);
    Descriptor op = make(b, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_part(b, op, CUDNN_ATTR_OPERATION_REDUCTION_DESC, r);
    set_part(b, op, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    set_part(b, op, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    return add_op(b, op, y);
}

/* y has the elements of x in other axes. */
static Descriptor reshape(Build *b, Descriptor x, Descriptor y)
{
    Descriptor op = make(b, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    set_part(b, op, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    set_part(b, op, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    return add_op(b, op, y);
}

/* scores x; minus infinity for keys after the query */
static Descriptor mask(Build *b, Descriptor x)
{
    const int64_t T = b->s.T;
    Descriptor query = pointwise_in(b, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, 2, x, NULL,
                                    NULL, between(b, CUDNN_DATA_INT32, T));
    Descriptor key = pointwise_in(b, CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT, 3, x, NULL, NULL,
                                  between(b, CUDNN_DATA_INT32, T));
    Descriptor sees = pointwise_in(b, CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN, 0, query, key,
                                   NULL, between(b, CUDNN_DATA_BOOLEAN, T));
    return pointwise_in(b, CUDNN_POINTWISE_BINARY_SELECT, CUDNN_DATA_FLOAT, 0, x,
                        number(b, UID_LOW), sees, scores(b));
}

/* ---- the two graphs -------------------------------------------------------------------------- */

static void forward(Build *b)
{
    const int64_t H = b->s.H, K = b->s.K, D = b->s.D, wide = (H + 2 * K) * D;
    Descriptor q = heads(b, UID_Q, H, wide), k_t = heads_t(b, UID_K, K, wide);
    Descriptor x = product(b, q, k_t, scores(b));
    x = pointwise(b, CUDNN_POINTWISE_MUL, x, number(b, UID_SCALE), scores(b));
    x = mask(b, x);
    Descriptor top = reduce(b, CUDNN_REDUCE_TENSOR_MAX, x, between(b, CUDNN_DATA_FLOAT, 1));
    x = pointwise(b, CUDNN_POINTWISE_SUB, x, top, scores(b));
    x = pointwise(b, CUDNN_POINTWISE_EXP, x, NULL, scores(b));
    Descriptor sum = reduce(b, CUDNN_REDUCE_TENSOR_ADD, x, between(b, CUDNN_DATA_FLOAT, 1));
    Descriptor log = pointwise(b, CUDNN_POINTWISE_LOG, sum, NULL, between(b, CUDNN_DATA_FLOAT, 1));
    pointwise(b, CUDNN_POINTWISE_ADD, top, log, rows(b, UID_LSE));
    x = pointwise(b, CUDNN_POINTWISE_DIV, x, sum, between(b, b->type, b->s.T));
    product(b, x, heads(b, UID_V, K, wide), heads(b, UID_O, H, H * D));
}

/* y (K heads) = x^T z, summed over the query heads of a key head */
static void product_of_keys(Build *b, Descriptor x, Descriptor z, int64_t id)
{
    const int64_t H = b->s.H, K = b->s.K, D = b->s.D, wide = (H + 2 * K) * D;
    Descriptor x_t = reshape(b, x, scores_t(b)), y = heads(b, id, K, wide);
    if (H == K)
        product(b, x_t, z, y);
    else
        reduce(b, CUDNN_REDUCE_TENSOR_ADD, product(b, x_t, z, between(b, b->type, D)), y);
}

static void backward(Build *b)
{
    const int64_t H = b->s.H, K = b->s.K, D = b->s.D, wide = (H + 2 * K) * D;
    Descriptor q = heads(b, UID_Q, H, wide), k_t = heads_t(b, UID_K, K, wide);
    Descriptor v_t = heads_t(b, UID_V, K, wide), d_o = heads(b, UID_DO, H, H * D);
    Descriptor scale = number(b, UID_SCALE);

    Descriptor delta = pointwise(b, CUDNN_POINTWISE_MUL, d_o, heads(b, UID_O, H, H * D),
                                 between(b, CUDNN_DATA_FLOAT, D));
    delta = reduce(b, CUDNN_REDUCE_TENSOR_ADD, delta, between(b, CUDNN_DATA_FLOAT, 1));
    delta = pointwise(b, CUDNN_POINTWISE_MUL, delta, number(b, UID_ONE), rows(b, UID_DELTA));

    Descriptor p = product(b, q, k_t, scores(b));
    p = pointwise(b, CUDNN_POINTWISE_MUL, p, scale, scores(b));
    p = pointwise(b, CUDNN_POINTWISE_SUB, p, rows(b, UID_LSE), scores(b));
    p = mask(b, p);
    p = pointwise(b, CUDNN_POINTWISE_EXP, p, NULL, scores(b));
    product_of_keys(b, p, d_o, UID_DV);

    Descriptor ds = product(b, d_o, v_t, scores(b));
    ds = pointwise(b, CUDNN_POINTWISE_SUB, ds, delta, scores(b));
    ds = pointwise(b, CUDNN_POINTWISE_MUL, ds, p, scores(b));
    ds = pointwise(b, CUDNN_POINTWISE_MUL, ds, scale, scores(b));
    product_of_keys(b, ds, q, UID_DK);

    Descriptor k = tensor(b, b->next++, b->type, VIRTUAL, (int64_t[]){b->s.B, K, b->s.T, D},
                          (int64_t[]){b->s.T * wide, D, wide, 1});
    product(b, ds, reshape(b, k_t, k), heads(b, UID_DQ, H, wide));
}

/* ---- plans ----------------------------------------------------------------------------------- */

static Descriptor device_of(Build *b, const char *json)
{
    Descriptor d = make(b, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
    set(b, d, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, (int64_t)strlen(json) + 1,
        json);
    return done(b, d);
}

/* Compiles the first configuration in cuDNN's own ranking that compiles. */
static void compile(Build *b, Descriptor graph, Descriptor device, CudnnAttention *a)
{
    Descriptor config[MAX_CONFIGS] = {0}, heuristic = make(b, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    int64_t n = 0;
    set_part(b, heuristic, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
    set_enum(b, heuristic, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A);
    if (device)
        set_part(b, heuristic, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device);
    done(b, heuristic);
    for (int i = 0; i < MAX_CONFIGS; i++)
        config[i] = make(b, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    TRY(b, BackendGetAttribute, heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
        CUDNN_TYPE_BACKEND_DESCRIPTOR, MAX_CONFIGS, &n, config);
    if (!b->error && !n)
        b->error = failure("cuDNN has no kernel for this graph");
    char *refused = NULL;        /* why the last configuration did not compile */
    for (int64_t i = 0; i < n && !b->error && !a->plan; i++) {
        Descriptor plan = make(b, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
        if (device)
            set_part(b, plan, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device);
        else
            set(b, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &cudnn.handle);
        set_part(b, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config[i]);
        const int status = b->error ? 0 : cudnn.BackendFinalize(plan);
        if (status) {
            free(refused);
            refused = call_failure("cudnnBackendFinalize", status);
        } else {
            a->plan = plan;
        }
    }
    if (!b->error && !a->plan)
        b->error = refused;
    else
        free(refused);
    TRY(b, BackendGetAttribute, a->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64,
        1, &n, &a->workspace);
}

/* Refuses a gradient whose scores are not in memory: it would sum dq by atomics. */
static void check_deterministic(Build *b, const CudnnAttention *a)
{
    const CudnnAttentionShape *s = &a->shape;
    if (!b->error && a->is_backward && a->workspace < 2 * s->B * s->H * s->T * s->T)
        b->error = format("cuDNN %d needs %lld bytes for a gradient of attention, too few to be "
                          "deterministic", (int)cudnn_version(), (long long)a->workspace);
}

static CudnnAttention *attention(const CudnnAttentionShape *s, bool is_backward, const char *json,
                                 char **error)
{
    const char *missing = cudnn_open();
    if (missing) {
        *error = format("%s", missing);
        return NULL;
    }
    Build b = {.s = *s, .next = UID_VIRTUAL,
               .type = s->is_half ? CUDNN_DATA_HALF : CUDNN_DATA_BFLOAT16};
    CudnnAttention *a = calloc(1, sizeof *a);
    if (!a)
        die(EXIT_CONFIG, "out of memory");
    *a = (CudnnAttention){.shape = *s, .is_backward = is_backward, .scale = s->scale,
                          .low = -INFINITY, .one = 1};
    Descriptor device = json ? device_of(&b, json) : NULL;
    if (!device && !cudnn.handle)
        TRY(&b, Create, &cudnn.handle);
    (is_backward ? backward : forward)(&b);
    Descriptor graph = make(&b, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    set(&b, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, b.nops, b.op);
    if (!device)
        set(&b, graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &cudnn.handle);
    done(&b, graph);
    compile(&b, graph, device, a);
    check_deterministic(&b, a);
    if (!b.error)
        return a;
    free(a);
    *error = b.error;
    return NULL;
}

CudnnAttention *cudnn_attention_forward(const CudnnAttentionShape *shape, const char *device,
                                        char **error)
{
    return attention(shape, false, device, error);
}

CudnnAttention *cudnn_attention_backward(const CudnnAttentionShape *shape, const char *device,
                                         char **error)
{
    return attention(shape, true, device, error);
}

/* [cuDNN's own | delta (B, H, T) fp32, backward only] */
static int64_t own_bytes(const CudnnAttention *a)
{
    return (a->workspace + 255) / 256 * 256;
}

int64_t cudnn_attention_workspace(const CudnnAttention *a)
{
    const CudnnAttentionShape *s = &a->shape;
    return own_bytes(a) + (a->is_backward ? (4 * s->B * s->H * s->T + 255) / 256 * 256 : 0);
}

/* ---- runs ------------------------------------------------------------------------------------ */

typedef struct {
    int64_t id;
    const void *at;
} Address;

static char *run(CudnnAttention *a, const Address *address, int n, void *workspace,
                 struct CUstream_st *s)
{
    int64_t id[UID_VIRTUAL];
    const void *at[UID_VIRTUAL];
    Build b = {.error = NULL};
    for (int i = 0; i < n; i++)
        id[i] = address[i].id, at[i] = address[i].at;
    Descriptor pack = make(&b, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
    set(&b, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, n, id);
    set(&b, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, n, at);
    set(&b, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace);
    done(&b, pack);
    TRY(&b, SetStream, cudnn.handle, s);
    TRY(&b, BackendExecute, cudnn.handle, a->plan, pack);
    if (pack)
        cudnn.BackendDestroyDescriptor(pack);
    return b.error;
}

/* Address of element `at` of a tensor of 16-bit elements. */
static const void *element(const void *p, int64_t at)
{
    return (const uint16_t *)p + at;
}

char *cudnn_attention_run_forward(CudnnAttention *a, void *o, float *lse, const void *qkv,
                                  void *workspace, struct CUstream_st *s)
{
    const int64_t k = a->shape.H * a->shape.D, v = k + a->shape.K * a->shape.D;
    const Address at[] = {{UID_Q, qkv}, {UID_K, element(qkv, k)}, {UID_V, element(qkv, v)},
                          {UID_O, o}, {UID_LSE, lse}, {UID_SCALE, &a->scale}, {UID_LOW, &a->low}};
    return run(a, at, sizeof at / sizeof at[0], workspace, s);
}

char *cudnn_attention_run_backward(CudnnAttention *a, void *dqkv, const void *d_o, const void *o,
                                   const float *lse, const void *qkv, void *workspace,
                                   struct CUstream_st *s)
{
    const int64_t k = a->shape.H * a->shape.D, v = k + a->shape.K * a->shape.D;
    const Address at[] = {{UID_Q, qkv}, {UID_K, element(qkv, k)}, {UID_V, element(qkv, v)},
                          {UID_O, o}, {UID_LSE, lse}, {UID_DO, d_o},
                          {UID_DQ, dqkv}, {UID_DK, element(dqkv, k)}, {UID_DV, element(dqkv, v)},
                          {UID_DELTA, (char *)workspace + own_bytes(a)},
                          {UID_SCALE, &a->scale}, {UID_LOW, &a->low}, {UID_ONE, &a->one}};
    return run(a, at, sizeof at / sizeof at[0], workspace, s);
}
