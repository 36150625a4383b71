#!/bin/bash
# The commands of gen by their table gen/commands.def: help, options, what they print for programs.
set -u
cd "$(dirname "$0")/../.." || exit 2
. tests/compare.sh
. tests/verdict.sh
GEN=${GEN:-out/.gen/gen}
B=out/.test/gold
mkdir -p "$B"
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT

# ---- help: every command, every option of it; what the table has is read
sed -n 's/^COMMAND("\([^"]*\)".*/\1/p' gen/commands.def | grep -v -e '^$' -e '^--' >"$T/commands"
sed -n 's/^OPTION("\([^"]*\)", "\([^"]*\)".*/\2 \1/p' gen/commands.def | tr '|' ' ' |
    awk '{ n = $2 == "" || / $/ || /  /; if (n) print "RECIPE", $1; for (i = 2; i <= NF; i++) print $i, $1 }' >"$T/options"
"$GEN" --help >"$T/help"
check help/commands "" "$(while read -r command; do grep -q "^  gen $command " "$T/help" || echo "$command"; done <"$T/commands")"
check help/each "" "$(while read -r command; do
    "$GEN" "$command" --help >"$T/one" 2>&1 || echo "$command: status $?"
    head -1 "$T/one" | grep -q "^usage: gen $command" || echo "$command"
    "$GEN" "$command" cpu_tiny --help 2>&1 | diff "$T/one" - >/dev/null || echo "$command cpu_tiny --help"
    awk -v of="$command" 'NR == FNR { if ($1 == of) want[$2]; next } /^  -/ { delete want[$1] }
        END { for (w in want) print of, w }' "$T/options" "$T/one"
done <"$T/commands")"
check help/recipe "" "$("$GEN" cpu_tiny --help 2>&1 | diff "$T/help" - 2>&1)"
check help/read "$(wc -l <"$T/options") options" "$(while read -r of option; do
    said=$("$GEN" ${of/RECIPE/} "$option" 2>&1 >/dev/null </dev/null)
    case $?$said in
    *'unknown option'* | *'no option'* | *bug* | *flag* | 1) echo "$of $option: $said" ;;
    *) echo + ;;
    esac
done <"$T/options" | sort | uniq -c | sed 's/^ *\([0-9]*\) +$/\1 options/')"
# every option that has a value, given twice (--card is a field: bad/field_twice)
check help/twice "" "$(while read -r of option; do
    value=$("$GEN" ${of/RECIPE/--help} --help | sed -n "s/^  $option \([^ ]*\) .*/\1/p")
    [ -z "$value" ] || [ $option = --card ] ||
        "$GEN" ${of/RECIPE/cpu_tiny} $option "a b" $option c 2>&1 </dev/null | grep -qxF \
            "gen: $option 'a b' and $option c: give $option once$(case $value in *,*) echo ', as a list A,B' ;; esac)" ||
        echo "$of $option"
done <"$T/options")"
# a full disk: the command fails
check help/full "" "$(for words in --help fields "explain lora.rank" "plan cpu_tiny" "list cards --json" "reference data" \
    "completion bash" "cpu_tiny -d graph" "ci --github cpu_tiny"; do
    # shellcheck disable=SC2086
    said=$("$GEN" $words 2>&1 >/dev/full)
    [[ $?$said = "1gen: standard output: "* ]] || echo "$words: $said"
done)"
check help/near "gen: plna: neither a command nor a recipe (NAME.lua); did you mean plan?" "$("$GEN" plna 2>&1)"

# ---- --json: one object whatever happens, with the numbers that people are told
. tests/sources.sh
# shellcheck disable=SC2046
gcc -std=c11 -O1 -Wall -Wextra -Werror -I. -o "$B/json" tests/gold/json.c $(sources runtime json base) -lcjson -lm || exit 1
ask() { "$B/json" "$T/$1" -q "${@:2}" | paste -sd' '; }
said() { "$GEN" "$@" --json 2>"$T/stderr"; }
for recipe in recipes/*.lua; do
    name=$(basename "$recipe" .lua)
    said info "$recipe" >"$T/info.$name" || echo "$name: info: $?"
    case $name in *tiny* | darkroom_ppo)                # whose largest batch.micro is soon found
        said plan "$recipe" >"$T/plan.$name" || echo "$name: plan: $?" ;;
    esac
done >"$T/failed"
check json/recipes "" "$(cat "$T/failed"; "$B/json" "$T"/plan.* "$T"/info.*)"
for bad in arithmetic choice ffn deep_table family; do
    # shellcheck disable=SC2046
    said plan tests/gold/bad/$bad.lua $(sed -n 's/^-- args: //p' tests/gold/bad/$bad.lua) >"$T/bad"
    check "json/bad-$bad" "1 1 tests/gold/bad/$bad.lua" "$? $(ask bad exit_status error.file)"
done
said info recipes/cpu_tiny.lua precision=fp31 >"$T/bad"
check json/bad-word "1 null $(sed -n '1s/^gen: //p' "$T/stderr")" "$(ask bad exit_status error.line error.message)"
said plan recipes/h200x1_qwen2.5_7b_full.lua target=sm_89 >"$T/bad"
check json/bad-memory "1 $(sed -n '/does not fit/s/^[^ ]* \(.*\)/\1/p' "$T/stderr")" \
    "$(ask bad exit_status error.message | sed 's/ *largest:.*//')"
# what a refusal names fits, with the bytes that it says
"$GEN" plan tests/gold/bad/plan_memory_zero_more.lua 2>&1 | sed -n 's/^ *fits: \(.*\)   (\(.*\), about .*/\1 \2/p' >"$T/words"
check plan/fits_with_zero "4 $(sed 's/.* \([0-9.]* [KMG]iB\)$/\1/' "$T/words" | paste -sd' ')" "$(while read -ra words; do
    "$GEN" plan tests/gold/bad/plan_memory_zero_more.lua "${words[@]:0:${#words[@]}-2}"
done <"$T/words" | sed -n 's/^  arena (peak)  *\([0-9.]* [KMG]iB\) .*/\1/p' | paste -sd' ' | sed 's/^/4 /')"
check plan/fits_bilevel 1 "$("$GEN" plan recipes/dreamprm_full.lua gpus=2 memory.limit_gib=100 2>&1 |
    grep -c '^ *fits: memory.zero=3 kernels.attention=auto memory.recompute=none   ')"

# ---- gen fit: what it finds, in JSON too; commands that make no sense
F=recipes/h200x1_qwen2.5_0.5b.lua
"$GEN" fit $F --card rtx4090 >"$T/text"
check fit/status 0 $?
said fit $F --card=rtx4090 >"$T/fit"
check fit/json "fit true 1 32" "$(ask fit command fits ranks batch_global)"
check fit/text "$(ask fit 'rows[0].arguments')" "$(sed -n '$s/^  gen //p' "$T/text")"
check fit/rows "$("$B/json" "$T/fit" -q 'rows[*].tokens_per_second' | sed 's/\..*//' | paste -sd' ')" \
    "$(sed -n '4,/^$/s/^ *\([0-9,]*\) .*/\1/p' "$T/text" | tr -d , | paste -sd' ')"
"$GEN" fit $F --card rtx4090 --all --json >"$T/all"
check fit/all "$("$B/json" "$T/fit" -q 'rows[*].arguments' | sort)" "$("$B/json" "$T/all" -q 'rows[*].arguments' |
    grep -xFf <("$B/json" "$T/fit" -q 'rows[*].arguments') | sort)"
"$GEN" fit $F --card rtx3070 --exact --json >"$T/exact"
check fit/exact "true" "$("$B/json" "$T/exact" -q 'rows[*].same_bits' 'over[*].same_bits' | sort -u | paste -sd' ')"
"$GEN" fit dreamprm --card rtx3070 --host-gib 0.5 --json >"$T/host"
check fit/host "0" "$("$B/json" "$T/host" -q 'rows[*].host_bytes' | sort -u)"
"$GEN" fit recipes/dreamprm.lua --card rtx3070 lora.base=same lora.rank=16 >"$T/text"
check fit/none "1 nothing fits; the nearest:| memory.embedding=host: 14.6 GiB, over by 7.9 GiB|the first of them fits rtx4080 (NVIDIA RTX 4080, 16 GB)" \
    "$? $(sed -n '3,$p' "$T/text" | sed 's/^ */ /; s/^ the/the/; s/^ nothing/nothing/' | paste -sd'|')"
# tiles where they let more fit, cuDNN's attention where it is faster, and a set of losses that saves more in large
# micro-batches than in the smallest
fits() { "$GEN" fit "$@" | sed -n 's/^ *[0-9,]*  *[0-9.]* [GM]iB .*  -  \([^ ].*[^ ]\)   *[^ ].*/\1/p' | tr -s ' '; }
check fit/tiles 1 "$(fits h200x1_qwen2.5_7b_full seq.max=32768 | grep -c '^memory.ffn_rows=2048 memory.recompute=block$')"
check fit/attention "kernels.attention=auto" "$(fits h200x1_qwen2.5_7b_full | head -n 1)"
check fit/may_pay 1 "$(fits h200x1_mistral_7b_lora --card rtx4090 | grep -c '^lora.base=nf4 ')"
check fit/machine "memory.limit_gib=$("$GEN" fit cpu_tiny | sed -n '1s/.*limit_gib=\([0-9.]*\):.*/\1/p')" \
    "$("$GEN" fit cpu_tiny --json >"$T/cpu"; ask cpu 'rows[0].arguments' | tr ' ' '\n' | grep limit)"
wrong() { check "fit/$1" "1 $2" "$("$GEN" fit "${@:3}" >"$T/out" 2>&1; echo "$? $(cat "$T/out")")"; }
wrong card 'gen: fit: card: unknown card "rtx9999"; did you mean rtx3090? gen list cards prints all' \
    $F --card rtx9999
wrong gpus "gen: fit: --gpus 0: must be a number of GPUs from 1 to 65536" $F --gpus 0
wrong gpus_twice "gen: fit: --gpus 2: the words set gpus, too; leave one of them out" $F --gpus 2 gpus=4
wrong host "gen: fit: --host-gib abc: must be a number of GiB from 0 to 1048576" $F --host-gib abc
wrong field 'gen: lora.rnk: unknown key; did you mean "rank"?' $F lora.rnk=4
wrong option "gen: fit: unknown option --crad; did you mean --card?" $F --crad h100
wrong target "gen: fit: --target is for models' folders; of a recipe: gen fit cpu_tiny target=NAME" cpu_tiny --target sm_90
wrong nothing "gen: name a recipe, for example recipes/cpu_tiny.lua; \`gen list\` shows them"
wrong standalone 'recipes/darkroom_ppo.lua:5: fit: recipes whose objective is ppo train no model of layers: there is nothing to fit
    objective = "ppo",' recipes/darkroom_ppo.lua --card rtx3070
"$GEN" plan recipes/cpu_tiny.lua >"$T/text"
check json/plan "$(sed -n '2s/^\([0-9,]*\) parameters, \([0-9,]*\) trained; \([0-9]*\) seq.*of \([0-9]*\) tok.*/\1 \2 \3 \4/p' "$T/text" | tr -d ,) $(
    sed -n 's/^largest batch.micro.*: //p' "$T/text")" \
    "$(ask plan.cpu_tiny parameters parameters_trained batch_global sequence_tokens batch_micro_largest)"
check json/buffers "$(ask plan.cpu_tiny bytes_by_purpose.weights bytes_by_purpose.optimiser bytes_by_purpose.activations)" \
    "$("$B/json" "$T/plan.cpu_tiny" -q 'buffers[*].purpose' >"$T/a"; "$B/json" "$T/plan.cpu_tiny" -q 'buffers[*].bytes' |
        paste "$T/a" - | awk '{ n[$1] += $2 } END { print n["weights"], n["optimiser"], n["activations"] }')"
check json/largest "$(sed -n '/^largest buffers/{n;s/^ *\([^ ]*\) .*/\1/p}' "$T/text")" "$(ask plan.cpu_tiny 'buffers[0].name')"
check json/peak "$(ask plan.cpu_tiny device_bytes)" "$("$B/json" "$T/plan.cpu_tiny" -q 'buffers[*].offset' >"$T/a"
    "$B/json" "$T/plan.cpu_tiny" -q 'buffers[*].bytes' | paste "$T/a" - | awk '$1 + $2 > m { m = $1 + $2 } END { print m }')"
# Bytes that a rank sends in a step, and bytes that it holds. LLaDA-8B: two tables (126464,4096), in 32 layers matrices of 53248 rows
# of 4096; 65 norms of 4096, too small to be divided. Of n bytes 2 ranks send 2 x n/2 each in an all-reduce, n/2 in a
# reduce-scatter or a gather. fp32 gradients, fp16 weights, and sums of squares of 64 shares in 131 columns, 4352 a rank.
# Of fp32 are master weights and two moments; total norm and loss scale have 512 bytes each.
matrices=$((2 * 126464 * 4096 + 32 * 53248 * 4096)) norms=$((65 * 4096))
for zero in 0 1; do said plan recipes/llada_8b.lua memory.zero=$zero batch.micro=1 >"$T/zero.$zero"; done
sent() { ask "$1" "schedules[$2].name" "schedules[$2].sent_bytes.$3.within_node" "schedules[$2].sent_bytes.$3.between_nodes"; }
check json/sent_whole "train $((4 * (matrices + norms))) 0" "$(sent zero.0 1 allreduce)"
check json/sent_divided "train $((4 * norms)) 0 train $((4 * matrices / 2)) 0 train $((2 * matrices / 2 + 8 * 4352)) 0" \
    "$(sent zero.1 1 allreduce) $(sent zero.1 1 reduce_scatter) $(sent zero.1 1 all_gather)"
check json/held_whole "$((12 * (matrices + norms) + 2 * 512)) 0 null" \
    "$(ask zero.0 bytes_by_purpose.optimiser bytes_divided_by_purpose.optimiser 'buffers[1].shares')"
check json/held_divided "$((12 * (matrices / 2 + norms) + 2 * 512)) $((12 * matrices / 2)) m.b.gate_up.w 32" "$(
    ask zero.1 bytes_by_purpose.optimiser bytes_divided_by_purpose.optimiser 'buffers[4].name' 'buffers[4].shares')"
# Decoding with divided weights receives, for each token, 7/8 of Qwen2.5-7B's matrices in bf16 at the 370 GB/s of an H200;
# with whole weights nothing. Of 28 layers' gradients in fp32 a rank sends 7/8, in four calls a layer, each of which takes
# 20 us to start: time that comm.overlap hides.
layer=$(((4608 + 3584 + 37888 + 18944) * 3584))
said plan recipes/h200x8_full.lua memory.zero=3 >"$T/gathers"
check json/decoding "decode $((2 * (2 * 152064 * 3584 + 28 * layer) * 7 / 8)) 0 0.0360" \
    "$(sent gathers 3 all_gather) $(printf %.4f "$(ask gathers 'schedules[3].seconds_to_send')")"
check plan/decoding "  decoding receives 12.4 GiB a token: at least 36 ms; to sample, export and build with gpus=1" \
    "$(for zero in 2 3; do "$GEN" plan recipes/h200x8_full.lua memory.zero=$zero; done | grep decoding)"
for overlap in auto none; do said info recipes/h200x8_full.lua comm.overlap=$overlap >"$T/$overlap"; done
check json/hidden "$(awk -v n=$layer 'BEGIN { printf "%.6f", 28 * (4 * n * 7 / 8 / 370e9 + 4 * 20e-6) }')" \
    "$(echo "$(ask none estimate.ranks_seconds) $(ask auto estimate.ranks_seconds)" | awk '{ printf "%.6f", $1 - $2 }')"
"$GEN" plan recipes/llada_8b.lua memory.zero=1 >"$T/text"
check plan/divided "of 2 ranks 44.8 GiB 32/64, and 3.0 MiB whole moments fp32 29.9 GiB, master fp32 14.9 GiB 32/64 14.9 GiB" "$(sed -n \
    's/^bytes of a rank, arena device *//p; s/^  optimiser *//p; s/^  m.b.down.w.*optimiser //p; s/^  .*reduce_scatter *\(.*B\) *0 B$/\1/p' \
    "$T/text" | tr -s ' \n' ' ' | sed 's/ $//')"
# 4 ranks on 2 nodes: of n bytes each sends half to the other node when the parts are exchanged, n/4 to each rank; of
# the ring's 3/4 n, which are n/4 three times, half, as the second rank of a node sends to the other node.
n=$((4 * 842624))
said plan recipes/cpu_x2_full.lua memory.zero=0 cluster=slurm_cpu cluster.gpus_per_node=2 gpus=all batch.global= >"$T/nodes"
check json/sent_nodes "4 train $((n / 4 + n * 3 / 8)) $((n / 2 + n * 3 / 8))" "$(ask nodes ranks) $(sent nodes 0 allreduce)"
said info recipes/cpu_x2_full.lua memory.zero=0 cluster=slurm_cpu >"$T/nodes"
check json/sent_step "$n $n" "$(ask nodes step_sent_bytes step_sent_bytes_between)"
# of fp32 a checkpoint holds weights and both moments; of adapters these alone: 12 bytes each
check json/disk "$((12 * 842624)) $((4 * 842624)) null $((12 * 65536)) $((4 * 65536)) $((4 * 842624))" \
    "$(ask info.cpu_tiny disk.checkpoint_bytes disk.export_bytes disk.merged_bytes) $(
       ask info.cpu_tiny_lora disk.checkpoint_bytes disk.export_bytes disk.merged_bytes)"
# 90 % of a million texts, eight ranks of 32, five epochs
check json/length "900000 100000 256 3516 17580" \
    "$(ask info.mlm_h200_8gpu_standard samples samples_held batch_global updates_an_epoch updates)"
check json/estimate "NVIDIA H200, 141 GB h200 null NVIDIA RTX 4090, 24 GB" "$(ask info.h200x1_qwen2.5_7b_full estimate.device \
    estimate.card) $(ask info.darkroom_ppo estimate) $(ask info.rtx4090_lora estimate.device)"
check json/commands "gen recipes/cpu_tiny.lua make -C out/cpu_tiny out/cpu_tiny/run.sh" "$(ask info.cpu_tiny 'commands[*]')"
# ---- bytes that calls move, by hand. An update of P weights in bf16 with remainders reads and writes 2 + 2 + 4 + 4 bytes
# each and reads 4 of the gradient: 28; with a fp32 master 2 are written in place of 4 moved: 30; without 24; in fp32 28.
# A launch also reads 8 numbers and a norm, 36 bytes.
program() { # FILE NAME: bytes of a turn
    paste <("$B/json" "$T/$1" -q 'programs[*].name') <("$B/json" "$T/$1" -q 'programs[*].bytes') |
        awk -v name="$2" '$1 == name { printf "%.0f\n", $2 }'
}
full=recipes/h200x1_qwen2.5_7b_full.lua P=7615616512
said plan $full >"$T/moves"
check bytes/remainder "$((28 * P + 2 * 36)) $((4 * P)) $((4 * P + 4))" "$(program moves update) $(program moves begin) $(program moves reduce)"
said plan $full optim.master=fp32 memory.limit_gib=200 >"$T/moves"
check bytes/fp32_master $((30 * P + 2 * 36)) "$(program moves update)"
check bytes/fp32 $((28 * 124439808 + 2 * 36)) "$(said plan recipes/cpu_gpt2_124m.lua >"$T/moves"; program moves update)"
# moments in 8 bit: 2 x 2 bytes in place of 2 x 8, and for 256 of them two magnitudes; not those of the embedding and
# of 57 norms; five launches of matrices and biases, two of the others and one of the head
wide=$((152064 * 3584 + 57 * 3584)) narrow=$((P - 152064 * 3584 - 57 * 3584))
said plan $full optim.moments=8bit >"$T/moves"
check bytes/8bit $((28 * wide + 16 * narrow + 16 * narrow / 256 + 8 * 36)) "$(program moves update)"
# each of two ranks updates half of the matrices, and all norms, in 4 launches, with a ninth number in fp16; then whole
# matrices are gathered in place
check bytes/divided $((30 * (matrices / 2 + norms) + 4 * 40 + 4 * matrices)) "$(program zero.1 update)"
# 64 rows of 64 columns in chunks of 16, 2048 logits: fp32 logits are written, read once (a row stays in shared memory),
# and their gradient in bf16 is written and read twice; the head is read twice a chunk, its gradient added to, as beta is
# 1; labels, losses and a scale.
# Forward the logits are written and read, hidden rows and head read once.
words="model.vocab=2048 seq.max=32 batch.micro=2 batch.accum=2 memory.loss_rows=16"
# shellcheck disable=SC2086
"$GEN" recipes/h200x1_tiny.lua $words -o "$T/moving" >/dev/null
moved() { sed -n "s/^{\"$1\", \"$2\", [0-9]*, \([0-9]*\), .*/\1/p" "$T/moving/ops.h" | paste -sd' '; }
rows=64 V=2048 C=64
check bytes/ce_bwd $((rows * V * (4 + 4 + 3 * 2) + 3 * 2 * rows * C + 4 * 2 * 2 * V * C + 4 * 2 * 4 * V * C + 8 * rows + 4)) \
    "$(moved ce_bwd losses)"
check bytes/ce_fwd $((rows * V * (4 + 4) + 2 * rows * C + 4 * 2 * V * C + 8 * rows)) "$(moved ce_fwd e.losses)"
# Feed-forward layers of 64 and 256 in four tiles of 16 rows, with biases: each reads both matrices and biases, backward
# the first matrix twice, and adds to their gradients and that of a bias. The wide rows are written and read by gelu, act by the second
# product; backward the wide rows are written, read by gelu and its gradient, written again and read by dx, dw and db,
# act written twice and read by dw and gelu's gradient. dy and x are read by two products each.
# shellcheck disable=SC2086
"$GEN" recipes/h200x1_tiny.lua $words memory.ffn_rows=16 -o "$T/tiled" >/dev/null
tiled() { sed -n "s/^{\"$1\", \"$2\", \([0-9]*\), \([0-9]*\), .*/\1 \2/p" "$T/tiled/ops.h" | paste -sd' '; }
F=256
check bytes/ffn_fwd "$((4 * rows * C * F)) $((2 * 2 * rows * C + 4 * 2 * 2 * F * C + 4 * 2 * (F + C) + 2 * rows * F * (2 + 2)))" \
    "$(tiled ffn_fwd b.down)"
check bytes/ffn_bwd "$((10 * rows * C * F)) $((5 * 2 * rows * C + 4 * 3 * 2 * F * C + 4 * 2 * F + 4 * 2 * 4 * (2 * F * C + F) +
    2 * rows * F * (7 + 4)))" "$(tiled ffn_bwd b.dnorm2)"
# dw = or += dy^T x of 256 by 64 in fp32; dy reads the scores' inputs twice, o once, the sums of rows twice
check bytes/linear_dw "$((2 * rows * (256 + C) + 2 * 4 * 256 * C))" "$(moved linear_dw grad.b.up.w)"
check bytes/attention_bwd $((2 * rows * (2 * C + 2 * 3 * C + C + 3 * C) + (2 + 2) * 4 * rows * 4)) "$(moved attention_bwd b.dqkv)"

# ---- kernels.attention=auto: cuDNN where it works and pays
auto() { # RECIPE KERNELS WORDS: those of the forward passes, for training and validation
    "$GEN" -d fuse "recipes/$1.lua" kernels.attention=auto "${@:3}" >"$T/auto" 2>&1
    check "auto/$1${3:+/$3}" "$2" "$(sed -nE 's/^ *@g[0-9]+ (attention[a-z_]*fwd).*/\1/p' "$T/auto" | sort -u | paste -sd" ")"
}
auto h200x1_qwen2.5_7b_full attention_cudnn_fwd
auto h200x1_qwen2.5_7b_full attention_fwd precision=fp32
auto h200x1_qwen2.5_7b_full "attention_drop_fwd attention_fwd" model.attention_dropout=0.1
auto h200x1_qwen2.5_7b_full attention_fwd seq.max=32768
auto h200x1_gpt2_124m attention_fwd
auto a100x4_lora attention_fwd

# ---- the estimate of a step. Not fitted to: what llmq measures on one H100 in bf16 with 1024 tokens a sequence
# (IST-DASLab/llmq, benchmarks/H100x1.md: 149k, 59.1k, 30.9k and 13.9k tokens/s of Qwen2.5 in four sizes). Its attention
# is cuDNN's; its logits are bf16: 6 bytes are moved in place of 10. Within 15 %.
predicts() { # NAME TOKENS/S WORDS
    said info recipes/h200x1_qwen2.5_0.5b.lua seq.max=1024 tune.card=h100 memory.limit_gib=139 kernels.attention=cudnn \
        "${@:3}" >"$T/model"
    check "estimate/$1" near "$(ask model step_tokens estimate.step_seconds estimate.kind_seconds.head |
        awk -v want="$2" '{
            got = $1 / ($2 - $3 * 0.4)
            print (got > 0.85 * want && got < 1.15 * want ? "near" : got) }')"
}
predicts qwen2.5_0.5b 149400 batch.accum=16
predicts qwen2.5_1.5b 59100 model.layers=28 model.hidden=1536 model.heads=12 model.ffn=8960 batch.accum=16
predicts qwen2.5_3b 30900 model.layers=36 model.hidden=2048 model.heads=16 model.ffn=11008 batch.micro=16 batch.accum=32
said info $full seq.max=1024 batch.micro=4 batch.accum=128 tune.card=h100 >"$T/model"
check estimate/qwen2.5_7b near "$(ask model estimate.tokens_per_second | awk '{ print ($1 > 0.85 * 13863 && $1 < 1.15 * 13863 ? "near" : $1) }')"
# To what was measured on one H200: within 10 %.
for file in tests/bench/results/gpu_*.json; do
    read -r recipe rate words < <(jq -r '"\(.recipe) \([.ours[].tokens_per_second] | sort | .[length / 2 | floor]) \(.words // "")"' "$file")
    # shellcheck disable=SC2086
    said info recipes/$recipe.lua tune.card=h200 $words >"$T/measured"
    check "estimate/measured/$(basename "$file" .json)" near "$(ask measured estimate.tokens_per_second | awk -v want="$rate" '{
        print ($1 > 0.9 * want && $1 < 1.1 * want ? "near" : $1) }')"
done
# the parts are all of it; the times of a schedule count
check estimate/sum same "$(ask model estimate.step_seconds estimate.starts_seconds estimate.ranks_seconds estimate.kernels_seconds \
    'estimate.kind_seconds.product' 'estimate.kind_seconds.attention_fwd' 'estimate.kind_seconds.attention_bwd' \
    'estimate.kind_seconds.pointwise' 'estimate.kind_seconds.head' 'estimate.kind_seconds.update' |
    awk '{ a = $1 - $2 - $3 - $4; b = $4 - $5 - $6 - $7 - $8 - $9 - $10; e = 1e-6 * $1
           print (a < e && -a < e && b < e && -b < e ? "same" : a " " b) }')"
# eight GPUs at 370 GB/s: the sums of all gradients, and 20 us a collective. Beside the backward pass only the part that is
# longer counts: less, but the sums that nothing overlaps
for overlap in none all; do said info recipes/h200x8_full.lua memory.zero=0 comm.overlap=$overlap >"$T/ranks.$overlap"; done
check estimate/ranks same "$(ask ranks.none estimate.ranks_seconds step_sent_bytes |
    awk '{ d = $1 - $2 / 370e9; print (d > 0 && d < 1e-2 ? "same" : d) }')"
check estimate/overlapped less "$(ask ranks.all estimate.ranks_seconds | awk -v all="$(ask ranks.none estimate.ranks_seconds)" '{
    print ($1 > 0.1 * all && $1 < 0.3 * all ? "less" : $1 / all) }')"
# an update: its bytes at 0.86 of 3350 GB/s
check estimate/update same "$(ask model estimate.kind_seconds.update | awk -v P=$P '{
    d = $1 / (28 * P / (0.86 * 3350e9)); print (d > 0.9999 && d < 1.0001 ? "same" : d) }')"

# ---- gen plan --work: its rows are all that gen info and the plan count, on one rank, on several, and with programs that
# not every step runs
work_sums() { # NAME: seconds, FLOP, bytes of all rows
    jq -r '.work.rows | "\([.[].seconds] | add) \([.[].flop] | add) \([.[].bytes] | add)"' "$T/$1" | xargs printf '%.6e '
}
for words in "h200x1_gpt2_124m tune.card=h200" "h200x8_full memory.zero=3" "h200x1_tiny batch.accum=3" "cpu_tiny"; do
    # shellcheck disable=SC2086
    { said plan $words --work >"$T/work"; said info $words >"$T/model"; said plan $words >"$T/whole"; }
    # shellcheck disable=SC2046
    check "work/sum/${words%% *}" "$(printf '%.6e ' $(ask model estimate.step_seconds step_flop) \
        "$(jq '.schedules[] | select(.name == "train").bytes' "$T/whole")")" "$(work_sums work)"
done
said plan dreamprm_tiny --work >"$T/work"; said info dreamprm_tiny >"$T/model"
check work/sum/bilevel "$(printf '%.6e' "$(ask model estimate.step_seconds)")" "$(work_sums work | cut -d' ' -f1)"
"$GEN" plan h200x1_gpt2_124m --work >"$T/text"
check work/text "$("$GEN" info h200x1_gpt2_124m | sed -n 's/^  time  *about \(.*\) a step, \(.*\) tokens.s; .*/\1 \2/p')" \
    "$(sed -n 's/^a step \(.*\), \([0-9,]*\) tokens.s, .*/\1 \2/p' "$T/text")"
check work/modelled "h200x1_gpt2_124m: a step of a rank as gen models it, nothing is measured" "$(head -n 1 "$T/text")"
# Attention of 28 heads over 512 tokens: 4 blocks a head, two on each of 132 multiprocessors: 112 in 264 places, and the
# step waits for those of the last queries, 512 x 128 scores. 28 x 512^2 / 2 of them count: 21 %. Over 16 x as many
# sequences there are 1792 blocks of 2.5 / 4 of the longest: 1120 / 264, and 1/8 for the last: 78 %. Keys: a block of 8
# warps is alone; 4 heads of keys are 7 parts each: 112 blocks in 132 places.
used() { "$GEN" plan h200x1_qwen2.5_7b_full seq.max=512 batch.micro=$1 batch.accum=1 memory.limit_gib=200 --work |
    sed -n 's/^  \(attention_...\) .* \([0-9]* blocks of [a-z]*\) *\([0-9]\) a.*, used \(.*\) %$/\1 \2 \3 \4/p' | paste -sd,; }
check work/few "attention_bwd 112 blocks of queries 1 42,attention_bwd 112 blocks of keys 1 42,attention_fwd 112 blocks of queries 2 21" "$(used 1)"
check work/many "attention_bwd 1792 blocks of queries 1 79,attention_bwd 1792 blocks of keys 1 79,attention_fwd 1792 blocks of queries 2 78" "$(used 16)"
# without a mask all blocks are alike: 32 heads of 32 each, in 264 places, take four turns
check work/whole "1024 2 97" "$("$GEN" plan llada_8b --work | sed -n 's/^  attention_fwd  *b.att  *\([0-9]*\) .* \([0-9]\) a .*, used \(.*\) %$/\1 \2 \3/p')"
check work/folder "gen: plan: --work is for a recipe, not for a folder" "$("$GEN" plan tests/train/ref/llama_tiny/model --work 2>&1)"
check work/standalone "recipes/darkroom_ppo.lua:5: plan: --work: the objective ppo trains no model of layers; its time is not modelled" \
    "$("$GEN" plan recipes/darkroom_ppo.lua --work 2>&1 | head -n 1)"
said list >"$T/list"
ref=tests/train/ref/llama_tiny/model
said plan $ref --card h200 >"$T/of_folder"
check json/plan-folder "plan llama 94656 h200 none lora" "$(ask of_folder command family parameters card 'ways[0].adapter' 'ways[2].adapter')"
check json/plan-folder-fits "$("$GEN" plan $ref --card h200 | awk '/^  (all|LoRA)/ { print $(NF - 2) }' | paste -sd' ')" \
    "$(ask of_folder 'ways[*].batch_micro')"
said new "$T/made.lua" --from $ref >"$T/new"
check json/new "new $T/made.lua cpu 94656 94656" "$(ask new command file target parameters parameters_trained)"
check json/new-is-written "$(ask new device_bytes)" "$(said plan "$T/made.lua" >"$T/of_made"; ask of_made device_bytes)"
check json/list "$(for s in recipes models families chats objectives targets cards; do "$GEN" list $s | wc -l; done | paste -sd' ')" \
    "$(ask list 'recipes#' 'models#' 'families#' 'chats#' 'objectives#' 'targets#' 'cards#')"
said fields >"$T/fields"
check json/fields "$("$GEN" fields | grep -c '^[a-z].*: [ao1tn].*') $(cat gen/config/fields.def runtime/objectives/*.def | grep -c '^FIELD(')" \
    "$(ask fields 'fields#' 'flags#' | awk '{ print $1 + $2, $1 }')"
said explain hidden-size >"$T/explain"
check json/explain "here it is model.hidden model.hidden int 1 65536 true null" "$(ask explain said 'fields[0].name' \
    'fields[0].type' 'fields[0].least' 'fields[0].largest' 'fields[0].required' 'fields[0].default')"
said explain lora.rnak >"$T/explain"
check json/explain-near 'no field lora.rnak; did you mean "lora.rank"?; `gen fields` lists them' "$(ask explain error.message)"
said check recipes/cpu_tiny.lua >"$T/check"
check json/check "false target cpu has no CUDA kernels 0" "$(ask check checked why faults)"
said --version >"$T/version"
check json/version "$("$GEN" --version)" "$(ask version version)"
printf 'return { about = "a\377\tb", target = "cpu", batch = { micro = 1 }, seq = { max = 8 }, model = use "models/tiny_gpt2" }' >"$T/text.lua"
said info "$T/text.lua" >"$T/utf8"
check json/utf8 "0 a$(printf '\357\277\275\tb')" "$? $("$B/json" "$T/utf8" -q about)"

# ---- gen info, gen list: what is said for people
"$GEN" info mlm_h200_8gpu_standard >"$T/info" 2>/dev/null
for line in '^  time       about [0-9.]* .*s a step, [0-9,]* tokens/s; .* an epoch; .* in all$' \
    '^             estimated, not measured, without validation: NVIDIA H100, 80 GB of 989 TFLOP/s' \
    '^  device     [0-9.]* MiB a rank, of 77.5 GiB$' '^  host       ' '^  disk       16.1 MiB: 3 checkpoints of 4.0 MiB' \
    '^             .mlm_pretrained_v3 '; do
    check "info: $line" 1 "$(grep -c -- "$line" "$T/info")"
done
check info/whole 1 "$("$GEN" info recipes/darkroom_ppo.lua | grep -c '^  time       not estimated: ')"
# tiles of feed-forward layers: what they save at long sequences, and what is computed again
long="recipes/h200x1_qwen2.5_7b_lora.lua seq.max=32768 batch.micro=1 memory.recompute=block memory.loss_rows=512"
for tile in 0 2048; do
    # shellcheck disable=SC2086
    "$GEN" info $long memory.ffn_rows=$tile | sed -n 's/^  device  *\([0-9.]* GiB\) .*/\1/p; s/^  *\(feed-forward .*\);.*/\1/p'
done >"$T/tiles"
check info/tiles "27.4 GiB,23.1 GiB,feed-forward layers: 16 tiles of 2048 rows" "$(paste -sd, "$T/tiles")"
listed() { "$GEN" list "$@" 2>&1 | sed 's,^  recipes/\([^ ]*\)\.lua .*,\1,' | paste -sd' '; }
check list/objective "dpo_llama31_8b dpo_llama31_8b_lora dpo_llama32_1b dpo_tiny" "$(listed recipes objective=dpo)"
check list/two "dpo_tiny" "$(listed objective=dpo target=cpu)"
check list/adapter "dpo_llama31_8b_lora" "$(listed objective=dpo adapter=lora)"
check list/fits "ad_compressed_2gpu ad_compressed_4gpu ad_compressed_8gpu" "$(listed objective=ad fits=20GiB gpus=2) $(
    listed objective=ad fits=20GiB gpus=4) $(listed objective=ad fits=20GiB gpus=8)"
check list/card "rtx4090_lora rtx4090x2_lora" "$(listed card="RTX 4090" target=sm_89 | tr ' ' '\n' | grep ^rtx4 | paste -sd' ')"
# once the card is set: two of four for H200 and H100 fit 24 GB, full training only on four
check list/card-set "dreamprm dreamprm_full_4x24 dreamprm_llama2_7b dreamprm_q4 dreamprm_rtx3080 dreamprm_rtx4070 dreamprm_rtx4090 dreamprm_rtx4090x2 dreamprm_tiny" "$(listed recipes card=rtx4090 objective=prm)"
# a card has less GiB than its name says GB, and not much less; a GB10 shares its memory with a system
check list/cards-memory "" "$("$GEN" list cards | awk 'match($0, /, [0-9]+ GB/) {
    gb = substr($0, RSTART + 2, RLENGTH - 5) + 0; gib = $NF == "GiB" ? $(NF - 1) : 0
    if (gib >= gb || gib < (/shared/ ? 0.75 : 0.9) * gb - 0.5) print $1, gib, gb; next } { print "no size: " $0 }')"
# of an architecture the simulator has a card of its own, from the same guide
check list/targets-limits "$(sed -n 's/^CARD(\([0-9]*\), \([0-9]*\), \([0-9]*\), \([0-9]*\), \([0-9]*\), \([0-9]*\),.*/\1\2 \3 \5 \4 \6/p' \
    tests/sim/devices.def | sort)" "$(tr -d '\n' <gen/config/targets.def | grep -o '"sm_[0-9a-z]*", [^"]*' |
    sed 's/"[^"]*", \([0-9]*\), \([0-9]*\), \([0-9]*\) << 10, \([0-9]*\) << 10, \([0-9]*\),.*/\1 \2 \3 \4 \5/' | sort)"
check list/targets "cards rtx3060 rtx3070 rtx3080 rtx3080-12 rtx3090 a10 a40 a6000" "$("$GEN" list targets |
    sed -n 's/^  sm_86 .*; cards/cards/p')"
check list/card-option "dreamprm_q4 dreamprm_rtx3080 dreamprm_rtx4070 dreamprm_tiny" "$(listed recipes --card rtx3080 objective=prm)"
check list/none "gen: list: none of the $(ls recipes/*.lua | wc -l) recipes has gpus=3" "$(listed gpus=3)"
refused() { check "list/$1" "$2" "$("$GEN" list "${@:3}" 2>&1)"; }
refused field "gen: list: objectve: no field of recipes; did you mean objective?; gen fields lists them, and adapter=lora, adapter=none, fits=24GiB" \
    objectve=dpo
refused value "gen: list: objective: must be one of lm|mlm|masked_diffusion|dpo|prm|ad|ppo, got dop; did you mean dpo?" objective=dop
refused number "gen: list: gpus: must be an integer from 1 to 65536, got two" gpus=two
refused size "gen: list: fits: must be bytes per rank with a unit, such as 24GiB, got 24" fits=24
refused no_card "gen: list: card: unknown card \"h1000\"; did you mean h100? gen list cards prints all" card=h1000
refused section "gen: list cards: target=cpu: words FIELD=VALUE choose recipes" cards target=cpu

# ---- lora.targets as ends of paths: the modules that PEFT 0.21 adapts of BertForMaskedLM, and what it is told
adapted() {
    "$GEN" -d graph tests/train/recipes/mlm_bert.lua lora.rank=4 "lora.targets=$1" |
        sed -n 's/.*"base_model\.model\.\(.*\)\.lora_A.*/\1/p' | sed 's/^bert.encoder.layer.%d.//' | sort -u | paste -sd' '
}
check targets/path "attention.self.query intermediate.dense" "$(adapted query,intermediate.dense)"
check targets/ends "attention.output.dense output.dense" "$(adapted output.dense)"
check targets/last "attention.output.dense cls.predictions.transform.dense intermediate.dense output.dense" "$(adapted dense)"
check targets/peft '"target_modules": ["intermediate.dense","query"],' "$("$GEN" -d graph tests/train/recipes/mlm_bert.lua \
    lora.rank=4 lora.targets=query,intermediate.dense | sed -n '/target_modules/,/]/s/^|//p' | tr -d '\n ' |
    sed 's/:/: /')"

# ---- gpus=all without a cluster: the GPUs that this machine's driver shows
shown() {
    unshare -rm sh -c 'mount -t tmpfs none /proc/driver && mkdir -p /proc/driver/nvidia/gpus/1 &&
        mkdir /proc/driver/nvidia/gpus/2 /proc/driver/nvidia/gpus/3 && "$@"' _ "$GEN" -d config recipes/ad.lua gpus=all |
        grep '^gpus'
}
if unshare -rm mount -t tmpfs none /proc/driver 2>/dev/null; then
    check gpus/machine "gpus = 3  # command line" "$(shown)"
    check gpus/visible "gpus = 2  # command line" "$(CUDA_VISIBLE_DEVICES=0,1 shown)"
fi
check gpus/cpu "gen: gpus: all means the GPUs of the cluster, or else of this machine, whose driver shows none to a CPU program: add \
cluster=NAME (gen list clusters), or give a number" "$("$GEN" -d config recipes/mlm_imdb.lua gpus=all 2>&1)"

# ---- gen/env.sh, read from another folder
root=$PWD
check env.sh "$PWD/out/.gen/gen" "$(cd / && env -i PATH=/usr/bin:/bin bash -c '. "$1"/gen/env.sh && command -v gen' _ "$root")"
check env.sh/sh "$PWD/out/.gen/gen" "$(env -i PATH=/usr/bin:/bin sh -c '. gen/env.sh && command -v gen')"

# ---- gen diff: the same, words, another recipe; nothing is written
D=recipes/cpu_tiny.lua
printf 'return extend(use "cpu_tiny", { about = "another" })' >"$T/copy.lua"
check diff/same "0 " "$("$GEN" diff $D "$T/copy.lua"; echo "$? ")"
"$GEN" diff $D recipes/cpu_tiny_lora.lua >"$T/diff"
check diff/status 1 $?
"$GEN" diff recipes/darkroom_ppo.lua ppo.gamma=0.9 >"$T/diff.whole"
check diff/whole "1   ppo.gamma                    0.99 -> 0.9" "$? $(tail -n 1 "$T/diff.whole")"
for line in '^  lora.rank                    0 -> 8$' '^  parameters_trained              842,624           65,536 ' \
    '^  bytes_optimiser ' '^  token_flop ' '^  only in B             .*kernels/cpu/lora.h'; do
    check "diff: $line" 1 "$(grep -c -- "$line" "$T/diff")"
done
said diff $D batch.micro=4 $D batch.micro=8 batch.accum=2 >"$T/words"
check diff/words "batch.micro 4 8 batch.accum 1 2 512 2048" "$(ask words 'fields[0].name' 'fields[0].a' 'fields[0].b' \
    'fields[1].name' 'fields[1].a' 'fields[1].b' numbers.step_tokens.a numbers.step_tokens.b)"
said diff $D run.lr=0.001 >"$T/words"
check diff/one "run.lr 0.003 0.001 false $(ask plan.cpu_tiny device_bytes)" "$(ask words 'fields[0].name' 'fields[0].a' 'fields[0].b' \
    same numbers.device_bytes.b)"
check diff/alone "gen: diff: add a second recipe, or FIELD=VALUE words to compare the first with" "$("$GEN" diff $D 2>&1)"
check diff/three "gen: diff: $D: takes at most two recipes, each followed by FIELD=VALUE words" "$("$GEN" diff $D $D $D 2>&1)"
mkdir "$T/empty"
check diff/nothing_written "1 0" "$(cd "$T/empty" && "$root/$GEN" diff cpu_tiny cpu_tiny_lora >"$T/diff.empty"
    echo "$? $(find . -mindepth 1 | wc -l)")"

# ---- completion of every position, by bash's own function
"$GEN" completion bash >"$T/completion" && . "$T/completion"
completes() {                                 # what is offered, words; the last is being written
    local want=$1
    shift
    COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
    case $1 in gen) _gen ;; *) _diecast_train ;; esac
    check "completion: $*" "$want" "$(echo "${COMPREPLY[@]:0:8}")"
}
completes info gen inf
completes "cpu_tiny cpu_tiny_llama cpu_tiny_lora" gen cpu_tin
completes "cpu_tiny cpu_tiny_llama cpu_tiny_lora" gen plan cpu_tin
completes batch.micro= gen info cpu_tiny batch.mi
completes "fp32 bf16 fp16" gen info cpu_tiny precision =
completes bf16 gen info cpu_tiny gpus = 2 precision = b
completes "cosine cosine_with_min_lr cosine_with_restarts" gen cpu_tiny run.schedule = cos
completes "--card" gen plan x --ca
completes "h100 h100-nvl" gen plan x --card h1
completes "--gpus" gen fit x --gp
completes "recipes/dreamprm_full_4x24.lua recipes/dreamprm_full.lua recipes/dreamprm_full_40gb.lua" gen fit recipes/dreamprm_full
completes graph gen -d gr
completes "cards" gen list ca
completes "adapter=" gen list recipes adap
completes "lora" gen list recipes adapter = l
completes "lora.rank" gen explain lora.ra
completes "recipes/cpu_tiny_lora.lua" gen diff cpu_tiny recipes/cpu_tiny_lo
completes "windows" gen pack --format win
completes "bash" gen completion ""
completes "--warmup --warmup-round" run.sh --warm
completes "up down" run.sh --data x --warmup-round ""
completes "true" train --keep-best t

# ---- make install
make -s install PREFIX="$T/pre fix" >/dev/null
check install/files "completions/gen" \
    "$(cd "$T/pre fix/share" && find . -type f | sed 's,.*/\([^/]*/[^/]*\)$,\1,' | sort | paste -sd' ')"

exit $failed
