# sources.sh -- for scripts that compile parts of gen or runtime by themselves. Run in the project's root.

# sources FOLDERS NAME...: the paths of NAME.c in FOLDERS and below, NAME may hold a *; one that is not there ends all
sources() {
    local top=$1 name path
    shift
    for name; do
        path=$(find $top -name "$name.c")
        [ -n "$path" ] || { echo "not ok sources: no $name.c below $top"; kill $$; }
        printf '%s ' $path
    done
}
# headers FOLDER: all headers and tables in FOLDER and below
headers() { find "$1" -name '*.h' -o -name '*.def' | sort | tr '\n' ' '; }

# watched SOURCE...: builds objects of these C files of gen, runtime or tests with the address sanitizer and that of
# undefined behaviour, once for all groups; $objects are their paths. Ends all if one does not compile.
# clang's see more, such as sums with NULL, and are there sooner; what is tested runs for a moment.
watched_cc=$(command -v clang || echo gcc)
watched_flags="-std=c11 -I. -I/usr/include/lua5.4 -D_GNU_SOURCE= -DDIECAST_RANKS=1
    -O0 -g1 -mf16c -fsanitize=address,undefined
    -fno-sanitize-recover=undefined -Wall -Wextra -Wshadow -Wvla -Wno-unknown-pragmas -Werror -Werror=date-time"
watched() {
    local out=out/.test/watched source said
    objects=
    for source; do objects+=" $out/${source%.c}.o"; done
    mkdir -p $out
    # shellcheck disable=SC2086
    said=$(
        exec 7>$out/lock
        flock 7
        {
            echo "all:$objects"
            echo "$out/%.o: %.c tests/sources.sh"
            echo "	@mkdir -p \$(@D)"
            echo "	@$watched_cc $(echo $watched_flags) -MMD -MP -c \$< -o \$@"
            find $out -name '*.d' | sed 's/^/include /'
        } | make -s "-j${CORES:-$(nproc)}" -f - all 2>&1 7>&-
    ) || { echo "not ok watched: $(grep -m 1 error <<<"$said" || tail -n 1 <<<"$said")"; kill $$; }
}
# watched_link PROGRAM WORD...: of these objects and libraries
watched_link() { $watched_cc -fsanitize=address,undefined -o "$@"; }
