#!/bin/bash
# Formats: JSON, safetensors, checksums, token files, gen pack; built with sanitizers.
set -u
work=out/.test/formats
mkdir -p $work
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
flags="-std=c11 -g -O1 -fopenmp -fsanitize=address,undefined"
readers="runtime/base.c runtime/json.c runtime/crc32c.c runtime/safetensors.c runtime/safetensors_write.c"
export ASAN_OPTIONS=detect_leaks=0
${CC:-gcc} $flags -o $work/test tests/formats/main.c $readers runtime/tokenfile.c -lcjson -lm &&
${CC:-gcc} $flags -o $work/pack tests/formats/pack_main.c gen/pack.c gen/util.c $readers \
    runtime/tokenizer.c runtime/bpe.c -lcjson -lpcre2-8 -lutf8proc -lcrypto -lm ||
    { echo "not ok build: see above"; exit 1; }
failed=0
$work/test $scratch tests/formats || failed=1
pack=$work/pack

verdict() {                     # name, then a message if it failed
    if [ -z "${2-}" ]; then echo "ok $1"; else echo "not ok $1: $(echo $2)"; failed=1; fi
}

tokenizer() { [ "$1" = bytes ] && echo bytes || echo tests/tokenizer/$1/tokenizer.json; }

# Rows against TRL's rules and the reference templates (tests/oracle/formats.py).
for expected in tests/formats/rows/*.expected; do
    name=$(basename $expected .expected)
    kind=${name%.*} model=${name#*.} options=
    case $kind in
        prompt) options="--max-length 64" ;;
        chat | list) options="--max-length 100" ;;
        assistant) options="--max-length 100 --assistant-only" ;;
    esac
    if $pack -o $scratch/rows.st --tokenizer $(tokenizer $model) $options \
             tests/formats/rows/$kind.jsonl > $scratch/log 2>&1; then
        $work/test dump $scratch/rows.st > $scratch/got
        verdict "rows: $name" "$(diff $expected $scratch/got | head -4)"
    else
        verdict "rows: $name" "$(cat $scratch/log)"
    fi
done

# Texts: a document a file; blocks must not show in the ids, so a large file equals the same text as one row.
printf 'abc' > $scratch/a.txt
printf '\xff\0d' > $scratch/b.txt
$pack -o $scratch/t.st $scratch/a.txt $scratch/b.txt > $scratch/log
verdict "two text files, any bytes" \
    "$($work/test dump $scratch/t.st | diff - <(printf '97* 98* 99* 256*\n255* 0* 100* 256*\n'))"
verdict "the summary" \
    "$(diff $scratch/log <(echo "$scratch/t.st: packed, 2 documents, 8 tokens, 0.75 bytes a token, tokenizer bytes"))"
sum=$(cat $scratch/a.txt $scratch/b.txt | sha256sum | cut -d' ' -f1)
verdict "sha256 of the source" "$(grep -aq "\"sha256\":\"$sum\"" $scratch/t.st || echo differs)"
for k in $(seq 9000); do echo "Line $k of the file;  it's  éé 東京 $((k * k)).
Next"; done > $scratch/big.txt
for k in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do cat $scratch/big.txt; done > $scratch/bigger.txt
{ printf '{"text":"'; tr '\n' '\001' < $scratch/bigger.txt | sed 's/\x01/\\n/g'; printf '"}\n'; } > $scratch/one.jsonl
for model in gpt2 llama3 qwen2; do
    t=$(tokenizer $model)
    $pack -o $scratch/big.st --tokenizer $t $scratch/bigger.txt > $scratch/log &&
    $pack -o $scratch/one.st --tokenizer $t $scratch/one.jsonl > $scratch/log
    cmp <($work/test dump $scratch/big.st) <($work/test dump $scratch/one.st) > $scratch/diff
    verdict "blocks do not show: $model" \
        "$(cat $scratch/diff; [ $(stat -c %s $scratch/bigger.txt) -gt 6000000 ] || echo one block)"
done
$pack -o $scratch/r.st --kind rows --max-length 4 $scratch/a.txt $scratch/bigger.txt > $scratch/log
verdict "texts as rows are cut" \
    "$($work/test dump $scratch/r.st | diff - <(printf '97* 98* 99* 256*\n76* 105* 110* 101*\n'))"

# What must be refused: file content, options, the message's end.
refuse() {                      # name, content of x.jsonl, options, pattern
    printf "$2" > $scratch/x.jsonl
    rm -f $scratch/out.st
    if $pack -o $scratch/out.st $3 $scratch/x.jsonl > $scratch/log 2>&1; then
        verdict "refuses: $1" accepted
    elif [ -e $scratch/out.st ] || ! grep -qe "$4" $scratch/log; then
        verdict "refuses: $1" "$(head -c 300 $scratch/log)"
    else
        verdict "refuses: $1"
    fi
}
good='{"text":"fine"}\n'
refuse "no JSON" "$good{\n" "" 'x.jsonl:2: byte 1: want a key in quotes'
refuse "bad UTF-8" "$good{\"text\":\"\\xff\"}\n" "" 'x.jsonl:2: byte 9: not UTF-8'
refuse "NUL" '{"text":"a\0"}\n' "" 'x.jsonl:1: byte 10: control character'
refuse "byte order mark" "\\xef\\xbb\\xbf$good" "" 'x.jsonl:1: byte 0: begins with a byte order mark'
refuse "gzip" '\x1f\x8b\x08' "" 'x.jsonl:1: gzip data: decompress it first'
refuse "text is a number" "$good\n\n{\"text\":1}\n" "" 'x.jsonl:4: text: want a string'
refuse "empty text" '{"text":""}' "" 'x.jsonl:1: text: empty'
refuse "no known key" '{"txt":"a"}' "" 'x.jsonl:1: want the keys text, prompt and completion, or messages'
refuse "prompt without completion" '{"prompt":"a"}' "" 'x.jsonl:1: completion: want a string'
refuse "an array" '[1]' "" 'x.jsonl:1: want a JSON object'
refuse "texts and prompts mixed" "$good{\"prompt\":\"a\",\"completion\":\"b\"}" "" 'x.jsonl:2: prompts make rows'
refuse "nothing usable" '\n\n' "" 'no usable row (0 without a target)'
refuse "every row cut before its targets" \
    '{"prompt":"abcd","completion":"e"}' "--max-length 3" 'no usable row (1 without a target)'
refuse "messages without chat tokens" \
    '{"messages":[{"role":"user","content":"a"}]}' "" 'x.jsonl:1: messages want a tokenizer'
qwen="--tokenizer $(tokenizer qwen2)"
refuse "the last turn is the user's" \
    '{"messages":[{"role":"user","content":"a"}]}' "$qwen" 'the answer wants the role assistant'
refuse "unknown role" '{"messages":[{"role":"robot","content":"a"},{"role":"assistant","content":"a"}]}' \
    "$qwen" 'role: want system, user or assistant, got "robot"'
refuse "content missing" '{"messages":[{"role":"assistant"}]}' "$qwen" 'x.jsonl:1: content: want a string'
refuse "no messages" '{"messages":[]}' "$qwen" 'messages: want a list'
refuse "a tokenizer that appends specials" \
    '{"prompt":"a","completion":"b"}' "--tokenizer $(tokenizer added)" 'appends special tokens'
refuse "a tokenizer without end of text" "$good" "--tokenizer $(tokenizer unknown)" 'no end-of-text token'
refuse "an absent tokenizer" "$good" "--tokenizer nowhere.json" 'nowhere.json: No such file'
refuse "--assistant-only on texts" "$good" "--assistant-only" 'wants rows of messages'
refuse "--max-length on texts" "$good" "--max-length 9" 'add --kind rows'
refuse "--max-length 0" "$good" "--max-length 0" 'want 2 to'
refuse "unknown kind" "$good" "--kind heap" 'want auto, packed or rows, got heap'
refuse "unknown option" "$good" "--frob" 'unknown option --frob'
head -c 17000000 /dev/zero | tr '\0' ' ' > $scratch/long.jsonl
$pack -o $scratch/out.st $scratch/long.jsonl > $scratch/log 2>&1
verdict "refuses: a line of 17 MB" "$(grep -q 'long.jsonl:1: line longer than 16 MiB' $scratch/log || cat $scratch/log)"
printf '{"text":"a"}\r\n\r\n \n{"text":"b"}' > $scratch/crlf.jsonl
$pack -o $scratch/c.st $scratch/crlf.jsonl > $scratch/log 2>&1
verdict "CRLF, blank lines and a last line without its end are fine" \
    "$($work/test dump $scratch/c.st | diff - <(printf '97* 256*\n98* 256*\n'))"
verdict "nothing is left beside the output" "$(ls $scratch | grep -e '\.tmp' -e 'st\.')"
exit $failed
