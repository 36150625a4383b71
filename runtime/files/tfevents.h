/* tfevents.h -- TensorBoard's event files: records of a TFRecord file, each an Event of protocol buffers.
 *
 * In:    numbers and texts.  Out: bytes, appended in memory; the caller writes them.
 * Keeps: the same bytes as TensorBoard's own writer; bytes of a text that are no UTF-8 become '?'. */
#ifndef DIECAST_TFEVENTS_H
#define DIECAST_TFEVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero before the first byte; free(data). */
typedef struct {
    uint8_t *data;
    size_t n, room;
} TfBytes;

/* ---- records; time: seconds since 1970 ---- */

/* The first of a file. */
void tf_version(TfBytes *file, double time);
/* What a reader has seen of this run at `step` or later, in other files of its folder, does not count. */
void tf_begin(TfBytes *file, double time, int64_t step);
/* Values of a step; `summary` is empty afterwards. Nothing for an empty one. */
void tf_summary(TfBytes *file, double time, int64_t step, TfBytes *summary);

/* ---- values of a summary ---- */

void tf_scalar(TfBytes *summary, const char *tag, double value);      /* rounded to a float */
void tf_text(TfBytes *summary, const char *tag, const char *markdown);
/* The settings of a run, for the page HParams: first any number of tf_setting(), then the start of the
 * session with them, which empties `settings`; its end with success. */
void tf_setting(TfBytes *settings, const char *name, const char *value);   /* a number, true, false, or a text */
void tf_session_start(TfBytes *summary, TfBytes *settings, double time);
void tf_session_end(TfBytes *summary, double time);

#endif
