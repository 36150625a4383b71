/* pack_input.c -- reads the input files and folders in order, chunk by chunk. */
#define _GNU_SOURCE
#include "runtime/pack/pack_work.h"

#include "runtime/base.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { DEPTH_MOST = 16 };        /* nested folders; deeper ones are probably a link to a parent */

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* Sorts imdb_train.json before imdb_test.json. */
static int train_first(const struct dirent **a, const struct dirent **b)
{
    int order = !!strstr((*b)->d_name, "train") - !!strstr((*a)->d_name, "train");
    return order ? order : by_name(a, b);
}

static bool is_folder(const char *path)
{
    struct stat st;
    return !stat(path, &st) && S_ISDIR(st.st_mode);
}

static bool has_entry(const char *folder, const char *name, bool (*is)(const char *path))
{
    char *path = format("%s/%s", folder, name);
    const bool has = is(path);
    free(path);
    return has;
}

/* True for train or test of the aclImdb folder: reviews are in pos and neg; the .txt files next to
 * these are lists of URLs. */
static bool is_reviews(const char *folder)
{
    return has_entry(folder, "pos", is_folder) && has_entry(folder, "neg", is_folder);
}

/* True for the aclImdb folder itself, with train and test. */
static bool has_reviews(const char *folder)
{
    return has_entry(folder, "train", is_reviews) || has_entry(folder, "test", is_reviews);
}

/* True for a folder written by Dataset.save_to_disk(). */
static bool is_saved(const char *folder)
{
    return has_entry(folder, "state.json", file_named) &&
           has_entry(folder, "dataset_info.json", file_named);
}

/* The search for data files in a folder and its subfolders. */
typedef struct {
    Work *w;
    int found, others, folders;  /* files read, files not read, folders with files read */
    bool reviews;                /* an aclImdb folder was found */
    char *converts;              /* the first file that refused.def converts, malloc'ed, or NULL */
} Walk;

static void walk_fail(Walk *k, const char *folder, char *text)
{
    pack_fail(&k->w->pack, EXIT_DATA, (Location){folder, 0}, text);
}

static void file_add(Work *w, const char *path)
{
    w->file = realloc(w->file, (size_t)(w->nfiles + 1) * sizeof *w->file);
    if (!w->file)
        abort();
    w->file[w->nfiles++] = format("%s", path);
}

/* True for rows or text by name, except the description of a dataset. */
static bool is_data(const char *path, const char *name)
{
    return reader_takes(path) && strcmp(name, "dataset_info.json") &&
           strcmp(name, "dataset_infos.json");
}

static void walk(Walk *k, const char *folder, int depth);

/* only: names in this folder to read, each between spaces; NULL: all. */
static void walk_entry(Walk *k, const char *path, const char *name, const char *only, int depth)
{
    char *spaced = format(" %s ", name);
    const bool is_skipped = only && !strstr(only, spaced);
    free(spaced);
    if (!is_skipped && is_folder(path)) {
        walk(k, path, depth + 1);
    } else if (!is_skipped && is_data(path, name)) {
        file_add(k->w, path);
        k->found++;
    } else {
        k->others++;
        if (!k->converts && reader_converts(path))
            k->converts = format("%s", path);
    }
}

static void walk(Walk *k, const char *folder, int depth)
{
    Work *w = k->w;
    const bool reviews = is_reviews(folder), above = has_reviews(folder), saved = is_saved(folder);
    const char *only = reviews ? " pos neg unsup " : above ? " train test " : NULL;
    struct dirent **entry = NULL;
    const bool imdb = above || w->rules.format == &pack_format[FORM_IMDB];
    const int n = scandir(folder, &entry, NULL, imdb ? train_first : by_name);
    const int found = k->found;
    k->reviews = k->reviews || only;
    if (n < 0)
        walk_fail(k, folder, format("cannot be read: %s", strerror(errno)));
    else if (saved || has_entry(folder, "dataset_dict.json", file_named))
        walk_fail(k, folder, reader_converts_saved(folder, !saved));
    else if (depth == DEPTH_MOST)
        walk_fail(k, folder, format("more than %d nested folders: is one a link to a parent?",
                                    DEPTH_MOST));
    for (int i = 0; i < n; i++) {
        char *path = format("%s/%s", folder, entry[i]->d_name);
        if (*entry[i]->d_name != '.' && !w->pack.error.text)
            walk_entry(k, path, entry[i]->d_name, only, depth);
        free(path), free(entry[i]);
    }
    free(entry);
    k->folders += k->found > found;
}

/* Reports the files that are not read; fails if none is read. */
static void walk_end(Walk *k, const char *folder)
{
    const char *who = k->w->o->who;
    char *line = k->found || !k->converts ? NULL : reader_converts_folder(folder, k->converts);
    if (line)
        walk_fail(k, folder, line);
    else if (!k->found && k->converts)
        file_add(k->w, k->converts);     /* opening it fails with the command that converts it */
    else if (!k->found)
        walk_fail(k, folder,
                  format("a folder without files that end in .jsonl, .ndjson, .json or .txt"));
    else if (k->folders > 1)
        fprintf(stderr, "%s: note: %s: %d file%s, subfolders included\n", who, folder, k->found,
                k->found == 1 ? "" : "s");
    if (k->found && k->others)
        fprintf(stderr, "%s: note: %s: %d %s not read: only .jsonl, .ndjson, .json and .txt "
                        "are%s\n",
                who, folder, k->others, k->others == 1 ? "file is" : "files are",
                k->reviews ? "; of aclImdb only pos, neg and unsup are read" : "");
}

void input_list(Work *w)
{
    for (int i = 0; i < w->o->nfiles && !w->pack.error.text; i++) {
        const char *path = w->o->file[i];
        if (strcmp(path, "-") && is_folder(path)) {
            Walk k = {.w = w};
            walk(&k, path, 0);
            if (!w->pack.error.text)
                walk_end(&k, path);
            free(k.converts);
            continue;
        }
        file_add(w, path);
    }
}

int64_t input_check(Work *w)
{
    Pack *p = &w->pack;
    int64_t total = 0;
    int inputs = 0;
    bool rows = false;           /* a file may have rows */
    for (int i = 0; i < w->nfiles && !p->error.text; i++) {
        const char *path = w->file[i];
        if (!strcmp(path, "-")) {
            if (inputs++)
                pack_fail(p, EXIT_DATA, (Location){0},
                          format("- means standard input, which can be read only once"));
            total = -1;
            rows = true;
            continue;
        }
        Reader *r;
        char *error = reader_open(&r, path, w->tok, &w->rules);
        if (error) {
            pack_fail(p, EXIT_DATA, (Location){path, 0}, error);
            break;
        }
        if (reader_reads(r) == READS_TEXT && p->kind == KIND_ROWS && !rules_windows(w)) {
            p->makes = KIND_PACKED;
            pack_fail(p, EXIT_DATA, (Location){path, 0},
                      format("a text file has no rows: give JSON rows (.jsonl)"));
        }
        if (reader_looks_like_rows(r))
            fprintf(stderr, "%s: note: %s is read as one text, though it begins with a JSON "
                            "object: for rows its name must end in .jsonl\n", w->o->who, path);
        rows = rows || reader_reads(r) != READS_TEXT;
        total = total < 0 ? -1 : total + reader_size(r);
        reader_close(r);
    }
    if (!p->error.text && w->o->keys_there && w->rules.skip_bad && !rows)
        pack_fail(p, EXIT_CONFIG, (Location){0},
                  format("--skip-bad: these files are texts, which have no rows"));
    return total;
}

Chunk *input_next(const Work *w, Reader **r, int *next, int64_t *before)
{
    while (*r || *next < w->nfiles) {
        const char *path = w->file[*next - !!*r];
        if (!*r) {
            char *error = reader_open(r, path, w->tok, &w->rules);
            ++*next;
            if (error) {         /* reported after the errors in earlier chunks */
                Chunk *chunk = calloc(1, sizeof *chunk);
                chunk->error = error;
                chunk->error_at = (Location){reader_name(path), 0};
                return chunk;
            }
        }
        Chunk *chunk = reader_chunk(*r);
        if (chunk) {
            chunk->file = *next;
            return chunk;
        }
        *before += reader_bytes(*r);
        reader_close(*r);
        *r = NULL;
    }
    return NULL;
}

void input_skip(Work *w, Reader *r, int next)
{
    while (!w->pack.error.text && (r || next < w->nfiles)) {
        const char *path = w->file[next - !!r];
        char *error = r ? NULL : reader_open(&r, w->file[next++], w->tok, &w->rules);
        error = error ? error : reader_skip(r);
        if (error)
            pack_fail(&w->pack, EXIT_DATA, (Location){path, 0}, error);
        if (r)
            reader_close(r);
        r = NULL;
    }
}
