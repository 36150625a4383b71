#!/bin/bash
# Histories of darkroom by PPO: updates as PyTorch makes them (tests/oracle/ppo.py), a goal's curve of learning, the
# same file whatever made it, runs that go on, what is refused.
source "$(dirname "$0")/lib.sh"
[ "$BACKEND" = cpu ] || exit 0           # a program for CPUs

programs <<<"
ppo ppo
ppo.small ppo ppo.streams=4 ppo.rollouts=2 ppo.passes=15
ppo.permuted ppo ad.env=permuted ppo.streams=2 ppo.rollouts=1 ppo.passes=1
ad_default ad_one run.source_streams=100 run.source_steps=1000
ad_default.permuted ad_one ad.env=permuted run.source_streams=100 run.source_steps=1000
"
ppo() {                 # NAME RUN ARGS...: its exit code; what it said is in $scratch/RUN.log
    local name=$1 run=$scratch/$2
    shift 2
    "$work/$name/train" --threads 1 --out "$run" "$@" >"$run.log" 2>&1
}
history() { echo "$scratch/$1/datasets/history_${2:-darkroom}_PPO_alg-seed${3:-42}.safetensors"; }
said() { grep -qE -- "$2" "$scratch/$1.log" || tail -n 3 "$scratch/$1.log"; }

# ---- updates and first nets
updates=$work/ppo/updates
${CC:-gcc} -std=c11 -Wall -Wextra -Wshadow -Wvla -Werror -O1 -g0 -I"$work/ppo" $here/ppo_updates.c \
    "$work"/ppo/.obj/{goal,runtime/base}.o -fopenmp -lm -o "$updates" 2>"$scratch/cc" ||
    verdict "updates compile" "$(head -3 "$scratch/cc")"
verdict "updates, as in PyTorch" "$("$updates" | paste - $ref/ppo.txt | awk '
    { off = ($1 - $2) / $2; n += NF == 2 && off > -5e-6 && off < 5e-6 }
    END { if (n != 22) print n + 0 " of 22 within 5e-6" }')"
verdict "first weights are orthogonal" "$([ "$("$updates" 7)" = 1 ] || echo "they are not")"

# ---- a goal learned: by chance at first, at the end about nine tenths of the best possible 19
ppo ppo learned --goals 50 || verdict "a goal" "$(tail -n 2 "$scratch/learned.log")"
verdict "a goal's curve" "$(sed -n 's/^goal 50 (5,5) *\(.*\) of 19 .*/\1/p' "$scratch/learned.log" | awk '
    NF != 13 || $1 < 0.55 || $1 > 0.8 || $7 < 7 || $7 > 12 || $13 < 0.8 * 19 || $13 > 0.97 * 19 { print }
    END { if (NR != 1) print NR " lines" }')"
verdict "some goals: no file yet" "$(said learned '^1 of 81 tasks are done and are in .*/goals-seed42;'
    [ ! -e "$scratch/learned/datasets" ] || echo "there is one")"

# ---- the same bits
ppo ppo.small whole || verdict "all goals" "$(tail -n 2 "$scratch/whole.log")"
verdict "all goals are reported" "$(said whole '^mean return by rollout( [0-9.]+){2} of 16.54$'
    said whole '^at the end 0\.[0-9]* of the best possible; the worst is goal [0-9]+ \([0-8],[0-8]\) with '
    said whole ': 81 tasks x 4 streams x 160 steps, .* MB, read back$'
    [ "$(grep -c '^goal ' "$scratch/whole.log")" = 81 ] || echo "$(grep -c '^goal ' "$scratch/whole.log") goals")"
ppo ppo.small threads --threads 3
verdict "threads" "$(cmp "$(history whole)" "$(history threads)" 2>&1)"
# Killed after the first goals that are done; then some alone, damage, and the rest.
"$work/ppo.small/train" --threads 1 --out "$scratch/killed" 2>&1 | { grep -m 2 '^goal ' >/dev/null; } &
for _ in $(seq 3000); do [ ! -e "$scratch/killed/goals-seed42/goal-001.safetensors" ] || break; sleep 0.01; done
kill -KILL "$(sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' "$scratch/killed/run.lock")" 2>"$scratch/kill"
wait
n=$(ls "$scratch/killed/goals-seed42" | wc -l)
verdict "killed between goals" "$(cat "$scratch/kill"; [ "$n" -lt 81 ] && [ "$n" -gt 1 ] || echo "$n are done")"
ppo ppo.small killed --goals 70-72,80
verdict "goals that are asked for" "$(said killed '^  tasks      4 of 81, 0 of them done before$')"
printf 'x' | dd of="$scratch/killed/goals-seed42/goal-000.safetensors" bs=1 seek=900 conv=notrunc status=none
ppo ppo.small killed --threads 2
verdict "a damaged goal runs again" "$(said killed 'warning: .*/goal-000.safetensors: .*; the task runs again$')"
verdict "resumed bits" "$(cmp "$(history whole)" "$(history killed)" 2>&1)"
ppo ppo.small whole
verdict "nothing left to do" "$(said whole '^  tasks      81 of 81, 81 of them done before$'
    cmp "$(history whole)" "$(history killed)" 2>&1)"
"$work/ppo.small/train" --threads 1 --goals 0-80 --out "$scratch/whole" --seed 44 >"$scratch/whole.log" 2>&1 &
for _ in $(seq 3000); do ! grep -q '^goal ' "$scratch/whole.log" || break; sleep 0.01; done
kill -TERM $!
wait $!
verdict "a run of another seed is not done" "$([ $? = 91 ] || said whole 91; [ ! -e "$scratch/whole/DONE" ] || echo "DONE is there")"
ppo ppo.small whole --seed 43
verdict "another seed next to it" "$(cmp -s "$(history whole)" "$(history whole darkroom 43)"
    [ $? = 1 ] || echo "the same file, or none"
    said whole 'seed43.safetensors: 81 tasks')"
ppo ppo.permuted permuted
verdict "orders of the moves" "$(said permuted ': 120 tasks x 2 streams x 80 steps'; said permuted '^order 119 .* of 5 '
    [ -s "$(history permuted darkroom_permuted)" ] || echo "no file")"

# ---- what to do next: a program of that recipe, built as the command says, reads the file
next() {                # RUN [WORDS]: between the recipe and make; what follows reads what RUN has written
    local line words=${2:-}
    line=$(sed -n "s,^next: gen recipes/ad_tiny.lua$words && make && out/ad_tiny/run.sh ,,p" "$scratch/$1.log")
    verdict "next: of $1" "$([ -n "$line" ] || said "$1" "^next: gen recipes/ad_tiny.lua$words && make"
        eval "$work/ad_default${words:+.permuted}/run.sh $line --dry-run" >"$scratch/next.log" 2>&1 ||
            echo "$line: $(tail -n 2 "$scratch/next.log")")"
}
next whole
next permuted ' ad.env=permuted'
"$work/ad_default/run.sh" --data "$(history permuted darkroom_permuted)" --dry-run >"$scratch/other.log" 2>&1
verdict "another environment's histories" "$(said other 'needs histories of 81 tasks, ad.env=darkroom as in this '\
'program.s recipe, has 120 tasks, ad.env=permuted: gen RECIPE ad.env=permuted makes')"
"$work/ppo.small/train" --threads 1 --goals 0-80 --out "$scratch/stopped" >"$scratch/stopped.log" 2>&1 &
for _ in $(seq 3000); do ! grep -q '^goal ' "$scratch/stopped.log" || break; sleep 0.01; done
kill -TERM $!
wait $!
code=$?
verdict "next: of a run that was stopped" "$([ $code = 91 ] || echo "code $code"
    said stopped "^next: $work/ppo.small/run.sh --threads 1 --goals 0-80 --out $scratch/stopped goes on with the others$")"
touch "$scratch/file"
"$work/ppo.small/train" --out "$scratch/file/below" >"$scratch/below.log" 2>&1
code=$?
verdict "next: of a folder that cannot be made" "$([ $code = 90 ] || echo "code $code"
    said below '^next: fix that; then .*run.sh --out .*/file/below goes on with the tasks that are not done$')"
"$work/ppo.small/train" --out "$scratch/file" >"$scratch/file.log" 2>&1
code=$?
verdict "--out FILE" "$([ $code = 90 ] || echo "code $code"
    said file '/file is not a folder: name another path, or remove it')"
(cd "$work/ppo.small" && ./train --goals 81 --out x 2>&1 | tail -n 1) >"$scratch/here.log"
verdict "next: a command for this folder" "$(said here 'again; \./run.sh --help')"

where() { "$work/ppo.small/run.sh" --where "$@" 2>&1; }
verdict "--where --verbose: a run of all tasks ends with DONE" "$([ "$(where --out /x --verbose)" = $'/x\ntrains' ] || where --verbose
    [ "$(where --out /x)$(where --out /x --verbose --goals 1)" = /x/x ] || where --verbose --goals 1)"

# ---- what is refused
refuses() {             # CODE TEXT ARGS...
    local code=$1 text=$2
    shift 2
    ppo ppo.small refused "$@"
    [ $? = "$code" ] && head -n 1 "$scratch/refused.log" | grep -qF -- "$text" &&
        [ "$(tail -n +2 "$scratch/refused.log")" = "next: fix that and run the command again; $work/ppo.small/run.sh \
--help lists every flag" ]
    verdict "refuses $*" "$([ $? = 0 ] || tail -n 2 "$scratch/refused.log")"
}
refuses 80 "--goals 3-1: must be numbers from 0 to 80 such as 3 or 0,5,10-12" --goals 3-1
refuses 80 "--goals 81: must be" --goals 81
refuses 80 "--goals 1,: must be" --goals 1,
refuses 80 "--goals 1x: must be" --goals 1x
refuses 80 "--goals -1: must be" --goals -1
refuses 80 "--goals: is empty" --goals ""
refuses 80 "--lr: programs with the objective ppo have no such flag" --lr 1
refuses 80 "--sample: needs a program with the objective lm|dpo; this one has ppo" --sample x
refuses 80 "did you mean --threads?" --thread 1
refuses 80 "--seed: must be an integer" --seed -1
refuses 80 "--mixed_precision bf16: recipes like this program's, with objective=ppo, have no field precision; leave" \
    --mixed_precision bf16
refuses 80 "--dtype: recipes like this program's, with objective=ppo, have no field precision; leave" --dtype fp8
# variables of launchers
variable() {            # CODE TEXT NAME=VALUE...
    local code=$1 text=$2
    shift 2
    env "$@" "$work/ppo.small/train" --goals 0 --out "$scratch/variable" >"$scratch/variable.log" 2>&1
    [ $? = "$code" ]
    verdict "with $*" "$([ $? = 0 ] || echo "another code"; said variable "$text")"
}
for type in bf16 fp8; do
    variable 80 "ACCELERATE_MIXED_PRECISION is $type, but .*=fp32: start it with --mixed_precision no; programs of \
objective=ppo have no other$" ACCELERATE_MIXED_PRECISION=$type
done
variable 0 '^1 of 81 tasks are done' ACCELERATE_MIXED_PRECISION=no RANK=0 WORLD_SIZE=1
variable 83 'one process makes all tasks, but launcher torchrun started 2: start run.sh' RANK=1 WORLD_SIZE=2
variable 83 'launcher Open MPI started 3: start mpirun -n 1 .*/train$' OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=3
variable 80 'RANK=1: set without WORLD_SIZE' RANK=1
variable 80 'DIECAST_SEDE: no such variable' DIECAST_SEDE=1
variable 80 'DIECAST_FAULT: programs with the objective ppo inject no faults' DIECAST_FAULT=kill9:rank=0:step=1
# histories of other settings below the same OUT
cp -r "$scratch/whole/goals-seed42" "$scratch/learned/"
ppo ppo learned --goals 50
code=$?
verdict "goals of other settings" "$([ $code = 83 ] || echo "code $code"
    said learned 'goal-000.safetensors was made with ppo.streams=4, but this program was built with ppo.streams=100: give another --out')"
exit $failed
