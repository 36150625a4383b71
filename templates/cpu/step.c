/* step.c -- the programs of a training step.
//@ head
 *
 * Values are named as in ir/: %b.norm1[l] is AT(b_norm1, l), the group @g7 is OP(7); behind it
 * `// x.lua:4`, its recipe line, where that is not the one of the call before. */
//@ precision
//@ kernels

#include <stdio.h>               // snprintf()

//@ if ranks
#include "runtime/ranks/comm.h"        // sums over ranks
//@ end
#include "runtime/base.h"        // arena_alloc()
#include "runtime/device.h"      // device_open()
#include "shape.h"               // B, T, C, ...
#include "step.h"

/* Pointers into the arena, one a row of the plan. */
#define PLAN(type, name, slots, stride, offset) static type *name; \
    enum { name##_stride = stride, name##_slots = slots };
#include "plan.h"

/* Slot l of a value that has one a layer. */
#define AT(name, l) (name + (l) * (int64_t)name##_stride)
/* Elements from a value to the end of another: all that lies between is theirs. */
#define SPAN(first, last) (AT(last, last##_slots) - (first))

const char *const step_tools = "gcc " __VERSION__;
StepIO io;
Model model = {
#include "recipe.h"
};

/* Before each call: it is step_ops[i]. Of the steps of --profile it says when it begins. */
#define OP(i) (profile_on ? profile_mark(i, NULL) : (void)0),
const ProfileOp step_ops[] = {
#include "ops.h"
};
const int step_nops = sizeof step_ops / sizeof step_ops[0];

/* Every matrix product that is computed, each with one fixed algorithm. */
//@ products

//@ merges
static void place_values(void)
{
    char *arena = arena_alloc(PLAN_BYTES, "the arena of plan.h");
#define PLAN(type, name, slots, stride, offset) name = (type *)(arena + offset);
#include "plan.h"
}

/* Which rows of which parameter are which tensor of a Hugging Face or PEFT file. */
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
    place_values();
//@ io
//@ results
    name_tensors();
//@ use_merges
    gemm_setup();
    for (size_t i = 0; i < sizeof gemms / sizeof gemms[0]; i++)
        gemm_init(gemms[i]);
//@ make_adapters
//@ init
}

void step_wait(void)
{
}

//@ steps

//@ describe
