#!/bin/bash
# Every command that a page shows, as far as words tell: gen's commands, options, recipes and fields, targets of make,
# flags of programs of that objective, files. Nothing but gen itself is run, and of it nothing that takes long.
set -u
cd "$(dirname "$0")/../.." || exit 2
. tests/docs/pages.sh
. tests/verdict.sh
verdict_prefix=commands/
GEN=$PWD/out/.gen/gen ROOT=$PWD
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
declare -A option flag_value flag_of alias objective_of made

# ---- what there is: from the reference's tables
while IFS=@ read -r command word value; do option[$command $word]=$value; done < <(
    "$GEN" reference commands | awk '/^## gen / { command = $3 == "RECIPE" ? "" : $3 }
        /^\| `-/ { split($0, part, "`"); n = index(part[2], " ")
            print command "@" (n ? substr(part[2], 1, n - 1) : part[2]) "@" (n ? substr(part[2], n + 1) : "") }')
while IFS=@ read -r name value of; do flag_value[$name]=$value flag_of[$name]=$of; done < <(
    "$GEN" reference flags | sed 's/\\|/\x01/g' | awk -F' *[|] *' '/^\| `--/ { gsub(/`/, "")
        print $2 "@" ($3 == "" ? "-" : $3) "@" $6 }' | tr '\001' '|')
while read -r theirs ours; do alias[$theirs]=--$ours; done < <(
    sed -n 's/^ALIAS("\([^"]*\)", "\([^"]*\)").*/--\1 \2/p' runtime/files/aliases.def | tr _ -)
own=" --nodes --node-rank --master-addr --master-port --hosts --nproc-per-node --gpu-ids --restarts "   # of run.sh
mapfile -t words < <("$GEN" reference commands | sed -n 's/^| `gen \([a-z-]*\)[` ].*/\1/p')

# ---- a page's commands, as functions
fail() { echo "$page:$line: $*" >>"$T/wrong"; }
any() { [[ $1 =~ ^[A-Z]+[A-Z0-9]*(\.[a-z]+)?$ || $1 = ... ]]; }     # stands for something: NAME, FILE.lua

config() {                                    # RECIPE FIELD=VALUE ...: checked; its objective and name
    local recipe said
    recipe=${made[$1]:-$1}
    if ! said=$(cd "$ROOT" && "$GEN" -d config "$recipe" "${@:2}" 2>&1 </dev/null); then
        fail "gen $*: $(tail -n 1 <<<"$said")"
        return
    fi
    name=$(sed -n 's/^name = "\(.*\)"  .*/\1/p' <<<"$said")
    [ -z "${made[$1]:-}" ] || name=$(basename "$1" .lua)
    objective_of[$name]=$(sed -n 's/^objective = "\([a-z_]*\)".*/\1/p' <<<"$said")
}
gen() {
    local command="" word name plain=() given=("$@")
    for word in "${words[@]}"; do [ "${1:-}" != "$word" ] || command=$1; done
    [ -z "$command" ] || shift
    while [ $# -gt 0 ]; do
        case $1 in
        --) break ;;                               # of gen launch: the program's flags
        -?*)
            if [ "$1" = --help ] || { [ "$1" = --version ] && [ -z "$command" ]; }; then shift; continue; fi
            [ -n "${option[$command $1]+x}" ] || { fail "gen $command has no option $1"; return; }
            if [ -n "${option[$command $1]}" ]; then
                [ $# -gt 1 ] || [ ${#plain[@]} = 0 ] || fail "gen $command $1 needs a value"
                [ $# -gt 1 ] || return             # `gen diff --base`: told of, not shown
                case $command/$1 in
                /-d | /--from) "$GEN" $1 "$2" 2>&1 | grep -q "no such room" && ! any "$2" && fail "no room $2" ;;
                */--card) "$GEN" list cards | grep -q "^  $2 " || fail "no card $2" ;;
                new/--from) [ ! -e "$ROOT/$2" ] || fail "$2 is there" ;;
                esac
                shift
            fi
            ;;
        *) plain+=("$1") ;;
        esac
        shift
    done
    if any "${plain[0]:-NONE}" || [[ ${plain[0]} =~ \.(ya?ml|json|toml)$ ]]; then plain=(); fi      # of other trainers
    case $command in
    pack | pack-buffers | completion | man | reference | --help | --version | fields) ;;
    explain | list | ci) [ ${#plain[@]} = 0 ] || said=$(cd "$ROOT" && "$GEN" "${given[@]}" 2>&1) ||
        fail "gen ${given[*]}: $said" ;;
    launch) any "${plain[1]:-NONE}" || said=$(cd "$ROOT" && "$GEN" "${given[@]}" 2>&1) || fail "gen ${given[*]}: $said" ;;
    new)                                      # of another model: here one of ours stands for it
        [ ${#plain[@]} -gt 0 ] || return
        case " ${plain[*]} " in
        *" objective=dpo "*) made[${plain[0]}]=$ROOT/recipes/dpo_tiny.lua ;;
        *" objective=prm "*) made[${plain[0]}]=$ROOT/recipes/dreamprm_tiny.lua ;;
        *) made[${plain[0]}]=$ROOT/recipes/a100x4_lora.lua ;;
        esac
        config "${plain[@]}"
        ;;
    plan | fit) [ ${#plain[@]} = 0 ] || [ -n "${made[${plain[0]}]:-}" ] && return; config "${plain[@]}" ;;
    *) [ ${#plain[@]} = 0 ] || config "${plain[@]}" ;;
    esac
}
make() {
    while [ $# -gt 0 ]; do
        case $1 in
        -C)
            [[ $2 = out/NAME ]] || [ -n "${objective_of[${2#out/}]:-}" ] || fail "make -C $2: no recipe makes it before"
            shift
            ;;
        -*) ;;
        *=*) grep -qE '[$][(]'"${1%%=*}[),]|^#.*${1%%=*}=" "$ROOT/Makefile" || fail "make takes no ${1%%=*}=" ;;
        *) grep -qE "^([a-z-]+ )*$1( [a-z-]+)* *:" "$ROOT/Makefile" || fail "make has no target $1" ;;
        esac
        shift
    done
}
program() {                                   # out/NAME run.sh|train WORDS...
    local name=${1#out/} kind=$2 of="" flag value
    shift 2
    if [[ $name != NAME && $name != demo_* ]]; then
        [ -n "${objective_of[$name]:-}" ] || [ ! -e "$ROOT/recipes/$name.lua" ] || config "$ROOT/recipes/$name.lua"
        of=${objective_of[$name]:-}
        [ -n "$of" ] || fail "no recipe makes out/$name"
    fi
    while [ $# -gt 0 ]; do
        flag=${1%%=*}
        flag=${flag//_/-}
        if [[ $own = *" $flag "* && $kind = run.sh ]]; then
            [[ $1 = *=* ]] || shift
            shift
            continue
        fi
        [ -n "${flag_value[$flag]:-}" ] || flag=${alias[$flag]:-$flag}
        value=${flag_value[$flag]:-}
        case $value in
        '') fail "$kind has no flag $1"; return ;;
        '[true|false]') [[ ${2:-} = true || ${2:-} = false ]] && shift ;;
        '['*) [[ ${2:--} = -* ]] || shift ;;
        -) ;;
        *)
            if [[ $1 = *=* ]]; then set -- "$flag" "${1#*=}" "${@:2}"; fi
            [ $# -gt 1 ] || { fail "$flag needs a value"; return; }
            if [[ $value = *'|'* && ! $value =~ [A-Z] ]]; then
                [[ "|$value|" = *"|${2/hf/corpus}|"* ]] || any "$2" || fail "$flag: must be one of $value, got $2"
            elif [[ $value = [NX] ]]; then
                [[ $2 =~ ^-?[0-9.]+(e-?[0-9]+)?[kM]?$ ]] || any "$2" || fail "$flag wants a number, got $2"
            fi
            shift
            ;;
        esac
        [ -z "$of" ] || [ -z "${flag_of[$flag]}" ] || [[ ", ${flag_of[$flag]}, " = *", $of, "* ]] ||
            fail "$flag is no flag of the objective $of"
        shift
    done
}
torchrun() {
    while [ $# -gt 0 ] && [[ $1 != out/* ]]; do shift; done
    program "${1%/train}" train "${@:2}"
}
sbatch() {
    while [ $# -gt 0 ] && [[ $1 != out/* ]]; do shift; done
    program "${1%/train.slurm}" run.sh "${@:2}"
}
mpirun() { torchrun "$@"; }
srun() { torchrun "$@"; }
there() { [ -e "$ROOT/$1" ] || fail "there is no $1"; }
zcat() { :; }
pip() { :; }
hf() { made[${*: -1}]=1; }                    # the folder that it downloads into
tensorboard() { :; }
command_not_found_handle() { fail "no command $1"; }

: >"$T/wrong"
cd "$T" || exit 2
count=0
while read -r page; do
    made=() objective_of=()
    while IFS=$'\t' read -r line text; do
        # a program of a folder, as a function; a file that is read into the shell
        text=$(sed -E 's,(^|[;&|] *|^[A-Z_]+=[^ ]* )out/\.gen/gen( |$),\1gen\2,g
            s,(^|[;&|] *|^[A-Z_]+=[^ ]* )(out/[^ ]*)/(run\.sh|train)( |$),\1program \2 \3\4,g
            s,^\. ([a-z]+/[^ ]*),there \1,; s,^(recipes/[^ ]*\.sh).*,there \1,' <<<"$text")
        count=$((count + 1))
        PATH=/usr/bin:/bin eval "$text" </dev/null >>"$T/said" 2>&1 || [ $? != 127 ] || fail "$text"
    done < <(cd "$ROOT" && commands "$page")
done < <(cd "$ROOT" && pages)
cd "$ROOT" || exit 2
verdict words "$(head -n 5 "$T/wrong")"
verdict found "$([ $count -gt 100 ] || echo "only $count commands were found")"

# ---- flags and paths that stand in a text
fields=$(sed -n 's/^RECIPE("\([^"]*\)".*/--\1/p' runtime/files/aliases.def | tr _ -)
known=$(printf '%s\n' $fields "${!flag_value[@]}" "${!alias[@]}" "${!option[@]}" $own | sed 's/.* //' | sort -u)
others='--no-python --local-dir --nproc-per-node --num-processes --logdir --help --version --ckpt-dir --fmad'
others+=' --nodes --ntasks-per-node --gpus-per-node --cpus-per-task --time --array --signal --mpi '           # of Slurm
verdict flags "$(while read -r page; do
    sed '/^# From other trainers/,$ s/^| .* | \([^|]*\) |$/\1/' "$page" |      # of that page what is ours
        grep -onE -e '(^|[ `(|])--[a-z][a-z_-]*[a-z0-9]' | sed 's/[ `(|]*--/--/' | tr _ - | sort -u |
        while IFS=: read -r line flag; do
        grep -qxF -e "$flag" <<<"$known" || [[ " $others " = *" $flag "* ]] ||
            echo "$page:$line: there is no flag $flag"
    done
done < <(pages))"
rooms='gen|runtime|recipes|tests|kernels|templates|config|graph|lower|emit|tools'
verdict paths "$(while read -r page; do
    # shellcheck disable=SC2016
    grep -on '`[^` ]*/[^` ]*`' "$page" | tr -d '`' | while IFS=: read -r line path; do
        path=${path%%:*}
        [[ $path =~ ^(\.\./)*($rooms)/[a-z0-9_./*-]*$ ]] || continue
        compgen -G "$path" >/dev/null || compgen -G "$(dirname "$page")/$path" >/dev/null ||
            echo "$page:$line: there is no $path"
    done
done < <(pages))"
exit $failed
