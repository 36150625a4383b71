#!/bin/bash
# Compiled kernels and the launches of a step, against the tables in recorded/. A difference fails with
# both lines; UPDATE=1 rewrites the tables, and their diff is reviewed.
#   recorded/RECIPE.txt      a line a kernel, by gen check with the NVRTC that the first line names:
#     resources  registers, spilled bytes, static and dynamic shared memory in bytes, threads, blocks a multiprocessor
#     code       of the machine code, by cuobjdump -sass: global loads of 128 bits and narrower ones, stores likewise,
#                ldmatrix, products on tensor cores
#   recorded/launches.txt    nodes of the step's graph in small programs, counted by the simulator, and the launches that
#                            gen plan --work models for the same step
# run.sh RECIPE ...: only these and no launches. FULL=1: every recipe that has a table; UPDATE=1 FULL=1: every CUDA
# recipe.
BACKEND=sim
. "$(dirname "$0")/../train/lib.sh"
recorded=tests/counts/recorded
recipes=(h200x1_tiny)
[ -z "$FULL" ] || mapfile -t recipes < <(cd $recorded && ls | sed -n 's/\.txt$//p' | grep -vx launches)
[ -z "$FULL" ] || [ -z "${UPDATE:-}" ] || mapfile -t recipes < <(grep -l 'target = "sm_' recipes/*.lua | sed 's|.*/||; s|\.lua$||')
[ $# = 0 ] || recipes=("$@")

# same NAME RECORDED NOW [BUT]: a verdict on two tables, of RECORDED without lines like BUT. The lines of a kernel are
# shown together.
same() {
    local pairs
    if [ -n "${UPDATE:-}" ]; then
        cp "$3" "$2"
        echo "ok $1 # recorded: $(grep -vc '^#' "$3") lines"
        return
    fi
    pairs=$(diff <(grep -v -e '^#' ${4:+-e "$4"} "$2") <(grep -v '^#' "$3") | sed -n 's/^</recorded/p; s/^>/now     /p' |
        sort -s -b -k2,3)
    if [ -z "$pairs" ]; then
        echo "ok $1: $(grep -vc '^#' "$3") lines"
    else
        sed 's/^/#   /' <<<"$pairs"
        echo "not ok $1: $(wc -l <<<"$pairs") lines differ from $2, above; if they may: UPDATE=1 tests/counts/run.sh"
        failed=1
    fi
}

# ---- kernels

# of cuobjdump -sass: ENTRY and the six counts
code() {
    awk '/Function : / { entry = $3; seen[entry] }
        /^ *\/\*[0-9a-f]+\*\// {
            op = $2 ~ /^@/ ? $3 : $2
            if (op ~ /^LDG/) { if (op ~ /\.128/) a[entry]++; else b[entry]++ }
            if (op ~ /^STG/) { if (op ~ /\.128/) c[entry]++; else d[entry]++ }
            if (op ~ /^LDSM/) e[entry]++
            if (op ~ /^HMMA/) f[entry]++
        }
        END { for (k in seen) printf "%s %d %d %d %d %d %d\n", k, a[k], b[k], c[k], d[k], e[k], f[k] }'
}
kernels() { # RECIPE: its table in $scratch/RECIPE.txt
    local by
    rm -rf "$scratch/cubins"
    "$gen" check "recipes/$1.lua" --json --cubins "$scratch/cubins" >"$scratch/check" 2>"$scratch/log" || return
    by=$(jq -r '"\(.compiler) for \(.arch)"' "$scratch/check")
    echo "# $1 by ${by/, spills by nvcc,/}: gen check; see ../run.sh" >"$scratch/$1.txt"
    {       # each kind in columns of its own, so that without cuobjdump the first is the same
        jq -r '.kernels[] | [.name, .registers, .spilled_bytes, .shared_bytes, .shared_bytes_dynamic, .threads,
            .blocks_resident] | "resources \(.[0] | gsub(" "; "")) \(.[1:] | join(" "))"' "$scratch/check" |
            LC_ALL=C sort -k2 | column -t
        [ -z "$sass" ] || for file in "$scratch"/cubins/*.cubin; do cuobjdump -sass "$file"; done | code | sort -u |
            join - <(jq -r '.kernels[] | "\(.entry) \(.name | gsub(" "; ""))"' "$scratch/check" | sort) |
            awk '{ print "code", $8, $2, $3, $4, $5, $6, $7 }' | LC_ALL=C sort -k2 | column -t
    } >>"$scratch/$1.txt"
}

sass=$(command -v cuobjdump)
# Blocks of attention that a multiprocessor holds, of queries forward, of queries and of keys backward: as compiled,
# with 128 rows a block, then as gen plan --work models them.
resident() { # RECIPE
    jq -r '[.kernels[] | select(.name | test("^attention_((fwd|dq)_kernel<.*, 128|dkv_kernel<.*), 0>$"))
        | "\(.name | split("_")[1]) \(.blocks_resident)"] | unique | join(", ")' "$scratch/check"
    "$gen" plan "recipes/$1.lua" --work --json | jq -r '[.work.rows[] | .kernel as $kernel | .fill[] |
        "\(if ($kernel | endswith("fwd")) then "fwd" elif .blocks_own == "keys" then "dkv" else "dq" end
        ) \(.blocks_resident)"] | unique | join(", ")'
}
for recipe in "${recipes[@]}"; do
    table=$recorded/$recipe.txt now=$scratch/$recipe.txt
    kernels "$recipe"
    status=$?
    if grep -q 'not installed\|were not checked' "$scratch/check"; then
        echo "ok $recipe # skip: NVRTC is not installed"
        continue
    elif [ $status != 0 ]; then
        verdict "$recipe compiles" "$(tail -n 3 "$scratch/log" "$scratch/check")"
    elif [ -z "${UPDATE:-}" ] && [ ! -e "$table" ]; then
        verdict "$recipe" "has no table; UPDATE=1 tests/counts/run.sh $recipe makes one"
    elif [ -z "${UPDATE:-}" ] && [ "$(head -n 1 "$table")" != "$(head -n 1 "$now")" ]; then
        echo "ok $recipe # skip: recorded with another compiler: $(head -n 1 "$table")"
    elif [ -z "$sass" ]; then
        [ -z "${UPDATE:-}" ] || { grep -s '^code' "$table" >>"$now"; echo "# $recipe: no cuobjdump: lines of code stay"; }
        same "$recipe" "$table" "$now" '^code'
        echo "ok $recipe, code # skip: cuobjdump is not installed"
    else
        same "$recipe" "$table" "$now"
    fi
    mapfile -t blocks < <(resident "$recipe")
    [ -z "${blocks[1]}" ] ||        # the model knows those on tensor cores
        verdict "$recipe: attention's blocks on a multiprocessor, modelled" "$([ "${blocks[0]}" = "${blocks[1]}" ] ||
            echo "compiled: ${blocks[0]}; modelled: ${blocks[1]}")"
done

# ---- launches

small="gpt2_tiny gpt2_tiny
llama_tiny.bf16 llama_tiny precision=bf16 memory.ffn_rows=16"
if [ $# = 0 ]; then
    programs <<<"$small"
    while read -r name recipe words; do
        SIM_GRAPHS=$scratch/$name.graphs trained "$name" "$recipe" "$name" --steps 3
        awk '/^graph$/ { graph++; next } graph == 1 { sub(/<.*/, ""); sub(/^void /, ""); print }' "$scratch/$name.graphs" |
            sort | uniq -c | awk -v name="$name" '{ print name, $2, $1; all += $1 } END { print name, "(nodes)", all }'
        # shellcheck disable=SC2086
        "$gen" plan "$here/recipes/$recipe.lua" "${target[@]}" $words --work --json |
            jq -r "\"$name (modelled) \([.work.rows[].launches] | add)\""
    done <<<"$small" >"$scratch/launches"
    grep '^not ok' "$scratch/launches" && failed=1
    { echo "# nodes of the train step's graph by name; (modelled): launches of gen plan --work"
        grep -v '^not ok' "$scratch/launches" | LC_ALL=C sort | column -t; } >"$scratch/launches.txt"
    same launches $recorded/launches.txt "$scratch/launches.txt"
fi
exit $failed
