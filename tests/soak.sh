#!/bin/bash
# soak.sh [MINUTES]: what `make test` leaves out, with fresh inputs until the time is over: fuzzers, random recipes,
# random packing instances, a million texts of random tokenizers (PYTHON with the package tokenizers), kernels on other
# inputs, kills at other moments, every recipe built; FULL=1: every form, type and program, where `make test` takes each
# part once.
# JOBS=N: commands at a time (one a core). SEED=N: the first seed; each round takes the next. Failures are kept in
# out/soak/, with the command that repeats them; add each as a fixed case to `make test`.
set -u
cd "$(dirname "$0")/.." || exit 2
minutes=${1:-20}
[[ $minutes =~ ^[1-9][0-9]{0,4}$ ]] || { echo "soak: MINUTES=$minutes: want a whole number of minutes" >&2; exit 2; }
seed=${SEED:-$((RANDOM << 15 | RANDOM))}
[[ $seed =~ ^[0-9]{1,12}$ ]] || { echo "soak: SEED=$seed: want a whole number" >&2; exit 2; }
end=$((SECONDS + 60 * minutes))
export kept=out/soak LC_ALL=C.UTF-8 GOMP_SPINCOUNT=${GOMP_SPINCOUNT:-1000}
unset MAKEFLAGS MAKELEVEL
if [ -d /usr/lib/ccache ]; then
    export PATH=/usr/lib/ccache:$PATH CCACHE_DIR=${CCACHE_DIR:-$PWD/out/.test/ccache} CCACHE_NOHASHDIR=1
    export CCACHE_DEPEND=1 CCACHE_NOCOMPRESS=1
fi
rm -rf $kept
mkdir -p $kept
echo "soak: $minutes minutes; the same again: SEED=$seed make soak MINUTES=$minutes"

# The commands of a round, a line each. They run side by side: FULL=1 has folders of its own below out/.test, and the
# scripts of tests/train lock what they share.
round() {               # NUMBER SEED
    local target files part=$(($1 % 4))
    echo "SEED=$2 COUNT=200 FULL=1 tests/rooms/run.sh"
    echo "SEED=$2 COUNT=10000 tests/shard/fit.sh"
    echo "SEED=$2 FULL=1 tests/packing/run.sh"
    echo "SEED=$2 KILLS=200 FULL=1 tests/checkpoint/run.sh"
    echo "SEED=$2 KILLS=200 INJECT=1 tests/train/faults.sh"
    echo "SEED=$2 KILLS=200 tests/train/kills.sh"
    echo "SEED=$2 FULL=1 tests/kernels/run.sh"
    echo "SEED=$2 COUNT=1000000 tests/tokenizer/random.sh"
    for target in tests/fuzz/*_fuzz.c; do
        echo "SEED=$2 FUZZ_SECONDS=45 tests/fuzz/run.sh $(basename "$target" _fuzz.c)"
    done
    # a quarter of the CUDA kernels: on the simulator they are slow
    files=$(printf '%s\n' tests/cuda/c_*.cpp | sed 's|.*/c_||; s|\.cpp$||' |
        awk -v part=$part 'NR % 4 == part' | paste -sd' ')
    echo "SEED=$2 FULL=1 FILES='$files' tests/cuda/run.sh"
    # whose inputs are always the same
    if [ "$1" = 0 ]; then
        echo "tests/train/injections.sh"
        echo "tests/builds/matrix.sh"
        echo "FULL=1 tests/ci/run.sh"
        for target in a100x4_lora rtx3080_lora rtx4090_lora h200x1_gpt2_124m; do
            echo "out/.gen/gen check recipes/$target.lua"
        done
        for target in sim memory faults fit; do echo "FULL=1 tests/shard/run.sh $target"; done
        echo "FULL=1 tests/canonical/run.sh sim"
        for target in reference pairs sim checked sanitize; do echo "FULL=1 tests/train/$target.sh"; done
    fi
}

job() {                 # COMMAND: a line of out/soak/results, `PASSED FAILED COMMAND`
    local log ok bad status
    [ "$(cat $kept/over 2>/dev/null)" ] && return
    log=$kept/$(echo "$1" | tr -cs 'A-Za-z0-9._=\n' - | cut -c1-80).log
    bash -c "$1" </dev/null >"$log" 2>&1
    status=$?
    ok=$(grep -c '^ok ' "$log")
    bad=$(grep -c '^not ok ' "$log")
    [ "$ok$bad" != 00 ] || [ $status != 0 ] || ok=1
    [ $status = 0 ] || [ "$bad" != 0 ] || bad=1
    echo "$ok $bad $1" >>$kept/results
    if [ "$bad" = 0 ]; then
        rm "$log"
        echo "ok $1: $ok"
    else
        echo "not ok $1: exit $status: $(grep -m1 '^not ok ' "$log" | cut -c1-300); see $log"
    fi
}
export -f job

( sleep $((60 * minutes)) && echo over >$kept/over ) &
clock=$!
trap 'kill $clock 2>/dev/null' EXIT
for ((n = 0; SECONDS < end; n++)); do
    round $n $((seed + n)) | xargs -d '\n' -P "${JOBS:-$(nproc)}" -n 1 bash -c 'job "$1"' _
done
rm -f $kept/over
awk '{ passed += $1; failed += $2 } END { printf "%d passed, %d failed\n", passed, failed; exit failed || !passed }' \
    $kept/results
