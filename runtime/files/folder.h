/* folder.h -- folders of files that appear whole or not at all, and the list of what is in them.
 *
 * Keeps: NULL means done; else a malloc'ed "PATH: what: why" and nothing half done under a final
 *        name. No symbolic link is followed when something is removed. */
#ifndef DIECAST_FOLDER_H
#define DIECAST_FOLDER_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A manifest is an object {"files": [{bytes, crc32c, name}], "tensors": [{crc32c, file, name}]};
 * NULL where nobody wants one. Checksums are 8 hex digits. */
cJSON *manifest_new(void);
void manifest_file(cJSON *manifest, const char *name, uint64_t bytes, uint32_t crc);
void manifest_tensor(cJSON *manifest, const char *file, const char *name, uint32_t crc);

char *folder_join(const char *folder, const char *name);             /* malloc'ed; never NULL */
bool folder_exists(const char *path);                                /* and is a folder */
char *folder_make(const char *path);                                 /* must not exist */
char *folder_make_parents(const char *path);                         /* those that are missing */
/* The same for those of a path below the folder `root`, which begins the path: links to folders are refused there, so
 * that a run folder made by somebody else leads nowhere else. */
char *folder_make_below(const char *root, const char *path);
char *folder_sync(const char *path);                                 /* fsync of the folder itself */
/* Removes a folder and the files in it; one that holds folders is left with what it holds. */
char *folder_remove(const char *path);
/* temp becomes final, also when final exists (which goes), then the parent is synced. The rename
 * is the commit: before it the old final is whole, after it the new one. */
char *folder_commit(const char *temp, const char *final);
/* The folder `path` becomes what write(temp, with) puts into the new folder temp, at once; on an
 * error it is as it was. Missing parents are made. */
char *folder_replace(const char *path, char *(*write)(const char *temp, void *with), void *with);
/* The folder `to` becomes one with the same files as `from`, at once: hard links, or copies where the file
 * system has none; what is removed from one of both stays in the other. */
char *folder_link(const char *from, const char *to);
/* The file `name` of an existing folder gets its content at once, synced; on an error the old file stays. write()
 * returns NULL or a malloc'ed reason without the path. */
char *folder_replace_file(const char *folder, const char *name, char *(*write)(FILE *to, const void *with),
                          const void *with);
char *folder_replace_text(const char *folder, const char *name, const char *text);
char *folder_replace_bytes(const char *folder, const char *name, const void *from, size_t n);
int64_t folder_free_bytes(const char *path);                         /* -1: unknown */

/* Whole files, synced. json: as Hugging Face prints it. */
char *folder_write_text(const char *folder, const char *name, const char *text, cJSON *manifest);
char *folder_json_text(const cJSON *json);                           /* malloc'ed; never NULL */
char *folder_write_json(const char *folder, const char *name, const cJSON *json, cJSON *manifest);
/* A JSON file of at most max bytes; NULL and *error when it is not there or not strict JSON. */
cJSON *folder_read_json(const char *folder, const char *name, size_t max, char **error);
/* The same for a file of ours: no symbolic link is followed. */
cJSON *folder_read_own(const char *folder, const char *name, size_t max, char **error);
/* A file, byte for byte; into the manifest, which may be NULL. */
char *folder_copy(const char *source, const char *folder, const char *name, cJSON *manifest);
/* Files of a model folder beside config.json and the weights (tokenizer, chat template, remote
 * code), byte for byte. */
char *folder_copy_extras(const char *source, const char *folder, cJSON *manifest);
/* A tokenizer, whatever its file's name is, as tokenizer.json, and the files beside it that tell other programs of
 * it; those that the folder has stay. */
char *folder_copy_tokenizer(const char *file, const char *folder, cJSON *manifest);
bool folder_is_extra(const char *name);
/* crc32c and size of a regular file. */
char *folder_file_crc(const char *path, uint64_t *bytes, uint32_t *crc);

/* Steps of the folders checkpoint-<step> in out, ascending, malloc'ed; n = -1 and errno: cannot be read. */
int64_t *folder_steps(const char *out, int *n);
/* A name checkpoint-<step>: its step, else -1; *rest: what follows the digits. */
int64_t folder_step_of(const char *name, const char **rest);

#endif
