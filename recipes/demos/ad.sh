#!/bin/bash
# Algorithm distillation on darkroom, from histories to returns on held-out tasks: `make demo-ad`, a small model in
# minutes. With seeds, `make result-ad`: models of full size with a plain and a compressed context, and tables of their
# returns, one evaluation per sampling seed, at three temperatures.
#
# Stages: PPO trains a policy on each of 81 goals, and its steps are recorded; a model is trained to predict the next
# action of these histories, 73 goals; then it acts on the 8 others, from an empty context and without training. The
# demo's files go into out/demo_ad, which is rebuilt each time. out/result_ad stays: the same command continues
# with the stage at which it was stopped; `rm -r out/result_ad` starts over.
#   STEPS=N       updates of a model
#   EPISODES=N    episodes of an agent
#   PPO_SEEDS=42  seeds of PPO, one policy per goal for each
#   TRAINED=0     seeds of training, one model of each kind for each seed
[ $# = 0 ] && demo=demo-ad || { demo=result-ad goes_on=1; }
. "$(dirname "$0")/common.sh" || exit 1
[ $# = 0 ] && sources=${PPO_SEEDS:-42} || sources=${PPO_SEEDS:-42 1000 2000 3000 4000 5000 6000 7000}
source=
for s in $sources; do source+=,$here/source/datasets/history_darkroom_PPO_alg-seed$s.safetensors; done
source=${source#,}
updates=${STEPS:-40000} episodes=${EPISODES:-500}
first_source=${source%%,*}
test_goals="38 51 62 65 33 5 53 49"
table=$here/results

# Programs of stages; a model's kind is its context.
emit() {                # NAME RECIPE-ARGS...
    local name=$1
    shift
    run $gen "$@" -o "$here/$name"
    make -s -j "$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)" \
        -C "$here/$name" >/dev/null || die "$here/$name does not build"
}
# Mean returns of an episode of the first source's first and last rollout with task $2, by the program $1.
of_source() {
    "$here/$1/run.sh" --data "$first_source" --source-streams 0 --source-steps 0 --show-regions "$2" |
        sed -n '$s/.*return: \([0-9.]*\).* \([0-9.]*\)$/\1 \2/p'
}
# The member $2 of each task in the report $1, and of all tasks after these.
member() { sed -n 's/.*"'"$2"'":\([0-9.e-]*\).*/\1/p' "$1"; }
# Mean returns episode by episode.
by_episode() { sed -n '/"by_episode"/,/\]/s/^ *\([0-9.e-]*\),*$/\1/p' "$1/eval_result.json"; }

# Every value of a number in the records of a run.
of_run() { sed -n 's/.*"'"$2"'": \([0-9.]*\).*/\1/p' "$1/history.jsonl"; }

train() {               # KIND SEED FLAGS...
    local kind=$1 seed=$2
    shift 2
    run "$here/$kind/run.sh" --data "$source" --eval-data "$first_source" --seed "$seed" \
        --out "$here/$kind-$seed" "$@"
}
# KIND TRAINED SEED TEMPERATURE EPISODES: its report in KIND-TRAINED/SEED.tTEMPERATURE.jsonl, and the curve
evaluate() {
    local to=$here/$1-$2 name=$3.t$4
    [ -s "$to/$name.jsonl" ] && return
    local how=(--evaluate --eval-episodes "$5" --temperature "$4" --seed "$3" --out "$to")
    echo "\$ $here/$1/run.sh ${how[*]}"
    "$here/$1/run.sh" "${how[@]}" >"$to/part" || die "--evaluate ended with $?"
    by_episode "$to" >"$to/$name.curve"
    mv "$to/part" "$to/$name.jsonl"
}

say "histories: a policy learns each goal by PPO"
[ $# = 0 ] || {
    set_to="STEPS=$updates EPISODES=$episodes PPO_SEEDS=\"$sources\""
    [ ! -e "$here/set" ] || [ "$(cat "$here/set")" = "$set_to" ] ||
        die "$here is of $(cat "$here/set"): give these again, or rm -r $here"
    echo "$set_to" >"$here/set"
}
began_sources=$SECONDS
for s in $sources; do
    [ ! -s "$here/source/datasets/history_darkroom_PPO_alg-seed$s.safetensors" ] || continue
    [ -s "$here/ppo/train" ] || emit ppo recipes/darkroom_ppo.lua
    run "$here/ppo/run.sh" --seed "$s" --out "$here/source"
done
[ $((SECONDS - began_sources)) -lt 5 ] || echo $((SECONDS - began_sources)) >>"$here/source/seconds"

if [ $# = 0 ]; then
    say "a small model with a compressed context, asked for all places of a region at once"
    emit compressed recipes/ad_tiny.lua ad.queries=all ad.n_transit=164 batch.micro=8 \
        model.dropout=0 model.attention_dropout=0
    say "a history of the goal in row 5, column 6: rewards, followed by the returns of episodes"
    "$here/compressed/run.sh" --data "$source" --show-regions 51
    train compressed 0 --steps "${STEPS:-8000}" --lr 2e-3 --warmup 200 --eval-every 1000 --log-every 200
    say "in the goals that it was not trained on"
    evaluate compressed 0 1 1 "${EPISODES:-100}"
    report=$here/compressed-0/1.t1.jsonl
    for g in $test_goals; do of_source compressed "$g"; done >"$here/source.txt"
    paste <(echo "$test_goals" | tr ' ' '\n') <(member "$report" random) "$here/source.txt" \
        <(member "$report" first_episode) <(member "$report" last_episodes) <(member "$report" best_possible) |
        awk 'BEGIN { print "goal   random  source: first  last   in context: first episode  last ones  best possible" }
            NF == 7 { printf "%d,%d %9.2f %14.2f %5.2f", $1 / 9, $1 % 9, $2, $3, $4
                      printf " %27.2f %10.2f %14d\n", $5, $6, $7 }'
    say "mean return, episode by episode: nothing but the context changes"
    awk -v n="$(wc -l <"$here/compressed-0/1.t1.curve")" '
        { s += $1; k++ }
        NR % int(n / 10) == 0 { printf "episodes %3d to %3d %7.2f  ", NR - k + 1, NR, s / k
            for (i = 0; i < s / k; i += 0.25) printf "#"; print ""; s = k = 0 }' "$here/compressed-0/1.t1.curve"
    leaves "$here/compressed-0"
    printf '\n-- done in %s s\n' $((SECONDS - began))
    echo "$here/compressed-0   checkpoints, the record of the run, eval_result.npy"
    exit 0
fi

temperatures="1 0.8 0.65" seeds=$* trained=${TRAINED:-0}
say "models of 64 x 4 with either context, asked for all places at once"
all=(target=cpu ad.queries=all model.dropout=0 model.attention_dropout=0)
emit plain recipes/ad.lua "${all[@]}" batch.micro=4
emit compressed recipes/ad_compressed.lua "${all[@]}" ad.n_transit=164 batch.micro=8
for g in $test_goals; do of_source compressed "$g"; done >"$here/source.txt"
# Both at the same time, each with half of the cores: a pass is too small for many.
export OMP_NUM_THREADS=$((($(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc) + 1) / 2))
way() {                 # KIND SEED
    train "$1" "$2" --steps "$updates" --lr 2e-3 --log-every 500 --eval-every "$((updates / 2))"
    for t in $temperatures; do for s in $seeds; do evaluate "$1" "$2" "$s" "$t" "$episodes"; done; done
}
for seed in $trained; do
    for kind in plain compressed; do
        echo "$here/$kind-$seed.log"
        way $kind "$seed" >"$here/$kind-$seed.log" 2>&1 &
    done
    failed=
    for kind in compressed plain; do wait -n || failed=1; done
    [ -z "$failed" ] || die "$(tail -qn 1 "$here"/{plain,compressed}-"$seed.log")"
done

# ---- the tables
mkdir -p "$table"
each() {                # KIND TEMPERATURE MEMBER: the mean over seeds, a line a goal and one over all
    local files=() seed s
    for seed in $trained; do for s in $seeds; do
        files+=("<(member $here/$1-$seed/$s.t$2.jsonl $3)"); done; done
    eval "paste ${files[*]}" | awk '{ s = 0; for (i = 1; i <= NF; i++) s += $i; printf "%.4f\n", s / NF }'
}
one=$here/plain-${trained%% *}/$1.t1.jsonl
{
    cat "$here/source.txt"
    awk '{ a += $1; b += $2 } END { printf "%.4f %.4f\n", a / NR, b / NR }' "$here/source.txt"
} >"$here/source.all"
for t in $temperatures; do
    printf '\nActions drawn at temperature %s:\n\n' "$t"
    paste <(echo "$test_goals all" | tr ' ' '\n') <(member "$one" random) "$here/source.all" \
        <(each plain "$t" return) <(each plain "$t" last_episodes) \
        <(each compressed "$t" return) <(each compressed "$t" last_episodes) \
        <(member "$one" best_possible) | awk -v n="$episodes" '
        function share(x) { return sprintf("%.2f (%.0f %%)", x, 100 * x / $9) }
        BEGIN { last = n < 100 ? n : 100
            printf "| goal | random | source, first | last | plain, %d episodes | last %d |", n, last
            printf " compressed, %d | last %d | best |\n", n, last
            print "|---|---|---|---|---|---|---|---|---|" }
        { goal = $1 == "all" ? "mean" : int($1 / 9) "," $1 % 9
          printf "| %s | %.2f | %.2f | %.2f | %s | %s |", goal, $2, $3, $4, share($5), share($6)
          printf " %s | %s | %.2f |\n", share($7), share($8), $9 }'
done >"$table/table.md"
{
    printf '\n| context | trained with | at | draws of %s: all episodes |' "$seeds"
    printf ' of the last %s | updates | predictions | tokens | minutes |\n' "$((episodes < 100 ? episodes : 100))"
    echo '|---|---|---|---|---|---|---|---|---|'
    for kind in plain compressed; do for seed in $trained; do for t in $temperatures; do
        run=$here/$kind-$seed returns=
        for m in return last_episodes; do
            returns+=$(for s in $seeds; do member "$run/$s.t$t.jsonl" $m | tail -n 1; done | xargs printf ' %.2f')' |'
        done
        minutes=$(of_run "$run" train_runtime | awk '{ s += $1 } END { printf "%.1f", s / 60 }')
        echo "| $kind | $seed | $t |$returns $updates | $(of_run "$run" num_predictions | tail -n 1) |" \
            "$(of_run "$run" num_tokens | tail -n 1) | $minutes |"
    done; done; done
    [ ! -e "$here/source/seconds" ] || printf '\n%s policies a goal by PPO: %s minutes\n' "$(wc -w <<<"$sources")" \
        "$(awk '{ s += $1 } END { printf "%.1f", s / 60 }' "$here/source/seconds")"
} >>"$table/table.md"
{
    columns=() files=()
    for kind in plain compressed; do for seed in $trained; do for t in $temperatures; do for s in $seeds; do
        columns+=("$kind-$seed-t$t-$s") files+=("$here/$kind-$seed/$s.t$t.curve"); done; done; done; done
    (IFS=,; echo "episode,${columns[*]}")
    paste -d , "${files[@]}" | awk '{ print NR "," $0 }'
} >"$table/curves.csv"
cat "$table/table.md"
echo
echo "($((SECONDS - began)) s since this start; $table: the tables, curves.csv with the return of each episode)"
