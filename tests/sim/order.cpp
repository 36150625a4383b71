/* order.cpp -- when operations run, and what happens before what.
 *
 * In:    DIECAST_SIM_COLLECTIVES=early, the default: operations run in the order of the host's
 *        calls, at once but for a collective that waits for other ranks: what comes after it waits
 *        too, while the host goes on. late: a collective runs when an operation or the host waits
 *        for it, after all others that can run before it.
 * Method: vector clocks (Mattern, Virtual time and global states of distributed systems, 1989). */
#include "host.h"

#include <deque>
#include <list>
#include <map>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <thread>
#include <time.h>

struct OpInfo {
    uint32_t lane, count;
    const char *name;
    unsigned stream;
};

struct Op {
    uint32_t number;
    bool late;                   /* runs if something waits for it and nothing else can run */
    Clock clock;
    Work work;
    std::shared_ptr<const void> keep;
};

struct Mark {
    Clock clock;
    std::function<void()> work;
};

std::recursive_mutex sim_mutex;

static uint32_t host_number;                 /* of the host's present accesses; 0: none yet */
/* Never destroyed: threads may still be at work while the process exits. */
static std::deque<OpInfo> &infos = *new std::deque<OpInfo>(1);   /* by number of the operation */
/* by lane: operations that have not run yet */
static std::deque<std::deque<Op>> &waiting = *new std::deque<std::deque<Op>>(1);
/* the first of each lane that has any: lanes, by what runs first of what can */
static std::map<std::pair<bool, uint32_t>, unsigned> &heads =
    *new std::map<std::pair<bool, uint32_t>, unsigned>;
static std::list<Mark> &marks = *new std::list<Mark>;
/* by lane: operations so far; the host's is under way */
static std::vector<uint32_t> &counts = *new std::vector<uint32_t>(1, 1);
static std::vector<uint32_t> &executed = *new std::vector<uint32_t>(1, 0);  /* by lane; not the host's */
static Clock &host = *new Clock(1, 1);
static Clock &wanted = *new Clock;           /* what somebody waits for */
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
    executed.push_back(0);
    waiting.emplace_back();
    return (unsigned)counts.size() - 1;
}

static void host_tick()
{
    host[LANE_HOST] = ++counts[LANE_HOST];
    host_number = 0;
}

static bool late_collectives()
{
    static const char *const when = getenv("DIECAST_SIM_COLLECTIVES");
    if (when && strcmp(when, "late") && strcmp(when, "early"))
        sim_fail("DIECAST_SIM_COLLECTIVES=%s: must be late or early", when);
    return when && !strcmp(when, "late");
}

static void show_head(unsigned lane)
{
    const Op &op = waiting[lane].front();
    heads[{op.late, op.number}] = lane;
}

void order_enqueue(unsigned lane, unsigned stream, const char *name, Clock *clock, Work work,
                   bool collective, std::shared_ptr<const void> keep)
{
    clock_join(clock, host);
    if (clock->size() <= lane)
        clock->resize(lane + 1, 0);
    (*clock)[lane] = ++counts[lane];
    infos.push_back({lane, counts[lane], name, stream});
    host_tick();
    const bool late = late_collectives() && collective;
    if (!late)
        clock_join(&wanted, *clock);
    waiting[lane].push_back({(uint32_t)infos.size() - 1, late, *clock, std::move(work),
                             std::move(keep)});
    if (waiting[lane].size() == 1)
        show_head(lane);
    order_progress();
}

void order_mark(const Clock &clock, std::function<void()> work)
{
    marks.push_back({clock, std::move(work)});
    order_progress();
}

Clock order_all()
{
    Clock all = counts;
    all[LANE_HOST] = 0;
    return all;
}

/* Is everything over that `clock` covers, but for the last operation of lane `own`? */
static bool over(const Clock &clock, unsigned own = LANE_HOST)
{
    for (size_t i = LANE_HOST + 1; i < clock.size(); i++)
        if (clock[i] > executed[i] + (i == own))
            return false;
    return true;
}

static void pass_marks()
{
    for (auto at = marks.begin(); at != marks.end();)
        if (over(at->clock)) {
            at->work();
            at = marks.erase(at);
        } else {
            ++at;
        }
}

/* The first operation of a lane: true if it could run and is done. */
static bool run(unsigned lane)
{
    Op &op = waiting[lane].front();
    if (wanted.size() <= lane || wanted[lane] < infos[op.number].count || !over(op.clock, lane))
        return false;
    current = &op;
    sim_op_begin(op.number, infos[op.number].name);
    const bool done = op.work();
    sim_op_end();
    current = nullptr;
    if (!done)
        return false;
    heads.erase({op.late, op.number});
    waiting[lane].pop_front();
    executed[lane]++;
    if (!waiting[lane].empty())
        show_head(lane);
    return true;
}

void order_progress()
{
    if (current)         /* a host function of a stream calls: nothing may run inside of it */
        return;
    pass_marks();
    for (auto at = heads.begin(); at != heads.end();)
        if (run(at->second)) {
            pass_marks();
            at = heads.begin();
        } else if (late_collectives()) {
            ++at;
        } else {
            return;
        }
}

bool order_done(const Clock &clock)
{
    clock_join(&wanted, clock);
    order_progress();
    return over(clock);
}

static void pause_for(long ns)
{
    struct timespec pause = {0, ns};
    nanosleep(&pause, nullptr);
}

void order_rest()
{
    pause_for(50 * 1000);
}

void order_wait(const Clock &clock)
{
    for (;;) {
        {
            SimLock lock(sim_mutex);
            if (order_done(clock))
                return;
        }
        order_rest();
    }
}

void order_keep_going()
{
    static bool going;
    SimLock lock(sim_mutex);
    if (going)
        return;
    going = true;
    atexit([] { sim_mutex.lock(); });    /* no work during the end of the process */
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
