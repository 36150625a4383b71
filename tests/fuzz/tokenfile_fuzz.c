// link: base json crc32c safetensors safetensors_write tokenfile recordfile host_memory -lcjson -lm
/* tokenfile_fuzz.c -- a whole record file from bytes; what is accepted must be safe to index.
 *
 * In: the JSON header, a NUL, the data; the length word is made here, it would rarely be guessed. */
#define _GNU_SOURCE
#include "../../runtime/data/tokenfile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define WANT(x)                                                              \
    do {                                                                     \
        if (!(x)) {                                                          \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);          \
            abort();                                                         \
        }                                                                    \
    } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *in, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *in, size_t size)
{
    const uint8_t *nul = size ? memchr(in, 0, size) : NULL;
    uint64_t n = nul ? (uint64_t)(nul - in) : size;
    size_t data = nul ? size - n - 1 : 0;
    char path[64];
    int fd = memfd_create("tokens", 0);
    WANT(fd >= 0 && write(fd, &n, 8) == 8 && write(fd, in, n) == (ssize_t)n);
    WANT(!data || write(fd, nul + 1, data) == (ssize_t)data);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    RecordFile r;
    char *why = recordfile_open(&r, path);
    for (int i = 0; !why && i < r.ncolumns; i++) {
        const Column *c = &r.column[i];
        int64_t size = st_dtype_bits[c->dtype] / 8, all = 0, n, sum = 0;
        WANT(recordfile_column(&r, c->name) == c);
        for (int64_t k = 0; k < r.n; k++, all += n) {
            const unsigned char *at = recordfile_at(&r, c, k, &n);
            WANT(at == (const unsigned char *)c->data + all * size && n >= 0);
            for (int64_t b = 0; b < n * size; b++)
                sum += at[b];
        }
        WANT(all == c->n && sum >= 0);
    }
    if (!why)
        recordfile_close(&r);
    TokenFile f;
    char *error = tokenfile_open(&f, path);
    if (!error) {
        char *bad = tokenfile_check_ids(&f, f.vocab), *where = NULL;
        WANT(f.nparts >= 1 && f.nparts <= TOKENFILE_PARTS);
        for (int k = 0; k < f.nparts; k++) {
            const TokenPart *p = &f.part[k];
            int64_t sum = 0, at = 0;
            for (int64_t d = 0; d < f.ndocs; d++) {
                WANT(p->doc[d] == at && at < p->doc[d + 1]);
                for (; at < p->doc[d + 1]; at++) {
                    sum += p->mask ? p->mask[at] : 1;
                    if (!where && (p->tokens[at] < 0 || p->tokens[at] >= f.vocab))
                        WANT(asprintf(&where, ": %s[%lld]:", p->name, (long long)at) > 0);
                }
            }
            WANT(at == p->n && sum <= at);
        }
        WANT(!bad == !where && (!bad || strstr(bad, where)));
        free(bad), free(where);
        tokenfile_close(&f);
    }
    WANT(!why || error);         /* a token file is a record file */
    free(why);
    free(error);
    close(fd);
    return 0;
}
