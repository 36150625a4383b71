# shellcheck shell=bash disable=SC2154
# folders.sh -- folders of data, line ends, leftovers. Sourced by run.sh.

# Folders with their subfolders, by name; of aclImdb only the reviews, train before test; a folder of data that has to
# be converted names one command for all of it.
acl=$scratch/aclImdb
mkdir -p $acl/{train,test}/{neg,pos}
for file in train/neg/10_2 train/neg/1_2 train/pos/0_9 test/neg/0_1 test/pos/0_8; do
    printf 'the film %s' $file > $acl/$file.txt
done
for other in README imdbEr.txt train/urls_pos.txt test/urls_neg.txt; do echo "no review at all" > $acl/$other; done
order='train/neg/10_2 train/neg/1_2 train/pos/0_9 test/neg/0_1 test/pos/0_8'
$pack --show 9 $acl 2> $bad/log | sed -n "s|^$acl/\(.*\).txt: a text|\1|p" > $bad/got
verdict "aclImdb: reviews by name, those to train on first" "$(diff $bad/got <(tr ' ' '\n' <<< "$order"))"
verdict "aclImdb: the summary" "$(diff $bad/log - << END
gen pack: note: $acl: 5 files, subfolders included
gen pack: note: $acl: 4 files are not read: only .jsonl, .ndjson, .json and .txt are; of aclImdb only pos, neg and unsup are read
END
)"
$pack --show 9 --dataset imdb --min-words 3 --tokenizer $words/tokenizer.json $acl 2> /dev/null |
    sed -n "s|^$acl/\(.*\).txt:1: reviews.*|\1|p" > $bad/got
verdict "aclImdb: --dataset imdb" "$(diff $bad/got <(tr ' ' '\n' <<< "$order"))"
folder=$scratch/nested
mkdir -p $folder/b/c $folder/a
printf '{"text":"1"}' > $folder/a/2.jsonl
printf '{"text":"2"}' > $folder/b/1.json
printf '{"text":"3"}' > $folder/b/c/1.jsonl
printf '{"text":"4"}' > $folder/c.jsonl
printf '{"dataset":{}}' > $folder/dataset_infos.json
mkdir $folder/.hidden
echo x > $folder/.hidden/x.txt
$pack -o $bad/f.st $folder > $bad/log 2>&1
verdict "a folder of folders, by name" "$($work/test dump $bad/f.st | cut -d '*' -f 1 | tr '\n' ' ' | grep -vx '49 50 51 52 ')"
ln -s .. $folder/b/up
refuse "a folder in itself" "$good" "$folder" 'nested/b/up/.*: more than 16 nested folders: is one a link to a parent?'
mkdir -p $scratch/{shards/data,saved,both,gz,stream}
printf PAR1 > $scratch/shards/data/train-00000-of-00002.parquet
touch $scratch/shards/README.md $scratch/both/dataset_dict.json $scratch/{saved,stream}/dataset_info.json \
    $scratch/saved/state.json $scratch/gz/x.jsonl.gz
printf '\xff\xff\xff\xff\x10\0\0\0' > $scratch/stream/x-train.arrow
converts() {                    # folder, what it holds, the command that converts it; SET stands for the folder
    $pack -o $scratch/out.st $scratch/$1 > $scratch/log 2>&1
    verdict "a folder that is converted: $1" "$(diff $scratch/log <(printf '%s, but gen pack reads text and JSON rows; '\
'this converts it: %s\n' "$2" "$3" | sed "s#SET#$scratch/${1%/}#g"))"
}
shards="python3 -c \"import glob, pandas; [print(pandas.read_parquet(f).to_json(orient='records', lines=True).strip())"
shards+=" for f in sorted(glob.glob('SET/**/*.parquet', recursive=True))]\" > SET.jsonl"
converts shards 'SET: a folder of Parquet data' "$shards"
converts shards/ 'SET/: a folder of Parquet data' "$shards"
converts saved "SET: a folder of datasets' save_to_disk" \
    "python3 -c \"import datasets; datasets.load_from_disk('SET').to_json('SET.jsonl')\""
both="python3 -c \"import datasets; [d.to_json('SET.' + k + '.jsonl') for k, d in "
converts both "SET: a folder of datasets' save_to_disk" "${both}datasets.load_from_disk('SET').items()]\""
stream="python3 -c \"import datasets; datasets.Dataset.from_file('SET/x-train.arrow')"
converts stream 'SET/x-train.arrow: Arrow data' "$stream.to_json('SET/x-train.arrow.jsonl')\""
converts gz 'SET/x.jsonl.gz: gzip data' 'zcat SET/x.jsonl.gz | gen pack ... -'
cp $scratch/a.txt $scratch/keep.txt
$pack -o $scratch/keep.txt $scratch/a.txt > $scratch/log 2>&1
verdict "refuses: to write over a text" "$(grep -q 'exists and is not a token file' $scratch/log &&
    cmp $scratch/a.txt $scratch/keep.txt || cat $scratch/log)"
$pack $scratch/a.txt > $scratch/log 2>&1
verdict "refuses: no -o" "$(grep -q 'needs -o OUT.safetensors, or --show N' $scratch/log || cat $scratch/log)"
head -c 17000000 /dev/zero | tr '\0' ' ' > $scratch/long.jsonl
$pack -o $scratch/out.st $scratch/long.jsonl > $scratch/log 2>&1
verdict "refuses: a line of 17 MB" "$(grep -q 'long.jsonl:1: line longer than 16 MiB' $scratch/log || cat $scratch/log)"
printf '{"text":"a"}\r\n\r\n \n{"text":"b"}' > $scratch/crlf.jsonl
$pack -o $scratch/c.st $scratch/crlf.jsonl > $scratch/log 2>&1
verdict "CRLF, blank lines and a last line without its end are fine" \
    "$($work/test dump $scratch/c.st | diff - <(printf '97* 256*\n98* 256*\n'))"
verdict "nothing is left next to the output" "$(ls $scratch | grep -e '\.tmp' -e 'st\.')"
