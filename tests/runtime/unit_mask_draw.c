/* unit_mask_draw.c -- hidden words: how many, which, and what stands in their place; Philox by hand in
 * tests/oracle/mlm.py. */
#include "unit.h"
#include "../../runtime/data/mask_draw.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N = 128, IDS = 500, SAMPLES = 4000, MASK = 4 };

static int32_t token[N], input[N], label[N];
static uint8_t may[N];
static char work[N * 8];

/* 6 standard deviations of n draws. */
static bool near(double seen, double n, double p)
{
    return fabs(seen - n * p) < 6 * sqrt(n * p * (1 - p));
}

static MaskSample sample(int64_t i, int64_t words)
{
    for (int64_t k = 0; k < words + 2; k++) {
        token[k] = k == 0 ? 1 : k == words + 1 ? 2 : (int32_t)(5 + (i * 31 + k * 7) % (IDS - 5));
        may[k] = k > 0 && k <= words;
    }
    return (MaskSample){.stream = MASK_TRAIN, .sample = i, .token = token, .may = may,
                        .n = words + 2};
}

static void counts(void)
{
    static const int64_t want[][2] = {{126, 18}, {5, 1}, {20, 3}, {1, 1}, {0, 0}, {6, 1}, {14, 2}};
    MaskRule r = {.select = MASK_exact, .share = 0.15, .mask = MASK, .ids = IDS, .seed = 42};
    bool counted = true, drawn = true, apart = true;
    for (size_t k = 0; k < sizeof want / sizeof *want; k++)
        for (int64_t i = 0; i < 100; i++) {
            MaskSample s = sample(i, want[k][0]);
            int64_t n = 0;
            counted &= mask_count(&r, &s) == want[k][1];
            drawn &= mask_draw(&r, &s, input, label, work) == want[k][1];
            for (int64_t p = 0; p < s.n; p++) {
                n += label[p] >= 0;
                apart &= label[p] < 0 ? input[p] == token[p] : may[p] && label[p] == token[p];
            }
            drawn &= n == want[k][1];
        }
    check(counted, "masks.count", "another number than max(1, int(0.15 n))");
    check(drawn, "masks.drawn", "another number is hidden");
    check(apart, "masks.others stay", "a special is hidden, or a token that is not has changed");
}

/* Of many draws: 80 masks, 10 random ids, which are the word itself once in IDS, 10 that stay. */
static void shares(MaskSelect select, const char *name)
{
    MaskRule r = {.select = select, .share = 0.15, .mask = MASK, .ids = IDS, .seed = 7};
    double all = 0, masked = 0, same = 0, hits[N] = {0}, low = 0, random = 0, most = 0;
    bool counted = true;
    for (int64_t i = 0; i < SAMPLES; i++) {
        MaskSample s = sample(i, N - 2);
        int64_t n = mask_draw(&r, &s, input, label, work);
        counted &= mask_count(&r, &s) == n;
        all += (double)n;
        for (int64_t p = 0; p < N; p++)
            if (label[p] >= 0) {
                hits[p]++;
                masked += input[p] == MASK;
                same += input[p] == token[p];
                if (input[p] != MASK && input[p] != token[p]) {
                    random++;
                    low += input[p] < IDS / 4;
                    most = fmax(most, input[p]);
                }
            }
    }
    bool even = true;
    double p = select == MASK_exact ? 18.0 / (N - 2) : 0.15;
    for (int64_t k = 1; k < N - 1; k++)
        even &= near(hits[k], SAMPLES, p);
    check(counted, name, "mask_count differs from mask_draw");
    check(even && hits[0] + hits[N - 1] == 0, name, "places are not chosen alike");
    /* a random id is the mask or the word once in IDS each */
    check(near(masked, all, 0.8 + 0.1 / IDS) && near(same, all, 0.1 + 0.1 / IDS) &&
              near(random, all, 0.1 * (IDS - 2) / IDS), name, "%g masks, %g same, %g random of %g",
          masked, same, random, all);
    check(near(low, random, (IDS / 4 - 1.0) / (IDS - 2)) && most == IDS - 1, name,
          "%g of %g random ids are in the first quarter, the largest is %g", low, random, most);
}

/* Inputs that a draw depends on, and those that it does not. */
static void keys(void)
{
    MaskRule r = {.select = MASK_exact, .share = 0.15, .mask = MASK, .ids = IDS, .seed = 3};
    int32_t first[N], again[N];
    MaskSample s = sample(9, N - 2);
    mask_draw(&r, &s, input, first, work);
    s.epoch = 1;
    mask_draw(&r, &s, input, again, work);
    bool epoch = memcmp(first, again, sizeof first) != 0;
    s.epoch = 0, s.stream = MASK_EVAL;
    mask_draw(&r, &s, input, again, work);
    bool stream = memcmp(first, again, sizeof first) != 0;
    s.stream = MASK_TRAIN, s.sample = INT64_C(9) << 32;
    mask_draw(&r, &s, input, again, work);
    bool high = memcmp(first, again, sizeof first) != 0;
    s.sample = 9;
    mask_draw(&r, &s, input, again, work);
    check(epoch && stream && high && !memcmp(first, again, sizeof first), "masks.keys",
          "epoch %d, stream %d, sample %d", epoch, stream, high);
    memset(may, 0, sizeof may);
    check(mask_draw(&r, &s, input, label, work) == 0 && !memcmp(input, token, sizeof token),
          "masks.none", "something is hidden where nothing may be");
    s.may = NULL;
    check(mask_count(&r, &s) == 19, "masks.all", "not int(0.15 * 128)");
}

/* A probability a row, drawn again: from 0.001 to 1 alike; then only the mask stands in their place. */
static void random_shares(void)
{
    MaskRule r = {.select = MASK_random, .mask = MASK, .ids = IDS, .seed = 11};
    double sum = 0, least = 1, most = 0, hidden = 0, want = 0, deviation = 0, low = 0;
    bool same = true, mask = true;
    for (int64_t i = 0; i < SAMPLES; i++) {
        MaskSample s = sample(i, N - 2);
        double p = mask_share(&r, &s, N - 2);
        int64_t n = mask_draw(&r, &s, input, label, work);
        same &= mask_count(&r, &s) == n;
        for (int64_t k = 0; k < N; k++)
            mask &= label[k] < 0 ? input[k] == token[k] : input[k] == MASK && label[k] == token[k];
        sum += p, least = fmin(least, p), most = fmax(most, p), low += p < 0.25;
        hidden += (double)n, want += p * (N - 2), deviation += p * (1 - p) * (N - 2);
    }
    check(same && mask, "masks.random", "counted %d, other tokens than the mask %d", same, mask);
    check(least >= 0.001 && most < 1 && near(low, SAMPLES, 0.249 / 0.999) &&
              fabs(sum / SAMPLES - 0.5005) < 6 * 0.2884 / sqrt(SAMPLES), "masks.random shares",
          "%g to %g, mean %g, %g below 0.25", least, most, sum / SAMPLES, low);
    check(fabs(hidden - want) < 6 * sqrt(deviation), "masks.random hits", "%g hidden, want %g", hidden,
          want);
}

/* Every number from 1 to all of them as often as any other: in one sample by its draws, in many
 * samples by one. */
static void spread_numbers(void)
{
    enum { WORDS = 10 };
    MaskRule r = {.select = MASK_spread, .mask = MASK, .ids = IDS, .seed = 5, .draws = 3 * WORDS};
    double by_sample[WORDS + 1] = {0}, hits[WORDS + 2] = {0}, all = 0;
    bool even = true, same = true, share = true;
    for (int64_t i = 0; i < SAMPLES; i++) {
        MaskSample s = sample(i, WORDS);
        int by_draw[WORDS + 1] = {0};
        s.stream = MASK_EVAL;
        for (s.epoch = 0; s.epoch < r.draws; s.epoch++) {
            int64_t n = mask_draw(&r, &s, input, label, work);
            same &= mask_count(&r, &s) == n;
            share &= mask_share(&r, &s, WORDS) * WORDS == (double)n;
            by_draw[n]++;
            by_sample[n] += s.epoch == 0;
            for (int64_t k = 0; k < s.n && s.epoch == 0; k++)
                hits[k] += label[k] >= 0;
            all += s.epoch == 0 ? (double)n : 0;
        }
        for (int n = 1; n <= WORDS; n++)
            even &= by_draw[n] == 3;
    }
    check(same && share && even, "masks.spread", "counted %d, share %d, even %d", same, share, even);
    even = true;
    for (int n = 1; n <= WORDS; n++)
        even &= near(by_sample[n], SAMPLES, 1.0 / WORDS) && near(hits[n], SAMPLES, all / SAMPLES / WORDS);
    check(even, "masks.spread first", "the first draw is no number, or no place, like any other");
}

/* Tokens put after a row; rows that are cut. */
static void lengths(void)
{
    MaskRule r = {.select = MASK_random, .mask = MASK, .ids = IDS, .seed = 8};
    MaskSample s = sample(3, 6);
    s.more = 5, s.fill = 77;
    int64_t ends = 0;
    for (s.epoch = 0; s.epoch < SAMPLES; s.epoch++) {
        mask_draw(&r, &s, input, label, work);
        for (int64_t k = s.n; k < s.n + s.more; k++)
            ends += label[k] == 77 && input[k] == MASK ? 1 : label[k] < 0 && input[k] == 77 ? 0 : -SAMPLES;
    }
    check(mask_may(&s) == 11 && near((double)ends, 5.0 * SAMPLES, 0.5005), "masks.more",
          "%lld of %d", (long long)ends, 5 * SAMPLES);
    int64_t cut = 0, low = 0;
    bool in = mask_length(&r, 0, 100) == 100;
    r.shorter = 0.25;
    for (int64_t i = 0; i < SAMPLES; i++) {
        int64_t n = mask_length(&r, i, 100);
        in &= n >= 1 && n <= 100;
        cut += n < 100, low += n <= 50;
    }
    check(in && near((double)cut, SAMPLES, 0.25 * 0.99) && near((double)low, SAMPLES, 0.125), "masks.length",
          "%lld cut, %lld of these to half", (long long)cut, (long long)low);
}

void test_mask_draw(void)
{
    random_shares();
    spread_numbers();
    lengths();
    counts();
    shares(MASK_exact, "masks.exact");
    shares(MASK_independent, "masks.independent");
    keys();
}
