/* tfevents.h -- TensorBoard event files: Event protocol buffers in TFRecord framing.
 *
 * In:    numbers and texts.  Out: bytes, appended in memory; the caller writes them.
 * Keeps: the same bytes as TensorBoard's own writer; invalid UTF-8 bytes of a text become '?'. */
#ifndef DIECAST_TFEVENTS_H
#define DIECAST_TFEVENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zero-initialise; release with free(data). */
typedef struct {
    uint8_t *data;
    size_t n, room;
} TfBytes;

/* ---- records; time: seconds since 1970 ---- */

/* The first record of a file. */
void tf_version(TfBytes *file, double time);
/* Tells readers to discard what other files of the folder hold for this run from `step` on. */
void tf_begin(TfBytes *file, double time, int64_t step);
/* Writes the values of a step and empties `summary`; writes nothing if it is empty. */
void tf_summary(TfBytes *file, double time, int64_t step, TfBytes *summary);

/* ---- values of a summary ---- */

void tf_scalar(TfBytes *summary, const char *tag, double value);      /* rounded to a float */
void tf_text(TfBytes *summary, const char *tag, const char *markdown);
/* Hyperparameters for the HParams page: any number of tf_setting(), then tf_session_start(), which
 * empties `settings`; tf_session_end() marks success. */
/* The value is written as a number, as true or false, or else as text. */
void tf_setting(TfBytes *settings, const char *name, const char *value);
void tf_session_start(TfBytes *summary, TfBytes *settings, double time);
void tf_session_end(TfBytes *summary, double time);

#endif
