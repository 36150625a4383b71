#!/bin/bash
# A first run, from text to a tuned model in about two minutes: `make quickstart [DATA=FILE]`.
#
# Trains recipes/cpu_tiny.lua from scratch on English text (licences that every Debian has, or FILE), then tunes the
# result on other text with recipes/cpu_tiny_lora.lua. Prints the main commands before it runs them. All files go into
# out/quickstart, which is rebuilt each time. On FILE the length follows its size, and the checkpoint with the best
# validation loss is used; the script fails when that is no better than guessing bytes by their frequency.
# --check [FILE]: only checks that FILE can be read and is long enough; builds nothing.
least=20000                      # bytes of FILE
check() {
    local why=
    [ $# -gt 0 ] || return 0
    if [ ! -f "$1" ] || [ ! -r "$1" ]; then
        why="no file that can be read; DATA=FILE names a text"
    elif [ "$(wc -c <"$1")" -lt $least ]; then
        why="$(wc -c <"$1") bytes, and a first model needs at least $least: name a longer text"
    fi
    [ -z "$why" ] || { echo "quickstart: $1: $why" >&2; exit 1; }
}
if [ "${1:-}" = --check ]; then
    shift
    check "$@"
    exit 0
fi
check "$@"
demo=quickstart
. "$(dirname "$0")/demos/common.sh" || exit 2
licences=/usr/share/common-licenses

# Nats a byte of the text of $1 if each byte is predicted by its frequency.
entropy() {
    od -An -v -tu1 -w1 "$1" | awk '{ count[$1]++ }
        END { for (b in count) h -= count[b] / NR * log(count[b] / NR); printf "%.4f", h }'
}

# Four texts: to train and to validate on, to tune and to validate the tuning on; and a prompt.
texts() {
    prompt="This License "
    if [ $# = 0 ] && [ -e $licences/GPL-3 ]; then
        echo "text: the GNU licences and CC0; validation: Apache-2.0; tuning: MPL-1.1; its validation: MPL-2.0"
        cat $licences/{GPL-2,GPL-3,LGPL-2,LGPL-2.1,GFDL-1.2,GFDL-1.3,CC0-1.0,Artistic} >$here/train.txt &&
            cp $licences/Apache-2.0 $here/validation.txt &&
            cp $licences/MPL-1.1 $here/tuning.txt &&
            cp $licences/MPL-2.0 $here/tuning-validation.txt
        return
    fi
    [ $# = 0 ] && die "no $licences here: name a text with make quickstart DATA=FILE"
    local size part
    prompt=$(head -c 20 "$1" | tr -s '[:space:]' ' ')
    size=$(wc -c <"$1")
    part=$((size / 20))
    echo "text: $1; of 20 parts 15 to train, 1 for validation, 3 for tuning, 1 for its validation"
    head -c $((15 * part)) "$1" >$here/train.txt
    tail -c +$((15 * part + 1)) "$1" | head -c $part >$here/validation.txt
    tail -c +$((16 * part + 1)) "$1" | head -c $((3 * part)) >$here/tuning.txt
    tail -c +$((19 * part + 1)) "$1" | head -c $part >$here/tuning-validation.txt
}

# length TEXT LEAST MOST: flags for a text of ours; of one of yours about six epochs, at least LEAST steps, with ten
# validations, of which the best is kept
length() {
    local steps=$(($(wc -c <"$1") / 160))
    [ -n "$own" ] || return
    steps=$((steps < $2 ? $2 : steps > $3 ? $3 : steps))
    flags=(--steps $steps --eval-every $((steps / 10)) --keep-best)
}
# best_of LOG: sets `loss` to the lowest validation loss of trained weights, `use` to flags that name its checkpoint,
# none where it is the last one
best_of() {
    local folder
    loss=$(sed -n 's/.*eval loss \([0-9.]*\).*/\1/p' "$1" | sed 1d | sort -g | head -n 1)
    folder=$(sed -n 's/^the best are in \([^,]*\), .*/\1/p' "$1")
    use=(${folder:+--resume "$folder"})
}

own=${1:-}
texts "$@" || die "could not copy the texts"

say "two recipes become two programs"
for recipe in cpu_tiny cpu_tiny_lora; do
    program $recipe
done

say "texts become token files (a token is a byte here)"
for text in train validation tuning tuning-validation; do
    run $gen pack -o $here/$text.safetensors $here/$text.txt
done

say "training from scratch"
flags=()
length $here/train.txt 150 1000
run out/cpu_tiny/run.sh --data $here/train.safetensors --eval-data $here/validation.safetensors \
    "${flags[@]}" --out $here/run 2>&1 | tee $here/run.log
[ "${PIPESTATUS[0]}" = 0 ] || exit 1
unigram=$(entropy $here/validation.txt)
best_of $here/run.log
trained=$loss
below "$trained" "$unigram" || die "trained to $trained nats per byte, no better than the unigram baseline, \
$unigram: name a longer text, or one of a single language"

say "a sample"
run out/cpu_tiny/run.sh --out $here/run "${use[@]}" --sample "$prompt" --temperature 0.7

say "the trained model, as a Hugging Face folder"
run out/cpu_tiny/run.sh --out $here/run "${use[@]}" --export $here/model

say "LoRA: only adapters are trained, on the tuning text"
length $here/tuning.txt 40 200
run out/cpu_tiny_lora/run.sh --init-from $here/model --data $here/tuning.safetensors \
    --eval-data $here/tuning-validation.safetensors "${flags[@]}" --out $here/lora 2>&1 | tee $here/lora.log
[ "${PIPESTATUS[0]}" = 0 ] || exit 1
before=$(validation $here/lora.log first)
best_of $here/lora.log
run out/cpu_tiny_lora/run.sh --out $here/lora "${use[@]}" --export $here/adapter
run out/cpu_tiny_lora/run.sh --out $here/lora "${use[@]}" --merge-lora $here/merged

leaves $here/run $here/lora
cat <<END

-- done in $((SECONDS - began)) s
validation, nats per byte  unigram baseline $unigram      trained $trained
fine-tuning, validation    before $before                after $loss
$here/run        checkpoints, history.jsonl and trainer_state.json of the training
$here/model      the trained model for transformers (config.json, model.safetensors)
$here/lora       the tuning; $here/adapter: its PEFT adapter; $here/merged: both in one model
out/cpu_tiny/step.c         the training step, to be read; recipes/cpu_tiny.lua made it
END
# A missed bound is an error for our own text, a note for the user's.
missed() { if [ -n "$own" ]; then echo "note: $1"; else die "$1"; fi; }
below "$trained" "$unigram" 0.5 || missed "the trained model is not clearly below $unigram nats per byte"
below "$loss" "$before" || missed "tuning did not lower its validation loss"
