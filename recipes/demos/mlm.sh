#!/bin/bash
# Masked language modelling, from raw text to a probed model in minutes: `make demo-mlm [DATA=FILE|FOLDER]`.
#
# Text: the fortunes that Debian packs, or DATA (lines of text, or .jsonl with a text a row). The text is packed and its
# words are counted; recipes/mlm_tiny.lua is built for that vocabulary, wider than it is, and trained; then the model
# predicts masked words. Prints the main commands before it runs them. All files go into out/demo_mlm, which is rebuilt
# each time, and out/mlm_tiny, where an earlier run is moved aside.
demo=demo-mlm
. "$(dirname "$0")/common.sh" || exit 2
length=32 words=3000 share=0.1   # tokens of a sample; words of the vocabulary; samples for validation

# Texts of the package, one a line, in lower case, punctuation separated from words, without pictures; long ones are
# divided into lines of `length` - 2 words. The order is fixed and unrelated to the content: the last are like the rest.
sayings() {
    fortunes | tr -d '\b' | LC_ALL=C awk -v most=$((length - 2)) '
        /^%$/ {
            n = split(saying, word, " ")
            for (i = 1; i <= n; i++) printf "%s%s", word[i], i == n || i % most == 0 ? "\n" : " "
            saying = ""
            next
        }
        { gsub(/[^A-Za-z0-9\047\200-\377]/, " & "); saying = saying " " tolower($0) }' |
        LC_ALL=C sort -u | awk 'NF >= 5 { printf "%d %s\n", NR * 7919 % 20011, $0 }' |
        LC_ALL=C sort -n -s -k1,1 | cut -d' ' -f2-
}

# Nats a word of the validation text if each is predicted by its frequency in the rest: $1 the text, a sample a line; $2
# its vocabulary. All words outside of it count as one.
entropy() {
    sed -n 's/^  "\(.*\)": [0-9]*,\{0,1\}$/\1/p' "$2" | sed 's/\\\(["\\]\)/\1/g' >$here/words.txt
    awk -v share=$share 'NR == FNR { known[$0] = 1; next }
        NF >= 5 { line[++n] = $0 }
        END {
            for (k = 1; k <= n; k++) {
                m = split(line[k], word, " ")
                for (i = 1; i <= m; i++) {
                    w = word[i] in known ? word[i] : "[UNK]"
                    if (k <= n - int(n * share)) { count[w]++; all++ } else { seen[w]++; some++ }
                }
            }
            for (w in seen) h -= seen[w] / some * log((count[w] + 0.5) / all)
            printf "%.4f", h
        }' $here/words.txt "$1"
}

own=${1:-}
text=$own
if [ -z "$own" ]; then
    text=$here/sayings.txt
    sayings >$text || die "could not read the fortunes"
    say "text: $(wc -lw <$text | awk '{ print $1 " lines, " $2 " words" }') of Debian's fortunes, such as"
    head -n 3 $text
fi

say "the words of the text are counted, its lines become rows of them"
run $gen pack --format corpus --tokenizer words --vocab $words --max-length $length -o $here/text.safetensors "$text"
vocab=$(grep -c '^  "' $here/tokenizer.json)

say "a recipe for this vocabulary becomes a program"
program mlm_tiny model.vocab="$vocab" model.hidden=64 model.heads=4

say "training: words that are hidden, from those around them"
run out/mlm_tiny/run.sh --data $here/text.safetensors --tokenizer $here/tokenizer.json --eval-share $share \
    --epochs 8 --lr 3e-3 --log-every 200 --force 2>&1 | tee $here/run.log
[ "${PIPESTATUS[0]}" = 0 ] || exit 1

say "what it says of other texts"
run out/mlm_tiny/run.sh --probe "it is not the end of the [MASK] ."
run out/mlm_tiny/run.sh --probe "i do not [MASK] what you mean ."

loss=$(validation $here/run.log)
leaves out/mlm_tiny/run
echo
echo "-- done in $((SECONDS - began)) s"
if [ -z "$own" ]; then
    unigram=$(entropy $text $here/tokenizer.json)
    echo "validation, nats per masked word: trained $loss; unigram baseline $unigram"
    below "$loss" "$unigram" 0.5 ||
        die "the trained model is not 0.5 nats below $unigram"
fi
echo "the run: out/mlm_tiny/run; in .mlm_pretrained_v3/ of it: weights by the original's names, vocabulary, losses"
