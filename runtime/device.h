/* device.h -- device memory: host memory on CPU targets, GPU memory on CUDA targets.
 *
 * Keeps: outside step.c or step.cu, arenas are accessed through the functions below only; the host
 *        memory for this does not grow with the model. Results of kernels are visible to the host
 *        after it has waited for them. */
#ifndef DIECAST_DEVICE_H
#define DIECAST_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

/* Chooses this rank's device: the GPU with its local rank, or the only visible one; EXIT_CONFIG if
 * there are too few, EXIT_MISMATCH if it is not what target was compiled for. Call after
 * comm_init() and before all functions below; on the CPU also before any computing thread is
 * created, because threads inherit the floating-point mode. */
void device_open(const char *target);
const char *device_name(void);               /* "NVIDIA H200"; "CPU" */
int device_visible(void);                    /* GPUs visible to this process; CPU: 0 */
/* Returns the bytes of device memory that this process has used since device_open(), to compare
 * with the plan. */
int64_t device_used(void);
typedef struct {
    char name[64];
    int64_t used, total;         /* bytes of its memory in use by all processes, and in total */
    double busy;                 /* percent, mean of the samples of device_watch(); negative:
                                    unknown */
} DeviceUse;
/* Samples the GPU for that mean, at most once a second. Main thread only. */
void device_watch(void);
/* Returns the last sample: busy is that of the moment; total 0: unknown. false: no sample of a
 * GPU. */
bool device_seen(DeviceUse *u);
/* Returns false without a GPU. */
bool device_use(DeviceUse *u);

struct CUstream_st;
/* Records a time mark: when stream s has finished the work sent so far; NULL, and on the CPU:
 * now. */
void device_mark(struct CUstream_st *s);
/* Waits for the marks since the last call. Returns their number, and nanoseconds from the first to
 * each. */
int device_marks(const int64_t **ns);

/* Return memory that lives until exit; EXIT_CONFIG if it is short. arena: on the device, for the
 * plan; uninitialised on a GPU. pinned: on the host, zeroed, for copies; kernels can read it, and
 * the functions below, too. Main thread only. */
void *device_arena(int64_t bytes, const char *what);
void *device_pinned(int64_t bytes, const char *what);

/* Maximum number of bytes per call of the functions below. */
enum { ARRAY_PIECE = 4 << 20 };

/* Returns bytes of an arena for reading: in place on the CPU and of pinned memory, otherwise a copy
 * that is valid until this thread's next view. Any thread. */
const void *array_view(const void *from, int64_t bytes);
/* Returns memory to fill with bytes that array_write() then stores at `to`: `to` itself on the CPU,
 * otherwise a buffer that is valid until this thread's next room. */
void *array_room(void *to, int64_t bytes);
void array_write(void *to, const void *from, int64_t bytes);
/* The same for `rows` rows of `bytes` bytes, *stride bytes apart in the arena, and on return in the
 * view or room. array_write_rows(): strides of both. */
const void *array_view_rows(const void *from, int64_t rows, int64_t bytes, int64_t *stride);
void *array_room_rows(void *to, int64_t rows, int64_t bytes, int64_t *stride);
void array_write_rows(void *to, int64_t to_stride, const void *from, int64_t from_stride,
                      int64_t rows, int64_t bytes);

/* Copies any number of bytes to host memory. */
void array_read(void *to, const void *from, int64_t bytes);
/* Zeroes any number of bytes of an arena that were not written before. */
void array_zero(void *to, int64_t bytes);

#endif
