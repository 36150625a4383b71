# shellcheck shell=bash disable=SC2154
# kinds.sh -- rows of each objective: --show, pairs, labelled steps, characters, windows, arrays of ids, answers.
# Sourced by run.sh.

# --show: rows as they would be written; a terminal gets colours, and nothing that would steer it.
{ cat $scratch/messages.jsonl; printf '\n{"text":"not reached"\n'; } > $scratch/show.jsonl
sed -i 's/"b"/"b\\u001b[1m"/' $scratch/show.jsonl
cat > $scratch/show.expected << END
$scratch/show.jsonl:1: messages, 29 tokens, 4 targets, cut
     688 "<|im_start|>"  82 "s"  88 "y"  82 "s"  83 "t"  68 "e"  76 "m"  198 "\n"  50 "S"
     689 "<|im_end|>"  198 "\n"  688 "<|im_start|>"  554 "user"  198 "\n"  64 "a"  689 "<|im_end|>"
     198 "\n"  688 "<|im_start|>"  390 "as"  82 "s"  274 "is"  83 "t"  351 "an"  83 "t"  198 "\n"
  *  65 "b"  215 "\u{1b}"  58 "["  16 "1"
chat format: chatml, by the tokenizer's added tokens, as it has no chat_template
targets: the last answer of each row, its completion, or all of a text (the default)
END
$pack --show 1 --max-length 29 $qwen $scratch/show.jsonl > $scratch/log 2>&1
verdict "--show" "$(diff $scratch/log $scratch/show.expected)"
echo '[]' > $scratch/none.jsonl
$pack --show 2 $qwen $scratch/none.jsonl > $scratch/log 2>&1
verdict "--show of no row" "$([ $? != 0 ] && grep -q 'none.jsonl: has no row to show' $scratch/log || cat $scratch/log)"
$pack --show 9 --loss-on all -o $scratch/show.st $qwen $scratch/messages.jsonl > $scratch/log 2>&1
verdict "--show and -o" "$(grep -q 'messages, 28 tokens, 27 targets$' $scratch/log &&
    grep -q 'show.st: rows, 1 rows, 28 tokens, 27 targets' $scratch/log || cat $scratch/log)"
if command -v script > /dev/null; then
    script -qec "$pack --show 1 $qwen $scratch/messages.jsonl" /dev/null > $scratch/log 2>&1 < /dev/null
    verdict "--show on what only a launcher made a terminal" "$(script \
        -qec "$pack --show 1 $qwen $scratch/messages.jsonl \
        2> $scratch/said" /dev/null 2>&1 < /dev/null | grep $'\033')"
    verdict "--show on a terminal" "$(grep -q $'^\033\[32m  \*  65 "b".*\033\[0m' $scratch/log || cat -v $scratch/log)"
fi

# Pairs: both parts, what is left out, how long they are.
cat > $scratch/pairs.jsonl << END
{"prompt":"ab","chosen":"cd","rejected":"e"}
{"chosen":"one two","rejected":"one eight"}
{"prompt":"ab","chosen":"c","rejected":"c"}
{"prompt":"abcdefgh","chosen":"i","rejected":"j"}
END
cat > $scratch/pairs.expected << END
$scratch/pairs.jsonl:1: pairs
  chosen: 5 tokens, 3 targets
     97 "a"  98 "b"
  *  99 "c"  100 "d"  256 "<|endoftext|>"
  rejected: 4 tokens, 2 targets
     97 "a"  98 "b"
  *  101 "e"  256 "<|endoftext|>"
$scratch/pairs.jsonl:2: pairs, cut
  chosen: 8 tokens, 5 targets
     111 "o"  110 "n"  101 "e"
  *  32 " "  116 "t"  119 "w"  111 "o"  256 "<|endoftext|>"
  rejected: 8 tokens, 5 targets
     111 "o"  110 "n"  101 "e"
  *  32 " "  101 "e"  105 "i"  103 "g"  104 "h"
$scratch/pairs.jsonl:3: pairs
  chosen: 4 tokens, 2 targets
     97 "a"  98 "b"
  *  99 "c"  256 "<|endoftext|>"
  rejected: 4 tokens, 2 targets
     97 "a"  98 "b"
  *  99 "c"  256 "<|endoftext|>"
$scratch/pairs.jsonl:4: pairs, cut: left out, with a prompt that leaves no room for an answer
  chosen: 8 tokens, 0 targets
     97 "a"  98 "b"  99 "c"  100 "d"  101 "e"  102 "f"  103 "g"  104 "h"
  rejected: 8 tokens, 0 targets
     97 "a"  98 "b"  99 "c"  100 "d"  101 "e"  102 "f"  103 "g"  104 "h"
$scratch/pairs.st: pairs, 3 pairs, 33 tokens, 19 targets, 2 cut to 8 tokens, 0 left out without a target, \
1 with a prompt that leaves no room for an answer; 1.42 bytes a token, tokenizer bytes
read pairs: 4
targets: the answers, with their ends
lengths before cutting: prompts 2 to 8 tokens, mean 3.8, half up to 2, 95 of 100 up to 8; chosen answers \
2 to 5 tokens, mean 3.0, half up to 2, 95 of 100 up to 5; rejected answers 2 to 7 tokens, mean 3.2, half up to 2, \
95 of 100 up to 7
1 pair has no prompt: the common prefix of the answers is used
1 pair has identical answers: neither is preferred
END
sed -i -e ':a' -e '/\\$/N; s/\\\n//; ta' $scratch/pairs.expected
$pack --show 9 -o $scratch/pairs.st --max-length 8 $scratch/pairs.jsonl > $scratch/log 2>&1
verdict "pairs: rows as they are written" "$(diff $scratch/log $scratch/pairs.expected)"
verdict "pairs: what the file says" "$(for key in '"dropped_long_prompt":"1"' '"identical":"1"' \
    '"lengths":"prompts 2 to 8' \
    '"kind":"pairs"'; do grep -aqF "$key" $scratch/pairs.st || echo no $key; done)"
$pack -o $scratch/1.st --threads 1 $scratch/pairs.jsonl $scratch/pairs.jsonl > $scratch/log 2>&1
$pack -o $scratch/2.st --threads 5 $scratch/pairs.jsonl $scratch/pairs.jsonl > $scratch/log 2>&1
verdict "pairs: threads do not show" "$(cmp $scratch/1.st $scratch/2.st 2>&1)"
# Rows that say the same: a prompt that is a string with lists; a question after a system message of its own.
alike() {               # NAME ROW ROW
    for i in 2 3; do
        echo "${!i}" >$scratch/$i.jsonl
        # shellcheck disable=SC2086
        $pack --show 1 -o $scratch/alike.st $qwen $scratch/$i.jsonl >$scratch/$i.log 2>&1 || tail -n 1 $scratch/$i.log
    done
    verdict "pairs alike: $1" "$(diff <(grep '^ ' $scratch/2.log) <(grep '^ ' $scratch/3.log)
        grep -q 'chosen: ' $scratch/2.log || tail -n 1 $scratch/2.log)"
}
user='{"role":"user","content":"Question: a"}'
answers='"chosen":[{"role":"assistant","content":"c"}],"rejected":[{"role":"assistant","content":"d"}]'
whole='"chosen":['$user',{"role":"assistant","content":"c"}],"rejected":['$user',{"role":"assistant","content":"d"}]'
alike "a string before answers" "{\"prompt\":\"Question: a\",$answers}" "{\"prompt\":[$user],$answers}"
alike "a string and conversations" "{\"prompt\":\"Question: a\",$whole}" "{$whole}"
alike "a system message with a question" '{"system":"s","question":"a","chosen":"c","rejected":"d"}' \
    '{"prompt":[{"role":"system","content":"s"},'"$user],$answers}"
alike "an empty one" '{"system":"","question":"a","chosen":"c","rejected":"d"}' "{\"prompt\":[$user],$answers}"
# Parts of answers without loss: the same ids, other targets. Positions are characters, not bytes, of the answer
# as given, also where its beginning is the common prompt.
cat > $scratch/masked.jsonl << END
{"prompt":"ab","chosen":"cdef","rejected":"xy","chosen_masked":[[0,1],[2,3]],"rejected_masked":[]}
{"chosen":"h\u00e9 one","rejected":"h\u00e9 two","rejected_masked":[[1,5]]}
{"prompt":"a","chosen":"b","rejected":"b","chosen_masked":[[0,1]]}
{"prompt":"a","chosen":"b","rejected":"cd","rejected_masked":[[0,2]]}
END
cat > $scratch/masked.expected << END
$scratch/masked.jsonl:1: pairs
  chosen: 7 tokens, 3 targets
     97 "a"  98 "b"  99 "c"
  *  100 "d"
     101 "e"
  *  102 "f"  256 "<|endoftext|>"
  rejected: 5 tokens, 3 targets
     97 "a"  98 "b"
  *  120 "x"  121 "y"  256 "<|endoftext|>"
$scratch/masked.jsonl:2: pairs
  chosen: 8 tokens, 5 targets
     104 "h"  195 "\xc3"  169 "\xa9"
  *  32 " "  111 "o"  110 "n"  101 "e"  256 "<|endoftext|>"
  rejected: 8 tokens, 2 targets
     104 "h"  195 "\xc3"  169 "\xa9"  32 " "  116 "t"  119 "w"
  *  111 "o"  256 "<|endoftext|>"
END
$pack --show 2 $scratch/masked.jsonl | head -n -1 > $scratch/log 2>&1
verdict "masked spans of pairs" "$(diff $scratch/log $scratch/masked.expected)"
$pack -o $scratch/masked.st $scratch/masked.jsonl > $scratch/log 2>&1
verdict "masked spans: prompts and answers are unchanged" "$(grep \
    -q '^lengths .*prompts 1 to 3 tokens.*; chosen answers 2 to 5 tokens' \
    $scratch/log && ! grep -q identical $scratch/log || cat $scratch/log)"
# $1: rows, $2: of a message with the answer "one two three", what is to be added to it; targets' texts
masked_turns() {
    printf '{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":" one two three"%s}]}\n' \
        "$2" > $scratch/turns.jsonl
    $pack --show 1 --tokenizer $(tokenizer $1) ${3-} $scratch/turns.jsonl 2> /dev/null | sed -n 's/^  \* *//p' |
        grep -o '"[^"]*"' | tr -d '"\n'
}
whole=$(masked_turns qwen2 '')
verdict "masked spans of turns" "$(
    [ "$(masked_turns qwen2 ',"masked":[[4,8]]')" = "${whole/ two/}" ] || masked_turns qwen2 ',"masked":[[4,8]]'
    [ "$(masked_turns qwen2 ',"masked":[[0,14]]')" = "${whole##*three}" ] ||
        masked_turns qwen2 ',"masked":[[0,14]]'
    [ "$(masked_turns llama3 ',"masked":[[1,4]]')" = "$(masked_turns llama3 '' | sed 's/^one//')" ] ||
        masked_turns llama3 ',"masked":[[1,4]]'
    for words in ',"weight":0' ',"train":false'; do [ -z "$(masked_turns qwen2 "$words")" ] || echo "$words"; done
    for words in ',"weight":1' ',"train":true'; do [ "$(masked_turns qwen2 "$words")" = "$whole" ] ||
        echo "$words"; done)"
printf '{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"one","weight":0},'\
'{"role":"user","content":"b"},{"role":"assistant","content":"two"}]}\n' > $scratch/turns.jsonl
verdict "a turn that is not trained on among others" "$($pack --show 1 $qwen --loss-on assistant $scratch/turns.jsonl |
    sed -n 's/^  \* *//p' | grep -q one && echo "it is"
    $pack --show 1 $qwen --loss-on all $scratch/turns.jsonl | grep -c '^  \*' | grep -vx 4)"

bos='<|begin_of_text|>'
printf '{"prompt":"a","chosen":" b","rejected":" c"}\n' > $scratch/a.jsonl
printf '{"prompt":"%sa","chosen":" b","rejected":" c"}\n' "$bos" > $scratch/b.jsonl
same "one begin-of-text token" "--tokenizer $(tokenizer llama3) $scratch/a.jsonl" \
    "--tokenizer $(tokenizer llama3) $scratch/b.jsonl"

# Step-labelled solutions: the summary, the metadata of the file, ids of rows without one.
recipes/demos/chains.sh tokenizer $scratch/chains
chains="--tokenizer $scratch/chains/tokenizer.json"
cat > $scratch/steps.jsonl << 'END'
{"informal_prefix":"P","cot_response":"Well.\n### Step 1: t\na\n### Step 2: t\nb","cot_steps":[{"pi":0.5}],"domain":"d\u001b[1m","id":7}
{"cot_response":"### Step 1: t\na","cot_steps":[{"pi":1}]}
{"cot_response":"### Step 1: t\na\n### Step 2: t\nb\n### Step 3:\nc","cot_steps":[{"pi":1}]}
{"cot_response":"### Step 1: t\na\n### Step 2: t\nb\n### Step 3:\nc","cot_steps":[{"pi":1},{"pi":0}],"meta_label":0}
END
cat > $scratch/steps.expected << END
$scratch/steps.jsonl:1: step-labelled solutions, 25 tokens, 1 target
     257 "<|im_start|>"  117 "u"  115 "s"  101 "e"  114 "r"  10 "\\n"  80 "P"  258 "<|im_end|>"
     10 "\\n"  257 "<|im_start|>"  97 "a"  115 "s"  115 "s"  105 "i"  115 "s"  116 "t"  97 "a"
     110 "n"  116 "t"  10 "\\n"  97 "a"
  *  259 "<extra_0>"
     98 "b"  258 "<|im_end|>"  10 "\\n"
  labels 0.5; meta_label 1; domain d?[1m; id 7
$scratch/steps.jsonl:2: step-labelled solutions: left out, with another number of steps
$scratch/steps.st: steps, 2 records, 58 tokens, 3 marks, 0 cut to 40 tokens; 2 left out: 1 with another number of \
steps, 1 with too few labels
lengths before cutting: solutions 25 to 33 tokens, mean 29.0, half up to 25, 95 of 100 up to 33; 1 have no \
meta_label: taken as right, unless a stepwise label is false; 1 have no problem; 1 have text before their first step, \
which is dropped
mark <extra_0>, token 259; for gen: prm.steps=0 prm.records=2 prm.domains=1
chat format: chatml, by the tokenizer's added tokens, as it has no chat_template; tokenizer ID
END
sed -i -e ':a' -e '/\\$/N; s/\\\n//; ta' $scratch/steps.expected
$pack --show 2 -o $scratch/steps.st --steps 0 --max-length 40 --system '' $chains $scratch/steps.jsonl \
    > $scratch/log 2>&1
verdict "steps: the summary" "$(sed 's/crc32c:.*/ID/' $scratch/log | diff - $scratch/steps.expected)"

mkdir $scratch/other
cp $scratch/chains/tokenizer.json $scratch/other
echo '{"eos_token":"<|im_end|>","chat_template":"{{ messages }}"}' > $scratch/other/tokenizer_config.json
for kind in steps auto; do
    $pack -o $scratch/other.st --steps 0 --system s --tokenizer $scratch/other/tokenizer.json --kind $kind \
        $scratch/steps.jsonl > $scratch/$kind.log 2>&1
done
verdict "steps: a chat template that is not known" "$(grep \
    -q 'chatml, by the .* is not known; tok' $scratch/steps.log ||
    cat $scratch/steps.log; grep -q 'jsonl:1: message 2: the chat_template renders it differently' $scratch/auto.log ||
    cat $scratch/auto.log)"

# Characters: the vocabulary is that of the data, its file is a tokenizer like others; one more is refused.
mkdir $scratch/char
printf 'hello\nworld \xc3\xa9\n' > $scratch/char/a.txt
printf 'oh, hello' > $scratch/char/b.txt
$pack -o $scratch/char/1.st --tokenizer char $scratch/char/a.txt > $scratch/log 2>&1
verdict "char: ids by code point" "$($work/test dump $scratch/char/1.st | diff - <(
    echo '1* 7* 6* 8* 8* 9* 3* 11* 9* 10* 8* 5* 4* 12* 3* 2*'))"
verdict "char: the summary" "$(grep -qF '4 special tokens and 10 of 10 characters; for gen: model.vocab=14' \
    $scratch/log ||
    cat $scratch/log)"
$pack -o $scratch/char/2.st --tokenizer $scratch/char/tokenizer.json $scratch/char/a.txt > $scratch/log 2>&1
verdict "char: its tokenizer.json" \
    "$(cmp <($work/test dump $scratch/char/1.st) <($work/test dump $scratch/char/2.st) 2>&1)"
$pack -o $scratch/char/3.st --tokenizer $scratch/char/tokenizer.json $scratch/char/b.txt > $scratch/log 2>&1
verdict "char: another character" "$(grep -q 'b.txt: "," is not in the vocabulary, which has no unknown token' $scratch/log ||
    cat $scratch/log)"
printf 'h\r' > $scratch/char/r.txt
$pack -o $scratch/char/3.st --tokenizer $scratch/char/tokenizer.json $scratch/char/r.txt > $scratch/log 2>&1
verdict "char: a character that is not seen" "$(grep -q 'r.txt: the control character 13 is not in' $scratch/log ||
    cat $scratch/log)"
$pack -o $scratch/char/3.st --tokenizer char $scratch/char/b.txt > $scratch/log 2>&1
verdict "char: another vocabulary next to it" "$(grep -q 'tokenizer.json exists, with another' \
    $scratch/log || cat $scratch/log)"
printf '{"text":"ab"}\n{"text":"ba[EOS]"}\n' > $scratch/rows.jsonl
mkdir $scratch/char/rows
$pack -o $scratch/char/rows/1.st --tokenizer char $scratch/rows.jsonl > $scratch/log 2>&1
verdict "char: rows of JSON" "$($work/test dump $scratch/char/rows/1.st |
    diff - <(printf '1* 3* 4* 2*\n1* 4* 3* 2*\n'))"

# Windows: each begins a stride after the one before, the last ends with the text; some are held back.
windows() {                     # name, text, options, rows
    rm -rf $scratch/win
    mkdir $scratch/win
    printf "$2" > $scratch/win/a.txt
    $pack -o $scratch/win/w.st --format windows --tokenizer char --max-length 4 $3 $scratch/win/a.txt \
        > $scratch/log 2>&1
    verdict "windows: $1" "$($work/test dump $scratch/win/w.st 2>&1 | tr -d '*' |
        diff - <(printf "$4"); grep ^gen: $scratch/log)"
}
windows "the last one fits" abcdefgh "" '1 3 4 5\n1 5 6 7\n1 7 8 9\n'
windows "the last one overlaps more" abcdefghi "" '1 3 4 5\n1 5 6 7\n1 7 8 9\n1 8 9 10\n'
windows "as long as one" abcd "" '1 3 4 5\n'
windows "shorter than one" ab "" '1 3 4\n'
windows "--stride" abcdefgh "--stride 4" '1 3 4 5\n1 7 8 9\n'
windows "of the end of the text" 'abcdefgh\xc3\xa9\xc3\xa9' "--split tail --eval-share 0.4" \
    '1 3 4 5\n1 5 6 7\n1 9 10 11\n'
verdict "windows: what the file says" "$(grep -aqF '"train":"2"' $scratch/win/w.st || echo no train
    grep -qF '2 for training, 1 for validation: the last 0.4 of each text' $scratch/log || cat $scratch/log)"
for how in tail random; do
    for n in 1 3; do
        $pack -o $scratch/n$n.st --threads $n --format windows --max-length 4096 --split $how --tokenizer \
            $(tokenizer gpt2) \
            $scratch/bigger.txt $scratch/big.txt > $scratch/log 2>&1
    done
    verdict "windows: threads do not show: $how" "$(cmp $scratch/n1.st $scratch/n3.st 2>&1)"
done
$pack -o $scratch/n1.st --format windows --max-length 4096 --tokenizer $(tokenizer gpt2) $scratch/bigger.txt \
    $scratch/big.txt > $scratch/log
verdict "windows: random ones are the same, in another order" \
    "$(cmp <($work/test dump $scratch/n1.st | sort) <($work/test dump $scratch/n3.st | sort) 2>&1)"

# Arrays of ids: windows as another program's folder, and read again; each rule that such a folder breaks.
printf 'abcdefghij\nklmno' > $scratch/a.txt
arrays=$scratch/arrays
rm -rf $scratch/win
mkdir $scratch/win
$pack --prepare $arrays --tokenizer char --max-length 4 --eval-share 0.4 $scratch/a.txt > $scratch/log 2>&1
verdict "arrays: the summary" "$(grep -qF "4 for training, 3 for validation: the last 0.4" $scratch/log ||
    cat $scratch/log)"
verdict "arrays: the folder" "$(ls $arrays | tr '\n' ' ' |
    diff - <(printf 'metadata.json tokenizer.json tokenizer_config.json train_data.npy val_data.npy ')
    tr -d ' \n' < $arrays/metadata.json |
        diff - <(printf \
        '{"bos_token":1,"eos_token":2,"mask_token":19,"pad_token":0,"sequence_length":4,"total_tokens":16,"train_samples":4,"val_samples":3,"vocab_size":20}'))"
verdict "arrays: an array" "$(head -c 128 $arrays/train_data.npy | tr -d '\0' |
    grep -aqF "{'descr': '<i8', 'fortran_order': False, 'shape': (4, 4), }" || echo header
    tail -c +129 $arrays/train_data.npy | od -An -w32 -tu8 | head -2 | tr -s ' ' |
        diff - <(printf ' 1 4 5 6\n 1 6 7 8\n'))"
$pack -o $scratch/1.st $arrays > $scratch/log 2>&1
$pack -o $scratch/win/w.st --format windows --split tail --tokenizer char --max-length 4 --eval-share 0.4 \
    $scratch/a.txt > $scratch/log
verdict "arrays: read as the windows" "$(cmp <($work/test dump $scratch/1.st) <($work/test dump $scratch/win/w.st) 2>&1
    grep -aqF '"train":"4"' $scratch/1.st || echo no train)"
bad_arrays() {                  # name, file, sed's line, pattern
    rm -rf $scratch/bad
    cp -r $arrays $scratch/bad
    LC_ALL=C sed -i "$3" $scratch/bad/$2
    $pack -o $scratch/out.st $scratch/bad > $scratch/log 2>&1
    verdict "arrays: $1" "$([ ! -e $scratch/out.st ] && grep -qe "gen: .*bad/$2: $4" $scratch/log ||
        head -c 300 $scratch/log)"
    rm -f $scratch/out.st
}
bad_arrays "int32" train_data.npy "s/<i8/<i4/" "dtype is '<i4', must be int64"
bad_arrays "Fortran's order" val_data.npy "s/False,/True ,/" 'is in Fortran order'
bad_arrays "one axis" train_data.npy "s/(4, 4)/(16,) /" "shape is (16,), must be two lengths"
bad_arrays "three axes" train_data.npy "s/(4, 4), }   /(4, 4, 1), }/" "shape is (4, 4, 1), must be two lengths"
bad_arrays "fewer bytes than its shape" train_data.npy "s/(4, 4)/(6, 4)/" "has 256 bytes, must have 320 for its shape"
bad_arrays "no array" val_data.npy "s/NUMPY/NUMPO/" "not a NumPy array"
bad_arrays "other lengths" val_data.npy "s/(3, 4)/(4, 3)/" "has rows of 3 tokens, but those of train_data.npy have 4"
bad_arrays "an id beyond the vocabulary" train_data.npy '$s/.$/\x99/' "row 3, position 3: id -[0-9]* is outside the vocabulary, 0 to 19"
bad_arrays "metadata of another length" metadata.json 's/"sequence_length": 4/"sequence_length": 5/' \
    "sequence_length is 5, but the arrays have 4"
bad_arrays "metadata of more rows" metadata.json 's/"train_samples": 4/"train_samples": 9/' \
    "train_samples is 9, but the arrays have 4"
bad_arrays "metadata of other tokens" metadata.json 's/"total_tokens": 16/"total_tokens": 21/' \
    "total_tokens is 21, but the arrays have 16"
bad_arrays "metadata without a key" metadata.json '/vocab_size/d; s/"val_samples": 3,/"val_samples": 3/' \
    "vocab_size: must be an integer"
bad_arrays "a mask beyond the vocabulary" metadata.json 's/"mask_token": 19/"mask_token": 20/' \
    "mask_token: must be an integer from 0 to 19"
rm -rf $scratch/bad
cp -r $arrays $scratch/bad
sed -i 's/"mask_token": 19/"mask_token": 6/' $scratch/bad/metadata.json
$pack -o $scratch/out.st $scratch/bad > $scratch/log 2>&1
verdict "arrays: the row with the mask token is named" "$(grep -q 'train_data.npy: row 0, position 3: id 6 is mask_token' \
    $scratch/log || cat $scratch/log)"
# padding at the end of a row is none of it; where it is what ends texts it stays
for pad in 6 0; do
    sed -i "s/\(\"mask_token\":\) [0-9]*/\1 19/; s/\(\"pad_token\":\) [0-9]*/\1 $pad/" $scratch/bad/metadata.json
    $pack -o $scratch/padded.st $scratch/bad > $scratch/log 2>&1
    verdict "arrays: padding $pad" "$([ "$($work/test dump $scratch/padded.st | wc -w)" = \
        $(($($work/test dump $scratch/1.st | wc -w) - (pad == 6))) ] || $work/test dump $scratch/padded.st | head -5
        [ "$(grep -c '^1 of them with pad_token at the end' $scratch/log)" = $((pad == 6)) ] || cat $scratch/log)"
done
rm $scratch/bad/val_data.npy
$pack -o $scratch/out.st $scratch/bad > $scratch/log 2>&1
verdict "arrays: one is missing" "$(grep -q 'bad/val_data.npy: No such file' $scratch/log || cat $scratch/log)"
$pack --prepare $arrays --tokenizer char --max-length 4 $scratch/a.txt > $scratch/log 2>&1
verdict "arrays: into a folder that has some" "$(grep -q 'has arrays of ids already' $scratch/log || cat $scratch/log)"
$pack --prepare $scratch/nothing --tokenizer char --max-length 40 $scratch/a.txt > $scratch/log 2>&1
verdict "arrays: of a text that is too short" "$(grep -q 'a window has 15 tokens, but the arrays need 40' $scratch/log ||
    cat $scratch/log
    [ ! -e $scratch/nothing/train_data.npy ] || echo left)"

# Masked answers: the same rows as for prediction, except for the targets.
printf '{"prompt":"2+2?","response":" 4"}\n{"prompt":"a","completion":"b"}\n' > $scratch/answers.jsonl
$pack -o $scratch/1.st --format answers $scratch/answers.jsonl > $scratch/log 2>&1
verdict "answers: as they are without a chat format" "$($work/test dump $scratch/1.st | diff - <(
    printf '50 43 50 63 32* 52* 256*\n97 98* 256*\n'); grep -aqF '"targets":"own"' $scratch/1.st || cat $scratch/log)"
printf '{"prompt":"2+2?","response":" 4"}\n' > $scratch/answers.jsonl
printf '{"messages":[{"role":"user","content":"2+2?"},{"role":"assistant","content":" 4"}]}\n' > $scratch/turns.jsonl
same "answers: turns where there is a chat format" "$qwen --format answers $scratch/turns.jsonl" \
    "$qwen --format answers $scratch/answers.jsonl"
same "answers: as messages" "$qwen $scratch/turns.jsonl" "$qwen --format answers $scratch/turns.jsonl"
