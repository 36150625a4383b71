/* fiber.cpp -- blocks as fibers: one host thread runs a block's threads, switching where they wait.
 *
 * Keeps: x86-64 (System V). Blocks one after the other; a block's threads in the order of their
 *        numbers up to where each waits first. A thread that never waits costs no switch: the fiber
 *        that runs it goes on with the next one. Only where a thread waits is a fiber left. */
#include "internal.h"
#include "include/cuda_runtime.h"

#include <alloca.h>
#ifdef __F16C__
#include <immintrin.h>
#endif
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

#ifndef __x86_64__
#error "the simulator's switch of fibers is written for x86-64"
#endif

struct Fiber {
    void *sp;
    uintptr_t low;               /* of its stack */
};

/* A meeting of lanes. Free when `holders` is 0: nobody has yet to read what was given. */
struct Meeting {
    unsigned mask, arrived, holders, bytes;
    const char *what;
    unsigned char given[WARP][LANE_BYTES];
};

struct Warp {
    unsigned alive;              /* lanes that have not ended */
    Meeting *open[WARP];
    int nopen;
    std::vector<Meeting *> unused;
};

/* cp.async: copies in order; `group` counts from the thread's first */
struct Copy {
    void *to;
    const void *from;
    unsigned bytes, from_bytes, group;
};

enum State { RUNS, AT_BARRIER, AT_MEETING, ENDED };

struct Thread {
    Fiber *fiber;
    Meeting *held;               /* of its last exchange */
    const char *what;            /* it waits at */
    SimIndex index;
    int number;
    State state;
    unsigned group;              /* of copies not committed */
};

extern "C" {
/* the names that cuda_runtime.h declares const */
SimIndex sim_thread_index __asm__("threadIdx"), sim_block_index __asm__("blockIdx"),
    sim_block_size __asm__("blockDim"), sim_grid_size __asm__("gridDim");
void sim_switch(void **from, void *to);
}

Place sim_place;
uintptr_t sim_own_low, sim_own_bytes, sim_stacks_bytes, sim_stack_low;
const void *sim_dynamic, *sim_pc;
size_t sim_dynamic_bytes;

static Thread threads[MAX_THREADS];
static std::vector<Copy> copies_of[MAX_THREADS];
static Warp warps[MAX_WARPS];
static Thread *current;

static Fiber fibers[MAX_THREADS + 1];
static Fiber *idle[MAX_THREADS + 1];
static int nfibers, nidle;
static Fiber *running;
static void *main_sp;

/* Threads that may go on, oldest first. */
static int ready[MAX_THREADS];
static unsigned first_ready, end_ready;

static struct {
    const SimCall *call;
    int64_t block, blocks;       /* number of the block in the grid; how many */
    int size, started, live;     /* threads */
    int at_barrier, kind, phase; /* of the barrier */
    int any, all, count, results[2];
} grid;

static const char *const barriers[] = {"__syncthreads", "__syncthreads_or", "__syncthreads_and",
                                       "__syncthreads_count"};
static const char syncwarp[] = "__syncwarp";

static unsigned char *dynamic;
enum { MEETINGS = 64 };

__asm__(".text\n"
        ".globl sim_switch\n"
        ".type sim_switch, @function\n"
        "sim_switch:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size sim_switch, .-sim_switch\n");

/* ---- which thread runs ---- */

static inline void resume(Thread *t)
{
    current = t;
    sim_thread_index = t->index;
    sim_place.thread = t->number;
    sim_place.inside = true;
    sim_stack_low = t->fiber->low;
    shadow_thread(t->number);
}

static const char *thread_text(int thread, char text[48])
{
    Index i = index_of(thread, sim_place.block);
    snprintf(text, 48, "(%u,%u,%u)", i.x, i.y, i.z);
    return text;
}

extern "C" void sim_device_fail(const char *what)
{
    sim_pc = __builtin_return_address(0);
    sim_fail("%s", what);
}

extern "C" void sim_global(const void *p)
{
    for (uintptr_t low : sim_arena_low)
        if (low && (uintptr_t)p - low < sim_arena_bytes)
            return;
    sim_device_fail("an instruction for global memory has another address");
}

/* Nobody can go on: says who waits for whom. */
[[noreturn]] static void fail_stuck()
{
    char waits[48], late[48];
    for (int i = 0; i < grid.size; i++) {
        Thread *t = &threads[i];
        if (t->state != AT_MEETING)
            continue;
        unsigned missing = t->held->mask & warps[i / WARP].alive & ~t->held->arrived;
        int other = i / WARP * WARP + __builtin_ctz(missing);
        sim_place.thread = i;
        sim_fail("%s with mask %#x waits for lane %d, thread %s, which waits at %s", t->what,
                 t->held->mask, other % WARP, thread_text(other, late), threads[other].what);
    }
    sim_fail("threads wait at %s and nobody is left to come", thread_text(0, waits));
}

static void block_begin()
{
    Index at = index_of(grid.block, sim_place.grid);
    sim_place.at = at;
    sim_block_index = {at.x, at.y, at.z};
    grid.started = 0;
    grid.live = grid.size;
    for (int w = 0; w * WARP < grid.size; w++) {
        int lanes = grid.size - w * WARP;
        warps[w].alive = lanes >= WARP ? 0xffffffff : (1u << lanes) - 1;
    }
    shadow_block();
}

static void release_held(Thread *t)
{
    Meeting *m = t->held;
    if (!m)
        return;
    int n = t->number;
    m->holders &= ~(1u << n % WARP);
    if (m->holders == 0)
        warps[n / WARP].unused.push_back(m);
    t->held = nullptr;
}

/* All lanes that take part are there: they may go on, except the running one, which does. */
static void meeting_complete(int warp, Meeting *m)
{
    Warp *w = &warps[warp];
    for (int i = 0; i < w->nopen; i++)
        if (w->open[i] == m)
            w->open[i--] = w->open[--w->nopen];
    if (m->what == syncwarp)
        shadow_syncwarp(warp, m->arrived);
    for (unsigned left = m->arrived; left; left &= left - 1) {
        int n = warp * WARP + __builtin_ctz(left);
        if (&threads[n] != current)
            ready[end_ready++ % MAX_THREADS] = n;
        threads[n].state = RUNS;
    }
}

static void thread_end(Thread *t)
{
    int n = t->number, lane = n % WARP;
    release_held(t);
    t->state = ENDED;
    copies_of[n].clear();
    grid.live--;
    if (grid.at_barrier)
        sim_fail("ends while %d threads wait at %s", grid.at_barrier, barriers[grid.kind]);
    Warp *w = &warps[n / WARP];
    w->alive &= ~(1u << lane);
    for (int i = 0; i < w->nopen; i++) {
        Meeting *m = w->open[i];
        if (m->arrived == (m->mask & w->alive)) {
            meeting_complete(n / WARP, m);
            i = -1;
        }
    }
}

/* The arguments are on the thread's stack until this returns: from here on its accesses are those of
 * device code. */
__attribute__((noinline)) static void call_kernel(const SimCall *call)
{
    void *mine = alloca(call->bytes);
    memcpy(mine, call->arguments, call->bytes);
    sim_place.inside = true;
    call->run(mine);
}

static void thread_run(int n)
{
    Thread *t = &threads[n];
    t->fiber = running;
    t->state = RUNS;
    t->held = nullptr;
    t->group = 0;
    resume(t);
    sim_place.inside = false;
    call_kernel(grid.call);
    /* t may have been left and taken up again meanwhile, on this very fiber */
    sim_place.inside = false;
    thread_end(t);
    sim_place.thread = -1;
}

/* ---- switching ---- */

static void switch_to(Fiber *to)
{
    Fiber *from = running;
    running = to;
    sim_switch(&from->sp, to->sp);
}

/* The stack of the one after it is on its way to the cache meanwhile. */
static inline Fiber *next_ready()
{
    Fiber *next = threads[ready[first_ready++ % MAX_THREADS]].fiber;
    if (first_ready != end_ready)
        __builtin_prefetch(threads[ready[first_ready % MAX_THREADS]].fiber->sp);
    return next;
}

static void fiber_loop()
{
    for (;;) {
        if (first_ready != end_ready) {
            idle[nidle++] = running;
            switch_to(next_ready());
        } else if (grid.started < grid.size) {
            thread_run(grid.started++);
        } else if (grid.live > 0) {
            fail_stuck();
        } else if (++grid.block < grid.blocks) {
            block_begin();
        } else {
            idle[nidle++] = running;
            Fiber *from = running;
            running = nullptr;
            sim_switch(&from->sp, main_sp);
        }
    }
}

static Fiber *idle_fiber()
{
    if (nidle > 0)
        return idle[--nidle];
    Fiber *f = &fibers[nfibers];
    f->low = sim_own_low + (uintptr_t)nfibers * SIM_STACK;
    mprotect((void *)f->low, 4096, PROT_NONE);
    /* stacks begin at different places, that they do not all meet in the same lines of the cache */
    uintptr_t top = f->low + SIM_STACK - 320 * (uintptr_t)(nfibers % 97);
    nfibers++;
    void **sp = (void **)(top - 64);
    memset(sp, 0, 64);
    sp[6] = (void *)fiber_loop;      /* where the first switch returns to, after six registers */
    f->sp = sp;
    return f;
}

/* The running thread waits: until somebody has put it into `ready`. */
static inline void wait(State state, const char *what)
{
    Thread *me = current;
    me->state = state;
    me->what = what;
    if (first_ready != end_ready)
        switch_to(next_ready());
    else if (grid.started < grid.size)
        switch_to(idle_fiber());
    else
        fail_stuck();
    resume(me);
}

/* ---- barriers ---- */

extern "C" int sim_barrier(int kind, int predicate)
{
    sim_pc = __builtin_return_address(0);
    if (!sim_place.inside)
        sim_fail("%s outside of a kernel", barriers[kind]);
    if (grid.live < grid.size)
        sim_fail("waits at %s, which %d threads that ended will never reach", barriers[kind],
                 grid.size - grid.live);
    if (grid.at_barrier == 0) {
        grid.kind = kind;
        grid.any = 0, grid.all = 1, grid.count = 0;
    } else if (kind != grid.kind) {
        sim_fail("is at %s, other threads at %s", barriers[kind], barriers[grid.kind]);
    }
    grid.any |= predicate != 0;
    grid.all &= predicate != 0;
    grid.count += predicate != 0;
    int phase = grid.phase;
    if (++grid.at_barrier == grid.size) {
        grid.results[phase] = kind == SIM_BARRIER_OR    ? grid.any
                              : kind == SIM_BARRIER_AND ? grid.all
                                                        : grid.count;
        grid.at_barrier = 0;
        grid.phase = !phase;
        for (int i = 0; i < grid.size; i++) {
            threads[i].state = RUNS;
            if (&threads[i] != current)
                ready[end_ready++ % MAX_THREADS] = i;
        }
        shadow_barrier();
        shadow_thread(current->number);
    } else {
        wait(AT_BARRIER, barriers[kind]);
    }
    return grid.results[phase];
}

/* ---- collectives of a warp ---- */

static Meeting *meeting_find(Warp *w, unsigned mask)
{
    for (int i = 0; i < w->nopen; i++)
        if (w->open[i]->mask == mask)
            return w->open[i];
    return nullptr;
}

static Meeting *meeting_open(Warp *w, unsigned mask, unsigned bytes, const char *what)
{
    if (w->unused.empty())
        sim_fail("more than %d collectives of a warp at once", MEETINGS);
    Meeting *m = w->unused.back();
    w->unused.pop_back();
    m->mask = mask;
    m->arrived = m->holders = 0;
    m->bytes = bytes;
    m->what = what;
    w->open[w->nopen++] = m;
    return m;
}

static const unsigned char *exchange(unsigned mask, const void *mine, unsigned bytes,
                                     const char *what)
{
    if (!sim_place.inside)
        sim_fail("%s outside of a kernel", what);
    Thread *t = current;
    int n = t->number, lane = n % WARP;
    Warp *w = &warps[n / WARP];
    char text[48];
    if (!(mask >> lane & 1))
        sim_fail("%s with mask %#x, which lacks the calling lane %d", what, mask, lane);
    if (bytes > LANE_BYTES)
        sim_fail("%s of %u bytes a lane", what, bytes);
    release_held(t);
    Meeting *m = meeting_find(w, mask);
    if (!m) {
        m = meeting_open(w, mask, bytes, what);
    } else if (m->bytes != bytes || (m->what != what && strcmp(m->what, what) != 0)) {
        int other = n - lane + __builtin_ctz(m->arrived);
        sim_fail("is at %s of %u bytes, thread %s at %s of %u, with the same mask %#x", what, bytes,
                 thread_text(other, text), m->what, m->bytes, mask);
    }
    if (bytes > 0)
        memcpy(m->given[lane], mine, bytes);
    m->arrived |= 1u << lane;
    m->holders |= 1u << lane;
    t->held = m;
    if (m->arrived == (mask & w->alive))
        meeting_complete(n / WARP, m);
    else
        wait(AT_MEETING, what);
    return m->given[0];
}

extern "C" const unsigned char *sim_warp_exchange(unsigned mask, const void *mine, unsigned bytes,
                                                  const char *what)
{
    sim_pc = __builtin_return_address(0);
    return exchange(mask, mine, bytes, what);
}

static const unsigned char *exchange_all(const void *mine, unsigned bytes, const char *what)
{
    const unsigned char *given = exchange(0xffffffff, mine, bytes, what);
    if (current->held->arrived != 0xffffffff)
        sim_fail("%s of a warp of which only lanes %#x exist or have not ended", what,
                 current->held->arrived);
    return given;
}

extern "C" const unsigned char *sim_warp_exchange_all(const void *mine, unsigned bytes,
                                                      const char *what)
{
    sim_pc = __builtin_return_address(0);
    return exchange_all(mine, bytes, what);
}

static inline float half_value(uint16_t bits, int bf16)
{
    const uint32_t wide = (uint32_t)bits << 16;
    float value;
    if (!bf16) {
#ifdef __F16C__
        return _cvtsh_ss(bits);         /* a cast is folded into one to double, which libgcc has alone */
#else
        _Float16 half;
        memcpy(&half, &bits, sizeof half);
        return (float)half;
#endif
    }
    memcpy(&value, &wide, sizeof value);
    return value;
}

/* A row of a (first register: 0 or 1) or a column of b (4), from the four lanes that hold it; the
 * elements 8.. lie `next` registers on. */
static inline void product_operand(double x[16], const unsigned char *held, int lane, int first,
                                   int next, int bf16)
{
    for (int k = 0; k < 16; k++) {
        uint16_t bits;
        const int at = LANE_BYTES * (lane + k % 8 / 2) + 4 * (first + k / 8 * next) + 2 * (k % 2);
        memcpy(&bits, held + at, sizeof bits);
        x[k] = half_value(bits, bf16);
    }
}

extern "C" void sim_product(float c[4], const unsigned mine[6], int bf16)
{
    sim_pc = __builtin_return_address(0);
    const unsigned char *held = exchange_all(mine, 24, "mma");
    const int lane = current->number % WARP, group = lane / 4, pair = lane % 4 * 2;
    double a[2][16], b[2][16], sum[4] = {c[0], c[1], c[2], c[3]};
    for (int i = 0; i < 2; i++) {
        product_operand(a[i], held, 4 * group, i, 2, bf16);
        product_operand(b[i], held, 4 * (pair + i), 4, 1, bf16);
    }
    for (int k = 0; k < 16; k++)
        for (int i = 0; i < 4; i++)
            sum[i] += a[i / 2][k] * b[i % 2][k];
    for (int i = 0; i < 4; i++)
        c[i] = (float)sum[i];
}

extern "C" const void *sim_warp_lane(int lane)
{
    sim_pc = __builtin_return_address(0);
    Meeting *m = current->held;
    if (lane < 0 || lane >= WARP || !(m->arrived >> lane & 1))
        sim_fail("%s reads lane %d, which takes no part: mask %#x, there %#x", m->what, lane,
                 m->mask, m->arrived);
    return m->given[lane];
}

extern "C" unsigned sim_warp_met(void)
{
    return current->held->arrived;
}

extern "C" void sim_syncwarp(unsigned mask)
{
    sim_pc = __builtin_return_address(0);
    exchange(mask, nullptr, 0, syncwarp);
    shadow_thread(current->number);
}

extern "C" unsigned sim_active_mask(void)
{
    return warps[current->number / WARP].alive;
}

extern "C" int sim_lane(void)
{
    return current->number % WARP;
}

extern "C" void sim_fence(void)
{
    shadow_fence();
}

extern "C" void sim_atomic(void *p, unsigned bytes)
{
    sim_pc = __builtin_return_address(0);
    if ((uintptr_t)p % bytes != 0)
        sim_fail("atomic access of %u bytes at %p: not aligned", bytes, p);
    shadow_atomic(p, bytes);
}

/* ---- shared memory and copies into it ---- */

extern "C" void *sim_dynamic_shared(void)
{
    return dynamic;
}

extern "C" void sim_async_copy(void *shared, const void *global, unsigned bytes,
                               unsigned from_bytes)
{
    unsigned char *to = (unsigned char *)shared;
    sim_pc = __builtin_return_address(0);
    if (bytes != 4 && bytes != 8 && bytes != 16)
        sim_fail("cp.async of %u bytes", bytes);
    if (from_bytes > bytes)
        sim_fail("cp.async of %u bytes reads %u", bytes, from_bytes);
    if (to < dynamic || to + bytes > dynamic + sim_dynamic_bytes)
        if (to >= dynamic && to < dynamic + SIM_DYNAMIC)
            sim_fail("cp.async to byte %td of %zu of dynamic shared memory", to - dynamic,
                     sim_dynamic_bytes);
    if ((uintptr_t)shared % bytes != 0 || (uintptr_t)global % bytes != 0)
        sim_fail("cp.async of %u bytes from %p to %p: not aligned", bytes, global, shared);
    shadow_pending(shared, bytes);
    copies_of[current->number].push_back({shared, global, bytes, from_bytes, current->group});
}

extern "C" void sim_async_commit(void)
{
    current->group++;
}

static void copies_arrive(unsigned before)
{
    std::vector<Copy> &copies = copies_of[current->number];
    size_t done = 0;
    for (; done < copies.size() && (int)(copies[done].group - before) < 0; done++) {
        const Copy &c = copies[done];
        if (c.from_bytes > 0)
            shadow_access(c.from, c.from_bytes, false);
        shadow_access(c.to, c.bytes, true);
        memcpy(c.to, c.from, c.from_bytes);
        memset((char *)c.to + c.from_bytes, 0, c.bytes - c.from_bytes);
    }
    copies.erase(copies.begin(), copies.begin() + (ptrdiff_t)done);
}

extern "C" void sim_async_wait(unsigned groups)
{
    sim_pc = __builtin_return_address(0);
    if (current->group > groups)
        copies_arrive(current->group - groups);
}

extern "C" void sim_async_wait_all(void)
{
    sim_pc = __builtin_return_address(0);
    copies_arrive(current->group + 1);
}

/* ---- grids ---- */

static void on_signal(int signal, siginfo_t *info, void *)
{
    if (sim_place.inside && signal == SIGFPE)
        sim_fail("divides an integer by zero");
    if (sim_place.inside)
        sim_fail("touches address %p%s", info->si_addr,
                 (uintptr_t)info->si_addr - sim_stack_low < 4096 ? ": its stack is used up" : "");
    struct sigaction usual = {};
    usual.sa_handler = SIG_DFL;
    sigaction(signal, &usual, nullptr);
    raise(signal);
}

static void setup()
{
    size_t stacks = (size_t)(MAX_THREADS + 1) * SIM_STACK;
    size_t meetings = sizeof(Meeting) * MAX_WARPS * MEETINGS;
    size_t bytes = stacks + meetings + SIM_DYNAMIC;
    void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        sim_fail("no address space for %zu bytes of stacks", bytes);
    sim_own_low = (uintptr_t)p;
    sim_own_bytes = stacks + meetings;
    sim_stacks_bytes = stacks;
    Meeting *m = (Meeting *)((char *)p + stacks);
    for (int w = 0; w < MAX_WARPS; w++)
        for (int i = 0; i < MEETINGS; i++)
            warps[w].unused.push_back(m++);
    dynamic = (unsigned char *)p + (bytes - SIM_DYNAMIC);
    sim_dynamic = dynamic;

    static char own_stack[64 << 10];
    stack_t stack = {};
    stack.ss_sp = own_stack;
    stack.ss_size = sizeof own_stack;
    sigaltstack(&stack, nullptr);
    struct sigaction action = {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigaction(SIGSEGV, &action, nullptr);
    sigaction(SIGBUS, &action, nullptr);
    sigaction(SIGFPE, &action, nullptr);
}

void sim_run_grid(dim3 grid_size, dim3 block_size, size_t dynamic_shared,
                  const SimCall &call, const char *name)
{
    int64_t size = (int64_t)block_size.x * block_size.y * block_size.z;
    if (size < 1 || size > MAX_THREADS || dynamic_shared > SIM_DYNAMIC)
        sim_fail("%s: %lld threads a block, %zu bytes of dynamic shared memory", name,
                 (long long)size, dynamic_shared);
    if (!dynamic)
        setup();
    if (block_size.x != sim_block_size.x || block_size.y != sim_block_size.y || size != grid.size)
        for (int i = 0; i < size; i++) {
            Index at = index_of(i, {block_size.x, block_size.y, block_size.z});
            threads[i].index = {at.x, at.y, at.z};
            threads[i].number = i;
        }
    sim_place.kernel = name;
    sim_place.grid = {grid_size.x, grid_size.y, grid_size.z};
    sim_place.block = {block_size.x, block_size.y, block_size.z};
    sim_place.thread = -1;
    sim_grid_size = {grid_size.x, grid_size.y, grid_size.z};
    sim_block_size = {block_size.x, block_size.y, block_size.z};
    sim_dynamic_bytes = dynamic_shared;
    grid.call = &call;
    grid.blocks = (int64_t)grid_size.x * grid_size.y * grid_size.z;
    grid.block = 0;
    grid.size = (int)size;
    if (grid.blocks > 0) {
        shadow_grid();
        block_begin();
        running = idle_fiber();
        sim_switch(&main_sp, running->sp);
    }
    sim_place.kernel = nullptr;
    sim_place.inside = false;
}
