/* pack_tables.c -- names of formats, kinds and reasons; values of a JSON row; the first error of a
 * pack. */
#include "runtime/pack/pack_work.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base.h"
#include "runtime/files/json.h"
#include "runtime/pack/pack.h"

/* ---- names ----------------------------------------------------------------------------------- */

const Format pack_format[NFORMATS] = {
#define FORMAT(id, name, keys, reads, has, uses, extra, kind, finds_targets, code, elsewhere, doc) \
    {name, keys, READS_##reads, has, uses, extra, KIND_##kind, finds_targets, elsewhere, doc},
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
const char *const loss_name[NLOSSES] = {"", "last", "assistant", "turns", "all"};
const char *const held_out_name[NHELD_OUT] = {"none", "tail", "random"};

const char *const array_name[ARRAYS] = {"train_data.npy", "val_data.npy"};

bool prepared_is(const char *path)
{
    char *data = format("%s/%s", path, array_name[ARRAY_TRAIN]),
         *meta = format("%s/metadata.json", path);
    const bool is = file_named(data) || file_named(meta);
    free(data), free(meta);
    return is;
}

const Format *format_find(const char *name)
{
    for (int i = 0; i < NFORMATS; i++)
        if (!strcmp(pack_format[i].name, name))
            return &pack_format[i];
    return NULL;
}

void pack_fail(Pack *p, int code, Location at, char *text)
{
    if (p->error.text)
        free(text);
    else
        p->error = (PackError){text, at.file ? format("%s", at.file) : NULL, at.line, code,
                               p->makes};
}

static const char *const metadata[] = {
#define METADATA(key) key,
#define CONTENT(key, why)
#define MESSAGE(keys)
#include "runtime/pack/keys.def"
#undef METADATA
#undef CONTENT
#undef MESSAGE
};

bool key_describes(const char *key)
{
    for (size_t i = 0; i < sizeof metadata / sizeof *metadata; i++)
        if (!strcmp(metadata[i], key))
            return true;
    return false;
}

/* ---- values of a row ------------------------------------------------------------------------- */

const char *sample_string(const Sample *s, const char *key, char **error)
{
    const cJSON *v = sample_get(s->json, key);
    if (!cJSON_IsString(v) && !*error)
        *error = format("%s: must be a string", key);
    return *error ? NULL : v->valuestring;
}

const cJSON *sample_get(const cJSON *object, const char *key)
{
    const cJSON *v = json_get(object, key);
    return cJSON_IsNull(v) ? NULL : v;
}

bool is_messages(const cJSON *json)
{
    return cJSON_IsArray(json) && (json_get(json->child, "role") || json_get(json->child, "from"));
}

bool has_content(const cJSON *v)
{
    return v && !cJSON_IsNull(v) && !(cJSON_IsString(v) && !*v->valuestring) &&
           !((cJSON_IsArray(v) || cJSON_IsObject(v)) && !v->child);
}
