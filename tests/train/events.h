/* events.h -- a strict reader of event files, which shares no code with their writer, and what of them a history says.
 *
 * In:    the bytes of a file; a history as an array of records.
 * Keeps: whatever is not exactly one of the messages that runs write is refused: frame, checksums, fields, order. */
#ifndef DIECAST_TESTS_EVENTS_H
#define DIECAST_TESTS_EVENTS_H

#include <cjson/cJSON.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    double time;
    int64_t step;
    int event;                   /* which of the file's */
    char tag[96];
    bool scalar;
    float value;                 /* of a scalar */
    const uint8_t *text;         /* of a text; NULL: the page HParams reads it */
    size_t length;
} EventValue;

typedef struct {
    EventValue value[8192];
    int n, events;
    char bad[256];               /* why it is no such file */
} EventFile;

typedef struct {
    const uint8_t *at, *end;
    uint64_t field;              /* of the last one: its number and, by its kind, what it holds */
    int kind;
    uint64_t number;
    const uint8_t *bytes;
    size_t length;
} EventMessage;

static uint32_t events_masked(const uint8_t *p, size_t n)
{
    uint32_t crc = 0xffffffffu;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int k = 0; k < 8; k++)
            crc = crc & 1 ? crc >> 1 ^ 0x82f63b78u : crc >> 1;
    }
    crc = ~crc;
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

static uint64_t events_fixed(const uint8_t *p, int n)
{
    uint64_t x = 0;
    while (n--)
        x = x << 8 | p[n];
    return x;
}

static bool events_varint(EventMessage *m, uint64_t *x)
{
    *x = 0;
    for (int shift = 0; shift < 64 && m->at < m->end; shift += 7) {
        *x |= (uint64_t)(*m->at & 0x7f) << shift;
        if (!(*m->at++ & 0x80))
            return true;
    }
    return false;
}

/* The next field, whose number is the last one's or more; false: there is none, or it is broken (m->at is NULL). */
static bool events_next(EventMessage *m)
{
    uint64_t key, before = m->field;
    if (m->at == m->end)
        return false;
    bool good = events_varint(m, &key);
    m->field = key >> 3;
    m->kind = (int)(key & 7);
    if (good && m->kind == 0) {
        good = events_varint(m, &m->number);
    } else if (good && (m->kind == 1 || m->kind == 5)) {
        const int n = m->kind == 1 ? 8 : 4;
        good = m->end - m->at >= n;
        m->number = good ? events_fixed(m->at, n) : 0;
        m->at += good ? n : 0;
    } else if (good && m->kind == 2) {
        good = events_varint(m, &key) && key <= (uint64_t)(m->end - m->at);
        m->bytes = m->at;
        m->length = good ? (size_t)key : 0;
        m->at += m->length;
    } else {
        good = false;
    }
    if (!good || m->field < before || !m->field)
        m->at = NULL;
    return m->at != NULL;
}

static EventMessage events_inside(const EventMessage *m)
{
    return (EventMessage){.at = m->bytes, .end = m->bytes + m->length};
}

/* That message is these bytes. */
static bool events_is(const EventMessage *m, const char *bytes, size_t n)
{
    return m->length == n && memcmp(m->bytes, bytes, n) == 0;
}

/* Summary.Value: tag 1; simple_value 2, or tensor 8 (DT_STRING, one text) and metadata 9, or metadata alone. */
static bool events_value(EventMessage m, EventValue *v)
{
    static const char text[] = "\x0a\x06\x0a\x04text", one[] = "\x12\x02\x08\x01", session[] = "\x0a\x07hparams\x12";
    bool tag = false, plugin = false;
    while (events_next(&m)) {
        EventMessage inside = events_inside(&m);
        if (m.field == 1 && m.kind == 2 && m.length < sizeof v->tag && !tag) {
            memcpy(v->tag, m.bytes, m.length);
            tag = true;
        } else if (m.field == 2 && m.kind == 5 && !v->scalar) {
            const uint32_t bits = (uint32_t)m.number;
            memcpy(&v->value, &bits, sizeof bits);
            v->scalar = true;
        } else if (m.field == 8 && m.kind == 2 && !v->text && !v->scalar) {
            if (!(events_next(&inside) && inside.field == 1 && inside.number == 7 && events_next(&inside) &&
                  inside.field == 2 && events_is(&inside, one, 4) && events_next(&inside) && inside.field == 8))
                return false;
            v->text = inside.bytes;
            v->length = inside.length;
            if (inside.at != inside.end)
                return false;
        } else if (m.field == 9 && m.kind == 2 && !plugin && !v->scalar) {
            if (v->text ? !events_is(&m, text, 8) : !(events_next(&inside) && memcmp(inside.bytes, session, 10) == 0))
                return false;
            plugin = true;
        } else {
            return false;
        }
    }
    return m.at && tag && (v->scalar || plugin);
}

/* Event: wall_time 1, step 2; file_version 3 in the first, START in the second, a summary in all others. */
static bool events_event(EventFile *f, EventMessage m)
{
    static const char version[] = "brain.Event:2", start[] = "\x08\x01";
    EventValue v = {.event = f->events};
    bool what = false;
    if (!events_next(&m) || m.field != 1 || m.kind != 1)
        return false;
    memcpy(&v.time, &m.number, sizeof v.time);
    while (events_next(&m)) {
        if (m.field == 2 && m.kind == 0 && !v.step && m.number && m.number >> 63 == 0)
            v.step = (int64_t)m.number;
        else if (m.field == 3 && !what && f->events == 0 && events_is(&m, version, 13))
            what = true;
        else if (m.field == 7 && !what && f->events == 1 && events_is(&m, start, 2))
            what = true;
        else if (m.field == 5 && m.kind == 2 && !what && f->events > 1) {
            EventMessage summary = events_inside(&m);
            while (events_next(&summary)) {
                EventValue one = v;
                if (summary.field != 1 || f->n == (int)(sizeof f->value / sizeof *f->value) ||
                    !events_value(events_inside(&summary), &one))
                    return false;
                f->value[f->n++] = one;
            }
            what = summary.at != NULL;
        } else {
            return false;
        }
    }
    return m.at && what && v.time > 1.6e9 && v.time < 4e9;
}

static void events_parse(EventFile *f, const uint8_t *data, size_t n)
{
    f->n = f->events = 0;
    f->bad[0] = '\0';
    for (size_t at = 0; at < n && !*f->bad; f->events++) {
        const uint8_t *p = data + at;
        const uint64_t length = n - at >= 16 ? events_fixed(p, 8) : 0;
        const char *why = n - at < 16 || length > n - at - 16             ? "a record that is cut"
                          : events_fixed(p + 8, 4) != events_masked(p, 8) ? "the checksum of a length"
                          : events_fixed(p + 12 + length, 4) != events_masked(p + 12, (size_t)length)
                              ? "the checksum of an event"
                          : !events_event(f, (EventMessage){.at = p + 12, .end = p + 12 + length})
                              ? "no event that a run writes" : NULL;
        if (why)
            snprintf(f->bad, sizeof f->bad, "event %d, byte %zu: %s", f->events, at, why);
        at += 16 + (size_t)length;
    }
    if (!*f->bad && f->events < 3)
        snprintf(f->bad, sizeof f->bad, "%d events, want a version, a start and what it is of", f->events);
}

/* The scalars are the numbers of the records, event by event, as floats, and the best validation so far; no tag has
 * two values of a step. */
static void events_compare(EventFile *f, const cJSON *history)
{
    int at = 0;
    double seen[2048];
    int nseen = 0;
    const cJSON *r, *item;
    cJSON_ArrayForEach(r, history) {
        const cJSON *step = cJSON_GetObjectItemCaseSensitive(r, "step"),
                    *time = cJSON_GetObjectItemCaseSensitive(r, "time");
        const bool of_step = cJSON_GetObjectItemCaseSensitive(r, "learning_rate") != NULL;
        bool validation = false;
        int event = -1;
        cJSON_ArrayForEach(item, r) {
            const bool null = cJSON_IsNull(item) && item == r->child && of_step;
            if (item == step || item == time || (!strcmp(item->string, "epoch") && !of_step) ||
                !(cJSON_IsNumber(item) || null))
                continue;
            while (at < f->n && !f->value[at].scalar)
                at++;
            const EventValue *v = &f->value[at];
            event = event < 0 && at < f->n ? v->event : event;
            if (at == f->n || v->event != event || v->step != (int64_t)step->valuedouble ||
                v->time != time->valuedouble ||
                (null ? !isnan(v->value) : v->value != (float)item->valuedouble)) {
                snprintf(f->bad, sizeof f->bad, "step %.0f: %s %.9g of the history, %s %.9g of step %lld",
                         step->valuedouble, item->string, item->valuedouble, at < f->n ? v->tag : "nothing",
                         at < f->n ? (double)v->value : NAN,
                         at < f->n ? (long long)v->step : 0);
                return;
            }
            validation |= !strncmp(item->string, "eval_", 5);
            if (!strncmp(item->string, "eval_", 5) && nseen < 2048)
                seen[nseen++] = item->valuedouble;
            at++;
        }
        if (validation && at < f->n && strstr(f->value[at].tag, "best_")) {
            bool found = false;
            for (int i = 0; i < nseen; i++)
                found |= (float)seen[i] == f->value[at].value;
            if (!found || f->value[at].event != event)
                snprintf(f->bad, sizeof f->bad, "step %.0f: %s is of no validation", step->valuedouble,
                         f->value[at].tag);
            at++;
        }
    }
    while (at < f->n && !f->value[at].scalar)
        at++;
    if (at < f->n)
        snprintf(f->bad, sizeof f->bad, "%s of step %lld is not in the history", f->value[at].tag,
                 (long long)f->value[at].step);
    for (int i = 0; i < f->n && !*f->bad; i++)
        for (int k = i + 1; k < f->n && f->value[i].scalar; k++)
            if (f->value[k].step == f->value[i].step && !strcmp(f->value[k].tag, f->value[i].tag)) {
                snprintf(f->bad, sizeof f->bad, "%s of step %lld twice", f->value[i].tag, (long long)f->value[i].step);
                break;
            }
}

/* The n-th text of that tag; NULL: it has fewer. */
static inline const EventValue *events_text(const EventFile *f, const char *tag, int n)
{
    for (int i = 0; i < f->n; i++)
        if (f->value[i].text && !strcmp(f->value[i].tag, tag) && !n--)
            return &f->value[i];
    return NULL;
}

#endif
