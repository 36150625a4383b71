/* sample.c -- next-token sampling from float logits.
 *
 * In:    logits.  Out: an id.
 * Keeps: double sums in a fixed order.  Method: a heap of ids by probability, popped until the
 *        probabilities reach top_p: no full sort. */
#include "runtime/data/sample.h"
#include "runtime/philox.h"
#include <math.h>
#include <stdbool.h>

enum { PURPOSE = 0x53414d50 };       /* "SAMP": independent of other draws of the same seed */

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

/* Pops the most probable id; popped ids collect after the shrinking heap, most probable last. */
static int32_t pop(int32_t *heap, int64_t *n, const float *p)
{
    int32_t id = heap[0];
    heap[0] = heap[--*n];
    heap[*n] = id;
    sink(heap, *n, 0, p);
    return id;
}

/* Copies logits to work and penalises known tokens, each once. */
static void penalise(const float *logits, int64_t vocab, double penalty, const int32_t *known,
                     int64_t n, float *work)
{
    for (int64_t i = 0; i < vocab; i++)
        work[i] = logits[i];
    for (int64_t i = 0; i < n && penalty != 1.0; i++) {
        const float x = logits[known[i]];
        work[known[i]] = (float)(x < 0 ? x * penalty : x / penalty);
    }
}

int32_t sample_token(const float *logits, int64_t vocab, const SampleRule *rule,
                     const int32_t *known, int64_t nknown, uint64_t seed, int64_t position,
                     float *work, int32_t *heap)
{
    int64_t best = 0, n = vocab, kept = 0;
    penalise(logits, vocab, rule->repetition_penalty, known, nknown, work);
    for (int64_t i = 1; i < vocab; i++)
        best = work[i] > work[best] ? i : best;
    if (rule->temperature == 0.0)
        return (int32_t)best;
    const double most = work[best];
    double sum = 0.0, mass = 0.0;
    for (int64_t i = 0; i < vocab; i++) {
        work[i] = (float)exp(((double)work[i] - most) / rule->temperature);
        sum += work[i];
        heap[i] = (int32_t)i;
    }
    for (int64_t i = vocab / 2; i-- > 0;)
        sink(heap, n, i, work);
    if (rule->top_k > 0 && rule->top_k < vocab) {
        sum = 0.0;
        for (float last = 0; n > 0 && (vocab - n < rule->top_k || work[heap[0]] == last);)
            sum += last = work[pop(heap, &n, work)];
    }
    const int64_t chosen = rule->top_k > 0 && rule->top_k < vocab ? vocab - n : vocab;
    while (kept < chosen && (kept == 0 || mass < rule->top_p * sum)) {
        const int32_t id = vocab - n > kept ? heap[vocab - 1 - kept] : pop(heap, &n, work);
        if (kept > 0 && work[id] < rule->min_p)
            break;
        mass += work[id];
        kept++;
    }
    double u = uniform(seed, position) * mass;
    for (int64_t i = vocab - 1; i > vocab - kept; i--) {
        u -= work[heap[i]];
        if (u < 0.0)
            return heap[i];
    }
    return heap[vocab - kept];
}
