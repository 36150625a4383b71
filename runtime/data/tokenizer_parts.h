/* tokenizer_parts.h -- what the files of the tokenizer share, in the order of a text's way.
 *
 * tokenizer_encode.c: added tokens are cut out (tokenizer_added.c), what lies between is normalised
 * (tokenizer_normal.c) and split (tokenizer_split.c), pieces become ids (bpe.c, wordpiece.c,
 * tokenizer_unigram.c), specials go around (tokenizer_specials.c). Back: tokenizer_decode.c. The files: tokenizer.c and
 * tokenizer_beside.c. Each file calls those that it names here or below itself in this order: tokenizer.c, _encode,
 * _added, _split, _specials, _decode, _normal, _charsmap, _replace, _ids.
 * Keeps: errors are malloc'ed messages, NULL means fine. */
#ifndef DIECAST_TOKENIZER_PARTS_H
#define DIECAST_TOKENIZER_PARTS_H

#define PCRE2_CODE_UNIT_WIDTH 8
#include "runtime/data/bpe.h"
#include "runtime/data/tokenizer.h"
#include "runtime/data/tokenizer_unigram.h"
#include "runtime/data/wordpiece.h"

#include <cjson/cJSON.h>
#include <pcre2.h>

enum { BYTES_EOS = 256 };        /* of the byte vocabulary */

typedef struct Charsmap Charsmap;

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

/* \w of the Rust regex crate: what Whitespace takes for words, and which neighbours single_word
 * tokens may not have. */
#define WORD_CLASS "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}]"

/* What is looked for, and what stands there instead. */
typedef struct {
    char *find, *put;            /* find NULL: the pattern */
    size_t nfind, nput;
    pcre2_code *pattern;
} Replace;

/* One step of the normaliser; BertNormalizer is several. */
typedef struct {
    enum {
        NORMAL_NFC, NORMAL_NFD, NORMAL_LOWERCASE,    /* none moves where a line ends, see cuts_find */
        NORMAL_STRIP_MARKS,      /* all of them */
        NORMAL_STRIP_ACCENTS,    /* nonspacing ones */
        NORMAL_CLEAN,            /* no control characters, one kind of space */
        NORMAL_CHINESE,          /* spaces around each */
        NORMAL_FINAL_SIGMA,      /* a capital sigma that ends a word becomes the small one */
        NORMAL_NFKC, NORMAL_NFKD,
        NORMAL_STRIP,            /* white space at the ends */
        NORMAL_PREPEND,          /* replace.put before a text that is not empty */
        NORMAL_REPLACE, NORMAL_CHARSMAP
    } kind;
    bool left, right;            /* of NORMAL_STRIP */
    Replace replace;
    Charsmap *map;
} NormalStep;

/* What upstream does NORMAL_FINAL_SIGMA with: the rule of Unicode that Python's str.lower() has and
 * its Lowercase has not. */
#define NORMAL_SIGMA_REGEX \
    "[\\p{Cased}&&[^\\p{Case_Ignorable}]]\\p{Case_Ignorable}*+\\K\u03a3" \
    "(?!\\p{Case_Ignorable}*+\\p{Cased})"

/* As a file spells it that each character is a piece. */
#define TOKENIZER_CHARACTERS "[\\s\\S]"

/* What becomes of the parts that a split finds, and of those between them. */
typedef enum {
    KEEP_ISOLATED, KEEP_REMOVED, KEEP_CONTIGUOUS, KEEP_WITH_PREVIOUS, KEEP_WITH_NEXT
} Keep;

/* One step of the pre-tokeniser: what it looks for. */
typedef struct {
    enum {
        FIND_PATTERN, FIND_TEXT, FIND_SPACE, FIND_PUNCTUATION, FIND_CHARACTER,
        FIND_META,               /* Metaspace: spaces become text; each begins a piece if split */
        FIND_NOTHING             /* puts a space before a piece that has none there */
    } find;
    Keep keep;
    bool invert;                 /* what it does not find */
    bool known;                  /* the patterns of the models, as they use them */
    bool digits;                 /* Digits: what a character is decides alone */
    bool spaces;                 /* leaves no piece with white space in it */
    pcre2_code *pattern;
    char *text;
    size_t ntext;
    enum { PREPEND_NEVER, PREPEND_FIRST, PREPEND_ALWAYS } prepend;   /* FIND_META: text, where it is
                                                                        not there already */
    bool split;
} Split;

/* One step of the decoder: a list of texts, one a token, becomes another. */
typedef struct {
    enum {
        DECODE_WORDPIECE,        /* words apart, text (the mark of continuations) off */
        DECODE_FUSE,             /* one text */
        DECODE_REPLACE,          /* in each */
        DECODE_FALLBACK,         /* <0xE4> are bytes; neighbours are characters together */
        DECODE_STRIP,            /* up to start times text off the front of each, stop off the end */
        DECODE_METASPACE         /* text is a space, none in the first if it was put there */
    } kind;
    char *text;
    bool cleanup, put_there;
    int start, stop;
    Replace replace;
} DecodeStep;

struct Tokenizer {
    bool bytes;                  /* the byte vocabulary: nothing below is set but ids */
    Bpe *bpe;                    /* this model, */
    Wordpiece *words;            /* or this, */
    Unigram *unigram;            /* or this */
    Added *added;
    int nadded;
    Finder raw, normal;          /* normalized:false, normalized:true */
    NormalStep step[16];         /* of the normaliser, in order */
    int nsteps;
    Split split[16];             /* each splits what those before it left */
    int nsplits;
    bool byte_level;
    bool cuts, lstrip_first[256];     /* see tokenizer_cut; no cut before these bytes */
    DecodeStep decode[16];       /* in order; not of byte_level */
    int ndecode;
    bool spaced;                 /* no decoder: tokens stand apart */
    pcre2_code *word, *cased, *ignorable;     /* one character; the last two: FINAL_SIGMA */
    pcre2_match_data *match;
    pcre2_match_context *limits;
    Ids prefix, suffix;
    int size, eos, bos, mask, pad;    /* but for size, -1: none */
    Ids ends;                    /* of config.json, when nothing else says */
    char *eos_text;
    char id[64];
    void (*each)(void *user, const char *piece, size_t n);   /* gets pieces instead of the model */
    void *user;
    bool twin;                   /* all but model and match belongs to another */
};

/* What a tokenizer.json has as a word, or what a message shows instead. */
static inline const char *json_word(const cJSON *item)
{
    return cJSON_IsString(item) ? item->valuestring : cJSON_IsNull(item) ? "null" : "?";
}

/* ---- tokenizer_beside.c ----------------------------------------------------------------------- */

/* A token of the files beside tokenizer.json. */
typedef struct {
    Added is;                    /* content belongs to the config; id -1: they give none */
    bool marks;                  /* tokenizer.json's token of that content becomes special */
} Beside;
typedef struct {
    Beside *token;
    int n, cap;
} BesideList;

/* What the files beside the tokenizer.json at path say, as one tokenizer_config.json; NULL: there are none. */
char *beside_read(const char *path, cJSON **config);
/* The token that a key names: a text, or an object with the text in `content`; NULL: none. */
const char *beside_name(const cJSON *config, const char *key);
/* The tokens of a config, which outlives them; config NULL: none. The caller frees to->token. */
char *beside_tokens(const cJSON *config, BesideList *to);
/* Whether `added_tokens` of a tokenizer.json lacks one of the list, or cuts it out in another way. */
bool beside_adds(const BesideList *list, const cJSON *added);

/* ---- tokenizer_ids.c -------------------------------------------------------------------------- */

const Tokens *model_tokens(const Tokenizer *t);          /* of a model that is not BPE */
int model_id(const Tokenizer *t, const char *token);     /* as written in the file; -1: none */
int model_count(const Tokenizer *t);                     /* tokens, without the added ones */
/* What id stands for, bytes or a word; NULL: no such id. */
const char *model_text(const Tokenizer *t, int32_t id, size_t *n);
const Added *added_of(const Tokenizer *t, int32_t id);   /* NULL: it is none */

/* ---- tokenizer_bytes.c ------------------------------------------------------------------------ */

bool tokenizer_is_bytes(const char *text, size_t n);     /* the text is that of tokenizer_bytes_file() */

/* ---- tokenizer_added.c ------------------------------------------------------------------------ */

/* `added_tokens`, and those of the files beside; the model and the normaliser are loaded. *more: a line for each of
 * the latter that changes ids, malloc'ed. */
char *added_load(Tokenizer *t, const cJSON *list, const BesideList *beside, char **more);
/* Cuts the tokens of f out of text, leftmost first, longest first; gap encodes what lies between.
 * first: the text's beginning is that of the whole. */
typedef char *Gap(const Tokenizer *t, const char *text, size_t n, bool first, Ids *to);
char *added_cut_out(const Tokenizer *t, const Finder *f, const char *text, size_t n, bool first,
                    Gap *gap, Ids *to);

/* ---- tokenizer_normal.c ----------------------------------------------------------------------- */

char *normal_load(Tokenizer *t, const cJSON *n);
bool normal_changes(const Tokenizer *t, const char *text, size_t n);  /* false: surely not */
/* The text as the normaliser makes it, malloc'ed. *first becomes false where what it begins with
 * does not stand for what the text began with. */
char *normal_text(const Tokenizer *t, const char *text, size_t n, size_t *nout, bool *first);
void normal_free(Tokenizer *t);
bool char_is_punctuation(uint32_t c);
/* Whether the character of len bytes is what the pattern, of one character, says. */
bool char_is(const Tokenizer *t, const pcre2_code *which, const char *text, int len);

/* ---- tokenizer_replace.c ---------------------------------------------------------------------- */

/* The Regex as PCRE2 spells it, malloc'ed; NULL: it is not a simple one. */
char *pattern_simple(const char *regex);
char *replace_load(Replace *r, const char *where, const cJSON *from);
/* malloc'ed; *begins: how many bytes at the beginning a first match took. */
char *replace_text(const Replace *r, const Tokenizer *t, const char *text, size_t n, size_t *nout,
                   size_t *begins);
void replace_free(Replace *r);

/* Whether a text is one character of UTF-8; NULL is none. */
bool is_character(const char *text);
/* The replacement of a Metaspace, malloc'ed: one character. */
char *metaspace_mark(const cJSON *p, const char *where, char **mark);
/* Text that grows, with a NUL behind it; begins as zeros, the caller frees text. */
typedef struct {
    char *text;
    size_t n, cap;
} Out;
void out_put(Out *to, const char *text, size_t n);

/* ---- tokenizer_charsmap.c --------------------------------------------------------------------- */

/* precompiled_charsmap, base64. */
char *charsmap_load(Charsmap **map, const char *base64);
char *charsmap_text(const Charsmap *map, const char *text, size_t n, size_t *nout);
void charsmap_free(Charsmap *map);

/* ---- tokenizer_split.c ------------------------------------------------------------------------ */

/* Whether the model's pieces are bytes: ByteLevel is among the steps. */
bool split_is_byte_level(const cJSON *p);
char *split_load(Tokenizer *t, const cJSON *p);
Gap split_encode;                /* what stands between two added tokens */
void split_free(Tokenizer *t);

/* ---- tokenizer_specials.c --------------------------------------------------------------------- */

char *specials_load(Tokenizer *t, const cJSON *p);

/* ---- tokenizer_encode.c ----------------------------------------------------------------------- */

/* Whether tokenizer_cut may cut at all, and before which bytes not; all else is loaded. */
void cuts_find(Tokenizer *t);

/* ---- tokenizer_decode.c ----------------------------------------------------------------------- */

char *decode_load(Tokenizer *t, const cJSON *d);
void decode_free(Tokenizer *t);

#endif
