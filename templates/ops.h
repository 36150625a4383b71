/* ops.h -- every call of a kernel, for --profile: its name, what it makes, FLOP and bytes of one,
 * for how many layers it is called in turn (below zero: from the last down), whether it sums over
 * ranks. */
//@ rows
