#!/bin/bash
# make gpu-check: what the simulator shows, on this machine's GPU: kernels against their references, training against
# PyTorch's values, both under compute-sanitizer, and the memory that was planned against the memory in use.
# Prints `ok NAME` or `not ok NAME: why`, as the groups of `make test` do. FAST=1 leaves the sanitizer out.
cd "$(dirname "$0")/../.." || exit 2
. tests/gpu/lib.sh
gpu_need "$0"
export BACKEND=gpu TARGET CUDA PATH="$CUDA/bin:$PATH"
. tests/train/lib.sh
echo "# $(gpu_describe)"
sanitizer=$(command -v compute-sanitizer)
[ -n "${FAST:-}" ] || [ -n "$sanitizer" ] || verdict sanitizer "no compute-sanitizer: FAST=1 does without"
[ -z "${FAST:-}" ] || sanitizer=

# ---- kernels
NVCC=1 tests/cuda/run.sh || failed=1
[ -z "$sanitizer" ] || NVCC=1 SANITIZE=1 tests/cuda/run.sh || failed=1

# ---- ranks
tests/gpu/ranks.sh || failed=1

# ---- training
tests/train/sim.sh || failed=1
if [ -n "$sanitizer" ]; then
    for tool in memcheck racecheck initcheck; do
        "$sanitizer" --tool $tool --error-exitcode 9 "$work/qwen2_dropout.bf16/train" --steps 2 --out "$scratch/$tool" \
            --data $ref/qwen2_dropout/tokens.safetensors --init-from $ref/qwen2_dropout/model \
            >"$scratch/$tool.log" 2>&1
        code=$?
        verdict "training under $tool" \
            "$([ $code = 0 ] || { echo "exit $code"; grep -m3 '=========' "$scratch/$tool.log"; })"
    done
fi

# ---- memory: what a program allocates on the card beyond its plan belongs to the libraries. The figures are the
# program's own: in a container nvidia-smi knows its process by another number.
first=
for recipe in h200x1_tiny h200x1_gpt2_124m; do
    dir=$scratch/$recipe
    if ! { "$gen" recipes/$recipe.lua "target=$TARGET" "memory.limit_gib=$MEMORY_GIB" -o "$dir" &&
        make -s -C "$dir"; } \
        >"$scratch/log" 2>&1; then
        verdict "build $recipe" "$(tail -n 3 "$scratch/log")"
        continue
    fi
    "$dir/train" --bench-steps 50 --out "$scratch/bench" >"$scratch/line" 2>"$scratch/log"
    code=$?
    read -r planned allocated < <(bench_memory "$scratch/line")
    if [ $code != 0 ] || [ -z "${allocated:-}" ]; then
        verdict "run $recipe" "exit $code: $(tail -n 2 "$scratch/log")"
        continue
    fi
    beyond=$(((allocated - planned) / 1048576))
    echo "# $recipe: planned $((planned / 1048576)) MiB, allocated $((allocated / 1048576)) MiB"
    if [ -z "$first" ]; then
        first=$beyond
        verdict "libraries" "$([ $beyond -ge 0 ] && [ $beyond -lt 1024 ] || echo "$beyond MiB beyond the plan")"
    else
        verdict "planned is used, $recipe" "$([ $((beyond - first)) -lt 96 ] && [ $((first - beyond)) -lt 96 ] ||
            echo "$beyond MiB beyond the plan, $first MiB for another program")"
    fi
done
exit $failed
