#!/bin/bash
# Programs with collectives (memory.zero = 3) that one rank would run less often than another: texts, samples, agents
# and candidates that do not divide evenly among ranks, and files that only rank 0 reads. 2 and 3 ranks print and write
# what one does, and end; a rank that leaves out a program ends the job at once, with a line that names both.
# counts.sh sim: the first of them on the simulator.
BACKEND=${1:-cpu}
source "$(dirname "$0")/../train/lib.sh"

# NAME RECIPE FIELDS: with layers wide enough to be divided; an update reads 12 rows
cases='lm shard
dpo dpo_mean batch.global=12 model.ffn=1024
prm prm_none model.ffn=1024 prm.system= seq.max=64
mdm mdm_llada model.ffn=2048 model.init_std=0.02
mlm mlm_bert model.ffn=2048
ad ad_one model.ffn=4096 eval.micro=2'
[ "$BACKEND" = cpu ] || cases=$(head -n 1 <<<"$cases")
# ranks NAME: two, and three, of which two or more have less than the first. FULL=1: of all
ranks() { case $BACKEND$FULL$1 in cpulm | cpudpo | cpu1*) echo 2 3 ;; *) echo 2 ;; esac; }
programs <<<"$(while read -r name recipe words; do
    for n in 1 $(ranks $name); do
        echo "counts.$name.$n $recipe batch.micro=2 batch.accum=$((6 / n)) gpus=$n $([ $n = 1 ] || echo memory.zero=3) $words"
    done
done <<<"$cases")"
verdict "programs without an update have collectives" "$(while read -r name _; do
    grep -qE '^/\* Collective: train, (eval|score)' "$work/counts.$name.2/step.h" || echo "$name"; done <<<"$cases")"

# ran NAME RANKS ARGS...: into $scratch/NAME.RANKS, within a minute; standard output is $scratch/said.RANKS
start=none
ran() {
    local name=$1 n=$2 out=$scratch/$1.$2
    shift 2
    timeout 60 "$work/counts.$name.$n/run.sh" --init-from "$start" --out "$out" --seed 7 "$@" >"$scratch/said.$n" 2>"$out.log" ||
        echo "$n ranks: exit $?, $(tail -n 2 "$out.log")"
}
# same TEST NAME ARGS...: more ranks print what one prints; standard input: $input
input=/dev/null
same() {
    local test=$1 name=$2 n
    shift 2
    verdict "$test" "$(for n in 1 $(ranks $name); do ran "$name" $n "$@" <"$input"; done
        for n in $(ranks $name); do diff "$scratch/said.1" "$scratch/said.$n"; done
        [ -s "$scratch/said.1" ] || echo "it prints nothing")"
}

# skips NAME RANKS RANK PROGRAM ARGS...: a copy of a program in which a rank leaves out the third of these
skips() {
    local copy=$work/counts.skips out=$scratch/skips rank=$3 program=$4 name=$1.$2 code from=0
    rm -rf "$copy"
    cp -r "$work/counts.$name" "$copy"
    [ -z "$FULL" ] || rm -r "$copy/.obj"     # compiled as shipped: its objects do not go with those made in haste
    sed -i "s/^\( *\)step_$program();/\1static int nth;\n\1if (world.rank != $rank || ++nth != 3)\n    &/" "$copy"/*.c
    make_in_haste "$copy" "${tools[@]}" >"$scratch/log" 2>&1 || verdict "$name, changed" "$(tail -n 1 "$scratch/log")"
    shift 4
    from=$SECONDS
    timeout 60 "$copy/run.sh" --init-from none --out "$out" "$@" >"$scratch/said" 2>"$out.log"
    code=$?
    verdict "rank $rank of $name leaves out a program" "$([ $code = 85 ] || echo "exit $code"
        grep -qE "^rank 0 \(.*\) step -: rank $((rank ? rank : 1)) $(
            [ $rank = 0 ] && echo "begins program 3, $program, but rank 0 has finished program 2, $program" ||
                echo "has finished program 2, $program, but rank 0 begins program 3, $program"): they would wait" "$out.log" ||
            tail -n 4 "$out.log"
        [ $((SECONDS - from)) -lt 20 ] || echo "after $((SECONDS - from)) s")"
}

# ---- tokens and texts

for text in a "the cat" "on a mat, saw the moon" "x y z" "the cat sat on a mat and"; do
    echo "{\"prompt\":\"$text\"}"
done >"$scratch/prompts.jsonl"
seq 1 97 | awk '{ printf "%s and %d\n", $1 % 5 ? "the cat" : "a mat", $1 * $1 }' >"$scratch/text.txt"
bytes=(--tokenizer bytes)
same "one text" lm "${bytes[@]}" --sample "the cat" --max-new-tokens 9
same "five texts of other lengths" lm "${bytes[@]}" --prompts "$scratch/prompts.jsonl" --max-new-tokens 20
same "--eval-batches 1" lm "${bytes[@]}" --eval-data "$scratch/text.txt" --eval-only --eval-batches 1
skips lm 2 1 decode "${bytes[@]}" --sample "the cat"
[ "$BACKEND" = cpu ] || exit $failed

# ---- pairs

for i in $(seq 13); do
    echo "{\"prompt\":\"p$i:\",\"chosen\":\"c$((i * i * i))\",\"rejected\":\"r$i\"}"
done >"$scratch/pairs.jsonl"
same "--perplexity of 13 pairs" dpo "${bytes[@]}" --eval-data "$scratch/pairs.jsonl" --perplexity --max-new-tokens 5
same "--answers 3" dpo "${bytes[@]}" --eval-data "$scratch/pairs.jsonl" --answers 3 --max-new-tokens 9
for n in 1 $(ranks dpo); do
    ran dpo $n "${bytes[@]}" --data "$scratch/pairs.jsonl" --eval-data "$scratch/pairs.jsonl" --steps 2 --max-new-tokens 5
done
# reference values; losses and answers before the first step
verdict "13 pairs, with reference values" "$(for n in $(ranks dpo); do
    diff -r "$scratch/dpo.1/.reference_cache" "$scratch/dpo.$n/.reference_cache"; done
    ls "$scratch"/dpo.1/.reference_cache/{start.json,*.safetensors} 2>&1 | grep -v ^/)"
skips dpo 3 0 score "${bytes[@]}" --eval-data "$scratch/pairs.jsonl" --perplexity --max-new-tokens 5

# ---- solutions

recipes/demos/chains.sh tokenizer "$scratch/tokenizer" || verdict tokenizer "exit $?"
steps() { printf '### Step %d:\\n%s\\n' 1 "$1" 2 b 3 c 4 d 5 e; }
solutions() {           # LETTERS: of five steps, four of them with labels
    local labels='[{"pi":1},{"pi":0},{"pi":1},{"pi":0}]'
    for i; do
        printf '{"id":"%s","informal_prefix":"1","cot_response":"%s","cot_steps":%s}\n' "$i" "$(steps "$i")" "$labels"
    done
}
solutions {a..e} >"$scratch/solutions.jsonl"
solutions {a..l} >"$scratch/labelled.jsonl"
for i in a b c; do
    printf '{"informal_prefix":"1","candidates":["%s","%s","%s"],"true_false":[true,false,true]}\n' \
        "$(steps $i)" "$(steps d)" "$(steps z)"
done >"$scratch/candidates.jsonl"
tokens=(--tokenizer "$scratch/tokenizer/tokenizer.json")
ran prm 1 "${tokens[@]}" --data "$scratch/labelled.jsonl" --steps 3 --lr 1e-2        # a head that tells them apart
start=$scratch/trained
mv "$scratch/prm.1/checkpoint-3" "$start"
same "--best-of-n with 3 records" prm "${tokens[@]}" --best-of-n "$scratch/candidates.jsonl"
input=$scratch/solutions.jsonl same "--score of standard input" prm "${tokens[@]}" --score -
verdict "scores differ" "$(sed 's/.*"score"//' "$scratch/said.1" | sort -u | wc -l | grep -vx 5)"
start=none

# ---- masked texts

case=$ref/mdm_llada
tokens=(--tokenizer $case/tokenizer.json)
printf '%s\n' w10 "w11 w12" "w13 w14 w15 w16" w17 "w18 w19 w20 w21 w22 w23 w24" >"$scratch/words.txt"
same "five texts with gaps" mdm "${tokens[@]}" --generate-file "$scratch/words.txt" --gen-length 8 --gen-block 4 --guidance 1
same "one text with a gap" mdm "${tokens[@]}" --generate "w10 [MASK] w7" --gen-length 0
same "--loglik of 9 samples" mdm --loglik $case/eval.safetensors --val-draws 4
for n in 1 $(ranks mlm); do
    ran mlm $n --data $ref/mlm_bert/tokens.safetensors --tokenizer $ref/mlm_bert/tokenizer.json --steps 1 --lr 0
done
verdict "mlm_model.safetensors, and a probe of it" "$(for n in $(ranks mlm); do
    cmp "$scratch"/mlm.{1,$n}/.mlm_pretrained_v3/mlm_model.safetensors 2>&1
    diff "$scratch/said.1" "$scratch/said.$n"; done)"
rm -r "$scratch"/mlm.?
same "--probe" mlm --tokenizer $ref/mlm_bert/tokenizer.json --probe "w10 w150 [MASK] w20"

# ---- agents

same "--evaluate with 5 agents of a task" ad --evaluate --goal-idx 3 --eval-streams 5 --eval-episodes 1
verdict "their returns" "$(for n in $(ranks ad); do cmp "$scratch"/ad.{1,$n}/eval_result_goal3.npy 2>&1; done)"
exit $failed
