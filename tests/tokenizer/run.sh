#!/bin/bash
# Tokenizer: recorded ids of Hugging Face tokenizers, split vectors, refusals; built with sanitizers.
set -u
. tests/sources.sh
work=out/.test/tokenizer
mkdir -p $work/companions
watched tests/tokenizer/{main,refused,rules}.c \
    $(sources runtime base json crc32c tokenizer* bpe tokens wordpiece words chars)
watched_link $work/test $objects -lcjson -lpcre2-8 -lutf8proc -lm -lpthread || exit 1
ASAN_OPTIONS=detect_leaks=0 $work/test tests/tokenizer/{gpt2,llama3,qwen2,tekken,smollm2,llada,added,unknown} \
    tests/tokenizer/{dropping,bert,cased,level,plain,llama2,phi3,joined,mistral,gemma,t5,xlmr,unibytes}
