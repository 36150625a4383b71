// link: rendezvous rendezvous_join sha256 base -lpthread
/* rendezvous_fuzz.c -- what a rank sends to another: frames taken whole, in order and within their sizes,
 * or an end with a code and a line. */
#define _GNU_SOURCE
#include "../../runtime/base.h"
#include "../../runtime/ranks/rendezvous_parts.h"
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Bytes of the DATA frames that stand whole at the beginning of data, up to what is no frame. */
static size_t data_of(const uint8_t *data, size_t size, size_t *whole)
{
    size_t sum = 0, at = 0;
    while (size - at >= RENDEZVOUS_HEAD) {
        const uint32_t type = rendezvous_get32(data + at), bytes = rendezvous_get32(data + at + 4);
        if (bytes > RENDEZVOUS_FRAME || size - at - RENDEZVOUS_HEAD < bytes || type < FRAME_GO || type > FRAME_BYE)
            break;
        sum += type == FRAME_DATA ? bytes : 0;
        at += RENDEZVOUS_HEAD + bytes;
    }
    *whole = at;
    return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static Peer peer[2];
    static char host[2][64] = { "here", "there" };
    static const RendezvousConfig config = { .size = 2, .silence_seconds = 20, .join_seconds = 1 };
    const size_t piece = size ? 1 + data[0] % 64 : 1;    /* bytes that arrive at a time */
    int pair[2];
    Verdict v = { 0 };
    if (size == 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, pair))
        return 0;
    data++, size--;
    peer[1] = (Peer){ .fd = pair[0] };
    rendezvous.config = &config;
    rendezvous.peer = peer;
    rendezvous.host = host;
    for (size_t at = 0; at < size && peer[1].fd >= 0; at += piece) {
        const size_t n = size - at < piece ? size - at : piece;
        if (write(pair[1], data + at, n) != (ssize_t)n)
            abort();
        rendezvous_read(1, &v);
    }
    size_t whole, sum = data_of(data, size, &whole), got = peer[1].box.end - peer[1].box.begin;
    const bool ended = peer[1].fd < 0;
    if (got > sum || (!ended && (got != sum || size - whole != peer[1].have)))
        abort();
    if (v.code && (v.code < EXIT_CONFIG || v.code > EXIT_REPLICAS))
        abort();
    if (memchr(v.text, '\0', sizeof v.text) == NULL || (ended && !v.code && !peer[1].left))
        abort();
    if (peer[1].fd >= 0)
        close(peer[1].fd);
    close(pair[1]);
    free(peer[1].box.data);
    return 0;
}
