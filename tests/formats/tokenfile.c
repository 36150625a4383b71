/* tokenfile.c -- checks token files and record files of any columns; prints a token file. */
#define _GNU_SOURCE
#include "formats.h"
#include "../../runtime/base.h"
#include "../../runtime/data/tokenfile.h"
#include "../../runtime/files/safetensors.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- token files ----------------------------------------------------------------------------- */

typedef struct {
    const char *name, *why;
    const char *format, *kind, *vocab, *eos, *max_length;
    int64_t doc[4];
    int32_t token;
    uint8_t mask;
    StDtype dtype;
} TokenCase;
#define FINE TOKENFILE_FORMAT, "rows", "257", "256", "8"

static const TokenCase token_cases[] = {
    {"good", NULL, FINE, {0, 2, 3, 5}, 256, 1, ST_I32},
    {"other format", "format is pt", "pt", "rows", "257", "256", "8", {0, 2, 3, 5}, 0, 1, ST_I32},
    {"other kind", "column mask: must be I32, ragged", TOKENFILE_FORMAT, "heap", "257", "256", "8",
     {0, 2, 3, 5}, 0, 1, ST_I32},
    {"vocab is text", "vocab: must be an integer", TOKENFILE_FORMAT, "rows", "many", "256", "8",
     {0, 2, 3, 5}, 0, 1, ST_I32},
    {"vocab overflows", "vocab: must be an integer", TOKENFILE_FORMAT, "rows", "99999999999999999999",
     "256", "8", {0, 2, 3, 5}, 0, 1, ST_I32},
    {"eos beyond vocab", "eos: must be -1 or an id", TOKENFILE_FORMAT, "rows", "257", "257", "8",
     {0, 2, 3, 5}, 0, 1, ST_I32},
    {"row longer than max_length", "row 1: 2 tokens, max_length is 1", TOKENFILE_FORMAT, "rows",
     "257", "256", "1", {0, 1, 3, 5}, 0, 1, ST_I32},
    {"offsets end early", "run from 0 to 4, must be 0 to 5", FINE, {0, 2, 3, 4}, 0, 1, ST_I32},
    {"offsets end late", "run from 0 to 6, must be 0 to 5", FINE, {0, 2, 3, 6}, 0, 1, ST_I32},
    {"offsets start late", "run from 1 to 5", FINE, {1, 2, 3, 5}, 0, 1, ST_I32},
    {"offsets fall", "doc_offsets[2]: 1 after 2", FINE, {0, 2, 1, 5}, 0, 1, ST_I32},
    {"empty document", "doc_offsets[2]: 2 after 2", FINE, {0, 2, 2, 5}, 0, 1, ST_I32},
    {"offset far away", "doc_offsets[2]: -9223372036854775807 after 2", FINE, {0, 2, -INT64_MAX, 5},
     0, 1, ST_I32},
    {"mask of 2", "mask[1]: 2, must be 0 or 1", FINE, {0, 2, 3, 5}, 0, 2, ST_I32},
    {"tokens as I64", "tokens: must be I32", FINE, {0, 2, 3, 5}, 0, 1, ST_I64},
};

static char *make_tokens(const TokenCase *c)
{
    StWriter *w = st_writer(c->format);
    char *path = place("tokens.safetensors"), *error;
    int64_t five = 5, four = 4;
    int32_t tokens[10] = {1, c->token};
    uint8_t mask[5] = {0, c->mask, 0, 0, 1};
    st_add(w, "tokens", c->dtype, 1, &five);
    st_add(w, "doc_offsets", ST_I64, 1, &four);
    st_add(w, "mask", ST_U8, 1, &five);
    st_add_meta(w, "kind", c->kind);
    st_add_meta(w, "tokenizer", "bytes");
    st_add_meta(w, "vocab", c->vocab);
    st_add_meta(w, "eos", c->eos);
    st_add_meta(w, "sha256", "00");
    st_add_meta(w, "max_length", c->max_length);
    error = st_begin(w, path);
    if (error || (error = st_write(w, "doc_offsets", c->doc, 32)) ||
        (error = st_write(w, "tokens", tokens, c->dtype == ST_I32 ? 20 : 40)) ||
        (error = st_write(w, "mask", mask, 5)) || (error = st_end(w, &(uint32_t){0})))
        verdict("token file", error);
    st_free(w);
    return path;
}

static void check_tokenfile(void)
{
    TokenFile f;
    for (size_t i = 0; i < sizeof token_cases / sizeof *token_cases; i++) {
        const TokenCase *c = &token_cases[i];
        char *error = tokenfile_open(&f, make_tokens(c));
        bool fine = c->why ? error && strstr(error, c->why) : !error;
        verdict(format("token file: %s", c->name), fine ? NULL : error ? error : "accepted");
        if (!error)
            tokenfile_close(&f);
    }
    char *path = make_tokens(&token_cases[0]);
    if (tokenfile_open(&f, path))
        return;
    char *low = tokenfile_check_ids(&f, 256), *fine = tokenfile_check_ids(&f, 257);
    verdict("token file: ids in range", fine);
    verdict("token file: an id beyond the vocabulary", low &&
            strstr(low, "tokens[1]: id 256 is outside the vocabulary, 0 to 255") ? NULL : "other message");
    tokenfile_close(&f);
    TokenCase negative = token_cases[0];
    negative.token = -1;
    if (tokenfile_open(&f, make_tokens(&negative)))
        return;
    low = tokenfile_check_ids(&f, 257);
    verdict("token file: a negative id", low && strstr(low, "tokens[1]: id -1")
            ? NULL : "other message");
    tokenfile_close(&f);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        close(2);
        _exit(tokenfile_open(&f, path) || truncate(path, 0) || tokenfile_check_ids(&f, 257));
    }
    int status;
    waitpid(pid, &status, 0);
    verdict("token file: cut short while it is checked", WIFEXITED(status) &&
            WEXITSTATUS(status) == EXIT_DATA ? NULL : format("status %x", (unsigned)status));
    make_tokens(&token_cases[0]);
    truncate(path, 200);
    verdict("token file: truncated", tokenfile_open(&f, path) ? NULL : "accepted");
}

/* ---- records of any columns ------------------------------------------------------------------- */

/* Three pairs of answers, of other lengths each and one empty, with numbers. */
static const int32_t chosen[] = {1, 2, 3, 4, 5}, rejected[] = {6, 7, 8};
static const int64_t chosen_at[] = {0, 2, 2, 5}, rejected_at[] = {0, 1, 2, 3};
static const float score[] = {0.5f, 1.5f, 2.5f, 3.5f, 4.5f, 5.5f}, weight[] = {1, 2, 3};
static const uint8_t seen[] = {1, 0, 1, 0, 1};

static const struct {
    const char *name, *why, *columns, *records;
    int64_t middle;              /* of chosen.offsets */
} record_cases[] = {
    {"good", NULL, NULL, "3", 2},
    {"offsets fall", "chosen.offsets[2]: -1 after 2, must be ascending", NULL, "3", -1},
    {"offsets far away", "chosen.offsets[3]: 5 after 1099511627776", NULL, "3", INT64_C(1) << 40},
    {"other number of records", "tensor weight: its shape must be [4, ...]", NULL, "4", 2},
    {"no number of records", "records: must be an integer from 1, got \"\"", NULL, "", 2},
    {"a column is not told of", "has 1 tensors besides its columns and their offsets",
     "weight=fixed score=fixed chosen=ragged rejected=ragged", "3", 2},
    {"a column is not there", "tensor price: is missing", "price=fixed", "3", 2},
    {"a column twice", "weight is listed twice", "weight=fixed weight=fixed", "3", 2},
    {"as a column that is fixed", "seen=weight: must be fixed, ragged or", "weight=fixed seen=weight", "3", 2},
    {"as a column after it", "seen=chosen: must be fixed, ragged or", "seen=chosen", "3", 2},
    {"as one of another length", "tensor seen: must be U8 [3]", "rejected=ragged seen=rejected", "3", 2},
    {"no kind", "must be NAME=fixed, NAME=ragged or NAME=OTHER, got \"weight\"", "weight", "3", 2},
};

static char *make_records(size_t k)
{
    char *path = place("records.safetensors"), *error;
    StWriter *w = st_writer(RECORDFILE_FORMAT);
    const ColumnPlan column[] = {{"weight", ST_F32, "fixed", 1}, {"score", ST_F32, "fixed", 2},
                                 {"chosen", ST_I32, "ragged", 5}, {"rejected", ST_I32, "ragged", 3},
                                 {"seen", ST_U8, "chosen", 5}};
    const int64_t at[] = {0, 2, record_cases[k].middle, 5};
    const struct { const char *name; const void *data; } data[] = {
        {"weight", weight}, {"score", score}, {"chosen", chosen}, {"rejected", rejected},
        {"seen", seen}, {"chosen.offsets", at}, {"rejected.offsets", rejected_at}};
    if (record_cases[k].columns || strcmp(record_cases[k].records, "3")) {
        for (int i = 0; i < 5; i++)
            st_add(w, column[i].name, column[i].dtype, column[i].n == 2 ? 2 : 1,
                   column[i].n == 2 ? (int64_t[]){3, 2} : (int64_t[]){i ? column[i].n : 3});
        st_add(w, "chosen.offsets", ST_I64, 1, &(int64_t){4});
        st_add(w, "rejected.offsets", ST_I64, 1, &(int64_t){4});
        st_add_meta(w, "records", record_cases[k].records);
        st_add_meta(w, "columns", record_cases[k].columns ? record_cases[k].columns
                    : "weight=fixed score=fixed chosen=ragged rejected=ragged seen=chosen");
    } else if ((error = recordfile_plan(w, 3, column, 5))) {
        verdict("records: plan", error);
    }
    error = st_begin(w, path);
    for (int i = 0; i < st_count(w) && !error; i++) {
        const StTensor *t = st_planned(w, i);
        for (size_t j = 0; j < sizeof data / sizeof *data; j++)
            if (!strcmp(data[j].name, t->name))
                error = st_write(w, t->name, data[j].data, t->end - t->begin);
    }
    if (error || (error = st_end(w, &(uint32_t){0})))
        verdict("records: write", error);
    st_free(w);
    return path;
}

static bool holds(const RecordFile *f, const char *name, int64_t record, const void *want,
                  int64_t n, size_t size)
{
    int64_t got;
    const Column *c = recordfile_column(f, name);
    const void *at = c ? recordfile_at(f, c, record, &got) : NULL;
    return at && got == n && !memcmp(at, want, (size_t)n * size);
}

static void check_records(void)
{
    RecordFile f;
    for (size_t i = 0; i < sizeof record_cases / sizeof *record_cases; i++) {
        char *error = recordfile_open(&f, make_records(i)), *why = (char *)record_cases[i].why;
        bool fine = why ? error && strstr(error, why) : !error;
        verdict(format("records: %s", record_cases[i].name),
                fine ? NULL : error ? error : "accepted");
        if (!error)
            recordfile_close(&f);
    }
    char *path = make_records(0), *error = recordfile_open(&f, path);
    bool good = !error && f.n == 3 && f.ncolumns == 5 && !recordfile_column(&f, "price");
    for (int64_t r = 0; r < 3 && good; r++) {
        int64_t n = chosen_at[r + 1] - chosen_at[r];
        good = holds(&f, "weight", r, weight + r, 1, 4) && holds(&f, "score", r, score + 2 * r, 2, 4)
            && holds(&f, "chosen", r, chosen + chosen_at[r], n, 4)
            && holds(&f, "seen", r, seen + chosen_at[r], n, 1)
            && holds(&f, "rejected", r, rejected + rejected_at[r], 1, 4);
    }
    verdict("records: fixed and ragged columns", good ? NULL : error ? error : "other values");
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(path, O_WRONLY);
        int64_t bad = 9, n;
        const Column *c = recordfile_column(&f, "chosen");
        off_t at = (off_t)((const char *)c->offsets - (const char *)f.map_) + 8;
        close(2);
        if (pwrite(fd, &bad, 8, at) == 8)
            recordfile_at(&f, c, 0, &n);
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    verdict("records: changed while in use", WIFEXITED(status) && WEXITSTATUS(status) == EXIT_DATA
            ? NULL : format("status %x", (unsigned)status));
    recordfile_close(&f);
}

/* A document's values in the columns other than its parts and their masks. */
static void dump_beside(const TokenFile *f, int64_t doc)
{
    for (int i = 0; i < f->records.ncolumns; i++) {
        const Column *c = &f->records.column[i];
        bool part = false;
        int64_t n;
        for (int k = 0; k < f->nparts; k++)
            part = part || c->offsets == f->part[k].doc;
        if (part)
            continue;
        const void *at = recordfile_at(&f->records, c, doc, &n);
        printf(" %s", c->name);
        for (int64_t k = 0; k < n && c->dtype == ST_F32; k++)
            printf(" %g", (double)((const float *)at)[k]);
        for (int64_t k = 0; k < n && c->dtype == ST_I32; k++)
            printf(" %d", ((const int32_t *)at)[k]);
        if (c->dtype == ST_U8)
            printf(" %.*s", (int)n, (const char *)at);
    }
}

int dump(const char *path)
{
    TokenFile f;
    char *error = tokenfile_open(&f, path);
    error = error ? error : tokenfile_check_sums(&f);
    if (error) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    for (int64_t k = 0; k < f.ndocs * f.nparts; k++) {
        const TokenPart *p = &f.part[k % f.nparts];
        int64_t begin = p->doc[k / f.nparts], end = p->doc[k / f.nparts + 1];
        if (f.nparts > 1)
            printf("%s ", p->name);
        for (int64_t i = begin; i < end; i++)
            printf("%d%s%s", p->tokens[i], !p->mask || p->mask[i] ? "*" : "", i + 1 < end ? " " : "");
        if (k % f.nparts == f.nparts - 1)
            dump_beside(&f, k / f.nparts);
        printf("\n");
    }
    tokenfile_close(&f);
    return 0;
}

void check_tokenfiles(void)
{
    check_tokenfile();
    check_records();
}
