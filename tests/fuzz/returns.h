/* returns.h -- gen/util.c for fuzz targets: an error comes back to them, and all memory can be given back.
 *
 * Out:   refused, where an error jumps to; blocks[0 .. nblocks), what the arena took since the input began. */
#include <setjmp.h>
#include <stdlib.h>

static jmp_buf refused;
static void **blocks;
static size_t nblocks, capblocks;

static void *fuzz_calloc(size_t n, size_t size)
{
    if (nblocks == capblocks) {
        capblocks = capblocks ? 2 * capblocks : 64;
        blocks = realloc(blocks, capblocks * sizeof *blocks);
    }
    return blocks[nblocks++] = calloc(n, size);
}

#define calloc fuzz_calloc
#define exit(code) longjmp(refused, 1)
#include "../../gen/util.c"
#undef calloc
#undef exit

/* Gives back all memory and drops all errors of an input. */
static void forget(void)
{
    for (size_t i = 0; i < nblocks; i++)
        free(blocks[i]);
    nblocks = 0;
    chunk = NULL;
    chunk_left = 0;
    nmistakes = nsources = 0;
}
