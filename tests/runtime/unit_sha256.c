/* unit_sha256.c -- published vectors: FIPS 180-4 (NIST's examples), RFC 4231. */
#include "unit.h"
#include "../../runtime/files/sha256.h"
#include <stdio.h>
#include <string.h>

static void hex(const uint8_t d[SHA256_BYTES], char text[65])
{
    for (int i = 0; i < SHA256_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", d[i]);
}

/* the data `times` times, in one go and byte by byte */
static void hash(const char *data, int times, const char *want)
{
    uint8_t digest[SHA256_BYTES];
    char got[65];
    Sha256 h;
    for (int step = 0; step < 2; step++) {
        size_t n = strlen(data);
        sha256_begin(&h);
        for (int i = 0; i < times; i++)
            for (size_t at = 0; at < n; at += step ? 1 : n)
                sha256_add(&h, data + at, step ? 1 : n);
        sha256_end(&h, digest);
        hex(digest, got);
        check(strcmp(got, want) == 0, "sha256", "%.20s x %d: %s", data, times, got);
    }
}

static void mac(const char *key, size_t nkey, const char *data, const char *want)
{
    uint8_t digest[SHA256_BYTES];
    char got[65];
    size_t half = strlen(data) / 2;
    hmac_sha256(key, nkey, data, half, data + half, strlen(data) - half, digest);
    hex(digest, got);
    check(strcmp(got, want) == 0, "hmac_sha256", "%.30s: %s", data, got);
}

void test_sha256(void)
{
    hash("", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    hash("abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
         "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    hash("aaaaaaaaaa", 100000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    char key[131];
    memset(key, 0x0b, 20);
    mac(key, 20, "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    mac("Jefe", 4, "what do ya want for nothing?",
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, 131);
    mac(key, 131, "Test Using Larger Than Block-Size Key - Hash Key First",
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    mac(key, 131, "This is a test using a larger than block-size key and a larger than block-size "
        "data. The key needs to be hashed before being used by the HMAC algorithm.",
        "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
    uint8_t a[SHA256_BYTES] = { 1 }, b[SHA256_BYTES] = { 1 };
    bool same = sha256_equal(a, b);
    b[31] = 1;
    check(same && !sha256_equal(a, b), "sha256_equal", "wrong verdict");
}
