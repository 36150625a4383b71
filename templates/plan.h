/* plan.h -- the memory plan.
//@ head
 *
 * PLAN(type, name, slots, elements from slot to slot, offset in the arena in bytes)
 * The comment after a row: shape of a slot, "/ RANKS" if this rank has one part of it; bytes of all
 * slots; and the calls during which it is live (numbers count the calls of all programs). Rows with
 * the same offset share memory: a kernel works in place, or their lifetimes do not overlap. */
//@ rows
#undef PLAN
//@ if host
#undef PLAN_HOST
//@ end

#ifndef PLAN_BYTES
//@ bytes
#endif
