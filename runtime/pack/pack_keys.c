/* pack_keys.c -- keys of JSON rows that their format does not read, by the tables of keys.def.
 *
 * Out:   metadata, counted for the summary; one error that names all other such keys.
 * Keeps: a key whose value is null, "", [] or {} counts as absent. */
#define _GNU_SOURCE
#include "runtime/pack/pack.h"

#include "runtime/base.h"
#include "runtime/files/json.h"
#include "runtime/files/names.h"

#include <stdlib.h>
#include <string.h>

enum { KEYS_MOST = 256 };        /* distinct keys; the last one means all others */

static const struct { const char *key, *why; } content[] = {
#define METADATA(key)
#define CONTENT(key, why) {key, why},
#define MESSAGE(keys)
#include "runtime/pack/keys.def"
#undef METADATA
#undef CONTENT
#undef MESSAGE
};
static const char message_keys[] =
#define METADATA(key)
#define CONTENT(key, why)
#define MESSAGE(keys) keys
#include "runtime/pack/keys.def"
#undef METADATA
#undef CONTENT
#undef MESSAGE
    ;

/* ---- ignored keys ---------------------------------------------------------------------------- */

/* True if earlier releases, without --ignore-keys, read this key of such a row. */
static bool was_read(const cJSON *json, const char *key)
{
    if (!strcmp(key, "history") || (!strcmp(key, "system") && !json_get(json, "question")))
        return false;
    for (int i = 0; i < NFORMATS; i++)
        if (names_listed(pack_format[i].uses, key))
            return true;
    return false;
}

void keys_ignore(const Rules *rules, cJSON *json, RowOut *row)
{
    for (int i = 0; i < rules->nignore; i++) {
        const char *key = rules->ignore[i];
        const uint64_t bit = (uint64_t)1 << i;
        if (json_get(json, key)) {
            row->ignored |= bit;
            row->unread |= was_read(json, key) ? bit : 0;
            cJSON_DeleteItemFromObjectCaseSensitive(json, key);
        }
        for (cJSON *m = json->child; m; m = m->next)
            for (cJSON *one = is_messages(m) ? m->child : NULL; one; one = one->next)
                if (json_get(one, key)) {
                    row->ignored |= bit;
                    row->unread |= names_listed(message_keys, key) ? bit : 0;
                    cJSON_DeleteItemFromObjectCaseSensitive(one, key);
                }
    }
}

/* ---- keys of a row --------------------------------------------------------------------------- */

static bool is_metadata(const Format *f, const char *key)
{
    return key_describes(key) || (f && names_listed(f->extra, key));
}

const char *key_unread(const cJSON *object, const char *uses)
{
    for (const cJSON *m = object->child; m; m = m->next)
        if (has_content(m) && !names_listed(uses ? uses : message_keys, m->string) &&
            !key_describes(m->string))
            return m->string;
    return NULL;
}

/* Returns a key of the list "a|b" that the object lacks and that is similar to `key`, malloc'ed;
 * NULL: none. */
static char *almost(const char *list, const cJSON *json, const char *key)
{
    for (size_t n; *list; list += n + (list[n] == '|')) {
        n = strcspn(list, "|");
        char *one = format("%.*s", (int)n, list);
        if (!json_get(json, one) && names_distance(one, key) <= (n > 6 ? 2 : 1))
            return one;
        free(one);
    }
    return NULL;
}

/* Returns the index of a key in a list, adding it if needed. */
static int keys_number(KeyList *to, const char *name, bool is_content)
{
    for (int i = 0; i < to->n; i++)
        if (to->key[i].content == is_content && !strcmp(to->key[i].name, name))
            return i;
    if (to->n == KEYS_MOST)
        return KEYS_MOST - 1;
    to->key = realloc(to->key, (size_t)(to->n + 1) * sizeof *to->key);
    if (!to->key)
        abort();
    const bool last = to->n == KEYS_MOST - 1;
    to->key[to->n] = (Key){.name = format("%s", last ? "..." : name),
                           .content = is_content || last};
    return to->n++;
}

static void keys_add(Encoded *e, int row, int key)
{
    for (int i = e->nseen - 1; i >= 0 && e->seen[i].row == row; i--)
        if (e->seen[i].key == key)
            return;
    if (e->nseen == e->capseen) {
        e->capseen = 2 * e->capseen + 64;
        e->seen = realloc(e->seen, (size_t)e->capseen * sizeof *e->seen);
        if (!e->seen)
            abort();
    }
    e->seen[e->nseen++] = (KeySeen){row, key};
}

/* True if a message that the format reads has exactly this text, so that it is not lost. */
static bool has_text(const Format *f, const cJSON *json, const char *text)
{
    for (const cJSON *list = json->child; list; list = list->next) {
        if (!names_listed(f->uses, list->string) || !is_messages(list))
            continue;
        for (const cJSON *m = list->child; m; m = m->next) {
            const char *key = json_get(m, "content") ? "content" : "value";
            const char *value = cJSON_GetStringValue(json_get(m, key));
            if (value && !strcmp(value, text))
                return true;
        }
    }
    return false;
}

/* Notes the members of an object that are not in `uses`. f NULL: of a message. also: bits of
 * formats whose keys are not lost. */
static void note_members(const Format *f, const cJSON *json, const char *uses, unsigned also,
                         Encoded *e, int row)
{
    for (const cJSON *m = json->child; m; m = m->next) {
        bool other = false;
        if (!has_content(m) || names_listed(uses, m->string))
            continue;
        if (e->row[row].rendered && (f ? !strcmp(m->string, "tools") : !key_describes(m->string)))
            continue;            /* the template has read it: pack_render.c checks that */
        for (int i = 0; i < NFORMATS && !other; i++)
            other = also >> i & 1 && names_listed(pack_format[i].uses, m->string);
        if (other)
            continue;
        const bool is_content = !is_metadata(f, m->string) &&
                                !(f && cJSON_IsString(m) && has_text(f, json, m->valuestring));
        const int before = e->keys.n, key = keys_number(&e->keys, m->string, is_content);
        if (e->keys.n > before && is_content)
            e->keys.key[key].meant = almost(uses, json, m->string);
        keys_add(e, row, key);
    }
}

/* True if an object has content under all keys of "a|b", one of which is not in `uses`. */
static bool fits_also(const cJSON *json, const char *has, const char *uses)
{
    bool new = false;
    for (size_t n; *has; has += n + (has[n] == '|')) {
        char word[64];
        n = strcspn(has, "|");
        snprintf(word, sizeof word, "%.*s", (int)n, has);
        if (!has_content(json_get(json, word)))
            return false;
        new = new || !names_listed(uses, word);
    }
    return new;
}

/* Returns the formats other than f that fit an object, as bits. */
static unsigned formats_also(const Format *f, const cJSON *json)
{
    unsigned also = 0;
    bool more = false;           /* it has keys besides those of f and metadata, which is rare */
    for (const cJSON *m = json->child; m && !more; m = m->next)
        more = !names_listed(f->uses, m->string) && !is_metadata(f, m->string);
    for (int i = 0; i < NFORMATS && more; i++)
        also |= (unsigned)fits_also(json, pack_format[i].has, f->uses) << i;
    return also;
}

void keys_note(const Format *f, const cJSON *json, Encoded *e, int row)
{
    const unsigned also = formats_also(f, json);
    e->row[row].also = also;
    note_members(f, json, f->uses, also, e, row);
    for (const cJSON *m = json->child; m; m = m->next)
        if (names_listed(f->uses, m->string) && is_messages(m))
            for (const cJSON *one = m->child; one; one = one->next)
                note_members(NULL, one, message_keys, 0, e, row);
}

/* ---- keys of all rows ------------------------------------------------------------------------ */

void pack_keys(Pack *p, const Encoded *e, int row, const char *file, int *next)
{
    for (; *next < e->nseen && e->seen[*next].row <= row; ++*next) {
        if (e->seen[*next].row < row)
            continue;
        const Key *from = &e->keys.key[e->seen[*next].key];
        const int before = p->keys.n, number = keys_number(&p->keys, from->name, from->content);
        Key *to = &p->keys.key[number];
        if (p->keys.n > before) {
            to->meant = from->meant ? format("%s", from->meant) : NULL;
            to->first = (Location){file, e->row[row].line};
        }
        to->rows++;
    }
    const RowOut *r = &e->row[row];
    for (int i = 0; i < NFORMATS; i++)
        if (r->also >> i & 1 && !p->nalso[i]++)
            p->taken[i] = r->form;
}

/* Returns a name from the data without control characters, malloc'ed. */
static char *plain(const char *name)
{
    char *text = format("%.60s", name);
    for (char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    return text;
}

static const char *why_content(const char *key)
{
    for (size_t i = 0; i < sizeof content / sizeof *content; i++)
        if (!strcmp(content[i].key, key))
            return content[i].why;
    return NULL;
}

/* "tools (3 rows, first in line 7: tool definitions are not supported)"; malloc'ed. */
static char *key_text(const Key *k, const Location *first)
{
    const char *why = why_content(k->name);
    const bool same = k->first.file == first->file && k->first.line == first->line;
    char *name = plain(k->name), *meant = k->meant ? format("did you mean %s?", k->meant) : NULL,
         *at = same ? format("%s", "") : format(", first %s:%d", k->first.file, k->first.line);
    char *all = format("%s (%lld row%s%s%s%s)", name, (long long)k->rows, k->rows == 1 ? "" : "s",
                       at, meant || why ? ": " : "", meant ? meant : why ? why : "");
    free(name), free(meant), free(at);
    return all;
}

/* True if a name can be typed in the list of --ignore-keys. */
static bool can_be_typed(const char *name)
{
    bool good = strcmp(name, "...") && !strchr(name, ',');
    for (; *name; name++)
        good = good && (unsigned char)*name >= 0x20 && *name != 0x7f;
    return good;
}

static char *appended(char *to, const char *comma, const char *word)
{
    char *longer = to ? format("%s%s%s", to, comma, word) : format("%s", word);
    free(to);
    return longer;
}

char *keys_error(const Pack *p, const char *command, char *const *ignore, int nignore, Location *at)
{
    char *list = NULL, *names = NULL;
    *at = (Location){0};
    for (int i = 0; i < p->keys.n; i++)
        if (p->keys.key[i].content && !at->file)
            *at = p->keys.key[i].first;
    for (int i = 0; i < nignore; i++)
        names = appended(names, ",", ignore[i]);
    for (int i = 0; i < p->keys.n; i++) {
        const Key *k = &p->keys.key[i];
        if (!k->content)
            continue;
        char *one = key_text(k, at);
        list = appended(list, ", ", one);
        free(one);
        if (can_be_typed(k->name))
            names = appended(names, ",", k->name);
    }
    if (!list) {
        free(names);
        return NULL;
    }
    char *word = shell_word(names ? names : "");
    char *error = format("these keys would be dropped: %s; to pack without them: %s --ignore-keys "
                         "%s", list, command ? command : "gen pack ...", word);
    free(list), free(names), free(word);
    return error;
}

void keys_report(const Pack *p, const char *format_flag, FILE *to)
{
    char *list = NULL;
    for (int i = 0; i < p->keys.n; i++) {
        const Key *k = &p->keys.key[i];
        char *name = plain(k->name), *one = format("%s: %lld", name, (long long)k->rows);
        list = k->content ? list : appended(list, ", ", one);
        free(name), free(one);
    }
    if (list)
        fprintf(to, "metadata, not used: %s\n", list);
    free(list);
    for (int i = 0; i < NFORMATS; i++)
        if (p->nalso[i])
            fprintf(to, "%lld row%s the format %s, too, and %s read as %s (%s %s for the other)\n",
                    (long long)p->nalso[i], p->nalso[i] == 1 ? " fits" : "s fit",
                    pack_format[i].name, p->nalso[i] == 1 ? "was" : "were",
                    pack_format[p->taken[i]].name, format_flag ? format_flag : "--format",
                    pack_format[i].name);
}
