/* along.h -- directional derivatives along a gradient v: entries of the value `along`, all
 * floats. */
#ifndef DIECAST_ALONG_H
#define DIECAST_ALONG_H

enum {
    ALONG_EPS,              /* parameters move by eps v: 0.01 / (|v| + 1e-15) */
    ALONG_SIDE,             /* sign of the move: 1, then -1 */
    ALONG_TAKEN,            /* factor of the 16-bit copies of v */
    ALONG_BACK,             /* factor of sums over products with those; NaN if v is not finite */
    ALONG_ENTRIES
};

#endif
