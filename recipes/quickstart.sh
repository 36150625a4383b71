#!/bin/bash
# A first run, from text to a tuned model in about two minutes: `make quickstart [DATA=FILE]`.
#
# Trains recipes/cpu_tiny.lua from scratch on English text (licences that every Debian has, or FILE),
# then tunes the result on other text with recipes/cpu_tiny_lora.lua. Prints every command of
# interest before it runs it. All files go into out/quickstart, which is made anew each time.
demo=quickstart
. "$(dirname "$0")/demos/common.sh" || exit 2
licences=/usr/share/common-licenses

# Nats a byte of the text of $1 when each byte is guessed by its frequency alone.
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
    size=$(wc -c <"$1") || die "cannot read $1"
    [ "$size" -ge 20000 ] || die "$1: want at least 20000 bytes of text, got $size"
    part=$((size / 20))
    echo "text: $1; of 20 parts 15 to train, 1 for validation, 3 for tuning, 1 for its validation"
    head -c $((15 * part)) "$1" >$here/train.txt
    tail -c +$((15 * part + 1)) "$1" | head -c $part >$here/validation.txt
    tail -c +$((16 * part + 1)) "$1" | head -c $((3 * part)) >$here/tuning.txt
    tail -c +$((19 * part + 1)) "$1" | head -c $part >$here/tuning-validation.txt
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
run out/cpu_tiny/run.sh --data $here/train.safetensors --eval-data $here/validation.safetensors \
    --out $here/run 2>&1 | tee $here/run.log
[ "${PIPESTATUS[0]}" = 0 ] || exit 1
unigram=$(entropy $here/validation.txt)
loss=$(validation $here/run.log)

say "a sample"
run out/cpu_tiny/run.sh --out $here/run --sample "$prompt" --temperature 0.7

say "the trained model, as a Hugging Face folder"
run out/cpu_tiny/run.sh --out $here/run --export $here/model

say "LoRA: only adapters are trained, on the tuning text"
run out/cpu_tiny_lora/run.sh --init-from $here/model --data $here/tuning.safetensors \
    --eval-data $here/tuning-validation.safetensors --out $here/lora 2>&1 | tee $here/lora.log
[ "${PIPESTATUS[0]}" = 0 ] || exit 1
before=$(validation $here/lora.log first)
after=$(validation $here/lora.log)
run out/cpu_tiny_lora/run.sh --out $here/lora --export $here/adapter
run out/cpu_tiny_lora/run.sh --out $here/lora --merge-lora $here/merged

leaves $here/run $here/lora
cat <<END

-- done in $((SECONDS - began)) s
validation, nats a byte    bytes by frequency $unigram    trained $loss
tuning's validation        before $before               after $after
$here/run        checkpoints, history.jsonl and trainer_state.json of the training
$here/model      the trained model for transformers (config.json, model.safetensors)
$here/lora       the tuning; $here/adapter: its PEFT adapter; $here/merged: both in one model
out/cpu_tiny/step.c         the training step, to be read; recipes/cpu_tiny.lua made it
END
# Of a text that is not ours nothing is known beforehand: what it did not learn is said, and is no error.
missed() { if [ -n "$own" ]; then echo "note: $1"; else die "$1"; fi; }
below "$loss" "$unigram" 0.5 ||
    missed "the trained model is not clearly below $unigram nats a byte"
below "$after" "$before" || missed "tuning did not lower its validation loss"
