/* folder.h -- atomic creation and replacement of folders and files, and their manifests.
 *
 * Keeps: NULL means success; else a malloc'ed "PATH: what: why", and nothing incomplete exists
 *        under a final name. Removal never follows a symbolic link. */
#ifndef DIECAST_FOLDER_H
#define DIECAST_FOLDER_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* A manifest is an object {"files": [{bytes, crc32c, name}], "tensors": [{crc32c, file, name}]}, or
 * NULL if not needed. Checksums are 8 hex digits. */
cJSON *manifest_new(void);
void manifest_file(cJSON *manifest, const char *name, uint64_t bytes, uint32_t crc);
void manifest_tensor(cJSON *manifest, const char *file, const char *name, uint32_t crc);

char *folder_join(const char *folder, const char *name);             /* malloc'ed; never NULL */
bool folder_exists(const char *path);                                /* true only for a folder */
char *folder_make(const char *path);                                 /* must not exist */
char *folder_make_parents(const char *path);                         /* creates the missing ones */
/* The same below the folder `root`, a prefix of path; refuses links to folders, so that a run
 * folder made by somebody else cannot redirect writes. */
char *folder_make_below(const char *root, const char *path);
/* Returns NULL, or why `path` cannot become a folder: a file has its name. */
char *folder_blocked(const char *path);
char *folder_sync(const char *path);                                 /* fsync of the folder */
/* Removes a folder and the files in it, not recursively: subfolders stay, with an error. */
char *folder_remove(const char *path);
/* Renames temp to final, replacing an existing final, then syncs the parent. The rename is the
 * commit point: before it the old folder is complete, after it the new one. */
char *folder_commit(const char *temp, const char *final);
/* The same for the file temp, which becomes FOLDER/NAME; removes temp on an error. */
char *folder_commit_file(const char *folder, const char *temp, const char *name);

/* folder_replace.c */
/* Atomically replaces the folder `path` by what write(temp, with) puts into the new folder temp; on
 * an error path is unchanged. Creates missing parents. */
char *folder_replace(const char *path, char *(*write)(const char *temp, void *with), void *with);
/* Atomically makes the folder `to` a copy of `from`: hard links, or copies on file systems without
 * them. Files removed from one stay in the other. */
char *folder_link(const char *from, const char *to);
/* Atomically replaces the file `name` of an existing folder and syncs it; on an error the old file
 * stays. write() returns NULL or a malloc'ed reason without the path. */
char *folder_replace_file(const char *folder, const char *name,
                          char *(*write)(FILE *to, const void *with), const void *with);

/* The same with the whole content. */
char *folder_replace_text(const char *folder, const char *name, const char *text);
/* The same for ROOT/BELOW/NAME; creates BELOW. */
char *folder_replace_below(const char *root, const char *below, const char *name, const char *text);
char *folder_replace_bytes(const char *folder, const char *name, const void *from, size_t n);
int64_t folder_free_bytes(const char *path);                         /* -1: unknown */

/* Write complete files and sync them. json: formatted as Hugging Face does. */
char *folder_write_text(const char *folder, const char *name, const char *text, cJSON *manifest);
char *folder_json_text(const cJSON *json);                           /* malloc'ed; never NULL */
char *folder_write_json(const char *folder, const char *name, const cJSON *json, cJSON *manifest);
/* Reads a JSON file of at most max bytes; NULL and *error if it is missing or not strict JSON. */
cJSON *folder_read_json(const char *folder, const char *name, size_t max, char **error);
/* The same for our own files: does not follow symbolic links. */
cJSON *folder_read_nofollow(const char *folder, const char *name, size_t max, char **error);
/* Copies a file and adds it to the manifest, which may be NULL. */
char *folder_copy(const char *source, const char *folder, const char *name, cJSON *manifest);
/* Copies the files of a model folder other than config.json and the weights: tokenizer, chat
 * template, remote code. JSON, which transformers refuses with a byte order mark, and templates,
 * which print it, lose it. */
char *folder_copy_extras(const char *source, const char *folder, cJSON *manifest);
/* Enters such files of the folder into its manifest as they are now. */
char *folder_manifest_extras(const char *folder, cJSON *manifest);
/* Returns NULL or why one of them could not be copied to a checkpoint, or completed by an export;
 * to be known before the first step. */
char *folder_check_extras(const char *source);
/* Copies a tokenizer file of any name to tokenizer.json, together with the files next to it that
 * describe it to other programs, in the same way; existing files stay. */
char *folder_copy_tokenizer(const char *file, const char *folder, cJSON *manifest);
bool folder_is_extra(const char *name);
/* Sets the CRC-32C and the size of a regular file. */
char *folder_file_crc(const char *path, uint64_t *bytes, uint32_t *crc);

/* Returns the steps of the folders checkpoint-<step> in out, ascending, malloc'ed; n = -1 and errno
 * if out cannot be read. */
int64_t *folder_steps(const char *out, int *n);
/* Returns the step in a name checkpoint-<step>, else -1; *rest: the text after the digits. */
int64_t folder_step_of(const char *name, const char **rest);

#endif
