/* relay.c -- a slow cable: relay MILLISECONDS INTERFACE INTERFACE takes each frame that comes in on the one and sends
 * it out on the other so much later, in order, until it is killed.
 *
 * Keeps: frames are as the hosts made them, also those that a network card would cut or sum (PACKET_VNET_HDR). */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

typedef struct Frame {
    struct Frame *next;
    int64_t due;                     /* milliseconds of the clock */
    size_t bytes;
    char data[];
} Frame;

static int sockets[2];
static Frame *first[2], **last[2];   /* of each way: on their way */

static void check(int failed, const char *what)
{
    if (!failed)
        return;
    fprintf(stderr, "relay: %s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static int open_on(const char *name)
{
    const int on = 1, number = (int)if_nametoindex(name);
    struct sockaddr_ll at = { .sll_family = AF_PACKET, .sll_protocol = __builtin_bswap16(ETH_P_ALL),
                              .sll_ifindex = number };
    struct packet_mreq all = { .mr_ifindex = number, .mr_type = PACKET_MR_PROMISC };
    check(number == 0, name);
    int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, 0);
    check(fd < 0, "socket");
    check(setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on), "PACKET_VNET_HDR");
    check(setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on), "PACKET_IGNORE_OUTGOING");
    check(setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof all), "PACKET_ADD_MEMBERSHIP");
    check(bind(fd, (struct sockaddr *)&at, sizeof at), "bind");
    return fd;
}

static void take(int from, int64_t delay)
{
    static char buffer[1 << 17];
    ssize_t n;
    while ((n = recv(sockets[from], buffer, sizeof buffer, 0)) > 0) {
        Frame *f = malloc(sizeof *f + (size_t)n);
        check(!f, "malloc");
        *f = (Frame){ .due = now() + delay, .bytes = (size_t)n };
        memcpy(f->data, buffer, (size_t)n);
        *last[from] = f;
        last[from] = &f->next;
    }
}

/* A frame that the other side cannot take now is lost, as on any cable. */
static void give(int from)
{
    while (first[from] && first[from]->due <= now()) {
        Frame *f = first[from];
        ssize_t sent = send(sockets[1 - from], f->data, f->bytes, 0);
        (void)sent;
        first[from] = f->next;
        if (!f->next)
            last[from] = &first[from];
        free(f);
    }
}

int main(int argc, char **argv)
{
    check(argc != 4, "MILLISECONDS INTERFACE INTERFACE");
    const int64_t delay = strtol(argv[1], NULL, 10);
    for (int i = 0; i < 2; i++) {
        sockets[i] = open_on(argv[2 + i]);
        last[i] = &first[i];
    }
    for (;;) {
        struct pollfd wait[2] = { { .fd = sockets[0], .events = POLLIN }, { .fd = sockets[1], .events = POLLIN } };
        int64_t next = -1;
        for (int i = 0; i < 2; i++)
            if (first[i] && (next < 0 || first[i]->due < next))
                next = first[i]->due;
        int64_t left = next < 0 ? -1 : next - now();
        poll(wait, 2, next < 0 ? -1 : left < 0 ? 0 : (int)left);
        for (int i = 0; i < 2; i++) {
            take(i, delay);
            give(i);
        }
    }
}
