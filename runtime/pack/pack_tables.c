/* pack_tables.c -- names of formats, kinds and reasons; the first error of a pack. */
#include "runtime/pack/pack.h"

#include "runtime/base.h"

#include <stdlib.h>
#include <string.h>

const Format pack_format[NFORMATS] = {
#define FORMAT(id, name, keys, reads, has, uses, beside, kind, own, code, elsewhere, doc) \
    {name, keys, READS_##reads, has, uses, beside, KIND_##kind, own, elsewhere, doc},
#include "runtime/pack/formats.def"
#undef FORMAT
};

const char *const drop_why[NDROPS] = {
    "",
#define DROP(id, name, why) why,
#include "runtime/pack/drops.def"
#undef DROP
};

const char *const kind_name[NKINDS] = {"auto", "packed", "rows", "pairs", "steps", "candidates"};
const char *const loss_name[] = {"", "last", "assistant", "all"};
const char *const held_out_name[NHELD_OUT] = {"none", "tail", "random"};

const Format *format_find(const char *name)
{
    for (int i = 0; i < NFORMATS; i++)
        if (!strcmp(pack_format[i].name, name))
            return &pack_format[i];
    return NULL;
}

void pack_fail(Pack *p, int code, Place at, char *text)
{
    if (p->error.text)
        free(text);
    else
        p->error = (PackError){text, at.file ? format("%s", at.file) : NULL, at.line, code,
                               p->makes};
}
