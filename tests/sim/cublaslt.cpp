/* cublaslt.cpp -- cuBLASLt on a plain product: the same rounding points, and a stricter door.
 *
 * Keeps: D = epilogue(alpha op(A) op(B) + beta C) with sums in fp32, in order of k within each part
 *        of a split product, one rounding at the end. What the manual does not promise for these
 *        types, layouts and pointers is CUBLAS_STATUS_NOT_SUPPORTED: a refusal of ours that the
 *        library would accept costs a look, the opposite a run on a GPU. */
#include "gemm.h"
#include "host.h"

#include "include/cublasLt.h"

#include <stdlib.h>
#include <string.h>

/* ---- what is behind the opaque descriptors ---- */

struct cublasLtContext {
    uint32_t mark;
};

struct Layout {
    int32_t type, order, batch, unused;
    uint64_t rows, cols;
    int64_t ld;
};

struct Desc {
    int32_t compute, scale, pointer_mode, trans_a, trans_b;
    uint32_t epilogue;
    void *bias, *aux;
    int64_t aux_ld;
    int32_t bias_type, aux_type;     /* -1: that of D */
};

struct Preference {
    uint64_t workspace;
    uint32_t search, schemes, align[4];
};

struct Algo {
    uint32_t id, tile, split, scheme, swizzle, custom, stages;
    uint16_t inner, cluster;
    int16_t compute, scale, types[4];
    uint32_t align;                  /* bytes that every operand must be a multiple of */
    uint32_t hidden;                 /* HIDDEN: part of an algorithm that no attribute tells */
};

static_assert(sizeof(Layout) <= sizeof(cublasLtMatrixLayoutOpaque_t));
static_assert(sizeof(Desc) <= sizeof(cublasLtMatmulDescOpaque_t));
static_assert(sizeof(Preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t));
static_assert(sizeof(Algo) <= sizeof(cublasLtMatmulAlgo_t));

enum { HANDLE_MARK = 0x6c74, HIDDEN = 0x5eed, ALGO_WORKSPACE = 64 << 10, MAX_SPLIT = 32, WORKSPACE_ALIGN = 256 };

/* The algorithms on offer: numbers of the library's own catalogue, configurations of ours, the
 * better first. Those with `vector` want all operands in pieces of 16 bytes. */
static const struct Choice {
    uint32_t id, tile, stages, split, scheme;
    bool vector;
} choices[] = {
    {66, CUBLASLT_MATMUL_TILE_128x128, CUBLASLT_MATMUL_STAGES_64x4, 1, 0, true},
    {66, CUBLASLT_MATMUL_TILE_128x256, CUBLASLT_MATMUL_STAGES_64x3, 1, 0, true},
    {21, CUBLASLT_MATMUL_TILE_128x64, CUBLASLT_MATMUL_STAGES_64x3, 1, 0, true},
    {21, CUBLASLT_MATMUL_TILE_64x64, CUBLASLT_MATMUL_STAGES_32x4, 4,
     CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE, true},
    {21, CUBLASLT_MATMUL_TILE_64x64, CUBLASLT_MATMUL_STAGES_32x4, 4,
     CUBLASLT_REDUCTION_SCHEME_INPLACE, true},
    {0, CUBLASLT_MATMUL_TILE_64x64, CUBLASLT_MATMUL_STAGES_UNDEFINED, 1, 0, false},
};

template <typename T, typename Opaque> static T *inside(Opaque *opaque)
{
    return reinterpret_cast<T *>(opaque->data);
}

template <typename T, typename Opaque> static const T *inside(const Opaque *opaque)
{
    return reinterpret_cast<const T *>(opaque->data);
}

static int64_t type_size(int type)
{
    return type == CUDA_R_32F ? 4 : type == CUDA_R_16F || type == CUDA_R_16BF ? 2 : 0;
}

/* ---- attributes ---- */

struct Attribute {
    int attr;
    size_t offset, size;
};

static cublasStatus_t set_attribute(void *object, const Attribute *rows, size_t n, int attr,
                                    const void *buf, size_t size)
{
    for (size_t i = 0; i < n; i++)
        if (rows[i].attr == attr) {
            if (!buf || size != rows[i].size)
                return CUBLAS_STATUS_INVALID_VALUE;
            memcpy((char *)object + rows[i].offset, buf, size);
            return CUBLAS_STATUS_SUCCESS;
        }
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

#define MEMBER(type, member) offsetof(type, member), sizeof(type::member)
#define SET(object, rows, attr, buf, size) \
    set_attribute(object, rows, sizeof(rows) / sizeof *(rows), attr, buf, size)

static const Attribute desc_attributes[] = {
    {CUBLASLT_MATMUL_DESC_COMPUTE_TYPE, MEMBER(Desc, compute)},
    {CUBLASLT_MATMUL_DESC_SCALE_TYPE, MEMBER(Desc, scale)},
    {CUBLASLT_MATMUL_DESC_POINTER_MODE, MEMBER(Desc, pointer_mode)},
    {CUBLASLT_MATMUL_DESC_TRANSA, MEMBER(Desc, trans_a)},
    {CUBLASLT_MATMUL_DESC_TRANSB, MEMBER(Desc, trans_b)},
    {CUBLASLT_MATMUL_DESC_EPILOGUE, MEMBER(Desc, epilogue)},
    {CUBLASLT_MATMUL_DESC_BIAS_POINTER, MEMBER(Desc, bias)},
    {CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, MEMBER(Desc, bias_type)},
    {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, MEMBER(Desc, aux)},
    {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, MEMBER(Desc, aux_ld)},
    {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, MEMBER(Desc, aux_type)},
};

static const Attribute layout_attributes[] = {
    {CUBLASLT_MATRIX_LAYOUT_TYPE, MEMBER(Layout, type)},
    {CUBLASLT_MATRIX_LAYOUT_ORDER, MEMBER(Layout, order)},
    {CUBLASLT_MATRIX_LAYOUT_ROWS, MEMBER(Layout, rows)},
    {CUBLASLT_MATRIX_LAYOUT_COLS, MEMBER(Layout, cols)},
    {CUBLASLT_MATRIX_LAYOUT_LD, MEMBER(Layout, ld)},
    {CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, MEMBER(Layout, batch)},
};

static const Attribute preference_attributes[] = {
    {CUBLASLT_MATMUL_PREF_SEARCH_MODE, MEMBER(Preference, search)},
    {CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, MEMBER(Preference, workspace)},
    {CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, MEMBER(Preference, schemes)},
    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, MEMBER(Preference, align[0])},
    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, MEMBER(Preference, align[1])},
    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, MEMBER(Preference, align[2])},
    {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, MEMBER(Preference, align[3])},
};

static const Attribute algo_attributes[] = {
    {CUBLASLT_ALGO_CONFIG_ID, MEMBER(Algo, id)},
    {CUBLASLT_ALGO_CONFIG_TILE_ID, MEMBER(Algo, tile)},
    {CUBLASLT_ALGO_CONFIG_SPLITK_NUM, MEMBER(Algo, split)},
    {CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, MEMBER(Algo, scheme)},
    {CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, MEMBER(Algo, swizzle)},
    {CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, MEMBER(Algo, custom)},
    {CUBLASLT_ALGO_CONFIG_STAGES_ID, MEMBER(Algo, stages)},
    {CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, MEMBER(Algo, inner)},
    {CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, MEMBER(Algo, cluster)},
};

template <typename Handle, typename Opaque>
static cublasStatus_t create(Handle *handle, Opaque value)
{
    if (!handle)
        return CUBLAS_STATUS_INVALID_VALUE;
    *handle = new Opaque(value);
    return CUBLAS_STATUS_SUCCESS;
}

template <typename Handle> static cublasStatus_t destroy(Handle handle)
{
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    return create(handle, cublasLtContext{HANDLE_MARK});
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    return handle ? destroy(handle) : CUBLAS_STATUS_NOT_INITIALIZED;
}

size_t cublasLtGetVersion(void)
{
    return CUBLAS_VERSION;
}

size_t cublasLtGetCudartVersion(void)
{
    return CUDART_VERSION;
}

const char *cublasLtGetStatusName(cublasStatus_t status)
{
    switch (status) {
#define STATUS(name) case name: return #name;
        STATUS(CUBLAS_STATUS_SUCCESS)
        STATUS(CUBLAS_STATUS_NOT_INITIALIZED)
        STATUS(CUBLAS_STATUS_ALLOC_FAILED)
        STATUS(CUBLAS_STATUS_INVALID_VALUE)
        STATUS(CUBLAS_STATUS_ARCH_MISMATCH)
        STATUS(CUBLAS_STATUS_MAPPING_ERROR)
        STATUS(CUBLAS_STATUS_EXECUTION_FAILED)
        STATUS(CUBLAS_STATUS_INTERNAL_ERROR)
        STATUS(CUBLAS_STATUS_NOT_SUPPORTED)
        STATUS(CUBLAS_STATUS_LICENSE_ERROR)
#undef STATUS
    }
    return "CUBLAS_STATUS_UNKNOWN";
}

const char *cublasLtGetStatusString(cublasStatus_t status)
{
    return cublasLtGetStatusName(status);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc, cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    cublasLtMatmulDescOpaque_t opaque = {};
    *inside<Desc>(&opaque) = {compute, scale, CUBLASLT_POINTER_MODE_HOST, CUBLAS_OP_N, CUBLAS_OP_N,
                              CUBLASLT_EPILOGUE_DEFAULT, nullptr, nullptr, 0, -1, -1};
    return create(desc, opaque);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    return destroy(desc);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                              cublasLtMatmulDescAttributes_t attr,
                                              const void *buf, size_t size)
{
    return SET(inside<Desc>(desc), desc_attributes, attr, buf, size);
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *layout, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld)
{
    cublasLtMatrixLayoutOpaque_t opaque = {};
    *inside<Layout>(&opaque) = {type, CUBLASLT_ORDER_COL, 1, 0, rows, cols, ld};
    return create(layout, opaque);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    return destroy(layout);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                cublasLtMatrixLayoutAttribute_t attr,
                                                const void *buf, size_t size)
{
    return SET(inside<Layout>(layout), layout_attributes, attr, buf, size);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *pref)
{
    cublasLtMatmulPreferenceOpaque_t opaque = {};
    *inside<Preference>(&opaque) = {0, CUBLASLT_SEARCH_BEST_FIT, CUBLASLT_REDUCTION_SCHEME_MASK,
                                    {256, 256, 256, 256}};
    return create(pref, opaque);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t pref)
{
    return destroy(pref);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t pref,
                                                    cublasLtMatmulPreferenceAttributes_t attr,
                                                    const void *buf, size_t size)
{
    return SET(inside<Preference>(pref), preference_attributes, attr, buf, size);
}

cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attr,
                                                    const void *buf, size_t size)
{
    if (attr == CUBLASLT_ALGO_CONFIG_ID)     /* is what AlgoInit made it */
        return CUBLAS_STATUS_INVALID_VALUE;
    return SET(inside<Algo>(algo), algo_attributes, attr, buf, size);
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                                    cublasLtMatmulAlgoConfigAttributes_t attr,
                                                    void *buf, size_t size, size_t *written)
{
    for (const Attribute &row : algo_attributes)
        if (row.attr == (int)attr) {
            if (written)
                *written = row.size;
            if (!buf || size < row.size)
                return CUBLAS_STATUS_INVALID_VALUE;
            memcpy(buf, (const char *)inside<Algo>(algo) + row.offset, row.size);
            return CUBLAS_STATUS_SUCCESS;
        }
    return CUBLAS_STATUS_NOT_SUPPORTED;
}

/* ---- which products there are ---- */

struct Problem {
    int64_t m, n, k;
    Layout a, b, c, d;
    Desc desc;
};

/* Types of CUBLAS_COMPUTE_32F with a scale of CUDA_R_32F: inputs alike; C and D alike, either the
 * inputs' type or fp32 (manual, table of supported types of cublasLtMatmul). */
static bool types_supported(int compute, int scale, int a, int b, int c, int d)
{
    return compute == CUBLAS_COMPUTE_32F && scale == CUDA_R_32F && type_size(a) && a == b &&
           c == d && (d == a || d == CUDA_R_32F);
}

static bool layout_supported(const Layout &l)
{
    return type_size(l.type) && l.order == CUBLASLT_ORDER_COL && l.batch == 1 && l.rows > 0 &&
           l.cols > 0 && l.ld >= (int64_t)l.rows;
}

static bool sums_k(const Desc &e)
{
    return e.epilogue == CUBLASLT_EPILOGUE_BGRADA || e.epilogue == CUBLASLT_EPILOGUE_BGRADB;
}

/* The activations of GELU are promised for 16-bit matrices; beta with them is not. Sums over k are
 * asked for from 16-bit matrices whose rows are pieces of 16 bytes, and in D's type. */
static bool epilogue_supported(const Problem &p)
{
    const Desc &e = p.desc;
    bool has_bias = e.epilogue & CUBLASLT_EPILOGUE_BIAS, has_aux = e.epilogue & 128;
    if ((has_bias || sums_k(e)) && e.bias_type != -1 && e.bias_type != p.d.type)
        return false;
    switch (e.epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
    case CUBLASLT_EPILOGUE_BIAS:
        return true;
    case CUBLASLT_EPILOGUE_BGRADA:
    case CUBLASLT_EPILOGUE_BGRADB:
        return p.a.type != CUDA_R_32F && p.a.ld % 8 == 0 && p.b.ld % 8 == 0;
    case CUBLASLT_EPILOGUE_GELU_AUX:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
    case CUBLASLT_EPILOGUE_DGELU:
        return has_aux && p.a.type != CUDA_R_32F && p.d.type == p.a.type &&
               (e.aux_type == -1 || e.aux_type == p.d.type) && e.aux_ld % 8 == 0 &&
               e.aux_ld >= p.m;
    }
    return false;
}

static cublasStatus_t problem_from(Problem *p, const cublasLtMatmulDescOpaque_t *desc,
                                   const cublasLtMatrixLayoutOpaque_t *a,
                                   const cublasLtMatrixLayoutOpaque_t *b,
                                   const cublasLtMatrixLayoutOpaque_t *c,
                                   const cublasLtMatrixLayoutOpaque_t *d)
{
    if (!desc || !a || !b || !c || !d)
        return CUBLAS_STATUS_INVALID_VALUE;
    p->desc = *inside<Desc>(desc);
    p->a = *inside<Layout>(a);
    p->b = *inside<Layout>(b);
    p->c = *inside<Layout>(c);
    p->d = *inside<Layout>(d);
    if (p->desc.trans_a > CUBLAS_OP_T || p->desc.trans_b > CUBLAS_OP_T)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    p->m = (int64_t)(p->desc.trans_a ? p->a.cols : p->a.rows);
    p->k = (int64_t)(p->desc.trans_a ? p->a.rows : p->a.cols);
    p->n = (int64_t)(p->desc.trans_b ? p->b.rows : p->b.cols);
    if ((int64_t)(p->desc.trans_b ? p->b.cols : p->b.rows) != p->k ||
        (int64_t)p->d.rows != p->m || (int64_t)p->d.cols != p->n || p->c.rows != p->d.rows ||
        p->c.cols != p->d.cols)
        return CUBLAS_STATUS_INVALID_VALUE;
    for (const Layout *l : {&p->a, &p->b, &p->c, &p->d})
        if (!layout_supported(*l))
            return CUBLAS_STATUS_INVALID_VALUE;
    if (p->desc.pointer_mode != CUBLASLT_POINTER_MODE_HOST ||
        !types_supported(p->desc.compute, p->desc.scale, p->a.type, p->b.type, p->c.type,
                         p->d.type) ||
        !epilogue_supported(*p))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return CUBLAS_STATUS_SUCCESS;
}

static uint64_t workspace_of(const Algo &algo, const Problem &p)
{
    return algo.scheme == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
               ? 4 * (uint64_t)algo.split * (uint64_t)p.m * (uint64_t)p.n
               : algo.align == 16 ? (uint64_t)ALGO_WORKSPACE : 0;
}

/* Leading dimensions keep every column where the algorithm wants it? */
static bool aligned(const Problem &p, uint32_t align)
{
    for (const Layout *l : {&p.a, &p.b, &p.c, &p.d})
        if (l->ld * type_size(l->type) % align)
            return false;
    return true;
}

static Algo algo_make(const Choice &choice, int compute, int scale, int a, int b, int c, int d)
{
    Algo algo = {};
    algo.id = choice.id;
    algo.tile = choice.tile;
    algo.stages = choice.stages;
    algo.split = choice.split;
    algo.scheme = choice.scheme;
    algo.cluster = choice.id == 66 ? CUBLASLT_CLUSTER_SHAPE_2x1x1 : CUBLASLT_CLUSTER_SHAPE_1x1x1;
    algo.compute = (int16_t)compute;
    algo.scale = (int16_t)scale;
    algo.types[0] = (int16_t)a;
    algo.types[1] = (int16_t)b;
    algo.types[2] = (int16_t)c;
    algo.types[3] = (int16_t)d;
    algo.align = choice.vector ? 16 : (uint32_t)type_size(a);
    algo.hidden = HIDDEN;
    return algo;
}

static const Choice *choice_of(uint32_t id)
{
    for (const Choice &c : choices)
        if (c.id == id)
            return &c;
    return nullptr;
}

/* A configuration that the catalogue has: the tile and stages of one of its rows, any split with a
 * scheme that adds the parts up. */
static cublasStatus_t algo_check(const Algo &algo, const Problem &p)
{
    bool known = false;
    for (const Choice &c : choices)
        known |= c.id == algo.id && c.tile == algo.tile && c.stages == algo.stages;
    if (!known || algo.hidden != HIDDEN)
        return CUBLAS_STATUS_INVALID_VALUE;
    bool split = algo.split > 1;
    if (algo.compute != p.desc.compute || algo.scale != p.desc.scale || algo.types[0] != p.a.type ||
        algo.types[1] != p.b.type || algo.types[2] != p.c.type || algo.types[3] != p.d.type)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (algo.split < 1 || algo.split > MAX_SPLIT || algo.inner || algo.custom || algo.swizzle > 1 ||
        algo.cluster > CUBLASLT_CLUSTER_SHAPE_2x1x1 ||
        split != (algo.scheme == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE ||
                  algo.scheme == CUBLASLT_REDUCTION_SCHEME_INPLACE))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (algo.scheme == CUBLASLT_REDUCTION_SCHEME_INPLACE && p.d.type != CUDA_R_32F)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return aligned(p, algo.align) ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

/* ---- choosing ---- */

/* All choices, the better first: sums that are long against the result are split. */
static std::vector<const Choice *> favourites(const Problem &p)
{
    std::vector<const Choice *> list;
    bool split_first = p.k >= 4 * p.m && p.k >= 4 * p.n;
    for (int wanted = 1; wanted >= 0; wanted--)
        for (const Choice &c : choices)
            if ((c.split > 1 && split_first) == (wanted == 1))
                list.push_back(&c);
    return list;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t pref, int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int *returned)
{
    if (!handle || handle->mark != HANDLE_MARK)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!pref || !results || !returned || requested < 1)
        return CUBLAS_STATUS_INVALID_VALUE;
    *returned = 0;
    Problem p;
    cublasStatus_t status = problem_from(&p, desc, a, b, c, d);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    const Preference *want = inside<Preference>(pref);
    uint32_t promised = want->align[0];
    for (uint32_t align : want->align)
        promised = align < promised ? align : promised;
    for (const Choice *choice : favourites(p)) {
        Algo algo = algo_make(*choice, p.desc.compute, p.desc.scale, p.a.type, p.b.type, p.c.type,
                              p.d.type);
        if (*returned == requested || algo.align > promised ||
            (algo.scheme & want->schemes) != algo.scheme ||
            workspace_of(algo, p) > want->workspace ||
            algo_check(algo, p) != CUBLAS_STATUS_SUCCESS)
            continue;
        cublasLtMatmulHeuristicResult_t *result = &results[(*returned)++];
        *result = {};
        *inside<Algo>(&result->algo) = algo;
        result->workspaceSize = workspace_of(algo, p);
        result->wavesCount = 1;
    }
    return *returned ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulAlgoGetIds(cublasLtHandle_t handle, cublasComputeType_t compute,
                                        cudaDataType_t scale, cudaDataType_t a, cudaDataType_t b,
                                        cudaDataType_t c, cudaDataType_t d, int requested,
                                        int ids[], int *returned)
{
    if (!handle || handle->mark != HANDLE_MARK)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!ids || !returned || requested < 1)
        return CUBLAS_STATUS_INVALID_VALUE;
    *returned = 0;
    if (!types_supported(compute, scale, a, b, c, d))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    for (const Choice &choice : choices)
        if (choice_of(choice.id) == &choice && *returned < requested)
            ids[(*returned)++] = (int)choice.id;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t handle, cublasComputeType_t compute,
                                      cudaDataType_t scale, cudaDataType_t a, cudaDataType_t b,
                                      cudaDataType_t c, cudaDataType_t d, int id,
                                      cublasLtMatmulAlgo_t *algo)
{
    if (!handle || handle->mark != HANDLE_MARK)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    const Choice *choice = choice_of((uint32_t)id);
    if (!algo || !choice)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!types_supported(compute, scale, a, b, c, d))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    *algo = {};
    *inside<Algo>(algo) = algo_make(*choice, compute, scale, a, b, c, d);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                       cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t *algo,
                                       cublasLtMatmulHeuristicResult_t *result)
{
    if (!handle || handle->mark != HANDLE_MARK)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!algo || !result)
        return CUBLAS_STATUS_INVALID_VALUE;
    Problem p;
    cublasStatus_t status = problem_from(&p, desc, a, b, c, d);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = algo_check(*inside<Algo>(algo), p);
    cublasLtMatmulAlgo_t copy = *algo;
    *result = {};
    result->algo = copy;
    result->state = status;
    if (status == CUBLAS_STATUS_SUCCESS) {
        result->workspaceSize = workspace_of(*inside<Algo>(algo), p);
        result->wavesCount = 1;
    }
    return status;
}

static size_t list_of(uint32_t id, uint32_t Choice::*member, uint32_t *list)
{
    size_t n = 0;
    for (const Choice &choice : choices) {
        bool listed = choice.id != id;
        for (size_t i = 0; i < n; i++)
            listed |= list[i] == choice.*member;
        if (!listed)
            list[n++] = choice.*member;
    }
    return n;
}

cublasStatus_t cublasLtMatmulAlgoCapGetAttribute(const cublasLtMatmulAlgo_t *algo,
                                                 cublasLtMatmulAlgoCapAttributes_t attr, void *buf,
                                                 size_t size, size_t *written)
{
    const Algo *a = inside<Algo>(algo);
    bool vector = a->align == 16;
    uint32_t list[sizeof choices / sizeof *choices];
    size_t n = 1;
    switch (attr) {
    case CUBLASLT_ALGO_CAP_SPLITK_SUPPORT:
        list[0] = vector;
        break;
    case CUBLASLT_ALGO_CAP_REDUCTION_SCHEME_MASK:
        if (vector)
            list[0] = CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
        else
            list[0] = CUBLASLT_REDUCTION_SCHEME_NONE;
        break;
    case CUBLASLT_ALGO_CAP_CTA_SWIZZLING_SUPPORT:
        list[0] = 1;
        break;
    case CUBLASLT_ALGO_CAP_CUSTOM_OPTION_MAX:
        list[0] = 0;
        break;
    case CUBLASLT_ALGO_CAP_TILE_IDS:
        n = list_of(a->id, &Choice::tile, list);
        break;
    case CUBLASLT_ALGO_CAP_STAGES_IDS:
        n = list_of(a->id, &Choice::stages, list);
        break;
    case CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_ALGO_CAP_MIN_ALIGNMENT_D_BYTES:
        list[0] = a->align;
        break;
    default:
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    bool is_list = attr == CUBLASLT_ALGO_CAP_TILE_IDS || attr == CUBLASLT_ALGO_CAP_STAGES_IDS;
    if (written)
        *written = n * sizeof *list;
    if (!buf || size == 0)
        return is_list ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
    if (size < sizeof *list)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(buf, list, size < n * sizeof *list ? size : n * sizeof *list);
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- the product ---- */

/* The current operation touches the columns of a matrix. */
static void touch(void (*access)(const void *, size_t), const Layout &l, const void *p)
{
    int64_t size = type_size(l.type);
    if (l.ld == (int64_t)l.rows)
        return access(p, (size_t)(l.rows * l.cols) * (size_t)size);
    for (uint64_t col = 0; col < l.cols; col++)
        access((const char *)p + (int64_t)col * l.ld * size, l.rows * (size_t)size);
}

static void write_const(const void *p, size_t bytes)
{
    sim_write(const_cast<void *>(p), bytes);
}

/* BGRADA adds op(A), BGRADB op(B) along k, in fp32. */
static void store_sums(const Problem &p, const void *a, const void *b)
{
    bool of_a = p.desc.epilogue == CUBLASLT_EPILOGUE_BGRADA;
    const Layout &l = of_a ? p.a : p.b;
    bool k_along_rows = of_a ? p.desc.trans_a : !p.desc.trans_b;
    for (int64_t i = 0; i < (of_a ? p.m : p.n); i++) {
        float sum = 0;
        for (int64_t k = 0; k < p.k; k++)
            sum += gemm_load(of_a ? a : b, l.type, k_along_rows ? i * l.ld + k : k * l.ld + i);
        gemm_store(p.desc.bias, p.d.type, i, sum);
    }
}

struct Product {
    Problem p;
    Algo algo;
    float alpha, beta;
    const void *a, *b, *c;
    void *d, *workspace;
};

static void product_touch(const Product &x)
{
    const Problem &p = x.p;
    Layout aux = p.d;
    aux.ld = p.desc.aux_ld;
    touch(sim_read, p.a, x.a);
    touch(sim_read, p.b, x.b);
    if (x.beta != 0)
        touch(sim_read, p.c, x.c);
    if (p.desc.epilogue & CUBLASLT_EPILOGUE_BIAS)
        sim_read(p.desc.bias, (size_t)(p.m * type_size(p.d.type)));
    if (sums_k(p.desc))
        sim_write(p.desc.bias, (size_t)((p.desc.epilogue == CUBLASLT_EPILOGUE_BGRADA ? p.m : p.n) *
                                        type_size(p.d.type)));
    if (p.desc.epilogue == CUBLASLT_EPILOGUE_DGELU)
        touch(sim_read, aux, p.desc.aux);
    if (p.desc.epilogue & CUBLASLT_EPILOGUE_GELU)
        touch(write_const, aux, p.desc.aux);
    if (uint64_t bytes = workspace_of(x.algo, p))
        sim_write(x.workspace, bytes);
    touch(write_const, p.d, x.d);
}

static bool product_run(const Product &x)
{
    const Problem &p = x.p;
    product_touch(x);
    std::vector<float> sum((size_t)(p.m * p.n), 0), part;
    for (uint32_t i = 0; i < x.algo.split; i++) {
        int64_t first = p.k * i / x.algo.split, last = p.k * (i + 1) / x.algo.split;
        std::vector<float> &to = i ? part : sum;
        to.assign((size_t)(p.m * p.n), 0);
        gemm_add(to.data(), {x.a, p.a.type, p.a.ld, p.desc.trans_a == CUBLAS_OP_T},
                 {x.b, p.b.type, p.b.ld, p.desc.trans_b == CUBLAS_OP_T}, p.m, p.n, first, last);
        for (size_t j = 0; i && j < sum.size(); j++)
            sum[j] += part[j];
    }
    const Desc &e = p.desc;
    if (sums_k(e))
        store_sums(p, x.a, x.b);
    for (int64_t col = 0; col < p.n; col++)
        for (int64_t row = 0; row < p.m; row++) {
            float v = x.alpha * sum[(size_t)(col * p.m + row)];
            if (x.beta != 0)
                v += x.beta * gemm_load(x.c, p.c.type, col * p.c.ld + row);
            if (e.epilogue & CUBLASLT_EPILOGUE_BIAS)
                v += gemm_load(e.bias, p.d.type, row);
            if (e.epilogue & CUBLASLT_EPILOGUE_GELU) {
                gemm_store(e.aux, p.d.type, col * e.aux_ld + row, v);
                v = gemm_gelu(v);
            } else if (e.epilogue == CUBLASLT_EPILOGUE_DGELU) {
                v *= gemm_gelu_grad(gemm_load(e.aux, p.d.type, col * e.aux_ld + row));
            }
            gemm_store(x.d, p.d.type, col * p.d.ld + row, v);
        }
    return true;
}

static bool on_device(const void *p)
{
    SimMemory kind;
    return sim_find(p, &kind, nullptr, nullptr) && kind == SIM_DEVICE;
}

/* Pointers as the algorithm and the epilogue want them? */
static cublasStatus_t check_pointers(const Product &x, uint64_t workspace_size)
{
    const Desc &e = x.p.desc;
    bool bias = (e.epilogue & CUBLASLT_EPILOGUE_BIAS) || sums_k(e), aux = e.epilogue & 128;
    const void *all[] = {x.a, x.b, x.beta != 0 ? x.c : x.d, x.d};
    for (const void *p : all)
        if (!p || !on_device(p))
            return CUBLAS_STATUS_INVALID_VALUE;
        else if ((uintptr_t)p % x.algo.align)
            return CUBLAS_STATUS_NOT_SUPPORTED;
    if ((bias && !on_device(e.bias)) || (aux && !on_device(e.aux)))
        return CUBLAS_STATUS_INVALID_VALUE;
    if ((bias && (uintptr_t)e.bias % 16) || (aux && (uintptr_t)e.aux % 16))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    uint64_t needed = workspace_of(x.algo, x.p);
    if (needed > workspace_size || (needed && !on_device(x.workspace)) ||
        (uintptr_t)x.workspace % WORKSPACE_ALIGN)
        return CUBLAS_STATUS_INVALID_VALUE;
    /* in place only with one and the same layout */
    if (x.beta != 0 && x.c == x.d && x.p.c.ld != x.p.d.ld)
        return CUBLAS_STATUS_INVALID_VALUE;
    return CUBLAS_STATUS_SUCCESS;
}

/* Without an algorithm of the caller's: the first that the pointers and the workspace allow. */
static cublasStatus_t choose(Product *x, uint64_t workspace_size)
{
    for (const Choice *choice : favourites(x->p)) {
        x->algo = algo_make(*choice, x->p.desc.compute, x->p.desc.scale, x->p.a.type, x->p.b.type,
                            x->p.c.type, x->p.d.type);
        if (algo_check(x->algo, x->p) == CUBLAS_STATUS_SUCCESS &&
            check_pointers(*x, workspace_size) == CUBLAS_STATUS_SUCCESS)
            return CUBLAS_STATUS_SUCCESS;
    }
    return check_pointers(*x, workspace_size);
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                              const void *alpha, const void *A, cublasLtMatrixLayout_t a,
                              const void *B, cublasLtMatrixLayout_t b, const void *beta,
                              const void *C, cublasLtMatrixLayout_t c, void *D,
                              cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t workspace_size, cudaStream_t stream)
{
    SimLock lock(sim_mutex);
    if (!handle || handle->mark != HANDLE_MARK)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!alpha || !beta)
        return CUBLAS_STATUS_INVALID_VALUE;
    Product x = {{}, {}, *(const float *)alpha, *(const float *)beta, A, B, C, D, workspace};
    cublasStatus_t status = problem_from(&x.p, desc, a, b, c, d);
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    /* as the library does on an H200 (13.1.0), whatever the pointer */
    if (x.p.desc.bias && !(x.p.desc.epilogue & CUBLASLT_EPILOGUE_BIAS || sums_k(x.p.desc)))
        return CUBLAS_STATUS_INVALID_VALUE;
    if ((x.beta != 0 && x.p.desc.epilogue & 128) ||
        (sums_k(x.p.desc) && (x.beta != 0 || x.alpha != 1)))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (algo) {
        x.algo = *inside<Algo>(algo);
        status = algo_check(x.algo, x.p);
        if (status == CUBLAS_STATUS_SUCCESS)
            status = check_pointers(x, workspace_size);
    } else {
        status = choose(&x, workspace_size);
    }
    if (status != CUBLAS_STATUS_SUCCESS)
        return status;
    return stream_enqueue(stream, "cublasLtMatmul", [x] { return product_run(x); }) == cudaSuccess
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_EXECUTION_FAILED;
}
