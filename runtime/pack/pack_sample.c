/* pack_sample.c -- values of a JSON row. */
#include "runtime/pack/pack.h"

#include "runtime/base.h"
#include "runtime/files/json.h"

const char *sample_string(const Sample *s, const char *key, char **error)
{
    const cJSON *v = sample_get(s->json, key);
    if (!cJSON_IsString(v) && !*error)
        *error = format("%s: want a string", key);
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
