# shellcheck shell=bash
# compare.sh -- cmp and diff for test scripts: a missing file, or two empty ones, are a difference, reported on standard
# output. Otherwise a test would pass if its two programs wrote nothing. Operands: the last two words; a
# file, a folder, a pipe or -.
compared() {            # cmp|diff WORD...
    local command=$1 words=("${@:2:$#-3}") sides=("${@: -2}") copies i code
    copies=$(mktemp -d) || return 2
    for i in 0 1; do
        if [ "${sides[i]}" = - ]; then
            cat >"$copies/$i"
        elif [ -p "${sides[i]}" ]; then
            cat "${sides[i]}" >"$copies/$i"
        else
            continue
        fi
        sides[i]=$copies/$i
    done
    command "$command" "${words[@]}" "${sides[@]}" 2>&1
    code=$?
    if [ $code = 0 ] && [ -z "$(find -L "${sides[@]}" -type f -size +0c -print -quit)" ]; then
        [[ " ${words[*]}" = *" -s"* ]] || echo "both are empty: ${*: -2}"
        code=2
    fi
    rm -r "$copies"
    return $code
}
cmp() { compared cmp "$@"; }
diff() { compared diff "$@"; }
