/* along.h -- what is known of v, a gradient along which losses are derived: the entries of the value
 * `along`, all floats. */
#ifndef DIECAST_ALONG_H
#define DIECAST_ALONG_H

enum {
    ALONG_EPS,              /* parameters are moved by eps v: 0.01 / (|v| + 1e-15) */
    ALONG_SIDE,             /* and then back: 1, -1 */
    ALONG_TAKEN,            /* 16-bit copies of v are times this */
    ALONG_BACK,             /* sums over products with those are times this; NaN where v is not finite */
    ALONG_ENTRIES
};

#endif
