/* pack.h -- packing of raw data into token files, for `gen pack` and for programs.
 *
 * Data flow: files -> pack_read.c -> chunks -> pack_jobs.c (threads) -> pack_rows.c and format_*.c
 * -> rows, in order -> pack_write.c and pack_show.c (show.h); pack_files.c drives it (pack_work.h).
 * Layers, lowest first; a file calls only its own layer and those below: pack_tables; pack_encoded;
 * pack_turns; pack_template, pack_render*; pack_chat; format_*, which also put rows by pack_write;
 * pack_keys, pack_rows, pack_write, pack_prepared; pack_rules, pack_files; pack_cache, pack_each,
 * pack_arrays.
 * Keeps: errors are malloc'ed messages with a place, NULL means success; nothing ends the
 *        program. */
#ifndef DIECAST_PACK_H
#define DIECAST_PACK_H

#include "runtime/data/recordfile.h"
#include "runtime/data/tokenizer.h"
#include "runtime/files/sha256.h"

#include <cjson/cJSON.h>
#include <stdio.h>

typedef struct {
    const char *file;            /* name for messages, borrowed; NULL: none */
    int line;                    /* 0: the whole file */
} Location;

/* Owns its strings, so it outlives the buffers they were copied from. */
typedef struct {
    char *text;                  /* malloc'ed; NULL: no error */
    char *file;                  /* malloc'ed copy of Location.file */
    int line;
    int code;                    /* exit code for a program: EXIT_DATA, EXIT_IO ... */
    int makes;                   /* the Kind of the data if another was wanted, else KIND_AUTO */
} PackError;

/* ---- formats.def: formats of raw data -------------------------------------------------------- */

enum {
#define FORMAT(id, name, keys, reads, has, uses, extra, kind, finds_targets, code, elsewhere, doc) \
    FORM_##id,
#include "runtime/pack/formats.def"
    NFORMATS
#undef FORMAT
};
typedef int Form;                /* FORM_...: a row of formats.def */

/* Samples of a file: each JSON object, each line, or the whole file as one text. */
typedef enum { READS_OBJECTS = 1, READS_LINES = 2, READS_TEXT = 4 } Reads;

/* One sample of a file: an object, or (json NULL) a line without its line end. */
typedef struct {
    const cJSON *json;
    const char *text;            /* (n) not NUL-terminated */
    size_t n;
} Sample;

/* Kind of a token file: see tokenfile.h. PAIRS: the parts chosen and rejected. STEPS, CANDIDATES:
 * see runtime/data/steps.h. Kinds from PAIRS on cannot be mixed; their formats have RecordCode. */
typedef enum {
    KIND_AUTO, KIND_PACKED, KIND_ROWS, KIND_PAIRS, KIND_STEPS, KIND_CANDIDATES, NKINDS
} Kind;
extern const char *const kind_name[NKINDS];
enum { PACK_PARTS = 2 };         /* maximum number of parts of a row */

/* A row of formats.def; every program has all of them. */
typedef struct {
    const char *name, *keys;
    unsigned reads;              /* READS_... together */
    const char *has, *uses, *extra;
    Kind kind;
    bool finds_targets;
    const char *elsewhere, *doc;
} Format;

extern const Format pack_format[NFORMATS];     /* by Form */
const Format *format_find(const char *name);   /* NULL: no row has this name */
/* True if its samples are subject to --min-words. f may be NULL. */
static inline bool format_of_words(const Format *f) { return f && f->reads & READS_LINES; }

typedef struct Rules Rules;
typedef struct Encoded Encoded;
typedef struct RowOut RowOut;
typedef struct Chunk Chunk;
typedef struct Pack Pack;
typedef struct CutRow CutRow;
typedef struct PackOptions PackOptions;

/* Appends the ids of a sample and their target bits to e and fills row; NULL or what is wrong with
 * the sample. A useless sample is no error: it sets row->drop and appends no ids. Called by several
 * threads. */
typedef char *FormatEncode(const Rules *rules, const Tokenizer *tok, const Sample *s, Encoded *e,
                           RowOut *row);
/* The same for a stretch of a text. */
typedef char *FormatStretch(const Rules *rules, const Tokenizer *tok, const Chunk *p, Encoded *e);

/* Hooks of formats whose records are more than one column of tokens. Any may be NULL. Each family
 * of formats keeps its state in Rules.more, RowOut.more and Pack.more. */
typedef struct {
    const char *part[PACK_PARTS];  /* token columns, each with NAME.mask; NULL: tokens and mask */
    bool drops;                    /* also counts the reasons of drops.def from STEPS on */

    /* Rules. begin() makes rules->more from o->more before any row is read. */
    char *(*begin)(Rules *rules, const PackOptions *o, Tokenizer *tok);
    void (*free_rules)(void *more);
    /* values of rules->more that change records; malloc'ed */
    char *(*fingerprint)(const Rules *rules);
    char *(*targets)(const Rules *rules);      /* for the summary: the target tokens; malloc'ed */

    /* Rows, in the order of the files. */
    void (*free_row)(void *more);
    char *(*name)(Pack *p, const RowOut *row); /* of the record, malloc'ed */
    void (*show)(const RowOut *row);           /* --show: prints what is not in its tokens */
    void (*count)(Pack *p, const RowOut *row); /* every row, also those left out */
    /* A row that is kept; its index is p->ndocs. */
    void (*put)(Pack *p, const RowOut *row, const CutRow *k, const int32_t *id,
                const uint8_t *target,
                const char *file);
    /* Instead of rows: the next ids of a text. Calls each(), then pack_put(), per completed
     * record. */
    void (*put_text)(Pack *p, const Rules *rules, const Tokenizer *tok, const Chunk *from,
                     const int32_t *id, const RowOut *row, bool first, bool last,
                     void (*each)(void *user, const int32_t *id, const uint8_t *target, size_t n),
                     void *user);
    void (*hold)(Pack *p, double share);       /* HELD_OUT_RANDOM: chooses the validation records */
    void (*check)(Pack *p);                    /* after the last row; fails by pack_fail() */

    /* The file. plan() adds at most PACK_COLUMNS columns and returns their number; tensor() returns
     * NULL for other names. */
    int (*plan)(Pack *p, StWriter *w, ColumnPlan *column);
    char *(*meta)(const Pack *p, StWriter *w, const Rules *rules);
    const void *(*tensor)(const Pack *p, const char *name, size_t *bytes);

    /* The summary: summary() replaces the common one (malloc'ed), report() adds lines. */
    char *(*summary)(const Pack *p, const Rules *rules);
    void (*report)(const Pack *p, const Rules *rules, const Tokenizer *tok, FILE *to);
    void (*free)(Pack *p);
} RecordCode;
enum { PACK_COLUMNS = 8 };

/* Opens a folder of arrays of ids; tokenizer: a tokenizer file, used if the folder has none; or
 * another word. */
typedef struct Prepared Prepared;
typedef char *PreparedOpen(Prepared **f, const char *folder, const char *tokenizer);
PreparedOpen prepared_open;            /* of pack_prepared.c */

/* The code of a format; a program has only the formats that its objective reads. */
typedef struct {
    Form form;
    FormatEncode *encode;              /* an object or a line; NULL: not supported */
    FormatStretch *stretch;            /* a stretch of a text; NULL: not supported */
    const RecordCode *records;         /* NULL: records are one column of tokens */
    PreparedOpen *open_arrays;         /* arrays of ids as such records; NULL: not supported */
    const struct WordsCode *words;     /* formats of words (runtime/data/words.h); else NULL */
} FormatCode;

/* pairs_format, messages_format ..., in format_*.c */
#define FORMAT(id, name, keys, reads, has, uses, extra, kind, finds_targets, code, elsewhere, doc) \
    extern const FormatCode code##_format;
#include "runtime/pack/formats.def"
#undef FORMAT
FormatEncode format_messages, format_prompt;   /* also used by the format answers */

/* The code of all formats, for gen pack; NULL-terminated. */
extern const FormatCode *const pack_all_formats[];

/* ---- pack_read.c: files to chunks ------------------------------------------------------------ */

typedef struct {
    size_t at, n;                /* offset and length in Chunk.text */
    int line;                    /* line of its beginning */
} Span;

/* The unit of work of a thread: some rows, or a stretch of one text. */
struct Chunk {
    Location place;              /* line 0 */
    int file;                    /* number of the input file, from 1 */
    char *text;
    size_t n;
    Reads reads;                 /* objects or lines, in span; else text is part of a document */
    bool first, last;            /* text begins, ends a document */
    bool held_out;               /* for validation: the last part of a file, by Rules */
    int64_t offset;              /* of text in the file of a document */
    Span *span;
    int nspans;
    char *error;                 /* reading failed after the text, at error_at */
    Location error_at;
};

typedef struct Reader Reader;

const char *reader_name(const char *path);     /* for messages */
/* path "-": standard input. Refuses files that are neither text nor rows, with the command that
 * converts them. */
char *reader_open(Reader **r, const char *path, const Tokenizer *tok, const Rules *rules);
Reads reader_reads(const Reader *r);
/* True if a file of a folder is read, judged by its name: JSON rows or text. */
bool reader_takes(const char *path);
/* True if refused.def has a command that converts a file of that name. */
bool reader_converts(const char *path);
/* Returns why a folder of files such as `file` is refused, with the command that converts them;
 * malloc'ed; NULL: refused.def has none. */
char *reader_converts_folder(const char *folder, const char *file);
/* The same for a folder written by save_to_disk() of datasets; splits: by that of a DatasetDict. */
char *reader_converts_saved(const char *folder, bool splits);
/* True if it is read as text, but its first line is a JSON object. */
bool reader_looks_like_rows(const Reader *r);
Chunk *reader_chunk(Reader *r);                /* NULL: end of the file */
int64_t reader_bytes(const Reader *r);         /* returned in chunks so far */
int64_t reader_size(const Reader *r);          /* -1: unknown */
void reader_close(Reader *r);
char *reader_skip(Reader *r);                  /* reads the rest, for the hashes */
void reader_note(const void *data, size_t n);  /* adds other data to the hashes */
/* Sets `bytes` to the hash of all bytes read, in the order of files, and `files` to the hash of
 * where files ended and how each was read; then resets both. Returns true if any file had JSON
 * rows. */
bool reader_hashes(char bytes[SHA256_HEX], char files[SHA256_HEX]);
void chunk_free(Chunk *p);

/* ---- pack_template.c, pack_chat.c: conversations --------------------------------------------- */

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

/* Chooses the format given by name, else that of the chat_template next to the tokenizer, else,
 * without a template, by the added tokens. *why: the reason, for the summary; malloc'ed. */
char *chat_choose(const Chat **chat, char **why, const Tokenizer *tok,
                  const char *tokenizer_path, const char *name);
/* Chooses by added tokens only: for an unknown template, if rows have their own system text. false:
 * no format has these tokens, or several that render turns differently. */
bool chat_by_tokens(const Chat **chat, char **why, const Tokenizer *tok);
/* Returns row i of chats.def, NULL after the last; *templates: number of its known templates. */
const Chat *chat_row(int i, int *templates);
/* True if text begins with one of the format's tokens, so that it is encoded separately. */
bool chat_begins_token(const Chat *chat, const char *text);
/* The format as a chat_template of transformers, malloc'ed; NULL: the format thinks. */
char *chat_template(const Chat *chat);
/* Appends the ids of messages, the last one the user's, up to where the answer begins: in a format
 * that thinks, an answer without reasoning. */
char *chat_prompt(const Chat *chat, const Tokenizer *tok, const cJSON *messages, Encoded *e);
/* True if id ends an answer of that format. */
bool chat_ends(const Chat *chat, const Tokenizer *tok, int32_t id);

/* ---- pack_render.c: conversations by the folder's own template ------------------------------- */

typedef struct ChatTemplate ChatTemplate;
/* The value of --chat that means the folder's template, also where chats.def has its format. */
#define CHAT_TEMPLATE "template"

/* Finds the text of the chat_template next to a tokenizer as transformers does; *text NULL: none.
 * *from: its file. */
char *template_read(const char *tokenizer_path, const char **text, const char **from);
/* Parses that template; *t NULL: there is none, or an error. */
char *render_open(ChatTemplate **t, const char *tokenizer_path);
/* Sets variables of the template, each NAME=VALUE with JSON or a text as the value;
 * NULL-terminated, may be NULL. */
char *render_set(ChatTemplate *t, const char *const *variable);
/* The template with its special tokens and variables as JSON, for token files and checkpoints;
 * malloc'ed. render_recall() opens it again; from: where it was, for messages. */
char *render_record(const ChatTemplate *t);
char *render_recall(ChatTemplate **t, const char *record, const char *from);
void render_free(ChatTemplate *t);
const char *render_id(const ChatTemplate *t);  /* hash of all but the messages */
const char *render_text(const ChatTemplate *t);
/* The name of a special token that the template writes and the other one has differently, or
 * NULL. */
const char *render_other_token(const ChatTemplate *t, const ChatTemplate *other);
char *render_about(const ChatTemplate *t);     /* for the summary; malloc'ed */
/* Appends the ids of messages, the last one a user's or a tool's, up to where the answer begins:
 * transformers' apply_chat_template() with add_generation_prompt. tools: NULL: none. */
char *render_prompt(const ChatTemplate *t, const Tokenizer *tok, const cJSON *messages,
                    const cJSON *tools, Encoded *e);
/* Finds the tokens that end an answer of the template; then render_ends() is true for them, and for
 * those that end any text. */
void render_find_ends(ChatTemplate *t, const Tokenizer *tok);
bool render_ends(const ChatTemplate *t, const Tokenizer *tok, int32_t id);

/* ---- rules for all rows ---------------------------------------------------------------------- */

/* LOSS_TURNS: a conversation gives a row for each user's turn, up to its last answer; its answers
 * after that turn are targets. Where the chat_template renders one of them differently when others
 * follow, each of these answers ends a row of its own. */
typedef enum { LOSS_DEFAULT, LOSS_LAST, LOSS_ASSISTANT, LOSS_TURNS, LOSS_ALL, NLOSSES } Loss;

extern const char *const loss_name[NLOSSES];

/* Windows for validation: none; those of the last part of each file; random ones. */
typedef enum { HELD_OUT_NONE, HELD_OUT_TAIL, HELD_OUT_RANDOM, NHELD_OUT } HeldOut;
extern const char *const held_out_name[NHELD_OUT];

enum {
    PACK_LENGTH = 1024,          /* default length of rows */
    PACK_MIN_WORDS = 5,          /* default of --min-words */
    PACK_WORDS = 10000,          /* default size of a word vocabulary of the data */
    PACK_VERSION = 2,            /* changes when the same data give other records */
    PACK_NAME = 32               /* hexadecimal digits of a folder in the cache */
};
/* End of the name of a cache folder with records of JSON rows: the version of the rules by which
 * only some rows give other records, and so another fingerprint. -2: answers begin as in TRL. */
#define PACK_ROWS "-2"
#define PACK_SYSTEM "Work out the answer to the question step by step, then state the result."

struct Rules {
    const Format *format;        /* NULL: objects by their keys, other files are texts */
    Loss loss;                   /* LOSS_DEFAULT: all of a text, else the last answer */
    int64_t max_length;          /* of rows; longer ones are cut, some by their format */
    int64_t min_words;           /* shorter samples of words are left out */
    const Chat *chat;            /* NULL: no_chat says why */
    char *no_chat;
    ChatTemplate *render;        /* for rows that `chat` cannot render; NULL: no_render says why */
    char *no_render;
    const char *system;          /* of pairs with a question: the system message */
    int64_t stride;              /* from one window to the next */
    HeldOut held_out;
    double share;                /* for validation: of a text's characters, or of all windows */
    const FormatCode *const *formats;    /* formats of the program, NULL-terminated; NULL: none */
    void *more;                  /* made by begin() of one of their RecordCode */
    bool has_turns;              /* rows have all turns themselves, also the system message */
    bool objects;                /* files of any name hold JSON rows */
    char *const *ignore;         /* (nignore) keys to remove from rows */
    int nignore;
    int64_t skip_bad;            /* maximum number of malformed rows to leave out */
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
    int file;                    /* number of the input file, from 1 */
    int line;
    Form form;
    Drop drop;                   /* then n is 0 */
    bool cut;                    /* its format has cut it to max_length */
    bool chat;                   /* rendered as a conversation */
    bool rendered;               /* by Rules.render */
    const cJSON *tools;          /* borrowed while the row is encoded; NULL: none */
    bool not_prefix;             /* the whole does not begin with the prompt's tokens */
    bool joined;                 /* a token across a border is a target, or one is excluded: earlier
                                  * releases began answers elsewhere */
    bool blank;                  /* the prompt is a string ending in a space or tab */
    bool empty;                  /* an answer is empty: only its end is learned */
    bool turns;                  /* its system or history became turns of a conversation */
    unsigned also;               /* bit i: format i fits too, and this one ignores its keys */
    /* bit i: the row had key i of Rules.ignore (ignored), and its format would otherwise have read
     * that key (unread) */
    uint64_t ignored, unread;
    bool more_answers;           /* earlier answers are not targets */
    bool question;               /* uses Rules.system */
    bool shared;                 /* pairs: the prompt is the common prefix of the answers */
    bool stops;                  /* its error ends the pack even with --skip-bad */
    size_t second;               /* pairs: where the second part begins, in the row */
    size_t prompt;               /* pairs: ids of each part before the answer */
    const RecordCode *records;   /* of its format; NULL: none */
    void *more;                  /* state of its format for these */
    int64_t bytes;
};

/* A target that the data exclude from the loss; becomes 0 when its row is complete. */
enum { TARGET_HIDDEN = 2 };

/* A key that rows have but their format does not read. */
typedef struct {
    char *name;                  /* malloc'ed */
    bool content;                /* it ends the pack; else metadata */
    char *meant;                 /* a similar key that the format reads, but the row lacks */
    int64_t rows;                /* of a Pack: number of rows with it, and the first one */
    Location first;
} Key;

typedef struct {
    Key *key;                    /* (n) */
    int n;
} KeyList;

typedef struct {
    int row, key;                /* indices in Encoded.row, Encoded.keys */
} KeySeen;

/* A malformed row. */
typedef struct {
    int before;                  /* number of rows of the Encoded before it */
    int file;                    /* of a Pack: number of its file, from 1 */
    Location at;                 /* line is never 0 */
    char *why;                   /* malloc'ed */
} BadRow;

/* The rows of a chunk; a stretch of a document is one row. */
struct Encoded {
    int32_t *id;
    uint8_t *target;             /* of rows; includes first tokens, which nothing predicts */
    bool hides;                  /* while a row is built: it has targets TARGET_HIDDEN */
    size_t n, cap;
    RowOut *row;
    int nrows, caprows;
    KeyList keys;
    KeySeen *seen;               /* (nseen) in the order of rows */
    int nseen, capseen;
    BadRow *bad;                 /* (nbad) in order; encoding stops after Rules.skip_bad of them */
    int nbad;
    char *error;                 /* of the row after the last */
    Location error_at;
};

void rows_encode(const Rules *rules, const Tokenizer *tok, const Chunk *p, Encoded *to);

/* pack_tables.c: values of a row */
bool key_describes(const char *key);           /* METADATA of keys.def */
/* A list of messages, which may be a row by itself. */
bool is_messages(const cJSON *json);
/* The member of an object; NULL where it is absent or null. */
const cJSON *sample_get(const cJSON *object, const char *key);
/* True if a value is not null, "", [] or {}, which count as an absent key. */
bool has_content(const cJSON *value);
/* The string under a key of an object; NULL and *error: not a string. */
const char *sample_string(const Sample *s, const char *key, char **error);
/* format_prompt.c: the text after a prompt; masked: spans of it (spans_hide()) or NULL, counted
 * from `before` bytes before it, the start of its string */
typedef struct {
    const char *text;
    const cJSON *masked;
    size_t before;
} Answered;
/* The answer under a key of a sample, with its spans. */
Answered sample_answer(const Sample *s, const char *key, char **error);
/* encode_answered(): a prompt and its answer with the end of text. alpaca_prompt(): the prompt of
 * an Alpaca row, malloc'ed. */
char *encode_answered(const Rules *rules, const Tokenizer *tok, const char *prompt, Answered answer,
                      Encoded *e, RowOut *row);
char *alpaca_prompt(const Sample *s, char **error);
/* A prompt and its answer as user and assistant turns, after the row's system and history. */
char *encode_turns(const Rules *rules, const Tokenizer *tok, const cJSON *row_json,
                   const char *prompt, Answered answer, Encoded *e, RowOut *row);
/* Alpaca's instruction and input as LLaMA-Factory joins them, malloc'ed. */
char *alpaca_question(const Sample *s, char **error);

/* pack_encoded.c: append ids to e with the given target bit */
void encoded_put(Encoded *e, const int32_t *id, size_t n, bool target);
/* Encodes a text; returns NULL or the error. specials: adds the tokenizer's special tokens, but not
 * at the beginning if the text starts with them. */
char *encode_text(const Tokenizer *tok, const char *text, size_t n, bool specials, bool target,
                  Encoded *e);
/* The same for the end of a document: appends the end-of-text token unless it is there, as a string
 * if it has one (so that the joined string is tokenised). */
char *encode_ended(const Tokenizer *tok, const char *text, size_t n, bool specials, Encoded *e);
void encoded_free(Encoded *e);
/* Ends the row being built and begins another of the same sample; returns it: `row` of FormatEncode
 * is then invalid. */
RowOut *encoded_next_row(Encoded *e);
/* Begins a new row after those of e. */
RowOut *encoded_row(Encoded *e, Form form, const RecordCode *records, int file, int line);
void row_free(RowOut *row);      /* frees row->more */
void keys_free(KeyList *keys);
/* The token before each window; -1: none. */
int32_t windows_first(const Tokenizer *tok);

/* pack_encoded.c: parts of answers that are not targets */
/* Sets *masked to KEY_masked of an object, for its string `key`; or NULL. */
char *spans_of_key(const cJSON *json, const char *key, const cJSON **masked);
/* Reads weight or train of a message; *hidden: all of it is excluded. */
char *spans_message(const cJSON *message, bool *hidden);
/* A string whose bytes [cut, cut + kept) are in a text at `from`. */
typedef struct {
    const char *text, *string;
    size_t from, cut, kept;
} Spanned;
/* Excludes spans from the targets. Ids from `at` on are those of s->text; masked: a list of
 * [begin, end) in characters of the string, NULL: none. A token with a byte of a span is
 * excluded. */
char *spans_hide(const Tokenizer *tok, const cJSON *masked, const Spanned *s, bool specials,
                 size_t at, Encoded *e, RowOut *row);
/* Reads span [begin, end) of a string, to offsets in bytes. */
char *spans_read(const cJSON *span, const char *string, size_t *begin, size_t *end);
/* Sets *count to the number of ids of a text, which begin at `at`, that end within its first n
 * bytes; *inside: the next one has bytes on both sides of n. */
char *spans_count(const Tokenizer *tok, const char *text, size_t n, bool specials, size_t at,
                  size_t *count, bool *inside, Encoded *e);
/* Completes the row from `at` on: TARGET_HIDDEN becomes 0. */
void spans_done(Encoded *e, size_t at);

/* pack_turns.c */
/* Joins the text of a list of parts, malloc'ed. Parts of other types, such as images, end the
 * pack. */
char *parts_text(const cJSON *parts, const char *key, RowOut *row, char **error);
/* Targets of a message: none, those after its opening, all. */
typedef enum { TARGET_GIVEN, TARGET_ANSWER, TARGET_WHOLE } ChatTarget;
/* Sets the targets of message i, by its role. */
char *chat_target(const Rules *rules, const char *role, int i, int given, ChatTarget *to,
                  RowOut *row);

/* pack_chat.c */
/* {"role", "content"}; a list of one or two of them, the second may be NULL: cJSON_Delete()
 * frees */
cJSON *chat_turn(const char *role, const char *text);
cJSON *chat_answer(Answered answer);           /* of the assistant */
cJSON *chat_list(cJSON *first, cJSON *second);
/* Encodes messages, then answer (NULL: none), as one conversation; given: number of messages before
 * the answer. */
char *chat_encode(const Rules *rules, const Tokenizer *tok, const cJSON *messages,
                  const cJSON *answer, int given, Encoded *e, RowOut *row);

/* pack_render.c: the same by Rules.render. render_needed(): a conversation has tools, their calls
 * or results, or a developer. */
bool render_needed(const cJSON *messages, const cJSON *answer, const RowOut *row);
char *render_encode(const Rules *rules, const Tokenizer *tok, const cJSON *messages,
                    const cJSON *answer, int given, Encoded *e, RowOut *row);

/* format_prompt.c: the keys "system", a string, and "history", a list of [question, answer] */
bool turns_any(const cJSON *json);             /* a row has one of them */
/* Joins them and the messages `after` to one list, the system message first; free *all with
 * cJSON_Delete() before `after`. *all NULL: the row has neither. Fails on two different system
 * messages, and without a chat format. */
char *turns_join(const Rules *rules, const cJSON *json, const cJSON *after, cJSON **all,
                 RowOut *row);

/* pack_keys.c: keys of a row that its format does not read (keys.def) */
/* Removes the keys of Rules.ignore from a row and its messages. */
void keys_ignore(const Rules *rules, cJSON *json, RowOut *row);
/* Returns the first key of an object that has content, is not in `uses` and is no metadata; uses
 * NULL: keys that messages have. Borrowed; NULL: none. */
const char *key_unread(const cJSON *object, const char *uses);
/* Notes the keys of a kept row in e. row: its index in e. */
void keys_note(const Format *f, const cJSON *json, Encoded *e, int row);

/* ---- pack_jobs.c: work on all cores, results in order ---------------------------------------- */

typedef struct Jobs Jobs;

/* Runs work(user, thread, job) on `threads` threads, numbered from 0; with 1 on the caller's. NULL:
 * they cannot be started. */
Jobs *jobs_start(int threads, void (*work)(void *user, int thread, void *job), void *user);
bool jobs_full(const Jobs *j);
bool jobs_none(const Jobs *j);                 /* every job put was taken */
void jobs_put(Jobs *j, void *job);             /* must not be full */
/* Waits for the oldest job and returns it; NULL: none, or not done after `seconds`. */
void *jobs_take(Jobs *j, double seconds);
void jobs_end(Jobs *j);                        /* finishes jobs not taken, without freeing them */

/* ---- pack_write.c: the token file ------------------------------------------------------------ */

/* Histogram of lengths in tokens. */
typedef struct {
    int64_t *count;              /* (cap) */
    size_t cap;
    int64_t n, sum;
} Lengths;

typedef struct {
    FILE *tokens, *mask, *docs;  /* I32, U8, I64: temporary files */
    int64_t n;                   /* tokens */
} PartOut;

struct Pack {
    Kind kind;
    const RecordCode *records;   /* of the kind, or of the first row; NULL: none yet */
    void *more;                  /* their state for all rows; NULL: none yet */
    int64_t max_length;          /* of rows; 0: not given */
    const char *out;             /* NULL: rows are only shown */
    PartOut part[PACK_PARTS];
    int64_t ntokens, ndocs, nbytes, ntargets;    /* of all parts */
    bool finds_targets;          /* the objective chooses its targets */
    int64_t dropped[NDROPS], cut, not_prefix, njoined, more_answers, nchats, nrendered, nquestions;
    int64_t padded;              /* rows of arrays that end with padding */
    int64_t nform[NFORMATS];     /* rows by format */
    int64_t nalso[NFORMATS];     /* rows that also fit format i; the first was read as taken[i] */
    Form taken[NFORMATS];
    int64_t nturns, nblank, nempty;
    Location first_blank, first_merge;   /* of nblank; of not_prefix, which excludes nblank */
    Location first_empty;        /* of nempty */
    KeyList keys;
    uint64_t ignored, unread;    /* as in RowOut, of all rows */
    BadRow *bad;                 /* (nbad) malformed rows left out */
    int nbad;
    uint8_t *held_out;           /* (ndocs) 1: for validation; NULL: none */
    int64_t nheld_out, capheld_out;
    Kind makes;                  /* PackError.makes of the next error */
    PackError error;             /* the first one; nothing is written after it */
};

/* pack_tables.c */
/* Records the first error; later ones are dropped. Takes text, which is malloc'ed, and copies
 * at.file. */
void pack_fail(Pack *p, int code, Location at, char *text);
/* Opens the temporary files; refuses to overwrite a file that is not a token file. */
void pack_begin(Pack *p);
/* Sets the kind by the first row, if it is open; NULL, or why this row cannot be mixed with the
 * others. */
char *pack_kind(Pack *p, const RowOut *row);
/* Leaves out the malformed rows of e before its row `row`, from e->bad[*next] on; advances *next.
 * Fails at the first one beyond rules->skip_bad. file: Chunk.file. */
void pack_skip(Pack *p, const Rules *rules, Encoded *e, int row, int *next, int file);
/* Returns file (from 1) and line of each malformed row left out, as in "2:7 2:9"; malloc'ed. */
char *pack_skipped(const Pack *p);
/* Counts a row for the summary; pack_row() and pack_stretch() call it. */
void pack_count(Pack *p, const RowOut *row, const char *file);
/* Counts the keys of row `row` of e, from e->seen[*next] on; advances *next. */
void pack_keys(Pack *p, const Encoded *e, int row, const char *file, int *next);
/* NULL, or why keys of rows end the pack, with the command that packs without them: `command` plus
 * --ignore-keys. *at: the first such row. */
char *keys_error(const Pack *p, const char *command, char *const *ignore, int nignore,
                 Location *at);
/* Prints their lines of the summary. */
void keys_report(const Pack *p, const char *format_flag, FILE *to);
/* A row after cutting: the ids of each part that are written. */
struct CutRow {
    int parts;
    size_t begin[PACK_PARTS], n[PACK_PARTS], targets[PACK_PARTS];
    bool cut;
    bool targets_cut;            /* all targets of a part are after the cut */
    Drop drop;                   /* the row is left out */
};

/* Writes one row, each part cut to max_length; leaves out a row without targets. */
CutRow pack_row(Pack *p, const int32_t *id, const uint8_t *target, const RowOut *row,
                const char *file);
/* Writes a stretch of a document; first: it begins one. */
void pack_stretch(Pack *p, const int32_t *id, size_t n, const RowOut *row, bool first,
                  const char *file);
/* A tokenizer as recorded in a file: id, number of ids, special ids; -1: none. The id does not
 * depend on which tokens are special: files next to tokenizer.json name them. */
typedef struct {
    const char *id;
    int64_t size, eos, mask, pad, bos;
} TokenIds;

TokenIds token_ids(const Tokenizer *t);        /* id belongs to t */
/* True if a file was packed with the same special tokens; older files do not record bos. */
bool token_ids_same(const TokenIds *ids, const StFile *file);

/* fingerprint: of everything that determines the records. */
void pack_write(Pack *p, const TokenIds *ids, const char *sha256, const char *fingerprint,
                const Rules *rules);
/* Writes a complete row to part 0; held: for validation. */
void pack_put(Pack *p, const int32_t *id, const uint8_t *target, size_t n, bool held);
/* Closes and frees. */
void pack_end(Pack *p);

/* pack_lengths.c */
char *lengths_text(const Lengths *l, const char *name);  /* "NAME 3 to 9 tokens, ...", malloc'ed */
void lengths_add(Lengths *l, size_t length);
void lengths_free(Lengths *l);
/* The least length that at least `share` (0 to 1) of all do not exceed. */
int64_t lengths_up_to(const Lengths *l, double share);
/* Returns the number of lengths above n. */
int64_t lengths_above(const Lengths *l, int64_t n);

/* ---- pack_vocabulary.c: a vocabulary made from the data -------------------------------------- */

enum { VOCABULARY_FILES = 2 };

typedef struct {
    const char *kind;            /* "words" or "char"; NULL: not made from the data */
    int64_t distinct, specials;  /* words or characters of the data; special tokens */
    char *text[VOCABULARY_FILES];
} Vocabulary;

typedef struct Counter Counter;

bool vocabulary_made(const char *tokenizer);   /* true for names of such vocabularies */
/* Names of their files; the first is tokenizer.json. */
const char *const *vocabulary_files(const char *tokenizer);
/* Counts the words or characters that its tokenizer encodes, on one thread. formats: as in
 * Rules. */
char *counter_begin(Counter **c, const char *tokenizer, const FormatCode *const *formats);
const Tokenizer *counter_tokenizer(const Counter *c);
void counter_free(Counter *c);
char *vocabulary_make(Vocabulary *v, const Counter *c, int64_t most, Tokenizer **tok);
/* Writes the files next to `out`. */
char *vocabulary_write(const Vocabulary *v, const char *out);
void vocabulary_free(Vocabulary *v);

/* ---- options --------------------------------------------------------------------------------- */

struct PackOptions {
    const char *who;             /* begins lines on standard error: "gen pack" */
    const char *tokenizer;       /* its file, "bytes", or "words" or "char": made from the data */
    int64_t words;               /* maximum size of that vocabulary; 0: PACK_WORDS */
    int64_t min_words;           /* 0: PACK_MIN_WORDS */
    const char *format;          /* a name of formats.def; NULL: by keys and names of files */
    const char *chat;            /* a name of chats.def, CHAT_TEMPLATE; NULL: by the folder */
    const char *const *variable; /* for render_set(); if any, chat is NULL or CHAT_TEMPLATE */
    const char *system;          /* as in Rules; NULL: PACK_SYSTEM */
    Loss loss;
    int64_t stride;              /* windows: 0: half a window */
    HeldOut held_out;            /* windows */
    double share;                /* 0: a tenth */
    const FormatCode *const *formats;    /* as in Rules */
    const void *more;            /* options of one of them; NULL: none */
    bool trains;                 /* the records are for training */
    /* An option that was given but applies only to rows from this kind on, and their name; NULL:
     * none. */
    const char *asked;
    Kind asked_kind;
    const char *asked_row;       /* "a solution in steps" */
    Kind kind;
    int64_t max_length;          /* as in Pack */
    int64_t vocab, mask;         /* of the model: number of ids, mask; 0: the tokenizer's */
    const char *out;             /* NULL: rows are only shown */
    int64_t most;                /* stop after this many rows or packed tokens; 0: read all */
    int64_t show;                /* number of rows to print */
    int threads;                 /* 0: one per core */
    char *const *ignore;         /* (nignore) keys to remove from rows */
    int nignore;
    int64_t skip_bad;            /* as in Rules */
    bool keys_there;             /* each of `ignore` must occur in a row */
    /* NULL, or why its output cannot be made with this tokenizer; malloc'ed. NULL: any will do. */
    char *(*suits)(const PackOptions *o, const Tokenizer *tok);
    const char *recipe;          /* recipe and fields of the program that packs; NULL: gen pack */
    const char *command;         /* the command without --ignore-keys, for messages */
    const char *format_flag;     /* its name of --format */
    int nfiles;
    char **file;                 /* "-": standard input */
};

enum { PACK_THREADS_MAX = 1024, PACK_IGNORE_MAX = 64 };

/* ---- pack_prepared.c: arrays of ids in a folder ---------------------------------------------- */

/* Such a folder, opened. */
struct Prepared {
    TokenIds ids;                /* id "none": unknown */
    int64_t length;              /* of all rows */
    /* Checks all rows and adds them to the hashes, and to p unless it is NULL. */
    char *(*read)(Prepared *f, Pack *p);
    void (*close)(Prepared *f);
};

bool prepared_is(const char *path);      /* the folder has such arrays, or their metadata */

/* ---- pack_each.c, pack_cache.c, pack_arrays.c: the whole pack -------------------------------- */

/* A row for the callback of pack_each(). */
typedef struct {
    Location at;
    const int32_t *id;           /* (n) cut to max_length; n 0 if left out: row->drop */
    const uint8_t *target;       /* (n) */
    size_t n;
    const RowOut *row;
    const char *name;            /* of a step-labelled solution: the record's name; else NULL */
} PackedRow;

/* Writes nothing: calls each(user, row) for each row in order, on the calling thread, and
 * each(user, NULL) when no more input is available for now, and at the end. */
PackError pack_each(const PackOptions *o, void (*each)(void *user, const PackedRow *row),
                    void *user);
/* Packs files and folders into one token file in a cache folder, created if missing, under a name
 * that is a hash of everything that determines the content, and prints a summary; *path: the file,
 * malloc'ed. *found: it existed, and the raw data were only read. Ignores o->out. */
PackError pack_cached(const PackOptions *o, const char *folder, FILE *summary, char **path,
                      bool *found);
/* Writes texts in windows of o->max_length tokens as arrays of ids, with metadata and
 * tokenizer.json, to the new folder `to`; refuses a folder that has such files. o->held_out
 * HELD_OUT_NONE: the tail. */
PackError pack_prepare(const PackOptions *o, const char *to, FILE *summary);
/* True for raw data: standard input, a folder, a file that is not safetensors. */
bool pack_is_raw(const char *path);
/* True for JSON rows, by the name of the file. */
bool pack_is_rows(const char *path);

#endif
