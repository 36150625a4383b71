/* pack_steps.c -- what records of solutions in steps have beside their tokens: columns in memory, and what
 * people are told of them. The columns are those of runtime/data/steps.h.
 *
 * In:    rows, in order.  Out: tensors, metadata, the summary. */
#define _GNU_SOURCE
#include "runtime/pack/pack.h"

#include "runtime/base.h"
#include "runtime/data/recordfile.h"

#include <stdlib.h>
#include <string.h>

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

static void remember_id(StepsOut *s, const char *id, Place at)
{
    if (s->nown == s->capown) {
        s->capown = 2 * s->capown + 1024;
        s->own = realloc(s->own, (size_t)s->capown * sizeof *s->own);
        if (!s->own)
            abort();
    }
    s->own[s->nown++] = (struct StepsId){format("%s", id), at};
}

/* Equal ones in the order of their lines, if they are of one file. */
static int by_id(const void *a, const void *b)
{
    const struct StepsId *x = a, *y = b;
    const int order = strcmp(x->id, y->id);
    return order ? order : (x->at.line > y->at.line) - (x->at.line < y->at.line);
}

void steps_check_ids(Pack *p)
{
    StepsOut *s = &p->steps;
    if (s->nown)
        qsort(s->own, (size_t)s->nown, sizeof *s->own, by_id);
    for (int64_t i = 1; i < s->nown; i++)
        if (!strcmp(s->own[i - 1].id, s->own[i].id))
            pack_fail(p, EXIT_DATA, s->own[i].at,
                      format("id: %s:%d has \"%.60s\", too: what is learned of a record is told by its id; want "
                             "one of its own for each, or none: then it is the number of its line",
                             s->own[i - 1].at.file, s->own[i - 1].at.line, s->own[i].id));
}

/* Which of those that came so far, from 0; -1: it has none; -2: there are too many. */
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

void steps_count(Pack *p, const RowOut *row)
{
    const StepsSaid *r = row->steps;
    p->steps.questions += !r->more;
    if (r->length)
        lengths_add(&p->length[0], r->length);
}

char *steps_name(StepsOut *s, const RowOut *row, const char *file)
{
    const StepsSaid *r = row->steps;
    const bool same = s->last_file && !strcmp(s->last_file, file) && s->last_line == row->line;
    if (!r->more)
        s->same_line = same ? s->same_line + 1 : 1;
    s->last_line = row->line, s->last_file = file;
    char *own = r->id ? format("%s", r->id) : s->same_line > 1 ? format("%d.%d", row->line, s->same_line)
                                                               : format("%d", row->line);
    char *all = r->candidate ? format("%s/%d", own, r->candidate) : format("%s", own);
    free(own);
    return all;
}

void steps_put(Pack *p, const RowOut *row, const char *file)
{
    const StepsSaid *r = row->steps;
    StepsOut *s = &p->steps;
    const float outcome = (float)r->outcome;
    const int32_t domain = domain_of(s, r->domain), question = (int32_t)(s->questions - 1), right = r->right;
    char *id = steps_name(s, row, file);
    if (domain == -2)
        pack_fail(p, EXIT_DATA, (Place){file, row->line},
                  format("domain: more than %d different ones: is it the id of each?", DOMAINS_MOST));
    if (r->id && !r->more)
        remember_id(s, r->id, (Place){file, row->line});
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

void steps_free(StepsOut *s)
{
    for (int i = 0; i < STEPS_COLUMNS; i++)
        free(s->column[i].data), free(s->column[i].at);
    free(s->noisy.data);
    for (int64_t i = 0; i < s->ndomains; i++)
        free(s->domain[i]);
    free(s->domain);
    for (int64_t i = 0; i < s->nown; i++)
        free(s->own[i].id);
    free(s->own);
    *s = (StepsOut){.ndomains = 0};
}

/* ---- the file -------------------------------------------------------------------------------- */

int steps_plan(Pack *p, ColumnPlan *column)
{
    const int n = columns_of(p);
    for (int i = 0; i < n; i++) {
        const size_t size = (size_t)st_dtype_bits[columns[i].dtype] / 8;
        const bool ragged = columns[i].ragged;
        if (ragged)
            column_at(&p->steps.column[i], size);
        column[i] = (ColumnPlan){columns[i].name, columns[i].dtype, ragged ? "ragged" : "fixed",
                                 ragged ? (int64_t)(p->steps.column[i].bytes / size) : 1};
    }
    return n;
}

const void *steps_tensor(const Pack *p, const char *name, size_t *bytes)
{
    for (int i = 0; i < columns_of(p); i++) {
        const ColumnOut *c = &p->steps.column[i];
        const size_t n = strlen(columns[i].name);
        if (strncmp(name, columns[i].name, n))
            continue;
        *bytes = name[n] ? c->nat * sizeof *c->at : c->bytes;
        if (!name[n])
            return c->data ? c->data : "";
        if (!strcmp(name + n, ".offsets"))
            return c->at;
    }
    return NULL;
}

/* As a list of JSON. */
static char *domains_text(const StepsOut *s)
{
    cJSON *list = cJSON_CreateArray();
    for (int64_t i = 0; i < s->ndomains; i++)
        cJSON_AddItemToArray(list, cJSON_CreateString(s->domain[i]));
    char *text = cJSON_PrintUnformatted(list);
    cJSON_Delete(list);
    return text;
}

char *steps_meta(const Pack *p, StWriter *w, const Rules *rules)
{
    char *domains = domains_text(&p->steps), *said = steps_summary(p, rules),
         *questions = format("%lld", (long long)p->steps.questions);
    char *error = st_add_meta(w, "parts", "tokens");
    error = error ? error : st_add_meta(w, "mark", rules->steps.mark);
    error = error ? error : st_add_meta(w, "domains", domains);
    if (!error && p->steps.any_noisy) {
        char *noisy = format("%.*s", (int)p->steps.noisy.bytes, p->steps.noisy.data);
        error = st_add_meta(w, "noisy", noisy);
        free(noisy);
    }
    if (!error && p->kind == KIND_CANDIDATES)
        error = st_add_meta(w, "questions", questions);
    error = error ? error : st_add_meta(w, "said", said);
    free(domains), free(said), free(questions);
    return error;
}

/* ---- for people ------------------------------------------------------------------------------ */

/* ", 3 with a step of no text" for each reason; malloc'ed. */
static char *left_out(const Pack *p)
{
    char *all = format("%s", "");
    for (int i = DROP_NO_TARGET; i < NDROPS; i++) {
        char *longer = p->dropped[i] ? format("%s%s %lld %s", all, *all ? "," : ":", (long long)p->dropped[i],
                                              drop_why[i]) : NULL;
        if (longer)
            free(all), all = longer;
    }
    return all;
}

/* The end of a line, which says how many rows are so. */
static void also(FILE *to, int64_t n, const char *what)
{
    if (n)
        fprintf(to, "; %lld %s", (long long)n, what);
}

char *steps_summary(const Pack *p, const Rules *rules)
{
    const StepsOut *s = &p->steps;
    char *text, *out = left_out(p), *lengths = p->length[0].n ? lengths_said(&p->length[0], "solutions")
                                                              : format("none");
    size_t n;
    int64_t dropped = 0;
    FILE *to = open_memstream(&text, &n);
    for (int i = 0; i < NDROPS; i++)
        dropped += p->dropped[i];
    fprintf(to, "%lld %s, %lld tokens, %lld marks, %lld cut to %lld tokens; %lld left out%s\n",
            (long long)p->ndocs, p->kind == KIND_CANDIDATES ? "candidates" : "records", (long long)p->ntokens,
            (long long)p->ntargets, (long long)p->cut, (long long)p->max_length, (long long)dropped, out);
    fprintf(to, "lengths before any is cut: %s", lengths);
    also(to, s->unlabelled && p->kind == KIND_STEPS ? s->unlabelled : 0, "have no labels, and cannot be trained on");
    also(to, p->kind == KIND_STEPS ? s->no_outcome : 0,
         "say no meta_label: right, unless a stepwise label is against it");
    also(to, s->no_problem, "name no problem");
    also(to, s->preamble, "have text before their first step, which is no part of any");
    if (p->kind == KIND_CANDIDATES)
        fprintf(to, "; of %lld problems, %lld right", (long long)s->questions, (long long)s->right);
    fprintf(to, "\nmark %s, token %lld; for gen: prm.steps=%lld prm.records=%lld", rules->steps.mark,
            (long long)rules->steps.mark_id, (long long)rules->steps.steps, (long long)p->ndocs);
    if (s->ndomains)
        fprintf(to, " prm.domains=%lld", (long long)s->ndomains);
    fclose(to);
    free(out), free(lengths);
    return text;
}

/* Without what would steer a terminal; malloc'ed. */
static char *plain(const char *text)
{
    char *copy = format("%s", text ? text : "");
    for (unsigned char *c = (unsigned char *)copy; *c; c++)
        if (*c < ' ' || *c == 127 || (*c == 0xc2 && c[1] < 0xa0))
            *c = '?';
    return copy;
}

void steps_show(const RowOut *row)
{
    const StepsSaid *r = row->steps;
    printf("  labels");
    for (int i = 0; i < r->nlabels; i++)
        printf(" %g", (double)r->label[i]);
    char *domain = plain(r->domain), *id = plain(r->id);
    printf("%s; %s%s%s%s%s\n", r->nlabels ? "" : " none",
           r->candidate ? r->right < 0 ? "right: not said" : r->right ? "right" : "wrong"
                        : r->outcome ? "meta_label 1" : "meta_label 0",
           r->domain ? "; domain " : "", domain, r->id ? "; id " : "", id);
    free(domain), free(id);
}
