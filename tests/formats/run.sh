#!/bin/bash
# Formats: JSON, safetensors, checksums, token files, gen pack; built with sanitizers.
# cost: 32
set -u
. tests/sources.sh
. tests/compare.sh
. tests/verdict.sh
work=out/.test/formats
mkdir -p $work
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
readers=$(sources runtime base names folder folder_replace json crc32c safetensors safetensors_write)
export ASAN_OPTIONS=detect_leaks=0
watched tests/formats/{main,safetensors,tokenfile}.c $readers $(sources runtime tokenfile recordfile host_memory)
watched_link $work/test $objects -lcjson -lm || exit 1
watched tests/formats/pack_main.c gen/tools/pack.c runtime/pack/*.c runtime/jinja/*.c gen/util.c gen/commands.c \
    $readers $(sources runtime recordfile host_memory sha256 tokenizer* bpe tokens wordpiece words chars)
watched_link $work/pack $objects -lcjson -lpcre2-8 -lutf8proc -lcrypto -lm -lpthread || exit 1
$work/test $scratch tests/formats || failed=1
pack=$work/pack

tokenizer() { [ "$1" = bytes ] && echo bytes || echo tests/tokenizer/$1/tokenizer.json; }

# in this order: later ones use files and functions of earlier ones
for part in rows templates kinds refused skipped folders; do
    # shellcheck disable=SC1090
    . tests/formats/$part.sh
done
exit $failed
