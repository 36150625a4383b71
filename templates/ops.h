/* ops.h -- kernel calls for --profile: name, result, FLOP and bytes of one call, number of layers
 * it is called for in turn (negative: from the last to the first), whether it is a collective. */
//@ rows
