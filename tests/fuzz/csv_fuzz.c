// link: packing packing_csv
/* csv_fuzz.c -- libFuzzer target: the CSV reader of the packer, then the packer on small tables.
 * Oracle: refused with one line, or every row is in range and prints to a CSV that reads back
 *        the same; what the packer places must verify. */
#include "gen/tools/packing_csv.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(x) do { if (!(x)) { fprintf(stderr, "csv_fuzz: %s\n", #x); abort(); } } while (0)

static void check_reprinted(const PackTable *t) {
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);
    fprintf(f, "alignment,size,upper,lower,id\n");
    for (int i = 0; i < t->n; i++) {
        const PackBuffer *b = &t->rows[i].b;
        fprintf(f, "%" PRId64 ",%" PRId64 ",%" PRId64 ",%" PRId64 ",", b->align, b->size, b->upper,
                b->lower);
        fwrite(t->rows[i].id, 1, t->rows[i].idlen, f);
        fputs("\r\n", f);
    }
    fclose(f);
    PackTable again;
    CHECK(packing_parse("again", text, size, &again) && again.n == t->n);
    for (int i = 0; i < t->n; i++) {
        const PackRow *a = &t->rows[i], *b = &again.rows[i];
        CHECK(a->idlen == b->idlen && !memcmp(a->id, b->id, a->idlen));
        CHECK(!memcmp(&a->b, &b->b, sizeof a->b));
    }
    free(again.rows);
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    PackTable t;
    if (!packing_parse("in.csv", (const char *)data, size, &t)) {
        CHECK(!strncmp(t.error, "in.csv:", 7) && !strchr(t.error, '\n') && strlen(t.error) > 10);
        free(t.rows);
        return 0;
    }
    CHECK(t.n > 0);
    PackBuffer b[9];
    int64_t total = 0;
    for (int i = 0; i < t.n; i++) {
        PackBuffer r = t.rows[i].b;
        CHECK(r.lower >= 0 && r.lower < r.upper && r.size >= 0 && r.align >= 1 && r.offset == -1);
        total += r.size + r.align;
        CHECK(total <= INT64_MAX / 2);
        if (i < 9) b[i] = r;
    }
    check_reprinted(&t);
    if (t.n <= 9) {
        PackResult r = packing_run(b, t.n, 0);
        CHECK(!packing_verify(b, t.n));
        CHECK(r.peak >= 0 && r.peak <= total);
    }
    free(t.rows);
    return 0;
}
