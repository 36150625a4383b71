/* answer.c -- JSON output of commands; see answer.h. */
#define _GNU_SOURCE
#include "gen/tools/answer.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/files/utf8.h"

static const char *asked;        /* the command; NULL: without --json */

bool answer_wanted(void)
{
    return asked != NULL;
}

/* Replaces invalid UTF-8 by U+FFFD. */
static char *whole_text(const char *text)
{
    Str s = {0};
    str_print(&s, "%s", "");
    for (size_t n = strlen(text), i = 0; i < n;) {
        int bad, k = utf8_length(text + i, n - i, &bad);
        str_print(&s, "%.*s", k ? k : 3, k ? text + i : "\xef\xbf\xbd");
        i += (size_t)(k ? k : bad);
    }
    return s.text;
}

static cJSON *put(cJSON *o, const char *key, cJSON *item)
{
    if (!item || !(key ? cJSON_AddItemToObject(o, key, item) : cJSON_AddItemToArray(o, item)))
        bug("no memory for JSON");
    return item;
}

cJSON *answer_new(void)
{
    cJSON *o = cJSON_CreateObject();
    answer_text(o, "command", asked);
    return o;
}

/* As text, because a double would round it. */
static cJSON *whole_number(int64_t n)
{
    return cJSON_CreateRaw(text_print("%" PRId64, n));
}

void answer_int(cJSON *o, const char *key, int64_t n) { put(o, key, whole_number(n)); }
void answer_number(cJSON *list, int64_t n) { put(list, NULL, whole_number(n)); }
void answer_float(cJSON *o, const char *key, double x) { put(o, key, cJSON_CreateNumber(x)); }
void answer_bool(cJSON *o, const char *key, bool b) { put(o, key, cJSON_CreateBool(b)); }

static cJSON *string(const char *text)
{
    return text ? cJSON_CreateString(whole_text(text)) : cJSON_CreateNull();
}

void answer_text(cJSON *o, const char *key, const char *text) { put(o, key, string(text)); }
void answer_word(cJSON *list, const char *text) { put(list, NULL, string(text)); }
cJSON *answer_object(cJSON *o, const char *key) { return put(o, key, cJSON_CreateObject()); }
cJSON *answer_list(cJSON *o, const char *key) { return put(o, key, cJSON_CreateArray()); }
cJSON *answer_item(cJSON *list) { return put(list, NULL, cJSON_CreateObject()); }

void answer_words(cJSON *o, const char *key, const char *words)
{
    cJSON *list = answer_list(o, key);
    for (const char *p = words; *p; p += *p == '|') {
        size_t n = strcspn(p, "|");
        if (n)
            answer_word(list, text_print("%.*s", (int)n, p));
        p += n;
    }
}

void answer_print(cJSON *o)
{
    char *text = cJSON_Print(o);
    if (!text)
        bug("no memory for JSON");
    puts(text);
    free(text);
    cJSON_Delete(o);
}

static void add_mistake(cJSON *o, Loc loc, const char *text)
{
    answer_text(o, "message", text);
    answer_text(o, "file", loc.file);
    if (loc.line)
        answer_int(o, "line", loc.line);
    else
        answer_text(o, "line", NULL);
}

static void tell(int n, const Loc *loc, const char *const *text, int status)
{
    cJSON *o = answer_new();
    add_mistake(answer_object(o, "error"), loc[0], text[0]);
    cJSON *all = answer_list(o, "errors");
    for (int i = 0; i < n; i++)
        add_mistake(answer_item(all), loc[i], text[i]);
    answer_int(o, "exit_status", status);
    answer_print(o);
}

void answer_begin(const char *command)
{
    asked = command;
    err_on_end(tell);
}
