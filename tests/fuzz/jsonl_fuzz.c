// link: gen/util.c runtime/base.c runtime/json.c runtime/crc32c.c runtime/safetensors.c runtime/safetensors_write.c runtime/tokenizer.c runtime/bpe.c -lcjson -lpcre2-8 -lutf8proc -lcrypto -lm
/* jsonl_fuzz.c -- a line of JSON: strict check against cJSON, print and read again, one row of pack.
 *
 * In:    first byte: byte vocabulary, ChatML or Llama-3 tokenizer; then the line.
 * Keeps: err() of gen would end the program; here it jumps back and loses a few bytes. */
#define _GNU_SOURCE
#include "../../gen/gen.h"

#include <setjmp.h>
static jmp_buf refused;
#define err(...) longjmp(refused, 1)
#include "../../gen/pack.c"
#undef err

#define WANT(x)                                                              \
    do {                                                                     \
        if (!(x)) {                                                          \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #x);          \
            abort();                                                         \
        }                                                                    \
    } while (0)

static Tokenizer *tokenizers[3];

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    WANT(!tokenizer_load(&tokenizers[0], "bytes"));
    WANT(!tokenizer_load(&tokenizers[1], "tests/tokenizer/qwen2/tokenizer.json"));
    WANT(!tokenizer_load(&tokenizers[2], "tests/tokenizer/llama3/tokenizer.json"));
    return 0;
}

static void print_and_read(const cJSON *tree)
{
    char *text, *again, *error;
    size_t n, m;
    FILE *f = open_memstream(&text, &n);
    WANT(json_write_hf(f, tree));
    fclose(f);
    cJSON *back = json_parse(text, n, &error);
    WANT(back);
    f = open_memstream(&again, &m);
    WANT(json_write_hf(f, back));
    fclose(f);
    WANT(n == m && !memcmp(text, again, n));
    WANT(cJSON_Compare(tree, back, true));
    cJSON_Delete(back);
    free(text);
    free(again);
}

static void one_row(const Tokenizer *tok, const cJSON *row, bool assistant_only)
{
    static Pack p;
    if (!p.tokens) {
        p.out = "/tmp/x";
        p.tokens = tmpfile();
        p.mask = tmpfile();
        p.docs = tmpfile();
    }
    rewind(p.tokens);
    rewind(p.mask);
    rewind(p.docs);
    p.kind = KIND_AUTO;
    p.max_length = 0;
    p.tok = tok;
    p.chat = NULL;
    p.assistant_only = assistant_only;
    p.ntokens = p.ndocs = p.ntargets = p.no_target = 0;
    if (!setjmp(refused)) {
        pack_row(&p, row);
        WANT(p.ndocs + p.no_target == 1);
        WANT(ftell(p.tokens) == 4 * p.ntokens && ftell(p.docs) == 8 * p.ndocs);
        WANT(ftell(p.mask) == (p.kind == KIND_ROWS ? p.ntokens : 0));
        WANT(p.kind != KIND_ROWS || p.ntokens <= DEFAULT_LENGTH);
        WANT(p.ntargets <= p.ntokens && (p.ndocs || !p.ntokens));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *in, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *in, size_t size)
{
    if (!size)
        return 0;
    const char *text = (const char *)in + 1;
    char *error = json_check(text, size - 1), *why;
    cJSON *tree = json_parse(text, size - 1, &why);
    WANT(!error == !!tree);      /* what the check accepts, cJSON accepts */
    if (tree) {
        print_and_read(tree);
        one_row(tokenizers[in[0] % 3], tree, in[0] & 64);
    }
    cJSON_Delete(tree);
    free(error);
    free(why);
    return 0;
}
