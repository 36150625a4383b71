#!/bin/bash
# Feed-forward layers in tiles of rows (memory.ffn_rows): against PyTorch, and on two ranks that divide the matrices.
# CUDA: sim.sh; frozen layers: tests/kernels/b_ffn.c.
source "$(dirname "$0")/lib.sh"
programs <<'END'
gpt2_tiny.tiles gpt2_tiny memory.ffn_rows=48 memory.recompute=block memory.keep=norms
qwen2_nf4.tiles qwen2_nf4 memory.ffn_rows=16
shard.tiles.1x2 shard comm.order=canonical memory.ffn_rows=16 batch.accum=2
shard.tiles.2x1 shard comm.order=canonical memory.ffn_rows=16 gpus=2 memory.zero=3
END
# 48 do not divide 128 rows: 32 do
verdict "rows of a tile" "$(grep -q '^    FFN_ROWS = 32, ' $work/gpt2_tiny.tiles/shape.h ||
    grep FFN $work/gpt2_tiny.tiles/shape.h)"
for name in gpt2_tiny.tiles qwen2_nf4.tiles; do
    trained $name ${name%.*} $name
    compare $name reference $ref/${name%.*} "$scratch/$name"
done
seq -s" " 1 4000 >"$scratch/text.txt"
for name in shard.tiles.1x2 shard.tiles.2x1; do
    "$work/$name/run.sh" --data "$scratch/text.txt" --tokenizer bytes --out "$scratch/$name" >"$scratch/log" 2>&1 ||
        verdict "$name trains" "$(tail -n 1 "$scratch/log")"
done
same "tiles on one rank and on two" shard.tiles.2x1 shard.tiles.1x2 8
exit $failed
