#!/bin/bash
# Process reward models: runs against the same runs in PyTorch (tests/oracle/prm.py), weights and all; killed runs;
# ranks; raw data, what a run leaves, scores, best of N; what is refused.
source "$(dirname "$0")/lib.sh"

programs <<<"
prm_instance prm_instance
prm_instance.2x1 prm_instance gpus=2 batch.accum=1
prm_none prm_none
prm_lora prm_lora
prm_head prm_head
prm_raw prm_none prm.weights=net prm.unroll=2 prm.system= seq.max=64 batch.micro=4 batch.accum=1
prm_instance.3x2x1 prm_instance gpus=3 batch.micro=1
prm_instance.read prm_instance kernels.last_layer=read memory.recompute=block
"

# ---- runs in PyTorch

# The numbers that were learned, those of the records (or of their domains) in the order of the table.
learned() { sed 's/.*"raw": \([^,]*\),.*/\1/' "$scratch/$1/instance_weights.json"; }

for name in prm_instance prm_lora prm_head prm_instance.2x1 prm_instance.read; do
    trained $name ${name%%.*} $name
    compare $name reference $ref/${name%%.*} "$scratch/$name"
done
divided prm_instance.3x2x1 prm_instance eval_loss
trained prm_raw prm_net net              # the net begins as its program draws it
compare net reference $ref/prm_net "$scratch/net"
# Those of PyTorch, a line each.
table() { tr -d ' \n' <$ref/$1/expect.json | sed 's/.*"table":\[\([^]]*\)\].*/\1\n/' | tr ',' '\n'; }
# WANTED BOUND: lines of two columns are as many, and off by so much at most
as_many() { awk -v n="$1" -v bound="$2" '{ x = $1 - $2; if (!(NF == 2 && x * x <= bound * bound)) print NR ": " $1 " and " $2 }
    END { if (NR != n) print NR " lines" }'; }

verdict "weights of records" "$(paste <(learned prm_instance) <(table prm_instance) | as_many 24 1e-5)"
# The first three records are of the third, first and second domain; PyTorch's own in fp32 are off by 2e-6.
verdict "weights of domains" "$(paste <(learned prm_lora | sed -n '1h; 2p; 3{p; x; p}') <(table prm_lora) |
    as_many 3 1.6e-5; [ "$(learned prm_lora | sort -u | wc -l)" = 3 ] || learned prm_lora)"
verdict "weights, with a trained head" "$(paste <(learned prm_head) <(table prm_head) | as_many 24 1e-5)"
verdict "weights, two ranks" "$(paste <(learned prm_instance) <(learned prm_instance.2x1) | as_many 24 1e-5)"

# All weights are 1 at first: until their first update a run is that of records that count alike, to the bit.
trained prm_none prm_instance none --save-every 1 --save-total-limit 0
trained prm_instance prm_instance each --save-every 1 --save-total-limit 0 --eval-every 0
verdict "the first update, with weights and without" "$(cmp "$scratch"/{none,each}/checkpoint-1/model.safetensors 2>&1
    cmp -s "$scratch"/{none,each}/checkpoint-3/model.safetensors && echo "step 3, too")"
verdict "without weights nothing is reported about them" "$(grep '"meta_loss": [^n]\|learning_rate_meta' \
    "$scratch/none/history.jsonl"
    [ ! -e "$scratch/none/instance_weights.json" ] || echo instance_weights.json)"

# A floor of the rate, and one of the weights' rate: without one a cosine ends near 0.
trained prm_instance prm_instance floor --schedule cosine_with_min_lr --lr 1e-3 --min-lr 5e-4 --warmup 0 --log-every 1 \
    --meta-schedule cosine_with_min_lr --meta-lr 0.1 --meta-min-lr 0.05 --meta-warmup 0 --eval-every 0
for rate in learning_rate:0.001 learning_rate_meta:0.1; do
    verdict "a floor of ${rate%:*}" "$(sed -n 's/.*"'"${rate%:*}"'": \([0-9.e-]*\).*/\1/p' "$scratch/floor/history.jsonl" |
        awk -v peak="${rate#*:}" '{ last = $1 } $1 < 0.4999 * peak { print "below, at " NR ": " $1 }
            END { if (NR < 3 || last > 0.6 * peak) print NR " rates, the last " last }')"
done

# Killed between two updates of the weights: the same bits, and the same report of their last update.
trained prm_lora prm_lora straight --save-every 7 --log-every 4
{ DIECAST_FAULT=kill9:rank=0:step=10 train prm_lora prm_lora killed --save-every 7 --log-every 4; } 2>/dev/null &&
    verdict killed "it was not"
trained prm_lora prm_lora killed --save-every 7 --log-every 4
verdict resumed "$(grep -q 'resumed from .*checkpoint-7$' "$scratch/killed.log" || tail -n 3 "$scratch/killed.log")"
compare resumed history "$scratch/straight" "$scratch/killed" 0
compare TensorBoard tags "$scratch/killed" \
    "avg_aggregate_score best_meta_loss eval/accuracy eval/avg_aggregate_score eval/loss eval/runtime \
eval/samples_per_second eval/step_accuracy eval/steps_per_second eval/tokens_per_second inner_loss \
inner_lr instance_weight_max instance_weight_mean instance_weight_min instance_weight_std meta_accuracy \
meta_loss meta_lr train/grad_norm_meta train/outcomes train/samples train/step_accuracy train/tokens \
train/tokens_per_second train/train_tokens_per_second weighted_loss"
for file in checkpoint-20/{adapter_model,optimizer}.safetensors instance_weights.json suspicious_records.jsonl; do
    verdict "resumed bits ${file#*/}" "$(cmp "$scratch"/{straight,killed}/$file 2>&1)"
done
verdict "names of checkpoints" "$(cd "$scratch/straight/checkpoints" && [ "$(echo *)" = \
    "checkpoint_step_14 checkpoint_step_20 checkpoint_step_7 lora_adapters" ] || ls
    cmp checkpoint_step_14/adapter_model.safetensors ../checkpoint-14/adapter_model.safetensors 2>&1
    cmp lora_adapters/adapter_model.safetensors ../checkpoint-20/adapter_model.safetensors 2>&1
    grep -q '"task_type": "FEATURE_EXTRACTION"' lora_adapters/adapter_config.json ||
        cat lora_adapters/adapter_config.json)"
train prm_lora prm_lora killed --resume_from checkpoints/checkpoint_step_14.pt --log-every 4 --save-every 7 \
    --save-total-limit 2
verdict "--resume of such a name" "$(grep -q 'resumed from .*/checkpoints/checkpoint_step_14$' "$scratch/killed.log" ||
    tail -n 3 "$scratch/killed.log"
    cmp "$scratch"/{straight,killed}/checkpoint-20/optimizer.safetensors 2>&1)"
verdict "names of checkpoints that are gone" "$(cd "$scratch/killed/checkpoints" && [ "$(echo checkpoint_*)" = \
    "checkpoint_step_14 checkpoint_step_20" ] || ls)"

line=$("$work/prm_lora/train" --data $ref/prm_lora/tokens.safetensors --meta-data $ref/prm_lora/tokens.safetensors \
    --init-from $ref/prm_lora/model --adapter $ref/prm_lora/adapter_init --out "$scratch/killed" --steps 22 2>&1)
verdict "refused: to go on with other meta records" "$([ $? = 83 ] &&
    grep -q '^rank 0 .*: data: records of other flags than --data: .*file 1 has different content' <<<"$line" ||
    tail -n 2 <<<"$line")"

# ---- torchrun starts a CPU program as any other: its first process becomes run.sh, the others end
under_torchrun() {      # RANK: into $scratch/t.RANK
    env RANK=$1 WORLD_SIZE=2 LOCAL_RANK=$1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29400 \
        "$work/prm_instance.2x1/train" --bench-steps 1 >"$scratch/t.$1" 2>&1
}
verdict "torchrun" "$(under_torchrun 1 && [ ! -s "$scratch/t.1" ] && under_torchrun 0 &&
    grep -q '^torchrun: .*/prm_instance.2x1/run.sh starts the 2 ranks by MPI$' "$scratch/t.0" &&
    [ "$(grep -c '^{"tokens_per_second": [1-9]' "$scratch/t.0")" = 1 ] || tail -n 3 "$scratch"/t.?)"

# ---- raw data, and uses of what was learned

tokens=$scratch/tokenizer/tokenizer.json
recipes/demos/chains.sh tokenizer "$scratch/tokenizer" || verdict tokenizer "exit $?"
rows() {                # N: solutions of five short steps
    awk -v n="$1" 'BEGIN { for (i = 1; i <= n; i++) {
        printf "{\"id\":\"r%d\",\"informal_prefix\":\"%d\",\"cot_response\":\"", i, i
        for (k = 1; k <= 5; k++) printf "### Step %d:\\n%c\\n", k, 96 + (i + k) % 26
        printf "\",\"cot_steps\":[{\"pi\":%d},{\"pi\":1},{\"pi\":%d},{\"pi\":0.5}],\"meta_label\":%d}\n",
                i % 2, (i % 3 != 0), i % 2
    } }'
}
rows 12 >"$scratch/train.jsonl"
rows 6 >"$scratch/meta.jsonl"
{ cat "$scratch/meta.jsonl"; echo '{"id":"short","informal_prefix":"7","cot_response":"no steps"}'; } \
    >"$scratch/ask.jsonl"
cat >"$scratch/best.jsonl" <<'END'
{"informal_prefix":"1","candidates":["### Step 1:\na\n### Step 2:\nb\n### Step 3:\nc\n### Step 4:\nd\n### Step 5:\ne","### Step 1:\na\n### Step 2:\nb\n### Step 3:\nc\n### Step 4:\nd\n### Step 5:\ne"],"true_false":[false,true]}
{"informal_prefix":"2","candidates":["### Step 1:\nz\n### Step 2:\nb\n### Step 3:\nc\n### Step 4:\nd\n### Step 5:\ne"],"true_false":[true]}
END
raw() {                 # ARGS...: into $scratch/log
    "$work/prm_raw/train" --out "$scratch/raw" "$@" >"$scratch/log" 2>"$scratch/err"
}
files=(--data "$scratch/train.jsonl" --meta-data "$scratch/meta.jsonl" --tokenizer "$tokens" --init-from none)
raw "${files[@]}" --steps 6 --eval-every 3 || verdict "raw data" "$(tail -n 2 "$scratch/err")"
verdict "raw data: a run" "$(grep -q 'step 6/6  meta loss .*  score .*  accuracy .*  steps right .*  6 samples' \
    "$scratch/err" || tail -n 4 "$scratch/err"
    for file in config.json model.safetensors tokenizer.json; do
        [ -s "$scratch/raw/checkpoints/final_model/$file" ] || echo "no $file"; done)"
verdict "checkpoints have its tokenizer, with the mark" "$(cd "$scratch/raw" && for file in tokenizer{,_config}.json; do
    cmp checkpoint{s/final_model,-6}/$file 2>&1; done)"
verdict "the final folder has a card" "$(cd "$scratch/raw/checkpoints/final_model" &&
    for line in '| objective | prm |' '| steps | 6 of 6' '| base | random weights |' 'last validation | eval_' \
        'PreTrainedTokenizerFast.from_pretrained'; do grep -qF -- "$line" README.md || echo "no $line"; done)"
verdict "weights by a net" "$([ "$(grep -c '"raw": null, "weight": 0\.[0-9]*}' \
    "$scratch/raw/instance_weights.json")" = 12 ] ||
    head -n 3 "$scratch/raw/instance_weights.json")"
sed 's/"id":"[^"]*",//' "$scratch/train.jsonl" >"$scratch/unnamed.jsonl"
"$gen" pack -o "$scratch/unnamed.safetensors" --kind steps --system "" --max-length 64 \
    --tokenizer "$tokens" "$scratch/unnamed.jsonl" >"$scratch/err" 2>&1 || cat "$scratch/err"
for kind in jsonl safetensors; do
    raw "${files[@]:2}" --data "$scratch/unnamed.$kind,$scratch/unnamed.$kind" --steps 1 --out "$scratch/twice.$kind"
    verdict "ids of records of two files, $kind" "$(sed 's/.*"id": "\([^"]*\)".*/\1/' \
        "$scratch/twice.$kind/instance_weights.json" | diff - <(seq 12; seq -f 2:%g 12) || tail -n 2 "$scratch/err")"
done
verdict "the most suspicious first" "$(sed 's/.*"weight": \([^}]*\)}.*/\1/' "$scratch/raw/suspicious_records.jsonl" |
    sort -g -c 2>&1)"
raw --bench-steps 1
verdict "two steps and an update of the weights, timed as one" "$(grep -q '^{"tokens_per_second": [1-9].*"steps": 1,' \
    "$scratch/log" || tail -n 2 "$scratch/err")"
# of data, it counts what the log counts, without padding: here steps 7 and 8
raw "${files[@]}" --out "$scratch/counted" --steps 8 --log-every 2
raw "${files[@]}" --out "$scratch/timed" --bench-steps 1
want=$(sed -n 's/.*"num_tokens": \([0-9]*\),.*/\1/p' "$scratch/counted/history.jsonl" |
    awk '{ n = $1 - last; last = $1 } END { print n }')
verdict "timed steps count the tokens of the data" "$(grep -q "^{\"tokens_per_second\": .*, \"tokens\": $want, " \
    "$scratch/log" || echo "want $want: $(cat "$scratch/log" "$scratch/err")")"
raw --score "$scratch/ask.jsonl"
cp "$scratch/log" "$scratch/scores"
verdict "--score" "$([ "$(grep -c '^{"id":"r[1-6]","score":0\.[0-9]*,"steps":\[0\.[0-9]*,0\.[0-9]*,0\.[0-9]*,0\.[0-9]*\]}$' \
    "$scratch/scores")" = 6 ] && grep -q '^{"id":"short","left_out":".*"}$' "$scratch/scores" ||
    cat "$scratch/scores" "$scratch/err")"
raw --score - <"$scratch/ask.jsonl"
verdict "--score of standard input" "$(diff "$scratch/scores" "$scratch/log")"
"$gen" pack -o "$scratch/meta.safetensors" --kind steps --system "" --max-length 64 \
    --tokenizer "$tokens" "$scratch/meta.jsonl" >"$scratch/err" 2>&1 || cat "$scratch/err"
raw --score "$scratch/meta.safetensors"
verdict "--score of packed files" "$(diff <(grep -v left_out "$scratch/scores") "$scratch/log" || tail -n 2 "$scratch/err")"
raw --score "$scratch/nowhere.safetensors"
verdict "--score of a file that is missing" "$(grep -q 'score: .*/nowhere.safetensors: no such file' "$scratch/err" ||
    tail -n 2 "$scratch/err")"
verdict "scores are of their steps" "$(sed -n 's/.*"score":\([0-9.e-]*\),"steps":\[\(.*\)\]}/\1,\2/p' \
    "$scratch/scores" |
    awk -F, '{ d = 0; for (i = 2; i <= NF; i++) d += log($i / (1 - $i)); s = 1 / (1 + exp(-d)) - $1
        if (s * s > 1e-12) print }')"
raw --best-of-n "$scratch/best.jsonl"
verdict "best of N: of equal ones the later" "$([ "$(paste -sd ' ' "$scratch/log")" = \
'{"n":1,"accuracy":0.5,"mean":0.5,"best":0.5,"questions":2} {"n":2,"accuracy":1,"mean":0.75,"best":1,"questions":2}' ] ||
    cat "$scratch/log" "$scratch/err")"

# ---- a mark and a score head that the base lacks

# The tokenizer has 259 ids, the base 264 rows: the mark is 264. tests/oracle/folders.sh shows both folders to PEFT and
# transformers.
base=$scratch/base
made=$work/prm_exported
cp -rL $ref/prm_head/model "$base"
cp "$scratch"/tokenizer/* "$base"
sed -i 's/,{"id":259,"content":"<extra_0>"[^}]*}//' "$base/tokenizer.json"
head_run() {            # ARGS...: into $scratch/err
    "$work/prm_head/train" --data "$scratch/train.jsonl" --meta-data "$scratch/meta.jsonl" --steps 4 "$@" 2>"$scratch/err"
}
head_run --init-from "$base" --out "$scratch/mark" || verdict "a new mark" "$(tail -n 2 "$scratch/err")"
rm -rf $made
mkdir -p $made
for way in export:adapter merge-lora:merged; do
    "$work/prm_head/train" --out "$scratch/mark" "--${way%:*}" "$made/${way#*:}" 2>"$scratch/err" ||
        verdict "${way%:*} of a new mark" "$(tail -n 1 "$scratch/err")"
done
"$work/prm_head/train" --out "$scratch/mark" --score "$scratch/train.jsonl" >"$made/scores" 2>"$scratch/err"
cp "$scratch/train.jsonl" $made
cp -r "$base" $made
verdict "the card of an adapter makes room for the mark" "$(sed -n '/^model = AutoModel/,/^model = PeftModel/p' \
    $made/adapter/README.md | sed -n 2p | grep -q '^model.resize_token_embeddings(265) ' ||
    grep '^model' $made/adapter/README.md)"
# tests/oracle/scores.py runs these lines
verdict "the cards show how to score" "$(for way in adapter merged; do
    for line in 'AutoModel.from_pretrained(' 'in glob("./*.safetensors")' '"content": "<extra_0>".join(steps)}]' \
        'convert_tokens_to_ids("<extra_0>")]'; do
        grep -qF "$line" $made/$way/README.md || echo "$way: no $line"; done; done)"
verdict "the merged tokenizer has the mark" "$($gen pack --format steps --show 1 \
    --tokenizer $made/merged/tokenizer.json $made/train.jsonl 2>&1 | grep -c '264 "<extra_0>"' | grep -vx 4)"
head_run --init-from $made/merged --adapter none --out "$scratch/again"
verdict "records of the base's tokenizer go on in the merged model" "$([ $? = 0 ] || tail -n 1 "$scratch/err")"

# Its score head under names that are no weights
n=$(od -An -tu8 -N8 "$base/model.safetensors")
header=$(tail -c +9 "$base/model.safetensors" | head -c "$n" | sed 's/"score\.\(..[bw]\)[a-z]*"/"\1.rotary_emb.inv_freq"/g')
{
    # shellcheck disable=SC2059
    printf "$(printf '\\x%02x\\x%02x' $((${#header} & 255)) $((${#header} >> 8)))\0\0\0\0\0\0"
    printf %s "$header"
    tail -c +$((n + 9)) "$base/model.safetensors"
} >"$scratch/headless.safetensors"
mv "$scratch/headless.safetensors" "$base/model.safetensors"
mv "$base/tokenizer.json" "$scratch/tokenizer.json"         # these records are of another one
line=$("$work/prm_lora/train" --data $ref/prm_lora/tokens.safetensors --meta-data $ref/prm_lora/meta.safetensors \
    --init-from "$base" --out "$scratch/no" 2>&1)
verdict "refused: adapters upon a base without a score head" "$([ $? = 83 ] &&
    grep -q 'has no score.2.weight, .*; gen .*prm_lora.lua prm.train_head=true ' <<<"$line" || tail -n 2 <<<"$line")"
mv "$scratch/tokenizer.json" "$base"
head_run --init-from "$base" --out "$scratch/new_head"
verdict "a trained score head upon a base that has none" "$([ $? = 0 ] || tail -n 1 "$scratch/err")"

# --epochs counts, whatever the objective's own number of steps; a run that is a cold start alone says so.
raw --data "$scratch/train.jsonl" --meta-data "$scratch/meta.jsonl" --tokenizer "$tokens" --init-from none --epochs 1 \
    --out "$scratch/passes" || verdict "--epochs" "$(tail -n 2 "$scratch/err")"
verdict "--epochs without --steps" "$(grep -q '^3 steps in ' "$scratch/err" || tail -n 4 "$scratch/err")"
verdict "learned weights are not called unlearned" "$(grep 'not learned' "$scratch/err")"
raw --data "$scratch/train.jsonl" --meta-data "$scratch/meta.jsonl" --tokenizer "$tokens" --init-from none --steps 4 \
    --cold-start 3 --out "$scratch/cold" || verdict "--cold-start" "$(tail -n 2 "$scratch/err")"
verdict "a cold start alone" "$(grep -q 'not learned in 4 steps: their first update follows step 5 ' "$scratch/err" ||
    tail -n 4 "$scratch/err")"

# run.sh asks whether a command line means training.
where() { "$work/prm_lora/train" --where --verbose --out there "$@" 2>&1 | paste -sd ' '; }
verdict "--where --verbose" "$(diff <(for words in "" "--steps 3 --seed 1" "--score f" "--export d" "--merge-lora d" \
    "--eval-only" "--bench-steps 2" "--show 1" "--best-of-n f" "--dry-run"; do
    # shellcheck disable=SC2086
    echo "$words: $(where $words)"; done) - <<'END'
: there trains
--steps 3 --seed 1: there trains
--score f: there
--export d: there
--merge-lora d: there
--eval-only: there
--bench-steps 2: there
--show 1: there
--best-of-n f: there
--dry-run: there
END
)"

# ---- what is refused

echo 7 >"$scratch/not.jsonl"
mkdir "$scratch/ids" && touch "$scratch/ids/train_data.npy"
while read -r name code text args; do
    # shellcheck disable=SC2086
    raw --tokenizer "$tokens" --out "$scratch/no" --init-from none ${args//DIR/$scratch}
    said=$?
    verdict "refused: $name" "$([ $said = "$code" ] && grep -q "^\(rank\|train:\) .*${text//_/ }" "$scratch/err" ||
        echo "exit $said: $(tail -n 1 "$scratch/err")")"
done <<'END'
no_meta_data 80 --meta-data_is_missing --data DIR/train.jsonl
meta_data_by_their_flag 88 --meta-data:_.*not.jsonl:1 --data DIR/train.jsonl --meta-data DIR/not.jsonl
arrays_of_ids 83 which_become_rows_of_tokens_to_mask,_but_this_program_masks_none --data DIR/ids --meta-data DIR/meta.jsonl
a_domain_rate 80 no_such_flag --data DIR/train.jsonl --domain-lr 1
END
# a sixth step: packed for it, the program has no place for its mark; a tokenizer without the mark
sed 's/### Step 5:/### Step 6:\\n_\\n&/; s/{"pi":0.5}/&,{"pi":1}/' "$scratch/train.jsonl" >"$scratch/six.jsonl"
"$gen" pack --tokenizer "$tokens" --system "" --max-length 64 --steps 6 -o "$scratch/six.safetensors" "$scratch/six.jsonl" >"$scratch/err" 2>&1
raw --data "$scratch/six.safetensors" --meta-data "$scratch/meta.jsonl" --tokenizer "$tokens" --init-from none \
    --out "$scratch/no"
verdict "refused: more marks" "$([ $? = 88 ] && grep -q \
    '^rank .*six.safetensors: record 0 has more than the 4 marks .*--steps 5, the recipe.s prm.steps' "$scratch/err" ||
    tail -n 2 "$scratch/err")"
raw --data "$scratch/train.jsonl" --meta-data "$scratch/meta.jsonl" --tokenizer bytes --init-from none --out "$scratch/no"
verdict "refused: bytes have no mark" "$([ $? = 88 ] && grep -q \
    '^rank .*train.jsonl:1: the byte vocabulary has no token to mark steps: use a tokenizer that has <extra_0>, --tokenizer DIR' \
    "$scratch/err" && ! grep -q 'gen ' "$scratch/err" || tail -n 2 "$scratch/err")"
mkdir -p "$scratch/unmarked"
sed 's/<extra_0>/<extra_9>/' "$tokens" >"$scratch/unmarked/tokenizer.json"
cp "${tokens%/*}"/tokenizer_config.json "$scratch/unmarked"
raw --data "$scratch/train.jsonl" --meta-data "$scratch/meta.jsonl" --tokenizer "$scratch/unmarked/tokenizer.json" \
    --init-from none --out "$scratch/no"
verdict "refused: no mark" "$([ $? = 88 ] && grep -q \
    '^rank .*train.jsonl:1: the tokenizer has no token <extra_0> .*: gen [^ ]*lua .*prm.mark=NAME .*prm.new_mark=true' \
    "$scratch/err" && ! grep -q 'gen pack' "$scratch/err" || tail -n 2 "$scratch/err")"
line=$("$work/prm_lora/train" --data $ref/prm_lora/tokens.safetensors --meta-data $ref/prm_lora/meta.safetensors \
    --init-from none --out "$scratch/headless" 2>&1)
verdict "refused: adapters below a head of zeros" "$([ $? = 80 ] &&
    grep -q 'score head is all zeros and is not trained.* prm.train_head=true' <<<"$line" || tail -n 1 <<<"$line")"
line=$("$work/prm_instance/train" --data "$ref/prm_instance/tokens.safetensors,$ref/prm_instance/tokens.safetensors" \
    --meta-data $ref/prm_instance/meta.safetensors --init-from none --out "$scratch/no" 2>&1)
verdict "refused: more records than weights" "$([ $? = 80 ] &&
    grep -q '48 records, but this program has 24 weights; use gen .* prm.records=48' <<<"$line" || tail -n 1 <<<"$line")"
line=$("$work/prm_none/train" --data $ref/prm_instance/tokens.safetensors --init-from none --meta-lr 0.1 \
    --out "$scratch/no" 2>&1)
verdict "refused: a rate of weights that are none" "$([ $? = 80 ] &&
    grep -q -- '--meta-lr: this program does not train that parameter' \
    <<<"$line" || tail -n 1 <<<"$line")"
line=$("$work/prm_none/train" --data $ref/prm_instance/tokens.safetensors --init-from none --cold-start 2 \
    --out "$scratch/no" 2>&1)
verdict "refused: a cold start of weights that are none" "$([ $? = 80 ] &&
    grep -q -- '--cold-start: this program learns no record weights' <<<"$line" || tail -n 1 <<<"$line")"
line=$("$work/prm_instance/train" --data $ref/prm_instance/tokens.safetensors --init-from none --dry-run \
    --meta-data $ref/prm_instance/tokens.safetensors --out "$scratch/no" 2>&1)
verdict "weights learned on what they weigh" "$(grep -q '^--meta-data is --data: ' <<<"$line" || tail -n 2 <<<"$line")"
exit $failed
