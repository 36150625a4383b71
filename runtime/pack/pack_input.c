/* pack_input.c -- the files and folders that are packed, in order, chunk by chunk. */
#define _GNU_SOURCE
#include "runtime/pack/pack_work.h"

#include "runtime/base.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

/* imdb_train.json goes before imdb_test.json. */
static int train_first(const struct dirent **a, const struct dirent **b)
{
    int order = !!strstr((*b)->d_name, "train") - !!strstr((*a)->d_name, "train");
    return order ? order : by_name(a, b);
}

void input_list(Work *w)
{
    for (int i = 0; i < w->o->nfiles && !w->pack.error.text; i++) {
        char *path = w->o->file[i];
        struct dirent **entry = NULL;
        struct stat st;
        int n = strcmp(path, "-") && !stat(path, &st) && S_ISDIR(st.st_mode)
                    ? scandir(path, &entry, NULL, w->rules.format == &pack_format[FORM_IMDB]
                                                  ? train_first : by_name) : 0, found = 0, others = 0;
        w->file = realloc(w->file, (size_t)(w->nfiles + (n > 0 ? n : 1)) * sizeof *w->file);
        if (n < 0)
            pack_fail(&w->pack, EXIT_DATA, (Place){path, 0}, format("cannot be read: %s", strerror(errno)));
        if (!entry)              /* no folder */
            w->file[w->nfiles++] = format("%s", path);
        for (int k = 0; k < n; k++) {
            char *file = format("%s/%s", path, entry[k]->d_name);
            bool data = *entry[k]->d_name != '.' && reader_takes(file);
            others += *entry[k]->d_name != '.' && !data;
            found += data;
            if (data)
                w->file[w->nfiles++] = file;
            else
                free(file);
            free(entry[k]);
        }
        free(entry);
        if (n > 0 && !found)
            pack_fail(&w->pack, EXIT_DATA, (Place){path, 0},
                      format("a folder without files that end in .jsonl, .ndjson, .json or .txt"));
        else if (others)
            fprintf(stderr, "%s: note: %s: %d %s not read: want .jsonl, .ndjson, .json or .txt\n",
                    w->o->who, path, others, others == 1 ? "file is" : "files are");
    }
}

int64_t input_check(Work *w)
{
    Pack *p = &w->pack;
    int64_t total = 0;
    int inputs = 0;
    bool rows = false;           /* a file has rows, or may have */
    for (int i = 0; i < w->nfiles && !p->error.text; i++) {
        const char *path = w->file[i];
        if (!strcmp(path, "-")) {
            if (inputs++)
                pack_fail(p, EXIT_DATA, (Place){0}, format("- stands for standard input, which can be read "
                                                "once"));
            total = -1;
            rows = true;
            continue;
        }
        Reader *r;
        char *error = reader_open(&r, path, w->tok, &w->rules);
        if (error) {
            pack_fail(p, EXIT_DATA, (Place){path, 0}, error);
            break;
        }
        if (reader_reads(r) == READS_TEXT && p->kind == KIND_ROWS && !rules_windows(w))
            pack_fail(p, EXIT_DATA, (Place){path, 0}, format("a text file has no rows: drop --kind rows, or "
                                                  "give rows of JSON (.jsonl)"));
        if (reader_looks_like_rows(r))
            fprintf(stderr, "%s: note: %s is read as one text, though it begins with an "
                            "object of JSON: rows want a name that ends in .jsonl\n", w->o->who,
                    path);
        rows = rows || reader_reads(r) != READS_TEXT;
        total = total < 0 ? -1 : total + reader_size(r);
        reader_close(r);
    }
    if (!p->error.text && w->o->keys_there && w->rules.skip_bad && !rows)
        pack_fail(p, EXIT_CONFIG, (Place){0}, format("--skip-bad: these files are texts, which have no rows"));
    return total;
}

Chunk *input_next(const Work *w, Reader **r, int *next, int64_t *before)
{
    while (*r || *next < w->nfiles) {
        const char *path = w->file[*next - !!*r];
        if (!*r) {
            char *error = reader_open(r, path, w->tok, &w->rules);
            ++*next;
            if (error) {         /* behind the mistakes in what was read before */
                Chunk *chunk = calloc(1, sizeof *chunk);
                chunk->error = error;
                chunk->error_at = (Place){reader_name(path), 0};
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
            pack_fail(&w->pack, EXIT_DATA, (Place){path, 0}, error);
        if (r)
            reader_close(r);
        r = NULL;
    }
}
