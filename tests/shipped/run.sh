#!/bin/bash
# Every kernel of every shipped recipe, compiled for the recipe's GPU by `gen check`: it compiles, spills no registers
# and fits a block; two recipes built by nvcc, one of them with NCCL. Recipes whose kernels have the same target, type
# and arguments are one test. A target that no recipe is for gets two.
# apart: minutes of compilers; .ci/run runs it after the others. FULL=1: each recipe for every GPU that it fits.
set -u
cd "$(dirname "$0")/../.." || exit 2
GEN=$PWD/${GEN:-out/.gen/gen}
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT

# All that determines how the kernels of an emitted folder compile: flags, type, sizes among their arguments, calls.
arguments() {
    sed -n 's/^  "cflags": .*/&/p' "$1/manifest.json"
    grep -h '^#define ACT_' "$1"/step.cu
    sed -n 's/^ *\([CDV] = [0-9]*\),.*/\1/p' "$1/shape.h"
    grep -oE '\b[a-z][a-z0-9_]+(<[^<>;]*>)?\(' "$1/step.cu" | sort -u
}

# compiles RECIPE [target=NAME [FIELD=VALUE]]
compiles() {
    local name out
    name=$(basename "$1" .lua)${2:+/${2#target=}}
    if out=$("$GEN" check "$@" --insist 2>&1); then
        echo "ok $name"
    else
        echo "not ok $name: $(echo "$out" | grep -v '^[a-z_]*_kernel[^ ]* .*%$' | tail -3 | tr '\n' ' ')"
    fi
}

if "$GEN" check recipes/h200x1_tiny.lua | grep -q 'were not checked'; then
    echo "ok shipped # neither NVRTC nor nvcc here: nothing was compiled"
    exit 0
fi
mapfile -t all < <("$GEN" list targets --json | grep -o '"sm_[0-9]*"' | tr -d '"')
# what is for the host in haste: `make matrix` and `make soak` build every recipe as users do
if [ -n "$(. tests/builds/lib.sh; nvcc_path)" ]; then
    export IN_HASTE=1
    tests/builds/verify.sh recipes/h200x1_tiny.lua >"$T/log" 2>&1 && ! grep -q -e differ -e warning "$T/log" &&
        echo "ok h200x1_tiny is built twice alike" ||
        echo "not ok h200x1_tiny is built twice alike: $(grep -m 1 -e differ -e warning "$T/log" || tail -n 1 "$T/log")"
    NVCC_EXTRA="-Xcicc -O1 -Xptxas -O1 -Xcompiler -O0,-g0" tests/builds/matrix.sh recipes/a100x4_lora.lua \
        >"$T/log" 2>&1 && ! grep -q 'not generated' "$T/log" && echo "ok a100x4_lora is built" ||
        echo "not ok a100x4_lora is built: $(tail -n 1 "$T/log")"
    tests/shipped/vectors.sh
fi | tee -a "$T/verdicts"
targets=("")
[ -z "${FULL:-}" ] || targets=("${all[@]/#/target=}")
declare -A seen
jobs=()
for recipe in recipes/*.lua; do
    for target in "${targets[@]}"; do
        rm -rf "$T/out"
        if ! "$GEN" "$recipe" ${target:+"$target"} -o "$T/out" >"$T/log" 2>&1; then
            # not every recipe fits the memory of every GPU
            [ -n "$target" ] || echo "not ok $(basename "$recipe" .lua): $(head -1 "$T/log")" | tee -a "$T/verdicts"
            continue
        fi
        [ -f "$T/out/step.cu" ] || continue
        key=$(arguments "$T/out" | sha256sum)
        if [ -n "${seen[$key]:-}" ]; then
            echo "# $(basename "$recipe" .lua) $target: as ${seen[$key]}"
            continue
        fi
        seen[$key]="$(basename "$recipe" .lua) $target"
        jobs+=("$recipe${target:+ $target}")     # a blank at the end would join lines
    done
done
for target in "${all[@]}"; do
    [ -z "${FULL:-}" ] && ! grep -qE "^ *target *= *\"$target\"" recipes/*.lua || continue
    jobs+=("recipes/h200x1_tiny.lua target=$target"
        "recipes/h200x1_qwen2.5_0.5b.lua target=$target memory.limit_gib=79")
done
export GEN
export -f compiles
printf '%s\n' "${jobs[@]}" | xargs -P "${CORES:-$(nproc)}" -L1 bash -c 'compiles "$@"' _ | tee -a "$T/verdicts"
! grep -q '^not ok' "$T/verdicts"
