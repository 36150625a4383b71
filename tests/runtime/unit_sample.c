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
    const SampleRule rule = { .temperature = temperature, .top_p = top_p, .repetition_penalty = 1 };
    for (int64_t k = 0; k < DRAWS; k++)
        seen[sample_token(logits, V, &rule, NULL, 0, seed, k, work, heap)]++;
    *support = n;
    for (int i = 0; i < V; i++) {
        double q = i < n ? p[order[i]] / kept : 0.0, mean = q * DRAWS;
        double z = fabs(seen[order[i]] - mean) / sqrt(mean * (1 - q) + 1e-9);
        worst = z > worst ? z : worst;
    }
    return worst;
}

/* Distributions that generate() of transformers 5.24 draws from, by tests/oracle/sampling.py: a rule, the tokens
 * so far, each token's probability. */
static const struct {
    SampleRule rule;
    int32_t known[4];
    int64_t n;
    double p[V];
} transformers[] = {
    { { 1, 1, 1, 0, 1 }, { 0 }, 0,
      { 0, 0.5, 0, 0.5, 0, 0, 0 } },
    { { 1, 3, 1, 0, 1 }, { 0 }, 0,
      { 0, 0.422319, 0, 0.422319, 0.155362, 0, 0 } },
    { { 0.7, 4, 0.8, 0, 1 }, { 0 }, 0,
      { 0, 0.5, 0, 0.5, 0, 0, 0 } },
    { { 1, 0, 1, 0.3, 1 }, { 0 }, 0,
      { 0, 0.422319, 0, 0.422319, 0.155362, 0, 0 } },
    { { 2, 5, 0.95, 0.5, 1 }, { 0 }, 0,
      { 0, 0.383652, 0, 0.383652, 0.232697, 0, 0 } },
    { { 1, 0, 1, 0, 1.5 }, { 1, 2, 1 }, 3,
      { 0.098297, 0.226179, 0.013303, 0.440537, 0.162064, 5.57903e-15, 0.0596201 } },
    { { 1, 3, 0.9, 0.1, 2 }, { 3, 2, 0, 1 }, 4,
      { 0, 0.333333, 0, 0.333333, 0.333333, 0, 0 } },
};

static void check_transformers(void)
{
    float work[V];
    int32_t heap[V];
    for (size_t i = 0; i < sizeof transformers / sizeof *transformers; i++) {
        const SampleRule *r = &transformers[i].rule;
        int seen[V] = { 0 };
        double worst = 0;
        for (int64_t k = 0; k < DRAWS; k++)
            seen[sample_token(logits, V, r, transformers[i].known, transformers[i].n, 77 + i, k, work, heap)]++;
        for (int t = 0; t < V; t++) {
            const double q = transformers[i].p[t], mean = q * DRAWS;
            const double z = fabs(seen[t] - mean) / sqrt(mean * (1 - q) + 1e-9);
            worst = z > worst ? z : worst;
        }
        char *name = format("as transformers: temperature %g, top-k %lld, top-p %g, min-p %g, penalty %g of %lld",
                            r->temperature, (long long)r->top_k, r->top_p, r->min_p, r->repetition_penalty,
                            (long long)transformers[i].n);
        check(worst < 5.0, name, "%.1f standard deviations off", worst);
    }
    const SampleRule greedy = { .repetition_penalty = 3 };
    const int32_t known[] = { 1, 3, 1 };
    check(sample_token(logits, V, &greedy, known, 3, 1, 1, work, heap) == 4, "greedy with a penalty", "another token");
}

void test_sample(void)
{
    const SampleRule greedy = { .top_p = 1, .repetition_penalty = 1 },
                     plain = { .temperature = 1, .top_p = 1, .repetition_penalty = 1 };
    check_transformers();
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
    check(sample_token(logits, V, &greedy, NULL, 0, 1, 1, work, heap) == 1, "greedy takes the first of equals",
          "another");
    bool same = true, other = false, moved = false;
    for (int64_t k = 0; k < 200; k++) {
        int32_t a = sample_token(logits, V, &plain, NULL, 0, 5, k, work, heap);
        same = same && a == sample_token(logits, V, &plain, NULL, 0, 5, k, work, heap);
        other = other || a != sample_token(logits, V, &plain, NULL, 0, 6, k, work, heap);
        moved = moved || a != sample_token(logits, V, &plain, NULL, 0, 5, k + 1, work, heap);
    }
    check(same && other && moved, "a draw depends on seed and position only", "%d %d %d", same,
          other, moved);
}
