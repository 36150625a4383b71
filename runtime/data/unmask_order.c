/* unmask_order.c -- choices of tokens and positions, with random numbers by counter.
 *
 * In:    logits.  Out: tokens and their confidence.
 * Keeps: double sums in a fixed order. */
#include "runtime/data/unmask_order.h"

#include <math.h>

#include "runtime/base.h"
#include "runtime/philox.h"

/* Independent of other draws of the same seed: "UMSK" for tokens, the next for positions. */
enum { TOKENS = 0x554d534b, PLACES };

/* Upper bound of -ln(-ln u). */
#define MOST_NOISE 37.5

static void draw(const UnmaskRule *r, uint32_t purpose, UnmaskAt at, int64_t index, double u[2])
{
    const uint32_t counter[4] = {(uint32_t)index, (uint32_t)at.position, (uint32_t)at.step,
                                 (uint32_t)at.text},
                   key[2] = {(uint32_t)r->seed ^ purpose * 0x9E3779B9u, (uint32_t)(r->seed >> 32)};
    uint32_t word[4];
    philox(counter, key, word);
    for (int i = 0; i < 2; i++)      /* in (0, 1), 52 bits */
        u[i] = ((double)(((uint64_t)word[2 * i] << 32 | word[2 * i + 1]) >> 12) + 0.5) * 0x1p-52;
}

int64_t unmask_share(int64_t n, int64_t steps, int64_t step)
{
    REQUIRE(n >= 0 && step >= 0 && step < steps);
    return n / steps + (step < n % steps);
}

void unmask_guide(float *with, const float *without, int64_t n, double guidance)
{
    const float more = (float)(guidance + 1);
    for (int64_t i = 0; i < n; i++)
        with[i] = without[i] + more * (with[i] - without[i]);
}

static int32_t likeliest(const UnmaskRule *r, const float *logits)
{
    int32_t best = r->mask == 0;
    for (int32_t v = best + 1; v < r->ids; v++)
        if (v != r->mask && logits[v] > logits[best])
            best = v;
    return best;
}

/* ln of e^logit / (-ln u)^temperature. */
static double noisy(const UnmaskRule *r, const float *logits, UnmaskAt at, int32_t v)
{
    double u[2];
    draw(r, TOKENS, at, v / 2, u);
    return logits[v] - r->temperature * log(-log(u[v % 2]));
}

/* Returns a random token; most: the most probable one. */
static int32_t drawn(const UnmaskRule *r, const float *logits, UnmaskAt at, int32_t most)
{
    double best = noisy(r, logits, at, most), room = r->temperature * MOST_NOISE, score;
    int32_t token = most;
    for (int32_t v = 0; v < r->ids; v++)
        if (v != r->mask && v != most && logits[v] + room > best &&
            (score = noisy(r, logits, at, v)) > best)
            best = score, token = v;
    return token;
}

/* Returns the probability of the token among all. */
static double probability(const float *logits, int64_t vocab, int32_t token)
{
    double sum = 0, most = logits[0];
    for (int64_t v = 1; v < vocab; v++)
        most = logits[v] > most ? logits[v] : most;
    for (int64_t v = 0; v < vocab; v++)
        sum += exp(logits[v] - most);
    return exp(logits[token] - most) / sum;
}

UnmaskPick unmask_pick(const UnmaskRule *r, const float *logits, int64_t vocab, UnmaskAt at)
{
    double u[2];
    REQUIRE(r->ids >= 1 && r->ids <= vocab);
    UnmaskPick p = {.position = at.position, .token = likeliest(r, logits)};
    if (r->temperature > 0)
        p.token = drawn(r, logits, at, p.token);
    if (r->order == UNMASK_random) {
        draw(r, PLACES, at, 0, u);
        p.confidence = u[0];
    } else {
        p.confidence = probability(logits, vocab, p.token);
    }
    return p;
}

void unmask_order(UnmaskPick *pick, int64_t n, int64_t k)
{
    REQUIRE(k >= 0 && k <= n);
    for (int64_t i = 0; i < k; i++) {
        int64_t best = i;
        for (int64_t j = i + 1; j < n; j++)
            if (pick[j].confidence > pick[best].confidence)
                best = j;
        UnmaskPick first = pick[best];
        for (int64_t j = best; j > i; j--)       /* the others keep their order */
            pick[j] = pick[j - 1];
        pick[i] = first;
    }
}
