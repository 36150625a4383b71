/* nf4_weights.c -- weights in NF4: quantised as they are loaded, dequantised to be read.
 *
 * Keeps: absmax of a whole tensor is in host memory until it is quantised, 1/16 of a byte an
 *        element. */
#include "runtime/model/nf4_weights.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/device.h"
#include "runtime/model/hf_nf4.h"
#include "runtime/nf4.h"

static const BlockArray *blocks_of(const Tensor *t, Nf4Array which)
{
    return which == NF4_ABSMAX ? &t->nf4.absmax
           : which == NF4_NESTED ? &t->nf4.nested : &t->nf4.offset;
}

/* The tensor's first byte in an array. */
static char *array_of(const Tensor *t, Nf4Array which)
{
    if (which == NF4_CODES)
        return (char *)t->weight.at + t->first / 2;
    const BlockArray *b = blocks_of(t, which);
    return (char *)b->at + b->first * (which == NF4_ABSMAX ? 1 : (int64_t)sizeof(float));
}

static int64_t nf4_bytes(const Tensor *t, Nf4Array which)
{
    const int64_t n = model_elements(t), blocks = NF4_BLOCKS(n);
    return which == NF4_CODES    ? n / 2
           : which == NF4_ABSMAX ? blocks
           : which == NF4_NESTED ? NF4_GROUPS(n) * (int64_t)sizeof(float) : (int64_t)sizeof(float);
}

/* Of n bytes of divided codes, writes those that this rank has. */
static void write_own(const Tensor *t, int64_t begin, int64_t n, const uint8_t *from)
{
    const Tensor codes = nf4_codes_tensor(t);
    const Array array = nf4_codes_array(t);
    const OwnElements own = parts_next(&codes, array, begin);
    const int64_t all = begin + n - own.e < own.n ? begin + n - own.e : own.n;
    for (int64_t done = 0, k; done < all; done += k) {
        k = all - done < ARRAY_PIECE ? all - done : ARRAY_PIECE;
        array_write((uint8_t *)array.at + own.own + done, from + (own.e - begin) + done, k);
    }
}

static void nf4_write(const Tensor *t, Nf4Array which, int64_t begin, int64_t n, const void *from)
{
    REQUIRE(begin >= 0 && n >= 0 && begin + n <= nf4_bytes(t, which));
    if (which == NF4_CODES && t->weight.part) {
        write_own(t, begin, n, from);
        return;
    }
    for (int64_t done = 0, k; done < n; done += k) {
        k = n - done < ARRAY_PIECE ? n - done : ARRAY_PIECE;
        array_write(array_of(t, which) + begin + done, (const char *)from + done, k);
    }
}

/* ---- reading --------------------------------------------------------------------------------- */

enum { PIECE = 1 << 14 };            /* elements */

/* Elements of consecutive blocks, at most PIECE, from `first` on. held: their codes; NULL: they are
 * in memory. */
static void get_blocks(const Tensor *t, const uint8_t *held, int64_t first, int64_t n, float *to)
{
    static _Thread_local uint8_t codes[PIECE / 2], absmax[PIECE / NF4_BLOCK];
    static _Thread_local float nested[PIECE / NF4_BLOCK / NF4_GROUP + 2];
    const int64_t block = first / NF4_BLOCK, group = block / NF4_GROUP, blocks = NF4_BLOCKS(n),
                  groups = (block + blocks - 1) / NF4_GROUP - group + 1;
    float offset;
    if (!held)
        held = array_view(array_of(t, NF4_CODES) + first / 2, n / 2);
    memcpy(codes, held, (size_t)(n / 2));
    memcpy(absmax, array_view(array_of(t, NF4_ABSMAX) + block, blocks), (size_t)blocks);
    memcpy(nested, array_view((float *)array_of(t, NF4_NESTED) + group,
                              groups * (int64_t)sizeof *nested), (size_t)groups * sizeof *nested);
    memcpy(&offset, array_view(array_of(t, NF4_OFFSET), sizeof offset), sizeof offset);
    for (int64_t b = 0; b < blocks; b++)
        nf4_dequantise(codes + b * NF4_BLOCK / 2, NF4_BLOCK,
                       nf4_absmax(absmax[b], nested[(block + b) / NF4_GROUP - group], offset),
                       to + b * NF4_BLOCK);
}

static void round_to(ElementType type, float *x, int64_t n)
{
    char rounded[NF4_BLOCK * sizeof *x];
    for (int64_t done = 0, k; type != EL_F32 && done < n; done += k) {
        k = n - done < NF4_BLOCK ? n - done : NF4_BLOCK;
        st_from_float(rounded, element_dtype(type), x + done, (size_t)k);
        st_to_float(x + done, rounded, element_dtype(type), (size_t)k);
    }
}

/* Zeroed: of a tensor whose file ends in a read error, finish() quantises what there is. */
static void *room(int64_t bytes, const Tensor *t)
{
    void *p = calloc(1, (size_t)bytes + 1);
    if (!p)
        die(EXIT_IO, "out of memory for %lld bytes of %s", (long long)bytes, t->name);
    return p;
}

/* Returns the codes of n elements from `first` on; NULL: they are not divided. The caller frees. */
static uint8_t *divided_codes(const Tensor *t, int64_t first, int64_t n, bool own)
{
    if (!t->weight.part)
        return NULL;
    const Tensor codes = nf4_codes_tensor(t);
    uint8_t *bytes = room(n / 2, t);
    float *values = room(n / 2 * (int64_t)sizeof *values, t);
    (own ? parts_own : parts_get)(&codes, nf4_codes_array(t), ORDER_MEMORY, first / 2, n / 2,
                                  values);
    st_from_float(bytes, ST_U8, values, (size_t)(n / 2));
    free(values);
    return bytes;
}

/* Sets those of n elements from `first` on to 0 that other ranks have. */
static void zero_others(const Tensor *t, int64_t first, int64_t n, float *values)
{
    for (int64_t e = first; e < first + n;) {
        const OwnElements own = parts_next(t, t->weight, e);
        const int64_t end = own.e < first + n ? own.e : first + n;
        memset(values + (e - first), 0, (size_t)(end - e) * sizeof *values);
        e = own.e + own.n;
    }
}

static void nf4_get(const Tensor *t, int64_t begin, int64_t n, bool own, float *to)
{
    static _Thread_local float values[PIECE];
    const int64_t low = begin / NF4_BLOCK * NF4_BLOCK,
                  high = (begin + n + NF4_BLOCK - 1) / NF4_BLOCK * NF4_BLOCK;
    uint8_t *codes = divided_codes(t, low, high - low, own);
    for (int64_t done = 0, k; done < n; done += k) {
        const int64_t at = begin + done, first = at / NF4_BLOCK * NF4_BLOCK,
                      some = high - first < PIECE ? high - first : PIECE;
        get_blocks(t, codes ? codes + (first - low) / 2 : NULL, first, some, values);
        k = first + some < begin + n ? first + some - at : begin + n - at;
        round_to(t->nf4.computes, values + (at - first), k);
        memcpy(to + done, values + (at - first), (size_t)k * sizeof *to);
    }
    if (codes && own)
        zero_others(t, begin, n, to);
    free(codes);
}

static void nf4_crc(PartsCrc *crc, const Tensor *t)
{
    const Tensor codes = nf4_codes_tensor(t);
    if (t->weight.part)
        parts_crc_array(crc, &codes, nf4_codes_array(t));
    for (Nf4Array which = t->weight.part ? NF4_ABSMAX : NF4_CODES; which < NF4_ARRAYS; which++) {
        const int64_t bytes = nf4_bytes(t, which);
        for (int64_t done = 0, k; done < bytes; done += k) {
            k = bytes - done < ARRAY_PIECE ? bytes - done : ARRAY_PIECE;
            parts_crc_whole(crc, array_view(array_of(t, which) + done, k), k);
        }
    }
}

/* ---- quantising ------------------------------------------------------------------------------ */

struct Nf4Writer {
    const Tensor *t;
    float *absmax;
};

static Nf4Writer *nf4_writer(const Tensor *t)
{
    Nf4Writer *w = room(sizeof *w, t);
    *w = (Nf4Writer){t, room(NF4_BLOCKS(model_elements(t)) * (int64_t)sizeof(float), t)};
    return w;
}

static void nf4_put(Nf4Writer *w, int64_t begin, int64_t n, const float *from)
{
    REQUIRE(begin % NF4_BLOCK == 0 && n % NF4_BLOCK == 0 &&
            begin + n <= model_elements(w->t));
    uint8_t *codes = room(n / 2, w->t);
    nf4_quantise(from, n, codes, w->absmax + begin / NF4_BLOCK);
    nf4_write(w->t, NF4_CODES, begin / 2, n / 2, codes);
    free(codes);
}

static void nf4_finish(Nf4Writer *w)
{
    const Tensor *t = w->t;
    uint8_t *codes = room(nf4_bytes(t, NF4_ABSMAX), t);
    float *nested = room(nf4_bytes(t, NF4_NESTED), t), offset;
    nf4_quantise_absmax(w->absmax, nf4_bytes(t, NF4_ABSMAX), codes, nested, &offset);
    nf4_write(t, NF4_ABSMAX, 0, nf4_bytes(t, NF4_ABSMAX), codes);
    nf4_write(t, NF4_NESTED, 0, nf4_bytes(t, NF4_NESTED), nested);
    nf4_write(t, NF4_OFFSET, 0, sizeof offset, &offset);
    free(codes), free(nested);
    free(w->absmax);
    free(w);
}

const Nf4Access nf4_access = {nf4_get, nf4_crc, nf4_writer, nf4_put, nf4_finish, nf4_bytes,
                              nf4_write, hf_nf4_load};
