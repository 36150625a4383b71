/* unit_data_refused.c -- files that data_open() refuses, or that change while they are in use. */
#define _GNU_SOURCE
#include "unit_data.h"
#include "../../runtime/base.h"
#include "../../runtime/data/bins.h"
#include "../../runtime/files/safetensors.h"
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

const char *said;

int open_status(const char *path, const Made *m, bool eval)
{
    char *size = format("%d", (int)m->of.T), *vocab = format("%d", (int)m->of.vocab);
    char *micro = format("%d", (int)m->model.micro), *targets = format("%d", (int)m->of.targets);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        if (!freopen(said, "w", stderr))
            _exit(1);
        execl("/proc/self/exe", "unit", "--open", m->of.kind, size, vocab, path, micro, targets,
              eval ? "eval" : "train", NULL);
        _exit(1);
    }
    int status;
    waitpid(pid, &status, 0);
    free(size), free(vocab), free(micro), free(targets);
    return status;
}

void refused(const char *name, const char *path, const Made *m, int code, const char *text)
{
    int status = open_status(path, m, false);
    size_t n;
    char *error, *line = file_read(said, 1 << 16, &n, &error);
    check(WIFEXITED(status) && WEXITSTATUS(status) == code && line && strstr(line, text), name,
          "status %x: %s", (unsigned)status, line ? line : error);
    free(line);
}

/* Changes to a file between data_open and data_batch. tensor: at byte `at` of it come the
 * bytes; NULL: the file loses `at` bytes at its end, all when 0. */
static const struct Change {
    const char *name, *kind, *tensor;
    int64_t at;
    const char *bytes;
    const char *text;            /* of the line that it ends with */
} changes[] = {
    { "lost", "rows", NULL, 0, "", "became shorter" },
    { "lost its last byte", "rows", NULL, 1, "", "became shorter" },
    { "id 300", "rows", "tokens", 4 * 17, "\x2c\1\0\0", ": id 300 is outside the vocabulary, 0 to 256" },
    { "id -1", "packed", "tokens", 4 * 85, "\xff\xff\xff\xff", "tokens[85], byte " },
    { "id 257 as the last label", "packed", "tokens", 4 * 395, "\1\1\0\0", "tokens[395], byte " },
    { "offset beyond the tokens", "rows", "doc_offsets", 8 * 9 + 4, "\1\0\0\0", "doc_offsets[9] has changed" },
    { "offset below 0", "rows", "doc_offsets", 8 * 9 + 4, "\xff\xff\xff\xff", "doc_offsets[9] has changed" },
    { "offsets that fall", "rows", "doc_offsets", 8 * 9, "\0\0\0\0", "doc_offsets[9] has changed" },
    { "document longer than its bin", "bfd", "doc_offsets", 8 * 4, "\xd\0\0\0", "doc_offsets[5] has changed" },
};

static void change(const struct Change *c, const char *path)
{
    StFile f;
    char *error = st_open(&f, path);
    FILE *to = fopen(path, "r+");
    if (error || !to)
        exit(1);
    if (c->tensor)
        fseek(to, (long)st_find(&f, c->tensor)->begin + c->at, SEEK_SET), fwrite(c->bytes, 1, 4, to);
    else if (ftruncate(fileno(to), c->at ? (off_t)f.t[f.n - 1].end - c->at : 0))
        exit(1);
    fclose(to);
    st_close(&f);
}

int unit_open(char **argv)
{
    Data d;
    static Seen batch;
    Made m = model_of(argv[2], atoi(argv[6]), 1, 1);
    if (strcmp(argv[2], "pairs") == 0)
        m = pairs_model(atoi(argv[6]), 1);
    m.of.whole = m.of.parts && m.model.micro > DOCS;
    m.of.T = atoi(argv[3]);
    m.of.vocab = atoi(argv[4]);
    m.of.targets = atoi(argv[7]);
    recordfile_keep(strstr(argv[5], "held") != NULL);
    open_data(&d, argv[5], &m, 1, *argv[8] == 'e');
    const char *number = strstr(argv[5], "change");
    if (!number)
        return 0;
    change(&changes[atoi(number + 6)], argv[5]);
    for (int64_t i = 0; i < data_steps_per_epoch(&d); i++)
        data_batch(&d, i, 0, batch_at(&batch, 0));
    return 0;
}

/* A file that gets more targets while it is in use must not write beyond the rows of the head. */
static void overfull(void)
{
    int32_t of[3] = { 5, -1, 6 }, rows[1], labels[1];
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        close(2);
        data_gather(of, 3, rows, labels, 1);
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    check(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_DATA, "more targets than rows",
          "status %x", (unsigned)status);
}

/* A file that is changed while it is mapped ends the program, naming the place; nothing of it
 * becomes an index. One that is held in memory may do what it likes. */
static void changed_in_place(const char *scratch)
{
    for (size_t k = 0; k < 2 * (sizeof changes / sizeof *changes); k++) {
        const size_t i = k / 2;
        const bool held = k % 2;
        const struct Change *c = &changes[i];
        Made m = model_of(c->kind, 1, 1, 1);
        bool packed = *c->kind == 'p';
        char *path = format("%s/%schange%d.st", scratch, held ? "held-" : "", (int)i), *error = NULL;
        int64_t one[2] = { 0, TOKENS }, kept[2] = { doc[0], doc[1] };
        if (packed)
            memcpy(doc, one, sizeof one);
        write_file(path, packed ? "packed" : "rows", packed ? 1 : DOCS,
                   packed ? TOKENS : doc[DOCS], !packed);
        memcpy(doc, kept, sizeof kept);
        int status = open_status(path, &m, true);
        size_t n;
        char *line = file_read(said, 1 << 16, &n, &error);
        char *name = format("a file changed while %s, %s: %s", held ? "in memory" : "in use", c->kind,
                            c->name);
        check(WIFEXITED(status) && (held ? WEXITSTATUS(status) == 0
              : WEXITSTATUS(status) == EXIT_DATA && line && strstr(line, c->text) && strstr(line, path)),
              name, "status %x: %s", (unsigned)status, line ? line : error);
        free(name), free(line), free(path), free(error);
    }
}

/* A document longer than a bin breaks the contract of bins_pack(), which would write beyond its tables. */
static void too_long_for_a_bin(void)
{
    int status = -1;
    size_t n;
    char *error = NULL;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        const int32_t length[] = {3, 9};
        if (freopen(said, "w", stderr))
            bins_pack(length, 2, 8);
        _exit(0);
    }
    waitpid(child, &status, 0);
    char *text = file_read(said, 1 << 16, &n, &error);
    check(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_INTERNAL && text &&
          strstr(text, "broken contract: length[k] >= 1 && length[k] <= T"), "a document longer than a bin",
          "status %x: %s", (unsigned)status, text ? text : error);
    free(text), free(error);
}

void test_refused(const char *scratch, const char *packed, const char *rows, const char *own,
                  const char *pairs)
{
    Made m = model_of("packed", 2, 1, 1), r = model_of("rows", 2, 1, 1), other;
    Data a;
    refused("kind of another recipe", rows, &m, EXIT_MISMATCH, "rows with masked prompts, but this "
            "program was built for data.kind=packed: gen x.lua gpus=1 seq.max=5 data.kind=rows (");
    refused("packed data for rows", packed, &r, EXIT_MISMATCH, "data.kind=rows: gen pack JSON Lines "
            "with --kind rows, or gen x.lua gpus=1 seq.max=5 data.kind=packed");
    other = model_of("bfd", 2, 1, 1);
    refused("packed data for bfd", packed, &other, EXIT_MISMATCH, "built for data.kind=bfd: ");
    other.of.T = 4;
    refused("a document longer than a bin", rows, &other, EXIT_DATA, "--max-length 4");
    other = r;
    other.of.T = 4;
    refused("a row longer than T", rows, &other, EXIT_DATA, "--max-length 4");
    other = m;
    other.of.vocab = 200;
    refused("tokenizer larger than the model", packed, &other, EXIT_MISMATCH,
            "bytes has 257 ids, the model 200: gen pack it with the model's tokenizer, or gen x.lua gpus=1 "
            "data.kind=z seq.max=5 model.vocab=257");
    char *absent = format("%s/absent", scratch);
    refused("no such file", absent, &m, EXIT_DATA, "/absent: No such file");
    free(absent);
    refused("no files", ",", &m, EXIT_CONFIG, "must be token files, got");
    other = m;
    other.of.T = TOKENS;
    refused("fewer tokens than a sample", packed, &other, EXIT_DATA, "one sample needs 401");
    char *plain = format("%s/plain.st", scratch);
    write_file(plain, "rows", DOCS, doc[DOCS], false);
    refused("rows without prompts for a packed recipe", plain, &m, EXIT_MISMATCH, "plain texts are "
            "packed with gen pack --kind packed");
    char *bad = format("%s/bad.st", scratch);
    tokens[17] = 300;
    write_file(bad, "rows", DOCS, doc[DOCS], true);
    refused("an id beyond the vocabulary", bad, &r, EXIT_DATA, "id 300 is outside the vocabulary, 0 to 256");
    tokens[17] = -1;
    write_file(bad, "rows", DOCS, doc[DOCS], true);
    refused("a negative id", bad, &r, EXIT_DATA, "id -1 is outside");
    tokens[17] = 1;
    memset(mask + doc[7], 0, (size_t)(doc[8] - doc[7]));
    mask[doc[7]] = 1;                            /* the first token of a row is never predicted */
    write_file(bad, "rows", DOCS, doc[DOCS], true);
    refused("a row without targets", bad, &r, EXIT_DATA, "document 7 has no target");
    refused("rows of words to hide", own, &r, EXIT_MISMATCH, "own.st: rows of tokens to mask, but");
    finds_targets = r.of.finds_targets = true;
    write_file(bad, "rows", DOCS, doc[DOCS], true);
    open_data(&a, bad, &r, 1, false);
    check(a.n == DOCS, "a row whose first token may be chosen", "%d rows", (int)a.n);
    finds_targets = r.of.finds_targets = false;
    refused("samples of parts for others", pairs, &m, EXIT_MISMATCH,
            "pairs.st: pairs (chosen, rejected), but this program takes packed (tokens): ");
    other = pairs_model(1, 1);
    refused("other samples for parts", rows, &other, EXIT_MISMATCH,
            "rows (tokens), but this program takes pairs (chosen, rejected): ");
    write_parts(bad, "triples", DOCS);
    refused("parts of another kind", bad, &other, EXIT_MISMATCH, "triples (chosen, rejected), but");
    other.of.T = 4;
    refused("a part longer than T", pairs, &other, EXIT_DATA, "document 3 has 5 tokens in chosen, the model");
    other = pairs_model(1, 1);
    other.of.targets = 8;
    refused("more targets in both parts", pairs, &other, EXIT_DATA, "may have 9 targets, this program takes 8");
    other.of.targets = 0;
    other.model.micro = DOCS + 1;
    other.of.whole = true;
    refused("fewer samples than a whole step", pairs, &other, EXIT_DATA,
            "23 training samples, but a step takes 24");
    const int32_t was = turned[3];
    tokens[doc[DOCS] - 4] = 299;                 /* turned[3] is one more */
    write_parts(bad, "pairs", DOCS);
    other = pairs_model(1, 1);
    refused("an id beyond the vocabulary in a part", bad, &other, EXIT_DATA, "chosen[");
    tokens[doc[DOCS] - 4] = (was + 255) % 256;
    mask[doc[7] + 1] = 0, mask[doc[7]] = 0;
    write_parts(bad, "pairs", DOCS);
    refused("a part without targets", bad, &other, EXIT_DATA, "document 7 has no target in chosen");
    mask[doc[7]] = 1;
    char *pair = format("%s,%s", plain, bad);
    mask_key = "pad_id";
    write_file(bad, "rows", DOCS, doc[DOCS], true);
    refused("files that tell of other ids", pair, &r, EXIT_MISMATCH,
            "have 257 and 257 ids, mask_id 255 and -1, pad_id -1 and 255: ");
    check(truncate(bad, 700) == 0, "cut", "truncate");
    refused("a truncated file", bad, &r, EXIT_DATA, "the file has 348 bytes of data");
    mask[doc[7] + 1] = 1;
    changed_in_place(scratch);
    overfull();
    too_long_for_a_bin();
}
