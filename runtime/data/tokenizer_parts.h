/* tokenizer_parts.h -- internals of the tokenizer, in the order in which a text passes them.
 *
 * Encoding: tokenizer_encode.c cuts out added tokens (tokenizer_added.c); the rest is normalised
 * (tokenizer_normal.c) and split (tokenizer_split.c), pieces become ids (bpe.c, wordpiece.c,
 * tokenizer_unigram.c), specials are added (tokenizer_encode.c). Decoding: tokenizer_decode.c.
 * Files: tokenizer.c, tokenizer_config.c. A file calls only files after itself in this order:
 * tokenizer.c, _encode, _added, _split, _decode, _normal, _replace, _ids, _layouts.
 * Keeps: NULL means success, else a malloc'ed message. */
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
    /* text to find, and to decode to: content, normalised if `normalized` */
    char *match;
    size_t nmatch;
    int32_t id;
    bool single_word, lstrip, rstrip, normalized, special;
} Added;

/* Added tokens found in one pass, sorted by match: longer ones follow their prefixes. */
typedef struct {
    const Added **token;
    int n;
    bool first[256];             /* some token begins with this byte */
} Finder;

/* \w of the Rust regex crate: the words of Whitespace, and neighbours that single_word tokens may
 * not have. */
#define WORD_CLASS "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}]"

/* A text or pattern and its replacement. */
typedef struct {
    char *find, *put;            /* find NULL: the pattern */
    size_t nfind, nput;
    pcre2_code *pattern;
} Replace;

/* One step of the normaliser; BertNormalizer is several steps. */
typedef struct {
    enum {
        NORMAL_NFC, NORMAL_NFD, NORMAL_LOWERCASE,    /* these keep line ends, see cuts_find() */
        NORMAL_STRIP_MARKS,      /* all of them */
        NORMAL_STRIP_ACCENTS,    /* only nonspacing marks */
        NORMAL_CLEAN,            /* removes control characters, unifies white space */
        NORMAL_CHINESE,          /* spaces around each Chinese character */
        NORMAL_FINAL_SIGMA,      /* a capital sigma at a word's end becomes a final sigma */
        NORMAL_NFKC, NORMAL_NFKD,
        NORMAL_STRIP,            /* white space at the ends */
        NORMAL_PREPEND,          /* replace.put before a text that is not empty */
        NORMAL_REPLACE, NORMAL_CHARSMAP
    } kind;
    bool left, right;            /* of NORMAL_STRIP */
    Replace replace;
    Charsmap *map;
} NormalStep;

/* Regex of a Replace that means NORMAL_FINAL_SIGMA: the Unicode rule of Python's str.lower(), which
 * Lowercase lacks. */
#define NORMAL_SIGMA_REGEX \
    "[\\p{Cased}&&[^\\p{Case_Ignorable}]]\\p{Case_Ignorable}*+\\K\u03a3" \
    "(?!\\p{Case_Ignorable}*+\\p{Cased})"

/* The Regex of a Split into characters. */
#define TOKENIZER_CHARACTERS "[\\s\\S]"

/* Split behaviour for the matches, as in Hugging Face tokenizers. */
typedef enum {
    KEEP_ISOLATED, KEEP_REMOVED, KEEP_CONTIGUOUS, KEEP_WITH_PREVIOUS, KEEP_WITH_NEXT
} Keep;

/* One step of the pre-tokeniser. */
typedef struct {
    enum {
        FIND_PATTERN, FIND_TEXT, FIND_SPACE, FIND_PUNCTUATION, FIND_CHARACTER,
        FIND_META,               /* Metaspace: spaces become text, which begins pieces if `split` */
        FIND_NOTHING             /* only adds a space before a piece that has none */
    } find;
    Keep keep;
    bool invert;                 /* finds the text between the matches */
    bool known;                  /* a pattern of a known model, used as that model does */
    bool digits;                 /* Digits: depends on single characters only */
    bool spaces;                 /* no resulting piece contains white space */
    pcre2_code *pattern;
    char *text;
    size_t ntext;
    /* FIND_META: whether to prepend text to a piece that lacks it */
    enum { PREPEND_NEVER, PREPEND_FIRST, PREPEND_ALWAYS } prepend;
    bool split;
} Split;

/* One step of the decoder: maps a list of texts, one per token, to another list. */
typedef struct {
    enum {
        DECODE_WORDPIECE,        /* adds spaces between words; removes text (of continuations) */
        DECODE_FUSE,             /* joins all texts */
        DECODE_REPLACE,          /* in each text */
        DECODE_FALLBACK,         /* <0xE4> is a byte; adjacent bytes form characters */
        DECODE_STRIP,            /* removes text, up to start times at the front, stop at the end */
        DECODE_METASPACE         /* text becomes a space, or nothing if it was prepended */
    } kind;
    char *text;
    bool cleanup, put_there;
    int start, stop;
    Replace replace;
} DecodeStep;

struct Tokenizer {
    bool bytes;                  /* the byte vocabulary: nothing below is set but ids */
    Bpe *bpe;                    /* the model is one of these three */
    Wordpiece *words;
    Unigram *unigram;
    Added *added;
    int nadded;
    Finder raw, normal;          /* normalized:false, normalized:true */
    NormalStep step[16];         /* of the normaliser, in order */
    int nsteps;
    Split split[16];             /* each splits the pieces of the previous one */
    int nsplits;
    bool byte_level;
    bool cuts, lstrip_first[256];     /* tokenizer_cut() works; no cut before these bytes */
    DecodeStep decode[16];       /* in order; empty if byte_level */
    int ndecode;
    bool spaced;                 /* no decoder: tokens are separated by spaces */
    pcre2_code *word, *cased, *ignorable;     /* match one character; the last two: FINAL_SIGMA */
    pcre2_match_data *match;
    pcre2_match_context *limits;
    Ids prefix, suffix;
    int size, eos, bos, mask, pad;    /* ids: -1: none */
    Ids ends;                    /* eos_token_id of config.json, if nothing else names the token */
    char *eos_text;
    char id[64];
    void (*each)(void *user, const char *piece, size_t n);   /* replaces the model; NULL: none */
    void *user;
    bool twin;                   /* another tokenizer owns all but model and match */
};

/* Returns a string of a tokenizer.json, or a text for messages if it is none. */
static inline const char *json_word(const cJSON *item)
{
    return cJSON_IsString(item) ? item->valuestring : cJSON_IsNull(item) ? "null" : "?";
}

/* ---- tokenizer_config.c ---------------------------------------------------------------------- */

/* A token of the files next to tokenizer.json. */
typedef struct {
    Added is;                    /* content is borrowed from the config; id -1: not given */
    bool marks;                  /* makes the token of that content special */
} ConfigToken;
typedef struct {
    ConfigToken *token;
    int n, cap;
} ConfigTokens;

/* Merges the files next to the tokenizer.json at path into one tokenizer_config.json; NULL: there
 * are none. */
char *tokenizer_config_read(const char *path, cJSON **config);
/* Returns the token that a key names: a string, or an object with `content`; NULL: none. */
const char *config_token_name(const cJSON *config, const char *key);
/* Lists the tokens of a config, which must outlive them; config NULL: none. Free to->token. */
char *config_tokens_read(const cJSON *config, ConfigTokens *to);
/* Message if the tokenizer_class of the config puts a space before texts where tokenizer.json does
 * not, or the reverse; NULL: they agree. */
char *config_prefix_differs(const cJSON *config, const cJSON *tokenizer);
/* True if `added_tokens` of a tokenizer.json lacks one of the list, or matches it in another
 * way. */
bool config_tokens_differ(const ConfigTokens *list, const cJSON *added);

/* ---- tokenizer_ids.c ------------------------------------------------------------------------- */

const Tokens *model_tokens(const Tokenizer *t);          /* of a model that is not BPE */
int model_id(const Tokenizer *t, const char *token);     /* as written in the file; -1: none */
int model_count(const Tokenizer *t);                     /* tokens, without added ones */
/* Returns the bytes or the word of an id; NULL: no such id. */
const char *model_text(const Tokenizer *t, int32_t id, size_t *n);
const Added *added_of(const Tokenizer *t, int32_t id);   /* NULL: not an added token */

/* ---- tokenizer_layouts.c --------------------------------------------------------------------- */

bool tokenizer_is_bytes(const char *text, size_t n);     /* text is tokenizer_bytes_file() */

/* ---- tokenizer_added.c ----------------------------------------------------------------------- */

/* Loads `added_tokens` and those of the files next to it, after model and normaliser. *more: a line
 * for each of the latter that changes ids, malloc'ed. */
char *added_load(Tokenizer *t, const cJSON *list, const ConfigTokens *extra, char **more);
/* Finds the tokens of f in text, leftmost longest first; gap encodes the text between them. first:
 * text starts the whole text. */
typedef char *Gap(const Tokenizer *t, const char *text, size_t n, bool first, Ids *to);
char *added_cut_out(const Tokenizer *t, const Finder *f, const char *text, size_t n, bool first,
                    Gap *gap, Ids *to);

/* ---- tokenizer_normal.c ---------------------------------------------------------------------- */

char *normal_load(Tokenizer *t, const cJSON *n);
bool normal_changes(const Tokenizer *t, const char *text, size_t n);  /* false: certainly not */
/* Returns the normalised text, malloc'ed. Clears *first if its beginning does not correspond to the
 * beginning of text. */
char *normal_text(const Tokenizer *t, const char *text, size_t n, size_t *nout, bool *first);
void normal_free(Tokenizer *t);
bool char_is_punctuation(uint32_t c);
/* True if the pattern matches the character of len bytes. */
bool char_is(const Tokenizer *t, const pcre2_code *which, const char *text, int len);

/* ---- tokenizer_replace.c --------------------------------------------------------------------- */

/* Returns a simple Regex in PCRE2 syntax, malloc'ed; NULL: not simple. */
char *pattern_simple(const char *regex);
char *replace_load(Replace *r, const char *where, const cJSON *from);
/* Returns malloc'ed text; *begins: length of a match at the beginning of text. */
char *replace_text(const Replace *r, const Tokenizer *t, const char *text, size_t n, size_t *nout,
                   size_t *begins);
void replace_free(Replace *r);

/* True if text (or NULL) is one UTF-8 character. */
bool is_character(const char *text);
/* Sets *mark to the replacement of a Metaspace, one character, malloc'ed. */
char *metaspace_mark(const cJSON *p, const char *where, char **mark);
/* Growing NUL-terminated text; zero-initialise, free text. */
typedef struct {
    char *text;
    size_t n, cap;
} Out;
void out_put(Out *to, const char *text, size_t n);

/* base64: precompiled_charsmap. */
char *charsmap_load(Charsmap **map, const char *base64);
char *charsmap_text(const Charsmap *map, const char *text, size_t n, size_t *nout);
void charsmap_free(Charsmap *map);

/* ---- tokenizer_split.c ----------------------------------------------------------------------- */

/* True if ByteLevel is among the steps: the model's pieces are bytes. */
bool split_is_byte_level(const cJSON *p);
char *split_load(Tokenizer *t, const cJSON *p);
Gap split_encode;                /* text between two added tokens */
void split_free(Tokenizer *t);

/* ---- tokenizer_encode.c ---------------------------------------------------------------------- */

char *specials_load(Tokenizer *t, const cJSON *p);
/* Decides whether tokenizer_cut() can cut, and before which bytes it must not. Call last. */
void cuts_find(Tokenizer *t);

/* ---- tokenizer_decode.c ---------------------------------------------------------------------- */

char *decode_load(Tokenizer *t, const cJSON *d);
void decode_free(Tokenizer *t);

#endif
