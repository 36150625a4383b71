/* unit_data.c -- order against PyTorch's, batches against a slow layout, ranks that partition. */
#define _GNU_SOURCE
#include "unit_data.h"
#include "../../runtime/base.h"
#include "../../runtime/files/safetensors.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

int32_t tokens[TOKENS];
uint8_t mask[TOKENS];
int64_t doc[DOCS + 1];

cJSON *read_json(const char *path)
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

const char *mask_key = "mask_id";
bool finds_targets;
const char *train_rows;

/* Documents whose parts are those of `tokens` and the same backwards, each id one more; the latter's
 * mask is there. */
static const char *const two_parts[] = { "chosen", "rejected", NULL };
int32_t turned[TOKENS];
static int64_t turned_at[DOCS + 1];

void write_parts(const char *path, const char *kind, int64_t ndocs)
{
    const int64_t n = doc[ndocs];
    const ColumnPlan column[] = { { "chosen", ST_I32, "ragged", n }, { "chosen.mask", ST_U8, "chosen", n },
                                  { "rejected", ST_I32, "ragged", n } };
    const UnitArray data[] = {
        { "chosen", tokens }, { "chosen.mask", mask }, { "chosen.offsets", doc },
        { "rejected", turned }, { "rejected.offsets", turned_at } };
    for (int64_t i = 0; i < n; i++)
        turned[i] = (tokens[n - 1 - i] + 1) % 256;
    for (int64_t i = 0; i <= ndocs; i++)
        turned_at[i] = n - doc[ndocs - i];
    const UnitMeta meta[] = {
        { "kind", kind }, { "tokenizer", "bytes" }, { "vocab", "257" }, { "eos", "256" },
        { "sha256", "00ff" }, { "max_length", "5" }, { "targets", "own" } };
    unit_write_records(path, ndocs, column, 3,
                       data, sizeof data / sizeof *data, meta, sizeof meta / sizeof *meta);
}

void write_file(const char *path, const char *kind, int64_t ndocs, int64_t n, bool masked)
{
    StWriter *w = st_writer("diecast-tokens-1");
    char *error = NULL;
    const struct { const char *key, *value; } meta[] = {
        { "kind", kind }, { "tokenizer", "bytes" },
        { "vocab", "257" }, { "eos", "256" }, { "sha256", "00ff" },
        { "max_length", "5" }, { mask_key, "255" } };
    for (size_t i = 0; i < sizeof meta / sizeof *meta && !error; i++)
        error = st_add_meta(w, meta[i].key, meta[i].value);
    if (finds_targets && !error)
        error = st_add_meta(w, "targets", "own");
    if (train_rows && !error)
        error = st_add_meta(w, "train", train_rows);
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

Made model_of(const char *kind, int64_t micro, int64_t accum, int64_t ranks)
{
    return (Made){ { .recipe = "x.lua", .overrides = "gpus=1 data.kind=z seq.max=5",
                     .micro = micro, .accum = accum, .ranks = ranks },
                   { .kind = kind, .vocab = 257, .T = T,
                     .fill_bins = *kind == 'b' ? data_fill_bins : NULL } };
}

void open_data(Data *d, const char *paths, const Made *m, uint64_t seed, bool eval)
{
    data_open(d, paths, &m->model, &m->of, seed, eval);
}

Batch batch_at(Seen *s, int64_t sample)
{
    const int64_t at = sample * T;
    return (Batch){ .tokens = s->x + at, .labels = s->y + at, .positions = s->places + at,
                    .doc_ends = s->ends + at };
}

/* All samples of `step` as the ranks see them, in the order of the global batch. */
static void gather(const char *paths, const Made *m, int64_t step, bool eval, Seen *all,
                   bool *seen)
{
    for (world.rank = 0; world.rank < m->model.ranks; world.rank++) {
        Data d;
        open_data(&d, paths, m, 42, eval);
        for (int64_t k = 0; k < d.accum; k++) {
            int64_t first = data_sample0(&d, step, k);
            if (first != (k * m->model.ranks + world.rank) * m->model.micro)     /* block k R + rank of B */
                return;                                              /* leaves `seen` empty */
            for (int64_t b = 0; b < d.micro; b++)
                seen[first + b] = true;
            data_batch(&d, step, k, batch_at(all, first));
        }
    }
    world.rank = 0;
}

/* Sample i of the arrays: a window, a document, or the documents of a bin. */
static void slow_sample(const char *kind, int64_t i, Batch to)
{
    int32_t length[DOCS];
    int64_t bin[DOCS], place[DOCS], used = 0;
    for (int64_t k = 0; k < DOCS; k++)
        length[k] = (int32_t)(doc[k + 1] - doc[k]);
    if (*kind == 'b')
        slow_bins(length, DOCS, T, bin, place);
    for (int64_t t = 0; t < T; t++)
        to.tokens[t] = 256, to.labels[t] = -1, to.positions[t] = -2, to.doc_ends[t] = T;
    if (*kind == 'p')
        for (int64_t t = 0; t < T; t++)
            to.tokens[t] = tokens[i * T + t], to.labels[t] = tokens[i * T + t + 1];
    for (int64_t k = 0; k < DOCS && *kind != 'p'; k++) {
        const int64_t at = *kind == 'b' ? place[k] : 0;
        if ((*kind == 'b' ? bin[k] : k) != i)
            continue;
        for (int64_t t = 0; t < length[k]; t++) {
            const int64_t from = doc[k] + t;
            to.tokens[at + t] = tokens[from];
            if (t + 1 < length[k] && mask[from + 1])
                to.labels[at + t] = tokens[from + 1];
            to.positions[at + t] = (int32_t)t;
            to.doc_ends[at + t] = (int32_t)at + length[k];
        }
        used = at + length[k] > used ? at + length[k] : used;
    }
    for (int64_t t = used; t < T; t++)           /* padding */
        to.positions[t] = (int32_t)(t - used);
}

/* The global batch of a step from the arrays: sample order[...] of n. */
static void slow(const char *kind, int64_t n, int64_t G, int64_t step, Seen *to)
{
    int64_t per = n / G + (n % G != 0), epoch = step / per;
    int32_t *p = malloc((size_t)n * sizeof *p);
    data_permutation(p, n, (uint32_t)(42 + epoch));
    for (int64_t g = 0; g < G; g++) {
        int64_t at = (step - epoch * per) * G + g;
        while (at >= n)
            at -= n;
        slow_sample(kind, p[at], batch_at(to, g));
    }
    free(p);
}

static bool same_positions(const Seen *a, const Seen *b, int64_t n)
{
    return memcmp(a->places, b->places, (size_t)n * 4) == 0
        && memcmp(a->ends, b->ends, (size_t)n * 4) == 0;
}

static void partition(const char *path, const char *kind, int64_t n)
{
    static const int64_t split[][3] = { { 8, 1, 1 }, { 2, 4, 1 }, { 2, 2, 2 }, { 1, 4, 2 },
                                        { 2, 1, 4 }, { 1, 1, 8 } };
    static Seen got, want;
    for (size_t s = 0; s < sizeof split / sizeof *split; s++) {
        Made m = model_of(kind, split[s][0], split[s][1], split[s][2]);
        bool good = true, counted = true, all = true;
        for (int64_t step = 0; step < 3 * (n / 8 + 1); step++) {
            bool seen[8] = { false };
            int64_t targets = 0, inputs = 0;
            memset(&got, 0x55, sizeof got);
            gather(path, &m, step, false, &got, seen);
            slow(kind, n, 8, step, &want);
            for (int g = 0; g < 8; g++)
                all = all && seen[g];
            for (int i = 0; i < 8 * T; i++) {
                good = good && got.x[i] == want.x[i] && got.y[i] == want.y[i];
                targets += want.y[i] >= 0;
                inputs += want.x[i] != 256;
            }
            good = good && (*kind != 'b' || same_positions(&got, &want, 8 * T));
            Data d;
            open_data(&d, path, &m, 42, false);
            counted = counted && data_targets(&d, step) == targets
                && data_tokens(&d, step) == inputs && data_steps_per_epoch(&d) == (n + 7) / 8;
        }
        char *name = format("%s: %d x %d accumulated x %d ranks, 3 epochs with tails", kind,
                            (int)m.model.micro, (int)m.model.accum, (int)m.model.ranks);
        check(good && counted && all, name, "%s", !all ? "a place is empty" : good ? "counts"
              : "tokens, labels or places");
        free(name);
    }
}

/* data_row and data_row_of_step against the arrays, by the same order as batches have it; all of an
 * evaluation, and some epochs of training. */
static void rows_as_they_are(const char *path)
{
    static Seen want;
    bool good = true, whole = true, epochs = true;
    Made m = model_of("rows", 2, 2, 2);
    m.of.finds_targets = true;
    for (int eval = 0; eval < 2; eval++)
        for (world.rank = 0; world.rank < 2; world.rank++) {
            Data d;
            open_data(&d, path, &m, 42, eval);
            for (int64_t step = 0; step < (eval ? 1 : 3) * data_steps_per_epoch(&d); step++) {
                slow("rows", DOCS, d.G, step, &want);
                epochs = epochs && data_epoch(&d, step) == (eval ? 0 : step / ((DOCS + 7) / 8));
                for (int64_t g = 0; g < d.G; g++) {
                    DataRow r, s = { 0 };
                    int64_t micro = g / 4, row = g % 2;
                    bool mine = g / 2 % 2 == world.rank && micro < d.accum;
                    bool there = data_row_of_step(&d, step, g, &r);
                    whole = whole && there == (!eval || step * d.G + g < DOCS);
                    if (!there)
                        continue;
                    const int32_t *from = tokens + doc[r.sample];
                    good = good && r.n == doc[r.sample + 1] - doc[r.sample]
                        && !memcmp(r.token, from, (size_t)r.n * sizeof *from)
                        && !memcmp(r.mask, mask + doc[r.sample], (size_t)r.n)
                        && (eval ? r.sample == step * d.G + g
                                 : !memcmp(want.x + g * T, from, (size_t)r.n * sizeof *from));
                    int64_t sample = r.sample;
                    good = good && (!mine || (data_row(&d, step, micro, row, &s)
                                              && s.sample == sample && s.n == r.n
                                              && !memcmp(s.token, from, (size_t)s.n * 4)));
                }
            }
            good = good && d.ids == 257 && d.mask_id == 255 && d.pad_id == -1;
        }
    world.rank = 0;
    check(good && whole && epochs, "rows as they are in the file", "%s", !whole ? "padding"
          : good ? "epoch" : "a row");
}

Made pairs_model(int64_t micro, int64_t ranks)
{
    Made m = model_of("pairs", micro, 1, ranks);
    m.of.parts = two_parts;
    m.of.finds_targets = true;
    return m;
}

/* data_part and data_part_of_step against the arrays: both parts of a sample, by one order. */
static void parts_as_they_are(const char *paths, int64_t files)
{
    bool good = true;
    for (int eval = 0; eval < 2; eval++)
        for (world.rank = 0; world.rank < 2; world.rank++) {
            Made m = pairs_model(3, 2);
            Data d;
            open_data(&d, paths, &m, 42, eval);
            good = good && d.n == files * DOCS && d.nparts == 2;
            for (int64_t step = 0; step < data_steps_per_epoch(&d); step++) {
                int64_t sample[6], both = 0;
                data_samples(&d, step, sample, 6);
                for (int64_t g = 0; g < d.G; g++) {
                    DataRow c = { 0 }, r = { 0 }, x;
                    bool there = data_part_of_step(&d, step, g, 0, &c);
                    good = good && there == (sample[g] >= 0)
                        && data_part_of_step(&d, step, g, 1, &r) == there;
                    if (!there)
                        continue;
                    const int64_t i = sample[g] % DOCS;
                    good = good && c.sample == sample[g] && r.sample == sample[g]
                        && c.n == doc[i + 1] - doc[i] && r.n == turned_at[i + 1] - turned_at[i]
                        && !memcmp(c.token, tokens + doc[i], (size_t)c.n * 4)
                        && !memcmp(c.mask, mask + doc[i], (size_t)c.n) && !r.mask
                        && !memcmp(r.token, turned + turned_at[i], (size_t)r.n * 4);
                    both += c.n + r.n;
                    if (g / 3 == world.rank)
                        good = good && data_part(&d, step, 0, g % 3, 1, &x) && x.sample == sample[g]
                            && x.n == r.n && data_row(&d, step, 0, g % 3, &x) && x.n == c.n;
                }
                good = good && data_tokens(&d, step) == both;
            }
        }
    world.rank = 0;
    char *name = format("samples of two parts, files: %d", (int)files);
    check(good, name, "other samples");
    free(name);
}

/* The first samples count, the last of them are the evaluation's: both together are all of them, in
 * files of one's own order, whatever the kind. */
static void parts(const char *paths, const char *kind, int64_t all)
{
    Made m = model_of(kind, 1, 1, 1), whole = m;
    Data d, train, eval;
    m.of.split[0] = 0.7;
    m.of.most = all - 1;
    open_data(&d, paths, &whole, 1, true);
    open_data(&train, paths, &m, 1, false);
    m.of.take = 1;
    open_data(&eval, paths, &m, 1, true);
    int64_t first = (all - 1) * 7 / 10;
    bool good = true;
    for (int64_t i = 0; i < eval.n; i++) {
        int32_t x[2 * T], y[2 * T];
        data_batch(&d, first + i, 0, (Batch){ .tokens = x, .labels = x + T });
        data_batch(&eval, i, 0, (Batch){ .tokens = y, .labels = y + T });
        good = good && !memcmp(x, y, sizeof x);
    }
    for (int64_t step = 0; step < train.n; step++) {
        DataRow r;
        good = good && data_row(&train, step, 0, 0, &r) && r.sample < first;
    }
    char *name = format("%s: a share of the first samples", kind);
    check(good && train.n == first && eval.n == all - 1 - first, name, "%d and %d, samples %s",
          (int)train.n, (int)eval.n, good ? "right" : "wrong");
    free(name);
}

/* Three parts of the samples: each share of all of them is rounded down, the last one is the rest. */
static void thirds(const char *path)
{
    static const int64_t want[3][3] = { { 9, 1, 0 }, { 19, 2, 2 }, { 16, 1, 2 } };
    static const int64_t all[3] = { 0, DOCS, 19 };
    bool good = true;
    for (int k = 1; k < 3; k++)
        for (int take = 0, at = 0; take < 3; take++) {
            Made m = model_of("rows", 1, 1, 1);
            Data d;
            m.of.split[0] = 0.85, m.of.split[1] = 0.10;
            m.of.take = take, m.of.most = all[k];
            m.of.finds_targets = true;
            open_data(&d, path, &m, 1, true);
            for (int64_t i = 0; i < d.n; i++, at++) {
                DataRow r;
                good = good && data_row(&d, i, 0, 0, &r) && r.n == doc[at + 1] - doc[at]
                    && !memcmp(r.token, tokens + doc[at], (size_t)r.n * 4);
            }
            good = good && d.n == want[k][take];
        }
    check(good, "samples in three parts", "other samples");
}

/* Some samples of open files, in their order, during training on them. */
static void views(const char *path)
{
    enum { FIRST = 3, COUNT = 7 };
    Made m = model_of("rows", 2, 3, 1);
    Data d, view;
    DataRow r;
    int64_t before[6], after[6];
    bool good = true;
    m.of.finds_targets = true;
    open_data(&d, path, &m, 42, false);
    data_samples(&d, 1, before, 6);
    data_view(&view, &d, FIRST, COUNT, &m.model, &m.of);
    for (int64_t i = 0; i < COUNT; i++)
        good = good && data_row(&view, i / 2, 0, i % 2, &r) && r.sample == i &&
               r.n == doc[FIRST + i + 1] - doc[FIRST + i] &&
               !memcmp(r.token, tokens + doc[FIRST + i], (size_t)r.n * 4);
    good = good && !data_row(&view, COUNT / 2, 0, 1, &r);
    data_samples(&d, 1, after, 6);
    check(good && data_steps_per_epoch(&view) == 4 && !memcmp(before, after, sizeof before),
          "samples seen in order during training", "other samples");
}

/* Epochs of whole steps: the last samples of an order are not seen in it. */
static void whole_steps(const char *path)
{
    Made m = model_of("rows", 4, 1, 1);
    Data d, e;
    int64_t left[DOCS] = { 0 };
    bool good = true;
    m.of.whole = true;
    open_data(&d, path, &m, 42, false);
    open_data(&e, path, &m, 42, true);
    for (int64_t step = 0; step < 2 * (DOCS / 4); step++) {
        int64_t got[4];
        data_samples(&d, step, got, 4);
        good = good && data_epoch(&d, step) == step / (DOCS / 4);
        for (int k = 0; k < 4; k++)
            left[got[k]]++;
    }
    for (int i = 0; i < DOCS; i++)
        good = good && left[i] <= 2;
    check(good && data_steps_per_epoch(&d) == DOCS / 4 && data_steps_per_epoch(&e) == DOCS / 4 + 1,
          "epochs of whole steps", "%d and %d", (int)data_steps_per_epoch(&d),
          (int)data_steps_per_epoch(&e));
}

static void evaluation(const char *path, int64_t n)
{
    for (int64_t ranks = 1; ranks <= 4; ranks *= 2) {
        Made m = model_of("rows", 3, 2, ranks);
        int64_t G = 3 * ranks, real = 0, batches = (n + G - 1) / G;
        static Seen got;
        bool good = true;
        for (int64_t step = 0; step < batches; step++) {
            bool seen[12];
            gather(path, &m, step, true, &got, seen);
            for (int64_t g = 0; g < G; g++)
                for (int64_t t = 0; t < T; t++) {
                    int64_t i = step * G + g, at = i < n ? doc[i] + t : 0;
                    bool next = i < n && at + 1 < doc[i + 1];
                    good = good && got.y[g * T + t] == (next && mask[at + 1] ? tokens[at + 1] : -1);
                }
            for (world.rank = 0; world.rank < ranks; world.rank++) {
                Data d;
                open_data(&d, path, &m, 1, true);
                real += data_rows(&d, step, 0);
                good = good && data_steps_per_epoch(&d) == batches;
            }
            world.rank = 0;
        }
        char *name = format("evaluation on %d ranks: every record once", (int)ranks);
        check(good && real == n, name, "%d records of %d, labels %s", (int)real, (int)n,
              good ? "right" : "wrong");
        free(name);
    }
}

/* Two files, of DOCS and of SECOND rows, with shares of an epoch: of each a file's samples, none of them a second
 * time before all of it came once, over some epochs; the same ones on any number of ranks, and to who asks for a
 * step alone. */
enum { SECOND = 7 };

static void mixture(const char *both, const char *kind, const double weight[2], double train)
{
    enum { EPOCHS = 5 };
    int used[2][DOCS] = { { 0 } };
    bool even = true, share = true, fresh = true, ranks = true, place = true, counted = true;
    const char *why = "";
    Made m = model_of(kind, 4, 1, 1), split = model_of(kind, 1, 2, 2);
    m.of.weight = split.of.weight = weight;
    m.of.split[0] = split.of.split[0] = train;
    Data d, again, eval;
    open_data(&d, both, &m, 42, false);
    const bool bfd = d.bins.n > 0;
    const int64_t size[2] = { d.source[0].n, d.source[1].n };
    const int64_t drawn = d.source[0].drawn;
    share = size[0] + size[1] == d.n && drawn + d.source[1].drawn == d.n
        && fabs((double)drawn - (double)d.n * weight[0] / (weight[0] + weight[1])) <= 0.5
        && (bfd || (size[0] == (train > 0 ? (int64_t)(DOCS * train) : DOCS)
                    && size[1] == (train > 0 ? (int64_t)(SECOND * train) : SECOND)));
    int64_t steps = data_steps_per_epoch(&d);
    for (int64_t step = 0; step < EPOCHS * steps; step++) {
        int64_t got[4], same[4], other[4];
        data_samples(&d, step, got, 4);
        data_count(&d, step);
        open_data(&again, both, &split, 42, false);
        data_samples(&again, step, same, 4);
        ranks = ranks && !memcmp(got, same, sizeof got);
        if (step == steps - 1) {             /* the last of an epoch is filled up */
            open_data(&again, both, &m, 43, false);
            data_samples(&again, step, other, 4);
            fresh = memcmp(got, other, sizeof got);
        }
        for (int64_t g = 0; g < 4 && step % steps * 4 + g < d.n; g++) {
            const int k = got[g] >= d.source[1].first;
            int64_t record;
            used[k][got[g] - d.source[k].first]++;
            if (bfd)
                for (int64_t j = d.bins.first[got[g]]; j < d.bins.first[got[g] + 1]; j++)
                    place = place && (d.bins.doc[j] >= DOCS) == (k == 1);
            else
                place = place && data_file_of(&d, got[g], &record) == k && record == got[g] - d.source[k].first;
        }
        if ((step + 1) % steps)
            continue;
        int64_t all = 0;
        for (int k = 0; k < 2; k++) {
            int64_t sum = 0;
            int least = used[k][0], most = used[k][0];
            for (int64_t i = 0; i < size[k]; i++) {
                sum += used[k][i];
                least = used[k][i] < least ? used[k][i] : least;
                most = used[k][i] > most ? used[k][i] : most;
            }
            even = even && most - least <= 1 && sum == (step + 1) / steps * d.source[k].drawn;
            all += d.source[k].taken;
        }
        counted = counted && all == (step + 1) * 4;
    }
    why = !share ? "shares" : !even ? "a sample twice before another" : !ranks ? "other ranks" : !place ? "places"
        : !counted ? "counts" : "the seed";
    if (train > 0) {                         /* the last ones of each */
        m.of.take = 1;
        open_data(&eval, both, &m, 42, true);
        int64_t record;
        share = share && eval.n == DOCS + SECOND - d.n && data_file_of(&eval, 0, &record) == 0 && record == size[0]
            && data_file_of(&eval, eval.n - 1, &record) == 1 && record == SECOND - 1;
    }
    char *name = format("%s: %g and %g of two files%s", kind, weight[0], weight[1], train > 0 ? ", divided" : "");
    check(share && even && ranks && place && fresh && counted, name, "%s", why);
    free(name);
}

static void mixtures(const char *rows, const char *scratch)
{
    char *second = format("%s/second.st", scratch), *both = format("%s,%s", rows, second);
    write_file(second, "rows", SECOND, doc[SECOND], true);
    mixture(both, "rows", (double[]){ 1, 3 }, 0);
    mixture(both, "rows", (double[]){ 1, 0 }, 0);
    mixture(both, "rows", (double[]){ 0.7, 0.3 }, 0.75);
    mixture(both, "bfd", (double[]){ 0.2, 0.6 }, 0);
    DataSource three[3] = { { .weight = 1, .n = 5 }, { .weight = 1, .n = 1 }, { .weight = 1, .n = 2 } };
    mixture_share(three, 3, 8);
    check(three[0].drawn == 3 && three[1].drawn == 3 && three[2].drawn == 2, "8 of three alike", "%d %d %d",
          (int)three[0].drawn, (int)three[1].drawn, (int)three[2].drawn);
    free(second), free(both);
}

/* Two files that say which rows are to validate on: the others of both are to train on. */
static void divided(const char *scratch)
{
    char *path = format("%s/divided.st", scratch), *two = format("%s,%s", path, path);
    const int64_t want[2][2] = { { 20, 20 }, { 3, 3 } }, skip[2] = { 0, 20 };
    train_rows = "20";
    write_file(path, "rows", DOCS, doc[DOCS], true);
    train_rows = NULL;
    for (int eval = 0; eval < 2; eval++) {
        Made m = model_of("rows", 1, 1, 1);
        Data d;
        bool good = true;
        m.of.split[0] = 0.5;                     /* the files know better */
        m.of.most = eval ? 1 : 0;
        open_data(&d, two, &m, 1, eval);
        for (int64_t step = 0; step < d.n; step++) {
            DataRow r;
            good = good && data_row(&d, step, 0, 0, &r);
            int64_t i = r.sample % want[eval][0] + skip[eval];
            good = good && r.n == doc[i + 1] - doc[i] && !memcmp(r.token, tokens + doc[i], (size_t)r.n * 4);
        }
        check(good && d.divided && d.n == 2 * want[eval][0],
              eval ? "rows to validate on, of files that say so" : "the others of these", "%d", (int)d.n);
    }
    Made m = model_of("rows", 1, 1, 1);
    train_rows = "23";
    write_file(path, "rows", DOCS, doc[DOCS], true);
    train_rows = NULL;
    refused("rows that are all to train on", path, &m, EXIT_DATA, "metadata train: must be an integer below");
    free(path), free(two);
}

/* Targets of all samples, from the labels of an evaluation, most first. */
static int64_t *targets_of(const char *path, const char *kind, int64_t *n)
{
    Made m = model_of(kind, 1, 1, 1);
    int32_t x[T], y[T];
    Data d;
    open_data(&d, path, &m, 1, true);
    *n = d.n;
    int64_t *count = calloc((size_t)d.n, sizeof *count);
    for (int64_t i = 0; i < d.n; i++) {
        data_batch(&d, i, 0, (Batch){ .tokens = x, .labels = y });
        for (int t = 0; t < T; t++)
            count[i] += y[t] >= 0;
        for (int64_t k = i; k > 0 && count[k] > count[k - 1]; k--) {
            int64_t swap = count[k];
            count[k] = count[k - 1];
            count[k - 1] = swap;
        }
    }
    return count;
}

/* Labels y (n) after data_gather, recomputed position by position; returns the targets. */
static int64_t gathered(const int32_t *y, int64_t n, int64_t most, bool *good)
{
    int32_t of[64 * T], rows[64 * T], labels[64 * T];
    int64_t targets = 0;
    memcpy(of, y, (size_t)n * sizeof *y);
    memset(rows, 0x55, sizeof rows);
    memset(labels, 0x55, sizeof labels);
    data_gather(of, n, rows, labels, most);
    for (int64_t i = 0; i < n; i++) {
        if (y[i] < 0)
            *good = *good && of[i] == -1;
        else
            *good = *good && of[i] == targets && rows[targets] == i && labels[targets] == y[i];
        targets += y[i] >= 0;
    }
    for (int64_t r = targets; r < most; r++)
        *good = *good && rows[r] == -1 && labels[r] == -1;
    *good = *good && (uint32_t)rows[most] == 0x55555555 && (uint32_t)labels[most] == 0x55555555;
    return targets;
}

/* data_batch leaves the same where the program has such inputs. */
static bool gathers(Data *d, int64_t step, const int32_t *y, int64_t most)
{
    int32_t x[64 * T], of[2][64 * T], rows[2][64 * T], labels[2][64 * T];
    const size_t all = (size_t)(d->micro * T) * sizeof *y, some = (size_t)most * sizeof *y;
    memcpy(of[0], y, all);
    data_gather(of[0], d->micro * T, rows[0], labels[0], most);
    d->targets = most;
    data_batch(d, step, 0, (Batch){ .tokens = x, .labels = labels[1], .target_rows = rows[1],
                                    .target_of = of[1] });
    return !memcmp(of[0], of[1], all) && !memcmp(rows[0], rows[1], some) &&
           !memcmp(labels[0], labels[1], some);
}

/* data_open takes the least bound and none below: training the samples with most targets, which
 * come again when they are fewer than a micro-batch; evaluation the batch with most. */
static void bounds(const char *path, const char *kind)
{
    static const int64_t micros[] = { 1, 3, 8, 50 };
    int64_t n, *count = targets_of(path, kind, &n);
    for (int k = 0; k < 8; k++) {
        bool eval = k % 2, good = true;
        int32_t x[64 * T], y[64 * T];
        Made m = model_of(kind, micros[k / 2], 1, 1);
        int64_t most = 0, found = 0;
        Data d;
        for (int64_t i = 0; i < m.model.micro; i++)
            most += count[i % n];
        open_data(&d, path, &m, 42, eval);
        for (int64_t step = 0; step < (eval ? 1 : 20) * data_steps_per_epoch(&d); step++) {
            data_batch(&d, step, 0, (Batch){ .tokens = x, .labels = y });
            int64_t targets = gathered(y, m.model.micro * T, most, &good);
            found = targets > found ? targets : found;
            good = good && gathers(&d, step, y, most);
        }
        m.of.targets = eval ? found : most;
        int takes = open_status(path, &m, eval);
        m.of.targets--;
        int refuses = m.of.targets ? open_status(path, &m, eval) : EXIT_DATA << 8;
        char *name = format("%s: %s of %d samples, %d targets", kind,
                            eval ? "evaluation" : "training", (int)m.model.micro, (int)m.of.targets + 1);
        check(good && found <= most && takes == 0 && WEXITSTATUS(refuses) == EXIT_DATA, name,
              "found %d, most %d, rows %s, status %x and %x", (int)found, (int)most,
              good ? "right" : "wrong", (unsigned)takes, (unsigned)refuses);
        free(name);
    }
    free(count);
}

/* The steps that the oracle recorded: samples and target counts. */
static void reference(const char *folder, const char *kind)
{
    char *path = format("tests/train/ref/%s/expect.json", folder);
    cJSON *expect = read_json(path), *steps = json_get(expect, "steps");
    const cJSON *settings = json_get(expect, "settings");
    free(path);
    Made m = model_of(kind, (int64_t)json_get(settings, "micro_batch")->valuedouble,
                       (int64_t)json_get(settings, "accum")->valuedouble, 1);
    m.of.T = (int64_t)json_get(settings, "T")->valuedouble;
    path = format("tests/train/ref/%s/tokens.safetensors", folder);
    Data d;
    open_data(&d, path, &m, (uint64_t)json_get(settings, "seed")->valuedouble, false);
    int64_t first[64], i = 0, k = 0;
    bool good = data_samples(&d, 0, first, 64) == m.model.micro * m.model.accum;
    for (const cJSON *s = json_get(expect, "first_samples")->child; s; s = s->next)
        good = good && first[i++] == (int64_t)s->valuedouble;
    for (const cJSON *s = steps->child; s; s = s->next)
        good = good && data_targets(&d, k++) == (int64_t)json_get(s, "targets")->valuedouble;
    char *name = format("%s: samples and targets as the oracle saw them", folder);
    check(good && i == d.G && k > 5, name, "first sample %d, %d targets", (int)first[0],
          (int)data_targets(&d, 0));
    free(name);
    free(path);
    cJSON_Delete(expect);
}

void test_data(const char *scratch)
{
    said = format("%s/said", scratch);
    orders();
    test_bins();
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
    partition(rows, "bfd", bins_of(DOCS));
    evaluation(rows, DOCS);
    char *own = format("%s/own.st", scratch);
    finds_targets = true;
    write_file(own, "rows", DOCS, doc[DOCS], true);
    finds_targets = false;
    rows_as_they_are(own);
    thirds(own);
    divided(scratch);
    views(own);
    whole_steps(rows);
    mixtures(rows, scratch);
    char *pairs = format("%s/pairs.st", scratch), *more = format("%s,%s", pairs, pairs);
    write_parts(pairs, "pairs", DOCS);
    parts_as_they_are(pairs, 1);
    parts_as_they_are(more, 2);
    parts(rows, "rows", DOCS);
    parts(packed, "packed", (TOKENS - 1) / T);
    bounds(packed, "packed");
    bounds(rows, "rows");

    Made m = model_of("packed", 2, 1, 1), other = m;
    Data a, b;
    char *two = format("%s,%s", packed, packed);
    open_data(&a, two, &m, 1, true);
    open_data(&b, packed, &m, 1, true);
    static Seen s, s1;
    data_batch(&a, 40, 0, batch_at(&s, 0));      /* samples 80, 81 = 1, 2 of the second file */
    data_batch(&b, 0, 0, batch_at(&s1, 0));
    check(a.n == 2 * b.n && memcmp(s.x, s1.x + T, T * 4) == 0
          && memcmp(s.y, s1.y + T, T * 4) == 0,
          "two files follow each other", "%d samples", (int)a.n);
    char *fa = data_fingerprint(&a), *fb = data_fingerprint(&b);
    other.model.ranks = 4;
    open_data(&a, packed, &other, 9, false);
    char *fc = data_fingerprint(&a);
    check(strcmp(fa, fb) && !strcmp(fb, fc), "fingerprint: files, not ranks or seed", "%s", fc);

    test_refused(scratch, packed, rows, own, pairs);
}
