/* unit_unmask_order.c -- hidden tokens found again: how many at a time, which, what; whole texts by a model of
 * which every answer is known. */
#include "unit.h"
#include "../../runtime/data/unmask_order.h"
#include "../../runtime/run/diffusion_sampler.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { IDS = 7, V = 9, MASK = 3, DRAWS = 20000 };

/* Rows 7 and 8 have no token, 3 hides one: they seem the likeliest. */
static const float logits[V] = {0.5f, 2.0f, -1.0f, 9.0f, 2.0f, 1.0f, -30.0f, 9.0f, 9.0f};

static void shares(void)
{
    static const int64_t want[][5] = {
        {10, 4, 3, 3, 2}, {4, 4, 1, 1, 1}, {3, 5, 1, 1, 1}, {1, 2, 1, 0, 0}, {7, 1, 7, 0, 0}};
    bool as_told = true, whole = true;
    for (size_t k = 0; k < sizeof want / sizeof *want; k++)
        for (int64_t s = 0; s < 3 && s < want[k][1]; s++)
            as_told &= unmask_share(want[k][0], want[k][1], s) == want[k][2 + s];
    for (int64_t n = 0; n < 40; n++)
        for (int64_t steps = 1; steps < 40; steps++) {
            int64_t sum = 0;
            for (int64_t s = 0; s < steps; s++)
                sum += unmask_share(n, steps, s);
            whole &= sum == n;
        }
    check(as_told, "unmask.m div steps, the first m mod steps one more", "another number");
    check(whole, "unmask.all are shown after the last step", "another number");
}

/* Of many draws: e^(logit / temperature) over those that may be chosen. */
static void draws(double temperature)
{
    UnmaskRule r = {UNMASK_random, temperature, MASK, IDS, 11};
    double p[V] = {0}, sum = 0, worst = 0, surest = 0;
    int seen[V] = {0};
    for (int v = 0; v < IDS; v++)
        sum += v == MASK ? 0 : exp(logits[v] / temperature);
    for (int64_t i = 0; i < DRAWS; i++) {
        UnmaskPick pick = unmask_pick(&r, logits, V, (UnmaskAt){i % 50, i / 50 % 20, i / 1000});
        seen[pick.token]++;
        surest += pick.confidence / DRAWS;
    }
    for (int v = 0; v < V; v++) {
        p[v] = v == MASK || v >= IDS ? 0 : exp(logits[v] / temperature) / sum;
        double z = fabs(seen[v] - p[v] * DRAWS) / sqrt(p[v] * (1 - p[v]) * DRAWS + 1e-9);
        worst = z > worst ? z : worst;
    }
    check(worst < 5, "unmask.draws", "temperature %g: %.1f standard deviations off", temperature, worst);
    check(fabs(surest - 0.5) < 0.02, "unmask.any place", "mean confidence %g", surest);
}

static void picks(void)
{
    UnmaskRule r = {UNMASK_low_confidence, 0, MASK, IDS, 5}, other = r;
    double sum = 0;
    for (int v = 0; v < V; v++)
        sum += exp(logits[v]);
    UnmaskPick pick = unmask_pick(&r, logits, V, (UnmaskAt){0, 6, 0});
    check(pick.token == 1 && pick.position == 6, "unmask.the likeliest, the first of equals", "%d", pick.token);
    check(fabs(pick.confidence - exp(2) / sum) < 1e-12, "unmask.its probability among all rows", "%g",
          pick.confidence);
    r.temperature = other.temperature = 1, other.seed = 6;
    bool same = true, moved[4] = {false};
    for (int64_t i = 0; i < 200; i++) {
        const UnmaskAt at[4] = {{i, 1, 1}, {1, i, 1}, {1, 1, i}, {1, 1, 1}};
        for (int k = 0; k < 4; k++) {
            int32_t a = unmask_pick(&r, logits, V, at[k]).token;
            same &= a == unmask_pick(&r, logits, V, at[k]).token;
            moved[k] |= a != unmask_pick(k < 3 ? &r : &other, logits, V, k < 3 ? (UnmaskAt){0, 0, 0} : at[0]).token;
        }
    }
    check(same, "unmask.a draw is that of seed, text, place, step", "another");
    check(moved[0] && moved[1] && moved[2] && moved[3], "unmask.each of them makes another draw", "not all");
    UnmaskPick all[6];
    const double sure[6] = {0.1, 0.7, 0.3, 0.7, 0.9, 0.2};
    for (int i = 0; i < 6; i++)
        all[i] = (UnmaskPick){.position = i, .confidence = sure[i]};
    unmask_order(all, 6, 4);
    check(all[0].position == 4 && all[1].position == 1 && all[2].position == 3 && all[3].position == 2 &&
              all[4].position == 0 && all[5].position == 5, "unmask.the surest first", "another order");
    float with[2] = {3, -1}, without[2] = {1, 1};
    unmask_guide(with, without, 2, 0.5);
    check(with[0] == 4 && with[1] == -2, "unmask.guidance", "%g %g", with[0], with[1]);
}

/* ---- whole texts ----------------------------------------------------------------------------- */

enum { ROWS = 2, PLACES = 12, BLOCK = 4, HIDES = 6, WORDS = 7 };

static int32_t tokens[ROWS * PLACES], lengths[ROWS], at[ROWS * BLOCK];
static float told[ROWS * BLOCK * WORDS];
static struct { int64_t calls, least, most, last, wrong; } saw;

/* A token is 1 + its place mod 5, the surer the later; the prompt's first token is added where it is
 * seen. Looks at what it is asked. */
static const float *answers(void)
{
    int64_t asked = 0;
    for (int64_t i = 0; i < ROWS * BLOCK; i++) {
        if (at[i] < 0)
            continue;
        const int64_t b = at[i] / PLACES, t = at[i] % PLACES;
        int32_t prompt = tokens[b * PLACES];
        asked++;
        saw.wrong += b != i / BLOCK || t >= lengths[b] || tokens[at[i]] != HIDES;
        for (int64_t v = 0; v < WORDS; v++)
            told[i * WORDS + v] = v == (1 + t + (prompt == HIDES ? 0 : prompt)) % 5 ? 2 + 0.1f * (float)t : 0;
    }
    saw.calls++;
    saw.least = asked < saw.least ? asked : saw.least;
    saw.most = asked > saw.most ? asked : saw.most;
    saw.last = asked;
    return told;
}

static const DiffusionSampler model = {ROWS, PLACES, BLOCK, WORDS, tokens, lengths, at, false, answers};

/* n texts of a prompt of 2 and 8 hidden tokens; returns the first unlike what the model says. */
static int64_t unlike(const DiffusionSchedule *how, int64_t n, DiffusionCost *cost)
{
    int32_t token[3][10];
    DiffusionText text[3];
    int64_t bad = -1;
    for (int64_t k = 0; k < n; k++) {
        for (int64_t t = 0; t < 10; t++)
            token[k][t] = t < 2 ? (int32_t)(k + 1) : HIDES;
        text[k] = (DiffusionText){token[k], 10, k};
    }
    memset(&saw, 0, sizeof saw);
    saw.least = 100;
    diffusion_sample(&model, how, text, n, cost);
    for (int64_t k = 0; k < n; k++)
        for (int64_t t = 2; t < 10; t++)
            if (bad < 0 && token[k][t] != (1 + t + k + 1) % 5)
                bad = k * 10 + t;
    return bad;
}

static void texts(void)
{
    DiffusionSchedule how = {{UNMASK_low_confidence, 0, HIDES, 6, 1}, 0, BLOCK, BLOCK};
    DiffusionCost one = {0}, two = {0}, three = {0}, guided = {0};
    int64_t bad = unlike(&how, 1, &one);
    check(bad < 0, "diffusion.as the model says", "place %lld", (long long)bad);
    check(one.tokens == 8 && one.passes == 8, "diffusion.as many steps as tokens: one a step",
          "%lld tokens in %lld passes", (long long)one.tokens, (long long)one.passes);
    check(saw.wrong == 0 && saw.most == BLOCK && saw.last == 1, "diffusion.asks for what a block still hides",
          "%lld wrong, at most %lld, at last %lld", (long long)saw.wrong, (long long)saw.most, (long long)saw.last);
    how.steps = 3;
    bad = unlike(&how, 3, &three);
    check(bad < 0 && three.tokens == 24 && three.passes == 12, "diffusion.three texts, two at a time",
          "place %lld, %lld tokens in %lld passes", (long long)bad, (long long)three.tokens, (long long)three.passes);
    how.steps = 9;
    bad = unlike(&how, 1, &two);
    check(bad < 0 && two.passes == 8, "diffusion.no pass that shows nothing", "%lld passes", (long long)two.passes);
    how.guidance = 1.5;
    bad = unlike(&how, 2, &guided);
    check(bad < 0 && guided.passes == 16, "diffusion.guided", "place %lld, %lld passes", (long long)bad,
          (long long)guided.passes);
    /* drawn: a text does not depend on its neighbours */
    how.guidance = 0, how.rule.order = UNMASK_random, how.rule.temperature = 1;
    int32_t alone[10], together[2][10];
    for (int64_t t = 0; t < 10; t++)
        alone[t] = together[0][t] = together[1][t] = t < 2 ? 1 : HIDES;
    DiffusionText single = {alone, 10, 5}, both[2] = {{together[0], 9, 4}, {together[1], 10, 5}};
    diffusion_sample(&model, &how, &single, 1, &two);
    diffusion_sample(&model, &how, both, 2, &two);
    check(memcmp(alone, together[1], sizeof alone) == 0, "diffusion.the same with another text", "another");
}

void test_unmask_order(void)
{
    shares();
    picks();
    draws(1);
    draws(0.5);
    draws(3);
    texts();
}
