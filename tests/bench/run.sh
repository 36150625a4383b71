#!/bin/bash
# Times our binaries beside PyTorch: tests/bench/run.sh [CASE ...]; needs PYTHON with the packages
# of tests/oracle/requirements.txt. Both sides run in turns, RUNS times each, with THREADS threads.
# Prints a table and writes tests/bench/results/CASE.json. Timings are never tests.
#   RUNS=5 THREADS=$(nproc) PEER_SECONDS=10 MODES="eager compile" (default: the case's) PYTHON=python3 TARGET=cpu_native
set -u
RUNS=${RUNS:-5}
TARGET=${TARGET:-cpu_native}     # as PyTorch, which takes the instructions it finds
THREADS=${THREADS:-$(nproc)}
PEER_SECONDS=${PEER_SECONDS:-10}
PYTHON=${PYTHON:-python3}
here=tests/bench
export PYTHONDONTWRITEBYTECODE=1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# case, recipe in recipes/, steps of ours in a run, modes of peer.py between commas, recipe fields
CASES="gpt2_124m cpu_gpt2_124m 8 eager
qwen_lora cpu_qwen2.5_0.5b_lora 6 eager
tiny cpu_gpt_bench 60 eager
mlm mlm_h200_8gpu_standard 10 eager,rows,compile,rows-compile gpus=1 batch.micro=256 precision=fp32"

# What PyTorch's tuning guide asks for on CPUs: freed activations stay with the process.
peer_env=(MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=100000000000 MALLOC_TOP_PAD_=268435456)

want=${*:-$(awk '{print $1}' <<<"$CASES")}
for case in $want; do
    if ! grep -q "^$case " <<<"$CASES"; then
        echo "$0: no case $case; there are $(awk '{printf "%s ", $1}' <<<"$CASES")" >&2
        exit 1
    fi
done
"$PYTHON" -c 'import torch, transformers, peft, psutil' || {
    echo "$0: pip install -r tests/oracle/requirements.txt; then PYTHON=.../python make bench" >&2
    exit 1
}

export OMP_NUM_THREADS=$THREADS
failed=0
while read -r case recipe steps modes fields; do
    grep -qw "$case" <<<"$want" || continue
    built=out/bench_$case
    # shellcheck disable=SC2086      # words
    if ! { out/.gen/gen "recipes/$recipe.lua" target="$TARGET" $fields -o "$built" &&
        make -C "$built"; } >"$tmp/build" 2>&1; then
        tail -n 5 "$tmp/build" >&2
        echo "$case: $recipe does not build" >&2
        failed=1
        continue
    fi
    : >"$tmp/$case.ours"
    : >"$tmp/$case.peer"
    for ((run = 1; run <= RUNS; run++)); do
        echo "$case: run $run of $RUNS" >&2
        "$built/train" --bench-steps "$steps" --threads "$THREADS" --out "$tmp/run" \
            2>"$tmp/err" >>"$tmp/$case.ours" || { tail -n 3 "$tmp/err" >&2; failed=1; break; }
        for mode in ${MODES:-${modes//,/ }}; do
            env "${peer_env[@]}" "$PYTHON" $here/peer.py "$case" --seconds "$PEER_SECONDS" \
                --threads "$THREADS" --mode "$mode" 2>"$tmp/err" >>"$tmp/$case.peer" ||
                { tail -n 3 "$tmp/err" >&2; failed=1; break; }
        done
    done
    "$PYTHON" $here/table.py add "$case" "$recipe" "$tmp" "$THREADS" || failed=1
done <<<"$CASES"
# shellcheck disable=SC2086      # a list of names
"$PYTHON" $here/table.py print $want
exit $failed
