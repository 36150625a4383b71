#!/bin/bash
# make gpu-bench: times our CUDA programs on this machine's GPU against PyTorch, with the same shapes,
# precision and tokens a step, in turns. tests/bench/gpu.sh [CASE ...]; PYTHON has torch, transformers
# and peft; without them only our side is measured. Writes tests/bench/results/gpu_CASE.json. Needs
# one GPU and nvcc. WORDS: of the recipes. Where a recipe does not fit the card it runs with a smaller
# micro-batch and as many samples a step, or its row says why it has no figures.
#   RUNS=5 STEPS=30 PEER_SECONDS=20 MODES="eager compile" PYTHON=python3 RESULTS=tests/bench/results
#   WORDS="memory.recompute=block"
set -u
cd "$(dirname "$0")/../.." || exit 2
. tests/gpu/lib.sh
RUNS=${RUNS:-5}
PEER_SECONDS=${PEER_SECONDS:-20}
MODES=${MODES-eager compile}
PYTHON=${PYTHON:-python3}
RESULTS=${RESULTS:-tests/bench/results}
here=tests/bench
export PYTHONDONTWRITEBYTECODE=1
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# case, recipe in recipes/, timed steps of ours in a run
CASES="gpt2_124m h200x1_gpt2_124m 60
qwen_0.5b h200x1_qwen2.5_0.5b 40
qwen_7b_lora h200x1_qwen2.5_7b_lora 20
tiny h200x1_tiny 500"

want=${*:-$(awk '{print $1}' <<<"$CASES")}
for case in $want; do
    if ! grep -q "^$case " <<<"$CASES"; then
        echo "$0: no case $case; there are $(awk '{printf "%s ", $1}' <<<"$CASES")" >&2
        exit 1
    fi
done
gpu_need "$0"
imports='import torch, transformers, peft; assert torch.cuda.is_available()'
if [ -n "$MODES" ] && ! "$PYTHON" -c "$imports" 2>"$tmp/err"; then
    echo "$0: only our side: $PYTHON lacks torch with CUDA, transformers or peft ($(tail -1 "$tmp/err"))" >&2
    MODES=
fi
failed=0

# The most memory of the card that was in use while a command ran goes to $tmp/memory, MiB.
watched() {
    nvidia-smi -i "$GPU" --query-gpu=memory.used --format=csv,noheader,nounits -lms 200 \
        >"$tmp/samples" &
    local sampler=$! code
    "$@"
    code=$?
    kill "$sampler"
    wait "$sampler" 2>/dev/null
    sort -n "$tmp/samples" | tail -1 >"$tmp/memory"
    return $code
}

# A run's JSON line, with the card's memory, onto the end of a file.
keep() {
    sed "\$s/}\$/, \"card_mib\": $(cat "$tmp/memory")}/" "$tmp/line" | tail -1 >>"$1"
}

gpu_describe >"$tmp/card"
if gpu_build tests/bench/gpu_kernels.cu "$tmp/kernels" 2>"$tmp/err"; then
    "$tmp/kernels" >"$tmp/ceiling" || failed=1
else
    tail -n 3 "$tmp/err" >&2
    failed=1
fi
[ -z "$MODES" ] || "$PYTHON" $here/gpu_peer.py ceiling >"$tmp/peer_ceiling" || failed=1

# A row without figures, and why.
without() {             # CASE WHY
    echo "$1: $2" >&2
    printf '%-13s %s\n' "$1" "$2" >>"$tmp/without"
}

: >"$tmp/without"
measured=()
while read -r case recipe steps; do
    grep -qw -- "$case" <<<"$want" || continue
    # shellcheck disable=SC2086      # WORDS are several
    if ! fitting=$(gpu_fitting "$recipe" ${WORDS:-}); then
        without "$case" "$fitting"
        continue
    fi
    [ "$fitting" = "${WORDS:-}" ] || echo "$case: with $fitting, which this card has the memory for" >&2
    # shellcheck disable=SC2206      # several words
    words=("recipes/$recipe.lua" "target=$TARGET" "memory.limit_gib=$MEMORY_GIB" $fitting)
    if ! { out/.gen/gen "${words[@]}" -o "$tmp/$case" && make -C "$tmp/$case" -j"$(nproc)"; } \
        >"$tmp/build" 2>&1; then
        tail -n 5 "$tmp/build" >&2
        without "$case" "$recipe is not built"
        failed=1
        continue
    fi
    out/.gen/gen -d config "${words[@]}" >"$tmp/$case.config"
    : >"$tmp/$case.ours"
    : >"$tmp/$case.peer"
    for ((run = 1; run <= RUNS; run++)); do
        echo "$case: run $run of $RUNS" >&2
        if watched "$tmp/$case/train" --bench-steps "${STEPS:-$steps}" --out "$tmp/run" \
            >"$tmp/line" 2>"$tmp/err"; then
            keep "$tmp/$case.ours"
        else
            without "$case" "run $run: $(tail -n 1 "$tmp/err")"
            failed=1
            break
        fi
        for mode in $MODES; do
            if watched "$PYTHON" $here/gpu_peer.py "$tmp/$case.config" --seconds "$PEER_SECONDS" \
                --mode "$mode" >"$tmp/line" 2>"$tmp/err"; then
                keep "$tmp/$case.peer"
            else
                tail -n 3 "$tmp/err" >&2
                failed=1
            fi
        done
    done
    if [ -s "$tmp/$case.ours" ]; then
        if "$PYTHON" $here/gpu_table.py add "$case" "$recipe" "$tmp" "$RESULTS"; then
            measured+=("$case")
        else
            failed=1
        fi
    fi
    rm -rf "${tmp:?}/$case"
done <<<"$CASES"
"$PYTHON" $here/gpu_table.py print "$RESULTS" "${measured[@]}"
cat "$tmp/without"
exit $failed
