/* amx.h -- bf16 matrix product with AMX tiles, for blocks in cache.
 *
 * In:    A bf16 by rows; B bf16, dword (l, j) = elements (2 l, j) low and (2 l + 1, j) high.
 * Out:   C (m, n) fp32 = A (m, k) B (k, n), or C += it; m, n, k multiples of 32.
 * Keeps: a thread owns the tiles from amx_begin to amx_end; amx_allowed must have returned
 *        true. */
#ifndef DIECAST_KERNELS_AMX_H
#define DIECAST_KERNELS_AMX_H

#include <immintrin.h>
#include <stdbool.h>
#include <sys/syscall.h>

#include "types.h"

extern long syscall(long number, ...);

/* Requests the tile registers from Linux, once for all threads; call it outside parallel
 * regions. */
static inline bool amx_allowed(void)
{
    enum { ARCH_REQ_XCOMP_PERM_ = 0x1023, XTILEDATA = 18 };
    static int known;            /* 1 allowed, 2 not */
    if (!known)
        known = syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM_, XTILEDATA) == 0 ? 1 : 2;
    return known == 1;
}

/* Configures all eight tiles as 16 rows of 64 bytes. */
static inline void amx_begin(void)
{
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } config = { .palette = 1 };
    _Static_assert(sizeof config == 64, "the layout LDTILECFG wants");
    for (int i = 0; i < 8; i++)
        config.bytes[i] = 64, config.rows[i] = 16;
    _tile_loadconfig(&config);
}

static inline void amx_end(void)
{
    _tile_release();
}

/* Strides between rows: ldc in floats, lda in elements, ldb in dwords. */
static inline void amx_product(float *c, int64_t ldc, const uint16_t *a, int64_t lda,
                               const uint32_t *b, int64_t ldb, int64_t m, int64_t n, int64_t k,
                               bool add)
{
    for (int64_t i = 0; i < m; i += 32)
        for (int64_t j = 0; j < n; j += 32) {
            float *at = c + i * ldc + j, *below = at + 16 * ldc;
            if (add) {
                _tile_loadd(0, at, ldc * 4);
                _tile_loadd(1, at + 16, ldc * 4);
                _tile_loadd(2, below, ldc * 4);
                _tile_loadd(3, below + 16, ldc * 4);
            } else {
                _tile_zero(0);
                _tile_zero(1);
                _tile_zero(2);
                _tile_zero(3);
            }
            for (int64_t l = 0; l < k; l += 32) {
                _tile_loadd(4, a + i * lda + l, lda * 2);
                _tile_loadd(5, a + (i + 16) * lda + l, lda * 2);
                _tile_loadd(6, b + l / 2 * ldb + j, ldb * 4);
                _tile_loadd(7, b + l / 2 * ldb + j + 16, ldb * 4);
                _tile_dpbf16ps(0, 4, 6);
                _tile_dpbf16ps(1, 4, 7);
                _tile_dpbf16ps(2, 5, 6);
                _tile_dpbf16ps(3, 5, 7);
            }
            _tile_stored(0, at, ldc * 4);
            _tile_stored(1, at + 16, ldc * 4);
            _tile_stored(2, below, ldc * 4);
            _tile_stored(3, below + 16, ldc * 4);
        }
}

/* Pairs of rows of x (n, cols) bf16: to (n / 2, cols). */
static inline void amx_pairs(uint32_t *restrict to, const uint16_t *restrict x, int64_t n,
                             int64_t cols, int64_t ld)
{
    for (int64_t i = 0; i < n; i += 2)
#pragma omp simd
        for (int64_t j = 0; j < cols; j++)
            to[i / 2 * cols + j] = x[i * ld + j] | (uint32_t)x[(i + 1) * ld + j] << 16;
}

/* Pairs of rows of the transpose of x (n, cols) bf16: to (cols / 2, ldt), columns 0..n-1. */
static inline void amx_transposed_pairs(uint32_t *restrict to, int64_t ldt,
                                        const uint16_t *restrict x, int64_t n, int64_t cols,
                                        int64_t ld)
{
    for (int64_t l = 0; l < cols / 2; l++)
        for (int64_t i = 0; i < n; i++)
            memcpy(to + l * ldt + i, x + i * ld + 2 * l, sizeof *to);
}

#endif
