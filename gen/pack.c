/* pack.c -- `gen pack`: text and JSON Lines to the token file that a training binary maps.
 *
 * In:    .txt (a document a file), .jsonl rows of text, prompt + completion, or messages.
 * Out:   one safetensors file, see runtime/tokenfile.h; a summary on stdout.
 * Keeps: memory is bounded by the longest line, not by the corpus: ids go through unnamed files
 *        beside the output. A bad row ends the command with FILE:LINE; nothing is skipped. */
#define _GNU_SOURCE
#include "gen.h"

#include "../runtime/json.h"
#include "../runtime/safetensors.h"
#include "../runtime/tokenfile.h"
#include "../runtime/tokenizer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LINE_MAX_BYTES = 16 << 20, BLOCK = 4 << 20, DEFAULT_LENGTH = 1024 };
typedef enum { KIND_AUTO, KIND_PACKED, KIND_ROWS } Kind;
static const char *const kind_name[] = {"auto", "packed", "rows"};

/* How a conversation becomes text; chosen by the added tokens that the tokenizer has. */
typedef struct {
    const char *name, *begin, *open, *header_end, *close, *tail;
    bool trim;                   /* white space around a message's content goes */
} Chat;

static const Chat chats[] = {
    {"ChatML", "", "<|im_start|>", "\n", "<|im_end|>", "\n", false},
    {"Llama-3", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>\n\n", "<|eot_id|>",
     "", true},
};

typedef struct {
    const Tokenizer *tok;
    Kind kind;
    int64_t max_length;          /* 0: not given */
    bool assistant_only;
    const Chat *chat;            /* NULL until the first conversation */
    const char *out;
    FILE *tokens, *mask, *docs;  /* I32, U8, I64, without names */
    int64_t ntokens, ndocs, nbytes, ntargets;
    int64_t no_target, cut, not_prefix;
    EVP_MD_CTX *sha;
    Loc loc;                     /* of the row being read */
} Pack;

/* ---- files without names --------------------------------------------------------------------- */

static FILE *spool_open(const char *out)
{
    char *folder = text_copy(out), *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = 0;
    int fd = open(slash ? folder : ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0) {                /* a file system without O_TMPFILE */
        char *name = text_print("%s.XXXXXX", out);
        fd = mkstemp(name);
        if (fd >= 0)
            unlink(name);
    }
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w+");
    if (!f)
        err((Loc){out, 0}, "scratch space beside it: %s", strerror(errno));
    return f;
}

static void spool_put(Pack *p, FILE *f, const void *data, size_t bytes)
{
    if (fwrite(data, 1, bytes, f) != bytes)
        err((Loc){p->out, 0}, "scratch space beside it: %s", strerror(errno));
}

/* One document or row; mask NULL: every token is a target. A row without a target after its
 * first token, which nothing predicts, is counted and left out. */
static void document_put(Pack *p, const int32_t *ids, const uint8_t *mask, size_t n)
{
    if (p->kind == KIND_ROWS && p->max_length < (int64_t)n) {
        n = (size_t)p->max_length;
        p->cut++;
    }
    int64_t targets = mask ? 0 : (int64_t)n - 1;
    for (size_t i = 1; mask && i < n; i++)
        targets += mask[i];
    if (p->kind == KIND_ROWS && targets < 1) {
        p->no_target++;
        return;
    }
    spool_put(p, p->docs, &p->ntokens, sizeof p->ntokens);
    spool_put(p, p->tokens, ids, n * sizeof *ids);
    for (size_t i = 0; p->kind == KIND_ROWS && i < n; i++)
        putc(mask ? mask[i] : 1, p->mask);
    p->ntargets += targets;
    p->ntokens += (int64_t)n;
    p->ndocs++;
}

/* ---- input ----------------------------------------------------------------------------------- */

typedef struct {
    int fd;
    struct stat st;              /* when opened */
    char *buf;
    size_t start, end, cap;
    bool eof;
} Reader;

static void reader_open(Pack *p, Reader *r, const char *path)
{
    *r = (Reader){.fd = open(path, O_RDONLY | O_CLOEXEC)};
    p->loc = (Loc){path, 0};
    if (r->fd < 0 || fstat(r->fd, &r->st))
        err(p->loc, "%s", strerror(errno));
    if (!S_ISREG(r->st.st_mode))
        err(p->loc, "not a regular file");
}

/* More bytes behind those that are there; every byte passes here once, so the hash is taken
 * here. */
static void reader_fill(Pack *p, Reader *r)
{
    if (r->start)
        memmove(r->buf, r->buf + r->start, r->end - r->start);
    r->end -= r->start;
    r->start = 0;
    if (r->cap - r->end < BLOCK) {
        r->cap = 2 * r->cap + 2 * BLOCK;
        r->buf = realloc(r->buf, r->cap);
        if (!r->buf)
            err(p->loc, "out of memory: a piece of %zu bytes without a line break", r->end);
    }
    ssize_t got;
    do
        got = read(r->fd, r->buf + r->end, BLOCK);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        err(p->loc, "%s", strerror(errno));
    EVP_DigestUpdate(p->sha, r->buf + r->end, (size_t)got);
    r->end += (size_t)got;
    r->eof = !got;
}

static void reader_close(Pack *p, Reader *r)
{
    struct stat now;
    if (fstat(r->fd, &now) || now.st_size != r->st.st_size ||
        now.st_mtim.tv_sec != r->st.st_mtim.tv_sec || now.st_mtim.tv_nsec != r->st.st_mtim.tv_nsec)
        err((Loc){p->loc.file, 0}, "changed while it was read");
    close(r->fd);
    free(r->buf);
}

/* The next line without its end (LF or CRLF), or NULL after the last. */
static char *reader_line(Pack *p, Reader *r, size_t *n)
{
    size_t looked = 0;
    for (;;) {
        char *from = r->buf + r->start;
        char *lf = r->end - r->start > looked
                 ? memchr(from + looked, '\n', r->end - r->start - looked) : NULL;
        looked = r->end - r->start;
        if (lf || (r->eof && looked)) {
            *n = lf ? (size_t)(lf - from) : looked;
            r->start += *n + !!lf;
            if (*n > LINE_MAX_BYTES)
                break;
            if (lf && *n && from[*n - 1] == '\r')
                --*n;
            return from;
        }
        if (r->eof)
            return NULL;
        if (looked > LINE_MAX_BYTES)
            break;
        reader_fill(p, r);
    }
    err(p->loc, "line longer than 16 MiB");
}

/* ---- encoding -------------------------------------------------------------------------------- */

static size_t encode(Pack *p, const char *text, size_t n, bool specials, int32_t **ids)
{
    size_t count;
    char *error = tokenizer_encode(p->tok, text, n, specials, ids, &count);
    if (error)
        err(p->loc, "%s", error);
    return count;
}

static bool ends_with(const char *text, size_t n, const char *end)
{
    size_t len = strlen(end);
    return n >= len && !memcmp(text + n - len, end, len);
}

/* Ids of a text that ends a document: with the tokenizer's specials and with the end-of-text
 * token, as its string where it has one (so that tokenisation is that of the joined string),
 * unless it is there already. */
static size_t encode_ended(Pack *p, const char *text, size_t n, bool specials, int32_t **ids)
{
    const char *end = tokenizer_eos_text(p->tok);
    if (!end) {
        size_t count = encode(p, text, n, specials, ids);
        *ids = realloc(*ids, (count + 1) * sizeof **ids);
        (*ids)[count] = tokenizer_eos(p->tok);
        return count + 1;
    }
    if (ends_with(text, n, end))
        return encode(p, text, n, specials, ids);
    size_t len = strlen(end);
    char *joined = malloc(n + len);
    memcpy(joined, text, n);
    memcpy(joined + n, end, len);
    size_t count = encode(p, joined, n + len, specials, ids);
    free(joined);
    return count;
}

static void kind_set(Pack *p, Kind k, const char *what)
{
    if (p->kind == KIND_AUTO) {
        p->kind = k;
        if (k == KIND_PACKED && p->max_length)
            err((Loc){0}, "--max-length cuts rows, and these are packed documents: "
                          "drop it or add --kind rows");
        if (k == KIND_ROWS && !p->max_length)
            p->max_length = DEFAULT_LENGTH;
    }
    if (k == KIND_ROWS && p->kind == KIND_PACKED)
        err(p->loc, "%s make rows with masked prompts; they cannot be packed with plain text",
            what);
}

static void want_messages(Pack *p)
{
    if (p->assistant_only)
        err(p->loc, "--assistant-only wants rows of messages");
}

/* A text file is one document, read in blocks that are cut where tokenisation cannot notice. */
static void pack_text(Pack *p, const char *path)
{
    Reader r;
    bool first = true;
    size_t n = 0, enough = 0;
    int32_t *row = NULL;         /* KIND_ROWS: at most max_length + 1 ids of the document */
    reader_open(p, &r, path);
    if (!r.st.st_size)
        err(p->loc, "empty file");
    kind_set(p, KIND_PACKED, "text files");
    want_messages(p);
    if (p->kind == KIND_PACKED)
        spool_put(p, p->docs, &p->ntokens, sizeof p->ntokens);
    do {
        reader_fill(p, &r);
        if (!r.eof && r.end < enough)
            continue;
        size_t cut = r.eof ? r.end : tokenizer_cut(p->tok, r.buf, r.end);
        /* no place to cut: look again when there is much more */
        enough = cut ? BLOCK : 2 * r.end;
        if (!cut && !r.eof)
            continue;
        int32_t *ids;
        size_t count = r.eof ? encode_ended(p, r.buf, cut, first, &ids)
                             : encode(p, r.buf, cut, first, &ids);
        if (p->kind == KIND_PACKED) {
            spool_put(p, p->tokens, ids, count * sizeof *ids);
            p->ntokens += (int64_t)count;
            p->ntargets += (int64_t)count - first;
        } else {
            size_t room = (size_t)p->max_length + 1 - n, take = count < room ? count : room;
            row = realloc(row, (n + take + 1) * sizeof *row);
            memcpy(row + n, ids, take * sizeof *ids);
            n += take;
        }
        free(ids);
        p->nbytes += (int64_t)cut;
        r.start = cut;
        first = false;
    } while (!r.eof);
    reader_close(p, &r);
    if (p->kind == KIND_PACKED)
        p->ndocs++;
    else
        document_put(p, row, NULL, n);
    free(row);
}

/* ---- rows ------------------------------------------------------------------------------------ */

static const char *row_string(Pack *p, const cJSON *row, const char *key)
{
    const cJSON *v = json_get(row, key);
    if (!cJSON_IsString(v))
        err(p->loc, "%s: want a string", key);
    return v->valuestring;
}

/* A tokenizer that closes every text (BERT) would end the prompt before the completion begins. */
static void want_no_suffix(Pack *p)
{
    size_t n;
    tokenizer_suffix(p->tok, &n);
    if (n)
        err(p->loc,
            "this tokenizer appends special tokens to every text; prompts cannot be masked");
}

static void row_prompt(Pack *p, const char *prompt, const char *completion)
{
    size_t np = strlen(prompt), nc = strlen(completion);
    int32_t *head, *whole;
    want_no_suffix(p);
    char *joined = malloc(np + nc + 1);
    memcpy(joined, prompt, np);
    memcpy(joined + np, completion, nc + 1);
    size_t nhead = encode(p, prompt, np, true, &head);
    size_t n = encode_ended(p, joined, np + nc, true, &whole);
    if (nhead > n || memcmp(head, whole, nhead * sizeof *head))
        p->not_prefix++;
    uint8_t *mask = malloc(n);
    for (size_t i = 0; i < n; i++)
        mask[i] = i >= nhead;
    document_put(p, whole, mask, n);
    p->nbytes += (int64_t)(np + nc);
    free(joined);
    free(head);
    free(whole);
    free(mask);
}

/* Bytes of the white space character (as Python's str.strip sees it) at s, 0: none. */
static size_t space_length(const char *s)
{
    static const char *const wide[] = {"\xc2\x85", "\xc2\xa0", "\xe1\x9a\x80", "\xe2\x80\x80",
        "\xe2\x80\x81", "\xe2\x80\x82", "\xe2\x80\x83", "\xe2\x80\x84", "\xe2\x80\x85",
        "\xe2\x80\x86", "\xe2\x80\x87", "\xe2\x80\x88", "\xe2\x80\x89", "\xe2\x80\x8a",
        "\xe2\x80\xa8", "\xe2\x80\xa9", "\xe2\x80\xaf", "\xe2\x81\x9f", "\xe3\x80\x80"};
    if (*s == ' ' || (*s >= '\t' && *s <= '\r') || (*s >= 0x1c && *s <= 0x1f))
        return 1;
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
        if (!strncmp(s, wide[i], strlen(wide[i])))
            return strlen(wide[i]);
    return 0;
}

static void trim(const char **text, size_t *n)
{
    const char *s = *text, *end;
    for (size_t k; (k = space_length(s)); s += k)
        ;
    end = s;
    for (const char *t = s; *t;) {
        size_t k = space_length(t);
        t += k ? k : 1;
        if (!k)
            end = t;
    }
    *text = s;
    *n = (size_t)(end - s);
}

static const Chat *chat_find(Pack *p)
{
    for (size_t i = 0; i < sizeof chats / sizeof *chats; i++) {
        const Chat *c = &chats[i];
        if (tokenizer_added(p->tok, c->open) < 0 || tokenizer_added(p->tok, c->close) < 0)
            continue;
        int32_t *ids;
        char *end = text_print("%s%s", c->close, c->tail), *both = text_print("%s%s", end, c->open);
        size_t n = encode(p, both, strlen(both), false, &ids);
        free(ids);
        n -= encode(p, end, strlen(end), false, &ids) + 1;
        free(ids);
        if (n)
            err(p->loc, "%s swallows the white space beside it: turns cannot be told apart",
                c->open);
        return c;
    }
    err(p->loc, "messages want a tokenizer with chat tokens (<|im_start|> or <|start_header_id|>)");
}

/* One message's ids appended to a row. Every turn begins and ends with added tokens, so turns
 * tokenise on their own; only the border between header and content is inside one piece, and
 * there the header alone is counted, as the generation prompt would be. */
typedef struct {
    int32_t *ids;
    uint8_t *mask;
    size_t n;
} Row;

static void row_turn(Pack *p, Row *row, const cJSON *message, bool target, bool whole)
{
    const Chat *chat = p->chat;
    const char *role = row_string(p, message, "role");
    const char *content = row_string(p, message, "content");
    size_t ncontent = strlen(content), n, head, count;
    if (strcmp(role, "system") && strcmp(role, "user") && strcmp(role, "assistant"))
        err(p->loc, "role: want system, user or assistant, got \"%.40s\"", role);
    p->nbytes += (int64_t)ncontent;
    if (chat->trim)
        trim(&content, &ncontent);
    char *text = malloc(strlen(role) + ncontent + 128);
    n = (size_t)sprintf(text, "%s%s%s%s", row->n ? "" : chat->begin, chat->open, role,
                        chat->header_end);
    int32_t *ids;
    head = encode(p, text, n, false, &ids);
    int32_t *prompt = ids;
    memcpy(text + n, content, ncontent);
    n += ncontent;
    n += (size_t)sprintf(text + n, "%s%s", chat->close, chat->tail);
    count = encode(p, text, n, false, &ids);
    if (target && (head > count || memcmp(prompt, ids, head * sizeof *ids)))
        p->not_prefix++;
    size_t stop = count;         /* one behind the last target */
    while (!whole && stop && ids[stop - 1] != tokenizer_added(p->tok, chat->close))
        stop--;
    row->ids = realloc(row->ids, (row->n + count) * sizeof *row->ids);
    row->mask = realloc(row->mask, row->n + count);
    memcpy(row->ids + row->n, ids, count * sizeof *ids);
    for (size_t i = 0; i < count; i++)
        row->mask[row->n + i] = target && i >= head && i < stop;
    row->n += count;
    free(text);
    free(ids);
    free(prompt);
}

/* A conversation, the second list following the first. Targets: what follows the first `given`
 * messages, the header of the first of them excepted; with --assistant-only the assistant turns
 * up to their closing token. */
static void row_messages(Pack *p, const cJSON *first, const cJSON *second, int given)
{
    if (!p->chat)
        p->chat = chat_find(p);
    Row row = {0};
    int i = 0;
    for (const cJSON *list = first; list; list = list == first ? second : NULL) {
        for (const cJSON *m = list->child; m; m = m->next, i++) {
            const char *role = row_string(p, m, "role");
            if (i == given && strcmp(role, "assistant"))
                err(p->loc, "messages: the answer wants the role assistant, got \"%.40s\"", role);
            bool assistant = !strcmp(role, "assistant");
            size_t at = row.n;
            row_turn(p, &row, m, p->assistant_only ? assistant : i >= given, !p->assistant_only);
            if (!p->assistant_only && i > given)
                memset(row.mask + at, 1, row.n - at);
        }
    }
    document_put(p, row.ids, row.mask, row.n);
    free(row.ids);
    free(row.mask);
}

static void pack_row(Pack *p, const cJSON *row)
{
    const cJSON *prompt = json_get(row, "prompt"), *completion = json_get(row, "completion");
    const cJSON *messages = json_get(row, "messages");
    if (!cJSON_IsObject(row))
        err(p->loc, "want a JSON object");
    if (messages) {
        kind_set(p, KIND_ROWS, "messages");
        int n = cJSON_IsArray(messages) ? cJSON_GetArraySize(messages) : 0;
        if (!n)
            err(p->loc, "messages: want a list of {\"role\", \"content\"}, not empty");
        row_messages(p, messages, NULL, p->assistant_only ? -1 : n - 1);
    } else if (prompt || completion) {
        want_messages(p);
        kind_set(p, KIND_ROWS, "prompts");
        if (cJSON_IsArray(prompt) && cJSON_IsArray(completion) && completion->child)
            row_messages(p, prompt, completion, cJSON_GetArraySize(prompt));
        else
            row_prompt(p, row_string(p, row, "prompt"), row_string(p, row, "completion"));
    } else {
        if (!json_get(row, "text"))
            err(p->loc, "want the keys text, prompt and completion, or messages");
        const char *text = row_string(p, row, "text");
        size_t n = strlen(text);
        int32_t *ids;
        kind_set(p, KIND_PACKED, "texts");
        want_messages(p);
        if (!n)
            err(p->loc, "text: empty");
        size_t count = encode_ended(p, text, n, true, &ids);
        document_put(p, ids, NULL, count);
        p->nbytes += (int64_t)n;
        free(ids);
    }
}

static void pack_lines(Pack *p, const char *path)
{
    Reader r;
    size_t n;
    reader_open(p, &r, path);
    for (char *line; p->loc.line += p->loc.line < INT_MAX, (line = reader_line(p, &r, &n));) {
        if (p->loc.line == 1 && n >= 2 && !memcmp(line, "\x1f\x8b", 2))
            err(p->loc, "gzip data: decompress it first");
        size_t i = 0;
        while (i < n && (line[i] == ' ' || line[i] == '\t' || line[i] == '\r'))
            i++;
        if (i == n)
            continue;
        char *error;
        cJSON *row = json_parse(line, n, &error);
        if (!row) {
            /* its line number counts inside this line */
            const char *what = strstr(error, "byte ");
            err(p->loc, "%s", what ? what : error);
        }
        pack_row(p, row);
        cJSON_Delete(row);
    }
    reader_close(p, &r);
}

/* ---- output ---------------------------------------------------------------------------------- */

static char *copy_spool(StWriter *w, const char *name, FILE *from)
{
    char *buf = malloc(BLOCK), *error = NULL;
    rewind(from);
    for (size_t n; !error && (n = fread(buf, 1, BLOCK, from));)
        error = st_write(w, name, buf, n);
    free(buf);
    return error;
}

static char *write_file(Pack *p, const char *sha256)
{
    StWriter *w = st_writer(TOKENFILE_FORMAT);
    bool masked = p->kind == KIND_ROWS && p->ntargets < p->ntokens - p->ndocs;
    uint32_t crc;
    st_add(w, "tokens", ST_I32, 1, &p->ntokens);
    st_add(w, "doc_offsets", ST_I64, 1, &(int64_t){p->ndocs + 1});
    if (masked)
        st_add(w, "mask", ST_U8, 1, &p->ntokens);
    st_add_meta(w, "kind", kind_name[p->kind]);
    st_add_meta(w, "tokenizer", tokenizer_id(p->tok));
    st_add_meta(w, "vocab", text_print("%d", tokenizer_size(p->tok)));
    st_add_meta(w, "eos", text_print("%d", tokenizer_eos(p->tok)));
    st_add_meta(w, "documents", text_print("%lld", (long long)p->ndocs));
    st_add_meta(w, "sha256", sha256);
    if (p->kind == KIND_ROWS) {
        st_add_meta(w, "max_length", text_print("%lld", (long long)p->max_length));
        st_add_meta(w, "cut", text_print("%lld", (long long)p->cut));
        st_add_meta(w, "dropped_no_target", text_print("%lld", (long long)p->no_target));
    }
    char *error = st_begin(w, p->out);
    if (!error)
        error = copy_spool(w, "doc_offsets", p->docs);
    if (!error)
        error = copy_spool(w, "tokens", p->tokens);
    if (!error && masked)
        error = copy_spool(w, "mask", p->mask);
    if (!error)
        error = st_end(w, &crc);
    st_free(w);
    return error;
}

static char *sha_hex(EVP_MD_CTX *sha)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;
    EVP_DigestFinal_ex(sha, digest, &n);
    char *text = arena_new(2 * n + 1);
    for (unsigned i = 0; i < n; i++)
        snprintf(text + 2 * i, 3, "%02x", digest[i]);
    return text;
}

static void report(const Pack *p)
{
    printf("%s: %s, %lld %s, %lld tokens, %.2f bytes a token, tokenizer %s\n", p->out,
           kind_name[p->kind], (long long)p->ndocs, p->kind == KIND_ROWS ? "rows" : "documents",
           (long long)p->ntokens, (double)p->nbytes / (double)p->ntokens, tokenizer_id(p->tok));
    if (p->kind == KIND_ROWS)
        printf("%lld targets; %lld rows cut to %lld tokens, %lld dropped without a target\n",
               (long long)p->ntargets, (long long)p->cut, (long long)p->max_length,
               (long long)p->no_target);
    if (p->not_prefix)
        fprintf(stderr,
                "gen pack: warning: in %lld rows the prompt's tokens are not a prefix of the "
                "whole; targets start after as many tokens as the prompt has alone\n",
                (long long)p->not_prefix);
}

static const char usage[] =
    "usage: gen pack -o OUT.safetensors [--tokenizer tokenizer.json|bytes] [--max-length N]\n"
    "                [--kind auto|packed|rows] [--assistant-only] FILE...\n"
    "  FILE.jsonl: rows {\"text\"}, {\"prompt\",\"completion\"} or {\"messages\"}; any other "
    "file: one text\n"
    "  --tokenizer       of the model that will read the tokens; bytes (the default): 256 byte "
    "values and end of text\n"
    "  --kind            packed: documents in one stream; rows: a sample each, with masked "
    "prompts; "
    "auto: by the keys\n"
    "  --max-length      rows: cut after N tokens (default 1024)\n"
    "  --assistant-only  messages: only what the assistant says is a target\n";

static const char *option(int argc, char **argv, int *i)
{
    if (*i + 1 >= argc)
        err((Loc){0}, "pack: %s wants a value", argv[*i]);
    return argv[++*i];
}

int pack_main(int argc, char **argv)
{
    Pack p = {0};
    const char *tokenizer = "bytes";
    int nfiles = 0;
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        if (!strcmp(a, "--help")) {
            fputs(usage, stdout);
            return 0;
        } else if (!strcmp(a, "-o")) {
            p.out = option(argc, argv, &i);
        } else if (!strcmp(a, "--tokenizer")) {
            tokenizer = option(argc, argv, &i);
        } else if (!strcmp(a, "--assistant-only")) {
            p.assistant_only = true;
        } else if (!strcmp(a, "--max-length")) {
            char *end;
            p.max_length = strtoll(option(argc, argv, &i), &end, 10);
            if (*end || p.max_length < 2 || p.max_length > INT_MAX / 2)
                err((Loc){0}, "pack: --max-length: want 2 to %d, got %s", INT_MAX / 2, argv[i]);
        } else if (!strcmp(a, "--kind")) {
            const char *k = option(argc, argv, &i);
            for (p.kind = KIND_ROWS; p.kind > KIND_AUTO && strcmp(k, kind_name[p.kind]); p.kind--)
                ;
            if (strcmp(k, kind_name[p.kind]))
                err((Loc){0}, "pack: --kind: want auto, packed or rows, got %s%s", k,
                    strcmp(k, "bfd") ? "" : ": data.kind = bfd reads rows");
        } else if (a[0] == '-' && a[1]) {
            err((Loc){0}, "pack: unknown option %s", a);
        } else {
            argv[nfiles++] = argv[i];
        }
    }
    if (!p.out || !nfiles) {
        fputs(usage, stderr);
        return 1;
    }
    if (p.kind == KIND_PACKED && p.max_length)
        err((Loc){0}, "pack: --max-length cuts rows; --kind packed keeps documents whole");
    if (p.kind == KIND_ROWS && !p.max_length)
        p.max_length = DEFAULT_LENGTH;
    Tokenizer *tok;
    char *error = tokenizer_load(&tok, tokenizer);
    if (error)
        err((Loc){0}, "%s", error);
    p.tok = tok;
    if (tokenizer_eos(tok) < 0)
        err((Loc){tokenizer, 0}, "no end-of-text token: put the tokenizer_config.json that names "
                                 "eos_token, or config.json with eos_token_id, beside it");
    p.tokens = spool_open(p.out);
    p.mask = spool_open(p.out);
    p.docs = spool_open(p.out);
    p.sha = EVP_MD_CTX_new();
    EVP_DigestInit_ex(p.sha, EVP_sha256(), NULL);
    for (int i = 0; i < nfiles; i++) {
        size_t n = strlen(argv[i]);
        bool lines = ends_with(argv[i], n, ".jsonl") || ends_with(argv[i], n, ".json");
        (lines ? pack_lines : pack_text)(&p, argv[i]);
    }
    if (!p.ndocs)
        err((Loc){argv[0], 0}, "no usable row (%lld without a target)", (long long)p.no_target);
    spool_put(&p, p.docs, &p.ntokens, sizeof p.ntokens);
    error = write_file(&p, sha_hex(p.sha));
    if (error)
        err((Loc){0}, "%s", error);
    report(&p);
    EVP_MD_CTX_free(p.sha);
    fclose(p.tokens);
    fclose(p.mask);
    fclose(p.docs);
    tokenizer_free(tok);
    return 0;
}
