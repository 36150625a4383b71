/* unit_data_bins.c -- documents packed into bins: against a slow method, and against TRL. */
#include "unit_data.h"
#include "../../runtime/base.h"
#include "../../runtime/data/bins.h"
#include <stdlib.h>

int64_t slow_bins(const int32_t *length, int64_t n, int64_t most, int64_t *bin, int64_t *place)
{
    int64_t bins = 0, clock = 0;
    int64_t *space = calloc((size_t)n, sizeof *space), *since = calloc((size_t)n, sizeof *since);
    for (int64_t l = most; l > 0; l--)
        for (int64_t i = 0; i < n; i++) {
            if (length[i] != l)
                continue;
            int64_t best = -1;
            for (int64_t k = 0; k < bins; k++)
                if (space[k] >= l && (best < 0 || space[k] < space[best]
                                      || (space[k] == space[best] && since[k] < since[best])))
                    best = k;
            if (best < 0) {
                best = bins++;
                space[best] = most;
            }
            bin[i] = best;
            place[i] = most - space[best];
            space[best] -= l;
            since[best] = clock++;
        }
    free(space);
    free(since);
    return bins;
}

int64_t bins_of(int64_t n)
{
    int32_t length[DOCS];
    int64_t bin[DOCS], place[DOCS];
    for (int64_t k = 0; k < n; k++)
        length[k] = (int32_t)(doc[k + 1] - doc[k]);
    return slow_bins(length, n, T, bin, place);
}

/* Random lengths, bin by bin as the slow method has them. */
static void many_bins(int64_t n, int64_t most, uint32_t seed)
{
    int32_t *length = malloc((size_t)n * sizeof *length);
    int64_t *bin = malloc((size_t)n * sizeof *bin), *place = malloc((size_t)n * sizeof *place);
    for (int64_t i = 0; i < n; i++) {
        seed = seed * 1664525u + 1013904223u;
        length[i] = 1 + (int32_t)((seed >> 8) % (uint64_t)most);
    }
    int64_t bins = slow_bins(length, n, most, bin, place), at = 0;
    Bins b = bins_pack(length, n, most);
    bool good = b.n == bins && b.first[0] == 0 && b.first[b.n] == n;
    for (int64_t i = 0; good && i < b.n; i++, at = 0)
        for (int64_t k = b.first[i]; k < b.first[i + 1]; at += length[b.doc[k++]])
            good = good && bin[b.doc[k]] == i && place[b.doc[k]] == at;
    char *name = format("bins of %d for %d documents, as the slow method has them", (int)most,
                        (int)n);
    check(good, name, "%d bins, %d wanted", (int)b.n, (int)bins);
    free(name), free(length), free(bin), free(place);
    bins_free(&b);
}

/* The bins that TRL makes of the same documents. */
static void reference_bins(void)
{
    cJSON *all = read_json("tests/train/ref/vectors.json");
    const cJSON *list = json_get(all, "bins");
    for (const cJSON *r = list ? list->child : NULL; r; r = r->next) {
        const cJSON *lengths = json_get(r, "lengths"), *bin = json_get(r, "bins")->child;
        int64_t n = cJSON_GetArraySize(lengths), most = (int64_t)json_get(r, "T")->valuedouble;
        int32_t *length = malloc((size_t)n * sizeof *length), *to = length;
        for (const cJSON *l = lengths->child; l; l = l->next)
            *to++ = (int32_t)l->valuedouble;
        Bins b = bins_pack(length, n, most);
        bool good = b.n == cJSON_GetArraySize(json_get(r, "bins"));
        for (int64_t i = 0; good && i < b.n; i++, bin = bin->next) {
            int64_t k = b.first[i];
            for (const cJSON *l = bin->child; l; l = l->next, k++)
                good = good && k < b.first[i + 1]
                    && length[b.doc[k]] == (int32_t)l->valuedouble;
            good = good && k == b.first[i + 1];
        }
        char *name = format("bins of %d for %d documents, as TRL packs them", (int)most, (int)n);
        check(good, name, "%d bins", (int)b.n);
        free(name), free(length);
        bins_free(&b);
    }
    cJSON_Delete(all);
}

void test_bins(void)
{
    reference_bins();
    many_bins(1, 1, 1);
    many_bins(300, 1, 2);
    many_bins(500, 63, 3);
    many_bins(2000, 64, 4);
    many_bins(700, 1000, 5);
}
