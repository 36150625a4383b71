#!/bin/bash
# Masked diffusion, from raw text to a model that writes and fills gaps, in minutes: `make demo-llada [DATA=FILE]`.
#
# Text: the fortunes that Debian packs, or DATA; characters outside ASCII are left out. It is cut into windows
# of characters, recipes/llada_tiny.lua is built for so many and trained; the last tenth of the text is for validation:
# the loss bound against the entropy of single characters, gaps of 1 to 4 characters filled, and a generated text. `make
# result-llada`: longer, with several SEEDS, and with results that each has to reach: a bound 0.5 nats a character
# below that entropy, and gaps filled right twice as often as by the most frequent character. All files go into
# out/demo_llada or out/result_llada, which is rebuilt each time. STEPS, SEEDS: of training.
demo=demo-llada
[ "${1:-}" != --result ] || demo=result-llada
. "$(dirname "$0")/common.sh" || exit 2
export OMP_NUM_THREADS=1         # the model is too small for more
length=64 share=0.1 pieces=400 first=21
case $demo in
result-llada) shift && steps=${STEPS:-3000} seeds=${SEEDS:-1 2 3} ;;
*) steps=${STEPS:-1500} seeds=${SEEDS:-42} ;;
esac

# One text a line, in a fixed order unrelated to the content, so that the last ones are like the others.
sayings() {
    fortunes | LC_ALL=C tr -cd '\n\40-\176' | LC_ALL=C awk '
        /^%$/ { if (length(saying) >= 20) print tolower(saying); saying = ""; next }
        { gsub(/ +/, " "); saying = saying (saying == "" ? "" : " ") $0 }' |
        LC_ALL=C sort -u | awk '{ printf "%d %s\n", NR * 7919 % 20011, $0 }' |
        LC_ALL=C sort -n -s -k1,1 | cut -d' ' -f2- | head -c 1200000
}

# Nats a character of $2 if each is predicted by its frequency in $1.
entropy() {
    for text in "$1" "$2"; do
        echo of
        od -An -v -tu1 -w1 "$text"
    done | awk '/of/ { of++; next }
        of == 1 { count[$1]++; all++ }
        of == 2 { seen[$1]++; some++ }
        END { for (c in seen) h -= seen[c] / some * log((count[c] + 0.5) / all); printf "%.4f", h }'
}

# Pieces of $1, in each of which 1 to 4 consecutive characters are masked: prompts into $2, the masked characters
# into $3, a line each, with \001 for an end of line.
gaps() {
    LC_ALL=C awk -v prompts="$2" -v hidden="$3" -v pieces=$pieces -v long=$((length - 1)) -v first=$first '
        function escaped(text) { gsub(/["\\]/, "\\\\&", text); gsub(/\n/, "\\n", text); return text }
        { text = text $0 "\n" }
        END {
            for (n = 0; n < pieces; n++) {
                piece = substr(text, 1 + int(n * (length(text) - long) / pieces), long)
                at = first + n % 20
                gap = 1 + n % 4
                what = substr(piece, at, gap)
                gsub(/\n/, "\001", what)
                print what >hidden
                printf "{\"prompt\": \"%s%s%s\"}\n", escaped(substr(piece, 1, at - 1)),
                    substr("[MASK][MASK][MASK][MASK]", 1, 6 * gap), escaped(substr(piece, at + gap)) >prompts
            }
        }' "$1"
}

# Of the masked characters, $1: the share that the answers $2 have right, the share of the most frequent one, and the
# expected share of characters drawn by their frequency.
right() {
    sed 's/^.*"answer":"\(.*\)"}$/\1/' "$2" | LC_ALL=C awk -v hidden="$1" -v first=$first '{
            getline want <hidden
            text = ""
            for (i = 1; i <= length($0); i++) {
                c = substr($0, i, 1)
                if (c == "\\") {
                    c = substr($0, ++i, 1)
                    c = c == "n" ? "\001" : c
                }
                text = text c
            }
            for (i = 1; i <= length(want); i++) {
                good += substr(text, first + (NR - 1) % 20 + i - 1, 1) == substr(want, i, 1)
                count[substr(want, i, 1)]++
                all++
            }
        }
        END {
            for (c in count) {
                most = count[c] > most ? count[c] : most
                drawn += (count[c] / all) ^ 2
            }
            printf "%.4f %.4f %.4f", good / all, most / all, drawn
        }'
}

own=${1:-}
text=$here/text.txt
if [ -z "$own" ]; then
    sayings >$text || die "could not read the fortunes"
else
    LC_ALL=C tr -cd '\n\40-\176' <"$own" >$text || die "could not read $own"
fi
characters=$(wc -c <$text)
[ "$characters" -ge 20000 ] || die "${own:-the text} has $characters characters; must be 20000 or more"
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
program llada_tiny model.vocab="$vocab" seq.max=$length
unigram=$(entropy $here/first.txt $here/last.txt)
gaps $here/last.txt $here/gaps.jsonl $here/hidden.txt

for seed in $seeds; do
    out=$here/run.$seed
    say "training with seed $seed: hidden characters, from all others"
    run out/llada_tiny/run.sh --data $here/records.safetensors --steps "$steps" --seed "$seed" --log-every 250 \
        --eval-every $((steps / 4)) --eval-batches 60 --gen-length 48 --gen-block 8 --temperature 0.7 \
        --out "$out" 2>&1 |
        tee "$here/run.$seed.log"
    [ "${PIPESTATUS[0]}" = 0 ] || exit 1

    say "gaps of 1 to 4 characters in texts that it has not seen"
    echo "\$ out/llada_tiny/run.sh --out $out --generate-file $here/gaps.jsonl --gen-length 0"
    out/llada_tiny/run.sh --out "$out" --generate-file $here/gaps.jsonl --gen-length 0 >"$here/filled.$seed.jsonl" ||
        die "nothing was filled"
    head -n 4 "$here/filled.$seed.jsonl"
    read -r filled likeliest drawn < <(right $here/hidden.txt "$here/filled.$seed.jsonl")

    say "a text of its own"
    run out/llada_tiny/run.sh --out "$out" --generate "the " --gen-length 48 --gen-block 8 --temperature 0.7 \
        --seed "$seed"

    printf '%4s  %.4f  %s\n' "$seed" "$(validation "$here/run.$seed.log")" "$filled" >>$here/table
done

say "done in $((SECONDS - began)) s: $steps steps a seed, $characters characters"
echo "bound: nats per character on the last tenth of the text; unigram baseline $unigram"
awk -v x="$(awk 'NR == 1 { print $2 }' $here/table)" 'BEGIN { printf "(the first is %.3f bits; ", x / log(2) }'
echo "published models of this kind with 110 million parameters: 1.37 to 1.40 of text8)"
echo "right: share of the masked characters; always the likeliest one $likeliest, one drawn by frequency $drawn"
echo "seed  bound   right"
cat $here/table
echo "the runs: $here/run.SEED; in the last"
find "$out" -type f | LC_ALL=C sort | sed 's/^/    /'
leaves "$out"
[ $demo = result-llada ] || exit 0
while read -r seed loss filled; do
    below "$loss" "$unigram" 0.5 || die "seed $seed: the bound is not 0.5 nats below $unigram"
    awk -v a="$filled" -v b="$likeliest" 'BEGIN { exit !(a >= 2 * b) }' ||
        die "seed $seed: the gaps are not filled twice as well as by $likeliest"
done <$here/table
