#!/bin/bash
# Preference optimisation: runs against the same runs in PyTorch and in TRL (tests/oracle/dpo.py); equal
# references; pairs of runs; values known in advance; refusals.
source "$(dirname "$0")/lib.sh"
. tests/tiny_tokenizer.sh

# Further options of a loss, by its name in tests/oracle/dpo.py
variants="
dpo_ipo dpo_mean dpo.kl=none dpo.loss=ipo
dpo_smoothing dpo_sum dpo.smoothing=0.2
dpo_dpopshift dpo_sum dpo.loss=dpopshift dpo.penalty=5 dpo.shift=0.6
dpo_token dpo_mean dpo.kl=token dpo.reference=copy
dpo_token_lora dpo_lora dpo.kl=token dpo.kl_weight=3 dpo.reference=adapter_off
"
[ -z "$FULL" ] || variants+="
dpo_dpop dpo_sum dpo.loss=dpop dpo.penalty=5
dpo_dposhift dpo_sum dpo.loss=dposhift dpo.shift=0.6
dpo_token_sum dpo_sum dpo.kl=token dpo.kl_weight=3 dpo.reference=copy
"

programs <<<"
dpo_mean dpo_mean
dpo_sum dpo_sum
dpo_lora dpo_lora
dpo_lora.off dpo_lora dpo.reference=adapter_off
dpo_mean.2x1 dpo_mean gpus=2 batch.accum=1
dpo_mean.shared dpo_mean dpo.shared_prompt=true seq.max=48 gpus=2 batch.accum=1
dpo_mean.3x2x1 dpo_mean gpus=3 batch.global=6
dpo_lora.copy dpo_lora dpo.reference=copy
dpo_sum.bf16.again dpo_sum precision=bf16 memory.recompute=block batch.targets=160 dpo.reference=copy
$variants"

# ---- the reference, ranks, 16 bit --------------------------------------------------

trl() { sed -n '/"trl": {$/,/}/s/^ *\([0-9][0-9.e-]*\),*$/\1/p' "$ref/$1/expect.json"; }

for name in dpo_mean dpo_sum dpo_lora dpo_mean.2x1 dpo_mean.shared dpo_lora.copy; do
    trained $name ${name%%.*} $name
    compare $name reference $ref/${name%%.*} "$scratch/$name"
done
divided dpo_mean.3x2x1 dpo_mean eval_loss --tokenizer bytes
# --stop-margin goes by as many pairs that are trained on, however they are divided
verdict "margin of training in other portions" "$("$work/dpo_mean.3x2x1/run.sh" --eval-only --out "$scratch/dpo_mean" \
    --data $ref/dpo_mean/tokens.safetensors --eval-data $ref/dpo_mean/eval.safetensors 2>"$scratch/log" |
    tee "$scratch/eval" | paste - <(grep eval_loss "$scratch/dpo_mean/history.jsonl" | tail -n 1) | awk '
    function of(x) { sub(/.*"eval_train_margin": /, "", x); return x + 0 }
    { x = of($0); sub(/}.*/, "", $0); y = of($0); same = y != 0 && (x / y - 1) ^ 2 < 1e-10 }
    END { if (!same) print y " and " x }'
    tail -n 1 "$scratch/log" | grep '^rank')"
# Samples and rates count the validation pairs alone, 9, as TRL does. A step of a validation is, as in transformers, a
# micro-batch of every rank: 9 pairs are two of 2 x 4.
verdict "rates of a validation" "$(awk '
    function of(key) { return match($0, "\"" key "\": [-+.0-9e]+") ? substr($0, RSTART + length(key) + 4) + 0 : 0 }
    FILENAME ~ /eval$/ { if (of("eval_samples") != 9 || of("eval_pairs") != 9) print }
    FILENAME ~ /history/ && /eval_runtime/ { rate = of("eval_samples_per_second"); n++
        steps = rate / of("eval_steps_per_second"); tokens = of("eval_tokens_per_second") / rate
        if (steps < 4.49 || steps > 4.51) print steps " samples a step"
        if (!(tokens > 8 && tokens < 64)) print tokens " tokens a sample" }
    END { if (!n) print "no validation" }' "$scratch/eval" "$scratch/dpo_mean.2x1/history.jsonl")"
for name in dpo_sum dpo_lora; do
    verdict "$name and DPOTrainer" "$(trl $name | as_ten $name)"
done
while read -r name recipe _; do
    [ -n "$name" ] || continue
    trained $name dpo_${recipe#dpo_} $name
    verdict "$name and PyTorch" "$(dpo_variant ${name#dpo_} | as_ten $name)"
done <<<"$variants"
# Raw pairs parts of whose answers count for nothing, a row each and both in one.
for name in dpo_mean dpo_mean.shared; do
    "$work/$name/run.sh" --data $ref/dpo_variants/masked.jsonl --tokenizer bytes --init-from $ref/dpo_mean/model \
        --eval-data $ref/dpo_mean/eval.safetensors --out "$scratch/masked.$name" >"$scratch/log" 2>&1
    verdict "masked spans and PyTorch, $name" "$(dpo_variant masked | as_ten masked.$name)"
done
trained dpo_sum.bf16.again dpo_sum bf16
compare dpo_sum.bf16.again reference $ref/dpo_sum "$scratch/bf16" 2e-3

# The model without its adapters says in each step what the cache of the first weights has: the same bits. New adapters.
for name in dpo_lora dpo_lora.off; do
    "$work/$name/run.sh" --data $ref/dpo_lora/tokens.safetensors --eval-data $ref/dpo_lora/eval.safetensors \
        --init-from $ref/dpo_lora/model --out "$scratch/new.$name" >"$scratch/log" 2>&1 ||
        verdict "new $name" "$(tail -n 1 "$scratch/log")"
done
compare "cache and adapters off" history "$scratch/new.dpo_lora" "$scratch/new.dpo_lora.off" 0
compare "cache and copy" history "$scratch/dpo_lora" "$scratch/dpo_lora.copy" 0
# Killed: the copy is made of the first weights again, not of the checkpoint's.
{ DIECAST_FAULT=kill9:rank=0:step=8 train dpo_lora.copy dpo_lora copied --save-every 3; } 2>/dev/null &&
    verdict copied "it was not killed"
trained dpo_lora.copy dpo_lora copied --save-every 3
verdict "copy resumed" "$(grep -q 'resumed from .*checkpoint-6$' "$scratch/copied.log" ||
    tail -n 3 "$scratch/copied.log")"
compare "copy resumed" history "$scratch/dpo_lora.copy" "$scratch/copied" 0

nexts "next: sample" "$scratch/dpo_mean.log" sample "--max-new-tokens 2"
# the start's answers are those of its folder; another folder is none
both=$("$work/dpo_mean/train" --out "$scratch/dpo_mean" --json --sample "a b" --greedy --max-new-tokens 8 \
    --compare-initial $ref/dpo_mean/model 2>"$scratch/log")
verdict "answers next to the start's" "$(diff <(sed -n 's/.*"start":\("[^"]*"\),.*/\1/p' <<<"$both") \
    <("$work/dpo_mean/train" \
    --init-from $ref/dpo_mean/model --tokenizer bytes --json --sample "a b" --greedy --max-new-tokens 8 2>/dev/null |
    sed 's/.*"answer":\("[^"]*"\),.*/\1/') || tail -n 2 "$scratch/log")"
verdict "next to weights that are not the start" "$("$work/dpo_mean/train" --out "$scratch/dpo_mean" --sample a \
    --compare-initial none \
    >"$scratch/log" 2>&1
    [ $? = 83 ] && grep -q 'began with weights of crc32c .* give its initial weights' "$scratch/log" ||
        tail -n 2 "$scratch/log")"

# A finished run is evaluated against what it began with, also where nothing is left of the reference: by what the
# checkpoint says, by flags where that has moved, and never against another one. No tokenizer has to be named.
validation() {          # FILE...: the last validation in it, number by number
    grep -h eval_loss "$@" | tail -n 1 | tr ',{}' '\n\n\n' |
        grep -E '"eval_(loss|margin|accuracy|reward|policy|reference|pairs)[a-z_]*":' | tr -d ' ' | sort
}
again() {               # PROGRAM RUN ARGS...: validates again, into $scratch/said and $scratch/log
    local program=$1 run=$2
    shift 2
    "$work/$program/run.sh" --out "$scratch/$run" --eval-only "$@" >"$scratch/said" 2>"$scratch/log"
}
for name in dpo_mean dpo_lora.copy dpo_sum.bf16.again; do
    run=${name/dpo_sum.bf16.again/bf16} case=${name%%.*} flag=--init-from start=model
    [ $name != dpo_lora.copy ] || flag=--adapter start=adapter_init
    cp -r "$scratch/$run" "$scratch/evaluated.$name"
    rm -rf "$scratch/evaluated.$name/.reference_cache"
    for flags in "" "$flag $ref/$case/$start"; do
        # shellcheck disable=SC2086
        again $name evaluated.$name --eval-data $ref/$case/eval.safetensors $flags
        verdict "$name evaluated${flags:+ with $flag}" "$(diff <(validation "$scratch/$run/history.jsonl") \
            <(validation "$scratch/said") || tail -n 2 "$scratch/log")"
    done
done
verdict "evaluated, nothing was compared" "$([ "$(validation "$scratch/said" | wc -l)" -ge 8 ] || cat "$scratch/said")"
for flag in init-from adapter; do
    name=dpo_lora.copy
    [ $flag = adapter ] || name=dpo_mean
    again $name evaluated.$name --eval-data $ref/${name%%.*}/eval.safetensors --$flag none
    verdict "another start is refused: $flag" "$([ $? = 83 ] &&
        grep -q "began with weights of crc32c .* give its initial weights, --init-from" "$scratch/log" ||
        tail -n 2 "$scratch/log")"
done
cp -r $ref/dpo_mean/model "$scratch/start"
"$work/dpo_mean/train" --data $ref/dpo_mean/tokens.safetensors --init-from "$scratch/start" --steps 1 --eval-share 0 \
    --out "$scratch/moved" >"$scratch/log" 2>&1 || verdict "a start that moves" "$(tail -n 1 "$scratch/log")"
mv "$scratch/start" "$scratch/start.now"
again dpo_mean moved --eval-data $ref/dpo_mean/eval.safetensors
verdict "a start that has moved" "$([ $? = 80 ] && grep -q \
    "the run started from .*/start, which no longer exists; .* give its new path: --init-from" "$scratch/log" || tail -n 2 "$scratch/log")"
again dpo_mean moved --eval-data $ref/dpo_mean/eval.safetensors --init-from "$scratch/start.now"
verdict "it is named" "$(grep -q '"eval_margin"' "$scratch/said" || tail -n 2 "$scratch/log")"

# ---- a run and what it leaves --------------------------------------------------

# Killed where nothing is saved: the same bits, and the same table; the reference is not computed again.
{ DIECAST_FAULT=kill9:rank=0:step=8 train dpo_mean dpo_mean killed --save-every 6; } 2>/dev/null &&
    verdict killed "it was not"
cp -r "$scratch/killed" "$scratch/swapped"
trained dpo_mean dpo_mean killed --save-every 6
verdict resumed "$(grep -q 'resumed from .*checkpoint-6$' "$scratch/killed.log" &&
    grep -q '^reference values of .* from ' "$scratch/killed.log" || tail -n 3 "$scratch/killed.log")"
compare resumed history "$scratch/dpo_mean" "$scratch/killed" 0
compare TensorBoard tags "$scratch/killed" \
    "eval/best_loss eval/logps/chosen eval/logps/ref_chosen eval/logps/ref_rejected eval/logps/rejected \
eval/loss eval/pairs eval/rewards/accuracies eval/rewards/chosen eval/rewards/margins \
eval/rewards/rejected eval/runtime eval/samples_per_second eval/steps_per_second eval/tokens_per_second \
eval/train_accuracy eval/train_loss eval/train_margin train/learning_rate train/logps/chosen train/logps/ref_chosen \
train/logps/ref_rejected train/logps/rejected train/loss train/pairs train/rewards/accuracies \
train/rewards/chosen train/rewards/margins train/rewards/rejected train/tokens train/tokens_per_second \
train/train_tokens_per_second"
for file in checkpoint-10/{model,optimizer}.safetensors results/{dpo.csv,distributed_output_val.txt}; do
    verdict "resumed bits $(basename $file)" "$(cmp "$scratch"/{dpo_mean,killed}/$file 2>&1)"
done
for file in "$scratch"/dpo_mean/.reference_cache/*.safetensors; do
    verdict "the reference by two ranks" "$(cmp "$file" "$scratch/dpo_mean.2x1/.reference_cache/${file##*/}" 2>&1)"
done
verdict "the table" \
    "$(awk -F, \
    'NR == 1 && $0 != "epoch,step,tokens,train_loss,val_loss,train_margin,val_margin,train_accuracy,val_accuracy," \
        "policy_chosen,policy_rejected,reference_chosen,reference_rejected"
    NR == 2 && $2 $6 $7 $8 != "0000"
    NR > 2 { n++; if (!($3 > seen && $12 == chosen && NF == 13)) print }
    { seen = $3; chosen = $12 }
    END { if (n < 2) print n " rows" }' "$scratch/dpo_mean/results/dpo.csv")"
verdict "example answers" "$(awk '/^(Input|Reference|Trained|Chosen):$/ { n++ } /^-*$/ && length == 80 { rows++ }
    END { if (n != 12 || rows != 3) print n, rows }' "$scratch/dpo_mean/results/distributed_output_val.txt")"
# Cached values of the reference: from other weights; without the initial weights to recompute them.
"$work/dpo_mean/train" --data $ref/dpo_mean/tokens.safetensors --eval-data $ref/dpo_mean/eval.safetensors \
    --init-from none --seed 1 --steps 1 --out "$scratch/other" >"$scratch/log" 2>&1 ||
    verdict other "$(tail -n 1 "$scratch/log")"
verdict "a card without the share that files replace" "$(grep -e 'validation data\|--eval-share' \
    "$scratch/other/workspace/dpo_mean_fine-tuned/README.md" | diff - <(echo '| validation data | `eval.safetensors` |'))"
cp "$scratch"/other/.reference_cache/* "$scratch/swapped/.reference_cache"
line=$("$work/dpo_mean/train" --data $ref/dpo_mean/tokens.safetensors --eval-data $ref/dpo_mean/eval.safetensors \
    --out "$scratch/swapped" --init-from none 2>&1)
verdict "another reference, another start" "$([ $? = 83 ] && grep -q "give its initial weights" <<<"$line" ||
    echo "$line")"
"$work/dpo_mean/train" --data $ref/dpo_mean/tokens.safetensors --eval-data $ref/dpo_mean/eval.safetensors \
    --out "$scratch/swapped" --save-every 6 >"$scratch/swapped.log" 2>&1 ||
    verdict "another reference, the start as recorded" "$(tail -n 1 "$scratch/swapped.log")"
compare "another reference is made again" history "$scratch/dpo_mean" "$scratch/swapped" 0
verdict "another reference is named" "$(grep -q "belongs to different weights: .*: recomputing" "$scratch/swapped.log" ||
    grep reference "$scratch/swapped.log")"

# Raw pairs; 40 of them, answers of 5 bytes: 34, 4 and 2
awk 'BEGIN { for (i = 0; i < 40; i++)
    printf "{\"prompt\":\"p%02d:\",\"chosen\":\"c%04d\",\"rejected\":\"r%04d\"}\n", i, i * 37, i * 91 }' \
    >"$scratch/pairs.jsonl"
sed 's/"rejected":"[^"]*"/"rejected":"same!"/; s/"chosen":"[^"]*"/"chosen":"same!"/' "$scratch/pairs.jsonl" \
    >"$scratch/same.jsonl"
raw() {                 # PROGRAM OUT ARGS...: into $scratch/log
    local program=$1 out=$2
    shift 2
    "$work/$program/train" --tokenizer bytes --out "$scratch/$out" "$@" >"$scratch/log" 2>&1
}
start=(--init-from $ref/dpo_mean/model)
raw dpo_mean raw --data "$scratch/pairs.jsonl" "${start[@]}" --steps 4 --eval-every 1 --stop-margin 0 --greedy ||
    verdict "raw pairs" "$(tail -n 1 "$scratch/log")"
verdict "pairs divided" "$(grep -q '34 samples' "$scratch/log" &&
    grep -q '^before training: test, 4 pairs: loss 0.693147 ' "$scratch/log" &&
    grep -q '^after training: validation, 2 pairs' "$scratch/log" || grep 'pairs\|samples' "$scratch/log")"
verdict "its files are told" "$(for file in results/{evaluation.json,distributed_output_test.txt} \
    workspace/dpo_mean_fine-tuned/{config.json,model.safetensors}; do [ -s "$scratch/raw/$file" ] ||
    echo "no $file"; done)"
verdict "the final folder is the checkpoint" \
    "$(cmp "$scratch"/raw/{checkpoint-4,workspace/dpo_mean_fine-tuned}/model.safetensors 2>&1)"
verdict "the final folder has a card" "$(for line in '| objective | dpo |' '| steps | 4 of 4' '| base | model |' \
    'last validation | eval_loss |' '| `--eval-share` | 0.05 |'; do
    grep -qF -- "$line" "$scratch/raw/workspace/dpo_mean_fine-tuned/README.md" || echo "no $line"; done)"
# A span of an answer that counts for nothing is not part of the prompt, where the answer begins with it.
sed 's/,"rejected"/,"chosen_masked":[[0,2]]&/' "$scratch/pairs.jsonl" >"$scratch/spans.jsonl"
raw dpo_mean raw --eval-data "$scratch/spans.jsonl" --answers 1
verdict "answers next to masked ones" "$(grep -q '^{"prompt":"p00:","answer":"[^"]*","chosen":"c0000"}$' "$scratch/log" ||
    tail -n 1 "$scratch/log")"
# A tokenizer that is named goes with the weights, whatever its file is called: the final folder, both of adapters.
mkdir "$scratch/named"
tiny_tokenizer "$scratch/named"
mv "$scratch/named/tokenizer.json" "$scratch/named/ours.json"
for name in dpo_mean dpo_lora; do
    "$work/$name/train" --tokenizer "$scratch/named/ours.json" --data "$scratch/pairs.jsonl" --init-from none --steps 1 \
        --eval-batches 1 --max-new-tokens 1 --out "$scratch/named.$name" >"$scratch/log" 2>&1 ||
        verdict "a named tokenizer, $name" "$(tail -n 1 "$scratch/log")"
done
for way in export merge-lora; do
    "$work/dpo_lora/train" --init-from none --out "$scratch/named.dpo_lora" --$way "$scratch/named.$way" \
        >"$scratch/log" 2>&1 || verdict "a named tokenizer, $way" "$(tail -n 1 "$scratch/log")"
done
verdict "a named tokenizer goes with the weights" "$(for folder in named.{dpo_mean,dpo_lora}/checkpoint-1 \
    named.dpo_mean/workspace/dpo_mean_fine-tuned named.dpo_lora/workspace/dpo_lora_fine-tuned \
    named.{export,merge-lora}; do
    cmp "$scratch/$folder/tokenizer.json" "$scratch/named/ours.json" 2>&1
    # an export adds tokenizer_class
    diff <(jq -S 'del(.tokenizer_class)' "$scratch/$folder/tokenizer_config.json") \
        <(jq -S . "$scratch/named/tokenizer_config.json"); done)"
sed 's/:"[cr]/:"same /g; s/,"rejected"/,"chosen_masked":[[0,5]]&/; s/}$/,"rejected_masked":[[0,5]]&/' "$scratch/pairs.jsonl" \
    >"$scratch/spans.jsonl"
raw dpo_mean raw --eval-data "$scratch/spans.jsonl" --answers 1
verdict "answers next to two that begin alike" "$(grep -q '^{"prompt":"p00:","answer":"[^"]*","chosen":"same 0000"}$' \
    "$scratch/log" || tail -n 1 "$scratch/log")"
raw dpo_mean raw --data "$scratch/pairs.jsonl" --answers 3
verdict "answers" "$(grep -c '^{"prompt":"p[0-9][0-9]:","answer":"[^"]*","chosen":"c[0-9]*"}$' "$scratch/log" |
    grep -vx 3)"
"$work/dpo_mean/train" --out "$scratch/raw" --data "$scratch/pairs.jsonl" --answers 1 >"$scratch/log" 2>&1
verdict "answers by the run's tokenizer" "$(grep -q '^{"prompt":"p' "$scratch/log" || tail -n 2 "$scratch/log")"
# Of answers of one length e to minus the mean log-probability is the perplexity.
raw dpo_mean raw --eval-data "$scratch/pairs.jsonl" --perplexity
perplexity=$(sed -n 's/.*"chosen_perplexity":\([0-9.e+]*\).*/\1/p' "$scratch/log")
raw dpo_mean raw --eval-data "$scratch/pairs.jsonl" --eval-only --eval-batches 0
verdict "perplexity" "$(sed -n 's/.*"eval_policy_chosen": \([-0-9.e]*\).*/\1/p' "$scratch/log" |
    awk -v p="$perplexity" '{ x = exp(-$1) / p; good = x > 1 - 1e-5 && x < 1 + 1e-5 } END { if (!good) print x, p }')"
verdict "a finished run's reference is told" "$(grep -q '^reference values of ' "$scratch/log" &&
    ! grep -q 'the weights are their own' "$scratch/log" || grep '^reference' "$scratch/log")"
# Of new pairs there is no cache: the start is where the run had it, or is named. Here the same pairs, in another order.
said=$(tail -n 1 "$scratch/log")
tac "$scratch/pairs.jsonl" >"$scratch/new.jsonl"
for named in "" "${start[*]}"; do
    # shellcheck disable=SC2086
    raw dpo_mean raw --eval-data "$scratch/new.jsonl" --eval-only --eval-batches 0 $named
    verdict "new pairs and the start, ${named:-as recorded}" "$(paste <(grep -o '"eval_[a-z_]*": [-0-9.e]*' <<<"$said") \
        <(tail -n 1 "$scratch/log" | grep -o '"eval_[a-z_]*": [-0-9.e]*') |
        awk '/second|runtime|_train_/ { next } $1 != $3 || ($2 - $4) ^ 2 > 1e-12 { print } { n++ }
            END { if (n < 6) print n }')"
done
# As many pairs as so many updates take, however they are accumulated and divided.
for name in dpo_mean dpo_mean.2x1; do
    "$work/$name/run.sh" --tokenizer bytes --out "$scratch/none" --eval-data "$scratch/new.jsonl" --eval-only \
        --eval-batches 3 "${start[@]}" >"$scratch/batches.$name" 2>"$scratch/log" || verdict "$name: some batches" \
        "$(tail -n 1 "$scratch/log")"
done
verdict "pairs of a validation" "$([ "$(grep -o '"eval_pairs": [0-9]*' "$scratch/batches.dpo_mean")" = '"eval_pairs": 24' ] ||
    cat "$scratch/batches.dpo_mean")"
verdict "pairs of a validation, without accumulation" "$(diff <(validation "$scratch/batches.dpo_mean.2x1" |
    grep pairs) <(validation "$scratch/batches.dpo_mean" | grep pairs))"
# Adapters that began with others.
raw dpo_lora.copy begun --data "$scratch/pairs.jsonl" --init-from $ref/dpo_lora/model \
    --adapter $ref/dpo_lora/adapter_final --steps 2 --stop-margin 0 || verdict begun "$(tail -n 1 "$scratch/log")"
raw dpo_lora.copy begun --eval-data "$scratch/new.jsonl" --eval-only --adapter $ref/dpo_lora/adapter_final
verdict "new pairs and the adapter of the start" "$(grep -q '"eval_margin"' "$scratch/log" || tail -n 1 "$scratch/log")"
raw dpo_lora.copy begun --sample a --max-new-tokens 2 --beside-start
verdict "answers next to the start's adapter, by the flag's old name" "$(grep -q 'that the run began with:' "$scratch/log" &&
    grep -q '^renamed: --beside-start is now --compare-initial$' "$scratch/log" ||
    tail -n 1 "$scratch/log")"
raw dpo_lora.copy begun --sample a --max-new-tokens 2 --compare-initial --adapter none
verdict "answers next to another adapter" "$([ $? = 83 ] && grep -q 'give its initial weights' "$scratch/log" ||
    tail -n 1 "$scratch/log")"
# The gradients of both cancel, but for the order of sums.
raw dpo_sum same --data "$scratch/same.jsonl" "${start[@]}" --steps 2 --eval-share 0.1 --stop-margin 0
verdict "identical answers move nothing" "$(sed -n 's/^{"loss": \([0-9.e-]*\).*"grad_norm": \([0-9.e-]*\).*/\1 \2/p' \
    "$scratch/same/history.jsonl" |
    awk '$1 != 0.6931471824645996 || $2 > 1e-6 { print } END { if (NR != 2) print NR " steps" }')"
# Killed before the first checkpoint, then another rule: values before training are not those of the first.
rm -rf "$scratch"/same/{DONE,checkpoint-*}
raw dpo_mean same --data "$scratch/same.jsonl" "${start[@]}" --steps 1 --eval-share 0.1 --stop-margin 0
verdict "another rule, values of its own" "$(grep -q '^before training: ' "$scratch/log" || tail -n 3 "$scratch/log")"
printf '{"prompt":"%0200d","chosen":"a","rejected":"b"}\n' 1 >"$scratch/long.jsonl"
raw dpo_lora.off no "${start[@]}" --data "$scratch/long.jsonl"
verdict "refused: no room for an answer" "$([ $? = 88 ] && grep -q \
    '^rank .*leaves no room for an answer): rows of [0-9]* tokens .*seq.max.* --system' "$scratch/log" &&
    grep -q '^next: build with gen RECIPE seq.max=N ' "$scratch/log" || tail -n 2 "$scratch/log")"
while read -r name text args; do
    # shellcheck disable=SC2086
    raw dpo_lora.off no --init-from $ref/dpo_lora/model ${args//PAIRS/$scratch/pairs.jsonl}
    verdict "refused: $name" "$([ $? = 80 ] && grep -q "^\(rank\|train:\) .*${text//_/ }" "$scratch/log" ||
        tail -n 1 "$scratch/log")"
done <<'END'
nothing_to_validate --stop-margin:_this_run_has_no_validations --data PAIRS --eval-share 0 --stop-margin 2
nothing_to_answer --answers_needs_records_that_are_not_trained_on --adapter none --answers 2
a_share_of_no_data --eval-only:_--eval-share_validates_on_the_last_0.05_of_--data --adapter none --eval-only
greedy_and_drawn --greedy_takes_the_likeliest --data PAIRS --greedy --temperature 0.5
greedy_and_of_several --greedy_takes_the_likeliest_token,_--top-p --data PAIRS --greedy --top-p 0.5
packed_questions --system:_.*_is_packed --data tests/train/ref/dpo_lora/tokens.safetensors --system S
no_answers --answers:_must_be_an_integer_from_1 --data PAIRS --answers 0
an_adapter_to_start_from reference_of_this_program_is_the_model_without_adapters.*dpo.reference=cache --data PAIRS --adapter tests/train/ref/dpo_lora/adapter_final
END
for rule in "--stop-margin 1e-6 --lr 1e-2" "--stop-margin 0 --patience 2 --lr 0"; do
    rm -rf "$scratch/early"
    # shellcheck disable=SC2086
    "$work/dpo_mean.2x1/run.sh" --tokenizer bytes --out "$scratch/early" --data "$scratch/pairs.jsonl" \
        "${start[@]}" --steps 9 \
        --eval-every 1 $rule >"$scratch/log" 2>&1
    verdict "ends early: $rule" "$([ $? = 0 ] &&
        grep -q "^stopped early after step [1-4]: .*(${rule%% *}\|^stopped early.*(--patience 2)" \
        "$scratch/log" || tail -n 3 "$scratch/log")"
done

# ---- what is known beforehand --------------------------------------------------

number() { sed -n "/\"$1\": /s/.*\"$1\": \([-0-9.e]*\).*/\1/p" "$2/history.jsonl" | head -n 1; }
for name in dpo_mean dpo_sum dpo_lora dpo_lora.copy dpo_mean.2x1 dpo_mean.shared new.dpo_lora.off bf16; do
    said="$(number loss "$scratch/$name") $(number margin "$scratch/$name") $(number accuracy "$scratch/$name")"
    verdict "$name begins at ln 2" "$([ "$said" = "0.6931471824645996 0.0 0.0" ] || echo "$said")"
done
verdict parameters "$(grep -q 'INT64_C(107840)' "$work/dpo_mean/recipe.h" || grep parameters "$work/dpo_mean/recipe.h")"
while read -r words want; do     # the IR of a recipe's formula
    # shellcheck disable=SC2086
    said=$("$gen" -d graph recipes/dpo_tiny.lua ${words//,/ } 2>&1 | grep ' dpo %lp' |
        sed 's/.*  loss/loss/; s/  #.*//' | tr -s ' ')
    verdict "formula of $words" "$([ "$said" = "$want" ] || echo "$said")"
done <<'END'
name=x loss sigmoid dpo_beta 0.1 smoothing 0.0 margin 0.0 shift 1.0 penalty 0.0 kl 0.1 reward 1.0
dpo.kl=none,dpo.loss=dpop,dpo.reward_beta=true loss sigmoid dpo_beta 0.1 smoothing 0.0 margin 0.0 shift 1.0 penalty 50.0 kl 0.0 reward 0.1
dpo.kl=none,dpo.loss=dposhift loss sigmoid dpo_beta 0.1 smoothing 0.0 margin 0.0 shift 0.75 penalty 0.0 kl 0.0 reward 1.0
dpo.kl=none,dpo.loss=dpopshift,dpo.shift=0.5 loss sigmoid dpo_beta 0.1 smoothing 0.0 margin 0.0 shift 0.5 penalty 50.0 kl 0.0 reward 1.0
dpo.kl=none,dpo.loss=ipo,dpo.beta=0.3 loss ipo dpo_beta 0.3 smoothing 0.0 margin 0.0 shift 1.0 penalty 0.0 kl 0.0 reward 1.0
dpo.kl=none,dpo.smoothing=0.1,dpo.margin=2,dpo.reference=none loss sigmoid dpo_beta 0.1 smoothing 0.1 margin 2.0 shift 1.0 penalty 0.0 kl 0.0 reward 1.0
dpo.kl=token,lora.rank=4,dpo.reference=adapter_off loss sigmoid dpo_beta 0.1 smoothing 0.0 margin 0.0 shift 1.0 penalty 0.0 kl 0.0 reward 1.0
END

# The host's side of what no program above has.
for words in dpo.reference=none dpo.loss=ipo dpo.reference=copy; do
    rm -rf "$scratch/host"
    "$gen" recipes/dpo_tiny.lua dpo.kl=none $words -o "$scratch/host" >"$scratch/log" 2>&1
    verdict "compiles: $words" "$(cd "$scratch/host" &&
        gcc -std=c11 -fsyntax-only -Wall -Wextra -Wshadow -Werror -I. $(ls ./*.c | grep -v -e step -e train) 2>&1)"
done

# ---- what is refused --------------------------------------------------

while read -r words text; do
    # shellcheck disable=SC2086
    said=$("$gen" -d graph recipes/dpo_tiny.lua ${words//,/ } 2>&1)
    verdict "refused: $words" "$([ $? = 1 ] && grep -q "$text" <<<"$said" || head -n 1 <<<"$said")"
done <<'END'
dpo.penalty=3 dpo.penalty: only for dpo.loss = "dpop" and "dpopshift"
dpo.shift=0.5 dpo.shift: only for dpo.loss = "dposhift" and "dpopshift"
dpo.loss=ipo,dpo.smoothing=0.1 dpo.smoothing: has no effect while dpo.loss is "ipo"
dpo.loss=ipo,dpo.margin=1 dpo.margin: has no effect
dpo.kl=none,dpo.kl_weight=1 dpo.kl_weight: has no effect while dpo.kl is "none"
dpo.reference=none dpo.kl = "seq" needs a reference
dpo.reference=adapter_off "adapter_off" needs adapters
dpo.kl=token a cache holds one value per answer.*try dpo.reference = "copy"
dpo.kl=token,lora.rank=4 a cache holds one value per answer.*try dpo.reference = "adapter_off"
dpo.kl=token,dpo.reference=none dpo.kl = "token" needs a reference
dpo.reference=adapter_off,lora.rank=4,lora.modules_to_save=lm_head is not the initial model when lora.modules_to_save
dpo.shared_prompt=true,model.attention_dropout=0.1 dpo.shared_prompt: attention over a shared prompt has no dropout
gpus=3 batch.global: 8 samples are not divided by
data.kind=rows objective=dpo trains on pairs
batch.targets=4096 is more than batch.micro \* seq.max = 2 \* 8 \* 64 = 1024
END
exit $failed
