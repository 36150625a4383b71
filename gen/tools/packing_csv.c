/* packing_csv.c -- `gen pack-buffers`: the memory planner on a CSV file.
 *
 * In:    columns id, lower, upper, size and optionally alignment, in any order.
 * Out:   the rows with their offsets on stdout, one line of figures on stderr.
 * Keeps: ids byte for byte, and the order of rows, on which offsets do not depend. */
#include "gen/tools/packing_csv.h"
#include "runtime/files/utf8.h"
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 1000000
#define TOTAL_MAX (INT64_MAX / 2)
#define FILE_MAX ((size_t)1 << 28)

enum { COL_ID, COL_LOWER, COL_UPPER, COL_SIZE, COL_ALIGNMENT, NCOLUMNS };
static const struct {
    const char *name;
    int64_t least;
    bool required;
} columns[NCOLUMNS] = {
    [COL_ID] = {"id", 0, true},
    [COL_LOWER] = {"lower", 0, true},
    [COL_UPPER] = {"upper", 0, true},
    [COL_SIZE] = {"size", 0, true},
    [COL_ALIGNMENT] = {"alignment", 1, false},
};

typedef struct {
    const char *at;
    size_t len;
} Slice;

/* Stores "name:line: " and the message, with control bytes shown as '?', in t->error. Returns 0. */
__attribute__((format(printf, 4, 5))) static int fail(PackTable *t, const char *name, int64_t line,
                                                      const char *fmt, ...)
{
    va_list ap;
    int used = snprintf(t->error, sizeof t->error, "%.100s:%" PRId64 ": ", name, line);
    va_start(ap, fmt);
    vsnprintf(t->error + used, sizeof t->error - (size_t)used, fmt, ap);
    va_end(ap);
    for (char *c = t->error; *c; c++)
        if ((unsigned char)*c < 32 || *c == 127)
            *c = '?';
    return 0;
}

static int shown(Slice s) { return s.len < 40 ? (int)s.len : 40; }

/* Takes the next line, without its end; false after the last. */
static bool next_line(const char **p, const char *end, Slice *line)
{
    if (*p == end)
        return false;
    const char *nl = memchr(*p, '\n', (size_t)(end - *p));
    const char *stop = nl ? nl : end;
    *line = (Slice){*p, (size_t)(stop - *p)};
    *p = nl ? nl + 1 : end;
    if (line->len && line->at[line->len - 1] == '\r')
        line->len--;
    return true;
}

/* Takes the next field of a line; false after the last. */
static bool next_field(Slice *line, Slice *field)
{
    if (!line->at)
        return false;
    const char *comma = memchr(line->at, ',', line->len);
    *field = (Slice){line->at, comma ? (size_t)(comma - line->at) : line->len};
    if (comma)
        *line = (Slice){comma + 1, line->len - field->len - 1};
    else
        line->at = NULL;
    return true;
}

/* Decimal digits only. False when there is anything else or the value passes INT64_MAX. */
static bool parse_int(Slice s, int64_t *v)
{
    *v = 0;
    for (size_t i = 0; i < s.len; i++) {
        int digit = s.at[i] - '0';
        if (digit < 0 || digit > 9 || *v > (INT64_MAX - digit) / 10)
            return false;
        *v = *v * 10 + digit;
    }
    return s.len > 0;
}

/* Stores the column of each field in *place, -1: none. Returns the number of fields; 0: error. */
static int parse_header(const char *name, int64_t line, Slice text, PackTable *t, int **place)
{
    int n = 0;
    bool seen[NCOLUMNS] = {false};
    for (Slice f; next_field(&text, &f); n++) {
        *place = packing_alloc(*place, (size_t)n + 1, sizeof **place);
        (*place)[n] = -1;
        for (int c = 0; c < NCOLUMNS; c++) {
            if (strlen(columns[c].name) != f.len || memcmp(columns[c].name, f.at, f.len))
                continue;
            if (seen[c])
                return fail(t, name, line, "%s: must be one column, got two", columns[c].name);
            seen[c] = true;
            (*place)[n] = c;
        }
    }
    for (int c = 0; c < NCOLUMNS; c++)
        if (columns[c].required && !seen[c])
            return fail(t, name, line, "%s: the header must have this column, got none",
                        columns[c].name);
    return n;
}

static int parse_row(const char *name, int64_t line, Slice text, PackTable *t, const int *place,
                     int nfields)
{
    PackRow *row = &t->rows[t->n];
    int64_t v[NCOLUMNS] = {[COL_ALIGNMENT] = 1};
    int k = 0;
    for (Slice f; next_field(&text, &f); k++) {
        if (k >= nfields || place[k] < 0)
            continue;
        int c = place[k];
        if (c == COL_ID) {
            if (!f.len || memchr(f.at, 0, f.len))
                return fail(t, name, line, "id: must be a name, got \"%.*s\"", shown(f), f.at);
            row->id = f.at;
            row->idlen = f.len;
        } else if (!parse_int(f, &v[c]) || v[c] < columns[c].least) {
            return fail(t, name, line,
                        "%s: must be an integer from %" PRId64 " to %" PRId64 ", got \"%.*s\"",
                        columns[c].name, columns[c].least, INT64_MAX, shown(f), f.at);
        }
    }
    if (k != nfields)
        return fail(t, name, line, "row: must have %d fields as in the header, got %d", nfields, k);
    if (v[COL_LOWER] >= v[COL_UPPER])
        return fail(t, name, line, "upper: must be more than lower %" PRId64 ", got %" PRId64,
                    v[COL_LOWER], v[COL_UPPER]);
    row->line = line;
    row->b = (PackBuffer){v[COL_LOWER], v[COL_UPPER], v[COL_SIZE], v[COL_ALIGNMENT], -1};
    return 1;
}

static int id_order(const void *x, const void *y)
{
    const PackRow *a = *(const PackRow *const *)x, *b = *(const PackRow *const *)y;
    size_t len = a->idlen < b->idlen ? a->idlen : b->idlen;
    int c = memcmp(a->id, b->id, len);
    if (c)
        return c;
    if (a->idlen != b->idlen)
        return a->idlen < b->idlen ? -1 : 1;
    return (a->line > b->line) - (a->line < b->line);
}

/* Rows in the order of their ids; the caller frees the list. */
static PackRow **rows_by_id(PackTable *t)
{
    PackRow **by = packing_alloc(NULL, (size_t)t->n, sizeof *by);
    for (int i = 0; i < t->n; i++)
        by[i] = &t->rows[i];
    qsort(by, (size_t)t->n, sizeof *by, id_order);
    return by;
}

static int check_ids(const char *name, PackTable *t)
{
    PackRow **by = rows_by_id(t), *twin = NULL, *first = NULL;
    for (int i = 1; i < t->n; i++) {
        if (by[i]->idlen != by[i - 1]->idlen || memcmp(by[i]->id, by[i - 1]->id, by[i]->idlen))
            continue;
        if (twin && twin->line < by[i]->line)
            continue;
        twin = by[i];
        first = by[i - 1];
    }
    free(by);
    if (!twin)
        return 1;
    Slice id = {twin->id, twin->idlen};
    return fail(t, name, twin->line, "id: must be unique, got \"%.*s\" as in line %" PRId64,
                shown(id), id.at, first->line);
}

int packing_parse(const char *name, const char *data, size_t size, PackTable *t)
{
    const char *p = data, *end = data + size;
    int *place = NULL, nfields = 0, rows_cap = 0, ok = 1;
    int64_t line = 0, total = 0;
    *t = (PackTable){0};
    for (Slice text; ok && next_line(&p, end, &text);) {
        line++;
        if (!text.len)
            continue;
        if (!place) {
            nfields = parse_header(name, line, text, t, &place);
            ok = nfields > 0;
            continue;
        }
        if (t->n == ROWS_MAX) {
            ok = fail(t, name, line, "row: there may be at most %d rows, got more", ROWS_MAX);
            break;
        }
        if (t->n == rows_cap) {
            rows_cap = 2 * rows_cap + 64;
            t->rows = packing_alloc(t->rows, (size_t)rows_cap, sizeof *t->rows);
        }
        ok = parse_row(name, line, text, t, place, nfields);
        if (!ok)
            break;
        const PackBuffer *b = &t->rows[t->n++].b;
        if (b->size > TOTAL_MAX - total || b->align > TOTAL_MAX - total - b->size)
            ok = fail(t, name, line,
                      "size: sizes and alignments must be at most %" PRId64 " in all, got more",
                      TOTAL_MAX);
        else
            total += b->size + b->align;
    }
    if (ok && !place)
        ok = fail(t, name, 1, "header: must have columns id,lower,upper,size, got none");
    if (ok && !t->n)
        ok = fail(t, name, line, "row: there must be at least one row, got none");
    free(place);
    return ok && check_ids(name, t);
}

/* The whole file; NULL with a message on stderr when it cannot be read. */
static char *read_all(const char *path, size_t *size)
{
    FILE *f = fopen(path, "rb");
    char *data = NULL;
    size_t cap = 0, n = 1;
    *size = 0;
    while (f && n && *size < FILE_MAX) {
        if (*size == cap)
            data = packing_alloc(data, cap = 2 * cap + 65536, 1);
        n = fread(data + *size, 1, cap - *size, f);
        *size += n;
    }
    if (f && !ferror(f) && *size < FILE_MAX) {
        fclose(f);
        const size_t mark = utf8_mark(data, *size);
        memmove(data, data + mark, *size -= mark);
        return data;
    }
    if (*size >= FILE_MAX)
        fprintf(stderr, "%s: may have at most %zu bytes, got more\n", path, FILE_MAX);
    else
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
    if (f)
        fclose(f);
    free(data);
    return NULL;
}

/* Packs in the order of ids, so that equal rows do not depend on their order in the file. */
static int pack_table(PackTable *t, const char *path, int64_t capacity)
{
    PackRow **by = rows_by_id(t);
    PackBuffer *b = packing_alloc(NULL, (size_t)t->n, sizeof *b);
    for (int i = 0; i < t->n; i++)
        b[i] = by[i]->b;
    int64_t goal = capacity ? capacity : packing_bound(b, t->n);
    PackResult r = packing_run(b, t->n, goal);
    bool fits = !capacity || r.peak <= capacity;
    if (r.peak > goal)
        r = packing_run(b, t->n, 0);
    const char *fault = packing_verify(b, t->n);
    if (fault) {
        fprintf(stderr, "gen: bug: packing.c: %s\n", fault);
        abort();
    }
    for (int i = 0; i < t->n; i++)
        by[i]->b.offset = b[i].offset;
    free(b);
    free(by);
    if (!fits) {
        fprintf(stderr,
                "%s: does not fit %" PRId64 ": best peak %" PRId64 " (%s), lower bound %" PRId64
                "\n",
                path, capacity, r.peak, r.method, r.bound);
        return 1;
    }
    printf("id,lower,upper,size,offset\n");
    for (int i = 0; i < t->n; i++) {
        const PackRow *row = &t->rows[i];
        fwrite(row->id, 1, row->idlen, stdout);
        printf(",%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 "\n", row->b.lower, row->b.upper,
               row->b.size, row->b.offset);
    }
    fprintf(stderr,
            "%s: %d buffers, peak %" PRId64 ", lower bound %" PRId64 ", %s, %" PRId64 " nodes\n",
            path, t->n, r.peak, r.bound, r.method, r.nodes);
    return 0;
}

int packing_main(int argc, char **argv)
{
    const char *path = NULL;
    int64_t capacity = 0;
    bool ok = true;
    for (int i = 1; ok && i < argc; i++) {
        if (!strcmp(argv[i], "--capacity") && i + 1 < argc) {
            Slice s = {argv[i + 1], strlen(argv[i + 1])};
            if (!parse_int(s, &capacity) || !capacity) {
                fprintf(stderr,
                        "gen: --capacity: must be an integer from 1 to %" PRId64 ", got \"%s\"\n",
                        INT64_MAX, argv[i + 1]);
                return 1;
            }
            i++;
        } else if (argv[i][0] == '-' || path) {
            ok = false;
        } else {
            path = argv[i];
        }
    }
    if (!ok || !path) {
        fprintf(stderr, "usage: gen pack-buffers FILE.csv [--capacity BYTES]\n");
        return 1;
    }
    size_t size;
    char *data = read_all(path, &size);
    if (!data)
        return 1;
    PackTable t;
    int status = 1;
    if (packing_parse(path, data, size, &t))
        status = pack_table(&t, path, capacity);
    else
        fprintf(stderr, "%s\n", t.error);
    free(t.rows);
    free(data);
    return status;
}
