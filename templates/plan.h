/* plan.h -- the memory plan.
//@ head
 *
 * PLAN(type, name, slots, elements from slot to slot, offset in the arena in bytes)
 * Behind each row: shape of a slot, bytes of all slots, and the calls between which it is alive
 * (numbers count the calls of all programs). Rows with the same offset share memory: a kernel works
 * in place, or their lives do not meet. */
//@ rows
#undef PLAN

#ifndef PLAN_BYTES
//@ bytes
#endif
