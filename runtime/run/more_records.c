/* more_records.c -- records of flags other than --data and --eval-data. */
#define _GNU_SOURCE
#include "runtime/run/more_records.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/run/rank_agreement.h"
#include "runtime/run/records_parts.h"

bool records_packed(const char *flag, const char *paths)
{
    int n, packed = 0;
    char **file = split_names(paths, &n);
    for (int i = 0; i < n; i++) {
        if (strcmp(file[i], "-") && !file_named(file[i]))
            die(EXIT_DATA, "--%s: %s: no such file", flag, file[i]);
        packed += strcmp(file[i], "-") && !pack_is_raw(file[i]);
    }
    if (packed && packed < n)
        die(EXIT_CONFIG, "--%s: some of %s are packed and some are raw: use only one kind in a "
                         "command",
            flag, paths);
    free(file);
    return packed > 0;
}

void records_open_more(const Flags *f, const Model *m, const DataShape *of,
                       const RecordRules *rules, const char *flag, const char *paths,
                       const Data *training, bool eval, Data *to)
{
    char *others = data_paths(training),
         *files = records_files(f, m, of, rules, flag, paths, others);
    data_open(to, files, m, of, (uint64_t)f->seed, eval);
    ranks_check_data(NULL, to);
    data_check_same(to, training->tokenizer, training->eos, others);
    free(others), free(files);
}

void records_each(const Flags *f, const Model *m, const DataShape *of, const RecordRules *rules,
                  const char *flag, const char *paths, const char *tokenizer,
                  void (*each)(void *user, const PackedRow *row), void *user)
{
    int n;
    char **file = split_names(paths, &n);
    const char *first = n ? file[0] : "";
    char *used = tokenizer ? format("%s", tokenizer)
                          : records_tokenizer_of(f, of->finds_targets, flag, first, NULL);
    for (int i = 0; i < n; i++)
        if (!pack_is_raw(file[i]))
            die(EXIT_CONFIG, "--%s: %s is a record file: give the JSON rows that it was made from",
                flag, file[i]);
    const PackOptions o = records_options(f, m, of, rules, flag, used, file, n);
    PackError e = pack_each(&o, each, user);
    if (e.text)
        records_refuse(&e, flag, used, "");
    free(used), free(file);
}
