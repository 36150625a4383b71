#!/bin/bash
# Objectives that only the tests have, added to a copy of the tree as gen/README.md says: new files (regression/, apo/)
# and rows at the ends of tables (regression/rows/, apo/rows/), no existing row changed. regression trains to PyTorch's
# values on rows of floats, apo to TRL's on prompts with a completion and a label each.
# Bounds, and why: tests/train/compare.c. BACKEND=sim: the CUDA target, on the simulator.
source "$(dirname "$0")/../train/lib.sh"
here=tests/objectives ref=$here/ref
tree=$PWD/out/.test/objectives.$BACKEND
mkdir -p "$tree"
exec 9>"$tree.lock"
flock 9

# ---- the tree with the objectives: new files and rows, nothing else

rows() (cd $here/$1/rows && find . -type f | sed 's,^\./,,')
files() (cd $here/$1 && find . -type f ! -path './rows/*' | sed 's,^\./,,')

# Rows stand at the end of a table: before its first #undef, else after its last line.
with_rows() {           # TABLE ROWS
    awk -v rows="$2" '
        function all() { while ((getline line < rows) > 0) print line; done = 1 }
        /^#undef/ && !done { all() }
        { print }
        END { if (!done) all() }' "$1"
}

for objective in regression apo; do
    verdict "$objective: files of its own" "$(files $objective | while read -r file; do [ ! -e "$file" ] ||
        echo "$file"; done)"
    verdict "$objective: rows of tables" "$(rows $objective | while read -r file; do
        [ "${file%.def}" != "$file" ] && [ -e "$file" ] || echo "$file"; done)"
done

# With the times of what they are made from, so that only what changed is compiled.
rm -rf "$tree"/{gen,templates,kernels,runtime,recipes}
cp -a gen templates kernels runtime Makefile "$tree"
mkdir "$tree/recipes"
cp -a $here/{regression,apo}.lua "$tree/recipes"
for objective in regression apo; do
    files $objective | while read -r file; do cp -a "$here/$objective/$file" "$tree/$file"; done
    rows $objective | while read -r file; do
        own=$here/$objective/rows/$file last=$file
        with_rows "$tree/$file" "$own" >"$scratch/table"
        cp "$scratch/table" "$tree/$file"
        for from in $here/*/rows/"$file"; do [ "$last" -nt "$from" ] || last=$from; done
        touch -r "$last" "$tree/$file"
    done
done
verdict "no line of an existing file is changed" "$(for folder in gen templates kernels runtime; do
    diff -r $folder "$tree/$folder" | grep '^<'; done)"
make -s -C "$tree" -j"$cores" gen CFLAGS="-std=c11 -O0 -Wall -Wextra -Wshadow -Wvla -Werror" \
    >"$scratch/gen.log" 2>&1 || { verdict gen "$(grep -m 3 -E 'error|warning' "$scratch/gen.log")"; exit 1; }
gen=$tree/out/.gen/gen

# A field that no room reads ends every command that is given a recipe, not only the one that writes its program.
if [ $BACKEND = cpu ]; then
    for command in "-o $scratch/unread" "-d graph" plan info check fit tune container doctor diff; do
        # shellcheck disable=SC2086
        said=$("$gen" $command "$tree/recipes/regression.lua" model.unread=1 2>&1)
        verdict "gen ${command%% *}: a field that no room reads" "$(grep -q \
            'bug: .* the recipe sets model.unread, which no room reads' <<<"$said" || tail -n 2 <<<"$said")"
    done
fi

# ---- programs

regression_program() {        # NAME [FIELD=VALUE ...]
    local name=$1 dir=$work/regression.$1
    shift
    rm -rf "$dir"
    "$gen" "$tree/recipes/regression.lua" "${target[@]}" "$@" -o "$dir" >"$dir.log" 2>&1 &&
        TREE=$tree make_in_haste "$dir" "${tools[@]}" >"$dir.log" 2>&1 ||
        { verdict "build $name" "$(grep -v '^  CC' "$dir.log" | tail -n 3)"; exit 1; }
}
regression_program one
regression_program sets model.sets=2
regression_program fd model.upper=fd
if [ $BACKEND = sim ]; then
    regression_program half model.sets=1 precision=fp16
    regression_program dot16 model.upper=dot precision=fp16
else
    regression_program dot model.upper=dot gpus=2 batch.accum=1 memory.recompute=block
    regression_program two gpus=2 batch.accum=1
    regression_program sets2 model.sets=2 gpus=2 batch.accum=1
fi

# ---- apo: tokens, a loss of TRL's, the weights of the start as reference

apo=$work/apo
rm -rf "$apo"
"$gen" "$tree/recipes/apo.lua" "${target[@]}" -o "$apo" >"$apo.log" 2>&1 &&
    TREE=$tree make_in_haste "$apo" "${tools[@]}" >"$apo.log" 2>&1 ||
    { verdict "build apo" "$(grep -v '^  CC' "$apo.log" | tail -n 3)"; exit 1; }
fit_apo() {             # RUN ARGS...: the exit code; what it said is in $scratch/RUN.log
    local run=$scratch/$1
    shift
    "$apo/run.sh" --data $ref/apo/train.safetensors --eval-data $ref/apo/eval.safetensors --tokenizer bytes \
        --init-from tests/train/ref/dpo_mean/model --out "$run" "$@" >"$run.log" 2>&1
}
fit_apo apo --eval-every 5 --save-every 1 --save-total-limit 0 ||
    verdict "apo trains" "exit $?: $(tail -n 2 "$scratch/apo.log")"
compare apo reference $ref/apo "$scratch/apo"
as_recorded() {         # KEY: the steps' numbers are those of expect.json, within 1e-4
    paste <(sed -n "s/.*\"$1\": \([0-9.e+-]*\).*\"step\".*/\1/p" "$scratch/apo/history.jsonl") \
        <(sed -n "s/^ *\"$1\": \([0-9.e+-]*\),*$/\1/p" $ref/apo/expect.json) | awk '
        NF == 2 { off = $1 - $2; n += off > -1e-4 && off < 1e-4 }
        END { if (n != 10) print n + 0 " of 10 within 1e-4" }'
}
for key in reward_chosen reward_rejected; do verdict "apo $key" "$(as_recorded $key)"; done
{ DIECAST_FAULT=kill9:rank=0:step=8 fit_apo apo.killed --eval-every 5 --save-every 3; } 2>/dev/null &&
    verdict killed "it was not"
fit_apo apo.killed --eval-every 5 --save-every 3
verdict "apo resumed" "$(grep -q 'resumed from .*checkpoint-6$' "$scratch/apo.killed.log" ||
    tail -n 3 "$scratch/apo.killed.log")"
same "apo resumed" apo apo.killed 10
verdict "apo exports" "$("$apo/run.sh" --out "$scratch/apo" --export "$scratch/apo.model" >"$scratch/log" 2>&1 ||
        tail -n 1 "$scratch/log"
    cmp "$scratch/apo.model/model.safetensors" "$scratch/apo/checkpoint-10/model.safetensors" 2>&1
    grep -q '"LlamaForCausalLM"' "$scratch/apo.model/config.json" || cat "$scratch/apo.model/config.json")"
verdict "apo shows rows" "$(fit_apo apo.rows --show 2
    [ "$(grep -c '^step 1 .*: sample [0-9]*, \(un\)\?desired, ' "$scratch/apo.rows.log")" = 2 ] || head -n 3 "$scratch/apo.rows.log")"
for flag in --sample --probe --data-format; do
    fit_apo apo.flag $flag x
    verdict "apo refuses $flag" "$([ $? = 80 ] || echo "exit $?"
        grep -q -e "$flag: needs a program with the objective .*; this one has apo" "$scratch/apo.flag.log" ||
            tail -n 1 "$scratch/apo.flag.log")"
done

# ---- regression trains

fit() {                 # PROGRAM RUN ARGS...: the exit code; what it said is in $scratch/RUN.log
    local name=$1 run=$scratch/$2
    shift 2
    "$work/regression.$name/run.sh" --data $ref/train.safetensors --eval-data $ref/eval.safetensors \
        --init-from $ref/model --eval-every 5 --out "$run" "$@" >"$run.log" 2>&1
}
fitted() {
    fit "$@" || verdict "$2 trains" "exit $?: $(tail -n 2 "$scratch/$2.log")"
}

fitted one straight --save-every 1 --save-total-limit 0
compare reference reference $ref "$scratch/straight"

# All that a step and a validation report.
reported() {            # KEY: the keys of the first record that has it
    grep -m 1 "\"$1\": " "$scratch/straight/history.jsonl" | grep -o '"[a-z_]*": ' | tr -d '":' | tr -d '\n'
}
want="loss late_targets grad_norm learning_rate num_places num_late places_per_second time epoch step "
verdict "a step's metrics" "$([ "$(reported loss)" = "$want" ] || reported loss)"
want="eval_loss eval_runtime eval_samples_per_second eval_steps_per_second eval_places_per_second time epoch step "
verdict "a validation's metrics" "$([ "$(reported eval_loss)" = "$want" ] || reported eval_loss)"
for line in '  data       11 samples of 8 positions (floats:[0-9a-f]*), 3 steps an epoch' \
    'step 10/10  loss 0\.4667  .* places/s ' 'step 10/10  eval loss 1\.8050  5 samples in '; do
    verdict "it says: $line" "$(grep -q "^$line" "$scratch/straight.log" || tail -n 8 "$scratch/straight.log")"
done

# Killed where nothing is saved, it goes on as if it had not been: the same bits.
{ DIECAST_FAULT=kill9:rank=0:step=8 fit one killed --save-every 3; } 2>/dev/null && verdict killed "it was not"
fitted one killed --save-every 3
verdict resumed "$(grep -q 'resumed from .*checkpoint-6$' "$scratch/killed.log" || tail -n 3 "$scratch/killed.log")"
compare resumed history "$scratch/straight" "$scratch/killed" 0
for file in "$scratch/straight/checkpoint-10"/*.safetensors; do
    verdict "resumed bits $(basename "$file")" "$(cmp "$file" "$scratch/killed/checkpoint-10/$(basename "$file")" 2>&1)"
done

# Every epoch: a validation and a checkpoint; the mean of its steps' losses, each weighted by its targets; files and
# uses of finished weights that are the objective's own, also of the run that is found finished.
fitted one epochs --eval-every epoch --save-total-limit 0
found() { (cd "$scratch/$1" && echo checkpoint-*); }
verdict "a checkpoint an epoch" "$([ "$(found epochs)" = "checkpoint-10 checkpoint-3 checkpoint-6 checkpoint-9" ] ||
    found epochs)"
means=$(awk '$1 == "\"loss\":" { loss = $2 + 0 }
    $1 == "\"targets\":" { sum += loss * $2; n += $2
        if (++step % 3 == 0) { printf "%.9g\n", sum / n; sum = n = 0 } }' $ref/expect.json)
evals=$(awk -F '[:,]' '/^{"eval_loss"/ { print $2 }' "$scratch/epochs/history.jsonl" | sed -n 2,4p)
paste -d ' ' <(seq 3) <(seq 3 3 9) <(echo "$means") <(echo "$evals") >"$scratch/means"
verdict "epochs: means" "$(paste -d ' ' "$scratch/means" "$scratch/epochs/regression/epochs" | awk '
    function near(a, b) { a = a / b - 1; return a * a < 1e-12 }
    NF != 8 || $1 != $5 || $2 != $6 || !near($3, $7) || !near($4, $8)
    END { if (NR != 3) print NR " epochs" }')"
verdict "epochs: said" "$(awk '{ printf "epoch %d/4  loss %.4f\n", $1, $3 }' "$scratch/means" |
    diff - <(grep '^epoch' "$scratch/epochs.log"))"
cp -r "$scratch/epochs" "$scratch/once"
rm -rf "$scratch/once/regression"
fitted one once --eval-every epoch
verdict "a finished run" "$(grep -q 'nothing to do: step 10 of 10' "$scratch/once.log" || tail -n 3 "$scratch/once.log"
    for log in epochs once; do [ "$(grep -c 'finished weights' "$scratch/$log.log")" = 1 ] || echo "$log: none"; done
    grep -h 'finished weights' "$scratch"/{epochs,once}.log | uniq | sed 1d
    cmp "$scratch"/{epochs,once}/regression/epochs 2>&1)"
# the run names what it wrote; each start has a log file with its messages
log=$(cd "$scratch/epochs" && ls logs)
verdict "a dated log" "$([[ $log =~ ^regression_training_20[0-9]{6}_[0-9]{6}\.log$ ]] || echo "$log"
    sed '1s/.*: //; s/^....-..-.. ..:..:..  //' "$scratch/epochs/logs/$log" | sed 1d | diff - <(grep -v '^given twice' "$scratch/epochs.log")
    head -n 1 "$scratch/epochs/logs/$log" |
        grep -q '^....-..-.. ..:..:..  ---- regression, process [0-9]*: .*/train --data ' ||
        head -n 1 "$scratch/epochs/logs/$log")"
verdict "what is in OUT" \
    "$(grep -qxF \
    "in $scratch/epochs are checkpoint-10/ (the newest of 4), DONE, epochs/, history.jsonl, logs/$log, plots/, regression/, runs/" \
    "$scratch/epochs.log" || grep '^in ' "$scratch/epochs.log")"
# other flags: it is no run that could stand for this one; a new one, and nothing is lost
fit one once --lr 0.1
verdict "a finished run of other flags" "$([ $? = 80 ] || echo "exit $?"
    grep -q 'holds a finished run, step 10 of 10, with other flags: lr 0.003 -> 0.1; --force' "$scratch/once.log" ||
        tail -n 2 "$scratch/once.log")"
echo mine >"$scratch/once/notes"
for n in 1 2; do
    before=$(cd "$scratch/once" && find . -type f ! -path './aside-*' ! -name notes | LC_ALL=C sort | xargs cksum)
    fitted one once --eval-every epoch --lr 0.1 --force
    verdict "--force $n" "$(cd "$scratch/once/aside-$n" && find . -type f | LC_ALL=C sort | xargs cksum |
        diff - <(echo "$before")
        grep -qx -e "--force: files of earlier runs in $scratch/once are now in $scratch/once/aside-$n" \
            "$scratch/once.log" ||
            head -n 3 "$scratch/once.log"
        grep -q 'resumed' "$scratch/once.log" && echo "it went on"
        [ -f "$scratch/once/notes" ] || echo "not ours, but moved"
        cmp -s "$scratch"/{once,epochs}/regression/epochs && echo "the same losses")"
done
for words in "--force --resume last" "--force --eval-only"; do
    # shellcheck disable=SC2086
    fit one once $words
    verdict "$words" "$([ $? = 80 ] || echo "exit $?"; grep -q '^\(rank 0\|train:\) .*--force' "$scratch/once.log" ||
        cat "$scratch/once.log")"
done
verdict "a dry run moves nothing" "$(fitted one once --dry-run --force; [ ! -e "$scratch/once/aside-3" ] ||
    echo "aside-3")"
TORCHELASTIC_RESTART_COUNT=1 fitted one once --lr 0.1 --force
verdict "a restart of --force goes on" "$(grep -q 'restart 1: --force applied to the first start only' "$scratch/once.log" &&
    grep -q 'nothing to do' "$scratch/once.log" || tail -n 3 "$scratch/once.log")"
rm -rf "$scratch/once"
cp -r "$scratch/epochs" "$scratch/once"
# --resume PATH: here, else in OUT
fit one once --resume checkpoint-7
verdict "--resume of no folder" "$([ $? = 89 ] || echo "exit $?"
    grep -q -- "--resume checkpoint-7: no such folder here, nor in $scratch/once" "$scratch/once.log" ||
        tail -n 1 "$scratch/once.log")"
fitted one once --resume checkpoint-9/
verdict "--resume of a folder in OUT" "$(grep -qx "resumed from $scratch/once/checkpoint-9" "$scratch/once.log" ||
    tail -n 3 "$scratch/once.log"
    cmp "$scratch"/{once,epochs}/checkpoint-10/model.safetensors 2>&1)"
rm -rf "$scratch"/once/checkpoint-{10,9}
{ DIECAST_FAULT=kill9:rank=0:step=8 fit one once --eval-every epoch --save-every 4; } 2>/dev/null &&
    verdict killed "it was not"
fitted one once --eval-every epoch --save-every 4
verdict "a name where nothing else was due" "$([ -s "$scratch/once/epochs/step_8/train_state.json" ] ||
    ls "$scratch/once/epochs")"
verdict "epochs, resumed" "$(grep -q 'resumed from .*checkpoint-6$' "$scratch/once.log" || tail -n 3 "$scratch/once.log"
    cmp "$scratch"/{epochs,once}/regression/epochs 2>&1
    for word in '\"course\"' '\"rows\"'; do grep -q "$word" "$scratch/once/checkpoint-10/train_state.json" ||
        echo "no $word"; done)"

# Checkpoints under names of their own: the same bytes, of whole epochs and of the best; a table next to each. No limit
# removes them; --resume takes them; what a killed program did not name is named at the next start.
rm -rf "$scratch/once"
fitted one once --eval-every epoch --save-every epoch --save-total-limit 2 --stop-loss 0.0001
verdict "names of checkpoints" "$(cd "$scratch/once" && [ "$(echo checkpoint-* epochs/*)" = \
    "checkpoint-10 checkpoint-9 epochs/best_10 epochs/best_10.csv epochs/epoch_3 epochs/epoch_3.csv \
epochs/epoch_6 epochs/epoch_6.csv epochs/epoch_9 epochs/epoch_9.csv" ] ||
        echo checkpoint-* epochs/*
    [ "$(stat -c %h checkpoint-9/model.safetensors)" = 2 ] || echo "no links"
    for step in 3 6; do
        cmp epochs/epoch_$step/model.safetensors "$scratch/epochs/checkpoint-$step/model.safetensors" 2>&1
    done)"
verdict "a table of the course" "$(cut -d, -f3,5 "$scratch/once/epochs/best_10.csv" | sed 1d | awk -F, '
        function near(a, b) { a = a / b - 1; return a * a < 1e-12 }
        FILENAME == "-" && NF == 2 { row[++n] = $0; next }
        FILENAME != "-" { split(row[FNR + 1], x, ",")
            if (!near(x[1], $3) || !near(x[2], $4)) print FNR ": " row[FNR + 1] }
        END { if (n != 5) print n " rows" }' - FS=' ' "$scratch/epochs/regression/epochs"
    [ "$(cut -d, -f1,2 "$scratch/once/epochs/best_10.csv" | paste -sd ' ')" = \
        "epoch,step 0,0 1,3 2,6 3,9 3.33333333,10" ] || cut -d, -f1,2 "$scratch/once/epochs/best_10.csv"
    [ "$(cut -d, -f4 "$scratch/once/epochs/best_10.csv" | tr -d '\n')" = late_targets ] || echo "a mean of nothing"
    head -n 1 "$scratch/once/epochs/best_10.csv" | grep -qx 'epoch,step,loss,late_targets,eval_loss' ||
        head -n 1 "$scratch/once/epochs/best_10.csv")"
rm -rf "$scratch/once"/epochs/{epoch_9,best_10}
fitted one once --eval-every epoch --save-every epoch --save-total-limit 2 --resume checkpoint-9
verdict "a name that was missing" \
    "$(cmp "$scratch"/once/epochs/epoch_9/model.safetensors "$scratch/epochs/checkpoint-9/model.safetensors" 2>&1
    [ -d "$scratch/once/epochs/best_10" ] || echo "no best_10")"
fitted one once --eval-every epoch --resume epochs/epoch_6
verdict "--resume of such a name" "$(grep -qx "resumed from $scratch/once/epochs/epoch_6" "$scratch/once.log" ||
    tail -n 3 "$scratch/once.log"
    cmp "$scratch"/{once,epochs}/checkpoint-10/model.safetensors 2>&1)"

# Every so many epochs; validations from a step on.
rm -rf "$scratch/once"
fitted one once --save-every 2epochs --save-total-limit 0 --eval-every 4 --eval-from 1
verdict "every second epoch" "$([ "$(found once)" = "checkpoint-10 checkpoint-6" ] || found once)"
verdict "validations from step 1 on" \
    "$(steps=$(sed -n 's/^{"eval_loss".*"step": \([0-9]*\)}/\1/p' "$scratch/once/history.jsonl" | paste -sd ' ')
    [ "$steps" = "0 1 5 9 10" ] || echo "$steps")"

# A rate scaled by the ranks stays what it was where a run goes on with others, unless another is named.
if [ $BACKEND != sim ]; then
    rates() { sed -n 's/.*"learning_rate": \([^,]*\),.*"step": \('"$2"'\)}.*/\1/p' "$scratch/$1/history.jsonl" |
        paste -sd ' '; }
    fitted two scaled --lr-scale linear --log-every 1
    rm -rf "$scratch/once"
    { DIECAST_FAULT=kill9:rank=0:step=8 fit two once --lr-scale linear --log-every 1 --save-every 5; } \
        >/dev/null 2>&1 &&
        verdict killed "it was not"
    cp -r "$scratch/once" "$scratch/anew"
    fitted one once --lr 0.003
    verdict "a scaled rate" "$(grep -q '^  rate       0.006 = 0.003 x 2, --lr-scale linear of 2 ranks (' \
        "$scratch/scaled.log" ||
        grep '^  rate' "$scratch/scaled.log"
        paste <(rates scaled 10) <(rates straight 10) | awk '{ x = $1 / $2 / 2 - 1; if (!(x * x < 1e-20)) print }')"
    verdict "a scaled rate on other ranks" "$([ "$(rates once '.*')" = "$(rates scaled '.*')" ] || rates once '.*'
        grep -q "^  rate       0.006 = 0.003 x 2, --lr-scale linear of the run's first 2 ranks (" "$scratch/once.log" ||
            grep '^  rate' "$scratch/once.log")"
    fitted one anew --lr 0.0015
    verdict "another rate" "$(paste <(rates anew 10) <(rates straight 10) |
        awk '{ x = $1 / $2 * 2 - 1; if (!(x * x < 1e-20)) print }')"
fi

# Enough: the objective ends a run, which stays over until its flag changes; on two ranks the same.
for name in one two; do
    rm -rf "$scratch/once"
    [ $name = two ] && [ $BACKEND = sim ] && continue
    fitted $name once --eval-every 2 --stop-loss 3.5
    early='the validation.s loss is [0-9.]* (--stop-loss 3.5)'
    last=$(sed -n "s/^stopped early after step \([0-9]*\): $early\$/\1/p" "$scratch/once.log")
    verdict "enough, $name" "$([ "${last:-10}" -lt 10 ] && [ -d "$scratch/once/checkpoint-$last" ] &&
        grep -q "\"why\": \"$early\"" "$scratch/once/DONE" || tail -n 5 "$scratch/once.log")"
    fitted $name once --eval-every 2 --stop-loss 3.5
    verdict "enough: it is over, $name" "$(grep -q "^nothing to do: stopped early after step $last of 10: $early" \
        "$scratch/once.log" ||
        tail -n 5 "$scratch/once.log")"
    fitted $name once --eval-every 2 --stop-loss 0.1
    verdict "enough: another value, $name" "$(grep -q "^resumed from .*-$last$" "$scratch/once.log" &&
        [ -d "$scratch/once/checkpoint-10" ] || tail -n 5 "$scratch/once.log")"
done

# The weights of the start, wanted again by a run that goes on: the same ones or none.
rm -rf "$scratch/once"
{ DIECAST_FAULT=kill9:rank=0:step=8 fit one once --save-every 5; } 2>/dev/null && verdict killed "it was not"
fitted one once --save-every 5
starts=$(grep -h '^weights of' "$scratch/once.log")
verdict "weights of the start, resumed" "$(grep -q "^weights of $scratch/once/checkpoint-5: " <<<"$starts" ||
    echo "$starts"
    grep -qxF "$(grep '^weights of the start' "$scratch/straight.log")" <<<"$starts" || echo "$starts"
    cmp "$scratch"/{once,straight}/checkpoint-10/model.safetensors 2>&1)"
fit one once --steps 12 --init-from none
verdict "other weights of the start" "$([ $? = 83 ] || echo "exit $?"
    grep -q '^rank 0 .*checkpoint-10: the run began with weights of crc32c [0-9a-f]*, random ones of --seed have .*: give its initial' \
        "$scratch/once.log" || tail -n 2 "$scratch/once.log")"

# Several parameter groups, each with its own rate, clipping and count of updates: the features' layer and the
# rest, the head by a schedule of its own every second step. Killed after an update of the head that no checkpoint has.
fitted sets sets --save-every 1 --save-total-limit 0
compare sets reference $ref/sets "$scratch/sets"
{ DIECAST_FAULT=kill9:rank=0:step=9 fit sets torn --save-every 5; } 2>/dev/null && verdict killed "it was not"
fitted sets torn --save-every 5
verdict "sets, resumed" "$(grep -q 'resumed from .*checkpoint-5$' "$scratch/torn.log" || tail -n 3 "$scratch/torn.log")"
compare "sets, resumed" history "$scratch/sets" "$scratch/torn" 0
for file in "$scratch/sets/checkpoint-10"/*.safetensors; do
    verdict "sets, resumed bits $(basename "$file")" \
        "$(cmp "$file" "$scratch/torn/checkpoint-10/$(basename "$file")" 2>&1)"
done
counts=$(grep -o '"updates": [0-9]*' "$scratch/sets/checkpoint-10/train_state.json" | tr -dc '0-9\n' | paste -sd ' ')
verdict "sets, updates of head, proj, model" "$([ "$counts" = "5 10 10" ] || echo "$counts")"
# what updates of a schedule of its own tell is next to the values of their steps
late=$(sed -n 's/.*"num_late": \([0-9]*\),.*/\1/p' "$scratch/sets/history.jsonl" | paste -sd ' ')
verdict "sets, what an update of the head tells" "$([ "$late" = 10 ] || [ "$late" = "0 2 2 4 4 6 6 8 8 10" ] ||
    echo "$late")"
late=$(sed -n 's/.*"late_targets": \([^,]*\),.*/\1/p' "$scratch/sets/history.jsonl" | sort | uniq -c | xargs)
verdict "sets, steps without such an update" "$([[ $late =~ ^[0-9.\ ]*\ 5\ null$ ]] || echo "$late")"
# no flag of a set that is not there
fit one other --head-lr 0.1
verdict "a flag of no set" "$([ $? = 80 ] || echo "exit $?"
    grep -q -e '--head-lr: this program does not train that parameter group' "$scratch/other.log" ||
        tail -n 2 "$scratch/other.log")"
# gradients that are none: each set skips its own update, and says which it is
DIECAST_FAULT=nan:rank=0:step=4 fitted sets skips --nonfinite skip
verdict "sets skip" "$(for of in "" " of the group proj"; do
        grep -q "^step 4: loss .*, gradient norm$of -*nan: update skipped; samples " "$scratch/skips.log" ||
            grep "skipped" "$scratch/skips.log"
    done
    counts=$(grep -o '"updates": [0-9]*' "$scratch/skips/checkpoint-10/train_state.json" | tr -dc '0-9\n' |
        paste -sd ' ')
    [ "$counts" = "5 9 9" ] || echo "$counts updates")"

# fp16: a loss scale a set, which counts its own updates
if [ $BACKEND = sim ]; then
    fitted half half
    scales=$(grep -o '"loss_scale[a-z_]*": [0-9]*' "$scratch/half/checkpoint-10/train_state.json" | tr -dc '0-9\n' |
        paste -sd ' ')
    verdict "a loss scale a set, model and head" "$([ "$scales" = "65536 10 65536 5" ] || echo "$scales")"
fi

# How the losses of samples change along the gradient of the loss of others, before the first step: by differences, by
# products, also with recomputed layers, of 16-bit activations, with the others on two ranks; parameters moved for it
# are what they were. Bound of differences: losses of about 40 in fp32, rounded to 2e-6, over 2 eps = 0.02 / |v| = 6e-4;
# of fp16: what 16-bit activations do to a gradient.
slopes() {              # PROGRAM BOUND
    fitted "$1" "slopes.$1" --steps 1
    sed -n 's/^slopes of the first: //p' "$scratch/slopes.$1.log" | awk -v bound="$2" '
        NR == FNR { want[NR] = $1; next }
        { for (i = 1; i <= NF; i++) if (!(($i / want[i] - 1) ^ 2 < bound ^ 2)) print $i ", want " want[i] }
        END { if (NF != 2) print "found " NF " numbers" }' $ref/slopes -
}
verdict "slopes by differences" "$(slopes fd 1e-3
    cmp "$scratch/slopes.fd/checkpoint-1/model.safetensors" "$scratch/straight/checkpoint-1/model.safetensors" 2>&1)"
if [ $BACKEND = sim ]; then
    verdict "slopes by products, fp16" "$(slopes dot16 1e-2)"
else
    verdict "slopes by products, two ranks" "$(slopes dot 1e-6)"
fi

# Two ranks in the place of two micro-batches add the same gradients in another order: as near to fp64 as one rank.
if [ $BACKEND != sim ]; then
    fitted two two
    compare "two ranks" reference $ref "$scratch/two"
    fitted sets2 sets2
    compare "two ranks, sets" reference $ref/sets "$scratch/sets2" 1e-6
fi

# ---- what other objectives have

said() { "$work/regression.one/train" --out "$scratch/none" "$@" 2>&1; }
for flag in --sample --temperature --top-p --max-new-tokens; do
    line=$(said $flag 1)
    code=$?
    want="$flag: needs a program with the objective .*lm.*; this one has regression"
    verdict "$flag is refused" "$([ $code = 80 ] && grep -q -e "$want" <<<"$line" || echo "exit $code: $line")"
done
said --help >"$scratch/help"
verdict "--help has no sampling" "$(grep -i -e '--sample' -e '^sampling' -e '--temperature' -e '--top-p' "$scratch/help"
    grep -q -e '--eval-data' "$scratch/help" || cat "$scratch/help")"
rate=$(grep -A 1 -e '--lr X' "$scratch/help")
verdict "--help: its own default" "$([[ $rate == *0.003* ]] || echo "$rate")"

refused() {             # FIELD=VALUE TEXT: gen says so
    "$gen" "$tree/recipes/regression.lua" "$1" -o "$scratch/never" >"$scratch/said" 2>&1 &&
        echo "gen took it" >"$scratch/said"
    verdict "$1 is refused" "$(grep -q -- "$2" "$scratch/said" || cat "$scratch/said")"
}
refused data.kind=rows "data.kind: objective=regression trains on no token files, got"
refused model.vocab=31 "model.vocab: only for recipes whose objective is lm|mlm.*; this one's is regression"

# Floats of another shape, tokens and numbers that are none: one line each.
bad() {                 # NAME FILE CODE TEXT
    local line code
    line=$("$work/regression.one/train" --out "$scratch/none" --init-from none --data "$2" 2>&1)
    code=$?
    verdict "$1" "$([ $code = "$3" ] && [ "$(grep -c '^rank ' <<<"$line")" = 1 ] && grep -q "$4" <<<"$line" ||
        echo "exit $code: $line")"
}
bad "token files are no floats" tests/train/ref/gpt2_tiny/tokens.safetensors 83 \
    "want features as F32 of (samples, 8, 5)"
spoilt=$scratch/nan.safetensors
cp $ref/train.safetensors "$spoilt"
features=$((8 + $(od -An -tu8 -N8 "$spoilt") + $(head -c 500 "$spoilt" |
    grep -ao '"features":{[^}]*}' | sed 's/.*offsets":\[\([0-9]*\),.*/\1/')))
printf '\0\0\300\177' | dd of="$spoilt" bs=1 seek=$((features + 4 * 8 * 5 * 3)) conv=notrunc status=none
bad "a feature that is NaN" "$spoilt" 88 "sample 3 has a feature that is NaN"
tensor() { printf '"%s":{"dtype":"F32","shape":[0,8,%d],"data_offsets":[0,0]}' "$1" "$2"; }
header="{$(tensor features 5),$(tensor targets 1)}"
{ printf "\\x$(printf %02x ${#header})\0\0\0\0\0\0\0"; printf '%s' "$header"; } >"$scratch/empty.safetensors"
bad "no samples" "$scratch/empty.safetensors" 88 "empty.safetensors: has no samples"
exit $failed
