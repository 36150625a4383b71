/* check_yaml.c -- checks YAML of `gen launch` by a table of fields: check_yaml FIELDS <FILE.
 *
 * In:    fields.txt, which tests/oracle/engines.py writes; documents of the types TrainJob,
 *        TrainingRuntime (by their kind) or SkyPilot.
 * Out:   a line PATH=VALUE for each scalar of the file, in order; messages on stderr, and 1. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

enum { ROWS = 2000, PATH = 400 };
typedef struct { char *type, *field, *need, *kinds; } Row;
static Row row[ROWS];
static int nrows, faults;
static yaml_document_t doc;

static void read_rows(const char *path)
{
    static char text[1 << 20];
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (!n)
        exit(2);
    for (char *line, *rest = text; (line = strsep(&rest, "\n")) && nrows < ROWS;)
        if (*line && *line != '#') {
            Row *r = &row[nrows++];
            r->type = strsep(&line, "\t"), r->field = strsep(&line, "\t");
            r->need = strsep(&line, "\t"), r->kinds = line;
        }
    fclose(f);
}

static void fault(const yaml_node_t *n, const char *path, const char *why)
{
    fprintf(stderr, "line %zu: %s: %s\n", n->start_mark.line + 1, path, why);
    faults++;
}

static const char *text_of(const yaml_node_t *n)
{
    return n->type == YAML_SCALAR_NODE ? (const char *)n->data.scalar.value : "";
}

static bool is_plain(const yaml_node_t *n)
{
    return n->type == YAML_SCALAR_NODE && n->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
}

/* True if the scalar is of that kind, as YAML 1.2 reads it. */
static bool is_scalar(const yaml_node_t *n, const char *kind)
{
    const char *text = text_of(n);
    char *end;
    const bool whole = *text && !text[strspn(text, "0123456789")];
    if (n->type != YAML_SCALAR_NODE)
        return false;
    strtod(text, &end);
    const bool number = is_plain(n) && *text && !*end;
    const bool bool_ = is_plain(n) && (!strcmp(text, "true") || !strcmp(text, "false"));
    const bool null = is_plain(n) && (!*text || !strcmp(text, "null") || !strcmp(text, "~"));
    if (*kind == '=')
        return !strcasecmp(kind + 1, text);
    return !strcmp(kind, "int")      ? number && whole
           : !strcmp(kind, "number") ? number
           : !strcmp(kind, "bool")   ? bool_
           : !strcmp(kind, "null")   ? null
           : !strcmp(kind, "string") ? !number && !bool_ && !null
                                     : false;
}

static void check(int node, const char *kinds, const char *path);

static const Row *row_of(const char *type, const char *field)
{
    for (int i = 0; i < nrows; i++)
        if (!strcmp(row[i].type, type) && !strcmp(row[i].field, field))
            return &row[i];
    return NULL;
}

static bool is_type(const char *name)
{
    for (int i = 0; i < nrows; i++)
        if (!strcmp(row[i].type, name))
            return true;
    return false;
}

static void check_object(const yaml_node_t *n, const char *type, const char *path)
{
    for (yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top; p++) {
        const yaml_node_t *key = yaml_document_get_node(&doc, p->key);
        const Row *r = row_of(type, text_of(key));
        char below[PATH];
        snprintf(below, sizeof below, "%s.%s", path, text_of(key));
        if (!r)
            fault(key, below, "no such field");
        else
            check(p->value, r->kinds, below);
        for (yaml_node_pair_t *q = n->data.mapping.pairs.start; q < p; q++)
            if (!strcmp(text_of(yaml_document_get_node(&doc, q->key)), text_of(key)))
                fault(key, below, "twice");
    }
    for (int i = 0; i < nrows; i++) {
        bool found = strcmp(row[i].type, type) || strcmp(row[i].need, "required");
        for (yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top; p++)
            found |= !strcmp(text_of(yaml_document_get_node(&doc, p->key)), row[i].field);
        if (!found)
            fault(n, path, row[i].field);
    }
}

/* Checks a node by the first of its kinds that has its form. */
static void check(int node, const char *kinds, const char *path)
{
    const yaml_node_t *n = yaml_document_get_node(&doc, node);
    char copy[1000], below[PATH], *rest = copy, *kind;
    const char *map[8], *list[8];
    int maps = 0, lists = 0;
    snprintf(copy, sizeof copy, "%s", kinds);
    while ((kind = strsep(&rest, "|"))) {
        if (n->type == YAML_SCALAR_NODE && is_scalar(n, kind)) {
            printf("%s=%s\n", path, text_of(n));
            return;
        }
        if (n->type == YAML_MAPPING_NODE && is_type(kind)) {
            check_object(n, kind, path);
            return;
        }
        if (!strncmp(kind, "map:", 4) && maps < 8)
            map[maps++] = kind + 4;
        if (!strncmp(kind, "list:", 5) && lists < 8)
            list[lists++] = kind + 5;
    }
    char either[1000] = "";
    for (int i = 0; i < (n->type == YAML_MAPPING_NODE ? maps : lists); i++)
        strcat(strcat(either, i ? "|" : ""), n->type == YAML_MAPPING_NODE ? map[i] : list[i]);
    if (n->type == YAML_MAPPING_NODE && maps) {
        for (yaml_node_pair_t *p = n->data.mapping.pairs.start; p < n->data.mapping.pairs.top; p++) {
            snprintf(below, sizeof below, "%s.%s", path,
                     text_of(yaml_document_get_node(&doc, p->key)));
            check(p->value, either, below);
        }
    } else if (n->type == YAML_SEQUENCE_NODE && lists) {
        int k = 0;
        for (yaml_node_item_t *i = n->data.sequence.items.start; i < n->data.sequence.items.top; i++) {
            snprintf(below, sizeof below, "%s[%d]", path, k++);
            check(*i, either, below);
        }
    } else {
        char why[1200];
        snprintf(why, sizeof why, "\"%s\": must be %s", text_of(n), kinds);
        fault(n, path, why);
    }
}

int main(int argc, char **argv)
{
    yaml_parser_t parser;
    if (argc != 2 || !yaml_parser_initialize(&parser))
        return 2;
    read_rows(argv[1]);
    yaml_parser_set_input_file(&parser, stdin);
    for (int documents = 0;; documents++) {
        if (!yaml_parser_load(&parser, &doc)) {
            fprintf(stderr, "line %zu: %s\n", parser.problem_mark.line + 1, parser.problem);
            return 1;
        }
        const yaml_node_t *root = yaml_document_get_root_node(&doc);
        if (!root)
            return faults || !documents;
        const char *type = "SkyPilot";
        for (yaml_node_pair_t *p = root->data.mapping.pairs.start;
             root->type == YAML_MAPPING_NODE && p < root->data.mapping.pairs.top; p++)
            if (!strcmp(text_of(yaml_document_get_node(&doc, p->key)), "kind"))
                type = text_of(yaml_document_get_node(&doc, p->value));
        if (is_type(type))
            check(1, type, type);
        else
            fault(root, type, "no type of the table");
        yaml_document_delete(&doc);
    }
}
