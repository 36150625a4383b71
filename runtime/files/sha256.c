/* sha256.c -- SHA-256 following FIPS 180-4 section 6.2, HMAC following RFC 2104. */
#include "runtime/files/sha256.h"

#include <string.h>

/* Fractions of the cube roots of the first 64 primes. */
static const uint32_t k[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

/* Round i; in the next round every state word takes the name after its own. */
#define ROUND(i, a, b, c, d, e, f, g, h)                                                          \
    do {                                                                                          \
        h += (rotate(e, 6) ^ rotate(e, 11) ^ rotate(e, 25)) + (g ^ (e & (f ^ g))) + k[i] + w[i]; \
        d += h;                                                                                   \
        h += (rotate(a, 2) ^ rotate(a, 13) ^ rotate(a, 22)) + ((a & b) | (c & (a | b)));          \
    } while (0)

static void mix(uint32_t state[8], const uint8_t block[64])
{
    uint32_t w[64];
    for (int i = 0; i < 16; i++)
        w[i] = (uint32_t)block[4 * i] << 24 | (uint32_t)block[4 * i + 1] << 16
             | (uint32_t)block[4 * i + 2] << 8 | block[4 * i + 3];
    for (int i = 16; i < 64; i++) {
        uint32_t x = w[i - 15], y = w[i - 2];
        w[i] = w[i - 16] + (rotate(x, 7) ^ rotate(x, 18) ^ x >> 3) + w[i - 7]
             + (rotate(y, 17) ^ rotate(y, 19) ^ y >> 10);
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int i = 0; i < 64; i += 8) {
        ROUND(i, a, b, c, d, e, f, g, h);
        ROUND(i + 1, h, a, b, c, d, e, f, g);
        ROUND(i + 2, g, h, a, b, c, d, e, f);
        ROUND(i + 3, f, g, h, a, b, c, d, e);
        ROUND(i + 4, e, f, g, h, a, b, c, d);
        ROUND(i + 5, d, e, f, g, h, a, b, c);
        ROUND(i + 6, c, d, e, f, g, h, a, b);
        ROUND(i + 7, b, c, d, e, f, g, h, a);
    }
    state[0] += a, state[1] += b, state[2] += c, state[3] += d;
    state[4] += e, state[5] += f, state[6] += g, state[7] += h;
}

void sha256_begin(Sha256 *h)
{
    /* Fractions of the square roots of the first 8 primes. */
    *h = (Sha256){ .state = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                              0x9b05688c, 0x1f83d9ab, 0x5be0cd19 } };
}

void sha256_add(Sha256 *h, const void *data, size_t bytes)
{
    const uint8_t *from = data;
    while (bytes > 0) {
        size_t have = h->bytes % 64, n = bytes < 64 - have ? bytes : 64 - have;
        memcpy(h->block + have, from, n);
        h->bytes += n;
        from += n;
        bytes -= n;
        if (h->bytes % 64 == 0)
            mix(h->state, h->block);
    }
}

void sha256_end(Sha256 *h, uint8_t digest[SHA256_BYTES])
{
    static const uint8_t padding[64] = { 0x80 };
    uint64_t bits = 8 * h->bytes;
    uint8_t length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)(bits >> (56 - 8 * i));
    sha256_add(h, padding, 1 + (119 - h->bytes % 64) % 64);
    sha256_add(h, length, sizeof length);
    for (int i = 0; i < SHA256_BYTES; i++)
        digest[i] = (uint8_t)(h->state[i / 4] >> (24 - 8 * (i % 4)));
}

void sha256(const void *data, size_t bytes, uint8_t digest[SHA256_BYTES])
{
    Sha256 h;
    sha256_begin(&h);
    sha256_add(&h, data, bytes);
    sha256_end(&h, digest);
}

void sha256_text(Sha256 *h, char hex[SHA256_HEX])
{
    static const char digits[] = "0123456789abcdef";
    uint8_t digest[SHA256_BYTES];
    sha256_end(h, digest);
    for (int i = 0; i < SHA256_BYTES; i++) {
        hex[2 * i] = digits[digest[i] >> 4];
        hex[2 * i + 1] = digits[digest[i] & 15];
    }
    hex[2 * SHA256_BYTES] = 0;
}

void hmac_sha256(const void *key, size_t key_bytes, const void *a, size_t a_bytes, const void *b,
                 size_t b_bytes, uint8_t mac[SHA256_BYTES])
{
    uint8_t inner[64] = { 0 }, outer[64], digest[SHA256_BYTES];
    Sha256 h;
    if (key_bytes > sizeof inner)
        sha256(key, key_bytes, inner);
    else if (key_bytes > 0)
        memcpy(inner, key, key_bytes);
    for (int i = 0; i < 64; i++) {
        outer[i] = inner[i] ^ 0x5c;
        inner[i] ^= 0x36;
    }
    sha256_begin(&h);
    sha256_add(&h, inner, sizeof inner);
    sha256_add(&h, a, a_bytes);
    sha256_add(&h, b, b_bytes);
    sha256_end(&h, digest);
    sha256_begin(&h);
    sha256_add(&h, outer, sizeof outer);
    sha256_add(&h, digest, sizeof digest);
    sha256_end(&h, mac);
}

bool sha256_equal(const uint8_t a[SHA256_BYTES], const uint8_t b[SHA256_BYTES])
{
    unsigned differ = 0;
    for (int i = 0; i < SHA256_BYTES; i++)
        differ |= (unsigned)(a[i] ^ b[i]);
    return differ == 0;
}
