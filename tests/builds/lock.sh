#!/bin/bash
# The lock file and gen tune; the tuner runs on the simulator.
. "$(dirname "$0")/common.sh"

# ---- the lock file
gen() { "$GEN" "$@" -o "$T/out_r"; }
lock=$T/recipes/r.lock.json
gen "$R" >"$T/out" 2>&1 || not_ok lock/none "$(cat "$T/out")"
check lock/none 1 "$(wc -l <"$T/out")"
untuned() { sed -n '/"untuned"/,/]/p' "$T/out_r/manifest.json" | grep -c '"[NT][NT] '; }
products=$(untuned)
kernels=$(sed -n '/"untuned"/,/]/p' "$T/out_r/manifest.json" | grep -c '"[a-z_]* bf16 ')
[ "$products" -gt 8 ] && [ "$kernels" = 6 ] && ok lock/untuned ||
    not_ok lock/untuned "$products products, $kernels kernels"
gen "$R" --locked >"$T/out" 2>&1
check lock/locked 1 $?
has lock/locked_line \
    "r.lock.json: does not exist; only 0 of $products products, 0 of $kernels kernels are tuned; on the card: gen" \
    "$T/out"
gen "$R" tune=required >"$T/out" 2>&1
check lock/required "1 $products" "$? $(grep -c '^    .* m [0-9]* n [0-9]* k ' "$T/out")"
check lock/required_kernels $kernels "$(grep -c '^    [a-z_]* bf16 ' "$T/out")"
kernel=$(sed -n 's/^    \(rmsnorm_bwd bf16 .*\)/\1/p' "$T/out")
key=$(sed -n 's/^    //p' "$T/out" | head -1)
generator=$(sed -n 's/.*\\"generator\\": \\"\([0-9a-f]*\)\\".*/\1/p' "$T/out_r/tune.cu")
sources=$(sed -n 's/.*\\"sources\\": \\"\([0-9a-f]*\)\\".*/\1/p' "$T/out_r/tune.cu")
card() {                # gpu, arch, generator, key, algo
    printf '{"gpu": "%s", "arch": "%s", "sms": 132, "toolkit": "13.0", "cublaslt": "13.0.2", "generator": "%s",
        "sources": "'"$sources"'", "kernels": [],
        "gemms": [{"key": "%s", "algo": "%s", "us": 1.5, "default_us": 2.5}]}' "$@"
}
with_kernels() {        # card, sources, key, variant: the card with a row of a kernel
    local row="{\"key\": \"$3\", \"variant\": \"$4\"}" c=${1/"\"sources\": \"$sources\""/"\"sources\": \"$2\""}
    printf '%s' "${c/'"kernels": []'/"\"kernels\": [$row]"}"
}
with_raw() {            # card, bytes in hex: the card with them in its product's row
    printf '%s' "${1/"\"$algo\""/"\"$algo\", \"raw\": \"$2\""}"
}
file() { printf '{"diecast_lock": 1, "cards": [%s]}' "$1" >"$lock"; }
algo="algo 66 tile 20 stages 36 splitk 1 reduce 0 swizzle 1 custom 2 inner 0 cluster 3 ws 0"
file "$(card "NVIDIA H200" sm_90a "$generator" "$key" "$algo")"
gen "$R" >"$T/out" 2>&1
has lock/applies "r.lock.json: 1 of $products products, 0 of $kernels kernels as measured on NVIDIA H200\$" "$T/out"
# estimates take the measured time: a millisecond more for each call
takes() { "$GEN" info "$R" --json | sed -n "s/^\t*\"$1\":\t\([0-9.e-]*\),\$/\1/p"; }
check lock/seconds_calls 1 "$(takes measured_calls)"
first=$(takes step_seconds)
file "$(card "NVIDIA H200" sm_90a "$generator" "$key" "$algo" | sed 's/"us": 1.5/"us": 1001.5/')"
check lock/seconds "whole" "$(takes step_seconds | awk -v first="$first" '{
    n = ($1 - first) * 1000; print (n > 0.99 && n - int(n + 0.5) < 1e-3 && int(n + 0.5) - n < 1e-3 ? "whole" : n) }')"
file "$(card "NVIDIA H200" sm_90a "$generator" "$key" "$algo")"
check lock/emitted 1 "$(grep -c "\.algo = \"$algo\"" "$T/out_r/step.cu")"
check lock/manifest $((products - 1)) "$(untuned)"
gen "$R" --locked >"$T/out" 2>&1
check lock/missing "1 $((products - 1))" "$? $(grep -c '^    .* m [0-9]* n [0-9]* k ' "$T/out")"
gen "$R" batch.micro=3 >"$T/out" 2>&1
has lock/other_shape "0 of $products products, 0 of $kernels kernels as measured" "$T/out"
check lock/default 1 "$(grep -c ' rmsnorm_bwd<256>(' "$T/out_r/step.cu")"
c=$(card "NVIDIA H200" sm_90a "$generator" "$key" "$algo")
raw=$(printf '%064d%064d' 42 7)
file "$(with_raw "$c" "$raw")"
gen "$R" >"$T/out" 2>&1
has lock/raw "r.lock.json: 1 of $products products" "$T/out"
check lock/raw_emitted "1 1" "$(grep -c "\.raw = \"${raw:0:64}\"\$" "$T/out_r/step.cu"
    ) $(grep -c "^ *\"${raw:64}\"};\$" "$T/out_r/step.cu")"
check lock/measured_with '    gemm_measured_with("13.0.2", false);' "$(grep gemm_measured_with "$T/out_r/step.cu")"
file "$(with_kernels "$c" "$sources" "$kernel" 64)"
gen "$R" >"$T/out" 2>&1
has lock/kernel "r.lock.json: 1 of $products products, 1 of $kernels kernels as measured on NVIDIA H200\$" "$T/out"
check lock/kernel_emitted "1 0" \
    "$(grep -c ' rmsnorm_bwd<64>(' "$T/out_r/step.cu") $(grep -c ' rmsnorm_bwd<256>(' "$T/out_r/step.cu")"
check lock/kernel_manifest 0 "$(grep -c "\"$kernel\"" "$T/out_r/manifest.json")"
file "$(with_kernels "$c" 12345678 "$kernel" 64)"
gen "$R" >"$T/out" 2>&1
has lock/kernel_stale \
    "0 of $kernels kernels .*; its kernels were measured from other sources (12345678, now $sources): run gen tune again" \
    "$T/out"
check lock/kernel_stale_emitted 1 "$(grep -c ' rmsnorm_bwd<256>(' "$T/out_r/step.cu")"
file "$(with_kernels "$c" "$sources" "$kernel" 65)"
gen "$R" >"$T/out" 2>&1
check lock/kernel_unknown "1 $T/recipes/r.lock.json: $kernel: has no variant 65; delete that row" \
    "$? $(cat "$T/out")"
file "$(card "NVIDIA H200" sm_90a 12345678 "$key" "$algo")"
gen "$R" >"$T/out" 2>&1
has lock/stale \
    "was made with other kernels (12345678, now $generator): products by cuBLASLt's first choice, kernels by default; gen tune measures them" \
    "$T/out"
check lock/stale_emitted 0 "$(grep -c '\.algo' "$T/out_r/step.cu")"
gen "$R" --locked >"$T/out" 2>&1
check lock/stale_locked 1 $?
file "$(card "NVIDIA A100" sm_80 "$generator" "$key" "$algo")"
gen "$R" >"$T/out" 2>&1
has lock/arch "has no section for sm_90a" "$T/out"
file "$(card "NVIDIA H100" sm_90a "$generator" "$key" "${algo/66/67}"), $(
    card "NVIDIA H200" sm_90a "$generator" "$key" "$algo")"
gen "$R" "tune.card=NVIDIA H200" >/dev/null 2>&1
check lock/card 1 "$(grep -c "\.algo = \"$algo\"" "$T/out_r/step.cu")"
gen "$R" "tune.card=NVIDIA H20" >"$T/out" 2>&1
has lock/no_card 'has no section for the card "NVIDIA H20"' "$T/out"
bad() {                 # name, text of the file, message
    printf '%s' "$2" >"$lock"
    gen "$R" >"$T/out" 2>&1
    check "lock/bad_$1" "1 $T/recipes/r.lock.json: $3" "$? $(head -1 "$T/out")"
}
c=$(card g sm_90a "$generator" k "$algo")
bad json '{"diecast_lock": 1,' "line 1, byte 19: expected a key in quotes"
bad version '{"diecast_lock": 2, "cards": []}' '"diecast_lock" must be 1; another version of gen wrote this'
bad list '{"diecast_lock": 1, "cards": {}}' 'the file: needs a list "cards"'
bad name '{"diecast_lock": 1, "cards": [], "x": 1}' 'the file: unknown name "x"'
bad object '{"diecast_lock": 1, "cards": [1]}' 'card 1: must be an object'
bad text "{\"diecast_lock\": 1, \"cards\": [${c/\"gpu\": \"g\"/\"gpu\": 1}]}" 'card 1: needs a text "gpu"'
bad library "{\"diecast_lock\": 1, \"cards\": [${c/13.0.2/x}]}" 'card 1: must have numbers and points in "cublaslt", got "x"'
bad no_library "{\"diecast_lock\": 1, \"cards\": [${c/\"cublaslt\": \"13.0.2\", /}]}" 'card 1: needs a text "cublaslt"'
bad number "{\"diecast_lock\": 1, \"cards\": [${c/\"sms\": 132/\"sms\": \"x\"}]}" 'card 1: needs a number "sms"'
bad rows "{\"diecast_lock\": 1, \"cards\": [${c%\"gemms*}\"gemms\": 1}]}" 'card 1: needs a list "gemms"'
bad time "{\"diecast_lock\": 1, \"cards\": [${c/\"us\": 1.5/\"us\": \"1.5\"}]}" 'card 1, row 1: needs a number "us"'
bad row "{\"diecast_lock\": 1, \"cards\": [${c/\"us\"/\"uss\"}]}" 'card 1, row 1: unknown name "uss"'
k=$(with_kernels "$c" "$sources" x 64)
bad kernels "{\"diecast_lock\": 1, \"cards\": [${c/'"kernels": []'/'"kernels": 1'}]}" 'card 1: needs a list "kernels"'
bad sources "{\"diecast_lock\": 1, \"cards\": [${c/"\"sources\": \"$sources\", "/}]}" 'card 1: needs a text "sources"'
bad variant "{\"diecast_lock\": 1, \"cards\": [${k/\"64\"/\"6x4\"}]}" \
    'card 1, kernel 1: must have a number as "variant", got "6x4"'
bad key "{\"diecast_lock\": 1, \"cards\": [${c/\"key\": \"k\", /}]}" 'card 1, row 1: needs a text "key"'
bad algo "{\"diecast_lock\": 1, \"cards\": [${c/$algo/algo 1; x}]}" \
    'card 1, row 1: must have words and numbers that begin with algo, got "algo 1; x"'
r=$(with_raw "$c" "$raw")
bad_raw() { bad "raw_$1" "{\"diecast_lock\": 1, \"cards\": [$2]}" "card 1, row 1: $3"; }
hex='128 hex digits (64 bytes) in "raw", got'
bad_raw short "${r/$raw/${raw:2}}" "must have $hex \"${raw:2}\""
bad_raw long "${r/$raw/00$raw}" "must have $hex \"00$raw\""
bad_raw digit "${r/$raw/0x${raw:2}}" "must have $hex \"0x${raw:2}\""
bad_raw empty "${r/\"$raw\"/\"\"}" 'needs a text "raw"'
bad_raw number "${r/\"$raw\"/1}" 'needs a text "raw"'
bad_raw null "${r/\"$raw\"/null}" 'needs a text "raw"'
cut="{\"diecast_lock\": 1, \"cards\": [${r%"${raw:40}"*}"
bad raw_cut "$cut" "line 3, byte ${#cut}: unterminated string"
bad raw_kernel "{\"diecast_lock\": 1, \"cards\": [${k/\"64\"/\"64\", \"raw\": \"$raw\"}]}" \
    'card 1, kernel 1: unknown name "raw"'
rm -f "$lock"
# products of adapters have keys as all others: u of q, k and v, and what k and v add to y
"$GEN" "$L" -o "$T/out_l" --locked >"$T/out" 2>&1
check lock/adapters 1 $?
has lock/adapters_u '^    NT bf16 bf16 m 64 n 6 k 64 ld 64 64 18 epi none beta 0 offset 2$' "$T/out"
has lock/adapters_y '^    NT bf16 bf16 m 64 n 32 k 6 ld 18 6 128 epi none beta 1 offset 2$' "$T/out"
"$GEN" "$L" -o "$T/out_l" lora.dropout=0 --locked >"$T/out" 2>&1
has lock/adapters_at_once '^    NT bf16 bf16 m 64 n 18 k 64 ld 64 64 18 epi none beta 0$' "$T/out"
"$GEN" "$L" -o "$T/out_l" lora.dropout=0 lora.rank=8 --locked >"$T/out" 2>&1
has lock/adapters_folded '^    NT bf16 bf16 m 64 n 24 k 64 ld 88 64 88 epi none beta 0 offset 8$' "$T/out"
has lock/folded_layer '^    NT bf16 bf16 m 64 n 128 k 88 ld 88 88 128 epi bias beta 0$' "$T/out"

# ---- gen tune
"$GEN" tune recipes/cpu_tiny.lua >"$T/out" 2>&1
check tune/cpu "1 gen: target cpu has nothing to tune" "$? $(cat "$T/out")"
if ! ldconfig -p | grep -q libcuda.so.1; then
    "$GEN" tune "$R" -o "$T/out_r" >"$T/out" 2>&1
    check tune/no_gpu "1 1" "$? $(grep -c '^gen: nothing was tuned: ' "$T/out")"
fi
"$GEN" tune "$R" --rows "$T/nothing" >"$T/out" 2>&1
check tune/no_rows "1 gen: cannot read $T/nothing: No such file or directory" "$? $(cat "$T/out")"
rows() { card "$@" >"$T/rows"; "$GEN" tune "$R" --rows "$T/rows" -o "$T/out_r" >"$T/out" 2>&1; }
rows "NVIDIA A100" sm_80 "$generator" "$key" "$algo"
check tune/other_arch "1 $T/rows: rows for sm_80, but target sm_90 is sm_90a" "$? $(cat "$T/out")"
rows "NVIDIA H200" sm_90a 12345678 "$key" "$algo"
check tune/other_kernels "1 $T/rows: rows for other kernels (12345678, now $generator): emit, build and run tune again" \
    "$? $(cat "$T/out")"
check tune/nothing_written "" "$(ls "$lock" 2>/dev/null)"
with_kernels "$(cat "$T/rows")" 12345678 "$kernel" 64 >"$T/rows2"
sed -i "s/12345678/$generator/; s/\"sources\": \"$generator\"/\"sources\": \"12345678\"/" "$T/rows2"
"$GEN" tune "$R" --rows "$T/rows2" -o "$T/out_r" >"$T/out" 2>&1
check tune/other_sources "1 $T/rows2: rows for other kernels (12345678, now $sources): emit, build and run tune again" \
    "$? $(cat "$T/out")"
rows "NVIDIA H200" sm_90a "$generator" "$key" "$algo"
check tune/rows "0 1" "$? $(grep -c 'as measured on NVIDIA H200' "$T/out")"
cp "$lock" "$T/one"
rows "NVIDIA H100" sm_90a "$generator" "$key" "${algo/66/67}"
check tune/second_card "NVIDIA H100 NVIDIA H200" "$(sed -n 's/.*"gpu": "\(.*\)",/\1/p' "$lock" | paste -sd' ')"
rows "NVIDIA H100" sm_90a "$generator" "$key" "${algo/66/68}"
check tune/replaced "68 66" "$(grep -o '"algo 6.' "$lock" | grep -o '6.$' | paste -sd' ')"
rm -f "$lock"
rows "NVIDIA H200" sm_90a "$generator" "$key" "$algo"
check tune/same_bytes "" "$(cmp "$lock" "$T/one" 2>&1)"
rm -f "$lock"

# the tuner itself, on the simulator: every product gets a row, which then is used
if toolkit=$(tests/sim/toolkit.sh fast 2>"$T/err"); then
    "$GEN" "$R" -o "$T/out_r" >/dev/null 2>&1
    if make_in_haste "$T/out_r" "CUDA=$toolkit" tune >"$T/out" 2>&1 && "$T/out_r/tune" >"$T/rows" 2>"$T/err"; then
        "$GEN" tune "$R" --rows "$T/rows" -o "$T/out_r" >"$T/out" 2>&1
        has tune/simulated "$products of $products products, $kernels of $kernels kernels as measured on" "$T/out"
        check tune/kernels $kernels "$(grep -c '"variant"' "$lock")"
        check tune/raw $products "$(grep -c '"raw": "[0-9a-f]\{128\}"' "$lock")"
        gen "$R" --locked >"$T/out" 2>&1
        check tune/locked 0 $?
        check tune/all_locked 0 "$(untuned)"
        make_in_haste "$T/out_r" "CUDA=$toolkit" >"$T/out" 2>&1 &&
            "$T/out_r/train" --bench-steps 1 --out "$T/run" >"$T/out" 2>&1
        check tune/trains 0 $?
        check tune/silent 0 "$(grep -c 'lock file' "$T/out")"
        # the bytes are used, all of them: the simulator refuses others in a place that no option tells of
        other='s/ed5e0000\(0\{24\}\)/ed5f0000\1/g'
        LC_ALL=C sed "$other" "$T/out_r/train" >"$T/out_r/train.other"
        chmod +x "$T/out_r/train.other"
        "$T/out_r/train.other" --dry-run >"$T/out" 2>&1
        check tune/other_bytes 80 $?
        has tune/other_bytes_line 'gemm [^ ]*: the lock file has "algo [^"]*" for it, but this cuBLASLt refuses its '\
'bytes (raw); run `gen tune` again' "$T/out"
        # make LOCKED=1 emits again, or refuses
        make -s LOCKED=1 "EMITTED=$T/out_r" "CC='$PWD/tests/cc'" "CUDA=$toolkit" "$T/out_r" >"$T/out" 2>&1
        check tune/make_locked 0 $?
        # the gradient of a bias together with dw, or apart where the row says so
        check tune/bgrad 1 "$(grep -c 'epi bgrad' "$lock")"
        sed -i '/"algo"/{N;N;/epi bgrad/s/\(ws [0-9]*\)[a-z ]*"/\1 apart"/}' "$lock"
        gen "$R" --locked >/dev/null 2>&1
        make_in_haste "$T/out_r" "CUDA=$toolkit" >"$T/out" 2>&1 && "$T/out_r/train" --dry-run >"$T/out" 2>&1
        check tune/apart "qkv_dw" "$(sed -n 's/^ *\([^ ]*\) .* apart$/\1/p' "$T/out" | paste -sd' ')"
        # another version of the library than measured: said, and first choices; bytes are for that version alone
        sed -i "s/\"cublaslt\": \"[0-9.]*\"/\"cublaslt\": \"1.2.3\"/; $other" "$lock"
        gen "$R" tune=required >/dev/null 2>&1
        check tune/measured_with '    gemm_measured_with("1.2.3", true);' "$(grep gemm_measured_with "$T/out_r/step.cu")"
        gen "$R" >/dev/null 2>&1
        make_in_haste "$T/out_r" "CUDA=$toolkit" >"$T/out" 2>&1 &&
            "$T/out_r/train" --bench-steps 1 --out "$T/run" >"$T/out" 2>&1
        has tune/other_library \
            'the lock file has algorithms of cuBLASLt 1.2.3, here is [0-9.]*: its first choices' "$T/out"
        # the binary's own record of its sources equals the manifest
        "$T/out_r/train" --version >"$T/out"
        check version/recipe 1 \
            "$(grep -c "($(sed -n 's/.*"recipe_sha256": "\(.*\)".*/\1/p' "$T/out_r/manifest.json"))" "$T/out")"
        check version/ir 1 \
            "$(grep -c "^ir $(sed -n 's/.*"ir_sha256": "\(.*\)".*/\1/p' "$T/out_r/manifest.json")\$" "$T/out")"
        check version/ir_file "$(sha256sum <"$T/out_r/ir/plan.ir" | cut -d' ' -f1)" "$(sed -n 's/^ir //p' "$T/out")"
        has version/compilers "^built by gcc $(gcc -dumpfullversion); kernels by g++ " "$T/out"
        "$T/out_r/train" --version --verbose >"$T/out"
        has version/flags "^flags $(sed -n 's/.*"cflags": "\(.*\)",/\1/p' "$T/out_r/manifest.json" | sed 's/[.*]/./g')\$" \
            "$T/out"
        has version/cublaslt '^library cuBLASLt 13.1.0, loaded 13.1.0$' "$T/out"
        has version/cuda '^library CUDA runtime 13.0, loaded 13.0$' "$T/out"
        rm -f "$lock"
        make -s LOCKED=1 "EMITTED=$T/out_r" "CC='$PWD/tests/cc'" "CUDA=$toolkit" "$T/out_r" >"$T/out" 2>&1
        check tune/make_unlocked 2 $?
        has tune/make_unlocked_line "are tuned; on the card" "$T/out"
        # those of adapters are measured, locked and listed like the others
        "$GEN" "$L" -o "$T/out_l" >/dev/null 2>&1
        make_in_haste "$T/out_l" "CUDA=$toolkit" tune >"$T/out" 2>&1 && "$T/out_l/tune" >"$T/rows" 2>"$T/err"
        "$GEN" tune "$L" --rows "$T/rows" -o "$T/out_l" >"$T/out" 2>&1
        "$GEN" "$L" -o "$T/out_l" --locked >"$T/out" 2>&1
        check tune/adapters_locked "0 $(grep -c '^static Gemm mm_' "$T/out_l/step.cu")" \
            "$? $(grep -c '\.algo = ' "$T/out_l/step.cu")"
        make_in_haste "$T/out_l" "CUDA=$toolkit" >"$T/out" 2>&1 &&
            "$T/out_l/train" --dry-run --out "$T/run_l" >"$T/out" 2>&1
        has tune/adapters_listed 'qkv_lora_u .* NT 64 x 6 x 64: algo' "$T/out"
    else
        not_ok tune/simulated "$(cat "$T/out" "$T/err" | tail -n 3)"
    fi
else
    not_ok tune/simulator "$(tail -3 "$T/err")"
fi
exit $failed
