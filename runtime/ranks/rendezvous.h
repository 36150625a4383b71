/* rendezvous.h -- TCP rendezvous: joining, monitoring, small messages.
 *
 * Rank 0 accepts a connection from every other rank and keeps it until the end of the run. It
 * informs all ranks when one dies, hangs or gives up.
 * In:    an address, a secret. Out: connections; or one line and an exit code.
 * Keeps: a process without the secret cannot join, end or noticeably delay a run; no encryption.
 * Method: the monitor, a thread of its own, reads every connection, sends one heartbeat per second
 *         and ends the process with EXIT_PEER, EXIT_HANG, or the code with which another rank
 *         ended. */
#ifndef DIECAST_RENDEZVOUS_H
#define DIECAST_RENDEZVOUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RENDEZVOUS_ID = 128,           /* bytes that rank 0 distributes: NCCL's unique id */
    RENDEZVOUS_SECRET = 256,       /* maximum length of a secret in bytes */
    RENDEZVOUS_RANDOM = 64,        /* characters of a random secret */
    RENDEZVOUS_RANKS = 4096
};

typedef struct {
    int rank, size, restart;
    bool one_host; /* all ranks are on one host, as far as is known; else loopback addresses are
                                refused */
    const char *host;        /* address rank 0 listens on: name or number */
    int port;
    const char *secret;      /* NULL: read from secret_file, which rank 0 creates; "": none */
    const char *secret_file; /* or NULL */
    uint8_t run_id[32];      /* SHA-256 of the launcher's name for this run */
    uint8_t build[32];       /* SHA-256 of the program */
    const char
        *wrong; /* NULL, or why this rank cannot join any job: it tells the others and ends with
                                EXIT_MISMATCH */
    double join_seconds;     /* join timeout: EXIT_RENDEZVOUS */
    double silence_seconds;  /* heartbeat timeout: EXIT_HANG */
} RendezvousConfig;

/* Generates a random secret. */
void rendezvous_random(char secret[RENDEZVOUS_RANDOM + 1]);
/* Rank 0, if the others must learn the address before anybody joins: listens on c->host and c->port
 * (0: any free port) and sets both to the actual values, the host as a number. */
void rendezvous_listen(RendezvousConfig *c);
/* Returns when all ranks have joined; distributes id from rank 0 to the others and starts the
 * monitor. Ends the process with EXIT_PORT, EXIT_RENDEZVOUS, EXIT_MISMATCH or EXIT_CONFIG. Main
 * thread. */
void rendezvous_join(const RendezvousConfig *c, uint8_t id[RENDEZVOUS_ID]);

/* Messages between rank 0 and one peer (for other ranks, peer is 0). They arrive complete and in
 * order; sending does not block. Main thread. */
void rendezvous_send(int peer, const void *data, size_t bytes);
void rendezvous_receive(int peer, void *data, size_t bytes);
const char *rendezvous_host(int rank);     /* host name of that rank */

/* Reports the main thread's progress: the current step, and the seconds allowed until the next
 * report; 0: unlimited. EXIT_HANG if no rank makes progress for the longest of these times. */
void rendezvous_progress(int64_t step, double seconds);
/* Tells the other ranks that this one ends with that code, from die_hook. Blocks for at most a
 * second. */
void rendezvous_abort(int code);
/* Collective: from here on a closed connection is not an error. */
void rendezvous_leave(void);

#endif
