/* driver.c -- one command of the weights-on-disk part of the runtime a call, on a fake model.
 *
 * In:    driver CONFIG_JSON KIND COMMAND ARGS... [--FLAGS of a program].
 * Out:   a line on standard output; what differs is said on standard error with exit 1. */
#define _GNU_SOURCE
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../runtime/base.h"
#include "../../runtime/run/checkpoint.h"
#include "../../runtime/files/folder.h"
#include "../../runtime/model/hf.h"
#include "../../runtime/files/json.h"
#include "../../runtime/files/lock.h"
#include "../../runtime/files/safetensors.h"
#include "../../runtime/run/stop.h"
#include "fake.h"

static char *config_text;
static const char *kind;
static char **arg;               /* of the command */
static int narg;
static Flags flags;

static void fail(const char *what, const char *detail)
{
    fprintf(stderr, "FAILED: %s: %s\n", what, detail ? detail : "?");
    exit(1);
}

static int64_t number(const char *variable, int64_t otherwise)
{
    return getenv(variable) ? atoll(getenv(variable)) : otherwise;
}

/* RANKS, MICRO, ACCUM in the environment: the layout; SET: of the head. */
static Model *fresh(void)
{
    Model *m = fake_model(kind, config_text);
    m->ranks = number("RANKS", m->ranks);
    m->micro = number("MICRO", m->micro);
    m->accum = number("ACCUM", m->accum);
    for (int i = 0; i < m->ntensors; i++)
        if (strcmp(m->tensors[i].name, "lm_head.weight") == 0)
            m->tensors[i].set = getenv("SET");
    return m;
}

/* THREADS: of a program whose bits depended on their number. */
static cJSON *layout(void)
{
    cJSON *layout = getenv("THREADS") ? cJSON_CreateObject() : NULL;
    if (layout)
        cJSON_AddNumberToObject(layout, "threads", (double)number("THREADS", 0));
    return layout;
}

static Checkpoints checkpoints(const char *out)
{
    return (Checkpoints){ .out = out, .flags = &flags, .base = strstr(kind, "lora") ? "base" : NULL,
                          .fingerprint = getenv("FINGERPRINT") ? getenv("FINGERPRINT") : "data-1",
                          .layout = layout() };
}

/* A frozen base is that of step BASE (0) whatever the step. */
static void fill(Model *m, int64_t step)
{
    Model *base = NULL;
    fake_fill(m, step);
    for (int i = 0; i < m->ntensors; i++) {
        const Tensor *t = &m->tensors[i];
        size_t size = t->weight.type == EL_F32 ? 4 : 2;
        if (!t->trained && !base)
            fake_fill(base = fresh(), number("BASE", 0));
        const Tensor *s = base ? &base->tensors[i] : t;
        if (!t->trained)
            memcpy((char *)t->weight.at + (size_t)t->first * size,
                   (char *)s->weight.at + (size_t)t->first * size,
                   (size_t)model_elements(t) * size);
    }
}

static bool save_step(Checkpoints *c, Model *m, int64_t step, const char *best)
{
    fill(m, step);
    cJSON *state = cJSON_CreateObject(), *trainer = cJSON_CreateObject();
    json_add_float(state, "loss_sum", 0.1 * (double)step);
    cJSON_AddNumberToObject(trainer, "global_step", (double)step);
    if (best)
        cJSON_AddStringToObject(trainer, "best_model_checkpoint", best);
    bool saved = checkpoint_save(c, m, step, state, trainer);
    cJSON_Delete(state);
    cJSON_Delete(trainer);
    return saved;
}

/* save OUT STEP...: BEST in the environment. */
static void save(void)
{
    Checkpoints c = checkpoints(arg[0]);
    Model *m = fresh();
    checkpoint_start(&c, m);
    int saved = 0;
    for (int i = 1; i < narg; i++)
        saved += save_step(&c, m, atoll(arg[i]), getenv("BEST"));
    printf("saved %d of %d\n", saved, narg - 1);
}

/* find OUT [unstarted]: resumes; every bit must be that of the step that the checkpoint says. */
static void find(void)
{
    Checkpoints c = checkpoints(arg[0]);
    Model *m = fresh(), *want = fresh();
    if (narg == 1)
        checkpoint_start(&c, m);
    if (!checkpoint_find(&c, m)) {
        printf("none\n");
        return;
    }
    checkpoint_flags(&c, &flags);
    checkpoint_check_data(&c, m);
    fill(m, 0);
    for (int i = 0; i < m->ntensors; i++)
        if (m->tensors[i].exp_avg.at)
            ((float *)m->tensors[i].exp_avg.at)[m->tensors[i].first] = 7;
    checkpoint_load(&c, m);
    fill(want, c.step);
    const char *differs = fake_differ(m, want);
    if (differs)
        fail("loaded tensor", differs);
    if (model_crc(m) != model_crc(want))
        fail("model_crc", "differs for equal models");
    if (json_get(c.state, "loss_sum")->valuedouble != 0.1 * (double)c.step)
        fail("state", "loss_sum");
    printf("found %lld lr %.17g\n", (long long)c.step, flags.lr);
}

/* loop OUT: saves for ever, from the newest on. */
static void loop(void)
{
    Checkpoints c = checkpoints(arg[0]);
    Model *m = fresh();
    lock_take(arg[0], 0, false);
    checkpoint_start(&c, m);
    for (int64_t step = checkpoint_find(&c, m) ? c.step + 1 : 1;; step++)
        save_step(&c, m, step, NULL);
}

/* Every element of memory against the file, element by element: a second, slow reader. */
static void compare_with_file(const Model *m, const char *folder)
{
    StSet set;
    char *error = st_set_open(&set, folder);
    if (error)
        fail("st_set_open", error);
    for (int i = 0; i < m->ntensors; i++) {
        const Tensor *t = &m->tensors[i];
        const StFile *file = set.file;
        const StTensor *from = NULL;
        for (int k = 0; k < set.nfiles && !from; k++)
            from = st_find(file = &set.file[k], t->name);
        if (!from)
            continue;
        int64_t n = model_elements(t), cols = t->rank == 2 ? t->shape[1] : 1;
        float *values = malloc((size_t)n * 4);
        char *bytes = malloc((size_t)(from->end - from->begin));
        if (st_read(file, from, bytes, 0, from->end - from->begin) ||
            !st_to_float(values, bytes, from->dtype, (size_t)n))
            fail("read", t->name);
        for (int64_t o = 0; o < t->shape[0]; o++)
            for (int64_t k = 0; k < cols; k++) {
                float f = values[t->transposed ? k * t->shape[0] + o : o * cols + k];
                int64_t at = t->first + o * cols + k;
                const bool wide = t->weight.type == EL_F32;
                float w = wide ? ((float *)t->weight.at)[at]
                               : bf16_to_float(((uint16_t *)t->weight.at)[at]);
                float r = wide ? f : bf16_to_float(float_to_bf16(f));
                if (w != r || (t->master.at && ((float *)t->master.at)[at] != f))
                    fail("element", t->name);
            }
        free(values);
        free(bytes);
    }
    st_set_close(&set);
}

/* load FOLDER */
static void load(void)
{
    Model *m = fresh();
    hf_load(m, arg[0], flags.allow_nonfinite);
    if (!flags.allow_nonfinite && !getenv("OTHER_NAMES"))
        compare_with_file(m, arg[0]);
    if (getenv("TIED")) {
        const Tensor *head = model_need(m, "lm_head.weight"), *embedding = model_need(m, "model.embed_tokens.weight");
        if (memcmp(head->weight.at, embedding->weight.at, (size_t)model_elements(head) * sizeof(float)) != 0)
            fail("trained head", "does not begin as the embedding");
    }
    Model *both = fresh(), *one = fresh();
    model_init(one, 3);
    model_init(both, 5);
    hf_load(both, arg[0], flags.allow_nonfinite);
    hf_init(one, arg[0], 5, flags.allow_nonfinite);
    if (fake_differ(both, one))
        fail("hf_init", fake_differ(both, one));
    printf("loaded %08x\n", model_crc(m));
}

/* resave FOLDER OUT */
static void resave(void)
{
    Model *m = fresh();
    hf_load(m, arg[0], false);
    hf_save(m, arg[1], &(HfHow){.source = arg[0], .dtype = getenv("DTYPE")});
    printf("saved\n");
}

/* export OUT: without a source. */
static void export(void)
{
    Model *m = fresh();
    fake_fill(m, 3);
    hf_save(m, arg[0], &(HfHow){.dtype = getenv("DTYPE"), .card = getenv("CARD")});
    printf("saved\n");
}

/* shards FOLDER OUT BYTES */
static void shards(void)
{
    Model *m = fresh();
    hf_load(m, arg[0], false);
    char *error = folder_make(arg[1]);
    if (!error)
        error = hf_write_model(m, arg[1], &(HfHow){.source = arg[0]}, (uint64_t)atoll(arg[2]), NULL);
    if (error)
        fail("hf_write_model", error);
    Model *again = fresh();
    hf_load(again, arg[1], false);
    if (fake_differ(m, again))
        fail("shards", fake_differ(m, again));
    printf("saved\n");
}

/* adapter FOLDER OUT */
static void adapter(void)
{
    Model *m = fresh();
    hf_load_adapter(m, arg[0], flags.allow_nonfinite);
    hf_save_adapter(m, arg[1], &(HfHow){.dtype = getenv("DTYPE")});
    printf("saved\n");
}

/* merge BASE ADAPTER OUT: against W + s B A in double. ADAPTER `-`: a random model. */
static void merge(void)
{
    Model *m = fresh();
    if (strcmp(arg[1], "-") == 0) {
        fake_fill(m, 4);
    } else {
        hf_load(m, arg[0], false);
        hf_load_adapter(m, arg[1], false);
    }
    hf_save(m, arg[2], &(HfHow){.source = arg[0], .merged = true, .dtype = getenv("DTYPE")});
    if (getenv("DTYPE"))         /* for a comparison with what came of fp32 */
        return;
    Model *got = fresh();
    hf_load(got, arg[2], false);
    double worst = 0;
    for (int i = 0; i < m->nmerges; i++)
        for (int l = 0; l < m->merges[i].layers; l++) {
            const char *form[3] = { m->merges[i].weight, m->merges[i].a, m->merges[i].b };
            const Tensor *t[3];
            for (int k = 0; k < 3; k++) {
                const char *hole = strstr(form[k], "%d");
                char *name = format("%.*s%d%s", (int)(hole - form[k]), form[k], l, hole + 2);
                t[k] = model_need(m, name);
                free(name);
            }
            const Tensor *w = t[0], *merged = model_need(got, w->name);
            const float *a = (float *)t[1]->weight.at + t[1]->first;
            const float *b = (float *)t[2]->weight.at + t[2]->first;
            for (int64_t e = 0; e < model_elements(w); e++) {
                int64_t in = w->shape[1], rank = t[1]->shape[0];
                double sum = 0, size = 0, had = ((float *)w->weight.at)[w->first + e];
                for (int64_t r = 0; r < rank; r++) {
                    double product = (double)b[e / in * rank + r] * a[r * in + e % in];
                    sum += product;
                    size += fabs(product);
                }
                double want = had + (double)m->merges[i].scale * sum;
                double off = fabs(((float *)merged->weight.at)[merged->first + e] - want);
                /* Half an ulp for the result, for the scaled sum, for each of 4 sums, 4 products. */
                double bound = 0x1p-24 * (1.001 * fabs(want) + 9 * m->merges[i].scale * size);
                if (off > bound)
                    fail("merged", w->name);
                if (want != had)
                    worst = fmax(worst, fabs(want - had));
            }
        }
    if (worst == 0)
        fail("merge", "the adapter changes nothing: no test");
    printf("merged\n");
}

/* lock OUT RESTART SECONDS; RANK_OF_TWO=N: as that rank of two */
static void lock(void)
{
    const char *rank = getenv("RANK_OF_TWO");
    world.size = rank ? 2 : 1;
    world.rank = rank ? atoi(rank) : 0;
    lock_take(arg[0], atoi(arg[1]), flags.break_lock);
    lock_share(arg[0]);
    printf("locked\n");
    fflush(stdout);
    usleep((useconds_t)(atof(arg[2]) * 1e6));
    if (getenv("DIE"))
        die(EXIT_NONFINITE, "as asked");
    lock_release();
}

/* The step in OUT/DONE; -1: no such file, or no step in it. */
static long long done_step(const char *out)
{
    char *error = NULL;
    cJSON *done = folder_read_nofollow(out, "DONE", 4096, &error);
    const cJSON *step = json_get(done, "step");
    const long long n = cJSON_IsNumber(step) ? (long long)step->valuedouble : -1;
    free(error);
    cJSON_Delete(done);
    return n;
}

/* stop OUT: waits for a stop request at most a minute. BUSY: then works as long. */
static void stop(void)
{
    stop_ignore();
    stop_install();
    if (getenv("BUSY"))
        lock_take(arg[0], 0, false);
    stop_faults(arg[0], 3);
    printf("ready\n");
    fflush(stdout);
    for (int i = 0; i < 6000 && !stop_requested(); i++)
        usleep(10000);
    if (getenv("BUSY"))
        sleep(60);
    if (!stop_requested())
        fail("stop", "no request came");
    if (done_step(arg[0]) != -1)
        fail("DONE", "is there too early");
    stop_done(arg[0], 12, NULL);
    printf("%s done %lld\n", stop_signal(), done_step(arg[0]));
    world.step = 12;
    if (getenv("ORDERLY")) {
        stop_report(EXIT_STOPPED);
        exit(EXIT_STOPPED);
    }
    die(EXIT_STOPPED, "stopped on request");
}

/* Rows with room after them hold the same values, and nothing goes into the room. */
static void wide_rows(uint64_t seed)
{
    enum { ROWS = 37, COLS = 19, PITCH = 24 };
    static float dense[ROWS * COLS], wide[ROWS * PITCH];
    Tensor t = { .name = "w", .rank = 2, .shape = { ROWS, COLS }, .init = INIT_NORMAL,
                 .init_arg = 1, .weight.at = dense };
    Tensor room = t;
    Model a = { .ntensors = 1, .tensors = &t }, b = { .ntensors = 1, .tensors = &room };
    room.pitch = PITCH;
    room.weight.at = wide;
    model_init(&a, seed);
    model_init(&b, seed);
    for (int i = 0; i < ROWS * PITCH; i++)
        if (wide[i] != (i % PITCH < COLS ? dense[i / PITCH * COLS + i % PITCH] : 0))
            fail("wide rows", "hold other values");
    if (model_crc(&a) != model_crc(&b))
        fail("wide rows", "have another sum");
}

/* init SEED: sums that tell whether order, name and seed count as they should. */
static void init(void)
{
    Model *a = fresh(), *b = fresh();
    model_init(a, (uint64_t)atoll(arg[0]));
    for (int i = 0, k = b->ntensors - 1; i < k; i++, k--) {
        Tensor swap = b->tensors[i];
        b->tensors[i] = b->tensors[k];
        b->tensors[k] = swap;
    }
    model_init(b, (uint64_t)atoll(arg[0]));
    if (model_crc(a) != model_crc(b))
        fail("model_init", "depends on the order of tensors");
    double sum = 0, squares = 0, n = 0;
    for (int i = 0; i < a->ntensors; i++)
        for (int64_t e = 0; e < model_elements(&a->tensors[i]); e++, n++) {
            float x;
            model_get(&a->tensors[i], a->tensors[i].weight, e, 1, &x);
            sum += x;
            squares += (double)x * x;
        }
    /* Standard deviation .5: of the mean .5/sqrt n, of the mean square .25 sqrt(2/n). Five sigma. */
    if (fabs(sum / n) > 2.5 / sqrt(n) || fabs(squares / n - .25) > 1.25 * sqrt(2 / n))
        fail("model_init", "mean or variance is wrong");
    const char *where;
    if (model_nonfinite(a, &where) != 0)
        fail("model_nonfinite", where);
    float bad = NAN;
    const Tensor *t = &a->tensors[3];
    model_put(t, model_precise(t), 1, 1, &bad);
    if (model_nonfinite(a, &where) != 1 || strcmp(where, t->name) != 0)
        fail("model_nonfinite", where);
    wide_rows((uint64_t)atoll(arg[0]));
    printf("init %08x\n", model_crc(b));
}

/* A tensor that `rewrite` adds, with the values of another. */
static const struct { const char *what, *name, *of; } extras[] = {
    { "extra", "..\\/..\\/etc", "model.embed_tokens.weight" },
    { "skip", "transformer.h.0.attn.bias", "transformer.wte.weight" },
    { "skip-llama", "model.layers.0.self_attn.rotary_emb.inv_freq", "model.embed_tokens.weight" },
    { "twice", "wpe.weight", "transformer.wpe.weight" },
    { "head", "lm_head.weight", "model.embed_tokens.weight" },
    { "head-differs", "lm_head.weight", "model.embed_tokens.weight" },
    { "head-gpt2", "lm_head.weight", "transformer.wte.weight" },
    { "pooler", "bert.pooler.dense.weight", "cls.predictions.transform.dense.weight" },
    { "pooler-plain", "pooler.dense.bias", "cls.predictions.transform.dense.bias" },
    { "sentences", "cls.seq_relationship.weight", "cls.predictions.transform.dense.weight" },
    { "position-ids", "embeddings.position_ids", "cls.predictions.bias" },
    { "decoder", "cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight" },
    { "decoder-differs", "cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight" },
    { "decoder-bias", "cls.predictions.decoder.bias", "cls.predictions.bias" },
    { "gamma-elsewhere", "bert.encoder.gamma", "cls.predictions.transform.dense.bias" },
};

/* The name that a tensor has in the file that is written. */
static char *written_name(const char *name, const char *what)
{
    size_t n = strncmp(name, "bert.", 5) == 0 ? 5 : strncmp(name, "transformer.", 12) == 0 ? 12
             : strncmp(name, "model.", 6) == 0 ? 6 : 0;
    const char *norm = strstr(name, "LayerNorm.");
    if (strcmp(what, "gamma") == 0 && norm)
        return format("%.*sLayerNorm.%s", (int)(norm - name), name,
                      strcmp(norm + 10, "weight") == 0 ? "gamma" : "beta");
    return strdup(strcmp(what, "no-prefix") == 0 ? name + n : name);
}

/* Writes SRC again as DST with one thing changed. */
static void rewrite(void)
{
    const char *what = arg[2];
    StSet set;
    char *error = st_set_open(&set, arg[0]), *path = folder_join(arg[1], "model.safetensors");
    if (error)
        fail("st_set_open", error);
    const StFile *f = &set.file[0];
    const char *victim = f->t[3].name;
    StWriter *w = st_writer("pt");
    StDtype dtype = strcmp(what, "f64") == 0 ? ST_F64 : strcmp(what, "bf16") == 0 ? ST_BF16
                  : strcmp(what, "f16") == 0 ? ST_F16 : ST_F32;
    float *values[256];
    char *name[256];
    StDtype type[256];
    int n = 0;
    for (int i = 0; i < f->n; i++) {
        const StTensor *t = &f->t[i];
        bool is = strcmp(t->name, victim) == 0;
        if ((is && strcmp(what, "missing") == 0) ||
            (strcmp(what, "no-head") == 0 && strcmp(t->name, "lm_head.weight") == 0))
            continue;
        name[n] = written_name(t->name, what);
        type[n] = is && strcmp(what, "integer") == 0 ? ST_I32 : dtype;
        int64_t shape[ST_RANK];
        memcpy(shape, t->shape, sizeof shape);
        int rank = t->rank;
        if (is && strcmp(what, "shape") == 0)
            shape[rank++] = 1;
        values[n] = malloc((size_t)(t->end - t->begin));
        error = st_read(f, t, values[n], 0, t->end - t->begin);
        if (is && strcmp(what, "nan") == 0)
            values[n][2] = NAN;
        if (is && strcmp(what, "large") == 0)
            values[n][2] = 65520;
        if (!error)
            error = st_add(w, name[n], type[n], rank, shape);
        if (error)
            fail("rewrite", error);
        n++;
    }
    for (size_t i = 0; i < sizeof extras / sizeof *extras; i++) {
        if (strcmp(extras[i].what, what) != 0)
            continue;
        const StTensor *e = st_find(f, extras[i].of);
        if (!e)
            fail("rewrite: no", extras[i].of);
        values[n] = malloc((size_t)(e->end - e->begin));
        error = st_read(f, e, values[n], 0, e->end - e->begin);
        if (strstr(what, "-differs"))
            values[n][5] += 1;
        name[n] = strdup(extras[i].name);
        type[n] = ST_F32;
        if (!error)
            error = st_add(w, name[n], ST_F32, e->rank, e->shape);
        if (error)
            fail("rewrite", error);
        n++;
    }
    error = st_begin(w, path);
    for (int i = 0; i < st_count(w) && !error; i++) {
        const StTensor *t = st_planned(w, i);
        for (int k = 0; k < n; k++)
            if (strcmp(name[k], t->name) == 0) {
                size_t bytes = (size_t)(t->end - t->begin);
                char *to = malloc(bytes);
                if (type[k] == ST_I32)
                    memset(to, 0, bytes);
                else if (type[k] == ST_F64)
                    for (size_t j = 0; j < bytes / 8; j++)
                        ((double *)to)[j] = values[k][j];
                else
                    st_from_float(to, type[k], values[k], (size_t)st_elements(t));
                error = st_write(w, t->name, to, bytes);
                free(to);
                break;
            }
    }
    uint32_t crc;
    if (!error)
        error = st_end(w, &crc);
    if (error)
        fail("rewrite", error);
    st_free(w);
    st_set_close(&set);
    printf("rewritten\n");
}

static const struct { const char *name; void (*run)(void); int least; } commands[] = {
    { "save", save, 2 }, { "find", find, 1 }, { "loop", loop, 1 }, { "load", load, 1 },
    { "resave", resave, 2 }, { "export", export, 1 }, { "shards", shards, 3 },
    { "adapter", adapter, 2 }, { "merge", merge, 3 }, { "lock", lock, 3 }, { "stop", stop, 1 },
    { "init", init, 1 }, { "rewrite", rewrite, 3 },
};

int main(int argc, char **argv)
{
    static const FlagDefault defaults[] = { { "lr", "0.25" }, { NULL, NULL } };
    int first = 4;
    while (first < argc && strncmp(argv[first], "--", 2) != 0)
        first++;
    if (argc < 4)
        fail("usage", "driver CONFIG KIND COMMAND ARGS [--FLAGS]");
    signal(SIGXFSZ, SIG_IGN);
    char *error = NULL;
    size_t n;
    config_text = file_read(argv[1], 1 << 20, &n, &error);
    if (!config_text)
        fail("config", error);
    kind = argv[2];
    arg = argv + 4;
    narg = first - 4;
    flags_parse(&flags, &(Made){ .words = "recipes/x.lua" }, defaults, argc - first + 1, argv + first - 1);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        if (strcmp(argv[3], commands[i].name) == 0) {
            if (narg < commands[i].least)
                fail("usage", argv[3]);
            commands[i].run();
            return 0;
        }
    fail("unknown command", argv[3]);
}
