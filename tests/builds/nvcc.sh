#!/bin/bash
# Two equal builds; recipes for CUDA as nvcc builds them.
. "$(dirname "$0")/common.sh"

# ---- the same bytes, and nvcc's builds
verify() {              # recipe
    tests/builds/verify.sh "$1" >"$T/out" 2>&1
    check "verify/$(basename "$1" .lua)" 0 "$?$([ -s "$T/out" ] && grep -e differ -e warning "$T/out")"
}
CCACHE_DISABLE=1 verify recipes/cpu_tiny.lua        # C is compiled twice here, and below no more than it must
if [ -n "$nvcc" ]; then
    verify recipes/h200x1_tiny.lua
    # every architecture and family once, beside the one above; `make matrix` and `make soak` build every recipe
    sed 's/sm_90/sm_100/' "$R" >"$T/recipes/sm_100.lua"
    sed 's/sm_90/sm_86/; s/"qwen2"/"llama"/' "$R" >"$T/recipes/sm_86.lua"
    sed 's/sm_90/sm_89/
        s/"qwen2", layers = 2, hidden = 64, heads = 4, kv_heads = 2/"gpt2", layers = 2, hidden = 64, heads = 4/
        s/precision = "bf16"/precision = "fp16"/' "$R" >"$T/recipes/sm_89.lua"
    tests/builds/matrix.sh recipes/a100x4_lora.lua "$T"/recipes/sm_{86,89,100}.lua >"$T/out" 2>&1
    code=$?
    sed 's/^/# /' "$T/out"
    check matrix "0" "$code$(grep -c 'not generated' "$T/out" | grep -v '^0$')"
else
    echo "# CUDA recipes were not built: no nvcc here"
fi
exit $((fails > 0))
