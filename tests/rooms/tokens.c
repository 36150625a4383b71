/* tokens.c -- a packed token file of random ids: tokens OUT.safetensors VOCAB SEED. */
#include "../../runtime/files/safetensors.h"
#include "../../runtime/data/tokenfile.h"

#include <stdio.h>
#include <stdlib.h>

enum { N = 4000, DOCUMENTS = 4 };

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    static int32_t token[N];
    uint32_t vocab = (uint32_t)atoi(argv[2]), state = (uint32_t)atoi(argv[3]);
    for (int i = 0; i < N; i++) {
        state = state * 1664525 + 1013904223;
        token[i] = (int32_t)((state >> 8) % vocab);
    }
    int64_t doc[DOCUMENTS + 1] = {0, 1, 5, 1000, N}, n = N, ndocs = DOCUMENTS + 1;
    StWriter *w = st_writer(TOKENFILE_FORMAT);
    uint32_t crc;
    st_add(w, "tokens", ST_I32, 1, &n);
    st_add(w, "doc_offsets", ST_I64, 1, &ndocs);
    st_add_meta(w, "kind", "packed");
    st_add_meta(w, "tokenizer", "random");
    st_add_meta(w, "vocab", argv[2]);
    st_add_meta(w, "eos", "-1");
    st_add_meta(w, "documents", "4");
    st_add_meta(w, "sha256", "0000000000000000000000000000000000000000000000000000000000000000");
    char *error = st_begin(w, argv[1]);
    if (!error)
        error = st_write(w, "doc_offsets", doc, sizeof doc);
    if (!error)
        error = st_write(w, "tokens", token, sizeof token);
    if (!error)
        error = st_end(w, &crc);
    st_free(w);
    if (error)
        fprintf(stderr, "%s\n", error);
    return error != NULL;
}
