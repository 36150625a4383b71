/* pack_read.c -- splits files and standard input into chunks for the threads.
 *
 * In:    .jsonl, .ndjson (one row per line), .json (the same, or an array of rows), any other file
 *        as one text; standard input: rows if it begins with { or [. A row is an object, or a list
 *        of messages.
 * Out:   Chunks; a text is cut where tokenisation does not change.
 * Keeps: memory for one block and the longest row. Files that are neither text nor rows are
 *        refused. */
#define _GNU_SOURCE
#include "runtime/pack/pack.h"

#include "runtime/base.h"
#include "runtime/files/json.h"
#include "runtime/files/sha256.h"
#include "runtime/files/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { ROW_MAX = 16 << 20, BLOCK = 4 << 20, ROWS_CHUNK = 1 << 18, TEXT_CHUNK = 1 << 20,
       HEAD = 64 };              /* bytes that say what a file is */

struct Reader {
    const char *path;            /* name for messages */
    int fd;
    bool regular;
    struct stat st;              /* when opened */
    char *buf;                   /* NULL before the first fill */
    size_t start, end, cap;
    bool eof, array, begun, done;
    Reads reads;
    int line;                    /* of the next row */
    int64_t given;               /* bytes returned in chunks, and the mark */
    int mark;                    /* bytes of a byte order mark, not part of the text */
    double tail;                 /* share of a text split off for validation; 0: none */
    int64_t split;               /* where it begins, 0: not known yet */
    const Tokenizer *tok;
};

static Sha256 sha;               /* of all bytes read, in order */
static Sha256 cuts;              /* of the ends of files, and how they were read */
static bool hashes;              /* both are initialised */
static bool any_rows;            /* a file was read as JSON rows */

static const struct {
    const char *name, *endings, *magic, *line, *folder;
} refused[] = {
#define REFUSED(...) {__VA_ARGS__},
#include "runtime/pack/refused.def"
#undef REFUSED
};

/* ---- kinds of files -------------------------------------------------------------------------- */

static bool ends_with(const char *path, const char *ending, size_t n)
{
    size_t len = strlen(path);
    return len >= n && !strncasecmp(path + len - n, ending, n);
}

static bool ends_with_any(const char *path, const char *endings)
{
    for (const char *e = endings, *space; (space = strchr(e, ' ')); e = space + 1)
        if (ends_with(path, e, (size_t)(space - e)))
            return true;
    return false;
}

/* Returns line with FILE replaced by the path, malloc'ed; keeps FILE if a shell would misread the
 * path, or if it ends in a dot. */
static char *convert_line(const char *line, const char *path)
{
    static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                               "._/-+";
    char *all = format("%s", "");
    const bool good = strspn(path, safe) == strlen(path) && *path && *path != '-' &&
                      !ends_with(path, ".", 1);
    const char *name = good ? path : "FILE";
    size_t len = strlen(name);
    while (len > 1 && name[len - 1] == '/')
        len--;
    while (*line) {
        const char *at = strstr(line, "FILE");
        int n = at ? (int)(at - line) : (int)strlen(line);
        char *longer = format("%s%.*s%.*s", all, n, line, at ? (int)len : 0, name);
        free(all);
        all = longer;
        line += n + (at ? 4 : 0);
    }
    return all;
}

/* Returns the encoding of text in UTF-32, or of JSON rows in UTF-16 without byte order mark, or
 * NULL. */
static const char *wide_text(const char *head, size_t n)
{
    if (n >= 4 && (!memcmp(head, "\xff\xfe\0\0", 4) || !memcmp(head, "\0\0\xfe\xff", 4)))
        return "UTF-32";
    if (n < 4 || !head[0] == !head[1])
        return NULL;
    const bool little = head[0];
    const char first = head[!little];
    if ((first != '{' && first != '[') || !head[2] != !little)
        return NULL;
    return little ? "UTF-16LE" : "UTF-16BE";
}

/* Returns the message for a kind of data, with the command that converts it; malloc'ed. */
static char *refusal(const char *what, const char *line, const char *path)
{
    char *named = convert_line(line, path);
    char *error = format("%s, but gen pack reads text and JSON rows%s%s", what,
                         *named ? "; this converts it: " : "", named);
    free(named);
    return error;
}

/* Returns the row of refused.def for the name of a file; -1: none. */
static int refused_named(const char *path)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (ends_with_any(path, refused[i].endings))
            return (int)i;
    return -1;
}

bool reader_converts(const char *path)
{
    const int i = refused_named(path);
    return i >= 0 && *refused[i].line;
}

char *reader_converts_folder(const char *folder, const char *file)
{
    const int i = refused_named(file);
    if (!*refused[i].folder)
        return NULL;
    char *what = format("a folder of %s data", refused[i].name),
         *error = refusal(what, refused[i].folder, folder);
    free(what);
    return error;
}

char *reader_converts_saved(const char *folder, bool splits)
{
    return refusal("a folder of datasets' save_to_disk", splits
        ? "python3 -c \"import datasets; [d.to_json('FILE.' + k + '.jsonl') for k, d in "
          "datasets.load_from_disk('FILE').items()]\""
        : "python3 -c \"import datasets; datasets.load_from_disk('FILE').to_json('FILE.jsonl')\"",
        folder);
}

static char *refuse(const Reader *r)
{
    const char *head = r->buf + r->start;
    size_t n = r->end - r->start;
    const char *wide = wide_text(head, n);
    for (size_t i = 0; !wide && i < sizeof refused / sizeof *refused; i++) {
        size_t magic = strlen(refused[i].magic);
        if (!ends_with_any(r->path, refused[i].endings) &&
            (!magic || n < magic || memcmp(head, refused[i].magic, magic)))
            continue;
        char *what = format("%s data", refused[i].name),
             *error = refusal(what, refused[i].line, r->path);
        free(what);
        return error;
    }
    if (!wide)
        return NULL;
    char *line = format("iconv -f %s -t UTF-8 FILE | gen pack ... -", wide),
         *what = format("%s data", wide);
    char *error = refusal(what, line, r->path);
    free(line), free(what);
    return error;
}

static char *no_text(const Reader *r, int64_t at)
{
    return format("byte %lld is 0: binary data, but gen pack reads text and JSON rows (for token "
                  "ids of another program: decode them with its tokenizer)",
                  (long long)(r->given + at));
}

/* ---- the buffer ------------------------------------------------------------------------------ */

/* Reads more bytes into the buffer. */
static char *fill(Reader *r)
{
    if (r->start)
        memmove(r->buf, r->buf + r->start, r->end - r->start);
    r->end -= r->start;
    r->start = 0;
    if (r->cap - r->end < BLOCK) {
        r->cap = 2 * r->cap + 2 * BLOCK;
        char *grown = realloc(r->buf, r->cap);
        if (!grown)
            return format("out of memory: a chunk of %zu bytes that cannot be cut", r->end);
        r->buf = grown;
    }
    ssize_t got;
    do
        got = read(r->fd, r->buf + r->end, BLOCK);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return format("%s", strerror(errno));
    r->end += (size_t)got;
    r->eof = !got;
    return NULL;
}

/* Consumes the bytes before buf[to]; each byte passes here once, so it is hashed here. */
static void give(Reader *r, size_t to)
{
    sha256_add(&sha, r->buf + r->start, to - r->start);
    r->given += (int64_t)(to - r->start);
    r->start = to;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static int first_character(const Reader *r)
{
    for (size_t i = r->start; i < r->end; i++)
        if (!is_blank(r->buf[i]))
            return (unsigned char)r->buf[i];
    return -1;
}

/* True if the first line is a list of messages: then each line is a row. */
static bool begins_with_list(Reader *r)
{
    const char *lf;
    char *error = NULL;
    while (!(lf = memchr(r->buf + r->start, '\n', r->end - r->start)) && !r->eof && !error &&
           r->end - r->start < ROW_MAX)
        error = fill(r);         /* an error occurs again when rows are read */
    free(error), error = NULL;
    const char *head = r->buf + r->start;
    cJSON *list = json_parse(head, lf ? (size_t)(lf - head) : r->end - r->start, &error);
    const bool found = is_messages(list);
    cJSON_Delete(list);
    free(error);
    return found;
}

static const char json_endings[] = ".jsonl .ndjson .jsonlines .json ";

bool reader_takes(const char *path)
{
    return ends_with_any(path, json_endings) || ends_with_any(path, ".txt ");
}

bool pack_is_rows(const char *path)
{
    return ends_with_any(path, json_endings);
}

const char *reader_name(const char *path)
{
    return strcmp(path, "-") ? path : "standard input";
}

static void hashes_begin(void)
{
    if (!hashes) {
        sha256_begin(&sha);
        sha256_begin(&cuts);
    }
    hashes = true;
}

void reader_note(const void *data, size_t n)
{
    hashes_begin();
    sha256_add(&sha, data, n);
}

char *reader_open(Reader **to, const char *path, const Tokenizer *tok, const Rules *rules)
{
    const Format *kind = rules->format;
    bool standard = !strcmp(path, "-");
    Reader *r = calloc(1, sizeof *r);
    r->path = reader_name(path);
    r->tok = tok;
    r->line = 1;
    hashes_begin();
    r->fd = standard ? dup(0) : TEMP_FAILURE_RETRY(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    char *error = NULL;
    if (r->fd < 0 || fstat(r->fd, &r->st))
        error = format("%s", strerror(errno));
    else if (S_ISDIR(r->st.st_mode))
        error = format("a folder");
    else if (!(r->regular = S_ISREG(r->st.st_mode)) && !standard)
        error = format("not a regular file: pipe it, as in ... | gen pack ... -");
    while (!error && !r->eof && r->end < HEAD)
        error = fill(r);
    if (!error)
        error = refuse(r);
    r->mark = error ? 0 : (int)utf8_mark(r->buf, r->end);
    r->start += (size_t)r->mark;
    r->given = r->mark;
    if (!error && r->start == r->end)
        error = format("empty");
    int c = error ? -1 : first_character(r);
    bool json = standard ? c == '{' || c == '['
                         : rules->objects || ends_with_any(path, json_endings);
    unsigned may = kind ? kind->reads : READS_OBJECTS | READS_TEXT;
    if (json && may & READS_OBJECTS)
        r->reads = READS_OBJECTS;
    else if (may & (READS_LINES | READS_TEXT))
        r->reads = may & READS_LINES ? READS_LINES : READS_TEXT;
    else if (!error)
        error = format("the format %s needs JSON objects, in a file that ends in .jsonl, .ndjson "
                       "or .json", kind->name);
    if (error) {
        reader_close(r);
        return error;
    }
    r->array = r->reads == READS_OBJECTS && c == '[' && !begins_with_list(r);
    if (r->reads == READS_TEXT && rules->held_out == HELD_OUT_TAIL) {
        r->tail = rules->share;
        error = r->regular ? NULL : format("its last part is not known before its end: write it to "
                                           "a file, or use --split none or random");
    }
    if (error) {
        reader_close(r);
        return error;
    }
    *to = r;
    return NULL;
}

Reads reader_reads(const Reader *r)
{
    return r->reads;
}

bool reader_looks_like_rows(const Reader *r)
{
    if (r->reads != READS_TEXT || first_character(r) != '{')
        return false;
    const char *head = r->buf + r->start, *lf = memchr(head, '\n', r->end - r->start);
    char *error = lf ? json_check(head, (size_t)(lf - head)) : NULL;
    bool good = lf && !error;
    free(error);
    return good;
}

int64_t reader_bytes(const Reader *r)
{
    return r->given;
}

int64_t reader_size(const Reader *r)
{
    return r->regular ? r->st.st_size : -1;
}

void reader_close(Reader *r)
{
    int64_t cut[2] = {r->given - r->mark, (int64_t)r->reads};
    if (r->done)
        sha256_add(&cuts, cut, sizeof cut);
    any_rows |= r->done && r->reads == READS_OBJECTS;
    if (r->fd >= 0)
        close(r->fd);
    free(r->buf);
    free(r);
}

bool reader_hashes(char bytes[SHA256_HEX], char files[SHA256_HEX])
{
    const bool rows = any_rows;
    hashes_begin();
    sha256_text(&sha, bytes);
    sha256_text(&cuts, files);
    hashes = any_rows = false;
    return rows;
}

char *reader_skip(Reader *r)
{
    char *error = NULL;
    while (!error && !r->eof) {
        give(r, r->end);
        error = fill(r);
    }
    give(r, r->end);
    r->done = true;
    return error;
}

/* ---- rows ------------------------------------------------------------------------------------ */

typedef enum { ROW_FOUND, ROW_MORE, ROW_END, ROW_BAD } RowFind;

/* Finds the line at buf[at]: its span, and *next after it. ROW_MORE: it does not end in the
 * buffer. */
static RowFind find_line(Reader *r, size_t at, Span *s, size_t *next)
{
    const char *from = r->buf + at;
    size_t n = r->end - at;
    const char *lf = n ? memchr(from, '\n', n) : NULL;
    if (!lf && !r->eof)
        return ROW_MORE;
    if (!n)
        return ROW_END;
    if (lf)
        n = (size_t)(lf - from);
    *next = at + n + !!lf;
    while (n && is_blank(from[n - 1]))
        n--;
    *s = (Span){at, n, r->line};
    r->line += r->line < INT_MAX;
    return ROW_FOUND;
}

/* Finds the next element of an array of rows at buf[at], before its "[" or ",". Only its end is
 * sought: its content is checked when it is parsed. */
static RowFind find_element(Reader *r, size_t at, Span *s, size_t *next, const char **error)
{
    int line = r->line, depth = 0;
    size_t i = at, begin;
    const char want = r->begun ? ',' : '[';
    bool quoted = false, ended = false;
    for (; i < r->end && is_blank(r->buf[i]); i++)
        line += r->buf[i] == '\n';
    if (i == r->end || (r->begun && r->buf[i] == ']')) {
        ended = i < r->end;
        for (i += ended; i < r->end && is_blank(r->buf[i]); i++)
            ;
        if (i < r->end || (r->eof && !ended))
            *error = ended ? "something follows the array of rows" : "the array does not end";
        if (!*error && !r->eof)
            return ROW_MORE;
        r->line = line;
        return *error ? ROW_BAD : ROW_END;
    }
    if (r->buf[i] != want) {
        r->line = line;
        *error = "expected a comma or the end of the array after a row";
        return ROW_BAD;
    }
    for (i++; i < r->end && is_blank(r->buf[i]); i++)
        line += r->buf[i] == '\n';
    for (begin = i; i < r->end; i++) {
        char c = r->buf[i];
        if (quoted) {
            quoted = c != '"';
            i += c == '\\';
        } else if (c == '"') {
            quoted = true;
        } else if (c == '{' || c == '[') {
            depth++;
        } else if ((c == ',' || c == ']') && !depth) {
            break;
        } else if (c == '}' || c == ']') {
            depth -= depth > 0;
        }
    }
    if (i >= r->end) {
        r->line = r->eof ? line : r->line;
        *error = r->eof ? "the array does not end" : NULL;
        return r->eof ? ROW_BAD : ROW_MORE;
    }
    *s = (Span){begin, i - begin, line};
    if (begin == i && !r->begun && r->buf[i] == ']')
        s->n = 0;                /* an empty array */
    else if (begin == i)
        s->n = 1;                /* the parser will refuse the comma */
    for (; begin < i; begin++)
        line += r->buf[begin] == '\n';
    r->line = line;
    r->begun = true;
    *next = i;
    return ROW_FOUND;
}

static void chunk_fail(Chunk *p, const Reader *r, int line, char *error)
{
    p->error = error;
    p->error_at = (Location){r->path, line};
}

static void chunk_take(Reader *r, Chunk *p, size_t stop)
{
    p->n = stop - r->start;
    p->text = malloc(p->n + 1);
    if (!p->text)
        abort();
    memcpy(p->text, r->buf + r->start, p->n);
    p->text[p->n] = 0;
    p->offset = r->given;
    give(r, stop);
}

static void chunk_rows(Reader *r, Chunk *p)
{
    size_t at = r->start, next = 0;
    int cap = 0;
    p->reads = r->reads;
    while (at - r->start < ROWS_CHUNK) {
        Span s;
        const char *error = NULL;
        RowFind found = r->array ? find_element(r, at, &s, &next, &error)
                                 : find_line(r, at, &s, &next);
        if (found == ROW_FOUND && s.n <= ROW_MAX) {
            at = next;
            if (!s.n)
                continue;
            if (p->nspans == cap)
                p->span = realloc(p->span, (size_t)(cap = 2 * cap + 64) * sizeof *p->span);
            s.at -= r->start;
            p->span[p->nspans++] = s;
            continue;
        }
        if (found == ROW_MORE && p->nspans)
            break;               /* return what there is */
        if (found == ROW_MORE && r->end - at <= ROW_MAX) {
            give(r, at);
            char *why = fill(r);
            at = r->start;
            if (!why)
                continue;
            chunk_fail(p, r, 0, why);
        } else if (found == ROW_BAD) {
            chunk_fail(p, r, r->line, format("%s", error));
        } else if (found == ROW_END) {
            at = r->end;
        } else {
            chunk_fail(p, r, found == ROW_FOUND ? s.line : r->line,
                       format("line longer than 16 MiB"));
        }
        r->done = true;
        break;
    }
    chunk_take(r, p, at);
}

/* ---- texts ----------------------------------------------------------------------------------- */

static bool begins_character(char c)
{
    return ((unsigned char)c & 0xc0) != 0x80;
}

/* Returns the byte where character `wanted` of the text begins; *all: their number. -1: errno. */
static int64_t find_character(const Reader *r, int64_t wanted, int64_t *all)
{
    char *block = malloc(BLOCK);
    int64_t at = r->mark, found = -1;
    ssize_t got = -1;
    *all = 0;
    for (off_t from = r->mark;
         block && (got = TEMP_FAILURE_RETRY(pread(r->fd, block, BLOCK, from))) > 0; from += got)
        for (ssize_t i = 0; i < got; i++, at++)
            if (begins_character(block[i]) && (*all)++ == wanted)
                found = at;
    free(block);
    return got < 0 ? -1 : found < 0 ? at : found;
}

/* Sets where the last part of a text begins, by its characters. */
static char *find_split(Reader *r)
{
    int64_t all, train;
    if (find_character(r, 0, &all) < 0)
        return format("%s", strerror(errno));
    train = (int64_t)((double)all * (1 - r->tail) + 1e-6);
    if (train < 1 || train == all)
        return format("%lld characters: a share of %g leaves %lld for training and %lld for "
                      "validation", (long long)all, r->tail, (long long)train,
                      (long long)(all - train));
    r->split = find_character(r, train, &all);
    return r->split < 0 ? format("%s", strerror(errno)) : NULL;
}

static void chunk_text(Reader *r, Chunk *p)
{
    size_t want = TEXT_CHUNK, cut = 0;
    p->reads = READS_TEXT;
    p->first = !r->begun;
    r->begun = true;
    char *unknown = r->tail > 0 && !r->split ? find_split(r) : NULL;
    if (unknown) {
        chunk_fail(p, r, 0, unknown);
        r->done = true;
        return;
    }
    p->held_out = r->split && r->given >= r->split;
    while (!cut) {
        size_t n = r->end - r->start;
        const int64_t left = r->split - r->given;
        if (left > 0 && (int64_t)(n < want ? n : want) >= left) {
            p->last = true;      /* the rest is another document */
            r->begun = false;
            cut = (size_t)left;
            break;
        }
        if (n < want && !r->eof) {
            char *why = fill(r);
            if (why) {
                chunk_fail(p, r, 0, why);
                r->done = true;
                return;
            }
            continue;
        }
        if (r->eof && n <= want) {
            p->last = r->done = true;
            cut = n;
            break;
        }
        cut = tokenizer_cut(r->tok, r->buf + r->start, want < n ? want : n);
        want *= 2;               /* cannot be cut: try with more */
    }
    const char *zero = cut ? memchr(r->buf + r->start, 0, cut) : NULL;
    if (zero) {
        chunk_fail(p, r, 0, no_text(r, zero - (r->buf + r->start)));
        p->last = false;
        r->done = true;
        cut = 0;
    }
    chunk_take(r, p, r->start + cut);
}

Chunk *reader_chunk(Reader *r)
{
    if (r->done)
        return NULL;
    Chunk *p = calloc(1, sizeof *p);
    p->place = (Location){r->path, 0};
    (r->reads == READS_TEXT ? chunk_text : chunk_rows)(r, p);
    struct stat now;
    if (r->done && !p->error && r->regular && fstat(r->fd, &now))
        chunk_fail(p, r, 0, format("%s", strerror(errno)));
    else if (r->done && !p->error && r->regular &&
             (now.st_size != r->st.st_size || now.st_mtim.tv_sec != r->st.st_mtim.tv_sec ||
              now.st_mtim.tv_nsec != r->st.st_mtim.tv_nsec))
        chunk_fail(p, r, 0, format("changed while being read"));
    return p;
}

void chunk_free(Chunk *p)
{
    free(p->text);
    free(p->span);
    free(p->error);
    free(p);
}
