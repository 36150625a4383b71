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
