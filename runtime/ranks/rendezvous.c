/* rendezvous.c -- frames between the ranks, and the monitor thread.
 *
 * Monitored: heartbeats, silence, progress, ends of processes.
 * Keeps: the monitor never blocks on a peer, calls neither CUDA nor MPI, and uses CLOCK_MONOTONIC
 *        only; die() is called without the lock. */
#define _GNU_SOURCE
#include "runtime/ranks/rendezvous.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "runtime/base.h"
#include "runtime/ranks/rendezvous_parts.h"

enum { BEAT_BYTES = 24, ABORT_HEAD = 8, ABORT_TEXT = 200 };
static const double beat_seconds = 1;

Rendezvous rendezvous = { .lock = PTHREAD_MUTEX_INITIALIZER, .came = PTHREAD_COND_INITIALIZER };

static int wake[2];                  /* pipe that wakes the monitor: main has more to send */
static _Atomic int64_t own_step = -1, own_count, own_allowed;
static atomic_bool leaving;

/* ---- bytes ----------------------------------------------------------------------------------- */

void rendezvous_put32(uint8_t *to, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(v >> (8 * i));
}

uint32_t rendezvous_get32(const uint8_t *from)
{
    return (uint32_t)from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16
         | (uint32_t)from[3] << 24;
}

static void put64(uint8_t *to, int64_t v)
{
    rendezvous_put32(to, (uint32_t)v);
    rendezvous_put32(to + 4, (uint32_t)((uint64_t)v >> 32));
}

static int64_t get64(const uint8_t *from)
{
    return (int64_t)(rendezvous_get32(from) | (uint64_t)rendezvous_get32(from + 4) << 32);
}

static void append(Queue *q, const void *data, size_t bytes)
{
    if (q->end + bytes > q->room && q->begin > 0) {
        memmove(q->data, q->data + q->begin, q->end - q->begin);
        q->end -= q->begin;
        q->begin = 0;
    }
    if (q->end + bytes > q->room) {
        q->room = 2 * (q->end + bytes);
        q->data = realloc(q->data, q->room);
        if (!q->data)
            die(EXIT_INTERNAL, "out of memory for %zu bytes between ranks", q->room);
    }
    if (bytes > 0)
        memcpy(q->data + q->end, data, bytes);
    q->end += bytes;
}

static void take(Queue *q, size_t bytes)
{
    q->begin += bytes;
    if (q->begin == q->end)
        q->begin = q->end = 0;
}

/* ---- sending --------------------------------------------------------------------------------- */

/* Under lock: sends what goes without blocking. A failed connection is detected when it is read. */
static void flush(Peer *p)
{
    while (p->fd >= 0 && p->out.end > p->out.begin) {
        ssize_t n = send(p->fd, p->out.data + p->out.begin, p->out.end - p->out.begin,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        take(&p->out, (size_t)n);
    }
}

void rendezvous_queue(Peer *p, FrameType type, const void *payload, size_t bytes)
{
    uint8_t head[RENDEZVOUS_HEAD];
    if (p->fd < 0)
        return;
    rendezvous_put32(head, type);
    rendezvous_put32(head + 4, (uint32_t)bytes);
    append(&p->out, head, sizeof head);
    append(&p->out, payload, bytes);
    flush(p);
}

void rendezvous_send(int rank, const void *data, size_t bytes)
{
    Peer *p = &rendezvous.peer[rank];
    pthread_mutex_lock(&rendezvous.lock);
    for (size_t done = 0; done < bytes;) {
        size_t n = bytes - done < RENDEZVOUS_FRAME ? bytes - done : RENDEZVOUS_FRAME;
        rendezvous_queue(p, FRAME_DATA, (const char *)data + done, n);
        done += n;
    }
    bool rest = p->out.end > p->out.begin;
    pthread_mutex_unlock(&rendezvous.lock);
    if (rest && write(wake[1], "", 1) < 0 && errno != EAGAIN)
        die(EXIT_INTERNAL, "waking the monitor: %s", strerror(errno));
}

/* ---- receiving ------------------------------------------------------------------------------- */

static void lost(int rank, Verdict *v, const char *how)
{
    Peer *p = &rendezvous.peer[rank];
    if (p->fd >= 0)
        close(p->fd);
    p->fd = -1;
    pthread_cond_broadcast(&rendezvous.came);
    if (p->left || leaving || v->code)
        return;
    v->code = EXIT_PEER;
    snprintf(v->text, sizeof v->text, "rank %d (%s) died: %s", rank, rendezvous_host(rank), how);
}

/* Handles one complete frame of a peer; false: invalid frame. */
static bool take_frame(int rank, uint32_t type, const uint8_t *payload, size_t bytes, Verdict *v)
{
    Peer *p = &rendezvous.peer[rank];
    switch (type) {
    case FRAME_GO:
        p->went = true;
        return bytes == 0;
    case FRAME_BEAT:
        if (bytes != BEAT_BYTES)
            return false;
        if (get64(payload) != p->step || get64(payload + 8) != p->count)
            p->moved = clock_seconds();
        p->step = get64(payload);
        p->count = get64(payload + 8);
        p->allowed = get64(payload + 16);
        return true;
    case FRAME_DATA:
        append(&p->box, payload, bytes);
        pthread_cond_broadcast(&rendezvous.came);
        return true;
    case FRAME_ABORT:
        if (bytes < ABORT_HEAD || bytes > ABORT_HEAD + ABORT_TEXT)
            return false;
        if (v->code)
            return true;
        v->code = (int)rendezvous_get32(payload);
        if (v->code < EXIT_CONFIG || v->code > EXIT_REPLICAS)
            v->code = EXIT_PEER;
        snprintf(v->text, sizeof v->text, "%.*s", (int)(bytes - ABORT_HEAD),
                 (const char *)payload + ABORT_HEAD);
        return true;
    case FRAME_BYE:
        p->left = true;
        return bytes == 0;
    default:
        return false;
    }
}

void rendezvous_read(int rank, Verdict *v)
{
    Peer *p = &rendezvous.peer[rank];
    while (p->fd >= 0) {
        ssize_t n = recv(p->fd, p->frame + p->have, sizeof p->frame - p->have, MSG_DONTWAIT);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
            return;
        if (n <= 0) {
            lost(rank, v, n == 0 ? "its connection was closed" : strerror(errno));
            return;
        }
        p->heard = clock_seconds();
        p->warned = false;
        p->have += (size_t)n;
        size_t at = 0;
        while (p->have - at >= RENDEZVOUS_HEAD) {
            uint32_t bytes = rendezvous_get32(p->frame + at + 4);
            if (bytes <= RENDEZVOUS_FRAME && p->have - at < RENDEZVOUS_HEAD + bytes)
                break;
            if (bytes > RENDEZVOUS_FRAME || !take_frame(rank, rendezvous_get32(p->frame + at),
                                                  p->frame + at + RENDEZVOUS_HEAD, bytes, v)) {
                lost(rank, v, "it sent a frame that is none");
                return;
            }
            at += RENDEZVOUS_HEAD + bytes;
        }
        memmove(p->frame, p->frame + at, p->have - at);
        p->have -= at;
    }
}

void rendezvous_receive(int rank, void *data, size_t bytes)
{
    Peer *p = &rendezvous.peer[rank];
    uint8_t *to = data;
    pthread_mutex_lock(&rendezvous.lock);
    while (bytes > 0) {
        size_t have = p->box.end - p->box.begin, n = have < bytes ? have : bytes;
        if (n > 0) {
            memcpy(to, p->box.data + p->box.begin, n);
            take(&p->box, n);
            to += n;
            bytes -= n;
        } else if (p->fd < 0) {
            bool said = p->left;
            pthread_mutex_unlock(&rendezvous.lock);
            while (!said)
                pause();             /* the monitor reports how it died */
            die(EXIT_PEER, "rank %d (%s) left before the others were done", rank,
                rendezvous_host(rank));
        } else {
            pthread_cond_wait(&rendezvous.came, &rendezvous.lock);
        }
    }
    pthread_mutex_unlock(&rendezvous.lock);
}

const char *rendezvous_host(int rank)
{
    return rendezvous.host && rendezvous.host[rank][0] ? rendezvous.host[rank] : "host unknown";
}

/* ---- the monitor ----------------------------------------------------------------------------- */

/* Sends an ABORT frame to all but one rank. Under lock. */
static void tell(int except, int code, int rank, const char *text)
{
    uint8_t payload[ABORT_HEAD + ABORT_TEXT];
    size_t n = strlen(text) < ABORT_TEXT ? strlen(text) : ABORT_TEXT;
    rendezvous_put32(payload, (uint32_t)code);
    rendezvous_put32(payload + 4, (uint32_t)rank);
    memcpy(payload + ABORT_HEAD, text, n);
    for (int r = rendezvous.first; r < rendezvous.end; r++)
        if (r != except)
            rendezvous_queue(&rendezvous.peer[r], FRAME_ABORT, payload, ABORT_HEAD + n);
}

static void beat(void)
{
    uint8_t payload[BEAT_BYTES];
    put64(payload, own_step);
    put64(payload + 8, own_count);
    put64(payload + 16, own_allowed);
    for (int r = rendezvous.first; r < rendezvous.end; r++)
        if (rendezvous.peer[r].out.begin ==
            rendezvous.peer[r].out.end) /* otherwise the queued bytes serve as a
                                                                    heartbeat */
            rendezvous_queue(&rendezvous.peer[r], FRAME_BEAT, payload, sizeof payload);
}

static void check_silence(double now, Verdict *v)
{
    double limit = rendezvous.config->silence_seconds;
    for (int r = rendezvous.first; r < rendezvous.end && !v->code; r++) {
        Peer *p = &rendezvous.peer[r];
        double silent = now - p->heard;
        if (p->fd < 0 || p->left)
            continue;
        if (silent > limit) {
            v->code = EXIT_HANG;
            snprintf(v->text, sizeof v->text, "rank %d (%s) has been silent for %.0f s: frozen, or "
                     "its host is lost", r, rendezvous_host(r), silent);
        } else if (silent > limit / 4 && !p->warned) {
            p->warned = true;
            warn("rank %d (%s) has been silent for %.1f s; it counts as hung after %.0f s", r,
                 rendezvous_host(r), silent, limit);
        }
    }
}

/* Rank 0: checks whether any rank made progress lately, and names the ranks behind the others. */
static void check_progress(double now, Verdict *v)
{
    static int64_t seen = -1;
    static double moved;
    int64_t allowed = own_allowed, most = own_count, least = own_count;
    bool limited = own_allowed > 0;
    if (seen != own_count)
        moved = now;
    seen = own_count;
    double last = moved;
    for (int r = rendezvous.first; r < rendezvous.end; r++) {
        const Peer *p = &rendezvous.peer[r];
        last = p->moved > last ? p->moved : last;
        limited = limited && p->allowed > 0;
        allowed = p->allowed > allowed ? p->allowed : allowed;
        most = p->count > most ? p->count : most;
        least = p->count < least ? p->count : least;
    }
    if (v->code || !limited || now - last < (double)allowed / 1000)
        return;
    v->code = EXIT_HANG;
    int n = snprintf(v->text, sizeof v->text, "no rank got further for %.0f s: ", now - last);
    if (least == most) {
        snprintf(v->text + n, sizeof v->text - (size_t)n, "all wait at the same place; "
                 "should it take longer, set DIECAST_TIMEOUT_SCALE=10");
        return;
    }
    n += snprintf(v->text + n, sizeof v->text - (size_t)n, "behind the others:");
    for (int r = 0; r < rendezvous.config->size && n < 180; r++) {
        bool behind = r == 0 ? own_count < most : rendezvous.peer[r].count < most;
        if (behind)
            n += snprintf(v->text + n, sizeof v->text - (size_t)n, " rank %d (%s)", r,
                          rendezvous_host(r));
    }
}

/* Waits for the sockets; returns true if this process was itself suspended for long, as by
 * SIGSTOP. */
static bool wait_a_moment(struct pollfd *poller)
{
    int n = 0;
    pthread_mutex_lock(&rendezvous.lock);
    poller[n++] = (struct pollfd){ .fd = wake[0], .events = POLLIN };
    for (int r = rendezvous.first; r < rendezvous.end; r++) {
        const Peer *p = &rendezvous.peer[r];
        short events = p->out.end > p->out.begin ? POLLIN | POLLOUT : POLLIN;
        poller[n++] = (struct pollfd){ .fd = p->fd, .events = events };
    }
    pthread_mutex_unlock(&rendezvous.lock);
    double before = clock_seconds();
    poll(poller, (nfds_t)n, 250);
    char drain[64];
    while (read(wake[0], drain, sizeof drain) > 0)
        ;
    return clock_seconds() - before > 1.5;
}

static void *monitor(void *arg)
{
    struct pollfd *poller = arg;
    double last_beat = 0;
    for (;;) {
        bool held_up = wait_a_moment(poller);
        Verdict v = { 0 };
        int from = -1;
        pthread_mutex_lock(&rendezvous.lock);
        for (int r = rendezvous.first; r < rendezvous.end; r++) {
            bool had = v.code != 0;
            flush(&rendezvous.peer[r]);
            rendezvous_read(r, &v);
            if (!had && v.code)
                from = r;
        }
        double now = clock_seconds();
        for (int r = rendezvous.first; r < rendezvous.end && held_up; r++)
            rendezvous.peer[r].heard = rendezvous.peer[r].moved = now;
        if (now - last_beat >= beat_seconds) {
            beat();
            last_beat = now;
        }
        if (!leaving) {
            check_silence(now, &v);
            if (world.rank == 0)
                check_progress(now, &v);
        }
        if (v.code && world.rank == 0)
            tell(from, v.code, 0, v.text);
        bool end = leaving && !v.code;
        pthread_mutex_unlock(&rendezvous.lock);
        if (v.code)
            die(v.code, "%s", v.text);
        if (end)
            return NULL;
    }
}

void rendezvous_start(void)
{
    pthread_t thread;
    sigset_t all, before;
    struct pollfd *poller = calloc((size_t)rendezvous.end + 2, sizeof *poller);
    if (!poller || pipe2(wake, O_CLOEXEC | O_NONBLOCK))
        die(EXIT_CONFIG, "starting the monitor: %s", strerror(errno));
    double now = clock_seconds();
    for (int r = rendezvous.first; r < rendezvous.end; r++)
        rendezvous.peer[r].heard = rendezvous.peer[r].moved = now;
    sigfillset(&all);                /* signals go to the main thread */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, NULL, monitor, poller);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        die(EXIT_CONFIG, "starting the monitor: %s", strerror(error));
    pthread_detach(thread);
}

/* ---- for other threads ----------------------------------------------------------------------- */

void rendezvous_progress(int64_t step, double seconds)
{
    own_step = step;
    own_allowed = (int64_t)(1000 * seconds);
    own_count++;
}

/* State may be inconsistent: tries the lock without waiting. */
void rendezvous_abort(int code)
{
    char text[ABORT_TEXT];
    double end = clock_seconds() + 1;
    bool rest = true, locked = false;
    snprintf(text, sizeof text, "rank %d (%s) ended with code %d: %s", world.rank, world.host,
             code, die_text());
    while (!locked && clock_seconds() < end) {
        locked = pthread_mutex_trylock(&rendezvous.lock) == 0;
        if (!locked)
            usleep(1000);
    }
    if (!locked)
        return;
    tell(-1, code, world.rank, text);
    while (rest && clock_seconds() < end) {
        rest = false;
        for (int r = rendezvous.first; r < rendezvous.end; r++) {
            Peer *p = &rendezvous.peer[r];
            flush(p);
            rest = rest || (p->fd >= 0 && p->out.end > p->out.begin);
        }
        if (rest)
            usleep(1000);
    }
    for (int r = rendezvous.first; r < rendezvous.end; r++)
        if (rendezvous.peer[r].fd >= 0)
            shutdown(rendezvous.peer[r].fd, SHUT_WR);
    pthread_mutex_unlock(&rendezvous.lock);
}

void rendezvous_leave(void)
{
    char word = 0;
    pthread_mutex_lock(&rendezvous.lock);
    for (int r = rendezvous.first; r < rendezvous.end; r++)
        rendezvous_queue(&rendezvous.peer[r], FRAME_BYE, NULL, 0);
    pthread_mutex_unlock(&rendezvous.lock);
    for (int r = rendezvous.first; r < rendezvous.end && world.rank == 0; r++)
        rendezvous_receive(r, &word, 1);
    for (int r = rendezvous.first; r < rendezvous.end; r++)
        rendezvous_send(r, &word, 1);
    if (world.rank != 0)
        rendezvous_receive(0, &word, 1);
    leaving = true;
}
