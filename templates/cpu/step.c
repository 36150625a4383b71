/* step.c -- the programs of a training step.
//@ head
 *
 * Values are named as in ir/: %b.norm1[l] is AT(b_norm1, l). The group @g7 is the call after
 * profile_op(7), with its recipe line, `// x.lua:4`, if that differs from the call before. */
//@ precision
//@ kernels

#include <stdio.h>               // snprintf()
#include <string.h>              // memset()

//@ if ranks
#include "runtime/ranks/comm.h"  // sums over ranks
//@ end
#include "runtime/base.h"        // arena_alloc()
#include "runtime/device.h"      // device_open()
#include "shape.h"               // B, T, C, ...
#include "step.h"

/* Pointers into the arena, one per row of the plan. */
#define PLAN(type, name, slots, stride, offset) static type *name; \
    enum { name##_stride = stride, name##_slots = slots };
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

const char *const step_tools = "gcc " __VERSION__;
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
static inline void profile_op(int op)
{
    if (profile_on)
        profile_mark(op, NULL);
}

/* Every matrix product of the program, each with a fixed algorithm. */
//@ products

//@ merges
static void place_values(void)
{
    char *arena = arena_alloc(PLAN_BYTES, "the arena of plan.h");
#define PLAN(type, name, slots, stride, offset) name = (type *)(arena + offset);
#include "plan.h"
}

/* The map from rows of parameters to tensors of Hugging Face and PEFT files. */
static void name_tensors(void)
{
    const Tensor rows[] = {
#include "tensors.h"
    };
    model.tensors = model_expand(rows, sizeof rows / sizeof rows[0], &model.ntensors);
}

//@ programs

void step_open(void)
{
    device_open(model.target);
//@ if counted
    comm_count_programs();
//@ end
    place_values();
//@ io
//@ results
    name_tensors();
//@ use_merges
    gemm_setup();
    for (size_t i = 0; i < sizeof gemms / sizeof gemms[0]; i++)
        gemm_init(gemms[i]);
//@ if lora
    for (size_t i = 0; i < sizeof loras / sizeof loras[0]; i++)
        lora_init(loras[i]);
//@ end
//@ init
}

static void clear(void *to, size_t bytes)
{
    memset(to, 0, bytes);
}

void step_wait(void)
{
}

//@ steps

//@ describe
