/* properties.c -- the packer against brute force and against itself on random instances.
 * In:    a seed; anything after it: five times as many instances (make soak).   Out: one line a test. */
#include "../../gen/lower/packing.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX = 400 };

static uint64_t state;
static int failures, part;       // one instance in `part`

// splitmix64
static uint64_t draw(void) {
    uint64_t z = state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static int64_t below(int64_t n) { return (int64_t)(draw() % (uint64_t)n); }

static void verdict(const char *name, const char *why) {
    if (*why) printf("not ok %s: %s\n", name, why);
    else printf("ok %s\n", name);
    failures += *why != 0;
}

// aligned: mixed alignments and sizes that are no multiples of them; else bytes.
static void random_instance(PackBuffer *b, int n, int64_t times, int64_t sizes, int aligned) {
    for (int i = 0; i < n; i++) {
        int64_t lower = below(times), upper = lower + 1 + below(times - lower);
        int64_t align = aligned ? (int64_t)1 << below(4) : 1;
        b[i] = (PackBuffer){lower, upper, 1 + below(sizes), align, -1};
    }
}

static int64_t height(const PackBuffer *b, int n) {
    int64_t h = 0;
    for (int i = 0; i < n; i++)
        if (b[i].size && b[i].offset + b[i].size > h) h = b[i].offset + b[i].size;
    return h;
}

// All pairs, all offsets: independent of packing_verify.
static const char *fault_of(const PackBuffer *b, int n) {
    for (int i = 0; i < n; i++) {
        if (b[i].offset < 0 || b[i].offset % b[i].align) return "offset negative or misaligned";
        for (int j = 0; j < i; j++)
            if (b[i].lower < b[j].upper && b[j].lower < b[i].upper
                && b[i].offset < b[j].offset + b[j].size && b[j].offset < b[i].offset + b[i].size)
                return "two live buffers overlap";
    }
    return NULL;
}

// Most live bytes at any moment, by looking at every birth.
static int64_t live_bytes(const PackBuffer *b, int n) {
    int64_t most = 0;
    for (int i = 0; i < n; i++) {
        int64_t live = 0;
        for (int j = 0; j < n; j++)
            if (b[j].lower <= b[i].lower && b[i].lower < b[j].upper) live += b[j].size;
        if (live > most) most = live;
    }
    return most;
}

// The optimum: lowest fit over every order of the buffers. Some order is the optimum's own,
// bottom to top.
static int64_t brute(PackBuffer *b, int n, int k, int64_t top, int64_t best) {
    if (top >= best) return best;
    if (k == n) return top;
    for (int i = k; i < n; i++) {
        PackBuffer t = b[i];
        b[i] = b[k];
        b[k] = t;
        int64_t at = 0;
        for (int moved = 1; moved;) {
            moved = 0;
            for (int j = 0; j < k; j++) {
                if (t.lower >= b[j].upper || b[j].lower >= t.upper) continue;
                int64_t end = b[j].offset + b[j].size;
                if (at + t.size <= b[j].offset || end <= at) continue;
                at = (end + t.align - 1) / t.align * t.align;
                moved = 1;
            }
        }
        b[k].offset = at;
        int64_t here = at + t.size > top ? at + t.size : top;
        best = brute(b, n, k + 1, here, best);
        b[k] = b[i];
        b[i] = t;
    }
    return best;
}

static void test_brute_force(int aligned) {
    char why[256] = "";
    PackBuffer b[7], c[7];
    for (int round = 0; round < 400 / part && !*why; round++) {
        int n = 1 + (int)below(7);
        random_instance(b, n, 6, aligned ? 9 : 12, aligned);
        memcpy(c, b, sizeof c);
        int64_t best = brute(c, n, 0, 0, INT64_MAX);
        PackResult r = packing_run(b, n, best);
        if (r.peak != best || height(b, n) != best)
            snprintf(why, sizeof why, "round %d, n %d: optimum %" PRId64 ", at that capacity %"
                     PRId64 " (%s)", round, n, best, r.peak, r.method);
        r = packing_run(b, n, best > 1 ? best - 1 : 1);
        if (r.peak < best) snprintf(why, sizeof why, "peak %" PRId64 " below the optimum %"
                                    PRId64, r.peak, best);
        r = packing_run(b, n, 0);
        if (r.peak != best && !aligned)
            snprintf(why, sizeof why, "round %d, n %d: optimum %" PRId64 ", got %" PRId64 " (%s)",
                     round, n, best, r.peak, r.method);
    }
    verdict(aligned ? "brute-force-aligned" : "brute-force", why);
}

static void test_random_valid(void) {
    static const char *const methods[] = {"by size", "by life", "by area", "by time", "search"};
    static PackBuffer b[MAX];
    char why[256] = "";
    for (int round = 0; round < 120 / part && !*why; round++) {
        int n = 1 + (int)below(round < 100 / part ? 40 : MAX), aligned = round % 2, known = 0;
        random_instance(b, n, 1 + below(60), 1 + below(5000), aligned);
        if (round % 5 == 0) b[below(n)].size = 0;
        int64_t live = live_bytes(b, n);
        PackResult r = packing_run(b, n, 0);
        for (int m = 0; m < 5; m++) known |= r.method && !strcmp(r.method, methods[m]);
        const char *fault = fault_of(b, n), *own = packing_verify(b, n);
        if (fault || own)
            snprintf(why, sizeof why, "round %d: %s, own verdict %s", round,
                     fault ? fault : "valid", own ? own : "valid");
        else if (r.peak < live || (!aligned && r.bound != live) || r.peak != height(b, n) || !known)
            snprintf(why, sizeof why, "round %d: peak %" PRId64 ", bound %" PRId64 ", live %"
                     PRId64 ", height %" PRId64, round, r.peak, r.bound, live,
                     height(b, n));
    }
    verdict("random-valid", why);
}

// Buffers that touch in time or in space are apart; one more byte is an overlap.
static void test_verify(void) {
    char why[256] = "";
    static PackBuffer b[60];
    for (int round = 0; round < 120 / part && !*why; round++) {
        int n = 2 + (int)below(59);
        random_instance(b, n, 20, 20, round % 2);
        for (int i = 0; i < n; i++) b[i].offset = below(n * 20) / b[i].align * b[i].align;
        if (round % 3) packing_run(b, n, 0);
        if (round % 3 == 1) b[below(n)].offset += 1 - 2 * below(2);
        if (!fault_of(b, n) != !packing_verify(b, n))
            snprintf(why, sizeof why, "round %d: %s, own verdict %s", round,
                     fault_of(b, n) ? fault_of(b, n) : "valid",
                     packing_verify(b, n) ? packing_verify(b, n) : "valid");
    }
    PackBuffer touch[] = {{0, 2, 4, 1, 0}, {2, 4, 4, 1, 0}, {0, 4, 4, 1, 4}};
    if (!*why && packing_verify(touch, 3)) snprintf(why, sizeof why, "touching is refused");
    touch[1].lower = 1;
    const char *got = packing_verify(touch, 3);
    const char *want = "buffers 0 and 1 overlap: bytes [0, 4) and [0, 4)";
    if (!*why && (!got || strcmp(got, want)))
        snprintf(why, sizeof why, "want \"%s\", got \"%s\"", want, got ? got : "valid");
    verdict("verify", why);
}

static void test_permuted(void) {
    static PackBuffer b[60], c[60];
    int at[60];
    char why[256] = "";
    for (int round = 0; round < 60 / part && !*why; round++) {
        int n = 2 + (int)below(59);
        random_instance(b, n, 30, 1000, round % 2);
        for (int i = 0; i < n; i++) b[i].size = b[i].size * 64 + i;  // no equal rows
        for (int i = 0; i < n; i++) at[i] = i;
        for (int i = n - 1; i > 0; i--) {
            int j = (int)below(i + 1), t = at[i];
            at[i] = at[j];
            at[j] = t;
        }
        for (int i = 0; i < n; i++) c[i] = b[at[i]];
        packing_run(b, n, 0);
        packing_run(c, n, 0);
        for (int i = 0; i < n && !*why; i++)
            if (c[i].offset != b[at[i]].offset)
                snprintf(why, sizeof why, "round %d: row %d at %" PRId64 ", permuted at %" PRId64,
                         round, at[i], b[at[i]].offset, c[i].offset);
    }
    verdict("permuted-rows", why);
}

static void test_reversed(void) {
    PackBuffer b[9], c[9];
    char why[256] = "";
    for (int round = 0; round < 120 / part && !*why; round++) {
        int n = 2 + (int)below(8);
        random_instance(b, n, 8, 15, 0);
        for (int i = 0; i < n; i++) {
            c[i] = b[i];
            c[i].lower = 100 - b[i].upper;
            c[i].upper = 100 - b[i].lower;
        }
        PackResult r = packing_run(b, n, 0), q = packing_run(c, n, 0);
        if (r.peak != q.peak)
            snprintf(why, sizeof why, "round %d: height %" PRId64 ", reversed %" PRId64, round,
                     r.peak, q.peak);
    }
    verdict("reversed-time", why);
}

// No buffers, buffers without bytes, one buffer, all alike.
static void test_small(void) {
    PackBuffer b[12];
    char why[256] = "";
    PackResult r = packing_run(b, 0, 0);
    if (r.peak || r.bound) snprintf(why, sizeof why, "no buffers: peak %" PRId64, r.peak);
    for (int i = 0; i < 12; i++) b[i] = (PackBuffer){0, 5, 0, 256, -1};
    r = packing_run(b, 12, 0);
    if (r.peak || b[11].offset) snprintf(why, sizeof why, "no bytes: peak %" PRId64, r.peak);
    for (int i = 0; i < 12; i++) b[i] = (PackBuffer){-3, 5, 100, 256, -1};
    r = packing_run(b, 12, 0);
    if (r.bound != 12 * 256 || r.peak != 11 * 256 + 100 || packing_verify(b, 12))
        snprintf(why, sizeof why, "12 alike: bound %" PRId64 ", peak %" PRId64, r.bound, r.peak);
    verdict("small", why);
}

// Far more buffers than the search or the quadratic orders take.
static void test_large(void) {
    enum { N = 200000 };
    PackBuffer *b = calloc(N, sizeof *b);
    char why[256] = "";
    for (int i = 0; i < N; i++) b[i] = (PackBuffer){i, i + 1 + below(60), 1 + below(999), 8, -1};
    PackResult r = packing_run(b, N, 0);
    const char *fault = packing_verify(b, N);
    if (fault || r.peak > 2 * r.bound)
        snprintf(why, sizeof why, "%s, peak %" PRId64 ", bound %" PRId64, fault ? fault : "valid",
                 r.peak, r.bound);
    free(b);
    verdict("large", why);
}

int main(int argc, char **argv) {
    state = argc > 1 ? strtoull(argv[1], NULL, 10) : 1;
    part = argc > 2 ? 1 : 5;
    printf("# seed %" PRIu64 "\n", state);
    test_brute_force(0);
    test_brute_force(1);
    test_random_valid();
    test_verify();
    test_permuted();
    test_reversed();
    test_small();
    test_large();
    return failures > 0;
}
