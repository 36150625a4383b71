/* lock.c -- RECIPE.lock.json, next to the recipe: measured algorithms and kernel variants.
 *
 * In:    the lock file, the calls of step.cu.   Out: Gemm.algo and .raw, kernel variants; the
 *        untuned calls.
 * Keeps: a row applies only to the architecture of its card, these kernel sources and this shape.
 * Method: one section per card; its times serve estimates. The program compares the library
 *         version, since gen does not query the machine it runs on. */
#define _GNU_SOURCE
#include "gen/emit/emit.h"
#include "gen/emit/lock.h"
#include "kernels/cuda/gemm_key.h"

#include <cjson/cJSON.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <regex.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/files/json.h"

enum { LOCK_VERSION = 1, MAX_LOCK = 1 << 24, MAX_ROWS = 2048 };

enum { GEMM, KERNEL };
typedef struct {
    const char *key, *choice;    /* algorithm or variant */
    const char *raw;             /* of an algorithm: its bytes, NULL: the row has none */
    int kind;
    double seconds;              /* as measured; 0: the row does not say */
} LockRow;

/* For each kind of row: its list in the file, and the name of its choice. */
static const struct { const char *list, *choice; } kind_row[] = {{"gemms", "algo"},
                                                                 {"kernels", "variant"}};

static struct {
    const char *path;            /* NULL: not looked for yet */
    const char *why;             /* reason why no row applies; NULL: the rows of gpu apply */
    const char *stale;           /* reason why the rows of kernels do not apply; NULL: they do */
    bool there;                  /* the file */
    const char *gpu, *cublaslt;
    int n, nasked;
    LockRow row[MAX_ROWS];
    LockRow asked[MAX_ROWS];     /* looked up by the emitted program; choice NULL: untuned */
} lock;

/* ---- the file -------------------------------------------------------------------------------- */

char *lock_path(const Graph *g)
{
    const char *recipe = g->setting[SETTING_recipe].text;
    size_t n = strlen(recipe), end = strlen(".lua");
    if (n > end && !strcmp(recipe + n - end, ".lua"))
        n -= end;
    return text_print("%.*s.lock.json", (int)n, recipe);
}

/* Returns 8 digits of the hash of these files of kernels/cuda. */
static char *files_hash(const char *const *file, int n)
{
    Str s = {0};
    for (int i = 0; i < n; i++) {
        size_t bytes;
        char *text =
            file_text(text_print("%s/kernels/cuda/%s", gen_root(), file[i]), 1 << 24, &bytes);
        str_print(&s, "%s", text ? sha256_hex(text, bytes) : "");
    }
    return text_print("%.8s", sha256_hex(s.text, s.n));
}

/* Returns the hash of the files that determine how a product is called. */
char *lock_generator(void)
{
    static const char *const file[] = {"gemm.cuh", "gemm_key.h", "workspace.h"};
    return files_hash(file, sizeof file / sizeof *file);
}

/* Returns the hash of all kernel files: they include each other. */
char *lock_kernels(void)
{
    const char *path = text_print("%s/kernels/cuda", gen_root()), *file[200] = {"../kernels.def"};
    DIR *d = opendir(path);
    int n = 1;
    if (!d)
        err((Loc){path, 0}, "cannot be read: %s", strerror(errno));
    for (struct dirent *e; (e = readdir(d)) && n < 200;)
        if (e->d_name[0] != '.')
            file[n++] = text_copy(e->d_name);
    closedir(d);
    qsort(file, (size_t)n, sizeof *file, text_order);
    return files_hash(file, n);
}

enum { IN_ROWS = 1 << GEMM | 1 << KERNEL, IN_CARD = 4, IN_FILE = 8 };
/* Members of the file. type 0: any type, or absent; `of`: the kind of a list's items; form: the
 * form of a text (for an algorithm, as gemm_algo_text() and gemm_algo_raw() of
 * kernels/cuda/gemm.cuh print it). OPTIONAL members may be missing: older rows have no "raw". noun:
 * the name of an item, or of such a text, in messages. */
enum { OPTIONAL = -1 };
static const struct {
    int in;
    const char *name;
    int type, of;
    const char *form, *noun;
} member[] = {
    {IN_FILE, "diecast_lock", cJSON_Number, 0, NULL, NULL},
    {IN_FILE, "cards", cJSON_Array, IN_CARD, NULL, "card"},
    {IN_CARD, "gpu", cJSON_String, 0, NULL, NULL},
    {IN_CARD, "arch", cJSON_String, 0, NULL, NULL},
    {IN_CARD, "sms", cJSON_Number, 0, NULL, NULL},
    {IN_CARD, "toolkit", cJSON_String, 0, NULL, NULL},
    {IN_CARD, "cublaslt", cJSON_String, 0, "^[0-9.]+$", "numbers and points in \"cublaslt\""},
    {IN_CARD, "generator", cJSON_String, 0, NULL, NULL},
    {IN_CARD, "sources", cJSON_String, 0, NULL, NULL},
    {IN_CARD, "gemms", cJSON_Array, 1 << GEMM, NULL, "row"},
    {IN_CARD, "kernels", cJSON_Array, 1 << KERNEL, NULL, "kernel"},
    {IN_ROWS, "key", cJSON_String, 0, NULL, NULL},
    {1 << GEMM, "algo", cJSON_String, 0, "^algo [a-z0-9 ]{0,195}$",
     "words and numbers that begin with algo"},
    {1 << GEMM, "raw", cJSON_String, OPTIONAL, "^[0-9a-f]{128}$",
     "128 hex digits (64 bytes) in \"raw\""},
    {1 << KERNEL, "variant", cJSON_String, 0, "^[0-9]{1,9}$", "a number as \"variant\""},
    {IN_ROWS, "us", cJSON_Number, OPTIONAL, NULL, NULL},
    {IN_ROWS, "default_us", 0, 0, NULL, NULL}};
enum { MEMBERS = sizeof member / sizeof *member };

static bool has_form(const char *text, const char *form)
{
    regex_t r;
    if (regcomp(&r, form, REG_EXTENDED | REG_NOSUB))
        bug("lock.c: %s", form);
    bool has = !regexec(&r, text, 0, NULL, 0);
    regfree(&r);
    return has;
}

/* Ends the program unless o has all members of `in`, and no other. */
static void check_members(const cJSON *o, int in, const char *place)
{
    static const char *const type_name[] = {[cJSON_String] = "text", [cJSON_Number] = "number",
                                            [cJSON_Array] = "list"};
    if (!cJSON_IsObject(o))
        err((Loc){lock.path, 0}, "%s: must be an object", place);
    for (const cJSON *v = o->child; v; v = v->next) {
        int i = 0;
        while (i < MEMBERS && (!(member[i].in & in) || strcmp(member[i].name, v->string)))
            i++;
        if (i == MEMBERS)
            err((Loc){lock.path, 0}, "%s: unknown name \"%s\"", place, v->string);
    }
    for (int i = 0; i < MEMBERS; i++) {
        int type = member[i].type, n = 0;
        if (!(member[i].in & in) || !type)
            continue;
        const cJSON *v = json_get(o, member[i].name);
        if (!v && member[i].of == OPTIONAL)
            continue;
        if (!v || (v->type & 0xff) != type || (type == cJSON_String && !*v->valuestring))
            err((Loc){lock.path, 0}, "%s: needs a %s \"%s\"", place, type_name[type],
                member[i].name);
        if (member[i].form && !has_form(v->valuestring, member[i].form))
            err((Loc){lock.path, 0}, "%s: must have %s, got \"%s\"", place, member[i].noun,
                v->valuestring);
        for (const cJSON *item = v->child; item; item = item->next)
            check_members(item, member[i].of,
                          text_print("%s%s %d", in == IN_CARD ? text_print("%s, ", place) : "",
                                     member[i].noun, ++n));
    }
}

/* Returns the file after checking every member; NULL: there is none. */
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
    const cJSON *version = json_get(root, "diecast_lock");
    if (!cJSON_IsNumber(version) || version->valuedouble != LOCK_VERSION)
        err((Loc){lock.path, 0}, "\"diecast_lock\" must be %d; another version of gen wrote this",
            LOCK_VERSION);
    check_members(root, IN_FILE, "the file");
    return root;
}

/* ---- reading --------------------------------------------------------------------------------- */

static bool same(const cJSON *card, const char *name, const char *text)
{
    return !strcmp(json_get(card, name)->valuestring, text);
}

/* Returns the section of the card that the recipe names, else the first of the target's
 * architecture. */
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

static void read_rows(const cJSON *card, int kind)
{
    const cJSON *row;
    cJSON_ArrayForEach(row, json_get(card, kind_row[kind].list)) {
        if (lock.n == MAX_ROWS)
            err((Loc){lock.path, 0}, "more than %d rows for %s", MAX_ROWS, lock.gpu);
        const cJSON *raw = json_get(row, "raw"), *us = json_get(row, "us");
        lock.row[lock.n++] = (LockRow){json_get(row, "key")->valuestring,
                                       json_get(row, kind_row[kind].choice)->valuestring,
                                       raw ? raw->valuestring : NULL, kind,
                                       cJSON_IsNumber(us) ? us->valuedouble / 1e6 : 0};
    }
}

static void open_lock(const Graph *g)
{
    if (lock.path)
        return;
    lock.path = lock_path(g);
    const char *wanted = g->setting[SETTING_card].text;
    cJSON *root = read_file();
    if (!root) {
        lock.why = "does not exist";
        return;
    }
    const cJSON *card = choose_card(g, json_get(root, "cards"), wanted);
    const char *now = lock_generator(), *sources = lock_kernels();
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
    read_rows(card, GEMM);
    if (!same(card, "sources", sources))
        lock.stale = text_print("its kernels were measured from other sources (%s, now %s): run "
                                "gen tune again", json_get(card, "sources")->valuestring, sources);
    else
        read_rows(card, KERNEL);
}

void lock_renew(const Graph *g)
{
    memset(&lock, 0, sizeof lock);
    open_lock(g);
}

/* Returns the row measured for a key, with choice NULL if there is none; records the lookup. */
static LockRow row_of(const Graph *g, int kind, const char *key)
{
    open_lock(g);
    for (int i = 0; i < lock.nasked; i++)
        if (!strcmp(lock.asked[i].key, key))
            return lock.asked[i];
    LockRow found = {.key = text_copy(key), .kind = kind};
    for (int i = 0; i < lock.n; i++)
        if (lock.row[i].kind == kind && !strcmp(lock.row[i].key, key))
            found = lock.row[i];
    if (lock.nasked == MAX_ROWS)
        bug("more than %d products and kernels", MAX_ROWS);
    lock.asked[lock.nasked++] = found;
    return found;
}

LockedAlgo lock_gemm_algo(const Graph *g, const char *form, const char *in, const char *out,
                          int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb, int64_t ldc,
                          const char *epilogue, int beta, int64_t offset)
{
    char key[GEMM_KEY_BYTES];
    gemm_key(key, form, in, out, m, n, k, lda, ldb, ldc, epilogue, beta, offset);
    LockRow row = row_of(g, GEMM, key);
    return (LockedAlgo){row.choice, row.raw};
}

static double seconds_of(const Graph *g, int kind, const char *key)
{
    open_lock(g);
    for (int i = 0; i < lock.n; i++)
        if (lock.row[i].kind == kind && !strcmp(lock.row[i].key, key))
            return lock.row[i].seconds;
    return 0;
}

double lock_gemm_seconds(const Graph *g, const char *form, const char *in, const char *out,
                         int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb, int64_t ldc,
                         const char *epilogue, int beta, int64_t offset)
{
    char key[GEMM_KEY_BYTES];
    gemm_key(key, form, in, out, m, n, k, lda, ldb, ldc, epilogue, beta, offset);
    return seconds_of(g, GEMM, key);
}

double lock_kernel_seconds(const Graph *g, const char *key) { return seconds_of(g, KERNEL, key); }

const char *lock_variant(const Graph *g, const char *key) { return row_of(g, KERNEL, key).choice; }

const char *lock_cublaslt(void) { return lock.cublaslt; }

int lock_untuned(const char *const **key)
{
    const char **list = arena_new(sizeof *list * (size_t)(lock.nasked + 1));
    int n = 0;
    for (int i = 0; i < lock.nasked; i++)
        if (!lock.asked[i].choice)
            list[n++] = lock.asked[i].key;
    qsort(list, (size_t)n, sizeof *list, text_order);
    *key = list;
    return n;
}

/* Returns how many have rows: "20 of 20 products, 2 of 3 kernels". */
static char *counts(void)
{
    int asked[2] = {0}, known[2] = {0};
    for (int i = 0; i < lock.nasked; i++) {
        asked[lock.asked[i].kind]++;
        known[lock.asked[i].kind] += lock.asked[i].choice != NULL;
    }
    char *products = text_print("%d of %d products", known[GEMM], asked[GEMM]);
    return !asked[KERNEL] ? products
                          : text_print("%s, %d of %d kernels", products, known[KERNEL],
                                       asked[KERNEL]);
}

/* Prints one line: which rows apply, or why none does. */
void lock_note(void)
{
    if (lock.there && lock.why)
        printf("%s %s: products by cuBLASLt's first choice, kernels by default; gen tune measures "
               "them\n", lock.path, lock.why);
    else if (!lock.why && lock.nasked)
        printf("%s: %s as measured on %s%s%s\n", lock.path, counts(), lock.gpu,
               lock.stale ? "; " : "", lock.stale ? lock.stale : "");
}

void lock_require(const Graph *g)
{
    const char *const *key;
    int n = lock_untuned(&key);
    if (!n)
        return;
    Str s = {0};
    for (int i = 0; i < n; i++)
        str_print(&s, "\n    %s", key[i]);
    const char *why = lock.why ? lock.why : lock.stale;
    err((Loc){lock.path, 0}, "%sonly %s are tuned; on the card: gen tune %s; missing:%s",
        why ? text_print("%s; ", why) : "", counts(), g->setting[SETTING_recipe].text, s.text);
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

/* Returns a new list of the items in order; frees the old list. */
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
    check_members(card, IN_CARD, "the tuner's rows");
    lock.path = lock_path(g);
    if (strcmp(json_get(card, "arch")->valuestring, g->target->arch))
        err((Loc){from, 0}, "rows for %s, but target %s is %s", json_get(card, "arch")->valuestring,
            g->target->name, g->target->arch);
    const char *const now[][2] = {{"generator", lock_generator()}, {"sources", lock_kernels()}};
    for (int i = 0; i < 2; i++)
        if (!same(card, now[i][0], now[i][1]))
            err((Loc){from, 0},
                "rows for other kernels (%s, now %s): emit, build and run tune again",
                json_get(card, now[i][0])->valuestring, now[i][1]);
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
    for (size_t i = 0; i < sizeof kind_row / sizeof *kind_row; i++)
        cJSON_ReplaceItemInObjectCaseSensitive(
            card, kind_row[i].list, sorted(json_get(card, kind_row[i].list), by_key));
    cJSON_AddItemToArray(cards, card);
    cJSON_ReplaceItemInObjectCaseSensitive(root, "cards", sorted(cards, by_card));
    size_t n;
    FILE *to = open_memstream(&text, &n);
    if (!to || !json_write_hf(to, root) || fclose(to))
        bug("cannot print the lock file");
    file_save(lock.path, text, n);
    printf("%s: %d products and %d kernels for %s\n", lock.path,
           cJSON_GetArraySize(json_get(card, "gemms")),
           cJSON_GetArraySize(json_get(card, "kernels")), json_get(card, "gpu")->valuestring);
    memset(&lock, 0, sizeof lock);
}
