/* nccl_shared.h -- ranks of one machine in shared memory: meeting, liveness, exchange of data.
 *
 * Keeps: a transport of our own, not MPI: ranks are started by run.sh, torchrun or a test, and meet
 *        through the unique id alone, which names an anonymous file of the process that made it.
 *        Sums are the tree ((0 + 1) + (2 + 3)) + ... over ranks, in fp32 for types narrower. Of
 *        ALL_TO_ALL, a group of ncclSend and ncclRecv, send and recv are a pointer for each rank. */
#ifndef SIM_NCCL_SHARED_H
#define SIM_NCCL_SHARED_H

#include "include/nccl.h"

#include <memory>
#include <stdint.h>

enum SharedKind { ALL_REDUCE, REDUCE, BROADCAST, REDUCE_SCATTER, ALL_GATHER, ALL_TO_ALL };

/* Arguments that must be equal on all ranks; count: elements as the caller gave them. */
struct SharedCall {
    uint32_t kind, type, op;
    int32_t root;
    uint64_t count;
};

/* How far a collective has come. */
struct SharedExchange {
    bool begun, posted;
    uint64_t done;           /* elements */
};

struct Shared;

bool shared_create(ncclUniqueId *id);
/* NULL: *why says it. */
std::shared_ptr<Shared> shared_join(const ncclUniqueId &id, int ranks, int rank, int device,
                                    const char **why);
bool shared_complete(Shared *s);         /* all ranks have joined */
bool shared_same_device(Shared *s);
int shared_lost(Shared *s);              /* a rank that ended without leaving, or -1 */
/* False: as if it had died; what waits for others ends at once. */
void shared_leave(Shared *s, bool in_peace);

const char *shared_kind_name(uint32_t kind);
bool shared_valid(const Shared *s, const SharedCall &call);
bool shared_sends(const Shared *s, const SharedCall &call);
bool shared_receives(const Shared *s, const SharedCall &call);
size_t shared_send_bytes(const Shared *s, const SharedCall &call);
size_t shared_recv_bytes(const Shared *s, const SharedCall &call);
/* As far as the other ranks allow; true: done. */
bool shared_step(Shared *s, SharedExchange *x, const SharedCall &call, const void *send,
                 void *recv);

void shared_split_say(Shared *s, int color, int key, const ncclUniqueId &id);
bool shared_split_all_said(Shared *s);
/* The group of the own color, ordered by key then rank: its id, the own place, its size. */
void shared_split_find(Shared *s, ncclUniqueId *id, int *rank, int *ranks);
bool shared_split_all_heard(Shared *s);

#endif
