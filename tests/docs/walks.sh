#!/bin/bash
# The blocks of pages after <!-- walk -->, command by command in a folder where the data and the model that the page
# speaks of have tiny stand-ins: everything is run as it stands there, but trained for few steps (FULL=1: for more).
# walks.sh [PAGE ...]
set -u
cd "$(dirname "$0")/../.." || exit 2
. tests/programs.sh
. tests/tiny_tokenizer.sh
. tests/docs/pages.sh
ROOT=$PWD
T=$(mktemp -d)
trap 'rm -rf "$T"' EXIT
failed=0
steps=$([ "${FULL:-0}" = 1 ] && echo 40 || echo 4)
export OMP_NUM_THREADS=1

# ---- what pages speak of
stand_ins() {
    cp -rL tests/train/ref/qwen2_tiny/model "$T/qwen"          # 257 tokens, 64 places
    tiny_tokenizer "$T/qwen"
    for i in {1..60}; do
        echo '{"messages": [{"role": "user", "content": "Sum '$i'?"},' \
            '{"role": "assistant", "content": "It is '$((2 * i))'."}]}'
    done >"$T/chats.jsonl"
    head -c 12000 LICENSE >"$T/text.txt"
    cp -r "$T/qwen" "$T/prm"
    sed -i 's/<|endoftext|>/<extra_0>/' "$T/prm/tokenizer.json"
    sed -i 's/"max_position_embeddings": 64/"max_position_embeddings": 512/' "$T/prm/config.json"
    cp tests/train/ref/ad_one/tokens.safetensors "$T/history.safetensors"
    mkdir "$T/reviews"
    local steps='### Step 1: a\nb.\n### Step 2: c\nd.\n### Step 3: e\nf.\n### Step 4: g\nh.\n### Step 5: i\nj.'
    for i in {1..60}; do
        echo '{"text": "this is a film with heart number '$i' and it was very good indeed"}' >>"$T/reviews/all.jsonl"
        echo '{"prompt": "Sum '$i'?", "chosen": "It is '$((2 * i))'.", "rejected": "No."}' >>"$T/pairs.jsonl"
        echo '{"id": "a'$i'", "informal_prefix": "Sum '$i'", "cot_response": "'"$steps"'", "cot_steps": [{"pi": 0.9},' \
            '{"pi": 0}, {"pi": 1}, {"pi": 1}], "meta_label": '$((i % 2))'}' >>"$T/solutions.jsonl"
        echo '{"informal_prefix": "Sum '$i'", "candidates": ["'"$steps"'", "'"${steps%j.}"'k."],' \
            '"true_false": [true, false]}' >>"$T/candidates.jsonl"
    done
    cp "$T/solutions.jsonl" "$T/meta.jsonl"
}

# ---- commands of a page
gen() {                                       # of a recipe of ours few samples at a time
    case $1 in *_tiny | mlm_imdb) set -- "$@" batch.micro=2 ;; esac
    "$ROOT/out/.gen/gen" "$@"
}
make() {                                      # all that is not built, quickly
    local dir
    for dir in "$PWD"/out/*/; do
        [ -x "$dir/train" ] || (unset -f make && cd "$ROOT" && make_in_haste "${dir%/}" >&2) || return
    done
}
uses='sample|export|merge-lora|eval-only|probe|generate|generate-file|prepare|score|best-of-n|evaluate|loglik|answers'
uses+='|perplexity|plot|show|chat|prompts|where|help'
trains() { ! printf '%s\n' "$@" | grep -qxE -e "--($uses)(=.*)?"; }
program() {                                   # out/NAME run.sh|train WORDS...: of its numbers small ones
    local file=$1/$2 words=()
    shift 2
    ! trains "$@" || words=(--steps "$steps")
    [[ $file != *llada* || ${#words[@]} = 0 ]] || words+=(--eval-sample false)
    [[ $file != *pref* || " $* " =~ \ --(export|merge-lora|eval-only|plot)\  ]] || words+=(--max-new-tokens 8)
    while [ $# -gt 0 ]; do
        case $1 in
        --steps | --epochs) shift ;;
        --eval-every) words+=("$1" 2) && shift ;;
        --gen-length | --gen-steps) words+=("$1" 4) && shift ;;
        --eval-episodes) words+=("$1" 2) && shift ;;
        history.*) words+=("$1" --source-streams 1 --source-steps 80) ;;
        *) words+=("$1") ;;
        esac
        shift
    done
    "$file" "${words[@]}"
}

walk() {                                      # PAGE
    local page=$1 name line text
    name=$(basename "$page" .md)
    while IFS=$'\t' read -r line text; do
        text=$(sed -E 's,(^|[;&|] *)(out/[^ ]*)/(run\.sh|train)( |$),\1program \2 \3\4,g' <<<"$text")
        if ! eval "$text" </dev/null >"$T/said" 2>&1; then
            echo "not ok walks/$name: $page:$line: $text: $(tail -n 3 "$T/said" | paste -sd' ')"
            failed=1
            return
        fi
    done < <(cd "$ROOT" && commands "$page" walk)
    echo "ok walks/$name"
}

[ $# -gt 0 ] || mapfile -t chosen < <(grep -lx '<!-- walk -->' README.md {gen,recipes}/*.md)
[ $# = 0 ] || chosen=("$@")
stand_ins
for page in "${chosen[@]}"; do
    mkdir "$T/of" && cp -r "$T"/{qwen,prm,reviews,text.txt,history.safetensors,*.jsonl} "$T/of" && cd "$T/of" || exit 2
    walk "$page"
    cd "$ROOT" || exit 2
    rm -rf "$T/of"
done
exit $failed
