/* hooks.cpp -- answers to what -fsanitize=thread,alignment,bounds plants before accesses.
 *
 * Keeps: nothing of the sanitizers' own libraries is linked. */
#include "internal.h"

#ifdef SIM_CHECKED

#include <string.h>

static inline void hook(const void *p, size_t bytes, bool write, const void *pc)
{
    if ((uintptr_t)p - sim_stack_low < SIM_STACK)
        return;
    if (shadow_inside()) {
        sim_pc = pc;
        shadow_access(p, bytes, write);
    } else {
        shadow_host(p, bytes, write);
    }
}

#define HOOK(name, bytes, write)                                                                \
    void __tsan_##name(void *p) { hook(p, bytes, write, __builtin_return_address(0)); }
#define HOOKS(bytes)                                                                            \
    HOOK(read##bytes, bytes, false)                                                             \
    HOOK(write##bytes, bytes, true)                                                             \
    HOOK(unaligned_read##bytes, bytes, false)                                                   \
    HOOK(unaligned_write##bytes, bytes, true)                                                   \
    HOOK(volatile_read##bytes, bytes, false)                                                    \
    HOOK(volatile_write##bytes, bytes, true)                                                    \
    HOOK(unaligned_volatile_read##bytes, bytes, false)                                          \
    HOOK(unaligned_volatile_write##bytes, bytes, true)

extern "C" {
HOOKS(1)
HOOKS(2)
HOOKS(4)
HOOKS(8)
HOOKS(16)
void __tsan_read_range(void *p, size_t n) { hook(p, n, false, __builtin_return_address(0)); }
void __tsan_write_range(void *p, size_t n) { hook(p, n, true, __builtin_return_address(0)); }
void __tsan_vptr_read(void **) {}
void __tsan_vptr_update(void **, void *) {}
void __tsan_func_entry(void *) {}
void __tsan_func_exit(void) {}
void __tsan_init(void) {}

/* Atomics of host code; device code has its own (shadow_atomic). */
#define TSAN_FETCH(name, bits, T)                                                               \
    T __tsan_atomic##bits##_fetch_##name(volatile T *p, T x, int)                               \
    {                                                                                           \
        return __atomic_fetch_##name(p, x, __ATOMIC_SEQ_CST);                                   \
    }
#define TSAN_SWAP(kind, weak, bits, T)                                                          \
    int __tsan_atomic##bits##_compare_exchange_##kind(volatile T *p, T *old, T x, int, int)     \
    {                                                                                           \
        return __atomic_compare_exchange_n(p, old, x, weak, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);\
    }
#define TSAN_ATOMICS(bits, T)                                                                   \
    T __tsan_atomic##bits##_load(const volatile T *p, int)                                      \
    {                                                                                           \
        return __atomic_load_n(p, __ATOMIC_SEQ_CST);                                            \
    }                                                                                           \
    void __tsan_atomic##bits##_store(volatile T *p, T x, int)                                   \
    {                                                                                           \
        __atomic_store_n(p, x, __ATOMIC_SEQ_CST);                                               \
    }                                                                                           \
    T __tsan_atomic##bits##_exchange(volatile T *p, T x, int)                                   \
    {                                                                                           \
        return __atomic_exchange_n(p, x, __ATOMIC_SEQ_CST);                                     \
    }                                                                                           \
    TSAN_FETCH(add, bits, T)                                                                    \
    TSAN_FETCH(sub, bits, T)                                                                    \
    TSAN_FETCH(and, bits, T)                                                                    \
    TSAN_FETCH(or, bits, T)                                                                     \
    TSAN_FETCH(xor, bits, T)                                                                    \
    TSAN_SWAP(strong, false, bits, T)                                                           \
    TSAN_SWAP(weak, true, bits, T)
TSAN_ATOMICS(8, uint8_t)
TSAN_ATOMICS(16, uint16_t)
TSAN_ATOMICS(32, uint32_t)
TSAN_ATOMICS(64, uint64_t)
void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void __tsan_atomic_signal_fence(int) { __atomic_signal_fence(__ATOMIC_SEQ_CST); }

/* What -fsanitize=alignment,bounds calls. */
struct UbsanPlace {
    const char *file;
    uint32_t line, column;
};
struct UbsanType {
    uint16_t kind, info;
    char name[1];
};
struct UbsanMismatch {
    UbsanPlace place;
    const UbsanType *type;
    unsigned char log_alignment, kind;
};
struct UbsanIndex {
    UbsanPlace place;
    const UbsanType *array, *index;
};

static const char *base_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

[[noreturn]] void __ubsan_handle_type_mismatch_v1_abort(const UbsanMismatch *m, const void *p)
{
    sim_pc = __builtin_return_address(0);
    size_t alignment = (size_t)1 << m->log_alignment;
    sim_fail("address %p of a %s is not a multiple of %zu (%s:%u)", p, m->type->name, alignment,
             base_name(m->place.file), m->place.line);
}

[[noreturn]] void __ubsan_handle_out_of_bounds_abort(const UbsanIndex *i, uintptr_t index)
{
    sim_pc = __builtin_return_address(0);
    sim_fail("index %td of an array %s (%s:%u)", (ptrdiff_t)index, i->array->name,
             base_name(i->place.file), i->place.line);
}
}

#endif
