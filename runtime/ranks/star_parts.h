/* star_parts.h -- what star.c has for star_join.c: the peers, and the frames between them.
 *
 * A frame is u32 type | u32 bytes | bytes of payload, little-endian, at most STAR_FRAME. */
#ifndef DIECAST_STAR_PARTS_H
#define DIECAST_STAR_PARTS_H

#include <pthread.h>

#include "runtime/ranks/star.h"

enum { STAR_HEAD = 8, STAR_FRAME = 16 << 10 };
/* GO: all have joined; hosts follow as DATA. BEAT: i64 step | i64 count | i64 milliseconds allowed.
 * ABORT: u32 code | u32 rank | text. BYE: the end of the connection is no fault. */
typedef enum { FRAME_GO = 1, FRAME_BEAT, FRAME_DATA, FRAME_ABORT, FRAME_BYE } FrameType;

typedef struct {
    uint8_t *data;
    size_t begin, end, room;         /* data[begin .. end) is waiting */
} Queue;

typedef struct {
    int fd;                          /* -1: none */
    bool went, warned, left;         /* GO came; its silence was said; BYE came */
    double heard, moved;             /* clock_seconds() of the last byte; of the last progress */
    int64_t step, count, allowed;    /* of its last heartbeat; milliseconds */
    uint8_t frame[STAR_HEAD + STAR_FRAME];
    size_t have;                     /* bytes of frame */
    Queue out, box;                  /* to be sent; DATA to be received */
} Peer;

typedef struct {
    const StarConfig *config;
    Peer *peer;                      /* (size): rank 0 uses 1.., the others 0 */
    int first, end;                  /* peers in use: first .. end-1 */
    pthread_mutex_t lock;            /* of the peers */
    pthread_cond_t came;             /* something into a box, or a connection ended */
    char (*host)[64];                /* (size) */
} Star;
extern Star star;

/* An end that the monitor or the rendezvous decides on; code 0: none. */
typedef struct {
    int code;
    char text[240];
} Verdict;

void star_put32(uint8_t *to, uint32_t v);
uint32_t star_get32(const uint8_t *from);
/* Under lock, as far as it goes without waiting; the rest later. */
void star_queue(Peer *p, FrameType type, const void *payload, size_t bytes);
void star_flush(Peer *p);
/* Reads what is there. Under lock. A peer that died, gave up or sends nonsense is in *v. */
void star_read(int rank, Verdict *v);
void star_start(void);               /* the monitor */

#endif
