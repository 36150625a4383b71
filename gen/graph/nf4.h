/* nf4.h -- frozen matrices in NF4 (lora.base): the parameter and its dequantisation.
 *
 * The parameter $X holds the codes (out, in / 2), two a byte; $absmax.X has a code for each block,
 * $nested.X a float for each group, $offset.X one for each tensor in it (runtime/nf4.h). */
#ifndef GEN_NF4_H
#define GEN_NF4_H

#include "gen/graph/graph.h"

/* True if a matrix made now is in NF4: of a block, by lora.base. */
bool nf4_is_base(const Build *b);
/* Adds the op that dequantises a parameter of `in` columns; returns the matrix (out, wide), of
 * which it writes the first `in` columns. Makes the parameter NF4 if it is not yet. */
Ref nf4_matrix(Build *b, const char *name, Value *param, Dim in, Dim wide);
/* Dequantises the matrix w again, without room after its rows, so that it need not be kept; another
 * w is returned as it is. */
Ref nf4_again(Build *b, Ref w);
/* Checks that ops which dequantise read the blocks of their parameter, and its tensors' rows. */
void nf4_check(const Graph *g);

#endif
