/* log_history.c -- history.jsonl: one record per line, in full precision; see log_history.h. */
#define _GNU_SOURCE
#include "runtime/run/log_history.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/base.h"
#include "runtime/files/json.h"

/* LINE_MAX_BYTES: a longer line is not a record; LATE_MAX: bytes that may wait for room on a full
 * disk. */
enum { RETRY_SECONDS = 5, LINE_MAX_BYTES = 1 << 16, LATE_MAX = 1 << 26 };

static void die_on(char *error)
{
    if (error)
        die(EXIT_IO, "%s", error);
}

void log_history_line(FILE *to, const cJSON *record)
{
    char text[64];
    const char *between = "{";
    for (const cJSON *item = record->child; item; item = item->next, between = ", ") {
        fprintf(to, "%s\"%s\": ", between, item->string);
        if (cJSON_IsNull(item)) {
            fputs("null", to);
        } else if (cJSON_IsString(item)) {
            char *quoted = cJSON_PrintUnformatted(item);
            fputs(quoted ? quoted : "null", to);
            free(quoted);
        } else if (item->type & JSON_FLOAT) {
            json_float_text(item->valuedouble, text);
            fputs(text, to);
        } else {
            fprintf(to, "%.0f", item->valuedouble);
        }
    }
    fputs("}\n", to);
}

/* Opens the file and cuts it after its last complete record, where a failed write may have left a
 * part. Returns NULL, or a malloc'ed message. */
static char *open_history(Log *l)
{
    char *error = NULL;
    l->history = file_open(l->path, O_WRONLY | O_CREAT | O_APPEND, &error);
    if (l->history >= 0 && TEMP_FAILURE_RETRY(ftruncate(l->history, l->complete))) {
        error = format("%s: truncate: %s", l->path, strerror(errno));
        close(l->history);
        l->history = -1;
    }
    return error;
}

/* Writes the waiting lines. On failure returns false with errno set, and closes the file. */
static bool write_late(Log *l)
{
    if (file_write(l->history, l->late, l->nlate)) {
        l->complete += (int64_t)l->nlate;
        free(l->late);
        l->late = NULL, l->nlate = 0;
        return true;
    }
    const int why = errno;
    close(l->history);
    l->history = -1;
    l->tried = clock_seconds();
    errno = why;
    return false;
}

/* Opens the file again and writes the waiting lines. Returns NULL, or a malloc'ed message. */
static char *catch_up(Log *l)
{
    l->tried = clock_seconds();
    char *error = open_history(l);
    if (!error && !write_late(l))
        error = format("%s: write: %s", l->path, strerror(errno));
    if (!error && l->lost)
        warn("history.jsonl is written again, without %lld records", (long long)l->lost);
    else if (!error)
        note("history.jsonl is complete again");
    return error;
}

/* Appends a record to the file. If that fails, training continues, and the line stays in memory. */
static void write_record(Log *l, const cJSON *record)
{
    size_t n = 0;
    char *line = NULL, *longer = NULL;
    FILE *to = open_memstream(&line, &n);
    if (to) {
        log_history_line(to, record);
        fclose(to);
    }
    if (line && l->nlate + n <= LATE_MAX)
        longer = realloc(l->late, l->nlate + n);
    if (longer) {
        memcpy(longer + l->nlate, line, n);
        l->late = longer;
        l->nlate += n;
    } else if (!l->lost++) {
        warn("history.jsonl: no memory for records that wait for room on the disk: they are lost");
    }
    free(line);
    if (l->history >= 0 && !write_late(l))
        warn("history.jsonl: write: %s; training goes on, later records try again",
             strerror(errno));
    else if (l->history < 0 && clock_seconds() - l->tried > RETRY_SECONDS)
        free(catch_up(l));
}

/* Adds the record to the most recent ones, and its loss to the ring buffer; takes ownership. */
static void remember(Log *l, cJSON *record)
{
    const cJSON *loss = json_get(record, l->metrics->step[0].name);
    const cJSON *step = json_get(record, "step");
    if (l->losses && cJSON_IsNumber(loss) && cJSON_IsNumber(step))
        l->losses[l->nlosses++ % LOG_LOSSES] = (LogLoss){loss->valuedouble, step->valuedouble};
    cJSON_AddItemToArray(l->records, record);
    if (++l->nrecords > LOG_RECORDS) {
        cJSON_DeleteItemFromArray(l->records, 0);
        l->nrecords--;
    }
}

/* True if a record of the file precedes the resumed step; closing records are dropped unless the
 * run has no steps left. */
static bool wanted(const Log *l, const cJSON *record, int64_t resumed)
{
    const cJSON *step = json_get(record, "step");
    return cJSON_IsNumber(step) && step->valuedouble <= (double)resumed
        && (resumed >= l->total || !json_get(record, "train_runtime"));
}

/* Returns the next line, of at most LINE_MAX_BYTES, as a record, and its length. NULL: no record,
 * or with *bytes 0 the end of the file. */
static cJSON *read_record(FILE *from, char *line, size_t *bytes)
{
    char *error = NULL;
    *bytes = fgets(line, LINE_MAX_BYTES, from) ? strlen(line) : 0;
    const bool whole = *bytes && line[*bytes - 1] == '\n';
    cJSON *record = whole ? json_parse(line, *bytes - 1, &error) : NULL;
    free(error);
    return record;
}

/* Reads the records to keep from `from` into the log, or with `to` copies them there. Late
 * records of the checkpoint are not kept: the file got them after the save, and gets them again.
 * Returns true if the file holds no others. */
static bool take_back(Log *l, FILE *from, FILE *to, const char *path, int64_t resumed)
{
    char *line = malloc(LINE_MAX_BYTES);
    size_t bytes;
    int64_t at = 0;
    cJSON *record;
    if (!line)
        die(EXIT_INTERNAL, "out of memory for a line of %s", path);
    l->complete = 0;
    while ((!l->nlate || at < l->late_from) &&
           ((record = read_record(from, line, &bytes)) || bytes)) {
        if (!record && !to)
            warn("%s: byte %lld: not a record; dropping the rest", path, (long long)at);
        at += (int64_t)bytes;
        if (!record)
            break;
        if (!wanted(l, record, resumed)) {
            cJSON_Delete(record);
            continue;
        }
        l->complete += (int64_t)bytes;
        if (to)
            fwrite(line, 1, bytes, to);
        if (to)
            cJSON_Delete(record);
        else
            remember(l, record);
    }
    if (ferror(from))
        die(EXIT_IO, "%s: read: %s", path, strerror(errno));
    free(line);
    return l->complete == at && at > 0;
}

/* Rewrites the file with only the records to keep: temporary file, rename. Returns NULL, or a
 * malloc'ed message. */
static char *rewrite(Log *l, FILE *from, const char *path, int64_t resumed)
{
    char *temporary = format("%s.tmp", path), *error = NULL;
    int fd = file_create(temporary, &error);
    if (fd >= 0) {
        FILE *to = fdopen(fd, "w");
        if (to && from) {
            rewind(from);
            take_back(l, from, to, path, resumed);
        }
        bool good = to && !ferror(to) && fflush(to) == 0 && fsync(fd) == 0;
        good = (to ? fclose(to) : close(fd)) == 0 && good && rename(temporary, path) == 0;
        if (!good) {
            error = format("%s: write: %s", path, strerror(errno));
            unlink(temporary);
        }
    }
    free(temporary);
    return error;
}

/* Reads the records up to `resumed` back, and rewrites the file if it holds others. */
static void read_back(Log *l, int64_t resumed)
{
    const char *path = l->path;
    char *error = NULL;
    const int fd = file_open(path, O_RDONLY, &error);
    FILE *from = fd < 0 ? NULL : fdopen(fd, "r");
    if (fd < 0 && (errno == ELOOP || errno == ENXIO))
        die_on(error);               /* a link or a FIFO: do not replace it */
    if (!from)
        warn("%s: this run's history starts at step %lld", error ? error : path,
             (long long)resumed);
    if (!from || !take_back(l, from, NULL, path, resumed))
        die_on(rewrite(l, from, path, resumed));
    if (from)
        fclose(from);
    free(error);
}

/* Writes, and adds to the log, the records to keep of those that were late when the checkpoint was
 * saved, unless the file is not the one that they are missing from. */
static void add_late(Log *l, int64_t resumed)
{
    size_t kept = 0;
    if (l->complete != l->late_from) {
        warn("%s: not the history of the checkpoint, whose %zu bytes of late records are left out",
             l->path, l->nlate);
        l->nlate = 0;
    }
    for (size_t at = 0, n; at < l->nlate; at += n) {
        const char *line = l->late + at, *end = memchr(line, '\n', l->nlate - at);
        char *error = NULL;
        n = end ? (size_t)(end - line) + 1 : l->nlate - at;
        cJSON *record = json_parse(line, n, &error);
        if (record && wanted(l, record, resumed)) {
            memmove(l->late + kept, line, n);
            kept += n;
            remember(l, record);
        } else {
            cJSON_Delete(record);
        }
        free(error);
    }
    l->nlate = kept;
    if (l->nlate && !write_late(l))
        warn("history.jsonl: write: %s; training goes on, later records try again",
             strerror(errno));
}

void log_history_open(Log *l, int64_t resumed)
{
    l->history = -1;
    if (resumed > 0)
        read_back(l, resumed);
    die_on(open_history(l));
    if (l->nlate)
        add_late(l, resumed);
}

void log_history_retry(Log *l)
{
    if (l->nlate && l->history < 0)
        free(catch_up(l));
}

void log_history_add(Log *l, cJSON *record)
{
    remember(l, record);
    write_record(l, record);
}

void log_history_close(Log *l)
{
    char *error = l->history < 0 ? catch_up(l) : NULL;
    if (!error && (fsync(l->history) != 0 || close(l->history) != 0))
        error = format("%s: write: %s", l->path, strerror(errno));
    die_on(error);
    l->history = -1;
}
