/* pack_steps.c -- records of step-labelled solutions: their columns besides tokens (see
 * runtime/data/steps.h), and their summary.
 *
 * In:    rows, in order.  Out: tensors, metadata, the summary. */
#define _GNU_SOURCE
#include "runtime/pack/format_steps.h"

#include "runtime/base.h"
#include "runtime/data/recordfile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_COLUMNS = 6 };      /* rows of runtime/data/steps.def */
#define CANDIDATE COLUMN
#define COLUMN(id, ...) id,
enum {
#include "runtime/data/steps.def"
};
#undef COLUMN
static const struct {
    const char *name;
    StDtype dtype;
    bool ragged;
} columns[STEPS_COLUMNS] = {
#define COLUMN(id, name, dtype, ragged) {name, ST_##dtype, ragged},
#include "runtime/data/steps.def"
#undef COLUMN
#undef CANDIDATE
};
enum { DOMAINS_MOST = 4096 };

/* A column besides the tokens, in memory: a few bytes per record. */
typedef struct {
    char *data;                  /* (bytes) elements */
    size_t bytes, cap;
    int64_t *at;                 /* ragged: offset of each record, in elements */
    size_t nat, capat;
} ColumnOut;

/* Pack.more: the state for step-labelled solutions. */
typedef struct {
    ColumnOut column[STEPS_COLUMNS];
    ColumnOut noisy;             /* one letter per record, for metadata */
    bool any_noisy;              /* one of them is a digit */
    int64_t ndomains, capdomains;
    char **domain;               /* by first occurrence */
    Lengths length;              /* of solutions before they are cut */
    int64_t questions, unlabelled, no_outcome, no_problem, preamble, right;
    struct StepsId {
        char *id;
        Location at;
    } *id_list;                  /* (nids) of records */
    int64_t nids, capids;
    int last_file, last_line, same_line;   /* of the previous row; rows of that line */
} StepsOut;

static StepsOut *steps_of(Pack *p)
{
    if (!p->more)
        p->more = calloc(1, sizeof(StepsOut));
    if (!p->more)
        abort();
    return p->more;
}

static int columns_of(const Pack *p)
{
    return p->kind == KIND_CANDIDATES ? STEPS_COLUMNS : p->kind == KIND_STEPS ? QUESTION : 0;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static void column_put(ColumnOut *c, const void *data, size_t bytes)
{
    if (c->cap - c->bytes < bytes) {
        c->cap = 2 * c->cap + bytes + 1024;
        c->data = realloc(c->data, c->cap);
        if (!c->data)
            abort();
    }
    if (bytes)
        memcpy(c->data + c->bytes, data, bytes);
    c->bytes += bytes;
}

static void column_at(ColumnOut *c, size_t size)
{
    if (c->nat == c->capat) {
        c->capat = 2 * c->capat + 1024;
        c->at = realloc(c->at, c->capat * sizeof *c->at);
        if (!c->at)
            abort();
    }
    c->at[c->nat++] = (int64_t)(c->bytes / size);
}

static void remember_id(StepsOut *s, const char *id, Location at)
{
    if (s->nids == s->capids) {
        s->capids = 2 * s->capids + 1024;
        s->id_list = realloc(s->id_list, (size_t)s->capids * sizeof *s->id_list);
        if (!s->id_list)
            abort();
    }
    s->id_list[s->nids++] = (struct StepsId){format("%s", id), at};
}

/* By id; equal ones of one file by line. */
static int by_id(const void *a, const void *b)
{
    const struct StepsId *x = a, *y = b;
    const int order = strcmp(x->id, y->id);
    return order ? order : (x->at.line > y->at.line) - (x->at.line < y->at.line);
}

static void check(Pack *p)
{
    StepsOut *s = steps_of(p);
    if (s->nids)
        qsort(s->id_list, (size_t)s->nids, sizeof *s->id_list, by_id);
    for (int64_t i = 1; i < s->nids; i++)
        if (!strcmp(s->id_list[i - 1].id, s->id_list[i].id))
            pack_fail(p, EXIT_DATA, s->id_list[i].at,
                      format("id: %s:%d also has \"%.60s\": ids name records in results, so each "
                             "must be unique; without ids, line numbers are used",
                             s->id_list[i - 1].at.file, s->id_list[i - 1].at.line,
                             s->id_list[i].id));
}

/* Returns the index of a domain, from 0, adding it if new; -1: none; -2: too many. */
static int32_t domain_of(StepsOut *s, const char *name)
{
    if (!name)
        return -1;
    for (int64_t i = 0; i < s->ndomains; i++)
        if (!strcmp(s->domain[i], name))
            return (int32_t)i;
    if (s->ndomains == DOMAINS_MOST)
        return -2;
    if (s->ndomains == s->capdomains) {
        s->capdomains = 2 * s->capdomains + 16;
        s->domain = realloc(s->domain, (size_t)s->capdomains * sizeof *s->domain);
        if (!s->domain)
            abort();
    }
    s->domain[s->ndomains] = format("%s", name);
    return (int32_t)s->ndomains++;
}

static void count(Pack *p, const RowOut *row)
{
    const ParsedSteps *r = row->more;
    StepsOut *s = steps_of(p);
    s->questions += !r->more;
    if (r->length)
        lengths_add(&s->length, r->length);
}

/* Returns a row's id, else its line, "7", which is "2:7" in the second file; the second row of a
 * line is "7.2". */
static char *row_name(StepsOut *s, const RowOut *row)
{
    const ParsedSteps *r = row->more;
    const bool same = s->last_file == row->file && s->last_line == row->line;
    char file[16] = "", of_line[16] = "";
    if (!r->more)
        s->same_line = same ? s->same_line + 1 : 1;
    s->last_file = row->file, s->last_line = row->line;
    if (row->file > 1)
        snprintf(file, sizeof file, "%d:", row->file);
    if (s->same_line > 1)
        snprintf(of_line, sizeof of_line, ".%d", s->same_line);
    return r->id ? format("%s", r->id) : format("%s%d%s", file, row->line, of_line);
}

/* That of a candidate is "7/3". */
static char *name(Pack *p, const RowOut *row)
{
    const ParsedSteps *r = row->more;
    char *of_row = row_name(steps_of(p), row), *all = of_row;
    if (r->candidate) {
        all = format("%s/%d", of_row, r->candidate);
        free(of_row);
    }
    return all;
}

static void put(Pack *p, const RowOut *row, const CutRow *k, const int32_t *ids,
                const uint8_t *target, const char *file)
{
    const ParsedSteps *r = row->more;
    StepsOut *s = p->more;
    (void)k, (void)ids, (void)target;
    const float outcome = (float)r->outcome;
    const int32_t domain = domain_of(s, r->domain), right = r->right,
                  question = (int32_t)(s->questions - 1);
    char *id = name(p, row);
    if (domain == -2)
        pack_fail(p, EXIT_DATA, (Location){file, row->line},
                  format("domain: more than %d different values: is the key an id of each record?",
                         DOMAINS_MOST));
    remember_id(s, id, (Location){file, row->line});
    column_at(&s->column[REWARDS], sizeof *r->label);
    column_at(&s->column[ID], 1);
    column_put(&s->column[REWARDS], r->label, (size_t)r->nlabels * sizeof *r->label);
    column_put(&s->column[OUTCOME], &outcome, sizeof outcome);
    column_put(&s->column[DOMAIN], &domain, sizeof domain);
    column_put(&s->column[ID], id, strlen(id));
    column_put(&s->column[QUESTION], &question, sizeof question);
    column_put(&s->column[RIGHT], &right, sizeof right);
    column_put(&s->noisy, &r->noisy, 1);
    s->any_noisy = s->any_noisy || r->noisy != '-';
    free(id);
    s->unlabelled += !r->nlabels;
    s->no_outcome += r->no_outcome;
    s->no_problem += r->no_problem;
    s->preamble += r->preamble;
    s->right += r->right == 1;
}

static void free_row(void *more)
{
    ParsedSteps *s = more;
    if (s)
        free(s->domain), free(s->id);
    free(s);
}

static void free_steps(Pack *p)
{
    StepsOut *s = p->more;
    if (!s)
        return;
    for (int i = 0; i < STEPS_COLUMNS; i++)
        free(s->column[i].data), free(s->column[i].at);
    free(s->noisy.data);
    for (int64_t i = 0; i < s->ndomains; i++)
        free(s->domain[i]);
    free(s->domain);
    for (int64_t i = 0; i < s->nids; i++)
        free(s->id_list[i].id);
    free(s->id_list);
    lengths_free(&s->length);
    free(s);
}

/* ---- the file -------------------------------------------------------------------------------- */

static int plan(Pack *p, StWriter *w, ColumnPlan *column)
{
    StepsOut *s = steps_of(p);
    (void)w;
    const int n = columns_of(p);
    for (int i = 0; i < n; i++) {
        const size_t size = (size_t)st_dtype_bits[columns[i].dtype] / 8;
        const bool ragged = columns[i].ragged;
        if (ragged)
            column_at(&s->column[i], size);
        column[i] = (ColumnPlan){columns[i].name, columns[i].dtype, ragged ? "ragged" : "fixed",
                                 ragged ? (int64_t)(s->column[i].bytes / size) : 1};
    }
    return n;
}

static const void *tensor(const Pack *p, const char *column, size_t *bytes)
{
    const StepsOut *s = p->more;
    for (int i = 0; i < columns_of(p); i++) {
        const ColumnOut *c = &s->column[i];
        const size_t n = strlen(columns[i].name);
        if (strncmp(column, columns[i].name, n))
            continue;
        *bytes = column[n] ? c->nat * sizeof *c->at : c->bytes;
        if (!column[n])
            return c->data ? c->data : "";
        if (!strcmp(column + n, ".offsets"))
            return c->at;
    }
    return NULL;
}

/* Returns the domains as a JSON list. */
static char *domains_text(const StepsOut *s)
{
    cJSON *list = cJSON_CreateArray();
    for (int64_t i = 0; i < s->ndomains; i++)
        cJSON_AddItemToArray(list, cJSON_CreateString(s->domain[i]));
    char *text = cJSON_PrintUnformatted(list);
    cJSON_Delete(list);
    return text;
}

static char *summary(const Pack *p, const Rules *rules);

static char *meta(const Pack *p, StWriter *w, const Rules *rules)
{
    const StepsOut *s = p->more;
    const StepsRules *r = rules->more;
    char *domains = domains_text(s), *text = summary(p, rules),
         *questions = format("%lld", (long long)s->questions);
    char *error = st_add_meta(w, "parts", "tokens");
    error = error ? error : st_add_meta(w, "mark", r->mark);
    error = error ? error : st_add_meta(w, "domains", domains);
    if (!error && s->any_noisy) {
        char *noisy = format("%.*s", (int)s->noisy.bytes, s->noisy.data);
        error = st_add_meta(w, "noisy", noisy);
        free(noisy);
    }
    if (!error && p->kind == KIND_CANDIDATES)
        error = st_add_meta(w, "questions", questions);
    error = error ? error : st_add_meta(w, "said", text);
    free(domains), free(text), free(questions);
    return error;
}

/* ---- the summary ----------------------------------------------------------------------------- */

/* Returns ", 3 with a step of no text" for each reason; malloc'ed. */
static char *left_out(const Pack *p)
{
    char *all = format("%s", "");
    for (int i = DROP_NO_TARGET; i < NDROPS; i++) {
        char *longer = !p->dropped[i] ? NULL
                     : format("%s%s %lld %s", all, *all ? "," : ":", (long long)p->dropped[i],
                              drop_why[i]);
        if (longer)
            free(all), all = longer;
    }
    return all;
}

/* Appends a count of rows to a line. */
static void also(FILE *to, int64_t n, const char *what)
{
    if (n)
        fprintf(to, "; %lld %s", (long long)n, what);
}

static char *summary(const Pack *p, const Rules *rules)
{
    const StepsOut *s = p->more;
    const StepsRules *r = rules->more;
    char *text, *out = left_out(p), *lengths = s->length.n ? lengths_text(&s->length, "solutions")
                                                              : format("none");
    size_t n;
    int64_t dropped = 0;
    FILE *to = open_memstream(&text, &n);
    for (int i = 0; i < NDROPS; i++)
        dropped += p->dropped[i];
    fprintf(to, "%lld %s, %lld tokens, %lld marks, %lld cut to %lld tokens; %lld left out%s\n",
            (long long)p->ndocs, p->kind == KIND_CANDIDATES ? "candidates" : "records",
            (long long)p->ntokens, (long long)p->ntargets, (long long)p->cut,
            (long long)p->max_length, (long long)dropped, out);
    fprintf(to, "lengths before cutting: %s", lengths);
    also(to, s->unlabelled && p->kind == KIND_STEPS ? s->unlabelled : 0,
         "have no labels and cannot be trained on");
    also(to, p->kind == KIND_STEPS ? s->no_outcome : 0,
         "have no meta_label: taken as right, unless a stepwise label is false");
    also(to, s->no_problem, "have no problem");
    also(to, s->preamble, "have text before their first step, which is dropped");
    if (p->kind == KIND_CANDIDATES)
        fprintf(to, "; of %lld problems, %lld right", (long long)s->questions, (long long)s->right);
    fprintf(to, "\nmark %s, token %lld; for gen: prm.steps=%lld prm.records=%lld", r->mark,
            (long long)r->mark_id, (long long)r->steps, (long long)p->ndocs);
    if (s->ndomains)
        fprintf(to, " prm.domains=%lld", (long long)s->ndomains);
    fclose(to);
    free(out), free(lengths);
    return text;
}

/* Returns text without control characters, malloc'ed. */
static char *plain(const char *text)
{
    char *copy = format("%s", text ? text : "");
    for (unsigned char *c = (unsigned char *)copy; *c; c++)
        if (*c < ' ' || *c == 127 || (*c == 0xc2 && c[1] < 0xa0))
            *c = '?';
    return copy;
}

static void show(const RowOut *row)
{
    const ParsedSteps *r = row->more;
    printf("  labels");
    for (int i = 0; i < r->nlabels; i++)
        printf(" %g", (double)r->label[i]);
    char *domain = plain(r->domain), *id = plain(r->id);
    printf("%s; %s%s%s%s%s\n", r->nlabels ? "" : " none",
           r->candidate ? r->right < 0 ? "right: not given" : r->right ? "right" : "wrong"
                        : r->outcome ? "meta_label 1" : "meta_label 0",
           r->domain ? "; domain " : "", domain, r->id ? "; id " : "", id);
    free(domain), free(id);
}

/* ---- rules ----------------------------------------------------------------------------------- */

/* Finds the id of the step mark. */
static char *begin(Rules *rules, const PackOptions *o, Tokenizer *tok)
{
    const StepsRules *asked = o->more;
    if (!asked || !asked->mark)
        return NULL;
    StepsRules *r = rules->more = malloc(sizeof *r);
    if (!r)
        abort();
    *r = *asked;
    r->unlabelled = r->unlabelled && !o->trains;
    r->mark_id = tokenizer_added(tok, r->mark);
    /* rows have all turns, which chat formats with the same tokens render alike */
    rules->has_turns = o->kind >= KIND_STEPS && *r->system;
    if (r->mark_id >= 0 && asked->mark_id && asked->mark_id != r->mark_id)
        return format("the step mark %s is token %lld of the tokenizer, not %lld", r->mark,
                      (long long)r->mark_id, (long long)asked->mark_id);
    if (r->mark_id >= 0 || !asked->mark_id)
        return NULL;
    r->mark_id = asked->mark_id;
    return tokenizer_add(tok, r->mark, (int32_t)asked->mark_id);
}

static char *fingerprint(const Rules *rules)
{
    const StepsRules *r = rules->more;
    return format(" steps %s %lld %lld %lld %d %s", r->mark, (long long)r->mark_id,
                  (long long)r->steps, (long long)r->rewards, r->unlabelled, r->system);
}

static char *targets(const Rules *rules)
{
    return format("the marks %s after steps", ((const StepsRules *)rules->more)->mark);
}

const RecordCode steps_records = {
    .part = {"tokens"}, .drops = true, .begin = begin, .free_rules = free,
    .fingerprint = fingerprint, .targets = targets, .free_row = free_row, .name = name,
    .show = show, .count = count, .put = put, .check = check, .plan = plan, .meta = meta,
    .tensor = tensor, .summary = summary, .free = free_steps};
