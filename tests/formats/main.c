/* main.c -- checks JSON, safetensors, checksums and token files; or prints a token file.
 *
 * In:    a scratch folder and tests/formats (tests/oracle/formats.py); or `dump FILE`.
 * Out:   one line a test; exit 1 if one failed. dump: a document a line, * = target. */
#define _GNU_SOURCE
#include "formats.h"
#include "../../runtime/base.h"
#include "../../runtime/files/crc32c.h"
#include "../../runtime/files/json.h"
#include "../../runtime/files/safetensors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int failed;
const char *scratch;

void verdict(const char *name, const char *why)
{
    if (why)
        printf("not ok %s: %s\n", name, why);
    else
        printf("ok %s\n", name);
    failed |= why != NULL;
}

char *place(const char *name)
{
    return format("%s/%s", scratch, name);
}

void spit(const char *path, const void *data, size_t n)
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

int main(int argc, char **argv)
{
    if (argc == 3 && !strcmp(argv[1], "dump"))
        return dump(argv[2]);
    if (argc != 3)
        return 2;
    scratch = argv[1];
    check_json();
    check_json_writer(argv[2]);
    check_safetensors(argv[2]);
    check_halves();
    check_crc();
    check_tokenfiles();
    return failed;
}
