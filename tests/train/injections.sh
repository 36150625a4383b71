#!/bin/bash
# Faults from outside at two and at four ranks, for make soak: signals, strace, full and read-only disks, damaged files,
# clocks that jump, missing networks. Each run ends with its documented code and one line that gives the reason; the
# next start, undisturbed, ends with the bits of an undisturbed run.
# Elsewhere: ranks that die, freeze or compute wrongly, also at four ranks (faults.sh with INJECT=1); kills during a
# save (kills.sh); ports, secrets, late, missing and strange ranks (tests/runtime/rendezvous.sh); another number of
# ranks (pairs.sh); hosts that are cut off (tests/nodes).
# A test that this machine cannot run is a line `# skipped`, not a passed test.
source "$(dirname "$0")/lib.sh"
case=gpt2_tiny
data=(--data "$ref/$case/tokens.safetensors" --init-from "$ref/$case/model")
programs <<'END'
gpt2_tiny.2x2x2 gpt2_tiny gpus=2 batch.micro=2 batch.accum=2
gpt2_tiny.4x1x2 gpt2_tiny gpus=4 batch.micro=2 batch.accum=1
wide gpt2_tiny model.hidden=48
gpt2_tiny.bf16 gpt2_tiny precision=bf16
llama_rows llama_rows
prm_instance prm_instance
dpo_mean.2x1 dpo_mean gpus=2 batch.accum=1
mdm_masked mdm_masked
END
mounts=()
trap 'for m in "${mounts[@]}"; do umount "$m"; done; rm -rf "$scratch"' EXIT
skipped=0
skips() { echo "# skipped $1: $2"; skipped=$((skipped + 1)); }
waits() { for ((i = 0; i < 1200; i++)); do "$@" && return; sleep 0.05; done; }
taken() { ! grep -q '^ShdPnd:.*[4567cdef]...$' "/proc/$1/status" 2>/dev/null; }
mount_at() {            # FOLDER WORD...: it is mounted there, if this machine lets us
    mkdir -p "$1" && mount "${@:2}" "$1" 2>/dev/null && mounts+=("$1")
}

# ---- runs: their output in $run.log, their folder $out

new() { run=$scratch/$1 out=$scratch/$1 said=$scratch/$1.log; rm -rf "$out"; }
run() { train "$program" $case "${run##*/}" --save-every 5 "$@"; }
# direct WITH FLAG...: by mpirun itself; the words of WITH start each rank, or with ALONE=1 rank 0 only
cat >"$scratch/wrap" <<'END'
#!/bin/bash
[ "${ALONE:-}" != 1 ] || [ "$OMPI_COMM_WORLD_RANK" = 0 ] || exec "$@"
# shellcheck disable=SC2086
exec $WITH "$@"
END
chmod +x "$scratch/wrap"
direct() {
    WITH=$1 exec mpirun -n "$ranks" --oversubscribe --bind-to none "$scratch/wrap" "$work/$program/train" \
        "${data[@]}" --eval-data "$ref/$case/eval.safetensors" --out "$out" --save-every 5 "${@:2}" >"$said" 2>&1
}
# ends NAME CODE TEXT: of the last command
ends() {
    local code=$?
    verdict "$ranks ranks: $1" "$([[ $code =~ ^($2)$ ]] || echo "exit $code, want $2: $(tail -n 2 "$said")"
        grep -qE -- "$3" "$said" || echo "no '$3' in: $(tail -n 3 "$said")")"
}
# as_straight NAME: it is the undisturbed run in the end, and leaves no more
as_straight() {
    local file straight=$scratch/straight.$ranks
    compare "$ranks ranks: $1" history "$out" "$straight" 0
    verdict "$ranks ranks: $1: bits" "$(for file in model optimizer; do
        cmp {"$out","$straight"}/checkpoint-20/$file.safetensors 2>&1; done
        [ -f "$out/DONE" ] || echo "no DONE"
        ls -A "$out" | grep -E '\.(tmp|del)$|^probe|^run\.lock')"
}
goes_on() { run || verdict "$ranks ranks: $1 goes on" "exit $?: $(tail -n 2 "$said")"; as_straight "$1 goes on"; }
refused() {             # NAME CODE TEXT: the last command took no step
    ends "$@"
    verdict "$ranks ranks: $1: no step" "$(grep -m 1 '^step ' "$said")"
}

for program in wide gpt2_tiny.bf16 llama_rows; do
    of=$case
    [ $program != llama_rows ] || of=llama_rows
    "$work/$program/run.sh" --data $ref/$of/tokens.safetensors --out "$scratch/of.$program" --steps 2 \
        >"$scratch/of.$program.log" 2>&1 || verdict "$program" "exit $?: $(tail -n 2 "$scratch/of.$program.log")"
done

for program in gpt2_tiny.2x2x2 gpt2_tiny.4x1x2; do
ranks=$(sed -n 's/^RANKS := //p' "$work/$program/Makefile")
new straight.$ranks
run; ends "undisturbed" 0 "^step 20/20"

# ---- signals

new struck
DIECAST_FAULT=save:rank=0:step=5:seconds=2 direct "" &
pid=$!
waits [ -d "$out/checkpoint-5.tmp" ]
kill -USR1 $pid
wait $pid; ends "SIGUSR1 to mpirun" 91 "stopped on SIGUSR1 after step ([0-9]*), checkpoint-\1 saved"
goes_on "SIGUSR1 to mpirun"
new struck
DIECAST_FAULT=save:rank=0:step=10:seconds=60 run &
pid=$!
waits [ -d "$out/checkpoint-10.tmp" ]
script=$(pgrep -P $pid -f 'run\.sh' || echo $pid)
kill -TERM "$script"; waits taken "$script"; sleep 0.7; kill -TERM "$script"
wait $pid; ends "a second SIGTERM during a save" "8[0-9]|9[0-4]|1[0-9]*" ""
verdict "$ranks ranks: the save that was cut off is none" "$(ls "$out" | grep -x checkpoint-10
    [ -d "$out/checkpoint-5" ] || echo "no checkpoint-5")"
goes_on "a second SIGTERM during a save"

# ---- system calls that fail or take long

if strace -qq -o /dev/null true 2>/dev/null; then
    trace() { echo strace -f -qq -o "$scratch/strace" "$@"; }
    export ALONE=1
    new struck
    (direct "$(trace -e trace=fsync -e inject=fsync:error=EIO:when=3)")
    ends "fsync fails once" 0 "trying once more"
    as_straight "fsync fails once"
    new struck
    (direct "$(trace -e trace=fsync -e inject=fsync:error=EIO:when=3+)")
    ends "fsync always fails" 90 "^rank 0 .*Input/output error; the third save in a row"
    goes_on "fsync always fails"
    new struck
    # two files and the folder, twice; before them the file of events
    (direct "$(trace -e trace=rename -e inject=rename:error=EIO:when=4..7+3)")
    ends "a checkpoint cannot be renamed" 0 "checkpoint-5: rename: Input/output error.*training goes on"
    verdict "$ranks ranks: it is not there" "$(ls -d "$out"/checkpoint-5* 2>/dev/null)"
    as_straight "a checkpoint cannot be renamed"
    new struck
    names=()
    for name in model optimizer; do for end in "" .tmp; do
        names+=(-P "$out/checkpoint-5.tmp/$name.safetensors$end")
    done; done
    (direct "$(trace -e trace=write,pwrite64 "${names[@]}" -e inject=write,pwrite64:error=ENOSPC)")
    ends "a checkpoint cannot be written" 0 "No space left on device.*training goes on"
    as_straight "a checkpoint cannot be written"
    new struck
    # longer than a step may take (15 s of these 25 %), shorter than a save may
    (DIECAST_TIMEOUT_SCALE=0.25 direct "$(trace -e trace=fsync -e inject=fsync:delay_exit=20000000:when=3)")
    ends "fsync takes 20 s" 0 "^step 20/20"
    verdict "$ranks ranks: nobody counts as hung" "$(grep -e hung -e 'no progress' "$said")"
    as_straight "fsync takes 20 s"
    export -n ALONE
else
    skips "$ranks ranks: system calls that fail" "strace is not here, or may not trace"
fi

# ---- disks

if mount_at "$scratch/full" -t tmpfs -o size=600k tmpfs; then
    new full/run; said=$scratch/full.log
    "$work/$program/run.sh" "${data[@]}" --out "$out" >"$said" 2>&1
    refused "a disk that is too small" 90 "a checkpoint needs [0-9.]* MiB, [0-9.]* MiB are free|No space left"
    mount -o remount,size=64m,ro "$scratch/full"
    "$work/$program/run.sh" "${data[@]}" --out "$out" >"$said" 2>&1
    refused "a read-only disk" 90 "Read-only file system"
    mount -o remount,rw "$scratch/full"
    run=$scratch/full/run
    "$work/$program/run.sh" "${data[@]}" --eval-data $ref/$case/eval.safetensors --out "$out" --steps 100000 \
        --save-every 50 --eval-every 0 >"$said" 2>&1 &
    pid=$!
    waits [ -d "$out/checkpoint-50" ]
    while kill -0 $pid 2>/dev/null; do
        head -c 64m /dev/zero >>"$scratch/full/other" 2>/dev/null
        sleep 0.05
    done
    wait $pid; ends "a disk fills up" 90 "^rank 0 .*the third save in a row that failed"
    failed_saves=$(grep -c "^warning: .*: checkpoint of step .*training goes on" "$said")
    verdict "$ranks ranks: training went on twice" "$([ "$failed_saves" -ge 2 ] || grep 'training goes on' "$said"
        ls "$out" | grep '\.tmp$')"
    rm "$scratch/full/other"
    last=$(ls -d "$out"/checkpoint-* | sed 's/.*-//' | sort -n | tail -n 1)
    "$work/$program/run.sh" "${data[@]}" --eval-data $ref/$case/eval.safetensors --out "$out" --steps $((last + 2)) \
        --eval-every 0 >"$said" 2>&1
    ends "room again" 0 "resumed from .*checkpoint-$last"
    umount "$scratch/full" && mounts=("${mounts[@]:0:${#mounts[@]}-1}")
else
    skips "$ranks ranks: disks" "no tmpfs can be mounted"
fi

# ---- checkpoints that are damaged or of another program

new saved
run --save-total-limit 0; ends "saved" 0 ""
rm "$out/DONE"
damage() {              # NAME COMMAND: in its newest checkpoint; the one before is resumed
    new struck
    cp -r "$scratch/saved" "$out"
    (cd "$out/checkpoint-20" && eval "$2")
    run --save-total-limit 0; ends "damage: $1" 0 "resumed from .*checkpoint-15"
    verdict "$ranks ranks: damage: $1: set aside" "$([ -d "$out/checkpoint-20.corrupt" ] || ls "$out")"
    rm -rf "$out"/*.corrupt
    as_straight "damage: $1"
}
flip='f() { printf "\\x5a" | dd of="$1" bs=1 seek=$2 conv=notrunc status=none; }; f'
damage "last byte cut" 'truncate -s -1 optimizer.safetensors'
damage "a bit of a tensor" "$flip model.safetensors \$((\$(stat -c %s model.safetensors) - 21))"
damage "a bit of a header" "$flip model.safetensors 40"
damage "a file is missing" 'rm train_state.json'
damage "files.json is missing" 'rm files.json'
damage "files.json is empty" ': >files.json'
new struck
cp -r "$scratch/saved" "$out"
truncate -s 9 "$out"/checkpoint-*/model.safetensors
run; refused "all are damaged" 89 "no valid checkpoint"
for other in "wide|model.hidden is 48 in the checkpoint, 64 here" \
    'gpt2_tiny.bf16|precision is "bf16" in the checkpoint, "fp32" here' 'llama_rows|model.family is "llama" in the checkpoint, "gpt2" here'; do
    new struck
    cp -r "$scratch/of.${other%%|*}" "$out"
    rm -f "$out/DONE"
    run; refused "a checkpoint of ${other%%|*}" 83 "${other#*|}"
done
new struck
cp -r "$scratch/saved" "$out"
run --steps 22 --lr 1e-4; ends "another rate" 0 "CHANGED ON RESUME:.* lr [0-9.e-]* -> 0.0001"

# ---- two runs in one folder

new struck
DIECAST_FAULT=save:rank=0:step=5:seconds=60 run &
pid=$!
waits [ -e "$out/checkpoint-5.tmp/files.json" ]      # the last file that it writes before it waits
before=$(cd "$out" && find . -printf '%p %i\n' | sort)
said=$scratch/second.log
timeout 100 "$work/$program/run.sh" "${data[@]}" --out "$out" >"$said" 2>&1
refused "a second run in the folder" 92 "in use by process [0-9]* on "
verdict "$ranks ranks: it touched nothing" "$(diff <(echo "$before") <(cd "$out" && find . -printf '%p %i\n' | sort))"
script=$(pgrep -P $pid -f 'run\.sh' || echo $pid)
kill -KILL "$(pgrep -f -- "$work/$program/train .*--out $out " | while read -r p; do
    [[ $(readlink "/proc/$p/exe") != */train ]] || echo "$p"; done | head -n 1)"
wait $pid
said=$scratch/struck.log
goes_on "the first run"

# ---- clocks, networks

fake=$(find /usr/lib -name libfaketimeMT.so.1 2>/dev/null | head -n 1)
if [ -n "$fake" ]; then
    new struck
    echo "+0" >"$scratch/clock"
    DIECAST_FAULT=save:rank=0:step=5:seconds=4 direct "env LD_PRELOAD=$fake FAKETIME_TIMESTAMP_FILE=$scratch/clock
        FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1 DONT_FAKE_MONOTONIC=1" &
    pid=$!
    waits [ -d "$out/checkpoint-5.tmp" ]
    echo "+30d" >"$scratch/clock"
    sleep 2
    echo "-1h" >"$scratch/clock"
    wait $pid; ends "the clock jumps by +30 days and -1 hour" 0 "^step 20/20"
    verdict "$ranks ranks: no deadline fires" "$(grep -e silent -e hung "$said"
        tail -n 1 "$out/history.jsonl" | jq "select(.time > $(date +%s) - 1800) | \"the clock did not jump: \(.time)\"")"
    as_straight "the clock jumps"
else
    skips "$ranks ranks: clocks" "libfaketime is not installed"
fi
if unshare -n true 2>/dev/null && command -v ip >/dev/null; then
    new struck
    unshare -n sh -c 'ip link set lo up && exec "$@"' sh "$work/$program/run.sh" "${data[@]}" --eval-data \
        $ref/$case/eval.safetensors --out "$out" --save-every 5 >"$said" 2>&1
    ends "no network but loopback" 0 "^step 20/20"
    as_straight "no network but loopback"
    new struck
    timeout 150 unshare -n "$work/$program/run.sh" "${data[@]}" --out "$out" >"$said" 2>&1
    code=$?
    verdict "$ranks ranks: no network at all: an end and a reason" "$([ $code != 124 ] || echo "it hangs"
        [ $code = 0 ] || [ -s "$said" ] || echo "exit $code without a word")"
else
    skips "$ranks ranks: networks" "no network namespace can be made"
fi

# ---- data

new struck
cp "$ref/$case/tokens.safetensors" "$scratch/tokens.safetensors"
own() { "$work/$program/run.sh" --data "$@" --init-from "$ref/$case/model" --out "$out" >"$said" 2>&1; }
truncate -s -1 "$scratch/tokens.safetensors"
own "$scratch/tokens.safetensors"; refused "a data file that is cut" 88 "tokens.safetensors"
printf '{"text":"good"}\n{"text":"b\xffd"}\n' >"$scratch/bad.jsonl"
own "$scratch/bad.jsonl" --tokenizer bytes; refused "a line that is no UTF-8" 88 "bad.jsonl:2: "
cp "$ref/$case/tokens.safetensors" "$scratch/tokens.safetensors"
at=$(($(od -An -tu8 -N8 "$scratch/tokens.safetensors") + 8 + 400))
printf '\x01\x01\x00\x00' | dd of="$scratch/tokens.safetensors" bs=1 seek="$at" conv=notrunc status=none
own "$scratch/tokens.safetensors"; refused "an id beyond the vocabulary" 88 "tokens.safetensors.* 257"
in_the_middle() {       # COMMAND: what happens to the data file while a run trains on it
    cp "$ref/$case/tokens.safetensors" "$scratch/tokens.safetensors"
    new struck
    DIECAST_FAULT=save:rank=0:step=5:seconds=3 own "$scratch/tokens.safetensors" --save-every 5 \
        --eval-data "$ref/$case/eval.safetensors" &
    pid=$!
    waits [ -d "$out/checkpoint-5.tmp" ]
    "$@" "$scratch/tokens.safetensors"
    wait $pid
}
in_the_middle rm; ends "a data file that is deleted in the middle" "0|88" ""
[ -f "$out/DONE" ] && as_straight "a data file that is deleted in the middle"
in_the_middle truncate -s 4096; ends "a data file that is cut in the middle" 88 "tokens.safetensors"
done

# ---- names: no file is created under its final name but those that are appended to, whose readers leave out a cut line

created() {             # NAME COMMAND...: with strace; the files of $scratch/made
    rm -rf "$scratch/made"
    mkdir "$scratch/made"
    strace -f -qq -e trace=open,openat,creat -o "$scratch/strace" "${@:2}" >"$scratch/made.log" 2>&1 ||
        verdict "names: $1" "exit $?: $(tail -n 2 "$scratch/made.log")"
    sed -n '/O_CREAT/s/.*"\([^"]*\)".*/\1/p' "$scratch/strace" | grep "^$scratch/made/" >"$scratch/created"
    verdict "names: $1" "$([ -s "$scratch/created" ] || echo "no file is created: no test"
        grep -vE '\.tmp(/|$)|/packing-[^/]*/|/history\.jsonl$|/logs/training\.log$|/probe\.[0-9]+$|/run\.lock\.|/new$' \
            "$scratch/created")"
}
if strace -qq -o /dev/null true 2>/dev/null; then
    text=$scratch/text.txt made=$scratch/made
    yes "what is this? it is a cat, that is a hat. " | head -n 20 | tr -d '\n' >"$text"
    for program in prm_instance:meta dpo_mean.2x1:eval; do
        held=${program#*:} program=${program%:*}
        of=$ref/${program%%.*}
        created "$program" "$work/$program/run.sh" --data $of/tokens.safetensors --$held-data $of/$held.safetensors \
            --init-from $of/model --out "$made"
    done
    masked=$work/mdm_masked/run.sh
    created "raw text, samples" "$masked" --data "$text" --tokenizer char --eval-share 0.2 --steps 4 --eval-every 2 \
        --init-from none --out "$made/run"
    verdict "names: samples" "$(grep -q '/samples.jsonl.tmp$' "$scratch/created" || cat "$scratch/created")"
    cp -r "$made/run" "$scratch/masked"
    created "an export" "$masked" --out "$scratch/masked" --export "$made/model"
    created "arrays of ids" "$masked" --prepare "$text" --out "$made/arrays" --tokenizer char --eval-share 0.2
    cp "$made/arrays/tokenizer.json" "$scratch"
    created "arrays of ids, a tokenizer that is named" "$masked" --prepare "$text" --out "$made/arrays" \
        --tokenizer "$scratch/tokenizer.json" --eval-share 0.2
    created "gen pack" "$gen" pack --tokenizer char -o "$made/text.safetensors" "$text"
    created "gen" "$gen" $here/recipes/gpt2_tiny.lua -o "$made/program"
else
    skips names "strace is not here, or may not trace"
fi
[ $skipped = 0 ] || echo "# $skipped skipped"
exit $failed
