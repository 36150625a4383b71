/* tokenizer_normal.c -- the normaliser: one text for all spellings of the same characters.
 *
 * In:  `normalizer` of a tokenizer.json; well-formed UTF-8. */
#define _GNU_SOURCE
#include "runtime/data/tokenizer_parts.h"

#include "runtime/base.h"
#include "runtime/files/json.h"

#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* NFC of text, malloc'ed. An ASCII character never joins what stands before it, so the text may
 * be cut there: only what is not ASCII, with the one character before it, goes through the
 * library. */
char *normal_text(const char *text, size_t n, size_t *nout)
{
    size_t cap = n + 64, from = 0;
    char *out = malloc(cap);
    *nout = 0;
    while (from < n) {
        size_t end = from;
        utf8proc_uint8_t *made = NULL;
        while (end < n && (unsigned char)text[end] < 0x80)
            end++;
        size_t plain = end == n ? end : end - (end > from);
        size_t stop = end;
        while (stop < n && (unsigned char)text[stop] >= 0x80)
            stop++;
        utf8proc_ssize_t len = 0;
        if (stop > plain)
            len = utf8proc_map((const utf8proc_uint8_t *)text + plain,
                               (utf8proc_ssize_t)(stop - plain), &made,
                               UTF8PROC_STABLE | UTF8PROC_COMPOSE);
        if (len < 0)
            abort();             /* out of memory: the text is well-formed */
        size_t need = *nout + (plain - from) + (size_t)len + (n - stop);
        if (need > cap)
            out = realloc(out, cap = 2 * need);
        memcpy(out + *nout, text + from, plain - from);
        *nout += plain - from;
        if (len)
            memcpy(out + *nout, made, (size_t)len);
        *nout += (size_t)len;
        free(made);
        from = stop;
    }
    return out;
}

char *normal_load(Tokenizer *t, const cJSON *n)
{
    if (!n || cJSON_IsNull(n))
        return NULL;
    const char *type = json_word(json_get(n, "type"));
    if (!strcmp(type, "NFC")) {
        t->nfc = true;
        return NULL;
    }
    const cJSON *list = json_get(n, "normalizers");
    if (!strcmp(type, "Sequence") && cJSON_IsArray(list)) {
        for (const cJSON *i = list->child; i; i = i->next)
            if (strcmp(json_word(json_get(i, "type")), "NFC"))
                return format("normalizer: Sequence: want NFC, got %.40s",
                              json_word(json_get(i, "type")));
        t->nfc = list->child != NULL;
        return NULL;
    }
    return format("normalizer: want null or NFC, got %.40s", type);
}
