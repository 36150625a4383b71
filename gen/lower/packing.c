/* packing.c -- offsets for buffers with known lifetimes (static memory allocation).
 * In:    buffers (lower, upper, size, align).   Out: offsets, peak, lower bound.
 * Keeps: no clock, no pointer order: the same buffers give the same offsets everywhere.
 * Method: greedy orders, then depth-first search over bottom-to-top placements at a fixed
 *        capacity (Moffitt, "MiniMalloc", ASPLOS 2023), first at the lower bound. */
#define _GNU_SOURCE  // qsort_r
#include "gen/lower/packing.h"
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GREEDY_MAX 20000          // beyond, only the order of time is affordable
#define SEARCH_MAX 4096           // buffers; bounds recursion depth and memory
#define PAIRS_MAX (8 << 20)       // overlapping pairs kept for the search

// Search effort at one capacity, in nodes times buffers: never a clock, so that plans are
// reproducible. A plan has a fraction of a second, a capacity asked for some seconds.
#define WORK_CAPACITY INT64_C(2000000000)
#define WORK_BOUND INT64_C(10000000)
#define WORK_ABOVE INT64_C(2000000)
#define WORK_HALVES INT64_C(500000)
#define NODES_BOUND 32  // at least, per buffer: for instances of thousands of buffers
#define NODES_ABOVE 8
#define UNPROVED_MAX 4  // capacities given up without a proof before the halving ends

__extension__ typedef unsigned __int128 U128;

void *packing_alloc(void *old, size_t count, size_t each) {
    void *p = realloc(old, (count ? count : 1) * each);
    if (!p) {
        fprintf(stderr, "gen: out of memory: packing needs %zu bytes\n", count * each);
        exit(1);
    }
    return p;
}

static int64_t round_up(int64_t x, int64_t a) {
    return (x + a - 1) / a * a;
}

static int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

// The divisor of all alignments: sizes may be rounded up to it without losing a placement.
static int64_t grain_of(const PackBuffer *b, int n) {
    int64_t g = 0;
    for (int i = 0; i < n; i++) {
        for (int64_t a = b[i].align; a;) {
            int64_t r = g % a;
            g = a;
            a = r;
        }
    }
    return g ? g : 1;
}

static int64_t peak_of(const PackBuffer *b, int n) {
    int64_t peak = 0;
    for (int i = 0; i < n; i++)
        if (b[i].size) peak = max64(peak, b[i].offset + b[i].size);
    return peak;
}

// ---- time: births and deaths in order ----

typedef struct { int64_t time; int64_t size; int buffer; bool birth; } Event;

// By time, deaths before births, large births first.
static int event_order(const void *x, const void *y) {
    const Event *a = x, *b = y;
    if (a->time != b->time) return a->time < b->time ? -1 : 1;
    if (a->birth != b->birth) return a->birth ? 1 : -1;
    if (a->size != b->size) return a->size > b->size ? -1 : 1;
    return (a->buffer > b->buffer) - (a->buffer < b->buffer);
}

// 2n events, sorted; the caller frees them.
static Event *events_of(const PackBuffer *b, int n) {
    Event *e = packing_alloc(NULL, 2 * (size_t)n, sizeof *e);
    for (int i = 0; i < n; i++) {
        e[2 * i] = (Event){b[i].lower, b[i].size, i, true};
        e[2 * i + 1] = (Event){b[i].upper, b[i].size, i, false};
    }
    qsort(e, 2 * (size_t)n, sizeof *e, event_order);
    return e;
}

int64_t packing_bound(const PackBuffer *b, int n) {
    int64_t grain = grain_of(b, n), live = 0, most = 0;
    Event *e = events_of(b, n);
    for (int i = 0; i < 2 * n; i++) {
        int64_t size = round_up(e[i].size, grain);
        live += e[i].birth ? size : -size;
        most = max64(most, live);
    }
    free(e);
    return most;
}

// ---- greedy placement ----

typedef struct { int64_t lo, hi; } Gap;

// First fit in order of birth, over the list of free gaps; cost n times gaps.
static void place_by_time(PackBuffer *b, int n) {
    Event *e = events_of(b, n);
    Gap *gap = packing_alloc(NULL, (size_t)n + 2, sizeof *gap);
    int ngaps = 1;
    gap[0] = (Gap){0, INT64_MAX};
    for (int i = 0; i < 2 * n; i++) {
        PackBuffer *p = &b[e[i].buffer];
        int k = 0;
        if (e[i].birth) {
            while (gap[k].hi - p->size < round_up(gap[k].lo, p->align)) k++;
            p->offset = round_up(gap[k].lo, p->align);
            Gap left = {gap[k].lo, p->offset}, right = {p->offset + p->size, gap[k].hi};
            int keep = (left.lo < left.hi) + (right.lo < right.hi);
            memmove(gap + k + keep, gap + k + 1, (size_t)(ngaps - k - 1) * sizeof *gap);
            ngaps += keep - 1;
            if (left.lo < left.hi) gap[k++] = left;
            if (right.lo < right.hi) gap[k] = right;
        } else {
            int64_t lo = p->offset, hi = p->offset + p->size;
            while (gap[k].hi < lo) k++;
            bool left = gap[k].hi == lo, right = k + left < ngaps && gap[k + left].lo == hi;
            if (left && right) {
                gap[k].hi = gap[k + 1].hi;
                memmove(gap + k + 1, gap + k + 2, (size_t)(ngaps - k - 2) * sizeof *gap);
                ngaps--;
            } else if (left) {
                gap[k].hi = hi;
            } else if (right) {
                gap[k].lo = lo;
            } else {
                memmove(gap + k + 1, gap + k, (size_t)(ngaps - k) * sizeof *gap);
                gap[k] = (Gap){lo, hi};
                ngaps++;
            }
        }
    }
    free(gap);
    free(e);
}

typedef struct { int64_t size, life; U128 area; int buffer; } Rank;

#define CMP_DOWN(f) if (a->f != b->f) return a->f > b->f ? -1 : 1
#define CMP_LAST return (a->buffer > b->buffer) - (a->buffer < b->buffer)

static int order_by_size(const void *x, const void *y) {
    const Rank *a = x, *b = y;
    CMP_DOWN(size);
    CMP_DOWN(life);
    CMP_LAST;
}

static int order_by_life(const void *x, const void *y) {
    const Rank *a = x, *b = y;
    CMP_DOWN(life);
    CMP_DOWN(size);
    CMP_LAST;
}

static int order_by_area(const void *x, const void *y) {
    const Rank *a = x, *b = y;
    CMP_DOWN(area);
    CMP_DOWN(size);
    CMP_LAST;
}

// Each buffer into the lowest gap that is free for its whole life; quadratic.
static void place_by_order(PackBuffer *b, int n, int (*order)(const void *, const void *)) {
    Rank *rank = packing_alloc(NULL, (size_t)n, sizeof *rank);
    int *placed = packing_alloc(NULL, (size_t)n, sizeof *placed);  // by offset
    for (int i = 0; i < n; i++) {
        int64_t life = b[i].upper - b[i].lower;
        rank[i] = (Rank){b[i].size, life, (U128)b[i].size * (U128)life, i};
    }
    qsort(rank, (size_t)n, sizeof *rank, order);
    for (int r = 0; r < n; r++) {
        PackBuffer *p = &b[rank[r].buffer];
        int64_t at = 0;
        for (int k = 0; k < r; k++) {
            const PackBuffer *q = &b[placed[k]];
            if (q->lower >= p->upper || p->lower >= q->upper) continue;
            if (q->offset - at >= p->size) break;
            at = max64(at, round_up(q->offset + q->size, p->align));
        }
        p->offset = at;
        int k = r;
        for (; k > 0 && b[placed[k - 1]].offset > p->offset; k--) placed[k] = placed[k - 1];
        placed[k] = rank[r].buffer;
    }
    free(placed);
    free(rank);
}

static bool equal_buffers(const PackBuffer *a, const PackBuffer *b) {
    return a->lower == b->lower && a->upper == b->upper && a->size == b->size
        && a->align == b->align;
}

// ---- canonical search at a fixed capacity ----

// A section is a maximal set of buffers alive together; every buffer spans a range of them.
// Unplaced buffers of a section must stack above its floor, so floor + total <= capacity.
typedef struct { int buffer, rank; } Slot;        // rank: position in the static order
typedef struct { int index; int64_t old; } Undo;  // an overwritten min[] or floor[]
typedef struct { int buffer; size_t nmin, nfloor; } Placed;  // and the trails before
typedef struct { U128 area; int64_t width, total; int buffer; } Preorder;

#define PLACED INT64_MAX  // min[] of a placed buffer, so that no scan takes it

typedef enum { FOUND, INFEASIBLE, LIMIT } Verdict;

typedef struct {
    const PackBuffer *b;
    int n, nsections;
    int64_t grain, capacity, ceiling;  // ceiling: capacity rounded up to the grain
    int64_t nodes, limit;
    const char *order;                 // letters of Preorder fields, most important first
    int64_t *size, *min, *offset;      // size rounded to the grain; min: lowest offset now
    int64_t *floor, *total;            // per section, over its unplaced buffers
    int *first, *last;                 // sections of a buffer: [first, last)
    int *twin;                         // an equal buffer that is to be placed before, or -1
    int *near_at, *near;               // buffers that overlap in time
    int *member_at, *member;           // buffers of a section
    int *cuts;                         // unplaced buffers alive in sections s and s + 1
    Placed *stack;                     // in the order of placement
    int nstack;
    Undo *undo_min, *undo_floor;
    size_t nmin, nfloor, cap_min, cap_floor;
    Slot *pool;                        // lists of slots, a stack
    size_t npool, cap_pool;
} Search;

static void push_undo(Undo **trail, size_t *n, size_t *cap, int index, int64_t old) {
    if (*n == *cap) *trail = packing_alloc(*trail, *cap = 2 * *cap + 64, sizeof **trail);
    (*trail)[(*n)++] = (Undo){index, old};
}

static size_t push_slot(Search *s, Slot slot) {
    if (s->npool == s->cap_pool)
        s->pool = packing_alloc(s->pool, s->cap_pool = 2 * s->cap_pool + 64, sizeof *s->pool);
    s->pool[s->npool] = slot;
    return s->npool++;
}

// Raises the floors of sections [lo, hi). False when one leaves too little room.
static bool raise_floors(Search *s, int lo, int hi) {
    for (int k = lo; k < hi; k++) {
        if (!s->total[k]) continue;
        int64_t floor = INT64_MAX, old = s->floor[k];
        for (int i = s->member_at[k]; i < s->member_at[k + 1] && floor > old; i++)
            floor = min64(floor, s->min[s->member[i]]);
        if (floor <= old) continue;
        push_undo(&s->undo_floor, &s->nfloor, &s->cap_floor, k, old);
        s->floor[k] = floor;
        if (floor + s->total[k] > s->ceiling) return false;
    }
    return true;
}

// Puts u at its lowest offset; sections [lo, hi) hold its part. False when a cut applies.
static bool place(Search *s, int u, int lo, int hi) {
    int64_t offset = s->min[u], top = offset + s->size[u];
    s->stack[s->nstack++] = (Placed){u, s->nmin, s->nfloor};
    s->min[u] = PLACED;
    s->offset[u] = offset;
    for (int k = s->first[u]; k < s->last[u]; k++) s->total[k] -= s->size[u];
    for (int k = s->first[u]; k + 1 < s->last[u]; k++) s->cuts[k]--;
    int from = s->first[u], to = s->last[u];
    for (int i = s->near_at[u]; i < s->near_at[u + 1]; i++) {
        int v = s->near[i];
        if (s->min[v] >= top) continue;
        push_undo(&s->undo_min, &s->nmin, &s->cap_min, v, s->min[v]);
        s->min[v] = s->b[v].align == s->grain ? top : round_up(top, s->b[v].align);
        if (s->min[v] + s->b[v].size > s->capacity) return false;
        if (s->first[v] < from) from = s->first[v];
        if (s->last[v] > to) to = s->last[v];
    }
    if (!raise_floors(s, from, to)) return false;
    for (int k = lo; k < hi; k++)
        if (s->total[k] && max64(offset, s->floor[k]) + s->total[k] > s->ceiling) return false;
    return true;
}

static void unplace_to(Search *s, int mark) {
    while (s->nstack > mark) {
        Placed *p = &s->stack[--s->nstack];
        int u = p->buffer;
        while (s->nmin > p->nmin) {
            Undo *t = &s->undo_min[--s->nmin];
            s->min[t->index] = t->old;
        }
        while (s->nfloor > p->nfloor) {
            Undo *t = &s->undo_floor[--s->nfloor];
            s->floor[t->index] = t->old;
        }
        for (int k = s->first[u]; k < s->last[u]; k++) s->total[k] += s->size[u];
        for (int k = s->first[u]; k + 1 < s->last[u]; k++) s->cuts[k]++;
        s->min[u] = s->offset[u];
    }
}

static int preorder_order(const void *x, const void *y, void *order) {
    const Preorder *a = x, *b = y;
    for (const char *o = order; *o; o++) {
        if (*o == 'A') CMP_DOWN(area);
        if (*o == 'W') CMP_DOWN(width);
        if (*o == 'T') CMP_DOWN(total);
    }
    CMP_LAST;
}

static Verdict explore(Search *s, size_t list, int m, int lo, int hi, int64_t low, int rank);

// Sorts the unplaced buffers of list[0, m) that lie in sections [lo, hi), then explores them.
static Verdict explore_part(Search *s, size_t list, int m, int lo, int hi, int64_t low) {
    Preorder *pre = packing_alloc(NULL, (size_t)m, sizeof *pre);
    int k = 0;
    for (int i = 0; i < m; i++) {
        int u = s->pool[list + (size_t)i].buffer;
        if (s->min[u] == PLACED || s->first[u] < lo || s->first[u] >= hi) continue;
        int64_t total = 0, width = s->b[u].upper - s->b[u].lower;
        for (int j = s->first[u]; j < s->last[u]; j++) total = max64(total, s->total[j]);
        pre[k++] = (Preorder){(U128)width * (U128)s->b[u].size, width, total, u};
    }
    qsort_r(pre, (size_t)k, sizeof *pre, preorder_order, (void *)(uintptr_t)s->order);
    size_t mark = s->npool;
    for (int i = 0; i < k; i++) push_slot(s, (Slot){pre[i].buffer, i});
    free(pre);
    Verdict v = k ? explore(s, mark, k, lo, hi, low, 0) : FOUND;
    s->npool = mark;
    return v;
}

// After a placement of u: continues with the same part, or with each part that it was split into.
static Verdict explore_rest(Search *s, int u, size_t list, int m, int lo, int hi, int rank) {
    int from = lo;
    for (int k = s->first[u]; k + 1 < s->last[u]; k++) {
        if (s->cuts[k]) continue;
        Verdict v = explore_part(s, list, m, from, k + 1, s->offset[u]);
        if (v != FOUND) return v;
        from = k + 1;
    }
    if (from == lo) return explore(s, list, m, lo, hi, s->offset[u], rank);
    return explore_part(s, list, m, from, hi, s->offset[u]);
}

// Places the unplaced buffers of list[0, m), all within sections [lo, hi), in the order of
// (offset, rank), none before (low, rank). Leaves them placed when FOUND, else undone.
static Verdict explore(Search *s, size_t list, int m, int lo, int hi, int64_t low, int rank) {
    size_t mark = s->npool;
    int left = 0;
    int64_t lid = INT64_MAX;  // lowest top of an unplaced buffer: offsets from there on leave a gap
    for (int i = 0; i < m; i++) {
        int u = s->pool[list + (size_t)i].buffer;
        if (s->min[u] == PLACED) continue;
        left++;
        lid = min64(lid, s->min[u] + s->size[u]);
    }
    if (!left) return FOUND;
    if (4 * left < 3 * m) {
        for (int i = 0; i < m; i++) {
            Slot slot = s->pool[list + (size_t)i];
            if (s->min[slot.buffer] != PLACED) push_slot(s, slot);
        }
        list = mark;
        m = left;
    }
    Verdict verdict = INFEASIBLE;
    for (;;) {
        int best = -1, best_rank = 0;
        int64_t best_min = lid;
        for (int i = 0; i < m; i++) {
            Slot slot = s->pool[list + (size_t)i];
            int64_t at = s->min[slot.buffer];
            if (at >= best_min || at < low || (at == low && slot.rank < rank)) continue;
            best = slot.buffer;
            best_rank = slot.rank;
            best_min = at;
        }
        if (best < 0) break;
        low = best_min;
        rank = best_rank + 1;
        if (s->twin[best] >= 0 && s->min[s->twin[best]] != PLACED) continue;
        if (s->nodes++ >= s->limit) {
            verdict = LIMIT;
            break;
        }
        int nstack = s->nstack;
        if (place(s, best, lo, hi)) {
            verdict = explore_rest(s, best, list, m, lo, hi, best_rank);
            if (verdict == FOUND) break;
        }
        unplace_to(s, nstack);
        if (verdict == LIMIT) break;
        verdict = INFEASIBLE;
    }
    s->npool = mark;
    return verdict;
}

// Sections, spans, overlaps and twins. b is in canonical order, sizes above zero.
static void search_open(Search *s, const PackBuffer *b, int n, size_t pairs) {
    *s = (Search){.b = b, .n = n, .grain = grain_of(b, n)};
    size_t count = (size_t)n;
    s->size = packing_alloc(NULL, count, sizeof *s->size);
    s->min = packing_alloc(NULL, count, sizeof *s->min);
    s->offset = packing_alloc(NULL, count, sizeof *s->offset);
    s->floor = packing_alloc(NULL, count, sizeof *s->floor);
    s->total = packing_alloc(NULL, count, sizeof *s->total);
    s->first = packing_alloc(NULL, count, sizeof *s->first);
    s->last = packing_alloc(NULL, count, sizeof *s->last);
    s->twin = packing_alloc(NULL, count, sizeof *s->twin);
    s->cuts = packing_alloc(NULL, count, sizeof *s->cuts);
    s->stack = packing_alloc(NULL, count, sizeof *s->stack);
    s->near_at = packing_alloc(NULL, count + 1, sizeof *s->near_at);
    s->near = packing_alloc(NULL, 2 * pairs, sizeof *s->near);
    s->member_at = packing_alloc(NULL, count + 1, sizeof *s->member_at);
    Event *e = events_of(b, n);
    bool grown = false;  // a birth since the last section
    for (int i = 0; i < 2 * n; i++) {
        int u = e[i].buffer;
        if (e[i].birth) {
            s->first[u] = s->nsections;
            grown = true;
        } else {
            s->nsections += grown;
            s->last[u] = s->nsections;
            grown = false;
        }
    }
    free(e);
    size_t nmembers = 0;
    for (int u = 0; u < n; u++) nmembers += (size_t)(s->last[u] - s->first[u]);
    s->member = packing_alloc(NULL, nmembers, sizeof *s->member);
    int at = 0;
    for (int k = 0; k < s->nsections; k++) {
        s->member_at[k] = at;
        s->cuts[k] = 0;
        s->floor[k] = 0;
        s->total[k] = 0;
        for (int u = 0; u < n; u++)
            if (s->first[u] <= k && k < s->last[u]) s->member[at++] = u;
    }
    s->member_at[s->nsections] = at;
    at = 0;
    for (int u = 0; u < n; u++) {
        s->near_at[u] = at;
        s->min[u] = 0;
        s->size[u] = round_up(b[u].size, s->grain);
        s->twin[u] = u && equal_buffers(&b[u - 1], &b[u]) ? u - 1 : -1;
        for (int k = s->first[u]; k < s->last[u]; k++) {
            s->total[k] += s->size[u];
            s->cuts[k] += k + 1 < s->last[u];
        }
        for (int v = 0; v < n; v++)
            if (v != u && s->first[v] < s->last[u] && s->first[u] < s->last[v]) s->near[at++] = v;
    }
    s->near_at[n] = at;
}

static void search_close(Search *s) {
    void *all[] = {s->size, s->min, s->offset, s->floor, s->total, s->first, s->last, s->twin,
                   s->near_at, s->near, s->member_at, s->member, s->cuts, s->stack,
                   s->undo_min, s->undo_floor, s->pool};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

// One attempt after the other over the static orders, with doubled node limits.
static Verdict search_run(Search *s, int64_t capacity, int64_t limit) {
    static const char *const orders[] = {"WAT", "TAW", "TWA"};
    s->capacity = capacity;
    s->ceiling = round_up(capacity, s->grain);
    for (int k = 0; k < s->nsections; k++) if (s->total[k] > s->ceiling) return INFEASIBLE;
    size_t all = s->npool;
    for (int u = 0; u < s->n; u++) push_slot(s, (Slot){u, u});
    int64_t end = s->nodes + limit;
    Verdict v = LIMIT;
    for (int64_t share = 2 * s->n; v == LIMIT && s->nodes < end; share *= 2) {
        for (size_t o = 0; v == LIMIT && o < sizeof orders / sizeof *orders; o++) {
            s->order = orders[o];
            s->limit = min64(s->nodes + share, end);
            int from = 0;
            v = FOUND;
            for (int k = 0; v == FOUND && k < s->nsections; k++) {
                if (k + 1 < s->nsections && s->cuts[k]) continue;
                v = explore_part(s, all, s->n, from, k + 1, 0);
                from = k + 1;
            }
            if (v != FOUND) unplace_to(s, 0);
        }
    }
    s->npool = all;
    return v;
}

// ---- the packer ----

typedef struct { PackBuffer b; int row; } Sorted;

static int canonical_order(const void *x, const void *y) {
    const Sorted *a = x, *b = y;
    if (a->b.lower != b->b.lower) return a->b.lower < b->b.lower ? -1 : 1;
    if (a->b.upper != b->b.upper) return a->b.upper < b->b.upper ? -1 : 1;
    if (a->b.size != b->b.size) return a->b.size < b->b.size ? -1 : 1;
    if (a->b.align != b->b.align) return a->b.align < b->b.align ? -1 : 1;
    return (a->row > b->row) - (a->row < b->row);
}

// Overlapping pairs, or PAIRS_MAX + 1 when there are more.
static size_t count_pairs(const PackBuffer *b, int n) {
    Event *e = events_of(b, n);
    size_t pairs = 0, live = 0;
    for (int i = 0; i < 2 * n && pairs <= PAIRS_MAX; i++) {
        if (e[i].birth) pairs += live++;
        else live--;
    }
    free(e);
    return pairs;
}

// The placement found so far: offsets, peak, and what found it.
typedef struct { int64_t *offset; PackResult r; } Best;

static void keep_best(Best *best, const PackBuffer *b, int n, const char *method) {
    int64_t peak = peak_of(b, n);
    if (best->r.method && peak >= best->r.peak) return;
    best->r.peak = peak;
    best->r.method = method;
    for (int i = 0; i < n; i++) best->offset[i] = b[i].offset;
}

static Verdict try_capacity(Search *s, PackBuffer *b, Best *best, int64_t capacity,
                            int64_t limit) {
    Verdict v = search_run(s, capacity, limit);
    if (v != FOUND) return v;
    for (int i = 0; i < s->n; i++) b[i].offset = s->offset[i];
    unplace_to(s, 0);
    keep_best(best, b, s->n, "search");
    return v;
}

// The bound, then just above it, then halves what is left between the largest capacity that
// failed and the best placement: the optimum where the limits suffice to prove it.
static void search_down(Search *s, PackBuffer *b, Best *best) {
    int64_t n = s->n, bound = best->r.bound, failed = bound;
    if (try_capacity(s, b, best, bound, WORK_BOUND / n + NODES_BOUND * n) == FOUND) return;
    for (int k = 12; k >= 8; k -= 2) {
        int64_t above = bound + (bound >> k) / s->grain * s->grain;
        if (above <= failed || above >= best->r.peak) continue;
        if (try_capacity(s, b, best, above, WORK_ABOVE / n + NODES_ABOVE * n) == FOUND) break;
        failed = above;
    }
    int64_t half;
    for (int unproved = 0; unproved < UNPROVED_MAX; failed += half) {
        half = round_up((best->r.peak - failed) / 2, s->grain);
        if (half <= 0 || half >= best->r.peak - failed) break;
        Verdict v = try_capacity(s, b, best, failed + half, WORK_HALVES / n + NODES_ABOVE * n);
        unproved += v == LIMIT;
        if (v == FOUND) half = 0;
    }
}

static void search_best(PackBuffer *b, int n, size_t pairs, int64_t capacity, Best *best) {
    Search s;
    search_open(&s, b, n, pairs);
    if (capacity) try_capacity(&s, b, best, capacity, WORK_CAPACITY / n + NODES_BOUND * n);
    else search_down(&s, b, best);
    best->r.nodes = s.nodes;
    search_close(&s);
}

PackResult packing_run(PackBuffer *b, int n, int64_t capacity) {
    static const struct {
        const char *name;
        int (*order)(const void *, const void *);
    } greedy[] = {
        {"by size", order_by_size}, {"by life", order_by_life}, {"by area", order_by_area},
    };
    Sorted *sorted = packing_alloc(NULL, (size_t)n, sizeof *sorted);
    int m = 0;  // buffers with bytes
    for (int i = 0; i < n; i++) {
        b[i].offset = b[i].size ? -1 : 0;
        if (b[i].size) sorted[m++] = (Sorted){b[i], i};
    }
    qsort(sorted, (size_t)m, sizeof *sorted, canonical_order);
    PackBuffer *c = packing_alloc(NULL, (size_t)m, sizeof *c);
    for (int i = 0; i < m; i++) c[i] = sorted[i].b;
    Best best = {.r.bound = packing_bound(c, m)};
    best.offset = packing_alloc(NULL, (size_t)m, sizeof *best.offset);
    int64_t goal = capacity ? capacity : best.r.bound;
    for (size_t g = 0; g < sizeof greedy / sizeof *greedy && m <= GREEDY_MAX; g++) {
        if (best.r.method && best.r.peak <= goal) break;
        place_by_order(c, m, greedy[g].order);
        keep_best(&best, c, m, greedy[g].name);
    }
    if (!best.r.method || best.r.peak > goal) {
        place_by_time(c, m);
        keep_best(&best, c, m, "by time");
    }
    if (best.r.peak > goal && m <= SEARCH_MAX) {
        size_t pairs = count_pairs(c, m);
        if (pairs <= PAIRS_MAX) search_best(c, m, pairs, capacity, &best);
    }
    for (int i = 0; i < m; i++) b[sorted[i].row].offset = best.offset[i];
    free(best.offset);
    free(c);
    free(sorted);
    return best.r;
}

// ---- verification, by other means than placement ----

typedef struct { int64_t offset; int row; } Height;

static int height_order(const void *x, const void *y) {
    const Height *a = x, *b = y;
    if (a->offset != b->offset) return a->offset < b->offset ? -1 : 1;
    return (a->row > b->row) - (a->row < b->row);
}

static int time_order(const void *x, const void *y) {
    int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
    return (a > b) - (a < b);
}

// A tree over moments: high is the highest top below a node, all a top that covers all of it.
typedef struct { int64_t high, all; } Node;

// Highest top in [lo, hi) of node k, which covers [from, to). With top > 0, raises it there.
static int64_t tree_visit(Node *t, size_t k, size_t from, size_t to, size_t lo, size_t hi,
                          int64_t top) {
    if (hi <= from || to <= lo) return 0;
    if (top) t[k].high = max64(t[k].high, top);
    if (lo <= from && to <= hi) {
        if (top) t[k].all = max64(t[k].all, top);
        return t[k].high;
    }
    size_t mid = from + (to - from) / 2;
    int64_t a = tree_visit(t, 2 * k, from, mid, lo, hi, top);
    int64_t c = tree_visit(t, 2 * k + 1, mid, to, lo, hi, top);
    return max64(t[k].all, max64(a, c));
}

static size_t moment_of(const int64_t *moment, size_t n, int64_t time) {
    return (size_t)((int64_t *)bsearch(&time, moment, n, sizeof *moment, time_order) - moment);
}

// Goes up by offset: every buffer must start at or above the top of those placed before it.
static const char *verify_overlaps(const PackBuffer *b, int n) {
    static char msg[256];
    size_t count = 0;
    Height *h = packing_alloc(NULL, (size_t)n, sizeof *h);
    int64_t *moment = packing_alloc(NULL, 2 * (size_t)n, sizeof *moment);
    for (int i = 0; i < n; i++) {
        if (!b[i].size) continue;
        h[count] = (Height){b[i].offset, i};
        moment[2 * count] = b[i].lower;
        moment[2 * count++ + 1] = b[i].upper;
    }
    size_t nmoments = 2 * count, distinct = 0;
    qsort(h, count, sizeof *h, height_order);
    qsort(moment, nmoments, sizeof *moment, time_order);
    for (size_t i = 0; i < nmoments; i++)
        if (!distinct || moment[distinct - 1] != moment[i]) moment[distinct++] = moment[i];
    Node *tree = packing_alloc(NULL, 4 * distinct + 4, sizeof *tree);
    memset(tree, 0, (4 * distinct + 4) * sizeof *tree);
    const char *fault = NULL;
    for (size_t i = 0; i < count && !fault; i++) {
        const PackBuffer *p = &b[h[i].row];
        size_t lo = moment_of(moment, distinct, p->lower);
        size_t hi = moment_of(moment, distinct, p->upper);
        if (tree_visit(tree, 1, 0, distinct, lo, hi, 0) <= p->offset) {
            tree_visit(tree, 1, 0, distinct, lo, hi, p->offset + p->size);
            continue;
        }
        for (size_t j = 0; j < i && !fault; j++) {
            const PackBuffer *q = &b[h[j].row];
            if (q->lower >= p->upper || p->lower >= q->upper) continue;
            if (q->offset + q->size <= p->offset) continue;
            snprintf(msg, sizeof msg, "buffers %d and %d overlap: bytes [%" PRId64 ", %" PRId64
                     ") and [%" PRId64 ", %" PRId64 ")", h[j].row, h[i].row, q->offset,
                     q->offset + q->size, p->offset, p->offset + p->size);
            fault = msg;
        }
    }
    free(tree);
    free(moment);
    free(h);
    return fault;
}

const char *packing_verify(const PackBuffer *b, int n) {
    static char msg[256];
    for (int i = 0; i < n; i++) {
        const char *what = b[i].offset < 0 ? "is below zero"
                         : b[i].align < 1 ? "has an alignment below one"
                         : b[i].offset % b[i].align ? "is misaligned"
                         : b[i].size > INT64_MAX - b[i].offset ? "ends beyond 64 bits" : NULL;
        if (!what) continue;
        snprintf(msg, sizeof msg, "buffer %d %s: offset %" PRId64 ", size %" PRId64
                 ", alignment %" PRId64, i, what, b[i].offset, b[i].size, b[i].align);
        return msg;
    }
    return verify_overlaps(b, n);
}
