/* score_files.c -- scores solutions of raw and packed files; best of n candidates. */
#define _GNU_SOURCE
#include "score_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "results.h"                  // the folder of the final model
#include "runtime/base.h"             // die(), the world of ranks
#include "runtime/data/vocabulary.h"  // the tokenizer that weights were trained with
#include "runtime/files/json.h"
#include "runtime/prm.h"              // probabilities of margins
#include "runtime/ranks/comm.h"       // the other ranks wait
#include "runtime/run/more_records.h" // opens files
#include "scores.h"
#include "step.h"                     // io, model

/* Loads the tokenizer that --tokenizer names, or that of the weights, and sets pad. Returns its
 * path; malloc'ed. */
static char *tokenizer_of(const Flags *f, const char *flag, const WeightFolders folder)
{
    char *final = final_folder(f);
    const char *named = records_tokenizer(f), *all[WEIGHT_FOLDERS + 1];
    memcpy(all, folder, sizeof(WeightFolders));
    all[WEIGHT_FOLDERS] = final;
    char *path = *named ? format("%s", named) : vocabulary_of_folder(all, WEIGHT_FOLDERS + 1);
    Tokenizer *t = vocabulary_load(flag, path ? path : "", folder, WEIGHT_FOLDERS, V);
    pad = tokenizer_pad(t) < 0 ? 0 : tokenizer_pad(t);
    tokenizer_free(t);
    free(final);
    return path;
}

/* ---- --score FILE ---------------------------------------------------------------------------- */

/* Solutions read so far, in rows 0 .. n - 1 of micro-batch 0. */
typedef struct {
    int64_t n;
    struct {
        char *name;
        const char *dropped;     /* why it is left out; NULL: it is scored */
        int marks;
    } row[B];
} Asked;

/* Prints a line of JSON; margin: of each mark. */
static void say_score(const char *id, double whole, const double *margin, int marks)
{
    cJSON *line = cJSON_CreateObject();
    cJSON_AddStringToObject(line, "id", id);
    json_add_float(line, "score", whole);
    cJSON *steps = cJSON_AddArrayToObject(line, "steps");
    for (int j = 0; j < marks; j++)
        cJSON_AddItemToArray(steps, cJSON_CreateNumber(prm_logistic(margin[j])));
    json_say(line);
}

static void say_dropped(const char *id, const char *why)
{
    cJSON *line = cJSON_CreateObject();
    cJSON_AddStringToObject(line, "id", id);
    cJSON_AddStringToObject(line, "left_out", why);
    json_say(line);
}

//@ if communicates_score
enum { SECONDS = 7 * 24 * 3600 };        /* rank timeout while rank 0 reads */

/* Ranks agree on whether to score once more; own: this rank has solutions. */
static bool once_more(bool own)
{
    comm_expect(SECONDS);
    const bool more = comm_any(own);
    comm_expect(0);
    return more;
}

/* Scores empty rows as often as rank 0 has solutions left. */
static void accompany(void)
{
    const Inputs inputs = inputs_at(0);
    for (int64_t b = 0; b < B; b++)
        set_record(&inputs, b, NULL, 0);
    while (once_more(false)) {
        step_score();
        step_wait();
    }
}

//@ end
/* Scores the solutions read so far and prints a line for each. */
static void answer(Asked *a)
{
    const Inputs inputs = inputs_at(0);
    for (int64_t b = a->n; b < B; b++)
        set_record(&inputs, b, NULL, 0);
//@ if communicates_score
    once_more(true);
//@ end
    step_score();
    step_wait();
    for (int64_t b = 0; b < a->n; b++) {
        const float *margin = io.margins + b * MARKS;
        double values[MARKS];
        for (int j = 0; j < MARKS; j++)
            values[j] = margin[j];
        if (a->row[b].dropped)
            say_dropped(a->row[b].name, a->row[b].dropped);
        else
            say_score(a->row[b].name, score_of(margin, inputs.rows + b * MARKS), values,
                      a->row[b].marks);
        free(a->row[b].name);
    }
    fflush(stdout);
    a->n = 0;
}

/* Takes the next solution; NULL: none follows for now. */
static void ask(void *user, const PackedRow *p)
{
    Asked *a = user;
    const Inputs inputs = inputs_at(0);
    if (p) {
        StepsRow r = {.token = p->id, .n = (int64_t)p->n};
        for (int64_t t = 0; t < r.n && r.nmarks < MARKS; t++)
            if (p->target[t])
                r.position[r.nmarks++] = (int32_t)t;
        set_record(&inputs, a->n, &r, r.nmarks);
        a->row[a->n].name = format("%s", p->name ? p->name : "");
        a->row[a->n].dropped = p->row->drop ? drop_why[p->row->drop] : NULL;
        a->row[a->n++].marks = r.nmarks;
    }
    if (p ? a->n == B : a->n > 0)
        answer(a);
}

/* Prints a line for each solution of packed files. Returns the exit status. */
static int score_packed(const Flags *f, const RecordRules *rules, const WeightFolders folder,
                        const char *tokenizer)
{
    Flags of = *f;
    Data d;
    Steps s;
    StepsRow r;
    of.data = "", of.eval_data = f->score, of.tokenizer = tokenizer;
    records_open(&of, &model, &shape, rules, NULL, &d);
    objective_suit(folder, &d);
    steps_open(&s, &d, MARKS, false, false);
    double *all = score_all(&s);
    for (int64_t i = 0; world.rank == 0 && i < d.n; i++) {
        const double *values = all + i * (MARKS + 1);
        char *id = steps_id(&s, i);
        steps_sample(&s, i, &r);
        say_score(id, values[MARKS], values, r.nmarks);
        free(id);
    }
    free(all);
    return EXIT_OK;
}

static int score(const Flags *f, const WeightFolders folder)
{
//@ unless communicates_score
    enum { SECONDS = 7 * 24 * 3600 };    /* rank timeout while rank 0 reads */
//@ end
    const StepsRules steps = steps_rules(true);
    const RecordRules rules = {.formats = formats, .more = &steps};
    char *tokenizer = tokenizer_of(f, "--score", folder);
    Asked asked = {0};
    if (records_packed("score", f->score)) {
        const int code = score_packed(f, &rules, folder, tokenizer);
        free(tokenizer);
        return code;
    }
    comm_expect(SECONDS);
    if (world.rank == 0)
        records_each(f, &model, &shape, &rules, "score", f->score, tokenizer, ask, &asked);
//@ if communicates_score
    accompany();
//@ end
//@ unless communicates_score
    comm_barrier();
    comm_expect(0);
//@ end
    free(tokenizer);
    return EXIT_OK;
}

/* ---- --best-of-n FILE ------------------------------------------------------------------------ */

/* Opens candidates: several solutions of each question. */
static void open_candidates(Steps *s, Data *d, const Flags *f, const WeightFolders folder)
{
    Flags of = *f;
    DataShape other = shape;
    const StepsRules steps = steps_rules(true);
    const RecordRules rules = {.format = "candidates", .formats = formats, .more = &steps,
                               .eval_flag = "best-of-n"};
    char *tokenizer = tokenizer_of(f, "--best-of-n", folder);
    other.kind = "candidates", other.columns = candidates_columns;
    of.data = "", of.eval_data = f->best_of_n, of.tokenizer = tokenizer;
    records_open(&of, &model, &other, &rules, NULL, d);
    objective_suit(folder, d);
    steps_open(s, d, MARKS, false, false);
    free(tokenizer);
}

/* Totals over the questions, with at most the first `most` candidates of each. */
typedef struct {
    int64_t questions;           /* with a candidate */
    int64_t most;                /* candidates of a question */
    double chosen;               /* right candidates among those with the highest score */
    double mean, best;           /* shares of right candidates; questions with a right candidate */
} Choice;

typedef struct {
    int64_t n;                   /* candidates so far */
    double score, right;         /* of the chosen one */
    double sum;                  /* right candidates */
} Question;

static Choice choose(const Steps *s, const double *all, int64_t most)
{
    Question *q = calloc((size_t)s->questions, sizeof *q);
    Choice c = {0};
    if (!q)
        die(EXIT_INTERNAL, "out of memory for %lld questions", (long long)s->questions);
    for (int64_t i = 0; i < s->d->n; i++) {
        StepsRow r;
        steps_sample(s, i, &r);
        Question *of = &q[r.question];
        const double score = all[i * (MARKS + 1) + MARKS];
        if (of->n == most)
            continue;
        if (!of->n++ || score >= of->score)
            of->score = score, of->right = r.right;
        of->sum += r.right;
    }
    for (int64_t i = 0; i < s->questions; i++)
        if (q[i].n) {
            c.questions++;
            c.most = q[i].n > c.most ? q[i].n : c.most;
            c.chosen += q[i].right;
            c.mean += q[i].sum / (double)q[i].n;
            c.best += q[i].sum > 0;
        }
    free(q);
    return c;
}

static void check_candidates(const Steps *s)
{
    for (int64_t i = 0; i < s->d->n; i++) {
        StepsRow r;
        steps_sample(s, i, &r);
        if (r.right < 0) {
            char *id = steps_id(s, i);
            die(EXIT_DATA, "--best-of-n: candidate %s has no true_false, which says whether it is "
                "right; --score FILE scores candidates without it", id);
        }
    }
}

/* Prints how often the solution with the highest score is right, of 1, 2, 4 ... candidates and of
 * all. */
static int best_of_n(const Flags *f, const WeightFolders folder)
{
    Data d;
    Steps s;
    open_candidates(&s, &d, f, folder);
    check_candidates(&s);
    double *all = score_all(&s);
    Choice last = choose(&s, all, INT64_MAX);
    if (last.questions < s.questions)
        note("%lld of %lld questions have no candidate that can be scored and are left out",
             (long long)(s.questions - last.questions), (long long)s.questions);
    for (int64_t n = 1; world.rank == 0; n *= 2) {
        const Choice c = n < last.most ? choose(&s, all, n) : last;
        const double q = (double)c.questions;
        cJSON *line = cJSON_CreateObject();
        cJSON_AddNumberToObject(line, "n", (double)c.most);
        json_add_float(line, "accuracy", c.chosen / q);
        json_add_float(line, "mean", c.mean / q);
        json_add_float(line, "best", c.best / q);
        cJSON_AddNumberToObject(line, "questions", q);
        json_say(line);
        if (n >= last.most)
            break;
    }
    free(all);
    return EXIT_OK;
}

const ObjectiveCommand commands[] = {
    {FLAG_score, score}, {FLAG_best_of_n, best_of_n}, {0, NULL}};
