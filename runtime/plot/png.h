/* png.h -- fast PNG encoder for figures, which are mostly one colour. */
#ifndef DIECAST_PNG_H
#define DIECAST_PNG_H

#include <stddef.h>
#include <stdint.h>

/* Encodes pixels 0x00rrggbb, `stride` pixels per row. Returns malloc'ed data of *n bytes. */
unsigned char *png_encode(const uint32_t *pixel, int width, int height, int stride, size_t *n);

#endif
