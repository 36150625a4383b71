/* records.c -- training and validation records of a run; packs raw data first.
 *
 * In:    flags, the data shapes of the model. Out: Data; messages on standard error. */
#define _GNU_SOURCE
#include "runtime/run/records_parts.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base.h"
#include "runtime/data/recordfile.h"
#include "runtime/data/tokenfile.h"
#include "runtime/data/tokenizer.h"
#include "runtime/data/words.h"
#include "runtime/data/workers.h"
#include "runtime/files/folder.h"
#include "runtime/files/json.h"
#include "runtime/pack/pack.h"
#include "runtime/ranks/comm.h"
#include "runtime/run/rank_agreement.h"
#include "runtime/run/failure.h"

bool records_train(const Flags *f)
{
    return *f->data;
}

/* Drops a recipe's --eval-share if --eval-data is given. */
static double share_of(const Flags *f)
{
    return f->given[FLAG_eval_share] || (*f->data && !*f->eval_data) ? f->eval_share : 0;
}

bool records_validate(const Flags *f)
{
    return *f->eval_data || share_of(f) > 0;
}

/* Returns the flag that names the validation data. */
static const char *validation_flag(const RecordRules *rules)
{
    return rules->eval_flag ? rules->eval_flag : "eval-data";
}

/* ---- raw data -------------------------------------------------------------------------------- */

static bool any_raw(const char *paths)
{
    int n;
    bool raw = false;
    char **file = split_names(paths, &n);
    for (int i = 0; i < n; i++)
        raw = raw || pack_is_raw(file[i]);
    free(file);
    return raw;
}

bool records_raw(const Flags *f)
{
    return any_raw(f->data) || any_raw(f->eval_data);
}

const char *records_tokenizer(const Flags *f)
{
    return vocabulary_made(f->tokenizer) ? "" : f->tokenizer;
}

/* True if a flag that some programs lack is given. */
static bool asks(const Flags *f, const char *name)
{
    const int flag = flags_find(name);
    return flag >= 0 && flags_on(f, flag);
}

char *records_tokenizer_of(const Flags *f, bool finds_targets, const char *flag, const char *raw,
                           const char *like)
{
    char *found = format("%s/tokenizer.json", f->init_from);
    /* the recipe's is for texts; arrays of ids have their own */
    if (prepared_is(raw) &&
        (!*f->tokenizer || (vocabulary_made(f->tokenizer) && !f->given[FLAG_tokenizer])))
        return format("%s", *f->init_from && strcmp(f->init_from, "none") && file_named(found)
                                ? found : "none");
    if (vocabulary_made(f->tokenizer) && strcmp(flag, "data") && strcmp(flag, "prepare")) {
        int n = like ? (int)strcspn(like, ",") : 0;
        while (n && like[n - 1] != '/')
            n--;
        if (!like)
            die(EXIT_CONFIG, "--tokenizer %s is counted from --data, which is missing: give the "
                "tokenizer.json of the training records with --tokenizer FILE", f->tokenizer);
        return format("%.*stokenizer.json", n, like);
    }
    if (*f->tokenizer)
        return format("%s", f->tokenizer);
    if (*f->init_from && strcmp(f->init_from, "none") && file_named(found))
        return found;
    die(EXIT_CONFIG,
        "--%s: %s is not a record file, and packing it needs a tokenizer: --tokenizer "
        "DIR/tokenizer.json, or %s (%s)",
        flag, raw, finds_targets ? "words or char" : "bytes",
        f->eval_only || asks(f, "answers") || asks(f, "perplexity")
            ? "there is none next to the weights"
        : *f->init_from && strcmp(f->init_from, "none")
            ? "there is none in the folder of --init-from"
            : "or --init-from of a folder that has one");
}

/* Returns the kind of records that raw data are packed to. */
static Kind kind_of(const DataShape *of)
{
    for (int k = KIND_PACKED; k < NKINDS; k++)
        if (!strcmp(of->kind, kind_name[k]))
            return (Kind)k;
    return KIND_ROWS;            /* bfd */
}

/* True if the objective reads records of a format (NULL: detected by keys). */
static bool suits(const DataShape *of, const Format *f)
{
    const Kind kind = kind_of(of);
    if (!f)
        return !of->finds_targets || kind >= KIND_PAIRS;
    return of->finds_targets == f->finds_targets &&
           (kind < KIND_PAIRS ? f->kind < KIND_PAIRS : kind == f->kind);
}

static const Format *format_of(const Flags *f, const Model *m, const DataShape *of,
                               const RecordRules *rules, const char *flag, const char *raw)
{
    const char *name = strcmp(f->data_format, "auto") ? f->data_format : rules->format;
    const Format *known = name ? format_find(name) : NULL;
    if (suits(of, known))
        return known;
    char *all = format("%s", suits(of, NULL) ? "auto" : "");
    for (int i = 0; i < NFORMATS; i++)
        if (suits(of, &pack_format[i])) {
            char *longer = format("%s%s%s", all, *all ? ", " : "", pack_format[i].name);
            free(all);
            all = longer;
        }
    die(EXIT_CONFIG,
        "--%s: %s is raw data, and records for %s cannot be made from the format %s: "
        "set --data-format to one of %s",
        flag, raw, m->objective, name ? name : "auto", all);
}

/* Splits texts before cutting them into windows, because windows of a text overlap. */
static HeldOut held_of(const Flags *f, const RecordRules *rules, const Format *known,
                       const char *flag,
                       char *const *file, int n)
{
    bool divides = known == &pack_format[FORM_WINDOWS] && !strcmp(flag, "data") && share_of(f) > 0;
    for (int i = 0; i < n; i++)
        divides = divides && !pack_is_rows(file[i]);
    return !divides ? HELD_OUT_NONE : rules->held_out ? rules->held_out : HELD_OUT_TAIL;
}

/* Applies --max-samples to documents, or, if a sample is a window of T + 1 tokens, to tokens. */
static int64_t most_of(const Flags *f, const DataShape *of, const Format *known, const char *flag)
{
    if (strcmp(flag, "data") || known == &pack_format[FORM_WINDOWS])
        return 0;
    return kind_of(of) == KIND_PACKED && f->max_samples ? f->max_samples * of->T + 1
                                                        : f->max_samples;
}

void records_refuse(const PackError *e, const char *flag, const char *tokenizer, const char *more)
{
    char *line = e->line ? format(":%d", e->line) : format("%s", "");
    bool names_it = !strncmp(e->file ? e->file : e->text, tokenizer, strlen(tokenizer));
    die(e->code, "--%s: %s%s%s%s%s", names_it ? "tokenizer" : flag, e->file ? e->file : "",
        line, e->file ? ": " : "", e->text, more);
}

void note_lines(const char *before, char *text)
{
    for (char *line; (line = strsep(&text, "\n")); before = "")
        if (*line || text)
            note("%s%s", before, line);
}

static void note_found(const char *flag, const char *path)
{
    RecordFile f;
    char *error = recordfile_open(&f, path);
    if (error)
        die(EXIT_DATA, "--%s was packed before, but %s", flag, error);
    const char *lengths = st_meta(&f.st, "lengths"), *summary = st_meta(&f.st, "said"),
               *malformed = st_meta(&f.st, "malformed");
    note("data: --%s was packed before: %s", flag, path);
    if (lengths)
        note("lengths before any is cut: %s", lengths);
    if (summary) {
        char *copy = format("%s", summary);
        note_lines("", copy);
        free(copy);
    }
    if (malformed)
        note("malformed rows left out: %s (file:line %s)",
             st_meta(&f.st, "dropped_malformed"), malformed);
    recordfile_close(&f);
}

static Loss loss_of(const Flags *f)
{
    int loss = NLOSSES - 1;
    while (loss && strcmp(f->loss_on, loss_name[loss]))
        loss--;
    return (Loss)loss;           /* auto: LOSS_DEFAULT */
}

PackOptions records_options(const Flags *f, const Model *m, const DataShape *of,
                            const RecordRules *rules, const char *flag, const char *tokenizer,
                            char **file, int n)
{
    const Format *known = format_of(f, m, of, rules, flag, n ? file[n - 1] : "");
    const HeldOut held = held_of(f, rules, known, flag, file, n);
    int nignore = 0;
    char *const *ignore = *f->ignore_keys ? split_names(f->ignore_keys, &nignore) : NULL;
    return (PackOptions){.who = "data",
                         .tokenizer = tokenizer,
                         .format = known ? known->name : NULL,
                         .words = !strcmp(tokenizer, "words") ? of->vocab - WORDS_SPECIALS : 0,
                         .min_words = format_of_words(known) ? rules->min_words : 0,
                         .system = rules->system,
                         .vocab = of->vocab,
                         .most = most_of(f, of, known, flag),
                         .held_out = held,
                         .share = held ? share_of(f) : 0,
                         .kind = kind_of(of),
                         .formats = rules->formats,
                         .more = rules->more,
                         .trains = !strcmp(flag, "data"),
                         .max_length = kind_of(of) == KIND_PACKED ? 0 : of->T,
                         .nfiles = n,
                         .file = file,
                         .ignore = ignore,
                         .nignore = nignore,
                         .skip_bad = f->skip_bad,
                         .loss = loss_of(f),
                         .variable = f->many[FLAG_template_var],
                         .format_flag = "--data-format",
                         .command = failure_command("--ignore-keys"),
                         .recipe = model_words(m, "model.vocab")};
}

/* Removes a damaged file of the cache, to pack it again. */
static bool cache_damaged(const char *path)
{
    TokenFile t;
    char *error = tokenfile_open(&t, path);
    const bool opened = !error;
    if (opened)
        error = tokenfile_check_sums(&t);
    if (opened)
        tokenfile_close(&t);
    if (!error)
        return false;
    if (error_of_machine(error))
        die(EXIT_IO, "%s", error);
    warn("%s: the cache is damaged; packed again", error);
    char *folder = format("%.*s", (int)(strrchr(path, '/') - path), path),
         *failed = folder_remove(folder);
    if (failed)
        die(EXIT_IO, "%s", failed);
    free(folder), free(error);
    return true;
}

/* Returns the record file made from raw data, malloc'ed; NULL: `paths` names record files. */
static char *pack(const Flags *f, const Model *m, const DataShape *of, const RecordRules *rules,
                  const char *flag, const char *paths, const char *like)
{
    int n, raw = 0;
    char **file = split_names(paths, &n), *name = NULL, *other = NULL, *text = NULL;
    size_t bytes;
    bool found;
    for (int i = 0; i < n; i++)
        if (pack_is_raw(file[i]))
            name = file[i], raw++;
        else
            other = file[i];
    if (!raw) {
        free(file);
        return NULL;
    }
    if (raw < n && access(other, R_OK))
        die(EXIT_DATA, "--%s: %s: %s", flag, other, strerror(errno));
    if (raw < n)
        die(EXIT_CONFIG, "--%s: %s is raw data and %s is a record file: use only one kind", flag,
            name, other);
    char *folder = folder_join(f->out, ".dataset_cache"),
         *tokenizer = records_tokenizer_of(f, of->finds_targets, flag, name, like);
    const PackOptions o = records_options(f, m, of, rules, flag, tokenizer, file, n);
    FILE *summary = open_memstream(&text, &bytes);
    char *path = folder_join(folder, ""), *error = *f->out ? folder_make_below(f->out, path) : NULL;
    if (error)
        die(EXIT_IO, "%s", error);
    free(path);
    PackError e = pack_cached(&o, folder, summary, &path, &found);
    if (!e.text && found && cache_damaged(path)) {
        free(path);
        e = pack_cached(&o, folder, summary, &path, &found);
    }
    fclose(summary);
    const char *kind = e.makes == KIND_AUTO ? "" : kind_name[e.makes];
    char *words = model_words(m, "data.kind"), *built;
    if (e.makes == KIND_AUTO || of->finds_targets || of->parts)
        built = format("%s", "");
    else if (e.makes >= KIND_PAIRS)
        built = format(" (built for data.kind=%s; another objective trains on these %s: gen %s "
                       "data.kind=%s names it)", of->kind, kind, words, kind);
    else
        built = format(" (built for data.kind=%s: gen %s data.kind=%s builds a program for this "
                       "data)", of->kind, words, kind);
    free(words);
    if (e.text)
        records_refuse(&e, flag, tokenizer, built);
    if (found)
        note_found(flag, path);
    else
        note_lines("data: ", text);
    free(text), free(built), free(folder), free(tokenizer), free(file);
    return path;
}

/* Returns the same for each of `paths` separately, so that each stays a source; malloc'ed. */
static char *pack_each_file(const Flags *f, const Model *m, const DataShape *of,
                            const RecordRules *rules, const char *flag, const char *paths)
{
    int n;
    char **file = split_names(paths, &n), *all = NULL;
    for (int i = 0; i < n; i++) {
        char *made = pack(f, m, of, rules, flag, file[i], NULL),
             *longer = format("%s%s%s", all ? all : "", all ? "," : "", made ? made : file[i]);
        free(made), free(all);
        all = longer;
    }
    free(file);
    return all;
}

char *records_files(const Flags *f, const Model *m, const DataShape *of, const RecordRules *rules,
                    const char *flag, const char *paths, const char *like)
{
    comm_expect(PACK_SECONDS);
    const bool each = of->weight && !strcmp(flag, "data");
    char *made = world.rank != 0 ? NULL : each ? pack_each_file(f, m, of, rules, flag, paths)
                                               : pack(f, m, of, rules, flag, paths, like);
    size_t bytes = made ? strlen(made) + 1 : 0;
    comm_broadcast(&bytes, sizeof bytes, 0);
    if (bytes && !made && !(made = malloc(bytes)))
        die(EXIT_INTERNAL, "out of memory for a path");
    if (bytes)
        comm_broadcast(made, bytes, 0);
    comm_expect(0);
    return made ? made : format("%s", paths);
}

/* ---- records --------------------------------------------------------------------------------- */

static void check_flags(const Flags *f)
{
    if (share_of(f) > 0 && *f->eval_data)
        die(EXIT_CONFIG,
            "--eval-share and --eval-data both set the validation data: give only one");
    if (share_of(f) > 0 && !*f->data)
        die(EXIT_CONFIG, "--eval-share is a share of --data, which is missing");
    if (f->given[FLAG_max_samples] && f->max_samples && !*f->data)
        die(EXIT_CONFIG, "--max-samples applies to --data, which is missing");
    if (!strcmp(f->data, "-") && !strcmp(f->eval_data, "-"))
        die(EXIT_CONFIG, "--data and --eval-data: standard input can be read once");
}

/* Parses a number up to a comma or the end; NAN: none, or below 0. No hexadecimal, no inf. */
static double weight_of(const char *text)
{
    char *end;
    const size_t n = strcspn(text, ",");
    const double v = strtod(text, &end);
    return n && strspn(text, "+-.0123456789eE") >= n && end == text + n && isfinite(v) && v >= 0
               ? v
               : NAN;
}

/* Returns the numbers of --data-weights, one per file of --data; malloc'ed. NULL: not given. */
static double *weights_of(const Flags *f)
{
    int files, n = 0;
    double sum = 0;
    const bool given = f->given[FLAG_data_weights];
    if (!*f->data_weights || (!*f->data && !given))
        return NULL;
    if (!*f->data)
        die(EXIT_CONFIG, "--data-weights applies to the files of --data, which is missing");
    char **file = split_names(f->data, &files);
    double *weight = malloc(sizeof *weight * (strlen(f->data_weights) + 1));
    if (!weight)
        die(EXIT_INTERNAL, "out of memory for %zu characters", strlen(f->data_weights));
    for (const char *at = f->data_weights; at; n++) {
        weight[n] = weight_of(at);
        if (isnan(weight[n]))
            die(EXIT_CONFIG,
                "--data-weights %.200s: must be numbers from 0, separated by commas, got \"%.*s\"",
                f->data_weights, (int)strcspn(at, ","), at);
        sum += weight[n];
        at = strchr(at, ',');
        at += at != NULL;
    }
    if (n != files && !given)
        die(EXIT_CONFIG, "--data-weights %.200s, a default here, are for %d files, but --data is "
                         "%d: name the same files, or validate on --eval-data FILE",
            f->data_weights, n, files);
    if (files == 1)
        die(EXIT_CONFIG,
            "--data-weights %.200s: --data is one file, %s: leave them out, or give several "
            "files, separated by commas",
            f->data_weights, file[0]);
    if (n != files)
        die(EXIT_CONFIG, "--data-weights %.200s: must be %d numbers, one per file of --data, got "
                         "%d",
            f->data_weights, files, n);
    if (!(sum > 0 && isfinite(sum)))
        die(EXIT_CONFIG, "--data-weights %.200s: their sum is %g, must be above 0",
            f->data_weights, sum);
    if (f->max_samples)
        die(EXIT_CONFIG,
            "--max-samples counts samples over all files: leave out --max-samples or "
            "--data-weights");
    for (int i = 0; i < files; i++)
        if (vocabulary_made(f->tokenizer) && pack_is_raw(file[i]))
            die(EXIT_CONFIG,
                "--tokenizer %s is counted over all files, but --data-weights packs each "
                "separately: pack them first, gen pack --tokenizer %s ...",
                f->tokenizer, f->tokenizer);
    free(file);
    return weight;
}

/* Sets how data_open() splits --data into training and validation data. A resumed run must get the
 * split it began with, so the share itself decides, not whether it was given this time. */
static void divide(const Flags *f, DataShape *of)
{
    const double share = share_of(f);
    double last = 1;             /* the objective's own validation share */
    for (size_t i = 0; i < sizeof of->split / sizeof *of->split; i++)
        last -= of->split[i];
    of->most = f->max_samples;
    of->take = 0;
    if (!(of->split[0] > 0) || fabs(share - last) > 1e-6) {
        memset(of->split, 0, sizeof of->split);
        of->split[0] = share > 0 ? 1 - share : 0;
    }
}

/* Notes what happens with files that mark their validation rows themselves. */
static void note_divided(const Flags *f, bool evaluates)
{
    int n;
    char **file = split_names(f->data, &n);
    if (evaluates && f->given[FLAG_eval_share] && (!pack_is_raw(file[0]) || prepared_is(file[0])))
        note("data: %s marks its validation rows itself; --eval-share is ignored",
             file[0]);
    if (!evaluates)
        note("data: %s has validation rows, which are left out; --eval-share uses them",
             file[0]);
    free(file);
}

/* Ends the program if a flag for raw data is given with packed records: a tokenizer counted from
 * them, keys, rows or a system message. */
static void check_made(const Flags *f)
{
    int n;
    char **file = split_names(*f->data ? f->data : f->eval_data, &n);
    if (f->given[FLAG_tokenizer] && vocabulary_made(f->tokenizer) && n && !pack_is_raw(file[0]))
        die(EXIT_CONFIG,
            "--tokenizer %s is counted from raw data, but %s is packed: leave it out, or give the "
            "tokenizer.json it was packed with",
            f->tokenizer, file[0]);
    if (f->given[FLAG_ignore_keys] && n && !pack_is_raw(file[0]))
        die(EXIT_CONFIG,
            "--ignore-keys: %s is packed, already without the keys of gen pack --ignore-keys: "
            "leave it out, or give the raw file",
            file[0]);
    if (f->skip_bad && n && !pack_is_raw(file[0]))
        die(EXIT_CONFIG,
            "--skip-bad: %s is packed, already without the rows that gen pack --skip-bad left "
            "out: leave it out, or give the raw file",
            file[0]);
    if (f->given[FLAG_loss_on] && strcmp(f->loss_on, "auto") && n && !pack_is_raw(file[0]))
        die(EXIT_CONFIG,
            "--loss-on: %s is packed, with the targets of gen pack --loss-on: leave it out, or "
            "give the raw file",
            file[0]);
    if (f->given[FLAG_template_var] && n && !pack_is_raw(file[0]))
        die(EXIT_CONFIG,
            "--template-var: %s is packed, with the variables of gen pack --template-var: leave it "
            "out, or give the raw file",
            file[0]);
    const int system = flags_find("system");
    if (system >= 0 && f->given[system] && n && !pack_is_raw(file[0]))
        die(EXIT_CONFIG,
            "--system: %s is packed, with the system message of gen pack --system: leave it out, "
            "or give the raw file",
            file[0]);
    free(file);
}

/* Warns if files were packed with different chat formats or templates: --chat uses one of each. */
static void check_styles(const Data *d)
{
    static const char *const key[] = {"chat", "chat_template"};
    for (int k = 0; k < 2; k++) {
        int first = 0;
        while (first < d->nfiles && !data_meta(d, first, key[k]))
            first++;
        for (int i = first + 1; i < d->nfiles; i++) {
            const char *is = data_meta(d, i, key[k]);
            if (is && strcmp(is, data_meta(d, first, key[k])))
                warn("data: %s has conversations as the %s %.12s writes them, but %s as %.12s: "
                     "--chat and --export take the first",
                     data_path(d, first), k ? "chat_template" : "chat format",
                     data_meta(d, first, key[k]), data_path(d, i), is);
        }
    }
}

/* Notes a file that is both trained and validated on. */
static void note_same(const Data *train, const Data *eval, const char *flag)
{
    for (int i = 0; i < eval->nfiles; i++)
        for (int k = 0; k < train->nfiles; k++) {
            const char *a = data_meta(eval, i, "fingerprint"),
                       *b = data_meta(train, k, "fingerprint");
            const bool same = !strcmp(data_path(eval, i), data_path(train, k));
            if (!same && (!a || !b || strcmp(a, b)))
                continue;
            note("--%s has the data of --data: its loss does not tell how the model does on other "
                 "texts; --eval-share 0.1 keeps a tenth of --data for it", flag);
            return;
        }
}

void records_open(const Flags *f, const Model *m, const DataShape *shape, const RecordRules *rules,
                  Data *train, Data *eval)
{
    const bool trains = records_train(f), evaluates = records_validate(f);
    DataShape of = *shape;
    char *files = NULL, *eval_files = NULL;
    check_flags(f);
    check_made(f);
    double *weight = weights_of(f);
    of.weight = weight;
    workers_start(f->num_workers);
    recordfile_keep(!f->streaming);
    if (trains)
        files = records_files(f, m, &of, rules, "data", f->data, NULL);
    if (*f->eval_data)
        eval_files = records_files(f, m, &of, rules, validation_flag(rules), f->eval_data,
                                  files);
    divide(f, &of);
    if (trains)
        data_open(train, files, m, &of, (uint64_t)f->seed, false);
    if (trains && train->divided)
        note_divided(f, evaluates);
    if (*f->eval_data)
        of.most = 0, of.weight = NULL;
    for (int i = 0; i < (int)(sizeof of.split / sizeof *of.split) && of.split[i] > 0; i++)
        of.take++;               /* the last part */
    if (evaluates)
        data_open(eval, eval_files ? eval_files : files, m, &of, (uint64_t)f->seed, true);
    if (eval_files && eval->divided)
        note("data: %s marks its validation rows itself: --%s uses only these %lld rows",
             f->eval_data, validation_flag(rules), (long long)eval->n);
    ranks_check_data(trains ? train : NULL, evaluates ? eval : NULL);
    if (trains)
        check_styles(train);
    if (trains && evaluates)
        data_check_same(eval, train->tokenizer, train->eos, f->data);
    if (trains && eval_files && !eval->divided)
        note_same(train, eval, validation_flag(rules));
    if (*records_tokenizer(f) && (trains || evaluates)) {
        Tokenizer *t;
        char *error = tokenizer_load(&t, f->tokenizer);
        if (error)
            die(EXIT_CONFIG, "--tokenizer: %s", error);
        data_check_tokenizer(trains ? train : eval, tokenizer_id(t), f->tokenizer);
        tokenizer_free(t);
    }
    free(files), free(eval_files), free(weight);
}

void records_save(const Flags *f, const Data *d, cJSON *state)
{
    cJSON *list = d->nsources ? cJSON_AddArrayToObject(state, "drawn") : NULL;
    for (int k = 0; k < d->nsources; k++)
        cJSON_AddItemToArray(list, cJSON_CreateNumber((double)d->source[k].taken));
    if (vocabulary_made(f->tokenizer) && any_raw(f->data))
        cJSON_AddStringToObject(state, "vocabulary", f->tokenizer);
    const char *chat = NULL;
    for (int i = 0; i < d->nfiles && !chat; i++)
        chat = data_meta(d, i, "chat");
    if (chat)
        cJSON_AddStringToObject(state, "chat", chat);
    const char *record = NULL;
    for (int i = 0; i < d->nfiles && !record; i++)
        record = data_meta(d, i, "chat_template_record");
    if (record)
        cJSON_AddStringToObject(state, "chat_template", record);
}

void records_load(Data *d, const cJSON *state)
{
    const cJSON *list = json_get(state, "drawn");
    for (int k = 0; k < d->nsources && cJSON_GetArraySize(list) == d->nsources; k++) {
        const cJSON *n = cJSON_GetArrayItem(list, k);
        if (cJSON_IsNumber(n))
            d->source[k].taken = (int64_t)n->valuedouble;
    }
}
