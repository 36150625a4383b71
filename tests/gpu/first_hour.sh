#!/bin/bash
# first_hour.sh A|B|C [FOLDER]: the first measurements on a new GPU, for a machine with nvcc, gcc, make and PyTorch but
# no package manager (its libraries: make gpu-carry). Run the parts in this order, each takes at most ten minutes; B and
# C use programs built by the parts before. Results go to FOLDER, else to $OUT, else to out/first_hour.
# first_hour.sh build: builds what A and B run, for TARGET (sm_90) and MEMORY_GIB (139), without a GPU; for make
# gpu-carry. Where that was unpacked, they build nothing.
#   A  values: kernels against their references, training against PyTorch's values, sums of NCCL captured in a graph
#   B  speed: the ceilings of the card, steps of five recipes, tuning of products and kernels
#   C  profile and sanitizers: kernels under Nsight Compute, a run and a test under compute-sanitizer
# A step that fails or takes too long does not stop the others; the last line says how many failed (exit 1). Without a
# GPU: one line, exit 77.
set -u
cd "$(dirname "$0")/../.." || exit 2
. tests/gpu/lib.sh
part=${1:-}
case $part in A | B | C | build) ;; *) echo "usage: $0 A|B|C|build [FOLDER]" >&2; exit 2 ;; esac
[ $part = build ] || gpu_there "$0" || exit 77
results=$(realpath -m "${2:-${OUT:-out/first_hour}}")
mkdir -p "$results" || exit 2
if [ ! -e out/.carry/env.sh ] && [ -e out/carry.tar.gz ]; then tar xzf out/carry.tar.gz || exit 2; fi
[ ! -e out/.carry/env.sh ] || . out/.carry/env.sh
programs=out/.first_hour
mkdir -p $programs
export CORES programs PYTHONUNBUFFERED=1
CORES=$(nproc)
ends=$((SECONDS + $([ $part = build ] && echo 3600 || echo 590))) failed=0 steps=0
[ $part != build ] || rm -f $programs/built
BUILT=$([ ! -e $programs/built ] || echo 1)      # elsewhere, and carried here
export BUILT

# step NAME SECONDS COMMAND ...: all it says goes to NAME.txt, what is not "ok" also here
step() {
    local name=$1 limit=$2 code
    shift 2
    [ "$limit" -lt $((ends - SECONDS)) ] || limit=$((ends - SECONDS))
    echo "== $(date +%T) $part $name"
    steps=$((steps + 1))
    if [ "$limit" -gt 0 ]; then
        timeout -k 5 "$limit" bash -c '. tests/gpu/lib.sh; "$@"' bash "$@" >"$results/$name.txt" 2>&1
        code=$?
    else
        code=124
        echo "no time left" >"$results/$name.txt"
    fi
    grep -v '^ok ' "$results/$name.txt" | tail -n 12
    [ $code != 124 ] && [ $code != 137 ] || echo "ended after $limit s"
    [ $code = 0 ] || { echo "failed: $name, exit $code"; failed=$((failed + 1)); }
}

machine() {
    nvidia-smi -q
    "$(nvcc_path)" --version
    gcc --version
    ldconfig -p | grep -E 'libcuda|cudart|cublasLt|nccl|cudnn'
}

# NAME RECIPE STEPS of the programs that are timed
recipes="gpt2 h200x1_gpt2_124m 40
tiny h200x1_tiny 1000
qwen_0.5b h200x1_qwen2.5_0.5b 20
qwen_1.5b h200x1_qwen2.5_1.5b 15
qwen_7b_lora h200x1_qwen2.5_7b_lora 10"

emit() {                # NAME RECIPE: its program and tuner
    local words
    words=$(gpu_fitting "$2") || { echo "$1: $words"; return 1; }
    echo "$1: recipes/$2.lua $words"
    # shellcheck disable=SC2086
    out/.gen/gen "recipes/$2.lua" "target=$TARGET" "memory.limit_gib=$MEMORY_GIB" $words -o "$programs/$1" &&
        make -s -j4 "CUDA=$CUDA" -C "$programs/$1" train tune
}

# at once: each waits for one large source
emit_all() {
    local name recipe rest failed=0 pids=()
    while read -r name recipe rest; do
        emit "$name" "$recipe" &
        pids+=($!)
    done <<<"$recipes"
    for pid in "${pids[@]}"; do wait "$pid" || failed=1; done
    return $failed
}

bench() {               # NAME STEPS
    set -o pipefail
    "$programs/$1/train" --bench-steps "$2" --out "$programs/run.$1" | tee -a "$results/bench.jsonl"
}
tuned() { "$programs/$1/tune" >"$results/rows_$1.json"; }       # NAME: what gen tune --rows takes

build_ceilings() { gpu_build tests/bench/gpu_kernels.cu $programs/ceilings; }
ceilings() { { [ -n "$BUILT" ] || build_ceilings; } && $programs/ceilings; }

kernels() { FULL= NVCC=1 ARCH=$TARGET tests/cuda/run.sh; }
training() { FULL= BACKEND=gpu tests/train/sim.sh; }
build() {
    local pid failed=0
    BUILD=1 kernels &
    pid=$!
    BUILD=1 training || failed=1
    wait $pid || failed=1
    return $failed
}

# where a step's time goes by the program's own marks, which need no counters; text of these sources
own_profile() {
    rm -rf $programs/profiled
    cat README.md recipes/*.md gen/reference/*.md >$programs/text.txt
    $programs/tiny/train --data $programs/text.txt --tokenizer bytes --init-from none --steps 40 --profile 10 \
        --out $programs/profiled && cp $programs/profiled/profile.json "$results"
}

# Nsight Compute of the first launch of each kernel in a step of program NAME
profile() {             # NAME KERNEL ...
    local name=$1 kernel failed=0
    shift
    for kernel; do
        ncu --clock-control none -k "regex:${kernel}_kernel" -c 1 --set full \
            "$programs/$name/train" --bench-steps 1 --out "$programs/ncu" >"$programs/ncu.txt" 2>&1
        echo "-- $name $kernel"
        grep -E 'Duration|Throughput|Occupancy|Hit Rate|Bank|Registers Per' "$programs/ncu.txt" ||
            { tail -n 3 "$programs/ncu.txt"; failed=1; }
    done
    return $failed
}

sanitized() {           # TOOL COMMAND ...
    compute-sanitizer --error-exitcode 9 --tool "$@"
}

export -f emit bench tuned build_ceilings ceilings kernels training build own_profile profile sanitized emit_all machine
export recipes results
[ $part != A ] || step machine 60 machine
[ -n "$BUILT" ] || step gen 180 make -s "-j$CORES" gen
[ -x out/.gen/gen ] || { echo "part $part: 1 of $steps steps failed: without gen there are no others"; exit 1; }
if [ $part = build ]; then
    TARGET=${TARGET:-sm_90} MEMORY_GIB=${MEMORY_GIB:-139}
    CUDA=$(cd "$(dirname "$(nvcc_path)")/.." && pwd) GPU=
else
    gpu_need "$0"
fi
export GPU TARGET MEMORY_GIB CUDA
export PATH=$CUDA/bin:$PATH
case $part in
build)
    step build 3000 build
    BUILD=1 step ranks 60 tests/gpu/ranks.sh
    step recipes 3000 emit_all
    step ceilings 300 build_ceilings
    [ $failed != 0 ] || touch $programs/built
    ;;
A)
    [ -n "$BUILT" ] || step build 300 build
    step kernels 240 kernels
    step training 240 training
    step sums 60 tests/gpu/ranks.sh
    ;;
B)
    step ceilings 120 ceilings
    step ceilings_of_pytorch 60 python3 tests/bench/gpu_peer.py ceiling
    [ -n "$BUILT" ] || step build_recipes 240 emit_all
    while read -r name recipe count <&3; do step "bench_$name" 90 bench "$name" "$count"; done 3<<<"$recipes"
    step tune_gpt2 120 tuned gpt2
    step tune_qwen_7b_lora 120 tuned qwen_7b_lora
    ;;
C)
    step profile_tiny 60 own_profile
    step ncu_gpt2 150 profile gpt2 attention_fwd attention_dq attention_dkv ce_rows layernorm_bwd
    step ncu_qwen_0.5b 90 profile qwen_0.5b gated_bwd rmsnorm_bwd
    step memcheck 100 sanitized memcheck $programs/tiny/train --bench-steps 2 --out $programs/memcheck
    step racecheck 150 sanitized racecheck out/.test/cuda-gpu/bf16-attention
    ;;
esac
echo "part $part: $failed of $steps steps failed; results in $results"
[ $failed = 0 ]
