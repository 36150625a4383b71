#!/bin/bash
# Masked diffusion, from raw text to a model that writes and fills gaps, in half an hour: `make demo-llada [DATA=FILE]`.
#
# Text: the fortunes that Debian packs, or DATA; characters beside those of ASCII are left out. It is cut into windows
# of characters, recipes/llada_tiny.lua is built for so many and trained; the last tenth of the text is for validation:
# its bound beside the entropy of single characters, gaps in it filled, a text of its own. `make result-llada`: the same
# for longer, with the figures that it has to reach. All files go into out/demo_llada, which is made anew each time, and
# out/llada_tiny, where an earlier run is moved aside. STEPS, SEED: of training.
demo=demo-llada
[ "${1:-}" != --result ] || demo=result-llada
. "$(dirname "$0")/common.sh" || exit 2
export OMP_NUM_THREADS=1         # the model is too small for more
length=64 share=0.1 seed=${SEED:-42}
case $demo in
result-llada) shift && steps=${STEPS:-20000} ;;
*) steps=${STEPS:-4000} ;;
esac

# A saying a line, in an order that is always the same, so that the last ones are like the others.
sayings() {
    fortunes | LC_ALL=C tr -cd '\n\40-\176' | LC_ALL=C awk '
        /^%$/ { if (length(saying) >= 20) print tolower(saying); saying = ""; next }
        { gsub(/ +/, " "); saying = saying (saying == "" ? "" : " ") $0 }' |
        LC_ALL=C sort -u | awk '{ printf "%d %s\n", NR * 7919 % 20011, $0 }' |
        LC_ALL=C sort -n -s -k1,1 | cut -d' ' -f2- | head -c 1200000
}

# Nats a character of $2 when each is guessed by its frequency in $1, one by one.
entropy() {
    for text in "$1" "$2"; do
        echo of
        od -An -v -tu1 -w1 "$text"
    done | awk '/of/ { of++; next }
        of == 1 { count[$1]++; all++ }
        of == 2 { seen[$1]++; some++ }
        END { for (c in seen) h -= seen[c] / some * log((count[c] + 0.5) / all); printf "%.4f", h }'
}

# 96 lines of $1, from each 56 characters of which 8 in a row are hidden: prompts into $2, the hidden into $3.
gaps() {
    LC_ALL=C awk -v prompts="$2" -v hidden="$3" 'length >= 56 && n < 96 {
        line = substr($0, 1, 56)
        at = 21 + n++ % 20
        print substr(line, at, 8) >hidden
        text = substr(line, 1, at - 1) "\001" substr(line, at + 8)
        gsub(/["\\]/, "\\\\&", text)
        gsub("\001", "[MASK][MASK][MASK][MASK][MASK][MASK][MASK][MASK]", text)
        printf "{\"prompt\": \"%s\"}\n", text >prompts
    }' "$1"
}

# Of the characters hidden, $1 a line each, how many are those of the answers $2, and how many the text's likeliest.
right() {
    sed 's/^.*"answer":"\(.*\)"}$/\1/; s/\\\(["\\]\)/\1/g' "$2" | LC_ALL=C awk -v hidden="$1" '{
            getline want <hidden
            at = 21 + (NR - 1) % 20
            for (i = 1; i <= 8; i++) {
                good += substr($0, at + i - 1, 1) == substr(want, i, 1)
                count[substr(want, i, 1)]++
                all++
            }
        }
        END { for (c in count) most = count[c] > most ? count[c] : most
              printf "%.4f %.4f", good / all, most / all }'
}

own=${1:-}
text=$here/text.txt
if [ -z "$own" ]; then
    sayings >$text || die "could not read the fortunes"
else
    LC_ALL=C tr -cd '\n\40-\176' <"$own" >$text || die "could not read $own"
fi
characters=$(wc -c <$text)
[ "$characters" -ge 20000 ] || die "${own:-the text} has $characters characters; want 20000 or more"
tail=$(awk -v n="$characters" -v share=$share 'BEGIN { print int(n * share) }')
head -c $((characters - tail)) $text >$here/first.txt
tail -c "$tail" $text >$here/last.txt
say "text: $characters characters, such as"
head -c 200 $text
echo

say "windows of $length characters"
run $gen pack --format windows --tokenizer char --max-length $length --split tail --eval-share $share \
    -o $here/records.safetensors $text 2>&1 | tee $here/pack.log
vocab=$(sed -n 's/.*for gen: model.vocab=\([0-9]*\).*/\1/p' $here/pack.log)
[ -n "$vocab" ] || die "the text was not packed"

say "a recipe for $vocab tokens becomes a program"
program llada_tiny model.vocab="$vocab" seq.max=$length batch.micro=16

say "training: hidden characters, from all others"
run out/llada_tiny/run.sh --data $here/records.safetensors --steps "$steps" --seed "$seed" --log-every 200 \
    --eval-every $((steps / 4)) --eval-batches 40 --gen-length 32 --gen-steps 32 --force 2>&1 | tee $here/run.log
[ "${PIPESTATUS[0]}" = 0 ] || exit 1

say "gaps of 8 characters in texts that it has not seen"
tail -n +2 $here/last.txt >$here/lines.txt
gaps $here/lines.txt $here/gaps.jsonl $here/hidden.txt
echo "\$ out/llada_tiny/run.sh --generate-file $here/gaps.jsonl --gen-length 0"
out/llada_tiny/run.sh --generate-file $here/gaps.jsonl --gen-length 0 >$here/filled.jsonl || die "nothing was filled"
head -n 2 $here/filled.jsonl
read -r filled guessed < <(right $here/hidden.txt $here/filled.jsonl)

say "a text of its own"
run out/llada_tiny/run.sh --generate "the " --gen-length 32 --temperature 0.5 --seed "$seed"

unigram=$(entropy $here/first.txt $here/last.txt)
loss=$(validation $here/run.log)
say "done in $((SECONDS - began)) s: $steps steps, seed $seed"
echo "validation, nats a character: bound $loss; every character by its frequency $unigram"
awk -v x="$loss" 'BEGIN { printf "that is %.3f bits a character; ", x / log(2) }'
echo "published models of this kind with 110 million parameters: 1.37 to 1.40 of text8"
echo "gaps of 8: $filled of the characters right; always the likeliest one $guessed"
echo "the run: out/llada_tiny/run; in it"
find out/llada_tiny/run -type f | LC_ALL=C sort | sed 's/^/    /'
[ -z "$own" ] && [ $demo = result-llada ] || exit 0
below "$loss" "$unigram" 0.5 || die "the bound is not 0.5 nats below $unigram"
awk -v a="$filled" -v b="$guessed" 'BEGIN { exit !(a >= 2 * b) }' ||
    die "the gaps are not filled twice as well as by $guessed"
