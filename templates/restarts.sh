# For a training command, an exit code of 0 counts only with a DONE file that this start wrote. Other machines may see
# it some seconds late.
finished() {                     # prints an id of OUT/DONE that differs for each start
    find "$out" -maxdepth 1 -name DONE -printf '%T@ %C@ %i\n' 2>/dev/null
}
check_finished() {               # check_finished BEFORE: sets $code
    [ "$code" = 0 ] || return 0
    if [ -n "$trains" ]; then
        for _ in 1 2 3 4 5 6; do
            [ "$(finished)" = "$1" ] || return 0
            [ -n "$elsewhere" ] || break
            sleep 1
        done
    fi
    ! ask_fault || return 0              # MPICH's launcher may return 0 after a stop
    [ -n "$trains" ] || return 0
    echo "$NAME: ended with 0, but $out has no DONE of this start: the run is not over; the same command" \
        "resumes it from the newest checkpoint" >&2
    code=84
}
# Restarts after failures that may not recur: not after a mistake in flags or data or a requested stop, and not
# endlessly without a new checkpoint.
newest() {
    find "$out" -maxdepth 1 -type d -regex '.*/checkpoint-[0-9]*' -printf '%f\n' 2>/dev/null | sort -V | tail -1
}
# Sets $code to the exit code of a process. A signal ends bash's wait, and the second of two in a row may end the next
# wait as well, with no trap left to run: wait is repeated while the process runs, or if the code may be that of a
# signal.
ended() {                        # ended PID
    while
        wait "$1"
        code=$?
        [ $code -gt 128 ] && kill -0 "$1"
    do :; done 2>/dev/null
    for _ in 1 2; do
        [ $code -le 128 ] || { wait "$1"; code=$?; }
    done 2>/dev/null
}
restarted=0
barren=0                         # restarts in a row that brought no newer checkpoint
pause=1
while :; do
    had=$(newest)
    done_before=$(finished)
    start
    check_finished "$done_before"
    [ "$restarts" != 0 ] && [ "$code" != 0 ] && [ -z "$asked_to_stop" ] || break
    case $code in
    81 | 82 | 84 | 85 | 86 | 90 | 91 | 129 | 1[3-9]? | 2[0-4]?) ;;
    94)
        echo "$NAME: ended with 94: replicas disagree: not restarted on this machine" >&2
        break
        ;;
    *)
        echo "$NAME: ended with $code, which a restart would not change" >&2
        break
        ;;
    esac
    if [ "$restarted" != 0 ] && [ "$(newest)" = "$had" ]; then barren=$((barren + 1)); else barren=0; fi
    if [ "$restarted" = "$restarts" ] || [ $barren = 2 ]; then
        [ $barren = 2 ] && why=", the last two without a newer checkpoint" || why=
        echo "$NAME: ended with $code after $restarted restarts$why: gives up" >&2
        break
    fi
    restarted=$((restarted + 1))
    from=$(newest)
    echo "$NAME: ended with $code: restart $restarted of $restarts in $pause s," \
        "from ${from:-the beginning}" >&2
    sleep "$pause" &
    wait $!
    [ -z "$asked_to_stop" ] || break
    pause=$((pause < 30 ? 2 * pause : 60))
    export TORCHELASTIC_RESTART_COUNT=$restarted
done
exit "$code"
