#!/bin/bash
# Preference optimisation, from pairs of answers to a model that gives the better one, in minutes: `make demo-dpo`.
# With seeds, `make result-dpo`: the same for each seed, in a table.
#
# The task: reverse eight different letters. A model is first tuned on answers of which half are reversed and half are
# the letters in any order; it is the initial and the reference model. Then it is trained on pairs: the reversed letters
# are chosen, the others rejected. All files go into out/demo_dpo (out/result_dpo), which is rebuilt each time.
[ $# = 0 ] && demo=demo-dpo || demo=result-dpo
. "$(dirname "$0")/common.sh" || exit 2
export OMP_NUM_THREADS=1         # the model is too small for more
length=24                        # positions of a row: 8 letters, a blank, 8 letters, an end

# letters KIND N SEED: rows of the task; its own generator, because rand() differs between awks
letters() {
    awk -v kind="$1" -v n="$2" -v x="$3" '
        function pick(m) { x = x * 16807 % 2147483647; return 1 + int(x / 2147483647 * m) }
        function mix(s,  i, k, l, a, r) {
            for (i = 1; i <= 8; i++) a[i] = substr(s, i, 1)
            for (i = 8; i > 1; i--) { k = pick(i); l = a[i]; a[i] = a[k]; a[k] = l }
            for (i = 1; i <= 8; i++) r = r a[i]
            return r
        }
        BEGIN {
            for (k = 0; k < 9; k++) pick(2)
            while (n-- > 0) {
                s = r = ""
                while (length(s) < 8) {
                    c = substr("abcdefghijklmnopqrstuvwxyz", pick(26), 1)
                    if (!index(s, c)) { s = s c; r = c r }
                }
                m = mix(s)
                if (kind == "pairs") printf "{\"prompt\":\"%s \",\"chosen\":\"%s\",\"rejected\":\"%s\"}\n", s, r, m
                else printf "{\"prompt\":\"%s \",\"completion\":\"%s\"}\n", s, n % 2 ? r : m
            }
        }' </dev/null
}

# right FILE: of 100 answers how many are the chosen ones
right() { awk -F'"' '{ n++; good += $8 == $12 } END { printf "%.0f", n ? 100 * good / n : 0 }' "$1"; }
# number GROUP NAME FILE: of results/evaluation.json, after training
number() {
    sed -n '/"after"/,/"before"/{/"'"$1"'"/,/}/s/.*"'"$2"'": \([-0-9.e]*\).*/\1/p}' "$3"
}

# All stages with one seed, in $here/SEED; with the commands printed (`run`), or without.
way() {                 # SEED
    local to=$here/$1 sampled=(--answers 1000 --temperature 1 --top-p 1)
    mkdir -p "$to"
    letters tune 40000 "$1" >"$to/tune.jsonl"
    letters pairs 1100 "$(($1 + 1000))" >"$to/pairs.jsonl"
    say "seed $1: the start, tuned on answers of which half are right; data such as"
    head -n 2 "$to/tune.jsonl"
    run $here/tune/run.sh --data "$to/tune.jsonl" --tokenizer bytes --init-from none --seed "$1" --epochs 3 \
        --lr 3e-3 --schedule cosine --warmup 200 --eval-share 0.02 --log-every 1000 --out "$to/tuned" || exit
    run $here/tune/run.sh --out "$to/tuned" --export "$to/start"
    before=$(cat "$to"/start/* | sha256sum)
    say "seed $1: pairs, as the model sees them"
    run $gen pack --format pairs --tokenizer bytes --max-length $length --show 1 "$to/pairs.jsonl"
    say "seed $1: preference optimisation"
    run $here/dpo/run.sh --data "$to/pairs.jsonl" --tokenizer bytes --init-from "$to/start" --seed "$1" \
        --eval-batches 0 --log-every 20 --out "$to/run" || exit
    [ "$before" = "$(cat "$to"/start/* | sha256sum)" ] || die "the initial model has changed"
    $here/dpo/run.sh --data "$to/pairs.jsonl" --tokenizer bytes --init-from "$to/start" --out "$to/none" \
        "${sampled[@]}" >"$to/start.answers" 2>/dev/null || die "no answers of the initial model"
    $here/dpo/run.sh --data "$to/pairs.jsonl" --tokenizer bytes --out "$to/run" "${sampled[@]}" \
        >"$to/tuned.answers" 2>/dev/null || die "no answers of the tuned model"
    accuracy=$(number test accuracy "$to/run/results/evaluation.json")
    margin=$(number test margin "$to/run/results/evaluation.json")
    was=$(right "$to/start.answers") is=$(right "$to/tuned.answers")
    grows=$(awk -F, 'NR == 2 { first = $7 } NR > 2 { half[NR] = $7; n = NR } END {
        print (first == 0 && half[int(n / 2)] > 0 && half[n] > half[int(n / 2)]) }' "$to/run/results/dpo.csv")
    [ "$grows" = 1 ] || die "seed $1: the margin of validation does not grow: $to/run/results/dpo.csv"
    below 0.9 "$accuracy" || die "seed $1: held-out pairs: accuracy $accuracy, must be more than 0.9"
    [ "$is" -ge $((was + 30)) ] || die "seed $1: $is of 100 sampled answers are correct, initially $was"
}

say "one recipe becomes two programs: to tune the start, and to optimise preferences"
for one in "tune objective=lm data.kind=rows batch.global=16" dpo; do
    read -r name fields <<<"$one"
    # shellcheck disable=SC2086
    run $gen recipes/dpo_tiny.lua seq.max=$length $fields -o "$here/$name"
    make -s -j "$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)" \
        -C "$here/$name" >/dev/null || die "$here/$name does not build"
done

if [ $# = 0 ]; then
    way 1
    run $here/dpo/run.sh --data $here/1/pairs.jsonl --tokenizer bytes --out $here/1/run --perplexity
    say "an example from results/distributed_output_test.txt"
    head -n 12 $here/1/run/results/distributed_output_test.txt
    leaves $here/1/run
    cat <<END

-- done in $((SECONDS - began)) s
held-out pairs: accuracy $accuracy, margin $margin; the initial model's files are unchanged
correct sampled answers: initial model $was of 100, trained model $is
$here/1/run/results     dpo.csv (losses, margins, accuracy, log-probabilities), example answers, evaluation.json
$here/1/run/workspace   the trained model for transformers (config.json, model.safetensors)
$here/1/run/.reference_cache   the reference's log-probabilities of all pairs
END
    exit 0
fi
rows=
for seed; do
    way "$seed" >"$here/$seed.log" 2>&1 || { tail -n 3 "$here/$seed.log"; exit 1; }
    rows+=$(printf '%-6s %-10s %-8s %-12s %s' "$seed" "$accuracy" "$(printf %.3f "$margin")" "$was" "$is")$'\n'
done
printf '\n%-6s %-10s %-8s %-12s %s\n%s' seed accuracy margin "initial" "trained" "$rows"
echo "(accuracy and margin on 110 held-out pairs; correct answers of 100 sampled; $((SECONDS - began)) s)"
