# lib.sh -- runs of programs of tests/train/recipes/shard.lua, for the scripts of this folder.
# shellcheck shell=bash
source "$(dirname "${BASH_SOURCE[0]}")/../train/lib.sh"

# Words that the model can only learn by their order, the same every time.
awk 'BEGIN { x = 1; for (i = 0; i < 4000; i++) { x = (x * 1103515245 + 12345) % 2147483648
    printf "%s%s", substr("the cat sat on a mat and saw the moon", x % 30 + 1, x % 7 + 2), i % 12 ? " " : ".\n" } }' \
    >"$scratch/text.txt"

# run NAME RUN ARGS...: trains into $scratch/RUN; the exit code. What it said is in $scratch/RUN.log.
run() {
    local name=$1 to=$scratch/$2
    shift 2
    "$work/$name/run.sh" --data "$scratch/text.txt" --tokenizer bytes --out "$to" "$@" >"$to.log" 2>&1
}
ran() { run "$@" || verdict "$2 trains" "exit $?: $(tail -n 2 "$scratch/$2.log")"; }

# files TEST RUN RUN: every tensor file of every checkpoint is the same
files() {
    local file n=0
    for file in "$scratch/$3"/checkpoint-*/*.safetensors; do
        n=$((n + 1))
        cmp -s "$file" "$scratch/$2${file#"$scratch/$3"}" || { verdict "$1" "${file#"$scratch/"} differs"; return; }
    done
    verdict "$1" "$([ $n -ge 4 ] || echo "only $n files")"
}
