/* pairs.c -- opens the records of preference pairs and lays pairs out as rows. */
#define _GNU_SOURCE
#include "pairs.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"             // die()
#include "runtime/data/vocabulary.h"  // the tokenizer that weights were trained with
#include "runtime/data/workers.h"     // data-loader threads
#include "runtime/run/records.h"      // opens the records of --data
#include "step.h"                     // io, model

static const char *const parts[] = {"chosen", "rejected", NULL};

const char *const split_name[SPLITS] = {"train", "test", "validation"};
Data split[SPLITS];
const Flags *flags;
//@ if reference
Reference reference[REFERENCES];
//@ end
static int32_t pad;              /* token after the end of a row */

/* ---- records --------------------------------------------------------------------------------- */

//@ if DPO_SHARED_PROMPT=true
/* A row holds both answers of a pair. */
static int64_t takes(int64_t may) { return may < T ? may : T; }

//@ end
/* For answers.h: the prompt's length in tokens. */
static const DataColumn columns[] = {{.name = "prompt", .dtype = ST_I32, .may = true},
                                     {.name = NULL}};
/* --data are split 0.85, 0.10 and the rest into train, test and validation; with --eval-data or
 * another --eval-share there is no test split. */
static DataShape shape = {.kind = "@KIND@", .T = T, .vocab = V, .parts = parts, .targets = N,
                          .columns = columns,
//@ if DPO_SHARED_PROMPT=true
                          .takes = takes,
//@ end
                          .split = {0.85, 0.10}, .whole = true};

static void open_splits(const Data *train, const Data *eval)
{
    const bool trains = records_train(flags), evaluates = records_validate(flags),
               divided = trains && evaluates && !*flags->eval_data;
    if (trains)
        data_view(&split[TRAIN], train, 0, train->n, &model, &shape);
    if (divided && eval->base > train->n)
        data_view(&split[TEST], train, train->n, eval->base - train->n, &model, &shape);
    if (evaluates)
        data_view(&split[VALIDATION], eval, eval->base, eval->n, &model, &shape);
//@ if reference
    if (trains)
        data_view(&reference[OF_DATA].all, train, 0, divided ? eval->base + eval->n : train->n,
                  &model, &shape);
    if (evaluates && !divided)
        data_view(&reference[OF_EVAL_DATA].all, eval, 0, eval->n, &model, &shape);
//@ end
}

const Data *pairs_known(void)
{
    return split[TRAIN].n ? &split[TRAIN] : &split[VALIDATION];
}

static bool is_target(const DataRow *row, int64_t t) { return !row->mask || row->mask[t]; }

//@ if DPO_SHARED_PROMPT=true
/* The row of a pair: tokens from .. n[0] - 1 of the first answer, then tokens from .. n[1] - 1 of
 * the second. `from` is the last token of their common prefix, which has no targets. */
typedef struct {
    int64_t from, n[ANSWERS];
    bool is_cut;                 /* an answer is shortened to fit */
    bool has_targets;            /* each answer that had a target still has one */
} SharedRow;

static SharedRow shared_row(const DataRow of[ANSWERS])
{
    int64_t first[ANSWERS], same = 0;
    for (int k = 0; k < ANSWERS; k++) {
        first[k] = 1;
        while (first[k] < of[k].n && !is_target(&of[k], first[k]))
            first[k]++;
    }
    if (first[0] < of[0].n && first[1] < of[1].n)
        while (same < first[0] && same < first[1] && of[0].token[same] == of[1].token[same])
            same++;
    SharedRow s = {.from = same ? same - 1 : 0,
                   .n = {of[0].n, of[1].n ? of[1].n - 1 : 0}, .has_targets = true};
    /* tokens after the common prefix */
    const int64_t a = of[0].n - same, b = of[1].n - same, room = T - (same ? same : -1),
                  rest = room - (a < b ? a : b), most = rest > room / 2 ? rest : room / 2;
    s.is_cut = a + b > room;
    for (int k = 0; s.is_cut && k < ANSWERS; k++) {
        const int64_t n = of[k].n - same > most ? same + most : of[k].n;
        s.n[k] = n - (k == REJECTED);
        s.has_targets &= first[k] >= of[k].n || first[k] < n;
    }
    return s;
}

/* Reports pairs that are cut to fit a row; EXIT_DATA if an answer would lose all its targets. */
static void check_rows(void)
{
    int64_t cut = 0, all = 0, longest = 0;
    for (int g = 0; g < SPLITS; g++)
        for (int64_t i = 0; i < split[g].n; i++) {
            DataRow of[ANSWERS];
            for (int k = 0; k < ANSWERS; k++)
                data_sample(&split[g], i, k, &of[k]);
            const SharedRow s = shared_row(of);
            const int64_t want = of[0].n + of[1].n - 1 - s.from;
            longest = want > longest ? want : longest;
            cut += s.is_cut, all++;
            if (!s.has_targets)
                die(EXIT_DATA, "sample %lld: its prompt of %lld tokens leaves no room for an "
                    "answer in a row of T=%d tokens, which holds both answers; use gen %s "
                    "seq.max=%lld",
                    (long long)(split[g].base + i), (long long)s.from + 1, T,
                    model_words(&model, "seq.max"), (long long)want);
        }
    if (cut)
        note("%lld of %lld pairs are longer than a row of T=%d tokens with both answers and are "
             "cut; seq.max=%lld fits all of them", (long long)cut, (long long)all, T,
             (long long)longest);
}

//@ end
void objective_open(const Flags *f, Data *train, Data *eval)
{
    const bool silent = strcmp(f->system, "none") == 0;
    const char *system = silent ? "" : *f->system ? f->system : NULL;
    static const FormatCode *const formats[] = {&pairs_format, NULL};
    const RecordRules rules = {.format = "pairs", .formats = formats, .system = system};
    flags = f;
    if (f->given[FLAG_stop_margin] && f->stop_margin > 0 && !records_validate(f))
        die(EXIT_CONFIG, "--stop-margin: this run has no validations; add --eval-data FILE or "
            "--eval-share X");
    records_open(f, &model, &shape, &rules, train, eval);
    open_splits(train, eval);
//@ if DPO_SHARED_PROMPT=true
    check_rows();
//@ end
    const Data *any = records_train(f) ? train : eval;
    pad = any->pad_id < 0 ? 0 : (int32_t)any->pad_id;
}

//@ from ../common.c suit

/* ---- rows ------------------------------------------------------------------------------------ */

//@ from ../common.c batch_at

//@ unless DPO_SHARED_PROMPT=true
/* Pair i: each answer after its prompt, in a row of its own. */
static void set_pair(const Batch *to, int64_t i, const DataRow of[ANSWERS])
{
    for (int k = 0; k < ANSWERS; k++) {
        const int64_t at = (i * ANSWERS + k) * T, n = of[k].n;
        for (int64_t t = 0; t < T; t++) {
            to->tokens[at + t] = t < n ? of[k].token[t] : pad;
            to->target_of[at + t] = t + 1 < n && is_target(&of[k], t + 1) ? of[k].token[t + 1] : -1;
        }
    }
}

/* Lists the targets, once all pairs are set. */
static void list_targets(const Batch *to)
{
    data_gather(to->target_of, B * T, to->target_rows, to->labels, N);
}

int64_t pairs_targets(int64_t answer)
{
    const Batch at = batch_at(0);
    int64_t n = 0;
    for (int64_t t = 0; t < T; t++)
        n += at.target_of[answer * T + t] >= 0;
    return n;
}

//@ end
//@ if DPO_SHARED_PROMPT=true
/* Pair i: the prompt and the chosen answer, then the prompt's last token again and the rejected
 * answer without its last token. */
static void set_pair(const Batch *to, int64_t i, const DataRow of[ANSWERS])
{
    const SharedRow s = shared_row(of);
    int32_t *token = to->tokens + i * T, *target = to->target_of + i * T,
            *position = to->positions + i * T, *hole = to->prompt_gaps + i * 2;
    hole[0] = (int32_t)s.from, hole[1] = (int32_t)s.n[CHOSEN];
    for (int64_t t = 0; t < T; t++) {
        const int k = t >= s.n[CHOSEN];
        const int64_t at = k ? t - s.n[CHOSEN] + s.from : t;
        const bool there = at < s.n[k],
                   answer = there && at + 1 < s.n[k] + k && is_target(&of[k], at + 1);
        token[t] = there ? of[k].token[at] : pad;
        target[t] = answer ? of[k].token[at + 1] : -1;
        position[t] = there ? (int32_t)at : 0;
    }
}

/* Lists the targets and the answer of each, once all pairs are set. */
static void list_targets(const Batch *to)
{
    data_gather(to->target_of, B * T, to->target_rows, to->labels, N);
    for (int64_t n = 0; n < N; n++) {
        const int64_t position = to->target_rows[n], i = position / T, t = position % T;
        const int64_t answer = i * ANSWERS + (t >= to->prompt_gaps[i * 2 + 1]);
        to->answers[n] = position < 0 ? -1 : (int32_t)(answer * T + t);
    }
}

int64_t pairs_targets(int64_t answer)
{
    const Batch at = batch_at(0);
    int64_t n = 0;
    for (int64_t i = 0; i < N; i++)
        n += at.answers[i] >= answer * T && at.answers[i] < (answer + 1) * T;
    return n;
}

//@ end
//@ if reference
static float reference_of(const Data *d, int64_t sample, int answer)
{
    const bool other = d->file == reference[OF_EVAL_DATA].all.file;
    const float *value = reference[other ? OF_EVAL_DATA : OF_DATA].value;
    return value ? value[(d->base + sample) * ANSWERS + answer] : 0;
}

//@ end
typedef struct {
    Data *d;
    int64_t step, micro;
} Fill;

static void fill_pair(void *fill, int64_t i)
{
    const Fill *f = fill;
    const Batch to = batch_at(f->micro);
    DataRow row[ANSWERS] = {{.n = 0}};
    for (int k = 0; k < ANSWERS; k++) {
//@ if reference
        const bool there = data_part(f->d, f->step, f->micro, i, k, &row[k]);
        to.reference[i * ANSWERS + k] = there ? reference_of(f->d, row[k].sample, k) : 0;
//@ end
//@ unless reference
        data_part(f->d, f->step, f->micro, i, k, &row[k]);
//@ end
    }
    set_pair(&to, i, row);
}

void pairs_fill(Data *d, int64_t step, int64_t micro)
{
    const Batch to = batch_at(micro);
    data_order(d, step);
    workers_run(PAIRS, fill_pair, &(Fill){d, step, micro});
    list_targets(&to);
//@ if noise
    data_noise(io.noise[micro], (uint64_t)flags->seed, step,
               B / PAIRS * data_sample0(d, step, micro));
//@ end
}

void pairs_fill_alone(const DataRow *answer)
{
    const Batch to = batch_at(0);
    const DataRow none[ANSWERS] = {{.n = 0}};
    set_pair(&to, 0, (DataRow[ANSWERS]){*answer});
    for (int64_t i = 1; i < PAIRS; i++)
        set_pair(&to, i, none);
    list_targets(&to);
}

void pairs_fill_any(int64_t micro)
{
    const int64_t rows = B * T;
    const Batch to = batch_at(micro);
    data_fill_any(to.tokens, to.target_of, rows, N, V, micro * rows);
//@ if DPO_SHARED_PROMPT=true
    for (int64_t t = 0; t < rows; t++)
        to.positions[t] = (int32_t)(t % T);
    for (int64_t b = 0; b < B; b++)
        to.prompt_gaps[2 * b] = T / 3, to.prompt_gaps[2 * b + 1] = 2 * T / 3;
//@ end
    list_targets(&to);
//@ if reference
    for (int64_t i = 0; i < BOTH; i++)
        to.reference[i] = 0;
//@ end
//@ if noise
    data_noise(io.noise[micro], 0, 0, micro * B);
//@ end
}

//@ if DPO_SHARED_PROMPT=true
/* A row is a pair. */
bool pairs_show(Data *d, int64_t step, int64_t micro, int64_t row, ShownRow *to)
{
    const Batch at = batch_at(micro);
    DataRow of[ANSWERS] = {{.n = 0}};
    for (int k = 0; k < ANSWERS; k++)
        if (row >= B || !data_part(d, step, micro, row, k, &of[k]))
            return false;
    const SharedRow s = shared_row(of);
    snprintf(to->about, sizeof to->about, "sample %lld, %s and %s",
             (long long)(d->base + of[0].sample), parts[CHOSEN], parts[REJECTED]);
    show_labels(to, &at, row, s.n[CHOSEN] + s.n[REJECTED] - s.from, T, true);
    return true;
}
//@ end
//@ unless DPO_SHARED_PROMPT=true
/* Rows 2 i and 2 i + 1 are the answers to one prompt. */
bool pairs_show(Data *d, int64_t step, int64_t micro, int64_t row, ShownRow *to)
{
    const Batch at = batch_at(micro);
    DataRow answer;
    if (row >= B || !data_part(d, step, micro, row / ANSWERS, (int)(row % ANSWERS), &answer))
        return false;
    snprintf(to->about, sizeof to->about, "sample %lld, %s", (long long)(d->base + answer.sample),
             parts[row % ANSWERS]);
    show_labels(to, &at, row, answer.n, T, true);
    return true;
}
//@ end
