/* crc32c.h -- CRC-32C (Castagnoli), the checksum of checkpoints, token files and event records.
 *
 * Check value: crc32c(0, "123456789", 9) == 0xe3069283. */
#ifndef DIECAST_CRC32C_H
#define DIECAST_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* Returns the checksum `crc` of the preceding bytes (0 at the start), continued over n bytes. */
uint32_t crc32c(uint32_t crc, const void *data, size_t n);
/* The same with lookup tables only: for CPUs without the instruction, and to test it. */
uint32_t crc32c_table(uint32_t crc, const void *data, size_t n);
/* Returns the checksum of a concatenation from those of its two parts; n: length of the second in
 * bytes. */
uint32_t crc32c_join(uint32_t before, uint32_t after, uint64_t n);

#endif
