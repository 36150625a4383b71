/* main.c -- checks JSON, safetensors, checksums and token files; or prints a token file.
 *
 * In:    a scratch folder and tests/formats (tests/oracle/formats.py); or `dump FILE`.
 * Out:   one line a test; exit 1 if one failed. dump: a document a line, * = target. */
#define _GNU_SOURCE
#include "../../runtime/base.h"
#include "../../runtime/files/crc32c.h"
#include "../../runtime/files/json.h"
#include "../../runtime/files/safetensors.h"
#include "../../runtime/data/tokenfile.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int failed;
static const char *scratch;

static void verdict(const char *name, const char *why)
{
    if (why)
        printf("not ok %s: %s\n", name, why);
    else
        printf("ok %s\n", name);
    failed |= why != NULL;
}

static char *place(const char *name)
{
    return format("%s/%s", scratch, name);
}

static void spit(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, n, f) != n || fclose(f))
        abort();
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static const struct {
    const char *name, *text;
    const char *why;             /* NULL: accepted */
} json_cases[] = {
    {"empty array", "[]", NULL}, {"scalar", "1", NULL}, {"space around", " \t\r\n{} \t\r\n", NULL},
    {"escapes", "\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00\"", NULL},
    {"numbers", "[0,-0,1.5,-1e5,1E+2,2e-3,123456789012345678901234567890]", NULL},
    {"UTF-8 of all lengths",
     "[\"\x7f\xc2\x80\xdf\xbf\xe0\xa0\x80\xed\x9f\xbf\xee\x80\x80\xef\xbf\xbf\xf0\x90\x80\x80\xf4"
     "\x8f\xbf\xbf\"]", NULL},
    {"same key in two objects", "[{\"a\":1},{\"a\":2}]", NULL},
    {"same key inside", "{\"a\":{\"a\":1}}", NULL},
    {"tiny number becomes zero", "1e-400", NULL}, {"empty key", "{\"\":0}", NULL},
    {"nothing", "", "the text ends where a value should be"}, {"only space", " ", "the text ends"},
    {"byte order mark twice", "\xef\xbb\xbf\xef\xbb\xbf{}", "byte order mark"},
    {"two values", "1 2", "text after the value"},
    {"closed twice", "[]]", "text after the value"}, {"trailing comma", "[1,]", "expected a value"},
    {"trailing comma in object", "{\"a\":1,}", "expected a key"},
    {"leading comma", "[,1]", "expected a value"},
    {"missing comma", "[1 2]", "expected , or ]"}, {"missing colon", "{\"a\" 1}", "expected a colon"},
    {"key without quotes", "{a:1}", "expected a key"}, {"single quotes", "['a']", "expected a value"},
    {"unclosed array", "[1", "expected , or ]"}, {"unclosed object", "{\"a\":1", "expected , or }"},
    {"wrong bracket", "[1}", "expected , or ]"},
    {"unclosed string", "\"a", "unterminated string"}, {"comment", "/**/1", "expected a value"},
    {"leading zero", "01", "leading zero"}, {"minus leading zero", "-01", "leading zero"},
    {"no digit after point", "1.", "a digit is missing"},
    {"no digit before point", ".5", "expected a value"}, {"plus", "+1", "expected a value"},
    {"minus alone", "-", "a digit is missing"},
    {"no exponent", "1e", "a digit is missing"}, {"hexadecimal", "0x1", "text after"},
    {"NaN", "NaN", "NaN is not a JSON value: write null"},
    {"Infinity", "Infinity", "Infinity is not a JSON value"},
    {"-Infinity", "[-Infinity]", "byte 1: -Infinity is not a JSON value"},
    {"overflow", "1e400", "too large"},
    {"overflow below", "-1e400", "too large"},
    {"long number", "1111111111111111111111111111111111111111111111111111111111111111",
         "63 characters"},
    {"True", "True", "expected a value"}, {"tru", "tru", "expected a value"},
    {"truex", "truex", "text after"},
    {"form feed", "\f1", "expected a value"},
    {"raw newline in string", "\"a\nb\"", "control character"},
    {"raw tab in string", "\"\t\"", "control character"},
    {"escape of NUL", "\"\\u0000\"", "\\u0000"},
    {"escape of NUL in a key", "{\"\\u0000\":1}", "\\u0000"},
    {"escape x", "\"\\x41\"", "unknown escape"},
    {"short escape", "\"\\u12\"", "four hexadecimal"},
    {"lone high surrogate", "\"\\ud800\"", "lone surrogate"},
    {"lone low surrogate", "\"\\udc00\"", "lone surrogate"},
    {"two high surrogates", "\"\\ud800\\ud800\"", "lone surrogate"},
    {"continuation byte", "\"\x80\"", "not UTF-8"}, {"overlong", "\"\xc0\xaf\"", "not UTF-8"},
    {"overlong 3", "\"\xe0\x9f\xbf\"", "not UTF-8"},
    {"surrogate in UTF-8", "\"\xed\xa0\x80\"", "not UTF-8"},
    {"beyond U+10FFFF", "\"\xf4\x90\x80\x80\"", "not UTF-8"},
    {"cut character", "\"\xe6\x9d\"", "not UTF-8"},
    {"Latin-1", "\"\xe9\"", "not UTF-8"},
    {"non-breaking space outside", "\xc2\xa0" "1", "expected a value"},
    {"key twice", "{\"a\":1,\"b\":2,\"a\":3}", "line 1, byte 13: key given twice"},
    {"key twice by escape", "{\"a\":1,\"\\u0061\":2}", "byte 7: key given twice"},
    {"key twice deep", "[[{\"k\":{\"x\":1,\"x\":2}}]]", "key given twice"},
    {"line number", "{\n\"a\":\n?}", "line 3, byte 7: expected a value"},
};

static void check_mark(void)
{
    char *error, *check = json_check("\xef\xbb\xbf{}", 5);
    cJSON *tree = json_parse("\xef\xbb\xbf{}", 5, &error);
    verdict("JSON: a byte order mark is no part of a text", !check ? "the check takes it" : tree ? NULL : error);
    cJSON_Delete(tree);
}

static void check_json(void)
{
    size_t wrong = 0, n = sizeof json_cases / sizeof *json_cases;
    for (size_t i = 0; i < n; i++) {
        const char *text = json_cases[i].text, *why = json_cases[i].why;
        /* exact size: sanitizers see a step too far */
        char *copy = malloc(strlen(text) + !*text);
        memcpy(copy, text, strlen(text));
        char *error, *check = json_check(copy, strlen(text));
        cJSON *tree = json_parse(copy, strlen(text), &error);
        bool fine = why ? check && strstr(check, why) && !tree : !check && tree;
        if (!fine) {
            verdict(format("JSON: %s", json_cases[i].name), check ? check : "accepted");
            wrong++;
        }
        cJSON_Delete(tree);
        free(copy);
    }
    verdict(format("JSON: %zu texts accepted or refused as RFC 8259 and our rules say", n),
            wrong ? "see above" : NULL);
    check_mark();
    for (int depth = 64; depth <= 65; depth++) {
        char text[131];
        memset(text, '[', (size_t)depth);
        memset(text + depth, ']', (size_t)depth);
        char *error = json_check(text, 2 * (size_t)depth);
        verdict(format("JSON: depth %d", depth), !error == (depth == 64) ? NULL : "wrong verdict");
    }
    size_t size;
    char *big, *error;
    FILE *f = open_memstream(&big, &size);
    for (int i = 0; i < 150000; i++)
        fprintf(f, "%s\"k%d\":%d", i ? "," : "{", i * 7919 % 150000, i);
    fputc('}', f);
    fclose(f);
    const clock_t from = clock();        /* of this process, whoever else needs the processor */
    error = json_check(big, size);
    const double took = (double)(clock() - from) / CLOCKS_PER_SEC;
    verdict("JSON: 150,000 keys in less than a second",
            error ? error : took > 1 ? format("%.2f s", took) : NULL);
}

static void check_json_writer(const char *folder)
{
    size_t nin, nout, n;
    char *error, *in = file_read(format("%s/json_in.json", folder), 1 << 20, &nin, &error);
    char *want = in ? file_read(format("%s/json_out.json", folder), 1 << 20, &nout, &error) : NULL;
    cJSON *tree = want ? json_parse(in, nin, &error) : NULL;
    char *text = NULL;
    if (tree) {
        FILE *f = open_memstream(&text, &n);
        json_write_hf(f, tree);
        fclose(f);
        size_t i = 0;
        while (i < n && i < nout && text[i] == want[i])
            i++;
        if (n != nout || i < n)
            error = format("byte %zu: want \"%.40s\" got \"%.40s\"", i, want + i, text + i);
    }
    verdict("JSON: written as Python's json.dumps(indent=2, sort_keys=True)", error);
    cJSON_Delete(tree);
}

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

static void check_safetensors(void)
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

/* ---- elements and checksums ------------------------------------------------------------------ */

static uint32_t lcg;
static uint32_t random_word(void)
{
    lcg = lcg * 1664525u + 1013904223u;
    return lcg ^ lcg >> 15;
}

#ifdef __clang__
typedef __fp16 Half;             /* which it has without the instructions that compute with it, too */
#else
typedef _Float16 Half;
#endif

static void check_halves(void)
{
    const char *why = NULL;
    /* the compiler's type is the witness */
    for (uint32_t h = 0; h < 65536 && !why; h++) {
        uint16_t bits = (uint16_t)h;
        Half x;
        memcpy(&x, &bits, 2);
        float ours = st_half_to_float(bits), theirs = (float)x;
        if (isnan(theirs) ? !isnan(ours) : memcmp(&ours, &theirs, 4))
            why = format("0x%04x: %g, want %g", h, ours, theirs);
    }
    verdict("F16 to float, all values", why);
    why = NULL;
    for (int i = 0; i < 3000000 && !why; i++) {
        uint32_t bits = random_word();
        if (i & 1)               /* the range of F16 and its edges */
            bits = (bits & 0x80003fffu) | (0x33000000u + (random_word() % 0x15000000u & ~0x3fffu));
        float x;
        uint16_t want, got;
        memcpy(&x, &bits, 4);
        Half h = (Half)x;
        memcpy(&want, &h, 2);
        got = st_float_to_half(x);
        if (isnan(x) ? (got & 0x7fff) <= 0x7c00 : got != want)
            why = format("0x%08x: 0x%04x, want 0x%04x", bits, got, want);
    }
    verdict("float to F16, nearest even", why);
    double d[2] = {0.1, 1e300};
    float f[2];
    st_to_float(f, d, ST_F64, 2);
    verdict("F64 to float", f[0] == 0.1f && isinf(f[1]) && !st_to_float(f, d, ST_I32, 1)
            ? NULL : "value");
    unsigned char code[256], back[256];
    float number[256];
    bool same = true;
    for (int i = 0; i < 256; i++)
        code[i] = (unsigned char)i;
    same = st_to_float(number, code, ST_U8, 256) && st_from_float(back, ST_U8, number, 256);
    for (int i = 0; i < 256; i++)
        same = same && number[i] == (float)i && back[i] == i;
    verdict("U8 to float, and back", same ? NULL : "value");
}

static void check_crc(void)
{
    static const struct { const char *name; uint32_t want; uint8_t first; int step, n; } known[] = {
    {"32 x 00", 0x8a9136aa, 0, 0, 32}, {"32 x ff", 0x62a8ab43, 255, 0, 32},
    {"bytes 0..31", 0x46dd794e, 0, 1, 32}, {"123456789", 0xe3069283, '1', 1, 9},
    };
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        uint8_t b[32];
        for (int i = 0; i < known[k].n; i++)
            b[i] = (uint8_t)(known[k].first + i * known[k].step);
        size_t n = (size_t)known[k].n;
        verdict(format("crc32c of %s", known[k].name), crc32c(0, b, n) == known[k].want &&
                crc32c_table(0, b, n) == known[k].want ? NULL : "differs");
    }
    uint8_t b[300];
    const char *why = NULL;
    for (int i = 0; i < 2000 && !why; i++) {
        size_t from = random_word() % 16, n = random_word() % 280, cut = n ? random_word() % n : 0;
        for (size_t k = 0; k < 300; k++)
            b[k] = (uint8_t)random_word();
        uint32_t whole = crc32c(0, b + from, n);
        if (whole != crc32c_table(0, b + from, n) ||
            whole != crc32c(crc32c(0, b + from, cut), b + from + cut, n - cut))
            why = "instruction, tables and pieces differ";
    }
    verdict("crc32c by instruction, by tables, in pieces", why);
}

/* ---- token files ----------------------------------------------------------------------------- */

typedef struct {
    const char *name, *why;
    const char *format, *kind, *vocab, *eos, *max_length;
    int64_t doc[4];
    int32_t token;
    uint8_t mask;
    StDtype dtype;
} TokenCase;
#define FINE TOKENFILE_FORMAT, "rows", "257", "256", "8"

static const TokenCase token_cases[] = {
    {"good", NULL, FINE, {0, 2, 3, 5}, 256, 1, ST_I32},
    {"other format", "format is pt", "pt", "rows", "257", "256", "8", {0, 2, 3, 5}, 0, 1, ST_I32},
    {"other kind", "column mask: must be I32, ragged", TOKENFILE_FORMAT, "heap", "257", "256", "8",
     {0, 2, 3, 5}, 0, 1, ST_I32},
    {"vocab is text", "vocab: must be an integer", TOKENFILE_FORMAT, "rows", "many", "256", "8",
     {0, 2, 3, 5}, 0, 1, ST_I32},
    {"vocab overflows", "vocab: must be an integer", TOKENFILE_FORMAT, "rows", "99999999999999999999",
     "256", "8", {0, 2, 3, 5}, 0, 1, ST_I32},
    {"eos beyond vocab", "eos: must be -1 or an id", TOKENFILE_FORMAT, "rows", "257", "257", "8",
     {0, 2, 3, 5}, 0, 1, ST_I32},
    {"row longer than max_length", "row 1: 2 tokens, max_length is 1", TOKENFILE_FORMAT, "rows",
     "257", "256", "1", {0, 1, 3, 5}, 0, 1, ST_I32},
    {"offsets end early", "run from 0 to 4, must be 0 to 5", FINE, {0, 2, 3, 4}, 0, 1, ST_I32},
    {"offsets end late", "run from 0 to 6, must be 0 to 5", FINE, {0, 2, 3, 6}, 0, 1, ST_I32},
    {"offsets start late", "run from 1 to 5", FINE, {1, 2, 3, 5}, 0, 1, ST_I32},
    {"offsets fall", "doc_offsets[2]: 1 after 2", FINE, {0, 2, 1, 5}, 0, 1, ST_I32},
    {"empty document", "doc_offsets[2]: 2 after 2", FINE, {0, 2, 2, 5}, 0, 1, ST_I32},
    {"offset far away", "doc_offsets[2]: -9223372036854775807 after 2", FINE, {0, 2, -INT64_MAX, 5},
     0, 1, ST_I32},
    {"mask of 2", "mask[1]: 2, must be 0 or 1", FINE, {0, 2, 3, 5}, 0, 2, ST_I32},
    {"tokens as I64", "tokens: must be I32", FINE, {0, 2, 3, 5}, 0, 1, ST_I64},
};

static char *make_tokens(const TokenCase *c)
{
    StWriter *w = st_writer(c->format);
    char *path = place("tokens.safetensors"), *error;
    int64_t five = 5, four = 4;
    int32_t tokens[10] = {1, c->token};
    uint8_t mask[5] = {0, c->mask, 0, 0, 1};
    st_add(w, "tokens", c->dtype, 1, &five);
    st_add(w, "doc_offsets", ST_I64, 1, &four);
    st_add(w, "mask", ST_U8, 1, &five);
    st_add_meta(w, "kind", c->kind);
    st_add_meta(w, "tokenizer", "bytes");
    st_add_meta(w, "vocab", c->vocab);
    st_add_meta(w, "eos", c->eos);
    st_add_meta(w, "sha256", "00");
    st_add_meta(w, "max_length", c->max_length);
    error = st_begin(w, path);
    if (error || (error = st_write(w, "doc_offsets", c->doc, 32)) ||
        (error = st_write(w, "tokens", tokens, c->dtype == ST_I32 ? 20 : 40)) ||
        (error = st_write(w, "mask", mask, 5)) || (error = st_end(w, &(uint32_t){0})))
        verdict("token file", error);
    st_free(w);
    return path;
}

static void check_tokenfile(void)
{
    TokenFile f;
    for (size_t i = 0; i < sizeof token_cases / sizeof *token_cases; i++) {
        const TokenCase *c = &token_cases[i];
        char *error = tokenfile_open(&f, make_tokens(c));
        bool fine = c->why ? error && strstr(error, c->why) : !error;
        verdict(format("token file: %s", c->name), fine ? NULL : error ? error : "accepted");
        if (!error)
            tokenfile_close(&f);
    }
    char *path = make_tokens(&token_cases[0]);
    if (tokenfile_open(&f, path))
        return;
    char *low = tokenfile_check_ids(&f, 256), *fine = tokenfile_check_ids(&f, 257);
    verdict("token file: ids in range", fine);
    verdict("token file: an id beyond the vocabulary", low &&
            strstr(low, "tokens[1]: id 256 is outside the vocabulary, 0 to 255") ? NULL : "other message");
    tokenfile_close(&f);
    TokenCase negative = token_cases[0];
    negative.token = -1;
    if (tokenfile_open(&f, make_tokens(&negative)))
        return;
    low = tokenfile_check_ids(&f, 257);
    verdict("token file: a negative id", low && strstr(low, "tokens[1]: id -1")
            ? NULL : "other message");
    tokenfile_close(&f);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        close(2);
        _exit(tokenfile_open(&f, path) || truncate(path, 0) || tokenfile_check_ids(&f, 257));
    }
    int status;
    waitpid(pid, &status, 0);
    verdict("token file: cut short while it is checked", WIFEXITED(status) &&
            WEXITSTATUS(status) == EXIT_DATA ? NULL : format("status %x", (unsigned)status));
    make_tokens(&token_cases[0]);
    truncate(path, 200);
    verdict("token file: truncated", tokenfile_open(&f, path) ? NULL : "accepted");
}

/* ---- records of any columns ------------------------------------------------------------------- */

/* Three pairs of answers, of other lengths each and one empty, with numbers. */
static const int32_t chosen[] = {1, 2, 3, 4, 5}, rejected[] = {6, 7, 8};
static const int64_t chosen_at[] = {0, 2, 2, 5}, rejected_at[] = {0, 1, 2, 3};
static const float score[] = {0.5f, 1.5f, 2.5f, 3.5f, 4.5f, 5.5f}, weight[] = {1, 2, 3};
static const uint8_t seen[] = {1, 0, 1, 0, 1};

static const struct {
    const char *name, *why, *columns, *records;
    int64_t middle;              /* of chosen.offsets */
} record_cases[] = {
    {"good", NULL, NULL, "3", 2},
    {"offsets fall", "chosen.offsets[2]: -1 after 2, must be ascending", NULL, "3", -1},
    {"offsets far away", "chosen.offsets[3]: 5 after 1099511627776", NULL, "3", INT64_C(1) << 40},
    {"other number of records", "tensor weight: its shape must be [4, ...]", NULL, "4", 2},
    {"no number of records", "records: must be an integer from 1, got \"\"", NULL, "", 2},
    {"a column is not told of", "has 1 tensors besides its columns and their offsets",
     "weight=fixed score=fixed chosen=ragged rejected=ragged", "3", 2},
    {"a column is not there", "tensor price: is missing", "price=fixed", "3", 2},
    {"a column twice", "weight is listed twice", "weight=fixed weight=fixed", "3", 2},
    {"as a column that is fixed", "seen=weight: must be fixed, ragged or", "weight=fixed seen=weight", "3", 2},
    {"as a column after it", "seen=chosen: must be fixed, ragged or", "seen=chosen", "3", 2},
    {"as one of another length", "tensor seen: must be U8 [3]", "rejected=ragged seen=rejected", "3", 2},
    {"no kind", "must be NAME=fixed, NAME=ragged or NAME=OTHER, got \"weight\"", "weight", "3", 2},
};

static char *make_records(size_t k)
{
    char *path = place("records.safetensors"), *error;
    StWriter *w = st_writer(RECORDFILE_FORMAT);
    const ColumnPlan column[] = {{"weight", ST_F32, "fixed", 1}, {"score", ST_F32, "fixed", 2},
                                 {"chosen", ST_I32, "ragged", 5}, {"rejected", ST_I32, "ragged", 3},
                                 {"seen", ST_U8, "chosen", 5}};
    const int64_t at[] = {0, 2, record_cases[k].middle, 5};
    const struct { const char *name; const void *data; } data[] = {
        {"weight", weight}, {"score", score}, {"chosen", chosen}, {"rejected", rejected},
        {"seen", seen}, {"chosen.offsets", at}, {"rejected.offsets", rejected_at}};
    if (record_cases[k].columns || strcmp(record_cases[k].records, "3")) {
        for (int i = 0; i < 5; i++)
            st_add(w, column[i].name, column[i].dtype, column[i].n == 2 ? 2 : 1,
                   column[i].n == 2 ? (int64_t[]){3, 2} : (int64_t[]){i ? column[i].n : 3});
        st_add(w, "chosen.offsets", ST_I64, 1, &(int64_t){4});
        st_add(w, "rejected.offsets", ST_I64, 1, &(int64_t){4});
        st_add_meta(w, "records", record_cases[k].records);
        st_add_meta(w, "columns", record_cases[k].columns ? record_cases[k].columns
                    : "weight=fixed score=fixed chosen=ragged rejected=ragged seen=chosen");
    } else if ((error = recordfile_plan(w, 3, column, 5))) {
        verdict("records: plan", error);
    }
    error = st_begin(w, path);
    for (int i = 0; i < st_count(w) && !error; i++) {
        const StTensor *t = st_planned(w, i);
        for (size_t j = 0; j < sizeof data / sizeof *data; j++)
            if (!strcmp(data[j].name, t->name))
                error = st_write(w, t->name, data[j].data, t->end - t->begin);
    }
    if (error || (error = st_end(w, &(uint32_t){0})))
        verdict("records: write", error);
    st_free(w);
    return path;
}

static bool holds(const RecordFile *f, const char *name, int64_t record, const void *want,
                  int64_t n, size_t size)
{
    int64_t got;
    const Column *c = recordfile_column(f, name);
    const void *at = c ? recordfile_at(f, c, record, &got) : NULL;
    return at && got == n && !memcmp(at, want, (size_t)n * size);
}

static void check_records(void)
{
    RecordFile f;
    for (size_t i = 0; i < sizeof record_cases / sizeof *record_cases; i++) {
        char *error = recordfile_open(&f, make_records(i)), *why = (char *)record_cases[i].why;
        bool fine = why ? error && strstr(error, why) : !error;
        verdict(format("records: %s", record_cases[i].name),
                fine ? NULL : error ? error : "accepted");
        if (!error)
            recordfile_close(&f);
    }
    char *path = make_records(0), *error = recordfile_open(&f, path);
    bool good = !error && f.n == 3 && f.ncolumns == 5 && !recordfile_column(&f, "price");
    for (int64_t r = 0; r < 3 && good; r++) {
        int64_t n = chosen_at[r + 1] - chosen_at[r];
        good = holds(&f, "weight", r, weight + r, 1, 4) && holds(&f, "score", r, score + 2 * r, 2, 4)
            && holds(&f, "chosen", r, chosen + chosen_at[r], n, 4)
            && holds(&f, "seen", r, seen + chosen_at[r], n, 1)
            && holds(&f, "rejected", r, rejected + rejected_at[r], 1, 4);
    }
    verdict("records: fixed and ragged columns", good ? NULL : error ? error : "other values");
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(path, O_WRONLY);
        int64_t bad = 9, n;
        const Column *c = recordfile_column(&f, "chosen");
        off_t at = (off_t)((const char *)c->offsets - (const char *)f.map_) + 8;
        close(2);
        if (pwrite(fd, &bad, 8, at) == 8)
            recordfile_at(&f, c, 0, &n);
        _exit(0);
    }
    int status;
    waitpid(pid, &status, 0);
    verdict("records: changed while in use", WIFEXITED(status) && WEXITSTATUS(status) == EXIT_DATA
            ? NULL : format("status %x", (unsigned)status));
    recordfile_close(&f);
}

/* A document's values in the columns other than its parts and their masks. */
static void dump_beside(const TokenFile *f, int64_t doc)
{
    for (int i = 0; i < f->records.ncolumns; i++) {
        const Column *c = &f->records.column[i];
        bool part = false;
        int64_t n;
        for (int k = 0; k < f->nparts; k++)
            part = part || c->offsets == f->part[k].doc;
        if (part)
            continue;
        const void *at = recordfile_at(&f->records, c, doc, &n);
        printf(" %s", c->name);
        for (int64_t k = 0; k < n && c->dtype == ST_F32; k++)
            printf(" %g", (double)((const float *)at)[k]);
        for (int64_t k = 0; k < n && c->dtype == ST_I32; k++)
            printf(" %d", ((const int32_t *)at)[k]);
        if (c->dtype == ST_U8)
            printf(" %.*s", (int)n, (const char *)at);
    }
}

static int dump(const char *path)
{
    TokenFile f;
    char *error = tokenfile_open(&f, path);
    error = error ? error : tokenfile_check_sums(&f);
    if (error) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    for (int64_t k = 0; k < f.ndocs * f.nparts; k++) {
        const TokenPart *p = &f.part[k % f.nparts];
        int64_t begin = p->doc[k / f.nparts], end = p->doc[k / f.nparts + 1];
        if (f.nparts > 1)
            printf("%s ", p->name);
        for (int64_t i = begin; i < end; i++)
            printf("%d%s%s", p->tokens[i], !p->mask || p->mask[i] ? "*" : "", i + 1 < end ? " " : "");
        if (k % f.nparts == f.nparts - 1)
            dump_beside(&f, k / f.nparts);
        printf("\n");
    }
    tokenfile_close(&f);
    return 0;
}

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "dump"))
        return dump(argv[2]);
    if (argc != 3)
        return 2;
    scratch = argv[1];
    check_json();
    check_json_writer(argv[2]);
    check_safetensors();
    check_reference(argv[2]);
    check_writer();
    check_others();
    check_folders();
    check_halves();
    check_crc();
    check_tokenfile();
    check_records();
    return failed;
}
