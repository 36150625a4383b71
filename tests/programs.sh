# shellcheck shell=bash
# programs.sh -- builds emitted folders; for scripts that run in the project's root. Objects of runtime/, which no
# recipe changes, are kept in out/.test/objects, one folder for those of a program. The next program takes those that it
# would compile in the same way: few depend on the number of ranks or the target. Objects of kernels/, which differ from
# program to program, are kept one by one, each with the checksums of its sources.

# make_program DIR [WORD ...]: make in an emitted folder, with these words. What ./cc compiles includes the rows of
# all objectives (of the tree $TREE, here), not only of its own, so that its objects are the same for all.
make_program() (
    dir=$1 kept=out/.test/objects rows=$1/.obj/rows/runtime/objectives
    shift
    [[ $* != *tests/cc* ]] || { mkdir -p "$rows" && cp -p "${TREE:-.}"/runtime/objectives/*.def "$rows"; }
    [ ! -d "$dir/.obj/runtime" ] || exec make -s -C "$dir" "$@"
    mkdir -p $kept "$dir/.obj"
    words=()
    for word; do [[ $word != *=* ]] || words+=("$word"); done
    # how all of them are compiled: ./cc looks at no flag of the Makefile's
    how=$(
        printf '%s\n' "${CC:-}" "${EXTRA:-}" "${words[@]% --watched}" | grep -v -e ^CUDA= -e ^NVCC -e ^LANG= -e ^LC_ALL=
        [[ $* == *tests/cc* ]] && cat tests/cc || grep -E '^(CFLAGS|OPTIMISE|DEBUG) +:=' "$dir/Makefile"
    )
    how=$kept/$(sha256sum <<<"$how" | cut -c1-16)
    # what they are made from, a line a file; once more what asks for the number of ranks or for CUDA's headers, and
    # what is compiled with a sanitizer
    made_from=$(
        toolkit=$(printf '%s\n' "$@" | sed -n 's/^CUDA=//p')
        [ -z "$toolkit" ] || toolkit=$(cat tests/sim/errors.def "$toolkit"/include/* | sha256sum | cut -c1-64)
        cd "$dir" || exit
        rows=$([ ! -d .obj/rows ] || echo 'runtime/objectives/*.def')
        find runtime .obj/rows -type f ! -path "$rows" -print0 2>/dev/null |
            xargs -0 sha256sum
        grep -rl '^#.*DIECAST_RANKS' runtime | sed "s/^/$(sed -n 's/^RANKS *:= *//p' Makefile) ranks  /"
        grep -rlE '^#.*<(cuda|nccl)' runtime | sed "s/^/toolkit $toolkit  /"
        [[ $* != *' --watched'* ]] ||
            find runtime -name '*.c' | grep -vxFf <(find runtime -name '*.c' -exec "$OLDPWD/tests/cc" --plain {} +) |
                sed 's/^/watched  /'
    )
    made_from=$(LC_ALL=C sort <<<"$made_from")
    set=$how.$(sha256sum <<<"$made_from" | cut -c1-16)
    exec 7>"$how.lock"      # who comes while another builds them waits: to compile them twice takes longer
    flock 7
    compile() { make -s "-j$(getconf _NPROCESSORS_ONLN)" -C "$dir" "${words[@]}" "$@" 2>&1 7>&-; }
    kernels=$kept/kernels.${how##*/}$([[ $* != *' --watched'* ]] || echo .watched)
    objects=() new=()
    mapfile -t objects < <(sed -n 's|^    \(kernels/[^ )]*\)\.o.*|.obj/\1|p' "$dir/Makefile")
    for object in "${objects[@]}"; do
        mkdir -p "$kernels" "$dir/${object%/*}"
        if (cd "$dir" && exec sha256sum -c --status) 2>/dev/null <"$kernels/${object##*/}.sums"; then
            touch "$kernels"
            cp "$kernels/${object##*/}".[od] "$dir/${object%/*}"
        else
            new+=("$object")
        fi
    done
    if [ ${#new[@]} != 0 ]; then
        said=$(compile "${new[@]/%/.o}")
        code=$?
        echo "$said"
        [ $code = 0 ] || exit $code
        # a compiler that warns is to say it again
        grep -qi warning <<<"$said" || for object in "${new[@]}"; do
            sums=$(cd "$dir" && sed -n 's/:$//p' "$object.d" | xargs sha256sum "${object#.obj/}.c") || exit
            cp "$dir/$object".[od] "$kernels" && echo "$sums" >"$kernels/${object##*/}.sums"
        done
    fi
    if [ -d "$set" ]; then
        touch "$set"
        cp -r "$set" "$dir/.obj/runtime"
        flock -u 7
        exec make -s -C "$dir" "$@" 7>&-
    fi
    find $kept -mindepth 1 -maxdepth 1 -type d -mtime +2 -exec rm -rf {} +
    # of another set those that are made from the same
    other=$(ls -td "$how".*/ 2>/dev/null | head -n 1)
    if [ -n "$other" ]; then
        cp -r "$other" "$dir/.obj/runtime"
        changed=$(LC_ALL=C comm -3 <(echo "$made_from") "$dir/.obj/runtime/made_from" | sed 's/.* //')
        grep -rlwFf <(echo "$changed") --include='*.d' "$dir/.obj/runtime" | sed 's/d$//' |
            while read -r file; do rm -f "$file"[do]; done
    fi
    # shellcheck disable=SC2046
    said=$(compile $(sed -n 's|^    \(runtime/[^ )]*\.o\).*|.obj/\1|p' "$dir/Makefile"))
    code=$?
    echo "$said"
    [ $code = 0 ] || exit $code
    # they are to say it again, or depend on a recipe after all
    if ! grep -qi warning <<<"$said" &&
        ! grep -rqE '(^| )(train|step|objective|recipe|shape|plan|tensors)\.[ch]' --include='*.d' "$dir/.obj/runtime";
        then
        rm -rf "$set.new"
        cp -r "$dir/.obj/runtime" "$set.new" && echo "$made_from" >"$set.new/made_from" && mv -T "$set.new" "$set"
    fi
    flock -u 7
    exec make -s -C "$dir" "$@" 7>&-
)
# needs FOLDER: of the objects in a folder, lines `FILE OTHER SYMBOL`: FILE uses SYMBOL, which OTHER defines. Objects of
# gen and runtime without a source in this tree are left out.
needs() {
    local object file
    while read -r object; do
        file=${object#"$1"/}
        file=${file%.o}
        case $file in gen/* | runtime/*) [ -f "$file.c" ] || [ -f "$file.cu" ] || continue ;; esac
        echo "$object"
    done < <(find "$1" -name '*.o' | LC_ALL=C sort) | xargs -r nm -A -P -g | awk -v folder="$1/" '
        { sub(/\.o:$/, "", $1); file = substr($1, length(folder) + 1) }
        $3 ~ /^[Uw]$/ { user[++n] = file; name[n] = $2; next }
        { owner[$2] = file }
        END { for (i = 1; i <= n; i++)
                  if (name[i] in owner && owner[name[i]] != user[i]) print user[i], owner[name[i]], name[i] }'
}
# circles: of lines as needs() prints them, each set of files that need each other in a circle: their names on a line,
# in order.
circles() {
    LC_ALL=C awk '
        function visit(v,   n, i, w, list, set) {          # Tarjan 1972
            order[v] = low[v] = ++visited
            stack[++top] = v
            open[v]
            n = split(next_of[v], list, " ")
            for (i = 1; i <= n; i++) {
                w = list[i]
                if (!(w in order)) visit(w)
                if (w in open && low[w] < low[v]) low[v] = low[w]
            }
            if (low[v] < order[v]) return
            for (n = 0; ; ) {
                w = stack[top--]
                delete open[w]
                for (i = ++n; i > 1 && set[i - 1] > w; i--) set[i] = set[i - 1]
                set[i] = w
                if (w == v) break
            }
            if (n < 2) return
            for (i = 1; i <= n; i++) printf "%s%s", set[i], i < n ? " " : "\n"
        }
        !(($1, $2) in seen) { seen[$1, $2]; next_of[$1] = next_of[$1] " " $2; files[$1] }
        END { for (v in files) if (!(v in order)) visit(v) }' | LC_ALL=C sort
}
# unreached DIR [ROOT ...]: objects of a built program that nothing reaches from train.o and these, by their symbols
unreached() {
    local dir=$1/.obj
    [ -n "$(find "$dir" -name '*.o' -print -quit)" ] || echo "no objects in $dir"
    { (cd "$dir" && find . -name '*.o') | sed 's/^\.\///; s/\.o$//'; needs "$dir"; } |
        awk -v roots="train ${*:2}" '
        NF == 1 { files[$1]; next }
        { next_of[$1] = next_of[$1] " " $2 }
        END {
            n = split(roots, todo, " ")
            for (i = 1; i <= n; i++) {
                if (todo[i] in seen) continue
                seen[todo[i]]
                m = split(next_of[todo[i]], name, " ")
                for (k = 1; k <= m; k++) todo[++n] = name[k]
            }
            for (file in files) if (!(file in seen)) print file ".o"
        }'
}
haste=$(! command -v ld.gold >/dev/null || echo -fuse-ld=gold)      # links in a third of the time
# make_in_haste DIR [WORD ...]: as make_program, compiled and linked by ./cc; for tests that look at numbers within
# bounds, words and files
make_in_haste() {
    local dir=$1
    shift
    make_program "$dir" "CC='$PWD/tests/cc'" ${haste:+"EXTRA=$haste"} "$@"
}
