/* safetensors.c -- checks safetensors files: vectors, the reference library, the writer, folders. */
#define _GNU_SOURCE
#include "formats.h"
#include "../../runtime/base.h"
#include "../../runtime/data/tokenfile.h"
#include "../../runtime/files/crc32c.h"
#include "../../runtime/files/json.h"
#include "../../runtime/files/safetensors.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- safetensors: the vectors ---------------------------------------------------------------- */

#define T(shape, offsets) \
    "{\"test\":{\"dtype\":\"I32\",\"shape\":" shape ",\"data_offsets\":" offsets "}}"
#define PLAIN (-1)

static const struct {
    const char *name, *header;
    int64_t n;                   /* the length word; PLAIN: the header's length */
    size_t data;
    const char *why;             /* NULL: accepted */
} st_cases[] = {
    {"one tensor", T("[2,2]", "[0,16]"), PLAIN, 16, NULL},
    {"zero dimension", T("[2,0]", "[0,0]"), PLAIN, 0, NULL},
    {"scalar and metadata",
     "{\"__metadata__\":{\"format\":\"pt\"},\"t\":{\"dtype\":\"BF16\",\"shape\":[],\"data_offsets\""
     ":[0,2]}}", PLAIN, 2, NULL},
    {"space after", "{}\r \t\n", PLAIN, 0, NULL},
    {"space at both ends", "\t\n{}\r ", PLAIN, 0, NULL},
    {"name like a path",
     "{\"..\\/..\\/etc\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", PLAIN, 1, NULL},
    {"half bytes that fill bytes",
     "{\"t\":{\"dtype\":\"F4\",\"shape\":[2,3],\"data_offsets\":[0,3]}}", PLAIN, 3, NULL},
    {"order of names is free",
     "{\"b\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]},\"a\":{\"dtype\":\"U8\",\"shap"
     "e\":[1],\"data_offsets\":[0,1]}}", PLAIN, 2, NULL},
    {"unknown key in a tensor",
     "{\"t\":{\"dtype\":\"U8\",\"shape\":[1],\"x\":{\"y\":[1,\"]\"]},\"data_offsets\":[0,1]}}",
         PLAIN, 1, NULL},
    {"5 more bytes", T("[2,2]", "[0,16]"), PLAIN, 21, "tensors end at 16, the file has 21"},
    {"two bytes short", T("[2,2]", "[0,16]"), PLAIN, 14, "ends at 16, the file has 14"},
    {"huge length word", T("[2,2]", "[0,16]"), (int64_t)0xffffffff0000003c, 16,
     "header of 18446744069414584380 bytes"},
    {"length word beyond the file", "", 60, 0, "header of 60 bytes does not fit the file of 8"},
    {"length word beyond the cap", "", 100000001, 0, "header of 100000001 bytes, at most"},
    {"not UTF-8", "\xff", PLAIN, 0, "header: line 1, byte 0"},
    {"only a brace", "{", PLAIN, 0, "header: line 1, byte 1"},
    {"empty header", "", PLAIN, 0, "header:"}, {"an array", "[]", PLAIN, 0, "must be one JSON object"},
    {"metadata with a number", "{\"__metadata__\":{\"a\":1}}", PLAIN, 0,
     "__metadata__: a: must be a string"},
    {"metadata not an object", "{\"__metadata__\":[]}", PLAIN, 0, "__metadata__: must be an object"},
    {"too few bytes for the shape", T("[2,2]", "[0,4]"), PLAIN, 4,
     "need 16 bytes, data_offsets hold 4"},
    {"dimension 2^64-2", T("[2,18446744073709551614]", "[0,16]"), PLAIN, 16,
     "shape: must be integers"},
    {"dimension 2^64", T("[2,18446744073709551616]", "[0,16]"), PLAIN, 16, "shape: must be integers"},
    {"elements overflow", T("[2,9223372036854775807]", "[0,16]"), PLAIN, 16, "size overflows"},
    {"elements overflow before a zero", T("[9223372036854775807,4,0]", "[0,0]"), PLAIN, 0,
     "size overflows"},
    {"dimension -1", T("[-1]", "[0,16]"), PLAIN, 16, "shape: must be integers"},
    {"dimension 4.0", T("[4.0]", "[0,16]"), PLAIN, 16, "shape: must be integers"},
    {"dimension 1e1", T("[1e1]", "[0,40]"), PLAIN, 40, "shape: must be integers"},
    {"dimension as text", T("[\"4\"]", "[0,16]"), PLAIN, 16, "shape: must be integers"},
    {"nine dimensions", T("[1,1,1,1,1,1,1,1,4]", "[0,16]"), PLAIN, 16, "more than 8 dimensions"},
    {"all at the same place",
     "{\"w0\":{\"dtype\":\"I32\",\"shape\":[4],\"data_offsets\":[0,16]},\"w1\":{\"dtype\":\"I32\","
     "\"shape\":[4],\"data_offsets\":[0,16]}}", PLAIN, 16, "the tensor before ends at 16"},
    {"hole at the start", "{\"t\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[12,16]}}",
     PLAIN, 16, "a hole opens at 0"},
    {"overlap",
     "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"U8\",\"shap"
     "e\":[4],\"data_offsets\":[3,7]}}", PLAIN, 7, "begins at 3, the tensor before ends at 4"},
    {"END before BEGIN", T("[2,2]", "[16,0]"), PLAIN, 16, "END 0 before BEGIN 16"},
    {"three offsets", T("[2,2]", "[0,16,16]"), PLAIN, 16, "must be two integers"},
    {"one offset", T("[2,2]", "[16]"), PLAIN, 16, "must be two integers"},
    {"no offsets", T("[2,2]", "[]"), PLAIN, 16, "must be two integers"},
    {"offset 2^63", T("[2,2]", "[0,9223372036854775808]"), PLAIN, 16, "must be two integers"},
    {"name twice",
     "{\"t\":{\"dtype\":\"I32\",\"shape\":[4],\"data_offsets\":[0,16]},\"t\":{\"dtype\":\"I32\",\"s"
     "hape\":[0],\"data_offsets\":[16,16]}}", PLAIN, 16, "key given twice"},
    {"NUL in a name", "{\"t\\u0000\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}",
     PLAIN, 1, "\\u0000"},
    {"unknown dtype", "{\"t\":{\"dtype\":\"F128\",\"shape\":[1],\"data_offsets\":[0,16]}}", PLAIN,
     16, "unknown dtype F128"},
    {"dtype in lower case", "{\"t\":{\"dtype\":\"f32\",\"shape\":[1],\"data_offsets\":[0,4]}}",
     PLAIN, 4, "unknown dtype f32"},
    {"half a byte left", "{\"t\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,2]}}", PLAIN,
     2, "not a whole number of bytes"},
    {"dtype missing", "{\"t\":{\"shape\":[1],\"data_offsets\":[0,1]}}", PLAIN, 1,
     "dtype is missing"}, {"shape missing", "{\"t\":{\"dtype\":\"U8\",\"data_offsets\":[0,1]}}",
                           PLAIN, 1, "shape is missing"},
    {"offsets missing", "{\"t\":{\"dtype\":\"U8\",\"shape\":[1]}}", PLAIN, 1,
     "data_offsets is missing"},
    {"dtype twice",
     "{\"t\":{\"dtype\":\"U8\",\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", PLAIN, 1,
         "key given twice"}, {"tensor is a number", "{\"t\":1}", PLAIN, 0, "must be an object"},
};

static char *with_header(const char *name, const char *header, size_t nheader, int64_t n,
                         size_t data)
{
    char *path = place(name), *file = calloc(1, 8 + nheader + data);
    uint64_t word = n == PLAIN ? nheader : (uint64_t)n;
    memcpy(file, &word, 8);
    memcpy(file + 8, header, nheader);
    spit(path, file, 8 + nheader + data);
    free(file);
    return path;
}

static void check_headers(void)
{
    size_t wrong = 0, n = sizeof st_cases / sizeof *st_cases;
    StFile f;
    for (size_t i = 0; i < n; i++) {
        char *path = with_header("case.safetensors", st_cases[i].header, strlen(st_cases[i].header),
                                 st_cases[i].n, st_cases[i].data);
        char *error = st_open(&f, path);
        const char *why = st_cases[i].why;
        bool fine = why ? error && strstr(error, why) && !strncmp(error, path, strlen(path))
            : !error;
        if (!fine) {
            verdict(format("safetensors: %s", st_cases[i].name), error ? error : "accepted");
            wrong++;
        }
        if (!error)
            st_close(&f);
    }
    verdict(format("safetensors: %zu files accepted or refused by the format's rules", n),
            wrong ? "see above" : NULL);
    for (size_t size = 0; size < 8; size += 7) {
        spit(place("short"), "\0\0\0\0\0\0\0", size);
        char *error = st_open(&f, place("short"));
        verdict(format("safetensors: file of %zu bytes", size), error &&
                strstr(error, "fewer than the 8 of") ? NULL : "other message");
    }
    verdict("safetensors: a folder is no file", st_open(&f, scratch) ? NULL : "opened");
    char *bomb = malloc(50000);
    memset(bomb, '[', 50000);
    verdict("safetensors: 50,000 open brackets",
            st_open(&f, with_header("bomb", bomb, 50000, PLAIN, 0)) ? NULL : "accepted");
    size_t size;
    char *many;
    FILE *to = open_memstream(&many, &size);
    for (int i = 0; i < 100000; i++)
        fprintf(to, "%s\"t%d\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[%d,%d]}",
                i ? "," : "{", i, i, i + 1);
    fputc('}', to);
    fclose(to);
    char *error = st_open(&f, with_header("many", many, size, PLAIN, 100000));
    const StTensor *t = error ? NULL : st_find(&f, "t54321");
    verdict("safetensors: 100,000 tensors", error ? error : t && t->begin == 8 + size + 54321 &&
            !st_find(&f, "t100000") ? NULL : "not found");
    st_close(&f);
}

/* Open files in numbers that data in many parts needs. */
static void check_many_files(void)
{
    enum { SOFT = 128, FILES = 200 };
    static StFile f[FILES];
    struct rlimit was, limit;
    char *path = with_header("one", "{}", 2, PLAIN, 0), *error = NULL;
    int n = 0;
    getrlimit(RLIMIT_NOFILE, &was);
    limit = (struct rlimit){SOFT, was.rlim_max};
    setrlimit(RLIMIT_NOFILE, &limit);
    while (n < FILES && !(error = st_open(&f[n], path)))
        n++;
    verdict("safetensors: more open files than the soft limit", error);
    for (int i = 0; i < n; i++)
        st_close(&f[i]);
    fflush(NULL);
    pid_t child = fork();
    if (child == 0) {                            /* a hard limit cannot be raised again */
        limit = (struct rlimit){SOFT, SOFT};
        setrlimit(RLIMIT_NOFILE, &limit);
        for (n = 0, error = NULL; n < FILES && !(error = st_open(&f[n], path)); n++)
            ;
        _exit(error && n > 40 && n < SOFT - 60 && !strncmp(error, path, strlen(path)) &&
              strstr(error, "files are open: raise ulimit -n") ? 0 : 1);
    }
    int status = 1;
    waitpid(child, &status, 0);
    verdict("safetensors: the hard limit leaves room for later files", status ? "not so" : NULL);
    setrlimit(RLIMIT_NOFILE, &was);
}

/* ---- safetensors: against the reference library ---------------------------------------------- */

static char *same_file(const char *a, const char *b)
{
    size_t na, nb;
    char *error, *ta = file_read(a, 1 << 26, &na, &error), *tb =
        ta ? file_read(b, 1 << 26, &nb, &error) : NULL;
    if (tb && (na != nb || memcmp(ta, tb, na)))
        error = format("%s and %s differ", a, b);
    free(ta);
    free(tb);
    return error;
}

static void check_reference(const char *folder)
{
    char *path = format("%s/reference.safetensors", folder), *copy = place("copy.safetensors");
    StFile f;
    float x[12] = {0};
    char *error = st_open(&f, path);
    verdict("reference file opens", error);
    if (error)
        return;
    const StTensor *t = st_find(&f, "model.embed.weight");
    error = !t || t->rank != 2 || t->shape[0] != 3 || t->shape[1] != 4 ? "shape"
        : st_read(&f, t, x, 0, 48);
    for (int i = 0; i < 12 && !error; i++)
        if (x[i] != (float)i / 8)
            error = "value";
    verdict("reference file: a matrix", error);
    error = st_read(&f, t, x, 44, 4);
    verdict("reference file: a byte range", error ? error : x[0] == 11.0f / 8 ? NULL : "value");
    verdict("a range beyond the tensor is refused", st_read(&f, t, x, 44, 5) ? NULL : "read");
    uint16_t half[4];
    t = st_find(&f, "half");
    error = t ? st_read(&f, t, half, 0, 8) : "absent";
    st_to_float(x, half, ST_F16, 4);
    verdict("reference file: F16", error ? error : x[0] == 1 && x[1] == 0.5f && x[2] == 65504 &&
            x[3] == -0x1p-24f ? NULL : "value");
    const char *meta = st_meta(&f, "format");
    verdict("reference file: metadata", meta && !strcmp(meta, "pt") &&
            st_find(&f, "naïve \"name\"\n") ? NULL : "differs");

    StWriter *w = st_writer("pt");
    for (int i = f.n - 1; i >= 0; i--)
        st_add(w, f.t[i].name, f.t[i].dtype, f.t[i].rank, f.t[i].shape);
    error = st_begin(w, copy);
    verdict("the file appears at the end only", access(copy, F_OK) ? NULL : "there before");
    for (int i = 0; i < st_count(w) && !error; i++) {
        const StTensor *to = st_planned(w, i), *from = st_find(&f, to->name);
        char buf[64];
        uint64_t bytes = to->end - to->begin;
        error = st_read(&f, from, buf, 0, bytes);
        for (uint64_t at = 0; at < bytes && !error; at += 3)        /* in pieces */
            error = st_write(w, to->name, buf + at, bytes - at < 3 ? bytes - at : 3);
        if (!error && st_tensor_crc(w, i) != crc32c(0, buf, bytes))
            error = "crc of a tensor";
    }
    uint32_t crc = 0;
    if (!error)
        error = st_end(w, &crc);
    st_free(w);
    if (!error)
        error = same_file(path, copy);
    verdict("written file equals the reference library's, byte for byte", error);
    size_t n;
    char *text = file_read(copy, 1 << 20, &n, &error);
    bool joined = true;
    for (size_t k = 0; text && k <= n && k < 4000; k += 7)
        joined = joined && crc32c_join(crc32c(0, text, k), crc32c(0, text + k, n - k), n - k) == crc;
    verdict("crc of two parts", text && joined ? NULL : "differs");
    verdict("crc of the whole file", text && crc == crc32c_table(0, text, n) ? NULL : "differs");
    st_close(&f);
}

static void check_writer(void)
{
    StWriter *w = st_writer("pt");
    char *path = place("broken.safetensors");
    int64_t four = 4;
    spit(path, "old", 3);
    st_add(w, "b", ST_F32, 1, &four);
    st_add(w, "a", ST_F32, 1, &four);
    char *error = st_begin(w, path);
    float x[4] = {1, 2, 3, 4};
    verdict("writer: order is by name", !error && !strcmp(st_planned(w, 0)->name, "a")
            ? NULL : "other order");
    verdict("writer: out of order is refused", st_write(w, "b", x, 16) ? NULL : "accepted");
    verdict("writer: too many bytes are refused", st_write(w, "a", x, 16) || !st_write(w, "a", x,
            1) ? "accepted" : NULL);
    verdict("writer: an unfinished file is refused", st_end(w, &(uint32_t){0}) ? NULL : "accepted");
    st_free(w);
    size_t n;
    char *text = file_read(path, 100, &n, &error);
    verdict("writer: after an error the old file stands", text && !strcmp(text, "old") &&
            access(place("broken.safetensors.tmp"), F_OK) ? NULL : "differs");
    w = st_writer("pt");
    st_add(w, "a", ST_F32, 1, &four);
    st_add(w, "a", ST_F32, 1, &four);
    error = st_begin(w, path);
    verdict("writer: a name twice is refused", error && strstr(error, "given twice")
            ? NULL : "accepted");
    st_free(w);
    w = st_writer("pt");
    st_add(w, "a", ST_F32, 1, &four);
    error = st_begin(w, "/dev/full/x");
    verdict("writer: an impossible path is refused", error ? NULL : "accepted");
    st_free(w);
}

/* ---- folders --------------------------------------------------------------------------------- */

static void make_shard(const char *folder, const char *name, const char *a, const char *b)
{
    StWriter *w = st_writer("pt");
    int64_t one = 1;
    uint32_t crc;
    float x = 1;
    st_add(w, a, ST_F32, 1, &one);
    if (b)
        st_add(w, b, ST_F32, 1, &one);
    char *error = st_begin(w, format("%s/%s", folder, name));
    for (int i = 0; i < st_count(w) && !error; i++)
        error = st_write(w, st_planned(w, i)->name, &x, 4);
    if (error || (error = st_end(w, &crc)))
        verdict("shard", error);
    st_free(w);
}

static const struct {
    const char *name, *index, *why;
} index_cases[] = {
    {"two shards",
     "{\"metadata\":{},\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"1.safetensors\",\"c\":\"2.sa"
     "fetensors\"}}", NULL},
    {"a path upwards", "{\"weight_map\":{\"a\":\"../1.safetensors\"}}",
     "must be a file name, got \"../1.safetensors\""},
    {"an absolute path", "{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "must be a file name"},
    {"two dots", "{\"weight_map\":{\"a\":\"..\"}}", "must be a file name"},
    {"a number", "{\"weight_map\":{\"a\":1}}", "a: must be a file name"},
    {"no map", "{}", "weight_map: must be an object"},
    {"a missing shard", "{\"weight_map\":{\"a\":\"3.safetensors\"}}",
     "3.safetensors: No such file"},
    {"a tensor its shard lacks",
     "{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"1.safetensors\",\"c\":\"2.safetensors\",\"d"
     "\":\"2.safetensors\"}}", "tensor d: not in its shard"},
    {"a tensor not named", "{\"weight_map\":{\"a\":\"1.safetensors\",\"c\":\"2.safetensors\"}}",
     "the shards hold 3 tensors, weight_map names 2"},
    {"a tensor in two shards",
     "{\"weight_map\":{\"a\":\"1.safetensors\",\"b\":\"1.safetensors\",\"c\":\"2.safetensors\",\"e"
     "\":\"4.safetensors\"}}", "tensor a: in two shards"},
    {"a key twice", "{\"weight_map\":{\"a\":\"1.safetensors\",\"a\":\"2.safetensors\"}}",
     "key given twice"},
};

/* Files that are something else; size bytes, zeros after the text. */
static void check_others(void)
{
    static const struct { const char *name, *begin; int size; const char *weights, *tokens; } cases[] = {
        {"text", "Once upon a time", 16, "not a safetensors file but text",
         "not a token file but text; gen pack makes one of text and JSON Lines: gen pack --tokenizer "
         "MODEL/tokenizer.json -o "},
        {"a short text", "Hi\n", 3, "not a safetensors file but text", "not a token file but text"},
        {"UTF-8", "\xc3\xa4\xc3\xb6\xe2\x82\xac\n\n", 9, "but text", "but text"},
        {"rows", "{\"text\": \"a\"}\n", 14, "but text", "but text"},
        {"gzip", "\x1f\x8b\x08\x08zzzz", 400, "but gzip data", "not a token file but gzip data"},
        {"gzip of a pipe", "\x1f\x8b\x08", 700000, "but gzip data", "but gzip data"},
        {"Parquet", "PAR1\x15\x04\x15", 99, "but Parquet", "not a token file but Parquet"},
        {"NumPy", "\x93NUMPY\1", 99, "but a NumPy array", "not a token file but a NumPy array"},
        {"git-lfs", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n", 130,
         "but a pointer of git-lfs (git lfs pull", "but a pointer of git-lfs"},
        {"a pickle", "PK\3\4", 99, "but a zip archive", "but a zip archive"},
        {"nothing", "", 0, "not a safetensors file: 0 bytes", "not a safetensors file: 0 bytes"},
        {"noise", "\1\2\3\4\5\6\7\1", 99, "header of 740345", "not a safetensors file: header of"},
    };
    static char zeros[700000];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *path = place("other.jsonl");
        StFile f;
        TokenFile t;
        memset(zeros, 0, sizeof zeros);
        strcpy(zeros, cases[i].begin);
        spit(path, zeros, (size_t)cases[i].size);
        char *weights = st_open(&f, path), *tokens = tokenfile_open(&t, path);
        verdict(format("%s as weights", cases[i].name), weights && strstr(weights, cases[i].weights)
                ? NULL : weights ? weights : "accepted");
        verdict(format("%s as tokens", cases[i].name), tokens && strstr(tokens, cases[i].tokens)
                ? NULL : tokens ? tokens : "accepted");
        if (!i)
            verdict("the line that packs it", tokens && strstr(tokens, format("-o %.*s.safetensors %s",
                    (int)strlen(path) - 6, path, path)) ? NULL : tokens);
    }
    char *pipe = place("pipe");
    StFile f;
    char *error = mkfifo(pipe, 0600) ? "mkfifo" : st_open(&f, pipe);
    verdict("a FIFO as weights", error && strstr(error, "not a regular file") ? NULL : error);
    TokenFile t;
    error = tokenfile_open(&t, scratch);
    verdict("a folder as tokens", error && strstr(error, "a folder; name the token files")
            ? NULL : error);
}

static void check_folders(void)
{
    char *folder = place("model"), *index = format("%s/model.safetensors.index.json", folder);
    StSet s;
    mkdir(folder, 0777);
    char *error = st_set_open(&s, folder);
    verdict("folder without weights", error && strstr(error, "neither model.safetensors")
            ? NULL : "other message");
    spit(format("%s/pytorch_model.bin", folder), "x", 1);
    error = st_set_open(&s, folder);
    verdict("folder of pickles: the remedy is named", error &&
            strstr(error, ".save_pretrained('") ? NULL : "other message");
    make_shard(folder, "1.safetensors", "a", "b");
    make_shard(folder, "2.safetensors", "c", NULL);
    make_shard(folder, "4.safetensors", "a", "e");
    for (size_t i = 0; i < sizeof index_cases / sizeof *index_cases; i++) {
        spit(index, index_cases[i].index, strlen(index_cases[i].index));
        error = st_set_open(&s, folder);
        const char *why = index_cases[i].why;
        bool fine = why ? error && strstr(error, why) : !error && s.nfiles == 2 &&
            st_find(&s.file[1], "c") && strstr(s.file[1].path, "/2.") &&
            !st_find(&s.file[0], "c") && !st_find(&s.file[0], "d") && !st_find(&s.file[1], "d");
        verdict(format("index: %s", index_cases[i].name), fine ? NULL : error ? error : "accepted");
        if (!error)
            st_set_close(&s);
    }
    make_shard(folder, "model.safetensors", "x", NULL);
    static const char of_another[] = "{\"weight_map\":{\"x\":\"1.safetensors\"}}";
    spit(index, of_another, sizeof of_another - 1);
    error = st_set_open(&s, folder);
    verdict("model.safetensors next to an index of another", error && strstr(error, "but model.safetensors is there")
            ? NULL : error ? error : "accepted");
    static const char of_itself[] = "{\"weight_map\":{\"x\":\"model.safetensors\"}}";
    spit(index, of_itself, sizeof of_itself - 1);
    error = st_set_open(&s, folder);
    verdict("model.safetensors next to an index of it",
            error ? error : s.nfiles == 1 && st_find(&s.file[0], "x") ? NULL : "not found");
    st_set_close(&s);
}

void check_safetensors(const char *folder)
{
    check_headers();
    check_many_files();
    check_reference(folder);
    check_writer();
    check_others();
    check_folders();
}
