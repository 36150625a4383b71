#!/bin/bash
# from.sh: gen --from ROOM FILE.ir. A text that is edited makes the program of the recipe that would say so; the
# order of a step is that of its schedule; what contradicts itself is refused in one line. (That a text as it is makes
# the same folder: tests/gold/ir.sh.)
# shellcheck disable=SC2016      # $ of the texts
set -u
cd "$(dirname "$0")/../.." || exit 2
. tests/programs.sh
. tests/compare.sh
gen=${GEN:-out/.gen/gen}
t=$(mktemp -d)
trap 'rm -rf "$t"' EXIT
failed=0
verdict() {             # NAME [WHY]: passed when WHY is empty
    if [ -z "${2:-}" ]; then
        echo "ok from/$1"
    else
        echo "not ok from/$1: $(echo "$2" | head -c 300 | tr '\n' ' ')"
        failed=1
    fi
}

mkdir "$t/word"
cat >"$t/r.lua" <<'LUA'
return { target = 'cpu', batch = { micro = 6, accum = 3 }, seq = { max = 10 }, memory = { loss_rows = 20 },
         model = { family = 'gpt2', layers = 2, hidden = 24, heads = 2, ffn = 210, vocab = 31 } }
LUA
for room in graph fuse plan; do "$gen" -d $room "$t/r.lua" >"$t/$room.ir"; done

# ---- shapes

# as NAME EDIT: the text NAME.ir, from graph on, makes the programs of the recipe after a sed EDIT
as() {
    sed "$2" "$t/r.lua" >"$t/word/r.lua"
    rm -rf "${t:?}/$1"
    "$gen" --from graph "$t/$1.ir" -o "$t/$1" >"$t/log" 2>&1 || { verdict "$1" "$(cat "$t/log")"; return; }
    "$gen" "$t/word/r.lua" -o "$t/word/r" >"$t/log" 2>&1
    verdict "$1, as a recipe says it" "$(for f in step.c shape.h plan.h tensors.h config.json step.h objective.c; do
        diff <(grep -v 'IR sha256\|Made by' "$t/$1/$f") <(grep -v 'IR sha256\|Made by' "$t/word/r/$f")
    done)"
}
sed 's/\b210\b/150/g' "$t/graph.ir" >"$t/narrow.ir"
as narrow "s/ffn = 210/ffn = 150/"
sed 's/\[6\([],]\)/[4\1/; s/^size \(B\|DECODE_B\) 6 /size \1 4 /' "$t/graph.ir" >"$t/batch.ir"
as batch "s/micro = 6/micro = 4/"

# ---- schedules

# made NAME: the folder NAME of the text NAME.ir of plan
made() {
    rm -rf "${t:?}/$1"
    "$gen" --from plan "$t/$1.ir" -o "$t/$1" >"$t/log" 2>&1
}
body() { sed -n "/^void step_$2(/,/^}/p" "$t/$1/step.c" | grep -o 'run_[a-z]*\|clear(loss' | paste -sd' '; }
made plan
verdict "a step as graph orders it" \
    "$([ "$(body plan train)" = "clear(loss run_begin run_micro run_reduce run_update" ] || body plan train)"
sed '/^schedule train/s/clear $loss, begin,/begin, clear $loss,/
    /^schedule eval/a schedule again   clear $loss, eval, eval  -> $loss  "the same twice"' "$t/plan.ir" >"$t/order.ir"
made order || verdict order "$(cat "$t/log")"
verdict "another order" \
    "$([ "$(body order train)" = "run_begin clear(loss run_micro run_reduce run_update" ] || body order train)"
verdict "one more schedule" "$([ "$(body order again)" = "clear(loss run_eval run_eval" ] || body order again)"
verdict "its prototype" "$(grep -q '^void step_again(void);  *// the same twice$' "$t/order/step.h" || echo none)"
awk '/^schedule decode/ { next } /^program/ { out = $2 == "decode" }
     !out && !/^value %d\.|^state \$(keys|values|logits)|^input %(token|position) / { print }' \
    "$t/graph.ir" >"$t/silent.ir"
"$gen" --from graph "$t/silent.ir" -o "$t/silent" >"$t/log" 2>&1 || verdict silent "$(cat "$t/log")"
verdict "no decode without its schedule" "$(grep -n 'decode\|logits;' "$t/silent/step.c" "$t/silent/step.h")"

# ---- the edited program trains

out=$t/narrow
if make_in_haste "$out" >"$t/log" 2>&1; then
    out/.test/rooms/tokens "$t/tokens" 31 7
    "$out/train" --data "$t/tokens" --init-from none --out "$t/run" --steps 2 --lr 1e-2 --log-every 1 --save-every 0 \
        >"$t/log" 2>&1
    verdict "narrow trains" "$([ "$(grep -c '"grad_norm": [0-9.]' "$t/run/history.jsonl")" = 2 ] || tail -n 2 "$t/log")"
else
    verdict "narrow builds" "$(tail -n 3 "$t/log")"
fi

# ---- what is refused

# refused NAME ROOM EDIT TEXT: TEXT stands in the one line that is said of the text of ROOM after a sed EDIT
refused() {
    local rc said
    sed "$3" "$t/$2.ir" >"$t/edit.ir"
    cmp -s "$t/$2.ir" "$t/edit.ir" && verdict "refused $1" "the edit changed nothing"
    said=$("$gen" --from "$2" "$t/edit.ir" -o "$t/no" 2>&1)
    rc=$?
    said=${said//$t\//}
    verdict "refused $1" "$([ $rc = 1 ] && [ "$(grep -c '' <<<"$said")" = 1 ] && [[ $said == "$4"* ]] ||
        echo "exit $rc: $said, want $4")"
    verdict "refused $1: nothing written" "$([ ! -e "$t/no" ] || echo "a folder")"
    rm -rf "$t/no"
}
line() { grep -n -m1 -- "$2" "$t/$1.ir" | cut -d: -f1; }
refused "a size that dimensions do not follow" graph 's/^size B 6/size B 5/' \
    "edit.ir:$(line graph '^input %tokens'): tokens: B is 5, here 6"
refused "a dimension" graph '/^input %tokens/s/\[6,10\]/[6,11]/' "edit.ir:$(line graph ' = embed '): embed: "
refused "a width that config.json does not have" graph 's/\b210\b/150/g; s/"n_inner": 150/"n_inner": 210/' \
    "edit.ir:$(line graph '^set config_json'): \"n_inner\" must be 150"
refused "a width that checkpoints do not have" graph 's/^| model.ffn=210/| model.ffn=211/' \
    "edit.ir:$(line graph '^set model_fields'): expected the line model.ffn=210, found model.ffn=211"
refused "a precision" graph 's/^set precision "fp32"/set precision "fp64"/' \
    "edit.ir:$(line graph '^set precision'): precision: must be fp32|bf16|fp16, got fp64"
refused "layers" graph 's/^repeat 2 (L) up/repeat 3 (L) up/' "edit.ir:"
refused "heads" graph 's/  heads 2 /  heads 4 /' "edit.ir:$(line graph '  heads 2 '): "
refused "a missing line" graph '/^set name/d' \
    "edit.ir:$(grep -c '' "$t/graph.ir" | awk '{ print $1 - 1 }'): no line \`set name\`"
refused "a name twice" graph '/^set name/p' "edit.ir:$(($(line graph '^set name') + 1)): name is set twice"
refused "no name" graph 's/^set name "r"/set name ""/' "edit.ir:$(line graph '^set name'): name: needs a path"
refused "a name for a shell" graph 's/^set name "r"/set name "r;x"/' "edit.ir:$(line graph '^set name'): name \"r;x\""
refused "a field misspelt" plan 's/^| optim.decay_rule/| optim.decay_rul/' \
    "edit.ir:$(line plan '^set model_fields'): expected a line optim.decay_rule=VALUE, found none"
refused "a field without a value" plan 's/^| optim.decay_rule=.*/| optim.decay_rule=/' \
    "edit.ir:$(line plan '^set model_fields'): optim.decay_rule: must be "
refused "a field twice" plan '/^| optim.decay_rule/p' \
    "edit.ir:$(line plan '^set model_fields'): optim.decay_rule appears twice"
refused "a line that is no field" plan '/^| optim.decay_rule/i | optim.decays=1' \
    "edit.ir:$(line plan '^set model_fields'): optim.decays=1 is no line FIELD=VALUE"
refused "no first line" plan 1d "edit.ir:2: the first line of a room's text is missing: "
refused "a way to write checkpoints" graph '/^set model_fields/i set checkpoint\n| never' \
    "edit.ir:$(line graph '^set model_fields'): checkpoint: must be async"
refused "an unknown fact" graph 's/^set tune/set tuned/' \
    "edit.ir:$(line graph '^set tune'): tuned is not a setting"
refused "a flag" graph '/^set model_fields/i set flags "learning=3"' \
    "edit.ir:$(line graph '^set model_fields'): flags: must be NAME=VALUE of a run-time flag, got learning=3"
refused "a program that is not there" plan '/^schedule eval/s/, eval/, evil/' \
    "edit.ir:$(line plan '^schedule eval'): schedule eval: there is no program evil"
refused "a program of no schedule" plan '/^schedule decode/d' \
    "edit.ir:$(($(line plan '^program decode') - 1)): program decode is in no schedule"
refused "a schedule twice" plan '/^schedule eval/p' \
    "edit.ir:$(($(line plan '^schedule eval') + 1)): schedule eval appears twice"
refused "no clearing" graph '/^schedule train/s/ begin,//' \
    "edit.ir:$(line graph '^program begin'): program begin is in no schedule"
refused "update before reduce" plan '/^schedule train/s/reduce, update/update, reduce/' \
    "edit.ir:$(line plan '^[a-z]* $total_norm'): schedule train: adamw in update reads total_norm before it is written"
refused "too few micro-batches" plan '/^schedule train/s/micro \* 3/micro * 2/' \
    "edit.ir:$(line plan '^program micro'): micro occurs 2 times in a schedule, but has 3 micro-batches"
refused "a result of nobody" plan '/^schedule decode/s/-> $logits/-> $loss/' \
    "edit.ir:$(line plan '^[a-z]* $loss'): schedule decode does not write its result loss"
refused "a graph without a GPU" plan '/^schedule eval/s/  "/  captured  "/' \
    "edit.ir:$(line plan '^schedule eval'): schedule eval: only a GPU captures"
refused "a function that is there" plan '/^schedule eval/{p;s/eval   /wait   /}' \
    "edit.ir:$(($(line plan '^schedule eval') + 1)): schedule wait: the program has a step_wait() of its own"
refused "a role" plan 's/^program reduce  reduce/program reduce  forward/' \
    "edit.ir:$(line plan '^program reduce'): grad_norm in reduce, whose role is forward"
refused "a kernel of something else" fuse '0,/ gelu_fwd/s/ gelu_fwd/ add_fwd/' "edit.ir:$(line fuse '^program micro'): group "
refused "an address" plan '/^param $wte/s/at device+0x0/at device+0x4/' "edit.ir:$(line plan '^param $wte'): wte "
refused "another target's kernel" fuse '0,/^@g[0-9]* [a-z_]*/s/^\(@g[0-9]*\) [a-z_]*/\1 nothing/' \
    "edit.ir:$(line fuse '^@g'): nothing is not a kernel of target cpu"
refused "the text of another room" plan 's/^# plan/# part/' "edit.ir:1: is the text of part: use --from part"
refused "no room" plan 's/^# plan/# plum/' "edit.ir:1: names the room plum, which has no such text"

# Texts of other objectives without any one of their lines, and with a number that is another: a program, or one line
# that says where.
"$gen" -d plan recipes/dpo_tiny.lua >"$t/pairs.ir"
"$gen" -d part recipes/dreamprm_tiny.lua lora.rank=2 prm.train_head=true >"$t/steps.ir"
every=97                         # of so many lines one; and those of the objective's fields
[ -z "${FULL:-}" ] || every=1
for room in plan:pairs part:steps; do
    text=$t/${room#*:}.ir
    for n in $(seq 1 $every "$(grep -c '' "$text")") $(grep -nE '^. (dpo|prm)[.]' "$text" | cut -d: -f1); do
        for edit in "${n}d" "${n}s/[0-9][0-9]*/7/2"; do
            sed "$edit" "$text" >"$t/edit.ir"
            cmp -s "$text" "$t/edit.ir" || "$gen" --from "${room%:*}" "$t/edit.ir" -o "$t/no" >"$t/log" 2>&1 ||
                { [ $? = 1 ] && head -n 1 "$t/log" | grep -q "^$t/edit.ir:[0-9]*: "; } ||
                echo "${room#*:} $edit: $(cat "$t/log")"
        done
    done
done >"$t/sweep"
verdict "a text without a line, or with another number" "$(head -n 3 "$t/sweep")"
rm -rf "$t/no"

# said NAME TEXT WORDS ..
said() {
    local name=$1 want=$2 said rc
    shift 2
    said=$("$gen" "$@" 2>&1)
    rc=$?
    said=${said//$t\//}
    verdict "$name" "$([ $rc = 1 ] && [ "$said" = "$want" ] || echo "exit $rc: $said, want $want")"
}
said "a room misspelt" \
    "gen: --from grpah: no room with a text to continue from; did you mean graph?" --from grpah "$t/graph.ir"
said "a room without" "gen: --from config: no room with a text to continue from; use graph, fuse, part or plan" \
    --from config "$t/graph.ir"
said "no file" "gen: cannot read no.ir: No such file or directory" --from plan "$t/no.ir"
said "a recipe" "gen: --from plan: takes the text of a room, FILE.ir, got r.lua" --from plan "$t/r.lua"
said "a word" "gen: --from plan: batch.micro=2: a text has no fields; edit it, or start from the recipe" \
    --from plan "$t/plan.ir" batch.micro=2
said "an earlier room" "gen: -d graph: comes before plan, the room of --from" --from plan "$t/plan.ir" -d graph
said "no room" "gen: --from: needs a room and the file of its text after it" --from
said "a text without a room" "plan.ir: is the text of a room; use: gen --from ROOM plan.ir" "$t/plan.ir"
"$gen" -d plan recipes/h200x1_tiny.lua | sed 's,^set recipe ".*",set recipe "elsewhere.lua",' >"$t/lost.ir"
lost="was made from the recipe elsewhere.lua, which is in none of $t, $PWD; gen needs its lock file"
said "a lock file that is not here" "lost.ir: $lost: run gen in the folder of the recipe" --from plan "$t/lost.ir" -o "$t/no"
exit $failed
