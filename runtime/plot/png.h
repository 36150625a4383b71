/* png.h -- a picture as a PNG file, quickly: most of a figure is one colour. */
#ifndef DIECAST_PNG_H
#define DIECAST_PNG_H

#include <stddef.h>
#include <stdint.h>

/* Pixels 0x00rrggbb, a row each `stride` pixels. malloc'ed, *n bytes. */
unsigned char *png_encode(const uint32_t *pixel, int width, int height, int stride, size_t *n);

#endif
