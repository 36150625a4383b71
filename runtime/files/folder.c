/* folder.c -- atomic creation and replacement of folders and files.
 *
 * Keeps: a file that failed to sync is removed, never synced again. */
#define _GNU_SOURCE
#include "runtime/files/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "runtime/base.h"
#include "runtime/files/crc32c.h"
#include "runtime/files/json.h"
#include "runtime/files/utf8.h"

enum { BLOCK = 1 << 20 };

cJSON *manifest_new(void)
{
    cJSON *manifest = cJSON_CreateObject();
    cJSON_AddArrayToObject(manifest, "files");
    cJSON_AddArrayToObject(manifest, "tensors");
    return manifest;
}

static cJSON *add_row(cJSON *manifest, const char *list, const char *name, uint32_t crc)
{
    cJSON *row = cJSON_CreateObject();
    char text[9];
    snprintf(text, sizeof text, "%08x", crc);
    cJSON_AddStringToObject(row, "name", name);
    cJSON_AddStringToObject(row, "crc32c", text);
    cJSON_AddItemToArray(json_get(manifest, list), row);
    return row;
}

void manifest_file(cJSON *manifest, const char *name, uint64_t bytes, uint32_t crc)
{
    if (manifest)
        cJSON_AddNumberToObject(add_row(manifest, "files", name, crc), "bytes", (double)bytes);
}

void manifest_tensor(cJSON *manifest, const char *file, const char *name, uint32_t crc)
{
    if (manifest)
        cJSON_AddStringToObject(add_row(manifest, "tensors", name, crc), "file", file);
}

char *folder_join(const char *folder, const char *name)
{
    return format("%s/%s", folder, name);
}

bool folder_exists(const char *path)
{
    struct stat s;
    return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

static char *failed(const char *path, const char *what)
{
    return format("%s: %s: %s", path, what, strerror(errno));
}

char *folder_make(const char *path)
{
    return mkdir(path, 0777) ? failed(path, "mkdir") : NULL;
}

char *folder_make_parents(const char *path)
{
    char *parent = strdup(path), *error = NULL;
    if (!parent)
        die(EXIT_IO, "out of memory for a path");
    for (char *p = parent + 1; *p && !error; p++)
        if (*p == '/') {
            *p = 0;
            const int why = mkdir(parent, 0777) ? errno : 0;
            if (why && !folder_exists(parent)) {
                error = format("%s: mkdir %s: %s", path, parent, strerror(why));
                errno = why;
            }
            *p = '/';
        }
    free(parent);
    return error;
}

char *folder_make_below(const char *root, const char *path)
{
    char *within = folder_join(root, ""), *error = folder_make_parents(within);
    REQUIRE(!strncmp(path, within, strlen(within)));
    for (const char *slash = strchr(path + strlen(within), '/'); slash && !error;
         slash = strchr(slash + 1, '/')) {
        char *part = format("%.*s", (int)(slash - path), path);
        struct stat s;
        if (mkdir(part, 0777) && errno != EEXIST)
            error = failed(part, "mkdir");
        else if (lstat(part, &s))
            error = failed(part, "lstat");
        else if (!S_ISDIR(s.st_mode)) {
            errno = S_ISLNK(s.st_mode) ? ELOOP : ENOTDIR;
            error = format("%s: %s", part, errno == ELOOP
                           ? "a symbolic link; replace it by a folder" : "not a folder");
        }
        free(part);
    }
    free(within);
    return error;
}

char *folder_blocked(const char *path)
{
    struct stat is;
    if (stat(path, &is) || S_ISDIR(is.st_mode))
        return NULL;
    return format("%s is not a folder: name another path, or remove it", path);
}

char *folder_sync(const char *path)
{
    int fd = TEMP_FAILURE_RETRY(open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (fd < 0)
        return failed(path, "open");
    /* Some network file systems cannot sync folders and return EINVAL. */
    char *error = fsync(fd) && errno != EINVAL ? failed(path, "fsync") : NULL;
    close(fd);
    return error;
}

static char *sync_parent(const char *path)
{
    const char *slash = strrchr(path, '/');
    const int n = !slash ? 0 : slash > path ? (int)(slash - path) : 1;
    char *parent = slash ? format("%.*s", n, path) : format(".");
    char *error = folder_sync(parent);
    free(parent);
    return error;
}

char *folder_remove(const char *path)
{
    int fd = TEMP_FAILURE_RETRY(open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    char *error = dir ? NULL : failed(path, "open");
    if (!dir && fd >= 0)
        close(fd);
    if (!dir)
        return error;
    for (struct dirent *d; (d = readdir(dir));)
        if (strcmp(d->d_name, ".") && strcmp(d->d_name, "..") &&
            unlinkat(fd, d->d_name, 0) && !error)
            error = format("%s/%s: unlink: %s", path, d->d_name, strerror(errno));
    closedir(dir);
    if (!error && rmdir(path))
        error = failed(path, "rmdir");
    return error;
}

char *folder_commit(const char *temp, const char *final)
{
    char *error = folder_sync(temp);
    if (error)
        return error;
    if (!folder_exists(final)) {
        if (rename(temp, final))
            return failed(final, "rename");
        return sync_parent(final);
    }
    char *del = format("%s.del", final);
    if (folder_exists(del))
        free(folder_remove(del));
    if (renameat2(AT_FDCWD, temp, AT_FDCWD, final, RENAME_EXCHANGE) == 0) {
        error = sync_parent(final);
        if (!error && rename(temp, del))
            error = failed(del, "rename");
    } else if (rename(final, del) || rename(temp, final)) {
        error = failed(final, "rename");
    } else {
        error = sync_parent(final);
    }
    if (!error)
        free(folder_remove(del));           /* leftovers are removed at the next start */
    free(del);
    return error;
}

int64_t folder_free_bytes(const char *path)
{
    struct statvfs s;
    if (statvfs(path, &s))
        return -1;
    return (int64_t)s.f_bavail * (int64_t)s.f_frsize;
}

/* Syncs and closes fd; removes the file on a failure. */
static char *finish(int fd, const char *path, char *error)
{
    if (!error && fsync(fd))
        error = failed(path, "fsync");
    if (close(fd) && !error)
        error = failed(path, "close");
    if (error)
        unlink(path);
    return error;
}

static char *put(int fd, const char *path, const void *from, size_t n)
{
    return file_write(fd, from, n) ? NULL : failed(path, "write");
}

static char *write_bytes(const char *folder, const char *name, const void *from, size_t n,
                         cJSON *manifest)
{
    char *path = folder_join(folder, name), *error = NULL;
    int fd = file_create(path, &error);
    if (fd >= 0) {
        error = finish(fd, path, put(fd, path, from, n));
        if (!error)
            manifest_file(manifest, name, n, crc32c(0, from, n));
    }
    free(path);
    return error;
}

char *folder_write_text(const char *folder, const char *name, const char *text, cJSON *manifest)
{
    return write_bytes(folder, name, text, strlen(text), manifest);
}

char *folder_json_text(const cJSON *json)
{
    char *text = NULL;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    if (!f || !json_write_hf(f, json) || fclose(f))
        die(EXIT_INTERNAL, "cannot print a JSON value");
    return text;
}

char *folder_write_json(const char *folder, const char *name, const cJSON *json, cJSON *manifest)
{
    char *text = folder_json_text(json);
    char *error = folder_write_text(folder, name, text, manifest);
    free(text);
    return error;
}

/* Renames the complete file `temp` to `name`; removes it on an error. */
char *folder_commit_file(const char *folder, const char *temp, const char *name)
{
    char *path = folder_join(folder, name), *error = NULL;
    if (rename(temp, path)) {
        error = failed(path, "rename");
        unlink(temp);
    }
    free(path);
    return error ? error : folder_sync(folder);
}

char *folder_replace_bytes(const char *folder, const char *name, const void *from, size_t n)
{
    char *temp_name = format("%s.tmp", name), *temp = folder_join(folder, temp_name);
    char *error = write_bytes(folder, temp_name, from, n, NULL);
    if (!error)
        error = folder_commit_file(folder, temp, name);
    free(temp_name), free(temp);
    return error;
}

char *folder_replace_text(const char *folder, const char *name, const char *text)
{
    return folder_replace_bytes(folder, name, text, strlen(text));
}

char *folder_replace_below(const char *root, const char *below, const char *name, const char *text)
{
    char *in = folder_join(root, below), *path = folder_join(in, name),
         *error = folder_make_below(root, path);
    if (!error)
        error = folder_replace_text(in, name, text);
    free(in), free(path);
    return error;
}

static cJSON *read_json(const char *folder, const char *name, size_t max, char **error,
                        char *(*read)(const char *, size_t, size_t *, char **))
{
    char *path = folder_join(folder, name), *inner = NULL;
    size_t n;
    char *text = read(path, max, &n, error);
    cJSON *json = text ? json_parse(text, n, &inner) : NULL;
    if (inner)
        *error = format("%s: %s", path, inner);
    free(inner);
    free(text);
    free(path);
    return json;
}

cJSON *folder_read_json(const char *folder, const char *name, size_t max, char **error)
{
    return read_json(folder, name, max, error, file_read);
}

cJSON *folder_read_nofollow(const char *folder, const char *name, size_t max, char **error)
{
    return read_json(folder, name, max, error, file_read_nofollow);
}

static char *copy_block(int in, const char *from, int out, const char *to, char *block, size_t *n)
{
    ssize_t k;
    while ((k = read(in, block, BLOCK)) < 0 && errno == EINTR)
        continue;
    *n = k > 0 ? (size_t)k : 0;
    return k < 0 ? failed(from, "read") : put(out, to, block, *n);
}

/* Moves past a byte order mark, which Python's json refuses and a template would print. */
static void skip_mark(int in, const char *name)
{
    char head[3];
    if ((!fnmatch("*.json", name, 0) || !fnmatch("*.jinja", name, 0)) &&
        pread(in, head, sizeof head, 0) == sizeof head)
        lseek(in, (off_t)utf8_mark(head, sizeof head), SEEK_SET);
}

/* Copies the file `from` under another name; readable: without a byte order mark that transformers
 * does not skip, else as it is. */
static char *copy_as(const char *from, const char *folder, const char *name, bool readable,
                     cJSON *manifest)
{
    char *to = folder_join(folder, name), *error = NULL;
    int in = TEMP_FAILURE_RETRY(open(from, O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    int out = in < 0 ? -1 : file_create(to, &error);
    if (in < 0)
        error = failed(from, "open");
    if (out >= 0 && readable)
        skip_mark(in, name);
    if (out >= 0) {
        char *block = malloc(BLOCK);
        if (!block)
            die(EXIT_IO, "out of memory for a block of %d bytes", (int)BLOCK);
        uint64_t bytes = 0;
        uint32_t crc = 0;
        size_t n;
        do {
            error = copy_block(in, from, out, to, block, &n);
            crc = crc32c(crc, block, n);
            bytes += n;
        } while (!error && n > 0);
        free(block);
        error = finish(out, to, error);
        if (!error)
            manifest_file(manifest, name, bytes, crc);
    }
    if (in >= 0)
        close(in);
    free(to);
    return error;
}

char *folder_copy(const char *source, const char *folder, const char *name, cJSON *manifest)
{
    char *from = folder_join(source, name),
         *error = copy_as(from, folder, name, false, manifest);
    free(from);
    return error;
}

char *folder_copy_tokenizer(const char *file, const char *folder, cJSON *manifest)
{
    static const char *const companion[] = {"tokenizer_hf.json", "tokenizer_config.json",
        "special_tokens_map.json", "added_tokens.json", "chat_template.jinja"};
    const char *slash = strrchr(file, '/');
    char *source = slash ? format("%.*s", (int)(slash + 1 - file), file) : format("./"),
         *own = folder_join(folder, "tokenizer.json"),
         *error = file_named(own) ? NULL : copy_as(file, folder, "tokenizer.json", true, manifest);
    for (size_t i = 0; i < sizeof companion / sizeof *companion && !error; i++) {
        char *from = folder_join(source, companion[i]), *to = folder_join(folder, companion[i]);
        if (file_named(from) && !file_named(to))
            error = copy_as(from, folder, companion[i], true, manifest);
        free(from), free(to);
    }
    free(source), free(own);
    return error;
}

bool folder_is_extra(const char *name)
{
    static const char *const pattern[] = {
        "tokenizer.json", "tokenizer_hf.json", "tokenizer_config.json", "special_tokens_map.json",
        "chat_template.jinja", "added_tokens.json", "generation_config.json", "vocab.*",
        "merges.txt", "*.py",
    };
    for (size_t i = 0; i < sizeof pattern / sizeof *pattern; i++)
        if (!fnmatch(pattern[i], name, FNM_PERIOD))
            return true;
    return false;
}

static int is_extra(const struct dirent *d)
{
    return folder_is_extra(d->d_name);
}

/* Calls each() with the regular files that are extras, in order, up to the first error. */
static char *each_extra(const char *source, char *(*each)(const char *name, void *arg), void *arg)
{
    struct dirent **list;
    int n = scandir(source, &list, is_extra, alphasort);
    if (n < 0)
        return failed(source, "open");
    char *error = NULL;
    for (int i = 0; i < n; i++) {
        char *path = folder_join(source, list[i]->d_name);
        struct stat s;
        if (!error && stat(path, &s) == 0 && S_ISREG(s.st_mode))
            error = each(list[i]->d_name, arg);
        free(path);
        free(list[i]);
    }
    free(list);
    return error;
}

typedef struct {
    const char *source, *folder;
    cJSON *manifest;
} Copies;

static char *copy_one(const char *name, void *arg)
{
    const Copies *to = arg;
    char *from = folder_join(to->source, name),
         *error = copy_as(from, to->folder, name, true, to->manifest);
    free(from);
    return error;
}

char *folder_copy_extras(const char *source, const char *folder, cJSON *manifest)
{
    return each_extra(source, copy_one, &(Copies){source, folder, manifest});
}

static char *manifest_one(const char *name, void *arg)
{
    const Copies *to = arg;
    cJSON *files = json_get(to->manifest, "files"), *row = files ? files->child : NULL;
    while (row && strcmp(cJSON_GetStringValue(json_get(row, "name")), name))
        row = row->next;
    cJSON_Delete(row ? cJSON_DetachItemViaPointer(files, row) : NULL);
    uint64_t bytes;
    uint32_t crc;
    char *path = folder_join(to->folder, name), *error = folder_file_crc(path, &bytes, &crc);
    if (!error)
        manifest_file(to->manifest, name, bytes, crc);
    free(path);
    return error;
}

char *folder_manifest_extras(const char *folder, cJSON *manifest)
{
    return each_extra(folder, manifest_one, &(Copies){NULL, folder, manifest});
}

static char *check_one(const char *name, void *arg)
{
    enum { JSON_MAX = 64 << 20 };
    const char *source = arg;
    char *path = folder_join(source, name), *error = NULL;
    const int fd = file_open(path, O_RDONLY, &error);
    if (fd >= 0)
        close(fd);
    cJSON *json = error || strcmp(name, "generation_config.json")
                      ? NULL
                      : folder_read_json(source, name, JSON_MAX, &error);
    if (json && !cJSON_IsObject(json))
        error = format("%s: must be an object", path);
    cJSON_Delete(json);
    free(path);
    return error;
}

char *folder_check_extras(const char *source)
{
    return each_extra(source, check_one, (void *)(uintptr_t)source);
}

char *folder_file_crc(const char *path, uint64_t *bytes, uint32_t *crc)
{
    char *error = NULL;
    int fd = file_open(path, O_RDONLY, &error);
    if (fd < 0)
        return error;
    char *block = malloc(BLOCK);
    if (!block)
        die(EXIT_IO, "out of memory for a block of %d bytes", (int)BLOCK);
    *bytes = 0;
    *crc = 0;
    for (ssize_t k; (k = read(fd, block, BLOCK)) != 0;) {
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0) {
            error = failed(path, "read");
            break;
        }
        *crc = crc32c(*crc, block, (size_t)k);
        *bytes += (uint64_t)k;
    }
    free(block);
    close(fd);
    return error;
}

/* ---- checkpoint-<step> ---------------------------------------------------------------------- */

int64_t folder_step_of(const char *name, const char **rest)
{
    static const char prefix[] = "checkpoint-";
    if (strncmp(name, prefix, sizeof prefix - 1))
        return -1;
    const char *p = name + sizeof prefix - 1;
    int64_t step = 0;
    int digits = 0;
    for (; *p >= '0' && *p <= '9' && digits < 16; p++, digits++)
        step = step * 10 + (*p - '0');
    *rest = p;
    return digits > 0 ? step : -1;
}

static int ascending(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

int64_t *folder_steps(const char *out, int *n)
{
    DIR *dir = opendir(out);
    int64_t *step = NULL;
    *n = dir ? 0 : -1;
    for (struct dirent *d; dir && (errno = 0, d = readdir(dir));) {
        const char *rest;
        int64_t s = folder_step_of(d->d_name, &rest);
        if (s < 0 || *rest)
            continue;
        int64_t *longer = realloc(step, ((size_t)*n + 1) * sizeof *step);
        if (!longer)
            die(EXIT_IO, "out of memory for a list of %d checkpoints", *n + 1);
        step = longer;
        step[(*n)++] = s;
    }
    const int why = errno;
    if (dir)
        closedir(dir);
    if (dir && why)
        *n = -1;
    errno = why;
    if (*n > 1)
        qsort(step, (size_t)*n, sizeof *step, ascending);
    return step;
}
