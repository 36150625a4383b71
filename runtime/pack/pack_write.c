/* pack_write.c -- rows and documents to the token file that a training binary maps.
 *
 * Out:   one safetensors file, see runtime/data/tokenfile.h.
 * Keeps: ids go through unnamed files beside the output, so memory does not grow with the corpus;
 *        what these functions get depends on the order of the rows alone. */
#define _GNU_SOURCE
#include "runtime/pack/pack.h"

#include "runtime/base.h"
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

const char *const kind_name[] = {"auto", "packed", "rows"};
const char *const loss_name[] = {"", "last", "assistant", "all"};

/* ---- files without names --------------------------------------------------------------------- */

void pack_fail(Pack *p, int code, Place at, char *text)
{
    if (p->error.text)
        free(text);
    else
        p->error = (PackError){text, at, code};
}

static FILE *spool_open(Pack *p)
{
    const char *out = p->out;
    char *folder = format("%s", out), *slash = strrchr(folder, '/');
    if (slash)
        slash[slash == folder] = 0;
    int fd = open(slash ? folder : ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
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
        pack_fail(p, EXIT_IO, (Place){out, 0},
                  format("scratch space beside it: %s", strerror(errno)));
    return f;
}

static void spool_put(Pack *p, FILE *f, const void *data, size_t bytes)
{
    if (p->out && !p->error.text && fwrite(data, 1, bytes, f) != bytes)
        pack_fail(p, EXIT_IO, (Place){p->out, 0},
                  format("scratch space beside it: %s", strerror(errno)));
}

/* A file that is there already goes away at the end: only one of ours may. */
static char *check_output(const char *out)
{
    struct stat st;
    char head[4096] = "";
    if (stat(out, &st) || (S_ISREG(st.st_mode) && !st.st_size))
        return NULL;
    FILE *f = S_ISREG(st.st_mode) ? fopen(out, "r") : NULL;
    size_t n = f ? fread(head, 1, sizeof head, f) : 0;
    if (f)
        fclose(f);
    bool ours = memmem(head, n, RECORDFILE_FORMAT, strlen(RECORDFILE_FORMAT)) ||
                memmem(head, n, TOKENFILE_FORMAT, strlen(TOKENFILE_FORMAT));
    return ours ? NULL
         : format("is there already and is no token file: -o wants another name");
}

void pack_begin(Pack *p)
{
    if (!p->out)
        return;
    char *error = check_output(p->out);
    if (error) {
        pack_fail(p, EXIT_IO, (Place){p->out, 0}, error);
        return;
    }
    p->tokens = spool_open(p);
    p->mask = spool_open(p);
    p->docs = spool_open(p);
}

/* ---- rows ------------------------------------------------------------------------------------ */

char *pack_kind(Pack *p, const RowOut *row)
{
    const Format *f = &pack_format[row->form];
    bool document = f->reads == READS_TEXT;
    p->own = f->own;
    if (p->kind == KIND_AUTO) {
        p->kind = f->rows ? KIND_ROWS : KIND_PACKED;
        if (p->kind == KIND_PACKED && p->max_length)
            return format("--max-length cuts rows, and these are packed documents: drop it%s",
                          document ? "" : " or add --kind rows");
    }
    if (p->kind == KIND_ROWS && !p->max_length)
        p->max_length = PACK_LENGTH;
    if (p->kind == KIND_ROWS && document)
        return format("a text file is a document without rows: pack it on its own, without "
                      "--kind rows");
    if (p->kind == KIND_PACKED && f->rows)
        return format("%s make rows with masked prompts; they cannot be packed with plain text",
                      f->keys);
    return NULL;
}

static void counts_add(Pack *p, const RowOut *row)
{
    p->nbytes += row->bytes;
    p->nform[row->form]++;
    p->not_prefix += row->not_prefix;
    p->more_answers += row->more_answers;
    p->nchats += row->chat;
}

size_t pack_row(Pack *p, const int32_t *id, const uint8_t *target, const RowOut *row,
                size_t *targets)
{
    const bool first = pack_format[row->form].own;   /* else nothing predicts it */
    size_t n = row->n;
    counts_add(p, row);
    if (p->kind == KIND_ROWS && p->max_length < (int64_t)n) {
        n = (size_t)p->max_length;
        p->cut++;
    }
    p->cut += row->cut;
    *targets = 0;
    for (size_t i = !first; i < n; i++)
        *targets += target[i];
    Drop drop = row->drop || p->kind == KIND_PACKED || *targets ? row->drop : DROP_NO_TARGET;
    if (drop) {
        p->dropped[drop]++;
        return n;
    }
    spool_put(p, p->docs, &p->ntokens, sizeof p->ntokens);
    spool_put(p, p->tokens, id, n * sizeof *id);
    if (p->kind == KIND_ROWS)
        spool_put(p, p->mask, target, n);
    p->ntargets += (int64_t)*targets;
    p->ntokens += (int64_t)n;
    p->ndocs++;
    return n;
}

void pack_stretch(Pack *p, const int32_t *id, size_t n, const RowOut *row, bool first)
{
    if (first) {
        spool_put(p, p->docs, &p->ntokens, sizeof p->ntokens);
        counts_add(p, row);
        p->ndocs++;
    } else {
        p->nbytes += row->bytes;
    }
    spool_put(p, p->tokens, id, n * sizeof *id);
    p->ntokens += (int64_t)n;
    p->ntargets += (int64_t)n - first;
}

/* ---- the file -------------------------------------------------------------------------------- */

static char *copy_spool(StWriter *w, const char *name, FILE *from)
{
    char *buf = malloc(BLOCK), *error = NULL;
    rewind(from);
    for (size_t n; !error && (n = fread(buf, 1, BLOCK, from));)
        error = st_write(w, name, buf, n);
    if (!error && ferror(from))
        error = format("%s: scratch space beside the file: %s", name, strerror(errno));
    free(buf);
    return error;
}

static void add_count(StWriter *w, const char *key, int64_t n)
{
    char text[24];
    snprintf(text, sizeof text, "%" PRId64, n);
    st_add_meta(w, key, text);
}

void pack_write(Pack *p, const Tokenizer *tok, const char *sha256, const char *fingerprint,
                const Rules *rules)
{
    StWriter *w = st_writer(RECORDFILE_FORMAT);
    static const char *const dropped[] = {
        "",
#define DROP(id, name, why) "dropped_" name,
#include "runtime/pack/drops.def"
#undef DROP
    };
    int64_t all = p->own ? p->ntokens : p->ntokens - p->ndocs;
    bool masked = p->kind == KIND_ROWS && p->ntargets < all;
    uint32_t crc;
    spool_put(p, p->docs, &p->ntokens, sizeof p->ntokens);
    const ColumnPlan column[] = {{"tokens", ST_I32, "ragged", p->ntokens},
                                 {"mask", ST_U8, "tokens", p->ntokens}};
    char *error = recordfile_plan(w, p->ndocs, column, 1 + masked);
    st_add_meta(w, "kind", kind_name[p->kind]);
    st_add_meta(w, "tokenizer", tokenizer_id(tok));
    add_count(w, "vocab", tokenizer_size(tok));
    add_count(w, "eos", tokenizer_eos(tok));
    if (tokenizer_mask(tok) >= 0)
        add_count(w, "mask_id", tokenizer_mask(tok));
    if (tokenizer_pad(tok) >= 0)
        add_count(w, "pad_id", tokenizer_pad(tok));
    st_add_meta(w, "sha256", sha256);
    st_add_meta(w, "fingerprint", fingerprint);
    if (p->kind == KIND_ROWS) {
        add_count(w, "max_length", p->max_length);
        add_count(w, "cut", p->cut);
        for (int i = 1; i < NDROPS; i++)
            add_count(w, dropped[i], p->dropped[i]);
        if (p->own)
            st_add_meta(w, "targets", "own");
        if (rules->loss != LOSS_DEFAULT)
            st_add_meta(w, "loss_on", loss_name[rules->loss]);
    }
    if (p->nchats)
        st_add_meta(w, "chat", rules->chat->name);
    if (!error)
        error = st_begin(w, p->out);
    if (!error)
        error = copy_spool(w, "tokens.offsets", p->docs);
    if (!error)
        error = copy_spool(w, "tokens", p->tokens);
    if (!error && masked)
        error = copy_spool(w, "mask", p->mask);
    if (!error)
        error = st_end(w, &crc);
    st_free(w);
    if (error)
        pack_fail(p, EXIT_IO, (Place){0}, error);
}

void pack_end(Pack *p)
{
    FILE *files[] = {p->tokens, p->mask, p->docs};
    for (int i = 0; i < 3; i++)
        if (files[i])
            fclose(files[i]);
    free(p->error.text);
    *p = (Pack){0};
}
