#!/bin/bash
# Masked language models: runs against the same runs in PyTorch with the same masks (tests/oracle/mlm.py), where padding
# holds another id than here; pairs of runs; the loss of an untrained model; artefacts; refusals.
source "$(dirname "$0")/lib.sh"

programs <<<"
mlm_microbert mlm_microbert
mlm_bert mlm_bert
mlm_dropout mlm_dropout
mlm_dropout.2x1x4 mlm_dropout gpus=2 batch.accum=1
mlm_dropout.bf16.again mlm_dropout precision=bf16 memory.recompute=block
mlm_untrained mlm_microbert model.layers=4 model.vocab=10005 seq.max=128 mlm.share=1 batch.accum=1 batch.targets=128
mlm_bert.3x2x1 mlm_bert gpus=3 batch.micro=1
mlm_dropout.read mlm_dropout gpus=2 batch.accum=1 kernels.last_layer=read
"

# ---- the reference, ranks, 16 bit --------------------------------------------------

for name in mlm_microbert mlm_bert mlm_dropout mlm_dropout.2x1x4 mlm_dropout.read; do
    trained $name ${name%%.*} $name --save-every 3 --save-total-limit 0
    compare $name reference $ref/${name%%.*} "$scratch/$name"
done
divided mlm_bert.3x2x1 mlm_bert eval_loss
trained mlm_dropout mlm_dropout workers --num-workers 3
compare "threads that make batches" history "$scratch/workers" "$scratch/mlm_dropout" 0
trained mlm_dropout.bf16.again mlm_dropout bf16 --tensorboard false
verdict "no events" "$(ls -d "$scratch/bf16/runs" 2>/dev/null)"
# weights of 0.3 and losses of 8 to 5: roundings are twice those of the other references
compare mlm_dropout.bf16.again reference $ref/mlm_dropout "$scratch/bf16" 4e-3

# Killed where nothing is saved: the same bits, and the same epochs in its own files.
{ DIECAST_FAULT=kill9:rank=0:step=8 train mlm_dropout mlm_dropout killed --save-every 3; } 2>/dev/null &&
    verdict killed "it was not"
trained mlm_dropout mlm_dropout killed --save-every 3
verdict resumed "$(grep -q 'resumed from .*checkpoint-6$' "$scratch/killed.log" || tail -n 3 "$scratch/killed.log")"
compare resumed history "$scratch/mlm_dropout" "$scratch/killed" 0
compare TensorBoard tags "$scratch/killed" \
    "eval/accuracy eval/best_loss eval/loss eval/runtime eval/samples_per_second eval/steps_per_second \
eval/tokens_per_second train/learning_rate train/loss train/targets train/tokens train/tokens_per_second \
train/train_tokens_per_second"
for file in checkpoint-10/{model,optimizer}.safetensors \
    .mlm_pretrained_v3/mlm_{model.safetensors,training_history.json}; do
    verdict "resumed bits $(basename $file)" "$(cmp "$scratch/mlm_dropout/$file" "$scratch/killed/$file" 2>&1)"
done
verdict "own weights are the checkpoint's" \
    "$(cmp "$scratch"/mlm_dropout/{checkpoint-10/model,.mlm_pretrained_v3/mlm_model}.safetensors 2>&1)"

# ---- probing: five words of the tokenizer, rows that no word has left out ---------------------------------

for name in mlm_microbert mlm_bert; do
    want=$(grep -o '"  0\.[0-9]*  [^"]*"' $ref/$name/expect.json | tr -d '"')
    said=$("$work/$name/run.sh" --out "$scratch/$name" --probe "w10 w150 [MASK] w20 w7" 2>"$scratch/log")
    verdict "$name, probed" "$([ "$said" = "w10 w150 [MASK] w20 w7
$want" ] || echo "$said"; cat "$scratch/log" | grep '^rank')"
    verdict "$name, its own texts" "$(sed -n '/^the film was slow but the \[MASK\]/,$p' "$scratch/$name.log" |
        awk '/^  0\.[0-9]+  [^ ]+$/ { words++ } /\[MASK\]/ { texts++ } END { if (words != 15 || texts != 3) print texts, words }')"
done
verdict "the tokenizer goes with them" "$(cmp $ref/mlm_bert/tokenizer.json \
    "$scratch/mlm_bert/.mlm_pretrained_v3/tokenizer.json" 2>&1)"
probe_refused() {       # NAME TEXT ARGS...: one line, exit 80
    local name=$1 text=$2 line
    shift 2
    line=$("$work/mlm_bert/train" --out "$scratch/mlm_bert" "$@" 2>&1)
    verdict "$name" "$([ $? = 80 ] && grep -q "^\(rank\|train:\) .*$text" <<<"$line" || echo "$line")"
}
probe_refused "a text that hides nothing" "the text has no mask token" --probe "w10 w20"
probe_refused "a text too long" "the text has 42 tokens; it must have at most 32" --probe "$(yes "[MASK]" | head -n 40 |
    tr '\n' ' ')"
probe_refused "two uses" "give one of them" --probe "[MASK]" --export "$scratch/never"

# ---- rows for people --------------------------------------------------

# Each hidden word with what stands in its place: the text is there again; a star stands where one is hidden.
text="w10 w150 w20 w7 w34 w8 w9 w112 w200 w33 w77 w5"
echo "$text" >"$scratch/line.txt"
"$work/mlm_bert/train" --data "$scratch/line.txt" --tokenizer $ref/mlm_bert/tokenizer.json --show 1 --eval-share 0 \
    --seed 7 \
    --out "$scratch/shown" >"$scratch/rows" 2>"$scratch/log" || verdict "--show" "$(tail -n 1 "$scratch/log")"
verdict "--show" "$(awk -v want="[CLS] $text [SEP]" '
    NR == 1 { if (!match($0, /^step 1 micro-batch 1 row 1: sample 0, 14 tokens, [0-9]+ targets?$/)) print
              k = $(NF - 1); next }
    /of padding$/ { if ($0 != "     and 18 of padding") print; next }
    { line = $0; star = sub(/^  \*/, "", line); while (match(line, /[0-9]+ "[^"]*"( -> [0-9]+ "[^"]*")?/)) {
          entry = substr(line, RSTART, RLENGTH); line = substr(line, RSTART + RLENGTH); stars += star
          if (!star && entry ~ / -> /) print "no target: " entry
          masks += entry ~ /^[0-9]+ "\[MASK\]" -> /; sub(/"$/, "", entry); sub(/.*"/, "", entry)
          got = got (got ? " " : "") entry } }
    END { if (got != want) print got; if (stars != k || !masks) print stars " stars, " masks " masks" }' \
        "$scratch/rows")"

# ---- what is known beforehand --------------------------------------------------

number() { grep -m 1 "\"$1\": " "$2" | sed 's/.*"'"$1"'": \([-0-9.e]*\).*/\1/'; }
parameters() { sed -n 's/.*\.parameters = INT64_C(\([0-9]*\)).*/\1/p' "$work/$1/recipe.h"; }
verdict "parameters" "$([ "$(parameters mlm_microbert) $(parameters mlm_untrained)" = "5501 174613" ] ||
    echo "$(parameters mlm_microbert) $(parameters mlm_untrained)")"
while read -r name want; do      # of recipes/models/
    echo "return extend(use 'mlm_tiny', { model = use 'models/$name' })" >"$scratch/model.lua"
    said=$("$gen" plan "$scratch/model.lua" 2>&1)
    verdict "parameters of $name" "$(tr -d , <<<"$said" |
        grep -q "^$want parameters $want trained" || echo "$said")"
done <<'END'
tiny_microbert 5501
microbert_4x8 174613
microbert_6x16 351925
microbert_8x24 551157
bert_base 109514298
END

# ln 10005 and half the variance of the logits, over at least 1,000 words; the rate is 0
"$work/mlm_untrained/run.sh" --data $ref/mlm_microbert/tokens.safetensors --eval-data $ref/mlm_bert/tokens.safetensors \
    --init-from none --lr 0 --steps 40 --eval-every 0 --out "$scratch/untrained" >"$scratch/log" 2>&1 ||
    verdict untrained "exit $?: $(tail -n 1 "$scratch/log")"
verdict "an untrained model's loss" "$(grep '"loss": ' "$scratch/untrained/history.jsonl" |
    sed 's/.*"loss": \([0-9.]*\).*"num_targets": \([0-9]*\).*/\1 \2/' |
    awk '{ sum += $1 * ($2 - before); before = $2 } END { if (!(before >= 1000 && sum / before > 9.2 && sum / before < 9.6))
        print sum / before, "over", before, "targets" }')"
verdict "its validation" "$(awk -v x="$(number eval_loss "$scratch/untrained/history.jsonl")" \
    'BEGIN { if (!(x > 9.2 && x < 9.6)) print x }')"

# ---- raw data --------------------------------------------------

# 80 reviews of 3 to 25 words, a quarter of them for testing
mkdir "$scratch/imdb"
awk 'BEGIN { for (i = 0; i < 80; i++) { printf "{\"text\":\""
    for (k = 0; k < 3 + i * 7 % 23; k++) printf "w%d ", (i * 31 + k * 17) % 230
    print "\",\"label\":\"pos\"}" } }' >"$scratch/reviews"
head -n 60 "$scratch/reviews" >"$scratch/imdb/imdb_train.json"
tail -n 20 "$scratch/reviews" >"$scratch/imdb/imdb_test.json"
"$work/mlm_microbert/train" --dataset imdb --data "$scratch/imdb" --tokenizer words --min-words 9 --eval-share 0.25 \
    --max-samples 0 \
    --init-from none --steps 2 --out "$scratch/raw" >"$scratch/log" 2>&1 ||
    verdict raw "exit $?: $(tail -n 1 "$scratch/log")"
mkdir "$scratch/packed"
"$gen" pack --dataset imdb --tokenizer words --vocab 200 --min-words 9 --max-length 32 --kind rows \
    -o "$scratch/packed/records.safetensors" "$scratch/imdb" >"$scratch/said" 2>&1
for file in records.safetensors tokenizer.json tokenizer_hf.json; do
    verdict "raw reviews and gen pack: $file" "$(cmp "$scratch/packed/$file" \
        "$scratch"/raw/.dataset_cache/*/$file 2>&1)"
done
verdict "short reviews are left out" "$(grep -q ' [1-9][0-9]* with too few words' "$scratch/log" &&
    grep -q '5 special tokens and 200 of .* words; for gen: model.vocab=205, or [0-9]* for all$' "$scratch/said" ||
    cat "$scratch/said")"

# A cache that lost a part or is damaged is packed again; a killed program's folder is in nobody's way.
again() {
    "$work/mlm_microbert/train" --dataset imdb --data "$scratch/imdb" --tokenizer words --min-words 9 \
        --eval-share 0.25 --max-samples 0 --init-from none --steps 2 --out "$scratch/raw" "$@" >"$scratch/log" 2>&1
}
cache=$(echo "$scratch"/raw/.dataset_cache/*)
mkdir "$scratch/raw/.dataset_cache/packing-elsewhere-1" "$scratch/raw/.dataset_cache/packing-$(hostname)-99999999"
for file in records.safetensors tokenizer.json tokenizer_hf.json; do
    rm "$cache/$file"
    again
    verdict "a cache without $file" \
        "$([ $? = 0 ] && cmp "$scratch/packed/$file" "$cache/$file" 2>&1 || tail -n 1 "$scratch/log")"
done
verdict "the folder of a killed program" "$([ ! -e "$scratch/raw/.dataset_cache/packing-$(hostname)-99999999" ] ||
    echo there
    [ -e "$scratch/raw/.dataset_cache/packing-elsewhere-1" ] || echo "another host's went")"
again --max-samples 5 --eval-share 0.4 --out "$scratch/few"
verdict "no more is packed than counts" "$(grep -q '^data: .*records.safetensors: rows, 5 rows' "$scratch/log" &&
    grep -q '^  data       3 samples' "$scratch/log" || cat "$scratch/log")"
at=$(($(stat -c %s "$cache/records.safetensors") - 600))      # of the tokens or of what is hidden: 0 and 1 are both
cp "$cache/records.safetensors" "$scratch/kept"
printf '\1' | dd of="$cache/records.safetensors" bs=1 seek=$at conv=notrunc status=none
cmp -s "$cache/records.safetensors" "$scratch/kept" &&
    printf '\0' | dd of="$cache/records.safetensors" bs=1 seek=$at conv=notrunc status=none
again
verdict "a byte of a cache that is another" "$([ $? = 0 ] && cmp "$cache/records.safetensors" "$scratch/kept" 2>&1 &&
    grep -q '^warning: .*: its checksum is [0-9a-f]*, it was packed with .*: the cache is damaged; packed again$' \
        "$scratch/log" || tail -n 1 "$scratch/log")"
truncate -s -8 "$cache/records.safetensors"
again
verdict "a damaged cache" "$([ $? = 0 ] && cmp "$cache/records.safetensors" "$scratch/kept" 2>&1 &&
    grep -q '^warning: .*: the cache is damaged; packed again$' "$scratch/log" || tail -n 1 "$scratch/log")"
again --force
verdict "its own folder is reported and moved" "$(grep -q '^in .* are .*, \.mlm_pretrained_v3/' "$scratch/log" &&
    [ -d "$scratch/raw/aside-1/.mlm_pretrained_v3" ] || cat "$scratch/log")"

# ---- refused --------------------------------------------------

refused() {             # PROGRAM NAME CODE TEXT ARGS...: one line
    local program=$1 name=$2 code=$3 text=$4 line
    shift 4
    line=$("$work/$program/train" --out "$scratch/none" --init-from none "$@" 2>&1)
    set -- $?
    verdict "$name" "$([ "$1" = "$code" ] && [ "$(grep -c '^\(rank\|train:\) ' <<<"$line")" = 1 ] &&
        grep -q -- "$text" <<<"$line" ||
        echo "exit $1: $line")"
}
# The tokenizer goes with the weights, so that ids of another are not taken for theirs.
"$work/mlm_microbert/train" --out "$scratch/raw" --export "$scratch/model" >"$scratch/log" 2>&1 ||
    verdict export "$(tail -n 1 "$scratch/log")"
for file in tokenizer.json tokenizer_hf.json; do
    verdict "exported $file" "$(cmp "$scratch"/{packed,model}/$file 2>&1)"
done
line=$("$work/mlm_microbert/train" --out "$scratch/none" --init-from "$scratch/model" \
    --data $ref/mlm_bert/tokens.safetensors 2>&1)
verdict "exported weights, other words" \
    "$([ $? = 83 ] && grep -q "model/tokenizer.json is crc32c.*: pack it again" <<<"$line" || echo "$line")"
# 300 words; a vocabulary that cannot hide any
seq 300 | paste -d' ' - - - - - - - - - - >"$scratch/words.txt"
mkdir "$scratch/maskless"
echo '{"[PAD]":0,"[CLS]":1,"[SEP]":2,"[UNK]":3,"1":4}' >"$scratch/maskless/tokenizer.json"
for tokenizer in words "$scratch/maskless/tokenizer.json"; do
    "$gen" pack --tokenizer "$tokenizer" --format corpus -o "$scratch/$(basename "$tokenizer" .json).safetensors" \
        "$scratch/words.txt" >"$scratch/log" 2>&1 || verdict "gen pack" "$(cat "$scratch/log")"
done
# what the recipe wants of --data is nothing where there is none; --eval-data goes before its share (above)
line=$("$work/mlm_microbert/train" --bench-steps 1 --threads 1 --out "$scratch/none" 2>&1)
verdict "timed without data" "$([ $? = 0 ] || echo "$line")"
refused mlm_microbert "records without a mask" 83 "has no mask token" \
    --data "$scratch/tokenizer.safetensors"
refused mlm_microbert "more ids than rows" 83 "gen .*mlm_microbert.lua model.vocab=305" \
    --data "$scratch/words.safetensors"
refused mlm_untrained "records of another tokenizer" 83 "with the same --tokenizer" \
    --data $ref/mlm_microbert/tokens.safetensors --eval-data "$scratch/words.safetensors"
seq 300 | paste -s -d' ' >"$scratch/long.txt"
cat "$scratch/words.txt" >>"$scratch/long.txt"
refused mlm_untrained "more hidden words than rows of the head" 88 "may have 156 targets, .*batch.targets=156" \
    --data "$scratch/long.txt" --tokenizer words
refused mlm_microbert "rows to be predicted" 83 "this program masks tokens" --data $ref/llama_rows/tokens.safetensors
refused mlm_microbert "windows of text" 83 "packed documents, but this .* masks tokens of rows: pack them again" \
    --data $ref/gpt2_tiny/tokens.safetensors
refused mlm_microbert "raw data without a tokenizer" 80 "needs a tokenizer: .*, or words" \
    --data "$scratch/imdb"
refused mlm_microbert "no tokenizer of that name" 80 "--tokenizer: wrods: No such file" \
    --data "$scratch/imdb" --tokenizer wrods
refused mlm_microbert "no words to hide" 80 "cannot be made from the format text: set --data-format to one of windows, answers, imdb, corpus" \
    --data "$scratch/imdb" --tokenizer words --data-format text
refused mlm_microbert "a tokenizer to be made for packed data" 80 \
    "--tokenizer words is counted from raw data, but .* is packed" \
    --data "$scratch/packed/records.safetensors" --tokenizer words
refused mlm_microbert "sampling" 80 "needs a program with the objective lm|dpo; this one has mlm" --sample x
said=$("$gen" $here/recipes/mlm_bert.lua lora.rank=4 lora.dropout=0.1 lora.targets=all-linear -o "$scratch/never" 2>&1)
verdict "dropout of an adapter of chosen rows" \
    "$(grep -q "lora.dropout: dense reads only rows with a target" <<<"$said" || echo "$said")"
said=$("$gen" $here/recipes/mlm_microbert.lua model.family=gpt2 -o "$scratch/never" 2>&1)
verdict "a family of another kind" "$(grep -q "the objective mlm is for .*, not for gpt2" <<<"$said" || echo "$said")"
exit $failed
