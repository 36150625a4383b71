/* nccl_shared.cpp -- the shared memory behind nccl.cpp.
 *
 * Method: a rank holds a lock on byte RANK of the file (gone with the process, even one that nobody
 *         has waited for). A collective goes in rounds of SLOT bytes a rank: each writes its part
 *         into one of its two slots, and reads the others' when all have. */
#include "nccl_shared.h"

#include "device.h"
#include "gemm.h"
#include "include/cublasLt.h"

#include <atomic>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <string>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>
#include <vector>

enum { MAX_RANKS = 64, SLOTS = 2, SLOT = 1 << 20 };
static const uint64_t LOOK_NS = 100 * 1000 * 1000;   /* between two looks at who is alive */

struct Id {
    char mark[8];
    int32_t pid, file;
    uint64_t cookie;
};
static_assert(sizeof(Id) <= sizeof(ncclUniqueId));
static const char MARK[8] = {'S', 'I', 'M', 'N', 'C', 'C', 'L', '1'};

struct Member {
    std::atomic<uint32_t> joined, left;
    int32_t device;
    char host[64];                                   /* a network namespace with a name may stand for one */
    std::atomic<uint64_t> posted, taken;             /* rounds */
    SharedCall call[SLOTS];
    uint64_t number[SLOTS];                          /* of the collective */
    std::atomic<uint64_t> said, heard;               /* splits */
    int32_t color, key;
    ncclUniqueId id;
};

struct Page {
    std::atomic<uint64_t> cookie;
    std::atomic<int32_t> ranks;
    Member members[MAX_RANKS];
};

struct Shared {
    Page *page;
    char *slots;                 /* (ranks, SLOTS, SLOT) */
    size_t bytes;
    int file, rank, ranks;
    uint64_t round;              /* finished rounds */
    uint64_t number;             /* collectives begun */
    uint64_t looked;             /* when, ns */
    int lost;
    uint64_t splits;
    bool over;

    ~Shared()
    {
        munmap(page, bytes);
        if (file >= 0)
            close(file);
    }
};

static const size_t PAGE_BYTES = (sizeof(Page) + 4095) / 4096 * 4096;

/* ---- meeting ---- */

bool shared_create(ncclUniqueId *id)
{
    Id mine;
    memcpy(mine.mark, MARK, sizeof MARK);
    mine.pid = getpid();
    mine.file = memfd_create("nccl", MFD_CLOEXEC);
    if (mine.file < 0 || getrandom(&mine.cookie, sizeof mine.cookie, 0) != sizeof mine.cookie ||
        pwrite(mine.file, &mine.cookie, sizeof mine.cookie, 0) != sizeof mine.cookie)
        return false;
    memset(id, 0, sizeof *id);
    memcpy(id->internal, &mine, sizeof mine);
    return true;
}

static bool lock_byte(int file, int rank)
{
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = rank;
    lock.l_len = 1;
    return fcntl(file, F_OFD_SETLK, &lock) == 0;
}

static bool byte_is_free(int file, int rank)
{
    struct flock lock = {};
    lock.l_type = F_WRLCK;
    lock.l_whence = SEEK_SET;
    lock.l_start = rank;
    lock.l_len = 1;
    return fcntl(file, F_OFD_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
}

static void *map(int file, size_t bytes)
{
    off_t size = lseek(file, 0, SEEK_END);
    if (size < 0 || ((size_t)size < bytes && ftruncate(file, (off_t)bytes) < 0))
        return MAP_FAILED;
    return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
}

std::shared_ptr<Shared> shared_join(const ncclUniqueId &id, int ranks, int rank, int device,
                                    const char **why)
{
    Id from;
    memcpy(&from, id.internal, sizeof from);
    if (memcmp(from.mark, MARK, sizeof MARK) != 0 || ranks > MAX_RANKS) {
        *why = ranks > MAX_RANKS ? "more ranks than simulated" : "no unique id";
        return nullptr;
    }
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", from.pid, from.file);
    int file = open(path, O_RDWR | O_CLOEXEC);
    size_t bytes = PAGE_BYTES + (size_t)ranks * SLOTS * SLOT;
    void *memory = file < 0 ? MAP_FAILED : map(file, bytes);
    if (memory == MAP_FAILED) {
        *why = "the process that made the unique id has ended";
        if (file >= 0)
            close(file);
        return nullptr;
    }
    Page *page = (Page *)memory;
    std::shared_ptr<Shared> s(new Shared{page, (char *)memory + PAGE_BYTES, bytes, file, rank,
                                         ranks, 0, 0, 0, -1, 0, false});
    int32_t nobody = 0;
    if (page->cookie != from.cookie)
        *why = "the process that made the unique id has ended";
    else if (!page->ranks.compare_exchange_strong(nobody, ranks) && nobody != ranks)
        *why = "ranks disagree about their number";
    else if (!lock_byte(file, rank) || page->members[rank].joined)
        *why = "two processes say that they are the same rank";
    else {
        page->members[rank].device = device;
        gethostname(page->members[rank].host, sizeof page->members[rank].host - 1);
        page->members[rank].joined = 1;
        return s;
    }
    return nullptr;
}

bool shared_complete(Shared *s)
{
    for (int r = 0; r < s->ranks; r++)
        if (!s->page->members[r].joined)
            return false;
    return true;
}

bool shared_same_device(Shared *s)
{
    const Member *m = s->page->members;
    for (int r = 0; r < s->ranks; r++)
        for (int other = 0; other < r; other++)
            if (m[r].device == m[other].device && strcmp(m[r].host, m[other].host) == 0)
                return true;
    return false;
}

int shared_lost(Shared *s)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    uint64_t now = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
    if (s->lost >= 0 || s->over || now < s->looked + LOOK_NS)
        return s->lost;
    s->looked = now;
    for (int r = 0; r < s->ranks; r++) {
        const Member &m = s->page->members[r];
        if (r != s->rank && m.joined && byte_is_free(s->file, r) && !m.left)
            s->lost = r;
    }
    return s->lost;
}

void shared_leave(Shared *s, bool in_peace)
{
    s->page->members[s->rank].left = in_peace;
    s->over = true;
    close(s->file);
    s->file = -1;
}

/* ---- what the collectives do ---- */

static size_t type_bytes(uint32_t type)
{
    static const uint8_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
    return type < sizeof sizes ? sizes[type] : 0;
}

const char *shared_kind_name(uint32_t kind)
{
    static const char *const names[] = {"ncclAllReduce", "ncclReduce", "ncclBroadcast",
                                        "ncclReduceScatter", "ncclAllGather",
                                        "ncclSend and ncclRecv"};
    return names[kind];
}

bool shared_valid(const Shared *s, const SharedCall &call)
{
    return type_bytes(call.type) && call.op <= ncclAvg && call.root >= 0 && call.root < s->ranks;
}

bool shared_sends(const Shared *s, const SharedCall &call)
{
    return call.kind != BROADCAST || call.root == s->rank;
}

bool shared_receives(const Shared *s, const SharedCall &call)
{
    return call.kind != REDUCE || call.root == s->rank;
}

size_t shared_send_bytes(const Shared *s, const SharedCall &call)
{
    return type_bytes(call.type) * call.count *
           (call.kind == REDUCE_SCATTER ? (size_t)s->ranks : 1);
}

size_t shared_recv_bytes(const Shared *s, const SharedCall &call)
{
    return type_bytes(call.type) * call.count * (call.kind == ALL_GATHER ? (size_t)s->ranks : 1);
}

static char *slot(Shared *s, int rank, uint64_t round)
{
    return s->slots + ((size_t)rank * SLOTS + round % SLOTS) * SLOT;
}

template <typename T> static T combine(uint32_t op, T a, T b)
{
    switch (op) {
    case ncclProd:
        return (T)(a * b);
    case ncclMax:
        return a < b ? b : a;
    case ncclMin:
        return b < a ? b : a;
    }
    return (T)(a + b);
}

/* row 0 = the tree over the rows; rows: (ranks, n) */
template <typename T> static void tree(std::vector<T> *rows, int ranks, size_t n, uint32_t op)
{
    T *v = rows->data();
    for (int apart = 1; apart < ranks; apart *= 2)
        for (int r = 0; r + apart < ranks; r += 2 * apart)
            for (size_t i = 0; i < n; i++)
                v[(size_t)r * n + i] =
                    combine(op, v[(size_t)r * n + i], v[(size_t)(r + apart) * n + i]);
    if (op == ncclAvg)
        for (size_t i = 0; i < n; i++)
            v[i] = (T)(v[i] / (T)ranks);
}

template <typename T>
static void reduce_plain(void *to, const std::vector<const char *> &from, size_t n, uint32_t op)
{
    std::vector<T> rows(from.size() * n);
    for (size_t r = 0; r < from.size(); r++)
        memcpy(&rows[r * n], from[r], n * sizeof(T));
    tree(&rows, (int)from.size(), n, op);
    memcpy(to, rows.data(), n * sizeof(T));
}

static void reduce_narrow(void *to, const std::vector<const char *> &from, size_t n, uint32_t op,
                          int type)
{
    std::vector<float> rows(from.size() * n);
    for (size_t r = 0; r < from.size(); r++)
        for (size_t i = 0; i < n; i++)
            rows[r * n + i] = gemm_load(from[r], type, (int64_t)i);
    tree(&rows, (int)from.size(), n, op);
    for (size_t i = 0; i < n; i++)
        gemm_store(to, type, (int64_t)i, rows[i]);
}

static void reduce(void *to, const std::vector<const char *> &from, size_t n,
                   const SharedCall &call)
{
    switch (call.type) {
    case ncclInt8: return reduce_plain<int8_t>(to, from, n, call.op);
    case ncclUint8: return reduce_plain<uint8_t>(to, from, n, call.op);
    case ncclInt32: return reduce_plain<int32_t>(to, from, n, call.op);
    case ncclUint32: return reduce_plain<uint32_t>(to, from, n, call.op);
    case ncclInt64: return reduce_plain<int64_t>(to, from, n, call.op);
    case ncclUint64: return reduce_plain<uint64_t>(to, from, n, call.op);
    case ncclFloat16: return reduce_narrow(to, from, n, call.op, CUDA_R_16F);
    case ncclFloat32: return reduce_plain<float>(to, from, n, call.op);
    case ncclFloat64: return reduce_plain<double>(to, from, n, call.op);
    case ncclBfloat16: return reduce_narrow(to, from, n, call.op, CUDA_R_16BF);
    }
}

/* "collective 3 of rank 1 is ncclAllReduce of 10 elements (type 7, operation 0, root 0)" */
static std::string call_text(int rank, uint64_t number, const SharedCall &call)
{
    char text[200];
    snprintf(text, sizeof text,
             "collective %llu of rank %d is %s of %llu elements (type %u, operation %u, root %d)",
             (unsigned long long)number, rank, shared_kind_name(call.kind),
             (unsigned long long)call.count, call.type, call.op, call.root);
    return text;
}

static void check_same(Shared *s, uint64_t round, const SharedCall &mine)
{
    for (int r = 0; r < s->ranks; r++) {
        const Member &m = s->page->members[r];
        const SharedCall &its = m.call[round % SLOTS];
        if (memcmp(&its, &mine, sizeof mine) != 0 || m.number[round % SLOTS] != s->number)
            sim_fail("ranks disagree: %s, %s", call_text(s->rank, s->number, mine).c_str(),
                     call_text(r, m.number[round % SLOTS], its).c_str());
    }
}

/* Elements [at, at + n) of the own part into the slot: (blocks, n) */
static void post(Shared *s, uint64_t round, const SharedCall &call, const void *send, uint64_t at,
                 size_t n)
{
    size_t size = type_bytes(call.type);
    char *to = slot(s, s->rank, round);
    int blocks = call.kind == REDUCE_SCATTER || call.kind == ALL_TO_ALL ? s->ranks : 1;
    for (int b = 0; b < blocks && shared_sends(s, call); b++)
        memcpy(to + (size_t)b * n * size,
               call.kind == ALL_TO_ALL
                   ? ((const char *const *)send)[b] + at * size
                   : (const char *)send + ((uint64_t)b * call.count + at) * size,
               n * size);
    Member *me = &s->page->members[s->rank];
    me->call[round % SLOTS] = call;
    me->number[round % SLOTS] = s->number;
    me->posted.store(round, std::memory_order_release);
}

static void take(Shared *s, uint64_t round, const SharedCall &call, void *recv, uint64_t at,
                 size_t n)
{
    size_t size = type_bytes(call.type);
    char *to = (char *)recv + at * size;
    if (call.kind == ALL_TO_ALL) {
        for (int r = 0; r < s->ranks; r++)
            memcpy(((char *const *)recv)[r] + at * size,
                   slot(s, r, round) + (size_t)s->rank * n * size, n * size);
    } else if (call.kind == BROADCAST) {
        memcpy(to, slot(s, call.root, round), n * size);
    } else if (call.kind == ALL_GATHER) {
        for (int r = 0; r < s->ranks; r++)
            memcpy((char *)recv + ((uint64_t)r * call.count + at) * size, slot(s, r, round),
                   n * size);
    } else if (shared_receives(s, call)) {
        size_t block = call.kind == REDUCE_SCATTER ? (size_t)s->rank * n * size : 0;
        std::vector<const char *> from;
        for (int r = 0; r < s->ranks; r++)
            from.push_back(slot(s, r, round) + block);
        reduce(to, from, n, call);
    }
    s->page->members[s->rank].taken.store(round, std::memory_order_release);
}

static bool all_reached(Shared *s, std::atomic<uint64_t> Member::*counter, uint64_t round)
{
    for (int r = 0; r < s->ranks; r++)
        if ((s->page->members[r].*counter).load(std::memory_order_acquire) < round) {
            if (s->page->members[r].left)        /* it will never come */
                s->lost = r;
            return false;
        }
    return true;
}

bool shared_step(Shared *s, SharedExchange *x, const SharedCall &call, const void *send,
                 void *recv)
{
    size_t blocks =
        call.kind == REDUCE_SCATTER || call.kind == ALL_TO_ALL ? (size_t)s->ranks : 1;
    size_t most = SLOT / type_bytes(call.type) / blocks;
    if (s->over)
        return true;
    if (!x->begun) {
        *x = {true, false, 0};
        s->number++;
    }
    do {
        uint64_t round = s->round + 1;
        size_t n = call.count - x->done < most ? (size_t)(call.count - x->done) : most;
        if (!x->posted) {
            if (round > SLOTS && !all_reached(s, &Member::taken, round - SLOTS))
                return false;
            post(s, round, call, send, x->done, n);
            x->posted = true;
        }
        if (!all_reached(s, &Member::posted, round))
            return false;
        check_same(s, round, call);
        take(s, round, call, recv, x->done, n);
        s->round = round;
        x->posted = false;
        x->done += n;
    } while (x->done < call.count);
    x->begun = false;        /* a graph may start it again */
    return true;
}

/* ---- splits ---- */

void shared_split_say(Shared *s, int color, int key, const ncclUniqueId &id)
{
    Member *me = &s->page->members[s->rank];
    me->color = color;
    me->key = key;
    me->id = id;
    me->said.store(++s->splits, std::memory_order_release);
}

bool shared_split_all_said(Shared *s)
{
    return all_reached(s, &Member::said, s->splits);
}

void shared_split_find(Shared *s, ncclUniqueId *id, int *rank, int *ranks)
{
    Member *me = &s->page->members[s->rank];
    int first = s->rank;
    *rank = *ranks = 0;
    for (int r = 0; r < s->ranks; r++) {
        const Member &m = s->page->members[r], &least = s->page->members[first];
        if (m.color != me->color)
            continue;
        ++*ranks;
        *rank += m.key < me->key || (m.key == me->key && r < s->rank);
        if (m.key < least.key || (m.key == least.key && r < first))
            first = r;
    }
    *id = s->page->members[first].id;
    me->heard.store(s->splits, std::memory_order_release);
}

bool shared_split_all_heard(Shared *s)
{
    return all_reached(s, &Member::heard, s->splits);
}
