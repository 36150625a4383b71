/* format_steps.c -- step-labelled solutions: DreamPRM's rows, TRL's stepwise labels, candidates of
 * one problem.
 *
 * Out:    a conversation of system, problem and the steps with a mark between them, for stepwise
 *         labels after each; targets are the marks. The rest of the row: ParsedSteps.
 * Method: a solution outside the rules is left out, with the reason; an invalid value is an
 *         error. */
#define _GNU_SOURCE
#include "runtime/pack/format_steps.h"

#include "runtime/base.h"
#include "runtime/files/json.h"
#include "runtime/files/names.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS_MOST = STEPS_MARKS + 1, LABELS_MOST = 1000 };
static const char no_problem[] = "Problem";      /* replaces a missing problem */

typedef struct {
    const char *at;
    size_t n;
} Slice;

/* The steps of one solution; steps after the first STEPS_MOST are only counted. */
typedef struct {
    Slice step[STEPS_MOST];
    int n;
    bool preamble;               /* there is text before the first */
} Solution;

/* ---- steps ----------------------------------------------------------------------------------- */

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static Slice trimmed(const char *from, const char *to)
{
    while (from < to && is_space(*from))
        from++;
    while (from < to && is_space(to[-1]))
        to--;
    return (Slice){from, (size_t)(to - from)};
}

static const char *skip_blanks(const char *s)
{
    return s + strspn(s, " \t");
}

/* A line "### Step 12: ...". */
static bool is_header(const char *line)
{
    const char *s = skip_blanks(line), *digits;
    if (strncmp(s, "###", 3))
        return false;
    s = skip_blanks(s + 3);
    if (strncasecmp(s, "step", 4))
        return false;
    digits = skip_blanks(s + 4);
    s = digits + strspn(digits, "0123456789");
    return s > digits && *skip_blanks(s) == ':';
}

static void solution_add(Solution *to, Slice step)
{
    if (to->n < STEPS_MOST)
        to->step[to->n] = step;
    to->n++;
}

/* Splits a text at header lines, which are removed; the text after one is a step. */
static Solution solution_read(const char *text)
{
    Solution s = {.n = 0};
    const char *begin = text;
    bool inside = false;
    for (const char *line = text, *next; *line; line = next) {
        next = line + strcspn(line, "\n");
        next += *next == '\n';
        if (!is_header(line))
            continue;
        if (inside)
            solution_add(&s, trimmed(begin, line));
        else
            s.preamble = trimmed(text, line).n > 0;
        inside = true;
        begin = next;
    }
    if (inside)
        solution_add(&s, trimmed(begin, text + strlen(text)));
    return s;
}

/* ---- parsing --------------------------------------------------------------------------------- */

/* Returns a string; NULL: absent, or *error: not a string. */
static const char *text_of(const cJSON *json, const char *key, char **error)
{
    const cJSON *v = json_get(json, key);
    if (*error || !v || cJSON_IsNull(v))
        return NULL;
    if (!cJSON_IsString(v))
        *error = format("%s: must be a string", key);
    return cJSON_GetStringValue(v);
}

/* Returns 1 or 0, also of true and false; -1: neither. */
static int truth_of(const cJSON *v)
{
    return cJSON_IsTrue(v) || (cJSON_IsNumber(v) && v->valuedouble == 1)    ? 1
         : cJSON_IsFalse(v) || (cJSON_IsNumber(v) && v->valuedouble == 0) ? 0 : -1;
}

/* Optional keys of a row, NULL-terminated. */
typedef const char *const Keys[6];
static Keys of_steps = {"informal_prefix", "formal_statement", "cot_steps", "meta_label", "domain"},
            of_stepwise = {"labels", "meta_label", "domain"},
            of_candidates = {"informal_prefix", "formal_statement", "true_false", "domain"};

/* NULL, or the key that was probably meant, if the row lacks one but has a similar one. */
static char *misspelt(const cJSON *json, const char *const *key)
{
    for (; *key; key++)
        for (const cJSON *member = json_get(json, *key) ? NULL : json->child; member;
             member = member->next)
            if (names_distance(member->string, *key) <= (strlen(*key) > 6 ? 2 : 1))
                return format("%.60s: did you mean %s?", member->string, *key);
    return NULL;
}

/* Adds a label; *error: not a label. truths: accepts true and false. */
static void label_add(ParsedSteps *to, const cJSON *v, bool truths, const char *where, char **error)
{
    const double x = cJSON_IsNumber(v) ? v->valuedouble : truths ? truth_of(v) : -1;
    if (!(x >= 0 && x <= 1))
        *error = format("%s: must be a number from 0 to 1", where);
    else if (to->nlabels < STEPS_MARKS)
        to->label[to->nlabels] = (float)x;
    to->nlabels += !*error;
}

/* Returns the number of a key of cot_steps; -1: not a number. */
static long key_number(const char *key)
{
    const size_t n = strspn(key, "0123456789");
    return n && n < 9 && !key[n] ? strtol(key, NULL, 10) : -1;
}

typedef struct {
    long number;
    const cJSON *value;
} Step;

static int by_number(const void *a, const void *b)
{
    const Step *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

/* Returns the elements of a list, or of an object sorted by its keys as numbers; malloc'ed. NULL
 * and *error: invalid. */
static Step *steps_of(const cJSON *list, int n, char **error)
{
    Step *all = calloc((size_t)n + 1, sizeof *all);
    int i = 0;
    if (!all)
        abort();
    for (const cJSON *e = list->child; e && !*error; e = e->next, i++) {
        all[i] = (Step){cJSON_IsArray(list) ? i : key_number(e->string), e};
        if (all[i].number < 0)
            *error = format("cot_steps: its keys must be numbers, got \"%.40s\"", e->string);
        else if (!cJSON_IsObject(e))
            *error = format("cot_steps[%ld]: must be an object with pi", all[i].number);
    }
    if (!*error)
        qsort(all, (size_t)n, sizeof *all, by_number);
    for (i = 1; i < n && !*error; i++)
        if (all[i].number == all[i - 1].number)
            *error = format("cot_steps: two keys mean the number %ld", all[i].number);
    if (!*error)
        return all;
    free(all);
    return NULL;
}

/* Reads the values pi of cot_steps, up to the first step without one. */
static char *take_labels(const cJSON *json, ParsedSteps *to)
{
    const cJSON *list = json_get(json, "cot_steps");
    char *error = NULL;
    if (!list || cJSON_IsNull(list))
        return NULL;
    const int n = cJSON_GetArraySize(list);
    if ((!cJSON_IsArray(list) && !cJSON_IsObject(list)) || n > LABELS_MOST)
        return format("cot_steps: must be a list of {\"pi\": NUMBER}, or an object of them by "
                      "number, at most %d", LABELS_MOST);
    Step *step = steps_of(list, n, &error);
    for (int i = 0; i < n && !error; i++) {
        const cJSON *pi = json_get(step[i].value, "pi");
        char where[40];
        snprintf(where, sizeof where, "cot_steps[%ld].pi", step[i].number);
        if (!pi || cJSON_IsNull(pi))
            break;
        label_add(to, pi, false, where, &error);
    }
    free(step);
    return error;
}

/* Reads domain, id and meta_label. */
static char *take_common(const cJSON *json, const char *const *keys, RowOut *row)
{
    ParsedSteps *to = row->more;
    char *error = misspelt(json, keys);
    row->stops = error != NULL;
    const char *domain = text_of(json, "domain", &error);
    const cJSON *id = json_get(json, "id"), *outcome = json_get(json, "meta_label");
    to->outcome = outcome && !cJSON_IsNull(outcome) ? truth_of(outcome) : -1;
    to->no_outcome = !outcome || cJSON_IsNull(outcome);
    to->right = -1;
    if (!error && to->outcome < 0 && !to->no_outcome)
        error = format("meta_label: must be 0 or 1");
    if (!error && id && !cJSON_IsNull(id) && !cJSON_IsString(id) && !cJSON_IsNumber(id))
        error = format("id: must be a string or a number");
    if (!error && cJSON_IsNumber(id) && !(fabs(id->valuedouble) < 0x1p53))
        error = format("id: numbers from 2^53 on would be rounded and might collide: use a string");
    if (error)
        return error;
    const cJSON *noisy = json_get(json, "noisy");
    to->noisy = cJSON_IsTrue(noisy) ? '1' : cJSON_IsFalse(noisy) ? '0' : '-';
    to->domain = domain ? format("%s", domain) : NULL;
    to->id = cJSON_IsString(id) ? format("%s", id->valuestring)
             : cJSON_IsNumber(id) ? cJSON_PrintUnformatted(id) : NULL;
    return NULL;
}

/* Returns the problem of a row of DreamPRM. */
static const char *problem_of(const cJSON *json, ParsedSteps *to, char **error)
{
    const char *informal = text_of(json, "informal_prefix", error);
    const char *formal = text_of(json, "formal_statement", error);
    const char *problem = informal && *informal ? informal : formal && *formal ? formal : NULL;
    to->no_problem = !problem;
    return problem ? problem : no_problem;
}

/* ---- ids ------------------------------------------------------------------------------------- */

/* Joins the steps with `marks` marks, one after each step; malloc'ed. */
static char *joined(const Solution *s, int marks, const char *mark)
{
    size_t n = 1;
    for (int i = 0; i < s->n; i++)
        n += s->step[i].n + strlen(mark);
    char *text = malloc(n), *to = text;
    if (!text)
        abort();
    for (int i = 0; i < s->n; i++) {
        memcpy(to, s->step[i].at, s->step[i].n);
        to += s->step[i].n;
        if (i < marks)
            to = stpcpy(to, mark);
    }
    *to = 0;
    return text;
}

/* Encodes the conversation; targets are the marks of the steps. */
static char *encode(const Rules *rules, const Tokenizer *tok, const char *problem,
                    const char *answer, Encoded *e, RowOut *row)
{
    const StepsRules *steps = rules->more;
    const size_t begin = e->n;
    cJSON *user = chat_turn("user", problem),
          *system = *steps->system ? chat_turn("system", steps->system) : NULL;
    cJSON *messages = system ? chat_list(system, user) : chat_list(user, NULL),
          *reply = chat_list(chat_turn("assistant", answer), NULL);
    row->question = true;        /* --system applies to it */
    char *error = chat_encode(rules, tok, messages, reply, system ? 2 : 1, e, row);
    cJSON_Delete(messages), cJSON_Delete(reply);
    for (size_t i = begin; i < e->n; i++)
        e->target[i] = e->target[i] && e->id[i] == steps->mark_id;
    return error;
}

/* Returns why a solution with `marks` marks and the labels of `to` is left out before encoding. pi:
 * a label 0 may mean none. */
static Drop unfit(const StepsRules *rules, const Solution *s, int marks, const ParsedSteps *to,
                  bool pi)
{
    const int want = rules->steps ? (int)rules->steps - 1 : STEPS_MARKS,
              labels = to->nlabels < marks ? to->nlabels : marks;
    bool zeros = pi && labels;
    if (marks < 1 || marks > want || (rules->steps && !rules->scored && marks != want))
        return DROP_STEPS;
    for (int i = 0; i < s->n; i++)
        if (!s->step[i].n)
            return DROP_EMPTY_STEP;
    if (rules->scored || (!to->nlabels && rules->unlabelled))
        return DROP_NONE;
    if (to->nlabels < (rules->steps ? (int)rules->rewards : marks) || !labels)
        return DROP_LABELS;
    for (int i = 0; i < labels; i++)
        zeros = zeros && to->label[i] == 0;
    return zeros ? DROP_ZEROS : DROP_NONE;
}

/* Encodes one solution as the row. */
static char *put(const Rules *rules, const Tokenizer *tok, const char *problem, const Solution *s,
                 int marks, bool pi, Encoded *e, RowOut *row)
{
    const StepsRules *steps = rules->more;
    const size_t begin = e->n;
    size_t found = 0, left = 0;
    ParsedSteps *to = row->more;
    to->preamble = s->preamble;
    row->drop = unfit(steps, s, marks, to, pi);
    if (row->drop)
        return NULL;
    if (to->nlabels > marks)
        to->nlabels = marks;
    char *answer = joined(s, marks, steps->mark);
    char *error = encode(rules, tok, problem, answer, e, row);
    free(answer);
    if (error)
        return error;
    const size_t most = begin + (size_t)rules->max_length;
    to->length = e->n - begin;
    for (size_t i = begin; i < e->n; i++)
        found += e->target[i], left += i < most && e->target[i];
    row->drop = found != (size_t)marks ? DROP_MARKS : left < found ? DROP_CUT_MARKS : DROP_NONE;
    row->cut = e->n > most && !row->drop;
    e->n = row->drop ? begin : row->cut ? most : e->n;
    return NULL;
}

/* Checks what applies to all rows, and allocates row->more. */
static char *start(const Rules *rules, const Tokenizer *tok, RowOut *row)
{
    const StepsRules *steps = rules->more;
    row->more = calloc(1, sizeof(ParsedSteps));
    if (!row->more)
        abort();
    row->stops = steps->mark_id < 0 || rules->loss != LOSS_DEFAULT;
    if (steps->mark_id < 0 && !strcmp(tokenizer_id(tok), "bytes"))
        return format("the byte vocabulary has no token to mark steps: use a tokenizer that has "
                      "%s, --tokenizer DIR/tokenizer.json", steps->mark);
    if (steps->mark_id < 0)
        return format("the tokenizer has no token %s to mark steps: %s", steps->mark,
                      steps->no_mark ? steps->no_mark : "name another one");
    if (rules->loss != LOSS_DEFAULT)
        return format("--loss-on %s: not for step-labelled solutions, whose targets are always the "
                      "step marks",
                      loss_name[rules->loss]);
    return NULL;
}

static char *encode_steps(const Rules *rules, const Tokenizer *tok, const Sample *s, Encoded *e,
                          RowOut *row)
{
    char *error = start(rules, tok, row);
    ParsedSteps *to = row->more;
    error = error ? error : take_common(s->json, of_steps, row);
    error = error ? error : take_labels(s->json, to);
    if (error)
        return error;
    const char *text = sample_string(s, "cot_response", &error),
               *problem = problem_of(s->json, to, &error);
    if (error)
        return error;
    if (to->outcome < 0)
        to->outcome = 1;
    const Solution all = solution_read(text);
    return put(rules, tok, problem, &all, all.n - 1, true, e, row);
}

/* Reads the strings of a list. */
static char *take_steps(const cJSON *list, Solution *to)
{
    if (!cJSON_IsArray(list))
        return format("completions: must be a list of strings");
    for (const cJSON *i = list->child; i; i = i->next) {
        const char *text = cJSON_GetStringValue(i);
        if (!text)
            return format("completions[%d]: must be a string", to->n);
        solution_add(to, trimmed(text, text + strlen(text)));
    }
    return NULL;
}

static char *encode_stepwise(const Rules *rules, const Tokenizer *tok, const Sample *s, Encoded *e,
                             RowOut *row)
{
    char *error = start(rules, tok, row);
    ParsedSteps *to = row->more;
    Solution all = {.n = 0};
    error = error ? error : take_common(s->json, of_stepwise, row);
    error = error ? error : take_steps(json_get(s->json, "completions"), &all);
    const cJSON *labels = json_get(s->json, "labels");
    if (cJSON_IsNull(labels))
        labels = NULL;
    if (!error && labels && (!cJSON_IsArray(labels) || cJSON_GetArraySize(labels) != all.n))
        error = format("labels: must be a list of %d, one per completion", all.n);
    for (const cJSON *i = error || !labels ? NULL : labels->child; i && !error; i = i->next) {
        char where[32];
        snprintf(where, sizeof where, "labels[%d]", to->nlabels);
        label_add(to, i, true, where, &error);
    }
    if (!error && !json_get(s->json, "prompt"))
        row->stops = true;       /* another format that has completions */
    const char *problem = error ? NULL : sample_string(s, "prompt", &error);
    if (error)
        return error;
    bool right = true;
    for (int i = 0; i < to->nlabels && i < STEPS_MARKS; i++)
        right = right && to->label[i] > 0.5f;
    if (to->outcome < 0)
        to->outcome = right;
    return put(rules, tok, problem, &all, all.n, false, e, row);
}

static char *encode_candidates(const Rules *rules, const Tokenizer *tok, const Sample *s,
                               Encoded *e, RowOut *row)
{
    char *error = start(rules, tok, row);
    ParsedSteps *to = row->more;
    error = error ? error : take_common(s->json, of_candidates, row);
    const char *problem = error ? NULL : problem_of(s->json, to, &error);
    const cJSON *list = json_get(s->json, "candidates"), *right = json_get(s->json, "true_false");
    const int n = cJSON_GetArraySize(list);
    if (!error && (!cJSON_IsArray(list) || !n))
        error = format("candidates: must be a non-empty list of strings");
    if (!error && right && !cJSON_IsNull(right) &&
        (!cJSON_IsArray(right) || cJSON_GetArraySize(right) != n))
        error = format("true_false: must be a list of %d, one per candidate", n);
    if (error)
        return error;
    Rules any = *rules;
    StepsRules free_of_labels = *(const StepsRules *)rules->more;
    free_of_labels.unlabelled = true;    /* candidates have no labels */
    any.more = &free_of_labels;
    const cJSON *truth = cJSON_IsArray(right) ? right->child : NULL;
    int k = 1;
    for (const cJSON *i = list->child; i && !error;
         i = i->next, k++, truth = truth ? truth->next : NULL) {
        if (k > 1) {
            const ParsedSteps first = *(const ParsedSteps *)e->row[e->nrows].more;
            row = encoded_next_row(e);
            to = row->more = calloc(1, sizeof *to);
            if (!to)
                abort();
            to->domain = first.domain ? format("%s", first.domain) : NULL;
            to->id = first.id ? format("%s", first.id) : NULL;
            to->no_problem = first.no_problem;
            to->noisy = first.noisy;
            to->more = true;
        }
        to->candidate = k;
        to->outcome = to->right = truth ? truth_of(truth) : -1;
        if (truth && to->right < 0)
            error = format("true_false[%d]: must be true or false", k - 1);
        else if (!cJSON_IsString(i))
            error = format("candidates[%d]: must be a string", k - 1);
        if (error)
            break;
        to->no_outcome = !truth;
        to->outcome = to->right != 0;
        const Solution one = solution_read(i->valuestring);
        error = put(&any, tok, problem, &one, one.n - 1, true, e, row);
    }
    return error;
}

#define STEPS_CODE(ID, reads) {.form = FORM_##ID, .encode = reads, .records = &steps_records}
const FormatCode steps_format = STEPS_CODE(STEPS, encode_steps),
                 stepwise_format = STEPS_CODE(STEPWISE, encode_stepwise),
                 candidates_format = STEPS_CODE(CANDIDATES, encode_candidates);
