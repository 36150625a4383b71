/* attention_mask.h -- attention masks: the keys that each query of a block attends to.
 *
 * In:    an AttentionRule: the mask and its arrays; queries and keys in blocks of ATTENTION_BLOCK.
 * Out:   keys of a block's queries; runs of a key block's keys with the queries that see them.
 * Keeps: scores are stored (keys, queries), a row of ATTENTION_BLOCK queries a key. */
#ifndef DIECAST_KERNELS_ATTENTION_MASK_H
#define DIECAST_KERNELS_ATTENTION_MASK_H

#include <stdbool.h>

#include "tile.h"

enum {
    ATTENTION_BLOCK = 64,        /* queries and keys of a block */
    ATTENTION_GROUP = 4,         /* keys of a block that are left out together: those of a draw */
    ATTENTION_RUNS = ATTENTION_BLOCK / ATTENTION_GROUP
};

/* Keys that a query attends to. */
typedef enum {
    ATTENTION_CAUSAL,            /* those up to itself */
    ATTENTION_FULL,              /* all */
    ATTENTION_DOCS,              /* those up to itself in its document */
    ATTENTION_DOCS_FULL,         /* all of its document */
    ATTENTION_SHARED,            /* those up to itself; after the hole, without those in it */
    ATTENTION_LENGTH,            /* before the length those before it; after it: itself */
    ATTENTION_LIMIT              /* those before a limit of its own, and itself */
} AttentionMask;

/* The mask with its arrays, NULL where it has none, and dropout of the probabilities; lse is that
 * of all scores, dropped or not. */
typedef struct {
    AttentionMask mask;
    const int32_t *positions;    /* docs (B, T): position of a token in its document */
    const int32_t *doc_ends;     /* docs (B, T): position after its document's last token */
    const int32_t *kv_limits;    /* length (B); limit (B, T); from 0 to T */
    const int32_t *prompt_gaps;  /* shared (B, 2): first position, and that after the last, <= T */
    const int32_t *rows_read;    /* (B, T): -1: nothing reads this query's output; NULL: all are
                                  * read */
    const uint32_t *noise;       /* of dropout, see philox.h; NULL: none */
    int32_t site;                /* of dropout, as its op has it */
    float p;                     /* share of the probabilities that is dropped */
    int64_t sample, head;        /* of the block at work; callers leave them 0 */
} AttentionRule;

/* Of a vector of queries: first <= j < last: keys of at least one query; all_from <= j < all_to:
 * keys of all. Without the key that only the query itself attends to. */
typedef struct {
    int32_t first, last, all_from, all_to;
} AttentionSpan;

/* The keys that the queries of one block attend to: query i attends to begin[i] .. end[i] - 1.
 * Neither decreases as i grows, except that for queries with limits end[i] is the limit of query i,
 * which also attends to itself. Lanes without a query attend to the keys of the last query. */
typedef struct {
    int32_t begin[ATTENTION_BLOCK], end[ATTENTION_BLOCK];
    AttentionSpan span[ATTENTION_BLOCK / TILE_LANES];    /* of each vector of queries */
    int64_t first, last;         /* first <= j < last: keys of at least one query, in whole 32
                                  * where T is (AMX), else in whole groups */
    int64_t all_from, all_to;    /* of these, the keys of all queries */
    bool limits;
    int64_t own;                 /* the first query */
    int64_t own_first, own_last; /* keys after `last` that only the query itself attends to */
    int64_t hole_first, hole_last;       /* keys hidden from queries of lanes hole_from and up */
    int64_t hole_from;
} AttentionKeys;

/* Narrows queries *i0 .. *i0 + *n - 1 to those from the first that is read to the last, in whole 32
 * for AMX; *n = 0: none is. */
static inline void attention_read_(const AttentionRule *rule, int64_t *i0, int64_t *n)
{
#ifdef __AMX_BF16__
    enum { WHOLE = 32 };
#else
    enum { WHOLE = 1 };
#endif
    if (!rule->rows_read)
        return;
    int64_t first = *n, last = 0;
    for (int64_t i = *n; i-- > 0;)
        if (rule->rows_read[*i0 + i] >= 0)
            first = i, last = last ? last : i + 1;
    first = first / WHOLE * WHOLE;
    last = (last + WHOLE - 1) / WHOLE * WHOLE;
    *n = last < first ? 0 : (last < *n ? last : *n) - first;
    *i0 += first;
}

/* Sets the key ranges of queries i0 .. i0 + nq - 1 from limits. */
static inline void attention_limits_(AttentionKeys *k, const AttentionRule *rule, int64_t i0,
                                     int64_t nq, int64_t T)
{
    const int32_t *limits = rule->kv_limits;
    const bool each = rule->mask == ATTENTION_LIMIT;
    int32_t most = 0, least = (int32_t)T;
#pragma omp simd reduction(max : most) reduction(min : least)
    for (int64_t i = 0; i < nq; i++) {
        const int32_t end = each ? limits[i0 + i] : i0 + i < limits[0] ? limits[0] : 0;
        k->end[i] = end;
        most = end > most ? end : most;
        least = end < least ? end : least;
    }
    k->limits = true;
    k->own = i0;
    k->first = k->all_from = 0, k->all_to = least;
    k->last = (most + 31) / 32 * 32 < T ? (most + 31) / 32 * 32 : T;
    k->own_first = k->last > i0 ? k->last : i0 / 32 * 32;
    k->own_last = (i0 + nq + 31) / 32 * 32 < T ? (i0 + nq + 31) / 32 * 32 : T;
}

/* Sets the key ranges of queries i0 .. i0 + nq - 1 from a causal mask, documents and a hole. */
static inline void attention_ranges_(AttentionKeys *k, const AttentionRule *rule, int64_t i0,
                                     int64_t nq, int64_t T)
{
    const bool causal =
        rule->mask == ATTENTION_CAUSAL || rule->mask == ATTENTION_DOCS || rule->prompt_gaps;
    for (int64_t i = 0; i < nq; i++) {
        const int64_t t = i0 + i;
        if (rule->positions)
            k->begin[i] = (int32_t)t - rule->positions[t];
        k->end[i] = (int32_t)(causal ? t + 1 : rule->doc_ends ? rule->doc_ends[t] : T);
    }
    const int64_t whole = T % 32 ? ATTENTION_GROUP : 32;
    k->first = k->begin[0] / whole * whole;
    k->last = (k->end[nq - 1] + whole - 1) / whole * whole;
    k->last = k->last < T ? k->last : T;
    k->all_from = k->begin[nq - 1], k->all_to = k->end[0];
    k->limits = false;
    k->own_first = k->own_last = 0;
    if (rule->prompt_gaps && i0 + nq > rule->prompt_gaps[1]) {
        k->hole_first = rule->prompt_gaps[0], k->hole_last = rule->prompt_gaps[1];
        k->hole_from = rule->prompt_gaps[1] > i0 ? rule->prompt_gaps[1] - i0 : 0;
    }
}

/* Sets the keys of queries i0 .. i0 + nq - 1 of a sequence, from the arrays of the rule. */
static inline void attention_keys_(AttentionKeys *k, const AttentionRule *rule, int64_t i0,
                                   int64_t nq, int64_t T)
{
    for (int64_t i = 0; i < nq; i++)
        k->begin[i] = 0;
    k->hole_first = k->hole_last = k->hole_from = 0;
    if (rule->kv_limits)
        attention_limits_(k, rule, i0, nq, T);
    else
        attention_ranges_(k, rule, i0, nq, T);
    for (int64_t i = nq; i < ATTENTION_BLOCK; i++)
        k->begin[i] = k->begin[nq - 1], k->end[i] = k->end[nq - 1];
    for (int64_t i = 0; i < ATTENTION_BLOCK; i += TILE_LANES) {
        int32_t first = (int32_t)T, last = 0, all_from = 0, all_to = (int32_t)T;
#pragma omp simd reduction(min : first, all_to) reduction(max : last, all_from)
        for (int64_t l = i; l < i + TILE_LANES; l++) {
            const int32_t begin = k->begin[l], end = k->end[l];
            first = begin < first ? begin : first;
            last = end > last ? end : last;
            all_from = begin > all_from ? begin : all_from;
            all_to = end < all_to ? end : all_to;
        }
        k->span[i / TILE_LANES] = (AttentionSpan){ first, last, all_from, all_to };
    }
}

/* Keys of the next block, which *j is moved to: at most ATTENTION_BLOCK; 0: none is left. */
static inline int64_t attention_next_(const AttentionKeys *k, int64_t *j)
{
    const int64_t beyond = k->hole_last / 32 * 32;
    if (*j >= k->hole_first && *j < beyond && !k->hole_from)
        *j = beyond;
    const bool own = *j >= k->last;
    if (own && *j < k->own_first)
        *j = k->own_first;
    const int64_t n = (own ? k->own_last : k->last) - *j;
    return n > ATTENTION_BLOCK ? ATTENTION_BLOCK : n > 0 ? n : 0;
}

/* Keys j .. j + n - 1 of a block with lanes from .. to - 1: whole vectors with every query of the
 * block that attends to one of these keys. */
typedef struct {
    int64_t j, n, from, to;
} AttentionRun;

/* A bit for each group of keys j0 .. j0 + nk - 1 with one of the keys first .. last - 1. */
static inline uint32_t attention_groups_(int64_t first, int64_t last, int64_t j0, int64_t nk)
{
    const int64_t from = first > j0 ? first - j0 : 0, to = last < j0 + nk ? last - j0 : nk;
    const int64_t end = (to + ATTENTION_GROUP - 1) / ATTENTION_GROUP;
    return from < to ? (1u << end) - (1u << from / ATTENTION_GROUP) : 0;
}

/* The runs of keys j0 .. j0 + nk - 1, in order; returns how many. */
static inline int attention_runs_(AttentionRun run[ATTENTION_RUNS], const AttentionKeys *keys,
                                  int64_t j0, int64_t nk, int64_t lanes)
{
    uint32_t seen[ATTENTION_BLOCK / TILE_LANES]; /* groups that a vector of queries sees */
    uint32_t begins = 1;         /* groups that other vectors see than the group before */
    int n = 0;
    run[0] = (AttentionRun){ .n = nk, .to = lanes };
    if (keys->all_from <= j0 && j0 + nk <= keys->all_to)
        return 1;
    for (int64_t i = 0; i < lanes; i += TILE_LANES) {
        const AttentionSpan *span = keys->span + i / TILE_LANES;
        const int64_t own = keys->own + i;
        uint32_t groups = attention_groups_(span->first, span->last, j0, nk);
        if (keys->limits)
            groups |= attention_groups_(own, own + TILE_LANES, j0, nk);
        seen[i / TILE_LANES] = groups;
        begins |= groups ^ groups << 1;
    }
    for (int g = 0, next; g * ATTENTION_GROUP < nk; g = next) {
        const uint32_t later = begins & -(2u << g);
        AttentionRun r = { .j = g * ATTENTION_GROUP, .to = lanes };
        next = later ? __builtin_ctz(later) : ATTENTION_RUNS;
        r.n = (next * ATTENTION_GROUP < nk ? next * ATTENTION_GROUP : nk) - r.j;
        while (r.from < r.to && !(seen[r.from / TILE_LANES] >> g & 1))
            r.from += TILE_LANES;
        while (r.from < r.to && !(seen[r.to / TILE_LANES - 1] >> g & 1))
            r.to -= TILE_LANES;
        if (r.from < r.to)
            run[n++] = r;
    }
    return n;
}

/* Scales the scores of a run of the block at key j0; sets masked ones to -inf. If the scale is 1,
 * skips keys that all queries of a vector attend to. */
static inline void attention_mask_(float *s, const AttentionKeys *keys, int64_t j0,
                                   const AttentionRun *run, float scale)
{
    enum { N = ATTENTION_BLOCK };
    const int64_t first = j0 + run->j, last = first + run->n;
    const bool gap = first < keys->hole_last && last > keys->hole_first;
    for (int64_t i = run->from; i < run->to; i += TILE_LANES) {
        const AttentionSpan *span = keys->span + i / TILE_LANES;
        const int64_t from = span->all_from > first ? span->all_from : first;
        const bool skips = !gap && scale == 1 && from < span->all_to;
        const bool all = !gap && span->all_from <= first && last <= span->all_to;
        if (all && scale == 1)
            continue;
        const TileInts begin = *(const TileInts *)(keys->begin + i);
        const TileInts end = *(const TileInts *)(keys->end + i);
        const TileInts minus_inf = (TileInts)((TileVec){ 0 } - __builtin_inff());
        TileInts lane = { 0 };
        for (int l = 0; l < TILE_LANES; l++)
            lane[l] = (int32_t)i + l;
        for (int64_t j = run->j; j < run->j + run->n; j++) {
            if (skips && j0 + j == from && (j = span->all_to - j0) >= run->j + run->n)
                break;
            const int32_t key = (int32_t)(j0 + j);
            const bool in_hole = key >= keys->hole_first && key < keys->hole_last;
            const int32_t to = (int32_t)(in_hole ? keys->hole_from : N);
            const int32_t own = keys->limits ? key - (int32_t)keys->own : -1;
            const TileInts seen =
                ((begin <= key) & (end > key) & (lane < to)) | (lane == own) | -(int32_t)all;
            TileVec *at = (TileVec *)(s + j * N + i);
            *at = (TileVec)(((TileInts)(*at * scale) & seen) | (minus_inf & ~seen));
        }
    }
}

/* The rule of sequence b and query head h. */
static inline AttentionRule attention_rule_(const AttentionRule *rule, int64_t b, int64_t h,
                                            int64_t T)
{
    AttentionRule of_b = *rule;
    of_b.sample = b, of_b.head = h;
    if (of_b.positions)
        of_b.positions += b * T, of_b.doc_ends += b * T;
    if (of_b.kv_limits)
        of_b.kv_limits += of_b.mask == ATTENTION_LENGTH ? b : b * T;
    if (of_b.prompt_gaps)
        of_b.prompt_gaps += 2 * b;
    if (of_b.rows_read)
        of_b.rows_read += b * T;
    return of_b;
}

#endif
