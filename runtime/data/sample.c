/* sample.c -- next-token choice from float logits.
 *
 * In:    logits.  Out: an id.
 * Keeps: double sums in a fixed order.  Method: a heap of ids by probability, popped until the
 *        probabilities reach top_p: no full sort. */
#include "runtime/data/sample.h"
#include "kernels/cpu/philox.h"
#include <math.h>
#include <stdbool.h>

enum { PURPOSE = 0x53414d50 };       /* "SAMP": apart from every other draw of the same seed */

/* Uniform in [0, 1) with 53 bits. */
static double uniform(uint64_t seed, int64_t position)
{
    uint32_t counter[4] = { (uint32_t)position, (uint32_t)((uint64_t)position >> 32), PURPOSE, 0 };
    uint32_t key[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) }, out[4];
    philox(counter, key, out);
    return (double)(((uint64_t)out[0] << 32 | out[1]) >> 11) * 0x1p-53;
}

static bool before(const float *p, int32_t a, int32_t b)
{
    return p[a] > p[b] || (p[a] == p[b] && a < b);
}

static void sink(int32_t *heap, int64_t n, int64_t i, const float *p)
{
    for (int64_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && before(p, heap[child + 1], heap[child]))
            child++;
        if (!before(p, heap[child], heap[i]))
            return;
        int32_t swap = heap[i];
        heap[i] = heap[child];
        heap[child] = swap;
    }
}

int32_t sample_token(const float *logits, int64_t vocab, double temperature, double top_p,
                     uint64_t seed, int64_t position, float *work, int32_t *heap)
{
    int64_t best = 0, n = vocab, kept = 0;
    for (int64_t i = 1; i < vocab; i++)
        best = logits[i] > logits[best] ? i : best;
    if (temperature == 0.0)
        return (int32_t)best;
    double sum = 0.0, mass = 0.0;
    for (int64_t i = 0; i < vocab; i++) {
        work[i] = (float)exp(((double)logits[i] - (double)logits[best]) / temperature);
        sum += work[i];
        heap[i] = (int32_t)i;
    }
    for (int64_t i = vocab / 2; i-- > 0;)
        sink(heap, n, i, work);
    /* The chosen ids gather behind the shrinking heap, likeliest last. */
    while (n > 0 && (kept == 0 || mass < top_p * sum)) {
        int32_t id = heap[0];
        mass += work[id];
        heap[0] = heap[--n];
        heap[n] = id;
        kept++;
        sink(heap, n, 0, work);
    }
    double u = uniform(seed, position) * mass;
    for (int64_t i = vocab - 1; i > vocab - kept; i--) {
        u -= work[heap[i]];
        if (u < 0.0)
            return heap[i];
    }
    return heap[vocab - kept];
}
