/* settings.c -- parser for other trainers' settings files.
 *
 * In:    YAML 1.1, JSON, or one assignment per line (TOML, Python).
 * Out:   a tree of keys and values; errors end the program.
 * Keeps: order and line of every key. Nothing is skipped: text that cannot be read is an error or a
 *        value of kind SETTING_OTHER.
 * Method: YAML by libyaml, with plain scalars typed as in PyYAML; JSON by runtime/files/json.h. */
#define _GNU_SOURCE
#include "gen/config/settings.h"
#include "runtime/files/names.h"
#include "runtime/files/json.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { DEPTH = 64 };             /* maximum nesting of tables and lists */

static Setting *setting_new(SettingKind kind, const char *text, int line)
{
    Setting *s = arena_new(sizeof *s);
    *s = (Setting){.key = "", .kind = kind, .text = text, .line = line};
    return s;
}

const char *setting_shown(const Setting *s)
{
    enum { LONGEST = 60 };
    const char *text = s->typed ? s->typed : s->text;
    Str items = {0};
    const bool table = s->kind == SETTING_TABLE;
    for (const Setting *c = s->first; c && items.n <= LONGEST; c = c->next)
        str_print(&items, "%s%s%s%s", items.n ? ", " : "", c->key, table ? ": " : "",
                  setting_shown(c));
    if (table || s->kind == SETTING_LIST)
        text = text_print(table ? "{%s}" : "[%s]", items.n ? items.text : "");
    return text_comment(strlen(text) > LONGEST ? text_print("%.*s...", LONGEST, text) : text);
}

static void append(Setting *to, Setting *value)
{
    *(to->last ? &to->last->next : &to->first) = value;
    to->last = value;
}

/* Adds a value to a table or list; the same key twice in a table is an error. */
static void add(Setting *to, const char *path, const char *key, Setting *value)
{
    value->key = key;
    for (const Setting *c = to->first; c && to->kind == SETTING_TABLE; c = c->next)
        if (!strcmp(c->key, key))
            err((Loc){0},
                "%s: the key %s appears twice, %s (line %d) and %s (line %d): keep one of them",
                path, text_comment(key), setting_shown(c), c->line, setting_shown(value),
                value->line);
    append(to, value);
}

/* ---- words of YAML 1.1 ----------------------------------------------------------------------- */

static bool listed(const char *const *words, const char *text)
{
    while (*words && strcmp(*words, text))
        words++;
    return *words != NULL;
}

/* Copies a number without its underscores. */
static char *bare_number(const char *text)
{
    char *copy = text_copy(text), *to = copy;
    for (const char *p = text + (*text == '+'); *p; p++)
        if (*p != '_')
            *to++ = *p;
    *to = 0;
    return copy;
}

/* Value of a base-60 number as in PyYAML, 1:30 and 1:30.5; NULL: not one. */
static char *base_60(const char *text)
{
    const char *sign = *text == '-' ? "-" : "", *p = bare_number(text);
    p += *p == '-';
    const bool fraction = strchr(p, '.') != NULL;
    if (!strchr(p, ':') || (*p == '0' && !fraction) || strchr(text, '_'))
        return NULL;
    double sum = 0;
    for (int part = 0;; part++) {
        const size_t digits = strspn(p, "0123456789");
        const bool last = !strchr(p, ':');
        if (!digits || (part && (digits > 2 || (digits == 2 && *p > '5'))))
            return NULL;
        sum = sum * 60 + strtod(p, NULL);
        p += digits;
        if (last && *p == '.')
            p += 1 + strspn(p + 1, "0123456789");
        if (last)
            return *p ? NULL : text_print("%s%.15g", sign, sum);
        if (*p++ != ':')
            return NULL;
    }
}

/* Decimal digits of an integer as in PyYAML; 010 is 8; NULL: not one. */
static char *whole_number(const char *text)
{
    const char *sign = *text == '-' ? "-" : "", *p = text + (*text == '-' || *text == '+');
    int base = p[0] != '0' || !p[1] ? 10 : p[1] == 'x' ? 16 : p[1] == 'b' ? 2 : 8;
    const char *digits = p + (base == 16 || base == 2 ? 2 : 0);
    const char *set = base == 16  ? "0123456789abcdefABCDEF_"
                      : base == 2 ? "01_"
                      : base == 8 ? "01234567_"
                                  : "0123456789_";
    if (!*digits || digits[strspn(digits, set)] || *p == '_')
        return NULL;
    char *end, *plain = bare_number(digits);
    errno = 0;
    unsigned long long value = strtoull(plain, &end, base);
    return errno || !*plain ? NULL
           : base == 10     ? text_print("%s%s", sign, plain)
                            : text_print("%s%llu", sign, value);
}

/* True if PyYAML reads a plain scalar as a float: with a point, and a sign in the exponent. */
static bool is_float(const char *text)
{
    const char *p = text + (*text == '-' || *text == '+');
    size_t before = strspn(p, "0123456789_");
    if (*p == '_' || p[before] != '.' || (!before && (p > text || !isdigit((unsigned char)p[1]))))
        return false;
    p += before + 1;
    p += strspn(p, "0123456789_");
    if (*p != 'e' && *p != 'E')
        return !*p;
    p++;
    return (*p == '-' || *p == '+') && isdigit((unsigned char)p[1]) &&
           !p[1 + strspn(p + 1, "0123456789")];
}

static Setting *plain_word(const char *text, int line)
{
    static const char *const no_value[] = {"", "~", "null", "Null", "NULL", NULL};
    static const char *const yes[] = {"yes",  "Yes", "YES", "true", "True",
                                      "TRUE", "on",  "On",  "ON",   NULL};
    static const char *const no[] = {"no",    "No",  "NO",  "false", "False",
                                     "FALSE", "off", "Off", "OFF",   NULL};
    char *number;
    if (listed(no_value, text))
        return setting_new(SETTING_NULL, "", line);
    if (listed(yes, text) || listed(no, text))
        return setting_new(SETTING_BOOL, listed(yes, text) ? "true" : "false", line);
    if ((number = whole_number(text)) || (number = base_60(text)))
        return setting_new(SETTING_NUMBER, number, line);
    if (is_float(text))
        return setting_new(SETTING_NUMBER, bare_number(text), line);
    return setting_new(SETTING_TEXT, text_copy(text), line);
}

/* ---- YAML ------------------------------------------------------------------------------------ */

typedef struct {
    yaml_parser_t parser;
    yaml_event_t event;          /* current event */
    const char *path;
    int documents;
} Yaml;

static int line_of(const Yaml *y)
{
    return (int)y->event.start_mark.line + 1;
}

static void next_event(Yaml *y)
{
    yaml_event_delete(&y->event);
    if (!yaml_parser_parse(&y->parser, &y->event)) {
        size_t line =
            y->parser.problem_mark.line ? y->parser.problem_mark.line : y->parser.context_mark.line;
        err((Loc){y->path, (int)line + 1}, "not YAML: %s%s%s",
            y->parser.problem ? y->parser.problem : "out of memory", y->parser.context ? ", " : "",
            y->parser.context ? y->parser.context : "");
    }
}

static void refuse_marks(const Yaml *y, const yaml_char_t *anchor, const yaml_char_t *tag)
{
    static const char standard[] = "tag:yaml.org,2002:";
    const bool known = tag && !strncmp((const char *)tag, standard, sizeof standard - 1);
    const Loc loc = {y->path, line_of(y)};
    if (anchor)
        err(loc, "anchors are not supported (&%s): write the value where it is used",
            (const char *)anchor);
    if (tag)
        err(loc, "tags are not supported (%s%s): write the value without it", known ? "!!" : "",
            (const char *)tag + (known ? sizeof standard - 1 : 0));
}

static Setting *yaml_value(Yaml *y, int depth);

static void yaml_items(Yaml *y, Setting *list, int depth)
{
    for (next_event(y); y->event.type != YAML_SEQUENCE_END_EVENT; next_event(y))
        add(list, y->path, "", yaml_value(y, depth + 1));
}

static void yaml_members(Yaml *y, Setting *table, int depth)
{
    for (next_event(y); y->event.type != YAML_MAPPING_END_EVENT; next_event(y)) {
        const int line = line_of(y);
        if (y->event.type != YAML_SCALAR_EVENT && y->event.type != YAML_ALIAS_EVENT)
            err((Loc){y->path, line}, "a key is a list or a table: write key: value");
        const Setting *key = yaml_value(y, depth);
        const char *name = key->typed ? key->typed : key->text;
        if (!strcmp(name, "<<"))
            err((Loc){y->path, line},
                "the merge key << is not supported: write out the keys that it stands for");
        next_event(y);
        Setting *value = yaml_value(y, depth + 1);
        value->line = line;
        add(table, y->path, name, value);
    }
}

/* Parses the value that begins with the current event, up to its last event. */
static Setting *yaml_value(Yaml *y, int depth)
{
    const Loc loc = {y->path, line_of(y)};
    Setting *s;
    if (depth > DEPTH)
        err(loc, "lists and tables are nested deeper than %d", DEPTH);
    switch (y->event.type) {
    case YAML_ALIAS_EVENT:
        err(loc, "aliases are not supported (*%s): write the value here",
            (const char *)y->event.data.alias.anchor);
    case YAML_SCALAR_EVENT: {
        refuse_marks(y, y->event.data.scalar.anchor, y->event.data.scalar.tag);
        const char *text = (const char *)y->event.data.scalar.value;
        if (strlen(text) != y->event.data.scalar.length)
            err(loc, "a text has a NUL character");
        bool plain = y->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
        s = plain ? plain_word(text, loc.line)
                  : setting_new(SETTING_TEXT, text_copy(text), loc.line);
        s->typed = text_copy(text);
        return s;
    }
    case YAML_SEQUENCE_START_EVENT:
        refuse_marks(y, y->event.data.sequence_start.anchor, y->event.data.sequence_start.tag);
        s = setting_new(SETTING_LIST, "", loc.line);
        yaml_items(y, s, depth);
        return s;
    case YAML_MAPPING_START_EVENT:
        refuse_marks(y, y->event.data.mapping_start.anchor, y->event.data.mapping_start.tag);
        s = setting_new(SETTING_TABLE, "", loc.line);
        yaml_members(y, s, depth);
        return s;
    default:
        err(loc, "not YAML: a value is missing");
    }
}

static Setting *read_yaml(const char *path, const char *text, size_t n)
{
    Yaml y = {.path = path};
    Setting *root = setting_new(SETTING_TABLE, "", 1);
    if (!yaml_parser_initialize(&y.parser))
        err((Loc){path, 0}, "out of memory");
    yaml_parser_set_input_string(&y.parser, (const unsigned char *)text, n);
    for (next_event(&y); y.event.type != YAML_STREAM_END_EVENT; next_event(&y)) {
        if (y.event.type != YAML_DOCUMENT_START_EVENT)
            continue;
        if (y.documents++)
            err((Loc){path, line_of(&y)},
                "several documents in a file are not supported: split it at ---");
        next_event(&y);
        root = yaml_value(&y, 0);
        next_event(&y);
    }
    yaml_event_delete(&y.event);
    yaml_parser_delete(&y.parser);
    return root;
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* Position in a text that json_check() accepted, from which keys are searched; its line. */
typedef struct {
    const char *p;
    int line;
} Keys;

/* Line of the next key. */
static int next_key(Keys *k)
{
    while (*k->p) {
        k->line += *k->p == '\n';
        if (*k->p++ != '"')
            continue;
        while (*k->p != '"')
            k->p += 1 + (*k->p == '\\');
        k->p++;
        const char *q = k->p + strspn(k->p, " \t\r\n");
        if (*q == ':')
            return k->line;
    }
    return k->line;
}

static Setting *json_value(const char *path, const cJSON *json, Keys *keys, int line)
{
    static const struct { int type; SettingKind kind; } kinds[] = {
        {cJSON_NULL, SETTING_NULL}, {cJSON_True, SETTING_BOOL},   {cJSON_False, SETTING_BOOL},
        {cJSON_Number, SETTING_NUMBER}, {cJSON_String, SETTING_TEXT}, {cJSON_Array, SETTING_LIST},
        {cJSON_Object, SETTING_TABLE}};
    Setting *s = setting_new(SETTING_OTHER, "", line);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if ((json->type & 0xff) == kinds[i].type)
            s->kind = kinds[i].kind;
    if (s->kind == SETTING_BOOL)
        s->text = cJSON_IsTrue(json) ? "true" : "false";
    else if (s->kind == SETTING_TEXT)
        s->text = text_copy(json->valuestring);
    else if (s->kind == SETTING_NUMBER && json->valuestring)
        s->text = text_copy(json->valuestring);
    else if (s->kind == SETTING_NUMBER && !(json->type & JSON_FLOAT))
        s->text = text_print("%.0f", json->valuedouble);
    else if (s->kind == SETTING_NUMBER) {
        char text[64];
        json_float_text(json->valuedouble, text);
        s->text = text_copy(text);
    } else if (cJSON_IsArray(json) || cJSON_IsObject(json))
        for (const cJSON *c = json->child; c; c = c->next) {
            const int at = cJSON_IsObject(json) ? next_key(keys) : line;
            add(s, path, c->string ? text_copy(c->string) : "", json_value(path, c, keys, at));
        }
    return s;
}

static Setting *read_json(const char *path, const char *text, size_t n)
{
    char *error = NULL;
    Keys keys = {text, 1};
    cJSON *json = json_parse(text, n, &error);
    if (!json && (json = cJSON_ParseWithLength(text, n)))
        /* ends the program if a key appears twice, naming both */
        json_value(path, json, &keys, 1);
    if (error)
        err((Loc){0}, "%s: not JSON: %s", path, error);
    Setting *root = json_value(path, json, &keys, 1);
    cJSON_Delete(json);
    return root;
}

/* ---- an assignment a line: TOML, and what nanoGPT reads -------------------------------------- */

typedef struct {
    const char *path;
    bool python;                 /* else TOML */
    int line;
} Lines;

static bool at_end(const char *p)
{
    p += strspn(p, " \t\r");
    return !*p || *p == '#';
}

/* Parses a quoted text, a number, a word or a product of integers and moves *p past it; NULL: none
 * of them. */
static Setting *assigned(const Lines *l, const char **p)
{
    const char *q = *p;
    if (*q == '"' || *q == '\'') {
        const char *end = strchr(q + 1, *q);
        if (!end || end[1] == *q || memchr(q, '\\', (size_t)(end - q)))
            return NULL;
        *p = end + 1;
        return setting_new(SETTING_TEXT, text_print("%.*s", (int)(end - q - 1), q + 1), l->line);
    }
    size_t n = strcspn(q, " \t\r,]#*");
    char *word = text_print("%.*s", (int)n, q), *end;
    *p = q + n;
    if (names_same(word, "true") || names_same(word, "false"))
        return setting_new(SETTING_BOOL, names_same(word, "true") ? "true" : "false", l->line);
    if (l->python && !strcmp(word, "None"))
        return setting_new(SETTING_NULL, "", l->line);
    char *number = bare_number(word);
    if (!*number || number[strspn(number, "+-.0123456789eE")])
        return NULL;
    strtod(number, &end);
    if (*end)
        return NULL;
    long long product = strtoll(number, &end, 10), factor;
    const bool whole = !*end;
    for (q = *p + strspn(*p, " \t"); l->python && whole && *q == '*'; q += strspn(q, " \t")) {
        q += 1 + strspn(q + 1, " \t");
        factor = strtoll(q, &end, 10);
        if (end == q || *end == '.' || __builtin_mul_overflow(product, factor, &product))
            return NULL;
        *p = q = end;
        number = text_print("%lld", product);
    }
    return setting_new(SETTING_NUMBER, number, l->line);
}

static Setting *assigned_list(const Lines *l, const char **p)
{
    Setting *list = setting_new(SETTING_LIST, "", l->line);
    const char *q = *p + 1;
    for (;;) {
        q += strspn(q, " \t");
        if (*q == ']')
            break;
        Setting *item = assigned(l, &q);
        if (!item)
            return NULL;
        add(list, l->path, "", item);
        q += strspn(q, " \t");
        if (*q != ',' && *q != ']')
            return NULL;
        q += *q == ',';
    }
    *p = q + 1;
    return list;
}

static Setting *child(Setting *table, const char *key)
{
    for (Setting *c = table->first; c; c = c->next)
        if (!strcmp(c->key, key))
            return c;
    return NULL;
}

/* Table of a line [a.b]. */
static Setting *toml_table(const Lines *l, Setting *root, const char *line)
{
    const char *end = strchr(line, ']');
    if (line[1] == '[' || !end || !at_end(end + 1) || end == line + 1)
        err((Loc){l->path, l->line}, "expected [section] or key = value; lists of tables are not "
                                     "read");
    char *name = text_print("%.*s", (int)(end - line - 1), line + 1), *save = NULL;
    for (char *part = strtok_r(name, ". \t\"'", &save); part;
         part = strtok_r(NULL, ". \t\"'", &save)) {
        Setting *next = child(root, part);
        if (!next)
            add(root, l->path, part, next = setting_new(SETTING_TABLE, "", l->line));
        if (next->kind != SETTING_TABLE)
            err((Loc){l->path, l->line}, "%s has a value in line %d and is a section here", part,
                next->line);
        root = next;
    }
    return root;
}

/* Adds a line that is not an assignment as a key, so that messages list it. */
static void add_statement(Setting *to, const char *line, int number)
{
    Setting *s = setting_new(SETTING_OTHER, "", number);
    s->key = text_copy(line);
    append(to, s);
}

static void read_line(const Lines *l, Setting *to, const char *line)
{
    const char quote = *line == '"' || *line == '\'' ? *line : 0, *p = line + (quote != 0);
    size_t n = 0;
    while (isalnum((unsigned char)p[n]) || (p[n] && strchr("_-.", p[n])))
        n++;
    const char *key = text_print("%.*s", (int)n, p);
    p += n;
    p += quote && *p == quote;
    p += strspn(p, " \t");
    if (n && *p == '=' && p[1] != '=') {
        p += 1 + strspn(p + 1, " \t");
        const char *from = p;
        Setting *value = *p == '[' ? assigned_list(l, &p) : assigned(l, &p);
        if (value && at_end(p)) {
            add(to, l->path, key, value);
            return;
        }
        if (l->python) {
            add(to, l->path, key, setting_new(SETTING_OTHER, text_copy(from), l->line));
            return;
        }
    }
    if (!l->python)
        err((Loc){l->path, l->line},
            "expected key = value in one line, with a text, a number, true, false or a list of "
            "them");
    add_statement(to, line, l->line);
}

/* Tracks triple-quoted texts over a line; *quote: the quote of an open one, else 0. */
static void follow_text(const char *line, char *quote)
{
    for (const char *p = line; *p; p++) {
        if (!*quote && *p == '#')
            return;
        if ((*quote ? *p != *quote : *p != '"' && *p != '\'') || p[1] != *p || p[2] != *p)
            continue;
        *quote = *quote ? 0 : *p;
        p += 2;
    }
}

static Setting *read_lines(const char *path, bool python, const char *text, size_t n)
{
    Lines l = {.path = path, .python = python};
    char quote = 0;
    Setting *root = setting_new(SETTING_TABLE, "", 1), *to = root;
    if (strlen(text) != n)
        err((Loc){path, 0}, "a NUL character is in the file");
    for (const char *p = text; *p; p += *p == '\n') {
        size_t k = strcspn(p, "\n");
        char *line = text_print("%.*s", (int)k, p);
        for (size_t m = k; m && isspace((unsigned char)line[m - 1]); m--)
            line[m - 1] = 0;
        const char *from = line + strspn(line, " \t");
        const bool text_line = quote != 0, inside = text_line || (python && from > line);
        p += k;
        l.line++;
        if (python)
            follow_text(line, &quote);
        if (!*from || (*from == '#' && !text_line))
            continue;
        if (inside) {  /* continues a text or a statement */
            add_statement(root, from, l.line);
            continue;
        }
        if (!python && *from == '[')
            to = toml_table(&l, root, from);
        else
            read_line(&l, to, from);
    }
    return root;
}

Setting *settings_read(const char *path, const char *language, const char *text, size_t n)
{
    static const char mark[] = "\xef\xbb\xbf";
    const size_t skip = n >= 3 && !memcmp(text, mark, 3) ? 3 : 0;
    text += skip;
    n -= skip;
    Setting *root = !strcmp(language, "YAML") ? read_yaml(path, text, n)
                    : !strcmp(language, "JSON")
                        ? read_json(path, text, n)
                        : read_lines(path, !strcmp(language, "Python"), text, n);
    if (root->kind == SETTING_NULL)
        root = setting_new(SETTING_TABLE, "", 1);
    if (root->kind != SETTING_TABLE)
        err((Loc){path, root->line}, "must be keys with values, found %s",
            root->kind == SETTING_LIST ? "a list" : "a value alone");
    return root;
}
