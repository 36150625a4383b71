/* hf_match.c -- matches the tensors of a folder to those of the model by name and shape.
 *
 * In:    headers of safetensors files; reads tensor data only of a tied head that is stored anyway.
 * Method: matches every tensor of the folder by its name, then checks that all expected ones were
 *         found. */
#include "runtime/model/hf_match.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/model/hf_tensors.h"
#include "runtime/nf4.h"

/* ---- shapes ---------------------------------------------------------------------------------- */

void hf_file_shape(const Tensor *t, int64_t shape[ST_RANK])
{
    for (int i = 0; i < t->rank; i++)
        shape[i] = t->shape[t->transposed ? t->rank - 1 - i : i];
}

static char *shape_text(int rank, const int64_t *shape)
{
    char *text = format("[");
    for (int i = 0; i < rank; i++) {
        char *longer = format("%s%s%lld", text, i ? "," : "", (long long)shape[i]);
        free(text);
        text = longer;
    }
    char *closed = format("%s]", text);
    free(text);
    return closed;
}

/* As hf_shape_check(), of a tensor with this type and shape. */
static char *part_check(const StFile *file, const StTensor *from, StDtype dtype, int rank,
                        int64_t n)
{
    const int64_t want[2] = {n, 1};
    if (from->dtype == dtype && from->rank == rank && from->shape[0] == n &&
        (rank < 2 || from->shape[1] == 1))
        return NULL;
    char *found = shape_text(from->rank, from->shape), *wanted = shape_text(rank, want);
    char *error = format("%s: %s is %s %s, must be %s %s", file->path, from->name,
                         st_dtype_name[from->dtype], found, st_dtype_name[dtype], wanted);
    free(found), free(wanted);
    return error;
}

char *hf_shape_check(const StFile *file, const StTensor *from, const Tensor *t)
{
    if (t->weight.type == EL_NF4 && from->dtype == ST_U8)
        return part_check(file, from, ST_U8, 2, model_elements(t) / 2);
    if (from->dtype != ST_F32 && from->dtype != ST_BF16 && from->dtype != ST_F16 &&
        from->dtype != ST_F64)
        return format("%s: %s is %s; supported are F32, BF16, F16 and F64", file->path, from->name,
                      st_dtype_name[from->dtype]);
    return hf_dims_check(file, from, t);
}

char *hf_dims_check(const StFile *file, const StTensor *from, const Tensor *t)
{
    int64_t want[ST_RANK];
    hf_file_shape(t, want);
    if (from->rank == t->rank &&
        memcmp(from->shape, want, (size_t)t->rank * sizeof *want) == 0)
        return NULL;
    char *found = shape_text(from->rank, from->shape), *wanted = shape_text(t->rank, want);
    char *error = format("%s: %s has shape %s, this program was built for %s", file->path,
                         from->name, found, wanted);
    free(found);
    free(wanted);
    return error;
}

/* Ends of the names of tensors of NF4, after the weight's name. */
static const char *const nf4_suffix[HF_NF4_PARTS] = {
    [HF_NF4_ABSMAX] = ".absmax", [HF_NF4_MAP] = ".quant_map", [HF_NF4_NESTED] = ".nested_absmax",
    [HF_NF4_NESTED_MAP] = ".nested_quant_map", [HF_NF4_STATE] = ".quant_state.bitsandbytes__nf4"};

/* ---- expected tensors ----------------------------------------------------------------------- */

static int by_name(const void *a, const void *b)
{
    return strcmp(((const HfWant *)a)->name, ((const HfWant *)b)->name);
}

void hf_want_sort(HfWant *want, int n)
{
    qsort(want, (size_t)n, sizeof *want, by_name);
}

HfWant *hf_want_find(HfWant *want, int n, const char *name)
{
    int lo = 0, hi = n;
    while (lo < hi) {
        int mid = lo + (hi - lo) / 2, order = strcmp(want[mid].name, name);
        if (order == 0)
            return &want[mid];
        if (order < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return NULL;
}

void hf_names_add(HfNames *names, const char *name)
{
    if (names->n++ >= 4)
        return;
    char *longer =
        format("%s%s%.200s", names->text ? names->text : "", names->text ? ", " : "", name);
    free(names->text);
    names->text = longer;
}

/* Message if a tensor that belongs to codes of NF4 is missing or of another size. */
static char *nf4_check(const HfWant *w)
{
    const int64_t n = model_elements(w->t);
    const struct { StDtype dtype; int64_t n; } want[HF_NF4_PARTS] = {
        [HF_NF4_ABSMAX] = {ST_U8, NF4_BLOCKS(n)}, [HF_NF4_MAP] = {ST_F32, 16},
        [HF_NF4_NESTED] = {ST_F32, NF4_GROUPS(n)}, [HF_NF4_NESTED_MAP] = {ST_F32, 256},
        [HF_NF4_STATE] = {ST_U8, 0}};
    char *error = NULL;
    for (int i = 0; i < HF_NF4_PARTS && !error; i++)
        if (!w->part[i])
            error = format("%s: %s%s is missing: supported is NF4 with double quantisation",
                           w->file->path, w->name, nf4_suffix[i]);
        else if (i != HF_NF4_STATE)
            error = part_check(w->part_file[i], w->part[i], want[i].dtype, 1, want[i].n);
    return error;
}

char *hf_want_check(const HfWant *want, int n, const char *folder)
{
    HfNames missing = { 0, NULL };
    for (int i = 0; i < n; i++)
        if (!want[i].from && !want[i].optional)
            hf_names_add(&missing, want[i].name);
    if (missing.n > 0)
        return format("%s: %d tensors are missing: %s%s", folder, missing.n, missing.text,
                      missing.n > 4 ? ", ..." : "");
    for (int i = 0; i < n; i++) {
        char *error = want[i].from ? hf_shape_check(want[i].file, want[i].from, want[i].t) : NULL;
        if (!error && want[i].from && want[i].from->dtype == ST_U8)
            error = nf4_check(&want[i]);
        if (error)
            return error;
    }
    return NULL;
}

/* ---- model folders -------------------------------------------------------------------------- */

/* A tied head that the folder stores anyway must equal the embedding bit for bit. */
static char *check_tied(const StFile *file, const StTensor *head, const HfWant *of, int *code)
{
    enum { BLOCK = 1 << 16 };
    static char a[BLOCK], b[BLOCK];
    uint64_t bytes = head->end - head->begin;
    bool same = of && of->from && of->from->dtype == head->dtype &&
                of->from->end - of->from->begin == bytes;
    for (uint64_t at = 0, k; same && at < bytes; at += k) {
        k = bytes - at < BLOCK ? bytes - at : BLOCK;
        char *error = st_read(file, head, a, at, k);
        if (!error)
            error = st_read(of->file, of->from, b, at, k);
        if (error) {
            *code = EXIT_DATA;
            return error;
        }
        same = memcmp(a, b, k) == 0;
    }
    return same ? NULL
                : format("%s: %s differs from %s, though config.json ties them", file->path,
                         head->name, of ? of->name : "the embedding");
}

/* Returns the model's tensor for a name in the file; NULL: none. *known: not a weight of ours, but
 * allowed. */
static HfWant *meant(HfWant *want, int n, const cJSON *config, const char *in_file, bool *known)
{
    char *name = hf_tensor_name(config, in_file), *longer = hf_tensor_prefixed(config, name);
    HfWant *w = hf_want_find(want, n, name);
    if (!w && longer)
        w = hf_want_find(want, n, longer);
    *known = hf_tensor_skipped(config, name) || hf_tensor_tied(config, name) ||
             (longer && hf_tensor_skipped(config, longer));
    free(name);
    free(longer);
    return w;
}

/* Stores a tensor that belongs to the codes of a weight; false: it does not. */
static bool take_part(HfWant *want, int n, const cJSON *config, const StFile *file,
                      const StTensor *from)
{
    const size_t length = strlen(from->name);
    for (int i = 0; i < HF_NF4_PARTS; i++) {
        const size_t end = strlen(nf4_suffix[i]);
        if (end >= length || strcmp(from->name + length - end, nf4_suffix[i]))
            continue;
        bool known;
        char *name = format("%.*s", (int)(length - end), from->name);
        HfWant *w = meant(want, n, config, name, &known);
        free(name);
        if (!w || w->t->weight.type != EL_NF4)
            return false;
        w->part[i] = from;
        w->part_file[i] = file;
        return true;
    }
    return false;
}

/* Returns a copy, with one row less, of a tensor whose last row the folder lacks, and expects that
 * instead; NULL: none. */
static Tensor *without_last(HfWant *want, int n)
{
    for (int i = 0; i < n; i++)
        if (want[i].from && want[i].t->extra_vocab_row && want[i].from->rank == 2 &&
            want[i].from->shape[0] == want[i].t->shape[0] - 1) {
            Tensor *rest = malloc(sizeof *rest);
            if (!rest)
                die(EXIT_IO, "out of memory for a tensor");
            *rest = *want[i].t;
            rest->shape[0]--;
            want[i].t = rest;
            return rest;
        }
    return NULL;
}

/* Optional tensors must be present all together or not at all. */
static char *check_added(const HfWant *want, int n, const char *folder)
{
    const HfWant *there = NULL, *missing = NULL;
    for (int i = 0; i < n; i++)
        if (want[i].t->optional_in_checkpoint)
            *(want[i].from ? &there : &missing) = &want[i];
    return there && missing ? format("%s: holds %s, but no %s", folder, there->name, missing->name)
                            : NULL;
}

char *hf_match(HfWant *want, int n, const StSet *set, const cJSON *config, const char *folder,
               Tensor **fewer, int *code)
{
    char *error = NULL;
    *fewer = NULL;
    *code = EXIT_MISMATCH;
    HfNames unexpected = { 0, NULL };
    for (int f = 0; f < set->nfiles; f++)
        for (int i = 0; i < set->file[f].n; i++) {
            const StTensor *from = &set->file[f].t[i];
            bool known;
            HfWant *w = meant(want, n, config, from->name, &known);
            if (w && w->from)
                return format("%s: %s is stored twice, also as %s", folder, w->name, w->from->name);
            if (w) {
                w->from = from;
                w->file = &set->file[f];
            } else if (!known && !take_part(want, n, config, &set->file[f], from)) {
                hf_names_add(&unexpected, from->name);
            }
        }
    if (unexpected.n > 0)
        return format("%s: %d unexpected tensors: %s%s", folder, unexpected.n, unexpected.text,
                      unexpected.n > 4 ? ", ..." : "");
    /* An untied head starts as the embedding it was tied to. */
    for (int i = 0; i < n; i++) {
        const char *of = want[i].from ? NULL : hf_tensor_tied(config, want[i].name);
        const HfWant *w = of ? hf_want_find(want, n, of) : NULL;
        if (w && want[i].optional) {
            want[i].from = w->from;
            want[i].file = w->file;
        }
    }
    if ((error = check_added(want, n, folder)))
        return error;
    *fewer = without_last(want, n);
    error = hf_want_check(want, n, folder);
    for (int f = 0; f < set->nfiles && !error; f++)
        for (int i = 0; i < set->file[f].n && !error; i++) {
            const StTensor *from = &set->file[f].t[i];
            const char *of = hf_tensor_tied(config, from->name);
            if (of)
                error = check_tied(&set->file[f], from, hf_want_find(want, n, of), code);
        }
    return error;
}
