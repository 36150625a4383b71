/* pack_write.c -- writes rows and documents to a token file.
 *
 * Out:   one safetensors file, see runtime/data/tokenfile.h.
 * Keeps: ids go to temporary files next to the output, so memory does not grow with the corpus; the
 *        result depends only on the rows and their order. */
#define _GNU_SOURCE
#include "runtime/pack/pack.h"

#include "runtime/base.h"
#include "runtime/files/crc32c.h"
#include "runtime/files/safetensors.h"
#include "runtime/data/tokenfile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BLOCK = 4 << 20 };

/* ---- temporary files ------------------------------------------------------------------------- */

static FILE *spool_open(Pack *p)
{
    const char *out = p->out;
    char *folder = format("%s", out), *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = 0;
    int fd = TEMP_FAILURE_RETRY(open(slash ? folder : ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (fd < 0) {                /* a file system without O_TMPFILE */
        char *name = format("%s.XXXXXX", out);
        fd = mkstemp(name);
        if (fd >= 0)
            unlink(name);
        free(name);
    }
    free(folder);
    FILE *f = fd < 0 ? NULL : fdopen(fd, "w+");
    if (!f)
        pack_fail(p, EXIT_IO, (Location){out, 0},
                  format("temporary file next to it: %s", strerror(errno)));
    return f;
}

static void spool_put(Pack *p, FILE *f, const void *data, size_t bytes)
{
    if (p->out && !p->error.text && fwrite(data, 1, bytes, f) != bytes)
        pack_fail(p, EXIT_IO, (Location){p->out, 0},
                  format("temporary file next to it: %s", strerror(errno)));
}

static char *spool_failed(const Pack *p, int why)
{
    return format("%s: temporary file next to it: %s", p->out,
                  why ? strerror(why) : "it is shorter than what was written");
}

/* Flushes the stream, which detects a full disk, and seeks to the start. */
static char *spool_rewind(const Pack *p, FILE *f)
{
    return fflush(f) || fseek(f, 0, SEEK_SET) ? spool_failed(p, errno) : NULL;
}

/* Reads exactly `bytes` bytes. */
static char *spool_get(const Pack *p, FILE *f, void *data, size_t bytes)
{
    errno = 0;
    return fread(data, 1, bytes, f) == bytes ? NULL : spool_failed(p, ferror(f) ? errno : 0);
}

/* An existing file is replaced at the end: NULL, or why it is not a token file. */
static char *check_output(const char *out)
{
    struct stat st;
    char head[4096] = "";
    if (stat(out, &st) || (S_ISREG(st.st_mode) && !st.st_size))
        return NULL;
    FILE *f = S_ISREG(st.st_mode) ? fopen(out, "r") : NULL;
    const size_t n = f ? fread(head, 1, sizeof head, f) : 0;
    const int why = f ? (ferror(f) ? errno : 0) : S_ISREG(st.st_mode) ? errno : 0;
    if (f)
        fclose(f);
    if (why)
        return format("exists and cannot be read: %s", strerror(why));
    bool ours = memmem(head, n, RECORDFILE_FORMAT, strlen(RECORDFILE_FORMAT)) ||
                memmem(head, n, TOKENFILE_FORMAT, strlen(TOKENFILE_FORMAT));
    return ours ? NULL
         : format("exists and is not a token file: give another name with -o");
}

void pack_begin(Pack *p)
{
    if (!p->out)
        return;
    char *error = check_output(p->out);
    if (error) {
        pack_fail(p, EXIT_IO, (Location){p->out, 0}, error);
        return;
    }
    for (int i = 0; i < PACK_PARTS; i++)
        p->part[i] = (PartOut){.tokens = spool_open(p), .mask = spool_open(p),
                               .docs = spool_open(p)};
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void note_held_out(Pack *p, bool held)
{
    if (p->ndocs == p->capheld_out) {
        p->capheld_out = 2 * p->capheld_out + 1024;
        p->held_out = realloc(p->held_out, (size_t)p->capheld_out);
        if (!p->held_out)
            abort();
    }
    p->held_out[p->ndocs] = held;
    p->nheld_out += held;
}

/* Returns why rows of a format cannot be mixed with those of the kind. */
static char *other_kind(Kind kind, const Format *f)
{
    if (kind >= KIND_PAIRS || f->kind >= KIND_PAIRS)
        return format("the output is %s, and %s cannot be part of it", kind_name[kind], f->keys);
    return format("%s become rows with masked prompts, which cannot be packed with plain text",
                  f->keys);
}

char *pack_kind(Pack *p, const RowOut *row)
{
    const Format *f = &pack_format[row->form];
    bool document = f->reads == READS_TEXT;
    p->finds_targets = f->finds_targets;
    if (p->kind == KIND_AUTO) {
        p->kind = f->kind;
        if (p->kind == KIND_PACKED && p->max_length)
            return format("--max-length cuts rows, but these are packed documents: omit it%s",
                          document ? "" : " or add --kind rows");
    }
    if (p->kind != KIND_PACKED && !p->max_length)
        p->max_length = PACK_LENGTH;
    p->makes = f->kind == p->kind ? KIND_AUTO : f->kind;
    if (p->kind == KIND_ROWS && document)
        return format("a text file is a document without rows: pack it separately");
    if (f->kind != p->kind && (f->kind != KIND_PACKED || p->kind != KIND_ROWS))
        return other_kind(p->kind, f);
    p->makes = KIND_AUTO;
    p->records = row->records;
    return NULL;
}

/* Returns the places of the first malformed rows, as in "x.jsonl:3, x.jsonl:5"; malloc'ed. */
static char *bad_text(const Pack *p)
{
    enum { FEW = 5 };
    char *all = format("%s", "");
    for (int i = 0; i < p->nbad && i < FEW; i++) {
        const Location *at = &p->bad[i].at;
        char *longer = format("%s%s%s:%d", all, i ? ", " : "", at->file, at->line);
        free(all);
        all = longer;
    }
    char *whole = p->nbad > FEW ? format("%s and %d more", all, p->nbad - FEW) : format("%s", all);
    free(all);
    return whole;
}

char *pack_skipped(const Pack *p)
{
    char *all = NULL;
    size_t n;
    FILE *to = open_memstream(&all, &n);
    for (int i = 0; to && i < p->nbad; i++)
        fprintf(to, "%s%d:%d", i ? " " : "", p->bad[i].file, p->bad[i].at.line);
    if (!to || fclose(to))
        abort();
    return all;
}

static void leave_out(Pack *p, BadRow bad, int file)
{
    p->bad = realloc(p->bad, (size_t)(p->nbad + 1) * sizeof *p->bad);
    if (!p->bad)
        abort();
    bad.file = file;
    p->bad[p->nbad++] = bad;
    p->dropped[DROP_MALFORMED]++;
}

void pack_skip(Pack *p, const Rules *rules, Encoded *e, int row, int *next, int file)
{
    for (; *next < e->nbad && e->bad[*next].before <= row && !p->error.text; ++*next) {
        BadRow *b = &e->bad[*next];
        if (p->nbad < rules->skip_bad) {
            leave_out(p, *b, file);
            b->why = NULL;
            continue;
        }
        char *others = bad_text(p);
        pack_fail(p, EXIT_DATA, b->at, format("%s; --skip-bad %lld is used up by %s: correct the "
                  "rows, or allow more", b->why, (long long)rules->skip_bad, others));
        free(others);
    }
}

/* Counts a row of a kind, and notes the first one. */
static void count_at(int64_t *n, Location *first, bool is, const RowOut *row, const char *file)
{
    if (is && !(*n)++)
        *first = (Location){file, row->line};
}

void pack_count(Pack *p, const RowOut *row, const char *file)
{
    p->nbytes += row->bytes;
    p->nform[row->form]++;
    p->njoined += row->joined;
    count_at(&p->not_prefix, &p->first_merge, row->not_prefix && !row->blank, row, file);
    count_at(&p->nblank, &p->first_blank, row->blank, row, file);
    count_at(&p->nempty, &p->first_empty, row->empty, row, file);
    p->nturns += row->turns;
    p->ignored |= row->ignored;
    p->unread |= row->unread;
    p->more_answers += row->more_answers;
    p->nchats += row->chat;
    p->nrendered += row->rendered;
    p->nquestions += row->question;
    if (row->records && row->records->count)
        row->records->count(p, row);
}

/* Sets the length of a part of a row after cutting, and its number of targets. */
static void keep_part(const Pack *p, const uint8_t *target, bool first, CutRow *k, size_t begin,
                      size_t n)
{
    const int i = k->parts++;
    const size_t had = n;
    if (p->kind != KIND_PACKED && p->max_length < (int64_t)n) {
        n = (size_t)p->max_length;
        k->cut = true;
    }
    k->begin[i] = begin;
    k->n[i] = n;
    for (size_t t = !first; t < n; t++)
        k->targets[i] += target[begin + t];
    for (size_t t = n; t < had && !k->targets[i]; t++)
        k->targets_cut = k->targets_cut || target[begin + t];
}

static void write_part(Pack *p, int i, const int32_t *id, const uint8_t *target, size_t n)
{
    PartOut *to = &p->part[i];
    spool_put(p, to->docs, &to->n, sizeof to->n);
    spool_put(p, to->tokens, id, n * sizeof *id);
    if (p->kind != KIND_PACKED)
        spool_put(p, to->mask, target, n);
    to->n += (int64_t)n;
    p->ntokens += (int64_t)n;
}

CutRow pack_row(Pack *p, const int32_t *id, const uint8_t *target, const RowOut *row,
                const char *file)
{
    const bool first = pack_format[row->form].finds_targets;   /* the first token may be a target */
    CutRow k = {.cut = row->cut, .drop = row->drop};
    pack_count(p, row, file);
    keep_part(p, target, first, &k, 0, row->second ? row->second : row->n);
    if (row->second)
        keep_part(p, target, first, &k, row->second, row->n - row->second);
    p->cut += k.cut;
    for (int i = 0; i < k.parts && !k.drop && p->kind != KIND_PACKED; i++)
        if (!k.targets[i])
            k.drop = k.targets_cut ? DROP_LONG_PROMPT : DROP_NO_TARGET;
    if (k.drop) {
        p->dropped[k.drop]++;
        return k;
    }
    for (int i = 0; i < k.parts; i++) {
        write_part(p, i, id + k.begin[i], target + k.begin[i], k.n[i]);
        p->ntargets += (int64_t)k.targets[i];
    }
    if (row->records && row->records->put)
        row->records->put(p, row, &k, id, target, file);
    p->ndocs++;
    return k;
}

void pack_put(Pack *p, const int32_t *id, const uint8_t *target, size_t n, bool held)
{
    note_held_out(p, held);
    write_part(p, 0, id, target, n);
    p->ntargets += (int64_t)n;
    p->ndocs++;
}

void pack_stretch(Pack *p, const int32_t *id, size_t n, const RowOut *row, bool first,
                  const char *file)
{
    PartOut *to = &p->part[0];
    if (first) {
        spool_put(p, to->docs, &to->n, sizeof to->n);
        pack_count(p, row, file);
        p->ndocs++;
    } else {
        p->nbytes += row->bytes;
    }
    spool_put(p, to->tokens, id, n * sizeof *id);
    to->n += (int64_t)n;
    p->ntokens += (int64_t)n;
    p->ntargets += (int64_t)n - first;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Returns the offsets of all rows of a part, malloc'ed; or NULL and *error. */
static int64_t *read_offsets(const Pack *p, FILE *from, char **error)
{
    const size_t bytes = (size_t)(p->ndocs + 1) * sizeof(int64_t);
    int64_t *at = malloc(bytes);
    *error = at ? spool_rewind(p, from) : format("%s: out of memory", p->out);
    if (!*error)
        *error = spool_get(p, from, at, bytes);
    if (!*error)
        return at;
    free(at);
    return NULL;
}

/* Destination of a tensor's bytes: the file, or their checksum. */
typedef struct {
    StWriter *w;                 /* NULL: only compute the checksum */
    uint32_t sum;
} Sink;

static char *sink_put(Sink *to, const char *name, const void *data, size_t n)
{
    if (to->w)
        return st_write(to->w, name, data, n);
    to->sum = crc32c(to->sum, data, n);
    return NULL;
}

/* Copies the training rows, then the validation rows; size: bytes per element, 0 for offsets. */
static char *copy_held_out(const Pack *p, Sink *to, const char *name, FILE *from, FILE *docs,
                           size_t size)
{
    char *error = NULL;
    int64_t *at = read_offsets(p, docs, &error), all = 0, most = 0;
    for (int64_t i = 0; i < p->ndocs && at; i++)
        most = at[i + 1] - at[i] > most ? at[i + 1] - at[i] : most;
    char *row = malloc((size_t)most * size + 1);
    for (int held = 0; held < 2 && !error; held++) {
        error = spool_rewind(p, from);
        for (int64_t i = 0; i < p->ndocs && !error; i++) {
            int64_t n = at[i + 1] - at[i];
            if (size)
                error = spool_get(p, from, row, (size_t)n * size);
            if (!error && p->held_out[i] == held && size)
                error = sink_put(to, name, row, (size_t)n * size);
            else if (!error && p->held_out[i] == held)
                error = sink_put(to, name, &all, sizeof all);
            all += p->held_out[i] == held ? n : 0;
        }
    }
    if (!error && !size)
        error = sink_put(to, name, &all, sizeof all);
    free(row), free(at);
    return error;
}

static char *copy_spool(const Pack *p, Sink *to, const char *name, FILE *from)
{
    char *buf = malloc(BLOCK), *error = spool_rewind(p, from);
    for (size_t n; !error && (n = fread(buf, 1, BLOCK, from));)
        error = sink_put(to, name, buf, n);
    if (!error && ferror(from))
        error = spool_failed(p, errno);
    free(buf);
    return error;
}

/* Names of the columns of a part: tokens and target mask. */
typedef struct {
    const char *tokens;
    char mask[32];
} PartNames;

/* Returns how many parts a row has. */
static int part_names(const Pack *p, PartNames part[PACK_PARTS])
{
    int n = 0;
    for (; p->records && n < PACK_PARTS && p->records->part[n]; n++) {
        part[n].tokens = p->records->part[n];
        snprintf(part[n].mask, sizeof part[n].mask, "%s.mask", part[n].tokens);
    }
    if (!n)
        part[n++] = (PartNames){"tokens", "mask"};
    return n;
}

/* Returns the temporary file of a tensor. */
static FILE *spool_of(const Pack *p, const char *tensor)
{
    PartNames part[PACK_PARTS];
    for (int i = 0, n = part_names(p, part); i < n; i++) {
        const size_t length = strlen(part[i].tokens);
        if (!strcmp(tensor, part[i].tokens))
            return p->part[i].tokens;
        if (!strcmp(tensor, part[i].mask))
            return p->part[i].mask;
        if (!strncmp(tensor, part[i].tokens, length) && !strcmp(tensor + length, ".offsets"))
            return p->part[i].docs;
    }
    return NULL;
}

static char *copy_tensor(const Pack *p, Sink *to, const char *name)
{
    const PartOut *part = &p->part[0];           /* validation rows have one part */
    size_t bytes;
    const void *tensor = p->records && p->records->tensor ? p->records->tensor(p, name, &bytes)
                                                          : NULL;
    FILE *from = tensor ? NULL : spool_of(p, name);
    return tensor ? sink_put(to, name, tensor, bytes)
         : !p->nheld_out ? copy_spool(p, to, name, from)
         : copy_held_out(p, to, name, from, part->docs,
                         from == part->docs ? 0 : from == part->tokens ? sizeof(int32_t) : 1);
}

/* Returns metadata crc32c: NAME:SUM of each tensor; malloc'ed. */
static char *add_sums(const Pack *p, StWriter *w)
{
    char *all = format("%s", ""), *error = NULL;
    for (int i = 0; i < st_count(w) && !error; i++) {
        const char *name = st_planned(w, i)->name;
        Sink sum = {0};
        error = copy_tensor(p, &sum, name);
        char *longer = format("%s%s%s:%08x", all, i ? " " : "", name, sum.sum);
        free(all);
        all = longer;
    }
    if (!error)
        error = st_add_meta(w, "crc32c", all);
    free(all);
    return error;
}

static void add_count(StWriter *w, const char *key, int64_t n)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, n);
    st_add_meta(w, key, text);
}

TokenIds token_ids(const Tokenizer *t)
{
    return (TokenIds){tokenizer_id(t), tokenizer_size(t), tokenizer_eos(t), tokenizer_mask(t),
                      tokenizer_pad(t), tokenizer_bos(t)};
}

/* "256,-1,-1,255", malloc'ed. */
static char *special_text(const TokenIds *ids)
{
    return format("%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64, ids->eos, ids->mask, ids->pad,
                  ids->bos);
}

bool token_ids_same(const TokenIds *ids, const StFile *file)
{
    static const char *const key[] = {"eos", "mask_id", "pad_id"};
    const int64_t want[] = {ids->eos, ids->mask, ids->pad};
    char *special = special_text(ids);
    const char *its = st_meta(file, "special");
    bool same = !its || !strcmp(its, special);
    for (int i = 0; i < 3 && !its; i++) {
        const char *id = st_meta(file, key[i]);
        same = same && (id ? strtoll(id, NULL, 10) : -1) == want[i];
    }
    free(special);
    return same;
}

/* Adds the metadata of all kinds of record files, but for the sums of tensors. */
static void add_meta(const Pack *p, StWriter *w, const TokenIds *ids, const char *sha256,
                     const char *fingerprint, const Rules *rules)
{
    static const char *const dropped[] = {
        "",
#define DROP(id, name, why) "dropped_" name,
#include "runtime/pack/drops.def"
#undef DROP
    };
    const bool steps = p->records && p->records->drops;
    st_add_meta(w, "kind", kind_name[p->kind]);
    st_add_meta(w, "tokenizer", ids->id);
    add_count(w, "vocab", ids->size);
    add_count(w, "eos", ids->eos);
    if (ids->mask >= 0)
        add_count(w, "mask_id", ids->mask);
    if (ids->pad >= 0)
        add_count(w, "pad_id", ids->pad);
    char *special = special_text(ids);
    st_add_meta(w, "special", special);
    free(special);
    st_add_meta(w, "sha256", sha256);
    st_add_meta(w, "fingerprint", fingerprint);
    if (p->kind != KIND_PACKED) {
        add_count(w, "max_length", p->max_length);
        add_count(w, "cut", p->cut);
        for (int i = 1; i < DROP_MALFORMED; i++)
            if (i < DROP_STEPS || steps)
                add_count(w, dropped[i], p->dropped[i]);
        if (p->finds_targets)
            st_add_meta(w, "targets", "own");
        if (rules->loss != LOSS_DEFAULT)
            st_add_meta(w, "loss_on", loss_name[rules->loss]);
    }
    if (p->nbad) {
        char *lines = pack_skipped(p);
        add_count(w, dropped[DROP_MALFORMED], p->nbad);
        st_add_meta(w, "malformed", lines);
        free(lines);
    }
    if (p->nheld_out)
        add_count(w, "train", p->ndocs - p->nheld_out);
    if (p->nchats > p->nrendered)
        st_add_meta(w, "chat", rules->chat->name);
    if (p->nrendered) {
        char *record = render_record(rules->render);
        st_add_meta(w, "chat_template", render_id(rules->render));
        st_add_meta(w, "chat_template_record", record);
        free(record);
    }
}

void pack_write(Pack *p, const TokenIds *ids, const char *sha256, const char *fingerprint,
                const Rules *rules)
{
    StWriter *w = st_writer(RECORDFILE_FORMAT);
    const RecordCode *more = p->records ? p->records : &(RecordCode){.drops = false};
    PartNames part[PACK_PARTS];
    const int parts = part_names(p, part);
    int64_t all = p->finds_targets ? p->ntokens : p->ntokens - p->ndocs;
    bool masked = p->kind >= KIND_PAIRS || (p->kind == KIND_ROWS && p->ntargets < all);
    ColumnPlan column[2 * PACK_PARTS + PACK_COLUMNS];
    int columns = 0;
    uint32_t crc;
    for (int i = 0; i < parts; i++) {
        spool_put(p, p->part[i].docs, &p->part[i].n, sizeof p->part[i].n);
        column[columns++] = (ColumnPlan){part[i].tokens, ST_I32, "ragged", p->part[i].n};
        if (masked)
            column[columns++] = (ColumnPlan){part[i].mask, ST_U8, part[i].tokens, p->part[i].n};
    }
    if (p->error.text) {
        st_free(w);
        return;
    }
    const int own = more->plan ? more->plan(p, w, column + columns) : 0;
    REQUIRE(own >= 0 && own <= PACK_COLUMNS);
    columns += own;
    char *error = recordfile_plan(w, p->ndocs, column, columns);
    add_meta(p, w, ids, sha256, fingerprint, rules);
    if (!error && more->meta)
        error = more->meta(p, w, rules);
    if (!error)
        error = add_sums(p, w);
    if (!error)
        error = st_begin(w, p->out);
    for (int i = 0; i < st_count(w) && !error; i++)
        error = copy_tensor(p, &(Sink){.w = w}, st_planned(w, i)->name);
    if (!error)
        error = st_end(w, &crc);
    st_free(w);
    if (error)
        pack_fail(p, EXIT_IO, (Location){0}, error);
}

void pack_end(Pack *p)
{
    for (int i = 0; i < PACK_PARTS; i++) {
        FILE *files[] = {p->part[i].tokens, p->part[i].mask, p->part[i].docs};
        for (int k = 0; k < 3; k++)
            if (files[k])
                fclose(files[k]);
    }
    if (p->records && p->records->free)
        p->records->free(p);
    for (int i = 0; i < p->nbad; i++)
        free(p->bad[i].why);
    free(p->bad);
    free(p->held_out);
    free(p->error.text), free(p->error.file);
    keys_free(&p->keys);
    *p = (Pack){0};
}
