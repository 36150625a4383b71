/* rendezvous_parts.h -- internals of rendezvous.c and rendezvous_join.c: peers, frames.
 *
 * A frame is u32 type | u32 bytes | payload, little-endian; the payload has at most
 * RENDEZVOUS_FRAME bytes. */
#ifndef DIECAST_RENDEZVOUS_PARTS_H
#define DIECAST_RENDEZVOUS_PARTS_H

#include <pthread.h>

#include "runtime/ranks/rendezvous.h"

enum { RENDEZVOUS_HEAD = 8, RENDEZVOUS_FRAME = 16 << 10 };
/* GO: all ranks have joined; hosts follow as DATA. BEAT: i64 step | i64 count | i64 milliseconds
 * allowed. ABORT: u32 code | u32 rank | text. BYE: the connection is about to close without an
 * error. */
typedef enum { FRAME_GO = 1, FRAME_BEAT, FRAME_DATA, FRAME_ABORT, FRAME_BYE } FrameType;

typedef struct {
    uint8_t *data;
    size_t begin, end, room;         /* data[begin .. end) is pending */
} Queue;

typedef struct {
    int fd;                          /* -1: none */
    bool went, warned, left;         /* GO received; silence reported; BYE received */
    double heard, moved;             /* clock_seconds() of the last byte; of the last progress */
    int64_t step, count, allowed;    /* from its last heartbeat; allowed in milliseconds */
    uint8_t frame[RENDEZVOUS_HEAD + RENDEZVOUS_FRAME];
    size_t have;                     /* bytes of frame received */
    Queue out, box;                  /* outgoing bytes; received DATA */
} Peer;

typedef struct {
    const RendezvousConfig *config;
    Peer *peer;                      /* (size): rank 0 uses 1.., the others 0 */
    int first, end;                  /* peers in use: first .. end-1 */
    pthread_mutex_t lock;            /* protects the peers */
    pthread_cond_t came;             /* DATA arrived, or a connection ended */
    char (*host)[64];                /* (size) */
} Rendezvous;
extern Rendezvous rendezvous;

/* Decision of the monitor or the rendezvous to end the process; code 0: none. */
typedef struct {
    int code;
    char text[240];
} Verdict;

/* A number of a frame, in four bytes, the least significant first. */
void rendezvous_put32(uint8_t *to, uint32_t v);
uint32_t rendezvous_get32(const uint8_t *from);
/* Under lock: queues a frame and sends what goes without blocking; the rest later. */
void rendezvous_queue(Peer *p, FrameType type, const void *payload, size_t bytes);
/* Under lock: reads the available bytes. Sets *v if the peer died, gave up or sent an invalid
 * frame. */
void rendezvous_read(int rank, Verdict *v);
void rendezvous_start(void);               /* starts the monitor */

#endif
