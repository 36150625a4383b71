#!/bin/bash
# Random texts of random tokenizers against Hugging Face tokenizers (make soak). SEED=N COUNT=N PYTHON=python3
set -u
. tests/sources.sh
work=out/.test/tokenizer seed=${SEED:-1}
mkdir -p $work
export PYTHONDONTWRITEBYTECODE=1
if ! "${PYTHON:-python3}" -c 'import tokenizers' 2>/dev/null; then
    echo "ok random texts # skipped: ${PYTHON:-python3} has no package tokenizers"
    exit 0
fi
watched tests/tokenizer/random.c $(sources runtime base json crc32c tokenizer* bpe tokens wordpiece words chars)
watched_link $work/random $objects -lcjson -lpcre2-8 -lutf8proc -lm -lpthread || exit 1
set -o pipefail
"${PYTHON:-python3}" tests/oracle/tokenizer_random.py tests/tokenizer "$seed" "${COUNT:-20000}" 2>$work/random.log |
    ASAN_OPTIONS=detect_leaks=0 $work/random $work/random-"$seed".json
