/* pack_formats.c -- the code of all formats, for gen pack; a program has its own list. */
#include "runtime/pack/pack.h"

const FormatCode *const pack_all_formats[] = {
#define FORMAT(id, name, keys, reads, has, uses, extra, kind, finds_targets, code, elsewhere, doc) \
    &code##_format,
#include "runtime/pack/formats.def"
#undef FORMAT
    NULL
};
