#!/bin/bash
# Contents of the folder that gen writes to: an earlier emission, files of others, runs; and paths, names and
# texts that would be code in what is emitted.
set -u
cd "$(dirname "$0")/../.." || exit 2
. tests/compare.sh
. tests/verdict.sh
verdict_prefix=folder/
gen=$PWD/${GEN:-out/.gen/gen}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 2
recipe() {              # recipe FAMILY
    echo "return { target = \"cpu\", model = use \"models/tiny_$1\", seq = { max = 32 }, batch = { micro = 2 } }"
}
recipe gpt2 >a.lua
recipe llama >b.lua

state() { (cd "$1" && find . -type f -exec sha256sum {} + -o -printf '%y %p\n' | sort); }
emits() {               # emits NAME WORDS...
    local name=$1
    shift
    if "$gen" "$@" >log 2>&1; then ok "$name"; else not_ok "$name" "$(head -1 log)"; fi
}
refuses() {             # refuses NAME MESSAGE WORDS...: exit code 1, nothing written
    local name=$1 want=$2 before code
    shift 2
    before=$(find . -printf '%y %p %s %T@\n')
    "$gen" "$@" >"$scratch.log" 2>&1
    code=$?
    if [ $code != 1 ] || ! grep -qF -- "$want" "$scratch.log"; then
        not_ok "$name" "exit $code, want 1 and '$want': $(head -2 "$scratch.log" | tr '\n' ' ')"
    elif [ "$before" != "$(find . -printf '%y %p %s %T@\n')" ]; then
        not_ok "$name" "something was written"
    else
        ok "$name"
    fi
    rm -f "$scratch.log"
}
same() { if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1" "want '$2', got '$3'"; fi; }

# ---- the command that starts the program has the flags without which it does not train
flags_of() {            # flags_of RECIPE: as gen info and the README of the folder name them
    "$gen" info "$1" | sed -n 's/^ *with \(--.*\); --help.*/\1/p'
    "$gen" "$1" -o flags >log 2>&1 && sed -n 's/^ *\.\/run\.sh \(.*\)  # trains.*/\1/p' flags/README.md
}
for line in "cpu_tiny --data FILE" "cpu_tiny_lora --init-from FOLDER --data FILE" \
    "dreamprm_tiny --data FILE --meta-data META.jsonl"; do
    same "flags-${line%% *}" "${line#* }"$'\n'"${line#* }" "$(flags_of "${line%% *}")"
done
rm -r flags

# ---- emitted again, and what no longer belongs
emits first a.lua -o x
before=$(state x)
emits again a.lua -o x
same again-same-bytes "$before" "$(state x)"
emits elsewhere a.lua -o y/z
same elsewhere-same-bytes "$before" "$(state y/z)"
echo mine >x/notes.txt
mkdir x/kernels/mine x/.obj && echo mine >x/kernels/mine/k.h && touch x/.obj/train.o x/.obj/train.d
echo '// changed' >>x/kernels/cpu/layernorm.h
emits other-family b.lua -o x
same stale-gone "" "$(cd x && ls kernels/cpu/gelu* 2>/dev/null)"
same stale-changed-named "x/kernels/cpu/layernorm.h: no longer part of the program, but changed since gen wrote it: kept" \
    "$(head -1 log)"
emits llama-elsewhere b.lua -o y/llama
same only-theirs-otherwise "$(printf '%s\n' .obj/train.d .obj/train.o kernels/cpu/layernorm.h kernels/mine/k.h notes.txt)" \
    "$(diff -rq x y/llama | sed -n 's/^Only in \(x.*\): \(.*\)/\1\/\2/p' | cut -c3- |
        while read -r p; do (cd x && find "$p" -type f); done | sort)"
rm -rf x
emits objects a.lua -o x
touch x/train.o x/runtime/base.o x/runtime/base.d x/mine.o
sed -i '/"model_fields"/d' x/manifest.json           # as one of the time when objects were next to their sources
emits objects-beside a.lua -o x
same old-objects-gone mine.o "$(cd x && find . -name '*.[od]' -printf '%P\n')"

# ---- files of others
mkdir own; echo 'all:' >own/Makefile; echo hello >own/README.md; echo '{}' >own/manifest.json
refuses strangers "own: holds files that gen did not write and would replace: Makefile, README.md, manifest.json" a.lua -o own
emits strangers-forced a.lua -o own --force
emits strangers-ours-now a.lua -o own
mkdir -p home/src
refuses home "home: holds \"src\", but no manifest.json of gen: name a new or empty folder with -o, or --force" a.lua -o home
rmdir home/src
emits home-empty a.lua -o home
emits home-ours-now a.lua -o home
emits killed a.lua -o half                            # as if gen had been killed after the manifest
find half -type f ! -name manifest.json -delete
echo old >half/train.c
emits killed-again a.lua -o half
same killed-same-bytes "$before" "$(state half)"

# ---- runs
run_of() {              # run_of EMITTED FOLDER: a run of that program
    mkdir -p "$2" && { echo '{'; sed -n 's/^\(  "model_fields": .*\),$/\1/p' "$1/manifest.json"; echo '}'; } >"$2/train_state.json"
}
run_of y/z x/run/checkpoint-20
run_of y/llama x/run/checkpoint-3                     # not the newest
emits runs-same a.lua -o x
emits runs-layout a.lua gpus=2 batch.accum=3 batch.micro=1 -o x
emits runs-target a.lua target=sm_90 precision=fp32 -o x
emits runs-back a.lua -o x
refuses runs-shape "x/run/checkpoint-20: a run of another model: model.layers is 4 in them, 6 in the recipe; emit into" \
    a.lua model.layers=6 -o x
refuses runs-several 'precision is "fp32" in them, "bf16" in the recipe; model.hidden is 128 in them, 64 in the recipe; model.head_dim' \
    a.lua precision=bf16 model.hidden=64 -o x
mv x/run x/mine; refuses runs-any-name "x/mine/checkpoint-20: a run" a.lua model.layers=6 -o x
mv x/mine/checkpoint-20 x; refuses runs-in-itself "x/checkpoint-20: a run" a.lua model.layers=6 -o x
rm -r x/mine x/checkpoint-20; mkdir x/run x/checkpoint-x
touch x/run/run.lock
refuses runs-before-a-checkpoint "x/run: a run of another model works there, or was killed (run.lock): model.layers" \
    a.lua model.layers=6 -o x
rm x/run/run.lock; mkdir x/run/logs; touch x/run/fault.0.0.json      # one that ended before it began
emits runs-none a.lua model.layers=6 -o x
rm -r x/run
run_of x x/run/checkpoint-1
sed -i '/"model_fields"/d' x/manifest.json
refuses runs-older-manifest "model.layers is 6 in them, 4 in the recipe" a.lua -o x
emits runs-forced a.lua -o x --force
emits runs-forced-again a.lua -o x

# ---- paths that would be code: refused, and nothing ran
bad_paths=("a'; touch pwned #" $'a\n\ttouch pwned\n' 'a*/ int pwned; /*' 'a$(touch pwned)' 'a`touch pwned`' 'a";touch pwned' 'a\'
    'a??/' 'a%' 'a:b' 'a=b' 'a;b' 'a|b' 'a&b' 'a>b' 'a(b)' 'a{b}' 'a[b]' 'a*' 'a?' 'a!' 'a^' 'a~' 'a#b' $'a\tb' $'a\033[2J'
    $'a\177' $'a\xff' $'a\xe2\x80\xae' $'a\xe2\x80\xa8' $'a\xc2\x85' $'a\xc2\xa0' $'a\xef\xbb\xbf')
mkdir hostile
for i in "${!bad_paths[@]}"; do
    path=./hostile/${bad_paths[i]}
    refuses "out-$i" 'is not allowed in paths' a.lua -o "$path"
    [[ $path = *\** ]] || mkdir -p "$(dirname "$path")"
    cp a.lua "$path.lua" 2>/dev/null || { mkdir -p "$(dirname "$path.lua")" && cp a.lua "$path.lua"; }
    refuses "recipe-$i" 'is not allowed in paths' "$path.lua"
    refuses "plan-$i" 'is not allowed in paths' plan "$path.lua"
done
refuses out-empty '-o: needs a path, got nothing' a.lua -o ''
refuses out-option '-o "-C": begins with -, as an option does; ./-C means the same' a.lua -o -C
refuses name-quote 'name: must be up to 100' a.lua "name=a'b" -o hostile/x
refuses name-blank 'name: must be up to 100' a.lua "name=a b" -o hostile/x
same nothing-ran "" "$(find . -name pwned)"

# ---- the same texts where they are accepted stay texts
hostile=$'\'"`$(touch pwned)*/ ??/\n#error pwned \\'
emits texts a.lua "about=$hostile" "run.tokenizer=$hostile" -o texts
same texts-once "$(grep -c '' y/z/train.c)" "$(($(grep -c '' texts/train.c) - 2))"      # run.tokenizer, two lines
same texts-comment "" "$(gcc -fsyntax-only -std=c11 -fopenmp -Itexts -DDIECAST_RANKS=1 texts/train.c 2>&1 | head -3)"
{ echo '#include <stdio.h>'; echo 'int main(void) { const char *s[][2] = {'; sed -n '/{"tokenizer"/,/},$/p' texts/train.c
    echo '}; fputs(s[0][1], stdout); return 0; }'; } >print.c
same texts-string "$hostile" "$(gcc -std=c11 -w print.c -o print && ./print)"
before=$(state texts)
emits texts-again --locked -o texts
same texts-again-same "$before" "$(state texts)"
for f in texts/Makefile texts/run.sh texts/train.slurm; do
    same "texts-$(basename $f)" "" "$(diff "$f" "y/z/$(basename $f)" | grep -v '^[<>] # ' | grep '^[<>]')"
done
mkdir 'my models' && cp a.lua 'my models/größe 1.lua'
emits blank 'my models/größe 1.lua' name=blank
same blank-run "RECIPE='größe 1.lua'" "$(grep ^RECIPE= out/blank/run.sh)"
# ---- the same recipe gives the same bytes, in whatever folder and by whatever path it is named
root=$(cd "$(dirname "$gen")/../.." && pwd)
mkdir -p p/lib q/lib elsewhere/deep
ln -s "$root/recipes" elsewhere/linked
ln -s "$root/recipes/cpu_tiny.lua" elsewhere/cpu_tiny.lua
for x in p q; do
    echo 'return extend(use "cpu_tiny", { model = use "lib/m" })' >$x/mine.lua
    cp "$root/recipes/models/tiny_gpt2.lua" $x/lib/m.lua
done
ln -s "$PWD/q" elsewhere/q
by_path() {             # by_path FOLDER RECIPE: what it emits there
    local to
    to=$(mktemp -d)
    (cd "$1" && "$gen" "$2" -o "$to/x" >/dev/null 2>&1)
    state "$to/x" | sha256sum
    rm -rf "$to"
}
want=$(by_path "$root" recipes/cpu_tiny.lua)
same path-absolute "$want" "$(by_path . "$root/recipes/cpu_tiny.lua")"
same path-name "$want" "$(by_path elsewhere/deep cpu_tiny)"
same path-dots "$want" "$(by_path "$root/tests/gold" ../../recipes/cpu_tiny.lua)"
same path-linked-folder "$want" "$(by_path elsewhere linked/cpu_tiny.lua)"
same path-linked-file "$want" "$(by_path elsewhere cpu_tiny.lua)"
want=$(by_path p mine.lua)
same path-own-absolute "$want" "$(by_path . "$PWD/p/mine.lua")"
same path-own-other "$want" "$(by_path . q/mine.lua)"
same path-own-linked "$want" "$(by_path elsewhere/deep ../q/mine.lua)"
emits path-told-emits "$PWD/p/mine.lua" -o p/out/mine
same path-told "" "$(grep -rl "$scratch\|$root" p/out/mine)"
same path-told-names "gen mine.lua mine.lua lib/m.lua" "$(sed -n 's/^ \* Generated by `\(.*\)`:/\1/p' p/out/mine/plan.h) $(
    sed -n 's/^  "recipe": "\(.*\)",/\1/p' p/out/mine/manifest.json) $(grep -o 'lib/m.lua' p/out/mine/ir/plan.ir | head -1)"
# gen --locked looks in the folder of the project of -o, then here, then below gen's root
locked() { (cd "$1" && "$gen" --locked -o "$2" 2>&1 >/dev/null); }
same again-project "gen: ../../p/out/mine: made from mine.lua; using $PWD/p/mine.lua" "$(locked elsewhere/deep ../../p/out/mine)"
same again-same "$want" "$(state p/out/mine | sha256sum)"
mv p/mine.lua elsewhere/mine.lua && mkdir elsewhere/lib && cp p/lib/m.lua elsewhere/lib
same again-here "gen: $PWD/p/out/mine: made from mine.lua; using mine.lua in $PWD/elsewhere" \
    "$(locked elsewhere "$PWD/p/out/mine")"
same again-nowhere "p/out/mine/manifest.json: made from mine.lua, which is in none of $PWD/p, $PWD, $root; name it: gen\
 PATH/mine.lua --locked -o p/out/mine, with the words of \"overrides\"" "$(locked . p/out/mine)"
emits again-root-emits cpu_tiny -o elsewhere/x
same again-root "gen: elsewhere/x: made from recipes/cpu_tiny.lua; using $root/recipes/cpu_tiny.lua" "$(locked . elsewhere/x)"

emits blank-out a.lua -o 'out/a b'
same blank-line "'out/a b'" "$(sed -n 's/.*make -C //p' log)"
exit $failed
