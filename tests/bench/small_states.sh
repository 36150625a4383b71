#!/bin/bash
# make result-small-states: what states that need less memory do to training. Each setting trains with the same seeds;
# the table has the mean of the last validation loss, its standard error, and how far it is from that of fp32 states,
# in standard errors of the difference. SEEDS="1 2 3 4 5" STEPS=400 PYTHON=python3
# Keeps: records, logs and the table in out/result_small_states, which is rebuilt.
set -u
cd "$(dirname "$0")/../.." || exit 2
gen=out/.gen/gen here=out/result_small_states
seeds=${SEEDS:-1 2 3 4 5} steps=${STEPS:-400} python=${PYTHON:-python3}
export OMP_NUM_THREADS=1         # the models are too small for more
rm -rf "$here"
mkdir -p "$here" || exit 1
die() {
    echo "result-small-states: $1" >&2
    exit 1
}

# program NAME RECIPE [FIELD=VALUE ...]
program() {
    "$gen" "recipes/$2.lua" "${@:3}" -o "$here/$1" >"$here/$1.log" 2>&1 &&
        make -s -C "$here/$1" >>"$here/$1.log" 2>&1 || die "$1 does not build: $(tail -n 1 "$here/$1.log")"
}
# trains NAME SEED ARGS...
trains() {
    "$here/$1/run.sh" --out "$here/$1.$2" --seed "$2" "${@:3}" >"$here/$1.$2.log" 2>&1 ||
        die "$1, seed $2: $(tail -n 2 "$here/$1.$2.log")"
}
cat README.md gen/README.md recipes/*.md tests/README.md | tr -dc 'a-zA-Z .,;:\n' >"$here/prose.txt"
cat runtime/*/*.h gen/*/*.h >"$here/code.txt"
awk 'BEGIN { x = 7; for (i = 0; i < 600; i++) {
    s = ""; for (k = 0; k < 6; k++) { x = (x * 16807) % 2147483647; s = s substr("abcdefghijklmnop", x % 16 + 1, 1) }
    t = ""; for (k = 6; k; k--) t = t substr(s, k, 1)
    printf "{\"prompt\":\"%s \",\"chosen\":\"%s\",\"rejected\":\"%s\"}\n", s, t, s } }' >"$here/pairs.jsonl"

lm=(--data "$here/prose.txt" --tokenizer bytes --steps "$steps" --eval-share 0.1 --eval-every "$steps" --save-every 0)
dpo=(--data "$here/pairs.jsonl" --tokenizer bytes --init-from none --steps "$steps" --eval-share 0.1
    --eval-every "$steps" --save-every 0)
# NAME RECIPE FIELDS: the first of each kind is what the others are compared with
settings='lm_fp32 cpu_tiny precision=bf16 optim.master=fp32
lm_remainder cpu_tiny precision=bf16 optim.master=remainder
lm_8bit cpu_tiny precision=bf16 optim.moments=8bit
lm_none cpu_tiny precision=bf16 optim.master=none
lm_8bit_none cpu_tiny precision=bf16 optim.moments=8bit optim.master=none
dpo_fp32 dpo_tiny precision=bf16 optim.master=fp32
dpo_8bit dpo_tiny precision=bf16 optim.moments=8bit
dpo_none dpo_tiny precision=bf16 optim.master=none
dpo_8bit_none dpo_tiny precision=bf16 optim.moments=8bit optim.master=none
lora_same cpu_tiny_llama lora.rank=8
lora_nf4 cpu_tiny_llama lora.rank=8 lora.base=nf4'

program base cpu_tiny_llama
trains base 1 "${lm[@]}"
"$here/base/run.sh" --out "$here/base.1" --export "$here/model" >"$here/export.log" 2>&1 || die "$(tail -n 1 "$here/export.log")"
while read -r name recipe words; do
    # shellcheck disable=SC2086
    program "$name" "$recipe" $words
    case $name in
    lm_*) args=("${lm[@]}") ;;
    dpo_*) args=("${dpo[@]}") ;;
    *) args=(--data "$here/code.txt" --init-from "$here/model" --steps "$steps" --eval-share 0.1
        --eval-every "$steps" --save-every 0) ;;
    esac
    for seed in $seeds; do trains "$name" "$seed" "${args[@]}"; done
done <<<"$settings"

# Largest update of a weight, in learning rates: of fp32 weights, from every checkpoint to the next.
for moments in fp32 8bit; do
    program "update_$moments" cpu_tiny optim.moments=$moments
    trains "update_$moments" 1 "${lm[@]}" --steps 60 --eval-every 0 --save-every 1 --save-total-limit 0 --log-every 1 \
        --schedule constant --warmup 0 --weight-decay 0
done
# shellcheck disable=SC2086
"$python" tests/bench/small_states.py "$here" $seeds <<<"$settings" | tee "$here/table.txt"
exit "${PIPESTATUS[0]}"
