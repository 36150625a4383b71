/* arena.cpp -- device and pinned memory: a range of addresses for each, allocations with gaps.
 *
 * Keeps: first fit, so that the same calls give the same layout; untouched pages cost nothing. An
 *        address tells its kind by itself; its allocation is looked up. */
#include "internal.h"

#include <map>
#include <mutex>
#include <string.h>
#include <sys/mman.h>

enum { GAP = 4096, ALIGN = 256 };

uintptr_t sim_arena_low[ARENAS];
const size_t sim_arena_bytes = (size_t)1 << 38;      /* 256 GiB a kind */

static std::map<uintptr_t, size_t> allocations;
static std::recursive_mutex lock;
using Lock = std::lock_guard<std::recursive_mutex>;

static uintptr_t arena_of(SimMemory kind)
{
    if (sim_arena_low[kind] == 0) {
        void *p = mmap(nullptr, sim_arena_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (p == MAP_FAILED)
            sim_fail("no address space for simulated memory");
        sim_arena_low[kind] = (uintptr_t)p;
    }
    return sim_arena_low[kind];
}

void *sim_allocate(SimMemory kind, size_t bytes)
{
    Lock guard(lock);
    uintptr_t low = arena_of(kind), at = low + GAP, end = low + sim_arena_bytes;
    bytes = bytes ? bytes : 1;
    for (auto i = allocations.lower_bound(low); i != allocations.end() && i->first < end; ++i) {
        if (i->first - at >= bytes + GAP)
            break;
        at = (i->first + i->second + GAP + ALIGN - 1) / ALIGN * ALIGN;
    }
    if (bytes > end - at)
        return nullptr;
    allocations[at] = bytes;
    return (void *)at;
}

bool sim_release(void *p)
{
    Lock guard(lock);
    auto i = allocations.find((uintptr_t)p);
    if (i == allocations.end())
        return false;
    /* whole pages are given back; no other allocation is on them: GAP */
    uintptr_t first = i->first / 4096 * 4096, end = (i->first + i->second + 4095) / 4096 * 4096;
    madvise((void *)first, end - first, MADV_DONTNEED);
    shadow_release(i->first, i->second);
    allocations.erase(i);
    return true;
}

bool arena_near(uintptr_t a, uintptr_t *low, size_t *bytes)
{
    Lock guard(lock);
    auto i = allocations.upper_bound(a);
    if (i == allocations.begin())
        return false;
    --i;
    *low = i->first;
    *bytes = i->second;
    return true;
}

bool sim_find(const void *p, SimMemory *kind, void **start, size_t *bytes)
{
    uintptr_t a = (uintptr_t)p, low;
    size_t size;
    if (!arena_near(a, &low, &size) || a - low >= size)
        return false;
    if (kind)
        *kind = low - sim_arena_low[SIM_DEVICE] < sim_arena_bytes ? SIM_DEVICE : SIM_PINNED;
    if (start)
        *start = (void *)low;
    if (bytes)
        *bytes = size;
    return true;
}
