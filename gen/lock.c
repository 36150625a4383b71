/* lock.c -- RECIPE.lock.json beside a recipe: the algorithm of each matrix product, measured.
 *
 * In:    the lock file, the products of step.cu.   Out: algorithms for Gemm.algo; what is untuned.
 * Keeps: a row stands for its card's architecture, these kernels and this shape, or for nothing.
 * Method: one section a card; times in it are comments. The library's version is for the program
 *         to compare: gen does not ask the machine it runs on. */
#define _GNU_SOURCE
#include "emit.h"
#include "../kernels/cuda/gemm_key.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "../runtime/json.h"

enum { LOCK_VERSION = 1, MAX_LOCK = 1 << 24, MAX_ROWS = 2048 };

typedef struct { const char *key, *algo; } LockRow;

static struct {
    const char *path;            /* NULL: not looked for yet */
    const char *why;             /* no row applies; NULL: rows of gpu do */
    bool there;                  /* the file */
    const char *gpu, *cublaslt;
    int n, nasked;
    LockRow row[MAX_ROWS];
    LockRow asked[MAX_ROWS];     /* by the emitted program, algo NULL: untuned */
} lock;

/* ---- the file -------------------------------------------------------------------------------- */

char *lock_path(const Graph *g)
{
    const char *recipe = g->cfg->recipe;
    size_t n = strlen(recipe), end = strlen(".lua");
    if (n > end && !strcmp(recipe + n - end, ".lua"))
        n -= end;
    return text_print("%.*s.lock.json", (int)n, recipe);
}

/* What shapes a product's call: 8 digits in every section. */
char *lock_generator(void)
{
    static const char *const file[] = {"gemm.cuh", "gemm_key.h", "workspace.h"};
    Str s = {0};
    for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
        size_t n;
        char *text = file_text(text_print("%s/kernels/cuda/%s", gen_root(), file[i]), 1 << 24, &n);
        str_print(&s, "%s", text ? sha256_hex(text, n) : "");
    }
    return text_print("%.8s", sha256_hex(s.text, s.n));
}

static const char *string_of(const cJSON *o, const char *name, const char *place)
{
    const cJSON *v = json_get(o, name);
    if (!cJSON_IsString(v) || !*v->valuestring)
        err((Loc){lock.path, 0}, "%s: want a text \"%s\"", place, name);
    return v->valuestring;
}

static void only_names(const cJSON *o, const char *const *name, int n, const char *place)
{
    const cJSON *v;
    if (!cJSON_IsObject(o))
        err((Loc){lock.path, 0}, "%s: want an object", place);
    cJSON_ArrayForEach(v, o) {
        bool known = false;
        for (int i = 0; i < n && v->string; i++)
            known |= !strcmp(v->string, name[i]);
        if (!known)
            err((Loc){lock.path, 0}, "%s: unknown name \"%s\"", place, v->string ? v->string : "");
    }
}
#define ONLY(o, place, ...) \
    only_names(o, (const char *const[]){__VA_ARGS__}, \
               sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *), place)

/* Words and numbers, as gemm_describe() of kernels/cuda/gemm.cuh prints them. */
static void check_algo(const char *algo, const char *place)
{
    if (strncmp(algo, "algo ", 5) || algo[strspn(algo, "abcdefghijklmnopqrstuvwxyz0123456789 ")] ||
        strlen(algo) > 200)
        err((Loc){lock.path, 0}, "%s: want words and numbers that begin with algo, got \"%s\"",
            place, algo);
}

static void check_card(const cJSON *card, const char *place)
{
    static const char *const text_name[] = {"gpu", "arch", "toolkit", "cublaslt", "generator"};
    ONLY(card, place, "gpu", "arch", "sms", "toolkit", "cublaslt", "generator", "gemms");
    for (size_t k = 0; k < sizeof text_name / sizeof *text_name; k++)
        string_of(card, text_name[k], place);
    const char *version = json_get(card, "cublaslt")->valuestring;
    if (version[strspn(version, "0123456789.")])
        err((Loc){lock.path, 0}, "%s: want numbers and points in \"cublaslt\", got \"%s\"", place,
            version);
    if (!cJSON_IsNumber(json_get(card, "sms")))
        err((Loc){lock.path, 0}, "%s: want a number \"sms\"", place);
    const cJSON *rows = json_get(card, "gemms"), *row;
    int i = 0;
    if (!cJSON_IsArray(rows))
        err((Loc){lock.path, 0}, "%s: want a list \"gemms\"", place);
    cJSON_ArrayForEach(row, rows) {
        const char *at = text_print("%s, row %d", place, ++i);
        ONLY(row, at, "key", "algo", "us", "default_us");
        string_of(row, "key", at);
        check_algo(string_of(row, "algo", at), at);
    }
}

/* The file as it stands, every part of it checked; NULL: there is none. */
static cJSON *read_file(void)
{
    size_t n;
    char *text = file_text(lock.path, MAX_LOCK, &n), *error = NULL;
    if (!text && errno == ENOENT)
        return NULL;
    if (!text)
        err((Loc){lock.path, 0}, "cannot be read: %s", strerror(errno));
    cJSON *root = json_parse(text, n, &error);
    if (!root)
        err((Loc){lock.path, 0}, "%s", error ? error : "no JSON");
    ONLY(root, "the file", "diecast_lock", "cards");
    const cJSON *version = json_get(root, "diecast_lock"), *cards = json_get(root, "cards"), *card;
    if (!cJSON_IsNumber(version) || version->valuedouble != LOCK_VERSION)
        err((Loc){lock.path, 0}, "want \"diecast_lock\": %d; another version of gen wrote this",
            LOCK_VERSION);
    if (!cJSON_IsArray(cards))
        err((Loc){lock.path, 0}, "want a list \"cards\"");
    int i = 0;
    cJSON_ArrayForEach(card, cards)
        check_card(card, text_print("card %d", ++i));
    return root;
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool same(const cJSON *card, const char *name, const char *text)
{
    return !strcmp(json_get(card, name)->valuestring, text);
}

/* The card that the recipe names, else the first of the target's architecture. */
static const cJSON *choose_card(const Graph *g, const cJSON *cards, const char *wanted)
{
    const cJSON *card;
    bool arch = false;
    cJSON_ArrayForEach(card, cards)
        if (same(card, "arch", g->target->arch)) {
            arch = true;
            if (!*wanted || same(card, "gpu", wanted))
                return card;
        }
    lock.why = arch ? text_print("has no section for the card \"%s\"", wanted)
                    : text_print("has no section for %s", g->target->arch);
    return NULL;
}

static void open_lock(const Graph *g)
{
    if (lock.path)
        return;
    lock.path = lock_path(g);
    const char *wanted = config_text(g->cfg, F_card);
    cJSON *root = read_file();
    if (!root) {
        lock.why = "does not exist";
        return;
    }
    const cJSON *card = choose_card(g, json_get(root, "cards"), wanted), *row;
    const char *now = lock_generator();
    lock.there = true;
    if (card && !same(card, "generator", now)) {
        lock.why = text_print("was made with other kernels (%s, now %s)",
                              json_get(card, "generator")->valuestring, now);
        card = NULL;
    }
    if (!card)
        return;
    lock.gpu = json_get(card, "gpu")->valuestring;
    lock.cublaslt = json_get(card, "cublaslt")->valuestring;
    cJSON_ArrayForEach(row, json_get(card, "gemms")) {
        if (lock.n == MAX_ROWS)
            err((Loc){lock.path, 0}, "more than %d rows for %s", MAX_ROWS, lock.gpu);
        lock.row[lock.n++] = (LockRow){json_get(row, "key")->valuestring,
                                       json_get(row, "algo")->valuestring};
    }
}

const char *lock_gemm_algo(const Graph *g, const char *form, const char *in, const char *out,
                           int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb, int64_t ldc,
                           const char *epilogue, int beta, int64_t offset)
{
    char key[GEMM_KEY_BYTES];
    gemm_key(key, form, in, out, m, n, k, lda, ldb, ldc, epilogue, beta, offset);
    open_lock(g);
    for (int i = 0; i < lock.nasked; i++)
        if (!strcmp(lock.asked[i].key, key))
            return lock.asked[i].algo;
    const char *algo = NULL;
    for (int i = 0; i < lock.n; i++)
        if (!strcmp(lock.row[i].key, key))
            algo = lock.row[i].algo;
    if (lock.nasked == MAX_ROWS)
        bug("more than %d products", MAX_ROWS);
    lock.asked[lock.nasked++] = (LockRow){text_copy(key), algo};
    return algo;
}

const char *lock_cublaslt(void) { return lock.cublaslt; }

int lock_untuned(const char *const **key)
{
    const char **list = arena_new(sizeof *list * (size_t)(lock.nasked + 1));
    int n = 0;
    for (int i = 0; i < lock.nasked; i++)
        if (!lock.asked[i].algo)
            list[n++] = lock.asked[i].key;
    qsort(list, (size_t)n, sizeof *list, text_order);
    *key = list;
    return n;
}

/* One line: which rows apply, or why none does. */
void lock_note(void)
{
    const char *const *key;
    int missing = lock_untuned(&key);
    if (lock.there && lock.why)
        printf("%s %s: %d products by cuBLASLt's first choice\n", lock.path, lock.why, missing);
    else if (!lock.why && lock.nasked)
        printf("%s: %d of %d products as measured on %s\n", lock.path, lock.nasked - missing,
               lock.nasked, lock.gpu);
}

void lock_require(const Graph *g)
{
    emit_programs(g);            /* asks for every product */
    const char *const *key;
    int n = lock_untuned(&key);
    if (!n)
        return;
    Str s = {0};
    for (int i = 0; i < n; i++)
        str_print(&s, "\n    %s", key[i]);
    err((Loc){lock.path, 0}, "%s%d of %d products are not tuned; on the card: gen tune %s%s",
        lock.why ? text_print("%s; ", lock.why) : "", n, lock.nasked, g->cfg->recipe, s.text);
}

/* ---- writing --------------------------------------------------------------------------------- */

static const char *card_name(const cJSON *card)
{
    return text_print("%s %s", json_get(card, "arch")->valuestring,
                      json_get(card, "gpu")->valuestring);
}

static int by_key(const void *a, const void *b)
{
    const cJSON *const *x = a, *const *y = b;
    return strcmp(json_get(*x, "key")->valuestring, json_get(*y, "key")->valuestring);
}

static int by_card(const void *a, const void *b)
{
    return strcmp(card_name(*(const cJSON *const *)a), card_name(*(const cJSON *const *)b));
}

/* The list's items in order, the list itself anew. */
static cJSON *sorted(cJSON *list, int (*order)(const void *, const void *))
{
    int n = cJSON_GetArraySize(list), i = 0;
    cJSON **item = arena_new(sizeof *item * (size_t)(n + 1)), *again = cJSON_CreateArray();
    while (cJSON_GetArraySize(list))
        item[i++] = cJSON_DetachItemFromArray(list, 0);
    qsort(item, (size_t)n, sizeof *item, order);
    for (i = 0; i < n; i++)
        cJSON_AddItemToArray(again, item[i]);
    return again;
}

/* Adds the tuner's section (the text of one card) in place of that card's former one. */
void lock_write(const Graph *g, const char *section, const char *from)
{
    lock.path = from;
    char *error = NULL, *text;
    cJSON *card = json_parse(section, strlen(section), &error), *old;
    if (!card)
        err((Loc){from, 0}, "%s", error ? error : "no JSON");
    check_card(card, "the tuner's rows");
    lock.path = lock_path(g);
    if (strcmp(json_get(card, "arch")->valuestring, g->target->arch))
        err((Loc){from, 0}, "rows for %s, but target %s is %s", json_get(card, "arch")->valuestring,
            g->target->name, g->target->arch);
    if (!same(card, "generator", lock_generator()))
        err((Loc){from, 0}, "rows of other kernels (%s, now %s): emit, build and run tune again",
            json_get(card, "generator")->valuestring, lock_generator());
    cJSON *root = read_file(), *cards = cJSON_CreateArray();
    if (!root) {
        root = cJSON_CreateObject();
        cJSON_AddNumberToObject(root, "diecast_lock", LOCK_VERSION);
        cJSON_AddArrayToObject(root, "cards");
    }
    cJSON *list = json_get(root, "cards");
    while ((old = cJSON_DetachItemFromArray(list, 0)))
        if (strcmp(card_name(old), card_name(card)))
            cJSON_AddItemToArray(cards, old);
    cJSON_ReplaceItemInObjectCaseSensitive(card, "gemms", sorted(json_get(card, "gemms"), by_key));
    cJSON_AddItemToArray(cards, card);
    cJSON_ReplaceItemInObjectCaseSensitive(root, "cards", sorted(cards, by_card));
    size_t n;
    FILE *to = open_memstream(&text, &n);
    if (!to || !json_write_hf(to, root) || fclose(to))
        bug("cannot print the lock file");
    file_write_if_changed(lock.path, text, n, false);
    printf("%s: %d products for %s\n", lock.path, cJSON_GetArraySize(json_get(card, "gemms")),
           json_get(card, "gpu")->valuestring);
    memset(&lock, 0, sizeof lock);
}
