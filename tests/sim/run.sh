#!/bin/bash
# The simulator's own tests: d_*.cpp the device side, h_*.cpp the host side, h_*.sh its constants.
# d_runs also on the fast library, which most end-to-end tests use. run.sh NAME ..: only these; `tuners`: the sources
# of all CUDA recipes, of which only a few are built as programs here.
# parts: programs own
# wide: own
# Part `programs`: what a change of gen or of kernels can break, tuners and d_bytes; `own`: the others, which only a
# change of the simulator can.
set -u
cd "$(dirname "$0")/../.." || exit 1
out=out/.test/sim/own
mkdir -p $out
failed=0

build() {                        # MODE NAME
    local mode=$1 name=$2 library flags
    library=$(tests/sim/build.sh "$mode") || return 1
    mapfile -t flags < <(SIM_LINES=1 tests/sim/build.sh --flags "$mode")
    if [ ! -f "$out/$name.$mode" ] ||
        [ -n "$(find "tests/sim/$name.cpp" tests/sim/{*.h,include} kernels "$library" \
            -newer "$out/$name.$mode" -print -quit)" ]; then
        g++ -std=c++20 -Wall -Wextra -Wshadow -Wvla -Werror "${flags[@]}" -I. -I tests/sim/include \
            -include tests/sim/ptx.h -c -o "$out/$name.$mode.o" "tests/sim/$name.cpp" &&
            gcc -O1 -std=c11 -I. -c -o "$out/$name.base.o" runtime/base.c &&
            g++ -o "$out/$name.$mode" "$out/$name.$mode.o" "$out/$name.base.o" "$library" -lpthread
    fi
}

names=("$@") generated="d_bytes tuners"
own=$(cd tests/sim && printf '%s\n' [dh]_*.cpp h_*.sh | sed 's/\.cpp$//' | grep -vx d_bytes)
# shellcheck disable=SC2206
case $* in
'') names=($own $generated) ;;
programs) names=($generated) ;;
own) names=($own) ;;
esac
programs=()
for name in "${names[@]}"; do
    case $name in
    *.sh) programs+=("tests/sim/$name"); continue ;;
    tuners) programs+=(tuners); continue ;;
    esac
    modes=(checked)
    [ "$name" != d_runs ] || modes=(checked fast)
    for mode in "${modes[@]}"; do
        if build "$mode" "$name"; then
            programs+=("$out/$name.$mode")
        else
            echo "not ok $name: does not compile ($mode)"
            failed=1
        fi
    done
done
for program in "${programs[@]}"; do
    case $program in
    tuners)
        folder=$(mktemp -d)
        nvcc=$(tests/sim/toolkit.sh fast)/bin/nvcc wrong= n=0
        for recipe in recipes/*.lua; do
            out/.gen/gen "$recipe" -o "$folder/program" >/dev/null || wrong+=" $recipe is not emitted;"
            if [ -e "$folder/program/tune.cu" ]; then           # it includes step.cu
                said=$(cd "$folder/program" && "$nvcc" -std=c++20 -fsyntax-only -I. -DDIECAST_RANKS=1 tune.cu 2>&1) ||
                    wrong+=" $recipe: $(grep -m 1 error <<<"$said");"
                n=$((n + 1))
            fi
            rm -rf "$folder/program"
        done
        [ -z "$wrong" ] && [ $n -gt 20 ] && echo "ok step.cu and tune.cu of every recipe compile" ||
            { echo "not ok step.cu and tune.cu of every recipe compile: $n recipes;$wrong"; failed=1; }
        rm -rf "$folder"
        ;;
    */d_bytes.*)
        folder=$(mktemp -d)
        if numbers=$(tests/sim/counted.sh "$folder"); then
            # shellcheck disable=SC2086
            env $numbers "$program"
        else
            echo "not ok bytes: gen emits no program"
            failed=1
        fi
        rm -rf "$folder"
        ;;
    *.fast) "$program" | sed 's/^\(\(not \)\?ok [a-z]*\)/\1.fast/' ;;
    *.sh)
        toolkit=${CUDA:-/usr/local/cuda}
        if [ -d "$toolkit/include" ]; then
            "$program" "$toolkit"
        else
            echo "skipped: $program needs the headers of a CUDA toolkit"
        fi
        ;;
    *) "$program" ;;
    esac
    [ "${PIPESTATUS[0]}" = 0 ] || failed=1
done
exit $failed
