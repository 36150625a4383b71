/* snapshot.c -- a copy in host memory of every array that a checkpoint stores.
 *
 * In:     arrays of the model on the device, of which ranks may hold parts.
 * Method: tensors of the same array share its copy. Whole arrays are copied at once,
 *         divided ones tensor by tensor, as rank 0 gathers them. */
#include "runtime/run/snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/device.h"
#include "runtime/model/absmax.h"
#include "runtime/model/model_parts.h"
#include "runtime/host_memory.h"

enum { ALIGN = 64, PIECE = 1 << 20 };        /* bytes, elements */

/* An array and its copy. */
typedef struct {
    const char *from;
    char *to;
    int64_t bytes;               /* of the copy, up to the last element of the last tensor */
    bool divided;
} Copied;

static struct {
    Copied *list;
    int n;
} copied;

/* ---- arrays ---------------------------------------------------------------------------------- */

/* The arrays of a tensor that a checkpoint stores: weight, master, moments; at NULL: none. */
enum { STATES = 4 };
static Array *state(Tensor *t, int i)
{
    Array *const all[STATES] = {&t->weight, &t->master, &t->exp_avg, &t->exp_avg_sq};
    return all[i];
}

/* False for the frozen base of adapters. */
static bool is_stored(const Model *m, const Tensor *t, int i)
{
    return i > 1 || t->adapter || t->not_in_model || !m->adapter_json;
}

/* Returns the elements from the start of the whole array to the tensor's last one. */
static int64_t end_of(const Tensor *t)
{
    return t->first + (t->pitch ? (t->shape[0] - 1) * t->pitch + t->shape[1] : model_elements(t));
}

/* Adds to the list the array of a tensor, or makes its entry longer. */
static void add(const Tensor *t, Array a)
{
    const int64_t bytes = end_of(t) * element_bytes(a.type);
    int i = 0;
    while (i < copied.n && copied.list[i].from != a.at)
        i++;
    if (i == copied.n)
        copied.list[copied.n++] = (Copied){.from = a.at, .divided = a.part != 0};
    copied.list[i].bytes = bytes > copied.list[i].bytes ? bytes : copied.list[i].bytes;
}

static char *copy_of(const void *array)
{
    for (int i = 0; i < copied.n; i++)
        if (copied.list[i].from == array)
            return copied.list[i].to;
    die(EXIT_INTERNAL, "an array of the checkpoint has no copy");
}

/* ---- memory ---------------------------------------------------------------------------------- */

/* Returns the start of each copy in the memory at `to`, and their bytes in all. */
static int64_t place(char *to)
{
    int64_t bytes = 0;
    for (int i = 0; i < copied.n; i++) {
        copied.list[i].to = to + bytes;
        bytes += (copied.list[i].bytes + ALIGN - 1) / ALIGN * ALIGN;
    }
    return bytes;
}

static char *memory(const Model *m)
{
    const int64_t bytes = m->snapshot_bytes;
    const int64_t left = host_memory_left("");
    const double gib = 1 << 30;
    if (left < bytes)
        die(EXIT_CONFIG, "checkpoint.async needs %.3f GiB of host memory for a copy of the "
            "checkpoint, %.3f GiB are available: end other programs, or gen %s "
            "checkpoint.async=false && make", (double)bytes / gib,
            (double)left / gib, model_words(m, "checkpoint.async"));
    char *to = device_pinned(bytes, "a copy of the checkpoint");
    memset(to, 0, (size_t)bytes);        /* its pages are there before the first copy */
    return to;
}

void snapshot_open(const Model *m, Model *copy)
{
    *copy = *m;
    if (world.rank != 0)
        return;
    const size_t n = (size_t)m->ntensors;
    copy->tensors = malloc((n + 1) * sizeof *copy->tensors);
    copied.list = calloc(2 * STATES * n + 1, sizeof *copied.list);
    if (!copy->tensors || !copied.list)
        die(EXIT_CONFIG, "out of memory for a list of %d tensors", m->ntensors);
    memcpy(copy->tensors, m->tensors, n * sizeof *copy->tensors);
    for (int i = 0; i < m->ntensors; i++)
        for (int k = 0; k < STATES; k++) {
            const Array a = *state(&m->tensors[i], k);
            const Tensor blocks = absmax_tensor(&m->tensors[i], a);
            if (a.at && is_stored(m, &m->tensors[i], k))
                add(&m->tensors[i], a);
            if (a.absmax)
                add(&blocks, absmax_array(a));
        }
    REQUIRE(place(NULL) <= m->snapshot_bytes);
    place(memory(m));
    for (int i = 0; i < m->ntensors; i++)
        for (int k = 0; k < STATES; k++) {
            Array *a = state(&copy->tensors[i], k);
            if (!a->at || !is_stored(m, &m->tensors[i], k))
                continue;
            a->at = copy_of(a->at);
            a->absmax = a->absmax ? (float *)(void *)copy_of(a->absmax) : NULL;
            a->part = 0;
        }
}

/* ---- copies ---------------------------------------------------------------------------------- */

/* Gathers a tensor's elements in a divided array. */
static void gather(const Tensor *t, Array from, const Tensor *copy, Array to)
{
    Tensor plain = *copy;
    float *values = malloc(PIECE * sizeof *values);
    if (!values)
        die(EXIT_IO, "out of memory for %d values", PIECE);
    plain.transposed = false;            /* both in memory order */
    for (int64_t n = model_elements(t), done = 0, k; done < n; done += k) {
        k = n - done < PIECE ? n - done : PIECE;
        parts_get(t, from, ORDER_MEMORY, done, k, values);
        model_put(&plain, to, done, k, values);
    }
    free(values);
}

/* The same of a state; remainders as whole numbers. */
static void gather_state(const Tensor *t, Array from, const Tensor *copy, Array to)
{
    if (from.type == EL_REMAINDER)
        from.type = to.type = EL_I16;
    gather(t, from, copy, to);
    if (!from.absmax)
        return;
    const Tensor blocks = absmax_tensor(t, from), same = absmax_tensor(copy, to);
    gather(&blocks, absmax_array(from), &same, absmax_array(to));
}

void snapshot_take(const Model *m, const Model *copy)
{
    if (!parts_gather(m))
        return;
    for (int i = 0; i < copied.n; i++)
        if (!copied.list[i].divided)
            array_read(copied.list[i].to, copied.list[i].from, copied.list[i].bytes);
    for (int i = 0; i < m->ntensors; i++)
        for (int k = 0; k < STATES; k++) {
            const Array from = *state(&m->tensors[i], k);
            if (from.part && is_stored(m, &m->tensors[i], k))
                gather_state(&m->tensors[i], from, &copy->tensors[i],
                             *state(&copy->tensors[i], k));
        }
    parts_gathered();
}

int64_t snapshot_nonfinite(const Model *copy, const char **where)
{
    int64_t bad = 0;
    for (int i = copy->ntensors - 1; i >= 0; i--) {
        const Tensor *t = &copy->tensors[i];
        const int64_t found = is_stored(copy, t, 0) ? model_nonfinite_here(t) : 0;
        *where = found ? t->name : *where;
        bad += found;
    }
    return bad;
}
