/* packing.h -- offsets for buffers with known lifetimes (static memory allocation).
 * In:    sizes, alignments and lifetimes.   Out: offsets, the peak, the lower bound.
 * Keeps: deterministic; does not depend on the order of rows, except that of equal rows.
 * Method: greedy orders, then a canonical depth-first search under node limits. */
#ifndef PACKING_H
#define PACKING_H
#include <stddef.h>
#include <stdint.h>

/* Alive in [lower, upper); align >= 1; offset is the result, -1 before.
 * The sum of size + align over all buffers must stay below INT64_MAX / 2. */
typedef struct { int64_t lower, upper, size, align; int64_t offset; } PackBuffer;

/* peak:  highest byte used. bound: see packing_bound. nodes: placements tried by the search.
 * method: "by size", "by life", "by area", "by time" or "search". */
typedef struct { int64_t peak, bound; const char *method; int64_t nodes; } PackResult;

/* Most bytes alive at one time, each size rounded up to the greatest common divisor of the
 * alignments (offsets are multiples of it). No peak lies below it by that divisor or more. */
int64_t packing_bound(const PackBuffer *b, int n);

/* Places all n buffers. capacity 0: aims at the bound, then just above it, else the best found.
 * capacity > 0: stops at the first placement with peak <= capacity. */
PackResult packing_run(PackBuffer *b, int n, int64_t capacity);

/* NULL when valid, else a message in static storage that names the first fault. */
const char *packing_verify(const PackBuffer *b, int n);

/* realloc for count items that ends the process with a line on stderr instead of failing. */
void *packing_alloc(void *old, size_t count, size_t each);
#endif
