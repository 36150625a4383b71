/* order.cpp -- operations in the order of the host's calls, and what happens before what.
 *
 * Method: vector clocks (Mattern, Virtual time and global states of distributed systems, 1989). */
#include "host.h"

#include <deque>
#include <stdio.h>
#include <stdlib.h>
#include <thread>
#include <time.h>

struct OpInfo {
    uint32_t lane, count;
    const char *name;
    unsigned stream;
};

struct Op {
    uint32_t number;
    Clock clock;
    Work work;
    std::shared_ptr<const void> keep;
};

std::recursive_mutex sim_mutex;

static uint32_t host_number;                 /* of the host's present accesses; 0: none yet */
/* Never destroyed: threads may still be at work while the process exits. */
static std::deque<OpInfo> &infos = *new std::deque<OpInfo>(1);   /* by number of the operation */
static std::deque<Op> &waiting = *new std::deque<Op>;
/* by lane: operations so far; the host's is under way */
static std::vector<uint32_t> &counts = *new std::vector<uint32_t>(1, 1);
static Clock &host = *new Clock(1, 1);
static uint64_t enqueued, executed;
static const Op *current;

void clock_join(Clock *clock, const Clock &other)
{
    if (clock->size() < other.size())
        clock->resize(other.size(), 0);
    for (size_t i = 0; i < other.size(); i++)
        if ((*clock)[i] < other[i])
            (*clock)[i] = other[i];
}

unsigned order_lane()
{
    counts.push_back(0);
    return (unsigned)counts.size() - 1;
}

static void host_tick()
{
    host[LANE_HOST] = ++counts[LANE_HOST];
    host_number = 0;
}

static uint64_t enqueue(Op op)
{
    waiting.push_back(std::move(op));
    uint64_t place = ++enqueued;
    order_progress();
    return place;
}

uint64_t order_enqueue(unsigned lane, unsigned stream, const char *name, Clock *clock, Work work,
                       std::shared_ptr<const void> keep)
{
    clock_join(clock, host);
    if (clock->size() <= lane)
        clock->resize(lane + 1, 0);
    (*clock)[lane] = ++counts[lane];
    infos.push_back({lane, counts[lane], name, stream});
    host_tick();
    return enqueue({(uint32_t)infos.size() - 1, *clock, std::move(work), std::move(keep)});
}

uint64_t order_mark(std::function<void()> work)
{
    return enqueue({0, {}, [work = std::move(work)] { work(); return true; }, nullptr});
}

uint64_t order_last()
{
    return enqueued;
}

void order_progress()
{
    if (current)         /* a host function of a stream calls: nothing may run inside of it */
        return;
    while (!waiting.empty()) {
        Op &op = waiting.front();
        if (op.number) {
            current = &op;
            sim_op_begin(op.number, infos[op.number].name);
        }
        bool done = op.work();
        if (op.number) {
            sim_op_end();
            current = nullptr;
        }
        if (!done)
            return;
        waiting.pop_front();
        executed++;
    }
}

bool order_done(uint64_t place)
{
    order_progress();
    return executed >= place;
}

static void pause_for(long ns)
{
    struct timespec pause = {0, ns};
    nanosleep(&pause, nullptr);
}

void order_wait(uint64_t place)
{
    for (;;) {
        {
            SimLock lock(sim_mutex);
            if (order_done(place))
                return;
        }
        pause_for(50 * 1000);
    }
}

void order_keep_going()
{
    static bool going;
    SimLock lock(sim_mutex);
    if (going)
        return;
    going = true;
    atexit([] { sim_mutex.lock(); });    /* no work beside the end of the process */
    std::thread([] {
        for (;; pause_for(500 * 1000)) {
            SimLock mine(sim_mutex);
            order_progress();
        }
    }).detach();
}

void order_join_host(const Clock &clock)
{
    clock_join(&host, clock);
    host_tick();
}

bool sim_happens_before(uint32_t earlier, uint32_t later)
{
    SimLock lock(sim_mutex);
    const OpInfo &info = infos[earlier];
    const Clock &clock = infos[later].lane == LANE_HOST ? host : current->clock;
    return info.lane < clock.size() && clock[info.lane] >= info.count;
}

uint32_t sim_host_op(void)
{
    SimLock lock(sim_mutex);
    if (!host_number) {
        infos.push_back({LANE_HOST, counts[LANE_HOST], "host code", 0});
        host_number = (uint32_t)infos.size() - 1;
    }
    return host_number;
}

const char *sim_op_text(uint32_t op)
{
    static char texts[4][256];
    static unsigned next;
    SimLock lock(sim_mutex);
    char *text = texts[next++ % 4];
    const OpInfo &info = infos[op];
    if (info.lane == LANE_HOST)
        return info.name;
    snprintf(text, sizeof *texts, "%s on stream %u", info.name, info.stream);
    return text;
}
