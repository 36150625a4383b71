#!/bin/bash
# Masked diffusion: runs against the same runs in PyTorch with the same masks (tests/oracle/mdm.py), where padding holds
# another id than here; a killed run; the loss of an untrained model; likelihoods; refusals. Cases and
# their recipes are called mdm_..., the objective's earlier name, which the recorded values (ref/mdm_*) carry.
source "$(dirname "$0")/lib.sh"

programs <<<"
mdm_llada mdm_llada
mdm_encoder mdm_encoder
mdm_sft.2x1x4 mdm_sft gpus=2 batch.accum=1
mdm_masked.bf16 mdm_masked precision=bf16
mdm_ask mdm_sft model.vocab=257 diffusion.mask=253 model.eos=255 seq.max=128 model.init_std=0.3
mdm_behind mdm_masked model.vocab=257 diffusion.mask=253 model.eos=255 seq.max=48 model.init_std=0.3
mdm_sft.3x2x1 mdm_sft gpus=3 batch.micro=1
"

# ---- the reference, ranks, 16 bit --------------------------------------------------

for name in mdm_llada mdm_encoder mdm_sft.2x1x4; do
    trained $name ${name%%.*} $name --save-every epoch --eval-every epoch
    compare $name reference $ref/${name%%.*} "$scratch/$name"
done
divided mdm_sft.3x2x1 mdm_sft eval_loss
trained mdm_masked.bf16 mdm_masked mdm_masked.bf16
compare mdm_masked.bf16 beginning $ref/mdm_masked "$scratch/mdm_masked.bf16" 4e-3

# Killed where nothing is saved: the same bits.
{ DIECAST_FAULT=kill9:rank=0:step=8 train mdm_llada mdm_llada killed --save-every epoch --eval-every epoch; } \
    2>/dev/null &&
    verdict killed "it was not"
trained mdm_llada mdm_llada killed --save-every epoch --eval-every epoch
verdict resumed "$(grep -q 'resumed from .*checkpoint-4$' "$scratch/killed.log" || tail -n 3 "$scratch/killed.log")"
compare resumed history "$scratch/mdm_llada" "$scratch/killed" 0
compare TensorBoard tags "$scratch/killed" \
    "epoch/learning_rate epoch/loss epoch/runtime eval/accuracy eval/best_loss eval/error eval/error_random \
eval/error_spread eval/loss eval/loss_random eval/loss_spread eval/runtime eval/samples_per_second \
eval/steps_per_second eval/tokens_per_second sample train/learning_rate train/loss \
train/targets train/tokens train/tokens_per_second train/train_tokens_per_second"
for file in {model,optimizer}.safetensors; do
    verdict "resumed bits $file" "$(cmp "$scratch"/{mdm_llada,killed}/checkpoint-15/$file 2>&1)"
done

# Epochs that are the best so far stand under names of their own, with the losses of all.
epochs=checkpoints_pretrained
verdict "named epochs" "$(cmp "$scratch"/{mdm_llada,killed}/$epochs/stats_epoch_2.json 2>&1
    tr -d ' \n' <"$scratch/mdm_llada/$epochs/stats_epoch_2.json" | sed 's/[0-9]\.[0-9]*/x/g' |
        grep -vx '{"epoch":2,"mask_token":4,"train_losses":\[x,x\],"val_losses":\[x,x\],"vocab_size":205}')"
cp -r "$scratch/mdm_llada" "$scratch/again"
rm -r "$scratch/again"/{DONE,checkpoint-*}
trained mdm_llada mdm_llada again --save-every epoch --eval-every epoch \
    --resume "$scratch/mdm_llada/$epochs/checkpoint_epoch_2"
verdict "resumed from a named epoch" "$(cmp "$scratch"/{mdm_llada,again}/checkpoint-15/model.safetensors 2>&1)"

verdict "epochs in the history" "$([ "$(grep -c '"epoch_loss": [^ ]*, "epoch_learning_rate": [^ ]*, "epoch_runtime": ' \
    "$scratch/mdm_llada/history.jsonl")" = 3 ] || cat "$scratch/mdm_llada/history.jsonl")"

# Rows as they are learned: the mask hides, ends of text fill answers up, each with its weight.
said=$("$work/mdm_masked.bf16/run.sh" --show 2 --data $ref/mdm_llada/tokens.safetensors --out "$scratch/none" 2>&1)
verdict "rows for people" \
    "$([ "$(grep -c '^step 1 .*micro-batch 1 row [12]: sample' <<<"$said")" = 2 ] || echo "$said")"

# Another mask for each copy of a sample: in a step that takes more samples than there are, in each pass of an epoch
# over a file with a high weight.
repeated() {            # NAME ROWS ARGS...: each sample shown twice or more is masked in more than one way
    local name=$1 rows=$2
    shift 2
    "$work/mdm_masked.bf16/run.sh" --show $rows --out "$scratch/none" "$@" 2>"$scratch/log" >"$scratch/said"
    verdict "$name" "$(awk -v rows=$rows '
        function ends() { if (n) { copies[sample]++; if (!seen[sample, row]++) ways[sample]++ } }
        /^[^ ]/ { ends(); n++; row = ""; sample = $0; sub(/.*: sample /, "", sample); sub(/,.*/, "", sample); next }
        { row = row $0 }
        END { ends(); if (n != rows) print n " rows"
            for (s in copies) { many += copies[s] > 1
                if (copies[s] > 1 && ways[s] == 1) print "sample " s ": " copies[s] " times the same" }
            if (!many) print "no sample twice" }' "$scratch/said"; grep '^rank' "$scratch/log")"
}
repeated "copies in a step" 8 --data $ref/mdm_llada/tokens.safetensors --max-samples 3
repeated "passes over a file" 32 --data-weights 1,20 \
    --data $ref/mdm_llada/tokens.safetensors,$ref/mdm_llada/eval.safetensors

# ---- what is known beforehand --------------------------------------------------

# validated NAME CASE ARGS...: eval_loss and eval_error, also in $scratch/said
validated() {
    local name=$1 case=$ref/$2
    shift 2
    "$work/$name/run.sh" --eval-only --eval-data "$case/eval.safetensors" "$@" 2>"$scratch/log" |
        sed 's/[{}",:]/ /g' | awk '{ for (i = 1; i < NF; i++) if ($i ~ /^eval_(loss|error)$/) print $(i + 1) }' |
        tee "$scratch/said"
}
# weights of 0 give each of 205 words the same probability: ln 205, whatever is masked, within the reported deviation
for name in mdm_llada mdm_sft.2x1x4; do
    case=${name%%.*}
    verdict "$name, equal words" "$(validated $name $case --init-from none --out "$scratch/none" --val-noise spread \
        --val-draws 3 | awk 'NR == 1 && ($1 - log(205)) ^ 2 > 1e-12; END { if (NR != 2) print "no loss" }'
        grep '^rank .*error' "$scratch/log")"
done
verdict "equal words, by chance" "$(validated mdm_llada mdm_llada --init-from none --out "$scratch/none" \
    --val-noise random --val-draws 400 | tr '\n' ' ' |
    awk '!($2 > 0.01 && $2 < 0.2 && ($1 - log(205)) ^ 2 < 16 * $2 ^ 2)')"
# what two ways to hide tell of trained weights: within four errors of their difference; alone each tells the same
said=$("$work/mdm_llada/run.sh" --eval-only --eval-data $ref/mdm_llada/eval.safetensors --out "$scratch/mdm_llada" \
    --val-noise spread,random --val-draws 100 2>"$scratch/log")
for key in loss error loss_random error_random loss_spread error_spread; do
    declare "by_$key=$(sed -n 's/.*"eval_'$key'": \([-+.e0-9]*\).*/\1/p' <<<"$said")"
done
# shellcheck disable=SC2154
verdict "two estimates of one loss" "$(awk -v r="$by_loss_random" -v e="$by_error_random" -v s="$by_loss_spread" \
    -v f="$by_error_spread" 'BEGIN { exit !(e > 0 && f > 0 && f < e && (r - s) ^ 2 < 16 * (e ^ 2 + f ^ 2)) }' &&
    [ "$by_loss $by_error" = "$by_loss_spread $by_error_spread" ] || echo "$said")"
verdict "one of them alone" "$(validated mdm_llada mdm_llada --out "$scratch/mdm_llada" --val-noise random \
    --val-draws 100 | diff - <(printf '%s\n' "$by_loss_random" "$by_error_random"))"
# of one draw the error is that over batches, of three here: in the mean of seeds near the one over draws
verdict "the error of one draw" "$(for seed in {1..12}; do
    validated mdm_llada mdm_llada --out "$scratch/mdm_llada" --val-noise spread --seed "$seed" | tail -n 1; done |
    awk -v e="$by_error_spread" '{ sum += $1 ^ 2 } END { x = sqrt(sum / NR) / (10 * e)
        if (NR != 12 || !(x > 0.6 && x < 2)) print NR, x }')"
both='"eval_loss_random": [0-9.e-]*, "eval_error_random": [0-9.e-]*, "eval_loss_spread": [0-9.e-]*,'
both="$both"' "eval_error_spread": [0-9.e-]*,'
verdict "both in the history, once a validation" "$([ "$(grep -c "$both" "$scratch/killed/history.jsonl")" = \
    "$(sed -n 's/.*"eval_loss":.*"step": \([0-9]*\).*/\1/p' "$scratch/killed/history.jsonl" | sort -u | wc -l)" ] ||
    cat "$scratch/killed/history.jsonl")"

# each curve of the figure has bars of its own error
verdict "errors in the figure" "$(for key in none random spread; do
    mkdir -p "$scratch/drawn.$key"
    sed 's/"eval_error_'$key'": [0-9.e-]*/"eval_error_'$key'": 0.5/' "$scratch/killed/history.jsonl" \
        >"$scratch/drawn.$key/history.jsonl"
    "$work/mdm_llada/run.sh" --plot --out "$scratch/drawn.$key" 2>&1 | grep -v '^figures in'
    cksum <"$scratch/drawn.$key/plots/losses.png"
done | sort | uniq -c | awk '$1 != 1 { print } END { if (NR != 3) print NR }')"

# A line a sample, of its answer's tokens, with the draws of every number of them.
said=$("$work/mdm_sft.2x1x4/run.sh" --loglik $ref/mdm_sft/eval.safetensors --init-from none \
    --out "$scratch/none" 2>"$scratch/log")
verdict "likelihoods" "$(sed 's/[{}",:]/ /g' <<<"$said" |
    awk '($2 != NR - 1) || ($6 + $4 * log(205)) ^ 2 > 1e-8 || $8 > 1e-4
    END { if (NR != 9) print NR, "lines" }'
    grep -q '^9 samples, .* tokens, 128 draws each: 5.3230 nats a token$' "$scratch/log" || tail -n 1 "$scratch/log")"
verdict "likelihoods of trained weights" "$("$work/mdm_sft.2x1x4/run.sh" --loglik $ref/mdm_sft/eval.safetensors \
    --out "$scratch/mdm_sft.2x1x4" 2>"$scratch/log" | sed 's/[{}",:]/ /g' |
    awk '!($6 < 0 && $8 < 0.3 * -$6) { print } { sum += $6; n += $4 }
        END { if (NR != 9 || !(sum / n > -5.3)) print NR, sum / n }')"

while read -r name want; do      # of recipes/
    said=$("$gen" plan recipes/"$name".lua 2>&1)
    verdict "parameters of $name" "$(tr -d , <<<"$said" |
        grep -q "^${want% *} parameters ${want#* } trained" || echo "$said")"
done <<'END'
llada_tiny 674176 674176
llada_shakespeare 173290053 173290053
llada_8b 8015581184 8015581184
llada_8b_lora 8057524224 41943040
END
verdict "disk for checkpoints by epoch" "$("$gen" info recipes/llada_tiny.lua 2>/dev/null |
    grep -c '^ *more where checkpoints_pretrained names others, which stay$' | grep -vx 1)"
said=$("$gen" plan recipes/llada_8b.lua memory.limit_gib=79 memory.zero=0 2>&1)
verdict "what does not fit" "$([ $? = 1 ] && grep -q 'needs 13[0-9.]* GiB, 77.5 GiB available' <<<"$said" &&
    grep -q '    fits: .*lora.rank=16 lora.targets=all-linear .* tokens/s, without full training)$' <<<"$said" || echo "$said")"
verdict "what fits over two ranks" "$("$gen" plan recipes/llada_8b.lua memory.limit_gib=79 2>&1 |
    grep -c '^    fits: memory.zero=3 memory.ffn_rows=2048 memory.recompute=auto   (75.5 GiB, about ' | grep -vx 1)"

# ---- generation: as PyTorch's sampler says (tests/oracle/unmask.py) --------------------------------------------------

sed -n 's/.*"prompt": "\(.*\)",/\1/p' $ref/mdm_llada/generated.json | head -n 5 >"$scratch/prompts.txt"
generated() {           # ARGS...: on standard output; what it took in $scratch/log
    "$work/mdm_llada/run.sh" --init-from $ref/mdm_llada/model --tokenizer $ref/mdm_llada/tokenizer.json \
        --out "$scratch/none" "$@" 2>"$scratch/log" || grep '^rank ' "$scratch/log"
}
sed -n 's/.*"flags": "\(.*\)",/\1/p' $ref/mdm_llada/generated.json >"$scratch/asked"
at=0
while read -r flags; do
    at=$((at + 1))
    want=$(sed -n 's/^ *"answer": //p' $ref/mdm_llada/generated.json | sed -n "$((5 * at - 4)),$((5 * at))p")
    # shellcheck disable=SC2086
    said=$(generated --generate-file "$scratch/prompts.txt" $flags)
    verdict "generated, $flags" "$(diff <(sed 's/.*"answer":\(.*\)}/\1/' <<<"$said") - <<<"$want")"
done <"$scratch/asked"
verdict "all were asked" "$([ "${at:-0}" = 4 ] || echo "${at:-0}")"
took() { sed -n 's/^\([0-9]*\) tokens in .*; the \([0-9]*\) passes of 4 x 32 tokens alone: .*/\1 \2/p' "$scratch/log"; }
# two ranks share the prompts: the texts of one, in their order
read -r flags <"$scratch/asked"
# shellcheck disable=SC2086
said=$("$work/mdm_sft.2x1x4/run.sh" --init-from $ref/mdm_llada/model --tokenizer $ref/mdm_llada/tokenizer.json \
    --out "$scratch/none" --generate-file "$scratch/prompts.txt" $flags 2>"$scratch/log")
verdict "generated by two ranks" "$(diff <(sed 's/.*"prompt":\(.*\),"answer":\(.*\)}/\1 \2/' <<<"$said") \
    <(sed -n 's/^ *"\(prompt\|answer\)": \("[^"]*"\),*$/\2/p' $ref/mdm_llada/generated.json | head -n 10 |
    paste -d' ' - -)
    [ "$(took)" = "80 12" ] || tail -n 1 "$scratch/log")"
"$work/mdm_llada/run.sh" --data $ref/mdm_llada/tokens.safetensors --tokenizer $ref/mdm_llada/tokenizer.json \
    --init-from $ref/mdm_llada/model --out "$scratch/next" --steps 1 --eval-sample=false >"$scratch/next.log" 2>&1
nexts "next: generate" "$scratch/next.log" generate      # of 32 places, half of them after a prompt
said=$("$work/mdm_llada/run.sh" --data $ref/mdm_llada/tokens.safetensors --init-from none --out "$scratch/none" \
    --dry-run --schedule onecycle --warmup 3 --min-lr 1e-6 --beta1 0.5 2>&1)
verdict "flags that a schedule ignores are reported" "$(for flag in "--warmup 3" "--min-lr 1e-06" "--beta1 0.5"; do
    grep -q -- "^$flag does nothing: --schedule onecycle has" <<<"$said" || echo "no $flag: $said"; done
    "$work/mdm_llada/run.sh" --data $ref/mdm_llada/tokens.safetensors --init-from none --out "$scratch/none" --dry-run \
    --schedule cosine_with_min_lr --warmup 3 --min-lr 1e-6 --beta1 0.5 2>&1 | grep "does nothing")"
verdict "what a start says" "$(for line in ', vocabulary of 205, ' '^  length     1 step, 0\.[0-9]* epochs$' \
    '^  data  .* (rows) in .*/tokens.safetensors, '; do grep -q -- "$line" "$scratch/next.log" || echo "no $line"; done)"
one=$(generated --generate "w10 w150 w7" --gen-length 16 --gen-block 8)
verdict "a token a step" "$([ "$(took)" = "16 16" ] && grep -q '^w10 w150 w7 ' <<<"$one" && ! grep -q MASK <<<"$one" ||
    echo "$one $(tail -n 1 "$scratch/log")")"
verdict "the likeliest, whatever the seed" "$(generated --generate "w10 w150 w7" --gen-length 16 --gen-block \
    8 --seed 9 |
    diff - <(echo "$one"))"
echo '{"prompt": "w10 [MASK] w7 [MASK] [MASK] w9"}' >"$scratch/gaps.jsonl"
said=$(generated --generate-file "$scratch/gaps.jsonl" --gen-length 0 --gen-steps 2)
verdict "gaps are filled" "$([ "$(took)" = "3 2" ] && grep -q '"answer":"w10 .*w7 .*w9' <<<"$said" &&
    ! grep -q 'answer.*MASK' <<<"$said" ||
    echo "$said $(tail -n 1 "$scratch/log")")"
# another tokenizer's mask hides the same: its [MASK] has the id of w5, and w5 the model's mask
sed 's/"\[MASK\]": 4/"[MASK]": @/; s/"w5": 5/"w5": 4/; s/@/5/' $ref/mdm_llada/tokenizer.json >"$scratch/other.json"
verdict "gaps of another tokenizer's mask" "$(diff <(echo "$said") <(generated --tokenizer "$scratch/other.json" \
    --generate-file "$scratch/gaps.jsonl" --gen-length 0 --gen-steps 2))"
verdict "a sample after a validation" "$(sed -n 's/^{"step":\([0-9]*\),"prompt":"w.*","answer":".*"}$/\1/p' \
    "$scratch/mdm_llada/samples.jsonl" | paste -s -d' ' |
    diff - <(sed -n 's/.*"eval_loss.*"step": \([1-9][0-9]*\).*/\1/p' \
    "$scratch/mdm_llada/history.jsonl" | paste -s -d' '))"
verdict "samples of a run that was killed" "$(cmp "$scratch"/{mdm_llada,killed}/samples.jsonl 2>&1)"
while IFS='|' read -r name text flags; do
    # shellcheck disable=SC2086
    said=$(generated --generate "${flags##*:}" ${flags%%:*})
    verdict "refused: $name" "$(grep -q "^\(rank\|train:\) .*$text" <<<"$said" || echo "$said")"
done <<'END'
blocks longer than the recipe's|computes 32 positions at a time|--gen-length 64 --gen-block 64:w5
a length of no whole blocks|is not a multiple of the blocks of 8 tokens; try --gen-length 8|--gen-length 10 --gen-block 8:w5
steps that blocks do not share|cannot be divided equally among 2 blocks of 8 tokens; try --gen-steps 6|--gen-length 16 --gen-block 8 --gen-steps 5:w5
no room|the text has 2 tokens and --gen-length is 32; this program has room for 32|--gen-length 32:w5
no gaps|the text has no mask token|--gen-length 0:w5
gaps and a length|fill them with --gen-length 0|--gen-length 8:w5 [MASK]
steps of training|--steps has no effect with --generate, which does not train: leave it out|--steps 5:w5
END

# Raw text by its characters; then the answers to questions, by the tokenizer that lies next to the weights.
yes "what is this? it is a cat, that is a hat. " | head -n 20 | tr -d '\n' >"$scratch/text.txt"
"$work/mdm_masked.bf16/run.sh" --data "$scratch/text.txt" --tokenizer char --eval-share 0.2 --steps 2 --init-from none \
    --out "$scratch/raw" >"$scratch/log" 2>&1 || verdict "raw text" "$(tail -n 1 "$scratch/log")"
verdict "windows of raw text" "$(grep -q '^windows of 32 tokens, 16 apart' "$scratch/log" || cat "$scratch/log")"
"$gen" pack --prepare "$scratch/arrays" --tokenizer char --max-length 32 --eval-share 0.2 --vocab 205 \
    "$scratch/text.txt" \
    >"$scratch/said" 2>&1 || verdict "arrays of ids" "$(cat "$scratch/said")"
"$work/mdm_masked.bf16/run.sh" --data_dir "$scratch/arrays" --steps 2 --init-from none --eval-share 0.2 \
    --out "$scratch/ids" >"$scratch/log" 2>&1 || verdict "arrays of ids" "$(tail -n 1 "$scratch/log")"
compare "arrays of ids, as the text they are of" history "$scratch/raw" "$scratch/ids" 0
# A vocabulary counted from the data goes on without its flag; changed data are what is refused, or encoded by the copy.
rm -rf "$scratch/resumed"
cp -r "$scratch/raw" "$scratch/resumed"
"$work/mdm_masked.bf16/run.sh" --data "$scratch/text.txt" --steps 3 --out "$scratch/resumed" >"$scratch/log" 2>&1
verdict "characters, resumed" "$(grep -q '^resumed from .*/checkpoint-2$' "$scratch/log" && grep -q '^step 3/3 ' \
    "$scratch/log" || tail -n 2 "$scratch/log")"
sed 's/cat/hat/' "$scratch/text.txt" >"$scratch/text2.txt"
"$work/mdm_masked.bf16/run.sh" --data "$scratch/text2.txt" --steps 4 --out "$scratch/resumed" >"$scratch/log" 2>&1
verdict "characters of other data, refused" "$(grep -q 'checkpoint-3: data: file 1 has different content; --allow-in' \
    "$scratch/log" || tail -n 2 "$scratch/log")"
"$work/mdm_masked.bf16/run.sh" --data "$scratch/text2.txt" --steps 4 --out "$scratch/resumed" --allow-inexact \
    >"$scratch/log" 2>&1
verdict "characters of other data" "$(grep -q '^step 4/4 ' "$scratch/log" || tail -n 2 "$scratch/log")"
# the length, or the block, that a message advises is accepted
while read -r length block text advised; do
    ask=("$work/mdm_masked.bf16/run.sh" --out "$scratch/raw" --generate "$text" --gen-length $length --gen-block $block)
    "${ask[@]}" >"$scratch/log" 2>&1
    verdict "advice for --gen-length $length" "$(grep -q -- "try $advised\$" "$scratch/log" || tail -n 2 "$scratch/log")"
    # shellcheck disable=SC2086
    "${ask[@]}" $advised >"$scratch/log" 2>&1 || verdict "advice for --gen-length $length" "$(tail -n 2 "$scratch/log")"
done <<'END'
10 4 what --gen-length 8
3 4 what --gen-block 3
30 7 whats --gen-length 21
28 7 whats --gen-length 21
30 7 aaaaaaaaaaaaaaaaaaaaaaaaaaaa --gen-length 3 --gen-block 3
28 7 aaaaaaaaaaaaaaaaaaaaaaaaaaaa --gen-length 3 --gen-block 3
END
rm -rf "$scratch/resumed"
# --eval-share goes on with the run, so that a flag of validations is not refused
cp -r "$scratch/raw" "$scratch/resumed"
"$work/mdm_masked.bf16/run.sh" --data "$scratch/text.txt" --tokenizer char --steps 3 --patience 9 \
    --out "$scratch/resumed" >"$scratch/log" 2>&1
verdict "a flag of validations, resumed" "$(grep -q '^step 3/3 .*eval loss' "$scratch/log" || tail -n 2 "$scratch/log")"
"$work/mdm_masked.bf16/run.sh" --prepare "$scratch/text.txt" --out "$scratch/own" --tokenizer char --eval-share 0.2 \
    >"$scratch/log" 2>&1 || verdict "arrays of ids by the program" "$(tail -n 1 "$scratch/log")"
verdict "arrays of ids by the program" "$(diff -r "$scratch/arrays" "$scratch/own" 2>&1;
    grep -qx 'targets: chosen for each batch' "$scratch/log" || cat "$scratch/log")"
# a tokenizer that is named goes with the weights, into a checkpoint and from there into what is exported
cp "$scratch/raw/checkpoint-2/tokenizer.json" "$scratch/characters.json"
"$work/mdm_masked.bf16/run.sh" --data "$scratch/text.txt" --tokenizer "$scratch/characters.json" --eval-share 0 \
    --steps 1 --init-from none --out "$scratch/named" >"$scratch/log" 2>&1 &&
    "$work/mdm_masked.bf16/run.sh" --out "$scratch/named" --export "$scratch/named.model" >"$scratch/log" 2>&1
verdict "a tokenizer that is named goes with the weights" "$(for folder in named/checkpoint-1 named.model; do
    cmp "$scratch/$folder/tokenizer.json" "$scratch/characters.json" 2>&1; done || tail -n 1 "$scratch/log")"
# a validation that masks nothing has no loss, rather than the best one: of 20 seeds some mask neither of two characters
printf '{"text":"th"}\n' >"$scratch/two.jsonl"
verdict "a validation without targets" "$(for seed in {1..20}; do
    "$work/mdm_masked.bf16/run.sh" --out "$scratch/raw" --eval-only --eval-data "$scratch/two.jsonl" --seed $seed \
        --val-noise random --allow-nonfinite >"$scratch/said" 2>"$scratch/log"
    said=$(grep -c '^warning: this validation has no targets, so its loss is unknown: use more' "$scratch/log")
    sed "s/,.*/ $said/" "$scratch/said"
done | awk '/"eval_loss": null 1$/ { none++ } /null 0$|: 0(\.0)? |[0-9] 1$/ { print }
    END { if (!none || NR < 20) print NR " lines, none for " none + 0 }')"
# fewer samples than a micro-batch, each of them often: no more targets than positions
for file in one two; do head -c 32 "$scratch/text.txt" >"$scratch/$file.txt"; done
repeated "few samples with weights" 16 --data "$scratch/one.txt,$scratch/two.txt" --data-weights 1,2 --eval-share 0 \
    --tokenizer "$scratch/characters.json"
id() { sed -n "s/.*\"$1_token_id\": \([0-9a-z]*\).*/\1/p" "$2/config.json"; }
verdict "special tokens of the records in config.json" "$(for run in raw ids; do
    echo "$(id mask "$scratch/$run/checkpoint-2") $(id pad "$scratch/$run/checkpoint-2")"; done | uniq |
    diff - <(sed -n 's/.*"mask_token": \([0-9]*\).*/\1 0/p' "$scratch/arrays/metadata.json"))"
said=$("$work/mdm_masked.bf16/run.sh" --out "$scratch/raw" --eval-only --eval-data "$scratch/text.txt" 2>"$scratch/log")
verdict "a text by the tokenizer of the weights" "$(grep -q '"eval_loss": [0-9]' <<<"$said" ||
    tail -n 1 "$scratch/log")"
sed -i 's/"mask_token": [0-9]*/"mask_token": 204/' "$scratch/arrays/metadata.json"       # packed with another before
said=$("$work/mdm_masked.bf16/run.sh" --data_dir "$scratch/arrays" --show 1 --out "$scratch/ids" 2>&1)
verdict "another mask than the tokenizer's" "$(grep \
    -q ': the mask is token 204, that of their tokenizer .* is [0-9]*: pack' \
    <<<"$said" || echo "$said")"
sed -i 's/"eos_token": [0-9]*/"eos_token": 204/' "$scratch/arrays/metadata.json"
said=$("$work/mdm_masked.bf16/run.sh" --data_dir "$scratch/arrays" --show 1 --out "$scratch/ids" 2>&1)
verdict "a mask that ends texts" "$(grep -q 'eos_token: 204, which is mask_token: give another id' <<<"$said" ||
    echo "$said")"
printf '{"prompt":"%s? ","response":"%s"}\n' "what is this" "a cat" "is it" "it is" >"$scratch/asked.jsonl"
said=$("$work/mdm_masked.bf16/run.sh" --out "$scratch/raw" --loglik "$scratch/asked.jsonl" 2>"$scratch/log")
verdict "likelihoods of raw answers" "$([ "$(grep -c '^{"sample": [01], "tokens": 6, "loglik": -' <<<"$said")" = 2 ] ||
    echo "$said" "$(tail -n 1 "$scratch/log")")"
"$gen" pack -o "$scratch/divided.safetensors" --format windows --tokenizer "$scratch/characters.json" --max-length 32 \
    --split tail --eval-share 0.2 "$scratch/text.txt" >"$scratch/log" 2>&1
"$work/mdm_masked.bf16/run.sh" --out "$scratch/raw" --loglik "$scratch/divided.safetensors" --val-draws 4 \
    >"$scratch/said" 2>"$scratch/log"
verdict "likelihoods of the validation rows of a file only" "$(grep -q \
    "divided.*marks its validation rows itself: --loglik uses only these $(wc -l <"$scratch/said") rows" "$scratch/log" ||
    cat "$scratch/log")"
# Weights with a NaN: no likelihood is printed.
cp -r $ref/mdm_llada/model "$scratch/nan"
printf '\0\0\300\177' | dd of="$scratch/nan/model.safetensors" bs=1 conv=notrunc status=none \
    seek=$(($(stat -c %s "$scratch/nan/model.safetensors") - 26368))          # of the last norm
none() {                # ARGS...: of these weights
    "$work/mdm_llada/run.sh" --init-from "$scratch/nan" --out "$scratch/none" --val-draws 2 "$@" 2>"$scratch/log"
}
verdict "likelihoods that are no numbers" "$(none --loglik $ref/mdm_llada/eval.safetensors --allow-nonfinite |
    grep -v '"loglik": null, "error": null}$')"
verdict "a loss that is no number has no error" "$(none --eval-only --allow-nonfinite --val-draws 1 --eval-data \
    $ref/mdm_llada/eval.safetensors | grep -v '"eval_error": null')"

# A model that learned conversations is asked in one: what a user says is laid out as it was learned.
. tests/tiny_tokenizer.sh
mkdir "$scratch/chatml" && tiny_tokenizer "$scratch/chatml"
for i in $(seq 16); do
    echo '{"messages":[{"role":"user","content":"say '$i'"},{"role":"assistant","content":"number '$i'!"}]}'
done >"$scratch/talks.jsonl"
"$work/mdm_ask/run.sh" --data "$scratch/talks.jsonl" --tokenizer "$scratch/chatml/tokenizer.json" --eval-share 0 --steps 2 \
    --init-from none --out "$scratch/talks" >"$scratch/log" 2>&1 || verdict talks "$(tail -n 1 "$scratch/log")"
nexts "next: ask" "$scratch/log" ask "--gen-length 8"
asked() { "$work/mdm_ask/run.sh" --out "$scratch/talks" --gen-length 8 "$@" 2>"$scratch/log"; }
answers() { sed 's/.*"answer":\(".*"\)}$/\1/'; }
{
    echo '{"messages":[{"role":"user","content":"say 7"}]}'
    echo '{"prompt":"<|im_start|>user\nsay 7<|im_end|>\n<|im_start|>assistant\n"}'
} >"$scratch/asked.jsonl"
said=$(asked --generate-file "$scratch/asked.jsonl" | answers)
verdict "messages as they were learned" "$([ "$(sort -u <<<"$said" | wc -l)" = 1 ] || echo "$said"
    [ "$(head -n 1 <<<"$said")" != "$(asked --generate-file - <<<'{"prompt":"say 7"}' | answers)" ] ||
    echo "the same as after the words alone: $said")"
verdict "a question as a message" "$(asked --generate "say 7" --generate-chat |
    diff - <(head -n 1 <<<"$said" | sed 's/^"\(.*\)"$/\1/; s/\\\(["\\]\)/\1/g') ||
    tail -n 1 "$scratch/log")"

# rows that were packed in another format than the template next to the tokenizer: the run knows
"$gen" pack --format answers --chat qwen2 --max-length 128 --tokenizer "$scratch/chatml/tokenizer.json" \
    -o "$scratch/qwen2.safetensors" "$scratch/talks.jsonl" >"$scratch/log" 2>&1 || verdict qwen2 "$(cat "$scratch/log")"
"$work/mdm_ask/run.sh" --data "$scratch/qwen2.safetensors" --eval-share 0 --steps 1 --init-from none --out "$scratch/qwen2" \
    >"$scratch/log" 2>&1 || verdict qwen2 "$(tail -n 1 "$scratch/log")"
"$work/mdm_ask/run.sh" --out "$scratch/qwen2" --tokenizer "$scratch/chatml/tokenizer.json" --gen-length 8 --generate a \
    --generate-chat >/dev/null 2>"$scratch/log"
verdict "asked as it was packed" "$(grep -q 'conversations as qwen2 writes them: those it was trained on' "$scratch/log" ||
    tail -n 1 "$scratch/log")"
"$work/mdm_behind/run.sh" --data "$scratch/text.txt" --tokenizer bytes --eval-share 0.2 --steps 1 --init-from none \
    --out "$scratch/bytes" >"$scratch/log" 2>&1
verdict "a sample of bytes" "$(grep -q '^{"step": 1, "prompt": ' "$scratch/bytes/samples.jsonl" 2>&1 ||
    grep -q '^{"step":1,"prompt":' "$scratch/bytes/samples.jsonl" || tail -n 2 "$scratch/log")"
# A prompt begins as windows did: here with the begin-of-text token that the tokenizer's configuration alone has.
cp -r "$scratch/chatml" "$scratch/begun"
sed 's/^{/{"bos_token":"<|endoftext|>",/' "$scratch/chatml/tokenizer_config.json" >"$scratch/begun/tokenizer_config.json"
for way in "begun:say 7" "chatml:<|endoftext|>say 7" "chatml:say 7"; do
    "$work/mdm_behind/run.sh" --init-from none --tokenizer "$scratch/${way%%:*}/tokenizer.json" --gen-length 8 \
        --out "$scratch/none" --generate-file - <<<"${way#*:}" 2>"$scratch/log" | answers
done >"$scratch/behind"
verdict "a prompt begins as windows did" "$(awk '{ a[NR] = $0 } END { if (a[1] == "" || a[1] != a[2] || a[1] == a[3])
    print a[1], a[2], a[3] }' "$scratch/behind")"

# ---- refused --------------------------------------------------

refused() {             # PROGRAM NAME CODE TEXT ARGS...: one line
    local program=$1 name=$2 code=$3 text=$4 line
    shift 4
    line=$("$work/$program/run.sh" --out "$scratch/none" --init-from none "$@" 2>&1)
    set -- $?
    verdict "$name" "$([ "$1" = "$code" ] && [ "$(grep -c '^\(rank .*:\|train: \)' <<<"$line")" = 1 ] &&
        grep -q -- "$text" <<<"$line" || echo "exit $1: $line")"
}
sed 's/"mask_id":"4"/"mask_id":"7"/' $ref/mdm_llada/tokens.safetensors >"$scratch/hidden.safetensors"
refused mdm_llada "another mask than the model's" 83 "the mask of tokenizer .* is token 7, the model.s is 4" \
    --data "$scratch/hidden.safetensors"
"$work/mdm_llada/run.sh" --out "$scratch/mdm_llada" --export "$scratch/other" >"$scratch/log" 2>&1
sed -i 's/"mask_token_id":[^,]*/"mask_token_id": 7/' "$scratch/other/config.json"
refused mdm_llada "weights of another mask" 83 "mask_token_id is 7, but the mask here is token 4: gen .* diffusion.mask=7" \
    --init-from "$scratch/other" --eval-only --eval-data $ref/mdm_llada/eval.safetensors
refused mdm_masked.bf16 "texts with the mask" 88 "sample [0-9]* has the mask, token 7, at position" \
    --data "$scratch/hidden.safetensors"
"$gen" pack -o "$scratch/packed.safetensors" --kind packed "$scratch/text.txt" >"$scratch/log" 2>&1
refused mdm_masked.bf16 "packed documents" 83 "packed documents, but this .* masks tokens .* gen pack --format NAME" \
    --data "$scratch/packed.safetensors"
echo '{"text":"what is this?"}' >"$scratch/rows.jsonl"
refused mdm_masked.bf16 "arrays: of rows" 88 "these are JSON rows: name texts, or gen pack --prepare DIR" \
    --prepare "$scratch/rows.jsonl" --tokenizer char
for ((i = 0x4e00; i < 0x4f00; i++)); do printf "\\u$(printf %x $i)"; done >"$scratch/many.txt"
refused mdm_masked.bf16 "arrays: of too many characters" 83 "ids go up to .* has 205: gen .* model.vocab=26[0-9]$" \
    --prepare "$scratch/many.txt" --tokenizer char --out "$scratch/many"
verdict "arrays: nothing is left" "$(ls -d "$scratch/many" 2>/dev/null)"
while IFS='|' read -r name code text program flags; do
    # shellcheck disable=SC2086
    refused $program "arrays: $name" $code "$text" --prepare "$scratch/text.txt" $flags
done <<END
another text|80|--data has no effect with --prepare: leave it out|mdm_masked.bf16|--data $scratch/text.txt
another format|80|--prepare writes windows|mdm_masked.bf16|--data-format answers
none to validate on|80|--eval-share 0: |mdm_masked.bf16|--eval-share 0
no tokenizer|80|--prepare: .* needs a tokenizer|mdm_masked.bf16|
there already|80|has arrays of ids already|mdm_masked.bf16|--out $scratch/own --tokenizer char
two uses|80|--generate and --prepare: give one of them|mdm_masked.bf16|--generate x
END
said=$("$work/mdm_masked.bf16/run.sh" --prepare "$scratch/text.txt" --tokenizer char 2>&1)
verdict "arrays: no folder" "$(grep -q 'prepare: needs --out DIR' <<<"$said" || echo "$said")"
said=$("$work/mdm_sft.2x1x4/run.sh" --prepare "$scratch/text.txt" --tokenizer char --out "$scratch/none" 2>&1)
verdict "arrays: answers" "$(grep -q ': --prepare makes windows of texts, but this program learns answers' <<<"$said" ||
    echo "$said")"
exit $failed
