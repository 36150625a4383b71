/* rendezvous_join.c -- joining: rank 0 listens, the others connect until it answers.
 *
 * Wire: challenge[32] -> ; <- hello: magic[8] | u32 version, rank, world, restart | run[32] |
 * build[32] | mac[32]; -> reply: u32 code | text[116] | id[128] | mac[32]; -> frame GO. mac(hello)
 * = HMAC(secret, challenge | hello), mac(reply) = HMAC(secret, hello.mac | reply).
 * Keeps: strangers cannot exhaust memory or end a rank; every wait has a deadline; until GO one
 *        thread waits on all sockets. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "runtime/base.h"
#include "runtime/files/sha256.h"
#include "runtime/ranks/rendezvous.h"
#include "runtime/ranks/rendezvous_parts.h"

enum {
    CHALLENGE = 32,
    HELLO = 120,
    REPLY = 280,
    MAC = SHA256_BYTES,
    TEXT = 116,
    VERSION = 1,
    CALLERS = 256, /* pending connections served concurrently */
    REFUSED = 3, /* refusals under another secret after which a rank with an explicit secret
                                ends */
    WHY = 240,
    TCP_RETRY_MOST_MS = 44 /* TCP_RTO_MAX_MS of newer kernel headers */
};
static const char magic[] = "DCRDV001";
static const double caller_seconds = 2, answer_seconds = 10, reminder_seconds = 10;
/* Seconds during which ranks of an invalid job may still connect to learn why; during which a rank
 * with another run id may insist; by which a twin may be late. */
static const double telling_seconds = 3, insisting_seconds = 2, twin_seconds = 0.2;

typedef struct {
    int fd;                  /* -1: free */
    double since;
    uint8_t challenge[CHALLENGE], hello[HELLO];
    size_t have;
} Caller;

typedef struct {
    const RendezvousConfig *config;
    char secret[RENDEZVOUS_SECRET + 1];
    const uint8_t *id;
    Caller caller[CALLERS];
    int joined, strangers;
    struct pollfd *poller;
    bool made;               /* this rank created the secret file */
    char why[WHY];           /* why the job is invalid; "": none known */
    bool *told;              /* (size) which ranks were told */
    int ntold;
    double stray_since;      /* since when a process of another run requests a free rank; 0: none */
} Host;

static int listener = -1;    /* of rank 0 */

/* ---- both sides ------------------------------------------------------------------------------ */

static void random_bytes(void *to, size_t bytes)
{
    if (getrandom(to, bytes, 0) != (ssize_t)bytes)
        die(EXIT_CONFIG, "getrandom: %s", strerror(errno));
}

void rendezvous_random(char secret[RENDEZVOUS_RANDOM + 1])
{
    uint8_t random[RENDEZVOUS_RANDOM / 2];
    random_bytes(random, sizeof random);
    for (size_t i = 0; i < sizeof random; i++)
        snprintf(secret + 2 * i, 3, "%02x", random[i]);
}

/* The heartbeat timeout detects an unreachable peer first, with its own exit code; TCP's timeout is
 * longer. Until then TCP retries every second if the kernel can (Linux 6.15), to survive a short
 * link failure: by default each pause is twice as long as the one before. */
static void tune(int fd, double silence)
{
    int on = 1, give_up_ms = (int)(1500 * silence), retry_ms = 1000;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &give_up_ms, sizeof give_up_ms);
    setsockopt(fd, IPPROTO_TCP, TCP_RETRY_MOST_MS, &retry_ms, sizeof retry_ms);
}

static bool is_loopback(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET)
        return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
    return a->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

/* 0.0.0.0 and ::, also IPv4-mapped. */
static bool is_any(const struct sockaddr *a)
{
    if (a->sa_family == AF_INET)
        return ((const struct sockaddr_in *)a)->sin_addr.s_addr == htonl(INADDR_ANY);
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)a)->sin6_addr;
    return a->sa_family == AF_INET6 &&
           (IN6_IS_ADDR_UNSPECIFIED(v6) ||
            (IN6_IS_ADDR_V4MAPPED(v6) && memcmp(v6->s6_addr + 12, "\0\0\0\0", 4) == 0));
}

static int look_up(const RendezvousConfig *c, struct addrinfo **found)
{
    struct addrinfo want = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
    char port[12];
    snprintf(port, sizeof port, "%d", c->port);
    int error = getaddrinfo(c->host, port, &want, found);
    for (const struct addrinfo *a = error ? NULL : *found; a; a = a->ai_next)
        if (is_any(a->ai_addr))
            die(EXIT_CONFIG, "rank 0's address %s means every address of a host and names none: "
                "set MASTER_ADDR or DIECAST_ADDR to the one by which all reach rank 0", c->host);
    return error;
}

/* Reads the first line of a small file; "" if there is none. */
static void read_secret(const char *path, char secret[RENDEZVOUS_SECRET + 1])
{
    *secret = '\0';
    char *error = NULL;
    int fd = path ? file_open(path, O_RDONLY, &error) : -1;
    ssize_t n = fd >= 0 ? read(fd, secret, RENDEZVOUS_SECRET) : 0;
    if (fd >= 0)
        close(fd);
    free(error);
    secret[n > 0 ? n : 0] = '\0';
    secret[strcspn(secret, "\n")] = '\0';
}

/* Writes a new secret for the other ranks; replaces the file of a killed run. */
static bool make_secret(const char *path, char secret[RENDEZVOUS_SECRET + 1])
{
    rendezvous_random(secret);
    unlink(path);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool made = fd >= 0 && file_write(fd, secret, RENDEZVOUS_RANDOM);
    if (fd >= 0 && close(fd))
        made = false;
    if (!made)
        *secret = '\0';
    return made;
}

/* ---- rank 0 ---------------------------------------------------------------------------------- */

static void raise_file_limit(int size)
{
    const int64_t want = size + CALLERS + 64, limit = file_limit(want);
    if (limit < want)
        die(EXIT_CONFIG, "rank 0 of %d needs %lld open files, the limit is %lld: raise ulimit -n",
            size, (long long)want, (long long)limit);
}

static void meet_rank0(const RendezvousConfig *c);

static int listen_at(const RendezvousConfig *c)
{
    struct addrinfo *found;
    int error = look_up(c, &found), on = 1;
    if (error)
        die(EXIT_CONFIG, "rank 0's address %s: %s; set DIECAST_ADDR to one that every node reaches",
            c->host, gai_strerror(error));
    int fd = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        die(EXIT_CONFIG, "socket: %s", strerror(errno));
    if (!c->one_host && is_loopback(found->ai_addr))
        die(EXIT_CONFIG, "rank 0's address %s is this host's own loopback, which other hosts "
            "cannot reach: set DIECAST_ADDR to its address on the network", c->host);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, found->ai_addr, found->ai_addrlen) || listen(fd, SOMAXCONN)) {
        if (errno == EADDRINUSE && c->size > 0)
            meet_rank0(c);
        if (errno == EADDRINUSE)
            die(EXIT_PORT, "port %d of %s is taken: set DIECAST_PORT to a free one on all ranks",
                c->port, c->host);
        die(EXIT_CONFIG, "rank 0 cannot listen on %s port %d: %s; set DIECAST_ADDR to an address "
            "of the host that rank 0 runs on", c->host, c->port, strerror(errno));
    }
    if (!is_loopback(found->ai_addr) && c->secret && !*c->secret)
        warn("no secret: whoever reaches %s port %d can join; set DIECAST_SECRET", c->host,
             c->port);
    freeaddrinfo(found);
    return fd;
}

void rendezvous_listen(RendezvousConfig *c)
{
    static char number[NI_MAXHOST];
    char port[NI_MAXSERV] = "";
    struct sockaddr_storage own;
    socklen_t n = sizeof own;
    listener = listen_at(c);
    if (getsockname(listener, (struct sockaddr *)&own, &n) ||
        getnameinfo((struct sockaddr *)&own, n, number, sizeof number, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV))
        die(EXIT_CONFIG, "the address that rank 0 listens on: %s", strerror(errno));
    c->host = number;
    c->port = (int)strtol(port, NULL, 10);
}

/* "0 3 5-9": ranks that have not joined. */
static void list_missing(const Host *h, char *text, size_t size)
{
    size_t n = 0;
    for (int r = 1, last; r < h->config->size && n + 32 < size; r = last + 1) {
        last = r;
        if (rendezvous.peer[r].fd >= 0)
            continue;
        while (last + 1 < h->config->size && rendezvous.peer[last + 1].fd < 0)
            last++;
        n += (size_t)snprintf(text + n, size - n, last > r ? "%s%d-%d" : "%s%d", n ? " " : "", r,
                              last);
    }
    text[n] = '\0';
}

/* Fits an empty socket buffer: a single send. */
static void reply(const Host *h, int fd, const uint8_t hello_mac[MAC], int code, const char *text)
{
    uint8_t r[REPLY] = { 0 };
    rendezvous_put32(r, (uint32_t)code);
    memcpy(r + 4, text, strnlen(text, TEXT - 1));
    if (code == 0)
        memcpy(r + 4 + TEXT, h->id, RENDEZVOUS_ID);
    hmac_sha256(h->secret, strlen(h->secret), hello_mac, MAC, r, REPLY - MAC, r + REPLY - MAC);
    ssize_t sent = send(fd, r, sizeof r, MSG_NOSIGNAL | MSG_DONTWAIT);
    (void)sent;
}

static void tell_joined(int code, const char *text)
{
    uint8_t payload[8 + 200];
    size_t n = strnlen(text, 200);
    rendezvous_put32(payload, (uint32_t)code);
    rendezvous_put32(payload + 4, 0);
    memcpy(payload + 8, text, n);
    for (int r = 1; r < rendezvous.end; r++)
        rendezvous_queue(&rendezvous.peer[r], FRAME_ABORT, payload, 8 + n);
}

static void forget_secret(Host *h)
{
    if (h->made)
        unlink(h->config->secret_file);
    h->made = false;
}

/* The job cannot continue: sends all connected ranks the reason and ends. */
static void give_up(Host *h, int code, const char *text)
{
    forget_secret(h);
    tell_joined(code, text);
    die(code, "%s", text);
}

static void serve(Host *h);

static void mark_told(Host *h, uint32_t rank)
{
    if (rank > 0 && rank < (uint32_t)h->config->size && !h->told[rank]) {
        h->told[rank] = true;
        h->ntold++;
    }
}

/* The job is invalid: sends the reason to connected ranks and to those that soon connect. With
 * a size of 1 their number is unknown. */
static void refuse_all(Host *h, const char *text)
{
    const RendezvousConfig *c = h->config;
    double end = clock_seconds() + telling_seconds;
    snprintf(h->why, sizeof h->why, "%s", text);
    tell_joined(EXIT_MISMATCH, text);
    for (int r = 1; r < c->size; r++)
        if (rendezvous.peer[r].fd >= 0)
            mark_told(h, (uint32_t)r);
    while ((h->ntold < c->size - 1 || c->size == 1) && clock_seconds() < end)
        serve(h);
    forget_secret(h);
    die(EXIT_MISMATCH, "%s", h->why);
}

static void drop(Host *h, Caller *c, bool stranger)
{
    close(c->fd);
    c->fd = -1;
    h->strangers += stranger;
}

/* The first bytes of a hash, for messages. */
static void hash_text(char text[17], const uint8_t hash[32])
{
    for (int i = 0; i < 8; i++)
        snprintf(text + 2 * i, 3, "%02x", hash[i]);
}

/* A rank with the secret but another run's name: either of a parallel job whose own rank 0 may
 * still come, or of this job with a wrong name, if it insists on a rank that no other takes. */
static bool insists(Host *h, uint32_t rank)
{
    double now = clock_seconds();
    if (rank == 0 || rank >= (uint32_t)h->config->size || rendezvous.peer[rank].fd >= 0)
        return false;
    if (h->stray_since == 0)
        h->stray_since = now;
    return now - h->stray_since > insisting_seconds;
}

/* Returns NULL if the rank may join, else why not. *code: sent to it; *ends: the job is invalid. */
static const char *judge(Host *h, const uint8_t *hello, int *code, bool *ends, char *text)
{
    const RendezvousConfig *c = h->config;
    uint32_t version = rendezvous_get32(hello + 8), rank = rendezvous_get32(hello + 12);
    uint32_t size = rendezvous_get32(hello + 16), restart = rendezvous_get32(hello + 20);
    bool same_run = memcmp(hello + 24, c->run_id, 32) == 0;
    *ends = false;
    *code = EXIT_RENDEZVOUS;             /* it may retry */
    if (restart != (uint32_t)c->restart || (!same_run && !insists(h, rank)))
        return "this is another run";
    *code = EXIT_MISMATCH;
    *ends = true;
    char own[17], other[17];
    hash_text(own, c->build);
    hash_text(other, hello + 56);
    if (!same_run)
        snprintf(text, TEXT, "rank %u says it is of another run: DIECAST_RUN, TORCHELASTIC_RUN_ID "
                 "or SLURM_JOB_ID differ", rank);
    else if (version != VERSION || memcmp(hello + 56, c->build, 32) != 0)
        snprintf(text, TEXT, "rank %u runs another binary than rank 0: SHA-256 %s..., here %s...",
                 rank, other, own);
    else if (size != (uint32_t)c->size)
        snprintf(text, TEXT, "rank %u believes in %u ranks, rank 0 in %d", rank, size, c->size);
    else if (rank == 0)
        snprintf(text, TEXT, "a second rank 0 of %u", size);
    else if (rank >= size)
        snprintf(text, TEXT, "a rank %u too many: they go from 0 to %u", rank, size - 1);
    else if (rendezvous.peer[rank].fd >= 0)
        snprintf(text, TEXT, "rank %u is there twice", rank);
    else
        return *h->why ? h->why : NULL;
    return text;
}

/* Called when the hello is complete. */
static void answer(Host *h, Caller *c)
{
    uint8_t mac[MAC];
    uint8_t message[CHALLENGE];
    memcpy(message, c->challenge, CHALLENGE);
    hmac_sha256(h->secret, strlen(h->secret), message, CHALLENGE, c->hello, HELLO - MAC, mac);
    if (memcmp(c->hello, magic, 8) != 0) {
        drop(h, c, true);
        return;
    }
    const uint8_t *hello_mac = c->hello + HELLO - MAC;
    if (!sha256_equal(mac, hello_mac)) {
        reply(h, c->fd, hello_mac, EXIT_MISMATCH, "another secret");
        drop(h, c, true);
        return;
    }
    int code;
    bool ends;
    char text[TEXT];
    const char *why = judge(h, c->hello, &code, &ends, text);
    if (why) {
        reply(h, c->fd, hello_mac, code, why);
        drop(h, c, !ends);
        if (ends)
            mark_told(h, rendezvous_get32(c->hello + 12));
        if (ends && !*h->why)
            refuse_all(h, why);
        return;
    }
    reply(h, c->fd, hello_mac, 0, "");
    tune(c->fd, h->config->silence_seconds);
    rendezvous.peer[rendezvous_get32(c->hello + 12)].fd = c->fd;
    c->fd = -1;
    h->joined++;
}

static void hear(Host *h, Caller *c)
{
    ssize_t n = recv(c->fd, c->hello + c->have, HELLO - c->have, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0) {
        drop(h, c, true);
        return;
    }
    c->have += (size_t)n;
    if (c->have == HELLO)
        answer(h, c);
    else if (memcmp(c->hello, magic, c->have < 8 ? c->have : 8) != 0)
        drop(h, c, true);
}

/* Accepts all pending connections; if every slot is taken, the oldest is closed. */
static void accept_all(Host *h)
{
    for (int i = 0; i < CALLERS; i++) {
        int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0)
            return;
        Caller *c = &h->caller[0];
        for (int k = 0; k < CALLERS && c->fd >= 0; k++)
            if (h->caller[k].fd < 0 || h->caller[k].since < c->since)
                c = &h->caller[k];
        if (c->fd >= 0)
            drop(h, c, true);
        *c = (Caller){ .fd = fd, .since = clock_seconds() };
        random_bytes(c->challenge, CHALLENGE);
        if (send(fd, c->challenge, CHALLENGE, MSG_NOSIGNAL | MSG_DONTWAIT) != CHALLENGE)
            drop(h, c, true);
    }
}

/* One iteration of the loop, at most a quarter of a second. */
static void serve(Host *h)
{
    int n = 0, size = h->config->size;
    struct pollfd *poller = h->poller;
    poller[n++] = (struct pollfd){ .fd = listener, .events = POLLIN };
    for (int i = 0; i < CALLERS; i++)
        poller[n++] = (struct pollfd){ .fd = h->caller[i].fd, .events = POLLIN };
    for (int r = 1; r < size; r++)
        poller[n++] = (struct pollfd){ .fd = rendezvous.peer[r].fd, .events = POLLIN };
    poll(poller, (nfds_t)n, 250);
    double now = clock_seconds();
    for (int i = 0; i < CALLERS; i++) {
        if (h->caller[i].fd >= 0 && poller[1 + i].revents)
            hear(h, &h->caller[i]);
        if (h->caller[i].fd >= 0 && now - h->caller[i].since > caller_seconds)
            drop(h, &h->caller[i], true);
    }
    Verdict v = { 0 };
    for (int r = 1; r < size; r++)
        if (poller[1 + CALLERS + r - 1].fd >= 0 && poller[1 + CALLERS + r - 1].revents)
            rendezvous_read(r, &v);
    if (v.code && !*h->why)
        give_up(h, v.code, v.text);
    if (poller[0].revents)
        accept_all(h);
}

static void gather_ranks(const RendezvousConfig *c, uint8_t id[RENDEZVOUS_ID])
{
    static Host host;
    Host *h = &host;
    char missing[100];
    h->config = c;
    h->id = id;
    raise_file_limit(c->size);
    for (int i = 0; i < CALLERS; i++)
        h->caller[i].fd = -1;
    bool told_where = listener >= 0;     /* by rendezvous_listen(): a twin would have its own rank
                                            0 */
    if (!told_where)
        listener = listen_at(c);
    h->poller = calloc((size_t)c->size + CALLERS + 1, sizeof *h->poller);
    h->told = calloc((size_t)c->size, sizeof *h->told);
    if (!h->poller || !h->told)
        die(EXIT_CONFIG, "no memory for %d ranks", c->size);
    if (c->secret)
        snprintf(h->secret, sizeof h->secret, "%s", c->secret);
    else if (c->secret_file && !(h->made = make_secret(c->secret_file, h->secret)))
        warn("%s cannot be written: %s; without a secret whoever reaches %s port %d can join; set "
             "DIECAST_SECRET", c->secret_file, strerror(errno), c->host, c->port);
    if (c->wrong)
        refuse_all(h, c->wrong);
    double start = clock_seconds(), said = start;
    while (h->joined < c->size - 1) {
        serve(h);
        double now = clock_seconds();
        list_missing(h, missing, sizeof missing);
        if (now - said > reminder_seconds && h->joined < c->size - 1) {
            note("waiting for ranks %s on %s port %d", missing, c->host, c->port);
            said = now;
        }
        if (now - start > c->join_seconds && h->joined < c->size - 1) {
            char text[200];
            snprintf(text, sizeof text, "ranks %s of %d have not come within %.0f s (strangers "
                     "turned away: %d)", missing, c->size, c->join_seconds, h->strangers);
            give_up(h, EXIT_RENDEZVOUS, text);
        }
    }
    for (double end = clock_seconds() + twin_seconds; !told_where && clock_seconds() < end;)
        serve(h);
    close(listener);
    for (int i = 0; i < CALLERS; i++)
        if (h->caller[i].fd >= 0)
            drop(h, &h->caller[i], true);
    forget_secret(h);
    if (h->strangers)
        note("rendezvous: %d strangers turned away", h->strangers);
    for (int r = 1; r < c->size; r++)
        rendezvous_queue(&rendezvous.peer[r], FRAME_GO, NULL, 0);
    free(h->poller);
    free(h->told);
}

/* ---- the other ranks ------------------------------------------------------------------------- */

/* Receives exactly `bytes` bytes; false after `seconds`, or if the connection ends. */
static bool receive_all(int fd, void *data, size_t bytes, double seconds)
{
    double end = clock_seconds() + seconds;
    for (size_t have = 0; have < bytes;) {
        struct pollfd poller = { .fd = fd, .events = POLLIN };
        double left = end - clock_seconds();
        if (left <= 0 || (poll(&poller, 1, (int)(1000 * left) + 1) < 0 && errno != EINTR))
            return false;
        ssize_t n = recv(fd, (char *)data + have, bytes - have, MSG_DONTWAIT);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        have += n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* Connects; returns -1 and errno, after at most `seconds`. */
static int call(const struct addrinfo *a, double seconds)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), error = 0;
    socklen_t n = sizeof error;
    if (fd < 0)
        return -1;
    if (connect(fd, a->ai_addr, a->ai_addrlen) == 0)
        return fd;
    error = errno;
    if (error == EINPROGRESS) {
        struct pollfd poller = { .fd = fd, .events = POLLOUT };
        if (poll(&poller, 1, (int)(1000 * seconds)) == 1)
            getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n);
        else
            error = ETIMEDOUT;
    }
    if (error == 0)
        return fd;
    close(fd);
    errno = error;
    return -1;
}

/* Outcome of one attempt to join. */
typedef enum { JOINED, NOT_THERE, OTHER_SECRET } Outcome;

static Outcome greet(const RendezvousConfig *c, int fd, const char *secret, double seconds,
                     uint8_t id[RENDEZVOUS_ID], const char **why)
{
    uint8_t challenge[CHALLENGE], hello[HELLO] = { 0 }, r[REPLY], mac[MAC];
    uint32_t number[] = { VERSION, (uint32_t)c->rank, (uint32_t)c->size, (uint32_t)c->restart };
    size_t n = strlen(secret);
    *why = "what listens there is no rank 0 of ours";
    if (!receive_all(fd, challenge, CHALLENGE, seconds))
        return NOT_THERE;
    memcpy(hello, magic, 8);
    for (int i = 0; i < 4; i++)
        rendezvous_put32(hello + 8 + 4 * i, number[i]);
    memcpy(hello + 24, c->run_id, 32);
    memcpy(hello + 56, c->build, 32);
    hmac_sha256(secret, n, challenge, CHALLENGE, hello, HELLO - MAC, hello + HELLO - MAC);
    if (send(fd, hello, HELLO, MSG_NOSIGNAL) != HELLO ||
        !receive_all(fd, r, REPLY, seconds))
        return NOT_THERE;
    hmac_sha256(secret, n, hello + HELLO - MAC, MAC, r, REPLY - MAC, mac);
    if (!sha256_equal(mac, r + REPLY - MAC)) {
        *why = "rank 0 has another secret";
        return OTHER_SECRET;
    }
    int code = (int)rendezvous_get32(r);
    if (code == EXIT_RENDEZVOUS) {
        *why = "another run answers there";
        return NOT_THERE;
    }
    if (c->wrong)
        die(EXIT_MISMATCH, "%s", c->wrong);
    if (code != 0)
        die(code > EXIT_CONFIG && code <= EXIT_REPLICAS ? code : EXIT_MISMATCH,
            "refused by rank 0: %.*s", TEXT - 1, (const char *)r + 4);
    memcpy(id, r + 4 + TEXT, RENDEZVOUS_ID);
    return JOINED;
}

/* Waits up to `seconds` for the connection, and for each reply. */
static Outcome attempt(const RendezvousConfig *c, const char *secret, double seconds,
                       uint8_t id[RENDEZVOUS_ID], const char **why)
{
    struct addrinfo *found;
    int error = look_up(c, &found), fd = -1;
    if (error) {
        *why = gai_strerror(error);
        return NOT_THERE;
    }
    for (const struct addrinfo *a = found; a && fd < 0; a = a->ai_next)
        fd = call(a, seconds);
    int call_error = errno;
    freeaddrinfo(found);
    if (fd < 0) {
        *why = strerror(call_error);
        return NOT_THERE;
    }
    Outcome outcome = greet(c, fd, secret, seconds, id, why);
    if (outcome == JOINED) {
        tune(fd, c->silence_seconds);
        rendezvous.peer[0].fd = fd;
    } else {
        close(fd);
    }
    return outcome;
}

static void get_secret(const RendezvousConfig *c, char secret[RENDEZVOUS_SECRET + 1])
{
    if (c->secret)
        snprintf(secret, RENDEZVOUS_SECRET + 1, "%s", c->secret);
    else
        read_secret(c->secret_file, secret);
}

/* Another process listens on rank 0's address. If it is a rank 0 of the same run, both end here;
 * else returns with errno unchanged. */
static void meet_rank0(const RendezvousConfig *c)
{
    char secret[RENDEZVOUS_SECRET + 1];
    uint8_t id[RENDEZVOUS_ID];
    const char *why;
    get_secret(c, secret);
    attempt(c, secret, caller_seconds, id, &why);
    errno = EADDRINUSE;
}

/* Rank 0 gives up at its own deadline and says so; a little later this rank gives up, too. */
static void wait_for_go(const RendezvousConfig *c, double end)
{
    Verdict v = { 0 };
    Peer *p = &rendezvous.peer[0];
    while (!p->went && !v.code) {
        struct pollfd poller = { .fd = p->fd, .events = POLLIN };
        double left = end + answer_seconds - clock_seconds();
        if (left <= 0)
            die(EXIT_RENDEZVOUS,
                "rank 0 at %s port %d accepted this rank, then sent nothing for %.0f s", c->host,
                c->port, c->join_seconds);
        poll(&poller, 1, left < 1 ? (int)(1000 * left) + 1 : 1000);
        rendezvous_read(0, &v);
    }
    if (v.code)
        die(v.code, "%s", v.text);
}

static void find_rank0(const RendezvousConfig *c, uint8_t id[RENDEZVOUS_ID])
{
    char secret[RENDEZVOUS_SECRET + 1];
    const char *why = "no attempt made";
    double start = clock_seconds(), pause_seconds = 0.05;
    double end = start + (c->wrong ? telling_seconds : c->join_seconds);
    int refused = 0;
    for (;;) {
        get_secret(c, secret);
        Outcome outcome = attempt(c, secret, answer_seconds, id, &why);
        refused = outcome == OTHER_SECRET ? refused + 1 : 0;
        if (outcome == JOINED)
            break;
        bool over = clock_seconds() + pause_seconds > end;
        if (over && c->wrong)
            die(EXIT_MISMATCH, "%s", c->wrong);
        if (outcome == OTHER_SECRET && (over || (c->secret && refused == REFUSED)))
            die(EXIT_MISMATCH, "rank 0 at %s port %d has another secret: DIECAST_SECRET must be "
                "the same on all ranks", c->host, c->port);
        if (over)
            die(EXIT_RENDEZVOUS, "rank 0 was not found at %s port %d within %.0f s: %s", c->host,
                c->port, c->join_seconds, why);
        usleep((unsigned)(1e6 * pause_seconds));
        pause_seconds = pause_seconds * 1.5 < 1 ? pause_seconds * 1.5 : 1;
    }
    wait_for_go(c, end);
}

/* ---- all ranks ------------------------------------------------------------------------------- */

void rendezvous_join(const RendezvousConfig *c, uint8_t id[RENDEZVOUS_ID])
{
    static RendezvousConfig kept;
    kept = *c;
    rendezvous.config = &kept;
    rendezvous.first = c->rank == 0 ? 1 : 0;
    rendezvous.end = c->rank == 0 ? c->size : 1;
    rendezvous.peer = calloc((size_t)c->size, sizeof *rendezvous.peer);
    rendezvous.host = calloc((size_t)c->size, sizeof *rendezvous.host);
    if (!rendezvous.peer || !rendezvous.host)
        die(EXIT_CONFIG, "no memory for %d ranks", c->size);
    for (int r = 0; r < c->size; r++)
        rendezvous.peer[r].fd = -1;
    if (c->rank == 0)
        gather_ranks(&kept, id);
    else
        find_rank0(&kept, id);
    rendezvous_progress(-1, 0);
    rendezvous_start();
    memcpy(rendezvous.host[c->rank], world.host, sizeof *rendezvous.host);
    size_t table = (size_t)c->size * sizeof *rendezvous.host;
    for (int r = rendezvous.first; r < rendezvous.end && c->rank == 0; r++)
        rendezvous_receive(r, rendezvous.host[r], sizeof *rendezvous.host);
    for (int r = rendezvous.first; r < rendezvous.end; r++)
        rendezvous_send(r, c->rank == 0 ? rendezvous.host[0] : rendezvous.host[c->rank],
                  c->rank == 0 ? table : sizeof *rendezvous.host);
    if (c->rank != 0)
        rendezvous_receive(0, rendezvous.host, table);
    for (int r = 0; r < c->size; r++)
        rendezvous.host[r][sizeof *rendezvous.host - 1] = '\0';
}
