#!/bin/bash
# Every kernel of the CUDA target against its double reference, in fp32, bf16 and fp16: on the
# simulator, which looks at every access, or with NVCC=1 on the GPU of this machine (SANITIZE=1:
# under memcheck and racecheck). SEED=n repeats a run, run.sh NAME picks tests, FILES="adamw ce" files c_*,
# ACTS=bf16 types, FULL=1 everything in every type (on a GPU the default, FULL= for less);
# NVCC=1 run.sh --bench [NAME] prints speeds; BUILD=1 builds only, BUILT=1 takes what is there.
# parts: kernels same
# wide: same
# cost: kernels=89
# Part `same`, on the simulator: in fp32 the files with a line `// same: `, whose kernels are one source in fp32 and
# bf16; `kernels`: the others. Without a part, all. In fp32 train/sim has these kernels in whole steps, against PyTorch;
# and `kernels` compares their references with finite differences.
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/programs.sh
if [ "${NVCC:-}" = 1 ]; then
    cuda=${CUDA:-/usr/local/cuda}
    # the sanitizer sees what lies outside of an allocation, guard zones would hide it
    export GUARD=$([ "${SANITIZE:-}" = 1 ] && echo 0 || echo 256)
    FULL=${FULL-1}
    out=out/.test/cuda-gpu${FULL:+.full}
    arch=${ARCH:-native}
    compile="$cuda/bin/nvcc -std=c++20 -O3 -lineinfo -arch=$arch -x cu
             -Xcompiler -Wall,-Wextra,-Wno-unknown-pragmas"
else
    cuda=$(tests/sim/toolkit.sh checked) || { echo "not ok cuda/build: no simulator"; exit 1; }
    out=out/.test/cuda${FULL:+.full}
    unset GUARD
    compile="$cuda/bin/nvcc -std=c++20 -Wall -Wextra -Wshadow -Wno-unknown-pragmas -Werror
             -fno-strict-aliasing"
fi
mkdir -p $out
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export SEED=${SEED:-1}
files=${FILES:-$(printf '%s\n' tests/cuda/c_*.cpp | sed 's|.*/c_||; s|\.cpp$||')}
acts=${ACTS:-fp32 bf16 fp16}
part=
case ${1:-} in kernels | same) part=$1 && shift ;; esac
# Left to `make soak` (FULL=1), with the cases named in c_attention.cpp: fp16 where it differs from bf16 in conversions
# alone; products and attention in it, which whole steps have (train/sim.sh, train/checked.sh); tests that only a GPU
# can fail.
same=" $(grep -l '^// same: ' tests/cuda/c_*.cpp | sed 's|.*/c_||; s|\.cpp$||' | paste -sd' ') "
left_out() {            # FILE, of type $act
    if [[ $act = fp32 && $same = *" $1 "* ]]; then
        [ "$part" != kernels ] || return 0
    else
        [ "$part" != same ] || return 0
    fi
    case $act-$1 in
    bf16-master) ;;
    *-master) return 0 ;;           # bf16 weights
    esac
    [ -z "${FULL:-}" ] || return 1
    case $act-$1 in
    fp16-adamw | fp16-nf4) return 1 ;;
    fp16-*) ;;
    *-sizes) ;;
    *) return 1 ;;
    esac
}
headers=$(echo tests/cuda/*.h tests/kernels/*.h kernels/*.h kernels/*.def kernels/cuda/* kernels/reference/*.h)
[ "${NVCC:-}" = 1 ] || headers="$headers $(echo tests/sim/include/* tests/sim/ptx.h $cuda/lib64/* $cuda/prelude.h.gch)"

{
    echo "all:"
    echo "$out/base.o: runtime/base.c runtime/base.h"
    echo "	gcc -O2 -std=c11 -I. -c -o \$@ \$<"
    for act in $acts; do
        case $act in
        fp32) define= ;;
        bf16) define=-DACT_BF16 ;;
        fp16) define=-DACT_F16 ;;
        esac
        flags="$define ${FULL:+-DFULL=1} -DLABEL='\"$act\"' -I. -I$cuda/include"
        for name in main $(for f in $files; do left_out $f || echo "c_$f"; done); do
            echo "$out/$act-$name.o: tests/cuda/$name.cpp $headers"
            # the host's side: not looked at
            plain=$([ $name != main ] || [ "${NVCC:-}" = 1 ] || echo -fno-sanitize=all)
            echo "	$(echo $compile) $flags $plain -c -o \$@ \$<"
        done
        for f in $files; do
            left_out $f && continue
            echo "$out/$act-$f: $out/$act-c_$f.o $out/$act-main.o $out/base.o"
            echo "	g++ $haste -o \$@ \$^ -L$cuda/lib64 -Wl,-rpath,$cuda/lib64 -lcublasLt -lcudart" \
                "-lpthread -lm"
            echo "all: $out/$act-$f"
        done
    done
} >"$scratch/Makefile"
# one run builds at a time
built=0
[ -n "${BUILT:-}" ] || flock $out make -s -k "-j${CORES:-$(nproc)}" -f "$scratch/Makefile" all || {
    echo "not ok cuda/build: does not compile"
    built=1
}
[ -z "${BUILD:-}" ] || exit $built

programs=$(for f in $files; do for act in $acts; do left_out $f || echo "$act-$f"; done; done)
if [ "${1:-}" = --bench ]; then
    for program in $programs; do
        echo "# $program"
        $out/$program "$@"
    done
    exit 0
fi

# One program a line of standard input; its output in one piece.
run_one() {
    local program=$1 log=$2/$1.log status
    shift 2
    [ -x "$out/$program" ] || { echo "not ok cuda/$program: not built"; return 1; }
    $check "$out/$program" "$@" >"$log" 2>&1
    status=$?
    grep -v '^run ' "$log"
    if [ $status != 0 ] && ! grep -q '^not ok' "$log"; then
        echo "not ok cuda/$program/$(sed -n 's/^run //p' "$log" | tail -1): $(tail -1 "$log")" \
            "(exit $status, SEED=$SEED)"
    fi
    return $status
}
export -f run_one
export out check
status=0
checks=("")
[ "${SANITIZE:-}" = 1 ] && checks=("compute-sanitizer --error-exitcode 9 --tool memcheck"
    "compute-sanitizer --error-exitcode 9 --tool racecheck")
for check in "${checks[@]}"; do
    jobs=$([ "${NVCC:-}" = 1 ] && echo 1 || echo "${CORES:-$(nproc)}")
    printf '%s\n' $programs |
        xargs -P "$jobs" -I{} bash -c 'run_one "$@"' _ {} "$scratch" "$@" || status=1
done
# A call that names no stream is work of the legacy stream, for which ours do not wait. The simulator refuses it, but it
# runs no benches.
legacy=$(grep -rnE '\bcuda(Memcpy|Memcpy2D|Memset|Memset2D|StreamCreate) ?\(' kernels/cuda templates runtime \
    tests/{cuda,bench,runtime})
if [ -z "$legacy" ]; then
    echo "ok cuda/every call names its stream"
else
    echo "not ok cuda/every call names its stream: $legacy"
    status=1
fi
# with guard zones, as on a GPU: filling and reading them is in order with kernels and copies
if [ "${NVCC:-}" != 1 ] && [[ $'\n'$programs$'\n' = *$'\nbf16-gather\n'* ]]; then
    GUARD=256 run_one bf16-gather "$scratch" "$@" | sed 's|cuda/bf16/|&guarded |'
    [ "${PIPESTATUS[0]}" = 0 ] || status=1
fi
exit $status
