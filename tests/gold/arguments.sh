#!/bin/bash
# Arguments of emitted calls are names: of sizes and constants in shape.h, of values, of flags. A number alone is 0.
# Further arguments of a call:
# - members of structs, {.theta = 10000.0f};
# - the slot of a value, AT(x, 0), SLOT(x, l + 1), and of what moves it, EVENT(x, l + 1);
# - a factor of a size, 3*C and D/2, and the last layer of a period, ROPE_PERIOD - 1;
# - template arguments of a VARIANT in kernels.def, which gen tune chooses call by call.
set -u
cd "$(dirname "$0")/../.." || exit 2
gen=$(realpath "${GEN:-out/.gen/gen}")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export gen scratch
numbers() { # RECIPE: `RECIPE: kernel(arguments)` of each call with another number
    local out=$scratch/$BASHPID step
    "$gen" "$1" -o "$out" >"$out.log" 2>&1 || { echo "$1: $(head -n 1 "$out.log")"; return; }
    for step in "$out"/step.c*; do
        [ -e "$step" ] || continue               # a whole program of its own
        awk -v recipe="$1" '
            /^static void run_|^void step_[a-z_]*\(void\)$/ { inside = 1; call = ""; next }
            /^}/ { inside = 0 }
            !inside || /^ *[{}]$/ || /profile_op\(|^ *\/\*|^ *(for|if) \(/ { next }
            { sub(/ *\/\/.*/, ""); call = call " " $0 }
            !/;$/ { next }
            {
                shown = call
                calls++
                gsub(/  +/, " ", shown)
                if (call !~ /^ *[a-z_0-9]+(<[^;]*>)?\(/ || call ~ /snprintf|gemm_|lora_init/) { call = ""; next }
                gsub(/[A-Z]+\([A-Za-z_0-9]+, [^()]*(\([^()]*\))?[^()]*\)/, "x", call)
                gsub(/\.[a-z_0-9]+ = [^,}]*/, "x", call)
                sub(/<[^>]*>\(/, "(", call)
                gsub(/[A-Za-z_][A-Za-z_0-9]*/, "x", call)
                gsub(/[0-9]+\*(x|\()|x\/[0-9]+/, "x", call)
                gsub(/x - 1 \?/, "x ?", call)
                gsub(/(^|[^0-9.])0([^0-9.]|$)/, " ", call)
                if (call ~ /[0-9]/) print recipe ":" shown
                call = ""
            }
            END { print "calls " calls }' "$step"
    done
    rm -rf "$out"
}
export -f numbers
printf '%s\n' recipes/*.lua tests/gold/ir/*/recipe.lua |
    xargs -P "${CORES:-$(nproc)}" -n 4 bash -c 'for r; do numbers "$r"; done' _ >"$scratch/found"
calls=$(awk '/^calls / { n += $2 } END { print n + 0 }' "$scratch/found")
if [ "$calls" -lt 5000 ] || grep -qv '^calls ' "$scratch/found"; then
    echo "not ok arguments: of $calls calls $(grep -v '^calls ' "$scratch/found" | sort | head -n 3 | tr '\n' ' ')"
    exit 1
fi
echo "ok arguments: names in $calls calls"
