/* unit_masks.c -- hidden words: how many, which, and what stands in their place; Philox by hand in
 * tests/oracle/mlm.py. */
#include "unit.h"
#include "../../runtime/data/masks.h"
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
    return (MaskSample){.stream = MASKS_TRAIN, .sample = i, .token = token, .may = may,
                        .n = words + 2};
}

static void counts(void)
{
    static const int64_t want[][2] = {{126, 18}, {5, 1}, {20, 3}, {1, 1}, {0, 0}, {6, 1}, {14, 2}};
    MaskRule r = {MASKS_exact, 0.15, MASK, IDS, 42};
    bool counted = true, drawn = true, apart = true;
    for (size_t k = 0; k < sizeof want / sizeof *want; k++)
        for (int64_t i = 0; i < 100; i++) {
            MaskSample s = sample(i, want[k][0]);
            int64_t n = 0;
            counted &= masks_count(&r, &s) == want[k][1];
            drawn &= masks_draw(&r, &s, input, label, work) == want[k][1];
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
    MaskRule r = {select, 0.15, MASK, IDS, 7};
    double all = 0, masked = 0, same = 0, hits[N] = {0}, low = 0, random = 0, most = 0;
    bool counted = true;
    for (int64_t i = 0; i < SAMPLES; i++) {
        MaskSample s = sample(i, N - 2);
        int64_t n = masks_draw(&r, &s, input, label, work);
        counted &= masks_count(&r, &s) == n;
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
    double p = select == MASKS_exact ? 18.0 / (N - 2) : 0.15;
    for (int64_t k = 1; k < N - 1; k++)
        even &= near(hits[k], SAMPLES, p);
    check(counted, name, "masks_count differs from masks_draw");
    check(even && hits[0] + hits[N - 1] == 0, name, "places are not chosen alike");
    /* a random id is the mask or the word once in IDS each */
    check(near(masked, all, 0.8 + 0.1 / IDS) && near(same, all, 0.1 + 0.1 / IDS) &&
              near(random, all, 0.1 * (IDS - 2) / IDS), name, "%g masks, %g same, %g random of %g",
          masked, same, random, all);
    check(near(low, random, (IDS / 4 - 1.0) / (IDS - 2)) && most == IDS - 1, name,
          "%g of %g random ids are in the first quarter, the largest is %g", low, random, most);
}

/* What a draw depends on, and what it does not. */
static void keys(void)
{
    MaskRule r = {MASKS_exact, 0.15, MASK, IDS, 3};
    int32_t first[N], again[N];
    MaskSample s = sample(9, N - 2);
    masks_draw(&r, &s, input, first, work);
    s.epoch = 1;
    masks_draw(&r, &s, input, again, work);
    bool epoch = memcmp(first, again, sizeof first) != 0;
    s.epoch = 0, s.stream = MASKS_EVAL;
    masks_draw(&r, &s, input, again, work);
    bool stream = memcmp(first, again, sizeof first) != 0;
    s.stream = MASKS_TRAIN, s.sample = INT64_C(9) << 32;
    masks_draw(&r, &s, input, again, work);
    bool high = memcmp(first, again, sizeof first) != 0;
    s.sample = 9;
    masks_draw(&r, &s, input, again, work);
    check(epoch && stream && high && !memcmp(first, again, sizeof first), "masks.keys",
          "epoch %d, stream %d, sample %d", epoch, stream, high);
    memset(may, 0, sizeof may);
    check(masks_draw(&r, &s, input, label, work) == 0 && !memcmp(input, token, sizeof token),
          "masks.none", "something is hidden where nothing may be");
    s.may = NULL;
    check(masks_count(&r, &s) == 19, "masks.all", "not int(0.15 * 128)");
}

void test_masks(void)
{
    counts();
    shares(MASKS_exact, "masks.exact");
    shares(MASKS_independent, "masks.independent");
    keys();
}
