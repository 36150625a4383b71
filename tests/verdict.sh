# shellcheck shell=bash
# verdict.sh -- prints the line of a test, `ok NAME` or `not ok NAME: WHY`, and sets failed=1 after a failure. A script
# that sets verdict_prefix=ir/ prints `ok ir/NAME`.
verdict_prefix=
# shellcheck disable=SC2034      # read by the script
failed=0
ok() { echo "ok $verdict_prefix$1"; }
not_ok() {              # NAME WHY, on one line and not longer than 1000 bytes
    echo "not ok $verdict_prefix$1: $(head -c 1000 <<<"$2" | paste -sd';')"
    failed=1
}
verdict() {             # NAME [WHY]: passed if WHY is empty
    if [ -z "${2:-}" ]; then ok "$1"; else not_ok "$1" "$2"; fi
}
verdict_of() {          # NAME STATUS WHY: passed if STATUS is 0
    if [ "$2" = 0 ]; then ok "$1"; else not_ok "$1" "$3"; fi
}
check() {               # NAME WANT GOT: passed if they are equal
    if [ "$2" = "$3" ]; then ok "$1"; else not_ok "$1" "want '$2', got '$3'"; fi
}
