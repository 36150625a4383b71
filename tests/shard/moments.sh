#!/bin/bash
# Small optimizer states: moments in 8 bit (optim.moments). The same bits on any number of ranks, whole or divided;
# exact resume, and conversion from and to fp32. moments.sh sim: a CUDA program on the simulator.
BACKEND=${1:-cpu}
source "$(dirname "$0")/lib.sh"

if [ "$BACKEND" = cpu ]; then
    programs <<<"small.1 shard optim.moments=8bit batch.accum=4 comm.order=canonical
small.2 shard optim.moments=8bit batch.accum=2 gpus=2 comm.order=canonical
small.4 shard optim.moments=8bit gpus=4 comm.order=canonical
small.whole shard optim.moments=8bit optim.master=none precision=bf16 gpus=2
small.divided shard optim.moments=8bit optim.master=none precision=bf16 gpus=2 memory.zero=1
small.fp32 shard batch.accum=4"
else
    # FULL=1: none, which a CPU has
    programs <<<"small.fp32 shard optim.moments=8bit
small.remainder shard optim.moments=8bit precision=bf16 gpus=2 model.tied=false
small.parts shard optim.moments=8bit precision=bf16 gpus=2 model.tied=false memory.zero=1${FULL:+
small.none shard optim.moments=8bit optim.master=none precision=bf16}
small.fp16 shard optim.moments=8bit precision=fp16"
fi

# near RUN RUN BOUND: losses of every step differ, and by BOUND at most
near() {
    paste <(losses "$scratch/$1") <(losses "$scratch/$2") | awk -v bound="$3" '
        { d = $1 - $2; d = d < 0 ? -d : d; most = d > most ? d : most; n++ }
        END { if (n != 8 || most == 0 || most > bound) print n " steps, by " most }'
}

# ---- on the simulator: memory as planned; divided over ranks, the same bits

if [ "$BACKEND" != cpu ]; then
    for name in fp32 ${FULL:+none} fp16; do
        ran small.$name "$name" --steps 4
        "$work/small.$name/run.sh" --data "$scratch/text.txt" --tokenizer bytes --bench-steps 1 --out "$scratch/bench" \
            >"$scratch/line" 2>/dev/null
        read -r planned allocated < <(bench_memory "$scratch/line")
        want=$(sed -n 's/.*\.planned_bytes = INT64_C(\([0-9]*\)).*/\1/p' "$work/small.$name/recipe.h")
        verdict "$name, bytes planned and allocated" "$([ "$planned" = "$want" ] && [ "${allocated:-0}" -ge "$want" ] ||
            echo "planned $planned, of the recipe $want, allocated $allocated")"
    done
    # the head, of 701 rows in memory of 704, among others
    ran small.remainder whole --clip 0
    ran small.parts divided --clip 0
    files "bf16 with remainders, divided" divided whole
    exit $failed
fi

# ---- files and memory, by a search over the map; magnitudes of damaged files

# shellcheck disable=SC2046
gcc -std=c11 -D_GNU_SOURCE= -DDIECAST_RANKS=1 -fopenmp -I. -O1 -Wall -Wextra -Werror -Wno-missing-field-initializers \
    -o "$scratch/moments" tests/shard/moments.c $(sources runtime base device_cpu model model_parts moments weights \
    hf_match hf_config hf_tensors folder names json crc32c safetensors safetensors_write comm comm_mpi launch) \
    -lcjson -lm 2>"$scratch/cc" || verdict moments.c "$(head -n 3 "$scratch/cc")"
"$scratch/moments" "$scratch" || failed=1

# ---- ranks

for n in 1 2 4; do
    ran small.$n canonical.$n
    [ $n = 1 ] || files "canonical order, $n ranks" canonical.$n canonical.1
done
for name in whole divided; do
    ran small.$name $name --clip 0
done
files "bf16 without masters, divided" divided whole
ran small.fp32 fp32
verdict "losses near those of fp32 moments" "$(near canonical.1 fp32 0.05)"

# ---- resume

# on RUN STEP NAME TO ARGS...: TO goes on, by program NAME, from that step of RUN; the exit code
on() {
    local name=$3 to=$4
    mkdir "$scratch/$to"
    cp -r "$scratch/$1/checkpoint-$2" "$scratch/$to"
    shift 4
    run "$name" "$to" "$@"
}
on canonical.2 4 small.4 exact --exact || verdict exact "$(tail -n 2 "$scratch/exact.log")"
files "of 2 ranks on 4, exactly" exact canonical.1
for way in 'canonical.1 small.fp32 "8bit" -> "fp32"' 'fp32 small.1 "fp32" -> "8bit"'; do
    read -r from name change <<<"$way"
    on "$from" 4 "$name" "refused.$name" --exact
    code=$?
    verdict "$change, --exact" "$([ $code = 83 ] || echo "exit $code"
        grep -qF "optim.moments $change" "$scratch/refused.$name.log" || tail -n 2 "$scratch/refused.$name.log")"
    on "$from" 4 "$name" "converted.$name" || verdict "$change" "$(tail -n 2 "$scratch/converted.$name.log")"
    verdict "$change, said" "$(grep -qF "INEXACT RESUME" "$scratch/converted.$name.log" || echo "nothing"
        grep -qF "optim.moments $change" "$scratch/converted.$name.log" || tail -n 2 "$scratch/converted.$name.log")"
done
# four updates after a conversion: as near as those of moments that were never converted
verdict "converted to fp32" "$(paste <(losses "$scratch/converted.small.fp32") <(losses "$scratch/fp32" | tail -n 4) |
    awk '{ d = $1 - $2; n++; if (d * d > 0.0025) print } END { if (n != 4) print n " losses" }')"

# ---- what is in 8 bit: qkv, o, up and down; not wte, wpe, norms and biases

plan=$("$gen" plan "$here/recipes/shard.lua" optim.moments=8bit --json)
verdict "plan: what is in 8 bit" "$(diff <(jq -r '.buffers[] | select(.dtype == "u8" and .purpose == "optimiser") | .name' <<<"$plan" |
    sort) <(for m in m v; do for w in down o qkv up; do echo "$m.b.$w.w"; done; done | sort))"
# 2 layers of 288, 96, 768 and 768 rows of 96 columns, a byte an element, and 108, 36, 288, 288 blocks in each layer
verdict "plan: bytes" "$(jq -r '[.buffers[] | select(.purpose == "optimiser" and (.name | test("[mv]\\.b\\.(down|o|qkv|up)\\.w$"))) |
    .bytes] | add' <<<"$plan" | awk -v codes=$((2 * 2 * 1920 * 96)) -v magnitudes=$((2 * 2 * 720 * 4)) \
    '{ more = $1 - codes - magnitudes; if (more < 0 || more > 16 * 512) print $1 " of " codes " and " magnitudes }')"
exit $failed
