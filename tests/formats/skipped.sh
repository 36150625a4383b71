# shellcheck shell=bash disable=SC2154
# skipped.sh -- malformed rows that --skip-bad leaves out, and options of one kind of data. Sourced by run.sh.

# --skip-bad: malformed rows of each format are left out and listed; the others give the records of a file without them.
bad=$scratch/malformed
mkdir $bad
skips() {                       # name, options, two good rows, malformed ones: each a line
    local name=$1 options=$2 n lines
    sed 1,2d $bad/rows > $bad/own
    {                            # what is no JSON, whatever the format
        sed -n '1s/"}*$//p' $bad/rows
        sed -n '1s/":/" /p' $bad/rows
        printf '{"text":"a \\ud800"}\n{"text":"\\u0000"}\n{"text":"a\0b"}\n{"text":"a\xff"}\n{"text":NaN}\n'
    } | cat - $bad/own > $bad/all
    n=$(wc -l < $bad/all)
    { sed -n 1p $bad/rows; cat $bad/all; sed -n 2p $bad/rows; } > $bad/x.jsonl
    sed -n 1,2p $bad/rows > $bad/good.jsonl
    $pack -o $bad/good.st $options $bad/good.jsonl > $scratch/log 2>&1 || cat $scratch/log
    $pack -o $bad/x.st $options --skip-bad $n $bad/x.jsonl > $bad/log 2>&1 || cat $bad/log
    $work/test dump $bad/good.st | sed 's/ id 2$/ id '$((n + 2))'/' > $bad/want
    $work/test dump $bad/x.st | diff $bad/want - | head -n 4
    grep -q "^$n malformed rows are left out (--skip-bad $n):" $bad/log || echo "not $n of them"
    lines=$(sed -n "s|^  $bad/x.jsonl:\([0-9]*\): .*|\1|p" $bad/log)
    [ "$lines" = "$(seq 2 $((n + 1)))" ] || echo "lines $lines"
    grep -aq "\"dropped_malformed\":\"$n\",\"malformed\":\"1:2 1:3 1:4 .* 1:$((n + 1))\"" $bad/x.st || echo metadata
    $pack -o $bad/y.st $options --skip-bad $((n - 1)) $bad/x.jsonl > $bad/log 2>&1
    [ $? = 1 ] && grep -q "x.jsonl:$((n + 1)): .*; --skip-bad $((n - 1)) is used up by $bad/x.jsonl:2, .* more: " $bad/log ||
        cat $bad/log
    [ ! -e $bad/y.st ] || echo written
    tr -d '\n' < $bad/rows | grep -q . || echo "no rows"
}
skipped() { verdict "--skip-bad: $1" "$(cat > $bad/rows; skips "$@" 2>&1)"; }
qwen="--tokenizer $(tokenizer qwen2)"
skipped "texts" "" << 'END'
{"text":"a"}
{"text":"b"}
{"text":7}
{"text":""}
END
skipped "messages" "$qwen" << 'END'
{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}
{"messages":[{"role":"user","content":"c"},{"role":"assistant","content":"d"}]}
{"messages":[]}
{"messages":null}
{"messages":[{"role":"user","content":"a"},{"role":"bot","content":"b"}]}
{"messages":[{"role":"user","content":"a"},{"content":"b"}]}
{"messages":[{"role":"user","content":"a"}]}
{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":7}]}
{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b","masked":[[1,0]]}]}
[{"role":"user","content":"a"},{"role":"user","content":"b"}]
END
skipped "conversations" "$qwen" << 'END'
{"conversations":[{"from":"human","value":"a"},{"from":"gpt","value":"b"}]}
{"conversations":[{"from":"human","value":"c"},{"from":"gpt","value":"d"}]}
{"conversations":[]}
{"conversations":[{"from":"human","value":"a"},{"from":"robot","value":"b"}]}
{"conversations":[{"from":"human","value":"a"},{"from":"gpt","value":null}]}
END
skipped "roles in turn" "--tokenizer $(tokenizer llama2) --chat llama-2" << 'END'
{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}
{"messages":[{"role":"user","content":"c"},{"role":"assistant","content":"d"}]}
{"messages":[{"role":"assistant","content":"a"},{"role":"assistant","content":"b"}]}
END
skipped "prompts" "$qwen" << 'END'
{"prompt":"a","completion":"b"}
{"prompt":"c","completion":"d"}
{"prompt":"a","completion":7}
{"prompt":["a"],"completion":"b"}
{"prompt":"a","completion":null}
{"prompt":"a","completion":"b","completion_masked":7}
{"prompt":"a","completion":"b","system":7}
END
skipped "Alpaca's rows" "$qwen" << 'END'
{"instruction":"a","output":"b"}
{"instruction":"c","input":"d","output":"e"}
{"instruction":"a","output":7}
{"instruction":"a","input":7,"output":"b"}
{"instruction":"a","output":"b","history":["a"]}
END
skipped "pairs" "$qwen" << 'END'
{"prompt":"a","chosen":"b","rejected":"c"}
{"prompt":"d","chosen":"e","rejected":"f"}
{"prompt":"a","chosen":"b","rejected":7}
{"prompt":"a","chosen":[{"role":"bot","content":"b"}],"rejected":[{"role":"assistant","content":"b"}]}
END
skipped "solutions in steps" "--kind steps $steps" << 'END'
{"cot_response":"### Step 1:\na\n### Step 2:\nb","cot_steps":[{"pi":1}],"domain":"x"}
{"cot_response":"### Step 1:\nc\n### Step 2:\nd","cot_steps":[{"pi":0.5}],"domain":"y"}
{"cot_response":7,"domain":"z"}
{"cot_response":"### Step 1:\na\n### Step 2:\nb","cot_steps":[{"pi":2}],"domain":"z"}
{"cot_response":"### Step 1:\na\n### Step 2:\nb","cot_steps":7}
END
skipped "stepwise labels" "--kind steps $steps" << 'END'
{"prompt":"a","completions":["b"],"labels":[true]}
{"prompt":"a","completions":["c"],"labels":[false]}
{"prompt":"a","completions":["b"],"labels":[true,false]}
{"prompt":"a","completions":[7],"labels":[true]}
{"prompt":7,"completions":["b"],"labels":[true]}
END
skipped "candidates, some of a row already read" "--kind candidates $steps" << 'END'
{"candidates":["### Step 1:\na\n### Step 2:\nb"],"true_false":[true],"id":"x"}
{"candidates":["### Step 1:\nc\n### Step 2:\nd"],"true_false":[false],"id":"y"}
{"candidates":["### Step 1:\na\n### Step 2:\nb",7]}
{"candidates":[]}
END
skipped "windows" "--format windows --max-length 4" << 'END'
{"text":"abcd"}
{"text":"efghij"}
{"text":7}
END
skipped "answers" "$qwen --format answers" << 'END'
{"prompt":"a","response":"b"}
{"prompt":"c","response":"d"}
{"prompt":"a","response":7}
{"messages":[{"role":"bot","content":"a"}]}
END
skipped "words" "--format corpus --min-words 1 --tokenizer $words/tokenizer.json" << 'END'
{"text":"the film"}
{"content":"the best"}
{"text":[7]}
END
still() {                       # name, a row, the message: the pack stops with any --skip-bad
    printf '%s\n' '{"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}' "$2" > $bad/x.jsonl
    $pack -o $bad/y.st $qwen --skip-bad 9 $bad/x.jsonl > $bad/log 2>&1
    verdict "--skip-bad: not $1" "$([ $? = 1 ] && grep -q "x.jsonl:[12]: $3" $bad/log || cat $bad/log)"
}
still "rows of no format" '{"question":"a"}' 'needs the keys'
still "an answer without its prompt" '{"completion":"a"}' 'prompt: must be a string'
still "one answer of a pair" '{"prompt":"a","chosen":"b"}' 'rejected: must be a string'
still "a message by itself" '{"role":"user","content":"a"}' 'a single message: a row must be a list'
still "a number" 7 'must be a JSON object'
still "rows of another kind" '{"prompt":"a","chosen":"b","rejected":"c"}' 'the output is rows, and pairs cannot be part of it'
still "keys that would be dropped" '{"text":"a","tools":"b"}' 'these keys would be dropped'
still "pictures" '[{"role":"user","content":[{"type":"image_url"}]}]' 'content: part 1 is of the type image_url'
still "calls of tools" '{"messages":[{"role":"assistant","content":"","tool_calls":[{}]}]}' 'tool_calls: tool calls'
printf '[{"text":"a"},\n{"text":"b" 7},\n{"text":"c"}]' > $bad/array.json
$pack -o $bad/a.st --skip-bad 1 - < $bad/array.json > $bad/log 2>&1
verdict "--skip-bad: of an array, of standard input" "$($work/test dump $bad/a.st | diff - <(printf '97* 256*\n99* 256*\n')
    grep -qx '  standard input:2: byte 12: expected , or }' $bad/log || cat $bad/log)"
printf 'the film\nthe \0 best\nthe best\n' > $bad/lines.txt
$pack -o $bad/l.st --format corpus --min-words 1 --tokenizer $words/tokenizer.json --skip-bad 1 $bad/lines.txt \
    > $bad/log 2>&1
verdict "--skip-bad: of lines" "$($work/test dump $bad/l.st | diff - <(printf '1 5* 8* 2\n1 5* 9* 2\n')
    grep -qx "  $bad/lines.txt:2: byte 4 is 0: binary data, not lines of text" $bad/log || cat $bad/log)"
printf '{"text":"a"}\n7"\n{"text":"b"}\n7"\n' > $bad/show.jsonl
$pack --show 2 --skip-bad 9 $bad/show.jsonl > $bad/log 2>&1
verdict "--skip-bad: rows that are not shown are not judged" "$(grep -q '^1 malformed row is left out (--skip-bad 9):' \
    $bad/log || cat $bad/log)"
echo '{"text":"a"}' > $bad/one.jsonl
$pack -o $bad/two.st --skip-bad 2 $bad/one.jsonl $bad/array.json $bad/array.json > $bad/log 2>&1
verdict "--skip-bad: rows of several files" "$(grep -aq '"malformed":"2:2 3:2"' $bad/two.st || cat $bad/log)"
seq -f '{"text":"%g"}' 30000 | sed '7000s/}//; 20000s/}//; 29999s/"text"/text/' > $bad/long.jsonl
for threads in 1 3; do
    $pack -o $bad/t$threads.st --threads $threads --skip-bad 3 $bad/long.jsonl > $bad/log$threads 2>&1
    $pack -o $bad/y.st --threads $threads --skip-bad 2 $bad/long.jsonl >> $bad/log$threads 2>&1
done
verdict "--skip-bad: with any number of threads" "$(cmp $bad/t1.st $bad/t3.st
    diff <(sed '/^gen pack: [0-9]*% of /d; s/t1.st//' $bad/log1) <(sed '/^gen pack: [0-9]*% of /d; s/t3.st//' $bad/log3)
    grep -c 'long.jsonl:\(7000\|20000\): byte\|long.jsonl:29999: .*--skip-bad 2 is used up by ' $bad/log1 | grep -vx 3)"
one() { $pack -o $bad/f.st "$@" $bad/long.jsonl > $bad/log 2>&1 && grep -ao '"fingerprint":"[0-9a-f]*"' $bad/f.st; }
sed -i 's/^{"text":"20000"$/{"text":"20000"}/; s/{text:/{"text":/' $bad/long.jsonl
first=$(one --skip-bad 1) second=$(one --skip-bad 5)
sed -i '7000s/$/}/' $bad/long.jsonl
verdict "--skip-bad: the fingerprint says what was left out" "$([ -n "$first" ] && [ "$first" = "$second" ] || echo "$first $second"
    [ "$(one --skip-bad 5)" = "$(one)" ] || echo 'nothing was left out')"
$pack -o $bad/f.st --skip-bad 1 $scratch/a.txt > $bad/log 2>&1
verdict "--skip-bad: texts have no rows" "$(grep -q '^gen: pack: --skip-bad: these files are texts' $bad/log || cat $bad/log)"

printf 'a\0b' > $scratch/zero.txt
refuse "a text with zeros" "$good" "$scratch/zero.txt" 'zero.txt: byte 1 is 0: binary data'
refuse "--kind rows for a text file" "$good" "--kind rows $scratch/a.txt" 'a.txt: a text file has no rows'
refuse "a text file after prompts" '{"text":"a"}' "$scratch/prompts.jsonl $scratch/a.txt" \
    'a.txt: a text file is a document without rows'
refuse "--loss-on assistant for a text file" "$good" "--loss-on assistant $scratch/a.txt" \
    'a.txt: --loss-on: a text has no answers'
printf 'a,text\n1,"x, ""y"""\n' > $scratch/t.csv
refuse "CSV" "$good" "$scratch/t.csv" 'csv.DictReader'
if command -v python3 > /dev/null; then
    (eval "$(sed -n 's/.*this converts it: //p' $scratch/log)")
    verdict "the line for CSV converts" "$(printf '{"a": "1", "text": "x, \\"y\\""}\n' | diff - $scratch/t.csv.jsonl)"
fi
