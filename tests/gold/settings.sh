#!/bin/bash
# Settings files of other trainers: real ones with the recipe that a person wrote down, pairs of keys in both orders,
# what YAML, JSON and assignments may hold.
set -u
. tests/compare.sh
. tests/verdict.sh
verdict_prefix=settings/
GEN=${GEN:-out/.gen/gen}
HERE=tests/gold/foreign/trainers
B=out/.test/gold
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT

# Of what gen says of a file: a line section.field = value for each setting, and the keys that are not carried over.
settings() {
    "$GEN" "$1" 2>"$T/err"
    sed -n '/^    return {$/,/^    }$/p' "$T/err" | sed '1d;$d; s/,$//; s/^ *//' | while IFS= read -r line; do
        case $line in *' = { '*) ;; *) echo "$line" && continue ;; esac
        line=${line% \}}
        printf '%s\n' "${line#* = \{ }" | sed 's/, \([a-z_0-9]* = \)/\n\1/g' | sed "s/^/${line%% = *}./"
    done | LC_ALL=C sort
    sed -n '/^not carried over:/,$p' "$T/err" | sed -n 's/^    \([^ :]*\).*/\1/p' | LC_ALL=C sort | paste -sd' ' |
        sed -n 's/^./not carried over: &/p'
}

for file in $HERE/*.yml $HERE/*.yaml $HERE/*.json $HERE/*.py; do
    want=${file%.*}.want
    check "$(basename "$file")" "" "$(settings "$file" | diff <(grep -v '^not ' "$want" | LC_ALL=C sort
        grep '^not ' "$want") - | head -5)"
done

# ---- every pair of names of one field or flag, with every value
objects=$(find out/.obj -name '*.o' ! -path out/.obj/gen/main.o ! -path out/.obj/gen/util.o | while read -r o; do
    source=${o#out/.obj/}
    [ ! -f "${source%.o}.c" ] || echo "$o"; done)
# shellcheck disable=SC2086
gcc -std=c11 -O1 -g -Wall -Wextra -I. tests/gold/pairs.c $objects -llua5.4 -lyaml -lcjson -lpcre2-8 -lutf8proc \
    -lcrypto -lm -o "$B/pairs" || exit 1
check pairs "" "$("$B/pairs" | head -5)"

# ---- what files may hold
says() {                                      # name, what is said of the file, its text, its ending
    printf '%b' "$3" >"$T/x.${4:-yml}"
    check "$1" "$2" "$("$GEN" "$T/x.${4:-yml}" 2>&1 >/dev/null | sed "s,$T/,,g; s/^gen: //" | head -1)"
}
holds() {                                     # name, settings, text, ending
    printf '%b' "$3" >"$T/x.${4:-yml}"
    check "$1" "$2" "$(settings "$T/x.${4:-yml}" | paste -sd'|')"
}
says anchor 'x.yml:1: anchors are not supported (&a): write the value where it is used' 'lr: &a 1\nb: *a\n'
says alias 'x.yml:2: aliases are not supported (*a): write the value here' 'lr: 1\nb: *a\n'
says tag 'x.yml:1: tags are not supported (!!float): write the value without it' 'lr: !!float 1\n'
says own_tag 'x.yml:2: tags are not supported (!env): write the value without it' 'lr: 1\nb: !env X\n'
says merge 'x.yml:2: the merge key << is not supported: write out the keys that it stands for' 'lr: 1\n<<: {b: 2}\n'
says documents 'x.yml:2: several documents in a file are not supported: split it at ---' 'lr: 1\n---\nlr: 2\n'
says list 'x.yml:1: must be keys with values, found a list' '- 1\n- 2\n'
says text 'x.yml:1: must be keys with values, found a value alone' 'lr = 1\n'
says tab 'x.yml:2: not YAML: found character that cannot start any token, while scanning for the next token' 'a:\n\t- b\n'
says twice 'x.yml: the key learning_rate appears twice, 1e-4 (line 1) and 2e-4 (line 3): keep one of them' \
    'learning_rate: 1e-4\nseed: 1\nlearning_rate: 2e-4\n'
says differ 'x.yml: lora_r: 16 (line 2) and lora_rank: 64 (line 1) set lora.rank to different values: keep one of them' \
    'lora_rank: 64\nlora_r: 16\n'
says bare 'x.yml: finetuning_type: full (line 1) and lora_rank: 8 (line 2) set lora.rank to different values: keep one of them' \
    'finetuning_type: full\nlora_rank: 8\n'
says json_twice 'x.json: the key lr appears twice, 1 (line 1) and 2 (line 2): keep one of them' '{"lr": 1,\n"lr": 2}\n' json
says json_end 'x.json: not JSON: line 1, byte 8: expected , or }' '{"lr": 1' json
says toml_lines 'x.toml:2: expected key = value in one line, with a text, a number, true, false or a list of them' \
    'lr = 1\nlora_target_modules = [\n"q_proj"]\n' toml
# words of YAML 1.1, as PyYAML 6.0 loads them
holds words 'lora.alpha = 16|memory.recompute = "block"|precision = "bf16"|run.lr = 1e-4|run.steps = 90|run.weight_decay = 1.5e-3|seq.max = 2048' \
    'bf16: on\ngradient_checkpointing: Yes\nlr: 1e-4\nmax_steps: 1:30\ncutoff_len: 0x800\nlora_alpha: +1_6\nwd: 1.5e-3\ntf32: off\n'
holds octal 'run.seed = 8' 'seed: 010\n'
holds quoted 'precision = "fp32"|run.steps = 10|not carried over: fp16' "mixed_precision: 'no'\nmax_steps: \"10\"\nfp16: n\n"
holds mark 'run.lr = 0.5' '\xef\xbb\xbflr: 0.5\n'
holds absent '' 'learning_rate:\nlora_r: null\noutput_dir: ""\nlora_target_modules: []\n'
holds reference 'run.out = "a"|not carried over: tokenizer.path' 'output_dir: a\ntokenizer: {path: "${output_dir}/b"}\n'
holds auto 'not carried over: half_precision_backend learning_rate' 'learning_rate: auto\nhalf_precision_backend: auto\n'
holds trainer_decides 'not carried over: bf16.enabled fp16.enabled' \
    'fp16: {enabled: auto}\nbf16: {enabled: auto}\n'
holds shape 'model.attention_bias = true|model.head_dim = 128' 'head_dim: 128\nattention_bias: true\n'
holds statements 'run.lr = 0.5|not carried over: """ """ # beta2 else if log(1) lr lr max_steps' \
    'lr = 0.5\n"""\nlr = 3 of\n# A\n"""\nif x:\n    lr = 1\n    # c\nelse:\n    beta2 = 2\nlog(1)\nmax_steps = f(1)\n' py
holds range 'not carried over: lora_r val_set_size' 'lora_r: 5000\nval_set_size: 200\n'
# explicit before implied; nested; of another objective; more nodes
# a value that another key denies, and a recipe that gen refuses
says denied 'x.yml: adapter: qlora (line 1) and load_in_4bit: false (line 2) set lora.base to different values: keep one of them' \
    'adapter: qlora\nload_in_4bit: false\n'
says denied_moments 'x.yml: optim: adamw_torch (line 1) and use_8bit_adam: true (line 2) set optim.moments to different values: keep one of them' \
    'optim: adamw_torch\nuse_8bit_adam: true\n'
holds moments 'optim.moments = "8bit"' 'optimizer: adamw_torch_8bit\nload_in_4bit: false\n'
holds moments_of_component 'optim.moments = "8bit"' 'optimizer: {_component_: bitsandbytes.optim.PagedAdamW8bit}\n'
holds backward 'optim.when = "backward"|run.clip = 0' 'optimizer_in_bwd: True\n'
holds backward_accum 'batch.accum = 8|optim.when = "backward"|run.clip = 1.0' \
    'optimizer_in_bwd: True\ngradient_accumulation_steps: 8\nclip_grad_norm: 1.0\n'
check backward_needs 'optim.when = "backward" needs run.clip = 0; here it is 1.0|optim.when = "backward" needs batch.accum = 1; here it is 8' \
    "$(grep ' needs ' "$T/err" | paste -sd'|')"
holds lora_only 'not carried over: finetuning_type' 'finetuning_type: lora\n'
holds packed 'data.kind = "packed"|not carried over: packing' 'packing: true\npacking_strategy: wrapped\n'
holds stage 'not carried over: zero_optimization.stage' 'zero_optimization: {stage: dpo}\n'
holds zero_1 'memory.zero = 1|not carried over: zero_optimization.overlap_comm zero_optimization.sub_group_size' \
    'zero_optimization: {stage: 1, reduce_scatter: true, overlap_comm: true, sub_group_size: 1e9, offload_optimizer: {device: none}}\n'
holds zero_nested 'memory.zero = 1' 'deepspeed_config: {zero_optimization: {stage: 1}}\n'
holds zero_off 'memory.zero = 0' 'zero_stage: 0\nfsdp: no_shard\nuse_fsdp: false\n'
holds zero_2 'memory.zero = 2|not carried over: distributed_type' \
    'deepspeed_config: {zero_stage: 2}\ndistributed_type: DEEPSPEED\n'
holds fsdp 'memory.zero = 3|not carried over: fsdp fsdp_config' \
    'distributed_type: FSDP\nfsdp: [full_shard, auto_wrap]\nfsdp_config: {fsdp_version: 2}\n'
says zero_twice 'x.yml: use_distributed_optimizer: true (line 2) and zero_stage: 0 (line 1) set memory.zero to different values: keep one of them' \
    'zero_stage: 0\nuse_distributed_optimizer: true\n'
holds smoothing 'ad.env = "darkroom"|objective = "ad"|not carried over: label_smoothing' \
    'env: darkroom\nlabel_smoothing: 0.1\n'
holds pairs_unpacked 'dpo.kl = "none"|dpo.logp = "sum"|dpo.loss = "sigmoid"|objective = "dpo"|run.stop_margin = 0' \
    'sample_packing: false\nrl: dpo\n'
holds nodes 'gpus = 8|not carried over: nnodes' 'nproc_per_node: 4\nnnodes: 2\n'
# nothing is left out for its number: 3000 unknown keys, a list of 500
for ((i = 0; i < 3000; i++)); do echo "key_$i: $i"; done >"$T/many.yml"
echo 'learning_rate: 0.25' >>"$T/many.yml"
check many "run.lr = 0.25 3000" "$(settings "$T/many.yml" | head -1) $(grep -c '^    key_' "$T/err")"
check many_targets 500 "$({ echo lora_r: 8; echo target_modules:; for ((i = 0; i < 500; i++)); do echo "  - m$i"; done
    } >"$T/x.yml"; settings "$T/x.yml" | grep -o '"m[0-9]*"' | wc -l)"
check deep "x.yml:1: lists and tables are nested deeper than 64" "$(printf 'a: %s' \
    "$(printf '[%.0s' $(seq 70))" >"$T/x.yml"; "$GEN" "$T/x.yml" 2>&1 | sed "s,$T/,,; s/^gen: //" | head -1)"
# nor is a recipe of a folder with more of them than gen list takes
mkdir -p "$T"/tree/{out/.gen,recipes,templates,kernels,runtime}
cp "$GEN" "$T/tree/out/.gen/gen"
for ((i = 0; i <= 500; i++)); do : >"$T/tree/recipes/r$i.lua"; done
check many_recipes "gen: $T/tree/recipes: more than 500 recipes; move some of them to another folder" \
    "$("$T/tree/out/.gen/gen" list 2>&1 >/dev/null)"
exit $failed
