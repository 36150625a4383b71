/* hf_nf4.h -- weights that bitsandbytes quantised to NF4, as they are in a model folder.
 *
 * In:    NAME.weight U8 (n / 2, 1) and the tensors of HfNf4Part; their types and sizes are checked
 *        before. */
#ifndef DIECAST_HF_NF4_H
#define DIECAST_HF_NF4_H

#include "runtime/model/hf_match.h"

/* Checks absmax, nested and offset; store: copies them and the codes. Returns NULL, or a malloc'ed
 * message and in *code the exit code: 83 a format other than that of runtime/nf4.h, 88 damaged. */
char *hf_nf4_load(const HfWant *w, bool store, int *code);

#endif
