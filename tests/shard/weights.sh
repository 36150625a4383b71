#!/bin/bash
# Weights divided over ranks (memory.zero = 3): the same checkpoints, exports and merged models as of whole weights;
# what is written by one resumes in the other, on any number of ranks; weights from folders; faults.
# FULL=1 (make soak): every kind of file of every kind of program, and every pair of masters.
BACKEND=cpu
source "$(dirname "$0")/lib.sh"

# ---- a model of whole arrays against one of parts

mpicc=$(command -v mpicc.openmpi || echo mpicc)
# shellcheck disable=SC2046
$mpicc -std=c11 -D_GNU_SOURCE= -fopenmp -I. -O1 -Wall -Wextra -Werror -Wno-missing-field-initializers \
    -o "$scratch/weights" tests/shard/weights.c $(sources runtime base device_cpu model model_parts nf4_weights nf4 \
    hf_nf4 weights hf_match hf_config hf_tensors folder names json crc32c safetensors safetensors_write comm \
    comm_rendezvous comm_mpi rendezvous rendezvous_join sha256 launch) -lcjson -lm 2>"$scratch/cc" ||
    verdict weights.c "$(head -n 3 "$scratch/cc")"
for n in 2 3; do
    mpirun --oversubscribe -n $n "$scratch/weights" $n "$scratch" 2>"$scratch/err" >"$scratch/said" ||
        verdict "weights.c on $n ranks" "$(head -n 2 "$scratch/err")"
    sed "s/^\(\(not \)\?ok \)/\1$n ranks, /" "$scratch/said"
    grep -q '^not ok' "$scratch/said" && failed=1
    verdict "weights.c on $n ranks, all checks" "$([ "$(grep -c '^ok' "$scratch/said")" = 53 ] || tail -n 1 "$scratch/said")"
done

# ---- programs

# NAME=CASE: data of that reference case; -: text
kinds="fp32=- remainder=- master=- none=- lora=- nf4=qwen2_nf4 copy=dpo_mean row=prm_head grown=prm_head"
[ -z "$FULL" ] || kinds+=" all=qwen2_lora copies=dpo_lora"
# RANKS.ZERO in canonical order, whose other divisions canonical/run.sh has
orders="1.0 2.3 3.3${FULL:+ 2.1 3.1}"
fields() {
    case $1 in
    fp32) echo shard model.tied=false ;;
    remainder) echo shard precision=bf16 ;;
    master) echo shard precision=bf16 optim.master=fp32 ;;
    none) echo shard precision=bf16 optim.master=none ;;
    lora) echo shard precision=bf16 lora.rank=4 model.tied=false ;;
    all) echo qwen2_lora model.ffn=2048 batch.accum=1 ;;
    nf4) echo qwen2_nf4 model.vocab=2048 model.ffn=4096 batch.accum=1 ;;
    copy) echo dpo_mean model.ffn=1024 batch.accum=1 dpo.reference=copy ;;
    copies) echo dpo_lora model.ffn=1024 batch.accum=1 dpo.reference=copy ;;
    row) echo prm_head model.hidden=256 batch.accum=1 ;;
    grown) echo prm_none model.hidden=256 batch.accum=1 model.vocab=265 prm.new_mark=true precision=bf16 ;;
    esac
}
programs <<<"$(
    for kind in $kinds; do
        for zero in 0 3; do echo "weights.${kind%=*}.$zero $(fields "${kind%=*}") gpus=2 memory.zero=$zero"; done
    done
    echo "weights.grown.1 $(fields grown) gpus=2 memory.zero=1"
    echo "weights.base prm_none model.hidden=256"
    for program in $orders; do
        n=${program%.*}
        echo "weights.order.$program shard comm.order=canonical batch.accum=$((6 / n)) gpus=$n memory.zero=${program#*.}"
    done
)"
for kind in $kinds; do
    verdict "${kind%=*} has divided weights" \
        "$(grep -q '\.weight = {.*, [0-9]*}' "$work/weights.${kind%=*}.3/tensors.h" || echo "none is")"
done
verdict "nf4 has divided codes" "$(grep -q 'EL_NF4, [0-9]' "$work/weights.nf4.3/tensors.h" || echo "none are")"

# on KIND ZERO RUN ARGS...: trains into $scratch/RUN
on() {
    local kind=$1 zero=$2 run=$3 case data
    shift 3
    for case in $kinds; do [ "${case%=*}" != "$kind" ] || break; done
    case=${case#*=} data=(--data "$ref/$case/tokens.safetensors")
    [ "$case" != - ] || data=(--data "$scratch/text.txt" --tokenizer bytes)
    [ ! -e "$ref/$case/meta.safetensors" ] || data+=(--meta-data "$ref/$case/meta.safetensors")
    "$work/weights.$kind.$zero/run.sh" "${data[@]}" --out "$scratch/$run" --steps 8 --save-every 4 --clip 0 "$@" \
        >"$scratch/$run.log" 2>&1
}
trains() { on "$@" || verdict "$3 trains" "exit $?: $(tail -n 2 "$scratch/$3.log")"; }
# folders TEST FOLDER FOLDER: the same weights
folders() {
    local file n=0
    for file in "$scratch/$3"/*.safetensors; do
        n=$((n + 1))
        cmp -s "$file" "$scratch/$2/${file##*/}" || { verdict "$1" "${file#"$scratch/"} differs"; return; }
    done
    verdict "$1" "$([ $n -ge 1 ] || echo "no files")"
}
# writes KIND ZERO FLAG FOLDER ARGS...: of the run KIND.ZERO
writes() {
    local kind=$1 zero=$2 flag=$3 to=$4
    shift 4
    "$work/weights.$kind.$zero/run.sh" --out "$scratch/$kind.$zero" --"$flag" "$scratch/$to" "$@" >"$scratch/$to.log" 2>&1 ||
        verdict "$to" "exit $?: $(tail -n 1 "$scratch/$to.log")"
}

# a base without the mark's row
for way in "--data $ref/prm_instance/tokens.safetensors --init-from none --steps 1" "--export $scratch/start"; do
    # shellcheck disable=SC2086
    "$work/weights.base/train" $way --out "$scratch/base" >"$scratch/base.log" 2>&1 ||
        verdict "a base" "$(tail -n 1 "$scratch/base.log")"
done

# ---- the files of whole weights: checkpoints, exports, merged models

for kind in $kinds; do
    kind=${kind%=*} start=none
    case $kind in row | grown) start=$scratch/start ;; esac
    for zero in 0 3; do
        trains $kind $zero $kind.$zero --init-from "$start"
        case $FULL$kind in
        fp32 | none | row | grown | copy | nf4) ;;
        *) writes $kind $zero export $kind.$zero.export.fp32 --export-dtype fp32 ;;
        esac
        case $FULL$kind in master | none | copy | lora | nf4) ;; *) writes $kind $zero export $kind.$zero.export ;; esac
        ! grep -q 'adapter_json =' "$work/weights.$kind.$zero/recipe.h" || writes $kind $zero merge-lora $kind.$zero.merged
    done
    verdict "$kind, losses" "$(diff <(losses "$scratch/$kind.0") <(losses "$scratch/$kind.3")
        [ "$(losses "$scratch/$kind.3" | wc -l)" = 8 ] || echo "not 8 losses")"
    files "$kind, checkpoints" $kind.3 $kind.0
    for to in export export.fp32 merged; do
        [ ! -e "$scratch/$kind.0.$to" ] || folders "$kind, $to" $kind.3.$to $kind.0.$to
    done
done
trains grown 1 grown.1 --init-from "$scratch/start"
files "a row more, divided states" grown.1 grown.0
for kind in row grown; do
    verdict "$kind: a row more" "$(grep -c 'has one row more than the folder' "$scratch/$kind.3.log" | grep -vx 1)"
done

# ---- weights from a folder

for kind in fp32 remainder ${FULL:+master none}; do
    from=$scratch/remainder.0.export.fp32
    [ $kind != fp32 ] || from=$scratch/fp32.0.export
    for zero in 0 3; do trains $kind $zero $kind.$zero.from --init-from "$from" --seed 3; done
    files "$kind, from a folder" $kind.3.from $kind.0.from
done
# rank 1 finds another file: one in which an element of the embedding differs that rank 0 keeps
for rank in 0 1; do
    mkdir "$scratch/$rank"
    cp -r "$scratch/fp32.0.export" "$scratch/$rank/model"
done
file=$scratch/1/model/model.safetensors
header=$(od -An -tu8 -N8 "$file")
at=$(tail -c +9 "$file" | head -c "$((header))" | jq '.["transformer.wte.weight"].data_offsets[0]')
printf '\x11' | dd of="$file" bs=1 seek=$((8 + header + at + 40)) conv=notrunc 2>/dev/null
# shellcheck disable=SC2016
line=$(mpirun --oversubscribe -n 2 bash -c 'cd "$0/$OMPI_COMM_WORLD_RANK" && exec "$@"' "$scratch" \
    "$PWD/$work/weights.fp32.3/train" --data "$scratch/text.txt" --tokenizer bytes --init-from model --out "$scratch/apart" 2>&1)
code=$?
verdict "ranks with different files" "$([ $code = 83 ] &&
    grep -q 'ranks 0 (.*) and 1 (.*) have different weights to start from: .*: all hosts need the same files' <<<"$line" ||
    echo "exit $code: $(tail -n 3 <<<"$line")")"

# ---- resume: whole and divided, on 1, 2 and 3 ranks; from other masters; after a rank was killed

# from RUN STEP KIND ZERO TO [ARGS...]: TO goes on, by that program, from that step of RUN
from() {
    local run=$1 step=$2 kind=$3 zero=$4 to=$5
    shift 5
    mkdir "$scratch/$to"
    cp -r "$scratch/$run/checkpoint-$step" "$scratch/$to"
    trains "$kind" "$zero" "$to" "$@"
    grep -q "^resumed from .*checkpoint-$step\$" "$scratch/$to.log" || verdict "$to resumes" "it did not"
}
for kind in remainder lora ${FULL:+fp32 copy}; do
    base=()
    [ $kind != lora ] || base=(--init-from none)
    for zero in 0 3; do
        from $kind.$zero 4 $kind $((3 - zero)) $kind.of.$zero "${base[@]}"
        files "$kind, resumed as $((3 - zero))" $kind.of.$zero $kind.0
    done
done
kinds="order.1=- order.2=- order.3=-"
for program in $orders; do trains order.${program%.*} ${program#*.} order.$program; done
for program in ${orders#* }; do files "canonical order, $program" order.$program order.1.0; done
verdict "the bits that they print" "$(grep -h '^bits ' "$scratch"/order.?.?.log | sort | uniq -c | grep -vE "^ *$(wc -w <<<"$orders") "
    grep -c '^bits ' "$scratch/order.3.3.log" | grep -vx 2)"
for way in 1.0-2.3 2.3-3.3 3.3-1.0 ${FULL:+3.3-2.1 2.1-3.3 2.3-1.0}; do
    to=${way#*-}
    from order.${way%-*} 4 order.${to%.*} ${to#*.} order.$way
    files "canonical order, $way" order.$way order.1.0
done
kinds="fp32=- remainder=- master=- none=-"
for way in master-remainder none-master ${FULL:+none-remainder remainder-master remainder-none}; do
    for zero in 0 3; do from ${way%-*}.0 4 ${way#*-} $zero $way.$zero; done
    files "masters, $way" $way.3 $way.0
done
DIECAST_FAULT=kill9:rank=1:step=6 DIECAST_TIMEOUT_SCALE=0.25 on remainder 3 struck
verdict "a rank is killed" "$([ $? = 84 ] || tail -n 2 "$scratch/struck.log")"
trains remainder 3 struck
files "a rank is killed, then resumed" struck remainder.0

# ---- bits that flip: shares have no twin, other weights have

DIECAST_FAULT=flip_shared:rank=0:step=4 on fp32 3 flipped
verdict "a bit of a share has no twin" "$([ $? = 80 ] &&
    grep -q 'this program has no parameter that one rank updates and all ranks have: build it with memory.zero=1' \
        "$scratch/flipped.log" || tail -n 2 "$scratch/flipped.log")"
rm -rf "$scratch/flipped"
DIECAST_FAULT=flip:rank=1:step=4 on fp32 3 flipped
verdict "a bit of a whole weight flips" "$([ $? = 94 ] || tail -n 2 "$scratch/flipped.log")"
exit $failed
