#!/bin/bash
# Lines of guides.txt through run.sh and the flags of the program that they name: accepted where the program is what
# they say, else refused with a command whose program accepts them. Called by run.sh.
set -u
. tests/runtime/launcher.sh
. tests/verdict.sh
verdict_prefix="guides: "
flags=$1/flags
GEN=$PWD/out/.gen/gen
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
unset NNODES NODE_RANK MASTER_ADDR MASTER_PORT MPIRUN MPIRUN_FLAGS OMP_NUM_THREADS CUDA_VISIBLE_DEVICES
export DIECAST_CONFIG=/dev/null DIECAST_SECRET=0123456789abcdef

# program WORDS...: what gen WORDS would build, in $x: run.sh, and the flags of a program of those fields
program() {
    local text
    text=$("$GEN" -d graph "$@" 2>"$scratch/gen") || return
    x=$scratch/program
    rm -rf "$x"
    mkdir "$x"
    [[ $text =~ objective\ ([a-z_]+).*target\ ([a-z0-9_]+)\ \ ranks\ ([0-9]+) ]]
    backend=cuda
    [ "${BASH_REMATCH[2]}" != cpu ] || backend=cpu
    run_sh $backend prog "${BASH_REMATCH[3]}" >"$x/run.sh"
    awk '/^set (model|other)_fields/ { on = 1; next } on && /^\| ./ { print substr($0, 3); next } { on = 0 }' \
        <<<"$text" >"$x/fields"
    {
        echo '#!/bin/bash'
        printf 'export OBJECTIVE=%s DEFAULTS=none MADE=%q BUILT=$(<%q)\n' "${BASH_REMATCH[1]}" "$*" "$x/fields"
        printf '%q "$@" >%q.$$ || exit\n' "$flags" "$x/said"
        printf 'case " $* " in *" --where "*) echo %q ;; esac\n' "$x"
    } >"$x/train"
    chmod +x "$x/run.sh" "$x/train"
}
# instead WORDS OTHER: the words, a line each, but for fields that OTHER sets, and OTHER
instead() {
    local word
    for word in $1; do
        [[ $word == *=* && " $2 " == *" ${word%%=*}="* ]] || echo "$word"
    done
    tr -s ' ' '\n' <<<"$2" | sed '/^$/d'
}
run() {                 # run LINE: into $scratch/c
    local line=$1 words
    line=${line#torchrun }
    line=${line#accelerate launch }
    [[ $line != ./*.sh* ]] || line=${line#* }
    eval "words=($line)"
    timeout 100 "$x/run.sh" "${words[@]}" >"$scratch/c" 2>&1
}
while IFS='|' read -r recipe other sets line; do
    [[ $recipe != '#'* ]] || continue
    line=${line# }
    # shellcheck disable=SC2086
    program $recipe
    run "$line"
    code=$?
    why=
    for set in $sets; do
        grep -qxF "$set given" "$x"/said.* || why+=" no $set"
    done
    [ $code = 0 ] && [ -z "$why" ]
    verdict_of "gen $recipe: $line" $? "code $code$why: $(head -2 "$scratch/c")"
    [[ $other != *-* ]] || continue
    # another program of it: the command that it prints builds one that takes the line
    mapfile -t differs < <(instead "$recipe" "$other")
    program "${differs[@]}"
    run "$line"
    code=$?
    said=$(sed -n 's/.*: gen \(.*\) && make.*/\1/p' "$scratch/c" | head -1)
    first=$(head -1 "$scratch/c")
    # shellcheck disable=SC2086
    [ $code = 80 ] && [ -n "$said" ] && program $said && run "$line"
    verdict_of "not gen $recipe$other: $line" $? "code $code: $first; then $(head -1 "$scratch/gen") $(head -1 "$scratch/c")"
done <tests/runtime/guides.txt
exit $failed
