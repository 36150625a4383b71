/* format_names.h -- names of the formats of raw data, for flags and completion. */
#ifndef DIECAST_FORMAT_NAMES_H
#define DIECAST_FORMAT_NAMES_H

/* The names of all formats, separated by bars: "auto|pairs|messages...". */
#define FORMAT(id, name, keys, reads, has, uses, extra, kind, finds_targets, code, elsewhere, doc) \
    "|" name
static const char FORMAT_NAMES[] = "auto"
#include "runtime/pack/formats.def"
    ;
#undef FORMAT

#endif
