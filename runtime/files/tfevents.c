/* tfevents.c -- encodes the messages Event, Summary and HParamsPluginData of
 * tensorboard/compat/proto and tensorboard/plugins/hparams, fields in order of their numbers, and
 * the record framing.
 *
 * Method: a nested message is encoded separately, then copied after its length. */
#include "runtime/files/tfevents.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/files/crc32c.h"
#include "runtime/files/utf8.h"

/* ---- protocol buffers ------------------------------------------------------------------------ */

enum { VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };
enum { DT_STRING = 7 };

static void put(TfBytes *to, const void *from, size_t n)
{
    if (to->n + n > to->room) {
        to->room = 2 * to->room + n + 256;
        to->data = realloc(to->data, to->room);
        if (!to->data)
            die(EXIT_INTERNAL, "out of memory for %zu bytes of events", to->room);
    }
    if (n)
        memcpy(to->data + to->n, from, n);
    to->n += n;
}

static void put_varint(TfBytes *to, uint64_t x)
{
    uint8_t byte[10];
    size_t n = 0;
    for (; x >= 0x80; x >>= 7)
        byte[n++] = (uint8_t)(x | 0x80);
    byte[n++] = (uint8_t)x;
    put(to, byte, n);
}

/* Writes the n low bytes of x, lowest first. */
static void put_fixed(TfBytes *to, uint64_t x, size_t n)
{
    uint8_t byte[8];
    for (size_t i = 0; i < n; i++)
        byte[i] = (uint8_t)(x >> 8 * i);
    put(to, byte, n);
}

static void put_field(TfBytes *to, int field, int kind)
{
    put_varint(to, (uint64_t)field << 3 | (uint64_t)kind);
}

static void put_int(TfBytes *to, int field, int64_t x)
{
    put_field(to, field, VARINT);
    put_varint(to, (uint64_t)x);
}

static void put_double(TfBytes *to, int field, double x)
{
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    put_field(to, field, FIXED64);
    put_fixed(to, bits, 8);
}

static void put_bytes(TfBytes *to, int field, const void *from, size_t n)
{
    put_field(to, field, BYTES);
    put_varint(to, n);
    put(to, from, n);
}

/* Writes a nested message and frees it. */
static void put_message(TfBytes *to, int field, TfBytes *message)
{
    put_bytes(to, field, message->data, message->n);
    free(message->data);
    *message = (TfBytes){0};
}

/* Readers refuse a message whose strings are not UTF-8. */
static void put_text(TfBytes *to, int field, const char *text)
{
    size_t n = strlen(text), good;
    char *copy = format("%s", text);
    while ((good = utf8_check(copy, n)) < n)
        copy[good] = '?';
    put_bytes(to, field, copy, n);
    free(copy);
}

/* ---- records --------------------------------------------------------------------------------- */

static uint32_t masked(const void *data, size_t n)
{
    const uint32_t crc = crc32c(0, data, n);
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* Event: wall_time 1, step 2; then one of file_version 3, summary 5, session_log 7. */
static TfBytes event(double time, int64_t step)
{
    TfBytes e = {0};
    put_double(&e, 1, time);
    if (step)
        put_int(&e, 2, step);
    return e;
}

/* Writes the length, its checksum, the bytes and their checksum; frees the event. */
static void put_record(TfBytes *file, TfBytes *e)
{
    put_fixed(file, e->n, 8);
    put_fixed(file, masked(file->data + file->n - 8, 8), 4);
    put(file, e->data, e->n);
    put_fixed(file, masked(e->data, e->n), 4);
    free(e->data);
}

void tf_version(TfBytes *file, double time)
{
    TfBytes e = event(time, 0);
    put_text(&e, 3, "brain.Event:2");
    put_record(file, &e);
}

void tf_begin(TfBytes *file, double time, int64_t step)
{
    TfBytes e = event(time, step), session = {0};
    put_int(&session, 1, 1);                 /* status: START */
    put_message(&e, 7, &session);
    put_record(file, &e);
}

void tf_summary(TfBytes *file, double time, int64_t step, TfBytes *summary)
{
    if (!summary->n)
        return;
    TfBytes e = event(time, step);
    put_message(&e, 5, summary);
    put_record(file, &e);
}

/* ---- values: tag 1, simple_value 2, tensor 8, metadata 9 ------------------------------------- */

void tf_scalar(TfBytes *summary, const char *tag, double value)
{
    TfBytes v = {0};
    const float x = (float)value;
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    put_text(&v, 1, tag);
    put_field(&v, 2, FIXED32);
    put_fixed(&v, bits, 4);
    put_message(summary, 1, &v);
}

/* SummaryMetadata: plugin_data 1, with plugin_name 1 and content 2; frees the content. */
static void put_metadata(TfBytes *value, const char *plugin, TfBytes *content)
{
    TfBytes data = {0}, metadata = {0};
    put_text(&data, 1, plugin);
    if (content->n)
        put_message(&data, 2, content);
    put_message(&metadata, 1, &data);
    put_message(value, 9, &metadata);
}

void tf_text(TfBytes *summary, const char *tag, const char *markdown)
{
    TfBytes v = {0}, tensor = {0}, shape = {0}, dim = {0};
    put_int(&dim, 1, 1);
    put_message(&shape, 2, &dim);
    put_int(&tensor, 1, DT_STRING);
    put_message(&tensor, 2, &shape);
    put_text(&tensor, 8, markdown);
    put_text(&v, 1, tag);
    put_message(&v, 8, &tensor);
    put_metadata(&v, "text", &(TfBytes){0});
    put_message(summary, 1, &v);
}

/* ---- settings: HParamsPluginData ------------------------------------------------------------- */

void tf_setting(TfBytes *settings, const char *name, const char *value)
{
    TfBytes entry = {0}, v = {0};            /* google.protobuf.Value */
    char *end;
    const double number = strtod(value, &end);
    const bool is = end > value && !*end && isfinite(number), yes = !strcmp(value, "true");
    if (is)
        put_double(&v, 2, number);
    else if (yes || !strcmp(value, "false"))
        put_int(&v, 4, yes);
    else
        put_text(&v, 3, value);
    put_text(&entry, 1, name);
    put_message(&entry, 2, &v);
    put_message(settings, 1, &entry);
}

/* A value that only the HParams page reads; frees data. */
static void put_session(TfBytes *summary, const char *tag, int field, TfBytes *session)
{
    TfBytes v = {0}, data = {0};
    put_message(&data, field, session);
    put_text(&v, 1, tag);
    put_metadata(&v, "hparams", &data);
    put_message(summary, 1, &v);
}

void tf_session_start(TfBytes *summary, TfBytes *settings, double time)
{
    put_double(settings, 5, time);           /* after hparams 1 */
    put_session(summary, "_hparams_/session_start_info", 3, settings);
}

void tf_session_end(TfBytes *summary, double time)
{
    TfBytes session = {0};
    put_int(&session, 1, 1);                 /* status: STATUS_SUCCESS */
    put_double(&session, 2, time);
    put_session(summary, "_hparams_/session_end_info", 4, &session);
}
