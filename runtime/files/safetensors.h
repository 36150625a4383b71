/* safetensors.h -- the one tensor file format: a strict reader of files and folders, and a writer.
 *
 * In:    hostile files.
 * Out:   tensors by name, byte ranges by pread; files that the reference library reads.
 * Keeps: no end of the program but a malloc'ed message "FILE: rule: found". NULL means fine. */
#ifndef DIECAST_SAFETENSORS_H
#define DIECAST_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Name and bits of an element, in the order of the reference library (increasing alignment). */
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
    uint64_t begin, end;         /* bytes from the start of the file */
} StTensor;

typedef struct {
    int fd;                      /* -1 when only the header was parsed */
    char *path;
    int n;
    StTensor *t;                 /* in the order of the file */
    int *by_name;                /* indices of t, names ascending */
    int nmeta;
    char **meta_key, **meta_value;
} StFile;

/* Opens and validates; the file stays open for st_read. After an error *f is empty and needs no
 * st_close. */
/* What a file that begins with these bytes may be in place of a safetensors file, "text" say; NULL:
 * nobody knows. */
const char *st_looks_like(const void *head, size_t n);
char *st_open(StFile *f, const char *path);
/* The pure part: the n bytes of JSON behind the length word of a file of file_size bytes. */
char *st_header_parse(StFile *f, const char *header, size_t n, uint64_t file_size);
const StTensor *st_find(const StFile *f, const char *name);      /* O(log n); NULL: not there */
const char *st_meta(const StFile *f, const char *key);           /* NULL: not there */
int64_t st_elements(const StTensor *t);
/* From shape and dtype; false when a size overflows or is no whole number of bytes. */
bool st_tensor_bytes(const StTensor *t, uint64_t *bytes);
/* Bytes offset .. offset+bytes-1 of the tensor into dst. Any thread. */
char *st_read(const StFile *f, const StTensor *t, void *dst, uint64_t offset, uint64_t bytes);
void st_close(StFile *f);

/* A model folder: model.safetensors, or model.safetensors.index.json and its shards. */
typedef struct {
    int nfiles;
    StFile *file;
} StSet;

char *st_set_open(StSet *s, const char *folder);
const StTensor *st_set_find(const StSet *s, const char *name, const StFile **file);
void st_set_close(StSet *s);

/* Elements to and from float. F64, F32, BF16 and F16; false for others. Narrowing rounds to
 * nearest even. */
bool st_to_float(float *dst, const void *src, StDtype dtype, size_t n);
bool st_from_float(void *dst, StDtype dtype, const float *src, size_t n);
float st_half_to_float(uint16_t h);
uint16_t st_float_to_half(float f);

/* The writer. First every tensor and extra metadata, then st_begin lays the file out (dtype
 * descending, ties by name) and writes the header into PATH.tmp; then the bytes of each tensor
 * in that order, whole or in pieces; then st_end makes PATH appear: fsync, rename. Any error
 * leaves PATH as it was; st_free removes the temporary file. */
typedef struct StWriter StWriter;
StWriter *st_writer(const char *made_by);      /* metadata "format": "pt" for models */
char *st_add(StWriter *w, const char *name, StDtype dtype, int rank, const int64_t *shape);
char *st_add_meta(StWriter *w, const char *key, const char *value);
char *st_begin(StWriter *w, const char *path);
int st_count(const StWriter *w);
/* i-th tensor of the file, after st_begin */
const StTensor *st_planned(const StWriter *w, int i);
/* of the whole file, after st_begin */
uint64_t st_bytes(const StWriter *w);
char *st_write(StWriter *w, const char *name, const void *data, uint64_t bytes);
/* crc32c of the bytes of tensor i so far */
uint32_t st_tensor_crc(const StWriter *w, int i);
char *st_end(StWriter *w, uint32_t *crc);                             /* crc32c of the whole file */
void st_free(StWriter *w);

#endif
