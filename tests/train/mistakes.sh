#!/bin/bash
# Mistakes and contradictions in files that others made, each with one line and before the first step; or the right
# result, where a file is only unusual.
source "$(dirname "$0")/lib.sh"
programs <<'END'
gpt2_tiny gpt2_tiny
llama_rows llama_rows
END
rm -rf "$scratch/in"
cp -rL $ref/gpt2_tiny "$scratch/in"
cp -r "$scratch/in" "$scratch/kept"
again() { rm -rf "$scratch/in" && cp -r "$scratch/kept" "$scratch/in"; }

# refuses NAME CODE TEXT [FLAGS]: of gpt2_tiny with the files in $scratch/in, which are put right afterwards
refuses() {
    local name=$1 want=$2 text=$3 code said
    said=$(timeout 60 "$work/gpt2_tiny/train" --data "$scratch/in/tokens.safetensors" --init-from "$scratch/in/model" \
        --out "$scratch/out" --dry-run "${@:4}" 2>&1)
    code=$?
    verdict "$name" "$([ $code = "$want" ] || echo "exit $code, want $want: $(tail -n 2 <<<"$said")"
        [ "$(grep -c '^\(rank\|train:\) ' <<<"$said")" = 1 ] || echo "not one line: $(head -n 3 <<<"$said")"
        grep -q -- "^\(rank\|train:\) .*$text" <<<"$said" || echo "no '$text' in: $(head -n 3 <<<"$said")")"
    again
}

# ---- token files

sed -i 's/"documents":"11"/"documents":"12"/' "$scratch/in/tokens.safetensors"
refuses "another number of documents" 88 'tokens.safetensors: metadata documents: is 12, but the file has 11 documents'
sed -i 's/"sha256":"c7e66be/"sha256":"c7e66bg/' "$scratch/in/tokens.safetensors"
refuses "a sha256 that is none" 88 'tokens.safetensors: metadata sha256: must be at most 64 hexadecimal digits'
exit $failed
