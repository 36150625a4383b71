#!/bin/bash
# Pairs of runs that have to agree: bit for bit (resumed, run twice, recomputed), or to fp32's last
# bits with the PyTorch reference (ranks, micro-batches, chunks of the loss, kernels one by one).
source "$(dirname "$0")/lib.sh"

# NAME RECIPE FIELDS: the programs of this script
programs="
gpt2_tiny gpt2_tiny
gpt2_tiny.bf16 gpt2_tiny precision=bf16
llama_tiny.bf16 llama_tiny precision=bf16
llama_rows llama_rows
qwen2_lora qwen2_lora
qwen2_dropout qwen2_dropout
qwen2_dropout.bf16 qwen2_dropout precision=bf16
gpt2_dropout gpt2_dropout
gpt2_dropout.again gpt2_dropout memory.recompute=block
gpt2_dropout.norms gpt2_dropout memory.recompute=block memory.keep=norms,att
gpt2_dropout.act gpt2_dropout memory.recompute=block memory.keep=o,act
qwen2_dropout.bf16.again qwen2_dropout precision=bf16 memory.recompute=block
qwen2_dropout.bf16.qkv qwen2_dropout precision=bf16 memory.recompute=block memory.keep=qkv,gate_up
qwen2_dropout.bf16.all qwen2_dropout precision=bf16 memory.recompute=block memory.keep=norms,qkv,att,o,gate_up,act
gpt2_tiny.1x4x2 gpt2_tiny batch.micro=2 batch.accum=4
gpt2_tiny.4x1x2 gpt2_tiny gpus=4 batch.micro=2 batch.accum=1
gpt2_tiny.2x2x2 gpt2_tiny gpus=2 batch.micro=2 batch.accum=2
qwen2_dropout.2x1x4 qwen2_dropout gpus=2 batch.accum=1
gpt2_tiny.rows64 gpt2_tiny memory.loss_rows=64
llama_rows.apart llama_rows kernels.fuse=false
llama_rows.few llama_rows batch.targets=96
llama_rows.3x2x1 llama_rows gpus=3 batch.micro=1
llama_rows.few.2x1x4 llama_rows batch.targets=96 gpus=2 batch.accum=1
qwen2_lora.few qwen2_lora batch.targets=128
llama_rows.read llama_rows batch.targets=96 kernels.last_layer=read
"
[ -z "$FULL" ] || programs+="
llama_tiny.bf16.again llama_tiny precision=bf16 memory.recompute=block
llama_tiny llama_tiny
llama_tiny.again llama_tiny memory.recompute=block
qwen2_dropout.again qwen2_dropout memory.recompute=block
gpt2_tiny.1x1x8 gpt2_tiny batch.micro=8 batch.accum=1
gpt2_tiny.rows16 gpt2_tiny memory.loss_rows=16
gpt2_tiny.rows128 gpt2_tiny memory.loss_rows=128
gpt2_tiny.apart gpt2_tiny kernels.fuse=false
gpt2_tiny.few gpt2_tiny batch.targets=128
llama_rows.2x1x4 llama_rows gpus=2 batch.accum=1
llama_rows.few.bf16 llama_rows batch.targets=96 precision=bf16
qwen2_dropout.apart qwen2_dropout kernels.fuse=false
gpt2_dropout.2x2x2 gpt2_dropout gpus=2 batch.micro=2
"
programs <<<"$programs"
verdict "no files of four ranks need each other in a circle" "$(needs $work/gpt2_tiny.4x1x2/.obj | circles)"

# ---- straight, twice, resumed --------------------------------------------------

# A resumed run takes the steps after its checkpoint twice. All steps twice: shipped programs; FULL=1: all.
for name in gpt2_tiny{,.bf16} llama_rows{,.few} qwen2_lora qwen2_dropout{,.bf16} llama_tiny.bf16; do
    case=${name%%.*} at="7 1 19"
    [ -n "$FULL" ] || [ $name = gpt2_tiny ] || at=7
    trained $name $case $name --save-every $([ "$at" = 7 ] && echo 7 || echo 1) --save-total-limit 0
    if [ -n "$FULL" ] || as_shipped $name; then
        trained $name $case $name.twice --profile 2
        same "$name twice" $name.twice $name
    fi
    for k in $at; do
        cp -r "$scratch/$name" "$scratch/$name.$k"
        rm -rf "$scratch/$name.$k/DONE"
        for step in $(seq $((k + 1)) 20); do rm -rf "$scratch/$name.$k/checkpoint-$step"; done
        trained $name $case $name.$k
        grep -q "resumed from .*checkpoint-$k\$" "$scratch/$name.$k.log" || verdict "$name resumed at $k" "it was not"
        same "$name resumed at $k" $name.$k $name
    done
done
# other TEST RUN RUN: not the same losses
other() {
    verdict "$1" "$("$work/compare" "$1" history "$scratch/$2" "$scratch/$3" 0 | grep -q '^not ok' || echo "it is not")"
}
trained gpt2_tiny gpt2_tiny seed --seed 43
other "another seed is another run" seed gpt2_tiny

# ---- recomputed --------------------------------------------------

for name in gpt2_dropout ${FULL:+llama_tiny}; do
    trained $name ${name%%.*} $name
done
for name in gpt2_dropout qwen2_dropout.bf16 ${FULL:+llama_tiny.bf16 llama_tiny qwen2_dropout}; do
    trained $name.again ${name%%.*} $name.again
    same "$name recomputed" $name.again $name
done
for name in gpt2_dropout.{norms,act} qwen2_dropout.bf16.{qkv,all}; do
    trained $name ${name%%.*} $name
    same "$name kept" $name ${name%.*}
done

# ---- the same samples in other portions --------------------------------------------------

more="gpt2_tiny.1x1x8 gpt2_tiny.rows16 gpt2_tiny.rows128 gpt2_tiny.apart llama_rows.2x1x4 qwen2_dropout.apart
    gpt2_dropout.2x2x2"
for name in gpt2_tiny.{1x4x2,4x1x2,2x2x2,rows64} qwen2_dropout.2x1x4 llama_rows.apart \
    ${FULL:+$more}; do
    trained $name ${name%%.*} $name --profile 3
    compare $name reference $ref/${name%%.*} "$scratch/$name"
done
for name in qwen2_dropout.2x1x4 gpt2_tiny.twice; do profiled $name; done

for pair in "gpt2_tiny gpt2_tiny.2x2x2" "gpt2_tiny.4x1x2 gpt2_tiny"; do
    read -r first second <<<"$pair"
    name="$first resumed as ${second#gpt2_tiny.}"
    train $first gpt2_tiny moved --save-every 10 --save-total-limit 0
    rm -rf "$scratch/moved/DONE" "$scratch/moved/checkpoint-20"
    cp -r "$scratch/moved" "$scratch/exact"
    trained $second gpt2_tiny moved
    verdict "$name says so" "$(grep -q '^INEXACT RESUME: .*ranks' "$scratch/moved.log" ||
        tail -n 3 "$scratch/moved.log")"
    compare "$name" reference $ref/gpt2_tiny "$scratch/moved"
    train $second gpt2_tiny exact --exact
    code=$?
    verdict "$name --exact" "$([ $code = 83 ] || echo "exit $code: $(tail -n 2 "$scratch/exact.log")")"
    rm -rf "$scratch/moved" "$scratch/exact"
done

# ---- what decides which validation is the best --------------------------------------------------

divided llama_rows.3x2x1 llama_rows eval_loss_token
# Four long rows of what is learned and four of one target that is not: the mean over all targets still falls when
# the mean of the batches' means, eval_loss, has risen for long.
for i in 1 2 3 4; do
    printf '{"prompt":"%s: ","completion":"one two three four five six seven"}\n' $i $((i + 4)) >&3
    printf '{"prompt":"%s%s: ","completion":"one two three four five six seven"}\n' $i $i
done 3>"$scratch/learned.jsonl" >"$scratch/held.jsonl"
for i in 1 2 3 4; do echo '{"prompt":"one two thr","completion":"X"}'; done >>"$scratch/held.jsonl"
best() {                # FLAGS
    "$work/llama_rows/run.sh" --tokenizer bytes --data "$scratch/learned.jsonl" --eval-data "$scratch/held.jsonl" \
        --init-from $ref/llama_rows/model --out "$scratch/best" --eval-every 2 --lr 3e-3 --schedule constant \
        --save-every 0 "$@" >"$scratch/best.log" 2>&1 || verdict best "$(tail -n 2 "$scratch/best.log")"
}
# KEY: the step after which it is least
least() {
    sed -n "s/.*\"$1\": \([^,]*\),.*\"step\": \([1-9][0-9]*\)}\$/\1 \2/p" "$scratch/best/history.jsonl" |
        sort -g | sed -n '1s/.* //p'
}
best --keep-best --patience 3 --steps 60
k=$(least eval_loss_token) last=$(sed -n 's/^stopped early after step \([0-9]*\):.*/\1/p' "$scratch/best.log")
shown=$(sed -n "s,^step $k/60  eval loss \([0-9.]*\) .*,\1,p" "$scratch/best.log")
verdict "the best validation is the one that is shown" "$([ "$(least eval_loss)" -lt $((k - 6)) ] || echo "no test: $k"
    [ "$last" = $((k + 6)) ] || echo "ended after step $last, the best is $k"
    grep -q "^stopped .*: none of the last 3 validations was better than eval loss $shown at step $k (" \
        "$scratch/best.log" || grep '^stopped' "$scratch/best.log"
    grep -q "^the best are in $scratch/best/checkpoint-$k, eval loss $shown at step $k: " "$scratch/best.log" ||
        grep '^the best' "$scratch/best.log"
    grep -q '"best_metric": "loss_token"' "$scratch/best/checkpoint-$last/train_state.json" || echo "no metric")"
# Its checkpoint was removed by hand: said, and no worse one takes its place.
rm -r "$scratch/best/checkpoint-$k"
best --keep-best --patience 0 --steps $((last + 4))
verdict "the best is gone" "$([ "$(grep -c "^warning: .*/checkpoint-$k is gone; .*: eval loss $shown at step $k;" \
        "$scratch/best.log")" = 1 ] || grep '^warning' "$scratch/best.log"
    grep -q "^the best, eval loss $shown at step $k, were in .*checkpoint-$k, which was removed" "$scratch/best.log" ||
        grep '^the best' "$scratch/best.log"
    grep -q '"best_model_checkpoint": null' "$scratch/best/checkpoint-$((last + 4))/trainer_state.json" ||
        echo "another best")"

# ---- only rows with a target go through the head --------------------------------------------------

# The bounds are the least that the data allows (faults.sh has one that is not): 96 of 128 places of four
# rows, all of packed windows. Sums over fewer rows have another order: a few roundings of fp32 in 20 steps.
for name in llama_rows.{few.2x1x4,read} qwen2_lora.few ${FULL:+gpt2_tiny.few}; do trained $name ${name%%.*} $name; done
for name in llama_rows.{few,few.2x1x4,read} qwen2_lora.few ${FULL:+gpt2_tiny.few}; do
    case=${name%%.*}
    compare $name reference $ref/$case "$scratch/$name"
    compare "$name and all rows" history "$scratch/$case" "$scratch/$name" 1e-6
    [ $case = gpt2_tiny ] && continue        # its key biases follow rounding noise: see compare.c
    for file in "$scratch/$name"/checkpoint-20/*model.safetensors; do
        compare "$name and all rows" weights "$scratch/$case/checkpoint-20/${file##*/}" "$file" 2e-6
    done
done
if [ -n "$FULL" ]; then
    trained llama_rows.few.bf16 llama_rows few.bf16
    compare llama_rows.few.bf16 reference $ref/llama_rows "$scratch/few.bf16" 2e-3
fi

# ---- threads --------------------------------------------------

for name in gpt2_tiny{,.bf16} qwen2_lora; do
    for threads in 2 3 4; do
        OMP_NUM_THREADS=$threads trained $name ${name%%.*} $name.x$threads
        same "$name on $threads threads" $name.x$threads $name
    done
done

# ---- memory --------------------------------------------------

# Allocated memory: the plan, and 4 bytes a sample of the data order; each rounded up to pages of 2 MiB when large.
said=$(grep '^plan .* MiB, allocated .* MiB$' "$scratch/gpt2_tiny.log")
bytes=$(sed -n 's/.*\.planned_bytes = INT64_C(\([0-9]*\)).*/\1/p' $work/gpt2_tiny/recipe.h)
want=$(awk -v b="$bytes" 'BEGIN { printf "plan %.1f MiB, allocated %.1f MiB", b / 1048576,
    int((b + 2097151) / 2097152) * 2 + 4096 / 1048576 }')
verdict "memory is what was planned" "$([ "$said" = "$want" ] || echo "said $said, want $want")"
exit $failed
