#!/bin/bash
# The commands of gen by their table gen/commands.def: help, options, what they print for programs.
set -u
cd "$(dirname "$0")/../.." || exit 2
GEN=${GEN:-out/.gen/gen}
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
fails=0
ok() { echo "ok $1"; }
not_ok() { echo "not ok $1: $2"; fails=$((fails + 1)); }
check() { if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1" "want '$2', got '$3'"; fi; }

# ---- help: every command, every option of it; what the table has is read
sed -n 's/^COMMAND("\([^"]*\)".*/\1/p' gen/commands.def | grep -v -e '^$' -e '^--' >"$T/commands"
sed -n 's/^OPTION("\([^"]*\)", "\([^"]*\)".*/\2 \1/p' gen/commands.def | tr '|' ' ' |
    awk '{ n = $2 == "" || / $/ || /  /; if (n) print "RECIPE", $1; for (i = 2; i <= NF; i++) print $i, $1 }' >"$T/options"
"$GEN" --help >"$T/help"
check help/commands "" "$(while read -r command; do grep -q "^  gen $command " "$T/help" || echo "$command"; done <"$T/commands")"
check help/each "" "$(while read -r command; do
    "$GEN" "$command" --help >"$T/one" 2>&1 || echo "$command: status $?"
    head -1 "$T/one" | grep -q "^usage: gen $command" || echo "$command"
    while read -r of option; do
        [ "$of" != "$command" ] || grep -q -e "^  $option\( \|$\)" "$T/one" || echo "$command $option"
    done <"$T/options"
done <"$T/commands")"
check help/read "$(wc -l <"$T/options") options" "$(while read -r of option; do
    said=$("$GEN" ${of/RECIPE/} "$option" 2>&1 >/dev/null </dev/null | head -1)
    case $said in
    *[a-z]*'unknown option'* | *'no option'* | *bug* | *flag* | '') echo "$of $option: $said" ;;
    *) echo + ;;
    esac
done <"$T/options" | sort | uniq -c | sed 's/^ *\([0-9]*\) +$/\1 options/')"
check help/near "gen: plna: neither a command nor a recipe (NAME.lua); did you mean plan?" "$("$GEN" plna 2>&1)"

exit $((fails > 0))
