/* pack_cache.c -- cache of packed raw data: a record file, named by a hash of everything that
 * determines its content.
 *
 * Keeps: a process that is killed while it packs leaves nothing that looks complete. */
#define _GNU_SOURCE
#include "runtime/pack/pack_work.h"

#include "runtime/base.h"
#include "runtime/files/folder.h"
#include "runtime/files/json.h"
#include "runtime/files/safetensors.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

bool pack_is_raw(const char *path)
{
    struct stat st;
    unsigned char head[9];
    uint64_t n = 0;
    if (!strcmp(path, "-"))
        return true;
    if (stat(path, &st))
        return false;
    FILE *f = S_ISREG(st.st_mode) ? fopen(path, "r") : NULL;
    size_t got = f ? fread(head, 1, sizeof head, f) : 0;
    size_t len = strlen(path);
    if (f)
        fclose(f);
    for (int i = 0; i < 8 && got == sizeof head; i++)
        n |= (uint64_t)head[i] << (8 * i);
    bool named = len > 12 && !strcmp(path + len - 12, ".safetensors");
    bool tensors = got == sizeof head && n && n <= ST_HEADER_MAX && head[8] == '{';
    /* an unreadable file is judged by its name; its reader reports the error */
    return S_ISDIR(st.st_mode) || (S_ISREG(st.st_mode) && !named && !tensors);
}

static char *cache_path(const char *folder, const char *name)
{
    return format("%s/%s/records.safetensors", folder, name);
}

/* Returns the folder in which another release, with other rules for rows, has packed the data of
 * `path`, malloc'ed; NULL: none has. */
static char *cache_other(const char *folder, const char *path)
{
    struct dirent **entry = NULL;
    char *found = NULL;
    const char *name = path + strlen(folder) + 1;
    const size_t length = strcspn(name, "/");
    int n = scandir(folder, &entry, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        const char *its = entry[i]->d_name;
        if (!found && !strncmp(its, name, PACK_NAME) &&
            (strlen(its) != length || strncmp(its, name, length)))
            found = folder_join(folder, its);
        free(entry[i]);
    }
    free(entry);
    return found;
}

/* Reads all files to compute the path of their records, malloc'ed; NULL for standard input, which
 * cannot be read twice. */
static char *expected_path(Work *w, const char *folder)
{
    char bytes[SHA256_HEX], files[SHA256_HEX], name[SHA256_HEX];
    for (int i = 0; i < w->nfiles; i++)
        if (!strcmp(w->file[i], "-"))
            return NULL;
    for (int i = 0; i < w->nfiles && !w->pack.error.text; i++) {
        Reader *r;
        char *error = reader_open(&r, w->file[i], w->tok, &w->rules);
        if (!error) {
            error = reader_skip(r);
            reader_close(r);
        }
        if (error)
            pack_fail(&w->pack, EXIT_DATA, (Location){w->file[i], 0}, error);
    }
    char *error = w->prepared && !w->pack.error.text ? w->prepared->read(w->prepared, NULL) : NULL;
    if (error)
        pack_fail(&w->pack, EXIT_DATA, (Location){0}, error);
    const bool rows = reader_hashes(bytes, files);
    rules_name(w, bytes, files, rows, name);
    return cache_path(folder, name);
}

/* True if the records exist, and the tokenizer made with them. */
static bool cache_whole(const PackOptions *o, const char *path)
{
    bool whole = file_named(path);
    for (int i = 0; i < VOCABULARY_FILES && vocabulary_made(o->tokenizer); i++) {
        char *file = format("%.*s%s", (int)(strrchr(path, '/') + 1 - path), path,
                            vocabulary_files(o->tokenizer)[i]);
        whole = whole && file_named(file);
        free(file);
    }
    return whole;
}

/* True if the records were packed while the files next to tokenizer.json named other special
 * tokens, which the folder's name does not depend on. */
static bool cache_of_others(const Work *w, const char *path)
{
    StFile f;
    bool others = false;
    char *error = w->tok ? st_open(&f, path) : NULL;     /* a damaged file is its reader's error */
    if (w->tok && !error) {
        const TokenIds ids = token_ids(w->tok);
        others = !token_ids_same(&ids, &f);
        st_close(&f);
    }
    free(error);
    return others;
}

/* Renames the new folder `temp` to its final name, unless another program did so first; replaces an
 * incomplete folder there. */
static void cache_commit(Pack *p, const PackOptions *o, const char *temp, const char *final)
{
    char *to = format("%.*s", (int)(strrchr(final, '/') - final), final), *error = NULL;
    if (!p->error.text && rename(temp, to) && !cache_whole(o, final)) {
        error = folder_exists(to) ? folder_remove(to) : NULL;
        if (!error && rename(temp, to))
            error = format("%s: rename: %s", to, strerror(errno));
    }
    if (error)
        pack_fail(p, EXIT_IO, (Location){0}, error);
    free(folder_exists(temp) ? folder_remove(temp) : NULL);
    free(to);
}

/* Returns the path of this process's temporary folder, malloc'ed. */
static char *cache_temp(const char *folder)
{
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    return format("%s/packing-%s-%ld", folder, host, (long)getpid());
}

/* Locks the folder by flock(), which works across PID namespaces; returns a descriptor; -1: another
 * process holds it. */
static int cache_hold(const char *temp, int how)
{
    const int fd = open(temp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && TEMP_FAILURE_RETRY(flock(fd, how | LOCK_NB)) && errno == EWOULDBLOCK) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Removes the folders of killed processes of this host. */
static void cache_sweep(const char *folder)
{
    struct dirent **entry = NULL;
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    char *ours = format("packing-%s-", host);
    int n = scandir(folder, &entry, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        const char *name = entry[i]->d_name;
        char *end, *path = folder_join(folder, name);
        long pid = strncmp(name, ours, strlen(ours)) ? 0 : strtol(name + strlen(ours), &end, 10);
        const bool gone = pid > 0 && !*end && kill((pid_t)pid, 0) && errno == ESRCH;
        const int fd = gone ? cache_hold(path, LOCK_EX) : -1;
        if (fd >= 0) {
            free(folder_remove(path));
            close(fd);
        }
        free(path), free(entry[i]);
    }
    free(entry), free(ours);
}

/* Copies the tokenizer of arrays of ids to the folder of their records. */
static void copy_tokenizer(Pack *p, const char *from, const char *folder)
{
    static const char *const name[] = {"tokenizer.json", "tokenizer_config.json"};
    for (int i = 0; i < 2; i++) {
        char *path = folder_join(from, name[i]);
        char *error = file_named(path) ? folder_copy(from, folder, name[i], NULL) : NULL;
        if (error)
            pack_fail(p, EXIT_IO, (Location){0}, error);
        free(path);
    }
}

PackError pack_cached(const PackOptions *o, const char *folder, FILE *summary, char **path,
                      bool *found)
{
    char name[SHA256_HEX];
    Work w = work_begin(o);
    Pack *p = &w.pack;
    char *temp = cache_temp(folder);
    char *out = format("%s/records.safetensors", temp);
    cache_sweep(folder);
    *path = p->error.text ? NULL : expected_path(&w, folder);
    *found = !p->error.text && *path && cache_whole(o, *path);
    const bool others = *found && cache_of_others(&w, *path);
    if (others) {
        char *stale = format("%.*s", (int)(strrchr(*path, '/') - *path), *path),
             *error = folder_remove(stale);
        if (error)
            pack_fail(p, EXIT_IO, (Location){0}, error);
        free(stale);
        *found = false;
    }
    if (!*found && !p->error.text) {
        /* left by a killed process that had the same PID */
        char *error = folder_exists(temp) ? folder_remove(temp) : NULL;
        error = error ? error : folder_make_parents(out);
        if (error)
            pack_fail(p, EXIT_IO, (Location){0}, error);
        const int held = cache_hold(temp, LOCK_SH);
        p->out = out;
        work_do(&w, name);
        if (w.prepared && !p->error.text)
            copy_tokenizer(p, o->file[0], temp);
        char *final = p->error.text ? NULL : cache_path(folder, name);
        if (final && *path && strcmp(final, *path))
            pack_fail(p, EXIT_DATA, (Location){w.file[0], 0}, format("changed while being read"));
        cache_commit(p, o, temp, final ? final : out);
        if (held >= 0)
            close(held);
        free(*path);
        p->out = *path = final;
        char *other = p->error.text ? NULL : cache_other(folder, final);
        if (other)
            fprintf(summary, "%s: packed by another release, where the answers of some rows begin "
                    "at another token; packed again\n", other);
        free(other);
        if (others && !p->error.text)
            fprintf(summary, "%s: was packed before the tokenizer's special tokens changed; packed "
                    "again\n", final);
        if (!p->error.text)
            report_all(&w, summary);
    }
    free(temp), free(out);
    return work_end(&w);
}
