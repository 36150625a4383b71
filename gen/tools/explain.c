/* explain.c -- `gen fields` and `gen explain`: recipe fields and program flags, as text or JSON. */
#include "gen/config/alias.h"
#include "gen/tools/answer.h"
#include "gen/tools/tools.h"

#include <string.h>

static const char *type_name(FieldType type)
{
    static const char *const name[] =
        {[FT_INT] = "int",       [FT_FLOAT] = "float", [FT_BOOL] = "bool",  [FT_STRING] = "string",
         [FT_CHOICE] = "choice", [FT_LIST] = "list",   [FT_EVERY] = "every"};
    return name[type];
}

static void add_range(cJSON *o, FieldType type, double lo, double hi, const char *words)
{
    const bool number = type == FT_INT || type == FT_FLOAT || type == FT_EVERY;
    answer_text(o, "type", type_name(type));
    if (number) {
        answer_float(o, "least", lo);
        answer_float(o, "largest", hi);
    }
    if (type == FT_CHOICE)
        answer_words(o, "choices", words);
}

/* Default as a JSON value; null if a rule sets it. */
static void add_default(cJSON *o, const FieldRow *r)
{
    FieldValue v = {0};
    const char *text = r->def;
    if (!*text || *text == '?' || value_parse(r->type, &text, &v)) {
        answer_text(o, "default", NULL);
        return;
    }
    if (r->type == FT_INT)
        answer_int(o, "default", v.i);
    else if (r->type == FT_FLOAT)
        answer_float(o, "default", v.f);
    else if (r->type == FT_BOOL)
        answer_bool(o, "default", v.i);
    else if (r->type == FT_LIST) {
        cJSON *list = answer_list(o, "default");
        for (int i = 0; i < v.n; i++)
            answer_word(list, v.list[i]);
    } else
        answer_text(o, "default", v.s);
}

static void add_field(cJSON *list, int i)
{
    const FieldRow *r = &field_row[i];
    cJSON *o = answer_item(list);
    answer_text(o, "name", r->path);
    add_range(o, r->type, r->lo, r->hi, field_choices(i));
    answer_bool(o, "required", !*r->def);
    add_default(o, r);
    answer_text(o, "unit", *r->unit ? r->unit : NULL);
    answer_text(o, "bits", bits_name[r->bits]);
    answer_words(o, "objectives", field_objectives(i) ? field_objectives(i) : "");
    answer_text(o, "about", r->doc);
}

static void add_flag(cJSON *list, int i)
{
    const RunFlag *f = &run_flag[i];
    const bool words = run_flag_words(i);
    cJSON *o = answer_item(list);
    answer_text(o, "name", f->name);
    add_range(o, words ? FT_CHOICE : f->type, f->lo, f->hi, f->value);
    answer_text(o, "value", *f->value ? f->value : NULL);
    answer_bool(o, "recipe", f->recipe != 0);
    answer_words(o, "objectives", run_flag_objectives(i) ? run_flag_objectives(i) : "");
    answer_text(o, "about", f->doc);
}

/* word NULL: all fields, and the flags that recipes can set. */
static void fields_answer(const char *word)
{
    int *at = arena_new(sizeof *at * (size_t)(NFIELDS + nrun_flags)), n = 0;
    const Alias *row = NULL;
    if (word)
        n = config_find(word, at, &row);
    for (int i = 0; !word && i < NFIELDS + nrun_flags; i++)
        if (i < NFIELDS || run_flag[i - NFIELDS].recipe)
            at[n++] = i;
    cJSON *o = answer_new();
    if (word)
        answer_text(o, "said", row ? alias_say(row) : NULL);
    cJSON *fields = answer_list(o, "fields"), *flags = answer_list(o, "flags");
    for (int i = 0; i < n; i++)
        if (at[i] < NFIELDS)
            add_field(fields, at[i]);
        else
            add_flag(flags, at[i] - NFIELDS);
    answer_print(o);
}

void report_fields(const char *word, FILE *to)
{
    if (answer_wanted())
        fields_answer(word);
    else if (word)
        config_explain(to, word);
    else
        config_fields(to);
}
