/* crc32c.h -- CRC-32C (Castagnoli), the checksum of checkpoints, token files and event records.
 *
 * Check value: crc32c(0, "123456789", 9) == 0xe3069283. */
#ifndef DIECAST_CRC32C_H
#define DIECAST_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The checksum of what came before (0 at the start), continued over n bytes. */
uint32_t crc32c(uint32_t crc, const void *data, size_t n);
/* The same by tables alone: the witness of the instruction, and the path of CPUs without it. */
uint32_t crc32c_table(uint32_t crc, const void *data, size_t n);
/* Of bytes and n more behind them, from the checksums of both. */
uint32_t crc32c_join(uint32_t before, uint32_t behind, uint64_t n);

#endif
