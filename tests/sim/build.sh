#!/bin/bash
# build.sh fast|checked: builds the simulator's library and prints its path. checked: every access of device code is
# checked.
# build.sh --flags fast|checked: prints the flags with which g++ compiles CUDA sources, one a line; SIM_LINES=1: with
# line numbers in findings, which takes a third longer. Programs are linked without -fsanitize: the library has the
# functions that the compiler's instrumentation calls.
set -eu
cd "$(dirname "$0")/../.."
common=(-fno-strict-aliasing -ffp-contract=off -fno-exceptions -Wno-unknown-pragmas)
# half to float and fma in one instruction where the machine has them; the results are the same
if grep -qm1 '\bavx2\b' /proc/cpuinfo && grep -qm1 '\bf16c\b' /proc/cpuinfo; then
    common+=(-mavx2 -mfma -mf16c)
fi

if [ "$1" = --flags ]; then
    case $2 in
    fast) flags=() ;;
    checked)
        flags=(-fsanitize=thread,alignment,bounds -fno-sanitize-recover=alignment,bounds
            --param=tsan-instrument-func-entry-exit=0)
        ;;
    *) echo "build.sh: want fast or checked, got $2" >&2; exit 1 ;;
    esac
    # compiling costs more than the runs of tests; lines go through what is inlined
    [ -n "${SIM_LINES:-}" ] && flags+=(-O1 -g1) || flags+=(-Og -g0)
    printf '%s\n' "${flags[@]}" "${common[@]}"
    exit
fi

mode=$1
flags=(-std=c++20 -Wall -Wextra -Wshadow -Wvla "${common[@]}")
case $mode in
fast) device= ;;
checked) device=-DSIM_CHECKED ;;
*) echo "build.sh: want fast or checked, got $mode" >&2; exit 1 ;;
esac
folder=out/.test/sim/$mode
mkdir -p "$folder" out/.test/sim/host
exec 9>out/.test/sim/lock       # callers at the same time: one builds
flock 9

# Is anything that the object or library is made from newer?
stale() {
    [ ! -f "$1" ] || [ -n "$(find "${@:2}" -newer "$1" -print -quit)" ]
}

objects=()
missing=()
for source in tests/sim/*.cpp; do
    case $source in */[dh]_*.cpp) continue ;; esac     # self-tests
    # the host's side is the same in both, and but for sums it costs more to compile than to run
    object=$folder/$(basename "$source" .cpp).o own="-O3 $device"
    if ! grep -q '^#include "internal.h"' "$source"; then
        object=out/.test/sim/host/${object##*/} own=-O1
        case $source in */gemm.cpp | */cublaslt.cpp) own=-O3 ;; esac
    fi
    objects+=("$object")
    if stale "$object" "$source" tests/sim/{*.h,*.def,include,build.sh}; then
        missing+=("$source" "$object" "$own")
    fi
done
if [ ${#missing[@]} != 0 ]; then
    printf '%s\0' "${missing[@]}" | FLAGS="${flags[*]}" xargs -0 -n 3 -P "${CORES:-$(nproc)}" \
        sh -c ': >"$2.began" && g++ $FLAGS $3 -MMD -MF "${2%o}d" -c "$1" -o "$2.new" && touch -r "$2.began" "$2.new" &&
            mv "$2.new" "$2"' sh 1>&2
fi
if stale "$folder/libsim.a" "${objects[@]}"; then
    rm -f "$folder/libsim.a"
    ar rcs "$folder/libsim.a" "${objects[@]}"
fi
echo "$PWD/$folder/libsim.a"
