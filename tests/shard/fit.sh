#!/bin/bash
# gen fit: every row is a plan, with the bytes that its own command plans; what gen accepts fits by its plan and by a
# sum of what lives at a time; what it refuses has no neighbour that gen fit overlooked; programs of rows use what is
# planned. fit.sh sim: a row on the simulator. SEED=N: other questions, COUNT=N: more of them. FULL=1: every table.
BACKEND=${1:-cpu}
source "$(dirname "$0")/lib.sh"
FULL=${FULL:-} SEED=${SEED:-1} COUNT=${COUNT:-150}

# ---- a program of a row: bytes used are those planned

question=(batch.global=16 batch.micro=)
[ "$BACKEND" = cpu ] && reserve=0.5 share=0.7 more=4194304 || reserve=1.5 share=0.9 more=1048576
row="$scratch/row.json"
least=$("$gen" info "$here/recipes/shard.lua" "${target[@]}" "${question[@]}" --json |
    jq -r ".device_bytes / 1073741824 * $share + $reserve")
"$gen" fit "$here/recipes/shard.lua" "${target[@]}" "memory.limit_gib=$least" "${question[@]}" --json >"$row"
verdict "a row for less memory" "$(jq -e '.rows[0] | .add != [] and .lost == null' "$row" >"$scratch/said" ||
    cat "$row")"
read -ra words < <(jq -r '.rows[0].arguments' "$row")
mapfile -t words < <(printf '%s\n' "${words[@]:1}" | grep -v '^target=')
programs <<<"fit.row shard ${words[*]}"
run fit.row bench --bench-steps 1
read -r planned allocated < <(bench_memory "$scratch/bench.log")
# on a CPU what the host keeps in addition is of the same memory
verdict "its program uses what the row says" "$([ "$planned" = "$(jq -r '.rows[0].device_bytes' "$row")" ] &&
    [ "${allocated:-0}" -ge "$planned" ] && [ "$allocated" -lt $((planned + more)) ] ||
    echo "planned ${planned:-?}, allocated ${allocated:-?}: $(tail -n 2 "$scratch/bench.log")")"
[ "$BACKEND" = cpu ] || exit $failed

# ---- tables: every row is planned again by its own command

cards="rtx3070 rtx3080 rtx4090 a100-40 h100 h200"
recipes="h200x1_qwen2.5_7b_full h200x1_qwen2.5_0.5b h200x1_gpt2_124m h200x1_mistral_7b_lora h200x1_qwen3_8b_lora
    llada_8b llama3_70b_lora_8x80 mlm_2gpu_standard dpo_llama32_1b a100x4_full dreamprm dreamprm_full"
export gen scratch
# bytes WORD ...: of the device, planned whether or not they fit; nothing: gen refuses the words. A card is replaced by
# its target, with more memory than there is.
bytes() {
    local word words=()
    for word; do
        case $word in
        card=*) words+=("target=$(sed -n "s/^CARD(${word#card=}, \([a-z0-9_]*\),.*/\1/p" gen/config/cards.def)" \
            memory.limit_gib=1048576) ;;
        *) words+=("$word") ;;
        esac
    done
    "$gen" info "${words[@]}" --json 2>/dev/null | jq -r '.device_bytes // empty'
}
# rows RECIPE CARD [OPTION ...]: a line for each row that lies, and for the first that is said not to fit but does
rows() {
    local file=$scratch/rows.$BASHPID device limit arguments said
    "$gen" fit "$1" --card "$2" "${@:3}" --json >"$file" 2>"$file.err"
    jq -e --argjson code $? 'if $code == 0 then .fits and (.rows | length > 0 and length <= 8)
        else (.fits | not) and .rows == [] and (.over | length | . > 0 and . <= 3) end' "$file" >/dev/null ||
        echo "$*: $(cat "$file" "$file.err")"
    limit=$(jq .device_bytes_limit "$file")
    while read -r device arguments; do
        # shellcheck disable=SC2086
        said=$("$gen" info $arguments --json 2>/dev/null |
            jq -r '"\(.device_bytes_limit) \(.device_bytes <= .device_bytes_limit) \(.device_bytes)"')
        [ "$said" = "$limit true $device" ] || echo "$arguments: row $device of $limit, its command: $said"
    done < <(jq -r '.rows[] | "\(.device_bytes) \(.arguments)"' "$file")
    read -r device arguments < <(jq -r '.over[0] // empty | "\(.device_bytes) \(.arguments)"' "$file")
    # shellcheck disable=SC2086
    [ -z "$arguments" ] || [ "$device" -gt "$limit" ] && [ "$(bytes $arguments)" = "$device" ] ||
        echo "$arguments: said not to fit by $device of $limit, but $(bytes $arguments)"
    jq '.rows | length' "$file" >>"$scratch/rows"
}
export -f bytes rows
lies=$(for recipe in $recipes; do
    for card in $cards; do echo "recipes/$recipe.lua $card"; done
done | awk -v seed="$SEED" -v all="$FULL" 'all != "" || (NR + int((NR - 1) / 6) + seed) % 12 == 0' |
    xargs -P "$cores" -n 2 bash -c 'rows "$@"' _)
verdict "tables: $(grep -c . "$scratch/rows"), $(awk '{ n += $1 } END { print n }' "$scratch/rows") rows" "$lies"

# an update of every row has as many samples as the head says, with more ranks, too; fields that need gpus go with it
lies=$(while read -r recipe options; do
    # shellcheck disable=SC2086
    "$gen" fit "recipes/$recipe.lua" $options --all --json >"$scratch/samples.json" || echo "$recipe $options: exit code $?"
    while read -r samples arguments; do
        # shellcheck disable=SC2086
        [ "$("$gen" info $arguments --json | jq .batch_global)" = "$samples" ] || echo "$arguments: not $samples samples"
    done < <(jq -r '.batch_global as $n | .rows[] | "\($n) \(.arguments)"' "$scratch/samples.json")
done <<EOF
cpu_tiny --gpus 2
cpu_tiny --gpus 3
cpu_tiny memory.zero=1 --gpus 2
cpu_tiny gpus=4 memory.zero=3 batch.accum=2
EOF
)
verdict "samples of rows" "$lies"

# a recipe that does not clip loses nothing by updates in the backward pass
verdict "nothing lost" "$("$gen" fit recipes/mlm_2gpu_standard.lua run.clip=0 --card rtx3070 --exact --all --json |
    jq -e '.rows | any(.add == ["optim.when=backward"] and .lost == null and .same_bits)' 2>&1 | grep -v '^true$')"

# ---- what is accepted fits, what is refused has no neighbour that does

# living: bytes of what lives at a time, at most, of the text of a plan; values that share a place count once
cat >"$scratch/living.awk" <<'AWK'
/^(param|state|input|value) / && match($0, / at device\+0x[0-9a-f]+ stride [0-9]+  live [0-9]+\.\.[0-9]+/) {
    split(substr($0, RSTART, RLENGTH), w, " ")
    slots = match($0, / slots [0-9]+/) ? substr($0, RSTART + 7, RLENGTH - 7) : 1
    split(w[6], live, "[.][.]")
    n++; at[n] = w[2]; size[n] = slots * w[4]; first[n] = live[1]; last[n] = live[2]
}
/^# arena / { arena = $3 }
END {
    for (i = 1; i <= n; i++) {
        if ((k = first[i]) in seen) continue
        seen[k] = 1
        split("", there); sum = 0
        for (j = 1; j <= n; j++)
            if (first[j] <= k && k <= last[j] && !(at[j] in there)) { there[at[j]] = 1; sum += size[j] }
        most = sum > most ? sum : most
    }
    print ((n && most > 0 && most <= arena && arena <= most * 1.02 + 1048576) ? "" : n " values of " most " in " arena)
}
AWK
# neighbours LIMIT ARGUMENTS: other values of one to three fields with which they fit
neighbours() {
    local word left
    while read -r word; do       # those of a field that the arguments set, gen refuses
        # shellcheck disable=SC2086
        left=$(bytes "${@:2}" $word)
        [ -n "$left" ] && [ "$left" -le "$1" ] && echo "$word: $left"
    done <<<"memory.zero=3
memory.embedding=host
memory.recompute=block
optim.moments=8bit
lora.base=nf4
precision=bf16
optim.master=none
lora.rank=16 lora.targets=all-linear
memory.zero=3 memory.recompute=block
optim.moments=8bit memory.recompute=block
lora.base=nf4 memory.recompute=block
lora.base=nf4 memory.embedding=host
lora.base=nf4 memory.embedding=host memory.recompute=block"
}
# ask RECIPE CARD WORD ...: what is wrong with the answer
ask() {
    local file=$scratch/ask.$BASHPID words=("$1" "card=$2" "${@:3}") said
    if "$gen" -d plan "${words[@]}" >"$file" 2>"$file.err"; then
        said=$(awk -f "$scratch/living.awk" "$file")
        [ -z "$said" ] || echo "${words[*]}: $said"
        echo accepted
    elif grep -q '^    fits: ' "$file.err"; then
        echo another             # the rows of tables are tried
    elif grep -q '^    nothing fits: ' "$file.err"; then
        said=$(neighbours "$(jq .device_bytes_limit <("$gen" fit "${words[@]}" --json))" "${words[@]}")
        [ -z "$said" ] || echo "${words[*]}: $said"
        echo nothing
    else
        grep -q ': bug: ' "$file.err" && cat "$file.err"
        echo refused
    fi
}
export -f neighbours ask
light="h200x1_qwen2.5_7b_full h200x1_qwen2.5_0.5b h200x1_qwen2.5_1.5b h200x1_gpt2_124m h200x1_mistral_7b_lora
    rtx3080_lora rtx4090_lora mlm_1gpu_standard a100x4_lora"
[ -z "$FULL" ] || light=$recipes
awk -v seed="$SEED" -v count="$COUNT" -v recipes="$light" -v cards="${cards#* } h200 h200 b200 b200 b300 b300" -f tests/shard/questions.awk |
    xargs -P "$cores" -d '\n' -n 1 bash -c 'ask $1' _ >"$scratch/answers"
count() { grep -cx "$1" "$scratch/answers"; }
verdict "questions: $(count accepted) fit, $(count another) with other words, $(count nothing) with none, $(
    count refused) are none" "$(grep -vx -e accepted -e another -e nothing -e refused "$scratch/answers"
    [ "$(count accepted)" -gt $((COUNT / 6)) ] && [ "$(count another)" -gt $((COUNT / 15)) ] &&
        [ "$(count nothing)" -gt $((COUNT / 100)) ] || echo "too few")"
exit $failed
