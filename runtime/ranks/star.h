/* star.h -- the ranks of a job on TCP: rank 0 in the middle, every other rank connected to it, from
 * the start of the run to its end. It brings them together, tells every rank when one dies, hangs
 * or gives up, and carries the host's small messages.
 *
 * In:    an address, a secret.  Out: connections; a process that ends with a code and a line.
 * Keeps: without the secret nobody joins, ends or noticeably delays a run. Nothing is encrypted.
 * Method: a thread of its own (the monitor) reads every connection, sends a heartbeat a second and
 *         ends the process: EXIT_PEER, EXIT_HANG, or the code with which another rank ended. */
#ifndef DIECAST_STAR_H
#define DIECAST_STAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    STAR_ID = 128,           /* bytes that rank 0 hands to everybody: NCCL's unique id */
    STAR_SECRET = 256,       /* bytes of a secret, at most */
    STAR_RANDOM = 64,        /* characters of one that is drawn */
    STAR_RANKS = 4096
};

typedef struct {
    int rank, size, restart;
    bool one_host;           /* all ranks, as far as is known: else no loopback address will do */
    const char *host;        /* that rank 0 listens on: name or number */
    int port;
    const char *secret;      /* NULL: what is in secret_file, which rank 0 makes; "" without one */
    const char *secret_file; /* or NULL */
    uint8_t run_id[32];      /* SHA-256 of the launcher's name for this run */
    uint8_t build[32];       /* SHA-256 of the program */
    const char *wrong;       /* NULL, or why this rank can be of no job: it tells the others and ends
                              * with EXIT_MISMATCH */
    double join_seconds;     /* until all have joined: EXIT_RENDEZVOUS */
    double silence_seconds;  /* without a heartbeat: EXIT_HANG */
} StarConfig;

/* A new secret. */
void star_random(char secret[STAR_RANDOM + 1]);
/* Rank 0, where the others are to be told what to call before anybody joins: listens on c->host and
 * c->port (0: any free one) and sets both to what was taken, the host as a number. */
void star_listen(StarConfig *c);
/* Returns when all ranks have joined; id goes from rank 0 to the others. Ends the process with
 * EXIT_PORT, EXIT_RENDEZVOUS, EXIT_MISMATCH or EXIT_CONFIG. Starts the monitor. Main thread. */
void star_join(const StarConfig *c, uint8_t id[STAR_ID]);

/* Rank 0 to and from one peer; the others to and from 0. What is sent arrives whole and in order;
 * sending does not wait. Main thread. */
void star_send(int peer, const void *data, size_t bytes);
void star_receive(int peer, void *data, size_t bytes);
const char *star_host(int rank);     /* its host's name */

/* Main says that it got further: step in work, and the seconds that may pass before it gets further
 * again; 0: any. When on no rank anything happens for the longest of these times: EXIT_HANG. */
void star_progress(int64_t step, double seconds);
/* Tells the others that this rank ends with that code: for die_hook. Waits at most a second. */
void star_abort(int code);
/* Together: after it the end of a connection is no fault. */
void star_leave(void);

#endif
