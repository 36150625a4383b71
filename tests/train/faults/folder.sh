# shellcheck shell=bash disable=SC2086,SC2154
# folder.sh -- the run folder, and weights that a command finds by itself. Sourced by faults.sh.

# ---- weights that nobody named --------------------------------------------------

# A folder without a checkpoint is no reason to take other weights, nor is a model that was not named.
lora="--data $ref/qwen2_lora/tokens.safetensors"
for use in "--export $scratch/exported" "--sample ab" "--eval-only --eval-data $ref/$case/eval.safetensors"; do
    refuses "$use of an empty folder" 89 "no checkpoint in $scratch/out, .* did you mean --init-from?" gpt2_tiny $use
    refuses "$use of an empty folder, adapters" 89 "no checkpoint in .* did you mean --adapter in addition to" qwen2_lora $use \
        --init-from $ref/qwen2_lora/model
done
refuses "--merge-lora of an empty folder" 89 "no checkpoint in .* did you mean --init-from?" qwen2_lora \
    --merge-lora "$scratch/exported"
verdict "nothing was exported" "$(ls "$scratch" | grep exported)"
refuses "adapters on no model" 80 "--init-from none" qwen2_lora $lora
refuses "a model that is not there, tried dry" 80 "/absent: no such folder" gpt2_tiny $ours --dry-run \
    --init-from "$scratch/absent"
refuses "another model, tried dry" 83 "config.json: model_type" gpt2_tiny $ours --dry-run \
    --init-from $ref/llama_tiny/model
refuses "adapters on no model, tried dry" 80 "--init-from none" qwen2_lora $lora --dry-run
refuses "an adapter without its model" 80 "--init-from none" qwen2_lora $lora --adapter $ref/qwen2_lora/adapter_init
refuses "merging without LoRA" 80 "has no LoRA" gpt2_tiny --merge-lora "$scratch/exported"
refuses "a type of nothing" 80 "--export-dtype: has no effect without --export or --merge-lora$" gpt2_tiny --export-dtype bf16
refuses "a type that is none" 80 '--export-dtype: must be one of fp32|bf16|fp16, got "int8"' gpt2_tiny --export-dtype int8
refuses "two uses at a time" 80 "--sample and --export: give one" gpt2_tiny --sample a --export "$scratch/exported"
# uses NAME TEXT PROGRAM ARGS...: exit 0, and where the weights come from is said
uses() {
    local name=$1 text=$2 program=$3 code
    shift 3
    "$work/$program/train" "$@" >"$scratch/said" 2>&1
    code=$?
    verdict "$name" "$([ $code = 0 ] || echo "exit $code: $(tail -n 1 "$scratch/said")"
        grep -q -- "$text" "$scratch/said" || echo "no '$text' in: $(tail -n 12 "$scratch/said")")"
}
draw="--sample a --max-new-tokens 1"
uses "random weights when asked for" "^weights: random, made from seed 42" gpt2_tiny $draw --init-from none
refuses "the likeliest token and another" 80 "--greedy takes the likeliest token, --temperature 0.7 samples one" \
    gpt2_tiny $draw --init-from none --greedy --temperature 0.7
verdict "the likeliest token by two names" "$(cmp <("$work/gpt2_tiny/train" --sample ab --init-from none \
    --greedy 2>&1 | grep -v ' second') \
    <("$work/gpt2_tiny/train" --sample ab --init-from none --temperature 0 2>&1 | grep -v ' second') 2>&1)"
uses "weights of a model folder" "^weights: $ref/$case/model" gpt2_tiny $draw --init-from $ref/$case/model
uses "from scratch" "^  weights    random, made from seed 42" gpt2_tiny $ours --out "$scratch/from" --steps 1
refuses "a checkpoint and a model" 80 "both $scratch/from/checkpoint-1 and --init-from none have weights" gpt2_tiny \
    $draw --out "$scratch/from" --init-from none
uses "a model that a resumed run does not read" \
    "^--init-from $ref/$case/model is not read: $scratch/from/checkpoint-1 has the weights, and this run began with none" \
    gpt2_tiny $ours --out "$scratch/from" --steps 1 --init-from $ref/$case/model
refuses "an adapter without LoRA, next to a checkpoint" 80 "--adapter: this program has no LoRA" gpt2_tiny $draw \
    --out "$scratch/from" --adapter $ref/qwen2_lora/adapter_init
uses "flags given twice" "^given twice, the last one holds: --lr 1 and 2, --seed 3 and 4$" gpt2_tiny $ours --dry-run \
    --lr 1 --lr 2 --seed 3 --seed 3 --seed 4
uses "steps and epochs" "^--epochs has no effect: --steps 2 decides$" gpt2_tiny $ours --dry-run --epochs 4 --steps 2
for use in "$draw" "$ours"; do
    refuses "a checkpoint as run folder: ${use%% *}" 89 \
        "is a checkpoint itself; .* --out $scratch/from?" gpt2_tiny $use \
        --out "$scratch/from/checkpoint-1"
done
uses "adapters on random weights" "^  weights    random, made from seed 3; adapters: new" qwen2_lora $lora \
    --out "$scratch/random" --init-from none --steps 1
uses "they go on" "^  weights    random, made from seed 3; adapters: $scratch/random/checkpoint-1" qwen2_lora $lora \
    --out "$scratch/random" --steps 2
uses "adapters on a model" "^  weights    $ref/qwen2_lora/model; adapters: new" qwen2_lora $lora --out "$scratch/on" \
    --init-from $ref/qwen2_lora/model --steps 1
uses "the base is known" "^weights: $ref/qwen2_lora/model; adapters: $scratch/on/checkpoint-1" qwen2_lora $draw \
    --out "$scratch/on"
uses "no adapters when asked for" "^weights: $ref/qwen2_lora/model; adapters: new" qwen2_lora $draw \
    --out "$scratch/nowhere" --init-from $ref/qwen2_lora/model --adapter none
rm -rf "$scratch"/{from,random,on}

# ---- the run folder --------------------------------------------------

run() { train gpt2_tiny $case "$@"; }
# expect NAME CODE TEXT: of the last run
expect() {
    local code=$?
    verdict "$1" "$([ $code = "$2" ] || echo "exit $code, want $2: $(tail -n 2 "$scratch/$run.log")"
        grep -q -- "$3" "$scratch/$run.log" || echo "no '$3' in: $(tail -n 3 "$scratch/$run.log")")"
}
# finishes NAME [STRAIGHT]: the run of the last name is, in the end, the straight one
finishes() {
    local straight=${2:-straight}
    compare "$1" history "$scratch/$run" "$scratch/$straight" 0
    local file
    for file in model optimizer; do
        cmp -s "$scratch/$run/checkpoint-20/$file.safetensors" \
            "$scratch/$straight/checkpoint-20/$file.safetensors" ||
            verdict "$1 bits" "$file.safetensors differs"
    done
    [ -f "$scratch/$run/DONE" ] || verdict "$1 done" "no DONE"
    rm -rf "${scratch:?}/$run"
}
run straight || verdict straight "$(tail -n 2 "$scratch/straight.log")"

run=again; cp -r "$scratch/straight" "$scratch/again"
run again; expect "a finished run" 0 "nothing to do"
run again --resume never; expect "--resume never of a run" 80 "has 1 checkpoint; give another --out"
run again --steps 22; expect "more steps" 0 "CHANGED ON RESUME: steps 20 -> 22"
verdict "the mean of which steps" "$(
    grep -q '^2 steps more in .*; mean loss of all 22 steps of the run [0-9.]*$' "$scratch/again.log" ||
    grep mean "$scratch/again.log")"
# what the program says to type, typed; files next to the weights go along without the folder they came from
verdict "what to do next" "$(next=$(sed -n 's/^  export  \(.*\)  a Hugging Face folder$/\1/p' "$scratch/again.log")
    eval "$next" >"$scratch/said" 2>&1 || cat "$scratch/said"
    next=$(sed -n 's/^  sample  //p' "$scratch/again.log")
    eval "$next --max-new-tokens 2" >"$scratch/said" 2>&1 || cat "$scratch/said"
    [ -f "$scratch/again-model/config.json" ] || echo "no folder")"
cp -r "$scratch/again" "$scratch/carried"
"$work/gpt2_tiny/train" $ours --out "$scratch/carried" --steps 26 --save-every 1 --save-total-limit 2 \
    >"$scratch/said" 2>&1
verdict "files next to the weights go along" "$(
    ls "$scratch/carried/checkpoint-26/generation_config.json" 2>&1 >/dev/null)"
uses "an export makes the folders above it" "^wrote" gpt2_tiny --out "$scratch/again" --export "$scratch/deep/er/model"
rm -rf "$scratch"/{deep,again-model,carried}
wild="--lr 1000 --clip 0 --warmup 0 --steps 40 --schedule constant --weight-decay 900"
run again $wild; expect "a run that goes on and fails" 87 "loss"
verdict "is not done" "$(ls "$scratch/again" | grep DONE)"
train gpt2_tiny.2x2x2 $case again --steps 23 --exact; expect "another program --exact" 83 "ranks"
train wide $case again
expect "checkpoint of another shape" 83 "hidden is 64 in the checkpoint, 48 here; .*model.ffn is 256 in the checkpoint, 192 here"
retold
"$work/gpt2_tiny/run.sh" --init-from $ref/$case/model --out "$scratch/again" --steps 23 --data "$tokens" \
    --eval-data "$scratch/in/eval.safetensors" --allow-inexact >"$scratch/again.log" 2>&1
expect "data of another tokenizer than the checkpoint's" 83 "with tokenizer bytez, .*/checkpoint-22 with bytes:"
refuses "weights of data of another tokenizer" 83 "bytez, .*/checkpoint-22 with bytes:" gpt2_tiny \
    --data "$tokens" --init-from "$scratch/again/checkpoint-22"
"$work/gpt2_tiny/train" --out "$scratch/again" --sample a --tokenizer tests/tokenizer/gpt2/tokenizer.json \
    >"$scratch/again.log" 2>&1
expect "sample with another tokenizer" 83 "gpt2/tokenizer.json is crc32c:.* that of the weights .*-22) is bytes"
rm -rf "$scratch/again"

run=damaged; run damaged --save-every 5 --save-total-limit 0
rm "$scratch/damaged/DONE"
poke "$scratch/damaged/checkpoint-20/optimizer.safetensors" -2000 55
poke "$scratch/damaged/checkpoint-15/train_state.json" 20 00
run damaged; expect "two damaged checkpoints" 0 "resumed from .*checkpoint-10"
[ -d "$scratch/damaged/checkpoint-15.corrupt" ] || verdict "damaged are kept aside" "no checkpoint-15.corrupt"
finishes "after damage"
run=damaged; run damaged
rm -rf "$scratch/damaged"/DONE
poke "$scratch/damaged/checkpoint-20/model.safetensors" -1 7f
run damaged; expect "no valid checkpoint" 89 "checkpoint-20"
run damaged; expect "nor at the next start" 89 "--resume never starts over at step 0"
run damaged --resume never --steps 2; expect "until it is told" 0 "^step 1/2 "
rm -rf "$scratch/damaged"

# A second start in a folder leaves it and the run that works there alone, whatever its ranks.
run=locked
mkdir "$scratch/locked"
touch "$scratch/locked"/{fault.0.1.json,history.jsonl,DONE}.tmp "$scratch/locked/probe.77"
train gpt2_tiny.2x2x2 $case locked --steps 400000 --epochs 100000 --log-every 1000 --save-every 0 &
pid=$!
waits [ -n "$(ls "$scratch"/locked/runs/*/*.diecast 2>/dev/null)" ]
verdict "what a killed start was writing goes" "$(ls "$scratch/locked" | grep -e tmp -e probe)"
untouched() {
    (cd "$scratch/locked" && find . -printf '%p %i %m\n' | sort; stat -c %y . logs
        grep -c -e ' ---- ' logs/training.log)
}
before=$(untouched)
verdict "its ranks listen to this machine alone" "$(for rank in $(pgrep -f -- "train .*--out $scratch/locked "); do
    [ "$(readlink "/proc/$rank/exe")" = "$PWD/$work/gpt2_tiny.2x2x2/train" ] || continue
    echo rank
    awk '$4 == "0A" && $2 !~ /^0100007F:/ { print $10 }' /proc/net/tcp /proc/net/tcp6 |
        grep -xFf <(ls -l "/proc/$rank/fd" | sed -n 's/.*socket:.\([0-9]*\).$/\1/p')
    done | sort | uniq -c | grep -vx ' *2 rank')"
for program in gpt2_tiny gpt2_tiny.2x2x2; do
    "$work/$program/run.sh" $ours --init-from $ref/$case/model --out "$scratch/locked" >"$scratch/said" 2>&1
    code=$?
    verdict "a second run in the folder, $program" "$([ $code = 92 ] || echo "exit $code"
        grep -q "^rank 0 .*locked: in use by process [0-9]* on " "$scratch/said" || tail -n 3 "$scratch/said"
        [ "$before" = "$(untouched)" ] || diff <(echo "$before") <(untouched))"
done
kill -TERM "$(pgrep -P $pid run.sh || echo $pid)"
wait $pid; expect "a request saves and stops, whatever came in between" 91 "stopped on SIGUSR1"
[ -f "$scratch/locked/DONE" ] && verdict "stopped is not done" DONE
verdict "its fault files name their start" "$(
    sed -n 's/.*"start": "\(.*\)".*/\1/p' "$scratch"/locked/fault.0.[01].json | uniq -c | grep -v '^ *2 .*\.[0-9]*$')"
last=$(ls -d "$scratch/locked"/checkpoint-* | sed 's/.*-//' | sort -n | tail -n 1)
train gpt2_tiny.2x2x2 $case locked --steps $((last + 3)); expect "it goes on" 0 "resumed from .*checkpoint-$last"
verdict "no lock stays" "$(ls "$scratch/locked" | grep run.lock)"
rm -rf "$scratch/locked"

# A second SIGTERM while a checkpoint is written, which takes long: what it says is so, and no lock stays.
run=hurry
DIECAST_FAULT=save:rank=0:step=6:seconds=60 run hurry --save-every 3 &
pid=$!
waits [ -f "$scratch/hurry/checkpoint-6.tmp/files.json" ]
own=$(pgrep -P $pid train || echo $pid)
kill -TERM "$own"; waits taken "$own"; kill -TERM "$own"
wait $pid; expect "a second SIGTERM ends it at once" 143 "second SIGTERM: leaving at once; what came after the newest"
verdict "it says no more than that" "$(grep "saved" "$scratch/hurry.log"
    ls "$scratch/hurry" | grep -E 'lock|DONE|^checkpoint-6$')"
run hurry; expect "and the run goes on" 0 "resumed from .*checkpoint-3"
finishes "after a second SIGTERM"

mpirun -n 3 --oversubscribe --bind-to none "$work/gpt2_tiny.2x2x2/train" --out "$scratch/out" >"$scratch/said" 2>&1
code=$?
verdict "three ranks of a program for two" "$([ $code = 83 ] || echo "exit $code"
    grep -q "built for 2 ranks, started as 3.*: gen $here/recipes/gpt2_tiny.lua batch.micro=2 batch.accum=2 gpus=3," \
        "$scratch/said" || head -n 3 "$scratch/said")"
