/* library.c -- a libcudnn.so.9 of the tests: descriptors remember what they were given, and a run computes causal
 * attention or its gradient from the tensors of its graph, in double. Memory of the simulated GPU is the host's: the
 * run is a host function of the stream, so that it can be captured. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
#define CUDNN(name, value) name = value,
#include "runtime/cudnn.def"
#undef CUDNN
    UIDS = 14, OPS = 32
};
/* as in runtime/attention_cudnn.c */
enum { Q = 1, KEY, V, O, LSE, DO, DQ, DK, DV, DELTA, SCALE, LOW, ONE };

typedef struct Descriptor Descriptor;
struct Descriptor {
    int kind, type;
    int64_t n, uid, size[4], stride[4], ids[UIDS];
    void *at[UIDS], *workspace;
    Descriptor *part[OPS];           /* ops of a graph; tensors of an op */
    int nparts;
    Descriptor *tensor[UIDS];        /* of a graph, of its plans, by id */
};

static Descriptor *latest;           /* the graph finalised last, which the next plan is for */

int cudnnCreate(void **to)
{
    *to = &latest;
    return 0;
}

static void *stream;

int cudnnSetStream(void *h, void *s)
{
    (void)h;
    stream = s;
    return 0;
}

size_t cudnnGetVersion(void)
{
    return 91900;
}

const char *cudnnGetErrorString(int status)
{
    return status ? "CUDNN_STATUS_OF_THE_TESTS" : "CUDNN_STATUS_SUCCESS";
}

void cudnnGetLastErrorString(char *to, size_t bytes)
{
    snprintf(to, bytes, "as the tests want it");
}

int cudnnBackendCreateDescriptor(int kind, Descriptor **to)
{
    *to = calloc(1, sizeof **to);
    (*to)->kind = kind;
    return *to ? 0 : 1;
}

int cudnnBackendDestroyDescriptor(Descriptor *d)
{
    free(d);
    return 0;
}

int cudnnBackendSetAttribute(Descriptor *d, int name, int type, int64_t n, const void *from)
{
    switch (name) {
    case ATTR_TENSOR_DATA_TYPE: memcpy(&d->type, from, sizeof d->type); break;
    case ATTR_TENSOR_DIMENSIONS: memcpy(d->size, from, sizeof d->size); break;
    case ATTR_TENSOR_STRIDES: memcpy(d->stride, from, sizeof d->stride); break;
    case ATTR_TENSOR_UNIQUE_ID: memcpy(&d->uid, from, sizeof d->uid); break;
    case ATTR_VARIANT_PACK_UNIQUE_IDS: d->n = n, memcpy(d->ids, from, (size_t)n * sizeof *d->ids); break;
    case ATTR_VARIANT_PACK_DATA_POINTERS: memcpy(d->at, from, (size_t)n * sizeof *d->at); break;
    case ATTR_VARIANT_PACK_WORKSPACE: memcpy(&d->workspace, from, sizeof d->workspace); break;
    default:
        if (type == TYPE_BACKEND_DESCRIPTOR && d->nparts + n <= OPS)
            memcpy(d->part + d->nparts, from, (size_t)n * sizeof *d->part), d->nparts += (int)n;
    }
    return 0;
}

static void collect(Descriptor *graph, Descriptor *of)
{
    if (of->kind == BACKEND_TENSOR_DESCRIPTOR && of->uid < UIDS)
        graph->tensor[of->uid] = of;
    for (int i = 0; i < of->nparts; i++)
        collect(graph, of->part[i]);
}

int cudnnBackendFinalize(Descriptor *d)
{
    if (d->kind == BACKEND_OPERATIONGRAPH_DESCRIPTOR)
        collect(d, d), latest = d;
    if (d->kind == BACKEND_EXECUTION_PLAN_DESCRIPTOR)
        memcpy(d->tensor, latest->tensor, sizeof d->tensor);
    return 0;
}

/* MORE_BYTES in the environment: what a later version may need. */
int cudnnBackendGetAttribute(Descriptor *d, int name, int type, int64_t room, int64_t *n, void *to)
{
    (void)type, (void)room;
    *n = 1;
    if (name == ATTR_EXECUTION_PLAN_WORKSPACE_SIZE) {
        const int64_t *q = d->tensor[Q]->size, tiles = (q[2] + 63) / 64 * 64 * ((q[2] + 127) / 128 * 128);
        *(int64_t *)to = 256 + (d->tensor[DQ] ? 2 * q[0] * q[1] * tiles : 0) +
                         (getenv("MORE_BYTES") ? atoll(getenv("MORE_BYTES")) : 0);
    }
    return 0;
}

/* ---- a run ----------------------------------------------------------------------------------- */

typedef struct {
    Descriptor *plan;
    void *at[UIDS], *workspace;
} Run;

static int64_t place(const Run *r, int id, int64_t b, int64_t h, int64_t t, int64_t d)
{
    const int64_t *s = r->plan->tensor[id]->stride;
    const int transposed = id == KEY || (id == V && r->plan->tensor[DQ]);
    return b * s[0] + h * s[1] + (transposed ? d * s[2] + t * s[3] : t * s[2] + d * s[3]);
}

static double get(const Run *r, int id, int64_t b, int64_t h, int64_t t, int64_t d)
{
    const int64_t at = place(r, id, b, h, t, d);
    if (r->plan->tensor[id]->type == DATA_FLOAT)
        return ((float *)r->at[id])[at];
    const uint32_t bits = (uint32_t)((uint16_t *)r->at[id])[at] << 16;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void put(const Run *r, int id, int64_t b, int64_t h, int64_t t, int64_t d, double v)
{
    const int64_t at = place(r, id, b, h, t, d);
    const float x = (float)v;
    uint32_t bits;
    if (r->plan->tensor[id]->type == DATA_FLOAT) {
        ((float *)r->at[id])[at] = x;
        return;
    }
    memcpy(&bits, &x, sizeof bits);
    ((uint16_t *)r->at[id])[at] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* x y^T of a row of each */
static double dot(const Run *r, int x, int64_t hx, int64_t tx, int y, int64_t hy, int64_t ty, int64_t b)
{
    double sum = 0;
    for (int64_t d = 0; d < r->plan->tensor[Q]->size[3]; d++)
        sum += get(r, x, b, hx, tx, d) * get(r, y, b, hy, ty, d);
    return sum;
}

static void compute(void *run)
{
    const Run r = *(Run *)run;
    const Descriptor *plan = r.plan;
    const int64_t *q = plan->tensor[Q]->size, B = q[0], H = q[1], T = q[2], D = q[3];
    const int64_t K = plan->tensor[KEY]->size[1], group = H / K;
    const double scale = *(float *)r.at[SCALE];
    const int backward = plan->tensor[DQ] != NULL;
    double *p = calloc((size_t)T, sizeof *p), *dk = calloc((size_t)(T * D), sizeof *dk);
    double *dv = calloc((size_t)(T * D), sizeof *dv), *row = calloc((size_t)D, sizeof *row);
    memset(r.workspace, 0x7f, 256);
    for (int64_t b = 0; b < B; b++)
        for (int64_t h = 0; h < H; h++) {
            const int64_t k = h / group;
            if (h % group == 0)
                memset(dk, 0, (size_t)(T * D) * sizeof *dk), memset(dv, 0, (size_t)(T * D) * sizeof *dv);
            for (int64_t t = 0; t < T; t++) {
                double top = *(float *)r.at[LOW], sum = 0;
                memset(row, 0, (size_t)D * sizeof *row);
                for (int64_t j = 0; j <= t; j++)
                    p[j] = scale * dot(&r, Q, h, t, KEY, k, j, b), top = fmax(top, p[j]);
                for (int64_t j = 0; j <= t; j++)
                    sum += exp(p[j] - top);
                const double lse = backward ? get(&r, LSE, b, h, t, 0) : top + log(sum);
                const double delta = backward ? dot(&r, DO, h, t, O, h, t, b) : 0;
                for (int64_t j = 0; j <= t; j++) {
                    const double pj = exp(p[j] - lse);
                    const double ds = backward ? scale * pj * (dot(&r, DO, h, t, V, k, j, b) - delta) : 0;
                    for (int64_t d = 0; d < D; d++) {
                        row[d] += backward ? ds * get(&r, KEY, b, k, j, d) : pj * get(&r, V, b, k, j, d);
                        if (backward) {
                            dk[j * D + d] += ds * get(&r, Q, b, h, t, d);
                            dv[j * D + d] += pj * get(&r, DO, b, h, t, d);
                        }
                    }
                }
                for (int64_t d = 0; d < D; d++)
                    put(&r, backward ? DQ : O, b, h, t, d, row[d]);
                if (!backward)
                    put(&r, LSE, b, h, t, 0, lse);
                else
                    put(&r, DELTA, b, h, t, 0, delta);
            }
            for (int64_t i = 0; backward && h % group == group - 1 && i < T * D; i++)
                put(&r, DK, b, k, i / D, i % D, dk[i]), put(&r, DV, b, k, i / D, i % D, dv[i]);
        }
    free(p), free(dk), free(dv), free(row);
}

int cudnnBackendExecute(void *h, Descriptor *plan, Descriptor *pack)
{
    (void)h;
    int (*launch)(void *s, void (*f)(void *), void *data);
    void *found = dlsym(RTLD_DEFAULT, "cudaLaunchHostFunc");
    memcpy(&launch, &found, sizeof found);
    Run *r = calloc(1, sizeof *r);                 // for as long as graphs may run it
    r->plan = plan, r->workspace = pack->workspace;
    for (int64_t i = 0; i < pack->n; i++)
        r->at[pack->ids[i]] = pack->at[i];
    return launch ? launch(stream, compute, r) : 1;
}
