#!/bin/bash
# A process reward model that finds out which of its records have wrong labels, from raw chains of sums to best of N:
# `make demo-prm`, in minutes. With seeds, `make result-prm`: the same for each seed, and weights of domains, in a
# table.
#
# The task: chains of five sums of one digit (chains.sh); half of the records to train on have labels that differ from
# the truth. A base is tuned as a language model on marked exercises (once for all seeds), then, as a first stage, as a
# reward model on other records with right labels. From there it is trained twice on the noisy records, with the same
# steps and rates, long enough to memorise them: with weight 1 for all, and with weights learned from records with right
# labels. The rate rises slowly, so that weights are learned before the model fits the noise. All files go
# into out/demo_prm (out/result_prm), which is rebuilt each time.
[ $# = 0 ] && demo=demo-prm || demo=result-prm
. "$(dirname "$0")/common.sh" || exit 1
export OMP_NUM_THREADS=1         # the model is too small for more
chains=recipes/demos/chains.sh
export MOST=9                    # of all numbers: so small a model learns these sums
length=72                        # positions of a row
records=256 first=4000 meta=1000 test=400 questions=2000 answers=8 of_domains=384
base_steps=${BASE_STEPS:-2400} first_steps=${FIRST_STEPS:-300} steps=${STEPS:-300} domain_steps=${DOMAIN_STEPS:-80}
base=(--lr 4e-3 --schedule cosine --warmup 0.05)
model=(--lr 5e-4 --warmup 0.6)   # for any record weights
weights=(--meta-lr 0.3)
by_domain=(--lr 3e-5 --meta-lr 0.1)

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
        <(sed 's/.*"noisy":\([a-z]*\).*/\1/' "$2") |
        awk -v of="$3" '$2 == of { s += $1; n++ } END { printf "%.3f", s / n }'
}
# The last value of a validation.
last() {                # RUN NAME
    sed -n 's/.*"eval_'"$2"'": \([0-9.e-]*\).*/\1/p' "$1/history.jsonl" | tail -n 1
}
# The weight of a domain.
weight_of() {           # RUN TRAIN DOMAIN
    paste -d ' ' <(sed 's/.*"weight": \([^}]*\)}.*/\1/' "$1/instance_weights.json") \
        <(sed 's/.*"domain":"\([a-z]*\)".*/\1/' "$2") | awk -v of="$3" '$2 == of { printf "%.3f", $1; exit }'
}

# The base, in $here/start.
tune() {
    say "the base, tuned as a language model on ticked exercises such as"
    $chains sheets 40000 4001 >$here/base.jsonl
    head -n 1 $here/base.jsonl
    run $here/base/run.sh --data $here/base.jsonl --tokenizer $here/tokenizer/tokenizer.json --init-from none \
        --seed 1 --steps $base_steps "${base[@]}" --eval-share 0.02 --log-every 200 --out $here/tuned
    run $here/base/run.sh --out $here/tuned --export $here/start
}

train() {               # PROGRAM SEED START DATA RUN ARGS...
    local program=$1 seed=$2 start=$3 data=$4 out=$5
    shift 5
    run "$here/$program/run.sh" --data "$data" --eval-data "$here/$seed/test.jsonl" \
        --tokenizer $here/tokenizer/tokenizer.json --init-from "$start" --seed "$seed" --eval-every 100 --log-every 50 \
        --out "$out" "$@"
}

# All stages with one seed, in $here/SEED.
way() {                 # SEED
    local to=$here/$1 kind program
    local started=$to/first/checkpoints/final_model
    mkdir -p "$to"
    $chains train $first "$(($1 + 5000))" 0 >"$to/first.jsonl"
    $chains train $records "$1" >"$to/train.jsonl"
    $chains meta $meta "$(($1 + 1000))" >"$to/meta.jsonl"
    $chains meta $test "$(($1 + 2000))" >"$to/test.jsonl"
    $chains candidates $questions "$(($1 + 3000))" $answers >"$to/candidates.jsonl"
    say "seed $1: data such as"
    head -n 1 "$to/train.jsonl"
    say "seed $1: the first stage, a model of steps by $first records with right labels"
    train none "$1" $here/start "$to/first.jsonl" "$to/first" --steps $first_steps --lr 2e-3
    say "seed $1: the model of steps, all records alike"
    train none "$1" "$started" "$to/train.jsonl" "$to/none" --steps $steps "${model[@]}"
    say "seed $1: the model of steps, a weight for each record"
    train instance "$1" "$started" "$to/train.jsonl" "$to/instance" --steps $steps "${model[@]}" \
        --meta-data "$to/meta.jsonl" "${weights[@]}"
    for kind in first none instance; do
        program=${kind/first/none}
        "$here/$program/run.sh" --out "$to/$kind" --tokenizer $here/tokenizer/tokenizer.json \
            --best-of-n "$to/candidates.jsonl" >"$to/$kind.best" 2>"$to/$kind.log" ||
            die "seed $1: --best-of-n: $(tail -n 1 "$to/$kind.log")"
        declare -g "steps_$kind=$(last "$to/$kind" step_accuracy)"
        declare -g "best_$kind=$(sed -n '2,$s/.*"accuracy":\([0-9.]*\).*/\1/p' "$to/$kind.best" | xargs)"
    done
    separate=$(above "$to/instance" "$to/train.jsonl")
    clean=$(mean_weight "$to/instance" "$to/train.jsonl" false)
    noisy=$(mean_weight "$to/instance" "$to/train.jsonl" true)
}

# Weights of three domains; after way().
domains() {             # SEED
    local to=$here/$1 name
    $chains train $of_domains "$(($1 + 6000))" a=0.1,b=0.5,c=0.9 >"$to/domains.jsonl"
    say "seed $1: a weight for each domain, of whose records 0.1, 0.5 and 0.9 are noisy"
    train domain "$1" "$to/first/checkpoints/final_model" "$to/domains.jsonl" "$to/domain" --steps $domain_steps \
        --meta-data "$to/meta.jsonl" "${by_domain[@]}"
    for name in a b c; do
        declare -g "domain_$name=$(weight_of "$to/domain" "$to/domains.jsonl" $name)"
    done
}

say "one recipe becomes programs: to tune the base, to train with records alike, with weights of records, of domains"
while read -r name fields; do
    # shellcheck disable=SC2086
    run $gen recipes/dreamprm_tiny.lua seq.max=$length batch.micro=32 $fields -o "$here/$name"
    make -s -j "$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)" \
        -C "$here/$name" >/dev/null || die "$here/$name does not build"
done <<END
base objective=lm data.kind=rows
none prm.weights=none prm.aggregate=min prm.system=
instance prm.records=$records meta.micro=64 prm.aggregate=min prm.system=
domain prm.weights=domain meta.micro=128 prm.aggregate=min prm.system=
END
$chains tokenizer $here/tokenizer
tune

if [ $# = 0 ]; then
    way 1
    say "the most suspicious records, by weight"
    head -n 5 $here/1/instance/suspicious_records.jsonl
    say "best of N: equal weights, then learned weights"
    paste <(sed 's/.*"n":\([0-9]*\),"accuracy":\([0-9.]*\),.*/\1 \2/' $here/1/none.best) \
        <(sed 's/.*"accuracy":\([0-9.]*\),"mean":\([0-9.]*\),"best":\([0-9.]*\).*/\1 \2 \3/' $here/1/instance.best) |
        awk 'BEGIN { printf "%4s %8s %8s %8s %8s\n", "N", "equal", "learned", "any", "possible" }
            { printf "%4d %8.3f %8.3f %8.3f %8.3f\n", $1, $2, $3, $4, $5 }'
    leaves $here/1/instance
    cat <<END

-- done in $((SECONDS - began)) s
mean weight: clean records $clean, noisy records $noisy; the clean one is larger in $separate of all pairs
step accuracy on held-out solutions: $steps_none with equal weights, $steps_instance with learned weights
($steps_first before)
$here/1/instance/instance_weights.json     a weight for each record
$here/1/instance/checkpoints/final_model   the model, for transformers
END
    exit 0
fi
rows=
for seed; do
    { way "$seed" && domains "$seed"; } >"$here/$seed.log" 2>&1 || { tail -n 3 "$here/$seed.log"; exit 1; }
    rows+="$seed $separate $clean $noisy $steps_first $steps_none $steps_instance"
    rows+=" $domain_a $domain_b $domain_c $best_first $best_none $best_instance"$'\n'
done
printf '%s' "$rows" | awk '
    # cells FROM TO FORMAT: columns of this line
    function cells(from, to, how,   k) { for (k = from; k <= to; k++) printf how, $k }
    function ahead(what, x) {
        if (!(what in sum)) name[++names] = what
        sum[what] += x; square[what] += x * x
    }
    BEGIN {
        printf "\n%-6s %-20s %-23s %-20s\n", "seed", "weights of records", "steps right", "weights of domains"
        printf "%-6s %-6s %-6s %-6s %-7s %-7s %-7s %-6s %-6s %s\n", "", "AUC", "right", "noisy",
            "before", "equal", "learned", "0.1", "0.5", "0.9"
    }
    {
        printf "%-6s", $1; cells(2, 4, " %-6.3f"); cells(5, 7, " %-7.3f"); cells(8, 10, " %-6.3f"); print ""
        ahead("steps right", $7 - $6)
        each = (NF - 10) / 3                 # of 2, 4, 8
        best = best sprintf("%-6s", $1)
        for (k = 1; k <= each; k++) {
            best = best sprintf(" %-7.3f %-7.3f %-7.3f", $(10 + k), $(10 + each + k), $(10 + 2 * each + k))
            ahead("best of " 2 ^ k, $(10 + 2 * each + k) - $(10 + each + k))
        }
        best = best "\n"
        n++
    }
    END {
        printf "\n%-6s", "seed"
        for (k = 1; k <= each; k++) printf " %-23s", "best of " 2 ^ k
        printf "\n%-6s", ""
        for (k = 1; k <= each; k++) printf " %-7s %-7s %-7s", "before", "equal", "learned"
        printf "\n%s\n", best
        for (k = 1; k <= names; k++) {
            mean = sum[name[k]] / n
            printf "%s: learned weights are ahead by %.3f on the average", name[k], mean
            if (n > 1)
                printf ", the standard error over seeds %.3f",
                    sqrt((square[name[k]] - n * mean * mean) / (n - 1) / n)
            print ""
        }
    }'
echo "($((SECONDS - began)) s)"
