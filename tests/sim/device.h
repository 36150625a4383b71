/* device.h -- the seam in the simulator between device side (internal.h) and host side (host.h).
 *
 * Keeps: operations (kernels, copies, library calls) run one at a time, as the host enqueued them,
 *        under the host side's lock, on a thread that calls it or, after a collective that waited,
 *        on one of its own; what is checked is whether another order would have been possible.
 *        -DSIM_CHECKED looks at every access; without it sim_read, sim_write do nothing. */
#ifndef SIM_DEVICE_H
#define SIM_DEVICE_H

#include "include/cuda_runtime_api.h"
#include <stdint.h>

enum { SIM_EXIT = 97 };

/* May calls name the legacy stream, as by a stream of 0, cudaMemcpy and cudaMemset? False by default. */
extern bool sim_legacy_allowed;

/* One line on stderr, `simulator: WHERE: what`, and exit SIM_EXIT. WHERE: the kernel with its block
 * and thread, or the operation, as far as there is one. */
[[noreturn]] __attribute__((format(printf, 1, 2))) void sim_fail(const char *format, ...);

/* ---- memory (shadow.cpp) ---- */
enum SimMemory { SIM_DEVICE, SIM_PINNED };

/* 256-byte aligned, not written yet (the caller fills it), gaps around; NULL when the address space
 * is used up (256 GiB a kind). Zero bytes are served as one. */
void *sim_allocate(SimMemory kind, size_t bytes);

/* `p` as sim_allocate returned it; false when it is no such pointer. */
bool sim_release(void *p);

/* The allocation that holds address p; false: none. Any of the three may be NULL. */
bool sim_find(const void *p, SimMemory *kind, void **start, size_t *bytes);

/* ---- operations (shadow.cpp), told by the host side ----
 * `op`: a number of the host side's, greater than 0, in any order. Between begin and end all
 * accesses belong to it. Outside of any operation they belong to the host (sim_host_op). */
void sim_op_begin(uint32_t op, const char *name);
void sim_op_end(void);

/* The current operation reads or writes these bytes: must lie within one allocation of device or
 * pinned memory (any other address is ordinary host memory and not looked at), be written before
 * they are read, and be ordered with what other operations did there. */
void sim_read(const void *p, size_t bytes);
void sim_write(void *p, size_t bytes);
/* Bytes at the start of an allocation that are NaN. The checked library fills fewer, which costs a fault a page: it
 * reports reads of what nothing wrote. */
extern const size_t sim_filled;

/* Bytes that operation reads only as far as they were written, as cudaMemcpy does of padding:
 * copies the state with the bytes instead of refusing. Call instead of sim_read + sim_write. */
void sim_copy(void *to, const void *from, size_t bytes);

/* Counts the bytes that operations read and write from here on, each time, by accesses that begin in
 * these; any number of them. Not in the fast library. */
void sim_count(const void *p, size_t bytes);
/* Bytes counted since the last call; ends all counts. */
uint64_t sim_moved(void);

/* ---- kernels (fiber.cpp) ---- */
/* A kernel with its arguments: run(arguments) calls it. */
struct SimCall {
    void (*run)(const void *arguments);
    const void *arguments;
    size_t bytes;
};

/* Runs every thread of every block now, each with a copy of the arguments on its stack. The caller has
 * called sim_op_begin and has checked the limits of the launch. */
void sim_run_grid(dim3 grid, dim3 block, size_t dynamic_shared, const SimCall &call, const char *name);

/* "scale_kernel<64>" of the program's symbol table, or "kernel"; lives as long as the program. */
extern "C" const char *sim_kernel_name(const void *kernel);

/* ---- provided by the host side (host.cpp) ---- */
/* Runs the kernel as an operation of the stream or records it while the stream is captured, with a copy
 * of the arguments as they are now. `kernel` is for its name and the limits set by cudaFuncSetAttribute;
 * the configuration is checked (0 < sizes, 1024 threads, shared memory). */
extern "C" cudaError_t sim_enqueue_kernel(const cudaLaunchConfig_t *config, const void *kernel,
                                          void (*run)(const void *arguments),
                                          const void *arguments, size_t bytes);

/* Does operation `earlier` happen before operation `later`, whatever the timing? Both are numbers
 * given to sim_op_begin or returned by sim_host_op; `later` is the current one. */
bool sim_happens_before(uint32_t earlier, uint32_t later);

/* The number under which accesses of host code outside of any operation stand now: a new one after
 * each enqueued operation and each wait. */
uint32_t sim_host_op(void);

/* "kernel scale_kernel on stream 2": for messages. */
const char *sim_op_text(uint32_t op);

#endif
