/* unit_data.c -- order against PyTorch's, batches against a slow layout, ranks that partition. */
#define _GNU_SOURCE
#include "unit.h"
#include "../../runtime/base.h"
#include "../../runtime/data.h"
#include "../../runtime/json.h"
#include "../../runtime/safetensors.h"
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { T = 5, DOCS = 23, TOKENS = 400 };
static int32_t tokens[TOKENS];
static uint8_t mask[TOKENS];
static int64_t doc[DOCS + 1];

static cJSON *read_json(const char *path)
{
    size_t n;
    char *error = NULL, *text = file_read(path, 1 << 24, &n, &error);
    cJSON *doc_ = text ? json_parse(text, n, &error) : NULL;
    check(doc_ != NULL, path, "%s", error ? error : "");
    free(text);
    return doc_;
}

/* CRC-32 of zlib and Python's zlib.crc32, bit by bit. */
static uint32_t crc32(const void *data, size_t n)
{
    uint32_t crc = ~0u;
    for (const uint8_t *p = data; n--; p++) {
        crc ^= *p;
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    }
    return ~crc;
}

static void orders(void)
{
    cJSON *all = read_json("tests/train/ref/vectors.json");
    const cJSON *list = json_get(all, "permutations");
    for (const cJSON *r = list ? list->child : NULL; r; r = r->next) {
        int64_t n = (int64_t)json_get(r, "n")->valuedouble, i = 0;
        uint32_t seed = (uint32_t)json_get(r, "seed")->valuedouble;
        int32_t *p = malloc((size_t)n * sizeof *p);
        data_permutation(p, n, seed);
        bool head = true;
        for (const cJSON *h = json_get(r, "head")->child; h; h = h->next, i++)
            head = head && p[i] == (int32_t)h->valuedouble;
        uint32_t crc = crc32(p, (size_t)n * 4);
        char *name = format("order of %d samples, seed %u, as randperm", (int)n, seed);
        check(head && crc == (uint32_t)json_get(r, "crc32_i32le")->valuedouble, name,
              "first %d, crc %u", p[0], crc);
        free(name);
        free(p);
    }
    cJSON_Delete(all);
}

static void write_file(const char *path, const char *kind, int64_t ndocs, int64_t n, bool masked)
{
    StWriter *w = st_writer("diecast-tokens-1");
    char *error = NULL;
    const struct { const char *key, *value; } meta[] = {
        { "kind", kind }, { "tokenizer", "bytes" },
        { "vocab", "257" }, { "eos", "256" }, { "documents", "9" }, { "sha256", "00ff" },
        { "max_length", "5" } };
    for (size_t i = 0; i < sizeof meta / sizeof *meta && !error; i++)
        error = st_add_meta(w, meta[i].key, meta[i].value);
    error = error ? error : st_add(w, "tokens", ST_I32, 1, &n);
    error = error ? error : st_add(w, "doc_offsets", ST_I64, 1, (int64_t[]){ ndocs + 1 });
    if (masked && !error)
        error = st_add(w, "mask", ST_U8, 1, &n);
    error = error ? error : st_begin(w, path);
    for (int i = 0; i < st_count(w) && !error; i++) {
        const char *name = st_planned(w, i)->name;
        const void *at = *name == 't' ? (void *)tokens : *name == 'd' ? (void *)doc : (void *)mask;
        error = st_write(w, name, at, st_planned(w, i)->end - st_planned(w, i)->begin);
    }
    uint32_t crc;
    error = error ? error : st_end(w, &crc);
    check(!error, path, "%s", error ? error : "");
    st_free(w);
}

static Model model_of(const char *kind, int64_t micro, int64_t accum, int64_t ranks)
{
    return (Model){ .data_kind = kind, .vocab = 257, .T = T, .micro = micro, .accum = accum,
                    .ranks = ranks };
}

/* All samples of `step` as the ranks see them, in the order of the global batch. */
static void gather(const char *paths, const Model *m, int64_t step, bool eval, int32_t *x,
                   int32_t *y, bool *seen)
{
    for (world.rank = 0; world.rank < m->ranks; world.rank++) {
        Data d;
        data_open(&d, paths, m, 42, eval);
        for (int64_t k = 0; k < d.accum; k++) {
            int64_t first = data_sample0(&d, step, k);
            if (first != (k * m->ranks + world.rank) * m->micro)     /* block k R + rank of B */
                return;                                              /* leaves `seen` empty */
            for (int64_t b = 0; b < d.micro; b++)
                seen[first + b] = true;
            data_batch(&d, step, k, x + first * T, y + first * T);
        }
        data_close(&d);
    }
    world.rank = 0;
}

/* The same, slowly, from the arrays: sample order[...] of 79 packed ones or 23 rows. */
static void slow(bool rows, int64_t n, int64_t G, int64_t step, int32_t *x, int32_t *y)
{
    int64_t per = n / G + (n % G != 0), epoch = step / per;
    int32_t *p = malloc((size_t)n * sizeof *p);
    data_permutation(p, n, (uint32_t)(42 + epoch));
    for (int64_t g = 0; g < G; g++) {
        int64_t at = (step - epoch * per) * G + g;
        while (at >= n)
            at -= n;
        int64_t i = p[at], begin = rows ? doc[i] : i * T, end = rows ? doc[i + 1] : i * T + T;
        for (int64_t t = 0; t < T; t++) {
            bool in = begin + t < end, next = rows ? begin + t + 1 < end : true;
            x[g * T + t] = in ? tokens[begin + t] : 256;
            bool target = in && next && (!rows || mask[begin + t + 1]);
            y[g * T + t] = target ? tokens[begin + t + 1] : -1;
        }
    }
    free(p);
}

static void partition(const char *path, const char *kind, int64_t n)
{
    static const int64_t split[][3] = { { 8, 1, 1 }, { 2, 4, 1 }, { 2, 2, 2 }, { 1, 4, 2 },
                                        { 2, 1, 4 }, { 1, 1, 8 } };
    int32_t x[8 * T], y[8 * T], wx[8 * T], wy[8 * T];
    bool rows = *kind == 'r';
    for (size_t s = 0; s < sizeof split / sizeof *split; s++) {
        Model m = model_of(kind, split[s][0], split[s][1], split[s][2]);
        bool good = true, counted = true, all = true;
        for (int64_t step = 0; step < 3 * (n / 8 + 1); step++) {
            bool seen[8] = { false };
            int64_t targets = 0, inputs = 0;
            memset(x, 0x55, sizeof x);
            gather(path, &m, step, false, x, y, seen);
            slow(rows, n, 8, step, wx, wy);
            for (int g = 0; g < 8; g++)
                all = all && seen[g];
            for (int i = 0; i < 8 * T; i++) {
                good = good && x[i] == wx[i] && y[i] == wy[i];
                targets += wy[i] >= 0;
                inputs += wx[i] != 256;
            }
            Data d;
            data_open(&d, path, &m, 42, false);
            counted = counted && data_targets(&d, step) == targets
                && data_tokens(&d, step) == inputs && data_steps_per_epoch(&d) == (n + 7) / 8;
            data_close(&d);
        }
        char *name = format("%s: %d x %d accumulated x %d ranks, 3 epochs with tails", kind,
                            (int)m.micro, (int)m.accum, (int)m.ranks);
        check(good && counted && all, name, "%s", !all ? "a place is empty" : good ? "counts"
              : "tokens or labels");
        free(name);
    }
}

static void evaluation(const char *path, int64_t n)
{
    for (int64_t ranks = 1; ranks <= 4; ranks *= 2) {
        Model m = model_of("rows", 3, 2, ranks);
        int64_t G = 3 * ranks, real = 0, batches = (n + G - 1) / G;
        int32_t x[12 * T], y[12 * T];
        bool good = true;
        for (int64_t step = 0; step < batches; step++) {
            bool seen[12];
            gather(path, &m, step, true, x, y, seen);
            for (int64_t g = 0; g < G; g++)
                for (int64_t t = 0; t < T; t++) {
                    int64_t i = step * G + g, at = i < n ? doc[i] + t : 0;
                    bool next = i < n && at + 1 < doc[i + 1];
                    good = good && y[g * T + t] == (next && mask[at + 1] ? tokens[at + 1] : -1);
                }
            for (world.rank = 0; world.rank < ranks; world.rank++) {
                Data d;
                data_open(&d, path, &m, 1, true);
                real += data_rows(&d, step, 0);
                good = good && data_steps_per_epoch(&d) == batches;
                data_close(&d);
            }
            world.rank = 0;
        }
        char *name = format("evaluation on %d ranks: every record once", (int)ranks);
        check(good && real == n, name, "%d records of %d, labels %s", (int)real, (int)n,
              good ? "right" : "wrong");
        free(name);
    }
}

/* data_open in a program of its own (argv of unit_open): it must end with the code. */
static void refused(const char *name, const char *path, const Model *m, int code)
{
    char *size = format("%d", (int)m->T), *vocab = format("%d", (int)m->vocab);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        close(2);
        execl("/proc/self/exe", "unit", "--open", m->data_kind, size, vocab, path, NULL);
        _exit(1);
    }
    int status;
    waitpid(pid, &status, 0);
    check(WIFEXITED(status) && WEXITSTATUS(status) == code, name, "status %x", (unsigned)status);
    free(size);
    free(vocab);
}

int unit_open(char **argv)
{
    Data d;
    int32_t x[2 * T], y[2 * T];
    Model m = model_of(argv[2], 2, 1, 1);
    m.T = atoi(argv[3]);
    m.vocab = atoi(argv[4]);
    data_open(&d, argv[5], &m, 1, false);
    if (strstr(argv[5], "cut") && truncate(argv[5], 0) == 0)
        data_batch(&d, 0, 0, x, y);
    return 0;
}

/* The steps that the oracle recorded: samples and target counts. */
static void reference(const char *folder, const char *kind)
{
    char *path = format("tests/train/ref/%s/expect.json", folder);
    cJSON *expect = read_json(path), *steps = json_get(expect, "steps");
    const cJSON *settings = json_get(expect, "settings");
    free(path);
    Model m = model_of(kind, (int64_t)json_get(settings, "micro_batch")->valuedouble,
                       (int64_t)json_get(settings, "accum")->valuedouble, 1);
    m.T = (int64_t)json_get(settings, "T")->valuedouble;
    path = format("tests/train/ref/%s/tokens.safetensors", folder);
    Data d;
    data_open(&d, path, &m, (uint64_t)json_get(settings, "seed")->valuedouble, false);
    int64_t first[64], i = 0, k = 0;
    bool good = data_samples(&d, 0, first, 64) == m.micro * m.accum;
    for (const cJSON *s = json_get(expect, "first_samples")->child; s; s = s->next)
        good = good && first[i++] == (int64_t)s->valuedouble;
    for (const cJSON *s = steps->child; s; s = s->next)
        good = good && data_targets(&d, k++) == (int64_t)json_get(s, "targets")->valuedouble;
    char *name = format("%s: samples and targets as the oracle saw them", folder);
    check(good && i == d.G && k > 5, name, "first sample %d, %d targets", (int)first[0],
          (int)data_targets(&d, 0));
    free(name);
    free(path);
    data_close(&d);
    cJSON_Delete(expect);
}

void test_data(const char *scratch)
{
    orders();
    reference("gpt2_tiny", "packed");
    reference("llama_rows", "rows");
    for (int i = 0; i < TOKENS; i++) {
        tokens[i] = i * 37 % 256;
        mask[i] = i % 3 != 0;
    }
    doc[1] = TOKENS;
    char *packed = format("%s/packed.st", scratch), *rows = format("%s/rows.st", scratch);
    write_file(packed, "packed", 1, TOKENS, false);
    for (int i = 0; i < DOCS; i++)
        doc[i + 1] = doc[i] + 2 + i % 4;         /* 2..5 tokens */
    for (int i = 0; i < DOCS; i++)
        mask[doc[i] + 1] = 1;                    /* so that every row has a target */
    write_file(rows, "rows", DOCS, doc[DOCS], true);
    partition(packed, "packed", (TOKENS - 1) / T);
    partition(rows, "rows", DOCS);
    evaluation(rows, DOCS);

    Model m = model_of("packed", 2, 1, 1), r = model_of("rows", 2, 1, 1), other = m;
    Data a, b;
    char *two = format("%s,%s", packed, packed);
    data_open(&a, two, &m, 1, true);
    data_open(&b, packed, &m, 1, true);
    int32_t x[2 * T], y[2 * T], x1[2 * T], y1[2 * T];
    data_batch(&a, 40, 0, x, y);                 /* samples 80, 81 = 1, 2 of the second file */
    data_batch(&b, 0, 0, x1, y1);
    check(a.n == 2 * b.n && memcmp(x, x1 + T, T * 4) == 0 && memcmp(y, y1 + T, T * 4) == 0,
          "two files follow each other", "%d samples", (int)a.n);
    char *fa = data_fingerprint(&a), *fb = data_fingerprint(&b);
    other.ranks = 4;
    data_close(&a);
    data_open(&a, packed, &other, 9, false);
    char *fc = data_fingerprint(&a);
    check(strcmp(fa, fb) && !strcmp(fb, fc), "fingerprint: files, not ranks or seed", "%s", fc);

    refused("kind of another recipe", rows, &m, EXIT_MISMATCH);
    refused("packed data for rows", packed, &r, EXIT_MISMATCH);
    other = r;
    other.T = 4;
    refused("a row longer than T", rows, &other, EXIT_DATA);
    other = m;
    other.vocab = 200;
    refused("tokenizer larger than the model", packed, &other, EXIT_MISMATCH);
    refused("no such file", "/nonexistent", &m, EXIT_DATA);
    refused("no files", ",", &m, EXIT_CONFIG);
    other = m;
    other.T = TOKENS;
    refused("fewer tokens than a sample", packed, &other, EXIT_DATA);
    char *bad = format("%s/bad.st", scratch);
    tokens[17] = 300;
    write_file(bad, "rows", DOCS, doc[DOCS], true);
    refused("an id beyond the vocabulary", bad, &r, EXIT_DATA);
    tokens[17] = -1;
    write_file(bad, "rows", DOCS, doc[DOCS], true);
    refused("a negative id", bad, &r, EXIT_DATA);
    tokens[17] = 1;
    memset(mask + doc[7], 0, (size_t)(doc[8] - doc[7]));
    mask[doc[7]] = 1;                            /* the first token of a row is never predicted */
    write_file(bad, "rows", DOCS, doc[DOCS], true);
    refused("a row without targets", bad, &r, EXIT_DATA);
    check(truncate(bad, 700) == 0, "cut", "truncate");
    refused("a truncated file", bad, &r, EXIT_DATA);
    char *cut = format("%s/cut.st", scratch);
    mask[doc[7] + 1] = 1;
    write_file(cut, "rows", DOCS, doc[DOCS], true);
    refused("a file cut short while in use", cut, &r, EXIT_DATA);
}
