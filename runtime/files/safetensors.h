/* safetensors.h -- safetensors: a strict reader for files and model folders, and a writer.
 *
 * In:    untrusted files.
 * Out:   tensors by name, byte ranges by pread(); files that the reference library reads.
 * Keeps: never ends the program; errors are malloc'ed messages "FILE: rule: found", NULL means
 *        success. */
#ifndef DIECAST_SAFETENSORS_H
#define DIECAST_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Name and bits per element, in the order of the reference library (increasing alignment). */
#define ST_DTYPES(X)                                                                              \
    X(BOOL, 8) X(F4, 4) X(F6_E2M3, 6) X(F6_E3M2, 6) X(U8, 8) X(I8, 8) X(F8_E5M2, 8) X(F8_E4M3, 8) \
    X(F8_E8M0, 8) X(F8_E4M3FNUZ, 8) X(F8_E5M2FNUZ, 8) X(I16, 16) X(U16, 16) X(F16, 16)            \
    X(BF16, 16) X(I32, 32) X(U32, 32) X(F32, 32) X(C64, 64) X(F64, 64) X(I64, 64) X(U64, 64)
#define ST_ENUM(name, bits) ST_##name,
typedef enum { ST_DTYPES(ST_ENUM) ST_NDTYPES } StDtype;
extern const char *const st_dtype_name[ST_NDTYPES];
extern const int st_dtype_bits[ST_NDTYPES];

enum { ST_RANK = 8 };
#define ST_HEADER_MAX 100000000u

typedef struct {
    char *name;
    StDtype dtype;
    int rank;                    /* 0: a scalar, one element */
    int64_t shape[ST_RANK];
    uint64_t begin, end;         /* byte offsets in the file */
} StTensor;

typedef struct {
    int fd;                      /* -1 if only the header was parsed */
    char *path;
    int n;
    StTensor *t;                 /* in file order */
    int *by_name;                /* indices into t, sorted by name */
    int nmeta;
    char **meta_key, **meta_value;
} StFile;

/* Guesses the format of a file that starts with these bytes and is not a safetensors file, e.g.
 * "text"; NULL: unknown. */
const char *st_looks_like(const void *head, size_t n);
/* Opens and validates; the file stays open for st_read(). Raises the soft limit of open files where
 * it must; an error if the hard one leaves no room for the files that a run opens later. After an
 * error *f is empty and needs no st_close(). */
char *st_open(StFile *f, const char *path);
/* The part of st_open() without I/O: parses the n bytes of JSON after the length word of a file of
 * file_size bytes. */
char *st_header_parse(StFile *f, const char *header, size_t n, uint64_t file_size);
const StTensor *st_find(const StFile *f, const char *name);      /* O(log n); NULL: not found */
const char *st_meta(const StFile *f, const char *key);           /* NULL: not found */
int64_t st_elements(const StTensor *t);
/* Computes the size from shape and dtype; false if it overflows or is not a whole number of
 * bytes. */
bool st_tensor_bytes(const StTensor *t, uint64_t *bytes);
/* Reads bytes offset .. offset+bytes-1 of the tensor into dst. Thread-safe. */
char *st_read(const StFile *f, const StTensor *t, void *dst, uint64_t offset, uint64_t bytes);
void st_close(StFile *f);

/* A model folder: model.safetensors, or model.safetensors.index.json and its shards. */
typedef struct {
    int nfiles;
    StFile *file;
} StSet;

/* Opens all files of the folder. Returns NULL or a malloc'ed message; *s is then empty. */
char *st_set_open(StSet *s, const char *folder);
void st_set_close(StSet *s);

/* Convert elements to and from float: F64, F32, BF16, F16, I16 and U8; return false for other
 * types. Narrowing rounds to nearest even; values of I16 and U8 are whole numbers in their
 * range. */
bool st_to_float(float *dst, const void *src, StDtype dtype, size_t n);
bool st_from_float(void *dst, StDtype dtype, const float *src, size_t n);
float st_half_to_float(uint16_t h);
uint16_t st_float_to_half(float f);

/* The writer. First add every tensor and extra metadata; st_begin() lays out the file (dtype
 * descending, ties by name) and writes the header to PATH.tmp; then write the bytes of each tensor
 * in that order, whole or in pieces; st_end() syncs and renames to PATH. Any error leaves PATH
 * unchanged; st_free() removes the temporary file. */
typedef struct StWriter StWriter;
StWriter *st_writer(const char *made_by);      /* metadata "format": "pt" for models */
char *st_add(StWriter *w, const char *name, StDtype dtype, int rank, const int64_t *shape);
char *st_add_meta(StWriter *w, const char *key, const char *value);
char *st_begin(StWriter *w, const char *path);
int st_count(const StWriter *w);
/* i-th tensor in file order, after st_begin() */
const StTensor *st_planned(const StWriter *w, int i);
/* size of the whole file, after st_begin() */
uint64_t st_bytes(const StWriter *w);
char *st_write(StWriter *w, const char *name, const void *data, uint64_t bytes);
/* CRC-32C of the bytes of tensor i written so far */
uint32_t st_tensor_crc(const StWriter *w, int i);
char *st_end(StWriter *w, uint32_t *crc);                             /* CRC-32C of the file */
void st_free(StWriter *w);

#endif
