/* crc32c.c -- CRC-32C by the SSE4.2 instruction if the CPU has it, else by eight tables.
 *
 * Out:   the reflected CRC of polynomial 0x1EDC6F41, as in iSCSI, ext4, TFRecord.
 * Method: slicing by 8 (Kounavis and Berry 2005); the tables are built on the first call. */
#include "runtime/files/crc32c.h"

#include <pthread.h>
#include <string.h>

static uint32_t table[8][256];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static void table_make(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++)
            c = (c >> 1) ^ (0x82f63b78u & (0u - (c & 1)));
        table[0][i] = c;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int t = 1; t < 8; t++)
            table[t][i] = (table[t - 1][i] >> 8) ^ table[0][table[t - 1][i] & 0xff];
}

uint32_t crc32c_table(uint32_t crc, const void *data, size_t n)
{
    pthread_once(&table_once, table_make);
    const uint8_t *p = data;
    uint32_t c = ~crc;
    for (; n >= 8; n -= 8, p += 8) {
        uint32_t lo = c ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                           (uint32_t)p[3] << 24);
        c = table[7][lo & 0xff] ^ table[6][lo >> 8 & 0xff] ^ table[5][lo >> 16 & 0xff] ^
            table[4][lo >> 24] ^ table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
    }
    for (; n; n--, p++)
        c = (c >> 8) ^ table[0][(c ^ *p) & 0xff];
    return ~c;
}

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("sse4.2")))
static uint32_t crc32c_sse42(uint32_t crc, const void *data, size_t n)
{
    const uint8_t *p = data;
    uint64_t c = (uint32_t)~crc;
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        c = __builtin_ia32_crc32di(c, word);
    }
    for (; n; n--, p++)
        c = __builtin_ia32_crc32qi((uint32_t)c, *p);
    return ~(uint32_t)c;
}

uint32_t crc32c(uint32_t crc, const void *data, size_t n)
{
    return __builtin_cpu_supports("sse4.2") ? crc32c_sse42(crc, data, n)
                                            : crc32c_table(crc, data, n);
}
#else
uint32_t crc32c(uint32_t crc, const void *data, size_t n)
{
    return crc32c_table(crc, data, n);
}
#endif

/* a times b modulo the polynomial; the highest bit is the constant term. */
static uint32_t times(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (uint32_t bit = 1u << 31; bit; bit >>= 1) {
        product ^= a & bit ? b : 0;
        b = (b >> 1) ^ (0x82f63b78u & (0u - (b & 1)));
    }
    return product;
}

uint32_t crc32c_join(uint32_t before, uint32_t after, uint64_t n)
{
    uint32_t shift = 1u << 23;   /* one byte: x^8 */
    for (; n; n >>= 1) {
        if (n & 1)
            before = times(shift, before);
        shift = times(shift, shift);
    }
    return before ^ after;
}
