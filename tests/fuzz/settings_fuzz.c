// link: settings settings_file alias names config_text config_rules kept config fields owners source tables environment override recipe json base
// link: target family objective cluster recipe_name renamed cards quote -I/usr/include/lua5.4 -llua5.4 -lyaml -lcjson -lcrypto -lm
/* settings_fuzz.c -- any text as a settings file of another trainer.
 *
 * In: first byte: YAML, JSON, TOML or Python; then the file.
 * Verdict: one message, with the recipe or with what is wrong.
 * Method:  util.c is included so that an error comes back here and all memory is given back. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "returns.h"
#include "gen/config/config.h"
#include "gen/config/settings.h"

static size_t told;

static void listen(int n, const Loc *loc, const char *const *text, int status)
{
    (void)loc, (void)status;
    for (int i = 0; i < n; i++)
        told += strlen(text[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static const char *const language[] = {"YAML", "JSON", "TOML", "Python"};
    static FILE *quiet;
    if (!quiet) {
        quiet = fopen("/dev/null", "w");
        for (int i = 0; i < NFIELDS; i++)        /* these are made once and kept: not to be given back */
            field_choices(i);
        nblocks = 0;
        chunk_left = 0;
        err_on_end(listen);
    }
    if (!n)
        return 0;
    FILE *loud = stderr;
    stderr = quiet;
    telling = false;
    told = 0;
    if (!setjmp(refused)) {
        char *text = arena_new(n);
        memcpy(text, data + 1, n - 1);
        settings_file("fuzz", language[data[0] % 4], text, n - 1);
    }
    stderr = loud;
    if (!told)
        abort();
    forget();
    return 0;
}
