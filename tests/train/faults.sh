#!/bin/bash
# Bad input, full disks, stops and kills: the exact exit code, one line that says why, and nothing
# lost. KILLS=n, SEED=n; INJECT=1: every kind of fault at two and at four ranks.
# shellcheck disable=SC2086      # $ours is two words
source "$(dirname "$0")/lib.sh"
case=gpt2_tiny
ours="--data $ref/$case/tokens.safetensors"
programs <<'END'
gpt2_tiny gpt2_tiny
gpt2_tiny.2x2x2 gpt2_tiny gpus=2 batch.micro=2 batch.accum=2
gpt2_tiny.4x1x2 gpt2_tiny gpus=4 batch.micro=2 batch.accum=1
llama_rows llama_rows
qwen2_lora qwen2_lora
qwen2_lora.2 qwen2_lora gpus=2 batch.micro=2
wide gpt2_tiny model.hidden=48
few llama_rows batch.targets=80
END
mounts=
trap 'for m in $mounts; do umount "$m"; done; rm -rf "$scratch"' EXIT

# ---- making bad files --------------------------------------------------

header() { echo $((8 + $(od -An -tu8 -N8 "$1"))); }      # bytes in front of the data of a safetensors file
poke() {                # FILE OFFSET HEX...: writes bytes; a negative offset counts from the end
    local file=$1 at=$2
    shift 2
    [ "$at" -lt 0 ] && at=$(($(stat -c %s "$file") + at))
    printf "$(printf '\\x%s' "$@")" | dd of="$file" bs=1 seek="$at" conv=notrunc status=none
}
place() { head -c "$(header "$1")" "$1" | grep -abo "\"$2\":" | head -n 1 | cut -d: -f1; }
begin() { head -c "$(header "$1")" "$1" | grep -ao "\"$2\":{[^}]*}" | sed 's/.*offsets":\[\([0-9]*\),.*/\1/'; }
renamed() {             # FILE OLD NEW: a name in the header, of the same length
    poke "$1" $(($(place "$1" "$2") + 1)) $(printf '%s' "$3" | od -An -tx1)
}
fresh() { rm -rf "$scratch/in"; mkdir "$scratch/in"; cp -r $ref/$case/model $ref/$case/*.safetensors "$scratch/in"; }
tokens=$scratch/in/tokens.safetensors
weights=$scratch/in/model/model.safetensors

# in this order: later ones use functions of earlier ones
for part in refusals data folder ranks stops; do
    # shellcheck disable=SC1090
    source "$here/faults/$part.sh"
done
exit $failed
