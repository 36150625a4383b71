/* steps.c -- step-labelled solutions, read from the columns of token files.
 *
 * In:    Data.  Out: StepsRow. */
#define _GNU_SOURCE
#include "runtime/data/steps.h"

#include "runtime/base.h"
#include "runtime/files/json.h"

#include <stdlib.h>
#include <string.h>

const char *const steps_parts[] = {"tokens", NULL};

#define COLUMN(id, name, dtype, ragged) {name, ST_##dtype, ragged, false},
#define CANDIDATE(...)
const DataColumn steps_columns[] = {
#include "runtime/data/steps.def"
    {.name = NULL}};
#undef CANDIDATE
#define CANDIDATE COLUMN
const DataColumn candidates_columns[] = {
#include "runtime/data/steps.def"
    {.name = NULL}};
#undef COLUMN

#define COLUMN(id, ...) id,
enum {
#include "runtime/data/steps.def"
};
#undef COLUMN
#undef CANDIDATE

/* Ends the program with "FILE: record N" followed by what. */
static void wrong(const Data *d, int64_t sample, const char *what) __attribute__((noreturn));
static void wrong(const Data *d, int64_t sample, const char *what)
{
    int64_t record;
    const char *path = data_path(d, data_file_of(d, sample, &record));
    die(EXIT_DATA, "%s: record %lld%s", path, (long long)record, what);
}

/* ---- one record ------------------------------------------------------------------------------ */

static float f32_of(const Data *d, int column, int64_t sample)
{
    int64_t n;
    return *(const float *)data_column(d, column, sample, &n);
}

static int32_t i32_of(const Data *d, int column, int64_t sample)
{
    int64_t n;
    return *(const int32_t *)data_column(d, column, sample, &n);
}

static void take_labels(const Data *d, StepsRow *to)
{
    int64_t n;
    const float *label = data_column(d, REWARDS, to->sample, &n);
    if (n > to->nmarks)
        wrong(d, to->sample, format(": %lld rewards, but %d marks", (long long)n, to->nmarks));
    to->nlabels = (int)n;
    for (int i = 0; i < to->nlabels; i++) {
        to->label[i] = label[i];
        if (!(to->label[i] >= 0 && to->label[i] <= 1))
            wrong(d, to->sample, format(": reward %d is %g, must be from 0 to 1", i,
                                        (double)to->label[i]));
    }
}

static void take_candidate(const Steps *s, const StepsFile *file, StepsRow *to)
{
    const int32_t question = i32_of(s->d, QUESTION, to->sample);
    to->right = i32_of(s->d, RIGHT, to->sample);
    if (question < 0 || question >= file->questions)
        wrong(s->d, to->sample, format(": question is %d, must be from 0 to %lld", question,
                                       (long long)file->questions - 1));
    if (to->right < -1 || to->right > 1)
        wrong(s->d, to->sample, format(": right is %d, must be 0, 1 or -1", to->right));
    to->question = file->first + question;
}

static void take(const Steps *s, const DataRow *row, StepsRow *to)
{
    const Data *d = s->d;
    int64_t record;
    const StepsFile *file = &s->file[data_file_of(d, row->sample, &record)];
    *to = (StepsRow){.sample = row->sample, .token = row->token, .n = row->n, .question = -1,
                     .right = -1};
    for (int64_t t = 0; t < row->n; t++) {
        if (row->mask && !row->mask[t])
            continue;
        if (to->nmarks == s->most)
            wrong(d, row->sample, format(" has more than the %lld marks that this program takes: "
                                         "gen pack --steps %lld, the recipe's prm.steps",
                                         (long long)s->most,
                                         s->most == STEPS_MARKS ? 0 : (long long)s->most + 1));
        to->position[to->nmarks++] = (int32_t)t;
    }
    take_labels(d, to);
    to->outcome = f32_of(d, OUTCOME, row->sample);
    if (to->outcome != 0 && to->outcome != 1)
        wrong(d, row->sample, format(": outcome is %g, must be 0 or 1", (double)to->outcome));
    const int32_t domain = i32_of(d, DOMAIN, row->sample);
    if (domain < -1 || domain >= file->ndomains)
        wrong(d, row->sample, format(": domain is %d, must be from -1 to %d", domain,
                                     file->ndomains - 1));
    to->domain = domain < 0 ? -1 : file->domain[domain];
    to->noisy = file->noisy && file->noisy[record] != '-' ? file->noisy[record] == '1' : -1;
    if (d->columns == candidates_columns)
        take_candidate(s, file, to);
}

bool steps_row(const Steps *s, int64_t step, int64_t micro, int64_t row, StepsRow *to)
{
    DataRow found;
    if (!data_row(s->d, step, micro, row, &found))
        return false;
    take(s, &found, to);
    return true;
}

void steps_sample(const Steps *s, int64_t sample, StepsRow *to)
{
    DataRow row;
    data_sample(s->d, sample, 0, &row);
    take(s, &row, to);
}

char *steps_id(const Steps *s, int64_t sample)
{
    int64_t n, record;
    const int file = data_file_of(s->d, sample, &record);
    const char *text = data_column(s->d, ID, sample, &n);
    return s->file[file].repeats_ids ? format("%d:%.*s", file + 1, (int)n, text)
                                     : format("%.*s", (int)n, text);
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* Returns the strings of metadata "domains", a list; *n 0: none. malloc'ed */
static char **file_names(const Data *d, int file, int *n)
{
    const char *text = data_meta(d, file, "domains");
    char *error = NULL;
    cJSON *list = text ? json_parse(text, strlen(text), &error) : cJSON_CreateArray();
    char **name = calloc((size_t)cJSON_GetArraySize(list) + 1, sizeof *name);
    bool good = name && cJSON_IsArray(list);
    *n = 0;
    for (const cJSON *i = good ? list->child : NULL; i && good; i = i->next)
        if ((good = cJSON_IsString(i)))
            name[(*n)++] = format("%s", i->valuestring);
    if (!good)
        die(EXIT_DATA, "%s: metadata domains: must be a list of strings", data_path(d, file));
    cJSON_Delete(list);
    return name;
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Merges the domains of all files, and maps those of each file. */
static void find_domains(Steps *s)
{
    const int files = s->d->nfiles;
    char ***name = calloc((size_t)files + 1, sizeof *name), **list;
    int all = 0;
    for (int k = 0; k < files && name; k++) {
        name[k] = file_names(s->d, k, &s->file[k].ndomains);
        all += s->file[k].ndomains;
    }
    list = calloc((size_t)all + 1, sizeof *list);
    if (!name || !list)
        die(EXIT_INTERNAL, "out of memory for the names of domains");
    for (int k = 0, n = 0; k < files; k++)
        for (int i = 0; i < s->file[k].ndomains; i++)
            list[n++] = name[k][i];
    qsort(list, (size_t)all, sizeof *list, by_bytes);
    s->domain = list;
    for (int i = 0; i < all; i++)        /* remove duplicates */
        if (!s->ndomains || strcmp(list[s->ndomains - 1], list[i]))
            list[s->ndomains++] = list[i];
    for (int i = 0; i < s->ndomains; i++)
        list[i] = format("%s", list[i]);
    for (int k = 0; k < files; k++) {
        const int n = s->file[k].ndomains;
        s->file[k].domain = calloc((size_t)n + 1, sizeof *s->file[k].domain);
        for (int i = 0; i < n && s->file[k].domain; i++) {
            char **at = bsearch(&name[k][i], list, (size_t)s->ndomains, sizeof *list, by_bytes);
            s->file[k].domain[i] = (int32_t)(at - list);
            free(name[k][i]);
        }
        free(name[k]);
    }
    free(name);
}

/* Reads which labels are known to be noisy: only for reports, not part of a batch. */
static void find_noise(Steps *s)
{
    int64_t record, *records = calloc((size_t)s->d->nfiles, sizeof *records);
    if (!records)
        die(EXIT_INTERNAL, "out of memory for the files of --data");
    for (int64_t i = 0; i < s->d->n; i++) {
        const int k = data_file_of(s->d, i, &record);
        records[k] = record >= records[k] ? record + 1 : records[k];
    }
    for (int k = 0; k < s->d->nfiles; k++) {
        const char *text = data_meta(s->d, k, "noisy");
        if (text && (int64_t)strlen(text) < records[k])
            die(EXIT_DATA, "%s: metadata noisy: must have one letter per record", data_path(s->d,
                k));
        s->file[k].noisy = text;
    }
    free(records);
}

struct FileId {
    const char *text;            /* (n) */
    int64_t n;
    int file;
};

/* By bytes; equal ones by file. */
static int by_id(const void *a, const void *b)
{
    const struct FileId *x = a, *y = b;
    const int order = memcmp(x->text, y->text, (size_t)(x->n < y->n ? x->n : y->n));
    return order ? order : x->n != y->n ? (x->n > y->n) - (x->n < y->n) : x->file - y->file;
}

/* Marks the files with an id that an earlier file has, too. */
static void find_repeated_ids(Steps *s)
{
    struct FileId *id = s->d->nfiles > 1 ? calloc((size_t)s->d->n + 1, sizeof *id) : NULL;
    if (!id && s->d->nfiles > 1)
        die(EXIT_INTERNAL, "out of memory for the ids of %lld records", (long long)s->d->n);
    for (int64_t i = 0, record; id && i < s->d->n; i++) {
        id[i].file = data_file_of(s->d, i, &record);
        id[i].text = data_column(s->d, ID, i, &id[i].n);
    }
    if (id)
        qsort(id, (size_t)s->d->n, sizeof *id, by_id);
    for (int64_t i = 1; id && i < s->d->n; i++)
        if (id[i].n == id[i - 1].n && !memcmp(id[i].text, id[i - 1].text, (size_t)id[i].n) &&
            id[i].file != id[i - 1].file)
            s->file[id[i].file].repeats_ids = true;
    free(id);
}

static void find_questions(Steps *s)
{
    for (int k = 0; k < s->d->nfiles && s->d->columns == candidates_columns; k++) {
        const char *text = data_meta(s->d, k, "questions");
        char *end = NULL;
        const long long n = text ? strtoll(text, &end, 10) : 0;
        if (n < 1 || n > INT32_MAX || *end)
            die(EXIT_DATA, "%s: metadata questions: must be an integer from 1", data_path(s->d, k));
        s->file[k].first = s->questions, s->file[k].questions = n;
        s->questions += n;
    }
}

void steps_open(Steps *s, Data *d, int64_t most, bool labelled, bool domains)
{
    *s = (Steps){.d = d, .most = most};
    s->file = calloc((size_t)d->nfiles, sizeof *s->file);
    if (!s->file || most > STEPS_MARKS)
        die(EXIT_INTERNAL, "steps: %d files, %lld marks", d->nfiles, (long long)most);
    find_domains(s);
    find_questions(s);
    find_noise(s);
    find_repeated_ids(s);
    for (int64_t i = 0; i < d->n; i++) {
        StepsRow r;
        steps_sample(s, i, &r);
        if (labelled && !r.nlabels)
            wrong(d, i, " has no labels of its steps, which training needs");
        if (domains && r.domain < 0)
            wrong(d, i, " has no domain, but each domain has a weight (prm.weights): add a key "
                        "domain to each row");
    }
}
