/* format_names.h -- names of the formats of raw data, for flags and completion. */
#ifndef DIECAST_FORMAT_NAMES_H
#define DIECAST_FORMAT_NAMES_H

/* Every format of raw data, each behind a bar after the first: "auto|pairs|messages...". */
#define FORMAT(id, name, keys, reads, has, uses, beside, kind, own, code, elsewhere, doc) "|" name
static const char FORMAT_NAMES[] = "auto"
#include "runtime/pack/formats.def"
    ;
#undef FORMAT

#endif
