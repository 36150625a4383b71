#!/bin/bash
# toolchain.sh -- build tools and libraries of this machine, and locks of them: the rows of toolchain.def with their
# versions, packages and the hashes of the files that a build reads.
#
#   toolchain.sh list [NEED ...]          lines: part, what, value (tabs between them)
#   toolchain.sh lock FILE CLUSTER        writes FILE: all parts of this machine
#   toolchain.sh show FILE                such lines, of a lock
#   toolchain.sh check FILE [--cluster NAME] [NEED ...]    one line, and 1, where this machine differs from FILE
#
# NEED: GEN, or what a program is built with: CPU MODEL DNNL MPI CUDA NCCL; none: all. Compilers are those of CC, CXX,
# MPICC, NVCC and CUDA, as Makefiles take them. MAKE_LOCK: the words of messages that make a lock.
set -u
export LC_ALL=C
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
tab=$'\t'
as_lock=${MAKE_LOCK:-"make lock-toolchain CLUSTER=NAME in the project, and LOCK=FILE"}
if [ -z "${CUDA:-}" ]; then
    CUDA=$(command -v nvcc) && CUDA=${CUDA%/bin/nvcc} || CUDA=/usr/local/cuda
fi
NVCC=${NVCC:-$CUDA/bin/nvcc}
read -ra cc <<<"${CC:-gcc}"
read -ra cxx <<<"${CXX:-g++}"

die() { echo "toolchain: $1" >&2; exit 1; }

# ---- what is looked for

# Rows of toolchain.def, one a line: kind@name@...; the compiler reads the table.
rows() {
    printf '%s\n' '#define TOOL(name, variable, commands, version, least, blocks, ...) \' \
        'TOOL@name@variable@commands@version@blocks@__VA_ARGS__' \
        '#define INNER(part, variable, name, version, blocks) INNER@part@variable@name@version@blocks@' \
        '#define LIBRARY(name, header, version, link, loads, major, cuda, blocks, runs, ...) \' \
        'LIBRARY@name@header@version@link@blocks@__VA_ARGS__@cuda' '#include "toolchain.def"' |
        "${cc[@]}" -E -P -x c "-I$here" - | sed -n '/@/{s/ *@ */@/g;s/"//g;p}'
}

# wanted BLOCKS: true if a part that blocks these is requested.
wanted() {
    local need
    [[ $1 == *_BUILD* || $1 == *NEED_GEN* ]] || return 1
    [ ${#needs[@]} -gt 0 ] || return 0
    for need in "${needs[@]}"; do
        [[ " $1 " == *" NEED_${need}_BUILD "* || " $1 " == *" NEED_$need "* ]] && return 0
    done
    return 1
}

# ---- what is here

# The first number with points in the version output of a tool; nvcc's tools print the full one after a V.
number() {
    local said
    said=$(cat)
    { grep -oE 'V[0-9]+(\.[0-9]+)+' <<<"$said" || grep -oE '[0-9]+(\.[0-9]+)+' <<<"$said" ||
        grep -oE '[0-9]+' <<<"$said"; } | head -n 1 | tr -d V
}

# put PART WHAT VALUE
put() { printf '%s\t%s\t%s\n' "$1" "$2" "$3"; }

# file PART WHAT PATH: its hash; several of them at once are hashed at the end
file() {
    local path
    path=$(readlink -e -- "$3") && [ -f "$path" ] && put "$1" "$2" "=$path"
}

# The compiler that a wrapper such as ccache calls.
driver() {
    local path
    path=$("$@" -v 2>&1 | sed -n 's/^COLLECT_GCC=//p')
    command -v "${path:-$1}"
}

# tool NAME VARIABLE COMMANDS VERSION: sets `words` to its words; 1: it is missing, or prints no version
tool() {
    local command version path said=
    [ -z "$2" ] || said=${!2-}
    words=()
    while read -r -d'|' command; do
        read -ra words <<<"$command"
        command -v "${words[0]-}" >/dev/null && break
        words=()
    done <<<"${said:-$3}|"
    [ ${#words[@]} -gt 0 ] || return 1
    version=
    while [ -z "$version" ] && read -r -d'|' command; do
        # shellcheck disable=SC2086      # words
        version=$("${words[@]}" $command 2>&1 </dev/null | number)
    done <<<"$4|"
    [ -n "$version" ] || return 1
    put "$1" version "$version"
    case $2 in
    CC | CXX) path=$(driver "${words[@]}") ;;
    *) path=$(command -v "${words[0]}") ;;
    esac
    file "$1" "$([ -n "$2" ] && echo driver || echo "${words[0]##*/}")" "$path"
}

# inner PART VARIABLE NAME VERSION: a program that one of the tools starts
inner() {
    local path folder
    case $2 in
    CC) path=$("${cc[@]}" "-print-prog-name=$3") ;;
    CXX) path=$("${cxx[@]}" "-print-prog-name=$3") ;;
    NVCC)
        folder=$(dirname "$(readlink -e "$NVCC")")
        path=$folder/$3
        [ -x "$path" ] || path=$folder/../nvvm/bin/$3
        ;;
    esac
    path=$(command -v "$path") || return
    [ -z "$4" ] || put "$1" version "$("$path" "$4" 2>&1 | number)"
    file "$1" "$3" "$path"
}

# Prints the part of a file that the linker read; of a library -lNAME: link_part[NAME].
part_of() {
    local name=${1##*/} stem
    case $name in
    crt[1in].o | [gSr]crt1.o | libc.so* | libc_nonshared.a | libm.* | libmvec* | ld-linux* | libpthread* | libdl.*)
        echo "C library" ;;
    crt*.o | libgcc* | libgomp* | libstdc++*) echo "C compiler" ;;
    libmpi* | libopen-*) echo "MPI compiler" ;;
    lib*)
        stem=${name#lib}
        echo "${link_part[${stem%%.[as]*}]-}"
        ;;
    esac
}

# trace COMMAND ...: prints the files that the linker reads; 1: nothing is linked
trace() {
    "$@" -x c - -x none -Wl,--no-as-needed -Wl,-t -o "$scratch/linked" <<<'int main(void) { return 0; }' 2>/dev/null
}

# Versions of the headers that are there: name@version.
headers() {
    local kind name header version link blocks rest flags=(-I/usr/include/lua5.4)
    [ ! -d "$CUDA/include" ] || flags+=("-I$CUDA/include")
    while IFS=@ read -r kind name header version link blocks rest; do
        [ "$kind" = LIBRARY ] && wanted "$blocks" || continue
        printf '#if __has_include(<%s>)\n#define PCRE2_CODE_UNIT_WIDTH 8\n#include <%s>\n' "$header" "$header"
        printf '@%s@ %s\n#undef PCRE2_CODE_UNIT_WIDTH\n#endif\n' "$name" "$version"
    done <<<"$rows" | "${cc[@]}" -E -P -x c "${flags[@]}" - 2>/dev/null | sed -n 's/^@\([^@]*\)@/\1@/p' |
        while IFS=@ read -r name version; do
            version=$(tr -d '" \t()' <<<"$version")
            [[ $version == *.* ]] || version=$((version / 1000)).$((version % 1000 / 10))
            echo "$name@$version"
        done
}

libraries() {
    local kind name header version link blocks rest path part words=() one all=1
    declare -A built link_part
    while IFS=@ read -r name version; do
        built[$name]=$version
    done < <(headers)
    # those that link: all of them, or one by one
    while :; do
        words=()
        while IFS=@ read -r kind name header version link blocks rest; do
            [ "$kind" = LIBRARY ] && [ -n "${built[$name]-}" ] || continue
            one=("-l$link")
            [[ $rest != *true ]] || one=("-L$CUDA/lib64" "-L$CUDA/lib" "-l$link")
            [ $all = 1 ] || trace "${cc[@]}" "${one[@]}" >/dev/null || continue
            link_part[$link]=$name
            words+=("${one[@]}")
        done <<<"$rows"
        trace "${cc[@]}" -fopenmp "${words[@]}" -lm -lpthread -ldl >"$scratch/linked.files" && break
        [ $all = 1 ] || break
        all=0 link_part=()
    done
    for name in "${link_part[@]}"; do
        put "$name" version "${built[$name]}"
    done
    { cat "$scratch/linked.files"
        [ ${#mpicc[@]} = 0 ] || trace "${mpicc[@]}"; } | while read -r path; do
        part=$(part_of "$path")
        path=$(readlink -e -- "$path") || continue
        [ -z "$part" ] || put "$part" "${path##*/}" "=$path"
    done
}

packages() {
    local kind name a b c blocks rest part package version
    command -v dpkg-query >/dev/null || return
    while IFS=@ read -r kind name a b c blocks rest; do
        wanted "$blocks" || continue
        package=$(cut -d, -f1 <<<"$rest")
        [ -z "${package// /}" ] || echo "$name@${package// /}"
    done <<<"$rows" >"$scratch/packages"
    # shellcheck disable=SC2046      # names
    dpkg-query -W -f '${Package}@${Version}@${db:Status-Status}\n' $(cut -d@ -f2 "$scratch/packages" | sort -u) \
        2>/dev/null >"$scratch/installed"
    while IFS=@ read -r part package; do
        version=$(awk -F@ -v p="$package" '$1 == p && $3 == "installed" { print $2 }' "$scratch/installed")
        [ -z "$version" ] || put "$part" package "$package=$version"
    done <"$scratch/packages"
}

# Prints all parts, sorted; files are hashed at once.
list() {
    local kind name a b c blocks rest mpicc=() words
    {
        while IFS=@ read -r kind name a b c blocks rest; do
            wanted "$blocks" || continue
            case $kind in
            TOOL)
                tool "$name" "$a" "$b" "$c" || continue
                [ "$a" != MPICC ] || mpicc=("${words[@]}")
                ;;
            INNER) inner "$name" "$a" "$b" "$c" ;;
            esac
        done <<<"$rows"
        libraries
        packages
    } </dev/null | sort -u >"$scratch/all"
    cut -f3 "$scratch/all" | sed -n 's/^=//p' | sort -u | tr '\n' '\0' | xargs -0r sha256sum >"$scratch/hashes"
    awk -F'\t' -v OFS='\t' 'NR == FNR { hash["=" substr($0, 67)] = substr($0, 1, 64); next }
        $3 in hash { $3 = hash[$3] } { print }' "$scratch/hashes" "$scratch/all" | sort -u
}

# ---- the lock

machine() {
    local system=unknown
    # shellcheck disable=SC1091
    [ ! -r /etc/os-release ] || system=$(. /etc/os-release && echo "$ID ${VERSION_CODENAME:-${VERSION_ID:-}}")
    put "" machine "$("${cc[@]}" -dumpmachine)"
    put "" system "$system"
}

# The text of a lock: one value a line, so that a difference is a line of git diff.
write_lock() {
    awk -F'\t' -v cluster="$1" '
        BEGIN { printf "{\n  \"diecast_toolchain\": 1,\n  \"cluster\": \"%s\",\n", cluster }
        $1 == "" { printf "  \"%s\": \"%s\",\n", $2, $3; next }
        $1 != part { printf "%s    \"%s\": {", part == "" ? "  \"parts\": {\n" : "\n    },\n", $1; part = $1; n = 0 }
        { printf "%s\n      \"%s\": \"%s\"", n++ ? "," : "", $2, $3 }
        END { print "\n    }\n  }," }'
}

sum() { printf '  "sum": "%s"\n}\n' "$(sha256sum | cut -c1-64)"; }

lock() {
    local file=$1 text
    { machine; list; } >"$scratch/here" || exit
    text=$(write_lock "$2" <"$scratch/here")
    { echo "$text"; echo "$text" | sum; } >"$scratch/lock" &&
        { cmp -s "$scratch/lock" "$file" || cp "$scratch/lock" "$file"; } || die "cannot write $file"
    echo "$file: $(cut -f1 "$scratch/here" | sort -u | grep -c .) parts of $(sed -n "s/^${tab}machine$tab//p" \
        "$scratch/here"), $(grep -cE "${tab}[0-9a-f]{64}\$" "$scratch/here") files"
}

# Lines as list has them, from a lock.
read_lock() {
    local file=$1 body
    [ -e "$file" ] || die "$file: there is no such lock; on a machine of the cluster: $as_lock"
    [ -r "$file" ] && [ -f "$file" ] || die "$file: cannot be read"
    case $(sed -n 2p "$file") in
    '  "diecast_toolchain": 1,') ;;
    '  "diecast_toolchain": '*) die "$file: another version of gen wrote this; lock again: $as_lock" ;;
    *) die "$file: not a toolchain lock: its second line must be \"diecast_toolchain\": 1" ;;
    esac
    body=$(head -n -2 "$file")
    [ "$(tail -n 2 "$file")" = "$(echo "$body" | sum)" ] ||
        die "$file: edited or damaged: its checksum does not match; copy it again from where it was made, "\
"or lock again: $as_lock"
    echo "$body" | sed -n '
        s/^  "\([a-z]*\)": "\(.*\)",$/\t\1\t\2/p
        s/^    "\(.*\)": {$/\1/p
        s/^      "\([^"]*\)": "\([^"]*\)",*$/ \1\t\2/p' |
        awk '/^\t/ { print; next } /^ / { print part "\t" substr($0, 2); next } { part = $0 }'
}

check() {
    local file=$1 kind name a b c blocks rest of=
    read_lock "$file" >"$scratch/locked" || exit
    said=$(sed -n "s/^${tab}cluster$tab//p" "$scratch/locked")
    [ -z "$2" ] || [ "$2" = "$said" ] || die "$file: is for the cluster $said, not $2"
    { machine; list; } >"$scratch/here" || exit
    while IFS=@ read -r kind name a b c blocks rest; do
        wanted "$blocks" && of+=$name@
    done <<<"$rows"
    said=$(awk -F'\t' -v parts="$of" '
        function show(value) { return value ~ /^[0-9a-f]+$/ && length(value) == 64 ? substr(value, 1, 12) : value }
        function name(key, w) { split(key, w, "\t"); return w[1] == "" ? w[2] : w[1] " " w[2] }
        # the system, the machine, versions, packages, then files
        function rank(key, w) {
            split(key, w, "\t")
            return w[1] == "" ? 0 : w[2] == "version" ? 1 : w[2] == "package" ? 2 : 3
        }
        BEGIN { n = split(parts, part, "@"); for (i = 1; i <= n; i++) asked[part[i]] = 1 }
        $2 == "cluster" || ($1 != "" && !($1 in asked)) { next }
        { key = $1 "\t" $2; if (!(key in seen)) { seen[key] = 1; order[++m] = key } }
        NR == FNR { locked[key] = $3; next }
        { now[key] = $3 }
        END {
            for (r = 0; r < 4; r++)
                for (i = 1; i <= m; i++) {
                    key = order[i]
                    if (rank(key) != r || (key in locked && key in now && locked[key] == now[key]))
                        continue
                    if (!differences++)
                        first = name(key) ": locked " (key in locked ? show(locked[key]) : "nothing") ", here " \
                            (key in now ? show(now[key]) : "nothing")
                }
            if (differences)
                print differences (differences == 1 ? " difference from" : " differences from") \
                    " this machine; the first: " first
        }' "$scratch/locked" "$scratch/here")
    [ -z "$said" ] || die "$file: $said; build where it fits, or lock what is here: $as_lock"
}

# ---- the command

scratch=$(mktemp -d) || exit
trap 'rm -rf "$scratch"' EXIT
rows=$(rows 2>/dev/null) && [ -n "$rows" ] || die "${cc[*]} is not a working C compiler"
command=${1-}
case $command in
list)
    needs=("${@:2}")
    list
    ;;
lock)
    [ $# = 3 ] || die "usage: lock FILE CLUSTER"
    needs=()
    lock "$2" "$3"
    ;;
show)
    [ $# = 2 ] || die "usage: show FILE"
    read_lock "$2"
    ;;
check)
    [ $# -ge 2 ] || die "usage: check FILE [--cluster NAME] [NEED ...]"
    file=$2 cluster=
    shift 2
    if [ "${1-}" = --cluster ]; then
        cluster=${2-}
        shift 2
    fi
    needs=("$@")
    check "$file" "$cluster"
    ;;
*) die "${command:-no command}: use list, lock, show or check" ;;
esac
