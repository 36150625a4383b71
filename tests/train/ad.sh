#!/bin/bash
# Algorithm distillation: runs against the same runs in PyTorch (tests/oracle/ad.py), where each query is a sequence of
# its own, as long as it is: also those of a region that a program asks all at once, and those in padded batches; ranks,
# 16 bit, what an untrained model knows; killed runs, histories, what a run leaves, what is refused;
# agents in context.
source "$(dirname "$0")/lib.sh"

programs <<<"
ad_one ad_one
ad_one.2x1 ad_one gpus=2 batch.accum=1 memory.recompute=block
ad_all ad_all
ad_last.bf16 ad_all ad.boundary=last precision=bf16
ad_plain ad_plain
ad_windows ad_plain ad.queries=all batch.micro=2
ad_one.3x2x1 ad_one gpus=3 batch.micro=1
ad_one.read ad_one kernels.last_layer=read
"

# ---- runs in PyTorch

for name in ad_one ad_all ad_plain ad_windows ad_one.2x1 ad_one.read; do
    trained $name ${name%%.*} $name
    compare $name reference $ref/${name%%.*} "$scratch/$name"
done
divided ad_one.3x2x1 ad_one eval_loss
trained ad_last.bf16 ad_last bf16
compare ad_last.bf16 reference $ref/ad_last "$scratch/bf16" 4e-3

# ---- the logits of queries, by the program that evaluations use

dir=$work/ad_all
# shellcheck disable=SC2046
gcc -std=c11 -Og -Wall -Wextra -Werror -I$dir -DDIECAST_RANKS=1 -fopenmp $haste -o "$scratch/act" $here/act.c \
    $dir/.obj/step.o $(find $dir/.obj/runtime $dir/.obj/kernels -name '*.o') \
    -ldnnl -lcjson -lpcre2-8 -lutf8proc -lpthread -lm 2>"$scratch/log" || verdict act "$(head -n 3 "$scratch/log")"
"$scratch/act" $ref/ad_all/model $ref/ad_all/act.json || failed=1

# ---- what an untrained model knows: nothing of five actions, of three types

# within 0.4 of ln 5 and ln 3: what first weights add
for name in ad_all ad_plain; do
    trained $name $name untrained --init-from none --eval-only
    verdict "$name: untrained" "$(grep eval_loss "$scratch/untrained.log" | tr ',{}' '\n' | awk -F '": ' '
        function off(x, of) { return x < of - 0.4 || x > of + 0.4 }
        /eval_loss_action/ { n++; if (off($2, log(5))) print }
        /eval_loss_token_type/ && $2 != "null" { n++; if (off($2, log(3))) print }
        END { if (n != ("'$name'" == "ad_all" ? 2 : 1)) print n " losses" }')"
done
# ---- histories

# Other histories: of the first task that is tested on the last step stays where it is.
other=$scratch/other.safetensors
cp $ref/ad_one/tokens.safetensors "$other"
header=$(od -An -tu8 -N8 "$other" | tr -d ' ')
at() {                  # TENSOR BYTE: where it stands in the file
    local begin
    begin=$(tail -c +9 "$other" | head -c "$header" | grep -o "\"38/$1\":{[^}]*}" |
        sed 's/.*offsets":\[\([0-9]*\),.*/\1/')
    echo $((8 + header + begin + $2))
}
read -r row column < <(od -An -tu1 -j "$(at states 158)" -N2 "$other")
write() { printf "\\x$2" | dd of="$other" bs=1 seek="$1" conv=notrunc status=none; }
write "$(at actions 79)" 04
write "$(at next_states 158)" "0$row"
write "$(at next_states 159)" "0$column"
write "$(at rewards 79)" "0$([ "$row $column" != "4 2" ]; echo $?)"

# Killed: the same bits, of the same histories alone.
args=(--save-every 3 --save-total-limit 2)
trained ad_one ad_one straight "${args[@]}"
{ DIECAST_FAULT=kill9:rank=0:step=8 train ad_one ad_one killed "${args[@]}"; } 2>/dev/null &&
    verdict killed "it was not"
own() {                 # RUN ARGS...: without --eval-data; what it said is in $scratch/RUN.log
    local run=$scratch/$1
    shift
    [[ " $* " = *" --show-regions "* ]] || set -- --init-from $ref/ad_one/model "$@"
    "$work/ad_one/run.sh" --out "$run" "$@" >"$run.log" 2>&1
}
refused() {             # NAME CODE TEXT RUN ARGS...
    local name=$1 want=$2 text=$3
    shift 3
    own "$@"
    local code=$?
    verdict "$name" "$([ $code = "$want" ] && [ "$(grep -c '^\(rank\|train:\) ' "$scratch/$1.log")" = 1 ] &&
        grep -q -- "$text" "$scratch/$1.log" || echo "exit $code: $(tail -n 2 "$scratch/$1.log")")"
}
refused "resumed with other histories" 83 'checkpoint-6: data: other histories; --allow' \
    killed --data "$other" "${args[@]}"
refused "resumed with fewer steps of them" 83 'data: histories 1x80 -> 1x72 (files x steps), samples [0-9]* -> [0-9]*; --allow' \
    killed --data $ref/ad_one/tokens.safetensors --source-steps 72 "${args[@]}"
trained ad_one ad_one killed "${args[@]}"
verdict "histories, resumed" "$(grep -q 'resumed from .*checkpoint-6$' "$scratch/killed.log" ||
    tail -n 3 "$scratch/killed.log")"
same "histories, resumed" straight killed 10
verdict "names of checkpoints" "$(cd "$scratch/killed" && [ "$(echo ckpt-*)" = "ckpt-10 ckpt-9" ] || echo ckpt-*
    cmp ckpt-9/model.safetensors checkpoint-9/model.safetensors 2>&1)"
own killed --data $ref/ad_one/tokens.safetensors --steps 1 --force
verdict "--force moves such names" "$(cd "$scratch/killed" && [ "$(echo ckpt-* aside-1/ckpt-*)" = \
    "ckpt-1 aside-1/ckpt-10 aside-1/ckpt-9" ] || echo ckpt-* aside-1/*)"

# Validation data: the tasks that are not trained on, of the same file or another one.
last() { tr ',' '\n' <"$scratch/$1.log" | grep -E '"eval_(loss|loss_action|acc_token_type|samples)"'; }
own same --data $ref/ad_one/tokens.safetensors --eval-only
verdict "a validation alone makes no events" "$(ls -d "$scratch/same/runs" 2>/dev/null)"
own named --eval-data $ref/ad_one/tokens.safetensors --eval-only
own other --data $ref/ad_one/tokens.safetensors --eval-data "$other" --eval-only
own more --eval-data "$other" --source-steps 24 --eval-only
verdict "validation without --eval-data" "$([ "$(last same | wc -l)" = 4 ] && [ "$(last same)" = "$(last named)" ] ||
    echo "$(last same) and $(last named)"
    [ "$(last same)" != "$(last other)" ] || echo "other histories: the same")"
# 8 tasks, 3 regions, 9 places
verdict "validation, some steps" "$(last more | grep -q 'samples": 216}' || last more)"

own shown --data $ref/ad_one/tokens.safetensors --show 8
title='^step 1 micro-batch [12] row [1-4]: sample [0-9]+: task [0-9]+, stream 0, region from step [0-9]+, [0-9]+ tokens?, 1'
verdict "rows for people" "$([ "$(grep -cE "$title target$" "$scratch/shown.log")" = 8 ] &&
    grep -qE '^  \*  [0-8],[0-8] \? -> (a[0-4]|</c>)$' "$scratch/shown.log" ||
    head -n 20 "$scratch/shown.log")"
data='^  data       6570 samples of 18 positions (histories:[0-9a-f]*/1x80), 822 steps an epoch$'
verdict "counts in the banner" "$(grep -q "$data" "$scratch/straight.log" &&
    grep -q '^  predicts   8 a step, those of 0.8889 regions$' "$scratch/straight.log" &&
    grep -q '^  histories  73 to train on, 8 to test on$' "$scratch/straight.log" &&
    grep -q 'Number of processes: 1, distributed type: NO, mixed precision: no, gradient accumulation steps: 2' \
        "$scratch/straight.log" || sed -n 1,15p "$scratch/straight.log")"
own timed --bench-steps 1
verdict "steps without histories" "$(grep -q '"predictions_per_second": [0-9]' "$scratch/timed.log" ||
    tail -n 2 "$scratch/timed.log")"

# Several files: each gives its streams; of those of the test the first of each.
ours=$ref/ad_one/tokens.safetensors
own two --data "$ours,$other" --steps 1
verdict "histories of two files" "$(grep -q '^  data       13140 samples of 18 positions (histories:[0-9a-f]*/2x80), ' \
    "$scratch/two.log" && grep -q '^  histories  146 to train on, ' "$scratch/two.log" || sed -n 1,15p "$scratch/two.log")"
own shown --data "$ours,$other" --show 60
verdict "rows of both" "$(sed -n 's/.* step [0-9]* of \([^ ,]*\), .*/\1/p' "$scratch/shown.log" | sort | uniq -c |
    awk '$1 >= 10 { n[$2] = $1 }
        END { if (n["tokens.safetensors"] + n["other.safetensors"] != 60) print "not of both" }')"
own apart --eval-data "$ours,$other" --eval-only
verdict "validated on both" "$(last apart | grep -q 'samples": 1440}' || last apart)"
refused "resumed with one file more" 83 'data: histories 1x80 -> 2x80 (files x steps), samples ' \
    killed --data "$ours,$other" "${args[@]}"
cp "$ours" "$scratch/again-other.safetensors"
refused "the same histories twice" 88 'other.safetensors has the same histories as .*tokens.safetensors: name each once' \
    bad --data "$ours,$scratch/again-other.safetensors"
refused "a list without files" 80 '--data and --eval-data name files of histories, but got ","' bad --data ,
refused "regions of two files" 80 '--show-regions: --data must name one file, got 2' \
    bad --data "$ours,$other" --show-regions 3

refused "tokens are no histories" 88 'not histories of darkroom: there is no tensor 0/actions' \
    bad --data tests/train/ref/gpt2_tiny/tokens.safetensors
refused "more streams than there are" 80 'has 1 streams a task, but --source-streams is 2: give --source-streams 1, or 0' \
    bad --data $ref/ad_one/tokens.safetensors --source-streams 2
refused "histories shorter than a region" 88 'streams have 7 steps, fewer than a region' \
    bad --data $ref/ad_one/tokens.safetensors --source-steps 7

# Its objective has no --eval-share.
refused "a validation without records" 80 '--eval-only needs --eval-data FILE$' bad --eval-only

# ---- in context: agents of a model that knows nothing, in the 8 tasks of the test

lines() { grep '^{' "$scratch/$1.log"; }
few=(--eval-episodes 2 --eval-streams 2)
own agents --evaluate "${few[@]}"
cp "$scratch/agents.log" "$scratch/agents1.log"
cp "$scratch/agents/eval_result.npy" "$scratch/first.npy"
verdict "a line for each task and one over all" "$(lines agents1 | tr -d '{}[]"' | tr ':' ',' | awk -F , '
    $1 == "goal" { n++; sum += $5; if ($5 < 0 || $5 > $NF) print; best += $NF }
    $1 == "tasks" { all++; if ($2 != 8 || $4 < sum / 8 - 1e-9 || $4 > sum / 8 + 1e-9) print }
    END { if (n != 8 || all != 1 || best != 138) print n " tasks, best " best }')"
verdict "returns as files" "$([ "$(wc -c <"$scratch/first.npy")" = $((128 + 8 * 2 * 8)) ] &&
    grep -q '"episodes": 2,' "$scratch/agents/eval_result.json" || ls -l "$scratch/agents")"
"$work/ad_one.2x1/run.sh" --init-from $ref/ad_one/model --out "$scratch/agents" --evaluate "${few[@]}" \
    >"$scratch/agents2.log" 2>&1
verdict "two ranks, the same returns" "$(diff <(lines agents1) <(lines agents2) 2>&1 | head -n 2
    cmp "$scratch/first.npy" "$scratch/agents/eval_result.npy" 2>&1)"
own agents --evaluate --goal-idx 3 "${few[@]}"
verdict "one of the tasks" "$([ "$(lines agents | head -n 1)" = "$(lines agents1 | sed -n 4p)" ] &&
    [ -s "$scratch/agents/eval_result_goal3.npy" ] && cmp "$scratch/first.npy" "$scratch/agents/eval_result.npy" ||
    tail -n 3 "$scratch/agents.log")"
own agents --evaluate --seed 1 "${few[@]}"
verdict "another seed, other draws" "$([ "$(lines agents)" != "$(lines agents1)" ] || echo "the same returns")"
own agents --evaluate --seed 9223372036854775807 --goal-idx 2 "${few[@]}"
verdict "a seed beyond doubles" "$(grep -q '"seed": 9223372036854775807,' "$scratch/agents/eval_result_goal2.json" ||
    grep seed "$scratch/agents/eval_result_goal2.json")"
own warm --evaluate --temperature 1 "${few[@]}"
own cold --evaluate --temperature 0 "${few[@]}"
own cold2 --evaluate --temperature 0 --seed 1 "${few[@]}"
verdict "draws at a temperature" "$([ "$(lines warm)" = "$(lines agents1)" ] && [ "$(lines cold)" != "$(lines warm)" ] &&
    [ "$(lines cold | wc -l)" = 9 ] && [ "$(lines cold)" = "$(lines cold2)" ] || echo "1, 0, 0: $(lines warm | tail -n 1)"\
    "$(lines cold | tail -n 1) $(lines cold2 | tail -n 1)")"
log=$(cd "$scratch/straight" && echo logs/*/*)
verdict "a log of its own" "$([[ $log =~ ^logs/multi_gpu_20[0-9]{6}_[0-9]{6}/training.log$ ]] || echo "$log"
    sed 's/^....-..-.. ..:..:..  //' "$scratch/straight/$log" | sed 1d | diff - "$scratch/straight.log")"
trained ad_one ad_one during "${args[@]}" --evaluate-every 5 --eval-episodes 1
compare TensorBoard tags "$scratch/during" \
    "test/acc_action test/acc_token_type test/best_loss test/loss test/loss_action test/loss_token_type \
test/predictions_per_second test/return test/runtime test/samples_per_second test/steps_per_second \
train/acc_action train/acc_token_type train/loss train/loss_action train/loss_token_type train/lr \
train/predictions train/predictions_per_second train/tokens train/train_predictions_per_second"
verdict "evaluations during training" "$([ "$(grep -c '"return": [0-9]' "$scratch/during/history.jsonl")" = 2 ] &&
    cmp "$scratch/during/checkpoint-10/model.safetensors" "$scratch/straight/checkpoint-10/model.safetensors" ||
    grep -o '"return": [^,]*' "$scratch/during/history.jsonl")"
trained ad_one ad_one each --log-every 5 --evaluate-every 2 --eval-episodes 1
verdict "each evaluation during training stands" "$([ "$(grep '"return": [0-9]' "$scratch/each/history.jsonl" |
    sed 's/.*"step": \([0-9]*\).*/\1/' | tr '\n' ' ')" = "2 4 6 8 10 " ] ||
    grep -o '"return": [^}]*' "$scratch/each/history.jsonl")"

# Stopped: by itself nothing is written; during training what was left is made when the run goes on.
asked_to_stop() {       # RUN TEXT [FILE]: SIGTERM to $! when FILE, or what it said, has the text; its exit code
    local asked=$!
    for _ in $(seq 1000); do ! grep -qs -- "$2" "${3:-$scratch/$1.log}" || break; sleep 0.01; done
    kill -TERM $asked
    wait $asked
}
"$work/ad_one/run.sh" --init-from $ref/ad_one/model --out "$scratch/ends" --evaluate --eval-episodes 100000 \
    >"$scratch/ends.log" 2>&1 &
asked_to_stop ends '^8 tasks x 1 agent x 100000 episodes'
code=$?
verdict "an evaluation is stopped" "$([ $code = 91 ] && grep -q '^stopped on SIGTERM: nothing was written$' \
    "$scratch/ends.log" && grep -q '^next: .*run.sh .*--evaluate .* evaluates again$' "$scratch/ends.log" &&
    [ ! -e "$scratch/ends/eval_result.npy" ] || echo "code $code: $(tail -n 2 "$scratch/ends.log")")"
args=(--evaluate-every 7 --eval-episodes 60)
trained ad_one ad_one unstopped "${args[@]}"
"$work/ad_one/run.sh" --data $ref/ad_one/tokens.safetensors --eval-data $ref/ad_one/eval.safetensors \
    --init-from $ref/ad_one/model --out "$scratch/asked" "${args[@]}" >"$scratch/asked.log" 2>&1 &
asked_to_stop asked '"step": 7}' "$scratch/asked/history.jsonl"
code=$?
verdict "an evaluation during training is stopped" "$([ $code = 91 ] && grep -q '^step 7: the in-context evaluation' \
    "$scratch/asked.log" && ! grep -q '"return"' "$scratch/asked/history.jsonl" ||
    echo "code $code: $(tail -n 2 "$scratch/asked.log")")"
trained ad_one ad_one asked "${args[@]}"
same "an evaluation that was left" unstopped asked 10
refused "a task beyond those of the test" 80 '--goal-idx: must be the number of a test task, 0 to 7' agents --evaluate --goal-idx 8
refused "a task without --evaluate" 80 '--goal-idx: has no effect without --evaluate$' \
    bad --data $ref/ad_one/tokens.safetensors --goal-idx 2
own regions --data $ref/ad_one/tokens.safetensors --show-regions 38
regions() {             # REGIONS: what --show-regions of steps 0 to 8 * REGIONS - 1 has said, of regions of 8 steps
    grep -qE '^    16  <[.1]{4}\|[.1]{4}>  [ 0-9][0-9]$' "$scratch/regions.log" &&
        [ "$(grep -cE '^ +[0-9]+  <' "$scratch/regions.log")" = "$1" ] &&
        grep -qE "^1 streams, mean return:( [0-9.]+){$1}$" "$scratch/regions.log" || tail -n 3 "$scratch/regions.log"
}
verdict "regions of a history" "$(regions 10)"
own regions --data $ref/ad_one/tokens.safetensors --show-regions 38 --source-steps 24
verdict "regions of some steps" "$(regions 3)"
refused "regions of more streams than there are" 80 'has 1 streams a task, but --source-streams is 2' \
    bad --data "$ours" --show-regions 3 --source-streams 2
refused "regions of a task that is not there" 80 '--show-regions: must be 0..80' \
    regions --data $ref/ad_one/tokens.safetensors --show-regions 81

# ---- figures: of a run, drawn again long after it, of damaged folders, without the library

png() { [ "$(head -c 8 "$1" 2>/dev/null | od -An -tx1 | tr -d ' \n')" = 89504e470d0a1a0a ] || echo "no PNG: $1"; }
plot() {                # NAME CODE TEXT RUN ARGS...: --plot of a run
    local name=$1 want=$2 text=$3
    shift 3
    "$work/ad_one/run.sh" --plot --out "$scratch/$1" "${@:2}" >"$scratch/plot.log" 2>&1
    local code=$?
    verdict "$name" "$([ $code = "$want" ] && grep -q -- "$text" "$scratch/plot.log" ||
        echo "exit $code: $(tail -n 2 "$scratch/plot.log")")"
}
verdict "figures of a run" "$(for one in training losses return; do png "$scratch/during/plots/$one.png"; done)"
verdict "figures of an evaluation" "$(for one in '' _goal3; do png "$scratch/agents/plots/eval_result$one.png"; done)"
verdict "a figure of regions" "$(png "$scratch/regions/plots/regions_38.png")"
mv "$scratch/during/plots" "$scratch/plots"
plot "figures again" 0 'plots/training.png, plots/losses.png, plots/return.png$' during
verdict "the same figures" "$(diff -r "$scratch/plots" "$scratch/during/plots" 2>&1 | head -n 2)"
plot "figures of no run" 80 'nothing: not a run folder' nothing
plot "figures or none" 80 '--plot draws figures, --figures false draws none' during --figures false
plot "figures and another use" 80 'give one of them' during --eval-only
mkdir "$scratch/hidden" "$scratch/broken"
: >"$scratch/hidden/libcairo.so.2"
LD_LIBRARY_PATH=$scratch/hidden plot "figures without the library" 80 \
    'libcairo.so.2 is missing: install libcairo2' during
LD_LIBRARY_PATH=$scratch/hidden own unseen --data $ref/ad_one/tokens.safetensors --steps 1 --log-every 1
verdict "a run without the library" "$([ $? = 0 ] &&
    [ "$(grep -c '^no figures: libcairo.so.2 is missing' "$scratch/unseen.log")" = 1 ] &&
    [ ! -e "$scratch/unseen/plots" ] || tail -n 3 "$scratch/unseen.log")"
own unseen --data $ref/ad_one/tokens.safetensors --steps 1 --log-every 1 --figures false --force
verdict "a run that wants no figures" "$([ ! -e "$scratch/unseen/plots" ] && ! grep -q figures "$scratch/unseen.log" ||
    tail -n 3 "$scratch/unseen.log")"
{ head -n 2 "$scratch/during/history.jsonl"; echo damaged; tail -n +3 "$scratch/during/history.jsonl"; } \
    >"$scratch/broken/history.jsonl"
plot "a damaged history" 0 'history.jsonl: line 3: not a record of numbers' broken
rm "$scratch/broken/history.jsonl"
ln -s ../during/history.jsonl "$scratch/broken/history.jsonl"
plot "a history that is a link" 88 'history.jsonl: ' broken
rm "$scratch/broken/history.jsonl"
head -c 100 "$scratch/first.npy" >"$scratch/broken/eval_result.npy"
plot "returns of another shape" 88 'eval_result.npy: not an array of float64' broken

# ---- what the page says of memory: its commands make programs

variants=0
while read -r words; do
    # shellcheck disable=SC2086
    out/.gen/gen $words -o "$scratch/variant" >"$scratch/log" 2>&1 || verdict "gen $words" "$(tail -n 1 "$scratch/log")"
    variants=$((variants + 1))
done < <(sed -n 's/^    gen \(recipes\/ad_compressed.lua [^#&]*\).*/\1/p' recipes/ad.md)
verdict "programs with less memory" "$([ $variants = 5 ] || echo "$variants commands")"
exit $failed
