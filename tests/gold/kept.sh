#!/bin/bash
# Values kept by recomputed blocks: memory.keep, and memory.recompute=auto against every set, planned one by one. FULL=1: more limits.
set -u
cd "$(dirname "$0")/../.." || exit 2
. tests/compare.sh
. tests/verdict.sh
GEN=${GEN:-out/.gen/gen}
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT

words=(norms qkv att o gate_up act)
recipe=recipes/h200x1_qwen2.5_7b_full.lua
# info FIELDS: bytes, seconds of a step
info() { "$GEN" info $recipe memory.limit_gib=1000 "$@" --json | jq -r '"\(.device_bytes) \(.estimate.step_seconds)"'; }
for ((set = 0; set < 64; set++)); do
    keep=
    for i in "${!words[@]}"; do [ $((set >> i & 1)) = 0 ] || keep+=${keep:+,}${words[i]}; done
    echo "$(info memory.recompute=block memory.keep=$keep) $(tr , _ <<<"${keep:-nothing}")"
done >"$T/sets"
check kept/everything "$(info memory.recompute=none)" "$(tail -1 "$T/sets" | cut -d' ' -f1,2)"
check kept/nothing "$(info memory.recompute=block)" "$(head -1 "$T/sets" | cut -d' ' -f1,2)"
check kept/different 64 "$(cut -d' ' -f1 "$T/sets" | sort -u | wc -l)"

# the fastest of all sets that fit, and the plan says so. The reserve of a card is 1.5 GiB.
for limit in 127 ${FULL:+119 121 123 125 129 132}; do
    best=$(awk -v most=$(((limit * 2 - 3) * 512 * 1024 * 1024)) '$1 <= most' "$T/sets" | sort -k2,2g -k1,1n | head -1)
    "$GEN" plan $recipe memory.recompute=auto memory.limit_gib=$limit >"$T/plan"
    "$GEN" info $recipe memory.recompute=auto memory.limit_gib=$limit --json | jq -r '"\(.device_bytes) \(.estimate.step_seconds)"' >"$T/chosen"
    check "kept/auto $limit" "$(cut -d' ' -f1,2 <<<"$best")" "$(cat "$T/chosen")"
    check "kept/auto $limit said" "$(cut -d' ' -f3 <<<"$best" | tr _ ' ' | sed 's/gate up/gate_up/')" \
        "$(sed -n 's/^memory.recompute=auto keeps \([^(]*\) (.*/\1/p' "$T/plan")"
done
check kept/whole 1 "$("$GEN" plan $recipe memory.recompute=auto memory.limit_gib=1000 |
    grep -c '^memory.recompute=auto keeps everything: nothing is recomputed$')"
check kept/none "needs 116.1 GiB" \
    "$("$GEN" plan $recipe memory.recompute=auto memory.limit_gib=100 2>&1 | grep -o 'needs [^,]*')"
# results of norms into which adapters are folded in place are recomputed, although other values are kept
check kept/folded "%b.norm1 slots 1" \
    "$("$GEN" -d part recipes/h200x1_qwen2.5_7b_lora.lua memory.recompute=block memory.keep=qkv,gate_up |
        sed -n "s/^value \(%b.norm1\) .*\(slots [0-9]*\).*/\1 \2/p")"
# as are weights in NF4, of which one layer is in memory at a time
check kept/nf4 "%b.qkv.nf4 slots 1" "$("$GEN" -d part recipes/qlora_7b_8gb.lua memory.keep=qkv memory.limit_gib=100 |
    sed -n "s/^value \(%b.qkv.nf4\) .*\(slots [0-9]*\).*/\1 \2/p")"
# gradients that are all-reduced in one call lie side by side, divided ones between them or not
check plan/side "" "$(for divided in "dreamprm memory.zero=2" "dreamprm_full memory.zero=1 comm.overlap=all"; do
    "$GEN" plan recipes/${divided%% *}.lua gpus=2 ${divided#* } 2>&1 >"$T/plan"; done)"
exit $failed
