/* jvp.h -- directional derivatives along a gradient v: entries of the value `tangent`, all
 * floats. */
#ifndef DIECAST_JVP_H
#define DIECAST_JVP_H

enum {
    TANGENT_EPS,            /* parameters move by eps v: 0.01 / (|v| + 1e-15) */
    TANGENT_SIDE,           /* sign of the move: 1, then -1 */
    TANGENT_TAKEN,          /* factor of the 16-bit copies of v */
    TANGENT_BACK,           /* factor of sums over products with those; NaN if v is not finite */
    TANGENT_ENTRIES
};

#endif
