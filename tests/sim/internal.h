/* internal.h -- inside the device side of the simulator: what its files share. */
#ifndef SIM_INTERNAL_H
#define SIM_INTERNAL_H

#include "device.h"

enum { WARP = 32, MAX_THREADS = 1024, MAX_WARPS = MAX_THREADS / WARP, LANE_BYTES = 64 };

struct Index {
    unsigned x, y, z;
};

/* The kernel as it runs, for messages and for the shadow. */
struct Place {
    const char *kernel;          /* NULL: none runs */
    Index grid, block;           /* sizes */
    Index at;                    /* the block */
    int thread;                  /* number in the block, -1: none */
    bool inside;                 /* accesses are those of device code */
};
extern Place sim_place;

/* The memory that fibers run on and meet in: [own_low, own_low + own_bytes); a thread's own stack
 * is [stack_low, stack_low + SIM_STACK) of it. */
enum { SIM_STACK = 128 << 10, SIM_DYNAMIC = 256 << 10 };
extern uintptr_t sim_own_low, sim_own_bytes, sim_stacks_bytes, sim_stack_low;
extern const void *sim_dynamic;          /* dynamic shared memory of a block */
extern size_t sim_dynamic_bytes;

extern const void *sim_pc;               /* where device code called the simulator last */

static inline Index index_of(int64_t i, Index size)
{
    return {(unsigned)(i % size.x), (unsigned)(i / size.x % size.y),
            (unsigned)(i / size.x / size.y)};
}

/* ---- arena.cpp ---- */
enum { ARENAS = SIM_PINNED + 1 };
extern uintptr_t sim_arena_low[ARENAS];
extern const size_t sim_arena_bytes;
/* The allocation that holds address a, else the last one before it; false: none of them. */
bool arena_near(uintptr_t a, uintptr_t *low, size_t *bytes);
extern const char *sim_op_name;          /* of the current operation, NULL: host code */

/* ---- names.cpp ---- */
/* " [file.cuh:12]" of a code address, or "" when it cannot be told. */
const char *names_line(const void *pc);

/* ---- shadow.cpp; nothing in the fast library ---- */
#ifdef SIM_CHECKED
void shadow_release(uintptr_t low, size_t bytes);
void shadow_grid(void);                  /* the grid of the current operation begins */
void shadow_block(void);                 /* the next block of the grid begins */
void shadow_thread(int thread);          /* the core passes to this thread */
void shadow_barrier(void);
void shadow_syncwarp(int warp, unsigned mask);
void shadow_fence(void);
/* Accesses of the running thread; pending: nobody may read before the write that follows. */
void shadow_access(const void *p, size_t bytes, bool write);
void shadow_pending(void *p, size_t bytes);
void shadow_atomic(void *p, size_t bytes);
bool shadow_inside(void);                /* is the caller device code? */
void shadow_host(const void *p, size_t bytes, bool write);   /* host code accesses */
#else
static inline void shadow_release(uintptr_t, size_t) {}
static inline void shadow_grid(void) {}
static inline void shadow_block(void) {}
static inline void shadow_thread(int) {}
static inline void shadow_barrier(void) {}
static inline void shadow_syncwarp(int, unsigned) {}
static inline void shadow_fence(void) {}
static inline void shadow_access(const void *, size_t, bool) {}
static inline void shadow_pending(void *, size_t) {}
static inline void shadow_atomic(void *, size_t) {}
#endif

#endif
