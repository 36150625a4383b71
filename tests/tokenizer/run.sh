#!/bin/bash
# Tokenizer: recorded ids of Hugging Face tokenizers, split vectors, refusals; built with sanitizers.
set -u
. tests/sources.sh
work=out/.test/tokenizer
mkdir -p $work
${CC:-gcc} -std=c11 -I. -g1 -Og -fsanitize=address,undefined -fno-sanitize-recover=undefined \
    -o $work/test tests/tokenizer/main.c $(sources runtime base json crc32c tokenizer* bpe tokens wordpiece \
    words chars) \
    -lcjson -lpcre2-8 -lutf8proc -lm -lpthread || { echo "not ok build: see above"; exit 1; }
ASAN_OPTIONS=detect_leaks=0 $work/test tests/tokenizer/{gpt2,llama3,qwen2,added,unknown,dropping,bert,cased,level,plain}
