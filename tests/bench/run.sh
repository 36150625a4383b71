#!/bin/bash
# Times our binaries against PyTorch: tests/bench/run.sh [CASE ...]; needs PYTHON with the packages
# of tests/oracle/requirements.txt. Both sides run in turns, RUNS times each, with THREADS threads.
# Prints a table and writes tests/bench/results/CASE.ISA.json. Timings are never tests.
#   TEXT=FILE (of case pack) RUNS=5 THREADS=$(nproc) PEER_SECONDS=10 MODES="eager compile" (default: the case's)
#   PYTHON=python3 TARGET=cpu_native
# apart: needs PYTHON with its packages, and is no test
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

# case, recipe in recipes/, steps of ours in a run, modes of peer.py between commas (-: no peer),
# recipe fields. CASE/NAME: timed in turns with CASE, into the same file; without a peer its steps are next to
# those of the row above
qwen_dpo="objective=dpo data.kind=pairs seq.max=128 batch.targets=128 dpo.logp=sum dpo.kl=none"
CASES="gpt2_124m cpu_gpt2_124m 8 eager
qwen_lora cpu_qwen2.5_0.5b_lora 6 eager
tiny cpu_gpt_bench 60 eager
mlm mlm_h200_8gpu_standard 10 eager,rows,compile,rows-compile gpus=1 batch.micro=256 precision=fp32
llada llada_tiny 10 eager
llada/lm cpu_tiny_llama 10 - seq.max=256 batch.micro=16 model.kv_heads=4 model.ffn=256 \
model.vocab=69 model.positions=256 model.bos=-1 model.eos=-1
ad ad_compressed 3 eager,compile model.dropout=0 model.attention_dropout=0
ad/read ad_compressed 3 - model.dropout=0 model.attention_dropout=0 kernels.last_layer=read
ad/dropout ad_compressed 3 eager,compile
dpo cpu_qwen2.5_0.5b_lora 5 trl $qwen_dpo dpo.reference=adapter_off
dpo/cache cpu_qwen2.5_0.5b_lora 5 trl $qwen_dpo dpo.reference=cache
dpo/shared cpu_qwen2.5_0.5b_lora 5 - ${qwen_dpo/max=128/max=192} dpo.reference=cache dpo.shared_prompt=true
dpo/tiny dpo_tiny 60 eager
prm dreamprm_tiny 30 eager meta.micro=8
prm/u5 dreamprm_tiny 12 eager meta.micro=8 prm.unroll=5
prm/plain dreamprm_tiny 60 eager prm.weights=none"

# Cases of which a step is counted, one micro-batch; and in fp32 its share of the FMA peak.
COUNTED="gpt2_124m ad llada tiny dpo"

# As PyTorch's tuning guide advises for CPUs: freed activations stay with the process.
peer_env=(MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=100000000000 MALLOC_TOP_PAD_=268435456)

# and pack: gen pack against tokenizers, of a text TEXT or one that is made; ppo: updates of darkroom_ppo against
# PyTorch's, PEER_SECONDS of these a run; ranks: ranks.sh, without PyTorch
cases=$(awk '$1 !~ "/" {print $1}' <<<"$CASES")
cases+=$'\npack\nppo\nranks'
want=${*:-$cases}
for case in $want; do
    if ! grep -qx "$case" <<<"$cases"; then
        echo "$0: no case $case; there are ${cases//$'\n'/ }" >&2
        exit 1
    fi
done
[ "$want" != ranks ] || exec $here/ranks.sh
"$PYTHON" -c 'import torch, transformers, peft, trl, psutil' || {
    echo "$0: pip install -r tests/oracle/requirements.txt; then PYTHON=.../python make bench" >&2
    exit 1
}

# $1: a case. Its rows of CASES: itself and those timed with it.
rows_of()
{
    awk -v case="$1" '$1 == case || index($1, case "/") == 1' <<<"$CASES"
}

build()
{
    local name recipe fields built
    while read -r name recipe _ _ fields; do
        built=out/bench_${name//\//_}
        # shellcheck disable=SC2086      # words
        if ! { out/.gen/gen "recipes/$recipe.lua" target="$TARGET" $fields -o "$built" &&
            make -C "$built"; } >"$tmp/build" 2>&1; then
            tail -n 5 "$tmp/build" >&2
            echo "$name: $recipe does not build" >&2
            return 1
        fi
    done
}

# $1: a row's name, $2: its recipe, $3: recipe fields. For a line of ours: what a step is, and in fp32 the FMA peak.
counts()
{
    grep -qw "${1%%/*}" <<<"$COUNTED" || return 0
    # shellcheck disable=SC2086      # words
    out/.gen/gen plan "recipes/$2.lua" target="$TARGET" $3 | awk -v peak="$("$tmp/peak")" '
        NR == 1 && /, fp32,/ { fma = "\"peak_gflops\": " peak ", " }
        / tokens a step$/ { sequences = $(NF - 6); places = $(NF - 3) }
        /schedule train/ { printf "\"gflop\": %s, \"sequences\": %s, \"places\": %s, %s", $3, sequences, places, fma }'
}

# $1: a row's name, $2: steps, $3: modes, $4: recipe fields, $5: the recipe. One run of each side.
turn()
{
    local case=${1%%/*} mode
    local counts
    counts=$(counts "$1" "$5" "$4") || return 1
    "out/bench_${1//\//_}/train" --bench-steps "$2" --threads "$THREADS" --out "$tmp/run" \
        2>"$tmp/err" >"$tmp/line" || { tail -n 3 "$tmp/err" >&2; return 1; }
    sed "s|^{|{\"case\": \"$1\", \"fields\": \"$4\", $counts|" "$tmp/line" >>"$tmp/$case.ours"
    [ "$3" != - ] || return 0
    for mode in ${MODES:-${3//,/ }}; do
        env "${peer_env[@]}" "$PYTHON" $here/peer.py "$1" --seconds "$PEER_SECONDS" \
            --threads "$THREADS" --mode "$mode" 2>"$tmp/err" >>"$tmp/$case.peer" ||
            { tail -n 3 "$tmp/err" >&2; return 1; }
    done
}

export OMP_NUM_THREADS=$THREADS
gcc -O3 -ffp-contract=fast -march=native -mprefer-vector-width=512 -fopenmp -std=c11 -I. -o "$tmp/peak" $here/peak.c ||
    exit 1
failed=0
for case in $want; do
    [ "$case" != ranks ] || continue         # last
    if [ "$case" = pack ]; then
        # shellcheck disable=SC2086      # none or one
        "$PYTHON" $here/pack.py out/.gen/gen "$THREADS" "$RUNS" ${TEXT:+"$TEXT"} || failed=1
        continue
    fi
    if [ "$case" = ppo ]; then
        build <<<"ppo darkroom_ppo - -" &&
            "$PYTHON" $here/ppo.py out/bench_ppo/train "$THREADS" "$PEER_SECONDS" "$RUNS" || failed=1
        continue
    fi
    build < <(rows_of "$case") || { failed=1; continue; }
    : >"$tmp/$case.ours"
    : >"$tmp/$case.peer"
    for ((run = 1; run <= RUNS; run++)); do
        while read -r name recipe steps modes fields; do
            echo "$name: run $run of $RUNS" >&2
            turn "$name" "$steps" "$modes" "$fields" "$recipe" </dev/null || failed=1
        done < <(rows_of "$case")
    done
    recipe=$(rows_of "$case" | awk '{print $2; exit}')
    "$PYTHON" $here/table.py add "$case" "$recipe" "$tmp" "$THREADS" || failed=1
done
# shellcheck disable=SC2086      # a list of names
[[ " ${want//$'\n'/ } " != *" ranks "* ]] || $here/ranks.sh || failed=1
# shellcheck disable=SC2086
want=$(printf '%s\n' $want | grep -vx -e pack -e ppo -e ranks)
# shellcheck disable=SC2086
[ -z "$want" ] || "$PYTHON" $here/table.py print $want
exit $failed
