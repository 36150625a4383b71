#!/bin/bash
# Readers of flags: each command reads the value of every flag that flags.def lets it take. The programs note which they
# read (reads.c).
source "$(dirname "$0")/lib.sh"
. tests/tiny_tokenizer.sh
reads=out/.test/reads.o
(
    flock 9
    [ -z "$(find $here/reads.c $(headers runtime) -newer $reads 2>&1)" ] ||
        gcc -std=c11 -I. -Og -g0 -Wall -Wextra -Wshadow -Werror -c $here/reads.c -o $reads
) 9>out/.test/reads.lock || { verdict reads.c "does not compile"; exit 1; }
tools+=("CC='$PWD/tests/cc' --reads") flags+=$(sha256sum <$reads)
programs <<'END'
reads.lm llama_rows lora.rank=4
reads.dpo dpo_lora
reads.mlm mlm_microbert
reads.mdm mdm_sft model.vocab=257
reads.mdm.text mdm_masked
reads.prm prm_none prm.weights=net prm.system= prm.mark=<|endoftext|> seq.max=64 batch.micro=4 batch.accum=1
reads.ad ad_one
reads.ppo ppo ppo.streams=1 ppo.rollouts=1 ppo.passes=1
END
tiny_tokenizer "$scratch"
tokenizer="--tokenizer $scratch/tokenizer.json"

# runs OBJECTIVE COMMAND ARGS...: notes which flags the command reads
runs() {
    local program=$work/reads.$1/train to=$scratch/$1.$2.reads log=$scratch/log
    READS=$to timeout 100 "$program" --out "$scratch/run.$1" "${@:3}" >"$log" 2>&1 ||
        verdict "reads: $1, $2" "exit $?: $(tail -n 2 "$log")"
}
# uses OBJECTIVE COMMAND ARGS...: the same, with the trained weights and with those of a folder
uses() {
    runs "$@"
    [ ! -e "$scratch/export.$1/config.json" ] || runs "$@" --out "$scratch/new.$1" --init-from "$scratch/export.$1"
}

# ---- data of each objective

pis='[{"pi":1},{"pi":0},{"pi":1},{"pi":0}]'
solution=$(printf '### Step %d:\\na\\n' 1 2 3 4 5)
for ((i = 0; i < 40; i++)); do
    user='{"role":"user","content":"q'$i'"}'
    echo '{"messages":['"$user"',{"role":"assistant","content":"a"}]}' >&3
    echo '{"messages":['"$user"']}' >&4
    echo '{"prompt":"p'$i'","chosen":"c","rejected":"r"}' >&5
    echo '{"id":"r'$i'","informal_prefix":"p'$i'","cot_response":"'"$solution"'","cot_steps":'"$pis"',"meta_label":'$((i % 2))'}' >&6
    echo "w$((i % 7)) w$((i % 5)) w$((i % 3)) w1 w2 w3" >&7
done 3>"$scratch/chats.jsonl" 4>"$scratch/asks.jsonl" 5>"$scratch/pairs.jsonl" 6>"$scratch/steps.jsonl" \
    7>"$scratch/text.txt"
head -n 2 "$scratch/asks.jsonl" >"$scratch/ask.jsonl"
echo '{"informal_prefix":"1","candidates":["'"$solution"'"],"true_false":[true]}' >"$scratch/best.jsonl"

# ---- commands

# all OBJECTIVE ARGS...: commands that each program has, trained with these arguments
all() {
    runs "$1" train "${@:2}" --steps 2 --save-every 1 --eval-every 1
    # resumed with other data, for as long as an epoch, with an update that is skipped
    DIECAST_FAULT=nan:rank=0:step=3 runs "$1" train "${@:2}" "${fewer[@]}" --epochs $epochs --nonfinite skip \
        --allow-inexact
    runs "$1" dry_run "${@:2}" --dry-run
    runs "$1" bench_steps "${@:2}" --bench-steps 1
    runs "$1" show "${@:2}" --show 1
    runs "$1" plot --plot
    runs "$1" export --export "$scratch/export.$1"
    uses "$1" export --export "$scratch/again.$1"
    [ ! -e "$scratch/export.$1/config.json" ] ||
        runs "$1" train "${@:2}" --steps 1 --out "$scratch/trained.$1" --init-from "$scratch/export.$1"
}
epochs=1 fewer=(--max-samples 30)
all lm $tokenizer --data "$scratch/chats.jsonl" --eval-share 0.2 --init-from $ref/llama_rows/model --adapter none
runs lm eval_only --eval-only --data "$scratch/chats.jsonl" --eval-share 0.2
runs lm merge_lora --merge-lora "$scratch/merged"
runs lm sample --sample a
runs lm prompts --prompts "$scratch/ask.jsonl"
runs lm chat --chat <<<q
all dpo $tokenizer --data "$scratch/pairs.jsonl" --eval-share 0.2 --init-from $ref/dpo_lora/model --adapter none
runs dpo eval_only --eval-only --data "$scratch/pairs.jsonl" --eval-share 0.2
runs dpo merge_lora --merge-lora "$scratch/merged.dpo"
runs dpo sample --sample a
runs dpo prompts --prompts "$scratch/ask.jsonl"
runs dpo chat --chat <<<q
runs dpo answers --answers 1 --data "$scratch/pairs.jsonl" --eval-share 0.2
runs dpo perplexity --perplexity --data "$scratch/pairs.jsonl" --eval-share 0.2
all mlm --tokenizer words --data "$scratch/text.txt" --eval-share 0.2 --init-from none
uses mlm eval_only --eval-only --data "$scratch/text.txt" --eval-share 0.2
uses mlm probe --probe "w1 [MASK] w2"
all mdm --tokenizer "$scratch/tokenizer.json" --data "$scratch/chats.jsonl" --eval-share 0.2 --init-from none
uses mdm eval_only --eval-only --data "$scratch/chats.jsonl" --eval-share 0.2
uses mdm generate --generate a
uses mdm generate --generate a --generate-chat --gen-length 4
uses mdm generate_file --generate-file "$scratch/ask.jsonl" --gen-length 4
uses mdm loglik --loglik "$scratch/chats.jsonl"
runs mdm.text prepare --prepare "$scratch/text.txt" --tokenizer char
all prm --tokenizer "$scratch/tokenizer.json" --data "$scratch/steps.jsonl" --meta-data "$scratch/steps.jsonl" \
    --init-from none
uses prm eval_only --eval-only --meta-data "$scratch/steps.jsonl"
uses prm score --score "$scratch/steps.jsonl"
uses prm score --score "$(echo "$scratch"/run.prm/.dataset_cache/*/records.safetensors | cut -d ' ' -f 1)"
uses prm best_of_n --best-of-n "$scratch/best.jsonl"
epochs=0.01 fewer=(--source-steps 60)
all ad --data $ref/ad_one/tokens.safetensors --eval-data $ref/ad_one/eval.safetensors --init-from $ref/ad_one/model
uses ad eval_only --eval-only --eval-data $ref/ad_one/eval.safetensors
uses ad evaluate --evaluate --eval-episodes 1
runs ad show_regions --data $ref/ad_one/tokens.safetensors --show-regions 38
runs ppo train --goals 0 --threads 1 --seed 3

# ---- what was not read, in any of a command's runs; commands that were not run

for objective in lm dpo mlm mdm prm ad ppo; do
    verdict "reads: $objective, its commands" "$(awk '$4 { print $1 }' "$scratch/$objective.train.reads" | sort -u |
        while read -r flag; do
            [ -n "$(echo "$scratch/$objective".*"$flag.reads" | grep -v '[*]')" ] || [ "$flag" = merge_lora ] ||
                echo "--$flag was not run"
        done)"
done

for file in "$scratch"/*.reads; do
    name=${file##*/} name=${name%.reads}
    verdict "reads: ${name/./, }" "$(awk '
        { may[$1] = may[$1] || $3; has[$1] = has[$1] || $2 }
        END { for (flag in may) if (may[flag] && !has[flag]) print "--" flag " is not read" }' "$file")"
done
exit $failed
