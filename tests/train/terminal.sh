#!/bin/bash
# Terminal output of a run: a progress line as wide as the terminal, which no log contains; without a terminal,
# or on one that cannot move its cursor back, plain lines. The part of it that OUT/logs has.
source "$(dirname "$0")/lib.sh"

programs <<<"
gpt2_tiny gpt2_tiny
gpt2_tiny.2 gpt2_tiny gpus=2 batch.micro=2
"

# on NAME COLUMNS [ARGS...]: as train, on a terminal so wide; what came there is in $scratch/RUN.log, RUN is on.COLUMNS
on() {
    local name=$1 columns=$2 case=$ref/gpt2_tiny
    shift 2
    printf -v line '%q ' "$work/$name/run.sh" --data "$case/tokens.safetensors" --eval-data "$case/eval.safetensors" \
        --init-from "$case/model" --out "$scratch/on.$columns" --log-every 5 "$@"
    script -qec "stty cols $columns rows 24; $line" /dev/null >"$scratch/on.$columns.log" 2>&1 </dev/null ||
        verdict "on a terminal of $columns columns" "exit $?: $(tail -n 2 "$scratch/on.$columns.log")"
}
# The rows that were at the foot: what is between the sign that clears and the next, or the end of the line.
rows() { tr -d '\r' <"$scratch/on.$1.log" | sed 's/\x1b\[K/\n/g' | grep -E '^[0-9]+/20( |$)'; }
# The lasting output: all but those rows.
stays() { tr -d '\r' <"$scratch/on.$1.log" | sed 's/.*\x1b\[K//' | grep -vE '^[0-9]+/20( |$)'; }

export TERM=xterm
for columns in 40 80 200; do
    on gpt2_tiny $columns
    verdict "$columns columns: rows fit" "$(rows $columns |
        awk -v most=$columns 'length >= most { print length ": " $0 }'
        [ "$(rows $columns | tail -n 1 | cut -d ' ' -f 1)" = 20/20 ] || rows $columns | tail -n 2)"
    verdict "$columns columns: nothing else is changed" "$(stays $columns |
        sed 's/[0-9.]* s$//; s/in [0-9:]*, mean/in mean/; s/on\.[0-9]*/on/g' >"$scratch/stays.$columns"
        diff "$scratch/stays.40" "$scratch/stays.$columns"; grep -q '^step 20/20  eval loss' \
            "$scratch/stays.$columns" ||
        echo "no validation"; grep -q '^step 5/20  loss' "$scratch/stays.$columns" && echo "lines of steps")"
done
verdict "what there is room for" "$(rows 40 | tail -n 1 | grep -qE '^20/20 \[#{4}\]  loss [0-9.]+  left 0:00:00$' ||
        rows 40 | tail -n 1
    rows 200 | tail -n 1 | grep -qE \
        '^20/20 \[#{20}\]  loss [0-9.]+  norm [0-9.]+  lr [0-9.e+-]+  [0-9.]+M? tokens/s  left 0:00:00$' ||
        rows 200 | tail -n 1)"
log=$scratch/on.80/logs/training.log
verdict "lines of steps are in the log, each with its time" "$([ "$(grep \
    -cE '^20[0-9-]{8} [0-9:]{8}  step [0-9]+/20  loss .* left ' \
    "$log")" = 4 ] || cat "$log"; grep -n $'\x1b\\|\r' "$log")"
# 0 columns: none are said; then as 80
on gpt2_tiny 0
verdict "0 columns" "$(rows 0 | awk 'length >= 80 || length < 20')"
TERM=dumb on gpt2_tiny 79
verdict "a dumb terminal" "$(grep -q $'\x1b' "$scratch/on.79.log" && echo "gets signs"
    [ "$(grep -cE '^step [0-9]+/20  loss' "$scratch/on.79.log")" = 4 ] || cat "$scratch/on.79.log")"

# Several ranks: rank 0 writes into a pipe of the launcher; run.sh says that a terminal is behind it.
on gpt2_tiny.2 60
verdict "two ranks: a row at the foot" "$(rows 60 | awk 'length >= 60 { print length ": " $0 }'
    [ "$(rows 60 | tail -n 1 | cut -d ' ' -f 1)" = 20/20 ] || tail -n 3 "$scratch/on.60.log"
    stays 60 | grep -q '^step 20/20  eval loss' || echo "no validation"
    stays 60 | grep -q '^step 5/20  loss' && echo "lines of steps")"
plain=$scratch/plain
timeout 60 "$work/gpt2_tiny.2/run.sh" --data "$ref/gpt2_tiny/tokens.safetensors" --init-from none --out "$plain" \
    --steps 2 --log-every 1 >"$plain.log" 2>&1
verdict "two ranks without a terminal" "$(grep -q $'\x1b' "$plain.log" && echo "gets signs"
    [ "$(grep -c '^step [12]/2  loss' "$plain.log")" = 2 ] || tail -n 3 "$plain.log")"
# behind a pipe the width is that of the session's terminal now, else what is said
piped() {               # HOW COLUMNS
    export DIECAST_TERMINAL=$2
    printf -v line '%q ' "$work/gpt2_tiny/train" --data "$ref/gpt2_tiny/tokens.safetensors" --init-from none --out \
        "$scratch/on.$1" --steps 20
    script -qec "stty cols 40 rows 24; $3 $line 2>&1 | cat" /dev/null >"$scratch/on.$1.log" 2>&1 </dev/null
    unset DIECAST_TERMINAL
    verdict "behind a pipe: $1" "$(rows "$1" | awk -v most="$4" '{ n = length > n ? length : n }
        END { if (n >= most || n < most - 12) print "rows of " n }')"
}
piped terminal 200 "" 40
piped said 70 "setsid -w" 70

# A second start goes on in the same file, after a heading.
train gpt2_tiny gpt2_tiny on.80
verdict "the log of a second start" "$([ "$(grep -c -- '  ---- gpt2_tiny, process ' "$log")" = 2 ] || cat "$log"
    grep -q '  nothing to do: ' "$log" || tail -n 8 "$log")"

# Steps that are taken apart stand for a run of their own nowhere; too few, and other uses.
train gpt2_tiny gpt2_tiny few --steps 3 --profile 9
verdict "few steps to take apart" "$(grep -q -e '--profile 9: the run has 3 steps left' "$scratch/few.log" &&
    grep -q '^profile: 3 steps, from 1 on, ' "$scratch/few.log" || tail -n 3 "$scratch/few.log")"
profiled few
said=$("$work/gpt2_tiny/train" --profile 9 --eval-only 2>&1)
verdict "--profile of another use" "$([ $? = 80 ] || echo "exit $?"
    grep -q -e '--profile has no effect with --eval-only, which does not train: leave it out$' <<<"$said" || echo "$said")"
exit $failed
