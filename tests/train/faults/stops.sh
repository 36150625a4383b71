# shellcheck shell=bash disable=SC2086,SC2154
# stops.sh -- the best validation, early stops, full disks, signals, kill -9. Sourced by faults.sh.

# ---- the best, and when to end --------------------------------------------------

refuses "--keep-best without data" 80 "--keep-best: this run has no validations; add --eval-data" gpt2_tiny $ours --keep-best
refuses "--eval-every without data" 80 "--eval-every: this run has no validations; add --eval-data" gpt2_tiny $ours --eval-every 5
refuses "--eval-batches without data" 80 "--eval-batches: this run has no validations" gpt2_tiny $ours --eval-batches 5
for flag in "--temperature 0.5" "--top-k 5" --greedy "--max-new-tokens 9"; do
    refuses "${flag% *} without a text to go on from" 80 \
        "${flag% *}: has no effect without --sample or --prompts or --chat$" gpt2_tiny $ours $flag
done

# Each flag of training, as --help lists them, next to each command that does not train: refused, with both names.
trained=$("$work/qwen2_lora/train" --help | awk '/^[a-z]/ { heading = $0 }
    heading ~ /^(steps and learning rate|optimiser)$/ && /^  --/ { print $1, $2 }')
verdict "flags of training" "$([ "$(wc -l <<<"$trained")" = 14 ] || echo "$trained")"
while read -r flag value; do
    case $value in X) value=0.5 ;; N) value=1 ;; *) value=${value%%|*} ;; esac
    for use in "--sample a" "--prompts x" --chat --eval-only "--export x" --merge-lora --plot; do
        said=$("$work/qwen2_lora/train" --out "$scratch/out" $use $flag=$value 2>&1)
        [ $? = 80 ] && grep -qe "$flag has no effect with ${use%% *}, which does not train: leave it out$" <<<"$said" ||
            echo "$use $flag: $said"
    done
done <<<"$trained" >"$scratch/said"
verdict "flags of training with other commands" "$(head -n 3 "$scratch/said")"
uses "more tokens than there is room for" "^--max-new-tokens 99: the program has room for 32 tokens with the prompt" \
    gpt2_tiny --sample a --max-new-tokens 99 --init-from none
for folder in "$scratch/out/checkpoint-7" "$scratch/out/./checkpoint-7/"; do
    mkdir -p "$scratch/out"
    refuses "an export as a checkpoint: ${folder##*out/}" 80 "is the name of a checkpoint of this run" gpt2_tiny \
        --init-from $ref/$case/model --export "$folder"
done
# the name that was typed; what no command reads, and what some read, is not refused
while IFS='|' read -r name text flags; do
    refuses "$name" 80 "$text" gpt2_tiny $flags
done <<END
a flag by the name of another trainer|--learning_rate has no effect with --sample, which does not|--sample a --learning_rate 3
steps by their epochs|--epochs has no effect with --export, which does not|--export $scratch/exported --epochs 3
data of a command that reads none|--eval-data has no effect with --sample: leave it out$|--sample a --eval-data x
a flag of another command|--export-dtype has no effect with --eval-only: leave it out$|--eval-only --eval-data x --export-dtype bf16
over, without training|--force has no effect with --bench-steps: leave it out$|--bench-steps 3 --force
END
for use in "--dry-run --lr 3 --save-every 9" "--show 1 --lr 3" "--bench-steps 1 --lr 3"; do
    "$work/gpt2_tiny/train" --out "$scratch/out" $ours $use >"$scratch/said" 2>&1
    verdict "flags of the run that $use previews" "$([ $? = 0 ] || tail -n 2 "$scratch/said")"
done
refuses "a choice that is none" 80 "--loss-on: must be one of auto|.* got \"turn\"" gpt2_tiny $ours --loss-on turn
verdict "a choice that is none: what to do" "$(grep -q '^next: fix that and run the command again' "$scratch/said" ||
    tail -n 1 "$scratch/said")"
refuses "a field without a dot" 80 "--bf16: fixed when the program was generated, .*: gen [^ ]*\.lua precision=bf16 && make" \
    gpt2_tiny $ours --bf16
verdict "a field without a dot: what to do" "$(grep -q '^next: run that gen command and make; then .*gpt2_tiny.* --bf16' \
    "$scratch/said" || tail -n 1 "$scratch/said")"
refuses "a run of no steps" 80 "--epochs 0 makes a run of 0 steps: give more, or --steps N$" gpt2_tiny $ours --epochs 0
verdict "a run of no steps: nothing is left" "$(ls "$scratch/out/DONE" 2>&1 | grep -v 'No such')"
refuses "a warm-up of part of a step" 80 "--warmup 10.5: must be a whole number of steps, or below 1, a share" \
    gpt2_tiny $ours --warmup 10.5
uses "intervals longer than the run" "^--log-every 99: the run has only 3 steps, and logs its last one only$" gpt2_tiny \
    $ours --out "$scratch/longer" --steps 3 --save-every 3 --log-every 99
verdict "an interval as long as the run" "$(grep -e '--save-every 3: ' "$scratch/said")"
refuses "--patience without data" 80 "--patience: this run has no validations; add --eval-data" gpt2_tiny $ours --patience 1
for flag in --keep-best "--patience 3"; do
    refuses "$flag without steps" 80 \
        "${flag% *}: this run has no validations; add --eval-every" gpt2_tiny $ours $flag --eval-every 0 \
        --eval-data $ref/$case/eval.safetensors
done
# RUN: the step after which the loss that the log shows is least
best_of() {
    sed -n 's/.*"eval_loss_token": \([^,]*\),.*"step": \([1-9][0-9]*\)}$/\1 \2/p' "$scratch/$1/history.jsonl" |
        sort -g | sed -n '1s/.* //p'
}
# a rate at which the validation loss rises after a few steps
wild="--eval-every 1 --patience 3 --keep-best --steps 60 --schedule constant --lr 0.03 --clip 0"
early="none of the last 3 validations was better than eval loss [0-9.]* at step"
run=early; run early $wild --save-every 1 --save-total-limit 0
expect "patience ends a run" 0 "^stopped early after step .*: $early"
last=$(sed -n 's/^stopped early after step \([0-9]*\):.*/\1/p' "$scratch/early.log")
best=$((last - 3))
verdict "done, and why" "$(grep -q "\"why\": \"$early $best " "$scratch/early/DONE" || cat "$scratch/early/DONE"
    tail -n 1 "$scratch/early/history.jsonl" | grep -q "\"early_stop\": \"$early $best .*\"step\": $last}" ||
        tail -n 1 "$scratch/early/history.jsonl"
    grep -q "^the best are in $scratch/early/checkpoint-$best, .*--resume" "$scratch/early.log" ||
        tail -n 4 "$scratch/early.log")"
cp -r "$scratch/early" "$scratch/resumed"
rm -rf "$scratch/resumed"/{DONE,checkpoint-$last,checkpoint-$((last - 1))}
run=resumed; run resumed $wild --save-total-limit 2
expect "resumed before its end" 0 "^stopped early after step $last: $early $best "
compare "resumed before its end" history "$scratch/resumed" "$scratch/early" 0
verdict "resumed before its end, bits" "$(cmp "$scratch"/{early,resumed}/checkpoint-$last/model.safetensors 2>&1
    grep -q "\"best_model_checkpoint\": \"$scratch/resumed/checkpoint-$best\"" \
        "$scratch/resumed/checkpoint-$last/trainer_state.json" || echo "another best")"
cp -r "$scratch/early/checkpoint-1" "$scratch/resumed"       # a kill came before its removal
run resumed $wild --save-total-limit 2
verdict "a checkpoint beyond the limit is removed at the next start" \
    "$([ ! -e "$scratch/resumed/checkpoint-1" ] || ls "$scratch/resumed")"
expect "a run that ended early is over" 0 "nothing to do: stopped early after step $last of 60: $early $best "
run resumed $wild --save-total-limit 2 --patience 0 --steps $((last + 9)) --lr 0.1 --save-every 1
expect "until it is told" 0 "resumed from .*checkpoint-$last"
best=$(best_of resumed)
verdict "the best outlives the newest" "$([ -d "$scratch/resumed/checkpoint-$best" ] || echo "$best is gone"
    [ "$best" -lt $((last + 8)) ] || echo "the best is among the newest: no test"
    [ "$(ls -d "$scratch/resumed"/checkpoint-* | wc -l)" = 2 ] || ls "$scratch/resumed"
    grep '"early_stop"' "$scratch/resumed/history.jsonl")"
rm -rf "$scratch"/{early,resumed}

# ---- disks --------------------------------------------------

if mkdir "$scratch/small" && mount -t tmpfs -o size=600k tmpfs "$scratch/small" 2>/dev/null; then
    mounts="$mounts $scratch/small"
    refuses "disk too small" 90 "" gpt2_tiny $ours --out "$scratch/small/run"
    mount -o remount,ro "$scratch/small"
    refuses "read-only disk" 90 "Read-only" gpt2_tiny $ours --out "$scratch/small/run2"
    mkdir "$scratch/fills"
    mount -t tmpfs -o size=24m tmpfs "$scratch/fills"
    mounts="$mounts $scratch/fills"
    run=fills; run fills --steps 500000 --save-every 100 &
    pid=$!
    waits [ -d "$scratch/fills/checkpoint-100" ]
    while kill -0 $pid 2>/dev/null; do       # all that there is, also what an old checkpoint leaves
        head -c 24m /dev/zero >>"$scratch/fills/other" 2>/dev/null
        sleep 0.05
    done
    wait $pid; expect "disk full, three saves fail" 90 "^rank 0 .*the third save in a row that failed"
    verdict "disk full: what to do" "$(grep -q '^next: make room (df -h, df -i); then .*gpt2_tiny/run.sh .* continues from' \
        "$scratch/fills.log" || tail -n 1 "$scratch/fills.log")"
    times=$(grep -c "^warning: checkpoint .*training goes on" "$scratch/fills.log")
    verdict "training goes on after two" "$([ "$times" = 2 ] || echo "$times times"
        grep -q "history.jsonl: write: .*training goes on" "$scratch/fills.log" || echo "no history")"
    rm "$scratch/fills/other"
    last=$(ls -d "$scratch/fills"/checkpoint-* | sed 's/.*-//' | sort -n | tail -n 1)
    run fills --steps $((last + 2)); expect "room again: it goes on" 0 "resumed from .*checkpoint-$last"
    # full for a while only: nothing is lost
    rm -rf "$scratch/fills"/*
    train gpt2_tiny $case fills --steps 500000 --save-every 0 &
    pid=$!
    waits [ -s "$scratch/fills/history.jsonl" ]
    head -c 24m /dev/zero >"$scratch/fills/other" 2>/dev/null
    waits grep -q 'history.jsonl: write' "$scratch/fills.log"
    rm "$scratch/fills/other"
    waits grep -q 'is complete again' "$scratch/fills.log"
    kill -TERM "$(pgrep -P $pid train || echo $pid)"
    wait $pid
    code=$?
    last=$(ls -d "$scratch/fills"/checkpoint-* | sed 's/.*-//')
    verdict "full for a while" "$([ $code = 91 ] || echo "exit $code: $(tail -n 2 "$scratch/fills.log")"
        [ "$(grep -c grad_norm "$scratch/fills/history.jsonl")" = "$last" ] || echo "records are missing")"
else
    echo "# no right to mount: full and read-only disks are left out"
fi

# ---- asked to stop while the ranks still come together --------------------------------------------------

two=("$work/gpt2_tiny.2x2x2/train" $ours --init-from $ref/$case/model --out "$scratch/early" --save-every 0)
# shellcheck disable=SC2016      # of the second rank's shell: it comes when there is a file
mpirun --oversubscribe --bind-to none -n 1 "${two[@]}" : \
    -n 1 sh -c 'until [ -e "$0" ]; do sleep 0.05; done; exec "$@"' "$scratch/go" "${two[@]}" >"$scratch/said" 2>&1 &
pid=$!
listens() {
    first=$(pgrep -P $pid -x train) &&
        [ $((16#$(sed -n 's/^SigCgt:\t//p' "/proc/$first/status") & 0x200)) != 0 ]
}
waits listens
kill -USR1 "$first"
: >"$scratch/go"
wait $pid
verdict "a request before all ranks are there" "$([ $? = 91 ] && [ -d "$scratch/early/checkpoint-1" ] ||
    { tail -n 3 "$scratch/said"; ls "$scratch/early"; })"

# ---- kill -9 --------------------------------------------------

# At random moments of a run that saves every other step, resumed each time: in the end the straight run.
RANDOM=${SEED:-1}
run=killed
kills=0
for ((i = 0; i < 200 && kills < ${KILLS:-12}; i++)); do
    "$work/gpt2_tiny/train" $ours --eval-data $ref/$case/eval.safetensors \
        --init-from $ref/$case/model --out "$scratch/killed" --save-every 2 >"$scratch/killed.log" 2>&1 &
    pid=$!
    sleep "0.$(printf %03d $((10 + RANDOM % 120)))"
    kill -9 $pid 2>/dev/null && kills=$((kills + 1))
    wait $pid 2>/dev/null
    [ -f "$scratch/killed/DONE" ] && break
done
run killed --save-every 2; expect "after $kills kills" 0 ""
finishes "after kills"
