#!/bin/bash
# Shows the folders that our binaries wrote (tests/train/export.sh) to transformers and PEFT: they load every tensor and
# get the losses that the binaries printed. Needs PYTHON with tests/oracle/requirements.txt; not part of `make test`.
set -u
cd "$(dirname "$0")/../.." || exit 1
PYTHON=${PYTHON:-python3}
ref=tests/train/ref
made=out/.test/train/exported
failed=0
export PYTHONDONTWRITEBYTECODE=1
tests/train/export.sh || failed=1
shows() {               # FOLDER CASE TOLERANCE ARGS...
    local name=$1 case=$2 tolerance=$3
    shift 3
    "$PYTHON" tests/oracle/roundtrip.py "$@" --tokens "$ref/$case/eval.safetensors" --json "$made/$name.json" \
        --length 32 --tolerance "$tolerance" >"$made/$name.log" 2>&1
    local code=$?
    sed "s/^\(ok\|not ok\) /&$name /" "$made/$name.log" | grep -E '^(ok|not ok) '
    [ $code = 0 ] && return
    grep -q '^not ok' "$made/$name.log" || echo "not ok $name: $(tail -n 1 "$made/$name.log")"
    failed=1
}
for name in gpt2_tiny llama_rows qwen2_tiny qwen3_tiny mistral_tiny gemma_tiny gemma3_tiny; do
    shows $name $name 1e-6 --model $made/$name
done
for name in mlm_bert mlm_microbert mdm_llada mlm_lora; do
    case $name in
    mlm_lora) set -- --model $ref/mlm_bert/model --case mlm_bert --adapter $made/$name ;;
    *) set -- --model $made/$name --case $name --again $made/$name.again ;;
    esac
    "$PYTHON" tests/oracle/masked.py "$@" --json $made/$name.json >"$made/$name.log" 2>&1 || failed=1
    sed "s/^\(ok\|not ok\) /&$name /" $made/$name.log | grep -E '^(ok|not ok) ' || echo "not ok $name: $(tail -n 1 $made/$name.log)"
done
# what transformers has written again, our binary takes
out/.test/train/mlm_bert/train --eval-only --eval-data $ref/mlm_bert/eval.safetensors --init-from $made/mlm_bert.again \
    >"$made/again.json" 2>"$made/again.log" || failed=1
if cmp -s $made/mlm_bert.json $made/again.json; then
    echo "ok mlm_bert written again"
else
    echo "not ok mlm_bert written again: $(cat $made/again.json) $(tail -n 1 $made/again.log)"
    failed=1
fi
# process reward models: what `--score` said
tests/train/prm.sh >"$made/prm.log" || failed=1
"$PYTHON" tests/oracle/scores.py out/.test/train/prm_exported/{base,adapter,merged,train.jsonl,scores} || failed=1
for name in qwen2_lora qwen2_rslora qwen3_lora mistral_lora gemma_lora gemma3_lora; do
    shows $name $name 1e-6 --base $ref/$name/model --adapter $made/$name
    shows $name.merged $name 1e-6 --model $made/$name.merged
done
shows gpt2_lora gpt2_tiny 1e-6 --base $ref/gpt2_tiny/model --adapter $made/gpt2_lora
shows gpt2_lora.merged gpt2_tiny 1e-6 --model $made/gpt2_lora.merged
shows gpt2_tiny.as_bf16 gpt2_tiny 1e-6 --model $made/gpt2_tiny.as_bf16
shows qwen2_lora.as_fp16 qwen2_lora 1e-6 --model $made/qwen2_lora.as_fp16
# bf16 programs round their activations as well: a rounding of the loss
shows gpt2_tiny.bf16 gpt2_tiny 2e-3 --model $made/gpt2_tiny.bf16
shows qwen2_lora.bf16 qwen2_lora 2e-3 --base $ref/qwen2_lora/model --adapter $made/qwen2_lora.bf16
# what TensorBoard and pandas read of a run, here of one that was killed and went on
goes() {
    out/.test/train/gpt2_tiny/train --data $ref/gpt2_tiny/tokens.safetensors --eval-data $ref/gpt2_tiny/eval.safetensors \
        --init-from $ref/gpt2_tiny/model --threads 1 --save-every 3 --out $made/run >$made/run.log 2>&1
}
rm -rf $made/run
(DIECAST_FAULT=kill9:rank=0:step=8 goes)
goes || failed=1
"$PYTHON" tests/oracle/events.py $made/run 2>$made/events.log || failed=1
"$PYTHON" tests/oracle/cards.py $made/{gpt2_tiny,llama_rows,qwen2_tiny,mlm_bert,qwen2_lora.merged,gpt2_tiny.as_bf16} \
    $made/qwen2_lora=$ref/qwen2_lora/model $made/gpt2_lora=$ref/gpt2_tiny/model $made/{chat,chat_merged,bytes} $made/odd_{gpt2_tiny,llama_rows,qwen2_tiny,qwen3_tiny}.again \
    $made/chat_lora=$made/chat_base 2>"$made/cards.log" || failed=1
exit $failed
