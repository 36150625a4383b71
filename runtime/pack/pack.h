/* pack.h -- raw data to token files, for `gen pack` and for programs; in the order of the data: files
 * -> pack_read.c -> chunks -> pack_jobs.c (threads) -> pack_rows.c and format_*.c -> rows, in order
 * -> pack_write.c and pack_show.c (show.h); pack_files.c is the way through (pack_work.h).
 *
 * Files call those of their own layer or below: pack_tables, pack_sample; pack_encoded, pack_spans; pack_chat,
 * pack_turns; format_* and what only they use; pack_keys, pack_rows, pack_write; pack_rules, pack_files, pack_cache.
 *
 * Keeps: errors are malloc'ed messages with a place, NULL means fine; nothing here ends the program. */
#ifndef DIECAST_PACK_H
#define DIECAST_PACK_H

#include "runtime/data/recordfile.h"
#include "runtime/data/tokenizer.h"
#include "runtime/files/sha256.h"

#include <cjson/cJSON.h>
#include <stdio.h>

typedef struct {
    const char *file;            /* as messages name it, borrowed; NULL: nowhere */
    int line;                    /* 0: the whole of it */
} Place;

/* Owns its strings, so it outlives the buffers they were copied from. */
typedef struct {
    char *text;                  /* malloc'ed; NULL: nothing is wrong */
    char *file;                  /* malloc'ed copy of Place.file */
    int line;
    int code;                    /* exit code for a program: EXIT_DATA, EXIT_IO ... */
    int makes;                   /* the Kind that the data are of where another was wanted, else KIND_AUTO */
} PackError;

/* ---- formats.def: what raw data may be ---------------------------------------------------------- */

enum {
#define FORMAT(id, name, keys, reads, has, uses, beside, kind, own, code, elsewhere, doc) FORM_##id,
#include "runtime/pack/formats.def"
    NFORMATS
#undef FORMAT
};
typedef int Form;                /* FORM_...: a row of formats.def */

/* of a file: each object of JSON, each line, or all of it as one text */
typedef enum { READS_OBJECTS = 1, READS_LINES = 2, READS_TEXT = 4 } Reads;

/* One sample of a file: an object, or (json NULL) a line without its end. */
typedef struct {
    const cJSON *json;
    const char *text;            /* (n) not NUL-terminated */
    size_t n;
} Sample;

/* Of what a file has: see tokenfile.h. PAIRS: the parts chosen and rejected. STEPS, CANDIDATES: see
 * runtime/data/steps.h. Those from PAIRS on go with no other; their formats have RecordCode. */
typedef enum { KIND_AUTO, KIND_PACKED, KIND_ROWS, KIND_PAIRS, KIND_STEPS, KIND_CANDIDATES, NKINDS } Kind;
extern const char *const kind_name[NKINDS];
enum { PACK_PARTS = 2 };         /* most parts of a row */

/* What a program knows of every format, see formats.def. */
typedef struct {
    const char *name, *keys;
    unsigned reads;              /* READS_... together */
    const char *has, *uses, *beside;
    Kind kind;
    bool own;
    const char *elsewhere, *doc;
} Format;

extern const Format pack_format[NFORMATS];     /* by Form */
const Format *format_find(const char *name);   /* NULL: no row has this name */
/* Whether its samples are words, of which --min-words says how many. format NULL: any. */
static inline bool format_of_words(const Format *f) { return f && f->reads & READS_LINES; }

typedef struct Rules Rules;
typedef struct Encoded Encoded;
typedef struct RowOut RowOut;
typedef struct Chunk Chunk;
typedef struct Pack Pack;
typedef struct Kept Kept;
typedef struct PackOptions PackOptions;

/* Appends the ids of a sample and their target bits to e, says in row what they are; NULL or what is
 * wrong with the sample. A sample that is no use is none of its own: row->drop, and no ids. Called by
 * several threads. */
typedef char *FormatEncode(const Rules *rules, const Tokenizer *tok, const Sample *s, Encoded *e,
                           RowOut *row);
/* The same for a stretch of a text. */
typedef char *FormatStretch(const Rules *rules, const Tokenizer *tok, const Chunk *p, Encoded *e);

/* Hooks of a format whose records have more than one column of tokens. Any may be NULL. Each family of
 * formats keeps its own state in Rules.more, RowOut.more and Pack.more. */
typedef struct {
    const char *part[PACK_PARTS];      /* token columns, each with a column NAME.mask; NULL: tokens, mask */
    bool drops;                        /* counts the reasons of drops.def from STEPS on, too */

    /* Rules. begin() makes rules->more from o->more before any row is read. */
    char *(*begin)(Rules *rules, const PackOptions *o, Tokenizer *tok);
    void (*free_rules)(void *more);
    char *(*fingerprint)(const Rules *rules);  /* all of rules->more that changes records; malloc'ed */
    char *(*targets)(const Rules *rules);      /* for the summary: which tokens are targets; malloc'ed */

    /* Rows, in the order of the files. */
    void (*free_row)(void *more);
    char *(*name)(Pack *p, const RowOut *row, const char *file);   /* the record's name, malloc'ed */
    void (*show)(const RowOut *row);           /* for --show: prints what its tokens do not */
    void (*count)(Pack *p, const RowOut *row); /* every row, also one that is left out */
    /* A row that is kept; p->ndocs is its index. */
    void (*put)(Pack *p, const RowOut *row, const Kept *k, const int32_t *id, const uint8_t *target,
                const char *file);
    /* Instead of rows: the next ids of a text. For each record that they complete each(), then pack_put(). */
    void (*put_text)(Pack *p, const Rules *rules, const Tokenizer *tok, const Chunk *from, const int32_t *id,
                     const RowOut *row, bool first, bool last,
                     void (*each)(void *user, const int32_t *id, const uint8_t *target, size_t n), void *user);
    void (*hold)(Pack *p, double share);       /* HELD_RANDOM: chooses the records to validate on */
    void (*check)(Pack *p);                    /* after the last row; reports by pack_fail() */

    /* The file. plan() adds at most PACK_COLUMNS columns and returns their number; tensor() returns NULL for a
     * name that is not one of them. */
    int (*plan)(Pack *p, StWriter *w, ColumnPlan *column);
    char *(*meta)(const Pack *p, StWriter *w, const Rules *rules);
    const void *(*tensor)(const Pack *p, const char *name, size_t *bytes);

    /* The summary: summary() replaces the common one (malloc'ed), report() adds lines to it. */
    char *(*summary)(const Pack *p, const Rules *rules);
    void (*report)(const Pack *p, const Rules *rules, const Tokenizer *tok, FILE *to);
    void (*free)(Pack *p);
} RecordCode;
enum { PACK_COLUMNS = 8 };

/* The code of a format: a program has that of the formats its objective reads. */
typedef struct {
    Form form;
    FormatEncode *encode;              /* an object or a line; NULL: the format has none */
    FormatStretch *stretch;            /* a stretch of a text; NULL: the format has none */
    const RecordCode *records;         /* NULL: records are one column of tokens */
} FormatCode;

/* pairs_format, messages_format ..., in format_*.c */
#define FORMAT(id, name, keys, reads, has, uses, beside, kind, own, code, elsewhere, doc) \
    extern const FormatCode code##_format;
#include "runtime/pack/formats.def"
#undef FORMAT
FormatEncode format_messages, format_prompt;   /* answers are rows of these formats, too */

/* Every row's, for gen pack; the last is NULL. */
extern const FormatCode *const pack_all_formats[];

/* ---- pack_read.c: files to chunks ------------------------------------------------------------ */

typedef struct {
    size_t at, n;                /* in Chunk.text */
    int line;                    /* of its beginning */
} Span;

/* What one thread encodes at once: some rows, or a stretch of one text. */
struct Chunk {
    Place place;                 /* line 0 */
    int file;                    /* which of the input files, from 1 */
    char *text;
    size_t n;
    Reads reads;                 /* objects or lines, which span holds; else text is of a document */
    bool first, last;            /* of a document: its beginning, its end */
    bool held;                   /* a document to validate on: the last part of a file, by Rules */
    int64_t offset;              /* of text in a document's file */
    Span *span;
    int nspans;
    char *error;                 /* reading went wrong behind the text, at error_at */
    Place error_at;
};

typedef struct Reader Reader;

const char *reader_name(const char *path);     /* in messages */
/* path "-": standard input. Refuses what is neither text nor rows with the line that converts
 * it. */
char *reader_open(Reader **r, const char *path, const Tokenizer *tok, const Rules *rules);
Reads reader_reads(const Reader *r);
/* By its name a file of a folder is taken: rows of JSON or text. */
bool reader_takes(const char *path);
/* Whether refused.def has, by the name of the file, a command that converts it. */
bool reader_converts(const char *path);
/* Why a folder of files such as `file` is refused, with the command that converts all of them; NULL: refused.def has
 * none. malloc'ed */
char *reader_converts_folder(const char *folder, const char *file);
/* The same for a folder written by datasets' save_to_disk; splits: by that of a DatasetDict. */
char *reader_converts_saved(const char *folder, bool splits);
/* it was taken for a text, and its first line is an object */
bool reader_looks_like_rows(const Reader *r);
Chunk *reader_chunk(Reader *r);                /* NULL: no more */
int64_t reader_bytes(const Reader *r);         /* handed out so far */
int64_t reader_size(const Reader *r);          /* -1: unknown */
void reader_close(Reader *r);
char *reader_skip(Reader *r);                  /* reads all that is left, for the hashes */
void reader_note(const void *data, size_t n);  /* something else that was read */
/* Of what the readers that were opened have read, one file after the other, and of where files end
 * and how they were read. Both begin anew behind it. Returns whether one of the files had rows of JSON. */
bool reader_hashes(char bytes[SHA256_HEX], char files[SHA256_HEX]);
void chunk_free(Chunk *p);

/* ---- pack_chat.c: conversations -------------------------------------------------------------- */

/* See chats.def. */
typedef enum { TRIM_NOT, TRIM_CONTENT, TRIM_ALL } ChatTrim;
typedef enum { SYSTEM_TURN, SYSTEM_NOWHERE, SYSTEM_FIRST, SYSTEM_LAST } ChatSystem;

typedef struct {
    const char *open, *close;
    ChatTrim trim;
} ChatTurn;

typedef struct {
    const char *name, *begin, *end;
    ChatTurn system, user, answer;
    const char *lead, *preamble, *says;
    ChatSystem system_in;
    bool alternate, thinks;
    const char *tokens, *bos, *eos;
    bool by_tokens;
} Chat;

/* The format that is asked for by name, that the chat_template beside the tokenizer means, or
 * that the added tokens of one without a template mean. *why tells which, for the summary;
 * malloc'ed. */
char *chat_choose(const Chat **chat, char **why, const Tokenizer *tok,
                  const char *tokenizer_path, const char *name);
/* By the added tokens alone: where there is a template that is not known, and rows have a system text of
 * their own. false: no format has these, or several that write turns apart. */
bool chat_by_tokens(const Chat **chat, char **why, const Tokenizer *tok);
/* The i-th row of chats.def, NULL behind the last; *templates: how many are known to mean it. */
const Chat *chat_row(int i, int *templates);
char *chat_names(void);          /* "chatml, qwen2, ...", malloc'ed */
/* pack_template.c: the format as a chat_template of transformers, malloc'ed; NULL: of one that thinks there is none. */
char *chat_template(const Chat *chat);
/* Ids of a conversation, messages with roles, the user's last, as far as where an answer begins: in a format that
 * thinks, one without its reasoning. Appends to e. */
char *chat_prompt(const Chat *chat, const Tokenizer *tok, const cJSON *messages, Encoded *e);
/* Whether id ends an answer of that format. */
bool chat_ends(const Chat *chat, const Tokenizer *tok, int32_t id);

/* ---- what is asked of all rows --------------------------------------------------------------- */

typedef enum { LOSS_DEFAULT, LOSS_LAST, LOSS_ASSISTANT, LOSS_ALL } Loss;

extern const char *const loss_name[];

/* Which windows are to validate on: none; those of the last part of each file; any. */
typedef enum { HELD_NONE, HELD_TAIL, HELD_RANDOM, NHELD } Held;
extern const char *const held_name[NHELD];

enum {
    PACK_LENGTH = 1024,          /* of rows, by default */
    PACK_MIN_WORDS = 5,          /* of samples of words */
    PACK_WORDS = 10000,          /* of a vocabulary of the data */
    PACK_VERSION = 2             /* another when the same data make other records */
};
#define PACK_SYSTEM "Work out the answer to the question step by step, then state the result."

struct Rules {
    const Format *format;        /* NULL: objects by their keys, other files are texts */
    Loss loss;                   /* LOSS_DEFAULT: all of a text, else the last answer */
    int64_t max_length;          /* of rows, which are cut behind it unless their format does so */
    int64_t min_words;           /* of samples of words: shorter ones are left out */
    const Chat *chat;            /* NULL: no_chat says why */
    char *no_chat;
    const char *system;          /* of pairs with a question: what the model is told before it */
    int64_t stride;              /* from one window to the next */
    Held held;
    double share;                /* of a text's characters, or of all windows: to validate on */
    const FormatCode *const *formats;    /* that the program has; the last is NULL; NULL: none */
    void *more;                  /* of the RecordCode among them that has begin(), which made it */
    bool own_turns;              /* a row has all turns of a conversation itself, its system message too */
    bool objects;                /* files hold rows of JSON, whatever their names are */
    char *const *ignore;         /* (nignore) keys that rows are read without */
    int nignore;
    int64_t skip_bad;            /* most malformed rows that may be left out */
};

/* ---- pack_rows.c: a chunk to ids and targets ------------------------------------------------- */

/* Why a sample is left out, by the rows of drops.def. */
typedef enum {
    DROP_NONE,
#define DROP(id, name, why) DROP_##id,
#include "runtime/pack/drops.def"
#undef DROP
    NDROPS
} Drop;
extern const char *const drop_why[NDROPS];     /* "without a target" */

struct RowOut {
    size_t begin, n;             /* in Encoded.id */
    int line;
    Form form;
    Drop drop;                   /* then n is 0 */
    bool cut;                    /* by its format, to max_length */
    bool chat;                   /* rendered as a conversation */
    bool not_prefix;             /* the prompt's tokens are not those the whole begins with */
    bool blank;                  /* the prompt is a string that ends in a space or a tab */
    bool turns;                  /* its system or history became turns of a conversation */
    unsigned also;               /* bit i: format i fits, too, and this one does not read its keys */
    uint64_t ignored, unread;    /* bit i: it had key i of Rules.ignore; a key that would have been read */
    bool more_answers;           /* earlier answers are no targets */
    bool question;               /* behind Rules.system */
    bool shared;                 /* pairs: the prompt is what both answers begin with */
    bool stops;                  /* its error ends the pack even with --skip-bad: another format, or an option */
    size_t second;               /* pairs: where the second part begins, in the row */
    size_t prompt;               /* pairs: ids of each part that are no answer */
    const RecordCode *records;   /* of its format's code; NULL: it has none */
    void *more;                  /* what the format says of it for these */
    int64_t bytes;
};

/* A target that the data leave out of the loss; when its row is whole it is none. */
enum { TARGET_HIDDEN = 2 };

/* A key that rows have and their format does not read. */
typedef struct {
    char *name;                  /* malloc'ed */
    bool content;                /* it ends the pack; else metadata */
    char *meant;                 /* a key that the format reads and the row lacks, spelt almost so; or NULL */
    int64_t rows;                /* of a Pack: how many have it, and where the first is */
    Place first;
} Key;

typedef struct {
    Key *key;                    /* (n) */
    int n;
} KeyList;

typedef struct {
    int row, key;                /* in Encoded.row, in Encoded.keys */
} KeySeen;

/* A malformed row. */
typedef struct {
    int before;                  /* rows of the same Encoded before it */
    int file;                    /* of a Pack: which of its files, from 1 */
    Place at;                    /* line is never 0 */
    char *why;                   /* malloc'ed */
} BadRow;

/* The rows of a chunk, one after the other; of a document's stretch one row. */
struct Encoded {
    int32_t *id;
    uint8_t *target;             /* of rows; first tokens count, though nothing predicts them */
    bool hides;                  /* while a row is made: some of its targets are TARGET_HIDDEN */
    size_t n, cap;
    RowOut *row;
    int nrows, caprows;
    KeyList keys;
    KeySeen *seen;               /* (nseen) in the order of rows */
    int nseen, capseen;
    BadRow *bad;                 /* (nbad) in order; encoding stops at more than Rules.skip_bad of them */
    int nbad;
    char *error;                 /* of the row behind the last */
    Place error_at;
};

void rows_encode(const Rules *rules, const Tokenizer *tok, const Chunk *p, Encoded *to);

/* pack_sample.c: values of a row */
/* A list of messages, which may be a row by itself. */
bool is_messages(const cJSON *json);
/* The member of an object; NULL where it is absent or null. */
const cJSON *sample_get(const cJSON *object, const char *key);
/* Whether a value is more than null, "", [] or {}, which count as an absent key. */
bool has_content(const cJSON *value);
/* The string under a key of an object; NULL and *error: it is none. */
const char *sample_string(const Sample *s, const char *key, char **error);
/* format_prompt.c: what follows a prompt; masked: spans of it (pack_spans.c) or NULL, counted from the
 * string that it ends, `before` bytes earlier */
typedef struct {
    const char *text;
    const cJSON *masked;
    size_t before;
} Answered;
/* The answer under a key of a sample, with its spans. */
Answered sample_answer(const Sample *s, const char *key, char **error);
/* A prompt and its answer, ended; one of Alpaca's rows as a prompt, malloc'ed. */
char *encode_answered(const Rules *rules, const Tokenizer *tok, const char *prompt, Answered answer,
                      Encoded *e, RowOut *row);
char *alpaca_prompt(const Sample *s, char **error);
/* A prompt and its answer as turns of the user and the assistant, after the row's system and history. */
char *encode_turns(const Rules *rules, const Tokenizer *tok, const cJSON *row_json, const char *prompt,
                   Answered answer, Encoded *e, RowOut *row);
/* Alpaca's instruction and input as LLaMA-Factory joins them, malloc'ed. */
char *alpaca_question(const Sample *s, char **error);

/* pack_encoded.c: ids appended to e with the given target bit */
void encoded_put(Encoded *e, const int32_t *id, size_t n, bool target);
/* Of a text; NULL or what is wrong with it. specials: what the tokenizer puts around a text, but not
 * before one that begins with it. */
char *encode_text(const Tokenizer *tok, const char *text, size_t n, bool specials, bool target,
                  Encoded *e);
/* The same for a text that ends a document: with the end-of-text token, as its string where it
 * has one (so that tokenisation is that of the joined string), unless it is there already. */
char *encode_ended(const Tokenizer *tok, const char *text, size_t n, bool specials, Encoded *e);
void encoded_free(Encoded *e);
/* The row that is being made ends, another of the same sample begins: it is returned, as `row` of
 * FormatEncode then is nothing any more. */
RowOut *encoded_next_row(Encoded *e);
/* A new row behind those that e has. */
RowOut *encoded_row(Encoded *e, Form form, const RecordCode *records, int line);
void row_free(RowOut *row);      /* what its format says of it */
void keys_free(KeyList *keys);
/* The token before each window, -1: none. */
int32_t windows_first(const Tokenizer *tok);

/* pack_spans.c: parts of answers that are no targets */
/* Of the string `key` of an object: KEY_masked, or NULL. */
char *spans_beside(const cJSON *json, const char *key, const cJSON **masked);
/* What a message says with weight or train: *hidden, all of it. */
char *spans_message(const cJSON *message, bool *hidden);
/* A string of which bytes [cut, cut + kept) stand in a text at `from`. */
typedef struct {
    const char *text, *string;
    size_t from, cut, kept;
} Spanned;
/* Ids from `at` on are those of s->text; masked: a list of [begin, end) in characters of the string, NULL:
 * nothing is done. What a span's text is made of is hidden: the ids behind as many as there are of the text
 * before it, up to as many as there are with it. */
char *spans_hide(const Tokenizer *tok, const cJSON *masked, const Spanned *s, bool specials, size_t at,
                 Encoded *e, RowOut *row);
/* *count: the ids of the first n bytes of a text whose own stand from `at` on. */
char *spans_count(const Tokenizer *tok, const char *text, size_t n, bool specials, size_t at, size_t *count,
                  Encoded *e, RowOut *row);
/* The row from `at` on is whole. */
void spans_done(Encoded *e, size_t at);

/* pack_chat.c */
/* {"role", "content"}; a list of one or two of them, the second may be NULL: cJSON_Delete() frees */
cJSON *chat_turn(const char *role, const char *text);
cJSON *chat_answer(Answered answer);           /* that of the assistant */
cJSON *chat_list(cJSON *first, cJSON *second);
/* messages, then answer (NULL: none) as one conversation; given: messages that are no answer. */
char *chat_encode(const Rules *rules, const Tokenizer *tok, const cJSON *messages,
                  const cJSON *answer, int given, Encoded *e, RowOut *row);

/* pack_turns.c: "system", a string, and "history", a list of [question, answer], beside a prompt */
bool turns_any(const cJSON *json);             /* a row has one of them */
/* They and the messages `after` as one list, a system message first; cJSON_Delete() frees, `after` is to live as
 * long. *all NULL: the row has neither. Fails on two system messages that differ, and without a chat format. */
char *turns_join(const Rules *rules, const cJSON *json, const cJSON *after, cJSON **all, RowOut *row);

/* pack_keys.c: keys of a row that its format does not read (keys.def) */
/* Takes the keys of Rules.ignore out of a row and its messages. */
void keys_ignore(const Rules *rules, cJSON *json, RowOut *row);
/* Of a row that is kept: notes its keys in e. row: its number in e. */
void keys_note(const Format *f, const cJSON *json, Encoded *e, int row);

/* ---- pack_jobs.c: work on all cores, results in order ---------------------------------------- */

typedef struct Jobs Jobs;

/* work(user, thread, job) runs on `threads` threads, numbered from 0; with one on the caller's. NULL:
 * so many cannot be started. */
Jobs *jobs_start(int threads, void (*work)(void *user, int thread, void *job), void *user);
bool jobs_full(const Jobs *j);
bool jobs_none(const Jobs *j);                 /* all that were put were taken */
void jobs_put(Jobs *j, void *job);             /* not when full */
/* The oldest job once it is done; NULL: there is none, or it is not done after `seconds`. */
void *jobs_take(Jobs *j, double seconds);
void jobs_end(Jobs *j);                        /* jobs that were not taken are done, not freed */

/* ---- pack_write.c: the token file ------------------------------------------------------------ */

/* How many texts there are of each number of tokens. */
typedef struct {
    int64_t *count;              /* (cap) */
    size_t cap;
    int64_t n, sum;
} Lengths;

typedef struct {
    FILE *tokens, *mask, *docs;  /* I32, U8, I64, without names */
    int64_t n;                   /* tokens */
} PartOut;

struct Pack {
    Kind kind;
    const RecordCode *records;   /* of the kind, or of the first row; NULL: none so far */
    void *more;                  /* what these keep of all rows; NULL: nothing yet */
    int64_t max_length;          /* of rows; 0: not given */
    const char *out;             /* NULL: rows are shown, not written */
    PartOut part[PACK_PARTS];
    int64_t ntokens, ndocs, nbytes, ntargets;    /* of all parts */
    bool own;                    /* the objective finds targets itself */
    int64_t dropped[NDROPS], cut, not_prefix, more_answers, nchats, nquestions;
    int64_t padded;              /* rows of arrays that end with padding */
    int64_t nform[NFORMATS];     /* rows of these formats */
    int64_t nalso[NFORMATS];     /* rows that these formats fit, too; the first was taken for taken[i] */
    Form taken[NFORMATS];
    int64_t nturns, nblank;
    Place first_blank, first_merge;      /* of nblank, of not_prefix, which has no row of nblank */
    KeyList keys;
    uint64_t ignored, unread;    /* as of RowOut, of all rows */
    BadRow *bad;                 /* (nbad) malformed rows that were left out */
    int nbad;
    uint8_t *held;               /* (ndocs) 1: to validate on; NULL: none is */
    int64_t nheld, capheld;
    Kind makes;                  /* of PackError, for the error that comes */
    PackError error;             /* the first: nothing is written behind it */
};

/* pack_tables.c */
/* Records the first error; later ones are dropped. Takes text, which is malloc'ed, and copies at.file. */
void pack_fail(Pack *p, int code, Place at, char *text);
/* Opens the files without names; refuses to write over what is no token file. */
void pack_begin(Pack *p);
/* Sets the kind that the first row wants, if it is open; NULL, or why this one does not go with
 * the rest. */
char *pack_kind(Pack *p, const RowOut *row);
/* Leaves out the malformed rows of e that come before its row `row`, starting with e->bad[*next]; advances *next.
 * Fails at the first one beyond rules->skip_bad. file: Chunk.file. */
void pack_skip(Pack *p, const Rules *rules, Encoded *e, int row, int *next, int file);
/* File (from 1) and line of each malformed row that was left out, as in "2:7 2:9"; "" if there is none. malloc'ed */
char *pack_skipped(const Pack *p);
/* A row of a file, for the summary; pack_row() and pack_stretch() do so themselves. */
void pack_count(Pack *p, const RowOut *row, const char *file);
/* Keys of row `row` of e, from *next of e->seen on, which moves behind them. */
void pack_keys(Pack *p, const Encoded *e, int row, const char *file, int *next);
/* NULL, or why the keys of the rows end the pack and the command that packs without them: `command`, with
 * --ignore-keys behind it. *at: the first such row. */
char *keys_error(const Pack *p, const char *command, char *const *ignore, int nignore, Place *at);
/* Lines of the summary. */
void keys_report(const Pack *p, const char *format_flag, FILE *to);
/* What of a row is written. */
struct Kept {
    int parts;
    size_t begin[PACK_PARTS], n[PACK_PARTS], targets[PACK_PARTS];
    bool cut;
    bool behind;                 /* all targets of a part are behind the cut */
    Drop drop;                   /* it is left out */
};

/* One row, each part cut to max_length; one without targets is left out. */
Kept pack_row(Pack *p, const int32_t *id, const uint8_t *target, const RowOut *row, const char *file);
/* A stretch of a document; first: it begins one. */
void pack_stretch(Pack *p, const int32_t *id, size_t n, const RowOut *row, bool first, const char *file);
/* What a file says of its tokenizer: id, how many ids, and which are special; -1: none. */
typedef struct {
    const char *id;
    int64_t size, eos, mask, pad;
} TokenIds;

/* fingerprint: of all that decides what the records are. */
void pack_write(Pack *p, const TokenIds *ids, const char *sha256, const char *fingerprint,
                const Rules *rules);
/* A row that is whole, in a file whose first part is 0. */
void pack_put(Pack *p, const int32_t *id, const uint8_t *target, size_t n, bool held);
/* Closes and frees. */
void pack_end(Pack *p);

/* pack_lengths.c */
char *lengths_said(const Lengths *l, const char *name);        /* "NAME 3 to 9 tokens, ..."; malloc'ed */
void lengths_add(Lengths *l, size_t length);
void lengths_free(Lengths *l);
/* The least length that at least `share` (0 to 1) of all do not exceed. */
int64_t lengths_up_to(const Lengths *l, double share);

/* ---- pack_vocabulary.c: a vocabulary of the data ----------------------------------------------- */

enum { VOCABULARY_FILES = 2 };

typedef struct {
    const char *kind;            /* "words" or "char"; NULL: none is made */
    int64_t distinct, specials;  /* words or characters of the data; tokens besides */
    char *text[VOCABULARY_FILES];
} Vocabulary;

typedef struct Counter Counter;

bool vocabulary_made(const char *tokenizer);   /* by that name it is made of the data */
/* Of one that is: the names of the files, the first is tokenizer.json. */
const char *const *vocabulary_files(const char *tokenizer);
/* Of one that is: counts what its tokenizer, on one thread, is to encode. */
char *counter_begin(Counter **c, const char *tokenizer);
const Tokenizer *counter_tokenizer(const Counter *c);
void counter_free(Counter *c);
char *vocabulary_make(Vocabulary *v, const Counter *c, int64_t most, Tokenizer **tok);
/* The files beside `out`. */
char *vocabulary_write(const Vocabulary *v, const char *out);
void vocabulary_free(Vocabulary *v);

/* ---- what is asked for --------------------------------------------------------------------------- */

struct PackOptions {
    const char *who;             /* begins lines on standard error: "gen pack" */
    const char *tokenizer;       /* its file, "bytes", or "words" or "char": a vocabulary of the data */
    int64_t words;               /* most of that vocabulary; 0: PACK_WORDS */
    int64_t min_words;           /* 0: PACK_MIN_WORDS */
    const char *format;          /* a name of formats.def; NULL: by keys and names of files */
    const char *chat;            /* a name of chats.def; NULL: as the tokenizer's folder says */
    const char *system;          /* as of Rules; NULL: PACK_SYSTEM */
    Loss loss;
    int64_t stride;              /* windows: 0: half of one */
    Held held;                   /* windows */
    double share;                /* 0: a tenth */
    const FormatCode *const *formats;    /* as of Rules */
    const void *more;            /* what one of them wants to know; NULL: nothing */
    bool trains;                 /* the records are to train on */
    /* An option that was given and is for rows from this kind on, and what these are; NULL: none was. */
    const char *asked;
    Kind asked_kind;
    const char *asked_row;       /* "a solution in steps" */
    Kind kind;
    int64_t max_length;          /* as of Pack */
    int64_t vocab, mask;         /* of the model: how many ids, which hides others; 0: as the tokenizer's */
    const char *out;             /* NULL: rows are only shown */
    int64_t most;                /* of rows, or of packed tokens at least so many, but for windows; 0: all */
    int64_t show;                /* so many rows, on standard output */
    int threads;                 /* 0: as many as there are cores */
    char *const *ignore;         /* (nignore) keys that rows are read without */
    int nignore;
    int64_t skip_bad;            /* as of Rules */
    bool keys_there;             /* each of these has to be in a row */
    bool arrays;                 /* what is written becomes arrays of ids: those of pack_prepare() */
    const char *recipe;          /* the recipe, with fields, of the program that packs; NULL: gen pack does */
    const char *command;         /* the whole command without --ignore-keys, for messages */
    const char *format_flag;     /* how it calls --format */
    int nfiles;
    char **file;                 /* "-": standard input */
};

enum { PACK_THREADS_MAX = 1024, PACK_IGNORE_MAX = 64 };

/* ---- pack_prepared.c: arrays of ids, in a folder ------------------------------------------------ */

typedef struct Prepared Prepared;

bool prepared_is(const char *path);      /* it has such arrays, or says that it has */
/* tokenizer: the file of one, or another word; where the folder has none. */
char *prepared_open(Prepared **f, const char *folder, const char *tokenizer);
const TokenIds *prepared_ids(const Prepared *f);       /* id "none": not known */
int64_t prepared_length(const Prepared *f);            /* of all rows */
/* All rows, checked, for the hashes and into p; NULL: nowhere. */
char *prepared_read(Prepared *f, Pack *p);
void prepared_close(Prepared *f);
/* What is wrong with the ids of a tokenizer for such a folder; NULL: nothing. */
char *prepared_check(const PackOptions *o, const Tokenizer *tok);
/* Windows in a record file, some of them to validate on, as such a folder, which is there. bos: what
 * begins a text. */
char *prepared_write(const char *records, const PackOptions *o, int64_t bos, const char *folder);
void prepared_remove(const char *folder);              /* what that wrote */

/* ---- pack_files.c, pack_cache.c: all of it ------------------------------------------------------- */

/* A row as it is read. */
typedef struct {
    Place at;
    const int32_t *id;           /* (n) cut to max_length; none of a row that is left out: row->drop */
    const uint8_t *target;       /* (n) */
    size_t n;
    const RowOut *row;
    const char *name;            /* of a solution in steps: as a record's; else NULL */
} PackedRow;

/* Nothing is written: each(user, row) of each row in order, on the calling thread, and each(user, NULL) where
 * no more could be read for now, and at the end. */
PackError pack_each(const PackOptions *o, void (*each)(void *user, const PackedRow *row), void *user);
/* Makes one token file of files and folders, and tells what it read on `summary`. */
PackError pack_files(const PackOptions *o, FILE *summary);
/* The same in a folder, which is made, under a name that stands for all that decides what is in it;
 * *path, malloc'ed, is where. *found: it was there already, and only the raw data were read. What
 * o->out says does not count. */
PackError pack_cached(const PackOptions *o, const char *folder, FILE *summary, char **path,
                      bool *found);
/* Texts in windows, of o->max_length tokens, as arrays of ids with their metadata and tokenizer.json in
 * the folder `to`, which is made; one that has such files is refused. o->held: HELD_NONE: the tail. */
PackError pack_prepare(const PackOptions *o, const char *to, FILE *summary);
/* What pack_cached is for: standard input, a folder, a file that is no safetensors file. */
bool pack_is_raw(const char *path);
/* Rows of JSON, by the name of the file. */
bool pack_is_rows(const char *path);

#endif
