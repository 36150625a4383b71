#!/bin/bash
# A process reward model that finds out which of its records have wrong labels, from raw chains of sums to best of N:
# `make demo-prm`, in minutes. With seeds, `make result-prm`: the same of each of them, told in a table.
#
# The task: chains of five sums of one digit (chains.sh); of half of the records to train on the labels are drawn. A base
# is tuned as a language model on ticked exercises, then, as a first stage, as a model of steps on records with right
# labels. Upon that the model is trained twice on the others: all records count 1, and with weights that 200 right records
# teach. All files go into out/demo_prm (out/result_prm), which is made anew each time.
[ $# = 0 ] && demo=demo-prm || demo=result-prm
. "$(dirname "$0")/common.sh" || exit 1
export OMP_NUM_THREADS=1         # the model is too small for more
chains=recipes/demos/chains.sh
export MOST=9                    # of all numbers: so small a model learns these sums
length=72                        # places of a row
records=256 first=600 meta=200 test=200 questions=100 answers=8
base_steps=${BASE_STEPS:-2400} first_steps=${FIRST_STEPS:-150} steps=${STEPS:-200}
base=(--lr 4e-3 --schedule cosine --warmup 0.05)
model=(--lr 3e-4 --meta-lr 0.1)

# How often the weight of a record with right labels is above that of a noisy one
above() {               # RUN TRAIN
    paste <(sed 's/.*"weight": \([^}]*\)}.*/\1/' "$1/instance_weights.json") \
        <(sed 's/.*"noisy":\([a-z]*\).*/\1/' "$2") | sort -g | awk '
        { n++; w[n] = $1; noisy[n] = $2 == "true" }
        END {
            for (i = 1; i <= n; i = j) {        # equal weights share their ranks
                for (j = i; j <= n && w[j] == w[i]; j++) ;
                for (k = i; k < j; k++) if (!noisy[k]) { sum += (i + j - 1) / 2; right++ }
            }
            wrong = n - right
            if (right && wrong) printf "%.3f", (sum - right * (right + 1) / 2) / right / wrong
        }'
}
# Mean weight of records that are noisy (true) or not.
mean_weight() {         # RUN TRAIN true|false
    paste <(sed 's/.*"weight": \([^}]*\)}.*/\1/' "$1/instance_weights.json") \
        <(sed 's/.*"noisy":\([a-z]*\).*/\1/' "$2") | awk -v of="$3" '$2 == of { s += $1; n++ } END { printf "%.3f", s / n }'
}
# The last value of a validation.
last() {                # RUN NAME
    sed -n 's/.*"eval_'"$2"'": \([0-9.e-]*\).*/\1/p' "$1/history.jsonl" | tail -n 1
}

# The whole way with one seed, in $here/SEED.
way() {                 # SEED
    local to=$here/$1
    mkdir -p "$to"
    $chains sheets 40000 "$(($1 + 4000))" >"$to/base.jsonl"
    $chains train $first "$(($1 + 5000))" 0 >"$to/first.jsonl"
    $chains train $records "$1" >"$to/train.jsonl"
    $chains meta $meta "$(($1 + 1000))" >"$to/meta.jsonl"
    $chains meta $test "$(($1 + 2000))" >"$to/test.jsonl"
    $chains candidates $questions "$(($1 + 3000))" $answers >"$to/candidates.jsonl"
    say "seed $1: data such as"
    head -n 1 "$to/train.jsonl"
    say "seed $1: the base, tuned as a language model on ticked exercises such as"
    head -n 1 "$to/base.jsonl"
    run $here/base/run.sh --data "$to/base.jsonl" --tokenizer $here/tokenizer/tokenizer.json --init-from none \
        --seed "$1" --steps $base_steps "${base[@]}" --eval-share 0.02 --log-every 200 --out "$to/tuned"
    run $here/base/run.sh --out "$to/tuned" --export "$to/start"
    say "seed $1: the first stage, a model of steps by $first records with right labels"
    run $here/none/run.sh --data "$to/first.jsonl" --eval-data "$to/test.jsonl" \
        --tokenizer $here/tokenizer/tokenizer.json --init-from "$to/start" --seed "$1" --steps $first_steps \
        --lr 2e-3 --eval-every 50 --log-every 50 --out "$to/first"
    for kind in none instance; do
        say "seed $1: the model of steps, prm.weights=$kind"
        local weights=(--meta-data "$to/meta.jsonl")
        [ $kind = instance ] || weights=()
        [ $kind = instance ] || model_of=(--lr 3e-4)
        [ $kind = none ] || model_of=("${model[@]}")
        run $here/$kind/run.sh --data "$to/train.jsonl" "${weights[@]}" --eval-data "$to/test.jsonl" \
            --tokenizer $here/tokenizer/tokenizer.json --init-from "$to/first/checkpoints/final_model" --seed "$1" --steps $steps \
            "${model_of[@]}" --eval-every 100 --log-every 50 --out "$to/$kind"
        $here/$kind/run.sh --out "$to/$kind" --tokenizer $here/tokenizer/tokenizer.json \
            --best-of-n "$to/candidates.jsonl" >"$to/$kind.best" 2>"$to/$kind.log" ||
            die "seed $1: --best-of-n: $(tail -n 1 "$to/$kind.log")"
    done
    separate=$(above "$to/instance" "$to/train.jsonl")
    clean=$(mean_weight "$to/instance" "$to/train.jsonl" false)
    noisy=$(mean_weight "$to/instance" "$to/train.jsonl" true)
    for kind in none instance; do
        declare -g "steps_$kind=$(last "$to/$kind" step_accuracy)"
        declare -g "best_$kind=$(sed -n '$s/.*"accuracy":\([0-9.]*\).*/\1/p' "$to/$kind.best")"
    done
    mean=$(sed -n '$s/.*"mean":\([0-9.]*\).*/\1/p' "$to/none.best")
}

say "one recipe becomes three programs: to tune the base, to train with all records alike, and with learned weights"
while read -r name fields; do
    # shellcheck disable=SC2086
    run $gen recipes/dreamprm_tiny.lua seq.max=$length $fields -o "$here/$name"
    make -s -j "$(nproc)" -C "$here/$name" >/dev/null || die "$here/$name does not build"
done <<'END'
base objective=lm data.kind=rows batch.micro=32
none prm.weights=none batch.micro=32 prm.aggregate=min prm.system=
instance prm.records=256 batch.micro=32 meta.micro=64 prm.aggregate=min prm.system=
END
$chains tokenizer $here/tokenizer

if [ $# = 0 ]; then
    way 1
    say "the most suspicious records, by weight"
    head -n 5 $here/1/instance/suspicious_records.jsonl
    say "best of N: all records alike, then learned weights"
    paste <(sed 's/.*"n":\([0-9]*\),"accuracy":\([0-9.]*\),.*/\1 \2/' $here/1/none.best) \
        <(sed 's/.*"accuracy":\([0-9.]*\),"mean":\([0-9.]*\),"best":\([0-9.]*\).*/\1 \2 \3/' $here/1/instance.best) |
        awk 'BEGIN { printf "%4s %8s %8s %8s %8s\n", "N", "alike", "learned", "any", "possible" }
            { printf "%4d %8.3f %8.3f %8.3f %8.3f\n", $1, $2, $3, $4, $5 }'
    cat <<END

-- done in $((SECONDS - began)) s
weights: mean $clean of records with right labels, $noisy of noisy ones; in $separate of all pairs the former is larger
labels of steps that were not trained on: right $steps_none with all records alike, $steps_instance with learned weights
$here/1/instance/instance_weights.json     a weight for each record
$here/1/instance/checkpoints/final_model   the model, for transformers
END
    exit 0
fi
rows=
for seed; do
    way "$seed" >"$here/$seed.log" 2>&1 || { tail -n 3 "$here/$seed.log"; exit 1; }
    rows+=$(printf '%-6s %-8s %-8s %-8s %-8.3f %-8.3f %-8.3f %-8.3f %.3f' "$seed" "$separate" "$clean" "$noisy" \
        "$steps_none" "$steps_instance" "$best_none" "$best_instance" "$mean")$'\n'
done
printf '\n%-6s %-8s %-8s %-8s %-17s %-17s %s\n%-6s %-8s %-8s %-8s %-8s %-8s %-8s %-8s %s\n%s' \
    seed weights "" "" "steps right" "best of $answers" any "" "AUC" clean noisy alike learned alike learned "" "$rows"
echo "($((SECONDS - began)) s)"
