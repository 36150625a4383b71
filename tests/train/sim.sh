#!/bin/bash
# The CUDA target end to end without a GPU: emitted programs, unchanged, on the simulator of
# tests/sim, against the PyTorch reference and against each other. fp32 to the same bounds as the CPU
# target; bf16 and fp16 losses to 2e-3, one rounding of a bf16 number.
# BACKEND=gpu: the same on a real GPU (make gpu-check). BUILD=1: builds the programs, runs none.
export BACKEND=${BACKEND:-sim}
source "$(dirname "$0")/lib.sh"

# NAME RECIPE FIELDS: each of gen's types, kinds of data and ways through the adapters once, families, ranks; FULL: also
# mistral, gemma and the families of the tests, whose kernels these have
programs="
gpt2_tiny gpt2_tiny
gpt2_dropout.fp16 gpt2_dropout precision=fp16
llama_tiny.bf16 llama_tiny precision=bf16 memory.ffn_rows=16 kernels.logits=16bit
llama_rows llama_rows
qwen2_lora qwen2_lora
qwen2_lora.folded qwen2_lora lora.fold=all kernels.fuse=false
qwen2_nf4.folded qwen2_nf4 lora.fold=all
qwen2_nf4.bf16 qwen2_nf4 precision=bf16 memory.ffn_rows=16
qwen2_dropout.folded qwen2_dropout lora.fold=all
qwen2_eight.bf16 qwen2_eight precision=bf16 lora.fold=all
qwen2_rslora.bf16 qwen2_rslora precision=bf16
qwen2_rslora.bf16.host qwen2_rslora precision=bf16 memory.embedding=host
gemma3_lora.fp16 gemma3_lora precision=fp16
qwen3_tiny.bf16 qwen3_tiny precision=bf16
mlm_microbert.fp16 mlm_microbert precision=fp16 memory.ffn_rows=16 kernels.logits=16bit
dpo_sum.fp16 dpo_sum precision=fp16 dpo.shared_prompt=true seq.max=48
mdm_sft.fp16 mdm_sft precision=fp16 kernels.logits=16bit
ad_all.fp16 ad_all precision=fp16
mlm_dropout.read mlm_dropout kernels.last_layer=read
"
ranks="
gpt2_tiny.4x1x2 gpt2_tiny gpus=4 batch.micro=2 batch.accum=1
qwen2_dropout.folded.2x2x2 qwen2_dropout lora.fold=all gpus=2 batch.micro=2 comm.overlap=all
"
# without a reference of their own
others="
dpo_lora.off dpo_lora lora.fold=all dpo.reference=adapter_off dpo.kl=token dpo.kl_weight=3
"
if [ -n "$FULL" ]; then
    others+="dpo_token dpo_mean dpo.kl=token dpo.reference=copy
"
    programs+="
gpt2_tiny.fp16 gpt2_tiny precision=fp16
gpt2_dropout gpt2_dropout memory.recompute=block
qwen2_tiny.bf16.8x1 qwen2_tiny precision=bf16 batch.micro=8 batch.accum=1
post_norm.bf16 post_norm precision=bf16
norm_then_residual norm_then_residual memory.recompute=block
post_norm post_norm memory.recompute=block
norm_then_residual.bf16 norm_then_residual precision=bf16
post_lora post_lora
gpt2_tiny.bf16 gpt2_tiny precision=bf16
two_stacks two_stacks memory.recompute=block
typed typed
llama_tiny llama_tiny
gpt2_bfd gpt2_bfd
llama_bfd.bf16 llama_bfd precision=bf16
llama_rows.few llama_rows batch.targets=96
mlm_bert.bf16 mlm_bert precision=bf16
mdm_encoder mdm_encoder
dpo_mean dpo_mean
dpo_lora.folded dpo_lora lora.fold=all
qwen2_tiny.bf16 qwen2_tiny precision=bf16
gpt2_tiny.bf16.8x1 gpt2_tiny precision=bf16 batch.micro=8 batch.accum=1
qwen2_lora.bf16 qwen2_lora precision=bf16
qwen2_eight.bf16.apart qwen2_eight precision=bf16 lora.fold=all kernels.fuse=false
qwen2_eight.fp16.again qwen2_eight precision=fp16 lora.fold=all memory.recompute=block
gemma_tiny gemma_tiny
gemma_tiny.bf16 gemma_tiny precision=bf16
mistral_tiny mistral_tiny
gemma3_tiny gemma3_tiny
gemma3_tiny.bf16 gemma3_tiny precision=bf16
gemma_lora.folded gemma_lora lora.fold=all
qwen3_tiny qwen3_tiny
qwen3_lora qwen3_lora
mistral_lora.bf16 mistral_lora precision=bf16
qwen2_dropout qwen2_dropout
qwen2_dropout.bf16 qwen2_dropout precision=bf16
qwen2_dropout.folded.again qwen2_dropout lora.fold=all memory.recompute=block
gpt2_tiny.launches gpt2_tiny kernels.graph=false
gpt2_tiny.bf16.again gpt2_tiny precision=bf16 memory.recompute=block
llama_rows.apart llama_rows kernels.fuse=false
gpt2_tiny.bf16.apart gpt2_tiny precision=bf16 kernels.fuse=false
"
    ranks+="
gpt2_tiny.2x2x2 gpt2_tiny gpus=2 batch.micro=2 batch.accum=2 comm.overlap=all
qwen2_dropout.2x1x4 qwen2_dropout gpus=2 batch.accum=1 comm.overlap=all
mdm_llada.bf16.2x1x4 mdm_llada precision=bf16 gpus=2 batch.accum=1
ad_one.2x1 ad_one gpus=2 batch.accum=1
"
    others+="
gpt2_lora gpt2_lora
gpt2_lora.folded gpt2_lora lora.fold=all kernels.fuse=false
"
fi
# a level above, which learns what records count
levels="
prm_instance.bf16 prm_instance precision=bf16
"
[ $BACKEND = gpu ] || levels+="prm_instance.2x1x2 prm_instance gpus=2 batch.accum=1
"
[ -z "$FULL" ] || levels+="prm_instance prm_instance
prm_lora prm_lora
"
[ $BACKEND = gpu ] || programs+=$ranks
programs <<<"$programs$others$levels"
[ -z "${BUILD:-}" ] || exit 0
[ $BACKEND = gpu ] || verdict "objects of one rank, and of four, have a use" \
    "$(unreached $work/gpt2_tiny; unreached $work/gpt2_tiny.4x1x2)"
[ $BACKEND = gpu ] || verdict "no files of four ranks need each other in a circle" \
    "$(needs $work/gpt2_tiny.4x1x2/.obj | circles)"

# a loss of few words, each of which counts much: roundings of three times as much
bound_of() { case $1 in mdm_llada.bf16*) echo 6e-3 ;; *.bf16* | *.fp16*) echo 2e-3 ;; esac; }

# ---- the reference --------------------------------------------------

# on a GPU one at a time, whose memory is looked at; one that fails leaves nothing to compare
[ $BACKEND = sim ] || cores=1
at=$([ -n "$FULL" ] && echo 7 || echo 2)       # steps before each checkpoint
# five steps, which are those of rising rates; adapters in fp32 and all weights in fp16 (mlm_microbert) go on to the end
few() {
    case ${FULL:-$1} in
    gpt2* | llama* | qwen2_dropout* | qwen2_eight* | qwen2_rslora* | gemma* | qwen3*) ;;
    *) false ;;
    esac
}
# five steps of a schedule that knows of all of them: killed in the sixth
cut() {
    case ${FULL:-$1} in
    dpo_sum.fp16 | ad_all.fp16 | mdm_sft.fp16 | mlm_dropout.read) ;;
    *) false ;;
    esac
}
while read -r name words; do
    [ -n "$name" ] || continue
    while [ "$(jobs -rp | wc -l)" -ge "$cores" ]; do wait -n; done
    if cut "$name"; then
        {
            DIECAST_FAULT=kill9:rank=0:step=6 train "$name" "${name%%.*}" "$name" &&
                verdict "$name killed" "it was not"
            verdict "$name steps" "$([ "$(losses "$scratch/$name" | wc -l)" = 5 ] || tail -n 3 "$scratch/$name.log")"
        } 2>/dev/null &
        continue
    fi
    # shellcheck disable=SC2046
    trained "$name" "${name%%.*}" "$name" --save-every $at --save-total-limit 0 $(few "$name" && echo --steps 5) \
        $([[ $name != *.*x* ]] || echo --profile 2) &
done <<<"$programs"
wait
while read -r name words; do
    [ -n "$name" ] || continue
    case=${name%%.*}
    against=reference
    ! { few "$name" || cut "$name"; } || against=beginning
    # shellcheck disable=SC2046
    compare "$name" $against "$ref/$case" "$scratch/$name" $(bound_of "$name")
done <<<"$programs"

# ---- pairs --------------------------------------------------

# checked.sh has a program without graph, that computes again, and one with
if [ -n "$FULL" ]; then
    same "graph on and off" gpt2_tiny.launches gpt2_tiny
    same "bf16 recomputed" gpt2_tiny.bf16.again gpt2_tiny.bf16
    same "folded recomputed" qwen2_dropout.folded.again qwen2_dropout.folded
fi
same "embedding on the host and on the device" qwen2_rslora.bf16.host qwen2_rslora.bf16 $([ -n "$FULL" ] || echo 5)
# Resumed: the same bits as straight, which the steps after the checkpoint so take twice.
for name in gpt2_dropout.fp16 qwen2_dropout.folded ${FULL:+gpt2_tiny.bf16 qwen2_dropout}; do
    case=${name%%.*}
    cp -r "$scratch/$name" "$scratch/$name.resumed"
    find "$scratch/$name.resumed" -name DONE -o -name 'checkpoint-*' ! -name checkpoint-$at | xargs rm -r
    # shellcheck disable=SC2046
    trained $name $case $name.resumed $(few "$name" && echo --steps 5) --profile 1
    grep -q "resumed from .*checkpoint-$at\$" "$scratch/$name.resumed.log" || verdict "$name resumed" "it was not"
    same "$name resumed" $name.resumed $name $([ -n "$FULL" ] || echo 5)
done
# another order of sums is named, at the start and where a run goes on
if [ $BACKEND = sim ]; then
    cp -r "$scratch/qwen2_dropout.folded.2x2x2" "$scratch/ordered"
    rm -r "$scratch/ordered"/{DONE,checkpoint-5}
    NCCL_ALGO=Tree trained qwen2_dropout.folded.2x2x2 qwen2_dropout ordered --steps 5
    verdict "another order of sums" "$(for said in 'INEXACT RESUME: NCCL_ALGO "Ring" -> "Tree"; restore' \
        '  nccl       NCCL_ALGO=Tree: the last bits of sums'; do
        grep -q "^$said" "$scratch/ordered.log" || echo "$said is missing: $(head -n 4 "$scratch/ordered.log")"
    done)"
fi
# Collectives during the step, as late as events allow: the same bits. A program whose norm is taken before it waits for
# the sums has them only where they are early.
if [ $BACKEND = sim ]; then
    name=qwen2_dropout.folded.2x2x2
    steps=$(few $name && echo --steps 5)
    # shellcheck disable=SC2086
    DIECAST_SIM_COLLECTIVES=late trained $name qwen2_dropout late $steps
    same "late collectives" late $name $([ -n "$FULL" ] || echo 5)
    cp -r "$work/$name" "$scratch/unwaited"
    sed -i '/^ *comm_allreduce_join(s);/d; /^static void run_update(/,/^{/s/^{/{ comm_allreduce_join(s);/' \
        "$scratch/unwaited/step.cu"
    make_in_haste "$scratch/unwaited" "${tools[@]}" >"$scratch/unwaited.log" 2>&1 ||
        verdict "sums too early" "$(tail -n 2 "$scratch/unwaited.log")"
    norms() { grep -o '"grad_norm": [^,]*' "$scratch/$1/history.jsonl"; }
    for when in early late; do
        # shellcheck disable=SC2086
        DIECAST_SIM_COLLECTIVES=$when work=$scratch trained unwaited qwen2_dropout $when.unwaited $steps
    done
    verdict "sums too early" "$(grep -c 'comm_allreduce_join(s)' "$scratch/unwaited/step.cu" | grep -vx 1
        diff <(norms early.unwaited) <(norms $name)
        ! diff <(norms late.unwaited) <(norms $name) >/dev/null || echo "late ones have the same norms")"
fi
# calls one by one, after and before graphs; ranks, whose sums run in parallel
for name in gpt2_dropout.fp16.resumed $([ $BACKEND = gpu ] || echo qwen2_dropout.folded.2x2x2); do profiled $name; done

# ---- how busy the GPU is ---------------------------------------------------

# a library that says what it is told to (tests/sim/nvml.c), and none
if [ $BACKEND = sim ]; then
    mkdir "$scratch/nvml"
    gcc -shared -fPIC -O1 -o "$scratch/nvml/libnvidia-ml.so.1" tests/sim/nvml.c ||
        verdict "tests/sim/nvml.c" "does not compile"
    busy() {            # MODE WANTED: behind the time left
        LD_LIBRARY_PATH=$scratch/nvml${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} FAKE_NVML=$1 \
            train gpt2_tiny gpt2_tiny "busy.$1" --steps 1 --log-every 1 || tail -n 2 "$scratch/busy.$1.log"
        verdict "use of the GPU: $1" "$(grep -q "^step 1/1 .*  left 0:00:00$2\$" "$scratch/busy.$1.log" ||
            grep '^step 1' "$scratch/busy.$1.log"
            grep -q "^  GPU of rank 0    Simulated GPU sm_90 ([^)]*)$3, [0-9.]* of 80.0 GiB in use\$" \
                "$scratch/busy.$1.log" ||
            grep '^  GPU' "$scratch/busy.$1.log")"
    }
    busy good "  GPU 87 % 61.0\/80.0 GiB" ", 87 % busy"
    verdict "a start says which GPU, of how many" "$(grep -q \
        "CPUs\{0,1\} and Simulated GPU sm_90, [1-9][0-9]* GPUs\{0,1\} visible, of " "$scratch/busy.good.log" ||
        sed -n 2p "$scratch/busy.good.log")"
    for mode in failing absurd dead unknown; do busy $mode "" ""; done
    [ ! -e /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1 ] &&
        verdict "use of the GPU: no library" "$(grep -h 'GPU [0-9]\|nvidia' "$scratch/gpt2_tiny.log")"
fi

# ---- memory: gpu/check.sh goes by these figures --------------------------------------------------

for name in $([ $BACKEND = gpu ] || echo gpt2_tiny qwen2_nf4.folded qwen2_rslora.bf16.host); do
    "$work/$name/train" --bench-steps 1 --out "$scratch/bench" >"$scratch/line" 2>"$scratch/log" ||
        verdict "--bench-steps" "exit $?: $(tail -n 1 "$scratch/log")"
    read -r planned allocated < <(bench_memory "$scratch/line")
    want=$(sed -n 's/^#define PLAN_BYTES INT64_C(\([0-9]*\))/\1/p' "$work/$name/plan.h")
    verdict "$name: bytes planned and allocated" "$([ "$planned" = "$want" ] && [ "${allocated:-0}" -ge "$want" ] &&
        [ "$allocated" -lt $((want + 1048576)) ] || echo "plan.h: $want; $(cat "$scratch/line")")"
done

# ---- the logits of one row --------------------------------------------------

# five words that fp16 finds at least nearly as likely as fp64
said=$("$work/mlm_microbert.fp16/run.sh" --out "$scratch/mlm_microbert.fp16" --probe "w10 w150 [MASK] w20 w7" \
    2>"$scratch/log")
verdict "probing" "$(grep -o '"  0\.[0-9]*  [^"]*"' $ref/mlm_microbert/expect.json | tr -d '"' |
    paste - <(tail -n +2 <<<"$said") |
    awk '{ off = $1 - $3; words++ } off * off > 4e-8 { print } END { if (words != 5) print words " words" }'
    grep '^rank' "$scratch/log")"

# ---- texts --------------------------------------------------

# hidden tokens are found as by PyTorch in fp64, which fp16 finds at least nearly as likely
case=$ref/mdm_llada
sed -n 's/.*"prompt": "\(.*\)",/\1/p' $case/generated.json | head -n 5 >"$scratch/prompts.txt"
# shellcheck disable=SC2046
said=$("$work/mdm_sft.fp16/run.sh" --init-from $case/model --tokenizer $case/tokenizer.json --out "$scratch/none" \
    --generate-file "$scratch/prompts.txt" $(sed -n 's/.*"flags": "\(.*\)",/\1/p' $case/generated.json | head -n 1) \
    2>"$scratch/log")
verdict "generation" "$(diff <(sed 's/.*"answer":\(.*\)}/\1/' <<<"$said") \
    <(sed -n 's/^ *"answer": //p' $case/generated.json | head -n 5)
    grep '^rank' "$scratch/log")"

# ---- a reference next to the model: its layers without the adapters after their columns; its distributions -----------

"$work/dpo_lora.off/run.sh" --data $ref/dpo_lora/tokens.safetensors --eval-data $ref/dpo_lora/eval.safetensors \
    --init-from $ref/dpo_lora/model \
    --steps 3 --out "$scratch/off" >"$scratch/log" 2>&1 || verdict "adapters off" "$(tail -n 1 "$scratch/log")"
verdict "adapters off" "$(sed -n 's/.*"loss": \([0-9.]*\).*"margin": \([-0-9.e]*\).*/\1 \2/p' \
    "$scratch/off/history.jsonl" | awk '
    NR == 1 && ($1 - 0.6931471824645996) ^ 2 < 1e-13 && $2 ^ 2 < 1e-9 { good++ } NR > 1 && $2 ^ 2 > 1e-6 { good++ }
    END { if (good != 3) print good " of 3 steps as they should be" }')"

# ---- a level above ---------------------------------------------------------------------------------------------------

# Two steps, whose scores are of sums of four margins, each with a rounding: PyTorch's own in bf16 are off by 7e-3.
# After them weights of records are learned from the roundings, too.
trained prm_instance.bf16 prm_instance prm_instance.bf16 --save-total-limit 0 --steps 2
compare prm_instance.bf16 beginning $ref/prm_instance "$scratch/prm_instance.bf16" 1e-2
if [ -n "$FULL" ]; then
    for name in prm_instance prm_lora $([ $BACKEND = gpu ] || echo prm_instance.2x1x2); do
        trained $name ${name%%.*} $name --save-total-limit 0
        # of differences of losses the weights are compared on the CPU
        compare $name $([ $name = prm_lora ] && echo beginning || echo reference) $ref/${name%%.*} "$scratch/$name"
    done
elif [ $BACKEND = sim ]; then    # four steps of twenty, in which weights of records count from the third on
    DIECAST_FAULT=kill9:rank=0:step=5 train prm_instance.2x1x2 prm_instance prm_instance.2x1x2 &&
        verdict "prm_instance.2x1x2 killed" "it was not"
    compare prm_instance.2x1x2 beginning $ref/prm_instance "$scratch/prm_instance.2x1x2"
    verdict "prm_instance.2x1x2 steps" "$([ "$(losses "$scratch/prm_instance.2x1x2" | wc -l)" = 4 ] ||
        tail -n 3 "$scratch/prm_instance.2x1x2.log")"
fi

if [ -n "$FULL" ]; then
    trained dpo_token dpo_mean dpo_token
    verdict "divergences of tokens, of trained heads" "$(dpo_variant token | as_ten dpo_token)"
fi

# ---- adapters in the products of their layers --------------------------------------------------

folded() { grep -q ' lora_fold(' "$work/$1/step.cu" && echo yes; }
verdict "folded where it pays" \
    "$([ "$(folded qwen2_rslora.bf16)$(folded qwen2_lora)" = yes ] || echo "in fp32, or not in bf16")"
verdict "gradients of outputs read once" \
    "$([ "$(grep -cE ' (lora_dy|gated_bwd_lora_dx)<' "$work/qwen2_eight.bf16/step.cu")" = 4 ] || echo "not in all layers")"
# The same sums of fp32 in another order: 20 steps at a rate of 1e-2 make 1e-5 of a few times 2^-24.
for name in ${FULL:+gpt2_lora gpt2_lora.folded}; do
    trained $name gpt2_tiny $name
done
for name in qwen2_lora ${FULL:+gpt2_lora}; do
    compare "$name folded and apart" history "$scratch/$name.folded" "$scratch/$name" 1e-5
    # rows of weights with room after them: what is written is what the other program writes
    for program in $name $name.folded; do
        "$work/$program/run.sh" --out "$scratch/$name.folded" --merge-lora "$scratch/$program.merged" \
            >"$scratch/log" 2>&1 || verdict "$program merges" "exit $?: $(tail -n 1 "$scratch/log")"
    done
    # drawn one at a time with the same random numbers: sums in another order change the last bits of logits only
    for program in $name $name.folded; do
        "$work/$program/run.sh" --out "$scratch/$name.folded" --sample "The " --tokenizer bytes \
            --max-new-tokens 16 >"$scratch/$program.said" 2>"$scratch/log" ||
            verdict "$program samples" "exit $?: $(tail -n 1 "$scratch/log")"
    done
    verdict "$name, continued by both" "$(cmp "$scratch/$name.said" "$scratch/$name.folded.said" 2>&1)"
    verdict "$name, merged by both" "$(cmp "$scratch/$name.merged/model.safetensors" \
        "$scratch/$name.folded.merged/model.safetensors" 2>&1)"
done

# ---- ranks that differ, and that compute wrongly --------------------------------------------------

if [ $BACKEND != gpu ]; then
    host=127.$((1 + $$ / 65536)).$(($$ / 256 % 256)).$(($$ % 256))    # this host: ours alone
    for r in 1 0; do
        RANK=$r WORLD_SIZE=2 LOCAL_RANK=$r LOCAL_WORLD_SIZE=2 DIECAST_ADDR=$host DIECAST_PORT=21000 \
            DIECAST_SECRET=x timeout 300 "$work/qwen2_dropout.folded.2x2x2/train" \
            --data $ref/qwen2_dropout/tokens.safetensors --steps 3 \
            --lr 1e-$((3 + r)) --out "$scratch/parted" >"$scratch/parted.$r" 2>&1 &
        pids[r]=$!
    done
    for r in 0 1; do
        wait "${pids[r]}"
        code=$?
        verdict "other flags, rank $r" "$([ $code = 83 ] || echo "exit $code"
            grep -q "^rank $r .*--lr is 0.001 on rank 0, 0.0001 on rank 1" "$scratch/parted.$r" ||
                tail -n 2 "$scratch/parted.$r")"
    done
    # struck NAME FAULT CODE TEXT PROGRAM: its run ends so
    struck() {
        local code
        DIECAST_FAULT=$2 train $5 ${5%%.*} struck --save-every 2 --steps 3
        code=$?
        verdict "$1" "$([ $code = "$3" ] || echo "exit $code"
            grep -q "^rank 0 .*$4" "$scratch/struck.log" || tail -n 3 "$scratch/struck.log")"
        rm -rf "$scratch/struck"
    }
    struck "weights of one of four ranks" flip:rank=2:step=1 94 \
        "rank 2 (.*) has different weights or moments from the other ranks: faulty memory" gpt2_tiny.4x1x2
    struck "a gradient of one rank is none" nan:rank=1:step=2 87 "gradient norm -*nan" qwen2_dropout.folded.2x2x2
fi

# ---- one weight file for all targets --------------------------------------------------

# The same weights, sums of fp32 in another order: a few times 2^-24 in a mean loss, far below 1e-6.

if [ $BACKEND = gpu ] && ! gcc -E -x c - <<<'#include <dnnl.h>' >/dev/null 2>&1; then
    echo "skipped: a checkpoint of the GPU target on the CPU needs oneDNN"
    exit $failed
fi
out=$scratch/gpt2_tiny
said=$("$work/gpt2_tiny/run.sh" --out "$out" --eval-only --eval-data $ref/gpt2_tiny/eval.safetensors 2>"$scratch/log")
# the very program that the parts of the CPU target use at the same time: another key would rebuild it under them
BACKEND=cpu work=out/.test/train${FULL:+.full} target=() tools=() flags=$compiled
mkdir -p $work
build gpt2_tiny gpt2_tiny || verdict "the CPU program" "does not build"
cpu=$("$work/gpt2_tiny/run.sh" --out "$out" --eval-only --eval-data $ref/gpt2_tiny/eval.safetensors 2>>"$scratch/log")
verdict "a checkpoint of the GPU target on the CPU" "$(awk -v a="$said" -v b="$cpu" 'BEGIN {
    split(a, x, /[:,]/); split(b, y, /[:,]/); d = (x[2] - y[2]) / y[2]
    if (!(y[2] > 1 && d < 1e-6 && d > -1e-6)) print "losses " x[2] " and " y[2] }')"
exit $failed
