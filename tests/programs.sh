# shellcheck shell=bash
# programs.sh -- builds emitted folders; for scripts that stand in the project's root. Objects of runtime/, which no
# recipe changes, are kept in out/.test/objects and taken by the next program that would compile them alike.

# make_program DIR [WORD ...]: make in an emitted folder, with these words
make_program() (
    dir=$1 kept=out/.test/objects
    shift
    [ ! -d "$dir/.obj/runtime" ] || exec make -s -C "$dir" "$@"
    mkdir -p $kept "$dir/.obj"
    # all that these objects are made from; what else they include is the system's
    key=$(
        printf '%s\n' "${CC:-}" "${EXTRA:-}" "$@" | grep -e = -e -
        cat tests/cc
        cd "$dir" && grep -E '^(RANKS|CFLAGS|OPTIMISE|DEBUG) +:=' Makefile
        find runtime kernels/cpu/{philox,types,workspace}.h -type f | LC_ALL=C sort | xargs cat
        ! grep -q '^NVCC' Makefile || cat "$OLDPWD"/tests/sim/{include/*,errors.def}
    )
    key=$kept/$(sha256sum <<<"$key" | cut -c1-16)
    exec 7>"$key.lock"      # who comes while another builds them waits: to compile them twice takes longer
    flock 7
    if [ -d "$key" ]; then
        touch "$key"
        cp -r "$key" "$dir/.obj/runtime"
        flock -u 7
        exec make -s -C "$dir" "$@" 7>&-
    fi
    find $kept -mindepth 1 -maxdepth 1 -type d -mtime +2 -exec rm -rf {} +
    said=$(make -s "-j$(getconf _NPROCESSORS_ONLN)" -C "$dir" "$@" 2>&1 7>&-)
    code=$?
    echo "$said"
    [ $code = 0 ] || exit $code
    # they are to say it again, or depend on a recipe after all
    grep -qi warning <<<"$said" ||
        grep -rqE '(^| )(train|step|objective|recipe|shape|plan|tensors)\.[ch]' --include='*.d' "$dir/.obj/runtime" ||
            { cp -r "$dir/.obj/runtime" "$key.new" && mv -T "$key.new" "$key"; }
)
haste=$(! command -v ld.gold >/dev/null || echo -fuse-ld=gold)      # links in a third of the time
# make_in_haste DIR [WORD ...]: as make_program, compiled and linked by ./cc; for tests that look at numbers within
# bounds, words and files
make_in_haste() {
    local dir=$1
    shift
    make_program "$dir" "CC='$PWD/tests/cc'" ${haste:+"EXTRA=$haste"} "$@"
}
