/* foreign.c -- equivalents of other trainers' settings.
 *
 * In:    rows of runtime/files/aliases.def.
 * Out:   the field, flag or argument to write instead. */
#include "gen/config/config.h"
#include "gen/config/foreign.h"

#include <string.h>

static const char *noted(const Foreign *row)
{
    return *row->note ? text_print(" (%s)", row->note) : "";
}

const char *foreign_typed(const Foreign *row, const char *given)
{
    int flag = run_flag_find(row->ours);
    const char *value = given && !given[strcspn(given, " '\"\\")] && *given ? given : "VALUE";
    if (foreign_needless(row, given))
        return text_print("leave it out; here it is %s%s", row->ours, noted(row));
    if (row->kind == FOREIGN_RECIPE || (row->kind == FOREIGN_MEANS && flag < 0))
        return text_print("here it is the word %s=%s%s", row->ours, foreign_value(row, given),
                          noted(row));
    if ((row->kind == FOREIGN_ALIAS || row->kind == FOREIGN_MEANS) && run_flag[flag].recipe)
        return text_print("here it is the word run.%s=%s%s", row->ours,
                          row->kind == FOREIGN_MEANS ? foreign_value(row, given) : value,
                          noted(row));
    return foreign_say(row);
}

/* Value in Lua syntax. */
static const char *in_lua(FieldType type, const char *value)
{
    Str s = {0};
    if (type != FT_STRING && type != FT_CHOICE && type != FT_LIST)
        return value;
    for (size_t n; *value; value += n + (value[n] == ',')) {
        n = type == FT_LIST ? strcspn(value, ",") : strlen(value);
        str_print(&s, "%s\"%.*s\"", s.n ? ", " : "", (int)n, value);
    }
    return type == FT_LIST ? text_print("{ %s }", s.text) : s.text;
}

const char *foreign_written(const Foreign *row, const char *given)
{
    const int field = field_find(row->ours);
    const char *value = foreign_value(row, given);
    if (foreign_needless(row, given))
        return text_print("leave it out; here it is %s%s", row->ours, noted(row));
    if (row->kind != FOREIGN_MEANS || field < 0 || !strcmp(value, row->value))
        return foreign_say(row);
    return text_print("here it is %s = %s%s", row->ours, in_lua(field_row[field].type, value),
                      noted(row));
}

const char *foreign_say(const Foreign *row)
{
    int flag = run_flag_find(row->ours);
    switch (row->kind) {
    case FOREIGN_ALIAS:
    case FOREIGN_LINE:
    case FOREIGN_MEANS:
    case FOREIGN_RECIPE:
        if (flag < 0)
            return text_print("here it is %s%s", row->ours, noted(row));
        return run_flag[flag].recipe
                   ? text_print("here it is run.%s%s", row->ours, noted(row))
                   : text_print("here it is the flag --%s of the training program%s", row->ours,
                                noted(row));
    case FOREIGN_NONE:
        return text_print("not supported: %s", row->note);
    case FOREIGN_ALWAYS:
        return text_print("%s: leave it out", row->note);
    default:
        return row->note;
    }
}
