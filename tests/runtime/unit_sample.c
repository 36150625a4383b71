/* unit_sample.c -- frequencies of sampled tokens against softmax; greedy; top-p; determinism. */
#include "unit.h"
#include "../../runtime/base.h"
#include "../../runtime/data/sample.h"
#include <math.h>
#include <string.h>

enum { V = 7, DRAWS = 40000 };
static const float logits[V] = { 0.5f, 2.0f, -1.0f, 2.0f, 1.0f, -30.0f, 0.0f };

/* Largest deviation in standard deviations from softmax(logits / temperature) cut at top_p. */
static double deviation(double temperature, double top_p, uint64_t seed, int *support)
{
    double p[V], sum = 0, kept = 0, worst = 0;
    int order[V], n = 0, seen[V] = { 0 };
    for (int i = 0; i < V; i++)
        sum += p[i] = exp((double)logits[i] / temperature);
    for (int i = 0; i < V; i++) {
        int at = 0;
        for (int j = 0; j < V; j++)
            at += p[j] > p[i] || (p[j] == p[i] && j < i);
        order[at] = i;
    }
    while (n < V && (n == 0 || kept < top_p * sum))
        kept += p[order[n++]];
    float work[V];
    int32_t heap[V];
    for (int64_t k = 0; k < DRAWS; k++)
        seen[sample_token(logits, V, temperature, top_p, seed, k, work, heap)]++;
    *support = n;
    for (int i = 0; i < V; i++) {
        double q = i < n ? p[order[i]] / kept : 0.0, mean = q * DRAWS;
        double z = fabs(seen[order[i]] - mean) / sqrt(mean * (1 - q) + 1e-9);
        worst = z > worst ? z : worst;
    }
    return worst;
}

void test_sample(void)
{
    static const double settings[][2] = { { 1, 1 }, { 0.5, 1 }, { 3, 1 }, { 1, 0.9 }, { 1, 0.3 },
                                          { 1, 1e-6 } };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        int support;
        double z = deviation(settings[i][0], settings[i][1], 1000 + i, &support);
        char *name = format("sampling at temperature %g, top-p %g", settings[i][0], settings[i][1]);
        check(z < 5.0, name, "%.1f standard deviations off, %d tokens", z, support);
    }
    float work[V];
    int32_t heap[V];
    check(sample_token(logits, V, 0, 1, 1, 1, work, heap) == 1, "greedy takes the first of equals",
          "another");
    bool same = true, other = false, moved = false;
    for (int64_t k = 0; k < 200; k++) {
        int32_t a = sample_token(logits, V, 1, 1, 5, k, work, heap);
        same = same && a == sample_token(logits, V, 1, 1, 5, k, work, heap);
        other = other || a != sample_token(logits, V, 1, 1, 6, k, work, heap);
        moved = moved || a != sample_token(logits, V, 1, 1, 5, k + 1, work, heap);
    }
    check(same && other && moved, "a draw depends on seed and position only", "%d %d %d", same,
          other, moved);
}
