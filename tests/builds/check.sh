#!/bin/bash
# The bytes that recipes say they need; gen check.
. "$(dirname "$0")/common.sh"

# ---- the bytes that recipes say they need
for recipe in recipes/*.lua; do
    said=$(sed -n 's/^-- Planned: \([0-9.]* [KMGT]iB\).*/\1/p' "$recipe")
    grep -q 'target = "sm_' "$recipe" || [ -n "$said" ] || continue
    check "planned/$(basename "$recipe" .lua)" "$said" \
        "$("$GEN" plan "$recipe" 2>&1 | sed -n 's/^  arena (peak) *\([0-9.]* [KMGT]iB\).*/\1/p')"
done

# ---- what make gpu-bench runs on a card of 80 GB, of 141 GB, of 10 GB
. tests/gpu/lib.sh
fitting() { TARGET=sm_90 MEMORY_GIB=$1 gpu_fitting h200x1_qwen2.5_7b_lora "${@:2}"; }
check bench/80 "batch.micro=4 batch.accum=2" "$(fitting 79)"
check bench/80_words "batch.micro=4 batch.accum=4 kernels.fuse=false" "$(fitting 79 kernels.fuse=false batch.micro=16)"
check bench/141 "" "$(fitting 139)"
check bench/10 "1 does not fit target sm_90: needs 84.9 GiB, 7.5 GiB available (over by 77.4 GiB)" \
    "$(said=$(fitting 9); echo "$? $said")"

# what it measures the card's ceilings with: its part in C, whatever nvcc makes of the rest
check bench/base "0 " "$(said=$(NVCC=true CUDA=$T TARGET=sm_90 gpu_build tests/bench/gpu_kernels.cu "$T/k" 2>&1)
    echo "$? $said")"

# a driver that does not answer: one line, and code 77
mkdir "$T/nosmi"
printf '#!/bin/sh\nexit 9\n' >"$T/nosmi/nvidia-smi"
chmod +x "$T/nosmi/nvidia-smi"
check first_hour/no_gpu \
    "77 tests/gpu/first_hour.sh: needs an NVIDIA GPU and its driver: none answers nvidia-smi here" \
    "$(said=$(PATH=$T/nosmi:$PATH tests/gpu/first_hour.sh A "$T/first" 2>&1); echo "$? $said")"

# ---- gen check
"$GEN" check recipes/cpu_tiny.lua >"$T/out" 2>&1
check check/cpu "0 recipes/cpu_tiny.lua: target cpu has no CUDA kernels" "$? $(cat "$T/out")"
mkdir "$T/tmp"
# with the machine code of each file with kernels, where NVRTC is installed
TMPDIR=$T/tmp "$GEN" check "$R" --cubins "$T/cubins" >"$T/out" 2>&1
code=$? nvrtc=yes
if grep -q 'needs NVRTC' "$T/out"; then
    nvrtc=
    TMPDIR=$T/tmp "$GEN" check "$R" >"$T/out" 2>&1
    code=$?
fi
cp "$T/out" "$T/a"
if grep -q 'were not checked' "$T/out"; then
    check check/absent 0 $code
    "$GEN" check "$R" --insist >"$T/out" 2>&1
    check check/insist "1 1" "$? $(grep -c 'kernels were not checked' "$T/out")"
    echo "# gen check: neither NVRTC nor nvcc here"
else
    check check/table 0 $code
    check check/leaves_nothing "" "$(ls "$T/tmp")"
    # of every kernel file that the program includes something stands in the table
    "$GEN" "$R" -o "$T/r" >/dev/null
    check check/every_file "" "$(sed -n 's|^#include "kernels/cuda/\(.*\)"|\1|p' "$T/r/step.cu" | while read -r f; do
        grep -o '\b[a-z_0-9]*_kernel\b' "$T/r/kernels/cuda/$f" | sort -u | grep -qFf - "$T/out" ||
            ! grep -q __global__ "$T/r/kernels/cuda/$f" || echo "$f"
    done)"
    has check/attention '^attention_fwd_kernel<16' "$T/out"
    if [ -z "$nvrtc" ]; then
        echo "ok check/cubins # skip: NVRTC is not installed"
    else
        check check/cubins "$(cd "$T/r/kernels/cuda" && sed -n 's|^#include "kernels/cuda/\(.*\)"|\1|p' "$T/r/step.cu" |
            xargs grep -l __global__ | sed 's/cuh$/cubin/' | sort)" "$(ls "$T/cubins")"
    fi
    check check/cubins_nvcc "gen: check: --cubins is for NVRTC; leave out --nvcc" \
        "$("$GEN" check "$R" --nvcc --cubins "$T/cubins" 2>&1)"
    # a project of its own, whose kernels are worse: one spills, one may, one has no room; then one is none
    mkdir -p "$T/tree/out/.gen"
    cp -r gen kernels templates runtime recipes "$T/tree"
    for name in worse allowed; do
        cat >>"$T/tree/kernels/cuda/rope.cuh" <<END
__global__ __launch_bounds__(1024) void ${name}_kernel(float *p)
{
    float v[96];
    for (int i = 0; i < 96; i++)
        v[i] = p[i * threadIdx.x];
    __syncthreads();
    for (int k = 0; k < 96; k++)
        for (int i = 0; i < 96; i++)
            v[i] = v[i] * v[(i + 1) % 96] + v[k];
    for (int i = 0; i < 96; i++)
        p[i] = v[i];
}
END
    done
    printf 'SHARED_BYTES(large_kernel, 300000);\n__global__ void large_kernel(float *p) { *p = 1; }\n' \
        >>"$T/tree/kernels/cuda/rope.cuh"
    sed -i 's|^#undef SPILLS|SPILLS(allowed_kernel, 100000, "a test")\n&|' "$T/tree/kernels/kernels.def"
    objects=$(find out/.obj -name '*.o' ! -name check.o)
    # shellcheck disable=SC2086
    gcc -std=c11 -I"$T/tree" -I. -I/usr/include/lua5.4 -c "$T/tree/gen/tools/check.c" -o "$T/check.o" 2>"$T/err" &&
        gcc -o "$T/tree/out/.gen/gen" $objects "$T/check.o" -llua5.4 -lyaml -lcjson -lpcre2-8 -lutf8proc -lcrypto -lm \
            2>"$T/err" || not_ok check/tree "$(cat "$T/err")"
    "$T/tree/out/.gen/gen" check "$R" >"$T/out" 2>&1
    check check/worse 1 $?
    has check/spill_line '^worse_kernel spills [0-9]* bytes; kernels.def allows 0$' "$T/out"
    check check/spill_allowed "1 0" \
        "$(grep -c '^allowed_kernel ' "$T/out") $(grep -c '^allowed_kernel spills' "$T/out")"
    has check/shared_line '^large_kernel needs 300000 bytes of shared memory, a block has 232448$' "$T/out"
    has check/at_fault ', 2 at fault$' "$T/out"
    echo 'int x = ;' >>"$T/tree/kernels/cuda/rope.cuh"
    "$T/tree/out/.gen/gen" check "$R" >"$T/out" 2>&1
    check check/compile "1 1" "$? $(grep -c 'does not compile for sm_90a' "$T/out")"
    has check/compile_line 'rope.cuh(.*error' "$T/out"
    if [ -n "$nvcc" ]; then
        "$GEN" check "$R" --nvcc >"$T/b" 2>&1
        check check/nvcc 0 $?
        # the two compilers see the same kernels (NVRTC also those of one launch size that is not used)
        check check/nvcc_kernels "" "$(awk '/_kernel/ { print $1 }' "$T/b" | sort |
            comm -23 - <(awk '/_kernel/ { print $1 }' "$T/a" | sort) | grep -v '<' | head -3)"
    fi
fi
exit $failed
