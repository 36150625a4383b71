// link: ir_parts graph_settings model_files order ops rules kernels quote json base target family objective cluster config fields owners alias names config_text config_rules kept source tables environment
// link: override recipe recipe_name renamed cards objectives standalone lm mlm masked_diffusion dpo prm ad ppo graph programs moment_types fold keep update_place backward_update head families layers nf4
// link: gradient build bilevel inputs -I/usr/include/lua5.4 -llua5.4 -lcjson -lcrypto -lm
/* ir_fuzz.c -- any text as the text of a graph.
 *
 * Verdict: an error, or a graph whose text reads back as it was printed.
 * Method:  util.c, ir.c and ir_read.c are included so that an error comes back here and all memory is given back. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "returns.h"
#include "gen/graph/objectives.h"
#include "../../gen/graph/ir.c"
#include "../../gen/graph/ir_read.c"

static const char *accepted;     /* what was printed of an input that is no error: it has to read back */

static void try(const uint8_t *data, size_t n)
{
    char *text = arena_new(n + 1);
    memcpy(text, data, n);
    const char *once = ir_print(ir_parse(text, "fuzz.ir"));
    accepted = once;
    const char *twice = ir_print(ir_parse(once, "again"));
    if (strcmp(once, twice)) {
        fprintf(stdout, "%s---\n%s", once, twice);
        abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static FILE *quiet;
    if (!quiet) {
        quiet = fopen("/dev/null", "w");
        target_find("cpu");
        objectives_install();
        nblocks = 0;
        chunk_left = 0;
    }
    FILE *loud = stderr;
    stderr = quiet;
    accepted = NULL;
    if (!setjmp(refused))
        try(data, n);
    else if (accepted) {
        fprintf(stdout, "%sis not read again: %s\n", accepted, nmistakes ? mistakes[0].text : "");
        abort();
    }
    stderr = loud;
    forget();
    return 0;
}
