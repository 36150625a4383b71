/* tests.h -- helpers and parts of the tests of the tokenizer. */
#ifndef DIECAST_TESTS_TOKENIZER_H
#define DIECAST_TESTS_TOKENIZER_H

/* Prints `ok NAME`, or `not ok NAME: WHY` if why is not NULL. */
void verdict(const char *name, const char *why);

/* Text of a tokenizer.json, for byte-level BPE and BPE; AB: a vocabulary for both. */
#define FILE_OF(model, rest) \
    "{\"pre_tokenizer\":{\"type\":\"ByteLevel\"},\"model\":{" model "}" rest "}"
#define BPE(model, rest) "{\"model\":{" model "}" rest "}"
#define AB "\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]"

void check_refusals(void);               /* refused.c */
void check_rules(void);                  /* rules.c */

#endif
