# shellcheck shell=bash
# Shared by the scripts that need a GPU. After gpu_need: GPU (index), TARGET (sm_90), MEMORY_GIB, CUDA (the toolkit).
. tests/builds/lib.sh

# Sets GPU and CAPABILITY (9.0); where no GPU answers, a line that says so, and 1.
gpu_there() {
    GPU=${CUDA_VISIBLE_DEVICES:-0}
    GPU=${GPU%%,*}
    if ! command -v nvidia-smi >/dev/null || ! CAPABILITY=$(nvidia-smi -i "$GPU" --query-gpu=compute_cap \
        --format=csv,noheader 2>/dev/null); then
        echo "$1: needs an NVIDIA GPU and its driver: none answers nvidia-smi here" >&2
        return 1
    fi
}

# Ends the script with a line when there is nothing to run on.
gpu_need() {
    gpu_there "$1" || exit 1
    if [ -z "$(nvcc_path)" ]; then
        echo "$1: needs nvcc (the CUDA toolkit) to build for $(gpu_name)" >&2
        exit 1
    fi
    TARGET=sm_${CAPABILITY/./}
    MEMORY_GIB=$(($(nvidia-smi -i "$GPU" --query-gpu=memory.total --format=csv,noheader,nounits) / 1024))
    CUDA=$(cd "$(dirname "$(nvcc_path)")/.." && pwd)
    if ! out/.gen/gen list | grep -q "^  $TARGET "; then
        echo "$1: gen has no target $TARGET for $(gpu_name)" >&2
        exit 1
    fi
}

gpu_name() { nvidia-smi -i "$GPU" --query-gpu=name --format=csv,noheader; }

# Facts needed to judge a result, as JSON.
gpu_describe() {
    nvidia-smi -i "$GPU" --format=csv,noheader,nounits \
        --query-gpu=name,driver_version,memory.total,power.limit,clocks.max.sm |
        awk -F', ' -v target="$TARGET" -v nvcc="$("$(nvcc_path)" --version | sed -n 's/.*, V//p')" '{
            printf "{\"card\": \"%s\", \"driver\": \"%s\", ", $1, $2
            printf "\"memory_mib\": %d, \"power_limit_w\": %.0f, ", $3, $4
            printf "\"clock_max_mhz\": %d, \"nvcc\": \"%s\", \"target\": \"%s\"}\n", $5, nvcc, target }'
}

# Words that make a recipe fit this card: those given or, in addition, the largest half, quarter ... of its micro-batch,
# of as many samples a step. If none fits: gen's reason, and 1.
gpu_fitting() {                               # RECIPE [WORD ...]
    local file=recipes/$1.lua said micro accum words=("target=$TARGET" "memory.limit_gib=$MEMORY_GIB")
    shift
    if said=$(out/.gen/gen plan "$file" "${words[@]}" "$@" 2>&1); then
        echo "$*"
        return
    fi
    read -r micro accum < <(out/.gen/gen -d config "$file" "${words[@]}" "$@" |
        sed -n 's/^batch.\(micro\|accum\) = \([0-9]*\) .*/\2/p' | paste -sd' ')
    mapfile -t -O 2 words < <(printf '%s\n' "$@" | grep -v -e '^batch.micro=' -e '^batch.accum=' -e '^$')
    while [ $((micro % 2)) = 0 ]; do
        micro=$((micro / 2)) accum=$((accum * 2))
        if out/.gen/gen info "$file" "${words[@]}" batch.micro=$micro batch.accum=$accum >/dev/null 2>&1; then
            echo "batch.micro=$micro batch.accum=$accum${words[2]:+ ${words[*]:2}}"
            return
        fi
    done
    head -n 1 <<<"$said" | sed 's/^gen: //'
    return 1
}

# The flags that gen's target has for nvcc, split into words.
gpu_flags() { sed -n "/^TARGET($TARGET,/,/)\$/p" gen/config/targets.def | grep -o 'NVCC_FLAGS([0-9a-z]*)' |
    sed 's/NVCC_FLAGS(\(.*\))/-O3 --fmad=true -gencode arch=compute_\1,code=sm_\1/'; }

# One source of ours into a program, with the kernels and what they need of the runtime.
gpu_build() {                                 # source, program
    # shellcheck disable=SC2046
    gcc -std=c11 -O2 -I. -c runtime/base.c -o "$2.base.o" &&
        "$(nvcc_path)" -std=c++20 $(gpu_flags) -DACT_BF16 -I. "$1" "$2.base.o" -o "$2" -lcublasLt \
            -Xlinker -rpath -Xlinker "$CUDA/lib64"
}
