/* unit_steps.c -- records of solutions in steps, against the arrays they were written from; what a damaged or
 * an unfit file is refused with. */
#define _GNU_SOURCE
#include "unit.h"
#include "../../runtime/base.h"
#include "../../runtime/data/recordfile.h"
#include "../../runtime/data/steps.h"
#include "../../runtime/files/json.h"
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RECORDS = 5, PLACES = 8, TOKENS = 26, LABELS = 5 };

/* Content of a file; each test rewrites it, some with one value changed. */
typedef struct {
    int32_t token[TOKENS];
    uint8_t mask[TOKENS];
    int64_t at[RECORDS + 1], label_at[RECORDS + 1], id_at[RECORDS + 1];
    float label[LABELS], outcome[RECORDS];
    int32_t domain[RECORDS], question[RECORDS], right[RECORDS];
    char id[16];
    const char *kind, *domains, *questions;
} Content;

static const Content plain = {
    .mask = { [2] = 1, [4] = 1, [7] = 1, [9] = 1, [10] = 1, [13] = 1, [16] = 1, [20] = 1, [22] = 1, [25] = 1 },
    .at = { 0, 5, 8, 14, 18, 26 }, .label_at = { 0, 2, 3, 5, 5, 5 }, .id_at = { 0, 1, 3, 6, 10, 15 },
    .label = { 1, 0.25f, 0, 0.5f, 1 }, .outcome = { 1, 0, 1, 0, 1 }, .domain = { 1, 0, -1, 0, 1 },
    .question = { 0, 0, 2, 2, 2 }, .right = { 1, 0, -1, 1, 0 }, .id = "abbcccddddeeeee",
    .kind = "steps", .domains = "[\"b c\",\"a\"]", .questions = "4" };

static void write_steps(const char *path, const Content *c)
{
    const ColumnPlan column[] = {
        { "tokens", ST_I32, "ragged", TOKENS }, { "tokens.mask", ST_U8, "tokens", TOKENS },
        { "rewards", ST_F32, "ragged", LABELS }, { "id", ST_U8, "ragged", c->id_at[RECORDS] },
        { "outcome", ST_F32, "fixed", 1 }, { "domain", ST_I32, "fixed", 1 },
        { "question", ST_I32, "fixed", 1 }, { "right", ST_I32, "fixed", 1 } };
    const UnitArray data[] = {
        { "tokens", c->token }, { "tokens.mask", c->mask }, { "tokens.offsets", c->at },
        { "rewards", c->label }, { "rewards.offsets", c->label_at }, { "id", c->id },
        { "id.offsets", c->id_at }, { "outcome", c->outcome }, { "domain", c->domain },
        { "question", c->question }, { "right", c->right } };
    const UnitMeta meta[] = {
        { "kind", c->kind }, { "parts", "tokens" }, { "tokenizer", "bytes" }, { "vocab", "257" },
        { "eos", "256" }, { "sha256", "00ff" }, { "max_length", "8" }, { "targets", "own" },
        { "domains", c->domains }, { "questions", c->questions } };
    unit_write_records(path, RECORDS, column, strcmp(c->kind, "steps") ? 8 : 6,
                       data, sizeof data / sizeof *data, meta, sizeof meta / sizeof *meta);
}

static void open_steps(Data *d, const char *paths, const char *kind, int64_t micro, bool eval)
{
    const Model model = { .recipe = "x.lua", .overrides = "", .micro = 2, .accum = 2, .ranks = 1 };
    const DataShape of = { .kind = kind, .T = PLACES, .vocab = 257, .parts = steps_parts, .micro = micro,
                           .columns = *kind == 's' ? steps_columns : candidates_columns, .finds_targets = true };
    data_open(d, paths, &model, &of, 1, eval);
}

/* One after the other, as of an evaluation; of two files that name their domains apart. */
static void records(const char *paths, const char *kind, int64_t files)
{
    static const int names[2][2] = { { 1, 0 }, { 2, 0 } };       /* of domain 0 and 1, by their bytes */
    const Content *c = &plain;
    Data d;
    Steps s;
    bool good = true;
    open_steps(&d, paths, kind, 0, true);
    steps_open(&s, &d, 3, false, false);
    for (int64_t k = 0; k < files * RECORDS; k++) {
        const int64_t i = k % RECORDS, from = c->at[i], labels = c->label_at[i + 1] - c->label_at[i];
        StepsRow r;
        good = good && steps_row(&s, k / 2, 0, k % 2, &r) && r.sample == k && r.n == c->at[i + 1] - from &&
               r.nlabels == labels &&
               !memcmp(r.label, c->label + c->label_at[i], (size_t)labels * 4) && r.outcome == c->outcome[i] &&
               r.domain == (c->domain[i] < 0 ? -1 : names[k / RECORDS][c->domain[i]]);
        int marks = 0;
        for (int32_t t = 0; t < r.n; t++) {
            good = good && r.token[t] == (from + t) * 7 % 256;
            if (c->mask[from + t])
                good = good && marks < r.nmarks && r.position[marks++] == t;
        }
        good = good && marks == r.nmarks;
        good = good && (*kind == 's' ? r.question == -1 && r.right == -1
                                     : r.question == c->question[i] + k / RECORDS * 4 && r.right == c->right[i]);
        char *id = steps_id(&s, k), *named = format("%s%.*s", k < RECORDS ? "" : "2:", (int)i + 1, c->id + c->id_at[i]);
        good = good && !strcmp(id, named);
        free(id), free(named);
    }
    const bool all = s.ndomains == 1 + files && !strcmp(s.domain[0], "a") && !strcmp(s.domain[1], "b c") &&
                     (files == 1 || !strcmp(s.domain[2], "z")) && s.questions == (*kind == 's' ? 0 : 4 * files);
    char *name = format("%s as they were written, files: %d", kind, (int)files);
    check(good && all, name, "%s", good ? "domains or questions" : "a record");
    free(name);
}

/* A micro-batch of its own size, in addition to the model's. */
static void other_micro(const char *path)
{
    Data d, model;
    Steps s;
    open_steps(&d, path, "steps", 1, false);
    open_steps(&model, path, "steps", 0, false);
    steps_open(&s, &d, 3, false, false);
    bool good = d.G == 2 && model.G == 4;
    int64_t order[4];
    for (int64_t step = 0; step < 6; step++) {
        StepsRow r;
        data_samples(&d, step, order, 2);
        good = good && steps_row(&s, step, 1, 0, &r) && r.sample == order[1];
    }
    check(good, "samples of another micro-batch", "G %d, %d", (int)d.G, (int)model.G);
}

/* In a process of its own, which ends with EXIT_DATA or EXIT_MISMATCH and says so. */
static void refused(const char *scratch, const char *name, const Content *c, const char *kind, int64_t most,
                    bool labelled, bool domains, int code, const char *text)
{
    char *path = format("%s/refused.st", scratch), *said = format("%s/refused.log", scratch), *error;
    write_steps(path, c);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        Data d;
        Steps s;
        if (!freopen(said, "w", stderr))
            _exit(1);
        open_steps(&d, path, kind, 0, true);
        steps_open(&s, &d, most, labelled, domains);
        _exit(0);
    }
    int status;
    size_t n;
    waitpid(pid, &status, 0);
    char *line = file_read(said, 1 << 16, &n, &error);
    check(WIFEXITED(status) && WEXITSTATUS(status) == code && line && strstr(line, text), name, "status %x: %s",
          (unsigned)status, line ? line : error);
    free(line), free(path), free(said);
}

static void all_refused(const char *scratch)
{
    Content c = plain, k = plain;
    k.kind = "candidates";
    refused(scratch, "steps: too many marks", &c, "steps", 2, false, false, EXIT_DATA,
            "record 2 has more than the 2 marks that this program takes: gen pack --steps 3");
    refused(scratch, "steps: no labels", &c, "steps", 3, true, false, EXIT_DATA,
            "record 3 has no labels of its steps");
    refused(scratch, "steps: no domain", &c, "steps", 3, false, true, EXIT_DATA, "record 2 has no domain");
    refused(scratch, "steps: another kind", &k, "steps", 3, false, false, EXIT_MISMATCH,
            "candidates (tokens), but this program takes steps (tokens)");
    c.kind = "candidates";
    c.question[3] = 4;
    refused(scratch, "steps: a question that is none", &c, "candidates", 3, false, false, EXIT_DATA,
            "record 3: question is 4, must be from 0 to 3");
    c = k, c.right[1] = 2;
    refused(scratch, "steps: neither right nor wrong", &c, "candidates", 3, false, false, EXIT_DATA,
            "record 1: right is 2, must be 0, 1 or -1");
    c = k, c.questions = "4x";
    refused(scratch, "steps: questions that are no number", &c, "candidates", 3, false, false, EXIT_DATA,
            "metadata questions: must be an integer from 1");
    c = plain, c.label[1] = 1.5f;
    refused(scratch, "steps: a label above 1", &c, "steps", 3, false, false, EXIT_DATA,
            "record 0: reward 1 is 1.5, must be from 0 to 1");
    c = plain, c.label_at[1] = 3;
    refused(scratch, "steps: more labels than marks", &c, "steps", 3, false, false, EXIT_DATA,
            "record 0: 3 rewards, but 2 marks");
    c = plain, c.outcome[4] = 0.5f;
    refused(scratch, "steps: an outcome between", &c, "steps", 3, false, false, EXIT_DATA,
            "record 4: outcome is 0.5, must be 0 or 1");
    c = plain, c.domain[0] = 2;
    refused(scratch, "steps: a domain without a name", &c, "steps", 3, false, false, EXIT_DATA,
            "record 0: domain is 2, must be from -1 to 1");
    c = plain, c.domains = "[1]";
    refused(scratch, "steps: names that are none", &c, "steps", 3, false, false, EXIT_DATA,
            "metadata domains: must be a list of strings");
    c = plain, c.mask[25] = 0, c.mask[20] = 0, c.mask[22] = 0;
    refused(scratch, "steps: a record without a mark", &c, "steps", 3, false, false, EXIT_DATA,
            "document 4 has no target");
}

void test_steps(const char *scratch)
{
    char *one = format("%s/steps.st", scratch), *two = format("%s/steps2.st", scratch);
    char *both = format("%s,%s", one, two);
    for (int k = 0; k < 2; k++) {
        Content c = plain;
        c.kind = k ? "candidates" : "steps";
        for (int i = 0; i < TOKENS; i++)
            c.token[i] = i * 7 % 256;
        write_steps(one, &c);
        c.domains = "[\"z\",\"a\"]";
        write_steps(two, &c);
        records(one, c.kind, 1);
        records(both, c.kind, 2);
    }
    Content c = plain;
    write_steps(one, &c);
    other_micro(one);
    all_refused(scratch);
    free(one), free(two), free(both);
}
