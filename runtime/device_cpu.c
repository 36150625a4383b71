/* device_cpu.c -- arrays of a CPU program: in host memory, without copies; the CPU's instructions.
 *
 * Keeps: pages that were not written stay untouched, and are zero. */
#define _GNU_SOURCE
#include "runtime/device.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

#include "runtime/base.h"

#ifdef __x86_64__
/* Ends the program with EXIT_MISMATCH if the compiler may have used instructions that this CPU does
 * not have; they would end it with SIGILL. Runs before all other code of the program, and is itself
 * compiled for any x86-64 CPU. The compiler defines a macro as 1 for each set that it may use. */
__attribute__((constructor(101), target("arch=x86-64"))) static void check_instructions(void)
{
    const char *missing = NULL;
    __builtin_cpu_init();
#define TEXT(macro) #macro
#define USED(macro) (TEXT(macro)[0] == '1')
#define NEEDS(macro, name) \
    if (USED(macro) && !missing && !__builtin_cpu_supports(name)) \
        missing = name;
    NEEDS(__AVX2__, "avx2")
    NEEDS(__FMA__, "fma")
    NEEDS(__BMI2__, "bmi2")
    NEEDS(__FMA4__, "fma4")
    NEEDS(__AVX512F__, "avx512f")
    NEEDS(__AVX512BW__, "avx512bw")
    NEEDS(__AVX512CD__, "avx512cd")
    NEEDS(__AVX512DQ__, "avx512dq")
    NEEDS(__AVX512VL__, "avx512vl")
    NEEDS(__AVX512VBMI__, "avx512vbmi")
    NEEDS(__AVX512VNNI__, "avx512vnni")
#if __GNUC__ >= 11                       /* which knows its name */
    NEEDS(__AVX512BF16__, "avx512bf16")
#endif
    if (missing) {
        fprintf(stderr, "%s: this CPU has no %s, which the program was built to use: run it on one "
                "that has%s\n", program_invocation_short_name, missing,
                USED(__AVX512F__) ? ", or build it with target=cpu" : "");
        _exit(EXIT_MISMATCH);
    }
#undef NEEDS
#undef USED
#undef TEXT
}
#endif

/* Flushes numbers below 1.2e-38 to zero. Probabilities of a sharp attention are so small, and
 * products with them would take tens of times as long. */
void device_open(const char *target)
{
    (void)target;
#if defined __SSE__
    enum { FLUSH_RESULTS = 0x8000, FLUSH_OPERANDS = 0x40 };
    _mm_setcsr(_mm_getcsr() | FLUSH_RESULTS | FLUSH_OPERANDS);
#elif defined __aarch64__
    unsigned long fpcr;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    __asm__ volatile("msr fpcr, %0" : : "r"(fpcr | 1ul << 24));
#endif
}

const char *device_name(void)
{
    return "CPU";
}

int device_visible(void)
{
    return 0;
}

int64_t device_used(void)
{
    return arena_allocated();
}

void device_watch(void)
{
}

bool device_seen(DeviceUse *u)
{
    (void)u;
    return false;
}

bool device_use(DeviceUse *u)
{
    (void)u;
    return false;
}

static struct { int64_t *ns; int n, room; } marks;

void device_mark(struct CUstream_st *s)
{
    (void)s;
    if (marks.n == marks.room) {
        marks.room = marks.room ? 2 * marks.room : 1024;
        marks.ns = realloc(marks.ns, sizeof *marks.ns * (size_t)marks.room);
        if (!marks.ns)
            die(EXIT_CONFIG, "no memory for %d time marks", marks.room);
    }
    marks.ns[marks.n++] = (int64_t)(1e9 * clock_seconds());
}

int device_marks(const int64_t **ns)
{
    const int n = marks.n;
    for (int i = n - 1; i >= 0; i--)
        marks.ns[i] -= marks.ns[0];
    *ns = marks.ns;
    marks.n = 0;
    return n;
}

void *device_arena(int64_t bytes, const char *what)
{
    return arena_alloc(bytes, what);
}

void *device_pinned(int64_t bytes, const char *what)
{
    return arena_alloc(bytes, what);
}

const void *array_view(const void *from, int64_t bytes)
{
    REQUIRE(bytes >= 0 && bytes <= ARRAY_PIECE);
    return from;
}

void *array_room(void *to, int64_t bytes)
{
    REQUIRE(bytes >= 0 && bytes <= ARRAY_PIECE);
    return to;
}

void array_write(void *to, const void *from, int64_t bytes)
{
    if (to != from)
        memcpy(to, from, (size_t)bytes);
}

const void *array_view_rows(const void *from, int64_t rows, int64_t bytes, int64_t *stride)
{
    (void)stride;
    REQUIRE(rows >= 0 && bytes >= 0 && rows * bytes <= ARRAY_PIECE);
    return from;
}

void *array_room_rows(void *to, int64_t rows, int64_t bytes, int64_t *stride)
{
    (void)stride;
    REQUIRE(rows >= 0 && bytes >= 0 && rows * bytes <= ARRAY_PIECE);
    return to;
}

void array_write_rows(void *to, int64_t to_stride, const void *from, int64_t from_stride,
                      int64_t rows, int64_t bytes)
{
    for (int64_t r = 0; r < rows && to != from; r++)
        memcpy((char *)to + r * to_stride, (const char *)from + r * from_stride, (size_t)bytes);
}

void array_read(void *to, const void *from, int64_t bytes)
{
    memcpy(to, from, (size_t)bytes);
}

void array_zero(void *to, int64_t bytes)
{
    (void)to, (void)bytes;
}
