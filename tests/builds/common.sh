# shellcheck shell=bash
# Shared by the parts of this group: GEN, T (a folder of their own), verdicts, two recipes.
set -u
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 2
. tests/builds/lib.sh
. tests/programs.sh
. tests/compare.sh
. tests/verdict.sh
GEN=$PWD/${GEN:-out/.gen/gen}
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
has() { if grep -q -- "$2" "$3"; then ok "$1"; else not_ok "$1" "no '$2' in: $(tail -3 "$3")"; fi; }
nvcc=$(nvcc_path)
R=$T/recipes/r.lua
mkdir -p "$T/recipes"
cat >"$R" <<'END'
return {
    target = "sm_90", precision = "bf16",
    model = {
        family = "qwen2", layers = 2, hidden = 64, heads = 4, kv_heads = 2, ffn = 96,
        vocab = 1100, positions = 64, bos = 256, eos = 256,
    },
    seq = { max = 32 }, batch = { micro = 2 },
}
END
# the same with adapters, whose ranks and columns are badly aligned
L=$T/recipes/l.lua
sed 's/^    seq/    lora = { rank = 6, alpha = 9, dropout = 0.1, targets = { "all-linear" } },\n&/' "$R" >"$L"
