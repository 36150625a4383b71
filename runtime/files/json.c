/* json.c -- one strict pass over the bytes, then cJSON builds the tree; prints like Python.
 *
 * Out:    tree or message; text equal to json.dumps(indent=2, sort_keys=True).
 * Method: a loop with an explicit stack. The keys of all open objects are on another stack and
 *         are sorted when their object closes: 150,000 keys take milliseconds. cJSON alone accepts
 *         duplicate keys, bytes that are not UTF-8, 1e400 and text after the value. */
#define _GNU_SOURCE
#include "runtime/files/json.h"

#include "runtime/base.h"
#include "runtime/files/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { NUMBER_MAX = 63 };       /* characters; cJSON reads no more */

typedef struct {
    const char *text;           /* the key without quotes and escapes */
    size_t n;
    size_t at;                  /* offset in the text, for messages */
    char *owned;                /* the unescaped copy if the key has escapes, else NULL */
} Key;

typedef struct {
    const char *text;
    size_t n, at;
    Key *key;                   /* keys of all open objects, outermost first */
    size_t nkeys, capkeys;
    const char *why;            /* first violated rule; NULL: none */
} Scan;

static bool fail(Scan *s, const char *why)
{
    if (!s->why)
        s->why = why;
    return false;
}

static int peek(const Scan *s)
{
    return s->at < s->n ? (unsigned char)s->text[s->at] : -1;
}

static void skip_space(Scan *s)
{
    while (s->at < s->n && strchr(" \t\r\n", s->text[s->at]) && s->text[s->at])
        s->at++;
}

static int hex_value(int c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Returns the code unit of the \uXXXX whose u is at s->at and advances past it; -1: not four hex
 * digits. */
static int scan_unit(Scan *s)
{
    int unit = 0;
    if (s->n - s->at < 5)
        return -1;
    for (int i = 1; i <= 4; i++) {
        int h = hex_value((unsigned char)s->text[s->at + i]);
        if (h < 0)
            return -1;
        unit = unit << 4 | h;
    }
    s->at += 5;
    return unit;
}

/* Scans the escape after a backslash. */
static bool scan_escape(Scan *s)
{
    int c = peek(s);
    if (c != 'u') {
        if (c < 0 || !strchr("\"\\/bfnrt", c) || !c)
            return fail(s, "unknown escape");
        s->at++;
        return true;
    }
    int unit = scan_unit(s);
    if (unit < 0)
        return fail(s, "\\u needs four hexadecimal digits");
    if (unit == 0)
        return fail(s, "\\u0000, the NUL character, is not accepted: "
                       "take it out (sed 's/\\\\u0000//g')");
    if (unit < 0xd800 || unit > 0xdfff)
        return true;
    if (unit > 0xdbff || s->n - s->at < 6 || s->text[s->at] != '\\' || s->text[s->at + 1] != 'u')
        return fail(s, "lone surrogate");
    s->at++;
    int low = scan_unit(s);
    return (low >= 0xdc00 && low <= 0xdfff) || fail(s, "lone surrogate");
}

/* Scans a string; *escaped: it contains a backslash. */
static bool scan_string(Scan *s, bool *escaped)
{
    *escaped = false;
    for (s->at++;;) {
        int c = peek(s);
        if (c < 0)
            return fail(s, "unterminated string");
        if (c == '"') {
            s->at++;
            return true;
        }
        if (c < 0x20)
            return fail(s, c ? "control character in a string: write it as \\n, \\t or \\u00XX"
                             : "control character NUL in a string: take it out (tr -d '\\000')");
        if (c == '\\') {
            *escaped = true;
            s->at++;
            if (!scan_escape(s))
                return false;
            continue;
        }
        int bad, len = utf8_length(s->text + s->at, s->n - s->at, &bad);
        if (!len)
            return fail(s, "not UTF-8");
        s->at += (size_t)len;
    }
}

static bool scan_digits(Scan *s)
{
    size_t from = s->at;
    while (peek(s) >= '0' && peek(s) <= '9')
        s->at++;
    return s->at > from || fail(s, "a digit is missing");
}

static bool scan_number(Scan *s)
{
    size_t from = s->at;
    if (peek(s) == '-')
        s->at++;
    if (peek(s) == '0') {
        s->at++;
        if (peek(s) >= '0' && peek(s) <= '9')
            return fail(s, "number with a leading zero");
    } else if (!scan_digits(s)) {
        return false;
    }
    if (peek(s) == '.') {
        s->at++;
        if (!scan_digits(s))
            return false;
    }
    if (peek(s) == 'e' || peek(s) == 'E') {
        s->at++;
        if (peek(s) == '+' || peek(s) == '-')
            s->at++;
        if (!scan_digits(s))
            return false;
    }
    char copy[NUMBER_MAX + 1];
    size_t len = s->at - from;
    if (len > NUMBER_MAX)
        return fail(s, "number longer than 63 characters");
    memcpy(copy, s->text + from, len);
    copy[len] = 0;
    return isfinite(strtod(copy, NULL)) || fail(s, "number too large for a double");
}

size_t json_unescape(const char *raw, size_t n, char *out)
{
    static const char name[] = "\"\\/bfnrt", value[] = "\"\\/\b\f\n\r\t";
    size_t len = 0;
    for (Scan s = {.text = raw, .n = n}; s.at < n;) {
        char c = raw[s.at++];
        if (c != '\\') {
            out[len++] = c;
        } else if (raw[s.at] != 'u') {
            out[len++] = value[strchr(name, raw[s.at++]) - name];
        } else {
            uint32_t unit = (uint32_t)scan_unit(&s);
            if (unit >= 0xd800 && unit <= 0xdbff) {
                s.at++;
                unit = 0x10000 + ((unit - 0xd800) << 10) + ((uint32_t)scan_unit(&s) - 0xdc00);
            }
            len += utf8_put(out + len, unit);
        }
    }
    return len;
}

/* Scans "key" and the colon; pushes the key. */
static bool scan_key(Scan *s)
{
    bool escaped;
    size_t from = s->at;
    if (peek(s) != '"')
        return fail(s, "expected a key in quotes");
    if (!scan_string(s, &escaped))
        return false;
    Key k = {s->text + from + 1, s->at - from - 2, from, NULL};
    if (escaped) {
        k.owned = malloc(k.n);
        k.n = json_unescape(k.text, k.n, k.owned);
        k.text = k.owned;
    }
    if (s->nkeys == s->capkeys) {
        s->capkeys = s->capkeys ? 2 * s->capkeys : 16;
        s->key = realloc(s->key, s->capkeys * sizeof *s->key);
    }
    s->key[s->nkeys++] = k;
    skip_space(s);
    if (peek(s) != ':')
        return fail(s, "expected a colon");
    s->at++;
    skip_space(s);
    return true;
}

static int key_order(const void *pa, const void *pb)
{
    const Key *a = pa, *b = pb;
    if (a->n != b->n)
        return a->n < b->n ? -1 : 1;
    int c = memcmp(a->text, b->text, a->n);
    return c ? c : a->at < b->at ? -1 : 1;
}

/* Pops the keys from `first` on; false if two of them are equal. */
static bool close_object(Scan *s, size_t first)
{
    size_t n = s->nkeys - first, twice = 0;
    if (!n)
        return true;
    Key *k = s->key + first;
    qsort(k, n, sizeof *k, key_order);
    for (size_t i = 1; i < n; i++)
        if (k[i].n == k[i - 1].n && !memcmp(k[i].text, k[i - 1].text, k[i].n))
            if (!twice || k[i].at < twice)
                twice = k[i].at;
    for (size_t i = 0; i < n; i++)
        free(k[i].owned);
    s->nkeys = first;
    if (twice) {
        s->at = twice;
        return fail(s, "key given twice");
    }
    return true;
}

/* Reports NaN and Infinity, which Python's json.dumps writes and JSON lacks. */
static void name_python(Scan *s)
{
    static const struct { const char *word, *why; } rows[] = {
#define NO_VALUE(word) {word, word " is not a JSON value: write null, or leave the key out"}
        NO_VALUE("NaN"), NO_VALUE("Infinity"), NO_VALUE("-Infinity"),
#undef NO_VALUE
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (s->n - s->at >= strlen(rows[i].word) &&
            !memcmp(s->text + s->at, rows[i].word, strlen(rows[i].word)))
            fail(s, rows[i].why);
}

static bool scan_word(Scan *s)
{
    static const char *const word[] = {"true", "false", "null"};
    name_python(s);
    for (size_t i = 0; i < sizeof word / sizeof *word; i++) {
        size_t len = strlen(word[i]);
        if (s->n - s->at >= len && !memcmp(s->text + s->at, word[i], len)) {
            s->at += len;
            return true;
        }
    }
    return fail(s, s->at == s->n            ? "the text ends where a value should be"
                   : s->text[s->at] == '\0' ? "a NUL character where a value should be: "
                                              "take it out (tr -d '\\000')"
                                            : "expected a value");
}

static bool scan_value(Scan *s)
{
    struct { char close; size_t first_key; } stack[JSON_DEPTH];
    int depth = 0;
    for (;;) {
        int c = peek(s);
        bool escaped;
        if (c == '{' || c == '[') {
            if (depth == JSON_DEPTH)
                return fail(s, "nested deeper than 64");
            stack[depth].close = c == '{' ? '}' : ']';
            stack[depth++].first_key = s->nkeys;
            s->at++;
            skip_space(s);
            if (peek(s) != stack[depth - 1].close) {
                if (c == '{' && !scan_key(s))
                    return false;
                continue;
            }
        } else if (c == '-' && s->n - s->at > 1 && s->text[s->at + 1] == 'I') {
            return scan_word(s);
        } else if (!(c == '"' ? scan_string(s, &escaped)
                     : c == '-' || (c >= '0' && c <= '9') ? scan_number(s) : scan_word(s))) {
            return false;
        }
        for (;;) {
            skip_space(s);
            if (!depth)
                return s->at == s->n || fail(s, "text after the value");
            if (peek(s) == ',') {
                s->at++;
                skip_space(s);
                if (stack[depth - 1].close == '}' && !scan_key(s))
                    return false;
                break;
            }
            if (peek(s) != stack[depth - 1].close)
                return fail(s, stack[depth - 1].close == '}' ? "expected , or }"
                                                             : "expected , or ]");
            s->at++;
            if (stack[--depth].close == '}' && !close_object(s, stack[depth].first_key))
                return false;
        }
    }
}

char *json_check(const char *text, size_t n)
{
    Scan s = {.text = text, .n = n};
    if (utf8_mark(text, n)) {
        fail(&s, "begins with a byte order mark");
    } else {
        skip_space(&s);
        scan_value(&s);
    }
    for (size_t i = 0; i < s.nkeys; i++)
        free(s.key[i].owned);
    free(s.key);
    if (!s.why)
        return NULL;
    size_t line = 1;
    for (size_t i = 0; i < s.at; i++)
        line += text[i] == '\n';
    return format("line %zu, byte %zu: %s", line, s.at, s.why);
}

/* Walks tree and text in parallel: marks floats and keeps the digits of integers beyond 2^53. */
static void mark_numbers(cJSON *root, const char *text, size_t n)
{
    cJSON *stack[JSON_DEPTH + 1], *item = root;
    int depth = 0;
    size_t at = 0;
    while (item) {
        if (cJSON_IsNumber(item)) {
            for (bool quoted = false; quoted || !strchr("-0123456789", text[at]); at++) {
                if (text[at] == '"')
                    quoted = !quoted;
                else if (quoted && text[at] == '\\')
                    at++;
            }
            size_t from = at;
            while (at < n && text[at] && strchr("+-.eE0123456789", text[at])) {
                if (strchr(".eE", text[at]))
                    item->type |= JSON_FLOAT;
                at++;
            }
            if (!(item->type & JSON_FLOAT) && at - from > 15) {
                item->valuestring = cJSON_malloc(at - from + 1);
                memcpy(item->valuestring, text + from, at - from);
                item->valuestring[at - from] = 0;
            }
        }
        if (item->child) {
            stack[depth++] = item;
            item = item->child;
            continue;
        }
        while (item && !item->next)
            item = depth ? stack[--depth] : NULL;
        if (item)
            item = item->next;
    }
}

cJSON *json_parse(const char *text, size_t n, char **error)
{
    const size_t mark = utf8_mark(text, n);
    text += mark, n -= mark;
    *error = json_check(text, n);
    if (*error)
        return NULL;
    cJSON *tree = cJSON_ParseWithLength(text, n);
    if (!tree)
        *error = format("cJSON refuses what the strict check accepts");
    else
        mark_numbers(tree, text, n);
    return tree;
}

cJSON *json_get(const cJSON *obj, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(obj, key);
}

void json_say(cJSON *value)
{
    char *text = cJSON_PrintUnformatted(value);
    if (!text)
        die(EXIT_INTERNAL, "out of memory for a line of JSON");
    puts(text);
    free(text);
    cJSON_Delete(value);
}

char *json_quoted(const char *text)
{
    cJSON *string = cJSON_CreateString(text);
    char *all = string ? cJSON_PrintUnformatted(string) : NULL;
    if (!all)
        die(EXIT_INTERNAL, "out of memory for a string of JSON");
    cJSON_Delete(string);
    return all;
}

cJSON *json_add_float(cJSON *obj, const char *key, double value)
{
    cJSON *item = cJSON_AddNumberToObject(obj, key, value);
    if (item)
        item->type |= JSON_FLOAT;
    return item;
}

void json_float_text(double value, char text[64])
{
    char digits[32];
    int precision = 0;
    do
        snprintf(digits, sizeof digits, "%.*e", precision++, value);
    while (strtod(digits, NULL) != value && precision < 17);
    char *e = strchr(digits, 'e');
    int exponent = atoi(e + 1);
    if (exponent < -4 || exponent >= 16) {
        snprintf(text, 64, "%s", digits);
        return;
    }
    *e = 0;
    char *out = text, *d = digits;
    if (*d == '-')
        *out++ = *d++;
    if (d[1] == '.')
        memmove(d + 1, d + 2, strlen(d + 1));
    int n = (int)strlen(d);
    if (exponent < 0) {
        snprintf(out, 60, "0.%.*s%s", -exponent - 1, "000", d);
    } else if (n <= exponent + 1) {
        snprintf(out, 60, "%s%.*s.0", d, exponent + 1 - n, "0000000000000000");
    } else {
        snprintf(out, 60, "%.*s.%s", exponent + 1, d, d + exponent + 1);
    }
}

/* Like json.dumps with ensure_ascii: characters outside printable ASCII become \uXXXX. */
static void write_string(FILE *to, const char *s)
{
    static const char name[] = "\"\\bfnrt", value[] = "\"\\\b\f\n\r\t";
    putc('"', to);
    while (*s) {
        unsigned char c = (unsigned char)*s;
        const char *short_form = strchr(value, c);
        if (short_form) {
            fprintf(to, "\\%c", name[short_form - value]);
            s++;
        } else if (c >= 0x20 && c < 0x7f) {
            putc(c, to);
            s++;
        } else {
            int bad, len = utf8_length(s, strlen(s), &bad);
            uint32_t u = len ? utf8_value(s, len) : 0xfffd;
            s += len ? len : bad;
            if (u >= 0x10000)
                fprintf(to, "\\u%04x\\u%04x", 0xd800 + ((u - 0x10000) >> 10),
                        0xdc00 + (u & 0x3ff));
            else
                fprintf(to, "\\u%04x", u);
        }
    }
    putc('"', to);
}

static void write_number(FILE *to, const cJSON *item)
{
    char text[64];
    if (item->valuestring)
        fputs(item->valuestring, to);
    else if (!isfinite(item->valuedouble))
        fputs("null", to);
    else if (!(item->type & JSON_FLOAT) && fabs(item->valuedouble) < 0x1p63 &&
             (double)(int64_t)item->valuedouble == item->valuedouble)
        fprintf(to, "%lld", (long long)item->valuedouble);
    else
        json_float_text(item->valuedouble, text), fputs(text, to);
}

static void write_leaf(FILE *to, const cJSON *item)
{
    if (cJSON_IsString(item))
        write_string(to, item->valuestring);
    else if (cJSON_IsNumber(item))
        write_number(to, item);
    else
        fputs(cJSON_IsTrue(item) ? "true" : cJSON_IsFalse(item) ? "false"
              : cJSON_IsArray(item) ? "[]" : cJSON_IsObject(item) ? "{}" : "null", to);
}

static int item_order(const void *a, const void *b)
{
    return strcmp((*(const cJSON *const *)a)->string, (*(const cJSON *const *)b)->string);
}

/* Returns the members of an array or object in output order; ends with NULL. */
static const cJSON **members(const cJSON *of)
{
    size_t n = 0;
    for (const cJSON *i = of->child; i; i = i->next)
        n++;
    const cJSON **list = malloc((n + 1) * sizeof *list);
    n = 0;
    for (const cJSON *i = of->child; i; i = i->next)
        list[n++] = i;
    list[n] = NULL;
    if (cJSON_IsObject(of))
        qsort(list, n, sizeof *list, item_order);
    return list;
}

bool json_write_hf(FILE *to, const cJSON *value)
{
    struct { const cJSON *of, **list; size_t i; } stack[JSON_DEPTH];
    int depth = 0;
    for (const cJSON *item = value;;) {
        if (item->child && (cJSON_IsArray(item) || cJSON_IsObject(item))) {
            if (depth == JSON_DEPTH) {
                while (depth)
                    free(stack[--depth].list);
                return false;
            }
            putc(cJSON_IsObject(item) ? '{' : '[', to);
            stack[depth].of = item;
            stack[depth].i = 0;
            stack[depth++].list = members(item);
        } else {
            write_leaf(to, item);
        }
        while (depth && !stack[depth - 1].list[stack[depth - 1].i]) {
            depth--;
            free(stack[depth].list);
            fprintf(to, "\n%*s%c", 2 * depth, "", cJSON_IsObject(stack[depth].of) ? '}' : ']');
        }
        if (!depth)
            break;
        item = stack[depth - 1].list[stack[depth - 1].i];
        fprintf(to, "%s\n%*s", stack[depth - 1].i++ ? "," : "", 2 * depth, "");
        if (cJSON_IsObject(stack[depth - 1].of)) {
            write_string(to, item->string);
            fputs(": ", to);
        }
    }
    putc('\n', to);
    return !ferror(to);
}

bool json_write_object(FILE *to, const cJSON *value)
{
    for (const cJSON *i = value->child; i; i = i->next) {
        fputs(i == value->child ? "{\n  " : ",\n  ", to);
        write_string(to, i->string);
        fputs(": ", to);
        write_leaf(to, i);
    }
    fputs(value->child ? "\n}\n" : "{}\n", to);
    return !ferror(to);
}

/* Reads and closes fd. */
static char *read_whole(int fd, const char *path, size_t max, size_t *n, char **error)
{
    struct stat st;
    char *text = NULL;
    if (fstat(fd, &st)) {
        *error = format("%s: %s", path, strerror(errno));
    } else if (!S_ISREG(st.st_mode)) {
        *error = format("%s: not a regular file", path);
    } else if ((uint64_t)st.st_size > max) {
        *error = format("%s: %lld bytes, at most %zu are read", path, (long long)st.st_size, max);
    } else {
        size_t got = 0, size = (size_t)st.st_size;
        text = malloc(size + 1);
        if (!text)
            *error = format("%s: out of memory for its %zu bytes", path, size);
        while (text && got < size) {
            ssize_t r = pread(fd, text + got, size - got, (off_t)got);
            if (r < 0 && errno == EINTR)
                continue;
            if (r <= 0) {
                *error = format("%s: %s", path, r ? strerror(errno) : "shrank while being read");
                free(text);
                text = NULL;
                break;
            }
            got += (size_t)r;
        }
        if (text)
            text[size] = 0;
        *n = size;
    }
    close(fd);
    return text;
}

char *file_read(const char *path, size_t max, size_t *n, char **error)
{
    *error = NULL;
    int fd = TEMP_FAILURE_RETRY(open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (fd >= 0)
        return read_whole(fd, path, max, n, error);
    *error = format("%s: %s", path, strerror(errno));
    return NULL;
}

char *file_read_nofollow(const char *path, size_t max, size_t *n, char **error)
{
    *error = NULL;
    int fd = file_open(path, O_RDONLY, error);
    return fd < 0 ? NULL : read_whole(fd, path, max, n, error);
}
