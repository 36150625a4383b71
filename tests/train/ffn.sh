#!/bin/bash
# Feed-forward layers in tiles of rows (memory.ffn_rows).
source "$(dirname "$0")/lib.sh"
programs <<'END'
gpt2_tiny gpt2_tiny
gpt2_tiny.ffn gpt2_tiny memory.ffn_rows=32
llama_tiny.ffn llama_tiny memory.ffn_rows=16 memory.recompute=block
END
trained gpt2_tiny gpt2_tiny gpt2_tiny
for name in gpt2_tiny.ffn llama_tiny.ffn; do
    trained $name ${name%%.*} $name
    compare $name reference $ref/${name%%.*} "$scratch/$name"
done
head -n 2 $scratch/gpt2_tiny/history.jsonl $scratch/gpt2_tiny.ffn/history.jsonl
grep worst "$scratch/compare.log"
exit $failed
