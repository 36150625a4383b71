/* d_checks.cpp -- what the checked simulator must report, with the line it says, and what not.
 *
 * The kernels are wrong on purpose: each FAILS is a mistake that a GPU may pass over in silence. */
#include "d.h"

/* The rest of the sentence is up to the program: where in the source. */
#define AT(kernel, block, thread, what)                                                     \
    "simulator: " #kernel " block (" #block ",0,0) thread (" #thread ",0,0): " what

/* ---- bounds, and memory that nothing wrote ---- */

static __global__ void get(float *to, const float *from, int first)
{
    to[threadIdx.x] = from[first + (int)threadIdx.x];
}

FAILS(read_behind, AT(get, 0, 8,
          "reads 4 bytes at byte 64 of an allocation of 64 bytes of global memory [d_checks.cpp:"))
{
    launch(1, 32, get, fresh<float>(32), counted<float>(16), 8);
}

FAILS(read_before, AT(get, 0, 0, "reads 4 bytes at"))
{
    launch(1, 32, get, fresh<float>(32), counted<float>(16), -8);
}

FAILS(write_behind, AT(get, 0, 16,
          "writes 4 bytes at byte 64 of an allocation of 64 bytes of global memory"))
{
    launch(1, 32, get, fresh<float>(16), counted<float>(32), 0);
}

FAILS(use_after_free, AT(get, 0, 0, "reads 4 bytes at"))
{
    float *from = counted<float>(32), *to = fresh<float>(32);
    OK(cudaFree(from));
    launch(1, 32, get, to, (const float *)from, 0);
}

FAILS(read_unwritten, AT(get, 0, 0, "reads 4 bytes of global memory that nothing wrote"))
{
    launch(1, 32, get, fresh<float>(32), fresh<float>(32), 0);
}

FAILS(unwritten_after_free, AT(get, 0, 0, "reads 4 bytes of global memory that nothing"))
{
    OK(cudaFree(counted<float>(32)));
    float *from = fresh<float>(32);
    launch(1, 32, get, fresh<float>(32), (const float *)from, 0);
}

FAILS(copy_of_unwritten, AT(get, 0, 8, "reads 4 bytes of global memory that nothing wrote"))
{
    float *from = fresh<float>(32), *to = fresh<float>(32);
    OK(cudaMemset(from, 0, 32));
    OK(cudaMemcpy(to, from, 128, cudaMemcpyDeviceToDevice));
    launch(1, 32, get, fresh<float>(32), (const float *)to, 0);
}

FAILS(read_host, AT(get, 0, 0, "reads 4 bytes at"))
{
    static float host[32];
    launch(1, 32, get, fresh<float>(32), (const float *)host, 0);
}

FAILS(host_reads_device, "simulator: host code reads device memory")
{
    float *p = counted<float>(4);
    CHECK(p[0] == 0);
}

static __global__ void shared_unwritten(float *to)
{
    __shared__ float tile[64];
    tile[threadIdx.x] = 1;
    __syncthreads();
    to[threadIdx.x] = tile[threadIdx.x + 1];
}

FAILS(shared_not_written, AT(shared_unwritten, 0, 31,
          "reads 4 bytes of shared memory that nothing wrote [d_checks.cpp:"))
{
    launch(1, 32, shared_unwritten, fresh<float>(32));
}

static __global__ void shared_of_block_before(int *to)
{
    __shared__ int flag;
    if (blockIdx.x == 0)
        flag = 1;
    to[blockIdx.x] = flag;
}

FAILS(shared_of_another_block, AT(shared_of_block_before, 1, 0,
          "reads 4 bytes of shared memory that nothing wrote"))
{
    launch(2, 1, shared_of_block_before, fresh<int>(2));
}

static __global__ void dynamic_fill(int n)
{
    float *tile = (float *)sim_dynamic_shared();
    for (int i = (int)threadIdx.x; i < n; i += (int)blockDim.x)
        tile[i] = 0;
}

FAILS(dynamic_bounds, AT(dynamic_fill, 0, 4,
          "writes 4 bytes at byte 400 of 400 bytes of dynamic shared memory"))
{
    launch_shared(400, 1, 32, dynamic_fill, 101);
}

CASE(dynamic_within)
{
    launch_shared(400, 1, 32, dynamic_fill, 100);
}

static __global__ void array_index(int *to, int n)
{
    __shared__ int tile[8];
    tile[threadIdx.x] = 1;
    to[threadIdx.x] = tile[(int)threadIdx.x - n];
}

FAILS(array_bounds, AT(array_index, 0, 8, "index 8 of an array 'int [8]' (d_checks.cpp:"))
{
    launch(1, 9, array_index, fresh<int>(9), 0);
}

static __global__ void wide_load(float4 *to, const float *from)
{
    to[threadIdx.x] = *(const float4 *)(from + threadIdx.x);
}

FAILS(misaligned, AT(wide_load, 0, 1, "address "))
{
    launch(1, 2, wide_load, fresh<float4>(2), counted<float>(8));
}

static __global__ void local_of_another(int *to)
{
    __shared__ int *place;
    int mine = 7;
    if (threadIdx.x == 0)
        place = &mine;
    __syncthreads();
    to[threadIdx.x] = *place;
}

FAILS(another_local, AT(local_of_another, 0, 1, "reads a local variable of another thread"))
{
    launch(1, 2, local_of_another, fresh<int>(2));
}

__constant__ int table[4] = {1, 2, 3, 4};

static __global__ void constant_change(int *to)
{
    table[threadIdx.x] = to[threadIdx.x];
}

FAILS(constant_written, AT(constant_change, 0, 0, "writes constant memory"))
{
    launch(1, 1, constant_change, counted<int>(1));
}

/* ---- races of a block ---- */

static __global__ void last_reads_first(float *to)
{
    __shared__ float tile[64];
    tile[threadIdx.x] = 0;
    if (threadIdx.x == 63)
        to[0] = tile[0];
}

FAILS(read_too_early, AT(last_reads_first, 0, 63,
          "reads shared memory that thread (0,0,0) wrote, with no barrier between [d_checks.cpp:"))
{
    launch(1, 64, last_reads_first, fresh<float>(1));
}

static __global__ void shift(float *to, int both)
{
    __shared__ float tile[64];
    tile[threadIdx.x] = (float)threadIdx.x;
    __syncthreads();
    float next = tile[(threadIdx.x + 1) % blockDim.x];
    if (both)
        __syncthreads();
    tile[threadIdx.x] = next;
    to[blockIdx.x * blockDim.x + threadIdx.x] = tile[threadIdx.x];
}

FAILS(write_too_early, AT(shift, 0, 0,
          "writes shared memory that thread (63,0,0) read, with no barrier between"))
{
    launch(1, 64, shift, fresh<float>(64), 0);
}

CASE(shift_with_barriers)
{
    launch(3, 64, shift, fresh<float>(64 * 3), 1);
}

static __global__ void read_by_many(float *to, int again)
{
    __shared__ float one;
    if (threadIdx.x == 0)
        one = 1;
    __syncthreads();
    float value = one;
    if (again)
        __syncthreads();
    if (threadIdx.x == 32)
        one = 2;
    to[threadIdx.x] = value;
}

FAILS(write_of_what_many_read, AT(read_by_many, 0, 32,
          "writes shared memory that several threads read, with no"))
{
    launch(1, 64, read_by_many, fresh<float>(64), 0);
}

CASE(many_read_then_barrier)
{
    launch(1, 64, read_by_many, fresh<float>(64), 1);
}

static __global__ void all_write_one(float *to)
{
    to[0] = 1;
}

FAILS(two_threads_write, AT(all_write_one, 0, 1,
          "writes global memory that thread (0,0,0) wrote, with no barrier"))
{
    launch(1, 2, all_write_one, fresh<float>(1));
}

static __global__ void neighbours(unsigned char *bytes, __nv_bfloat16 *halves)
{
    bytes[threadIdx.x] = (unsigned char)threadIdx.x;
    halves[threadIdx.x] = __float2bfloat16(1.0f);
    if (threadIdx.x == 0)
        bytes[64] = bytes[0];
}

CASE(neighbours_of_a_word)
{
    unsigned char *bytes = fresh<unsigned char>(65);
    launch(1, 64, neighbours, bytes, fresh<__nv_bfloat16>(64));
    CHECK(back(bytes, 65)[63] == 63);
}

static __global__ void half_of_a_word(unsigned short *to, unsigned *words)
{
    if (threadIdx.x == 0)
        to[1] = 5;
    else
        words[0] = 1;
}

FAILS(word_over_half, AT(half_of_a_word, 0, 1,
          "writes global memory that thread (0,0,0) wrote, with no barrier"))
{
    unsigned short *p = fresh<unsigned short>(2);
    launch(1, 2, half_of_a_word, p, (unsigned *)p);
}

/* ---- what orders the lanes of a warp ---- */

enum { NOTHING, SYNCWARP, HALVES, SHUFFLE };

static __global__ void warp_exchange(float *to, int order)
{
    __shared__ float tile[64];
    const unsigned t = threadIdx.x;
    for (int round = 0; round < 3; round++) {
        tile[t] = (float)t;
        if (order == SYNCWARP)
            __syncwarp();
        if (order == HALVES)
            __syncwarp(t % 32 < 16 ? 0xffff : 0xffff0000);
        if (order == SHUFFLE)
            to[t] = __shfl_sync(0xffffffff, tile[t], 0);
        to[t] = tile[t ^ 1];
        if (order == SYNCWARP)
            __syncwarp();
        if (order == HALVES)
            __syncwarp(t % 32 < 16 ? 0xffff : 0xffff0000);
    }
}

CASE(syncwarp_orders_lanes)
{
    launch(1, 64, warp_exchange, fresh<float>(64), (int)SYNCWARP);
}

CASE(syncwarp_of_halves)
{
    launch(1, 64, warp_exchange, fresh<float>(64), (int)HALVES);
}

/* Lanes read each other's elements; after a barrier each reads and writes its own. */
static __global__ void warp_update(float *x, bool barrier)
{
    const unsigned t = threadIdx.x;
    float sum = x[t] + x[t ^ 1] + x[t ^ 2];
    if (barrier)
        __syncwarp();
    x[t] += sum;
}

static float *numbers()
{
    float *x = fresh<float>(64);
    CHECK(!cudaMemset(x, 0, 64 * sizeof *x));
    return x;
}

CASE(syncwarp_ends_reads_of_several_lanes) { launch(1, 64, warp_update, numbers(), true); }

FAILS(several_lanes_still_read, AT(warp_update, 0, 1,
          "reads global memory that thread (0,0,0) wrote, with no barrier"))
{
    launch(1, 64, warp_update, numbers(), false);
}

FAILS(shuffle_orders_no_memory, AT(warp_exchange, 0, 31,
          "reads shared memory that thread (30,0,0) wrote, with no barrier"))
{
    launch(1, 64, warp_exchange, fresh<float>(64), (int)SHUFFLE);
}

static __global__ void across(float *to, unsigned step, unsigned mask)
{
    __shared__ float tile[64];
    tile[threadIdx.x] = 1;
    if (mask >> threadIdx.x % 32 & 1)
        __syncwarp(mask);
    if (threadIdx.x >= step)
        to[threadIdx.x] = tile[threadIdx.x - step];
}

FAILS(syncwarp_is_of_one_warp, AT(across, 0, 63,
          "reads shared memory that thread (31,0,0) wrote, with no barrier"))
{
    launch(1, 64, across, fresh<float>(64), 32u, 0xffffffffu);
}

FAILS(syncwarp_is_of_its_mask, AT(across, 0, 31,
          "reads shared memory that thread (15,0,0) wrote, with no barrier"))
{
    launch(1, 32, across, fresh<float>(64), 16u, 0xffff0000u);
}

/* ---- blocks of a grid ---- */

static __global__ void block_writes(float *to, int stride)
{
    to[(int)blockIdx.x * stride] = 1;
}

FAILS(two_blocks_write, AT(block_writes, 1, 0,
          "writes global memory that block (0,0,0) of this grid wrote"))
{
    launch(3, 1, block_writes, fresh<float>(3), 0);
}

CASE(blocks_write_apart)
{
    launch(3, 1, block_writes, fresh<float>(3), 1);
}

static __global__ void reads_neighbour(float *data)
{
    data[blockIdx.x] = blockIdx.x == 0 ? 1.0f : data[blockIdx.x - 1] + 1;
}

FAILS(block_reads_other, AT(reads_neighbour, 1, 0,
          "reads global memory that block (0,0,0) of this grid wrote"))
{
    launch(2, 1, reads_neighbour, fresh<float>(2));
}

static __global__ void overwrites_neighbour(float *data)
{
    data[gridDim.x + blockIdx.x] = data[0];
    if (blockIdx.x == 1)
        data[0] = 2;
}

FAILS(block_overwrites_read, AT(overwrites_neighbour, 1, 0,
          "writes global memory that block (0,0,0) of this grid read"))
{
    launch(2, 1, overwrites_neighbour, counted<float>(4));
}

static __global__ void __launch_bounds__(32) last_block_sums(int *sum, int *parts, unsigned *ticket,
                                                            int fence)
{
    __shared__ bool last;
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = (int)blockIdx.x;
        if (fence)
            __threadfence();
        last = atomicInc(ticket, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (last && threadIdx.x == 1) {
        int all = 0;
        for (unsigned i = 0; i < gridDim.x; i++)
            all += parts[i];
        *sum = all;
    }
}

CASE(last_block)
{
    int *sum = fresh<int>(1);
    launch(5, 32, last_block_sums, sum, fresh<int>(5), filled<unsigned>(1, 0), 1);
    CHECK(back(sum, 1)[0] == 10);
}

FAILS(last_block_without_fence, AT(last_block_sums, 4, 1,
          "reads global memory that block (0,0,0) of this grid wrote"))
{
    launch(5, 32, last_block_sums, fresh<int>(1), fresh<int>(5), filled<unsigned>(1, 0), 0);
}

/* ---- atomics ---- */

static __global__ void mixed_change(int *to)
{
    if (threadIdx.x == 0)
        to[0] = 0;
    else
        atomicAdd(to, 1);
}

FAILS(atomic_over_plain, AT(mixed_change, 0, 1,
          "changes (atomic) global memory that thread (0,0,0) wrote, with no barrier between "
          "[d_checks.cpp:"))
{
    launch(1, 2, mixed_change, fresh<int>(1));
}

static __global__ void count(int *counts, int *first, int plain)
{
    atomicAdd(&counts[threadIdx.x % 4], 1);
    if (plain && threadIdx.x == 63)
        first[threadIdx.x] = counts[threadIdx.x % 4];
}

CASE(atomics)
{
    int *counts = filled(4, 0);
    launch(8, 64, count, counts, counts, 0);
    CHECK(back(counts, 4)[3] == 8 * 16);
}

FAILS(plain_read_of_atomic, AT(count, 0, 63,
          "reads global memory that several threads changed by atomics, with no"))
{
    launch(1, 64, count, filled(4, 0), fresh<int>(64), 1);
}

static __global__ void ticket(int *count, int *seen)
{
    atomicAdd(count, 1);
    __syncthreads();
    if (blockIdx.x == 1)
        *seen = *count;
}

FAILS(plain_read_of_blocks_atomics,
      AT(ticket, 1, 0, "reads global memory that several blocks changed by atomics"))
{
    launch(2, 1, ticket, filled(1, 0), fresh<int>(1));
}

static __global__ void float_sum(float *sum)
{
    atomicAdd(sum, 1.0f);
}

FAILS(atomic_of_floats, AT(float_sum, 0, 0, "atomicAdd of float: the order of the sum"))
{
    launch(1, 32, float_sum, filled(1, 0.0f));
}

/* ---- barriers ---- */

static __global__ void some_leave(int stay)
{
    if ((int)threadIdx.x >= stay)
        return;
    __syncthreads();
}

FAILS(barrier_not_reached, AT(some_leave, 0, 40, "ends while 40 threads wait at __syncthreads"))
{
    launch(1, 64, some_leave, 40);
}

static __global__ void first_leaves()
{
    if (threadIdx.x > 0)
        __syncthreads();
}

FAILS(barrier_after_an_end, AT(first_leaves, 0, 1,
          "waits at __syncthreads, which 1 threads that ended will never reach"))
{
    launch(1, 64, first_leaves);
}

static __global__ void two_kinds()
{
    if (threadIdx.x < 32)
        __syncthreads();
    else
        __syncthreads_or(1);
}

FAILS(barriers_of_two_kinds, AT(two_kinds, 0, 32,
          "is at __syncthreads_or, other threads at __syncthreads"))
{
    launch(1, 64, two_kinds);
}

/* ---- collectives of a warp ---- */

static __global__ void lane_0_waits_elsewhere(int *to)
{
    if (threadIdx.x == 0)
        __syncthreads();
    to[threadIdx.x] = __shfl_sync(0xffffffff, 1, 0);
    if (threadIdx.x > 0)
        __syncthreads();
}

FAILS(collective_not_reached, AT(lane_0_waits_elsewhere, 0, 1,
          "__shfl_sync with mask 0xffffffff waits for lane 0, thread (0,0,0), which waits at "
          "__syncthreads"))
{
    launch(1, 32, lane_0_waits_elsewhere, fresh<int>(32));
}

static __global__ void without_me(int *to)
{
    to[threadIdx.x] = __shfl_sync(0xfffffffe, 1, 1);
}

FAILS(mask_lacks_caller, AT(without_me, 0, 0,
          "__shfl_sync with mask 0xfffffffe, which lacks the calling lane 0"))
{
    launch(1, 32, without_me, fresh<int>(32));
}

static __global__ void two_operations(int *to)
{
    to[threadIdx.x] = threadIdx.x % 2 ? __any_sync(0xffffffff, 1) : __shfl_sync(0xffffffff, 1, 0);
}

FAILS(collectives_of_two_kinds, AT(two_operations, 0, 1,
          "is at __any_sync of 1 bytes, thread (0,0,0) at __shfl_sync of 4, with the same mask "
          "0xffffffff"))
{
    launch(1, 32, two_operations, fresh<int>(32));
}

static __global__ void outside_mask(int *to)
{
    if (threadIdx.x < 16)
        to[threadIdx.x] = __shfl_sync(0xffff, 1, 20);
}

FAILS(lane_outside_mask, AT(outside_mask, 0, 15,
          "__shfl_sync reads lane 20, which takes no part: mask 0xffff, there 0xffff"))
{
    launch(1, 32, outside_mask, fresh<int>(32));
}

static __global__ void no_such_lane(int *to)
{
    to[threadIdx.x] = __shfl_xor_sync(0xffffffff, 1, 24);
}

FAILS(lane_not_there, AT(no_such_lane, 0, 0, "__shfl_xor_sync reads lane 24, which takes no part"))
{
    launch(1, 20, no_such_lane, fresh<int>(32));
}

/* ---- copies under way ---- */

enum { TOO_SOON, NO_BARRIER, REFILLED, RIGHT };

static __global__ void copies(float *to, const float *from, int how)
{
    float *tile = (float *)sim_dynamic_shared();
    const unsigned t = threadIdx.x;
    sim_async_copy(tile + 4 * t, from + 4 * t, 16, t == 0 ? 8 : 16);
    sim_async_commit();
    if (how != TOO_SOON)
        sim_async_wait(0);
    if (how != NO_BARRIER)
        __syncthreads();
    to[t] = tile[how == NO_BARRIER ? 0 : 4 * t];
    if (how == REFILLED && t == 30)
        sim_async_copy(tile + 4 * (t + 1), from, 16, 16);
}

FAILS(copy_read_too_soon, AT(copies, 0, 31,
          "reads shared memory that a copy under way (cp.async) has yet to fill"))
{
    launch_shared(512, 1, 32, copies, fresh<float>(32), counted<float>(128), (int)TOO_SOON);
}

FAILS(copy_read_without_barrier, AT(copies, 0, 1,
          "reads shared memory that thread (0,0,0) wrote, with no barrier"))
{
    launch_shared(512, 1, 32, copies, fresh<float>(32), counted<float>(128), (int)NO_BARRIER);
}

FAILS(copy_over_what_is_read, AT(copies, 0, 30,
          "begins to fill shared memory that thread (31,0,0) read, with no"))
{
    launch_shared(512, 1, 32, copies, fresh<float>(32), counted<float>(128), (int)REFILLED);
}

static __global__ void copy_to(const float *from, int at)
{
    sim_async_copy((float *)sim_dynamic_shared() + at, from, 16, 16);
    sim_async_wait_all();
}

static __global__ void store_global(void)
{
    __stwb((float *)sim_dynamic_shared(), 1.0f);
}

FAILS(store_of_global_memory_to_shared, AT(store_global, 0, 0, "an instruction for global memory has another address"))
{
    launch_shared(512, 1, 1, store_global);
}

FAILS(copy_behind_shared, AT(copy_to, 0, 0, "cp.async to byte 512 of 512 of dynamic shared memory"))
{
    launch_shared(512, 1, 1, copy_to, counted<float>(4), 128);
}

FAILS(copy_misaligned, AT(copy_to, 0, 0, "cp.async of 16 bytes from "))
{
    launch_shared(512, 1, 1, copy_to, counted<float>(4), 1);
}

FAILS(copy_from_behind, AT(copy_to, 0, 0, "reads 16 bytes at byte 16 of an allocation of 16 bytes"))
{
    launch_shared(512, 1, 1, copy_to, counted<float>(4) + 4, 0);
}

CASE(copy_waited_for)
{
    float *to = fresh<float>(32);
    launch_shared(512, 1, 32, copies, to, counted<float>(128), (int)RIGHT);
    CHECK(back(to, 32)[31] == 124);
}

/* ---- faults ---- */

static __global__ void divide(int *to, int by)
{
    to[0] /= by;
}

FAILS(division_by_zero, AT(divide, 0, 0, "divides an integer by zero"))
{
    launch(1, 1, divide, counted<int>(1), 0);
}

static __device__ int __noinline__ deep(volatile int *to, int n)
{
    volatile int large[1024];
    large[n % 1024] = n;
    to[0] = n;
    return n > 100 ? 0 : deep(to, n + 1) + large[n % 1024];
}

static __global__ void recurse(int *to)
{
    to[0] = deep(to, 0);
}

FAILS(stack_used_up, AT(recurse, 0, 0, "touches address"))
{
    launch(1, 1, recurse, fresh<int>(1));
}

int main()
{
    return h_main("checks");
}
