/* tokenizer_parts.h -- what the files of the tokenizer share, in the order of a text's way.
 *
 * tokenizer_encode.c: added tokens are cut out (tokenizer_added.c), what lies between is normalised
 * (tokenizer_normal.c) and split (tokenizer_split.c), pieces become ids (bpe.c), specials go around
 * (tokenizer_specials.c). Back: tokenizer_decode.c. The file: tokenizer.c.
 * Keeps: errors are malloc'ed messages, NULL means fine. */
#ifndef DIECAST_TOKENIZER_PARTS_H
#define DIECAST_TOKENIZER_PARTS_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include "runtime/data/bpe.h"
#include "runtime/data/tokenizer.h"

#include <cjson/cJSON.h>
#include <pcre2.h>

enum { BYTES_EOS = 256 };        /* of the byte vocabulary */

typedef struct {
    char *content;
    /* what is looked for and decoded: content, normalised if normalized */
    char *match;
    size_t nmatch;
    int32_t id;
    bool single_word, lstrip, rstrip, normalized, special;
} Added;

/* Added tokens that are looked for in one pass, by match ascending: longer ones follow their
 * prefixes. */
typedef struct {
    const Added **token;
    int n;
    bool first[256];             /* some token begins with this byte */
} Finder;

struct Tokenizer {
    bool bytes;                  /* the byte vocabulary: nothing below is set but ids */
    Bpe *bpe;
    Added *added;
    int nadded;
    Finder raw, normal;          /* normalized:false, normalized:true */
    bool nfc, add_prefix_space;
    bool cuts, lstrip_first[256];     /* see tokenizer_cut */
    pcre2_code *split, *word;    /* split NULL: pieces are not split */
    pcre2_match_data *match;
    pcre2_match_context *limits;
    Ids prefix, suffix;
    int size, eos, bos, mask, pad;    /* but for size, -1: none */
    Ids ends;                    /* of config.json, when nothing else says */
    char *eos_text;
    char id[64];
    bool twin;                   /* all but bpe and match belongs to another */
};

/* What a tokenizer.json has as a word, or what a message shows instead. */
static inline const char *json_word(const cJSON *item)
{
    return cJSON_IsString(item) ? item->valuestring : cJSON_IsNull(item) ? "null" : "?";
}

/* ---- tokenizer_added.c ------------------------------------------------------------------------ */

/* `added_tokens`; the model and the normaliser are loaded. */
char *added_load(Tokenizer *t, const cJSON *list);
const Added *added_of(const Tokenizer *t, int32_t id);           /* NULL: it is none */
/* Cuts the tokens of f out of text, leftmost first, longest first; gap encodes what lies
 * between. */
char *added_cut_out(const Tokenizer *t, const Finder *f, const char *text, size_t n,
                    char *(*gap)(const Tokenizer *, const char *, size_t, Ids *), Ids *to);

/* ---- tokenizer_normal.c ----------------------------------------------------------------------- */

char *normal_load(Tokenizer *t, const cJSON *n);
/* The text as the normaliser makes it, malloc'ed. */
char *normal_text(const char *text, size_t n, size_t *nout);

/* ---- tokenizer_split.c ------------------------------------------------------------------------ */

char *split_load(Tokenizer *t, const cJSON *p);
/* What stands between two added tokens. */
char *split_encode(const Tokenizer *t, const char *text, size_t n, Ids *to);

/* ---- tokenizer_specials.c --------------------------------------------------------------------- */

char *specials_load(Tokenizer *t, const cJSON *p);

/* ---- tokenizer_encode.c ----------------------------------------------------------------------- */

/* Whether tokenizer_cut may cut at all, and before which bytes not; all else is loaded. */
void cuts_find(Tokenizer *t);

#endif
