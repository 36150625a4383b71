/* sha256.h -- SHA-256 (FIPS 180-4) and HMAC-SHA256 (RFC 2104), for the handshake of rendezvous.h
 * and for file fingerprints.
 *
 * Keeps: needs no library. */
#ifndef DIECAST_SHA256_H
#define DIECAST_SHA256_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32, SHA256_HEX = 2 * SHA256_BYTES + 1 };

typedef struct {
    uint32_t state[8];
    uint64_t bytes;
    uint8_t block[64];
} Sha256;

/* The digest of all bytes added between begin and end; sha256(): of one piece. */
void sha256_begin(Sha256 *h);
void sha256_add(Sha256 *h, const void *data, size_t bytes);
void sha256_end(Sha256 *h, uint8_t digest[SHA256_BYTES]);
void sha256(const void *data, size_t bytes, uint8_t digest[SHA256_BYTES]);
/* sha256_end() with a hexadecimal digest. */
void sha256_text(Sha256 *h, char hex[SHA256_HEX]);

/* MAC of a followed by b. */
void hmac_sha256(const void *key, size_t key_bytes, const void *a, size_t a_bytes, const void *b,
                 size_t b_bytes, uint8_t mac[SHA256_BYTES]);
/* Constant-time comparison. */
bool sha256_equal(const uint8_t a[SHA256_BYTES], const uint8_t b[SHA256_BYTES]);

#endif
