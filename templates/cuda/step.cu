/* step.cu -- the programs of a training step.
//@ head
 *
 * Values are named as in ir/: %b.norm1[l] is AT(b_norm1, l). The group @g7 is the call after
 * profile_op(7), with its recipe line, `// x.lua:4`, if that differs from the call before. Every
 * launch goes to the stream that it is given. */
//@ precision
//@ kernels

#include <stdio.h>               // snprintf()

extern "C" {
//@ if divided
#include "runtime/base.h"        // the rank
//@ end
#include "runtime/ranks/comm.h"  // sums over ranks; comm_poll()
#include "runtime/device.h"      // the GPU, its arena, pinned memory
}
#include "shape.h"               // B, T, C, ...
#include "step.h"

/* Pointers into the arena, one per row of the plan. */
#define PLAN(type, name, slots, stride, offset) static type *name; \
    enum { name##_stride = stride, name##_slots = slots };
//@ if host
#define PLAN_HOST PLAN
//@ end
#include "plan.h"

/* Slot l of a value with one slot per layer. */
#define AT(name, l) (name + (l) * (int64_t)name##_stride)
//@ if divided
/* Of a divided value: offset of this rank's part in a tensor; that part of the first tensor. */
#define PART(name) (world.rank * ((int64_t)name##_stride / RANKS))
#define OWN(name) (name + PART(name))
//@ end
/* Number of elements from the start of one value to the end of another, including all between
 * them. */
#define SPAN(first, last) (AT(last, last##_slots) - (first))
//@ if asynchronous
//@ operations
//@ end

#define TEXT_(x) #x
#define TEXT(x) TEXT_(x)
#ifdef __CUDACC_VER_BUILD__
const char *const step_tools = "nvcc " TEXT(__CUDACC_VER_MAJOR__) "." TEXT(__CUDACC_VER_MINOR__) "."
                               TEXT(__CUDACC_VER_BUILD__) ", g++ " __VERSION__;
#else
const char *const step_tools = "g++ " __VERSION__;     // no nvcc
#endif

StepIO io;
Model model = {
#include "recipe.h"
//@ if lora
    .adapter_folders = &hf_adapter_folders,
//@ end
};

const ProfileOp step_ops[] = {
#include "ops.h"
};
const int step_nops = sizeof step_ops / sizeof step_ops[0];

/* In a step of --profile, marks the start of the call below: step_ops[op]. */
static inline void profile_op(int op, cudaStream_t s)
{
    if (profile_on)
        profile_mark(op, s);
}

/* Every matrix product of the program, each with a fixed algorithm. */
//@ products

static char *arena;

static void place_values(void)
{
    arena = (char *)device_arena(PLAN_BYTES, "the arena of plan.h");
#define PLAN(type, name, slots, stride, offset) name = (type *)(arena + offset);
//@ if host
    char *host = (char *)device_pinned(HOST_BYTES, "the embedding");
#define PLAN_HOST(type, name, slots, stride, offset) name = (type *)(host + offset);
//@ end
#include "plan.h"
    array_zero(arena, PERSISTENT_BYTES);         // the gaps between gradients count in the norm
}

/* The part of the arena with all inputs, and its pinned copy that the host writes. */
//@ inputs
static char *inputs;
#define PINNED(name) ((decltype(name))(inputs + ((char *)(name) - arena - INPUTS_OFFSET)))

static cudaStream_t work, transfer;      // kernels; transfer of inputs
static cudaEvent_t arrived, done;        // end of the transfer; end of the program

//@ merges
/* The map from rows of parameters to tensors of Hugging Face and PEFT files. */
static void name_tensors(void)
{
    const Tensor rows[] = {
#include "tensors.h"
    };
    model.tensors = model_expand(rows, sizeof rows / sizeof rows[0], &model.ntensors);
}

//@ programs

static void open_streams(void)
{
    cuda_check(cudaStreamCreateWithFlags(&work, cudaStreamNonBlocking), "a stream");
    cuda_check(cudaStreamCreateWithFlags(&transfer, cudaStreamNonBlocking), "a stream");
    cuda_check(cudaEventCreateWithFlags(&arrived, cudaEventDisableTiming), "an event");
    cuda_check(cudaEventCreateWithFlags(&done, cudaEventDisableTiming), "an event");
}

static void open_io(void)
{
    inputs = (char *)device_pinned(INPUTS_BYTES, "the inputs");
//@ results
//@ io
}

/* Waits for the event, watching the other ranks meanwhile. */
static void wait_for(cudaEvent_t event)
{
    cudaError_t state;
    while ((state = cudaEventQuery(event)) == cudaErrorNotReady)
        comm_poll();
    comm_advance();
    cuda_check(state, "the step");
}

/* Starts the transfer of the inputs. The stream `work` waits for it, and so does the host before it
 * writes inputs again. */
static void send_inputs(void)
{
    cuda_check(cudaMemcpyAsync(arena + INPUTS_OFFSET, inputs, INPUTS_BYTES, cudaMemcpyHostToDevice,
                               transfer), "a copy to the GPU");
    cuda_check(cudaEventRecord(arrived, transfer), "an event");
    cuda_check(cudaStreamWaitEvent(work, arrived, 0), "an event");
}

void step_open(void)
{
    device_open(model.target);
    comm_connect();
//@ if counted
    comm_count_programs();
//@ end
    place_values();
    open_streams();
    open_io();
    name_tensors();
//@ use_merges
    gemm_setup();
//@ measured_with
    for (size_t i = 0; i < sizeof gemms / sizeof gemms[0]; i++)
        gemm_init(gemms[i]);
//@ init
//@ if fp16
//@ scalers
    const float start[2] = {65536, 0};           // as torch.amp.GradScaler
//@ start_scalers
//@ end
    cuda_check(cudaStreamSynchronize(work), "the tables");
}

static void clear(void *to, size_t bytes, cudaStream_t s)
{
    cuda_check(cudaMemsetAsync(to, 0, bytes, s), "a value");
}

static void fetch(void *to, const void *from, size_t bytes, cudaStream_t s)
{
    cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, s), "a copy to the host");
}

/* Called after the last launch: records the event `done` and waits until the inputs have
 * arrived. */
static void begun(void)
{
    if (profile_on)
        profile_mark(PROFILE_HOST, work);
    cuda_check(cudaEventRecord(done, work), "an event");
    wait_for(arrived);
}

void step_wait(void)
{
    wait_for(done);
}

//@ if graph
/* The calls of a step. The first run is eager, because NCCL connects the ranks at the first
 * collective of a size and the driver loads a kernel at its first launch; a capture allows
 * neither. */
typedef struct {
    void (*run)(cudaStream_t s);
    bool has_run;
    cudaGraphExec_t graph;               // captured before the second run; NULL until then
} Captured;

/* Captures a step as a graph. The mode is relaxed, because NCCL may allocate for a captured call
 * and launches from its own thread. */
static cudaGraphExec_t capture(void (*run)(cudaStream_t s))
{
    cudaGraph_t graph;
    cudaGraphExec_t all;
    cuda_check(cudaStreamBeginCapture(work, cudaStreamCaptureModeRelaxed), "capturing a step");
    run(work);
    cuda_check(cudaStreamEndCapture(work, &graph), "capturing a step");
    cuda_check(cudaGraphInstantiate(&all, graph, 0), "the graph of a step");
    cuda_check(cudaGraphDestroy(graph), "the graph of a step");
    return all;
}

/* Runs a step with the inputs in io: as a graph, or call by call on the first run and in steps of
 * --profile. */
static void launch(Captured *c)
{
    if (c->has_run && !c->graph && !profile_on)
        c->graph = capture(c->run);
    send_inputs();
    if (c->graph && !profile_on)
        cuda_check(cudaGraphLaunch(c->graph, work), "a step");
    else
        c->run(work);
    c->has_run = true;
    begun();
}

//@ end
//@ steps

//@ describe
