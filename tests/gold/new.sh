#!/bin/bash
# gen new and gen plan of model folders: the recipes that are written, what is refused and how. UPDATE=1 rewrites
# new/*.lua. That programs take these folders in is train/new.sh's.
set -u
cd "$(dirname "$0")/../.." || exit 2
. tests/tiny_tokenizer.sh
. tests/compare.sh
. tests/verdict.sh
verdict_prefix=new/
gen=$PWD/${GEN:-out/.gen/gen} here=$PWD/tests/gold/new ref=$PWD/tests/train/ref
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 2
mkdir -p "$here"

# ---- recipes
recipe() {              # NAME CASE WORDS...
    local name=$1
    rm -rf F
    cp -rL "$ref/$2/model" F
    "$gen" new "$name.lua" --from F "${@:3}" >"$name.log" 2>&1 || { verdict "$name" "$(cat "$name.log")"; return; }
    sed 's/[0-9.]* [KMG]iB/N/g' "$name.lua" >"$name.text"         # the planner's are told elsewhere
    [ "${UPDATE:-0}" != 1 ] || cp "$name.text" "$here/$name.lua"
    verdict "$name" "$(diff "$here/$name.lua" "$name.text" | head -5)"
}
recipe llama llama_tiny
recipe qwen2_lora qwen2_tiny --lora 4 seq.max=32 batch.micro=2 run.lr=0.003
recipe gemma3 gemma3_tiny
recipe gpt2_card gpt2_tiny --card rtx3080
recipe llada mdm_llada
recipe bert mlm_bert --full target=cpu_v4
recipe score prm_instance
recipe new_mark prm_instance prm.new_mark=true           # a row more than the base has
recipe new_head qwen2_tiny objective=prm prm.new_mark=true --lora 4      # the base has no score head: it is trained
verdict says_what_the_base_lacks "$(diff - <(grep -E '^  (mark|head) ' new_head.log) <<'END'
  mark       <extra_0> is new: model.vocab has one row more than the base
  head       none in the folder: the recipe adds one and trains it
END
)"
verdict says_what_it_is_started_with "$(grep -q '/run.sh --init-from .* --data DATA.jsonl --meta-data META.jsonl$' new_head.log ||
    tail -n 1 new_head.log)"
recipe window mistral_tiny               # no longer than what a token meets
recipe compressed ad_one
verdict no_advice_that_is_refused "$(diff <(grep -E '^  (training|batch) ' compressed.log) - <<'END'
  training   all weights: they fit
  batch      8 of 18 tokens: batch.micro
END
)"
verdict tells "$(diff - <(sed -n 's/^  [a-z]* .*/&/p' gpt2_card.log | head -6 | sed 's/[0-9.]* [KMG]iB/N/g') <<'END'
  objective  lm: next-token cross-entropy, only on completions where the data has masks
  target     sm_86: of card rtx3080: NVIDIA RTX 3080, 10 GB
  precision  fp32: as the weights are stored (F32)
  training   all weights: they fit; --lora R trains adapters
  batch      8 of 64 tokens: batch.micro, seq.max
  memory     N of N a rank planned
END
)"
verdict commands "$(diff - <(sed '1,/^next/d' llama.log) <<'END'
  gen llama.lua && make -C out/llama
  out/llama/run.sh --init-from F --data DATA.jsonl
END
)"
mkdir 'a b'
cp -rL "$ref/llama_tiny/model" "a b/it's \$(x)"
verdict odd_paths "$("$gen" new 'a b/my model.lua' --from "a b/it's \$(x)/" name=mine >log 2>&1 || cat log
    diff - <(sed '1,/^next/d' log) <<'END'
  gen 'a b/my model.lua' && make -C out/mine
  out/mine/run.sh --init-from 'a b/it'\''s $(x)' --data DATA.jsonl
END
)"

# ---- --data: seq.max and data.kind by the user's samples; of this tokenizer a character is a token
cp -rL "$ref/llama_tiny/model" G
tiny_tokenizer G
sequence() { printf '%*s' "$1" | tr ' ' "$2"; }
pair() { printf '{"prompt":"%s","chosen":"%s","rejected":"%s"}\n' "$(sequence "$1" p)" "$(sequence "$2" c)" "$(sequence "$3" r)"; }
{ pair 3 4 5; pair 10 7 20; pair 2 30 1; } >pairs.jsonl          # 2 + 30 and the token that ends an answer
printf '{"prompt":"%s","completion":"%s"}\n' pppp cc pp "$(sequence 14 c)" >rows.jsonl
printf '{"text":"some"}\n' >texts.jsonl
made() {                # NAME WANT WORDS...: lines of the recipe, and what is said of seq.max
    local name=$1 want=$2
    "$gen" new data.lua --force --from G "${@:3}" >log 2>&1 || { verdict "$name" "$(cat log)"; return; }
    verdict "$name" "$(diff <(grep -E '^  +seq(\.max)? |^ +data = ' data.lua log | sed 's/^[^:]*: *//') - <<<"$want")"
}
made data_pairs "seq = { max = 48 },
data = { kind = \"pairs\" },
seq.max    48: of 3 samples in pairs.jsonl the longest has 33 tokens, 95 of 100 at most 33" objective=dpo --data pairs.jsonl
made data_cut "seq = { max = 20 },
data = { kind = \"pairs\" },
seq.max    20: of 3 samples in pairs.jsonl the longest has 33 tokens, 95 of 100 at most 33; 2 of them will be cut" \
    objective=dpo --data pairs.jsonl seq.max=20
made data_rows "seq = { max = 32 },
data = { kind = \"bfd\" },
seq.max    32: of 2 samples in rows.jsonl the longest has 17 tokens, 95 of 100 at most 17" --data rows.jsonl
made data_texts "seq = { max = 64 }," --data texts.jsonl

# names of earlier releases, with one line about them
rm -rf F
cp -rL "$ref/mdm_llada/model" F
"$gen" new old.lua --from F objective=mdm mdm.mask=5 >log 2>err
verdict renamed "$(grep -q 'objective = "masked_diffusion"' old.lua && grep -q 'mask = 5' old.lua &&
    grep -q '^gen: renamed: .*"masked_diffusion".*mdm.mask is now diffusion.mask' err || cat log err)"

# ---- refusals: exit code 1, the message, nothing written
refuses() {             # NAME MESSAGE WORDS...
    local name=$1 want=$2 code before
    shift 2
    before=$(find . -printf '%y %p %s %T@\n')
    said=$("$gen" "$@" 2>&1)
    code=$?
    verdict "$name" "$([ $code = 1 ] && [ "$said" = "$want" ] || echo "exit $code, want 1 and '$want', got '$said'"
        [ "$before" = "$(find . -printf '%y %p %s %T@\n')" ] || echo "something was written")"
}
rm -rf F
cp -rL "$ref/llama_tiny/model" F
refuses data_of_pairs "gen: new: --data pairs.jsonl: its samples are pairs, but objective=lm trains on packed|rows|bfd (objective=dpo trains on pairs)" \
    new x.lua --from G --data pairs.jsonl
refuses data_no_file "gen: new: --data none.jsonl: no such file" new x.lua --from G --data none.jsonl
refuses data_documents "gen: new: data.kind=packed reads documents, and the samples in --data rows.jsonl are rows; leave data.kind out" \
    new x.lua --from G --data rows.jsonl data.kind=packed
refuses data_unread "gen: new: --data rows.jsonl: seq.max of objective=ppo does not follow from the lengths of samples; leave --data out, and choose seq.max" \
    new x.lua --from F objective=ppo --data rows.jsonl
refuses no_file "gen: new: name the file to write: gen new FILE.lua --from FOLDER" new --from F
refuses no_from "gen: new: needs --from FOLDER, a Hugging Face model's folder: gen new x.lua --from FOLDER" new x.lua
refuses no_folder "gen: new: --from: needs a folder after it" new x.lua --from
refuses no_lua "gen: new: x: the name must end in .lua, for example x.lua" new x --from F
refuses only_lua "gen: new: .lua: the name must end in .lua, for example mine.lua" new .lua --from F
refuses there "gen: new: llama.lua: exists; give another name, or --force to overwrite it" new llama.lua --from F
refuses option "gen: new: unknown option --form; did you mean --from?" new x.lua --form F
refuses last_option "gen: new: unknown option --dta; did you mean --data?" new x.lua --from F --dta x.jsonl
refuses option_far "gen: new: unknown option --zzzzzzzz; gen new --help lists them" new x.lua --zzzzzzzz
refuses folder "gen: new: F: is a folder; use --from F" new x.lua F
refuses two_ways "gen: new: --lora and --full: one or the other" new x.lua --from F --lora 4 --full
refuses two_targets "gen: new: --target and target=cpu: one or the other" new x.lua --from F --target cpu target=cpu
refuses rank "gen: new: --lora x: must be a rank from 1 to 1024" new x.lua --from F --lora x
refuses card "gen: new: card: unknown card \"rtx409\"; did you mean rtx4090? gen list cards prints all" \
    new x.lua --from F --card rtx409
refuses card_target "gen: new: rtx4090 is a card: use card=rtx4090" new x.lua --from F --target rtx4090
refuses card_other "gen: new: card rtx4090 is sm_89, but --target is sm_80; leave one of them out" \
    new x.lua --from F --card rtx4090 --target sm_80
refuses target "gen: new: no target sm_98; did you mean sm_89?; gen list targets shows them" new x.lua --from F --target sm_98
refuses model_word "gen: new: model.layers=1: the folder sets the model's fields, and a program with other values could not load it" \
    new x.lua --from F model.layers=1
refuses field "gen: seq.mx: unknown key; did you mean \"max\"?" new x.lua --from F seq.mx=4
refuses objective "gen: new: objective: must be one of lm|mlm|masked_diffusion|dpo|prm|ad|ppo, got zzz" new x.lua --from F objective=zzz
refuses missing "gen: nothing: no such folder" new x.lua --from nothing
refuses hub "gen: Qwen/Qwen2.5-0.5B: no such folder; if Qwen/Qwen2.5-0.5B is a name of the Hugging Face hub: hf download Qwen/Qwen2.5-0.5B --local-dir Qwen2.5-0.5B, then name Qwen2.5-0.5B: gen new x.lua --from Qwen2.5-0.5B" \
    new x.lua --from Qwen/Qwen2.5-0.5B

# what is not a model's folder
mkdir -p adapter run/checkpoint-3 cache/snapshots emitted none pickle diffusers release
echo '{"base_model_name_or_path":"org/base","r":8}' >adapter/adapter_config.json
refuses adapter "gen: adapter: is a PEFT adapter, not a model: give the folder of its base, org/base, with --lora 8; the program takes both: --init-from BASE --adapter adapter" \
    new x.lua --from adapter
cp -r F own
echo '{"format":"diecast-train-state-1","recipe":"recipes/a.lua"}' >own/train_state.json
refuses checkpoint "gen: own: is a checkpoint of a run of recipes/a.lua: that recipe resumes from it; for another recipe export it (out/NAME/run.sh --out RUN --export DIR) and use DIR" \
    new x.lua --from own
refuses run "gen: run: is a run folder; export the model (out/NAME/run.sh --out run --export DIR) and use DIR" new x.lua --from run
refuses cache "gen: cache: is a model in the hub's cache; give the folder of one of its revisions in cache/snapshots" new x.lua --from cache
touch emitted/manifest.json emitted/train.c
refuses emitted "gen: emitted: is a folder that gen wrote, not a model; the head of its train.c names its recipe" new x.lua --from emitted
refuses none "gen: none: is not a model's folder: it has no config.json" new x.lua --from none
printf GGUF >model.q4.gguf
refuses gguf "gen: model.q4.gguf: is a GGUF file, which is not read; give the Hugging Face folder that it was made from" \
    new x.lua --from model.q4.gguf
cp model.q4.gguf none/
refuses gguf_folder "gen: none: holds model.q4.gguf and no config.json: GGUF is not read; give the Hugging Face folder that it was made from" \
    new x.lua --from none
refuses file "gen: F/config.json: is a file; give the folder that holds config.json and the weights" new x.lua --from F/config.json
touch release/params.json
refuses release "gen: release: has no config.json, but files of the model's own release; convert it to Hugging Face's layout" new x.lua --from release
cp F/config.json pickle/
touch pickle/pytorch_model.bin
refuses pickle "gen: pickle: pickle files can run code and are not read; convert them once: python3 -c \"from transformers import AutoModelForCausalLM as M; M.from_pretrained('pickle', torch_dtype='auto').save_pretrained('pickle')\"" \
    new x.lua --from pickle

# config.json: all that no recipe says, at once
edited() {              # SED: F with another config.json
    rm -rf E
    cp -r F E
    sed -i "$1" E/config.json
}
edited 's/"silu"/"gelu"/; s/"mlp_bias": false/"mlp_bias": true/; s/"llama3"/"yarn"/; s/"hidden_size": 64/"hidden_size": "wide"/'
refuses faults 'E/config.json: a recipe cannot express this:
    hidden_size is "wide": the field model.hidden must be an integer from 1 to 65536
    hidden_act is "gelu": programs of the family llama have only "silu"
    mlp_bias is true: programs of the family llama have only false
    rope_parameters.rope_type is "yarn": YaRN, which stretches frequencies by their wave lengths and scales the scores: not supported' new x.lua --from E
edited 's/"model_type": "llama"/"model_type": "roberta"/'
refuses family "E/config.json: model_type is \"roberta\", RoBERTa, whose positions start after the padding id: must be one of $("$gen" list families |
    awk '{ printf "%s%s", sep, $1; sep = ", " }') (gen list families)" new x.lua --from E
edited 's/"vocab_size"/"quantization_config": {"quant_method": "gptq", "bits": 4}, &/'
refuses quantised "E/config.json: a recipe cannot express this: quantization_config (gptq, 4 bits): quantised weights are not supported; use the original model" \
    new x.lua --from E
edited 's/"num_key_value_heads": 2/"num_key_value_heads": 3/'
refuses rule "E/config.json: model.kv_heads: heads = 4 is not a multiple of kv_heads = 3; try kv_heads = 2" new x.lua --from E
edited 's/"intermediate_size": 96/"intermediate_size": 80/'
refuses shape "gen: the weights do not match the llama that config.json describes: E/model.safetensors: model.layers.0.mlp.down_proj.weight has shape [64,96], this program was built for [64,80]" \
    new x.lua --from E
edited 's/"num_hidden_layers": 2/"num_hidden_layers": 1/'
refuses layers "gen: the weights do not match the llama that config.json describes: E: 9 unexpected tensors: model.layers.1.input_layernorm.weight, model.layers.1.mlp.down_proj.weight, model.layers.1.mlp.gate_proj.weight, model.layers.1.mlp.up_proj.weight, ..." \
    new x.lua --from E
edited 's/^{/[/'
refuses no_json "gen: E/config.json: line 2, byte 19: expected , or ]" new x.lua --from E
truncate -s 1000 E/model.safetensors
cp F/config.json E/
refuses damaged "gen: E/model.safetensors: header of 2136 bytes does not fit the file of 1000" new x.lua --from E
# what shapes nothing is passed over, or told
edited 's/"vocab_size"/"their_key": [1, {}], &/; s/"eos_token_id": 256/"eos_token_id": [256, 3]/; s/"attention_dropout": 0.0/"attention_dropout": "x"/'
rm E/generation_config.json
"$gen" new told.lua --from E >log 2>&1
verdict told "$(grep -v '^-- [LPC]' told.lua | head -4 | diff - <(cat <<'END'
-- Of config.json, where it shapes nothing:
-- eos_token_id has 2 ids: model.eos = 256, the first; --sample ends at all of them
-- attention_dropout is "x" and left out: the field model.attention_dropout must be a number from 0 to 0.95
return {
END
))"

# ---- objectives that are asked for; what does not fit, told with its numbers
"$gen" new dpo.lua --from F objective=dpo >log 2>&1
verdict dpo "$(grep -q 'objective = "dpo"' dpo.lua && grep -q 'kind = "pairs"' dpo.lua &&
    grep -q '^  seq.max    64 tokens for a prompt and its answer; --data FILE chooses it from your data$' log || cat log)"
refuses other_objective "F/config.json: model.family: the objective mlm is for bert, microbert, llada, encoder, not for llama" \
    new x.lua --from F objective=mlm
mkdir large
sed 's/"vocab_size": 257/"vocab_size": 128256/; s/"hidden_size": 64/"hidden_size": 4096/; s/"intermediate_size": 96/"intermediate_size": 14336/; s/"num_hidden_layers": 2/"num_hidden_layers": 32/
    s/"head_dim": 16/"head_dim": 128/; s/"num_attention_heads": 4/"num_attention_heads": 32/; s/"num_key_value_heads": 2/"num_key_value_heads": 8/; s/float32/bfloat16/
    s/"max_position_embeddings": 64/"max_position_embeddings": 4096/' F/config.json >large/config.json
number() { sed 's/[0-9.]* [KMG]iB/N/g' <<<"$1"; }
said=$("$gen" new x.lua --from large --card rtx3060 --full 2>&1)
verdict nothing_fits "$([ "$(number "$said")" = "gen: large: no way to train it fits sm_86: the least is N (all weights, one sequence of 128 tokens, blocks computed again), N available; another --card or --target" ] ||
    echo "$said")"
said=$("$gen" new x.lua --from F --target cpu batch.micro=60000 memory.limit_gib=1 2>&1)
verdict nothing_fits_as_told "$([ "$(number "$said")" = "gen: F: no way to train it fits cpu: the least is N (all weights, 60000 sequences of 64 tokens, blocks computed again), N available; another --card or --target, a smaller batch.micro with more batch.accum, or precision=bf16" ] ||
    echo "$said")"
"$gen" new large.lua --from large --card "RTX 4090" >log 2>&1
verdict adapters_fit "$(number "$(sed -n '/^  target/,/^  training/p; /^  weights/p' log)" | diff - <(cat <<'END'
  target     sm_89: of card rtx4090: NVIDIA RTX 4090, 24 GB
  precision  bf16: as config.json says
  training   LoRA rank 16, blocks computed again: all weights do not fit
  weights    none in the folder: their shapes are unchecked
END
))"

# ---- chat templates: recognised, unknown; a tokenizer that cannot be read
tiny_tokenizer F
chat() {
    rm -f chat.lua
    "$gen" new chat.lua --from F 2>&1 | sed -n 's/^  chat  *//p'
    sed -n 's/^-- Chat template: /&/p; s/^ *data = //p' chat.lua
}
verdict chat_known "$(diff - <(chat) <<'END'
chatml, by the chat_template in F/tokenizer_config.json
-- Chat template: chatml, by the chat_template in F/tokenizer_config.json.
{ kind = "bfd" },
END
)"
verdict chat_ids "$(grep -qx -- '-- Tokens: end of text 255, of the tokenizer; gen pack and run.sh take them from the folder.' chat.lua ||
    cat chat.lua)"
jq -c '.added_tokens += [.added_tokens[0] | .id = 257 | .content = "<more>"]' F/tokenizer.json >more.json
cp F/tokenizer.json whole.json
mv more.json F/tokenizer.json
rm -f chat.lua
verdict more_tokens_than_rows "$("$gen" new chat.lua --from F 2>&1 | sed -n 's/^  told  *//p' | diff - <(echo "tokenizer.json has \
258 ids, but vocab_size is 257, which programs refuse: resize_token_embeddings(258) of transformers adds the rows; then \
run gen new again"))"
mv whole.json F/tokenizer.json
sed -i 's/{% for/{% set x = 1 %}&/' F/tokenizer_config.json
verdict chat_unknown "$(chat | head -1 | grep -q '^template, by the chat_template in F/tokenizer_config.json ([0-9a-f]*)$' &&
    grep -q '^-- Chat template: template, by .*' chat.lua && grep -q 'kind = "bfd"' chat.lua || cat chat.lua)"
sed -i 's/{% set x = 1 %}/{% include x %}/' F/tokenizer_config.json
verdict chat_unsupported "$(chat | head -1 | grep -q '^none: the chat_template in F/.*: line 1: the statement include is not' &&
    grep -q '^-- Chat template: none: ' chat.lua && grep -q 'kind = "bfd"' chat.lua || cat chat.lua)"
echo '{' >F/tokenizer.json
verdict tokenizer_damaged "$(chat | head -1 | grep -q '^tokenizer.json cannot be read: F/tokenizer.json: ' || chat)"
rm -rf F
cp -rL "$ref/prm_instance/model" F
tiny_tokenizer F
refuses known_mark "gen: prm.new_mark: F/tokenizer.json has the token <|im_end|> already, 255: leave prm.new_mark out" \
    new x.lua --from F prm.new_mark=true 'prm.mark=<|im_end|>'

# ---- plans of folders: no file is written
rm -rf F
cp -rL "$ref/llama_tiny/model" F
before=$(find . -printf '%y %p %s %T@\n')
plan() { "$gen" plan "$@" 2>&1 | sed 's/[0-9.]* [KMG]iB/N/g; s/[0-9]*   N$/M  N/; s/ \{2,\}/  /g'; }
verdict plan "$(plan F seq.max=64 | diff - <(cat <<'END'
F: llama, 94,656 parameters, objective lm
target cpu (less than 100 million parameters; --target or --card name another), N a rank; precision fp32 (as the weights are stored (F32))

  training  precision  recompute  seq.max  batch.micro  memory of a rank
  all weights  fp32  none  64  M  N
  all weights  fp32  block  64  M  N
  LoRA rank 16  fp32  none  64  M  N
  LoRA rank 16  fp32  block  64  M  N

a recipe: gen new FILE.lua --from F
END
))"
verdict plan_writes_nothing "$([ "$before" = "$(find . -printf '%y %p %s %T@\n')" ] || echo "something was written")"
refuses plan_two "gen: plan: F and --from F: one or the other" plan F --from F
refuses plan_none "gen: plan: needs a model's folder: gen plan FOLDER --card NAME" plan --full
refuses plan_force "gen: plan: --force is an option of gen new" plan F --force
refuses plan_recipe "gen: plan: --target is for models' folders; of a recipe: gen plan llama.lua target=NAME" \
    plan llama.lua --target sm_89
verdict plan_card "$("$gen" plan llama.lua --card l4 2>&1 | sed -n '1{/^llama: llama, fp32, target sm_89, card l4, 1 rank$/!p}')"

exit $failed
