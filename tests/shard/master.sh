#!/bin/bash
# Sources of rounded 16-bit weights (optim.master): fp32 master weights, remainders, or nothing. The bits of fp32
# masters, one setting's checkpoints in a program of another, the same bits on any number of ranks.
BACKEND=${1:-cpu}
source "$(dirname "$0")/lib.sh"

kinds="fp32 remainder none"
programs <<<"$(
    for kind in $kinds; do echo "master.$kind shard precision=bf16 optim.master=$kind"; done
    for zero in 0 1; do echo "master.none.2.$zero shard precision=bf16 optim.master=none gpus=2 memory.zero=$zero"; done
    for n in 1 2; do
        echo "master.order.$n shard precision=bf16 optim.master=none comm.order=canonical gpus=$n batch.accum=$((2 / n))"
    done
)"
for kind in $kinds; do ran master.$kind $kind; done

# ---- the bits of fp32 master weights, if those are rounded in the same way: ties away from zero

ran master.none bf16 --steps 1
"$work/master.none/run.sh" --out "$scratch/bf16" --export "$scratch/model" >"$scratch/export.log" 2>&1 ||
    verdict "a model of bf16 weights" "$(tail -n 1 "$scratch/export.log")"
away=$scratch/away
cp -r "$work/master.fp32" "$away"
rm -f "$away/train"
sed -i 's/^        fp32\[i\] = x;$/        fp32[i] = x, x = bits_float((float_bits(x) + 0x8000) \& 0xffff0000);/' \
    "$away/kernels/cpu/adamw.h"
verdict "the witness is another program" "$(grep -q '^        fp32\[i\] = x, x = ' "$away/kernels/cpu/adamw.h" || echo "it is not")"
make_in_haste "$away" >"$away.log" 2>&1 || verdict "the witness" "$(tail -n 3 "$away.log")"
for way in master.fp32 master.remainder; do
    program=$work/$way
    [ $way = master.remainder ] || program=$away
    "$program/run.sh" --data "$scratch/text.txt" --init-from "$scratch/model" --out "$scratch/away.$way" \
        >"$scratch/away.$way.log" 2>&1 || verdict "$way from a model" "$(tail -n 2 "$scratch/away.$way.log")"
    "$work/$way/run.sh" --out "$scratch/away.$way" --export "$scratch/away.$way.model" --export-dtype fp32 \
        >"$scratch/export.log" 2>&1 || verdict "$way, export" "$(tail -n 1 "$scratch/export.log")"
done
verdict "losses of fp32 masters" "$(diff <(losses "$scratch/away.master.fp32") <(losses "$scratch/away.master.remainder")
    [ "$(losses "$scratch/away.master.fp32" | wc -l)" = 8 ] || echo "not 8 losses")"
for file in checkpoint-8/model away.master.fp32.model/model; do
    [[ $file == away* ]] || file=away.master.fp32/$file
    verdict "weights of fp32 masters, $(basename "$(dirname "$file")")" \
        "$(cmp "$scratch/$file.safetensors" "$scratch/${file//fp32/remainder}.safetensors")"
done

# ---- resume: exact by the same program; converted by another, which says so

for kind in remainder none; do
    DIECAST_FAULT=kill9:rank=0:step=6 run master.$kind struck.$kind
    verdict "$kind is killed" "$([ $? = 137 ] || tail -n 2 "$scratch/struck.$kind.log")"
    ran master.$kind struck.$kind --exact
    files "$kind is killed, then resumed" struck.$kind $kind
done
# masters RUN PROGRAM: a program exports the weights of the run's own program
masters() {
    local to=$scratch/masters.$1.$2
    rm -rf "$to"
    "$work/master.$2/run.sh" --out "$scratch/$1" --export "$to" --export-dtype fp32 >"$to.log" 2>&1
    cmp "$to/model.safetensors" "$scratch/masters.$1.$1/model.safetensors" 2>&1
}
for from in $kinds; do
    for to in $kinds; do
        [ $from != $to ] || continue
        mkdir "$scratch/$from.$to"
        cp -r "$scratch/$from/checkpoint-4" "$scratch/$from.$to"
        run master.$to $from.$to --exact
        verdict "$from to $to is not exact" "$([ $? = 83 ] && grep -q "optim.master \"$from\" -> \"$to\"" "$scratch/$from.$to.log" ||
            tail -n 2 "$scratch/$from.$to.log")"
        ran master.$to $from.$to
        change="optim.master \"$from\" -> \"$to\""
        verdict "$from to $to" "$(grep -q "^INEXACT RESUME: .*$change" "$scratch/$from.$to.log" ||
            grep -i resume "$scratch/$from.$to.log"
            [ "$(losses "$scratch/$from.$to" | wc -l)" = 4 ] || echo "not 4 losses")"
    done
done
# values of a checkpoint, whichever program reads it; none has only its bf16 weights
for from in $kinds; do
    masters $from $from >/dev/null
    for to in fp32 remainder; do
        [ $from = $to ] || verdict "values of $from by $to" "$(masters $from $to)"
    done
done
verdict "runs differ" "$(cmp -s "$scratch"/masters.{fp32.fp32,remainder.remainder}/model.safetensors && echo "they do not")"

# ---- the default, written out: the same recipe, and a checkpoint from before layouts named it

"$gen" -d config "$here/recipes/shard.lua" precision=bf16 | head -n 1 >"$scratch/default"
"$gen" -d config "$here/recipes/shard.lua" precision=bf16 optim.master=remainder | head -n 1 >"$scratch/written"
verdict "the default has the same hash" "$(diff <(cut -d ' ' -f 4 "$scratch/default") <(cut -d ' ' -f 4 "$scratch/written"))"

# ---- stochastic rounding: whole and divided, and on one and two ranks in canonical order

for zero in 0 1; do ran master.none.2.$zero none.2.$zero --clip 0; done
files "none, divided" none.2.1 none.2.0
for n in 1 2; do ran master.order.$n order.$n; done
files "none, on two ranks in canonical order" order.2 order.1
ran master.none seed --seed 43
verdict "another seed rounds otherwise" "$(cmp -s "$scratch"/{seed,none}/checkpoint-8/model.safetensors && echo "it does not")"
exit $failed
