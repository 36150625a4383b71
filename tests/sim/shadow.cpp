/* shadow.cpp -- looks at every access: bounds, memory nothing wrote, races, order of operations.
 *
 * Method: time is cut into segments, numbered over the whole run: one begins at each operation,
 *         block and barrier. A Cell remembers who wrote and read last, as Records (segment, step of
 *         the warp, thread); the segment tells block and operation. Much as FastTrack (Flanagan,
 *         Freund 2009): epochs where an order is total, vectors only for parts of a warp. */
#include "host.h"
#include "internal.h"

#ifdef SIM_CHECKED

#include <algorithm>
#include <link.h>
#include <mutex>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unordered_map>
#include <vector>

/* segment (34 bits) | step (17) | thread (10) | flags (3); 0: never */
typedef uint64_t Record;
enum { THREAD_AT = 3, STEP_AT = 13, SEGMENT_AT = 30 };
static const Record THREAD_BITS = (Record)(MAX_THREADS - 1) << THREAD_AT;
static const uint32_t MAX_STEP = (1 << (SEGMENT_AT - STEP_AT)) - 1;
/* flags of a writer: a store, a copy under way, or an atomic: the only one, or one of several, of
 * threads in this segment or of blocks in this grid */
enum { STORE, PENDING, ATOMIC, ATOMIC_THREADS, ATOMIC_BLOCKS, WRITER_FLAGS = 7 };
/* flags of a reader: alone in its segment, one of several lanes of a warp, or of several warps */
enum { ONE = 0, ONE_WARP = 1, MANY = 2 };

/* Of 4 bytes that are accessed together, or, when `writer` is SPLIT, of each in Shadow.fine */
struct Cell {
    Record writer, reader;
    Record other;                /* a reader of another block or operation that `reader` hides */
};
static const Record SPLIT = ~(Record)0;

const size_t sim_filled = (size_t)1 << 20;

struct Shadow {
    uintptr_t low;
    Cell *coarse, *fine;         /* a cell for 4 bytes, for 1 byte */
};

enum Kind { READ, WRITE, TAKE, BEGIN };   /* TAKE: an atomic. BEGIN: a copy that arrives later */

/* Who accesses: records of the present, and where its segment, block and operation begin. */
struct Now {
    Record record, segment, block, operation;
    uint32_t op;
};

enum { CACHED = 8 };
static struct {
    Record low[CACHED], high[CACHED];
    int next;
} ordered;                       /* operations known to happen before the present one */

struct Segments {
    Record first;
    uint32_t op;
};
static std::vector<Segments> operations;   /* in order of `first` */
static std::vector<Record> blocks;         /* of the grid: first record of each */
static Record segments;                    /* the last one */
static Now now, host;
static uint32_t current_op;                /* 0: none */

/* By warp, in the present segment. A lane's accesses of a step before `floor` happen before all
 * that its warp does now; known[a][b]: before what lane a does now, for lane b. */
struct WarpOrder {
    bool moved;                  /* is anything below not 0? */
    uint32_t floor, step[WARP];
    uint32_t known[WARP][WARP];
};
static WarpOrder warps[MAX_WARPS];

/* Last-block pattern: blocks known to be over through atomics after a fence. */
typedef std::vector<bool> Blocks;
static std::unordered_map<uintptr_t, Blocks> released;
static Blocks acquired;
static bool fenced;

static Shadow arenas[ARENAS], dynamic_shadow, static_shadow;
static uintptr_t static_low, static_bytes; /* of __shared__ variables */
static uintptr_t constant_low, constant_high;
static std::vector<std::pair<uintptr_t, uintptr_t>> readonly;
static const char *device_thread;          /* whose code is a kernel's */
static std::mutex host_mutex;

/* ---- messages ---- */

static const char *const verbs[] = {"reads", "writes", "changes (atomic)", "begins to fill"};

static inline bool is_atomic(Record r)
{
    return (r & WRITER_FLAGS) >= ATOMIC;
}

static const char *who(Record r, const Now *me, char text[160])
{
    Index t = index_of((int64_t)(r & THREAD_BITS) >> THREAD_AT, sim_place.block);
    if (r >= me->block) {
        snprintf(text, 160, "thread (%u,%u,%u)", t.x, t.y, t.z);
    } else if (r >= me->operation) {
        auto i = std::upper_bound(blocks.begin(), blocks.end(), r) - blocks.begin() - 1;
        Index b = index_of(i, sim_place.grid);
        snprintf(text, 160, "block (%u,%u,%u)", b.x, b.y, b.z);
    } else {
        auto i = std::upper_bound(operations.begin(), operations.end(), r,
                                  [](Record x, const Segments &s) { return x < s.first; });
        snprintf(text, 160, "%s", sim_op_text((i - 1)->op));
    }
    return text;
}

[[noreturn]] static void fail_conflict(const Now *me, Kind kind, const char *space, Record r,
                                       bool written)
{
    char text[160];
    bool atomic = written && is_atomic(r);
    bool several = atomic ? (r & WRITER_FLAGS) > ATOMIC : !written && r >= me->segment && r & 3;
    const char *did = !written  ? "read"
                      : !atomic ? "wrote"
                      : several ? "changed by atomics"
                                : "changed by an atomic";
    if (several)
        snprintf(text, sizeof text, "several %s",
                 atomic && (r & WRITER_FLAGS) == ATOMIC_BLOCKS ? "blocks" : "threads");
    else
        who(r, me, text);
    if (r >= me->block)
        sim_fail("%s %s memory that %s %s, with no barrier between", verbs[kind], space, text, did);
    if (r >= me->operation)
        sim_fail("%s %s memory that %s of this grid %s", verbs[kind], space, text, did);
    sim_fail("%s%s memory that %s %s: nothing puts the two in order",
             me == &host ? "host code " : "", verbs[kind], text, did);
}

static const char *const spaces[ARENAS] = {"global", "pinned host"};

/* Pinned memory is also written by host code that the compiler planted nothing in. */
static void meet_unwritten(Kind kind, size_t bytes, const char *space)
{
    if (space != spaces[SIM_PINNED])
        sim_fail("%s %zu bytes of %s memory that nothing wrote", verbs[kind], bytes, space);
}

/* ---- order ---- */

static bool happens_before(Record r, const Now *me)
{
    for (int i = 0; i < CACHED; i++)
        if (r >= ordered.low[i] && r < ordered.high[i])
            return true;
    auto next = std::upper_bound(operations.begin(), operations.end(), r,
                                 [](Record x, const Segments &s) { return x < s.first; });
    uint32_t earlier = (next - 1)->op;
    if (earlier != me->op && !sim_happens_before(earlier, me->op))
        return false;
    ordered.low[ordered.next] = (next - 1)->first;
    ordered.high[ordered.next] = next == operations.end() ? 0 : next->first;
    ordered.next = (ordered.next + 1) % CACHED;
    return true;
}

static bool block_over(Record r)
{
    auto i = std::upper_bound(blocks.begin(), blocks.end(), r) - blocks.begin() - 1;
    return (size_t)i < acquired.size() && acquired[(size_t)i];
}

/* Did a lane of my warp access so many of its steps ago that a __syncwarp of both lies between? */
static inline bool warp_ordered(Record r, const Now *me)
{
    unsigned other = (unsigned)((r & THREAD_BITS) >> THREAD_AT);
    unsigned mine = (unsigned)((me->record & THREAD_BITS) >> THREAD_AT);
    if (other / WARP != mine / WARP)
        return false;
    const WarpOrder *w = &warps[mine / WARP];
    uint32_t step = (uint32_t)(r >> STEP_AT) & MAX_STEP;
    return step < w->floor || step < w->known[mine % WARP][other % WARP];
}

/* Does a __syncwarp of the whole warp lie between r, of this segment, and now? */
static inline bool warp_passed(Record r, const Now *me)
{
    unsigned warp = (unsigned)((r & THREAD_BITS) >> THREAD_AT) / WARP;
    return warp == (unsigned)((me->record & THREAD_BITS) >> THREAD_AT) / WARP &&
           ((uint32_t)(r >> STEP_AT) & MAX_STEP) < warps[warp].floor;
}

static inline bool same_thread(Record a, Record b)
{
    return ((a ^ b) & THREAD_BITS) == 0;
}

/* ---- one cell ---- */

/* `kind` comes upon what r wrote */
template <bool SHARED>
static inline void meet_writer(Record r, Kind kind, const Now *me, const char *space)
{
    if ((r & WRITER_FLAGS) == PENDING && r >= me->block && kind == READ)
        sim_fail("reads %s memory that a copy under way (cp.async) has yet to fill", space);
    if (kind == TAKE && is_atomic(r) && r >= me->operation)
        return;
    if (r >= me->segment) {
        bool alone = same_thread(r, me->record) && (r & WRITER_FLAGS) <= ATOMIC;
        if (!alone && !warp_ordered(r, me))
            fail_conflict(me, kind, space, r, true);
    } else if (!SHARED && r >= me->block) {
        if ((r & WRITER_FLAGS) == ATOMIC_BLOCKS && acquired.empty())
            fail_conflict(me, kind, space, r, true);
    } else if (!SHARED && r != 0) {
        if (r >= me->operation ? !block_over(r) : !happens_before(r, me))
            fail_conflict(me, kind, space, r, true);
    }
}

/* A write comes upon what r read */
template <bool SHARED>
static inline void meet_reader(Record r, Kind kind, const Now *me, const char *space)
{
    if (r >= me->segment) {
        int readers = r & 3;
        bool alone = readers == ONE && same_thread(r, me->record);
        if (readers == MANY || !(alone || warp_ordered(r, me)))
            fail_conflict(me, kind, space, r, false);
    } else if (!SHARED && r < me->block && r != 0) {
        if (r >= me->operation ? !block_over(r) : !happens_before(r, me))
            fail_conflict(me, kind, space, r, false);
    }
}

/* An atomic comes upon what r wrote: with whom does it share the place? */
static inline Record atomic_flags(Record r, const Now *me)
{
    Record flags = is_atomic(r) ? r & WRITER_FLAGS : (Record)STORE;
    if (r >= me->operation && flags && (r < me->block || flags == ATOMIC_BLOCKS))
        return ATOMIC_BLOCKS;
    if (r >= me->segment && flags && (!same_thread(r, me->record) || flags == ATOMIC_THREADS))
        return ATOMIC_THREADS;
    return ATOMIC;
}

template <bool SHARED>
static inline void cell_access(Cell *c, Kind kind, const Now *me, size_t bytes, const char *space)
{
    if ((kind == READ || kind == TAKE) && (SHARED ? c->writer < me->block : c->writer == 0))
        meet_unwritten(kind, bytes, space);
    meet_writer<SHARED>(c->writer, kind, me, space);
    if (kind == READ) {
        Record r = c->reader;
        if (r >= me->segment) {
            unsigned others = (unsigned)(r & 3);
            if (others != MANY && warp_passed(r, me)) {
                others = ONE;            // those before are in order, whichever lanes they were
            } else if (!same_thread(r, me->record)) {
                bool warp = (r ^ me->record) >> (THREAD_AT + 5) << (64 - 5) == 0;
                others = warp && others != MANY ? ONE_WARP : MANY;
            }
            c->reader = me->record | others;
        } else {
            bool elsewhere = !SHARED && r < me->block && r != 0;
            if (elsewhere && (r >= me->operation || !happens_before(r, me)))
                c->other = r;
            c->reader = me->record;
        }
        return;
    }
    meet_reader<SHARED>(c->reader, kind, me, space);
    if (!SHARED && c->other)
        meet_reader<SHARED>(c->other, kind, me, space);
    c->writer = me->record | (kind == TAKE    ? atomic_flags(c->writer, me)
                              : kind == BEGIN ? (Record)PENDING
                                              : (Record)STORE);
    c->reader = c->other = 0;
}

/* ---- ranges of memory ---- */

static void split(Shadow *s, uintptr_t granule)
{
    Cell *c = &s->coarse[granule];
    for (int i = 0; i < 4; i++)
        s->fine[4 * granule + i] = *c;
    c->writer = SPLIT;
}

template <bool SHARED>
static void touch(Shadow *s, uintptr_t a, size_t bytes, Kind kind, const Now *me, const char *space)
{
    uintptr_t at = a - s->low, end = at + bytes;
    while (at < end) {
        Cell *c = &s->coarse[at / 4];
        size_t part = std::min<size_t>(4 - at % 4, end - at);
        if (part < 4 && c->writer != SPLIT)
            split(s, at / 4);
        if (c->writer != SPLIT) {
            cell_access<SHARED>(c, kind, me, bytes, space);
        } else {
            for (size_t i = 0; i < part; i++)
                cell_access<SHARED>(&s->fine[at + i], kind, me, bytes, space);
            if (part == 4 && kind == WRITE)
                *c = s->fine[at];
        }
        at += part;
    }
}

/* Allocations that were looked up last. */
static struct {
    uintptr_t low, high;
} recent[4];
static int next_recent;

static void check_bounds(uintptr_t a, size_t bytes, Kind kind, const char *space)
{
    for (auto &r : recent)
        if (a >= r.low && a + bytes <= r.high)
            return;
    uintptr_t low = 0;
    size_t size = 0;
    if (!arena_near(a, &low, &size))
        sim_fail("%s %zu bytes at %p: %s memory that nothing allocated", verbs[kind], bytes,
                 (void *)a, space);
    if (a - low >= size || a + bytes > low + size)
        sim_fail("%s %zu bytes at byte %zu of an allocation of %zu bytes of %s memory", verbs[kind],
                 bytes, (size_t)(a - low), size, space);
    recent[next_recent] = {low, low + size};
    next_recent = (next_recent + 1) % 4;
}

static int arena_at(uintptr_t a)
{
    for (int i = 0; i < ARENAS; i++)
        if (a - sim_arena_low[i] < sim_arena_bytes && sim_arena_low[i])
            return i;
    return -1;
}

static Cell *cells(size_t count)
{
    void *p = mmap(nullptr, count * sizeof(Cell), PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        sim_fail("no address space for the shadow of memory");
    return (Cell *)p;
}

static Shadow *arena_shadow(int arena)
{
    Shadow *s = &arenas[arena];
    if (!s->coarse)
        *s = {sim_arena_low[arena], cells(sim_arena_bytes / 4), cells(sim_arena_bytes)};
    return s;
}

static void arena_access(int arena, uintptr_t a, size_t bytes, Kind kind, const Now *me)
{
    check_bounds(a, bytes, kind, spaces[arena]);
    touch<false>(arena_shadow(arena), a, bytes, kind, me, spaces[arena]);
}

/* Zeros; whole pages are given back, so that those that nobody touched stay so. */
static void forget(Cell *from, Cell *end)
{
    char *low = (char *)from, *high = (char *)end;
    char *first = low + (-(uintptr_t)low & 4095), *last = high - ((uintptr_t)high & 4095);
    memset(low, 0, (size_t)(first - low));
    madvise(first, (size_t)(last - first), MADV_DONTNEED);
    memset(last, 0, (size_t)(high - last));
}

void shadow_release(uintptr_t low, size_t bytes)
{
    enum { MANY_CELLS = 16384 };         /* a workspace, of which next to nothing was touched */
    for (auto &r : recent)
        if (r.low == low)
            r = {};
    Shadow *s = &arenas[arena_at(low)];
    if (!s->coarse)
        return;
    uintptr_t first = (low - s->low) / 4, end = (low - s->low + bytes + 3) / 4;
    if (end - first >= MANY_CELLS) {
        forget(s->coarse + first, s->coarse + end);
        forget(s->fine + 4 * first, s->fine + 4 * end);
        return;
    }
    for (uintptr_t i = first; i < end; i++) {
        if (s->coarse[i].writer == SPLIT)
            memset(&s->fine[4 * i], 0, 4 * sizeof(Cell));
        if (s->coarse[i].writer | s->coarse[i].reader | s->coarse[i].other)
            memset(&s->coarse[i], 0, sizeof(Cell));
    }
}

/* ---- traffic ---- */

static std::vector<std::pair<uintptr_t, size_t>> counted;
static uint64_t moved;

void sim_count(const void *p, size_t bytes)
{
    counted.push_back({(uintptr_t)p, bytes});
}

uint64_t sim_moved(void)
{
    const uint64_t bytes = moved;
    counted.clear();
    moved = 0;
    return bytes;
}

static inline void count(uintptr_t a, size_t bytes)
{
    for (auto &c : counted)
        moved += a - c.first < c.second ? bytes : 0;
}

/* ---- operations ---- */

static Record new_segment()
{
    return ++segments << SEGMENT_AT;
}

static void begin(Now *me, uint32_t op)
{
    Record first = new_segment();
    operations.push_back({first, op});
    *me = {first, first, first, first, op};
    memset(&ordered, 0, sizeof ordered);
}

void sim_op_begin(uint32_t op, const char *name)
{
    std::lock_guard<std::mutex> guard(host_mutex);
    if (now.op != op || operations.back().op != op)     /* else it goes on */
        begin(&now, op);
    current_op = op;
    sim_op_name = name;
}

void sim_op_end(void)
{
    std::lock_guard<std::mutex> guard(host_mutex);
    current_op = 0;
    sim_op_name = nullptr;
}

static void host_access(uintptr_t a, size_t bytes, Kind kind);

static void op_access(const void *p, size_t bytes, Kind kind)
{
    int arena = arena_at((uintptr_t)p);
    if (arena >= 0 && bytes > 0 && current_op == 0)
        host_access((uintptr_t)p, bytes, kind);
    else if (arena >= 0 && bytes > 0) {
        count((uintptr_t)p, bytes);
        arena_access(arena, (uintptr_t)p, bytes, kind, &now);
    }
}

void sim_read(const void *p, size_t bytes)
{
    op_access(p, bytes, READ);
}

void sim_write(void *p, size_t bytes)
{
    op_access(p, bytes, WRITE);
}

/* The cell of one byte, without its neighbours when they differ */
static Cell *cell_of(Shadow *s, uintptr_t a)
{
    Cell *c = &s->coarse[(a - s->low) / 4];
    return c->writer == SPLIT ? &s->fine[a - s->low] : c;
}

void sim_copy(void *to, const void *from, size_t bytes)
{
    uintptr_t a = (uintptr_t)from, b = (uintptr_t)to;
    int source = arena_at(a), target = arena_at(b);
    if (source < 0) {
        op_access(to, bytes, WRITE);
        return;
    }
    if (bytes > 0)
        check_bounds(a, bytes, READ, spaces[source]);
    if (bytes > 0 && target >= 0)
        check_bounds(b, bytes, WRITE, spaces[target]);
    Shadow *s = arena_shadow(source);
    size_t part = a % 4 == 0 && b % 4 == 0 ? 4 : 1;
    for (size_t i = 0; i < bytes; i += part) {
        part = std::min(part, bytes - i);
        bool whole = true;
        for (size_t j = 0; j < part && source != SIM_PINNED; j++)
            whole &= cell_of(s, a + i + j)->writer != 0;
        if (whole)
            op_access(from ? (const char *)from + i : nullptr, part, READ);
        op_access((char *)to + i, part, WRITE);
        if (!whole && target >= 0)
            for (size_t j = 0; j < part; j++) {
                Shadow *t = arena_shadow(target);
                if (t->coarse[(b + i + j - t->low) / 4].writer != SPLIT)
                    split(t, (b + i + j - t->low) / 4);
                if (cell_of(s, a + i + j)->writer == 0)
                    cell_of(t, b + i + j)->writer = 0;
            }
    }
}

/* ---- kernels ---- */

static const char *thread_pointer()
{
    return (const char *)__builtin_thread_pointer();
}

extern "C" char __start_sim_constant[] __attribute__((weak));
extern "C" char __stop_sim_constant[] __attribute__((weak));

/* Of the program itself: where __shared__ (thread-local), __constant__ and read-only data are */
static int read_segments(dl_phdr_info *info, size_t, void *)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        if (h->p_type == PT_TLS) {
            static_bytes = (h->p_memsz + h->p_align - 1) / h->p_align * h->p_align;
        } else if (h->p_type == PT_LOAD && !(h->p_flags & PF_W)) {
            uintptr_t low = info->dlpi_addr + h->p_vaddr;
            readonly.push_back({low, low + h->p_memsz});
        }
    }
    return 1;                    /* the first object is the program */
}

static void read_program()
{
    static bool done;
    if (done)
        return;
    done = true;
    dl_iterate_phdr(read_segments, nullptr);
    constant_low = (uintptr_t)__start_sim_constant;
    constant_high = (uintptr_t)__stop_sim_constant;
}

void shadow_grid(void)
{
    read_program();
    if (!static_shadow.coarse && static_bytes)
        static_shadow = {0, cells(static_bytes / 4 + 1), cells(static_bytes + 4)};
    if (!dynamic_shadow.coarse)
        dynamic_shadow = {(uintptr_t)sim_dynamic, cells(SIM_DYNAMIC / 4), cells(SIM_DYNAMIC)};
    device_thread = thread_pointer();
    static_low = (uintptr_t)device_thread - static_bytes;
    static_shadow.low = static_low;
    blocks.clear();
    released.clear();
}

static void warps_reset()
{
    for (WarpOrder &w : warps)
        if (w.moved)
            memset(&w, 0, sizeof w);
}

void shadow_block(void)
{
    now.record = now.segment = now.block = new_segment();
    blocks.push_back(now.block);
    acquired.clear();
    fenced = false;
    warps_reset();
}

void shadow_thread(int thread)
{
    uint32_t step = warps[thread / WARP].step[thread % WARP];
    now.record = now.segment | (Record)step << STEP_AT | (Record)(unsigned)thread << THREAD_AT;
}

void shadow_barrier(void)
{
    now.segment = new_segment();
    warps_reset();
}

void shadow_syncwarp(int warp, unsigned mask)
{
    WarpOrder *w = &warps[warp];
    uint32_t step = 0;
    for (int i = 0; i < WARP; i++)
        if (mask >> i & 1 && w->step[i] > step)
            step = w->step[i];
    if (++step > MAX_STEP)
        sim_fail("more than %u steps of a warp without a barrier", MAX_STEP);
    w->moved = true;
    if (mask == 0xffffffff) {
        w->floor = step;
        for (int i = 0; i < WARP; i++)
            w->step[i] = step;
        return;
    }
    uint32_t known[WARP] = {0};
    for (int a = 0; a < WARP; a++)
        for (int b = 0; b < WARP && mask >> a & 1; b++)
            known[b] = std::max(known[b], a == b ? w->step[a] + 1 : w->known[a][b]);
    for (int a = 0; a < WARP; a++)
        if (mask >> a & 1) {
            memcpy(w->known[a], known, sizeof known);
            w->step[a] = step;
        }
}

void shadow_fence(void)
{
    fenced = true;
}

/* ---- accesses of device code ---- */

bool shadow_inside(void)
{
    return sim_place.inside && thread_pointer() == device_thread;
}

static void device_access(uintptr_t a, size_t bytes, Kind kind)
{
    int arena = arena_at(a);
    if (arena >= 0) {
        count(a, bytes);
        arena_access(arena, a, bytes, kind, &now);
    } else if (a - (uintptr_t)sim_dynamic < SIM_DYNAMIC) {
        size_t at = a - (uintptr_t)sim_dynamic;
        if (at + bytes > sim_dynamic_bytes)
            sim_fail("%s %zu bytes at byte %zu of %zu bytes of dynamic shared memory", verbs[kind],
                     bytes, at, sim_dynamic_bytes);
        touch<true>(&dynamic_shadow, a, bytes, kind, &now, "shared");
    } else if (a - static_low < static_bytes) {
        touch<true>(&static_shadow, a, bytes, kind, &now, "shared");
    } else if (a - sim_own_low < sim_stacks_bytes) {
        sim_fail("%s a local variable of another thread", verbs[kind]);
    } else if (a - sim_own_low < sim_own_bytes) {
        return;                  /* what the lanes of a warp exchange */
    } else if (a >= constant_low && a < constant_high) {
        if (kind != READ)
            sim_fail("%s constant memory", verbs[kind]);
    } else {
        for (auto &r : readonly)
            if (a >= r.first && a < r.second)
                return;
        sim_fail("%s %zu bytes at %p, which is no memory of the device", verbs[kind], bytes,
                 (void *)a);
    }
}

void shadow_access(const void *p, size_t bytes, bool write)
{
    if ((uintptr_t)p - sim_stack_low >= SIM_STACK)
        device_access((uintptr_t)p, bytes, write ? WRITE : READ);
}

void shadow_pending(void *p, size_t bytes)
{
    if ((uintptr_t)p - sim_stack_low >= SIM_STACK)
        device_access((uintptr_t)p, bytes, BEGIN);
}

void shadow_atomic(void *p, size_t bytes)
{
    uintptr_t a = (uintptr_t)p;
    if (a - sim_stack_low < SIM_STACK)
        return;
    device_access(a, bytes, TAKE);
    if (arena_at(a) < 0)
        return;
    auto known = released.find(a);
    if (known != released.end()) {
        acquired.resize(std::max(acquired.size(), known->second.size()));
        for (size_t i = 0; i < known->second.size(); i++)
            acquired[i] = acquired[i] || known->second[i];
    }
    if (fenced) {
        acquired.resize(std::max(acquired.size(), blocks.size()));
        acquired[blocks.size() - 1] = true;
        released[a] = acquired;
    }
}

/* ---- accesses of host code ---- */

static void host_access(uintptr_t a, size_t bytes, Kind kind)
{
    int arena = arena_at(a);
    if (arena < 0)
        return;
    if (arena == SIM_DEVICE)
        sim_fail("host code %s device memory", verbs[kind]);
    SimLock first(sim_mutex);        /* as an operation's thread takes them: sim_mutex, host_mutex */
    uint32_t op = sim_host_op();
    std::lock_guard<std::mutex> guard(host_mutex);
    /* While another thread runs an operation, which of the two is first is not looked at. */
    if (current_op)
        return;
    if (host.op != op || operations.back().op != op)
        begin(&host, op);
    arena_access(arena, a, bytes, kind, &host);
}

void shadow_host(const void *p, size_t bytes, bool write)
{
    host_access((uintptr_t)p, bytes, write ? WRITE : READ);
}

#else                            /* the fast library */

const size_t sim_filled = (size_t)256 << 20;
void sim_op_begin(uint32_t, const char *name) { sim_op_name = name; }
void sim_op_end(void) { sim_op_name = nullptr; }
void sim_read(const void *, size_t) {}
void sim_write(void *, size_t) {}
void sim_copy(void *, const void *, size_t) {}
void sim_count(const void *, size_t) {}
uint64_t sim_moved(void) { return 0; }

#endif
