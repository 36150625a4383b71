/* host.h -- inside the host side of the simulator: the order of operations, who may enqueue one.
 *
 * Keeps: operations run in one of the orders that events allow (order.cpp). Whether another one
 *        would have been possible is a matter of clocks: a lane is a sequence (host, stream, branch
 *        of a graph); clock[lane]: how much of it is surely over. */
#ifndef SIM_HOST_H
#define SIM_HOST_H

#include "device.h"

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

using Clock = std::vector<uint32_t>;
/* True: finished. False: call again later, with nothing done that counts as host code. */
using Work = std::function<bool()>;

enum { LANE_HOST = 0 };

extern std::recursive_mutex sim_mutex;   /* around everything below */
using SimLock = std::lock_guard<std::recursive_mutex>;

/* ---- order.cpp ---- */
void clock_join(Clock *clock, const Clock &other);
unsigned order_lane();                   /* a new lane */
/* `clock`: what happens before the operation in addition to what the host knows to be over; on return
 * with the operation itself. `keep` lives until it has run. `stream`: number of the stream, for
 * messages. */
void order_enqueue(unsigned lane, unsigned stream, const char *name, Clock *clock, Work work,
                   bool collective, std::shared_ptr<const void> keep = nullptr);
/* Runs `work`, which accesses nothing, when what `clock` covers is over. */
void order_mark(const Clock &clock, std::function<void()> work);
Clock order_all();                       /* covers all operations enqueued so far */
void order_progress();
void order_rest();         /* of one that has asked in vain: ranks share the processors of this host */
/* From now on a thread of its own makes progress too, so that other ranks need not wait until this
 * host calls again. */
void order_keep_going();
/* Is what `clock` covers over, after making progress? Late collectives among it run from now on. */
bool order_done(const Clock &clock);
/* Without the lock held: until that is so. */
void order_wait(const Clock &clock);
/* From now on the host knows that what `clock` covers is over. */
void order_join_host(const Clock &clock);

/* ---- stream.cpp ----
 * A call that names the legacy stream ends the process: non-blocking streams, which programs use, do
 * not wait for it, so its work races theirs. Only the simulator's own tests may (device.h). */
/* Runs `work` as an operation of the stream, or records it while the stream is captured.
 * `name` lives as long as the program. */
cudaError_t stream_enqueue(cudaStream_t stream, const char *name, Work work,
                           bool collective = false);
/* For calls that are illegal while a stream is captured: invalidates what forbids them. */
cudaError_t stream_refuse_capture();
/* All streams are over, as the host knows after a wait for the device. No lock held. */
void stream_wait_all();
bool stream_capturing(cudaStream_t stream);
void stream_wait_host(cudaStream_t stream);   /* the host waits for the stream; no lock held */
/* The error that the calling thread's cudaGetLastError gives. */
cudaError_t sim_answer(cudaError_t error);

/* ---- memory.cpp ---- */
/* Of device `device` on this host, whatever CUDA_VISIBLE_DEVICES shows to the process. */
int device_physical(int device);
int device_current();
/* May the kernel start like this? */
cudaError_t device_check_launch(const cudaLaunchConfig_t *config, const void *kernel);

#endif
