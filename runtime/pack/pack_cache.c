/* pack_cache.c -- raw data packed once: the record file stands in a folder under a name that means all
 * that decides what is in it.
 *
 * Keeps: a process that is killed while it packs leaves nothing that another would take for whole. */
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

static char *cache_path(const char *folder, const char *hex)
{
    return format("%s/%.32s/records.safetensors", folder, hex);
}

/* Reads all files for the name of the file that they make; those of standard input cannot be read
 * twice: NULL. malloc'ed. */
static char *expected_path(Work *w, const char *folder)
{
    char bytes[SHA256_HEX], files[SHA256_HEX], hex[SHA256_HEX];
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
            pack_fail(&w->pack, EXIT_DATA, (Place){w->file[i], 0}, error);
    }
    char *error = w->prepared && !w->pack.error.text ? prepared_read(w->prepared, NULL) : NULL;
    if (error)
        pack_fail(&w->pack, EXIT_DATA, (Place){0}, error);
    const bool rows = reader_hashes(bytes, files);
    rules_name(w, bytes, files, rows, hex);
    return cache_path(folder, hex);
}

/* The records, and the tokenizer that was made with them. */
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

/* The new folder `temp` gets the name of what is in it, unless another program was faster; what is
 * left there of one that is not whole goes. */
static void cache_commit(Pack *p, const PackOptions *o, const char *temp, const char *final)
{
    char *to = format("%.*s", (int)(strrchr(final, '/') - final), final), *error = NULL;
    if (!p->error.text && rename(temp, to) && !cache_whole(o, final)) {
        error = folder_exists(to) ? folder_remove(to) : NULL;
        if (!error && rename(temp, to))
            error = format("%s: rename: %s", to, strerror(errno));
    }
    if (error)
        pack_fail(p, EXIT_IO, (Place){0}, error);
    free(folder_exists(temp) ? folder_remove(temp) : NULL);
    free(to);
}

/* A folder to pack in, of this process alone. malloc'ed. */
static char *cache_temp(const char *folder)
{
    char host[64] = "";
    gethostname(host, sizeof host - 1);
    return format("%s/packing-%s-%ld", folder, host, (long)getpid());
}

/* The folder under a lock (flock) that says it is in use, also to containers with PIDs of their own: a descriptor; -1:
 * another process has it. */
static int cache_hold(const char *temp, int how)
{
    const int fd = open(temp, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd >= 0 && TEMP_FAILURE_RETRY(flock(fd, how | LOCK_NB)) && errno == EWOULDBLOCK) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Folders of processes of this host that were killed while they packed. */
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

/* The tokenizer of arrays of ids, into the folder of their records. */
static void copy_beside(Pack *p, const char *from, const char *folder)
{
    static const char *const name[] = {"tokenizer.json", "tokenizer_config.json"};
    for (int i = 0; i < 2; i++) {
        char *path = folder_join(from, name[i]);
        char *error = file_named(path) ? folder_copy(from, folder, name[i], NULL) : NULL;
        if (error)
            pack_fail(p, EXIT_IO, (Place){0}, error);
        free(path);
    }
}

PackError pack_cached(const PackOptions *o, const char *folder, FILE *summary, char **path,
                      bool *found)
{
    char hex[SHA256_HEX];
    Work w = work_begin(o);
    Pack *p = &w.pack;
    char *temp = cache_temp(folder);
    char *out = format("%s/records.safetensors", temp);
    cache_sweep(folder);
    *path = p->error.text ? NULL : expected_path(&w, folder);
    *found = !p->error.text && *path && cache_whole(o, *path);
    if (!*found && !p->error.text) {
        /* what a process that had our number was killed at */
        char *error = folder_exists(temp) ? folder_remove(temp) : NULL;
        error = error ? error : folder_make_parents(out);
        if (error)
            pack_fail(p, EXIT_IO, (Place){0}, error);
        const int held = cache_hold(temp, LOCK_SH);
        p->out = out;
        work_do(&w, hex);
        if (w.prepared && !p->error.text)
            copy_beside(p, o->file[0], temp);
        char *final = p->error.text ? NULL : cache_path(folder, hex);
        if (final && *path && strcmp(final, *path))
            pack_fail(p, EXIT_DATA, (Place){w.file[0], 0}, format("changed while it was read"));
        cache_commit(p, o, temp, final ? final : out);
        if (held >= 0)
            close(held);
        free(*path);
        p->out = *path = final;
        if (!p->error.text)
            report_all(&w, summary);
    }
    free(temp), free(out);
    return work_end(&w);
}
