#!/bin/bash
# The pages: generated ones are as `make docs` writes them, links have targets (tables); every command on a page uses
# existing commands, options and files (commands.sh); code blocks marked for it are run (walks.sh).
# parts: walks tables
# cost: walks=23
set -u
cd "$(dirname "$0")/../.." || exit 2
. tests/verdict.sh
. tests/docs/pages.sh
. tests/compare.sh
[ "${1:-walks}" != walks ] || tests/docs/walks.sh || failed=1
[ "${1:-tables}" = tables ] || exit $failed
tests/docs/commands.sh || failed=1
GEN=$PWD/out/.gen/gen
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT

# ---- make quickstart: a text that will not do is refused before anything is built
head -c 19999 /dev/zero | tr '\0' a >"$T/a text.txt"
for said in "$T/a text.txt: 19999 bytes, and a first model needs at least 20000: name a longer text" \
    "$T/none: no file that can be read; DATA=FILE names a text"; do
    check "quickstart/${said##*: }" "quickstart: $said" \
        "$(make quickstart GEN=none DATA="${said%%: *}" 2>&1 | grep -v '^make')"
done

# ---- gen/reference: what `make docs` writes, and nothing else
"$GEN" reference -o "$T/reference"
check reference/fresh "" "$(diff -rq "$T/reference" gen/reference | sed 's/$/; make docs updates them/' | head -3)"
check reference/page "" "$("$GEN" reference flags | diff - gen/reference/flags.md | head -3)"
check reference/near "gen: reference: takes -o DIR or one of commands, list, fields, flags, runs, metrics, data, \
names, got flgs; did you mean flags?" \
    "$("$GEN" reference flgs 2>&1)"
# a table of Markdown: as many bars in each row as in its head
check reference/tables "" "$(awk '{ bars = gsub(/\\\|/, "") * 0 + gsub(/\|/, "") } bars && !last { head = bars }
    bars && bars != head { print FILENAME ":" FNR } { last = bars }' gen/reference/*.md | head -3)"
# every row of the tables stands on its page
stands() {                                    # PAGE: words on standard input that it does not have
    while read -r word; do grep -qF -- "$word" "gen/reference/$1.md" || echo "$word"; done | head -3
}
check reference/fields "" "$(
    sed -n 's/^FIELD([a-z_0-9]*, "\([^"]*\)".*/| `\1` |/p' gen/config/fields.def runtime/objectives/*.def | stands fields)"
check reference/flags "" "$(
    sed -n 's/^FLAG(\([a-z_0-9]*\),.*/| `--\1` |/p' runtime/run/flags.def runtime/objectives/*.def |
        tr _ - | stands flags)"
check reference/names "" "$({ grep -vE '^(WHEN|IMPLIED|UNSET|SAME|RENAMED_WORD)' runtime/files/aliases.def |
    sed -n 's/^[A-Z_]*("\([a-z_0-9.]*\)".*/`\1`/p'
    sed -n 's/^RENAMED_WORD("[^"]*", "\([^"]*\)".*/`\1`/p' runtime/files/aliases.def; } | stands names)"
check reference/formats "" "$(
    sed -n 's/^FORMAT([A-Z]*, "\([a-z]*\)".*/| `\1` |/p' runtime/pack/formats.def | stands data)"
check reference/metrics "" "$(sed -n 's/^METRIC([a-z]*, [a-z]*, \([a-z_]*\),.*/| `\1` |/p' runtime/objectives/*.def |
    stands metrics)"
# variables that the sources ask for by a name of ours have a row
check reference/variables "" "$(
    grep -rhoE '"DIECAST_[A-Z_]+"|\$\{?DIECAST_[A-Z_]+' gen runtime templates --include='*.[ch]' \
        --include='*.cu' --include='*.sh' --include='*.slurm' |
        tr -d '"${' | sort -u | sed 's/.*/| `&` |/' | stands runs)"

# the excerpts of the rooms' output for cpu_tiny in gen/README.md, ignoring blanks
for room in recipe config graph fuse plan; do "$GEN" -d $room recipes/cpu_tiny.lua; done >"$T/rooms" 2>/dev/null
check rooms "" "$(sed -n '/^Excerpts of the rooms/,/^`/s/^    //p' gen/README.md |
    sed -E 's/ +(recipe|config|graph|fuse|plan)$//; s/^ *//' | grep . |
    while read -r text; do grep -qF -- "$text" "$T/rooms" || echo "$text"; done | head -3)"

# every source and table of gen is in a table of gen/README.md, by its name or by a pattern such as emit*.c
check gen/README.md "" "$(set -f; named=$(grep '^|' gen/README.md | grep -oE '`[^`]+`' | tr -d '`' | sed 's|.*/||')
    find gen -name '*.c' -o -name '*.def' | grep -v -e '^gen/graph/objectives/' -e '^gen/main.c' | while read -r file; do
        for name in $named; do [[ ${file##*/} != $name ]] || continue 2; done
        echo "$file"
    done)"

# ---- links: files and headings
slugs() { sed -n 's/^##* //p' "$1" | tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9 _-]//g; s/ /-/g'; }
check links "" "$({ pages; ls gen/reference/*.md; } | while read -r page; do
    sed 's/`[^`]*`//g' "$page" | grep -oE '\]\([^)]+\)' | sed 's/^](//; s/)$//' | sort -u | while read -r link; do
        case $link in http*) continue ;; esac
        file=${link%%#*} to=$page
        [ -z "$file" ] || to=$(dirname "$page")/$file
        [ -e "$to" ] || { echo "$page: $link"; continue; }
        [[ $link != *'#'* ]] || slugs "$to" | grep -qxF -- "${link#*#}" || echo "$page: $link"
    done
done | head -3)"
exit $failed
