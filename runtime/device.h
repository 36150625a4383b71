/* device.h -- where the model's arrays live and how the host reaches them: plain memory on the CPU
 * targets, a GPU's on the CUDA targets.
 *
 * Keeps: nothing outside step.c or step.cu follows a pointer into the arena but through the
 *        functions below; host memory for that does not grow with the model.
 *        What kernels write is there for the host once the host has waited for them. */
#ifndef DIECAST_DEVICE_H
#define DIECAST_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

/* Chooses this rank's device: that of its number on the host when so many are visible, the only
 * one when one is; EXIT_CONFIG else. EXIT_MISMATCH when it is not what target was compiled for.
 * After comm_init, before every function below. The CPU: before any thread that computes is made,
 * since it is told how to. */
void device_open(const char *target);
const char *device_name(void);               /* "NVIDIA H200"; "CPU" */
int device_visible(void);                    /* GPUs that this process sees; the CPU: 0 */
/* Bytes of device memory in use for this process since device_open, to compare with the plan. */
int64_t device_used(void);
typedef struct {
    char name[64];
    int64_t used, total;         /* bytes of its memory, by whomever */
    double busy;                 /* percent: the mean of what device_watch saw; negative: unknown */
} DeviceUse;
/* For the mean; asks at most once a second. Only the main thread calls. */
void device_watch(void);
/* What that saw last: busy is of that moment, total 0: not known. false: nothing is known of a GPU. */
bool device_seen(DeviceUse *u);
/* false: there is no GPU. */
bool device_use(DeviceUse *u);

struct CUstream_st;
/* A mark of time: when stream s has done what it was sent so far; NULL, and on the CPU: now. */
void device_mark(struct CUstream_st *s);
/* Waits for the marks since the last call: how many, and nanoseconds from the first of them to each. */
int device_marks(const int64_t **ns);

/* Memory that lives until exit; one line and EXIT_CONFIG when there is not so much. arena: in the
 * device, for the plan; a GPU's holds anything at first. pinned: in the host, zero, for copies. */
void *device_arena(int64_t bytes, const char *what);
void *device_pinned(int64_t bytes, const char *what);

/* Bytes of the largest piece that one call of the functions below moves. */
enum { ARRAY_PIECE = 4 << 20 };

/* Bytes of an arena, and where to find them: they themselves on the CPU, else a copy that lasts
 * until the next view of this thread. Any thread. */
const void *array_view(const void *from, int64_t bytes);
/* Where to make bytes that array_write then stores at `to`: there itself on the CPU, else memory
 * that lasts until the next room of this thread. */
void *array_room(void *to, int64_t bytes);
void array_write(void *to, const void *from, int64_t bytes);
/* The same for `rows` times `bytes`, *stride bytes from one to the next in the arena, and on return
 * in the view or room. array_write_rows: strides of both. */
const void *array_view_rows(const void *from, int64_t rows, int64_t bytes, int64_t *stride);
void *array_room_rows(void *to, int64_t rows, int64_t bytes, int64_t *stride);
void array_write_rows(void *to, int64_t to_stride, const void *from, int64_t from_stride,
                      int64_t rows, int64_t bytes);

/* Any number of bytes into host memory. */
void array_read(void *to, const void *from, int64_t bytes);
/* Any number of bytes of an arena, not written so far, are zero from here on. */
void array_zero(void *to, int64_t bytes);

#endif
