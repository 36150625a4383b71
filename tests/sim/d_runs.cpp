/* d_runs.cpp -- CUDA C++ as the guide describes it, on fibers: correct kernels, their results. */
#include "d.h"

#include "../../kernels/cuda/ptx.cuh"

/* ---- indices, arguments ---- */

struct Large {
    int values[100];
};

static __global__ void place(int *to, Large large)
{
    int block = (int)(blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z));
    int thread = (int)(threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z));
    int threads = (int)(blockDim.x * blockDim.y * blockDim.z);
    to[block * threads + thread] = block * threads + thread + large.values[99];
}

CASE(indices)
{
    Large large = {};
    large.values[99] = 5;
    int *to = fresh<int>(2 * 3 * 4 * 5 * 6 * 7);
    launch(dim3(2, 3, 4), dim3(5, 6, 7), place, to, large);
    large.values[99] = 0;
    std::vector<int> got = back(to, 2 * 3 * 4 * 5 * 6 * 7);
    for (size_t i = 0; i < got.size(); i++)
        CHECK(got[i] == (int)i + 5);
}

/* ---- barriers ---- */

template <int N> static __global__ void __launch_bounds__(N) block_sums(int *to, const int *from)
{
    __shared__ int tile[N];
    const unsigned t = threadIdx.x;
    tile[t] = from[blockIdx.x * N + t];
    for (unsigned half = N / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half)
            tile[t] += tile[t + half];
    }
    if (t == 0)
        to[blockIdx.x] = tile[0];
}

CASE(block_reduction)
{
    int *sums = fresh<int>(3);
    launch(3, 1024, block_sums<1024>, sums, counted<int>(3072));
    std::vector<int> got = back(sums, 3);
    for (int b = 0; b < 3; b++)
        CHECK(got[(size_t)b] == b * 1024 * 1024 + 1023 * 512);
}

static __global__ void votes(int *to)
{
    const int t = (int)threadIdx.x;
    int any = __syncthreads_or(t == 77), none = __syncthreads_or(t < 0);
    int all = __syncthreads_and(t >= 0), some = __syncthreads_and(t != 3);
    int count = __syncthreads_count(t % 3 == 0);
    to[t] = any + 10 * none + 100 * all + 1000 * some + 10000 * count;
}

CASE(barriers_that_vote)
{
    int *to = fresh<int>(100);
    launch(1, 100, votes, to);
    for (int value : back(to, 100))
        CHECK(value == 1 + 100 + 10000 * 34);
}

template <typename T> static __global__ void transpose(T *to, const T *from, int n)
{
    T *tile = (T *)sim_dynamic_shared();        /* (32, 33) */
    const int x = (int)threadIdx.x, y = (int)threadIdx.y, column = (int)blockIdx.x * 32;
    const int row = (int)blockIdx.y * 32;
    for (int i = y; i < 32; i += 8)
        tile[i * 33 + x] = from[(row + i) * n + column + x];
    __syncthreads();
    for (int i = y; i < 32; i += 8)
        to[(column + i) * n + row + x] = tile[x * 33 + i];
}

template <typename T> static void check_transpose()
{
    enum { N = 96 };
    T *to = fresh<T>(N * N);
    T *from = counted<T>(N * N);
    launch_shared(32 * 33 * sizeof(T), dim3(N / 32, N / 32), dim3(32, 8), transpose<T>, to, from,
                  (int)N);
    std::vector<T> a = back(from, N * N), b = back(to, N * N);
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < N; j++)
            CHECK(memcmp(&a[i * N + j], &b[j * N + i], sizeof(T)) == 0);
}

CASE(transposes)
{
    check_transpose<float>();
    check_transpose<double>();
    check_transpose<__half>();
    check_transpose<__nv_bfloat16>();
    check_transpose<unsigned char>();
}

/* ---- warps ---- */

static __global__ void shuffles(int *to)
{
    const int t = (int)threadIdx.x, lane = t % 32;
    const unsigned all = 0xffffffff;
    int bad = 0;
    bad += __shfl_sync(all, t, 5) != t - lane + 5;
    bad += __shfl_sync(all, lane, 3, 8) != lane / 8 * 8 + 3;
    bad += __shfl_sync(all, lane, 35) != 3;
    bad += __shfl_xor_sync(all, lane, 9) != (lane ^ 9);
    bad += __shfl_xor_sync(all, lane, 8, 8) != (lane % 16 < 8 ? lane : lane ^ 8);
    bad += __shfl_up_sync(all, lane, 2) != (lane < 2 ? lane : lane - 2);
    bad += __shfl_up_sync(all, lane, 2, 4) != (lane % 4 < 2 ? lane : lane - 2);
    bad += __shfl_down_sync(all, lane, 3) != (lane > 28 ? lane : lane + 3);
    bad += __shfl_down_sync(all, lane, 1, 2) != (lane % 2 ? lane : lane + 1);
    bad += __shfl_sync(all, 1e300 * lane, 2) != 2e300;
    bad += __shfl_sync(all, (unsigned long long)lane << 40, 1) != 1ull << 40;
    bad += __shfl_sync(all, 0.5f * (float)lane, 1) != 0.5f;
    to[t] = bad;
}

CASE(shuffles_)
{
    int *to = fresh<int>(96);
    launch(1, 96, shuffles, to);
    for (int bad : back(to, 96))
        CHECK(bad == 0);
}

/* 40 threads: the second warp has 8 lanes; a mask of all is allowed, as on the device */
static __global__ void warp_votes(int *to)
{
    const int t = (int)threadIdx.x, lanes = t < 32 ? 32 : 8;
    const unsigned all = 0xffffffff, there = t < 32 ? all : 0xff;
    int bad = 0;
    bad += __ballot_sync(all, 1) != there;
    bad += __ballot_sync(there, t % 2) != (there & 0xaaaaaaaa);
    bad += __any_sync(all, t == 39) != (t >= 32);
    bad += __all_sync(all, t < 32) != (t < 32);
    bad += __reduce_add_sync(all, 1) != lanes;
    bad += __reduce_max_sync(all, t) != (t < 32 ? 31 : 39);
    bad += __reduce_min_sync(all, -t) != (t < 32 ? -31 : -39);
    bad += __reduce_or_sync(all, 1u << t % 32) != there;
    bad += (__activemask() >> t % 32 & 1) != 1;
    to[t] = bad;
}

CASE(votes_of_warps)
{
    int *to = fresh<int>(40);
    launch(1, 40, warp_votes, to);
    for (int bad : back(to, 40))
        CHECK(bad == 0);
}

/* Lanes turn a loop as often as their number says; groups of lanes meet by themselves. */
static __global__ void divergent(int *to)
{
    const int t = (int)threadIdx.x, lane = t % 32;
    const unsigned group = 0xffu << lane / 8 * 8;
    int sum = 0;
    for (int i = 0; i < lane / 8 * 5; i++)
        sum += __shfl_xor_sync(group, lane, i % 8);
    __syncwarp();
    if (lane >= 28)
        return;
    for (int step = 1; step < 4; step *= 2)
        sum += __reduce_add_sync(0x0fffffff, 1);
    to[t] = sum;
}

CASE(divergent_lanes)
{
    int *to = filled(64, 0);
    launch(1, 64, divergent, to);
    std::vector<int> got = back(to, 64);
    for (int t = 0; t < 64; t++) {
        int lane = t % 32, sum = lane < 28 ? 56 : 0;
        for (int i = 0; i < lane / 8 * 5 && lane < 28; i++)
            sum += lane ^ i % 8;
        CHECK(got[(size_t)t] == sum);
    }
}

/* Lanes leave one by one while the others go on meeting: only who is left takes part. */
static __global__ void leave_one_by_one(int *to)
{
    int met = 0;
    for (int i = 0; i < 32; i++) {
        if ((int)threadIdx.x == i)
            break;
        met += __reduce_add_sync(0xffffffff, 1);
    }
    to[threadIdx.x] = met;
}

CASE(lanes_that_end)
{
    int *to = fresh<int>(32);
    launch(1, 32, leave_one_by_one, to);
    std::vector<int> got = back(to, 32);
    int sum = 0;
    for (int i = 0; i < 32; i++) {
        CHECK(got[(size_t)i] == sum);
        sum += 31 - i;
    }
}

/* ---- atomics ---- */

static __global__ void atomics(int *i, unsigned *u, unsigned long long *l)
{
    __shared__ unsigned tickets;
    if (threadIdx.x == 0)
        tickets = 0;
    __syncthreads();
    unsigned mine = atomicAdd(&tickets, 1u);
    __syncthreads();
    atomicAdd(&i[0], 1);
    atomicMax(&i[1], (int)mine);
    atomicMin(&i[2], -(int)threadIdx.x);
    atomicOr(&u[0], 1u << mine % 32);
    atomicInc(&u[1], 9);
    atomicAdd(&l[0], 1ull << 33);
    unsigned long long old = 0, seen;
    while ((seen = atomicCAS(&l[1], old, old + 2)) != old)
        old = seen;
}

CASE(atomics_)
{
    int *i = filled(3, 0);
    unsigned *u = filled(2, 0u);
    unsigned long long *l = filled(2, 0ull);
    launch(4, 128, atomics, i, u, l);
    CHECK(back(i, 3) == (std::vector<int>{512, 127, -127}));
    CHECK(back(u, 2) == (std::vector<unsigned>{0xffffffff, 512 % 10}));
    CHECK(back(l, 2) == (std::vector<unsigned long long>{512ull << 33, 1024}));
}

/* ---- asynchronous copies and tensor cores, through ptx.h ---- */

/* c (16, 8) = a (16, k) b (k, 8) with two tiles in flight; integers, so that the sum is exact */
template <typename T> static __global__ void __launch_bounds__(32) product(float *c, const T *a,
                                                                         const T *b, int k)
{
    T *tiles = (T *)sim_dynamic_shared();       /* twice: a (16, 16), b (16, 8) */
    const int lane = (int)threadIdx.x, steps = k / 16;
    float sum[4] = {0, 0, 0, 0};
    auto begin = [&](int step) {
        T *tile = tiles + step % 2 * 384;
        copy16_async(shared_address(tile + lane * 8), a + lane / 2 * k + step * 16 + lane % 2 * 8,
                     16);
        if (lane < 16)
            copy16_async(shared_address(tile + 256 + lane * 8), b + (step * 16 + lane) * 8, 16);
        copy_commit();
    };
    begin(0);
    for (int step = 0; step < steps; step++) {
        if (step + 1 < steps)
            begin(step + 1);
        else
            copy_commit();
        copy_wait<1>();
        __syncthreads();
        const T *tile = tiles + step % 2 * 384;
        unsigned x[4], y[4];
        matrices_load(x, shared_address(tile + lane % 16 * 16 + lane / 16 * 8));
        matrices_load_transposed(y, shared_address(tile + 256 + lane % 16 * 8));
        if (std::is_same_v<T, __nv_bfloat16>)
            product_bf16(sum, x, y[0], y[1]);
        else
            product_f16(sum, x, y[0], y[1]);
        __syncthreads();
    }
    const int row = lane / 4, column = lane % 4 * 2;
    c[row * 8 + column] = sum[0];
    c[row * 8 + column + 1] = sum[1];
    c[(row + 8) * 8 + column] = sum[2];
    c[(row + 8) * 8 + column + 1] = sum[3];
}

template <typename T> static void check_product()
{
    enum { K = 80 };
    std::vector<T> a(16 * K), b(K * 8);
    for (size_t i = 0; i < a.size(); i++)
        a[i] = T((float)((int)(i * 7 % 13) - 6));
    for (size_t i = 0; i < b.size(); i++)
        b[i] = T((float)(1 + (int)(i * 5 % 11)));
    T *da = fresh<T>(a.size()), *db = fresh<T>(b.size());
    OK(cudaMemcpy(da, a.data(), 2 * a.size(), cudaMemcpyHostToDevice));
    OK(cudaMemcpy(db, b.data(), 2 * b.size(), cudaMemcpyHostToDevice));
    float *c = fresh<float>(128);
    launch_shared(2 * 384 * 2, 1, 32, product<T>, c, da, db, (int)K);
    std::vector<float> got = back(c, 128);
    for (size_t i = 0; i < 16; i++)
        for (size_t j = 0; j < 8; j++) {
            float sum = 0;
            for (size_t k = 0; k < K; k++)
                sum += (float)a[i * K + k] * (float)b[k * 8 + j];
            CHECK(got[i * 8 + j] == sum);
        }
}

CASE(tensor_cores)
{
    check_product<__nv_bfloat16>();
    check_product<__half>();
}

/* ---- arithmetic ---- */

/* Rounding to nearest even, by definition: the nearer of two neighbours, of a tie the even one */
template <typename T>
static void check_rounding(T (*bits)(unsigned short), T (*round)(float), float step)
{
    for (unsigned u = 1; u < 0x7b00; u += 37) {
        float low = (float)bits((unsigned short)u), high = (float)bits((unsigned short)(u + 1));
        float middle = low / 2 + high / 2;
        float even = u % 2 ? high : low;
        CHECK((float)round(low) == low && (float)round(-low) == -low);
        CHECK((float)round(middle) == even);
        CHECK((float)round(nextafterf(middle, 0)) == low);
        CHECK((float)round(nextafterf(middle, INFINITY)) == high);
    }
    CHECK(isnan((float)round(NAN)) && isinf((float)round(INFINITY)));
    CHECK(isinf((float)round(3.4e38f + step)));
}

CASE(rounding)
{
    check_rounding<__nv_bfloat16>(__ushort_as_bfloat16, __float2bfloat16_rn, 1.0e36f);
    check_rounding<__half>(__ushort_as_half, __float2half_rn, 0);
    CHECK((float)__float2half_rn(65519.0f) == 65504.0f && isinf((float)__float2half_rn(65520.0f)));
    CHECK((float)__float2half_rn(0x1p-24f) == 0x1p-24f && (float)__float2half_rn(0x1p-26f) == 0);
    float2 pair = __bfloat1622float2(__floats2bfloat162_rn(1.5f, -2.0f));
    CHECK(pair.x == 1.5f && pair.y == -2.0f);
    pair = __half22float2(__floats2half2_rn(1.5f, -2.0f));
    CHECK(pair.x == 1.5f && pair.y == -2.0f);
}

CASE(intrinsics)
{
    for (float x = -20; x < 20; x += 0.37f) {
        CHECK(fabsf(__expf(x) / expf(x) - 1) < 2e-6f);
        CHECK(x <= 0 || fabsf(__logf(x) - logf(x)) < 1e-6f);
        CHECK(x <= 0 || fabsf(rsqrtf(x) * sqrtf(x) - 1) < 1e-6f);
    }
    CHECK(__fdividef(1.0f, 3.0f) == 1.0f / 3.0f && __fdividef(1.0f, 0x1p127f) == 0);
    CHECK(min(3, -2) == -2 && max(3u, 7u) == 7u && max(NAN, 1.0f) == 1.0f);
    CHECK(__popc(0xf0f0) == 8 && __clz(1) == 31 && __clz(0) == 32);
    CHECK(__ffs(8) == 4 && __ffs(0) == 0);
    CHECK(__umulhi(0x80000000u, 6) == 3 && __umul64hi(1ull << 63, 6) == 3 && __mulhi(-1, 1) == -1);
    CHECK(__brev(1) == 0x80000000 && __byte_perm(0x33221100, 0x77665544, 0x7531) == 0x77553311);
    CHECK(__funnelshift_l(0x80000000, 1, 1) == 3 && __funnelshift_r(2, 1, 1) == 0x80000001);
    CHECK(__float_as_uint(1.0f) == 0x3f800000 && __int_as_float(0x40000000) == 2.0f);
    CHECK(__float2int_rn(2.5f) == 2 && __float2int_rn(3.5f) == 4 && __float2int_rd(-0.5f) == -1);
    CHECK(sizeof(float3) == 12 && alignof(float4) == 16);
    CHECK(alignof(double2) == 16 && alignof(int2) == 8);
}

/* ---- what the compiler must not be told apart ---- */

__constant__ int table[4] = {3, 1, 4, 1};

static __global__ void look_up(int *to, const int *__restrict__ from, int n)
{
    static const int squares[8] = {0, 1, 4, 9, 16, 25, 36, 49};
    const int all = (int)(gridDim.x * blockDim.x);
    for (int i = (int)(blockIdx.x * blockDim.x + threadIdx.x); i < n; i += all)
        to[i] = squares[__ldg(from + i) % 8] + table[i % 4];
}

CASE(constants)
{
    int *to = fresh<int>(1000);
    launch(3, 64, look_up, to, counted<int>(1000), 1000);
    std::vector<int> got = back(to, 1000);
    const int digits[4] = {3, 1, 4, 1};
    for (int i = 0; i < 1000; i++)
        CHECK(got[(size_t)i] == (i % 8) * (i % 8) + digits[i % 4]);
}

static __global__ void vectors(float4 *to, const float *from)
{
    float4 v = *(const float4 *)(from + 4 * threadIdx.x);
    to[threadIdx.x] = make_float4(v.w, v.z, v.y, v.x);
}

CASE(vectors_)
{
    float4 *to = fresh<float4>(64);
    launch(1, 64, vectors, to, counted<float>(256));
    CHECK(back(to, 64)[63].x == 255 && back(to, 64)[63].w == 252);
}

int main()
{
    return h_main("runs");
}
